/* expansion.c: a composite op and the layouts that it wants its operands in -> the layouts of the primitives that it
 * stands for, and the time that these take. */
#include "passes/3_shard/expansion.h"

#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/shard.h"

/* Sets the digits of all groups of the expansion from the layouts of its arguments. False after reporting. */
static bool set_letters_from_arguments(msc_pass_ctx *pass, shard_graph *g, const msc_layout *const *in_layout) {
  msc_func *f = g->func;
  int64_t conflicts;
  for (size_t i = 0; i < f->body->num_args; i++) {
    f->body->args[i]->type = msc_type_with_layout(pass->ctx, f->body->args[i]->type, in_layout[i]);
    g->arg_layout[i] = in_layout[i];
  }
  if (!msc_atoms_of(g->mesh, f->body->num_args, g->arg_layout, &g->atoms))
    return msc_error(pass->ctx, MSC_E_LAYOUT, f->loc,
                     "layouts cut a mesh axis at places that have no common refinement");
  shard_propagate(pass, g, false, &conflicts);
  return true;
}

static bool has_layouts(const msc_func *f, const msc_layout *const *in_layout) {
  for (size_t i = 0; i < f->body->num_args; i++)
    if (!in_layout[i]) return false;
  return f->body->num_args > 0;
}

bool shard_lay_expansion(msc_pass_ctx *pass, msc_func *f, const msc_layout *const *in_layout) {
  shard_graph g;
  if (!has_layouts(f, in_layout)) return true;
  msc_pass_ctx own = {.ctx = pass->ctx,
                      .config = pass->config,
                      .options = pass->options,
                      .info = pass->info,
                      .scratch = msc_arena_new(pass->ctx)};
  bool ok = shard_graph_of(&own, f, &g) && set_letters_from_arguments(&own, &g, in_layout);
  if (ok) shard_lay_ops(&own, &g);
  msc_arena_free(own.scratch); /* there are many expansions in a function */
  return ok;
}

/* ---- costs ---- */

static double bytes_of(const msc_value *v) { return (double)msc_local_bytes(v->type); }

/* The time to bring the op's operands into the layouts `want`; each value counts once per layout. SHARD_IMPOSSIBLE: one
 * of them cannot be brought there. */
static int64_t layout_changes_ns(shard_prices *prices, const msc_op *op, const msc_layout *const *want) {
  int64_t ns = 0;
  for (size_t i = 0; want && i < op->num_in; i++) {
    const msc_type *t = op->in[i].value->type;
    bool again = false;
    for (size_t k = 0; k < i && !again; k++) again = op->in[k].value == op->in[i].value && want[k] == want[i];
    if (again || !t->layout || want[i] == t->layout) continue;
    ns += shard_price(prices, t, false, shard_layout_number(prices, t->layout), shard_layout_number(prices, want[i]));
    if (ns >= SHARD_IMPOSSIBLE) return SHARD_IMPOSSIBLE;
  }
  return ns;
}

/* The expansion of one op, shared by all ops that equal it. */
typedef struct expansion {
  const msc_op *like;
  msc_func *f;              /* NULL: the op has no expansion, or no rules apply to it */
  shard_graph g;            /* without digits */
  msc_copies in_layouts[2]; /* for which costs were worked out, without work and with it */
  int64_t *ns[2];           /* these costs */
  struct expansion *next;
} expansion;

struct shard_expansions {
  msc_context *ctx;
  msc_arena *arena;
  const msc_cost *cost;
  shard_prices *prices;
  expansion *first;
};

shard_expansions *shard_expansions_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, shard_prices *prices) {
  shard_expansions *x = msc_new(arena, shard_expansions);
  *x = (shard_expansions){ctx, arena, cost, prices, NULL};
  return x;
}

static bool is_like(const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind || a->num_in != b->num_in || a->num_attrs != b->num_attrs) return false;
  for (size_t i = 0; i < a->num_in; i++)
    if (!msc_same_tensor(a->in[i].value->type, b->in[i].value->type)) return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

static expansion *expansion_of(shard_expansions *x, const msc_op *op) {
  for (expansion *e = x->first; e; e = e->next)
    if (is_like(e->like, op)) return e;
  expansion *e = msc_new(x->arena, expansion);
  msc_pass_ctx pass = {.ctx = x->ctx, .scratch = x->arena};
  e->like = op, e->f = msc_expansion_of(op), e->next = x->first;
  e->in_layouts[0].index.arena = e->in_layouts[1].index.arena = x->arena;
  if (e->f && !shard_graph_of(&pass, e->f, &e->g)) e->f = NULL;
  return x->first = e;
}

