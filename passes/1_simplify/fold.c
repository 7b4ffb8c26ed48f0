/* fold: ops that do nothing -> their operand; ops that the next op undoes -> the value before both; small ops on
 * constants -> a constant. One walk in program order, so a chain folds from its start; dce removes what is left over.
 *
 *   x + 0, x - 0, x * 1, x / 1, x ^ 1 -> x     x ^ 2 -> x * x     neg neg x -> x     select(c, a, a) -> a
 *   cast, reshape, flatten, transpose, broadcast_to, slice, pad, concat, split, reduce that change nothing -> x
 *   reshape of reshape, transpose of transpose, broadcast_to of broadcast_to -> one of them
 *   f(a, broadcast_to x) -> f(a, x) where f broadcasts by itself
 *   product(transpose x, y) -> product(x, y) that reads x by columns, where no more than the last two dimensions change
 *   rotary(transpose x) -> transpose(rotary x): attention reads transposed values where they lie
 *
 * A gradient op keeps the letters of its forward op, so its operands change only where those letters stay right. */
#include <string.h>

#include "ir/formula.h"
#include "ir/interp/interp.h"
#include "passes/pass.h"

enum { MAX_ELEMS = 1 << 14 /* of a constant made here */, MAX_OPERANDS = 8 };

/* What is known of an op kind, beside what its form and its unit say (op.def). */
typedef struct {
  msc_value *(*equal)(const msc_op *op); /* the operand, or the value before it, that the result equals; NULL: none */
  bool (*combine)(msc_op *op);           /* makes one op of it and the op before it; false: nothing changed */
} rewrite;

static msc_value *operand_at(const msc_op *op, size_t i) { return op->in[i].value; }
static const msc_op *def_of_kind(const msc_value *v, msc_op_kind kind) {
  return v->def && v->def->kind == kind ? v->def : NULL;
}

/* ---- ops that return one of their operands ---- */

static bool all_ints(const msc_op *op, const char *name, int64_t want) {
  int64_t v[MSC_MAX_RANK];
  int num = msc_op_ints(op, name, v, MSC_MAX_RANK);
  for (int i = 0; i < num; i++)
    if (v[i] != want) return false;
  return true;
}

/* True if operand i is a constant that leaves the other operand unchanged. */
static bool is_identity_operand(const msc_op *op, size_t i) {
  const msc_op_info *info = msc_info(op);
  return info->facts.has_unit && (i == 1 || info->flags & MSC_COMMUTES) &&
         msc_is_splat(operand_at(op, i), info->facts.unit);
}

/* True if a value of type `narrow` survives a cast to `wide` and back. */
static bool holds_every_value(msc_dtype wide, msc_dtype narrow) {
  if (wide == MSC_F64) return narrow == MSC_F32 || narrow == MSC_F16 || narrow == MSC_BF16;
  if (wide == MSC_F32) return narrow == MSC_F16 || narrow == MSC_BF16;
  return wide == MSC_I64 && (narrow == MSC_I32 || narrow == MSC_I16 || narrow == MSC_I8);
}

/* The value that op's operand was made of by the same kind of op. */
static msc_value *value_before_same_op(const msc_op *op) {
  const msc_op *before = def_of_kind(operand_at(op, 0), (msc_op_kind)op->kind);
  return before && !msc_has_user_constraint(before) ? operand_at(before, 0) : NULL;
}

static msc_value *equal_of_cast(const msc_op *op) {
  msc_value *x = operand_at(op, 0), *before = value_before_same_op(op);
  if (x->type->dtype == op->out[0].type->dtype) return x;
  return before && holds_every_value(x->type->dtype, before->type->dtype) ? before : NULL;
}

static msc_value *equal_of_select(const msc_op *op) {
  return operand_at(op, 1) == operand_at(op, 2) ? operand_at(op, 1) : NULL;
}

static msc_value *equal_of_transpose(const msc_op *op) {
  int64_t perm[MSC_MAX_RANK];
  int rank = msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++)
    if (perm[d] != d) return NULL;
  return operand_at(op, 0);
}

static msc_value *equal_of_slice(const msc_op *op) {
  return all_ints(op, "start", 0) && all_ints(op, "stride", 1) ? operand_at(op, 0) : NULL;
}

