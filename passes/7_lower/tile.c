/* tile: a product whose only user is one elementwise kernel on the same elements -> a product computed `tile` rows at a
 * time, of generated code `tile_columns` columns of them if b is large or rows are few, with the kernel run on each
 * tile while it is in cache.  So a weight gradient never goes to memory; nor that of a table, which is a sum of rows.
 */
#include "ir/alias.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/8_memory/peak.h"
#include "passes/pass.h"

enum {
  TILE_BYTES = 128 * 1024, /* of results: they fit the level-2 cache of every server core of the last ten years */
  TILE_OF_BF16 = 4,        /* bf16 is multiplied faster, so a tile has this many times the rows for each reading of b */
  ROWS_OF_BF16 = 32,       /* rows that AMX multiplies together */
  MIN_TILES = 4,           /* so that a few threads have work */
  GROUP = 8,               /* rows of f32 that are multiplied together: tiles of fewer read b too often */
  LEAST_OF_FEW = 128,      /* columns of a tile that has all rows */
  ROWS_BYTES = 64 * 1024,  /* of sums of rows, which stay near beside what the kernel reads and writes */
  /* Every tile reads all of b. Up to NEAR_BYTES b comes from the level-2 cache at no cost. Reading a larger b takes as
   * long as computing NEAR_ROWS rows; above FAR_BYTES, where b comes from memory, as FAR_ROWS rows. A tile has at least
   * so many rows. */
  NEAR_BYTES = 256 * 1024,
  NEAR_ROWS = 16,
  FAR_BYTES = 4 * 1024 * 1024,
  FAR_ROWS = 32,
  /* Generated code multiplies tiles of all columns well if they have so many rows, or b stays in the level-2 cache; it
   * takes fewer columns else: what of b stays there, each row of them worth a call of the kernel. */
  ENOUGH_ROWS = 96,
  KEPT_BYTES = 1024 * 1024,
  LEAST_COLUMNS = 256,
  LEAST_ROWS = 64,
  MOST_COLUMNS = 1024,
  /* Rows of a transposed a are packed for each tile, and read again for every panel of b: from the level-2 cache if
   * they fit in so many bytes there. Tiles of fewer than LEAST_PACKED rows would read b too often. */
  PACKED_BYTES = 768 * 1024,
  LEAST_PACKED = 48,
};

/* True if the op is one elementwise launch.  A view is none: no kernel would read the tiles. */
static bool is_single_map(msc_nester *nester, const msc_op *op) {
  msc_nest_info info;
  const char *why;
  return msc_nest_can_fuse(op) && !msc_is_view(op) && msc_nest_fits(nester, 1, &op, &info, &why) &&
         info.kind == MSC_NEST_MAP && info.num_launches == 1 && !info.scratch_bytes && !info.checks;
}

/* ---- places ---- */

/* True if element i of each result depends on no element of the operand but element i. */
static bool keeps_element_places(msc_arena *a, const msc_op *op, size_t in) {
  const msc_type *x = op->in[in].value->type;
  msc_rule rule;
  if (!msc_rule_of(op, a, &rule)) return false;
  for (size_t o = 0; o < op->num_out; o++) {
    const msc_type *y = op->out[o].type;
    const msc_tensor_letters *from = &rule.tensor[in], *to = &rule.tensor[op->num_in + o];
    if (!msc_same_dims(x, y)) return false;
    for (int d = 0; d < x->rank; d++)
      if (from->dim[d].num != 1 || to->dim[d].num != 1 || from->dim[d].letter[0] != to->dim[d].letter[0]) return false;
  }
  return op->num_out > 0;
}

/* True if that holds for the argument in all ops of the region, and for all values computed from it. */
static bool region_keeps_places(msc_arena *a, msc_block *region, size_t arg) {
  bool *of_it = msc_new_array(a, bool, msc_number(region).num_values);
  of_it[region->args[arg]->id] = true;
  for (const msc_op *op = region->first; op; op = op->next)
    for (size_t i = 0; i < op->num_in; i++) {
      if (!of_it[op->in[i].value->id] || msc_info(op)->flags & MSC_TERMINATOR) continue;
      if (!keeps_element_places(a, op, i)) return false;
      for (size_t o = 0; o < op->num_out; o++) of_it[op->out[o].id] = true;
    }
  return true;
}

