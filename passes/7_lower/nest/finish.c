/* finish.c: instructions and their walk -> a launch: the program with slots for its sizes, the sizes, the number of
 * items. */
#include <string.h>

#include "passes/7_lower/nest/expand.h"

/* ---- estimates ---- */

static uint64_t place_bytes(const msc_nester *n, int i) {
  const msc_instr *in = &n->instr[i];
  uint8_t dtype = n->buffer[in->buffer].dtype;
  uint64_t points = msc_nest_points(n, in->axes), elems = (uint64_t)n->buffer_elems[in->buffer];
  return (points < elems ? points : elems) * (uint64_t)msc_dtype_bytes(dtype == MSC_NUM_DTYPES ? in->dtype : dtype);
}

void msc_nest_estimate(const msc_nester *n, uint64_t *out_bytes, uint64_t *out_flops) {
  bool counted[MSC_NEST_BUFFERS] = {0};
  *out_bytes = *out_flops = 0;
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *in = &n->instr[i];
    if (!n->live[i]) continue;
    *out_flops += msc_nest_info_of(in)->flops * msc_nest_points(n, in->axes | n->over[i]);
    bool moves = msc_nest_has(in, NEST_MEMORY) && in->code != NEST_FILL;
    if (!moves || (in->code == NEST_LOAD && counted[in->buffer])) continue;
    if (in->code == NEST_LOAD) counted[in->buffer] = true;
    *out_bytes += place_bytes(n, i);
  }
}

/* ---- the program ---- */

static msc_slots slots_of(msc_nester *n, const msc_affine *a) {
  msc_slots s = {.c0 = (uint8_t)msc_nest_dim_slot(n, a->c0)};
  for (int i = 0; i < n->num_axes; i++) s.coef[i] = (uint8_t)msc_nest_dim_slot(n, a->coef[i]);
  return s;
}

/* Does the program need the size of the axis? The outermost item axis ends where the items end. */
static bool reads_size(const msc_nester *n, int axis) {
  const msc_nest_walk *w = &n->walk;
  if (w->strands > 1) return true; /* of a strand */
  if (axis == w->clipped || axis == w->lane || axis == w->across) return w->kind != MSC_NEST_MAP || n->num_axes > 1;
  return axis != 0 || !(w->items & 1);
}

static void set_program_axes(msc_nester *n, msc_program_head *h) {
  const msc_nest_walk *w = &n->walk;
  for (int i = 0; i < n->num_axes; i++) {
    if (!reads_size(n, i)) continue;
    bool baked = i == w->lane && n->extent[i] <= MSC_BAKED_SIZE && n->extent[i] > 0 && i != w->clipped &&
                 !(w->blocks && (w->reduced >> i & 1));
    /* without items nothing divides by this size */
    if (n->extent[i] == 0 && (w->items >> i & 1)) h->axis[i].size = 1;
    else if (baked) h->axis[i].baked_size = n->extent[i];
    else h->axis[i].size = (uint8_t)msc_nest_dim_slot(n, n->extent[i]);
  }
}

static msc_instr *set_instrs(msc_nester *n, msc_arena *arena, msc_program_head *h) {
  msc_instr *out = msc_new_array(arena, msc_instr, n->num_instrs);
  uint16_t number[MSC_NEST_INSTRS] = {0};
  h->num_instrs = 1;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!n->live[i]) continue;
    number[i] = h->num_instrs;
    msc_instr in = n->instr[i];
    for (int k = 0; k < 3; k++) in.arg[k] = number[in.arg[k]];
    in.at = slots_of(n, &n->at[i]);
    out[h->num_instrs++] = in;
  }
  return out;
}

/* Lists the buffers that the program uses. */
static void set_buffers(const msc_nester *n, msc_arena *arena, msc_nest_launch *out) {
  msc_program_head *h = &out->program.head;
  uint32_t *number = msc_new_array(arena, uint32_t, n->num_buffers);
  uint8_t place[MSC_NEST_BUFFERS];
  bool used[MSC_NEST_BUFFERS] = {0};
  if (n->checks) used[n->num_buffers - 1] = true;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && msc_nest_has(&n->instr[i], NEST_MEMORY)) used[n->instr[i].buffer] = true;
  for (int b = 0; b < n->num_buffers; b++) {
    if (!used[b]) continue;
    place[b] = h->num_buffers;
    number[h->num_buffers] = (uint32_t)n->buffer_number[b];
    h->buffer[h->num_buffers++] = n->buffer[b];
  }
  for (int i = 1; i < h->num_instrs; i++)
    if (msc_nest_has(&out->program.instr[i], NEST_MEMORY))
      out->program.instr[i].buffer = place[out->program.instr[i].buffer];
  h->flag = (int8_t)(n->checks ? h->num_buffers - 1 : -1);
  out->buffer = number;
}

/* ---- the memory that rows touch ---- */

/* True if the bytes that each point of the outermost item axis touches are known, and the items of a point follow each
 * other. */
static bool has_reach(const msc_nester *n) {
  const msc_nest_walk *w = &n->walk;
  bool by_rows = w->kind == MSC_NEST_MAP || (w->kind == MSC_NEST_ROW && !(w->lane >= 0 && w->items >> w->lane & 1));
  return by_rows && w->items && w->strands <= 1 && w->clipped < 0 && w->num_launches == 1 && !n->checks &&
         !n->num_starts;
}

/* Narrows the ranges of the axes to values for which `guard`, the condition of a load, can be true. The guards of a
 * concat's parts say that one coordinate lies inside the part. */
