/* functional: ops of blocks with `shard` -> the same ops between borders that have the layouts of the block's
 * strategies; all other ops whole.
 *
 * A marked block counts as a function: its arguments are the values that ops outside make and the inputs that it reads,
 * in the order of their first use; parameters are not among them.  Its results are the values that ops outside use, in
 * the order in which they are made.  A border is a broadcast_to to the same shape that has the strategy given for that
 * argument or result, or is whole.  Inside, propagation and search run as always; outside every rank computes
 * everything. */
#include "ir/fact.h"
#include "ir/table.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *func;
  const msc_attr_value *block; /* its dictionary */
  const char *name;
  size_t num, room;
  msc_value **value; /* arguments, or results */
} border_builder;

/* ---- where an op stands ---- */

static const msc_op *leader_of(const msc_op *op) { return op->forward ? op->forward : op; }

/* The name of the marked block that the op, or the forward op of a gradient op, belongs to; NULL: it is in none. */
static const char *block_of(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(leader_of(op), MSC_FACT(shard)), *name;
  if (!v || v->kind != MSC_ATTR_DICT) return NULL;
  name = msc_find_attr(v->dict.a, v->dict.num, "name");
  return name && name->kind == MSC_ATTR_STR ? name->s : NULL;
}

/* True if the model has the op, as opposed to a pass that made it; or it is the function's return. */
static bool is_op_of_model(const msc_op *op) {
  return msc_op_attr(leader_of(op), MSC_FACT(shard)) || msc_info(op)->flags & MSC_TERMINATOR;
}

/* ---- arguments and results ---- */

static void add_value(border_builder *b, msc_value *v) {
  for (size_t i = 0; i < b->num; i++)
    if (b->value[i] == v) return;
  msc_reserve(b->pass->scratch, b->value, b->room, b->num + 1);
  b->value[b->num++] = v;
}

static bool comes_in(const border_builder *b, const msc_value *v) {
  if (!v->def) return msc_arg_role(b->func, v->index) <= MSC_ROLE_MASK;
  return v->def->num_in && is_op_of_model(v->def) && block_of(v->def) != b->name;
}

static void find_arguments(border_builder *b) {
  b->num = 0;
  for (msc_op *op = b->func->body->first; op; op = op->next)
    for (size_t i = 0; !op->forward && block_of(op) == b->name && i < op->num_in; i++)
      if (comes_in(b, op->in[i].value)) add_value(b, op->in[i].value);
}

/* Does this use take the value out of the block: is it an operand of an op outside, or a result of the function that is
 * no new value of an argument? */
static bool goes_out(const border_builder *b, const msc_use *u) {
  const msc_attr_value *ties = msc_func_attr(b->func, MSC_FACT(ties));
  size_t i = (size_t)(u - u->user->in);
  if (msc_is_return(u->user)) return !(ties && i < ties->list.num && ties->list.v[i].i >= 0);
  return !u->user->forward && is_op_of_model(u->user) && block_of(u->user) != b->name;
}

static void find_results(border_builder *b) {
  b->num = 0;
  for (msc_op *op = b->func->body->first; op; op = op->next)
    for (size_t i = 0; !op->forward && block_of(op) == b->name && i < op->num_out; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next)
        if (goes_out(b, u)) add_value(b, &op->out[i]);
}

/* ---- borders ---- */

/* Entry i of the block's annotation (in_strategy, in_layout, out_strategy or out_layout); NULL: not given. */
static const msc_attr_value *annotation_entry(const border_builder *b, const char *annotation, size_t i) {
  const msc_attr_value *list = msc_find_attr(b->block->dict.a, b->block->dict.num, annotation);
  if (!list || list->kind != MSC_ATTR_LIST || i >= list->list.num) return NULL;
  const msc_attr_value *v = &list->list.v[i];
  bool given = v->kind == MSC_ATTR_LIST ? v->list.num > 0 : v->kind == MSC_ATTR_STR && *v->s;
  return given ? v : NULL;
}

/* Checks that an annotation that is given has one entry per value. */
static bool check_entries(const border_builder *b, const char *annotation, const char *what) {
  const msc_attr_value *list = msc_find_attr(b->block->dict.a, b->block->dict.num, annotation);
  if (!list || (list->kind == MSC_ATTR_LIST && list->list.num == b->num)) return true;
  const char *text = "";
  for (size_t i = 0; i < b->num; i++) {
    const msc_value *v = b->value[i];
    const char *name = v->def ? v->def->name : v->name;
    text = msc_arena_printf(b->pass->scratch, "%s%s%s", text, i ? ", " : "",
                            name     ? name
                            : v->def ? msc_kind_name(v->def->kind)
                                     : "an argument");
  }
  return msc_error(b->pass->ctx, MSC_E_STRATEGY, b->func->loc,
                   "block %s: %s must have one entry for each of its %zu %ss: %s", b->name, annotation, b->num, what,
                   text);
}

/* Makes the border for argument (side "in") or result (side "out") number i of the block, on value v; the caller
 * inserts it. */
