/* cmd_launch.c: msc launch: starts this host's ranks of any program, with the variables that say which rank each is;
 * puts the rank in front of every line that they print, passes signals on, and starts all again after a failure. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/cli_state.h"
#include "tools/watch.h"

enum { GRACE_MS = 5000, LINE = 1 << 16, MOST_RANKS = 4096, DEFAULT_PORT = 29500 };

/* What a rank prints, as far as its line has no end yet. */
typedef struct {
  int fd;
  FILE *to;
  size_t bytes;
  char *line;
} stream;

typedef struct {
  stream out, err;
} outputs;

typedef struct {
  cli *c;
  int local, nodes, node, restarts, generation;
  int replaced; /* so many ranks more may be started in the places of others */
  int grace_ms;
  char master[280], port[8], address[300];
  watch processes; /* of the ranks of this host */
  outputs *printed;
  struct pollfd *polled;
  int signals; /* descriptor */
  int first;   /* the rank of this host that failed first; -1: none */
} launcher;

/* ---- options ---- */

static int find_free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && bind(fd, (struct sockaddr *)&at, n) == 0 && getsockname(fd, (struct sockaddr *)&at, &n) == 0;
  if (fd >= 0) close(fd);
  return found ? ntohs(at.sin_port) : DEFAULT_PORT;
}

/* HOST:PORT, or HOST */
static bool read_master_option(launcher *l, const char *text) {
  const char *colon = strrchr(text, ':');
  bool has_port = colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1);
  size_t n = has_port ? (size_t)(colon - text) : strlen(text);
  long port = has_port ? strtol(colon + 1, NULL, 10) : DEFAULT_PORT;
  bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';
  if (n == 0 || n > 255 || port < 1 || port > 65535)
    return cli_usage(l->c, "--master: '%s' is no HOST:PORT", text), false;
  snprintf(l->master, sizeof l->master, "%.*s", (int)n - 2 * brackets, text + brackets);
  snprintf(l->port, sizeof l->port, "%ld", port);
  snprintf(l->address, sizeof l->address, strchr(l->master, ':') ? "[%s]:%s" : "%s:%s", l->master, l->port);
  return true;
}

/* A whole number of the environment; `absent` if it is not set, or is none. */
static int64_t number_of(const char *name, int64_t absent) {
  const char *text = getenv(name);
  char *end;
  long v = text && *text ? strtol(text, &end, 10) : -1;
  return v >= 0 && !*end ? v : absent;
}

/* What a launcher of hosts, as a TrainJob, says of the first one. */
static const char *master_of_launcher(const launcher *l) {
  const char *host = getenv("PET_MASTER_ADDR");
  if (!host || !*host) return NULL;
  return msc_arena_printf(msc_context_arena(l->c->ctx), strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                          (int)number_of("PET_MASTER_PORT", DEFAULT_PORT));
}

static int read_launch_options(launcher *l) {
  cli *c = l->c;
  const char *master = cli_text(c, "master");
  int64_t n = cli_int(c, "n", 0), nodes = cli_int(c, "nodes", number_of("PET_NNODES", 1)),
          node = cli_int(c, "node-rank", number_of("PET_NODE_RANK", -1));
  if (!master && nodes > 1) master = master_of_launcher(l);
  if (n < 1 || nodes < 1 || n > MOST_RANKS || nodes > MOST_RANKS || n * nodes > MOST_RANKS)
    return cli_usage(c, "-n and --nodes are at least 1, and make %d ranks at most", MOST_RANKS);
  if (node < 0 && nodes > 1) node = number_of("JOB_COMPLETION_INDEX", -1);
  if (node < 0 && nodes == 1) node = 0;
  if (node < 0) return cli_usage(c, "--nodes %" PRId64 " needs --node-rank", nodes);
  if (node >= nodes) return cli_usage(c, "--node-rank %" PRId64 " of %" PRId64 " nodes: counted from 0", node, nodes);
  if (nodes > 1 && !master)
    return cli_usage(c, "--nodes %" PRId64 " needs --master HOST:PORT, a host of rank 0", nodes);
  if (cli_int(c, "restarts", 0) < 0) return cli_usage(c, "--restarts is not negative");
  if (cli_int(c, "replace", 0) < 0) return cli_usage(c, "--replace is not negative");
  l->replaced = (int)cli_int(c, "replace", 0);
  if (!(cli_number(c, "grace", 1) > 0 && cli_number(c, "grace", 1) < 1e6))
    return cli_usage(c, "--grace is a number of seconds above 0");
  l->local = (int)n, l->nodes = (int)nodes, l->node = (int)node, l->restarts = (int)cli_int(c, "restarts", 0);
  l->grace_ms = (int)(cli_number(c, "grace", GRACE_MS / 1e3) * 1000);
  return master && !read_master_option(l, master) ? CLI_USAGE : CLI_OK;
}

