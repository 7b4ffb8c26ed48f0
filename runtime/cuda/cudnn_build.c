/* cudnn_build.c: builds cuDNN's descriptors of tensors and operations. */
#include "runtime/cuda/cudnn.h"

/* ---- descriptors ---- */

static bool note_failure(mscrt_dnn_builder *b, dnn_result r, const char *what) {
  if (r && !b->failed)
    b->failed = mscrt_fail(MSCRT_ENVIRONMENT, "cuDNN: %s failed: %s", what, b->api->cudnnGetErrorString(r));
  return !b->failed;
}

dnn_descriptor mscrt_dnn_new(mscrt_dnn_builder *b, unsigned type) {
  dnn_descriptor d = NULL;
  if (b->failed) return NULL;
  if (b->out->num_made == MSCRT_DNN_MADE)
    b->failed = mscrt_fail(MSCRT_BUG, "a graph of more than %d descriptors", MSCRT_DNN_MADE);
  if (b->failed || !note_failure(b, b->api->cudnnBackendCreateDescriptor(type, &d), "cudnnBackendCreateDescriptor"))
    return NULL;
  return b->out->made[b->out->num_made++] = d;
}

void mscrt_dnn_set(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, unsigned type, int64_t num,
                   const void *elements) {
  if (!b->failed)
    note_failure(b, b->api->cudnnBackendSetAttribute(d, name, type, num, elements), "cudnnBackendSetAttribute");
}

