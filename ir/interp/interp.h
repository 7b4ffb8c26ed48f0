/* interp.h: the reference interpreter: a function and tensors in, tensors out.  Its code is plain loops, since tests
 * compare everything else with it.
 *
 *   msc_tensor args[2] = {x, w}, out[1];
 *   msc_interpret(f, arena, args, out);        // one device: layouts are ignored, layout changes copy
 *   msc_interpret_ranks(f, arena, args, out);  // every rank of the mesh, each with its own part of every value
 *
 * With ranks, an op sees only what its rank holds: reading any other element is an error, so a missing or wrong layout
 * change gives an error or other numbers, never the right ones by luck.  Functions before and after lowering both run.
 *
 * Numbers: an op computes in double and rounds each result once to its element type (bf16 by way of f32); f64 is exact
 * to the library's functions; integers wrap.  Integer division by zero and an index outside are errors.  max, min, relu
 * and their reductions pass NaN on; sign(NaN) = 0.  A float becomes an integer toward zero, the nearest when out of
 * range, NaN 0. */
#ifndef MSC_IR_INTERP_H
#define MSC_IR_INTERP_H

#include "ir/ir.h"

/* Elements in row-major order. */
typedef struct {
  const msc_type *type;
  void *data;
} msc_tensor;

msc_tensor msc_tensor_new(msc_arena *arena, const msc_type *type); /* zeros */
/* Returns element i as a double; 64-bit integers may round. */
double msc_tensor_get(const msc_tensor *t, int64_t i);
/* True if v is a constant that stores one element, c, for all its elements. */
bool msc_is_splat(const msc_value *v, double c);
void msc_tensor_set(msc_tensor *t, int64_t i, double v);

/* Runs f on one device.  False after a reported error, as all below; the results live in `arena`.  args has one tensor
 * per argument, out_results one per operand of the return op. */
bool msc_interpret(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results);

/* Runs f on all ranks.  args are global tensors, which are cut by the arguments' layouts (whole without a layout);
 * results are joined by theirs: replicas must be equal bit for bit, unfinished reductions are finished. */
bool msc_interpret_ranks(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results);

/* Interprets a function on the parts of all ranks: args[rank * number of arguments + i], results likewise. Manual
 * functions have no other form. */
bool msc_interpret_parts(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results);

/* Returns the part of a global tensor that a rank holds. Of a partial value, ranks with a digit above 0 hold the
 * identity. */
msc_tensor msc_tensor_part(const msc_module *m, msc_arena *arena, const msc_tensor *whole, const msc_layout *layout,
                           int64_t rank);
/* Copy a part into a buffer as large as the largest part (box.h), and back; `whole`: the global type, with its
 * layout. */
msc_tensor msc_tensor_pad(const msc_module *m, msc_arena *arena, const msc_type *whole, int64_t rank,
                          const msc_tensor *part);
msc_tensor msc_tensor_unpad(const msc_module *m, msc_arena *arena, const msc_type *whole, int64_t rank,
                            const msc_tensor *padded);
/* Joins part[rank] to the global tensor: the reverse of msc_tensor_part. Returns NULL, or a text in `arena` that says
 * how replicas differ. */
const char *msc_tensor_join(const msc_module *m, msc_arena *arena, const msc_type *type, const msc_layout *layout,
                            const msc_tensor *part, msc_tensor *out_whole);

/* Estimates the number of scalar operations of a run on all ranks. */
int64_t msc_interpret_work(msc_func *f);

/* ---- check_numerics.c ---- */

/* Runs every function that both modules have with equal arguments, on the same random inputs, and reports results that
 * differ by more than `tolerance` (relative to the largest element; integers: at all).  Functions whose values all
 * carry layouts run on every rank of the mesh too. */
bool msc_check_numerics(msc_module *before, msc_module *after, uint64_t seed, double tolerance);

/* Makes random arguments of f for one device, in `arena`: in range where they are indices, positive where roots and
 * logarithms may need it. */
msc_tensor *msc_random_args(msc_arena *arena, const msc_func *f, uint64_t seed);

#endif
