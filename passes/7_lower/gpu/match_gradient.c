/* match_gradient.c: builds the gradient of an op on placeholders in a function of its own, and matches ops with it. */
#include "passes/7_lower/gpu/match_gradient.h"

#include "ir/grad/op_gradients.h"

enum { X, Y, DY, NUM_PLACES };

typedef struct {
  const msc_value *placeholder[NUM_PLACES];
  msc_value *bound[NUM_PLACES]; /* the value that it matched; NULL: none yet */
} gradient_matcher;

static bool attrs_are_equal(const msc_op *a, const msc_op *b) {
  if (a->num_attrs != b->num_attrs) return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

static bool matches(gradient_matcher *m, const msc_value *pattern, msc_value *v);

static bool operands_match(gradient_matcher *m, const msc_op *pattern, const msc_op *op, bool swapped) {
  for (size_t i = 0; i < op->num_in; i++)
    if (!matches(m, pattern->in[i].value, op->in[swapped ? 1 - i : i].value)) return false;
  return true;
}

/* True if v computes the pattern; binds its placeholders.  Recursive: patterns are a few ops deep. */
static bool matches(gradient_matcher *m, const msc_value *pattern, msc_value *v) {
  for (int i = 0; i < NUM_PLACES; i++) {
    if (m->placeholder[i] != pattern) continue;
    if (!m->bound[i]) m->bound[i] = v;
    return m->bound[i] == v;
  }
  const msc_op *a = pattern->def, *b = v->def;
  if (!a || !b || a->kind != b->kind || a->num_in != b->num_in || b->num_out != 1 ||
      pattern->type->dtype != v->type->dtype || !attrs_are_equal(a, b))
    return false;
  gradient_matcher before = *m;
  if (operands_match(m, a, b, false)) return true;
  if (!(msc_info(a)->flags & MSC_COMMUTES)) return false;
  *m = before;
  return operands_match(m, a, b, true);
}

/* Builds the gradient in function `aside`; NULL: an error was reported. */
static const msc_value *build_pattern(msc_func *aside, msc_op_kind kind, const msc_attr *attr, const msc_type *type,
                                      gradient_matcher *m) {
  msc_builder b = {.func = aside, .block = aside->body, .loc = aside->loc};
  msc_value *x = msc_add_arg(aside->body, type, "x"), *dy = msc_add_arg(aside->body, type, "dy"), *dx = NULL;
  msc_op *op = msc_build_with(&b, kind, 1, &x, 1, attr ? 1 : 0, attr);
  if (!op) return NULL;
  msc_grad_ctx g = {.b = b, .dresult = &dy, .wanted = &(bool){true}, .doperand = &dx};
  m->placeholder[X] = x, m->placeholder[Y] = &op->out[0], m->placeholder[DY] = dy;
  return msc_info(op)->grad(&g, op) ? dx : NULL;
}

bool msc_match_gradient(msc_op *last, const msc_value *dy, msc_op_kind kind, const msc_attr *attr,
                        msc_gradient_match *out_match) {
  gradient_matcher m = {{NULL}, {NULL}};
  msc_func *aside = msc_func_new(last->block->func->module, "gradient");
  const msc_value *pattern = build_pattern(aside, kind, attr, dy->type, &m);
  m.bound[DY] = (msc_value *)(uintptr_t)dy;
  bool same = pattern && last->num_out == 1 && matches(&m, pattern, &last->out[0]);
  msc_func_remove(aside);
  *out_match = (msc_gradient_match){m.bound[X], m.bound[Y]};
  return same;
}
