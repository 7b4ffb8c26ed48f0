/* peak.c: finds what is in use when most of the scratch arena is (see peak.h). Values that share a place at one
 * time, as views and results made in place of an operand, have one offset: each offset counts once. */
#include "passes/8_memory/peak.h"

#include <stdlib.h>

#include "ir/alias.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/8_memory/homes.h"

bool msc_runs_in_tiles(const msc_op *op) {
  return op && (op->kind == OP_gemm || op->kind == OP_segment_sum) && msc_op_int(op, "tile");
}

/* An op in tiles and the op that takes its tiles run in turns: while one writes, the other still reads tiles. A
 * collective reads its operands while the ops beside it run. */
uint32_t *msc_ends_of_reads(msc_arena *arena, const msc_func *f) {
  const msc_op *last = f->body->last;
  uint32_t *end = msc_new_array(arena, uint32_t, last->id + 1), *at = msc_new_array(arena, uint32_t, last->id + 1),
           num = 0;
  /* ops inside kernels have numbers too */
  for (const msc_op *op = f->body->first; op; op = op->next) at[num++] = op->id;
  for (uint32_t i = 0; i < num; i++) end[at[i]] = at[i];
  uint32_t i = 0;
  for (const msc_op *op = f->body->first; op; op = op->next, i++) {
    int64_t beside = msc_fact_read(op, beside, 0);
    if (beside > 0) end[op->id] = at[beside < num - i ? i + beside : num - 1];
    if (msc_runs_in_tiles(op) && msc_has_uses(&op->out[0])) end[op->id] = op->out[0].uses->user->id;
  }
  return end;
}

typedef struct {
  uint64_t offset, bytes;
  uint32_t from, to; /* first and last op during which it is in use */
  const msc_op *op;
  bool work;
} range;

static size_t list_ranges(msc_arena *arena, msc_func *f, range *out_range) {
  msc_nester *nester = msc_nester_new(f->module->ctx, arena, msc_target_of(f->module));
  const uint32_t *end = msc_ends_of_reads(arena, f);
  size_t num = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    const msc_attr_value *place = msc_op_attr(op, MSC_FACT(place)), *work = msc_op_attr(op, MSC_FACT(work));
    if (work && !msc_runs_on_host(op))
      out_range[num++] = (range){(uint64_t)work->i, msc_scratch_bytes(nester, op), op->id, op->id, op, true};
    for (size_t i = 0; place && i < op->num_out && i < place->list.num; i++) {
      if (place->list.v[i].i < 0 || msc_is_constant(&op->out[i]) || msc_runs_in_tiles(op)) continue;
      if (op->kind == OP_stash || msc_is_made_on_host(&op->out[i])) continue;
      msc_memory m = msc_memory_of(&op->out[i]);
      const msc_type *whole = m.root->type;
      uint64_t at = (uint64_t)(place->list.v[i].i - m.shift * msc_dtype_bytes(whole->dtype));
      range r = {at, (uint64_t)msc_type_bytes(whole), op->id, op->id, op, false};
      for (const msc_use *u = op->out[i].uses; u; u = u->next)
        if (end[u->user->id] > r.to) r.to = end[u->user->id];
      if (r.bytes) out_range[num++] = r;
    }
  }
  return num;
}

static int compare_range_offsets(const void *a, const void *b) {
  const range *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->from < y->from ? -1 : x->from > y->from;
}

/* Adds the bytes of every place at its first op and takes them off behind its last. Ranges of one offset that touch
 * in time count as one. */
static void add_up_ranges(size_t num, const range *r, int64_t *more) {
  for (size_t i = 0; i < num;) {
    uint32_t from = r[i].from, to = r[i].to;
    uint64_t bytes = r[i].bytes;
    for (size_t k = i++; i < num && r[i].offset == r[k].offset && r[i].from <= to; i++) {
      if (r[i].to > to) to = r[i].to;
      if (r[i].bytes > bytes) bytes = r[i].bytes;
    }
    more[from] += (int64_t)bytes;
    more[to + 1] -= (int64_t)bytes;
  }
}

static int compare_uses_by_size(const void *a, const void *b) {
  const msc_peak_use *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return x->op->id < y->op->id ? -1 : x->op->id > y->op->id;
}

msc_peak msc_peak_of(msc_arena *arena, msc_func *f) {
  msc_numbering n = msc_number(f->body);
  range *r = msc_new_array(arena, range, n.num_values + n.num_ops);
  int64_t *more = msc_new_array(arena, int64_t, n.num_ops + 2), live = 0;
  msc_peak p = {.func = f, .scratch = (uint64_t)msc_fact_read(f, scratch, 0)};
  size_t num = list_ranges(arena, f, r);
  qsort(r, num, sizeof *r, compare_range_offsets);
  add_up_ranges(num, r, more);
  uint32_t id = 0; /* ops inside kernels have numbers too */
  for (const msc_op *op = f->body->first; op; op = op->next) {
    while (id <= op->id) live += more[id++];
    if (live > (int64_t)p.live) p.live = (uint64_t)live, p.at = op;
  }
  p.use = msc_new_array(arena, msc_peak_use, num);
  for (size_t i = 0; i < num && p.at; i++) {
    if (r[i].from > p.at->id || r[i].to < p.at->id) continue;
    /* of values that share the place, the latest is listed */
    bool again = p.num && i && r[i].offset == r[i - 1].offset && r[i - 1].to >= p.at->id;
    p.use[again ? p.num - 1 : p.num++] = (msc_peak_use){r[i].op, r[i].work, r[i].bytes};
  }
  qsort(p.use, p.num, sizeof *p.use, compare_uses_by_size);
  return p;
}

const char *msc_peak_name(const msc_op *op) { return msc_op_title(op); }
