/* search.c: the exact search for a plan no higher than a limit.
 *
 * Plans are canonical: every box rests on the floor or on another.  An unplaced box has a lower bound `least` on its
 * offset and knows the top of what is placed under it, `rest`.  The lowest box either stays at its bound, if it rests
 * there, or is raised to the next place where it could rest; so all that is unplaced lies above what is placed.  In a
 * section, boxes that come one after the other in order of `least` show how high the section must become: above the
 * limit, the branch is dead; and where a section is so full that its lowest box cannot be raised, that box is pinned,
 * wherever it is, and others keep clear of it.  Where a section has nothing unplaced, time falls apart into two
 * problems.  Runs are short and restarted with priorities that remember which boxes stood in dead sections (conflict
 * weights, Boussemart et al. 2004). */
#include <stdlib.h>
#include <string.h>

#include "passes/8_memory/place/placing.h"

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
  int64_t first;   /* smallest `least` */
  int64_t second;  /* the next larger one */
  uint32_t lowest; /* index of a box with the smallest */
  uint32_t num;    /* boxes with the smallest; 0: none at all */
} section;

/* Sections to be looked at again. */
typedef struct {
  uint32_t from, to;
} stretch;

typedef struct {
  msc_placing *z;
  int64_t limit;
  uint64_t nodes, node_limit;
  box *stack; /* frames, one behind the other */
  size_t used;
  section *section;
  double *priority, *weight;
  int64_t *offset;
  uint64_t random;
} searching;

/* Boxes that are still to be placed, and where something changed since they were measured. */
typedef struct {
  box *u;
  size_t n;
  stretch changed;
} frame;

static bool overlap(const box *a, const box *b) { return a->from < b->to && b->from < a->to; }

/* Lowest first, of these what is pinned; nearly sorted from one node to the next. */
static void sort_by_least(box *u, size_t n) {
  for (size_t i = 1; i < n; i++) {
    box b = u[i];
    size_t k = i;
    for (; k && (u[k - 1].least > b.least || (u[k - 1].least == b.least && b.pinned && !u[k - 1].pinned)); k--)
      u[k] = u[k - 1];
    if (k < i) u[k] = b;
  }
}

static void note_change(frame *f, const box *b) {
  if (b->from < f->changed.from) f->changed.from = b->from;
  if (b->to > f->changed.to) f->changed.to = b->to;
}

/* ---- moving boxes ---- */

/* Box i would touch something pinned: it lies above that. */
static void clear_pinned(frame *f, size_t i) {
  box *b = &f->u[i];
  bool touches = !b->pinned;
  while (touches) {
    touches = false;
    for (size_t k = 0; k < f->n; k++) {
      const box *p = &f->u[k];
      if (!p->pinned || !overlap(p, b) || b->least >= p->least + p->size || b->least + b->size <= p->least) continue;
      b->least = p->least + p->size;
      touches = true;
    }
  }
}

static void raise_to(frame *f, size_t i, int64_t least) {
  f->u[i].least = least;
  clear_pinned(f, i);
  note_change(f, &f->u[i]);
}

/* Box i stays where it is.  False: it touches another that does. */
static bool pin(frame *f, size_t i) {
  const box *p = &f->u[i];
  f->u[i].pinned = true;
  for (size_t k = 0; k < f->n; k++) {
    const box *b = &f->u[k];
    if (k == i || !overlap(p, b) || b->least >= p->least + p->size || b->least + b->size <= p->least) continue;
    if (b->pinned) return false;
    raise_to(f, k, p->least + p->size);
  }
  return true;
}

/* Takes the lowest box, which is pinned, away: all others lie above. */
static bool put_down(searching *g, frame *f) {
  box p = f->u[0];
  int64_t top = p.least + p.size;
  g->offset[p.body] = p.least;
  memmove(f->u, f->u + 1, --f->n * sizeof *f->u);
  note_change(f, &p);
  for (size_t k = 0; k < f->n; k++) {
    box *b = &f->u[k];
    if (!overlap(b, &p)) continue;
    if (top > b->rest) b->rest = top;
    if (top <= b->least) continue;
    if (b->pinned) return false;
    raise_to(f, k, top);
  }
  return true;
}

