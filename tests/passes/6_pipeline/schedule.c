/* schedule.c: checks every kind of schedule for all small sizes: against closed forms, the number of slots, and the
 * proof of progress against the graph of all waits. */
#include "passes/6_pipeline/schedule/schedule.h"
#include "tests/passes/6_pipeline/fresh.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The same cost on all virtual stages, in a row for at most 64 x 8. */
static const msc_section_cost *cost_of(int64_t f, int64_t b, int64_t w, int64_t hop) {
  static msc_section_cost cost[512];
  for (int k = 0; k < 512; k++) cost[k] = (msc_section_cost){f, b, w, hop, 1, 1};
  return cost;
}

static msc_schedule make(msc_schedule_kind kind, int p, int v, int m, const msc_section_cost *cost) {
  msc_schedule s;
  msc_schedule_options o = {.kind = kind, .stages = p, .chunks = v, .micro_batches = m, .cost = cost};
  if (!msc_schedule_make(ctx, &here, &o, &s))
    fail_msg("%s p=%d v=%d m=%d: %s", msc_schedule_name(kind), p, v, m, msc_diags(ctx)->text);
  return s;
}

/* ---- the graph of all waits, edge by edge ---- */

typedef struct {
  int num, num_edges, *from, *to;
} graph;

static void edge(graph *g, int from, int to) {
  g->from[g->num_edges] = from;
  g->to[g->num_edges++] = to;
}

static bool is_acyclic(const graph *g) {
  int *waits = calloc((size_t)g->num, sizeof *waits), *first = calloc((size_t)g->num + 1, sizeof *first),
      *edge_of = malloc(sizeof *edge_of * (size_t)g->num_edges);
  int *ready = malloc(sizeof *ready * (size_t)g->num), num_ready = 0, passed = 0;
  for (int e = 0; e < g->num_edges; e++) waits[g->to[e]]++, first[g->from[e] + 1]++;
  for (int i = 0; i < g->num; i++) first[i + 1] += first[i];
  for (int e = 0; e < g->num_edges; e++) edge_of[first[g->from[e]]++] = e;
  for (int i = g->num; i > 0; i--) first[i] = first[i - 1];
  first[0] = 0;
  for (int i = 0; i < g->num; i++)
    if (!waits[i]) ready[num_ready++] = i;
  while (num_ready) {
    int i = ready[--num_ready];
    passed++;
    for (int e = first[i]; e < first[i + 1]; e++)
      if (!--waits[g->to[edge_of[e]]]) ready[num_ready++] = g->to[edge_of[e]];
  }
  bool ok = passed == g->num;
  free(waits), free(first), free(edge_of), free(ready);
  return ok;
}

/* Entries are numbered stage by stage; those of a work, virtual stage and micro-batch are found in `node`. */
static int node_at(const msc_schedule *s, const int *node, int work, int k, int j) {
  return node[(k * s->micro_batches + j) * 3 + work];
}

static void add_lists(const msc_schedule *s, graph *g, int *node) {
  for (int i = 0; i < s->stages; i++)
    for (int n = 0; n < s->stage[i].num_entries; n++) {
      const msc_entry *e = &s->stage[i].entry[n];
      node[(msc_virtual_stage(s, i, e->chunk) * s->micro_batches + e->micro_batch) * 3 + (int)e->work] = g->num;
      if (n) edge(g, g->num - 1, g->num);
      g->num++;
    }
}

