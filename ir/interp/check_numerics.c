/* check_numerics.c: two modules in; true out if the functions that both have compute the same numbers from random
 * inputs. */
#include <math.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "ir/scalar.h"

/* ---- the kind of run that a function needs ---- */

typedef enum { ONE_DEVICE, ALL_RANKS, PARTS } run_kind;

/* Returns how many of the function's values have a layout. */
static size_t num_layouts(const msc_func *f, size_t *out_num_values) {
  size_t num = 0;
  *out_num_values = f->body->num_args;
  for (size_t i = 0; i < f->body->num_args; i++) num += f->body->args[i]->type->layout != NULL;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    *out_num_values += op->num_out;
    for (size_t i = 0; i < op->num_out; i++) num += op->out[i].type->layout != NULL;
  }
  return num;
}

/* True if an operand of the op lacks the layout that the fact in_layout wants, because the op that changes it is not
 * built yet. */
static bool is_before_relayout(const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_layout *want = msc_wanted_layout(op, i);
    if (want && want != op->in[i].value->type->layout) return true;
  }
  return false;
}

static bool is_partitioned(const msc_func *f) {
  size_t num_values, num = num_layouts(f, &num_values);
  if (!num || num != num_values) return false; /* only the user's annotations, which may need a mesh */
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (is_before_relayout(op)) return false;
  return true;
}

static bool is_lowered(const msc_func *f) { return msc_func_attr(f, MSC_FACT(result_layouts)) != NULL; }

/* True if f is written for one rank: with collectives, and arguments that have no layouts. */
static bool is_manual(const msc_func *f) {
  bool communicates = false;
  size_t num_values;
  for (size_t i = 0; i < f->body->num_args; i++)
    if (msc_arg_attr(f, i, MSC_FACT(msc_layout))) return false;
  for (const msc_op *op = f->body->first; op; op = op->next)
    communicates |= (msc_info(op)->flags & MSC_COLLECTIVE) != 0;
  return communicates && !num_layouts(f, &num_values);
}

/* ---- which functions and results to compare ---- */

/* Returns the type that argument i had before lowering. */
static const msc_type *unlowered_type(const msc_func *f, size_t i) {
  const msc_type *t = f->body->args[i]->type;
  const msc_attr_value *shape = msc_arg_attr(f, i, MSC_FACT(msc_shape));
  int64_t dim[MSC_MAX_RANK];
  int rank = 0;
  if (!shape || shape->kind != MSC_ATTR_LIST) return msc_type_with_layout(f->module->ctx, t, NULL);
  for (; rank < MSC_MAX_RANK && (size_t)rank < shape->list.num; rank++) dim[rank] = shape->list.v[rank].i;
  return msc_type_of(f->module->ctx, t->dtype, rank, dim, NULL);
}

static bool same_args(const msc_func *f, const msc_func *g) {
  if (f->body->num_args != g->body->num_args) return false;
  for (size_t i = 0; i < f->body->num_args; i++)
    if (!msc_same_tensor(unlowered_type(f, i), unlowered_type(g, i))) return false;
  return true;
}

static const char *result_name(const msc_func *f, size_t i) {
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  return names && names->kind == MSC_ATTR_LIST && i < names->list.num && names->list.v[i].kind == MSC_ATTR_STR
             ? names->list.v[i].s
             : NULL;
}

/* Returns the number of g's result that corresponds to result i of f, by name if both have names; -1: none. */
static int64_t matching_result(const msc_func *f, size_t i, const msc_func *g) {
  const char *name = result_name(f, i);
  size_t num = g->body->last->num_in;
  if (!name || !result_name(g, 0)) return f->body->last->num_in == num ? (int64_t)i : -1;
  for (size_t j = 0; j < num; j++)
    if (result_name(g, j) && strcmp(name, result_name(g, j)) == 0) return (int64_t)j;
  return -1;
}

/* ---- random inputs ---- */

