/* cmd_schedule.c: a kind of pipeline schedule and times in; its order, idle share and memory out, as a chart or as
 * JSON; with a transformer's sizes, memory in bytes too.  Or layers in, and which of them each stage should hold; or a
 * chain of steps and checkpoints in, and what is computed again when. */
#include <math.h>

#include "passes/6_pipeline/schedule/schedule.h"
#include "tools/cli.h"
#include "tools/solve/schedule_chain.h"
#include "tools/solve/schedule_layers.h"
#include "tools/solve/schedule_transformer.h"

/* Times are whole ticks inside, so that sums are exact; a tick is a power of ten of the user's unit, or that
 * over the chunks. */
typedef struct {
  msc_schedule_options o;
  double forward, backward, weight, hop; /* of one stage and micro-batch, as given */
  double ticks;                          /* in one unit of time */
  double mem_w, limit;                   /* R and L */
  schedule_transformer model;
} request;

/* what the activations of one micro-batch on one stage count as; the chunks share them */
static const double BYTES = 1e12;

/* ---- reading ---- */

static bool read_count(cli *c, const char *option, int64_t absent, int64_t most, int *out) {
  int64_t n = cli_int(c, option + 2, absent);
  if (n < 1 || n > most)
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "from 1 to %" PRId64 ", not %" PRId64, most, n);
  *out = (int)n;
  return true;
}

static bool read_time(cli *c, const char *option, double absent, double *out) {
  *out = cli_number(c, option + 2, absent);
  return (*out >= 0 && *out <= 1e100) ||
         msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "a time is from 0 to 1e100, not %g", *out);
}

static bool read_memory(cli *c, request *q) {
  q->mem_w = cli_number(c, "mem-w", 1);
  q->limit = cli_number(c, "memory-limit", q->o.stages);
  bool ok = (q->mem_w >= 0 && q->mem_w <= 1) ||
            msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--mem-w"),
                      "the part of the activations that W needs is from 0 to 1, not %g", q->mem_w);
  return (q->limit >= 1 && ok) || (ok && msc_error(c->ctx, MSC_E_INFEASIBLE, cli_loc(c, "--memory-limit"),
                                                   "%g: one micro-batch on a stage takes 1", q->limit));
}

/* The ticks in a unit of time: the most, as a power of ten, with which no sum exceeds 2^53. */
static double ticks_per_unit(const request *q) {
  double sum = 2 * q->o.micro_batches * (q->forward + q->backward + q->weight) +
               2.0 * q->o.chunks * (q->o.stages + q->o.micro_batches) * q->hop;
  sum += 2.0 * q->o.stages * (q->forward + q->backward + q->weight);
  return sum > 1e-250 ? pow(10, floor(15 - log10(sum * q->o.chunks))) * q->o.chunks : q->o.chunks;
}

static void fill_costs(cli *c, request *q) {
  int num = q->o.stages * q->o.chunks;
  double part = q->ticks / q->o.chunks, bytes = BYTES / q->o.chunks, most = 2.0 * q->o.micro_batches + 1;
  msc_section_cost *cost = msc_new_array(msc_context_arena(c->ctx), msc_section_cost, num);
  int64_t *limit = msc_new_array(msc_context_arena(c->ctx), int64_t, q->o.stages);
  for (int k = 0; k < num; k++)
    cost[k] = (msc_section_cost){llround(q->forward * part),
                                 llround(q->backward * part),
                                 llround(q->weight * part),
                                 llround(q->hop * q->ticks),
                                 llround(bytes),
                                 llround(q->mem_w * bytes)};
  for (int i = 0; i < q->o.stages; i++) limit[i] = llround((q->limit < most ? q->limit : most) * BYTES);
  q->o.cost = cost, q->o.limit = limit;
}

