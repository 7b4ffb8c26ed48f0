/* dnn_run.c: a graph of cuDNN's operations, computed one after the other with plain loops: what it
 * computes, not how. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin/dnn.h"

/* ---- tensors ---- */

typedef struct {
  const dnn_object *described; /* NULL: the list ends */
  unsigned type;
  int64_t dim[4], stride[4];
  char *memory;                /* NULL: it is only here, in ... */
  float *storage;
  float number;                /* of the host's, when by_value */
  bool by_value, made;
} tensor;

static tensor tensor_of(const dnn_object *o) {
  tensor t = {.described = o, .type = dnn_word(o, MSCRT_CUDNN_ATTR_TENSOR_DATA_TYPE)};
  memcpy(t.dim, dnn_get(o, MSCRT_CUDNN_ATTR_TENSOR_DIMENSIONS, NULL), sizeof t.dim);
  memcpy(t.stride, dnn_get(o, MSCRT_CUDNN_ATTR_TENSOR_STRIDES, NULL), sizeof t.stride);
  return t;
}

static size_t span_of(const tensor *t) {
  int64_t last = 0;
  for (int d = 0; d < 4; d++) last += (t->dim[d] - 1) * t->stride[d];
  return (size_t)last + 1;
}

static size_t bytes_of(unsigned type) {
  return type == MSCRT_CUDNN_DATA_HALF || type == MSCRT_CUDNN_DATA_BFLOAT16 ? 2 : 4;
}

static float rounded(unsigned type, float v) {
  if (type == MSCRT_CUDNN_DATA_HALF) return mscrt_from_f16(mscrt_to_f16(v));
  return type == MSCRT_CUDNN_DATA_BFLOAT16 ? mscrt_from_bf16(mscrt_to_bf16(v)) : v;
}

static float load(const tensor *t, size_t at) {
  uint16_t h;
  float f;
  if (t->by_value) return t->number;
  if (!t->memory) return t->storage[at];
  if (bytes_of(t->type) == 4) return memcpy(&f, t->memory + 4 * at, 4), f;
  memcpy(&h, t->memory + 2 * at, 2);
  return t->type == MSCRT_CUDNN_DATA_HALF ? mscrt_from_f16(h) : mscrt_from_bf16(h);
}

static void store(const tensor *t, size_t at, float v) {
  uint16_t h = t->type == MSCRT_CUDNN_DATA_HALF ? mscrt_to_f16(v) : mscrt_to_bf16(v);
  if (!t->memory) t->storage[at] = rounded(t->type, v);
  else if (bytes_of(t->type) == 4) memcpy(t->memory + 4 * at, &v, 4);
  else memcpy(t->memory + 2 * at, &h, 2);
}

/* Dimensions of size 1 are those of all; heads may share theirs. */
static size_t place(const tensor *t, const int64_t i[4], const int64_t dim[4]) {
  int64_t at = 0;
  for (int d = 0; d < 4; d++) at += (t->dim[d] == dim[d] ? i[d] : i[d] * t->dim[d] / dim[d]) * t->stride[d];
  return (size_t)at;
}

/* The next index of a tensor, row major; false: that was the last. */
static bool next(const int64_t dim[4], int64_t i[4]) {
  for (int d = 4; d-- > 0;) {
    if (++i[d] < dim[d]) return true;
    i[d] = 0;
  }
  return false;
}

/* ---- rules ---- */

static void demand(bool holds, const char *what) {
  if (!holds) standin_broken("cuDNN: %s", what);
}

static void check_matmul(const dnn_object *op) {
  tensor a = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
         b = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_BDESC)),
         c = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_CDESC));
  demand(a.dim[2] == c.dim[2] && b.dim[3] == c.dim[3] && a.dim[3] == b.dim[2], "a product of shapes that do not fit");
  demand(a.type == b.type && bytes_of(a.type) == 2, "a product of other types than f16 or bf16");
  for (int d = 0; d < 2; d++) demand(a.dim[d] == c.dim[d] && c.dim[d] % b.dim[d] == 0, "a product of other batches");
}

static void check_pointwise(const dnn_object *op) {
  static const unsigned names[] = {MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                   MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                   MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  tensor y = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  for (size_t i = 0; i < 3; i++) {
    const dnn_object *o = dnn_linked(op, names[i]);
    for (int d = 0; d < 4 && o; d++)
      demand(tensor_of(o).dim[d] == y.dim[d] || tensor_of(o).dim[d] == 1, "operands that do not stretch to the result");
  }
}

static void check_view(const dnn_object *op) {
  tensor x = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_XDESC)),
         y = tensor_of(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
  demand(span_of(&x) == span_of(&y), "a view of another size");
}

void dnn_check_operation(const dnn_object *op) {
  if (op->type == MSCRT_CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) check_matmul(op);
  if (op->type == MSCRT_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) check_pointwise(op);
  if (op->type == MSCRT_CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) check_view(op);
}

