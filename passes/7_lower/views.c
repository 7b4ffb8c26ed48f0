/* views: transposes, slices and concats around attention and convolutions that are one call, which reads and writes
 * values with any strides -> views, marked `view = true`, which copy nothing.
 *
 *   in front   t = transpose(x) that only attention reads: it reads x in place; of a slice, the sliced value
 *   behind     t = transpose(y) where attention computes y and nothing but attention reads y too: y is written in t's
 *              order, and if t goes into a concat, into that
 *   channels   the same around convolutions by a GPU's library, whose channels are last in memory (channels.c)
 *   rows       on a GPU: a slice of x's first dimension that products read lies in x; results of products lie in their
 *              concat
 *
 * Around attention the last dimension stays the last: whole vectors are read along it. */
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/target.h"

static bool keeps_vectors(const msc_op *t) {
  int64_t perm[MSC_MAX_RANK];
  return t->kind == OP_transpose && msc_op_ints(t, "perm", perm, MSC_MAX_RANK) == 4 && perm[3] == 3;
}

static bool is_attention_call(const msc_op *op) {
  return op && msc_is_graph(op) && msc_form_of(op) == MSC_FORM_ATTENTION;
}

static bool feeds_attention(const msc_op *t) {
  const msc_op *maker = t->in[0].value->def;
  if (maker && (is_attention_call(maker) || msc_is_constant_op(maker))) return false;
  for (const msc_use *u = t->out[0].uses; u; u = u->next)
    if (!is_attention_call(u->user)) return false;
  return msc_has_uses(&t->out[0]);
}

/* True if attention computes the operand of t, and its users are equal transposes and attention. */
static bool follows_attention(const msc_op *t) {
  const msc_value *y = t->in[0].value;
  if (!is_attention_call(y->def)) return false;
  for (const msc_use *u = y->uses; u; u = u->next)
    if (!is_attention_call(u->user) &&
        !(u->user->kind == OP_transpose && msc_attr_equal(msc_op_attr(u->user, "perm"), msc_op_attr(t, "perm"))))
      return false;
  return true;
}

static bool is_marked_transpose(const msc_op *op) {
  return op && op->kind == OP_transpose && msc_op_bool(op, MSC_FACT(view));
}

enum { RESHAPES = 4 };

static bool is_reshape(const msc_op *op) { return op && msc_form_of(op) == MSC_FORM_RESHAPE; }

/* True if the value, or a reshape of it, is a result of the function: then it lies where an argument does.  `most`: how
 * many reshapes deep to look. */
static bool is_result(const msc_value *v, int most) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    if (msc_info(u->user)->flags & MSC_TERMINATOR) return true;
    if (is_reshape(u->user) && (!most || is_result(&u->user->out[0], most - 1))) return true;
  }
  return false;
}

static bool is_inner_value(const msc_value *v) {
  while (is_reshape(v->def)) v = v->def->in[0].value;
  return v->def && !msc_is_constant_op(v->def) && !is_result(v, RESHAPES);
}

/* True for a slice that only transposes marked as views read, and whose vectors begin at multiples of 16 bytes. */
static bool is_slice_view(const msc_op *s) {
  int64_t step[MSC_MAX_RANK];
  if (s->kind != OP_slice) return false;
  const msc_value *x = s->in[0].value;
  bool whole_vectors = x->type->rank == 4 && x->type->dim[3] == s->out[0].type->dim[3] &&
                       x->type->dim[3] * msc_dtype_bytes(x->type->dtype) % 16 == 0;
  if (!whole_vectors || !is_inner_value(x) || msc_op_ints(s, "stride", step, MSC_MAX_RANK) > 0) return false;
  for (const msc_use *u = s->out[0].uses; u; u = u->next)
    if (!is_marked_transpose(u->user)) return false;
  return true;
}

