/* team.c: every collective of a program's own between processes, in shared memory, over TCP, and through MPI where an
 * mpirun is installed, of several sizes and teams, against values computed element by element; what is refused; a rank
 * that ends early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/abi/clock.h"
#include "runtime/mscrt.h"

enum { RANKS = 4, LARGE = 1500000 };

#define CHECK(e)                                                            \
  do {                                                                      \
    if (!(e)) return fprintf(stderr, "line %d: %s\n", __LINE__, #e), false; \
  } while (0)

static bool went(mscrt_status *s) {
  if (s) fprintf(stderr, "%s\n", mscrt_status_text(s));
  mscrt_status_free(s);
  return !s;
}

static int32_t value_of(int rank, int64_t i) { return (int32_t)(rank * 1000003 + i * 7 + 1); }

/* Every verb in a team whose members have these ranks of the job. */
static bool try_verbs(mscrt_team *t, const int *ranks, int64_t count) {
  int num = mscrt_group_size(t), own = mscrt_rank(t);
  size_t bytes = sizeof(int32_t) * (size_t)(count * num + 1);
  int32_t *src = malloc(bytes), *dst = malloc(bytes);
  CHECK(src && dst && own >= 0);
  for (int64_t i = 0; i < count * num; i++) src[i] = value_of(ranks[own], i);
  CHECK(went(mscrt_all_reduce(t, MSCRT_I32, MSCRT_OF_SUM, src, dst, count)));
  for (int64_t i = 0; i < count; i++) {
    uint32_t sum = 0;
    for (int r = 0; r < num; r++) sum += (uint32_t)value_of(ranks[r], i);
    CHECK(dst[i] == (int32_t)sum);
  }
  CHECK(went(mscrt_all_gather(t, MSCRT_I32, src, dst, count)));
  for (int r = 0; r < num; r++)
    for (int64_t i = 0; i < count; i++) CHECK(dst[r * count + i] == value_of(ranks[r], i));
  CHECK(went(mscrt_reduce_scatter(t, MSCRT_I32, MSCRT_OF_MAX, src, dst, count)));
  for (int64_t i = 0; i < count; i++) CHECK(dst[i] == value_of(ranks[num - 1], own * count + i));
  CHECK(went(mscrt_all_to_all(t, MSCRT_I32, src, dst, count)));
  for (int r = 0; r < num; r++)
    for (int64_t i = 0; i < count; i++) CHECK(dst[r * count + i] == value_of(ranks[r], own * count + i));
  CHECK(went(mscrt_all_reduce(t, MSCRT_I32, MSCRT_OF_MIN, src, src, count))); /* in place */
  for (int64_t i = 0; i < count; i++) CHECK(src[i] == value_of(ranks[0], i));
  for (int root = 0; root < num; root++) {
    for (int64_t i = 0; i < count; i++) dst[i] = own == root ? value_of(root + 9, i) : 0;
    CHECK(went(mscrt_broadcast(t, MSCRT_I32, root, dst, count)));
    for (int64_t i = 0; i < count; i++) CHECK(dst[i] == value_of(root + 9, i));
  }
  size_t part = sizeof(int32_t) * (size_t)count; /* around the ring: the first one begins */
  for (int64_t i = 0; i < count && own == 0; i++) dst[i] = value_of(77, i);
  if (num > 1 && own == 0) CHECK(went(mscrt_send(t, 1, dst, part)));
  memset(dst, 0, part);
  if (num > 1) CHECK(went(mscrt_receive(t, (own + num - 1) % num, dst, part)));
  if (num > 1 && own) CHECK(went(mscrt_send(t, (own + 1) % num, dst, part)));
  for (int64_t i = 0; i < count && num > 1; i++) CHECK(dst[i] == value_of(77, i));
  CHECK(went(mscrt_barrier(t)));
  free(src);
  free(dst);
  return true;
}

