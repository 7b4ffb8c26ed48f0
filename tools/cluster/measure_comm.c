/* measure_comm.c: ranks, sizes and a transport of the runtime in; nanoseconds of each collective, of all ranks and of
 * groups of them, out. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "runtime/comm/comm.h"
#include "runtime/wait.h"
#include "tools/cluster/host_memory.h"
#include "tools/run/start_ranks.h"
#include "tools/cluster/measure.h"
#include "tools/status.h"

enum { NUM_SIZES = 4, MAX_GROUPS = 4, MAX_CASES = MSC_NUM_VERBS * NUM_SIZES * MAX_GROUPS, TIMEOUT_MS = 60000 };
static const int64_t WINDOW_NS = 15000000, QUICK_NS = 1000000;
static const int64_t sizes[NUM_SIZES] = {1 << 10, 1 << 15, 1 << 20, 1 << 23}; /* bytes */

/* Dimension 0 or 1 cut by the group's axis; 2: partial over it; -1: neither. */
static int find_cut_dimension(msc_verb_side side) {
  switch (side) {
    case MSC_AT_DIM:
    case MSC_AT_CONCAT_DIM: return 0;
    case MSC_AT_SPLIT_DIM: return 1;
    case MSC_AT_PARTIAL: return 2;
    default: return -1;
  }
}

typedef struct {
  msc_verb verb;
  int64_t group, bytes, rows, columns; /* bytes: of the description; the tensor is f32, of the group as a whole */
  uint32_t a, b;                       /* b > 0: only these two ranks, each to the other */
} comm_case;

/* Results that ranks share with the process that started them, by case. */
typedef struct {
  int64_t ns;
  uint64_t received;
} comm_result;

typedef struct {
  cli *c;
  int ranks, num, local_ranks, cores;
  int64_t windows, window_ns;
  const mscrt_transport *api;
  char made[48];
  const char *address, *token, *host;
  comm_case *cases;
  uint64_t arena_bytes;
  comm_result *result; /* of the cases, and behind them the difference of clocks */
} comm_job;

/* ---- cases ---- */

/* Makes the tensor of a case. The bytes of a collective are, in a description, what one member holds before it, and of
 * all_gather what it holds after it. */
static comm_case case_of(msc_verb verb, int64_t group, int64_t bytes) {
  comm_case k = {.verb = verb, .group = group, .rows = group, .columns = bytes / 4 / group};
  if (verb == MSC_ALL_TO_ALL) k.columns = bytes / 4 / group * group; /* a row each, cut again */
  if (verb == MSC_PERMUTE) k.rows = 1, k.columns = bytes / 4;
  if (k.columns < group) k.columns = group;
  k.bytes = 4 * k.rows * k.columns / (verb == MSC_ALL_TO_ALL ? group : 1);
  return k;
}

/* Lists the groups: all ranks, half of them, and so on down to two; `quick`: all ranks only. */
static void list_cases(comm_job *j, bool quick) {
  j->cases = msc_new_array(msc_context_arena(j->c->ctx), comm_case, MAX_CASES);
  int64_t group = j->ranks;
  int num_groups = quick ? 1 : MAX_GROUPS, num_sizes = quick ? NUM_SIZES - 1 : NUM_SIZES;
  for (int g = 0; g < num_groups && group >= 2; g++, group = group % 2 ? 0 : group / 2)
    for (msc_verb v = 0; v < MSC_NUM_VERBS; v++)
      for (int s = 0; s < num_sizes && msc_verb_is(v, MSC_VERB_MEASURED); s++)
        j->cases[j->num++] = case_of(v, group, sizes[s]);
}

/* Bytes of the largest part that a rank has on one side of the collective. */
static int64_t bytes_of_side(const comm_case *k, msc_verb_side side) {
  int cut = find_cut_dimension(side);
  int64_t rows = cut == 0 ? (k->rows + k->group - 1) / k->group : k->rows,
          columns = cut == 1 ? (k->columns + k->group - 1) / k->group : k->columns;
  return 4 * rows * columns;
}

