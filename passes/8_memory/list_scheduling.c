/* list_scheduling.c: finds an order by repeated list scheduling (see list_scheduling.h).
 *
 * A pass takes, at every moment, the ready piece with the least key; links are kept busy first. Keys are the longest
 * chain from a piece to the end, then program order, then the times of earlier passes, forward and backward in turn: a
 * piece that ended late in a forward pass is taken early in the backward one, and the other way round (Li and Willis
 * 1992). Small problems are searched further: with noise added to the keys, and over all orders if there are few
 * pieces. */
#include "passes/8_memory/list_scheduling.h"

#include <string.h>

#include "passes/8_memory/list_scheduling_pass.h"

enum {
  ROUNDS_SMALL = 8,
  ROUNDS_LARGE = 2,   /* pairs of a forward and a backward pass */
  SMALL = 4096,       /* pieces */
  NOISY = 256,        /* problems of up to so many pieces get keys with noise */
  NOISY_WORK = 20000, /* total number of pieces ordered with noise; in a trial */
  NOISY_WORK_OF_TRIAL = 2000,
  /* problems of up to so many pieces are searched completely; nodes of that search */
  ALL = 10,
  ALL_NODES = 50000,
};

/* ---- measuring ---- */

typedef struct {
  uint64_t *end, *clock; /* by piece: when it ends; by place in the order: when compute gets there */
  uint64_t now, link[MSC_MAX_STREAMS], exposed;
} clocks;

static void time_piece(const msc_streams *s, clocks *c, uint32_t i, size_t place) {
  uint64_t ready = 0;
  c->clock[place] = c->now;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
    if (c->end[s->before[k]] > ready) ready = c->end[s->before[k]];
  if (s->stream[i]) {
    uint64_t *link = &c->link[s->stream[i]];
    if (*link < c->now) *link = c->now;
    if (*link < ready) *link = ready;
    c->end[i] = *link += s->ns[i];
    return;
  }
  if (ready > c->now) {
    c->exposed += ready - c->now;
    c->now = ready;
  }
  c->clock[place] = c->now;
  c->end[i] = c->now += s->ns[i];
}