static bool be_rank(mscrt_team *all, bool large) {
  static const int everybody[] = {0, 1, 2, 3}, odd[] = {3, 1}, odd_sorted[] = {1, 3}, even[] = {0, 2},
                   three[] = {2, 0, 1};
  static const int three_sorted[] = {0, 1, 2};
  int rank = mscrt_rank(all);
  mscrt_team *half = NULL, *most = NULL, *none = NULL;
  CHECK(mscrt_group_size(all) == RANKS);
  for (int64_t count = 0; count < 70; count = 3 * count + 1) CHECK(try_verbs(all, everybody, count));
  if (large) CHECK(try_verbs(all, everybody, LARGE));
  CHECK(went(mscrt_group(all, 2, rank % 2 ? odd : even, &half)) && went(mscrt_group(all, 3, three, &most)));
  CHECK(mscrt_group_size(half) == 2 && mscrt_rank(half) == rank / 2 && mscrt_rank(most) == (rank < 3 ? rank : -1));
  CHECK(try_verbs(half, rank % 2 ? odd_sorted : even, 1000) && try_verbs(all, everybody, 5000));
  if (rank < 3) CHECK(try_verbs(most, three_sorted, 1000));
  float x = 1e8f * (rank == 0) - 1e8f * (rank == 1) + 0.25f, y; /* in the order of ranks */
  CHECK(went(mscrt_all_reduce(all, MSCRT_F32, MSCRT_OF_SUM, &x, &y, 1)) && y == 0.5f);
  mscrt_status *refused[] = {mscrt_group(half, 1, even, &none),
                             mscrt_group(all, 2, (const int[]){0, 4}, &none),
                             mscrt_group(all, 2, (const int[]){1, 1}, &none),
                             mscrt_send(all, rank, &x, sizeof x),
                             mscrt_broadcast(all, MSCRT_F32, RANKS, &x, 1),
                             rank == 3 ? mscrt_barrier(most) : NULL};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CHECK(mscrt_status_code(refused[i]) == (i < 5 || rank == 3 ? MSCRT_ARGUMENT : MSCRT_OK));
    mscrt_status_free(refused[i]);
  }
  mscrt_end(half);
  mscrt_end(most);
  return true;
}

/* One rank ends, and the others, which wait for it, are told so. */
static bool lose_one(mscrt_team *all) {
  uint8_t byte = 1;
  CHECK(went(mscrt_barrier(all)));
  if (mscrt_rank(all) == 2) _exit(0);
  mscrt_status *s = mscrt_all_reduce(all, MSCRT_U8, MSCRT_OF_SUM, &byte, &byte, 1);
  CHECK(mscrt_status_code(s) == MSCRT_PEER && strstr(mscrt_status_text(s), "rank 2 is gone"));
  mscrt_status_free(s);
  s = mscrt_barrier(all);
  CHECK(mscrt_status_code(s) == MSCRT_ARGUMENT);
  mscrt_status_free(s);
  return true;
}

static int in_processes(const char *backend, int number, bool loses) {
  char address[64];
  int failed = 0, status;
  if (strcmp(backend, "hosts")) snprintf(address, sizeof address, "@msc-team-%d-%d", (int)getpid(), number);
  else snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + (int)getpid() % 20000 + number);
  for (int r = 0; r < RANKS; r++) {
    if (fork()) continue;
    mscrt_options o = {.struct_size = sizeof o, .rank = r, .ranks = RANKS, .address = address, .timeout_ms = 20000};
    mscrt_team *all = NULL;
    bool ok = went(mscrt_init(backend, &o, &all)) && (loses ? lose_one(all) : be_rank(all, true));
    mscrt_end(all);
    _exit(!ok);
  }
  for (int r = 0; r < RANKS; r++) failed += wait(&status) < 0 || status != 0;
  return failed;
}

static void all_verbs(void **state) {
  (void)state;
  assert_int_equal(in_processes("local", 0, false), 0);
  assert_int_equal(in_processes("tcp", 1, false), 0);
  assert_int_equal(in_processes("hosts", 4, false), 0);
}

