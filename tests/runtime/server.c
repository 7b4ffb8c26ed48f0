/* server.c: the values of a parameter server after the pushes of several workers. Sums of a step equal those of an
 * all_reduce bit for bit, for any number of workers and servers and any order of arrival; what a worker pulls is never
 * older than the staleness allows, over 100,000 pushes; pushes that come again change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/server/apply_pushes.h"
#include "tests/runtime/expect.h"

enum { ROWS = 700, COLUMNS = 3, ELEMS = ROWS * COLUMNS, MOST = 8, STEPS = 12 };

static uint64_t seed;

static uint32_t draw(uint32_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % below;
}

/* Sums of different order differ: magnitudes are from 2^-20 to 2^20. */
static float draw_value(void) {
  float v = (float)draw(1 << 24) / (1 << 24) - 0.5f;
  int scale = (int)draw(41) - 20;
  for (; scale > 0; scale--) v *= 2;
  for (; scale < 0; scale++) v /= 2;
  return v;
}

static void draw_order(int num, int *out) {
  for (int i = 0; i < num; i++) {
    int at = (int)draw((uint32_t)i + 1);
    out[i] = out[at], out[at] = i;
  }
}

/* ---- sums ---- */

/* A step of gradient descent with momentum, of rows that are not all there. */
typedef struct {
  float *momentum;
} descent;

static void descend(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  float *m = ((descent *)user)->momentum + first * COLUMNS, *v = values, rate = 1.0f / (float)(step + 3);
  for (int64_t i = 0; i < num * COLUMNS; i++) {
    m[i] = 0.9f * m[i] + ((const float *)gradient)[i];
    v[i] -= rate * m[i];
  }
}

/* The order of an all_reduce: the largest power of two of terms, and the rest. */
static float sum_tree(const float *term, int num) {
  int left = 1;
  if (num == 1) return term[0];
  while (2 * left < num) left *= 2;
  return sum_tree(term, left) + sum_tree(term + left, num - left);
}

static struct {
  float gradient[MOST][ELEMS];
  bool touched[MOST][ROWS];
  float sum[ELEMS], wanted[ELEMS], wanted_momentum[ELEMS], values[ELEMS], momentum[ELEMS];
  float packed[ELEMS];
  int64_t rows[ROWS];
} t;

static void draw_gradients(int workers, bool sparse) {
  for (int w = 0; w < workers; w++)
    for (int r = 0; r < ROWS; r++) {
      t.touched[w][r] = !sparse || draw(w ? 5 : 50) == 0;
      for (int c = 0; c < COLUMNS; c++) t.gradient[w][r * COLUMNS + c] = t.touched[w][r] ? draw_value() : 0;
    }
}

/* What one process with an all_reduce does; rows that nobody touched are left alone. */
static void descend_here(int workers, uint64_t step) {
  for (int r = 0; r < ROWS; r++) {
    bool any = false;
    for (int w = 0; w < workers; w++) any = any || t.touched[w][r];
    for (int c = 0; any && c < COLUMNS; c++) {
      float term[MOST];
      for (int w = 0; w < workers; w++) term[w] = t.gradient[w][r * COLUMNS + c];
      t.sum[r * COLUMNS + c] = sum_tree(term, workers);
    }
    if (any)
      descend(&(descent){t.wanted_momentum}, step, r, 1, t.sum + r * COLUMNS, t.wanted + r * COLUMNS);
  }
}

static mscrt_status *push_part(mscrt_shard *s, int worker, uint64_t step, int64_t begin, int64_t end, bool sparse) {
  mscrt_push p = {.worker = worker, .step = step, .num = end - begin, .gradient = t.gradient[worker] + begin * COLUMNS};
  mscrt_push_end taken = MSCRT_PUSH_EARLY;
  if (sparse) {
    p.num = 0, p.rows = t.rows, p.gradient = t.packed;
    for (int64_t r = begin; r < end; r++) {
      if (!t.touched[worker][r]) continue;
      memcpy(t.packed + p.num * COLUMNS, t.gradient[worker] + r * COLUMNS, COLUMNS * sizeof(float));
      t.rows[p.num++] = r - begin;
    }
  }
  mscrt_status *failure = mscrt_shard_push(s, &p, &taken);
  if (!failure) assert_int_equal(taken, MSCRT_PUSH_TAKEN);
  return failure;
}

