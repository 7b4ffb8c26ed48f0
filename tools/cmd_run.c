/* cmd_run.c: msc run plan.bin: trains and evaluates on local ranks.  Plan, data and weights are opened and checked
 * once, here; ranks are forked afterwards and share them.  Where the environment says that this process is one rank of
 * a job, it is that rank alone. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/mscrt.h"
#include "tools/autotune.h"
#include "tools/checkpoints.h"
#include "tools/cli.h"
#include "tools/launch.h"
#include "tools/lr_schedule.h"
#include "tools/recorder.h"
#include "tools/startup.h"
#include "tools/status.h"
#include "tools/trace.h"
#include "tools/trust.h"

/* What a rank measured, per step. */
typedef struct {
  double compute_ms, comm_ms, exposed_ms, section_ms;
} measured;

typedef struct {
  cli *c;
  mscrt_plan *plan;
  mscrt_data *data;     /* NULL: the plan has no inputs */
  mscrt_data_options data_options;
  int ranks;
  startup job;          /* what started this process */
  recorder recorder;    /* writes flight records */
  bool joins;           /* this process is one rank of the job; else it starts all */
  const char *token;    /* of the job; NULL: none */
  char address[48], choices_path[4200];
  const char *choices;  /* NULL: nothing was ever measured here */
  int64_t steps, per_epoch;
  bool evaluates, timed;
  const char *weights; /* folder of the files that the model names for its parameters; NULL: not taken */
  int64_t resumed;      /* the step of the newest checkpoint; -1: none */
  lr_schedule schedule; /* of the learning rate */
  size_t num_sinks;
  mscrt_sink *sinks; /* outputs that are written */
  double time_scale;
  int replaced;         /* so many lost ranks are replaced while the others go on */
  int64_t *printed;     /* the last step that rank 0 has printed, in memory that ranks share */
  measured *measured;   /* of each rank, in memory that they share; NULL: nothing is measured */
  int64_t begin_ns;
  /* of this rank */
  mscrt_context *ctx;
  int rank;
  double *ms;           /* of each step that this run did */
  int64_t done;         /* how many these are */
  bool stopped;         /* by SIGTERM, after a checkpoint */
  bool saves, prunes;   /* a checkpoint is being written; old ones are being removed, by rank 0 */
  pthread_t pruning;
} training;

enum { DEFAULT_TIMEOUT = 300 }; /* seconds */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- failures ---- */

static int run_debug_level(void) {
  const char *debug = getenv("MSC_DEBUG");
  return debug ? atoi(debug) : 0;
}

/* The diagnostic of a status that the runtime gave; returns the exit code. */
static int report_status(cli *c, const launch_line *line, msc_code code, mscrt_status *s) {
  if (s && run_debug_level() >= 1) fprintf(stderr, "%s", mscrt_status_trail(s));
  return status_of_rank(c, line, code, s);
}

/* ---- opening ---- */

/* Refuses what contradicts the environment, and what needs all ranks in one process. */
static bool check_joined_options(training *t) {
  cli *c = t->c;
  static const char *const of_one_process[] = {"trace"};
  if (t->job.role == STARTUP_SERVER)
    return msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL,
                     "MS_ROLE says that this is a parameter server: not supported yet");
  if (cli_text(c, "n") && cli_int(c, "n", 1) != t->job.ranks)
    return msc_error(c->ctx, MSC_E_DATA, NULL, "-n %" PRId64 " contradicts the environment: %s says rank %d of %d",
                     cli_int(c, "n", 1), t->job.family, t->job.rank, t->job.ranks);
  if (t->job.role == STARTUP_WORKER && t->job.rank < 0)
    return msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL,
                     "%s does not say which of the %d ranks this is: a choice by the scheduler is not supported yet; "
                     "set %s",
                     t->job.family, t->job.ranks, strcmp(t->job.family, "MS_*") ? "MSC_RANK" : "MS_NODE_ID");
  for (size_t i = 0; i < sizeof of_one_process / sizeof *of_one_process; i++)
    if (cli_text(c, of_one_process[i]))
      return msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL, "--%s is not supported yet where ranks were started one by one",
                       of_one_process[i]);
  return true;
}

/* Which rank of a job this process is, if something else started the ranks. A rank table that is not complete yet is
 * read again. */
