/* convolution.c: describes a convolution or one of its gradients to cuDNN as one operation, followed by a bias and a
 * relu if the convolution has them. */
#include "runtime/cuda/cudnn.h"

/* For each kind: the operands of the call that are x, w and y of the convolution, and the names of cuDNN's
 * attributes. */
static const struct {
  uint32_t x, w, y;
  unsigned operation, x_name, w_name, y_name, windows_name, alpha, beta;
} kinds[] = {
#define KIND(name, of) MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##name
  [PLAN_GRAPH_KIND_CONV] = {0, 1, 2, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, KIND(X, FORWARD),
      KIND(W, FORWARD), KIND(Y, FORWARD), KIND(CONV_DESC, FORWARD), KIND(ALPHA, FORWARD), KIND(BETA, FORWARD)},
  [PLAN_GRAPH_KIND_BIASED_CONV] = {0, 1, 3, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, KIND(X,
      FORWARD), KIND(W, FORWARD), KIND(Y, FORWARD), KIND(CONV_DESC, FORWARD), KIND(ALPHA, FORWARD), KIND(BETA,
      FORWARD)},
  [PLAN_GRAPH_KIND_CONV_DATA] = {2, 1, 0, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, KIND(DX,
      BWD_DATA), KIND(W, BWD_DATA), KIND(DY, BWD_DATA), KIND(CONV_DESC, BWD_DATA), KIND(ALPHA, BWD_DATA), KIND(BETA,
      BWD_DATA)},
  [PLAN_GRAPH_KIND_CONV_WEIGHT] = {0, 2, 1, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      KIND(X, BWD_FILTER), KIND(DW, BWD_FILTER), KIND(DY, BWD_FILTER), KIND(CONV_DESC, BWD_FILTER), KIND(ALPHA,
      BWD_FILTER), KIND(BETA, BWD_FILTER)},
#undef KIND
};

enum { F32 = MSCRT_CUDNN_DATA_FLOAT, BIAS = 2 };

/* Adds the bias, and relu, to the sums of the convolution before they are stored. */
static void add_bias_and_relu(mscrt_dnn_builder *b, dnn_descriptor sums, dnn_descriptor y) {
  const int64_t *dim = b->g->operand[kinds[b->g->kind].y].dim;
  dnn_descriptor with_bias = b->g->relu ? mscrt_dnn_virtual(b, F32, dim, false) : y;
  mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_ADD, F32, sums, mscrt_dnn_operand(b, BIAS), NULL, with_bias);
  if (b->g->relu) mscrt_dnn_pointwise(b, MSCRT_CUDNN_POINTWISE_RELU_FWD, F32, with_bias, NULL, NULL, y);
}

/* Describes the windows; sums are computed in f32. */
static dnn_descriptor describe_windows(mscrt_dnn_builder *b) {
  const mscrt_graph *g = b->g;
  int64_t dimensions = 2;
  unsigned f32 = MSCRT_CUDNN_DATA_FLOAT, mode = MSCRT_CUDNN_CROSS_CORRELATION;
  dnn_descriptor c = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, MSCRT_CUDNN_TYPE_DATA_TYPE, 1, &f32);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_CONV_MODE, MSCRT_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, MSCRT_CUDNN_TYPE_INT64, 1, &dimensions);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, MSCRT_CUDNN_TYPE_INT64, 2, g->padding);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, MSCRT_CUDNN_TYPE_INT64, 2, g->padding);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_DILATIONS, MSCRT_CUDNN_TYPE_INT64, 2, g->dilation);
  mscrt_dnn_set(b, c, MSCRT_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, MSCRT_CUDNN_TYPE_INT64, 2, g->step);
  return mscrt_dnn_finalize(b, c);
}

void mscrt_dnn_convolution(mscrt_dnn_builder *b) {
  const int k = b->g->kind;
  float one = 1, zero = 0;
  dnn_descriptor x = mscrt_dnn_operand(b, kinds[k].x), w = mscrt_dnn_operand(b, kinds[k].w),
                 y = mscrt_dnn_operand(b, kinds[k].y), seen = describe_windows(b);
  dnn_descriptor sums =
      k == PLAN_GRAPH_KIND_BIASED_CONV ? mscrt_dnn_virtual(b, F32, b->g->operand[kinds[k].y].dim, false) : y;
  dnn_descriptor o = mscrt_dnn_new(b, kinds[k].operation);
  mscrt_dnn_link(b, o, kinds[k].x_name, x);
  mscrt_dnn_link(b, o, kinds[k].w_name, w);
  mscrt_dnn_link(b, o, kinds[k].y_name, sums);
  mscrt_dnn_link(b, o, kinds[k].windows_name, seen);
  mscrt_dnn_set(b, o, kinds[k].alpha, MSCRT_CUDNN_TYPE_FLOAT, 1, &one);
  mscrt_dnn_set(b, o, kinds[k].beta, MSCRT_CUDNN_TYPE_FLOAT, 1, &zero);
  mscrt_dnn_add(b, o);
  if (sums != y) add_bias_and_relu(b, sums, y);
}
