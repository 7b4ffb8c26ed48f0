/* answer_push_pull.c: parameter servers and workers as processes. A server that is killed loses no update that was
 * acknowledged: its backup has all, and workers go on there; none is applied twice. Wrong frames end their connection
 * and no other; memory that is lent carries the same as a socket; workers stop after the same step. MSC_TEST_SLOW: 200
 * servers are killed instead of 6. With the argument "rates" it prints how fast pushes are. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/abi/clock.h"
#include "runtime/comm/address.h"
#include "runtime/comm/comm.h"
#include "runtime/server/answer_push_pull.h"
#include "tests/runtime/expect.h"

enum { WORKERS = 4, STEPS = 300, PATIENCE_MS = 20000, LOSS_MS = 2000 /* workers go on so soon after a loss */ };

typedef struct {
  char address[64];
  pid_t pid;
  int stop;
} server;

static void add(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  float *v = values;
  const float *g = gradient;
  (void)step, (void)first;
  for (int64_t i = 0; i < num * *(int64_t *)user; i++) v[i] += g[i];
}

static int dial(const char *address) {
  int fd = -1;
  expect_ok(mscrt_dial(address, (int64_t)msc_clock_ns() + PATIENCE_MS * (int64_t)1000000, &fd));
  return fd;
}

static struct {
  _Atomic int alone;
  char why[128];
} * told; /* shared with the servers */

static void tell_alone(void *user, const char *why) {
  (void)user;
  snprintf(told->why, sizeof told->why, "%s", why);
  told->alone++;
}

static mscrt_status *serve_shard(const char *address, const char *backup, int stop, mscrt_shard_options o) {
  mscrt_address at;
  mscrt_serving s = {.rows = o.rows,
                     .row_bytes = (uint64_t)o.columns * 4,
                     .stop = stop,
                     .backup = -1,
                     .backup_ms = PATIENCE_MS,
                     .alone = tell_alone};
  MSCRT_CHECK(mscrt_allocate(&o.values, (size_t)o.rows, s.row_bytes));
  if (!o.update) o.update = add;
  o.user = &o.columns, s.values = o.values;
  MSCRT_CHECK(mscrt_shard_new(&o, &s.shard));
  MSCRT_CHECK(mscrt_unix_address(address, &at));
  if (backup) s.backup = dial(backup);
  MSCRT_CHECK(mscrt_listen(&at, false, &s.listener));
  return mscrt_serve(&s);
}

/* Starts a server process; backup NULL: it has none. */
static server start_server(const server *backup, mscrt_shard_options o) {
  static int number;
  int ends[2];
  server s;
  snprintf(s.address, sizeof s.address, "@msc-server-%d-%d", getpid(), number++);
  assert_int_equal(pipe(ends), 0);
  s.pid = fork();
  if (s.pid == 0) {
    close(ends[1]);
    if (backup) close(backup->stop);
    mscrt_status *failure = serve_shard(s.address, backup ? backup->address : NULL, ends[0], o);
    if (failure) fprintf(stderr, "%s\n", mscrt_status_text(failure));
    _exit(failure ? 1 : 0);
  }
  close(ends[0]);
  s.stop = ends[1];
  return s;
}

static int end_server(const server *s) {
  int status;
  close(s->stop);
  waitpid(s->pid, &status, 0);
  return status;
}

/* ---- a server is killed ---- */

typedef struct {
  _Atomic int64_t acknowledged[WORKERS], longest_ns[WORKERS];
} board;

