/* place_search.c: the exact search for a plan no higher than a limit.
 *
 * Plans are canonical: every box rests on the floor or on another.  An unplaced box has a lower bound `least` on its offset and
 * knows the top of what is placed under it, `rest`.  The lowest box is either placed at its bound, if it rests there, or
 * raised to the next place where it could rest; so all that is unplaced lies above what is placed.  In a section, boxes
 * that come one after the other in order of `least` show how high the section must become: above the limit, the branch is
 * dead.  Where a section has nothing unplaced, time falls apart into two problems.  Runs are short and restarted with
 * priorities that remember which boxes stood in dead sections (conflict weights, Boussemart et al. 2004). */
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/placing.h"

typedef enum { NONE, FOUND, LIMIT } verdict;

typedef struct {
  uint32_t body, from, to;
  bool pinned; /* its offset is given: `least` is that */
  int64_t size, least, rest;
} box;

/* What is unplaced in a section. */
typedef struct {
  int64_t top;     /* it becomes at least this high */
  int64_t sum;     /* of sizes */
  int64_t second;  /* `least` of the second lowest box */
  uint32_t lowest; /* index of the lowest box */
  uint32_t num;
} section;

typedef struct {
  msc_placing *z;
  int64_t limit;
  uint64_t nodes, node_limit;
  box *stack; /* frames, one behind the other */
  size_t used, room;
  box *pinned; /* all that is, placed or not */
  size_t num_pinned;
  section *section;
  double *priority, *weight;
  int64_t *offset;
  uint64_t random;
} searching;

static bool overlap(const box *a, const box *b) { return a->from < b->to && b->from < a->to; }

/* Nearly sorted from one node to the next. */
static void sort_by_least(box *u, size_t n) {
  for (size_t i = 1; i < n; i++) {
    box b = u[i];
    size_t k = i;
    for (; k && u[k - 1].least > b.least; k--) u[k] = u[k - 1];
    u[k] = b;
  }
}

/* A box at `least` would touch something pinned: it lies above that. */
static void clear_pinned(const searching *g, box *b) {
  bool touches = !b->pinned && g->num_pinned;
  while (touches) {
    touches = false;
    for (size_t i = 0; i < g->num_pinned; i++) {
      const box *p = &g->pinned[i];
      if (!overlap(p, b) || b->least >= p->least + p->size || b->least + b->size <= p->least) continue;
      b->least = p->least + p->size;
      touches = true;
    }
  }
}

/* ---- bounds ---- */

static void note_failure(searching *g, const box *u, size_t n, uint32_t s) {
  for (size_t i = 0; i < n; i++)
    if (u[i].from <= s && s < u[i].to) g->weight[u[i].body] += 1;
}

/* False: a section cannot stay under the limit.  `out_gap`: a section without boxes, or UINT32_MAX. */
static bool measure(searching *g, const box *u, size_t n, uint32_t *out_gap) {
  uint32_t from = UINT32_MAX, to = 0;
  for (size_t i = 0; i < n; i++) {
    if (u[i].from < from) from = u[i].from;
    if (u[i].to > to) to = u[i].to;
  }
  section *all = g->section;
  memset(all + from, 0, (to - from) * sizeof *all);
  for (size_t i = 0; i < n; i++) {
    int64_t least = u[i].least, size = u[i].size;
    for (section *s = all + u[i].from, *end = all + u[i].to; s < end; s++) {
      if (s->num == 0) s->lowest = (uint32_t)i;
      if (s->num == 1) s->second = least;
      s->num++;
      s->top = (s->top > least ? s->top : least) + size;
      s->sum += size;
    }
  }
  *out_gap = UINT32_MAX;
  for (uint32_t s = from; s < to; s++) {
    if (all[s].top > g->limit) {
      note_failure(g, u, n, s);
      return false;
    }
    if (!all[s].num) *out_gap = s;
  }
  return true;
}

/* The next offset at which box i could rest once it does not rest where it is. */
static int64_t next_least(const box *u, size_t n, size_t i) {
  int64_t next = INT64_MAX;
  for (size_t k = 0; k < n && u[k].least < next; k++)
    if (k != i && overlap(&u[k], &u[i]) && u[k].least + u[k].size < next) next = u[k].least + u[k].size;
  return next;
}

