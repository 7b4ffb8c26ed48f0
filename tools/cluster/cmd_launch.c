/* cmd_launch.c: msc launch: a program in; the ranks of this host run it, with the variables that say which rank each
 * is. Puts the rank in front of every line that they print, passes signals on, and starts all again after a failure. 
 * With a file of hosts it starts, over ssh, an msc launch on each of them. */
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/plan/plan.h"
#include "tools/cli.h"
#include "tools/cli_state.h"
#include "tools/cluster/hosts.h"
#include "tools/cluster/watch.h"

enum {
  PROGRAM_TIMEOUT = 300, /* seconds; of msc run, without --timeout */
  GRACE_MS = 5000,
  HOST_MS = 3000,
  SERVERS_MS = 2000,
  LINE = 1 << 16,
  MOST_RANKS = 4096,
  MOST_SERVERS = 64,
  DEFAULT_PORT = 29500
};

/* The beginning of a line that a rank has not printed whole yet. */
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
  int local, nodes, node, restarts, generation; /* of hosts: local is their number */
  int servers, copies;                          /* servers of parameters; processes that each of them is */
  int processes;                                /* ranks, behind them servers, behind these the copies of servers */
  int replaced;                                 /* how many more ranks may be started in the places of lost ones */
  int64_t *stopped_ns;                          /* by process: when it was seen to be stopped; 0: it is not */
  size_t num_hosts;                             /* 0: the ranks of this host are started here */
  launch_host *host;
  const char *token;
  const char *const **words; /* what each process runs */
  bool has_lifeline;         /* standard input says which signals the ranks get */
  int grace_ms;
  char master[280], port[8], address[300];
  watch watched; /* the processes of this host */
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
static int64_t number_option(const char *name, int64_t absent) {
  const char *text = getenv(name);
  char *end;
  long v = text && *text ? strtol(text, &end, 10) : -1;
  return v >= 0 && !*end ? v : absent;
}

/* HOST:PORT of the first host from the PET_ variables, which a launcher of hosts (Kubeflow's TrainJob) sets; NULL: not
 * set. */
static const char *master_of_launcher(const launcher *l) {
  const char *host = getenv("PET_MASTER_ADDR");
  if (!host || !*host) return NULL;
  return msc_arena_printf(msc_context_arena(l->c->ctx), strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                          (int)number_option("PET_MASTER_PORT", DEFAULT_PORT));
}

/* The ranks of each host, which are as many on all of them; 0 after a usage error. */
static int ranks_of_hosts(const launcher *l) {
  int n = (int)cli_int(l->c, "n", 0);
  for (size_t i = 0; i < l->num_hosts; i++) {
    int slots = l->host[i].slots;
    if (n && slots && slots < n) return cli_usage(l->c, "-n %d: host %s has %d slots", n, l->host[i].name, slots), 0;
    if (!cli_int(l->c, "n", 0) && (!slots || (n && slots != n)))
      return cli_usage(l->c, "host %s has %s: -n says how many ranks each host has", l->host[i].name,
                       slots ? "other slots than those before it" : "no slots"),
             0;
    if (!n) n = slots;
  }
  return n;
}

static bool check_servers_option(const cli *c) {
  int64_t servers = cli_int(c, "servers", 0);
  if (servers >= 0 && servers <= MOST_SERVERS) return true;
  return cli_usage(c, "--servers is 0 to %d", MOST_SERVERS), false;
}

