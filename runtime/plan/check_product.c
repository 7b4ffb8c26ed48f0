/* check_product.c: the matrix products of a plan in; checked and unpacked ones out. */
#include "ir/abi/product.h"
#include "runtime/plan/plan.h"

/* True if a * b * c is not 0 and small enough that offsets inside an operand of that size do not overflow. */
static bool product_fits(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t v;
  return a && b && c && !__builtin_mul_overflow(a, b, &v) && !__builtin_mul_overflow(v, c, &v) && v <= MSCRT_MAX_BYTES;
}

static bool stride_fits(uint64_t batch, uint64_t stride, uint64_t matrix) {
  return (stride == 0 || stride >= matrix) && (stride == 0 || product_fits(batch, stride, 1));
}

/* Checks the kernels of a product. Numbers of elements fit, since those of the operands do and a panel is narrow. */
static mscrt_status *check_product_kernels(const mscrt_plan *p, const mscrt_matmul *m) {
  int64_t operand_bytes = (int64_t)mscrt_dtype_bytes(m->dtype);
  uint64_t bytes = (uint64_t)msc_product_bytes(operand_bytes);
  if (operand_bytes < 4 && !m->wide && m->bias)
    return mscrt_bad_plan("a bias for sums that are rounded to %s", mscrt_dtype_name(m->dtype));
  if (!mscrt_kernel_takes(p, m->pack, 2, m->packing ? 4 : 3) || !mscrt_kernel_takes(p, m->multiply, 5, 10))
    return mscrt_bad_plan("its kernels do not take what a product gives");
  if (m->width < MSC_PRODUCT_VECTORS || m->width > 1024 || m->width % MSC_PRODUCT_VECTORS ||
      (m->tile_n % m->width && m->tile_n != m->n))
    return mscrt_bad_plan("panels of %" PRId64 " columns for tiles of %" PRId64, m->width, m->tile_n);
  if (m->blocks < 1 || m->k % m->blocks)
    return mscrt_bad_plan("%" PRId64 " blocks of %" PRId64 " terms", m->blocks, m->k);
  if (m->packing && m->dtype != MSCRT_BF16 && m->dtype != MSCRT_F32)
    return mscrt_bad_plan("pairs of %s", mscrt_dtype_name(m->dtype));
  int64_t rest = m->n % m->width; /* columns that fill no panel are packed always */
  bool transposed = m->transpose_b && (m->transpose_a || rest || m->k / m->blocks % msc_product_lanes(m->width));
  if (m->b_lies && (operand_bytes < 4 || m->packing || transposed || m->shared_columns))
    return mscrt_bad_plan("%" PRId64 " columns of %s%s are read where they lie", m->n,
                          m->transpose_b ? "transposed " : "", mscrt_dtype_name(m->dtype));
  int64_t shared = m->shared_columns;
  if (shared && (m->batch > 1 || shared < m->tile_n || shared > m->n || (shared % m->tile_n && shared != m->n)))
    return mscrt_bad_plan("%" PRId64 " shared columns of %" PRId64 " for tiles of %" PRId64, shared, m->n, m->tile_n);
  uint64_t panels = (uint64_t)mscrt_panel_elems(m, m->b_lies ? rest : shared ? shared : m->tile_n) * bytes;
  bool packed = msc_product_packs_rows(operand_bytes, m->transpose_a, m->packing,
                                       msc_product_is_filled(m->k, m->blocks, m->packing));
  int64_t units = msc_product_units(m->k, m->blocks, m->packing);
  uint64_t room = packed ? (uint64_t)msc_product_room_elems(m->tile_m, units) * bytes : 0;
  if (m->panel_bytes < panels || m->panel_bytes > MSCRT_MAX_BYTES || m->room_bytes < room ||
      m->room_bytes > MSCRT_MAX_BYTES)
    return mscrt_bad_plan("%" PRIu64 " and %" PRIu64 " bytes for packed operands of %" PRIu64 " and %" PRIu64,
                          m->panel_bytes, m->room_bytes, panels, room);
  return NULL;
}

