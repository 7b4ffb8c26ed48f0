/* budgets: checks the model's limits against the decided layouts: `max_bytes`, the bytes that a rank may receive for an
 * op, and `deny_replicate`, that its results must be cut -> an error for every limit that is exceeded; both attributes
 * are dropped.
 *
 * An op is charged for the bytes of: its operands, brought into the layouts that it wants them in, once per layout; its
 * unfinished sums, finished in every layout that users want them in; and both of these for its gradient ops. Bytes
 * count once per micro-batch, or once per step where that is enough. */
#include "ir/fact.h"
#include "passes/3_shard/reshard/reshard.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_reshard *planner;
  const msc_layout ***want; /* by op id and operand, or NULL */
  int64_t *bytes;           /* by id of a forward op: bytes charged to it */
  int64_t *largest;         /* by id of a forward op: the bytes of its most expensive change of layout */
  const msc_use **moved;    /* by id of a forward op: the use that needs this change; NULL: nothing is charged */
} budget;

static const msc_op *op_of_user(const msc_op *op) { return op->forward ? op->forward : op; }

static void read_wanted(budget *b, const msc_op *op) {
  b->want[op->id] = msc_new_array(b->pass->scratch, const msc_layout *, op->num_in + 1);
  for (size_t i = 0; i < op->num_in; i++) b->want[op->id][i] = msc_wanted_layout(op, i);
}

/* ---- max_bytes ---- */

static const msc_layout *wanted_by_use(const budget *b, const msc_use *u) {
  return b->want[u->user->id][u - u->user->in];
}

static int64_t bytes_of_use(const budget *b, const msc_use *u) {
  const msc_layout *want = wanted_by_use(b, u), *have = u->value->type->layout;
  if (!want || !have || want == have) return 0;
  return msc_reshard_cost(b->planner, msc_type_with_layout(b->pass->ctx, u->value->type, NULL), have, want);
}

static void charge(budget *b, const msc_op *op, const msc_use *u, int64_t bytes) {
  b->bytes[op->id] += bytes;
  if (bytes <= b->largest[op->id]) return;
  b->largest[op->id] = bytes;
  b->moved[op->id] = u;
}

/* True if an earlier use of the value wants the same layout, so that this one moves nothing: a use by the same op that
 * the user named, or with `by_any` by any op. */
static bool is_shared(const budget *b, const msc_use *u, bool by_any) {
  const msc_layout *want = wanted_by_use(b, u);
  for (const msc_use *o = u->value->uses; o != u; o = o->next)
    if (wanted_by_use(b, o) == want && (by_any || op_of_user(o->user) == op_of_user(u->user))) return true;
  return false;
}

static void charge_value(budget *b, const msc_value *v) {
  const msc_op *def = v->def;
  bool is_sum = def && v->type->layout && v->type->layout->num_partial;
  for (const msc_use *u = v->uses; u; u = u->next) {
    int64_t bytes = bytes_of_use(b, u);
    if (bytes <= 0) continue;
    if (!is_shared(b, u, false)) charge(b, op_of_user(u->user), u, bytes);
    if (is_sum && op_of_user(def) != op_of_user(u->user) && !is_shared(b, u, true))
      charge(b, op_of_user(def), u, bytes);
  }
}

static const char *text_of_layout(const budget *b, const msc_layout *l) {
  return msc_layout_print(b->pass->scratch, &b->f->module->mesh, l);
}

static bool check_bytes(const budget *b, const msc_op *op) {
  const msc_attr_value *most = msc_op_attr(op, MSC_FACT(max_bytes));
  const msc_use *u = b->moved[op->id];
  if (!most || b->bytes[op->id] <= most->i) return true;
  const msc_op *from = u->value->def, *to = u->user;
  return msc_op_error(op, MSC_E_INFEASIBLE,
                      "%s: max_bytes is %" PRId64 ", and each rank receives %" PRId64 " bytes for it; most, %" PRId64
                      ", to bring %s from %s to %s for %s",
                      msc_kind_name(op->kind), most->i, b->bytes[op->id], b->largest[op->id],
                      from && from->name ? from->name
                      : from             ? msc_kind_name(from->kind)
                      : u->value->name   ? u->value->name
                                         : "an argument",
                      text_of_layout(b, u->value->type->layout), text_of_layout(b, wanted_by_use(b, u)),
                      msc_op_title(to));
}

/* ---- deny_replicate ---- */

static bool check_whole(const budget *b, const msc_op *op) {
  const msc_attr_value *deny = msc_op_attr(op, MSC_FACT(deny_replicate));
  if (!deny || !deny->b || msc_mesh_size(&b->f->module->mesh) == 1) return true;
  for (size_t i = 0; i < op->num_out; i++) {
    const msc_type *t = op->out[i].type;
    if (t->layout && msc_layout_is_replicated(t->layout))
      return msc_op_error(op, MSC_E_REPLICATED,
                          "%s: deny_replicate, and every rank holds all %" PRId64
                          " bytes of its result %zu; a strategy of its own would cut it",
                          msc_kind_name(op->kind), msc_type_bytes(t), i);
  }
  return true;
}

/* ---- the pass ---- */

static bool is_asked(const msc_func *f) {
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (msc_op_attr(op, MSC_FACT(max_bytes)) || msc_op_attr(op, MSC_FACT(deny_replicate))) return true;
  return false;
}

static bool check_budget(msc_pass_ctx *pass, msc_func *f) {
  msc_reshard_options options = {.free_partial = true,
                                 .no_alltoall = !msc_config_bool(pass->config, MSC_KEY_enable_alltoall)};
  budget b = {.pass = pass, .f = f, .planner = msc_reshard_new(pass->ctx, &f->module->mesh, &options)};
  size_t n = msc_number(f->body).num_ops;
  b.want = msc_new_array(pass->scratch, const msc_layout **, n);
  b.bytes = msc_new_array(pass->scratch, int64_t, n);
  b.largest = msc_new_array(pass->scratch, int64_t, n);
  b.moved = msc_new_array(pass->scratch, const msc_use *, n);
  bool ok = true;
  for (const msc_op *op = f->body->first; op; op = op->next) read_wanted(&b, op);
  for (size_t i = 0; i < f->body->num_args; i++) charge_value(&b, f->body->args[i]);
  for (const msc_op *op = f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) charge_value(&b, &op->out[i]);
  for (const msc_op *op = f->body->first; op; op = op->next) ok &= check_bytes(&b, op) & check_whole(&b, op);
  return ok;
}

bool pass_budgets(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    if (is_asked(f)) MSC_TRY(check_budget(pass, f));
    for (msc_op *op = f->body->first; op; op = op->next) msc_op_unset_sort(op, MSC_SORT_BUDGET);
  }
  return true;
}