static int read_hosts_options(launcher *l, const char *path) {
  cli *c = l->c;
  uint16_t any = 0;
  const char *master = cli_text(c, "master");
  if (cli_int(c, "node-rank", -1) >= 0 || cli_int(c, "nodes", 0))
    return cli_usage(c, "--hosts says how many nodes there are; it goes without --nodes and --node-rank");
  if (!hosts_read(c, path, &l->num_hosts, &l->host) || !(l->token = hosts_token(c))) return CLI_INPUT;
  int n = ranks_of_hosts(l);
  if (!n) return CLI_USAGE;
  if (n < 1 || n * (int64_t)l->num_hosts > MOST_RANKS)
    return cli_usage(c, "-n is at least 1, and all hosts have %d ranks at most", MOST_RANKS);
  if (cli_int(c, "restarts", 0) < 0) return cli_usage(c, "--restarts is not negative");
  if (!check_servers_option(c)) return CLI_USAGE;
  l->local = l->processes = (int)l->num_hosts, l->nodes = 1, l->restarts = (int)cli_int(c, "restarts", 0);
  l->words = msc_new_array(msc_context_arena(c->ctx), const char *const *, l->local);
  l->grace_ms = (int)(cli_number(c, "grace", GRACE_MS / 1e3) * 1000);
  if (getrandom(&any, sizeof any, 0) != sizeof any) any = 0;
  const char *first = l->host[0].address;
  if (!master) /* a port of those that systems do not give to others by themselves */
    master = msc_arena_printf(msc_context_arena(c->ctx), strchr(first, ':') ? "[%s]:%d" : "%s:%d", first,
                              20000 + any % 12000);
  if (!read_master_option(l, master)) return CLI_USAGE;
  const char *at = strchr(l->master, ':') ? "[%s]:%s" : "%s:%s";
  const char *place = msc_arena_printf(msc_context_arena(c->ctx), at, l->master, l->port);
  for (size_t i = 0; i < l->num_hosts; i++) {
    const char *words = msc_arena_printf(
        msc_context_arena(c->ctx), "-n %d --nodes %zu --node-rank %zu --master %s --grace %g --replace %d --servers %d",
        n, l->num_hosts, i, place, l->grace_ms / 1e3, (int)cli_int(c, "replace", 0), (int)cli_int(c, "servers", 0));
    l->words[i] = hosts_command(c, &l->host[i], words);
  }
  l->grace_ms += HOST_MS; /* theirs comes first */
  return CLI_OK;
}

/* True if the file is a plan, which the four bytes behind its first word say. */
static bool is_plan_file(const char *path) {
  struct stat st;
  char head[8] = "";
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
  bool is_plan = f && fread(head, sizeof head, 1, f) == 1 && !memcmp(head + 4, "MSCP", 4);
  if (f) fclose(f);
  return is_plan;
}

/* How many processes each server is, as the first plan among the words of the program says; 1 without a plan, or with
 * one that cannot be read, which the program reports. */
static int copies_of_plan(cli *c) {
  int copies = 1;
  for (int i = 1; i < c->num_operands; i++) {
    if (!is_plan_file(c->operands[i])) continue;
    cli_bytes bytes;
    mscrt_plan *plan = NULL;
    if (!cli_read(c, c->operands[i], &bytes)) break;
    mscrt_status_free(mscrt_plan_open_layouts(bytes.data, bytes.size, &plan));
    if (plan) copies = mscrt_plan_server_copies(plan);
    mscrt_plan_close(plan);
    break;
  }
  return copies;
}

static int read_launch_options(launcher *l) {
  cli *c = l->c;
  const char *master = cli_text(c, "master"), *hosts = cli_text(c, "hosts");
  if (hosts) return read_hosts_options(l, hosts);
  int64_t n = cli_int(c, "n", 0), nodes = cli_int(c, "nodes", number_option("PET_NNODES", 1)),
          node = cli_int(c, "node-rank", number_option("PET_NODE_RANK", -1));
  if (!master && nodes > 1) master = master_of_launcher(l);
  if (n < 1 || nodes < 1 || n > MOST_RANKS || nodes > MOST_RANKS || n * nodes > MOST_RANKS)
    return cli_usage(c, "-n and --nodes are at least 1, and make %d ranks at most", MOST_RANKS);
  if (node < 0 && nodes > 1) node = number_option("JOB_COMPLETION_INDEX", -1);
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
  if (!check_servers_option(c)) return CLI_USAGE;
  l->servers = (int)cli_int(c, "servers", 0), l->copies = l->servers ? copies_of_plan(c) : 1;
  l->processes = l->local + (node ? 0 : l->servers * l->copies); /* they are on the host of rank 0 */
  l->grace_ms = (int)(cli_number(c, "grace", GRACE_MS / 1e3) * 1000);
  l->words = msc_new_array(msc_context_arena(c->ctx), const char *const *, l->processes);
  for (int i = 0; i < l->processes; i++) l->words[i] = c->operands;
  return master && !read_master_option(l, master) ? CLI_USAGE : CLI_OK;
}

