/* exact_search.c: the exact search for a plan no higher than a limit (branch and bound with restarts).
 *
 * Plans are canonical: every box rests on the floor or on another box. An unplaced box has a lower bound `least` on its
 * offset and knows the top of what is placed under it, `rest`. The search takes the lowest box: it either stays at its
 * bound, if it rests there, or is raised to the next offset at which it could rest; so all unplaced boxes lie above all
 * placed ones. In every section the sizes of its boxes, stacked in order of `least`, give the height that the section
 * needs: above the limit, the branch is dead. If a section is so full that its lowest box cannot be raised, that box is
 * pinned at its offset, and others keep clear of it. A section without unplaced boxes splits time into two problems.
 * Runs are short and restarted with priorities that remember which boxes were in dead sections (conflict weights,
 * Boussemart et al. 2004). */
#include <string.h>

#include "passes/8_memory/offsets/bodies.h"

typedef enum { NONE, FOUND, LIMIT } verdict;

typedef struct {
  uint32_t body, from, to;
  bool pinned; /* its offset is fixed: `least` is the offset */
  int64_t size, least, rest;
} box;

/* The unplaced boxes of a section. */
typedef struct {
  int64_t top;     /* lower bound on the height of the section */
  int64_t sum;     /* of sizes */
  int64_t first;   /* smallest `least` */
  int64_t second;  /* the next larger one */
  uint32_t lowest; /* index of a box with the smallest */
  uint32_t num;    /* boxes with the smallest; 0: none at all */
} section;

/* Sections to be measured again. */
typedef struct {
  uint32_t from, to;
} stretch;

typedef struct {
  msc_placing *z;
  int64_t limit;
  uint64_t nodes, node_limit;
  box *start; /* all boxes, above those with fixed offsets: what every run begins with */
  box *stack; /* boxes of the frames, one frame behind the other */
  size_t used;
  section *section;
  double *priority, *weight;
  int64_t *offset;
  uint64_t random;
} exact_searcher;

/* Unplaced boxes, and the sections that changed since they were measured. */
typedef struct {
  box *u;
  size_t n;
  stretch changed;
} frame;

static bool boxes_overlap(const box *a, const box *b) { return a->from < b->to && b->from < a->to; }

/* Sorts by `least`, pinned boxes first among equals. Insertion sort: the boxes are nearly sorted from one node to
 * the next. */
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

/* Raises box i above every pinned box that it would overlap. */
static void lift_above_pinned(frame *f, size_t i) {
  box *b = &f->u[i];
  bool touches = !b->pinned;
  while (touches) {
    touches = false;
    for (size_t k = 0; k < f->n; k++) {
      const box *p = &f->u[k];
      if (!p->pinned || !boxes_overlap(p, b) || b->least >= p->least + p->size || b->least + b->size <= p->least)
        continue;
      b->least = p->least + p->size;
      touches = true;
    }
  }
}

static void raise_box(frame *f, size_t i, int64_t least) {
  f->u[i].least = least;
  lift_above_pinned(f, i);
  note_change(f, &f->u[i]);
}

/* Pins box i at its lower bound and raises others above it. False: it overlaps another pinned box. */
static bool pin_box(frame *f, size_t i) {
  const box *p = &f->u[i];
  f->u[i].pinned = true;
  for (size_t k = 0; k < f->n; k++) {
    const box *b = &f->u[k];
    if (k == i || !boxes_overlap(p, b) || b->least >= p->least + p->size || b->least + b->size <= p->least) continue;
    if (b->pinned) return false;
    raise_box(f, k, p->least + p->size);
  }
  return true;
}

/* Places the lowest box, which is pinned; all others lie above it. False: a pinned box overlaps it. */
static bool place_lowest_box(exact_searcher *g, frame *f) {
  box p = f->u[0];
  int64_t top = p.least + p.size;
  g->offset[p.body] = p.least;
  memmove(f->u, f->u + 1, --f->n * sizeof *f->u);
  note_change(f, &p);
  for (size_t k = 0; k < f->n; k++) {
    box *b = &f->u[k];
    if (!boxes_overlap(b, &p)) continue;
    if (top > b->rest) b->rest = top;
    if (top <= b->least) continue;
    if (b->pinned) return false;
    raise_box(f, k, top);
  }
  return true;
}

static bool place_pinned_boxes(exact_searcher *g, frame *f) {
  sort_by_least(f->u, f->n);
  while (f->n && f->u[0].pinned) {
    MSC_TRY(place_lowest_box(g, f));
    sort_by_least(f->u, f->n);
  }
  return true;
}

/* ---- bounds ---- */

