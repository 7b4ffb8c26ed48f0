/* vjp.c: op vjp, the gradient of any composite, in; its shape, rule and expansion, which follow from those of the
 * composite that its attribute `op` names, out.
 *
 *   dx, dw = vjp(x, w, dy) {op = "rms_norm", of = [0], wrt = [0, 1], eps = ...}       y = rms_norm(x, w) {eps = ...}
 *
 * It has no result of the forward op as an operand: its expansion computes the forward op again. */
#include <string.h>

#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"
#include "ir/grad/backward_walk.h"
#include "ir/shape/shape.h"

/* ---- the forward op ---- */

/* Makes the composite op of which the vjp is the gradient, in no block and in no value's uses; NULL after a report. */
static msc_op *forward_of(const msc_op *op, msc_arena *arena) {
  msc_op_kind kind;
  const char *name = msc_op_str(op, "op");
  int num_of = msc_op_ints(op, "of", NULL, 0);
  if (!msc_kind_parse(name, &kind) || kind == OP_vjp || !msc_op_info_of(msc_op_ctx(op), kind)->expand) {
    shape_wrong(op, "op '%s' is not a composite", name);
    return NULL;
  }
  if (num_of > op->num_in) {
    shape_wrong(op, "'of' names %d results, but there are %d operands", num_of, op->num_in);
    return NULL;
  }
  msc_op *f = msc_arena_copy(arena, op, sizeof *op);
  f->kind = (uint16_t)kind;
  f->num_in = (uint16_t)(op->num_in - num_of);
  f->num_out = (uint16_t)msc_op_info_of(msc_op_ctx(op), kind)->min_out;
  f->out = msc_new_array(arena, msc_value, f->num_out + 1);
  for (size_t i = 0; i < f->num_out; i++) f->out[i].def = f, f->out[i].index = (uint32_t)i;
  return msc_infer(f) ? f : NULL;
}

/* Reads attribute `name`, ascending numbers below `limit`; returns how many, -1 after a report. */
static int read_numbers(const msc_op *op, const char *name, int limit, int64_t *out_v) {
  int num = msc_op_ints(op, name, out_v, limit);
  for (int i = 0; i < num; i++)
    if (i >= limit || out_v[i] < 0 || out_v[i] >= limit || (i && out_v[i] <= out_v[i - 1])) {
      shape_wrong(op, "'%s' must name some of 0..%d, ascending", name, limit - 1);
      return -1;
    }
  return num;
}

typedef struct {
  msc_op *forward;
  int num_of, num_wrt;
  int64_t *of, *wrt;
} vjp_parts;

static bool read_parts(const msc_op *op, msc_arena *arena, vjp_parts *out) {
  MSC_TRY((out->forward = forward_of(op, arena)));
  out->of = msc_new_array(arena, int64_t, out->forward->num_out + 1);
  out->wrt = msc_new_array(arena, int64_t, out->forward->num_in + 1);
  out->num_of = read_numbers(op, "of", out->forward->num_out, out->of);
  out->num_wrt = read_numbers(op, "wrt", out->forward->num_in, out->wrt);
  return out->num_of >= 0 && out->num_wrt >= 0;
}

/* ---- shape ---- */

static bool check_operands(msc_op *op, const vjp_parts *p) {
  for (int i = 0; i < p->num_of; i++) {
    const msc_type *have = shape_in(op, (size_t)(p->forward->num_in + i)), *want = p->forward->out[p->of[i]].type;
    if (!msc_same_tensor(have, want))
      return shape_wrong(op, "the gradient of result %d is %s, the result %s", (int)p->of[i], shape_text(op, have),
                         shape_text(op, want));
  }
  if (p->num_wrt != op->num_out)
    return shape_wrong(op, "'wrt' names %d operands for %d results", p->num_wrt, op->num_out);
  for (int i = 0; i < p->num_wrt; i++) {
    const msc_type *x = shape_in(op, (size_t)p->wrt[i]);
    if (!msc_is_float(x->dtype))
      return shape_wrong(op, "operand %d is %s and has no gradient", (int)p->wrt[i], shape_text(op, x));
    MSC_TRY(msc_result(op, (size_t)i, x->dtype, x->rank, x->dim));
  }
  return true;
}

bool shape_vjp(msc_op *op) {
  msc_arena *arena = msc_arena_new(msc_op_ctx(op));
  vjp_parts p;
  bool ok = read_parts(op, arena, &p) && check_operands(op, &p);
  msc_arena_free(arena);
  return ok;
}