static void lost_ranks(void **state) {
  (void)state;
  assert_int_equal(in_processes("local", 2, true), 0);
  assert_int_equal(in_processes("tcp", 3, true), 0);
}

/* Sixty-four ranks that have a token meet, and all have passed a barrier, within twenty seconds; alone on a machine of
 * two cores, within 1.5. */
static void many_ranks(void **state) {
  enum { MANY = 64 };
  static const char *const backends[] = {"tcp", "hosts"};
  (void)state;
  for (int b = 0; b < 2; b++) {
    char address[64], byte = 0;
    int met[2], status, failed = 0;
    assert_int_equal(pipe(met), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + (int)getpid() % 20000 + 50 + b);
    int64_t begin = msc_clock_ns(), took = 0;
    for (int r = 0; r < MANY; r++) {
      if (fork()) continue;
      mscrt_options o = {.struct_size = sizeof o,
                         .rank = r,
                         .ranks = MANY,
                         .address = address,
                         .timeout_ms = 60000,
                         .token = "0123456789abcdef0123456789abcdef"};
      mscrt_team *all = NULL;
      bool ok = went(mscrt_init(backends[b], &o, &all)) && went(mscrt_barrier(all)) && write(met[1], &byte, 1) == 1;
      mscrt_end(all);
      _exit(!ok);
    }
    close(met[1]);
    for (int r = 0; r < MANY; r++)
      if (read(met[0], &byte, 1) == 1) took = msc_clock_ns() - begin;
    close(met[0]);
    for (int r = 0; r < MANY; r++) failed += wait(&status) < 0 || status != 0;
    print_message("%d ranks meet over %s: %d ms\n", MANY, backends[b], (int)(took / 1000000));
    assert_int_equal(failed, 0);
    assert_true(took < 20000000000);
  }
}

/* What a process that mpirun started does: it is one rank. */
static int be_rank_of_mpirun(const char *address) {
  const char *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *rank = open_mpi ? open_mpi : getenv("PMI_RANK");
  mscrt_team *all = NULL;
  if (!rank) return 2;
  mscrt_options o = {
      .struct_size = sizeof o, .rank = atoi(rank), .ranks = RANKS, .address = address, .timeout_ms = 20000};
  bool ok = went(mscrt_init("mpi", &o, &all)) && be_rank(all, true);
  mscrt_end(all);
  return !ok;
}

static void through_mpi(void **state) {
  static const char *const launchers[] = {"mpirun.openmpi --oversubscribe --allow-run-as-root", "mpirun.mpich"};
  int num = 0;
  (void)state;
  for (int i = 0; i < 2; i++) {
    char text[400], self[200] = "";
    snprintf(text, sizeof text, "command -v %.14s > /dev/null", launchers[i]);
    if (system(text) != 0) continue;
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    /* libraries of MPI keep memory to the end */
    snprintf(text, sizeof text, "ASAN_OPTIONS=detect_leaks=0 MSC_TEAM_ADDRESS=@msc-team-mpi-%d-%d %s -n %d '%s'",
             (int)getpid(), i, launchers[i], RANKS, self);
    assert_int_equal(system(text), 0);
    num++;
  }
  if (!num) print_message("skipped: there is neither mpirun.openmpi nor mpirun.mpich here\n");
}

static bool is_wrong(mscrt_status *s, const char *part) {
  bool is = mscrt_status_code(s) == MSCRT_ARGUMENT && strstr(mscrt_status_text(s), part);
  if (!is) fprintf(stderr, "got '%s', expected '%s'\n", mscrt_status_text(s), part);
  mscrt_status_free(s);
  return is;
}

