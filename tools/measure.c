/* measure.c: small plans compiled and run by all ranks of this machine at once -> arithmetic, memory
 * bandwidth, launch cost. */
#include "tools/measure.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "codegen/compile.h"
#include "ir/abi/clock.h"
#include "runtime/mscrt.h"
#include "runtime/pool.h"
#include "tools/launch.h"
#include "tools/status.h"

enum { NUM_FLOATS = 4, SMALL = 256, LARGE = 1024, CHAIN = 64, MAX_PROBES = 16 };
static const msc_dtype floats[NUM_FLOATS] = {MSC_F32, MSC_F64, MSC_F16, MSC_BF16};
static const double WINDOW_NS = 60e6, QUICK_NS = 5e6, SHARED_NS = 300e6, TOO_LONG_NS = 400e6;

typedef struct {
  const void *plan;
  size_t bytes;
  int after;    /* a smaller probe, or -1 */
  double times; /* as long as that one, it is expected */
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
} measuring;

/* ---- programs ---- */

static int add_probe(measuring *g, const char *text, int after, double times) {
  msc_config *config = msc_config_new(g->c->ctx);
  msc_module *module = msc_parse(g->c->ctx, "probe", text, strlen(text));
  msc_compile_options o = {
      .config = config, .target = {.target = &msc_target_cpu}, .verify = MSC_VERIFY_OFF, .model = "probe"};
  msc_plan *p = module && msc_config_check(config) ? msc_compile(g->c->ctx, module, &o) : NULL;
  probe *at = &g->probe[g->num];
  *at = (probe){.after = after, .times = times};
  at->plan = p ? msc_plan_bytes(p, &at->bytes) : NULL;
  return at->plan ? g->num++ : -1;
}

/* %w0 and %w1 of one type, `body` from them to %y. */
static int add_body(measuring *g, const char *type, const char *body, int after, double times) {
  msc_arena *a = msc_context_arena(g->c->ctx);
  return add_probe(
      g,
      msc_arena_printf(a,
                       "\"builtin.module\"() ({\n  \"msc.func\"() ({\n  ^bb0(%%w0: %s, %%w1: %s):\n%s    "
                       "\"msc.return\"(%%y) : (%s) -> ()\n  }) {sym_name = \"forward\", results = [\"y\"], arg_attrs = "
                       "[{msc.name = \"w0\", msc.role = \"parameter\", msc.init = \"normal:0.1\"}, {msc.name = \"w1\", "
                       "msc.role = \"parameter\", msc.init = \"normal:0.1\"}]} : () -> ()\n}) : () -> ()\n",
                       type, type, body, type),
      after, times);
}

static const char *line_of(msc_arena *a, const char *to, const char *op, const char *x, const char *type) {
  return msc_arena_printf(a, "    %s = \"msc.%s\"(%s, %%w1) : (%s, %s) -> %s\n", to, op, x, type, type, type);
}

static int add_one_op(measuring *g, const char *op, const char *type, int after, double times) {
  return add_body(g, type, line_of(msc_context_arena(g->c->ctx), "%y", op, "%w0", type), after, times);
}

/* Small products, one after the other: what a kernel costs whatever its size. */
static int add_chain(measuring *g, int num) {
  msc_arena *a = msc_context_arena(g->c->ctx);
  const char *last = "%w0", *body = "";
  for (int i = 0; i < num; i++) {
    const char *next = i + 1 == num ? "%y" : msc_arena_printf(a, "%%%d", i);
    body = msc_arena_printf(a, "%s%s", body, line_of(a, next, "matmul", last, "tensor<4x4xf32>"));
    last = next;
  }
  return add_body(g, "tensor<4x4xf32>", body, -1, 0);
}

/* ---- a rank ---- */

/* Nanoseconds of a step, the best of some windows: what disturbs only adds.  Ranks that share a core disturb each other
 * always: theirs is a mean over what is long against the slices of time that they get. */