/* Sets the bytes of an arena whose halves hold the source and the destination of every case. */
static void set_arena_bytes(comm_job *j) {
  enum { PAGE = 4096 };
  int64_t most = 0;
  for (int i = 0; i < j->num; i++) {
    const msc_verb_row *row = msc_verb_row_of(j->cases[i].verb);
    int64_t source = bytes_of_side(&j->cases[i], row->operand), result = bytes_of_side(&j->cases[i], row->result);
    if (j->cases[i].verb == MSC_PERMUTE) source = result = 4 * j->cases[i].rows * j->cases[i].columns;
    if (source > most) most = source;
    if (result > most) most = result;
  }
  j->arena_bytes = 2 * ((uint64_t)most / PAGE + 1) * PAGE;
}

/* Refuses sizes that do not fit into the memory that is left: the arenas of the ranks started here, and over TCP as
 * much again for packed boxes. */
static bool fits_memory_left(const comm_job *j, int rank) {
  uint64_t here = rank >= 0 ? 1 : (uint64_t)j->ranks,
           needed = here * j->arena_bytes * (j->api != &mscrt_comm_local ? 2 : 1), left = (uint64_t)host_memory_left();
  if (needed <= left) return true;
  return msc_error(j->c->ctx, MSC_E_OUT_OF_MEMORY, NULL,
                   "collectives of these sizes take %" PRIu64 " bytes of memory on %" PRIu64 " rank%s, and %" PRIu64
                   " are left here: measure smaller sizes, or fewer ranks",
                   needed, here, here > 1 ? "s" : "", left);
}

/* ---- a rank ---- */

typedef struct {
  uint8_t first[3];
  msc_digit digit[1];
  msc_box_layout layout;
} one_cut;

static const msc_box_layout *layout_of(one_cut *room, int64_t group, int place) {
  *room = (one_cut){.digit = {{1, 1, (uint32_t)group}}};
  room->first[1] = place == 0, room->first[2] = place == 0 || place == 1;
  room->layout = (msc_box_layout){.rank = 2, .num = place >= 0, .first = room->first, .digit = room->digit};
  return &room->layout;
}

static mscrt_status *make_comm_exchange(const comm_job *j, int rank, const comm_case *k, mscrt_partitions *parts,
                                        mscrt_exchange *out_e) {
  msc_box_mesh mesh = {.num_axes = 2, .size = {j->ranks / k->group, k->group}};
  one_cut from, to;
  uint32_t ring[2 * MEASURE_MAX_RANKS];
  mscrt_collective c = {
      .verb = k->verb, .dtype = MSCRT_F32, .reduction = MSC_SUM, .rank = 2, .shape = {k->rows, k->columns}};
  msc_digit axis = {1, 1, (uint32_t)k->group};
  uint32_t both[4] = {k->a, k->b, k->b, k->a};
  if (k->b) {
    c.verb = MSC_PAIRS, c.num_axes = 1, c.axes = &axis, c.num_pairs = 2, c.pairs = both;
  } else if (c.verb == MSC_PERMUTE) {
    c.verb = MSC_PAIRS;
    for (uint32_t i = 0; i < k->group; i++) ring[2 * i] = i, ring[2 * i + 1] = (i + 1) % (uint32_t)k->group;
    c.num_axes = 1, c.axes = &axis, c.num_pairs = (uint32_t)k->group, c.pairs = ring;
  } else {
    c.from = layout_of(&from, k->group, find_cut_dimension(msc_verb_row_of(k->verb)->operand));
    c.to = layout_of(&to, k->group, find_cut_dimension(msc_verb_row_of(k->verb)->result));
  }
  return mscrt_exchange_make(&mesh, rank, &c, parts, j->api->sends, out_e);
}

typedef struct {
  const mscrt_transport *api;
  mscrt_comm *comm;
  mscrt_pool *pool;
  mscrt_site site;
  int64_t windows, window_ns;
} wire;

static mscrt_status *run_times(wire *l, const mscrt_exchange *e, uint64_t half, int64_t times, uint64_t *out_ns) {
  char *arena = l->api->arena(l->comm);
  mscrt_part part = {.e = e, .dst = arena + half};
  uint64_t ignored;
  mscrt_ticket ticket;
  MSCRT_CHECK(l->api->max(l->comm, 0, &ignored, &l->site));
  int64_t begin = mscrt_now_ns();
  for (int64_t i = 0; i < times; i++) {
    MSCRT_CHECK(l->api->run(l->comm, l->pool, 1, &part, &l->site, &ticket));
    if (l->api->lingers(1, &part)) MSCRT_CHECK(l->api->finish(l->comm, e, ticket, &l->site));
  }
  return l->api->max(l->comm, (uint64_t)(mscrt_now_ns() - begin), out_ns, &l->site);
}

