/* grid.c: a mesh and a layout in, a grid out, and back; grids in, their common refinement out (see grid.h). */
#include <string.h>

#include "ir/layout/grid.h"

/* ---- checks ---- */

const char *msc_grid_fault(msc_context *ctx, const msc_grid *g) {
  msc_arena *a = msc_context_arena(ctx);
  int64_t devices = 1;
  uint32_t used = 0;
  for (int i = 0; i < g->num_axes; i++) {
    if (g->axis[i] < 1)
      return msc_arena_printf(a, "axis %d of the device matrix has %" PRId64 " devices", i, g->axis[i]);
    if (g->axis[i] > MSC_MAX_DEVICES || (devices *= g->axis[i]) > MSC_MAX_DEVICES)
      return msc_arena_printf(a, "the device matrix has more than %d devices", MSC_MAX_DEVICES);
  }
  for (int d = 0; d < g->num_dims; d++)
    for (int i = 0; i < g->num[d]; i++) {
      if (g->on[d][i] >= g->num_axes)
        return msc_arena_printf(
            a, "entry %d of the tensor map names an axis that a device matrix of %d axes does not have", d,
            g->num_axes);
      if (used >> g->on[d][i] & 1)
        return msc_arena_printf(a, "axis %d of the device matrix, counted from the right, is used twice",
                                g->num_axes - 1 - g->on[d][i]);
      used |= 1u << g->on[d][i];
    }
  return NULL;
}

int64_t msc_grid_devices(const msc_grid *g) {
  int64_t n = 1;
  for (int i = 0; i < g->num_axes; i++) n *= g->axis[i];
  return n;
}

/* The number of parts of dimension d. */
static int64_t parts(const msc_grid *g, int d) {
  int64_t n = 1;
  for (int i = 0; i < g->num[d]; i++) n *= g->axis[g->on[d][i]];
  return n;
}

/* ---- mesh and layout ---- */

/* The first border behind `pre` at which the layout cuts axis a; the axis's size when there is none. */
static uint32_t next_border(const msc_mesh *mesh, const msc_layout *l, int a, uint32_t pre) {
  uint32_t end = (uint32_t)mesh->axis[a].size;
  for (int i = 0; i < l->first[l->rank] + l->num_partial; i++) {
    if ((int)l->sub[i].axis != a) continue;
    uint32_t borders[2] = {l->sub[i].pre, l->sub[i].pre * l->sub[i].size};
    for (int k = 0; k < 2; k++)
      if (borders[k] > pre && borders[k] < end) end = borders[k];
  }
  return end;
}

void msc_grid_of(const msc_mesh *mesh, const msc_layout *l, int rank, const int64_t *dim, msc_grid *out_grid) {
  msc_subaxis digit[MSC_GRID_AXES];
  memset(out_grid, 0, sizeof *out_grid);
  for (int a = 0; a < mesh->num_axes; a++)
    for (uint32_t pre = 1, end; pre < (uint32_t)mesh->axis[a].size; pre = end) {
      end = next_border(mesh, l, a, pre);
      digit[out_grid->num_axes] = (msc_subaxis){(uint32_t)a, pre, end / pre};
      out_grid->axis[out_grid->num_axes++] = end / pre;
    }
  out_grid->num_dims = rank;
  for (int d = 0; d < rank; d++) {
    out_grid->dim[d] = dim[d];
    for (int i = l->first[d]; i < l->first[d + 1]; i++)
      for (int k = 0; k < out_grid->num_axes; k++)
        if (digit[k].axis == l->sub[i].axis && digit[k].pre >= l->sub[i].pre &&
            digit[k].pre < l->sub[i].pre * l->sub[i].size)
          out_grid->on[d][out_grid->num[d]++] = (uint8_t)k;
  }
}