/* Reads the kind and the counts, which every form of the command takes. */
static bool read_sizes_of(cli *c, request *q) {
  *q = (request){.o.kind = MSC_SCHEDULE_1F1B};
  if (cli_text(c, "kind")) msc_schedule_of_name(cli_text(c, "kind"), &q->o.kind);
  bool ok = read_count(c, "--stages", 0, MSC_MAX_STAGES, &q->o.stages);
  ok = read_count(c, "--micro-batches", 0, MSC_MAX_ENTRIES, &q->o.micro_batches) && ok;
  return read_count(c, "--chunks", 1, MSC_MAX_CHUNKS, &q->o.chunks) && ok;
}

static bool read_schedule_request(cli *c, request *q) {
  bool ok = read_sizes_of(c, q);
  ok = read_time(c, "--tf", 1, &q->forward) && ok;
  ok = read_time(c, "--tb", 2, &q->backward) && ok;
  ok = read_time(c, "--tw", 0, &q->weight) && ok;
  ok = read_time(c, "--tcomm", 0, &q->hop) && ok;
  MSC_TRY(ok && read_memory(c, q));
  if ((int64_t)q->o.stages * q->o.chunks > MSC_MAX_ENTRIES)
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--chunks"), "%d stages of %d chunks are too many", q->o.stages,
                     q->o.chunks);
  q->o.seconds = cli_number(c, "time-limit", 0.9);
  if (!(q->o.seconds >= 0))
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--time-limit"), "seconds, from 0 on, not %g", q->o.seconds);
  if (q->o.seconds == 0) q->o.seconds = 1e-9; /* no search beyond the start */
  q->ticks = ticks_per_unit(q);
  fill_costs(c, q);
  return true;
}

/* ---- telling ---- */

static double memory_of(const msc_stage_list *l) { return (double)l->memory / BYTES; }

static double activation_bytes(const request *q, const msc_stage_list *l) {
  return round(memory_of(l) * q->model.layers * q->model.layer_bytes);
}

static double in_units(const request *q, int64_t ticks) { return (double)ticks / q->ticks; }

static double bubble_of(const request *q, const msc_schedule *s) {
  double work = q->o.micro_batches * (q->forward + q->backward + q->weight), makespan = in_units(q, s->makespan);
  return makespan > 0 ? (makespan - work) / makespan : 0;
}

static void print_entries(cli_output *out, const request *q, const msc_stage_list *l) {
  for (int n = 0; n < l->num_entries; n++) {
    const msc_entry *e = &l->entry[n];
    cli_printf(out, "%s{\"kind\":\"%c\",\"mb\":%d,\"chunk\":%d,\"start\":%.15g,\"end\":%.15g}", n ? "," : "",
               "FBW"[e->work], e -> micro_batch, e -> chunk, in_units(q, e->start), in_units(q, e->end));
  }
}

static bool is_round_robin(const msc_schedule *s) {
  for (int k = 0; k < s->stages * s->chunks; k++)
    if (s->place[k] != k % s->stages) return false;
  return true;
}

static void print_bytes(cli_output *out, const request *q, const msc_schedule *s) {
  const schedule_transformer *m = &q->model;
  cli_printf(out, ",\"layer_bytes\":%.15g,\"state_bytes\":%.15g,\"activation_bytes\":[", m->layer_bytes,
             m->state_bytes);
  for (int i = 0; i < s->stages; i++) cli_printf(out, "%s%.15g", i ? "," : "", activation_bytes(q, &s->stage[i]));
  cli_printf(out, "]");
}

static int print_schedule_json(cli *c, const request *q, const msc_schedule *s) {
  cli_output *out = cli_open(c, NULL);
  if (!out) return CLI_ENVIRONMENT;
  cli_printf(out, "{\"makespan\":%.15g,\"bubble_fraction\":%.12g,\"wall\":%.15g", in_units(q, s->makespan),
             bubble_of(q, s), in_units(q, s->wall));
  cli_printf(out, ",\"in_flight\":[");
  for (int i = 0; i < s->stages; i++) cli_printf(out, "%s%d", i ? "," : "", s->stage[i].in_flight);
  cli_printf(out, "],\"memory\":[");
  for (int i = 0; i < s->stages; i++) cli_printf(out, "%s%.12g", i ? "," : "", memory_of(&s->stage[i]));
  cli_printf(out, "]");
  if (q->model.is_given) print_bytes(out, q, s);
  if (s->kind == MSC_SCHEDULE_ZB_AUTO) cli_printf(out, ",\"lower_bound\":%.15g", in_units(q, s->bound));
  if (!is_round_robin(s)) {
    cli_printf(out, ",\"place\":[");
    for (int k = 0; k < s->stages * s->chunks; k++) cli_printf(out, "%s%d", k ? "," : "", s->place[k]);
    cli_printf(out, "]");
  }
  cli_printf(out, ",\"order\":[");
  for (int i = 0; i < s->stages; i++) {
    cli_printf(out, "%s[", i ? "," : "");
    print_entries(out, q, &s->stage[i]);
    cli_printf(out, "]");
  }
  cli_printf(out, "]}\n");
  return cli_close(c, out);
}

