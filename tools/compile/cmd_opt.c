/* cmd_opt.c: IR text and names of passes in, IR text out.  Golden tests and reproducers run on it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ir/fact.h"
#include "ir/text/text.h"
#include "passes/2_train/train.h"
#include "passes/3_shard/strategy/strategy_file.h"
#include "passes/7_lower/target.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "tools/compile/check_kernels.h"
#include "tools/cli.h"
#include "tools/compile/expect.h"
#include "tools/compile/print_nests.h"


typedef struct timing {
  const char *pass;
  double ms, verify_ms;
  const char *stats;
  struct timing *next;
} timing;

typedef struct {
  cli *c;
  const char *path;
  bool after_all, after_change, timing;
  msc_pass_options options;
  timing *first, *last; /* one per pass that ran */
  msc_text ir;          /* what goes to stdout */
  size_t num_parts;
  const msc_module *module; /* the last part */
} opt;

/* ---- tables ---- */

static const struct {
  const char *name, *operands, *results, *attrs, *flags, *form, *shape, *rule, *grad;
} ops[] = {
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...) \
  {#name, operands, results, attrs, #flags, #form, #shape, rule, #grad},
#include "ir/op.def"
#undef OP
};

/* "MSC_PURE | MSC_COMMUTES" as "pure | commutes" */
static const char *flag_words(msc_arena *arena, const char *flags) {
  char *text = msc_arena_printf(arena, "%s", flags), *to = text;
  for (const char *p = flags; *p; p++) {
    if (!strncmp(p, "MSC_", 4)) p += 4;
    *to++ = *p >= 'A' && *p <= 'Z' ? (char)(*p + ('a' - 'A')) : *p;
  }
  *to = 0;
  return text;
}

/* Prints {KEY: rows}, frees the rows and closes the output. */
/* Prints a JSON object on one line, and frees it. */
static int print_listing(cli *c, cli_output *out, json_t *listing) {
  char *text = json_dumps(listing, JSON_COMPACT);
  cli_printf(out, "%s\n", text ? text : "{}");
  free(text);
  json_decref(listing);
  return cli_close(c, out);
}

/* The kinds of optimizers that a model can name. */
static json_t *optimizer_kinds(void) {
  json_t *kinds = json_array();
#define OPTIMIZER(kind, ...) json_array_append_new(kinds, json_string(#kind));
#include "passes/2_train/optimizer_kinds.def"
  return kinds;
}

static int list_ops(cli *c) {
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  json_t *rows = json_array();
  if (!c->json) cli_printf(out, "# op (operands) -> (results) {attributes} flags ; sharding rule ; gradient\n");
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    msc_arena *arena = msc_context_arena(c->ctx);
    const char *flags = flag_words(arena, ops[i].flags), *form = flag_words(arena, ops[i].form);
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "name", ops[i].name, "operands",
                        ops[i].operands, "results", ops[i].results, "attributes", ops[i].attrs, "flags", flags, "form",
                        form, "shape", ops[i].shape + strlen("shape_"), "rule", ops[i].rule, "gradient", ops[i].grad));
    if (!c->json)
      cli_printf(out, "%s (%s) -> (%s) {%s} %s ; %s ; %s\n", ops[i].name, ops[i].operands, ops[i].results,
                 ops[i].attrs, flags, ops[i].rule, ops[i].grad);
  }
  if (c->json) return print_listing(c, out, json_pack("{s:o, s:o}", "ops", rows, "optimizers", optimizer_kinds()));
  json_decref(rows);
  return cli_close(c, out);
}

static int list_passes(cli *c) {
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  json_t *rows = json_array();
  for (size_t i = 0; i < msc_num_rows(); i++) {
    const msc_pass_info *p = msc_row(i);
    const msc_target *alone = msc_target_alone(p->targets);
    const char *only = alone ? alone->name : NULL;
    json_array_append_new(rows, json_pack("{s:s, s:s, s:b, s:s?, s:s}", "stage", p->stage, "name", p->name,
                                          "checkpoint", !p->run, "target", only, "what", p->line));
    if (!c->json && !p->run) cli_printf(out, "%-14s -- %-19s %s\n", p->stage, p->name, p->line);
    else if (!c->json)
      cli_printf(out, "%-14s %-22s %s%s%s\n", p->stage, p->name, p->line, only ? "; only for " : "", only ? only : "");
  }
  if (c->json) return print_listing(c, out, json_pack("{s:o}", "passes", rows));
  json_decref(rows);
  return cli_close(c, out);
}