static void add_conflict_weights(exact_searcher *g, const frame *f, uint32_t s) {
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

/* Measures the sections that changed. False: one cannot stay below the limit. out_gap: a section without boxes
 * between sections with boxes, or UINT32_MAX. */
static bool measure_sections(exact_searcher *g, frame *f, uint32_t *out_gap) {
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
      add_conflict_weights(g, f, s);
      return false;
    }
    if (!all[s].num && s > from && s < to) *out_gap = s;
  }
  return true;
}

/* The next higher offset at which box i could rest; INT64_MAX: none. */
static int64_t next_resting_offset(const frame *f, size_t i) {
  const box *b = &f->u[i];
  int64_t next = INT64_MAX;
  for (size_t k = 0; k < f->n && f->u[k].least < next; k++) {
    if (k == i || !boxes_overlap(&f->u[k], b)) continue;
    int64_t top = f->u[k].least + f->u[k].size;
    if (top <= b->least) top = b->least + 1; /* the box under it may still rise */
    if (top < next) next = top;
  }
  return next;
}

/* Pins the lowest box of every measured section that would exceed the limit if it were raised. False: two pinned
 * boxes overlap. */
static bool pin_forced_boxes(exact_searcher *g, frame *f, stretch measured, bool *out_pinned) {
  *out_pinned = false;
  for (uint32_t s = measured.from; s < measured.to; s++) {
    const section *t = &g->section[s];
    if (t->num != 1 || t->second + t->sum <= g->limit) continue;
    const box *b = &f->u[t->lowest];
    if (b->pinned || b->least != t->first) continue; /* raised since it was measured; it will be measured again */
    if (t->first + 1 + t->sum <= g->limit) {
      int64_t next = next_resting_offset(f, t->lowest);
      if (next != INT64_MAX && next + t->sum <= g->limit) continue;
    }
    MSC_TRY(pin_box(f, t->lowest));
    note_change(f, b);
    *out_pinned = true;
  }
  return true;
}

/* ---- the search ---- */

static verdict solve_frame(exact_searcher *g, frame f);

static frame new_frame(exact_searcher *g, size_t n) {
  frame f = {g->stack + g->used, n, {UINT32_MAX, 0}};
  g->used += n;
  return f;
}

/* Solves the boxes before and behind a section without boxes, the smaller problem first: it fails sooner. */
static verdict solve_both_sides(exact_searcher *g, const frame *f, uint32_t gap) {
  size_t used = g->used, left = 0;
  verdict r = FOUND;
  for (size_t i = 0; i < f->n; i++) left += f->u[i].to <= gap;
  for (int side = 0; side < 2 && r == FOUND; side++) {
    bool want_left = (side == 0) == (2 * left <= f->n);
    size_t m = 0;
    frame part = new_frame(g, want_left ? left : f->n - left);
    for (size_t i = 0; i < f->n; i++)
      if ((f->u[i].to <= gap) == want_left) part.u[m++] = f->u[i], note_change(&part, &f->u[i]);
    r = solve_frame(g, part);
    g->used = used;
  }
  return r;
}

static verdict solve_with_pinned(exact_searcher *g, const frame *f, size_t i) {
  size_t used = g->used;
  frame below = new_frame(g, f->n);
  memcpy(below.u, f->u, f->n * sizeof *f->u);
  verdict r = pin_box(&below, i) ? solve_frame(g, below) : NONE;
  g->used = used;
  return r;
}

static bool are_equal_boxes(const box *a, const box *b) {
  return !a->pinned && !b->pinned && a->size == b->size && a->from == b->from && a->to == b->to && a->least == b->least;
}

/* Raises box i, which must rest on an unplaced box, and every box equal to it, as equal boxes are interchangeable. */
static void raise_equal_boxes(frame *f, size_t i, int64_t next) {
  box old = f->u[i];
  for (size_t k = 0; k < f->n; k++)
    if (k == i || are_equal_boxes(&f->u[k], &old)) raise_box(f, k, next);
}

/* The box of highest priority among the lowest. */
static size_t choose_box(const exact_searcher *g, const frame *f) {
  size_t best = 0;
  for (size_t i = 1; i < f->n && f->u[i].least == f->u[0].least; i++)
    if (g->priority[f->u[i].body] > g->priority[f->u[best].body]) best = i;
  return best;
}

