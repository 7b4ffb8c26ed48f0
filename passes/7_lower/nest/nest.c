/* nest.c: decides whether the ops of a region are one kernel, and makes its launches. Steps: values and joined
 * dimensions (nest/axes.c), instructions (nest/expand*.c, nest/instr.c), the walk (nest/walk.c), two launches where one
 * would be slow (nest/split.c), the program (nest/finish.c). */
#include "passes/7_lower/nest/nest.h"

#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/builtin.h"
#include "passes/7_lower/nest/expand.h"
#include "passes/7_lower/gpu/library.h"

msc_nester *msc_nester_new(msc_context *ctx, msc_arena *arena, const msc_target *target) {
  msc_nester *n = msc_new(arena, msc_nester);
  n->ctx = ctx, n->device = n->target = target;
  n->vector_bytes = n->apart_bytes = target->vector_bytes;
  n->expand = msc_nest_expand;
  return n;
}

/* Lets the nester make kernels for what op runs on, its device or that one's host, with vectors of the usual size there
 * if it is another than for the op before. */
static void follow_target(msc_nester *n, const msc_op *op) {
  bool on_host = n->device->host && msc_op_attr(op, MSC_FACT(primitive_target));
  const msc_target *target = on_host ? n->device->host : n->device;
  if (n->target == target) return;
  n->target = target;
  n->vector_bytes = n->apart_bytes = target->vector_bytes;
}

bool msc_nest_can_fuse(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  if (info->flags & (MSC_MOVES | MSC_TERMINATOR)) return false;
  if (msc_is_graph(op) || msc_moves_nothing(op) || msc_is_transfer(op)) return false;
  if (msc_is_constant_op(op))
    return msc_op_attr(op, "value")->dense.bytes == (size_t)msc_dtype_bytes(op->out[0].type->dtype);
  return op->kind != OP_gemm && op->kind != OP_admit && !msc_builtin_of(op, NULL);
}

/* ---- the region ---- */

static void reset(msc_nester *n, const msc_nest_region *r) {
  n->failed = n->checks = false;
  n->num_ops = r->num_ops, n->ops = r->ops;
  n->num_values = n->num_results = n->num_classes = n->num_axes = n->num_memo = n->num_buffers = 0;
  n->num_dims = n->num_scalars = n->num_starts = 0;
  n->inside = (msc_inside){0};
  memset(n->slot, 0, sizeof n->slot);
  memset(n->lies_on, 0, sizeof n->lies_on);
  memset(&n->walk, 0, sizeof n->walk);
  memset(&n->instr[0], 0, sizeof n->instr[0]);
  n->over[0] = 0, n->blocks[0] = n->op_blocks = 0;
  n->num_instrs = 1; /* 0: none */
  memset(&n->coord[0], 0, sizeof n->coord[0]);
  n->num_coords = 1; /* 0: the constant 0 */
}

static bool add_buffer(msc_nester *n, msc_dtype dtype, int64_t elems, bool is_out) {
  int most = n->target->joins_small_kernels ? MSC_NEST_BUFFERS : MSC_STRAND_BUFFERS;
  if (n->num_buffers == most) return msc_nest_refuse(n, "more than %d operands and results", most);
  memset(&n->buffer[n->num_buffers], 0, sizeof n->buffer[0]);
  n->buffer[n->num_buffers].dtype = (uint8_t)dtype, n->buffer[n->num_buffers].is_out = is_out;
  n->buffer_number[n->num_buffers] = n->num_buffers;
  n->buffer_elems[n->num_buffers++] = elems;
  return true;
}

/* Finds which operands lie in the same memory, as a tensor and its reshape do. */
static void note_shared_memory(msc_nester *n) {
  const msc_value *root[MSC_NEST_BUFFERS] = {0};
  for (int v = 0; v < n->num_values; v++)
    if (n->value[v].buffer >= 0) root[n->value[v].buffer] = msc_memory_of(n->value[v].value).root;
  for (int b = 0; b < n->num_buffers; b++) {
    int first = 0;
    while (first < b && (!root[b] || root[first] != root[b])) first++;
    n->memory[b] = (uint8_t)first;
  }
}

