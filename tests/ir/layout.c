/* layout.c: text, normal form, sizes of parts, atoms, and every error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

static uint64_t seed = 7;
static int roll(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static msc_context *ctx;
static int open_context(void **state) { (void)state; ctx = msc_context_new(NULL, NULL); return ctx ? 0 : -1; }
static int close_context(void **state) { (void)state; msc_context_free(ctx); return 0; }

static msc_mesh mesh_of(const char *text) {
  msc_mesh m;
  assert_true(msc_mesh_parse(ctx, NULL, text, &m));
  return m;
}

static const msc_layout *layout_of(const msc_mesh *mesh, const char *text) {
  const msc_layout *l = NULL;
  assert_true(msc_layout_parse(ctx, mesh, NULL, text, &l));
  return l;
}

static const char *print(const msc_mesh *mesh, const msc_layout *l) {
  return msc_layout_print(msc_context_arena(ctx), mesh, l);
}

/* Prime digits dealt over dimensions, partial and free, in any order. */
static const msc_layout *random_layout(const msc_mesh *mesh) {
  msc_atoms atoms;
  msc_layout raw = {.rank = (uint8_t)roll(5)};
  assert_true(msc_atoms_of(mesh, 0, NULL, &atoms));
  for (int i = atoms.num - 1; i > 0; i--) {
    int j = roll(i + 1);
    msc_subaxis t = atoms.atom[i];
    atoms.atom[i] = atoms.atom[j], atoms.atom[j] = t;
  }
  int place[MSC_MAX_SUBAXES], num = 0;
  for (int i = 0; i < atoms.num; i++) place[i] = roll(raw.rank + 2);
  for (int d = 0; d <= raw.rank; d++) {
    raw.first[d] = (uint8_t)num;
    for (int i = 0; i < atoms.num; i++)
      if (place[i] == d) raw.sub[num++] = atoms.atom[i];
  }
  raw.num_partial = (uint8_t)(num - raw.first[raw.rank]);
  raw.reduction = (uint8_t)roll(MSC_NUM_REDUCTIONS);
  for (int d = 0; d < raw.rank; d++) {
    int64_t parts = msc_layout_parts(&raw, d), size[64];
    if (parts == 1 || parts > 64 || roll(3)) continue;
    for (int64_t i = 0; i < parts; i++) size[i] = roll(4);
    raw.split[d] = msc_split_of(ctx, (size_t)parts, size);
  }
  return msc_layout_of(ctx, mesh, &raw);
}

static void test_text_of_random_layouts(void **state) {
  (void)state;
  static const char *const meshes[] = {"x=4,y=2", "x=2,y=2,z=2", "dp=12,tp=8,one=1", "a=6,b=6,c=6", "d=65536"};
  for (int n = 0; n < 5000; n++) {
    msc_mesh m = mesh_of(meshes[n % 5]);
    const msc_layout *l = random_layout(&m);
    assert_ptr_equal(layout_of(&m, print(&m, l)), l);
  }
  assert_int_equal(msc_num_errors(ctx), 0);
}