/* Chooses an address for ranks of one host that no other job has. */
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

/* Sets the variables of a job with parameter servers, under msc's names and MindSpore's: the process is a server or a
 * worker, its number, how many there are of each. Copies of servers count as servers: the program finds them by their
 * numbers, which are behind those of all servers. */
static void set_server_environment(const launcher *l, int local_rank) {
  bool server = local_rank >= l->local;
  const struct {
    const char *name;
    int v;
  } numbers[] = {{"MSC_SERVERS", l->servers * l->copies},
                 {"MS_SERVER_NUM", l->servers * l->copies},
                 {"MS_WORKER_NUM", l->nodes * l->local},
                 {"MS_NODE_ID", server ? local_rank - l->local : l->node * l->local + local_rank}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) set_number(numbers[i].name, numbers[i].v);
  setenv("MS_ROLE", server ? "MS_PSERVER" : "MS_WORKER", 1);
  setenv("MS_SCHED_HOST", l->master, 1);
  setenv("MS_SCHED_PORT", l->port, 1);
  if (!server) return;
  static const char *const of_ranks[] = {"MSC_RANK", "RANK", "LOCAL_RANK", "MSC_LOCAL_RANK", "WORLD_SIZE"};
  set_number("MSC_SERVER", local_rank - l->local + 1);
  for (size_t i = 0; i < sizeof of_ranks / sizeof *of_ranks; i++) unsetenv(of_ranks[i]);
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
  if (l->servers) set_server_environment(l, local_rank);
}

/* Runs in the child: becomes the program, or writes errno into the pipe. */
static void become_rank(const launcher *l, int local_rank, int in, int out, int err, int broken, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(CLI_ENVIRONMENT);
  if (!l->num_hosts) set_environment(l, local_rank);
  if (in < 0) in = local_rank || l->node || l->has_lifeline ? open("/dev/null", O_RDONLY) : STDIN_FILENO;
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
    _exit(CLI_ENVIRONMENT);
  execvp(l->words[local_rank][0], (char *const *)(uintptr_t)l->words[local_rank]);
  int error = errno;
  if (write(broken, &error, sizeof error) != sizeof error) _exit(CLI_ENVIRONMENT);
  _exit(127);
}

