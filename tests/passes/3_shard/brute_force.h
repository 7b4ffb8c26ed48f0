/* brute_force.h: checks plans of the redistribution planner without its search: states are all layouts of a small
 * mesh, an edge exists where the layout check allows the verb, bytes are counted from the pull lists of all ranks,
 * and plans are executed on numbers. One mesh and one context at a time. */
#ifndef MSC_TESTS_BRUTE_FORCE_H
#define MSC_TESTS_BRUTE_FORCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/3_shard/reshard/reshard.h"

#define MAX_STATES 540
#define MAX_RANKS 16
#define MAX_ELEMS 4096

static msc_context *ctx;
static msc_arena *arena;
static msc_mesh mesh;

static inline int open_context(void **state) {
  (void)state;
  ctx = msc_context_new(NULL, NULL);
  arena = msc_context_arena(ctx);
  return 0;
}

static inline int close_context(void **state) {
  (void)state;
  msc_context_free(ctx);
  return 0;
}

static uint64_t seed = 3;
static inline int roll(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static inline void set_mesh(const char *text) { assert_true(msc_mesh_parse(ctx, NULL, text, &mesh)); }

static inline const msc_layout *layout_of(const char *text) {
  const msc_layout *l;
  if (!msc_layout_parse(ctx, &mesh, NULL, text, &l)) fail_msg("%s", msc_diags(ctx)->text);
  return l;
}

static inline msc_link link_of(int axis, double us, double gb_per_s) {
  return (msc_link){{(uint32_t)axis, 1, (uint32_t)mesh.axis[axis].size}, us * 1e3, gb_per_s, 0};
}

static inline const char *text_of(const msc_layout *l) { return msc_layout_print(arena, &mesh, l); }

/* ---- counting and executing with pull lists ---- */

static inline void *take(void *user, size_t bytes) {
  (void)user;
  return malloc(bytes);
}

static inline msc_pull pull_of(const msc_type *t, const msc_layout *from, const msc_layout *to, int64_t rank) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  msc_box_layout a = msc_layout_cuts(from), b = msc_layout_cuts(to);
  msc_pull p;
  assert_int_equal(msc_pull_of(&m, &a, &b, t->dim, rank, take, NULL, &p), MSC_PULL_OK);
  return p;
}

static inline int64_t partial_terms(const msc_layout *l) {
  return msc_group_size(l->num_partial, l->sub + l->first[l->rank]);
}

/* The bytes that the worst device receives; an all_reduce counts as a reduce_scatter and an all_gather of even
 * parts. */
static inline int64_t count_bytes(const msc_type *t, msc_verb verb, const msc_layout *from, const msc_layout *to) {
  int64_t worst = 0, bytes = msc_dtype_bytes(t->dtype);
  if (verb == MSC_ALL_REDUCE) {
    int64_t k = partial_terms(from) / partial_terms(to), local = msc_local_bytes(msc_type_with_layout(ctx, t, from));
    return (2 * (k - 1) * local + k - 1) / k;
  }
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    msc_pull p = pull_of(t, from, to, r);
    int64_t n = msc_pull_received(&p, t->rank, r) * bytes;
    if (n > worst) worst = n;
    free(p.piece);
  }
  return worst;
}

static int64_t value[2][MAX_RANKS][MAX_ELEMS];

static inline int64_t element_at(const msc_type *t, const int64_t *begin, const int64_t *size, int64_t i) {
  int64_t e = 0, at[MSC_MAX_RANK];
  for (int d = t->rank - 1; d >= 0; d--) at[d] = begin[d] + i % size[d], i /= size[d];
  for (int d = 0; d < t->rank; d++) e = e * t->dim[d] + at[d];
  return e;
}

static inline int64_t box_elems(const msc_type *t, const msc_layout *l, int64_t r, int64_t *begin, int64_t *size) {
  int64_t n = 1;
  msc_layout_box(&mesh, t, l, r, begin, size);
  for (int d = 0; d < t->rank; d++) n *= size[d];
  return n;
}

/* Term number i of element e is 1000 e + i, so the sum tells which terms were added how often. */
static inline int64_t sum_of_terms(int64_t e, int64_t terms) { return 1000 * e * terms + terms * (terms - 1) / 2; }

static inline void fill(const msc_type *t, const msc_layout *l) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    int64_t begin[MSC_MAX_RANK], size[MSC_MAX_RANK], n = box_elems(t, l, r, begin, size);
    int64_t term = msc_group_index(&m, l->num_partial, l->sub + l->first[l->rank], r);
    for (int64_t i = 0; i < n; i++) value[0][r][i] = 1000 * element_at(t, begin, size, i) + term;
  }
}

static inline void add_run(void *user, int64_t dst, int64_t src, int64_t num) {
  int64_t **v = user;
  for (int64_t i = 0; i < num; i++) v[0][dst + i] += v[1][src + i];
}

