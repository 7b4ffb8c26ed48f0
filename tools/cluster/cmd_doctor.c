/* cmd_doctor.c: msc doctor: looks at this host, and at the job that started this process if there is one: names, ports,
 * token, limits, libraries, clocks, and the bandwidth of every pair of ranks. What would stop a job is an error, what
 * would slow it a warning, each with its mending. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ir/msc.h"
#include "runtime/comm/address.h"
#include "runtime/comm/rendezvous_scheduler.h"
#include "runtime/wait.h"
#include "tools/cli.h"
#include "tools/cluster/measure.h"
#include "tools/cluster/startup.h"

enum { PAIR_BYTES = 1 << 20 };

typedef enum { FINE, WARNING, WRONG } verdict;

typedef struct {
  cli *c;
  startup job;
  bool joins;
  const char *token;
  json_t *findings;
  int wrong;
} doctor;

/* Notes a finding; mending NULL: none is needed. */
static void __attribute__((format(printf, 5, 6)))
find(doctor *d, verdict v, const char *topic, const char *mending, const char *fmt, ...) {
  static const char *const words[] = {"ok", "warning", "error"};
  va_list ap;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(msc_context_arena(d->c->ctx), fmt, ap);
  va_end(ap);
  d->wrong += v == WRONG;
  json_array_append_new(d->findings, json_pack("{s:s, s:s, s:s, s:s}", "topic", topic, "verdict", words[v], "text",
                                               text, "mending", mending && v != FINE ? mending : ""));
  if (d->c->json || (d->joins && d->job.rank > 0 && v == FINE)) return;
  if (d->joins) printf("rank %d: ", d->job.rank);
  printf("%-8s %-10s %s\n", words[v], topic, text);
  if (mending && v != FINE) printf("%-19s mend: %s\n", "", mending);
}

/* ---- this host ---- */

static void look_at_versions(doctor *d) {
  struct utsname u = {0};
  uname(&u);
  find(d, FINE, "version", NULL, "msc %s, protocol %d, %s %s on %s, host %s", msc_version(), MSCRT_PROTOCOL, u.sysname,
       u.release, u.machine, u.nodename);
}

/* Checks that the name of this host resolves to an address, and the address back to a name. */
static void look_at_names(doctor *d) {
  char name[256] = "", back[256];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
  gethostname(name, sizeof name - 1);
  int error = getaddrinfo(name, NULL, &hints, &all);
  if (error) {
    find(d, WARNING, "names", "add the name to /etc/hosts or to DNS, or use addresses as MASTER_ADDR",
         "this host's name %s does not resolve: %s", name, gai_strerror(error));
    return;
  }
  mscrt_address a = {.bytes = all->ai_addrlen};
  memcpy(&a.at, all->ai_addr, all->ai_addrlen);
  char text[MSCRT_ADDRESS_TEXT];
  mscrt_address_text(&a, text);
  bool named = getnameinfo(all->ai_addr, all->ai_addrlen, back, sizeof back, NULL, 0, NI_NAMEREQD) == 0;
  freeaddrinfo(all);
  *strrchr(text, ':') = 0;
  if (mscrt_is_local_address(&a))
    find(d, WARNING, "names", "other hosts need its address on the network: let /etc/hosts not name it a loopback",
         "this host's name %s is %s, which only this host can reach", name, text);
  else find(d, FINE, "names", NULL, "%s is %s, which is %s", name, text, named ? back : "an address without a name");
}

static void look_at_limits(doctor *d) {
  struct rlimit files = {0};
  int ranks = d->joins ? d->job.ranks : (int)cli_int(d->c, "ranks", 2);
  rlim_t needed = (rlim_t)(3 * ranks + 64);
  getrlimit(RLIMIT_NOFILE, &files);
  find(d,
       files.rlim_max < needed   ? WRONG
       : files.rlim_cur < needed ? WARNING
                                 : FINE,
       "limits", "raise `ulimit -n`, or the limit of the container",
       "%" PRIu64 " file descriptors, at most %" PRIu64 "; %d ranks need %" PRIu64, (uint64_t)files.rlim_cur,
       (uint64_t)files.rlim_max, ranks, (uint64_t)needed);
  find(d, FINE, "cores", NULL, "%d for this process", mscrt_cores());
}

