/* views: transposes around attention that a GPU's library computes, which reads and writes values in any order of dimensions -> views,
 * marked `view = true`: nothing is moved.
 *
 *   before   t = transpose(x), read by such ops alone: they read x where it is
 *   behind   t = transpose(y), y of such an op and read by others of them at most: y is written where t is wanted
 *
 * The last dimension stays the last: there the library wants whole vectors. */
#include "passes/7_lower/graph.h"

static bool keeps_vectors(const msc_op *t) {
  int64_t perm[MSC_MAX_RANK];
  return t->kind == OP_transpose && msc_op_ints(t, "perm", perm, MSC_MAX_RANK) == 4 && perm[3] == 3;
}

static bool is_flexible(const msc_op *op) { return op && msc_is_graph(op) && (op->kind == OP_flash_attention || op->kind == OP_flash_attention_grad); }

static bool is_before(const msc_op *t) {
  const msc_op *maker = t->in[0].value->def;
  if (maker && (is_flexible(maker) || maker->kind == OP_constant)) return false;
  for (const msc_use *u = t->out[0].uses; u; u = u->next)
    if (!is_flexible(u->user)) return false;
  return msc_has_uses(&t->out[0]);
}

/* All who turn it turn it alike, and the others are flexible. */
static bool is_behind(const msc_op *t) {
  const msc_value *y = t->in[0].value;
  if (!is_flexible(y->def)) return false;
  for (const msc_use *u = y->uses; u; u = u->next)
    if (!is_flexible(u->user) && !(u->user->kind == OP_transpose && msc_attr_equal(msc_op_attr(u->user, "perm"), msc_op_attr(t, "perm")))) return false;
  return true;
}

bool pass_views(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next) {
      if (!keeps_vectors(op) || !(is_before(op) || is_behind(op))) continue;
      msc_op_set(op, "view", msc_bool(true));
      num++;
    }
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "transposes that move nothing", num);
  return true;
}
