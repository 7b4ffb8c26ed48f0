/* checkpoint.c: the state of a training in; a folder with a file per rank, or one of all, and a manifest out.
 *
 * A checkpoint DIR is made as DIR.tmp: every rank copies its slices into memory (the step that follows may change
 * them), and a thread writes them to a file. When all ranks have done so, rank 0 writes the manifest, the last file,
 * and renames the folder. So DIR is the checkpoint before or this one, whenever the processes end. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/data/feed.h"
#include "runtime/data/json.h"
#include "runtime/data/rank_slices.h"
#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"

#define PART_BYTES     (1 << 20) /* of a slice, which a thread copies at a time */
#define NICE_OF_SAVING 10

/* The state of a checkpoint on a rank; when ranks compare theirs, the largest counts. */
enum { ENDED, WRITTEN, WRITING, FAILED };

struct mscrt_saving {
  mscrt_folder folder; /* made by rank 0 */
  mscrt_rank_slices slices;
  uint8_t *data; /* a copy of the slices, for as long as the context lives */
  mscrt_progress progress;
  bool merged, active, commits;
  const mscrt_plan *plan;
  int rank;
  pthread_t thread;
  bool running;
  atomic_bool done;
  mscrt_status *status; /* of the thread; valid when it is done */
};

mscrt_status *mscrt_check_checkpoint(const char *path) {
  MSCRT_NEEDS(path);
  mscrt_folder f;
  MSCRT_CHECK(mscrt_folder_begin(path, MSCRT_MANIFEST, &f));
  rmdir(f.partial);
  mscrt_folder_free(&f);
  return NULL;
}

/* ---- from another archive ---- */

mscrt_status *mscrt_checkpoint_slices(const mscrt_plan *p, const mscrt_progress *progress, const char *path,
                                      mscrt_archive *from) {
  mscrt_folder f;
  mscrt_archive a = {0};
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_folder_begin(path, MSCRT_MANIFEST, &f));
  for (int r = 0; r < p->ranks && !s; r++) {
    mscrt_rank_slices slices;
    uint8_t *data = NULL;
    s = mscrt_rank_slices_of(p, r, &slices);
    if (!s) s = mscrt_allocate((void **)&data, (size_t)slices.bytes + 1, 1);
    for (uint32_t i = 0; i < slices.num && !s; i++) {
      const mscrt_rank_slice *k = &slices.slice[i];
      const mscrt_stored *t = mscrt_archive_find(from, k->v->name);
      mscrt_reading to = {k->v->dtype, k->v->rank, k->v->shape, k->box, k->box, data + k->at};
      if (t) s = mscrt_archive_read(from, t, &to);
      else mscrt_init_box(k->v, progress->seed, &k->box, &k->box, to.data);
    }
    if (!s) s = mscrt_rank_slices_write(&slices, r, f.partial, data);
    free(data);
    mscrt_rank_slices_free(&slices);
  }
  if (!s) s = mscrt_rank_slices_collect(p, f.partial, &a);
  if (!s) {
    a.progress = *progress;
    s = mscrt_manifest_write(&a, f.partial);
    mscrt_archive_close(&a);
  }
  s = mscrt_folder_end(&f, s);
  mscrt_folder_free(&f);
  return s;
}

/* ---- the thread ---- */

static mscrt_status *commit(const struct mscrt_saving *k) {
  mscrt_archive a;
  MSCRT_CHECK(mscrt_rank_slices_collect(k->plan, k->folder.partial, &a));
  a.progress = k->progress;
  mscrt_status *s = k->merged ? mscrt_archive_merge(&a, k->folder.partial) : NULL;
  if (!s) s = mscrt_manifest_write(&a, k->folder.partial);
  mscrt_archive_close(&a);
  return s ? s : mscrt_folder_place(&k->folder);
}

static void save(struct mscrt_saving *k) {
  k->status = k->commits ? commit(k) : mscrt_rank_slices_write(&k->slices, k->rank, k->folder.partial, k->data);
  atomic_store(&k->done, true);
}

/* A thread that mostly leaves the cores to those of steps. */
static void *run_save_thread(void *arg) {
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE_OF_SAVING);
  save(arg);
  return NULL;
}