static bool add_operands(msc_nester *n, const msc_nest_region *r) {
  for (size_t i = 0; r->in && i < r->num_in; i++) {
    int v = msc_nest_add_value(n, r->in[i], NULL);
    if (n->failed) return false;
    if (n->value[v].buffer < 0) n->value[v].buffer = (int)i;
    MSC_TRY(add_buffer(n, r->in[i]->type->dtype, msc_type_elems(r->in[i]->type), false));
  }
  MSC_TRY(msc_nest_collect_values(n));
  for (int v = 0; v < n->num_values && !r->in; v++) {
    if (n->value[v].def) continue;
    n->value[v].buffer = n->num_buffers;
    MSC_TRY(add_buffer(n, n->value[v].value->type->dtype, msc_type_elems(n->value[v].value->type), false));
  }
  note_shared_memory(n);
  return true;
}

static bool add_result(msc_nester *n, int v) {
  const msc_type *t = n->value[v].value->type;
  if (n->num_results == MSC_NEST_BUFFERS) return msc_nest_refuse(n, "more than %d results", MSC_NEST_BUFFERS);
  n->result[n->num_results++] = (uint16_t)v;
  return add_buffer(n, t->dtype, msc_type_elems(t), true);
}

static bool add_results(msc_nester *n, const msc_nest_region *r) {
  for (size_t i = 0; r->out && i < r->num_out; i++) MSC_TRY(add_result(n, msc_nest_find_value(n, r->out[i])));
  for (int v = 0; v < n->num_values && !r->out; v++)
    if (n->value[v].def && msc_nest_is_used_outside(r, n->value[v].value)) MSC_TRY(add_result(n, v));
  return n->num_results > 0 || msc_nest_refuse(n, "nothing of it is used");
}

/* ---- roots ---- */

/* The value before it is rounded to the type of `memory`, which the store does by itself. */
static uint16_t before_rounding(const msc_nester *n, uint16_t x, uint8_t memory) {
  return n->instr[x].code == NEST_ROUND && n->instr[x].imm == (int8_t)memory ? n->instr[x].arg[0] : x;
}

static void store_result(msc_nester *n, int v, int buffer) {
  msc_view view = msc_nest_view_of(n, v);
  uint16_t x = before_rounding(n, msc_nest_eval(n, v, &view), n->buffer[buffer].dtype), extra;
  msc_affine at = msc_nest_offset(n, n->value[v].value->type, &view, &extra);
  msc_nest_add(n, (msc_instr){.code = NEST_STORE, .dtype = n->instr[x].dtype, .buffer = (uint8_t)buffer, .arg = {x}},
               &at, 0);
}

/* A scatter's update: it is added to block `row` of those that are `step` elements apart, where `ok`. */
typedef struct {
  uint16_t row, ok;
  uint16_t over; /* axes of positions, which are gone through in order */
  int64_t rows, step;
  msc_view at; /* the place of block 0 */
} scatter_dims;

static int64_t elems_from(const msc_type *t, int dim) {
  int64_t n = 1;
  for (int d = dim; d < t->rank; d++) n *= t->dim[d] ? t->dim[d] : 1;
  return n;
}

static void add_position_axis(msc_nester *n, scatter_dims *s, int updates, int dim) {
  int a = msc_nest_axis(n, updates, dim);
  if (a >= 0) s->over |= (uint16_t)(1u << a);
}

/* y [pre, rows, post]; position p: y[pre, indices[p], post] += updates[pre, p, post]. */
static void scatter_rows(msc_nester *n, const msc_op *op, int indices, int updates, const msc_view *view,
                         scatter_dims *s) {
  const msc_type *t = op->out[0].type;
  int axis = (int)msc_op_int(op, "axis"), r = n->value[indices].value->type->rank;
  msc_view at_index = {0};
  for (int d = 0; d < r; d++) {
    at_index.at[d] = view->at[axis + d];
    add_position_axis(n, s, updates, axis + d);
  }
  for (int d = 0; d < t->rank; d++) s->at.at[d] = d == axis ? 0 : view->at[d < axis ? d : d - 1 + r];
  s->rows = t->dim[axis], s->step = elems_from(t, axis + 1);
  s->row = msc_nest_row(n, op, msc_nest_eval(n, indices, &at_index), s->rows, &s->ok);
}

