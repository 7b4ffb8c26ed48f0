/* chains.c: the calls of a section in; chains of short calls that run strip by strip out. A strip is a part of the
 * items of a kernel, or of the rows of a product, that reads no results of other strips of the calls before it in the
 * chain. So a thread runs a strip through all calls of the chain without waiting for other threads, and finds its
 * values in its own cache. */
#include "codegen/plan/plan.h"

/* LONGEST_NS: a call that takes longer is in no chain, because it pays to wake threads for it, which then share its
 * parts evenly. Time is counted as in runtime/execute/prepare_calls.c. NEAR: the most bytes of weights that a product
 * in a chain may have, because every thread reads all of them. */
enum { LONGEST_NS = 256000, NEAR = 1280 * 1024, MOST_CALLS = 256, FEW_STRIPS = 8, LEAST_ROWS = 2 };

/* The bytes of a buffer that one call touches: [lo, hi) of its space for row 0, and `step` bytes further for each next
 * row. */
typedef struct {
  int64_t lo, hi, step, rows;
  uint8_t space;
  bool written;
} access;

typedef struct {
  const msc_plan *p;
  uint64_t strips;
  size_t first, num_calls; /* of the section: the chain so far */
  size_t num;
  access *access; /* of all of them */
} chain;

static uint64_t common_divisor(uint64_t a, uint64_t b) { return b ? common_divisor(b, a % b) : a; }

static int64_t divide_down(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* True if a strip of one call and a different strip of a later call may touch the same memory, which one of them
 * writes. */
static bool may_meet(const access *a, const access *b, uint64_t strips) {
  int64_t per_a = a->rows / (int64_t)strips, per_b = b->rows / (int64_t)strips, step = a->step * per_a;
  if (a->space != b->space || !(a->written || b->written)) return false;
  if (a->hi + a->step * (a->rows - 1) <= b->lo || b->hi + b->step * (b->rows - 1) <= a->lo) return false;
  if (step != b->step * per_b || !step) return true;
  int64_t a_hi = a->hi + a->step * (per_a - 1), b_hi = b->hi + b->step * (per_b - 1);
  /* strip i of a and strip i + d of b meet where b_lo + d step < a_hi and a_lo < b_hi + d step */
  int64_t least = divide_down(a->lo - b_hi, step) + 1, most = -divide_down(b->lo - a_hi, step) - 1;
  if (least <= -(int64_t)strips) least = 1 - (int64_t)strips;
  if (most >= (int64_t)strips) most = (int64_t)strips - 1;
  return least <= most && (least < 0 || most > 0);
}

static access access_of(const plan_ref *ref, msc_nest_reach r, uint64_t rows) {
  int64_t at = (int64_t)ref->offset;
  return (access){at + r.lo, at + r.hi, r.step, (int64_t)rows, ref->space, ref->written};
}

static bool is_short(const msc_plan_call *c) { return c->bytes / 8 + c->flops / 16 <= LONGEST_NS; }

/* Lists the accesses of a product by rows; its columns are not cut. Returns the number of rows that may be cut into
 * strips; 0: none. */
static uint64_t list_product(const msc_plan *p, const msc_plan_call *c, access *out, size_t *num) {
  const msc_plan_matmul *m = &p->matmul[c->index];
  int64_t bytes = msc_dtype_bytes(m->dtype), wide[] = {(int64_t)m->k, 0, (int64_t)m->n, 0};
  uint64_t rows = m->m / LEAST_ROWS;
  if (!m->generated || !m->b_lies || m->n % m->width || m->transpose_a || m->batch != 1 || m->tile_bytes || c->epilogue)
    return 0;
  if (c->num_buffers > 3 + (size_t)m->bias || m->m % LEAST_ROWS || m->k * m->n * (uint64_t)bytes > NEAR) return 0;
  for (size_t i = 0; i < c->num_buffers; i++) {
    int64_t step = wide[i] * bytes * LEAST_ROWS;
    out[(*num)++] =
        access_of(&c->buffer[i], (msc_nest_reach){0, step ? step : (int64_t)c->buffer[i].bytes, step}, rows);
  }
  return rows;
}

/* Lists the accesses of a call by rows. Returns the number of rows; 0: the call belongs to no chain. */
static uint64_t list_call(const msc_plan *p, const msc_plan_call *c, access *out, size_t *num) {
  if (c->served || c->checks || !is_short(c)) return 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].space != PLAN_SPACE_PERSISTENT && c->buffer[i].space != PLAN_SPACE_SCRATCH &&
        c->buffer[i].space != PLAN_SPACE_CONSTANT)
      return 0;
  if (c->kind == PLAN_CALL_KIND_MATMUL) return list_product(p, c, out, num);
  if (c->kind != PLAN_CALL_KIND_KERNEL || !c->launch->rows || c->launch->extent % c->launch->rows) return 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    out[(*num)++] = access_of(&c->buffer[i], c->launch->reach[i], c->launch->rows);
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].written && !c->launch->reach[i].step) return 0;
  return c->launch->rows;
}

static void end_chain(chain *c, msc_plan_section *s) {
  for (size_t i = 0; i < c->num_calls && c->num_calls > 1; i++) {
    msc_plan_call *call = &s->call[c->first + i];
    call->strips = (uint32_t)c->strips, call->goes_on = i > 0;
  }
  c->num = c->num_calls = 0;
}

/* True if a call with these accesses can join the chain: strips do not meet, and there are enough of them. Strips that
 * do not meet do not meet either when several are joined. */
static bool fits_chain(const chain *c, uint64_t rows, const access *more, size_t num) {
  uint64_t strips = common_divisor(c->strips, rows);
  if (c->num_calls == MOST_CALLS || strips < 2 || (strips < FEW_STRIPS && strips < c->strips)) return false;
  for (size_t i = 0; i < c->num; i++)
    for (size_t k = 0; k < num; k++)
      if (may_meet(&c->access[i], &more[k], strips)) return false;
  return true;
}

void msc_plan_find_chains(msc_plan *p, msc_plan_section *s) {
  chain c = {.p = p};
  size_t most = 0;
  for (size_t i = 0; i < s->num_calls; i++)
    if (s->call[i].num_buffers > most) most = s->call[i].num_buffers;
  c.access = msc_new_array(p->arena, access, (MOST_CALLS + 1) * most + 1);
  for (size_t i = 0; i < s->num_calls; i++) {
    size_t num = 0;
    access *more = c.access + c.num;
    uint64_t rows = list_call(p, &s->call[i], more, &num);
    if (rows > UINT32_MAX) rows = 0;
    if (!rows || (c.num_calls && !fits_chain(&c, rows, more, num))) {
      end_chain(&c, s);
      for (size_t k = 0; k < num; k++) c.access[k] = more[k];
    }
    if (rows < 2) continue;
    if (!c.num_calls) c.first = i, c.strips = rows;
    c.strips = common_divisor(c.strips, rows);
    c.num += num, c.num_calls++;
  }
  end_chain(&c, s);
}
