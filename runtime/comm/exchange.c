/* exchange.c: a collective of the plan and a rank in; the rank's exchange out: which boxes it gets from which ranks, in
 * which order they are combined, and which ranks meet. */
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"

#define CUT_BYTES (256 << 10) /* work of one thread: half of a second-level cache */

static void *allocate_pull(void *user, size_t bytes) {
  (void)user;
  return malloc(bytes ? bytes : 1);
}

static mscrt_status *no_memory_for_lists(void) {
  return mscrt_fail(MSCRT_NO_MEMORY, "out of memory for the lists of collectives");
}

/* ---- for every verb a list of boxes with the ranks that they come from ---- */

/* The boxes that a rank gets, and the box of its destination. */
typedef struct {
  msc_pull pull;
  msc_box to_box;
  bool by_layout;
} rank_pull;

/* Finds the box that a rank gets in broadcast (the tensor of the root) and pairs (that of its source, or zeros). */
static mscrt_status *pull_whole_tensor(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, rank_pull *t) {
  int64_t index = msc_group_index(mesh, c->num_axes, c->axes, rank), source = -1;
  for (int d = 0; d < c->rank; d++) t->to_box.size[d] = c->shape[d];
  if (msc_verb_row_of(c->verb)->operand == MSC_AT_ROOT) source = c->root;
  for (uint32_t i = 0; i < c->num_pairs; i++)
    if (c->pairs[2 * i + 1] == (uint64_t)index) source = c->pairs[2 * i];
  if (source < 0) {
    t->pull.identity = true;
    return NULL;
  }
  t->pull.piece = malloc(sizeof *t->pull.piece + sizeof *t->pull.peer);
  if (!t->pull.piece) return no_memory_for_lists();
  t->pull.num_pieces = t->pull.num_terms = 1;
  t->pull.piece[0] = t->to_box;
  t->pull.peer = (int64_t *)(t->pull.piece + 1);
  t->pull.peer[0] = msc_group_member(mesh, c->num_axes, c->axes, rank, source);
  return NULL;
}

/* Finds the boxes that a rank gets in a halo: rows of the parts that have those of its destination. */
static mscrt_status *pull_halo(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, rank_pull *t) {
  const msc_box_layout *l = c->from;
  int d = c->halo_dim, num = l->first[d + 1] - l->first[d];
  const msc_digit *digit = l->digit + l->first[d];
  int64_t parts = msc_group_size(num, digit), rows = c->lo + c->step + c->hi;
  msc_box_buffer(mesh, l, c->shape, rank, &t->to_box);
  t->to_box.begin[d] = msc_group_index(mesh, num, digit, rank) * c->step - c->lo, t->to_box.size[d] = rows;
  t->pull.piece = malloc((size_t)parts * (sizeof *t->pull.piece + sizeof *t->pull.peer));
  if (!t->pull.piece) return no_memory_for_lists();
  t->pull.peer = (int64_t *)(t->pull.piece + parts);
  t->pull.num_terms = 1;
  for (int64_t i = 0; i < parts; i++) {
    msc_box held, *piece = &t->pull.piece[t->pull.num_pieces];
    int64_t peer = msc_group_member(mesh, num, digit, rank, i);
    msc_box_of(mesh, l, c->shape, peer, &held);
    if (!msc_box_intersect(l->rank, &held, &t->to_box, piece)) continue;
    t->pull.peer[t->pull.num_pieces++] = peer;
    rows -= piece->size[d];
  }
  t->pull.identity = rows > 0;
  return NULL;
}

static mscrt_status *find_pull_of_layouts(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, rank_pull *t) {
  if (!t->by_layout) return pull_whole_tensor(mesh, rank, c, t);
  if (c->verb == MSC_HALO) return pull_halo(mesh, rank, c, t);
  msc_box_buffer(mesh, c->to, c->shape, rank, &t->to_box);
  msc_pull_status s = msc_pull_of(mesh, c->from, c->to, c->shape, rank, allocate_pull, NULL, &t->pull);
  if (s == MSC_PULL_NO_MEMORY) return no_memory_for_lists();
  if (s != MSC_PULL_OK)
    return mscrt_fail(MSCRT_INPUT, "%s between layouts that have no common digits", msc_verb_name(c->verb));
  return NULL;
}

