/* run.c: executes the calls of a section, in order; collectives beside them where there is a stream.  Work is cut into units by
 * the plan, never by the number of threads. */
#include <math.h>
#include <string.h>

#include "runtime/context.h"

/* ---- kernels ---- */

typedef struct {
  const mscrt_record *r;
  void *const *buffers;
} kernel_job;

static void run_unit(void *arg, int64_t unit, int worker) {
  const kernel_job *j = arg;
  const mscrt_record *r = j->r;
  int64_t begin = unit * r->grain, end = r->extent - begin < r->grain ? r->extent : begin + r->grain;
  (void)worker;
  r->kernel(j->buffers, begin, end, r->dims, r->scalars);
}

static void run_units(mscrt_context *c, const mscrt_record *r, mscrt_work *work, void *job) {
  if (r->alone)
    for (int64_t i = 0; i < r->units; i++) work(job, i, 0);
  else
    mscrt_pool_run(c->pool, work, job, r->units);
}

static mscrt_status *run_kernel(mscrt_context *c, const mscrt_record *r, int slot, int64_t step) {
  int32_t *flag = r->checks ? r->buffers[slot][r->num_buffers - 1] : NULL;
  if (flag) *flag = 0;
  run_units(c, r, run_unit, &(kernel_job){r, r->buffers[slot]});
  if (!flag || *flag == 0) return NULL;
  return mscrt_fail(MSCRT_INPUT, "rank %d: step %" PRId64 ": %s%s%s: an index is out of range", c->o.rank, step, r->name ? r->name : "a call", r->loc ? " at " : "", r->loc ? r->loc : "");
}

/* ---- matmuls ---- */

typedef struct {
  mscrt_context *c;
  const mscrt_record *r;
  int slot;
} matmul_job;

/* Items are numbers of elements of the result, and buffers are addressed by them; a tile is moved to where its first item
 * would lie. */
static void run_epilogue_items(const mscrt_record *e, mscrt_worker *w, int slot, const void *tile, size_t elem_bytes, int64_t first, int64_t num) {
  for (uint32_t i = 0; i < e->num_buffers; i++) {
    void *buffer = e->buffers[slot][i];
    w->buffers[i] = buffer ? buffer : (void *)((uintptr_t)tile - (uintptr_t)first * elem_bytes);
  }
  e->kernel(w->buffers, first, first + num, e->dims, e->scalars);
}

static void run_epilogue(const mscrt_record *e, mscrt_worker *w, int slot, const mscrt_matmul *m, int64_t first_row, int64_t rows, int64_t column, int64_t columns) {
  size_t bytes = mscrt_dtype_bytes(m->dtype);
  if (columns == m->n) {
    run_epilogue_items(e, w, slot, w->tile, bytes, first_row * m->n, rows * m->n);
    return;
  }
  for (int64_t i = 0; i < rows; i++)
    run_epilogue_items(e, w, slot, (char *)w->tile + (size_t)(i * columns) * bytes, bytes, (first_row + i) * m->n + column, columns);
}

/* Part of the result that a unit makes: neighbours in number share columns, so that a worker packs them once. */
typedef struct {
  int64_t batch, row, rows, column, columns;
  bool last_row, last_column;
} tile_place;

static tile_place place_of(const mscrt_matmul *m, int64_t unit) {
  int64_t i = unit % m->tiles_m, j = unit / m->tiles_m % m->tiles_n;
  tile_place p = {.batch = unit / (m->tiles_m * m->tiles_n), .row = i * m->tile_m, .column = j * m->tile_n, .last_row = i == m->tiles_m - 1, .last_column = j == m->tiles_n - 1};
  p.rows = p.last_row ? m->m - p.row : m->tile_m;
  p.columns = p.last_column ? m->n - p.column : m->tile_n;
  return p;
}

