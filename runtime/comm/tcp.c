/* tcp.c: the transport between ranks on any hosts, over TCP, or with the data of collectives through MPI or UCX. Sums
 * have the order of those in shared memory, so the bits are the same. A collective has one of three forms:
 *
 *   alone    the group is this rank
 *   slices   an all_reduce: each member receives its slice of the elements from all others, reduces it piece by piece
 *            as the pieces arrive, and sends the results to all others
 *   boxes    every member sends the boxes that others need of it, and combines those it gets at the end (boxes.c)
 *
 * Where ranks of one host share memory (transport "hosts"), only one of them speaks with another host about a slice:
 * see host_slices.c; large boxes of each other they take from their arenas, and what all take comes once to a host.
 *
 * Nothing lingers: `run` returns when all bytes have been handed to the kernel. Memory for what arrives grows when a
 * collective runs for the first time. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/comm/hosts.h"

#define SILENCE_MS   30000
#define SHARED_BYTES ((uint64_t)128 << 10) /* below it ranks of one host, too, send boxes over TCP, without barriers */
#define WHOLE_BYTES  ((uint64_t)256 << 10) /* up to it an all_reduce of two members is not cut into slices */

static mscrt_tcp *tcp_of(mscrt_comm *c) { return (mscrt_tcp *)(void *)c; }

/* ---- members of this host ---- */

/* Sets r->here to the members on this host. */
static void find_members_here(mscrt_collective_run *r) {
  const mscrt_members *g = &r->e->group;
  r->here = (mscrt_exchange){.group = {.partition = g->partition, .member = r->here_member}};
  for (int i = 0; i < g->num; i++) {
    if (!mscrt_is_here(r->c, g->member[i])) continue;
    if (i == g->index) r->here.group.index = r->here.group.num;
    r->here_member[r->here.group.num++] = r->c->place[g->member[i]];
  }
}

/* ---- slices ---- */

typedef struct {
  const mscrt_collective_run *r;
  mscrt_pool *pool;
  mscrt_slices s;
  mscrt_duplexes *duplexes;
  uint8_t *packed; /* by duplex: the elements of this rank's slice that it receives */
  uint64_t slice_bytes;
  int64_t begin, end, reduced; /* this rank's slice; elements of it that are reduced */
  int *duplex_of;              /* by rank; -1: this one */
} slicing;

static void reduce_unit(void *arg, int64_t unit, int worker) {
  const slicing *k = arg;
  const mscrt_slices *s = &k->s;
  int64_t at = k->begin + k->reduced + unit * MSCRT_REDUCE_ELEMS, end = at + MSCRT_REDUCE_ELEMS;
  if (end > k->end) end = k->end;
  (void)worker;
  while (at < end) {
    const mscrt_part *p = mscrt_part_with(s, at);
    int64_t num = mscrt_elements_in(p, at, end);
    size_t bytes = mscrt_dtype_bytes(p->e->dtype), inside = (size_t)(at - p->at) * bytes;
    const void *src[p->e->num_terms + 1];
    for (int t = 0; t < p->e->num_terms && p->e->num_cuts; t++) {
      int duplex = k->duplex_of[p->e->peers[t]];
      src[t] = duplex < 0 ? mscrt_source_in_arena(k->r->c, p) + inside
                          : k->packed + (uint64_t)duplex * k->slice_bytes + (uint64_t)(at - k->begin) * bytes;
    }
    if (p->e->num_cuts) /* else the part is empty, and all of its room padding */
      mscrt_combine(p->e->dtype, p->e->reduction, p->e->num_terms, src, (uint8_t *)p->dst + inside, num);
    at += num;
  }
}

/* Reduces the units of this rank's slice that have arrived from all members, and makes them ready to be sent. */
static void reduce_arrived(void *user) {
  slicing *k = user;
  size_t bytes = mscrt_dtype_bytes(k->r->e->dtype);
  int64_t come = k->end - k->begin;
  for (uint32_t i = 0; i < k->duplexes->num; i++) {
    int64_t got = (int64_t)(k->duplexes->duplex[i].got / bytes);
    if (got < come) come = got;
  }
  if (come < k->end - k->begin) come = come / MSCRT_REDUCE_ELEMS * MSCRT_REDUCE_ELEMS;
  if (come <= k->reduced) return;
  mscrt_pool_run(k->pool, reduce_unit, k, (come - k->reduced + MSCRT_REDUCE_ELEMS - 1) / MSCRT_REDUCE_ELEMS);
  for (uint32_t i = 0; i < k->duplexes->num; i++) k->duplexes->duplex[i].ready += (uint64_t)(come - k->reduced) * bytes;
  k->reduced = come;
}