static bool read_job(training *t) {
  cli *c = t->c;
  int64_t end = (int64_t)(now_ms() * 1e6) + (int64_t)(cli_number(c, "timeout", DEFAULT_TIMEOUT) * 1e9);
  while (!startup_of_process(&t->job)) {
    int64_t now = (int64_t)(now_ms() * 1e6);
    if (!t->job.pending || now >= end) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", t->job.error);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  }
  t->joins = t->job.family && (t->job.ranks > 1 || t->job.role != STARTUP_WORKER);
  if (!t->joins) return true;
  t->token = startup_token(&t->job);
  if (t->job.error[0]) return msc_error(c->ctx, MSC_E_DATA, NULL, "%s", t->job.error);
  MSC_TRY(check_joined_options(t));
  if (t->job.rank > 0) return true;
  fprintf(stderr, "msc run: %s of %d, as %s says%s%s\n", t->job.rank ? "scheduler" : "rank 0", t->job.ranks,
          t->job.family, t->job.ignored[0] ? "; ignored: " : "", t->job.ignored);
  return true;
}

static bool check_run_options(training *t) {
  cli *c = t->c;
  MSC_TRY(read_job(t));
  const char *comm = cli_text(c, "comm");
  if (comm && !strcmp(comm, "mpi"))
    return msc_error(c->ctx, MSC_E_UNSUPPORTED, NULL,
                     "--comm %s is not supported yet; local, tcp and nccl are: mpirun may start the ranks", comm);
  t->choices = autotune_measured(t->choices_path);
  if (cli_flag(c, "autotune")) {
    if (!autotune_file(c, t->choices_path)) return false;
    t->choices = t->choices_path;
  }
  const char *scale = getenv("MSC_TIME_SCALE");
  char *end = NULL;
  t->timed = cli_text(c, "device") && !strcmp(cli_text(c, "device"), "timed");
  t->time_scale = scale ? strtod(scale, &end) : 1;
  if (scale && (*end || end == scale || !(t->time_scale > 0) || !isfinite(t->time_scale)))
    return msc_error(c->ctx, MSC_E_DATA, NULL, "MSC_TIME_SCALE: '%s' is no positive number", scale);
  static const char *const of_values[] = {"data", "ckpt-dir", "eval", "init", "output", "save"};
  for (size_t i = 0; t->timed && i < sizeof of_values / sizeof *of_values; i++)
    if (cli_text(c, of_values[i]))
      return msc_error(c->ctx, MSC_E_DATA, NULL, "--%s: the device timed has no values", of_values[i]);
  return true;
}

static int open_run_plan(training *t) {
  cli *c = t->c;
  cli_bytes bytes;
  if (!cli_read(c, c->operands[0], &bytes)) return CLI_INPUT;
  mscrt_plan_options o = {.struct_size = sizeof o,
                          .trust_native = cli_flag(c, "trust-native") || trust_known(bytes.data, bytes.size)};
  mscrt_status *s = mscrt_plan_open(bytes.data, bytes.size, &o, &t->plan);
  if (mscrt_status_code(s) == MSCRT_UNTRUSTED) {
    mscrt_status_free(s);
    msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, c->operands[0]),
              "this plan holds native code and was not compiled by you on this host; if you know where it comes from, "
              "add --trust-native");
    return CLI_INPUT;
  }
  if (s) return status_report(c, c->operands[0], "", s);
  t->ranks = t->joins ? t->job.ranks : (int)cli_int(c, "n", mscrt_plan_ranks(t->plan));
  if (t->ranks == mscrt_plan_ranks(t->plan)) return CLI_OK;
  msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, c->operands[0]),
            "the plan is for %d rank%s, not for %d: compile with --set device_num=%d", mscrt_plan_ranks(t->plan),
            mscrt_plan_ranks(t->plan) == 1 ? "" : "s", t->ranks, t->ranks);
  return CLI_INPUT;
}

/* "A:B", ":B", "A:" */
static bool parse_range(cli *c, const char *option, int64_t *out_begin, int64_t *out_end, bool *out_open) {
  const char *text = cli_text(c, option);
  char *end = NULL;
  if (!text) return true;
  *out_begin = *text == ':' ? 0 : strtoll(text, &end, 10);
  const char *colon = end ? end : text;
  if (*colon == ':') {
    *out_open = !colon[1];
    *out_end = strtoll(colon + 1, &end, 10);
    if (!*end && *out_begin >= 0 && (*out_open || *out_end > *out_begin) && strspn(text, "0123456789:") == strlen(text))
      return true;
  }
  return msc_error(c->ctx, MSC_E_DATA, NULL, "--%s: '%s' is no range of samples such as 0:9000", option, text);
}

/* FILE, or FILE:KIND. */
static void note_data(cli *c, const char *file) {
  const char *colon = strrchr(file, ':');
  cli_note_input(c, file);
  if (colon) cli_note_input(c, msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)(colon - file), file));
}

/* The file name with the rank's number in place of %r. */
static const char *file_of_rank(const cli *c, const char *file, int rank) {
  const char *text = "", *mark;
  msc_arena *a = msc_context_arena(c->ctx);
  for (; (mark = strstr(file, "%r")); file = mark + 2)
    text = msc_arena_printf(a, "%s%.*s%d", text, (int)(mark - file), file, rank);
  return msc_arena_printf(a, "%s%s", text, file);
}

/* Opens the data of every rank if a name has %r; otherwise rank 0's, which all ranks share. */
static mscrt_source *sources_of(const cli *c, int rank, size_t *out_num, bool *out_parts) {
  const char *const *pairs;
  *out_num = cli_texts(c, "data", &pairs);
  *out_parts = false;
  mscrt_source *sources = msc_new_array(msc_context_arena(c->ctx), mscrt_source, *out_num + 1);
  for (size_t i = 0; i < *out_num; i++) {
    const char *equals = strchr(pairs[i], '=');
    *out_parts |= strstr(equals + 1, "%r") != NULL;
    sources[i] = (mscrt_source){msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)(equals - pairs[i]), pairs[i]),
                                file_of_rank(c, equals + 1, rank)};
  }
  return sources;
}

static void note_sources(training *t) {
  bool parts = true;
  for (int r = 0; r < t->ranks && parts; r++) {
    size_t num;
    mscrt_source *sources = sources_of(t->c, r, &num, &parts);
    for (size_t i = 0; i < num; i++) note_data(t->c, sources[i].file);
  }
}

/* --output NAME=FILE.npy */
static void read_sinks(training *t) {
  cli *c = t->c;
  const char *const *pairs;
  t->num_sinks = cli_texts(c, "output", &pairs);
  t->sinks = msc_new_array(msc_context_arena(c->ctx), mscrt_sink, t->num_sinks + 1);
  for (size_t i = 0; i < t->num_sinks; i++) {
    const char *equals = strchr(pairs[i], '=');
    const char *name = msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)(equals - pairs[i]), pairs[i]);
    t->sinks[i] = (mscrt_sink){name, equals + 1};
  }
}

/* Without --steps and --epochs a run that writes outputs does not train. */
static bool only_predicts(const training *t) {
  int64_t asked = cli_int(t->c, "steps", 0) + cli_int(t->c, "epochs", 0);
  return t->num_sinks && (asked == 0 || !mscrt_plan_has(t->plan, "train"));
}

