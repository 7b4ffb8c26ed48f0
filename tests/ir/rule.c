/* rule.c and rule/check.c: the rule of every op as text, layouts from assignments, and every report of
 * the type check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

static msc_context *ctx;
static msc_module *module;
static msc_builder builder;

static int open_context(void **state) {
  (void)state;
  ctx = msc_context_new(NULL, NULL);
  module = msc_module_new(ctx);
  builder = (msc_builder){.func = msc_func_new(module, "main")};
  return 0;
}

static int close_context(void **state) {
  (void)state;
  msc_context_free(ctx);
  return 0;
}

/* "4x8xf32", "xf32" for a scalar; several, separated by blanks. */
static int values_of(const char *text, msc_value **out) {
  int num = 0;
  char copy[200], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    int64_t dim[MSC_MAX_RANK];
    int rank = 0;
    msc_dtype dtype;
    w += *w == 'x';
    while (*w >= '0' && *w <= '9') dim[rank++] = strtoll(w, &w, 10), w += *w == 'x';
    assert_true(msc_dtype_parse(w, &dtype));
    out[num++] = msc_add_arg(builder.func->body, msc_type_of(ctx, dtype, rank, dim, NULL), "v");
  }
  return num;
}

/* "dim=1 sizes=2,6 keep_dims=true dtype=f32 shape=[8]": words that start with a letter are strings, with a
 * brace digits of mesh axes. */
static size_t attrs_of(const char *text, msc_attr *out) {
  size_t num = 0;
  char copy[200], *save = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    char *v = strchr(w, '=');
    *v++ = 0;
    msc_attr_value value;
    if (*v == '[') {
      int64_t n[16];
      size_t count = 0;
      for (v++; *v != ']'; v += *v == ',') n[count++] = strtoll(v, &v, 10);
      value = msc_ints(ctx, count, n);
    } else if (!strcmp(v, "true") || !strcmp(v, "false")) {
      value = msc_bool(*v == 't');
    } else if (strchr(v, '.')) {
      value = msc_float(strtod(v, NULL));
    } else if ((*v >= '0' && *v <= '9') || *v == '-') {
      value = msc_int(strtoll(v, NULL, 10));
    } else if (*v == '{') {
      const msc_layout *digits;
      msc_mesh mesh;
      assert_true(msc_mesh_parse(ctx, NULL, "d=2", &mesh) && msc_digits_parse(ctx, &mesh, NULL, v, &digits));
      value = msc_digits_attr(digits);
    } else {
      value = msc_str(ctx, v);
    }
    out[num++] = msc_named(ctx, w, value);
  }
  return num;
}

static msc_op *make(const char *kind_name, const char *operands, const char *attrs, size_t num_out) {
  msc_op_kind kind;
  msc_value *in[16];
  msc_attr attr[16];
  assert_true(msc_kind_parse(kind_name, &kind));
  int num = values_of(operands, in);
  msc_op *op = msc_build_with(&builder, kind, (size_t)num, in, num_out, attrs_of(attrs, attr), attr);
  if (!op) fail_msg("%s: %s", kind_name, msc_diags(ctx)->text);
  return op;
}

static const char *rule_text(const msc_op *op) {
  msc_rule rule;
  assert_true(msc_rule_of(op, msc_context_arena(ctx), &rule));
  for (size_t t = 0; t < rule.num_tensors; t++) { /* letters of a dimension multiply to its size; windows may slide */
    const msc_type *type = t < op->num_in ? op->in[t].value->type : op->out[t - op->num_in].type;
    for (int d = 0; d < type->rank; d++) {
      const msc_dim_letters *dim = &rule.tensor[t].dim[d];
      const msc_letter *first = &rule.letter[dim->letter[0]];
      int64_t n = 1;
      for (int i = 0; i < dim->num; i++) n *= rule.letter[dim->letter[i]].size;
      bool slides = dim->num == 1 && first->halo && first->over == type->dim[d];
      if (dim->num && !slides) assert_int_equal(n, type->dim[d]);
    }
  }
  return msc_rule_print(msc_context_arena(ctx), &rule);
}