/* Sends the token to the launcher of a host, which reads it from its standard input before anything else. */
static bool give_token(const launcher *l, int fd) {
  size_t n = strlen(l->token);
  return write(fd, l->token, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
}

/* Starts a process. replaces: in the place of one that was lost, while the others stay. */
static bool start_one(launcher *l, int i, bool replaces) {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, broken[2] = {-1, -1}, error = 0;
  outputs *p = &l->printed[i];
  pid_t self = getpid(), pid = -1;
  bool made = !l->num_hosts || pipe2(in, O_CLOEXEC) == 0;
  made = made && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && pipe2(broken, O_CLOEXEC) == 0;
  if (made) pid = fork();
  if (made && pid == 0 && replaces) setenv("MSC_REPLACES", "1", 1);
  if (made && pid == 0) become_rank(l, i, in[0], out[1], err[1], broken[1], self);
  if (!made || pid < 0) error = errno;
  int *const theirs[] = {&in[0], &out[1], &err[1], &broken[1]};
  for (int k = 0; k < 4; k++)
    if (*theirs[k] >= 0) close(*theirs[k]);
  if (!error && read(broken[0], &error, sizeof error) != sizeof error) error = 0;
  if (broken[0] >= 0) close(broken[0]);
  p->out.fd = out[0], p->err.fd = err[0], l->watched.lifeline[i] = in[1];
  if (!error && l->num_hosts && !give_token(l, in[1])) error = errno;
  if (out[0] >= 0) fcntl(out[0], F_SETFL, O_NONBLOCK);
  if (err[0] >= 0) fcntl(err[0], F_SETFL, O_NONBLOCK);
  if (error) return msc_error(l->c->ctx, MSC_E_FILE, NULL, "cannot start %s: %s", l->words[i][0], strerror(error));
  watch_started(&l->watched, i, pid);
  return true;
}

static bool start_all(launcher *l) {
  fflush(NULL);
  watch_new(msc_context_arena(l->c->ctx), l->processes, &l->watched);
  l->stopped_ns = msc_new_array(msc_context_arena(l->c->ctx), int64_t, l->processes);
  l->first = -1;
  for (int i = 0; i < l->processes; i++) l->printed[i].out.fd = l->printed[i].err.fd = -1;
  for (int i = 0; i < l->processes; i++)
    if (!start_one(l, i, false)) return watch_signal(&l->watched, SIGKILL), false;
  return true;
}

/* ---- the output of processes ---- */

/* "server 1", or "the copy of server 1", for a process behind the ranks. */
static const char *name_of_server(const launcher *l, int i, char out[48]) {
  int server = i - l->local;
  snprintf(out, 48, "%sserver %d", server < l->servers ? "" : "the copy of ", server % l->servers);
  return out;
}

static void print_line(const launcher *l, int local_rank, stream *s) {
  if (!s->bytes) return;
  if (s->line[s->bytes - 1] != '\n') s->line[s->bytes++] = '\n';
  char name[48];
  if (local_rank >= l->local) fprintf(s->to, "[%s] ", name_of_server(l, local_rank, name));
  else if (!l->num_hosts) fprintf(s->to, "[%d] ", l->node * l->local + local_rank); /* a host's launcher has done so */
  fwrite(s->line, 1, s->bytes, s->to);
  s->bytes = 0;
}

/* Prints the complete lines of a rank; at the end, or if it is very long, also an incomplete line. */
static void print_output(const launcher *l, int local_rank, stream *s) {
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
  print_output(l, local_rank, s);
  print_line(l, local_rank, s);
  fflush(s->to);
  if (s->fd >= 0) close(s->fd);
  s->fd = -1;
}

/* ---- watching ---- */

static bool replace_one(launcher *l, int i) {
  const watch *w = &l->watched;
  int number = WIFSIGNALED(w->status[i]) ? WTERMSIG(w->status[i]) : 0;
  if (!number || !l->replaced || w->asked || l->first >= 0 || i >= l->local) return false;
  fprintf(stderr, "msc launch: rank %d was ended by signal %d (%s); another takes its place\n", l->node * l->local + i,
          number, strsignal(number));
  l->replaced--;
  return start_one(l, i, true);
}

/* Seconds that ranks of `msc run` wait for each other, as --timeout among the words of the program says. */
static double timeout_of_program(const cli *c) {
  static const char name[] = "--timeout";
  double s = 0;
  for (int i = 1; i < c->num_operands; i++) {
    const char *word = c->operands[i];
    if (!strcmp(word, name) && i + 1 < c->num_operands) s = strtod(c->operands[i + 1], NULL);
    if (!strncmp(word, name, strlen(name)) && word[strlen(name)] == '=') s = strtod(word + strlen(name) + 1, NULL);
  }
  return s > 0 ? s : PROGRAM_TIMEOUT;
}

/* Ends ranks that may be replaced and have been stopped by a signal for so long that the others do not wait for them
 * any more: those cannot end by themselves. */
static void end_stopped_ranks(launcher *l) {
  const watch *w = &l->watched;
  int64_t now = cli_now_ns();
  double most = timeout_of_program(l->c);
  for (int i = 0; i < l->local && l->replaced && !w->asked && l->first < 0; i++) {
    if (!watch_is_stopped(w, i)) l->stopped_ns[i] = 0;
    else if (!l->stopped_ns[i]) l->stopped_ns[i] = now;
    else if ((double)(now - l->stopped_ns[i]) > 1e9 * most) {
      fprintf(stderr, "msc launch: rank %d was stopped by a signal for %g seconds; it is killed\n",
              l->node * l->local + i, most);
      kill(w->pid[i], SIGKILL);
      l->stopped_ns[i] = 0;
    }
  }
}

/* True if a signal has ended a server whose copy goes on, or a copy whose server goes on: nothing is lost. */
static bool is_not_missed(launcher *l, int i) {
  const watch *w = &l->watched;
  int server = i - l->local, other = server < l->servers ? i + l->servers : i - l->servers;
  char name[48];
  if (server < 0 || l->copies < 2 || !WIFSIGNALED(w->status[i]) || w->ended[other]) return false;
  fprintf(stderr, "msc launch: %s was ended by signal %d (%s); %s goes on\n", name_of_server(l, i, name),
          WTERMSIG(w->status[i]), strsignal(WTERMSIG(w->status[i])), server < l->servers ? "its copy" : "the server");
  return true;
}

static void reap_programs(launcher *l) {
  watch *w = &l->watched;
  for (int i; (i = watch_reap(w)) >= 0;) {
    close_output(l, i, &l->printed[i].out);
    close_output(l, i, &l->printed[i].err);
    if (!w->status[i] || l->first >= 0 || w->asked || replace_one(l, i) || is_not_missed(l, i)) continue;
    l->first = i;
    watch_ends_in(w, l->grace_ms); /* the others may notice it themselves */
  }
}

static void pass_on(launcher *l, int number) {
  if (number == SIGUSR1 || number == SIGUSR2) watch_signal(&l->watched, number);
  else watch_pass_on(&l->watched, number, l->grace_ms);
}

static void take_signals(launcher *l) {
  struct signalfd_siginfo told;
  while (read(l->signals, &told, sizeof told) == (ssize_t)sizeof told)
    if (told.ssi_signo != SIGCHLD) pass_on(l, (int)told.ssi_signo);
}

/* Reads standard input, which the launcher of the hosts holds over ssh: a byte is a signal to pass on; at its end that
 * launcher is gone, and the ranks are ended. */
static void read_lifeline(launcher *l) {
  uint8_t number = 0;
  ssize_t n = read(STDIN_FILENO, &number, 1);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n == 1 && number && number < NSIG) return pass_on(l, number);
  l->has_lifeline = false;
  pass_on(l, SIGTERM);
}

