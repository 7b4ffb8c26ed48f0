/* align: products in f16 or bf16 by a GPU's library whose results, scores of an odd number of classes, feed a loss
 * -> products with more columns, so that every row begins at a multiple of 16 bytes, as tensor cores need it.  GPT-2
 * has 50257 classes.
 *
 *   y = x w,  loss and dy of y,  dx = dy w^T,  dw = x^T dy
 *   -> the same with pad(w) [k, 50304] for w;  dw is a slice of the product's result
 *
 * For y = x w^T, as with an embedding's table, the rows of w are padded.
 *
 * The loss takes the padding columns for minus infinity (fact `classes`), so dy is 0 there and no other result changes;
 * labels are checked against the number of classes as before (fact `whole`).  Scores that other ops read stay as they
 * are. */
#include <string.h>

#include "ir/gemm.h"
#include "passes/pass.h"

enum {
  ALIGNED_BYTES = 16,
  UNIT = 64,
  LEAST = 1024 /* with fewer classes the gain is less than a copy of the weights */
};

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t narrow, wide; /* the number of classes, and of columns */
  size_t num, room, num_padded;
  msc_value **value;      /* values [.., narrow] that become [.., wide] */
  msc_value **from, **to; /* weights and biases, and their padded copies */
} aligner;

static int64_t count_columns(const msc_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

static bool makes_scores(const msc_op *op) {
  const msc_type *y = op->out[0].type;
  return op->kind == OP_gemm && !msc_op_bool(op, "generated") && msc_dtype_bytes(y->dtype) == 2 && op->num_out == 1 &&
         !msc_gemm_operand(op, MSC_GEMM_ADD) && !msc_gemm_operand(op, MSC_GEMM_AUX) && !msc_op_bool(op, "relu") &&
         !msc_op_bool(op, "gelu") && count_columns(y) >= LEAST && count_columns(y) * 2 % ALIGNED_BYTES &&
         op->in[1].value->type->rank == 2;
}

/* ---- users of scores ---- */

static bool keeps_classes(const msc_op *op, int64_t classes) {
  bool moves = op->kind == OP_reshape || (op->kind == OP_cast && msc_is_float(op->out[0].type->dtype));
  return moves && count_columns(op->out[0].type) == classes;
}

static bool is_labelled_loss(const msc_op *op) {
  return msc_is_cross_entropy(op) && !msc_is_float(op->in[1].value->type->dtype);
}

/* True for dw = x^T dy or dy^T x, with or without the sum of dy's rows; dy is operand i. */
static bool is_gradient_of_weight(const msc_op *op, size_t i) {
  bool plain = op->num_in == 2 && !msc_gemm_result(op, MSC_GEMM_AUX) &&
               !msc_gemm_result(op, i ? MSC_GEMM_SUM_A : MSC_GEMM_SUM_B);
  return plain && msc_op_bool(op, "transpose_a") && !msc_op_bool(op, "transpose_b");
}

/* True for a weight's gradient, and for dx = dy w^T or dy w; dy is operand i. */
static bool is_gradient_product(const msc_op *op, size_t i) {
  if (op->kind != OP_gemm || i > 1 || op->in[1].value->type->rank != 2) return false;
  return is_gradient_of_weight(op, i) || (i == 0 && !msc_op_bool(op, "transpose_a"));
}

static void add_score_value(aligner *z, msc_value *v) {
  for (size_t i = 0; i < z->num; i++)
    if (z->value[i] == v) return;
  z->value[z->num++] = v;
}

/* Collects y and all values of its shape that are computed from it.  Returns false if an op that cannot be widened
 * reads one of them. */
static bool collect_score_values(aligner *z, msc_value *y) {
  add_score_value(z, y);
  for (size_t done = 0; done < z->num; done++)
    for (const msc_use *u = z->value[done]->uses; u; u = u->next) {
      size_t i = (size_t)(u - u->user->in);
      if (z->num + 1 >= z->room) return false;
      if (keeps_classes(u->user, z->narrow) ||
          (is_labelled_loss(u->user) && i == 0 && u->user->kind == OP_softmax_cross_entropy_grad))
        add_score_value(z, &u->user->out[0]);
      else if (!(is_labelled_loss(u->user) && i == 0) && !is_gradient_product(u->user, i)) return false;
    }
  return true;
}

/* ---- building ---- */

static const msc_type *widened_type(const aligner *z, const msc_type *t, int dim) {
  int64_t size[MSC_MAX_RANK];
  memcpy(size, t->dim, sizeof size);
  size[dim] = z->wide;
  return msc_type_of(z->pass->ctx, t->dtype, t->rank, size, NULL);
}

/* `whole` with dimension `dim` widened, as what a widened part is a part of; NULL: not known, as of a cut dimension. */
static const msc_type *widened_whole(const aligner *z, const msc_type *whole, int dim) {
  if (!whole || !whole->layout || msc_layout_parts(whole->layout, dim) > 1) return NULL;
  return msc_type_with_layout(z->pass->ctx, widened_type(z, whole, dim), whole->layout);
}

/* Widens dimension `dim` of v. Ops that recorded the wholes of their operands do so no more. */
static void widen_value(const aligner *z, msc_value *v, int dim) {
  v->type = widened_type(z, v->type, dim);
  v->whole = widened_whole(z, v->whole, dim);
  for (const msc_use *u = v->uses; u; u = u->next) msc_op_unset(u->user, MSC_FACT(reads));
}

/* Sets an attribute to `dims`, with `value` in place of the entry for `dim`. */
static void set_ints_with_dim(const aligner *z, msc_op *op, const char *name, const msc_type *t, const int64_t *dims,
                              int dim, int64_t value) {
  int64_t v[MSC_MAX_RANK];
  for (int d = 0; d < t->rank; d++) v[d] = d == dim ? value : dims[d];
  msc_op_set(op, name, msc_ints(z->pass->ctx, (size_t)t->rank, v));
}

static const int64_t zeros[MSC_MAX_RANK];

/* Pads dimension `dim` of a weight or bias with zeros, once for each value. */
static msc_value *pad_with_zeros(aligner *z, msc_value *w, int dim, msc_op *before) {
  size_t i = 0;
  while (i < z->num_padded && z->from[i] != w) i++;
  if (i < z->num_padded) return z->to[i];
  msc_op *pad = msc_op_new(z->f, OP_pad, 1, &w, 1, before->loc);
  set_ints_with_dim(z, pad, "low", w->type, zeros, dim, 0);
  set_ints_with_dim(z, pad, "high", w->type, zeros, dim, z->wide - z->narrow);
  pad->out[0].type = widened_type(z, w->type, dim);
  pad->out[0].whole = widened_whole(z, w->whole, dim);
  msc_insert_before(before, pad);
  z->from[z->num_padded++] = w;
  return z->to[i] = &pad->out[0];
}

/* Widens result y of op and gives its users a slice without the padding. */
static void slice_result(aligner *z, msc_value *y, int dim, msc_op *op) {
  msc_op *slice = msc_op_new(z->f, OP_slice, 1, &y, 1, op->loc);
  const msc_type *narrow = y->type;
  set_ints_with_dim(z, slice, "start", narrow, zeros, dim, 0);
  set_ints_with_dim(z, slice, "limit", narrow, narrow->dim, dim, z->narrow);
  slice->name = op->name;
  msc_insert_after(op, slice);
  slice->out[0].type = narrow, slice->out[0].whole = y->whole;
  msc_replace_uses(y, &slice->out[0]);
  msc_set_operand(slice, 0, y);
  widen_value(z, y, dim);
}

static bool feeds_loss(const msc_value *v) {
  const msc_use *u = v->uses;
  while (u && !is_labelled_loss(u->user)) u = u->next;
  return u != NULL;
}

static void tell_losses(const aligner *z, const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    if (!is_labelled_loss(u->user)) continue;
    msc_op_put(u->user, msc_fact_whole(z->narrow));
    msc_op_put(u->user, msc_fact_classes(z->narrow));
  }
}

