/* cmd_compile.c: msc compile: a model and a configuration in; a plan, and what is printed about it, out. */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/compile.h"
#include "ir/abi/clock.h"
#include "tools/compile/autotune.h"
#include "tools/cli.h"
#include "tools/compile/engines.h"
#include "tools/compile/trust.h"

enum { MOST_USES = 64, SHOWN_USES = 5, MOST_PHASES = 16 };

/* The times of the runs of one pass; trials are runs on copies of the module. */
typedef struct {
  int runs, trials;
  uint64_t ns, trials_ns;
} pass_time;

typedef struct {
  cli *c;
  pass_time *pass; /* by row of pass.def */
  uint64_t verify_ns;
  struct {
    const char *name;
    uint64_t ns;
  } phase[MOST_PHASES]; /* what is done beside passes, in the order in which it came first */
  int debug;
  const msc_compile_options *options;
  uint64_t engines_ns; /* of graphs; 0: none was asked for */
} compiling;

/* ---- callbacks ---- */

static void time_pass(void *user, const msc_pass_report *r) {
  compiling *k = user;
  pass_time *t = &k->pass[r->pass - msc_row(0)];
  *(r->is_trial ? &t->trials : &t->runs) += 1;
  *(r->is_trial ? &t->trials_ns : &t->ns) += r->pass_ns;
  k->verify_ns += r->verify_ns;
  if (r->is_trial) return;
  cli_progress(k->c, "compiling: %s/%s", r->pass->stage, r->pass->name);
  for (const msc_pass_stat *s = r->stats; s && k->debug >= 2; s = s->next)
    fprintf(stderr, "%s: %s %" PRId64 "\n", r->pass->name, s->what, s->count);
  if (k->debug >= 4 && r->changed) fprintf(stderr, "// ---- after %s ----\n%s", r->pass->name, r->text);
}

static void time_phase(void *user, const char *name, uint64_t ns) {
  compiling *k = user;
  int i = 0;
  while (i < MOST_PHASES - 1 && k->phase[i].name && strcmp(k->phase[i].name, name) != 0) i++;
  k->phase[i].name = name, k->phase[i].ns += ns;
}

static void print_remark(void *user, const msc_pass_info *pass, const msc_op *op, const char *text) {
  compiling *k = user;
  if (k->debug >= 3)
    fprintf(stderr, "%s: %s: %s\n", pass->name, op && op->name ? op->name : op ? msc_kind_name(op->kind) : "-", text);
}

static void keep_pass_input(void *user, const msc_pass_info *pass, const char *line, const char *text, size_t bytes) {
  (void)user, (void)pass;
  cli_keep_reproducer(line, text, bytes);
}

static void save_generated_code(void *user, const char *name, const char *text, size_t bytes) {
  compiling *k = user;
  const char *folder = cli_text(k->c, "dump-dir");
  if (folder) cli_write_file(k->c, msc_arena_printf(msc_context_arena(k->c->ctx), "%s/%s", folder, name), text, bytes);
  if (k->debug >= 5) fwrite(text, 1, bytes, stderr);
}

static void write_bug_case(void *user, const msc_pass_info *pass, const char *text, size_t bytes) {
  compiling *k = user;
  cli_write_reproducer(k->c, pass->name, text, bytes);
}

/* ---- printing ---- */

/* Transfers of a training step with equal collective, axes and bytes: they are printed as one line. */
typedef struct {
  uint8_t verb;
  const char *axes;
  uint64_t bytes;
  int count;
} kind_of_transfer;

enum { MESSAGE = MSC_NUM_VERBS }; /* between stages */

static const char *transfer_name(unsigned verb) { return verb == MESSAGE ? "message" : msc_verb_name((msc_verb)verb); }

typedef struct {
  const msc_plan *p;
  kind_of_transfer *kind;
  size_t num;
  uint64_t *total; /* per stage */
} counting;

