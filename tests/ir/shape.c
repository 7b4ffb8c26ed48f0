/* Shape functions: results of good ops, messages of bad ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/ir/one_op.h"

typedef struct {
  const char *op, *in, *attrs, *out; /* out: types of the results, or a part of the message after "!" */
} shape_case;

static const shape_case cases[] = {
    {"constant", "", "value=2x2xf32:1,2,3,4", "2x2xf32"},
    {"constant", "", "value=2x2xi8:7", "2x2xi8"},
    {"constant", "", "value=2x2xf32:1,2,3", "!value has 12 bytes, its type [2,2]f32 needs 16"},
    {"iota", "", "type=3x4xi32 dim=1", "3x4xi32"},
    {"iota", "", "type=3xi32 dim=1", "!dim 1 is not a dimension of a tensor of rank 1"},
    {"iota", "", "type=3xi1", "!not i1"},
    {"add", "2x3xf32 3xf32", "", "2x3xf32"},
    {"add", "2x1x3xf16 4x1xf16", "", "2x4x3xf16"},
    {"add", "f64 2xf64", "", "2xf64"},
    {"add", "0x3xf32 1x3xf32", "", "0x3xf32"},
    {"add", "2x3xf32 2xf32", "", "!dimension 0 of 'b' is 2 where the other operands have 3"},
    {"add", "2xf32 2xf64", "", "!element types of 'a' and 'b' differ: f32 and f64"},
    {"add", "2xi1 2xi1", "", "!number elements, not i1"},
    {"max", "2xi1 2xi1", "", "2xi1"},
    {"pow", "2xi32 2xi32", "", "!floating-point"},
    {"compare", "2xi32 1xi32", "predicate=lt", "2xi1"},
    {"compare", "2xi32 1xi32", "predicate=l", "!predicate \"l\" is not one of: eq ne lt le gt ge"},
    {"compare", "2xi32 1xi32", "", "!attribute predicate is missing"},
    {"select", "3xi1 2x3xf32 f32", "", "2x3xf32"},
    {"select", "3xi8 2x3xf32 f32", "", "!'c' must have i1"},
    {"select", "3xi1 2x3xf32 i32", "", "!element types of 'a' and 'b' differ: f32 and i32"},
    {"neg", "2xui8", "", "2xui8"},
    {"relu", "2xi1", "", "!not i1"},
    {"exp", "2xi32", "", "!'x' must have floating-point elements, not i32"},
    {"gelu", "2xf32", "form=tanh", "2xf32"},
    {"gelu", "2xf32", "form=tan", "!form \"tan\" is not one of: erf tanh"},
    {"cast", "2x3xf32", "dtype=bf16", "2x3xbf16"},
    {"cast", "2x3xf32", "dtype=f31", "!\"f31\" is not an element type"},
    {"broadcast_to", "3x1xf32", "shape=2,3,4", "2x3x4xf32"},
    {"broadcast_to", "3x2xf32", "shape=2,3,4", "!dimension 1 of the operand is 2 and cannot stretch to 4"},
    {"broadcast_to", "3x2xf32", "shape=2", "!shape has 1 dimensions, the operand 2"},
    {"reshape", "4x6xf32", "shape=2,-1,3", "2x4x3xf32"},
    {"reshape", "1xf32", "shape=", "f32"},
    {"reshape", "4x6xf32", "shape=5,-1", "!does not divide by the known sizes of shape, 5"},
    {"reshape", "4x6xf32", "shape=5,5", "![4,6]f32 has 24 elements and the new shape 25"},
    {"reshape", "4x6xf32", "shape=-1,-1", "!entry 1 of shape is -1"},
    {"reshape", "4xf32", "shape=4294967296,4294967296", "!2^63"},
    {"flatten", "2x3x4xf32", "", "2x12xf32"},
    {"flatten", "2x3x4xf32", "axis=0", "24xf32"},
    {"flatten", "2xf32", "axis=1", "2x1xf32"},
    {"flatten", "2xf32", "axis=2", "!axis 2 is not in 0..1"},
    {"transpose", "2x3x4xf32", "perm=2,0,1", "4x2x3xf32"},
    {"transpose", "2x3x4xf32", "perm=2,0,2", "!entry 2 is 2"},
    {"transpose", "2x3x4xf32", "perm=2,0", "!perm must have one entry per dimension: 3, not 2"},
    {"concat", "2x3xf32 2x4xf32 2x1xf32", "dim=1", "2x8xf32"},
    {"concat", "2x3xf32 3x3xf32", "dim=1", "!dimension 0 of operand 1 is 3 and of operand 0 2"},
    {"concat", "2x3xf32 2x3xf64", "dim=1", "!operand 1 is [2,3]f64 and operand 0 [2,3]f32"},
    {"concat", "", "dim=1", "!needs at least one operand"},
    {"split", "2x7xf32", "dim=1 sizes=3,4", "2x3xf32 2x4xf32"},
    {"split", "2x7xf32", "dim=1 sizes=3,5", "!entry 1 of sizes is 5; 4 of the 7 elements of dimension 1 are left"},
    {"split", "2x7xf32", "dim=1 sizes=3,3", "!sizes leave 1 of the 7 elements"},
    {"split", "2x7xf32", "dim=1 sizes=3,3,1", "!sizes has 3 entries for 2 results"},
    {"slice", "5x8xf32", "start=1,0 limit=4,8 stride=1,3", "3x3xf32"},
    {"slice", "5xf32", "start=3 limit=6", "!start 3 and limit 6 of dimension 0 are not within 0..5"},
    {"slice", "5xf32", "start=3 limit=5 stride=0", "!entry 0 of stride is 0"},
    {"pad", "3x2xf32", "low=1,0 high=0,2 stride=2,1", "6x4xf32"},
    {"pad", "0xf32", "low=1 high=1 stride=2", "2xf32"},
    {"pad", "3xf32", "low=-1 high=0", "!must not be negative"},
    {"pad", "3xf32", "low=9223372036854775807 high=1", "!2^63"},
    {"take_along", "2x10x4xf32 2x3x4xi32", "axis=1", "2x3x4xf32"},
    {"take_along", "2x10xf32 3x10xi32", "", "!dimension 0 of 'x' and 'indices' differs: 2 and 3"},
    {"take_along", "2x10xf32 2xi32", "", "!'x' has rank 2 and 'indices' rank 1; they must be equal"},
    {"take_along", "2x10xf32 2x1xi32", "axis=2", "!axis 2 is not a dimension of a tensor of rank 2"},
    {"add_along", "2x3xi64 2x3xf32", "rows=10", "2x10xf32"},
    {"add_along", "2x3xi64 2x3xf32", "rows=-1", "!rows -1 must not be negative"},
    {"gather_nd", "10x6x4xf32 5x7x2xi32", "", "5x7x4xf32"},
    {"gather_nd", "10x6xf32 5x3xi32", "", "!the last dimension of 'indices' is 3, not one of 1..2"},
    {"gather_nd", "10x6xf32 i32", "", "!'indices' must have rank 1 or more"},
    {"scatter_nd_add", "5x2xi32 5x4xf32", "shape=10,6,4", "10x6x4xf32"},
    {"scatter_nd_add", "5x2xi32 5x4xf32", "shape=10,6", "!'updates' has rank 2, not 1"},
    {"scatter_nd_add", "5x2xi32 5x4xf32", "shape=10,6,5", "!dimension 1 of 'updates' is 4, not 5"},
    {"scatter_update", "2x10x4xf32 5xi32 2x5x4xf32", "axis=1", "2x10x4xf32"},
    {"scatter_update", "10x4xf32 5xi32 5x4xf64", "", "!element types of 'x' and 'updates' differ"},
    {"scatter_update", "10x4xf32 5xi32 6x4xf32", "", "!dimension 0 of 'updates' is 6, not 5"},
    {"sort", "2x3xf32", "", "2x3xf32 2x3xi32"},
    {"sort", "2x3xf32", "dtype=f32", "!dtype \"f32\" is not one of: i32 i64"},
    {"sort", "2147483648xi8", "", "!indices below 2147483648 do not fit dtype"},
    {"topk", "2x8xf32", "k=3 dtype=i64", "2x3xf32 2x3xi64"},
    {"topk", "2x8xf32", "k=9", "!k 9 is not in 0..8"},
    {"unique", "8xi64", "", "8xi64 8xi32 i32"},
    {"unique", "8x2xi64", "", "!'x' must have rank 1, not 2; flatten it"},
    {"cumsum", "8x2xi64", "", "8x2xi64"},
    {"cumsum", "8x2xi1", "", "!'x' must have number elements"},
    {"cumprod", "8x2xf32", "axis=-3", "!axis -3 is not a dimension"},
    {"einsum", "2x3xf32 3x4xf32", "equation=ab,bc->ca", "4x2xf32"},
    {"einsum", "2x3xf32", "equation=ab", "!needs -> behind the letters of 1 operands"},
    {"einsum", "2x3xf32 3xf32", "equation=ab->a", "!has 1 operands, not 2"},
    {"einsum", "2x3xf32 4xf32", "equation=ab,b->a", "!letter 'b' is 3 before and 4 in operand 1"},
    {"einsum", "2x3xf32", "equation=a->a", "!operand 0 has rank 2 and 1 letters, \"a\""},
    {"einsum", "2x3xf32", "equation=ab->ac", "!letter 'c' of the result is in no operand"},
    {"einsum", "2x3xf32", "equation=ab->aa", "!letter 'a' is twice in the result"},
    {"einsum", "2x3xf32", "equation=a1->a", "!'1' is no letter"},
    {"argmax", "2x3xf32", "", "2xi32"},
    {"argmax", "2x0xf32", "", "!dimension 1 has no elements"},
    {"dropout", "3x4xbf16", "rate=0.5", "3x4xbf16"},
    {"dropout", "3xf32 i64 i64", "rate=0 salt=4294967295", "3xf32"},
    {"dropout", "3xf32", "rate=1", "!rate 1 must be at least 0 and below 1"},
    {"dropout", "3xi32", "rate=0.1", "!'x' must have floating-point elements"},
    {"dropout", "3xf32 i64", "rate=0.1", "!'seed' is given without 'step'"},
    {"dropout", "3xf32 i64 i32", "rate=0.1", "!'step' must be one i64, not []i32"},
    {"dropout", "3xf32", "rate=0.1 salt=-1", "!salt -1 is not in 0..2^32-1"},
    {"gather", "10x4xf32 2x3xi32", "", "2x3x4xf32"},
    {"gather", "5x10x4xf32 2x3xi64", "axis=1", "5x2x3x4xf32"},
    {"gather", "10x4xf32 i32", "", "4xf32"},
    {"gather", "10x4xf32 2xf32", "", "!'indices' must have i32 or i64"},
    {"gather", "1x1x1x1x1x1x1x1xf32 1x1xi32", "", "!result would have rank 9"},
    {"scatter_add", "2x3xi32 2x3x4xf32", "rows=10", "10x4xf32"},
    {"scatter_add", "2x3xi32 5x2x3x4xf32", "rows=10 axis=1", "5x10x4xf32"},
    {"scatter_add", "2x3xi32 2x4x4xf32", "rows=10", "!dimension 1 of indices is 3 and dimension 1 of updates 4"},
    {"scatter_add", "2x3xi32 2xf32", "rows=10", "!have no room"},
    {"one_hot", "2x3xi32", "depth=5", "2x3x5xf32"},
    {"one_hot", "2x3xi64", "depth=5 dtype=i8", "2x3x5xi8"},
    {"one_hot", "2x3xi8", "depth=5", "!'indices' must have i32 or i64"},
    {"matmul", "2x3xf32 3x4xf32", "", "2x4xf32"},
    {"matmul", "3x2xf32 3x4xf32", "transpose_a=true", "2x4xf32"},
    {"matmul", "2x3xf32 4x3xf32", "transpose_b=true", "2x4xf32"},
    {"matmul", "3x2xf32 4x3xf32", "transpose_a=true transpose_b=true", "2x4xf32"},
    {"matmul", "2x3xf32 4x3xf32", "", "!inner sizes differ: 3 (dimension 1 of 'a' [2,3]f32) and 4 (dimension 0 of 'b' [4,3]f32)"},
    {"matmul", "2x3x4xf32 4x3xf32", "", "!rank 2, not 3 and 2"},
    {"batch_matmul", "5x2x3xf32 5x3x4xf32", "", "5x2x4xf32"},
    {"batch_matmul", "6x1x2x3xf32 5x4x3xf32", "transpose_b=true", "6x5x2x4xf32"},
    {"matmul_weight_grad", "5x2x3xf32 5x2x4xf32", "", "3x4xf32"},
    {"matmul_weight_grad", "5x2x3xf32 5x3x4xf32", "", "!dimension 1 differs: 2 of 'x' and 3 of 'dy'"},
    {"batch_matmul", "5x2x3xf32 6x3x4xf32", "", "!leading sizes differ: 5 (dimension 0 of 'a') and 6 (dimension 0 of 'b')"},
    {"reduce_sum", "2x3x4xf32", "dims=0,2", "3xf32"},
    {"reduce_sum", "2x3x4xf32", "dims=0,2 keep_dims=true", "1x3x1xf32"},
    {"reduce_sum", "2x3xf32", "dims=0,0", "!entry 1 is 0"},
    {"reduce_sum", "2xf32", "dims=1", "!entry 0 is 1"},
    {"reduce_mean", "2xi32", "dims=0", "!floating-point"},
    {"reduce_max", "2xi1", "dims=0", "i1"},
    {"softmax", "2x3xf32", "axis=-2", "2x3xf32"},
    {"softmax", "2x3xf32", "axis=2", "!axis 2 is not a dimension"},
    {"softmax_cross_entropy", "4x3xf32 4xi32", "", "f32"},
    {"softmax_cross_entropy", "4x3xf32 4x3xf32", "reduction=none", "4xf32"},
    {"softmax_cross_entropy", "4x3xf32 5xi64", "", "!dimension 0 of 'logits' and 'labels' differs: 4 and 5"},
    {"softmax_cross_entropy", "4x3xf32 4x3xi32", "", "!one dimension less"},
    {"softmax_cross_entropy", "4x3xf32 4x3xf64", "", "!element types"},
    {"softmax_cross_entropy_grad", "4x3xf32 4xi32 f32", "", "4x3xf32"},
    {"softmax_cross_entropy_grad", "4x3xf32 4xi32 f32", "reduction=none", "!'dloss' []f32 must have rank 1"},
    {"mean_absolute_error", "4x3xf32 4x3xf32", "", "f32"},
    {"mean_absolute_error", "4x3xf32 4x3xf32", "reduction=none", "4x3xf32"},
    {"mean_absolute_error", "4x3xf32 4x1xf32", "", "!dimension 1 of 'prediction' and 'target' differs: 3 and 1"},
    {"nll_loss", "4x3xf32 4xf32", "", "!'labels' must be i32 or i64, not f32"},
    {"nll_loss", "4x3xf32 3xi32", "", "!'labels' is [3]i32, but must be [4]i32"},
    {"layer_norm", "4x3xf32 3xf32 3xf32", "", "4x3xf32"},
    {"layer_norm", "4x3xf32 4xf32", "", "!'gamma' is [4]f32, but must be [3]f32"},
    {"layer_norm", "4x3xf32", "axis=2", "!axis 2 is not a dimension of a tensor of rank 2"},
    {"rms_norm", "4x3xf32", "eps=-1", "!eps must be 0 or more, not -1"},
    {"group_norm", "4x6x2xf32", "groups=4", "!6 channels do not divide into 4 groups"},
    {"batch_norm", "4x6x2xf16 6xf16 6xf16 6xf32 6xf32", "", "4x6x2xf16 6xf32 6xf32"},
    {"glu", "4x5xf32", "", "!must be two halves"},
    {"glu", "4x6xf32", "activation=relu6", "!activation"},
    {"rotary", "4x6xf32", "axis=-1", "!must be that of positions"},
    {"rotary", "4x5xf32", "", "!must be even"},
    {"attention", "2x4x3x8xf32 2x2x5x8xf32 2x2x5x6xf32", "", "2x4x3x6xf32"},
    {"attention", "2x4x3x8xf32 2x3x5x8xf32 2x3x5x6xf32", "", "!heads of 'q' must be a multiple"},
    {"attention", "2x4x3x8xf32 2x2x5x8xf32 2x2x5x6xf32 4x5xi1", "", "!dimension 0 of 'mask' [4,5]i1 must be 1 or 3"},
    {"sgd", "4xf32 4xf32", "lr=0.1", "4xf32"},
    {"momentum", "4xf32 4xf32 4xf32", "lr=0.1 momentum=0.9", "4xf32 4xf32"},
    {"momentum", "4xf32 4xf32 4xf32 i1", "lr=0.1 momentum=0.9", "4xf32 4xf32"},
    {"momentum", "4xf32 4xf32 4xf32 i32", "lr=0.1 momentum=0.9", "!'ok' must be i1, not i32"},
    {"assign", "f32 f32", "", "f32"},
    {"assign", "f32 f32 2xi1", "", "!'ok' must have rank 0, not 1"},
    {"adam", "4xf64 4xf64 4xf64 4xf64 f32", "lr=0.1", "4xf64 4xf64 4xf64"},
    {"adam", "4xf64 4xf64 4xf64 4xf64 f64", "lr=0.1", "!'t' must be f32"},
    {"adam", "4xf32 4xf32 3xf32 4xf32 f32", "lr=0.1", "!dimension 0 of 'w' and 'v' differs: 4 and 3"},
    {"adamw", "4xf32 4xf32 4xf32 4xf32 1xf32", "lr=0.1", "!'t' must have rank 0"},
    {"lamb_moments", "4xf32 4xf32 4xf32 4xf32 f32", "", "4xf32 4xf32 4xf32"},
    {"lamb_apply", "4xf64 4xf64 f64", "lr=0.1", "4xf64"},
    {"lamb_apply", "4xf64 4xf64 f32", "lr=0.1", "!element types of 'w' and 'trust' differ"},
    {"all_reduce", "4xi1", "reduction=max", "4xi1"},
    {"all_reduce", "4xi1", "", "!not i1"},
    {"all_gather", "4x2xf32", "", "4x2xf32"},
    {"permute", "4xf32", "", "4xf32"},
    {"broadcast", "4xi1", "axes={d}", "4xi1"},
    {"all_reduce", "4xf32", "axes={d}", "4xf32"},
    {"all_gather", "4x2xf32", "axes={d,e} dim=1", "4x12xf32"},
    {"all_gather", "4x2xf32 5xf32", "axes={d}", "8x2xf32 10xf32"},
    {"all_gather", "4x2xf32 5xf32", "axes={d} dim=1", "!dim 1 is not a dimension of a tensor of rank 1"},
    {"all_reduce", "4xf32 5xbf16", "", "!element types of 'x' and 'more' differ"},
    {"reduce_scatter", "4xf32 6x3xf32", "axes={d}", "2xf32 3x3xf32"},
    {"reduce_scatter", "4x6xf32", "axes={d:(1)2,e} dim=1", "4x1xf32"},
    {"reduce_scatter", "4x6xf32", "axes={d,e} dim=0", "!dimension 0 of 4 elements does not divide among the 6 members of {d,e}"},
    {"all_to_all", "4x6xf32", "axes={e} split_dim=1 concat_dim=0", "12x2xf32"},
    {"all_to_all", "4x6xf32", "axes={e} split_dim=2", "!split_dim 2 is not a dimension"},
    {"permute", "4xf32", "axes={e} pairs=0,1,1,2,2,0", "4xf32"},
    {"permute", "4xf32", "axes={e} pairs=0,1,1", "!pairs must be a list of source, destination"},
    {"permute", "4xf32", "axes={e} pairs=0,1,2,1", "!entry 3 of pairs: member 1 is a destination twice"},
    {"comm", "4x2xf32", "verb=all_gather dims=8,2 from=[{d},{}] to=[{},{}] shape=8,2", "8x2xf32"},
    {"comm", "4x2xf32 4xf32", "verb=all_gather dims=8,2,4", "8x2xf32 4xf32"},
    {"comm", "4x2xf32", "verb=all_gather dims=8", "!dims has 1 entries, the operand 2 dimensions"},
    {"gemm", "2x3xf32 3x4xf32 4xf32", "relu=true", "2x4xf32"},
    {"gemm", "5x2x3xf64 4x3xf64", "transpose_b=true tile=2", "5x2x4xf64"},
    {"gemm", "2x3xf32 3x4xf32 3xf32", "", "!'bias' must have the 4 columns of the result, not shape [3]f32"},
    {"gemm", "2x3xi32 3x4xi32", "", "!floating-point"},
    {"permute", "4xf32", "axes={e} pairs=0,3", "!entry 1 of pairs is 3; the group {e} has members 0..2"},
};

static const char *last_error(msc_context *ctx) {
  const char *text = "";
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next) text = d->text;
  return text;
}

static bool check_case(const shape_case *c) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_module_new(ctx);
  msc_mesh_parse(ctx, NULL, "d=2,e=3", &m->mesh);
  const char *got = "";
  msc_op *op = one_op(m, c->op, c->in, c->attrs, 2);
  for (size_t i = 0; op && i < op->num_out; i++) got = msc_arena_printf(a, "%s%s%s", got, *got ? " " : "", text_of_type(a, op->out[i].type));
  if (!op) got = last_error(ctx);
  bool is_error = c->out[0] == '!';
  bool ok = is_error ? !op && msc_num_errors(ctx) == 1 && strstr(got, c->out + 1) && strncmp(got, c->op, strlen(c->op)) == 0 : strcmp(got, c->out) == 0;
  if (!ok) print_error("%s(%s) {%s}\n  expected %s\n  got      %s (%d errors)\n", c->op, c->in, c->attrs, c->out, got, msc_num_errors(ctx));
  msc_context_free(ctx);
  return ok;
}

static void every_case(void **state) {
  (void)state;
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) failed += !check_case(&cases[i]);
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_case)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
