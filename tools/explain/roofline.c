/* roofline.c: calls of a plan, a trace of them and the figures of a machine in; limits, what was reached and what
 * bounds it out (see roofline.h). */
#include "tools/explain/roofline.h"

#include <stdlib.h>
#include <string.h>

#include "passes/cluster.h"
#include "plan_fbs.h"
#include "runtime/mscrt.h"
#include "tools/explain/explain_plan.h"

static const double NEAR = 0.9; /* of the limit */

/* Measured times of one call. */
typedef struct {
  size_t num;
  double *ns;
  int64_t *step;
} samples;

typedef struct {
  cli *c;
  const char *trace; /* or NULL */
  plan_plan root;
  const msc_cluster *cluster;
  int64_t ranks_of_stage, first_step, last_step;
  samples **sample; /* by section and call; with a trace */
} roofline;

static const char *text_or(const char *s, const char *otherwise) { return s ? s : otherwise; }

/* ---- the trace ---- */

/* An event of `msc run --trace`: a call of a section. */
typedef struct {
  int64_t rank, step, call;
  const char *section, *op;
  double ns;
} traced;

static bool refuse_trace(const roofline *r, const char *why) {
  return msc_error(r->c->ctx, MSC_E_FORMAT, cli_loc(r->c, r->trace), "%s", why);
}

static bool read_event(const roofline *r, const json_t *event, traced *out) {
  const json_t *args = json_object_get(event, "args"), *call = json_object_get(args, "call"),
               *step = json_object_get(args, "step"), *rank = json_object_get(event, "pid");
  *out = (traced){.rank = json_integer_value(rank),
                  .step = json_integer_value(step),
                  .call = json_integer_value(call),
                  .section = json_string_value(json_object_get(args, "section")),
                  .op = json_string_value(json_object_get(event, "name")),
                  .ns = json_number_value(json_object_get(event, "dur")) * 1e3};
  return out->section && out->op && json_is_integer(call) && json_is_integer(step) && json_is_integer(rank) &&
                 out->rank >= 0 && out->ns >= 0 && out->ns < 1e18
             ? true
             : refuse_trace(r, "an event is no call as `msc run --trace` writes it");
}

/* Returns the measured times of the call of an event; NULL: the plan has no such call. */
static samples *find_samples(const roofline *r, const traced *t) {
  for (uint32_t s = 0; s < plan_plan_sections_num(r->root); s++) {
    plan_section section = plan_plan_sections(r->root, s);
    if (strcmp(text_or(plan_section_name(section), ""), t->section) != 0 ||
        (int64_t)plan_section_stage(section) != t->rank / r->ranks_of_stage)
      continue;
    if (t->call < 0 || t->call >= plan_section_calls_num(section)) return NULL;
    plan_call c = plan_section_calls(section, (uint32_t)t->call);
    return strcmp(text_or(plan_call_name(c), t->section), t->op) ? NULL : &r->sample[s][t->call];
  }
  return NULL;
}

static bool note_event(roofline *r, const json_t *event) {
  traced t;
  MSC_TRY(read_event(r, event, &t));
  samples *m = find_samples(r, &t);
  if (!m) return refuse_trace(r, "the trace is of another plan");
  msc_arena *a = msc_context_arena(r->c->ctx);
  msc_grow(a, m->ns, m->num);
  msc_grow(a, m->step, m->num);
  m->ns[m->num] = t.ns, m->step[m->num++] = t.step;
  if (t.step < r->first_step) r->first_step = t.step;
  if (t.step > r->last_step) r->last_step = t.step;
  return true;
}

static bool note_events(roofline *r, const json_t *events) {
  const json_t *e;
  size_t i;
  if (!json_is_array(events)) return refuse_trace(r, "a trace has an array 'traceEvents'");
  json_array_foreach(events, i, e) {
    const char *cat = json_string_value(json_object_get(e, "cat"));
    if (cat && (!strcmp(cat, "call") || !strcmp(cat, "collective"))) MSC_TRY(note_event(r, e));
  }
  return r->last_step >= r->first_step || refuse_trace(r, "the trace has no calls");
}

