/* balance.c: cuts layers into runs, one per virtual stage, for the least step time within the memory of the stages.
 *
 * One chunk per stage: for a cap on the stage time, a dynamic program over (stage, layer) finds the runs with the least
 * time for borders; a sliding window makes it linear in both. As the cap rises, the border time falls in steps while
 * the cap itself costs more: between two caps with the same border time only the lower one counts, so ranges of caps
 * are halved until none can hold anything better.
 *
 * Several chunks couple runs that are far apart. If there are few ways to cut, all are tried; otherwise the program
 * gives runs that are about equal, and borders are moved, one or several together, while that helps. */
#include "passes/6_pipeline/balance.h"

#include <string.h>

/* How good a set of cuts is, most important first. */
typedef struct {
  int64_t over;   /* bytes by which the worst stage exceeds its limit */
  int64_t total;  /* step time, times chunks */
  double squares; /* sum of the squares of the stage times: of equal totals the more even is better */
} worth;

typedef struct {
  const msc_balance_options *o;
  int num; /* virtual stages */
  int *place;
  int64_t *time, *fixed, *kept; /* by i: of layers 0 .. i - 1 together */
  int64_t more;                 /* bytes added to every limit */
  int caps_left;                /* with several chunks caps are heuristic: only so many are tried */
  /* the dynamic program, by layer: least border time of cuts up to it; INT64_MAX: impossible */
  int64_t *cost, *next_cost;
  int *from;   /* by virtual stage and last layer: its first layer; -1: impossible */
  int *window; /* candidates for the first layer, cheapest first */
  int64_t *stage_time, *stage_fixed, *stage_kept;
  /* first layer of every virtual stage, and the end: the cuts being tried, and the best */
  int *cut, *best;
  worth best_worth;
} balancer;

enum { FEW_WAYS = 100000, MAX_SWEEPS = 30, MAX_CAPS = 200 };

static bool is_better_worth(worth a, worth b) {
  if (a.over != b.over) return a.over < b.over;
  return a.total != b.total ? a.total < b.total : a.squares < b.squares;
}

static int64_t stage_bytes(const balancer *b, int stage, int64_t fixed, int64_t kept) {
  return fixed + (b->o->in_flight ? b->o->in_flight[stage] * kept : 0);
}

static int64_t over_limit(const balancer *b, int stage, int64_t bytes) {
  return b->o->limit ? msc_max(0, bytes - b->o->limit[stage] - b->more) : 0;
}

static int64_t step_time(const balancer *b, int64_t borders, int64_t longest) {
  return b->time[b->o->num_layers] + borders + ((int64_t)b->o->chunks * b->o->micro_batches - 1) * longest;
}

/* ---- evaluating cuts ---- */

static worth evaluate_cuts(balancer *b, const int *cut) {
  worth w = {0};
  int64_t borders = 0, longest = 0;
  size_t bytes = sizeof(int64_t) * (size_t)b->o->stages;
  memset(b->stage_time, 0, bytes), memset(b->stage_fixed, 0, bytes), memset(b->stage_kept, 0, bytes);
  for (int k = 0; k < b->num; k++) {
    int i = b->place[k], first = cut[k], end = cut[k + 1];
    b->stage_time[i] += b->time[end] - b->time[first];
    b->stage_fixed[i] += b->fixed[end] - b->fixed[first];
    b->stage_kept[i] = msc_max(b->stage_kept[i], b->kept[end] - b->kept[first]);
    if (k) borders += b->o->layer[first - 1].border;
  }
  for (int i = 0; i < b->o->stages; i++) {
    longest = msc_max(longest, b->stage_time[i]);
    w.over = msc_max(w.over, over_limit(b, i, stage_bytes(b, i, b->stage_fixed[i], b->stage_kept[i])));
    w.squares += (double)b->stage_time[i] * (double)b->stage_time[i];
  }
  w.total = step_time(b, borders, longest);
  return w;
}

static bool keep_if_better_cuts(balancer *b, const int *cut) {
  worth w = evaluate_cuts(b, cut);
  if (b->best_worth.total >= 0 && !is_better_worth(w, b->best_worth)) return false;
  b->best_worth = w;
  memmove(b->best, cut, sizeof *cut * (size_t)(b->num + 1));
  return true;
}

/* ---- one cap ---- */

static bool run_fits(const balancer *b, int k, int first, int end, int64_t cap) {
  int64_t bytes =
      stage_bytes(b, b->place[k], (b->fixed[end] - b->fixed[first]) * b->o->chunks, b->kept[end] - b->kept[first]);
  return b->time[end] - b->time[first] <= cap && !over_limit(b, b->place[k], bytes);
}

