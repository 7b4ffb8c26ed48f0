/* rank_slices.c: a plan in; which rank writes which part of its parameters, and the files of ranks, or one file of all,
 * out. */
#include "runtime/data/rank_slices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "runtime/data/json.h"

/* ---- which rank writes a slice ---- */

typedef struct {
  msc_box box;
  int rank;
} held;

static int compare_held(const void *a, const void *b) {
  const held *x = a, *y = b;
  for (int d = 0; d < MSC_BOX_RANK; d++)
    if (x->box.begin[d] != y->box.begin[d]) return x->box.begin[d] < y->box.begin[d] ? -1 : 1;
  for (int d = 0; d < MSC_BOX_RANK; d++)
    if (x->box.size[d] != y->box.size[d]) return x->box.size[d] < y->box.size[d] ? -1 : 1;
  return x->rank - y->rank;
}

/* Calls fn for each slice of the plan and the rank that writes it: of the ranks that hold it the one with the fewest
 * bytes so far. Every rank gets the same answers. */
typedef mscrt_status *slice_fn(void *user, const mscrt_variable *v, const msc_box *box, int rank);

static mscrt_status *assign_variable(const mscrt_plan *p, const mscrt_variable *v, held *all, uint64_t *load,
                                     slice_fn *fn, void *user) {
  int per_stage = p->ranks / (int)p->num_stages, first = (int)v->stage * per_stage;
  for (int i = 0; i < per_stage; i++) {
    msc_box buffer;
    all[i] = (held){.rank = first + i};
    mscrt_variable_box(p, v, first + i, &all[i].box, &buffer);
    memset(all[i].box.begin + v->rank, 0, sizeof *all[i].box.begin * (size_t)(MSC_BOX_RANK - v->rank));
    memset(all[i].box.size + v->rank, 0, sizeof *all[i].box.size * (size_t)(MSC_BOX_RANK - v->rank));
  }
  qsort(all, (size_t)per_stage, sizeof *all, compare_held);
  for (int i = 0, end; i < per_stage; i = end) {
    int least = i;
    for (end = i + 1; end < per_stage && !memcmp(&all[end].box, &all[i].box, sizeof all[i].box); end++)
      if (load[all[end].rank] < load[all[least].rank]) least = end;
    int64_t elems = msc_box_elems(v->rank, &all[i].box);
    if (!elems) continue;
    load[all[least].rank] += (uint64_t)elems * mscrt_dtype_bytes(v->dtype);
    MSCRT_CHECK(fn(user, v, &all[i].box, all[least].rank));
  }
  return NULL;
}

static mscrt_status *assign_all(const mscrt_plan *p, slice_fn *fn, void *user) {
  held *all = NULL;
  uint64_t *load = NULL;
  mscrt_status *s = mscrt_new_array(&all, p->ranks);
  if (!s) s = mscrt_new_array(&load, p->ranks);
  for (uint32_t i = 0; i < p->num_parameters && !s; i++)
    if (!p->parameter[i].copy) s = assign_variable(p, &p->parameter[i], all, load, fn, user);
  free(all);
  free(load);
  return s;
}

typedef struct {
  mscrt_rank_slices *out;
  int rank;
  int64_t room;
} taking;

static mscrt_status *take_slice(void *user, const mscrt_variable *v, const msc_box *box, int rank) {
  taking *t = user;
  if (rank != t->rank) return NULL;
  MSCRT_CHECK(mscrt_grow(&t->out->slice, t->out->num, &t->room, sizeof *t->out->slice));
  uint64_t bytes = (uint64_t)msc_box_elems(v->rank, box) * mscrt_dtype_bytes(v->dtype);
  t->out->slice[t->out->num++] = (mscrt_rank_slice){.v = v, .box = *box, .bytes = bytes};
  return NULL;
}

static int compare_slices(const void *a, const void *b) {
  const mscrt_rank_slice *x = a, *y = b;
  size_t xb = mscrt_dtype_bytes(x->v->dtype), yb = mscrt_dtype_bytes(y->v->dtype);
  if (xb != yb) return xb < yb ? 1 : -1;
  return x->v < y->v ? -1 : x->v > y->v;
}