/* Times an exchange. All ranks learn the slowest rank's time, so that they agree on how often to repeat it. */
static mscrt_status *time_exchange(wire *l, const mscrt_exchange *e, uint64_t half, int64_t *out_ns) {
  uint64_t ns;
  MSCRT_CHECK(run_times(l, e, half, 2, &ns));
  *out_ns = INT64_MAX;
  for (int64_t times = 2, windows = 0; windows < l->windows;) {
    MSCRT_CHECK(run_times(l, e, half, times, &ns));
    int64_t each = (int64_t)ns / times;
    if (each < *out_ns) *out_ns = each > 0 ? each : 1;
    if ((int64_t)ns < l->window_ns) times *= 2;
    else windows++;
  }
  return NULL;
}

static mscrt_status *open_link(const comm_job *j, int rank, uint32_t partitions, wire *l) {
  bool spin = j->local_ranks <= j->cores;
  mscrt_comm_options o = {.rank = rank,
                          .ranks = j->ranks,
                          .address = j->address,
                          .timeout_ms = TIMEOUT_MS,
                          .spin = spin,
                          .plan_hash = 1,
                          .arena_bytes = j->arena_bytes,
                          .num_partitions = partitions,
                          .token = j->token,
                          .host = j->host};
  int threads = j->cores / j->local_ranks;
  *l = (wire){.api = j->api, .site = {.name = "measurement"}, .windows = j->windows, .window_ns = j->window_ns};
  MSCRT_CHECK(mscrt_pool_new(threads > 0 ? threads : 1, threads > 0, NULL, NULL, &l->pool));
  return l->api->open(&o, &l->comm);
}

/* The difference between the clocks of all ranks, too large by the time in which they leave a barrier. */
static mscrt_status *compare_clocks(wire *l, int rank, int64_t *out_ns) {
  uint64_t latest, earliest, ignored;
  struct timespec t;
  MSCRT_CHECK(l->api->max(l->comm, 0, &ignored, &l->site));
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
  MSCRT_CHECK(l->api->max(l->comm, now, &latest, &l->site));
  MSCRT_CHECK(l->api->max(l->comm, UINT64_MAX - now, &earliest, &l->site));
  if (rank == 0) *out_ns = (int64_t)(latest - (UINT64_MAX - earliest));
  return NULL;
}

static mscrt_status *measure_rank(const comm_job *j, int rank, mscrt_partitions *parts, mscrt_exchange *e) {
  wire l = {0};
  mscrt_status *s = NULL;
  for (int i = 0; i < j->num && !s; i++) s = make_comm_exchange(j, rank, &j->cases[i], parts, &e[i]);
  if (!s) s = open_link(j, rank, parts->num, &l);
  if (!s) s = compare_clocks(&l, rank, &j->result[j->num].ns);
  for (int i = 0; i < j->num && !s; i++) {
    int64_t ns = 0;
    s = time_exchange(&l, &e[i], j->arena_bytes / 2, &ns);
    if (!s && rank == 0) j->result[i] = (comm_result){ns, e[i].received};
  }
  if (s && l.comm) l.api->abort(l.comm, mscrt_status_text(s));
  if (l.comm) l.api->close(l.comm);
  mscrt_pool_free(l.pool);
  return s;
}

static int run_comm_rank(void *arg, int rank, const launcher_line *line) {
  const comm_job *j = arg;
  mscrt_partitions parts = {0};
  mscrt_exchange *e = calloc((size_t)j->num, sizeof *e);
  mscrt_status *s = e ? mscrt_partitions_new(j->ranks, &parts) : mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  if (!s) s = measure_rank(j, rank, &parts, e);
  for (int i = 0; e && i < j->num; i++) mscrt_exchange_free(&e[i]);
  free(e);
  mscrt_partitions_free(&parts);
  return status_of_rank(j->c, line, MSC_E_TARGET, s);
}

/* ---- all ---- */

