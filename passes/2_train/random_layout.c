/* random_layout.c: for every random op of one rank's program, finds which part of a whole tensor this rank draws.
 *
 * Random numbers depend on the position of an element in a whole tensor. In a program written for one rank that tensor
 * is not stated, so each value gets, for every digit of the position of a rank in the mesh, whether ranks that differ
 * in that digit hold the same value, a part each of one dimension, or a value of their own. Inputs come first, and the
 * rules of ops and collectives carry it on. A mask is then the same where the values it is applied to are the same,
 * different where ranks hold different samples, and, where these are parts of a batch, the part that one device would
 * draw for the whole batch. A constant is the same everywhere, so a mask made from one follows the values that it is
 * combined with later. */
#include <string.h>

#include "passes/2_train/batch.h"
#include "passes/2_train/train.h"

enum { ALIKE, OWN, PART }; /* PART + d: ranks hold a part each of dimension d */

typedef struct {
  uint8_t at[MSC_MAX_SUBAXES]; /* by atom of the mesh: what ranks hold that differ in this atom */
} held;

typedef struct {
  msc_func *f;
  const msc_mesh *mesh;
  msc_atoms atoms;
  held *held;     /* by value id */
  bool *constant; /* is the value made of constants only? */
  msc_arena *arena, *rules;
} draws;

static bool is_random_op(const msc_op *op) { return (msc_info(op)->flags & MSC_RANDOM) != 0; }

bool msc_is_layerwise(const msc_func *f, size_t arg) {
  const msc_attr_value *v = msc_arg_attr(f, arg, MSC_FACT(msc_layerwise_parallel));
  return v && v->kind == MSC_ATTR_BOOL && v->b;
}

static bool is_manual_collective(const msc_op *op) {
  return msc_info(op)->flags & MSC_COLLECTIVE && msc_op_attr(op, "axes");
}

static held *held_of(const draws *s, const msc_value *v) { return &s->held[v->id]; }

/* The number of operands whose elements go into the results; the key of a random op is not one of them. */
static size_t num_read_operands(const msc_op *op) { return is_random_op(op) ? 1 : op->num_in; }

/* ---- digits ---- */

static bool find_collective_atoms(draws *s) {
  size_t num = 0;
  for (const msc_op *op = s->f->body->first; op; op = op->next) num += is_manual_collective(op);
  const msc_layout **group = msc_new_array(s->arena, const msc_layout *, num + 1);
  num = 0;
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    if (is_manual_collective(op)) group[num++] = msc_op_layout(op, "axes");
  }
  return msc_atoms_of(s->mesh, num, group, &s->atoms) ||
         msc_error(s->f->module->ctx, MSC_E_UNSUPPORTED, s->f->loc,
                   "random ops beside collectives over digits of an axis that have no common refinement are not "
                   "supported yet");
}

/* ---- forward ---- */

static void set_all_atoms(const draws *s, held *h, int at) { memset(h->at, at, (size_t)s->atoms.num); }

static void set_input_holdings(draws *s, bool full_batch) {
  for (size_t i = 0; i < s->f->body->num_args; i++) {
    int dim = msc_batch_dim(s->f, i);
    held *h = held_of(s, s->f->body->args[i]);
    if (dim >= 0 && !full_batch) set_all_atoms(s, h, PART + dim);
    else if (msc_is_layerwise(s->f, i)) set_all_atoms(s, h, PART);
  }
}

static bool follow_collective(draws *s, const msc_op *op) {
  const msc_layout *axes = msc_op_layout(op, "axes");
  uint8_t atom[MSC_MAX_SUBAXES];
  int num = msc_atoms_in(&s->atoms, axes->first[1], axes->sub, atom);
  msc_verb verb = msc_op_verb(op); /* none: a send, a receipt */
  msc_verb_side side = verb < MSC_NUM_VERBS ? msc_verb_row_of(verb)->result : MSC_AT_ANY;
  const char *cut = msc_verb_dim_attr(side);
  for (size_t i = 0; i < op->num_out && i < op->num_in; i++) {
    held *y = held_of(s, &op->out[i]);
    *y = *held_of(s, op->in[i].value);
    for (int a = 0; a < num; a++) {
      uint8_t *at = &y->at[atom[a]];
      if (side == MSC_AT_WHOLE) *at = ALIKE;
      else if (cut) *at = (uint8_t)(PART + msc_op_int(op, cut));
      else if (*at == ALIKE) *at = OWN; /* ranks of one group got values of different ranks */
    }
  }
  return true;
}

/* The dimension of `to` that is cut where dimension `dim` of `from` is: its major letter is the same. -1: none. */
static int dim_with_same_letter(const msc_tensor_letters *from, int dim, const msc_tensor_letters *to) {
  for (int d = 0; from->dim[dim].num && d < to->rank; d++)
    if (to->dim[d].num && to->dim[d].letter[0] == from->dim[dim].letter[0]) return d;
  return -1;
}

/* Returns what ranks hold of a result if they hold `a` and `b` of two operands: a part if either is a part; a value of
 * its own if both are parts, of different dimensions. */
static uint8_t join_holdings(int a, int b) {
  bool parts = a >= PART && b >= PART;
  return (uint8_t)(parts && a != b ? OWN : a > b ? a : b);
}

static void follow_operand(const draws *s, const msc_rule *rule, const msc_op *op, size_t i, size_t result, held *y) {
  const held *x = held_of(s, op->in[i].value);
  for (int a = 0; a < s->atoms.num; a++) {
    if (x->at[a] == ALIKE) continue;
    int dim = x->at[a] < PART
                  ? -1
                  : dim_with_same_letter(&rule->tensor[i], x->at[a] - PART, &rule->tensor[op->num_in + result]);
    y->at[a] = join_holdings(y->at[a], dim < 0 ? OWN : PART + dim);
  }
}

