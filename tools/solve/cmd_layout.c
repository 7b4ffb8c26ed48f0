/* cmd_layout.c: msc layout: a layout, as mesh and text or as device matrix and tensor map, in; its slices, groups,
 * equal holders, normal form and refinements out.  With a shape alone: arithmetic of shapes; with ranks alone:
 * stages. */
#include <stdlib.h>
#include <string.h>

#include "tools/solve/read_grid.h"

typedef struct {
  cli *c;
  msc_mesh mesh;
  const msc_layout *layout;
  msc_type type;
  msc_grid grid; /* normal form is left to the output: as given */
  int64_t num_ranks, *rank;
  json_t *out;
} asking;

static bool put_json(asking *q, const char *key, json_t *value) { return json_object_set_new(q->out, key, value) == 0; }

static void put_grid_json(json_t *to, const msc_grid *g) {
  json_object_set_new(to, "device_matrix", cli_sizes_json(g->num_axes, g->axis));
  json_object_set_new(to, "tensor_map", map_json(g));
  json_object_set_new(to, "shape", cli_sizes_json(g->num_dims, g->dim));
}

/* ---- the layout ---- */

static bool set_type(asking *q, int rank, const int64_t *dim) {
  q->type = (msc_type){.dtype = MSC_I8, .rank = rank};
  memcpy(q->type.dim, dim, sizeof *dim * (size_t)rank);
  if (msc_type_elems(&q->type) >= 0) return true;
  return msc_error(q->c->ctx, MSC_E_SHAPE, cli_loc(q->c, "--shape"), "the shape has more than 2^63 elements");
}

static bool read_named(asking *q) {
  cli *c = q->c;
  int64_t dim[MSC_MAX_RANK];
  int rank;
  MSC_TRY(msc_mesh_parse(c->ctx, cli_loc(c, "--mesh"), cli_text(c, "mesh"), &q->mesh));
  MSC_TRY(msc_layout_parse(c->ctx, &q->mesh, cli_loc(c, "--layout"), cli_text(c, "layout"), &q->layout));
  MSC_TRY(read_sizes(c, "--shape", cli_text(c, "shape"), MSC_MAX_RANK, &rank, dim));
  if (rank != q->layout->rank)
    return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--layout"), "layout \"%s\" has %d dimensions and the shape %d",
                     cli_text(c, "layout"), q->layout->rank, rank);
  msc_box_layout cuts = msc_layout_cuts(q->layout);
  if (!msc_box_shape_ok(&cuts, dim))
    return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--layout"),
                     "layout \"%s\": the sizes of parts do not add up to the shape", cli_text(c, "layout"));
  MSC_TRY(set_type(q, rank, dim));
  msc_grid_of(&q->mesh, q->layout, rank, dim, &q->grid);
  return true;
}

static bool read_asked_layout(asking *q) {
  cli *c = q->c;
  if (cli_text(c, "mesh")) return read_named(q);
  MSC_TRY(read_grid(c, cli_text(c, "device-matrix"), cli_text(c, "tensor-map"), cli_text(c, "shape"), &q->grid));
  MSC_TRY(set_type(q, q->grid.num_dims, q->grid.dim));
  return msc_grid_layout(c->ctx, &q->grid, msc_grid_devices(&q->grid), &q->mesh, &q->layout);
}

/* Position i of the device matrix is rank[i]; without --ranks they are 0, 1, 2 ... */
static bool place_ranks(asking *q) {
  cli *c = q->c;
  int64_t devices = msc_mesh_size(&q->mesh);
  const char *text = cli_text(c, "ranks");
  MSC_TRY(read_ranks(c, "--ranks",
                     text ? text : msc_arena_printf(msc_context_arena(c->ctx), "0..%" PRId64, devices - 1),
                     &q->num_ranks, &q->rank));
  if (q->num_ranks == devices) return true;
  return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--ranks"),
                   "%" PRId64 " ranks are listed, the device matrix has %" PRId64 " devices", q->num_ranks, devices);
}

