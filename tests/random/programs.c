/* Random programs, whole: what their code computes on one rank and on several is what the interpreter finds for the
 * program as it was written, in f64; losses, results, parameters and state after every step, and memory within the
 * plan's bound.
 *
 *   build/tests/random/programs                    some of them, as a test; with MSC_TEST_SLOW more
 *   build/tests/random/programs run FIRST LAST     seeds FIRST .. LAST - 1, from 1000000 on with large products; a line
 *                                                  for each that fails, and counts; with a fourth word for each that
 *                                                  is refused, or decided by rounding, as well
 *   build/tests/random/programs print SEED         one as a file: its settings, then its text
 *   build/tests/random/programs describe SEED      the same in JSON, with the values of its arguments, for
 *                                                  tests/random/torch_losses.py
 *   build/tests/random/programs case FILE          such a file
 *   build/tests/random/programs shrink SEED|FILE   a smaller one that fails alike */
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "tests/random/describe.h"
#include "tests/random/run.h"
#include "tests/random/shrink.h"

enum {
  QUICK = 20,
  SLOW = 300,
  QUICK_LARGE = 3,
  SLOW_LARGE = 60,
  SECONDS = 120,
  SHRINK_SECONDS = 300,
  FEW_SAMPLES = 2,
  MANY_SAMPLES = 10,
  NUM_VALUES = 3
};

/* A program with odd sums by AMX is among the first three. */
enum { FIRST_LARGE = LARGE + 9 };

typedef enum { PASSED, VAGUE, REFUSED, FAILED, NUM_OUTCOMES } outcome;

/* Of one process that checks one program; the rest is shared with the one that started it. */
typedef struct {
  volatile outcome outcome;
  volatile char doing[96]; /* where it is, should it crash */
  char why[1024];
} verdict;

typedef struct {
  program p;
  msc_context *ctx;
  msc_arena *arena;
  msc_module *m; /* as written */
  msc_func *f;
  verdict *v;
  story exact, rounded[MANY_SAMPLES];
  story unrounded; /* of a narrow compute type: the program without it */
  int num_samples;
  bool ranks; /* the oracle tells what the whole job means */
  bool by_seed;
  bool vague; /* rounding decides so much that nothing could be said of some number */
} problem;

/* ---- reporting ---- */

static bool ended(problem *q, outcome o, const char *fmt, ...) MSC_PRINTF(3, 4);
static bool ended(problem *q, outcome o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(q->v->why, sizeof q->v->why, fmt, ap);
  va_end(ap);
  q->v->outcome = o;
  return false;
}

static void doing(problem *q, const char *what) { snprintf((char *)q->v->doing, sizeof q->v->doing, "%s", what); }

/* ---- comparing ---- */

static bool is_narrow(const program *p) {
  for (int i = 0; i < p->num_settings; i++)
    if (!strncmp(p->setting[i], "compute_type=", 13)) return true;
  return false;
}

/* Whose gradient goes to the largest element: among values that a narrow type makes equal, kernels that keep
 * more digits choose. */
static bool chooses_among_narrow(const problem *q) {
  bool chooses = false;
  for (const msc_op *op = q->f->body->first; op; op = op->next)
    chooses |= op->kind == OP_reduce_max || op->kind == OP_reduce_min || op->kind == OP_max_pool;
  return chooses && is_narrow(&q->p);
}

/* Of number i after this step. */
static distance distance_of(const problem *q, int step, const numbers *want, const numbers *have) {
  const numbers *before = want->is_variable ? numbers_named(&q->exact.at[step - 1], want->name) : NULL;
  distance d = {.off = apart(want, have), .size = largest_of(want, before)};
  bool narrow = is_narrow(&q->p);
  double rounding = 0, kept = 0;
  for (int i = 0; i < q->num_samples; i++)
    rounding = fmax(rounding, apart(want, numbers_named(&q->rounded[i].at[step], want->name)));
  if (narrow) kept = apart(want, numbers_named(&q->unrounded.at[step], want->name));
  /* kernels may keep more digits between ops than a narrow type has, even those of values too large for it */
  d.allowed = 30 * rounding + 2 * kept + (narrow ? 0x1p-6 : 0x1p-19) * d.size + 0x1p-22 * largest_of(want, NULL);
  /* What is left of values of about 1 that cancel; losses are differences of such. */
  d.allowed += want->is_variable ? 0x1p-40 : 0x1p-22;
  if (want->is_variable && chooses_among_narrow(q)) d.allowed = INFINITY;
  if (!want->is_float) d.allowed = 0;
  return d;
}

