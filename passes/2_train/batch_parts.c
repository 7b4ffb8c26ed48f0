/* batch_parts.c: builds an op on the parts of the batch side by side (see batch_parts.h): attributes that name
 * dimensions are shifted by one, those that name sizes get the sizes of a part, and operands of lower rank get ones
 * behind r. */
#include <string.h>

#include "ir/fact.h"
#include "ir/formula.h"
#include "ir/table.h"
#include "passes/2_train/batch_parts.h"
#include "passes/2_train/train.h"

/* One op being built. */
typedef struct {
  msc_parts *p;
  msc_op *op;
  int64_t r;
  msc_arena *arena;
  msc_builder b;
  msc_rule rule;
  msc_batch_letters letters; /* that the batch is cut along */
  size_t num_in;
  msc_value *in[16]; /* operand by parts, or as it is */
  bool parted[16];
} part_builder;

static msc_value *reshape_parts(part_builder *z, msc_value *x, int rank, const int64_t *dim) {
  return reshape(&z->b, x, rank, dim);
}

/* ---- from the whole batch to parts, and back ---- */

/* [.., n, ..] -> [r, .., n/r, ..]; of a dimension with `outer` runs of samples, each run is cut. */
static msc_value *cut_into_parts(part_builder *z, msc_value *v, msc_batch_place at) {
  int64_t size[MSC_MAX_RANK], perm[MSC_MAX_RANK], part[MSC_MAX_RANK] = {z->r};
  const msc_type *t = v->type;
  int d = 0, outer = at.outer > 1, rank = t->rank + 1 + outer, r = at.dim + outer; /* the dimension that is r */
  if (rank > MSC_MAX_RANK || t->dim[at.dim] / at.outer % z->r) return NULL;
  for (; d < at.dim; d++) size[d] = t->dim[d];
  if (outer) size[d] = at.outer;
  size[r] = z->r, size[r + 1] = t->dim[at.dim] / at.outer / z->r;
  for (d = r + 2; d < rank; d++) size[d] = t->dim[d - 1 - outer];
  perm[0] = r;
  for (d = 1; d < rank; d++) perm[d] = d <= r ? d - 1 : d;
  for (d = 0; d < t->rank; d++) part[d + 1] = t->dim[d] / (d == at.dim ? z->r : 1);
  msc_value *x = reshape_parts(z, v, rank, size);
  if (r && x) x = transpose(&z->b, x, perm);
  return outer && x ? reshape_parts(z, x, t->rank + 1, part) : x;
}

/* [r, .., n/r, ..] -> [.., n, ..] of type t */
static msc_value *join_parts(part_builder *z, msc_value *v, msc_batch_place at, const msc_type *t) {
  int64_t size[MSC_MAX_RANK], perm[MSC_MAX_RANK];
  int outer = at.outer > 1, rank = v->type->rank + outer, r = at.dim + outer; /* where r goes */
  if (rank > MSC_MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++) {
    size[d] = d <= r ? v->type->dim[d] : v->type->dim[d - outer];
    perm[d] = d < r ? d + 1 : d == r ? 0 : d;
  }
  if (outer) size[r] = at.outer, size[r + 1] = v->type->dim[r] / at.outer, v = reshape_parts(z, v, rank, size);
  if (r && v) v = transpose(&z->b, v, perm);
  return v ? reshape_parts(z, v, t->rank, t->dim) : NULL;
}

/* ---- operands ---- */

static msc_batch_place place_in(const part_builder *z, size_t tensor, int from) {
  return msc_batch_place_of(&z->letters, &z->rule, tensor, from);
}

/* The batch dimension of a tensor; -1: none, -2: several. */
static int batch_dim_of(const part_builder *z, size_t tensor) {
  int dim = place_in(z, tensor, 0).dim;
  return dim >= 0 && place_in(z, tensor, dim + 1).dim >= 0 ? -2 : dim;
}

static msc_own *own_value_of(msc_parts *p, const msc_value *v) {
  msc_reserve(p->facts.arena, p->own, p->num_own, (size_t)v->id + 1);
  return &p->own[v->id];
}

static void record_replaced(msc_parts *p, msc_op *op) {
  msc_reserve(p->facts.arena, p->replaced, p->room, p->num_replaced + 1);
  p->replaced[p->num_replaced++] = op;
}

static const char *build_op_by_parts(part_builder *z, msc_value **out);
static const char *start_building(part_builder *z, msc_parts *p, msc_op *op, const msc_op *before, int64_t r);