/* A place to meet that no other job has, for ranks of one host. */
static void choose_address(launcher *l) {
  uint64_t name[2] = {0};
  char text[32];
  if (l->master[0] && l->address[0] != '@') return; /* given */
  if (getrandom(name, sizeof name, 0) != sizeof name) name[0] = (uint64_t)cli_now_ns();
  snprintf(text, sizeof text, "127.0.0.1:%d", find_free_port());
  (void)read_master_option(l, text);
  snprintf(l->address, sizeof l->address, "@msc-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
}

/* ---- starting ---- */

static void set_number(const char *name, int v) {
  char text[16];
  snprintf(text, sizeof text, "%d", v);
  setenv(name, text, 1);
}

static void set_environment(const launcher *l, int local_rank) {
  int rank = l->node * l->local + local_rank, ranks = l->nodes * l->local;
  const struct {
    const char *name;
    int v;
  } numbers[] = {{"MSC_RANK", rank},
                 {"MSC_RANKS", ranks},
                 {"MSC_LOCAL_RANK", local_rank},
                 {"MSC_LOCAL_RANKS", l->local},
                 {"RANK", rank},
                 {"WORLD_SIZE", ranks},
                 {"LOCAL_RANK", local_rank},
                 {"LOCAL_WORLD_SIZE", l->local},
                 {"TORCHELASTIC_RESTART_COUNT", l->generation}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) set_number(numbers[i].name, numbers[i].v);
  setenv("MASTER_ADDR", l->master, 1);
  setenv("MASTER_PORT", l->port, 1);
  setenv("MSC_ADDRESS", l->address, 1);
  if (cli_int(l->c, "replace", 0)) set_number("MSC_REPLACE", (int)cli_int(l->c, "replace", 0));
}

/* The child: becomes the program, or writes errno into the pipe. */
static void become_rank(const launcher *l, int local_rank, int out, int err, int broken, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(CLI_ENVIRONMENT);
  set_environment(l, local_rank);
  int in = local_rank || l->node ? open("/dev/null", O_RDONLY) : STDIN_FILENO;
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
    _exit(CLI_ENVIRONMENT);
  execvp(l->c->operands[0], (char *const *)(uintptr_t)l->c->operands);
  int error = errno;
  if (write(broken, &error, sizeof error) != sizeof error) _exit(CLI_ENVIRONMENT);
  _exit(127);
}

/* replaces: takes the place of one that was lost, while the others stay. */
static bool start_one(launcher *l, int i, bool replaces) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, broken[2] = {-1, -1}, error = 0;
  outputs *p = &l->printed[i];
  pid_t self = getpid(), pid = -1;
  bool made = pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && pipe2(broken, O_CLOEXEC) == 0;
  if (made) pid = fork();
  if (made && pid == 0 && replaces) setenv("MSC_REPLACES", "1", 1);
  if (made && pid == 0) become_rank(l, i, out[1], err[1], broken[1], self);
  if (!made || pid < 0) error = errno;
  int *const mine[] = {&out[1], &err[1], &broken[1]};
  for (int k = 0; k < 3; k++)
    if (*mine[k] >= 0) close(*mine[k]);
  if (!error && read(broken[0], &error, sizeof error) != sizeof error) error = 0;
  if (broken[0] >= 0) close(broken[0]);
  p->out.fd = out[0], p->err.fd = err[0];
  if (out[0] >= 0) fcntl(out[0], F_SETFL, O_NONBLOCK);
  if (err[0] >= 0) fcntl(err[0], F_SETFL, O_NONBLOCK);
  if (error) return msc_error(l->c->ctx, MSC_E_FILE, NULL, "cannot start %s: %s", l->c->operands[0], strerror(error));
  watch_started(&l->processes, i, pid);
  return true;
}

static bool start_all(launcher *l) {
  fflush(NULL);
  watch_new(msc_context_arena(l->c->ctx), l->local, &l->processes);
  l->first = -1;
  for (int i = 0; i < l->local; i++) l->printed[i].out.fd = l->printed[i].err.fd = -1;
  for (int i = 0; i < l->local; i++)
    if (!start_one(l, i, false)) return watch_signal(&l->processes, SIGKILL), false;
  return true;
}

/* ---- what they print ---- */

static void print_line(const launcher *l, int local_rank, stream *s) {
  if (!s->bytes) return;
  if (s->line[s->bytes - 1] != '\n') s->line[s->bytes++] = '\n';
  fprintf(s->to, "[%d] ", l->node * l->local + local_rank);
  fwrite(s->line, 1, s->bytes, s->to);
  s->bytes = 0;
}