static void count_transfer(counting *c, uint32_t section, uint8_t verb, const char *axes, uint64_t bytes) {
  uint64_t uses = msc_plan_uses(c->p, section);
  size_t k = 0;
  if (!uses) return;
  c->total[c->p->section[section].stage] += uses * bytes;
  while (k < c->num && !(c->kind[k].verb == verb && c->kind[k].bytes == bytes && strcmp(c->kind[k].axes, axes) == 0))
    k++;
  if (k == c->num) c->kind[c->num++] = (kind_of_transfer){verb, axes, bytes, 0};
  c->kind[k].count += (int)uses;
}

/* Counts the transfers by kind.  *out_total: bytes that a rank of the busiest stage receives. */
static kind_of_transfer *count_transfers(const msc_plan *p, size_t *out_num, uint64_t *out_total) {
  counting c = {.p = p,
                .kind = msc_new_array(p->arena, kind_of_transfer, p->num_transfers + p->num_messages),
                .total = msc_new_array(p->arena, uint64_t, p->num_stages)};
  for (size_t i = 0; i < p->num_transfers; i++)
    count_transfer(&c, p->transfer[i].section, p->transfer[i].verb, p->transfer[i].axes, p->transfer[i].bytes);
  for (uint32_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      const msc_plan_call *call = &p->section[s].call[i];
      if (call->kind == PLAN_CALL_KIND_MESSAGE && call->buffer[0].written)
        count_transfer(&c, s, MESSAGE, "{stage}", call->bytes);
    }
  *out_total = 0;
  for (uint32_t i = 0; i < p->num_stages; i++)
    if (c.total[i] > *out_total) *out_total = c.total[i];
  *out_num = c.num;
  return c.kind;
}

/* Prints the collectives of parameters and gradients in the order in which they run: the values that are sent together,
 * the bytes of each rank, and the number of the bucket among those of its kind. */
static void print_buckets(cli_output *out, const msc_plan *p) {
  bool any = false;
  cli_printf(out, "\"buckets\":[");
  for (size_t i = 0; i < p->num_transfers; i++) {
    const msc_plan_transfer *t = &p->transfer[i];
    const msc_plan_call *c = &p->section[t->section].call[t->call];
    uint64_t bytes = 0;
    const msc_attr_value *number = msc_op_attr(c->op, MSC_FACT(bucket));
    if (!number) continue;
    for (size_t k = msc_verb_gathers((msc_verb)t->verb); k < c->num_buffers; k += 2) bytes += c->buffer[k].bytes;
    cli_printf(out, "%s{\"number\":%" PRId64 ",\"op\":\"%s\",\"axes\":\"%s\",\"members\":%zu,\"bytes\":%" PRIu64 "}",
               any ? "," : "", number->i, transfer_name(t->verb), t->axes, c->num_buffers / 2, bytes);
    any = true;
  }
  cli_printf(out, "],");
}

/* Returns the number of distinct collectives among those that move data. */
static size_t count_subgraphs(const msc_plan *p) {
  bool *seen = msc_new_array(p->arena, bool, p->num_collectives);
  size_t num = 0;
  for (size_t i = 0; i < p->num_transfers; i++) {
    uint32_t index = p->section[p->transfer[i].section].call[p->transfer[i].call].index;
    num += !seen[index];
    seen[index] = true;
  }
  return num;
}

static json_t *op_name_json(const msc_op *op) {
  char *clean = cli_printable(msc_peak_name(op));
  json_t *j = json_string(clean ? clean : "?");
  free(clean);
  return j;
}

/* "peak":{"op","live","uses":[{"op","what","bytes"}]}, */
static void print_peak_json(cli_output *out, const msc_plan *p) {
  msc_peak peak = msc_plan_peak_of(p);
  if (!peak.at) return;
  json_t *uses = json_array();
  for (size_t i = 0; i < peak.num && i < MOST_USES; i++)
    json_array_append_new(uses,
                          json_pack("{s:o, s:s, s:I}", "op", op_name_json(peak.use[i].op), "what",
                                    peak.use[i].work ? "work" : "result", "bytes", (json_int_t)peak.use[i].bytes));
  json_t *j = json_pack("{s:o, s:I, s:o}", "op", op_name_json(peak.at), "live", (json_int_t)peak.live, "uses", uses);
  char *text = json_dumps(j, JSON_COMPACT);
  if (text) cli_printf(out, "\"peak\":%s,", text);
  free(text);
  json_decref(j);
}