/* Not what has come apart already, or is too large to be a number of training. */
static bool says_something(const distance *d) { return d->allowed <= 0.3 * d->size && d->size < 1e12; }

static bool same_integers(const numbers *a, const problem *q, int step) {
  for (int i = 0; i < q->num_samples; i++)
    if (apart(a, numbers_named(&q->rounded[i].at[step], a->name)) != 0) return false;
  return true;
}

static bool compare_step(problem *q, int step, const story *have, const char *who) {
  const snapshot *want = &q->exact.at[step];
  for (size_t i = 0; i < want->num; i++) {
    const numbers *n = &want->of[i], *other = numbers_named(&have->at[step], n->name);
    if (!other) continue; /* dropped, as nobody needs it */
    distance d = distance_of(q, step, n, other);
    bool clear = n->is_float ? says_something(&d) || (d.size == 0 && !q->vague) : same_integers(n, q, step);
    if (!clear && !q->vague)
      ended(q, VAGUE, "%s, step %d: of %s, of %.3g, rounding allows %.2g", who, step, n->name, d.size, d.allowed);
    if (!clear) q->vague = true;
    if (clear && !(d.off <= d.allowed))
      return ended(q, FAILED, "%s, step %d: %s is off by %.3g, of %.3g; rounding allows %.2g", who, step, n->name,
                   d.off, d.size, d.allowed);
  }
  return true;
}

static bool compare_steps(problem *q, const story *have, const char *who) {
  for (int s = 1; s <= q->p.steps; s++) MSC_TRY(compare_step(q, s, have, who));
  return true;
}

/* ---- PyTorch's losses ---- */

/* The interpreter's, as recorded of PyTorch: other hands' gradients and optimizers.  Of programs in f32,
 * by their seeds. */
static bool agrees_with_recorded(problem *q) {
  double loss[STEPS];
  uint64_t hash;
  if (!q->by_seed || !recorded_losses(q->p.seed, &hash, loss)) return true;
  if (hash != hash_of_program(&q->p))
    return ended(q, FAILED,
                 "the program is not the one whose losses were recorded: run tests/random/torch_losses.py again");
  for (int s = 1; s <= q->p.steps; s++) {
    const numbers *n = numbers_named(&q->exact.at[s], "loss");
    double rounding = 0, off = fabs(n->v[0] - loss[s - 1]);
    for (int i = 0; i < q->num_samples; i++)
      rounding = fmax(rounding, apart(n, numbers_named(&q->rounded[i].at[s], "loss")));
    if (!(off <= 1e-9 * fabs(loss[s - 1]) + 0x1p-18 * rounding))
      return ended(q, FAILED, "PyTorch, step %d: loss is %.12g, recorded is %.12g", s, n->v[0], loss[s - 1]);
  }
  return true;
}

/* ---- one program ---- */

static oracle oracle_of(const problem *q) { return (oracle){.p = &q->p, .ctx = q->ctx, .written = q->f}; }

/* What inputs that differ in their last place give, until there are so many of these stories; behind the first few, of
 * every other one all results differ as well. */
static bool take_samples(problem *q, int num) {
  oracle o = oracle_of(q);
  bool narrow = is_narrow(&q->p);
  for (; q->num_samples < num; q->num_samples++) {
    o.number = q->num_samples, o.noise = q->num_samples ? 0x1p-23 : 0;
    o.disturbed = q->num_samples >= FEW_SAMPLES && q->num_samples % 2 && !narrow;
    /* so much that values may be rounded otherwise */
    if (narrow) o.noise = q->num_samples < FEW_SAMPLES ? 0x1p-11 : 0x1p-8;
    MSC_TRY(tell(&o, q->arena, q->ranks, false, &q->rounded[q->num_samples]));
  }
  return true;
}

