/* Rows of op.def: their formulas are read as they are written, and the names in their facts are names of the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ir/op_table.h"
#include "ir/scalar.h"

static void a_formula_is_read(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  const msc_formula *f = msc_formula_read(msc_context_arena(ctx), "erf: a * (1 - exp(-b)); tanh: max(a, b) / 2.5 + c");
  static const msc_scalar_code codes[] = {SCALAR_number, SCALAR_neg, SCALAR_exp, SCALAR_sub, SCALAR_mul};
  static const uint8_t args[][2] = {{0, 0}, {1, 0}, {4, 0}, {3, 5}, {0, 6}};
  assert_true(f->is_choice && f->form == MSC_GELU_ERF);
  assert_int_equal(f->num, 5);
  for (int i = 0; i < f->num; i++) {
    assert_int_equal(f->step[i].code, codes[i]);
    assert_memory_equal(f->step[i].arg, args[i], (size_t)f->step[i].num_args);
  }
  f = f->next;
  assert_true(f->is_choice && f->form == MSC_GELU_TANH);
  assert_int_equal(f->num, 4);
  assert_true(f->step[1].number == 2.5);
  assert_int_equal(f->step[3].code, SCALAR_add);
  assert_int_equal(f->step[3].arg[1], 2);
  assert_null(f->next);
  msc_context_free(ctx);
}

/* An op for each step, in the order of the text; numbers have the element type of the first operand. */
static void a_formula_is_built(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_module_new(ctx);
  msc_func *f = msc_func_new(m, "f");
  msc_value *x = msc_add_arg(f->body, msc_type_of(ctx, MSC_F64, 0, NULL, NULL), NULL),
            *c = msc_add_arg(f->body, msc_type_of(ctx, MSC_I1, 0, NULL, NULL), NULL);
  msc_builder b = {.func = f, .block = f->body, .loc = msc_loc_of(ctx, &(msc_loc){.file = "t"})};
  msc_value *y = msc_compute(&b, "select(b, a * -0.5, -exp(a))", x, c);
  static const char *const kinds[] = {"constant", "mul", "exp", "neg", "select"};
  const msc_op *op = f->body->first;
  for (size_t i = 0; i < 5; i++, op = op->next) assert_string_equal(msc_kind_name(op->kind), kinds[i]);
  assert_null(op);
  assert_ptr_equal(y, &f->body->last->out[0]);
  assert_ptr_equal(y->type, x->type);
  assert_true(*(const double *)msc_op_attr(f->body->first, "value")->dense.data == -0.5);
  assert_null(msc_compute(&b, "1 + a", NULL));
  assert_ptr_equal(f->body->last, y->def);
  msc_value *by_name = msc_compute(&b, "a * log1p(a)", x);
  assert_string_equal(msc_kind_name(by_name->def->kind), "mul");
  assert_string_equal(msc_kind_name(by_name->def->in[1].value->def->kind), "log1p");
  msc_context_free(ctx);
}

static bool is_name(const msc_op_info *info, const char *name, size_t n) {
  bool found = false;
  for (int i = 0; i < info->num_operands; i++)
    found |= strlen(info->operand[i].name) == n && !memcmp(info->operand[i].name, name, n);
  for (int i = 0; i < info->num_results; i++)
    found |= strlen(info->result[i]) == n && !memcmp(info->result[i], name, n);
  for (int i = 0; i < info->num_attrs; i++)
    found |= strlen(info->attr[i].name) == n && !memcmp(info->attr[i].name, name, n);
  return found;
}

static void facts_name_what_is_there(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    const msc_op_info *info = msc_op_info_of(ctx, (msc_op_kind)kind);
    const char *indexed = info->facts.indexed, *dim = indexed ? strchr(indexed, ' ') + 1 : NULL;
    if ((info->eval == eval_formula) != (info->formula != NULL)) fail_msg("%s: formula", info->name);
    if (dim && !is_name(info, indexed, (size_t)(dim - 1 - indexed))) fail_msg("%s: %s", info->name, indexed);
    if (dim && strcmp(dim, "first") && strcmp(dim, "last") && strcmp(dim, "0") && !is_name(info, dim, strlen(dim)))
      fail_msg("%s: %s", info->name, indexed);
    if (info->form == MSC_FORM_REDUCE && !is_name(info, "dims", 4)) fail_msg("%s: has no dims", info->name);
    if (info->form == MSC_FORM_ROWS && !is_name(info, "axis", 4)) fail_msg("%s: has no axis", info->name);
    if (info->form == MSC_FORM_LOSS && !is_name(info, "reduction", 9)) fail_msg("%s: has no reduction", info->name);
  }
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_formula_is_read), cmocka_unit_test(a_formula_is_built),
                                     cmocka_unit_test(facts_name_what_is_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