/* Appends the elements [begin, end) of the sources, or of the destinations, to a duplex. */
static void add_elements(const slicing *k, mscrt_duplex *duplex, int64_t begin, int64_t end, bool of_dst,
                         void (*add)(mscrt_duplex *l, void *at, uint64_t bytes)) {
  size_t bytes = mscrt_dtype_bytes(k->r->e->dtype);
  while (begin < end) {
    const mscrt_part *p = mscrt_part_with(&k->s, begin);
    int64_t num = mscrt_elements_in(p, begin, end);
    uint8_t *base = of_dst ? p->dst : mscrt_source_in_arena(k->r->c, p);
    add(duplex, base + (size_t)(begin - p->at) * bytes, (uint64_t)num * bytes);
    begin += num;
  }
}

static mscrt_status *run_tcp_slices(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num,
                                    const mscrt_part *part) {
  mscrt_tcp *c = r->c;
  const mscrt_members *g = &r->e->group;
  size_t bytes = mscrt_dtype_bytes(r->e->dtype), per_duplex = 2 * ((size_t)num + 2);
  mscrt_duplexes duplexes = {.duplex = c->duplex, .work = reduce_arrived};
  slicing k = {.r = r, .pool = pool, .s = mscrt_slices_of(num, part), .duplexes = &duplexes};
  duplexes.user = &k;
  k.slice_bytes = (uint64_t)k.s.slice * bytes;
  k.begin = mscrt_slice_begin(&k.s, g->index), k.end = mscrt_slice_begin(&k.s, g->index + 1);
  MSCRT_CHECK(mscrt_reserve(&c->spans, 2 * per_duplex * (size_t)g->num * sizeof(mscrt_span)));
  MSCRT_CHECK(mscrt_reserve(&c->packed, (size_t)k.slice_bytes * (size_t)g->num + 1));
  MSCRT_CHECK(mscrt_reserve(&c->cursors, (size_t)c->m.ranks * sizeof *k.duplex_of));
  k.packed = c->packed.at, k.duplex_of = c->cursors.at;
  for (int i = 0; i < c->m.ranks; i++) k.duplex_of[i] = -1;
  for (int i = 0; i < g->num; i++) {
    if (i == g->index) continue;
    mscrt_span *span = (mscrt_span *)c->spans.at + 2 * per_duplex * duplexes.num;
    k.duplex_of[g->member[i]] = (int)duplexes.num;
    mscrt_duplex *duplex = mscrt_add_duplex(r, &duplexes, g->member[i], span, span + per_duplex);
    int64_t begin = mscrt_slice_begin(&k.s, i), end = mscrt_slice_begin(&k.s, i + 1);
    mscrt_add_in(duplex, k.packed + (duplexes.num - 1) * k.slice_bytes, (uint64_t)(k.end - k.begin) * bytes);
    add_elements(&k, duplex, begin, end, true, mscrt_add_in);
    add_elements(&k, duplex, begin, end, false, mscrt_add_out);
    duplex->ready = duplex->out_bytes;
    add_elements(&k, duplex, k.begin, k.end, true, mscrt_add_out);
    mscrt_set_head(r, duplex);
  }
  return mscrt_move_duplexes(r, &duplexes);
}

/* ---- the table ---- */

static mscrt_status *check_not_lost(const mscrt_collective_run *r) {
  char why[320];
  int culprit;
  return mscrt_member_lost(&r->c->m, &culprit, why) ? mscrt_lost_in_collective(r->c->m.rank, r->e, r->site, why) : NULL;
}

