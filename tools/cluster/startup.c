/* startup.c: the variables that launchers set in; which rank of which job this process is out. A function for each
 * family of variables, in the order of precedence. */
#include "tools/cluster/startup.h"

#include <ifaddrs.h>
#include <jansson.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_PORT = 29500, MOST_RANKS = 1 << 20, MOST_SERVERS = 128 /* with their copies */ };

/* ---- reading variables ---- */

static bool __attribute__((format(printf, 2, 3))) refuse(startup *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(s->error, sizeof s->error, fmt, ap);
  va_end(ap);
  return false;
}

/* An empty variable counts as not set: manifests set variables that have no value. */
static const char *variable(const startup_environment *env, const char *name) {
  const char *text = env->get(env->user, name);
  return text && *text ? text : NULL;
}

static bool parse_bounded_number(const char *text, long least, long most, int *out) {
  char *end;
  if (text[strspn(text, "0123456789")]) return false;
  long v = strtol(text, &end, 10);
  if (end == text || *end || v < least || v > most) return false;
  *out = (int)v;
  return true;
}

/* Reads a whole number into *out, which stays as it is if the variable is not set. */
static bool read_bounded(const startup_environment *env, startup *s, const char *name, long least, long most,
                         int *out) {
  const char *text = variable(env, name);
  if (!text || parse_bounded_number(text, least, most, out)) return true;
  return refuse(s, "%s: '%.40s' is no whole number from %ld to %ld", name, text, least, most);
}

static bool check_below(startup *s, const char *name, int v, const char *limit_name, int limit) {
  return v < limit || refuse(s, "%s=%d contradicts %s=%d: ranks are counted from 0", name, v, limit_name, limit);
}

/* Checks that a second variable with the same meaning agrees with the first. */
static bool check_same(const startup_environment *env, startup *s, const char *first, int v, const char *second) {
  int other = v;
  if (!read_bounded(env, s, second, 0, MOST_RANKS, &other)) return false;
  return other == v || refuse(s, "%s=%d contradicts %s=%d", first, v, second, other);
}

static bool set_host_port(startup *s, const char *name, const char *host, int port) {
  bool bare = strchr(host, ':') && host[0] != '['; /* an IPv6 address */
  int n = snprintf(s->address, sizeof s->address, bare ? "[%s]:%d" : "%s:%d", host, port);
  return n < (int)sizeof s->address || refuse(s, "%s: the name of a host has at most 255 characters", name);
}

static bool copy_host(startup *s, const char *name, const char *text) {
  return snprintf(s->host, sizeof s->host, "%s", text) < (int)sizeof s->host ||
         refuse(s, "%s: the name of a host has at most 255 characters", name);
}

/* ---- MSC_* ---- */

static bool read_msc(const startup_environment *env, startup *s) {
  if (!variable(env, "MSC_RANKS")) {
    return !variable(env, "MSC_RANK") || refuse(s, "MSC_RANK is set, MSC_RANKS is not");
  }
  s->family = "MSC_*";
  if (!read_bounded(env, s, "MSC_RANKS", 1, MOST_RANKS, &s->ranks) ||
      !read_bounded(env, s, "MSC_RANK", 0, MOST_RANKS, &s->rank) ||
      !read_bounded(env, s, "MSC_LOCAL_RANK", 0, MOST_RANKS, &s->local_rank) ||
      !read_bounded(env, s, "MSC_LOCAL_RANKS", 1, MOST_RANKS, &s->local_ranks) ||
      !read_bounded(env, s, "MSC_SERVERS", 0, MOST_SERVERS, &s->servers) ||
      !read_bounded(env, s, "MSC_SERVER", 1, MOST_SERVERS, &s->server))
    return false;
  if (s->server) s->role = STARTUP_SERVER;
  if (s->server && s->rank >= 0) return refuse(s, "MSC_SERVER=%d contradicts MSC_RANK=%d", s->server, s->rank);
  if (s->server > s->servers)
    return refuse(s, "MSC_SERVER=%d contradicts MSC_SERVERS=%d: servers are counted from 1", s->server, s->servers);
  return s->server || check_below(s, "MSC_RANK", s->rank, "MSC_RANKS", s->ranks);
}

/* ---- rank table ---- */

