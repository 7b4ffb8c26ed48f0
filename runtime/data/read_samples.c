/* read_samples.c: the file of one input in; boxes of batches of its samples out. Finds the format of the file and
 * checks that it fits the input. */
#include <stdlib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/data.h"
#include "runtime/thread_pool.h"

/* ---- which file, which kind ---- */

static bool token_dtype(const char *suffix, mscrt_dtype *out_dtype) {
  static const struct {
    const char *text;
    mscrt_dtype dtype;
  } kinds[] = {{"u8", MSCRT_U8}, {"u16", MSCRT_U16}, {"i32", MSCRT_I32}};
  for (int i = 0; suffix && i < 3; i++)
    if (!strcmp(suffix, kinds[i].text)) {
      *out_dtype = kinds[i].dtype;
      return true;
    }
  return false;
}

/* Splits FILE:SUFFIX, unless a file of the whole name exists. The caller frees `path`. */
static mscrt_status *split_file_name(const char *file, char **out_path, const char **out_suffix) {
  const char *colon = strrchr(file, ':');
  if (colon == file || access(file, F_OK) == 0) colon = NULL;
  *out_suffix = colon ? colon + 1 : NULL;
  *out_path = colon ? strndup(file, (size_t)(colon - file)) : strdup(file);
  return *out_path ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

static mscrt_status *pick_tensor(const mscrt_blob *b, const char *wanted, const char *suffix, mscrt_array *out_array) {
  mscrt_safetensors t;
  MSCRT_CHECK(mscrt_safetensors_parse(b, &t));
  const mscrt_named_array *n = mscrt_safetensors_find(&t, suffix ? suffix : wanted);
  if (!n && !suffix && t.num == 1) n = t.tensor;
  mscrt_status *s = NULL;
  if (!n)
    s = mscrt_bad_file(b, "has no tensor '%s'; choose one of its %zu with FILE:TENSOR", suffix ? suffix : wanted,
                       t.num);
  else if (!n->known)
    s = mscrt_bad_file(b, "tensor '%s' has an element type or a rank that is not supported", suffix ? suffix : wanted);
  else *out_array = n->array;
  mscrt_safetensors_free(&t);
  return s;
}

static mscrt_status *read_head(const mscrt_blob *b, uint8_t head[16], size_t *out_bytes) {
  *out_bytes = b->bytes < 16 ? (size_t)b->bytes : 16;
  return mscrt_blob_read(b, 0, head, *out_bytes);
}

/* Finds the format of bytes that are not compressed. */
static mscrt_status *recognise_format(mscrt_samples *s, const mscrt_wanted *w, const char *suffix) {
  mscrt_blob *b = &s->blob;
  uint8_t head[16];
  size_t bytes;
  mscrt_dtype token = MSCRT_U8;
  bool tokens = token_dtype(suffix, &token);
  MSCRT_CHECK(read_head(b, head, &bytes));
  if (!tokens && mscrt_is_safetensors(head, bytes, b->bytes)) {
    s->kind = MSCRT_SAFETENSORS;
    return pick_tensor(b, w->name, suffix, &s->array);
  }
  if (suffix && !tokens)
    return mscrt_bad_file(
        b, "':%s' is neither u8, u16, i32 (raw tokens) nor, since this is no safetensors file, a tensor", suffix);
  if (!tokens && mscrt_is_idx(head, bytes)) {
    s->kind = MSCRT_IDX;
    return mscrt_idx_parse(b, &s->array);
  }
  if (!tokens && mscrt_is_npy(head, bytes)) {
    s->kind = MSCRT_NPY;
    return mscrt_npy_parse(b, &s->array);
  }
  s->kind = MSCRT_TOKENS;
  s->array = (mscrt_array){
      .dtype = token, .rank = 1, .bytes = b->bytes, .dim = {(int64_t)(b->bytes / mscrt_dtype_bytes(token))}};
  return NULL;
}

bool mscrt_is_gzip(const uint8_t *head, size_t bytes) {
  return bytes >= 3 && head[0] == 0x1f && head[1] == 0x8b && head[2] == 8;
}

/* ---- checks ---- */

static int drop_ones(int rank, const int64_t *dim, int64_t *out) {
  int n = 0;
  for (int d = 0; d < rank; d++)
    if (dim[d] != 1) out[n++] = dim[d];
  return n;
}

/* True if the shapes fit: sizes of 1 are ignored, and the trailing dimensions of the file may be one dimension of
 * the input. */
static bool shapes_fit(int file_rank, const int64_t *file, int rank, const int64_t *want) {
  int64_t f[MSCRT_MAX_RANK], v[MSCRT_MAX_RANK], rest = 1;
  int nf = drop_ones(file_rank, file, f), nv = drop_ones(rank, want, v), same = 0;
  while (same < nf && same < nv && f[same] == v[same]) same++;
  if (same == nf && same == nv) return true;
  for (int d = same; d < nf; d++)
    if (__builtin_mul_overflow(rest, f[d], &rest)) return false;
  return same + 1 == nv && same + 1 < nf && v[same] == rest;
}

/* Checks that the input takes tokens: it is integer and has a batch dimension. Sets the length of a sample. */
static mscrt_status *check_window(const mscrt_blob *b, const mscrt_wanted *w, uint64_t *out_window) {
  int64_t shape[MSCRT_MAX_RANK];
  int rank = mscrt_sample_shape(w, shape);
  if (mscrt_is_float(w->dtype) || w->role == MSCRT_MASK)
    return mscrt_bad_file(b, "neither idx, npy nor safetensors, and raw tokens go to integer inputs: input '%s' is %s",
                          w->name, mscrt_dtype_name(w->dtype));
  if (w->batch_dim < 0 || !mscrt_shape_bytes(rank, shape, 1, out_window) || *out_window == 0)
    return mscrt_bad_file(
        b, "raw tokens need an input with a batch dimension and windows of at least one token, which '%s' has not",
        w->name);
  return NULL;
}

static mscrt_status *check_tokens(mscrt_samples *s, const mscrt_wanted *w) {
  uint64_t window;
  MSCRT_CHECK(check_window(&s->blob, w, &window));
  if (s->blob.bytes % mscrt_dtype_bytes(s->array.dtype))
    return mscrt_bad_file(&s->blob, "%" PRIu64 " bytes are no whole number of %s tokens", s->blob.bytes,
                          mscrt_dtype_name(s->array.dtype));
  s->window = (int64_t)window;
  s->next = w->role == MSCRT_LABEL;
  if (s->array.dim[0] < s->window + 1)
    return mscrt_bad_file(&s->blob,
                          "%" PRId64 " tokens are fewer than one window of %" PRId64 " and the token after it",
                          s->array.dim[0], s->window);
  return NULL;
}

static mscrt_status *check_array(const mscrt_samples *s, const mscrt_wanted *w) {
  const mscrt_array *a = &s->array;
  char have[MSCRT_SHAPE_TEXT], want[MSCRT_SHAPE_TEXT];
  int64_t shape[MSCRT_MAX_RANK];
  int rank = mscrt_sample_shape(w, shape), skip = w->batch_dim >= 0;
  mscrt_shape_text(a->rank, a->dim, have);
  mscrt_shape_text(w->rank, w->shape, want);
  if (a->rank < skip || !shapes_fit(a->rank - skip, a->dim + skip, rank, shape))
    return mscrt_bad_file(&s->blob, "shape %s does not fit input '%s' of shape %s%s", have, w->name, want,
                          skip ? " (the first dimension counts samples)" : "");
  return NULL;
}

static mscrt_status *check_samples(mscrt_samples *s, const mscrt_wanted *w) {
  if (!mscrt_converts(s->array.dtype, w->dtype))
    return mscrt_bad_file(&s->blob, "%s values do not go into input '%s' of %s", mscrt_dtype_name(s->array.dtype),
                          w->name, mscrt_dtype_name(w->dtype));
  return s->kind == MSCRT_TOKENS ? check_tokens(s, w) : check_array(s, w);
}

/* ---- gzip ---- */

#define MAX_INFLATED ((uint64_t)1 << 30) /* limit for files without a header that gives the size */

/* Finds the inflated size of a gzip file that fits the input, from its header, which is checked first. */
static mscrt_status *inflated_bytes(const mscrt_blob *b, const mscrt_wanted *w, uint64_t *out_bytes) {
  mscrt_samples head = {.blob.fd = -1};
  uint64_t window;
  *out_bytes = MAX_INFLATED;
  MSCRT_CHECK(mscrt_blob_inflate_head(b, &head.blob));
  const uint8_t *bytes = head.blob.memory;
  size_t num = (size_t)head.blob.bytes;
  mscrt_status *s = NULL;
  if (mscrt_is_idx(bytes, num) || mscrt_is_npy(bytes, num)) {
    s = recognise_format(&head, w, NULL);
    if (!s) s = check_samples(&head, w);
    *out_bytes = head.array.at + head.array.bytes;
  } else if (!mscrt_is_safetensors(bytes, num, UINT64_MAX)) {
    s = check_window(b, w, &window);
  }
  mscrt_blob_close(&head.blob);
  return s;
}

static mscrt_status *inflate_samples(mscrt_blob *b, const mscrt_wanted *w, const char *suffix) {
  uint8_t head[16];
  size_t bytes;
  uint64_t inflated;
  mscrt_dtype token;
  MSCRT_CHECK(read_head(b, head, &bytes));
  if (token_dtype(suffix, &token) || !mscrt_is_gzip(head, bytes)) return NULL;
  MSCRT_CHECK(inflated_bytes(b, w, &inflated));
  return mscrt_blob_inflate(b, inflated);
}

/* ---- opening ---- */

/* Opens a file whose samples are decoded one by one; *out_is: it is such a file, and the blob then has only its
 * name. */
static mscrt_status *open_records(mscrt_samples *s, const mscrt_wanted *w, const char *path, const char *suffix,
                                  bool *out_is) {
  bool folder = mscrt_is_folder(path), csv = mscrt_is_csv_name(path), parquet = mscrt_is_parquet_name(path);
  bool tar = false;
  char *name = strdup(path);
  mscrt_status *t = name ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (!t && folder) {
    t = mscrt_image_folder_open(path, w, &s->array, &s->records);
  } else if (!t) {
    t = mscrt_blob_open(path, &s->blob);
    if (!t && csv) t = mscrt_csv_open(&s->blob, w, suffix, &s->array, &s->records);
    else if (!t && parquet) t = mscrt_parquet_open(&s->blob, w, suffix, &s->array, &s->records);
    else if (!t && (tar = mscrt_is_tar(&s->blob))) t = mscrt_tar_open(&s->blob, w, suffix, &s->array, &s->records);
  }
  *out_is = folder || csv || parquet || tar;
  if (t || !*out_is) return free(name), t;
  if (w->batch_dim < 0) t = mscrt_fail(MSCRT_INPUT, "%s: samples need an input with a batch dimension", path);
  s->kind = MSCRT_RECORDS;
  s->blob.path = name;
  return t;
}

mscrt_status *mscrt_samples_open(const mscrt_wanted *w, const char *file, mscrt_samples *out_samples) {
  char *path = NULL;
  const char *suffix;
  bool records = false;
  *out_samples = (mscrt_samples){.blob.fd = -1};
  mscrt_status *s = split_file_name(file, &path, &suffix);
  if (!s) s = open_records(out_samples, w, path, suffix, &records);
  free(path);
  if (!s && !records) s = inflate_samples(&out_samples->blob, w, suffix);
  if (!s && !records) s = recognise_format(out_samples, w, suffix);
  if (!s) s = check_samples(out_samples, w);
  if (s) mscrt_samples_close(out_samples);
  return s;
}

void mscrt_samples_close(mscrt_samples *s) {
  mscrt_blob_close(&s->blob);
  if (s->records) s->records->free(s->records);
  s->records = NULL;
}

int64_t mscrt_samples_count(const mscrt_samples *s) {
  return s->kind == MSCRT_TOKENS ? (s->array.dim[0] - 1) / s->window : s->array.dim[0];
}

/* ---- reading boxes of batches ---- */

/* How a sample lies in the file and in dst: its dimensions without the batch, as strides in elements. */
typedef struct {
  int rank; /* number of dimensions walked; the inner ones are one run */
  int64_t begin[MSCRT_MAX_RANK], size[MSCRT_MAX_RANK];
  int64_t from[MSCRT_MAX_RANK], to[MSCRT_MAX_RANK];
  int64_t run, run_to; /* elements of a run, and their distance in dst */
  int64_t batch_to;    /* distance of samples in dst */
  int64_t elems;       /* elements of a whole sample */
} walk;

static walk plan_walk(const mscrt_wanted *w, const msc_box *box, const msc_box *dst_box) {
  walk k = {.run = 1, .run_to = 1, .batch_to = 1, .elems = 1};
  int64_t to[MSCRT_MAX_RANK] = {0}, whole[MSCRT_MAX_RANK], stride = 1;
  for (int d = w->rank - 1; d >= 0; d--) {
    to[d] = stride;
    stride *= dst_box->size[d];
  }
  if (w->batch_dim >= 0) k.batch_to = to[w->batch_dim];
  for (int d = 0; d < w->rank; d++) {
    if (d == w->batch_dim) continue;
    k.begin[k.rank] = box->begin[d];
    k.size[k.rank] = box->size[d];
    k.to[k.rank] = to[d];
    whole[k.rank++] = w->shape[d];
  }
  for (int d = k.rank - 1; d >= 0; d--) {
    k.from[d] = k.elems;
    k.elems *= whole[d];
  }
  if (k.rank == 0) return k;
  k.run = k.size[k.rank - 1];
  k.run_to = k.to[k.rank - 1];
  /* The run is extended over dimensions that are whole and contiguous on both sides. */
  while (k.rank > 1 && k.size[k.rank - 1] == whole[k.rank - 1] && k.run == k.from[k.rank - 2] &&
         k.to[k.rank - 2] == k.run * k.run_to) {
    k.rank--;
    k.run *= k.size[k.rank - 1];
  }
  k.begin[k.rank - 1] = k.begin[k.rank - 1] * k.from[k.rank - 1];
  k.rank--;
  return k;
}

/* Returns the first element of the sample that the box needs. */
static int64_t first_needed(const walk *k) {
  int64_t first = k->begin[k->rank];
  for (int d = 0; d < k->rank; d++) first += k->begin[d] * k->from[d];
  return first;
}

/* Reads the runs of the box from the sample that begins at `at`, each to its place in the memory that begins at `line`.
 * Runs with small gaps between them are read together, all others one by one, so that a window of a large image costs
 * only its own bytes. */
static mscrt_status *read_runs(const mscrt_blob *b, const walk *k, size_t elem_bytes, uint64_t at, uint8_t *line,
                               uint64_t *read) {
  enum { SMALL_GAP = 512 }; /* bytes whose copy costs less than a system call */
  int64_t step[MSCRT_MAX_RANK] = {0}, bytes = (int64_t)elem_bytes, num = k->run * bytes;
  int outer = k->rank;
  while (outer > 0 && (k->size[outer - 1] == 1 || k->from[outer - 1] * bytes - num <= SMALL_GAP)) {
    outer--;
    num += (k->size[outer] - 1) * k->from[outer] * bytes;
  }
  for (;;) {
    uint64_t to = 0;
    for (int d = 0; d < outer; d++) to += (uint64_t)(step[d] * k->from[d] * bytes);
    MSCRT_CHECK(mscrt_blob_read(b, at + to, line + to, (size_t)num));
    *read += (uint64_t)num;
    int d = outer - 1;
    while (d >= 0 && ++step[d] == k->size[d]) step[d--] = 0;
    if (d < 0) return NULL;
  }
}

size_t mscrt_samples_line(const mscrt_samples *s, const mscrt_wanted *w) {
  int64_t shape[MSCRT_MAX_RANK];
  uint64_t bytes = 0;
  mscrt_shape_bytes(mscrt_sample_shape(w, shape), shape, mscrt_dtype_bytes(s->array.dtype), &bytes);
  return (size_t)bytes;
}

static mscrt_status *convert_sample(const mscrt_samples *s, const mscrt_wanted *w, const walk *k, const uint8_t *line,
                                    int64_t first, int64_t number, uint8_t *dst) {
  size_t from_bytes = mscrt_dtype_bytes(s->array.dtype), to_bytes = mscrt_dtype_bytes(w->dtype);
  bool scale = w->role == MSCRT_DATA && s->kind != MSCRT_TOKENS;
  int64_t at[MSCRT_MAX_RANK] = {0};
  for (;;) {
    int64_t from = k->begin[k->rank] - first, to = 0;
    for (int d = 0; d < k->rank; d++) {
      from += (k->begin[d] + at[d]) * k->from[d];
      to += at[d] * k->to[d];
    }
    int64_t bad = mscrt_convert(w->dtype, dst + (size_t)to * to_bytes, k->run_to, s->array.dtype,
                                line + (size_t)from * from_bytes, s->array.big_endian, scale, k->run);
    if (bad != MSCRT_CONVERTED)
      return mscrt_bad_file(&s->blob,
                            "sample %" PRId64 ", element %" PRId64 ": the value does not fit %s of input '%s'", number,
                            first + from + bad, mscrt_dtype_name(w->dtype), w->name);
    int d = k->rank - 1;
    while (d >= 0 && ++at[d] == k->size[d]) at[d--] = 0;
    if (d < 0) return NULL;
  }
}

/* Samples of a batch that are decoded one by one, by whoever has time. */
typedef struct {
  const mscrt_samples *s;
  const mscrt_wanted *w;
  const walk *k;
  const uint64_t *sample;
  int64_t num;
  uint8_t *dst;
  _Atomic int64_t next;
  _Atomic(mscrt_status *) failure; /* of any of them; the others stop */
} decoding;

static void decode_some(decoding *d, void *line) {
  const mscrt_samples *s = d->s;
  for (int64_t i; !atomic_load(&d->failure) && (i = atomic_fetch_add(&d->next, 1)) < d->num;) {
    uint8_t *to = d->dst + (size_t)(i * d->k->batch_to) * mscrt_dtype_bytes(d->w->dtype);
    mscrt_status *t = s->records->decode(s->records, (int64_t)d->sample[i], line), *none = NULL;
    if (!t) t = convert_sample(s, d->w, d->k, line, 0, (int64_t)d->sample[i], to);
    if (t && !atomic_compare_exchange_strong(&d->failure, &none, t)) mscrt_status_free(t);
  }
}

static void *decode_thread(void *arg) {
  decoding *d = arg;
  void *line = malloc(mscrt_samples_line(d->s, d->w) + 1);
  if (line) decode_some(d, line); /* without memory the others do it */
  free(line);
  return NULL;
}

enum { DECODERS = 4 };

static mscrt_status *decode_batch(decoding *d, void *line) {
  pthread_t thread[DECODERS - 1];
  int num = 0, cores = mscrt_cores();
  while (d->s->records->slow && num < DECODERS - 1 && num + 1 < cores && num + 1 < d->num &&
         !pthread_create(&thread[num], NULL, decode_thread, d))
    num++;
  decode_some(d, line);
  for (int i = 0; i < num; i++) pthread_join(thread[i], NULL);
  return d->failure;
}

mscrt_status *mscrt_samples_read(const mscrt_samples *s, const mscrt_wanted *w, const uint64_t *sample,
                                 const msc_box *box, const msc_box *dst_box, void *line, void *dst, uint64_t *read) {
  if (msc_box_elems(w->rank, box) == 0) return NULL;
  walk k = plan_walk(w, box, dst_box);
  if (s->records)
    return decode_batch(&(decoding){.s = s,
                                    .w = w,
                                    .k = &k,
                                    .sample = sample + box->begin[w->batch_dim],
                                    .num = box->size[w->batch_dim],
                                    .dst = dst},
                        line);
  size_t bytes = mscrt_dtype_bytes(s->array.dtype);
  int64_t first = first_needed(&k), batch = w->batch_dim < 0 ? 1 : box->size[w->batch_dim];
  for (int64_t i = 0; i < batch; i++) {
    uint64_t number = w->batch_dim < 0 ? 0 : sample[box->begin[w->batch_dim] + i];
    uint64_t elem = number * (uint64_t)k.elems + (uint64_t)first + s->next;
    uint64_t at = s->array.at + elem * bytes;
    const uint8_t *data = s->blob.fd < 0 ? s->blob.memory + at : line;
    if (s->blob.fd >= 0) MSCRT_CHECK(read_runs(&s->blob, &k, bytes, at, line, read));
    MSCRT_CHECK(convert_sample(s, w, &k, data, first, (int64_t)number,
                               (uint8_t *)dst + (size_t)(i * k.batch_to) * mscrt_dtype_bytes(w->dtype)));
  }
  return NULL;
}