static void test_normal_form(void **state) {
  (void)state;
  static const char *const cases[][2] = {
    {"[]", "[]"},
    {" [ { x , y } , { } ] ", "[{x,y},{}]"},
    {"[{x:(1)2,x:(2)2}]", "[{x}]"},
    {"[ { x } / ( 10 , 20 ,30, 4), {y} ]", "[{x}/(10,20,30,4),{y}]"},
    {"[{x:(1)2,x:(2)2}/(1,0,0,7)] partial={y}", "[{x}/(1,0,0,7)] partial={y}"},
    {"[{x}/(3,3,3,1)]", "[{x}]"}, /* as the rule has it */
    {"[{x}/(3,3,1,3)]", "[{x}/(3,3,1,3)]"},
    {"[{y,x}/(2,2,1,0,2,2,1,0)]", "[{y,x}]"}, /* ceil(10 / 2) = 5, ceil(5 / 4) = 2 */
    {"[{y,x}/(2,2,2,2,2,0,0,0)]", "[{y,x}/(2,2,2,2,2,0,0,0)]"},
    {"[{x:(2)2,x:(1)2}]", "[{x:(2)2,x:(1)2}]"},
    {"[{x:(1)2},{x:(2)2}]", "[{x:(1)2},{x:(2)2}]"},
    {"[{x:(1)2,y,x:(2)2}]", "[{x:(1)2,y,x:(2)2}]"},
    {"[{x:(1)4}]", "[{x}]"},
    {"[{one,y}]", "[{y}]"},
    {"[{one},{one}]", "[{},{}]"},
    {"[{x:(1)1},{x}]", "[{},{x}]"},
    {"[{}]partial={y,x:(2)2,x:(1)2}", "[{}] partial={x,y}"},
    {"[{y}] partial_sum={x}", "[{y}] partial={x}"},
    {"[{y}] partial_max = { x:(2)2 }", "[{y}] partial_max={x:(2)2}"},
    {"[{y}] partial_prod={one}", "[{y}]"},
    {"[{y}] partial={}", "[{y}]"},
    {"[] partial_min={y}", "[] partial_min={y}"},
  };
  msc_mesh m = mesh_of("x=4,y=2,one=1");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const msc_layout *l = layout_of(&m, cases[i][0]);
    assert_string_equal(print(&m, l), cases[i][1]);
    assert_ptr_equal(layout_of(&m, cases[i][1]), l);
  }
  assert_ptr_equal(layout_of(&m, "[{},{}]"), msc_layout_replicated(ctx, 2));
  assert_true(msc_layout_is_replicated(msc_layout_replicated(ctx, 2)));
  assert_false(msc_layout_is_replicated(layout_of(&m, "[] partial={x}")));
}

static void expect_error(msc_code code, const char *text) {
  const msc_diag *d = msc_diags(ctx);
  assert_non_null(d);
  assert_string_equal(d->text, text);
  assert_int_equal(d->code, code);
  assert_null(d->next);
  msc_clear_diags(ctx);
}