/* Checks that one call of a GPU's library, or a CPU's kernels, can do what a product does besides multiplying. */
static mscrt_status *check_product_function(const mscrt_plan *p, const mscrt_matmul *m) {
  bool sum = m->sum_a || m->sum_b, function = m->relu || m->gelu;
  bool more_than_wide = m->gelu || m->slope || m->add || m->after_first || m->aux || sum;
  if (!m->wide && !more_than_wide) return NULL;
  if (!p->target->calls_whole && more_than_wide)
    return mscrt_bad_plan("a product on a CPU does no more than bias and relu");
  if (!p->target->calls_whole && m->multiply == MSCRT_BY_LIBRARY)
    return mscrt_bad_plan("the library of a CPU does not widen");
  if (m->wide && m->dtype != MSCRT_F16 && m->dtype != MSCRT_BF16)
    return mscrt_bad_plan("%s is not widened", mscrt_dtype_name(m->dtype));
  if (m->dtype == MSCRT_F64 && (function || sum)) return mscrt_bad_plan("functions of f64");
  if ((m->relu && m->gelu) || (m->aux && !function) || (m->slope && (!m->aux || m->bias || m->add)) ||
      (m->sum_a && m->sum_b) || (sum && (function || m->bias)) || (m->batch > 1 && (m->aux || sum)) ||
      (m->aux && m->gelu && m->n % 8) || (m->after_first && !m->add))
    return mscrt_bad_plan("a product that no call of the library is");
  return NULL;
}

static void number_operands(mscrt_matmul *m) {
  const bool has[] = {[MSCRT_AT_BIAS] = m->bias,
                      [MSCRT_AT_ADD] = m->add,
                      [MSCRT_AT_AUX] = m->aux,
                      [MSCRT_AT_SUM] = m->sum_a || m->sum_b};
  m->num_operands = 3;
  for (int i = 0; i < MSCRT_NUM_BEHIND; i++)
    if (has[i]) m->at[i] = m->num_operands++;
}

/* Checks sizes and strides, so that no offset in an operand overflows. */
static mscrt_status *check_product_sizes(plan_matmul t) {
  uint64_t batch = plan_matmul_batch(t), m = plan_matmul_m(t), n = plan_matmul_n(t), k = plan_matmul_k(t);
  uint64_t tile_m = plan_matmul_tile_m(t), tile_n = plan_matmul_tile_n(t);
  if (!product_fits(batch, m, n) || !product_fits(batch, m, k) || !product_fits(batch, n, k))
    return mscrt_bad_plan("impossible sizes");
  if (!stride_fits(batch, plan_matmul_batch_stride_a(t), m * k) ||
      !stride_fits(batch, plan_matmul_batch_stride_b(t), n * k))
    return mscrt_bad_plan("matrices of a batch overlap");
  if (tile_m < 1 || tile_m > m || tile_n < 1 || tile_n > n)
    return mscrt_bad_plan("tiles of %" PRIu64 " x %" PRIu64 " for a result of %" PRIu64 " x %" PRIu64, tile_m, tile_n,
                          m, n);
  return NULL;
}

/* Checks who multiplies: a library, in one call on a GPU, or kernels, and whether these have the element type. */
static mscrt_status *check_multiplier(const mscrt_plan *p, plan_matmul t) {
  uint8_t dtype = plan_matmul_dtype(t);
  bool library = plan_matmul_multiply(t) == MSCRT_BY_LIBRARY, whole = p->target->calls_whole;
  if (whole && (!library || plan_matmul_tile_m(t) != plan_matmul_m(t) || plan_matmul_tile_n(t) != plan_matmul_n(t) ||
                plan_matmul_tile_bytes(t)))
    return mscrt_bad_plan("a product on a GPU is one call of its library");
  if (library && dtype != MSCRT_F32 && !(dtype == MSCRT_F64 && whole) && dtype != MSCRT_BF16 && dtype != MSCRT_F16)
    return mscrt_bad_plan("element type %d: the library has f32, bf16 and f16", dtype);
  if (!library && dtype > MSCRT_F64) return mscrt_bad_plan("element type %d: kernels multiply floats", dtype);
  return NULL;
}