static void read_word(const char *path, char *out, size_t room) {
  FILE *f = fopen(path, "re");
  out[0] = 0;
  if (f && !fgets(out, (int)room, f)) out[0] = 0;
  if (f) fclose(f);
  out[strcspn(out, "\n")] = 0;
}

/* Checks the network's settings. BBR paces by the queue of the device: without fq it is slow on one host and over short
 * distances. */
static void look_at_network(doctor *d) {
  char control[32], queue[32];
  read_word("/proc/sys/net/ipv4/tcp_congestion_control", control, sizeof control);
  read_word("/proc/sys/net/core/default_qdisc", queue, sizeof queue);
  bool slow = !strcmp(control, "bbr") && strcmp(queue, "fq");
  find(d, slow ? WARNING : FINE, "network", "sysctl -w net.ipv4.tcp_congestion_control=cubic, or reno",
       "congestion control %s%s%s", *control ? control : "unknown", *queue ? ", queues " : "", queue);
}

static void look_at_clock(doctor *d) {
  struct timex t = {0};
  int state = adjtimex(&t);
  bool set = state >= 0 && state != TIME_ERROR;
  find(d, set ? FINE : WARNING, "clock", "run an NTP client: flight records compare the times of hosts", "%s",
       set ? "is synchronized" : "the kernel does not say that it is synchronized");
}

static void look_at_libraries(doctor *d) {
  static const struct {
    const char *name, *file, *use;
  } libraries[] = {{"oneDNN", "libdnnl.so.2", "some matrix products"},
                   {"CUDA", "libcuda.so.1", "GPUs"},
                   {"NCCL", "libnccl.so.2", "collectives of GPUs"}};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    void *h = dlopen(libraries[i].file, RTLD_LAZY | RTLD_LOCAL);
    find(d, FINE, "library", NULL, "%s (%s), for %s: %s", libraries[i].name, libraries[i].file, libraries[i].use,
         h ? "is there" : "is not there");
    if (h) dlclose(h);
  }
}

static void look_at_token(doctor *d) {
  mscrt_key key;
  startup s = d->job;
  d->token = startup_token(&s);
  bool needed = d->joins && mscrt_is_network_address(d->job.address);
  mscrt_status *status = s.error[0] ? mscrt_fail(MSCRT_INPUT, "%s", s.error) : mscrt_key_open(d->token, &key);
  if (status)
    find(d, WRONG, "token", "head -c 32 /dev/urandom | base64 -w0 >FILE; chmod 600 FILE; apt-get install libsodium23",
         "%s", mscrt_status_text(status));
  else if (!d->token)
    find(d, needed ? WARNING : FINE, "token",
         "set MSC_TOKEN_FILE on all ranks; without it only processes of this host can join", "there is none%s",
         needed ? "" : ", and none is needed on one host");
  else find(d, FINE, "token", NULL, "%zu characters, and libsodium is there", strlen(d->token));
  if (!status && d->token) mscrt_key_close(&key);
  mscrt_status_free(status);
}

/* Checks that the address where ranks meet resolves, and that rank 0 can listen at it. */
static void look_at_address(doctor *d) {
  mscrt_address a;
  char text[MSCRT_ADDRESS_TEXT];
  int fd = -1;
  if (!d->joins || !mscrt_is_network_address(d->job.address)) return;
  mscrt_status *s = mscrt_resolve(d->job.address, mscrt_now_ns() + 5000000000, &a);
  if (!s) mscrt_address_text(&a, text);
  if (!s && d->job.rank == 0) s = mscrt_listen(&a, d->token != NULL, &fd);
  if (fd >= 0) close(fd);
  if (s)
    find(d, WRONG, "address", "MASTER_ADDR, MASTER_PORT or MSC_ADDRESS must name a free port of rank 0's host", "%s",
         mscrt_status_text(s));
  else
    find(d, FINE, "address", NULL, "%s is %s%s", d->job.address, text,
         d->job.rank == 0 ? ", and can be listened at" : "");
  mscrt_status_free(s);
}

