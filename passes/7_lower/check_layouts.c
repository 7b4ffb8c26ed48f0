/* check_layouts: checks functions with one rank's shapes against the layouts that pass localize recorded, and reports
 * what does not fit.
 *
 * localize records at every result the whole that it is a part of (msc_value.whole), at arguments `msc.layout` and
 * `msc.shape`, at the function `result_layouts`.  So each op is checked against its sharding rule once more, as it
 * would be on whole tensors: an op that lacks a collective in front of it gets an operand in a layout that its rule
 * does not allow.  A collective must change the layout of its operand into that of its result.  Values that later
 * passes add have no recorded whole; an op that computes such a value has an attribute `reads`, the wholes of its
 * operands. */
#include <string.h>

#include "ir/comm.h"
#include "ir/conv.h"
#include "ir/gemm.h"
#include "ir/verify.h"
#include "passes/check.h"

typedef struct {
  msc_func *f;
  msc_context *ctx;
  const msc_mesh *mesh;
  msc_arena *arena;
  const msc_type **whole; /* by value id; NULL: not known */
} layout_checker;

static const char *type_or_unknown(const layout_checker *z, const msc_type *t) {
  return t ? msc_type_text(z->arena, z->mesh, t) : "nothing that is known";
}

static const msc_type *whole_of(const layout_checker *z, const msc_value *v) { return z->whole[v->id]; }

/* ---- recorded layouts ---- */

/* The whole of v, from attributes with a layout and a shape; NULL: they are missing or wrong. */
static const msc_type *whole_of_record(const layout_checker *z, const msc_value *v, const msc_attr_value *layout,
                                       const msc_attr_value *shape) {
  int64_t dim[MSC_MAX_RANK];
  if (!shape || shape->kind != MSC_ATTR_LIST || (int)shape->list.num != v->type->rank) return NULL;
  const msc_layout *l = msc_attr_layout(layout);
  if (!l || l->rank != v->type->rank) return NULL;
  for (int d = 0; d < v->type->rank; d++) dim[d] = shape->list.v[d].i;
  return msc_type_of(z->ctx, v->type->dtype, v->type->rank, dim, l);
}

/* True if v has the shape of the largest part of `whole`.  Its element type may differ: passes widen some. */
static bool is_largest_part(const msc_value *v, const msc_type *whole) {
  int64_t dim[MSC_MAX_RANK];
  if (whole->rank != v->type->rank || !whole->layout) return false;
  msc_local_dims(whole, whole->layout, dim);
  return !memcmp(dim, v->type->dim, sizeof *dim * (size_t)whole->rank);
}

static bool is_halo(const msc_op *op) { return op && op->kind == OP_comm && msc_op_attr(op, "halo"); }

static const msc_type *replicated_type(const layout_checker *z, const msc_type *t) {
  return msc_type_with_layout(z->ctx, t, msc_layout_replicated(z->ctx, t->rank));
}

static bool record_result_whole(layout_checker *z, const msc_op *op, const msc_value *v, const msc_type *whole) {
  if (!whole) return true;
  z->whole[v->id] = msc_type_of(z->ctx, v->type->dtype, whole->rank, whole->dim, whole->layout);
  if (is_largest_part(v, whole)) return true;
  return msc_op_error(op, MSC_E_SHARDING, "%s: result %u, %s, is no part of %s", msc_kind_name(op->kind), v->index,
                      type_or_unknown(z, v->type), type_or_unknown(z, whole));
}

static bool note_arguments(layout_checker *z) {
  bool ok = true;
  for (size_t i = 0; i < z->f->body->num_args; i++) {
    const msc_value *v = z->f->body->args[i];
    if (msc_arg_attr(z->f, i, MSC_FACT(msc_cached))) continue; /* rows of a cache are no part of a whole */
    const msc_type *t = z->whole[v->id] =
        whole_of_record(z, v, msc_arg_attr(z->f, i, MSC_FACT(msc_layout)), msc_arg_attr(z->f, i, MSC_FACT(msc_shape)));
    if (!t || (msc_verify_type(z->f->module, z->f->loc, t) && is_largest_part(v, t))) continue;
    ok = msc_error(z->ctx, MSC_E_SHARDING, z->f->loc, "%s: argument %zu, %s, is no part of %s", z->f->name, i,
                   type_or_unknown(z, v->type), type_or_unknown(z, t));
  }
  return ok;
}

