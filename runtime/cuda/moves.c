/* moves.c: the boxes and peers of an exchange in; copies and messages of one GPU out, once, at load. */
#include "runtime/cuda/moves.h"

#include <stdlib.h>

/* ---- copies ---- */

/* Extends the last copy by one more row, or its only row by more bytes; false: neither fits. */
static bool extend_copy(mscrt_copy *last, uint64_t to, uint64_t from, uint64_t width) {
  if (last->height == 1 && to == last->to + last->width && from == last->from + last->width) {
    last->width += width;
    return true;
  }
  if (width != last->width || to < last->to + width || from < last->from + width) return false;
  uint64_t to_pitch = last->height == 1 ? to - last->to : last->to_pitch,
           from_pitch = last->height == 1 ? from - last->from : last->from_pitch;
  if (to != last->to + last->height * to_pitch || from != last->from + last->height * from_pitch) return false;
  last->to_pitch = to_pitch, last->from_pitch = from_pitch;
  last->height++;
  return true;
}

typedef struct {
  mscrt_copies *list;
  uint32_t first;                /* index in the list of the first copy that may be extended */
  uint64_t bytes, to, from;      /* of an element; added to offsets */
  bool no_memory;
} gathering;

static void add_run_of_bytes(void *user, int64_t to, int64_t from, int64_t num) {
  gathering *g = user;
  mscrt_copies *l = g->list;
  uint64_t at = g->to + (uint64_t)to * g->bytes, there = g->from + (uint64_t)from * g->bytes,
           width = (uint64_t)num * g->bytes;
  if (l->num > g->first && extend_copy(&l->copy[l->num - 1], at, there, width)) return;
  mscrt_status *s = mscrt_grow(&l->copy, l->num, &l->room, sizeof *l->copy);
  if (s) {
    g->no_memory = true;
    mscrt_status_free(s);
    return;
  }
  l->copy[l->num++] = (mscrt_copy){at, there, width, width, width, 1};
}

static mscrt_status *report_no_memory(void) { return mscrt_fail(MSCRT_NO_MEMORY, "out of memory"); }

/* Removes the copies from `first` on from the list if they are one row, which then needs no copy; else false. */
static bool take_single(mscrt_copies *l, uint32_t first, mscrt_copy *out_copy) {
  if (l->num != first + 1 || l->copy[first].height != 1) return false;
  *out_copy = l->copy[--l->num];
  return true;
}

mscrt_status *mscrt_copies_issue(const mscrt_cuda_api *cu, const mscrt_copies *copies, cu_address to, cu_address from,
                                 cu_stream s) {
  for (uint32_t i = 0; i < copies->num; i++) {
    const mscrt_copy *k = &copies->copy[i];
    cu_copy_2d rows = {.src_kind = MSCRT_CU_MEMORYTYPE_DEVICE,
                       .dst_kind = MSCRT_CU_MEMORYTYPE_DEVICE,
                       .src = from + k->from,
                       .dst = to + k->to,
                       .src_pitch = k->from_pitch,
                       .dst_pitch = k->to_pitch,
                       .width = k->width,
                       .height = k->height};
    if (k->height == 1) MSCRT_CUDA(cu, cuMemcpyDtoDAsync_v2, rows.dst, rows.src, k->width, s);
    else MSCRT_CUDA(cu, cuMemcpy2DAsync_v2, &rows, s);
  }
  return NULL;
}

static mscrt_status *issue_copy(const mscrt_cuda_api *cu, const mscrt_copy *k, cu_address to, cu_address from,
                                cu_stream s) {
  return k->height ? mscrt_copies_issue(cu, &(mscrt_copies){.num = 1, .copy = (mscrt_copy *)(uintptr_t)k}, to, from, s)
                   : NULL;
}

mscrt_status *mscrt_widen_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address staging, cu_address src,
                                cu_stream s) {
  if (!m->wide_elems) return NULL;
  MSCRT_CUDA(cu, cuMemsetD32Async, staging + m->wide_at, 0, m->wide_elems, s);
  return issue_copy(cu, &m->widen, staging, m->send[0].direct ? src : staging, s);
}

mscrt_status *mscrt_narrow_issue(const mscrt_cuda_api *cu, const mscrt_moves *m, cu_address dst, cu_address staging,
                                 cu_stream s) {
  return m->wide_elems ? issue_copy(cu, &m->narrow, m->receive[0].direct ? dst : staging, staging, s) : NULL;
}