/* y [pre, rows, post]; position p: y[pre, indices[pre, p, post], post] += updates[pre, p, post]. */
static void scatter_along(msc_nester *n, const msc_op *op, int indices, int updates, const msc_view *view,
                          scatter_dims *s) {
  const msc_type *t = op->out[0].type;
  int64_t axis = msc_op_int(op, "axis");
  if (axis < 0) axis += t->rank;
  add_position_axis(n, s, updates, (int)axis);
  s->at = *view;
  s->at.at[axis] = 0;
  s->rows = t->dim[axis], s->step = elems_from(t, (int)axis + 1);
  s->row = msc_nest_row(n, op, msc_nest_eval(n, indices, view), s->rows, &s->ok);
}

/* y [named, post]; position p: y[indices[p, :], post] += updates[p, post]. */
static void scatter_named(msc_nester *n, const msc_op *op, int indices, int updates, const msc_view *view,
                          scatter_dims *s) {
  const msc_type *t = op->out[0].type, *i = n->value[indices].value->type;
  int lead = i->rank - 1, depth = (int)i->dim[lead];
  for (int d = 0; d < lead; d++) add_position_axis(n, s, updates, d);
  for (int d = depth; d < t->rank; d++) s->at.at[d] = view->at[lead + d - depth];
  s->step = elems_from(t, depth), s->rows = 1;
  for (int d = 0; d < depth; d++) s->rows *= t->dim[d];
  s->row = msc_nest_named_offset(n, op, indices, view, t, &s->ok);
}

/* How many parts the rows are dealt to: each thread has every `parts`-th row, and skips positions that name another
 * row. A power of two. */
static int64_t row_parts(const msc_nester *n, const scatter_dims *s, const msc_type *updates) {
  int64_t positions = (int64_t)msc_nest_points(n, s->over),
          columns = msc_type_elems(updates) / (positions ? positions : 1), parts = 1;
  while (2 * parts <= s->rows && columns * parts < n->target->scatter_threads) parts *= 2;
  return parts;
}

/* Lets each item own the rows of one part. Returns how many rows an item owns. */
static uint16_t own_rows(msc_nester *n, int v, scatter_dims *s, msc_affine *fill, int64_t parts) {
  int axis = msc_nest_own_axis(n, v, 0, parts);
  if (axis < 0) return msc_nest_dim(n, s->rows);
  msc_coord c = {0};
  c.a.coef[axis] = 1;
  uint16_t part = msc_nest_coord_value(n, msc_nest_coord(n, &c));
  s->ok = msc_nest_and(
      n, s->ok,
      msc_nest_compare(n, NEST_EQ, msc_nest_op(n, NEST_AND, s->row, msc_nest_number(n, MSC_I64, (double)(parts - 1))),
                       part));
  fill->coef[axis] = s->step;
  uint16_t one_more = msc_nest_compare(n, NEST_LT, part, msc_nest_dim(n, s->rows % parts));
  return msc_nest_select(n, one_more, msc_nest_dim(n, s->rows / parts + 1), msc_nest_dim(n, s->rows / parts));
}

/* By op, what places an update. */
static void (*const place_of[OP_COUNT])(msc_nester *n, const msc_op *op, int indices, int updates, const msc_view *view,
                                        scatter_dims *s) = {
#define LOOP(op, join, read)
#define SCATTER(op, join, place) [OP_##op] = place,
#include "passes/7_lower/nest/loop.def"
};

/* Makes the instructions that add each update to its row. On a CPU, and where the order counts, a FILL makes the result
 * zeros and positions are added in order; else all positions add at once to a result that is zeros already. */
