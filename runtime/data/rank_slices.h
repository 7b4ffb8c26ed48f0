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
/* Writes a checkpoint `path` with the slices of the plan's ranks from the tensors of another archive, converted; what
 * is not there begins as the plan says. */
mscrt_status *mscrt_checkpoint_slices(const mscrt_plan *p, const mscrt_progress *progress, const char *path,
                                      mscrt_archive *from);
/* Writes tensors `first` .. `first + num - 1` of the archive, whole, to one file: */
typedef struct {
  const char *path;
  uint32_t first, num;
  const uint8_t *skip;      /* by tensor: not written; NULL: all are */
  const char *const *names; /* by tensor: other names; NULL: their own */
  const uint8_t *transposed; /* by tensor: a matrix, which is transposed; NULL: none is */
} mscrt_whole_file;
/* Writes them. out_shard, with room for num: place and checksum of each. */
mscrt_status *mscrt_archive_write(mscrt_archive *a, const mscrt_whole_file *w, mscrt_shard *out_shard,
                                  uint64_t *out_bytes);

#endif