bool msc_grid_layout(msc_context *ctx, const msc_grid *g, int64_t devices, msc_mesh *out_mesh,
                     const msc_layout **out_layout) {
  msc_layout raw;
  msc_subaxis digit[MSC_GRID_AXES];
  uint32_t pre = (uint32_t)(devices / msc_grid_devices(g));
  int num = 0;
  if (g->num_dims > MSC_MAX_RANK) return false;
  for (int i = 0; i < g->num_axes; pre *= (uint32_t)g->axis[i++])
    digit[i] = (msc_subaxis){0, pre, (uint32_t)g->axis[i]};
  memset(&raw, 0, sizeof raw);
  raw.rank = (uint8_t)g->num_dims;
  for (int d = 0; d < g->num_dims; d++) {
    for (int i = 0; i < g->num[d]; i++) {
      if (g->axis[g->on[d][i]] == 1) continue;
      if (num == MSC_MAX_SUBAXES) return false;
      raw.sub[num++] = digit[g->on[d][i]];
    }
    raw.first[d + 1] = (uint8_t)num;
  }
  *out_mesh = (msc_mesh){.num_axes = 1, .axis = {{msc_intern(ctx, "d"), devices}}};
  *out_layout = msc_layout_of(ctx, out_mesh, &raw);
  return true;
}

/* ---- normal form ---- */

void msc_grid_drop_ones(msc_grid *g) {
  uint8_t now[MSC_GRID_AXES];
  int kept = 0;
  for (int i = 0; i < g->num_axes; i++) {
    now[i] = (uint8_t)kept;
    if (g->axis[i] > 1) g->axis[kept++] = g->axis[i];
    else now[i] = UINT8_MAX;
  }
  g->num_axes = kept;
  for (int d = 0; d < g->num_dims; d++) {
    int n = 0;
    for (int i = 0; i < g->num[d]; i++)
      if (now[g->on[d][i]] != UINT8_MAX) g->on[d][n++] = now[g->on[d][i]];
    g->num[d] = (uint8_t)n;
  }
}

/* ---- borders: products of leading sizes, ascending, each dividing the next ---- */

typedef struct {
  int num;
  int64_t at[2 * MSC_GRID_DIMS];
  bool grew;
} borders;

static bool put_border(borders *b, int64_t at) {
  int i = 0;
  while (i < b->num && b->at[i] < at) i++;
  if (at == 1 || (i < b->num && b->at[i] == at)) return true;
  if (b->num == MSC_GRID_DIMS || (i > 0 && at % b->at[i - 1]) || (i < b->num && b->at[i] % at)) return false;
  memmove(b->at + i + 1, b->at + i, sizeof *b->at * (size_t)(b->num - i));
  b->at[i] = at;
  b->num++;
  b->grew = true;
  return true;
}

static bool put_sizes(borders *b, msc_grid_sizes s, int64_t before) {
  for (int i = 0; i < s.num; i++)
    if (s.size[i] < 1 || __builtin_mul_overflow(before, s.size[i], &before) || !put_border(b, before)) return false;
  return true;
}

static int border_sizes(const borders *b, int64_t *out_size) {
  for (int i = 0; i < b->num; i++) out_size[i] = b->at[i] / (i ? b->at[i - 1] : 1);
  return b->num;
}

/* The number of the first factor behind border `at`, which is 1 or one of b's. */
static int find_border(const borders *b, int64_t at) {
  int i = 0;
  while (i < b->num && b->at[i] <= at) i++;
  return i;
}

static int64_t product_of_sizes(msc_grid_sizes s) {
  int64_t n = 1;
  for (int i = 0; i < s.num; i++)
    if (__builtin_mul_overflow(n, s.size[i], &n)) return -1;
  return n;
}

int msc_sizes_refine(msc_grid_sizes a, msc_grid_sizes b, int64_t *out_size) {
  int64_t na = product_of_sizes(a), nb = product_of_sizes(b), all = na > nb ? na : nb;
  borders all_of = {0};
  if (na < 1 || nb < 1 || all % na || all % nb) return 0;
  if (!put_sizes(&all_of, a, all / na) || !put_sizes(&all_of, b, all / nb) || !put_border(&all_of, all / na) ||
      !put_border(&all_of, all / nb))
    return 0;
  return border_sizes(&all_of, out_size);
}

/* ---- common refinement ---- */

typedef struct {
  borders axes, dims;
} refinement;

