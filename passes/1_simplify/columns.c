/* columns: a product whose columns are split into equal parts, [b,s,k] x [k,3n] -> + bias -> split in 3, gets the
 * columns as two dimensions, [b,s,k] x [k,3,n] -> [b,s,3,n]; the parts are then slices of the first of the two.
 *
 * A cut of 3n would give some ranks queries and others values, and the split would have to gather them. Cutting n cuts
 * every part alike (as Megatron-LM lays out fused projections, Shoeybi et al. 2019). Weight and bias become parameters
 * with one dimension more and the same elements in the same order; `model_shape` keeps the shape that the model and its
 * files use. On one device this gains nothing, and the pass does nothing. */
#include <string.h>

#include "passes/config/config.h"
#include "passes/pass.h"

enum { MAX_LINKS = 8 };

/* A split into `parts` parts of `width` columns, and the ops that lead to it from the product, the last one first. */
typedef struct {
  int64_t parts, width;
  int num;
  struct {
    msc_op *op;
    /* index of the operand that has the columns (for the product: that gets them); the other operand is a parameter */
    int from;
  } link[MAX_LINKS];
} columns;

static int64_t column_width_of(const msc_value *v) { return v->type->rank ? v->type->dim[v->type->rank - 1] : 0; }

/* True if v is a parameter with one use and without a layout given by the user, so its shape may be changed. */
static bool is_free_parameter(const msc_func *f, const msc_value *v, int rank) {
  return !v->def && v->type->rank == rank && msc_arg_role(f, v->index) == MSC_ROLE_PARAMETER && msc_has_one_use(v) &&
         !msc_arg_attr(f, v->index, MSC_FACT(msc_layout)) && !msc_arg_attr(f, v->index, MSC_FACT(msc_model_shape));
}

static bool is_plain_product(const msc_op *op) { return msc_form_of(op) == MSC_FORM_PRODUCT; }

/* The operand whose last dimension becomes the columns of the result; -1 if the op does not pass columns on. */
static int operand_with_columns(const msc_op *op) {
  const msc_func *f = op->block->func;
  int64_t width = column_width_of(&op->out[0]);
  if (op->kind == OP_reshape) return column_width_of(op->in[0].value) == width ? 0 : -1;
  if (is_plain_product(op)) return !msc_op_bool(op, "transpose_a") && is_free_parameter(f, op->in[1].value, 2) ? 0 : -1;
  for (int i = 0; op->kind == OP_add && i < 2; i++)
    if (is_free_parameter(f, op->in[1 - i].value, 1) && column_width_of(op->in[1 - i].value) == width &&
        op->in[i].value->type->rank == op->out[0].type->rank)
      return i;
  return -1;
}

/* Follows v back to a product through ops whose results have no other use, and lists them in `out`. False if the
 * chain does not end at one. */
static bool find_product(const msc_value *v, columns *out) {
  for (out->num = 0; out->num < MAX_LINKS && v->def; out->num++) {
    msc_op *op = v->def;
    int from = msc_has_one_use(v) && v->type->rank + 1 < MSC_MAX_RANK && !msc_has_user_constraint(op)
                   ? operand_with_columns(op)
                   : -1;
    if (from < 0) return false;
    out->link[out->num].op = op, out->link[out->num].from = from;
    if (is_plain_product(op)) return ++out->num;
    v = op->in[from].value;
  }
  return false;
}

/* ---- the rewrite ---- */

/* The type with dimension d replaced by two: c->parts and c->width. */
static const msc_type *type_with_two_dims(msc_context *ctx, const msc_type *t, int d, const columns *c) {
  int64_t dim[MSC_MAX_RANK];
  memcpy(dim, t->dim, sizeof *dim * (size_t)d);
  dim[d] = c->parts, dim[d + 1] = c->width;
  memcpy(dim + d + 2, t->dim + d + 1, sizeof *dim * (size_t)(t->rank - d - 1));
  return msc_type_of(ctx, t->dtype, t->rank + 1, dim, NULL);
}

static msc_value *split_parameter_columns(msc_func *f, msc_value *v, int d, const columns *c) {
  msc_context *ctx = f->module->ctx;
  msc_arg_put(f, v->index, msc_fact_msc_model_shape(ctx, (size_t)v->type->rank, v->type->dim));
  v->type = type_with_two_dims(ctx, v->type, d, c);
  return v;
}

