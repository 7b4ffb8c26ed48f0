/* boxes.c: a collective over TCP whose members send each other boxes: those that are not one run of memory are packed,
 * and what arrives is reduced, or copied to where it belongs, when all of it is there.
 *
 * Where all members take the same boxes, as in a gather, and ranks of a host share memory, a cut crosses once to each
 * host: its members receive cuts in turn, and the others copy them from the destination of the one that did.
 *
 *   four ranks, two on each host, a cut of each: rank 0 receives 2's, rank 1 that of 3, then each copies the other's */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/hosts.h"

/* True if boxes of another member are read in its arena. */
static bool shares_memory(const mscrt_collective_run *r, int rank) {
  return r->here.group.num > 1 && mscrt_is_here(r->c, rank);
}

/* True if cuts of a part come once to each host. All members find the same. */
static bool comes_once(const mscrt_collective_run *r, const mscrt_part *p) {
  const mscrt_tcp *c = r->c;
  const uint8_t *dst = p->dst;
  return r->shares && p->e->same && !p->e->asks && dst >= c->arena && dst < c->arena + c->o.arena_bytes &&
         dst != mscrt_source_in_arena(c, p);
}

/* The member of this host that receives a cut of such a part from another host. */
static int receiver_here(const mscrt_collective_run *r, int64_t cut) {
  return r->c->rank_at ? r->c->rank_at[r->here.group.member[cut % r->here.group.num]] : r->c->m.rank;
}

/* The members of a rank's host, and its number among them. */
typedef struct {
  int num, index;
} neighbours;

static neighbours find_neighbours(const mscrt_collective_run *r, int rank) {
  const mscrt_members *g = &r->e->group;
  const mscrt_entry *entry = r->c->m.entry;
  neighbours n = {0};
  for (int i = 0; i < g->num; i++) {
    if (entry[g->member[i]].host != entry[rank].host) continue;
    if (g->member[i] == rank) n.index = n.num;
    n.num++;
  }
  return n;
}

typedef struct {
  uint8_t *to;
  const uint8_t *from;
  size_t bytes; /* of an element */
} packing;

static void pack_run(void *user, int64_t at, int64_t from, int64_t num) {
  const packing *p = user;
  memcpy(p->to + (size_t)at * p->bytes, p->from + (size_t)from * p->bytes, (size_t)num * p->bytes);
}

typedef struct {
  int64_t runs, at;
} contiguity;

static void count_run(void *user, int64_t at, int64_t from, int64_t num) {
  contiguity *k = user;
  (void)from, (void)num;
  if (k->runs++ == 0) k->at = at;
}

/* True if the elements of the box are one run of its buffer; *out_at is where they begin. */
static bool is_one_run(int rank, const msc_box *box, const msc_box *buffer, int64_t *out_at) {
  contiguity k = {0};
  int d = 0;
  while (d < rank && box->size[d] == 1) d++;
  for (d++; d < rank; d++)
    if (box->size[d] != buffer->size[d]) return false;
  msc_box first = *box;
  for (d = 0; d < rank; d++) first.size[d] = 1;
  msc_box_runs(rank, &first, buffer, buffer, count_run, &k);
  *out_at = k.at;
  return k.runs == 1;
}

/* The unpacking of one part. */
typedef struct {
  const mscrt_collective_run *r;
  const mscrt_part *part;
  const uint8_t **term; /* of each cut and term: the packed elements; NULL: they are read in an arena of this host */
  uint8_t *dst;
} unpacking;

typedef struct {
  const unpacking *u;
  const mscrt_cut *cut;
  const uint8_t **term;
  int64_t done; /* elements of the cut */
} unpacked_cut;

/* True if another member of this host receives the cut. */
static bool comes_to_other(const unpacking *u, int64_t cut) {
  const mscrt_collective_run *r = u->r;
  return comes_once(r, u->part) && !u->term[cut] && !mscrt_is_here(r->c, (int)u->part->e->cut[cut].peer[0]) &&
         receiver_here(r, cut) != r->c->m.rank;
}