/* The least border time with no virtual stage longer than the cap; b->from has the cuts. INT64_MAX: impossible. */
static int64_t least_borders(balancer *b, int64_t cap) {
  int n = b->o->num_layers;
  for (int i = 0; i <= n; i++) b->cost[i] = i ? INT64_MAX : 0;
  for (int k = 0; k < b->num; k++) {
    int low = 0, head = 0, tail = 0; /* first layers below `low` are too far away; b->window holds head .. tail - 1 */
    b->next_cost[0] = INT64_MAX;
    for (int last = 0; last < n; last++) {
      if (b->cost[last] < INT64_MAX) {
        while (tail > head && b->cost[b->window[tail - 1]] > b->cost[last]) tail--;
        b->window[tail++] = last;
      }
      while (low <= last && !run_fits(b, k, low, last + 1, cap)) low++;
      while (head < tail && b->window[head] < low) head++;
      int first = head < tail ? b->window[head] : -1;
      b->from[(int64_t)k * n + last] = first;
      b->next_cost[last + 1] = first < 0 ? INT64_MAX : b->cost[first] + (last + 1 < n ? b->o->layer[last].border : 0);
    }
    int64_t *swap = b->cost;
    b->cost = b->next_cost, b->next_cost = swap;
  }
  return b->cost[n];
}

/* Finds the least border time for a cap and records its cuts. */
static int64_t try_cap(balancer *b, int64_t cap) {
  int64_t borders = least_borders(b, cap);
  if (borders == INT64_MAX) return borders;
  b->cut[b->num] = b->o->num_layers;
  for (int k = b->num - 1; k >= 0; k--) b->cut[k] = b->from[(int64_t)k * b->o->num_layers + b->cut[k + 1] - 1];
  keep_if_better_cuts(b, b->cut);
  return borders;
}

/* ---- all caps ---- */

/* Searches the caps in (low, high], whose border times lie between those of low and high. */
static void search_caps(balancer *b, int64_t low, int64_t low_borders, int64_t high, int64_t high_borders) {
  if (low_borders == high_borders || high - low <= 1 || step_time(b, high_borders, low + 1) >= b->best_worth.total)
    return;
  if (b->o->chunks > 1 && b->caps_left-- <= 0) return;
  int64_t middle = low + (high - low) / 2, borders = try_cap(b, middle);
  search_caps(b, low, low_borders, middle, borders);
  search_caps(b, middle, borders, high, high_borders);
}

/* The smallest cap in (low, high] for which there are cuts. */
static int64_t smallest_cap(balancer *b, int64_t low, int64_t high) {
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (least_borders(b, middle) < INT64_MAX) high = middle;
    else low = middle;
  }
  return high;
}

static bool search_all_caps(balancer *b) {
  int64_t high = b->time[b->o->num_layers], high_borders = try_cap(b, high);
  if (high_borders == INT64_MAX) return false;
  int64_t low = smallest_cap(b, -1, high);
  search_caps(b, low, try_cap(b, low), high, high_borders);
  return true;
}

/* ---- several chunks ---- */

/* The number of ways to cut n layers into num runs, at most FEW_WAYS + 1. */
static int64_t count_ways(int n, int num) {
  int64_t w = 1;
  for (int i = 1; i < num && w <= FEW_WAYS; i++) w = w * (n - i) / i;
  return w;
}

static void try_all_cuts(balancer *b, int k) {
  if (k == b->num) {
    keep_if_better_cuts(b, b->cut);
    return;
  }
  for (b->cut[k] = b->cut[k - 1] + 1; b->cut[k] <= b->o->num_layers - (b->num - k); b->cut[k]++) try_all_cuts(b, k + 1);
}

/* Moves cuts low .. high by `by`; false if a run would be empty, or if it does not help. */
static bool try_shift(balancer *b, int low, int high, int by) {
  int *cut = b->cut;
  memcpy(cut, b->best, sizeof *cut * (size_t)(b->num + 1));
  for (int k = low; k <= high; k++) cut[k] += by;
  return cut[low] > cut[low - 1] && cut[high] < cut[high + 1] && keep_if_better_cuts(b, cut);
}

static bool try_all_shifts(balancer *b) {
  static const int by[] = {1, -1, 2, -2, 5, -5};
  bool helped = false;
  for (int low = 1; low < b->num; low++)
    for (int high = low; high < b->num; high++)
      for (size_t n = 0; n < sizeof by / sizeof *by; n++) helped = try_shift(b, low, high, by[n]) || helped;
  return helped;
}

