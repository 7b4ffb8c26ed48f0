/* host_slices.c: an all_reduce, or a sum left in parts, between ranks of which some share memory. Every member owns a
 * slice of the elements, of a sum left in parts those that it takes. On each other host one member is its partner: it
 * adds up, for that slice, what the members of its host have, as far as the tree of the sum has nodes of this host
 * alone, and sends these parts to the owner; in an all_reduce it then gets the sum, and writes it to all members of its
 * host. So a slice crosses once in each direction between two hosts, however many ranks they have, and the order of the
 * sum, hence its bits, is that of one host.
 *
 *   four ranks, two on each host: ((0+1)+(2+3)); of slice 0 rank 2 sends 2+3 to rank 0 and gets the sum
 *
 * A slice is cut into pieces of MSCRT_REDUCE_ELEMS elements. In a message the pieces follow each other, and in each
 * piece the parts, one for each node of the host. Half floats are added in f32, so their parts are f32. */
#include <string.h>

#include "runtime/comm/hosts.h"

#define BLOCK 1024 /* elements of a block of a tree whose nodes are on several hosts */
#define LEVELS 12

/* A node of the tree: terms [first, first + num). All of them are on one host, while its parent has terms of several
 * hosts. */
typedef struct {
  int first, num, host;
  int index; /* among those of the host */
} node;

/* Elements of a slice that follow each other in the source and in the destination of a part: elements [at, at + num) of
 * the slice. */
typedef struct {
  const mscrt_part *part;
  int64_t at, num, from, to; /* from, to: the first one's number in the source, and in the destination */
} stretch;

typedef struct {
  const mscrt_collective_run *r;
  mscrt_pool *pool;
  bool scatters;                  /* the owner keeps the sum, instead of sending it to all */
  stretch *stretch;               /* of member i: from number first_stretch[i] on */
  int64_t *first_stretch, *elems; /* elems: of each member's slice */
  mscrt_duplexes duplexes;
  const mscrt_part *model;    /* a part that is not empty: the terms of all parts have its order */
  mscrt_dtype inside;         /* the type in which elements are added */
  size_t bytes, inside_bytes; /* of an element, and of an element of type `inside` */
  int *host, *place;          /* of each member: its host, and its number among the members there */
  int *members, *parts;       /* of each host: number of members, and of nodes */
  int num_nodes;
  node *node;
  int *node_at;               /* of each term: the node that begins there */
  int64_t reduced;            /* elements of this rank's slice */
  /* By member. came: the parts that the member sends for this rank's slice; goes: the parts of this host for the
   * member's slice; NULL: none. duplex_of: the number of the member's duplex. spread: how many elements of the sum of
   * the member's slice have been written to the other ranks of this host */
  uint8_t **came, **goes;
  int *duplex_of;
  int64_t *spread;
  size_t parts_of_sum; /* the number of parts */
} host_slicing;

/* ---- the tree ---- */

static int host_of_term(const host_slicing *k, int term) {
  int rank = (int)k->model->e->peers[term];
  const mscrt_members *g = &k->r->e->group;
  int low = 0, high = g->num - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (g->member[middle] < rank) low = middle + 1;
    else high = middle;
  }
  return k->host[low];
}

/* The number of terms of the left child of a node with `num` terms: the largest power of two below num. */
static int terms_of_left_child(int num) {
  int left = 1;
  while (2 * left < num) left *= 2;
  return left;
}

static bool is_of_one_host(const host_slicing *k, int first, int num) {
  for (int t = 1; t < num; t++)
    if (host_of_term(k, first + t) != host_of_term(k, first)) return false;
  return true;
}

static void find_nodes(host_slicing *k, int first, int num) {
  if (!is_of_one_host(k, first, num)) {
    find_nodes(k, first, terms_of_left_child(num));
    find_nodes(k, first + terms_of_left_child(num), num - terms_of_left_child(num));
    return;
  }
  int host = host_of_term(k, first);
  k->node_at[first] = k->num_nodes;
  k->node[k->num_nodes++] = (node){first, num, host, k->parts[host]++};
}

