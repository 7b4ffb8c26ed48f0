/* instances.h: at least one small instance of every op that computes, for tests that go over all of them. */
#ifndef MSC_TESTS_IR_INSTANCES_H
#define MSC_TESTS_IR_INSTANCES_H

#include <string.h>

#include "ir/ir.h"

/* T in a type is each of the element types named: d f64, f f32, i i32, u ui8, b i1. */
typedef struct {
  const char *op, *in, *attrs, *dtypes;
  int num_out, max_int; /* integers are 0 .. max_int - 1; 0: any */
} instance;

static const instance instances[] = {
    {"constant", "", "value=4x6xi32:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24", "i", 1, 0},
    {"constant", "", "value=8x6xf32:3", "f", 1, 0},
    {"iota", "", "type=8x6xi32 dim=0", "i", 1, 0},
    {"iota", "", "type=8x6xf32 dim=1", "f", 1, 0},
    {"add", "8x6xT 8x6xT", "", "dfiu", 1, 0},
    {"add", "8x6xT 6xT", "", "df", 1, 0},
    {"add", "4x1x6xT 8x1xT", "", "d", 1, 0},
    {"sub", "8x6xT 8x6xT", "", "dfi", 1, 0},
    {"sub", "T 8xT", "", "d", 1, 0},
    {"mul", "8x6xT 8x6xT", "", "dfi", 1, 0},
    {"mul", "8x6xT 8x1xT", "", "df", 1, 0},
    {"div", "8x6xT 8x6xT", "", "df", 1, 0},
    {"div", "8x6xT T", "", "d", 1, 0},
    {"max", "8x6xT 8x6xT", "", "dfib", 1, 0},
    {"min", "8x6xT 6xT", "", "dfu", 1, 0},
    {"pow", "8x6xT 6xT", "", "df", 1, 0},
    {"compare", "8x6xT 8x6xT", "predicate=le", "dfi", 1, 0},
    {"select", "8x1xi1 8x6xT 6xT", "", "dfi", 1, 0},
    {"neg", "8x6xT", "", "dfi", 1, 0},
    {"exp", "8x6xT", "", "df", 1, 0},
    {"log", "8x6xT", "", "df", 1, 0},
    {"sqrt", "8x6xT", "", "df", 1, 0},
    {"rsqrt", "8x6xT", "", "df", 1, 0},
    {"tanh", "8x6xT", "", "df", 1, 0},
    {"sin", "8x6xT", "", "df", 1, 0},
    {"cos", "8x6xT", "", "df", 1, 0},
    {"floor", "8x6xT", "", "f", 1, 0},
    {"ceil", "8x6xT", "", "f", 1, 0},
    {"round", "8x6xT", "", "f", 1, 0},
    {"erf", "8x6xT", "", "df", 1, 0},
    {"sigmoid", "8x6xT", "", "df", 1, 0},
    {"relu", "8x6xT", "", "dfi", 1, 0},
    {"gelu", "8x6xT", "form=erf", "df", 1, 0},
    {"gelu", "8x6xT", "form=tanh", "df", 1, 0},
    {"silu", "8x6xT", "", "df", 1, 0},
    {"abs", "8x6xT", "", "dfi", 1, 0},
    {"sign", "8x6xT", "", "dfi", 1, 0},
    {"cast", "8x6xT", "dtype=f64", "dfi", 1, 0},
    {"cast", "8x6xT", "dtype=i8", "dfi", 1, 0},
    {"broadcast_to", "6xT", "shape=8,6", "dfi", 1, 0},
    {"broadcast_to", "8x1x6xT", "shape=8,4,6", "d", 1, 0},
    {"reshape", "8x6xT", "shape=48", "dfi", 1, 0},
    {"reshape", "24x2xT", "shape=4,6,2", "dfi", 1, 0},
    {"reshape", "4x6x2xT", "shape=2,2,12", "d", 1, 0},
    {"reshape", "12x8xT", "shape=16,6", "d", 1, 0}, /* no common factor behind the first */
    {"reshape", "8x1x6xT", "shape=8,6", "d", 1, 0},
    {"flatten", "4x2x6xT", "", "dfi", 1, 0},
    {"flatten", "4x2x6xT", "axis=0", "d", 1, 0},
    {"transpose", "4x8x6xT", "perm=2,0,1", "dfi", 1, 0},
    {"concat", "8x2xT 8x6xT 8x4xT", "dim=1", "dfi", 1, 0},
    {"concat", "8x6xT 8x6xT", "dim=0", "d", 1, 0},
    {"split", "8x6xT", "dim=1 sizes=2,4", "dfi", 2, 0},
    {"split", "8x6x4xT", "dim=0 sizes=4,4", "d", 2, 0},
    {"slice", "8x6xT", "start=0,1 limit=8,5", "dfi", 1, 0},
    {"slice", "8x12xT", "start=1,0 limit=7,12 stride=2,1", "d", 1, 0},
    {"pad", "8x6xT", "low=0,1 high=0,2", "dfi", 1, 0},
    {"pad", "8x6xT", "low=0,1 high=0,2 stride=1,2 value=3", "dfi", 1, 0},
    {"gather", "8x6xT 4x2xi32", "", "dfi", 1, 8},
    {"gather", "4x12x2xT 6xi64", "axis=1", "df", 1, 12},
    {"scatter_add", "4x2xi32 4x2x6xT", "rows=8", "dfi", 1, 8},
    {"scatter_add", "6xi64 4x6x2xT", "rows=12 axis=1", "df", 1, 12},
    {"one_hot", "4x6xi32", "depth=8", "i", 1, 10},
    {"one_hot", "6xi64", "depth=8 dtype=i8 on=5 off=-1", "i", 1, 8},
    {"take_along", "4x8xT 4x6xi32", "", "dfi", 1, 8},
    {"take_along", "8x6x2xT 12x6x2xi64", "axis=0", "df", 1, 8},
    {"add_along", "4x6xi32 4x6xT", "rows=8", "dfi", 1, 8},
    {"add_along", "8x6x2xi64 8x6x2xT", "rows=12 axis=-3", "d", 1, 12},
    {"gather_nd", "8x6x4xT 4x2xi32", "", "df", 1, 6},
    {"gather_nd", "8x6xT 2x3x1xi64", "", "di", 1, 8},
    {"gather_nd", "4x6xT 8x2xi64", "", "d", 1, 4},
    {"scatter_nd_add", "4x2xi32 4x4xT", "shape=8,6,4", "dfi", 1, 6},
    {"scatter_nd_add", "2x3x1xi64 2x3x6xT", "shape=8,6", "d", 1, 8},
    {"scatter_update", "8x6xT 4xi32 4x6xT", "", "dfi", 1, 8},
    {"scatter_update", "4x8x2xT 3x2xi64 4x3x2x2xT", "axis=1", "df", 1, 8},
    {"sort", "4x8xT", "", "dfi", 1, 0},
    {"sort", "8x6x2xT", "axis=1 descending=true dtype=i64", "du", 1, 0},
    {"topk", "4x8xT", "k=3", "dfi", 1, 0},
    {"topk", "8x6xT", "k=2 axis=0 largest=false", "df", 1, 0},
    {"unique", "12xT", "", "dfi", 1, 5},
    {"cumsum", "4x8xT", "", "dfi", 1, 0},
    {"cumsum", "8x6xT", "axis=0 exclusive=true reverse=true", "df", 1, 0},
    {"cumprod", "4x8xT", "", "df", 1, 0},
    {"cumprod", "8x6xT", "axis=0 exclusive=true reverse=true", "d", 1, 0},
    {"cumprod_grad", "4x8xT 4x8xT", "", "df", 1, 0},
    {"einsum", "4x8x6xT 6x2xT", "equation=bsd,df->bsf", "df", 1, 0},
    {"einsum", "8x4xT 8x6x4xT 6xT", "equation=gs,ges,e->s", "d", 1, 0},
    {"einsum", "4x6xT 8xT", "equation=ab,c->cba", "df", 1, 0},
    {"einsum", "6x8x6xT", "equation=aba->ba", "d", 1, 0},
    {"einsum", "8x6xT", "equation=ab->a", "di", 1, 0},
    {"argmax", "8x6xT", "", "dfi", 1, 0},
    {"argmax", "4x6x8xT", "axis=0 keep_dims=true dtype=i64", "d", 1, 0},
    {"argmin", "4x6x8xT", "axis=1", "dfu", 1, 0},
    {"dropout", "8x6x4xT i64 i64", "rate=0.4 salt=3", "df", 1, 0},
    {"dropout", "8x6xT", "rate=0.4", "d", 1, 0},
    {"matmul", "8x12xT 12x6xT", "", "dfi", 1, 0},
    {"matmul", "12x8xT 12x6xT", "transpose_a=true", "df", 1, 0},
    {"matmul", "8x12xT 6x12xT", "transpose_b=true", "df", 1, 0},
    {"matmul", "12x8xT 6x12xT", "transpose_a=true transpose_b=true", "df", 1, 0},
    {"batch_matmul", "4x8x6xT 4x6x2xT", "", "df", 1, 0},
    {"batch_matmul", "4x1x4x6xT 2x4x6xT", "transpose_b=true", "d", 1, 0},
    {"batch_matmul", "6x4xT 4x6x8xT", "transpose_a=true", "d", 1, 0},
    {"batch_matmul", "4x6x2xT 2x8xT", "", "df", 1, 0},
    {"batch_matmul", "2x6x4xT 6x4xT", "transpose_b=true", "d", 1, 0},
    {"matmul_weight_grad", "4x6x2xT 4x6x8xT", "", "df", 1, 0},
    {"matmul_weight_grad", "6x4xT 6x2xT", "", "d", 1, 0},
    {"conv2d", "2x2x4x3xT 2x2x3x3xT", "padding=1,1,1,1", "df", 1, 0}, /* aligned: h needs a row of both neighbours */
    {"conv2d", "2x2x8x2xT 2x2x3x1xT", "stride=2,1 padding=1,0,0,0", "d", 1, 0},
    {"conv2d", "1x4x12x2xT 4x1x3x2xT", "padding=2,2,0,1 dilation=2,1 groups=4", "d", 1, 0},
    {"conv2d", "2x4x4x2xT 4x2x2x2xT", "groups=2 stride=2,2", "d", 1, 0}, /* windows apart: no halo */
    {"conv2d", "2x1x5x4xT 2x1x3x2xT", "", "d", 1, 0}, /* not aligned */
    {"conv2d", "1x1x12x1xT 1x1x1x1xT", "stride=3,1", "d", 1, 0}, /* rows that no window sees */
    {"conv2d_transpose", "2x2x4x3xT 2x1x3x3xT", "size=4,3 padding=1,1,1,1", "df", 1, 0},
    {"conv2d_transpose", "1x4x4x2xT 4x1x3x2xT", "size=8,4 stride=2,2 padding=1,1,0,0 groups=2", "d", 1, 0},
    {"conv2d_weight_grad", "2x2x4x2xT 2x2x4x2xT", "kernel=3,1 padding=1,1,0,0", "df", 1, 0},
    {"conv2d_weight_grad", "2x2x8x2xT 2x2x4x1xT", "kernel=4,2 stride=2,2 padding=1,1,0,0 groups=2", "d", 1, 0},
    {"max_pool", "2x2x8x4xT", "kernel=3,2 stride=2,2 padding=1,1,0,0", "dfi", 1, 0},
    {"max_pool", "1x2x6x5xT", "kernel=2,3", "d", 1, 0},
    {"max_pool_index", "2x2x8x4xT", "kernel=3,2 stride=2,2 padding=1,1,0,0", "df", 1, 0},
    {"max_pool_grad", "2x2x4x2xi32 2x2x4x2xT", "kernel=3,2 size=8,4 stride=2,2 padding=1,1,0,0", "df", 1, 6},
    {"avg_pool", "2x2x8x3xT", "kernel=3,3 stride=2,1 padding=1,1,1,1", "df", 1, 0},
    {"avg_pool", "1x2x4x4xT", "kernel=3,3 padding=1,1,1,1 count_include_pad=false", "d", 1, 0},
    {"avg_pool_grad", "2x2x4x2xT", "kernel=3,2 size=8,4 stride=2,2 padding=1,1,0,0", "df", 1, 0},
    {"reduce_sum", "8x6x4xT", "dims=1", "dfi", 1, 0},
    {"reduce_sum", "8x6xT", "dims=0,1 keep_dims=true", "df", 1, 0},
    {"reduce_mean", "8x6x4xT", "dims=0,2", "df", 1, 0},
    {"reduce_mean", "8x6xT", "dims=1 keep_dims=true", "d", 1, 0},
    {"reduce_max", "8x6x4xT", "dims=1", "dfi", 1, 0},
    {"reduce_max", "8x6xT", "dims=0,1", "df", 1, 0},
    {"reduce_min", "8x6xT", "dims=0", "dfu", 1, 0},
    {"softmax", "8x6xT", "", "df", 1, 0},
    {"softmax", "8x6x4xT", "axis=1", "d", 1, 0},
    {"log_softmax", "8x6xT", "axis=0", "df", 1, 0},
    {"softmax_cross_entropy", "8x6xT 8xi32", "", "df", 1, 6},
    {"softmax_cross_entropy", "4x6x3xT 4x6xi64", "reduction=sum", "d", 1, 3},
    {"softmax_cross_entropy", "8x6xT 8x6xT", "reduction=none", "df", 1, 0},
    {"softmax_cross_entropy", "8x6xT 8x6xT", "", "d", 1, 0},
    {"softmax_cross_entropy_grad", "8x6xT 8xi32 T", "", "df", 1, 6},
    {"softmax_cross_entropy_grad", "8x6xT 8x6xT 8xT", "reduction=none", "df", 1, 0},
    {"mean_absolute_error", "8x6xT 8x6xT", "", "df", 1, 0},
    {"mean_absolute_error", "8x6xT 8x6xT", "reduction=none", "d", 1, 0},
    {"mean_squared_error", "8x6xT 8x6xT", "", "df", 1, 0},
    {"mean_squared_error", "8x6xT 8x6xT", "reduction=none", "d", 1, 0},
    {"sigmoid_cross_entropy", "8x6xT 8x6xT", "reduction=sum", "df", 1, 0},
    {"nll_loss", "8x6xT 8xi32", "", "df", 1, 6},
    {"nll_loss", "4x6x2xT 4x6xi64", "reduction=none", "d", 1, 2},
    {"layer_norm", "4x8x6xT 6xT 6xT", "", "df", 1, 0},
    {"layer_norm", "4x2x6xT", "axis=1", "d", 1, 0},
    {"rms_norm", "8x6xT 6xT", "eps=1e-3", "df", 1, 0},
    {"l2_normalize", "8x6xT", "eps=1e-3", "d", 1, 0},
    {"group_norm", "4x6x2xT 6xT 6xT", "groups=2", "d", 1, 0},
    {"batch_norm", "4x6x2xT 6xT 6xT 6xT 6xT", "", "d", 3, 0},
    {"batch_norm", "8x6xT 6xT 6xT 6xT 6xT", "training=false", "d", 3, 0},
    {"glu", "8x12xT", "", "d", 1, 0},
    {"glu", "8x4xT", "activation=sigmoid gate_first=false", "f", 1, 0},
    {"rotary", "2x2x6x4xT", "", "d", 1, 0},
    {"rotary", "2x6x2x4xT", "axis=1 interleaved=true", "d", 1, 0},
    {"attention", "2x2x6x2xT 2x2x4x2xT 2x2x4x6xT", "causal=true", "d", 1, 0},
    {"attention", "1x4x6x2xT 1x2x4x2xT 1x2x4x3xT 6x4xT", "", "d", 1, 0},
    {"attention", "2x1x4x2xT 2x1x6x2xT 2x1x6x2xT 1x1x4x6xi1", "scale=0.5", "d", 1, 0},
    {"sgd", "8x6xT 8x6xT", "lr=0.1 weight_decay=0.1", "df", 1, 0},
    {"momentum", "8x6xT 8x6xT 8x6xT", "lr=0.1 momentum=0.9 nesterov=true", "df", 2, 0},
    {"adam", "8x6xT 8x6xT 8x6xT 8x6xT f32", "lr=0.1", "df", 3, 0},
    {"adamw", "8x6xT 8x6xT 8x6xT 8x6xT f32", "lr=0.1", "d", 3, 0},
    {"lamb_moments", "8x6xT 8x6xT 8x6xT 8x6xT f32", "", "d", 3, 0},
    {"lamb_apply", "8x6xT 8x6xT T", "lr=0.1", "df", 1, 0},
};

static inline const char *dtype_name(char c) { return c == 'd' ? "f64" : c == 'f' ? "f32" : c == 'i' ? "i32" : c == 'u' ? "ui8" : "i1"; }

/* "8xT" -> "8xf64" */
static inline const char *with_dtype(msc_arena *a, const char *text, const char *dtype) {
  for (const char *t; (t = strchr(text, 'T'));) text = msc_arena_printf(a, "%.*s%s%s", (int)(t - text), text, dtype, t + 1);
  return text;
}

/* Is the op defined for positive operands only, or kept away from a pole? */
static inline bool wants_positive(const char *op) {
  static const char *const ops[] = {"log", "sqrt", "rsqrt", "pow", "adam", "adamw", "lamb_moments", "div", "batch_norm"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (strcmp(ops[i], op) == 0) return true;
  return false;
}

#endif