static int open_data(training *t) {
  cli *c = t->c;
  bool train_open = false, eval_open = false;
  mscrt_data_options o = {.struct_size = sizeof o, .in_order = cli_flag(c, "in-order")};
  size_t num;
  mscrt_source *sources = sources_of(c, 0, &num, &o.parts);
  if (!parse_range(c, "train", &o.train_begin, &o.train_end, &train_open) ||
      !parse_range(c, "eval", &o.eval_begin, &o.eval_end, &eval_open))
    return CLI_INPUT;
  eval_open |= t->num_sinks && !cli_text(c, "eval");
  o.only_predict = only_predicts(t);
  if (o.only_predict && cli_text(c, "train"))
    return cli_usage(c, "--train: nothing is trained; give --steps or --epochs");
  if (t->timed || (mscrt_plan_num_inputs(t->plan) == 0 && num == 0 && !t->num_sinks)) {
    t->per_epoch = 1;
    return CLI_OK;
  }
  note_sources(t);
  if (train_open || eval_open) { /* an open end is known only after the files are */
    mscrt_data *all;
    mscrt_data_options every = {.struct_size = sizeof every, .parts = o.parts, .only_predict = o.only_predict};
    int code = report_status(c, NULL, MSC_E_DATA, mscrt_data_open(t->plan, num, sources, &every, &all));
    if (code) return code;
    if (train_open) o.train_end = mscrt_data_samples(all);
    if (eval_open) o.eval_end = mscrt_data_samples(all);
    mscrt_data_close(all);
  }
  int code = report_status(c, NULL, MSC_E_DATA, mscrt_data_open(t->plan, num, sources, &o, &t->data));
  if (!code) t->per_epoch = mscrt_data_steps_per_epoch(t->data);
  t->evaluates = !code && cli_text(c, "eval") && mscrt_data_has_labels(t->data);
  t->data_options = o;
  return code;
}

/* The files of this rank, in place of those of rank 0. */
static mscrt_status *open_own_data(training *t) {
  size_t num;
  mscrt_source *sources = sources_of(t->c, t->rank, &num, &t->data_options.parts);
  if (!t->data || !t->data_options.parts || t->rank == 0) return NULL;
  mscrt_data_close(t->data);
  t->data = NULL;
  t->data_options.rank = t->rank;
  return mscrt_data_open(t->plan, num, sources, &t->data_options, &t->data);
}

static int count_steps(training *t) {
  cli *c = t->c;
  int64_t steps = cli_int(c, "steps", -1), epochs = cli_int(c, "epochs", -1);
  if (steps >= 0 && epochs >= 0) return cli_usage(c, "--steps and --epochs exclude each other");
  if ((cli_text(c, "steps") && steps < 0) || (cli_text(c, "epochs") && epochs < 0))
    return cli_usage(c, "--steps and --epochs are not negative");
  bool trains = mscrt_plan_has(t->plan, "train");
  if (!trains && (steps > 0 || epochs > 0)) {
    msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, c->operands[0]),
              "the plan has no training section: its model has no optimizer");
    return CLI_INPUT;
  }
  t->steps = !trains || only_predicts(t) ? 0 : steps >= 0 ? steps : (epochs >= 0 ? epochs : 1) * t->per_epoch;
  return CLI_OK;
}

/* The folder with the files that the model names, unless --init gives all parameters. */
static int find_weights(training *t) {
  cli *c = t->c;
  const char *folder = mscrt_plan_weights(t->plan), *plan = c->operands[0], *slash = strrchr(plan, '/');
  const char *given = cli_text(c, "weights");
  if (given && !folder) return cli_usage(c, "--weights: the model names no files for its parameters");
  if (given && cli_text(c, "init")) return cli_usage(c, "--weights and --init exclude each other");
  if (!folder || t->timed || cli_text(c, "init")) return CLI_OK;
  t->weights = given ? given
                     : msc_arena_printf(msc_context_arena(c->ctx), "%.*s%s", slash ? (int)(slash - plan) + 1 : 0, plan,
                                        *folder || slash ? folder : ".");
  mscrt_status *s = mscrt_plan_check_files(t->plan, t->weights);
  if (!s) return CLI_OK;
  int code = report_status(c, NULL, MSC_E_DATA, s);
  msc_note(c->ctx, NULL,
           "the model takes initial values from its files; --weights names another folder, --init a file "
           "with all parameters");
  return code;
}

static int read_schedule(training *t) {
  cli *c = t->c;
  const char *text = cli_text(c, "lr-schedule");
  bool varies = false;
  double initial;
  if (!text) return CLI_OK;
  if (!lr_schedule_read(c, text, &t->schedule)) return CLI_INPUT;
  for (size_t i = 0; i < mscrt_plan_num_scalars(t->plan); i++)
    varies |= lr_is_learning_rate(mscrt_plan_scalar(t->plan, i, &initial));
  if (varies) return CLI_OK;
  msc_error(c->ctx, MSC_E_PLAN, cli_loc(c, c->operands[0]),
            "--lr-schedule: the learning rate of this plan is fixed: compile with --set variable_lr=true");
  return CLI_INPUT;
}

/* Sets the step of the newest checkpoint that is sound, and tells of those that are not. */
static int choose_checkpoint(training *t, int64_t newest) {
  const char *folder = cli_text(t->c, "ckpt-dir");
  char path[CHECKPOINT_PATH];
  for (int64_t step = newest; step >= 0; step = checkpoint_below(folder, step)) {
    checkpoint_path(folder, step, path); /* its length was checked */
    mscrt_status *s = mscrt_plan_check_checkpoint(t->plan, path, &t->resumed);
    if (!s) {
      checkpoint_set_aside(folder, step);
      return CLI_OK;
    }
    t->resumed = -1;
    bool last = checkpoint_below(folder, step) < 0;
    if (last || mscrt_status_code(s) != MSCRT_INPUT) return report_status(t->c, NULL, MSC_E_DATA, s);
    msc_warning(t->c->ctx, MSC_E_DATA, NULL, "%s; the checkpoint before it is taken", mscrt_status_text(s));
    mscrt_status_free(s);
  }
  return CLI_OK;
}

