/* run.h: compiles and runs a program in this process: its ranks are threads, its files are in memory. */
#ifndef MSC_TESTS_RANDOM_RUN_H
#define MSC_TESTS_RANDOM_RUN_H

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/compile.h"
#include "runtime/mscrt.h"
#include "tests/random/oracle.h"

enum { MAX_RANKS = 16, TIMEOUT_MS = 10000 };

/* ---- compiling ---- */

typedef struct {
  const void *bytes; /* NULL: refused */
  size_t num_bytes;
  uint64_t rank_bytes; /* what a rank needs, as the plan says */
  bool is_bug;         /* it was refused, but not for what the user says */
  const char *why;
} made_plan;

static inline bool holds_on_one_rank(const char *setting) {
  static const char *const words[] = {"compute_type=", "loss_scale", "overlap=", "variable_hypers="};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strncmp(setting, words[i], strlen(words[i]))) return true;
  return false;
}

/* A machine that has less compiles for itself. */
static inline const char *supported_cpu(const char *cpu) {
  return cpu && !strcmp(cpu, "x86-64-v3") && !__builtin_cpu_supports("avx2") ? NULL : cpu;
}

/* What one rank is compiled with, or all. */
static inline msc_config *configured(msc_context *ctx, const program *p, bool ranks) {
  msc_config *config = msc_config_new(ctx);
  for (int i = 0; i < p->num_settings; i++)
    if ((ranks || holds_on_one_rank(p->setting[i])) && !msc_config_set(config, p->setting[i])) return NULL;
  return msc_config_check(config) ? config : NULL;
}

/* The user's fault, as far as he can be told. */
static inline bool is_refusal(msc_code code) {
  return code == MSC_E_STRATEGY || code == MSC_E_UNSUPPORTED || code == MSC_E_GRADIENT || code == MSC_E_OPTIMIZER ||
         code == MSC_E_CONFIG || code == MSC_E_INFEASIBLE;
}

static inline void explain(msc_context *ctx, made_plan *out) {
  for (const msc_diag *d = msc_diags(ctx); d && !out->why; d = d->next) {
    if (d->severity != MSC_DIAG_ERROR) continue;
    out->is_bug = !is_refusal(d->code);
    out->why = msc_arena_printf(msc_context_arena(ctx), "%s [E%04u]", d->text, (unsigned)d->code % 10000);
  }
  if (!out->why) out->is_bug = true, out->why = "without a message";
}

static inline made_plan compiled(msc_context *ctx, const program *p, bool ranks) {
  made_plan made = {0};
  msc_compiled c;
  msc_compile_options o = {.config = configured(ctx, p, ranks), .verify = MSC_VERIFY_IR, .model = "random"};
  msc_target_words words = {.cpu = supported_cpu(p->code[ranks].cpu)};
  msc_model_bytes model = {.name = "random.mlir", .data = p->text, .bytes = strlen(p->text)};
  bool ok = o.config && msc_code_target_of(ctx, &words, &o.target);
  o.target.vector_bytes = p->code[ranks].vector_bytes;
  if (ok && msc_compile_model(ctx, &model, &o, &c) && !msc_num_errors(ctx)) {
    made.bytes = c.bytes, made.num_bytes = c.num_bytes;
    made.rank_bytes = msc_plan_rank_bytes(c.plan);
  } else {
    explain(ctx, &made);
  }
  return made;
}

/* ---- files ---- */

typedef struct {
  char path[32];
  int fd;
} memory_file;

static inline memory_file memory_file_of(const char *head, size_t head_bytes, const void *data, size_t bytes) {
  memory_file f = {.fd = memfd_create("random", 0)};
  snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
  if (write(f.fd, head, head_bytes) != (ssize_t)head_bytes || write(f.fd, data, bytes) != (ssize_t)bytes) abort();
  return f;
}

static inline const char *npy_type(msc_dtype d) {
  return d == MSC_I32 ? "<i4" : d == MSC_I64 ? "<i8" : d == MSC_F64 ? "<f8" : "<f4";
}

