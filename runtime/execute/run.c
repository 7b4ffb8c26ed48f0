/* run.c: a program and a step in; the calls of its sections executed in order, with collectives beside them if there is
 * a stream. The plan cuts the work of a call into units, whatever the number of threads. */
#include <math.h>
#include <string.h>

#include "ir/abi/builtin.h"
#include "ir/abi/product.h"
#include "runtime/data/feed.h"
#include "runtime/execute/execute.h"
#include "runtime/execute/sanitizer_copies.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/windows.h"
#include "runtime/memory/memory.h"
#include "runtime/server/apply_pushes.h"
#include "runtime/server/share.h"
#include "runtime/subnormal.h"
#include "runtime/trace/trace.h"
#include "runtime/wait.h"

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

static void run_units(mscrt_context *c, const mscrt_record *r, int64_t units, mscrt_work *work, void *job) {
  if (r->alone)
    for (int64_t i = 0; i < units; i++) work(job, i, 0);
  else
    mscrt_pool_run(c->pool, work, job, units);
}

/* Runs an epilogue for `num` elements of the result from number `first` on, which lie at `tile`. An epilogue addresses
 * all its buffers by the number of the element, so it gets the address at which element 0 would lie for the tile. */
static void run_epilogue_items(const mscrt_record *e, mscrt_worker *w, void *const *buffers, const void *tile,
                               size_t elem_bytes, int64_t first, int64_t num) {
  for (uint32_t i = 0; i < e->num_buffers; i++) {
    void *buffer = buffers[i];
    w->buffers[i] = buffer ? buffer : (void *)((uintptr_t)tile - (uintptr_t)first * elem_bytes);
  }
  e->kernel(w->buffers, first, first + num, e->dims, e->scalars);
}

/* A kernel whose units have tiles that an epilogue takes. */
typedef struct {
  mscrt_context *c;
  const mscrt_record *r;
  void *const *buffers, *const *epilogue;
} tiles_job;

static void run_unit_in_tile(void *arg, int64_t unit, int worker) {
  const tiles_job *j = arg;
  const mscrt_record *r = j->r, *e = r->epilogue;
  mscrt_worker *w = &j->c->worker[worker];
  int64_t begin = unit * r->grain, end = r->extent - begin < r->grain ? r->extent : begin + r->grain;
  int64_t elems = e->extent / r->extent; /* of a row */
  size_t row_bytes = (size_t)(r->ref[MSC_SEGMENTS_Y].bytes / (uint64_t)r->grain);
  void *buffers[MSC_MOST_BUILTIN_BUFFERS];
  for (uint32_t i = 0; i < r->num_buffers; i++) buffers[i] = j->buffers[i];
  buffers[MSC_SEGMENTS_Y] = (void *)((uintptr_t)w->tile - (uintptr_t)begin * row_bytes);
  r->kernel(buffers, begin, end, r->dims, r->scalars);
  run_epilogue_items(e, w, j->epilogue, w->tile, row_bytes / (size_t)elems, begin * elems, (end - begin) * elems);
}

/* The kernel says before its first item what is wrong with its operands: then nothing is written. */
static mscrt_status *run_kernel_in_tiles(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots,
                                         int64_t step) {
  tiles_job job = {c, r, mscrt_buffers_of(c, r, slots, 0), mscrt_buffers_of(c, r->epilogue, slots, 1)};
  int32_t *flag = r->checks ? job.buffers[r->num_buffers - 1] : NULL;
  mscrt_guard *guard = NULL;
  if (flag) *flag = 0;
  if (MSC_SANITIZED) {
    MSCRT_CHECK(mscrt_guard_open(r, job.buffers, job.epilogue, &guard));
    job.buffers = mscrt_guard_buffers(guard), job.epilogue = mscrt_guard_epilogue(guard);
  }
  int32_t *checked = r->checks ? job.buffers[r->num_buffers - 1] : NULL;
  r->kernel(job.buffers, 0, 0, r->dims, r->scalars);
  if (!checked || !*checked) run_units(c, r, r->units, run_unit_in_tile, &job);
  if (MSC_SANITIZED) MSCRT_CHECK(mscrt_guard_close(guard, c, step));
  return flag ? mscrt_kernel_error_status(c, r, step, *flag) : NULL;
}

static mscrt_status *run_kernel_call(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, int64_t step) {
  if (r->epilogue) return run_kernel_in_tiles(c, r, slots, step);
  void *const *buffers = mscrt_buffers_of(c, r, slots, 0);
  int32_t *flag = r->checks ? buffers[r->num_buffers - 1] : NULL;
  mscrt_guard *guard = NULL;
  if (flag) *flag = 0;
  if (MSC_SANITIZED) MSCRT_CHECK(mscrt_guard_open(r, buffers, NULL, &guard));
  run_units(c, r, r->units, run_unit, &(kernel_job){r, MSC_SANITIZED ? mscrt_guard_buffers(guard) : buffers});
  if (MSC_SANITIZED) MSCRT_CHECK(mscrt_guard_close(guard, c, step));
  return flag ? mscrt_kernel_error_status(c, r, step, *flag) : NULL;
}