/* The folder of checkpoints is made, and written to once, before anything runs. */
static int check_checkpoints(training *t) {
  cli *c = t->c;
  char path[CHECKPOINT_PATH];
  const char *folder = cli_text(c, "ckpt-dir");
  t->resumed = -1;
  if (!folder &&
      (cli_flag(c, "resume") || cli_text(c, "ckpt-every") || cli_text(c, "ckpt-keep") || cli_text(c, "grace")))
    return cli_usage(c, "--resume, --ckpt-every, --ckpt-keep and --grace need --ckpt-dir");
  if (cli_int(c, "ckpt-every", 1) < 1 || cli_int(c, "ckpt-keep", 1) < 1 || cli_int(c, "eval-every", 1) < 1)
    return cli_usage(c, "--ckpt-every, --ckpt-keep and --eval-every are at least 1");
  if (!(cli_number(c, "grace", 1) > 0 && cli_number(c, "grace", 1) < 1e6))
    return cli_usage(c, "--grace is a number of seconds above 0");
  if (cli_text(c, "eval-every") && !t->evaluates) return cli_usage(c, "--eval-every needs --eval, and labels");
  if (!folder) return CLI_OK;
  if (t->steps == 0) return cli_usage(c, "--ckpt-dir: nothing is trained");
  if (t->joins && t->job.rank) return CLI_OK; /* rank 0 looks into the folder, for all */
  if (!cli_make_folder(c, folder)) return CLI_ENVIRONMENT;
  if (!checkpoint_path(folder, t->steps, path)) return cli_usage(c, "--ckpt-dir: the path is too long");
  int64_t newest = checkpoint_below(folder, INT64_MAX);
  if (newest >= 0 && !cli_flag(c, "resume")) {
    msc_error(c->ctx, MSC_E_FILE, cli_loc(c, folder),
              "there are checkpoints already, of step %" PRId64 " the newest; add --resume, or give another folder",
              newest);
    return CLI_INPUT;
  }
  checkpoint_sweep(folder);
  int code = newest >= 0 ? choose_checkpoint(t, newest) : CLI_OK;
  if (code != CLI_OK) return code;
  if (t->resumed > t->steps) {
    msc_error(c->ctx, MSC_E_DATA, cli_loc(c, folder),
              "the newest checkpoint is of step %" PRId64 ", the run ends at step %" PRId64, t->resumed, t->steps);
    return CLI_INPUT;
  }
  if (t->resumed == t->steps) return CLI_OK;
  return report_status(c, NULL, MSC_E_DATA, mscrt_check_checkpoint(path));
}

static int check_files(training *t) {
  cli *c = t->c;
  const char *save = cli_text(c, "save");
  if (!cli_claim_output(c, save) || !cli_claim_output(c, cli_text(c, "trace"))) return CLI_INPUT;
  for (size_t i = 0; i < t->num_sinks; i++)
    if (!cli_claim_output(c, t->sinks[i].file)) return CLI_INPUT;
  int code = save ? report_status(c, NULL, MSC_E_DATA, mscrt_check_save(save)) : CLI_OK;
  if (code != CLI_OK) return code;
  if (t->num_sinks) code = report_status(c, NULL, MSC_E_DATA, mscrt_check_predict(t->data, t->num_sinks, t->sinks));
  if (code != CLI_OK) return code;
  code = find_weights(t);
  if (code != CLI_OK || !cli_text(c, "init")) return code;
  return report_status(c, NULL, MSC_E_DATA, mscrt_plan_check_weights(t->plan, cli_text(c, "init")));
}

/* ---- what rank 0 prints ---- */

static void print_member(const char *key, double v) {
  if (isfinite(v)) printf("\"%s\":%.9g", key, v);
  else printf("\"%s\":null", key);
}

/* Prints every step as JSON; as text about twenty steps and every epoch. */
static void print_step(const training *t, int64_t step, double loss, double ms) {
  if (t->c->json) {
    printf("{\"step\":%" PRId64 ",", step);
    print_member("loss", loss);
    printf(",\"ms\":%.4f}\n", ms);
    return;
  }
  int64_t every = t->steps > 20 ? t->steps / 20 : 1;
  cli_progress(t->c, "step %" PRId64 " of %" PRId64 ", loss %.6g", step, t->steps, loss);
  if (step % every && step != t->steps) return;
  cli_progress_done(t->c);
  if (isnan(loss) && t->timed) printf("step %-8" PRId64 " %.3f ms\n", step, ms);
  else printf("step %-8" PRId64 " loss %-12.6g %.3f ms\n", step, loss, ms);
}

/* A line that was written, and not noted, is written twice when rank 0 is replaced; none is left out. */
static void tell_step(const training *t, int64_t step, double loss, double ms) {
  print_step(t, step, loss, ms);
  *t->printed = step;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int64_t num) {
  if (num == 0) return 0;
  qsort(v, (size_t)num, sizeof *v, compare_doubles);
  return v[num / 2];
}

static void print_evaluation(const training *t, const mscrt_evaluation *e) {
  bool right = isfinite(e->accuracy);
  if (t->c->json) {
    printf("{\"eval\":{");
    print_member("loss", e->loss);
    if (right) printf(",\"accuracy\":%.9g", e->accuracy);
    printf(",\"samples\":%" PRId64 "}}\n", e->samples);
    return;
  }
  printf("evaluation: loss %.6g", e->loss);
  if (right) printf(", accuracy %.2f %%", 100 * e->accuracy);
  printf(" (%" PRId64 " samples)\n", e->samples);
}

static void print_series(const training *t, const char *key, size_t offset) {
  printf(",\"%s\":[", key);
  for (int r = 0; r < t->ranks; r++)
    printf("%s%.4f", r ? "," : "", *(const double *)((const char *)&t->measured[r] + offset));
  printf("]");
}