static msc_op *build_border(border_builder *b, msc_value *v, const char *side, size_t i, const msc_loc *loc) {
  msc_context *ctx = b->pass->ctx;
  const char *strategy = *side == 'i' ? MSC_FACT(in_strategy) : MSC_FACT(out_strategy),
             *layout = *side == 'i' ? MSC_FACT(in_layout) : MSC_FACT(out_layout);
  const msc_attr_value *parts = annotation_entry(b, strategy, i), *said = annotation_entry(b, layout, i);
  msc_op *op = msc_op_new(b->func, OP_broadcast_to, 1, &v, 1, loc);
  msc_attr_value whole = msc_layout_attr(msc_layout_replicated(ctx, v->type->rank));
  op->name = msc_intern(ctx, msc_arena_printf(b->pass->scratch, "%s.%s%zu", b->name, side, i));
  msc_op_put(op, msc_fact_shape(ctx, (size_t)v->type->rank, v->type->dim));
  msc_op_put(op, msc_fact_pinned(true));
  msc_op_put(op, msc_fact_border(true)); /* an op without it pins the result of the op before it */
  if (parts) msc_op_put(op, msc_fact_in_strategy(msc_list(ctx, 1, parts)));
  else msc_op_set(op, MSC_FACT(in_layout), msc_list(ctx, 1, said ? said : &whole));
  msc_op_put(op, msc_fact_shard((*b->block)));
  return op;
}

/* Replaces v by w in its users inside the block, or with inside = false in its users outside. */
static void redirect(const border_builder *b, msc_value *v, msc_value *w, bool inside) {
  for (msc_use *u = v->uses, *next; u; u = next) {
    next = u->next;
    if (u->user == w->def || !is_op_of_model(u->user) || (block_of(u->user) == b->name) != inside) continue;
    msc_set_operand(u->user, (size_t)(u - u->user->in), w);
  }
}

static msc_op *first_user(const border_builder *b, const msc_value *v) {
  for (msc_op *op = b->func->body->first; op; op = op->next)
    for (size_t i = 0; !op->forward && block_of(op) == b->name && i < op->num_in; i++)
      if (op->in[i].value == v) return op;
  return NULL;
}

static bool put_borders(border_builder *b) {
  find_arguments(b);
  bool ok = check_entries(b, MSC_FACT(in_strategy), "argument") & check_entries(b, MSC_FACT(in_layout), "argument");
  for (size_t i = 0; i < b->num; i++) {
    msc_op *user = first_user(b, b->value[i]), *op = build_border(b, b->value[i], "in", i, user->loc);
    msc_insert_before(user, op);
    msc_infer(op);
    redirect(b, b->value[i], &op->out[0], true);
  }
  find_results(b);
  ok &= check_entries(b, MSC_FACT(out_strategy), "result") & check_entries(b, MSC_FACT(out_layout), "result");
  for (size_t i = 0; i < b->num; i++) {
    msc_op *def = b->value[i]->def, *op = build_border(b, b->value[i], "out", i, def->loc);
    msc_insert_after(def, op);
    msc_infer(op);
    redirect(b, b->value[i], &op->out[0], false);
  }
  return ok;
}

/* ---- the rest ---- */

static const msc_layout **whole_layouts(const border_builder *b, size_t num, const msc_op *op, bool in) {
  const msc_layout **whole = msc_new_array(b->pass->scratch, const msc_layout *, num + 1);
  for (size_t i = 0; i < num; i++)
    whole[i] = msc_layout_replicated(b->pass->ctx, in ? op->in[i].value->type->rank : op->out[i].type->rank);
  return whole;
}

static void keep_whole(const border_builder *b, msc_op *op) {
  if (msc_op_has_sort(op, MSC_SORT_STRATEGY)) return; /* the user says otherwise */
  msc_op_put(op, msc_fact_in_layout(b->pass->ctx, op->num_in, whole_layouts(b, op->num_in, op, true)));
  msc_op_put(op, msc_fact_out_layout(b->pass->ctx, op->num_out, whole_layouts(b, op->num_out, op, false)));
}

/* Runs over the marked blocks in the order of their first ops, each once. */
static bool shard_blocks(border_builder *b) {
  bool ok = true;
  for (msc_op *op = b->func->body->first; op; op = op->next) {
    const char *name = op->forward || msc_op_attr(op, MSC_FACT(pinned)) ? NULL : block_of(op);
    bool seen = false;
    for (const msc_op *p = b->func->body->first; name && p != op && !seen; p = p->next)
      seen = !msc_op_attr(p, MSC_FACT(pinned)) && block_of(p) == name;
    if (!name || seen) continue;
    b->name = name, b->block = msc_op_attr(op, MSC_FACT(shard));
    ok &= put_borders(b);
  }
  return ok;
}

static bool chooses_layouts(const msc_config *config) {
  msc_parallel_mode mode = msc_config_parallel_mode(config);
  return mode == MSC_SEMI_AUTO_PARALLEL || mode == MSC_AUTO_PARALLEL;
}

bool pass_functional(msc_pass_ctx *pass, msc_module *m) {
  border_builder b = {.pass = pass, .func = shard_func(m)};
  const msc_op *marked = NULL;
  bool ok = true;
  if (!b.func) return true;
  for (const msc_op *op = b.func->body->first; op && !marked; op = op->next)
    if (block_of(op)) marked = op;
  if (!marked) return msc_not_asked_for(pass);
  bool shards = chooses_layouts(pass->config);
  if (!shards && msc_config_devices(pass->config) > 1)
    msc_warning(pass->ctx, MSC_E_STRATEGY, marked->loc, "shard of block %s is ignored: parallel_mode is %s",
                block_of(marked), msc_config_text(pass->config, MSC_KEY_parallel_mode));
  if (shards) ok = shard_blocks(&b);
  for (msc_op *op = b.func->body->first; op; op = op->next) {
    const msc_attr_value *v = msc_op_attr(op, MSC_FACT(shard));
    if (shards && v && v->kind == MSC_ATTR_BOOL) keep_whole(&b, op);
  }
  for (msc_op *op = b.func->body->first; op; op = op->next) msc_op_unset(op, MSC_FACT(shard));
  return ok;
}
