/* lost_ranks.c: ranks that add up one value step by step in; what the others report when a rank dies, stops, falls
 * silent, leaves or fails, and when one that does not belong to them wants to join. */
#include <stdio.h>
#include <string.h>

#include "tests/runtime/transports.h"

/* ---- ranks that are lost ---- */

/* All reduce `elems` floats until something happens, or in pairs every two; `odd_one` does as told at step 20. */
static int train(const place *p, int64_t elems, int timeout_ms, int odd_one, const char *what) {
  bool in_pairs = !strcmp(what, "kill, and stop the other pair");
  msc_box_mesh mesh = {.num_axes = 2, .size = {in_pairs ? p->ranks / 2 : 1, in_pairs ? 2 : p->ranks}};
  layout_room from, to;
  mscrt_partitions parts;
  mscrt_exchange e;
  mscrt_comm *comm = NULL;
  mscrt_pool *pool = NULL;
  mscrt_collective c = {.verb = MSC_ALL_REDUCE, .rank = 1, .shape = {elems}};
  c.from = layout_of(&mesh, "|1", 1, &from);
  c.to = layout_of(&mesh, "", 1, &to);
  mscrt_comm_options o = {.rank = p->rank,
                          .ranks = p->ranks,
                          .address = p->address,
                          .timeout_ms = timeout_ms,
                          .silence_ms = timeout_ms < 20000 ? 20000 : 2000,
                          .arena_bytes = ARENA,
                          .host_number = host_of(p->rank)};
  mscrt_status *s = mscrt_partitions_new(p->ranks, &parts);
  if (!s) s = mscrt_exchange_make(&mesh, p->rank, &c, &parts, comm_api->sends, &e);
  o.num_partitions = parts.num;
  if (!s) s = mscrt_pool_new(1, false, NULL, NULL, &pool);
  if (!s) s = comm_api->open(&o, &comm);
  for (int64_t step = 0; !s; step++) {
    mscrt_site site = {"dense1.gradient", "model.py:31", step};
    if (step == 20 && in_pairs && p->rank == 2) raise(SIGSTOP);
    if (step == 20 && p->rank == odd_one) {
      if (!strcmp(what, "stop")) raise(SIGSTOP);
      if (!strcmp(what, "kill") || in_pairs) raise(SIGKILL);
      if (!strcmp(what, "leave")) break;
      if (!strcmp(what, "fail")) {
        s = mscrt_fail(MSCRT_INPUT, "index 77 is out of range");
        comm_api->abort(comm, mscrt_status_text(s));
        break;
      }
    }
    mscrt_ticket ticket;
    mscrt_part part = {.e = &e, .dst = (char *)comm_api->arena(comm) + ARENA / 2};
    s = comm_api->run(comm, pool, 1, &part, &site, &ticket);
    if (!s && comm_api->lingers(1, &part)) s = comm_api->finish(comm, &e, ticket, &site);
  }
  int code = say(p, s);
  comm_api->close(comm);
  mscrt_pool_free(pool);
  mscrt_exchange_free(&e);
  mscrt_partitions_free(&parts);
  return code;
}

static int killed(const place *p) { return train(p, 50, 20000, 2, "kill"); }
static int killed_large(const place *p) { return train(p, 100000, 20000, 0, "kill"); }
static int stopped(const place *p) { return train(p, 50, 2000, 1, "stop"); }
static int silent(const place *p) { return train(p, 50, 20000, 1, "stop"); }
static int silent_leader(const place *p) { return train(p, 100000, 20000, 0, "stop"); }
static int left(const place *p) { return train(p, 50, 20000, 3, "leave"); }
static int killed_and_stopped(const place *p) { return train(p, 50, 20000, 0, "kill, and stop the other pair"); }
static int failed(const place *p) { return train(p, 50, 20000, 0, "fail"); }

static void expect_others(rank_fn *fn, int odd_one, const char *words, bool stopped_one) {
  job j;
  int64_t start = mscrt_now_ns();
  start_job(&j, 4, fn);
  if (stopped_one) {
    for (int r = 0; r < 4; r++)
      if (r != odd_one) waitpid(j.pid[r], &j.exit[r], 0);
    kill(j.pid[odd_one], SIGKILL);
  }
  for (int r = 0; r < 4; r++) {
    ssize_t n = read(j.say[r], j.words[r], sizeof j.words[r] - 1);
    close(j.say[r]);
    assert_true(n >= 0);
    if (!stopped_one || r == odd_one) waitpid(j.pid[r], &j.exit[r], 0);
  }
  assert_true(mscrt_now_ns() - start < (int64_t)15000000000); /* before the limit of 20 s */
  for (int r = 0; r < 4; r++) {
    if (r == odd_one) continue;
    if (!WIFEXITED(j.exit[r]) || WEXITSTATUS(j.exit[r]) != 3)
      fail_msg("rank %d ended with %#x: %s", r, j.exit[r], j.words[r]);
    if (!strstr(j.words[r], words) ||
        !strstr(j.words[r], "all_reduce dense1.gradient at model.py:31 (ranks 0,1,2,3)") ||
        !(strstr(j.words[r], "step 21") || strstr(j.words[r], "step 20"))) /* the slowest are a step behind */
      fail_msg("rank %d says: %s", r, j.words[r]);
  }
}

