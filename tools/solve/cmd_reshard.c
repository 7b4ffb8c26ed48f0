/* cmd_reshard.c: mesh, shape and two layouts in; the redistribution plan between them out, as a table or as JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "passes/3_shard/reshard/reshard.h"
#include "passes/config/config.h"
#include "tools/cli.h"
#include "tools/solve/read_grid.h"
#include "tools/solve/reshard_ranks.h"

typedef struct {
  msc_mesh mesh;
  const msc_type *type;
  const msc_layout *from, *to;
  msc_reshard_options options;
  reshard_side from_side, to_side; /* the same with ranks */
  bool by_ranks;                   /* ranks were asked about or listed */
  int64_t at;                      /* of --rank in to_side, -1: not asked */
} request;

static bool read_tensor_type(cli *c, const char *text, int64_t elem_bytes, const msc_type **out_type) {
  static const msc_dtype of_bytes[] = {[1] = MSC_I8, [2] = MSC_I16, [4] = MSC_I32, [8] = MSC_I64};
  int64_t dim[MSC_MAX_RANK];
  int rank = 0;
  MSC_TRY(read_shape(c, "--shape", text, &rank, dim));
  if (elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4 && elem_bytes != 8)
    return msc_error(c->ctx, MSC_E_SHAPE, cli_loc(c, "--bytes"), "an element has 1, 2, 4 or 8 bytes, not %" PRId64,
                     elem_bytes);
  *out_type = msc_type_of(c->ctx, of_bytes[elem_bytes], rank, dim, NULL);
  /* a factor 4: what a device receives can exceed the tensor */
  if (msc_type_bytes(*out_type) < 0 || msc_type_bytes(*out_type) > INT64_MAX / 4)
    return msc_error(c->ctx, MSC_E_SHAPE, cli_loc(c, "--shape"), "\"%s\" is too large: more than 2^61 bytes", text);
  return true;
}

static bool read_side_layout(cli *c, const request *q, const char *option, const char *text,
                             const msc_layout **out_layout) {
  const msc_loc *loc = cli_loc(c, option);
  MSC_TRY(msc_layout_parse(c->ctx, &q->mesh, loc, text, out_layout));
  if ((*out_layout)->rank != q->type->rank)
    return msc_error(c->ctx, MSC_E_LAYOUT, loc, "layout \"%s\" has %d dimensions and the shape %d", text,
                     (*out_layout)->rank, q->type->rank);
  msc_box_layout cuts = msc_layout_cuts(*out_layout);
  return msc_box_shape_ok(&cuts, q->type->dim) ||
         msc_error(c->ctx, MSC_E_LAYOUT, loc, "layout \"%s\": the sizes of parts do not add up to the shape", text);
}

/* --link node=20:50: 20 us and 50 GB/s. */
static bool read_links(cli *c, request *q) {
  const char *const *text;
  size_t num = cli_texts(c, "link", &text);
  const msc_loc *loc = cli_loc(c, "--link");
  bool given[MSC_MAX_AXES] = {false};
  for (size_t i = 0; i < num; i++) {
    int axis = 0, used = 0;
    const char *value = strchr(text[i], '=');
    while (axis < q->mesh.num_axes && (strlen(q->mesh.axis[axis].name) != (size_t)(value - text[i]) ||
                                       strncmp(q->mesh.axis[axis].name, text[i], (size_t)(value - text[i]))))
      axis++;
    if (axis == q->mesh.num_axes)
      return msc_error(c->ctx, MSC_E_LAYOUT, loc, "%s: the mesh has no axis '%.*s'", text[i], (int)(value - text[i]),
                       text[i]);
    msc_link *l = &q->options.link[axis];
    double us, rate;
    if (sscanf(value + 1, "%lf:%lf%n", &us, &rate, &used) != 2 || value[1 + used] || !(us >= 0 && us < 1e9) ||
        !(rate > 1e-6 && rate < 1e9))
      return msc_error(c->ctx, MSC_E_CONFIG, loc,
                       "%s: expected AXIS=MICROSECONDS:GIGABYTES_PER_SECOND, such as node=20:50", text[i]);
    *l = (msc_link){{(uint32_t)axis, 1, (uint32_t)q->mesh.axis[axis].size}, us * 1e3, rate, 0};
    given[axis] = true;
  }
  for (int a = 0; a < q->mesh.num_axes && num; a++)
    if (!given[a])
      return msc_error(c->ctx, MSC_E_CONFIG, loc, "axis '%s' is missing: the time of a plan needs every axis",
                       q->mesh.axis[a].name);
  q->options.time = num > 0;
  if (num) q->options.num_links = q->mesh.num_axes;
  return true;
}