/* a, b, c and bias start where the tile does. */
static void run_product(const mscrt_record *r, mscrt_worker *w, uint64_t job, const tile_place *t, const char *a, const char *b, char *c, const char *bias) {
  const mscrt_matmul *m = r->matmul;
  int64_t columns = t->batch * m->tiles_n + t->column / m->tile_n;
  if (w->job != job || w->packed != columns) {
    r->pack((void *[]){(void *)(uintptr_t)b, w->panels}, 0, (t->columns + m->width - 1) / m->width, (int64_t[]){t->columns, m->k, m->transpose_b ? m->k : m->n}, NULL);
    w->job = job, w->packed = columns;
  }
  void *buffers[5] = {(void *)(uintptr_t)a, w->panels, c, w->room, (void *)(uintptr_t)bias};
  r->multiply(buffers, 0, t->rows, (int64_t[]){t->columns, m->k, m->transpose_a ? m->m : m->k, m->tile_bytes ? t->columns : m->n, m->blocks, m->transpose_a, m->relu}, NULL);
}

static void run_tile(void *arg, int64_t unit, int worker) {
  const matmul_job *j = arg;
  const mscrt_matmul *m = j->r->matmul;
  mscrt_worker *w = &j->c->worker[worker];
  void *const *buffers = j->r->buffers[j->slot];
  size_t bytes = mscrt_dtype_bytes(m->dtype);
  tile_place t = place_of(m, unit);
  const char *a = (const char *)buffers[0] + (size_t)(t.batch * m->stride_a + t.row * (m->transpose_a ? 1 : m->k)) * bytes;
  const char *b = (const char *)buffers[1] + (size_t)(t.batch * m->stride_b + t.column * (m->transpose_b ? m->k : 1)) * bytes;
  char *c = m->tile_bytes ? w->tile : (char *)buffers[2] + (size_t)((t.batch * m->m + t.row) * m->n + t.column) * bytes;
  const char *bias = m->bias ? (const char *)buffers[3] + (size_t)t.column * bytes : NULL;
  if (j->r->multiply) run_product(j->r, w, j->c->products, &t, a, b, c, bias);
  else if (!mscrt_tile_run(j->r->tile[t.last_row][t.last_column], worker, a, b, c, bias)) atomic_store(&j->c->tile_failed, true);
  if (j->r->epilogue) run_epilogue(j->r->epilogue, w, j->slot, m, t.batch * m->m + t.row, t.rows, t.column, t.columns);
}

static mscrt_status *run_matmul(mscrt_context *c, const mscrt_record *r, int slot, int64_t step) {
  c->products++;
  run_units(c, r, run_tile, &(matmul_job){c, r, slot});
  if (!atomic_load_explicit(&c->tile_failed, memory_order_relaxed)) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "rank %d: step %" PRId64 ": %s: oneDNN failed", c->o.rank, step, r->name ? r->name : "matmul");
}

/* ---- the device ---- */

static mscrt_status *run_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_turn *t, mscrt_ticket *out_ticket) {
  const mscrt_record *r = t->record;
  return c->transport->run(c->comm, pool, r->num_parts, r->part[t->slot], &(mscrt_site){r->name, r->loc, t->step}, out_ticket);
}

static mscrt_status *run_call(mscrt_context *c, const mscrt_turn *t) {
  mscrt_ticket ticket;
  switch (t->record->kind) {
    case PLAN_CALL_KIND_KERNEL: return run_kernel(c, t->record, t->slot, t->step);
    case PLAN_CALL_KIND_MATMUL: return run_matmul(c, t->record, t->slot, t->step);
    default: return run_collective(c, c->pool, t, &ticket); /* with itself alone */
  }
}

const mscrt_device mscrt_device_cpu = {.name = "cpu", .holds_values = true, .compute = run_call, .collective = run_collective};

/* ---- collectives ---- */

mscrt_status *mscrt_release(mscrt_context *c, const mscrt_turn *t, uint32_t upto, uint32_t *released) {
  for (; *released < upto; ++*released) {
    const mscrt_record *r = t->section->beside[*released];
    if (r->lingers) MSCRT_CHECK(c->transport->finish(c->comm, r->part[0][0].e, c->ticket[*released], &(mscrt_site){t->record ? t->record->name : "the end of the step", NULL, t->step}));
  }
  return NULL;
}