static void train_on_servers(int workers, int servers, bool sparse) {
  mscrt_shard *shard[3];
  descent d[3];
  int64_t border[4] = {0};
  for (int i = 0; i < ELEMS; i++) t.wanted[i] = t.values[i] = draw_value();
  memset(t.momentum, 0, sizeof t.momentum), memset(t.wanted_momentum, 0, sizeof t.wanted_momentum);
  for (int i = 0; i < servers; i++) {
    border[i + 1] = i == servers - 1 ? ROWS : border[i] + 1 + draw(ROWS / 3);
    d[i].momentum = t.momentum + border[i] * COLUMNS;
    expect_ok(mscrt_shard_new(&(mscrt_shard_options){.dtype = MSCRT_F32, .rows = border[i + 1] - border[i],
                                                     .columns = COLUMNS, .workers = workers, .sync = true,
                                                     .values = t.values + border[i] * COLUMNS, .update = descend,
                                                     .user = &d[i]}, &shard[i]));
  }
  for (uint64_t step = 0; step < STEPS; step++) {
    draw_gradients(workers, sparse);
    for (int i = 0; i < servers; i++) {
      int order[MOST];
      draw_order(workers, order);
      for (int k = 0; k < workers; k++) {
        int w = order[k];
        assert_true(mscrt_shard_may_pull(shard[i], w));
        expect_ok(push_part(shard[i], w, step, border[i], border[i + 1], sparse));
        assert_int_equal(mscrt_shard_may_pull(shard[i], w), k == workers - 1);
        if (draw(2)) expect_ok(push_part(shard[i], w, step, border[i], border[i + 1], sparse));
      }
    }
    descend_here(workers, step);
    assert_memory_equal(t.values, t.wanted, sizeof t.values);
  }
  for (int i = 0; i < servers; i++) mscrt_shard_free(shard[i]);
}

static void sums_are_those_of_an_all_reduce(void **state) {
  (void)state;
  static const int workers[] = {1, 2, 3, 4, 7};
  for (int i = 0; i < 5; i++)
    for (int servers = 1; servers <= 3; servers++)
      for (int sparse = 0; sparse < 2; sparse++) train_on_servers(workers[i], servers, sparse);
}

/* ---- staleness ---- */

static void count(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  (void)user, (void)step, (void)first;
  for (int64_t i = 0; i < num * MOST; i++) ((float *)values)[i] += ((const float *)gradient)[i];
}

/* Every push adds 1 to the value of its worker, so values say which pushes they have seen; half the workers are slow.
 * The test counts for itself. */
static void push_at_random(int64_t staleness, int64_t pushes, int64_t *out_widest) {
  float seen[MOST] = {0};
  int64_t done[MOST] = {0}, total = 0;
  mscrt_shard *s;
  expect_ok(mscrt_shard_new(&(mscrt_shard_options){.dtype = MSCRT_F32, .rows = 1, .columns = MOST, .workers = MOST,
                                                   .staleness = staleness, .values = seen, .update = count}, &s));
  *out_widest = 0;
  while (total < pushes) {
    int w = (int)draw(MOST);
    if (w % 2 && draw(4)) continue;
    int64_t oldest = INT64_MAX;
    for (int i = 0; i < MOST; i++) {
      assert_true(seen[i] == (float)done[i]);
      if ((int64_t)seen[i] < oldest) oldest = (int64_t)seen[i];
    }
    bool allowed = staleness == MSCRT_NO_BOUND || done[w] - oldest <= staleness;
    assert_int_equal(mscrt_shard_may_pull(s, w), allowed);
    if (allowed && done[w] - oldest > *out_widest) *out_widest = done[w] - oldest;
    float gradient[MOST] = {0};
    gradient[w] = 1;
    mscrt_push_end end;
    mscrt_push p = {.worker = w, .step = (uint64_t)done[w], .num = 1, .gradient = gradient};
    expect_ok(mscrt_shard_push(s, &p, &end));
    assert_int_equal(end, allowed ? MSCRT_PUSH_TAKEN : MSCRT_PUSH_EARLY);
    done[w] += allowed, total += allowed;
    if (allowed && draw(8) == 0) expect_ok(mscrt_shard_push(s, &p, &end));
  }
  assert_int_equal(mscrt_shard_version(s), total);
  mscrt_shard_free(s);
}

static void staleness_is_never_exceeded(void **state) {
  (void)state;
  static const int64_t staleness[] = {0, 1, 3, 16};
  int64_t widest;
  for (int i = 0; i < 4; i++) {
    push_at_random(staleness[i], 100000, &widest);
    assert_int_equal(widest, staleness[i]);
  }
  push_at_random(MSCRT_NO_BOUND, 100000, &widest);
  assert_true(widest > 1000);
}