/* Of each rank, per step. */
static void print_measured(const training *t) {
  measured mean = {0};
  int64_t exposed_ns, step_ns = mscrt_plan_predicted_ns(t->plan, &exposed_ns);
  if (t->c->json) {
    printf(",\"predicted_step_ms\":%.6f,\"predicted_exposed_comm_ms\":%.6f,\"time_scale\":%.9g", (double)step_ns / 1e6,
           (double)exposed_ns / 1e6, t->timed ? t->time_scale : 1);
    print_series(t, "compute_ms", offsetof(measured, compute_ms));
    print_series(t, "comm_ms", offsetof(measured, comm_ms));
    print_series(t, "exposed_comm_ms", offsetof(measured, exposed_ms));
    print_series(t, "section_ms", offsetof(measured, section_ms));
    return;
  }
  for (int r = 0; r < t->ranks; r++) {
    mean.compute_ms += t->measured[r].compute_ms / t->ranks;
    mean.comm_ms += t->measured[r].comm_ms / t->ranks;
    mean.exposed_ms += t->measured[r].exposed_ms / t->ranks;
  }
  printf("per step and rank: %.3f ms in calls, %.3f ms in collectives, %.3f ms waiting for them\n", mean.compute_ms,
         mean.comm_ms, mean.exposed_ms);
  if (t->timed)
    printf("predicted: %.3f ms per step, of it %.3f ms waiting for collectives; times %g\n", (double)step_ns / 1e6,
           (double)exposed_ns / 1e6, t->time_scale);
}

static void print_totals(const training *t, double total_ms, uint64_t resident) {
  mscrt_stats s = {.struct_size = sizeof s};
  mscrt_get_stats(t->ctx, &s);
  double step_ms = median(t->ms, t->done);
  uint64_t received = t->done ? s.received_bytes / (uint64_t)t->done : 0;
  if (t->c->json)
    printf("{\"steps\":%" PRId64
           ",\"total_ms\":%.3f,\"step_ms\":%.4f,\"ranks\":%d,\"threads\":%d,\"rss_bytes\":%" PRIu64
           ",\"arena_bytes\":%" PRIu64 ",\"constant_bytes\":%" PRIu64 ",\"thread_bytes\":%" PRIu64
           ",\"link_bytes\":%" PRIu64 ",\"planned_bytes\":%" PRIu64 ",\"comm_bytes_per_step\":%" PRIu64,
           t->done, total_ms, step_ms, t->ranks, s.threads, resident, s.arena_bytes, s.constant_bytes, s.thread_bytes,
           s.link_bytes, s.planned_bytes, received);
  else
    printf("%" PRId64
           " steps in %.2f s, median %.3f ms; %d rank%s of %d thread%s; %.1f MB resident, %.2f MB arena per rank\n",
           t->done, total_ms / 1e3, step_ms, t->ranks, t->ranks == 1 ? "" : "s", s.threads, s.threads == 1 ? "" : "s",
           (double)resident / 1e6, (double)s.arena_bytes / 1e6);
  if (t->c->json && s.launch_ns) printf(",\"launch_us\":%.3f", (double)s.launch_ns / 1e3);
  if (t->measured) print_measured(t);
  if (t->c->json) printf("}\n");
}

/* ---- a rank ---- */

/* Those of the plan, times the factor of the schedule for step `step` from 0 on. */
static mscrt_status *set_learning_rates(training *t, int64_t step) {
  mscrt_status *s = NULL;
  if (t->schedule.kind == LR_AS_COMPILED) return NULL;
  for (size_t i = 0; i < mscrt_plan_num_scalars(t->plan) && !s; i++) {
    double initial;
    const char *name = mscrt_plan_scalar(t->plan, i, &initial);
    if (lr_is_learning_rate(name))
      s = mscrt_set_scalar(t->ctx, name, initial * lr_factor(&t->schedule, step, t->steps));
  }
  return s;
}

/* SIGTERM, where a checkpoint is to be written first. */
static volatile sig_atomic_t stop_asked;

static void ask_to_stop(int number) {
  (void)number;
  stop_asked = 1;
}

static void *prune(void *arg) {
  const training *t = arg;
  checkpoint_prune(cli_text(t->c, "ckpt-dir"), cli_int(t->c, "ckpt-keep", 2));
  return NULL;
}

static void join_pruning(training *t) {
  if (t->prunes) pthread_join(t->pruning, NULL);
  t->prunes = false;
}

/* In a thread: the system takes time to give back large files. */
static void prune_beside(training *t) {
  join_pruning(t);
  t->prunes = pthread_create(&t->pruning, NULL, prune, t) == 0;
  if (!t->prunes) prune(t);
}

/* Ends a checkpoint that is being written, if it is written, or waits for it; then the oldest may go. */
static mscrt_status *end_checkpoint(training *t, bool wait) {
  bool ended = false;
  if (!t->saves) return NULL;
  mscrt_status *s = mscrt_checkpoint_end(t->ctx, wait, &ended);
  if (s || !ended) return s;
  t->saves = false;
  if (t->rank == 0) prune_beside(t);
  return NULL;
}

/* Begins the checkpoint of a step if it is due, or if any rank was asked to stop. The last one is waited for. */
static mscrt_status *keep_checkpoint(training *t, int64_t step) {
  const char *folder = cli_text(t->c, "ckpt-dir");
  int64_t every = cli_int(t->c, "ckpt-every", 0);
  uint64_t stop = 0;
  char path[CHECKPOINT_PATH];
  if (!folder) return NULL;
  mscrt_status *s = mscrt_max(t->ctx, (uint64_t)stop_asked, &stop);
  t->stopped = stop;
  bool due = stop || step == t->steps || (every && step % every == 0);
  if (!s) s = end_checkpoint(t, due);
  if (s || !due) return s;
  checkpoint_path(folder, step, path); /* its length was checked */
  s = mscrt_checkpoint_begin(t->ctx, path);
  t->saves = !s;
  return s || !(stop || step == t->steps) ? s : end_checkpoint(t, true);
}

