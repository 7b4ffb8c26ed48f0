/* interp.c: a function and its arguments in; its results out, op by op on all ranks in step.  Kernels and collectives
 * are in the files beside it. */
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

#include "ir/conv.h"
#include "ir/interp/kernel.h"
#include "ir/verify.h"

/* ---- lowered functions, whose arguments and results have facts with the whole tensor and its layout ---- */

static int dims_of_list(const msc_attr_value *list, int64_t *out_dim) {
  int n = 0;
  for (; list && list->kind == MSC_ATTR_LIST && n < (int)list->list.num && n < MSC_MAX_RANK; n++)
    out_dim[n] = list->list.v[n].i;
  return n;
}

/* Returns the global type, with its layout, of a part of type `local` with these facts; `local` itself without
 * facts. */
static const msc_type *whole_type(const msc_interp *in, const msc_type *local, const msc_attr_value *layout,
                                  const msc_attr_value *shape) {
  int64_t dim[MSC_MAX_RANK];
  const msc_layout *l = msc_attr_layout(layout);
  if (!l || !shape) return local;
  const msc_type *t = msc_type_of(in->m->ctx, local->dtype, dims_of_list(shape, dim), dim, l);
  return msc_verify_type(in->m, in->f->loc, t) ? t : local;
}

static const msc_type *type_of_arg(const msc_interp *in, size_t i) {
  return whole_type(in, in->f->body->args[i]->type, msc_arg_attr(in->f, i, MSC_FACT(msc_layout)),
                    msc_arg_attr(in->f, i, MSC_FACT(msc_shape)));
}

static const msc_type *type_of_result(const msc_interp *in, size_t i) {
  const msc_attr_value *layouts = msc_func_attr(in->f, MSC_FACT(result_layouts)),
                       *shapes = msc_func_attr(in->f, MSC_FACT(result_shapes));
  const msc_type *local = in->f->body->last->in[i].value->type;
  if (!layouts || !shapes || i >= layouts->list.num || i >= shapes->list.num) return local;
  return whole_type(in, local, &layouts->list.v[i], &shapes->list.v[i]);
}

/* Returns entry `number` of the function's `starts`: the first element of this rank's part of a dimension, or
 * (`behind`) minus the number of its elements; MSC_NO_START: there is none. */
static int64_t start_number(const msc_interp *in, int64_t number, int64_t rank) {
  const msc_attr_value *starts = msc_func_attr(in->f, MSC_FACT(starts));
  if (!starts || number < 0 || (size_t)number >= starts->list.num) return MSC_NO_START;
  const msc_attr_value *s = &starts->list.v[number];
  const msc_attr_value *dim = msc_find_attr(s->dict.a, s->dict.num, MSC_FACT(dim));
  int64_t shape[MSC_MAX_RANK];
  msc_box box;
  const msc_layout *l = msc_attr_layout(msc_find_attr(s->dict.a, s->dict.num, MSC_FACT(layout)));
  if (!l || !dim || dims_of_list(msc_find_attr(s->dict.a, s->dict.num, MSC_FACT(shape)), shape) != l->rank)
    return MSC_NO_START;
  msc_box_layout cuts = msc_layout_cuts(l);
  if (!msc_box_shape_ok(&cuts, shape)) return MSC_NO_START;
  msc_box_of(&in->mesh, &cuts, shape, rank, &box);
  return msc_find_attr(s->dict.a, s->dict.num, MSC_FACT(behind)) ? -box.size[dim->i] : box.begin[dim->i];
}

/* Returns the first element of the rank's part of the dimension that op's fact `start` names; MSC_NO_START: op has no
 * such fact. */
static int64_t start_of_part(const msc_interp *in, const msc_op *op, int64_t rank) {
  const msc_attr_value *number = msc_op_attr(op, MSC_FACT(start));
  return number && number->kind == MSC_ATTR_INT ? start_number(in, number->i, rank) : MSC_NO_START;
}

/* Sets where this rank's part of a random op begins in the whole tensor, and the sizes of the whole: from `starts` and
 * `whole_shape` after lowering, before it from `whole_layout`. */