/* Elements of eight bytes are set in two passes, one for each half, as rows of one word. */
mscrt_status *mscrt_identity_issue(const mscrt_cuda_api *cu, const mscrt_exchange *e, uint64_t elems, cu_address to,
                                   cu_stream s) {
  union { uint64_t all; uint32_t word[2]; uint16_t half; uint8_t byte; } v = {0};
  size_t num = (size_t)elems;
  mscrt_fill_identity(e->dtype, e->reduction, &v, 1);
  if (!num) return NULL;
  switch (mscrt_dtype_bytes(e->dtype)) {
    case 1: MSCRT_CUDA(cu, cuMemsetD8Async, to, v.byte, num, s); return NULL;
    case 2: MSCRT_CUDA(cu, cuMemsetD16Async, to, v.half, num, s); return NULL;
    case 4: MSCRT_CUDA(cu, cuMemsetD32Async, to, v.word[0], num, s); return NULL;
    default:
      MSCRT_CUDA(cu, cuMemsetD2D32Async, to, 8, v.word[0], 1, num, s);
      MSCRT_CUDA(cu, cuMemsetD2D32Async, to + 4, 8, v.word[1], 1, num, s);
      return NULL;
  }
}

/* ---- pieces between two ranks ---- */

static bool is_term_of_cut(const mscrt_cut *cut, int num_terms, int rank) {
  for (int i = 0; i < num_terms; i++)
    if (cut->peer[i] == rank) return true;
  return false;
}

/* Adds copies that pack the boxes that the receiver of `e` gets from `rank`, one after the other; returns the bytes.
 * `gaps`: leaves room for boxes that the receiver gets from other ranks only. */
static uint64_t pack_pieces(const mscrt_exchange *e, int rank, bool gaps, uint64_t staging, gathering *g) {
  uint64_t done = 0;
  for (int64_t i = 0; i < e->num_cuts; i++) {
    bool taken = is_term_of_cut(&e->cut[i], e->num_terms, rank);
    g->to = staging + done, g->from = 0;
    if (taken) msc_box_runs(e->rank, &e->cut[i].box, &e->cut[i].box, &e->cut[i].from_box, add_run_of_bytes, g);
    if (taken || gaps) done += (uint64_t)msc_box_elems(e->rank, &e->cut[i].box) * g->bytes;
  }
  return done;
}

/* Adds copies that unpack the boxes of pack_pieces into the receiver's value; `sums`: all boxes of the receiver,
 * whatever ranks they are from. */
static uint64_t unpack_pieces(const mscrt_exchange *e, int rank, bool sums, uint64_t staging, gathering *g) {
  uint64_t done = 0;
  for (int64_t i = 0; i < e->num_cuts; i++) {
    if (!sums && !is_term_of_cut(&e->cut[i], e->num_terms, rank)) continue;
    g->to = 0, g->from = staging + done;
    msc_box_runs(e->rank, &e->cut[i].box, &e->to_box, &e->cut[i].box, add_run_of_bytes, g);
    done += (uint64_t)msc_box_elems(e->rank, &e->cut[i].box) * g->bytes;
  }
  return done;
}

static void copy_own_pieces(const mscrt_exchange *e, int rank, gathering *g) {
  g->to = g->from = 0;
  for (int64_t i = 0; i < e->num_cuts; i++)
    if (e->cut[i].peer[0] == rank)
      msc_box_runs(e->rank, &e->cut[i].box, &e->to_box, &e->cut[i].from_box, add_run_of_bytes, g);
}

/* ---- forms ---- */

/* The exchanges of all members, in their order; own: that of this rank. */
typedef struct {
  const mscrt_context *c;
  const mscrt_exchange *own;
  mscrt_exchange *member;
} party;

