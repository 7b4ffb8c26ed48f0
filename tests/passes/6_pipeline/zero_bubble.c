/* zero_bubble.c: checks zb-auto against all orders where there are few, against the rules (it is never worse), and
 * on published settings. */
#include "passes/6_pipeline/schedule/schedule.h"
#include "tests/passes/6_pipeline/fresh.h"

enum { MAX_STAGES = 32, MOST = 4 }; /* micro-batches for which all orders are tried */

typedef struct {
  int p, m;
  msc_section_cost cost[MAX_STAGES];
  int64_t limit[MAX_STAGES];
} setting;

static msc_schedule make(const setting *t, msc_schedule_kind kind, int64_t nodes) {
  msc_schedule s;
  msc_schedule_options o = {.kind = kind,
                            .stages = t->p,
                            .chunks = 1,
                            .micro_batches = t->m,
                            .cost = t->cost,
                            .limit = t->limit,
                            .nodes = nodes};
  if (!msc_schedule_make(ctx, &here, &o, &s)) fail_msg("p=%d m=%d: %s", t->p, t->m, msc_diags(ctx)->text);
  return s;
}

static void expect_within_limit(const setting *t, const msc_schedule *s) {
  for (int i = 0; i < t->p; i++) assert_true(s->stage[i].memory <= t->limit[i]);
  assert_true(s->bound <= s->makespan);
}

/* ---- all orders ---- */

typedef struct {
  const setting *t;
  msc_schedule s;
  int num[MAX_STAGES];
  char (*string[MAX_STAGES])[3 * MOST]; /* of every stage: the strings within its limit */
  int64_t best;
} brute;

static void add_strings(brute *b, int stage, char *text, int f, int k, int w) {
  const msc_section_cost *c = &b->t->cost[stage];
  int at = f + k + w, m = b->t->m;
  if ((f - k) * c->kept + (k - w) * c->kept_for_weight > b->t->limit[stage]) return;
  if (at == 3 * m) {
    b->string[stage] = realloc(b->string[stage], sizeof *b->string[stage] * (size_t)(b->num[stage] + 1));
    memcpy(b->string[stage][b->num[stage]++], text, (size_t)(3 * m));
    return;
  }
  if (f < m) text[at] = MSC_FORWARD, add_strings(b, stage, text, f + 1, k, w);
  if (k < f) text[at] = MSC_BACKWARD, add_strings(b, stage, text, f, k + 1, w);
  if (w < k) text[at] = MSC_WEIGHT, add_strings(b, stage, text, f, k, w + 1);
}

static void try_all(brute *b, int stage) {
  if (stage == b->t->p) {
    msc_arena *scratch = msc_arena_new(ctx);
    if (msc_schedule_time(scratch, &b->s, b->t->cost) && b->s.makespan < b->best) b->best = b->s.makespan;
    msc_arena_free(scratch);
    return;
  }
  for (int n = 0; n < b->num[stage]; n++) {
    int count[3] = {0};
    for (int i = 0; i < 3 * b->t->m; i++) {
      msc_entry *e = &b->s.stage[stage].entry[i];
      e->work = (msc_work)b->string[stage][n][i];
      e->micro_batch = count[e->work]++;
    }
    try_all(b, stage + 1);
  }
}

static int64_t least_makespan(const setting *t) {
  brute b = {.t = t, .s = make(t, MSC_SCHEDULE_ZB_H1, 0), .best = INT64_MAX};
  char text[3 * MOST];
  for (int i = 0; i < t->p; i++) add_strings(&b, i, text, 0, 0, 0);
  try_all(&b, 0);
  for (int i = 0; i < t->p; i++) free(b.string[i]);
  return b.best;
}

static int64_t between(int64_t low, int64_t high) { return low + rand() % (high - low + 1); }

static setting any_setting(int p, int m, bool alike) {
  setting t = {.p = p, .m = m};
  int64_t kept_for_weight = between(0, 10), micro_batches = between(10, 20 * p);
  for (int i = 0; i < p; i++) {
    t.cost[i] = (msc_section_cost){between(5, 20), between(5, 20), between(0, 20), between(0, 5), 10, kept_for_weight};
    if (alike && i) t.cost[i] = t.cost[0];
    t.limit[i] = micro_batches;
  }
  return t;
}

