/* read_archive.c: a box of a tensor in; its elements, converted, out. Of the files of its shards only the bytes of the
 * box are read. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/data/archive.h"

#define LINE_BYTES   ((size_t)256 << 10)
#define DIRECT_BYTES ((size_t)64 << 10) /* runs this long need no scratch memory */
#define MAX_RUNS     1024

/* ---- the runs of a box in the order of the elements of its tensor ---- */

/* A box lies in memory of the box `buffer`. Dimensions from `outer` on make one run. */
typedef struct {
  int outer;
  int64_t size[MSCRT_MAX_RANK], whole[MSCRT_MAX_RANK], room[MSCRT_MAX_RANK]; /* of outer dimensions */
  int64_t first, first_local;                           /* element of the tensor, and place in the buffer, of run 0 */
  int64_t stride[MSCRT_MAX_RANK], step[MSCRT_MAX_RANK]; /* of outer dimensions, there and there */
  int64_t run, num;                                     /* elements of a run, number of runs */
  int64_t at, element, local;                           /* the current run */
} runs;

static void place_run(runs *r, int64_t at) {
  int64_t left = at;
  r->at = at;
  r->element = r->first;
  r->local = r->first_local;
  for (int d = r->outer - 1; d >= 0; d--) {
    int64_t i = left % r->size[d];
    left /= r->size[d];
    r->element += i * r->stride[d];
    r->local += i * r->step[d];
  }
}

static runs runs_of(int rank, const int64_t *shape, const msc_box *box, const msc_box *buffer) {
  runs r = {.outer = rank, .run = 1, .num = 1};
  bool joins = true;
  int64_t stride = 1, step = 1;
  for (int d = rank - 1; d >= 0; d--) {
    if (joins) {
      r.outer = d;
      r.run *= box->size[d];
      joins = box->size[d] == shape[d] && buffer->size[d] == shape[d];
    }
    r.stride[d] = stride;
    r.step[d] = step;
    r.size[d] = box->size[d];
    r.first += box->begin[d] * stride;
    r.first_local += (box->begin[d] - buffer->begin[d]) * step;
    stride *= shape[d];
    step *= buffer->size[d];
  }
  for (int d = 0; d < r.outer; d++) r.num *= r.size[d];
  if (!r.run) r.num = 0;
  if (r.num) place_run(&r, 0);
  return r;
}

/* Goes to the first run that ends behind an element: mostly the next, else by halving. */
static void seek_run(runs *r, int64_t element) {
  int64_t low = r->at + 1, high = r->num;
  for (int64_t jump = 1; low < high; jump *= 2) {
    int64_t probe = low + jump - 1 < high ? low + jump - 1 : high - 1;
    place_run(r, probe);
    if (r->element + r->run > element) {
      high = probe;
      break;
    }
    low = probe + 1;
  }
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    place_run(r, middle);
    if (r->element + r->run > element) high = middle;
    else low = middle + 1;
  }
  r->at = low;
  if (low < r->num) place_run(r, low);
}

/* ---- reading runs of one shard ---- */

typedef struct {
  mscrt_archive *a;
  const mscrt_stored *t;
  const mscrt_shard *shard;
  const mscrt_reading *to;
  size_t bytes, to_bytes; /* of an element, there and here */
  bool hashes;
  /* runs that lie one behind the other in the file and are not read yet */
  int num;
  int64_t from, elems, local[MAX_RUNS], length[MAX_RUNS];
} reader;

static mscrt_status *make_scratch(mscrt_archive *a) {
  if (!a->line) MSCRT_CHECK(mscrt_allocate((void **)&a->line, LINE_BYTES, 1));
  if (!a->hash) a->hash = XXH3_createState();
  return a->hash ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
}

