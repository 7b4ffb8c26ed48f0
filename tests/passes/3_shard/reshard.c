/* The redistribution planner against a brute force that knows nothing of its search: states are all layouts of a small
 * mesh, an edge exists where the layout check allows the verb, and its bytes are counted from the pull lists of all ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "passes/3_shard/reshard.h"

#define MAX_STATES 540
#define MAX_RANKS 16
#define MAX_ELEMS 4096

static msc_context *ctx;
static msc_arena *arena;
static msc_mesh mesh;

static int open_context(void **state) {
  (void)state;
  ctx = msc_context_new(NULL, NULL);
  arena = msc_context_arena(ctx);
  return 0;
}

static int close_context(void **state) {
  (void)state;
  msc_context_free(ctx);
  return 0;
}

static uint64_t seed = 3;
static int roll(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static void set_mesh(const char *text) { assert_true(msc_mesh_parse(ctx, NULL, text, &mesh)); }

static const msc_layout *layout_of(const char *text) {
  const msc_layout *l;
  if (!msc_layout_parse(ctx, &mesh, NULL, text, &l)) fail_msg("%s", msc_diags(ctx)->text);
  return l;
}

static msc_link link_of(int axis, double us, double gb_per_s) { return (msc_link){{(uint32_t)axis, 1, (uint32_t)mesh.axis[axis].size}, us * 1e3, gb_per_s}; }

static const char *text_of(const msc_layout *l) { return msc_layout_print(arena, &mesh, l); }

/* ---- counting and executing with pull lists ---- */

static void *take(void *user, size_t bytes) {
  (void)user;
  return malloc(bytes);
}

static msc_pull pull_of(const msc_type *t, const msc_layout *from, const msc_layout *to, int64_t rank) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  msc_box_layout a = msc_layout_cuts(from), b = msc_layout_cuts(to);
  msc_pull p;
  assert_int_equal(msc_pull_of(&m, &a, &b, t->dim, rank, take, NULL, &p), MSC_PULL_OK);
  return p;
}

static int64_t partial_terms(const msc_layout *l) { return msc_group_size(l->num_partial, l->sub + l->first[l->rank]); }

/* Bytes the worst device receives; an all_reduce is a reduce_scatter and an all_gather of even parts. */
static int64_t count_bytes(const msc_type *t, msc_op_kind verb, const msc_layout *from, const msc_layout *to) {
  int64_t worst = 0, bytes = msc_dtype_bytes(t->dtype);
  if (verb == OP_all_reduce) {
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

static int64_t element_at(const msc_type *t, const int64_t *begin, const int64_t *size, int64_t i) {
  int64_t e = 0, at[MSC_MAX_RANK];
  for (int d = t->rank - 1; d >= 0; d--) at[d] = begin[d] + i % size[d], i /= size[d];
  for (int d = 0; d < t->rank; d++) e = e * t->dim[d] + at[d];
  return e;
}

static int64_t box_elems(const msc_type *t, const msc_layout *l, int64_t r, int64_t *begin, int64_t *size) {
  int64_t n = 1;
  msc_layout_box(&mesh, t, l, r, begin, size);
  for (int d = 0; d < t->rank; d++) n *= size[d];
  return n;
}

/* Term number i of element e is 1000 e + i, so the sum tells which terms were added how often. */
static int64_t sum_of_terms(int64_t e, int64_t terms) { return 1000 * e * terms + terms * (terms - 1) / 2; }

static void fill(const msc_type *t, const msc_layout *l) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    int64_t begin[MSC_MAX_RANK], size[MSC_MAX_RANK], n = box_elems(t, l, r, begin, size);
    int64_t term = msc_group_index(&m, l->num_partial, l->sub + l->first[l->rank], r);
    for (int64_t i = 0; i < n; i++) value[0][r][i] = 1000 * element_at(t, begin, size, i) + term;
  }
}

static void add_run(void *user, int64_t dst, int64_t src, int64_t num) {
  int64_t **v = user;
  for (int64_t i = 0; i < num; i++) v[0][dst + i] += v[1][src + i];
}

static void execute(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    msc_pull p = pull_of(t, from, to, r);
    msc_box mine, theirs;
    memset(value[1][r], 0, sizeof value[1][r]);
    msc_layout_box(&mesh, t, to, r, mine.begin, mine.size);
    for (int64_t i = 0; i < p.num_pieces * p.num_terms; i++) {
      msc_layout_box(&mesh, t, from, p.peer[i], theirs.begin, theirs.size);
      msc_box_runs(t->rank, &p.piece[i / p.num_terms], &mine, &theirs, add_run, (int64_t *[]){value[1][r], value[0][p.peer[i]]});
    }
    free(p.piece);
  }
  memcpy(value[0], value[1], sizeof value[0]);
}