/* Cuts into runs with numbers of layers as equal as possible. */
static void cut_evenly(balancer *b) {
  for (int k = 0; k <= b->num; k++) b->cut[k] = (int)((int64_t)k * b->o->num_layers / b->num);
  keep_if_better_cuts(b, b->cut);
}

static bool search_chunks(balancer *b, bool *out_is_least) {
  *out_is_least = count_ways(b->o->num_layers, b->num) <= FEW_WAYS;
  b->cut[0] = 0, b->cut[b->num] = b->o->num_layers;
  if (*out_is_least) {
    try_all_cuts(b, 1);
    return !b->best_worth.over;
  }
  cut_evenly(b);
  b->caps_left = MAX_CAPS;
  search_all_caps(b);
  for (int n = 0; n < MAX_SWEEPS && try_all_shifts(b); n++) continue;
  return !b->best_worth.over;
}

/* ---- the whole problem ---- */

static void allocate_balancer(balancer *b, msc_context *ctx, msc_arena *scratch) {
  const msc_balance_options *o = b->o;
  int n = o->num_layers;
  b->num = o->stages * o->chunks;
  b->best_worth.total = -1;
  b->place = msc_new_array(scratch, int, b->num);
  for (int k = 0; k < b->num; k++) b->place[k] = o->place ? o->place[k] : k % o->stages;
  int64_t **sums[] = {&b->time, &b->fixed, &b->kept, &b->cost, &b->next_cost},
          **stages[] = {&b->stage_time, &b->stage_fixed, &b->stage_kept};
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sums[i] = msc_new_array(scratch, int64_t, n + 1);
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) *stages[i] = msc_new_array(scratch, int64_t, o->stages);
  for (int i = 0; i < n; i++) {
    b->time[i + 1] = b->time[i] + o->layer[i].time;
    b->fixed[i + 1] = b->fixed[i] + o->layer[i].fixed;
    b->kept[i + 1] = b->kept[i] + o->layer[i].kept;
  }
  b->from = msc_new_array(scratch, int, (int64_t)b->num *n);
  b->window = msc_new_array(scratch, int, n);
  b->cut = msc_new_array(scratch, int, b->num + 1);
  b->best = msc_new_array(msc_context_arena(ctx), int, b->num + 1);
}

/* The bytes by which every limit would have to rise for anything to fit. */
static int64_t missing_bytes(balancer *b) {
  if (b->o->chunks > 1) return b->best_worth.over;
  int64_t low = 0, high = 1;
  for (b->more = high; least_borders(b, INT64_MAX) == INT64_MAX; b->more = high) low = high, high *= 2;
  while (high - low > 1) {
    b->more = low + (high - low) / 2;
    if (least_borders(b, INT64_MAX) < INT64_MAX) high = b->more;
    else low = b->more;
  }
  return high;
}

static bool find_cuts(balancer *b, msc_context *ctx, const msc_loc *loc, msc_balance *out) {
  const msc_balance_options *o = b->o;
  bool is_least = true;
  if (!(o->chunks > 1 ? search_chunks(b, &is_least) : search_all_caps(b)))
    return msc_error(ctx, MSC_E_INFEASIBLE, loc,
                     "%d layers on %d stages do not fit: every stage needs %" PRId64 " bytes more", o->num_layers,
                     o->stages, missing_bytes(b));
  evaluate_cuts(b, b->best);
  *out =
      (msc_balance){.first = b->best, .total = (b->best_worth.total + o->chunks - 1) / o->chunks, .is_least = is_least};
  out->time = msc_arena_copy(msc_context_arena(ctx), b->stage_time, sizeof(int64_t) * (size_t)o->stages);
  return true;
}

bool msc_balance_make(msc_context *ctx, const msc_loc *loc, const msc_balance_options *o, msc_balance *out_balance) {
  if (o->num_layers / o->stages < o->chunks)
    return msc_error(ctx, MSC_E_CONFIG, loc, "%d layers cannot be cut into %d stages of %d chunks", o->num_layers,
                     o->stages, o->chunks);
  msc_arena *scratch = msc_arena_new(ctx);
  balancer b = {.o = o};
  allocate_balancer(&b, ctx, scratch);
  bool ok = find_cuts(&b, ctx, loc, out_balance);
  msc_arena_free(scratch);
  return ok;
}
