/* balance.c: checks the runs of layers against all ways to cut, with borders, memory and chunks; and that large
 * problems are solved in time. */
#include "passes/6_pipeline/balance.h"
#include "tests/passes/6_pipeline/fresh.h"

enum { MAX_LAYERS = 1000, MAX_STAGES = 64 };

typedef struct {
  msc_layer layer[MAX_LAYERS];
  int in_flight[MAX_STAGES];
  int64_t limit[MAX_STAGES];
  msc_balance_options o;
} problem;

/* Time of a step, times chunks; INT64_MAX: a stage is too full. */
static int64_t total_of(const problem *p, const int *cut) {
  const msc_balance_options *o = &p->o;
  int64_t total = 0, longest = 0;
  for (int i = 0; i < o->stages; i++) {
    int64_t time = 0, fixed = 0, largest = 0;
    for (int k = i; k < o->stages * o->chunks; k += o->stages) {
      int64_t kept = 0;
      for (int n = cut[k]; n < cut[k + 1]; n++)
        time += p->layer[n].time, fixed += p->layer[n].fixed, kept += p->layer[n].kept;
      if (kept > largest) largest = kept;
      if (k) total += p->layer[cut[k] - 1].border;
    }
    if (o->limit && fixed + p->in_flight[i] * largest > p->limit[i]) return INT64_MAX;
    if (time > longest) longest = time;
    total += time;
  }
  return total + ((int64_t)o->chunks * o->micro_batches - 1) * longest;
}

static int64_t least_total(const problem *p, int *cut, int k) {
  int num = p->o.stages * p->o.chunks;
  int64_t best = INT64_MAX;
  if (k == num) return total_of(p, cut);
  for (cut[k] = k ? cut[k - 1] + 1 : 0; cut[k] <= (k ? p->o.num_layers - (num - k) : 0); cut[k]++) {
    int64_t total = least_total(p, cut, k + 1);
    if (total < best) best = total;
  }
  return best;
}

static int64_t between(int64_t low, int64_t high) { return low + rand() % (high - low + 1); }

static void fill(problem *p, int layers, int stages, int chunks, int64_t border, bool is_limited) {
  *p = (problem){.o = {.num_layers = layers, .stages = stages, .chunks = chunks, .micro_batches = (int)between(1, 12)}};
  for (int n = 0; n < layers; n++)
    p->layer[n] = (msc_layer){between(0, 20), between(0, border), between(0, 5), between(0, 3)};
  for (int i = 0; i < stages; i++) {
    p->in_flight[i] = stages - i;
    p->limit[i] = (int64_t)layers * (4 + 2 * stages) / stages / chunks + between(0, 12);
  }
  p->o.layer = p->layer;
  if (is_limited) p->o.limit = p->limit, p->o.in_flight = p->in_flight;
}

static void expect_sound(const problem *p, const msc_balance *b) {
  int num = p->o.stages * p->o.chunks;
  assert_int_equal(b->first[0], 0);
  assert_int_equal(b->first[num], p->o.num_layers);
  for (int k = 0; k < num; k++) assert_true(b->first[k] < b->first[k + 1]);
  assert_int_equal(b->total, (total_of(p, b->first) + p->o.chunks - 1) / p->o.chunks);
}

static void test_all_cuts(void **state) {
  (void)state;
  int refused = 0, cut[16];
  problem p;
  srand(1);
  for (int n = 0; n < 1500; n++) {
    int chunks = n % 3 ? 1 : 2, stages = (int)between(1, chunks > 1 ? 3 : 5);
    fill(&p, (int)between(stages * chunks, 12), stages, chunks, n % 2 ? 30 : 0, n % 5 > 1);
    msc_balance b;
    cut[stages * chunks] = p.o.num_layers;
    int64_t least = least_total(&p, cut, 0);
    bool ok = msc_balance_make(ctx, &here, &p.o, &b);
    assert_int_equal(ok, least < INT64_MAX);
    refused += !ok;
    if (!ok) continue;
    expect_sound(&p, &b);
    assert_true(b.is_least);
    assert_int_equal(b.total, (least + chunks - 1) / chunks);
  }
  assert_in_range(refused, 20, 600);
}

/* The error names the missing bytes; with so much more memory the problem is solved. */
static void test_missing_bytes(void **state) {
  (void)state;
  problem p;
  fill(&p, 4, 2, 1, 0, true);
  for (int n = 0; n < 4; n++) p.layer[n] = (msc_layer){1, 0, 10, 1};
  p.limit[0] = p.limit[1] = 12;
  msc_balance b;
  assert_false(msc_balance_make(ctx, &here, &p.o, &b));
  assert_string_equal(msc_diags(ctx)->text, "4 layers on 2 stages do not fit: every stage needs 12 bytes more");
  p.limit[0] = p.limit[1] = 24;
  assert_true(msc_balance_make(ctx, &here, &p.o, &b));
  p.o.num_layers = 1;
  assert_false(msc_balance_make(ctx, &here, &p.o, &b));
}

/* A thousand layers on 64 stages, with borders and limits; and as four chunks of 16, where equal layers
 * come out equal. */
static void test_large(void **state) {
  (void)state;
  static problem p;
  msc_balance b;
  srand(2);
  fill(&p, 1000, 64, 1, 1000, true);
  for (int n = 0; n < 1000; n++) p.layer[n].time = between(1000, 9000);
  assert_true(msc_balance_make(ctx, &here, &p.o, &b));
  expect_sound(&p, &b);
  fill(&p, 128, 8, 4, 0, false);
  for (int n = 0; n < 128; n++) p.layer[n].time = 7;
  assert_true(msc_balance_make(ctx, &here, &p.o, &b));
  for (int i = 0; i < 8; i++) assert_int_equal(b.time[i], 16 * 7);
  fill(&p, 200, 8, 4, 50, false);
  assert_true(msc_balance_make(ctx, &here, &p.o, &b));
  expect_sound(&p, &b);
  int64_t all = 0, longest = 0;
  for (int i = 0; i < 8; i++) all += b.time[i], longest = b.time[i] > longest ? b.time[i] : longest;
  assert_true(longest <= all / 8 + 20); /* no further from equal than one layer */
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_all_cuts, fresh, done),
    cmocka_unit_test_setup_teardown(test_missing_bytes, fresh, done),
    cmocka_unit_test_setup_teardown(test_large, fresh, done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