static bool read_trace(roofline *r) {
  cli_bytes file;
  json_error_t why;
  msc_arena *a = msc_context_arena(r->c->ctx);
  r->first_step = INT64_MAX, r->last_step = INT64_MIN;
  r->sample = msc_new_array(a, samples *, plan_plan_sections_num(r->root));
  for (uint32_t s = 0; s < plan_plan_sections_num(r->root); s++)
    r->sample[s] = msc_new_array(a, samples, plan_section_calls_num(plan_plan_sections(r->root, s)));
  MSC_TRY(cli_read(r->c, r->trace, &file));
  json_t *root = json_loadb((const char *)file.data, file.size, 0, &why);
  if (!root) return refuse_trace(r, msc_arena_printf(a, "a trace is JSON: %s, line %d", why.text, why.line));
  bool ok = note_events(r, json_object_get(root, "traceEvents"));
  json_decref(root);
  return ok;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* The median, without the first step unless it is the only one; -1: nothing was measured. */
static double median_ns(const roofline *r, const samples *m) {
  double *ns = msc_new_array(msc_context_arena(r->c->ctx), double, m->num + 1);
  size_t num = 0;
  for (size_t i = 0; i < m->num; i++)
    if (m->step[i] > r->first_step || r->first_step == r->last_step) ns[num++] = m->ns[i];
  if (!num) return -1;
  qsort(ns, num, sizeof *ns, by_size);
  return num % 2 ? ns[num / 2] : (ns[num / 2 - 1] + ns[num / 2]) / 2;
}

/* ---- limits ---- */

static const char *const kinds[] = {
    [PLAN_CALL_KIND_KERNEL] = "kernel",         [PLAN_CALL_KIND_MATMUL] = "product",
    [PLAN_CALL_KIND_COLLECTIVE] = "collective", [PLAN_CALL_KIND_MESSAGE] = "message",
    [PLAN_CALL_KIND_GRAPH] = "graph",           [PLAN_CALL_KIND_TRANSFER] = "transfer",
    [PLAN_CALL_KIND_ADMIT] = "admit",           [PLAN_CALL_KIND_HOST_KERNEL] = "host kernel",
};

typedef struct {
  double bytes, flops, limit_ns;
  const char *bound;
} least;

/* Returns the bytes and operations of a call, and the least time that the machine needs for them.  For links it is the
 * time that the plan predicts. */
static least least_of_call(const roofline *r, plan_call c) {
  uint8_t kind = plan_call_kind(c);
  msc_dtype dtype = (msc_dtype)plan_call_dtype(c);
  least l = {(double)plan_call_bytes(c), (double)plan_call_flops(c), 0, "links"};
  bool swaps = kind == PLAN_CALL_KIND_ADMIT &&
               plan_call_buffers(c, plan_call_buffers_num(c) - 1).space == PLAN_SPACE_HOST; /* beside a GPU */
  if (kind == PLAN_CALL_KIND_COLLECTIVE || kind == PLAN_CALL_KIND_MESSAGE || kind == PLAN_CALL_KIND_TRANSFER ||
      kind == PLAN_CALL_KIND_HOST_KERNEL || swaps) {
    l.limit_ns = (double)plan_call_predicted_ns(c);
    return l;
  }
  if (has_plan_call_epilogue(c)) {
    l.bytes += (double)plan_call_bytes(plan_call_epilogue(c));
    l.flops += (double)plan_call_flops(plan_call_epilogue(c));
  }
  double arithmetic = l.flops * 1e9 / r->cluster->flops_per_s[dtype], memory = l.bytes * 1e9 / r->cluster->bytes_per_s,
         launch = (double)r->cluster->launch_ns;
  l.limit_ns = memory > arithmetic ? memory : arithmetic;
  l.bound = memory > arithmetic ? "memory" : "arithmetic";
  if (launch > l.limit_ns) l.limit_ns = launch, l.bound = "launch";
  return l;
}

/* How often a step runs the section: entries of its stage in the first program. */
static int64_t uses_of_section(const roofline *r, uint32_t section) {
  if (!plan_plan_programs_num(r->root)) return section == 0;
  plan_program p = plan_plan_programs(r->root, 0);
  uint32_t stage = plan_section_stage(plan_plan_sections(r->root, section));
  int64_t uses = 0;
  if (stage >= plan_program_stages_num(p)) return section == 0;
  plan_lane lane = plan_program_stages(p, stage);
  for (uint32_t i = 0; i < plan_lane_entries_num(lane); i++) uses += plan_lane_entries(lane, i).section == section;
  return uses;
}

static void add_call(const roofline *r, uint32_t section, uint32_t call, int64_t times, json_t *calls, json_t *slow) {
  plan_section s = plan_plan_sections(r->root, section);
  plan_call c = plan_section_calls(s, call);
  uint8_t kind = plan_call_kind(c);
  least l = least_of_call(r, c);
  double measured = r->sample ? median_ns(r, &r->sample[section][call]) : -1;
  json_t *j = json_pack("{s:s, s:i, s:s, s:s, s:I, s:f, s:f, s:s, s:f, s:f}", "section",
                        text_or(plan_section_name(s), ""), "call", (int)call, "op", text_or(plan_call_name(c), ""),
                        "kind", kind < sizeof kinds / sizeof *kinds && kinds[kind] ? kinds[kind] : "call", "times",
                        (json_int_t)times, "bytes", l.bytes, "flops", l.flops, "bound", l.bound, "limit_ns", l.limit_ns,
                        "predicted_ns", (double)plan_call_predicted_ns(c));
  if (measured >= 0) json_object_set_new(j, "measured_ns", json_real(measured));
  if (measured >= 0 && !strcmp(l.bound, "memory") && l.limit_ns < NEAR * measured)
    json_array_append_new(slow, json_integer((json_int_t)json_array_size(calls)));
  json_array_append_new(calls, j);
}

json_t *cli_roofline(cli *c, const char *plan, const char *trace, const msc_cluster *cluster) {
  roofline r = {.c = c, .trace = trace, .cluster = cluster, .ranks_of_stage = 1};
  const cli_plan *read = cli_read_plan(c, plan, false);
  if (!read) return NULL;
  r.root = plan_plan_root(read->data);
  if (!cluster && !(r.cluster = cli_cluster_of_plan(c, plan, read->data))) return NULL;
  for (uint32_t i = plan_plan_stages_num(r.root) > 1; i < plan_plan_mesh_num(r.root); i++)
    r.ranks_of_stage *= plan_axis_size(plan_plan_mesh(r.root, i));
  if (trace && !read_trace(&r)) return NULL;
  json_t *calls = json_array(), *slow = json_array();
  for (uint32_t s = 0; s < plan_plan_sections_num(r.root); s++) {
    int64_t times = uses_of_section(&r, s);
    for (uint32_t i = 0; times && i < plan_section_calls_num(plan_plan_sections(r.root, s)); i++)
      add_call(&r, s, i, times, calls, slow);
  }
  return json_pack("{s:s, s:f, s:f, s:o, s:o}", "device", r.cluster->device, "flops_per_s",
                   r.cluster->flops_per_s[MSC_F32], "bytes_per_s", r.cluster->bytes_per_s, "calls", calls, "slow",
                   slow);
}

/* ---- for people ---- */

/* Calls of layers that are alike: their sums over a step. */
typedef struct {
  const char *op, *bound;
  int64_t num;
  double bytes, flops, limit_ns, predicted_ns, measured_ns; /* measured: of those that were; -1: none was */
} alike;

static double read_member(const json_t *call, const char *key) { return json_number_value(json_object_get(call, key)); }

static void add_alike(cli *c, json_t *index, alike *row, size_t *num, const json_t *call) {
  const char *op = json_string_value(json_object_get(call, "op")),
             *bound = json_string_value(json_object_get(call, "bound"));
  double times = read_member(call, "times");
  const json_t *measured = json_object_get(call, "measured_ns");
  const char *key = msc_arena_printf(msc_context_arena(c->ctx), "%s %s %.0f %.0f %s", cli_name_of_alike(c, op),
                                     json_string_value(json_object_get(call, "kind")), read_member(call, "bytes"),
                                     read_member(call, "flops"), bound);
  const json_t *known = json_object_get(index, key);
  size_t at = known ? (size_t)json_integer_value(known) : *num;
  if (!known) {
    json_object_set_new(index, key, json_integer((json_int_t)at));
    row[(*num)++] = (alike){.op = op, .bound = bound, .measured_ns = -1};
  }
  alike *r = &row[at];
  r->num += (int64_t)times;
  r->bytes += times * read_member(call, "bytes"), r->flops += times * read_member(call, "flops");
  r->limit_ns += times * read_member(call, "limit_ns"), r->predicted_ns += times * read_member(call, "predicted_ns");
  if (measured) r->measured_ns = (r->measured_ns < 0 ? 0 : r->measured_ns) + times * json_number_value(measured);
}

static int longest_first(const void *a, const void *b) {
  const alike *x = a, *y = b;
  double p = x->measured_ns >= 0 ? x->measured_ns : x->limit_ns, q = y->measured_ns >= 0 ? y->measured_ns : y->limit_ns;
  return p > q ? -1 : p < q ? 1 : strcmp(x->op, y->op);
}

static bool is_slow(const alike *r) {
  return r->measured_ns >= 0 && !strcmp(r->bound, "memory") && r->limit_ns < NEAR * r->measured_ns;
}

static void print_roofline_row(cli_output *out, const alike *r) {
  char name[32] = "", measured[32] = "        -      -";
  if (r->num > 1) snprintf(name, sizeof name, " x %lld", (long long)r->num);
  if (r->measured_ns >= 0)
    snprintf(measured, sizeof measured, "%9.3f %5.0f%%", r->measured_ns / 1e6,
             r->measured_ns > 0 ? 100 * r->limit_ns / r->measured_ns : 100);
  cli_printf(out, "%9.3f %9.3f %s %10.3f %10.3f  %-10s %s%s\n", r->limit_ns / 1e6, r->predicted_ns / 1e6, measured,
             r->bytes / 1e6, r->flops / 1e6, r->bound, r->op, name);
}

void cli_print_roofline(cli *c, cli_output *out, const json_t *told) {
  const json_t *calls = json_object_get(told, "calls"), *call;
  alike *row = msc_new_array(msc_context_arena(c->ctx), alike, json_array_size(calls) + 1),
        all = {.op = "all", .bound = "", .measured_ns = -1};
  json_t *index = json_object();
  size_t num = 0, i;
  json_array_foreach(calls, i, call) add_alike(c, index, row, &num, call);
  json_decref(index);
  qsort(row, num, sizeof *row, longest_first);
  cli_printf(out, "%s: %.1f GFLOP/s in f32, %.1f GB/s\n", json_string_value(json_object_get(told, "device")),
             read_member(told, "flops_per_s") / 1e9, read_member(told, "bytes_per_s") / 1e9);
  cli_printf(out, " limit ms predicted  measured of it         MB      MFLOP  bound by   op\n");
  for (i = 0; i < num; i++) {
    print_roofline_row(out, &row[i]);
    all.num = 1, all.bytes += row[i].bytes, all.flops += row[i].flops;
    all.limit_ns += row[i].limit_ns, all.predicted_ns += row[i].predicted_ns;
    if (row[i].measured_ns >= 0) all.measured_ns = (all.measured_ns < 0 ? 0 : all.measured_ns) + row[i].measured_ns;
  }
  print_roofline_row(out, &all);
  for (i = 0; i < num; i++)
    if (is_slow(&row[i]))
      cli_printf(out, "below %.0f%% of memory's speed: %s, %.1f GB/s, %.3f ms of a step\n", 100 * NEAR, row[i].op,
                 row[i].bytes / row[i].measured_ns, row[i].measured_ns / 1e6);
}