static msc_value *equal_of_pad(const msc_op *op) {
  return all_ints(op, "low", 0) && all_ints(op, "high", 0) && all_ints(op, "stride", 1) ? operand_at(op, 0) : NULL;
}

static msc_value *equal_of_only_part(const msc_op *op) {
  return op->num_in == 1 && op->num_out == 1 ? operand_at(op, 0) : NULL;
}

/* ---- two ops -> one ---- */

static bool combine_reshapes(msc_op *op) {
  msc_op *before = operand_at(op, 0)->def;
  if (!before || msc_form_of(before) != MSC_FORM_RESHAPE || msc_has_user_constraint(before)) return false;
  const msc_type *t = op->out[0].type;
  if (op->kind == OP_flatten) { /* its `axis` counts dimensions of the shape in between, so a reshape takes its place */
    msc_context *ctx = msc_op_ctx(op);
    msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
    msc_attr shape = msc_fact_shape(ctx, (size_t)t->rank, t->dim);
    msc_op *one = msc_build_with(&b, OP_reshape, 1, (msc_value *[]){operand_at(before, 0)}, 1, 1, &shape);
    if (one) msc_replace_uses(&op->out[0], &one->out[0]);
    return one != NULL;
  }
  msc_op_put(op, msc_fact_shape(msc_op_ctx(op), (size_t)t->rank, t->dim)); /* the shape with its sizes, never -1 */
  msc_set_operand(op, 0, operand_at(before, 0));
  return true;
}

static bool combine_transposes(msc_op *op) {
  const msc_op *before = def_of_kind(operand_at(op, 0), OP_transpose);
  if (!before || msc_has_user_constraint(before)) return false;
  int64_t outer[MSC_MAX_RANK], inner[MSC_MAX_RANK], both[MSC_MAX_RANK];
  int rank = msc_op_ints(op, "perm", outer, MSC_MAX_RANK);
  msc_op_ints(before, "perm", inner, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) both[d] = inner[outer[d]];
  msc_op_set(op, "perm", msc_ints(msc_op_ctx(op), (size_t)rank, both));
  msc_set_operand(op, 0, operand_at(before, 0));
  return true;
}

static bool combine_broadcasts(msc_op *op) {
  const msc_op *before = def_of_kind(operand_at(op, 0), OP_broadcast_to);
  if (!before || msc_has_user_constraint(before)) return false;
  msc_set_operand(op, 0, operand_at(before, 0));
  return true;
}

static bool swaps_last_two(const msc_op *transpose) {
  int64_t perm[MSC_MAX_RANK];
  int rank = msc_op_ints(transpose, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d + 2 < rank; d++)
    if (perm[d] != d) return false;
  return rank >= 2 && perm[rank - 2] == rank - 1;
}

static bool drop_transposed_operands(msc_op *product) {
  static const char *const TRANSPOSED[2] = {"transpose_a", "transpose_b"};
  bool changed = false;
  for (size_t i = 0; i < 2; i++) {
    const msc_op *before = def_of_kind(operand_at(product, i), OP_transpose);
    if (!before || msc_has_user_constraint(before) || !swaps_last_two(before)) continue;
    msc_op_set(product, TRANSPOSED[i], msc_bool(!msc_op_bool(product, TRANSPOSED[i])));
    msc_set_operand(product, i, operand_at(before, 0));
    changed = true;
  }
  return changed;
}

static bool broadcasts_by_itself(const msc_op *op) {
  return msc_form_of(op) == MSC_FORM_ELEMENTWISE && op->num_in > 1 && !(msc_info(op)->flags & MSC_COMPOSITE);
}

/* The letters of a gradient op name the dimensions of its operands, so a broadcast may only go if its operand is a
 * single element, which has no letters. */
static bool may_drop_broadcast(const msc_op *op, const msc_op *before) {
  return !msc_has_user_constraint(before) && (!op->letters || msc_type_elems(operand_at(before, 0)->type) == 1);
}

static bool drop_broadcast_operands(msc_op *op) {
  bool changed = false;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_value *stretched = operand_at(op, i);
    const msc_op *before = def_of_kind(stretched, OP_broadcast_to);
    const msc_type *type = op->out[0].type;
    if (!before || !may_drop_broadcast(op, before)) continue;
    msc_set_operand(op, i, operand_at(before, 0));
    if (msc_infer(op) && op->out[0].type == type) {
      changed = true;
    } else {
      msc_set_operand(op, i, stretched);
      op->out[0].type = type;
    }
  }
  return changed;
}

