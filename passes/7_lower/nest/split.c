/* split.c: a walk with a long reduction and few items -> two launches: parts, each an item, into scratch; then the
 * reduction of the parts. On a GPU so many parts that one block takes long to add them up, as the rows of a loss, are
 * cut in turn: then there are three. The parts are fixed, so results do not depend on the number of threads. */

#include "passes/7_lower/nest/expand.h"

enum { MOST_PARTS = 1024, LONG_TOTAL = 1 << 17 };

static bool ends_reduction(const msc_nester *n, int i) {
  return n->live[i] && n->instr[i].code == NEST_REDUCE && n->instr[i].level;
}

/* Cuts the outermost reduced axis into parts, along a new axis that becomes the tail. */
static bool cut_reduced_axis(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  int outer = 0;
  int8_t number[MSC_NEST_AXES];
  while (!(w->reduced >> outer & 1)) outer++;
  int64_t size = n->extent[outer];
  int64_t part = n->target->part(n, outer);
  if (size / part > MOST_PARTS) part = size / MOST_PARTS;
  if (w->blocks > 1) part = size / w->blocks;
  if (size / part < 2 || n->num_axes == MSC_NEST_AXES) return false;
  for (int i = 0; i < MSC_NEST_AXES; i++) number[i] = (int8_t)(i < outer ? i : i + 1);
  msc_nest_renumber(n, number, n->num_axes + 1);
  int inner = outer + 1;
  n->extent[outer] = size / part + (size % part != 0), n->extent[inner] = part;
  w->tail = (uint16_t)(1u << outer), w->chunk_axis = outer, w->clipped = inner, w->chunk_total = size;
  for (int i = 1; i < n->num_instrs; i++) {
    n->at[i].coef[outer] = n->at[i].coef[inner] * part;
    if (n->instr[i].axes >> inner & 1) n->instr[i].axes |= w->tail;
    if (n->over[i] >> inner & 1) n->over[i] |= w->tail;
  }
  if (w->blocks > 1) w->tail_blocks = w->blocks, w->blocks = 1;
  msc_nest_split_double_reductions(n);
  msc_nest_set_phases(n);
  return !n->failed;
}

/* Bytes of scratch that a scatter needs: sums of f16 and bf16 are kept in f32 and rounded once at the end. */
static uint64_t scatter_scratch(const msc_nester *n) {
  const msc_instr *in = &n->instr[msc_nest_find_scatter(n)];
  if (n->buffer[in->buffer].dtype == in->dtype) return 0;
  return (uint64_t)n->buffer_elems[in->buffer] * (uint64_t)msc_dtype_bytes((msc_dtype)in->dtype);
}

/* Counts the items of the walk as if vectors had the target's usual size, whatever size the code has: fusion and the
 * planner of memory count so, and all must choose the same launches. */
static uint64_t count_planned_items(msc_nester *n) {
  int bytes = n->vector_bytes, apart_bytes = n->apart_bytes;
  n->vector_bytes = n->apart_bytes = n->target->vector_bytes;
  uint64_t items = n->target->items(n);
  n->vector_bytes = bytes, n->apart_bytes = apart_bytes;
  return items;
}

/* True if the parts are cut in turn, into MOST_PARTS parts at most. */
static bool cuts_total(const msc_nester *n) {
  const msc_nest_walk *w = &n->walk;
  return n->target->is_gpu && w->kind == MSC_NEST_ROW && !w->items && w->tail && w->tail_blocks <= 1 &&
         !(w->tail & (w->tail - 1)) && msc_nest_points(n, w->tail) >= LONG_TOTAL;
}