/* ---- ops on whole tensors ---- */

/* The whole of operand i; for windows that read a part with rows of its neighbours, the whole of the part. */
static const msc_type *operand_whole(const layout_checker *z, const msc_op *op, size_t i) {
  const msc_value *v = op->in[i].value;
  if (!v->def && v->block->parent) v = v->block->parent->in[v->index].value;
  while (msc_is_windowed(op) && is_halo(v->def)) v = v->def->in[0].value;
  return whole_of(z, v);
}

typedef struct {
  msc_op op;
  msc_value *in, *out;
} lifted;

static void lift_op(const layout_checker *z, const msc_op *op, lifted *l) {
  l->op = *op;
  l->op.in = msc_new_array(z->arena, msc_use, op->num_in);
  l->op.out = l->out = msc_new_array(z->arena, msc_value, op->num_out);
  l->in = msc_new_array(z->arena, msc_value, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    l->in[i] = *op->in[i].value;
    l->in[i].type = operand_whole(z, op, i);
    l->op.in[i].value = &l->in[i];
  }
  for (size_t i = 0; i < op->num_out; i++) {
    l->out[i] = op->out[i];
    l->out[i].def = &l->op;
    l->out[i].type = whole_of(z, &op->out[i]);
  }
}

static void set_attr(const layout_checker *z, msc_op *op, const char *name, msc_attr_value v) {
  op->attrs = msc_arena_copy(z->arena, op->attrs, op->num_attrs * sizeof *op->attrs);
  for (size_t i = 0; i < op->num_attrs; i++)
    if (!strcmp(op->attrs[i].name, name)) op->attrs[i].value = v;
}

static bool is_cut_dim(const msc_type *t, int dim) { return t->layout->first[dim + 1] > t->layout->first[dim]; }

/* Sets padding to 0 along cut dimensions, where windows read rows of the neighbours instead, and groups to those of the
 * whole, since they are cut with the channels. */
static void lift_windows(const layout_checker *z, msc_op *op) {
  const msc_type *x = msc_window_images(op)->type;
  const msc_value *weights = msc_window_weights(op);
  const msc_type *w = weights ? weights->type : NULL;
  int64_t padding[4];
  msc_attr_value *v = msc_new_array(z->arena, msc_attr_value, 4);
  if (msc_op_attr(op, "groups") && w && w->rank > 1 && w->dim[1])
    set_attr(z, op, "groups", msc_int(x->dim[1] / w->dim[1]));
  if (msc_op_ints(op, "padding", padding, 4) != 4 || x->rank != 4) return;
  for (int i = 0; i < 4; i++) v[i] = msc_int(is_cut_dim(x, 2 + i / 2) ? 0 : padding[i]);
  set_attr(z, op, "padding", (msc_attr_value){.kind = MSC_ATTR_LIST, .list = {4, v}});
}

/* Gives an op on an aligned table `manual_split`, from the parts in the table's layout. */
static void lift_rows(const layout_checker *z, msc_op *op) {
  const msc_type *table = op->kind == OP_gather ? op->in[0].value->type : op->out[0].type;
  int64_t axis = msc_op_int(op, "axis");
  if (axis < 0) axis += table->rank;
  const int64_t *border = table->layout->split[axis], n = table->dim[axis],
                num = msc_layout_parts(table->layout, (int)axis), part = n / num + (n % num != 0);
  if (!msc_op_bool(op, MSC_FACT(aligned)) || num < 2) return;
  int64_t *rows = msc_new_array(z->arena, int64_t, num);
  for (int64_t i = 0; i < num; i++)
    rows[i] = border ? border[i + 1] - border[i] : i * part < n ? (n - i * part < part ? n - i * part : part) : 0;
  op->attrs = msc_arena_copy(z->arena, op->attrs, op->num_attrs * sizeof *op->attrs);
  msc_attrs_put(z->ctx, &op->attrs, &op->num_attrs, msc_fact_manual_split(z->ctx, (size_t)num, rows));
}