/* The things that a fact may stand on, as words: "op", or "op func". */
static const char *list_holders(msc_arena *arena, unsigned on) {
  static const char *const things[] = {"op", "arg", "func", "module", "member"};
  const char *text = "";
  for (size_t i = 0; i < sizeof things / sizeof *things; i++)
    if (on >> i & 1) text = msc_arena_printf(arena, "%s%s%s", text, *text ? " " : "", things[i]);
  return text;
}

/* "; with by, digits" of a fact that has members, and where the verifier misses the fact: "; on every function behind
 * 7_lower". */
static const char *declarations(msc_arena *arena, const msc_fact_row *r) {
  const msc_fact_row *member;
  const char *text = "", *after, *op;
  size_t at = 0;
  while ((member = msc_fact_member(r, &at)))
    text = msc_arena_printf(arena, "%s%s%s", text, *text ? ", " : "; with ", member->name);
  for (at = 0; (after = msc_fact_need(r, &at, &op));)
    text = msc_arena_printf(arena, "%s; on every %s behind %s", text, op ? op : "function", after);
  return text;
}

static json_t *names_of_members(const msc_fact_row *r) {
  const msc_fact_row *member;
  json_t *names = json_array();
  for (size_t at = 0; (member = msc_fact_member(r, &at));) json_array_append_new(names, json_string(member->name));
  return names;
}

static json_t *needs_of(const msc_fact_row *r) {
  const char *after, *op;
  json_t *needs = json_array();
  for (size_t at = 0; (after = msc_fact_need(r, &at, &op));)
    json_array_append_new(needs, json_pack("{s:s, s:s}", "on", op ? op : "function", "behind", after));
  return needs;
}

static int list_facts(cli *c) {
  cli_output *out = cli_open(c, cli_text(c, "o"));
  if (!out) return CLI_INPUT;
  json_t *all = json_array();
  for (const msc_fact_row *r = msc_fact_rows; r < msc_fact_rows + MSC_NUM_FACTS; r++) {
    const char *on = list_holders(msc_context_arena(c->ctx), r->on), *kind = msc_fact_kind_text(r->kind);
    if (c->json)
      json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", r->name, "on", on,
                                           "kind", kind, "from", r->from, "until", r->until, "meaning", r->meaning,
                                           "members", names_of_members(r), "needs", needs_of(r)));
    else
      cli_printf(out, "%-34s %-9s %-11s %-11s %s: %s%s\n", r->name, on, r->from, r->until, kind, r->meaning,
                 declarations(msc_context_arena(c->ctx), r));
  }
  char *text = c->json ? json_dumps(all, JSON_COMPACT) : NULL;
  if (c->json) cli_printf(out, "%s\n", text ? text : "[]");
  free(text);
  json_decref(all);
  return cli_close(c, out);
}

/* ---- callbacks of the pass driver ---- */

static void print_pass_result(void *user, const msc_pass_report *r) {
  opt *o = user;
  msc_arena *arena = msc_context_arena(o->c->ctx);
  timing *t = msc_new(arena, timing);
  *t = (timing){r->pass->name, (double)r->pass_ns / 1e6, (double)r->verify_ns / 1e6, "", NULL};
  for (const msc_pass_stat *s = r->stats; s; s = s->next)
    t->stats = msc_arena_printf(arena, "%s%s%s %" PRId64, t->stats, *t->stats ? ", " : "", s->what, s->count);
  if (o->last) o->last->next = t;
  else o->first = t;
  o->last = t;
  if (!o->after_all && !(o->after_change && r->changed)) return;
  fprintf(stderr, "// ---- after %s%s ----\n", r->pass->name, r->changed ? "" : ": unchanged");
  if (r->changed) fwrite(r->text, 1, r->bytes, stderr);
}

static void add_remark(msc_context *ctx, const msc_op *op, const char *fmt, ...) MSC_PRINTF(3, 4);
static void add_remark(msc_context *ctx, const msc_op *op, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  msc_verror(ctx, MSC_DIAG_REMARK, MSC_E_NONE, op ? op->loc : NULL, op ? op->name : NULL, fmt, ap);
  va_end(ap);
}

static void report_remark(void *user, const msc_pass_info *pass, const msc_op *op, const char *text) {
  const opt *o = user;
  add_remark(o->c->ctx, op, "%s: %s", pass->name, text);
}

static void keep_case(void *user, const msc_pass_info *pass, const char *line, const char *text, size_t bytes) {
  (void)user, (void)pass;
  cli_keep_reproducer(line, text, bytes);
}

static void write_case(void *user, const msc_pass_info *pass, const char *text, size_t bytes) {
  opt *o = user;
  cli_write_reproducer(o->c, pass->name, text, bytes);
}

/* ---- one module ---- */

