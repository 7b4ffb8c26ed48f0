/* schedule_layers.c: times and bytes of layers in; the runs of layers per stage with which a step is shortest out. */
#include "tools/solve/schedule_layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/6_pipeline/balance.h"

typedef struct {
  msc_schedule_kind kind;
  msc_balance_options o;
  double ticks; /* in one unit of time */
} request;

/* "3,5.5,4": `num` numbers from 0 on, or as many as there are if num is 0. */
static bool read_numbers(cli *c, const char *option, int num, int *out_num, double **out_number) {
  const char *text = cli_text(c, option + 2), *at = text;
  int found = 0;
  double *number = msc_new_array(msc_context_arena(c->ctx), double, strlen(text) / 2 + 1);
  for (;; at++) {
    char *end;
    number[found] = strtod(at, &end);
    if (end == at || (*end && *end != ',') || !(number[found] >= 0 && number[found] <= 1e15))
      return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "number %d of \"%s\" is not one from 0 to 1e15",
                       found + 1, text);
    found++;
    at = end;
    if (!*at) break;
  }
  if (num && found != num)
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "%d numbers for %d layers", found, num);
  *out_num = found, *out_number = number;
  return true;
}

/* The finest decimal tick with which no product leaves 2^53. */
static double ticks_for_layers(const request *q, const double *time, const double *border) {
  double sum = 0;
  for (int n = 0; n < q->o.num_layers; n++) sum += time[n] + (border ? border[n] : 0);
  sum *= 1.0 + (double)q->o.chunks * q->o.micro_batches;
  return sum > 1e-250 ? pow(10, floor(15 - log10(sum))) : 1;
}

static bool read_layers(cli *c, request *q) {
  static const char *const options[] = {"--layers", "--borders", "--fixed", "--kept"};
  double *given[4] = {NULL};
  for (int k = 0; k < 4; k++)
    if (cli_text(c, options[k] + 2)) MSC_TRY(read_numbers(c, options[k], q->o.num_layers, &q->o.num_layers, &given[k]));
  q->ticks = ticks_for_layers(q, given[0], given[1]);
  msc_layer *layer = msc_new_array(msc_context_arena(c->ctx), msc_layer, q->o.num_layers);
  for (int n = 0; n < q->o.num_layers; n++) {
    layer[n].time = llround(given[0][n] * q->ticks);
    layer[n].border = given[1] ? llround(given[1][n] * q->ticks) : 0;
    layer[n].fixed = given[2] ? llround(given[2][n]) : 0;
    layer[n].kept = given[3] ? llround(given[3][n]) : 0;
  }
  q->o.layer = layer;
  return true;
}

/* Sets how many micro-batches a stage keeps at once, which depends on the order. */
static bool count_in_flight(cli *c, request *q) {
  msc_schedule s;
  msc_schedule_options o = {
      .kind = q->kind, .stages = q->o.stages, .chunks = q->o.chunks, .micro_batches = q->o.micro_batches};
  MSC_TRY(msc_schedule_make(c->ctx, cli_loc(c, "--kind"), &o, &s));
  int *in_flight = msc_new_array(msc_context_arena(c->ctx), int, s.stages);
  int64_t *limit = msc_new_array(msc_context_arena(c->ctx), int64_t, s.stages);
  double bytes = cli_number(c, "memory-limit", -1);
  if (cli_text(c, "memory-limit") && !(bytes >= 0))
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--memory-limit"), "bytes of a stage, from 0 on, not %g", bytes);
  for (int i = 0; i < s.stages; i++) {
    const int *slots = s.stage[i].num_slots;
    in_flight[i] = slots[MSC_SLOT_FW] > slots[MSC_SLOT_FB] ? slots[MSC_SLOT_FW] : slots[MSC_SLOT_FB];
    limit[i] = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
  }
  q->o.place = s.place, q->o.in_flight = in_flight;
  if (bytes >= 0) q->o.limit = limit;
  return true;
}

static int print_layers(cli *c, const request *q, const msc_balance *b) {
  cli_output *out = cli_open(c, NULL);
  if (!out) return CLI_ENVIRONMENT;
  int num = q->o.stages * q->o.chunks;
  if (c->json) {
    cli_printf(out, "{\"total\":%.15g,\"proven\":%s,\"stage_times\":[", (double)b->total / q->ticks,
               b->is_least ? "true" : "false");
    for (int i = 0; i < q->o.stages; i++) cli_printf(out, "%s%.15g", i ? "," : "", (double)b->time[i] / q->ticks);
    cli_printf(out, "],\"first_layer\":[");
    for (int k = 0; k < num; k++) cli_printf(out, "%s%d", k ? "," : "", b->first[k]);
    cli_printf(out, "]}\n");
    return cli_close(c, out);
  }
  cli_printf(out, "stage  %*s  layers\n", 12, "time");
  for (int i = 0; i < q->o.stages; i++) {
    cli_printf(out, "%5d  %12.6g ", i, (double)b->time[i] / q->ticks);
    for (int k = 0; k < num; k++)
      if (q->o.place[k] == i) cli_printf(out, " %d..%d", b->first[k], b->first[k + 1] - 1);
    cli_printf(out, "\n");
  }
  cli_printf(out, "a step takes %.10g%s\n", (double)b->total / q->ticks, b->is_least ? ", the least" : "");
  return cli_close(c, out);
}

int schedule_layers(cli *c, msc_schedule_kind kind, int stages, int chunks, int micro_batches) {
  request q = {.kind = kind, .o = {.stages = stages, .chunks = chunks, .micro_batches = micro_batches}};
  msc_balance b;
  if (!read_layers(c, &q) || !count_in_flight(c, &q) || !msc_balance_make(c->ctx, cli_loc(c, "--layers"), &q.o, &b))
    return CLI_INPUT;
  return print_layers(c, &q, &b);
}