/* ---- what is not summed ---- */

typedef struct {
  const mscrt_shard *shard;
  int64_t seen[MOST]; /* by worker, what its last push had behind the values; -1: nothing */
} apart;

static void note_apart(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  apart *a = user;
  (void)step, (void)first, (void)num;
  ((float *)values)[0] += ((const float *)gradient)[0];
  for (int w = 0; w < 3; w++) {
    const void *own = mscrt_shard_apart(a->shard, w);
    a->seen[w] = -1;
    if (own) memcpy(&a->seen[w], own, sizeof a->seen[w]);
  }
}

static void push_apart(mscrt_shard *s, int worker, uint64_t step, float value, int64_t number) {
  char gradient[sizeof value + sizeof number];
  mscrt_push_end end;
  memcpy(gradient, &value, sizeof value);
  memcpy(gradient + sizeof value, &number, sizeof number);
  expect_ok(mscrt_shard_push(s, &(mscrt_push){.worker = worker, .step = step, .num = 1, .gradient = gradient}, &end));
  assert_int_equal(end, MSCRT_PUSH_TAKEN);
}

static void expect_seen(const apart *a, int64_t first, int64_t second, int64_t third) {
  assert_true(a->seen[0] == first && a->seen[1] == second && a->seen[2] == third);
}

static void updates_read_what_is_not_summed(void **state) {
  (void)state;
  float value = 0;
  uint64_t step;
  apart a;
  mscrt_shard_options o = {.dtype = MSCRT_F32, .rows = 1, .columns = 1, .apart_bytes = 8, .workers = 3, .sync = true,
                           .values = &value, .update = note_apart, .user = &a};
  mscrt_shard *s;
  expect_ok(mscrt_shard_new(&o, &s));
  a.shard = s;
  push_apart(s, 2, 0, 1, 30), push_apart(s, 0, 0, 2, 10), push_apart(s, 1, 0, 4, 20);
  expect_seen(&a, 10, 20, 30);
  expect_ok(mscrt_shard_leave(s, 0));
  push_apart(s, 1, 1, 8, 21), push_apart(s, 2, 1, 16, 31);
  expect_seen(&a, -1, 21, 31);
  assert_true(value == 31);
  expect_ok(mscrt_shard_join(s, 0, &step));
  mscrt_shard_free(s);
  o.sync = false, o.staleness = MSCRT_NO_BOUND;
  expect_ok(mscrt_shard_new(&o, &s));
  a.shard = s;
  push_apart(s, 1, 0, 1, 22);
  expect_seen(&a, -1, 22, -1);
  mscrt_shard_free(s);
  o.rows = 2;
  expect_text(mscrt_shard_new(&o, &s), MSCRT_ARGUMENT, "a server cannot hold 2 rows of 1 values");
}

/* ---- members ---- */

static mscrt_status *push_one(mscrt_shard *s, int worker, uint64_t step, float value) {
  float gradient[MOST] = {value};
  mscrt_push_end end;
  return mscrt_shard_push(s, &(mscrt_push){.worker = worker, .step = step, .num = 1, .gradient = gradient}, &end);
}

static void nobody_waits_for_who_has_left(void **state) {
  (void)state;
  float values[MOST] = {0};
  uint64_t step;
  mscrt_shard *s;
  expect_ok(mscrt_shard_new(&(mscrt_shard_options){.dtype = MSCRT_F32, .rows = 1, .columns = MOST, .workers = 3,
                                                   .sync = true, .values = values, .update = count}, &s));
  expect_ok(push_one(s, 0, 0, 1));
  expect_ok(push_one(s, 1, 0, 2));
  expect_ok(mscrt_shard_leave(s, 2));
  assert_true(mscrt_shard_version(s) == 1 && values[0] == 3);
  expect_ok(push_one(s, 1, 1, 4)); /* it is taken, so it counts though its worker leaves */
  expect_ok(mscrt_shard_leave(s, 1));
  assert_true(mscrt_shard_version(s) == 1 && !mscrt_shard_may_pull(s, 1));
  expect_ok(mscrt_shard_join(s, 2, &step));
  assert_int_equal(step, 1);
  expect_ok(push_one(s, 0, 1, 8));
  assert_true(mscrt_shard_version(s) == 1);
  expect_ok(push_one(s, 2, 1, 16));
  assert_true(mscrt_shard_version(s) == 2 && values[0] == 31);
  expect_ok(mscrt_shard_join(s, 1, &step));
  assert_int_equal(step, 2);
  expect_ok(push_one(s, 1, 2, 32));
  expect_ok(mscrt_shard_join(s, 1, &step));
  assert_int_equal(step, 3);
  expect_text(mscrt_shard_join(s, 3, &step), MSCRT_ARGUMENT, "worker 3 joins, and there is room for 3");
  expect_text(mscrt_shard_leave(s, 3), MSCRT_ARGUMENT, "worker 3 leaves, which is none of this job");
  mscrt_shard_free(s);
}