static bool put_down_pinned(searching *g, frame *f) {
  sort_by_least(f->u, f->n);
  while (f->n && f->u[0].pinned) {
    MSC_TRY(put_down(g, f));
    sort_by_least(f->u, f->n);
  }
  return true;
}

/* ---- bounds ---- */

static void note_failure(searching *g, const frame *f, uint32_t s) {
  for (size_t i = 0; i < f->n; i++)
    if (f->u[i].from <= s && s < f->u[i].to) g->weight[f->u[i].body] += 1;
}

static void add_box(section *s, uint32_t i, int64_t least, int64_t size) {
  if (s->num == 0) *s = (section){0, 0, least, INT64_MAX / 2, i, 0};
  if (s->first == least) s->num++;
  else if (least < s->second) s->second = least;
  s->top = (s->top > least ? s->top : least) + size;
  s->sum += size;
}

/* Measures the sections that changed.  False: one cannot stay under the limit.  `out_gap`: one without boxes between
 * some that have boxes, or UINT32_MAX. */
static bool measure(searching *g, frame *f, uint32_t *out_gap) {
  section *all = g->section;
  uint32_t from = UINT32_MAX, to = 0, a = f->changed.from, b = f->changed.to;
  *out_gap = UINT32_MAX;
  for (uint32_t s = a; s < b; s++) all[s].num = 0;
  for (uint32_t i = 0; i < f->n; i++) {
    const box *u = &f->u[i];
    uint32_t begin = u->from > a ? u->from : a, end = u->to < b ? u->to : b;
    for (uint32_t s = begin; s < end; s++) add_box(&all[s], i, u->least, u->size);
    if (u->from < from) from = u->from;
    if (u->to > to) to = u->to;
  }
  for (uint32_t s = a; s < b; s++) {
    if (all[s].num && all[s].top > g->limit) {
      note_failure(g, f, s);
      return false;
    }
    if (!all[s].num && s > from && s < to) *out_gap = s;
  }
  return true;
}

/* The next offset at which box i could rest once it does not rest where it is. */
static int64_t next_least(const frame *f, size_t i) {
  const box *b = &f->u[i];
  int64_t next = INT64_MAX;
  for (size_t k = 0; k < f->n && f->u[k].least < next; k++) {
    if (k == i || !overlap(&f->u[k], b)) continue;
    int64_t top = f->u[k].least + f->u[k].size;
    if (top <= b->least) top = b->least + 1; /* who lies under it may rise */
    if (top < next) next = top;
  }
  return next;
}

/* Pins the lowest box of every measured section that would overflow without it.  False: two of them touch. */
static bool pin_forced(searching *g, frame *f, stretch measured, bool *out_pinned) {
  *out_pinned = false;
  for (uint32_t s = measured.from; s < measured.to; s++) {
    const section *t = &g->section[s];
    if (t->num != 1 || t->second + t->sum <= g->limit) continue;
    const box *b = &f->u[t->lowest];
    if (b->pinned || b->least != t->first) continue; /* raised since it was measured: it will be measured again */
    if (t->first + 1 + t->sum <= g->limit) {
      int64_t next = next_least(f, t->lowest);
      if (next != INT64_MAX && next + t->sum <= g->limit) continue;
    }
    MSC_TRY(pin(f, t->lowest));
    note_change(f, b);
    *out_pinned = true;
  }
  return true;
}

/* ---- the search ---- */

static verdict solve(searching *g, frame f);

static frame new_frame(searching *g, size_t n) {
  frame f = {g->stack + g->used, n, {UINT32_MAX, 0}};
  g->used += n;
  return f;
}

/* Before and behind a section without boxes; the smaller problem first: it fails sooner. */
static verdict split(searching *g, const frame *f, uint32_t gap) {
  size_t used = g->used, left = 0;
  verdict r = FOUND;
  for (size_t i = 0; i < f->n; i++) left += f->u[i].to <= gap;
  for (int turn = 0; turn < 2 && r == FOUND; turn++) {
    bool want_left = (turn == 0) == (2 * left <= f->n);
    size_t m = 0;
    frame part = new_frame(g, want_left ? left : f->n - left);
    for (size_t i = 0; i < f->n; i++)
      if ((f->u[i].to <= gap) == want_left) part.u[m++] = f->u[i], note_change(&part, &f->u[i]);
    r = solve(g, part);
    g->used = used;
  }
  return r;
}