static bool find_rank(asking *q, int64_t *out_at) {
  int64_t wanted = cli_int(q->c, "rank", 0);
  for (*out_at = 0; *out_at < q->num_ranks; ++*out_at)
    if (q->rank[*out_at] == wanted) return true;
  return msc_error(q->c->ctx, MSC_E_LAYOUT, cli_loc(q->c, "--rank"),
                   "rank %" PRId64 " is not among the %" PRId64 " ranks", wanted, q->num_ranks);
}

/* ---- what a layout means ---- */

static json_t *slice_json(const asking *q, int64_t at) {
  int64_t begin[MSC_MAX_RANK], end[MSC_MAX_RANK];
  msc_layout_box(&q->mesh, &q->type, q->layout, at, begin, end);
  for (int d = 0; d < q->type.rank; d++) end[d] += begin[d];
  return json_pack("{s:I, s:o, s:o}", "rank", (json_int_t)q->rank[at], "begin", cli_sizes_json(q->type.rank, begin),
                   "end", cli_sizes_json(q->type.rank, end));
}

/* The ranks that differ from the one at position `at` only along this axis, as JSON. */
static json_t *group_json(const asking *q, msc_subaxis axis, int64_t at) {
  msc_box_mesh mesh = msc_mesh_sizes(&q->mesh);
  json_t *group = json_array();
  for (int64_t i = 0; i < (int64_t)axis.size; i++)
    json_array_append_new(group, json_integer(q->rank[msc_group_member(&mesh, 1, &axis, at, i)]));
  return group;
}

static json_t *same_slice_json(const asking *q, int64_t at) {
  json_t *same = json_array();
  int num = q->layout->first[q->layout->rank] + q->layout->num_partial;
  for (int64_t i = 0; i < q->num_ranks; i++) {
    bool equal = true;
    for (int k = 0; equal && k < num; k++)
      equal = msc_subaxis_digit(&q->mesh, q->layout->sub[k], i) == msc_subaxis_digit(&q->mesh, q->layout->sub[k], at);
    if (equal) json_array_append_new(same, json_integer(q->rank[i]));
  }
  return same;
}

/* Writes the axes that the user names as digits of the mesh; returns their number. */
static int user_axes(const asking *q, msc_subaxis *out_axis) {
  uint32_t pre = 1;
  if (!cli_text(q->c, "mesh"))
    for (int i = 0; i < q->grid.num_axes; pre *= (uint32_t)q->grid.axis[i++])
      out_axis[i] = (msc_subaxis){0, pre, (uint32_t)q->grid.axis[i]};
  for (int a = 0; pre == 1 && a < q->mesh.num_axes; a++)
    out_axis[a] = (msc_subaxis){(uint32_t)a, 1, (uint32_t)q->mesh.axis[a].size};
  return cli_text(q->c, "mesh") ? q->mesh.num_axes : q->grid.num_axes;
}

static bool answer_rank(asking *q) {
  int64_t at;
  msc_subaxis axis[MSC_GRID_AXES];
  int num = user_axes(q, axis);
  json_t *groups = json_array(), *slices = json_array();
  MSC_TRY(find_rank(q, &at));
  for (int i = 0; i < num; i++) json_array_append_new(groups, group_json(q, axis[i], at));
  json_array_append_new(slices, slice_json(q, at));
  return put_json(q, "slices", slices) && put_json(q, "group_per_axis", groups) &&
         put_json(q, "ranks_with_same_slice", same_slice_json(q, at));
}

/* True if the layout has a device matrix: its parts are equal and it has no pending sums. */
static bool has_grid(const asking *q) { return !msc_layout_has_split(q->layout) && !q->layout->num_partial; }

static bool answer_layout(asking *q) {
  msc_arena *arena = msc_context_arena(q->c->ctx);
  msc_grid normal = q->grid;
  int64_t local[MSC_MAX_RANK];
  msc_grid_drop_ones(&normal);
  if (has_grid(q)) put_grid_json(q->out, &normal);
  msc_local_dims(&q->type, q->layout, local);
  put_json(q, "mesh", json_string(msc_mesh_print(arena, &q->mesh)));
  put_json(q, "layout", json_string(msc_layout_print(arena, &q->mesh, q->layout)));
  put_json(q, "slice_shape", cli_sizes_json(q->type.rank, local));
  if (cli_text(q->c, "rank")) return answer_rank(q);
  json_t *slices = json_array();
  for (int64_t i = 0; i < q->num_ranks; i++) json_array_append_new(slices, slice_json(q, i));
  return put_json(q, "slices", slices);
}