/* Runs all steps; when its server is lost it goes on at the next one. Fails if values lack an update of its own. */
static int work(board *b, int worker, const server *of, int servers) {
  int at = 0, fd = dial(of[0].address);
  int64_t last = (int64_t)msc_clock_ns();
  for (uint64_t step = 0; step < STEPS;) {
    float values[WORKERS], gradient[WORKERS] = {0};
    uint64_t version;
    mscrt_push_end end = MSCRT_PUSH_EARLY;
    gradient[worker] = 1;
    mscrt_push p = {.worker = worker, .step = step, .num = 1, .gradient = gradient};
    mscrt_status *s = mscrt_ask_pull(fd, sizeof values, worker, 1, NULL, PATIENCE_MS, values, &version, NULL);
    if (!s && values[worker] < (float)step) return 2;
    if (!s) s = mscrt_ask_push(fd, sizeof values, &p, PATIENCE_MS, &end);
    if (s) {
      if (mscrt_status_code(s) != MSCRT_PEER || ++at == servers) return 3;
      mscrt_status_free(s);
      close(fd);
      fd = dial(of[at].address);
      continue;
    }
    if (end == MSCRT_PUSH_EARLY) return 4;
    int64_t now = (int64_t)msc_clock_ns();
    if (now - last > b->longest_ns[worker]) b->longest_ns[worker] = now - last;
    last = now, step++;
    b->acknowledged[worker] = (int64_t)step;
  }
  return 0;
}