static bool knows_all_wholes(const layout_checker *z, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (!operand_whole(z, op, i)) return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!whole_of(z, &op->out[i])) return false;
  return true;
}

/* True for a cast of partial sums: a product whose sums are kept wide for a library.  Each rank rounds its own, as the
 * product would, and the result is partial too. */
static bool rounds_sums(const layout_checker *z, const msc_op *op) {
  return op->kind == OP_cast && whole_of(z, op->in[0].value)->layout == whole_of(z, &op->out[0])->layout;
}

static bool check_rule(const layout_checker *z, const msc_op *op) {
  lifted l;
  if (!knows_all_wholes(z, op)) return true;
  if (rounds_sums(z, op)) return true;
  lift_op(z, op, &l);
  if (msc_is_windowed(op)) lift_windows(z, &l.op);
  if (op->kind == OP_gather || op->kind == OP_scatter_add) lift_rows(z, &l.op);
  return msc_rule_check(&l.op, z->arena);
}

/* Checks a gemm's bias and `add`: they need a result that is no partial sum, or the layout of the result. */
static bool check_epilogue(const layout_checker *z, const msc_op *op, const msc_type *y) {
  const msc_value *bias = msc_gemm_operand(op, MSC_GEMM_BIAS), *add = msc_gemm_operand(op, MSC_GEMM_ADD);
  const msc_type *b = bias ? whole_of(z, bias) : NULL, *a = add ? whole_of(z, add) : NULL;
  if (y->layout->num_partial && (bias || msc_op_bool(op, "relu") || msc_op_bool(op, "gelu")))
    return msc_op_error(op, MSC_E_SHARDING, "gemm: its sums are partial, %s; a bias, relu or gelu needs them whole",
                        type_or_unknown(z, y));
  if (a && a->layout != y->layout)
    return msc_op_error(op, MSC_E_SHARDING, "gemm: what is added is a part of %s, the result of %s",
                        type_or_unknown(z, a), type_or_unknown(z, y));
  bool same = !b || (b->layout->num_partial == 0 && b->dim[b->rank - 1] == y->dim[y->rank - 1]);
  return same || msc_op_error(op, MSC_E_SHARDING, "gemm: the bias is a part of %s, the result of %s",
                              type_or_unknown(z, b), type_or_unknown(z, y));
}

/* Checks a gemm as a matmul or batch_matmul. */
static bool check_gemm(const layout_checker *z, const msc_op *op) {
  lifted l;
  const msc_type *y = whole_of(z, &op->out[0]);
  if (!whole_of(z, op->in[0].value) || !whole_of(z, op->in[1].value) || !y) return true;
  lift_op(z, op, &l);
  l.op.kind = op->in[1].value->type->rank == 2 ? OP_matmul : OP_batch_matmul;
  l.op.num_in = 2, l.op.num_out = 1;
  return msc_rule_check(&l.op, z->arena) && check_epilogue(z, op, y);
}

/* ---- collectives ---- */

static bool has_layout_and_shape(const msc_type *t, const msc_layout *l, const int64_t *shape) {
  return t->layout == l && !memcmp(t->dim, shape, sizeof *shape * (size_t)t->rank);
}

/* Checks that a halo is of its operand's layout, along other dimensions with equal parts: there it moves buffers,
 * padding included. */
static bool check_halo_layout(const layout_checker *z, const msc_op *op, const msc_comm_part *p) {
  const msc_value *x = op->in[0].value;
  while (is_halo(x->def)) x = x->def->in[0].value;
  const msc_type *have = whole_of(z, x);
  if (!have) return true;
  msc_layout equal = *have->layout;
  msc_comm_halo h;
  if (!msc_comm_halo_of(op, &h)) return msc_op_error(op, MSC_E_ROW, "comm: a wrong halo");
  for (int d = 0; d < equal.rank; d++)
    if (d != h.dim) equal.split[d] = NULL;
  if (msc_layout_of(z->ctx, z->mesh, &equal) == p->from) return true;
  return msc_op_error(op, MSC_E_SHARDING, "comm: halo of %s, but its operand is a part of %s",
                      msc_layout_print(z->arena, z->mesh, p->from), type_or_unknown(z, have));
}