/* A member that is a number, or the text of one; -1: it is neither. */
static int table_number(const json_t *object, const char *key) {
  const json_t *v = json_object_get(object, key);
  int n = -1;
  if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= MOST_RANKS)
    n = (int)json_integer_value(v);
  else if (json_is_string(v) && !parse_bounded_number(json_string_value(v), 0, MOST_RANKS, &n)) n = -1;
  return n;
}

typedef struct {
  const char *server; /* server_id */
  int device, rank, server_index;
} table_device;

typedef struct {
  int num, servers;
  table_device *device;
} table;

static bool add_server(startup *s, const char *path, const json_t *server, int index, table *t) {
  const char *id = json_string_value(json_object_get(server, "server_id"));
  json_t *devices = json_object_get(server, "device"), *device;
  size_t i;
  if (!id || !json_is_array(devices))
    return refuse(s, "%s: server %d of server_list has no server_id or no device list", path, index);
  json_array_foreach(devices, i, device) {
    table_device d = {id, table_number(device, "device_id"), table_number(device, "rank_id"), index};
    if (d.device < 0 || d.rank < 0)
      return refuse(s, "%s: device %zu of server %s has no device_id or no rank_id that is a number", path, i, id);
    for (int k = 0; k < t->num; k++) {
      if (t->device[k].rank == d.rank)
        return refuse(s, "%s: rank_id %d occurs twice, at servers %s and %s", path, d.rank, t->device[k].server, id);
      if (t->device[k].server_index == index && t->device[k].device == d.device)
        return refuse(s, "%s: device_id %d occurs twice at server %s", path, d.device, id);
    }
    t->device[t->num++] = d;
  }
  return true;
}

/* The entry of this process: by RANK_ID, else by its address and DEVICE_ID. */
static const table_device *find_own_device(const startup_environment *env, startup *s, const char *path,
                                           const table *t) {
  int rank = -1, device = -1;
  const table_device *own = NULL;
  if (!read_bounded(env, s, "RANK_ID", 0, MOST_RANKS, &rank) ||
      !read_bounded(env, s, "DEVICE_ID", 0, MOST_RANKS, &device))
    return NULL;
  for (int i = 0; i < t->num; i++) {
    const table_device *d = &t->device[i];
    bool here = false;
    for (const char *const *a = env->own_addresses; a && *a; a++) here |= !strcmp(*a, d->server);
    if (rank >= 0 ? d->rank != rank : !here || (device >= 0 && d->device != device)) continue;
    if (own) {
      refuse(s, "%s: both rank %d and rank %d are on this host; set RANK_ID or DEVICE_ID", path, own->rank, d->rank);
      return NULL;
    }
    own = d;
  }
  if (!own && rank >= 0) refuse(s, "RANK_ID=%d contradicts RANK_TABLE_FILE: %s has no such rank_id", rank, path);
  else if (!own) refuse(s, "%s: no server of the table has an address of this host; set RANK_ID", path);
  else if (device >= 0 && own->device != device) {
    refuse(s, "RANK_ID=%d contradicts DEVICE_ID=%d: in %s it has device_id %d", own->rank, device, path, own->device);
    return NULL;
  }
  return own;
}

static bool use_table(const startup_environment *env, startup *s, const char *path, const json_t *root, table *t) {
  json_t *servers = json_object_get(root, "server_list"), *server;
  const char *status = json_string_value(json_object_get(root, "status"));
  size_t i;
  if (!json_is_array(servers)) return refuse(s, "%s: the rank table has no server_list", path);
  if (!status || strcmp(status, "completed")) {
    s->pending = true;
    return refuse(s, "%s: the status of the rank table is '%.40s', not 'completed'", path, status ? status : "");
  }
  t->servers = (int)json_array_size(servers);
  int count = table_number(root, "server_count");
  if (count != t->servers)
    return refuse(s, "%s: server_count is %d, server_list has %d entries", path, count, t->servers);
  size_t devices = 0;
  json_array_foreach(servers, i, server) devices += json_array_size(json_object_get(server, "device"));
  t->device = calloc(devices + 1, sizeof *t->device);
  if (!t->device) return refuse(s, "out of memory");
  json_array_foreach(servers, i, server) if (!add_server(s, path, server, (int)i, t)) return false;
  for (int r = 0; r < t->num; r++) {
    bool found = false;
    for (int k = 0; k < t->num; k++) found |= t->device[k].rank == r;
    if (!found) return refuse(s, "%s: the table has %d ranks, but none has rank_id %d", path, t->num, r);
  }
  if (!t->num) return refuse(s, "%s: the rank table has no device", path);
  if (!check_same(env, s, "RANK_TABLE_FILE's number of ranks", t->num, "RANK_SIZE")) return false;
  const table_device *own = find_own_device(env, s, path, t);
  if (!own) return false;
  s->rank = own->rank, s->ranks = t->num, s->node = own->server_index, s->nodes = t->servers;
  s->local_rank = s->local_ranks = 0;
  for (int k = 0; k < t->num; k++) {
    if (t->device[k].server_index == s->node) s->local_ranks++;
    if (t->device[k].server_index == s->node && t->device[k].rank < s->rank) s->local_rank++;
    if (t->device[k].rank == 0 && !set_host_port(s, "server_id", t->device[k].server, DEFAULT_PORT)) return false;
  }
  return copy_host(s, "server_id", own->server);
}