/* The first place after `from` that compute reaches at `time` or later. */
static size_t first_place_after(const uint64_t *clock, size_t num, size_t from, uint64_t time) {
  size_t low = from + 1, high = num;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (clock[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

static uint64_t peak_of_order(msc_arena *scratch, const msc_streams *s, const size_t *over, const uint32_t *place_of) {
  int64_t *change = msc_new_array(scratch, int64_t, s->num + 1), live = 0, peak = 0;
  for (size_t v = 0; v < s->num_values; v++) {
    uint32_t from = place_of[s->maker[v]];
    size_t until = over[from];
    for (uint32_t k = s->first_use[v]; k < s->first_use[v + 1]; k++)
      if (over[place_of[s->use[k]]] > until) until = over[place_of[s->use[k]]];
    change[from] += (int64_t)s->bytes[v];
    change[until] -= (int64_t)s->bytes[v];
  }
  for (size_t i = 0; i <= s->num; i++) {
    live += change[i];
    if (live > peak) peak = live;
  }
  return (uint64_t)peak;
}

msc_streams_time msc_streams_measure(msc_arena *scratch, const msc_streams *s, const uint32_t *order,
                                     uint32_t *out_beside) {
  clocks c = {.end = msc_new_array(scratch, uint64_t, s->num), .clock = msc_new_array(scratch, uint64_t, s->num)};
  size_t *over = msc_new_array(scratch, size_t, s->num); /* by place: the first place at which the piece has ended */
  uint32_t *place_of = msc_new_array(scratch, uint32_t, s->num);
  for (size_t p = 0; p < s->num; p++) time_piece(s, &c, order[p], p);
  msc_streams_time t = {.ns = c.now, .exposed = c.exposed};
  for (int l = 1; l < MSC_MAX_STREAMS; l++)
    if (c.link[l] > t.ns) t.ns = c.link[l];
  t.exposed += t.ns - c.now;
  for (size_t p = 0; p < s->num; p++) {
    place_of[order[p]] = (uint32_t)p;
    over[p] = s->stream[order[p]] ? first_place_after(c.clock, s->num, p, c.end[order[p]]) : p + 1;
    if (out_beside) out_beside[p] = (uint32_t)(over[p] - p - 1);
  }
  t.peak = peak_of_order(scratch, s, over, place_of);
  return t;
}

/* ---- bounds ---- */

/* By piece: the longest chain from its start to the end of the last piece. */
static uint64_t *longest_chains(msc_arena *scratch, const msc_streams *s) {
  uint64_t *chain = msc_new_array(scratch, uint64_t, s->num);
  for (size_t i = s->num; i-- > 0;) {
    chain[i] += s->ns[i];
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
      if (chain[s->before[k]] < chain[i]) chain[s->before[k]] = chain[i];
  }
  return chain;
}

uint64_t msc_streams_bound(msc_arena *scratch, const msc_streams *s) {
  const uint64_t *chain = longest_chains(scratch, s);
  uint64_t bound = 0, sum[MSC_MAX_STREAMS] = {0};
  for (size_t i = 0; i < s->num; i++) {
    if (chain[i] > bound) bound = chain[i];
    sum[s->stream[i]] += s->ns[i];
  }
  for (int l = 0; l < MSC_MAX_STREAMS; l++)
    if (sum[l] > bound) bound = sum[l];
  return bound;
}

/* ---- ordering ---- */

typedef struct {
  const msc_streams *s;
  msc_arena *scratch;
  msc_stream_pass *forward, *backward;
  uint64_t bound;
  int64_t *key;
  uint32_t *order, *best;
  msc_streams_time time, program; /* of the best order; of program order */
  uint64_t least;                 /* shortest time of any order tried */
} list_scheduler;

/* True if t is better than the best order: a time within 1/512 of the shortest is good enough, and of good ones the
 * lower peak wins. */
static bool is_better_order(const list_scheduler *z, const msc_streams_time *t) {
  uint64_t room = z->s->limit > z->program.peak ? z->s->limit : z->program.peak;
  if (t->peak > room || t->ns >= z->program.ns) return false;
  bool good = t->ns <= z->least + z->least / 512, is_good = z->time.ns <= z->least + z->least / 512;
  if (good != is_good) return good;
  return good && t->peak != z->time.peak ? t->peak < z->time.peak : t->ns < z->time.ns;
}

static void keep_better_order(list_scheduler *z) {
  msc_streams_time t = msc_streams_measure(z->scratch, z->s, z->order, NULL);
  if (t.ns < z->least) z->least = t.ns;
  if (!is_better_order(z, &t)) return;
  z->time = t;
  memcpy(z->best, z->order, z->s->num * sizeof *z->best);
}

static bool is_at_bound(const list_scheduler *z) { return z->time.ns <= z->bound; }

/* Runs a forward pass with the keys, then backward and forward passes in turn while they improve. */
static void run_passes(list_scheduler *z, int rounds) {
  for (int i = 0; i < rounds && !is_at_bound(z); i++) {
    uint64_t before = z->least;
    const uint64_t *end = msc_stream_pass_run(z->forward, z->key, z->order);
    keep_better_order(z);
    if (i && z->least == before) return;
    for (size_t k = 0; k < z->s->num; k++) z->key[k] = -(int64_t)end[k];
    end = msc_stream_pass_run(z->backward, z->key, NULL);
    for (size_t k = 0; k < z->s->num; k++) z->key[k] = -(int64_t)end[k];
  }
}

static void try_noisy_keys(list_scheduler *z, const uint64_t *chain) {
  uint64_t random = 0x9e3779b97f4a7c15u;
  size_t work = z->s->is_trial ? NOISY_WORK_OF_TRIAL : NOISY_WORK;
  for (size_t tries = work / (z->s->num + 1); tries > 0 && !is_at_bound(z); tries--) {
    for (size_t i = 0; i < z->s->num; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      z->key[i] = -(int64_t)(chain[i] / 1024 * (640 + (random >> 33) % 768));
    }
    run_passes(z, 2);
  }
}

/* ---- all orders ---- */

/* Completes the first `num` pieces of the order in every way that can still be shorter than the best (branch and
 * bound). */
static void complete_order(list_scheduler *z, const uint64_t *chain, const clocks *c, size_t num, uint32_t listed,
                           size_t *nodes) {
  const msc_streams *s = z->s;
  if (num == s->num) keep_better_order(z);
  for (uint32_t i = 0; i < s->num && *nodes; i++) {
    bool ready = !(listed >> i & 1);
    for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) ready = ready && (listed >> s->before[k] & 1);
    if (!ready) continue;
    clocks next = *c;
    uint64_t compute = 0;
    time_piece(s, &next, i, num);
    for (uint32_t k = 0; k < s->num; k++)
      if (!(listed >> k & 1) && k != i && !s->stream[k]) compute += s->ns[k];
    z->order[num] = i;
    --*nodes;
    if (next.now + compute < z->least && next.end[i] - s->ns[i] + chain[i] < z->least)
      complete_order(z, chain, &next, num + 1, listed | 1u << i, nodes);
  }
}

static void try_all_orders(list_scheduler *z, const uint64_t *chain) {
  clocks c = {.end = msc_new_array(z->scratch, uint64_t, z->s->num),
              .clock = msc_new_array(z->scratch, uint64_t, z->s->num)};
  size_t nodes = ALL_NODES;
  complete_order(z, chain, &c, 0, 0, &nodes);
}

msc_streams_time msc_streams_order(msc_arena *scratch, const msc_streams *s, uint32_t *out_order) {
  list_scheduler z = {.s = s,
                      .scratch = scratch,
                      .key = msc_new_array(scratch, int64_t, s->num),
                      .order = msc_new_array(scratch, uint32_t, s->num),
                      .best = out_order};
  int rounds = s->num <= SMALL ? ROUNDS_SMALL : ROUNDS_LARGE;
  bool links = false;
  for (size_t i = 0; i < s->num; i++) {
    out_order[i] = (uint32_t)i;
    links = links || s->stream[i];
  }
  z.time = z.program = msc_streams_measure(scratch, s, out_order, NULL);
  z.least = z.time.ns;
  z.bound = msc_streams_bound(scratch, s);
  if (!links || is_at_bound(&z)) return z.time;
  z.forward = msc_stream_pass_new(scratch, s, false);
  z.backward = msc_stream_pass_new(scratch, s, true);
  for (size_t i = 0; i < s->num; i++) z.key[i] = (int64_t)i;
  run_passes(&z, rounds);
  const uint64_t *chain = longest_chains(scratch, s);
  for (size_t i = 0; i < s->num; i++) z.key[i] = -(int64_t)chain[i];
  run_passes(&z, rounds);
  if (s->num <= NOISY) try_noisy_keys(&z, chain);
  if (s->num <= ALL && !s->is_trial && !is_at_bound(&z)) try_all_orders(&z, chain);
  return z.time;
}