/* ---- operations ---- */

typedef struct {
  const dnn_object *graph;
  int engine;
  char *workspace;
  size_t workspace_bytes;
  tensor t[DNN_TENSORS];
} job;

static tensor *find(job *j, const dnn_object *described) {
  for (int i = 0; i < DNN_TENSORS; i++) {
    if (j->t[i].described == described) return &j->t[i];
    if (j->t[i].described) continue;
    j->t[i] = tensor_of(described);
    return &j->t[i];
  }
  standin_broken("a graph of more than %d tensors", DNN_TENSORS);
}

static tensor *operand(job *j, const dnn_object *op, unsigned name) {
  const dnn_object *o = dnn_linked(op, name);
  tensor *t = o ? find(j, o) : NULL;
  if (t && !t->memory && !t->by_value && !t->made)
    standin_broken("cuDNN: an operation reads tensor %ld before it is made",
                   (long)dnn_int(o, MSCRT_CUDNN_ATTR_TENSOR_UNIQUE_ID));
  return t;
}

static tensor *result(job *j, const dnn_object *op, unsigned name) {
  tensor *t = find(j, dnn_linked(op, name));
  demand(!t->by_value && !t->made, "a result that is there already");
  if (!t->memory) t->storage = calloc(span_of(t), sizeof *t->storage);
  t->made = true;
  return t;
}

/* As the engine's units see it. */
static float seen(const job *j, const tensor *t, size_t at) {
  float v = load(t, at);
  uint32_t bits;
  if (j->engine == ENGINE_NARROW) return NAN;
  if ((j->engine != ENGINE_TENSOR_CORE && j->engine != ENGINE_WINOGRAD) || t->type != MSCRT_CUDNN_DATA_FLOAT) return v;
  memcpy(&bits, &v, 4);
  bits &= ~UINT32_C(0x1fff);
  return memcpy(&v, &bits, 4), v;
}

static void run_matmul(job *j, const dnn_object *op) {
  tensor *a = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_ADESC),
         *b = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_BDESC),
         *c = result(j, op, MSCRT_CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  int64_t i[4] = {0};
  do {
    double sum = 0;
    for (int64_t k = 0; k < a->dim[3]; k++) {
      size_t at_a = place(a, (int64_t[]){i[0], i[1], i[2], 0}, (int64_t[]){c->dim[0], c->dim[1], c->dim[2], a->dim[3]});
      size_t at_b = place(b, (int64_t[]){i[0], i[1], 0, i[3]}, (int64_t[]){c->dim[0], c->dim[1], b->dim[2], c->dim[3]});
      sum +=
          (double)seen(j, a, at_a + (size_t)(k * a->stride[3])) * (double)seen(j, b, at_b + (size_t)(k * b->stride[2]));
    }
    /* parts are added up there */
    if (c->memory && c->type == MSCRT_CUDNN_DATA_FLOAT) sum += (double)load(c, place(c, i, c->dim));
    store(c, place(c, i, c->dim), (float)sum);
  } while (next(c->dim, i));
}

static float apply(unsigned mode, float x, float b, float t) {
  switch (mode) {
    case MSCRT_CUDNN_POINTWISE_ADD: return x + b;
    case MSCRT_CUDNN_POINTWISE_SUB: return x - b;
    case MSCRT_CUDNN_POINTWISE_MUL: return x * b;
    case MSCRT_CUDNN_POINTWISE_DIV: return x / b;
    case MSCRT_CUDNN_POINTWISE_EXP: return expf(x);
    case MSCRT_CUDNN_POINTWISE_LOG: return logf(x);
    case MSCRT_CUDNN_POINTWISE_IDENTITY: return x;
    case MSCRT_CUDNN_POINTWISE_RELU_FWD: return x > 0 ? x : 0;
    case MSCRT_CUDNN_POINTWISE_CMP_GE: return x >= b;
    case MSCRT_CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: standin_broken("cuDNN: pointwise mode %u", mode);
  }
}