static void expect_values(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  msc_box_mesh m = msc_mesh_sizes(&mesh);
  int64_t terms = partial_terms(from);
  const msc_subaxis *digit = to->sub + to->first[to->rank];
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    int64_t begin[MSC_MAX_RANK], size[MSC_MAX_RANK], n = box_elems(t, to, r, begin, size);
    for (int64_t i = 0; i < n; i++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < partial_terms(to); k++) sum += value[0][msc_group_member(&m, to->num_partial, digit, r, k)][i];
      assert_int_equal(sum, sum_of_terms(element_at(t, begin, size, i), terms));
    }
  }
}

/* Every step is a legal use of its verb, moves the bytes it says, and the last one ends in the right blocks. */
static void expect_works(const msc_type *t, const msc_layout *from, const msc_layout *to, const msc_reshard_plan *p) {
  const msc_layout *at = from;
  int64_t bytes = 0, peak = 0;
  bool small = msc_type_elems(t) <= MAX_ELEMS && msc_mesh_size(&mesh) <= MAX_RANKS;
  if (small) fill(t, from);
  for (int i = 0; i < p->num_steps; i++) {
    const msc_reshard_step *s = &p->step[i];
    const char *why = msc_relayout_wrong(&mesh, t, s->verb, at, s->to);
    if (why) fail_msg("%s %s -> %s: %s", msc_kind_name(s->verb), text_of(at), text_of(s->to), why);
    assert_int_equal(s->bytes, count_bytes(t, s->verb, at, s->to));
    int64_t in = msc_local_bytes(msc_type_with_layout(ctx, t, at)), out = msc_local_bytes(msc_type_with_layout(ctx, t, s->to));
    assert_int_equal(s->peak_bytes, s->verb == OP_shard ? in : in + out);
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

static int compare(price a, price b) {
  if (a.bytes != b.bytes) return a.bytes < b.bytes ? -1 : 1;
  if (a.exchanges != b.exchanges) return a.exchanges < b.exchanges ? -1 : 1;
  return (a.steps > b.steps) - (a.steps < b.steps);
}

static price sum(price a, price b) { return (price){a.bytes + b.bytes, a.exchanges + b.exchanges, a.steps + b.steps}; }

static int num_states;
static const msc_layout *states[MAX_STATES];
static price edge[MAX_STATES][MAX_STATES], best[MAX_STATES][MAX_STATES];
static int64_t edge_peak[MAX_STATES][MAX_STATES];

/* All layouts of the prime digits: every digit in turn is free, partial, or put anywhere into a dimension. */
static void list_states(const msc_atoms *atoms, int next, msc_layout raw, bool partials) {
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

static void brute_edges(const msc_type *t, bool alltoall, bool exchange) {
  static const msc_op_kind verbs[] = {OP_shard, OP_all_gather, OP_all_to_all, OP_reduce_scatter, OP_all_reduce, OP_permute, OP_exchange};
  for (int u = 0; u < num_states; u++)
    for (int v = 0; v < num_states; v++) {
      edge[u][v] = u == v ? (price){0, 0, 0} : NEVER;
      int64_t in = msc_local_bytes(msc_type_with_layout(ctx, t, states[u])), out = msc_local_bytes(msc_type_with_layout(ctx, t, states[v]));
      edge_peak[u][v] = u == v ? 0 : INT64_MAX;
      for (size_t k = 0; k < sizeof verbs / sizeof *verbs && u != v; k++) {
        if ((!alltoall && verbs[k] == OP_all_to_all) || (!exchange && verbs[k] == OP_exchange)) continue;
        if (verbs[k] == OP_shard && partial_terms(states[v]) > partial_terms(states[u])) continue;
        if (msc_relayout_wrong(&mesh, t, verbs[k], states[u], states[v])) continue;
        price c = {verbs[k] == OP_shard ? 0 : count_bytes(t, verbs[k], states[u], states[v]), verbs[k] == OP_exchange, verbs[k] != OP_shard};
        int64_t peak = verbs[k] == OP_shard ? in : in + out;
        if (compare(c, edge[u][v]) < 0) edge[u][v] = c, edge_peak[u][v] = peak;
      }
    }
}

static void brute_best(int64_t limit) {
  for (int u = 0; u < num_states; u++)
    for (int v = 0; v < num_states; v++) best[u][v] = limit && edge_peak[u][v] > limit ? NEVER : edge[u][v];
  for (int k = 0; k < num_states; k++)
    for (int u = 0; u < num_states; u++)
      for (int v = 0; v < num_states && best[u][k].bytes < NEVER.bytes; v++) {
        price c = sum(best[u][k], best[k][v]);
        if (best[k][v].bytes < NEVER.bytes && compare(c, best[u][v]) < 0) best[u][v] = c;
      }
}

/* Least peak of the cheapest paths from u to v: relaxed until nothing changes. */
static int64_t brute_peak(int u, int v) {
  int64_t peak[MAX_STATES];
  for (int i = 0; i < num_states; i++) peak[i] = INT64_MAX;
  peak[u] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < num_states; a++)
      for (int b = 0; b < num_states && peak[a] < INT64_MAX; b++) {
        if (a == b || edge[a][b].bytes >= NEVER.bytes || compare(sum(sum(best[u][a], edge[a][b]), best[b][v]), best[u][v]) != 0) continue;
        int64_t p = peak[a] > edge_peak[a][b] ? peak[a] : edge_peak[a][b];
        if (p < peak[b]) peak[b] = p, changed = true;
      }
  }
  return peak[v];
}

static price price_of(const msc_reshard_plan *p) {
  price c = {p->bytes, 0, 0};
  for (int i = 0; i < p->num_steps; i++) c.exchanges += p->step[i].verb == OP_exchange, c.steps += p->step[i].verb != OP_shard;
  return c;
}

static void expect_optimum(const msc_type *t, msc_reshard *r, int u, int v, bool check_peak) {
  msc_reshard_plan p;
  bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
  if (ok != (best[u][v].bytes < NEVER.bytes)) fail_msg("%s -> %s: %s", text_of(states[u]), text_of(states[v]), ok ? "a plan where there is none" : "no plan");
  if (!ok) return;
  expect_works(t, states[u], states[v], &p);
  price c = price_of(&p);
  if (compare(c, best[u][v]) != 0)
    fail_msg("%s -> %s: %ld bytes, %d exchanges, %d steps; brute force %ld, %d, %d", text_of(states[u]), text_of(states[v]), (long)c.bytes, c.exchanges, c.steps,
             (long)best[u][v].bytes, best[u][v].exchanges, best[u][v].steps);
  assert_true(p.proven);
  if (check_peak && u != v) assert_int_equal(p.peak_bytes, brute_peak(u, v));
  assert_int_equal(msc_reshard_cost(r, t, states[u], states[v]), p.bytes);
}

static void expect_all_pairs(const char *mesh_text, int rank, const int64_t *dim, bool partials, int stride, bool alltoall) {
  set_mesh(mesh_text);
  msc_atoms atoms;
  msc_layout raw = {.rank = (uint8_t)rank};
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  num_states = 0;
  list_states(&atoms, 0, raw, partials);
  const msc_type *t = msc_type_of(ctx, MSC_F32, rank, dim, NULL);
  brute_edges(t, alltoall, alltoall);
  brute_best(0);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.no_alltoall = !alltoall});
  for (int i = 0; i < num_states * num_states; i += stride) expect_optimum(t, r, i / num_states, i % num_states, i % 7 == 0);
}