/* Would a section overflow if box i were raised? */
static bool must_stay(const searching *g, const box *u, size_t i, int64_t next) {
  if (u[i].pinned || next == INT64_MAX || next + u[i].size > g->limit) return true;
  for (uint32_t s = u[i].from; s < u[i].to; s++) {
    const section *t = &g->section[s];
    if (t->lowest != i) continue;
    int64_t first = t->num > 1 && t->second < next ? t->second : next;
    if (first + t->sum > g->limit) return true;
  }
  return false;
}

/* ---- the search ---- */

static verdict solve(searching *g, box *u, size_t n);

static box *new_frame(searching *g, size_t n) {
  box *v = g->stack + g->used;
  g->used += n;
  return v;
}

static verdict split(searching *g, const box *u, size_t n, uint32_t gap) {
  size_t used = g->used, left = 0;
  verdict r = FOUND;
  for (size_t i = 0; i < n; i++) left += u[i].to <= gap;
  for (int turn = 0; turn < 2 && r == FOUND; turn++) { /* the smaller one first: it fails sooner */
    bool want_left = (turn == 0) == (2 * left <= n);
    size_t m = 0;
    box *v = new_frame(g, want_left ? left : n - left);
    for (size_t i = 0; i < n; i++)
      if ((u[i].to <= gap) == want_left) v[m++] = u[i];
    r = solve(g, v, m);
    g->used = used;
  }
  return r;
}

static verdict place(searching *g, const box *u, size_t n, size_t i) {
  size_t used = g->used, m = 0;
  box *v = new_frame(g, n - 1);
  int64_t top = u[i].least + u[i].size;
  g->offset[u[i].body] = u[i].least;
  for (size_t k = 0; k < n; k++) {
    if (k == i) continue;
    v[m] = u[k];
    if (overlap(&u[k], &u[i])) {
      if (top > v[m].rest) v[m].rest = top;
      if (top > v[m].least) {
        if (v[m].pinned) return g->used = used, NONE;
        v[m].least = top;
        clear_pinned(g, &v[m]);
      }
    }
    m++;
  }
  verdict r = solve(g, v, n - 1);
  g->used = used;
  return r;
}

static bool twins(const box *a, const box *b) { return !a->pinned && !b->pinned && a->size == b->size && a->from == b->from && a->to == b->to && a->least == b->least; }

/* Box i rests on something unplaced; what is its equal does too, as the two could change places. */
static void raise_box(const searching *g, box *u, size_t n, size_t i, int64_t next) {
  box old = u[i];
  for (size_t k = 0; k < n; k++) {
    if (k != i && !twins(&u[k], &old)) continue;
    u[k].least = next;
    clear_pinned(g, &u[k]);
  }
}

/* The box to decide about: one that must stay, else the most important of the lowest. */
static size_t choose(const searching *g, const box *u, size_t n, int64_t *out_next, bool *out_stays) {
  size_t best = 0;
  double most = -1;
  for (size_t i = 0; i < n && u[i].least == u[0].least; i++) {
    int64_t next = next_least(u, n, i);
    bool floats = u[i].rest < u[i].least && !u[i].pinned, stays = !floats && must_stay(g, u, i, next);
    if (stays || floats) {
      *out_next = next;
      *out_stays = stays;
      return i;
    }
    if (g->priority[u[i].body] > most) most = g->priority[u[i].body], best = i, *out_next = next;
  }
  *out_stays = false;
  return best;
}

static verdict solve(searching *g, box *u, size_t n) {
  while (n) {
    if (++g->nodes > g->node_limit || (g->nodes % 256 == 0 && msc_placing_spent(g->z))) return LIMIT;
    uint32_t gap;
    sort_by_least(u, n);
    if (!measure(g, u, n, &gap)) return NONE;
    if (gap != UINT32_MAX) return split(g, u, n, gap);
    int64_t next = INT64_MAX;
    bool stays;
    size_t i = choose(g, u, n, &next, &stays);
    if (u[i].rest == u[i].least || u[i].pinned) {
      verdict r = place(g, u, n, i);
      if (r != NONE || stays) return r;
    }
    if (next == INT64_MAX || next + u[i].size > g->limit) return NONE;
    raise_box(g, u, n, i, next);
  }
  return FOUND;
}

