/* start_ranks.c: a function and a number of ranks in; each rank runs it as a process of this host, which this process
 * watches. */
#include "tools/run/start_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli_state.h"
#include "tools/cluster/watch.h"

#define GRACE_MS   5000 /* after the first failure or a signal: for the others to notice it and report */
#define IDLE_NS    200000000
#define END_MS     2000 /* for those that did start, where one did not */
#define TEXT_BYTES 3900

/* One message fits a pipe's atomic write, so messages of ranks do not mix. */
typedef struct {
  int rank, code;
  char text[TEXT_BYTES];
} message;
_Static_assert(sizeof(message) <= 4096, "PIPE_BUF");

struct launcher_line {
  int fd, rank;
};

void report_to_launcher(cli *c, const launcher_line *line, msc_code code, const char *text) {
  if (!line) {
    msc_error(c->ctx, code, NULL, "%s", text);
    return;
  }
  message m = {.rank = line->rank, .code = (int)code};
  snprintf(m.text, sizeof m.text, "%s", text);
  while (write(line->fd, &m, sizeof m) < 0 && errno == EINTR) {}
}

typedef struct {
  cli *c;
  watch ranks;
  const ranks_job *job;
  int replaced;         /* so many ranks more may be started in the places of others */
  int speaks;           /* write end of the pipe, for these; -1: closed */
  const sigset_t *mask; /* what a rank is started with */
  bool *alive;          /* for `decide` */
  int pipe;             /* read end: messages of the ranks */
  int num_messages;
  message *message; /* room for two per rank */
  bool failed;
} launcher;

/* ---- starting ---- */

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void set_of_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGCHLD);
  for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) sigaddset(set, forwarded[i]);
}

/* Restores the signal mask. A SIGUSR1 or SIGUSR2 for ranks that have ended meanwhile must not end this process. */
static void leave_signals(const sigset_t *before) {
  signal(SIGUSR1, SIG_IGN);
  signal(SIGUSR2, SIG_IGN);
  sigprocmask(SIG_SETMASK, before, NULL);
}

static int be_rank(const launcher *w, int rank, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return CLI_ENVIRONMENT;
  sigprocmask(SIG_SETMASK, w->mask, NULL);
  launcher_line line = {w->speaks, rank};
  int code = w->job->fn(w->job->arg, rank, &line);
  if (code || (fflush(stdout) == 0 && !ferror(stdout))) return code;
  report_to_launcher(NULL, &line, MSC_E_FILE, "cannot write to stdout");
  return CLI_ENVIRONMENT;
}

/* Raises the limit of descriptors: each rank has some for all others while they meet. */
static void allow_descriptors(void) {
  struct rlimit l;
  if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur >= l.rlim_max) return;
  l.rlim_cur = l.rlim_max;
  setrlimit(RLIMIT_NOFILE, &l);
}

/* Keeps this process on the rank's share of the cores: else the kernel may leave two ranks that wait for each other on
 * one. More ranks than cores are kept only if each core has equally many; ranks whose number changes are not. */
static void keep_on_share(const launcher *w, int rank) {
  cpu_set_t all, own;
  int ranks = w->job->ranks;
  if (ranks < 2 || rank >= ranks || w->job->decide || sched_getaffinity(0, sizeof all, &all) != 0) return;
  int cores = CPU_COUNT(&all), begin = rank * cores / ranks, end = (rank + 1) * cores / ranks;
  if (ranks > cores && ranks % cores) return;
  if (end == begin) end++;
  CPU_ZERO(&own);
  for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (at >= begin && at < end) CPU_SET(cpu, &own);
    at++;
  }
  sched_setaffinity(0, sizeof own, &own);
}

static bool start_rank(launcher *w, int r) {
  pid_t self = getpid(), pid = fork();
  if (pid == 0) {
    keep_on_share(w, r);
    _exit(be_rank(w, r, self));
  }
  if (pid > 0) watch_started(&w->ranks, r, pid);
  return pid > 0;
}