static void test_all_pairs(void **state) {
  (void)state;
  expect_all_pairs("x=2,y=3", 1, (int64_t[]){12}, true, 1, true);
  expect_all_pairs("x=2,y=3", 2, (int64_t[]){12, 6}, true, 1, true);
  expect_all_pairs("x=4,y=2", 1, (int64_t[]){16}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 1, (int64_t[]){8}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 2, (int64_t[]){8, 16}, true, 3, true);
  expect_all_pairs("x=2,y=2,z=2", 2, (int64_t[]){8, 16}, false, 1, false);
}

/* Against the best plan of collectives: an exchange is there if and only if it is cheaper. */
static void expect_no_dearer(const char *mesh_text, int rank, const int64_t *dim, int stride) {
  set_mesh(mesh_text);
  msc_atoms atoms;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  num_states = 0;
  list_states(&atoms, 0, (msc_layout){.rank = (uint8_t)rank}, true);
  const msc_type *t = msc_type_of(ctx, MSC_F32, rank, dim, NULL);
  brute_edges(t, true, false);
  brute_best(0);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, NULL);
  for (int i = 0; i < num_states * num_states; i += stride) {
    int u = i / num_states, v = i % num_states;
    msc_reshard_plan p;
    if (!msc_layout_fits(states[u], t) || !msc_layout_fits(states[v], t)) continue;
    if (!msc_reshard_plan_of(r, t, states[u], states[v], &p)) {
      assert_true(best[u][v].bytes >= NEVER.bytes);
      continue;
    }
    expect_works(t, states[u], states[v], &p);
    price own = price_of(&p);
    if (own.exchanges ? own.bytes >= best[u][v].bytes : own.bytes != best[u][v].bytes)
      fail_msg("%s -> %s: %ld bytes, %d exchanges; collectives %ld", text_of(states[u]), text_of(states[v]), (long)own.bytes, own.exchanges, (long)best[u][v].bytes);
  }
}

static bool slow_tests(void) {
  if (getenv("MSC_TEST_SLOW")) return true;
  printf("skipped: set MSC_TEST_SLOW to run it\n");
  return false;
}

static void test_all_pairs_of_rank_3(void **state) {
  (void)state;
  if (!slow_tests()) return;
  expect_all_pairs("x=2,y=3", 3, (int64_t[]){12, 6, 6}, true, 1, true);
  expect_all_pairs("x=4,y=2", 3, (int64_t[]){8, 8, 8}, true, 1, true);
  expect_all_pairs("x=2,y=2,z=2", 3, (int64_t[]){8, 16, 8}, true, 1, true);
  expect_all_pairs("x=2,y=3,z=2", 3, (int64_t[]){12, 24, 12}, true, 1, true);
  expect_all_pairs("x=4,y=3", 2, (int64_t[]){24, 12}, true, 1, true);
  expect_no_dearer("x=4,y=4", 2, (int64_t[]){32, 16}, 7);
  expect_no_dearer("x=4,y=4", 2, (int64_t[]){4, 16}, 7);
  expect_all_pairs("a=2,b=2,c=2,d=2", 1, (int64_t[]){16}, true, 1, true);
}

