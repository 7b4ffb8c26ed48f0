/* interp.c: checks the interpreter: every op on values computed by hand, on one device; collectives and lowered
 * forms on ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ir/interp/interp.h"
#include "ir/interp/kernel.h"
#include "tests/ir/one_op.h"

typedef struct {
  /* numbers of a tensor joined by commas, tensors by ; and a message after ! */
  const char *op, *in, *attrs, *values, *expected;
} run_case;

static const run_case cases[] = {
    {"constant", "", "value=2x2xf32:1,2,3,4", "", "1,2,3,4"},
    {"constant", "", "value=3xi16:-7", "", "-7,-7,-7"},
    {"iota", "", "type=2x3xi32 dim=1", "", "0,1,2,0,1,2"},
    {"iota", "", "type=2x3xf64 dim=0", "", "0,0,0,1,1,1"},
    {"add", "2x3xf32 3xf32", "", "1,2,3,4,5,6;10,20,30", "11,22,33,14,25,36"},
    {"add", "2x1xi8 2xi8", "", "127,-128;1,-1", "-128,126,-127,127"}, /* wraps */
    {"add", "2xui8 2xui8", "", "255,1;1,1", "0,2"},
    {"add", "2xi64 2xi64", "", "9007199254740992,1;1,1", "9007199254740993,2"}, /* not by way of double */
    {"add", "f16 f16", "", "2048;1", "2048"},                                   /* 2049 rounds to even */
    {"add", "f16 f16", "", "2048;3", "2052"},
    {"add", "bf16 bf16", "", "256;1", "256"},
    {"add", "bf16 bf16", "", "256;3", "260"},
    {"add", "f32 f32", "", "16777216;1", "16777216"},
    {"add", "f64 f64", "", "16777216;1", "16777217"},
    {"sub", "2xf32 f32", "", "5,7;3", "2,4"},
    {"sub", "2xui32 ui32", "", "5,2;3", "2,4294967295"},
    {"mul", "2xf32 2xf32", "", "5,7;3,-2", "15,-14"},
    {"mul", "i32 i32", "", "65536;65537", "65536"},
    {"div", "2xf32 2xf32", "", "1,-6;4,3", "0.25,-2"},
    {"div", "3xi32 3xi32", "", "7,-7,7;2,2,-2", "3,-3,-3"}, /* toward zero */
    {"div", "i8 i8", "", "-128;-1", "-128"},
    {"div", "ui8 ui8", "", "200;3", "66"},
    {"div", "i8 i8", "", "1;0", "!div: integer division by zero"},
    {"max", "3xf32 3xf32", "", "1,5,nan;2,4,1", "2,5,nan"},
    {"max", "2xf32 2xf32", "", "1,nan;nan,nan", "nan,nan"},
    {"max", "2xui8 2xui8", "", "200,1;100,2", "200,2"},
    {"max", "4xi1 4xi1", "", "0,0,1,1;0,1,0,1", "0,1,1,1"},
    {"min", "2xf64 2xf64", "", "1,5;2,4", "1,4"},
    {"min", "2xi8 2xi8", "", "-100,1;100,2", "-100,1"},
    {"pow", "3xf32 3xf32", "", "2,9,-2;10,0.5,3", "1024,3,-8"},
    {"compare", "3xf32 3xf32", "predicate=lt", "1,2,3;2,2,2", "1,0,0"},
    {"compare", "3xf32 3xf32", "predicate=le", "1,2,3;2,2,2", "1,1,0"},
    {"compare", "3xi8 3xi8", "predicate=gt", "1,2,-3;2,2,2", "0,0,0"},
    {"compare", "3xui8 3xui8", "predicate=ge", "1,2,253;2,2,2", "0,1,1"},
    {"compare", "3xf32 3xf32", "predicate=eq", "1,2,nan;2,2,nan", "0,1,0"},
    {"compare", "3xf32 3xf32", "predicate=ne", "1,2,nan;2,2,nan", "1,0,1"},
    {"select", "2x1xi1 2x2xf32 f32", "", "1,0;1,2,3,4;9", "1,2,9,9"},
    {"neg", "2xf32", "", "1,-2", "-1,2"},
    {"accumulate", "2xf32", "count=4", "1,-2", "4,-8"},
    {"accumulate", "2xf32", "count=4 mean=true", "1,-2", "1,-2"},
    {"accumulate", "2xf32", "count=3 rows=true", "1,-2", "1,1,1,-2,-2,-2"},
    {"put_rows", "4x2xf32 2x2xf32 i64", "", "1,2,3,4,5,6,7,8;-1,-2,-3,-4;1", "1,2,-1,-2,5,6,-3,-4"},
    {"put_rows", "2xi32 2xi32 i64", "", "1,2;3,4;0", "3,4"},
    {"neg", "2xui8", "", "1,0", "255,0"},
    {"exp", "2xf32", "", "0,1", "1,2.71828182845904523"},
    {"log", "2xf32", "", "1,10", "0,2.30258509299404568"},
    {"sqrt", "2xf32", "", "4,2", "2,1.41421356237309505"},
    {"rsqrt", "2xf32", "", "4,16", "0.5,0.25"},
    {"tanh", "2xf32", "", "0,1", "0,0.761594155955764888"},
    {"erf", "2xf32", "", "0,1", "0,0.842700792949714869"},
    {"polygamma", "3xf64", "", "-0.5,0.5,0", "8.93480220054467931,4.93480220054467931,inf"}, /* pi^2/2 + 4, pi^2/2 */
    {"polygamma", "2xf64", "n=2", "-0.5,0.5", "-0.82879664423432,-16.8287966442343200"}, /* -14 zeta(3) + 16 */
    {"sin", "2xf32", "", "0,2", "0,0.909297426825681695"},
    {"cos", "2xf32", "", "0,2", "1,-0.416146836547142387"},
    {"floor", "4xf32", "", "1.5,-1.5,2,-0.25", "1,-2,2,-1"},
    {"ceil", "4xf32", "", "1.5,-1.5,2,-0.25", "2,-1,2,0"},
    {"round", "5xf32", "", "0.5,1.5,-2.5,2.4,-0.75", "0,2,-2,2,-1"},
    {"sigmoid", "2xf32", "", "0,1", "0.5,0.731058578630004879"},
    {"relu", "3xf32", "", "-1,2,nan", "0,2,nan"},
    {"relu", "2xi32", "", "-1,2", "0,2"},
    {"gelu", "3xf32", "form=erf", "1,-1,0", "0.841344746068542949,-0.158655253931457051,0"},
    {"gelu", "2xf32", "form=tanh", "1,-1", "0.841191990607477,-0.158808009392523"},
    {"silu", "2xf32", "", "1,-1", "0.731058578630004879,-0.268941421369995121"},
    {"abs", "2xf32", "", "1,-2", "1,2"},
    {"abs", "2xi8", "", "-128,-2", "-128,2"},
    {"sign", "4xf32", "", "3,-2,0,nan", "1,-1,0,0"},
    {"sign", "3xi8", "", "3,-2,0", "1,-1,0"},
    {"cast", "4xf32", "dtype=i32", "1.9,-1.9,3e9,nan", "1,-1,2147483647,0"},
    {"cast", "3xf32", "dtype=ui8", "300,-1,2.5", "255,0,2"},
    {"cast", "3xf32", "dtype=i1", "0,-0.5,nan", "0,1,1"},
    {"cast", "2xi32", "dtype=i8", "257,-1", "1,-1"},
    {"cast", "2xi8", "dtype=ui16", "5,-1", "5,65535"},
    {"cast", "2xi1", "dtype=f32", "1,0", "1,0"},
    {"cast", "2xf64", "dtype=f16", "0.1,100000", "0.0999755859375,inf"},
    {"cast", "2xf32", "dtype=bf16", "1.01,3.14159265", "1.0078125,3.140625"},
    {"broadcast_to", "2x1xf32", "shape=2,2,3", "1,2", "1,1,1,2,2,2,1,1,1,2,2,2"},
    {"reshape", "2x3xf32", "shape=3,-1", "1,2,3,4,5,6", "1,2,3,4,5,6"},
    {"flatten", "2x3xf32", "axis=0", "1,2,3,4,5,6", "1,2,3,4,5,6"},
    {"transpose", "2x3xi16", "perm=1,0", "1,2,3,4,5,6", "1,4,2,5,3,6"},
    {"transpose", "2x2x2xf32", "perm=2,0,1", "1,2,3,4,5,6,7,8", "1,3,5,7,2,4,6,8"},
    {"concat", "2x1xf32 2x2xf32", "dim=1", "1,2;3,4,5,6", "1,3,4,2,5,6"},
    {"split", "2x3xf32", "dim=1 sizes=1,2", "1,2,3,4,5,6", "1,4;2,3,5,6"},
    {"slice", "3x4xf32", "start=1,0 limit=3,4 stride=1,3", "0,1,2,3,4,5,6,7,8,9,10,11", "4,7,8,11"},
    {"pad", "2xf32", "low=1 high=2 stride=2 value=9", "1,2", "9,1,9,2,9,9"},
    {"gather", "3x2xf32 2xi32", "", "1,2,3,4,5,6;2,0", "5,6,1,2"},
    {"gather", "2x3xf32 1x2xi64", "axis=1", "1,2,3,4,5,6;2,1", "3,2,6,5"},
    {"gather", "3x2xf32 1xi32", "", "1,2,3,4,5,6;3", "!gather: index 3 is not in 0..2"},
    {"scatter_add", "3xi32 3x2xf32", "rows=3", "2,0,2;1,2,3,4,5,6", "3,4,0,0,6,8"},
    {"scatter_add", "2xi32 2x2xf32", "rows=3 axis=1", "2,2;1,2,3,4", "0,0,3,0,0,7"},
    {"scatter_add", "1xi32 1xf32", "rows=3", "-1;1", "!scatter_add: index -1 is not in 0..2"},
    {"one_hot", "3xi32", "depth=2 on=5 off=-1", "0,1,2", "5,-1,-1,5,-1,-1"},
    {"one_hot", "1xi64", "depth=2 dtype=i8", "1", "0,1"},
    {"take_along", "2x3xf32 2x2xi32", "", "1,2,3,4,5,6;2,0,1,1", "3,1,5,5"},
    {"take_along", "2x2xf32 3x2xi64", "axis=0", "1,2,3,4;1,0,0,0,1,1", "3,2,1,2,3,4"},
    {"take_along", "1x3xf32 1x1xi32", "", "1,2,3;3", "!take_along: index 3 is not in 0..2"},
    {"add_along", "2x3xi32 2x3xf32", "rows=2", "1,1,0,0,0,0;1,2,3,4,5,6", "3,3,15,0"},
    {"gather_nd", "2x2x2xf32 2x2xi32", "", "1,2,3,4,5,6,7,8;1,0,0,1", "5,6,3,4"},
    {"gather_nd", "2x2xf32 2x2xi64", "", "1,2,3,4;1,0,0,2", "!gather_nd: index 2 is not in 0..1"},
    {"scatter_nd_add", "3x2xi32 3xf32", "shape=2,2", "1,0,0,1,1,0;1,2,3", "0,2,4,0"},
    {"scatter_update", "3x2xf32 3xi32 3x2xf32", "", "1,2,3,4,5,6;2,0,2;7,8,9,10,11,12", "9,10,3,4,11,12"},
    {"scatter_update", "2x2xf32 1xi64 2x1xf32", "axis=1", "1,2,3,4;0;8,9", "8,2,9,4"},
    {"segment_sum", "4xi32 4xi32 4x2xf32", "rows=4", "0,2,2,3;1,0,3,2;1,2,3,4,5,6,7,8", "3,4,0,0,8,10,5,6"},
    {"segment_sum", "3xi64 3xi32 3xf32", "rows=2", "0,0,2;1,0,2;1,2,3", "!segment_sum: index 2 is not in 0..1"},
    {"segment_sum", "3xi32 3xi32 3xf32", "rows=2", "1,0,1;1,0,2;1,2,3",
     "!segment_sum: row 0 comes after row 1: rows are not in order"},
    {"segment_sum", "4xi32 4xi32 4xf32", "rows=1 blocks=2", "0,0,0,0;0,1,2,3;1e30,1,-1e30,1", "0"},
    {"segment_sum", "4xi32 4xi32 4xf32", "rows=1", "0,0,0,0;0,1,2,3;1e30,1,-1e30,1", "1"},
    {"sort", "1x5xf32", "", "3,nan,-1,3,0", "-1,0,3,3,nan;2,4,0,3,1"},
    {"sort", "1x5xf32", "descending=true", "3,nan,-1,3,0", "nan,3,3,0,-1;1,0,3,4,2"},
    {"sort", "2x2xui8", "axis=0 dtype=i64", "200,1,100,2", "100,1,200,2;1,0,0,1"},
    {"topk", "2x4xf32", "k=2", "1,4,4,2,0,-1,-2,-3", "4,4,0,-1;1,2,0,1"},
    {"topk", "2x4xi32", "k=1 largest=false", "1,4,1,2,0,-1,-2,-3", "1,-3;0,3"},
    {"unique", "6xi32", "", "5,3,5,9,3,5", "3,5,9,9,9,9;1,0,1,2,0,1;3"},
    {"admit", "3xi32 2x2xi64", "table=t", "7,2,7;2,5,7,2", "0,1,0;1,2,0,1"},
    {"unique", "3xf32", "dtype=i64", "nan,0,nan", "0,nan,nan;1,0,1;2"},
    {"cumsum", "2x3xf32", "", "1,2,3,4,5,6", "1,3,6,4,9,15"},
    {"cumsum", "2x3xi8", "exclusive=true reverse=true", "1,2,3,100,100,100", "5,3,0,-56,100,0"},
    {"cumprod", "3x1xf32", "axis=0 exclusive=true", "2,3,4", "1,2,6"},
    {"cumprod_grad", "4xf32 4xf32", "", "2,0,3,0;1,1,1,1", "1,8,0,0"}, /* y = 2, 0, 0, 0; d/dx1 = 2 + 2*3 */
    {"einsum", "2x3xf32 3x2xf32", "equation=ab,bc->ca", "1,2,3,4,5,6;1,2,3,4,5,6", "22,49,28,64"},
    {"einsum", "2xf32 2x3xf32 3xf32", "equation=a,ab,b->b", "1,2;1,2,3,4,5,6;1,2,3", "9,24,45"},
    {"einsum", "3x3xf32", "equation=aa->a", "1,2,3,4,5,6,7,8,9", "1,5,9"},
    {"einsum", "2x2xi32", "equation=ab->", "1,2,3,4", "10"},
    {"grouped_matmul", "4x2xf32 4xi32 2x2x1xf32", "", "1,2,3,4,5,6,7,8;1,0,2,-1;1,10,100,1000", "2100,43,0,0"},
    {"grouped_matmul", "2x1xf32 2xi64 2x2x1xf32", "transpose_w=true", "2,3;1,0;1,10,100,1000", "200,2000,3,30"},
    {"grouped_weight_grad", "4x1xf32 4xi32 4x2xf32", "groups=3", "1,2,3,4;2,0,2,7;1,2,3,4,5,6,7,8",
     "6,8,0,0,16,20"},
    {"argmax", "2x3xf32", "", "1,5,5,2,nan,nan", "1,1"},
    {"argmin", "2x3xi32", "axis=0 keep_dims=true", "1,5,-2,1,4,-3", "0,1,1"},
    {"dropout", "2x3xf32 i64 i64", "rate=0.5 salt=9", "1,2,3,4,5,6;12345678901;7",
     "2,4,6,8,0,12"}, /* words / 2^32: 0.77, 0.76, 0.73, 0.90, 0.498, 0.76 */
    {"dropout", "3xf32", "rate=0.5", "1,2,3", "1,2,3"},
    {"conv2d", "1x1x3x3xf32 1x1x2x2xf32", "", "1,2,3,4,5,6,7,8,9;1,0,0,1", "6,8,12,14"}, /* more in conv.c */
    {"conv2d_transpose", "1x1x2x2xf32 1x1x2x2xf32", "size=3,3", "1,2,3,4;1,0,0,1", "1,2,0,3,5,2,0,3,4"},
    {"conv2d_weight_grad", "1x1x3x3xf32 1x1x2x2xf32", "kernel=2,2", "1,2,3,4,5,6,7,8,9;1,0,0,1", "6,8,12,14"},
    {"unfold", "1x1x2x3xf32", "kernel=1,2 padding=0,0,1,0", "1,2,3,4,5,6", "0,1,2,0,4,5,1,2,3,4,5,6"},
    {"unfold", "2x1x1x2xf32", "kernel=1,2 images_last=true", "1,2,3,4", "1,3,2,4"},
    {"unfold", "1x1x2x3xf32", "kernel=1,2 padding=0,0,1,0 turned=true", "1,2,3,4,5,6", "1,2,3,4,5,6,0,1,2,0,4,5"},
    {"fold", "1x1x1x2x1x2xf32", "size=1,3", "1,2,3,4", "1,5,4"},
    {"resize", "1x1x1x2xf32", "size=2,4 mode=bilinear", "1,3", "1,1.5,2.5,3,1,1.5,2.5,3"},
    {"max_pool", "1x1x2x4xf32", "kernel=2,2 stride=2,2", "1,nan,3,4,5,2,6,0", "nan,6"},
    {"max_pool_index", "1x1x2x6xf32", "kernel=2,2 stride=2,2", "1,nan,3,4,0,7,5,2,6,0,7,7", "1,2,1"},
    {"max_pool_grad", "1x1x1x2xi32 1x1x1x2xf32", "kernel=2,2 size=2,4 stride=2,2", "1,2;5,6", "0,5,0,0,0,0,6,0"},
    {"avg_pool", "1x1x2x2xf32", "kernel=2,2 padding=1,0,0,0", "1,2,3,4", "0.75,2.5"},
    {"avg_pool", "1x1x2x2xf32", "kernel=2,2 padding=1,0,0,0 count_include_pad=false", "1,2,3,4", "1.5,2.5"},
    {"avg_pool_grad", "1x1x1x2xf32", "kernel=2,2 size=2,3", "4,8", "1,3,2,1,3,2"},
    {"matmul", "2x3xf32 3x2xf32", "", "1,2,3,4,5,6;1,2,3,4,5,6", "22,28,49,64"},
    {"matmul", "3x2xf32 3x2xf32", "transpose_a=true", "1,4,2,5,3,6;1,2,3,4,5,6", "22,28,49,64"},
    {"matmul", "2x3xi32 2x3xi32", "transpose_b=true", "1,2,3,4,5,6;1,3,5,2,4,6", "22,28,49,64"},
    {"gemm", "2x3xf32 3x2xf32 2xf32", "relu=true", "1,2,3,4,5,6;1,2,3,4,5,6;-30,1", "0,29,19,65"},
    {"dropped_attention", "1x1x1x1xf32 1x1x2x1xf32 1x1x2x1xf32 1x1x1x2xf32", "scale=1", "0;4,6;1,3;2,0", "1"},
    {"dropped_attention", "1x1x1x1xf32 1x1x3x1xf32 1x1x3x1xf32 1x1x1x3xf32 3xi1", "scale=1",
     "0;4,6,2;1,3,9;2,0,2;1,1,0", "1"},
    {"biased_conv2d", "1x1x2x2xf32 2x1x2x2xf32 1x2x1x1xf32", "relu=true", "1,2,3,4;1,1,1,1,0,0,0,-1;-3,3", "7,0"},
    {"flash_attention", "1x1x1x1xf32 1x1x2x1xf32 1x1x2x1xf32", "scale=1", "0;4,6;1,3", "2;0.693147181"},
    {"flash_attention_grad", "1x1x1x1xf32 1x1x2x1xf32 1x1x2x1xf32 1x1x1x1xf32 1x1x1xf32 1x1x1x1xf32", "scale=1",
     "0;4,6;1,3;2;0.693147181;1", "1;0,0;0.5,0.5"},
    {"batch_matmul", "2x1x2xf64 2x1xf64", "", "1,2,3,4;5,6", "17,39"},
    {"matmul_weight_grad", "2x1x2xf32 2x1x1xf32", "", "1,2,3,4;5,6", "23,34"},
    {"batch_matmul", "2x1x2xf32 2x1x2xf32", "transpose_b=true", "1,2,3,4;5,6,7,8", "17,53"},
    {"gemm", "2x2xf32 2x2xf32 2xf32", "transpose_b=true relu=true", "1,2,3,4;1,0,0,-1;10,1", "11,0,13,0"},
    {"gemm", "2x2xf32 2x2xf32 2x2xf32", "takes=add", "1,2,3,4;1,0,0,-1;10,20,30,40", "11,18,33,36"},
    {"gemm", "2x2xf32 2x2xf32 2x16xu8", "takes=aux relu=true slope=true",
     "1,2,3,4;1,0,0,-1;2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0", "0,-2,3,0"},
    {"gemm", "2x2xf32 2x2xf32", "transpose_a=true gives=sum_b", "1,2,3,4;1,0,0,-1", "1,-3,2,-4;1,-1"},
    {"gemm", "2x2xf32 2x2xf32", "relu=true gives=aux", "1,2,3,4;1,0,0,-1",
     "1,0,3,0;1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"},
    {"gemm", "2x2xf64 2x2xf64", "", "1,2,3,4;1,0,0,-1", "1,-2,3,-4"},
    {"reduce_sum", "2x3xf32", "dims=1", "1,2,3,4,5,6", "6,15"},
    {"reduce_sum", "2x3xi8", "dims=0,1", "100,100,100,0,0,0", "44"},
    {"reduce_sum", "2x3xf32", "dims=0 keep_dims=true", "1,2,3,4,5,6", "5,7,9"},
    {"reduce_mean", "2x3xf32", "dims=1", "1,2,3,4,5,6", "2,5"},
    {"reduce_max", "2x3xf32", "dims=1", "1,nan,3,4,-5,6", "nan,6"},
    {"reduce_min", "2x3xui8", "dims=1", "1,2,3,4,255,6", "1,4"},
    {"reduce_prod", "2x3xf32", "dims=1", "1,2,3,4,0,6", "6,0"},
    {"reduce_any", "2x3xi1", "dims=1", "0,1,0,0,0,0", "1,0"},
    {"reduce_all", "2x3xi1", "dims=1", "1,1,1,1,0,1", "1,0"},
    {"clamp", "4xf32", "low=-1 high=2", "-3,0.5,4,nan", "-1,0.5,2,nan"},
    {"mod", "6xf32 6xf32", "", "7,-7,7,-7,0,1.5;3,3,-3,-3,3,1", "1,2,-2,-1,0,0.5"},
    {"mod", "6xi32 6xi32", "", "7,-7,7,-7,0,6;3,3,-3,-3,3,-3", "1,2,-2,-1,0,0"},
    {"mod", "2xui8 2xui8", "", "7,250;3,7", "1,5"},
    {"mod", "1xi32 1xi32", "", "7;0", "!div: integer division by zero"},
    {"stop_gradient", "3xf32", "", "1,-2,nan", "1,-2,nan"},
    {"stop_gradient", "2xi1", "", "0,1", "0,1"},
    {"floor_div", "6xf32 6xf32", "", "7,-7,7,-7,0,1;3,3,-3,-3,3,0.1", "2,-3,-3,2,0,9"}, /* 0.1 is a little more */
    {"floor_div", "6xi32 6xi32", "", "7,-7,7,-7,0,6;3,3,-3,-3,3,-3", "2,-3,-3,2,0,-2"},
    {"floor_div", "2xui8 2xui8", "", "7,250;3,7", "2,35"},
    {"floor_div", "1xi32 1xi32", "", "7;0", "!div: integer division by zero"},
    {"fmod", "6xf32 6xf32", "", "7,-7,7,-7,0,1.5;3,3,-3,-3,3,1", "1,-1,1,-1,0,0.5"},
    {"fmod", "5xi32 5xi32", "", "7,-7,7,-7,0;3,3,-3,-3,3", "1,-1,1,-1,0"},
    {"trunc", "5xf32", "", "0.5,1.5,-2.5,2.4,nan", "0,1,-2,2,nan"},
    {"bitwise_and", "3xi32 3xi32", "", "12,-1,-8;10,7,12", "8,7,8"},
    {"bitwise_or", "2xui8 2xui8", "", "12,128;10,1", "14,129"},
    {"bitwise_xor", "4xi1 4xi1", "", "0,0,1,1;0,1,0,1", "0,1,1,0"},
    {"bitwise_not", "3xi8", "", "0,-1,5", "-1,0,-6"},
    {"bitwise_not", "2xui8", "", "0,5", "255,250"},
    {"shift_left", "5xi8 5xi8", "", "1,1,-3,5,5;3,7,1,8,-1", "8,-128,-6,0,0"},
    {"shift_right", "5xi8 5xi8", "", "8,-8,-8,7,-7;2,2,9,-1,-1", "2,-2,-1,0,-1"},
    {"shift_right", "3xui8 3xui8", "", "255,128,255;4,7,8", "15,1,0"},
    {"is_nan", "4xf32", "", "1,inf,-inf,nan", "0,0,0,1"},
    {"is_inf", "4xf32", "", "1,inf,-inf,nan", "0,1,1,0"},
    {"uniform", "3xf16 i64 i64", "salt=9", "nan,2,3;12345678901;7", "0.76953125,0.76220703125,0.73291015625"},
    {"uniform", "2xf32", "", "1,2", "!uniform: no seed is given"},
    {"logical_and", "4xi1 4xi1", "", "0,0,1,1;0,1,0,1", "0,0,0,1"},
    {"logical_or", "4xi1 4xi1", "", "0,0,1,1;0,1,0,1", "0,1,1,1"},
    {"logical_xor", "4xi1 4xi1", "", "0,0,1,1;0,1,0,1", "0,1,1,0"},
    {"logical_not", "2xi1", "", "0,1", "1,0"},
    {"is_finite", "4xf32", "", "1,inf,-inf,nan", "1,0,0,0"},
    {"expand_dims", "2x2xf32", "axis=-1", "1,2,3,4", "1,2,3,4"},
    {"squeeze", "1x2xf32", "dims=0", "1,2", "1,2"},
    {"tile", "2x2xf32", "repeats=1,2", "1,2,3,4", "1,2,1,2,3,4,3,4"},
    {"tile", "1x2xf32", "repeats=2,2", "1,2", "1,2,1,2,1,2,1,2"},
    {"stack", "2xf32 2xf32", "axis=1", "1,2;3,4", "1,3,2,4"},
    {"reverse", "2x3xf32", "dims=1", "1,2,3,4,5,6", "3,2,1,6,5,4"},
    {"reverse", "2x2xf32", "dims=0,1", "1,2,3,4", "4,3,2,1"},
    {"roll", "4xf32", "dim=0 shift=1", "1,2,3,4", "4,1,2,3"},
    {"roll", "4xf32", "dim=-1 shift=-5", "1,2,3,4", "2,3,4,1"},
    {"softmax", "1x2xf64", "", "0,0.69314718055994530942", "0.33333333333333333,0.66666666666666667"},
    {"softmax", "2x1xf64", "axis=0", "1000,1000", "0.5,0.5"},
    {"log_softmax", "1x2xf64", "", "0,0.69314718055994530942", "-1.0986122886681098,-0.40546510810816438"},
    /* (log 2 + log 3) / 2 */
    {"softmax_cross_entropy", "2x2xf64 2xi32", "", "0,0,0,0.69314718055994530942;1,0", "0.89587973461402748"},
    {"softmax_cross_entropy", "2x2xf64 2xi64", "reduction=none", "0,0,0,0.69314718055994530942;1,0",
     "0.69314718055994531,1.0986122886681098"},
    {"softmax_cross_entropy", "1x2xf64 1x2xf64", "reduction=sum", "0,0;0.25,0.75", "0.69314718055994531"},
    {"softmax_cross_entropy", "1x2xf64 1xi64", "", "0,0;2", "!softmax_cross_entropy: label 2 is not in 0..1"},
    {"softmax_cross_entropy_grad", "2x2xf64 2xi32 f64", "", "0,0,0,0;1,0;4", "1,-1,-1,1"},
    {"softmax_cross_entropy_grad", "2x2xf64 2x2xf64 2xf64", "reduction=none", "0,0,0,0;1,1,0.25,0.75;4,8", "0,0,2,-2"},
    {"mean_absolute_error", "2x2xf32 2x2xf32", "", "1,2,3,4;2,0,3,8", "1.75"},
    {"mean_absolute_error", "2xf32 2xf32", "reduction=none", "1,2;2,0", "1,2"},
#include "tests/ir/torch_values.h"
    /* w 1, g 0.5: by the formulas in interp/optimizer_update.c */
    {"sgd", "f64 f64", "lr=0.1", "1;0.5", "0.95"},
    {"sgd", "f64 f64", "lr=0.1 weight_decay=0.5", "1;0.5", "0.9"},
    {"sgd", "f64 f64 i1", "lr=0.1", "1;0.5;1", "0.95"},
    {"sgd", "f64 f64 i1", "lr=0.1", "1;nan;0", "1"}, /* not ok: nothing changes */
    {"adam", "f64 f64 f64 f64 f32 i1", "lr=0.1", "1;2;3;nan;1;0", "1;2;3"},
    {"assign", "f64 f64", "", "1;2", "2"},
    {"assign", "f64 f64 i1", "", "1;2;0", "1"},
    {"fetch", "2xf32", "", "1,2", "1,2"},
    {"stow", "2xf32 2xf32", "", "1,2;3,4", "3,4"},
    {"stash", "2xf32", "home=cpu", "1,2", "1,2"},
    {"momentum", "f64 f64 f64", "lr=0.1 momentum=0.9", "1;0;0.5", "0.95;0.5"}, /* first step: m = g */
    {"momentum", "f64 f64 f64", "lr=0.1 momentum=0.9", "1;2;0.5", "0.77;2.3"},
    {"momentum", "f64 f64 f64", "lr=0.1 momentum=0.9 nesterov=true", "1;2;0.5", "0.743;2.3"}, /* g + 0.9 * 2.3 = 2.57 */
    {"momentum", "f64 f64 f64", "lr=0.1 momentum=0.9 dampening=0.2 weight_decay=0.5", "1;2;0.5", "0.74;2.6"},
    {"adagrad", "f64 f64 f64", "lr=0.1 eps=0.5", "1;5;2", "0.942857142857143;9"}, /* 1 - 0.2 / (3 + 0.5) */
    /* v = 0.5 16 + 0.5 (1 + 1)^2 = 10;  2 / (sqrt(10) + 0.5) = 0.5461... */
    {"rmsprop", "f64 f64 f64", "lr=0.1 alpha=0.5 eps=0.5 weight_decay=1", "1;16;1", "0.945389176201674;10"},
    {"rmsprop_momentum", "f64 f64 f64 f64", "lr=0.1 momentum=0.5 alpha=0.5 eps=0.5 weight_decay=1", "1;4;16;1",
     "0.745389176201674;2.54610823798326;10"},
    {"adagrad", "f64 f64 f64 i1", "lr=0.1", "1;5;2;0", "1;5"},
    /* row 2 twice, row 0 once; row 1 stays */
    {"lazy_sgd", "3x2xf64 3xi32 3xi32 3x2xf64", "lr=0.1", "1,2,3,4,5,6;0,2,2;1,0,2;1,2,3,4,5,6", "0.7,1.6,3,4,4.4,5.2"},
    {"lazy_sgd", "3xf64 2xi64 2xi32 2xf64 i1", "lr=0.1", "1,2,3;0,2;1,0;1,2;0", "1,2,3"},
    {"lazy_sgd", "3xf64 2xi64 2xi32 2xf64 i1 f64", "lr=0.1 weight_decay=0.5", "1,2,3;0,2;1,0;1,2;1;0.2", "0.5,2,2.5"},
    {"lazy_momentum", "2xf64 2xf64 1xi32 1xi32 1xf64", "lr=0.1 momentum=0.9", "1,5;2,7;0;0;0.5", "0.77,5;2.3,7"},
    {"lazy_momentum", "2xf64 2xf64 1xi32 1xi32 1xf64", "lr=0.1 momentum=0.9 nesterov=true", "1,5;2,7;0;0;0.5",
     "0.743,5;2.3,7"},
    {"lazy_adagrad", "2xf64 2xf64 1xi32 1xi32 1xf64", "lr=0.1 eps=0.5", "9,1;8,5;1;0;2", "9,0.942857142857143;8,9"},
    {"lazy_adam", "2xf64 2xf64 2xf64 1xi32 1xi32 1xf64 f32", "lr=0.1 eps=0", "7,1;7,0;7,0;1;0;0.5;1",
     "7,0.9;7,0.05;7,0.00025"},
    {"adam", "f64 f64 f64 f64 f32", "lr=0.1 eps=0", "1;0;0;0.5;1", "0.9;0.05;0.00025"}, /* first step: lr * sign(g) */
    {"adam", "f64 f64 f64 f64 f32", "lr=0.1 eps=0 beta1=0.5 beta2=0.75 weight_decay=0.5", "1;1;1;1.5;2",
     "0.9;1.5;1.75"}, /* g 2; 1 - 0.1 * (1.5 / 0.75) / sqrt(1.75 / 0.4375) = 0.9 */
    {"adamw", "f64 f64 f64 f64 f32", "lr=0.1 eps=0 weight_decay=0.5", "1;0;0;0.5;1", "0.85;0.05;0.00025"},
    {"lamb_moments", "f64 f64 f64 f64 f32", "eps=0 weight_decay=0.5", "1;0;0;0.5;1", "1.5;0.05;0.00025"},
    {"lamb_apply", "2xf64 2xf64 f64", "lr=0.1", "1,2;3,4;2", "0.4,1.2"},
};

