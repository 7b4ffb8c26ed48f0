/* team.c: a collective that a program calls, between all ranks of a job or a group of them, in; runs of a transport's
 * collective, piece by piece through the arena, out. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/comm.h"

#define PIECE_BYTES   ((uint64_t)4 << 20)   /* the most that a rank sends in one run */
#define MESSAGE_BYTES ((uint64_t)256 << 10) /* the most that a message moves at a time */
#define MOST_GROUPS  63
#define TIMEOUT_MS   300000
#define TEAM_HASH     0x6d6165745f63736d /* in place of the hash of a plan */

/* The state that all teams of a job share. */
typedef struct {
  const mscrt_transport *transport;
  mscrt_comm *comm;
  mscrt_pool *pool;
  mscrt_comm_options o;
  char *address, *token, *host; /* copies */
  uint8_t *arena;
  uint64_t made_at, mail_at; /* offsets in the arena: the result of an all_reduce; the mailboxes, by sender */
  uint32_t num_groups;
  int process; /* that joined */
  bool failed;
} mscrt_joined;

struct mscrt_team {
  mscrt_joined *job;
  bool is_all;
  mscrt_members members; /* its index counts only if is_member */
  bool is_member;
};

static mscrt_status *check_usable(const mscrt_joined *j) {
  if (j->process != getpid())
    return mscrt_fail(MSCRT_ARGUMENT, "this team belongs to process %d, which forked this one", j->process);
  return j->failed ? mscrt_fail(MSCRT_ARGUMENT, "a collective of this job failed before") : NULL;
}

/* ---- joining ---- */

static char *copy_text(const char *text, bool *fails) {
  char *copy = text ? strdup(text) : NULL;
  *fails |= text && !copy;
  return copy;
}

/* A whole number from the environment; -1: it is not set, or no whole number. */
static int number_in_environment(const char *name) {
  const char *text = getenv(name);
  char *end;
  long v = text && *text ? strtol(text, &end, 10) : -1;
  return v >= 0 && v < 1 << 20 && !*end ? (int)v : -1;
}

/* Sets rank, ranks, address and token from the environment that `msc launch` sets, if the caller left ranks 0. */
static mscrt_status *complete_options_from_environment(mscrt_options *o) {
  if (o->ranks) return NULL;
  int rank = number_in_environment("MSC_RANK"), ranks = number_in_environment("MSC_RANKS");
  o->rank = rank < 0 ? 0 : rank, o->ranks = ranks < 1 ? 1 : ranks;
  if (!o->address) o->address = getenv("MSC_ADDRESS");
  if (!o->token) o->token = getenv("MSC_TOKEN");
  if ((rank < 0) == (ranks < 1)) return NULL;
  return mscrt_fail(MSCRT_ARGUMENT, "%s is set, %s is not", rank < 0 ? "MSC_RANKS" : "MSC_RANK",
                    rank < 0 ? "MSC_RANK" : "MSC_RANKS");
}

static mscrt_status *choose_team_transport(const char *backend, const mscrt_options *o, mscrt_joined *j) {
  bool far = o->ranks > 1 && o->address && mscrt_is_network_address(o->address);
  j->transport = mscrt_find_transport(backend, far);
  if (!j->transport)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "ranks of a program are connected by local, hosts, tcp, mpi or ucx, not by '%s'", backend);
  if (o->rank < 0 || o->rank >= o->ranks) return mscrt_fail(MSCRT_ARGUMENT, "rank %d of %d", o->rank, o->ranks);
  if (o->ranks > 1 && !o->address) return mscrt_fail(MSCRT_ARGUMENT, "%d ranks need an address to meet at", o->ranks);
  if (o->ranks == 1) j->transport = &mscrt_comm_local;
  return NULL;
}