int32_t mscrt_run_host_kernel(mscrt_pool *pool, const mscrt_record *r) {
  kernel_job job = {r, r->buffers};
  int32_t *flag = r->checks ? r->buffers[r->num_buffers - 1] : NULL;
  if (flag) *flag = 0;
  if (r->alone)
    for (int64_t i = 0; i < r->units; i++) run_unit(&job, i, 0);
  else mscrt_pool_run(pool, run_unit, &job, r->units);
  return flag ? *flag : 0;
}

/* ---- matmuls ---- */

typedef struct {
  mscrt_context *c;
  const mscrt_record *r;
  void *const *buffers, *const *epilogue; /* addresses of the product's buffers, and of its epilogue's */
  int64_t first_column, columns;          /* columns of b packed for all workers at a time; only their tiles run */
} matmul_job;

static void run_epilogue(const mscrt_record *e, mscrt_worker *w, void *const *buffers, const mscrt_matmul *m,
                         int64_t first_row, int64_t rows, int64_t column, int64_t columns) {
  size_t bytes = mscrt_dtype_bytes(mscrt_result_dtype(m));
  if (columns == m->n) {
    run_epilogue_items(e, w, buffers, w->tile, bytes, first_row * m->n, rows * m->n);
    return;
  }
  for (int64_t i = 0; i < rows; i++)
    run_epilogue_items(e, w, buffers, (char *)w->tile + (size_t)(i * columns) * bytes, bytes,
                       (first_row + i) * m->n + column, columns);
}

/* The part of the result that a unit computes. Consecutive units share columns, so that a worker packs them once. */
typedef struct {
  int64_t batch, row, rows, column, columns;
  bool last_row, last_column;
} tile;

static tile tile_of_unit(const mscrt_matmul *m, int64_t unit) {
  int64_t i = unit % m->tiles_m, j = unit / m->tiles_m % m->tiles_n;
  tile p = {.batch = unit / (m->tiles_m * m->tiles_n),
            .row = i * m->tile_m,
            .column = j * m->tile_n,
            .last_row = i == m->tiles_m - 1,
            .last_column = j == m->tiles_n - 1};
  p.rows = p.last_row ? m->m - p.row : m->tile_m;
  p.columns = p.last_column ? m->n - p.column : m->tile_n;
  return p;
}

static int64_t num_panels(const mscrt_matmul *m, int64_t columns) { return (columns + m->width - 1) / m->width; }

/* Packs panels [begin, end) of `columns` columns of b. */
static void pack_panels(const mscrt_record *r, const char *b, void *panels, int64_t columns, int64_t begin,
                        int64_t end) {
  const mscrt_matmul *m = r->matmul;
  r->pack((void *[]){(void *)(uintptr_t)b, panels}, begin, end,
          (int64_t[]){columns, m->k, m->transpose_b ? m->k : m->n, m->blocks}, NULL);
}

/* True if the kernel reads the columns of a tile where they lie in b. */
static bool reads_in_place(const mscrt_matmul *m, const tile *t) {
  return m->b_lies && (t->columns % m->width == 0 || m->transpose_b);
}

/* Returns the columns of b that a tile needs, packed if the product packs b or the columns fill no panel; `b` is the
 * address of the first. */
static char *panels_of_tile(const matmul_job *j, mscrt_worker *w, const tile *t, const char *b) {
  const mscrt_matmul *m = j->r->matmul;
  int64_t columns = t->batch * m->tiles_n + t->column / m->tile_n;
  size_t bytes = (size_t)msc_product_bytes((int64_t)mscrt_dtype_bytes(m->dtype));
  int64_t units = msc_product_units(m->k, m->blocks, m->packing);
  if (reads_in_place(m, t)) return (char *)(uintptr_t)b;
  if (m->shared_columns) return (char *)j->c->panels + (size_t)((t->column - j->first_column) * units) * bytes;
  if (w->job != j->c->products || w->packed != columns) {
    pack_panels(j->r, b, w->panels, t->columns, 0, num_panels(m, t->columns));
    w->job = j->c->products, w->packed = columns;
  }
  return w->panels;
}

/* The addresses of a tile's operands, and elements from row to row of c. */
typedef struct {
  const char *a, *b, *bias;
  char *c;
  int64_t step_c;
} tile_operands;