/* Sets src to the addresses of element `at` of a part's source in terms that lie on this host. */
static void find_sources(const host_slicing *k, const mscrt_part *p, int first, int num, int64_t at, const void **src) {
  for (int t = 0; t < num; t++)
    src[t] = mscrt_arena_here(k->r->c, p->e->peers[first + t]) + p->src + (size_t)at * k->bytes;
}

/* n elements of a stretch of this rank's slice, from element `at` of the slice on. */
typedef struct {
  const host_slicing *k;
  const stretch *t;
  int64_t at, n;
} block;

/* The bytes that a host sends for the slice of a member elsewhere. */
static uint64_t bytes_of_parts(const host_slicing *k, int owner, int host) {
  return (uint64_t)k->elems[owner] * (uint64_t)k->parts[host] * k->inside_bytes;
}

/* The address of the part that another host has sent for a node and a block of this rank's slice. */
static const uint8_t *arrived_part(const block *b, const node *n) {
  const host_slicing *k = b->k;
  int64_t piece = b->at / MSCRT_REDUCE_ELEMS * MSCRT_REDUCE_ELEMS, in_piece = k->elems[k->r->e->group.index] - piece;
  if (in_piece > MSCRT_REDUCE_ELEMS) in_piece = MSCRT_REDUCE_ELEMS;
  int64_t elems = piece * k->parts[n->host] + n->index * in_piece + (b->at - piece);
  for (int i = 0; i < k->r->e->group.num; i++)
    if (k->host[i] == n->host && k->came[i]) return k->came[i] + (size_t)elems * k->inside_bytes;
  return NULL;
}

/* Returns the sum of the terms of a node of the tree, in the type `inside`: a part that has arrived, or computed in
 * `room`. */
static const void *add_node(const block *b, int first, int num, char *room) {
  const host_slicing *k = b->k;
  int at = k->node_at[first];
  if (at >= 0 && k->node[at].num == num) {
    if (k->node[at].host != k->host[k->r->e->group.index]) return arrived_part(b, &k->node[at]);
    const void *src[MSCRT_MAX_LOCAL];
    find_sources(k, b->t->part, first, num, b->t->from + (b->at - b->t->at), src);
    mscrt_combine_inside(b->t->part->e->dtype, b->t->part->e->reduction, num, src, room, b->n);
    return room;
  }
  const void *both[] = {
      add_node(b, first, terms_of_left_child(num), room),
      add_node(b, first + terms_of_left_child(num), num - terms_of_left_child(num), room + BLOCK * 8)};
  mscrt_combine(k->inside, b->t->part->e->reduction, 2, both, room, b->n);
  return room;
}

/* ---- slices ---- */

/* The stretch of a member's slice that contains element `at`. */
static const stretch *stretch_with(const host_slicing *k, int member, int64_t at) {
  int64_t low = k->first_stretch[member], high = k->first_stretch[member + 1];
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    if (k->stretch[middle].at <= at) low = middle;
    else high = middle;
  }
  return &k->stretch[low];
}

static int64_t elements_in_stretch(const stretch *t, int64_t begin, int64_t end) {
  int64_t last = t->at + t->num;
  return (end < last ? end : last) - begin;
}

/* Lists the stretches of members, one after the other; without k->stretch it only counts them. */
typedef struct {
  host_slicing *k;
  const mscrt_part *part;
  int64_t num, at; /* so far: of all members, of elements of this one */
} listing;

static void add_stretch(void *user, int64_t to, int64_t from, int64_t num) {
  listing *l = user;
  if (!num) return;
  if (l->k->stretch) l->k->stretch[l->num] = (stretch){l->part, l->at, num, from, to};
  l->num++;
  l->at += num;
}