static mscrt_status *time_steps(const measured *m, mscrt_context *ctx, double *out_ns) {
  double best = 0, total = 0, window = m->quick ? QUICK_NS : WINDOW_NS;
  int64_t done = 0;
  bool alone = m->ranks <= mscrt_cores();
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

static mscrt_status *run_probe(const measuring *g, const probe *p, double *out_ns) {
  mscrt_plan *plan = NULL;
  mscrt_context *ctx = NULL;
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_options o = {.struct_size = sizeof o, .threads = g->m->threads};
  mscrt_status *s = mscrt_plan_open(p->plan, p->bytes, &trust, &plan);
  if (!s) s = mscrt_open(plan, &o, &ctx);
  pthread_barrier_wait(&g->board->barrier);
  if (!s) s = time_steps(g->m, ctx, out_ns);
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

static int run_probe_rank(void *arg, int rank, const launch_line *line) {
  measuring *g = arg;
  for (int i = 0; i < g->num; i++) {
    const probe *p = &g->probe[i];
    /* all ranks see the same */
    if (p->after >= 0 && (g->m->quick || slowest(g, p->after) * p->times > TOO_LONG_NS)) continue;
    mscrt_status *s = run_probe(g, p, &g->board->ns[i][rank]);
    if (!s) continue;
    return status_of_rank(g->c, line, MSC_E_TARGET, s);
  }
  return CLI_OK;
}

/* ---- all ---- */

static int run_all(measuring *g) {
  pthread_barrierattr_t shared;
  g->board = mmap(NULL, sizeof *g->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (g->board == MAP_FAILED) {
    msc_error(g->c->ctx, MSC_E_OUT_OF_MEMORY, NULL, "out of memory");
    return CLI_ENVIRONMENT;
  }
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&g->board->barrier, &shared, (unsigned)g->m->ranks);
  return launch(g->c, g->m->ranks, 0, 0, run_probe_rank, g);
}

/* Elements of each of the three tensors of the addition: beyond any cache, within the memory. */
static int64_t stream_elems(const measured *m) {
  int64_t most = m->memory_bytes / 32 / 4, elems = 1 << 24;
  while (elems > most && elems > 1 << 16) elems /= 2;
  return elems;
}

int measure_device(cli *c, measured *m) {
  measuring g = {.c = c, .m = m};
  msc_arena *a = msc_context_arena(c->ctx);
  int product[NUM_FLOATS][2], scale = LARGE / SMALL;
  int64_t elems = stream_elems(m);
  bool ok = true;
  for (int i = 0; i < NUM_FLOATS; i++)
    for (int k = 0; k < 2; k++) {
      int n = k ? LARGE : SMALL;
      const char *type = msc_arena_printf(a, "tensor<%dx%dx%s>", n, n, msc_dtype_name(floats[i]));
      product[i][k] = add_one_op(&g, "matmul", type, k ? product[i][0] : -1, k ? scale * scale * scale : 0);
      ok &= product[i][k] >= 0;
    }
  int stream = add_one_op(&g, "add", msc_arena_printf(a, "tensor<%" PRId64 "xf32>", elems), -1, 0);
  int one = add_chain(&g, 1), many = add_chain(&g, 1 + CHAIN);
  if (!ok || stream < 0 || one < 0 || many < 0) return CLI_ENVIRONMENT;
  int code = run_all(&g);
  for (int i = 0; i < NUM_FLOATS && !code; i++)
    for (int k = 0; k < 2; k++) {
      double n = k ? LARGE : SMALL, ns = slowest(&g, product[i][k]), peak = ns > 0 ? 2 * n * n * n / ns * 1e9 : 0;
      if (peak > m->flops_per_s[floats[i]]) m->flops_per_s[floats[i]] = peak;
    }
  if (!code) m->bytes_per_s = 12.0 * (double)elems / slowest(&g, stream) * 1e9;
  if (!code) m->launch_ns = (slowest(&g, many) - slowest(&g, one)) / CHAIN;
  if (m->launch_ns < 1) m->launch_ns = 1; /* where others work too one call may have taken longer than many */
  if (g.board && g.board != MAP_FAILED) munmap(g.board, sizeof *g.board);
  return code;
}