static const struct {
  const char *kind, *operands, *attrs, *rule;
  size_t num_out;
} cases[] = {
  {"iota", "", "type=f32", "->AB", 1},
  {"add", "4x8xf32 4x8xf32", "", "AB,AB->AB ; lin 0+1", 1},
  {"add", "4x8xf32 8xf32", "", "AB,B->AB ; lin 0+1", 1},
  {"sub", "4x1xf32 8xf32", "", "A.,B->AB ; lin 0+1", 1},
  {"mul", "xf32 4x8xf32", "", ",AB->AB ; lin 0|1", 1},
  {"div", "4x1xf32 4x1xf32", "", "A.,A.->A. ; lin 0", 1},
  {"max", "4xf32 4xf32", "", "A,A->A", 1},
  {"min", "4xf32 4xf32", "", "A,A->A", 1},
  {"pow", "4xf32 xf32", "", "A,->A", 1},
  {"compare", "4xf32 1xf32", "predicate=lt", "A,.->A", 1},
  {"select", "4xi1 2x4xf32 xf32", "", "B,AB,->AB ; lin 1+2", 1},
  {"neg", "2x3xf32", "", "AB->AB ; lin 0", 1},
  {"accumulate", "2x3xf32", "count=4", "AB->AB ; lin 0", 1},
  {"accumulate", "2x3xf32", "count=4 rows=true", "AB->(Ak)B ; k:rep ; lin 0", 1},
  {"put_rows", "8x3xf32 2x3xf32 i64", "", "(Ak)B,AB,->(Ak)B ; k:rep ; lin 0+1", 1},
  {"stage_send", "2x3xf32", "message=0 stage=1", "AB->", 0},
  {"exp", "2x3xf32", "", "AB->AB", 1},
  {"log", "3xf32", "", "A->A", 1},
  {"sqrt", "3xf32", "", "A->A", 1},
  {"rsqrt", "3xf32", "", "A->A", 1},
  {"tanh", "3xf32", "", "A->A", 1},
  {"erf", "3xf32", "", "A->A", 1},
  {"sin", "3xf32", "", "A->A", 1},
  {"cos", "3xf32", "", "A->A", 1},
  {"floor", "3xf32", "", "A->A", 1},
  {"ceil", "3xf32", "", "A->A", 1},
  {"round", "3xf32", "", "A->A", 1},
  {"sigmoid", "3xf32", "", "A->A", 1},
  {"relu", "2x3xf32", "", "AB->AB", 1},
  {"gelu", "3xf32", "form=erf", "A->A", 1},
  {"silu", "3xf32", "", "A->A", 1},
  {"abs", "3xf32", "", "A->A", 1},
  {"sign", "3xf32", "", "A->A", 1},
  {"cast", "2x3xbf16", "dtype=f32", "AB->AB ; lin 0", 1},
  {"cast", "2x3xf32", "dtype=bf16", "AB->AB", 1},
  {"cast", "2x3xi32", "dtype=f32", "AB->AB", 1},
  {"cast", "3xf64", "dtype=f32", "A->A", 1},
  {"broadcast_to", "3x1xf32", "shape=[2,3,4]", "B.->ABC ; lin 0", 1},
  {"reshape", "4x6xf32", "shape=[24]", "AB->(AB) ; lin 0", 1},
  {"reshape", "24xf32", "shape=[4,6]", "(AB)->AB ; lin 0", 1},
  {"reshape", "2x12x8xf32", "shape=[2,16,6]", "A(BC)D->A(BE)F ; C:rep D:rep E:rep F:rep ; lin 0", 1},
  {"reshape", "12x8xf32", "shape=[8,12]", "(AB)C->(AD)E ; B:rep C:rep D:rep E:rep ; lin 0", 1},
  {"reshape", "6x8xf32", "shape=[3,16]", "(AB)C->A(BC) ; lin 0", 1},
  {"reshape", "4x1x6xf32", "shape=[1,4,2,3,1]", "A.(BC)->.ABC. ; lin 0", 1},
  {"reshape", "4x768xf32", "shape=[4,12,64]", "A(BC)->ABC ; lin 0", 1},
  {"reshape", "0x3xf32", "shape=[3,0]", "..->.. ; lin 0", 1},
  {"reshape", "1x1xf32", "shape=[]", "..-> ; lin 0", 1},
  {"flatten", "2x3x4xf32", "", "ABC->A(BC) ; lin 0", 1},
  {"flatten", "2x3x4xf32", "axis=0", "ABC->(ABC) ; lin 0", 1},
  {"transpose", "2x3x4xf32", "perm=[2,0,1]", "ABC->CAB ; lin 0", 1},
  {"concat", "2x3xf32 2x5xf32 2x1xf32", "dim=1", "A.,A.,A.->A. ; lin 0+1+2", 1},
  {"split", "6x4xf32", "dim=0 sizes=[2,4]", ".B->.B,.B ; lin 0", 2},
  {"slice", "6x4xf32", "start=[0,1] limit=[6,3]", "A.->A. ; lin 0", 1},
  {"pad", "6x4xf32", "low=[0,1] high=[0,0]", "A.->A. ; lin 0", 1},
  {"pad", "6x4xf32", "low=[1,0] high=[0,0] value=1.0", ".B->.B", 1},
  {"gather", "10x4xf32 2x3xi32", "", "vd,AB->ABd ; v:sum ; lin 0", 1},
  {"gather", "5x10x4xf32 3xi32", "axis=1", "pvd,A->pAd ; v:sum ; lin 0", 1},
  {"gather", "10xf32 xi32", "", "v,-> ; v:sum ; lin 0", 1},
  {"scatter_add", "2x3xi32 2x3x4xf32", "rows=10", "AB,ABd->vd ; A:sum B:sum ; lin 1", 1},
  {"scatter_add", "3xi32 5x3x4xf32", "rows=10 axis=1", "A,pAd->pvd ; A:sum ; lin 1", 1},
  {"one_hot", "2x3xi32", "depth=10", "AB->ABc", 1},
  {"take_along", "2x10x4xf32 2x3x4xi32", "axis=1", "AvB,AkB->AkB ; v:sum ; lin 0", 1},
  {"add_along", "2x3xi32 2x3xf32", "rows=10", "Ak,Ak->Av ; k:sum ; lin 1", 1},
  {"gather_nd", "10x6x4xf32 5x2xi32", "", "vpd,A.->Ad ; v:sum p:rep ; lin 0", 1},
  {"scatter_nd_add", "5x2xi32 5x4xf32", "shape=[10,6,4]", "A.,Ad->vpd ; A:sum p:rep ; lin 1", 1},
  {"scatter_update", "2x10x4xf32 5xi32 2x5x4xf32", "axis=1", "pvd,A,pAd->pvd ; A:rep", 1},
  {"sort", "2x3x4xf32", "axis=0", "nAB->nAB,nAB ; n:rep", 2},
  {"topk", "2x3x4xf32", "k=2", "ABn->ABk,ABk ; n:rep k:rep", 2},
  {"unique", "8xf32", "", "n->n,n, ; n:rep", 3},
  {"cumsum", "2x3xf32", "", "At->At ; t:rep ; lin 0", 1},
  {"logcumsumexp", "2x3xf32", "", "At->At ; t:rep", 1},
  {"logcumsumexp", "2x3xf32", "axis=0", "tA->tA ; t:rep", 1},
  {"cumprod", "2x3xf32", "axis=0", "tA->tA ; t:rep", 1},
  {"cumprod_grad", "2x3xf32 2x3xf32", "", "At,At->At ; t:rep", 1},
  {"einsum", "2x3x4xf32 4x5xf32", "equation=bsd,df->bsf", "bsd,df->bsf ; d:sum ; lin 0|1", 1},
  {"einsum", "3x4x3xf32", "equation=aba->ba", "aba->ba ; a:rep ; lin 0", 1},
  {"grouped_matmul", "8x3xf32 8xi32 4x3x5xf32", "", "sk,s,gkn->sn ; k:sum g:rep ; lin 0|2", 1},
  {"grouped_matmul", "8x5xf32 8xi32 4x3x5xf32", "transpose_w=true", "sk,s,gnk->sn ; k:sum g:rep ; lin 0|2", 1},
  {"grouped_weight_grad", "8x3xf32 8xi32 8x5xf32", "groups=4", "sk,s,sn->gkn ; s:sum g:rep ; lin 0|2", 1},
  {"argmax", "2x3x4xf32", "axis=1", "AnB->AB ; n:expand", 1},
  {"argmin", "2x3xf32", "keep_dims=true", "An->A. ; n:expand", 1},
  {"dropout", "2x3xf32 i64 i64", "rate=0.5", "AB,,->AB ; lin 0", 1},
  {"matmul", "2x3xf32 3x4xf32", "", "mk,kn->mn ; k:sum ; lin 0|1", 1},
  {"matmul", "3x2xf32 4x3xf32", "transpose_a=true transpose_b=true", "km,nk->mn ; k:sum ; lin 0|1", 1},
  {"batch_matmul", "5x2x3xf32 5x3x4xf32", "", "Amk,Akn->Amn ; k:sum ; lin 0|1", 1},
  {"batch_matmul", "6x5x2x3xf32 5x4x3xf32", "transpose_b=true", "ABmk,Bnk->ABmn ; k:sum ; lin 0|1", 1},
  {"matmul_weight_grad", "5x2x3xf32 5x2x4xf32", "", "ABk,ABn->kn ; A:sum B:sum ; lin 0|1", 1},
  {"batch_matmul", "1x2x3xf32 5x3x4xf32", "", ".mk,Akn->Amn ; k:sum ; lin 0|1", 1},
  {"conv2d", "2x3x8x8xf32 4x3x3x3xf32", "padding=[1,1,1,1]", "nchw,oc..->nohw ; c:sum h:halo w:halo ; lin 0|1", 1},
  {"conv2d", "2x3x8x8xf32 4x3x3x3xf32", "", "nchw,oc..->nohw ; c:sum h:halo w:halo ; lin 0|1", 1},
  {"conv2d", "2x6x8x9xf32 4x3x3x3xf32", "stride=[2,3] padding=[1,0,1,0] groups=2",
   "n(gc)hw,(go)c..->n(go)hw ; c:sum h:halo w:halo ; lin 0|1", 1},
  {"conv2d", "2x4x8x7xf32 4x1x3x3xf32", "padding=[1,1,0,0] groups=4", "nghw,g...->nghw ; h:halo w:halo ; lin 0|1", 1},
  {"conv2d_transpose", "2x4x4x4xf32 4x3x3x3xf32", "size=[8,7] stride=[2,2] padding=[1,0,1,1]",
   "nohw,oc..->nchw ; o:sum h:halo w:halo ; lin 0|1", 1},
  {"conv2d_weight_grad", "2x3x8x8xf32 2x4x4x8xf32", "kernel=[3,3] stride=[2,1] padding=[1,0,1,1]",
   "nchw,nohw->oc.. ; n:sum h:sum h:halo w:sum w:halo ; lin 0|1", 1},
  {"resize", "2x3x8x8xf32", "size=[4,16]", "nc..->nc..", 1},
  {"max_pool", "2x3x8x8xf32", "kernel=[3,2] stride=[2,2] padding=[1,1,0,0]",
   "nchw->nchw ; h:halo w:halo", 1},
  {"max_pool_index", "2x3x8x7xf32", "kernel=[2,2] stride=[2,2]", "nchw->nchw ; h:halo w:halo", 1},
  {"max_pool_grad", "2x3x4x4xi32 2x3x4x4xf32", "kernel=[2,2] size=[8,8] stride=[2,2]",
   "nchw,nchw->nchw ; h:halo w:halo ; lin 1", 1},
  {"avg_pool", "2x3x8x8xf32", "kernel=[3,3] padding=[1,1,1,1]", "nchw->nchw ; h:halo w:halo ; lin 0", 1},
  {"avg_pool", "2x3x8x8xf32", "kernel=[3,3] padding=[1,1,1,1] count_include_pad=false", "nc..->nc.. ; lin 0", 1},
  {"avg_pool_grad", "2x3x4x4xf32", "kernel=[2,2] size=[8,8] stride=[2,2]",
   "nchw->nchw ; h:halo w:halo ; lin 0", 1},
  {"reduce_sum", "2x3x4xf32", "dims=[1]", "ABC->AC ; B:sum ; lin 0", 1},
  {"reduce_mean", "2x3xf32", "dims=[0,1]", "AB-> ; A:sum B:sum ; lin 0", 1},
  {"reduce_max", "2x3xf32", "dims=[0] keep_dims=true", "AB->.B ; A:max", 1},
  {"reduce_min", "2x3xf32", "dims=[1]", "AB->A ; B:min", 1},
  {"softmax", "2x3x4xf32", "", "ABc->ABc ; c:expand", 1},
  {"log_softmax", "2x3x4xf32", "axis=1", "AcB->AcB ; c:expand", 1},
  {"softmax_cross_entropy", "8x10xf32 8xi32", "", "Ac,A-> ; A:sum c:expand", 1},
  {"softmax_cross_entropy", "8x10xf32 8x10xf32", "reduction=sum", "Ac,Ac-> ; A:sum c:expand", 1},
  {"softmax_cross_entropy", "2x8x10xf32 2x8xi32", "reduction=none", "ABc,AB->AB ; c:expand", 1},
  {"softmax_cross_entropy", "10xf32 xi32", "", "c,-> ; c:expand", 1},
  {"softmax_cross_entropy_grad", "8x10xf32 8xi32 xf32", "", "Ac,A,->Ac ; c:expand", 1},
  {"softmax_cross_entropy_grad", "8x10xf32 8x10xf32 8xf32", "reduction=none", "Ac,Ac,A->Ac ; c:expand", 1},
  {"mean_absolute_error", "8x10xf32 8x10xf32", "", "AB,AB-> ; A:sum B:sum", 1},
  {"reduce_prod", "8x6xf32", "dims=[1]", "AB->A ; B:prod", 1},
  {"reduce_any", "8x6xi1", "dims=[1]", "AB->A ; B:max", 1},
  {"reduce_all", "8x6xi1", "dims=[0] keep_dims=true", "AB->.B ; A:min", 1},
  {"leaky_relu", "3xf32", "", "A->A", 1},
  {"elu", "3xf32", "", "A->A", 1},
  {"prelu", "2x3x4xf32 3xf32", "", "ABC,B->ABC", 1},
  {"prelu", "2x3xf32 1xf32", "", "AB,.->AB", 1},
  {"softplus", "3xf32", "", "A->A", 1},
  {"hard_sigmoid", "3xf32", "", "A->A", 1},
  {"hard_swish", "3xf32", "", "A->A", 1},
  {"mish", "3xf32", "", "A->A", 1},
  {"clamp", "3xf32", "low=0 high=1", "A->A", 1},
  {"softmax_cross_entropy", "2x3x4xf32 2x3xi32", "ignore_index=1", "ABc,AB-> ; A:expand B:expand c:expand", 1},
  {"softmax_cross_entropy", "2x3xf32 2xi32", "ignore_index=1 reduction=sum", "Ac,A-> ; A:sum c:expand", 1},
  {"uniform", "2x3xf32 xi64 xi64", "", "AB,,->AB", 1},
  {"atan2", "2x3xf32 3xf32", "", "AB,B->AB", 1},
  {"bitwise_and", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"tan", "3xf32", "", "A->A", 1},
  {"atan", "3xf32", "", "A->A", 1},
  {"asin", "3xf32", "", "A->A", 1},
  {"acos", "3xf32", "", "A->A", 1},
  {"cosh", "3xf32", "", "A->A", 1},
  {"sinh", "3xf32", "", "A->A", 1},
  {"expm1", "3xf32", "", "A->A", 1},
  {"log1p", "3xf32", "", "A->A", 1},
  {"exp2", "3xf32", "", "A->A", 1},
  {"log2", "3xf32", "", "A->A", 1},
  {"log10", "3xf32", "", "A->A", 1},
  {"asinh", "3xf32", "", "A->A", 1},
  {"acosh", "3xf32", "", "A->A", 1},
  {"atanh", "3xf32", "", "A->A", 1},
  {"erfc", "3xf32", "", "A->A", 1},
  {"erfcx", "3xf32", "", "A->A", 1},
  {"erfinv", "3xf32", "", "A->A", 1},
  {"lgamma", "3xf32", "", "A->A", 1},
  {"digamma", "3xf32", "", "A->A", 1},
  {"polygamma", "3xf32", "", "A->A", 1},
  {"i0", "3xf32", "", "A->A", 1},
  {"i0e", "3xf32", "", "A->A", 1},
  {"i1", "3xf32", "", "A->A", 1},
  {"i1e", "3xf32", "", "A->A", 1},
  {"hypot", "2x3xf32 3xf32", "", "AB,B->AB", 1},
  {"logaddexp", "2x3xf32 3xf32", "", "AB,B->AB", 1},
  {"trunc", "3xf32", "", "A->A", 1},
  {"is_nan", "3xf32", "", "A->A", 1},
  {"is_inf", "3xf32", "", "A->A", 1},
  {"bitwise_or", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"bitwise_xor", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"shift_left", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"shift_right", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"floor_div", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"fmod", "2x3xi32 3xi32", "", "AB,B->AB", 1},
  {"bitwise_not", "3xi32", "", "A->A", 1},
  {"stop_gradient", "2x3xf32", "", "AB->AB ; lin 0", 1},
  {"mod", "2x3xf32 3xf32", "", "AB,B->AB", 1},
  {"logical_and", "2x3xi1 3xi1", "", "AB,B->AB", 1},
  {"logical_or", "2x3xi1 2x1xi1", "", "AB,A.->AB", 1},
  {"logical_xor", "3xi1 3xi1", "", "A,A->A", 1},
  {"logical_not", "3xi1", "", "A->A", 1},
  {"is_finite", "3xf32", "", "A->A", 1},
  {"expand_dims", "2x3xf32", "axis=1", "AB->A.B ; lin 0", 1},
  {"squeeze", "2x1x3xf32", "dims=[1]", "A.B->AB ; lin 0", 1},
  {"tile", "2x3xf32", "repeats=[4,1]", "AB->(aA)B ; lin 0", 1},
  {"stack", "2x3xf32 2x3xf32", "axis=-1", "AB,AB->AB. ; lin 0+1", 1},
  {"reverse", "2x3xf32", "dims=[1]", "A.->A. ; lin 0", 1},
  {"roll", "2x3xf32", "dim=0 shift=1", ".B->.B ; lin 0", 1},
  {"mean_squared_error", "8x10xf32 8x10xf32", "", "AB,AB-> ; A:sum B:sum", 1},
  {"sigmoid_cross_entropy", "8x10xf32 8x10xf32", "reduction=none", "AB,AB->AB", 1},
  {"nll_loss", "8x10xf32 8xi32", "", "Ac,A-> ; A:sum c:expand", 1},
  {"layer_norm", "4x8x6xf32 6xf32 6xf32", "", "ABd,d,d->ABd ; d:expand", 1},
  {"layer_norm", "4x8x6xf32 8x6xf32", "axis=1", "Ade,de->Ade ; d:expand e:expand", 1},
  {"rms_norm", "4x8x6xf32", "", "ABd->ABd ; d:expand", 1},
  {"l2_normalize", "4x8xf32", "axis=0", "de->de ; d:expand e:expand", 1},
  {"group_norm", "2x6x4x4xf32 6xf32 6xf32", "groups=2", "n(gi)CD,(gi),(gi)->n(gi)CD ; i:expand C:expand D:expand", 1},
  {"batch_norm", "2x6x4xf32 6xf32 6xf32 6xf32 6xf32", "", "AcC,c,c,c,c->AcC,c,c ; A:expand C:expand", 3},
  {"glu", "3x8xf32", "", "A(hf)->Af ; h:rep", 1},
  {"rotary", "2x3x8xf32", "", "ABe->ABe ; e:rep", 1},
  {"attention", "2x3x4x8xf32 2x3x5x8xf32 2x3x5x6xf32", "", "bgse,bgte,bgtf->bgsf ; e:rep t:expand", 1},
  {"biased_conv2d", "2x8x8x8xbf16 6x4x3x3xbf16 1x6x1x1xbf16", "groups=2 stride=[2,2] padding=[1,1,1,1] relu=true",
   "n(gc)hw,(go)c..,.(go)..->n(go)hw ; g:expand c:expand h:expand h:halo w:expand w:halo", 1},
  {"flash_attention", "2x6x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16", "",
   "b(gm)se,bgte,bgtf->b(gm)sf,b(gm)s ; s:expand e:expand t:expand f:expand", 2},
  {"flash_attention_grad", "2x3x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16 2x3x4x6xbf16 2x3x4xf32 2x3x4x6xbf16", "",
   "bgse,bgte,bgtf,bgsf,bgs,bgsf->bgse,bgte,bgtf ; s:expand e:expand t:expand f:expand", 3},
  {"dropped_attention", "2x6x4x8xf32 2x3x5x8xf32 2x3x5x6xf32 2x6x4x5xf32", "",
   "b(gm)se,bgte,bgtf,b(gm)st->b(gm)sf ; e:rep t:expand", 1},
  {"dropped_attention", "2x6x4x8xf32 2x3x5x8xf32 2x3x5x6xf32 2x6x4x5xf32 2x1x4x5xi1", "",
   "b(gm)se,bgte,bgtf,b(gm)st,b.st->b(gm)sf ; e:rep t:expand", 1},
  {"flash_attention", "2x6x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16 2x6x4x5xbf16", "",
   "b(gm)se,bgte,bgtf,b(gm)st->b(gm)sf,b(gm)s ; s:expand e:expand t:expand f:expand", 2},
  {"flash_attention_grad", "2x3x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16 2x3x4x6xbf16 2x3x4xf32 2x3x4x6xbf16 2x3x4x5xbf16",
   "", "bgse,bgte,bgtf,bgsf,bgs,bgsf,bgst->bgse,bgte,bgtf ; s:expand e:expand t:expand f:expand", 3},
  {"flash_attention", "2x6x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16 2x1x1x5xi1", "masked=true",
   "b(gm)se,bgte,bgtf,b..t->b(gm)sf,b(gm)s ; s:expand e:expand t:expand f:expand", 2},
  {"flash_attention_grad", "2x3x4x8xbf16 2x3x5x8xbf16 2x3x5x6xbf16 2x3x4x6xbf16 2x3x4xf32 2x3x4x6xbf16 4x5xbf16",
   "masked=true", "bgse,bgte,bgtf,bgsf,bgs,bgsf,st->bgse,bgte,bgtf ; s:expand e:expand t:expand f:expand", 3},
  {"attention", "2x6x4x8xf32 2x3x5x8xf32 2x3x5x6xf32 2x6x1x5xi1", "",
   "b(gm)se,bgte,bgtf,b(gm).t->b(gm)sf ; e:rep t:expand", 1},
  {"vjp", "4x6xf32 6xf32 4x6xf32", "op=rms_norm of=[0] wrt=[0,1]", "Ad,d,Ad->Ad,d ; A:sum d:expand d:sum", 2},
  {"mean_absolute_error", "8x10xf32 8x10xf32", "reduction=none", "AB,AB->AB", 1},
  {"sgd", "4x3xf32 4x3xf32", "lr=0.1", "AB,AB->AB", 1},
  {"momentum", "4xf32 4xf32 4xf32", "lr=0.1 momentum=0.9", "A,A,A->A,A", 2},
  {"adagrad", "4xf32 4xf32 4xf32", "lr=0.1", "A,A,A->A,A", 2},
  {"lazy_momentum", "4xf32 4xf32 5xi32 5xi32 5xf32", "lr=0.1 momentum=0.9", "v,v,n,n,g->v,v ; n:rep g:rep", 2},
  {"rmsprop", "4xf32 4xf32 4xf32", "lr=0.1", "A,A,A->A,A", 2},
  {"rmsprop_momentum", "4xf32 4xf32 4xf32 4xf32", "lr=0.1 momentum=0.9", "A,A,A,A->A,A,A", 3},
  {"lazy_adagrad", "4xf32 4xf32 5xi32 5xi32 5xf32", "lr=0.1", "v,v,n,n,g->v,v ; n:rep g:rep", 2},
  {"lazy_sgd", "4x3xf32 5xi32 5xi32 5x3xf32", "lr=0.1", "vA,n,n,gA->vA ; n:rep g:rep", 1},
  {"lazy_adam", "4xf32 4xf32 4xf32 5xi64 5xi32 5xf32 f32", "lr=0.1", "v,v,v,n,n,g,->v,v,v ; n:rep g:rep", 3},
  {"adam", "4x3xf32 4x3xf32 4x3xf32 4x3xf32 f32", "lr=0.1", "AB,AB,AB,AB,->AB,AB,AB", 3},
  {"adamw", "4xf32 4xf32 4xf32 4xf32 f32", "lr=0.1", "A,A,A,A,->A,A,A", 3},
  {"lamb_moments", "4xf32 4xf32 4xf32 4xf32 f32", "", "A,A,A,A,->A,A,A", 3},
  {"lamb_apply", "4xf32 4xf32 f32", "lr=0.1", "A,A,->A", 1},
  {"assign", "4xf32 4xf32 i1", "", "A,A,->A", 1},
  {"fetch", "4xf32", "", "A->A ; lin 0", 1},
  {"stow", "4xf32 4xf32", "", "A,A->A", 1},
  {"stash", "4xf32", "home=cpu", "A->A ; lin 0", 1},
  {"all_reduce", "4x3xf32", "", "AB->AB", 1},
  {"all_gather", "4x3xf32", "", "AB->AB", 1},
  {"reduce_scatter", "4x3xf32", "", "AB->AB", 1},
  {"all_to_all", "4x3xf32", "", "AB->AB", 1},
  {"permute", "4x3xf32", "", "AB->AB", 1},
  {"exchange", "4x3xf32", "", "AB->AB", 1},
  {"shard", "4x3xf32", "", "AB->AB", 1},
  {"broadcast", "4x3xf32", "axes={d}", "AB->AB", 1},
  {"send", "4x3xf32", "axes={d} from=0 to=1", "AB->AB", 1},
  {"recv", "4x3xf32", "axes={d} from=0 to=1", "AB->AB", 1},
  {"return", "4x3xf32 2xf32", "", "..,.->", 0},
  {"yield", "2xf32", "", ".->", 0},
};

