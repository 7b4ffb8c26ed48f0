/* cuda_convolution.c: a convolution or one of its gradients as cuDNN's one operation. */
#include "runtime/cuda_dnn.h"

/* Operands of the call that are x, w and y of the convolution, and how the library names each kind. */
static const struct {
  uint32_t x, w, y;
  unsigned operation, x_name, w_name, y_name, windows_name, alpha, beta;
} kinds[] = {
#define KIND(name, of) MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##name
  [PLAN_GRAPH_KIND_CONV] = {0, 1, 2, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, KIND(X, FORWARD), KIND(W, FORWARD), KIND(Y, FORWARD), KIND(CONV_DESC, FORWARD), KIND(ALPHA, FORWARD), KIND(BETA, FORWARD)},
  [PLAN_GRAPH_KIND_CONV_DATA] = {2, 1, 0, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, KIND(DX, BWD_DATA), KIND(W, BWD_DATA), KIND(DY, BWD_DATA), KIND(CONV_DESC, BWD_DATA), KIND(ALPHA, BWD_DATA), KIND(BETA, BWD_DATA)},
  [PLAN_GRAPH_KIND_CONV_WEIGHT] = {0, 2, 1, MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, KIND(X, BWD_FILTER), KIND(DW, BWD_FILTER), KIND(DY, BWD_FILTER), KIND(CONV_DESC, BWD_FILTER), KIND(ALPHA, BWD_FILTER), KIND(BETA, BWD_FILTER)},
#undef KIND
};

/* How its windows lie; sums are made in f32. */
static dnn_descriptor windows(mscrt_dnn_builder *b) {
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
  return mscrt_dnn_done(b, c);
}

void mscrt_dnn_convolution(mscrt_dnn_builder *b) {
  const int k = b->g->kind;
  float one = 1, zero = 0;
  dnn_descriptor x = mscrt_dnn_operand(b, kinds[k].x), w = mscrt_dnn_operand(b, kinds[k].w), y = mscrt_dnn_operand(b, kinds[k].y), seen = windows(b);
  dnn_descriptor o = mscrt_dnn_new(b, kinds[k].operation);
  mscrt_dnn_link(b, o, kinds[k].x_name, x);
  mscrt_dnn_link(b, o, kinds[k].w_name, w);
  mscrt_dnn_link(b, o, kinds[k].y_name, y);
  mscrt_dnn_link(b, o, kinds[k].windows_name, seen);
  mscrt_dnn_set(b, o, kinds[k].alpha, MSCRT_CUDNN_TYPE_FLOAT, 1, &one);
  mscrt_dnn_set(b, o, kinds[k].beta, MSCRT_CUDNN_TYPE_FLOAT, 1, &zero);
  mscrt_dnn_add(b, o);
}