static mscrt_status *run_tcp(mscrt_comm *comm, mscrt_pool *pool, uint32_t num, const mscrt_part *part,
                             const mscrt_site *site, mscrt_ticket *out_ticket) {
  mscrt_collective_run r = {.c = tcp_of(comm), .e = part[0].e, .site = site, .kind = MSCRT_OF_DATA};
  bool slices = true, scatters = true, ran = false;
  *out_ticket = (mscrt_ticket){0};
  atomic_store(&r.c->m.step, site->step);
  if (part[0].e->group.num == 1) return mscrt_run_alone(&r, pool, num, part);
  MSCRT_CHECK(check_not_lost(&r));
  for (uint32_t i = 0; i < num; i++) {
    slices = slices && part[i].e->slices;
    scatters = scatters && part[i].e->scatters;
  }
  find_members_here(&r);
  if (r.c->local) mscrt_local_note_step(r.c->local, site->step);
  if ((slices || scatters) && r.c->o.shares) MSCRT_CHECK(mscrt_run_host_slices(&r, pool, num, part, &ran));
  if (ran) return NULL;
  uint64_t bytes = 0; /* the same on all members */
  for (uint32_t i = 0; i < num; i++) bytes += part[i].e->src_bytes + part[i].e->dst_bytes;
  /* two members that send each other all elements send as much as with slices, and wait once instead of twice */
  if (slices && (part[0].e->group.num > 2 || bytes > WHOLE_BYTES)) return run_tcp_slices(&r, pool, num, part);
  r.shares = r.c->o.shares && bytes >= SHARED_BYTES;
  if (!r.shares) r.here.group.num = 1;
  return mscrt_run_boxes(&r, pool, num, part);
}

static mscrt_lingering lingers_not(uint32_t num, const mscrt_part *part) {
  (void)num, (void)part;
  return MSCRT_LINGERS_NOT;
}

static mscrt_status *finish_tcp(mscrt_comm *c, const mscrt_exchange *e, mscrt_ticket ticket, const mscrt_site *site) {
  (void)c, (void)e, (void)ticket, (void)site;
  return NULL;
}

static mscrt_status *send_tcp(mscrt_comm *c, const mscrt_channel *m, const void *src, const mscrt_site *site) {
  return mscrt_mail_send(tcp_of(c)->mail, m, src, site);
}

static mscrt_status *receive_tcp(mscrt_comm *c, const mscrt_channel *m, void *dst, const mscrt_site *site) {
  return mscrt_mail_receive(tcp_of(c)->mail, m, dst, site);
}

static mscrt_status *max_tcp(mscrt_comm *comm, uint64_t value, uint64_t *out_max, const mscrt_site *site) {
  mscrt_tcp *c = tcp_of(comm);
  mscrt_exchange e = {.verb = MSC_ALL_REDUCE, .reduction = MSC_MAX, .group = {.num = c->m.ranks, .index = c->m.rank}};
  mscrt_collective_run r = {.c = c, .e = &e, .site = site, .kind = MSCRT_OF_VALUES};
  mscrt_duplexes duplexes = {.duplex = c->duplex};
  atomic_store(&c->m.step, site->step);
  MSCRT_CHECK(mscrt_reserve(&c->spans, 2 * (size_t)c->m.ranks * sizeof(mscrt_span)));
  MSCRT_CHECK(mscrt_reserve(&c->cursors, (size_t)c->m.ranks * sizeof(int32_t)));
  e.group.member = c->cursors.at;
  for (int i = 0; i < c->m.ranks; i++) e.group.member[i] = i;
  if (c->m.ranks > 1) MSCRT_CHECK(check_not_lost(&r));
  c->values[c->m.rank] = value;
  for (int i = 0; i < c->m.ranks; i++) {
    if (i == c->m.rank) continue;
    mscrt_span *span = (mscrt_span *)c->spans.at + 2 * duplexes.num;
    mscrt_duplex *duplex = mscrt_add_duplex(&r, &duplexes, i, span, span + 1);
    mscrt_add_out(duplex, &c->values[c->m.rank], sizeof value);
    mscrt_add_in(duplex, &c->values[i], sizeof value);
    duplex->ready = duplex->out_bytes;
    mscrt_set_head(&r, duplex);
  }
  MSCRT_CHECK(mscrt_move_duplexes(&r, &duplexes));
  *out_max = 0;
  for (int i = 0; i < c->m.ranks; i++)
    if (c->values[i] > *out_max) *out_max = c->values[i];
  return NULL;
}

static mscrt_status *lost_tcp(mscrt_comm *c, const char *waited_for) {
  char why[320];
  int culprit;
  return mscrt_member_lost(&tcp_of(c)->m, &culprit, why) ? mscrt_fail(MSCRT_PEER, "%s: %s", waited_for, why) : NULL;
}

static int culprit_tcp(mscrt_comm *c) {
  char why[320];
  int culprit;
  return mscrt_member_lost(&tcp_of(c)->m, &culprit, why) ? culprit : -1;
}