mscrt_status *mscrt_run_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_turn *t, uint32_t *released) {
  MSCRT_CHECK(mscrt_release(c, t, t->record->waits.release, released));
  int64_t begin = mscrt_timeline_now(c->timeline);
  for (uint32_t i = 0; i < t->record->num_parts; i++) c->received_bytes += t->record->part[t->slot][i].e->received;
  MSCRT_CHECK(c->device->collective(c, pool, t, &c->ticket[t->number - 1]));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_COLLECTIVE, t, begin);
  return NULL;
}

/* A wait is exposed communication: nothing else happens on this rank. */
static mscrt_status *wait_for(mscrt_context *c, const mscrt_turn *t, msc_waits w) {
  if (!(w.run && c->stream) && w.release <= c->released) return NULL;
  int64_t begin = mscrt_timeline_now(c->timeline);
  if (c->stream) MSCRT_CHECK(mscrt_stream_wait(c->stream, w.run > w.release ? w.run : w.release));
  MSCRT_CHECK(mscrt_release(c, t, w.release, &c->released));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_WAIT, t, begin);
  return NULL;
}

/* ---- sections ---- */

static mscrt_status *start_collective(mscrt_context *c, const mscrt_turn *t) {
  if (c->stream) {
    mscrt_stream_start(c->stream, t);
    return NULL;
  }
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(mscrt_run_collective(c, c->pool, t, &c->released));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_WAIT, t, begin);
  return NULL;
}

static mscrt_status *compute(mscrt_context *c, const mscrt_turn *t) {
  MSCRT_CHECK(wait_for(c, t, t->record->waits));
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(c->device->compute(c, t));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_COMPUTE, t, begin);
  return NULL;
}

static mscrt_status *run_calls(mscrt_context *c, const mscrt_section *s, int slot, int64_t step) {
  mscrt_turn t = {.section = s, .slot = slot, .step = step};
  uint32_t started = 0;
  c->released = 0;
  for (uint32_t i = 0; i < s->num_calls; i++) {
    t.record = &s->call[i];
    if (c->device->issue) c->device->issue(c, &t);
    if (t.record->beside) {
      t.number = ++started;
      MSCRT_CHECK(start_collective(c, &t));
    } else {
      MSCRT_CHECK(compute(c, &t));
    }
  }
  t.record = NULL;
  return wait_for(c, &t, (msc_waits){s->num_beside, s->num_beside});
}

/* After a failure in the middle of the work the ranks are out of step: all give up. */
static mscrt_status *failed(mscrt_context *c, mscrt_status *s) {
  if (!s) return NULL;
  c->broken = true;
  c->transport->abort(c->comm, mscrt_status_text(s));
  if (c->stream) mscrt_stream_stop(c->stream);
  return s;
}

mscrt_status *mscrt_run_section(mscrt_context *c, uint32_t section, int slot, int64_t step) {
  int before = c->library ? mscrt_library_enter(c->library) : 0;
  int64_t begin = mscrt_timeline_now(c->timeline);
  mscrt_status *s = run_calls(c, &c->section[section], slot, step);
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_SECTION, &(mscrt_turn){.section = &c->section[section], .step = step}, begin);
  if (c->library) mscrt_library_leave(c->library, before);
  c->last_section = section;
  c->last_slot = slot;
  return failed(c, s);
}

mscrt_status *mscrt_take_batch(mscrt_context *c, bool train, int64_t index, int *out_slot) { return failed(c, mscrt_feed_take(c->feed, train, index, out_slot)); }

double mscrt_loss_of(const mscrt_context *c, uint32_t section) {
  const mscrt_variable *v = c->section[section].loss;
  double loss = (double)NAN;
  if (v && c->device->holds_values) mscrt_convert(MSCRT_F64, &loss, 1, v->dtype, mscrt_at(c, v->ref, 0), false, false, 1);
  return loss;
}
