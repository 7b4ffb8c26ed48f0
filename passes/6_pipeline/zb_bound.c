/* zb_bound.c: a makespan that no order within the limits can beat.  Per stage: its work; the gap between the first F and its B,
 * which only other F can fill; the bytes over time; and the way to a later stage and back, with what that stage must do meanwhile. */
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

static int64_t bound_alone(const zb_problem *z, int i) {
  const msc_section_cost *c = &z->cost[i];
  int64_t gap = gap_of(z, i), idle = most(0, gap - (most_in_flight(z, i) - 1) * c->forward);
  double area = (double)z->micro_batches * ((double)(c->forward + gap + c->backward) * (double)c->kept + (double)c->weight * (double)c->kept_for_weight);
  return most(work_of(z, i) + idle, z->limit[i] > 0 ? (int64_t)(area / (double)z->limit[i] * (1 - 1e-12)) : 0);
}

/* Stage i starts, stage k starts when the first F has come to it, ends its last B, and that B goes back to i, which has one W left. */
static int64_t bound_pair(const zb_problem *z, int i, int k, int64_t way) {
  return way + work_of(z, k) - most_left(z, k) * z->cost[k].weight + z->cost[i].weight;
}

int64_t zb_bound(const zb_problem *z) {
  int64_t bound = 0;
  for (int i = 0; i < z->stages; i++) {
    bound = most(bound, bound_alone(z, i));
    int64_t way = 0;
    for (int k = i + 1; k < z->stages; k++) {
      way += z->cost[k - 1].forward + z->cost[k - 1].backward + 2 * z->cost[k - 1].hop;
      bound = most(bound, bound_pair(z, i, k, way));
    }
  }
  return bound;
}