static msc_tensor tensor_of_text(msc_arena *a, const msc_type *t, const char **text) {
  msc_tensor x = msc_tensor_new(a, t);
  for (int64_t i = 0; i < msc_type_elems(t); i++) {
    char *end;
    if (t->dtype == MSC_I64) ((int64_t *)x.data)[i] = strtoll(*text, &end, 10);
    else msc_tensor_set(&x, i, strtod(*text, &end));
    assert_true(end != *text);
    *text = end + (*end == ',');
  }
  assert_true(**text == ';' || **text == 0);
  *text += **text == ';';
  return x;
}

static bool near(msc_dtype d, double got, double want) {
  double tolerance = d == MSC_F64 ? 1e-14 : d == MSC_F32 ? 1e-6 : 0;
  return (got != got && want != want) || got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

static bool same_numbers(const msc_tensor *got, const msc_tensor *want) {
  for (int64_t i = 0; i < msc_type_elems(got->type); i++) {
    if (got->type->dtype == MSC_I64 && ((int64_t *)got->data)[i] != ((int64_t *)want->data)[i]) return false;
    if (!near(got->type->dtype, msc_tensor_get(got, i), msc_tensor_get(want, i))) return false;
  }
  return true;
}

static void print_tensor(const msc_tensor *t) {
  for (int64_t i = 0; i < msc_type_elems(t->type); i++) print_error("%s%.17g", i ? "," : "", msc_tensor_get(t, i));
  print_error(";");
}

static bool check_case(const run_case *c) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_tensor args[8], out[8];
  msc_op *op = one_op(msc_module_new(ctx), c->op, c->in, c->attrs, 2);
  assert_non_null(op);
  const char *values = c->values, *expected = c->expected;
  for (size_t i = 0; i < op->num_in; i++) args[i] = tensor_of_text(a, op->in[i].value->type, &values);
  bool ran = msc_interpret(op->block->func, a, args, out), ok = true;
  if (*expected == '!') {
    ok = !ran && strcmp(msc_diags(ctx)->text, expected + 1) == 0;
    if (!ok) print_error("%s: expected %s, got %s\n", c->op, expected + 1, ran ? "a result" : msc_diags(ctx)->text);
  } else {
    for (size_t i = 0; ran && i < op->num_out; i++) {
      msc_tensor want = tensor_of_text(a, op->out[i].type, &expected);
      ok &= same_numbers(&out[i], &want);
    }
    if (!ran || !ok)
      print_error("%s(%s) {%s} of %s\n  expected %s\n  got      ", c->op, c->in, c->attrs, c->values, c->expected);
    if (!ran) print_error("%s\n", msc_diags(ctx)->text);
    for (size_t i = 0; ran && !ok && i < op->num_out; i++) print_tensor(&out[i]);
    if (!ok) print_error("\n");
    ok &= ran;
  }
  msc_context_free(ctx);
  return ok;
}