/* True if every member gets one piece from every member, all of its value, and they follow each other in its result. */
static bool is_all_gather(const party *p, uint64_t *out_count) {
  const mscrt_members *group = &p->own->group;
  for (int d = 0; d < group->num; d++)
    for (int i = 0; i < group->num; i++) {
      const mscrt_exchange *e = &p->member[d];
      mscrt_copies runs = {0};
      gathering g = {.list = &runs, .bytes = 1};
      for (int64_t k = 0; k < e->num_cuts; k++)
        if (e->cut[k].peer[0] == group->member[i])
          msc_box_runs(e->rank, &e->cut[k].box, &e->to_box, &e->cut[k].from_box, add_run_of_bytes, &g);
      uint64_t count = runs.num == 1 && runs.copy[0].height == 1 ? runs.copy[0].width : 0;
      if (d == 0 && i == 0) *out_count = count;
      bool fits = !e->fill && e->num_terms == 1 && count && count == *out_count && runs.copy[0].from == 0 &&
                  runs.copy[0].to == (uint64_t)i * count;
      free(runs.copy);
      if (!fits) return false;
    }
  return true;
}

/* Returns the largest number of elements that a member gets. */
static uint64_t count_most_elems(const party *p) {
  uint64_t most = 0;
  for (int d = 0; d < p->own->group.num; d++) {
    const mscrt_exchange *e = &p->member[d];
    uint64_t elems = 0;
    for (int64_t i = 0; i < e->num_cuts; i++) elems += (uint64_t)msc_box_elems(e->rank, &e->cut[i].box);
    if (elems > most) most = elems;
  }
  return most;
}

/* True if every piece is a sum over all members. */
static bool has_sums_of_all(const party *p) {
  for (int d = 0; d < p->own->group.num; d++)
    if (p->member[d].num_cuts && p->member[d].num_terms != p->own->group.num) return false;
  return true;
}

static bool has_no_sums(const party *p) {
  for (int d = 0; d < p->own->group.num; d++)
    if (p->member[d].num_cuts && p->member[d].num_terms != 1) return false;
  return true;
}

/* ---- making them ---- */

/* Makes one send and one receipt, both in place, without staging memory. */
static mscrt_status *make_direct(const party *p, mscrt_moves *m, uint64_t bytes) {
  MSCRT_CHECK(mscrt_new_array(&m->send, 1));
  MSCRT_CHECK(mscrt_new_array(&m->receive, 1));
  m->num_sends = m->num_receives = 1;
  m->send[0] = (mscrt_move){.direct = true, .bytes = m->count * bytes};
  m->receive[0] = (mscrt_move){.direct = true, .bytes = m->count * bytes * (uint64_t)p->own->group.num};
  return NULL;
}

/* Makes copies that pack the pieces of all members in a row, each with room for the longest, and reserves room for this
 * rank's sum behind them.  The rank sends the identity for a sum to which it adds no term. */
static mscrt_status *make_scatter(const party *p, mscrt_moves *m, uint64_t bytes) {
  uint64_t each = m->count * bytes, all = each * (uint64_t)p->own->group.num, own = 0, smallest = each;
  gathering in = {.list = &m->pack, .bytes = bytes}, out = {.list = &m->unpack, .bytes = bytes};
  mscrt_copy single;
  m->identity = has_sums_of_all(p) ? 0 : m->count * (uint64_t)p->own->group.num;
  MSCRT_CHECK(make_direct(p, m, bytes));
  for (int d = 0; d < p->own->group.num; d++) {
    own = pack_pieces(&p->member[d], p->c->o.rank, true, (uint64_t)d * each, &in);
    if (own < smallest) smallest = own;
  }
  own = unpack_pieces(p->own, p->c->o.rank, true, mscrt_cuda_align(all), &out);
  if (in.no_memory || out.no_memory) return report_no_memory();
  m->send[0] = (mscrt_move){.bytes = all};
  m->receive[0] = (mscrt_move){.at = mscrt_cuda_align(all), .bytes = each};
  if (!m->identity && smallest == each && take_single(&m->pack, 0, &single))
    m->send[0] = (mscrt_move){.direct = true, .at = single.from, .bytes = all};
  if (own == each && take_single(&m->unpack, 0, &single))
    m->receive[0] = (mscrt_move){.direct = true, .at = single.to, .bytes = each};
  m->staging_bytes = mscrt_cuda_align(all) + mscrt_cuda_align(each);
  return NULL;
}