static void test_layout_errors(void **state) {
  (void)state;
  static const struct {
    const char *text;
    msc_code code;
    const char *error;
  } cases[] = {
    {"", MSC_E_LAYOUT, "layout \"\": ends where '[' is expected"},
    {"{x}", MSC_E_LAYOUT, "layout \"{x}\": expected '[' at character 1, not '{x}'"},
    {"[x]", MSC_E_LAYOUT, "layout \"[x]\": expected '{' at character 2, not 'x]'"},
    {"[{x}", MSC_E_LAYOUT, "layout \"[{x}\": ends where ',' or ']' is expected"},
    {"[{x", MSC_E_LAYOUT, "layout \"[{x\": ends where ',' or '}' is expected"},
    {"[{x,}]", MSC_E_LAYOUT, "layout \"[{x,}]\": expected an axis name at character 5, not '}]'"},
    {"[{4}]", MSC_E_LAYOUT, "layout \"[{4}]\": expected an axis name at character 3, not '4}]'"},
    {"[{batcj}]", MSC_E_LAYOUT, "layout \"[{batcj}]\": the mesh has no axis 'batcj'; did you mean 'batch'?"},
    {"[{query}]", MSC_E_LAYOUT, "layout \"[{query}]\": the mesh has no axis 'query'"},
    {"[{x:2}]", MSC_E_LAYOUT, "layout \"[{x:2}]\": expected '(' at character 5, not '2}]'"},
    {"[{x:(2}]", MSC_E_LAYOUT, "layout \"[{x:(2}]\": expected ')' at character 7, not '}]'"},
    {"[{x:()2}]", MSC_E_LAYOUT, "layout \"[{x:()2}]\": expected a number at character 6, not ')2}]'"},
    {"[{x:(0)2}]", MSC_E_LAYOUT, "layout \"[{x:(0)2}]\": 0 is not between 1 and 65536"},
    {"[{x:(1)99999999999999999999}]", MSC_E_LAYOUT,
     "layout \"[{x:(1)99999999999999999999}]\": 99999999999999999999 is not between 1 and 65536"},
    {"[{x:(1)3}]", MSC_E_LAYOUT,
     "layout \"[{x:(1)3}]\": x:(1)3 does not exist: 1 times 3 does not divide the axis, which has 4 parts"},
    {"[{x:(4)2}]", MSC_E_LAYOUT,
     "layout \"[{x:(4)2}]\": x:(4)2 does not exist: 4 times 2 does not divide the axis, which has 4 parts"},
    {"[{x},{x:(2)2}]", MSC_E_LAYOUT, "layout \"[{x},{x:(2)2}]\": axis 'x' is used twice"},
    {"[{x}] partial={x}", MSC_E_LAYOUT, "layout \"[{x}] partial={x}\": axis 'x' is used twice"},
    {"[{},{},{},{},{},{},{},{},{}]", MSC_E_LAYOUT, "layout \"[{},{},{},{},{},{},{},{},{}]\": more than 8 dimensions"},
    {"[{x}] half", MSC_E_LAYOUT, "layout \"[{x}] half\": expected 'partial' or the end at character 7, not 'half'"},
    {"[{}] partial", MSC_E_LAYOUT, "layout \"[{}] partial\": ends where '=' is expected"},
    {"[{}] partial_mean={x}", MSC_E_LAYOUT,
     "layout \"[{}] partial_mean={x}\": no reduction 'mean'; there are sum, max, min and prod"},
    {"[{}] partial_lse={x}", MSC_E_UNSUPPORTED, "layout \"[{}] partial_lse={x}\": partial_lse is not supported yet"},
    {"[{}] partial={x} more", MSC_E_LAYOUT,
     "layout \"[{}] partial={x} more\": expected the end at character 18, not 'more'"},
    {"[({}12,{x}64)]", MSC_E_UNSUPPORTED,
     "layout \"[({}12,{x}64)]\": a dimension that is a product, ({x}2,{y}3), is not supported yet"},
    {"[{x}/(1,2,3)]", MSC_E_LAYOUT, "layout \"[{x}/(1,2,3)]\": dimension 0 has 4 parts, but 3 sizes are given"},
    {"[{x}/(1,2,3,4,5)]", MSC_E_LAYOUT, "layout \"[{x}/(1,2,3,4,5)]\": dimension 0 has 4 parts, but 5 sizes are given"},
    {"[{},{}/(4)]", MSC_E_LAYOUT, "layout \"[{},{}/(4)]\": dimension 1 is not cut and can have no sizes of parts"},
    {"[{x}/1,2,3,4]", MSC_E_LAYOUT, "layout \"[{x}/1,2,3,4]\": expected '(' at character 6, not '1,2,3,4]'"},
    {"[{x}/(1,2,3,-4)]", MSC_E_LAYOUT, "layout \"[{x}/(1,2,3,-4)]\": expected a number at character 13, not '-4)]'"},
    {"[{x}/(1,2,3,4]", MSC_E_LAYOUT, "layout \"[{x}/(1,2,3,4]\": expected ',' or ')' at character 14, not ']'"},
  };
  msc_mesh m = mesh_of("x=4,batch=2");
  const msc_layout *l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_false(msc_layout_parse(ctx, &m, NULL, cases[i].text, &l));
    expect_error(cases[i].code, cases[i].error);
  }
  msc_mesh none = {0};
  assert_false(msc_layout_parse(ctx, &none, NULL, "[{x}]", &l));
  expect_error(MSC_E_LAYOUT, "layout \"[{x}]\": axis 'x' is used, but there is no mesh");
}

static void test_mesh_text(void **state) {
  (void)state;
  static const char *const good[] = {"d=1", "dp=2,tp=4", "a=2,b=2,c=2,d=2,e=2,f=2,g=2,h=2", "d=65536"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    msc_mesh m = mesh_of(good[i]);
    assert_string_equal(msc_mesh_print(msc_context_arena(ctx), &m), good[i]);
  }
  msc_mesh spaced = mesh_of(" dp = 2 , tp=3 ");
  assert_int_equal(msc_mesh_size(&spaced), 6);
  static const char *const bad[][2] = {
    {"", "mesh \"\": ends where an axis name is expected"},
    {"x", "mesh \"x\": ends where '=' is expected"},
    {"x=", "mesh \"x=\": ends where a number is expected"},
    {"x=0", "mesh \"x=0\": 0 is not between 1 and 65536"},
    {"x=-2", "mesh \"x=-2\": expected a number at character 3, not '-2'"},
    {"x=65537", "mesh \"x=65537\": 65537 is not between 1 and 65536"},
    {"x=2,x=2", "mesh \"x=2,x=2\": two axes are called 'x'"},
    {"x=2,", "mesh \"x=2,\": ends where an axis name is expected"},
    {"x=2 y=2", "mesh \"x=2 y=2\": expected ',' or the end at character 5, not 'y=2'"},
    {"x=256,y=512", "mesh \"x=256,y=512\": more than 65536 devices"},
    {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "mesh \"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1\": more than 8 axes"},
  };
  msc_mesh m;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(msc_mesh_parse(ctx, NULL, bad[i][0], &m));
    expect_error(MSC_E_CONFIG, bad[i][1]);
  }
}