static msc_op *make_iota(void) {
  msc_attr attr = msc_named(ctx, "type", msc_type_attr(msc_type_of(ctx, MSC_F32, 2, (int64_t[]){2, 3}, NULL)));
  return msc_build_with(&builder, OP_iota, 0, NULL, 1, 1, &attr);
}

static void test_every_rule(void **state) {
  (void)state;
  bool seen[OP_COUNT] = {[OP_constant] = true, [OP_fused] = true, [OP_stage_recv] = true};
  assert_string_equal(rule_text(msc_build_scalar(&builder, MSC_F32, 1)->def), "->");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    msc_op *op = strcmp(cases[i].kind, "iota")
                     ? make(cases[i].kind, cases[i].operands, cases[i].attrs, cases[i].num_out)
                     : make_iota();
    if (strcmp(rule_text(op), cases[i].rule))
      fail_msg("%s(%s) %s: %s, not %s", cases[i].kind, cases[i].operands, cases[i].attrs, rule_text(op), cases[i].rule);
    seen[op->kind] = true;
  }
  for (unsigned k = 0; k < OP_COUNT; k++)
    if (!seen[k] && *msc_op_info_of(ctx, (msc_op_kind)k)->rule) fail_msg("no case for %s", msc_kind_name(k));
}

/* ---- assignments ---- */

