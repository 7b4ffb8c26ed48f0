/* cudnn.h: what a graph of the plan is to cuDNN: tensors, operations on them, the engine that computes all of it. */
#ifndef MSCRT_CUDA_DNN_H
#define MSCRT_CUDA_DNN_H

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/cudnn_api.h"

enum {
  MSCRT_DNN_ALIGN = 16,    /* of addresses, in bytes; what check_call.c demands */
  MSCRT_DNN_TENSORS = 20,  /* that are more than steps of the computation */
  MSCRT_DNN_OPERATIONS = 28,
  MSCRT_DNN_MADE = 256,    /* descriptors of a graph */
};

/* Where the library finds a tensor: in an operand of the call, in the workspace, or as a number of the host's. */
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
  bool was_known;              /* it is the plan's */
  uint32_t num_made, num_bindings;
  dnn_descriptor made[MSCRT_DNN_MADE];            /* what it was made from, which it may refer to */
  mscrt_dnn_binding binding[MSCRT_DNN_TENSORS];   /* of tensor number i + 1 */
  uint64_t own_bytes;          /* of the workspace, before what the engine uses */
  uint64_t zero_offset, zero_bytes; /* of these: to be cleared before each execution */
} mscrt_dnn_graph;

struct mscrt_dnn {
  mscrt_cudnn_api api;
  dnn_handle handle;           /* NULL: graphs are only prepared, for a GPU that is not there ... */
  dnn_descriptor device;       /* ... but described by this */
  bool is_known;               /* the plan's engines are this library's, and for this GPU */
  mscrt_dnn_graph *graph;      /* of the plan's */
};

/* ---- cuda/cudnn.c ---- */

/* The engine that the plan knows, where the library takes it, or the best one, within `room` bytes of workspace; where:
 * GPU, for messages.  What it made is out's, also after a failure. */
mscrt_status *mscrt_dnn_prepare(const mscrt_dnn *d, const mscrt_graph *g, uint64_t room, const char *where,
                                mscrt_dnn_graph *out);
void mscrt_dnn_free(const mscrt_dnn *d, mscrt_dnn_graph *g);

/* ---- cuda/cudnn_ahead.c: engines for a GPU that need not be there ---- */

/* What the library wants to know of it. */
typedef struct {
  const char *name;
  int arch;                    /* 90 is compute capability 9.0 */
  int64_t multiprocessors, clock_hz, memory_clock_hz, memory_bytes, cache_bytes;
  int64_t shared_bytes, threads, blocks; /* of a multiprocessor, at most */
} mscrt_gpu;

/* Loads the library, on a driver that does nothing: the process cannot use a GPU afterwards.  To be forgotten, also
 * after a failure. */
mscrt_status *mscrt_dnn_describe(const mscrt_gpu *gpu, mscrt_dnn *out);
void mscrt_dnn_forget(mscrt_dnn *d);
/* The engine of a prepared graph as text, which the caller frees. */
mscrt_status *mscrt_dnn_text(const mscrt_dnn *d, const mscrt_dnn_graph *g, char **out_text);

/* ---- cuda/cudnn_build.c: after the first failure nothing more is made, and all it gives is NULL ---- */

typedef struct {
  const mscrt_cudnn_api *api;
  const mscrt_graph *g;
  mscrt_dnn_graph *out;
  mscrt_status *failed;
  int64_t num_tensors;         /* steps of the computation have numbers from MSCRT_DNN_TENSORS + 1 */
  int64_t num_operations;
  dnn_descriptor operation[MSCRT_DNN_OPERATIONS];
} mscrt_dnn_builder;

dnn_descriptor mscrt_dnn_new(mscrt_dnn_builder *b, unsigned type);
void mscrt_dnn_set(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, unsigned type, int64_t num,
                   const void *elements);
void mscrt_dnn_link(mscrt_dnn_builder *b, dnn_descriptor d, unsigned name, dnn_descriptor to);
dnn_descriptor mscrt_dnn_done(mscrt_dnn_builder *b, dnn_descriptor d);
void mscrt_dnn_add(mscrt_dnn_builder *b, dnn_descriptor operation); /* one more of the graph */

dnn_descriptor mscrt_dnn_operand(mscrt_dnn_builder *b, uint32_t i);
/* Of its matrices, which are its last two dimensions; the same memory. */
dnn_descriptor mscrt_dnn_transposed(mscrt_dnn_builder *b, uint32_t i);
dnn_descriptor mscrt_dnn_number(mscrt_dnn_builder *b, float number);
/* In the workspace, row major; of f32, and cleared before when `zero`, which one tensor can be. */
dnn_descriptor mscrt_dnn_own(mscrt_dnn_builder *b, const int64_t dim[4], bool zero);
/* A step of the computation, which is nowhere; its matrices' elements lie by columns when transposed. */
dnn_descriptor mscrt_dnn_step(mscrt_dnn_builder *b, unsigned type, const int64_t dim[4], bool transposed);
/* The step with the place of operand i as it is. */
dnn_descriptor mscrt_dnn_step_like(mscrt_dnn_builder *b, uint32_t i);

void mscrt_dnn_matmul(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor w, dnn_descriptor y);
/* y = mode(x, second, third), where they are not NULL; `type` is what it computes in. */
void mscrt_dnn_pointwise(mscrt_dnn_builder *b, unsigned mode, unsigned type, dnn_descriptor x, dnn_descriptor second,
                         dnn_descriptor third, dnn_descriptor y);
/* y = the number of each element along an axis of x. */
void mscrt_dnn_index(mscrt_dnn_builder *b, dnn_descriptor x, int64_t axis, dnn_descriptor y);
void mscrt_dnn_reduce(mscrt_dnn_builder *b, unsigned op, dnn_descriptor x, dnn_descriptor y);
/* The same elements, seen with y's sizes and strides. */
void mscrt_dnn_view(mscrt_dnn_builder *b, dnn_descriptor x, dnn_descriptor y);
unsigned mscrt_dnn_type(mscrt_dtype d);

/* ---- cuda/attention.c, cuda/convolution.c: the operations of a graph ---- */

void mscrt_dnn_attention(mscrt_dnn_builder *b);
void mscrt_dnn_attention_grad(mscrt_dnn_builder *b);
void mscrt_dnn_convolution(mscrt_dnn_builder *b); /* of each kind */

#endif