static bool ask_oracle(problem *q, bool ranks) {
  oracle o = oracle_of(q);
  bool narrow = is_narrow(&q->p);
  doing(q, "interpreter");
  q->ranks = ranks, q->num_samples = 0;
  MSC_TRY(tell(&o, q->arena, ranks, !narrow, &q->exact));
  o.unrounded = true;
  if (narrow && !tell(&o, q->arena, ranks, false, &q->unrounded)) return false;
  return take_samples(q, FEW_SAMPLES);
}

/* Few samples may say too little of what rounding does: what they call wrong is judged again by many. */
static bool compare(problem *q, const story *have, const char *who) {
  if (compare_steps(q, have, who)) return true;
  if (q->num_samples == MANY_SAMPLES || !take_samples(q, MANY_SAMPLES)) return false;
  q->v->outcome = PASSED, q->vague = false;
  return compare_steps(q, have, who);
}

/* What is wrong before anything is compiled is no program: the generator's fault, unless it was refused. */
static bool understood(problem *q, bool ranks) {
  if (ask_oracle(q, ranks)) return true;
  made_plan why = {0};
  explain(q->ctx, &why);
  return ended(q, why.is_bug ? FAILED : REFUSED, "interpreter: %s", why.why);
}

/* p is the program, or it within a limit.  out_bytes: what a rank needs; 0: there is no such plan, as it was told. */
static bool right(problem *q, const program *p, bool ranks, const char *who, uint64_t *out_bytes) {
  story told = {0};
  msc_context *ctx = msc_context_new(NULL, NULL);
  doing(q, msc_arena_printf(q->arena, "compiling for %s", who));
  made_plan plan = compiled(ctx, p, ranks);
  bool ok = plan.bytes || ended(q, plan.is_bug ? FAILED : REFUSED, "compiling for %s: %s", who, plan.why);
  doing(q, msc_arena_printf(q->arena, "running %s", who));
  const char *why = ok ? ran(&plan, p, q->f, q->arena, &told) : NULL;
  ok = ok && (!why || ended(q, FAILED, "running %s: %s", who, why));
  doing(q, "comparing");
  ok = ok && compare(q, &told, who);
  *out_bytes = ok ? plan.rank_bytes : 0;
  msc_context_free(ctx);
  return ok;
}

/* The same job in less memory: it takes no more than that, and computes the same; or there is no plan. */
static bool right_within_limit(problem *q, uint64_t bytes) {
  program p = q->p;
  uint64_t limit = bytes - bytes / (4 + p.seed % 5 * 4), used;
  p.setting[p.num_settings++] = msc_arena_printf(q->arena, "memory_limit=%" PRIu64, limit);
  if (p.seed % 3) p.setting[p.num_settings++] = "recompute=auto";
  if (!right(q, &p, true, "all ranks within a limit", &used)) {
    if (q->v->outcome != REFUSED) return false;
    q->v->outcome = NUM_OUTCOMES;
    return true;
  }
  return used <= limit || ended(q, FAILED, "memory_limit is %" PRIu64 ", the plan needs %" PRIu64, limit, used);
}

static bool has_ranks(const program *p) {
  for (int i = 0; i < p->num_settings; i++)
    if (!strcmp(p->setting[i], "parallel_mode=stand_alone")) return false;
  return true;
}

static void check_program(problem *q) {
  q->m = msc_parse(q->ctx, "random", q->p.text, strlen(q->p.text));
  q->f = q->m ? msc_find_func(q->m, "forward") : NULL;
  if (!q->f || !msc_verify(q->m)) {
    ended(q, FAILED, "it is no program");
    return;
  }
  uint64_t bytes;
  bool ok = understood(q, false) && agrees_with_recorded(q) && right(q, &q->p, false, "one rank", &bytes);
  if (ok && has_ranks(&q->p)) {
    ok = (!is_data_parallel(&q->p) || understood(q, true)) && right(q, &q->p, true, "all ranks", &bytes);
    if (ok && q->p.seed % 6 == 0 && q->p.num_settings + 2 < MAX_SETTINGS) ok = right_within_limit(q, bytes);
  }
  if (ok) q->v->outcome = q->vague ? VAGUE : PASSED;
}

