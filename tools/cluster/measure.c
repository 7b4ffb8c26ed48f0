/* measure.c: the number of ranks of this machine in; their arithmetic, memory bandwidth and launch cost, and the speed
 * of the links of several GPUs, out. All ranks compile and run small plans at once. */
#include "tools/cluster/measure.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "codegen/compile.h"
#include "ir/abi/clock.h"
#include "runtime/cuda/gpu.h"
#include "runtime/mscrt.h"
#include "runtime/thread_pool.h"
#include "tools/run/start_ranks.h"
#include "tools/status.h"

enum { NUM_FLOATS = 4, MOST_SIZES = 6, CHAIN = 64, MAX_PROBES = MEASURE_MOST_PRODUCTS + 5 };
_Static_assert(NUM_FLOATS * MOST_SIZES <= MEASURE_MOST_PRODUCTS, "room for all products");
static const msc_dtype floats[NUM_FLOATS] = {MSC_F32, MSC_F64, MSC_F16, MSC_BF16};
static const double WINDOW_NS = 60e6, QUICK_NS = 5e6, SHARED_NS = 300e6, TOO_LONG_NS = 400e6, QUICK_TOO_LONG_NS = 10e6;

typedef struct {
  const void *plan;
  size_t bytes;
  int after;    /* a smaller probe, or -1 */
  double times; /* as long as that one, it is expected */
  bool together; /* a plan of all ranks; else each runs its own */
} probe;

/* What ranks share: how long a step of each probe took on each. */
typedef struct {
  pthread_barrier_t barrier;
  double ns[MAX_PROBES][MEASURE_MAX_RANKS];
} board;

typedef struct {
  cli *c;
  measured *m;
  int num;
  probe probe[MAX_PROBES];
  board *board;
  char address[48]; /* where ranks meet that work together */
} measuring;

/* ---- programs ---- */

/* The probe's number; -1 after an error. */
static int add_probe(measuring *g, const char *text, int after, double times, msc_config *config) {
  bool together = msc_config_devices(config) > 1;
  msc_module *module = msc_parse(g->c->ctx, "probe", text, strlen(text));
  msc_compile_options o = {
      .config = config, .target = {.target = g->m->target}, .verify = MSC_VERIFY_OFF, .model = "probe"};
  msc_plan *p = module && msc_config_check(config) ? msc_compile(g->c->ctx, module, &o) : NULL;
  probe *at = &g->probe[g->num];
  *at = (probe){.after = after, .times = times, .together = together};
  at->plan = p ? msc_plan_bytes(p, &at->bytes) : NULL;
  return at->plan ? g->num++ : -1;
}

/* %w0 and %w1 of one type, `body` from them to %y.  spread: of their values. */
static int add_body(measuring *g, const char *type, double spread, const char *body, int after, double times,
                    msc_config *config) {
  msc_arena *a = msc_context_arena(g->c->ctx);
  return add_probe(
      g,
      msc_arena_printf(a,
                       "\"builtin.module\"() ({\n  \"msc.func\"() ({\n  ^bb0(%%w0: %s, %%w1: %s):\n%s    "
                       "\"msc.return\"(%%y) : (%s) -> ()\n  }) {sym_name = \"forward\", results = [\"y\"], arg_attrs = "
                       "[{msc.name = \"w0\", msc.role = \"parameter\", msc.init = \"normal:%g\"}, {msc.name = \"w1\", "
                       "msc.role = \"parameter\", msc.init = \"normal:%g\"}]} : () -> ()\n}) : () -> ()\n",
                       type, type, body, type, spread, spread),
      after, times, config);
}

/* Adds a probe: `num` ops one after the other, each of the result of the one before it and %w1. */
static int add_chain(measuring *g, const char *op, int num, const char *type, double spread, int after, double times) {
  msc_arena *a = msc_context_arena(g->c->ctx);
  const char *last = "%w0", *body = "";
  for (int i = 0; i < num; i++) {
    const char *next = i + 1 == num ? "%y" : msc_arena_printf(a, "%%%d", i);
    body = msc_arena_printf(a, "%s    %s = \"msc.%s\"(%s, %%w1) : (%s, %s) -> %s\n", body, next, op, last, type, type,
                            type);
    last = next;
  }
  return add_body(g, type, spread, body, after, times, msc_config_new(g->c->ctx));
}