/* Goes on from the newest checkpoint, if there is one; again: from one that this run has written. */
static mscrt_status *resume_checkpoint(training *t, bool again) {
  char path[CHECKPOINT_PATH];
  const char *folder = cli_text(t->c, "ckpt-dir");
  uint64_t begin = 0;
  if (!folder || !(again || cli_flag(t->c, "resume"))) return NULL;
  if (again && t->rank == 0) {
    t->resumed = -1;
    int code = choose_checkpoint(t, checkpoint_below(folder, INT64_MAX));
    if (code) t->resumed = -1;
  }
  mscrt_status *s = mscrt_max(t->ctx, (uint64_t)(t->resumed + 1), &begin);
  t->resumed = (int64_t)begin - 1;
  if (s || t->resumed < 0) return s;
  checkpoint_path(folder, t->resumed, path);
  return mscrt_resume(t->ctx, path);
}

static mscrt_status *evaluate_between(training *t, int64_t step) {
  int64_t every = cli_int(t->c, "eval-every", 0);
  mscrt_evaluation e = {.struct_size = sizeof e};
  if (!every || step % every || step == t->steps) return NULL; /* after the last step it is done anyway */
  mscrt_status *s = mscrt_evaluate(t->ctx, &e);
  if (!s && t->rank == 0) cli_progress_done(t->c), print_evaluation(t, &e);
  return s;
}

static mscrt_status *train(training *t) {
  double epoch_loss = 0;
  int64_t epoch_steps = 0;
  mscrt_stats begun = {.struct_size = sizeof begun};
  mscrt_get_stats(t->ctx, &begun);
  for (int64_t step = begun.steps + 1; step <= t->steps && !t->stopped; step++) {
    double loss, begin = now_ms();
    mscrt_status *s = set_learning_rates(t, step - 1);
    if (!s) s = mscrt_run(t->ctx, "train", 1, &loss);
    if (s) return s;
    double ms = now_ms() - begin;
    if (t->done <= t->steps) t->ms[t->done++] = ms;
    if (t->rank == 0) tell_step(t, step, loss, ms);
    s = keep_checkpoint(t, step);
    if (!s && !t->stopped) s = evaluate_between(t, step);
    if (s) return s;
    epoch_loss += loss, epoch_steps++;
    if (t->rank || step % t->per_epoch || t->timed) continue;
    if (!t->c->json && t->steps > t->per_epoch) {
      cli_progress_done(t->c);
      printf("epoch %-7" PRId64 " mean loss %.6g\n", step / t->per_epoch, epoch_loss / (double)epoch_steps);
    }
    epoch_loss = 0, epoch_steps = 0;
  }
  cli_progress_done(t->c);
  return NULL;
}

/* Written where rank 0 reads it after all have met. */
static void note_measured(training *t) {
  mscrt_stats s = {.struct_size = sizeof s};
  mscrt_get_stats(t->ctx, &s);
  double steps = 1e6 * (double)(t->done ? t->done : 1);
  t->measured[t->rank] = (measured){(double)s.compute_ns / steps, (double)s.collective_ns / steps,
                                    (double)s.exposed_ns / steps, (double)s.section_ns / steps};
}

static mscrt_overlap overlap_of(const cli *c) {
  const char *text = cli_text(c, "overlap");
  return !text || !strcmp(text, "idle") ? MSCRT_OVERLAP_IDLE
         : !strcmp(text, "always")      ? MSCRT_OVERLAP_ALWAYS
                                        : MSCRT_OVERLAP_NEVER;
}

static void print_log(void *user, mscrt_log_level level, const char *text) {
  const training *t = user;
  bool warns = level == MSCRT_LOG_WARNING;
  if (t->rank == 0 && (warns || run_debug_level() >= 1))
    fprintf(stderr, "msc run: %s%s\n", warns ? "warning: " : "", text);
}

static mscrt_options options_of_rank(training *t) {
  const cli *c = t->c;
  return (mscrt_options){.struct_size = sizeof(mscrt_options),
                         .rank = t->rank,
                         .ranks = t->ranks,
                         .address = t->ranks > 1 ? t->joins ? t->job.address : t->address : NULL,
                         .local_ranks = t->joins ? t->job.local_ranks : 0,
                         .token = t->token,
                         .host = t->job.host[0] ? t->job.host : NULL,
                         .led = t->joins && !strcmp(t->job.family, "MS_*"),
                         .meet_ms = t->job.topology_ms,
                         .silence_ms = t->job.silence_ms,
                         .threads = (int)cli_int(c, "threads", 0),
                         .seed = (uint64_t)cli_int(c, "seed", 0),
                         .timeout_ms = (int)(cli_number(c, "timeout", 0) * 1000),
                         .perf_map = cli_flag(c, "perf-map"),
                         .device = cli_text(c, "device"),
                         .comm = cli_text(c, "comm"),
                         .choices = t->choices,
                         .tune = cli_flag(c, "autotune"),
                         .time_scale = t->time_scale,
                         .overlap = overlap_of(c),
                         .measure = t->measured != NULL,
                         .events = cli_text(c, "trace") ? TRACE_EVENTS : 0,
                         .log = print_log,
                         .log_user = t,
                         .recover = t->replaced > 0};
}

/* One line, and the step whose loss the rank 0 before this one could not say. */
static void print_recovery(training *t, const mscrt_recovery *r) {
  cli_progress_done(t->c);
  if (r->from_peers)
    fprintf(stderr, "msc run: %d rank%s replaced, the state of step %" PRId64 " came from other ranks\n", r->lost,
            r->lost == 1 ? " is" : "s are", r->step);
  else
    fprintf(stderr, "msc run: %d rank%s replaced, of whose state nobody else has all parts: all go on from %s\n",
            r->lost, r->lost == 1 ? " is" : "s are",
            cli_text(t->c, "ckpt-dir") ? "the newest checkpoint" : "the start");
  if (!r->from_peers) *t->printed = -1;
  else if (*t->printed == r->step - 1 && isfinite(r->loss)) tell_step(t, r->step, r->loss, 0);
}