static void scatter_result(msc_nester *n, int v, int buffer) {
  const msc_op *op = n->value[v].def;
  int updates = msc_nest_find_value(n, op->in[1].value), indices = msc_nest_find_value(n, op->in[0].value);
  msc_view view = msc_nest_view_of(n, updates);
  scatter_dims s = {0};
  uint16_t extra;
  place_of[op->kind](n, op, indices, updates, &view, &s);
  uint16_t x = msc_nest_eval(n, updates, &view);
  msc_affine place = msc_nest_offset(n, n->value[v].value->type, &s.at, &extra), fill = place;
  if (n->failed) return;
  uint8_t dtype = n->instr[x].dtype;
  bool at_once =
      n->target->adds_atomically && msc_dtype_bytes((msc_dtype)dtype) >= 4 && msc_op_attr(op, MSC_FACT(any_order));
  if (!at_once) {
    int64_t parts = row_parts(n, &s, n->value[updates].value->type);
    uint16_t rows = own_rows(n, v, &s, &fill, parts), apart = msc_nest_dim(n, s.step * parts);
    n->walk.kind = MSC_NEST_SCATTER, n->walk.reduced = s.over;
    msc_nest_add(n, (msc_instr){.code = NEST_FILL, .dtype = dtype, .buffer = (uint8_t)buffer, .arg = {rows, apart}},
                 &fill, 0);
  }
  uint16_t row = msc_nest_op(n, NEST_MUL, s.row, msc_nest_dim(n, s.step));
  msc_nest_add(
      n,
      (msc_instr){
          .code = NEST_SCATTER, .dtype = dtype, .buffer = (uint8_t)buffer, .imm = at_once, .arg = {row, x, s.ok}},
      &place, 0);
}

static bool scatters(const msc_op *op) { return op && msc_form_of(op) == MSC_FORM_SCATTER; }

static bool add_roots(msc_nester *n, int first_buffer) {
  for (int i = 0; i < n->num_results && !n->failed; i++) {
    const msc_op *def = n->value[n->result[i]].def;
    if (!scatters(def)) store_result(n, n->result[i], first_buffer + i);
    else if (n->num_results > 1) msc_nest_refuse(n, "%s has a kernel without other results", msc_kind_name(def->kind));
    else scatter_result(n, n->result[i], first_buffer + i);
  }
  for (int i = 1; i < n->num_instrs && msc_nest_find_scatter(n); i++)
    if (n->instr[i].code == NEST_REDUCE) msc_nest_refuse(n, "adding by index and a reduction need a kernel each");
  return !n->failed;
}

/* ---- new values of operands ---- */

/* Results of updates lie on the operands that they are the new values of. */
static void note_ties(msc_nester *n, int first_buffer) {
  for (size_t i = 0; i < n->num_ops; i++) {
    const msc_op *op = n->ops[i];
    const msc_op_info *info = msc_info(op);
    for (int k = 0; k < info->num_operands && k < op->num_in; k++) {
      if (info->operand[k].tied < 0) continue;
      int old = n->value[msc_nest_find_value(n, op->in[k].value)].buffer,
          new_value = msc_nest_find_value(n, &op->out[info->operand[k].tied]);
      for (int r = 0; r < n->num_results && old >= 0 && old < first_buffer; r++)
        if (n->result[r] == new_value) n->lies_on[first_buffer + r] = (uint8_t)(old + 1);
    }
  }
}

/* Refuses a region that reads an element of an old value other than the one that it replaces there: that element may
 * have been replaced before. */
static bool check_ties(msc_nester *n) {
  for (int i = 1; i < n->num_instrs; i++) {
    if (!n->live[i] || n->instr[i].code != NEST_STORE || !n->lies_on[n->instr[i].buffer]) continue;
    int old = n->lies_on[n->instr[i].buffer] - 1;
    for (int k = 1; k < n->num_instrs; k++) {
      const msc_instr *load = &n->instr[k];
      if (!n->live[k] || load->code != NEST_LOAD || n->memory[load->buffer] != n->memory[old]) continue;
      if (load->arg[0] || load->arg[1] || memcmp(&n->at[k], &n->at[i], sizeof n->at[k]))
        return msc_nest_refuse(n, "it reads other elements of what it overwrites");
    }
  }
  return true;
}