static bool read_rank_table(const startup_environment *env, startup *s) {
  const char *path = variable(env, "RANK_TABLE_FILE");
  json_error_t error;
  table t = {0};
  if (!path) return true;
  s->family = "rank table";
  char *text = env->read(env->user, path);
  if (!text) {
    s->pending = true;
    return refuse(s, "RANK_TABLE_FILE: %s cannot be read", path);
  }
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  bool ok = root ? use_table(env, s, path, root, &t)
                 : refuse(s, "%s:%d:%d: the rank table is no JSON: %s", path, error.line, error.column, error.text);
  json_decref(root);
  free(t.device);
  free(text);
  return ok;
}

/* ---- MS_* ---- */

static bool read_role(startup *s, const char *text) {
  static const struct {
    const char *name;
    startup_role role;
  } roles[] = {{"MS_WORKER", STARTUP_WORKER},
               {"MS_SCHED", STARTUP_SCHEDULER},
               {"MS_PSERVER", STARTUP_SERVER},
               {"MS_SERVER", STARTUP_SERVER}};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(text, roles[i].name)) return s->role = roles[i].role, true;
  return refuse(s, "MS_ROLE: '%.40s' is none of MS_SCHED, MS_WORKER, MS_PSERVER", text);
}

static bool read_seconds(const startup_environment *env, startup *s, const char *name, int *out_ms) {
  int seconds = -1;
  if (!read_bounded(env, s, name, 1, 1000000, &seconds)) return false;
  if (seconds > 0) *out_ms = seconds * 1000;
  return true;
}

static bool read_ms(const startup_environment *env, startup *s) {
  const char *role = variable(env, "MS_ROLE"), *host = variable(env, "MS_SCHED_HOST");
  int port = 0;
  if (!role) return true;
  s->family = "MS_*";
  if (!read_role(s, role) || !read_bounded(env, s, "MS_WORKER_NUM", 1, MOST_RANKS, &s->ranks) ||
      !read_bounded(env, s, "MS_SERVER_NUM", 0, MOST_RANKS, &s->servers) ||
      !read_bounded(env, s, "MS_SCHED_PORT", 1024, 65535, &port))
    return false;
  if (!s->ranks) return refuse(s, "MS_ROLE is set, MS_WORKER_NUM is not");
  if (!host || !port) return refuse(s, "MS_ROLE is set, %s is not", host ? "MS_SCHED_PORT" : "MS_SCHED_HOST");
  if (s->role == STARTUP_SERVER && !s->servers)
    return refuse(s, "MS_ROLE=%s contradicts MS_SERVER_NUM, which is 0 or not set", role);
  if (!set_host_port(s, "MS_SCHED_HOST", host, port)) return false;
  const char *wished = variable(env, "MS_NODE_ID"), *ip = variable(env, "MS_WORKER_IP");
  if (ip && !copy_host(s, "MS_WORKER_IP", ip)) return false;
  if (s->role == STARTUP_SERVER) { /* MS_NODE_ID is its number, from 0 on */
    int number = s->servers == 1 ? 0 : -1;
    if (!read_bounded(env, s, "MS_NODE_ID", 0, MOST_SERVERS, &number)) return false;
    s->server = number + 1;
    return s->server <= s->servers ||
           refuse(s, "MS_NODE_ID=%d contradicts MS_SERVER_NUM=%d: servers are counted from 0", number, s->servers);
  }
  if (s->role != STARTUP_WORKER) return true;
  /* a name leaves the choice of the rank to the scheduler */
  if (wished) (void)parse_bounded_number(wished, 0, MOST_RANKS, &s->rank);
  else if (!read_bounded(env, s, "JOB_COMPLETION_INDEX", 0, MOST_RANKS, &s->rank)) return false;
  return check_below(s, wished ? "MS_NODE_ID" : "JOB_COMPLETION_INDEX", s->rank, "MS_WORKER_NUM", s->ranks);
}

