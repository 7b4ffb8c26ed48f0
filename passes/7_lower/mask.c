/* mask: operands cut into parts of unequal sizes -> select ops that replace their padding, in front of ops that
 * would otherwise count it.
 *
 * A rank's buffer is as large as the largest part; the rest of it, behind the rank's own part, is padding and may
 * hold anything.  In a dimension that an op keeps, it stays padding.  Where an op reduces a dimension, padding
 * becomes the identity of the reduction in all operands that have the dimension (0 in one of them would not do: 0 *
 * inf is NaN). Padding of indices becomes 0 and that of integer divisors 1, so that no kernel reports a fault of an
 * element that does not exist.  A loss that sums rows is split into the losses of its rows and a sum of those that
 * exist.
 *
 * An iota with the attribute `behind` tells which elements exist: it counts from the end of the rank's part, so that
 * only padding is not negative. */
#include <string.h>

#include "ir/conv.h"
#include "passes/pass.h"

/* A value and the one with its padding replaced, to be used again. */
typedef struct masked {
  uint32_t dims;
  unsigned char fill[8];
  msc_value *value;
  struct masked *next;
} masked;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  masked **by_value; /* by id */
  size_t num_values;
  int64_t num;
} masker;

static bool is_uneven(const msc_type *t, int dim) {
  return t->layout && !msc_dim_is_even(t->layout, t, dim);
}

/* ---- values for padding ---- */

static void store_bits(msc_dtype d, uint64_t v, unsigned char *out) { memcpy(out, &v, (size_t)msc_dtype_bytes(d)); }

/* Stores the identity of the reduction. */
static void store_identity(msc_reduction r, msc_dtype d, unsigned char *out) {
  store_bits(d, msc_reduction_identity_bits(r, d), out);
}

/* ---- building ---- */

static const msc_type *type_with_layout(const masker *m, const msc_type *t, const msc_layout *l) {
  return msc_type_with_layout(m->pass->ctx, t, l);
}

static msc_value *build_constant(masker *m, msc_builder *b, msc_dtype dtype, const unsigned char *bytes) {
  msc_context *ctx = m->pass->ctx;
  size_t num = (size_t)msc_dtype_bytes(dtype);
  msc_attr_value v = {
      .kind = MSC_ATTR_DENSE,
      .dense = {msc_type_of(ctx, dtype, 0, NULL, NULL), msc_arena_copy(msc_context_arena(ctx), bytes, num), num}};
  msc_attr attr = msc_named(ctx, "value", v);
  msc_op *op = msc_build_with(b, OP_constant, 0, NULL, 1, 1, &attr);
  op->out[0].type = type_with_layout(m, op->out[0].type, msc_layout_replicated(ctx, 0));
  return &op->out[0];
}

/* Builds [1,..,n,..,1], cut like dimension `dim` of t: true for elements of the rank's own part. */
static msc_value *build_own_elements(masker *m, msc_builder *b, const msc_type *t, int dim) {
  static const unsigned char zero[8];
  msc_context *ctx = m->pass->ctx;
  msc_dtype index = t->dim[dim] < INT32_MAX ? MSC_I32 : MSC_I64;
  int64_t shape[MSC_MAX_RANK];
  msc_layout cut = *t->layout;
  for (int d = 0; d < t->rank; d++) {
    shape[d] = d == dim ? t->dim[d] : 1;
    if (d != dim) cut.split[d] = NULL;
    cut.first[d] = d <= dim ? 0 : (uint8_t)(t->layout->first[dim + 1] - t->layout->first[dim]);
  }
  cut.num_partial = 0;
  cut.first[t->rank] = (uint8_t)(t->layout->first[dim + 1] - t->layout->first[dim]);
  memmove(cut.sub, t->layout->sub + t->layout->first[dim], cut.first[t->rank] * sizeof *cut.sub);
  const msc_layout *l = msc_layout_of(ctx, &m->f->module->mesh, &cut);
  msc_attr attr[3] = {msc_fact_behind(true), msc_named(ctx, "dim", msc_int(dim)),
                      msc_named(ctx, "type", msc_type_attr(msc_type_of(ctx, index, t->rank, shape, NULL)))};
  msc_op *place = msc_build_with(b, OP_iota, 0, NULL, 1, 3, attr);
  place->out[0].type = type_with_layout(m, place->out[0].type, l);
  msc_attr less = msc_predicate_attr(ctx, MSC_LT);
  msc_op *own =
      msc_build_with(b, OP_compare, 2, (msc_value *[]){&place->out[0], build_constant(m, b, index, zero)}, 1, 1, &less);
  own->out[0].type = type_with_layout(m, own->out[0].type, l);
  return &own->out[0];
}