static mscrt_status *meet_team(mscrt_joined *j, const mscrt_options *o) {
  bool fails = false;
  uint64_t mailbox = msc_mailbox_bytes(MESSAGE_BYTES, 1);
  j->address = copy_text(o->address, &fails), j->token = copy_text(o->token, &fails);
  j->host = copy_text(o->host, &fails);
  if (fails) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  j->made_at = PIECE_BYTES, j->mail_at = 2 * PIECE_BYTES;
  j->o = (mscrt_comm_options){.rank = o->rank,
                              .ranks = o->ranks,
                              .address = j->address,
                              .timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS,
                              .spin = (o->local_ranks > 0 ? o->local_ranks : o->ranks) <= mscrt_cores(),
                              .plan_hash = TEAM_HASH,
                              .arena_bytes = j->mail_at + (uint64_t)o->ranks * mailbox,
                              .num_partitions = 1 + MOST_GROUPS,
                              .sparse = true,
                              .has_mail = true,
                              .led = o->led,
                              .silence_ms = o->silence_ms,
                              .meet_ms = o->meet_ms,
                              .token = j->token,
                              .host = j->host};
  MSCRT_CHECK(mscrt_pool_new(1, false, NULL, NULL, &j->pool));
  MSCRT_CHECK(j->transport->open(&j->o, &j->comm));
  j->arena = j->transport->arena(j->comm);
  return NULL;
}

static mscrt_status *make_team(mscrt_joined *j, int num, const int *ranks, uint32_t partition, mscrt_team **out_team) {
  mscrt_team *t = NULL;
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_new_array(&t, 1));
  MSCRT_GOTO(mscrt_new_array(&t->members.member, j->o.ranks));
  t->job = j, t->is_all = !ranks;
  t->members.partition = partition;
  bool *in = NULL;
  MSCRT_GOTO(mscrt_new_array(&in, j->o.ranks));
  for (int i = 0; i < num && !s; i++) {
    int r = ranks ? ranks[i] : i;
    if (r < 0 || r >= j->o.ranks) s = mscrt_fail(MSCRT_ARGUMENT, "rank %d of %d is in no group", r, j->o.ranks);
    else if (in[r]) s = mscrt_fail(MSCRT_ARGUMENT, "rank %d is in the list twice", r);
    else in[r] = true;
  }
  for (int r = 0; r < j->o.ranks && !s; r++) {
    if (!in[r]) continue;
    if (r == j->o.rank) t->is_member = true, t->members.index = t->members.num;
    t->members.member[t->members.num++] = r;
  }
  free(in);
  if (!s) {
    *out_team = t;
    return NULL;
  }
fail:
  if (t) free(t->members.member);
  free(t);
  return s;
}

static void leave_job(mscrt_joined *j) {
  if (j->comm && j->failed) j->transport->abort(j->comm, "a collective of the program failed");
  if (j->comm) j->transport->close(j->comm);
  mscrt_pool_free(j->pool);
  free(j->address);
  free(j->token);
  free(j->host);
  free(j);
}

mscrt_status *mscrt_init(const char *backend, const mscrt_options *options, mscrt_team **out_all) {
  MSCRT_NEEDS(out_all);
  mscrt_options o = {0};
  mscrt_joined *j = NULL;
  mscrt_status *s = NULL;
  *out_all = NULL;
  if (options) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
  MSCRT_CHECK(complete_options_from_environment(&o));
  MSCRT_CHECK(mscrt_new_array(&j, 1));
  j->process = getpid();
  MSCRT_GOTO(choose_team_transport(backend, &o, j));
  MSCRT_GOTO(meet_team(j, &o));
  MSCRT_GOTO(make_team(j, o.ranks, NULL, 0, out_all));
  return NULL;
fail:
  leave_job(j);
  return s;
}

void mscrt_end(mscrt_team *t) {
  if (!t || t->job->process != getpid()) return;
  if (t->is_all) leave_job(t->job);
  free(t->members.member);
  free(t);
}