static void every_case(void **state) {
  (void)state;
  int failed = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) failed += !check_case(&cases[i]);
  assert_int_equal(failed, 0);
}

/* By its expansion, or by an op vjp. */
static bool is_composite(msc_context *ctx, int kind) {
  return msc_op_info_of(ctx, (msc_op_kind)kind)->expand && kind != OP_vjp;
}

static void every_op_has_a_case(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    bool found = !msc_op_info_of(ctx, (msc_op_kind)kind)->eval && !is_composite(ctx, kind);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      found |= strcmp(cases[i].op, msc_kind_name((unsigned)kind)) == 0;
    if (!found) fail_msg("no case for %s", msc_kind_name((unsigned)kind));
  }
  msc_context_free(ctx);
}

/* What is no kernel is a collective, a terminator, a region, or takes its kernel's place after lowering. */
static void every_op_is_known(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int kind = 0; kind < OP_COUNT; kind++) {
    const msc_op_info *info = msc_op_info_of(ctx, (msc_op_kind)kind);
    bool other =
        (info->flags & (MSC_COLLECTIVE | MSC_TERMINATOR)) || info->expand || kind == OP_shard || kind == OP_fused;
    if (!msc_op_info_of(ctx, (msc_op_kind)kind)->eval && !other)
      fail_msg("no kernel for %s", msc_kind_name((unsigned)kind));
  }
  msc_context_free(ctx);
}

