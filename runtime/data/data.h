/* data.h: files of tensors and samples in; values of inputs and parameters out. */
#ifndef MSCRT_DATA_H
#define MSCRT_DATA_H

#include "ir/layout/box.h"
#include "runtime/runtime.h"

/* ---- data/blob.c: bytes of a file or of memory ---- */

typedef struct {
  const char *path;      /* for messages; owned */
  int fd;                /* -1: in memory */
  const uint8_t *memory; /* owned if equal to `own` */
  uint8_t *own;
  uint64_t bytes;
  bool cut;              /* only the beginning of the file is here */
} mscrt_blob;

mscrt_status *mscrt_blob_open(const char *path, mscrt_blob *out_blob);
/* Makes a blob of bytes that stay the caller's, for tests and fuzzing. */
mscrt_status *mscrt_blob_of(const void *data, size_t bytes, mscrt_blob *out_blob);
void mscrt_blob_close(mscrt_blob *b);
/* Reads exactly num bytes. It is a status if there are fewer, for instance because the file was cut meanwhile. */
mscrt_status *mscrt_blob_read(const mscrt_blob *b, uint64_t at, void *out, size_t num);
/* Replaces a gzip file by its inflated bytes, at most this many, in memory. */
mscrt_status *mscrt_blob_inflate(mscrt_blob *b, uint64_t most);
/* The first inflated bytes, enough for any header. */
#define MSCRT_HEAD_BYTES ((size_t)128 << 10)
mscrt_status *mscrt_blob_inflate_head(const mscrt_blob *b, mscrt_blob *out_head);
/* Reads a file of at most this many bytes into memory: then a sample costs no system call. */
#define MSCRT_KEPT_BYTES ((uint64_t)16 << 20)
mscrt_status *mscrt_blob_keep(mscrt_blob *b);
/* A failure that names the file. */
#define mscrt_bad_file(b, fmt, ...) mscrt_fail(MSCRT_INPUT, "%s: " fmt, (b)->path, __VA_ARGS__)

/* ---- data/decimal.c ---- */

/* Reads the number that text begins with, after blanks, with a decimal point in any locale; *out_end is behind it, or
 * text if there is none. False: the number is too large for f64. */
bool mscrt_read_decimal(const char *text, char **out_end, double *out_number);

/* ---- data/file.c: a file that is written beside the one that it will replace ---- */

typedef struct {
  char *path;      /* with links followed; owned */
  char *temporary; /* owned */
  int fd;          /* -1: none */
} mscrt_file;

/* Creates the empty file. After a failure nothing is left, and mscrt_file_end does nothing. */
mscrt_status *mscrt_file_begin(const char *path, mscrt_file *out_file);
mscrt_status *mscrt_file_write(const mscrt_file *f, const void *data, size_t bytes);
/* Replaces the old file by the new one; removes the new one if s, which is returned, or writing failed. */
mscrt_status *mscrt_file_end(mscrt_file *f, mscrt_status *s);

/* Makes the names in a folder, or in that of a path, durable: otherwise a new name might be lost although its data is
 * not. */
void mscrt_sync_folder(const char *path);
void mscrt_sync_folder_of(const char *path);
/* Removes a folder of files, in which there are no folders; one that does not exist is no failure. */
mscrt_status *mscrt_remove_folder(const char *path);
/* True if there is a folder of this name, or a link to one. */
bool mscrt_is_folder(const char *path);

/* ---- data/folder.c: the same of a folder, whose files are written into `partial`, beside it ---- */

typedef struct {
  char *path, *partial; /* owned */
} mscrt_folder;

/* Sets the names only. */
mscrt_status *mscrt_folder_name(const char *path, mscrt_folder *out_folder);
/* Makes the empty folder `partial`. What is under the name must be an empty folder, or one with a file `marker` (NULL:
 * must be empty), which the new one replaces. */
mscrt_status *mscrt_folder_make(const mscrt_folder *f, const char *marker);
/* Calls mscrt_folder_name and mscrt_folder_make; after a failure no file and no memory is left. */
mscrt_status *mscrt_folder_begin(const char *path, const char *marker, mscrt_folder *out_folder);
/* Gives the folder its name, and removes an older folder of this name. */
mscrt_status *mscrt_folder_place(const mscrt_folder *f);
/* Gives the folder its name if s is NULL. If s is a failure, which is returned, or this fails, removes all files that
 * were written. */