mscrt_status *mscrt_rank_slices_of(const mscrt_plan *p, int rank, mscrt_rank_slices *out) {
  *out = (mscrt_rank_slices){0};
  mscrt_status *s = assign_all(p, take_slice, &(taking){.out = out, .rank = rank});
  if (out->num) qsort(out->slice, out->num, sizeof *out->slice, compare_slices);
  for (uint32_t i = 0; i < out->num; i++) {
    out->slice[i].at = out->bytes;
    out->bytes += out->slice[i].bytes;
  }
  if (s) mscrt_rank_slices_free(out);
  return s;
}

void mscrt_rank_slices_free(mscrt_rank_slices *s) {
  free(s->slice);
  *s = (mscrt_rank_slices){0};
}

#define RANK_FILE 32

/* The name of the file of a rank, "rank-00003.safetensors". */
static void name_rank_file(int rank, char out[RANK_FILE]) { snprintf(out, RANK_FILE, "rank-%05d.safetensors", rank); }

/* ---- the file of a rank ---- */

static mscrt_status *make_rank_header(const mscrt_rank_slices *s, mscrt_header *h) {
  MSCRT_CHECK(mscrt_header_begin(h));
  fputs("\"__metadata__\":{\"" MSCRT_CHECKSUMS "\":\"", h->f);
  for (uint32_t i = 0; i < s->num; i++) fprintf(h->f, "%016" PRIx64, s->slice[i].xxh3);
  fputs("\"}", h->f);
  h->any = true;
  for (uint32_t i = 0; i < s->num; i++) {
    const mscrt_variable *v = s->slice[i].v;
    mscrt_header_add(h, v->name, v->dtype, v->rank, s->slice[i].box.size);
  }
  return mscrt_header_end(h);
}

mscrt_status *mscrt_rank_slices_write(const mscrt_rank_slices *s, int rank, const char *folder, const void *data) {
  char name[RANK_FILE], *path = NULL;
  mscrt_header h;
  mscrt_file f;
  if (!s->num) return NULL;
  for (uint32_t i = 0; i < s->num; i++)
    s->slice[i].xxh3 = XXH3_64bits((const char *)data + s->slice[i].at, s->slice[i].bytes);
  MSCRT_CHECK(make_rank_header(s, &h));
  name_rank_file(rank, name);
  mscrt_status *status = asprintf(&path, "%s/%s", folder, name) < 0 ? mscrt_fail(MSCRT_NO_MEMORY, "out of memory")
                                                                    : mscrt_file_begin(path, &f);
  if (!status) {
    status = mscrt_file_write(&f, h.text, h.bytes);
    if (!status) status = mscrt_file_write(&f, data, s->bytes);
    status = mscrt_file_end(&f, status);
  }
  free(path);
  free(h.text);
  return status;
}

/* ---- the files of all ranks ---- */

typedef struct {
  const mscrt_plan *p;
  mscrt_archive *a;
  const mscrt_variable *last;
  uint32_t *file; /* by rank, 1 more than its number in the archive; 0: it is not open yet */
  mscrt_safetensors *t;
  mscrt_rank_slices *slices;
} collecting;

static mscrt_status *open_rank_file(collecting *c, int rank) {
  char name[RANK_FILE];
  name_rank_file(rank, name);
  MSCRT_CHECK(mscrt_archive_add_file(c->a, name, 0));
  uint32_t file = c->a->num_files - 1;
  MSCRT_CHECK(mscrt_archive_open_file(c->a, file));
  c->a->file[file].bytes = c->a->file[file].blob.bytes;
  c->file[rank] = file + 1;
  MSCRT_CHECK(mscrt_safetensors_parse(&c->a->file[file].blob, &c->t[rank]));
  MSCRT_CHECK(mscrt_rank_slices_of(c->p, rank, &c->slices[rank]));
  const char *sums = c->t[rank].checksums;
  mscrt_rank_slices *s = &c->slices[rank];
  if (!sums || strlen(sums) != 16 * (size_t)s->num)
    return mscrt_bad_file(&c->a->file[file].blob, "has no checksums of its %u tensors", s->num);
  for (uint32_t i = 0; i < s->num; i++)
    if (sscanf(sums + 16 * i, "%16" SCNx64, &s->slice[i].xxh3) != 1)
      return mscrt_bad_file(&c->a->file[file].blob, "checksum %u is none", i);
  return NULL;
}

static const mscrt_rank_slice *find_slice(const mscrt_rank_slices *s, const mscrt_variable *v) {
  mscrt_rank_slice key = {.v = v};
  return s->num ? bsearch(&key, s->slice, s->num, sizeof key, compare_slices) : NULL;
}