/* ---- manual collectives: rank r of mesh x=2,y=3 holds r*10, r*10+1, ... ---- */

static const struct {
  const char *op, *in, *attrs;
  int64_t rank;
  const char *expected; /* on that rank */
} groups[] = {
    {"all_reduce", "2xf32", "axes={y}", 4, "120,123"},               /* ranks 3 4 5 */
    {"all_reduce", "2xi32", "axes={x} reduction=max", 1, "40,41"},   /* ranks 1 4 */
    {"all_reduce", "f64", "axes={x,y} reduction=prod", 3, "0"},
    {"all_gather", "2xf32", "axes={y}", 3, "30,31,40,41,50,51"},
    {"all_gather", "2x1xf32", "axes={x} dim=1", 5, "20,50,21,51"},   /* ranks 2 5 */
    {"all_gather", "1xf32", "axes={y,x}", 0, "0,30,10,40,20,50"},    /* y major */
    {"reduce_scatter", "4xf32", "axes={x}", 3, "34,36"},             /* ranks 0 3: second half of 30+0, ... */
    {"reduce_scatter", "1x3xf32", "axes={y} dim=1 reduction=min", 2, "2"},
    {"all_to_all", "2xf32", "axes={x}", 3, "1,31"},                  /* its blocks number 1 of ranks 0 and 3 */
    {"all_to_all", "3x1xf32", "axes={y} split_dim=0 concat_dim=1", 1, "1,11,21"},
    {"permute", "1xf32", "axes={y} pairs=0,1,1,2", 5, "40"},
    {"permute", "1xf32", "axes={y} pairs=0,1,1,2", 3, "0"},          /* receives nothing: zeros */
    {"broadcast", "2xi8", "axes={y} root=2", 3, "50,51"},
};