/* Multiplies columns that are all packed, or all read in place. */
static void multiply_tile(const matmul_job *j, mscrt_worker *w, const tile *t, const tile_operands *at) {
  const mscrt_record *r = j->r;
  const mscrt_matmul *m = r->matmul;
  void *buffers[5] = {(void *)(uintptr_t)at->a, panels_of_tile(j, w, t, at->b), at->c, w->room,
                      (void *)(uintptr_t)at->bias};
  int64_t step_b = reads_in_place(m, t) ? mscrt_step_of_lying_b(m) : 0;
  r->multiply(buffers, 0, t->rows,
              (int64_t[]){t->columns, m->k, m->transpose_a ? m->m : m->k, at->step_c, m->blocks, m->transpose_a,
                          m->relu, 0, step_b, m->traits},
              NULL);
}

/* Runs the product of one tile; a, b, c and bias are the addresses for the tile. Columns that fill no panel of a b that
 * is read in place are a tile of their own. */
static void run_product(const matmul_job *j, mscrt_worker *w, const tile *t, const char *a, const char *b, char *c,
                        const char *bias) {
  const mscrt_matmul *m = j->r->matmul;
  tile part = *t;
  tile_operands at = {.a = a, .b = b, .bias = bias, .c = c, .step_c = m->tile_bytes ? t->columns : m->n};
  int64_t rest = m->b_lies && !m->transpose_b ? t->columns % m->width : 0;
  if (rest < t->columns) part.columns -= rest;
  for (int64_t left = t->columns; left > 0; part.columns = left) {
    size_t past = (size_t)part.columns * mscrt_dtype_bytes(m->dtype);
    multiply_tile(j, w, &part, &at);
    left -= part.columns, part.column += part.columns;
    at.b += past, at.c += past, at.bias = bias ? at.bias + past : NULL;
  }
}

static const char *columns_of_b(const matmul_job *j, int64_t batch, int64_t column) {
  const mscrt_matmul *m = j->r->matmul;
  return (const char *)j->buffers[1] +
         (size_t)(batch * m->stride_b + column * (m->transpose_b ? m->k : 1)) * mscrt_dtype_bytes(m->dtype);
}

/* Panels that one unit packs for all workers: enough for long runs of memory, few enough for a unit per thread. */
enum { PACKED_TOGETHER = 4 };

/* True if packing a panel writes nothing behind it: squares of a transposed b are whole (codegen/emit/product_pack.c),
 * those of its last block if zeros fill blocks. Else the panel behind it must be packed later. Parts are not written
 * behind their chunk. */
static bool packs_panels_apart(const mscrt_matmul *m) {
  if (m->packing == MSC_PACKED_PARTS) return true;
  bool filled = msc_product_is_filled(m->k, m->blocks, m->packing);
  int64_t units =
      filled ? msc_product_block_units(m->k / m->blocks, m->packing) : msc_product_units(m->k, m->blocks, m->packing);
  return !m->transpose_b || msc_product_whole(units, m->width) == units;
}

static void pack_shared(void *arg, int64_t unit, int worker) {
  const matmul_job *j = arg;
  int64_t begin = unit * PACKED_TOGETHER, end = begin + PACKED_TOGETHER, num = num_panels(j->r->matmul, j->columns);
  (void)worker;
  pack_panels(j->r, columns_of_b(j, 0, j->first_column), j->c->panels, j->columns, begin, end < num ? end : num);
}

/* Packs the present columns for all workers. */
static void pack_for_all(const matmul_job *j) {
  const mscrt_record *r = j->r;
  int64_t num = num_panels(r->matmul, j->columns), units = (num + PACKED_TOGETHER - 1) / PACKED_TOGETHER;
  if (packs_panels_apart(r->matmul)) run_units(j->c, r, units, pack_shared, (void *)(uintptr_t)j);
  else pack_panels(r, columns_of_b(j, 0, j->first_column), j->c->panels, j->columns, 0, num);
}

static void run_tile(void *arg, int64_t unit, int worker) {
  const matmul_job *j = arg;
  const mscrt_matmul *m = j->r->matmul;
  mscrt_worker *w = &j->c->worker[worker];
  void *const *buffers = j->buffers;
  size_t bytes = mscrt_dtype_bytes(m->dtype), result_bytes = mscrt_dtype_bytes(mscrt_result_dtype(m));
  tile t = tile_of_unit(m, j->first_column / m->tile_n * m->tiles_m + unit);
  const char *a =
      (const char *)buffers[0] + (size_t)(t.batch * m->stride_a + t.row * (m->transpose_a ? 1 : m->k)) * bytes;
  const char *b = columns_of_b(j, t.batch, t.column);
  char *c = m->tile_bytes ? w->tile
                          : (char *)buffers[2] + (size_t)((t.batch * m->m + t.row) * m->n + t.column) * result_bytes;
  const char *bias = m->bias ? (const char *)buffers[3] + (size_t)t.column * result_bytes : NULL;
  if (j->r->multiply) run_product(j, w, &t, a, b, c, bias);
  else if (!mscrt_tile_run(j->r->tile[t.last_row][t.last_column], worker, a, b, c, bias))
    atomic_store(&j->c->tile_failed, true);
  if (j->r->epilogue)
    run_epilogue(j->r->epilogue, w, j->epilogue, m, t.batch * m->m + t.row, t.rows, t.column, t.columns);
}

