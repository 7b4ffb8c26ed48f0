/* rank_slices.h: the slices of a plan's parameters and state that each rank writes: every element once, by one of the
 * ranks that hold it, and all ranks about as many bytes. */
#ifndef MSCRT_RANK_SLICES_H
#define MSCRT_RANK_SLICES_H

#include "runtime/data/archive.h"
#include "runtime/plan/plan.h"

/* A box of a parameter, dense in the bytes at .. at + bytes - 1 of its rank's. */
typedef struct {
  const mscrt_variable *v;
  msc_box box;
  uint64_t at, bytes, xxh3;
} mscrt_rank_slice;

typedef struct {
  uint32_t num;
  mscrt_rank_slice *slice; /* wide elements first, so that all are aligned */
  uint64_t bytes;
} mscrt_rank_slices;

/* The slices of one rank. */
mscrt_status *mscrt_rank_slices_of(const mscrt_plan *p, int rank, mscrt_rank_slices *out_slices);
void mscrt_rank_slices_free(mscrt_rank_slices *s);
/* Writes the file of a rank into a folder; `data` are the bytes of all slices, whose checksums are set here. Without
 * slices there is no file. */
mscrt_status *mscrt_rank_slices_write(const mscrt_rank_slices *s, int rank, const char *folder, const void *data);
/* The files of all ranks, which lie in `folder`, as an archive. */
mscrt_status *mscrt_rank_slices_collect(const mscrt_plan *p, const char *folder, mscrt_archive *out_archive);
/* Replaces the files of an archive in `folder` by one, model.safetensors, with whole tensors. No more than a part of
 * one tensor is in memory. */
mscrt_status *mscrt_archive_merge(mscrt_archive *a, const char *folder);
/* Writes a checkpoint `path` for the plan's ranks. Their slices come from the tensors of archive `from`, converted to
 * the plan's element types; a tensor that is not in it gets the initial value that the plan says. */
mscrt_status *mscrt_checkpoint_slices(const mscrt_plan *p, const mscrt_progress *progress, const char *path,
                                      mscrt_archive *from);
/* A file with tensors `first` .. `first + num - 1` of an archive, each of them whole. */
typedef struct {
  const char *path;
  uint32_t first, num;
  const uint8_t *skip;      /* by tensor: not written; NULL: all are */
  const char *const *names; /* by tensor: other names; NULL: their own */
  const uint8_t *transposed; /* by tensor: true for a matrix that is written transposed; NULL: none is */
} mscrt_whole_file;
/* Writes the file that w describes. out_shard has room for w->num and gets the place and checksum of each tensor. */
mscrt_status *mscrt_archive_write(mscrt_archive *a, const mscrt_whole_file *w, mscrt_shard *out_shard,
                                  uint64_t *out_bytes);

#endif
