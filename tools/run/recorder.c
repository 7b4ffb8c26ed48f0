/* recorder.c: SIGUSR1 or a failure in; the flight record of a rank out, DIR/rank-R.json. */
#include "tools/run/recorder.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void set_of_signal(sigset_t *out) {
  sigemptyset(out);
  sigaddset(out, SIGUSR1);
}

bool recorder_prepare(cli *c, const char *folder) {
  sigset_t set;
  if (!folder) return signal(SIGUSR1, SIG_IGN), true;
  set_of_signal(&set);
  sigprocmask(SIG_BLOCK, &set, NULL);
  return cli_make_folder(c, folder);
}

/* Writes the record; a failure to do so does not end the run. */
static void write_record(const recorder *r, const char *reason) {
  mscrt_status *s = mscrt_dump_flight(r->ctx, r->path, reason);
  if (s) fprintf(stderr, "msc run: warning: %s\n", mscrt_status_text(s));
  mscrt_status_free(s);
}

static void *write_when_asked(void *arg) {
  recorder *r = arg;
  sigset_t set;
  set_of_signal(&set);
  while (!atomic_load(&r->ends))
    if (sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = 100000000}) == SIGUSR1) write_record(r, "SIGUSR1");
  return NULL;
}

void recorder_start(recorder *r, const char *folder, int rank, const mscrt_context *ctx) {
  *r = (recorder){.ctx = ctx};
  if (!folder || snprintf(r->path, sizeof r->path, "%s/rank-%d.json", folder, rank) >= (int)sizeof r->path) {
    r->path[0] = 0;
    return;
  }
  unlink(r->path);
  r->has_thread = pthread_create(&r->thread, NULL, write_when_asked, r) == 0;
}

void recorder_stop(recorder *r, const mscrt_status *failure) {
  if (r->has_thread) {
    atomic_store(&r->ends, true);
    pthread_join(r->thread, NULL);
  }
  if (failure && r->path[0]) write_record(r, mscrt_status_text(failure));
  *r = (recorder){0};
}
