/* watch.h: child processes that are watched together: which have ended and how, signals to all that run, and what is
 * done when they do not end in time. */
#ifndef MSC_TOOLS_WATCH_H
#define MSC_TOOLS_WATCH_H

#include <sys/types.h>

#include "tools/cli.h"

typedef struct {
  int num, left;       /* processes; those that run */
  pid_t *pid;
  int *status;         /* as waitpid gives it; 0 while it runs */
  bool *ended;         /* not running; to begin with, all */
  bool *stopped;       /* killed because a signal had stopped it */
  int *lifeline;       /* takes a byte for each signal that a process is to get, and is closed behind it; -1: none */
  int told;            /* the signal that this process got and that ends all; 0: none */
  bool asked;          /* the processes were asked to end */
  int64_t deadline_ns; /* when all are asked to end, or killed where they were asked; 0: never */
} watch;

void watch_new(msc_arena *arena, int num, watch *out);
/* Notes that process i runs as `pid`; no other process with this number may run. */
void watch_started(watch *w, int i, pid_t pid);
/* Sends a signal to all that run. */
void watch_signal(const watch *w, int number);
void watch_ends_in(watch *w, int ms);
/* Passes on a signal that ends all processes; they have grace_ms from the first such signal on. */
void watch_pass_on(watch *w, int number, int grace_ms);
/* Has a signal stopped the process, which has not gone on since? */
bool watch_is_stopped(const watch *w, int i);
/* The number of a process that has ended since it was last asked, without waiting for one; -1: none has. */
int watch_reap(watch *w);
/* At the deadline: asks all to end, and kills them some time later. Where all that are left were stopped by a signal,
 * and so cannot end by themselves, it kills them as soon as there is a deadline. */
void watch_deadline(watch *w);

#endif
