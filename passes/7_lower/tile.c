/* tile: a product whose only user is one elementwise kernel on the same elements -> `tile` rows at a time, the kernel on each
 * tile while it is in cache.  So a weight gradient never goes to memory: it is made and spent tile by tile. */
#include "passes/7_lower/nest.h"
#include "passes/pass.h"

enum {
  TILE_BYTES = 128 * 1024, /* of results, within the level-2 cache of every server core of the last ten years */
  MIN_TILES = 4,           /* so that a few threads have work */
};

static bool is_map(msc_nester *nester, const msc_op *op) {
  msc_nest_info info;
  const char *why;
  return msc_nest_can_fuse(op) && msc_nest_fits(nester, 1, &op, &info, &why) && info.kind == MSC_NEST_MAP && info.num_launches == 1 && !info.scratch_bytes && !info.checks;
}

/* Every operand and result that is as large as the product has its shape, the kernel's items are its elements. */
static bool same_elements(const msc_op *user, const msc_type *t) {
  for (size_t i = 0; i < user->num_out; i++)
    if (user->out[i].type->rank != t->rank || msc_type_elems(user->out[i].type) != msc_type_elems(t)) return false;
  return user->num_out > 0;
}

/* May the product move down to just before its user?  What it reads must not be overwritten on the way. */
static bool reads_no_tied_argument(const msc_op *gemm) {
  const msc_attr_value *ties = msc_func_attr(gemm->block->func, "ties");
  for (size_t i = 0; i < gemm->num_in; i++)
    for (size_t k = 0; !gemm->in[i].value->def && ties && k < ties->list.num; k++)
      if (ties->list.v[k].i == (int64_t)gemm->in[i].value->index) return false;
  return true;
}

static int64_t tile_rows(const msc_type *t) {
  int64_t rows = t->dim[0], row_bytes = t->dim[1] * msc_dtype_bytes(t->dtype);
  int64_t fit = row_bytes ? TILE_BYTES / row_bytes : 0, even = (rows + MIN_TILES - 1) / MIN_TILES;
  int64_t tile = fit < even ? fit : even;
  return tile < 1 ? 1 : tile >= 8 ? tile / 8 * 8 : tile;
}

/* A call has one epilogue, a kernel one tile. */
static bool has_tile(const msc_op *user) { return user->prev && user->prev->kind == OP_gemm && msc_op_int(user->prev, "tile"); }

static bool tiles(msc_nester *nester, msc_op *gemm) {
  const msc_type *t = gemm->out[0].type;
  if (t->rank != 2 || !msc_has_one_use(&gemm->out[0])) return false;
  msc_op *user = gemm->out[0].uses->user;
  if (user->block != gemm->block || has_tile(user) || !same_elements(user, t) || !is_map(nester, user) || !reads_no_tied_argument(gemm)) return false;
  msc_op_unlink(gemm);
  msc_insert_before(user, gemm);
  msc_op_set(gemm, "tile", msc_int(tile_rows(t)));
  return true;
}

/* On a GPU a product is one call: its tiles are the library's. */
bool pass_tile(msc_pass_ctx *pass, msc_module *m) {
  if (msc_target_of(m) != MSC_TARGET_CPU) return true;
  msc_nester *nester = msc_nester_new(pass->ctx, MSC_TARGET_CPU);
  int64_t tiled = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->last, *previous; op; op = previous) {
      previous = op->prev;
      if (op->kind == OP_gemm) tiled += tiles(nester, op);
    }
  msc_stat(pass, "products tiled", tiled);
  return true;
}