/* True if a GPU's second launch would have few blocks for all that the first one reduced to scratch.  A sum of its own
 * is cut into parts, the total of a loss is not. */
static bool sums_much_by_few(const msc_nester *n, uint64_t scratch_bytes) {
  enum { BLOCK_COLUMNS = 256, MUCH = 1 << 18 };
  const msc_nest_walk *w = &n->walk;
  for (size_t i = 0; i < n->num_ops; i++)
    if (msc_form_of(n->ops[i]) == MSC_FORM_LOSS) return false;
  return n->target->is_gpu && w->tail && w->chunk_axis < 0 && w->num_launches > 1 &&
         scratch_bytes / (msc_nest_points(n, w->items) / BLOCK_COLUMNS + 1) >= MUCH;
}

static bool build(msc_nester *n, const msc_nest_region *r, msc_nest_info *out_info) {
  reset(n, r);
  MSC_TRY(add_operands(n, r));
  int first = n->num_buffers;
  MSC_TRY(add_results(n, r) && add_roots(n, first));
  note_ties(n, first);
  MSC_TRY(msc_nest_choose_walk(n) && check_ties(n));
  *out_info = (msc_nest_info){.kind = n->walk.kind, .num_launches = 1, .checks = n->checks};
  out_info->elems = msc_nest_points(n, n->walk.items | n->walk.tail | n->walk.reduced);
  msc_nest_estimate(n, &out_info->bytes, &out_info->flops);
  out_info->scratch_bytes = msc_nest_choose_split(n);
  out_info->num_launches = n->walk.num_launches;
  if (n->walk.by_phase) out_info->bytes = n->walk.bytes, out_info->flops = n->walk.flops;
  if (n->num_ops > 1 && sums_much_by_few(n, out_info->scratch_bytes))
    return msc_nest_refuse(n, "few blocks would sum what many leave in scratch");
  msc_nest_choose_strands(n);
  int more = (out_info->scratch_bytes > 0) + out_info->checks, /* see finish_launches */
      most = n->walk.strands > 1 ? MSC_NEST_BUFFERS : MSC_STRAND_BUFFERS;
  if (n->num_buffers + more > most)
    return msc_nest_refuse(n, "more than %d operands, results and places of its own", most);
  return !n->failed;
}

/* ---- one op ---- */

/* Describes the op's further buffers, and finishes the launches. */
static void finish_launches(msc_nester *n, msc_arena *arena, const msc_op *op, const msc_nest_info *info,
                            msc_nest_launch *out) {
  int next = op->num_in + op->num_out;
  if (info->scratch_bytes && add_buffer(n, MSC_NUM_DTYPES, (int64_t)info->scratch_bytes, true))
    n->buffer_number[n->num_buffers - 1] = next++;
  if (n->checks && add_buffer(n, MSC_I32, 1, true)) n->buffer_number[n->num_buffers - 1] = next;
  if (n->failed) return;
  msc_nest_part part[MSC_NEST_LAUNCHES];
  msc_arena *scratch = msc_arena_beside(arena);
  msc_nest_split(n, scratch, part);
  for (int i = 0; i < info->num_launches; i++) {
    msc_nest_finish(part[i].nester, arena, &out[i]);
    out[i].suffix = part[i].suffix;
  }
  msc_arena_free(scratch);
}

/* Makes the region of an op: the op itself, or the ops inside it. */
static bool region_of(msc_nester *n, msc_arena *arena, const msc_op *op, msc_nest_region *out) {
  const msc_op **ops = msc_new_array(arena, const msc_op *, MSC_NEST_OPS);
  const msc_value **in = msc_new_array(arena, const msc_value *, op->num_in),
                  **result = msc_new_array(arena, const msc_value *, op->num_out);
  const msc_op *yield = op->kind == OP_fused ? op->body->last : NULL;
  *out = (msc_nest_region){.ops = ops, .num_in = op->num_in, .in = in, .num_out = op->num_out, .out = result};
  for (const msc_op *o = yield ? op->body->first : op; o != (yield ? yield : op->next); o = o->next) {
    if (out->num_ops == MSC_NEST_OPS) return msc_nest_refuse(n, "more than %d ops", MSC_NEST_OPS);
    ops[out->num_ops++] = o;
  }
  for (int i = 0; i < op->num_in; i++) in[i] = yield ? op->body->args[i] : op->in[i].value;
  for (int i = 0; i < op->num_out; i++) result[i] = yield ? yield->in[i].value : &op->out[i];
  return true;
}