/* Unpacks a product whose sizes were checked. */
static mscrt_matmul read_product(plan_matmul t) {
  mscrt_dtype dtype = (mscrt_dtype)plan_matmul_dtype(t);
  mscrt_matmul m = {.dtype = dtype,
                    .batch = (int64_t)plan_matmul_batch(t),
                    .m = (int64_t)plan_matmul_m(t),
                    .n = (int64_t)plan_matmul_n(t),
                    .k = (int64_t)plan_matmul_k(t),
                    .stride_a = (int64_t)plan_matmul_batch_stride_a(t),
                    .stride_b = (int64_t)plan_matmul_batch_stride_b(t),
                    .tile_m = (int64_t)plan_matmul_tile_m(t),
                    .tile_n = (int64_t)plan_matmul_tile_n(t),
                    .tile_bytes = plan_matmul_tile_bytes(t),
                    .transpose_a = plan_matmul_transpose_a(t),
                    .transpose_b = plan_matmul_transpose_b(t),
                    .bias = plan_matmul_bias(t),
                    .relu = plan_matmul_relu(t),
                    .pack = plan_matmul_pack(t),
                    .multiply = plan_matmul_multiply(t),
                    .width = plan_matmul_width(t),
                    .blocks = plan_matmul_blocks(t),
                    .panel_bytes = plan_matmul_panel_bytes(t),
                    .room_bytes = plan_matmul_room_bytes(t),
                    .shared_columns = (int64_t)plan_matmul_shared_columns(t),
                    .packing = msc_product_packing((int64_t)mscrt_dtype_bytes(dtype), plan_matmul_pairs(t)),
                    .b_lies = plan_matmul_b_lies(t),
                    .library = plan_matmul_library(t),
                    .wide = plan_matmul_wide(t),
                    .gelu = plan_matmul_gelu(t),
                    .slope = plan_matmul_slope(t),
                    .add = plan_matmul_add(t),
                    .after_first = plan_matmul_after_first(t),
                    .aux = plan_matmul_aux(t),
                    .sum_a = plan_matmul_sum_a(t),
                    .sum_b = plan_matmul_sum_b(t)};
  m.tiles_m = (m.m + m.tile_m - 1) / m.tile_m, m.tiles_n = (m.n + m.tile_n - 1) / m.tile_n;
  number_operands(&m);
  return m;
}

/* Checks and sets the number of tiles, and checks the memory of a tile. */
static mscrt_status *check_tiles(mscrt_matmul *m) {
  uint64_t elems = (uint64_t)m->tile_m * (uint64_t)m->tile_n;
  if (!product_fits((uint64_t)m->batch, (uint64_t)m->tiles_m, (uint64_t)m->tiles_n) ||
      (m->tiles = m->batch * m->tiles_m * m->tiles_n) >= UINT32_MAX)
    return mscrt_bad_plan("more than 2^32 tiles");
  if (m->tile_bytes &&
      (m->tile_bytes < elems * mscrt_dtype_bytes(mscrt_result_dtype(m)) || m->tile_bytes > MSCRT_MOST_TILE_BYTES))
    return mscrt_bad_plan("%" PRIu64 " bytes for a tile of %" PRIi64 " x %" PRIi64, m->tile_bytes, m->tile_m,
                          m->tile_n);
  return NULL;
}

/* Checks that a product that kernels or a library compute is one that either can. */
static mscrt_status *check_library_use(const mscrt_matmul *m) {
  if (!m->library) return NULL;
  if (m->library > PLAN_LIBRARY_USE_PREFERRED) return mscrt_bad_plan("use %d of a library", m->library);
  return m->multiply == MSCRT_BY_LIBRARY || m->dtype != MSCRT_F32 || m->wide || m->tile_bytes
             ? mscrt_bad_plan("a product that kernels or a library compute has kernels, and its tiles of f32 lie in c")
             : NULL;
}

static mscrt_status *check_product(const mscrt_plan *p, plan_matmul t, mscrt_matmul *out) {
  MSCRT_CHECK(check_multiplier(p, t));
  MSCRT_CHECK(check_product_sizes(t));
  *out = read_product(t);
  MSCRT_CHECK(check_product_function(p, out));
  MSCRT_CHECK(check_tiles(out));
  MSCRT_CHECK(check_library_use(out));
  return out->multiply == MSCRT_BY_LIBRARY ? NULL : check_product_kernels(p, out);
}

mscrt_status *mscrt_check_products(mscrt_plan *p) {
  int64_t traits = mscrt_product_traits();
  MSCRT_CHECK(mscrt_new_array(&p->matmul, p->num_matmuls));
  for (uint32_t i = 0; i < p->num_matmuls; i++) {
    mscrt_matmul *m = &p->matmul[i];
    mscrt_status *s = check_product(p, plan_plan_matmuls(p->root, i), m);
    if (s) return mscrt_add_prefix(s, "matmul %u", i);
    bool rounds = m->multiply != MSCRT_BY_LIBRARY && mscrt_dtype_bytes(m->dtype) < 4 && !m->wide;
    m->traits = traits | (rounds ? MSC_PRODUCT_ROUNDS : 0);
    if (m->tile_bytes > p->space_bytes[PLAN_SPACE_TILE]) p->space_bytes[PLAN_SPACE_TILE] = m->tile_bytes;
  }
  return NULL;
}
