/* open_sizes.c: a model whose source leaves sizes open in; the bytes of one model.fbs for all sizes out.  The source is
 * read once for each of several values of the sizes, and numbers that differ become formulas; these are checked also
 * for sizes of 1 and large ones, because a number may change only above some size. */
#include <string.h>

#include "ir/fbs/join_points.h"

/* Three values of each size, whose distances have no common divisor, so that no formula fits a number that is rounded.
 */
static const int64_t usual[MSC_MAX_OPEN_SIZES][3] = {{23, 30, 41}, {26, 35, 46}, {19, 32, 37}, {17, 28, 43}};
static const int64_t far_sizes[] = {1 << 16, 1 << 12, 1 << 9}, near_sizes[] = {1, 2};

typedef struct {
  const msc_model_bytes *source;
  msc_finish_fn *finish;
  void *user;
} open_source;

/* Reads the source for the sizes of point p, which is then the last one. */
static bool read_point(fbs_open *o, const open_source *r, size_t p) {
  fbs_point *point = &o->point[p];
  msc_model_bytes source = *r->source;
  msc_dim_size *dim = msc_new_array(o->arena, msc_dim_size, source.num_dims + o->num_names + 1);
  if (source.num_dims) memcpy(dim, source.dim, source.num_dims * sizeof *dim);
  for (size_t i = 0; i < o->num_names; i++) dim[source.num_dims++] = (msc_dim_size){o->name[i], point->size[i]};
  point->weights = (msc_weights){.file = source.weights->file};
  source.dim = dim, source.weights = &point->weights;
  point->module = msc_read_onnx_at(o->ctx, &source);
  MSC_TRY(point->module && (!r->finish || r->finish(r->user, point->module)));
  point->forward = msc_program_func(point->module, MSC_PROGRAM_FORWARD);
  o->num_points = p + 1;
  return true;
}

static bool report_difference(fbs_open *o, const msc_model_bytes *source) {
  const char *names = o->name[0];
  for (size_t i = 1; i < o->num_names; i++) names = msc_arena_printf(o->arena, "%s, %s", names, o->name[i]);
  const char *fmt = "%s does not follow from the open sizes (%s) by sums and products; --dim %s=... gives a size";
  if (o->wrong_op) return msc_op_error(o->wrong_op, MSC_E_UNSUPPORTED, fmt, o->wrong, names, o->name[0]);
  const msc_loc here = {.file = msc_intern(o->ctx, source->name), .implied = true};
  return msc_error(o->ctx, MSC_E_UNSUPPORTED, msc_loc_of(o->ctx, &here), fmt, o->wrong, names, o->name[0]);
}

/* Adds a note with the sizes for which the source could not be read. */
static bool note_sizes(fbs_open *o, const fbs_point *p, const msc_model_bytes *source) {
  const msc_loc here = {.file = msc_intern(o->ctx, source->name), .implied = true};
  const char *text = "";
  for (size_t i = 0; i < o->num_names; i++)
    text = msc_arena_printf(o->arena, "%s%s=%" PRId64 ", ", text, o->name[i], p->size[i]);
  if (msc_num_errors(o->ctx))
    msc_note(o->ctx, msc_loc_of(o->ctx, &here), "read for %swhich the file leaves open; --dim %s=... gives a size",
             text, o->name[0]);
  return false;
}

static bool find_formulas(fbs_open *o, const open_source *r) {
  size_t corners = (size_t)1 << o->num_names;
  for (size_t p = 0; p <= corners; p++) {
    for (size_t i = 0; i < o->num_names; i++) o->point[p].size[i] = usual[i][p == corners ? 2 : p >> i & 1];
    if (!read_point(o, r, p)) return note_sizes(o, &o->point[p], r->source);
  }
  return fbs_join_points(o, false) || report_difference(o, r->source);
}

/* Adds a point with the first of `num` sizes for which the formulas hold while the other sizes are usual ones.  False:
 * they hold for none. */
static bool try_sizes(fbs_open *o, const open_source *r, size_t name, size_t num, const int64_t *size, int64_t *out) {
  size_t p = o->num_points;
  for (size_t k = 0; k < num; k++) {
    msc_diag_mark mark = msc_mark_diags(o->ctx);
    for (size_t i = 0; i < o->num_names; i++) o->point[p].size[i] = i == name ? size[k] : usual[i][0];
    bool ok = read_point(o, r, p) && fbs_join_points(o, false);
    msc_forget_diags(o->ctx, mark);
    *out = size[k];
    if (ok) return true;
    o->num_points = p;
  }
  return false;
}

static void find_bounds(fbs_open *o, const open_source *r) {
  for (size_t i = 0; i < o->num_names; i++) {
    if (!try_sizes(o, r, i, sizeof near_sizes / sizeof *near_sizes, near_sizes, &o->low[i])) o->low[i] = usual[i][0];
    if (!try_sizes(o, r, i, sizeof far_sizes / sizeof *far_sizes, far_sizes, &o->high[i])) o->high[i] = usual[i][2];
  }
}

const void *msc_write_open_fbs(msc_context *ctx, const msc_model_bytes *source, size_t num, const char *const *name,
                               msc_finish_fn *finish, void *user, size_t *out_bytes) {
  msc_arena *arena = msc_context_arena(ctx);
  const open_source r = {source, finish, user};
  const msc_loc here = {.file = msc_intern(ctx, source->name), .implied = true};
  if (num > MSC_MAX_OPEN_SIZES)
    return msc_error(ctx, MSC_E_UNSUPPORTED, msc_loc_of(ctx, &here),
                     "%zu sizes are left open, at most %d can be; --dim %s=... gives a size", num, MSC_MAX_OPEN_SIZES,
                     name[0]),
           NULL;
  fbs_open *o = msc_new(arena, fbs_open);
  o->ctx = ctx, o->arena = o->items.index.arena = arena, o->num_names = num, o->name = name;
  if (!find_formulas(o, &r)) return NULL;
  find_bounds(o, &r);
  if (!fbs_join_points(o, true)) return report_difference(o, source), NULL;
  *source->weights = o->point[0].weights;
  const void *data = fbs_write_open(o, arena, out_bytes);
  msc_dim_size *dim = msc_new_array(arena, msc_dim_size, num);
  for (size_t i = 0; i < num; i++) dim[i] = (msc_dim_size){name[i], o->point[0].size[i]};
  /* The file is read back, so that faults of the source by the rules of model.fbs are reported now, and not when the
   * user compiles it. */
  return data && msc_read_fbs(ctx, source->name, data, *out_bytes, num, dim, NULL) ? data : NULL;
}