/* Messages of a channel in the order in which they are sent, each a node; false when they are received in another. */
static bool add_channel(const msc_schedule *s, graph *g, const int *node, const msc_channel *c) {
  int *sender = malloc(sizeof *sender * (size_t)c->num_messages),
      *receiver = malloc(sizeof *receiver * (size_t)c->num_messages), num = 0, base = g->num;
  const msc_stage_list *l = &s->stage[c->from];
  for (int n = 0; n < l->num_entries; n++) {
    const msc_entry *e = &l->entry[n];
    int k = msc_virtual_stage(s, c->from, e->chunk), to = c->backward ? k - 1 : k + 1;
    if ((int)e->work != c->backward || to < 0 || to >= s->stages * s->chunks || s->place[to] != c->to) continue;
    sender[num] = node_at(s, node, (int)e->work, k, e->micro_batch);
    receiver[num++] = node_at(s, node, (int)e->work, to, e->micro_batch);
  }
  bool ok = num == c->num_messages;
  for (int n = 0; n < num; n++) {
    ok = ok && (!n || receiver[n] > receiver[n - 1]);
    edge(g, sender[n], base + n);
    edge(g, base + n, receiver[n]);
    if (n) edge(g, base + n - 1, base + n);
    if (n >= c->depth) edge(g, receiver[n - c->depth], base + n), edge(g, base + n - c->depth, sender[n]);
  }
  g->num += num;
  free(sender), free(receiver);
  return ok;
}

static bool cannot_block(const msc_schedule *s) {
  int cells = s->stages * s->chunks * s->micro_batches, works = msc_schedule_is_split(s->kind) ? 3 : 2;
  int *node = calloc((size_t)cells * 3, sizeof *node);
  graph g = {0, 0, malloc(sizeof(int) * (size_t)cells * 20), malloc(sizeof(int) * (size_t)cells * 20)};
  bool ok = true;
  add_lists(s, &g, node);
  for (int c = 0; c < cells; c++) {
    int k = c / s->micro_batches, j = c % s->micro_batches;
    for (int w = 1; w < works; w++) edge(&g, node_at(s, node, w - 1, k, j), node_at(s, node, w, k, j));
    if (!k || s->place[k - 1] != s->place[k]) continue;
    edge(&g, node_at(s, node, MSC_FORWARD, k - 1, j), node_at(s, node, MSC_FORWARD, k, j));
    edge(&g, node_at(s, node, MSC_BACKWARD, k, j), node_at(s, node, MSC_BACKWARD, k - 1, j));
  }
  for (int c = 0; c < s->num_channels; c++) ok = add_channel(s, &g, node, &s->channel[c]) && ok;
  ok = ok && is_acyclic(&g);
  free(node), free(g.from), free(g.to);
  return ok;
}

/* ---- what must hold of every schedule ---- */

/* As many slots as values are alive at once, in the list's order. */
static void expect_fewest_slots(const msc_schedule *s) {
  static const msc_work takes[] = {MSC_FORWARD, MSC_FORWARD, MSC_BACKWARD},
                        gives[] = {MSC_BACKWARD, MSC_WEIGHT, MSC_WEIGHT};
  for (int i = 0; i < s->stages; i++)
    for (int c = 0; c < (msc_schedule_is_split(s->kind) ? MSC_NUM_SLOTS : 1); c++) {
      int alive = 0, most = 0;
      for (int n = 0; n < s->stage[i].num_entries; n++) {
        if (s->stage[i].entry[n].work == takes[c] && ++alive > most) most = alive;
        if (s->stage[i].entry[n].work == gives[c]) alive--;
      }
      assert_int_equal(s->stage[i].num_slots[c], most);
    }
}

static void expect_sound(msc_schedule *s) {
  const char *why;
  if (!msc_schedule_check(msc_context_arena(ctx), s, &why))
    fail_msg("%s p=%d v=%d m=%d: %s", msc_schedule_name(s->kind), s->stages, s->chunks, s->micro_batches, why);
  if (!cannot_block(s))
    fail_msg("%s p=%d v=%d m=%d can block", msc_schedule_name(s->kind), s->stages, s->chunks, s->micro_batches);
  expect_fewest_slots(s);
}

static void expect_in_flight(const msc_schedule *s) {
  int p = s->stages, v = s->chunks, m = s->micro_batches;
  for (int i = 0; i < p; i++) {
    int64_t ahead = s->kind == MSC_SCHEDULE_GPIPE ? m : s->kind == MSC_SCHEDULE_ZB_H2 ? 2 * (p - i) - 1 : p - i;
    if (s->kind == MSC_SCHEDULE_INTERLEAVED) ahead = 2 * (p - i - 1) + (v - 1) * p + 1;
    assert_int_equal(s->stage[i].in_flight, least(ahead, v * m));
  }
}