/* The least peak over all paths: the limit that is named when none fits. */
static int64_t brute_needed_peak(const msc_type *t, int u, int v) {
  int64_t peak[MAX_STATES];
  for (int i = 0; i < num_states; i++) peak[i] = INT64_MAX;
  peak[u] = u == v ? msc_local_bytes(msc_type_with_layout(ctx, t, states[u])) : 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < num_states; a++)
      for (int b = 0; b < num_states && peak[a] < INT64_MAX; b++) {
        int64_t p = peak[a] > edge_peak[a][b] ? peak[a] : edge_peak[a][b];
        if (edge_peak[a][b] < INT64_MAX && a != b && p < peak[b]) peak[b] = p, changed = true;
      }
  }
  return peak[v];
}

/* With a limit the plan is the best of those that keep it.  An exchange into anything but the target (or parts of its
 * parts) is not looked for, which costs nothing without a limit; with one, collectives and that exchange are compared. */
static void test_limits(void **state) {
  (void)state;
  set_mesh("x=2,y=2,z=2");
  msc_atoms atoms;
  num_states = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  list_states(&atoms, 0, (msc_layout){.rank = 2}, true);
  const msc_type *t = msc_type_of(ctx, MSC_F32, 2, (int64_t[]){8, 16}, NULL);
  brute_edges(t, false, false);
  for (int64_t limit = 64; limit <= 1024; limit += 96) {
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = limit, .no_alltoall = true});
    brute_best(limit);
    for (int i = 0; i < num_states * num_states; i += 23) {
      int u = i / num_states, v = i % num_states;
      msc_reshard_plan p;
      if (u == v || edge_peak[u][v] <= 0) continue;
      bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
      assert_int_equal(ok, best[u][v].bytes < NEVER.bytes);
      if (ok) assert_int_equal(compare(price_of(&p), best[u][v]), 0);
      if (ok) assert_true(p.peak_bytes <= limit);
      int64_t needed = brute_needed_peak(t, u, v);
      if (!ok) assert_int_equal(p.needed_peak, needed == INT64_MAX ? 0 : needed);
    }
  }
}

/* ---- known cases ---- */

typedef struct {
  const char *mesh, *from, *to;
  int rank;
  int64_t dim[4];
  msc_dtype dtype; /* of the right size */
  int64_t bytes, lower_bound, peak, limit;
  const char *steps;
} known;

static const known cases[] = {
  {"x=8", "[{x},{}]", "[{},{}]", 2, {8192, 4096}, MSC_F16, 58720256, 58720256, 75497472, 0, "all_gather"},
  {"x=8", "[{},{}] partial={x}", "[{},{x}]", 2, {8192, 4096}, MSC_F16, 58720256, -1, 75497472, 0, "reduce_scatter"},
  {"d=2,t=8", "[{d},{t},{},{}]", "[{d},{},{t},{}]", 4, {16, 4096, 64, 128}, MSC_F16, 58720256, 58720256, 134217728, 0, "all_to_all"},
  {"x=4,y=2", "[{y},{},{x}]", "[{},{x,y},{}]", 3, {16, 16, 16}, MSC_F32, 1792, 1792, 4096, 0, "all_to_all"},
  {"x=4", "[{x},{},{},{}]", "[{x:(1)2},{},{},{x:(2)2}]", 4, {64, 32, 32, 640}, MSC_F16, 10485760, 10485760, 41943040, 0, "all_to_all"},
  {"x=4,y=4", "[{x},{}]", "[{y},{}]", 2, {4096, 1024}, MSC_F32, 4194304, 4194304, 8388608, 0, "permute"},
  {"x=2,y=4", "[{x},{}]", "[{y},{}]", 2, {4096, 1024}, MSC_F32, 4194304, 4194304, 8388608, 0, "shard permute"},
  {"x=2,y=4", "[{x,y},{}]", "[{y,x},{}]", 2, {4096, 1024}, MSC_F16, 1048576, 1048576, 2097152, 0, "permute"},
  {"x=8", "[{},{}] partial={x}", "[{},{}]", 2, {1024, 4096}, MSC_F32, 29360128, -1, 33554432, 0, "all_reduce"},
  {"x=8", "[{},{}] partial={x}", "[{},{}]", 2, {1024, 4096}, MSC_F32, 29360128, -1, 18874368, 25165824, "reduce_scatter all_gather"},
};

static const char *steps_text(const msc_reshard_plan *p) {
  const char *text = "";
  for (int i = 0; i < p->num_steps; i++) text = msc_arena_printf(arena, "%s%s%s", text, i ? " " : "", msc_kind_name(p->step[i].verb));
  return text;
}

