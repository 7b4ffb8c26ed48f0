/* random_ops.h: a random graph while it grows: its numbers, its values, and one random op more. */
#ifndef MSC_TESTS_PASSES_RANDOM_OPS_H
#define MSC_TESTS_PASSES_RANDOM_OPS_H

#include <string.h>

#include "ir/interp/interp.h"

#ifndef RANDOM_GRAPH_ELEMS /* elements of a value, at most */
#define RANDOM_GRAPH_ELEMS 1536
#endif

enum { MAX_POOL = 48, MAX_ARGS = 64, MAX_SETTINGS = 24, MAX_ELEMS = RANDOM_GRAPH_ELEMS };

typedef struct {
  uint64_t state;
  msc_context *ctx;
  msc_arena *arena;
  msc_module *m;
  msc_func *f;
  msc_builder b;
  msc_dtype dtype; /* of all floats but those cast on purpose */
  bool narrow;     /* some value is bf16 or f16 */
  bool trains;     /* there is an optimizer */
  bool clips;      /* with clip_norm */
  bool keep_batch; /* data_parallel: dimension 0 is the batch in every value */
  int64_t batch;
  int num_pool, num_ops;
  msc_value *pool[MAX_POOL]; /* floats, the latest last */
  int num_outputs;
  msc_value *output[8]; /* integers and booleans that were made on the way */
  int num_renewed;
  struct {
    msc_value *parameter, *by;
  } renewed[8];              /* parameters that a step gives other values, as running statistics */
  int64_t max_int[MAX_ARGS]; /* by argument: integers are 0 .. max_int - 1 */
  msc_mesh mesh;
  bool named_mesh;
  const char *mode;
  int num_settings;
  const char *setting[MAX_SETTINGS];
} random_graph;

/* ---- numbers ---- */