/* ---- refinements ---- */

static bool report_no_refinement(asking *q, const char *option, const char *what) {
  return msc_error(q->c->ctx, MSC_E_LAYOUT, cli_loc(q->c, option), "%s has no common refinement with the layout", what);
}

static bool unify_layouts(asking *q, msc_grid *other) {
  msc_grid both[2] = {q->grid, *other};
  if (!msc_grid_refine(2, both, (msc_grid_sizes){0}, (msc_grid_sizes){0}))
    return report_no_refinement(q, "--unify-with", "the other layout");
  return put_json(q, "unified_device_matrix", cli_sizes_json(both[0].num_axes, both[0].axis)) &&
         put_json(q, "unified_from_map", map_json(&both[0])) && put_json(q, "unified_to_map", map_json(&both[1])) &&
         put_json(q, "unified_shape", cli_sizes_json(both[0].num_dims, both[0].dim));
}

/* Another layout: {"device_matrix": ...}, the text of a layout on the same mesh, or another shape that
 * this one becomes. */
static bool unify_with_option(asking *q, const char *text) {
  cli *c = q->c;
  msc_grid other;
  if (*text == '{') {
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!j)
      return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--unify-with"),
                       "\"%s\" is not an object such as {\"device_matrix\": [2, 4], \"tensor_map\": [1, 0]}", text);
    bool ok = read_grid_json(c, "--unify-with", j, &q->grid, &other);
    json_decref(j);
    return ok && unify_layouts(q, &other);
  }
  if (*text == '[') {
    const msc_layout *l;
    MSC_TRY(msc_layout_parse(c->ctx, &q->mesh, cli_loc(c, "--unify-with"), text, &l));
    if (l->rank != q->type.rank)
      return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--unify-with"),
                       "layout \"%s\" has %d dimensions and the shape %d", text, l->rank, q->type.rank);
    msc_grid_of(&q->mesh, l, q->type.rank, q->type.dim, &other);
    return unify_layouts(q, &other);
  }
  other = (msc_grid){.num_axes = q->grid.num_axes};
  memcpy(other.axis, q->grid.axis, sizeof other.axis);
  return read_sizes(c, "--unify-with", text, MSC_MAX_RANK, &other.num_dims, other.dim) && unify_layouts(q, &other);
}

static bool expand_grid(asking *q, const char *option, bool is_shape) {
  const char *text = cli_text(q->c, option + 2);
  msc_grid g = q->grid;
  msc_grid_sizes wanted[2] = {{0, NULL}, {0, NULL}};
  int64_t size[MSC_GRID_DIMS];
  if (!text) return true;
  MSC_TRY(read_sizes(q->c, option, text, is_shape ? MSC_MAX_RANK : MSC_GRID_AXES / 2, &wanted[is_shape].num, size));
  wanted[is_shape].size = size;
  if (!msc_grid_refine(1, &g, wanted[0], wanted[1])) return report_no_refinement(q, option, text);
  json_t *j = json_object();
  put_grid_json(j, &g);
  return put_json(q, is_shape ? "expanded_shape" : "expanded_device_matrix", j);
}

