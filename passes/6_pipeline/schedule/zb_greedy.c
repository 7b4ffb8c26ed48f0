/* zb_greedy.c: list scheduling of F, B and W under a memory limit, with one chunk per stage or with two in a V. It
 * always places the F or B, of all stages, that can start first; W fill the gap before it, as many as fit, or as
 * memory demands. Open choices are knobs, and a sweep tries them all. */
#include <string.h>

#include "passes/6_pipeline/schedule/zero_bubble.h"

typedef struct {
  bool forward_first;   /* F before B when both can start at once */
  double overrun;       /* places one more W than fits if the gap is at least this part of its length */
  double overrun_worst; /* overrun for a stage that would have the most idle time; 0: `overrun` */
  const int *warm_up;   /* by stage: number of F before its first B */
  int more;             /* micro-batches in flight beyond that later on */
} knobs;

/* A stage while it is being filled, and the work that it can do next. */
typedef struct {
  int placed[ZB_CHUNKS][MSC_NUM_WORKS], length;
  int64_t free_at, first, idle, bytes;
  bool is_known; /* the following fields are valid */
  msc_work work;
  int chunk;
  int num_weight; /* number of W that must run before it to free memory */
  int64_t start;  /* INT64_MAX: nothing can start */
} line;

typedef struct {
  zb_problem *z;
  const knobs *knob;
  zb_plan *p;
  line *line;
  /* a tournament tree over the stages: which of those below a node can start first; the leaves begin at num_leaves */
  int *first;
  int num_leaves;
} greedy;

static int64_t *forward_end(greedy *g, int k, int j) {
  return &g->z->forward_end[(int64_t)k * g->z->micro_batches + j];
}
static int64_t *backward_end(greedy *g, int k, int j) {
  return &g->z->backward_end[(int64_t)k * g->z->micro_batches + j];
}

/* The stage of virtual stage k: down the stages, then up again. */
static int stage_of_virtual(const zb_problem *z, int k) { return k < z->stages ? k : 2 * z->stages - 1 - k; }
static int virtual_stage(const zb_problem *z, int stage, int chunk) {
  return chunk ? 2 * z->stages - 1 - stage : stage;
}

static int num_placed(const greedy *g, int k, msc_work w) {
  return g->line[stage_of_virtual(g->z, k)].placed[k >= g->z->stages][w];
}

static int64_t hop_between(const zb_problem *z, int k) {
  return stage_of_virtual(z, k) == stage_of_virtual(z, k + 1) ? 0 : z->cost[k].hop;
}

/* ---- W ---- */

/* By chunk: W that could run now. */
typedef struct {
  int left[ZB_CHUNKS];
} pending;

static pending pending_of(const line *l) {
  pending p;
  for (int c = 0; c < ZB_CHUNKS; c++) p.left[c] = l->placed[c][MSC_BACKWARD] - l->placed[c][MSC_WEIGHT];
  return p;
}

/* Takes the next W, from the chunk that has most; returns its virtual stage, or -1. */
static int take_next_weight(const zb_problem *z, int stage, pending *p) {
  int c = p->left[1] > p->left[0];
  if (!p->left[c]) return -1;
  p->left[c]--;
  return virtual_stage(z, stage, c);
}

/* The number of W that free so many bytes, and their time; -1: there are not enough. */
static int num_weights_for_bytes(greedy *g, int i, int64_t bytes, int64_t *out_length) {
  pending p = pending_of(&g->line[i]);
  int num = 0;
  for (*out_length = 0; bytes > 0; num++) {
    int k = take_next_weight(g->z, i, &p);
    if (k < 0) return -1;
    bytes -= g->z->cost[k].kept_for_weight;
    *out_length += g->z->cost[k].weight;
  }
  return num;
}

/* The number of W to run before the next entry of this stage. */
static int num_weights_before(greedy *g, int i) {
  const line *l = &g->line[i];
  pending p = pending_of(l);
  int num = 0, k;
  int64_t at = l->free_at, worst = 0;
  for (; (k = take_next_weight(g->z, i, &p)) >= 0 && (num < l->num_weight || at + g->z->cost[k].weight <= l->start);
       num++)
    at += g->z->cost[k].weight;
  if (l->first < 0 || k < 0 || l->start <= at) return num;
  double share = g->knob->overrun;
  for (int n = 0; g->knob->overrun_worst > 0 && n < g->z->stages; n++) worst = msc_max(worst, g->line[n].idle);
  if (g->knob->overrun_worst > 0 && l->idle + l->start - at >= worst) share = g->knob->overrun_worst;
  return num + ((double)(l->start - at) >= share * (double)g->z->cost[k].weight);
}

/* ---- F and B ---- */