static bool run_one_part(opt *o, uint32_t line, const char *text, size_t bytes) {
  cli *c = o->c;
  msc_module *m = msc_parse_part(c->ctx, strcmp(o->path, "-") ? o->path : "<stdin>", line, text, bytes);
  MSC_TRY(m && msc_run_passes(c->ctx, m, &o->options));
  MSC_TRY(o->options.verify < MSC_VERIFY_NUMERICS || check_kernels(c->ctx, m));
  o->module = m;
  if (o->num_parts++) msc_text_write(&o->ir, "// -----\n", 9);
  if (cli_flag(c, "emit-nest")) return print_nests(c->ctx, m, &o->ir);
  msc_print_module(m, msc_text_write, &o->ir);
  return true;
}

static const char *line_end(const char *p, const char *end) {
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  return stop ? stop + 1 : end;
}

static bool is_line(const char *p, const char *end, const char *text) {
  size_t n = strlen(text), have = (size_t)(line_end(p, end) - p);
  return have >= n && !memcmp(p, text, n) && (have == n || p[n] == '\n' || p[n] == '\r');
}

/* Runs each part between lines `// -----`; messages name lines of the whole file. */
static bool run_all_parts(opt *o, const char *text, const char *end) {
  bool ok = true;
  uint32_t line = 1, first_line = 1;
  const char *start = text;
  for (const char *p = text; p < end; p = line_end(p, end), line++) {
    if (!is_line(p, end, "// -----")) continue;
    ok = run_one_part(o, first_line, start, (size_t)(p - start)) && ok;
    start = line_end(p, end);
    first_line = line + 1;
  }
  return run_one_part(o, first_line, start, (size_t)(end - start)) && ok;
}

/* ---- the command ---- */

static int opt_debug_level(void) {
  const char *text = getenv("MSC_DEBUG");
  return text && *text >= '0' && *text <= '9' ? *text - '0' : 0;
}

static bool make_options(opt *o, msc_config *config) {
  cli *c = o->c;
  msc_pass_options *p = &o->options;
  p->passes = cli_text(c, "passes"), p->from = cli_text(c, "from"), p->until = cli_text(c, "until");
  if (p->passes && (p->from || p->until))
    return cli_usage(c, "--passes names all passes; --from and --until cannot be added"), false;
  if (!p->from && !p->until && !p->passes) p->passes = "";
  int64_t verify = cli_int(c, "verify", MSC_VERIFY_IR);
  if (verify < MSC_VERIFY_OFF || verify > MSC_VERIFY_NUMERICS)
    return cli_usage(c, "--verify: levels are %d to %d", MSC_VERIFY_OFF, MSC_VERIFY_NUMERICS), false;
  p->verify = cli_flag(c, "check-numerics") ? MSC_VERIFY_NUMERICS : (int)verify;
  p->config = config;
  if (!cli_cluster(c, &p->cluster)) return false;
  p->dump_dir = cli_text(c, "dump-dir");
  p->want_text = o->after_all || o->after_change;
  p->flags = msc_arena_printf(msc_context_arena(c->ctx), "%s%s",
                              cli_flag(c, "check-numerics") ? "--check-numerics " : "", cli_repeated_flags(c));
  p->user = o;
  p->after = print_pass_result;
  p->before = keep_case;
  p->reproducer = write_case;
  if (cli_flag(c, "verify-diagnostics") || opt_debug_level() >= 3) p->remark = report_remark;
  return !p->dump_dir || cli_make_folder(c, p->dump_dir);
}

static void print_opt_times(const opt *o) {
  double ms = 0, verify_ms = 0;
  fprintf(stderr, "%10s %10s  pass\n", "ms", "verify ms");
  for (const timing *t = o->first; t; t = t->next) {
    fprintf(stderr, "%10.3f %10.3f  %s%s%s\n", t->ms, t->verify_ms, t->pass, *t->stats ? ": " : "", t->stats);
    ms += t->ms, verify_ms += t->verify_ms;
  }
  fprintf(stderr, "%10.3f %10.3f  all\n", ms, verify_ms);
}

static int print_opt_json(opt *o, cli_output *out) {
  json_t *passes = json_array();
  for (const timing *t = o->first; t; t = t->next)
    json_array_append_new(passes, json_pack("{s:s, s:f, s:f, s:s}", "name", t->pass, "ms", t->ms, "verify_ms",
                                            t->verify_ms, "stats", t->stats));
  json_t *all = json_pack("{s:o, s:s#}", "passes", passes, "module", o->ir.text ? o->ir.text : "", (int)o->ir.num);
  char *text = json_dumps(all, JSON_COMPACT);
  cli_printf(out, "%s\n", text ? text : "{}");
  free(text);
  json_decref(all);
  return cli_close(o->c, out);
}