static void list_slice(listing *l, uint32_t num, const mscrt_part *part, int member) {
  mscrt_slices s = mscrt_slices_of(num, part);
  int64_t at = mscrt_slice_begin(&s, member), end = mscrt_slice_begin(&s, member + 1);
  for (int64_t n; at < end; at += n) {
    l->part = mscrt_part_with(&s, at);
    n = mscrt_elements_in(l->part, at, end);
    add_stretch(l, at - l->part->at, at - l->part->at, n);
  }
}

/* Lists the elements that a member takes; of another one only their places in sources matter. */
static void list_taken(listing *l, uint32_t num, const mscrt_part *part, int member) {
  const mscrt_members *g = &l->k->r->e->group;
  for (uint32_t i = 0; i < num; i++) {
    const mscrt_exchange *e = part[i].e;
    l->part = &part[i];
    for (int64_t c = 0; member == g->index && c < e->num_cuts; c++)
      msc_box_runs(e->rank, &e->cut[c].box, &e->to_box, &e->own_box, add_stretch, l);
    for (int64_t b = 0; member != g->index && b < e->num_gives; b++)
      if (e->give[b].to == g->member[member])
        msc_box_runs(e->rank, &e->give[b].box, &e->give[b].box, &e->own_box, add_stretch, l);
  }
}

static int64_t list_stretches(host_slicing *k, uint32_t num, const mscrt_part *part) {
  listing l = {.k = k};
  for (int m = 0; m < k->r->e->group.num; m++) {
    l.at = 0;
    k->first_stretch[m] = l.num;
    if (k->scatters) list_taken(&l, num, part, m);
    else list_slice(&l, num, part, m);
    k->elems[m] = l.at;
  }
  return k->first_stretch[k->r->e->group.num] = l.num;
}

static mscrt_status *find_stretches(host_slicing *k, uint32_t num, const mscrt_part *part) {
  size_t all = (size_t)list_stretches(k, num, part);
  MSCRT_CHECK(mscrt_reserve(&k->r->c->places, (all + 1) * sizeof *k->stretch));
  k->stretch = k->r->c->places.at;
  list_stretches(k, num, part);
  return NULL;
}

/* ---- parts for others ---- */

/* Adds up the parts of this host for the slice of a member on another host; a unit is a piece. */
typedef struct {
  const host_slicing *k;
  int member;
} parts_job;

static void add_parts(void *arg, int64_t unit, int worker) {
  const parts_job *g = arg;
  const host_slicing *k = g->k;
  int own = k->host[k->r->e->group.index];
  int64_t begin = unit * MSCRT_REDUCE_ELEMS, end = k->elems[g->member];
  (void)worker;
  if (end - begin > MSCRT_REDUCE_ELEMS) end = begin + MSCRT_REDUCE_ELEMS;
  uint8_t *piece = k->goes[g->member] + (size_t)(begin * k->parts[own]) * k->inside_bytes;
  for (int64_t at = begin; at < end;) {
    const stretch *t = stretch_with(k, g->member, at);
    const mscrt_part *p = t->part;
    int64_t num = elements_in_stretch(t, at, end);
    for (int i = 0; i < k->num_nodes; i++) {
      const node *n = &k->node[i];
      const void *src[MSCRT_MAX_LOCAL];
      uint8_t *to = piece + (size_t)(n->index * (end - begin) + at - begin) * k->inside_bytes;
      if (n->host != own) continue;
      if (!p->e->num_cuts) { /* all of its room is padding */
        memset(to, 0, (size_t)num * k->inside_bytes);
        continue;
      }
      find_sources(k, p, n->first, n->num, t->from + (at - t->at), src);
      mscrt_combine_inside(p->e->dtype, p->e->reduction, n->num, src, to, num);
    }
    at += num;
  }
}

/* ---- this rank's slice ---- */