static void test_axes_text(void **state) {
  (void)state;
  msc_mesh m = mesh_of("x=4,y=2");
  const msc_layout *digits;
  assert_true(msc_digits_parse(ctx, &m, NULL, "{y,x:(2)2}", &digits));
  assert_ptr_equal(digits, layout_of(&m, "[{y,x:(2)2}]"));
  assert_string_equal(msc_digits_print(msc_context_arena(ctx), &m, digits), "{y,x:(2)2}");
  assert_true(msc_digits_parse(ctx, &m, NULL, "{y}/(1,3)", &digits));
  assert_string_equal(msc_digits_print(msc_context_arena(ctx), &m, digits), "{y}/(1,3)");
  assert_false(msc_digits_parse(ctx, &m, NULL, "{y} ]", &digits));
  expect_error(MSC_E_LAYOUT, "axes \"{y} ]\": expected the end at character 5, not ']'");
}

static void test_sizes_of_parts(void **state) {
  (void)state;
  msc_mesh m = mesh_of("x=4,y=2");
  const msc_layout *l = layout_of(&m, "[{x,y},{}]"), *z = layout_of(&m, "[{y},{x}] partial={}");
  const msc_type *even = msc_type_of(ctx, MSC_F32, 2, (int64_t[]){16, 3}, l),
                 *odd = msc_type_of(ctx, MSC_BF16, 2, (int64_t[]){10, 3}, l);
  assert_true(msc_layout_fits(l, even));
  assert_false(msc_layout_fits(l, odd));
  assert_false(msc_layout_fits(z, even));
  assert_false(msc_layout_fits(msc_layout_replicated(ctx, 1), even));
  assert_int_equal(msc_layout_parts(l, 0), 8);
  assert_int_equal(msc_local_bytes(even), 2 * 3 * 4);
  assert_int_equal(msc_local_bytes(odd), 2 * 3 * 2);
  assert_int_equal(msc_local_bytes(msc_type_with_layout(ctx, odd, NULL)), 60);
  int64_t begin[2], size[2];
  msc_layout_box(&m, odd, l, 7, begin, size);
  assert_int_equal(begin[0], 10);
  assert_int_equal(size[0], 0);
  msc_layout_box(&m, odd, l, 3, begin, size);
  assert_int_equal(begin[0], 5);
  assert_int_equal(size[0], 1);
  assert_int_equal(msc_subaxis_digit(&m, (msc_subaxis){0, 2, 2}, 6), 1);
  assert_int_equal(msc_subaxis_digit(&m, (msc_subaxis){0, 1, 2}, 3), 0);
}

static void expect_atoms(const char *mesh, const char *layout, const char *want) {
  msc_mesh m = mesh_of(mesh);
  const msc_layout *l = layout_of(&m, layout);
  msc_atoms a;
  assert_true(msc_atoms_of(&m, 1, &l, &a));
  assert_string_equal(msc_subaxis_print(msc_context_arena(ctx), &m, a.num, a.atom), want);
}

static void test_atoms(void **state) {
  (void)state;
  expect_atoms("x=12,y=2", "[]", "{x:(1)2,x:(2)2,x:(4)3,y}");
  expect_atoms("x=12", "[{x:(1)3}]", "{x:(1)3,x:(3)2,x:(6)2}");
  expect_atoms("x=12", "[{x:(2)3}]", "{x:(1)2,x:(2)3,x:(6)2}");
  expect_atoms("one=1,x=2", "[{x}]", "{x}");
  msc_mesh m = mesh_of("x=6");
  const msc_layout *clash[2] = {layout_of(&m, "[{x:(1)2}]"), layout_of(&m, "[{x:(1)3}]")};
  msc_atoms a;
  assert_false(msc_atoms_of(&m, 2, clash, &a));
  m = mesh_of("d=65536");
  assert_true(msc_atoms_of(&m, 0, NULL, &a));
  assert_int_equal(a.num, 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_text_of_random_layouts, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_normal_form, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_layout_errors, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_mesh_text, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_axes_text, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_sizes_of_parts, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_atoms, open_context, close_context),
  };
  return cmocka_run_group_tests_name("ir/layout", tests, NULL, NULL);
}