static bool is_concat_view(const msc_op *c) {
  if (c->kind != OP_concat) return false;
  const msc_type *t = c->out[0].type;
  if (t->rank != 4 || is_result(&c->out[0], RESHAPES) || msc_op_int(c, "dim") == 3 ||
      t->dim[3] * msc_dtype_bytes(t->dtype) % 16)
    return false;
  for (size_t i = 0; i < c->num_in; i++) {
    const msc_op *swap = c->in[i].value->def;
    if (!is_marked_transpose(swap) || !msc_has_one_use(&swap->out[0]) || !is_attention_call(swap->in[0].value->def))
      return false;
  }
  return true;
}

/* True for a slice of whole rows along x's first dimension that only products read. */
static bool is_rows_slice_view(const msc_op *s) {
  int64_t step[MSC_MAX_RANK];
  if (s->kind != OP_slice || msc_op_ints(s, "stride", step, MSC_MAX_RANK) > 0 || !is_inner_value(s->in[0].value))
    return false;
  const msc_type *x = s->in[0].value->type, *y = s->out[0].type;
  for (int d = 1; d < x->rank; d++)
    if (x->dim[d] != y->dim[d]) return false;
  for (const msc_use *u = s->out[0].uses; u; u = u->next) {
    const msc_op *user =
        is_reshape(u->user) && msc_has_one_use(&u->user->out[0]) ? u->user->out[0].uses->user : u->user;
    if (user->kind != OP_gemm) return false;
  }
  return x->rank && msc_type_bytes(y) / (y->dim[0] ? y->dim[0] : 1) % 16 == 0;
}

static bool is_rows_concat_view(const msc_op *c) {
  if (c->kind != OP_concat || msc_op_int(c, "dim") || is_result(&c->out[0], RESHAPES)) return false;
  for (size_t i = 0; i < c->num_in; i++) {
    const msc_value *v = c->in[i].value;
    if (!v->def || v->def->kind != OP_gemm || v->index || !msc_has_one_use(v) || msc_type_bytes(v->type) % 16)
      return false;
  }
  return true;
}

static int64_t mark_views(msc_func *f, bool (*is_view)(const msc_op *op)) {
  int64_t num = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!is_view(op)) continue;
    msc_op_put(op, msc_fact_view(true));
    num++;
  }
  return num;
}

/* Is op a convolution by a library that reads arrays with gaps? */
static bool is_convolution_call(const msc_op *op) {
  return op && msc_is_graph(op) && msc_form_of(op) != MSC_FORM_ATTENTION &&
         msc_target_of(op->block->func->module)->takes_strides;
}

/* Does it put channels last behind a convolution, or where they were in front of one (channels.c)? */
static bool turns_channels(const msc_op *t) {
  int64_t perm[MSC_MAX_RANK];
  const msc_value *x = t->in[0].value, *y = &t->out[0];
  if (t->kind != OP_transpose || msc_op_ints(t, "perm", perm, MSC_MAX_RANK) != 4 || perm[0] != 0) return false;
  if (perm[1] == 2 && perm[2] == 3) return is_convolution_call(x->def) && msc_has_one_use(x);
  if (perm[1] != 3 || perm[2] != 1 || (x->def && msc_is_constant_op(x->def))) return false;
  for (const msc_use *u = y->uses; u; u = u->next)
    if (!is_convolution_call(u->user)) return false;
  return msc_has_uses(y);
}

static bool is_transpose_view(const msc_op *op) {
  return turns_channels(op) || (keeps_vectors(op) && (feeds_attention(op) || follows_attention(op)));
}

bool pass_views(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  bool strides = msc_target_of(m)->takes_strides;
  for (msc_func *f = m->first; f; f = f->next)
    num += mark_views(f, is_transpose_view) + mark_views(f, is_slice_view) + mark_views(f, is_concat_view) +
           (strides ? mark_views(f, is_rows_slice_view) + mark_views(f, is_rows_concat_view) : 0);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "ops that move nothing", num);
  return true;
}