static verdict branch(searching *g, const frame *f, size_t i) {
  size_t used = g->used;
  frame below = new_frame(g, f->n);
  memcpy(below.u, f->u, f->n * sizeof *f->u);
  verdict r = pin(&below, i) ? solve(g, below) : NONE;
  g->used = used;
  return r;
}

static bool twins(const box *a, const box *b) {
  return !a->pinned && !b->pinned && a->size == b->size && a->from == b->from && a->to == b->to && a->least == b->least;
}

/* Box i rests on something unplaced; what is its equal does too, as the two could change places. */
static void raise_twins(frame *f, size_t i, int64_t next) {
  box old = f->u[i];
  for (size_t k = 0; k < f->n; k++)
    if (k == i || twins(&f->u[k], &old)) raise_to(f, k, next);
}

/* The most important of the lowest boxes. */
static size_t choose(const searching *g, const frame *f) {
  size_t best = 0;
  for (size_t i = 1; i < f->n && f->u[i].least == f->u[0].least; i++)
    if (g->priority[f->u[i].body] > g->priority[f->u[best].body]) best = i;
  return best;
}

static verdict solve(searching *g, frame f) {
  while (f.n) {
    if (++g->nodes > g->node_limit || (g->nodes % 256 == 0 && msc_placing_spent(g->z))) return LIMIT;
    uint32_t gap;
    bool pinned;
    if (!put_down_pinned(g, &f)) return NONE;
    if (!measure(g, &f, &gap)) return NONE;
    if (gap != UINT32_MAX) return split(g, &f, gap);
    stretch measured = f.changed;
    f.changed = (stretch){UINT32_MAX, 0};
    if (!pin_forced(g, &f, measured, &pinned)) return NONE;
    if (pinned || !f.n) continue;
    size_t i = choose(g, &f);
    if (f.u[i].rest == f.u[i].least) {
      verdict r = branch(g, &f, i);
      if (r != NONE) return r;
    }
    int64_t next = next_least(&f, i);
    if (next == INT64_MAX || next + f.u[i].size > g->limit) return NONE;
    raise_twins(&f, i, next);
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
  g->used = 0;
  frame f = new_frame(g, g->z->num);
  for (uint32_t i = 0; i < f.n; i++) f.u[i] = box_of(g->z, i), note_change(&f, &f.u[i]);
  for (uint32_t i = 0; i < f.n; i++) clear_pinned(&f, i);
  verdict r = solve(g, f);
  g->z->nodes += g->nodes;
  if (r == FOUND) msc_placing_keep(g->z, g->offset);
  return r;
}

static void set_priorities(searching *g, uint64_t round) {
  static const int orders[] = {3, 4, 5, 2, 1, 6, 0};
  size_t n = sizeof orders / sizeof *orders;
  double noise = round < n ? 0 : 0.05 * (double)(1 + round / 10 % 10);
  msc_place_rank(g->z, orders[round % n], g->priority);
  for (size_t i = 0; i < g->z->num; i++) {
    g->priority[i] *= (1 + noise * (2 * draw(g) - 1)) * (round < n ? 1 : g->weight[i]);
    g->weight[i] = 1 + (g->weight[i] - 1) * 0.92;
  }
}

/* Most runs are short; now and then one is longer, without end, so that small problems are settled. */
static uint64_t nodes_of(uint64_t num, uint64_t round) {
  uint64_t nodes = 3 * num + 32;
  for (uint64_t r = round + 1; r % 64 == 0; r /= 64) nodes *= 8;
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
  g->stack = msc_new_array(z->arena, box, n * (n + 7) / 2);
  g->section = msc_new_array(z->arena, section, z->num_sections);
  g->priority = msc_new_array(z->arena, double, n);
  g->weight = msc_new_array(z->arena, double, n);
  g->offset = msc_new_array(z->arena, int64_t, n);
  for (size_t i = 0; i < n; i++) g->weight[i] = 1;
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
  /* a group's members need less than its box, which is what was placed here */
  z->proven |= exact && z->height <= lowest;
}