/* Runs the cases, in this process if it is a rank of a job that something else started. */
static int run_cases(comm_job *j, int rank) {
  uint64_t name[2];
  size_t bytes = sizeof *j->result * (size_t)(j->num + 1);
  set_arena_bytes(j);
  comm_result *own = j->result = msc_new_array(msc_context_arena(j->c->ctx), comm_result, j->num + 1);
  if (!fits_memory_left(j, rank)) return CLI_ENVIRONMENT;
  if (!j->address) {
    if (getrandom(name, sizeof name, 0) != sizeof name) return CLI_ENVIRONMENT;
    snprintf(j->made, sizeof j->made, "@msc-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
    j->address = j->made;
  }
  void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    msc_error(j->c->ctx, MSC_E_OUT_OF_MEMORY, NULL, "out of memory");
    return CLI_ENVIRONMENT;
  }
  j->result = shared;
  int code = rank >= 0 ? run_comm_rank(j, rank, NULL)
                       : start_ranks(j->c, &(ranks_job){.ranks = j->ranks, .fn = run_comm_rank, .arg = j});
  j->result = own;
  memcpy(own, shared, bytes);
  munmap(shared, bytes);
  return code;
}

int measure_collectives(cli *c, int ranks, measured *m) {
  comm_job j = {.c = c,
                .ranks = ranks,
                .local_ranks = ranks,
                .cores = m->cores,
                .api = &mscrt_comm_local,
                .windows = m->quick ? 1 : 3,
                .window_ns = m->quick ? QUICK_NS : WINDOW_NS};
  list_cases(&j, m->quick);
  int code = run_cases(&j, -1);
  m->collective = msc_new_array(msc_context_arena(c->ctx), msc_cluster_measure, j.num);
  for (int i = 0; i < j.num && !code; i++)
    m->collective[m->num_collectives++] =
        (msc_cluster_measure){j.cases[i].verb, -1, j.cases[i].group, j.cases[i].bytes, j.result[i].ns};
  return code;
}

static comm_job job_of(cli *c, const comm_request *r) {
  return (comm_job){.c = c,
                    .ranks = r->ranks,
                    .local_ranks = r->local_ranks > 0 ? r->local_ranks : r->ranks,
                    .cores = mscrt_cores(),
                    .api = mscrt_find_transport(r->comm, false),
                    .windows = 3,
                    .window_ns = WINDOW_NS,
                    .address = r->address,
                    .token = r->token,
                    .host = r->host};
}

int measure_comm(cli *c, const comm_request *r, size_t *out_num, comm_time **out_times) {
  comm_job j = job_of(c, r);
  j.cases = msc_new_array(msc_context_arena(c->ctx), comm_case, (size_t)MSC_NUM_VERBS * r->num_sizes);
  for (msc_verb v = 0; v < MSC_NUM_VERBS; v++)
    for (size_t i = 0; i < r->num_sizes && msc_verb_is(v, MSC_VERB_MEASURED) && !(r->without >> v & 1); i++)
      j.cases[j.num++] = case_of(v, j.ranks, r->sizes[i]);
  int code = run_cases(&j, r->rank);
  *out_num = (size_t)j.num;
  *out_times = msc_new_array(msc_context_arena(c->ctx), comm_time, j.num);
  for (int i = 0; i < j.num; i++)
    (*out_times)[i] = (comm_time){j.cases[i].verb, j.cases[i].bytes, j.result[i].ns, j.result[i].received};
  return code;
}

int measure_pairs(cli *c, const comm_request *r, size_t *out_num, pair_time **out_times, int64_t *out_skew_ns) {
  comm_job j = job_of(c, r);
  j.windows = 2, j.window_ns = QUICK_NS;
  j.cases = msc_new_array(msc_context_arena(c->ctx), comm_case, r->ranks * r->ranks);
  for (int a = 0; a < r->ranks; a++)
    for (int b = a + 1; b < r->ranks; b++)
      j.cases[j.num++] = (comm_case){.verb = MSC_PERMUTE,
                                     .group = r->ranks,
                                     .bytes = r->sizes[0],
                                     .rows = 1,
                                     .columns = r->sizes[0] / 4,
                                     .a = (uint32_t)a,
                                     .b = (uint32_t)b};
  int code = run_cases(&j, r->rank);
  *out_num = (size_t)j.num;
  *out_times = msc_new_array(msc_context_arena(c->ctx), pair_time, j.num + 1);
  for (int i = 0; i < j.num; i++) (*out_times)[i] = (pair_time){(int)j.cases[i].a, (int)j.cases[i].b, j.result[i].ns};
  *out_skew_ns = j.result[j.num].ns;
  return code;
}