/* When F can start, after the W that free memory for it; INT64_MAX: not now. F of the way down leaves room for one
 * of the way up, so that the oldest micro-batch can always go on. */
static int64_t start_of_forward(greedy *g, int i, int chunk, int *out_num_weight) {
  const line *l = &g->line[i];
  const zb_problem *z = g->z;
  int k = virtual_stage(z, i, chunk), j = l->placed[chunk][MSC_FORWARD], back = l->placed[chunk][MSC_BACKWARD];
  int64_t length, room = z->cost[k].kept + (z->chunks > 1 && !chunk ? z->cost[virtual_stage(z, i, 1)].kept : 0);
  if (j == z->micro_batches || (k && num_placed(g, k - 1, MSC_FORWARD) <= j)) return INT64_MAX;
  if (!chunk && j - back >= g->knob->warm_up[i] + (back ? g->knob->more : 0)) return INT64_MAX;
  *out_num_weight = num_weights_for_bytes(g, i, l->bytes + room - z->limit[i], &length);
  if (*out_num_weight < 0) return INT64_MAX;
  return msc_max(k ? *forward_end(g, k - 1, j) + hop_between(z, k - 1) : 0, l->free_at + length);
}

static int64_t start_of_backward(greedy *g, int i, int chunk) {
  const line *l = &g->line[i];
  int k = virtual_stage(g->z, i, chunk), j = l->placed[chunk][MSC_BACKWARD], last = g->z->stages * g->z->chunks - 1;
  if (l->placed[chunk][MSC_FORWARD] <= j || (k < last && num_placed(g, k + 1, MSC_BACKWARD) <= j)) return INT64_MAX;
  return msc_max(k < last ? *backward_end(g, k + 1, j) + hop_between(g->z, k) : 0, l->free_at);
}

/* Finds the next work of a stage: the first that can start; of equal ones that which is nearer to the end of its
 * micro-batch. Updates the tree. */
static void update_next_work(greedy *g, int i) {
  line *l = &g->line[i];
  l->start = INT64_MAX;
  for (int n = 0; n < 2 * g->z->chunks; n++) {
    bool is_forward = (n < g->z->chunks) == g->knob->forward_first;
    int chunk = is_forward ? g->z->chunks - 1 - n % g->z->chunks : n % g->z->chunks, num_weight = 0;
    int64_t start = is_forward ? start_of_forward(g, i, chunk, &num_weight) : start_of_backward(g, i, chunk);
    if (start >= l->start) continue;
    l->work = is_forward ? MSC_FORWARD : MSC_BACKWARD;
    l->chunk = chunk, l->num_weight = num_weight, l->start = start;
  }
  for (int at = (g->num_leaves + i) / 2; at; at /= 2) {
    int a = g->first[2 * at], b = g->first[2 * at + 1];
    g->first[at] = b < g->z->stages && g->line[b].start < g->line[a].start ? b : a;
  }
}

static void append_work(greedy *g, int i, msc_work w, int chunk) {
  line *l = &g->line[i];
  const msc_section_cost *c = &g->z->cost[virtual_stage(g->z, i, chunk)];
  int64_t change[] = {c->kept, c->kept_for_weight - c->kept, -c->kept_for_weight},
          length[] = {c->forward, c->backward, c->weight};
  zb_string(g->z, g->p, i)[l->length++] = (uint8_t)((int)w + chunk * MSC_NUM_WORKS);
  l->placed[chunk][w]++;
  l->bytes += change[w];
  l->free_at += length[w];
}

static void append_weights(greedy *g, int i, int num) {
  pending p = pending_of(&g->line[i]);
  for (int k; num && (k = take_next_weight(g->z, i, &p)) >= 0; num--) append_work(g, i, MSC_WEIGHT, k >= g->z->stages);
}

static void place_next_work(greedy *g, int i) {
  line *l = &g->line[i];
  append_weights(g, i, num_weights_before(g, i));
  int64_t start = msc_max(l->start, l->free_at);
  if (l->first < 0) l->first = start;
  else l->idle += start - l->free_at;
  l->free_at = start;
  int j = l->placed[l->chunk][l->work], k = virtual_stage(g->z, i, l->chunk);
  msc_work work = l->work;
  append_work(g, i, work, l->chunk);
  *(work == MSC_FORWARD ? forward_end(g, k, j) : backward_end(g, k, j)) = l->free_at;
  for (int n = i ? i - 1 : 0; n <= i + 1 && n < g->z->stages; n++) update_next_work(g, n);
}