/* Runs the tiles of a product: all columns at once, or groups of columns one after the other, each packed for all
 * workers first, unless they are packed already. */
static void run_tiles(mscrt_context *c, const mscrt_record *r, matmul_job *j) {
  const mscrt_matmul *m = r->matmul;
  if (!m->shared_columns) {
    run_units(c, r, r->units, run_tile, j);
    return;
  }
  for (; j->first_column < m->n; j->first_column += m->shared_columns) {
    int64_t left = m->n - j->first_column;
    j->columns = left < m->shared_columns ? left : m->shared_columns;
    if (!r->finds_packed) pack_for_all(j);
    run_units(c, r, (j->columns + m->tile_n - 1) / m->tile_n * m->tiles_m, run_tile, j);
  }
}

static mscrt_status *run_matmul_call(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, int64_t step) {
  matmul_job job = {.c = c,
                    .r = r,
                    .buffers = mscrt_buffers_of(c, r, slots, 0),
                    .epilogue = r->epilogue ? mscrt_buffers_of(c, r->epilogue, slots, 1) : NULL};
  mscrt_guard *guard = NULL;
  c->products++;
  if (MSC_SANITIZED) {
    MSCRT_CHECK(mscrt_guard_open(r, job.buffers, job.epilogue, &guard));
    job.buffers = mscrt_guard_buffers(guard), job.epilogue = mscrt_guard_epilogue(guard);
  }
  run_tiles(c, r, &job);
  if (MSC_SANITIZED) MSCRT_CHECK(mscrt_guard_close(guard, c, step));
  if (!atomic_load_explicit(&c->tile_failed, memory_order_relaxed)) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "rank %d: step %" PRId64 ": %s: oneDNN failed", c->o.rank,
                    mscrt_step_number(step), r->name ? r->name : "matmul");
}

/* ---- chains ---- */

typedef struct {
  mscrt_context *c;
  const mscrt_record *first; /* the first call of the chain */
  int64_t parts;             /* into so many parts the strips are divided, one for each thread */
  int64_t *ns;               /* when the thread of part 0 began each call, and ended the last; NULL: not measured */
} chain_job;

/* Runs rows [from, to) of a product whose b is packed already (b_lies), tile by tile. */
static void run_product_rows(mscrt_context *c, const mscrt_record *r, void *const *buffers, int64_t from, int64_t to,
                             int worker) {
  const mscrt_matmul *m = r->matmul;
  matmul_job job = {.c = c, .r = r, .buffers = buffers};
  size_t bytes = mscrt_dtype_bytes(m->dtype);
  for (int64_t column = 0; column < m->n; column += m->tile_n) {
    tile t = {.row = from, .rows = to - from, .column = column, .columns = mscrt_smaller(m->n - column, m->tile_n)};
    run_product(&job, &c->worker[worker], &t, (const char *)buffers[0] + (size_t)(from * m->k) * bytes,
                columns_of_b(&job, 0, column), (char *)buffers[2] + (size_t)(from * m->n + column) * bytes,
                m->bias ? (const char *)buffers[3] + (size_t)column * bytes : NULL);
  }
}

/* Runs strips [from, to) of the `strips` strips of one call. */
static void run_strips_of_call(mscrt_context *c, const mscrt_record *r, void *const *buffers, int64_t strips,
                               int64_t from, int64_t to, int worker) {
  if (r->matmul) run_product_rows(c, r, buffers, r->matmul->m / strips * from, r->matmul->m / strips * to, worker);
  else r->kernel(buffers, r->extent / strips * from, r->extent / strips * to, r->dims, r->scalars);
}

/* Runs a part of the strips through all calls of the chain. */
static void run_strips(void *arg, int64_t part, int worker) {
  const chain_job *j = arg;
  int64_t strips = j->first->strips, from = strips * part / j->parts, to = strips * (part + 1) / j->parts;
  for (uint32_t i = 0; i < j->first->chained; i++) {
    const mscrt_record *r = &j->first[i];
    if (part == 0 && j->ns) j->ns[i] = mscrt_now_ns();
    run_strips_of_call(j->c, r, r->buffers, strips, from, to, worker);
  }
  if (part == 0 && j->ns) j->ns[j->first->chained] = mscrt_now_ns();
}