static bool shard_further(asking *q) {
  const char *text = cli_text(q->c, "shard-copies");
  int64_t ways = cli_int(q->c, "shard-copies", -1), local[MSC_GRID_DIMS];
  msc_grid g = q->grid;
  if (!text) return true;
  if (ways == 0 || ways < -1)
    return msc_error(q->c->ctx, MSC_E_LAYOUT, cli_loc(q->c, "--shard-copies"),
                     "the number of parts must be at least 1, or -1 for as many as there are copies");
  if (!msc_grid_cut_copies(&g, ways))
    return msc_error(
        q->c->ctx, MSC_E_INFEASIBLE, cli_loc(q->c, "--shard-copies"),
        "dimension 0 cannot be cut further: the layout has no such number of copies, or they do not divide its slice");
  for (int d = 0; d < q->grid.num_dims; d++) { /* what was dimension 0 is now several */
    int at = d + (d ? g.num_dims - q->grid.num_dims : 0);
    local[d] = g.dim[at];
    for (int i = 0; i < g.num[at]; i++) local[d] /= g.axis[g.on[at][i]];
  }
  for (int d = 1; d <= g.num_dims - q->grid.num_dims; d++) {
    local[0] *= g.dim[d];
    for (int i = 0; i < g.num[d]; i++) local[0] /= g.axis[g.on[d][i]];
  }
  json_t *j = json_object();
  put_grid_json(j, &g);
  json_object_set_new(j, "slice_shape", cli_sizes_json(q->grid.num_dims, local));
  return put_json(q, "sharded_copies", j);
}

/* ---- without a layout ---- */

static bool answer_shapes(asking *q) {
  cli *c = q->c;
  static const char *const option[] = {"--unify-with", "--expand-shape"}, *const key[] = {"unified", "out"};
  int64_t a[MSC_MAX_RANK], b[MSC_MAX_RANK], all[2 * MSC_GRID_DIMS];
  int num_a, num_b;
  MSC_TRY(read_sizes(c, "--shape", cli_text(c, "shape"), MSC_MAX_RANK, &num_a, a));
  put_json(q, "shape", cli_sizes_json(num_a, a));
  for (int i = 0; i < 2; i++) {
    const char *text = cli_text(c, option[i] + 2);
    if (!text) continue;
    MSC_TRY(read_sizes(c, option[i], text, MSC_MAX_RANK, &num_b, b));
    int num = msc_sizes_refine((msc_grid_sizes){num_a, a}, (msc_grid_sizes){num_b, b}, all);
    if (!num)
      return msc_error(c->ctx, MSC_E_SHAPE, cli_loc(c, option[i]), "%s and %s have no common refinement",
                       cli_text(c, "shape"), text);
    put_json(q, key[i], cli_sizes_json(num, all));
  }
  return true;
}

static bool answer_stages(asking *q) {
  cli *c = q->c;
  int64_t size[256], at = 0;
  int num;
  json_t *stages = json_array();
  put_json(q, "stages", stages);
  MSC_TRY(read_ranks(c, "--ranks", cli_text(c, "ranks"), &q->num_ranks, &q->rank));
  MSC_TRY(read_sizes(c, "--stages", cli_text(c, "stages"), 256, &num, size));
  for (int s = 0; s < num; s++) {
    if (size[s] > q->num_ranks - at)
      return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--stages"),
                       "the stages need more ranks than the %" PRId64 " listed", q->num_ranks);
    json_array_append_new(stages, cli_sizes_json((int)size[s], q->rank + at));
    at += size[s];
  }
  if (at != q->num_ranks)
    return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--stages"),
                     "the stages have %" PRId64 " ranks together, %" PRId64 " are listed", at, q->num_ranks);
  if (cli_text(c, "rank")) {
    int64_t mine, first = 0;
    int s = 0;
    MSC_TRY(find_rank(q, &mine));
    while (mine >= first + size[s]) first += size[s++];
    put_json(q, "stage_id", json_integer(s));
    put_json(q, "rank_in_stage", json_integer(mine - first));
  }
  return put_json(q, "device_num", json_integer(q->num_ranks)) && put_json(q, "stage_num", json_integer(num));
}

/* ---- the command ---- */

static bool answer(asking *q) {
  cli *c = q->c;
  if (cli_text(c, "stages")) return answer_stages(q);
  if (!cli_text(c, "mesh") && !cli_text(c, "device-matrix")) return answer_shapes(q);
  MSC_TRY(read_asked_layout(q) && place_ranks(q) && answer_layout(q));
  static const char *const refining[] = {"unify-with", "expand-device-matrix", "expand-shape", "shard-copies"};
  for (size_t i = 0; i < sizeof refining / sizeof *refining && !has_grid(q); i++)
    if (cli_text(c, refining[i]))
      return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--layout"),
                       "layout \"%s\" has no device matrix, which --%s needs: parts of chosen sizes, or pending sums",
                       cli_text(c, "layout"), refining[i]);
  bool ok = !cli_text(c, "unify-with") || unify_with_option(q, cli_text(c, "unify-with"));
  ok = expand_grid(q, "--expand-device-matrix", false) && ok;
  ok = expand_grid(q, "--expand-shape", true) && ok;
  return shard_further(q) && ok;
}