static void test_known_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const known *k = &cases[i];
    set_mesh(k->mesh);
    const msc_type *t = msc_type_of(ctx, k->dtype, k->rank, k->dim, NULL);
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = k->limit});
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(r, t, layout_of(k->from), layout_of(k->to), &p));
    expect_works(t, layout_of(k->from), layout_of(k->to), &p);
    assert_int_equal(p.bytes, k->bytes);
    assert_int_equal(p.lower_bound, k->lower_bound);
    assert_int_equal(p.peak_bytes, k->peak);
    assert_string_equal(steps_text(&p), k->steps);
    assert_true(p.proven);
  }
}

/* Scatter inside the node, reduce across, gather inside: 10 us a step, 3 rounds of 3 us or 4 of 20 us, and the bytes. */
static void test_hierarchical_all_reduce(void **state) {
  (void)state;
  set_mesh("node=4,gpu=4");
  const msc_type *t = msc_type_of(ctx, MSC_F16, 2, (int64_t[]){8192, 8192}, NULL);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.time = true, .launch_ns = 10e3, .num_links = 2, .link = {link_of(0, 20, 50), link_of(1, 3, 400)}});
  const msc_layout *from = layout_of("[{},{}] partial={node,gpu}"), *to = layout_of("[{},{}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(r, t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "reduce_scatter all_reduce all_gather");
  assert_string_equal(text_of(p.step[0].to), "[{gpu},{}] partial={node}");
  assert_int_equal(p.bytes, 251658240);
  assert_int_equal(p.peak_bytes, 167772160);
  assert_in_range(p.ns, 1637949 - 3, 1637949 + 3);
  assert_int_equal(msc_reshard_cost(r, t, from, to), p.ns);
}

/* One axis of two nodes with eight devices each: its minor digits are fast. */
static void test_links_of_digits(void **state) {
  (void)state;
  set_mesh("d=16");
  const msc_type *t = msc_type_of(ctx, MSC_F16, 2, (int64_t[]){8192, 8192}, NULL);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.time = true, .launch_ns = 10e3, .num_links = 2, .link = {{{0, 1, 2}, 20e3, 50}, {{0, 2, 8}, 3e3, 400}}});
  const msc_layout *from = layout_of("[{},{}] partial={d}"), *to = layout_of("[{},{}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(r, t, from, to, &p));
  assert_string_equal(steps_text(&p), "reduce_scatter all_reduce all_gather");
  assert_string_equal(text_of(p.step[0].to), "[{d:(2)8},{}] partial={d:(1)2}");
  int64_t cost[4];
  msc_reshard_costs(r, t, 2, (const msc_layout *[]){from, to}, 2, (const msc_layout *[]){to, layout_of("[{d},{}]")}, cost);
  assert_int_equal(cost[0], p.ns);
  assert_int_equal(cost[2], 0);
  assert_int_equal(cost[3], 0);
}

/* Where an axis cuts: dimension and parts before it; partial; free. */
static int place_of(const msc_layout *l, uint32_t axis, int64_t *out_before) {
  *out_before = 1;
  for (int d = 0; d < l->rank; d++) {
    *out_before = 1;
    for (int i = l->first[d]; i < l->first[d + 1]; *out_before *= l->sub[i++].size)
      if (l->sub[i].axis == axis) return d;
  }
  *out_before = 1;
  for (int i = 0; i < l->num_partial; i++)
    if (l->sub[l->first[l->rank] + i].axis == axis) return MSC_MAX_RANK;
  return -1;
}

/* ns of an edge over the slowest of the axes that move; the axes of this mesh have one digit each. */
static int64_t count_ns(const msc_type *t, msc_op_kind verb, const msc_layout *from, const msc_layout *to, const msc_reshard_options *o) {
  double latency = 0, rate = 1e30;
  int64_t k = 1, log = 0, rounds = 0;
  for (int a = 0; a < mesh.num_axes; a++) {
    int64_t before_from, before_to;
    int p = place_of(from, (uint32_t)a, &before_from), q = place_of(to, (uint32_t)a, &before_to);
    if (p == q && before_from == before_to) continue;
    if (o->link[a].alpha_ns > latency) latency = o->link[a].alpha_ns;
    if (o->link[a].bytes_per_ns < rate) rate = o->link[a].bytes_per_ns;
    k *= mesh.axis[a].size;
  }
  while ((int64_t)1 << log < k) log++;
  rounds = verb == OP_permute ? 1 : verb == OP_all_reduce ? 2 * log : k - 1;
  return (int64_t)(o->launch_ns + (double)rounds * latency + (double)count_bytes(t, verb, from, to) / rate + 0.5);
}