static void abort_tcp(mscrt_comm *c, const char *reason) {
  mscrt_member_blame(&tcp_of(c)->m, tcp_of(c)->m.rank, reason);
}

static void *arena_tcp(mscrt_comm *c) { return tcp_of(c)->arena; }

static uint64_t count_link_bytes(const mscrt_comm *comm) {
  const mscrt_tcp *c = (const mscrt_tcp *)(const void *)comm;
  return c->spans.bytes + c->packed.bytes + c->places.bytes + c->cursors.bytes + c->own_places.bytes +
         (c->local ? mscrt_comm_local.link_bytes(c->local) : 0);
}

static void close_connections(mscrt_tcp *c) {
  for (int r = 0; c->fd && r < c->o.ranks; r++) {
    if (c->fd[r] >= 0) close(c->fd[r]);
    c->fd[r] = -1;
  }
}

static void close_tcp(mscrt_comm *comm) {
  mscrt_tcp *c = tcp_of(comm);
  if (!c) return;
  mscrt_member_close(&c->m); /* first: the others must not take closed connections for a loss */
  mscrt_mail_close(c->mail);
  if (!mscrt_fabric_close(c->fabric)) return; /* it may still write to the memory of this transport */
  close_connections(c);
  if (c->arena_room) munmap(c->arena, c->arena_room);
  if (c->local) mscrt_comm_local.close(c->local);
  mscrt_room *const rooms[] = {&c->spans, &c->packed, &c->places, &c->cursors, &c->own_places};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) free(rooms[i]->at);
  free(c->fd);
  free(c->number);
  free(c->place);
  free(c->rank_at);
  free(c->duplex);
  free(c->polled);
  free(c->wishes);
  free(c->values);
  free(c);
}

static mscrt_status *make_arena(mscrt_tcp *c) {
  size_t bytes = c->o.arena_bytes ? (size_t)c->o.arena_bytes : 1;
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (c->o.sparse ? MAP_NORESERVE : 0), -1, 0);
  if (base == MAP_FAILED)
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for an arena of %" PRIu64 " bytes (mmap: %s)", c->o.arena_bytes,
                      strerror(errno));
  c->arena = base, c->arena_room = bytes;
  return NULL;
}

/* True if so many ranks are on some host that their arenas cannot be shared. */
static bool is_crowded(const mscrt_tcp *c) {
  for (int r = 0; r < c->o.ranks; r++) {
    int num = 0;
    for (int other = 0; other < c->o.ranks; other++) num += c->m.entry[other].host == c->m.entry[r].host;
    if (num > MSCRT_MAX_LOCAL) return true;
  }
  return false;
}

/* Makes the arena: in memory shared with the other ranks of this host, if there are any. */
static mscrt_status *share_memory(mscrt_tcp *c) {
  char address[80];
  int num = 0;
  c->o.shares = !is_crowded(c); /* all ranks find the same */
  if (!c->o.shares) return make_arena(c);
  MSCRT_CHECK(mscrt_new_array(&c->place, c->o.ranks));
  MSCRT_CHECK(mscrt_new_array(&c->rank_at, c->o.ranks));
  for (int r = 0; r < c->o.ranks; r++) {
    bool here = c->m.entry[r].host == c->m.entry[c->m.rank].host;
    c->place[r] = here ? num : -1;
    if (here) c->rank_at[num++] = r;
  }
  mscrt_comm_options o = c->o;
  o.rank = c->place[c->m.rank], o.ranks = num, o.address = address;
  snprintf(address, sizeof address, "@msc-%016" PRIx64 "-%016" PRIx64, c->m.job, c->m.entry[c->m.rank].host);
  if (num == 1) return make_arena(c);
  MSCRT_CHECK(mscrt_comm_local.open(&o, &c->local));
  c->local->o.address = NULL;
  c->arena = mscrt_comm_local.arena(c->local);
  return NULL;
}