/* Runs the strips one after the other, the last one first. Every call of a strip works on copies of its buffers, which
 * are checked after the call. */
static mscrt_status *run_guarded_chain(mscrt_context *c, const mscrt_record *first, int64_t *ns, int64_t step) {
  int64_t strips = first->strips;
  for (int64_t strip = strips; strip-- > 0;) {
    for (uint32_t i = 0; i < first->chained; i++) {
      mscrt_guard *guard;
      if (ns) ns[i] = mscrt_now_ns();
      MSCRT_CHECK(mscrt_guard_open(&first[i], first[i].buffers, NULL, &guard));
      run_strips_of_call(c, &first[i], mscrt_guard_buffers(guard), strips, strip, strip + 1, 0);
      MSCRT_CHECK(mscrt_guard_close(guard, c, step));
    }
  }
  if (ns) ns[first->chained] = mscrt_now_ns();
  return NULL;
}

static void run_chain(mscrt_context *c, const mscrt_record *first) {
  chain_job job = {c, first, mscrt_smaller(c->threads, first->strips), c->timeline ? c->chain_ns : NULL};
  if (c->strips_apart) {
    job.parts = first->strips;
    for (int64_t i = job.parts; i-- > 0;) run_strips(&job, i, 0);
    return;
  }
  mscrt_pool_run(c->pool, run_strips, &job, job.parts);
}

/* ---- attention and convolutions ---- */

typedef struct {
  mscrt_context *c;
  const mscrt_record *r;
  void *const *buffers;
} graph_job;

static void run_graph_unit(void *arg, int64_t unit, int worker) {
  const graph_job *j = arg;
  void *room = j->c->worker[worker].room;
  if (mscrt_is_attention(j->r->graph)) mscrt_run_attention(j->r, j->buffers, unit, room);
  else mscrt_run_windows(j->r, j->buffers, unit, room);
}

static mscrt_status *run_graph_call(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, int64_t step) {
  graph_job job = {c, r, mscrt_buffers_of(c, r, slots, 0)};
  mscrt_guard *guard = NULL;
  if (MSC_SANITIZED) {
    MSCRT_CHECK(mscrt_guard_open(r, job.buffers, NULL, &guard));
    job.buffers = mscrt_guard_buffers(guard);
  }
  run_units(c, r, r->units, run_graph_unit, &job);
  return MSC_SANITIZED ? mscrt_guard_close(guard, c, step) : NULL;
}

/* ---- the device ---- */

const mscrt_part *mscrt_parts_of(mscrt_context *c, const mscrt_record *r, const mscrt_slots *slots, bool stream) {
  if (!r->part_space) return r->part;
  mscrt_part *part = c->parts[stream];
  for (uint32_t i = 0; i < r->num_parts; i++) {
    part[i] = r->part[i];
    part[i].src += slots->shift[r->part_space[2 * i]];
    part[i].dst = (char *)part[i].dst + slots->shift[r->part_space[2 * i + 1]];
  }
  return part;
}

static mscrt_status *run_collective_on_cpu(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                           mscrt_ticket *out_ticket) {
  const mscrt_record *r = t->record;
  return c->transport->run(c->comm, pool, r->num_parts, mscrt_parts_of(c, r, t->slots, pool != c->pool),
                           &(mscrt_site){r->name, r->loc, t->step}, out_ticket);
}

static mscrt_status *run_call_on_cpu(mscrt_context *c, const mscrt_execution *t) {
  mscrt_ticket ticket;
  switch (t->record->kind) {
    case PLAN_CALL_KIND_KERNEL: return run_kernel_call(c, t->record, t->slots, t->step);
    case PLAN_CALL_KIND_MATMUL: return run_matmul_call(c, t->record, t->slots, t->step);
    case PLAN_CALL_KIND_GRAPH: return run_graph_call(c, t->record, t->slots, t->step);
    case PLAN_CALL_KIND_ADMIT: return mscrt_admit_rows(c, c->pool, t);
    default: return run_collective_on_cpu(c, c->pool, t, &ticket); /* a collective of this rank alone */
  }
}

static mscrt_status *run_message_on_cpu(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  mscrt_site site = {r->name, r->loc, t->step};
  void *buffer = mscrt_buffer_in_slots(r, 0, t->slots);
  return r->receives ? c->transport->receive(c->comm, &r->channel, buffer, &site)
                     : c->transport->send(c->comm, &r->channel, buffer, &site);
}

const mscrt_device mscrt_device_cpu = {
    .name = "cpu",
    .holds_values = true,
    .runs_strips = true,
    .uses_arena = true,
    .has_onednn = true,
    .measures_products = true,
    .has_tcp = true,
    .recovers = true,
    .compute = run_call_on_cpu,
    .message = run_message_on_cpu,
    .collective = run_collective_on_cpu,
};