static int64_t kill_one(bool sync, int64_t when) {
  board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(b != MAP_FAILED);
  mscrt_shard_options o = {
      .dtype = MSCRT_F32, .rows = 1, .columns = WORKERS, .workers = WORKERS, .sync = sync, .staleness = sync ? 0 : 3};
  server s[2];
  pid_t pid[WORKERS];
  s[1] = start_server(NULL, o);
  s[0] = start_server(&s[1], o);
  for (int w = 0; w < WORKERS; w++)
    if ((pid[w] = fork()) == 0) _exit(work(b, w, s, 2));
  while (b->acknowledged[0] < when) usleep(50);
  kill(s[0].pid, SIGKILL);
  int64_t longest = 0;
  for (int w = 0; w < WORKERS; w++) {
    int status;
    waitpid(pid[w], &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(b->acknowledged[w], STEPS);
    if (b->longest_ns[w] > longest) longest = b->longest_ns[w];
  }
  float values[WORKERS];
  uint64_t version;
  int fd = dial(s[1].address);
  expect_ok(mscrt_ask_pull(fd, sizeof values, 0, 1, NULL, PATIENCE_MS, values, &version, NULL));
  for (int w = 0; w < WORKERS; w++) assert_true(values[w] == STEPS);
  assert_int_equal(version, sync ? STEPS : STEPS * WORKERS);
  close(fd);
  assert_true(WIFSIGNALED(end_server(&s[0])));
  assert_int_equal(end_server(&s[1]), 0);
  munmap(b, sizeof *b);
  return longest;
}

static void a_killed_server_loses_nothing(void **state) {
  (void)state;
  int kills = getenv("MSC_TEST_SLOW") ? 200 : 6;
  int64_t longest = 0;
  for (int i = 0; i < kills; i++) {
    int64_t ns = kill_one(i % 2, (i * 37 + 11) % (STEPS - 20));
    if (ns > longest) longest = ns;
  }
  print_message("%d servers killed; the longest a worker waited: %.1f ms\n", kills, (double)longest * 1e-6);
  assert_true(longest < LOSS_MS * INT64_C(1000000));
}

static void a_server_says_that_it_is_alone(void **state) {
  (void)state;
  mscrt_shard_options o = {.dtype = MSCRT_F32, .rows = 1, .columns = 1, .workers = 1, .staleness = MSCRT_NO_BOUND};
  server s[2];
  float value;
  uint64_t version;
  mscrt_push_end end;
  s[1] = start_server(NULL, o);
  s[0] = start_server(&s[1], o);
  int fd = dial(s[0].address);
  told->alone = 0;
  for (uint64_t step = 0; step < 6; step++) {
    if (step == 3) {
      kill(s[1].pid, SIGKILL);
      assert_true(WIFSIGNALED(end_server(&s[1])));
    }
    expect_ok(mscrt_ask_push(fd, 4, &(mscrt_push){.step = step, .num = 1, .gradient = &(float){1}}, PATIENCE_MS, &end));
    assert_int_equal(told->alone, step >= 3);
  }
  assert_non_null(strstr(told->why, "the parameter server is lost"));
  expect_ok(mscrt_ask_pull(fd, 4, 0, 1, NULL, PATIENCE_MS, &value, &version, NULL));
  assert_true(value == 6 && version == 6);
  close(fd);
  assert_int_equal(end_server(&s[0]), 0);
}

/* ---- workers leave and join ---- */

static void workers_leave_and_join(void **state) {
  (void)state;
  mscrt_shard_options o = {.dtype = MSCRT_F32, .rows = 1, .columns = 1, .workers = 3, .sync = true};
  server s[2];
  int fd[3];
  float value;
  uint64_t version, step = 9;
  bool awaits;
  mscrt_push_end end;
  s[1] = start_server(NULL, o);
  s[0] = start_server(&s[1], o);
  fd[0] = dial(s[0].address);
  for (int w = 0; w < 2; w++)
    expect_ok(
        mscrt_ask_push(fd[0], 4, &(mscrt_push){.worker = w, .num = 1, .gradient = &(float){1}}, PATIENCE_MS, &end));
  expect_ok(mscrt_ask_leave(fd[0], 2, PATIENCE_MS));
  expect_ok(mscrt_ask_pull(fd[0], 4, 0, 1, NULL, PATIENCE_MS, &value, &version, NULL));
  assert_true(value == 2 && version == 1);
  kill(s[0].pid, SIGKILL);
  assert_true(WIFSIGNALED(end_server(&s[0])));
  fd[1] = dial(s[1].address), fd[2] = dial(s[1].address);
  expect_ok(mscrt_ask_leave(fd[1], 2, PATIENCE_MS));
  expect_ok(mscrt_ask_pull(fd[1], 4, 1, 1, NULL, PATIENCE_MS, &value, &version, NULL));
  assert_true(value == 2 && version == 1);
  for (int i = 0; i < 2; i++)
    expect_ok(mscrt_ask_join(fd[1], &(mscrt_join){.worker = 2}, PATIENCE_MS, &step, &awaits));
  assert_int_equal(step, 1);
  for (int w = 0; w < 3; w++)
    expect_ok(mscrt_ask_push(fd[1], 4, &(mscrt_push){.worker = w, .step = 1, .num = 1, .gradient = &(float){1}},
                             PATIENCE_MS, &end));
  expect_ok(mscrt_ask_pull(fd[1], 4, 2, 1, NULL, PATIENCE_MS, &value, &version, NULL));
  assert_true(value == 5 && version == 2);
  expect_text(mscrt_ask_join(fd[1], &(mscrt_join){.worker = 3}, PATIENCE_MS, &step, &awaits), MSCRT_ARGUMENT,
              "refuses what worker 3 asks");
  expect_text(mscrt_ask_join(fd[2], &(mscrt_join){.worker = 0, .epoch = 1, .begin = 2}, PATIENCE_MS, &step, &awaits),
              MSCRT_ARGUMENT, "refuses what worker 0 asks"); /* it cannot go back, so nobody can begin again */
  close(fd[0]), close(fd[1]), close(fd[2]);
  assert_int_equal(end_server(&s[1]), 0);
}

/* ---- memory that is lent ---- */

static void lent_memory_carries_pushes_and_pulls(void **state) {
  (void)state;
  enum { ROWS = 5, COLUMNS = 2, BYTES = ROWS * COLUMNS * 4 };
  mscrt_shard_options o = {
      .dtype = MSCRT_F32, .rows = ROWS, .columns = COLUMNS, .workers = 2, .staleness = MSCRT_NO_BOUND};
  server s[2];
  mscrt_lent memory, small;
  bool taken;
  uint64_t version, stop;
  mscrt_push_end end;
  s[1] = start_server(NULL, o);
  s[0] = start_server(&s[1], o);
  expect_ok(mscrt_lent_new(BYTES, &memory));
  expect_ok(mscrt_lent_new(BYTES - 1, &small));
  float *at = memory.at;
  int fd = dial(s[0].address);
  expect_ok(mscrt_ask_lend(fd, 0, &memory, PATIENCE_MS, &taken));
  assert_true(taken);
  for (int i = 0; i < ROWS * COLUMNS; i++) at[i] = (float)i;
  expect_ok(mscrt_ask_push(fd, 8, &(mscrt_push){.num = ROWS}, PATIENCE_MS, &end));
  at[0] = 100, at[1] = 200;
  mscrt_push row = {.step = 1, .num = 1, .rows = (int64_t[]){3}};
  expect_ok(mscrt_ask_push(fd, 8, &row, PATIENCE_MS, &end));
  expect_ok(mscrt_ask_pull(fd, 8, 0, 2, (int64_t[]){3, 1}, PATIENCE_MS, NULL, &version, &stop));
  assert_true(at[0] == 106 && at[1] == 207 && at[2] == 2 && at[3] == 3);
  assert_true(version == 2 && stop == MSCRT_NO_STOP);
  kill(s[0].pid, SIGKILL); /* its copy has heard all */
  assert_true(WIFSIGNALED(end_server(&s[0])));
  close(fd);
  fd = dial(s[1].address);
  expect_ok(mscrt_ask_lend(fd, 0, &memory, PATIENCE_MS, &taken));
  expect_ok(mscrt_ask_pull(fd, 8, 0, ROWS, NULL, PATIENCE_MS, NULL, &version, NULL));
  assert_true(at[6] == 106 && at[7] == 207 && at[9] == 9 && version == 2);
  int bad = dial(s[1].address); /* nothing is lent, then too little */
  expect_text(mscrt_ask_push(bad, 8, &(mscrt_push){.worker = 1, .num = ROWS}, PATIENCE_MS, &end), MSCRT_ARGUMENT,
              "refuses what worker 1 asks");
  close(bad);
  bad = dial(s[1].address);
  expect_ok(mscrt_ask_lend(bad, 1, &small, PATIENCE_MS, &taken));
  expect_text(mscrt_ask_pull(bad, 8, 1, ROWS, NULL, PATIENCE_MS, NULL, &version, NULL), MSCRT_ARGUMENT,
              "refuses what worker 1 asks");
  close(bad);
  bad = dial(s[1].address); /* memory that could become smaller would end the server */
  mscrt_lent other = {.fd = memfd_create("other", 0), .bytes = BYTES};
  assert_int_equal(ftruncate(other.fd, BYTES), 0);
  expect_text(mscrt_ask_lend(bad, 1, &other, PATIENCE_MS, &taken), MSCRT_ARGUMENT, "refuses what worker 1 asks");
  close(bad), close(other.fd);
  mscrt_lent_free(&memory); /* the server has it still */
  expect_ok(mscrt_ask_pull(fd, 8, 0, ROWS, NULL, PATIENCE_MS, NULL, &version, NULL));
  mscrt_lent_free(&small);
  close(fd);
  assert_int_equal(end_server(&s[1]), 0);
}

static void workers_stop_together(void **state) {
  (void)state;
  mscrt_shard_options o = {.dtype = MSCRT_F32, .rows = 1, .columns = 1, .workers = 2, .staleness = MSCRT_NO_BOUND};
  server s[2];
  float value, one = 1;
  uint64_t version, stop[2];
  mscrt_push_end end;
  mscrt_push p = {.worker = 1, .num = 1, .gradient = &one};
  s[1] = start_server(NULL, o);
  s[0] = start_server(&s[1], o);
  int fd = dial(s[0].address), copy = dial(s[1].address);
  for (; p.step < 3; p.step++) expect_ok(mscrt_ask_push(fd, 4, &p, PATIENCE_MS, &end));
  expect_ok(mscrt_ask_stop(fd, 0, PATIENCE_MS, &stop[0])); /* at clock 0, while worker 1 is at 3 */
  expect_ok(mscrt_ask_push(fd, 4, &p, PATIENCE_MS, &end));
  expect_ok(mscrt_ask_stop(fd, 1, PATIENCE_MS, &stop[1]));
  assert_true(stop[0] == 4 && stop[1] == 4);
  expect_ok(mscrt_ask_pull(copy, 4, 0, 1, NULL, PATIENCE_MS, &value, &version, &stop[0]));
  assert_true(stop[0] == 4 && version == 4);
  close(fd), close(copy);
  assert_int_equal(end_server(&s[0]), 0);
  assert_int_equal(end_server(&s[1]), 0);
}

/* ---- wrong frames ---- */

static void wrong_frames_end_their_connection(void **state) {
  (void)state;
  enum { ROWS = 5, COLUMNS = 2 };
  server s = start_server(
      NULL, (mscrt_shard_options){
                .dtype = MSCRT_F32, .rows = ROWS, .columns = COLUMNS, .workers = 2, .staleness = MSCRT_NO_BOUND});
  int good = dial(s.address);
  float gradient[ROWS * COLUMNS] = {1, 2, 3, 4}, values[ROWS * COLUMNS];
  uint64_t seed = 1, version, step = 0;
  mscrt_push_end end;
  for (int i = 0; i < 400; i++) {
    struct {
      mscrt_server_head head;
      int64_t rows[2];
      float gradient[4];
    } f = {{MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH + i % 2, 1, 0, UINT64_MAX, 2, 0}, {1, 7}, {9, 9, 9, 9}};
    uint8_t *bytes = (uint8_t *)&f;
    int fd = dial(s.address);
    for (int n = 0; n < i % 5; n++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      bytes[(seed >> 40) % sizeof f.head] ^= (uint8_t)(1u << (seed >> 61));
    }
    if (f.head.step == 0) f.head.step = 1;
    assert_true(send(fd, &f, i % 7 ? sizeof f : (size_t)i % sizeof f, MSG_NOSIGNAL) >= 0);
    shutdown(fd, SHUT_WR);
    mscrt_server_head head;
    int64_t heard = 0, got;
    uint8_t room[256];
    while ((got = recv(fd, room, sizeof room, 0)) != 0 && (got > 0 || errno == EAGAIN)) {
      if (got > 0 && heard == 0 && got >= (int64_t)sizeof head) {
        memcpy(&head, room, sizeof head);
        assert_int_not_equal(head.word, MSCRT_ANSWER_TAKEN);
      }
      heard += got > 0 ? got : 0;
      if (got < 0) usleep(20);
    }
    close(fd);
    if (i % 20) continue;
    mscrt_push p = {.worker = 0, .step = step++, .num = 1, .rows = (int64_t[]){3}, .gradient = gradient};
    expect_ok(mscrt_ask_push(good, 8, &p, PATIENCE_MS, &end));
    assert_int_equal(end, MSCRT_PUSH_TAKEN);
    expect_ok(mscrt_ask_pull(good, 8, 0, ROWS, NULL, PATIENCE_MS, values, &version, NULL));
    assert_true(version == step && values[6] == (float)step && values[7] == 2 * (float)step && values[2] == 0);
    expect_ok(mscrt_ask_pull(good, 8, 0, 2, (int64_t[]){3, 0}, PATIENCE_MS, values, &version, NULL));
    assert_true(values[0] == (float)step && values[1] == 2 * (float)step && values[2] == 0);
  }
  static const mscrt_server_head bad[] = {{MSCRT_SERVER_MAGIC + 1, MSCRT_ASK_PUSH, 1, 1, 0, ROWS, 0},
                                          {MSCRT_SERVER_MAGIC, 0, 1, 1, 0, ROWS, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ANSWER_TAKEN, 1, 1, 0, ROWS, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH, 1, 2, 0, ROWS, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH, 1, 1, 0, ROWS - 1, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH, 1, 0, 0, -1, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH, 1, 0, 0, INT64_MAX, 0},
                                          {MSCRT_SERVER_MAGIC, MSCRT_ASK_PUSH, 2, 1, 0, ROWS, 0}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct {
      mscrt_server_head head;
      float gradient[ROWS * COLUMNS];
    } f = {.head = bad[i]};
    mscrt_server_head head = {0};
    int fd = dial(s.address);
    assert_int_equal(send(fd, &f, sizeof f, MSG_NOSIGNAL), sizeof f);
    while (recv(fd, &head, sizeof head, 0) < 0 && errno == EAGAIN) usleep(20);
    assert_int_equal(head.word, MSCRT_ANSWER_BAD);
    close(fd);
  }
  mscrt_push p = {.worker = 0, .step = step + 1, .num = ROWS, .gradient = gradient};
  expect_text(mscrt_ask_push(good, 8, &p, PATIENCE_MS, &end), MSCRT_ARGUMENT,
              "the parameter server refuses what worker 0 asks");
  assert_int_equal(end_server(&s), 0);
  expect_text(mscrt_ask_push(good, 8, &p, PATIENCE_MS, &end), MSCRT_PEER, "the parameter server is lost");
  close(good);
}

/* ---- rates ---- */

static double stream_rate(int64_t bytes, int64_t times) {
  int fd[2];
  char *block = calloc(1, (size_t)bytes);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(fd[0]);
    while (recv(fd[1], block, (size_t)bytes, 0) > 0) continue;
    _exit(0);
  }
  close(fd[1]);
  uint64_t begin = msc_clock_ns();
  for (int64_t i = 0; i < times; i++)
    for (int64_t done = 0; done < bytes;) done += send(fd[0], block + done, (size_t)(bytes - done), 0);
  close(fd[0]);
  waitpid(pid, NULL, 0);
  free(block);
  return (double)(bytes * times) / (double)(msc_clock_ns() - begin);
}