static bool start_processes(launcher *w) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return msc_error(w->c->ctx, MSC_E_TARGET, NULL, "cannot start ranks: %s", strerror(errno));
  w->pipe = ends[0];
  fcntl(w->pipe, F_SETFL, O_NONBLOCK);
  w->speaks = ends[1];
  allow_descriptors();
  fflush(NULL);
  for (int r = 0; r < w->ranks.num; r++)
    if (!start_rank(w, r)) {
      msc_error(w->c->ctx, MSC_E_TARGET, NULL, "cannot start rank %d of %d: %s", r, w->ranks.num, strerror(errno));
      break;
    }
  if (!w->replaced && !w->job->decide) close(w->speaks), w->speaks = -1;
  return w->ranks.left == w->ranks.num;
}

/* ---- watching ---- */

/* A server that a signal has ended is not missed while its copy, or what it is a copy of, goes on. */
static bool has_living_copy(const launcher *w, int r) {
  int copies = w->job->ranks + w->job->servers, other = r < copies ? r + w->job->servers : r - w->job->servers;
  return r >= w->job->ranks && copies < w->ranks.num && !w->ranks.ended[other];
}

static bool decide_anew(launcher *w, int ended) {
  for (int r = 0; r < w->ranks.num; r++) w->alive[r] = !w->ranks.ended[r];
  return w->job->decide(w->job->arg, w->alive, ended);
}

/* Starts another process in the place of a rank that a signal has ended, if more may be; or the others go on. */
static bool replace_rank(launcher *w, int r) {
  int status = w->ranks.status[r], number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  pid_t ended = w->ranks.pid[r];
  if (!number || w->ranks.asked || w->failed) return false;
  if (has_living_copy(w, r)) {
    fprintf(stderr, "msc run: server %d (process %d) was ended by signal %d (%s); its copy goes on\n",
            (r - w->job->ranks) % w->job->servers, (int)ended, number, strsignal(number));
    w->ranks.status[r] = 0;
    return true;
  }
  if (r >= w->job->ranks) return false; /* nobody has what a server had */
  bool again = w->replaced && start_rank(w, r);
  w->replaced -= again;
  if (!again && !w->job->decide) return false;
  if (w->job->decide && !decide_anew(w, r)) return false;
  fprintf(stderr, "msc run: rank %d (process %d) was ended by signal %d (%s); %s\n", r, (int)ended, number,
          strsignal(number), again ? "another takes its place" : "the others go on");
  if (!again) w->ranks.status[r] = 0;
  return true;
}

/* Starts processes in the places of those that signals have ended. */
static void fill_places(launcher *w) {
  bool any = false;
  if (w->ranks.asked || w->failed) return;
  for (int r = 0; r < w->job->ranks; r++)
    if (w->ranks.ended[r] && start_rank(w, r)) any = true;
  if (any) decide_anew(w, -1);
}

static void reap_ranks(launcher *w) {
  for (int r; (r = watch_reap(&w->ranks)) >= 0;) {
    int *status = &w->ranks.status[r];
    if (w->ranks.asked && WIFSIGNALED(*status)) *status = 0; /* a process that was asked to end has not failed */
    if (!*status || w->failed || replace_rank(w, r)) continue;
    w->failed = true;
    if (!w->ranks.asked) watch_ends_in(&w->ranks, GRACE_MS);
  }
}

/* Reads the messages of ranks from the pipe, which must not fill up: a rank that cannot write does not end. */
static void read_messages(launcher *w) {
  message m;
  while (read(w->pipe, &m, sizeof m) == (ssize_t)sizeof m) {
    m.text[TEXT_BYTES - 1] = 0;
    if (w->num_messages < 2 * w->ranks.num) w->message[w->num_messages++] = m;
  }
}

static void wait_for_all(launcher *w) {
  sigset_t set;
  int grace_ms = w->job->grace_ms ? w->job->grace_ms : GRACE_MS;
  set_of_signals(&set);
  while (w->ranks.left > 0) {
    int64_t ns = w->ranks.deadline_ns ? w->ranks.deadline_ns - cli_now_ns() : IDLE_NS;
    if (ns < 0) ns = 0;
    if (ns > IDLE_NS) ns = IDLE_NS;
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    int number = sigtimedwait(&set, NULL, &t);
    if (number == SIGUSR1) watch_signal(&w->ranks, number); /* asks for something, and ends nothing */
    else if (number == SIGUSR2 && w->job->decide) fill_places(w);
    else if (number > 0 && number != SIGCHLD) watch_pass_on(&w->ranks, number, grace_ms);
    read_messages(w);
    reap_ranks(w);
    watch_deadline(&w->ranks);
  }
}

