/* layout.h: element types, meshes of devices, and the part of a tensor that each device has. */
#ifndef MSC_IR_LAYOUT_LAYOUT_H
#define MSC_IR_LAYOUT_LAYOUT_H

#include "ir/abi/dtype.h"
#include "ir/context.h"
#include "ir/layout/box.h"

#define MSC_MAX_RANK    8  /* dimensions of a tensor                                       */
#define MSC_MAX_AXES    8  /* axes of a mesh                                               */
#define MSC_MAX_SUBAXES 24 /* sub-axes in one layout; 65,536 devices have at most 16 atoms */
#define MSC_MAX_DEVICES 65536

/* ---- element types (ir/abi/dtype.h) ---- */

const char *msc_dtype_name(msc_dtype d);
int64_t msc_dtype_bytes(msc_dtype d);
msc_dtype_class msc_dtype_class_of(msc_dtype d);
bool msc_dtype_parse(const char *text, msc_dtype *out_dtype);
static inline bool msc_is_float(msc_dtype d) { return msc_dtype_class_of(d) == MSC_CLASS_FLOAT; }
/* The bits of a random word that a number in [0, 1) of this float type has room for: word / 2^32 is then exact. */
static inline uint32_t msc_uniform_mask(msc_dtype d) {
  return UINT32_MAX << (d == MSC_F64 ? 0 : d == MSC_F32 ? 8 : d == MSC_F16 ? 21 : 24);
}

/* ---- mesh and layout ---- */

typedef struct {
  const char *name; /* interned */
  int64_t size;     /* >= 1 */
} msc_axis;

/* A rank's coordinates are its number in mixed radix, first axis major. */
typedef struct {
  int num_axes;
  msc_axis axis[MSC_MAX_AXES];
} msc_mesh;

/* One digit of an axis: `size` parts after `pre` parts.  axis = pre * size * rest; digit = coord / rest % size.  A
 * whole axis is {axis, 1, its size}. */
typedef msc_digit msc_subaxis;

/* The part of a tensor that each rank has.  Dimension d is cut by sub[first[d]] .. sub[first[d+1]-1], major first; the
 * value is an unfinished reduction over sub[first[rank]] .. ; on every other digit of the mesh it is replicated.
 * Always in normal form: no size-1 digits, neighbouring digits of one axis merged, partial digits in mesh order.
 * Interned.  Part i of k of a dimension of n elements starts at i * ceil(n / k), or at split[dim][i] where the parts
 * have chosen sizes (interned, see box.h; in normal form only where they are not those of the rule). */
typedef struct msc_layout {
  uint8_t rank, num_partial, reduction;
  uint8_t first[MSC_MAX_RANK + 1];
  msc_subaxis sub[MSC_MAX_SUBAXES];
  uint32_t zero; /* no padding: layouts are interned as bytes */
  const int64_t *split[MSC_MAX_RANK];
} msc_layout;

/* A ranked tensor: global shape plus layout (NULL: not decided yet, or local).  Interned. */
typedef struct msc_type {
  msc_dtype dtype;
  int rank;
  int64_t dim[MSC_MAX_RANK];
  const msc_layout *layout;
} msc_type;

/* Interned: equal means the same pointer. */
const msc_type *msc_type_of(msc_context *ctx, msc_dtype dtype, int rank, const int64_t *dim, const msc_layout *layout);
const msc_type *msc_type_with_layout(msc_context *ctx, const msc_type *t, const msc_layout *layout);
const msc_type *msc_type_with_dtype(msc_context *ctx, const msc_type *t, msc_dtype dtype);
/* True if the shapes are equal; and the element types, too; whatever the layouts. */
bool msc_same_dims(const msc_type *a, const msc_type *b);
bool msc_same_tensor(const msc_type *a, const msc_type *b);
/* Product of the dimensions; -1 when it does not fit 63 bits or a dimension is negative. */
int64_t msc_type_elems(const msc_type *t);
int64_t msc_type_bytes(const msc_type *t); /* likewise */

static inline int64_t msc_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t msc_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* The greatest common divisor of two sizes; 0 counts as divided by every size. */
static inline int64_t msc_gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* ---- layout.c ---- */

