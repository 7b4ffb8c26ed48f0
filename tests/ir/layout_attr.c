/* layout_attr.c: texts of layouts in attributes become pointers, wait for a mesh, follow the mesh, and are texts again
 * in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

static msc_context *ctx;
static int open_context(void **state) { (void)state; ctx = msc_context_new(NULL, NULL); return ctx ? 0 : -1; }
static int close_context(void **state) { (void)state; msc_context_free(ctx); return 0; }

/* One op with attributes on x of 8x4, and on the mesh that the text says. */
static msc_module *module_of(const char *mesh, const char *attrs, const char *type) {
  const char *text = msc_arena_printf(msc_context_arena(ctx),
                                      "module %s%s%s {\n  \"msc.func\"() ({\n  ^bb0(%%x: %s):\n"
                                      "    %%0 = \"msc.neg\"(%%x)"
                                      " {%s} : (%s) -> %s\n    \"msc.return\"(%%0) : (%s) -> ()\n"
                                      "  }) {sym_name = \"f\"} : () -> ()\n}\n",
                                      mesh ? "attributes {msc.mesh = #msc.mesh<\"" : "", mesh ? mesh : "",
                                      mesh ? "\">}" : "", type, attrs, type, type, type);
  return msc_parse(ctx, "m", text, strlen(text));
}

static const msc_op *op_of(const msc_module *m) { return m->first->body->first; }

static const char *text_of(const msc_module *m, const char *attr) {
  return msc_attr_text(msc_context_arena(ctx), &m->mesh, msc_op_attr(op_of(m), attr));
}

static msc_mesh mesh_of(const char *text) {
  msc_mesh mesh;
  assert_true(msc_mesh_parse(ctx, NULL, text, &mesh));
  return mesh;
}

static void texts_become_pointers(void **state) {
  (void)state;
  msc_module *m = module_of("x=2,y=4", "sharding = {A = \"{y,x}\", B = \"{x:(1)2}/(1,3)\"}, pass = \"{}\","
                            " inherited = [{by = \"a\", digits = \"{y:(2)2}\"}], whole_layout = \"[{x},{}]\"",
                            "tensor<8x4xf32>");
  assert_non_null(m);
  const msc_attr_value *sharding = msc_op_attr(op_of(m), MSC_FACT(sharding)),
                       *inherited = msc_op_attr(op_of(m), MSC_FACT(inherited));
  assert_int_equal(sharding->dict.a[0].value.kind, MSC_ATTR_DIGITS);
  assert_int_equal(sharding->dict.a[1].value.layout->split[0][1], 1);
  assert_int_equal(inherited->list.v[0].dict.a[1].value.kind, MSC_ATTR_DIGITS);
  assert_int_equal(msc_op_layout(op_of(m), MSC_FACT(pass))->first[1], 0);
  assert_int_equal(msc_op_layout(op_of(m), MSC_FACT(whole_layout))->rank, 2);
  assert_string_equal(text_of(m, MSC_FACT(sharding)), "{A = \"{y,x}\", B = \"{x}/(1,3)\"}");
}

static void wrong_texts_are_reported_at_the_op(void **state) {
  (void)state;
  assert_null(module_of("x=2,y=4", "pass = \"{z}\"", "tensor<8x4xf32>"));
  assert_string_equal(msc_diags(ctx)->text, "axes \"{z}\": the mesh has no axis 'z'; did you mean 'x'?");
  assert_int_equal(msc_diags(ctx)->loc->line, 4);
}

static void users_texts_wait_for_a_mesh(void **state) {
  (void)state;
  msc_module *m = module_of(NULL, "in_layout = [\"[{x},{}]\"], shard = {in_layout = [\"[{},{y}]\"], name = \"b\"}",
                            "tensor<8x4xf32>");
  msc_mesh mesh = mesh_of("y=4,x=2");
  assert_non_null(m);
  assert_null(msc_wanted_layout(op_of(m), 0));
  assert_true(msc_change_mesh(m, &mesh));
  assert_int_equal(msc_wanted_layout(op_of(m), 0)->sub[0].axis, 1);
  assert_string_equal(text_of(m, MSC_FACT(shard)), "{in_layout = [\"[{},{y}]\"], name = \"b\"}");
  const msc_attr_value *shard = msc_op_attr(op_of(m), MSC_FACT(shard));
  assert_int_equal(shard->dict.a[0].value.list.v[0].kind, MSC_ATTR_LAYOUT);
}

/* Axes of another mesh have other numbers: types and attributes follow by name. */
static void layouts_follow_the_mesh(void **state) {
  (void)state;
  msc_module *m = module_of("x=2,y=4", "in_layout = [\"[{x},{y:(1)2}]\"], pass = \"{x}\"",
                            "tensor<8x4xf32, #msc.layout<\"[{x},{y:(1)2}]\">>");
  msc_mesh mesh = mesh_of("stage=3,x=2,y=4"), other = mesh_of("x=2,z=4");
  assert_non_null(m);
  assert_true(msc_change_mesh(m, &mesh));
  const msc_type *t = op_of(m)->out[0].type;
  assert_ptr_equal(t, m->first->body->args[0]->type);
  assert_string_equal(msc_layout_print(msc_context_arena(ctx), &m->mesh, t->layout), "[{x},{y:(1)2}]");
  assert_string_equal(text_of(m, MSC_FACT(in_layout)), "[\"[{x},{y:(1)2}]\"]");
  assert_string_equal(text_of(m, MSC_FACT(pass)), "\"{x}\"");
  assert_true(msc_verify(m));
  assert_false(msc_change_mesh(m, &other));
  assert_non_null(strstr(msc_diags(ctx)->text, "the mesh has no axis 'y'"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(texts_become_pointers, open_context, close_context),
      cmocka_unit_test_setup_teardown(wrong_texts_are_reported_at_the_op, open_context, close_context),
      cmocka_unit_test_setup_teardown(users_texts_wait_for_a_mesh, open_context, close_context),
      cmocka_unit_test_setup_teardown(layouts_follow_the_mesh, open_context, close_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