static mscrt_status *find_pull(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, rank_pull *t) {
  *t = (rank_pull){.by_layout = c->from != NULL};
  MSCRT_CHECK(find_pull_of_layouts(mesh, rank, c, t));
  for (int64_t i = 0; c->num_holders && i < t->pull.num_pieces * t->pull.num_terms; i++)
    t->pull.peer[i] = c->first_holder + t->pull.peer[i] % c->num_holders;
  return NULL;
}

/* ---- groups ---- */

static int32_t find_group_root(int32_t *group_of, int32_t r) {
  while (group_of[r] != r) r = group_of[r] = group_of[group_of[r]];
  return r;
}

static void join_groups(int32_t *group_of, int32_t a, int32_t b) {
  a = find_group_root(group_of, a);
  b = find_group_root(group_of, b);
  if (a < b) group_of[b] = a;
  else group_of[a] = b;
}

/* Appends the boxes that rank `to` gets from `rank`. */
static mscrt_status *append_gives(mscrt_exchange *e, int rank, int32_t to, const msc_pull *p) {
  for (int64_t i = 0; i < p->num_pieces; i++)
    for (int64_t k = 0; k < p->num_terms; k++) {
      if (p->peer[i * p->num_terms + k] != rank) continue;
      MSCRT_CHECK(mscrt_grow(&e->give, e->num_gives, &e->room_gives, sizeof *e->give));
      e->give[e->num_gives++] = (mscrt_give){to, p->piece[i]};
    }
  return NULL;
}

static bool are_equal(int rank, const msc_box *a, const msc_box *b) {
  size_t bytes = (size_t)rank * sizeof *a->begin;
  return !memcmp(a->begin, b->begin, bytes) && !memcmp(a->size, b->size, bytes);
}

static bool take_the_same(int rank, const rank_pull *a, const rank_pull *b) {
  const msc_pull *p = &a->pull, *q = &b->pull;
  bool same = p->num_pieces && p->num_pieces == q->num_pieces && p->num_terms == 1 && q->num_terms == 1 &&
              !p->identity && !q->identity && are_equal(rank, &a->to_box, &b->to_box);
  for (int64_t i = 0; same && i < p->num_pieces; i++)
    same = p->peer[i] == q->peer[i] && are_equal(rank, &p->piece[i], &q->piece[i]);
  return same;
}

/* True if `rank`, which takes `t`, and `own_rank`, which takes `own`, have source buffers that hold the same box, and
 * combine elements from the same ranks in the same order. */
static bool takes_from_the_same(const msc_box_mesh *mesh, const mscrt_collective *c, int rank, const rank_pull *own,
                                int own_rank, const rank_pull *t) {
  const msc_pull *p = &own->pull, *q = &t->pull;
  msc_box a, b;
  if (!msc_verb_scatters(c->verb) || !c->from || !p->num_pieces || !q->num_pieces || p->num_terms != q->num_terms)
    return false;
  msc_box_buffer(mesh, c->from, c->shape, own_rank, &a);
  msc_box_buffer(mesh, c->from, c->shape, rank, &b);
  bool same = !p->identity && !q->identity && are_equal(c->rank, &a, &b);
  for (int64_t i = 0; same && i < q->num_pieces; i++)
    same = !memcmp(q->peer + i * q->num_terms, p->peer, (size_t)p->num_terms * sizeof *p->peer);
  return same;
}

/* Computes what every rank takes. group_of, unless NULL: by rank, the smallest rank of its group; ranks that take from
 * each other, directly or through others, are in one group. same: by rank, whether it takes what `own` does;
 * same_sources: whether it takes from the ranks from which `own` does. e, unless NULL, gets what others take from
 * `rank`. */