static bool write_square_as_product(msc_op *op) {
  if (!msc_is_splat(operand_at(op, 1), 2) || op->out[0].type != operand_at(op, 0)->type) return false;
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
  msc_value *v = times(&b, operand_at(op, 0), operand_at(op, 0));
  if (v) msc_replace_uses(&op->out[0], v);
  return v != NULL;
}

/* Turns pairs of elements before their rows are put in another order, not behind. */
static bool rotate_before_transpose(msc_op *op) {
  const msc_op *before = def_of_kind(operand_at(op, 0), OP_transpose);
  int64_t perm[MSC_MAX_RANK], axis = msc_op_int(op, "axis");
  if (!before || msc_has_user_constraint(before) || !msc_has_one_use(&before->out[0])) return false;
  int rank = msc_op_ints(before, "perm", perm, MSC_MAX_RANK);
  if (perm[rank - 1] != rank - 1) return false;
  msc_value *x = operand_at(before, 0);
  msc_op *rotated = msc_op_copy(op->block->func, op, &x);
  rotated->out[0].type = x->type;
  msc_op_set(rotated, "axis", msc_int(perm[axis < 0 ? axis + rank : axis]));
  msc_insert_before(op, rotated);
  msc_op *transpose = msc_op_copy(op->block->func, before, (msc_value *[]){&rotated->out[0]});
  msc_insert_before(op, transpose);
  msc_replace_uses(&op->out[0], &transpose->out[0]);
  return true;
}

/* ---- what each kind of op becomes ---- */

static const rewrite rewrites[OP_COUNT] = {
    [OP_neg] = {.equal = value_before_same_op},
    [OP_cast] = {.equal = equal_of_cast},
    [OP_select] = {.equal = equal_of_select},
    [OP_transpose] = {equal_of_transpose, combine_transposes},
    [OP_slice] = {.equal = equal_of_slice},
    [OP_pad] = {.equal = equal_of_pad},
    [OP_concat] = {.equal = equal_of_only_part},
    [OP_split] = {.equal = equal_of_only_part},
    [OP_reshape] = {.combine = combine_reshapes},
    [OP_flatten] = {.combine = combine_reshapes},
    [OP_broadcast_to] = {.combine = combine_broadcasts},
    [OP_matmul] = {.combine = drop_transposed_operands},
    [OP_batch_matmul] = {.combine = drop_transposed_operands},
    [OP_pow] = {.combine = write_square_as_product},
    [OP_rotary] = {.combine = rotate_before_transpose},
};

/* The value that op's only result equals, whose type may still differ; NULL if there is none. */
static msc_value *value_equal_to(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  if (op->num_in == 2 && is_identity_operand(op, 1)) return operand_at(op, 0);
  if (op->num_in == 2 && is_identity_operand(op, 0)) return operand_at(op, 1);
  switch (msc_form_of(op)) {
    case MSC_FORM_RESHAPE:
    case MSC_FORM_STRETCH: return operand_at(op, 0);
    case MSC_FORM_REDUCE: return msc_op_ints(op, "dims", dims, MSC_MAX_RANK) == 0 ? operand_at(op, 0) : NULL;
    default: return rewrites[op->kind].equal ? rewrites[op->kind].equal(op) : NULL;
  }
}

static bool combine_with_operand(msc_op *op) {
  if (broadcasts_by_itself(op) && drop_broadcast_operands(op)) return true;
  return !op->letters && rewrites[op->kind].combine && rewrites[op->kind].combine(op);
}

/* ---- constants are computed ---- */

/* True if the op can fail on its numbers (an index out of range, an integer division by zero): the run reports that,
 * so the op is not computed here. */
static bool may_fault(const msc_op *op) {
  if (msc_info(op)->flags & MSC_CHECKED) return true;
  return op->kind == OP_div && !msc_is_float(op->out[0].type->dtype);
}

/* A constant broadcast stays a broadcast: that is cheaper than its elements. A sum over micro-batches stays, too: an
 * evaluation has only one of them. */