static void start_thread(struct mscrt_saving *k) {
  atomic_store(&k->done, false);
  k->running = pthread_create(&k->thread, NULL, run_save_thread, k) == 0;
  if (!k->running) save(k);
}

static void join_thread(struct mscrt_saving *k) {
  if (k->running) pthread_join(k->thread, NULL);
  k->running = false;
}

/* ---- beginning ---- */

/* True if the plan was compiled with integrated_save. */
static bool is_merged(const mscrt_plan *p) {
  const char *config = mscrt_plan_config(p);
  char *text = config ? strdup(config) : NULL, *key;
  bool merged = false;
  if (!text) return false;
  mscrt_json r = {NULL, "configuration", "text", text, text, text + strlen(text)};
  bool more = mscrt_json_token(&r, '{');
  while (more && mscrt_json_string(&r, &key) && mscrt_json_token(&r, ':')) {
    bool is = !strcmp(key, "integrated_save"), here = is && mscrt_json_token(&r, '{');
    if (here && mscrt_json_string(&r, &key) && !strcmp(key, "value") && mscrt_json_token(&r, ':'))
      mscrt_json_bool(&r, &merged);
    more = !is && mscrt_json_skip(&r, 32) && mscrt_json_token(&r, ',');
  }
  free(text);
  return merged;
}

static mscrt_progress progress_of(const mscrt_context *c) {
  mscrt_progress p = {.step = (uint64_t)mscrt_next_step(c),
                      .seed = c->o.seed,
                      .plan = c->plan->hash,
                      .model = plan_plan_model_hash(c->plan->root),
                      .ranks = (uint32_t)c->plan->ranks};
  if (c->feed) p.samples = p.step * mscrt_samples_per_step(c);
  return p;
}

static mscrt_status *prepare_saving(mscrt_context *c, const char *path) {
  struct mscrt_saving *k = c->saving;
  MSCRT_CHECK(mscrt_pull_settled(c, true));
  if (!k) {
    MSCRT_CHECK(mscrt_new_array(&c->saving, 1));
    k = c->saving;
    k->plan = c->plan;
    k->rank = c->o.rank;
    k->merged = is_merged(c->plan);
  }
  mscrt_folder_free(&k->folder);
  MSCRT_CHECK(mscrt_folder_name(path, &k->folder));
  if (!k->data) {
    mscrt_rank_slices_free(&k->slices);
    MSCRT_CHECK(mscrt_rank_slices_of(c->plan, c->o.rank, &k->slices));
    MSCRT_CHECK(mscrt_allocate((void **)&k->data, (size_t)k->slices.bytes + 1, 1));
  }
  k->progress = progress_of(c);
  return c->o.rank == 0 ? mscrt_folder_make(&k->folder, MSCRT_MANIFEST) : NULL;
}

/* A slice on its way from the arena into the copy, which threads make of parts along the first dimension. */
typedef struct {
  const mscrt_rank_slice *slice;
  const msc_box *buffer; /* whose elements lie at `from` */
  const uint8_t *from;
  uint8_t *to;
  int64_t rows; /* of the first dimension in a part */
} copying;

static void copy_part(void *arg, int64_t unit, int worker) {
  const copying *k = arg;
  const mscrt_variable *v = k->slice->v;
  msc_box part = k->slice->box;
  (void)worker;
  if (v->rank) {
    int64_t done = unit * k->rows, left = part.size[0] - done;
    part.begin[0] += done;
    part.size[0] = left < k->rows ? left : k->rows;
  }
  msc_box_copy(v->rank, &part, &k->slice->box, k->to, k->buffer, k->from, mscrt_dtype_bytes(v->dtype));
}

static void copy_slice(const mscrt_context *c, copying *k) {
  int64_t all = k->slice->v->rank ? k->slice->box.size[0] : 1;
  int64_t row_bytes = all ? (int64_t)k->slice->bytes / all : 0;
  k->rows = row_bytes && row_bytes < PART_BYTES ? PART_BYTES / row_bytes : 1;
  mscrt_pool_run(c->pool, copy_part, k, (all + k->rows - 1) / k->rows);
}