static void add_by_vectors(void *user, uint64_t step, int64_t first, int64_t num, const void *gradient, void *values) {
  (void)step, (void)first;
  mscrt_combine(MSCRT_F32, MSC_SUM, 2, (const void *[]){values, gradient}, values, num * *(int64_t *)user);
}

/* Rows per second. lent: their gradients are in memory that the server reads too; copied: the server has a copy. */
static double push_rate(int64_t rows, int64_t columns, int64_t pushed, bool sparse, bool lent, bool copied,
                        int64_t times) {
  mscrt_shard_options o = {.dtype = MSCRT_F32,
                           .rows = rows,
                           .columns = columns,
                           .workers = 1,
                           .staleness = MSCRT_NO_BOUND,
                           .update = add_by_vectors};
  server copy = {0};
  if (copied) copy = start_server(NULL, o);
  server s = start_server(copied ? &copy : NULL, o);
  int fd = dial(s.address);
  bool taken;
  mscrt_lent memory;
  expect_ok(mscrt_lent_new((uint64_t)(pushed * columns) * 4, &memory));
  memset(memory.at, 0, (size_t)memory.bytes);
  if (lent) expect_ok(mscrt_ask_lend(fd, 0, &memory, PATIENCE_MS, &taken));
  if (lent) assert_true(taken);
  int64_t *row = calloc((size_t)pushed, 8);
  mscrt_push_end end;
  for (int64_t i = 0; i < pushed; i++) row[i] = i * (rows / pushed);
  uint64_t begin = msc_clock_ns();
  for (int64_t i = 0; i < times; i++)
    expect_ok(mscrt_ask_push(
        fd, (uint64_t)columns * 4,
        &(mscrt_push){
            .step = (uint64_t)i, .num = pushed, .rows = sparse ? row : NULL, .gradient = lent ? NULL : memory.at},
        PATIENCE_MS, &end));
  double seconds = (double)(msc_clock_ns() - begin) * 1e-9;
  close(fd), end_server(&s), mscrt_lent_free(&memory), free(row);
  if (copied) end_server(&copy);
  return (double)(pushed * times) / seconds;
}