static bool check_comm_value(const layout_checker *z, const msc_op *op, size_t i, const msc_comm_part *p) {
  const msc_type *have = whole_of(z, op->in[i].value), *makes = whole_of(z, &op->out[i]);
  if (is_halo(op)) return check_halo_layout(z, op, p);
  const char *verb = msc_verb_name(msc_op_verb(op));
  if (have && !has_layout_and_shape(have, p->from, p->shape))
    return msc_op_error(op, MSC_E_SHARDING, "comm: %s from %s, but operand %zu is a part of %s", verb,
                        msc_layout_print(z->arena, z->mesh, p->from), i, type_or_unknown(z, have));
  if (makes && !has_layout_and_shape(makes, p->to, p->shape))
    return msc_op_error(op, MSC_E_SHARDING, "comm: %s to %s, but result %zu is a part of %s", verb,
                        msc_layout_print(z->arena, z->mesh, p->to), i, type_or_unknown(z, makes));
  if (p->from->num_partial && msc_op_reduction(op) != p->from->reduction)
    return msc_op_error(op, MSC_E_SHARDING, "comm: reduces by %s, but operand %zu is a partial %s",
                        msc_op_str(op, "reduction"), i, msc_reduction_name(p->from->reduction));
  return true;
}

static bool check_comm_layouts(layout_checker *z, const msc_op *op) {
  if (msc_op_attr(op, "axes")) return true;
  const msc_comm_part *p = msc_comm_parts(op, z->arena);
  for (size_t i = 0; p && i < op->num_in; i++) MSC_TRY(check_comm_value(z, op, i, &p[i]));
  return p != NULL;
}

/* ---- offsets ---- */

static const msc_attr_value *list_entry(const msc_attr_value *list, size_t i) {
  return list && list->kind == MSC_ATTR_LIST && i < list->list.num ? &list->list.v[i] : NULL;
}

/* True if the offset is that of a part of t. */
static bool is_start_of(const msc_attr_value *start, const msc_type *t) {
  const msc_attr_value *layout = msc_find_attr(start->dict.a, start->dict.num, MSC_FACT(layout)),
                       *shape = msc_find_attr(start->dict.a, start->dict.num, MSC_FACT(shape));
  bool same =
      shape && shape->kind == MSC_ATTR_LIST && (int)shape->list.num == t->rank && msc_attr_layout(layout) == t->layout;
  for (int d = 0; same && d < t->rank; d++) same = shape->list.v[d].i == t->dim[d];
  return same;
}

/* The dimension of the indexed tensor that the op's `start` is an offset in; -1: not known. */
static int64_t indexed_dim(const msc_op *op) {
  msc_indexed x;
  return msc_indexed_of(op, &x) ? x.dim : -1;
}

/* Checks that an offset belongs to an operand or result of the op.  `behind`: it must be minus the size of the part, as
 * that of an iota may be. */
static bool check_start(const layout_checker *z, const msc_op *op, int64_t number, int64_t dim, bool behind) {
  const msc_attr_value *start = number < 0 ? NULL : list_entry(msc_func_attr(z->f, MSC_FACT(starts)), (size_t)number);
  bool ok = number < 0;
  const msc_attr_value *of =
      start && start->kind == MSC_ATTR_DICT ? msc_find_attr(start->dict.a, start->dict.num, MSC_FACT(dim)) : NULL;
  if (!of || of->kind != MSC_ATTR_INT || (dim >= 0 && of->i != dim)) start = NULL;
  if (start && op->kind != OP_iota &&
      behind != (msc_find_attr(start->dict.a, start->dict.num, MSC_FACT(behind)) != NULL))
    start = NULL;
  for (size_t i = 0; start && !ok && i < (size_t)op->num_in + op->num_out; i++) {
    const msc_type *t = i < op->num_in ? operand_whole(z, op, i) : whole_of(z, &op->out[i - op->num_in]);
    ok = !t || is_start_of(start, t);
  }
  return ok ||
         msc_op_error(op, MSC_E_SHARDING, "%s: offset %" PRId64 " of `starts` is of nothing that it reads or makes",
                      msc_kind_name(op->kind), number);
}