static void combine_run(void *user, int64_t to, int64_t from, int64_t num) {
  unpacked_cut *k = user;
  const mscrt_exchange *e = k->u->part->e;
  size_t bytes = mscrt_dtype_bytes(e->dtype);
  const void *src[e->num_terms];
  for (int t = 0; t < e->num_terms; t++)
    src[t] = k->term[t] ? k->term[t] + (size_t)k->done * bytes
                        : mscrt_arena_here(k->u->r->c, k->cut->peer[t]) + k->u->part->src + (size_t)from * bytes;
  uint8_t *dst = k->u->dst + (size_t)to * bytes;
  if (e->num_terms > 1) mscrt_combine(e->dtype, e->reduction, e->num_terms, src, dst, num);
  else if (src[0] != dst) memcpy(dst, src[0], (size_t)num * bytes);
  k->done += num;
}

static void unpack_cut(void *arg, int64_t unit, int worker) {
  const unpacking *u = arg;
  const mscrt_exchange *e = u->part->e;
  const mscrt_cut *cut = &e->cut[unit];
  (void)worker;
  unpacked_cut k = {u, cut, u->term + unit * e->num_terms, 0};
  if (!comes_to_other(u, unit)) msc_box_runs(e->rank, &cut->box, &e->to_box, &cut->from_box, combine_run, &k);
}

/* A cut that another member of this host has received is where it belongs there. */
typedef struct {
  uint8_t *dst;
  const uint8_t *from;
  size_t bytes; /* of an element */
} copying;

static void copy_run(void *user, int64_t to, int64_t from, int64_t num) {
  const copying *k = user;
  (void)from;
  memcpy(k->dst + (size_t)to * k->bytes, k->from + (size_t)to * k->bytes, (size_t)num * k->bytes);
}

static void copy_cut(void *arg, int64_t unit, int worker) {
  const unpacking *u = arg;
  const mscrt_exchange *e = u->part->e;
  const mscrt_cut *cut = &e->cut[unit];
  const mscrt_tcp *c = u->r->c;
  (void)worker;
  if (!comes_to_other(u, unit)) return;
  copying k = {u->dst, mscrt_arena_here(c, receiver_here(u->r, unit)) + (u->dst - c->arena),
               mscrt_dtype_bytes(e->dtype)};
  msc_box_runs(e->rank, &cut->box, &e->to_box, &cut->box, copy_run, &k);
}

/* False if the part's destination is its source, which holds the values already; others may still read it. */
static bool receives_values(const mscrt_tcp *c, const mscrt_part *p) {
  return p->e->slices || p->dst != (void *)mscrt_source_in_arena(c, p);
}

static uint64_t bytes_of_cut(const mscrt_exchange *e, const mscrt_cut *cut) {
  return (uint64_t)msc_box_elems(e->rank, &cut->box) * mscrt_dtype_bytes(e->dtype);
}

/* Counts the spans and bytes that packing needs. */
static void count_sends(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part, size_t *spans,
                        size_t *bytes) {
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    bool once = comes_once(r, &part[i]);
    size_t others = (size_t)(e->group.num - 1);
    for (int64_t k = 0; once && k < e->num_cuts; k++) {
      if (e->cut[k].peer[0] != r->c->m.rank) continue;
      *spans += others;
      *bytes += others * bytes_of_cut(e, &e->cut[k]);
    }
    for (int64_t g = 0; !once && g < e->num_gives; g++) {
      ++*spans;
      *bytes += (size_t)msc_box_elems(e->rank, &e->give[g].box) * mscrt_dtype_bytes(e->dtype);
    }
  }
}

static void count_receives(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part, size_t *spans,
                           size_t *bytes, size_t *terms) {
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    bool once = comes_once(r, &part[i]);
    for (int64_t k = 0; k < e->num_cuts && receives_values(r->c, &part[i]); k++) {
      *terms += (size_t)e->num_terms;
      if (once && receiver_here(r, k) != r->c->m.rank) continue;
      *spans += (size_t)e->num_terms;
      *bytes += (size_t)e->num_terms * bytes_of_cut(e, &e->cut[k]);
    }
  }
}

