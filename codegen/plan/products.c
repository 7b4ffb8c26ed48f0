/* products.c: a gemm in; its product in the plan, with its tiles, out. */
#include "codegen/plan/plan.h"
#include "ir/gemm.h"
#include "ir/abi/product.h"
#include "passes/8_memory/offsets/offsets.h"

static uint64_t share_rounded_up(uint64_t n, uint64_t parts, uint64_t unit) {
  uint64_t part = (n + parts - 1) / parts;
  part = (part + unit - 1) / unit * unit;
  return part < n ? part : n;
}

/* Chooses the tiles of a library's product: about two million operations each, enough to outweigh the call's overhead,
 * few enough for two to sixteen threads. */
static void choose_library_tiles(msc_plan_matmul *m) {
  uint64_t parts = 2 * m->m * m->n * m->k / 2000000;
  if (parts < 1) parts = 1;
  if (parts > 16) parts = 16;
  if (m->n >= m->m) m->tile_n = share_rounded_up(m->n, parts, 64);
  else m->tile_m = share_rounded_up(m->m, parts, 16);
}

enum { SHARED = 4 * 1024 * 1024 }; /* most bytes of packed columns of b that all workers share */

static int packing_of(const msc_plan_matmul *m) { return msc_product_packing(msc_dtype_bytes(m->dtype), m->pairs); }

static uint64_t sum_bytes(const msc_plan_matmul *m) { return (uint64_t)msc_product_bytes(msc_dtype_bytes(m->dtype)); }

/* Returns the bytes of one column of a panel, or of one packed row. */
static uint64_t packed_bytes(const msc_plan_matmul *m) {
  return sum_bytes(m) * (uint64_t)msc_product_units((int64_t)m->k, m->blocks, packing_of(m));
}

static uint64_t aligned_bytes(const msc_plan_matmul *m, int64_t elems) {
  return msc_round_to_lines((uint64_t)elems * sum_bytes(m));
}

/* Returns how many columns of b are packed at once for all tiles in them: as many as the last cache holds beside the
 * rest; 0: every worker packs the columns of its own tile. Tiles of whole rows need all columns. */
static uint64_t shared_columns_of(const msc_plan_matmul *m) {
  if (m->batch > 1 || m->tile_m == m->m) return 0;
  uint64_t most = SHARED / packed_bytes(m);
  return m->tile_n == m->n || most >= m->n ? m->n : most / m->tile_n * m->tile_n;
}

/* True if a transposed b is read in place and transposed in registers, square by square, for each group of rows of a.
 * For few rows this takes less time than packing b. Blocks must consist of whole squares. */
static bool transposes_b_in_place(const msc_plan_matmul *m, const msc_product_kernels *kernels) {
  uint64_t rows = kernels->height > 6 ? 8 : 4;
  return !m->transpose_a && m->m <= rows && m->k / m->blocks % (uint64_t)msc_product_lanes(m->width) == 0;
}

/* True if b is read in place. Packing takes as long as multiplying few rows, and longer if the level-2 cache holds b.
 * If rows of b are a multiple of 4096 bytes apart, they share so few places in the nearest cache that the next rows of
 * a do not find them there. They also share few places in the level-2 cache, so that even a b which would fit is packed
 * for more than one group of rows. With low groups, which read b often, half of that size is too much. Columns that
 * fill no panel are packed in any case. */
static bool reads_b_in_place(const msc_plan_matmul *m, const msc_product_kernels *kernels) {
  enum { FEW = 48, FEW_OF_NEAR = 64, NEAR = 1280 * 1024, PLACES = 4096, LONG = 16 };
  bool low = kernels->height <= 6;
  uint64_t apart = m->n * sum_bytes(m), most = m->k * apart <= NEAR ? FEW_OF_NEAR : FEW;
  if (m->n < m->width || msc_dtype_bytes(m->dtype) < 4 || m->pairs) return false;
  if (m->transpose_b) return m->n % m->width == 0 && transposes_b_in_place(m, kernels);
  if (apart % PLACES == 0) most = low ? 6 : m->k / m->blocks >= LONG && m->k * apart > NEAR ? 32 : 12;
  else if (low && apart % (PLACES / 2) == 0) most = 12;
  return m->m <= most;
}

static bool is_filled(const msc_plan_matmul *m) {
  return msc_product_is_filled((int64_t)m->k, m->blocks, packing_of(m));
}

static bool packs_rows_of(const msc_plan_matmul *m) {
  return msc_product_packs_rows(msc_dtype_bytes(m->dtype), m->transpose_a, packing_of(m), is_filled(m));
}