static bool build_region(msc_nester *n, msc_arena *arena, const msc_op *op, msc_nest_info *out_info,
                         msc_nest_launch **out_launch) {
  msc_nest_region r;
  MSC_TRY(region_of(n, arena, op, &r) && build(n, &r, out_info));
  *out_launch = msc_new_array(arena, msc_nest_launch, out_info->num_launches);
  finish_launches(n, arena, op, out_info, *out_launch);
  return !n->failed;
}

/* True if op joins parts, or takes a whole apart, along one dimension: alone it is a copy per part. */
static bool is_of_parts(const msc_op *op) { return op->kind == OP_concat || op->kind == OP_split; }

/* Copies operand `part` of a concat to its place in the result, or result `part` of a split from its place in the
 * operand: `before` elements of the dimension from the begin. */
static bool build_part(msc_nester *n, const msc_op *op, bool joins, int part, int64_t before, msc_nest_info *out_info) {
  const msc_value *piece = joins ? op->in[part].value : &op->out[part], *whole = joins ? &op->out[0] : op->in[0].value;
  const msc_type *from = joins ? piece->type : whole->type, *to = joins ? whole->type : piece->type;
  int64_t dim = msc_op_int(op, "dim");
  uint16_t none;
  reset(n, &(msc_nest_region){0});
  MSC_TRY(add_buffer(n, from->dtype, msc_type_elems(from), false) &&
          add_buffer(n, to->dtype, msc_type_elems(to), true));
  n->buffer_number[0] = joins ? part : 0, n->buffer_number[1] = joins ? op->num_in : 1 + part;
  msc_view own = msc_nest_view_of(n, msc_nest_add_value(n, piece, NULL)), moved = own;
  moved.at[dim] = msc_nest_move_coord(n, own.at[dim], 1, before);
  msc_affine in_piece = msc_nest_offset(n, piece->type, &own, &none),
             in_whole = msc_nest_offset(n, whole->type, &moved, &none);
  uint8_t dtype = (uint8_t)msc_compute_dtype(from->dtype);
  uint16_t v =
      msc_nest_add(n, (msc_instr){.code = NEST_LOAD, .dtype = dtype, .buffer = 0}, joins ? &in_piece : &in_whole, 0);
  msc_nest_add(n, (msc_instr){.code = NEST_STORE, .dtype = dtype, .buffer = 1, .arg = {v}},
               joins ? &in_whole : &in_piece, 0);
  *out_info = (msc_nest_info){.kind = MSC_NEST_MAP, .num_launches = 1};
  return !n->failed && msc_nest_choose_walk(n);
}

/* Makes a concat or split that is alone: a copy per part. */
static bool build_parts(msc_nester *n, msc_arena *arena, const msc_op *op, msc_nest_info *out_info,
                        msc_nest_launch **out_launch) {
  int64_t dim = msc_op_int(op, "dim"), before = 0;
  bool joins = op->kind == OP_concat;
  int num = joins ? op->num_in : op->num_out;
  msc_nest_info whole = {.kind = MSC_NEST_MAP}, info;
  *out_launch = msc_new_array(arena, msc_nest_launch, num);
  for (int i = 0; i < num; i++) {
    const msc_type *t = joins ? op->in[i].value->type : op->out[i].type;
    if (msc_type_elems(t) == 0) continue;
    MSC_TRY(build_part(n, op, joins, i, before, &info));
    msc_nest_launch *l = &(*out_launch)[whole.num_launches++];
    msc_nest_finish(n, arena, l);
    l->suffix = "";
    before += t->dim[dim], whole.bytes += l->bytes, whole.elems += (uint64_t)msc_type_elems(t);
  }
  *out_info = whole;
  return !n->failed;
}