static inline void execute(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    msc_pull p = pull_of(t, from, to, r);
    msc_box mine, theirs;
    memset(value[1][r], 0, sizeof value[1][r]);
    msc_layout_box(&mesh, t, to, r, mine.begin, mine.size);
    for (int64_t i = 0; i < p.num_pieces * p.num_terms; i++) {
      msc_layout_box(&mesh, t, from, p.peer[i], theirs.begin, theirs.size);
      msc_box_runs(t->rank, &p.piece[i / p.num_terms], &mine, &theirs, add_run,
                   (int64_t *[]){value[1][r], value[0][p.peer[i]]});
    }
    free(p.piece);
  }
  memcpy(value[0], value[1], sizeof value[0]);
}

static inline void expect_values(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  int64_t terms = partial_terms(from);
  const msc_subaxis *digit = to->sub + to->first[to->rank];
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    int64_t begin[MSC_MAX_RANK], size[MSC_MAX_RANK], n = box_elems(t, to, r, begin, size);
    for (int64_t i = 0; i < n; i++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < partial_terms(to); k++)
        sum += value[0][msc_group_member(&m, to->num_partial, digit, r, k)][i];
      assert_int_equal(sum, sum_of_terms(element_at(t, begin, size, i), terms));
    }
  }
}

/* Every step is a legal use of its verb, moves the bytes it says, and the last one ends in the right blocks. */
static inline void expect_works(const msc_type *t, const msc_layout *from, const msc_layout *to,
                                const msc_reshard_plan *p) {
  const msc_layout *at = from;
  int64_t bytes = 0, peak = 0;
  bool small = msc_type_elems(t) <= MAX_ELEMS && msc_mesh_size(&mesh) <= MAX_RANKS;
  if (small) fill(t, from);
  for (int i = 0; i < p->num_steps; i++) {
    const msc_reshard_step *s = &p->step[i];
    const char *why = msc_relayout_wrong(&mesh, t, s->verb, at, s->to);
    if (why) fail_msg("%s %s -> %s: %s", msc_verb_name(s->verb), text_of(at), text_of(s->to), why);
    assert_int_equal(s->bytes, count_bytes(t, s->verb, at, s->to));
    int64_t in = msc_local_bytes(msc_type_with_layout(ctx, t, at)),
            out = msc_local_bytes(msc_type_with_layout(ctx, t, s->to));
    assert_int_equal(s->peak_bytes, s->verb == MSC_SHARD ? in : in + out);
    if (s->peak_bytes > peak) peak = s->peak_bytes;
    if (small) execute(t, at, s->to);
    bytes += s->bytes;
    at = s->to;
  }
  assert_ptr_equal(at, to);
  if (small) expect_values(t, from, to);
  assert_int_equal(bytes, p->bytes);
  assert_int_equal(p->peak_bytes, p->num_steps ? peak : msc_local_bytes(msc_type_with_layout(ctx, t, from)));
  if (p->lower_bound >= 0) assert_true(p->bytes >= p->lower_bound);
}

/* ---- brute force ---- */

/* bytes, exchanges, steps with traffic: compared in this order. */
typedef struct {
  int64_t bytes;
  int exchanges, steps;
} price;

static const price NEVER = {INT64_MAX / 4, 0, 0};

static inline int compare(price a, price b) {
  if (a.bytes != b.bytes) return a.bytes < b.bytes ? -1 : 1;
  if (a.exchanges != b.exchanges) return a.exchanges < b.exchanges ? -1 : 1;
  return (a.steps > b.steps) - (a.steps < b.steps);
}

static inline price sum(price a, price b) {
  return (price){a.bytes + b.bytes, a.exchanges + b.exchanges, a.steps + b.steps};
}

static int num_states;
static const msc_layout *states[MAX_STATES];
static price edge[MAX_STATES][MAX_STATES], best[MAX_STATES][MAX_STATES];
static int64_t edge_peak[MAX_STATES][MAX_STATES];

/* Lists all layouts of the prime digits: every digit is free, partial, or anywhere in a dimension. */
static inline void list_states(const msc_atoms *atoms, int next, msc_layout raw, bool partials) {
  if (next == atoms->num) {
    const msc_layout *l = msc_layout_of(ctx, &mesh, &raw);
    assert_true(num_states < MAX_STATES);
    states[num_states++] = l;
    return;
  }
  list_states(atoms, next + 1, raw, partials);
  int total = raw.first[raw.rank] + raw.num_partial;
  if (partials) {
    msc_layout l = raw;
    l.sub[total] = atoms->atom[next];
    l.num_partial++;
    list_states(atoms, next + 1, l, partials);
  }
  for (int d = 0; d < raw.rank; d++)
    for (int at = raw.first[d]; at <= raw.first[d + 1]; at++) {
      msc_layout l = raw;
      memmove(&l.sub[at + 1], &l.sub[at], (size_t)(total - at) * sizeof *l.sub);
      l.sub[at] = atoms->atom[next];
      for (int e = d + 1; e <= raw.rank; e++) l.first[e]++;
      list_states(atoms, next + 1, l, partials);
    }
}