/* Sets dst to the addresses of element `at` of a part's destination in the arenas of the ranks of this host that want
 * it (others: without this rank), in which destinations have the same offsets. Returns how many there are. */
static int find_destinations(const host_slicing *k, const mscrt_part *p, int64_t at, bool others, void **dst) {
  const mscrt_tcp *c = k->r->c;
  if (k->scatters) {
    dst[0] = (uint8_t *)p->dst + (size_t)at * k->bytes;
    return 1;
  }
  size_t to = (size_t)((uint8_t *)p->dst - c->arena) + (size_t)at * k->bytes;
  int num = 0;
  for (int i = 0; i < k->r->here.group.num; i++) {
    int rank = c->rank_at[k->r->here.group.member[i]];
    if (!others || rank != c->m.rank) dst[num++] = mscrt_arena_here(c, rank) + to;
  }
  return num;
}

static void reduce_piece(void *arg, int64_t unit, int worker) {
  const host_slicing *k = arg;
  int me = k->r->e->group.index;
  int64_t at = k->reduced + unit * MSCRT_REDUCE_ELEMS, end = at + MSCRT_REDUCE_ELEMS;
  _Alignas(64) char room[LEVELS * BLOCK * 8];
  void *dst[MSCRT_MAX_LOCAL];
  (void)worker;
  if (end > k->elems[me]) end = k->elems[me];
  while (at < end) {
    const stretch *t = stretch_with(k, me, at);
    const mscrt_part *p = t->part;
    int64_t num = elements_in_stretch(t, at, end);
    if (num > BLOCK) num = BLOCK;
    block b = {k, t, at, num};
    if (p->e->num_cuts) {
      const void *sum = add_node(&b, 0, p->e->num_terms, room);
      mscrt_store_for_all(p->e->dtype, sum, find_destinations(k, p, t->to + (at - t->at), false, dst), dst, num);
    }
    at += num;
  }
}

/* Reduces the pieces of this rank's slice whose parts have arrived from all hosts, and makes them ready to be sent. */
static void reduce_arrived(host_slicing *k) {
  const mscrt_members *g = &k->r->e->group;
  int64_t all = k->elems[g->index], come = all;
  for (int i = 0; i < g->num; i++) {
    if (!k->came[i]) continue;
    int64_t got = (int64_t)(k->duplexes.duplex[k->duplex_of[i]].got / k->inside_bytes) / k->parts[k->host[i]];
    if (got < come) come = got;
  }
  if (come < all) come = come / MSCRT_REDUCE_ELEMS * MSCRT_REDUCE_ELEMS;
  if (come <= k->reduced) return;
  mscrt_pool_run(k->pool, reduce_piece, k, (come - k->reduced + MSCRT_REDUCE_ELEMS - 1) / MSCRT_REDUCE_ELEMS);
  for (int i = 0; i < g->num && !k->scatters; i++)
    if (k->came[i]) k->duplexes.duplex[k->duplex_of[i]].ready += (uint64_t)(come - k->reduced) * k->bytes;
  k->reduced = come;
}

/* Writes the elements that have arrived of the sum of a member's slice to the other ranks of this host. */
static void spread_arrived(host_slicing *k, int member) {
  const mscrt_duplex *d = &k->duplexes.duplex[k->duplex_of[member]];
  uint64_t before = k->came[member] ? bytes_of_parts(k, k->r->e->group.index, k->host[member]) : 0;
  int64_t at = k->spread[member], end = d->got > before ? (int64_t)((d->got - before) / k->bytes) : 0;
  void *dst[MSCRT_MAX_LOCAL];
  for (int64_t num; at < end; at += num) {
    const stretch *t = stretch_with(k, member, at);
    num = elements_in_stretch(t, at, end);
    int64_t to = t->to + (at - t->at);
    int others = find_destinations(k, t->part, to, true, dst);
    for (int i = 0; i < others; i++)
      memcpy(dst[i], (uint8_t *)t->part->dst + (size_t)to * k->bytes, (size_t)num * k->bytes);
  }
  k->spread[member] = at;
}