static void wrong_calls(void **state) {
  mscrt_team *t = NULL, *group = NULL;
  float x[8] = {1, 2}, y[8];
  (void)state;
  mscrt_options o = {.struct_size = sizeof o, .ranks = 1};
  assert_true(is_wrong(mscrt_init("local", &o, NULL), "needs out_all"));
  assert_true(went(mscrt_init("local", &o, &t)));
  assert_true(is_wrong(mscrt_group(NULL, 1, (const int[]){0}, &group), "needs all"));
  assert_true(is_wrong(mscrt_group(t, 1, (const int[]){0}, NULL), "out_group"));
  assert_true(is_wrong(mscrt_all_reduce(t, MSCRT_F32, MSCRT_OF_SUM, x, y, -4), "-4 elements"));
  assert_true(is_wrong(mscrt_all_reduce(t, MSCRT_F32, MSCRT_OF_SUM, x, y, INT64_MAX), "9223372036854775807 elements"));
  assert_true(is_wrong(mscrt_all_reduce(t, MSCRT_F32, MSCRT_OF_SUM, NULL, y, 4), "src"));
  assert_true(is_wrong(mscrt_all_gather(t, MSCRT_F32, x, NULL, 4), "dst"));
  assert_true(is_wrong(mscrt_reduce_scatter(t, MSCRT_F32, MSCRT_OF_MAX, x, NULL, 4), "dst"));
  assert_true(is_wrong(mscrt_all_to_all(t, MSCRT_F32, NULL, y, 4), "src"));
  assert_true(is_wrong(mscrt_broadcast(t, MSCRT_F32, 0, NULL, 4), "needs"));
  assert_true(is_wrong(mscrt_broadcast(NULL, MSCRT_F32, 0, x, 4), "needs"));
  assert_true(is_wrong(mscrt_send(t, 0, NULL, 4), "data"));
  assert_true(is_wrong(mscrt_barrier(NULL), "needs"));
  assert_true(went(mscrt_all_reduce(t, MSCRT_F32, MSCRT_OF_SUM, NULL, NULL, 0))); /* nothing is nowhere */
  assert_true(went(mscrt_all_reduce(t, MSCRT_F32, MSCRT_OF_SUM, x, y, 8)) && y[1] == 2);
  mscrt_end(t);
}

static void one_rank(void **state) {
  mscrt_team *all = NULL, *same = NULL;
  (void)state;
  mscrt_options o = {.struct_size = sizeof o, .ranks = 1};
  assert_true(went(mscrt_init(NULL, &o, &all)) && went(mscrt_group(all, 1, (const int[]){0}, &same)));
  assert_true(try_verbs(all, (const int[]){0}, 100) && try_verbs(same, (const int[]){0}, 10));
  int status;
  pid_t child = fork(); /* a process of its own, which is no rank */
  if (child == 0) {
    mscrt_status *refused = mscrt_barrier(all);
    bool ok = mscrt_status_code(refused) == MSCRT_ARGUMENT && strstr(mscrt_status_text(refused), "belongs to process");
    mscrt_status_free(refused);
    mscrt_end(all);
    _exit(!ok);
  }
  assert_true(waitpid(child, &status, 0) == child && status == 0);
  assert_true(went(mscrt_barrier(all)));
  mscrt_end(same);
  mscrt_end(all);
  o.ranks = 2;
  mscrt_status *s = mscrt_init("pigeons", &o, &all);
  assert_int_equal(mscrt_status_code(s), MSCRT_UNSUPPORTED);
  mscrt_status_free(s);
  s = mscrt_init(NULL, &o, &all);
  assert_string_equal(mscrt_status_text(s), "2 ranks need an address to meet at");
  mscrt_status_free(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank),   cmocka_unit_test(wrong_calls),
                                     cmocka_unit_test(all_verbs),  cmocka_unit_test(lost_ranks),
                                     cmocka_unit_test(many_ranks), cmocka_unit_test(through_mpi)};
  if (getenv("MSC_TEAM_ADDRESS")) return be_rank_of_mpirun(getenv("MSC_TEAM_ADDRESS"));
  return cmocka_run_group_tests(tests, NULL, NULL);
}