/* The state from files, or that which ranks that were left have given already. */
static mscrt_status *begin_or_go_on(training *t) {
  cli *c = t->c;
  mscrt_recovery r = {.struct_size = sizeof r};
  mscrt_status *s = NULL;
  if (cli_text(c, "ckpt-dir")) signal(SIGTERM, ask_to_stop);
  mscrt_get_recovery(t->ctx, &r);
  if (t->rank == 0 && r.lost) print_recovery(t, &r);
  if (!r.from_peers && t->weights) s = mscrt_load_weights(t->ctx, t->weights);
  if (!r.from_peers && !s && cli_text(c, "init")) s = mscrt_load(t->ctx, cli_text(c, "init"));
  if (!r.from_peers && !s) s = resume_checkpoint(t, r.lost > 0);
  if (!s && t->data) s = mscrt_set_data(t->ctx, t->data);
  return s;
}

/* Trains and does what follows. */
static mscrt_status *work(training *t) {
  cli *c = t->c;
  double begin = now_ms();
  mscrt_status *s = train(t);
  double total_ms = now_ms() - begin;
  if (!s && t->measured) note_measured(t);
  mscrt_evaluation e = {.struct_size = sizeof e};
  if (s || t->stopped) return s; /* if it was stopped, the checkpoint is written */
  if (t->evaluates) s = mscrt_evaluate(t->ctx, &e);
  if (!s && t->evaluates && t->rank == 0) print_evaluation(t, &e);
  if (!s && t->num_sinks) s = mscrt_predict(t->ctx, t->num_sinks, t->sinks);
  if (!s && cli_text(c, "save")) s = mscrt_save(t->ctx, cli_text(c, "save"));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  uint64_t resident = 0;
  if (!s) s = mscrt_max(t->ctx, (uint64_t)usage.ru_maxrss * 1024, &resident);
  if (!s && t->rank == 0) print_totals(t, total_ms, resident);
  return s;
}

/* After the loss of another rank: meets the others again, and whoever takes its place. */
static mscrt_status *meet_again(training *t, mscrt_status *lost) {
  if (run_debug_level() >= 1) fprintf(stderr, "msc run: rank %d: %s\n", t->rank, mscrt_status_text(lost));
  join_pruning(t);
  recorder_stop(&t->recorder, lost);
  mscrt_status_free(lost);
  t->saves = false;
  mscrt_status *s = mscrt_recover(&t->ctx);
  if (!s) recorder_start(&t->recorder, cli_text(t->c, "flight"), t->rank, t->ctx);
  return s;
}

static mscrt_status *train_rank(training *t) {
  cli *c = t->c;
  mscrt_options o = options_of_rank(t);
  mscrt_status *s = mscrt_open(t->plan, &o, &t->ctx);
  if (!s) recorder_start(&t->recorder, cli_text(c, "flight"), t->rank, t->ctx);
  if (!s) s = open_own_data(t);
  for (int met = 0;; met++) {
    if (!s) s = begin_or_go_on(t);
    if (!s) s = work(t);
    if (mscrt_status_code(s) != MSCRT_PEER || met == t->replaced || !t->ctx) return s;
    s = meet_again(t, s);
  }
}

/* Sums of NCCL's in an order of its own choice, but always the same: not by the switch between GPUs.  Its
 * own variable wins. */
static void pin_order(const training *t) {
  json_t *config = json_loads(mscrt_plan_config(t->plan), 0, NULL);
  if (json_is_true(json_object_get(json_object_get(config, "deterministic"), "value")))
    setenv("NCCL_ALGO", "Ring,Tree", 0);
  json_decref(config);
}

static int run_training_rank(void *arg, int rank, const launch_line *line) {
  training *t = arg;
  if (t->ranks > 1) pin_order(t);
  t->rank = rank;
  t->ms = calloc((size_t)t->steps + 1, sizeof *t->ms);
  if (!t->ms) {
    launch_report(t->c, line, MSC_E_OUT_OF_MEMORY, "out of memory");
    return CLI_ENVIRONMENT;
  }
  if (rank == 0) setvbuf(stdout, NULL, _IOLBF, 0);
  mscrt_status *s = train_rank(t);
  join_pruning(t);
  recorder_stop(&t->recorder, s);
  cli_progress_done(t->c);
  int code = report_status(t->c, line, MSC_E_DATA, s);
  if (!s && t->stopped) code = 128 + SIGTERM;
  if (!s && cli_text(t->c, "trace") && !trace_part(cli_text(t->c, "trace"), rank, t->ctx, t->begin_ns)) {
    launch_report(t->c, line, MSC_E_TARGET, "the trace could not be written");
    code = CLI_ENVIRONMENT;
  }
  mscrt_close(t->ctx);
  free(t->ms);
  return code;
}

/* ---- the command ---- */