static void set_mesh(const char *text) { assert_true(msc_mesh_parse(ctx, NULL, text, &module->mesh)); }

typedef struct {
  msc_rule rule;
  msc_atoms atoms;
  msc_assignment a;
} strategy;

/* "m=ab k=c": atoms a, b, c ... in mesh order; "+c" passes atom c. */
static strategy strategy_of(const msc_op *op, const char *text) {
  strategy s;
  memset(&s, 0, sizeof s);
  assert_true(msc_rule_of(op, msc_context_arena(ctx), &s.rule));
  assert_true(msc_atoms_of(&module->mesh, 0, NULL, &s.atoms));
  for (const char *p = text; *p;) {
    if (*p == ' ') { p++; continue; }
    if (*p == '+') {
      s.a.pass |= 1u << (p[1] - 'a');
      p += 2;
      continue;
    }
    int l = 0;
    while (s.rule.letter[l].name != *p) l++;
    for (p += 2; *p && *p != ' '; p++) s.a.atom[l][s.a.num[l]++] = (uint8_t)(*p - 'a');
  }
  return s;
}

static void expect_layouts(const msc_op *op, const char *text, const char *const *want) {
  strategy s = strategy_of(op, text);
  assert_true(msc_rule_allows(&s.rule, &s.a, &s.atoms));
  for (size_t t = 0; t < s.rule.num_tensors; t++)
    assert_string_equal(msc_layout_print(msc_context_arena(ctx), &module->mesh,
                                         msc_rule_layout(ctx, &module->mesh, &s.atoms, &s.rule, &s.a, t)),
                        want[t]);
}