enum { CHART_WIDTH = 120 };

/* Prints a line per stage; a column is an equal part of the time and shows the entry that runs in its middle. */
static void print_chart(cli_output *out, const msc_schedule *s) {
  int64_t last = 0;
  for (int i = 0; i < s->stages; i++) {
    int64_t end = s->stage[i].entry[s->stage[i].num_entries - 1].end;
    if (end > last) last = end;
  }
  for (int i = 0; i < s->stages; i++) {
    const msc_stage_list *l = &s->stage[i];
    char line[CHART_WIDTH + 1];
    for (int x = 0, n = 0; x < CHART_WIDTH; x++) {
      int64_t at = (int64_t)((double)last * (x + 0.5) / CHART_WIDTH);
      while (n < l->num_entries && l->entry[n].end <= at) n++;
      line[x] = n < l->num_entries && l->entry[n].start <= at ? "FBW"[l->entry[n].work] : '.';
    }
    line[CHART_WIDTH] = 0;
    cli_printf(out, "%4d  %s\n", i, line);
  }
}

static int print_schedule_text(cli *c, const request *q, const msc_schedule *s) {
  cli_output *out = cli_open(c, NULL);
  if (!out) return CLI_ENVIRONMENT;
  cli_printf(out, "%s: %s\n", msc_schedule_name(s->kind), msc_schedule_order(s->kind));
  print_chart(out, s);
  cli_printf(out, "makespan %.10g, bubble %.4f %%", in_units(q, s->makespan), 100 * bubble_of(q, s));
  if (s->kind == MSC_SCHEDULE_ZB_AUTO) cli_printf(out, "%s", s->makespan == s->bound ? "; no order does better" : "");
  cli_printf(out, "\n");
  if (q->model.is_given) {
    cli_printf(out, "%.10g bytes kept by a layer for a micro-batch; ", q->model.layer_bytes);
    cli_printf(out, "on a stage %.2f GiB of parameters, gradients and optimizer\n", q->model.state_bytes / (1 << 30));
  }
  cli_printf(out, "stage  in flight    memory  slots FB  FW  BW%s\n", q->model.is_given ? "  activations GiB" : "");
  for (int i = 0; i < s->stages; i++) {
    const msc_stage_list *l = &s->stage[i];
    cli_printf(out, "%5d %10d %9.2f %9d %3d %3d", i, l->in_flight, memory_of(l), l->num_slots[MSC_SLOT_FB],
               l->num_slots[MSC_SLOT_FW], l->num_slots[MSC_SLOT_BW]);
    if (q->model.is_given) cli_printf(out, " %16.2f", activation_bytes(q, l) / (1 << 30));
    cli_printf(out, "\n");
  }
  return cli_close(c, out);
}

