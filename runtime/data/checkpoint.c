/* checkpoint.c: saves and loads parameters: writes and reads safetensors files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/context.h"

/* Tensors of a checkpoint that are no parameters: training steps done, and the seed of the order of samples. */
#define STEP "msc.step"
#define SEED "msc.seed"

/* ---- loading ---- */

static mscrt_status *check_stored_tensor(const mscrt_blob *b, const mscrt_named_array *n, const mscrt_variable *v) {
  char have[MSCRT_SHAPE_TEXT], want[MSCRT_SHAPE_TEXT];
  const mscrt_array *a = &n->array;
  if (!n->known) return mscrt_bad_file(b, "tensor '%s': its element type or rank is not supported", n->name);
  if (a->rank != v->model_rank || memcmp(a->dim, v->model_shape, sizeof *a->dim * (size_t)v->model_rank))
    return mscrt_bad_file(b, "tensor '%s' has shape %s, the model's parameter %s", n->name,
                          mscrt_shape_text(a->rank, a->dim, have),
                          mscrt_shape_text(v->model_rank, v->model_shape, want));
  if (!mscrt_converts(a->dtype, v->dtype) || mscrt_is_float(a->dtype) != mscrt_is_float(v->dtype))
    return mscrt_bad_file(b, "tensor '%s' has %s elements, the model's parameter %s", n->name,
                          mscrt_dtype_name(a->dtype), mscrt_dtype_name(v->dtype));
  return NULL;
}

/* all: state must be there, too. */
static mscrt_status *check_stored_tensors(const mscrt_plan *p, const mscrt_blob *b, const mscrt_safetensors *t,
                                          bool all) {
  char missing[256] = "";
  size_t n = 0;
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    const mscrt_variable *v = &p->parameter[i];
    const mscrt_named_array *a = mscrt_safetensors_find(t, v->name);
    if (a) MSCRT_CHECK(check_stored_tensor(b, a, v));
    else if ((all || !v->state) && n + 2 < sizeof missing)
      n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%s", n ? ", " : "", v->name);
    if (n >= sizeof missing) n = sizeof missing - 1;
  }
  return n ? mscrt_bad_file(b, "lacks parameters of the model: %s", missing) : NULL;
}

static mscrt_status *open_weights(const mscrt_plan *p, const char *path, bool all, mscrt_blob *b,
                                  mscrt_safetensors *t) {
  *t = (mscrt_safetensors){0};
  MSCRT_CHECK(mscrt_blob_open(path, b));
  mscrt_status *s = mscrt_safetensors_parse(b, t);
  return s ? s : check_stored_tensors(p, b, t, all);
}

static void close_weights(mscrt_blob *b, mscrt_safetensors *t) {
  mscrt_safetensors_free(t);
  mscrt_blob_close(b);
}

mscrt_status *mscrt_plan_check_weights(const mscrt_plan *p, const char *path) {
  mscrt_blob b;
  mscrt_safetensors t;
  mscrt_status *s = open_weights(p, path, false, &b, &t);
  close_weights(&b, &t);
  return s;
}

static mscrt_status *load_parameter(mscrt_context *c, const mscrt_blob *b, const mscrt_named_array *n,
                                    const mscrt_variable *v) {
  mscrt_samples s = {.blob = *b, .kind = MSCRT_SAFETENSORS, .array = n->array};
  mscrt_wanted w = mscrt_wanted_of(v);
  w.batch_dim = -1;
  w.role = MSCRT_MASK; /* MSCRT_MASK: values are not scaled */
  msc_box box, buffer;
  void *line;
  mscrt_variable_box(c->plan, v, c->o.rank, &box, &buffer);
  MSCRT_CHECK(mscrt_allocate(&line, mscrt_samples_line(&s, &w) + 1, 1));
  void *data = mscrt_at(c, v->ref, 0);
  mscrt_status *status = mscrt_samples_read(&s, &w, NULL, &box, &buffer, line, data);
  free(line);
  return status ? status : mscrt_store(c, (uint64_t)((uint8_t *)data - c->arena), mscrt_variable_bytes(v));
}

/* The single number of a checkpoint's own tensor. */
static mscrt_status *read_number(const mscrt_blob *b, const mscrt_safetensors *t, const char *name, uint64_t *out) {
  const mscrt_named_array *a = mscrt_safetensors_find(t, name);
  if (!a || !a->known || a->array.bytes != sizeof *out || a->array.dtype != MSCRT_U64)
    return mscrt_bad_file(b, "is no checkpoint: it lacks '%s'", name);
  return mscrt_blob_read(b, a->array.at, out, sizeof *out);
}