static msc_builder build_before(masker *m, msc_op *op) {
  return (msc_builder){.func = m->f, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
}

/* Makes x a value with the partial digits of l, so that it can replace a term of an unfinished sum. */
static msc_value *make_partial(masker *m, msc_builder *b, msc_value *x, const msc_layout *l) {
  msc_layout partial = *l;
  if (!l->num_partial) return x;
  memmove(partial.sub, l->sub + l->first[l->rank], l->num_partial * sizeof *l->sub);
  memset(partial.first, 0, sizeof partial.first);
  memset(partial.split, 0, sizeof partial.split);
  partial.rank = 0;
  msc_op *shard = msc_build_with(b, OP_shard, 1, &x, 1, 0, NULL);
  shard->out[0].type = type_with_layout(m, x->type, msc_layout_of(m->pass->ctx, &m->f->module->mesh, &partial));
  return &shard->out[0];
}

static msc_value *build_selects(masker *m, msc_builder *b, msc_value *x, uint32_t dims, const unsigned char *fill) {
  const msc_type *t = x->type;
  msc_value *other = make_partial(m, b, build_constant(m, b, t->dtype, fill), t->layout);
  for (int d = 0; d < t->rank; d++) {
    if (!(dims >> d & 1)) continue;
    msc_op *select =
        msc_build_with(b, OP_select, 3, (msc_value *[]){build_own_elements(m, b, t, d), x, other}, 1, 0, NULL);
    select->out[0].type = t;
    x = &select->out[0];
  }
  m->num++;
  return x;
}

/* Replaces operand i of op by the same value with `fill` in the padding of dimensions `dims`. */
static void mask_operand(masker *m, msc_op *op, size_t i, uint32_t dims, const unsigned char *fill) {
  msc_value *x = op->in[i].value;
  masked **list = x->id < m->num_values ? &m->by_value[x->id] : NULL;
  size_t bytes = (size_t)msc_dtype_bytes(x->type->dtype);
  if (!dims) return;
  for (masked *k = list ? *list : NULL; k; k = k->next)
    if (k->dims == dims && !memcmp(k->fill, fill, bytes)) {
      msc_set_operand(op, i, k->value);
      return;
    }
  msc_builder b = build_before(m, op);
  msc_value *y = build_selects(m, &b, x, dims, fill);
  if (list) {
    masked *k = msc_new(m->pass->scratch, masked);
    *k = (masked){.dims = dims, .value = y, .next = *list};
    memcpy(k->fill, fill, bytes);
    *list = k;
  }
  msc_set_operand(op, i, y);
}

/* ---- who counts padding ---- */

/* Dimensions of tensor t that have a letter with this role, and unequal parts; and the letter's reduction. */
static uint32_t uneven_dims(const msc_op *op, const msc_rule *rule, size_t i, bool reduced,
                            msc_reduction *out_reduction) {
  uint32_t dims = 0;
  for (int d = 0; d < rule->tensor[i].rank; d++) {
    const msc_dim_letters *dim = &rule->tensor[i].dim[d];
    if (dim->num != 1 || !is_uneven(op->in[i].value->type, d)) continue;
    const msc_letter *l = &rule->letter[dim->letter[0]];
    if ((l->role == MSC_RED) != reduced) continue;
    *out_reduction = (msc_reduction)l->reduction;
    dims |= 1u << d;
  }
  return dims;
}

/* Does the device hold only some rows of v (pass cached)? Then it has none of the padding. */
static bool has_cache(const msc_value *v) {
  const msc_attr_value *rows = v->def ? NULL : msc_arg_attr(v->block->func, v->index, MSC_FACT(msc_cache_rows));
  return rows && rows->i > 0;
}

/* Takes the row dimension out of `dims` for a gather's table that is cut along one axis: then only the last parts are
 * padded, and their padding lies behind the end of the table, where no valid index points. */
static uint32_t without_rows(const msc_op *op, size_t i, uint32_t dims) {
  if (op->kind != OP_gather || i != 0) return dims;
  if (has_cache(op->in[0].value)) return dims & ~(1u << msc_op_int(op, "axis"));
  const msc_layout *l = op->in[0].value->type->layout;
  int axis = (int)msc_op_int(op, "axis");
  bool one_axis = !l->split[axis];
  for (int k = l->first[axis]; k < l->first[axis + 1]; k++) one_axis &= l->sub[k].axis == l->sub[l->first[axis]].axis;
  return one_axis ? dims & ~(1u << axis) : dims;
}

/* Takes out the dimensions along which windows slide over the operand: what they see of it is fetched without padding
 * (halo.c). */
static uint32_t without_windows(const msc_op *op, size_t i, uint32_t dims) {
  int64_t lo, hi;
  for (int d = 0; d < op->in[i].value->type->rank; d++)
    if (dims >> d & 1 && msc_halo_of(op, i, d, &lo, &hi)) dims &= ~(1u << d);
  return dims;
}

static void mask_reduced(masker *m, msc_op *op, const msc_rule *rule) {
  for (size_t i = 0; i < op->num_in; i++) {
    msc_reduction how = MSC_SUM;
    unsigned char fill[8];
    uint32_t dims = without_windows(op, i, without_rows(op, i, uneven_dims(op, rule, i, true, &how)));
    store_identity(how, op->in[i].value->type->dtype, fill);
    mask_operand(m, op, i, dims, fill);
  }
}

/* Masks operands whose elements the op checks while it runs. */
static void mask_checked(masker *m, msc_op *op, const msc_rule *rule) {
  const msc_op_info *info = msc_info(op);
  for (size_t i = 0; i < op->num_in && i < (size_t)info->num_operands; i++) {
    const char *name = info->operand[i].name;
    bool divisor = op->kind == OP_div && i == 1, index = !strcmp(name, "indices") || !strcmp(name, "labels");
    msc_dtype d = op->in[i].value->type->dtype;
    msc_reduction unused;
    unsigned char fill[8];
    if ((!divisor && !index) || msc_is_float(d)) continue;
    store_bits(d, divisor, fill);
    mask_operand(m, op, i, uneven_dims(op, rule, i, false, &unused), fill);
  }
}

/* ---- losses ---- */

static bool is_summed_loss(const msc_op *op) {
  return msc_form_of(op) == MSC_FORM_LOSS && op->out[0].type->rank == 0 && msc_op_loss_reduction(op) != MSC_LOSS_NONE;
}

/* The layout of a loss for each row: that of the first operand's leading dimensions. */
static const msc_layout *rows_layout(const masker *m, const msc_type *x, int rank) {
  msc_layout l = *x->layout;
  l.rank = (uint8_t)rank;
  l.num_partial = 0;
  for (int d = rank; d < MSC_MAX_RANK; d++) l.split[d] = NULL;
  return msc_layout_of(m->pass->ctx, &m->f->module->mesh, &l);
}

/* Replaces a loss by the losses of its rows and a reduce_sum or reduce_mean of them. */
static void split_loss(masker *m, msc_op *op) {
  msc_context *ctx = m->pass->ctx;
  msc_builder b = build_before(m, op);
  bool mean = msc_takes_mean(op);
  const msc_type *t = op->out[0].type;
  msc_value *in[8];
  msc_attr attr[MSC_MAX_RANK + 8];
  size_t num = 0;
  for (size_t i = 0; i < op->num_in; i++) in[i] = op->in[i].value;
  for (size_t i = 0; i < op->num_attrs; i++)
    if (strcmp(op->attrs[i].name, "reduction")) attr[num++] = op->attrs[i];
  attr[num++] = msc_loss_reduction_attr(ctx, MSC_LOSS_NONE);
  msc_op *rows = msc_build_with(&b, (msc_op_kind)op->kind, op->num_in, in, 1, num, attr);
  int rank = rows->out[0].type->rank;
  rows->out[0].type = type_with_layout(m, rows->out[0].type, rows_layout(m, in[0]->type, rank));
  int64_t dims[MSC_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = d;
  msc_attr all = msc_named(ctx, "dims", msc_ints(ctx, (size_t)rank, dims));
  msc_op *sum =
      msc_build_with(&b, mean ? OP_reduce_mean : OP_reduce_sum, 1, (msc_value *[]){&rows->out[0]}, 1, 1, &all);
  sum->out[0].type = t;
  msc_replace_uses(&op->out[0], &sum->out[0]);
  msc_op_erase(op);
}

/* ---- the pass ---- */

static bool has_uneven_operand(const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *t = op->in[i].value->type;
    for (int d = 0; d < t->rank; d++)
      if (is_uneven(t, d)) return true;
  }
  return false;
}

static bool mask_op(masker *m, msc_op *op) {
  msc_rule rule;
  if (msc_info(op)->flags & (MSC_MOVES | MSC_TERMINATOR) || !has_uneven_operand(op)) return true;
  MSC_TRY(msc_rule_of(op, m->pass->scratch, &rule));
  mask_reduced(m, op, &rule);
  mask_checked(m, op, &rule);
  return true;
}

static bool mask_func(msc_pass_ctx *pass, msc_func *f) {
  masker m = {.pass = pass, .f = f, .num_values = 0};
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (is_summed_loss(op) && has_uneven_operand(op)) split_loss(&m, op);
  }
  msc_forget_erased(f);
  m.num_values = msc_number(f->body).num_values;
  m.by_value = msc_new_array(pass->scratch, masked *, m.num_values);
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    MSC_TRY(mask_op(&m, op));
  }
  msc_stat(pass, "operands masked", m.num);
  return true;
}

bool pass_mask(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(mask_func(pass, f));
  return true;
}