/* ---- files ---- */

static const char *const who_runs[] = {"one", "all"};

static void write_program(const program *p, FILE *out) {
  fprintf(out, "// RUN: build/tests/random/programs case %%s\n// seed: %" PRIu64 "\n", p->seed);
  for (int i = 0; i < 2; i++) {
    if (p->code[i].cpu) fprintf(out, "// %s cpu: %s\n", who_runs[i], p->code[i].cpu);
    if (p->code[i].vector_bytes) fprintf(out, "// %s vectors: %d\n", who_runs[i], p->code[i].vector_bytes);
  }
  for (int i = 0; i < p->num_settings; i++) fprintf(out, "// set: %s\n", p->setting[i]);
  fputs(p->text, out);
}

static const char *line_of(msc_context *ctx, const char *from, const char *to) {
  return msc_intern_n(ctx, from, (size_t)(to - from));
}

static bool read_program(msc_context *ctx, const char *path, program *out) {
  FILE *f = fopen(path, "r");
  if (!f) return false;
  static char text[1 << 22];
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  *out = (program){.arena = msc_context_arena(ctx), .steps = STEPS};
  const char *at = text;
  for (const char *end; !strncmp(at, "//", 2) && (end = strchr(at, '\n')); at = end + 1) {
    if (!strncmp(at, "// seed: ", 9)) out->seed = strtoull(at + 9, NULL, 10);
    for (int i = 0; i < 2; i++) {
      if (!strncmp(at + 6, " cpu: ", 6) && !strncmp(at + 3, who_runs[i], 3))
        out->code[i].cpu = line_of(ctx, at + 12, end);
      if (!strncmp(at + 6, " vectors: ", 10) && !strncmp(at + 3, who_runs[i], 3))
        out->code[i].vector_bytes = atoi(at + 16);
    }
    if (!strncmp(at, "// set: ", 8) && out->num_settings < MAX_SETTINGS)
      out->setting[out->num_settings++] = line_of(ctx, at + 8, end);
  }
  out->text = msc_intern(ctx, at);
  return true;
}

/* ---- processes: a crash, or who never ends, is an answer ---- */

typedef struct {
  uint64_t seed;
  uint64_t values;  /* another draw of inputs and parameters */
  const program *p; /* NULL: by seed */
} question;

static void answer(const question *k, verdict *v) {
  problem q = {.ctx = msc_context_new(NULL, NULL), .v = v};
  q.arena = msc_context_arena(q.ctx);
  doing(&q, "making the program");
  q.p = k->p ? *k->p : random_program(q.ctx, k->seed);
  q.by_seed = !k->p && !k->values;
  q.p.seed += k->values * 1000003;
  check_program(&q);
  msc_context_free(q.ctx);
}

static void ask(const question *k, verdict *v) {
  *v = (verdict){.outcome = NUM_OUTCOMES};
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(SECONDS);
    answer(k, v);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && v->outcome != NUM_OUTCOMES) return;
  v->outcome = FAILED;
  if (WIFSIGNALED(status))
    snprintf(v->why, sizeof v->why, "%s: %s", (char *)v->doing,
             WTERMSIG(status) == SIGALRM ? "it does not end" : strsignal(WTERMSIG(status)));
  else snprintf(v->why, sizeof v->why, "%s: it ends with %d", (char *)v->doing, WEXITSTATUS(status));
}

/* Wrong numbers count when other inputs have them, too: a tie that rounding decides is on one of them at most. */
static void judge(const question *k, verdict *v) {
  question again = *k;
  ask(k, v);
  for (again.values = 1; again.values < NUM_VALUES && v->outcome == FAILED && strstr(v->why, "rounding allows");
       again.values++)
    ask(&again, v);
}

static verdict *shared_verdict(void) {
  verdict *v = mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (v == MAP_FAILED) abort();
  return v;
}

static const char *const words[] = {"passed", "passed, vague", "refused", "failed"};