/* Prints the lines that are whole; at the end, or if it is very long, also one that is not. */
static void take_output(const launcher *l, int local_rank, stream *s) {
  char text[4096];
  ssize_t n;
  while (s->fd >= 0 && (n = read(s->fd, text, sizeof text)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    for (ssize_t i = 0; i < n; i++) {
      s->line[s->bytes++] = text[i];
      if (text[i] == '\n' || s->bytes == LINE - 1) print_line(l, local_rank, s);
    }
  }
  fflush(s->to);
}

static void close_output(const launcher *l, int local_rank, stream *s) {
  take_output(l, local_rank, s);
  print_line(l, local_rank, s);
  fflush(s->to);
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

/* ---- watching ---- */

static bool replace_one(launcher *l, int i) {
  const watch *w = &l->processes;
  int number = WIFSIGNALED(w->status[i]) ? WTERMSIG(w->status[i]) : 0;
  if (!number || !l->replaced || w->asked || l->first >= 0) return false;
  fprintf(stderr, "msc launch: rank %d was ended by signal %d (%s); another takes its place\n", l->node * l->local + i,
          number, strsignal(number));
  l->replaced--;
  return start_one(l, i, true);
}

static void reap_programs(launcher *l) {
  watch *w = &l->processes;
  for (int i; (i = watch_reap(w)) >= 0;) {
    close_output(l, i, &l->printed[i].out);
    close_output(l, i, &l->printed[i].err);
    if (!w->status[i] || l->first >= 0 || w->asked || replace_one(l, i)) continue;
    l->first = i;
    watch_ends_in(w, l->grace_ms); /* the others may notice it themselves */
  }
}

static void take_signals(launcher *l) {
  struct signalfd_siginfo told;
  while (read(l->signals, &told, sizeof told) == (ssize_t)sizeof told) {
    int number = (int)told.ssi_signo;
    if (number == SIGCHLD) continue;
    if (number == SIGUSR1 || number == SIGUSR2) watch_signal(&l->processes, number);
    else watch_pass_on(&l->processes, number, l->grace_ms);
  }
}

static void watch_all(launcher *l) {
  while (l->processes.left > 0) {
    nfds_t n = 0;
    l->polled[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (int i = 0; i < l->local; i++) {
      l->polled[n++] = (struct pollfd){.fd = l->printed[i].out.fd, .events = POLLIN};
      l->polled[n++] = (struct pollfd){.fd = l->printed[i].err.fd, .events = POLLIN};
    }
    poll(l->polled, n, 200);
    for (int i = 0; i < l->local; i++) {
      stream *const both[] = {&l->printed[i].out, &l->printed[i].err};
      for (int k = 0; k < 2; k++) {
        short seen = l->polled[1 + 2 * i + k].revents;
        if (seen & POLLIN) take_output(l, i, both[k]);
        else if (seen && both[k]->fd >= 0) close_output(l, i, both[k]);
      }
    }
    take_signals(l);
    reap_programs(l);
    watch_deadline(&l->processes);
  }
}

/* ---- the end ---- */

static int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static void tell_ended_program(const launcher *l, bool again) {
  int status = l->processes.status[l->first];
  char how[80], next[60] = "";
  if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
  if (again) snprintf(next, sizeof next, "; restart %d of %d", l->generation, l->restarts);
  fprintf(stderr, "msc launch: rank %d %s%s\n", l->node * l->local + l->first, how, next);
}

static int run_generations(launcher *l) {
  for (;; l->generation++) {
    choose_address(l);
    bool started = start_all(l);
    watch_all(l);
    if (!started) return CLI_INPUT;
    if (l->processes.told) return 128 + l->processes.told;
    if (l->first < 0) return CLI_OK;
    if (l->generation == l->restarts) {
      tell_ended_program(l, false);
      return code_of(l->processes.status[l->first]);
    }
    l->generation++;
    tell_ended_program(l, true);
    l->generation--;
  }
}

static int run_launch(cli *c) {
  static const int passed_on[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  launcher l = {.c = c};
  sigset_t set, before;
  msc_arena *a = msc_context_arena(c->ctx);
  int code = read_launch_options(&l);
  if (code) return code;
  l.printed = msc_new_array(a, outputs, l.local);
  l.polled = msc_new_array(a, struct pollfd, 1 + 2 * l.local);
  for (int i = 0; i < l.local; i++) {
    l.printed[i].out = (stream){.fd = -1, .to = stdout, .line = msc_new_array(a, char, LINE + 1)};
    l.printed[i].err = (stream){.fd = -1, .to = stderr, .line = msc_new_array(a, char, LINE + 1)};
  }
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&set, passed_on[i]);
  sigprocmask(SIG_BLOCK, &set, &before);
  l.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  code = run_generations(&l);
  close(l.signals);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return code;
}

static const cli_option options[] = {
    {"n", CLI_INT, "RANKS", "ranks of this host"},
    {"nodes", CLI_INT, "K", "hosts, each with as many ranks; default PET_NNODES, or 1"},
    {"node-rank", CLI_INT, "I", "number of this host; default PET_NODE_RANK or JOB_COMPLETION_INDEX"},
    {"master", CLI_TEXT, "HOST:PORT",
     "where rank 0 is; needed with several hosts, which also need MSC_TOKEN_FILE; default PET_MASTER_ADDR"},
    {"restarts", CLI_INT, "R", "how many times all ranks of this host are started again after one failed; default 0"},
    {"replace", CLI_INT, "N",
     "how many ranks of this host that a signal ended are started once more while the others stay, which must wait for "
     "them, as msc run does; default 0"},
    {"grace", CLI_NUMBER, "S", "seconds that ranks have to end by themselves after a failure or a signal; default 5"},
    {0},
};
const cli_command cmd_launch = {"PROGRAM [ARGUMENT ...]", 1, CLI_REST, options, run_launch};
