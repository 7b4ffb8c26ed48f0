/* zb_bound.c: a makespan that no order within the limits can beat.  A stage's work and what it must wait: for its first B, with
 * only F to run; for its last B, with only B and W to run; the bytes over time; and the way to a later stage and back, with what
 * that stage must do meanwhile. */
#include "passes/6_pipeline/zero_bubble.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t work_of(const zb_problem *z, int i) { return z->micro_batches * (z->cost[i].forward + z->cost[i].backward + z->cost[i].weight); }

/* From the start of a stage's F to that of its B of one micro-batch, without the F itself: down to the last stage and back. */
static int64_t gap_of(const zb_problem *z, int i) {
  int64_t gap = 0;
  for (int k = i + 1; k < z->stages; k++) gap += z->cost[k].forward + z->cost[k].backward + 2 * z->cost[k - 1].hop;
  return gap;
}

/* Micro-batches that can be forward at once. */
static int64_t most_in_flight(const zb_problem *z, int i) { return z->cost[i].kept > 0 ? least(z->micro_batches, z->limit[i] / z->cost[i].kept) : z->micro_batches; }

/* W that can be left when the last B ends: before it one micro-batch is in flight. */
static int64_t most_left(const zb_problem *z, int i) {
  int64_t bytes = z->cost[i].kept_for_weight;
  return bytes > 0 ? least(z->micro_batches, 1 + (z->limit[i] - z->cost[i].kept) / bytes) : z->micro_batches;
}

/* Idle before the first B: until then there are only F, as many as fit. */
static int64_t idle_before(const zb_problem *z, int i) { return most(0, gap_of(z, i) - (most_in_flight(z, i) - 1) * z->cost[i].forward); }

/* Idle between the last F and its B: n in flight and q W left when it starts make at most n - 1 B and n - 1 + q W. */
static int64_t idle_after(const zb_problem *z, int i) {
  const msc_section_cost *c = &z->cost[i];
  int64_t fill = 0, num = most_in_flight(z, i);
  for (int64_t n = 1; n <= num; n++) {
    int64_t left = c->kept_for_weight > 0 ? least(z->micro_batches - n, (z->limit[i] - n * c->kept) / c->kept_for_weight) : z->micro_batches - n;
    fill = most(fill, (n - 1) * (c->backward + c->weight) + left * c->weight);
  }
  return most(0, gap_of(z, i) - fill);
}

/* The two are apart when not all F fit before the first B. */
static int64_t idle_of(const zb_problem *z, int i) {
  int64_t before = idle_before(z, i), after = idle_after(z, i);
  return most_in_flight(z, i) < z->micro_batches ? before + after : most(before, after);
}

/* A stage's first B starts when it has run n F and waited: no longer than the makespan leaves it, nor before that B is done below.
 * The fewest F of every stage; false when memory has no room for them. */
bool zb_warm_up(const zb_problem *z, int64_t makespan, int *out_warm_up) {
  int64_t start = 0; /* of the first B, after the stage's own first F began */
  for (int i = z->stages - 1; i >= 0; i--) {
    const msc_section_cost *c = &z->cost[i];
    bool all = most_in_flight(z, i) == z->micro_batches;
    int64_t num = 1, wait = makespan - work_of(z, i) - (all ? 0 : idle_after(z, i));
    if (wait < 0) return false;
    if (i < z->stages - 1) start += c->forward + c[1].backward + 2 * c->hop;
    if (start > wait + c->forward) num = c->forward > 0 ? (start - wait + c->forward - 1) / c->forward : INT64_MAX;
    if (num > most_in_flight(z, i)) return false;
    start = most(start, num * c->forward);
    out_warm_up[i] = (int)num;
  }
  return true;
}

/* The least makespan that leaves room for the warm-up. */
static int64_t bound_by_warm_up(const zb_problem *z, int64_t low) {
  int warm_up[MSC_MAX_STAGES];
  if (zb_warm_up(z, low, warm_up)) return low;
  int64_t high = low + gap_of(z, 0) + 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (zb_warm_up(z, middle, warm_up)) high = middle;
    else low = middle;
  }
  return high;
}

/* Bytes times time that the micro-batches take at least. */
static int64_t bound_by_area(const zb_problem *z, int i) {
  const msc_section_cost *c = &z->cost[i];
  double area = (double)(c->forward + gap_of(z, i) + c->backward) * (double)c->kept + (double)c->weight * (double)c->kept_for_weight;
  return z->limit[i] > 0 ? (int64_t)(area * z->micro_batches / (double)z->limit[i] * (1 - 1e-12)) : 0;
}

/* Stage i starts, stage k starts when the first F has come to it, ends its last B, and that B goes back to i, which has one W left. */
static int64_t bound_pair(const zb_problem *z, int i, int k, int64_t way) {
  return way + work_of(z, k) + idle_of(z, k) - most_left(z, k) * z->cost[k].weight + z->cost[i].weight;
}

int64_t zb_bound(const zb_problem *z) {
  int64_t bound = 0;
  for (int i = 0; i < z->stages; i++) {
    bound = most(bound, most(work_of(z, i) + idle_of(z, i), bound_by_area(z, i)));
    int64_t way = 0;
    for (int k = i + 1; k < z->stages; k++) {
      way += z->cost[k - 1].forward + z->cost[k - 1].backward + 2 * z->cost[k - 1].hop;
      bound = most(bound, bound_pair(z, i, k, way));
    }
  }
  return bound_by_warm_up(z, bound);
}