/* True if each element of user's results depends on the element of v in the same place: not so for a transpose. */
static bool reads_same_elements(msc_arena *a, const msc_op *user, const msc_value *v) {
  size_t in = (size_t)(v->uses - user->in);
  for (size_t i = 0; i < user->num_out; i++)
    if (!msc_same_dims(user->out[i].type, v->type)) return false;
  return user->num_out > 0 && (user->body ? region_keeps_places(a, user->body, in) : keeps_element_places(a, user, in));
}

/* True if no op between this one and its user can overwrite what this one reads, so that it may move down. */
static bool reads_no_tied_argument(const msc_op *op) {
  const msc_func *f = op->block->func;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *root = msc_memory_of(op->in[i].value).root;
    for (size_t k = 0; !root->def && k < f->body->last->num_in; k++)
      if (msc_tied_argument(f, k) == (int64_t)root->index) return false;
  }
  return true;
}

/* Rows of a matrix of the result. Where only a has leading dimensions, they are more rows. */
static int64_t matrix_rows(const msc_op *gemm) {
  const msc_type *t = gemm->out[0].type;
  int64_t rows = t->dim[t->rank - 2];
  if (gemm->in[1].value->type->rank > 2 || msc_op_bool(gemm, "transpose_a")) return rows;
  for (int d = 0; d + 2 < t->rank; d++) rows *= t->dim[d];
  return rows;
}

static bool is_bf16(const msc_op *gemm) { return gemm->in[0].value->type->dtype == MSC_BF16; }

static int64_t result_columns(const msc_op *gemm) {
  const msc_type *t = gemm->out[0].type;
  return t->dim[t->rank - 1];
}

static int64_t bytes_of_b(const msc_op *gemm) {
  const msc_type *b = gemm->in[1].value->type;
  return b->dim[b->rank - 2] * b->dim[b->rank - 1] * msc_dtype_bytes(b->dtype);
}

/* Returns how many rows of a stay in the level-2 cache beside the part of b that is kept there. */
static int64_t most_rows_of_a(const msc_op *gemm) {
  int64_t row_bytes = bytes_of_b(gemm) / result_columns(gemm), rows = KEPT_BYTES / 2 / row_bytes;
  return rows > LEAST_ROWS ? rows : LEAST_ROWS;
}

/* Returns how many rows of a transposed a of f32 are packed together. */
static int64_t most_packed_rows(const msc_op *gemm) {
  const msc_type *a = gemm->in[0].value->type;
  int64_t k = a->dim[a->rank - 2], rows = k ? PACKED_BYTES / (k * 4) : 0;
  return rows > LEAST_PACKED ? rows : LEAST_PACKED;
}

/* Rows of a tile of so many columns. */
static int64_t tile_rows(const msc_op *gemm, int64_t columns) {
  const msc_type *t = gemm->out[0].type;
  int64_t rows = matrix_rows(gemm), row_bytes = columns * msc_dtype_bytes(t->dtype),
          most = is_bf16(gemm) ? TILE_OF_BF16 * TILE_BYTES : TILE_BYTES;
  int64_t matrices = rows && row_bytes ? msc_type_elems(t) / result_columns(gemm) / rows : 1,
          beside = columns ? (result_columns(gemm) + columns - 1) / columns : 1,
          parts = matrices * beside < MIN_TILES ? MIN_TILES : 1;
  int64_t fit = row_bytes ? most / row_bytes : 0, even = (rows + parts - 1) / parts;
  int64_t tile = fit < even ? fit : even;
  if (columns < result_columns(gemm) && tile > most_rows_of_a(gemm)) tile = most_rows_of_a(gemm);
  bool packs_rows = msc_op_bool(gemm, "transpose_a") && !is_bf16(gemm);
  if (packs_rows && tile > most_packed_rows(gemm)) tile = most_packed_rows(gemm);
  if (is_bf16(gemm) && tile >= ROWS_OF_BF16) return tile / ROWS_OF_BF16 * ROWS_OF_BF16;
  return tile < 1 ? 1 : tile >= 8 ? tile / 8 * 8 : tile;
}

/* True if MIN_TILES tiles of whole rows would have less than a group of them each. */
static bool has_few_rows(const msc_op *gemm) {
  return !is_bf16(gemm) && gemm->out[0].type->rank == 2 && !msc_op_bool(gemm, "transpose_a") &&
         msc_op_bool(gemm, "generated") && matrix_rows(gemm) < MIN_TILES * GROUP &&
         result_columns(gemm) > LEAST_OF_FEW;
}