/* Products of n x n.  Their values neither grow nor vanish, since a GPU that multiplies zeros or infinities is fast. */
static int add_products(measuring *g, int num, int64_t n, msc_dtype dtype, int after, double times) {
  const char *type = msc_arena_printf(msc_context_arena(g->c->ctx), "tensor<%" PRId64 "x%" PRId64 "x%s>", n, n,
                                      msc_dtype_name(dtype));
  return add_chain(g, "matmul", num, type, 1 / sqrt((double)n), after, times);
}

/* Gathers a tensor that the ranks hold parts of: a square, cut, of which all ranks want all. */
static int add_gathering(measuring *g, int64_t elems) {
  msc_arena *a = msc_context_arena(g->c->ctx);
  msc_config *config = msc_config_new(g->c->ctx);
  const char *t = msc_arena_printf(a, "tensor<%" PRId64 "xf32>", elems);
  bool ok = msc_config_set(config, msc_arena_printf(a, "device_num=%d", g->m->ranks)) &&
            msc_config_set(config, "parallel_mode=semi_auto_parallel");
  const char *body = msc_arena_printf(a,
                                      "    %%0 = \"msc.mul\"(%%w0, %%w0) {in_strategy = [[%d], [%d]]} : "
                                      "(%s, %s) -> %s\n"
                                      "    %%y = \"msc.relu\"(%%0) {in_strategy = [[1]]} : (%s) -> %s\n",
                                      g->m->ranks, g->m->ranks, t, t, t, t, t);
  return ok ? add_body(g, t, 1, body, -1, 0, config) : -1;
}

/* ---- a rank ---- */

/* Nanoseconds of a step, the best of some windows: what disturbs only adds.  Ranks that share a core disturb each other
 * always: theirs is a mean over what is long against the slices of time that they get. */
static mscrt_status *time_steps(const measured *m, mscrt_context *ctx, double *out_ns) {
  double best = 0, total = 0, window = m->quick ? QUICK_NS : WINDOW_NS;
  int64_t done = 0;
  bool alone = m->ranks <= m->cores;
  mscrt_status *s = mscrt_run(ctx, "forward", 1, NULL); /* touches all memory */
  for (int64_t steps = 1, windows = 0; windows < 3 && !s && (alone || total < SHARED_NS);) {
    double begin = (double)msc_clock_ns();
    s = mscrt_run(ctx, "forward", steps, NULL);
    double ns = (double)msc_clock_ns() - begin;
    total += ns, done += steps;
    if (best == 0 || ns / (double)steps < best) best = ns / (double)steps;
    if (ns < window) steps *= 2;
    else windows += alone;
  }
  *out_ns = alone ? best : total / (double)(done ? done : 1);
  return s;
}

/* Nanoseconds of a step that all ranks make together, each the same number of times. */
static mscrt_status *time_common_steps(const measured *m, mscrt_context *ctx, double *out_ns) {
  const int64_t steps = m->quick ? 5 : 50;
  mscrt_status *s = mscrt_run(ctx, "forward", steps, NULL);
  *out_ns = 0;
  for (int i = 0; i < 3 && !s; i++) {
    double begin = (double)msc_clock_ns();
    s = mscrt_run(ctx, "forward", steps, NULL);
    double ns = ((double)msc_clock_ns() - begin) / (double)steps;
    if (*out_ns == 0 || ns < *out_ns) *out_ns = ns;
  }
  return s;
}

static mscrt_status *run_probe(const measuring *g, const probe *p, int rank, double *out_ns) {
  mscrt_plan *plan = NULL;
  mscrt_context *ctx = NULL;
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_options o = {.struct_size = sizeof o, .threads = g->m->threads, .cores = g->m->cores};
  if (p->together) o.rank = rank, o.ranks = g->m->ranks, o.address = g->address;
  mscrt_status *s = mscrt_plan_open(p->plan, p->bytes, &trust, &plan);
  if (!s) s = mscrt_open(plan, &o, &ctx);
  pthread_barrier_wait(&g->board->barrier);
  if (!s) s = p->together ? time_common_steps(g->m, ctx, out_ns) : time_steps(g->m, ctx, out_ns);
  pthread_barrier_wait(&g->board->barrier); /* nobody is alone while another one still works */
  mscrt_close(ctx);
  mscrt_plan_close(plan);
  return s;
}