static void set_begin(const msc_interp *in, msc_eval *e, int64_t rank) {
  int64_t number[MSC_MAX_RANK], *begin, *whole;
  const msc_layout *l = msc_op_layout(e->op, MSC_FACT(whole_layout));
  int num = l ? l->rank : msc_op_ints(e->op, MSC_FACT(starts), number, MSC_MAX_RANK);
  if (num < 0 || (l && num != e->op->out[0].type->rank)) return;
  begin = msc_new_array(in->arena, int64_t, MSC_MAX_RANK);
  whole = msc_new_array(in->arena, int64_t, MSC_MAX_RANK);
  if (l) {
    msc_box_layout cuts = msc_layout_cuts(l);
    msc_box box;
    for (int d = 0; d < num; d++) whole[d] = e->op->out[0].type->dim[d] * msc_layout_parts(l, d);
    msc_box_of(&in->mesh, &cuts, whole, rank, &box);
    memcpy(begin, box.begin, sizeof box.begin);
  } else {
    msc_op_ints(e->op, MSC_FACT(whole_shape), whole, MSC_MAX_RANK);
    for (int d = 0; d < num; d++) begin[d] = number[d] < 0 ? 0 : start_number(in, number[d], rank);
  }
  e->begin = begin, e->whole = whole;
}

/* ---- running ---- */

static void new_pieces(const msc_interp *in, const msc_value *v) {
  const msc_type *t = v->type;
  for (int64_t r = 0; r < in->num_ranks; r++)
    *msc_piece_of(in, v, r) =
        msc_piece_of_layout(&in->mesh, in->arena, t->dtype, t->rank, t->dim, in->one_device ? NULL : t->layout, r);
}

static bool run_kernel(const msc_interp *in, const msc_op *op, msc_eval_fn *kernel) {
  for (int64_t r = 0; r < in->num_ranks; r++) {
    msc_eval e = {.op = op, .arena = in->arena, .start = start_of_part(in, op, r)};
    e.in = msc_new_array(in->arena, msc_piece, op->num_in + 1);
    e.out = msc_new_array(in->arena, msc_piece, op->num_out + 1);
    set_begin(in, &e, r);
    for (size_t i = 0; i < op->num_in; i++) e.in[i] = msc_piece_with_halo(in, op, i, r);
    for (size_t i = 0; i < op->num_out; i++) e.out[i] = *msc_piece_of(in, &op->out[i], r);
    kernel(&e);
    if (!e.fault) continue;
    if (in->one_device) return msc_op_error(op, MSC_E_DATA, "%s: %s", msc_kind_name(op->kind), e.fault);
    return msc_op_error(op, MSC_E_SHARDING, "%s on rank %" PRId64 ": %s", msc_kind_name(op->kind), r, e.fault);
  }
  return true;
}

static bool run_block(const msc_interp *in, const msc_block *b);

static bool run_region(const msc_interp *in, const msc_op *op) {
  const msc_block *b = op->body;
  for (int64_t r = 0; r < in->num_ranks; r++)
    for (size_t i = 0; i < b->num_args; i++) *msc_piece_of(in, b->args[i], r) = *msc_piece_of(in, op->in[i].value, r);
  MSC_TRY(run_block(in, b));
  for (int64_t r = 0; r < in->num_ranks; r++)
    for (size_t i = 0; i < op->num_out; i++)
      *msc_piece_of(in, &op->out[i], r) = *msc_piece_of(in, b->last->in[i].value, r);
  return true;
}

static msc_tensor tensor_of(const msc_interp *in, const msc_piece *p) {
  return (msc_tensor){msc_type_of(in->m->ctx, p->dtype, p->rank, p->box.size, NULL), p->data};
}

static bool run_expansion(const msc_interp *in, const msc_op *op, const msc_tensor *arg, msc_tensor *out_result) {
  msc_func *f = msc_expansion_of(op);
  return f && msc_interpret(f, in->arena, arg, out_result);
}

/* Runs a composite whose operands are whole, on one rank. */
static bool run_whole(const msc_interp *in, const msc_op *op, int64_t rank) {
  msc_tensor *arg = msc_new_array(in->arena, msc_tensor, op->num_in + 1),
             *result = msc_new_array(in->arena, msc_tensor, op->num_out + 1);
  for (size_t i = 0; i < op->num_in; i++) arg[i] = tensor_of(in, msc_piece_of(in, op->in[i].value, rank));
  MSC_TRY(run_expansion(in, op, arg, result));
  for (size_t i = 0; i < op->num_out; i++) msc_piece_of(in, &op->out[i], rank)->data = result[i].data;
  return true;
}