static int write_result(opt *o) {
  cli_output *out = cli_open(o->c, cli_text(o->c, "o"));
  if (!out) return CLI_INPUT;
  if (o->c->json) return print_opt_json(o, out);
  cli_write(out, o->ir.text, o->ir.num);
  return cli_close(o->c, out);
}

/* Writes the file of strategy_ckpt_save_file, as msc compile does, from a module that has layouts. */
static int write_strategies(cli *c, const msc_config *config, const msc_module *m) {
  const char *path = msc_config_text(config, MSC_KEY_strategy_ckpt_save_file);
  const msc_func *f = m ? msc_step_func(m) : NULL;
  if (!path || !f) return CLI_OK;
  const char *text = msc_strategy_file(f, msc_context_arena(c->ctx));
  return cli_write_file(c, path, text, strlen(text));
}

static int run_opt(cli *c) {
  opt o = {.c = c, .ir.arena = msc_context_arena(c->ctx)};
  o.after_all = cli_flag(c, "print-ir-after-all"),
  o.after_change = cli_flag(c, "print-ir-after-change") || opt_debug_level() >= 4;
  o.timing = cli_flag(c, "timing") || opt_debug_level() >= 1;
  if (cli_flag(c, "list-ops")) return list_ops(c);
  if (cli_flag(c, "list-passes")) return list_passes(c);
  if (cli_flag(c, "list-facts")) return list_facts(c);
  if (c->num_operands == 0) return cli_usage(c, "needs FILE.mlir");
  o.path = c->operands[0];
  cli_bytes text;
  msc_config *config = cli_config(c);
  if (!config || !make_options(&o, config)) return msc_num_errors(c->ctx) ? CLI_INPUT : CLI_USAGE;
  if (!cli_read(c, o.path, &text)) return CLI_INPUT;
  if (cli_text(c, "dump-dir") && !cli_may_dump(c, cli_text(c, "dump-dir"))) return CLI_INPUT;
  if (!cli_claim_output(c, cli_text(c, "o")) ||
      !cli_claim_output(c, msc_config_text(config, MSC_KEY_strategy_ckpt_save_file)))
    return CLI_INPUT;
  const char *end = text.data, *all_end = text.data + text.size;
  while (end < all_end && !is_line(end, all_end, "// EXPECT")) end = line_end(end, all_end);
  bool ok = cli_flag(c, "split-input-file") ? run_all_parts(&o, text.data, end)
                                            : run_one_part(&o, 1, text.data, (size_t)(end - text.data));
  if (o.timing) print_opt_times(&o);
  if (cli_flag(c, "verify-diagnostics")) ok = expect_reported(c, o.path, text.data, (size_t)(end - text.data));
  int code = ok ? write_strategies(c, config, o.module) : CLI_INPUT;
  return code == CLI_OK ? write_result(&o) : code;
}

static const cli_option options[] = {
  {"passes", CLI_TEXT, "A,B", "run these passes, in this order"},
  {"from", CLI_TEXT, "NAME", "run the pipeline from this pass, or checkpoint, on"},
  {"until", CLI_TEXT, "NAME", "run the pipeline to this pass or checkpoint"},
  {"split-input-file", CLI_FLAG, NULL, "the file holds several modules, between lines // -----"},
  {"emit-nest", CLI_FLAG, NULL, "print the loop programs of the kernels instead of the IR"},
  {"print-ir-after-all", CLI_FLAG, NULL, "print the IR after every pass to stderr"},
  {"print-ir-after-change", CLI_FLAG, NULL, "the same, only after passes that changed it"},
  {"timing", CLI_FLAG, NULL, "print time and statistics of every pass to stderr"},
  {"verify-diagnostics", CLI_FLAG, NULL, "compare what is reported with comments // expected-error @+1 {{text}}"},
  {"check-numerics", CLI_FLAG, NULL,
   "execute the module before and after every pass and compare, and in the end its kernels (as --verify=3)"},
  {"verify", CLI_INT, "N",
   "after every pass: 0 nothing, 1 the verifier (default), 2 and print and parse, 3 and execute"},
  {"cluster", CLI_TEXT, "FILE|NAME", "description of the devices and links; default cpu"},
  {"dump-dir", CLI_TEXT, "DIR", "write the IR after every pass that changed it into this folder"},
  {"list-ops", CLI_FLAG, NULL, "print the op table"},
  {"list-passes", CLI_FLAG, NULL, "print the passes and checkpoints in pipeline order"},
  {"list-facts", CLI_FLAG, NULL, "print what the user and passes leave for later passes"},
  {"o", CLI_TEXT, "FILE", "write here instead of stdout"},
  {0},
};
const cli_command cmd_opt = {"FILE.mlir", 0, 1, options, run_opt};
