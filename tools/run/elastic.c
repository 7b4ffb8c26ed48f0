/* elastic.c: which processes are alive in; which of them are ranks of which plan, in shared memory, out. */
#include "tools/run/elastic.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ir/abi/clock.h"

enum { POLL_NS = 1000000 };

struct elastic_job {
  const mscrt_plan *const *family; /* of each process: plans are opened before processes are forked */
  int num_family, processes;
  bool *lost;      /* of the launcher, by rank */
  int *process_of; /* likewise */
  size_t bytes;    /* of all this */
  /* Odd while the launcher, which alone writes, writes what is below; the number of a decision is half of it. */
  atomic_uint version;
  atomic_int plan, rank[]; /* rank: of each process; -1: none */
};

elastic_job *elastic_new(const mscrt_plan *const *family, int num_family, int processes) {
  size_t bytes = sizeof(elastic_job) + (size_t)processes * sizeof(atomic_int);
  elastic_job *e = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (e == MAP_FAILED) return NULL;
  e->family = family, e->num_family = num_family, e->processes = processes, e->bytes = bytes;
  e->lost = calloc((size_t)mscrt_plan_ranks(family[0]), sizeof *e->lost);
  e->process_of = calloc((size_t)mscrt_plan_ranks(family[0]), sizeof *e->process_of);
  if (!e->lost || !e->process_of) {
    elastic_free(e);
    return NULL;
  }
  for (int i = 0; i < processes; i++) atomic_init(&e->rank[i], i < mscrt_plan_ranks(family[0]) ? i : -1);
  atomic_init(&e->version, 2);
  return e;
}

void elastic_free(elastic_job *e) {
  if (!e) return;
  free(e->lost);
  free(e->process_of);
  munmap(e, e->bytes);
}

int elastic_processes(const elastic_job *e) { return e->processes; }

unsigned elastic_newest(elastic_job *e) { return atomic_load(&e->version) / 2; }

elastic_round elastic_round_of(elastic_job *e, int process) {
  for (;;) {
    unsigned before = atomic_load(&e->version);
    elastic_round t = {before / 2, atomic_load(&e->plan), atomic_load(&e->rank[process])};
    if (before % 2 == 0 && atomic_load(&e->version) == before) return t;
  }
}

bool elastic_wait(elastic_job *e, unsigned number, const bool *finished, int ms) {
  uint64_t end = msc_clock_ns() + (uint64_t)(ms < 0 ? 0 : ms) * 1000000;
  while (elastic_newest(e) <= number) {
    if (*(const volatile bool *)finished || (ms >= 0 && msc_clock_ns() >= end)) return false;
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
  }
  return true;
}

void elastic_ended(elastic_job *e, int process) { atomic_store(&e->rank[process], -1); }

int elastic_rank_of(const elastic_job *e, int process) { return atomic_load(&e->rank[process]); }

/* The plan of the most ranks that so many processes are enough for; -1: there is none. */
static int find_plan(const elastic_job *e, int processes) {
  for (int i = 0; i < e->num_family; i++)
    if (mscrt_plan_ranks(e->family[i]) <= processes) return i;
  return -1;
}

/* Drops ranks until `most` are left: first those whose parts others have, too, the last first. */
static void drop_ranks(const mscrt_plan *plan, bool *lost, int left, int most) {
  int ranks = mscrt_plan_ranks(plan);
  for (int pass = 0; pass < 2; pass++)
    for (int r = ranks - 1; r >= 0 && left > most; r--) {
      if (lost[r]) continue;
      lost[r] = true;
      if (pass || mscrt_plan_restores(plan, r, lost, NULL)) left--;
      else lost[r] = false;
    }
}

/* Numbers the processes that are to be ranks: those that are ranks now in their order, then spares. */
static void number_ranks(elastic_job *e, const bool *alive, const bool *lost, int ranks) {
  int next = 0, before = mscrt_plan_ranks(e->family[atomic_load(&e->plan)]);
  for (int r = 0; r < before; r++) e->process_of[r] = -1;
  for (int i = 0; i < e->processes; i++) {
    int r = atomic_load(&e->rank[i]);
    if (r >= 0 && !lost[r]) e->process_of[r] = i;
    bool stays_out = r >= 0 && alive[i] && lost[r]; /* it was dropped: it comes after those that never were ranks */
    atomic_store(&e->rank[i], stays_out ? -2 : -1);
  }
  for (int r = 0; r < before; r++)
    if (e->process_of[r] >= 0 && next < ranks) atomic_store(&e->rank[e->process_of[r]], next++);
  for (int wanted = -1; wanted >= -2; wanted--)
    for (int i = 0; i < e->processes && next < ranks; i++)
      if (alive[i] && atomic_load(&e->rank[i]) == wanted) atomic_store(&e->rank[i], next++);
  for (int i = 0; i < e->processes; i++)
    if (atomic_load(&e->rank[i]) < 0) atomic_store(&e->rank[i], -1);
}

bool elastic_decide(elastic_job *e, const bool *alive) {
  int living = 0, left = 0, now = atomic_load(&e->plan), ranks_now = mscrt_plan_ranks(e->family[now]);
  bool *lost = e->lost;
  memset(lost, true, (size_t)ranks_now * sizeof *lost);
  for (int i = 0; i < e->processes; i++) {
    int r = atomic_load(&e->rank[i]);
    living += alive[i];
    if (!alive[i] || r < 0) continue;
    lost[r] = false, left++;
  }
  int plan = find_plan(e, living);
  if (plan < 0) return false;
  if (plan == now && left == ranks_now) return true; /* only spares came or went */
  int ranks = mscrt_plan_ranks(e->family[plan]);
  drop_ranks(e->family[now], lost, left, ranks);
  atomic_fetch_add(&e->version, 1);
  number_ranks(e, alive, lost, ranks);
  atomic_store(&e->plan, plan);
  atomic_fetch_add(&e->version, 1);
  return true;
}