/* Two workers have pushed the step of version 1, of which one is lost: all run it again, also who had left. */
static void workers_begin_again_at_a_version(void **state) {
  (void)state;
  float values[MOST] = {0};
  mscrt_shard *s;
  expect_ok(mscrt_shard_new(&(mscrt_shard_options){.dtype = MSCRT_F32, .rows = 1, .columns = MOST, .workers = 3,
                                                   .sync = true, .values = values, .update = count}, &s));
  expect_ok(mscrt_shard_leave(s, 2));
  expect_ok(push_one(s, 0, 0, 1));
  expect_ok(push_one(s, 1, 0, 2));
  expect_ok(push_one(s, 0, 1, 64));
  mscrt_shard_begin(s, 1);
  assert_true(mscrt_shard_num_members(s) == 3 && mscrt_shard_version(s) == 1 && mscrt_shard_may_pull(s, 0));
  for (int w = 0; w < 3; w++) expect_ok(push_one(s, w, 1, 4));
  assert_true(mscrt_shard_version(s) == 2 && values[0] == 3 + 12);
  mscrt_shard_begin(s, 0);
  expect_ok(push_one(s, 2, 0, 8));
  assert_true(mscrt_shard_version(s) == 0 && mscrt_shard_may_pull(s, 1) && !mscrt_shard_may_pull(s, 2));
  mscrt_shard_free(s);
}

static void bad_pushes_change_nothing(void **state) {
  (void)state;
  float values[4 * MOST] = {0}, gradient[4 * MOST] = {1};
  mscrt_push_end end;
  mscrt_shard *s;
  mscrt_shard_options o = {.dtype = MSCRT_F32, .rows = 4, .columns = MOST, .workers = 2, .values = values,
                           .update = count};
  expect_ok(mscrt_shard_new(&o, &s));
  static const struct {
    int worker;
    uint64_t step;
    int64_t num, rows[3];
    const char *text;
  } bad[] = {{2, 0, 1, {0}, "worker 2 pushes, which is none of this job"},
             {-1, 0, 1, {0}, "worker -1 pushes"},
             {0, 1, 1, {0}, "worker 0 pushes step 1, and has not pushed step 0"},
             {0, 0, -1, {0}, "pushes -1 rows of 4"},
             {0, 0, 5, {0}, "pushes 5 rows of 4"},
             {0, 0, 2, {1, 1}, "pushes row 1: rows ascend, below 4"},
             {0, 0, 2, {0, 4}, "pushes row 4"},
             {0, 0, 1, {-1}, "pushes row -1"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    mscrt_push p = {bad[i].worker, bad[i].step, bad[i].num, bad[i].rows, gradient};
    expect_text(mscrt_shard_push(s, &p, &end), MSCRT_ARGUMENT, bad[i].text);
  }
  expect_text(mscrt_shard_push(s, &(mscrt_push){.num = 3, .gradient = gradient}, &end), MSCRT_ARGUMENT,
              "pushes 3 rows of 4");
  assert_true(mscrt_shard_version(s) == 0 && values[0] == 0);
  mscrt_shard_free(s);
  o.workers = 0;
  expect_text(mscrt_shard_new(&o, &s), MSCRT_ARGUMENT, "0 workers push to a server: 1 to 256 may");
  o.workers = 2, o.sync = true, o.staleness = 1;
  expect_text(mscrt_shard_new(&o, &s), MSCRT_ARGUMENT, "a staleness of 1 is impossible where workers are synchronous");
  o.staleness = 0, o.dtype = MSCRT_I32;
  expect_text(mscrt_shard_new(&o, &s), MSCRT_ARGUMENT, "values are floats");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_those_of_an_all_reduce),
      cmocka_unit_test(staleness_is_never_exceeded),
      cmocka_unit_test(updates_read_what_is_not_summed),
      cmocka_unit_test(nobody_waits_for_who_has_left),
      cmocka_unit_test(workers_begin_again_at_a_version),
      cmocka_unit_test(bad_pushes_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