/* Waits for collectives before a call: until those up to w.run have run here, and all members have passed those up to
 * w.release. The time counts as exposed communication: nothing else happens on this rank. */
static mscrt_status *wait_before_call(mscrt_context *c, const mscrt_execution *t, msc_waits w) {
  if (c->device->orders_collectives) return c->device->wait(c, t, w.run);
  if (!(w.run && c->stream) && w.release <= c->released) return NULL;
  int64_t begin = mscrt_timeline_now(c->timeline);
  if (c->stream) MSCRT_CHECK(mscrt_stream_wait(c->stream, w.run > w.release ? w.run : w.release));
  MSCRT_CHECK(mscrt_release(c, t, w.release, &c->released));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_WAIT, t, begin);
  return NULL;
}

/* ---- sections ---- */

static mscrt_status *start_collective(mscrt_context *c, const mscrt_execution *t) {
  if (c->stream) {
    mscrt_stream_start(c->stream, t);
    return NULL;
  }
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(mscrt_run_collective(c, c->pool, t, &c->released));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_WAIT, t, begin);
  return NULL;
}

/* Waits for transfers, numbered up to `upto`. */
static mscrt_status *wait_for_transfers(mscrt_context *c, const mscrt_execution *t, uint32_t upto) {
  if (upto && c->device->runs_transfers) return c->device->wait_for_transfers(c, upto);
  if (!upto || !c->mover) return NULL;
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(mscrt_stream_wait(c->mover, upto));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_TRANSFER_WAIT, t, begin);
  return NULL;
}

static mscrt_status *start_transfer(mscrt_context *c, const mscrt_execution *t) {
  MSCRT_CHECK(wait_before_call(c, t, t->record->waits));
  if (c->device->runs_transfers) return c->device->transfer(c, t);
  mscrt_stream_start(c->mover, t);
  return NULL;
}

static mscrt_status *run_compute_call(mscrt_context *c, const mscrt_execution *t) {
  MSCRT_CHECK(wait_before_call(c, t, t->record->waits));
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(c->device->compute(c, t));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_COMPUTE, t, begin);
  return NULL;
}

/* Runs the chain that begins with the call t->record. */
static mscrt_status *run_chained_calls(mscrt_context *c, mscrt_execution *t) {
  const mscrt_record *first = t->record;
  for (uint32_t i = 0; i < first->chained; i++) {
    t->record = &first[i];
    MSCRT_CHECK(wait_for_transfers(c, t, t->record->awaited_transfers));
    MSCRT_CHECK(wait_before_call(c, t, t->record->waits));
  }
  if (MSC_SANITIZED) MSCRT_CHECK(run_guarded_chain(c, first, c->timeline ? c->chain_ns : NULL, t->step));
  else run_chain(c, first);
  for (uint32_t i = 0; c->timeline && i < first->chained; i++) {
    t->record = &first[i];
    mscrt_timeline_put_past(c->timeline, MSCRT_EVENT_COMPUTE, t, c->chain_ns[i], c->chain_ns[i + 1]);
  }
  return NULL;
}

/* Sends or receives a message; waiting for it is exposed communication too. */
static mscrt_status *run_message_call(mscrt_context *c, const mscrt_execution *t) {
  MSCRT_CHECK(wait_before_call(c, t, t->record->waits));
  int64_t begin = mscrt_timeline_now(c->timeline);
  if (t->record->receives) c->received_bytes += t->record->channel.bytes;
  uint64_t number = mscrt_flight_message(c->flight, t->record, t->step);
  MSCRT_CHECK(c->device->message(c, t));
  mscrt_flight_end(c->flight, number);
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_WAIT, t, begin);
  return NULL;
}

/* Computes a sum over all workers as if each had the values of this one: for workers that do not wait for one
 * another, and so do not know the values of the others. */
static void sum_own_values(const mscrt_context *c, const mscrt_record *r) {
  const void *term[MSCRT_MOST_WORKERS];
  for (uint32_t i = 0; i < r->num_parts; i++) {
    const mscrt_exchange *e = r->part[i].e;
    for (int w = 0; w < c->o.ranks; w++) term[w] = c->arena + r->part[i].src;
    mscrt_combine(e->dtype, MSC_SUM, c->o.ranks, term, r->part[i].dst, e->elems);
  }
}

