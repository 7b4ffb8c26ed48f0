/* align: scores of an odd number of classes, that a GPU's library multiplies in f16 or bf16, and all that is made of
 * them -> as wide as its tensor cores take: rows begin at 16 bytes.  GPT-2 has 50257 classes.
 *
 *   y = x w,  loss and dy of y,  dx = dy w^T,  dw = x^T dy   ->   the same of pad(w) [k, 50304];  dw is a slice of what
 * comes out
 *
 * Of an embedding, y = x w^T, the same with rows of w.
 *
 * The loss sees minus infinity in the columns behind, so dy is 0 there, and nothing else changes: labels are checked
 * against the number of classes as before (attribute `whole`).  Where others look at the scores, they stay
 * as they are. */
#include <string.h>

#include "ir/gemm.h"
#include "passes/pass.h"

enum { ALIGNED_BYTES = 16, UNIT = 64, LEAST = 1024 /* classes: what is smaller is not worth a copy of the weights */ };

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t narrow, wide; /* the number of classes, and of columns */
  size_t num, room, num_padded;
  msc_value **value;    /* [.., narrow], which become [.., wide] */
  msc_value **from, **to; /* weights and biases, and their padded copies */
} aligning;

static int64_t last_dim(const msc_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

static bool is_first(const msc_op *op) {
  const msc_type *y = op->out[0].type;
  return op->kind == OP_gemm && !msc_op_bool(op, "generated") && msc_dtype_bytes(y->dtype) == 2 && op->num_out == 1 &&
         !msc_gemm_operand(op, "add") && !msc_gemm_operand(op, "aux") && !msc_op_bool(op, "relu") &&
         !msc_op_bool(op, "gelu") && last_dim(y) >= LEAST && last_dim(y) * 2 % ALIGNED_BYTES &&
         op->in[1].value->type->rank == 2;
}

/* ---- what is made of them ---- */

static bool keeps_classes(const msc_op *op, int64_t classes) {
  bool moves = op->kind == OP_reshape || (op->kind == OP_cast && msc_is_float(op->out[0].type->dtype));
  return moves && last_dim(op->out[0].type) == classes;
}

static bool is_loss(const msc_op *op) {
  return (op->kind == OP_softmax_cross_entropy || op->kind == OP_softmax_cross_entropy_grad) &&
         !msc_is_float(op->in[1].value->type->dtype);
}

/* dw = x^T dy or dy^T x, perhaps with the sum of dy's rows. */
static bool is_weight_gradient(const msc_op *op, size_t i) {
  bool plain = op->num_in == 2 && !msc_gemm_result(op, "aux") && !msc_gemm_result(op, i ? "sum_a" : "sum_b");
  return plain && msc_op_bool(op, "transpose_a") && !msc_op_bool(op, "transpose_b");
}

/* That, or dx = dy w^T or dy w. */
static bool is_gradient(const msc_op *op, size_t i) {
  if (op->kind != OP_gemm || i > 1 || op->in[1].value->type->rank != 2) return false;
  return is_weight_gradient(op, i) || (i == 0 && !msc_op_bool(op, "transpose_a"));
}

static void add_value(aligning *z, msc_value *v) {
  for (size_t i = 0; i < z->num; i++)
    if (z->value[i] == v) return;
  z->value[z->num++] = v;
}

/* False: somebody else looks at them. */
static bool collect(aligning *z, msc_value *y) {
  add_value(z, y);
  for (size_t done = 0; done < z->num; done++)
    for (const msc_use *u = z->value[done]->uses; u; u = u->next) {
      size_t i = (size_t)(u - u->user->in);
      if (z->num + 1 >= z->room) return false;
      if (keeps_classes(u->user, z->narrow) ||
          (is_loss(u->user) && i == 0 && u->user->kind == OP_softmax_cross_entropy_grad))
        add_value(z, &u->user->out[0]);
      else if (!(is_loss(u->user) && i == 0) && !is_gradient(u->user, i)) return false;
    }
  return true;
}

/* ---- building ---- */

static const msc_type *widened(const aligning *z, const msc_type *t, int dim) {
  int64_t size[MSC_MAX_RANK];
  memcpy(size, t->dim, sizeof size);
  size[dim] = z->wide;
  return msc_type_of(z->pass->ctx, t->dtype, t->rank, size, NULL);
}

static msc_value *made(msc_op *op, const msc_type *type, msc_op *before) {
  op->out[0].type = type;
  msc_insert_before(before, op);
  return &op->out[0];
}

/* `dims` of them, but for one. */
static void set_dims(const aligning *z, msc_op *op, const char *name, const msc_type *t, const int64_t *dims, int dim,
                     int64_t value) {
  int64_t v[MSC_MAX_RANK];
  for (int d = 0; d < t->rank; d++) v[d] = d == dim ? value : dims[d];
  msc_op_set(op, name, msc_ints(z->pass->ctx, (size_t)t->rank, v));
}

static const int64_t zeros[MSC_MAX_RANK];

/* Zeros behind the classes of a weight or bias. */
static msc_value *padded(aligning *z, msc_value *w, int dim, msc_op *before) {
  size_t i = 0;
  while (i < z->num_padded && z->from[i] != w) i++;
  if (i < z->num_padded) return z->to[i];
  msc_op *pad = msc_op_new(z->f, OP_pad, 1, &w, 1, before->loc);
  set_dims(z, pad, "low", w->type, zeros, dim, 0);
  set_dims(z, pad, "high", w->type, zeros, dim, z->wide - z->narrow);
  z->from[z->num_padded++] = w;
  return z->to[i] = made(pad, widened(z, w->type, dim), before);
}

/* The result without what is behind the classes. */
static void slice_result(aligning *z, msc_value *y, int dim, msc_op *op) {
  msc_op *slice = msc_op_new(z->f, OP_slice, 1, &y, 1, op->loc);
  const msc_type *narrow = y->type;
  set_dims(z, slice, "start", narrow, zeros, dim, 0);
  set_dims(z, slice, "limit", narrow, narrow->dim, dim, z->narrow);
  slice->name = op->name;
  msc_insert_after(op, slice);
  slice->out[0].type = narrow;
  msc_replace_uses(y, &slice->out[0]);
  msc_set_operand(slice, 0, y);
  y->type = widened(z, narrow, dim);
}

static msc_value *scalar(aligning *z, msc_dtype dtype, const void *bytes, msc_op *before) {
  msc_context *ctx = z->pass->ctx;
  size_t num = (size_t)msc_dtype_bytes(dtype);
  const msc_type *t = msc_type_of(ctx, dtype, 0, NULL, NULL);
  msc_op *op = msc_op_new(z->f, OP_constant, 0, NULL, 1, before->loc);
  msc_op_set(
      op, "value",
      (msc_attr_value){.kind = MSC_ATTR_DENSE, .dense = {t, msc_arena_copy(msc_context_arena(ctx), bytes, num), num}});
  return made(op, t, before);
}

/* v, but minus infinity in the columns behind. */
static msc_value *without_columns_behind(aligning *z, msc_value *v, msc_op *before) {
  static const float lowest = -__builtin_inff();
  msc_context *ctx = z->pass->ctx;
  int32_t classes = (int32_t)z->narrow;
  const msc_type *columns = msc_type_of(ctx, MSC_I32, 1, &z->wide, NULL);
  msc_op *iota = msc_op_new(z->f, OP_iota, 0, NULL, 1, before->loc);
  msc_op_set(iota, "type", msc_type_attr(columns));
  msc_value *column = made(iota, columns, before);
  msc_op *less =
      msc_op_new(z->f, OP_compare, 2, (msc_value *[]){column, scalar(z, MSC_I32, &classes, before)}, 1, before->loc);
  msc_op_set(less, "predicate", msc_str(ctx, "lt"));
  msc_value *is_class = made(less, msc_type_of(ctx, MSC_I1, 1, &z->wide, NULL), before);
  msc_op *select =
      msc_op_new(z->f, OP_select, 3, (msc_value *[]){is_class, v, scalar(z, MSC_F32, &lowest, before)}, 1, before->loc);
  return made(select, v->type, before);
}

static msc_op *first_loss(const msc_value *v) {
  msc_op *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (is_loss(u->user) && (!first || u->user->id < first->id)) first = u->user;
  return first;
}

static void rewrite_loss(aligning *z, msc_value *v) {
  msc_op *first = first_loss(v);
  if (!first) return;
  msc_value *masked = without_columns_behind(z, v, first);
  for (msc_use *u = v->uses, *next; u; u = next) {
    next = u->next;
    if (!is_loss(u->user)) continue;
    msc_op_set(u->user, "whole", msc_int(z->narrow));
    msc_set_operand(u->user, 0, masked);
  }
}

static void rewrite_gradients(aligning *z, const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    msc_op *op = u->user;
    size_t i = (size_t)(u - op->in);
    if (op->kind != OP_gemm) continue;
    if (!is_weight_gradient(op, i)) {
      msc_set_operand(op, 1, padded(z, op->in[1].value, msc_op_bool(op, "transpose_b"), op));
      continue;
    }
    for (size_t k = 0; k < op->num_out; k++) slice_result(z, &op->out[k], k ? 0 : (int)i, op);
  }
}