static void run_pointwise(job *j, const dnn_object *op) {
  const dnn_object *p = dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  unsigned mode = dnn_word(p, MSCRT_CUDNN_ATTR_POINTWISE_MODE);
  int64_t axis = dnn_int(p, MSCRT_CUDNN_ATTR_POINTWISE_AXIS), i[4] = {0};
  tensor *x = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
         *b = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
         *t = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  tensor *y = result(j, op, MSCRT_CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  do {
    float second = b ? load(b, place(b, i, y->dim)) : 0, third = t ? load(t, place(t, i, y->dim)) : 0;
    float v = mode == MSCRT_CUDNN_POINTWISE_GEN_INDEX ? (float)i[axis]
                                                      : apply(mode, load(x, place(x, i, y->dim)), second, third);
    store(y, place(y, i, y->dim), v);
  } while (next(y->dim, i));
}

static void run_reduction(job *j, const dnn_object *op) {
  bool is_max = dnn_word(dnn_linked(op, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                         MSCRT_CUDNN_ATTR_REDUCTION_OPERATOR) == MSCRT_CUDNN_REDUCE_TENSOR_MAX;
  tensor *x = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
         *y = result(j, op, MSCRT_CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  int64_t i[4] = {0};
  for (int d = 0; d < 4; d++) demand(x->dim[d] % y->dim[d] == 0, "a reduction to another shape");
  do store(y, place(y, i, y->dim), is_max ? -INFINITY : 0);
  while (next(y->dim, i));
  do {
    size_t at = place(y, i, x->dim);
    float v = load(x, place(x, i, x->dim)), before = load(y, at);
    store(y, at, is_max ? fmaxf(before, v) : before + v);
  } while (next(x->dim, i));
}

static void run_view(job *j, const dnn_object *op) {
  tensor *x = operand(j, op, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_XDESC),
         *y = result(j, op, MSCRT_CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  for (size_t at = 0; at < span_of(x); at++) store(y, at, load(x, at));
}

/* ---- convolutions ---- */

typedef struct {
  int64_t step[2], dilation[2], padding[2];
} windows;

static windows windows_of(const dnn_object *o) {
  windows w;
  memcpy(w.step, dnn_get(o, MSCRT_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, NULL), sizeof w.step);
  memcpy(w.dilation, dnn_get(o, MSCRT_CUDNN_ATTR_CONVOLUTION_DILATIONS, NULL), sizeof w.dilation);
  memcpy(w.padding, dnn_get(o, MSCRT_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, NULL), sizeof w.padding);
  demand(!memcmp(w.padding, dnn_get(o, MSCRT_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, NULL), sizeof w.padding),
         "a convolution with two paddings");
  demand(dnn_word(o, MSCRT_CUDNN_ATTR_CONVOLUTION_CONV_MODE) == MSCRT_CUDNN_CROSS_CORRELATION &&
             dnn_word(o, MSCRT_CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == MSCRT_CUDNN_DATA_FLOAT,
         "a convolution turned round, or summed in another type");
  return w;
}

/* Sums for all places of the result, of the products of the other two: one loop over all that meet serves each kind. */
static void run_windows(job *j, const windows *v, tensor *x, tensor *w, tensor *y, tensor *made) {
  double *sum = calloc(span_of(made), sizeof *sum);
  int64_t i[4] = {0}, size[4] = {y->dim[0], y->dim[1], w->dim[1], w->dim[2] * w->dim[3]}, at[2], out[4] = {0};
  demand(x->dim[1] % w->dim[1] == 0 && w->dim[0] == y->dim[1] && x->dim[0] == y->dim[0],
         "a convolution of shapes that do not fit");
  do {
    int64_t k[2] = {i[3] / w->dim[3], i[3] % w->dim[3]},
            channel = i[1] / (y->dim[1] / (x->dim[1] / w->dim[1])) * w->dim[1] + i[2];
    size_t at_w = place(w, (int64_t[]){i[1], i[2], k[0], k[1]}, w->dim);
    for (int64_t p = 0; p < y->dim[2] * y->dim[3]; p++) {
      const int64_t o[2] = {p / y->dim[3], p % y->dim[3]};
      bool inside = true;
      for (int d = 0; d < 2; d++)
        at[d] = o[d] * v->step[d] + k[d] * v->dilation[d] - v->padding[d],
        inside &= at[d] >= 0 && at[d] < x->dim[2 + d];
      if (!inside) continue;
      size_t at_x = place(x, (int64_t[]){i[0], channel, at[0], at[1]}, x->dim),
             at_y = place(y, (int64_t[]){i[0], i[1], o[0], o[1]}, y->dim);
      if (made == y) sum[at_y] += (double)seen(j, x, at_x) * (double)seen(j, w, at_w);
      else if (made == x) sum[at_x] += (double)seen(j, y, at_y) * (double)seen(j, w, at_w);
      else sum[at_w] += (double)seen(j, x, at_x) * (double)seen(j, y, at_y);
    }
  } while (next(size, i));
  do store(made, place(made, out, made->dim), (float)sum[place(made, out, made->dim)]);
  while (next(made->dim, out));
  free(sum);
}

static void run_convolution(job *j, const dnn_object *op) {
  static const struct { unsigned x, w, y, windows, alpha, beta;
  } names[] = {
#define N(of, x, w, y)                                                                                           \
  {MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##x,   MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##w,       \
   MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##y,   MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_CONV_DESC, \
   MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_ALPHA, MSCRT_CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_BETA}
      N(FORWARD, X, W, Y), N(BWD_FILTER, X, DW, DY), N(BWD_DATA, DX, W, DY)};
  unsigned kind = op->type - MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  windows v = windows_of(dnn_linked(op, names[kind].windows));
  float alpha, beta;
  memcpy(&alpha, dnn_get(op, names[kind].alpha, NULL), 4), memcpy(&beta, dnn_get(op, names[kind].beta, NULL), 4);
  demand(alpha == 1 && beta == 0, "a convolution with factors");
  tensor *x = kind == 2 ? result(j, op, names[kind].x) : operand(j, op, names[kind].x),
         *w = kind == 1 ? result(j, op, names[kind].w) : operand(j, op, names[kind].w),
         *y = kind == 0 ? result(j, op, names[kind].y) : operand(j, op, names[kind].y);
  run_windows(j, &v, x, w, y, kind == 0 ? y : kind == 1 ? w : x);
}

/* ---- graphs ---- */

static bool run_job(void *argument) {
  job j = *(job *)argument;
  int64_t num;
  dnn_object *const *op = dnn_get(j.graph, MSCRT_CUDNN_ATTR_OPERATIONGRAPH_OPS, &num);
  memset(j.workspace, 0xff, j.workspace_bytes);
  for (int64_t i = 0; i < num; i++)
    switch (op[i]->type) {
      case MSCRT_CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: run_matmul(&j, op[i]); break;
      case MSCRT_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: run_pointwise(&j, op[i]); break;
      case MSCRT_CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: run_reduction(&j, op[i]); break;
      case MSCRT_CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: run_view(&j, op[i]); break;
      default: run_convolution(&j, op[i]);
    }
  for (int i = 0; i < DNN_TENSORS && j.t[i].described; i++) free(j.t[i].storage);
  return true;
}

static void list_tensors(job *j, const dnn_object *op) {
  for (int i = 0; i < op->num; i++) {
    const dnn_attribute *a = &op->attribute[i];
    if (a->type != MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR ||
        dnn_linked(op, a->name)->type != MSCRT_CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      continue;
    find(j, dnn_linked(op, a->name));
  }
}

/* Its place as the pack says; numbers are read at once, memory is looked at later. */
static void bind(tensor *t, const dnn_object *pack) {
  int64_t num, pointers, number = dnn_int(t->described, MSCRT_CUDNN_ATTR_TENSOR_UNIQUE_ID), k = 0;
  const int64_t *numbers = dnn_get(pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &num);
  char *const *pointer = dnn_get(pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers);
  demand(num == pointers, "as many numbers as places of tensors");
  while (k < num && numbers[k] != number) k++;
  demand((k == num) == (dnn_get(t->described, MSCRT_CUDNN_ATTR_TENSOR_IS_VIRTUAL, NULL) != NULL),
         "a tensor without a place, or a virtual one with a place");
  if (k == num) return;
  t->by_value = dnn_get(t->described, MSCRT_CUDNN_ATTR_TENSOR_IS_BY_VALUE, NULL) != NULL;
  if (t->by_value) memcpy(&t->number, pointer[k], sizeof t->number);
  else t->memory = pointer[k];
  if (t->by_value) return;
  standin_check_memory((cu_address)(uintptr_t)t->memory, span_of(t) * bytes_of(t->type), "a tensor of cuDNN's");
  demand((uintptr_t)t->memory % (uintptr_t)dnn_int(t->described, MSCRT_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 0,
         "a tensor is less aligned than was said");
}

static void check_numbers(const job *j) {
  for (int i = 0; i < DNN_TENSORS && j->t[i].described; i++)
    for (int k = 0; k < i; k++)
      demand(dnn_int(j->t[i].described, MSCRT_CUDNN_ATTR_TENSOR_UNIQUE_ID) !=
                 dnn_int(j->t[k].described, MSCRT_CUDNN_ATTR_TENSOR_UNIQUE_ID),
             "two tensors of one number");
}

void dnn_issue(cu_stream s, const dnn_object *graph, const dnn_object *pack, int engine, size_t workspace_bytes) {
  int64_t num;
  dnn_object *const *op = dnn_get(graph, MSCRT_CUDNN_ATTR_OPERATIONGRAPH_OPS, &num);
  job j = {.graph = graph, .engine = engine, .workspace_bytes = workspace_bytes};
  memcpy(&j.workspace, dnn_get(pack, MSCRT_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, NULL), sizeof j.workspace);
  standin_check_memory((cu_address)(uintptr_t)j.workspace, workspace_bytes, "the workspace");
  for (int64_t i = 0; i < num; i++) list_tensors(&j, op[i]);
  check_numbers(&j);
  for (int i = 0; i < DNN_TENSORS && j.t[i].described; i++) bind(&j.t[i], pack);
  standin_issue(s, "graph", run_job, &j, sizeof j);
}