static mscrt_status *run_calls(mscrt_context *c, const mscrt_section *s, const mscrt_slots *slots, int64_t step,
                               uint32_t micro) {
  mscrt_execution t = {.section = s, .slots = slots, .step = step, .micro = micro};
  uint32_t started = 0, moved = 0;
  c->released = 0;
  for (uint32_t i = 0; i < s->num_calls; i++) {
    t.record = &s->call[i];
    if (t.record->served == MSCRT_BY_SERVERS) {
      if (t.record->kind != PLAN_CALL_KIND_COLLECTIVE) continue;
      MSCRT_CHECK(wait_for_transfers(c, &t, t.record->awaited_transfers));
      mscrt_keep_gradient(c, t.record, slots);
      continue;
    }
    if (t.record->served == MSCRT_BY_EACH) {
      sum_own_values(c, t.record);
      continue;
    }
    if (t.record->chained) {
      i += t.record->chained - 1;
      MSCRT_CHECK(run_chained_calls(c, &t));
      continue;
    }
    if (c->device->issue) c->device->issue(c, &t);
    MSCRT_CHECK(wait_for_transfers(c, &t, t.record->awaited_transfers));
    if (t.record->copies) {
      MSCRT_CHECK(wait_before_call(c, &t, t.record->waits));
      MSCRT_CHECK(mscrt_copy_in_place(c, &t));
    } else if (t.record->is_transfer && (c->mover || c->device->runs_transfers)) {
      t.number = ++moved;
      MSCRT_CHECK(start_transfer(c, &t));
    } else if (t.record->beside) {
      t.number = ++started;
      MSCRT_CHECK(start_collective(c, &t));
    } else if (t.record->kind == PLAN_CALL_KIND_MESSAGE) {
      MSCRT_CHECK(run_message_call(c, &t));
    } else {
      MSCRT_CHECK(run_compute_call(c, &t));
    }
  }
  t.record = NULL;
  MSCRT_CHECK(wait_for_transfers(c, &t, moved));
  return wait_before_call(c, &t, (msc_waits){s->num_beside, s->num_beside});
}

static mscrt_status *fail_as_cancelled(const mscrt_context *c) {
  return mscrt_fail(MSCRT_CANCELLED, "cancelled after %" PRId64 " steps of training", c->step);
}

/* After a failure within a step, s, the ranks are out of step: tells all others to give up. Returns s, or a status that
 * says that the caller cancelled the run. */
static mscrt_status *give_up_on_failure(mscrt_context *c, mscrt_status *s) {
  if (!s) return NULL;
  if (c->o.ranks > 1 && atomic_load(&c->cancelled)) {
    mscrt_status_free(s);
    s = fail_as_cancelled(c);
  }
  c->broken = true;
  c->transport->abort(c->comm, mscrt_status_text(s));
  if (c->stream) mscrt_stream_stop(c->stream);
  if (c->mover) mscrt_stream_stop(c->mover);
  return s;
}

/* ---- programs ---- */

static void choose_slots(const mscrt_context *c, const plan_entry *e, int input_slot, mscrt_slots *out) {
  const uint64_t *bytes = c->plan->stage[c->stage].bytes;
  *out = (mscrt_slots){0};
  out->shift[PLAN_SPACE_INPUT] = (uint64_t)input_slot * c->input_stride;
  out->shift[PLAN_SPACE_CARRIED_FB] = e->fb * bytes[PLAN_SPACE_CARRIED_FB];
  out->shift[PLAN_SPACE_CARRIED_FW] = e->fw * bytes[PLAN_SPACE_CARRIED_FW];
  out->shift[PLAN_SPACE_CARRIED_BW] = e->bw * bytes[PLAN_SPACE_CARRIED_BW];
}

static mscrt_status *write_micro_number(mscrt_context *c, uint32_t micro) {
  uint64_t at = c->plan->stage[c->stage].micro + c->space_offset[PLAN_SPACE_PERSISTENT];
  int64_t number = micro;
  if (c->plan->stage[c->stage].micro == UINT64_MAX || !c->device->holds_values) return NULL;
  if (c->device->has_memory) return c->device->set_micro(c, at, micro);
  memcpy(c->arena + at, &number, sizeof number);
  return NULL;
}

/* Reads batch `index` into an input slot. */
static mscrt_status *read_batch(mscrt_context *c, const mscrt_program *g, bool train, int64_t index, int *out_slot) {
  *out_slot = 0;
  if (!c->feed && g->micro == 1) return NULL;
  if (!c->feed) {
    *out_slot = (int)(index % (int64_t)c->input_slots);
    mscrt_copy_inputs(c, (uint32_t)(index % g->micro), *out_slot);
    return NULL;
  }
  if (!c->device->runs_programs) return mscrt_feed_get(c->feed, train, index, out_slot);
  *out_slot = (int)(index % (int64_t)c->input_slots);
  return NULL;
}