/* Adds a major axis that cuts nothing: the device matrix is repeated `copies` times. */
static void prepend(msc_grid *g, int64_t copies) {
  if (copies == 1) return;
  memmove(g->axis + 1, g->axis, sizeof *g->axis * (size_t)g->num_axes++);
  g->axis[0] = copies;
  for (int d = 0; d < g->num_dims; d++)
    for (int i = 0; i < g->num[d]; i++) g->on[d][i]++;
}

/* The axes of the refined device matrix that axis `of` of g is divided into: returns how many, from out_first on. */
static int axis_digits(const refinement *r, const msc_grid *g, int of, int *out_first) {
  int64_t before = 1;
  for (int i = 0; i < of; i++) before *= g->axis[i];
  *out_first = find_border(&r->axes, before);
  return find_border(&r->axes, before * g->axis[of]) - *out_first;
}

/* Assigns the refined axes that cut dimension d to the factors it is divided into, major first, at most one to each:
 * out_axis[i] is the axis of factor i or -1.  Where an axis spans two factors or two axes meet in one factor, the
 * border that separates them is added, and the result is false; *out_none: no border can. */
static bool deal_dim(refinement *r, const msc_grid *g, int d, int64_t before, int *out_axis, bool *out_none) {
  int64_t axis[MSC_GRID_AXES], factor[MSC_GRID_DIMS];
  int first = find_border(&r->dims, before), last = find_border(&r->dims, before * g->dim[d]), at = first;
  border_sizes(&r->axes, axis);
  border_sizes(&r->dims, factor);
  int64_t left = at < last ? factor[at] : 1, done = before;
  bool has_axis = false;
  for (int i = first; i < last; i++) out_axis[i] = -1;
  for (int i = 0; i < g->num[d]; i++) {
    int digit, n = axis_digits(r, g, g->on[d][i], &digit);
    for (int k = digit; k < digit + n; k++) {
      while (left == 1 && at + 1 < last) left = factor[++at], has_axis = false;
      int64_t up_to = k ? r->axes.at[k - 1] : 1;
      if (left > 1 && axis[k] > left && axis[k] % left == 0) { /* the axis spans this factor and the next */
        *out_none |= !put_border(&r->axes, up_to * left);
        return false;
      }
      if (left % axis[k]) return !(*out_none = true);
      if (has_axis) { /* two axes meet in one factor */
        *out_none |= !put_border(&r->dims, done);
        return false;
      }
      out_axis[at] = k;
      has_axis = true;
      done *= axis[k];
      left /= axis[k];
    }
  }
  return true;
}

/* Does deal_dim for all dimensions of all grids; false when borders were added or there is no way. */
static bool deal_all(refinement *r, int num, const msc_grid *g, int (*out_axis)[MSC_GRID_DIMS], bool *out_none) {
  bool ok = true;
  for (int n = 0; n < num; n++) {
    int64_t before = 1;
    for (int d = 0; d < g[n].num_dims && !*out_none; before *= g[n].dim[d++])
      ok &= deal_dim(r, &g[n], d, before, out_axis[n], out_none);
  }
  return ok;
}

/* Makes g the grid with r's axes and dimensions in which axis[d] cuts dimension d. */
static void rebuild(const refinement *r, msc_grid *g, const int *axis) {
  memset(g, 0, sizeof *g);
  g->num_axes = border_sizes(&r->axes, g->axis);
  g->num_dims = border_sizes(&r->dims, g->dim);
  for (int d = 0; d < g->num_dims; d++)
    if (axis[d] >= 0) g->on[d][g->num[d]++] = (uint8_t)axis[d];
}

enum { MAX_GRIDS = 2 };

