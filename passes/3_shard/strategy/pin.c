/* pin.c: out_strategy and out_layout of an op -> an op behind its result that holds the layout which users see.
 *
 * The layout of a result without unfinished sums follows from the operands, and the annotation may only repeat it.  An
 * unfinished sum leaves a choice: the digits over which it is spread may cut dimensions further or be left unused.  The
 * choice is kept as a broadcast_to to the same shape through which no sum passes; redistribute drops it again. */
#include <string.h>

#include "passes/3_shard/shard.h"

typedef struct {
  shard_graph *g;
  const msc_op *op;
  const char *annotation;
  size_t result;
  const msc_layout *made; /* the result's layout by the op's rule; NULL: the op has no digits yet */
} pin_reader;

static const char *layout_text(const pin_reader *p, const msc_layout *l) {
  return msc_layout_print(p->g->arena, p->g->mesh, l);
}

/* ---- which layouts are possible ---- */

/* Reports that the result cannot have the layout. Returns false. */
static bool report_pin(const pin_reader *p) {
  const char *kind = msc_kind_name(p->op->kind);
  if (!p->made->num_partial)
    return msc_op_error(
        p->op, MSC_E_STRATEGY,
        "%s: result %zu of %s is %s, which follows from its operands; only a result with pending sums leaves a choice",
        p->annotation, p->result, kind, layout_text(p, p->made));
  return msc_op_error(
      p->op, MSC_E_STRATEGY,
      "%s: result %zu of %s is %s; its dimensions stay cut so and may be cut further only by what its sums are spread "
      "over, %s",
      p->annotation, p->result, kind, layout_text(p, p->made),
      msc_subaxis_print(p->g->arena, p->g->mesh, p->made->num_partial, p->made->sub + p->made->first[p->made->rank]));
}

/* Does `want` cut every dimension as the layout p->made does, or further, by digits over which p->made is partial? */
static bool is_reachable(const pin_reader *p, const msc_layout *want) {
  const msc_atoms *atoms = &p->g->atoms;
  const msc_layout *made = p->made;
  uint8_t mine[MSC_MAX_SUBAXES], theirs[MSC_MAX_SUBAXES];
  uint32_t pending = shard_atom_set(atoms, made->num_partial, made->sub + made->first[made->rank]);
  for (int d = 0; d < made->rank; d++) {
    int a = msc_atoms_in(atoms, made->first[d + 1] - made->first[d], made->sub + made->first[d], mine);
    int b = msc_atoms_in(atoms, want->first[d + 1] - want->first[d], want->sub + want->first[d], theirs);
    if (b < a || memcmp(mine, theirs, (size_t)a)) return false;
    for (int i = a; i < b; i++)
      if (!(pending >> theirs[i] & 1)) return false;
  }
  return true;
}

/* ---- the annotation's entry as a layout ---- */

/* Reads an entry of out_layout; an empty text gives NULL. False after a report. */
static bool read_layout(const pin_reader *p, const msc_attr_value *e, const msc_layout **out_layout) {
  MSC_TRY(msc_users_layout(p->g->func->module, p->op->loc, e, out_layout));
  if (e->kind == MSC_ATTR_STR && !*e->s) return true;
  if (!*out_layout)
    return msc_op_error(p->op, MSC_E_STRATEGY, "%s: the entry of result %zu must be the text of a layout",
                        p->annotation, p->result);
  const char *text = layout_text(p, *out_layout);
  const msc_type *t = p->op->out[p->result].type;
  if ((*out_layout)->rank != t->rank)
    return msc_op_error(p->op, MSC_E_STRATEGY, "%s: result %zu has rank %d, its layout %s has rank %d", p->annotation,
                        p->result, t->rank, text, (*out_layout)->rank);
  if (p->made || (msc_layout_fits(*out_layout, t) && !(*out_layout)->num_partial)) return true;
  return msc_op_error(p->op, MSC_E_STRATEGY, "%s: result %zu of %s cannot have the layout %s", p->annotation, p->result,
                      msc_kind_name(p->op->kind), text);
}

static bool check_tuple(const pin_reader *p, const msc_attr_value *e) {
  const msc_type *t = p->op->out[p->result].type;
  if (e->kind != MSC_ATTR_LIST || e->list.num != (size_t)t->rank)
    return msc_op_error(p->op, MSC_E_STRATEGY,
                        "%s: the entry of result %zu must be a list of parts, one for each of its %d dimensions",
                        p->annotation, p->result, t->rank);
  for (size_t d = 0; d < e->list.num; d++)
    if (e->list.v[d].kind != MSC_ATTR_INT || e->list.v[d].i < 1 || e->list.v[d].i > MSC_MAX_DEVICES)
      return msc_op_error(p->op, MSC_E_STRATEGY,
                          "%s: dimension %zu of result %zu: the number of parts must be an integer of at least 1",
                          p->annotation, d, p->result);
  return true;
}

/* Reads an entry of out_strategy as a layout: the digits by which the op's rule cuts the result stay, further parts are
 * cut by partial digits; if the op has no digits yet, by any. False after a report. */
