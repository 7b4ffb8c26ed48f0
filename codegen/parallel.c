/* parallel.c: pieces of work in; all of them done, by as many threads as this process has CPUs. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "codegen/emit/emit.h"

typedef struct {
  size_t num;
  atomic_size_t next; /* piece to be made */
  void (*make)(void *user, size_t piece);
  void *user;
} pieces;

static void *make_pieces(void *arg) {
  pieces *p = arg;
  for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->num;) p->make(p->user, i);
  return NULL;
}

void msc_run_in_parallel(size_t num, void (*make)(void *user, size_t piece), void *user) {
  pieces p = {.num = num, .make = make, .user = user};
  cpu_set_t cpus;
  pthread_t thread[MSC_MAX_PARTS];
  size_t others = 0, most = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : (size_t)CPU_COUNT(&cpus);
  if (most > num) most = num;
  if (most > MSC_MAX_PARTS) most = MSC_MAX_PARTS;
  /* if a thread cannot be created, the other threads do its work */
  while (others + 1 < most && !pthread_create(&thread[others], NULL, make_pieces, &p)) others++;
  make_pieces(&p);
  while (others) pthread_join(thread[--others], NULL);
}