static void process_arrived(void *user) {
  host_slicing *k = user;
  reduce_arrived(k);
  for (int i = 0; i < k->r->e->group.num && !k->scatters; i++)
    if (k->goes[i]) spread_arrived(k, i);
}

/* ---- the collective ---- */

/* Finds the hosts of the members and the nodes of the tree. False: this form does not pay or cannot be used: no two
 * members share memory, a host would send more bytes than its ranks would, or the terms of the parts have different
 * orders. */
static bool find_hosts(host_slicing *k, uint32_t num, const mscrt_part *part) {
  const mscrt_members *g = &k->r->e->group;
  const mscrt_entry *entry = k->r->c->m.entry;
  int hosts = 0;
  for (uint32_t i = 0; i < num && !k->model; i++)
    if (part[i].e->num_cuts) k->model = &part[i];
  if (!k->model) return false;
  for (uint32_t i = 0; i < num; i++)
    if (part[i].e->num_cuts &&
        memcmp(part[i].e->peers, k->model->e->peers, (size_t)g->num * sizeof *part[i].e->peers) != 0)
      return false;
  for (int i = 0; i < g->num; i++) {
    int other = 0;
    while (other < i && entry[g->member[other]].host != entry[g->member[i]].host) other++;
    k->host[i] = other < i ? k->host[other] : hosts++;
    if (other == i) k->members[k->host[i]] = k->parts[k->host[i]] = 0;
    k->place[i] = k->members[k->host[i]]++;
    k->node_at[i] = -1;
  }
  if (hosts == g->num) return false; /* nobody shares memory */
  find_nodes(k, 0, g->num);
  for (int h = 0; h < hosts; h++) /* halves are twice as large as parts */
    if ((size_t)k->parts[h] * k->inside_bytes > (size_t)k->members[h] * k->bytes && hosts > 1) return false;
  return true;
}

/* True if `member` exchanges data with the owner of a slice, which is not empty, for all ranks of its host. */
static bool is_partner(const host_slicing *k, int owner, int member) {
  return k->elems[owner] && k->host[owner] != k->host[member] &&
         k->place[owner] % k->members[k->host[member]] == k->place[member];
}

/* Appends the sum of a member's slice, unless it stays with its owner. */
static void add_sum(const host_slicing *k, mscrt_duplex *d, int member,
                    void (*add)(mscrt_duplex *l, void *at, uint64_t bytes)) {
  for (int64_t i = k->first_stretch[member]; i < k->first_stretch[member + 1] && !k->scatters; i++) {
    const stretch *t = &k->stretch[i];
    add(d, (uint8_t *)t->part->dst + (size_t)t->to * k->bytes, (uint64_t)t->num * k->bytes);
  }
}

/* Makes a duplex to each member on another host that is the partner for this rank's slice, or for whose slice this rank
 * is the partner. */
