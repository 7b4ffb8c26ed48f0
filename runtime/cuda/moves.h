/* moves.h: what a GPU does for an exchange, which is given as boxes and peers: copies within its own memory, and one
 * call of NCCL, or messages, between them. */
#ifndef MSCRT_CUDA_MOVES_H
#define MSCRT_CUDA_MOVES_H

#include "runtime/context.h"
#include "runtime/cuda/api.h"

#define MSCRT_CUDA_ALIGN 256

/* Rounds up to the alignment of pieces of a GPU's memory. */
static inline uint64_t mscrt_cuda_align(uint64_t bytes) {
  return (bytes + MSCRT_CUDA_ALIGN - 1) / MSCRT_CUDA_ALIGN * MSCRT_CUDA_ALIGN;
}

/* A copy of rows of bytes; to and from are offsets from two bases. */
typedef struct {
  uint64_t to, from, width, to_pitch, from_pitch, height;
} mscrt_copy;

typedef struct {
  uint32_t num;
  int64_t room;
  mscrt_copy *copy;
} mscrt_copies;

/* A message to one member, or from one. */
typedef struct {
  int peer;                      /* member of the group */
  /* true: it is one piece of the value, at `at`; else it lies at `at` in the staging memory */
  bool direct;
  uint64_t at, bytes;
} mscrt_move;

/* Offsets are from the start of the source, the destination or the staging memory. */
typedef struct {
  msc_verb form; /* of the library's call; MSC_EXCHANGE: messages */
  const mscrt_exchange *e;
  uint64_t count; /* elements of each member in NCCL's call */
  /* elements of the staging memory that are set to the reduction's identity before the source is packed */
  uint64_t identity;
  /* copies: local from source to destination, pack from source to staging, unpack from staging to destination */
  mscrt_copies local, pack, unpack;
  uint32_t num_sends, num_receives;
  mscrt_move *send, *receive; /* in ascending order of members; for a collective of NCCL's one each, for all members */
  /* A reduction of 16-bit integers, which NCCL does not have, is one of 32-bit integers in the staging memory.  0:
   * there is none. */
  uint64_t wide_elems, wide_at, wide_result;
  mscrt_copy widen, narrow; /* from the place of `send`, to the place of `receive` */
  uint64_t staging_bytes;
} mscrt_moves;

/* Makes the moves of this rank for collective `index` of the plan.  All members choose the same form. */
mscrt_status *mscrt_moves_make(const mscrt_context *c, uint32_t index, mscrt_moves *out_moves);
void mscrt_moves_free(mscrt_moves *m);

/* Issues copies to a stream. */
mscrt_status *mscrt_copies_issue(const mscrt_cuda_api *cu, const mscrt_copies *copies, cu_address to, cu_address from,
                                 cu_stream s);
/* Issue the widening of a reduction's operand and the narrowing of its result, where there is any. */
mscrt_status *mscrt_widen_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address staging, cu_address src,
                                cu_stream s);
mscrt_status *mscrt_narrow_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address dst, cu_address staging,
                                 cu_stream s);
/* Issues a fill of `elems` elements with the reduction's identity. */
mscrt_status *mscrt_identity_issue(const mscrt_cuda_api *cu, const mscrt_exchange *e, uint64_t elems, cu_address to,
                                   cu_stream s);

#endif