mscrt_status *mscrt_group(mscrt_team *all, int num, const int *ranks, mscrt_team **out_group) {
  MSCRT_NEEDS(all && out_group);
  mscrt_joined *j = all->job;
  *out_group = NULL;
  MSCRT_CHECK(check_usable(j));
  if (!all->is_all) return mscrt_fail(MSCRT_ARGUMENT, "groups are made of the team of all ranks");
  if (num < 1 || !ranks) return mscrt_fail(MSCRT_ARGUMENT, "a group has a rank at least");
  if (j->num_groups == MOST_GROUPS) return mscrt_fail(MSCRT_UNSUPPORTED, "a job has %d groups at most", MOST_GROUPS);
  MSCRT_CHECK(make_team(j, num, ranks, j->num_groups + 1, out_group));
  j->num_groups++;
  return NULL;
}

int mscrt_rank(const mscrt_team *t) { return t->is_member ? t->members.index : -1; }
int mscrt_group_size(const mscrt_team *t) { return t->members.num; }

/* ---- exchanges ---- */

/* A piece of a collective: elements [at, at + num) of each block. */
typedef struct {
  mscrt_team *t;
  mscrt_exchange e;
  int64_t at, num;
} piece;

/* Checks what a verb is called with: `count` elements for each rank of the team, at least in one of two buffers. */
static mscrt_status *check_buffers(const mscrt_team *t, const void *src, const void *dst, int64_t count) {
  MSCRT_NEEDS(t && ((src && dst) || !count));
  if (count < 0 || count > INT64_MAX / 64 / t->members.num)
    return mscrt_fail(MSCRT_ARGUMENT, "%" PRId64 " elements", count);
  return NULL;
}

static const char *name_of_verb(const piece *p) { return msc_verb_name(p->e.verb); }

/* Makes the exchange of a piece, without its cuts and sends. num_terms: how many terms are combined in each cut. */
static mscrt_status *make_piece(mscrt_team *t, msc_verb verb, mscrt_dtype dtype, int rank, int num_terms, piece *p) {
  const mscrt_members *g = &t->members;
  mscrt_status *s = NULL;
  *p = (piece){.t = t};
  p->e = (mscrt_exchange){.verb = verb, .dtype = dtype, .rank = rank, .num_terms = num_terms};
  p->e.group = *g;
  p->e.group.member = NULL;
  MSCRT_CHECK(check_usable(t->job));
  if (!t->is_member) return mscrt_fail(MSCRT_ARGUMENT, "this rank is not in the group");
  if ((unsigned)dtype >= MSCRT_NUM_DTYPES) return mscrt_fail(MSCRT_ARGUMENT, "there is no element type %d", (int)dtype);
  MSCRT_GOTO(mscrt_new_array(&p->e.group.member, g->num));
  memcpy(p->e.group.member, g->member, (size_t)g->num * sizeof *g->member);
  MSCRT_GOTO(mscrt_new_array(&p->e.cut, g->num));
  MSCRT_GOTO(mscrt_new_array(&p->e.give, g->num));
  MSCRT_GOTO(mscrt_new_array(&p->e.peers, g->num));
  for (int i = 0; i < g->num; i++) p->e.peers[i] = g->member[i];
  return NULL;
fail:
  mscrt_exchange_free(&p->e);
  return s;
}

static void add_cut(piece *p, msc_box box, msc_box from_box, int member) {
  p->e.cut[p->e.num_cuts++] = (mscrt_cut){.box = box, .from_box = from_box, .peer = &p->e.peers[member]};
}

static void add_send(piece *p, int member, msc_box box) {
  if (member != p->e.group.index) p->e.give[p->e.num_gives++] = (mscrt_give){p->e.group.member[member], box};
}

static void begin_piece(piece *p, int64_t at, int64_t num) {
  p->at = at, p->num = num;
  p->e.num_cuts = p->e.num_gives = 0;
}