/* Runs a composite whose tensors are cut. It means what its expansion does on whole tensors: so operands are joined,
 * and results are cut again. */
static bool run_joined(const msc_interp *in, const msc_op *op) {
  msc_tensor *arg = msc_new_array(in->arena, msc_tensor, op->num_in + 1),
             *result = msc_new_array(in->arena, msc_tensor, op->num_out + 1);
  msc_tensor *part = msc_new_array(in->arena, msc_tensor, in->num_ranks);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *t = op->in[i].value->type;
    for (int64_t r = 0; r < in->num_ranks; r++) part[r] = tensor_of(in, msc_piece_of(in, op->in[i].value, r));
    const char *differ = msc_tensor_join(in->m, in->arena, t, t->layout, part, &arg[i]);
    if (differ) return msc_op_error(op, MSC_E_SHARDING, "%s: operand %zu: %s", msc_kind_name(op->kind), i, differ);
    arg[i].type = msc_type_with_layout(in->m->ctx, t, NULL);
  }
  MSC_TRY(run_expansion(in, op, arg, result));
  for (size_t i = 0; i < op->num_out; i++)
    for (int64_t r = 0; r < in->num_ranks; r++)
      msc_piece_of(in, &op->out[i], r)->data =
          msc_tensor_part(in->m, in->arena, &result[i], op->out[i].type->layout, r).data;
  return true;
}

/* Runs a composite by its expansion, which is a function of whole tensors. */
static bool run_composite(const msc_interp *in, const msc_op *op) {
  if (!in->one_device && op->num_in && op->in[0].value->type->layout) return run_joined(in, op);
  for (int64_t r = 0; r < in->num_ranks; r++) MSC_TRY(run_whole(in, op, r));
  return true;
}

static bool run_op(const msc_interp *in, const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  if (flags & MSC_TERMINATOR) return true;
  if (op->body) return run_region(in, op);
  for (size_t i = 0; i < op->num_out; i++) new_pieces(in, &op->out[i]);
  if (flags & MSC_MOVES) return msc_run_collective(in, op);
  msc_eval_fn *kernel = msc_info(op)->eval;
  if (msc_must_expand(op, NULL) || (!kernel && msc_info(op)->expand)) return run_composite(in, op);
  return kernel
             ? run_kernel(in, op, kernel)
             : msc_op_error(op, MSC_E_UNSUPPORTED, "%s: the interpreter has no kernel for it", msc_kind_name(op->kind));
}

static bool run_block(const msc_interp *in, const msc_block *b) {
  for (const msc_op *op = b->first; op; op = op->next) MSC_TRY(run_op(in, op));
  return true;
}

static msc_interp begin_interp(msc_func *f, msc_arena *arena, bool one_device) {
  msc_interp in = {
      .f = f, .m = f->module, .arena = arena, .mesh = msc_mesh_sizes(&f->module->mesh), .one_device = one_device};
  in.num_ranks = one_device ? 1 : msc_mesh_size(&f->module->mesh);
  in.piece = msc_new_array(arena, msc_piece, msc_number(f->body).num_values * in.num_ranks);
  return in;
}

/* Copies argument i, whose shape must be that of the rank's part. */
static bool set_arg(const msc_interp *in, size_t i, int64_t rank, const msc_tensor *t) {
  const msc_value *v = in->f->body->args[i];
  msc_piece *p = msc_piece_of(in, v, rank);
  if (t->type->dtype != p->dtype || t->type->rank != p->rank ||
      memcmp(t->type->dim, p->box.size, sizeof *t->type->dim * (size_t)p->rank))
    return msc_error(in->m->ctx, MSC_E_DATA, in->f->loc,
                     "%s: argument %zu is given a tensor of another type than its own", in->f->name, i);
  memcpy(p->data, t->data, (size_t)msc_type_bytes(t->type));
  return true;
}

