/* cudnn.h: a graph of the plan as cuDNN takes it: tensors, operations on them, and the engine that computes it. */
#ifndef MSCRT_CUDA_DNN_H
#define MSCRT_CUDA_DNN_H

#include "runtime/cuda/gpu.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/cudnn_api.h"

enum {
  MSCRT_DNN_ALIGN = 16,   /* of addresses, in bytes; check_call.c checks it */
  MSCRT_DNN_TENSORS = 20, /* in memory; virtual ones are not counted */
  MSCRT_DNN_OPERATIONS = 28,
  MSCRT_DNN_MADE = 256, /* most descriptors of a graph */
};

/* Where cuDNN finds a tensor: in an operand of the call, in the workspace, or as a number in the host's memory. */
typedef enum { MSCRT_DNN_OPERAND, MSCRT_DNN_OWN, MSCRT_DNN_NUMBER } mscrt_dnn_place;

typedef struct {
  mscrt_dnn_place place;
  uint32_t operand;
  uint64_t offset;             /* in the workspace */
  float number;
} mscrt_dnn_binding;

/* A graph of the plan, ready to be executed. */
typedef struct {
  dnn_descriptor plan;         /* NULL: no call needs it */
  bool was_known;              /* the plan has the engine */
  uint32_t num_made, num_bindings;
  dnn_descriptor made[MSCRT_DNN_MADE];          /* all descriptors that `plan` may refer to */
  mscrt_dnn_binding binding[MSCRT_DNN_TENSORS]; /* of tensor i + 1 */
  uint64_t own_bytes;                           /* the start of the workspace, before what the engine uses */
  uint64_t zero_offset, zero_bytes;             /* the part of them that is cleared before each execution */
} mscrt_dnn_graph;

struct mscrt_dnn {
  mscrt_cudnn_api api;
  dnn_handle handle;      /* NULL: graphs are only prepared, for the GPU that ... */
  dnn_descriptor device;  /* ... this describes */
  bool is_known;          /* the plan's engines are for this version of cuDNN and this GPU */
  mscrt_dnn_graph *graph; /* by number in the plan */
};

/* ---- cuda/cudnn.c ---- */

/* Finds an engine within `room` bytes of workspace: the plan's, or if cuDNN declines it, the best one.  where: the
 * GPU's name, for messages.  The caller frees `out`, also after a failure. */
mscrt_status *mscrt_dnn_prepare(const mscrt_dnn *d, const mscrt_graph *g, uint64_t room, const char *where,
                                mscrt_dnn_graph *out);
void mscrt_dnn_free(const mscrt_dnn *d, mscrt_dnn_graph *g);

/* ---- cuda/cudnn_ahead.c: engines for a GPU that is only described ---- */

/* Loads cuDNN on a driver that does nothing, so the process cannot use a GPU afterwards.  The caller calls
 * mscrt_dnn_forget, also after a failure. */
mscrt_status *mscrt_dnn_describe(const mscrt_gpu *gpu, mscrt_dnn *out);
void mscrt_dnn_forget(mscrt_dnn *d);
/* The engine of a prepared graph as text, which the caller frees. */
mscrt_status *mscrt_dnn_text(const mscrt_dnn *d, const mscrt_dnn_graph *g, char **out_text);

/* ---- cuda/cudnn_build.c: after the first failure the functions do nothing and return NULL ---- */

typedef struct {
  const mscrt_cudnn_api *api;
  const mscrt_graph *g;
  mscrt_dnn_graph *out;
  mscrt_status *failed;
  int64_t num_tensors; /* of virtual ones, whose numbers begin at MSCRT_DNN_TENSORS + 1 */
  int64_t num_operations;
  dnn_descriptor operation[MSCRT_DNN_OPERATIONS];
} mscrt_dnn_builder;

dnn_descriptor mscrt_dnn_new(mscrt_dnn_builder *b, unsigned type);
void mscrt_dnn_set(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, unsigned type, int64_t num,
                   const void *elements);
void mscrt_dnn_link(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, dnn_descriptor to);
dnn_descriptor mscrt_dnn_finalize(mscrt_dnn_builder *b, dnn_descriptor d);
void mscrt_dnn_add(mscrt_dnn_builder *b, dnn_descriptor operation); /* adds it to the graph */

dnn_descriptor mscrt_dnn_operand(mscrt_dnn_builder *b, uint32_t i);
/* Operand i with its last two dimensions swapped, in the same memory. */
dnn_descriptor mscrt_dnn_transpose(mscrt_dnn_builder *b, uint32_t i);
dnn_descriptor mscrt_dnn_number(mscrt_dnn_builder *b, float number);
/* A row-major tensor of f32 in the workspace; zero: cleared before each execution, as one tensor of a graph can be. */
dnn_descriptor mscrt_dnn_workspace(mscrt_dnn_builder *b, const int64_t dim[4], bool zero);
/* A virtual tensor, which is never in memory; transposed: its matrices are column major. */
dnn_descriptor mscrt_dnn_virtual(mscrt_dnn_builder *b, unsigned type, const int64_t dim[4], bool transposed);
/* A virtual tensor with the shape and strides of operand i. */
dnn_descriptor mscrt_dnn_virtual_like(mscrt_dnn_builder *b, uint32_t i);

void mscrt_dnn_matmul(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor w, dnn_descriptor y);
/* Adds y = mode(x, second, third), computed in `type`; second and third may be NULL. */
void mscrt_dnn_pointwise(mscrt_dnn_builder *b, unsigned mode, unsigned type, dnn_descriptor x, dnn_descriptor second,
                         dnn_descriptor third, dnn_descriptor y);
/* Adds y = the index of each element of x along an axis. */
void mscrt_dnn_index(mscrt_dnn_builder *b, dnn_descriptor x, int64_t axis, dnn_descriptor y);
void mscrt_dnn_reduce(mscrt_dnn_builder *b, unsigned op, dnn_descriptor x, dnn_descriptor y);
/* Adds y = x with y's sizes and strides. */
void mscrt_dnn_view(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor y);
unsigned mscrt_dnn_type(mscrt_dtype d);

/* ---- cuda/attention.c, cuda/convolution.c: the operations of a graph ---- */

void mscrt_dnn_attention(mscrt_dnn_builder *b);
void mscrt_dnn_attention_grad(mscrt_dnn_builder *b);
void mscrt_dnn_convolution(mscrt_dnn_builder *b); /* convolutions of every kind */

#endif