/* ---- reporting ---- */

/* Prints equal messages once, for "rank 2" or "ranks 0, 1, 3". */
static void put_messages(launcher *w) {
  const message *m = w->message;
  int num = w->num_messages;
  for (int i = 0; i < num; i++) {
    char who[128];
    size_t n = 0;
    int alike = 0;
    bool first = true;
    for (int j = 0; j < num; j++) {
      if (m[j].code != m[i].code || strcmp(m[j].text, m[i].text)) continue;
      first = first && j >= i;
      if (n + 16 < sizeof who) n += (size_t)snprintf(who + n, sizeof who - n, "%s%d", alike ? ", " : "", m[j].rank);
      alike++;
    }
    if (!first) continue;
    if (alike == w->ranks.num || !strncmp(m[i].text, "rank ", 5) || m[i].rank >= w->job->ranks)
      msc_error(w->c->ctx, (msc_code)m[i].code, NULL, "%s", m[i].text);
    else msc_error(w->c->ctx, (msc_code)m[i].code, NULL, "rank%s %s: %s", alike > 1 ? "s" : "", who, m[i].text);
  }
}

static int exit_code(const launcher *l) {
  int code = CLI_OK;
  const watch *w = &l->ranks;
  for (int r = 0; r < w->num; r++) {
    int status = w->status[r];
    /* nobody reads our output */
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE && r == 0) return 128 + SIGPIPE;
    if (WIFSIGNALED(status)) {
      bool server = r >= l->job->ranks;
      const char *what = server ? "server" : "rank";
      int number = server ? (r - l->job->ranks) % l->job->servers : r, pid = (int)w->pid[r];
      if (w->stopped[r])
        msc_error(l->c->ctx, MSC_E_PEER, NULL, "%s %d (process %d) was stopped by a signal; it was killed", what,
                  number, pid);
      else
        msc_error(l->c->ctx, MSC_E_PEER, NULL, "%s %d (process %d) was ended by signal %d (%s)", what, number, pid,
                  WTERMSIG(status), strsignal(WTERMSIG(status)));
      code = CLI_ENVIRONMENT;
    }
  }
  if (w->told) return 128 + w->told;
  /* A peer's loss is what the others end with; another code is the reason. */
  for (int r = 0; r < w->num && code == CLI_OK; r++)
    if (WIFEXITED(w->status[r]) && WEXITSTATUS(w->status[r]) != CLI_ENVIRONMENT) code = WEXITSTATUS(w->status[r]);
  for (int r = 0; r < w->num && code == CLI_OK; r++)
    if (WIFEXITED(w->status[r])) code = WEXITSTATUS(w->status[r]);
  return code;
}

int start_ranks(cli *c, const ranks_job *job) {
  msc_arena *arena = msc_context_arena(c->ctx);
  int processes = job->ranks + job->servers * (job->copies > 1 ? job->copies : 1);
  sigset_t set, before;
  launcher w = {.c = c, .job = job, .pipe = -1, .speaks = -1, .mask = &before, .replaced = job->replaced};
  watch_new(arena, processes, &w.ranks);
  w.alive = msc_new_array(arena, bool, processes);
  w.message = msc_new_array(arena, message, 2 * processes);
  set_of_signals(&set);
  sigprocmask(SIG_BLOCK, &set, &before);
  bool started = start_processes(&w);
  if (!started) {
    w.ranks.asked = true;
    watch_signal(&w.ranks, SIGTERM);
    watch_ends_in(&w.ranks, END_MS);
  }
  wait_for_all(&w);
  int code = started ? exit_code(&w) : CLI_ENVIRONMENT;
  if (w.speaks >= 0) close(w.speaks);
  if (w.pipe >= 0) {
    read_messages(&w);
    close(w.pipe);
    if (code != 128 + SIGPIPE) put_messages(&w);
  }
  leave_signals(&before);
  return code;
}
