/* load_parameters.c: files with parameters and state, written under any layout by any number of ranks, in; the boxes of
 * this rank in its context out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/data/archive.h"
#include "runtime/execute/execute.h"
#include "runtime/job/job.h"
#include "runtime/memory/memory.h"
#include "runtime/trace/trace.h"

static mscrt_status *check_stored_tensor(const mscrt_archive *a, const mscrt_stored *t, const mscrt_variable *v) {
  char have[MSCRT_SHAPE_TEXT], want[MSCRT_SHAPE_TEXT];
  if (!t->known)
    return mscrt_fail(MSCRT_INPUT, "%s: tensor '%s': its element type or rank is not supported", a->path, t->name);
  if (t->rank != v->model_rank || memcmp(t->shape, v->model_shape, sizeof *t->shape * (size_t)v->model_rank))
    return mscrt_fail(MSCRT_INPUT, "%s: tensor '%s' has shape %s, the model's parameter %s", a->path, t->name,
                      mscrt_shape_text(t->rank, t->shape, have), mscrt_shape_text(v->model_rank, v->model_shape, want));
  if (!mscrt_converts(t->dtype, v->dtype) || mscrt_is_float(t->dtype) != mscrt_is_float(v->dtype))
    return mscrt_fail(MSCRT_INPUT, "%s: tensor '%s' has %s elements, the model's parameter %s", a->path, t->name,
                      mscrt_dtype_name(t->dtype), mscrt_dtype_name(v->dtype));
  return NULL;
}

/* True if a training cannot begin, or with `resumed` go on, from files without the variable v.  Single numbers that
 * change between steps (a learning rate, the scale of the loss) may be missing: they begin as the plan says. */
static bool is_required(const mscrt_variable *v, bool resumed) {
  return mscrt_variable_bytes(v) && !v->copy && (!v->state || (resumed && !mscrt_is_scalar(v)));
}

/* Checks that the archive has all parameters of the plan, and with `all` the state too. */
static mscrt_status *check_stored_tensors(const mscrt_plan *p, const mscrt_archive *a, bool all) {
  char missing[256] = "";
  size_t n = 0;
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    const mscrt_variable *v = &p->parameter[i];
    const mscrt_stored *t = mscrt_archive_find(a, v->name);
    if (t) MSCRT_CHECK(check_stored_tensor(a, t, v));
    else if (is_required(v, all) && n + 2 < sizeof missing)
      n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%s", n ? ", " : "", v->name);
    if (n >= sizeof missing) n = sizeof missing - 1;
  }
  return n ? mscrt_fail(MSCRT_INPUT, "%s: lacks parameters of the model: %s", a->path, missing) : NULL;
}

static mscrt_status *open_weights(const mscrt_plan *p, const char *path, bool all, mscrt_archive *a) {
  MSCRT_CHECK(mscrt_archive_open(path, a));
  mscrt_status *s = NULL;
  if (all && !a->is_checkpoint)
    s = mscrt_fail(MSCRT_INPUT, "%s: is no checkpoint, but %s; with it a training can begin, not go on", path, a->kind);
  if (!s) s = check_stored_tensors(p, a, all);
  if (s) mscrt_archive_close(a);
  return s;
}

mscrt_status *mscrt_plan_check_weights(const mscrt_plan *p, const char *path) {
  MSCRT_NEEDS(p && path);
  mscrt_archive a;
  MSCRT_CHECK(open_weights(p, path, false, &a));
  mscrt_archive_close(&a);
  return NULL;
}

mscrt_status *mscrt_plan_check_checkpoint(const mscrt_plan *p, const char *path, int64_t *out_step) {
  MSCRT_NEEDS(p && path && out_step);
  mscrt_archive a;
  MSCRT_CHECK(open_weights(p, path, true, &a));
  mscrt_status *s = mscrt_archive_verify(&a);
  *out_step = (int64_t)a.progress.step;
  mscrt_archive_close(&a);
  return s;
}

static mscrt_status *load_parameter(mscrt_context *c, mscrt_archive *a, const mscrt_stored *t,
                                    const mscrt_variable *v) {
  mscrt_reading to = {.dtype = v->dtype, .rank = v->rank, .shape = v->shape, .data = mscrt_address_of(c, v->ref, 0)};
  mscrt_variable_box(c->plan, v, c->o.rank, &to.box, &to.buffer);
  MSCRT_CHECK(mscrt_archive_read(a, t, &to));
  mscrt_drop_disk_pages(c, v->ref);
  c->needed_bytes += (uint64_t)msc_box_elems(v->rank, &to.box) * mscrt_dtype_bytes(t->dtype);
  return mscrt_store_variable(c, v, to.data);
}