static void others_name_the_killed(void **state) {
  (void)state;
  expect_others(killed, 2, "rank 2 is gone", false);
  expect_others(killed_large, 0, "rank 0 is gone", false);
}

static void others_name_the_stopped(void **state) {
  (void)state;
  expect_others(stopped, 1, "rank 1 is missing (at step 20), waited 2000 ms", true);
}

/* Also by one that waits for another, who stands still and so tells nobody. */
static void a_stopped_one_hides_no_loss(void **state) {
  (void)state;
  if (comm_api != &mscrt_comm_local) return; /* there all hear of a loss from the leader */
  job j;
  char words[1024];
  start_job(&j, 4, killed_and_stopped);
  ssize_t n = read(j.say[3], words, sizeof words - 1);
  kill(j.pid[2], SIGKILL);
  end_job(&j);
  words[n > 0 ? n : 0] = '\0';
  if (!strstr(words, "rank 0 is gone")) fail_msg("rank 3 says: %s", words);
}

/* Without waiting for the end of its time limit, since no heartbeats come. */
static void others_name_the_silent(void **state) {
  (void)state;
  if (comm_api == &mscrt_comm_local) return; /* ranks of one host send no heartbeats */
  expect_others(silent, 1, "rank 1 has been silent for", true);
  expect_others(silent_leader, 0, "rank 0 has been silent for", true);
}

static void others_name_who_left_or_failed(void **state) {
  (void)state;
  expect_others(left, 3, "rank 3 has ended at step 20", false);
  expect_others(failed, 0, "rank 0 failed: index 77 is out of range", false);
}

/* ---- meeting ---- */

static int open_only(const place *p, int rank, int ranks, uint64_t hash, int timeout_ms) {
  mscrt_comm *comm = NULL;
  mscrt_comm_options o = {.rank = rank,
                          .ranks = ranks,
                          .address = p->address,
                          .timeout_ms = timeout_ms,
                          .arena_bytes = 64,
                          .plan_hash = hash,
                          .num_partitions = 1};
  int code = say(p, comm_api->open(&o, &comm));
  comm_api->close(comm);
  return code;
}

static int other_plan(const place *p) { return open_only(p, p->rank, 3, p->rank == 2 ? 7 : 1, 10000); }
static int nobody_there(const place *p) { return open_only(p, p->rank, 4, 1, 1000); }
static int at_a_network_address(const place *p) {
  place there = *p;
  snprintf(there.address, sizeof there.address, "127.0.0.1:29500");
  return open_only(&there, p->rank, 2, 1, 500);
}
static int twice(const place *p) { return open_only(p, p->rank == 2 ? 1 : p->rank, 3, 1, 2000); }

static void strangers_are_refused(void **state) {
  (void)state;
  job j;
  start_job(&j, 3, other_plan);
  end_job(&j);
  for (int r = 0; r < 3; r++)
    if (!strstr(j.words[r], "rank 2 has another plan than rank 0")) fail_msg("rank %d says: %s", r, j.words[r]);
  start_job(&j, 2, nobody_there);
  end_job(&j);
  assert_non_null(strstr(j.words[0], "for ranks 2, 3 of 4"));
  start_job(&j, 3, twice);
  end_job(&j);
  assert_true(strstr(j.words[1], "joined already") || strstr(j.words[2], "joined already"));
  if (comm_api != &mscrt_comm_local) return;
  start_job(&j, 2, at_a_network_address);
  end_job(&j);
  for (int r = 0; r < 2; r++)
    if (!strstr(j.words[r], "127.0.0.1:29500: ranks that share memory meet at a path or @NAME"))
      fail_msg("rank %d says: %s", r, j.words[r]);
  assert_int_not_equal(access("127.0.0.1:29500", F_OK), 0); /* nor is it a file here */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(others_name_the_killed), cmocka_unit_test(others_name_the_stopped),
      cmocka_unit_test(a_stopped_one_hides_no_loss),
      cmocka_unit_test(others_name_the_silent), cmocka_unit_test(others_name_who_left_or_failed),
      cmocka_unit_test(strangers_are_refused)};
  return run_on_all_transports(tests, sizeof tests / sizeof *tests);
}