static mscrt_status *add_duplexes(host_slicing *k) {
  mscrt_tcp *c = k->r->c;
  const mscrt_members *g = &k->r->e->group;
  size_t bytes = 0, most = k->parts_of_sum + 2;
  int me = g->index;
  for (int i = 0; i < g->num; i++) {
    if (is_partner(k, me, i)) bytes += bytes_of_parts(k, me, k->host[i]) + 64;
    if (is_partner(k, i, me)) bytes += bytes_of_parts(k, i, k->host[me]) + 64;
  }
  MSCRT_CHECK(mscrt_reserve(&c->packed, bytes + 1));
  MSCRT_CHECK(mscrt_reserve(&c->spans, 2 * most * (size_t)g->num * sizeof(mscrt_span)));
  uint8_t *room = c->packed.at;
  for (int i = 0; i < g->num; i++) {
    bool owns = is_partner(k, me, i), helps = is_partner(k, i, me);
    k->came[i] = k->goes[i] = NULL, k->spread[i] = 0;
    if (!owns && !helps) continue;
    mscrt_span *span = (mscrt_span *)c->spans.at + 2 * most * k->duplexes.num;
    k->duplex_of[i] = (int)k->duplexes.num;
    mscrt_duplex *d = mscrt_add_duplex(k->r, &k->duplexes, g->member[i], span, span + most);
    if (owns) {
      k->came[i] = room, room += (bytes_of_parts(k, me, k->host[i]) + 63) / 64 * 64;
      mscrt_add_in(d, k->came[i], bytes_of_parts(k, me, k->host[i]));
    }
    if (helps) {
      k->goes[i] = room, room += (bytes_of_parts(k, i, k->host[me]) + 63) / 64 * 64;
      mscrt_add_out(d, k->goes[i], bytes_of_parts(k, i, k->host[me]));
      add_sum(k, d, i, mscrt_add_in);
    }
    d->ready = d->out_bytes;
    if (owns) add_sum(k, d, me, mscrt_add_out);
    mscrt_set_head(k->r, d);
  }
  return NULL;
}

/* Sets the arrays of a host_slicing to memory of c->cursors. */
static mscrt_status *reserve_arrays(host_slicing *k) {
  mscrt_tcp *c = k->r->c;
  size_t num = (size_t)k->r->e->group.num;
  size_t bytes = 2 * sizeof *k->came + 3 * sizeof(int64_t) + sizeof *k->node + 6 * sizeof(int);
  MSCRT_CHECK(mscrt_reserve(&c->cursors, num * bytes + sizeof(int64_t)));
  k->came = c->cursors.at, k->goes = k->came + num;
  k->spread = (int64_t *)(void *)(k->goes + num);
  k->elems = k->spread + num, k->first_stretch = k->elems + num;
  k->node = (node *)(void *)(k->first_stretch + num + 1);
  k->host = (int *)(void *)(k->node + num), k->place = k->host + num, k->members = k->place + num;
  k->parts = k->members + num, k->node_at = k->parts + num, k->duplex_of = k->node_at + num;
  return NULL;
}

mscrt_status *mscrt_run_host_slices(const mscrt_collective_run *r, mscrt_pool *pool, uint32_t num,
                                    const mscrt_part *part, bool *out_ran) {
  mscrt_dtype dtype = r->e->dtype, inside = dtype == MSCRT_F16 || dtype == MSCRT_BF16 ? MSCRT_F32 : dtype;
  host_slicing k = {
      .r = r, .pool = pool, .scatters = msc_verb_scatters(part[0].e->verb), .inside = inside, .parts_of_sum = num};
  k.bytes = mscrt_dtype_bytes(dtype), k.inside_bytes = mscrt_dtype_bytes(inside);
  k.duplexes = (mscrt_duplexes){.duplex = r->c->duplex, .work = process_arrived, .user = &k};
  MSCRT_CHECK(reserve_arrays(&k));
  *out_ran = find_hosts(&k, num, part);
  if (!*out_ran) return NULL;
  MSCRT_CHECK(find_stretches(&k, num, part));
  MSCRT_CHECK(add_duplexes(&k));
  mscrt_send_heads(&k.duplexes);
  MSCRT_CHECK(mscrt_meet_here(r));
  for (int i = 0; i < r->e->group.num; i++)
    if (k.goes[i])
      mscrt_pool_run(pool, add_parts, &(parts_job){&k, i}, (k.elems[i] + MSCRT_REDUCE_ELEMS - 1) / MSCRT_REDUCE_ELEMS);
  process_arrived(&k); /* reduces all of this rank's slice if no other host has members */
  if (k.duplexes.num) MSCRT_CHECK(mscrt_move_duplexes(r, &k.duplexes));
  return mscrt_meet_here(r);
}