/* ---- between ranks ---- */

static int compare_pairs(const void *a, const void *b) {
  const pair_time *x = a, *y = b;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

static double megabytes_per_s(const pair_time *p) { return p->ns > 0 ? (double)PAIR_BYTES / (double)p->ns * 1e3 : 0; }

static int look_at_pairs(doctor *d) {
  static const int64_t size = PAIR_BYTES;
  comm_request r = {.ranks = d->joins ? d->job.ranks : (int)cli_int(d->c, "ranks", 2),
                    .rank = d->joins ? d->job.rank : -1,
                    .comm = "tcp",
                    .num_sizes = 1,
                    .sizes = &size};
  size_t num;
  pair_time *pairs;
  int64_t skew_ns;
  if (d->joins) {
    r.address = d->job.address, r.token = d->token, r.local_ranks = d->job.local_ranks;
    r.host = d->job.host[0] ? d->job.host : NULL;
  }
  int code = measure_pairs(d->c, &r, &num, &pairs, &skew_ns);
  if (code || r.rank > 0 || !num) return code;
  qsort(pairs, num, sizeof *pairs, compare_pairs);
  const pair_time *best = &pairs[0], *middle = &pairs[num / 2], *worst = &pairs[num - 1];
  find(d, megabytes_per_s(worst) * 4 < megabytes_per_s(middle) ? WARNING : FINE, "bandwidth",
       "look at the cable, the interface (MSC_HOST chooses it) and the load of these two hosts",
       "TCP, each way: median %.0f MB/s of %zu pairs, best %.0f (ranks %d, %d), worst %.0f (ranks %d, %d)",
       megabytes_per_s(middle), num, megabytes_per_s(best), best->a, best->b, megabytes_per_s(worst), worst->a,
       worst->b);
  find(d, skew_ns > 1000000000 ? WARNING : FINE, "clocks", "run an NTP client on every host",
       "of the ranks differ by %.1f ms at most", (double)skew_ns / 1e6);
  return CLI_OK;
}

static int run_doctor(cli *c) {
  doctor d = {.c = c, .findings = json_array()};
  int64_t ranks = cli_int(c, "ranks", 2);
  if (ranks < 2 || ranks > MEASURE_MAX_RANKS) return cli_usage(c, "--ranks is from 2 to %d", MEASURE_MAX_RANKS);
  if (!startup_of_process(&d.job)) {
    find(&d, WRONG, "job", "the variables that it names say which rank this is", "%s", d.job.error);
  } else {
    d.joins = d.job.family && d.job.ranks > 1 && d.job.role == STARTUP_WORKER && d.job.rank >= 0;
    if (!d.joins) find(&d, FINE, "job", NULL, "none: ranks are started here");
    else
      find(&d, FINE, "job", NULL, "rank %d of %d at %s, as %s says%s%s", d.job.rank, d.job.ranks, d.job.address,
           d.job.family, d.job.ignored[0] ? "; ignored: " : "", d.job.ignored);
  }
  look_at_versions(&d);
  look_at_names(&d);
  look_at_limits(&d);
  look_at_network(&d);
  look_at_clock(&d);
  look_at_libraries(&d);
  look_at_token(&d);
  look_at_address(&d);
  int code = d.wrong ? CLI_OK : look_at_pairs(&d);
  if (code) d.wrong++; /* the reason is reported */
  char *text = c->json ? json_dumps(d.findings, JSON_COMPACT) : NULL;
  if (text) printf("{\"findings\":%s}\n", text);
  free(text);
  json_decref(d.findings);
  return d.wrong ? CLI_ENVIRONMENT : CLI_OK;
}

static const cli_option options[] = {
    {"ranks", CLI_INT, "N", "ranks to start on this host, without a job; default 2"},
    {0},
};
const cli_command cmd_doctor = {"", 0, 0, options, run_doctor};