/* ---- mpirun, srun ---- */

typedef struct {
  const char *rank, *ranks, *local_rank, *local_ranks, *job;
} mpi_names;

static const mpi_names mpi_families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", NULL},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_ID"},
};

/* A place where the ranks of one host can meet without an address: all of them have the name of the job in common, or
 * at least the process that started them. */
static void set_local_address(const startup_environment *env, startup *s, const mpi_names *m) {
  const char *job = m->job ? variable(env, m->job) : NULL, *slurm = variable(env, "SLURM_JOB_ID");
  if (job)
    snprintf(s->address, sizeof s->address, "@msc-%.40s-%.40s", slurm && m->local_ranks == NULL ? slurm : "job", job);
  else snprintf(s->address, sizeof s->address, "@msc-parent-%d", env->parent);
}

static bool read_mpi(const startup_environment *env, startup *s) {
  const mpi_names *m = NULL;
  int nodes = 0;
  for (size_t i = 0; !m && i < sizeof mpi_families / sizeof *mpi_families; i++)
    if (variable(env, mpi_families[i].ranks)) m = &mpi_families[i];
  if (!m)
    return !variable(env, "PMIX_RANK") || variable(env, "MSC_RANKS") ||
           refuse(s, "PMIX_RANK is set, but no variable says how many ranks there are; set MSC_RANK and MSC_RANKS");
  if (!variable(env, m->rank)) return refuse(s, "%s is set, %s is not", m->ranks, m->rank);
  s->family = "mpirun";
  if (!read_bounded(env, s, m->ranks, 1, MOST_RANKS, &s->ranks) ||
      !read_bounded(env, s, m->rank, 0, MOST_RANKS, &s->rank) ||
      !read_bounded(env, s, m->local_rank, 0, MOST_RANKS, &s->local_rank) ||
      (m->local_ranks && !read_bounded(env, s, m->local_ranks, 1, MOST_RANKS, &s->local_ranks)) ||
      !read_bounded(env, s, "SLURM_STEP_NUM_NODES", 1, MOST_RANKS, &nodes))
    return false;
  if (!check_below(s, m->rank, s->rank, m->ranks, s->ranks) || !check_same(env, s, m->rank, s->rank, "PMIX_RANK"))
    return false;
  if (s->local_ranks > 0 && !check_below(s, m->local_rank, s->local_rank, m->local_ranks, s->local_ranks)) return false;
  if (!m->local_ranks && nodes == 1) s->local_ranks = s->ranks;
  if (s->local_ranks == s->ranks) set_local_address(env, s, m);
  return true;
}

/* ---- torch-style ---- */

/* PET_*: the world is nodes times processes of each. */
static bool read_pet(const startup_environment *env, startup *s) {
  const char *node_name = variable(env, "PET_NODE_RANK") ? "PET_NODE_RANK" : "JOB_COMPLETION_INDEX";
  int ranks = 0;
  if (variable(env, "PET_NNODES") && strchr(variable(env, "PET_NNODES"), ':'))
    return refuse(s, "PET_NNODES=%.40s: a range of nodes is not supported; give one number",
                  variable(env, "PET_NNODES"));
  s->local_ranks = 1;
  if (!read_bounded(env, s, "PET_NNODES", 1, MOST_RANKS, &s->nodes) ||
      !read_bounded(env, s, "PET_NPROC_PER_NODE", 1, MOST_RANKS, &s->local_ranks) ||
      !read_bounded(env, s, "LOCAL_WORLD_SIZE", 1, MOST_RANKS, &s->local_ranks) ||
      !read_bounded(env, s, node_name, 0, MOST_RANKS, &s->node) ||
      !read_bounded(env, s, "WORLD_SIZE", 1, MOST_RANKS, &ranks))
    return false;
  s->ranks = s->nodes * s->local_ranks;
  if (ranks && ranks != s->ranks)
    return refuse(s, "WORLD_SIZE=%d contradicts PET_NNODES=%d times %d processes of each", ranks, s->nodes,
                  s->local_ranks);
  return s->node < 0 ? refuse(s, "PET_NNODES is set, PET_NODE_RANK is not")
                     : check_below(s, node_name, s->node, "PET_NNODES", s->nodes);
}