static void print_passes(cli_output *out, const compiling *k) {
  bool any = false;
  for (size_t i = 0; i < msc_num_rows(); i++) {
    const pass_time *t = &k->pass[i];
    if (!t->runs && !t->trials) continue;
    cli_printf(out, "%s{\"name\":\"%s\",\"ms\":%.3f,\"runs\":%d,\"trials\":%d,\"trials_ms\":%.3f}", any ? "," : "",
               msc_row(i)->name, (double)t->ns / 1e6, t->runs, t->trials, (double)t->trials_ns / 1e6);
    any = true;
  }
}

/* Prints the numbers of ranks of the smaller plans that this plan contains. */
static void print_smaller(cli_output *out, const msc_compiled *made) {
  if (!made->num_smaller) return;
  cli_printf(out, "\"smaller\":[");
  for (size_t i = 0; i < made->num_smaller; i++) cli_printf(out, "%s%" PRId64, i ? "," : "", made->smaller[i]);
  cli_printf(out, "],");
}

static int print_compile_json(const compiling *k, const msc_compiled *made, double ms) {
  const msc_plan *p = made->plan;
  uint64_t total;
  size_t num;
  const kind_of_transfer *kind = count_transfers(p, &num, &total);
  cli_output *out = cli_open(k->c, NULL);
  cli_printf(out, "{\"ops\":%zu,\"ranks\":%" PRId64 ",\"stages\":%u,\"compile_ms\":%.3f,\"passes\":[", made->num_ops,
             msc_mesh_size(&p->module->mesh), p->num_stages, ms);
  print_passes(out, k);
  msc_plan_memory m = msc_plan_memory_of(p);
  cli_printf(out,
             "],\"memory_bytes_per_rank\":%" PRIu64 ",\"memory\":{\"parameters\":%" PRIu64 ",\"state\":%" PRIu64
             ",\"sums\":%" PRIu64 ",\"copies\":%" PRIu64 ",\"carried\":%" PRIu64 ",\"messages\":%" PRIu64
             ",\"alignment\":%" PRIu64 ",\"inputs\":%" PRIu64 ",\"scratch\":%" PRIu64 ",\"constants\":%" PRIu64
             ",\"workspace\":%" PRIu64 "},\"offload\":{\"host\":%" PRIu64 ",\"disk\":%" PRIu64 "},\"collectives\":[",
             msc_plan_rank_bytes(p), m.parameters, m.state, m.sums, m.copies, m.carried, m.messages, m.alignment,
             m.inputs, m.scratch, m.constants, m.workspace, m.host, m.disk);
  for (size_t i = 0; i < num; i++)
    cli_printf(out, "%s{\"op\":\"%s\",\"axes\":\"%s\",\"bytes\":%" PRIu64 ",\"count\":%d}", i ? "," : "",
               transfer_name(kind[i].verb), kind[i].axes, kind[i].bytes, kind[i].count);
  cli_printf(out, "],");
  print_buckets(out, p);
  print_smaller(out, made);
  print_peak_json(out, p);
  if (p->search.step_ns >= 0)
    cli_printf(out,
               "\"search\":{\"step_ms\":%.6f,\"compared_at_least_ms\":%.6f,\"at_least_ms\":%.6f,"
               "\"data_parallel\":%s},",
               (double)p->search.step_ns / 1e6, (double)p->search.least_step_ns / 1e6,
               (double)p->search.least_plan_ns / 1e6, p->search.data_parallel ? "true" : "false");
  cli_printf(out,
             "\"comm_subgraphs\":{\"distinct\":%zu,\"uses\":%zu},\"comm_bytes_per_rank\":%" PRIu64
             ",\"predicted_step_ms\":%.6f,\"exposed_comm_ms\":%.6f}\n",
             count_subgraphs(p), p->num_transfers, total, (double)p->predicted_step_ns / 1e6,
             (double)p->exposed_comm_ns / 1e6);
  return cli_close(k->c, out);
}