/* Rows of times are what the plans cost one by one. */
static void expect_rows(const msc_type *t, msc_reshard *r) {
  int64_t row[MAX_STATES];
  for (int u = 0; u < num_states; u += 7) {
    msc_reshard_costs(r, t, 1, &states[u], num_states, states, row);
    for (int v = 0; v < num_states; v++)
      if (row[v] != msc_reshard_cost(r, t, states[u], states[v]))
        fail_msg("%s -> %s: %ld ns in the row, %ld alone", text_of(states[u]), text_of(states[v]), (long)row[v], (long)msc_reshard_cost(r, t, states[u], states[v]));
  }
}

/* The same brute force with time for bytes: bandwidth counts, then latency does.  It has no exchange, which may do better. */
static void test_all_pairs_in_time(void **state) {
  (void)state;
  static const msc_op_kind verbs[] = {OP_all_gather, OP_all_to_all, OP_reduce_scatter, OP_all_reduce, OP_permute};
  msc_reshard_options options = {.time = true, .launch_ns = 1e3, .num_links = 3};
  msc_atoms atoms;
  set_mesh("x=2,y=2,z=2");
  for (int a = 0; a < 3; a++) options.link[a] = link_of(a, a ? 3 : 20, a ? 40 : 5);
  num_states = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  list_states(&atoms, 0, (msc_layout){.rank = 2}, true);
  for (int round = 0; round < 2; round++) {
    const msc_type *t = msc_type_of(ctx, MSC_F32, 2, (int64_t[]){8, round ? 16 : 65536}, NULL);
    msc_reshard *r = msc_reshard_new(ctx, &mesh, &options);
    for (int u = 0; u < num_states; u++)
      for (int v = 0; v < num_states; v++) {
        bool sliced = u != v && partial_terms(states[u]) == partial_terms(states[v]) && !msc_relayout_wrong(&mesh, t, OP_shard, states[u], states[v]);
        edge[u][v] = u == v || sliced ? (price){0, 0, 0} : NEVER;
        for (size_t k = 0; k < sizeof verbs / sizeof *verbs && u != v; k++) {
          if (msc_relayout_wrong(&mesh, t, verbs[k], states[u], states[v])) continue;
          price c = {count_ns(t, verbs[k], states[u], states[v], &options), 0, 1};
          if (compare(c, edge[u][v]) < 0) edge[u][v] = c;
        }
        edge_peak[u][v] = 0;
      }
    brute_best(0);
    for (int i = 0; i < num_states * num_states; i += 5) {
      int u = i / num_states, v = i % num_states;
      msc_reshard_plan p;
      bool ok = msc_reshard_plan_of(r, t, states[u], states[v], &p);
      assert_int_equal(ok, best[u][v].bytes < NEVER.bytes);
      if (ok && price_of(&p).exchanges && p.ns < best[u][v].bytes) continue;
      if (ok && p.ns != best[u][v].bytes) fail_msg("%s -> %s: %ld ns, brute force %ld", text_of(states[u]), text_of(states[v]), (long)p.ns, (long)best[u][v].bytes);
      if (ok) assert_int_equal(msc_reshard_cost(r, t, states[u], states[v]), p.ns);
    }
    expect_rows(t, r);
  }
}

/* {"x": 4, ...} of the cases' mesh: [["x",4],["y",2]] */
static void set_json_mesh(json_t *j) {
  const char *text = "";
  size_t i;
  json_t *axis;
  json_array_foreach(j, i, axis)
    text = msc_arena_printf(arena, "%s%s%s=%d", text, i ? "," : "", json_string_value(json_array_get(axis, 0)), (int)json_integer_value(json_array_get(axis, 1)));
  set_mesh(text);
}

static int64_t field(json_t *j, const char *name) {
  json_t *v = json_object_get(j, name);
  return json_is_integer(v) ? json_integer_value(v) : -1;
}

static void run_case(json_t *j) {
  static const msc_dtype of_bytes[] = {[1] = MSC_I8, [2] = MSC_F16, [4] = MSC_F32, [8] = MSC_F64};
  msc_reshard_options options = {0};
  json_t *shape = json_object_get(j, "shape"), *opts = json_object_get(j, "opts"), *ab = json_object_get(opts, "ab");
  int64_t dim[MSC_MAX_RANK];
  set_json_mesh(json_object_get(j, "mesh"));
  for (size_t i = 0; i < json_array_size(shape); i++) dim[i] = json_integer_value(json_array_get(shape, i));
  const msc_type *t = msc_type_of(ctx, of_bytes[field(j, "elem_bytes")], (int)json_array_size(shape), dim, NULL);
  options.peak = json_object_get(opts, "peak") ? field(opts, "peak") : 0;
  options.time = ab != NULL, options.launch_ns = 10e3, options.num_links = ab ? mesh.num_axes : 0;
  for (int a = 0; a < mesh.num_axes && ab; a++) {
    json_t *link = json_object_get(ab, mesh.axis[a].name);
    options.link[a] = link_of(a, json_number_value(json_array_get(link, 0)), json_number_value(json_array_get(link, 1)));
  }
  const msc_layout *from = layout_of(json_string_value(json_object_get(j, "src_text"))), *to = layout_of(json_string_value(json_object_get(j, "dst_text")));
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, &options), t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_true(p.bytes <= field(j, "optimal_wire_bytes_per_device"));
  assert_int_equal(p.lower_bound, field(j, "lower_bound_bytes_direct_exchange"));
  assert_true(p.peak_bytes <= field(j, "peak_bytes"));
  if (ab) assert_true((double)p.ns <= json_number_value(json_object_get(j, "time_us")) * 1e3 + 3);
}