/* Runs the exchange of the piece at the beginning of the arena. */
static mscrt_status *run_piece(piece *p, void *dst) {
  mscrt_joined *j = p->t->job;
  mscrt_site site = {.name = name_of_verb(p)};
  mscrt_ticket ticket;
  mscrt_part part = {.e = &p->e, .dst = dst};
  mscrt_status *s = j->transport->run(j->comm, j->pool, 1, &part, &site, &ticket);
  if (!s && j->transport->lingers(1, &part) != MSCRT_LINGERS_NOT)
    s = j->transport->finish(j->comm, &p->e, ticket, &site);
  j->failed |= s != NULL;
  return s;
}

/* Returns how many elements of each of `blocks` blocks a piece has. */
static int64_t elements_per_piece(const piece *p, int64_t blocks) {
  int64_t n = (int64_t)PIECE_BYTES / (int64_t)mscrt_dtype_bytes(p->e.dtype) / blocks / 64 * 64;
  return n > 0 ? n : 1;
}

/* Copies elements [at, at + num) of each block to the beginning of the arena, one behind the other. */
static void copy_blocks_to_arena(piece *p, const void *src, int64_t blocks, int64_t count) {
  size_t bytes = mscrt_dtype_bytes(p->e.dtype), num = (size_t)p->num * bytes;
  for (int64_t b = 0; b < blocks; b++)
    memcpy(p->t->job->arena + (size_t)b * num, (const uint8_t *)src + (size_t)(b * count + p->at) * bytes, num);
  p->e.src_bytes = (uint64_t)blocks * num;
  p->e.dst_bytes = p->e.src_bytes;
}

static mscrt_status *end_piece(piece *p, mscrt_status *s) {
  mscrt_exchange_free(&p->e);
  return s;
}

/* ---- the verbs ---- */

static mscrt_status *find_reduction(mscrt_operation operation, msc_reduction *out_reduction) {
  static const msc_reduction reductions[] = {MSC_SUM, MSC_MAX, MSC_MIN, MSC_PROD};
  _Static_assert(sizeof reductions / sizeof *reductions == MSC_NUM_REDUCTIONS, "an operation for each");
  if ((unsigned)operation >= MSC_NUM_REDUCTIONS)
    return mscrt_fail(MSCRT_ARGUMENT, "there is no operation %d", (int)operation);
  *out_reduction = reductions[operation];
  return NULL;
}

mscrt_status *mscrt_all_reduce(mscrt_team *t, mscrt_dtype dtype, mscrt_operation operation, const void *src, void *dst,
                               int64_t count) {
  piece p;
  mscrt_status *s = NULL;
  msc_reduction reduction;
  MSCRT_CHECK(check_buffers(t, src, dst, count));
  MSCRT_CHECK(find_reduction(operation, &reduction));
  MSCRT_CHECK(make_piece(t, MSC_ALL_REDUCE, dtype, 1, t->members.num, &p));
  p.e.reduction = reduction, p.e.slices = true;
  size_t bytes = mscrt_dtype_bytes(dtype);
  uint8_t *made = t->job->arena + t->job->made_at;
  for (int64_t n, at = 0; at < count && !s; at += n) {
    n = mscrt_smaller(count - at, elements_per_piece(&p, 1));
    begin_piece(&p, at, n);
    msc_box all = {.size = {n}};
    p.e.to_box = p.e.own_box = all, p.e.elems = n;
    add_cut(&p, all, all, 0);
    for (int i = 0; i < t->members.num; i++) add_send(&p, i, all);
    copy_blocks_to_arena(&p, src, 1, count);
    s = run_piece(&p, made);
    if (!s) memcpy((uint8_t *)dst + (size_t)at * bytes, made, (size_t)n * bytes);
  }
  return end_piece(&p, s);
}