/* Returns how many rows in parts, of so many bytes each, are multiplied together: as many as half of the level-2 cache
 * of a CPU with AMX holds. Splitting them takes so long that tiles have all columns. */
static uint64_t rows_of_parts(uint64_t bytes, uint64_t height) {
  enum { HALF = 1024 * 1024, MOST = 256 };
  uint64_t rows = HALF / bytes / height * height;
  return rows < height ? height : rows > MOST ? MOST : rows;
}

/* Chooses the tiles of generated code. Packed columns of b take half of the level-2 cache, or more if all workers share
 * them, because each tile reads a again; rows of a take a quarter of it, and eight groups where there are many rows.
 * Tiles are halved while there are too few for the threads of a small machine, as long as what remains is worth a call.
 * Rows of a that are packed, as those of a transposed a, are packed for each tile: so tiles share only its columns, and
 * half as many tiles are enough, because packing the rows again for the other half of the columns takes longer than
 * threads wait for each other. */
static void choose_tiles(msc_plan_matmul *m, const msc_product_kernels *kernels) {
  enum { PANELS = 256 * 1024, ROWS = 128 * 1024, FEW = 8, LEAST = 200000, SHARED_COLUMNS = 256, MANY = 1536 };
  /* columns of a tile that packs its rows, where large caches leave less to gain by more of them than by more rows */
  enum { MOST_OF_TWICE = 512 };
  enum { SHARED_OF_PARTS = 32 * 1024 * 1024 };
  /* up to WIDE rows are multiplied by up to SPAN panels together if b is in place; LONG are panels of a long run */
  enum { WIDE = 4, SPAN = 4, LONG = 32 };
  uint64_t bytes = packed_bytes(m), width = (uint64_t)kernels->width, height = (uint64_t)kernels->height;
  bool lies = reads_b_in_place(m, kernels);
  if (msc_product_streams((int64_t)m->m, kernels->width * (int64_t)sum_bytes(m), lies, m->transpose_b)) width *= LONG;
  else if (m->m <= WIDE && !m->transpose_b && lies) width *= SPAN;
  bool packs_rows = m->batch == 1 && packs_rows_of(m);
  uint64_t columns = (packs_rows ? SHARED : PANELS) / bytes / width * width;
  uint64_t rows = packs_rows ? (m->m < MANY ? 48 : 96) : ROWS / bytes / height * height;
  if (packs_rows && m->transpose_a && kernels->twice && columns > MOST_OF_TWICE) columns = MOST_OF_TWICE;
  if (packing_of(m) == MSC_PACKED_PARTS)
    rows = rows_of_parts(bytes, height), columns = SHARED_OF_PARTS / bytes / width * width;
  if (columns < width) columns = width;
  if (!packs_rows && (rows < 8 * height || m->m > 16 * height)) rows = 8 * height;
  if (m->batch == 1 && m->m > rows && columns < SHARED_COLUMNS) columns = SHARED_COLUMNS;
  uint64_t parts = (m->n + columns - 1) / columns, row_parts = (m->m + rows - 1) / rows;
  /* an odd number of parts, such as seven, keeps two threads busy for unequal times */
  if (parts > 1 && parts < FEW && row_parts * parts < 4 * FEW && !packs_rows) parts = FEW;
  m->tile_n = share_rounded_up(m->n, parts, width);
  m->tile_m = share_rounded_up(m->m, row_parts, row_parts > 1 ? height : 2);
  uint64_t least = packs_rows ? FEW / 2 : FEW;
  while (m->batch * ((m->m + m->tile_m - 1) / m->tile_m) * ((m->n + m->tile_n - 1) / m->tile_n) < least &&
         2 * m->tile_m * m->tile_n * m->k >= 2 * LEAST) {
    bool narrow = m->tile_n >= 4 * width || m->tile_m <= 2 * height;
    if (narrow && m->tile_n <= width) break;
    if (narrow) m->tile_n = share_rounded_up(m->tile_n, 2, width);
    else m->tile_m = share_rounded_up(m->tile_m, 2, m->tile_m > 2 * height ? height : 2);
  }
}

static void set_workspace(msc_plan_matmul *m, const msc_product_kernels *kernels) {
  int64_t units = msc_product_units((int64_t)m->k, m->blocks, packing_of(m));
  m->b_lies = reads_b_in_place(m, kernels);
  m->shared_columns = m->b_lies ? 0 : shared_columns_of(m);
  uint64_t columns = m->b_lies ? m->n % m->width : m->shared_columns ? m->shared_columns : m->tile_n;
  m->panel_bytes = aligned_bytes(
      m, (is_filled(m) ? msc_product_filled_panel_elems : msc_product_panel_elems)((int64_t)columns, units, m->width));
  m->room_bytes = packs_rows_of(m) ? aligned_bytes(m, msc_product_room_elems((int64_t)m->tile_m, units)) : 0;
}