static bool check_offsets(const layout_checker *z, const msc_op *op) {
  static const char *const names[] = {MSC_FACT(start), MSC_FACT(part)};
  int64_t starts[MSC_MAX_RANK];
  for (int i = 0; i < 2; i++) {
    const msc_attr_value *v = msc_op_attr(op, names[i]);
    if (v && v->kind == MSC_ATTR_INT) MSC_TRY(check_start(z, op, v->i, indexed_dim(op), i == 1));
  }
  for (int d = msc_op_attr(op, MSC_FACT(starts)) ? msc_op_ints(op, MSC_FACT(starts), starts, MSC_MAX_RANK) : 0;
       d-- > 0;)
    MSC_TRY(check_start(z, op, starts[d], d, false));
  return true;
}

/* ---- wholes of operands ---- */

/* Checks operands against the attribute `reads`: a type for every operand, or "". */
static bool check_reads(const layout_checker *z, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(reads));
  for (size_t i = 0; v && v->kind == MSC_ATTR_LIST && i < v->list.num && i < op->num_in; i++) {
    const msc_type *want = v->list.v[i].kind == MSC_ATTR_TYPE ? v->list.v[i].type : NULL,
                   *have = operand_whole(z, op, i);
    if (want && have && !(want->layout == have->layout && has_layout_and_shape(have, want->layout, want->dim)))
      return msc_op_error(op, MSC_E_SHARDING, "%s: operand %zu is a part of %s, and must be of %s",
                          msc_kind_name(op->kind), i, type_or_unknown(z, have), type_or_unknown(z, want));
  }
  return true;
}

/* True if the wholes of some operands are known, but not of all operands and results, so that no rule is checked and
 * the op needs `reads`. */
static bool needs_reads(const layout_checker *z, const msc_op *op) {
  bool known = false;
  for (size_t i = 0; i < op->num_in; i++) known |= operand_whole(z, op, i) != NULL;
  return known && op->num_out && !knows_all_wholes(z, op) && !msc_op_attr(op, MSC_FACT(reads)) &&
         op->kind != OP_fused && op->kind != OP_comm;
}

static void set_reads(layout_checker *z, msc_op *op) {
  msc_attr_value *v = msc_new_array(z->arena, msc_attr_value, op->num_in);
  if (!needs_reads(z, op)) return;
  for (size_t i = 0; i < op->num_in; i++)
    v[i] = operand_whole(z, op, i) ? msc_type_attr(operand_whole(z, op, i)) : msc_str(z->ctx, "");
  msc_op_put(op, msc_fact_reads(z->ctx, op->num_in, v));
}

/* ---- op by op ---- */

static bool check_ops(layout_checker *z, const msc_block *b);

static bool check_fused(layout_checker *z, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) z->whole[op->body->args[i]->id] = whole_of(z, op->in[i].value);
  MSC_TRY(check_ops(z, op->body));
  for (size_t i = 0; i < op->num_out; i++) {
    const msc_type *made = whole_of(z, op->body->last->in[i].value), **mine = &z->whole[op->out[i].id];
    if (!*mine) *mine = made;
    if (made && made != *mine)
      return msc_op_error(op, MSC_E_SHARDING, "fused: result %zu is a part of %s, not of %s", i,
                          type_or_unknown(z, made), type_or_unknown(z, *mine));
  }
  return true;
}

/* A hash of all that an op is checked against; not 0. */
static uint64_t hash_of_checked(const layout_checker *z, const msc_op *op) {
  const msc_attr_value *starts = msc_func_attr(z->f, MSC_FACT(starts));
  uint64_t h = msc_mix_attrs(msc_mix_pointer(op->kind, z->f->module), op->attrs, op->num_attrs);
  if (starts && starts->kind == MSC_ATTR_LIST) h = msc_mix_pointer(h, starts->list.v);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix_pointer(h, operand_whole(z, op, i));
  for (size_t i = 0; i < op->num_out; i++) h = msc_mix_pointer(h, whole_of(z, &op->out[i]));
  return h ? h : 1;
}

/* Checks an op unless it was found right before with the same hash: most passes leave most ops as they are. */
static bool check_once(layout_checker *z, msc_op *op) {
  uint64_t number = hash_of_checked(z, op);
  if (op->fits == number) return true;
  bool ok = check_reads(z, op) && check_offsets(z, op) &&
            (op->kind == OP_comm   ? check_comm_layouts(z, op)
             : op->kind == OP_gemm ? check_gemm(z, op)
                                   : check_rule(z, op));
  op->fits = ok ? number : 0;
  return ok;
}