static inline memory_file npy_of(const msc_type *t, const void *data) {
  char head[256], shape[128] = "";
  for (int d = 0; d < t->rank; d++)
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%" PRId64 ",", t->dim[d]);
  int n = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                   npy_type(t->dtype), shape);
  int bytes = (n + 10 + 1 + 63) / 64 * 64 - 10;
  memcpy(head, "\x93NUMPY\x01\x00", 8);
  head[8] = (char)(bytes & 255), head[9] = (char)(bytes >> 8);
  memset(head + 10 + n, ' ', (size_t)(bytes - n));
  head[10 + bytes - 1] = '\n';
  return memory_file_of(head, (size_t)bytes + 10, data, (size_t)msc_type_bytes(t));
}

typedef struct {
  size_t num;
  mscrt_source source[MAX_ARGS];
  memory_file input[MAX_ARGS], weights;
} job_files;

static inline msc_tensor rounded_argument(msc_arena *a, const program *p, const msc_func *f, size_t arg) {
  msc_tensor t = msc_tensor_new(a, f->body->args[arg]->type);
  double *v = msc_new_array(a, double, msc_type_elems(t.type) + 1);
  fill_argument(p, f, arg, v);
  for (int64_t i = 0; i < msc_type_elems(t.type); i++) msc_tensor_set(&t, i, v[i]);
  return t;
}

/* All parameters, f32, as safetensors. */
static inline memory_file weights_of(msc_arena *a, const program *p, const msc_func *f) {
  const char *json = "";
  size_t end = 0;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_type *t = f->body->args[i]->type;
    const char *shape = "";
    if (msc_arg_role(f, i) != MSC_ROLE_PARAMETER) continue;
    for (int d = 0; d < t->rank; d++) shape = msc_arena_printf(a, "%s%s%" PRId64, shape, d ? "," : "", t->dim[d]);
    size_t bytes = (size_t)msc_type_bytes(t);
    json = msc_arena_printf(a, "%s%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", json,
                            end ? "," : "", f->body->args[i]->name, shape, end, end + bytes);
    end += bytes;
  }
  char *data = msc_arena_alloc(a, end + 1), *head = msc_arena_printf(a, "12345678{%s}", json);
  uint64_t length = strlen(head) - 8;
  memcpy(head, &length, 8);
  end = 0;
  for (size_t i = 0; i < f->body->num_args; i++) {
    if (msc_arg_role(f, i) != MSC_ROLE_PARAMETER) continue;
    msc_tensor t = rounded_argument(a, p, f, i);
    memcpy(data + end, t.data, (size_t)msc_type_bytes(t.type));
    end += (size_t)msc_type_bytes(t.type);
  }
  return memory_file_of(head, (size_t)length + 8, data, end);
}

static inline void make_files(msc_arena *a, const program *p, const msc_func *f, job_files *out) {
  out->num = 0;
  out->weights = weights_of(a, p, f);
  for (size_t i = 0; i < f->body->num_args; i++) {
    if (msc_arg_role(f, i) > MSC_ROLE_MASK) continue;
    msc_tensor t = rounded_argument(a, p, f, i);
    out->input[out->num] = npy_of(t.type, t.data);
    out->source[out->num] = (mscrt_source){f->body->args[i]->name, out->input[out->num].path};
    out->num++;
  }
}

static inline void drop_files(job_files *files) {
  for (size_t i = 0; i < files->num; i++) close(files->input[i].fd);
  close(files->weights.fd);
}

/* ---- running ---- */

typedef struct {
  const program *p;
  mscrt_plan *plan;
  mscrt_data *data;
  const char *weights;
  int ranks;
  mscrt_overlap overlap;
  char address[48];
  story *told;      /* rank 0's */
  msc_arena *arena; /* used by rank 0 alone */
  uint64_t mapped[MAX_RANKS];
  char failed[MAX_RANKS][512];
} running;

typedef struct {
  running *job;
  int rank;
} one_rank;

