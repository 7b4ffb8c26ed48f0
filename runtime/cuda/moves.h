/* moves.h: an exchange, which is boxes and peers, as what a GPU does for it: copies within its own memory, and one call
 * of a library, or messages, between. */
#ifndef MSCRT_CUDA_MOVES_H
#define MSCRT_CUDA_MOVES_H

#include "runtime/context.h"
#include "runtime/cuda/api.h"

/* Rows of bytes; offsets from two bases. */
typedef struct {
  uint64_t to, from, width, to_pitch, from_pitch, height;
} mscrt_copy;

typedef struct {
  uint32_t num, room;
  mscrt_copy *copy;
} mscrt_copies;

/* All that goes to one member, or comes from one. */
typedef struct {
  int peer;                      /* member of the group */
  /* it lies in one piece in the value itself, at `at`; else there in the staging memory */
  bool direct;
  uint64_t at, bytes;
} mscrt_move;

typedef enum { MSCRT_BY_MOVES, MSCRT_BY_ALL_REDUCE, MSCRT_BY_ALL_GATHER, MSCRT_BY_REDUCE_SCATTER } mscrt_moves_form;

/* Offsets in the source, the destination and the staging memory. */
typedef struct {
  mscrt_moves_form form;
  const mscrt_exchange *e;
  uint64_t count;                /* elements of a member in the library's call */
  /* so many elements of the staging memory are the reduction's identity before the source is packed */
  uint64_t identity;
  /* from source to destination, from source to staging, from staging to destination */
  mscrt_copies local, pack, unpack;
  uint32_t num_sends, num_receives;
  mscrt_move *send, *receive;    /* in ascending order of members; of a library's call one each, for all members */
  /* A reduction of 16-bit integers, which the library does not have: of ones twice as wide, in the staging
   * memory. 0: none. */
  uint64_t wide_elems, wide_at, wide_result;
  mscrt_copy widen, narrow;      /* from where `send` is, to where `receive` is */
  uint64_t staging_bytes;
} mscrt_moves;

/* Of collective `index` of the plan, on this rank.  All members find the same form. */
mscrt_status *mscrt_moves_make(const mscrt_context *c, uint32_t index, mscrt_moves *out_moves);
void mscrt_moves_free(mscrt_moves *m);

/* Copies on a stream. */
mscrt_status *mscrt_copies_issue(const mscrt_cuda_api *cu, const mscrt_copies *copies, cu_address to, cu_address from,
                                 cu_stream s);
/* The operands of a reduction, made wide; its result, made narrow. */
mscrt_status *mscrt_widen_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address staging, cu_address src,
                                cu_stream s);
mscrt_status *mscrt_narrow_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address dst, cu_address staging,
                                 cu_stream s);
/* The reduction's identity, so often. */
mscrt_status *mscrt_identity_issue(const mscrt_cuda_api *cu, const mscrt_exchange *e, uint64_t elems, cu_address to,
                                   cu_stream s);

#endif
