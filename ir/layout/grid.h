/* grid.h: a layout in the form of import and export: (device matrix, tensor map, shape).
 *
 * tensor map entry k of dimension i: the dimension is cut along axis k of the device matrix, counted from the right (0
 * is the last); -1: whole; a list of axes, outermost first, where several cut it.  Inside msc there are mesh
 * and layout only. */
#ifndef MSC_IR_GRID_H
#define MSC_IR_GRID_H

#include "ir/ir.h"

enum { MSC_GRID_AXES = 32, MSC_GRID_DIMS = 32 };

typedef struct {
  int num_axes, num_dims;
  int64_t axis[MSC_GRID_AXES]; /* the device matrix, major first */
  int64_t dim[MSC_GRID_DIMS];
  uint8_t num[MSC_GRID_DIMS];  /* axes that cut a dimension */
  uint8_t on[MSC_GRID_DIMS][MSC_GRID_AXES]; /* numbers of those axes, counted from the left, outermost first */
} msc_grid;

/* What is wrong with the numbers, in ctx's arena, or NULL. */
const char *msc_grid_fault(msc_context *ctx, const msc_grid *g);
/* Converts a layout without partial sums to a grid; the device matrix is cut just where the layout cuts the mesh. */
void msc_grid_of(const msc_mesh *mesh, const msc_layout *l, int rank, const int64_t *dim, msc_grid *out_grid);
/* Converts a grid to a layout on the mesh d=devices; `devices` is a multiple of the grid's, which is then repeated.
 * False: more dimensions than a tensor can have, or more cuts than a layout. */
bool msc_grid_layout(msc_context *ctx, const msc_grid *g, int64_t devices, msc_mesh *out_mesh,
                     const msc_layout **out_layout);
int64_t msc_grid_devices(const msc_grid *g);

/* Removes the axes of size 1. */
void msc_grid_drop_ones(msc_grid *g);
/* Refines all grids so that they have the same device matrix and the same shape, and every dimension is cut along at
 * most one axis. Axes and dimensions are cut where any of the grids, `axes` (a finer device matrix) or `dims` (a finer
 * shape) asks for it, and no finer. A smaller device matrix is repeated in front. False: there is no common
 * refinement. */
typedef struct {
  int num;
  const int64_t *size;
} msc_grid_sizes;
bool msc_grid_refine(int num, msc_grid *g, msc_grid_sizes axes, msc_grid_sizes dims);
/* Common refinement of two lists of sizes, which are aligned at the right.  Returns how many sizes it has; 0: there is
 * none. */
int msc_sizes_refine(msc_grid_sizes a, msc_grid_sizes b, int64_t *out_size);
/* Cuts dimension 0 further along axes that hold copies, minor ones first, `ways` times in all (-1: along all of them):
 * how an optimizer shards what replicas share.  The dimension becomes one per cut.  False: too few copies, or sizes
 * that do not divide. */
bool msc_grid_cut_copies(msc_grid *g, int64_t ways);

#endif