/* Computes the value of every part of a mean or sum over the batch: builds the op that made it by parts. */
static const char *compute_source_by_parts(part_builder *z, const msc_value *v) {
  part_builder again;
  msc_value *out[8];
  if (!v->def || v->def->num_out > 8) return "it sees a mean or sum over the batch that no op made";
  const char *why = start_building(&again, z->p, v->def, z->op, z->r);
  if (!why) why = build_op_by_parts(&again, out);
  if (why) return why;
  if (msc_batch_divides_sum(&z->p->facts, v->def)) /* by the number of all samples: a part has an r-th of them */
    out[0] = scale_by(&again.b, out[0], (double)z->r);
  if (!out[0]) return "it cannot be computed by parts yet";
  for (size_t i = 0; i < v->def->num_out; i++) *own_value_of(z->p, &v->def->out[i]) = (msc_own){out[i], z->r};
  record_replaced(z->p, v->def);
  return NULL;
}

static const char *prepare_operand(part_builder *z, size_t i) {
  msc_value *v = z->op->in[i].value;
  const msc_batch_fact *f = msc_batch_of(&z->p->facts, v);
  msc_own *own = own_value_of(z->p, v);
  if (f->meaning == MSC_BATCH_MIXED) return "it reads what mixes samples in a way that is not supported yet";
  bool is_of_all = f->meaning == MSC_BATCH_MEAN || f->meaning == MSC_BATCH_SUM || f->meaning == MSC_BATCH_TOTAL;
  if (is_of_all && own->r != z->r) {
    const char *why = compute_source_by_parts(z, v);
    if (why) return why;
    own = own_value_of(z->p, v);
  }
  z->in[i] = v;
  z->parted[i] = f->meaning != MSC_BATCH_SAME;
  if (f->meaning == MSC_BATCH_PART || (f->meaning == MSC_BATCH_SAME && batch_dim_of(z, i) >= 0)) {
    msc_batch_place at = f->meaning == MSC_BATCH_PART ? (msc_batch_place){f->dim, f->outer} : place_in(z, i, 0);
    if (f->meaning == MSC_BATCH_SAME && z->p->facts.view == MSC_BATCH_WHOLE && !msc_batch_is_uniform(v, at))
      return "an operand that is no input differs from sample to sample";
    z->parted[i] = true;
    z->in[i] = cut_into_parts(z, v, at);
    return z->in[i] ? NULL : "its batch does not divide into the parts";
  }
  if (!z->parted[i]) return batch_dim_of(z, i) == -2 ? "the batch is several dimensions of an operand" : NULL;
  if (own->r != z->r) return "its operands see different parts of the batch";
  z->in[i] = own->value;
  return NULL;
}

static const char *start_building(part_builder *z, msc_parts *p, msc_op *op, const msc_op *before, int64_t r) {
  *z = (part_builder){.p = p, .op = op, .r = r, .arena = p->facts.arena, .num_in = op->num_in};
  z->b = (msc_builder){
      .func = p->facts.f, .block = op->block, .before = (msc_op *)(uintptr_t)before, .loc = op->loc, .name = op->name};
  if (op->num_in > sizeof z->in / sizeof *z->in || !(msc_info(op)->flags & MSC_PURE) || op->body)
    return "it cannot be computed by parts yet";
  if (!msc_rule_of(op, z->arena, &z->rule)) return "it has no rule";
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_batch_fact *f = msc_batch_of(&p->facts, op->in[i].value);
    if (f->meaning == MSC_BATCH_PART &&
        !msc_batch_add_letter(&z->letters, &z->rule, i, (msc_batch_place){f->dim, f->outer}))
      return "samples begin or end within what it takes as one";
  }
  for (size_t i = 0; i < op->num_in; i++) {
    const char *why = prepare_operand(z, i);
    if (why) return why;
  }
  return NULL;
}

/* ---- the op ---- */

/* Inserts dimensions of one behind r, so that dimensions align from the right with `rank` dimensions beside r. */
static msc_value *insert_ones_behind_r(part_builder *z, msc_value *v, int rank) {
  int64_t dim[MSC_MAX_RANK] = {z->r};
  int own = v->type->rank - 1, ones = rank - own;
  if (ones <= 0) return v;
  for (int d = 0; d < rank; d++) dim[d + 1] = d < ones ? 1 : v->type->dim[d - ones + 1];
  return reshape_parts(z, v, rank + 1, dim);
}

/* Repeats for every part the operands that all parts share. */
static bool repeat_common_operands(part_builder *z) {
  for (size_t i = 0; i < z->num_in; i++) {
    const msc_type *t = z->in[i]->type;
    int64_t dim[MSC_MAX_RANK] = {z->r};
    if (z->parted[i]) continue;
    memcpy(dim + 1, t->dim, (size_t)t->rank * sizeof *dim);
    z->in[i] = broadcast(&z->b, z->in[i], t->rank + 1, dim);
    MSC_TRY(z->in[i]);
    z->parted[i] = true;
  }
  return true;
}