static mscrt_status *survey_ranks(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, const rank_pull *own,
                                  int32_t *group_of, bool *same, bool *same_sources, mscrt_exchange *e) {
  int32_t ranks = (int32_t)msc_box_mesh_size(mesh);
  for (int32_t r = 0; group_of && r < ranks; r++) group_of[r] = r;
  for (int32_t r = 0; r < ranks; r++) {
    rank_pull t;
    mscrt_status *s = find_pull(mesh, r, c, &t);
    for (int64_t i = 0; !s && group_of && i < t.pull.num_pieces * t.pull.num_terms; i++)
      join_groups(group_of, r, (int32_t)t.pull.peer[i]);
    if (!s && e && r != rank) s = append_gives(e, rank, r, &t.pull);
    same[r] = !s && take_the_same(c->rank, own, &t);
    same_sources[r] = !s && takes_from_the_same(mesh, c, r, own, rank, &t);
    free(t.pull.piece);
    if (s) return s;
  }
  for (int32_t r = 0; group_of && r < ranks; r++) group_of[r] = find_group_root(group_of, r);
  return NULL;
}

mscrt_status *mscrt_partitions_new(int ranks, mscrt_partitions *out_partitions) {
  *out_partitions = (mscrt_partitions){.ranks = ranks, .num = 1};
  return mscrt_new_array(&out_partitions->group_of, ranks);
}

void mscrt_partitions_free(mscrt_partitions *p) {
  free(p->group_of);
  *p = (mscrt_partitions){0};
}

static mscrt_status *number_partition(mscrt_partitions *p, const int32_t *group_of, uint32_t *out_number) {
  size_t bytes = sizeof *group_of * (size_t)p->ranks;
  for (uint32_t i = 0; i < p->num; i++)
    if (!memcmp(p->group_of + (size_t)i * (size_t)p->ranks, group_of, bytes)) {
      *out_number = i;
      return NULL;
    }
  MSCRT_CHECK(mscrt_grow(&p->group_of, p->num, &p->room, bytes));
  memcpy(p->group_of + (size_t)p->num * (size_t)p->ranks, group_of, bytes);
  *out_number = p->num++;
  return NULL;
}

static mscrt_status *set_group(mscrt_members *g, int rank, int ranks, const int32_t *group_of) {
  MSCRT_CHECK(mscrt_new_array(&g->member, ranks));
  for (int32_t r = 0; r < ranks; r++) {
    if (group_of[r] != group_of[rank]) continue;
    if (r == rank) g->index = g->num;
    g->member[g->num++] = r;
  }
  return NULL;
}

/* ---- cuts ---- */

/* Returns how many rows of the piece make a cut. A piece is cut along *out_dim, its outermost dimension with more than
 * one element. */
static int64_t rows_per_cut(int rank, const msc_box *piece, size_t elem_bytes, int *out_dim) {
  int d = 0;
  while (d < rank && piece->size[d] == 1) d++;
  *out_dim = d;
  if (d == rank) return 1;
  int64_t row_bytes = msc_box_elems(rank, piece) / piece->size[d] * (int64_t)elem_bytes;
  int64_t rows = CUT_BYTES / (row_bytes > 0 ? row_bytes : 1);
  return rows > 0 ? rows : 1;
}

static int64_t num_cuts_of(int rank, const msc_box *piece, size_t elem_bytes) {
  int d;
  int64_t rows = rows_per_cut(rank, piece, elem_bytes, &d);
  return d == rank ? 1 : (piece->size[d] + rows - 1) / rows;
}

static mscrt_cut *append_cuts(mscrt_cut *cut, int rank, const msc_box *piece, const msc_box *from_box,
                              size_t elem_bytes, const int64_t *peer) {
  int d;
  int64_t rows = rows_per_cut(rank, piece, elem_bytes, &d);
  if (d == rank) {
    *cut = (mscrt_cut){.box = *piece, .from_box = *from_box, .peer = peer};
    return cut + 1;
  }
  for (int64_t at = 0; at < piece->size[d]; at += rows, cut++) {
    *cut = (mscrt_cut){.box = *piece, .from_box = *from_box, .peer = peer};
    cut->box.begin[d] += at;
    cut->box.size[d] = piece->size[d] - at < rows ? piece->size[d] - at : rows;
  }
  return cut;
}

