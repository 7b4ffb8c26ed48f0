/* job.h: runs one function in n processes, the ranks; its result is the exit code, and its output comes back through
 * a pipe. */
#ifndef MSC_TESTS_JOB_H
#define MSC_TESTS_JOB_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/mscrt.h"

typedef struct {
  int rank, ranks;
  char address[48];
  int say;
} place;

typedef int rank_fn(const place *p);

typedef struct {
  int ranks;
  pid_t pid[16];
  int say[16];
  int exit[16];
  char words[16][1024];
} job;

static void start_job(job *j, int ranks, rank_fn *fn) {
  static int number;
  *j = (job){.ranks = ranks};
  place p = {.ranks = ranks};
  snprintf(p.address, sizeof p.address, "@msc-test-%d-%d", getpid(), number++);
  for (int r = 0; r < ranks; r++) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    j->pid[r] = fork();
    if (j->pid[r] == 0) {
      p.rank = r;
      p.say = ends[1];
      _exit(fn(&p));
    }
    close(ends[1]);
    j->say[r] = ends[0];
  }
}

static void end_job(job *j) {
  for (int r = 0; r < j->ranks; r++) {
    ssize_t n = 0, got;
    while ((got = read(j->say[r], j->words[r] + n, sizeof j->words[r] - 1 - (size_t)n)) > 0) n += got;
    close(j->say[r]);
    waitpid(j->pid[r], &j->exit[r], 0);
  }
}

static int say(const place *p, mscrt_status *s) {
  int code = mscrt_status_exit(s);
  if (s && write(p->say, mscrt_status_text(s), strlen(mscrt_status_text(s))) < 0) code = 99;
  mscrt_status_free(s);
  return code;
}

static void __attribute__((unused)) expect_all_well(job *j) {
  end_job(j);
  for (int r = 0; r < j->ranks; r++)
    if (j->exit[r]) print_error("rank %d: %#x %s\n", r, j->exit[r], j->words[r]);
  for (int r = 0; r < j->ranks; r++)
    if (j->exit[r]) fail_msg("rank %d of %d ended with %#x: %s", r, j->ranks, j->exit[r], j->words[r]);
}

#endif