static mscrt_status *load_file(mscrt_context *c, const char *path, bool all) {
  if (!c->device->holds_values) return mscrt_fail(MSCRT_ARGUMENT, "the device '%s' has no values", c->device->name);
  mscrt_blob b;
  mscrt_safetensors t;
  mscrt_status *s = open_weights(c->plan, path, all, &b, &t);
  for (uint32_t i = 0; i < c->plan->num_parameters && !s; i++) {
    const mscrt_named_array *a = mscrt_safetensors_find(&t, c->plan->parameter[i].name);
    if (a && c->plan->parameter[i].stage == c->stage) s = load_parameter(c, &b, a, &c->plan->parameter[i]);
  }
  uint64_t step = 0, seed = 0;
  if (!s && all) s = read_number(&b, &t, STEP, &step);
  if (!s && all) s = read_number(&b, &t, SEED, &seed);
  if (!s && all && step > INT64_MAX) s = mscrt_bad_file(&b, "%" PRIu64 " steps", step);
  if (!s && all) c->step = (int64_t)step, c->o.seed = seed;
  close_weights(&b, &t);
  return s;
}

mscrt_status *mscrt_load(mscrt_context *c, const char *path) { return load_file(c, path, false); }

mscrt_status *mscrt_resume(mscrt_context *c, const char *path) {
  if (c->feed) return mscrt_fail(MSCRT_ARGUMENT, "a checkpoint is resumed before data is set");
  return load_file(c, path, true);
}


/* ---- the files that the model names ---- */

static mscrt_status *check_bytes(const mscrt_blob *b, plan_weight_file f) {
  if (plan_weight_file_bytes(f) && plan_weight_file_bytes(f) != b->bytes)
    return mscrt_bad_file(b, "has changed: the model was made with %" PRIu64 " bytes, now there are %" PRIu64,
                          plan_weight_file_bytes(f), b->bytes);
  return NULL;
}

static mscrt_status *check_hash(const mscrt_blob *b, plan_weight_file f) {
  enum { CHUNK = 1 << 20 };
  void *chunk = NULL;
  mscrt_status *s = NULL;
  if (!plan_weight_file_xxh3(f)) return NULL;
  XXH3_state_t *state = XXH3_createState();
  if (!state) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  XXH3_64bits_reset(state);
  s = mscrt_allocate(&chunk, CHUNK, 1);
  for (uint64_t at = 0; at < b->bytes && !s; at += CHUNK) {
    size_t num = b->bytes - at < CHUNK ? (size_t)(b->bytes - at) : CHUNK;
    s = mscrt_blob_read(b, at, chunk, num);
    if (!s) XXH3_64bits_update(state, chunk, num);
  }
  uint64_t hash = XXH3_64bits_digest(state);
  free(chunk);
  XXH3_freeState(state);
  if (!s && hash != plan_weight_file_xxh3(f))
    s = mscrt_bad_file(b, "has changed: its hash is %016" PRIx64 ", the model was made with %016" PRIx64, hash,
                       plan_weight_file_xxh3(f));
  return s;
}

/* Checks, or with a context loads, the parameters that take their values from one file. */
static mscrt_status *take_tensors(const mscrt_plan *p, mscrt_context *c, uint32_t file, const mscrt_blob *b) {
  mscrt_safetensors t;
  MSCRT_CHECK(mscrt_safetensors_parse(b, &t));
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < p->num_parameters && !s; i++) {
    const mscrt_variable *v = &p->parameter[i];
    if (!v->tensor || v->weights != file) continue;
    const mscrt_named_array *a = mscrt_safetensors_find(&t, v->tensor);
    if (!a) s = mscrt_bad_file(b, "lacks tensor '%s', the initial value of parameter '%s'", v->tensor, v->name);
    else s = check_stored_tensor(b, a, v);
    if (!s && c && v->stage == c->stage) s = load_parameter(c, b, a, v);
  }
  mscrt_safetensors_free(&t);
  return s;
}

static mscrt_status *take_file(const mscrt_plan *p, mscrt_context *c, uint32_t file, const char *folder) {
  plan_weight_file f = plan_plan_weight_files(p->root, file);
  char *path = NULL;
  mscrt_blob b;
  if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", plan_weight_file_path(f)) < 0)
    return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  mscrt_status *s = mscrt_blob_open(path, &b);
  free(path);
  if (!s) s = check_bytes(&b, f);
  if (!s && !c) s = check_hash(&b, f);
  if (!s) s = take_tensors(p, c, file, &b);
  mscrt_blob_close(&b);
  return s;
}

static mscrt_status *take_files(const mscrt_plan *p, mscrt_context *c, const char *folder) {
  for (uint32_t i = 0; i < plan_plan_weight_files_num(p->root); i++) MSCRT_CHECK(take_file(p, c, i, folder));
  return NULL;
}