static mscrt_status *collect_slice(void *user, const mscrt_variable *v, const msc_box *box, int rank) {
  collecting *c = user;
  if (v != c->last) {
    mscrt_stored t = {.name = v->name,
                      .known = true,
                      .state = v->state,
                      .dtype = v->dtype,
                      .rank = v->model_rank,
                      .view_rank = v->rank};
    memcpy(t.shape, v->model_shape, sizeof t.shape);
    memcpy(t.view, v->shape, sizeof t.view);
    MSCRT_CHECK(mscrt_archive_add_tensor(c->a, &t));
    c->last = v;
  }
  if (!c->file[rank]) MSCRT_CHECK(open_rank_file(c, rank));
  const mscrt_rank_slice *s = find_slice(&c->slices[rank], v);
  const mscrt_named_array *found = mscrt_safetensors_find(&c->t[rank], v->name);
  uint32_t file = c->file[rank] - 1;
  if (!s || !found || found->array.bytes != s->bytes)
    return mscrt_bad_file(&c->a->file[file].blob, "lacks the slice of '%s'", v->name);
  mscrt_shard shard = {.file = file, .at = found->array.at, .box = *box, .hashed = true, .xxh3 = s->xxh3};
  return mscrt_archive_add_shard(c->a, &shard);
}

mscrt_status *mscrt_rank_slices_collect(const mscrt_plan *p, const char *folder, mscrt_archive *a) {
  collecting c = {.p = p, .a = a};
  mscrt_status *s = mscrt_archive_new(folder, false, "checkpoint of msc", a);
  if (s) return s;
  s = mscrt_new_array(&c.file, p->ranks);
  if (!s) s = mscrt_new_array(&c.t, p->ranks);
  if (!s) s = mscrt_new_array(&c.slices, p->ranks);
  if (!s) s = assign_all(p, collect_slice, &c);
  if (!s) s = mscrt_archive_sort(a);
  for (int r = 0; r < p->ranks; r++) {
    if (c.t) mscrt_safetensors_free(&c.t[r]);
    if (c.slices) mscrt_rank_slices_free(&c.slices[r]);
  }
  free(c.file);
  free(c.t);
  free(c.slices);
  if (s) mscrt_archive_close(a);
  return s;
}

/* ---- whole tensors ---- */

#define CHUNK_BYTES ((uint64_t)4 << 20)

static mscrt_status *make_whole_header(const mscrt_archive *a, const mscrt_whole_file *w, mscrt_header *h) {
  MSCRT_CHECK(mscrt_header_begin(h));
  fputs("\"__metadata__\":{\"format\":\"pt\"}", h->f);
  h->any = true;
  for (uint32_t i = w->first; i < w->first + w->num; i++) {
    const mscrt_stored *t = &a->tensor[i];
    bool transposed = w->transposed && w->transposed[i];
    int64_t shape[MSCRT_MAX_RANK];
    if (w->skip && w->skip[i]) continue;
    memcpy(shape, t->shape, sizeof shape);
    if (transposed) shape[0] = t->shape[1], shape[1] = t->shape[0];
    mscrt_header_add(h, w->names ? w->names[i] : t->name, t->dtype, t->rank, shape);
  }
  return mscrt_header_end(h);
}

/* Reads columns of a matrix as rows. */
static mscrt_status *read_transposed(mscrt_archive *a, const mscrt_stored *t, uint64_t begin, uint64_t num,
                                     uint8_t *line, uint8_t *out) {
  size_t bytes = mscrt_dtype_bytes(t->dtype);
  uint64_t rows = (uint64_t)t->shape[0], first = begin / rows, columns = num / rows;
  msc_box box = {{0, (int64_t)first}, {(int64_t)rows, (int64_t)columns}};
  mscrt_reading to = {t->dtype, 2, t->shape, box, box, line};
  MSCRT_CHECK(mscrt_archive_read(a, t, &to));
  for (uint64_t r = 0; r < rows; r++)
    for (uint64_t c = 0; c < columns; c++)
      memcpy(out + (c * rows + r) * bytes, line + (r * columns + c) * bytes, bytes);
  return NULL;
}