static msc_tensor rank_values(msc_arena *a, const msc_type *t, int64_t rank) {
  msc_tensor x = msc_tensor_new(a, t);
  for (int64_t i = 0; i < msc_type_elems(t); i++) msc_tensor_set(&x, i, (double)(rank * 10 + i));
  return x;
}

static void manual_groups(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_arena *a = msc_context_arena(ctx);
    msc_module *m = msc_module_new(ctx);
    msc_tensor args[6], out[6];
    msc_mesh_parse(ctx, NULL, "x=2,y=3", &m->mesh);
    msc_op *op = one_op(m, groups[i].op, groups[i].in, groups[i].attrs, 1);
    assert_non_null(op);
    for (int64_t r = 0; r < 6; r++) args[r] = rank_values(a, op->in[0].value->type, r);
    assert_true(msc_interpret_parts(op->block->func, a, args, out));
    const char *text = groups[i].expected;
    msc_tensor want = tensor_of_text(a, op->out[0].type, &text), *got = &out[groups[i].rank];
    if (!same_numbers(got, &want)) {
      print_error("%s {%s} on rank %d: expected %s, got ", groups[i].op, groups[i].attrs, (int)groups[i].rank,
                  groups[i].expected);
      print_tensor(got);
      fail();
    }
    assert_false(msc_interpret(op->block->func, a, args, out)); /* one device cannot */
    msc_context_free(ctx);
  }
}

