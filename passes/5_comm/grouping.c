/* grouping.c: splits values in ready order into runs of neighbours, each sent as one bucket (see grouping.h). */
#include "passes/5_comm/grouping.h"

size_t comm_group_by_bytes(size_t num, const comm_item *item, size_t num_caps, const int64_t *cap, size_t *out_end) {
  size_t groups = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < num; i++) {
    bytes += item[i].bytes;
    if (bytes < cap[groups < num_caps ? groups : num_caps - 1] && i + 1 < num) continue;
    out_end[groups++] = i + 1;
    bytes = 0;
  }
  return groups;
}

size_t comm_group_by_index(size_t num, const size_t *number, size_t num_cuts, const int64_t *cut, size_t *out_end) {
  size_t groups = 0, k = 0;
  for (size_t i = 0; i < num; i++) {
    while (k < num_cuts && (size_t)cut[k] <= number[i]) k++;
    bool last = i + 1 == num || (k < num_cuts && (size_t)cut[k] <= number[i + 1]);
    if (last) out_end[groups++] = i + 1;
  }
  return groups;
}

/* ---- the optimum ----
 * f(j) is the earliest time by which the first j values are sent: the minimum over the start i of the last group of
 * max(f(i), ready(j)) + cost(i, j). f never falls, so of the starts for which the link is idle (f(i) <= ready(j)) the
 * last one is best; of the others, the one with the least f(i) - ns_per_byte * bytes(0, i). That is a minimum over a
 * window whose ends only advance: a queue of candidates in rising order. */

typedef struct {
  size_t num;
  const comm_link *link;
  double *ready, *sent, *f; /* by number of values j: ready time of value j; time to send the first j; f(j) */
} optimum;

static double group_end_time(const optimum *z, size_t i, size_t j) {
  double begin = z->f[i] > z->ready[j] ? z->f[i] : z->ready[j];
  return begin + z->link->start_ns + (z->sent[j] - z->sent[i]);
}

static void find_earliest(optimum *z, size_t *queue) {
  size_t idle = 0, head = 0, tail = 0;
  for (size_t j = 1; j <= z->num; j++) {
    while (idle + 1 < j && z->f[idle + 1] <= z->ready[j]) idle++;
    double key = z->f[j - 1] - z->sent[j - 1];
    while (tail > head && z->f[queue[tail - 1]] - z->sent[queue[tail - 1]] > key) tail--;
    queue[tail++] = j - 1;
    while (head < tail && queue[head] <= idle) head++;
    z->f[j] = group_end_time(z, idle, j);
    if (head < tail && group_end_time(z, queue[head], j) < z->f[j]) z->f[j] = group_end_time(z, queue[head], j);
  }
}

/* The first value of the largest group that ends with value j by the deadline. */
static size_t first_of_largest_group(const optimum *z, size_t j, double deadline) {
  size_t first = j - 1;
  for (size_t i = j; i-- > 0 && z->ready[j] + z->link->start_ns + (z->sent[j] - z->sent[i]) <= deadline;)
    if (group_end_time(z, i, j) <= deadline) first = i;
  return first;
}

size_t comm_group_optimal(msc_arena *arena, size_t num, const comm_item *item, const comm_link *link, size_t *out_end) {
  optimum z = {.num = num,
               .link = link,
               .ready = msc_new_array(arena, double, num + 1),
               .sent = msc_new_array(arena, double, num + 1),
               .f = msc_new_array(arena, double, num + 1)};
  size_t groups = 0;
  for (size_t j = 1; j <= num; j++) {
    double ready = (double)item[j - 1].ready_ns;
    z.ready[j] = ready > z.ready[j - 1] ? ready : z.ready[j - 1];
    z.sent[j] = z.sent[j - 1] + link->ns_per_byte * (double)item[j - 1].bytes;
  }
  find_earliest(&z, msc_new_array(arena, size_t, num + 1));
  double deadline = z.f[num] * (1 + 1e-12); /* a margin for rounding */
  for (size_t j = num; j > 0;) {
    size_t i = first_of_largest_group(&z, j, deadline);
    out_end[groups++] = j;
    deadline -= link->start_ns + (z.sent[j] - z.sent[i]);
    j = i;
  }
  for (size_t a = 0, b = groups; a + 1 < b; a++) { /* groups were found from the last to the first */
    size_t end = out_end[--b];
    out_end[b] = out_end[a];
    out_end[a] = end;
  }
  return groups;
}