static void rewrite_gradients(aligner *z, const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    msc_op *op = u->user;
    size_t i = (size_t)(u - op->in);
    if (op->kind != OP_gemm) continue;
    if (!is_gradient_of_weight(op, i)) {
      msc_op_unset(op, MSC_FACT(reads));
      msc_set_operand(op, 1, pad_with_zeros(z, op->in[1].value, msc_op_bool(op, "transpose_b"), op));
      continue;
    }
    for (size_t k = 0; k < op->num_out; k++) slice_result(z, &op->out[k], k ? 0 : (int)i, op);
  }
}

static void widen_scores(aligner *z, msc_op *first) {
  msc_value *bias = msc_gemm_operand(first, MSC_GEMM_BIAS);
  msc_set_operand(first, 1, pad_with_zeros(z, first->in[1].value, !msc_op_bool(first, "transpose_b"), first));
  if (bias) msc_set_operand(first, 2, pad_with_zeros(z, bias, 0, first));
  for (size_t i = 0; i < z->num; i++) {
    msc_value *v = z->value[i];
    int last = v->type->rank - 1;
    widen_value(z, v, last);
    if (v->def->kind == OP_reshape) set_ints_with_dim(z, v->def, "shape", v->type, v->type->dim, last, z->wide);
  }
  for (size_t i = 0; i < z->num; i++) {
    rewrite_gradients(z, z->value[i]);
    tell_losses(z, z->value[i]);
  }
}

/* True if a loss in f32 reads the scores: else a wider copy of the weights does not pay. */
static bool has_loss(const aligner *z) {
  for (size_t i = 0; i < z->num; i++)
    if (feeds_loss(z->value[i])) return z->value[i]->type->dtype == MSC_F32;
  return false;
}

static int64_t align(msc_pass_ctx *pass, msc_func *f) {
  size_t room = msc_number(f->body).num_values;
  msc_value **value = msc_new_array(pass->scratch, msc_value *, 3 * room);
  int64_t num = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!makes_scores(op)) continue;
    aligner z = {.pass = pass,
                 .f = f,
                 .narrow = count_columns(op->out[0].type),
                 .room = room,
                 .value = value,
                 .from = value + room,
                 .to = value + 2 * room};
    z.wide = (z.narrow + UNIT - 1) / UNIT * UNIT;
    if (!collect_score_values(&z, &op->out[0]) || !has_loss(&z)) continue;
    widen_scores(&z, op);
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