static void print_lines(json_t *j) {
  const char *key;
  json_t *value;
  json_object_foreach(j, key, value) {
    if (json_is_array(value) && json_is_object(json_array_get(value, 0))) {
      for (size_t i = 0; i < json_array_size(value); i++) {
        char *text = json_dumps(json_array_get(value, i), JSON_COMPACT);
        printf("%-22s %s\n", i ? "" : key, text ? text : "");
        free(text);
      }
      continue;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    printf("%-22s %s\n", key, text ? text : "");
    free(text);
  }
}

static int check_layout_usage(cli *c) {
  bool named = cli_text(c, "mesh") || cli_text(c, "layout"),
       grid = cli_text(c, "device-matrix") || cli_text(c, "tensor-map");
  if (cli_text(c, "stages")) return cli_text(c, "ranks") ? CLI_OK : cli_usage(c, "--stages needs --ranks");
  if (!cli_text(c, "shape")) return cli_usage(c, "--shape is missing");
  if (named && grid) return cli_usage(c, "--mesh and --layout, or --device-matrix and --tensor-map: not both");
  if (named && !(cli_text(c, "mesh") && cli_text(c, "layout")))
    return cli_usage(c, "--mesh and --layout belong together");
  if (grid && !(cli_text(c, "device-matrix") && cli_text(c, "tensor-map")))
    return cli_usage(c, "--device-matrix and --tensor-map belong together");
  if (!named && !grid && !cli_text(c, "unify-with") && !cli_text(c, "expand-shape"))
    return cli_usage(c, "needs --mesh and --layout, or --device-matrix and --tensor-map");
  return CLI_OK;
}

static int run_layout(cli *c) {
  int code = check_layout_usage(c);
  if (code != CLI_OK) return code;
  asking q = {.c = c, .out = json_object()};
  bool ok = answer(&q);
  if (ok && c->json) {
    json_dumpf(q.out, stdout, JSON_COMPACT);
    putchar('\n');
  } else if (ok) {
    print_lines(q.out);
  }
  json_decref(q.out);
  return ok ? CLI_OK : CLI_INPUT;
}

static const cli_option options[] = {
  {"mesh", CLI_TEXT, "AXES", "the devices, first axis major: x=2,y=4"},
  {"layout", CLI_TEXT, "LAYOUT", "on that mesh: [{x},{y}]"},
  {"device-matrix", CLI_TEXT, "SIZES", "instead of both: 2,1,4"},
  {"tensor-map", CLI_TEXT, "AXES",
   "with it, by dimension the axis counted from the right, -1 whole, a list for several: 1,[2,0]"},
  {"shape", CLI_TEXT, "SIZES", "the tensor's global shape: 32,784"},
  {"ranks", CLI_TEXT, "RANKS", "who the devices are, in order: 0..7, or 5,3,1,0"},
  {"rank", CLI_INT, "R", "slice, groups per axis and ranks with the same slice for this one"},
  {"unify-with", CLI_TEXT, "LAYOUT|SHAPE",
   "common refinement with {\"device_matrix\":..,\"tensor_map\":..,\"shape\":..}, a layout on the mesh, or a shape"},
  {"expand-device-matrix", CLI_TEXT, "SIZES", "the layout on a finer device matrix"},
  {"expand-shape", CLI_TEXT, "SIZES", "the layout of a finer shape; without a layout: both shapes' refinement"},
  {"shard-copies", CLI_INT, "N",
   "dimension 0 cut N times further along axes that hold copies (-1: all), as an optimizer shards"},
  {"stages", CLI_TEXT, "SIZES", "with --ranks: the ranks of stages of these sizes"},
  {0},
};
const cli_command cmd_layout = {"", 0, 0, options, run_layout};