static void send_and_receive(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_module_new(ctx);
  msc_tensor args[6], out[6];
  msc_mesh_parse(ctx, NULL, "x=2,y=3", &m->mesh);
  msc_func *f = msc_func_new(m, "f");
  msc_builder b = {.func = f, .loc = f->loc};
  msc_value *x = msc_add_arg(f->body, type_of_text(ctx, NULL, "1xf32", 5), NULL);
  const msc_layout *digits;
  assert_true(msc_digits_parse(ctx, &m->mesh, NULL, "{y}", &digits));
  msc_attr attrs[] = {msc_named(ctx, "axes", msc_digits_attr(digits)), msc_named(ctx, "from", msc_int(2)),
                      msc_named(ctx, "to", msc_int(0))};
  msc_value *token = &msc_build_with(&b, OP_send, 1, &x, 1, 3, attrs)->out[0];
  msc_value *y = &msc_build_with(&b, OP_recv, 1, &token, 1, 3, attrs)->out[0];
  msc_build_with(&b, OP_return, 1, &y, 0, 0, NULL);
  assert_true(msc_verify(m));
  for (int64_t r = 0; r < 6; r++) args[r] = rank_values(a, x->type, r);
  assert_true(msc_interpret_parts(f, a, args, out));
  for (int64_t r = 0; r < 6; r++) assert_true(msc_tensor_get(&out[r], 0) == (r == 0 ? 20 : r == 3 ? 50 : 0));
  msc_context_free(ctx);
}