/* Returns the normal form of `raw`, interned. */
const msc_layout *msc_layout_of(msc_context *ctx, const msc_mesh *mesh, const msc_layout *raw);
/* Makes the normal form of `raw` without interning it. */
void msc_layout_normalize(const msc_layout *raw, msc_layout *out_layout);
const msc_layout *msc_layout_replicated(msc_context *ctx, int rank);
/* A layout of one dimension, which all axes of the mesh cut. */
const msc_layout *msc_mesh_digits(msc_context *ctx, const msc_mesh *mesh);
/* A layout of one dimension, cut as dimension `dim` of l is, without partial sums. */
const msc_layout *msc_layout_of_dim(msc_context *ctx, const msc_mesh *mesh, const msc_layout *l, int dim);
bool msc_layout_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_layout);
const char *msc_layout_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *l);
bool msc_mesh_parse(msc_context *ctx, const msc_loc *loc, const char *text, msc_mesh *out_mesh); /* "dp=2,tp=4" */
const char *msc_mesh_print(msc_arena *arena, const msc_mesh *mesh);
bool msc_mesh_equal(const msc_mesh *a, const msc_mesh *b); /* same names and sizes of axes */
int64_t msc_mesh_size(const msc_mesh *mesh);
int64_t msc_layout_parts(const msc_layout *l, int dim);

/* Sums over a dimension of n elements are made in blocks: the largest power of two of them that divides n, 8 at most,
 * or up to 64 of `many` elements and more, and none shorter than `least`; each is summed by itself and they are added
 * as a balanced tree, ((0+1)+(2+3))+((4+5)+(6+7)).  Ranks that hold aligned groups of blocks have subtrees, and
 * collectives add ranks as a tree: so the sum has the same bits however the dimension is cut. */
enum { MSC_MAX_SUM_BLOCKS = 64 };
int64_t msc_sum_blocks(int64_t n, int64_t least, int64_t many);
/* Blocks of the part that one of `parts` ranks holds: its share of the blocks of the whole if that is a number of whole
 * blocks, else the blocks of a dimension as long as the part. */
int64_t msc_sum_blocks_of_part(int64_t n, int64_t parts, int64_t least, int64_t many);
bool msc_layout_is_replicated(const msc_layout *l); /* no cut, no partial */
/* Has the layout t's rank and equal parts in every dimension? */
bool msc_layout_fits(const msc_layout *l, const msc_type *t);
bool msc_dim_is_even(const msc_layout *l, const msc_type *t, int dim);
bool msc_layout_has_split(const msc_layout *l); /* chosen sizes of parts somewhere */
/* The borders of parts of these sizes, num + 1 numbers from 0 on, interned; sizes are 0 or more, their sum below
 * 2^63. */
const int64_t *msc_split_of(msc_context *ctx, size_t num, const int64_t *size);
/* Dimensions of the largest part. */
void msc_local_dims(const msc_type *t, const msc_layout *l, int64_t *out_dim);
int64_t msc_local_bytes(const msc_type *t); /* of the largest part under t->layout; of the whole when that is NULL */
int64_t msc_subaxis_digit(const msc_mesh *mesh, msc_subaxis s, int64_t rank);
const char *msc_subaxis_print(msc_arena *arena, const msc_mesh *mesh, int num, const msc_subaxis *s); /* "{x,y:(1)2}" */
/* Reads digits as a layout of one dimension, which may have sizes of parts: "{x,y:(1)2}/(3,1)". */
bool msc_digits_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_digits);
const char *msc_digits_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *digits);
/* The box of elements rank holds: begin and size per dimension; sizes may be 0 at the end of an uneven dimension. */
void msc_layout_box(const msc_mesh *mesh, const msc_type *t, const msc_layout *l, int64_t rank, int64_t *out_begin,
                    int64_t *out_size);
/* A mesh and a layout in the form of box.h; the layout's memory is shared. */
msc_box_mesh msc_mesh_sizes(const msc_mesh *mesh);
msc_box_layout msc_layout_cuts(const msc_layout *l);

/* Atoms: the finest digits in use.  Every algorithm over layouts works on lists of atoms. */
typedef struct {
  int num;
  msc_subaxis atom[MSC_MAX_SUBAXES]; /* in mesh order, major first */
} msc_atoms;
/* Splits every axis into prime digits, refined so that each cut of the given layouts is a border between two of them.
 * Returns false when two cuts of an axis have no common refinement. */
bool msc_atoms_of(const msc_mesh *mesh, size_t num_layouts, const msc_layout *const *layouts, msc_atoms *out_atoms);
/* The digits s as a list of atoms, in order; returns how many.  Their borders are borders of atoms. */
int msc_atoms_in(const msc_atoms *atoms, int num, const msc_subaxis *s, uint8_t *out_atom);

#endif
