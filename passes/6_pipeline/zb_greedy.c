/* zb_greedy.c: list schedules of F, B and W under a memory limit.  Always the F or B of all stages that can start first is placed;
 * W fill the gap before it, as many as fit, or as memory demands.  What is a matter of taste is a knob; a sweep tries them all. */
#include <string.h>

#include "passes/6_pipeline/zero_bubble.h"

typedef struct {
  bool forward_first;    /* F before B when both can start at once */
  double overrun;        /* one more W than fit, if it fills this part of its length at least */
  double overrun_worst;  /* the same where this stage would have the most idle time; 0: no difference */
  const int *warm_up;    /* F of every stage before its first B */
  int more;              /* and so many more in flight later */
} knobs;

/* A stage while it is being placed, and what it can do next. */
typedef struct {
  int placed[MSC_NUM_WORKS], length;
  int64_t free_at, first, idle, bytes;
  bool is_known;         /* the rest holds */
  msc_work work;
  int num_weight;        /* W that must come before it, for its bytes */
  int64_t start;         /* INT64_MAX: nothing can start */
} line;

typedef struct {
  zb_problem *z;
  const knobs *knob;
  zb_plan *p;
  line *line;
} greedy;

static int64_t *forward_end(greedy *g, int i, int j) { return &g->z->forward_end[(int64_t)i * g->z->micro_batches + j]; }
static int64_t *backward_end(greedy *g, int i, int j) { return &g->z->backward_end[(int64_t)i * g->z->micro_batches + j]; }

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* When F can start, after the W that make room for it; INT64_MAX: not now. */
static int64_t start_of_forward(greedy *g, int i, int *out_num_weight) {
  const line *l = &g->line[i];
  const msc_section_cost *c = &g->z->cost[i];
  int j = l->placed[MSC_FORWARD], left = l->placed[MSC_BACKWARD] - l->placed[MSC_WEIGHT];
  *out_num_weight = 0;
  if (j == g->z->micro_batches || j - l->placed[MSC_BACKWARD] >= g->knob->warm_up[i] + (l->placed[MSC_BACKWARD] ? g->knob->more : 0)) return INT64_MAX;
  if (i && g->line[i - 1].placed[MSC_FORWARD] <= j) return INT64_MAX;
  int64_t over = l->bytes + c->kept - g->z->limit[i];
  if (over > 0) {
    int64_t num = c->kept_for_weight > 0 ? (over + c->kept_for_weight - 1) / c->kept_for_weight : INT64_MAX;
    if (num > left) return INT64_MAX;
    *out_num_weight = (int)num;
  }
  return later(i ? *forward_end(g, i - 1, j) + c[-1].hop : 0, l->free_at + *out_num_weight * c->weight);
}

static int64_t start_of_backward(greedy *g, int i) {
  const line *l = &g->line[i];
  int j = l->placed[MSC_BACKWARD], last = g->z->stages - 1;
  if (l->placed[MSC_FORWARD] <= j || (i < last && g->line[i + 1].placed[MSC_BACKWARD] <= j)) return INT64_MAX;
  return later(i < last ? *backward_end(g, i + 1, j) + g->z->cost[i].hop : 0, l->free_at);
}

static void look(greedy *g, int i) {
  line *l = &g->line[i];
  if (l->is_known) return;
  int num_weight;
  int64_t forward = start_of_forward(g, i, &num_weight), backward = start_of_backward(g, i);
  bool is_forward = forward < backward || (forward == backward && g->knob->forward_first);
  l->is_known = true;
  l->work = is_forward ? MSC_FORWARD : MSC_BACKWARD;
  l->num_weight = is_forward ? num_weight : 0;
  l->start = is_forward ? forward : backward;
}

static void put(greedy *g, int i, msc_work w) {
  line *l = &g->line[i];
  const msc_section_cost *c = &g->z->cost[i];
  int64_t change[] = {c->kept, c->kept_for_weight - c->kept, -c->kept_for_weight}, length[] = {c->forward, c->backward, c->weight};
  zb_string(g->z, g->p, i)[l->length++] = (uint8_t)w;
  l->placed[w]++;
  l->bytes += change[w];
  l->free_at += length[w];
}

/* How many W to run before the next entry of this stage. */
static int weights_before(greedy *g, int i) {
  const line *l = &g->line[i];
  int64_t weight = g->z->cost[i].weight, gap = l->start - l->free_at, worst = 0;
  int left = l->placed[MSC_BACKWARD] - l->placed[MSC_WEIGHT];
  int num = weight > 0 && gap / weight < left ? (int)(gap / weight) : left;
  if (num < l->num_weight) num = l->num_weight;
  int64_t rest = gap - num * weight;
  if (l->first < 0 || num == left || rest <= 0) return num;
  double share = g->knob->overrun;
  for (int k = 0; k < g->z->stages; k++) worst = later(worst, g->line[k].idle);
  if (g->knob->overrun_worst > 0 && l->idle + rest >= worst) share = g->knob->overrun_worst;
  return num + ((double)rest >= share * (double)weight);
}

static void place(greedy *g, int i) {
  line *l = &g->line[i];
  for (int n = weights_before(g, i); n > 0; n--) put(g, i, MSC_WEIGHT);
  int64_t start = later(l->start, l->free_at);
  if (l->first < 0) l->first = start;
  else l->idle += start - l->free_at;
  l->free_at = start;
  int j = l->placed[l->work];
  put(g, i, l->work);
  *(l->work == MSC_FORWARD ? forward_end(g, i, j) : backward_end(g, i, j)) = l->free_at;
  l->is_known = false;
  if (i) g->line[i - 1].is_known = false;
  if (i < g->z->stages - 1) g->line[i + 1].is_known = false;
}