/* ---- layouts ---- */

/* relu(x . w), cut as given: what is missing must be found. */
static void partitioned(const char *x_layout, const char *w_layout, const char *product_layout, const char *verb,
                        const char *relu_layout, const char *message, bool same) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_module_new(ctx);
  msc_mesh_parse(ctx, NULL, "x=2,y=2", &m->mesh);
  msc_func *f = msc_func_new(m, "f");
  msc_builder b = {.func = f, .loc = f->loc};
  const char *xt = msc_arena_printf(a, "2x4xf64@%s", x_layout), *wt = msc_arena_printf(a, "4x2xf64@%s", w_layout);
  const char *pt = msc_arena_printf(a, "2x2xf64@%s", product_layout),
             *rt = msc_arena_printf(a, "2x2xf64@%s", relu_layout);
  msc_value *x = msc_add_arg(f->body, type_of_text(ctx, &m->mesh, xt, strlen(xt)), NULL);
  msc_value *w = msc_add_arg(f->body, type_of_text(ctx, &m->mesh, wt, strlen(wt)), NULL);
  msc_value *y = msc_build(&b, OP_matmul, 2, (msc_value *[]){x, w});
  y->type = type_of_text(ctx, &m->mesh, pt, strlen(pt));
  msc_op_kind kind;
  if (verb && msc_kind_parse(verb, &kind)) {
    y = msc_build(&b, kind, 1, &y);
    y->type = type_of_text(ctx, &m->mesh, rt, strlen(rt));
  }
  y = msc_build(&b, OP_relu, 1, &y);
  y->type = type_of_text(ctx, &m->mesh, rt, strlen(rt));
  msc_build_with(&b, OP_return, 1, &y, 0, 0, NULL);
  const char *xv = "1,-2,3,4,5,6,-7,8", *wv = "1,2,3,-4,5,-6,-7,8";
  msc_tensor args[2] = {tensor_of_text(a, x->type, &xv), tensor_of_text(a, w->type, &wv)}, one, many;
  assert_true(msc_interpret(f, a, args, &one));
  bool ran = msc_interpret_ranks(f, a, args, &many);
  if (ran != !message)
    fail_msg("expected %s, got %s", message ? message : "a result", ran ? "a result" : msc_diags(ctx)->text);
  if (message && !strstr(msc_diags(ctx)->text, message))
    fail_msg("expected \"%s\", got \"%s\"", message, msc_diags(ctx)->text);
  if (ran) assert_int_equal(same_numbers(&one, &many), same);
  msc_context_free(ctx);
}