/* Reads `num` batches from number `first` on into consecutive slots, of which *out_slot is the first. */
static mscrt_status *read_batches(mscrt_context *c, const mscrt_program *g, bool train, int64_t first, uint32_t num,
                                  int *out_slot) {
  int slot;
  MSCRT_CHECK(read_batch(c, g, train, first, out_slot));
  for (uint32_t i = 1; i < num; i++) MSCRT_CHECK(read_batch(c, g, train, first + i, &slot));
  return NULL;
}

static mscrt_status *run_program_entry(mscrt_context *c, const mscrt_program *g, uint32_t index, bool train,
                                       int64_t step) {
  const plan_entry *e = &g->entry[index];
  const mscrt_section *s = &c->section[e->section];
  mscrt_slots slots;
  int input_slot = 0;
  int64_t first = step * (int64_t)g->micro + e->micro;
  if (s->inputs) MSCRT_CHECK(read_batches(c, g, train, first, s->copies, &input_slot));
  choose_slots(c, e, input_slot, &slots);
  MSCRT_CHECK(write_micro_number(c, e->micro));
  int64_t begin = mscrt_timeline_now(c->timeline);
  MSCRT_CHECK(run_calls(c, s, &slots, step, e->micro));
  mscrt_timeline_put(c->timeline, MSCRT_EVENT_SECTION,
                     &(mscrt_execution){.section = s, .step = step, .micro = e->micro}, begin);
  if (s->inputs) c->last_slot = input_slot;
  for (uint32_t k = 0; c->feed && !c->device->runs_programs && k < g->release[index]; k++) mscrt_feed_release(c->feed);
  return NULL;
}

mscrt_status *mscrt_run_entries(mscrt_context *c, uint32_t program, bool train, int64_t step) {
  const mscrt_program *g = &c->program[program];
  for (uint32_t i = 0; i < g->num; i++) MSCRT_CHECK(run_program_entry(c, g, i, train, step));
  return c->pushing && train ? mscrt_push_and_pull(c, c->pushing) : NULL;
}

static mscrt_status *run_program(mscrt_context *c, uint32_t program, bool train, int64_t step) {
  return c->device->runs_programs ? c->device->run(c, program, train, step)
                                  : mscrt_run_entries(c, program, train, step);
}

/* Makes the copies of parameters that steps of training read and keep up to date, if these may not be right. */
static mscrt_status *run_prepare(mscrt_context *c, int64_t step) {
  uint32_t prepare;
  if (c->prepared || !mscrt_find_program(c->plan, "prepare", &prepare)) return NULL;
  mscrt_status *s = run_program(c, prepare, false, step);
  c->prepared = !s;
  return s;
}

void mscrt_note_change(mscrt_context *c, plan_ref r) {
  uint32_t prepare;
  if (!c->prepared || !mscrt_find_program(c->plan, "prepare", &prepare)) return;
  const mscrt_program *g = &c->program[prepare];
  for (uint32_t i = 0; i < g->num; i++)
    for (uint32_t k = 0; k < c->section[g->entry[i].section].num_calls; k++) {
      const mscrt_record *call = &c->section[g->entry[i].section].call[k];
      for (uint32_t b = 0; b < call->num_buffers; b++)
        if (!call->ref[b].written && mscrt_refs_overlap(call->ref[b], r)) c->prepared = false;
    }
}

mscrt_status *mscrt_run_program(mscrt_context *c, uint32_t program, int64_t step) {
  bool train = !strcmp(mscrt_program_name(c->plan, program), "train");
  if (c->o.ranks == 1 && atomic_exchange(&c->cancelled, false)) return fail_as_cancelled(c);
  if (c->o.ranks > 1 && atomic_load(&c->cancelled)) return give_up_on_failure(c, fail_as_cancelled(c));
  uint32_t mode = mscrt_flush_subnormal();
  int before = c->library ? mscrt_library_enter(c->library) : 0;
  mscrt_status *s = train ? run_prepare(c, step) : NULL;
  if (!s) s = run_program(c, program, train, step);
  if (c->library) mscrt_library_leave(c->library, before);
  mscrt_restore_subnormal(mode);
  c->last_program = program;
  return give_up_on_failure(c, s);
}

void mscrt_cancel(mscrt_context *c) {
  if (c->process != getpid()) return;
  atomic_store(&c->cancelled, true);
  uint64_t one = 1;
  if (c->wake >= 0 && write(c->wake, &one, sizeof one) < 0) return; /* it was written before */
  if (c->comm && c->o.ranks > 1) c->transport->abort(c->comm, "its program cancelled it");
}

double mscrt_loss_of(const mscrt_context *c, uint32_t program) {
  const mscrt_variable *v = c->program[program].loss;
  double loss = (double)NAN;
  if (v && c->device->holds_values)
    mscrt_convert(MSCRT_F64, &loss, 1, v->dtype, mscrt_address_of(c, v->ref, 0), false, false, 1);
  return loss;
}