static void test_all_small(void **state) {
  (void)state;
  for (int p = 1; p <= 8; p++)
    for (int m = 1; m <= 32; m++) {
      const msc_section_cost *cost = cost_of(2, 3, 1, 0);
      for (int kind = 0; kind < MSC_SCHEDULE_ZB_AUTO; kind++)
        for (int v = 1; v <= (kind == MSC_SCHEDULE_INTERLEAVED ? 4 : 1); v++) {
          msc_schedule s = make((msc_schedule_kind)kind, p, v, m, cost);
          expect_sound(&s);
          if (kind != MSC_SCHEDULE_INTERLEAVED || m % p == 0) expect_in_flight(&s);
          /* the least */
          if (!msc_schedule_is_split(s.kind))
            assert_int_equal(s.makespan, m < p ? (v * p + m - 1) * 6 : (v * m + p - 1) * 6);
        }
      done(NULL), fresh(NULL);
    }
}

/* zb-auto with two chunks: down the stages and up again, where neighbours on one stage send nothing. */
static void test_v(void **state) {
  (void)state;
  for (int p = 1; p <= 6; p++)
    for (int m = 1; m <= 13; m += 3)
      for (int room = 1; room <= p; room += 2) {
        int64_t limit[6];
        for (int i = 0; i < p; i++) limit[i] = 2 * room;
        msc_schedule s;
        msc_schedule_options o = {.kind = MSC_SCHEDULE_ZB_AUTO,
                                  .stages = p,
                                  .chunks = 2,
                                  .micro_batches = m,
                                  .cost = cost_of(2, 3, 2, 1),
                                  .limit = limit,
                                  .nodes = 20000};
        if (!msc_schedule_make(ctx, &here, &o, &s))
          fail_msg("V p=%d m=%d room=%d: %s", p, m, room, msc_diags(ctx)->text);
        expect_sound(&s);
        for (int i = 0; i < p; i++) {
          assert_int_equal(s.place[2 * p - 1 - i], i);
          assert_true(s.stage[i].memory <= limit[i]);
        }
        assert_true(s.bound <= s.makespan);
        done(NULL), fresh(NULL);
      }
}

/* Swaps two neighbours of a list, or takes buffers from a channel: check and graph must agree about the result. */
static void test_broken(void **state) {
  (void)state;
  int refused = 0;
  srand(1);
  for (int n = 0; n < 3000; n++) {
    int kind = rand() % MSC_SCHEDULE_ZB_AUTO, v = kind == MSC_SCHEDULE_INTERLEAVED ? 1 + rand() % 3 : 1;
    msc_schedule s = make((msc_schedule_kind)kind, 1 + rand() % 5, v, 1 + rand() % 7, cost_of(2, 3, 1, 1));
    const char *why;
    for (int swaps = rand() % 4; swaps >= 0; swaps--) {
      msc_stage_list *l = &s.stage[rand() % s.stages];
      int at = rand() % (l->num_entries - 1);
      msc_entry e = l->entry[at];
      l->entry[at] = l->entry[at + 1], l->entry[at + 1] = e;
    }
    for (int c = 0; c < s.num_channels; c++)
      if (rand() % 2) s.channel[c].depth = 1;
    if (msc_schedule_time(msc_context_arena(ctx), &s, cost_of(1, 1, 1, 0)))
      msc_schedule_slots(msc_context_arena(ctx), &s, cost_of(1, 1, 1, 0));
    else s.stage[0].num_slots[0] = -1; /* the lists wait for each other: there is no colouring */
    bool ok = msc_schedule_check(msc_context_arena(ctx), &s, &why);
    assert_int_equal(ok, cannot_block(&s));
    refused += !ok;
    if (n % 100 == 0) done(NULL), fresh(NULL);
  }
  assert_in_range(refused, 1000, 2500);
}