static mscrt_status *copy_slices(mscrt_context *c) {
  struct mscrt_saving *k = c->saving;
  MSCRT_CHECK(mscrt_write_rows_back(c));
  for (uint32_t i = 0; i < k->slices.num; i++) {
    const mscrt_rank_slice *s = &k->slices.slice[i];
    msc_box box, buffer;
    uint8_t *from = mscrt_address_of(c, s->v->ref, 0);
    mscrt_variable_box(c->plan, s->v, c->o.rank, &box, &buffer);
    MSCRT_CHECK(mscrt_fetch_variable(c, s->v, from));
    copy_slice(c, &(copying){.slice = s, .buffer = &buffer, .from = from, .to = k->data + s->at});
    mscrt_drop_disk_pages(c, s->v->ref);
  }
  return NULL;
}

mscrt_status *mscrt_checkpoint_begin(mscrt_context *c, const char *path) {
  MSCRT_NEEDS(c && path);
  uint64_t failed = 0;
  MSCRT_CHECK(mscrt_check_holds_values(c));
  MSCRT_CHECK(mscrt_checkpoint_end(c, true, NULL));
  mscrt_status *s = prepare_saving(c, path), *lost = mscrt_max(c, s != NULL, &failed);
  if (s) mscrt_status_free(lost);
  if (s || lost) return s ? s : lost;
  if (failed) return mscrt_fail(MSCRT_PEER, "another rank cannot save the checkpoint %s", path);
  struct mscrt_saving *k = c->saving;
  k->active = true;
  k->commits = false;
  k->status = copy_slices(c);
  if (k->status) atomic_store(&k->done, true);
  else start_thread(k);
  return NULL;
}

/* ---- ending ---- */

static uint64_t phase_of(const struct mscrt_saving *k) {
  if (k->commits && k->rank) return ENDED;
  if (!atomic_load(&k->done)) return k->commits ? WRITTEN : WRITING;
  return k->status ? FAILED : k->commits ? ENDED : WRITTEN;
}

/* Removes what there is of this checkpoint, when all ranks have stopped writing it. */
static mscrt_status *give_up(mscrt_context *c) {
  struct mscrt_saving *k = c->saving;
  uint64_t all;
  join_thread(k);
  k->active = false;
  mscrt_status *s = k->status, *lost = mscrt_max(c, 0, &all);
  k->status = NULL;
  if (!lost && k->rank == 0) mscrt_status_free(mscrt_remove_folder(k->folder.partial));
  mscrt_status_free(lost);
  return s ? s : mscrt_fail(MSCRT_PEER, "another rank could not save its part of the checkpoint %s", k->folder.path);
}

mscrt_status *mscrt_checkpoint_end(mscrt_context *c, bool wait, bool *out_ended) {
  MSCRT_NEEDS(c);
  struct mscrt_saving *k = c->saving;
  MSCRT_CHECK(mscrt_check_process(c));
  while (k && k->active) {
    uint64_t phase;
    if (wait) join_thread(k);
    MSCRT_CHECK(mscrt_max(c, phase_of(k), &phase));
    if (phase == FAILED) return give_up(c);
    if (phase == WRITTEN && !k->commits) {
      join_thread(k);
      k->commits = true;
      if (k->rank == 0) start_thread(k);
    }
    if (phase == ENDED) {
      join_thread(k);
      k->active = false;
    }
    if (!wait) break;
  }
  if (out_ended) *out_ended = !k || !k->active;
  return NULL;
}

mscrt_status *mscrt_checkpoint(mscrt_context *c, const char *path) {
  MSCRT_NEEDS(c && path);
  MSCRT_CHECK(mscrt_checkpoint_begin(c, path));
  return mscrt_checkpoint_end(c, true, NULL);
}

void mscrt_saving_free(mscrt_context *c) {
  struct mscrt_saving *k = c->saving;
  if (!k) return;
  join_thread(k);
  mscrt_status_free(k->status);
  mscrt_rank_slices_free(&k->slices);
  free(k->data);
  mscrt_folder_free(&k->folder);
  free(k);
}