static void print_rates(void **state) {
  (void)state;
  enum { MIB = 1 << 20 };
  for (int i = 0; i < 5; i++) {
    double stream = stream_rate(MIB, 1000), sent = push_rate(1, MIB / 4, 1, false, false, false, 1000) * MIB * 1e-9,
           lent = push_rate(1, MIB / 4, 1, false, true, false, 1000) * MIB * 1e-9,
           copied = push_rate(1, MIB / 4, 1, false, true, true, 1000) * MIB * 1e-9;
    print_message(
        "stream %.2f GB/s; pushes of 1 MiB through lent memory %.2f GB/s (%.0f %%), through the socket %.2f GB/s "
        "(%.0f %%), to a server with a copy %.2f GB/s; rows of 64 floats %.0f k/s\n",
        stream, lent, 100 * lent / stream, sent, 100 * sent / stream, copied,
        push_rate(100000, 64, 1000, true, true, false, 500) * 1e-3);
  }
}

/* What a server sends to its copy; a descriptor that comes along is in *out_fd. */
static mscrt_server_head hear_as_copy(int fd, int *out_fd) {
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  mscrt_server_head head = {0};
  struct iovec at = {&head, sizeof head};
  struct msghdr m = {
      .msg_iov = &at, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  assert_int_equal(poll(&(struct pollfd){fd, POLLIN, 0}, 1, PATIENCE_MS), 1);
  assert_int_equal(recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL), sizeof head);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  if (c && c->cmsg_type == SCM_RIGHTS) memcpy(out_fd, CMSG_DATA(c), sizeof *out_fd);
  return head;
}