static inline double number_at(const mscrt_tensor *t, const void *data, int64_t i) {
  switch (t->dtype) {
    case MSCRT_F32: return ((const float *)data)[i];
    case MSCRT_F64: return ((const double *)data)[i];
    case MSCRT_I32: return ((const int32_t *)data)[i];
    case MSCRT_I64: return (double)((const int64_t *)data)[i];
    case MSCRT_I1: return ((const uint8_t *)data)[i];
    case MSCRT_BF16: {
      uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
      float f;
      memcpy(&f, &bits, 4);
      return f;
    }
    default: return NAN;
  }
}

static inline size_t bytes_of(mscrt_dtype d) {
  static const uint8_t bytes[] = {4, 2, 2, 8, 1, 1, 2, 4, 8, 1, 2, 4, 8};
  return bytes[d];
}

/* Every rank calls it, rank 0 keeps the numbers. */
static inline mscrt_status *read_one(const one_rank *r, mscrt_context *ctx, const mscrt_tensor *t, bool is_variable,
                                     snapshot *out) {
  int64_t num = 1;
  for (int d = 0; d < t->rank; d++) num *= t->shape[d];
  size_t bytes = (size_t)num * bytes_of(t->dtype);
  void *data = r->rank ? NULL : malloc(bytes + 1);
  mscrt_status *s = mscrt_read(ctx, t->name, data, bytes);
  if (!s && data) {
    numbers n = {.name = msc_arena_printf(r->job->arena, "%s", t->name),
                 .is_variable = is_variable,
                 .is_float = t->dtype <= MSCRT_F64,
                 .num = num,
                 .v = msc_new_array(r->job->arena, double, num + 1)};
    for (int64_t i = 0; i < num; i++) n.v[i] = number_at(t, data, i);
    out->of[out->num++] = n;
  }
  free(data);
  return s;
}

static inline mscrt_status *read_all(const one_rank *r, mscrt_context *ctx, const char *section, snapshot *out) {
  size_t num = mscrt_plan_num_parameters(r->job->plan),
         num_outputs = section ? mscrt_plan_num_outputs(r->job->plan) : 0;
  mscrt_tensor t;
  bool is_state;
  const char *of;
  mscrt_status *s = NULL;
  if (!r->rank) out->of = msc_new_array(r->job->arena, numbers, num + num_outputs + 1);
  for (size_t i = 0; i < num && !s; i++) {
    mscrt_plan_parameter(r->job->plan, i, &t, &is_state);
    s = read_one(r, ctx, &t, true, out);
  }
  for (size_t i = 0; i < num_outputs && !s; i++) {
    mscrt_plan_output(r->job->plan, i, &t, &of);
    if (!strcmp(of, section)) s = read_one(r, ctx, &t, false, out);
  }
  return s;
}

static inline mscrt_status *run_steps(one_rank *r, mscrt_context **ctx) {
  running *j = r->job;
  mscrt_options o = {.struct_size = sizeof o,
                     .rank = r->rank,
                     .ranks = j->ranks,
                     .address = j->ranks > 1 ? j->address : NULL,
                     .threads = 1,
                     .seed = 1,
                     .timeout_ms = TIMEOUT_MS,
                     .overlap = j->overlap};
  const char *section = mscrt_plan_has(j->plan, "train") ? "train" : "forward";
  snapshot nowhere = {0};
  mscrt_status *s = mscrt_open(j->plan, &o, ctx);
  if (!s && mscrt_plan_num_parameters(j->plan)) s = mscrt_load(*ctx, j->weights);
  if (!s) s = mscrt_set_data(*ctx, j->data);
  if (!s) s = read_all(r, *ctx, NULL, r->rank ? &nowhere : &j->told->at[0]);
  for (int step = 1; !s && step <= j->p->steps; step++) {
    double loss;
    s = mscrt_run(*ctx, section, 1, &loss);
    if (!s) s = read_all(r, *ctx, section, r->rank ? &nowhere : &j->told->at[step]);
  }
  mscrt_stats stats = {.struct_size = sizeof stats};
  if (!s) mscrt_get_stats(*ctx, &stats);
  j->mapped[r->rank] = stats.arena_bytes;
  return s;
}

