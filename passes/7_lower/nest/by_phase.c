/* by_phase.c: a walk of several phases and few long items, as a norm over a batch is -> launches for each phase, which
 * all of a GPU shares.  What a phase reduces stays in scratch for the later ones.  So each is a reduction of one phase,
 * which `split` cuts, or goes through all points at once. */
#include "passes/7_lower/nest/expand.h"

/* True for an item that keeps its threads busy for longer than the launches take that it would be cut into. */
static bool is_long(const msc_nester *n) {
  enum { LONG_ITEM = 1 << 16 };
  uint64_t items = n->target->items(n);
  return msc_nest_points(n, n->walk.items | n->walk.reduced) / (items ? items : 1) >= LONG_ITEM;
}

static bool is_reduction(const msc_nester *n, int i) { return n->live[i] && n->instr[i].code == NEST_REDUCE; }
static bool is_root(const msc_nester *n, int i) { return n->live[i] && msc_nest_has(&n->instr[i], NEST_ROOT); }

/* The phase whose launches run an instruction.  The new value of an operand that is no point of the reduced axes is
 * stored behind all phases, which may read the old one. */
static int launching_phase(const msc_nester *n, int i) {
  const msc_instr *in = &n->instr[i];
  if (in->code == NEST_STORE && n->lies_on[in->buffer] && !(in->axes & n->walk.reduced)) return n->walk.num_phases + 1;
  return in->phase ? in->phase : 1;
}

static bool has_work(const msc_nester *n, int phase) {
  int i = 1;
  while (i < n->num_instrs && !((is_reduction(n, i) || is_root(n, i)) && launching_phase(n, i) == phase)) i++;
  return i < n->num_instrs;
}

/* Returns the bytes of scratch for the results of all reductions. */
static uint64_t kept_bytes(const msc_nester *n) {
  uint64_t bytes = 0;
  for (int i = 1; i < n->num_instrs; i++)
    if (is_reduction(n, i)) msc_nest_scratch_place(n, n->walk.items, &bytes, (msc_dtype)n->instr[i].dtype);
  return bytes;
}

/* True if instruction k has value x as memory of this type holds it: x itself, or x rounded. */
static bool is_as_stored(const msc_nester *n, int k, uint16_t x, uint8_t memory) {
  const msc_instr *in = &n->instr[k];
  return k == x ? in->dtype == memory : in->code == NEST_ROUND && in->arg[0] == x && in->imm == (int8_t)memory;
}

/* True if nobody but stores reads x with more digits than memory of this type holds. */
static bool is_read_as_stored(const msc_nester *n, uint16_t x, uint8_t memory) {
  if (n->instr[x].dtype == memory) return true;
  for (int i = x + 1; i < n->num_instrs; i++)
    for (int k = 0; k < 3; k++)
      if (n->live[i] && n->instr[i].arg[k] == x && n->instr[i].code != NEST_STORE && !is_as_stored(n, i, x, memory))
        return false;
  return true;
}

/* Lets phase `phase` of m load what an earlier one stored at the same points, instead of computing it again. No such
 * result lies on an operand: those are stored in the last phase. */
static void load_stored(const msc_nester *n, msc_nester *m, int phase) {
  for (int i = 1; i < n->num_instrs; i++) {
    const msc_instr *store = &n->instr[i];
    uint16_t x = store->arg[0];
    uint8_t memory = n->buffer[store->buffer].dtype;
    bool is_there = n->live[i] && store->code == NEST_STORE && launching_phase(n, i) < phase &&
                    (store->axes & n->walk.reduced) && !n->lies_on[store->buffer];
    if (!is_there || n->instr[x].axes != store->axes || !is_read_as_stored(n, x, memory)) continue;
    for (int k = x; k < n->num_instrs; k++) {
      if (!is_as_stored(n, k, x, memory)) continue;
      m->instr[k] = (msc_instr){
          .code = NEST_LOAD, .dtype = n->instr[k].dtype, .buffer = store->buffer, .axes = store->axes};
      m->at[k] = n->at[i], m->over[k] = 0, m->blocks[k] = 0;
    }
  }
}