static mscrt_status *set_cuts(mscrt_exchange *e, const msc_box_mesh *mesh, const mscrt_collective *c,
                              const rank_pull *t) {
  const msc_pull *p = &t->pull;
  size_t elem_bytes = mscrt_dtype_bytes(c->dtype);
  e->num_terms = (int)p->num_terms;
  for (int64_t i = 0; i < p->num_pieces; i++) e->num_cuts += num_cuts_of(c->rank, &p->piece[i], elem_bytes);
  MSCRT_CHECK(mscrt_new_array(&e->cut, e->num_cuts));
  MSCRT_CHECK(mscrt_new_array(&e->peers, p->num_pieces * p->num_terms));
  if (p->num_pieces) memcpy(e->peers, p->peer, (size_t)(p->num_pieces * p->num_terms) * sizeof *e->peers);
  mscrt_cut *cut = e->cut;
  for (int64_t i = 0; i < p->num_pieces; i++) {
    const int64_t *peer = e->peers + i * p->num_terms;
    msc_box from_box = t->to_box;
    if (t->by_layout) msc_box_buffer(mesh, c->from, c->shape, peer[0], &from_box);
    cut = append_cuts(cut, c->rank, &p->piece[i], &from_box, elem_bytes, peer);
  }
  return NULL;
}

void mscrt_largest_destination(const mscrt_collective *c, int64_t *out_size) {
  if (c->to) msc_box_largest(c->to, c->shape, out_size);
  else memcpy(out_size, c->shape, sizeof c->shape);
  if (c->verb == MSC_HALO) out_size[c->halo_dim] = c->lo + c->step + c->hi;
}

static uint64_t largest_bytes(const mscrt_collective *c, const msc_box_layout *l) {
  int64_t size[MSCRT_MAX_RANK];
  uint64_t bytes = 0;
  if (l) msc_box_largest(l, c->shape, size);
  else memcpy(size, c->shape, sizeof size);
  mscrt_shape_bytes(c->rank, size, mscrt_dtype_bytes(c->dtype), &bytes);
  return bytes;
}

/* True for a reduction in which every member needs all elements of every member. */
static bool is_sliceable(const mscrt_exchange *e, const mscrt_collective *c, const rank_pull *t) {
  if (c->verb == MSC_ALL_REDUCE && t->pull.num_pieces == 0) return true; /* nothing to reduce */
  if (c->verb != MSC_ALL_REDUCE || e->num_terms < 2 || e->num_terms != e->group.num || t->pull.num_pieces != 1)
    return false;
  for (int i = 0; i < e->num_terms; i++)
    if (e->peers[i] != e->group.member[i]) return false;
  return !memcmp(e->cut[0].from_box.size, e->to_box.size, sizeof(int64_t) * (size_t)c->rank);
}

/* Sorts the terms in the order of the collective's axes. They are few: insertion sort. */
static void sort_terms(mscrt_exchange *e, const msc_box_mesh *mesh, const mscrt_collective *c, int64_t num_pieces) {
  for (int64_t i = 0; i < num_pieces && c->from && c->num_axes; i++)
    for (int64_t *peer = e->peers + i * e->num_terms, t = 1; t < e->num_terms; t++) {
      int64_t moved = peer[t], at = t;
      for (; at > 0 && msc_group_index(mesh, c->num_axes, c->axes, peer[at - 1]) >
                           msc_group_index(mesh, c->num_axes, c->axes, moved);
           at--)
        peer[at] = peer[at - 1];
      peer[at] = moved;
    }
}

