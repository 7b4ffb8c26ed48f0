/* build_elementwise.c: a node that is a constant, comparison, conversion or elementwise custom call in; its ops out. */
#include <string.h>

#include "ir/stablehlo/hlo.h"

bool hlo_build_constant(hlo_node *n) {
  const hlo_value *v = hlo_attr(n, "value");
  if (!v || v->kind != HLO_DENSE) return hlo_refuse(n, "needs a value dense<...>");
  return hlo_set(n, constant_of(n->b, v->type, v->data));
}

bool hlo_build_iota(hlo_node *n) {
  const hlo_value *dim = hlo_attr(n, "dim");
  if (!dim) dim = hlo_attr(n, "iota_dimension");
  if (!dim || dim->kind != HLO_INT || n->op->num_out != 1) return hlo_refuse(n, "needs a dimension");
  const msc_type *t = n->op->out_type[0];
  return hlo_set(n, iota(n->b, t->dtype, t->rank, t->dim, (int)dim->i));
}

bool hlo_build_compare(hlo_node *n) {
  static const char *const theirs[MSC_NUM_PREDICATES] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const hlo_value *direction = hlo_attr(n, "comparison_direction");
  if (n->op->num_in != 2) return hlo_refuse(n, "takes two operands");
  for (int i = 0; i < MSC_NUM_PREDICATES; i++)
    if (hlo_has_word(n->op, theirs[i]) || (direction && direction->s && strstr(direction->s, theirs[i])))
      return hlo_set(n, compare(n->b, (msc_predicate)i, n->in[0], n->in[1]));
  return hlo_refuse(n, "needs one of EQ, NE, LT, LE, GT and GE");
}

bool hlo_build_convert(hlo_node *n) {
  if (n->op->num_in != 1 || n->op->num_out != 1) return hlo_refuse(n, "takes one operand");
  msc_dtype from = n->in[0]->type->dtype, to = n->op->out_type[0]->dtype;
  if (to == MSC_I1 && from != MSC_I1) return hlo_set(n, compare(n->b, MSC_NE, n->in[0], number(n->b, n->in[0], 0)));
  return hlo_set(n, cast(n->b, n->in[0], to));
}

bool hlo_build_clamp(hlo_node *n) {
  if (n->op->num_in != 3) return hlo_refuse(n, "takes three operands");
  return hlo_set(n, msc_compute(n->b, "min(max(b, a), c)", n->in[0], n->in[1], n->in[2]));
}

/* x^(1/3) of a negative x is the negative root. */
bool hlo_build_cbrt(hlo_node *n) {
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  msc_value *third = number(n->b, n->in[0], 1.0 / 3);
  return hlo_set(n, msc_compute(n->b, "sign(a) * pow(abs(a), b)", n->in[0], third));
}

bool hlo_build_not(hlo_node *n) {
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  return hlo_set(n, unary(n->b, n->in[0]->type->dtype == MSC_I1 ? OP_logical_not : OP_bitwise_not, n->in[0]));
}

/* Shifts the unsigned number of the same bits, so that zeros are shifted in. */
bool hlo_build_shift_right_logical(hlo_node *n) {
  static const msc_dtype unsigned_of[MSC_NUM_DTYPES] = {
      [MSC_I8] = MSC_U8, [MSC_I16] = MSC_U16, [MSC_I32] = MSC_U32, [MSC_I64] = MSC_U64};
  if (n->op->num_in != 2) return hlo_refuse(n, "takes two operands");
  msc_dtype own = n->in[0]->type->dtype, bits = unsigned_of[own] ? unsigned_of[own] : own;
  msc_value *y = binary(n->b, OP_shift_right, cast(n->b, n->in[0], bits), cast(n->b, n->in[1], bits));
  return hlo_set(n, cast(n->b, y, own));
}

/* Rounds to the nearest whole number, halves away from zero. */
bool hlo_build_round_away(hlo_node *n) {
  if (n->op->num_in != 1) return hlo_refuse(n, "takes one operand");
  msc_value *x = n->in[0], *size = msc_compute(n->b, "abs(a)", x), *whole = msc_compute(n->b, "trunc(a)", size);
  if (!whole) return false;
  msc_value *up = compare(n->b, MSC_GE, minus(n->b, size, whole), number(n->b, x, 0.5));
  return hlo_set(n, msc_compute(n->b, "sign(a) * b", x, choose(n->b, up, msc_compute(n->b, "a + 1", whole), whole)));
}

/* An optimization barrier: passes its operands on. msc keeps the order of ops by itself. */
bool hlo_build_barrier(hlo_node *n) {
  if (n->op->num_in != n->op->num_out) return hlo_refuse(n, "has as many results as operands");
  memcpy(n->out, n->in, n->op->num_in * sizeof *n->out);
  return true;
}

bool hlo_build_square(hlo_node *n) {
  return n->op->num_in == 1 ? hlo_set(n, times(n->b, n->in[0], n->in[0])) : hlo_refuse(n, "takes one operand");
}

/* Builds a custom call of a known function; one that only gives another compiler a layout is its operand. */
bool hlo_build_custom_call(hlo_node *n) {
  static const char *const known[] = {"erf", "asin", "acos", "sinh", "cosh", "atanh", "asinh", "acosh"};
  msc_op_kind kind;
  const char *name = n->op->num_words ? n->op->word[0] : "";
  if (n->op->num_in == 1 && n->op->num_out == 1) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (!strncmp(name, "@mhlo.", 6) && !strcmp(name + 6, known[i]) && msc_kind_parse(known[i], &kind))
        return hlo_set(n, unary(n->b, kind, n->in[0]));
    if (!strcmp(name, "@Sharding") || !strcmp(name, "@annotate_device_placement")) return hlo_set(n, n->in[0]);
  }
  if (!strcmp(name, "@mhlo.topk")) return hlo_build_top_k(n);
  return hlo_refuse(n, "%s is not read by this msc", *name ? name : "a call without a name");
}
