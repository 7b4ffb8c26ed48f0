/* random_results.h: executes a module made from a random graph on all its ranks, by the interpreter, and compares what
 * two versions of it give. */
#ifndef MSC_TESTS_PASSES_RANDOM_RESULTS_H
#define MSC_TESTS_PASSES_RANDOM_RESULTS_H

#include <math.h>
#include <stdlib.h>

#include "tests/passes/random_graph.h"

/* What all ranks together have of it. */
static inline const msc_type *random_global_type(random_graph *g, const msc_func *f, size_t arg) {
  const msc_type *t = f->body->args[arg]->type;
  const msc_attr_value *shape = msc_arg_attr(f, arg, "msc.shape");
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < t->rank; d++) dim[d] = shape ? shape->list.v[d].i : t->dim[d];
  return msc_type_of(g->ctx, t->dtype, t->rank, dim, NULL);
}

/* Integers are indices: the number in their name tells how large they may be. */
static inline msc_tensor random_input(random_graph *g, msc_arena *a, const msc_func *f, size_t arg) {
  msc_tensor x = msc_tensor_new(a, random_global_type(g, f, arg));
  random_graph r = {.state = arg + 1};
  const char *name = f->body->args[arg]->name;
  size_t number = name && name[0] == 'i' ? strtoul(name + 1, NULL, 10) : MAX_ARGS;
  int64_t max = number < MAX_ARGS && g->max_int[number] ? g->max_int[number] : 2;
  for (int64_t i = 0, n = msc_type_elems(x.type); i < n; i++) {
    double unit = (double)(random_bits(&r) >> 11) * 0x1p-53;
    msc_tensor_set(&x, i, msc_is_float(x.type->dtype) ? 0.25 + unit : floor(unit * (double)max));
  }
  return x;
}

/* NULL: it does not run. */
static inline const msc_tensor *random_results(random_graph *g, msc_arena *a, msc_func *f) {
  msc_tensor *args = msc_new_array(a, msc_tensor, f->body->num_args + 1),
             *out = msc_new_array(a, msc_tensor, f->body->last->num_in + 1);
  for (size_t i = 0; i < f->body->num_args; i++) args[i] = random_input(g, a, f, i);
  return msc_interpret_ranks(f, a, args, out) ? out : NULL;
}

static inline bool random_near(const msc_tensor *x, const msc_tensor *y, double tolerance) {
  for (int64_t i = 0, n = msc_type_elems(x->type); i < n; i++) {
    double a = msc_tensor_get(x, i), b = msc_tensor_get(y, i);
    if (a != b && !(a != a && b != b) && !(fabs(a - b) <= tolerance * fmax(1, fabs(a)))) return false;
  }
  return true;
}

static inline bool random_same_results(random_graph *g, const msc_func *f, const msc_tensor *x, const msc_tensor *y) {
  for (size_t i = 0; x && y && i < f->body->last->num_in; i++)
    if (!random_near(&x[i], &y[i], g->narrow ? 0.05 : g->dtype == MSC_F64 ? 1e-10 : 1e-3)) return false;
  return x && y;
}

#endif