static void test_cases_file(void **state) {
  (void)state;
  FILE *f = fopen("../shared/cases/reshard.jsonl", "r");
  char *line = NULL;
  size_t cap = 0;
  if (!f) {
    printf("skipped: no ../shared/cases/reshard.jsonl\n");
    return;
  }
  while (getline(&line, &cap, f) > 0) {
    json_t *j = json_loads(line, 0, NULL);
    assert_non_null(j);
    run_case(j);
    json_decref(j);
  }
  free(line);
  fclose(f);
}

/* ---- random layouts ---- */

static const msc_layout *random_layout(int rank, bool partials) {
  msc_atoms atoms;
  msc_layout raw = {.rank = (uint8_t)rank};
  int place[MSC_MAX_SUBAXES], num = 0;
  assert_true(msc_atoms_of(&mesh, 0, NULL, &atoms));
  for (int i = atoms.num - 1; i > 0; i--) {
    int j = roll(i + 1);
    msc_subaxis s = atoms.atom[i];
    atoms.atom[i] = atoms.atom[j], atoms.atom[j] = s;
  }
  for (int i = 0; i < atoms.num; i++) place[i] = roll(rank + 2);
  for (int d = 0; d <= rank; d++) {
    raw.first[d] = (uint8_t)num;
    for (int i = 0; i < atoms.num; i++)
      if (place[i] == d && (d < rank || partials)) raw.sub[num++] = atoms.atom[i];
  }
  raw.num_partial = (uint8_t)(num - raw.first[rank]);
  return msc_layout_of(ctx, &mesh, &raw);
}

/* No detour is cheaper than the plan. */
static void expect_triangles(const char *mesh_text, const msc_reshard_options *options, int num) {
  set_mesh(mesh_text);
  msc_reshard *r = msc_reshard_new(ctx, &mesh, options);
  const msc_type *t = msc_type_of(ctx, MSC_F32, 3, (int64_t[]){24, 48, 24}, NULL);
  for (int i = 0; i < num; i++) {
    const msc_layout *a = random_layout(3, true), *b = random_layout(3, roll(4) == 0), *c = random_layout(3, roll(8) == 0);
    int64_t ab = msc_reshard_cost(r, t, a, b), bc = msc_reshard_cost(r, t, b, c), ac = msc_reshard_cost(r, t, a, c);
    if (ab < 0 || bc < 0) continue;
    if (ac < 0 || ac > ab + bc) fail_msg("%s -> %s: %ld, but %ld + %ld through %s", text_of(a), text_of(c), (long)ac, (long)ab, (long)bc, text_of(b));
  }
}

static void test_triangle_inequality(void **state) {
  (void)state;
  expect_triangles("x=4,y=2,z=3", NULL, 150);
  expect_triangles("x=4,y=2,z=3", &(msc_reshard_options){.free_partial = true}, 60);
}

static void test_many_triangles(void **state) {
  (void)state;
  if (!slow_tests()) return;
  expect_triangles("x=2,y=2,z=2", NULL, 50000);
  expect_triangles("x=2,y=3,z=2", NULL, 40000);
  expect_triangles("x=4,y=2,z=3", NULL, 10000);
}

/* The worst device's bytes that it needs and does not hold, from the boxes of all devices. */
static int64_t bound_of(const msc_type *t, const msc_layout *from, const msc_layout *to) {
  int64_t worst = 0;
  for (int64_t r = 0; r < msc_mesh_size(&mesh); r++) {
    msc_box a, b, both;
    msc_layout_box(&mesh, t, from, r, a.begin, a.size);
    msc_layout_box(&mesh, t, to, r, b.begin, b.size);
    int64_t n = msc_box_elems(t->rank, &b);
    if (msc_box_intersect(t->rank, &a, &b, &both)) n -= msc_box_elems(t->rank, &both);
    if (n > worst) worst = n;
  }
  return worst * msc_dtype_bytes(t->dtype);
}