static void test_all_orders(void **state) {
  (void)state;
  static const struct {
    int p, m, times;
  } sizes[] = {{1, 4, 10}, {2, 2, 40}, {2, 3, 40}, {2, 4, 2}, {3, 2, 30}, {3, 3, 6}};
  int optimal = 0, all = 0;
  srand(1);
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int n = 0; n < sizes[k].times * (getenv("MSC_TEST_SLOW") ? 20 : 1); n++) {
      setting t = any_setting(sizes[k].p, sizes[k].m, n % 2);
      msc_schedule s = make(&t, MSC_SCHEDULE_ZB_AUTO, 100000);
      int64_t least = least_makespan(&t);
      expect_within_limit(&t, &s);
      if (s.bound > least) fail_msg("p=%d m=%d: bound %ld above %ld", t.p, t.m, (long)s.bound, (long)least);
      optimal += s.makespan == least, all++;
      if (s.makespan > least + least / 50)
        fail_msg("p=%d m=%d: %ld instead of %ld", t.p, t.m, (long)s.makespan, (long)least);
      done(NULL), fresh(NULL);
    }
  assert_true(optimal >= all - all / 500); /* all, of the few of the quick tier */
}

/* ---- larger ones ---- */

static setting alike(int p, int m, double f, double b, double w, double hop, double limit, double kept_for_weight) {
  setting t = {.p = p, .m = m};
  for (int i = 0; i < p; i++) {
    t.cost[i] = (msc_section_cost){(int64_t)(f * 1e6),
                                   (int64_t)(b * 1e6),
                                   (int64_t)(w * 1e6),
                                   (int64_t)(hop * 1e6),
                                   1000000,
                                   (int64_t)(kept_for_weight * 1e6)};
    t.limit[i] = (int64_t)(limit * 1e6);
  }
  return t;
}

/* Qi et al. 2024, table 5: times in ms, rates of ZB-1p and ZB-2p.  None of ours can be lessened: all are
 * at the bound. */
static void test_published(void **state) {
  (void)state;
  static const struct { int p, m; double f, b, w, hop, kept_for_weight, rate[2]; } rows[] = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.37, {0.1585, 0.0433}},  {8, 64, 18.546, 18.097, 9.321, 0.762, 0.37, {0.0674,
     0.0026}},
    {8, 24, 29.718, 29.444, 19.927, 0.527, 0.44, {0.1323, 0.0029}}, {8, 32, 29.802, 29.428, 19.53, 0.577, 0.44, {0.1045,
     0.0022}},
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.44, {0.1088, 0.0054}}, {32, 128, 10.408, 10.204, 7.703, 0.408, 0.44,
     {0.1106, 0.0029}},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    for (int twice = 0; twice < 2; twice++) {
      setting t = alike(rows[k].p, rows[k].m, rows[k].f, rows[k].b, rows[k].w, rows[k].hop, (1 + twice) * rows[k].p,
                        rows[k].kept_for_weight);
      msc_schedule s = make(&t, MSC_SCHEDULE_ZB_AUTO, 0);
      double work = (double)(t.m * (t.cost[0].forward + t.cost[0].backward + t.cost[0].weight));
      expect_within_limit(&t, &s);
      assert_true(1 - work / (double)s.makespan <= rows[k].rate[twice] + 1e-4);
      assert_int_equal(s.makespan, s.bound);
      done(NULL), fresh(NULL);
    }
}

/* Never worse than the rules where these fit, and the same each time. */
static void test_rules(void **state) {
  (void)state;
  srand(2);
  for (int n = 0; n < 60; n++) {
    setting t = any_setting((int)between(1, 10), (int)between(1, 24), n % 2);
    for (int i = 0; i < t.p; i++) t.limit[i] = 10 * (n % 3 ? t.p : 2 * t.p - 1);
    msc_schedule s = make(&t, MSC_SCHEDULE_ZB_AUTO, 20000), again = make(&t, MSC_SCHEDULE_ZB_AUTO, 20000);
    expect_within_limit(&t, &s);
    assert_true(s.makespan <= make(&t, MSC_SCHEDULE_ZB_H1, 0).makespan);
    if (n % 3 == 0) assert_true(s.makespan <= make(&t, MSC_SCHEDULE_ZB_H2, 0).makespan);
    for (int i = 0; i < t.p; i++)
      assert_memory_equal(s.stage[i].entry, again.stage[i].entry, sizeof(msc_entry) * (size_t)s.stage[i].num_entries);
    done(NULL), fresh(NULL);
  }
}

/* No room for one micro-batch on stage 1. */
static void test_no_room(void **state) {
  (void)state;
  setting t = alike(3, 4, 1, 1, 1, 0, 2, 0.5);
  t.limit[1] = 999999;
  msc_schedule s;
  msc_schedule_options o = {
      .kind = MSC_SCHEDULE_ZB_AUTO, .stages = 3, .chunks = 1, .micro_batches = 4, .cost = t.cost, .limit = t.limit};
  assert_false(msc_schedule_make(ctx, &here, &o, &s));
  assert_string_equal(msc_diags(ctx)->text, "stage 1: one micro-batch takes 1000000 bytes and the limit is 999999");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_all_orders, fresh, done),
    cmocka_unit_test_setup_teardown(test_published, fresh, done),
    cmocka_unit_test_setup_teardown(test_rules, fresh, done),
    cmocka_unit_test_setup_teardown(test_no_room, fresh, done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
