/* read_grid.c: texts of options -> sizes, grids and rank lists; grids -> JSON (see read_grid.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/solve/read_grid.h"

static const char *behind_blanks(const char *p) { return p + strspn(p, " \t"); }

/* Moves from behind an element to the next one. False if there is no comma between them, or nothing behind it. */
static bool pass_comma(const char **p) {
  const char *comma = behind_blanks(*p);
  *p = behind_blanks(comma + (*comma == ','));
  return !*comma || (*comma == ',' && **p);
}

/* Reads a list of at most `max` numbers of at least `least`; `noun` names them in messages. */
static bool read_listed_sizes(cli *c, const char *option, const char *text, const char *noun, int64_t least,
                              int max, int *out_num, int64_t *out_size) {
  const msc_loc *loc = cli_loc(c, option);
  *out_num = 0;
  for (const char *p = behind_blanks(text); *p;) {
    const char *begin = p;
    char *end;
    errno = 0;
    long long n = strtoll(p, &end, 10);
    p = end;
    if (end == begin || *begin < '0' || *begin > '9' || !pass_comma(&p))
      return msc_error(c->ctx, MSC_E_SHAPE, loc, "\"%s\" is not a list of sizes such as 16,16,16", text);
    if (*out_num == max) return msc_error(c->ctx, MSC_E_SHAPE, loc, "\"%s\" has more than %d %s", text, max, noun);
    if (errno || n < least || n > INT64_MAX / 16)
      return msc_error(c->ctx, MSC_E_SHAPE, loc, "\"%s\": %.*s is %s", text, (int)(end - begin), begin,
                       n < least ? "no size" : "too large");
    out_size[(*out_num)++] = n;
  }
  return true;
}

bool read_sizes(cli *c, const char *option, const char *text, int max, int *out_num, int64_t *out_size) {
  return read_listed_sizes(c, option, text, "numbers", 1, max, out_num, out_size);
}

bool read_shape(cli *c, const char *option, const char *text, int *out_rank, int64_t *out_dim) {
  return read_listed_sizes(c, option, text, "dimensions", 0, MSC_MAX_RANK, out_rank, out_dim);
}

/* ---- grids ---- */

static bool read_size_list(cli *c, const msc_loc *loc, const char *what, const json_t *list, int max, int *out_num,
                           int64_t *out_size) {
  if (!json_is_array(list) || json_array_size(list) > (size_t)max)
    return msc_error(c->ctx, MSC_E_LAYOUT, loc, "%s must be a list of at most %d sizes", what, max);
  *out_num = (int)json_array_size(list);
  for (int i = 0; i < *out_num; i++) {
    const json_t *n = json_array_get(list, (size_t)i);
    if (!json_is_integer(n) || json_integer_value(n) < 1)
      return msc_error(c->ctx, MSC_E_LAYOUT, loc, "%s: entry %d is no size of at least 1", what, i);
    out_size[i] = json_integer_value(n);
  }
  return true;
}

static bool put_grid_axis(cli *c, const msc_loc *loc, msc_grid *g, int d, const json_t *entry, bool in_list) {
  json_int_t k = json_integer_value(entry);
  if (!json_is_integer(entry) || k < (in_list ? 0 : -1) || k >= g->num_axes)
    return msc_error(
        c->ctx, MSC_E_LAYOUT, loc,
        "tensor map: entry %d must be an axis of the device matrix, counted from the right, 0 to %d, or -1", d,
        g->num_axes - 1);
  if (k >= 0) g->on[d][g->num[d]++] = (uint8_t)(g->num_axes - 1 - k);
  return true;
}

static bool read_map(cli *c, const msc_loc *loc, const json_t *map, msc_grid *g) {
  if (!json_is_array(map) || json_array_size(map) != (size_t)g->num_dims)
    return msc_error(c->ctx, MSC_E_LAYOUT, loc,
                     "the tensor map must be a list with one entry for each of the %d dimensions", g->num_dims);
  for (int d = 0; d < g->num_dims; d++) {
    const json_t *entry = json_array_get(map, (size_t)d);
    if (!json_is_array(entry)) {
      MSC_TRY(put_grid_axis(c, loc, g, d, entry, false));
      continue;
    }
    for (size_t i = 0; i < json_array_size(entry) && i < MSC_GRID_AXES; i++)
      MSC_TRY(put_grid_axis(c, loc, g, d, json_array_get(entry, i), true));
  }
  const char *fault = msc_grid_fault(c->ctx, g);
  if (fault) return msc_error(c->ctx, MSC_E_LAYOUT, loc, "%s", fault);
  for (int d = 0; d < g->num_dims; d++) {
    int64_t left = g->dim[d];
    for (int i = 0; i < g->num[d]; i++) left = left % g->axis[g->on[d][i]] ? 0 : left / g->axis[g->on[d][i]];
    if (!left)
      return msc_error(c->ctx, MSC_E_LAYOUT, loc,
                       "dimension %d has %" PRId64 " elements, which the devices it lies on do not divide", d,
                       g->dim[d]);
  }
  return true;
}