static mscrt_status *read_bytes(reader *r, int64_t from, int64_t elems, void *out) {
  size_t bytes = (size_t)elems * r->bytes;
  MSCRT_CHECK(mscrt_blob_read(&r->a->file[r->shard->file].blob, r->shard->at + (uint64_t)from * r->bytes, out, bytes));
  r->a->read_bytes += bytes;
  if (r->hashes) XXH3_64bits_update(r->a->hash, out, bytes);
  return NULL;
}

static mscrt_status *flush_runs(reader *r) {
  if (!r->num) return NULL;
  MSCRT_CHECK(read_bytes(r, r->from, r->elems, r->a->line));
  const uint8_t *from = r->a->line;
  for (int i = 0; i < r->num; i++) {
    uint8_t *to = (uint8_t *)r->to->data + (size_t)r->local[i] * r->to_bytes;
    int64_t bad = mscrt_convert(r->to->dtype, to, 1, r->t->dtype, from, false, false, r->length[i]);
    if (bad != MSCRT_CONVERTED)
      return mscrt_bad_file(&r->a->file[r->shard->file].blob, "tensor '%s': a value does not fit %s", r->t->name,
                            mscrt_dtype_name(r->to->dtype));
    from += (size_t)r->length[i] * r->bytes;
  }
  r->num = 0;
  r->elems = 0;
  return NULL;
}

static mscrt_status *add_run(reader *r, int64_t from, int64_t local, int64_t num) {
  bool same = r->to->dtype == r->t->dtype && r->t->dtype != MSCRT_I1;
  if (same && (size_t)num * r->bytes >= DIRECT_BYTES) {
    MSCRT_CHECK(flush_runs(r));
    return read_bytes(r, from, num, (uint8_t *)r->to->data + (size_t)local * r->to_bytes);
  }
  while (num) {
    int64_t room = (int64_t)(LINE_BYTES / r->bytes) - r->elems;
    if (r->num == MAX_RUNS || !room || (r->num && from != r->from + r->elems)) {
      MSCRT_CHECK(flush_runs(r));
      room = (int64_t)(LINE_BYTES / r->bytes);
    }
    int64_t part = num < room ? num : room;
    if (!r->num) r->from = from;
    r->local[r->num] = local;
    r->length[r->num++] = part;
    r->elems += part;
    from += part, local += part, num -= part;
  }
  return NULL;
}

/* Reads what a shard and the wanted box have in common: both are runs of elements of the tensor. */
static mscrt_status *read_shard(mscrt_archive *a, const mscrt_stored *t, const mscrt_shard *s,
                                const mscrt_reading *to) {
  runs have = runs_of(t->view_rank, t->view, &s->box, &s->box),
       want = runs_of(to->rank, to->shape, &to->box, &to->buffer);
  int64_t taken = 0, whole = have.run * have.num;
  uint32_t file = s->file;
  reader r = {.a = a,
              .t = t,
              .shard = s,
              .to = to,
              .bytes = mscrt_dtype_bytes(t->dtype),
              .to_bytes = mscrt_dtype_bytes(to->dtype),
              .hashes = s->hashed};
  MSCRT_CHECK(make_scratch(a));
  XXH3_64bits_reset(a->hash);
  while (have.at < have.num && want.at < want.num) {
    int64_t have_end = have.element + have.run, want_end = want.element + want.run;
    int64_t begin = have.element > want.element ? have.element : want.element,
            end = have_end < want_end ? have_end : want_end;
    if (begin < end) {
      MSCRT_CHECK(mscrt_archive_open_file(a, file));
      MSCRT_CHECK(add_run(&r, have.local + begin - have.element, want.local + begin - want.element, end - begin));
      taken += end - begin;
      if (have_end <= want_end) seek_run(&have, have_end);
      else seek_run(&want, want_end);
    } else if (have_end <= want.element) {
      seek_run(&have, want.element);
    } else {
      seek_run(&want, have.element);
    }
  }
  MSCRT_CHECK(flush_runs(&r));
  if (s->hashed && taken == whole && whole && XXH3_64bits_digest(a->hash) != s->xxh3)
    return mscrt_bad_file(&a->file[file].blob, "is damaged: the checksum of tensor '%s' is wrong", t->name);
  return NULL;
}