static void narrow_axes(const msc_nester *n, uint16_t guard, int64_t *from, int64_t *to) {
  const msc_instr *in = &n->instr[guard], *index = &n->instr[in->arg[0]], *size = &n->instr[in->arg[1]];
  int axis = 0;
  if (in->code == NEST_AND) {
    narrow_axes(n, in->arg[0], from, to);
    narrow_axes(n, in->arg[1], from, to);
  }
  if (in->code != NEST_COMPARE || in->imm != NEST_BELOW || index->code != NEST_INDEX || size->code != NEST_DIM) return;
  const msc_affine *at = &n->at[in->arg[0]];
  uint32_t axes = msc_affine_axes(at);
  while (axis < n->num_axes && axes != 1u << axis) axis++;
  if (axis == n->num_axes || at->coef[axis] != 1) return;
  int64_t first = -at->c0, last = n->dims[size->imm] - 1 - at->c0;
  if (first > to[axis] || last < from[axis]) return;
  if (first > from[axis]) from[axis] = first;
  if (last < to[axis]) to[axis] = last;
}

/* Widens the reach of the instruction's buffer by the bytes that the instruction touches. False: they depend on values,
 * or move backwards from point to point. */
static bool add_reach(const msc_nester *n, int i, int outer, msc_nest_reach *r, bool first) {
  const msc_instr *in = &n->instr[i];
  const msc_affine *at = &n->at[i];
  int64_t bytes = msc_dtype_bytes((msc_dtype)n->buffer[in->buffer].dtype), lo = at->c0, hi = at->c0 + 1;
  int64_t from[MSC_NEST_AXES], to[MSC_NEST_AXES];
  if ((in->code != NEST_LOAD || in->arg[0]) && in->code != NEST_STORE) return false;
  for (int a = 0; a < n->num_axes; a++) from[a] = 0, to[a] = n->extent[a] - 1;
  if (in->code == NEST_LOAD && in->arg[1]) narrow_axes(n, in->arg[1], from, to);
  for (int a = 0; a < n->num_axes; a++) {
    if (a == outer) continue;
    lo += at->coef[a] * (at->coef[a] < 0 ? to[a] : from[a]);
    hi += at->coef[a] * (at->coef[a] < 0 ? from[a] : to[a]);
  }
  if (at->coef[outer] < 0 || (!first && r->step != at->coef[outer] * bytes)) return false;
  *r = (msc_nest_reach){first || lo * bytes < r->lo ? lo * bytes : r->lo,
                        first || hi * bytes > r->hi ? hi * bytes : r->hi, at->coef[outer] * bytes};
  return true;
}

/* Sets the bytes that rows of the launch touch in each of its buffers, which are those that live instructions use, in
 * their order. */
static void set_reach(const msc_nester *n, msc_arena *arena, msc_nest_launch *out) {
  bool seen[MSC_NEST_BUFFERS] = {0};
  msc_nest_reach reach[MSC_NEST_BUFFERS];
  int outer = 0, num = 0;
  if (!has_reach(n)) return;
  while (!(n->walk.items >> outer & 1)) outer++;
  for (int i = 1; i < n->num_instrs; i++) {
    if (!n->live[i] || !msc_nest_has(&n->instr[i], NEST_MEMORY)) continue;
    int b = n->instr[i].buffer;
    if (n->buffer[b].dtype == MSC_NUM_DTYPES || !add_reach(n, i, outer, &reach[b], !seen[b])) return;
    seen[b] = true;
  }
  msc_nest_reach *kept = msc_new_array(arena, msc_nest_reach, n->num_buffers);
  for (int b = 0; b < n->num_buffers; b++)
    if (seen[b]) kept[num++] = reach[b];
  out->rows = (uint64_t)n->extent[outer], out->reach = kept;
}

void msc_nest_finish(msc_nester *n, msc_arena *arena, msc_nest_launch *out) {
  const msc_nest_walk *w = &n->walk;
  msc_program_head *h = &out->program.head;
  memset(h, 0, sizeof *h);
  h->kind = (uint8_t)w->kind, h->num_axes = (uint8_t)n->num_axes;
  h->num_phases = (uint8_t)w->num_phases;
  h->lane = (int8_t)w->lane, h->across = (int8_t)w->across, h->lanes = (uint8_t)n->target->lanes(n);
  h->keeps_row = n->target->keeps_rows && w->kind == MSC_NEST_ROW && w->num_phases > 1 && w->reduced == 1u << w->lane &&
                 n->extent[w->lane] <= MSC_KEPT_ROW;
  h->strands = (uint8_t)(w->strands > 1 ? w->strands : 0);
  h->chunk_axis = (int8_t)w->chunk_axis, h->clipped = (int8_t)w->clipped;
  h->items = w->items, h->reduced = w->reduced, h->tail = w->tail;
  set_program_axes(n, h);
  if (w->blocks) h->blocks = (uint8_t)msc_nest_dim_slot(n, w->blocks);
  if (w->tail_blocks) h->tail_blocks = (uint8_t)msc_nest_dim_slot(n, w->tail_blocks);
  if (w->clipped >= 0) h->chunk = (uint8_t)msc_nest_dim_slot(n, w->chunk_total);
  out->program.instr = set_instrs(n, arena, h);
  set_buffers(n, arena, out);
  h->num_dims = (uint8_t)n->num_dims, h->num_scalars = (uint8_t)n->num_scalars;
  out->dims = msc_arena_copy(arena, n->dims, sizeof *n->dims * (size_t)n->num_dims);
  out->scalars = msc_arena_copy(arena, n->scalars, sizeof *n->scalars * (size_t)n->num_scalars);
  out->start = msc_arena_copy(arena, n->start, sizeof *n->start * (size_t)n->num_starts);
  out->num_starts = (size_t)n->num_starts;
  msc_nest_estimate(n, &out->bytes, &out->flops);
  h->team_axis = -1;
  n->target->shape(n, out);
  out->rows = 0, out->reach = NULL;
  set_reach(n, arena, out);
}