bool read_grid_json(cli *c, const char *option, const json_t *j, const msc_grid *like, msc_grid *out_grid) {
  const msc_loc *loc = cli_loc(c, option);
  const json_t *shape = json_object_get(j, "shape");
  memset(out_grid, 0, sizeof *out_grid);
  MSC_TRY(read_size_list(c, loc, "device_matrix", json_object_get(j, "device_matrix"), MSC_MAX_AXES,
                         &out_grid->num_axes, out_grid->axis));
  if (shape || !like) MSC_TRY(read_size_list(c, loc, "shape", shape, MSC_MAX_RANK, &out_grid->num_dims, out_grid->dim));
  else memcpy(out_grid->dim, like->dim, sizeof like->dim), out_grid->num_dims = like->num_dims;
  return read_map(c, loc, json_object_get(j, "tensor_map"), out_grid);
}

bool read_grid(cli *c, const char *matrix, const char *map, const char *shape, msc_grid *out_grid) {
  const msc_loc *loc = cli_loc(c, "--tensor-map");
  memset(out_grid, 0, sizeof *out_grid);
  MSC_TRY(read_sizes(c, "--device-matrix", matrix, MSC_MAX_AXES, &out_grid->num_axes, out_grid->axis));
  MSC_TRY(read_sizes(c, "--shape", shape, MSC_MAX_RANK, &out_grid->num_dims, out_grid->dim));
  json_t *j = json_loads(msc_arena_printf(msc_context_arena(c->ctx), "[%s]", map), 0, NULL);
  if (!j) return msc_error(c->ctx, MSC_E_LAYOUT, loc, "\"%s\" is not a list of axes such as 1,[2,0],-1", map);
  bool ok = read_map(c, loc, j, out_grid);
  json_decref(j);
  return ok;
}

/* ---- ranks ---- */

static int compare_int64(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static bool read_rank(const char **p, int64_t *out_rank) {
  char *end;
  if (**p < '0' || **p > '9') return false;
  errno = 0;
  *out_rank = strtoll(*p, &end, 10);
  *p = end;
  return !errno && *out_rank < INT32_MAX;
}

bool read_ranks(cli *c, const char *option, const char *text, int64_t *out_num, int64_t **out_rank) {
  const msc_loc *loc = cli_loc(c, option);
  int64_t *rank = msc_new_array(msc_context_arena(c->ctx), int64_t, MSC_MAX_DEVICES), num = 0, from, to;
  for (const char *p = behind_blanks(text); *p;) {
    bool ok = read_rank(&p, &from);
    to = from;
    if (ok && !strncmp(p, "..", 2)) {
      p += 2;
      ok = read_rank(&p, &to) && to >= from;
    }
    if (!ok || !pass_comma(&p))
      return msc_error(c->ctx, MSC_E_LAYOUT, loc, "\"%s\" is not a list of ranks such as 0..7 or 5,3,1,0", text);
    if (to - from >= MSC_MAX_DEVICES - num)
      return msc_error(c->ctx, MSC_E_LAYOUT, loc, "\"%s\": more than %d ranks", text, MSC_MAX_DEVICES);
    while (from <= to) rank[num++] = from++;
  }
  int64_t *sorted = msc_arena_copy(msc_context_arena(c->ctx), rank, (size_t)num * sizeof *rank);
  qsort(sorted, (size_t)num, sizeof *sorted, compare_int64);
  for (int64_t i = 1; i < num; i++)
    if (sorted[i] == sorted[i - 1])
      return msc_error(c->ctx, MSC_E_LAYOUT, loc, "rank %" PRId64 " is listed twice", sorted[i]);
  *out_num = num;
  *out_rank = rank;
  return true;
}

/* ---- JSON ---- */

json_t *cli_sizes_json(int num, const int64_t *size) {
  json_t *list = json_array();
  for (int i = 0; i < num; i++) json_array_append_new(list, json_integer(size[i]));
  return list;
}

json_t *map_json(const msc_grid *g) {
  json_t *map = json_array();
  for (int d = 0; d < g->num_dims; d++) {
    json_t *list = json_array();
    for (int i = 0; i < g->num[d]; i++) json_array_append_new(list, json_integer(g->num_axes - 1 - g->on[d][i]));
    json_array_append_new(
        map, g->num[d] > 1 ? json_incref(list) : json_integer(g->num[d] ? g->num_axes - 1 - g->on[d][0] : -1));
    json_decref(list);
  }
  return map;
}