/* Builds an op in front of `op`, with its name, marks and location; the results have no types yet. */
static msc_op *build_op_before(msc_op *op, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out) {
  msc_op *made = msc_op_new(op->block->func, kind, num_in, in, num_out, op->loc);
  made->name = op->name;
  msc_copy_marks(op, made);
  msc_insert_before(op, made);
  return made;
}

static msc_op *build_column_reshape(msc_op *at, msc_value *v, const msc_type *to) {
  msc_op *op = build_op_before(at, OP_reshape, 1, &v, 1);
  msc_op_put(op, msc_fact_shape(msc_op_ctx(at), (size_t)to->rank, to->dim));
  return op;
}

/* "abk,kyz->abyz" */
static msc_op *build_column_product(msc_op *op, const columns *c) {
  msc_context *ctx = msc_op_ctx(op);
  bool transposed = msc_form_of(op) == MSC_FORM_PRODUCT && msc_op_bool(op, "transpose_b");
  int lead = op->in[0].value->type->rank - 1;
  msc_value *in[2] = {op->in[0].value, split_parameter_columns(op->block->func, op->in[1].value, !transposed, c)};
  msc_op *made = build_op_before(op, OP_einsum, 2, in, 1);
  const char *form = msc_arena_printf(msc_context_arena(ctx), "%.*sk,%s->%.*syz", lead, "abcdefgh",
                                      transposed ? "yzk" : "kyz", lead, "abcdefgh");
  msc_op_set(made, "equation", msc_str(ctx, form));
  return made;
}

/* Builds the op of a link again, on x, whose columns are already two dimensions. */
static msc_op *rebuild_link(msc_op *op, int from, msc_value *x, const columns *c) {
  const msc_type *t = op->out[0].type;
  msc_value *in[2];
  if (op->kind == OP_reshape) return build_column_reshape(op, x, type_with_two_dims(msc_op_ctx(op), t, t->rank - 1, c));
  in[from] = x;
  in[1 - from] = split_parameter_columns(op->block->func, op->in[1 - from].value, 0, c);
  return build_op_before(op, OP_add, 2, in, 1);
}

static bool rewrite_column_split(msc_op *split, const columns *c) {
  msc_context *ctx = msc_op_ctx(split);
  msc_op *op = NULL;
  for (int i = c->num; i-- > 0;) {
    op = op ? rebuild_link(c->link[i].op, c->link[i].from, &op->out[0], c) : build_column_product(c->link[i].op, c);
    MSC_TRY(msc_infer(op));
  }
  msc_op *parts = build_op_before(split, OP_split, 1, (msc_value *[]){&op->out[0]}, (size_t)c->parts);
  int64_t *one = msc_new_array(msc_context_arena(ctx), int64_t, c->parts);
  for (int64_t i = 0; i < c->parts; i++) one[i] = 1;
  msc_op_set(parts, "dim", msc_int(op->out[0].type->rank - 2));
  msc_op_set(parts, "sizes", msc_ints(ctx, (size_t)c->parts, one));
  MSC_TRY(msc_infer(parts));
  for (int64_t i = 0; i < c->parts; i++) {
    msc_op *part = build_column_reshape(split, &parts->out[i], split->out[i].type);
    MSC_TRY(msc_infer(part));
    msc_replace_uses(&split->out[i], &part->out[0]);
  }
  msc_op_erase(split);
  for (int i = 0; i < c->num; i++) msc_op_erase(c->link[i].op);
  return true;
}

/* True if op splits the last dimension into two or more parts of equal width; then `out` has their number and width. */
static bool is_column_split(const msc_op *op, columns *out) {
  if (op->kind != OP_split || op->num_out < 2 || msc_has_user_constraint(op)) return false;
  const msc_type *x = op->in[0].value->type;
  int64_t dim = msc_op_int(op, "dim");
  out->parts = op->num_out, out->width = column_width_of(&op->out[0]);
  for (int i = 0; i < op->num_out; i++)
    if (column_width_of(&op->out[i]) != out->width) return false;
  return out->width > 1 && (dim < 0 ? dim + x->rank : dim) == x->rank - 1;
}

bool pass_columns(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  if (!pass->config || msc_config_devices(pass->config) == 1) return msc_not_asked_for(pass);
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first, *next; op; op = next) {
      columns c;
      next = op->next;
      if (!is_column_split(op, &c) || !find_product(op->in[0].value, &c)) continue;
      MSC_TRY(rewrite_column_split(op, &c));
      num++;
    }
  msc_stat(pass, "products with columns apart", num);
  return true;
}