static void print_peak(const msc_plan *p) {
  msc_peak peak = msc_plan_peak_of(p);
  fprintf(stderr, "memory: %s bytes\n", msc_plan_memory_text(p));
  if (!peak.at) return;
  fprintf(stderr, "  at %s %" PRIu64 " of them are in use:", msc_peak_name(peak.at), peak.live);
  for (size_t i = 0; i < peak.num && i < SHOWN_USES; i++)
    fprintf(stderr, "%s %s%s %" PRIu64, i ? "," : "", msc_peak_name(peak.use[i].op), peak.use[i].work ? "'s work" : "",
            peak.use[i].bytes);
  fprintf(stderr, "%s\n", peak.num > SHOWN_USES ? ", ..." : "");
}

/* Prints the layouts of each op and who decided them. */
static void print_decisions(const msc_plan *p) {
  for (size_t i = 0; i < p->num_decisions; i++)
    fprintf(stderr, "%-24s %s (%s)\n", p->decision[i].op, p->decision[i].text, p->decision[i].by);
}

/* Prints how many ops were given layouts, and by whom: "16 ops were given layouts (15 default, 1 search)". */
static void print_deciders(const msc_plan *p) {
  const char *sep = " (";
  if (!p->num_decisions) return;
  fprintf(stderr, "%zu op%s given layouts", p->num_decisions, p->num_decisions == 1 ? " was" : "s were");
  for (size_t i = 0; i < p->num_decisions; i++) {
    const char *by = p->decision[i].by;
    size_t first = 0, num = 0;
    while (strcmp(p->decision[first].by, by)) first++;
    if (first < i) continue;
    for (size_t j = i; j < p->num_decisions; j++) num += !strcmp(p->decision[j].by, by);
    fprintf(stderr, "%s%zu %s", sep, num, by);
    sep = ", ";
  }
  fprintf(stderr, "); `msc explain`, or -v here, tells of each\n");
}

static void print_compile_text(const msc_compiled *made, bool verbose, double ms) {
  const msc_plan *p = made->plan;
  uint64_t total;
  size_t num;
  const kind_of_transfer *kind = count_transfers(p, &num, &total);
  if (verbose) print_decisions(p);
  else print_deciders(p);
  for (size_t i = 0; i < num; i++)
    fprintf(stderr, "%-16s over %-16s %10" PRIu64 " bytes x %d\n", transfer_name(kind[i].verb), kind[i].axes,
            kind[i].bytes, kind[i].count);
  print_peak(p);
  fprintf(stderr,
          "%" PRId64 " ranks, %" PRIu64 " bytes per rank, %" PRIu64
          " bytes received per rank and step; plan of %zu bytes in %.0f ms\n",
          msc_mesh_size(&p->module->mesh), msc_plan_rank_bytes(p), total, made->num_bytes, ms);
  for (size_t i = 0; i < made->num_smaller; i++)
    fprintf(stderr, "%s%" PRId64 "%s", i ? ", " : "elastic: goes on with ", made->smaller[i],
            i + 1 == made->num_smaller ? " ranks, too\n" : "");
}

static uint64_t print_time(uint64_t ns, const char *what) {
  fprintf(stderr, "%9.3f ms  %s\n", (double)ns / 1e6, what);
  return ns;
}