static void expect_illegal(const msc_op *op, const char *text) {
  strategy s = strategy_of(op, text);
  assert_false(msc_rule_allows(&s.rule, &s.a, &s.atoms));
}

static void test_layouts_of_assignments(void **state) {
  (void)state;
  set_mesh("x=4,y=2"); /* atoms a, b of x and c of y */
  msc_op *mm = make("matmul", "8x16xf32 16x4xf32", "", 1);
  expect_layouts(mm, "m=ab n=c", (const char *[]){"[{x},{}]", "[{},{y}]", "[{x},{y}]"});
  expect_layouts(mm, "m=ca k=b",
                 (const char *[]){"[{y,x:(1)2},{x:(2)2}]", "[{x:(2)2},{}]", "[{y,x:(1)2},{}] partial={x:(2)2}"});
  expect_layouts(mm, "n=a +c", (const char *[]){"[{},{}] partial={y}", "[{},{x:(1)2}]", "[{},{x:(1)2}] partial={y}"});
  expect_layouts(mm, "k=a +c",
                 (const char *[]){"[{},{x:(1)2}] partial={y}", "[{x:(1)2},{}]", "[{},{}] partial={x:(1)2,y}"});
  strategy s = strategy_of(mm, "+c");
  s.a.pass_in = 1;
  assert_string_equal(msc_layout_print(msc_context_arena(ctx), &module->mesh,
                                       msc_rule_layout(ctx, &module->mesh, &s.atoms, &s.rule, &s.a, 1)),
                      "[{},{}] partial={y}");
  msc_op *add = make("add", "8x4xf32 4xf32", "", 1);
  expect_layouts(add, "A=ab +c", (const char *[]){"[{x},{}] partial={y}", "[{}] partial={y}", "[{x},{}] partial={y}"});
  msc_op *max = make("reduce_max", "8x4xf32", "dims=[1]", 1);
  expect_layouts(max, "A=c B=ab", (const char *[]){"[{y},{x}]", "[{y}] partial_max={x}"});
  msc_op *flat = make("reshape", "4x6xf32", "shape=[24]", 1);
  expect_layouts(flat, "A=ab B=c", (const char *[]){"[{x},{y}]", "[{x,y}]"});
}

