/* archive.h: named tensors in one or many files of any known format: a safetensors file, a checkpoint of msc, a folder
 * of Hugging Face or PyTorch. A reader asks for a box of a tensor, and only its bytes are read from the files.
 *
 * Example: w [4, 6] was written by two ranks, rows 0..1 and 2..3, each a shard in a file of its own. A rank that holds
 * columns 0..2 reads two runs of twelve bytes from each file. */
#ifndef MSCRT_ARCHIVE_H
#define MSCRT_ARCHIVE_H

#include <stdio.h>

#include "runtime/data/data.h"

/* A box of a tensor, row major in one run of bytes. */
typedef struct {
  uint32_t file;
  uint64_t at; /* in the file */
  msc_box box; /* in the view of the tensor */
  bool hashed;
  uint64_t xxh3; /* of its bytes */
} mscrt_shard;

/* The shards of a tensor cover it, without overlap. */
typedef struct {
  const char *name;
  bool known; /* its element type and rank are msc's: it can be read */
  bool state; /* of an optimizer, as far as the files say so */
  mscrt_dtype dtype;
  int rank;
  int64_t shape[MSCRT_MAX_RANK];
  /* The shape in which boxes are counted: other dimensions of the same elements in the same order. */
  int view_rank;
  int64_t view[MSCRT_MAX_RANK];
  uint32_t first, num; /* shards */
} mscrt_stored;

typedef struct {
  char *path;
  const char *name; /* the last part of the path */
  uint64_t bytes;   /* as the manifest says; 0: it does not say */
  mscrt_blob blob;
  bool open;
} mscrt_archive_file;

/* Where a training was. */
typedef struct {
  uint64_t step, seed;
  uint64_t samples;     /* of the data read so far; 0: it came from elsewhere */
  uint64_t plan, model; /* hashes */
  uint32_t ranks;
} mscrt_progress;

typedef struct {
  char *path, *folder; /* of all files */
  const char *kind;    /* for people */
  bool is_checkpoint;  /* of msc: progress is known */
  mscrt_progress progress;
  uint32_t num_files, num, num_shards;
  mscrt_archive_file *file;
  mscrt_stored *tensor; /* after mscrt_archive_sort in the order of their names */
  mscrt_shard *shard;
  uint64_t read_bytes; /* of tensors, so far */
  uint8_t *line;       /* scratch memory for runs */
  void *hash;
  uint32_t num_texts;
  char **text; /* the memory that names point to */
  int64_t room[4];
} mscrt_archive;

/* ---- archive.c ---- */

/* Opens a file or a folder of any known kind. */
mscrt_status *mscrt_archive_open(const char *path, mscrt_archive *out_archive);
/* Opens one file: safetensors, or of torch.save. */
mscrt_status *mscrt_archive_of_path(const char *path, mscrt_archive *out_archive);
/* Opens a file whose bytes are there already; the archive then owns the blob, also after a failure. */
mscrt_status *mscrt_archive_of_file(mscrt_blob *b, mscrt_archive *out_archive);
void mscrt_archive_close(mscrt_archive *a);
const mscrt_stored *mscrt_archive_find(const mscrt_archive *a, const char *name);

/* Makes an empty archive, for readers of formats. is_file: the folder is that of `path`. Texts that are added are freed
 * with the archive. */
mscrt_status *mscrt_archive_new(const char *path, bool is_file, const char *kind, mscrt_archive *out_archive);
mscrt_status *mscrt_archive_add_text(mscrt_archive *a, char *text);
/* Adds a file by a name without '/', in the archive's folder. */
mscrt_status *mscrt_archive_add_file(mscrt_archive *a, const char *name, uint64_t bytes);
/* Adds a tensor without shards, which the following calls of add_shard give it. */
mscrt_status *mscrt_archive_add_tensor(mscrt_archive *a, const mscrt_stored *t);
mscrt_status *mscrt_archive_add_shard(mscrt_archive *a, const mscrt_shard *s);
/* Adds a file by any path, which the caller has allocated. */
mscrt_status *mscrt_archive_add_path(mscrt_archive *a, const char *path);
/* Adds all tensors of a file, under their names there, with one shard each. */
mscrt_status *mscrt_archive_add_safetensors(mscrt_archive *a, uint32_t file);
/* Sorts the tensors and checks that names differ, and that shards cover their tensors without overlap. */
mscrt_status *mscrt_archive_sort(mscrt_archive *a);
mscrt_status *mscrt_archive_open_file(mscrt_archive *a, uint32_t file);

/* ---- read_archive.c ---- */

/* The destination of a read: box `box` of a tensor that has `shape`, converted to `dtype`, goes to `data`, which is the
 * memory of the box `buffer`. */
typedef struct {
  mscrt_dtype dtype;
  int rank;
  const int64_t *shape;
  msc_box box, buffer;
  void *data;
} mscrt_reading;

/* Reads a box. A shard that is needed whole is compared with its checksum. */
mscrt_status *mscrt_archive_read(mscrt_archive *a, const mscrt_stored *t, const mscrt_reading *to);
/* Reads the elements begin .. begin + num - 1 of a tensor, unconverted. */
mscrt_status *mscrt_archive_elements(mscrt_archive *a, const mscrt_stored *t, uint64_t begin, uint64_t num, void *out);
/* Reads everything that has a checksum, and compares. */
mscrt_status *mscrt_archive_verify(mscrt_archive *a);
uint64_t mscrt_stored_elems(const mscrt_stored *t);

/* ---- manifest.c ---- */

#define MSCRT_MANIFEST "manifest.json"

/* Reads the manifest of a folder; `a` has the folder and nothing else. sealed: the manifest's own checksum must be
 * right. */
mscrt_status *mscrt_manifest_parse(const mscrt_blob *b, bool sealed, mscrt_archive *a);
/* Writes the manifest of an archive whose files lie in `folder`, as the last file there. */
mscrt_status *mscrt_manifest_write(const mscrt_archive *a, const char *folder);

#endif