uint64_t msc_nest_choose_split(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  uint64_t bytes, flops, scratch = 0;
  const msc_target *t = n->target;
  if (msc_nest_find_scatter(n)) {
    scratch = scatter_scratch(n);
    w->num_launches += n->instr[msc_nest_find_scatter(n)].imm + (scratch > 0);
    return scratch;
  }
  if (!w->reduced || count_planned_items(n) >= t->few_items) return scratch;
  msc_nest_estimate(n, &bytes, &flops);
  if (bytes + flops < (w->tail ? t->long_tail : t->long_work)) return 0;
  if (t->is_gpu && w->num_phases > 1 && !w->tail) return msc_nest_choose_phases(n);
  if (!w->tail) {
    bool whole = w->num_phases == 1 && msc_nest_points(n, w->items | w->reduced) > 2 * t->part_points;
    for (int i = 1; i < n->num_instrs; i++)
      whole &= !(n->live[i] && n->instr[i].code == NEST_REDUCE && n->over[i] != w->reduced);
    if (!whole || !cut_reduced_axis(n)) return 0;
  }
  for (int i = 1; i < n->num_instrs; i++) {
    uint64_t bytes_of_part = (uint64_t)msc_dtype_bytes((msc_dtype)n->instr[i].dtype);
    if (!ends_reduction(n, i)) continue;
    scratch += (msc_nest_points(n, w->items | w->tail) * bytes_of_part + 63) / 64 * 64;
    if (cuts_total(n)) scratch += (MOST_PARTS + 1) * bytes_of_part / 64 * 64 + 64;
  }
  w->num_launches += scratch > 0 ? 1 + cuts_total(n) : 0;
  return scratch;
}

msc_affine msc_nest_scratch_place(const msc_nester *n, uint16_t axes, uint64_t *offset, msc_dtype dtype) {
  uint64_t bytes = (uint64_t)msc_dtype_bytes(dtype);
  msc_affine at = {.c0 = (int64_t)(*offset / bytes)};
  int64_t stride = 1;
  for (int i = n->num_axes - 1; i >= 0; i--)
    if (axes >> i & 1) at.coef[i] = stride, stride *= n->extent[i] ? n->extent[i] : 1;
  *offset += (msc_nest_points(n, axes) * bytes + 63) / 64 * 64;
  return at;
}

static void drop_roots(msc_nester *n, int level) {
  for (int i = 1; i < n->num_instrs; i++) {
    uint8_t code = n->instr[i].code;
    if ((code == NEST_STORE || code == NEST_CHECK) && n->instr[i].level == level) n->instr[i].code = NEST_NONE;
  }
}

/* Numbers the tail axes before all others, so that scratch has the parts outermost: where vectors lie across the
 * items, both launches then move whole vectors. */
static void bring_tail_forward(msc_nester *n) {
  int8_t number[MSC_NEST_AXES];
  int tails = __builtin_popcount(n->walk.tail), t = 0, other = tails;
  for (int i = 0; i < MSC_NEST_AXES; i++) number[i] = (int8_t)(n->walk.tail >> i & 1 ? t++ : other++);
  int8_t chunk = n->walk.chunk_axis >= 0 ? number[n->walk.chunk_axis] : -1,
         clipped = n->walk.clipped >= 0 ? number[n->walk.clipped] : -1;
  msc_nest_renumber(n, number, n->num_axes);
  n->walk.chunk_axis = chunk, n->walk.clipped = clipped;
}

/* Returns the bytes of scratch up to the end of the parts. */
static uint64_t make_first(msc_nester *n, int buffer) {
  msc_nest_walk *w = &n->walk;
  uint16_t around = w->items | w->tail;
  uint64_t offset = w->scratch_begin;
  int num = n->num_instrs;
  drop_roots(n, 1);
  for (int i = 1; i < num; i++) {
    if (!ends_reduction(n, i)) continue;
    uint16_t x = n->instr[i].arg[0];
    msc_affine at = msc_nest_scratch_place(n, around, &offset, (msc_dtype)n->instr[x].dtype);
    msc_nest_add(n, (msc_instr){.code = NEST_STORE, .dtype = n->instr[x].dtype, .buffer = (uint8_t)buffer, .arg = {x}},
                 &at, 0);
  }
  w->items = around, w->tail = 0, w->tail_blocks = 0;
  msc_nest_mark_live(n);
  msc_nest_set_phases(n);
  return offset;
}