/* The dimensions of the result by parts: r, then those of one part. Returns their number. */
static int dims_by_parts(const part_builder *z, size_t result, int64_t *out_dim) {
  const msc_type *t = z->op->out[result].type;
  out_dim[0] = z->r;
  for (int d = 0; d < t->rank; d++)
    out_dim[d + 1] = t->dim[d] / (place_in(z, z->op->num_in + result, d).dim == d ? z->r : 1);
  return t->rank + 1;
}

static msc_op *copy_for_parts(part_builder *z) {
  msc_op *op = msc_op_copy(z->b.func, z->op, z->in);
  msc_op_unset_sort(op, MSC_SORT_STRATEGY);
  msc_op_unset(op, MSC_FACT(cross_batch));
  return op;
}

static bool insert_built_op(part_builder *z, msc_op *op, msc_value **out) {
  msc_insert_before(z->b.before, op);
  MSC_TRY(msc_infer(op));
  for (size_t i = 0; i < op->num_out; i++) out[i] = &op->out[i];
  return true;
}

/* Adjusts an attribute to the dimension of the r parts, which now stands first: numbers of dimensions grow by one, and
 * a list with an entry for each dimension gets one for r. A limit along the batch becomes that of one part. */
static void shift_attr(const part_builder *z, msc_op *op, const msc_attr_spec *s, int rank) {
  bool of_dims = s->sense == MSC_SENSE_DIM || s->sense == MSC_SENSE_PERM || s->sense == MSC_SENSE_EACH;
  if (!of_dims || (s->is_list && !msc_op_attr(z->op, s->name))) return;
  bool limits = !strcmp(s->name, "limit"), each = s->sense == MSC_SENSE_EACH, adds = each || s->sense == MSC_SENSE_PERM;
  int64_t v[MSC_MAX_RANK + 1] = {limits ? z->r : !strcmp(s->name, "stride")};
  int num = s->is_list ? msc_op_ints(z->op, s->name, v + adds, MSC_MAX_RANK) : 1, batch = batch_dim_of(z, 0);
  if (!s->is_list) v[0] = msc_op_int(z->op, s->name);
  for (int i = adds; i < num + adds && !each; i++) v[i] = (v[i] < 0 ? v[i] + rank : v[i]) + 1;
  if (limits && batch >= 0) v[batch + 1] /= z->r;
  msc_op_set(op, s->name, s->is_list ? msc_ints(formula_ctx(&z->b), (size_t)(num + adds), v) : msc_int(v[0]));
}

static bool build_elementwise(part_builder *z, msc_value **out) {
  for (size_t i = 0; i < z->num_in; i++)
    if (z->parted[i]) MSC_TRY((z->in[i] = insert_ones_behind_r(z, z->in[i], z->op->out[0].type->rank)));
  return insert_built_op(z, copy_for_parts(z), out);
}

static bool build_product_by_parts(part_builder *z, msc_value **out) {
  for (size_t i = 0; i < 2; i++)
    if (z->parted[i]) MSC_TRY((z->in[i] = insert_ones_behind_r(z, z->in[i], z->op->out[0].type->rank)));
  msc_op *op = copy_for_parts(z);
  op->kind = OP_batch_matmul;
  return insert_built_op(z, op, out);
}

static bool build_shape(part_builder *z, msc_value **out) {
  int64_t dim[MSC_MAX_RANK];
  int rank = dims_by_parts(z, 0, dim);
  bool stretch = msc_form_of(z->op) == MSC_FORM_STRETCH;
  if (stretch) MSC_TRY((z->in[0] = insert_ones_behind_r(z, z->in[0], rank - 1)));
  out[0] = with_ints(&z->b, stretch ? OP_broadcast_to : OP_reshape, z->in[0], MSC_FACT(shape), rank, dim);
  return out[0] != NULL;
}

/* Builds the loss of each sample, then the mean or sum of each part. */
static bool build_loss(part_builder *z, msc_value **out) {
  msc_loss_reduction reduction = msc_op_loss_reduction(z->op);
  MSC_TRY(repeat_common_operands(z));
  msc_op *op = copy_for_parts(z);
  msc_op_put(op, msc_loss_reduction_attr(formula_ctx(&z->b), MSC_LOSS_NONE));
  MSC_TRY(insert_built_op(z, op, out));
  if (reduction == MSC_LOSS_NONE) return true;
  int64_t dims[MSC_MAX_RANK];
  for (int d = 1; d < out[0]->type->rank; d++) dims[d - 1] = d;
  out[0] = with_ints(&z->b, reduction == MSC_LOSS_MEAN ? OP_reduce_mean : OP_reduce_sum, out[0], "dims",
                     out[0]->type->rank - 1, dims);
  return out[0] != NULL;
}