/* Returns the number that splitmix64 (Steele et al. 2014) makes of a state. */
static uint64_t mix_state(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

typedef struct {
  int64_t max_int; /* integers are 0 .. max_int - 1: in range wherever one is used as an index */
  bool positive;   /* for log and roots */
  bool narrow;     /* f16 or bf16 occurs */
} input_needs;

static void note_type(input_needs *t, const msc_type *type) {
  t->narrow |= type->dtype == MSC_F16 || type->dtype == MSC_BF16;
}

static void note_limit(input_needs *t, int64_t rows) {
  if (rows < t->max_int) t->max_int = rows > 0 ? rows : 1;
}

/* Notes what the op needs of the inputs: indices in range, and no negative numbers for logarithms, roots and powers. */
static void note_op(input_needs *t, const msc_op *op) {
  msc_indexed x;
  for (size_t i = 0; i < op->num_out; i++) note_type(t, op->out[i].type);
  if (msc_indexed_of(op, &x) && x.by)
    for (int d = 0; d < x.num; d++) note_limit(t, x.of->type->dim[x.dim + d]);
  const msc_formula *f = msc_formula_of(op);
  for (int i = 0; f && i < f->num; i++)
    t->positive |= f->step[i].code == SCALAR_log || f->step[i].code == SCALAR_log2 ||
                   f->step[i].code == SCALAR_log10 || f->step[i].code == SCALAR_sqrt || f->step[i].code == SCALAR_pow;
}

static input_needs needs_of(const msc_func *f) {
  input_needs t = {.max_int = 8};
  for (size_t i = 0; i < f->body->num_args; i++) note_type(&t, f->body->args[i]->type);
  for (const msc_op *op = f->body->first; op; op = op->next) {
    note_op(&t, op);
    for (const msc_op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next) note_op(&t, inner);
  }
  return t;
}

/* Makes random values; state is positive (second moments), a scalar state is a small step number. */
static msc_tensor random_tensor(msc_arena *arena, const input_needs *t, const msc_type *type, msc_role role,
                                uint64_t seed) {
  msc_tensor x = msc_tensor_new(arena, type);
  bool state = role == MSC_ROLE_STATE;
  for (int64_t i = 0, n = msc_type_elems(type); i < n; i++) {
    uint64_t bits = mix_state(seed + (uint64_t)i);
    double unit = (double)(bits >> 11) * 0x1p-53; /* [0, 1) */
    double v = state || t->positive ? 0.25 + unit : 2 * unit - 1;
    if (state && type->rank == 0) v = 3;
    if (!msc_is_float(type->dtype))
      v = type->dtype == MSC_I1 ? (double)(bits & 1) : (double)(bits % (uint64_t)t->max_int);
    msc_tensor_set(&x, i, v);
  }
  return x;
}

/* Makes one set of arguments per rank, in which only parameters and state are equal on all ranks. */
static msc_tensor *random_args(msc_arena *arena, const input_needs *t, const msc_func *f, int64_t num_ranks,
                               uint64_t seed) {
  size_t num = f->body->num_args;
  msc_tensor *args = msc_new_array(arena, msc_tensor, num * (size_t)num_ranks + 1);
  for (size_t r = 0; r < (size_t)num_ranks; r++)
    for (size_t i = 0; i < num; i++) {
      msc_role role = msc_arg_role(f, i);
      bool shared = role == MSC_ROLE_PARAMETER || role == MSC_ROLE_STATE;
      args[r * num + i] =
          random_tensor(arena, t, unlowered_type(f, i), role, mix_state(mix_state(seed) + i * 1000 + (shared ? 0 : r)));
    }
  return args;
}

msc_tensor *msc_random_args(msc_arena *arena, const msc_func *f, uint64_t seed) {
  input_needs t = needs_of(f);
  return random_args(arena, &t, f, 1, seed);
}

/* ---- comparing ---- */

static double largest(const msc_tensor *t) {
  double most = 0;
  for (int64_t i = 0, n = msc_type_elems(t->type); i < n; i++) {
    double v = fabs(msc_tensor_get(t, i));
    if (v > most && v < INFINITY) most = v;
  }
  return most;
}

static bool same_element(const msc_tensor *a, const msc_tensor *b, int64_t i, double allowed) {
  double x = msc_tensor_get(a, i), y = msc_tensor_get(b, i);
  if (!msc_is_float(a->type->dtype))
    return memcmp((char *)a->data + i * msc_dtype_bytes(a->type->dtype),
                  (char *)b->data + i * msc_dtype_bytes(b->type->dtype), (size_t)msc_dtype_bytes(a->type->dtype)) == 0;
  return x == y || (x != x && y != y) || fabs(x - y) <= allowed;
}

/* Compares result i of f, `b`, with the corresponding result of the module before, `a`. */
static bool compare_results(const msc_func *f, size_t i, const msc_tensor *a, const msc_tensor *b, double tolerance,
                            const char *how) {
  msc_context *ctx = f->module->ctx;
  const char *name = result_name(f, i);
  name = name ? msc_arena_printf(msc_context_arena(ctx), " (%s)", name) : "";
  if (!msc_same_tensor(a->type, b->type))
    return msc_error(ctx, MSC_E_INTERNAL, f->loc, "check-numerics: %s%s: result %zu%s has another shape than before",
                     f->name, how, i, name);
  double allowed = tolerance * largest(a);
  for (int64_t k = 0, n = msc_type_elems(a->type); k < n; k++)
    if (!same_element(a, b, k, allowed))
      return msc_error(ctx, MSC_E_INTERNAL, f->loc,
                       "check-numerics: %s%s: element %" PRId64 " of result %zu%s is %.9g before and %.9g after",
                       f->name, how, k, i, name, msc_tensor_get(a, k), msc_tensor_get(b, k));
  return true;
}

typedef struct {
  msc_arena *arena;
  const msc_tensor *args;
  double tolerance;
} numerics_run;

static bool run(msc_func *f, run_kind kind, const numerics_run *c, msc_tensor **out_results) {
  int64_t num_ranks = msc_mesh_size(&f->module->mesh);
  *out_results = msc_new_array(c->arena, msc_tensor, f->body->last->num_in * (size_t)num_ranks + 1);
  if (kind == PARTS) return msc_interpret_parts(f, c->arena, c->args, *out_results);
  return kind == ALL_RANKS ? msc_interpret_ranks(f, c->arena, c->args, *out_results)
                           : msc_interpret(f, c->arena, c->args, *out_results);
}

/* Runs g and compares its results with f's, which are `before`. */
static bool check_run(const numerics_run *c, msc_func *f, const msc_tensor *before, msc_func *g, run_kind kind,
                      const char *how) {
  msc_tensor *after;
  size_t num_f = f->body->last->num_in, num_g = g->body->last->num_in;
  bool ok = true;
  MSC_TRY(run(g, kind, c, &after));
  for (size_t r = 0; r < (kind == PARTS ? (size_t)msc_mesh_size(&g->module->mesh) : 1); r++)
    for (size_t i = 0; i < num_f; i++) {
      int64_t j = matching_result(f, i, g);
      if (j >= 0)
        ok &= compare_results(g, (size_t)j, &before[r * num_f + i], &after[r * num_g + (size_t)j], c->tolerance, how);
    }
  return ok;
}

static bool check_func(msc_arena *arena, msc_func *f, msc_func *g, uint64_t seed, double tolerance) {
  input_needs t = needs_of(f);
  bool narrow = t.narrow || needs_of(g).narrow;
  bool manual = is_manual(f);
  if (manual && msc_mesh_size(&f->module->mesh) != msc_mesh_size(&g->module->mesh)) return true;
  numerics_run c = {arena, random_args(arena, &t, f, manual ? msc_mesh_size(&f->module->mesh) : 1, seed), tolerance};
  if (narrow && c.tolerance < 0.05) c.tolerance = 0.05; /* bf16 has 8 bits, and other orders of rounding add up */
  msc_tensor *before;
  MSC_TRY(run(f, manual ? PARTS : is_lowered(f) ? ALL_RANKS : ONE_DEVICE, &c, &before));
  if (manual) return check_run(&c, f, before, g, PARTS, " by ranks");
  bool ok = is_lowered(g) || check_run(&c, f, before, g, ONE_DEVICE, "");
  if (is_lowered(g) || is_partitioned(g)) ok &= check_run(&c, f, before, g, ALL_RANKS, " on all ranks");
  return ok;
}

bool msc_check_numerics(msc_module *before, msc_module *after, uint64_t seed, double tolerance) {
  bool ok = true;
  for (msc_func *f = before->first; f; f = f->next) {
    msc_func *g = msc_find_func(after, f->name);
    if (!g || !same_args(f, g)) continue;
    msc_arena *arena = msc_arena_new(after->ctx);
    ok &= check_func(arena, f, g, seed, tolerance);
    msc_arena_free(arena);
  }
  return ok;
}