/* ---- rule: an operand's gradient has the operand's letters, the others are summed ---- */

static void set_tensor(msc_rule *rule, size_t tensor, const msc_tensor_letters *as) {
  memcpy(rule->tensor[tensor].dim, as->dim, as->rank * sizeof *as->dim);
}

static void set_tensors(const msc_op *op, const vjp_parts *p, const msc_rule *forward, msc_rule *rule) {
  size_t num = p->forward->num_in;
  for (size_t i = 0; i < num; i++) set_tensor(rule, i, &forward->tensor[i]);
  for (int i = 0; i < p->num_of; i++) set_tensor(rule, num + (size_t)i, &forward->tensor[num + (size_t)p->of[i]]);
  for (int i = 0; i < p->num_wrt; i++) set_tensor(rule, (size_t)(op->num_in + i), &forward->tensor[p->wrt[i]]);
}

bool rule_vjp(const msc_op *op, msc_rule *rule) {
  msc_arena *arena = msc_arena_new(msc_op_ctx(op));
  vjp_parts p;
  msc_rule forward;
  bool ok = read_parts(op, arena, &p) && msc_rule_of(p.forward, arena, &forward);
  if (ok) {
    set_tensors(op, &p, &forward, rule);
    rule->num_letters = forward.num_letters;
    memcpy(rule->letter, forward.letter, forward.num_letters * sizeof *rule->letter);
    for (int l = 0; l < rule->num_letters; l++)
      if (rule->letter[l].role == MSC_PAR || rule->letter[l].role == MSC_RED)
        rule->letter[l].role = MSC_RED, rule->letter[l].reduction = MSC_SUM;
  }
  msc_arena_free(arena);
  return ok;
}

/* ---- expansion ---- */

static msc_value *zeros_like(msc_builder *b, const msc_value *x) {
  return broadcast(b, number(b, x, 0), x->type->rank, x->type->dim);
}

/* Walks back from the results whose gradients are operands; `known`: gradients of operands from that of result 0, or
 * NULL. */
static bool walk_back(msc_builder *b, const vjp_parts *p, msc_value *const *in, msc_value *const *result,
                      msc_value *const *known, msc_arena *arena, msc_value **out_result) {
  msc_numbering n = msc_number(b->func->body);
  msc_reverse r = {.f = b->func, .arena = arena, .next_id = n.num_values};
  r.active = msc_new_array(arena, bool, n.num_values);
  r.grad = msc_new_array(arena, msc_value *, n.num_values);
  for (int i = 0; i < p->num_wrt; i++) r.active[in[p->wrt[i]]->id] = true;
  msc_mark_active(&r, NULL);
  msc_op *last = b->func->body->last;
  for (int i = 0; known && i < p->forward->num_in; i++) r.grad[in[i]->id] = known[i];
  for (int i = known != NULL; i < p->num_of; i++) {
    msc_value **grad = &r.grad[result[p->of[i]]->id], *more = in[p->forward->num_in + i];
    *grad = *grad ? plus(b, *grad, more) : more;
  }
  MSC_TRY(msc_reverse_walk(&r, last));
  for (int i = 0; i < p->num_wrt; i++) {
    out_result[i] = r.grad[in[p->wrt[i]]->id];
    if (!out_result[i]) MSC_TRY((out_result[i] = zeros_like(b, in[p->wrt[i]])));
  }
  return true;
}

/* Builds the gradients of operands from the gradient of result 0, by the formula of the op's row; NULL where the row
 * has none. */
static bool go_back_by_formula(msc_builder *b, const vjp_parts *p, msc_value *const *in, msc_arena *arena,
                               msc_value ***out_known) {
  msc_backward_fn *backward = msc_info(p->forward)->facts.backward;
  if (!backward || !p->num_of || p->of[0] != 0) return true;
  msc_value **known = msc_new_array(arena, msc_value *, p->forward->num_in);
  MSC_TRY(backward(b, p->forward, in, in[p->forward->num_in], known));
  if (known[0]) *out_known = known;
  return true;
}

bool expand_vjp(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_arena *arena = msc_arena_new(msc_op_ctx(op));
  vjp_parts p;
  bool ok = read_parts(op, arena, &p);
  if (ok) {
    msc_value **result = msc_new_array(arena, msc_value *, p.forward->num_out + 1), **known = NULL;
    ok = go_back_by_formula(b, &p, in, arena, &known) && msc_info(p.forward)->expand(b, p.forward, in, result) &&
         walk_back(b, &p, in, result, known, arena, out_result);
  }
  msc_arena_free(arena);
  return ok;
}