mscrt_status *mscrt_exchange_make(const msc_box_mesh *mesh, int rank, const mscrt_collective *c, mscrt_partitions *p,
                                  bool gives, mscrt_exchange *out_exchange) {
  mscrt_status *s = NULL;
  int32_t *group_of = NULL;
  bool *same = NULL, *same_sources = NULL;
  int ranks = (int)msc_box_mesh_size(mesh);
  mscrt_exchange *e = out_exchange;
  *e = (mscrt_exchange){.verb = c->verb, .dtype = c->dtype, .reduction = c->reduction, .rank = c->rank};
  rank_pull t = {0};
  MSCRT_GOTO(mscrt_new_array(&group_of, ranks));
  MSCRT_GOTO(mscrt_new_array(&same, ranks));
  MSCRT_GOTO(mscrt_new_array(&same_sources, ranks));
  MSCRT_GOTO(find_pull(mesh, rank, c, &t));
  if (p || gives)
    MSCRT_GOTO(survey_ranks(mesh, rank, c, &t, p ? group_of : NULL, same, same_sources, gives ? e : NULL));
  if (p) MSCRT_GOTO(number_partition(p, group_of, &e->group.partition));
  MSCRT_GOTO(set_group(&e->group, rank, ranks, group_of));
  e->same = p || gives;
  e->scatters = gives && t.pull.num_terms == e->group.num && e->group.num > 1;
  for (int i = 0; i < e->group.num; i++) {
    e->same = e->same && same[e->group.member[i]];
    e->scatters = e->scatters && same_sources[e->group.member[i]];
  }
  e->to_box = e->own_box = t.to_box;
  if (t.by_layout) msc_box_buffer(mesh, c->from, c->shape, rank, &e->own_box);
  e->elems = msc_box_elems(c->rank, &t.to_box);
  e->fill = t.pull.identity;
  e->src_bytes = largest_bytes(c, c->from);
  e->dst_bytes = largest_bytes(c, c->to);
  if (c->verb == MSC_HALO) e->dst_bytes = (uint64_t)e->elems * mscrt_dtype_bytes(c->dtype); /* all parts are equal */
  e->received = (uint64_t)msc_pull_received(&t.pull, c->rank, rank) * mscrt_dtype_bytes(c->dtype);
  MSCRT_GOTO(set_cuts(e, mesh, c, &t));
  e->slices = is_sliceable(e, c, &t);
  sort_terms(e, mesh, c, t.pull.num_pieces);
  if (e->slices) e->received = 2 * e->received / (uint64_t)e->group.num;
fail:
  free(group_of);
  free(same);
  free(same_sources);
  free(t.pull.piece);
  if (s) mscrt_exchange_free(e);
  return s;
}

mscrt_status *mscrt_exchanges_join(uint32_t num, const uint32_t *member, int rank, mscrt_partitions *p,
                                   mscrt_exchange *exchange, bool *out_ok) {
  mscrt_status *s = NULL;
  int32_t *group_of = NULL;
  uint32_t number;
  *out_ok = true;
  MSCRT_GOTO(mscrt_new_array(&group_of, p->ranks));
  for (int32_t r = 0; r < p->ranks; r++) group_of[r] = r;
  for (uint32_t m = 0; m < num; m++)
    for (int32_t r = 0; r < p->ranks; r++)
      join_groups(group_of, r, p->group_of[(size_t)exchange[member[m]].group.partition * (size_t)p->ranks + (size_t)r]);
  for (int32_t r = 0; r < p->ranks; r++) group_of[r] = find_group_root(group_of, r);
  MSCRT_GOTO(number_partition(p, group_of, &number));
  for (uint32_t m = 0; m < num; m++) {
    mscrt_exchange *e = &exchange[member[m]];
    if (e->group.partition == number) continue;
    free(e->group.member);
    e->group = (mscrt_members){.partition = number};
    e->same = e->scatters = false; /* the ranks that came to the group take something else */
    MSCRT_GOTO(set_group(&e->group, rank, p->ranks, group_of));
    *out_ok &= !e->slices || !e->num_cuts || e->num_terms == e->group.num;
  }
fail:
  free(group_of);
  return s;
}

void mscrt_exchange_free(mscrt_exchange *e) {
  free(e->cut);
  free(e->peers);
  free(e->give);
  free(e->group.member);
  *e = (mscrt_exchange){0};
}