mscrt_status *mscrt_folder_end(const mscrt_folder *f, mscrt_status *s);
void mscrt_folder_free(mscrt_folder *f);

/* ---- an array in a blob: row major, `bytes` long from `at` ---- */

typedef struct {
  mscrt_dtype dtype;
  bool big_endian;
  int rank;                     /* dimensions above MSCRT_MAX_RANK are not in dim: such an array cannot be used */
  int64_t dim[MSCRT_MAX_RANK];
  uint64_t at, bytes;
} mscrt_array;

/* Checks that the data of the array lie in the file and that nothing follows them; a blob that is cut passes. */
mscrt_status *mscrt_array_fills(const mscrt_blob *b, const char *format, const mscrt_array *a);

bool mscrt_is_idx(const uint8_t *head, size_t bytes);
bool mscrt_is_npy(const uint8_t *head, size_t bytes);
bool mscrt_is_safetensors(const uint8_t *head, size_t bytes, uint64_t file_bytes);
bool mscrt_is_gzip(const uint8_t *head, size_t bytes);

mscrt_status *mscrt_idx_parse(const mscrt_blob *b, mscrt_array *out_array); /* data/formats/idx.c */
mscrt_status *mscrt_npy_parse(const mscrt_blob *b, mscrt_array *out_array); /* data/formats/npy.c */
/* Writes the header of an array. The format has no bf16: such values are to be written as f32. */
mscrt_status *mscrt_npy_begin(const mscrt_file *f, mscrt_dtype dtype, int rank, const int64_t *shape);

/* data/formats/safetensors.c */
typedef struct {
  char *name;    /* in `text` */
  bool known;    /* an element type that msc has; others may be in a file if they are not used */
  mscrt_array array;
} mscrt_named_array;

typedef struct {
  size_t num;
  mscrt_named_array *tensor; /* sorted by name */
  const char *checksums;     /* metadata MSCRT_CHECKSUMS, in `text`; NULL: it has none */
  char *text;
} mscrt_safetensors;

/* Metadata of the files of a checkpoint: the XXH3 of each tensor, sixteen digits, in the order of their data. */
#define MSCRT_CHECKSUMS "msc.xxh3"

mscrt_status *mscrt_safetensors_parse(const mscrt_blob *b, mscrt_safetensors *out_tensors);
void mscrt_safetensors_free(mscrt_safetensors *t);
const mscrt_named_array *mscrt_safetensors_find(const mscrt_safetensors *t, const char *name);
/* Convert between element types and their names, "F32". */
const char *mscrt_safetensors_dtype(mscrt_dtype d);
bool mscrt_dtype_of_safetensors(const char *text, mscrt_dtype *out_dtype);

/* ---- records: samples that are no elements of an array in a file, but are decoded one by one ---- */

/* What an input expects: its global shape, of which dimension batch_dim counts samples (-1: the file is the whole
 * tensor). */
typedef struct {
  const char *name;
  mscrt_role role;
  mscrt_dtype dtype;
  int rank, batch_dim;
  int64_t shape[MSCRT_MAX_RANK];
} mscrt_wanted;

/* The shape of one sample of the input; returns its rank. */
static inline int mscrt_sample_shape(const mscrt_wanted *w, int64_t *out_shape) {
  int rank = 0;
  for (int d = 0; d < w->rank; d++)
    if (d != w->batch_dim) out_shape[rank++] = w->shape[d];
  return rank;
}

typedef struct mscrt_records mscrt_records;
struct mscrt_records {
  /* Writes sample `number`, in elements of the array that the reader told of, row major, to `line`. May be called by
   * several threads at once. */
  mscrt_status *(*decode)(const mscrt_records *r, int64_t number, void *line);
  void (*free)(mscrt_records *r);
  bool apart; /* a sample is decoded without others: if it is damaged, they are not */
  _Atomic bool slow; /* decoding a sample takes long enough for several threads to share a batch */
};

/* Each sets *out_array to the number of samples and what one of them is, and *out_records to what the caller frees.
 * A damaged sample is reported, with its place, when it is decoded. */

