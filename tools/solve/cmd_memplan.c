/* cmd_memplan.c: a list of buffers in; an offset for each and the size of the arena out, as a table or as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ir/abi/clock.h"
#include "passes/8_memory/offsets/buffer_file.h"
#include "tools/cli.h"

static int print_offsets_json(cli *c, const msc_buffer_file *f, const msc_offsets_result *r, const uint64_t *offset) {
  cli_output *out = cli_open(c, NULL);
  cli_printf(out, "{\"lower_bound\":%" PRIu64 ",\"size\":%" PRIu64 ",\"proven\":%s,\"offsets\":{", r->bound, r->bytes,
             r->proven ? "true" : "false");
  for (size_t i = 0; i < f->num; i++) {
    json_t *id = json_string(f->id[i]);
    char *text = json_dumps(id, JSON_ENCODE_ANY);
    cli_printf(out, "%s%s:%" PRIu64, i ? "," : "", text ? text : "\"\"", offset[i]);
    free(text);
    json_decref(id);
  }
  cli_printf(out, "}}\n");
  return cli_close(c, out);
}

/* Prints the input with one more column, the offsets. */
static int print_offsets_table(cli *c, const msc_buffer_file *f, const msc_offsets_result *r, const uint64_t *offset) {
  const uint64_t bias = (uint64_t)1 << 63;
  cli_output *out = cli_open(c, NULL);
  cli_printf(out, "id,lower,upper,size,offset\n");
  for (size_t i = 0; i < f->num; i++) {
    const msc_buffer *b = &f->buffer[i];
    cli_printf(out, "%s,%" PRId64 ",%" PRId64 ",%" PRIu64 ",%" PRIu64 "\n", f->id[i], (int64_t)(b->lower ^ bias),
               (int64_t)(b->upper ^ bias), b->bytes, offset[i]);
  }
  fprintf(stderr, "%zu buffers in %" PRIu64 " bytes, %" PRIu64 " of them live at once%s\n", f->num, r->bytes, r->bound,
          r->proven ? ": no plan is smaller" : "");
  return cli_close(c, out);
}

typedef struct {
  const char *id;
  size_t index;
} named;

static int compare_ids(const void *a, const void *b) { return strcmp(((const named *)a)->id, ((const named *)b)->id); }

/* Places buffers in the order of their ids, so that equal buffers get the same offsets whatever line they are on. */
static msc_offsets_result place_buffers(cli *c, const msc_buffer_file *f, const msc_offsets_options *o,
                                        uint64_t *out_offset) {
  msc_arena *arena = msc_context_arena(c->ctx);
  named *n = msc_new_array(arena, named, f->num);
  msc_buffer *buffer = msc_new_array(arena, msc_buffer, f->num);
  uint64_t *offset = msc_new_array(arena, uint64_t, f->num);
  for (size_t i = 0; i < f->num; i++) n[i] = (named){f->id[i], i};
  qsort(n, f->num, sizeof *n, compare_ids);
  for (size_t i = 0; i < f->num; i++) buffer[i] = f->buffer[n[i].index];
  msc_offsets_result r = msc_find_offsets(arena, f->num, buffer, o, offset);
  for (size_t i = 0; i < f->num; i++) out_offset[n[i].index] = offset[i];
  return r;
}

static int run_memplan(cli *c) {
  double begin = msc_cpu_seconds();
  int64_t capacity = cli_int(c, "capacity", -1);
  bool given = cli_text(c, "capacity");
  double limit = cli_number(c, "time-limit", given ? 3 : 2);
  cli_bytes text;
  msc_buffer_file f;
  if (given && capacity < 0) return cli_usage(c, "--capacity must not be negative");
  if (!(limit >= 0 && limit < 1e9)) return cli_usage(c, "--time-limit must be a number of seconds from 0 on");
  if (!cli_read(c, c->operands[0], &text) || !msc_buffers_read(c->ctx, c->operands[0], text.data, text.size, &f))
    return CLI_INPUT;
  uint64_t *offset = msc_new_array(msc_context_arena(c->ctx), uint64_t, f.num);
  double left = 0.95 * limit - (msc_cpu_seconds() - begin); /* the rest is for stopping and printing */
  msc_offsets_options o = {.capacity = (uint64_t)(given && capacity > 0 ? capacity : 0),
                           .time_limit_s = left > 1e-6 ? left : 1e-6};
  msc_offsets_result r = place_buffers(c, &f, &o, offset);
  int code = c->json ? print_offsets_json(c, &f, &r, offset) : print_offsets_table(c, &f, &r, offset);
  if (code != CLI_OK || !given || r.bytes <= (uint64_t)capacity) return code;
  const msc_loc *loc = cli_loc(c, c->operands[0]);
  if (r.proven)
    msc_error(c->ctx, MSC_E_INFEASIBLE, loc, "no plan fits into %" PRId64 " bytes; the smallest needs %" PRIu64,
              capacity, r.bytes);
  else if (r.bound > (uint64_t)capacity)
    msc_error(c->ctx, MSC_E_INFEASIBLE, loc,
              "no plan fits into %" PRId64 " bytes: %" PRIu64 " are live at once; the best one found needs %" PRIu64,
              capacity, r.bound, r.bytes);
  else
    msc_error(c->ctx, MSC_E_INFEASIBLE, loc,
              "no plan within %" PRId64 " bytes was found; the best one needs %" PRIu64 ", and %" PRIu64
              " are live at once",
              capacity, r.bytes, r.bound);
  return CLI_INPUT;
}

static const cli_option options[] = {
    {"capacity", CLI_BYTES, "N", "done at the first plan of at most N bytes; exit code 1 when none is found"},
    {"time-limit", CLI_NUMBER, "S", "seconds of CPU time to look for it; default 3 with --capacity, else 2"},
    {0}};
const cli_command cmd_memplan = {"FILE.csv", 1, 1, options, run_memplan};
