/* watch.c: processes in; which of them have ended out. Ends all of them at a deadline. */
#include "tools/cluster/watch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli_state.h"

enum { END_MS = 2000 }; /* from asking to end to ending */

void watch_new(msc_arena *arena, int num, watch *out) {
  *out = (watch){.num = num,
                 .pid = msc_new_array(arena, pid_t, num),
                 .status = msc_new_array(arena, int, num),
                 .ended = msc_new_array(arena, bool, num),
                 .stopped = msc_new_array(arena, bool, num),
                 .lifeline = msc_new_array(arena, int, num)};
  for (int i = 0; i < num; i++) out->ended[i] = true, out->lifeline[i] = -1;
}

void watch_started(watch *w, int i, pid_t pid) {
  w->pid[i] = pid, w->status[i] = 0, w->ended[i] = w->stopped[i] = false;
  w->left++;
}

static void close_lifeline(const watch *w, int i) {
  if (w->lifeline[i] >= 0) close(w->lifeline[i]);
  w->lifeline[i] = -1;
}

void watch_signal(const watch *w, int number) {
  for (int i = 0; i < w->num; i++) {
    uint8_t byte = (uint8_t)number;
    if (w->ended[i]) continue;
    if (number == SIGKILL) close_lifeline(w, i);
    if (w->lifeline[i] < 0 || write(w->lifeline[i], &byte, 1) != 1) kill(w->pid[i], number);
  }
}

void watch_ends_in(watch *w, int ms) { w->deadline_ns = cli_now_ns() + (int64_t)ms * 1000000; }

void watch_pass_on(watch *w, int number, int grace_ms) {
  if (!w->told) watch_ends_in(w, grace_ms);
  w->told = number;
  w->asked = true;
  watch_signal(w, number);
}

int watch_reap(watch *w) {
  for (int i = 0; i < w->num; i++) {
    if (w->ended[i] || waitpid(w->pid[i], &w->status[i], WNOHANG) != w->pid[i]) continue;
    w->ended[i] = true;
    w->left--;
    close_lifeline(w, i);
    return i;
  }
  return -1;
}

bool watch_is_stopped(const watch *w, int i) {
  siginfo_t stopped = {0};
  return !w->ended[i] && waitid(P_PID, (id_t)w->pid[i], &stopped, WSTOPPED | WNOHANG | WNOWAIT) == 0 && stopped.si_pid;
}

/* True if a signal has stopped every process that is left. */
static bool are_all_stopped(const watch *w) {
  for (int i = 0; i < w->num; i++)
    if (!w->ended[i] && !watch_is_stopped(w, i)) return false;
  return w->left > 0;
}

void watch_deadline(watch *w) {
  if (!w->deadline_ns) return;
  if (are_all_stopped(w)) {
    for (int i = 0; i < w->num; i++) w->stopped[i] = !w->ended[i];
    watch_signal(w, SIGKILL);
    return;
  }
  if (cli_now_ns() < w->deadline_ns) return;
  watch_signal(w, w->asked ? SIGKILL : SIGTERM);
  w->asked = true;
  watch_ends_in(w, END_MS);
}