/* Sizes that divide and sizes that do not: what is printed as bound is counted, and every step does what it says. */
static void test_random_plans(void **state) {
  (void)state;
  static const char *const meshes[] = {"x=4,y=2", "x=2,y=3", "x=2,y=2,z=3", "x=8"};
  for (int i = 0; i < 200; i++) {
    set_mesh(meshes[i % 4]);
    int64_t dim[3];
    for (int d = 0; d < 3; d++) dim[d] = i % 2 ? 1 + roll(11) : 24;
    const msc_type *t = msc_type_of(ctx, MSC_F32, roll(4), dim, NULL);
    const msc_layout *from = random_layout(t->rank, roll(2)), *to = random_layout(t->rank, false);
    msc_reshard *r = msc_reshard_new(ctx, &mesh, NULL);
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(r, t, from, to, &p));
    if (i % 2 == 0) expect_works(t, from, to, &p);
    assert_int_equal(p.lower_bound, from->num_partial ? -1 : bound_of(t, from, to));
    if (i % 2 == 0) continue;
    fill(t, from);
    const msc_layout *at = from;
    for (int k = 0; k < p.num_steps; k++) {
      assert_null(msc_relayout_wrong(&mesh, t, p.step[k].verb, at, p.step[k].to));
      assert_true(p.step[k].bytes >= (p.step[k].verb == OP_all_reduce ? 0 : count_bytes(t, p.step[k].verb, at, p.step[k].to)));
      execute(t, at, p.step[k].to);
      at = p.step[k].to;
    }
    assert_ptr_equal(at, to);
    expect_values(t, from, to);
  }
}

/* ---- edges of what is possible ---- */

static void test_nothing_to_do(void **state) {
  (void)state;
  set_mesh("x=4");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){8}, NULL);
  const msc_layout *l = layout_of("[{x}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, l, l, &p));
  assert_int_equal(p.num_steps, 0);
  assert_int_equal(p.peak_bytes, 8);
  assert_int_equal(p.lower_bound, 0);
  assert_false(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.peak = 7}), t, l, l, &p));
  assert_int_equal(p.needed_peak, 8);
}

static void test_partial_from_nothing(void **state) {
  (void)state;
  set_mesh("x=4,y=2");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){8}, NULL);
  const msc_layout *from = layout_of("[{x}]"), *to = layout_of("[{x}] partial={y}");
  msc_reshard_plan p;
  assert_false(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
  assert_int_equal(p.needed_peak, 0);
  assert_int_equal(msc_reshard_cost(msc_reshard_new(ctx, &mesh, NULL), t, from, to), -1);
  msc_reshard *free_edge = msc_reshard_new(ctx, &mesh, &(msc_reshard_options){.free_partial = true});
  assert_true(msc_reshard_plan_of(free_edge, t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "shard");
  assert_int_equal(p.bytes, 0);
  assert_true(msc_reshard_plan_of(free_edge, t, layout_of("[{}]"), layout_of("[{x}] partial={y}"), &p));
  assert_string_equal(steps_text(&p), "shard");
}

/* Cuts of 6 into 2 and into 3 have no digits in common: everything is gathered first. */
static void test_no_common_digits(void **state) {
  (void)state;
  set_mesh("x=6,y=2");
  const msc_type *t = msc_type_of(ctx, MSC_F32, 1, (int64_t[]){12}, NULL);
  const msc_layout *from = layout_of("[{x:(1)2}] partial={y}"), *to = layout_of("[{x:(1)3}]");
  msc_reshard_plan p;
  assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
  expect_works(t, from, to, &p);
  assert_string_equal(steps_text(&p), "all_reduce all_gather shard");
  assert_false(p.proven);
}

/* 65,536 devices: atoms are merged, the answer comes soon, and where it meets the bound it is known to be best. */
static void test_large_meshes(void **state) {
  (void)state;
  static const struct {
    const char *mesh, *from, *to;
    bool proven;
  } large[] = {
    {"a=16,b=16,c=16,d=16", "[{a,b},{c},{d}]", "[{d},{a,b},{c}]", true},
    {"d=65536", "[{d},{},{}]", "[{},{},{d}]", true},
    {"a=256,b=256", "[{a},{},{}] partial={b}", "[{},{b},{a}]", false},
    {"a=4,b=4,c=4,d=4,e=4,f=4,g=4,h=4", "[{a,b,c},{d,e},{f,g,h}]", "[{h,g,f},{e,d},{c,b,a}]", true},
  };
  const msc_type *t = msc_type_of(ctx, MSC_F32, 3, (int64_t[]){65536, 65536, 65536}, NULL);
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    set_mesh(large[i].mesh);
    const msc_layout *from = layout_of(large[i].from), *to = layout_of(large[i].to), *at = from;
    msc_reshard_plan p;
    assert_true(msc_reshard_plan_of(msc_reshard_new(ctx, &mesh, NULL), t, from, to, &p));
    for (int k = 0; k < p.num_steps; at = p.step[k++].to) assert_null(msc_relayout_wrong(&mesh, t, p.step[k].verb, at, p.step[k].to));
    assert_ptr_equal(at, to);
    assert_int_equal(p.proven, large[i].proven);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_all_pairs, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_all_pairs_of_rank_3, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_limits, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_known_cases, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_hierarchical_all_reduce, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_links_of_digits, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_all_pairs_in_time, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_cases_file, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_triangle_inequality, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_many_triangles, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_random_plans, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_nothing_to_do, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_partial_from_nothing, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_no_common_digits, open_context, close_context),
    cmocka_unit_test_setup_teardown(test_large_meshes, open_context, close_context),
  };
  return cmocka_run_group_tests_name("passes/3_shard/reshard", tests, NULL, NULL);
}