/* Prints a row for each pass and for everything beside the passes: together they are all of the time. */
static void print_times(const compiling *k, uint64_t all) {
  msc_arena *a = msc_context_arena(k->c->ctx);
  uint64_t sum = 0;
  for (size_t i = 0; i < msc_num_rows(); i++) {
    const pass_time *t = &k->pass[i];
    const char *name = msc_row(i)->name;
    if (t->runs > 1) sum += print_time(t->ns, msc_arena_printf(a, "%s, runs: %d", name, t->runs));
    else if (t->runs) sum += print_time(t->ns, name);
    if (t->trials) sum += print_time(t->trials_ns, msc_arena_printf(a, "%s, trials: %d", name, t->trials));
  }
  sum += print_time(k->verify_ns, "modules verified");
  for (int i = 0; i < MOST_PHASES && k->phase[i].name; i++) sum += print_time(k->phase[i].ns, k->phase[i].name);
  if (k->engines_ns) sum += print_time(k->engines_ns, "engines");
  print_time(all > sum ? all - sum : 0, "the rest");
  print_time(all, "in all");
}

/* Writes the dependencies, "plan.bin: model.fbs config.json". */
static int write_depfile(cli *c, const char *plan) {
  const char *path = cli_text(c, "depfile"), *config = cli_text(c, "config");
  if (!path) return CLI_OK;
  const char *text = msc_arena_printf(msc_context_arena(c->ctx), "%s: %s%s%s\n", plan, c->operands[0],
                                      config ? " " : "", config ? config : "");
  return cli_write_file(c, path, text, strlen(text));
}

/* The model's folder relative to the plan's; NULL: the same, or a stream. */
static const char *model_folder(cli *c, const char *model, const char *plan) {
  msc_arena *arena = msc_context_arena(c->ctx);
  char from[PATH_MAX], to[PATH_MAX];
  const char *slash = strrchr(plan, '/');
  if (!strcmp(model, "-") || !realpath(model, to) ||
      !realpath(slash ? msc_arena_printf(arena, "%.*s", (int)(slash - plan) + 1, plan) : ".", from))
    return NULL;
  *strrchr(to, '/') = 0; /* "" is the root */
  if (!from[1]) *from = 0;
  size_t n = 0;
  for (size_t i = 0;; i++) { /* n: the length of the folder that both lie in */
    if ((!from[i] || from[i] == '/') && (!to[i] || to[i] == '/')) n = i;
    if (!from[i] || from[i] != to[i]) break;
  }
  const char *up = "", *rest = to + n + (to[n] == '/');
  for (const char *p = from + n; *p; p++)
    if (*p == '/') up = msc_arena_printf(arena, "%s%s..", up, *up ? "/" : "");
  const char *path = msc_arena_printf(arena, "%s%s%s", up, *up && *rest ? "/" : "", rest);
  return *path ? path : NULL;
}

/* ---- the command ---- */

static bool check_time_limit(cli *c) {
  double limit = cli_number(c, "time-limit", 0);
  if (!(limit >= 0 && limit < 1e9))
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--time-limit"), "seconds, from 0 on, not %g", limit);
  return true;
}

static bool put_engines(void *user, msc_plan *p) {
  compiling *k = user;
  const char *why;
  uint64_t begin = msc_clock_ns();
  if (!p->num_graphs || !k->options->target.arch) return true;
  cli_progress(k->c, "compiling: engines");
  bool ok = engines_put(k->options, p, &why);
  k->engines_ns = msc_clock_ns() - begin;
  if (k->debug >= 3 && why) fprintf(stderr, "engines: %s\n", why);
  return ok;
}