/* Parts need not be equal where a dimension is one letter. */
static void test_uneven_assignments(void **state) {
  (void)state;
  set_mesh("x=4,y=2,z=3");
  msc_op *mm = make("matmul", "8x6xf32 6x4xf32", "", 1);
  expect_layouts(mm, "m=d", (const char *[]){"[{z},{}]", "[{},{}]", "[{z},{}]"});
  expect_layouts(mm, "k=ab n=d", (const char *[]){"[{},{x}]", "[{x},{z}]", "[{},{z}] partial={x}"});
  expect_layouts(make("softmax", "5x6xf32", "", 1), "A=d", (const char *[]){"[{z},{}]", "[{z},{}]"});
}

static void test_illegal_assignments(void **state) {
  (void)state;
  set_mesh("x=4,y=2,z=3");
  msc_op *mm = make("matmul", "8x6xf32 6x4xf32", "", 1);
  expect_illegal(mm, "k=abd");     /* 12 parts of 6 */
  expect_illegal(mm, "m=a k=a");   /* twice */
  expect_illegal(mm, "m=aa");
  expect_illegal(mm, "m=a +a");
  expect_illegal(make("relu", "8xf32", "", 1), "+a");
  expect_illegal(make("reshape", "12x8xf32", "shape=[16,6]", 1), "C=a"); /* no common factor */
  expect_illegal(make("reshape", "4x6xf32", "shape=[24]", 1), "A=a B=c"); /* A is not cut down to single ones */
  expect_illegal(make("reshape", "4x6xf32", "shape=[24]", 1), "A=d"); /* merged, so 3 must divide 4 */
  expect_illegal(make("reshape", "4x6xf32", "shape=[24]", 1), "A=ab B=ac");
  expect_illegal(make("reshape", "12x8xf32", "shape=[16,6]", 1), "B=d");
  expect_illegal(make("cast", "0xbf16", "dtype=f32", 1), "A=a");
}

/* ---- the check ---- */

static void set_layout(msc_value *v, const char *text) {
  const msc_layout *l;
  assert_true(msc_layout_parse(ctx, &module->mesh, NULL, text, &l));
  v->type = msc_type_with_layout(ctx, v->type, l);
}

/* Layouts of operands, then results, separated by ';'. */
static msc_op *laid_out(msc_op *op, const char *layouts) {
  char copy[400], *save = NULL;
  size_t i = 0;
  snprintf(copy, sizeof copy, "%s", layouts);
  for (char *w = strtok_r(copy, ";", &save); w; w = strtok_r(NULL, ";", &save), i++)
    set_layout(i < op->num_in ? op->in[i].value : &op->out[i - op->num_in], w);
  return op;
}

static void expect_fits(msc_op *op, const char *layouts) {
  if (!msc_rule_check(laid_out(op, layouts), msc_context_arena(ctx))) fail_msg("%s: %s", layouts, msc_diags(ctx)->text);
}

static void expect_misfit(msc_op *op, const char *layouts, const char *error) {
  assert_false(msc_rule_check(laid_out(op, layouts), msc_context_arena(ctx)));
  assert_string_equal(msc_diags(ctx)->text, error);
  assert_int_equal(msc_diags(ctx)->code, MSC_E_SHARDING);
  assert_null(msc_diags(ctx)->next);
  msc_clear_diags(ctx);
}

static void test_check(void **state) {
  (void)state;
  set_mesh("x=4,y=2");
  msc_op *mm = make("matmul", "8x16xf32 16x4xf32", "", 1);
  expect_fits(mm, "[{x},{}];[{},{y}];[{x},{y}]");
  expect_fits(mm, "[{},{x}];[{x},{}];[{},{}] partial={x}");
  expect_fits(mm, "[{},{}] partial={x};[{},{}] partial={y};[{},{}] partial={x,y}");
  expect_misfit(mm, "[{},{x}];[{},{}];[{},{}]",
                "matmul: dimension 1 of operand 'a' [{},{x}] is cut by {x} and dimension 0 of operand 'b' [{},{}] by "
                "{}; both are k of mk,kn->mn ; k:sum ; lin 0|1");
  expect_misfit(
      mm, "[{},{x}];[{x},{}];[{},{}]",
      "matmul: the result [{},{}] must be [{},{}] partial={x}: that is what the operands' layouts make of it");
  expect_misfit(
      mm, "[{x},{}];[{},{}];[{x},{}] partial={y}",
      "matmul: the result [{x},{}] partial={y} must be [{x},{}]: that is what the operands' layouts make of it");
  expect_misfit(mm, "[{x},{}];[{},{x}];[{x},{}]",
                "matmul: dimension 1 of operand 'b' [{},{x}] is cut by {x} and dimension 1 of the result [{x},{}] by "
                "{}; both are n of mk,kn->mn ; k:sum ; lin 0|1");
  expect_misfit(make("gather", "8x4xf32 16xi32", "", 1), "[{x},{}];[{x}];[{x},{}]",
                "gather: axis 'x' cuts dimension 0 of operand 'indices' [{x}] and dimension 0 of operand 'table' "
                "[{x},{}], which are different letters of vd,A->Ad ; v:sum ; lin 0");
  expect_misfit(make("split", "6x4xf32", "dim=0 sizes=[2,4]", 2), "[{},{x}];[{},{x}];[{},{}]",
                "split: dimension 1 of operand 'x' [{},{x}] is cut by {x} and dimension 1 of result 1 [{},{}] by {}; "
                "both are B of .B->.B,.B ; lin 0");
  expect_misfit(make("concat", "6x4xf32 6x2xf32", "dim=1", 1), "[{y},{}];[{},{}];[{y},{}]",
                "concat: dimension 0 of operand 0 [{y},{}] is cut by {y} and dimension 0 of operand 1 [{},{}] by {}; "
                "both are A of A.,A.->A. ; lin 0+1");
}

static void test_check_of_partials(void **state) {
  (void)state;
  set_mesh("x=4,y=2");
  expect_misfit(make("relu", "8xf32", "", 1), "[{}] partial={x};[{}] partial={x}",
                "relu: operand 'x' [{}] partial={x} is partial, and relu is not linear in it: reduce it first");
  msc_op *div = make("div", "8xf32 8xf32", "", 1);
  expect_fits(div, "[{y}] partial={x};[{y}];[{y}] partial={x}");
  expect_misfit(div, "[{y}];[{y}] partial={x};[{y}] partial={x}",
                "div: operand 'b' [{y}] partial={x} is partial, and div is not linear in it: reduce it first");
  msc_op *mul = make("mul", "8xf32 8xf32", "", 1);
  expect_misfit(mul, "[{}] partial={x};[{}] partial={x:(1)2};[{}] partial={x}",
                "mul: operand 'a' [{}] partial={x} and operand 'b' [{}] partial={x:(1)2} are partial over the same "
                "axes; their product would count terms that do not belong together");
  expect_misfit(mul, "[{}] partial_max={x};[{}];[{}] partial_max={x}",
                "mul: operand 'a' [{}] partial_max={x} is partial, and mul is not linear in it: reduce it first");
  msc_op *add = make("add", "8x4xf32 4xf32", "", 1);
  expect_fits(add, "[{y},{}] partial={x};[{}] partial={x};[{y},{}] partial={x}");
  expect_misfit(add, "[{y},{}] partial={x};[{}];[{y},{}] partial={x}",
                "add: operand 'a' [{y},{}] partial={x} and operand 'b' [{}] must be partial over the same axes");
  msc_op *mm = make("matmul", "8x16xf32 16x4xf32", "", 1);
  expect_misfit(
      mm, "[{},{}] partial={x};[{},{x}];[{},{x}]",
      "matmul: operand 'a' [{},{}] partial={x} is partial over digits that cut dimension 1 of operand 'b' [{},{x}]");
  expect_fits(make("reduce_max", "8x4xf32", "dims=[0]", 1), "[{x},{y}];[{y}] partial_max={x}");
  expect_misfit(make("reduce_max", "8x4xf32", "dims=[0]", 1), "[{x},{y}];[{y}] partial={x}",
                "reduce_max: the result [{y}] partial={x} must be [{y}] partial_max={x}: that is what the operands' "
                "layouts make of it");
}