/* data/formats/csv.c: lines of numbers between commas, or tabs, below a line of names. columns: "a,b,c", by name or as
 * numbers from 0 on; NULL: all, or of a file with the input's name in its first line that column. Takes the blob. */
mscrt_status *mscrt_csv_open(mscrt_blob *b, const mscrt_wanted *w, const char *columns, mscrt_array *out_array,
                             mscrt_records **out_records);
bool mscrt_is_csv_name(const char *path);
/* data/formats/parquet.c: rows of a Parquet file. columns: as of CSV. Takes the blob. */
mscrt_status *mscrt_parquet_open(mscrt_blob *b, const mscrt_wanted *w, const char *columns, mscrt_array *out_array,
                                 mscrt_records **out_records);
bool mscrt_is_parquet_name(const char *path);
/* data/formats/image_folder.c: a folder of images, or of folders of images, each of which is a class: classes count
 * from 0 in the order of their names. Inputs that are labels get the classes. */
mscrt_status *mscrt_image_folder_open(const char *path, const mscrt_wanted *w, mscrt_array *out_array,
                                      mscrt_records **out_records);
/* data/formats/tar.c: a tar archive in which KEY.EXTENSION belong to one sample KEY, as WebDataset has it; `extension`:
 * which of them the input reads: images, .npy arrays, numbers as text. Takes the blob. */
bool mscrt_is_tar(const mscrt_blob *b);
mscrt_status *mscrt_tar_open(mscrt_blob *b, const mscrt_wanted *w, const char *extension, mscrt_array *out_array,
                             mscrt_records **out_records);

/* ---- data/formats/image.c: PNG and JPEG, decoded by libraries that are loaded when a file needs them ---- */

typedef struct {
  int64_t height, width;
  int channels;         /* 1 or 3 */
  bool channels_first;
} mscrt_picture;

bool mscrt_is_image(const uint8_t *head, size_t bytes);
/* How an input of this shape, [C,H,W], [H,W,C] or [H,W] with 1 or 3 channels, takes pictures; false: it takes none. */
bool mscrt_picture_of(const mscrt_wanted *w, mscrt_picture *out_picture);
/* Decodes a picture, stretches or shrinks it until it just covers the wanted size, and cuts its middle out of it: u8,
 * as the input has its dimensions. `name`: for messages. */
mscrt_status *mscrt_picture_decode(const char *name, const void *bytes, size_t num, const mscrt_picture *p,
                                   uint8_t *out);

/* ---- data/read_samples.c: one input's file as samples ---- */

typedef enum { MSCRT_IDX, MSCRT_NPY, MSCRT_SAFETENSORS, MSCRT_TOKENS, MSCRT_RECORDS } mscrt_file_kind;

typedef struct {
  mscrt_blob blob;
  mscrt_file_kind kind;
  mscrt_array array;
  int64_t window;   /* tokens: length of a sample; sample i starts at token i * window */
  bool next;        /* tokens: this is a label, whose values are the next tokens */
  mscrt_records *records; /* what decodes samples; NULL: they lie in the blob as they are */
} mscrt_samples;

/* Opens the file of an input. `file` may end in :u8, :u16, :i32 (raw tokens), :TENSOR (safetensors), :COLUMN,COLUMN
 * (CSV, Parquet) or :EXTENSION (tar). Checks kind, element type and sample shape. */
mscrt_status *mscrt_samples_open(const mscrt_wanted *w, const char *file, mscrt_samples *out_samples);
void mscrt_samples_close(mscrt_samples *s);
int64_t mscrt_samples_count(const mscrt_samples *s);
/* Reads `box` of a batch, row major and converted, into dst: a buffer of dst_box with the box at its beginning.
 * sample[i] is the number of sample i of the batch (unused if batch_dim is -1). line: scratch memory for one sample
 * of the file, mscrt_samples_line bytes. The bytes read from the file are added to *read, but for records. */
mscrt_status *mscrt_samples_read(const mscrt_samples *s, const mscrt_wanted *w, const uint64_t *sample,
                                 const msc_box *box, const msc_box *dst_box, void *line, void *dst, uint64_t *read);
size_t mscrt_samples_line(const mscrt_samples *s, const mscrt_wanted *w);

#endif