/* Makes one message to, and one from, each member that exchanges anything with this rank. */
static mscrt_status *make_messages(const party *p, mscrt_moves *m, uint64_t bytes) {
  const mscrt_members *group = &p->own->group;
  gathering in = {.list = &m->pack, .bytes = bytes}, out = {.list = &m->unpack, .bytes = bytes},
            here = {.list = &m->local, .bytes = bytes};
  mscrt_copy single;
  MSCRT_CHECK(mscrt_new_array(&m->send, group->num));
  MSCRT_CHECK(mscrt_new_array(&m->receive, group->num));
  copy_own_pieces(p->own, p->c->o.rank, &here);
  for (int i = 0; i < group->num; i++) {
    if (i == group->index) continue;
    in.first = m->pack.num, out.first = m->unpack.num;
    mscrt_move send = {.peer = i, .at = m->staging_bytes}, receive = {.peer = i};
    send.bytes = pack_pieces(&p->member[i], p->c->o.rank, false, send.at, &in);
    if (take_single(&m->pack, in.first, &single)) send.direct = true, send.at = single.from;
    else m->staging_bytes += mscrt_cuda_align(send.bytes);
    receive.at = m->staging_bytes;
    receive.bytes = unpack_pieces(p->own, group->member[i], false, receive.at, &out);
    if (take_single(&m->unpack, out.first, &single)) receive.direct = true, receive.at = single.to;
    else m->staging_bytes += mscrt_cuda_align(receive.bytes);
    if (send.bytes) m->send[m->num_sends++] = send;
    if (receive.bytes) m->receive[m->num_receives++] = receive;
  }
  return in.no_memory || out.no_memory || here.no_memory ? report_no_memory() : NULL;
}

/* Lets integers of 16 bits be reduced as ones of 32: in the upper halves for sums and order, in the lower for
 * products. */
static void make_widening(mscrt_moves *m, uint64_t elems) {
  uint64_t half = m->e->reduction == MSC_PROD ? 0 : 2;
  m->wide_elems = elems;
  m->wide_at = m->staging_bytes;
  m->wide_result = m->wide_at + mscrt_cuda_align(4 * elems);
  m->staging_bytes = m->wide_result + mscrt_cuda_align(4 * m->count);
  m->widen = (mscrt_copy){
      .to = m->wide_at + half, .from = m->send[0].at, .width = 2, .to_pitch = 4, .from_pitch = 2, .height = elems};
  m->narrow = (mscrt_copy){.to = m->receive[0].at,
                           .from = m->wide_result + half,
                           .width = 2,
                           .to_pitch = 2,
                           .from_pitch = 4,
                           .height = m->count};
}

static mscrt_status *make_form(const party *p, mscrt_moves *m) {
  uint64_t bytes = mscrt_dtype_bytes(m->e->dtype);
  if (m->e->slices) {
    m->form = MSC_ALL_REDUCE;
    m->count = (uint64_t)m->e->elems;
    return make_direct(p, m, bytes);
  }
  if (p->own->group.num > 1 && is_all_gather(p, &m->count)) {
    m->form = MSC_ALL_GATHER;
    return make_direct(p, m, bytes);
  }
  if (has_no_sums(p)) return make_messages(p, m, bytes);
  m->form = MSC_REDUCE_SCATTER;
  m->count = count_most_elems(p);
  return make_scatter(p, m, bytes);
}

mscrt_status *mscrt_moves_make(const mscrt_context *c, uint32_t index, mscrt_moves *m) {
  party p = {.c = c, .own = &c->exchange[index]};
  const mscrt_members *group = &p.own->group;
  *m = (mscrt_moves){.e = p.own, .form = MSC_EXCHANGE};
  MSCRT_CHECK(mscrt_new_array(&p.member, group->num));
  mscrt_status *s = NULL;
  for (int i = 0; i < group->num && !s; i++)
    s = mscrt_exchange_make(&c->plan->mesh, group->member[i], &c->plan->collective[index], NULL, false, &p.member[i]);
  if (!s) s = make_form(&p, m);
  bool reduces = msc_verb_reduces(m->form), is_short = m->e->dtype == MSCRT_I16 || m->e->dtype == MSCRT_U16;
  if (!s && reduces && is_short) make_widening(m, m->count * (m->form == MSC_ALL_REDUCE ? 1 : (uint64_t)group->num));
  for (int i = 0; i < group->num; i++) mscrt_exchange_free(&p.member[i]);
  free(p.member);
  return s;
}

void mscrt_moves_free(mscrt_moves *m) {
  free(m->local.copy);
  free(m->pack.copy);
  free(m->unpack.copy);
  free(m->send);
  free(m->receive);
}