bool msc_grid_refine(int num, msc_grid *g, msc_grid_sizes axes, msc_grid_sizes dims) {
  refinement r = {0};
  int axis[MAX_GRIDS][MSC_GRID_DIMS];
  int64_t devices = 1;
  for (int n = 0; n < num; n++) devices = msc_grid_devices(&g[n]) > devices ? msc_grid_devices(&g[n]) : devices;
  for (int n = 0; n < num; n++) {
    if (devices % msc_grid_devices(&g[n]) || g[n].num_axes == MSC_GRID_AXES) return false;
    prepend(&g[n], devices / msc_grid_devices(&g[n]));
    msc_grid_drop_ones(&g[n]);
    if (product_of_sizes((msc_grid_sizes){g[n].num_dims, g[n].dim}) !=
        product_of_sizes((msc_grid_sizes){g[0].num_dims, g[0].dim}))
      return false;
    if (!put_sizes(&r.axes, (msc_grid_sizes){g[n].num_axes, g[n].axis}, 1) ||
        !put_sizes(&r.dims, (msc_grid_sizes){g[n].num_dims, g[n].dim}, 1))
      return false;
  }
  if (!put_sizes(&r.axes, axes, 1) || !put_sizes(&r.dims, dims, 1)) return false;
  if (r.axes.num && r.axes.at[r.axes.num - 1] != devices) return false;
  if (r.dims.num && r.dims.at[r.dims.num - 1] != product_of_sizes((msc_grid_sizes){g[0].num_dims, g[0].dim}))
    return false;
  bool done = false, none = false;
  while (!done && !none) { /* ends: borders only grow, and are bounded */
    r.axes.grew = r.dims.grew = false;
    done = deal_all(&r, num, g, axis, &none);
    none |= !done && !r.axes.grew && !r.dims.grew;
  }
  for (int n = 0; done && n < num; n++) rebuild(&r, &g[n], axis[n]);
  return done && !none;
}

/* ---- the optimizer's cut ---- */

/* Splits axis `a` into a major axis and a minor one of `minor` devices. */
static void split_axis(msc_grid *g, int a, int64_t minor) {
  memmove(g->axis + a + 2, g->axis + a + 1, sizeof *g->axis * (size_t)(g->num_axes++ - a - 1));
  g->axis[a] /= minor;
  g->axis[a + 1] = minor;
  for (int d = 0; d < g->num_dims; d++)
    for (int i = 0; i < g->num[d]; i++) g->on[d][i] = (uint8_t)(g->on[d][i] + (g->on[d][i] > a));
}

/* The axes that cut nothing, minor first, whose sizes multiply to `ways` (-1: all of them); the last one is split if
 * only a part of it is needed.  Returns how many, 0: there are too few. */
static int take_copies(msc_grid *g, int64_t ways, int *out_axis) {
  uint32_t used = 0;
  int num = 0;
  for (int d = 0; d < g->num_dims; d++)
    for (int i = 0; i < g->num[d]; i++) used |= 1u << g->on[d][i];
  for (int a = g->num_axes - 1; a >= 0 && ways != 1; a--) {
    if (used >> a & 1 || g->axis[a] == 1) continue;
    if (ways > 0 && ways < g->axis[a] && g->axis[a] % ways == 0 && g->num_axes < MSC_GRID_AXES) {
      split_axis(g, a, ways);
      for (int i = 0; i < num; i++) out_axis[i]++;
      a++;
    }
    if (ways > 0 && ways % g->axis[a]) return 0;
    if (ways > 0) ways /= g->axis[a];
    out_axis[num++] = a;
  }
  return ways > 1 ? 0 : num;
}

bool msc_grid_cut_copies(msc_grid *g, int64_t ways) {
  int axis[MSC_GRID_AXES], num = g->num_dims ? take_copies(g, ways, axis) : 0;
  int64_t cut = 1;
  for (int i = 0; i < num; i++) cut *= g->axis[axis[i]];
  if (!num || g->num_dims + num > MSC_GRID_DIMS || g->dim[0] % (parts(g, 0) * cut)) return false;
  memmove(g->dim + 1 + num, g->dim + 1, sizeof *g->dim * (size_t)(g->num_dims - 1));
  memmove(g->num + 1 + num, g->num + 1, sizeof *g->num * (size_t)(g->num_dims - 1));
  memmove(g->on + 1 + num, g->on + 1, sizeof *g->on * (size_t)(g->num_dims - 1));
  g->num_dims += num;
  int64_t rest = g->dim[0] / parts(g, 0);
  g->dim[0] = parts(g, 0);
  for (int i = 0; i < num; i++) { /* majors first */
    int a = axis[num - 1 - i];
    g->num[1 + i] = 1;
    g->on[1 + i][0] = (uint8_t)a;
    g->dim[1 + i] = i < num - 1 ? g->axis[a] : rest;
    rest /= g->axis[a];
  }
  return true;
}