static bool read_torch_rank(const startup_environment *env, startup *s) {
  bool given = variable(env, "RANK") != NULL, pet = s->nodes > 0;
  int computed = -1, local = s->local_rank < 0 ? 0 : s->local_rank, each = s->local_ranks < 0 ? 1 : s->local_ranks;
  if (!read_bounded(env, s, "RANK", 0, MOST_RANKS, &s->rank)) return false;
  if (!pet && !given && !read_bounded(env, s, "JOB_COMPLETION_INDEX", 0, MOST_RANKS, &s->node)) return false;
  if (s->node >= 0) computed = s->node * each + local;
  if (!given && computed < 0) return refuse(s, "WORLD_SIZE is set, RANK is not");
  if (given && pet && s->local_rank >= 0 && computed != s->rank)
    return refuse(s, "RANK=%d contradicts node %d with %d processes of each and LOCAL_RANK=%d", s->rank, s->node, each,
                  local);
  if (!given && each > 1 && s->local_rank < 0)
    return refuse(s, "there are %d processes of each node, and LOCAL_RANK is not set", each);
  if (!given) s->rank = computed;
  return check_below(s, given ? "RANK" : "the rank that the node's number gives", s->rank, "WORLD_SIZE", s->ranks);
}

/* MASTER_ADDR and MASTER_PORT, or their PET_ forms. */
static bool read_master_variables(const startup_environment *env, startup *s) {
  const char *host = variable(env, "MASTER_ADDR"), *pet = variable(env, "PET_MASTER_ADDR");
  int port = DEFAULT_PORT;
  if (host && pet && strcmp(host, pet))
    return refuse(s, "MASTER_ADDR=%.100s contradicts PET_MASTER_ADDR=%.100s", host, pet);
  if (!read_bounded(env, s, "PET_MASTER_PORT", 1, 65535, &port)) return false;
  if (variable(env, "MASTER_PORT") && variable(env, "PET_MASTER_PORT") &&
      !check_same(env, s, "PET_MASTER_PORT", port, "MASTER_PORT"))
    return false;
  if (!read_bounded(env, s, "MASTER_PORT", 1, 65535, &port)) return false;
  return !(host || pet) || set_host_port(s, host ? "MASTER_ADDR" : "PET_MASTER_ADDR", host ? host : pet, port);
}