static verdict solve_frame(exact_searcher *g, frame f) {
  while (f.n) {
    if (++g->nodes > g->node_limit || (g->nodes % 256 == 0 && msc_placing_limit_reached(g->z))) return LIMIT;
    uint32_t gap;
    bool pinned;
    if (!place_pinned_boxes(g, &f)) return NONE;
    if (!measure_sections(g, &f, &gap)) return NONE;
    if (gap != UINT32_MAX) return solve_both_sides(g, &f, gap);
    stretch measured = f.changed;
    f.changed = (stretch){UINT32_MAX, 0};
    if (!pin_forced_boxes(g, &f, measured, &pinned)) return NONE;
    if (pinned || !f.n) continue;
    size_t i = choose_box(g, &f);
    if (f.u[i].rest == f.u[i].least) {
      verdict r = solve_with_pinned(g, &f, i);
      if (r != NONE) return r;
    }
    int64_t next = next_resting_offset(&f, i);
    if (next == INT64_MAX || next + f.u[i].size > g->limit) return NONE;
    raise_equal_boxes(&f, i, next);
  }
  return FOUND;
}

/* ---- restarts ---- */

static double draw_random(exact_searcher *g) {
  g->random ^= g->random << 13, g->random ^= g->random >> 7, g->random ^= g->random << 17;
  return (double)(g->random >> 11) / 9007199254740992.0;
}

static box box_of(const msc_placing *z, uint32_t i) {
  const msc_body *b = &z->body[i];
  return (box){i, b->from, b->to, b->fixed >= 0, b->height, b->fixed >= 0 ? b->fixed : 0, 0};
}

static verdict run_search(exact_searcher *g, int64_t limit, uint64_t node_limit) {
  g->limit = limit;
  g->node_limit = node_limit;
  g->nodes = 0;
  g->used = 0;
  frame f = new_frame(g, g->z->num);
  memcpy(f.u, g->start, f.n * sizeof *f.u);
  f.changed = (stretch){0, (uint32_t)g->z->num_sections};
  verdict r = solve_frame(g, f);
  g->z->nodes += g->nodes;
  if (r == FOUND) msc_placing_keep(g->z, g->offset);
  return r;
}

static void set_priorities(exact_searcher *g, uint64_t round) {
  static const int orders[] = {3, 4, 5, 2, 1, 6, 0};
  size_t n = sizeof orders / sizeof *orders;
  double noise = round < n ? 0 : 0.05 * (double)(1 + round / 10 % 10);
  msc_place_rank_bodies(g->z, orders[round % n], g->priority);
  for (size_t i = 0; i < g->z->num; i++) {
    g->priority[i] *= (1 + noise * (2 * draw_random(g) - 1)) * (round < n ? 1 : g->weight[i]);
    g->weight[i] = 1 + (g->weight[i] - 1) * 0.92;
  }
}

/* The node limit of a run: mostly short; now and then a longer one, growing without end, so that small problems are
 * solved completely. */
static uint64_t node_budget(uint64_t num, uint64_t round) {
  uint64_t nodes = 3 * num + 32;
  for (uint64_t r = round + 1; r % 64 == 0; r /= 64) nodes *= 8;
  return nodes;
}

/* The limit of a run: mostly the goal, which may be out of reach; in between heights nearer to the best plan. */
static int64_t choose_limit(const msc_placing *z, uint64_t round) {
  static const double part[] = {0, 0.5, 0, 0.875};
  return z->goal + (int64_t)((double)(z->height - 1 - z->goal) * part[round % 4]);
}

static void allocate_search(exact_searcher *g) {
  const msc_placing *z = g->z;
  size_t n = z->num;
  g->stack = msc_new_array(z->arena, box, n * (n + 7) / 2);
  g->start = msc_new_array(z->arena, box, n);
  for (uint32_t i = 0; i < n; i++) g->start[i] = box_of(z, i);
  for (uint32_t i = 0; i < n; i++) lift_above_pinned(&(frame){.u = g->start, .n = n}, i);
  g->section = msc_new_array(z->arena, section, z->num_sections);
  g->priority = msc_new_array(z->arena, double, n);
  g->weight = msc_new_array(z->arena, double, n);
  g->offset = msc_new_array(z->arena, int64_t, n);
  for (size_t i = 0; i < n; i++) g->weight[i] = 1;
}

void msc_place_exactly(msc_placing *z) {
  exact_searcher g = {.z = z, .random = 88172645463325252u};
  bool exact = true;
  int64_t lowest = z->bound; /* no plan is lower */
  for (size_t i = 0; i < z->num; i++) exact &= z->body[i].num_parts == 1;
  allocate_search(&g);
  for (uint64_t round = 0; !msc_placing_goal_reached(z) && !msc_placing_limit_reached(z); round++) {
    int64_t limit = z->options->capacity && round % 16 ? z->goal : choose_limit(z, round);
    set_priorities(&g, round);
    if (run_search(&g, limit, node_budget(z->num, round)) == NONE) z->goal = lowest = limit + 1;
  }
  /* a group may need less than the box that was searched here */
  z->proven |= exact && z->height <= lowest;
}