static mscrt_status *meet_ranks(mscrt_tcp *c) {
  int listener = -1, *mail = NULL;
  mscrt_status *s = NULL;
  MSCRT_GOTO(mscrt_new_array(&mail, c->o.ranks));
  for (int r = 0; r < c->o.ranks; r++) mail[r] = -1;
  MSCRT_GOTO(mscrt_member_join(&c->o, &c->m, &listener));
  if (c->o.shares) MSCRT_GOTO(share_memory(c));
  const mscrt_fabric_calls *over = c->o.over;
  bool connects = !over || over->needs_connections;
  if (!connects) MSCRT_GOTO(mscrt_fabric_open(over, &c->m, NULL, &c->fabric));
  if (connects || c->o.has_mail) MSCRT_GOTO(mscrt_connect_ranks(&c->m, listener, connects ? c->fd : NULL, mail));
  if (over && connects) MSCRT_GOTO(mscrt_fabric_open(over, &c->m, c->fd, &c->fabric));
  if (over) close_connections(c);
  MSCRT_GOTO(mscrt_member_ready(&c->m));
  if (c->o.has_mail) MSCRT_GOTO(mscrt_mail_open(&c->m, mail, c->arena, &c->mail));
fail:
  if (listener >= 0) close(listener);
  for (int r = 0; mail && r < c->o.ranks; r++)
    if (mail[r] >= 0) close(mail[r]);
  free(mail);
  return s;
}

static mscrt_status *open_tcp(const mscrt_comm_options *o, mscrt_comm **out_comm) {
  mscrt_tcp *c = NULL;
  mscrt_status *s = NULL;
  *out_comm = NULL;
  MSCRT_CHECK(mscrt_new_array(&c, 1));
  c->o = *o;
  c->m = (mscrt_member){.link = {.fd = -1}, .wake = -1, .stop = -1, .culprit = -1};
  pthread_mutex_init(&c->m.lock, NULL);
  if (!c->o.silence_ms) c->o.silence_ms = SILENCE_MS;
  if (!c->o.meet_ms) c->o.meet_ms = c->o.timeout_ms;
  MSCRT_GOTO(mscrt_new_array(&c->fd, o->ranks));
  for (int r = 0; r < o->ranks; r++) c->fd[r] = -1;
  MSCRT_GOTO(mscrt_new_array(&c->number, o->ranks));
  MSCRT_GOTO(mscrt_new_array(&c->duplex, o->ranks));
  MSCRT_GOTO(mscrt_new_array(&c->polled, o->ranks + 1));
  MSCRT_GOTO(mscrt_new_array(&c->wishes, o->ranks));
  MSCRT_GOTO(mscrt_new_array(&c->values, o->ranks));
  if (!c->o.shares) MSCRT_GOTO(make_arena(c));
  MSCRT_GOTO(meet_ranks(c));
  *out_comm = (mscrt_comm *)(void *)c;
  return NULL;
fail:
  close_tcp((mscrt_comm *)(void *)c);
  return s;
}

static mscrt_status *open_over(const mscrt_fabric_calls *calls, const mscrt_comm_options *o, mscrt_comm **out_comm) {
  mscrt_comm_options over = *o;
  over.over = calls;
  return open_tcp(&over, out_comm);
}

static mscrt_status *open_over_mpi(const mscrt_comm_options *o, mscrt_comm **out_comm) {
  return open_over(&mscrt_over_mpi, o, out_comm);
}

static mscrt_status *open_over_ucx(const mscrt_comm_options *o, mscrt_comm **out_comm) {
  return open_over(&mscrt_over_ucx, o, out_comm);
}

static mscrt_status *open_sharing(const mscrt_comm_options *o, mscrt_comm **out_comm) {
  mscrt_comm_options sharing = *o;
  sharing.shares = true;
  return open_tcp(&sharing, out_comm);
}

#define TRANSPORT(name_, open_, replaces_)                                                                          \
  {                                                                                                                 \
    .name = name_, .sends = true, .across_hosts = true, .replaces = replaces_, .open = open_, .arena = arena_tcp,   \
    .link_bytes = count_link_bytes, .run = run_tcp, .lingers = lingers_not, .finish = finish_tcp, .send = send_tcp, \
    .receive = receive_tcp, .max = max_tcp, .lost = lost_tcp, .culprit = culprit_tcp, .abort = abort_tcp,           \
    .close = close_tcp,                                                                                             \
  }

const mscrt_transport mscrt_comm_tcp = TRANSPORT("tcp", open_tcp, true);
const mscrt_transport mscrt_comm_hosts = TRANSPORT("hosts", open_sharing, true);
const mscrt_transport mscrt_comm_mpi = TRANSPORT("mpi", open_over_mpi, false);
const mscrt_transport mscrt_comm_ucx = TRANSPORT("ucx", open_over_ucx, false);