/* Adds a box of a source, packed unless it is one run. */
static void add_send(const mscrt_tcp *c, const mscrt_part *p, const msc_box *box, mscrt_duplex *duplex,
                     uint8_t **free_room) {
  const mscrt_exchange *e = p->e;
  size_t elem = mscrt_dtype_bytes(e->dtype);
  uint64_t bytes = (uint64_t)msc_box_elems(e->rank, box) * elem;
  int64_t at;
  if (!bytes) return;
  if (is_one_run(e->rank, box, &e->own_box, &at)) {
    mscrt_add_out(duplex, mscrt_source_in_arena(c, p) + (size_t)at * elem, bytes);
    return;
  }
  packing k = {*free_room, mscrt_source_in_arena(c, p), elem};
  msc_box_runs(e->rank, box, box, &e->own_box, pack_run, &k);
  mscrt_add_out(duplex, *free_room, bytes);
  *free_room += bytes;
}

/* Adds the boxes that this rank sends to the duplex's rank. */
static void add_sends(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part, mscrt_duplex *duplex,
                      uint8_t **free_room) {
  neighbours there = find_neighbours(r, duplex->rank);
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    bool once = comes_once(r, &part[i]);
    for (int64_t k = there.index; once && k < e->num_cuts; k += there.num)
      if (e->cut[k].peer[0] == r->c->m.rank) add_send(r->c, &part[i], &e->cut[k].box, duplex, free_room);
    for (int64_t g = 0; !once && g < e->num_gives; g++)
      if (e->give[g].to == duplex->rank) add_send(r->c, &part[i], &e->give[g].box, duplex, free_room);
  }
}

/* Adds what comes from a rank, in the order of cuts: received packed, or in place if it is one run that is not
 * reduced. */
static void add_receives(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part, mscrt_duplex *duplex,
                         uint8_t **free_room, const uint8_t **term) {
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    size_t elem = mscrt_dtype_bytes(e->dtype);
    bool once = comes_once(r, &part[i]);
    for (int64_t k = 0; k < e->num_cuts && receives_values(r->c, &part[i]); k++)
      for (int t = 0; t < e->num_terms; t++, term++) {
        uint64_t bytes = bytes_of_cut(e, &e->cut[k]);
        int64_t at;
        if (e->cut[k].peer[t] != duplex->rank || !bytes || (once && receiver_here(r, k) != r->c->m.rank)) continue;
        uint8_t *to = *free_room;
        if (e->num_terms == 1 && is_one_run(e->rank, &e->cut[k].box, &e->to_box, &at))
          to = (uint8_t *)part[i].dst + (size_t)at * elem;
        else *free_room += bytes;
        *term = to;
        mscrt_add_in(duplex, to, bytes);
      }
  }
}

/* Tells every member whether this rank wants its part, and sets c->wishes[rank] to whether that member does. */
static mscrt_status *exchange_wishes(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part) {
  mscrt_tcp *c = r->c;
  const mscrt_members *g = &r->e->group;
  mscrt_duplexes duplexes = {.duplex = c->duplex};
  mscrt_collective_run asking = *r;
  asking.kind = MSCRT_OF_WISHES;
  uint8_t *own = &c->wishes[c->m.rank];
  *own = 0;
  for (uint32_t i = 0; i < num; i++) *own |= part[i].e->num_cuts > 0;
  MSCRT_CHECK(mscrt_reserve(&c->spans, 2 * (size_t)g->num * sizeof(mscrt_span)));
  for (int i = 0; i < g->num; i++) {
    if (i == g->index || shares_memory(r, g->member[i])) continue;
    mscrt_span *span = (mscrt_span *)c->spans.at + 2 * duplexes.num;
    mscrt_duplex *duplex = mscrt_add_duplex(&asking, &duplexes, g->member[i], span, span + 1);
    mscrt_add_out(duplex, own, 1);
    mscrt_add_in(duplex, &c->wishes[g->member[i]], 1);
    duplex->ready = 1;
    mscrt_set_head(&asking, duplex);
  }
  return mscrt_move_duplexes(&asking, &duplexes);
}