/* Columns of a tile: all of them, or fewer if b is read too often otherwise. */
static int64_t tile_columns(const msc_op *gemm) {
  int64_t all = result_columns(gemm), bytes = bytes_of_b(gemm);
  if (has_few_rows(gemm)) {
    int64_t share = (all + MIN_TILES * LEAST_OF_FEW - 1) / (MIN_TILES * LEAST_OF_FEW) * LEAST_OF_FEW;
    return share < MOST_COLUMNS ? share : MOST_COLUMNS;
  }
  bool enough = tile_rows(gemm, all) >= (is_bf16(gemm) ? TILE_OF_BF16 : 1) * ENOUGH_ROWS;
  if (!msc_op_bool(gemm, "generated") || bytes <= KEPT_BYTES || enough) return all;
  int64_t fit = KEPT_BYTES / (bytes / all) / LEAST_COLUMNS * LEAST_COLUMNS,
          least = fit > LEAST_COLUMNS ? fit : LEAST_COLUMNS, columns = least < MOST_COLUMNS ? least : MOST_COLUMNS;
  return columns < all ? columns : all;
}

/* True if tiles of so many rows compute for longer than it takes to read b for each; what fewer columns read of it
 * stays near, but takes rows enough. */
static bool is_worth_reading_b(const msc_op *gemm, int64_t rows, int64_t columns) {
  if (columns < result_columns(gemm)) return rows >= LEAST_ROWS || has_few_rows(gemm);
  int64_t bytes = msc_type_bytes(gemm->in[1].value->type), times = is_bf16(gemm) ? TILE_OF_BF16 : 1;
  return rows >= (bytes > FAR_BYTES ? times * FAR_ROWS : bytes > NEAR_BYTES ? times * NEAR_ROWS : 1);
}

/* True if another op's tiles go to this user already: a kernel takes one tile. */
static bool takes_another_tile(const msc_op *user) { return msc_runs_in_tiles(user->prev); }

static bool tile_product(msc_pass_ctx *pass, msc_nester *nester, msc_op *gemm) {
  const msc_type *t = gemm->out[0].type;
  /* matrices of a batch of f32 are multiplied in tiles of the best size for that */
  if (t->rank < 2 || (t->rank > 2 && !is_bf16(gemm)) || !msc_has_one_use(&gemm->out[0])) return false;
  msc_op *user = gemm->out[0].uses->user;
  int64_t columns = tile_columns(gemm), rows = tile_rows(gemm, columns);
  if (user->block != gemm->block || takes_another_tile(user) || !is_worth_reading_b(gemm, rows, columns) ||
      !reads_same_elements(pass->scratch, user, &gemm->out[0]) || !is_single_map(nester, user) ||
      !reads_no_tied_argument(gemm))
    return false;
  msc_op_unlink(gemm);
  msc_insert_before(user, gemm);
  msc_op_set(gemm, "tile", msc_int(rows));
  if (columns < result_columns(gemm)) msc_op_set(gemm, "tile_columns", msc_int(columns));
  return true;
}

/* Lets the kernel behind sums of rows, as the update of a table, take so many of the rows at a time. */
static bool tile_segments(msc_pass_ctx *pass, msc_nester *nester, msc_op *sums) {
  const msc_type *t = sums->out[0].type;
  if (!msc_has_one_use(&sums->out[0]) || msc_runs_on_host(sums)) return false;
  msc_op *user = sums->out[0].uses->user;
  int64_t rows = t->dim[0], bytes = rows ? msc_type_bytes(t) / rows : 0, most = bytes ? ROWS_BYTES / bytes : 0;
  if (most < 1 || rows < MIN_TILES || user->block != sums->block || msc_runs_on_host(user) ||
      takes_another_tile(user) || !reads_same_elements(pass->scratch, user, &sums->out[0]) ||
      !is_single_map(nester, user) || !reads_no_tied_argument(sums))
    return false;
  msc_op_unlink(sums);
  msc_insert_before(user, sums);
  int64_t share = (rows + MIN_TILES - 1) / MIN_TILES;
  msc_op_set(sums, "tile", msc_int(most < share ? most : share));
  return true;
}

bool pass_tile(msc_pass_ctx *pass, msc_module *m) {
  msc_nester *nester = msc_nester_new(pass->ctx, pass->scratch, msc_target_of(m));
  int64_t tiled = 0, tables = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->last, *previous; op; op = previous) {
      previous = op->prev;
      if (op->kind == OP_gemm) tiled += tile_product(pass, nester, op);
      if (op->kind == OP_segment_sum) tables += tile_segments(pass, nester, op);
    }
  msc_stat(pass, "products tiled", tiled);
  msc_stat(pass, "tables tiled", tables);
  return true;
}