static bool read_texts(cli *c, request *q) {
  MSC_TRY(msc_mesh_parse(c->ctx, cli_loc(c, "--mesh"), cli_text(c, "mesh"), &q->mesh));
  bool ok = read_side_layout(c, q, "--from", cli_text(c, "from"), &q->from);
  MSC_TRY(read_side_layout(c, q, "--to", cli_text(c, "to"), &q->to) && ok);
  q->from_side.mesh = q->to_side.mesh = q->mesh;
  q->from_side.layout = q->from, q->to_side.layout = q->to;
  return true;
}

static bool read_matrices(cli *c, request *q) {
  MSC_TRY(reshard_read_grids(c, cli_text(c, "shape"), &q->from_side, &q->to_side));
  q->mesh = q->to_side.mesh;
  q->from = q->from_side.layout, q->to = q->to_side.layout;
  return true;
}

static bool read_sides(cli *c, request *q) {
  q->at = -1;
  q->by_ranks = cli_text(c, "rank") || cli_text(c, "ranks") || cli_text(c, "from-ranks");
  return !q->by_ranks || (reshard_read_ranks(c, &q->from_side, &q->to_side) &&
                          (!cli_text(c, "rank") || reshard_find_rank(c, &q->to_side, &q->at)));
}

static bool read_reshard_request(cli *c, request *q) {
  const msc_config *config = cli_config(c);
  if (!config) return false;
  memset(q, 0, sizeof *q);
  q->options = (msc_reshard_options){.launch_ns = cli_number(c, "launch", 10) * 1e3,
                                     .no_alltoall = !msc_config_bool(config, MSC_KEY_enable_alltoall)};
  MSC_TRY(read_tensor_type(c, cli_text(c, "shape"), cli_int(c, "bytes", 4), &q->type));
  MSC_TRY(cli_text(c, "mesh") ? read_texts(c, q) : read_matrices(c, q));
  if (!read_sides(c, q)) return false;
  if (q->from->num_partial && q->to->num_partial && q->from->reduction != q->to->reduction)
    return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--to"),
                     "\"%s\" is another reduction than \"%s\"; a partial value can only be finished", cli_text(c, "to"),
                     cli_text(c, "from"));
  return read_links(c, q);
}

static const char *verb_name(msc_verb verb) { return verb == MSC_SHARD ? "slice" : msc_verb_name(verb); }

enum { MAX_TOLD = 1024 }; /* ranks that are told about without --rank: the work grows with their square */

/* The source ranks that the rank asked about needs, or each rank: {"0": [0, 1], ...}. */
static json_t *needed_json(cli *c, const request *q, int64_t *out_most) {
  json_t *all = json_object();
  *out_most = 0;
  if (q->at < 0 && q->to_side.num_ranks > MAX_TOLD) return all;
  for (int64_t i = 0; i < q->to_side.num_ranks; i++) {
    int64_t elems;
    char key[24];
    if (q->at >= 0 && i != q->at) continue;
    snprintf(key, sizeof key, "%" PRId64, q->to_side.rank[i]);
    json_object_set_new(all, key, reshard_needed(c, q->type, &q->from_side, &q->to_side, i, &elems));
    if (elems > *out_most) *out_most = elems;
  }
  return all;
}

/* Prints which ranks need which: between two lists of ranks there are no collectives. */
static int print_needed_ranks(cli *c, const request *q) {
  msc_arena *arena = msc_context_arena(c->ctx);
  int64_t most, bytes;
  json_t *needed = needed_json(c, q, &most), *steps = json_array();
  bytes = most * msc_dtype_bytes(q->type->dtype);
  if (bytes)
    json_array_append_new(steps,
                          json_pack("{s:s, s:s, s:s, s:I}", "op", verb_name(MSC_EXCHANGE), "from",
                                    msc_layout_print(arena, &q->from_side.mesh, q->from), "to",
                                    msc_layout_print(arena, &q->to_side.mesh, q->to), "bytes", (json_int_t)bytes));
  json_t *j = json_pack("{s:o, s:I, s:I, s:o}", "steps", steps, "bytes", (json_int_t)bytes, "lower_bound",
                        (json_int_t)bytes, "needed", needed);
  if (c->json) {
    json_dumpf(j, stdout, JSON_COMPACT);
    putchar('\n');
  } else {
    const char *key;
    json_t *ranks;
    printf("each rank fetches what it lacks, at most %" PRId64 " bytes\n", bytes);
    json_object_foreach(needed, key, ranks) {
      char *text = json_dumps(ranks, JSON_COMPACT);
      printf("rank %-8s from %s\n", key, text ? text : "");
      free(text);
    }
  }
  json_decref(j);
  return CLI_OK;
}