/* ---- restarts ---- */

static double draw(searching *g) {
  g->random ^= g->random << 13, g->random ^= g->random >> 7, g->random ^= g->random << 17;
  return (double)(g->random >> 11) / 9007199254740992.0;
}

static box box_of(const msc_placing *z, uint32_t i) {
  const msc_body *b = &z->body[i];
  return (box){i, b->from, b->to, b->fixed >= 0, b->height, b->fixed >= 0 ? b->fixed : 0, 0};
}

static verdict run(searching *g, int64_t limit, uint64_t node_limit) {
  g->limit = limit;
  g->node_limit = node_limit;
  g->nodes = 0;
  g->used = g->z->num;
  for (uint32_t i = 0; i < g->z->num; i++) {
    g->stack[i] = box_of(g->z, i);
    clear_pinned(g, &g->stack[i]);
  }
  verdict r = solve(g, g->stack, g->z->num);
  g->z->nodes += g->nodes;
  if (r == FOUND) msc_placing_keep(g->z, g->offset);
  return r;
}

static void set_priorities(searching *g, uint64_t round) {
  static const int orders[] = {3, 4, 5, 2, 1, 6, 0};
  size_t n = sizeof orders / sizeof *orders;
  double noise = round < n ? 0 : 0.1 * (double)(1 + round / 10 % 10);
  msc_place_rank(g->z, orders[round % n], g->priority);
  for (size_t i = 0; i < g->z->num; i++) {
    g->priority[i] *= (1 + noise * (2 * draw(g) - 1)) * (round < n ? 1 : g->weight[i]);
    g->weight[i] = 1 + (g->weight[i] - 1) * 0.95;
  }
}

/* Most runs are short; now and then one is longer, without end, so that small problems are settled. */
static uint64_t nodes_of(uint64_t num, uint64_t round) {
  uint64_t nodes = 2 * num + 32;
  for (uint64_t r = round + 1; r % 8 == 0; r /= 8) nodes *= 4;
  return nodes;
}

/* Mostly the goal, which may be out of reach; in between something nearer to what there is. */
static int64_t limit_of(const msc_placing *z, uint64_t round) {
  static const double part[] = {0, 0.5, 0, 0.875};
  return z->goal + (int64_t)((double)(z->height - 1 - z->goal) * part[round % 4]);
}

static void prepare(searching *g) {
  const msc_placing *z = g->z;
  size_t n = z->num;
  g->stack = msc_new_array(z->arena, box, n * (n + 3) / 2 + 2 * n);
  g->pinned = msc_new_array(z->arena, box, n);
  g->section = msc_new_array(z->arena, section, z->num_sections);
  g->priority = msc_new_array(z->arena, double, n);
  g->weight = msc_new_array(z->arena, double, n);
  g->offset = msc_new_array(z->arena, int64_t, n);
  for (uint32_t i = 0; i < n; i++) {
    g->weight[i] = 1;
    if (z->body[i].fixed >= 0) g->pinned[g->num_pinned++] = box_of(z, i);
  }
}

void msc_place_search(msc_placing *z) {
  searching g = {.z = z, .random = 88172645463325252u};
  bool exact = true;
  int64_t lowest = z->bound; /* nothing is lower */
  for (size_t i = 0; i < z->num; i++) exact &= z->body[i].num_parts == 1;
  prepare(&g);
  for (uint64_t round = 0; !msc_placing_done(z) && !msc_placing_spent(z); round++) {
    int64_t limit = z->options->capacity && round % 16 ? z->goal : limit_of(z, round);
    set_priorities(&g, round);
    if (run(&g, limit, nodes_of(z->num, round)) == NONE) z->goal = lowest = limit + 1;
  }
  z->proven |= exact && z->height <= lowest; /* a group's members need less than its box, which is what was placed here */
}