static int run_ranks(training *t) {
  uint64_t name[2];
  if (t->joins) return run_training_rank(t, t->job.rank, NULL);
  if (t->ranks == 1) return run_training_rank(t, 0, NULL);
  if (getrandom(name, sizeof name, 0) != sizeof name) return CLI_ENVIRONMENT;
  snprintf(t->address, sizeof t->address, "@msc-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
  return launch(t->c, t->ranks, (int)(cli_number(t->c, "grace", 0) * 1000), t->replaced, run_training_rank, t);
}

/* Leads the job as a process of its own. */
static int run_scheduler(training *t) {
  cli *c = t->c;
  mscrt_options o = {.struct_size = sizeof o,
                     .ranks = t->job.ranks,
                     .address = t->job.address,
                     .timeout_ms = t->job.topology_ms ? t->job.topology_ms : (int)(cli_number(c, "timeout", 0) * 1000),
                     .token = t->token,
                     .silence_ms = t->job.silence_ms};
  return report_status(c, NULL, MSC_E_DATA, mscrt_lead(&o));
}

static void *share(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int share_measured(training *t) {
  t->printed = share(sizeof *t->printed);
  if (!t->printed) return CLI_ENVIRONMENT;
  *t->printed = -1;
  if (!t->timed && !cli_text(t->c, "trace")) return CLI_OK;
  t->measured = share((size_t)t->ranks * sizeof *t->measured);
  if (!t->measured) return CLI_ENVIRONMENT;
  t->begin_ns = (int64_t)(now_ms() * 1e6);
  return CLI_OK;
}

static int run_run(cli *c) {
  training t = {.c = c};
  if (!check_run_options(&t)) return CLI_INPUT;
  if (t.joins && t.job.role == STARTUP_SCHEDULER) return run_scheduler(&t);
  t.replaced = (int)cli_int(c, "replace", 0);
  if (t.replaced < 0) return cli_usage(c, "--replace is not negative");
  if (cli_int(c, "n", 1) < 1 || cli_int(c, "threads", 1) < 1) return cli_usage(c, "-n and --threads are at least 1");
  int code = open_run_plan(&t);
  read_sinks(&t);
  if (!code) code = open_data(&t);
  if (!code) code = count_steps(&t);
  if (!code) code = read_schedule(&t);
  if (!code) code = check_checkpoints(&t);
  if (!code) code = check_files(&t);
  if (!code) code = share_measured(&t);
  if (!code && cli_text(c, "flight") && !recorder_prepare(c, cli_text(c, "flight"))) code = CLI_ENVIRONMENT;
  if (!code) code = run_ranks(&t);
  if (!code && cli_text(c, "trace")) code = trace_join(c, cli_text(c, "trace"), t.ranks);
  mscrt_data_close(t.data);
  mscrt_plan_close(t.plan);
  return code;
}

static const cli_option options[] = {
    {"n", CLI_INT, "RANKS",
     "local ranks to start; absent: as many as the plan is for, or this process alone where mpirun, torchrun, srun, "
     "msc launch or MS_ROLE started it as one of several"},
    {"data", CLI_PAIRS, "INPUT=FILE",
     "data of an input: idx (.gz), .npy, safetensors (FILE:TENSOR), raw tokens (FILE:u8|u16|i32); with %r for the "
     "rank's "
     "number: its part of every batch, "
     "one behind the other"},
    {"train", CLI_TEXT, "A:B", "samples to train on; absent: all"},
    {"eval", CLI_TEXT, "A:B", "samples to evaluate on after training; absent: none"},
    {"eval-every", CLI_INT, "K", "evaluate every K steps, too"},
    {"output", CLI_PAIRS, "OUTPUT=FILE.npy",
     "write an output for the samples of --eval, or for all; nothing is trained unless --steps or --epochs say so, and "
     "labels that no output depends on need no data"},
    {"steps", CLI_INT, "K", "training steps"},
    {"epochs", CLI_INT, "E", "times over the training samples; default 1"},
    {"lr-schedule", CLI_TEXT, "KIND[:NAME=V,...]",
     "factor on the learning rate by the step: cosine, linear (both fall to min, 0, at the last step), step:every=N "
     "(times factor, 0.1, every N steps) or constant; of all: warmup=N steps from 0 on, steps=N in place of the run's"},
    {"seed", CLI_INT, "S", "of initial weights and sample order; default 0"},
    {"in-order", CLI_FLAG, NULL, "take the samples as they are in the files instead of permuting every epoch"},
    {"init", CLI_TEXT, "W.safetensors", "initial parameters from a file"},
    {"weights", CLI_TEXT, "DIR", "folder of the files that the model names for its parameters; default: the model's"},
    {"save", CLI_TEXT, "W.safetensors", "write the trained parameters"},
    {"threads", CLI_INT, "T", "threads per rank; default: cores divided by ranks"},
    {"timeout", CLI_NUMBER, "S", "seconds that a rank waits for another, or for its GPU; default 300"},
    {"trust-native", CLI_FLAG, NULL, "run the plan's native code although it was not compiled here"},
    {"perf-map", CLI_FLAG, NULL, "write /tmp/perf-PID.map, the names of generated code for perf"},
    {"comm", CLI_CHOICE, "local|tcp|mpi|nccl",
     "transport between ranks; default: nccl where every rank has a GPU of its own, tcp where ranks meet at "
     "HOST:PORT, else local; mpi is not supported yet"},
    {"device", CLI_CHOICE, "cpu|cuda|timed",
     "what runs the calls; default: what the plan was compiled for; timed: no values, each sleeps for its predicted "
     "time "
     "(times MSC_TIME_SCALE) and order is checked"},
    {"autotune", CLI_FLAG, NULL,
     "measure the matrix products of a GPU that were not measured yet; the fastest ways are kept in the user's cache "
     "folder, for every later run"},
    {"overlap", CLI_CHOICE, "idle|always|never",
     "collectives in a thread of their own; default idle: when a core is free for it"},
    {"ckpt-dir", CLI_TEXT, "DIR",
     "checkpoints, with the optimizer's state and the position in the data: after the last step, every --ckpt-every, "
     "and before SIGTERM ends the run"},
    {"ckpt-every", CLI_INT, "K", "steps between checkpoints"},
    {"ckpt-keep", CLI_INT, "N", "checkpoints to keep; default 2"},
    {"resume", CLI_FLAG, NULL,
     "go on from the newest checkpoint, if there is one, to the same number of steps, bit for bit"},
    {"trace", CLI_TEXT, "t.json", "write a timeline of calls and collectives, in Chrome's trace format"},
    {"flight", CLI_TEXT, "DIR",
     "write the last 2,000 operations with other ranks, a file for each rank, after a failure and on SIGUSR1; msc "
     "flight DIR merges them"},
    {"replace", CLI_INT, "N",
     "how many ranks that are lost are replaced, one after the other, while the others stay: their state comes from "
     "ranks that hold the same, at most one step is run again; where nobody does, all go back to the newest "
     "checkpoint"},
    {"grace", CLI_NUMBER, "S", "seconds that ranks have after SIGTERM to write a checkpoint; default 5"},
    {"alive", CLI_TEXT | CLI_LATER, "FILE", "touch this file at every step"},
    {0},
};
const cli_command cmd_run = {"PLAN", 1, 1, options, run_run};