static void test_check_of_whole_and_compound_dims(void **state) {
  (void)state;
  set_mesh("x=4,y=2,z=3");
  expect_misfit(make("reshape", "12x8xf32", "shape=[8,12]", 1), "[{},{y}];[{},{}]",
                "reshape: dimension 1 of operand 'x' [{},{y}] must be whole: C may not be cut in (AB)C->(AD)E ; B:rep "
                "C:rep D:rep E:rep ; lin 0");
  expect_misfit(make("slice", "8x4xf32", "start=[0,0] limit=[8,2]", 1), "[{},{y}];[{},{y}]",
                "slice: dimension 1 of operand 'x' [{},{y}] must be whole: it may not be cut in A.->A. ; lin 0");
  msc_op *flat = make("reshape", "4x6xf32", "shape=[24]", 1);
  expect_fits(flat, "[{x},{y}];[{x,y}]");
  expect_fits(flat, "[{y,x:(1)2},{x:(2)2}];[{y,x}]");
  expect_fits(flat, "[{x:(1)2},{}];[{x:(1)2}]");
  expect_misfit(flat, "[{y},{}];[{x}]",
                "reshape: dimension 0 of operand 'x' [{y},{}] is cut by {y} and dimension 0 of the result [{x}] by "
                "{x}; both are A of AB->(AB) ; lin 0");
  expect_misfit(flat, "[{},{}];[{z}]",
                "reshape: dimension 0 of the result [{z}] cannot be cut by {z}: the parts do not divide its factor A "
                "of 4 in AB->(AB) ; lin 0");
  expect_misfit(flat, "[{x},{}];[{x,y}]",
                "reshape: dimension 1 of operand 'x' [{x},{}] is cut by {} and dimension 0 of the result [{x,y}] by "
                "{y}; both are B of AB->(AB) ; lin 0");
  msc_op *uneven = make("neg", "7xf32", "", 1);
  expect_fits(uneven, "[{x}];[{x}]");
  msc_op *none = make("neg", "7xf32", "", 1);
  assert_true(msc_rule_check(none, msc_context_arena(ctx)));
  expect_misfit(none, "[{x}]", "neg: some operands or results have a layout and others none");
  assert_true(msc_rule_check(laid_out(make("return", "8xf32 4xf32", "", 0), "[{x}];[{y}]"), msc_context_arena(ctx)));
}

static const struct {
  const char *verb, *from, *to, *why; /* NULL: fits */
} changes[] = {
  {"shard", "[{},{}]", "[{y},{x}]", NULL},
  {"shard", "[{y},{}]", "[{y,x:(1)2},{}]", NULL},
  {"shard", "[{},{}]", "[{},{}] partial={y}", NULL},
  {"shard", "[{y},{}]", "[{x,y},{}]", "axes may only join at the minor end of a dimension"},
  {"shard", "[{},{}] partial={x}", "[{x},{}]", "it cannot reduce a partial value"},
  {"all_gather", "[{x},{y}]", "[{},{}]", NULL},
  {"all_gather", "[{x},{y}]", "[{x:(1)2},{y}]", NULL},
  {"all_gather", "[{x,y},{}]", "[{y},{}]", "axes may only leave at the minor end of a dimension"},
  {"all_gather", "[{y},{}] partial={x}", "[{},{}]", "partial axes must stay"},
  {"all_to_all", "[{x},{y}]", "[{x,y},{}]", NULL},
  {"all_to_all", "[{x},{}]", "[{x:(1)2},{x:(2)2}]", NULL},
  {"all_to_all", "[{x},{y}]", "[{y},{x}]", "axes may only leave or join at the minor end of a dimension"},
  {"all_to_all", "[{x},{y}]", "[{},{x}]", "the axes that leave dimensions must be those that join others"},
  {"all_to_all", "[{x},{}] partial={y}", "[{},{x}]", "partial axes must stay"},
  {"reduce_scatter", "[{},{}] partial={x,y}", "[{x},{}] partial={y}", NULL},
  {"reduce_scatter", "[{},{}] partial={x,y}", "[{x},{}]",
   "the axes that join dimensions must be those that are no longer partial"},
  {"reduce_scatter", "[{},{}] partial={x}", "[{y},{}]", "the axes that join a dimension must have been partial"},
  {"reduce_scatter", "[{x},{}] partial={y}", "[{y,x},{}]", "axes may only join at the minor end of a dimension"},
  {"all_reduce", "[{y},{}] partial={x}", "[{y},{}]", NULL},
  {"all_reduce", "[{y},{}] partial={x}", "[{y},{}] partial={x:(2)2}", NULL},
  {"all_reduce", "[{y},{}] partial={x}", "[{},{}]", "no dimension may change"},
  {"all_reduce", "[{},{}] partial={x}", "[{},{}] partial={y}", "it cannot make a value partial"},
  {"all_reduce", "[{},{}] partial={x}", "[{},{}] partial_max={x:(1)2}", "the reduction of a partial value must stay"},
  {"permute", "[{x},{y}]", "[{y,x:(1)2},{x:(2)2}]", NULL},
  {"permute", "[{y},{}] partial={x:(1)2}", "[{x:(2)2},{}] partial={y}", NULL},
  {"permute", "[{x},{y}]", "[{y},{x}]", "the number of parts of every dimension must stay"},
  {"permute", "[{x},{}] partial={y}", "[{x},{}]", "the number of partial terms must stay"},
  {"exchange", "[{x},{y}] ", "[{y},{x}]", NULL},
  {"exchange", "[{},{}] partial={x}", "[{y},{x:(1)2}]", NULL},
  {"exchange", "[{x},{}]", "[{},{}] partial={y}", "it cannot make a value partial"},
  {"exchange", "[{x},{}]", "[{x},{}]", "nothing changes"},
  {"exchange", "[{z:(1)2},{}]", "[{z:(1)3},{}]", "the layouts cut an axis at places that do not divide each other"},
};