void msc_nest_set_vector_bytes(msc_nester *n, int bytes, int apart_bytes) {
  n->vector_bytes = bytes, n->apart_bytes = apart_bytes;
}

const char *msc_nest_why(const msc_nester *n) { return n->why; }

bool msc_nest_launches(msc_nester *n, msc_arena *arena, const msc_op *op, msc_nest_info *out_info,
                       msc_nest_launch **out_launch) {
  n->failed = false;
  follow_target(n, op);
  if (is_of_parts(op)) return build_parts(n, arena, op, out_info, out_launch);
  if ((msc_info(op)->flags & (MSC_COLLECTIVE | MSC_TERMINATOR)) != 0)
    return msc_nest_refuse(n, "%s is no kernel", msc_kind_name(op->kind));
  return build_region(n, arena, op, out_info, out_launch);
}

/* True if one launch alone reads the operands of `store`, each element once: the only launch, or that of rows whose
 * partial sums later launches add up. What varies along rows does not depend on a sum over all rows
 * (check_reductions), so a row is stored while it is read. */
static bool goes_over_once(const msc_nester *n, const msc_instr *store) {
  const msc_nest_walk *w = &n->walk;
  if (w->by_phase) return true; /* results are stored in the last phase, whose launches run last */
  if (w->tail && (store->level || w->kind != MSC_NEST_ROW || w->num_launches > 1)) return false;
  if (w->kind == MSC_NEST_SCATTER) return false;
  return w->num_launches == 1 || (w->kind == MSC_NEST_ROW && w->chunk_axis < 0);
}

/* True if at each point the kernel loads from buffer `in` only the element that it stores to buffer `out` there, and
 * never after the store. reduced_too: also true if the stored values are reductions over `in`, which is read to its end
 * before. */
static bool reads_only_its_own(const msc_nester *n, int in, int out, bool reduced_too) {
  const msc_instr *store = NULL;
  int place = 0;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->instr[i].buffer == out &&
        ((n->live[i] && n->instr[i].code == NEST_STORE) || (reduced_too && n->instr[i].code == NEST_NONE)))
      store = &n->instr[i], place = i; /* NONE: in the second launch */
  if (!store || n->walk.kind == MSC_NEST_SCATTER) return false;
  bool reduced = n->walk.reduced && !(store->axes & n->walk.reduced) &&
                 !(store->level && store->axes & n->walk.tail); /* stored once, after its reduction has ended */
  if (!(reduced_too && reduced)) {
    if (!goes_over_once(n, store)) return false;
    if ((store->axes & n->walk.reduced) ? store->phase != n->walk.num_phases : n->walk.reduced != 0) return false;
  }
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *load = &n->instr[i];
    bool is_there = n->live[i] || n->walk.num_launches > 1; /* another launch may load it */
    if (!is_there || load->code != NEST_LOAD || load->buffer != in) continue;
    if (load->arg[0] || load->arg[1] || memcmp(&n->at[i], &n->at[place], sizeof n->at[i])) return false;
    if (n->walk.strands > 1 && n->strand[i] != n->strand[place]) return false; /* another thread reads it */
  }
  return true;
}

/* ---- answers that are remembered ---- */

typedef struct {
  bool yes;
  msc_nest_info info;
  const char *why; /* when not yes */
} answer;

enum { AS_PART = 1, ALONE, OVERWRITE /* + operand * 2^16 + result */, UPDATE = 1 << 30 /* + the same */ };

static const answer *keep_answer(msc_nester *n, const void **place, bool yes, const msc_nest_info *info) {
  answer *a = msc_new(msc_lasting_arena(n->ctx), answer);
  *a = (answer){.yes = yes};
  if (yes) a->info = *info;
  if (!yes) a->why = msc_intern(n->ctx, n->why);
  if (place) *place = a;
  return a;
}