/* One list schedule; false when it gets stuck. */
static bool run_greedy(greedy *g) {
  zb_problem *z = g->z;
  memset(g->line, 0, sizeof *g->line * (size_t)z->stages);
  for (int i = 0; i < z->stages; i++) g->line[i].first = -1;
  z->budget -= (int64_t)z->stages * z->length;
  for (int64_t left = 2 * (int64_t)z->stages * z->micro_batches; left; left--) {
    int next = 0;
    for (int i = 0; i < z->stages; i++) {
      look(g, i);
      if (g->line[i].start < g->line[next].start) next = i;
    }
    if (g->line[next].start == INT64_MAX) return false;
    place(g, next);
  }
  g->p->makespan = 0;
  for (int i = 0; i < z->stages; i++) {
    line *l = &g->line[i];
    while (l->placed[MSC_WEIGHT] < z->micro_batches) put(g, i, MSC_WEIGHT);
    g->p->makespan = later(g->p->makespan, l->free_at - l->first);
  }
  return true;
}

/* ---- the sweep ---- */

enum { NUM_WARM_UPS = 20, NUM_MORE = 4, NUM_FILLS = 32, NUM_TESTED = 3 };

/* Different warm-ups: those that a makespan needs, from the bound on, and straight lines. */
static int find_warm_ups(const zb_problem *z, int *warm_up) {
  static const double slopes[] = {1, 1.25, 1.5, 1.75, 2, 2.5, 1e9};
  int num = 0, n = z->stages;
  int64_t step = z->cost[0].forward / 8 + 1;
  for (int k = 0; k < NUM_WARM_UPS; k++) {
    int *w = warm_up + num * n;
    bool is_new = true;
    if (k < 13) {
      if (!zb_warm_up(z, z->bound + k * step, w)) continue;
    } else {
      for (int i = 0; i < n; i++) {
        double most = slopes[k - 13] * (n - i);
        w[i] = most < z->micro_batches ? (int)most : z->micro_batches;
      }
    }
    for (int i = 0; i < num && is_new; i++) is_new = memcmp(w, warm_up + i * n, sizeof *w * (size_t)n);
    num += is_new;
  }
  return num;
}

/* How W fill gaps: the first three tell much about all. */
static void set_fill(knobs *k, int n) {
  static const double overruns[] = {0.01, 1.0, 0.5, 0.2, 0.8, 0.35, 0.65, 9}, worsts[] = {0, 0.01, 0.5, 9};
  k->overrun = overruns[n % 8];
  k->overrun_worst = worsts[n / 8];
}

typedef struct {
  knobs knob;
  int64_t makespan;
} trial;

/* Keeps the best trials, best first. */
static void keep(trial *kept, int *num, trial t) {
  int at = *num;
  while (at && kept[at - 1].makespan > t.makespan) at--;
  if (at == ZB_SEEDS) return;
  if (*num < ZB_SEEDS) ++*num;
  memmove(kept + at + 1, kept + at, sizeof t * (size_t)(*num - at - 1));
  kept[at] = t;
}

static int64_t attempt(greedy *g, zb_plan *best) {
  if (!run_greedy(g)) return INT64_MAX;
  if (g->p->makespan < best->makespan) zb_copy(g->z, best, g->p);
  return g->p->makespan;
}

void zb_sweep(zb_problem *z, msc_arena *scratch, zb_plan *best, zb_plan *p) {
  static const int more[] = {0, 1, 2, 1 << 20};
  int *warm_up = msc_new_array(scratch, int, NUM_WARM_UPS *z->stages), num_warm_ups = find_warm_ups(z, warm_up), num_kept = 0;
  trial kept[ZB_SEEDS];
  knobs k;
  greedy g = {z, &k, p, msc_new_array(scratch, line, z->stages)};
  for (int n = 0; n < num_warm_ups * NUM_MORE * 2; n++) {
    trial t = {.makespan = INT64_MAX};
    k = (knobs){.forward_first = n % 2, .warm_up = warm_up + n / 2 / NUM_MORE * z->stages, .more = more[n / 2 % NUM_MORE]};
    for (int fill = 0; fill < NUM_TESTED; fill++) {
      if (zb_is_over(z, best)) return;
      set_fill(&k, fill);
      int64_t makespan = attempt(&g, best);
      if (makespan < t.makespan) t = (trial){k, makespan};
    }
    keep(kept, &num_kept, t);
  }
  for (int n = 0; n < num_kept * (NUM_FILLS - NUM_TESTED); n++) {
    if (zb_is_over(z, best)) return;
    trial *t = &kept[n / (NUM_FILLS - NUM_TESTED)];
    k = t->knob;
    set_fill(&k, NUM_TESTED + n % (NUM_FILLS - NUM_TESTED));
    int64_t makespan = attempt(&g, best);
    if (makespan < t->makespan) *t = (trial){k, makespan};
  }
  for (int n = 0; n < num_kept; n++) {
    k = kept[n].knob;
    if (!run_greedy(&g)) continue;
    z->seed[z->num_seeds] = zb_new_plan(scratch, z);
    zb_copy(z, &z->seed[z->num_seeds++], p);
  }
}