static void make_second(msc_nester *n, int buffer) {
  msc_nest_walk *w = &n->walk;
  uint16_t around = w->items | w->tail;
  uint64_t offset = w->scratch_begin;
  int8_t number[MSC_NEST_AXES];
  int num = 0;
  drop_roots(n, 0);
  for (int i = 1; i < n->num_instrs; i++) {
    if (!ends_reduction(n, i)) continue;
    /* the operand is replaced by the load: no other instruction of the second launch reads the operand */
    uint16_t x = n->instr[i].arg[0];
    n->at[x] = msc_nest_scratch_place(n, around, &offset, (msc_dtype)n->instr[x].dtype);
    n->instr[x] = (msc_instr){.code = NEST_LOAD, .dtype = n->instr[x].dtype, .buffer = (uint8_t)buffer, .axes = around};
    n->over[x] = 0;
  }
  w->reduced = w->tail, w->tail = 0, w->chunk_axis = w->clipped = -1;
  w->blocks = w->tail_blocks, w->tail_blocks = 0;
  for (int i = 0; i < MSC_NEST_AXES; i++) number[i] = (int8_t)(around >> i & 1 ? num++ : -1);
  if (w->kind == MSC_NEST_ROW) {
    w->lane = 0;
    for (int i = 0; i < n->num_axes; i++)
      if (w->reduced >> i & 1) w->lane = i;
    if (w->blocks) w->lane = -1; /* in order */
  }
  msc_nest_renumber(n, number, num);
  msc_nest_mark_live(n);
  msc_nest_set_phases(n);
  msc_nest_order_axes(n);
}

/* A launch that fills `to` from a buffer of as many elements, or with zeros when `from` is negative. */
static msc_nester *make_filling(const msc_nester *n, msc_arena *arena, int from, int to, int64_t elems, uint8_t dtype) {
  msc_nester *f = msc_arena_copy(arena, n, sizeof *n);
  msc_affine at = {.coef = {1}};
  f->num_instrs = f->num_axes = 1, f->extent[0] = elems, f->checks = false;
  uint16_t x = from < 0
                   ? msc_nest_number(f, (msc_dtype)dtype, 0)
                   : msc_nest_add(f, (msc_instr){.code = NEST_LOAD, .dtype = dtype, .buffer = (uint8_t)from}, &at, 0);
  msc_nest_add(f, (msc_instr){.code = NEST_STORE, .dtype = dtype, .buffer = (uint8_t)to, .arg = {x}}, &at, 0);
  f->walk = (msc_nest_walk){.kind = MSC_NEST_MAP};
  msc_nest_choose_walk(f);
  return f;
}

/* Makes the launches of a scatter: zeros, the additions, and a copy of the sums out of scratch, each if it is needed.
 * */
static void split_scatter(msc_nester *n, msc_arena *arena, int scratch, msc_nest_part *part) {
  const msc_instr *scatter = &n->instr[msc_nest_find_scatter(n)];
  int out = scatter->buffer, sums = scatter_scratch(n) ? scratch : out, num = 0;
  int64_t elems = n->buffer_elems[out];
  uint8_t dtype = scatter->dtype;
  if (scatter->imm) part[num++] = (msc_nest_part){make_filling(n, arena, -1, sums, elems, dtype), "_zeros"};
  part[num++] = (msc_nest_part){n, ""};
  if (sums != out) part[num++] = (msc_nest_part){make_filling(n, arena, sums, out, elems, dtype), "_total"};
  for (int i = 1; i < n->num_instrs; i++)
    if (n->instr[i].code == NEST_SCATTER || n->instr[i].code == NEST_FILL) n->instr[i].buffer = (uint8_t)sums;
}

void msc_nest_split(msc_nester *n, msc_arena *arena, msc_nest_part *out_part) {
  int scratch = n->num_buffers - 1 - n->checks;
  out_part[0] = (msc_nest_part){n, ""};
  if (n->walk.num_launches == 1) return;
  if (n->walk.by_phase) {
    msc_nest_split_phases(n, arena, scratch, out_part);
    return;
  }
  if (msc_nest_find_scatter(n)) {
    split_scatter(n, arena, scratch, out_part);
    return;
  }
  bool cuts = cuts_total(n);
  if (n->walk.kind == MSC_NEST_COLUMN) bring_tail_forward(n);
  out_part[1] = (msc_nest_part){msc_arena_copy(arena, n, sizeof *n), cuts ? "_parts" : "_total"};
  uint64_t end = make_first(n, scratch);
  make_second(out_part[1].nester, scratch);
  if (!cuts) return;
  msc_nester *parts = out_part[1].nester;
  cut_reduced_axis(parts);
  parts->walk.scratch_begin = end;
  out_part[2] = (msc_nest_part){msc_arena_copy(arena, parts, sizeof *parts), "_total"};
  make_first(parts, scratch);
  make_second(out_part[2].nester, scratch);
}