static void test_check_of_collectives(void **state) {
  (void)state;
  set_mesh("x=4,y=2,z=6");
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    msc_op *op = make(changes[i].verb, "8x8xf32", "", 1);
    const char *both = msc_arena_printf(msc_context_arena(ctx), "%s;%s", changes[i].from, changes[i].to);
    if (!changes[i].why) expect_fits(op, both);
    else assert_false(msc_rule_check(laid_out(op, both), msc_context_arena(ctx)));
    if (changes[i].why && !strstr(msc_diags(ctx)->text, changes[i].why))
      fail_msg("%s %s: %s", changes[i].verb, both, msc_diags(ctx)->text);
    msc_clear_diags(ctx);
  }
  expect_misfit(make("all_gather", "8xf32", "", 1), "[{x,y}];[{y}]",
                "all_gather: cannot make the result [{y}] from operand 'x' [{x,y}]: axes may only leave at the minor "
                "end of a dimension");
  expect_misfit(make("all_reduce", "8xf32", "", 1), "[{}] partial_max={x};[{}]",
                "all_reduce: reduces by sum, but operand 'x' [{}] partial_max={x} is a partial max");
  expect_fits(make("all_reduce", "8xf32", "reduction=max", 1), "[{}] partial_max={x};[{}]");
  expect_misfit(make("permute", "9xf32", "", 1), "[{x,y}];[{y,x}]",
                "permute: cannot make the result [{y,x}] from operand 'x' [{x,y}]: its blocks must be equal, and a "
                "size does not divide");
  expect_fits(make("shard", "10xf32", "", 1), "[{}];[{x}]");
  expect_fits(make("shard", "10xf32", "", 1), "[{x}];[{x,y}]");
  expect_fits(make("shard", "12xf32", "", 1), "[{x:(1)2}];[{x,y}]");
  expect_misfit(make("shard", "10xf32", "", 1), "[{x:(1)2}];[{x}]",
                "shard: cannot make the result [{x}] from operand 'x' [{x:(1)2}]: the parts do not nest, because a "
                "size does not divide");
  expect_misfit(make("all_gather", "10xf32", "", 1), "[{x}];[{x:(1)2}]",
                "all_gather: cannot make the result [{x:(1)2}] from operand 'x' [{x}]: the parts do not nest, because "
                "a size does not divide");
  expect_misfit(make("all_to_all", "9x8xf32", "", 1), "[{x},{}];[{},{x}]",
                "all_to_all: cannot make the result [{},{x}] from operand 'x' [{x},{}]: its pieces must be equal, and "
                "a size does not divide");
}

static bool is_within(const msc_type *t, const msc_layout *inner, const msc_layout *outer) {
  for (int64_t r = 0; r < msc_mesh_size(&module->mesh); r++) {
    int64_t a, num_a, b, num_b;
    msc_layout_box(&module->mesh, t, inner, r, &a, &num_a);
    msc_layout_box(&module->mesh, t, outer, r, &b, &num_b);
    if (num_a && (a < b || a + num_a > b + num_b)) return false;
  }
  return true;
}

/* What a rank may cut out of its part alone is within its part, whatever the size of the dimension. */
static void test_parts_that_nest(void **state) {
  static const char *const text[] = {
    "[{}]",    "[{x:(1)2}]", "[{x}]",        "[{x,y}]",     "[{x:(1)2,y}]", "[{x,z:(1)2}]",
    "[{x,z}]", "[{y}]",      "[{y,x:(1)2}]", "[{y,x}]",     "[{y,z:(1)3}]", "[{y,z}]",
    "[{z}]",   "[{z:(1)2}]", "[{z:(1)3}]",   "[{z:(1)2,x}]", "[{z,x:(1)2}]", "[{z,x}]"};
  enum { NUM = sizeof text / sizeof *text };
  const msc_layout *l[NUM];
  int cut = 0, refused = 0;
  (void)state;
  set_mesh("x=4,y=2,z=6");
  for (int i = 0; i < NUM; i++) assert_true(msc_layout_parse(ctx, &module->mesh, NULL, text[i], &l[i]));
  for (int64_t size = 1; size <= 50; size++) {
    const msc_type *t = msc_type_of(ctx, MSC_F32, 1, &size, NULL);
    for (int i = 0; i < NUM; i++)
      for (int k = 0; k < NUM; k++) {
        const char *why = msc_relayout_wrong(&module->mesh, t, MSC_SHARD, l[i], l[k]);
        if (!why && !is_within(t, l[k], l[i])) fail_msg("%s of %s, size %d", text[k], text[i], (int)size);
        bool nests = why && strstr(why, "nest") && is_within(t, l[k], l[i]);
        cut += !why, refused += nests && size > 24;
      }
  }
  assert_true(cut > 1000);
  printf("%d are cut; %d are not, though they nest\n", cut, refused);
}

/* The operations and bytes of ops of which one letter is cut. */
static void test_work_of_cut_letters(void **state) {
  (void)state;
  static const struct {
    msc_op_kind kind;
    const char *in, *attrs;
    char cut;
    int64_t parts;
    double flops, bytes;
  } works[] = {
    {OP_matmul, "6x8xf32 8x4xf32", "", 0, 1, 2 * 6 * 8 * 4, 4 * (48 + 32 + 24)},
    {OP_matmul, "6x8xf32 8x4xf32", "", 'k', 2, 2 * 6 * 4 * 4, 4 * (24 + 16 + 24)},
    {OP_matmul, "6x8xf32 8x4xf32", "", 'm', 4, 2 * 2 * 8 * 4, 4 * (16 + 32 + 8)}, /* the largest part has two rows */
    {OP_conv2d, "2x4x8x8xf32 6x4x3x3xf32", "", 0, 1, 2.0 * 2 * 6 * 36 * 4 * 9, 4 * (512 + 216 + 432)},
    {OP_conv2d, "2x4x8x8xf32 6x4x3x3xf32", "", 'n', 2, 2.0 * 6 * 36 * 4 * 9, 4 * (256 + 216 + 216)},
    {OP_add, "6x8xf32 8xf32", "", 0, 1, 0, 4 * (48 + 8 + 48)},
  };
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
    msc_value *in[4];
    msc_attr attr[4];
    msc_rule rule;
    int64_t parts[MSC_MAX_LETTERS], size[MSC_MAX_LETTERS];
    int num = values_of(works[i].in, in);
    size_t attrs = attrs_of(works[i].attrs, attr);
    const msc_op *op = msc_build_with(&builder, works[i].kind, (size_t)num, in, 1, attrs, attr);
    assert_true(op && msc_rule_of(op, msc_context_arena(ctx), &rule));
    for (int l = 0; l < rule.num_letters; l++) parts[l] = rule.letter[l].name == works[i].cut ? works[i].parts : 1;
    msc_rule_sizes(&rule, parts, size);
    msc_op_work w = msc_rule_work(op, &rule, size);
    if (w.flops != works[i].flops || w.bytes != works[i].bytes)
      fail_msg("case %d (%s): %g operations, %g bytes", (int)i, msc_rule_print(msc_context_arena(ctx), &rule), w.flops,
               w.bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_every_rule, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_layouts_of_assignments, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_uneven_assignments, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_illegal_assignments, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_check, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_check_of_partials, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_check_of_whole_and_compound_dims, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_check_of_collectives, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_work_of_cut_letters, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_parts_that_nest, open_context, close_context),
  };
  return cmocka_run_group_tests_name("ir/rule", tests, NULL, NULL);
}