/* Tells of the numbers that a checkpoint lacks. */
static void warn_of_new_numbers(mscrt_context *c, const mscrt_archive *a) {
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) {
    const mscrt_variable *v = &c->plan->parameter[i];
    if (mscrt_is_scalar(v) && !v->copy && !mscrt_archive_find(a, v->name))
      mscrt_log_line(c, MSCRT_LOG_WARNING, "%s lacks %s: it begins as the plan says", a->path, v->name);
  }
}

static mscrt_status *load_archive(mscrt_context *c, mscrt_archive *a) {
  MSCRT_CHECK(mscrt_forget_rows(c));
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) {
    const mscrt_variable *v = &c->plan->parameter[i];
    const mscrt_stored *t = mscrt_archive_find(a, v->name);
    if (t && v->stage == c->stage) MSCRT_CHECK(load_parameter(c, a, t, v));
  }
  c->loaded_bytes += a->read_bytes;
  return NULL;
}

static mscrt_status *load_file(mscrt_context *c, const char *path, bool all) {
  mscrt_archive a;
  MSCRT_CHECK(mscrt_check_holds_values(c));
  MSCRT_CHECK(open_weights(c->plan, path, all, &a));
  mscrt_status *s = load_archive(c, &a);
  if (!s && all) {
    mscrt_set_step(c, (int64_t)a.progress.step);
    c->o.seed = a.progress.seed;
    c->resumed_samples = a.progress.samples;
    warn_of_new_numbers(c, &a);
    if (a.progress.model != plan_plan_model_hash(c->plan->root))
      mscrt_log_line(c, MSCRT_LOG_INFO, "%s was written for another version of the model", path);
  }
  mscrt_archive_close(&a);
  return s;
}

mscrt_status *mscrt_load(mscrt_context *c, const char *path) {
  MSCRT_NEEDS(c && path);
  mscrt_forget_kept(c);
  return load_file(c, path, false);
}

mscrt_status *mscrt_resume(mscrt_context *c, const char *path) {
  MSCRT_NEEDS(c && path);
  if (c->feed) return mscrt_fail(MSCRT_ARGUMENT, "a checkpoint is resumed before data is set");
  mscrt_forget_kept(c);
  return load_file(c, path, true);
}

/* ---- the files that the model names ---- */

static mscrt_status *check_weight_bytes(const mscrt_blob *b, plan_weight_file f) {
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

/* The tensor of a file from which a parameter takes its values; of state, the tensor of its name, if there is one.
 * NULL: none. */
static mscrt_status *find_initial_value(mscrt_archive *a, uint32_t file, const mscrt_variable *v,
                                        const mscrt_stored **out) {
  *out = v->state ? mscrt_archive_find(a, v->name) : NULL;
  if (v->state || !v->tensor || v->weights != file) return NULL;
  *out = mscrt_archive_find(a, v->tensor);
  if (*out) return NULL;
  return mscrt_fail(MSCRT_INPUT, "%s: lacks tensor '%s', the initial value of parameter '%s'", a->path, v->tensor,
                    v->name);
}

/* Checks, or with a context loads, the parameters and state that take their values from one file. */
static mscrt_status *load_tensors_of_file(const mscrt_plan *p, mscrt_context *c, uint32_t file, mscrt_archive *a) {
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < p->num_parameters && !s; i++) {
    const mscrt_variable *v = &p->parameter[i];
    const mscrt_stored *t;
    s = find_initial_value(a, file, v, &t);
    if (!s && t) s = check_stored_tensor(a, t, v);
    if (!s && t && c && v->stage == c->stage) s = load_parameter(c, a, t, v);
  }
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
  if (!s) s = check_weight_bytes(&b, f);
  if (!s && !c) s = check_hash(&b, f);
  if (s) {
    mscrt_blob_close(&b);
    return s;
  }
  mscrt_archive a;
  s = mscrt_archive_of_file(&b, &a);
  if (!s) s = load_tensors_of_file(p, c, file, &a);
  if (c) c->loaded_bytes += a.read_bytes;
  mscrt_archive_close(&a);
  return s;
}

static mscrt_status *take_files(const mscrt_plan *p, mscrt_context *c, const char *folder) {
  for (uint32_t i = 0; i < plan_plan_weight_files_num(p->root); i++) MSCRT_CHECK(take_file(p, c, i, folder));
  return NULL;
}

mscrt_status *mscrt_plan_check_files(const mscrt_plan *p, const char *folder) { return take_files(p, NULL, folder); }

mscrt_status *mscrt_load_weights(mscrt_context *c, const char *folder) {
  MSCRT_NEEDS(c);
  MSCRT_CHECK(mscrt_check_holds_values(c));
  MSCRT_CHECK(mscrt_forget_rows(c));
  return take_files(c->plan, c, folder);
}
