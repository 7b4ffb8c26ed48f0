/* torch_file.h: what torch.save writes: a zip archive with a pickle, data.pkl, and a member for each storage. */
#ifndef MSCRT_TORCH_FILE_H
#define MSCRT_TORCH_FILE_H

#include "runtime/data/archive.h"
#include "runtime/data/formats/pickle.h"

/* ---- zip.c ---- */

typedef struct {
  char *name;
  bool is_stored;         /* as it is, not compressed */
  uint64_t header, bytes; /* where its own header is in the archive; its length */
} mscrt_zip_member;

typedef struct {
  const mscrt_blob *b;
  uint64_t at, bytes; /* the range of the file */
  size_t num;
  mscrt_zip_member *member; /* sorted by name */
  char *names, *all_names;
} mscrt_zip;

mscrt_status *mscrt_zip_open(const mscrt_blob *b, uint64_t at, uint64_t bytes, mscrt_zip *out_zip);
void mscrt_zip_close(mscrt_zip *z);
/* Where the bytes of a member are in the file. */
mscrt_status *mscrt_zip_find(const mscrt_zip *z, const char *name, uint64_t *out_at, uint64_t *out_bytes);

/* ---- torch_file.c ---- */

typedef struct {
  mscrt_zip zip;
  mscrt_pickle pickle;
  const char *top; /* the folder of all members, with its '/' */
} mscrt_torch_file;

/* Opens what torch.save wrote to a range of a file. */
mscrt_status *mscrt_torch_open(const mscrt_blob *b, uint64_t at, uint64_t bytes, mscrt_torch_file *out_file);
void mscrt_torch_close(mscrt_torch_file *f);
/* True for a tensor or parameter of the pickle; then *out_tensor is set, its element type, shape and place, or a status
 * tells why it cannot be read. */
bool mscrt_torch_tensor(const mscrt_torch_file *f, const mscrt_py *v, mscrt_array *out_tensor, mscrt_status **out);
/* A bool that is an attribute of an object of the pickle in the only file of an archive; false where it is absent. */
mscrt_status *mscrt_torch_flag(const mscrt_archive *a, const char *object, const char *name, bool *out);
/* The element type of a name such as "torch.float32"; false: msc has none. */
bool mscrt_dtype_of_torch(const char *name, mscrt_dtype *out_dtype);

#endif