static bool is_small_on_constants(const msc_op *op) {
  if (may_fault(op) || !(msc_info(op)->flags & MSC_PURE) || op->kind == OP_accumulate ||
      (msc_info(op)->flags & (MSC_COLLECTIVE | MSC_LOCAL | MSC_RANDOM)) || op->body)
    return false;
  if (msc_is_constant_op(op) || op->kind == OP_broadcast_to || op->num_out != 1 || !op->num_in ||
      op->num_in > MAX_OPERANDS || op->out[0].type->layout)
    return false;
  int64_t elems = msc_type_elems(op->out[0].type);
  for (size_t i = 0; i < op->num_in && elems <= MAX_ELEMS; i++) {
    if (!msc_constant_elements(operand_at(op, i))) return false;
    if (msc_type_elems(operand_at(op, i)->type) > MAX_ELEMS) return false;
  }
  return elems <= MAX_ELEMS;
}

static msc_tensor tensor_of_constant(msc_arena *arena, const msc_value *v) {
  const msc_attr_value *value = msc_constant_elements(v);
  msc_tensor t = msc_tensor_new(arena, v->type);
  int64_t bytes = msc_type_bytes(v->type);
  for (int64_t at = 0; at < bytes; at += (int64_t)value->dense.bytes)
    memcpy((char *)t.data + at, value->dense.data, value->dense.bytes);
  return t;
}

/* The tensor as an attribute: one element if all elements have the same bits. */
static msc_attr_value attr_of_tensor(msc_context *ctx, const msc_tensor *t) {
  size_t bytes = (size_t)msc_type_bytes(t->type), one = (size_t)msc_dtype_bytes(t->type->dtype);
  if (bytes > one && !memcmp(t->data, (char *)t->data + one, bytes - one)) bytes = one;
  void *data = msc_arena_copy(msc_context_arena(ctx), t->data, bytes);
  return (msc_attr_value){.kind = MSC_ATTR_DENSE, .dense = {t->type, data, bytes}};
}

/* Makes a function that computes only this op, with its constant operands as arguments. */
static msc_func *make_single_op_func(const msc_op *op) {
  msc_func *f = msc_func_new(op->block->func->module, "fold constant");
  msc_value *args[MAX_OPERANDS];
  for (size_t i = 0; i < op->num_in; i++) args[i] = msc_add_arg(f->body, operand_at(op, i)->type, "x");
  msc_builder b = {.func = f, .block = f->body, .loc = op->loc};
  msc_op *copy = msc_build_with(&b, (msc_op_kind)op->kind, op->num_in, args, 1, op->num_attrs, op->attrs);
  if (copy) msc_append_return(f, 1, (msc_value *[]){&copy->out[0]}, op->loc);
  return f;
}

static bool replace_by_constant(msc_op *op) {
  msc_context *ctx = msc_op_ctx(op);
  msc_arena *arena = msc_arena_new(ctx);
  msc_tensor args[MAX_OPERANDS], result;
  msc_func *f = make_single_op_func(op);
  for (size_t i = 0; i < op->num_in; i++) args[i] = tensor_of_constant(arena, operand_at(op, i));
  bool ok = msc_interpret(f, arena, args, &result);
  msc_attr_value v = ok ? attr_of_tensor(ctx, &result) : (msc_attr_value){0};
  msc_func_remove(f);
  msc_arena_free(arena);
  if (!ok) return false;
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
  msc_attr value = msc_named(ctx, "value", v);
  msc_op *constant = msc_build_with(&b, OP_constant, 0, NULL, 1, 1, &value);
  if (constant) msc_replace_uses(&op->out[0], &constant->out[0]);
  return constant != NULL;
}

/* ---- the walk ---- */

static bool fold_op(msc_op *op) {
  if (op->num_out != 1 || !(msc_info(op)->flags & MSC_PURE) || op->body || !msc_has_uses(&op->out[0]) ||
      msc_has_user_constraint(op))
    return false;
  if (is_small_on_constants(op)) return replace_by_constant(op);
  bool changed = combine_with_operand(op);
  msc_value *v = value_equal_to(op);
  if (!v || v->type != op->out[0].type) return changed;
  msc_replace_uses(&op->out[0], v);
  return true;
}

bool pass_fold(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next) msc_stat(pass, "ops folded", fold_op(op));
  return true;
}