static bool build_with_shifted_attrs(part_builder *z, msc_value **out) {
  const msc_op_info *info = msc_info(z->op);
  if (info->operand[0].variadic) MSC_TRY(repeat_common_operands(z));
  msc_op *op = copy_for_parts(z);
  int rank = z->op->in[0].value->type->rank + (op->kind == OP_stack); /* its axis is one of the result */
  for (int i = 0; z->parted[0] && i < info->num_attrs; i++) shift_attr(z, op, &info->attr[i], rank);
  return insert_built_op(z, op, out);
}

typedef bool build_fn(part_builder *z, msc_value **out);

/* True if `operand` is the only operand by parts. */
static bool is_only_parted(const part_builder *z, size_t operand) {
  for (size_t i = 0; i < z->num_in; i++)
    if (z->parted[i] != (i == operand)) return false;
  return true;
}

static build_fn *find_builder(const part_builder *z) {
  const msc_op_info *info = msc_info(z->op);
  switch (info->form) {
    case MSC_FORM_PRODUCT: return build_product_by_parts;
    case MSC_FORM_RESHAPE:
    case MSC_FORM_STRETCH: return build_shape;
    case MSC_FORM_LOSS: return build_loss;
    case MSC_FORM_ELEMENTWISE: return build_elementwise;
    case MSC_FORM_MOVE:
      if (info->operand[0].variadic) return build_with_shifted_attrs;
      return is_only_parted(z, 0) && !info->expand ? build_with_shifted_attrs : NULL;
    case MSC_FORM_REDUCE:
    case MSC_FORM_ROWS: return is_only_parted(z, 0) ? build_with_shifted_attrs : NULL;
    default: break;
  }
  if (z->op->kind == OP_gather)
    return is_only_parted(z, 1) && msc_op_int(z->op, "axis") == 0 ? build_with_shifted_attrs : NULL;
  return z->op->kind == OP_one_hot && is_only_parted(z, 0) ? build_with_shifted_attrs : NULL;
}

static const char *build_op_by_parts(part_builder *z, msc_value **out) {
  build_fn *fn = find_builder(z);
  if (!fn) return "it cannot be computed by parts yet";
  for (size_t i = 0; i < z->op->num_out; i++) {
    if (z->op->out[i].type->rank == MSC_MAX_RANK) return "it has too many dimensions";
    if (batch_dim_of(z, z->op->num_in + i) == -2) return "it pairs every sample with every other one";
  }
  return fn(z, out) ? NULL : "it cannot be computed by parts yet";
}

/* ---- results ---- */

const char *msc_compute_by_parts(msc_parts *p, msc_op *op, int64_t r) {
  part_builder z;
  msc_value *out[16];
  if (op->num_out > 16) return "it has too many results";
  const char *why = start_building(&z, p, op, op, r);
  if (!why) why = build_op_by_parts(&z, out);
  if (why) return why;
  for (size_t i = 0; i < op->num_out; i++) {
    msc_batch_place at = place_in(&z, op->num_in + i, 0);
    *own_value_of(p, &op->out[i]) = (msc_own){out[i], r};
    *msc_batch_of(&p->facts, &op->out[i]) = (msc_batch_fact){.meaning = MSC_BATCH_OWN};
    if (at.dim < 0) continue;
    msc_value *whole = join_parts(&z, out[i], at, op->out[i].type);
    if (!whole) return "it cannot be computed by parts yet";
    msc_batch_add(&p->facts, whole, msc_batch_part(at.dim, at.outer));
    msc_replace_uses(&op->out[i], whole);
  }
  record_replaced(p, op);
  return NULL;
}

msc_value *msc_mean_of_parts(msc_parts *p, const msc_value *v, msc_op *before) {
  msc_value *own = own_value_of(p, v)->value;
  msc_context *ctx = p->facts.f->module->ctx;
  msc_builder b = {
      .func = p->facts.f, .block = before->block, .before = before, .loc = v->def->loc, .name = v->def->name};
  msc_attr a = msc_named(ctx, "dims", msc_ints(ctx, 1, (int64_t[]){0}));
  if (!msc_is_float(v->type->dtype)) {
    msc_op_error(v->def, MSC_E_UNSUPPORTED,
                 "%s: a result of whole numbers of which every part of the batch has its own: they have no mean",
                 msc_kind_name(v->def->kind));
    return NULL;
  }
  msc_op *mean = msc_build_with(&b, OP_reduce_mean, 1, &own, 1, 1, &a);
  return mean ? &mean->out[0] : NULL;
}

void msc_drop_replaced(msc_parts *p) {
  for (size_t i = p->num_replaced; i-- > 0;)
    if (msc_is_unused(p->replaced[i])) msc_op_erase(p->replaced[i]);
}