static mscrt_status *write_tensor(mscrt_archive *a, const mscrt_stored *t, bool transposed, const mscrt_file *f,
                                  uint64_t *out_xxh3) {
  uint64_t elems = mscrt_stored_elems(t), bytes = mscrt_dtype_bytes(t->dtype), part = CHUNK_BYTES / bytes;
  if (transposed && elems) /* whole columns */
    part = part > (uint64_t)t->shape[0] ? part / (uint64_t)t->shape[0] * (uint64_t)t->shape[0] : (uint64_t)t->shape[0];
  uint8_t *chunk = NULL, *line = NULL;
  XXH3_state_t *hash = XXH3_createState();
  mscrt_status *s = hash ? mscrt_allocate((void **)&chunk, (size_t)(part < elems ? part : elems) + 1, bytes)
                         : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (!s && transposed) s = mscrt_allocate((void **)&line, (size_t)(part < elems ? part : elems) + 1, bytes);
  if (hash) XXH3_64bits_reset(hash);
  for (uint64_t at = 0; at < elems && !s; at += part) {
    uint64_t num = elems - at < part ? elems - at : part;
    s = transposed ? read_transposed(a, t, at, num, line, chunk) : mscrt_archive_elements(a, t, at, num, chunk);
    if (!s) XXH3_64bits_update(hash, chunk, (size_t)(num * bytes));
    if (!s) s = mscrt_file_write(f, chunk, (size_t)(num * bytes));
  }
  if (!s) *out_xxh3 = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  free(chunk);
  free(line);
  return s;
}

mscrt_status *mscrt_archive_write(mscrt_archive *a, const mscrt_whole_file *w, mscrt_shard *out_shard,
                                  uint64_t *out_bytes) {
  mscrt_header h;
  mscrt_file f;
  for (uint32_t i = w->first; i < w->first + w->num; i++)
    if (!a->tensor[i].known && !(w->skip && w->skip[i]))
      return mscrt_fail(MSCRT_UNSUPPORTED, "%s: the element type or rank of tensor '%s' is not supported", a->path,
                        a->tensor[i].name);
  MSCRT_CHECK(make_whole_header(a, w, &h));
  mscrt_status *s = mscrt_file_begin(w->path, &f);
  uint64_t at = h.bytes;
  if (!s) {
    s = mscrt_file_write(&f, h.text, h.bytes);
    for (uint32_t i = w->first; i < w->first + w->num && !s; i++) {
      const mscrt_stored *t = &a->tensor[i];
      mscrt_shard *to = &out_shard[i - w->first];
      if (w->skip && w->skip[i]) continue;
      *to = (mscrt_shard){.at = at, .hashed = true};
      memcpy(to->box.size, t->shape, sizeof t->shape);
      s = write_tensor(a, t, w->transposed && w->transposed[i], &f, &to->xxh3);
      at += mscrt_stored_elems(t) * mscrt_dtype_bytes(t->dtype);
    }
    s = mscrt_file_end(&f, s);
  }
  free(h.text);
  *out_bytes = at;
  return s;
}

/* Replaces the archive's files by the one merged file. */
static mscrt_status *become_merged(mscrt_archive *a, const mscrt_shard *shard, uint64_t bytes) {
  for (uint32_t i = 0; i < a->num_files; i++) {
    unlink(a->file[i].path);
    mscrt_blob_close(&a->file[i].blob);
    free(a->file[i].path);
  }
  a->num_files = a->num_shards = 0;
  MSCRT_CHECK(mscrt_archive_add_file(a, "model.safetensors", bytes));
  for (uint32_t i = 0; i < a->num; i++) {
    mscrt_stored *t = &a->tensor[i];
    t->view_rank = t->rank;
    memcpy(t->view, t->shape, sizeof t->view);
    t->first = a->num_shards;
    t->num = mscrt_stored_elems(t) != 0;
    if (t->num) a->shard[a->num_shards++] = shard[i];
  }
  return NULL;
}

mscrt_status *mscrt_archive_merge(mscrt_archive *a, const char *folder) {
  mscrt_shard *shard = NULL;
  char *path = NULL;
  uint64_t bytes = 0;
  if (asprintf(&path, "%s/model.safetensors", folder) < 0) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_whole_file w = {.path = path, .num = a->num};
  mscrt_status *s = mscrt_new_array(&shard, (size_t)a->num + 1);
  if (!s) s = mscrt_archive_write(a, &w, shard, &bytes);
  if (!s) s = become_merged(a, shard, bytes);
  free(path);
  free(shard);
  return s;
}