static bool is_same_view(const mscrt_stored *t, const mscrt_reading *to) {
  return t->view_rank == to->rank && !memcmp(t->view, to->shape, sizeof *t->view * (size_t)to->rank);
}

mscrt_status *mscrt_archive_read(mscrt_archive *a, const mscrt_stored *t, const mscrt_reading *to) {
  msc_box common;
  bool same = is_same_view(t, to);
  for (uint32_t i = 0; i < t->num; i++) {
    const mscrt_shard *s = &a->shard[t->first + i];
    if (!same || msc_box_intersect(t->view_rank, &s->box, &to->box, &common)) MSCRT_CHECK(read_shard(a, t, s, to));
  }
  return NULL;
}

mscrt_status *mscrt_archive_elements(mscrt_archive *a, const mscrt_stored *t, uint64_t begin, uint64_t num, void *out) {
  int64_t shape = (int64_t)mscrt_stored_elems(t);
  msc_box box = {{(int64_t)begin}, {(int64_t)num}};
  mscrt_reading to = {t->dtype, 1, &shape, box, box, out};
  return mscrt_archive_read(a, t, &to);
}

static mscrt_status *verify_shard(mscrt_archive *a, const mscrt_stored *t, const mscrt_shard *s) {
  uint64_t bytes = (uint64_t)msc_box_elems(t->view_rank, &s->box) * mscrt_dtype_bytes(t->dtype);
  MSCRT_CHECK(make_scratch(a));
  MSCRT_CHECK(mscrt_archive_open_file(a, s->file));
  XXH3_64bits_reset(a->hash);
  for (uint64_t at = 0; at < bytes; at += LINE_BYTES) {
    size_t num = bytes - at < LINE_BYTES ? (size_t)(bytes - at) : LINE_BYTES;
    MSCRT_CHECK(mscrt_blob_read(&a->file[s->file].blob, s->at + at, a->line, num));
    XXH3_64bits_update(a->hash, a->line, num);
  }
  if (!s->hashed || XXH3_64bits_digest(a->hash) == s->xxh3) return NULL;
  return mscrt_bad_file(&a->file[s->file].blob, "is damaged: the checksum of tensor '%s' is wrong", t->name);
}

/* The header of a file of a checkpoint must say what the manifest says, for other readers. */
static mscrt_status *verify_header(mscrt_archive *a, uint32_t file) {
  mscrt_safetensors h;
  const mscrt_blob *b = &a->file[file].blob;
  MSCRT_CHECK(mscrt_safetensors_parse(b, &h));
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < a->num && !s; i++) {
    const mscrt_stored *t = &a->tensor[i];
    for (uint32_t k = 0; k < t->num && !s; k++) {
      const mscrt_shard *shard = &a->shard[t->first + k];
      const mscrt_named_array *found = shard->file == file ? mscrt_safetensors_find(&h, t->name) : NULL;
      if (shard->file == file && (!found || found->array.at != shard->at || found->array.dtype != t->dtype))
        s = mscrt_bad_file(b, "is damaged: its header and the manifest differ about tensor '%s'", t->name);
    }
  }
  mscrt_safetensors_free(&h);
  return s;
}

mscrt_status *mscrt_archive_verify(mscrt_archive *a) {
  for (uint32_t i = 0; i < a->num_files; i++) {
    MSCRT_CHECK(mscrt_archive_open_file(a, i));
    if (a->is_checkpoint) MSCRT_CHECK(verify_header(a, i));
  }
  for (uint32_t i = 0; i < a->num; i++)
    for (uint32_t k = 0; k < a->tensor[i].num; k++)
      MSCRT_CHECK(verify_shard(a, &a->tensor[i], &a->shard[a->tensor[i].first + k]));
  return NULL;
}