mscrt_status *mscrt_plan_check_files(const mscrt_plan *p, const char *folder) { return take_files(p, NULL, folder); }

mscrt_status *mscrt_load_weights(mscrt_context *c, const char *folder) {
  if (!c->device->holds_values) return mscrt_fail(MSCRT_ARGUMENT, "the device '%s' has no values", c->device->name);
  return take_files(c->plan, c, folder);
}

/* ---- saving ---- */

static const char *const type_names[MSCRT_NUM_DTYPES] = {"F32", "F16", "BF16", "F64", "BOOL", "I8", "I16",
                                                         "I32", "I64", "U8",   "U16", "U32",  "U64"};

static void put_json_string(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fprintf(f, "\\%c", *text);
    else if ((unsigned char)*text < 0x20) fprintf(f, "\\u%04x", *text);
    else fputc(*text, f);
  }
  fputc('"', f);
}

static bool is_saved(const mscrt_variable *v, bool all) { return !v->copy && (all || !v->state); }

/* Makes the header: a u64 length, then one line of JSON whose end is a multiple of 8. */
static mscrt_status *make_header(const mscrt_plan *p, bool all, char **out_text, size_t *out_bytes) {
  FILE *f = open_memstream(out_text, out_bytes);
  if (!f) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  uint64_t at = 0;
  fwrite((char[8]){0}, 1, 8, f);
  fputc('{', f);
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    const mscrt_variable *v = &p->parameter[i];
    if (!is_saved(v, all)) continue;
    if (ftell(f) > 9) fputc(',', f);
    put_json_string(f, v->name);
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", type_names[v->dtype]);
    for (int d = 0; d < v->model_rank; d++) fprintf(f, "%s%" PRId64, d ? "," : "", v->model_shape[d]);
    fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + mscrt_whole_bytes(v));
    at += mscrt_whole_bytes(v);
  }
  for (int i = 0; i < 2 && all; i++, at += 8)
    fprintf(f, "%s\"%s\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
            ftell(f) > 9 ? "," : "", i ? SEED : STEP, at, at + 8);
  fputc('}', f);
  while (ftell(f) % 8) fputc(' ', f);
  if (fclose(f) != 0 || !*out_text) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  uint64_t length = *out_bytes - 8;
  memcpy(*out_text, &length, 8);
  return NULL;
}

static mscrt_status *begin_file(const mscrt_plan *p, const char *path, bool all, mscrt_file *f) {
  char *header = NULL;
  size_t bytes = 0;
  MSCRT_CHECK(mscrt_file_begin(path, f));
  mscrt_status *s = make_header(p, all, &header, &bytes);
  if (!s) s = mscrt_file_write(f, header, bytes);
  free(header);
  return s;
}

/* A failure of rank 0 must not leave the others waiting: rank 0 goes on taking part, and all ranks learn of it at
 * the end. */
static mscrt_status *save_file(mscrt_context *c, const char *path, bool all) {
  if (!c->device->holds_values) return mscrt_fail(MSCRT_ARGUMENT, "the device '%s' has no values", c->device->name);
  mscrt_file f = {.fd = -1};
  mscrt_status *s = NULL, *lost = NULL;
  bool writes = c->o.rank == 0;
  if (writes) s = begin_file(c->plan, path, all, &f);
  for (uint32_t i = 0; i < c->plan->num_parameters && !lost; i++) {
    const mscrt_variable *v = &c->plan->parameter[i];
    void *whole = NULL;
    if (!is_saved(v, all)) continue;
    if (writes && !s) s = mscrt_allocate(&whole, (size_t)mscrt_whole_bytes(v), 1);
    lost = mscrt_gather(c, v, whole);
    if (whole && !lost && !s) s = mscrt_file_write(&f, whole, (size_t)mscrt_whole_bytes(v));
    free(whole);
  }
  uint64_t numbers[] = {(uint64_t)c->step, c->o.seed};
  if (writes && all && !s && !lost) s = mscrt_file_write(&f, numbers, sizeof numbers);
  if (writes) s = mscrt_file_end(&f, s ? s : mscrt_add_to_trail(lost, __FILE__, __LINE__));
  if (lost) {
    if (s != lost) mscrt_status_free(lost);
    return s;
  }
  uint64_t failed = 0;
  lost = mscrt_max(c, s != NULL, &failed);
  if (s) mscrt_status_free(lost);
  if (s || lost) return s ? s : lost;
  return failed ? mscrt_fail(MSCRT_PEER, "rank 0 could not save %s", path) : NULL;
}

mscrt_status *mscrt_save(mscrt_context *c, const char *path) { return save_file(c, path, false); }

mscrt_status *mscrt_checkpoint(mscrt_context *c, const char *path) { return save_file(c, path, true); }