static bool follow_op(draws *s, const msc_op *op) {
  msc_rule rule;
  bool constant = true;
  if (!op->num_out) return true;
  for (size_t i = 0; i < num_read_operands(op); i++) constant &= s->constant[op->in[i].value->id];
  for (size_t i = 0; i < op->num_out; i++) s->constant[op->out[i].id] = constant;
  if (constant) return true;
  if (is_manual_collective(op)) return follow_collective(s, op);
  MSC_TRY(msc_rule_of(op, s->rules, &rule));
  for (size_t result = 0; result < op->num_out; result++) {
    held y = {{0}};
    for (size_t i = 0; i < num_read_operands(op); i++) follow_operand(s, &rule, op, i, result, &y);
    *held_of(s, &op->out[result]) = y;
  }
  msc_arena_reset(s->rules);
  return true;
}

/* ---- backward: values that constants are combined with ---- */

static void join_for_constant(const draws *s, const msc_rule *rule, size_t tensor, const held *other, size_t i,
                              held *x) {
  for (int a = 0; a < s->atoms.num; a++) {
    int dim =
        other->at[a] < PART ? -1 : dim_with_same_letter(&rule->tensor[tensor], other->at[a] - PART, &rule->tensor[i]);
    if (dim >= 0 || other->at[a] == OWN) x->at[a] = join_holdings(x->at[a], dim < 0 ? OWN : PART + dim);
  }
}

static bool look_ahead_for_constants(draws *s, const msc_op *op) {
  msc_rule rule;
  bool any = false;
  for (size_t i = 0; i < num_read_operands(op); i++) any |= s->constant[op->in[i].value->id];
  if (!any || !op->num_out || is_manual_collective(op)) return true;
  MSC_TRY(msc_rule_of(op, s->rules, &rule));
  for (size_t i = 0; i < num_read_operands(op); i++) {
    held *x = held_of(s, op->in[i].value);
    if (!s->constant[op->in[i].value->id]) continue;
    for (size_t k = 0; k < num_read_operands(op); k++)
      join_for_constant(s, &rule, k, held_of(s, op->in[k].value), i, x);
    for (size_t k = 0; k < op->num_out; k++) join_for_constant(s, &rule, op->num_in + k, held_of(s, &op->out[k]), i, x);
  }
  msc_arena_reset(s->rules);
  return true;
}

/* Marks constants as equal on all ranks again. What was found for masks drawn for them stays. */
static void forget_constants(const draws *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) {
      if (!s->constant[op->out[i].id]) continue;
      if (is_random_op(op)) s->constant[op->out[i].id] = false;
      else *held_of(s, &op->out[i]) = (held){{0}};
    }
}

static bool follow_all_ops(draws *s, bool drawn) {
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    bool known = drawn && is_random_op(op) && s->constant[op->in[0].value->id];
    if (!op->forward && !known) MSC_TRY(follow_op(s, op));
  }
  return true;
}

static bool find_held_digits(draws *s, bool full_batch) {
  set_input_holdings(s, full_batch);
  MSC_TRY(follow_all_ops(s, false));
  for (const msc_op *op = s->f->body->last; op; op = op->prev)
    if (!op->forward) MSC_TRY(look_ahead_for_constants(s, op));
  forget_constants(s);
  return follow_all_ops(s, true);
}

/* ---- random ops ---- */

static void add_atoms_held_as(const draws *s, const held *h, int at, msc_layout *raw, int *num) {
  for (int a = 0; a < s->atoms.num; a++)
    if (h->at[a] == at) raw->sub[(*num)++] = s->atoms.atom[a];
}

/* Sets `whole_layout` of a random op: the layout of the whole tensor. Ranks with values of their own have them one
 * after the other along dimension 0. */
static bool write_whole_layout(draws *s, msc_op *op) {
  const msc_op *drawn = op->forward && op->forward->kind == op->kind ? op->forward : op;
  const msc_value *v = &drawn->out[0];
  const held *h = held_of(s, v);
  msc_layout raw = {.rank = (uint8_t)v->type->rank};
  int num = 0;
  for (int d = 0; d < v->type->rank; d++) {
    if (d == 0) add_atoms_held_as(s, h, OWN, &raw, &num);
    add_atoms_held_as(s, h, PART + d, &raw, &num);
    raw.first[d + 1] = (uint8_t)num;
  }
  if (v->type->rank == 0)
    for (int a = 0; a < s->atoms.num; a++)
      if (h->at[a] != ALIKE)
        return msc_op_error(op, MSC_E_UNSUPPORTED,
                            "%s of a single number that differs between ranks is not supported yet; give it shape [1]",
                            msc_kind_name(op->kind));
  if (num)
    msc_op_put(op, msc_fact_whole_layout(msc_layout_of(s->f->module->ctx, s->mesh, &raw)));
  return true;
}

bool msc_place_draws(msc_func *f, msc_arena *arena, bool full_batch) {
  draws s = {.f = f, .mesh = &f->module->mesh, .arena = arena};
  bool any = false;
  for (const msc_op *op = f->body->first; op; op = op->next) any |= is_random_op(op);
  if (!any) return true;
  size_t num = msc_number(f->body).num_values;
  s.held = msc_new_array(arena, held, num + 1);
  s.constant = msc_new_array(arena, bool, num + 1);
  MSC_TRY(find_collective_atoms(&s));
  s.rules = msc_arena_new(f->module->ctx);
  bool ok = find_held_digits(&s, full_batch);
  for (msc_op *op = f->body->first; op && ok; op = op->next)
    if (is_random_op(op)) ok = write_whole_layout(&s, op);
  msc_arena_free(s.rules);
  return ok;
}