static void rewrite(aligning *z, msc_op *first) {
  msc_value *bias = msc_gemm_operand(first, "bias");
  msc_set_operand(first, 1, padded(z, first->in[1].value, !msc_op_bool(first, "transpose_b"), first));
  if (bias) msc_set_operand(first, 2, padded(z, bias, 0, first));
  for (size_t i = 0; i < z->num; i++) {
    msc_value *v = z->value[i];
    int last = v->type->rank - 1;
    v->type = widened(z, v->type, last);
    if (v->def->kind == OP_reshape) set_dims(z, v->def, "shape", v->type, v->type->dim, last, z->wide);
  }
  for (size_t i = 0; i < z->num; i++) {
    rewrite_gradients(z, z->value[i]);
    rewrite_loss(z, z->value[i]);
  }
}

/* Scores that nobody makes a loss of are not worth a wider copy of the weights. */
static bool has_loss(const aligning *z) {
  for (size_t i = 0; i < z->num; i++)
    if (first_loss(z->value[i])) return z->value[i]->type->dtype == MSC_F32;
  return false;
}

static int64_t align(msc_pass_ctx *pass, msc_func *f) {
  size_t room = msc_number(f->body).num_values;
  msc_value **value = msc_new_array(pass->scratch, msc_value *, 3 * room);
  int64_t num = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!is_first(op)) continue;
    aligning z = {.pass = pass,
                  .f = f,
                  .narrow = last_dim(op->out[0].type),
                  .room = room,
                  .value = value,
                  .from = value + room,
                  .to = value + 2 * room};
    z.wide = (z.narrow + UNIT - 1) / UNIT * UNIT;
    if (!collect(&z, &op->out[0]) || !has_loss(&z)) continue;
    rewrite(&z, op);
    num++;
  }
  return num;
}

bool pass_align(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += align(pass, f);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "products with wider rows", num);
  return true;
}