static int run_seeds(uint64_t first, uint64_t last, bool all) {
  verdict *v = shared_verdict();
  int count[NUM_OUTCOMES] = {0};
  for (uint64_t seed = first; seed < last; seed++) {
    judge(&(question){.seed = seed}, v);
    count[v->outcome]++;
    if (v->outcome == FAILED || (all && v->outcome != PASSED))
      printf("%s %" PRIu64 ": %s\n", words[v->outcome], seed, v->why);
    fflush(stdout);
  }
  printf("%d passed, %d of them vague, %d refused, %d failed\n", count[PASSED] + count[VAGUE], count[VAGUE],
         count[REFUSED], count[FAILED]);
  return count[FAILED];
}

/* ---- the tests, and the program ---- */

/* By the name of a file, or a seed. */
static program named_program(msc_context *ctx, const char *name) {
  program p;
  if (strspn(name, "0123456789") == strlen(name)) return random_program(ctx, strtoull(name, NULL, 10));
  if (read_program(ctx, name, &p)) return p;
  fprintf(stderr, "%s: cannot be read\n", name);
  exit(2);
}

static int print_program(const char *name) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  program p = named_program(ctx, name);
  write_program(&p, stdout);
  msc_context_free(ctx);
  return 0;
}

static int describe_program(const char *name) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  program p = named_program(ctx, name);
  json_t *all = described(ctx, &p);
  json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(all);
  msc_context_free(ctx);
  return 0;
}

static int run_case(const char *name) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  verdict *v = shared_verdict();
  program p = named_program(ctx, name);
  judge(&(question){.p = &p}, v);
  printf("%s%s%s\n", words[v->outcome], *v->why ? ": " : "", v->why);
  msc_context_free(ctx);
  return v->outcome == FAILED;
}

static void programs_are_right(void **state) {
  bool slow = getenv("MSC_TEST_SLOW");
  (void)state;
  int failed = run_seeds(1, 1 + (slow ? SLOW : QUICK), false);
  failed += run_seeds(FIRST_LARGE, FIRST_LARGE + (slow ? SLOW_LARGE : QUICK_LARGE), false);
  assert_int_equal(failed, 0);
}

/* Those that once were wrong: files of tests/random/programs. */
static void cases_are_right(void **state) {
  glob_t files;
  (void)state;
  assert_int_equal(glob("tests/random/programs/*.mlir", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++)
    if (run_case(files.gl_pathv[i])) fail_msg("%s", files.gl_pathv[i]);
  globfree(&files);
}

/* What must stay as it is for a failure to be the same one: all but numbers, up to the name of what differs. */
static void kind_of_failure(const char *why, char *out, size_t bytes) {
  const char *end = strstr(why, " is off by ");
  size_t n = 0;
  for (const char *c = why; *c && c != end && n + 1 < bytes && n < 60; c++)
    if (*c < '0' || *c > '9') out[n++] = *c;
  out[n] = 0;
}

typedef struct {
  char kind[64];
  verdict *v;
  time_t until;
} wanted_failure;

static bool fails_alike(void *user, const program *p) {
  wanted_failure *w = user;
  char kind[64];
  if (time(NULL) > w->until) return false;
  judge(&(question){.p = p}, w->v);
  kind_of_failure(w->v->why, kind, sizeof kind);
  return w->v->outcome == FAILED && !strcmp(kind, w->kind);
}

static int shrink_program(const char *name) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  wanted_failure w = {.v = shared_verdict(), .until = time(NULL) + SHRINK_SECONDS};
  program p = named_program(ctx, name);
  judge(&(question){.p = &p}, w.v);
  kind_of_failure(w.v->why, w.kind, sizeof w.kind);
  if (w.v->outcome == FAILED) shrink(&p, fails_alike, &w);
  judge(&(question){.p = &p}, w.v);
  printf("// %s\n", w.v->outcome == FAILED ? w.v->why : "it does not fail");
  write_program(&p, stdout);
  msc_context_free(ctx);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs_are_right), cmocka_unit_test(cases_are_right)};
  if (argc == 3 && !strcmp(argv[1], "print")) return print_program(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "describe")) return describe_program(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "case")) return run_case(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "shrink")) return shrink_program(argv[2]);
  if (argc >= 4 && !strcmp(argv[1], "run"))
    return run_seeds(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), argc > 4) > 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