void mscrt_dnn_link(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, dnn_descriptor to) {
  mscrt_dnn_set(b, d, name, MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

dnn_descriptor mscrt_dnn_finalize(mscrt_dnn_builder *b, dnn_descriptor d) {
  return !b->failed && note_failure(b, b->api->cudnnBackendFinalize(d), "cudnnBackendFinalize") ? d : NULL;
}

void mscrt_dnn_add(mscrt_dnn_builder *b, dnn_descriptor operation) {
  if (b->num_operations == MSCRT_DNN_OPERATIONS && !b->failed)
    b->failed = mscrt_fail(MSCRT_BUG, "a graph of more than %d operations", MSCRT_DNN_OPERATIONS);
  if ((operation = mscrt_dnn_finalize(b, operation))) b->operation[b->num_operations++] = operation;
}

/* ---- tensors ---- */

unsigned mscrt_dnn_type(mscrt_dtype d) {
  return d == MSCRT_F16 ? MSCRT_CUDNN_DATA_HALF : d == MSCRT_BF16 ? MSCRT_CUDNN_DATA_BFLOAT16 : MSCRT_CUDNN_DATA_FLOAT;
}

static dnn_descriptor describe_tensor(mscrt_dnn_builder *b, int64_t number, unsigned type, const int64_t dim[4],
                                      const int64_t stride[4]) {
  int64_t alignment = MSCRT_DNN_ALIGN;
  dnn_descriptor t = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  mscrt_dnn_set(b, t, MSCRT_CUDNN_ATTR_TENSOR_UNIQUE_ID, MSCRT_CUDNN_TYPE_INT64, 1, &number);
  mscrt_dnn_set(b, t, MSCRT_CUDNN_ATTR_TENSOR_DATA_TYPE, MSCRT_CUDNN_TYPE_DATA_TYPE, 1, &type);
  mscrt_dnn_set(b, t, MSCRT_CUDNN_ATTR_TENSOR_DIMENSIONS, MSCRT_CUDNN_TYPE_INT64, 4, dim);
  mscrt_dnn_set(b, t, MSCRT_CUDNN_ATTR_TENSOR_STRIDES, MSCRT_CUDNN_TYPE_INT64, 4, stride);
  mscrt_dnn_set(b, t, MSCRT_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, MSCRT_CUDNN_TYPE_INT64, 1, &alignment);
  return t;
}

static dnn_descriptor set_flag(mscrt_dnn_builder *b, dnn_descriptor t, unsigned flag) {
  bool yes = true;
  mscrt_dnn_set(b, t, flag, MSCRT_CUDNN_TYPE_BOOLEAN, 1, &yes);
  return mscrt_dnn_finalize(b, t);
}

/* Adds a binding; returns its number. */
static int64_t add_binding(mscrt_dnn_builder *b, mscrt_dnn_binding binding) {
  if (b->out->num_bindings == MSCRT_DNN_TENSORS) {
    if (!b->failed) b->failed = mscrt_fail(MSCRT_BUG, "a graph of more than %d tensors", MSCRT_DNN_TENSORS);
    return 0;
  }
  b->out->binding[b->out->num_bindings] = binding;
  return ++b->out->num_bindings;
}

/* The number of operand i, which all its descriptors share. */
static int64_t bind_operand(mscrt_dnn_builder *b, uint32_t i) {
  for (uint32_t k = 0; k < b->out->num_bindings; k++)
    if (b->out->binding[k].place == MSCRT_DNN_OPERAND && b->out->binding[k].operand == i) return k + 1;
  return add_binding(b, (mscrt_dnn_binding){.place = MSCRT_DNN_OPERAND, .operand = i});
}

dnn_descriptor mscrt_dnn_operand(mscrt_dnn_builder *b, uint32_t i) {
  const mscrt_graph_tensor *o = &b->g->operand[i];
  return mscrt_dnn_finalize(b, describe_tensor(b, bind_operand(b, i), mscrt_dnn_type(o->dtype), o->dim, o->stride));
}

dnn_descriptor mscrt_dnn_transpose(mscrt_dnn_builder *b, uint32_t i) {
  const mscrt_graph_tensor *o = &b->g->operand[i];
  const int64_t dim[] = {o->dim[0], o->dim[1], o->dim[3], o->dim[2]},
                stride[] = {o->stride[0], o->stride[1], o->stride[3], o->stride[2]};
  return mscrt_dnn_finalize(b, describe_tensor(b, bind_operand(b, i), mscrt_dnn_type(o->dtype), dim, stride));
}

dnn_descriptor mscrt_dnn_number(mscrt_dnn_builder *b, float number) {
  static const int64_t one[] = {1, 1, 1, 1};
  return set_flag(b,
                  describe_tensor(b, add_binding(b, (mscrt_dnn_binding){.place = MSCRT_DNN_NUMBER, .number = number}),
                                  MSCRT_CUDNN_DATA_FLOAT, one, one),
                  MSCRT_CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

static void set_row_major_strides(const int64_t dim[4], int64_t out_stride[4]) {
  out_stride[3] = 1;
  for (int d = 3; d-- > 0;) out_stride[d] = out_stride[d + 1] * dim[d + 1];
}

dnn_descriptor mscrt_dnn_workspace(mscrt_dnn_builder *b, const int64_t dim[4], bool zero) {
  int64_t stride[4], number = add_binding(b, (mscrt_dnn_binding){.place = MSCRT_DNN_OWN, .offset = b->out->own_bytes});
  set_row_major_strides(dim, stride);
  uint64_t bytes = sizeof(float) * (uint64_t)(stride[0] * dim[0]);
  if (zero) b->out->zero_offset = b->out->own_bytes, b->out->zero_bytes = bytes;
  b->out->own_bytes += mscrt_cuda_align(bytes);
  return mscrt_dnn_finalize(b, describe_tensor(b, number, MSCRT_CUDNN_DATA_FLOAT, dim, stride));
}

static dnn_descriptor add_virtual_tensor(mscrt_dnn_builder *b, unsigned type, const int64_t dim[4],
                                         const int64_t stride[4]) {
  return set_flag(b, describe_tensor(b, MSCRT_DNN_TENSORS + ++b->num_tensors, type, dim, stride),
                  MSCRT_CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

dnn_descriptor mscrt_dnn_virtual(mscrt_dnn_builder *b, unsigned type, const int64_t dim[4], bool transposed) {
  int64_t stride[4];
  set_row_major_strides(dim, stride);
  if (transposed) stride[2] = 1, stride[3] = dim[2];
  return add_virtual_tensor(b, type, dim, stride);
}

dnn_descriptor mscrt_dnn_virtual_like(mscrt_dnn_builder *b, uint32_t i) {
  const mscrt_graph_tensor *o = &b->g->operand[i];
  return add_virtual_tensor(b, mscrt_dnn_type(o->dtype), o->dim, o->stride);
}

/* ---- operations ---- */

void mscrt_dnn_matmul(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor w, dnn_descriptor y) {
  unsigned f32 = MSCRT_CUDNN_DATA_FLOAT;
  dnn_descriptor m = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  mscrt_dnn_set(b, m, MSCRT_CUDNN_ATTR_MATMUL_COMP_TYPE, MSCRT_CUDNN_TYPE_DATA_TYPE, 1, &f32);
  mscrt_dnn_finalize(b, m);
  dnn_descriptor o = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_BDESC, w);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
  mscrt_dnn_add(b, o);
}

static dnn_descriptor describe_pointwise(mscrt_dnn_builder *b, unsigned mode, unsigned type) {
  dnn_descriptor p = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  mscrt_dnn_set(b, p, MSCRT_CUDNN_ATTR_POINTWISE_MODE, MSCRT_CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  mscrt_dnn_set(b, p, MSCRT_CUDNN_ATTR_POINTWISE_MATH_PREC, MSCRT_CUDNN_TYPE_DATA_TYPE, 1, &type);
  return p;
}

static void add_pointwise(mscrt_dnn_builder *b, dnn_descriptor p, dnn_descriptor x, dnn_descriptor second,
                          dnn_descriptor third, dnn_descriptor y) {
  mscrt_dnn_finalize(b, p);
  dnn_descriptor o = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (second) mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
  if (third) mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_TDESC, third);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  mscrt_dnn_add(b, o);
}

void mscrt_dnn_pointwise(mscrt_dnn_builder *b, unsigned mode, unsigned type, dnn_descriptor x, dnn_descriptor second,
                         dnn_descriptor third, dnn_descriptor y) {
  add_pointwise(b, describe_pointwise(b, mode, type), x, second, third, y);
}

void mscrt_dnn_index(mscrt_dnn_builder *b, dnn_descriptor x, int64_t axis, dnn_descriptor y) {
  dnn_descriptor p = describe_pointwise(b, MSCRT_CUDNN_POINTWISE_GEN_INDEX, MSCRT_CUDNN_DATA_INT32);
  mscrt_dnn_set(b, p, MSCRT_CUDNN_ATTR_POINTWISE_AXIS, MSCRT_CUDNN_TYPE_INT64, 1, &axis);
  add_pointwise(b, p, x, NULL, NULL, y);
}

void mscrt_dnn_reduce(mscrt_dnn_builder *b, unsigned op, dnn_descriptor x, dnn_descriptor y) {
  unsigned f32 = MSCRT_CUDNN_DATA_FLOAT;
  dnn_descriptor r = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  mscrt_dnn_set(b, r, MSCRT_CUDNN_ATTR_REDUCTION_OPERATOR, MSCRT_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  mscrt_dnn_set(b, r, MSCRT_CUDNN_ATTR_REDUCTION_COMP_TYPE, MSCRT_CUDNN_TYPE_DATA_TYPE, 1, &f32);
  mscrt_dnn_finalize(b, r);
  dnn_descriptor o = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
  mscrt_dnn_add(b, o);
}

void mscrt_dnn_view(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor y) {
  dnn_descriptor o = mscrt_dnn_new(b, MSCRT_CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  mscrt_dnn_link(b, o, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  mscrt_dnn_add(b, o);
}