static void say_taken(int fd) {
  mscrt_server_head taken = {.magic = MSCRT_SERVER_MAGIC, .word = MSCRT_ANSWER_TAKEN};
  assert_int_equal(write(fd, &taken, sizeof taken), sizeof taken);
}

/* This process is the copy of a server: gradients come in memory that the server lends, not through the socket. */
static void pushes_reach_a_copy_through_memory(void **state) {
  (void)state;
  enum { COLUMNS = 1000 };
  float gradient[COLUMNS];
  mscrt_address at;
  server copy = {.stop = -1};
  int listener = -1, lent = -1;
  for (int i = 0; i < COLUMNS; i++) gradient[i] = (float)i;
  snprintf(copy.address, sizeof copy.address, "@msc-copy-%d", getpid());
  expect_ok(mscrt_unix_address(copy.address, &at));
  expect_ok(mscrt_listen(&at, false, &listener));
  server s = start_server(&copy, (mscrt_shard_options){.rows = 1, .columns = COLUMNS, .workers = 1, .sync = true});
  assert_int_equal(poll(&(struct pollfd){listener, POLLIN, 0}, 1, PATIENCE_MS), 1);
  int fd = accept(listener, NULL, NULL);
  mscrt_server_head head = hear_as_copy(fd, &lent);
  assert_int_equal(head.word, MSCRT_ASK_LEND);
  assert_true(lent >= 0 && head.num >= (int64_t)sizeof gradient);
  say_taken(fd);
  pid_t worker = fork();
  if (worker == 0) {
    mscrt_push p = {.worker = 0, .num = 1, .gradient = gradient};
    mscrt_push_end end = MSCRT_PUSH_EARLY;
    mscrt_status *failure = mscrt_ask_push(dial(s.address), sizeof gradient, &p, PATIENCE_MS, &end);
    _exit(failure || end != MSCRT_PUSH_TAKEN);
  }
  head = hear_as_copy(fd, &lent);
  assert_int_equal(head.word, MSCRT_ASK_PUSH_LENT);
  const void *memory = mmap(NULL, sizeof gradient, PROT_READ, MAP_SHARED, lent, 0);
  assert_true(memory != MAP_FAILED);
  assert_memory_equal(memory, gradient, sizeof gradient);
  say_taken(fd);
  int status;
  waitpid(worker, &status, 0);
  assert_int_equal(status, 0);
  assert_int_equal(end_server(&s), 0);
  close(fd), close(lent), close(listener);
}

int main(int argc, char **argv) {
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (told == MAP_FAILED) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pushes_reach_a_copy_through_memory),   cmocka_unit_test(a_killed_server_loses_nothing),
      cmocka_unit_test(a_server_says_that_it_is_alone),       cmocka_unit_test(workers_leave_and_join),
      cmocka_unit_test(lent_memory_carries_pushes_and_pulls), cmocka_unit_test(workers_stop_together),
      cmocka_unit_test(wrong_frames_end_their_connection),
  };
  const struct CMUnitTest rates[] = {cmocka_unit_test(print_rates)};
  if (argc > 1 && !strcmp(argv[1], "rates")) return cmocka_run_group_tests(rates, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