static void fill_identities(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part) {
  for (uint32_t i = 0; i < num; i++)
    if (part[i].e->fill && receives_values(r->c, &part[i]))
      mscrt_fill_identity(r->e->dtype, r->e->reduction, part[i].dst, part[i].e->elems);
}

/* Runs `work` for all cuts. */
static void unpack_all(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num, const mscrt_part *part,
                       const uint8_t **term, mscrt_work *work) {
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    if (!receives_values(r->c, &part[i])) continue;
    unpacking u = {r, &part[i], term, part[i].dst};
    mscrt_pool_run(pool, work, &u, e->num_cuts);
    term += e->num_cuts * e->num_terms;
  }
}

/* True if members of this host receive what others of it take, too. */
static bool others_receive(const mscrt_collective_run *r, uint32_t num, const mscrt_part *part) {
  bool once = false;
  for (uint32_t i = 0; i < num; i++) once = once || comes_once(r, &part[i]);
  return once && r->here.group.num > 1 && r->here.group.num < r->e->group.num;
}

mscrt_status *mscrt_run_alone(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num, const mscrt_part *part) {
  size_t spans = 0, bytes = 0, terms = 0;
  count_receives(r, num, part, &spans, &bytes, &terms);
  MSCRT_CHECK(mscrt_reserve(&r->c->own_places, (terms + 1) * sizeof(const uint8_t *)));
  const uint8_t **term = r->c->own_places.at;
  memset(term, 0, (terms + 1) * sizeof *term);
  fill_identities(r, num, part);
  unpack_all(r, pool, num, part, term, unpack_cut);
  return NULL;
}

mscrt_status *mscrt_run_boxes(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num, const mscrt_part *part) {
  mscrt_tcp *c = r->c;
  const mscrt_members *g = &r->e->group;
  size_t out_spans = 0, in_spans = 0, out_bytes = 0, in_bytes = 0, terms = 0;
  mscrt_duplexes duplexes = {.duplex = c->duplex};
  if (r->e->asks) MSCRT_CHECK(exchange_wishes(r, num, part));
  count_sends(r, num, part, &out_spans, &out_bytes);
  count_receives(r, num, part, &in_spans, &in_bytes, &terms);
  MSCRT_CHECK(mscrt_reserve(&c->spans, (out_spans + in_spans + 1) * sizeof(mscrt_span)));
  MSCRT_CHECK(mscrt_reserve(&c->packed, out_bytes + in_bytes + 1));
  MSCRT_CHECK(mscrt_reserve(&c->places, (terms + 1) * sizeof(const uint8_t *)));
  mscrt_span *span = c->spans.at;
  uint8_t *at = c->packed.at;
  const uint8_t **term = c->places.at;
  memset(term, 0, (terms + 1) * sizeof *term);
  for (int i = 0; i < g->num; i++) {
    int rank = g->member[i];
    if (i == g->index || shares_memory(r, rank)) continue;
    mscrt_duplex *duplex = mscrt_add_duplex(r, &duplexes, rank, span, NULL);
    if (!r->e->asks || c->wishes[rank]) add_sends(r, num, part, duplex, &at);
    span += duplex->num_out;
    duplex->in = span;
    add_receives(r, num, part, duplex, &at, term);
    span += duplex->num_in;
    duplex->ready = duplex->out_bytes;
    mscrt_set_head(r, duplex);
    /* ranks that exchange no data do not wait for each other */
    if (!duplex->out_bytes && !duplex->in_bytes) duplexes.num--, c->number[rank]--;
  }
  fill_identities(r, num, part); /* before anything comes: some of it comes where it belongs */
  if (c->o.shares) mscrt_send_heads(&duplexes);
  MSCRT_CHECK(mscrt_meet_here(r)); /* the sources of the others of this host are complete */
  MSCRT_CHECK(mscrt_move_duplexes(r, &duplexes));
  unpack_all(r, pool, num, part, term, unpack_cut);
  if (others_receive(r, num, part)) {
    MSCRT_CHECK(mscrt_meet_here(r));
    unpack_all(r, pool, num, part, term, copy_cut);
  }
  return mscrt_meet_here(r); /* all have read this rank's source */
}