static int run_schedule(cli *c) {
  static const char *const needed[] = {"stages", "micro-batches", "kind", "tf", "tb"};
  bool by_layers = cli_text(c, "layers");
  int num_needed = by_layers ? 2 : cli_text(c, "transformer") ? 3 : 5;
  bool by_chain = cli_text(c, "checkpoints") || cli_text(c, "chain") || cli_text(c, "repeats");
  const char *sized = schedule_transformer_option(c);
  if (sized && (by_layers || by_chain || !cli_text(c, "transformer")))
    return cli_usage(c, "--%s belongs to a schedule with --transformer", sized);
  if (by_chain) return schedule_chain(c);
  request q;
  msc_schedule s;
  for (int i = 0; i < num_needed; i++)
    if (!cli_text(c, needed[i])) return cli_usage(c, "--%s is missing", needed[i]);
  if (!by_layers && (cli_text(c, "borders") || cli_text(c, "fixed") || cli_text(c, "kept")))
    return cli_usage(c, "--borders, --fixed and --kept belong to --layers");
  if (by_layers)
    return read_sizes_of(c, &q) ? schedule_layers(c, q.o.kind, q.o.stages, q.o.chunks, q.o.micro_batches) : CLI_INPUT;
  if (!read_schedule_request(c, &q)) return CLI_INPUT;
  int code = schedule_transformer_read(c, q.o.stages, q.o.chunks, &q.model);
  if (code != CLI_OK) return code;
  if (!msc_schedule_make(c->ctx, cli_loc(c, "--kind"), &q.o, &s)) return CLI_INPUT;
  return c->json ? print_schedule_json(c, &q, &s) : print_schedule_text(c, &q, &s);
}

static const cli_option options[] = {
    {"kind", CLI_CHOICE, "gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-auto", "which schedule"},
    {"stages", CLI_INT, "P", "stages of the pipeline"},
    {"micro-batches", CLI_INT, "M", "micro-batches of a step; any number"},
    {"chunks", CLI_INT, "V",
     "parts of the model on each stage: interleaved any number, zb-auto 2 (placed as a V), else 1"},
    {"tf", CLI_NUMBER, "F", "time of a stage's forward of one micro-batch, in any unit"},
    {"tb", CLI_NUMBER, "B", "of its backward: gradients of inputs"},
    {"tw", CLI_NUMBER, "W", "of its gradients of weights, 0; only zb kinds run them apart"},
    {"tcomm", CLI_NUMBER, "C", "of a message from stage to stage, 0; it occupies neither"},
    {"memory-limit", CLI_NUMBER, "L",
     "zb-auto: activations of so many micro-batches on every stage, P; with --layers bytes"},
    {"mem-w", CLI_NUMBER, "R", "the part of the activations that stays until W, 1"},
    {"time-limit", CLI_NUMBER, "S", "zb-auto: seconds of CPU time to search, 0.9"},
    {"transformer", CLI_INT, "L",
     "tell bytes too: of L layers, cut evenly (values of 2 bytes, Korthikanti et al. 2022); --tf 1, --tb 2 if absent"},
    {"sequence", CLI_INT, "S", "with --transformer: its tokens"},
    {"hidden", CLI_INT, "H", "with --transformer: its width"},
    {"heads", CLI_INT, "A", "with --transformer: of its attention"},
    {"samples", CLI_INT, "B", "with --transformer: of a micro-batch, 1"},
    {"tensor-parallel", CLI_INT, "T", "with --transformer: ranks that share a layer, 1"},
    {"sequence-parallel", CLI_FLAG, NULL, "with --transformer: they share its norms and dropouts too"},
    {"recompute", CLI_CHOICE, "none|selective|full",
     "with --transformer: what is computed again: nothing, attention's scores, all but a layer's input"},
    {"layers", CLI_TEXT, "TIMES",
     "instead of an order: which layers each stage should hold, from their times, 3,5,4,4; 1f1b unless --kind says "
         "otherwise"},
    {"borders", CLI_TEXT, "TIMES", "with --layers: time that a message after each layer takes, there and back"},
    {"fixed", CLI_TEXT, "BYTES", "with --layers: bytes of parameters and state of each"},
    {"kept", CLI_TEXT, "BYTES", "with --layers: bytes each keeps for a micro-batch in flight"},
    {"checkpoints", CLI_INT, "C",
     "instead of a pipeline: the backward of a chain of steps, with room for so many states"},
    {"chain", CLI_INT, "N", "with --checkpoints: its steps"},
    {"repeats", CLI_INT, "R", "with --checkpoints: the longest chain of which no step runs forward more often"},
    {0},
};
const cli_command cmd_schedule = {"", 0, 0, options, run_schedule};
