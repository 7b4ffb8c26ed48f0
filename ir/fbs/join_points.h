/* join_points.h: readings of one model for several values of its open sizes in; the differences as formulas out. */
#ifndef MSC_IR_FBS_JOIN_POINTS_H
#define MSC_IR_FBS_JOIN_POINTS_H

#include "ir/open_sizes.h"
#include "ir/table.h"

enum { FBS_MAX_POINTS = (1 << MSC_MAX_OPEN_SIZES) + 1 + 2 * MSC_MAX_OPEN_SIZES };

/* One reading: the model with all sizes given. */
typedef struct {
  int64_t size[MSC_MAX_OPEN_SIZES];
  msc_module *module;
  msc_func *forward;
  msc_weights weights;
} fbs_point;

typedef struct {
  const void *of;
  const char *const *text;
} fbs_open_item;

/* Whole numbers that grow evenly along one dimension and are the same along all others. */
typedef struct {
  int dim;
  int64_t first, step;
} fbs_counting;

/* A constant op that becomes ops, once all points are compared. */
typedef struct {
  msc_op *op;
  fbs_counting by;
} fbs_counted;

/* All readings of a model. In the first 2^num_names points each size has one of two values, in all combinations:
 * formulas are found there and checked at the other points. */
typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  size_t num_names, num_points;
  const char *const *name;
  int64_t low[MSC_MAX_OPEN_SIZES], high[MSC_MAX_OPEN_SIZES]; /* the range of each size in which formulas were checked */
  fbs_point point[FBS_MAX_POINTS];
  MSC_TABLE(fbs_open_item) items;
  size_t num_counted;
  fbs_counted *counted;
  const char *wrong; /* what does not follow from the sizes; NULL if everything follows */
  const msc_op *wrong_op;
} fbs_open;

/* Compares all points.  Keeps formulas if `keep`, for the module of the first; numbers that count along a dimension
 * become ops there.  False: `wrong` says why there are none. */
bool fbs_join_points(fbs_open *o, bool keep);
/* Formulas of the dimensions of a value or of an attribute that is a type, of numbers of other attributes, of the one
 * element of a constant op, by their addresses in the module of the first point; NULL: all numbers are as they are. */
const char *const *fbs_open_texts(const fbs_open *o, const void *of);
/* The number that is `v[i]` at point i, as a formula, "" if it is always the same; NULL: there is none. */
const char *fbs_formula(fbs_open *o, const int64_t *v);

/* Writes the first point's module, with formulas, as the bytes of a model.fbs (write_fbs.c); otherwise like
 * msc_write_fbs. */
const void *fbs_write_open(const fbs_open *o, msc_arena *arena, size_t *out_bytes);

#endif
