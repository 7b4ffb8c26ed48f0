/* open_training.c: the options, the plan and the files of a run, checked and opened once before its ranks are started,
 * so that a run does not fail late for what could be known early. */
#include <stdlib.h>
#include <string.h>

#include "tools/run/checkpoint_folders.h"
#include "tools/run/measured_trace.h"
#include "tools/status.h"
#include "tools/run/training.h"
#include "tools/compile/trust.h"

/* Opens the plans that the plan brings along: the family. */
static mscrt_status *open_family(training *t, const mscrt_plan_options *o) {
  size_t num = mscrt_plan_num_smaller(t->plan);
  t->family = msc_new_array(msc_context_arena(t->c->ctx), mscrt_plan *, num + 1);
  t->family[0] = t->plan, t->num_family = 1;
  t->opened = t->family, t->num_opened = 1;
  for (size_t i = 0; i < num; i++) {
    size_t bytes;
    const void *smaller = mscrt_plan_smaller(t->plan, i, &bytes);
    mscrt_status *s = mscrt_plan_open(smaller, bytes, o, &t->family[i + 1]);
    if (s) return s;
    t->num_family++, t->num_opened++;
  }
  return NULL;
}

/* Sets the family to the plan for `ranks` ranks and those behind it; false: there is none for so many. */
static bool choose_plan_of_family(training *t) {
  for (int i = 0; i < t->num_family; i++) {
    if (mscrt_plan_ranks(t->family[i]) != t->ranks) continue;
    t->plan = t->family[i];
    t->family += i, t->num_family -= i;
    return true;
  }
  return false;
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
  if (!s) s = open_family(t, &o);
  if (s) return status_report(c, c->operands[0], "", s);
  if (!cli_keys_fit(c, mscrt_plan_config(t->plan))) return CLI_INPUT;
  t->ranks = t->joins ? t->job.ranks : (int)cli_int(c, "n", mscrt_plan_ranks(t->plan));
  if (choose_plan_of_family(t)) return CLI_OK;
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

const char *file_of_rank(const cli *c, const char *file, int rank) {
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

/* True if the run only writes outputs: without --steps and --epochs it does not train. */
static bool only_predicts(const training *t) {
  int64_t asked = cli_int(t->c, "steps", 0) + cli_int(t->c, "epochs", 0);
  return t->num_sinks && (asked == 0 || !mscrt_plan_has(t->plan, "train"));
}

static void warn_of_left_out(const training *t) {
  const char *first;
  int64_t num = mscrt_data_left_out(t->data, &first);
  if (num)
    msc_warning(t->c->ctx, MSC_E_DATA, NULL,
                "%" PRId64 " of %" PRId64 " samples are damaged and left out; of the first: %s", num,
                num + mscrt_data_samples(t->data), first);
}

static int open_data(training *t) {
  cli *c = t->c;
  bool train_open = false, eval_open = false;
  mscrt_data_options o = {
      .struct_size = sizeof o, .in_order = cli_flag(c, "in-order"), .skip_damaged = cli_flag(c, "skip-damaged")};
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
  if (train_open) o.train_end = INT64_MAX;
  if (eval_open) o.eval_end = INT64_MAX;
  int code = status_of_rank(c, NULL, MSC_E_DATA, mscrt_data_open(t->plan, num, sources, &o, &t->data));
  if (!code) t->per_epoch = mscrt_data_steps_per_epoch(t->data), warn_of_left_out(t);
  t->evaluates = !code && cli_text(c, "eval") && mscrt_data_has_labels(t->data);
  /* ranks with files of their own end where this one does */
  if (!code && train_open) o.train_end = mscrt_data_samples(t->data);
  if (!code && eval_open) o.eval_end = mscrt_data_samples(t->data);
  t->data_options = o;
  return code;
}

mscrt_status *open_data_again(training *t) {
  size_t num;
  bool parts;
  if (!t->data) return NULL;
  mscrt_source *sources = sources_of(t->c, 0, &num, &parts);
  mscrt_data_close(t->data);
  t->data = NULL;
  return mscrt_data_open(t->plan, num, sources, &t->data_options, &t->data);
}

mscrt_status *open_own_data(training *t) {
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
  int code = status_of_rank(c, NULL, MSC_E_DATA, s);
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

int choose_checkpoint(training *t, int64_t newest) {
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
    if (last || mscrt_status_code(s) != MSCRT_INPUT) return status_of_rank(t->c, NULL, MSC_E_DATA, s);
    msc_warning(t->c->ctx, MSC_E_DATA, NULL, "%s; the checkpoint before it is taken", mscrt_status_text(s));
    mscrt_status_free(s);
  }
  return CLI_OK;
}

/* The folder of checkpoints is made, and written to once, before anything runs. */
/* Ranks are replaced, but parts of their state are nowhere else. */
static void warn_of_lonely_state(training *t) {
  bool *lost = msc_new_array(msc_context_arena(t->c->ctx), bool, t->ranks);
  for (int r = 0; r < t->ranks && t->replaced && (!t->joins || !t->job.rank); r++) {
    size_t alone;
    mscrt_tensor tensor;
    bool is_state;
    lost[r] = true;
    if (mscrt_plan_restores(t->plan, r, lost, &alone)) {
      lost[r] = false;
      continue;
    }
    mscrt_plan_parameter(t->plan, alone, &tensor, &is_state);
    msc_warning(t->c->ctx, MSC_E_PEER, NULL,
                "nobody else holds the part of %s that rank %d has: when it is lost all go back to the %s; msc explain "
                "--redundancy says what would change it",
                tensor.name, r, cli_text(t->c, "ckpt-dir") ? "newest checkpoint" : "start");
    return;
  }
}

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
  if (cli_text(c, "mtbf") && (!folder || !(cli_number(c, "mtbf", 0) > 0)))
    return cli_usage(c, "--mtbf is a number of hours above 0, and needs --ckpt-dir");
  if (!(cli_number(c, "grace", 1) > 0 && cli_number(c, "grace", 1) < 1e6))
    return cli_usage(c, "--grace is a number of seconds above 0");
  if (cli_text(c, "eval-every") && !t->evaluates) return cli_usage(c, "--eval-every needs --eval, and labels");
  if (!folder) return CLI_OK;
  if (t->steps == 0) return cli_usage(c, "--ckpt-dir: nothing is trained");
  if (t->joins && t->job.rank) return CLI_OK; /* rank 0 looks into the folder, for all */
  if (!cli_make_folder(c, folder)) return CLI_INPUT;
  if (!checkpoint_path(folder, t->steps, path)) return cli_usage(c, "--ckpt-dir: the path is too long");
  int64_t newest = checkpoint_below(folder, INT64_MAX);
  bool ours = getenv("MSC_REPLACES"); /* msc launch put this process in the place of one of the same run */
  if (newest >= 0 && !ours && !cli_flag(c, "resume")) {
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
  return status_of_rank(c, NULL, MSC_E_DATA, mscrt_check_checkpoint(path));
}

static int check_files(training *t) {
  cli *c = t->c;
  const char *save = cli_text(c, "save");
  if (!cli_claim_output(c, save) || !cli_claim_output(c, t->trace)) return CLI_INPUT;
  for (size_t i = 0; i < t->num_sinks; i++)
    if (!cli_claim_output(c, t->sinks[i].file)) return CLI_INPUT;
  int code = t->trace ? trace_check(c, t->trace, t->joins ? t->job.rank : 0) : CLI_OK;
  if (code == CLI_OK) code = status_of_rank(c, NULL, MSC_E_DATA, touch_alive(t));
  if (code != CLI_OK) return code;
  if (save) code = status_of_rank(c, NULL, MSC_E_DATA, mscrt_check_save(save));
  if (code != CLI_OK) return code;
  if (t->num_sinks) code = status_of_rank(c, NULL, MSC_E_DATA, mscrt_check_predict(t->data, t->num_sinks, t->sinks));
  if (code != CLI_OK) return code;
  code = find_weights(t);
  if (code != CLI_OK || !cli_text(c, "init")) return code;
  t->init = checkpoint_newest(cli_text(c, "init"), msc_new_array(msc_context_arena(c->ctx), char, CHECKPOINT_PATH));
  return status_of_rank(c, NULL, MSC_E_DATA, mscrt_plan_check_weights(t->plan, t->init));
}

int open_training(training *t) {
  int code = open_run_plan(t);
  read_sinks(t);
  if (!code) code = open_data(t);
  if (!code) code = count_steps(t);
  if (!code) code = read_schedule(t);
  if (!code) code = check_checkpoints(t);
  if (!code) warn_of_lonely_state(t);
  if (!code) code = check_files(t);
  return code;
}