static void print_steps_json(cli *c, const request *q, const msc_reshard_plan *p) {
  msc_arena *arena = msc_context_arena(c->ctx);
  json_t *steps = json_array();
  int64_t unused;
  for (int i = 0; i < p->num_steps; i++) {
    const msc_layout *from = i ? p->step[i - 1].to : q->from;
    json_t *s = json_pack("{s:s, s:s, s:s, s:I}", "op", verb_name(p->step[i].verb), "from",
                          msc_layout_print(arena, &q->mesh, from), "to",
                          msc_layout_print(arena, &q->mesh, p->step[i].to), "bytes", (json_int_t)p->step[i].bytes);
    if (q->options.time) json_object_set_new(s, "ns", json_integer(p->step[i].ns));
    if (q->at >= 0)
      json_object_set_new(s, "ranks", reshard_step_ranks(c, q->type, &q->to_side, from, p->step[i].to, q->at));
    json_array_append_new(steps, s);
  }
  json_t *j = json_pack("{s:o, s:I, s:o, s:I, s:b}", "steps", steps, "bytes", (json_int_t)p->bytes, "lower_bound",
                        p->lower_bound < 0 ? json_null() : json_integer(p->lower_bound), "peak_bytes",
                        (json_int_t)p->peak_bytes, "proven", (int)p->proven);
  if (q->options.time) json_object_set_new(j, "ns", json_integer(p->ns));
  if (q->by_ranks) {
    json_object_set_new(j, "mesh", json_string(msc_mesh_print(arena, &q->mesh)));
    json_object_set_new(j, "needed", needed_json(c, q, &unused));
  }
  json_dumpf(j, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(j);
}

/* 1,234,567 */
static const char *group_digits(msc_arena *arena, int64_t n) {
  const char *text = msc_arena_printf(arena, "%" PRId64, n);
  size_t len = strlen(text);
  char out[40];
  size_t at = 0;
  for (size_t i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0) out[at++] = ',';
    out[at++] = text[i];
  }
  return msc_arena_printf(arena, "%.*s", (int)at, out);
}

static void print_row(const request *q, int width, const char *verb, const char *layout, const char *bytes,
                      const char *peak, const char *us) {
  if (!*bytes) {
    printf("%-14s %s\n", verb, layout);
    return;
  }
  printf("%-14s %-*s %18s %18s", verb, width, layout, bytes, peak);
  if (q->options.time) printf(" %12s", us);
  putchar('\n');
}

static void print_steps_table(cli *c, const request *q, const msc_reshard_plan *p) {
  msc_arena *arena = msc_context_arena(c->ctx);
  int width = (int)strlen(msc_layout_print(arena, &q->mesh, q->from));
  for (int i = 0; i < p->num_steps; i++) {
    int n = (int)strlen(msc_layout_print(arena, &q->mesh, p->step[i].to));
    if (n > width) width = n;
  }
  print_row(q, width, "step", "layout", "bytes received", "local in + out", "us");
  print_row(q, width, "", msc_layout_print(arena, &q->mesh, q->from), "", "", "");
  for (int i = 0; i < p->num_steps; i++)
    print_row(q, width, verb_name(p->step[i].verb), msc_layout_print(arena, &q->mesh, p->step[i].to),
              group_digits(arena, p->step[i].bytes), group_digits(arena, p->step[i].peak_bytes),
              msc_arena_printf(arena, "%.1f", (double)p->step[i].ns / 1e3));
  print_row(q, width, "total", "", group_digits(arena, p->bytes), group_digits(arena, p->peak_bytes),
            msc_arena_printf(arena, "%.1f", (double)p->ns / 1e3));
  if (p->lower_bound >= 0)
    printf("lower bound    %s bytes%s\n", group_digits(arena, p->lower_bound),
           p->bytes == p->lower_bound ? ": no plan moves less" : "");
  if (!p->proven) puts("not proven to be the best: too many axes, or parts that differ, to try everything");
}