static inline void brute_edges(const msc_type *t, bool alltoall, bool exchange) {
  static const msc_verb verbs[] = {MSC_SHARD,      MSC_ALL_GATHER, MSC_ALL_TO_ALL, MSC_REDUCE_SCATTER,
                                   MSC_ALL_REDUCE, MSC_PERMUTE,    MSC_EXCHANGE};
  for (int u = 0; u < num_states; u++)
    for (int v = 0; v < num_states; v++) {
      edge[u][v] = u == v ? (price){0, 0, 0} : NEVER;
      int64_t in = msc_local_bytes(msc_type_with_layout(ctx, t, states[u])),
              out = msc_local_bytes(msc_type_with_layout(ctx, t, states[v]));
      edge_peak[u][v] = u == v ? 0 : INT64_MAX;
      for (size_t k = 0; k < sizeof verbs / sizeof *verbs && u != v; k++) {
        if ((!alltoall && verbs[k] == MSC_ALL_TO_ALL) || (!exchange && verbs[k] == MSC_EXCHANGE)) continue;
        if (verbs[k] == MSC_SHARD && partial_terms(states[v]) > partial_terms(states[u])) continue;
        if (msc_relayout_wrong(&mesh, t, verbs[k], states[u], states[v])) continue;
        price c = {verbs[k] == MSC_SHARD ? 0 : count_bytes(t, verbs[k], states[u], states[v]), verbs[k] == MSC_EXCHANGE,
                   verbs[k] != MSC_SHARD};
        int64_t peak = verbs[k] == MSC_SHARD ? in : in + out;
        if (compare(c, edge[u][v]) < 0) edge[u][v] = c, edge_peak[u][v] = peak;
      }
    }
}

static inline void brute_best(int64_t limit) {
  for (int u = 0; u < num_states; u++)
    for (int v = 0; v < num_states; v++) best[u][v] = limit && edge_peak[u][v] > limit ? NEVER : edge[u][v];
  for (int k = 0; k < num_states; k++)
    for (int u = 0; u < num_states; u++)
      for (int v = 0; v < num_states && best[u][k].bytes < NEVER.bytes; v++) {
        price c = sum(best[u][k], best[k][v]);
        if (best[k][v].bytes < NEVER.bytes && compare(c, best[u][v]) < 0) best[u][v] = c;
      }
}

/* The least peak of the cheapest paths from u to v, relaxed until nothing changes. */
static inline int64_t brute_peak(int u, int v) {
  int64_t peak[MAX_STATES];
  for (int i = 0; i < num_states; i++) peak[i] = INT64_MAX;
  peak[u] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < num_states; a++)
      for (int b = 0; b < num_states && peak[a] < INT64_MAX; b++) {
        if (a == b || edge[a][b].bytes >= NEVER.bytes ||
            compare(sum(sum(best[u][a], edge[a][b]), best[b][v]), best[u][v]) != 0)
          continue;
        int64_t p = peak[a] > edge_peak[a][b] ? peak[a] : edge_peak[a][b];
        if (p < peak[b]) peak[b] = p, changed = true;
      }
  }
  return peak[v];
}

static inline price price_of(const msc_reshard_plan *p) {
  price c = {p->bytes, 0, 0};
  for (int i = 0; i < p->num_steps; i++)
    c.exchanges += p->step[i].verb == MSC_EXCHANGE, c.steps += p->step[i].verb != MSC_SHARD;
  return c;
}

static inline void expect_optimum(const msc_type *t, msc_reshard *r, int u, int v, bool check_peak) {
  msc_reshard_plan p;
  bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
  if (ok != (best[u][v].bytes < NEVER.bytes))
    fail_msg("%s -> %s: %s", text_of(states[u]), text_of(states[v]), ok ? "a plan where there is none" : "no plan");
  if (!ok) return;
  expect_works(t, states[u], states[v], &p);
  price c = price_of(&p);
  if (compare(c, best[u][v]) != 0)
    fail_msg("%s -> %s: %ld bytes, %d exchanges, %d steps; brute force %ld, %d, %d", text_of(states[u]),
             text_of(states[v]), (long)c.bytes, c.exchanges, c.steps, (long)best[u][v].bytes, best[u][v].exchanges,
             best[u][v].steps);
  assert_true(p.proven);
  if (check_peak && u != v) assert_int_equal(p.peak_bytes, brute_peak(u, v));
  assert_int_equal(msc_reshard_cost(r, t, states[u], states[v]), p.bytes);
}

static inline const char *steps_text(const msc_reshard_plan *p) {
  const char *text = "";
  for (int i = 0; i < p->num_steps; i++)
    text = msc_arena_printf(arena, "%s%s%s", text, i ? " " : "", msc_verb_name(p->step[i].verb));
  return text;
}

#endif