static void ranks(void **state) {
  (void)state;
  partitioned("[{x},{}]", "[{},{y}]", "[{x},{y}]", NULL, "[{x},{y}]", NULL, true);
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]~partial={x,y}", "all_reduce", "[{},{}]", NULL, true);
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]~partial={x,y}", "reduce_scatter", "[{y},{x}]", NULL, true);
  partitioned("[{x},{y}]", "[{y},{}]", "[{x},{}]~partial={y}", "reduce_scatter", "[{x},{y}]", NULL, true);
  /* a forgotten all_reduce: relu of partial sums, other numbers; and claimed finished, other replicas */
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]~partial={x,y}", NULL, "[{},{}]~partial={x,y}", NULL, false);
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]", NULL, "[{},{}]", "hold the same part with different bits", false);
  /* reduced over one axis of the two */
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]~partial={x,y}", "all_reduce", "[{},{}]~partial={y}", NULL, false);
  /* a verb that does not do this */
  partitioned("[{},{x,y}]", "[{x,y},{}]", "[{},{}]~partial={x,y}", "all_gather", "[{},{}]",
              "all_gather: cannot make the result", false);
  /* operands whose inner dimensions are cut differently; a result that is claimed wider than it is */
  partitioned("[{},{x}]", "[{y},{}]", "[{},{}]", NULL, "[{},{}]",
              "matmul on rank 1: the rank holds other inner elements", false);
  partitioned("[{x},{}]", "[{},{}]", "[{},{}]", NULL, "[{},{}]",
              "matmul on rank 0: operand 0: the rank does not hold element [1,0]", false);
}

/* ---- lowered: local shapes, comm, offsets, regions ---- */

static const char LOWERED[] =
    "module attributes {msc.mesh = #msc.mesh<\"x=2\">} {\n"
    "\"msc.func\"() ({\n"
    "^bb0(%0: tensor<2x3xf64>, %1: tensor<4xi32>):\n" /* of a table 4x3 cut by x; indexes, whole */
    "  %2 = \"msc.gather\"(%0, %1) {start = 0, whole = 4} : (tensor<2x3xf64>, tensor<4xi32>) -> tensor<4x3xf64>\n"
    "  %3 = \"msc.comm\"(%2) {dims = [2, 3], from = [\"[{},{}] partial={x}\"], shape = [4, 3], to = [\"[{x},{}]\"], "
    "verb = "
    "\"reduce_scatter\"} : (tensor<4x3xf64>) -> tensor<2x3xf64>\n"
    "  %4 = \"msc.fused\"(%3) ({\n"
    "  ^bb0(%5: tensor<2x3xf64>):\n"
    "    %6 = \"msc.mul\"(%5, %5) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>\n"
    "    %7 = \"msc.reduce_mean\"(%6) {count = 12, dims = [0, 1]} : (tensor<2x3xf64>) -> tensor<f64>\n"
    "    \"msc.yield\"(%7) : (tensor<f64>) -> ()\n"
    "  }) : (tensor<2x3xf64>) -> tensor<f64>\n"
    "  %8 = \"msc.iota\"() {start = 0, type = tensor<2xi32>} : () -> tensor<2xi32>\n"
    "  \"msc.return\"(%3, %4, %8) : (tensor<2x3xf64>, tensor<f64>, tensor<2xi32>) -> ()\n"
    "}) {sym_name = \"f\", arg_attrs = [{msc.layout = \"[{x},{}]\", msc.shape = [4, 3]}, {msc.layout = \"[{}]\", "
    "msc.shape = [4]}],\n"
    "  result_layouts = [\"[{x},{}]\", \"[] partial={x}\", \"[{x}]\"], result_shapes = [[4, 3], [], [4]],\n"
    "  starts = [{dim = 0, layout = \"[{x},{}]\", shape = [4, 3]}]} : () -> ()\n"
    "}\n";

static void lowered(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_module *m = msc_parse(ctx, "test", LOWERED, sizeof LOWERED - 1);
  if (!m || !msc_verify(m)) fail_msg("%s", msc_diags(ctx)->text);
  const char *table = "1,2,3,4,5,6,7,8,9,10,11,12", *indices = "3,0,1,0", *rows = "10,11,12,1,2,3,4,5,6,1,2,3";
  msc_tensor args[2] = {tensor_of_text(a, type_of_text(ctx, NULL, "4x3xf64", 7), &table),
                        tensor_of_text(a, type_of_text(ctx, NULL, "4xi32", 5), &indices)};
  msc_tensor want = tensor_of_text(a, type_of_text(ctx, NULL, "4x3xf64", 7), &rows), out[3];
  if (!msc_interpret_ranks(m->first, a, args, out)) fail_msg("%s", msc_diags(ctx)->text);
  assert_true(same_numbers(&out[0], &want));
  assert_true(near(MSC_F64, msc_tensor_get(&out[1], 0), (365 + 14 + 77 + 14) / 12.0));
  for (int i = 0; i < 4; i++) assert_true(msc_tensor_get(&out[2], i) == i);
  ((int32_t *)args[1].data)[2] = 4;
  assert_false(msc_interpret_ranks(m->first, a, args, out));
  assert_string_equal(msc_diags(ctx)->text, "gather on rank 0: index 4 is not in 0..3");
  msc_context_free(ctx);
}

static void wrong_argument(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *a = msc_context_arena(ctx);
  msc_op *op = one_op(msc_module_new(ctx), "neg", "2xf32", "", 1);
  msc_tensor arg = msc_tensor_new(a, type_of_text(ctx, NULL, "3xf32", 5)), out;
  assert_false(msc_interpret(op->block->func, a, &arg, &out));
  assert_string_equal(msc_diags(ctx)->text, "f: argument 0 is given a tensor of another type than its own");
  msc_context_free(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_case),       cmocka_unit_test(every_op_has_a_case), cmocka_unit_test(every_op_is_known),
          cmocka_unit_test(manual_groups),
      cmocka_unit_test(send_and_receive), cmocka_unit_test(ranks),               cmocka_unit_test(wrong_argument),
          cmocka_unit_test(lowered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