static bool run_parts(const msc_interp *in, const msc_tensor *args, msc_tensor *out_results) {
  const msc_block *b = in->f->body;
  const msc_op *end = b->last;
  for (size_t i = 0; i < b->num_args; i++) {
    new_pieces(in, b->args[i]);
    for (int64_t r = 0; r < in->num_ranks; r++) MSC_TRY(set_arg(in, i, r, &args[(size_t)r * b->num_args + i]));
  }
  MSC_TRY(run_block(in, b));
  for (int64_t r = 0; r < in->num_ranks; r++)
    for (size_t i = 0; i < end->num_in; i++) {
      out_results[(size_t)r * end->num_in + i] = tensor_of(in, msc_piece_of(in, end->in[i].value, r));
    }
  return true;
}

bool msc_interpret(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results) {
  msc_interp in = begin_interp(f, arena, true);
  return run_parts(&in, args, out_results);
}

bool msc_interpret_parts(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results) {
  msc_interp in = begin_interp(f, arena, false);
  return run_parts(&in, args, out_results);
}

/* Makes argument i for a rank: its part, with padding behind it if the function is lowered. */
static msc_tensor lowered_arg(const msc_interp *in, size_t i, int64_t rank, msc_tensor part) {
  return in->f->body->args[i]->type->layout ? part : msc_tensor_pad(in->m, in->arena, type_of_arg(in, i), rank, &part);
}

static msc_tensor lowered_result(const msc_interp *in, size_t i, int64_t rank, msc_tensor t) {
  const msc_type *local = in->f->body->last->in[i].value->type;
  return local->layout ? t : msc_tensor_unpad(in->m, in->arena, type_of_result(in, i), rank, &t);
}

bool msc_interpret_ranks(msc_func *f, msc_arena *arena, const msc_tensor *args, msc_tensor *out_results) {
  msc_interp in = begin_interp(f, arena, false);
  size_t num_args = f->body->num_args, num_results = f->body->last->num_in, num = (size_t)in.num_ranks;
  msc_tensor *arg = msc_new_array(arena, msc_tensor, num * num_args),
             *result = msc_new_array(arena, msc_tensor, num * num_results);
  msc_tensor *part = msc_new_array(arena, msc_tensor, num);
  for (size_t r = 0; r < num; r++)
    for (size_t i = 0; i < num_args; i++)
      arg[r * num_args + i] = lowered_arg(
          &in, i, (int64_t)r, msc_tensor_part(in.m, arena, &args[i], type_of_arg(&in, i)->layout, (int64_t)r));
  MSC_TRY(run_parts(&in, arg, result));
  for (size_t i = 0; i < num_results; i++) {
    const msc_type *t = type_of_result(&in, i);
    for (size_t r = 0; r < num; r++) part[r] = lowered_result(&in, i, (int64_t)r, result[r * num_results + i]);
    const char *differ = msc_tensor_join(in.m, arena, t, t->layout, part, &out_results[i]);
    if (differ) return msc_op_error(f->body->last, MSC_E_SHARDING, "%s: result %zu: %s", f->name, i, differ);
  }
  return true;
}

/* ---- how much work ---- */

/* Returns the number of operations of the op, as a double, so that sums over a model do not overflow. */
static double op_work(const msc_op *op, msc_arena *arena) {
  double most = 1;
  for (size_t i = 0; i < op->num_in; i++) most = fmax(most, (double)msc_type_elems(op->in[i].value->type));
  for (size_t i = 0; i < op->num_out; i++) most = fmax(most, (double)msc_type_elems(op->out[i].type));
  if (msc_is_windowed(op)) return fmax(most, msc_conv_work(op)); /* pools, too */
  return fmax(most, msc_op_flops(op, arena) / 2);
}

static double block_work(const msc_block *b, msc_arena *arena) {
  double work = 0;
  for (const msc_op *op = b->first; op; op = op->next)
    work += op->body ? block_work(op->body, arena) : op_work(op, arena);
  return work;
}

int64_t msc_interpret_work(msc_func *f) {
  msc_arena *arena = msc_arena_new(f->module->ctx);
  double work = block_work(f->body, arena) * (double)msc_mesh_size(&f->module->mesh);
  msc_arena_free(arena);
  return work < 0x1p62 ? (int64_t)work : INT64_C(1) << 62;
}