/* Makes one list schedule; false if it gets stuck or the search is over. */
static bool run_greedy(greedy *g, const zb_plan *best) {
  zb_problem *z = g->z;
  int64_t num = 2 * (int64_t)z->stages * z->chunks * z->micro_batches;
  memset(g->line, 0, sizeof *g->line * (size_t)z->stages);
  for (int i = 0; i < z->stages; i++) g->line[i].first = -1, g->line[i].start = INT64_MAX;
  for (int i = 0; i < z->stages; i++) update_next_work(g, i);
  z->budget -= (int64_t)z->stages * z->length;
  for (int64_t n = 0; n < num; n++) {
    if (g->line[g->first[1]].start == INT64_MAX || (n % 65536 == 65535 && zb_is_over(z, best))) return false;
    place_next_work(g, g->first[1]);
  }
  g->p->makespan = 0;
  for (int i = 0; i < z->stages; i++) {
    line *l = &g->line[i];
    append_weights(g, i, z->length);
    g->p->makespan = msc_max(g->p->makespan, l->free_at - l->first);
  }
  return true;
}

static greedy new_greedy(zb_problem *z, msc_arena *scratch, const knobs *k, zb_plan *p) {
  greedy g = {.z = z, .knob = k, .p = p, .line = msc_new_array(scratch, line, z->stages), .num_leaves = 2};
  while (g.num_leaves < z->stages) g.num_leaves *= 2;
  g.first = msc_new_array(scratch, int, 2 * g.num_leaves);
  for (int i = 0; i < g.num_leaves; i++) g.first[g.num_leaves + i] = i;
  for (int at = g.num_leaves - 1; at; at--) g.first[at] = g.first[2 * at];
  return g;
}

/* ---- the sweep ---- */

enum { NUM_WARM_UPS = 20, NUM_MORE = 4, NUM_FILLS = 32, NUM_TESTED = 3 };

/* Lists different warm-ups: those that makespans from the bound on need, and straight lines. */
static int find_warm_ups(const zb_problem *z, int *warm_up) {
  static const double slopes[] = {1, 1.25, 1.5, 1.75, 2, 2.5, 1e9};
  int num = 0, n = z->stages;
  int64_t step = z->cost[0].forward / 8 + 1;
  for (int k = 0; k < NUM_WARM_UPS; k++) {
    int *w = warm_up + num * n;
    bool is_new = true;
    if (k < 13) {
      if (z->chunks > 1 || !zb_warm_up(z, z->bound + k * step, w)) continue;
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

/* Sets how W fill gaps; the first three settings are a good sample of all. */
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
static void keep_trial(trial *kept, int *num, trial t) {
  int at = *num;
  while (at && kept[at - 1].makespan > t.makespan) at--;
  if (at == ZB_SEEDS) return;
  if (*num < ZB_SEEDS) ++*num;
  memmove(kept + at + 1, kept + at, sizeof t * (size_t)(*num - at - 1));
  kept[at] = t;
}

static int64_t try_knobs(greedy *g, zb_plan *best) {
  if (!run_greedy(g, best)) return INT64_MAX;
  if (g->p->makespan < best->makespan) zb_copy(g->z, best, g->p);
  return g->p->makespan;
}

void zb_sweep(zb_problem *z, msc_arena *scratch, zb_plan *best, zb_plan *p) {
  static const int more[] = {0, 1, 2, 1 << 20};
  int *warm_up = msc_new_array(scratch, int, NUM_WARM_UPS * z->stages), num_warm_ups = find_warm_ups(z, warm_up),
      num_kept = 0;
  trial kept[ZB_SEEDS];
  knobs k;
  greedy g = new_greedy(z, scratch, &k, p);
  for (int n = 0; n < num_warm_ups * NUM_MORE * 2; n++) {
    trial t = {.makespan = INT64_MAX};
    k = (knobs){
        .forward_first = n % 2, .warm_up = warm_up + n / 2 / NUM_MORE * z->stages, .more = more[n / 2 % NUM_MORE]};
    for (int fill = 0; fill < NUM_TESTED; fill++) {
      if (zb_is_over(z, best)) return;
      set_fill(&k, fill);
      int64_t makespan = try_knobs(&g, best);
      if (makespan < t.makespan) t = (trial){k, makespan};
    }
    keep_trial(kept, &num_kept, t);
  }
  for (int n = 0; n < num_kept * (NUM_FILLS - NUM_TESTED); n++) {
    if (zb_is_over(z, best)) return;
    trial *t = &kept[n / (NUM_FILLS - NUM_TESTED)];
    k = t->knob;
    set_fill(&k, NUM_TESTED + n % (NUM_FILLS - NUM_TESTED));
    int64_t makespan = try_knobs(&g, best);
    if (makespan < t->makespan) *t = (trial){k, makespan};
  }
  for (int n = 0; n < num_kept; n++) {
    k = kept[n].knob;
    if (!run_greedy(&g, best)) continue;
    z->seed[z->num_seeds] = zb_new_plan(scratch, z);
    zb_copy(z, &z->seed[z->num_seeds++], p);
  }
}