static double slowest(const measuring *g, int which) {
  double ns = 0;
  for (int r = 0; r < g->m->ranks; r++)
    if (g->board->ns[which][r] > ns) ns = g->board->ns[which][r];
  return ns;
}

/* True if the probe is given up. All ranks decide this from the same times. */
static bool takes_too_long(const measuring *g, const probe *p) {
  double before = p->after >= 0 ? slowest(g, p->after) : 1, most = g->m->quick ? QUICK_TOO_LONG_NS : TOO_LONG_NS;
  return before == 0 || (p->after >= 0 && before * p->times > most);
}

static int run_probe_rank(void *arg, int rank, const launcher_line *line) {
  measuring *g = arg;
  for (int i = 0; i < g->num; i++) {
    const probe *p = &g->probe[i];
    if (takes_too_long(g, p)) continue;
    mscrt_status *s = run_probe(g, p, rank, &g->board->ns[i][rank]);
    if (!s) continue;
    return status_of_rank(g->c, line, MSC_E_TARGET, s);
  }
  return CLI_OK;
}

/* ---- all ---- */

static bool report_out_of_memory(cli *c) { return msc_error(c->ctx, MSC_E_OUT_OF_MEMORY, NULL, "out of memory"); }

static int run_all(measuring *g) {
  pthread_barrierattr_t shared;
  uint64_t name[2];
  g->board = mmap(NULL, sizeof *g->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (g->board == MAP_FAILED || getrandom(name, sizeof name, 0) != sizeof name) {
    report_out_of_memory(g->c);
    return CLI_ENVIRONMENT;
  }
  snprintf(g->address, sizeof g->address, "@msc-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&g->board->barrier, &shared, (unsigned)g->m->ranks);
  return start_ranks(g->c, &(ranks_job){.ranks = g->m->ranks, .fn = run_probe_rank, .arg = g});
}

/* Elements of each of the three tensors of the addition: beyond any cache, within the memory. */
static int64_t stream_elems(const measured *m) {
  int64_t most = m->memory_bytes / 32 / 4, elems = m->target->is_gpu && !m->quick ? 1 << 26 : 1 << 24;
  while (elems > most && elems > 1 << 16) elems /= 2;
  return elems;
}

/* The numbers of probes. */
typedef struct {
  int num_sizes, repeats; /* repeats: products of one probe, since the host waits once per step for a GPU */
  const int64_t *n;
  int64_t elems, gathered[2];
  int product[NUM_FLOATS][MOST_SIZES], stream, one, many, gather[2];
} probes;

static bool add_probes(measuring *g, probes *p) {
  const measured *m = g->m;
  bool ok = true;
  for (int i = 0; i < NUM_FLOATS; i++)
    for (int k = 0; k < p->num_sizes; k++) {
      double times = k ? pow((double)p->n[k] / (double)p->n[k - 1], 3) : 0;
      p->product[i][k] = add_products(g, p->repeats, p->n[k], floats[i], k ? p->product[i][k - 1] : -1, times);
      ok &= p->product[i][k] >= 0;
    }
  const char *type = msc_arena_printf(msc_context_arena(g->c->ctx), "tensor<%" PRId64 "xf32>", p->elems);
  p->stream = add_chain(g, "add", 1, type, 1, -1, 0);
  p->one = add_products(g, 1, 4, MSC_F32, -1, 0);
  p->many = add_products(g, 1 + CHAIN, 4, MSC_F32, -1, 0);
  for (int k = 0; k < 2 && m->target->is_gpu && m->ranks > 1; k++)
    ok &= (p->gather[k] = add_gathering(g, p->gathered[k])) >= 0;
  return ok && p->stream >= 0 && p->one >= 0 && p->many >= 0;
}

static void note_products(const measuring *g, const probes *p, double wait_ns) {
  measured *m = g->m;
  for (int i = 0; i < NUM_FLOATS; i++)
    for (int k = 0; k < p->num_sizes; k++) {
      double n = (double)p->n[k], ns = (slowest(g, p->product[i][k]) - wait_ns) / p->repeats;
      if (slowest(g, p->product[i][k]) == 0) continue;
      if (ns < 1) ns = 1;
      m->product[m->num_products++] = (measured_product){floats[i], p->n[k], (int64_t)ceil(ns)};
      if (2 * n * n * n / ns * 1e9 > m->flops_per_s[floats[i]]) m->flops_per_s[floats[i]] = 2 * n * n * n / ns * 1e9;
    }
}

/* What every rank receives in a gathering, over the time by which a large one is slower than a small one. */
static void note_links(const measuring *g, const probes *p) {
  measured *m = g->m;
  double small = slowest(g, p->gather[0]), large = slowest(g, p->gather[1]), others = (m->ranks - 1.0) / m->ranks;
  double bytes = 4.0 * (double)(p->gathered[1] - p->gathered[0]) * others;
  const double disturbed = 1.0 / 16; /* where others work too, a small one may take longer than a large one */
  m->link_bytes_per_s = bytes / fmax(large - small, fmax(large * disturbed, 1)) * 1e9;
  m->latency_ns = fmax(1, (small - slowest(g, p->one) - m->launch_ns) / (m->ranks - 1));
}

int measure_device(cli *c, measured *m) {
  measuring g = {.c = c, .m = m};
  static const int64_t of_gpu[MOST_SIZES] = {64, 256, 1024, 2048, 4096, 8192}, of_cpu[] = {256, 1024};
  probes p = {.num_sizes = m->target->is_gpu ? MOST_SIZES : 2,
              .n = m->target->is_gpu ? of_gpu : of_cpu,
              .repeats = m->target->is_gpu ? 8 : 1,
              .elems = stream_elems(m),
              .gathered = {m->ranks * (int64_t)64, m->ranks * (int64_t)(m->quick ? 1 << 16 : 1 << 22)}};
  if (!add_probes(&g, &p)) return CLI_ENVIRONMENT;
  int code = run_all(&g);
  if (!code) {
    m->launch_ns = fmax(1, (slowest(&g, p.many) - slowest(&g, p.one)) / CHAIN); /* one call may be disturbed more */
    double wait_ns = m->target->is_gpu ? fmax(0, slowest(&g, p.one) - m->launch_ns) : 0;
    note_products(&g, &p, wait_ns);
    m->bytes_per_s = 12.0 * (double)p.elems / fmax(slowest(&g, p.stream) - wait_ns, 1) * 1e9;
    if (m->target->is_gpu && m->ranks > 1) note_links(&g, &p);
  }
  if (g.board && g.board != MAP_FAILED) munmap(g.board, sizeof *g.board);
  return code;
}

const void *measure_compile_product(cli *c, measured *m, size_t *out_bytes) {
  measuring g = {.c = c, .m = m};
  if (add_products(&g, 1, 512, MSC_F32, -1, 0) < 0) return NULL;
  *out_bytes = g.probe[0].bytes;
  return g.probe[0].plan;
}

/* ---- what a GPU is ---- */

typedef struct {
  cli *c;
  mscrt_gpu gpu;
  int num;
  char name[MSCRT_GPU_NAME];
} described;

static int describe_rank(void *arg, int rank, const launcher_line *line) {
  described *d = arg;
  mscrt_status *s = mscrt_gpu_describe(rank, d->name, &d->gpu, &d->num);
  return s ? status_of_rank(d->c, line, MSC_E_TARGET, s) : CLI_OK;
}

/* The driver is asked in another process: ranks that this one forks could not use GPUs any more. */
int measure_gpu(cli *c, measured *m) {
  described *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (d == MAP_FAILED) {
    report_out_of_memory(c);
    return CLI_ENVIRONMENT;
  }
  d->c = c;
  int code = start_ranks(c, &(ranks_job){.ranks = 1, .fn = describe_rank, .arg = d});
  const mscrt_gpu *g = &d->gpu;
  if (!code) {
    m->figures = (msc_cluster_gpu){g->arch,        g->multiprocessors, g->clock_hz, g->memory_clock_hz,
                                   g->cache_bytes, g->shared_bytes,    g->threads,  g->blocks};
    m->memory_bytes = g->memory_bytes;
    m->device = msc_arena_printf(msc_context_arena(c->ctx), "%s", d->name);
    if (m->ranks == 0) m->ranks = d->num < MEASURE_MAX_RANKS ? d->num : MEASURE_MAX_RANKS;
  }
  munmap(d, sizeof *d);
  return code;
}