/* Gathers pieces in the arena, where they cross once to each host, and copies them from there. */
static mscrt_status *gather_in_arena(piece *p, void *dst, int64_t count) {
  int num = p->t->members.num;
  uint8_t *made = p->t->job->arena + p->t->job->made_at;
  size_t bytes = mscrt_dtype_bytes(p->e.dtype), row = (size_t)p->num * bytes;
  p->e.same = true;
  p->e.to_box = (msc_box){.begin = {0, p->at}, .size = {num, p->num}};
  MSCRT_CHECK(run_piece(p, made));
  for (int i = 0; i < num; i++)
    memcpy((uint8_t *)dst + (size_t)(i * count + p->at) * bytes, made + (size_t)i * row, row);
  return NULL;
}

mscrt_status *mscrt_all_gather(mscrt_team *t, mscrt_dtype dtype, const void *src, void *dst, int64_t count) {
  piece p;
  mscrt_status *s = NULL;
  MSCRT_CHECK(check_buffers(t, src, dst, count));
  MSCRT_CHECK(make_piece(t, MSC_ALL_GATHER, dtype, 2, 1, &p));
  int num = t->members.num, own = t->members.index;
  p.e.to_box = (msc_box){.size = {num, count}}, p.e.elems = num * count;
  for (int64_t n, at = 0; at < count && !s; at += n) {
    n = mscrt_smaller(count - at, elements_per_piece(&p, num));
    begin_piece(&p, at, n);
    p.e.own_box = (msc_box){.begin = {own, at}, .size = {1, n}};
    for (int i = 0; i < num; i++) {
      msc_box part = {.begin = {i, at}, .size = {1, n}};
      add_cut(&p, part, part, i);
      add_send(&p, i, p.e.own_box);
    }
    copy_blocks_to_arena(&p, src, 1, count);
    s = t->job->transport == &mscrt_comm_hosts ? gather_in_arena(&p, dst, count) : run_piece(&p, dst);
  }
  return end_piece(&p, s);
}

mscrt_status *mscrt_reduce_scatter(mscrt_team *t, mscrt_dtype dtype, mscrt_operation operation, const void *src,
                                   void *dst, int64_t count) {
  piece p;
  mscrt_status *s = NULL;
  msc_reduction reduction;
  MSCRT_CHECK(check_buffers(t, src, dst, count));
  MSCRT_CHECK(find_reduction(operation, &reduction));
  MSCRT_CHECK(make_piece(t, MSC_REDUCE_SCATTER, dtype, 2, t->members.num, &p));
  int num = t->members.num, own = t->members.index;
  p.e.reduction = reduction;
  p.e.to_box = (msc_box){.begin = {own, 0}, .size = {1, count}}, p.e.elems = count;
  for (int64_t n, at = 0; at < count && !s; at += n) {
    n = mscrt_smaller(count - at, elements_per_piece(&p, num));
    begin_piece(&p, at, n);
    p.e.own_box = (msc_box){.begin = {0, at}, .size = {num, n}};
    add_cut(&p, (msc_box){.begin = {own, at}, .size = {1, n}}, p.e.own_box, 0);
    for (int i = 0; i < num; i++) add_send(&p, i, (msc_box){.begin = {i, at}, .size = {1, n}});
    copy_blocks_to_arena(&p, src, num, count);
    s = run_piece(&p, dst);
  }
  return end_piece(&p, s);
}

mscrt_status *mscrt_all_to_all(mscrt_team *t, mscrt_dtype dtype, const void *src, void *dst, int64_t count) {
  piece p;
  mscrt_status *s = NULL;
  MSCRT_CHECK(check_buffers(t, src, dst, count));
  MSCRT_CHECK(make_piece(t, MSC_ALL_TO_ALL, dtype, 3, 1, &p));
  int num = t->members.num, own = t->members.index;
  p.e.to_box = (msc_box){.begin = {0, own, 0}, .size = {num, 1, count}}, p.e.elems = num * count;
  for (int64_t n, at = 0; at < count && !s; at += n) {
    n = mscrt_smaller(count - at, elements_per_piece(&p, num));
    begin_piece(&p, at, n);
    p.e.own_box = (msc_box){.begin = {own, 0, at}, .size = {1, num, n}};
    for (int i = 0; i < num; i++) {
      add_cut(&p, (msc_box){.begin = {i, own, at}, .size = {1, 1, n}},
              (msc_box){.begin = {i, 0, at}, .size = {1, num, n}}, i);
      add_send(&p, i, (msc_box){.begin = {own, i, at}, .size = {1, 1, n}});
    }
    copy_blocks_to_arena(&p, src, num, count);
    s = run_piece(&p, dst);
  }
  return end_piece(&p, s);
}