/* Returns a copy of n that computes one phase, with a walk of its own: what earlier phases reduced is loaded from
 * scratch, what this one reduces is stored there. stored: it also loads what earlier phases stored. */
static msc_nester *cut_phase(const msc_nester *n, msc_arena *arena, int phase, int scratch, bool stored) {
  msc_nester *m = msc_arena_copy(arena, n, sizeof *n);
  uint64_t end = 0;
  if (scratch == m->num_buffers) {
    m->buffer[m->num_buffers++] = (msc_nest_buffer){.dtype = MSC_NUM_DTYPES, .is_out = true};
    m->buffer_elems[scratch] = INT64_MAX;
  }
  if (stored) load_stored(n, m, phase);
  for (int i = 1; i < n->num_instrs; i++) {
    msc_instr *in = &m->instr[i];
    if (is_root(n, i) && launching_phase(n, i) != phase) in->code = NEST_NONE;
    if (!is_reduction(n, i)) continue;
    msc_affine at = msc_nest_scratch_place(n, n->walk.items, &end, (msc_dtype)in->dtype);
    if (in->phase == phase)
      msc_nest_add(
          m, (msc_instr){.code = NEST_STORE, .dtype = in->dtype, .buffer = (uint8_t)scratch, .arg = {(uint16_t)i}},
          &at, 0);
    if (in->phase >= phase) continue;
    *in = (msc_instr){.code = NEST_LOAD, .dtype = in->dtype, .buffer = (uint8_t)scratch, .axes = in->axes};
    m->at[i] = at, m->over[i] = 0, m->blocks[i] = 0;
  }
  m->walk = (msc_nest_walk){.kind = MSC_NEST_MAP, .scratch_begin = end};
  msc_nest_choose_walk(m);
  return m;
}

/* Returns the phase in the form that moves fewer bytes. */
static msc_nester *take_phase(const msc_nester *n, msc_arena *arena, int phase, int scratch) {
  uint64_t bytes, fewer, flops;
  msc_nester *plain = cut_phase(n, arena, phase, scratch, false), *stored = cut_phase(n, arena, phase, scratch, true);
  msc_nest_estimate(plain, &bytes, &flops);
  msc_nest_estimate(stored, &fewer, &flops);
  return !stored->failed && fewer < bytes ? stored : plain;
}

uint64_t msc_nest_choose_phases(msc_nester *n) {
  msc_nest_walk *w = &n->walk;
  msc_arena *arena = msc_arena_new(n->ctx);
  uint64_t kept = kept_bytes(n), parts = 0, bytes, flops;
  int launches = 0;
  bool fits = n->num_buffers < MSC_NEST_BUFFERS && is_long(n);
  w->bytes = w->flops = 0;
  for (int phase = 1; phase <= w->num_phases + 1 && fits; phase++) {
    if (!has_work(n, phase)) continue;
    msc_nester *m = take_phase(n, arena, phase, n->num_buffers);
    msc_nest_estimate(m, &bytes, &flops);
    parts = msc_max(parts, msc_nest_choose_split(m));
    w->bytes += bytes, w->flops += flops;
    launches += m->walk.num_launches;
    fits = !m->failed && launches <= MSC_NEST_LAUNCHES;
  }
  msc_arena_free(arena);
  if (!fits) return 0;
  w->by_phase = true, w->num_launches = launches;
  return kept + parts;
}

void msc_nest_split_phases(const msc_nester *n, msc_arena *arena, int scratch, msc_nest_part *out_part) {
  for (int phase = 1; phase <= n->walk.num_phases + 1; phase++) {
    if (!has_work(n, phase)) continue;
    msc_nester *m = take_phase(n, arena, phase, scratch);
    msc_nest_choose_split(m);
    int launches = m->walk.num_launches;
    msc_nest_split(m, arena, out_part);
    out_part += launches;
  }
}