/* Answers a question about an op that is a kernel by itself. */
static const answer *find_answer(msc_nester *n, const msc_op *op, uint32_t question,
                                 bool (*find)(msc_nester *n, msc_arena *arena, const msc_op *op, uint32_t question,
                                              msc_nest_info *out_info)) {
  msc_arena *arena = msc_arena_new(n->ctx);
  msc_nest_region r;
  msc_nest_info info;
  n->failed = false;
  n->why[0] = 0;
  follow_target(n, op);
  const void **place = region_of(n, arena, op, &r) ? msc_nest_find_answer(n, &r, question) : NULL;
  const answer *a = place && *place ? *place : keep_answer(n, place, find(n, arena, op, question, &info), &info);
  msc_arena_free(arena);
  return a;
}

static bool find_alone(msc_nester *n, msc_arena *arena, const msc_op *op, uint32_t question, msc_nest_info *out_info) {
  msc_nest_launch *launch;
  (void)question;
  return msc_nest_launches(n, arena, op, out_info, &launch);
}

static bool find_overwrite(msc_nester *n, msc_arena *arena, const msc_op *op, uint32_t question,
                           msc_nest_info *out_info) {
  msc_nest_launch *launch;
  bool updates = question >= UPDATE;
  int at = (int)(question - (updates ? UPDATE : OVERWRITE)), in = at >> 16, out = at & 0xffff;
  return msc_nest_launches(n, arena, op, out_info, &launch) && reads_only_its_own(n, in, op->num_in + out, updates);
}

uint64_t msc_scratch_bytes(msc_nester *n, const msc_op *op) {
  msc_builtin_launch builtin;
  if (msc_builtin_of(op, &builtin)) return builtin.scratch_bytes;
  return !msc_nest_can_fuse(op) ? 0 : find_answer(n, op, ALONE, find_alone)->info.scratch_bytes;
}

static bool may_lie_over(msc_nester *n, const msc_op *op, size_t in, size_t out, uint32_t question) {
  if (is_of_parts(op) || in >= op->num_in || out >= op->num_out) return false;
  if (msc_dtype_bytes(op->in[in].value->type->dtype) != msc_dtype_bytes(op->out[out].type->dtype)) return false;
  /* the result must fit there; an operand that the op does not read may be smaller */
  if (msc_type_bytes(op->in[in].value->type) < msc_type_bytes(op->out[out].type)) return false;
  return find_answer(n, op, question + (uint32_t)(in << 16) + (uint32_t)out, find_overwrite)->yes;
}

bool msc_may_overwrite(msc_nester *n, const msc_op *op, size_t in, size_t out) {
  return may_lie_over(n, op, in, out, OVERWRITE);
}

bool msc_may_update(msc_nester *n, const msc_op *op, size_t in, size_t out) {
  return may_lie_over(n, op, in, out, OVERWRITE) || may_lie_over(n, op, in, out, UPDATE);
}

static const answer *find_answer_as_part(msc_nester *n, size_t num_ops, const msc_op *const *ops) {
  msc_nest_region r = {.num_ops = num_ops, .ops = ops};
  msc_nest_info info;
  const void **place = msc_nest_find_answer(n, &r, AS_PART);
  if (place && *place) return *place;
  n->failed = false;
  return keep_answer(n, place, build(n, &r, &info), &info);
}

bool msc_nest_fits(msc_nester *n, size_t num_ops, const msc_op *const *ops, msc_nest_info *out_info,
                   const char **out_why) {
  *out_why = n->why;
  for (size_t i = 0; i < num_ops && (num_ops > 1 || ops[0]->kind != OP_fused); i++)
    if (ops[i]->kind == OP_fused || !msc_nest_can_fuse(ops[i]))
      return msc_nest_refuse(n, "%s is no part of a larger kernel", msc_kind_name(ops[i]->kind));
  if (num_ops > MSC_NEST_OPS) return msc_nest_refuse(n, "more than %d ops", MSC_NEST_OPS);
  follow_target(n, ops[num_ops - 1]);
  const answer *a =
      ops[0]->kind == OP_fused ? find_answer(n, ops[0], ALONE, find_alone) : find_answer_as_part(n, num_ops, ops);
  *out_info = a->info;
  *out_why = a->why ? a->why : "";
  return a->yes;
}