static int run_compile(cli *c) {
  uint64_t begin = msc_clock_ns();
  compiling k = {.c = c};
  k.pass = msc_new_array(msc_context_arena(c->ctx), pass_time, msc_num_rows());
  if (!cli_text(c, "o")) return cli_usage(c, "needs -o plan.bin");
  struct msc_config *config = cli_config(c);
  bool is_legal = check_time_limit(c) && config;
  msc_compile_options o = {.config = config,
                           .time_limit_s = cli_number(c, "time-limit", 0),
                           .dump_dir = cli_text(c, "dump-dir"),
                           .verify = MSC_VERIFY_IR,
                           .user = &k,
                           .after = time_pass,
                           .phase = time_phase,
                           .remark = print_remark,
                           .before = keep_pass_input,
                           .meanwhile = put_engines,
                           .reproducer = write_bug_case,
                           .flags = cli_repeated_flags(c)};
  const msc_target_words words = {cli_text(c, "target"), cli_text(c, "mcpu"), cli_loc(c, "--target"),
                                  cli_loc(c, "--mcpu")};
  is_legal &= msc_code_target_of(c->ctx, &words, &o.target);
  is_legal &= cli_cluster(c, &o.cluster);
  if (!is_legal) return CLI_INPUT;
  o.target.vector_bytes = msc_config_vector_bytes(config);
  k.options = &o;
  k.debug = msc_config_debug(config);
  o.want_text = k.debug >= 4;
  if (o.dump_dir && !cli_make_folder(c, o.dump_dir)) return CLI_INPUT;
  if (o.dump_dir || k.debug >= 5) o.emitted = save_generated_code;
  int read_code;
  msc_model_bytes model;
  msc_compiled made;
  if (!cli_read_model_bytes(c, c->operands[0], &model, &read_code)) return read_code;
  const char *path = cli_text(c, "o"), *strategies = msc_config_text(config, MSC_KEY_strategy_ckpt_save_file);
  if (!cli_claim_output(c, path) || !cli_claim_output(c, strategies) || !cli_claim_output(c, cli_text(c, "depfile")) ||
      (o.dump_dir && !cli_may_dump(c, o.dump_dir)))
    return CLI_INPUT;
  o.model_folder = model_folder(c, c->operands[0], path);
  bool ok = msc_compile_model(c->ctx, &model, &o, &made);
  cli_progress_done(c);
  if (!ok) return CLI_INPUT;
  uint64_t made_at = msc_clock_ns();
  const msc_plan *p = made.plan;
  int code = strategies ? cli_write_file(c, strategies, p->strategies, strlen(p->strategies)) : CLI_OK;
  if (code == CLI_OK) code = cli_write_file(c, path, made.bytes, made.num_bytes);
  if (code == CLI_OK) trust_note(made.bytes, made.num_bytes);
  if (code == CLI_OK) code = write_depfile(c, path);
  if (code == CLI_OK && cli_flag(c, "autotune")) code = autotune_plan(c, &made);
  uint64_t end = msc_clock_ns();
  double ms = (double)(end - begin) / 1e6;
  time_phase(&k, "files written", end - made_at);
  if (code != CLI_OK) return code;
  if (cli_flag(c, "timing")) print_times(&k, end - begin);
  if (c->json) return print_compile_json(&k, &made, ms);
  print_compile_text(&made, cli_flag(c, "v"), ms);
  return CLI_OK;
}

static const cli_option options[] = {
    {"o", CLI_TEXT, "FILE", "the plan"},
    {"target", CLI_TEXT, "cpu|cuda[:sm_90]", "what the plan runs on"},
    {"mcpu", CLI_TEXT, "CPU", "make code for this CPU instead of this machine's"},
    {"cluster", CLI_TEXT, "FILE|NAME",
     "description of the devices and links: a100, h100, h200, cpu (default) or a file"},
    {"dim", CLI_PAIRS, "NAME=SIZE", "size of a dimension that the model leaves open: batch, or x.1"},
    {"autotune", CLI_FLAG, NULL,
     "measure matrix products on this machine's GPU or CPU, for later runs"},
    {"time-limit", CLI_NUMBER, "S", "seconds after which the search for strategies takes the best so far; 0: no limit"},
    {"dump-dir", CLI_TEXT, "DIR", "IR after every pass that changed it, and the generated LLVM IR"},
    {"depfile", CLI_TEXT, "FILE", "what the plan was made from, for build systems"},
    {"timing", CLI_FLAG, NULL, "time of every pass, and of all else"},
    {"v", CLI_FLAG, NULL, "the layouts of every op, and who decided them"},
    {0}};
const cli_command cmd_compile = {"MODEL", 1, 1, options, run_compile};