static int report_no_plan(cli *c, const request *q, const msc_reshard_plan *p) {
  msc_arena *arena = msc_context_arena(c->ctx);
  if (p->needed_peak)
    msc_error(c->ctx, MSC_E_INFEASIBLE, cli_loc(c, "--peak"),
              "no plan stays within %s bytes of local memory in and out; the smallest limit that would do is %" PRId64,
              group_digits(arena, q->options.peak), p->needed_peak);
  else
    msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--to"),
              "\"%s\" is partial where \"%s\" is not; a plan can finish partial values, not make them",
              cli_text(c, "to"), cli_text(c, "from"));
  return CLI_INPUT;
}

static int check_reshard_usage(cli *c) {
  static const char *const texts[] = {"mesh", "shape", "from", "to"};
  static const char *const grids[] = {"shape", "from-device-matrix", "from-tensor-map", "to-device-matrix",
                                      "to-tensor-map"};
  bool by_grid = cli_text(c, "from-device-matrix") || cli_text(c, "to-device-matrix");
  const char *const *needed = by_grid ? grids : texts;
  for (size_t i = 0; i < (by_grid ? sizeof grids : sizeof texts) / sizeof *grids; i++)
    if (!cli_text(c, needed[i])) return cli_usage(c, "--%s is missing", needed[i]);
  if (by_grid && cli_text(c, "mesh"))
    return cli_usage(c, "--mesh, --from and --to, or device matrices and tensor maps: not both");
  if (!cli_text(c, "from-ranks") != !cli_text(c, "to-ranks"))
    return cli_usage(c, "--from-ranks and --to-ranks belong together");
  if (cli_text(c, "from-ranks") && cli_text(c, "ranks"))
    return cli_usage(c, "--ranks, or --from-ranks and --to-ranks: not both");
  return CLI_OK;
}

static int run_reshard(cli *c) {
  request q;
  msc_reshard_plan p;
  int usage = check_reshard_usage(c);
  if (usage != CLI_OK) return usage;
  double launch_us = cli_number(c, "launch", 10);
  if (!(launch_us >= 0 && launch_us < 1e9)) return cli_usage(c, "--launch: microseconds, from 0 on");
  if (!read_reshard_request(c, &q)) return CLI_INPUT;
  if (q.by_ranks && !reshard_same_ranks(&q.from_side, &q.to_side)) return print_needed_ranks(c, &q);
  q.options.peak = cli_int(c, "peak", 0);
  if (cli_text(c, "peak") && q.options.peak < 1) return cli_usage(c, "--peak: at least 1 byte");
  if (!msc_reshard_plan_of(msc_reshard_new(c->ctx, &q.mesh, &q.options), q.type, q.from, q.to, &p))
    return report_no_plan(c, &q, &p);
  if (c->json) print_steps_json(c, &q, &p);
  else print_steps_table(c, &q, &p);
  return CLI_OK;
}

static const cli_option options[] = {
  {"mesh", CLI_TEXT, "AXES", "the devices, first axis major: x=4,y=2"},
  {"shape", CLI_TEXT, "SIZES", "the tensor's global shape: 16,16,16"},
  {"bytes", CLI_INT, "N", "bytes of an element: 1, 2, 4 (default) or 8"},
  {"from", CLI_TEXT, "LAYOUT", "where its parts are: [{y},{},{x}]; sums pending on x: [{},{}] partial={x}"},
  {"to", CLI_TEXT, "LAYOUT", "where they shall be"},
  {"from-device-matrix", CLI_TEXT, "SIZES", "instead of --mesh and --from: 8,4"},
  {"from-tensor-map", CLI_TEXT, "AXES",
   "with it: by dimension the axis counted from the right, -1 whole, a list for several: 1,[2,0]"},
  {"to-device-matrix", CLI_TEXT, "SIZES", "instead of --to; a smaller matrix is repeated"},
  {"to-tensor-map", CLI_TEXT, "AXES", "with it"},
  {"ranks", CLI_TEXT, "RANKS", "who the devices are, in order: 0..7, or 5,3,1,0; tells also whom every rank needs"},
  {"from-ranks", CLI_TEXT, "RANKS", "the devices of --from, where they are others than those of --to"},
  {"to-ranks", CLI_TEXT, "RANKS", "the devices of --to"},
  {"rank", CLI_INT, "R",
   "tell for this rank from whom it gets its part in each step, and which ranks it needs at least"},
  {"peak", CLI_BYTES, "BYTES", "limit of a device's local bytes in and out of any step"},
  {"link", CLI_PAIRS, "AXIS=US:GB",
   "least time instead of least bytes: latency in us and bandwidth in GB/s of every axis"},
  {"launch", CLI_NUMBER, "US", "with --link: time each collective takes besides, 10 us"},
  {0},
};
const cli_command cmd_reshard = {"", 0, 0, options, run_reshard};