static bool read_torch(const startup_environment *env, startup *s) {
  if (!variable(env, "WORLD_SIZE") && !variable(env, "PET_NNODES")) return true;
  s->family = "torch-style";
  if (!read_bounded(env, s, "LOCAL_RANK", 0, MOST_RANKS, &s->local_rank) ||
      !read_bounded(env, s, "LOCAL_WORLD_SIZE", 1, MOST_RANKS, &s->local_ranks) ||
      !read_bounded(env, s, "TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, &s->generation))
    return false;
  if (variable(env, "PET_NNODES")) {
    if (!read_pet(env, s)) return false;
  } else if (!read_bounded(env, s, "WORLD_SIZE", 1, MOST_RANKS, &s->ranks)) {
    return false;
  }
  if (s->local_ranks > 0 && s->local_rank >= 0 &&
      !check_below(s, "LOCAL_RANK", s->local_rank, "LOCAL_WORLD_SIZE", s->local_ranks))
    return false;
  return read_torch_rank(env, s) && read_master_variables(env, s);
}

/* ---- the winner ---- */

static const startup nothing = {.rank = -1, .local_rank = -1, .local_ranks = -1, .node = -1, .nodes = -1};

static void note_ignored(startup *s, const startup *loser) {
  size_t n = strlen(s->ignored);
  if (!loser->error[0] && loser->rank == s->rank && loser->ranks == s->ranks) return; /* it agrees */
  if (loser->error[0])
    snprintf(s->ignored + n, sizeof s->ignored - n, "%s%s (%.80s)", n ? ", " : "", loser->family, loser->error);
  else
    snprintf(s->ignored + n, sizeof s->ignored - n, "%s%s (rank %d of %d)", n ? ", " : "", loser->family, loser->rank,
             loser->ranks);
}

/* The address of a job of several ranks: MSC_ADDRESS before what the family said, MASTER_ADDR after it. */
static bool complete_address(const startup_environment *env, startup *s) {
  const char *given = variable(env, "MSC_ADDRESS"), *host = variable(env, "MSC_HOST");
  if (host && !copy_host(s, "MSC_HOST", host)) return false;
  if (s->ranks == 1 && s->role == STARTUP_WORKER && !given) return s->address[0] = 0, true;
  if (given && snprintf(s->address, sizeof s->address, "%s", given) >= (int)sizeof s->address)
    return refuse(s, "MSC_ADDRESS: an address has at most %zu characters", sizeof s->address - 1);
  if (!s->address[0] && !read_master_variables(env, s)) return false;
  return s->address[0] || refuse(s,
                                 "%s says rank %d of %d, but nothing says where ranks meet; set MASTER_ADDR, or "
                                 "MSC_ADDRESS=HOST:PORT with a host of rank 0",
                                 s->family, s->rank, s->ranks);
}

bool startup_read(const startup_environment *env, startup *out) {
  static bool (*const families[])(const startup_environment *, startup *) = {read_msc, read_rank_table, read_ms,
                                                                             read_mpi, read_torch};
  startup won = nothing;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    startup s = nothing;
    bool ok = families[i](env, &s);
    if (won.family) {
      if (s.family) note_ignored(&won, &s);
      continue;
    }
    won = s;
    if (!ok) return *out = won, false;
  }
  bool ok = read_seconds(env, &won, "MS_TOPO_TIMEOUT", &won.topology_ms) &&
            read_seconds(env, &won, "MS_NODE_TIMEOUT", &won.silence_ms);
  if (ok && won.family) ok = complete_address(env, &won);
  won.server_hosts = variable(env, "MSC_SERVER_HOSTS");
  *out = won;
  return ok;
}

/* ---- this process ---- */

static const char *get_of_process(void *user, const char *name) {
  (void)user;
  return getenv(name);
}

static char *read_of_process(void *user, const char *path) {
  enum { MOST = 16 << 20 };
  (void)user;
  FILE *f = fopen(path, "rb");
  char *text = f ? malloc(MOST + 1) : NULL;
  size_t n = text ? fread(text, 1, MOST, f) : 0;
  if (f) fclose(f);
  if (text) text[n] = 0;
  return text;
}

bool startup_of_process(startup *out) {
  enum { MOST = 64, ROOM = 256 };
  char name[MOST][ROOM];
  const char *own[MOST + 1] = {0};
  struct ifaddrs *all = NULL;
  int n = 0;
  if (gethostname(name[n], ROOM - 1) == 0) own[n] = name[n], n++;
  if (getifaddrs(&all) != 0) all = NULL;
  for (const struct ifaddrs *a = all; a && n < MOST; a = a->ifa_next) {
    int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
    socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if ((family == AF_INET || family == AF_INET6) &&
        getnameinfo(a->ifa_addr, bytes, name[n], ROOM, NULL, 0, NI_NUMERICHOST) == 0)
      own[n] = name[n], n++;
  }
  freeifaddrs(all);
  return startup_read(&(startup_environment){get_of_process, read_of_process, own, getppid(), NULL}, out);
}

const char *startup_token(startup *job) {
  char token[1024];
  const char *given = getenv("MSC_TOKEN"), *path = getenv("MSC_TOKEN_FILE");
  struct stat st;
  job->error[0] = 0;
  if (given && *given && path && *path) return refuse(job, "MSC_TOKEN contradicts MSC_TOKEN_FILE: set one"), NULL;
  if (given && *given) return given;
  if (!path || !*path) return NULL;
  FILE *f = fopen(path, "rb");
  if (!f || fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode)) {
    if (f) fclose(f);
    return refuse(job, "MSC_TOKEN_FILE: %s cannot be read", path), NULL;
  }
  size_t n = fread(token, 1, sizeof token - 1, f);
  fclose(f);
  if (st.st_mode & 077) return refuse(job, "MSC_TOKEN_FILE: others may read %s: chmod 600 it", path), NULL;
  token[n] = 0;
  token[strcspn(token, "\r\n")] = 0;
  char *kept = strdup(token);
  if (!kept) refuse(job, "out of memory");
  return kept;
}