static inline void *rank_main(void *arg) {
  one_rank *r = arg;
  mscrt_context *ctx = NULL;
  mscrt_status *s = run_steps(r, &ctx);
  if (s) snprintf(r->job->failed[r->rank], sizeof *r->job->failed, "%s", mscrt_status_text(s));
  mscrt_status_free(s);
  mscrt_close(ctx);
  return NULL;
}

/* Every other program runs its chains of calls one strip after the other, the last one first, as no threads would: a
 * strip that needs what another makes finds nothing. */
static inline void run_ranks(running *j) {
  if (j->p->seed % 2) setenv("MSC_STRIPS_APART", "1", 1);
  else unsetenv("MSC_STRIPS_APART");
  pthread_t thread[MAX_RANKS];
  one_rank rank[MAX_RANKS];
  snprintf(j->address, sizeof j->address, "@msc-random-%d", getpid());
  for (int r = 0; r < j->ranks; r++) rank[r] = (one_rank){j, r};
  for (int r = 1; r < j->ranks; r++)
    if (pthread_create(&thread[r], NULL, rank_main, &rank[r])) abort();
  rank_main(&rank[0]);
  for (int r = 1; r < j->ranks; r++) pthread_join(thread[r], NULL);
}

/* In the files: those of one batch. */
static inline int64_t samples_of(const msc_func *f) {
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_attr_value *dim = msc_arg_attr(f, i, "msc.batch_dim");
    if (dim && dim->i >= 0) return f->body->args[i]->type->dim[dim->i];
  }
  return 1;
}

/* NULL, or what failed; f has the model's arguments. */
static inline const char *ran(const made_plan *made, const program *p, const msc_func *f, msc_arena *a, story *out) {
  mscrt_plan_options trust = {.struct_size = sizeof trust, .trust_native = true};
  mscrt_data_options in_order = {.struct_size = sizeof in_order, .in_order = true};
  running j = {.p = p, .told = out, .arena = a, .overlap = (mscrt_overlap)(p->seed % 3)};
  job_files files;
  make_files(a, p, f, &files);
  j.weights = files.weights.path;
  mscrt_status *s = mscrt_plan_open(made->bytes, made->num_bytes, &trust, &j.plan);
  j.ranks = s ? 0 : mscrt_plan_ranks(j.plan);
  if (j.ranks > MAX_RANKS) return "more ranks than this test has threads for";
  size_t num = 0;
  for (size_t i = 0; i < files.num && !s; i++) { /* those that are left in the plan */
    mscrt_tensor t;
    mscrt_role role;
    for (size_t k = 0; k < mscrt_plan_num_inputs(j.plan); k++) {
      mscrt_plan_input(j.plan, k, &t, &role);
      if (!strcmp(t.name, files.source[i].input)) files.source[num++] = files.source[i];
    }
  }
  in_order.eval_end = in_order.train_end = samples_of(f);
  if (!s) s = mscrt_data_open(j.plan, num, files.source, &in_order, &j.data);
  if (!s) run_ranks(&j);
  const char *why = s ? msc_arena_printf(a, "%s", mscrt_status_text(s)) : NULL;
  mscrt_status_free(s);
  for (int r = 0; r < j.ranks && !why; r++)
    if (j.failed[r][0]) why = msc_arena_printf(a, "rank %d: %s", r, j.failed[r]);
  for (int r = 0; r < j.ranks && !why; r++)
    if (j.mapped[r] > made->rank_bytes)
      why = msc_arena_printf(a, "rank %d maps %" PRIu64 " bytes, the plan says %" PRIu64, r, j.mapped[r],
                             made->rank_bytes);
  mscrt_data_close(j.data);
  mscrt_plan_close(j.plan);
  drop_files(&files);
  return why;
}

#endif