static bool check_op_layouts(layout_checker *z, msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++) MSC_TRY(record_result_whole(z, op, &op->out[i], op->out[i].whole));
  if (msc_info(op)->flags & MSC_TERMINATOR) return true;
  if (msc_is_constant_op(op) && op->out[0].type->rank == 0 && !whole_of(z, &op->out[0]))
    return record_result_whole(z, op, &op->out[0], replicated_type(z, op->out[0].type));
  if (msc_is_message(op)) return true;
  return op->body ? check_fused(z, op) : check_once(z, op);
}

static bool check_ops(layout_checker *z, const msc_block *b) {
  bool ok = true;
  for (msc_op *op = b->first; op; op = op->next) ok &= check_op_layouts(z, op);
  return ok;
}

/* ---- results ---- */

static bool check_result_layouts(const layout_checker *z) {
  const msc_op *ret = z->f->body->last;
  const msc_attr_value *ties = msc_func_attr(z->f, MSC_FACT(ties));
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_value *v = ret->in[i].value;
    const msc_type *t = whole_of(z, v),
                   *want = whole_of_record(z, v, list_entry(msc_func_attr(z->f, MSC_FACT(result_layouts)), i),
                                           list_entry(msc_func_attr(z->f, MSC_FACT(result_shapes)), i));
    const msc_attr_value *tie = list_entry(ties, i);
    bool tied = tie && tie->kind == MSC_ATTR_INT && tie->i >= 0 && tie->i < (int64_t)z->f->body->num_args;
    const msc_type *arg = tied ? whole_of(z, z->f->body->args[tie->i]) : NULL;
    if (t && want && t != want)
      ok = msc_op_error(ret, MSC_E_SHARDING, "return: result %zu is a part of %s, and must be of %s", i,
                        type_or_unknown(z, t), type_or_unknown(z, want));
    if (t && arg && t != arg)
      ok = msc_op_error(ret, MSC_E_SHARDING,
                        "return: result %zu is a part of %s, but argument %" PRId64 ", which it becomes, of %s", i,
                        type_or_unknown(z, t), tie->i, type_or_unknown(z, arg));
  }
  return ok;
}

static layout_checker start_checking(msc_func *f, msc_arena *arena) {
  layout_checker z = {f, f->module->ctx, &f->module->mesh, arena, NULL};
  z.whole = msc_new_array(arena, const msc_type *, msc_number(f->body).num_values);
  return z;
}

static bool check_layouts_of_func(msc_func *f, msc_arena *arena) {
  layout_checker z = start_checking(f, arena);
  return note_arguments(&z) && (check_ops(&z, f->body) & check_result_layouts(&z));
}

/* False for a program that the user wrote for one rank, and for one device: they have no layouts to check. */
static bool is_layout_program(const msc_func *f) {
  return msc_func_attr(f, MSC_FACT(result_layouts)) && !msc_func_attr(f, MSC_FACT(manual)) &&
         msc_mesh_size(&f->module->mesh) > 1;
}

bool msc_check_layouts(msc_module *m) {
  bool ok = true;
  for (msc_func *f = m->first; f; f = f->next) {
    msc_arena *arena = msc_arena_new(m->ctx);
    if (is_layout_program(f)) ok &= check_layouts_of_func(f, arena);
    msc_arena_free(arena);
  }
  return ok;
}

void msc_record_reads(msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) {
    msc_arena *arena = msc_arena_new(m->ctx);
    layout_checker z = start_checking(f, arena);
    bool known = is_layout_program(f) && note_arguments(&z);
    for (msc_op *op = known ? f->body->first : NULL; op; op = op->next) {
      for (size_t i = 0; i < op->num_out; i++) record_result_whole(&z, op, &op->out[i], op->out[i].whole);
      set_reads(&z, op);
    }
    msc_arena_free(arena);
  }
}

void msc_forget_wholes(msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++) op->out[i].whole = NULL;
  msc_op_unset(op, MSC_FACT(reads));
}