/* Ends parameter servers that still run some time after the last worker has ended, if all workers are on this host.
 * Those of msc end by themselves; those of another program may not. */
static void end_idle_servers(launcher *l) {
  int ranks = 0;
  for (int i = 0; i < l->local; i++) ranks += !l->watched.ended[i];
  if (l->servers && l->nodes == 1 && !ranks && !l->watched.deadline_ns) watch_ends_in(&l->watched, SERVERS_MS);
}

static void watch_all(launcher *l) {
  while (l->watched.left > 0) {
    nfds_t n = 0;
    end_idle_servers(l);
    l->polled[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (int i = 0; i < l->processes; i++) {
      l->polled[n++] = (struct pollfd){.fd = l->printed[i].out.fd, .events = POLLIN};
      l->polled[n++] = (struct pollfd){.fd = l->printed[i].err.fd, .events = POLLIN};
    }
    if (l->has_lifeline) l->polled[n++] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    poll(l->polled, n, 200);
    if (l->has_lifeline && l->polled[n - 1].revents) read_lifeline(l);
    for (int i = 0; i < l->processes; i++) {
      stream *const both[] = {&l->printed[i].out, &l->printed[i].err};
      for (int k = 0; k < 2; k++) {
        short seen = l->polled[1 + 2 * i + k].revents;
        if (seen & POLLIN) print_output(l, i, both[k]);
        else if (seen && both[k]->fd >= 0) close_output(l, i, both[k]);
      }
    }
    take_signals(l);
    if (!l->num_hosts) end_stopped_ranks(l);
    reap_programs(l);
    watch_deadline(&l->watched);
  }
}

/* ---- the end ---- */

static int code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static void tell_ended_program(const launcher *l, bool again) {
  int status = l->watched.status[l->first];
  char how[80], next[60] = "", name[48];
  if (WIFSIGNALED(status))
    snprintf(how, sizeof how, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
  if (again) snprintf(next, sizeof next, "; restart %d of %d", l->generation, l->restarts);
  if (l->num_hosts) fprintf(stderr, "msc launch: on host %s ssh %s%s\n", l->host[l->first].name, how, next);
  else if (l->first >= l->local) fprintf(stderr, "msc launch: %s %s%s\n", name_of_server(l, l->first, name), how, next);
  else fprintf(stderr, "msc launch: rank %d %s%s\n", l->node * l->local + l->first, how, next);
}

static int run_generations(launcher *l) {
  for (;; l->generation++) {
    choose_address(l);
    bool started = start_all(l);
    watch_all(l);
    if (!started) return CLI_INPUT;
    if (l->watched.told) return 128 + l->watched.told;
    if (l->first < 0) return CLI_OK;
    if (l->generation == l->restarts) {
      tell_ended_program(l, false);
      return code_of(l->watched.status[l->first]);
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
  l.printed = msc_new_array(a, outputs, l.processes);
  l.has_lifeline = getenv("MSC_LIFELINE") && !l.num_hosts;
  unsetenv("MSC_LIFELINE");
  if (l.num_hosts) signal(SIGPIPE, SIG_IGN);
  l.polled = msc_new_array(a, struct pollfd, 2 + 2 * l.processes);
  for (int i = 0; i < l.processes; i++) {
    l.printed[i].out = (stream){.fd = -1, .to = stdout, .line = msc_new_array(a, char, LINE + 1)};
    l.printed[i].err = (stream){.fd = -1, .to = stderr, .line = msc_new_array(a, char, LINE + 1)};
  }
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&set, passed_on[i]);
  sigprocmask(SIG_BLOCK, &set, &before);
  l.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  code = run_generations(&l);
  close(l.signals);
  signal(SIGUSR1, SIG_IGN); /* a request for ranks that have ended meanwhile must not end this process */
  signal(SIGUSR2, SIG_IGN);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return code;
}

static const cli_option options[] = {
    {"n", CLI_INT, "RANKS", "ranks of this host, or of each of --hosts"},
    {"hosts", CLI_TEXT, "FILE",
     "start the ranks on these hosts over ssh, in this folder: a line HOST [slots=N] for each; rank 0 is on the first"},
    {"servers", CLI_INT, "S",
     "servers of parameters, on the host of rank 0, which run the program too: MSC_SERVER says which one a process is, "
     "from 1 on, and MS_ROLE that it is one; where PROGRAM is given a plan whose servers have a copy, the copies are "
     "started too; default 0"},
    {"nodes", CLI_INT, "K", "hosts, each with as many ranks; default PET_NNODES, or 1"},
    {"node-rank", CLI_INT, "I", "number of this host; default PET_NODE_RANK or JOB_COMPLETION_INDEX"},
    {"master", CLI_TEXT, "HOST:PORT",
     "where rank 0 is; needed with several hosts, which also need MSC_TOKEN_FILE; default PET_MASTER_ADDR"},
    {"restarts", CLI_INT, "R", "how many times all ranks of this host are started again after one failed; default 0"},
    {"replace", CLI_INT, "N",
     "how many ranks of this host that a signal ended are started once more while the others stay, which must wait for "
     "them, as msc run does; default 0; one that a signal has stopped for longer than the program's --timeout is "
     "killed, and so replaced"},
    {"grace", CLI_NUMBER, "S", "seconds that ranks have to end by themselves after a failure or a signal; default 5"},
    {0},
};
const cli_command cmd_launch = {"PROGRAM [ARGUMENT ...]", 1, CLI_REST, options, run_launch};
