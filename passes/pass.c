/* pass.c: a module and the names of passes in; the module rewritten, verified after each pass.  Times, texts and
 * reproducers go to the caller's functions: nothing is printed here. */
#include "passes/pass.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ir/abi/clock.h"
#include "ir/fact.h"
#include "ir/interp/interp.h"
#include "ir/table.h"
#include "passes/7_lower/target.h"
#include "passes/check.h"
#include "passes/config/config.h"

static const msc_pass_info rows[] = {
#define PASS(stage, name, target, line) {#stage, #name, line, MSC_ON_##target, pass_##name, 0},
#define CHECKPOINT(stage, name, line) {#stage, #name, line, 0, NULL, MSC_AT_##name},
#include "passes/pass.def"
#undef PASS
#undef CHECKPOINT
};
enum { NUM_ROWS = sizeof rows / sizeof *rows };

size_t msc_num_rows(void) { return NUM_ROWS; }
const msc_pass_info *msc_row(size_t i) { return &rows[i]; }

static const msc_pass_info *find_pass_row(const char *name) {
  for (size_t i = 0; i < NUM_ROWS; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

const msc_pass_info *msc_find_pass(const char *name) {
  const msc_pass_info *row = find_pass_row(name);
  return row && row->run ? row : NULL;
}

const msc_cluster *msc_pass_cluster(const msc_pass_ctx *pass) {
  return pass->options && pass->options->cluster ? pass->options->cluster : msc_cluster_named(pass->ctx, "cpu");
}

int64_t msc_memory_limit(const msc_config *config, const msc_cluster *cluster) {
  int64_t limit = config ? msc_config_int(config, MSC_KEY_memory_limit) : -1;
  return limit < 0 ? cluster->memory_bytes : limit;
}

int64_t msc_copies_of(const msc_pass_ctx *pass, const msc_module *m) {
  int64_t told = pass->config ? msc_config_int(pass->config, MSC_KEY_micro_batch_interleaved) : 1;
  return msc_fact_read(m, msc_copies, told > 0 ? told : 1);
}

void msc_stat(msc_pass_ctx *pass, const char *what, int64_t count) {
  for (msc_pass_stat *s = pass->stats; s; s = s->next)
    if (!strcmp(s->what, what)) {
      s->count += count;
      return;
    }
  msc_pass_stat *s = msc_new(pass->scratch, msc_pass_stat);
  *s = (msc_pass_stat){what, count, NULL};
  if (pass->last_stat) pass->last_stat->next = s;
  else pass->stats = s;
  pass->last_stat = s;
}

void msc_remark(msc_pass_ctx *pass, const msc_op *op, const char *fmt, ...) {
  if (!pass->options->remark) return;
  va_list ap;
  va_start(ap, fmt);
  char text[1024];
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  pass->options->remark(pass->options->user, pass->info, op, text);
}

/* ---- what passes keep ---- */

typedef struct {
  const void *key;
  void *what;
} kept;

struct msc_pass_memory {
  MSC_TABLE(kept) all;
};

msc_pass_memory *msc_pass_memory_new(msc_arena *arena) {
  msc_pass_memory *memory = msc_new(arena, msc_pass_memory);
  memory->all.index.arena = arena;
  return memory;
}

msc_arena *msc_pass_memory_arena(const msc_pass_memory *memory) { return memory->all.index.arena; }

void **msc_kept_at(msc_pass_memory *memory, const void *key) { return &msc_table_at(&memory->all, &key)->what; }

/* ---- which passes ---- */

/* Returns `found`; reports the unknown name where that is NULL. */
static const msc_pass_info *check_found(msc_context *ctx, const msc_pass_info *found, const char *name) {
  if (found) return found;
  const char *words[NUM_ROWS];
  for (size_t i = 0; i < NUM_ROWS; i++) words[i] = rows[i].name;
  const char *near = msc_nearest(name, words, NUM_ROWS);
  if (near) msc_error(ctx, MSC_E_CONFIG, NULL, "unknown pass '%s'; did you mean '%s'?", name, near);
  else msc_error(ctx, MSC_E_CONFIG, NULL, "unknown pass '%s'", name);
  return NULL;
}

typedef struct {
  size_t num;
  const msc_pass_info **row;
  int passes_before; /* of pass.def, in front of the first */
} row_list;

/* Lists the passes of "dce,cse". */
static bool list_names(msc_context *ctx, msc_arena *arena, const char *names, row_list *out) {
  bool ok = true;
  out->row = msc_new_array(arena, const msc_pass_info *, strlen(names) / 2 + 1);
  for (const char *p = names; *p;) {
    size_t n = strcspn(p, ",");
    const char *name = msc_arena_printf(arena, "%.*s", (int)n, p);
    const msc_pass_info *pass = check_found(ctx, msc_find_pass(name), name);
    if (pass) out->row[out->num++] = pass;
    else ok = false;
    p += n;
    if (*p == ',') p++;
  }
  return ok;
}

static void list_range(msc_arena *arena, const msc_pass_info *first, const msc_pass_info *last, row_list *out) {
  out->row = msc_new_array(arena, const msc_pass_info *, NUM_ROWS);
  for (const msc_pass_info *row = first; row <= last; row++) out->row[out->num++] = row;
}

/* Lists the rows that the options select. */
static bool list_rows(msc_context *ctx, msc_arena *arena, const msc_pass_options *o, row_list *out) {
  if (o->passes) return list_names(ctx, arena, o->passes, out);
  const msc_pass_info *first = o->from ? check_found(ctx, find_pass_row(o->from), o->from) : rows;
  const msc_pass_info *last = o->until ? check_found(ctx, find_pass_row(o->until), o->until) : rows + NUM_ROWS - 1;
  if (!first || !last) return false;
  if (first > last)
    return msc_error(ctx, MSC_E_CONFIG, NULL, "pass '%s' comes after '%s'", first->name, last->name);
  list_range(arena, first, last, out);
  return true;
}

static const msc_pass_info *row_of_checkpoint(msc_checkpoint at) {
  const msc_pass_info *row = rows;
  while (row->run || row->at != at) row++;
  return row;
}

/* ---- one run ---- */

typedef struct {
  msc_context *ctx;
  msc_module *m;
  const msc_pass_options *options;
  row_list list;
  size_t at;               /* the current row */
  bool wants_text;         /* of every pass */
  bool wants_case;         /* for a reproducer */
  /* Text before and after the current pass, each in its arena; they change places after each pass.  NULL when
   * nobody wants it. */
  msc_arena *arena[2];
  const char *text[2];
  size_t bytes[2];
  uint64_t verify_ns; /* of the module as it was given, and of texts for a reproducer: the next pass reports them */
  bool unchecked;     /* passes have changed the module since it was last verified */
} pass_run;

static void print_module_text(pass_run *r, int side) {
  r->text[side] = NULL;
  r->bytes[side] = 0;
  if (r->arena[side]) msc_arena_free(r->arena[side]);
  r->arena[side] = msc_arena_new(r->ctx);
  r->text[side] = msc_print_text(r->m, r->arena[side], &r->bytes[side]);
}

static const char *dump_path(const pass_run *r, int number, const char *name, int side) {
  return msc_arena_printf(r->arena[side], "%s/%03d-%s.mlir", r->options->dump_dir, number, name);
}

static bool dump_text(pass_run *r, int number, const char *name, int side) {
  const char *path = dump_path(r, number, name, side);
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(r->text[side], 1, r->bytes[side], f) == r->bytes[side];
  int saved = errno;
  if (f && fclose(f) && ok) ok = false, saved = errno;
  if (f && !ok) unlink(path);
  return ok || msc_write_error(r->ctx, NULL, saved, "%s", path);
}

/* Prints the module and parses it: a difference is a bug of the printer, the parser or the pass. */
static bool check_text_round_trip(pass_run *r, msc_arena *scratch) {
  size_t bytes;
  const char *text = msc_print_text(r->m, scratch, &bytes);
  msc_module *again = msc_parse(r->ctx, "printed", text, bytes);
  if (!again) return false;
  const char *why = msc_find_difference(r->m, again, scratch);
  return !why || msc_error(r->ctx, MSC_E_INTERNAL, NULL, "print and parse change the module: %s", why);
}

/* Executes the module as it was before the pass and as the pass left it, and compares the results. */
static bool compare_numbers(pass_run *r) {
  const int64_t most = 50000000; /* scalar operations: about a second */
  bool small = true;
  msc_module *before = msc_parse(r->ctx, "before", r->text[0], r->bytes[0]);
  if (!before) return false;
  for (msc_func *f = r->m->first; f; f = f->next) small = small && msc_interpret_work(f) <= most;
  if (small) return msc_check_numerics(before, r->m, 1, 1e-5);
  msc_warning(r->ctx, MSC_E_NONE, NULL, "not executed: more than %" PRId64 " operations", most);
  return true;
}

/* Is it the last pass of its stage that runs for the target with this bit? */
static bool ends_stage(const msc_pass_info *info, unsigned target) {
  const msc_pass_info *next = info + 1, *end = rows + sizeof rows / sizeof *rows;
  while (next < end && !(next->targets & target)) next++; /* a checkpoint has none */
  return next == end || strcmp(next->stage, info->stage) != 0;
}

/* True if the passes that run include the first one of the stage, so that all it leaves must be there. */
static bool runs_whole_stage(const pass_run *r, const msc_pass_info *last) {
  const msc_pass_info *first = last;
  while (first > rows && !strcmp(first[-1].stage, last->stage)) first--;
  return r->list.row[0] <= first;
}

bool msc_is_large(const msc_module *m) {
  const int many = 1000;
  int num = 0;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op && num < many; op = op->next) num++;
  return num >= many;
}

/* True if no other pass of this one's stage follows in the run. */
static bool is_last_of_stage(const pass_run *r, const msc_pass_info *info) {
  unsigned bit = msc_target_of(r->m)->bit;
  for (size_t i = r->at + 1; i < r->list.num && !strcmp(r->list.row[i]->stage, info->stage); i++)
    if (r->list.row[i]->targets & bit) return false;
  return true;
}

/* Must the module be verified now? A large one only where a stage ends: verifying it takes longer than most passes. */
static bool is_time_to_check(const pass_run *r, const msc_pass_info *info) {
  return r->options->verify > MSC_VERIFY_IR || is_last_of_stage(r, info) || !msc_is_large(r->m);
}

static bool verify_after(pass_run *r, const msc_pass_ctx *pass) {
  int level = r->options->verify;
  bool whole = !r->options->passes || !*r->options->passes; /* a list may leave out who takes a fact away */
  if (level >= MSC_VERIFY_IR && whole && ends_stage(pass->info, msc_target_of(r->m)->bit)) {
    MSC_TRY(msc_check_outlived(r->m, pass->info->stage));
    MSC_TRY(!runs_whole_stage(r, pass->info) || msc_check_missing(r->m, pass->info->stage));
  }
  r->unchecked |= !pass->unchanged;
  if (level <= MSC_VERIFY_IR && (!r->unchecked || !is_time_to_check(r, pass->info))) return true;
  r->unchecked = false;
  if (level >= MSC_VERIFY_IR) MSC_TRY(msc_check_module(r->m));
  if (level >= MSC_VERIFY_TEXT) MSC_TRY(check_text_round_trip(r, pass->scratch));
  return level < MSC_VERIFY_NUMERICS || pass->changes_meaning || compare_numbers(r);
}

static bool has_internal_error(const msc_diag *d) {
  for (; d; d = d->next)
    if (d->severity == MSC_DIAG_ERROR && d->code == MSC_E_INTERNAL) return true;
  return false;
}

/* The first line of a reproducer of this pass. */
static const char *make_run_line(const pass_run *r, msc_pass_ctx *pass) {
  const char *flags = r->options->flags ? r->options->flags : "";
  return msc_arena_printf(pass->scratch, "// RUN: msc opt --passes=%s%s%s %%s\n", pass->info->name, *flags ? " " : "",
                          flags);
}

static bool report_bug(pass_run *r, msc_pass_ctx *pass, const char *what) {
  const char *name = pass->info->name;
  msc_error(r->ctx, MSC_E_INTERNAL, NULL, "pass '%s' %s", name, what);
  if (r->options->reproducer) {
    const char *text = r->text[0] ? msc_arena_printf(pass->scratch, "%s%s", make_run_line(r, pass), r->text[0]) : NULL;
    r->options->reproducer(r->options->user, pass->info, text, text ? strlen(text) : 0);
  }
  return false;
}

/* The text after this pass becomes the text before the next one. */
static void swap_texts(pass_run *r) {
  msc_arena *arena = r->arena[0];
  r->arena[0] = r->arena[1], r->text[0] = r->text[1], r->bytes[0] = r->bytes[1];
  r->arena[1] = arena;
  r->text[1] = NULL;
}

/* Prints the module if its text is needed.  No text is kept for a reproducer of a large module, since printing it takes
 * longer than most passes: there the user's own command is the test case. */
static void print_case(pass_run *r, int side) {
  const size_t much = 1 << 20;
  if (!r->wants_text && (!r->wants_case || msc_is_large(r->m))) return;
  uint64_t begin = msc_clock_ns();
  print_module_text(r, side);
  r->verify_ns += msc_clock_ns() - begin;
  r->wants_case = r->wants_case && r->bytes[side] < much;
}

/* Writes what a pass left, if that is something new.  If not, there is no file either, which the same pass may have
 * left in an earlier run of this command, over a plan that did not fit. */
static bool dump_pass(pass_run *r, int number, const char *name, bool changed) {
  if (changed) return dump_text(r, number, name, 1);
  remove(dump_path(r, number, name, 1));
  return true;
}

static bool report_pass(pass_run *r, msc_pass_ctx *pass, msc_pass_report *report) {
  if (r->wants_text || r->at + 1 < r->list.num) print_case(r, 1);
  if (r->wants_text) {
    report->text = r->text[1];
    report->bytes = r->bytes[1];
    report->changed = r->bytes[0] != r->bytes[1] || memcmp(r->text[0], r->text[1], r->bytes[0]) != 0;
  }
  if (r->options->dump_dir) MSC_TRY(dump_pass(r, report->number, pass->info->name, report->changed));
  if (r->options->after) r->options->after(r->options->user, report);
  swap_texts(r);
  return true;
}

static bool run_one_pass(pass_run *r, const msc_pass_info *info, int number) {
  if (!(info->targets & msc_target_of(r->m)->bit)) return true;
  msc_pass_ctx pass = {.ctx = r->ctx,
                       .scratch = msc_arena_new(r->ctx),
                       .config = r->options->config,
                       .options = r->options,
                       .info = info};
  msc_pass_report done = {.pass = info, .number = number, .module = r->m, .is_trial = r->options->is_trial};
  int errors = msc_num_errors(r->ctx);
  if (r->options->before && r->text[0])
    r->options->before(r->options->user, info, make_run_line(r, &pass), r->text[0], r->bytes[0]);
  uint64_t start = msc_clock_ns();
  bool ok = info->run(&pass, r->m);
  uint64_t mid = msc_clock_ns();
  if (ok && msc_num_errors(r->ctx) > errors) ok = report_bug(r, &pass, "reported an error but went on");
  else if (!ok && (msc_num_errors(r->ctx) == errors || has_internal_error(msc_diags(r->ctx))))
    ok = report_bug(r, &pass, "failed");
  else if (ok && !verify_after(r, &pass))
    ok = report_bug(r, &pass, msc_is_large(r->m) ? "or one before it in its stage left a module that does not verify"
                                             : "left a module that does not verify or gives other numbers");
  done.pass_ns = mid - start;
  done.verify_ns = msc_clock_ns() - mid + r->verify_ns;
  r->verify_ns = 0;
  done.stats = pass.stats;
  if (ok) ok = report_pass(r, &pass, &done);
  if (r->options->before) r->options->before(r->options->user, info, NULL, NULL, 0);
  msc_arena_free(pass.scratch);
  return ok;
}

/* Calls the driver at a checkpoint.  It may change the module, so the text before the next pass is made anew. */
static bool call_driver_at(pass_run *r, msc_checkpoint at) {
  if (!r->options->at) return true;
  MSC_TRY(r->options->at(r->options->at_user, r->m, at));
  if (r->at + 1 < r->list.num) print_case(r, 0);
  return true;
}

static bool run_rows(msc_context *ctx, msc_module *m, const msc_pass_options *options, const row_list *list) {
  pass_run r = {.ctx = ctx, .m = m, .options = options, .list = *list};
  int number = list->passes_before;
  r.wants_text = options->want_text || options->dump_dir || options->verify >= MSC_VERIFY_NUMERICS;
  r.wants_case = options->before || options->reproducer;
  uint64_t begin = msc_clock_ns();
  bool ok = options->verify < MSC_VERIFY_IR || msc_check_module(m);
  r.verify_ns = msc_clock_ns() - begin;
  if (ok) print_case(&r, 0);
  if (ok && options->dump_dir && !number) ok = dump_text(&r, 0, "input", 0);
  for (; ok && r.at < r.list.num; r.at++) {
    const msc_pass_info *row = r.list.row[r.at];
    ok = row->run ? run_one_pass(&r, row, ++number) : call_driver_at(&r, row->at);
  }
  for (int side = 0; side < 2; side++)
    if (r.arena[side]) msc_arena_free(r.arena[side]);
  return ok;
}

bool msc_run_passes(msc_context *ctx, msc_module *m, const msc_pass_options *options) {
  msc_arena *arena = msc_arena_new(ctx);
  row_list list = {0};
  bool ok = list_rows(ctx, arena, options, &list) && run_rows(ctx, m, options, &list);
  msc_arena_free(arena);
  return ok;
}

bool msc_run_stretch(msc_context *ctx, msc_module *m, const msc_pass_options *options, msc_checkpoint from,
                     msc_checkpoint until) {
  msc_arena *arena = msc_arena_new(ctx);
  row_list list = {0};
  const msc_pass_info *first = row_of_checkpoint(from) + 1;
  list_range(arena, first, row_of_checkpoint(until), &list);
  for (const msc_pass_info *row = rows; row < first; row++) list.passes_before += row->run != NULL;
  bool ok = run_rows(ctx, m, options, &list);
  msc_arena_free(arena);
  return ok;
}