/* Steele et al. 2014, splitmix64 */
static inline uint64_t random_bits(random_graph *g) {
  uint64_t x = g->state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static inline int below(random_graph *g, int n) { return (int)(random_bits(g) % (uint64_t)n); }
static inline bool chance(random_graph *g, int percent) { return below(g, 100) < percent; }

static inline int64_t random_size(random_graph *g) {
  static const int64_t sizes[] = {2, 3, 4, 6, 8, 8, 12, 12, 16, 24};
  return sizes[below(g, sizeof sizes / sizeof *sizes)];
}

/* ---- values ---- */

static inline const msc_type *float_type(random_graph *g, int rank, const int64_t *dim) {
  return msc_type_of(g->ctx, g->dtype, rank, dim, NULL);
}

static inline msc_value *new_arg(random_graph *g, const msc_type *t, const char *kind, const char *role) {
  const char *name = msc_intern(g->ctx, msc_arena_printf(g->arena, "%s%zu", kind, g->f->body->num_args));
  if (g->f->body->num_args == MAX_ARGS) return NULL;
  msc_value *v = msc_add_arg(g->f->body, t, name);
  msc_arg_set(g->f, v->index, "msc.name", msc_str(g->ctx, name));
  msc_arg_set(g->f, v->index, "msc.role", msc_str(g->ctx, role));
  return v;
}

static inline msc_value *new_parameter(random_graph *g, int rank, const int64_t *dim) {
  msc_value *v = new_arg(g, float_type(g, rank, dim), "w", "parameter");
  if (v && chance(g, 6)) msc_arg_set(g->f, v->index, "msc.trainable", msc_bool(false));
  return v;
}

static inline msc_value *new_indices(random_graph *g, int rank, const int64_t *dim, int64_t max, const char *role) {
  msc_value *v = new_arg(g, msc_type_of(g->ctx, chance(g, 50) ? MSC_I32 : MSC_I64, rank, dim, NULL), "i", role);
  if (v) g->max_int[v->index] = max;
  return v;
}

static inline msc_value *picked(random_graph *g) {
  int recent = g->num_pool < 3 ? g->num_pool : 3;
  return g->pool[chance(g, 65) ? g->num_pool - 1 - below(g, recent) : below(g, g->num_pool)];
}

static inline bool small(const msc_value *v) { return msc_type_elems(v->type) <= MAX_ELEMS; }

/* ---- ops ---- */

static inline msc_op *built(random_graph *g, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                            size_t num_attrs, const msc_attr *attrs) {
  for (size_t i = 0; i < num_in; i++)
    if (!in[i]) return NULL;
  g->b.name = msc_intern(g->ctx, msc_arena_printf(g->arena, "op%d", g->num_ops++));
  return msc_build_with(&g->b, kind, num_in, in, num_out, num_attrs, attrs);
}

static inline msc_value *op_with(random_graph *g, msc_op_kind kind, size_t num_in, msc_value *const *in,
                                 size_t num_attrs, const msc_attr *attrs) {
  msc_op *op = built(g, kind, num_in, in, 1, num_attrs, attrs);
  return op ? &op->out[0] : NULL;
}

static inline msc_value *unary(random_graph *g, msc_op_kind kind, msc_value *x) {
  return op_with(g, kind, 1, &x, 0, NULL);
}
static inline msc_value *binary(random_graph *g, msc_op_kind kind, msc_value *a, msc_value *b) {
  return op_with(g, kind, 2, (msc_value *[]){a, b}, 0, NULL);
}
static inline msc_attr ints(random_graph *g, const char *name, int num, const int64_t *v) {
  return msc_named(g->ctx, name, msc_ints(g->ctx, (size_t)num, v));
}
static inline msc_attr text(random_graph *g, const char *name, const char *v) {
  return msc_named(g->ctx, name, msc_str(g->ctx, v));
}
static inline msc_attr integer(random_graph *g, const char *name, int64_t v) {
  return msc_named(g->ctx, name, msc_int(v));
}
static inline msc_attr boolean(random_graph *g, const char *name, bool v) {
  return msc_named(g->ctx, name, msc_bool(v));
}

static inline msc_value *scalar(random_graph *g, double v) { return msc_build_scalar(&g->b, g->dtype, v); }

/* A constant of floats that differ. */
static inline msc_value *table(random_graph *g, int rank, const int64_t *dim) {
  msc_tensor t = msc_tensor_new(g->arena, float_type(g, rank, dim));
  for (int64_t i = 0, n = msc_type_elems(t.type); i < n; i++) msc_tensor_set(&t, i, (double)(below(g, 33) - 16) / 16);
  msc_attr value =
      msc_named(g->ctx, "value",
                (msc_attr_value){.kind = MSC_ATTR_DENSE, .dense = {t.type, t.data, (size_t)msc_type_bytes(t.type)}});
  return op_with(g, OP_constant, 0, NULL, 1, &value);
}

/* ---- elementwise ---- */

static inline msc_value *positive(random_graph *g, msc_value *x) {
  return binary(g, OP_add, unary(g, OP_abs, x), scalar(g, 0.5));
}

/* A function of one number that a row of op.def gives by a formula, of numbers in (0, 1), where each is defined; x is
 * added where it is flat. */
static inline msc_value *make_function(random_graph *g, msc_value *x) {
  msc_op_kind kinds[OP_COUNT];
  int num = 0;
  for (unsigned k = 0; k < OP_COUNT; k++) {
    const msc_op_info *info = msc_op_info_of(g->ctx, (msc_op_kind)k);
    if (info->formula && info->max_in == 1 && !info->num_attrs && k != OP_bitwise_not) kinds[num++] = (msc_op_kind)k;
  }
  msc_op_kind kind = kinds[below(g, num)];
  msc_value *y = unary(
      g, kind, binary(g, OP_add, binary(g, OP_mul, unary(g, OP_sigmoid, x), scalar(g, 0.875)), scalar(g, 0.0625)));
  bool flat = kind == OP_floor || kind == OP_ceil || kind == OP_round || kind == OP_trunc || kind == OP_sign;
  return flat ? binary(g, OP_add, x, y) : y;
}

static inline msc_value *make_unary(random_graph *g, msc_value *x) {
  static const msc_op_kind kinds[] = {OP_neg, OP_tanh, OP_erf, OP_sigmoid, OP_relu, OP_silu, OP_abs, OP_sin, OP_cos};
  static const msc_op_kind more[] = {OP_asinh, OP_atanh, OP_softplus, OP_mish, OP_hard_swish, OP_hard_sigmoid};
  static const msc_op_kind special[] = {OP_erfc, OP_erfcx, OP_i0, OP_i0e, OP_i1, OP_i1e};
  static const msc_op_kind gammas[] = {OP_lgamma, OP_digamma};
  static const msc_op_kind steps[] = {OP_floor, OP_ceil, OP_round};
  int pick = below(g, 19);
  switch (pick) {
    case 18: return unary(g, gammas[below(g, 2)], positive(g, unary(g, OP_tanh, x)));
    case 17: return unary(g, special[below(g, 6)], unary(g, OP_tanh, x));
    case 16: return unary(g, more[below(g, 6)], unary(g, OP_tanh, x));
    case 15: return binary(g, OP_add, x, unary(g, steps[below(g, 3)], unary(g, OP_tanh, x))); /* a slope is left */
    case 9: return unary(g, OP_exp, unary(g, OP_tanh, x));
    case 10: return unary(g, OP_log, positive(g, x));
    case 11: return unary(g, OP_sqrt, positive(g, x));
    case 12: return unary(g, OP_rsqrt, positive(g, x));
    case 13:
    case 14: {
      msc_attr form = text(g, "form", pick == 13 ? "erf" : "tanh");
      return op_with(g, OP_gelu, 1, &x, 1, &form);
    }
    default: return unary(g, kinds[pick], x);
  }
}

/* The shape of x, or one that broadcasts to it. */
static inline int like_shape(random_graph *g, const msc_value *x, int64_t *dim) {
  int skip = x->type->rank && chance(g, 50) ? below(g, x->type->rank + 1) : 0, rank = x->type->rank - skip;
  for (int d = 0; d < rank; d++) dim[d] = chance(g, 15) ? 1 : x->type->dim[skip + d];
  return rank;
}

static inline bool broadcasts(const msc_value *a, const msc_value *b) {
  int most = a->type->rank > b->type->rank ? a->type->rank : b->type->rank;
  int64_t elems = 1;
  for (int d = 1; d <= most; d++) {
    int64_t x = d <= a->type->rank ? a->type->dim[a->type->rank - d] : 1,
            y = d <= b->type->rank ? b->type->dim[b->type->rank - d] : 1;
    if (x != y && x != 1 && y != 1) return false;
    elems *= x > y ? x : y;
  }
  return elems <= MAX_ELEMS;
}

/* A value that can be combined with x in an elementwise op. */
static inline msc_value *partner(random_graph *g, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  for (int tries = 0; tries < 6; tries++) {
    msc_value *v = g->pool[below(g, g->num_pool)];
    bool same_batch =
        !g->keep_batch || (v->type->rank == x->type->rank && v->type->rank && v->type->dim[0] == x->type->dim[0]);
    if (same_batch && broadcasts(x, v) && chance(g, 70)) return v;
  }
  int rank = like_shape(g, x, dim);
  if (g->keep_batch && rank == x->type->rank) dim[0] = 1;
  if (chance(g, 15)) return scalar(g, (double)(below(g, 8) + 1) / 4);
  if (chance(g, 20)) return table(g, rank, dim);
  return new_parameter(g, rank, dim);
}

static inline msc_value *make_binary(random_graph *g, msc_value *x) {
  static const msc_op_kind kinds[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min, OP_add, OP_mul};
  msc_value *y = partner(g, x);
  if (!y) return NULL;
  int pick = below(g, 9);
  if (pick == 7) return binary(g, OP_div, x, positive(g, y));
  if (pick == 8) return binary(g, OP_pow, positive(g, x), chance(g, 50) ? scalar(g, 1.5) : unary(g, OP_tanh, y));
  return chance(g, 70) ? binary(g, kinds[pick], x, y) : binary(g, kinds[pick], y, x);
}

/* A constant or a ramp of any shape that goes with x. */
static inline msc_value *make_source(random_graph *g, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  int rank = like_shape(g, x, dim);
  if (g->keep_batch && rank == x->type->rank) dim[0] = 1;
  if (!rank || chance(g, 40)) return binary(g, OP_mul, x, table(g, rank, dim));
  int at = below(g, rank);
  msc_attr attrs[] = {msc_named(g->ctx, "type", msc_type_attr(float_type(g, rank, dim))), integer(g, "dim", at)};
  msc_value *ramp = op_with(g, OP_iota, 0, NULL, 2, attrs);
  return binary(g, OP_add, x, binary(g, OP_mul, ramp, scalar(g, 0.125)));
}

static inline msc_value *make_select(random_graph *g, msc_value *x) {
  static const char *const predicates[] = {"lt", "le", "gt", "ge", "ne"};
  msc_value *y = partner(g, x);
  msc_attr predicate = text(g, "predicate", predicates[below(g, 5)]);
  msc_value *c =
      y ? op_with(g, OP_compare, 2, (msc_value *[]){x, chance(g, 50) ? scalar(g, 0.0625) : y}, 1, &predicate) : NULL;
  if (!c) return NULL;
  if (g->num_outputs < 3 && chance(g, 30)) g->output[g->num_outputs++] = c;
  msc_value *z = unary(g, OP_neg, x);
  return op_with(g, OP_select, 3, (msc_value *[]){c, chance(g, 50) ? y : z, x}, 0, NULL);
}

static inline msc_value *make_cast(random_graph *g, msc_value *x) {
  msc_attr to = text(g, "dtype",
                     chance(g, 60)         ? "i32"
                     : g->dtype == MSC_F64 ? "f32"
                                           : "f64"),
           back = text(g, "dtype", msc_dtype_name(g->dtype));
  if (g->narrow && chance(g, 50)) to = text(g, "dtype", "bf16");
  bool whole = !strcmp(to.value.s, "i32"); /* no gradient goes through it: it must not stay alone */
  msc_value *c = op_with(g, OP_cast, 1, (msc_value *[]){whole ? binary(g, OP_mul, x, scalar(g, 3.3)) : x}, 1, &to);
  if (c && whole && g->num_outputs < 3 && chance(g, 40)) g->output[g->num_outputs++] = c;
  if (g->dtype == MSC_F64 && !whole) return x; /* would be f32's rounding */
  msc_value *v = c ? op_with(g, OP_cast, 1, &c, 1, &back) : NULL;
  return v && whole ? binary(g, OP_add, x, binary(g, OP_mul, v, scalar(g, 0.25))) : v;
}

/* x and a part that bit operations make of whole numbers, which x and another value are rounded to. */
static inline msc_value *make_bits(random_graph *g, msc_value *x) {
  static const msc_op_kind kinds[] = {OP_bitwise_and, OP_bitwise_or, OP_bitwise_xor, OP_shift_left, OP_shift_right};
  const char *dtype = chance(g, 50) ? "i32" : "i64";
  msc_attr to = text(g, "dtype", dtype), back = text(g, "dtype", msc_dtype_name(g->dtype));
  msc_value *scaled = binary(g, OP_mul, unary(g, OP_tanh, x), scalar(g, 9)), *y = partner(g, x);
  msc_value *a = op_with(g, OP_cast, 1, &scaled, 1, &to), *b = y ? unary(g, OP_tanh, y) : NULL;
  b = b ? binary(g, OP_mul, b, scalar(g, 3.5)) : NULL;
  b = b ? op_with(g, OP_cast, 1, &b, 1, &to) : NULL;
  if (!a || !b) return NULL;
  msc_value *v = binary(g, kinds[below(g, 5)], a, b);
  if (chance(g, 40)) v = unary(g, OP_bitwise_not, v);
  if (g->num_outputs < 3 && chance(g, 30)) g->output[g->num_outputs++] = v;
  v = binary(g, OP_bitwise_and, v, msc_build_scalar(&g->b, v->type->dtype, 7));
  return binary(g, OP_add, x, binary(g, OP_mul, op_with(g, OP_cast, 1, &v, 1, &back), scalar(g, 0.125)));
}

/* ---- products ---- */

/* A parameter that exists and has this shape, sometimes. */
static inline msc_value *shared_parameter(random_graph *g, int64_t rows, int64_t columns) {
  for (size_t i = 0; i < g->f->body->num_args; i++) {
    msc_value *v = g->f->body->args[i];
    if (msc_arg_role(g->f, i) == MSC_ROLE_PARAMETER && v->type->rank == 2 && v->type->dim[0] == rows &&
        v->type->dim[1] == columns && chance(g, 60))
      return v;
  }
  return NULL;
}

/* A weight [k, n], stored transposed with `transpose`. */
static inline msc_value *weight(random_graph *g, int64_t k, int64_t n, bool transpose) {
  msc_value *v = shared_parameter(g, transpose ? n : k, transpose ? k : n);
  return v ? v : new_parameter(g, 2, (int64_t[]){transpose ? n : k, transpose ? k : n});
}

static inline msc_value *make_matmul(random_graph *g, msc_value *x) {
  bool ta = !g->keep_batch && chance(g, 20), tb = chance(g, 35);
  if (x->type->rank < 2 || !small(x)) return NULL;
  int64_t k = x->type->dim[x->type->rank - (ta ? 2 : 1)], n = chance(g, 30) ? k : random_size(g);
  msc_value *w = weight(g, k, n, tb);
  msc_attr attrs[] = {boolean(g, "transpose_a", ta), boolean(g, "transpose_b", tb)};
  bool swap = x->type->rank == 2 && !g->keep_batch && chance(g, 10);
  if (swap) return op_with(g, OP_matmul, 2, (msc_value *[]){weight(g, n, x->type->dim[0], false), x}, 0, NULL);
  return op_with(g, x->type->rank == 2 ? OP_matmul : OP_batch_matmul, 2, (msc_value *[]){x, w}, 2, attrs);
}

/* With a weight [k, y, z] of two columns, whose letters come out in either order; now and then k is not summed. */
static inline msc_value *make_einsum(random_graph *g, msc_value *x) {
  int rank = x->type->rank, num = 0;
  char result[8] = {0};
  if (rank < 2 || rank > 3 || !small(x)) return NULL;
  int k = 1 + (int)below(g, (uint64_t)rank - 1);
  bool keeps = chance(g, 25), turned = chance(g, 50);
  msc_value *w = new_parameter(g, 3, (int64_t[]){x->type->dim[k], 2 + (int64_t)below(g, 3), random_size(g)});
  for (int d = 0; d < rank; d++)
    if (d != k || keeps) result[num++] = "abc"[d];
  result[num++] = turned ? 'z' : 'y', result[num++] = turned ? 'y' : 'z';
  msc_attr equation = msc_named(
      g->ctx, "equation",
      msc_str(g->ctx, msc_arena_printf(msc_context_arena(g->ctx), "%.*s,%cyz->%s", rank, "abc", "abc"[k], result)));
  return op_with(g, OP_einsum, 2, (msc_value *[]){x, w}, 1, &equation);
}

/* Of rows with the matrices of groups, of which some have no row, as experts'. */
static inline msc_value *make_grouped(random_graph *g, msc_value *x) {
  if (x->type->rank != 2 || !small(x)) return NULL;
  int64_t k = x->type->dim[1], n = random_size(g), groups = 1 + (int64_t)below(g, 4);
  bool turned = chance(g, 50);
  msc_value *group = new_indices(g, 1, x->type->dim, groups, "data"),
            *w = new_parameter(g, 3, (int64_t[]){groups, turned ? n : k, turned ? k : n});
  msc_attr attr = boolean(g, "transpose_w", turned);
  return op_with(g, OP_grouped_matmul, 3, (msc_value *[]){x, group, w}, 1, &attr);
}

/* Products of two values, as in attention. */
static inline msc_value *make_scores(random_graph *g, msc_value *x) {
  if (x->type->rank < 3 || x->type->dim[x->type->rank - 2] > 12) return NULL;
  msc_attr tb = boolean(g, "transpose_b", true);
  msc_value *other = partner(g, x);
  if (!other || other->type != x->type) other = chance(g, 50) ? unary(g, OP_tanh, x) : x;
  msc_value *s = op_with(g, OP_batch_matmul, 2, (msc_value *[]){x, other}, 1, &tb);
  msc_value *p = s ? unary(g, OP_softmax, binary(g, OP_mul, s, scalar(g, 0.25))) : NULL;
  return p ? op_with(g, OP_batch_matmul, 2, (msc_value *[]){p, x}, 0, NULL) : NULL;
}

/* ---- moving data ---- */

static inline msc_value *make_reshape(random_graph *g, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  int rank = 0, first = g->keep_batch ? 1 : 0;
  for (int d = 0; d < x->type->rank; d++) {
    int64_t n = x->type->dim[d], part = (int64_t[]){2, 3, 4}[below(g, 3)];
    if (rank > first && chance(g, 35)) dim[rank - 1] *= n;
    else if (d >= first && n % part == 0 && n > part && chance(g, 30) && rank + 2 < 5)
      dim[rank++] = part, dim[rank++] = n / part;
    else dim[rank++] = n;
  }
  if (rank < 5 && chance(g, 10)) dim[rank++] = 1;
  msc_attr shape = ints(g, "shape", rank, dim);
  if (x->type->rank > 1 && chance(g, 25)) {
    msc_attr axis = integer(g, "axis", g->keep_batch || chance(g, 70) ? 1 : 0);
    return op_with(g, OP_flatten, 1, &x, 1, &axis);
  }
  return op_with(g, OP_reshape, 1, &x, 1, &shape);
}

static inline msc_value *make_transpose(random_graph *g, msc_value *x) {
  int64_t perm[MSC_MAX_RANK];
  int first = g->keep_batch ? 1 : 0;
  for (int d = 0; d < x->type->rank; d++) perm[d] = d;
  for (int d = x->type->rank - 1; d > first; d--) {
    int other = first + below(g, d + 1 - first);
    int64_t t = perm[d];
    perm[d] = perm[other], perm[other] = t;
  }
  msc_attr attr = ints(g, "perm", x->type->rank, perm);
  return op_with(g, OP_transpose, 1, &x, 1, &attr);
}

/* A dimension along which an op may work; -1: none. */
static inline int free_dim(random_graph *g, const msc_value *x) {
  int first = g->keep_batch ? 1 : 0;
  return x->type->rank > first ? first + below(g, x->type->rank - first) : -1;
}

static inline msc_value *make_concat(random_graph *g, msc_value *x) {
  int at = free_dim(g, x);
  if (at < 0 || msc_type_elems(x->type) > MAX_ELEMS / 3) return NULL;
  msc_value *in[3] = {x, unary(g, OP_tanh, x), x};
  for (int i = 0; i < g->num_pool; i++)
    if (g->pool[i]->type == x->type && chance(g, 40)) in[below(g, 3)] = g->pool[i];
  msc_attr dim = integer(g, "dim", at);
  return op_with(g, OP_concat, (size_t)(2 + below(g, 2)), in, 1, &dim);
}

static inline msc_value *make_split(random_graph *g, msc_value *x) {
  int at = free_dim(g, x);
  if (at < 0 || x->type->dim[at] < 2) return NULL;
  int64_t n = x->type->dim[at], one = n % 2 == 0 && chance(g, 60) ? n / 2 : 1 + below(g, (int)n - 1),
          sizes[2] = {one, n - one};
  msc_attr attrs[] = {integer(g, "dim", at), ints(g, "sizes", 2, sizes)};
  msc_op *op = built(g, OP_split, 1, &x, 2, 2, attrs);
  if (!op) return NULL;
  if (one == n - one && chance(g, 60)) return binary(g, OP_mul, &op->out[0], &op->out[1]);
  if (g->num_pool < MAX_POOL && chance(g, 70)) g->pool[g->num_pool++] = &op->out[1];
  return &op->out[0];
}

static inline msc_value *make_slice(random_graph *g, msc_value *x) {
  int64_t start[MSC_MAX_RANK], limit[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  for (int d = 0; d < x->type->rank; d++) {
    int n = (int)x->type->dim[d];
    bool cut = n > 2 && (d > 0 || !g->keep_batch) && chance(g, 40);
    start[d] = cut ? below(g, n / 2) : 0;
    limit[d] = cut ? n - below(g, n / 2) : n;
    stride[d] = cut && chance(g, 30) ? 2 : 1;
  }
  msc_attr attrs[] = {ints(g, "start", x->type->rank, start), ints(g, "limit", x->type->rank, limit),
                      ints(g, "stride", x->type->rank, stride)};
  return op_with(g, OP_slice, 1, &x, chance(g, 50) ? 3 : 2, attrs);
}

static inline msc_value *make_pad(random_graph *g, msc_value *x) {
  int64_t low[MSC_MAX_RANK], high[MSC_MAX_RANK];
  if (msc_type_elems(x->type) > MAX_ELEMS / 4) return NULL;
  for (int d = 0; d < x->type->rank; d++) {
    bool free = d > 0 || !g->keep_batch;
    low[d] = free && chance(g, 25) ? below(g, 3) : 0;
    high[d] = free && chance(g, 25) ? below(g, 4) : 0;
  }
  msc_attr attrs[] = {ints(g, "low", x->type->rank, low), ints(g, "high", x->type->rank, high),
                      msc_named(g->ctx, "value", msc_float(chance(g, 50) ? 0.5 : 0))};
  return op_with(g, OP_pad, 1, &x, 3, attrs);
}

static inline msc_value *make_broadcast(random_graph *g, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  if (x->type->rank > 3 || msc_type_elems(x->type) > MAX_ELEMS / 8 || g->keep_batch) return NULL;
  dim[0] = 2 + 2 * below(g, 3);
  for (int d = 0; d < x->type->rank; d++) dim[d + 1] = x->type->dim[d] == 1 ? 4 : x->type->dim[d];
  msc_attr shape = ints(g, "shape", x->type->rank + 1, dim);
  return op_with(g, OP_broadcast_to, 1, &x, 1, &shape);
}

/* Rows of a table by number: an embedding, or of a value that is already there. */
static inline msc_value *make_gather(random_graph *g, msc_value *x) {
  int64_t dim[2] = {g->batch, random_size(g)};
  int rank = 1 + below(g, 2);
  if (chance(g, 50)) {
    msc_value *t = new_parameter(g, 2, (int64_t[]){random_size(g), 4});
    return t ? binary(g, OP_gather, t, new_indices(g, rank, dim, t->type->dim[0], "data")) : NULL;
  }
  int at = free_dim(g, x);
  if (at < 0 || x->type->rank > 3 || g->keep_batch) return NULL;
  msc_value *i = new_indices(g, 1, dim + 1, x->type->dim[at], "data");
  msc_attr axis = integer(g, "axis", at);
  return op_with(g, OP_gather, 2, (msc_value *[]){x, i}, 1, &axis);
}

static inline msc_value *make_one_hot(random_graph *g, msc_value *x) {
  int64_t depth = random_size(g);
  (void)x;
  msc_attr attrs[] = {integer(g, "depth", depth), text(g, "dtype", msc_dtype_name(g->dtype))};
  msc_value *i = new_indices(g, 1, &g->batch, depth, "data"), *v = i ? op_with(g, OP_one_hot, 1, &i, 2, attrs) : NULL;
  return v ? op_with(g, OP_matmul, 2, (msc_value *[]){v, weight(g, depth, random_size(g), false)}, 0, NULL) : NULL;
}

/* Elements or blocks by number, from x or into it. */
static inline msc_value *make_indexed(random_graph *g, msc_value *x) {
  int64_t dim[MSC_MAX_RANK];
  int at = free_dim(g, x), rank = x->type->rank;
  if (chance(g, 35)) {
    const int64_t shape[3] = {random_size(g), 3, 4}, one[2] = {g->batch, 2};
    msc_value *t = new_parameter(g, 3, shape),
              *i = t ? new_indices(g, 2, one, shape[0] < 3 ? shape[0] : 3, "data") : NULL;
    return i ? binary(g, OP_gather_nd, t, i) : NULL;
  }
  if (at < 0 || !small(x)) return NULL;
  memcpy(dim, x->type->dim, sizeof dim);
  dim[at] = random_size(g);
  msc_attr axis = integer(g, "axis", at);
  if (g->keep_batch || chance(g, 50)) {
    msc_value *i = new_indices(g, rank, dim, x->type->dim[at], "data");
    return i ? op_with(g, OP_take_along, 2, (msc_value *[]){x, i}, 1, &axis) : NULL;
  }
  msc_value *i = new_indices(g, 1, dim + at, x->type->dim[at], "data"), *updates = new_parameter(g, rank, dim);
  if (i && g->num_outputs < 3 && chance(g, 30)) {
    msc_op *u = built(g, OP_unique, 1, &i, 3, 0, NULL);
    if (u) g->output[g->num_outputs++] = &u->out[1];
  }
  return i && updates ? op_with(g, OP_scatter_update, 3, (msc_value *[]){x, i, updates}, 1, &axis) : NULL;
}

/* In order, or summed up, along one dimension. */
static inline msc_value *make_along(random_graph *g, msc_value *x) {
  int at = free_dim(g, x);
  if (at < 0) return NULL;
  msc_attr attrs[] = {integer(g, "axis", chance(g, 50) ? at : at - x->type->rank),
                      boolean(g, chance(g, 50) ? "exclusive" : "reverse", true)};
  msc_attr sorting[] = {attrs[0], boolean(g, "descending", chance(g, 50))},
           top[] = {attrs[0], integer(g, "k", 1 + below(g, (int)x->type->dim[at]))};
  bool sorts = chance(g, 50);
  msc_op *op;
  switch (below(g, 5)) {
    case 0: return op_with(g, OP_cumsum, 1, (msc_value *[]){binary(g, OP_mul, x, scalar(g, 0.25))}, 2, attrs);
    case 1:
    case 2: return op_with(g, OP_cumprod, 1, (msc_value *[]){unary(g, OP_tanh, x)}, 2, attrs);
    default: op = built(g, sorts ? OP_sort : OP_topk, 1, &x, 2, 2, sorts ? sorting : top);
  }
  if (op && g->num_outputs < 3 && chance(g, 20)) g->output[g->num_outputs++] = &op->out[1];
  return op ? &op->out[0] : NULL;
}

static inline msc_value *make_dropout(random_graph *g, msc_value *x) {
  msc_attr rate = msc_named(g->ctx, "rate", msc_float((double)below(g, 10) / 10));
  return op_with(g, OP_dropout, 1, &x, 1, &rate);
}

static inline msc_value *make_uniform(random_graph *g, msc_value *x) {
  msc_value *drawn = unary(g, OP_uniform, x);
  return binary(g, chance(g, 50) ? OP_mul : OP_add, x, drawn);
}

/* ---- reductions and rows ---- */

static inline msc_value *make_reduce(random_graph *g, msc_value *x) {
  static const msc_op_kind kinds[] = {OP_reduce_sum, OP_reduce_mean, OP_reduce_max, OP_reduce_min, OP_reduce_prod};
  int64_t dims[MSC_MAX_RANK];
  int num = 0, pick = below(g, 5);
  for (int d = g->keep_batch ? 1 : 0; d < x->type->rank; d++)
    if (chance(g, 40)) dims[num++] = d;
  msc_attr attrs[] = {ints(g, "dims", num, dims), boolean(g, "keep_dims", chance(g, 40))};
  msc_value *of = pick == 4 ? positive(g, unary(g, OP_tanh, x)) : x;
  msc_value *v = op_with(g, kinds[pick], 1, &of, 2, attrs);
  return v && v->type->rank == 0 ? binary(g, OP_mul, v, x) : v;
}

static inline msc_value *make_softmax(random_graph *g, msc_value *x) {
  int at = free_dim(g, x);
  if (at < 0) return NULL;
  msc_attr axis = integer(g, "axis", chance(g, 50) ? at : at - x->type->rank);
  return op_with(g, chance(g, 50) ? OP_softmax : OP_log_softmax, 1, &x, 1, &axis);
}

/* A composite that is always expanded, over the last dimension. */
static inline msc_value *make_norm(random_graph *g, msc_value *x) {
  const msc_type *t = x->type;
  if (t->rank == 0) return NULL;
  msc_value *in[] = {x, new_parameter(g, 1, &t->dim[t->rank - 1])};
  msc_attr eps = msc_named(g->ctx, "eps", msc_float(0.125));
  return op_with(g, chance(g, 50) ? OP_layer_norm : OP_rms_norm, chance(g, 60) ? 2 : 1, in, 1, &eps);
}

/* ---- windows over h and w ---- */

/* x as images [n,c,h,w], or NULL. */
static inline msc_value *as_images(random_graph *g, msc_value *x) {
  static const int64_t heights[] = {12, 8, 6, 4, 2};
  int64_t rest = 1, dim[4] = {x->type->rank ? x->type->dim[0] : 1, 0, 1, 1};
  if (x->type->rank == 4) return x;
  for (int d = 1; d < x->type->rank; d++) rest *= x->type->dim[d];
  for (int i = 4; i >= 0; i--)
    if (rest % heights[i] == 0 && chance(g, 70)) dim[2] = heights[i];
  dim[3] = rest / dim[2] % 2 == 0 && chance(g, 60) ? 2 : 1;
  dim[1] = rest / dim[2] / dim[3];
  msc_attr shape = ints(g, "shape", 4, dim);
  return x->type->rank && rest > 1 ? op_with(g, OP_reshape, 1, &x, 1, &shape) : NULL;
}

/* Windows of up to three rows, mostly so that h may be cut. */
static inline msc_value *make_windows(random_graph *g, msc_value *x) {
  static const msc_op_kind kinds[] = {OP_conv2d,   OP_conv2d,   OP_conv2d,  OP_conv2d_transpose,
                                      OP_max_pool, OP_max_pool, OP_avg_pool};
  msc_op_kind kind = kinds[below(g, 7)];
  if (!(x = as_images(g, x)) || msc_type_elems(x->type) > MAX_ELEMS / 2) return NULL;
  int64_t n = x->type->dim[1], h = x->type->dim[2], groups = n % 2 == 0 && chance(g, 30) ? 2 : 1,
          rows = 1 + below(g, 3), apart = chance(g, 20) ? 2 : 1;
  int64_t step = h % 2 == 0 && chance(g, 30) ? 2 : 1, reach = (rows - 1) * apart,
          room = reach + 1 - step > 0 ? reach + 1 - step : 0;
  int64_t low = below(g, (int)room + 1), kernel[2] = {rows, 1}, stride[2] = {step, 1}, dilation[2] = {apart, 1},
          padding[4] = {low, room - low, 0, 0};
  if (chance(g, 15)) padding[1] = 0; /* not aligned */
  if (h + padding[0] + padding[1] <= reach) return NULL;
  bool has_weights = kind == OP_conv2d || kind == OP_conv2d_transpose, up = kind == OP_conv2d_transpose;
  int64_t size[2] = {(h - 1) * step + reach + 1 - padding[0] - padding[1], x->type->dim[3]},
          w[4] = {up ? n : 2 * groups, up ? 2 : n / groups, rows, 1};
  if (up && (h * step > size[0] && h * step < size[0] + step)) size[0] = h * step;
  if (size[0] < 1) return NULL;
  msc_attr attrs[6] = {ints(g, "stride", 2, stride), ints(g, "dilation", 2, dilation), ints(g, "padding", 4, padding)};
  attrs[3] = has_weights ? integer(g, "groups", groups) : ints(g, "kernel", 2, kernel);
  if (up) attrs[4] = ints(g, "size", 2, size);
  if (kind == OP_avg_pool) attrs[4] = boolean(g, "count_include_pad", chance(g, 70));
  msc_value *in[2] = {x, has_weights ? new_parameter(g, 4, w) : NULL};
  return has_weights && !in[1] ? NULL : op_with(g, kind, 1 + has_weights, in, 4u + up + (kind == OP_avg_pool), attrs);
}

typedef msc_value *random_maker(random_graph *g, msc_value *x);

static inline void add_random_op(random_graph *g) {
  static random_maker *const makers[] = {
      make_unary,   make_unary,   make_unary,     make_binary,   make_binary,    make_matmul,  make_matmul,
      make_grouped, make_matmul,  make_einsum,    make_reshape,  make_transpose, make_concat,  make_split,
      make_slice,   make_pad,     make_broadcast, make_gather,   make_gather,    make_one_hot, make_one_hot,
      make_source,  make_source,  make_reduce,    make_softmax,  make_select,    make_cast,    make_scores,
      make_windows, make_windows, make_norm,      make_norm,     make_indexed,   make_indexed, make_along,
      make_along,   make_dropout, make_uniform,   make_function, make_function,  make_bits};
  msc_value *v = makers[below(g, sizeof makers / sizeof *makers)](g, picked(g));
  if (v && small(v) && v->type->rank <= 5 && g->num_pool < MAX_POOL) g->pool[g->num_pool++] = v;
}

#endif