/* Both stages begin with what the other must send first. */
static void test_circle_is_told(void **state) {
  (void)state;
  msc_schedule s = make(MSC_SCHEDULE_1F1B, 2, 1, 2, NULL);
  const char *why;
  msc_entry e = s.stage[0].entry[1]; /* F F B B becomes F B F B, and F B F B becomes F F B B */
  s.stage[0].entry[1] = s.stage[0].entry[2], s.stage[0].entry[2] = e;
  e = s.stage[1].entry[1];
  s.stage[1].entry[1] = s.stage[1].entry[2], s.stage[1].entry[2] = e;
  msc_schedule_slots(msc_context_arena(ctx), &s, cost_of(1, 1, 1, 0));
  assert_false(msc_schedule_check(msc_context_arena(ctx), &s, &why));
  assert_string_equal(why,
                      "B of micro-batch 0, chunk 0, on stage 0, which waits for F of micro-batch 1, chunk 0, on stage "
                      "1, which waits for the first");
}

/* A slot given to two micro-batches at once, an entry twice, one of another stage's chunks. */
static void test_wrong_entries(void **state) {
  (void)state;
  const char *why;
  msc_schedule s = make(MSC_SCHEDULE_ZB_H1, 3, 1, 4, NULL);
  s.stage[0].entry[1].slot[MSC_SLOT_FW] = 0;
  assert_false(msc_schedule_check(msc_context_arena(ctx), &s, &why));
  assert_string_equal(why, "F of micro-batch 1, chunk 0, on stage 0 finds slot 0 in use by others");
  s = make(MSC_SCHEDULE_GPIPE, 3, 1, 4, NULL);
  s.stage[1].entry[7].micro_batch = 2;
  assert_false(msc_schedule_check(msc_context_arena(ctx), &s, &why));
  s = make(MSC_SCHEDULE_GPIPE, 3, 1, 4, NULL);
  s.stage[1].entry[7].chunk = 1;
  assert_false(msc_schedule_check(msc_context_arena(ctx), &s, &why));
  assert_string_equal(why, "entry 7 of stage 1 is nothing the stage has");
}

/* A hop delays the receiver only: 1f1b of 2 stages, 3 micro-batches, F 2, B 4, hop 1. */
static void test_times(void **state) {
  (void)state;
  msc_schedule s = make(MSC_SCHEDULE_1F1B, 2, 1, 3, cost_of(2, 3, 1, 1));
  static const int64_t start[2][6] = {{0, 2, 10, 14, 16, 24}, {3, 5, 9, 11, 17, 19}};
  for (int i = 0; i < 2; i++)
    for (int n = 0; n < 6; n++) assert_int_equal(s.stage[i].entry[n].start, start[i][n]);
  assert_int_equal(s.makespan, 28);
  assert_int_equal(s.wall, 28);
}

static void test_large(void **state) {
  (void)state;
  msc_schedule s = make(MSC_SCHEDULE_1F1B, 64, 1, 512, cost_of(1, 2, 0, 0));
  assert_int_equal(s.makespan, 575 * 3);
  s = make(MSC_SCHEDULE_INTERLEAVED, 64, 4, 256, cost_of(1, 2, 0, 0));
  assert_int_equal(s.makespan, (4 * 256 + 63) * 3);
  s = make(MSC_SCHEDULE_ZB_H2, 64, 1, 256, cost_of(1, 1, 1, 0));
  assert_int_equal(s.makespan, 3 * 256);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_times, fresh, done),
    cmocka_unit_test_setup_teardown(test_all_small, fresh, done),
    cmocka_unit_test_setup_teardown(test_v, fresh, done),
    cmocka_unit_test_setup_teardown(test_broken, fresh, done),
    cmocka_unit_test_setup_teardown(test_circle_is_told, fresh, done),
    cmocka_unit_test_setup_teardown(test_wrong_entries, fresh, done),
    cmocka_unit_test_setup_teardown(test_large, fresh, done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
