/* shared_memory.c: the transport between ranks that are processes (or threads) of one host. The memory of every rank is
 * one anonymous file that all ranks map:
 *
 *   control | staging | arena
 *
 * control: the step of the rank, why it stopped, and the barriers of the groups that it leads. A rank reads the values
 * that it needs in the buffers of its peers; nothing is sent. A collective has one of three forms:
 *   staged   small: the source is copied to staging, barrier, peers read it there. Nothing lingers: a staging slot is
 *            written again two rounds later, after a barrier that every rank reached after reading the first round.
 *   direct   barrier, peers read the source in place; it must stay until all have arrived at the second barrier.
 *   slices   an all_reduce: barrier, each member reduces its slice of the elements and writes it to the destinations of
 *            all, barrier. Nothing lingers.
 * Several values go together: one set of barriers, one staging slot; slices are of all their elements, one value after
 * the other. The order of operands is the order of ranks in all three forms, so they give the same bits. Waiting is in
 * shared_memory_wait.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "runtime/comm/shared_memory.h"
#include "runtime/comm/slices.h"

#define STAGE_BYTES ((uint64_t)32 << 10) /* bytes of a staging slot; each group has two */
#define STAGE_READ ((uint64_t)128 << 10) /* the most that a member reads for a staged collective */
#define PAGE ((uint64_t)4096)

typedef enum { ALONE, STAGED, DIRECT, SLICES } form;

static uint64_t staged_bytes(const mscrt_exchange *e) { return (e->src_bytes + 63) / 64 * 64; }

static form choose_form(uint32_t num, const mscrt_part *part) {
  uint64_t bytes = 0, members = (uint64_t)part[0].e->group.num;
  bool slices = true;
  if (members == 1) return ALONE;
  for (uint32_t i = 0; i < num; i++) {
    bytes += staged_bytes(part[i].e);
    slices = slices && part[i].e->slices;
  }
  if (bytes <= STAGE_BYTES && bytes * members <= STAGE_READ) return STAGED;
  return slices ? SLICES : DIRECT;
}

/* ---- memory ---- */