static uint64_t lead_elems(const msc_type *t) {
  uint64_t n = 1;
  for (int d = 0; d + 2 < t->rank; d++) n *= (uint64_t)t->dim[d];
  return n;
}

/* Lets a library compute a product of f32, of which the sums may be made in any order. */
static void set_library(msc_plan_matmul *m, const msc_op *op) {
  if (!msc_op_bool(op, MSC_FACT(any_order)) || m->dtype != MSC_F32 || m->wide || m->tile_bytes) return;
  m->library = msc_why_by_library(m) ? PLAN_LIBRARY_USE_PREFERRED : PLAN_LIBRARY_USE_MEASURED;
}

static bool use_generated_kernels(msc_codegen *cg, const msc_op *op, msc_plan_matmul *m) {
  msc_product_kernels kernels;
  m->blocks = (uint32_t)msc_op_int(op, MSC_FACT(blocks));
  bool in_parts = m->dtype == MSC_F32 && msc_op_bool(op, MSC_FACT(in_parts)) &&
                  msc_codegen_product_of_parts(cg, m->transpose_b, &kernels);
  if (!in_parts && !msc_codegen_product(cg, m->dtype, m->transpose_b, (int64_t)(m->k / m->blocks), &kernels))
    return msc_op_error(op, MSC_E_INTERNAL, "gemm: no fused multiply-add for generated code");
  m->generated = true;
  m->pack = kernels.pack, m->multiply = kernels.multiply, m->width = (uint32_t)kernels.width, m->pairs = kernels.pairs;
  if (!m->tile_bytes) choose_tiles(m, &kernels);
  set_workspace(m, &kernels);
  set_library(m, op);
  return true;
}

static void set_function(msc_plan_matmul *m, const msc_op *op) {
  m->bias = msc_gemm_operand(op, MSC_GEMM_BIAS), m->add = msc_gemm_operand(op, MSC_GEMM_ADD),
  m->aux = msc_gemm_operand(op, MSC_GEMM_AUX) || msc_gemm_result(op, MSC_GEMM_AUX);
  m->after_first = msc_gemm_operand(op, MSC_GEMM_UNLESS);
  m->sum_a = msc_gemm_result(op, MSC_GEMM_SUM_A), m->sum_b = msc_gemm_result(op, MSC_GEMM_SUM_B);
  m->relu = msc_op_bool(op, "relu"), m->gelu = msc_op_bool(op, "gelu"), m->slope = msc_op_bool(op, "slope");
  m->wide = op->out[0].type->dtype != m->dtype;
}

static msc_plan_matmul matmul_of(const msc_op *op, const msc_target *target) {
  const msc_type *a = op->in[0].value->type, *b = op->in[1].value->type, *y = op->out[0].type;
  msc_plan_matmul m = {
      .dtype = a->dtype, .transpose_a = msc_op_bool(op, "transpose_a"), .transpose_b = msc_op_bool(op, "transpose_b")};
  bool rows = b->rank == 2 && !m.transpose_a; /* leading dimensions that only `a` has count as rows */
  m.batch = rows ? 1 : lead_elems(y);
  m.m = (uint64_t)y->dim[y->rank - 2] * (rows ? lead_elems(y) : 1);
  m.n = (uint64_t)y->dim[y->rank - 1];
  m.k = (uint64_t)a->dim[a->rank - (m.transpose_a ? 2 : 1)];
  m.stride_a = rows || lead_elems(a) == 1 ? 0 : m.m * m.k;
  m.stride_b = lead_elems(b) == 1 ? 0 : m.k * m.n;
  set_function(&m, op);
  m.tile_m = m.m, m.tile_n = m.n;
  if (target->cuts_products) choose_library_tiles(&m);
  int64_t tile = msc_op_int(op, "tile");
  if (tile) {
    m.tile_m = (uint64_t)tile;
    uint64_t columns = (uint64_t)msc_op_int(op, "tile_columns");
    m.tile_n = columns && columns < m.n ? columns : m.n;
    m.tile_bytes = m.tile_m * m.tile_n * (uint64_t)msc_dtype_bytes(y->dtype);
  }
  return m;
}

bool msc_plan_product(msc_codegen *cg, const msc_op *op, const msc_target *target, msc_plan_matmul *out) {
  *out = matmul_of(op, target);
  return !msc_op_bool(op, "generated") || use_generated_kernels(cg, op, out);
}