static bool read_tuple(const pin_reader *p, const msc_attr_value *e, const msc_layout **out_layout) {
  const msc_type *t = p->op->out[p->result].type;
  const msc_layout *made = p->made;
  uint32_t used = made ? ~shard_atom_set(&p->g->atoms, made->num_partial, made->sub + made->first[made->rank]) : 0;
  uint8_t atom[MSC_MAX_SUBAXES];
  msc_layout raw;
  int num = 0;
  memset(&raw, 0, sizeof raw);
  MSC_TRY(check_tuple(p, e));
  raw.rank = (uint8_t)t->rank;
  for (int d = 0; d < t->rank; d++) {
    int64_t parts = e->list.v[d].i, have = made ? msc_layout_parts(made, d) : 1;
    uint8_t own = 0;
    for (int i = made ? made->first[d] : 0; made && i < made->first[d + 1]; i++) raw.sub[num++] = made->sub[i];
    if (parts % have || !shard_take_parts(p->g, parts / have, &used, atom, &own)) {
      if (made) return report_pin(p);
      return msc_op_error(p->op, MSC_E_STRATEGY,
                          "%s: dimension %d of result %zu cannot be cut into %" PRId64 " parts on %" PRId64 " devices",
                          p->annotation, d, p->result, parts, msc_mesh_size(p->g->mesh));
    }
    for (int i = 0; i < own; i++) raw.sub[num++] = p->g->atoms.atom[atom[i]];
    raw.first[d + 1] = (uint8_t)num;
  }
  *out_layout = msc_layout_of(p->g->ctx, p->g->mesh, &raw);
  if (made || msc_layout_fits(*out_layout, t)) return true;
  return msc_op_error(p->op, MSC_E_STRATEGY, "%s: the parts do not divide result %zu of %s", p->annotation, p->result,
                      msc_kind_name(p->op->kind));
}

/* ---- all results of a group's leader ---- */

/* Reads one entry and adds the result to the list if the entry fixes its layout; repeats: the entries only repeat, for
 * checking, what a strategy file recorded. */
static bool pin_result(pin_reader *p, const msc_attr_value *e, bool is_layout, bool repeats, shard_pin **list) {
  const msc_layout *want = NULL;
  MSC_TRY(is_layout ? read_layout(p, e, &want) : read_tuple(p, e, &want));
  if (!want || want == p->made) return true;
  if (p->made && !is_reachable(p, want)) return report_pin(p);
  if (p->made && want->num_partial) return report_pin(p);
  if (repeats) return true;
  shard_pin *pin = msc_new(p->g->arena, shard_pin);
  *pin = (shard_pin){(msc_op *)(uintptr_t)p->op, p->result, want, *list};
  *list = pin;
  return true;
}

bool shard_pin_results(shard_graph *g, int group, const char *annotation, shard_pin **list) {
  const shard_group *of = &g->group[group];
  const msc_op *op = of->leader;
  const msc_attr_value *v = msc_op_attr(op, annotation);
  bool ok = true,
       repeats = msc_op_attr(op, MSC_FACT(by)) && !msc_op_attr(op, MSC_FACT(pins)); /* both: from a strategy file */
  if (!v) return true;
  if (v->kind != MSC_ATTR_LIST || v->list.num != op->num_out)
    return msc_op_error(op, MSC_E_STRATEGY, "%s must have one entry for each of the %d results of %s", annotation,
                        op->num_out, msc_kind_name(op->kind));
  for (size_t i = 0; i < v->list.num; i++) {
    pin_reader p = {g, op, annotation, i, of->by ? shard_layout(g, &g->op[op->id], &of->digits, op->num_in + i) : NULL};
    ok &= pin_result(&p, &v->list.v[i], !strcmp(annotation, MSC_FACT(out_layout)), repeats, list);
  }
  return ok;
}

/* Inserts the broadcast_to that holds the layout, with `sharding` set: its letters are the dimensions of the result. */
static void insert_pin(shard_graph *g, const shard_pin *pin) {
  msc_value *from = &pin->op->out[pin->result];
  msc_op *to = msc_op_new(g->func, OP_broadcast_to, 1, &from, 1, pin->op->loc);
  const msc_layout *l = pin->layout;
  msc_attr *digits = NULL;
  size_t num = 0;
  to->name = pin->op->name;
  msc_op_put(to, msc_fact_shape(g->ctx, (size_t)from->type->rank, from->type->dim));
  msc_op_put(to, msc_fact_pinned(true));
  msc_op_put(to, msc_fact_by(g->ctx, MSC_DECIDER_USER));
  msc_insert_after(pin->op, to);
  msc_infer(to);
  for (int d = 0; d < from->type->rank; d++) {
    char name[2] = {(char)('A' + d), 0};
    if (from->type->dim[d] != 1)
      msc_put_attr(g->ctx, &digits, &num, name, msc_digits_attr(msc_layout_of_dim(g->ctx, g->mesh, l, d)));
  }
  msc_op_put(to, msc_fact_sharding(num, digits));
  msc_replace_uses(from, &to->out[0]);
  msc_set_operand(to, 0, from);
}

void shard_insert_pins(shard_graph *g, const shard_pin *list) {
  for (const shard_pin *p = list; p; p = p->next) insert_pin(g, p);
}