mscrt_status *mscrt_broadcast(mscrt_team *t, mscrt_dtype dtype, int root, void *data, int64_t count) {
  piece p;
  mscrt_status *s = NULL;
  MSCRT_CHECK(check_buffers(t, data, data, count));
  if (root < 0 || root >= t->members.num)
    return mscrt_fail(MSCRT_ARGUMENT, "there is no rank %d in a group of %d", root, t->members.num);
  MSCRT_CHECK(make_piece(t, MSC_BROADCAST, dtype, 1, 1, &p));
  bool gives = t->members.index == root;
  p.e.to_box = (msc_box){.size = {count}}, p.e.elems = count;
  for (int64_t n, at = 0; at < count && !s; at += n) {
    n = mscrt_smaller(count - at, elements_per_piece(&p, 1));
    begin_piece(&p, at, n);
    msc_box part = {.begin = {at}, .size = {n}};
    p.e.own_box = part;
    add_cut(&p, part, part, root);
    for (int i = 0; i < t->members.num && gives; i++) add_send(&p, i, part);
    p.e.src_bytes = p.e.dst_bytes = (uint64_t)n * mscrt_dtype_bytes(dtype);
    if (gives) copy_blocks_to_arena(&p, data, 1, count);
    s = run_piece(&p, data);
  }
  return end_piece(&p, s);
}

mscrt_status *mscrt_barrier(mscrt_team *t) {
  MSCRT_NEEDS(t);
  uint8_t one = 1, all;
  return mscrt_all_reduce(t, MSCRT_U8, MSCRT_OF_MAX, &one, &all, 1);
}

static mscrt_status *pass_message(mscrt_team *t, bool sends, int peer, uint8_t *data, size_t bytes) {
  mscrt_joined *j = t->job;
  mscrt_status *s = NULL;
  mscrt_site site = {.name = sends ? "send" : "receive"};
  MSCRT_CHECK(check_usable(j));
  if (!t->is_member || peer < 0 || peer >= t->members.num || peer == t->members.index)
    return mscrt_fail(MSCRT_ARGUMENT, "rank %d of a group of %d exchanges no message with rank %d", mscrt_rank(t),
                      t->members.num, peer);
  int other = t->members.member[peer], from = sends ? j->o.rank : other;
  uint64_t mailbox = j->mail_at + (uint64_t)from * msc_mailbox_bytes(MESSAGE_BYTES, 1);
  for (size_t n, at = 0; at < bytes && !s; at += n) {
    n = bytes - at < MESSAGE_BYTES ? bytes - at : (size_t)MESSAGE_BYTES;
    mscrt_channel m = {.peer = other, .depth = 1, .bytes = n, .mailbox = mailbox};
    s = sends ? j->transport->send(j->comm, &m, data + at, &site)
              : j->transport->receive(j->comm, &m, data + at, &site);
  }
  j->failed |= s != NULL;
  return s;
}

mscrt_status *mscrt_send(mscrt_team *t, int to, const void *data, size_t bytes) {
  MSCRT_NEEDS(t && (data || !bytes));
  return pass_message(t, true, to, (uint8_t *)(uintptr_t)data, bytes);
}

mscrt_status *mscrt_receive(mscrt_team *t, int from, void *data, size_t bytes) {
  MSCRT_NEEDS(t && (data || !bytes));
  return pass_message(t, false, from, data, bytes);
}