static uint64_t round_to_pages(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static void set_segment_layout(struct mscrt_comm *c) {
  c->stage_at = round_to_pages(sizeof(control) + 2 * sizeof(barrier) * c->o.num_partitions);
  c->arena_at = c->stage_at + (c->o.ranks > 1 ? 2 * STAGE_BYTES * c->o.num_partitions : 0);
  c->segment_bytes = c->arena_at + round_to_pages(c->o.arena_bytes);
}

static mscrt_status *report_no_arena(const struct mscrt_comm *c, const char *what) {
  return mscrt_fail(MSCRT_NO_MEMORY, "no memory for an arena of %" PRIu64 " bytes (%s: %s)", c->o.arena_bytes, what,
                    strerror(errno));
}

/* Makes the file of this rank. All pages are reserved and the size is sealed: touching a shared file that shrank, or
 * for which there is no page, would kill the process. */
static mscrt_status *make_file(const struct mscrt_comm *c, int *out_fd) {
  int fd = memfd_create("msc-rank", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  *out_fd = fd;
  if (fd < 0) return report_no_arena(c, "memfd_create");
  if (ftruncate(fd, (off_t)c->segment_bytes) != 0) return report_no_arena(c, "ftruncate");
  int error = 0;
  do error = c->o.sparse ? 0 : posix_fallocate(fd, 0, (off_t)c->segment_bytes);
  while (error == EINTR);
  if (error) {
    errno = error;
    return report_no_arena(c, "fallocate");
  }
  return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 ? NULL : report_no_arena(c, "seal");
}

/* Makes a file descriptor that becomes readable when this process ends. Kernels before 5.3 have no pidfd: there it
 * is the end of a pipe, which also stays open in children of the process. */
static mscrt_status *make_liveness_file(struct mscrt_comm *c, int *out_fd) {
  int pipes[2];
  *out_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (*out_fd >= 0) return NULL;
  if (pipe2(pipes, O_CLOEXEC) != 0) return mscrt_fail(MSCRT_ENVIRONMENT, "no pipe: %s", strerror(errno));
  *out_fd = pipes[0];
  c->own_alive_fd = pipes[1];
  return NULL;
}

static mscrt_status *map_segment(struct mscrt_comm *c, int rank, int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || (uint64_t)st.st_size != c->segment_bytes || (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return mscrt_fail(MSCRT_PEER, "the memory of rank %d is not what was agreed", rank);
  void *base = mmap(NULL, (size_t)c->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return report_no_arena(c, "mmap");
  c->segment[rank].base = base;
  c->segment[rank].control = base;
  return NULL;
}

static mscrt_status *map_private(struct mscrt_comm *c) {
  void *base = mmap(NULL, (size_t)c->segment_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (c->o.sparse ? MAP_NORESERVE : 0), -1, 0);
  if (base == MAP_FAILED) return report_no_arena(c, "mmap");
  if (!c->o.sparse) madvise(base, (size_t)c->segment_bytes, MADV_HUGEPAGE); /* rows of tables are read at random */
  c->segment[0].base = base;
  c->segment[0].control = base;
  return NULL;
}

static control *own_control(const struct mscrt_comm *c) { return c->segment[c->o.rank].control; }
static uint8_t *arena_of_rank(const struct mscrt_comm *c, int64_t rank) { return c->segment[rank].base + c->arena_at; }

static uint8_t *staging_slot(const struct mscrt_comm *c, int64_t rank, uint32_t partition, uint32_t parity) {
  return c->segment[rank].base + c->stage_at + (2 * (uint64_t)partition + parity) * STAGE_BYTES;
}

/* ---- waiting ---- */

/* What a rank waits for: the members of a group that have not arrived in round `generation`. */
typedef struct {
  const mscrt_exchange *e;
  const mscrt_site *site;
  uint32_t generation;
  bool soft;
} meeting;

static bool has_arrived(const struct mscrt_comm *c, const meeting *m, int rank) {
  return (int32_t)(atomic_load(&c->segment[rank].control->barrier[m->e->group.partition][m->soft].own.count) -
                   m->generation) >= 0;
}

static void name_missing_members(const struct mscrt_comm *c, const meeting *m, mscrt_loss *loss) {
  size_t n = 0, room = sizeof loss->why;
  loss->culprit = c->o.rank;
  for (int i = 0; i < m->e->group.num && n + 80 < room; i++) {
    int member = m->e->group.member[i];
    const control *k = c->segment[member].control;
    if (has_arrived(c, m, member)) continue;
    if (n == 0) loss->culprit = member;
    n += (size_t)snprintf(loss->why + n, room - n, "%srank %d is missing (at step %" PRId64 ")", n ? ", " : "", member,
                          mscrt_step_number(atomic_load(&k->step)));
  }
  if (n == 0) n = (size_t)snprintf(loss->why, room, "all have arrived, but the last wake was lost");
  snprintf(loss->why + n, room - n, ", waited %d ms", c->o.timeout_ms);
}

static mscrt_status *find_lost_member(const struct mscrt_comm *c, const void *of, bool late, mscrt_loss *loss) {
  const meeting *m = of;
  for (int i = 0; i < m->e->group.num; i++) {
    int member = m->e->group.member[i];
    if (has_arrived(c, m, member) && member != c->o.rank) continue;
    /* this rank itself is only lost if another of its threads gave up */
    if (member == c->o.rank && atomic_load(&own_control(c)->state) == RUNNING) continue;
    if (mscrt_local_is_lost(c, member, loss)) return mscrt_lost_in_collective(c->o.rank, m->e, m->site, loss->why);
  }
  if (!mscrt_local_any_lost(c, loss)) {
    if (!late) return NULL;
    name_missing_members(c, m, loss);
  }
  return mscrt_lost_in_collective(c->o.rank, m->e, m->site, loss->why);
}

/* The barrier of a partition in the memory of a rank. soft: members only arrive, none waits. */
static barrier *barrier_at(const struct mscrt_comm *c, const mscrt_exchange *e, int rank, bool soft) {
  return &c->segment[rank].control->barrier[e->group.partition][soft];
}

/* Returns the counter to wait for at a barrier: of two members, the other one's count of arrivals; of more, the count
 * of finished barriers in the memory of the first member, which the last to arrive raises. */
static mscrt_counter *counter_of(const struct mscrt_comm *c, const mscrt_exchange *e, bool soft) {
  const mscrt_members *g = &e->group;
  if (g->num == 2) return &barrier_at(c, e, g->member[1 - g->index], soft)->own;
  return &barrier_at(c, e, g->member[0], soft)->generation;
}

static mscrt_status *wait_for_barrier(struct mscrt_comm *c, const meeting *m) {
  return mscrt_local_wait(c, counter_of(c, m->e, m->soft), m->generation, find_lost_member, m);
}

/* Arrives at a barrier; the last member to arrive releases all others. */
static void arrive_at_barrier(const struct mscrt_comm *c, const mscrt_exchange *e, bool soft) {
  mscrt_local_count(&barrier_at(c, e, c->o.rank, soft)->own);
  if (e->group.num == 2) return;
  barrier *b = barrier_at(c, e, e->group.member[0], soft);
  if (atomic_fetch_add(&b->arrived, 1) + 1 != (uint32_t)e->group.num) return;
  atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
  mscrt_local_count(&b->generation);
}

static mscrt_status *pass_barrier(struct mscrt_comm *c, const mscrt_exchange *e, const mscrt_site *site) {
  uint32_t generation = ++c->point[e->group.partition].hard_generation;
  arrive_at_barrier(c, e, false);
  return wait_for_barrier(c, &(meeting){e, site, generation, false});
}

uint8_t *mscrt_local_arena(const struct mscrt_comm *c, int rank) { return arena_of_rank(c, rank); }

void mscrt_local_note_step(struct mscrt_comm *c, int64_t step) {
  atomic_store_explicit(&own_control(c)->step, step, memory_order_relaxed);
}

int64_t mscrt_local_step(const struct mscrt_comm *c, int rank) { return atomic_load(&c->segment[rank].control->step); }

void mscrt_local_set_elsewhere(struct mscrt_comm *c, bool is_elsewhere) {
  atomic_store_explicit(&own_control(c)->elsewhere, is_elsewhere, memory_order_relaxed);
}

bool mscrt_local_is_elsewhere(const struct mscrt_comm *c, int rank) {
  return atomic_load(&c->segment[rank].control->elsewhere);
}

mscrt_status *mscrt_local_meet(struct mscrt_comm *c, const mscrt_exchange *e, mscrt_look *look, const void *of) {
  uint32_t generation = ++c->point[e->group.partition].hard_generation;
  arrive_at_barrier(c, e, false);
  return mscrt_local_wait(c, counter_of(c, e, false), generation, look, of);
}

bool mscrt_local_has_arrived(const struct mscrt_comm *c, const mscrt_exchange *e, int rank) {
  return has_arrived(c, &(meeting){.e = e, .generation = c->point[e->group.partition].hard_generation}, rank);
}

/* ---- moving ---- */

typedef struct {
  const struct mscrt_comm *c;
  const mscrt_exchange *e;
  uint64_t src;          /* offset in the segments of the peers */
  uint8_t *dst;
  bool past_caches;
} job;

typedef struct {
  const job *j;
  const mscrt_cut *cut;
} cut_run;

static const uint8_t *peer_source(const job *j, int64_t peer) { return j->c->segment[peer].base + j->src; }

static void combine_run(void *user, int64_t to, int64_t from, int64_t num) {
  const cut_run *r = user;
  const mscrt_exchange *e = r->j->e;
  size_t bytes = mscrt_dtype_bytes(e->dtype);
  const void *src[MSCRT_MAX_LOCAL];
  uint8_t *dst = r->j->dst + (size_t)to * bytes;
  if (e->num_terms == 1) {
    const uint8_t *from_peer = peer_source(r->j, r->cut->peer[0]) + (size_t)from * bytes;
    if (r->j->past_caches) mscrt_copy_past_caches(dst, from_peer, (size_t)num * bytes);
    else memcpy(dst, from_peer, (size_t)num * bytes);
    return;
  }
  for (int t = 0; t < e->num_terms; t++) src[t] = peer_source(r->j, r->cut->peer[t]) + (size_t)from * bytes;
  mscrt_combine_for_all(e->dtype, e->reduction, e->num_terms, src, 1, (void *[]){dst}, num, r->j->past_caches);
}

static void work_on_cut(void *arg, int64_t unit, int worker) {
  const job *j = arg;
  const mscrt_cut *cut = &j->e->cut[unit];
  (void)worker;
  msc_box_runs(j->e->rank, &cut->box, &j->e->to_box, &cut->from_box, combine_run, &(cut_run){j, cut});
}

/* True if the bytes that all members of a collective read and write do not fit into their common cache. */
static bool exceeds_cache(const struct mscrt_comm *c, uint32_t num, const mscrt_part *part) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < num; i++) bytes += part[i].e->src_bytes + part[i].e->dst_bytes;
  return bytes * (uint64_t)part[0].e->group.num > c->cache_bytes / 4 * 3;
}

static void copy_boxes(const struct mscrt_comm *c, mscrt_pool *pool, const mscrt_exchange *e, uint64_t src, void *dst,
                       bool past_caches) {
  job j = {.c = c, .e = e, .src = src, .dst = dst, .past_caches = past_caches};
  if (e->fill) mscrt_fill_identity(e->dtype, e->reduction, dst, e->elems);
  mscrt_pool_run(pool, work_on_cut, &j, e->num_cuts);
}

/* ---- slices ---- */

typedef struct {
  const struct mscrt_comm *c;
  mscrt_slices s;
  bool past_caches;
} slicing;

/* Reduces elements of one part, for all members. */
static void reduce_for_all(const slicing *k, const mscrt_part *p, int64_t begin, int64_t num) {
  const mscrt_exchange *e = p->e;
  size_t at = (size_t)begin * mscrt_dtype_bytes(e->dtype);
  const void *src[MSCRT_MAX_LOCAL];
  void *dst[MSCRT_MAX_LOCAL];
  const uint8_t *own = k->c->segment[k->c->o.rank].base;
  size_t to = (size_t)((uint8_t *)p->dst - own) + at; /* the offset of the destination is the same on all ranks */
  for (int t = 0; t < e->num_terms; t++) {
    uint8_t *base = k->c->segment[e->peers[t]].base;
    src[t] = base + k->c->arena_at + p->src + at;
    dst[t] = base + to;
  }
  mscrt_combine_for_all(e->dtype, e->reduction, e->num_terms, src, e->num_terms, dst, num, k->past_caches);
}

static void reduce_slice(void *arg, int64_t unit, int worker) {
  const slicing *k = arg;
  const mscrt_slices *s = &k->s;
  int64_t member = s->part[0].e->group.index, begin = mscrt_slice_begin(s, member) + unit * MSCRT_REDUCE_ELEMS,
          end = mscrt_slice_begin(s, member + 1);
  (void)worker;
  if (end - begin > MSCRT_REDUCE_ELEMS) end = begin + MSCRT_REDUCE_ELEMS;
  while (begin < end) {
    const mscrt_part *p = mscrt_part_with(s, begin);
    int64_t num = mscrt_elements_in(p, begin, end);
    if (p->e->num_cuts) reduce_for_all(k, p, begin - p->at, num); /* else the part has no elements, only padding */
    begin += num;
  }
}

static mscrt_status *run_slices(struct mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part,
                                const mscrt_site *site) {
  const mscrt_exchange *e = part[0].e;
  slicing s = {c, mscrt_slices_of(num, part), exceeds_cache(c, num, part)};
  int64_t own = mscrt_slice_begin(&s.s, e->group.index + 1) - mscrt_slice_begin(&s.s, e->group.index);
  MSCRT_CHECK(pass_barrier(c, e, site));
  mscrt_pool_run(pool, reduce_slice, &s, (own + MSCRT_REDUCE_ELEMS - 1) / MSCRT_REDUCE_ELEMS);
  return pass_barrier(c, e, site);
}

/* ---- the table ---- */

static mscrt_ticket leave_collective(struct mscrt_comm *c, const mscrt_exchange *e) {
  uint32_t generation = ++c->point[e->group.partition].soft_generation;
  arrive_at_barrier(c, e, true);
  return (mscrt_ticket){generation};
}

/* Copies the sources into the staging slot of this rank, one behind the other, waits for the group, and reads the
 * slots of the peers, which have the same layout. */
static mscrt_status *run_staged(struct mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part,
                                const mscrt_site *site) {
  const mscrt_exchange *e = part[0].e;
  uint32_t parity = c->point[e->group.partition].parity ^= 1;
  uint8_t *stage = staging_slot(c, c->o.rank, e->group.partition, parity), *at = stage;
  for (uint32_t i = 0; i < num; at += staged_bytes(part[i++].e))
    memcpy(at, arena_of_rank(c, c->o.rank) + part[i].src, (size_t)part[i].e->src_bytes);
  MSCRT_CHECK(pass_barrier(c, e, site));
  uint64_t src = (uint64_t)(stage - c->segment[c->o.rank].base);
  for (uint32_t i = 0; i < num; src += staged_bytes(part[i++].e))
    copy_boxes(c, pool, part[i].e, src, part[i].dst, false);
  return NULL;
}

static void copy_all_parts(struct mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part) {
  bool past_caches = exceeds_cache(c, num, part);
  for (uint32_t i = 0; i < num; i++)
    if (part[i].dst != arena_of_rank(c, c->o.rank) + part[i].src)
      copy_boxes(c, pool, part[i].e, c->arena_at + part[i].src, part[i].dst, past_caches);
}

static mscrt_status *run_local(struct mscrt_comm *c, mscrt_pool *pool, uint32_t num, const mscrt_part *part,
                               const mscrt_site *site, mscrt_ticket *out_ticket) {
  const mscrt_exchange *e = part[0].e;
  mscrt_local_note_step(c, site->step);
  switch (choose_form(num, part)) {
    case ALONE: copy_all_parts(c, pool, num, part); return NULL;
    case STAGED: return run_staged(c, pool, num, part, site);
    case SLICES: return run_slices(c, pool, num, part, site);
    case DIRECT:
      MSCRT_CHECK(pass_barrier(c, e, site));
      copy_all_parts(c, pool, num, part);
      break;
  }
  *out_ticket = leave_collective(c, e);
  return NULL;
}

static mscrt_lingering lingers_local(uint32_t num, const mscrt_part *part) {
  return choose_form(num, part) == DIRECT ? MSCRT_LINGERS_SOURCE : MSCRT_LINGERS_NOT;
}

static mscrt_status *finish_local(struct mscrt_comm *c, const mscrt_exchange *e, mscrt_ticket ticket,
                                  const mscrt_site *site) {
  return wait_for_barrier(c, &(meeting){e, site, ticket.generation, true});
}

static mscrt_status *lost_local(struct mscrt_comm *c, const char *waited_for) {
  mscrt_loss loss;
  return mscrt_local_any_lost(c, &loss) ? mscrt_fail(MSCRT_PEER, "%s: %s", waited_for, loss.why) : NULL;
}

static int culprit_local(struct mscrt_comm *c) {
  return atomic_load(&own_control(c)->state) == FAILED ? own_control(c)->culprit : -1;
}

static void abort_local(struct mscrt_comm *c, const char *reason) { mscrt_local_give_up(c, c->o.rank, reason); }

/* Waits until all ranks have arrived. */
static mscrt_status *wait_for_all_ranks(struct mscrt_comm *c, const mscrt_site *site) {
  if (c->o.ranks == 1) return NULL;
  int32_t *all;
  mscrt_exchange e = {.verb = MSC_ALL_REDUCE, .group = {.num = c->o.ranks, .index = c->o.rank}};
  MSCRT_CHECK(mscrt_new_array(&all, c->o.ranks));
  for (int r = 0; r < c->o.ranks; r++) all[r] = r;
  e.group.member = all;
  mscrt_status *s = pass_barrier(c, &e, site);
  free(all);
  return s;
}

static mscrt_status *max_local(struct mscrt_comm *c, uint64_t value, uint64_t *out_max, const mscrt_site *site) {
  atomic_store(&own_control(c)->value, value);
  MSCRT_CHECK(wait_for_all_ranks(c, site));
  *out_max = 0;
  for (int r = 0; r < c->o.ranks; r++) {
    uint64_t v = atomic_load(&c->segment[r].control->value);
    if (v > *out_max) *out_max = v;
  }
  return wait_for_all_ranks(c, site);
}

static void close_local(struct mscrt_comm *c) {
  if (!c) return;
  if (c->segment) {
    control *own = own_control(c);
    if (own && atomic_load(&own->state) == RUNNING) {
      atomic_store(&own->state, CLOSED);
      mscrt_local_wake_all(c);
    }
    for (int r = 0; r < c->o.ranks; r++) {
      if (c->segment[r].base) munmap(c->segment[r].base, (size_t)c->segment_bytes);
      if (c->segment[r].alive_fd >= 0) close(c->segment[r].alive_fd);
    }
  }
  if (c->own_alive_fd >= 0) close(c->own_alive_fd);
  free(c->segment);
  free(c->point);
  free(c);
}

static void *arena_local(struct mscrt_comm *c) { return arena_of_rank(c, c->o.rank); }

static uint64_t count_link_bytes(const struct mscrt_comm *c) { return c->arena_at; }

static mscrt_status *connect_to_ranks(struct mscrt_comm *c) {
  int own[2] = {-1, -1}, *fds = NULL;
  mscrt_status *s = NULL;
  MSCRT_GOTO(mscrt_new_array(&fds, 2 * c->o.ranks));
  MSCRT_GOTO(make_file(c, &own[0]));
  MSCRT_GOTO(make_liveness_file(c, &own[1]));
  MSCRT_GOTO(map_segment(c, c->o.rank, own[0]));
  s = mscrt_rendezvous(&c->o, c->segment_bytes, own, fds);
  for (int r = 0; r < c->o.ranks; r++) {
    if (!s && r != c->o.rank) s = map_segment(c, r, fds[2 * r]);
    if (r == c->o.rank) continue;
    if (fds[2 * r] >= 0) close(fds[2 * r]);
    c->segment[r].alive_fd = fds[2 * r + 1];
  }
fail:
  if (own[0] >= 0) close(own[0]);
  if (own[1] >= 0) close(own[1]);
  free(fds);
  return s;
}

static mscrt_status *open_local(const mscrt_comm_options *o, struct mscrt_comm **out_comm) {
  struct mscrt_comm *c = NULL;
  mscrt_status *s = NULL;
  if (o->ranks > MSCRT_MAX_LOCAL)
    return mscrt_fail(MSCRT_UNSUPPORTED, "%d ranks on one host: at most %d are supported", o->ranks, MSCRT_MAX_LOCAL);
  MSCRT_CHECK(mscrt_new_array(&c, 1));
  c->o = *o;
  if (!c->o.meet_ms) c->o.meet_ms = c->o.timeout_ms;
  c->own_alive_fd = -1;
  c->cache_bytes = mscrt_cache_bytes();
  set_segment_layout(c);
  MSCRT_GOTO(mscrt_new_array(&c->segment, o->ranks));
  for (int r = 0; r < o->ranks; r++) c->segment[r].alive_fd = -1;
  MSCRT_GOTO(mscrt_new_array(&c->point, o->num_partitions));
  MSCRT_GOTO(o->ranks > 1 ? connect_to_ranks(c) : map_private(c));
  *out_comm = c;
  return NULL;
fail:
  close_local(c);
  *out_comm = NULL;
  return s;
}

const mscrt_transport mscrt_comm_local = {
    .name = "local",
    .replaces = true,
    .open = open_local,
    .arena = arena_local,
    .link_bytes = count_link_bytes,
    .run = run_local,
    .lingers = lingers_local,
    .finish = finish_local,
    .send = mscrt_local_send,
    .receive = mscrt_local_receive,
    .max = max_local,
    .lost = lost_local,
    .culprit = culprit_local,
    .abort = abort_local,
    .close = close_local,
};
