/* splice.c: two assignments in; the cheapest of all their splices within a limit out (see splice.h). */
#include "passes/3_shard/step_time_search/splice.h"

static int64_t entry_at(const shard_problem *p, const shard_table *t, int a, int b) {
  return t->cost[t->b < 0 ? (size_t)a : (size_t)a * (size_t)p->num_states[t->b] + (size_t)b];
}

/* Adds the costs of a table in the splices in which n variables have the first assignment's states: ns[n] gets the
 * difference from n - 1 to n. */
static void add_table(const shard_splice *s, const shard_table *t, int64_t *ns) {
  int b = t->b < 0 ? t->a : t->b;
  bool a_first = s->rank[t->a] <= s->rank[b];
  int low = s->rank[a_first ? t->a : b], high = s->rank[a_first ? b : t->a];
  int64_t none = entry_at(s->p, t, s->then[t->a], s->then[b]), both = entry_at(s->p, t, s->first[t->a], s->first[b]);
  int64_t one = a_first ? entry_at(s->p, t, s->first[t->a], s->then[b]) : entry_at(s->p, t, s->then[t->a], s->first[b]);
  if (t->b < 0) one = none;
  ns[0] += none;
  ns[low + 1] += one - none;
  ns[high + 1] += both - one;
}

int shard_best_splice(msc_arena *arena, const shard_splice *s, int64_t limit, int64_t *ns, int64_t *out_bytes) {
  int vars = s->p->num_vars, found = -1;
  int64_t *cost = msc_new_array(arena, int64_t, vars + 2), *bytes = msc_new_array(arena, int64_t, vars + 2);
  for (size_t i = 0; i < s->p->num_tables; i++) add_table(s, &s->p->table[i], cost);
  for (int v = 0; v < vars; v++) {
    bytes[0] += s->bytes[v][s->then[v]];
    bytes[s->rank[v] + 1] += s->bytes[v][s->first[v]] - s->bytes[v][s->then[v]];
  }
  for (int n = 0; n <= vars; n++) {
    if (n) cost[n] += cost[n - 1], bytes[n] += bytes[n - 1];
    if (cost[n] < *ns && bytes[n] <= limit) *ns = cost[n], *out_bytes = bytes[n], found = n;
  }
  return found;
}