/* The cost of an op of the expansion that is a composite itself and must be expanded under these layouts; else 0. */
static int64_t inner_ns(shard_expansions *x, msc_arena *scratch, const msc_op *o) {
  const msc_layout **in = msc_new_array(scratch, const msc_layout *, o->num_in + 1);
  for (size_t i = 0; i < o->num_in; i++) in[i] = o->in[i].value->type->layout;
  return o->num_in && msc_must_expand(o, in) ? shard_expansion_ns(x, o, in, false) : 0;
}

/* The work of the products of the expansion. */
static msc_op_work products_work(const shard_graph *g) {
  msc_op_work sum = {0};
  for (size_t i = 0; i < g->num_ops; i++) {
    const shard_op *o = &g->op[i];
    if (o->group < 0 || msc_info(o->op)->cost != MSC_COST_FLOPS) continue;
    msc_assignment a = shard_assignment(o, &g->group[o->group].digits);
    int64_t parts[MSC_MAX_LETTERS], size[MSC_MAX_LETTERS];
    for (int l = 0; l < o->rule.num_letters; l++) parts[l] = shard_parts(&g->atoms, a.num[l], a.atom[l]);
    msc_rule_sizes(&o->rule, parts, size);
    msc_op_work w = msc_rule_work(o->op, &o->rule, size);
    sum.flops += w.flops, sum.bytes += w.bytes;
  }
  return sum;
}

/* The time of an expansion whose values have layouts: its products, and the traffic of its operands and results. */
static int64_t work_ns(const msc_cost *cost, const shard_graph *g) {
  const msc_block *b = g->func->body;
  msc_op_work w = products_work(g);
  for (size_t i = 0; i < b->num_args; i++) w.bytes += bytes_of(b->args[i]);
  for (size_t i = 0; i < b->last->num_in; i++) w.bytes += bytes_of(b->last->in[i].value);
  return msc_cost_product(cost, b->args[0]->type->dtype, w.flops, w.bytes);
}

/* Makes a graph of the expansion for arguments in these layouts. Where an argument has parts of chosen sizes the rules
 * are read anew, because such sizes are written into the rules; else e->g is copied. */
static bool make_graph(expansion *e, msc_pass_ctx *pass, const msc_layout *const *in_layout, shard_graph *out_g) {
  bool splits = false;
  for (size_t i = 0; i < e->f->body->num_args; i++)
    for (int d = 0; d < in_layout[i]->rank; d++) splits |= in_layout[i]->split[d] != NULL;
  if (splits) return shard_graph_of(pass, e->f, out_g);
  *out_g = e->g;
  out_g->arena = pass->scratch;
  for (size_t i = 0; i < out_g->num_groups; i++) {
    memset(&out_g->group[i].digits, 0, sizeof out_g->group[i].digits);
    out_g->group[i].by = MSC_DECIDER_NOBODY;
  }
  return true;
}

static int64_t expansion_ns(shard_expansions *x, expansion *e, const msc_layout *const *in_layout, bool with_work) {
  msc_pass_ctx pass = {.ctx = x->ctx, .scratch = msc_arena_new(x->ctx)};
  shard_graph g;
  int64_t ns = 0;
  if (!make_graph(e, &pass, in_layout, &g) || !set_letters_from_arguments(&pass, &g, in_layout)) ns = SHARD_IMPOSSIBLE;
  const msc_layout ***want = ns ? NULL : shard_lay_results(&pass, &g);
  for (const msc_op *o = e->f->body->first; o != e->f->body->last && ns < SHARD_IMPOSSIBLE; o = o->next)
    ns += layout_changes_ns(x->prices, o, want[o->id]) + inner_ns(x, pass.scratch, o);
  if (with_work && ns < SHARD_IMPOSSIBLE) ns += work_ns(x->cost, &g);
  msc_arena_free(pass.scratch);
  return ns < SHARD_IMPOSSIBLE ? ns : SHARD_IMPOSSIBLE;
}

int64_t shard_expansion_ns(shard_expansions *x, const msc_op *op, const msc_layout *const *in_layout, bool with_work) {
  expansion *e = expansion_of(x, op);
  if (!e->f) return SHARD_IMPOSSIBLE;
  if (!has_layouts(e->f, in_layout)) return 0;
  msc_copies *known = &e->in_layouts[with_work];
  uint32_t before = known->index.num, n = msc_copy_of(known, in_layout, op->num_in * sizeof *in_layout);
  if (n == before) {
    msc_grow(x->arena, e->ns[with_work], n);
    int64_t ns = expansion_ns(x, e, in_layout, with_work);
    e->ns[with_work][n] = ns;
  }
  return e->ns[with_work][n];
}
