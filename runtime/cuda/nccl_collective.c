/* nccl_collective.c: issues collectives and messages between GPUs to streams of their own. */

#include "runtime/cuda/nccl.h"
#include "runtime/execute/execute.h"

/* ---- order ---- */

/* Lets stream s wait for all calls issued so far. */
static mscrt_status *wait_for_calls(mscrt_context *c, cu_stream s) {
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuEventRecord, mscrt_cuda_of(c)->links->issued, mscrt_cuda_of(c)->stream);
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, s, mscrt_cuda_of(c)->links->issued, 0);
  return NULL;
}

mscrt_status *mscrt_links_wait_for(mscrt_context *c, uint32_t upto) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  if (upto <= l->waited) return NULL;
  mscrt_cuda_of(c)->follows_kernel = false;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, l->ran[upto - 1], 0);
  l->waited = upto;
  return NULL;
}

/* Lets the GPU write the number of the exchange that it begins. */
static mscrt_status *tell_begun(mscrt_context *c, const mscrt_record *r, cu_stream s) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyDtoHAsync_v2, l->begun, l->numbers + sizeof(uint32_t) * r->device_number,
             sizeof(uint32_t), s);
  return NULL;
}

/* ---- collectives ---- */

/* NCCL's type for an element type: truth values are bytes. False: NCCL has none, and exchanges bytes. */
static bool nccl_type(mscrt_dtype d, unsigned *out_type) {
  static const struct { mscrt_dtype d; unsigned type; } types[] = {
    {MSCRT_F32, MSCRT_ncclFloat32}, {MSCRT_F16, MSCRT_ncclFloat16}, {MSCRT_BF16, MSCRT_ncclBfloat16}, {MSCRT_F64,
     MSCRT_ncclFloat64}, {MSCRT_I8, MSCRT_ncclInt8}, {MSCRT_I1, MSCRT_ncclUint8},
    {MSCRT_U8, MSCRT_ncclUint8}, {MSCRT_I32, MSCRT_ncclInt32}, {MSCRT_U32, MSCRT_ncclUint32}, {MSCRT_I64,
     MSCRT_ncclInt64}, {MSCRT_U64, MSCRT_ncclUint64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].d == d) return *out_type = types[i].type, true;
  return false;
}

/* NCCL's operation. For truth values a sum is "any" and a product "all". */
static unsigned nccl_op(const mscrt_exchange *e) {
  static const unsigned ops[] = {
      [MSC_SUM] = MSCRT_ncclSum, [MSC_MAX] = MSCRT_ncclMax, [MSC_MIN] = MSCRT_ncclMin, [MSC_PROD] = MSCRT_ncclProd};
  _Static_assert(sizeof ops / sizeof *ops == MSC_NUM_REDUCTIONS, "an operation for each");
  if (e->dtype == MSCRT_I1) return e->reduction == MSC_SUM || e->reduction == MSC_MAX ? MSCRT_ncclMax : MSCRT_ncclMin;
  return ops[e->reduction];
}

/* The addresses of one value of a collective. */
typedef struct {
  const mscrt_moves *m;
  cu_address src, dst, staging;
} value;

static value locate_value(mscrt_context *c, const mscrt_record *r, const mscrt_part *part, uint32_t i) {
  const mscrt_collective *k = &c->plan->collective[r->index];
  value v = {.m = &mscrt_cuda_of(c)->moves[k->num_members ? k->members[i] : r->index],
             .staging = mscrt_cuda_of(c)->links ? mscrt_cuda_of(c)->links->staging : 0};
  for (uint32_t before = 0; before < i; before++)
    v.staging += mscrt_cuda_of(c)->moves[k->members[before]].staging_bytes;
  v.src = (cu_address)(uintptr_t)(c->memory + part[i].src);
  v.dst = (cu_address)(uintptr_t)(c->memory + ((uint8_t *)part[i].dst - c->arena));
  return v;
}

static mscrt_status *pack_value(const mscrt_cuda_api *cu, const value *v, cu_stream s) {
  if (v->m->e->fill) MSCRT_CHECK(mscrt_identity_issue(cu, v->m->e, (uint64_t)v->m->e->elems, v->dst, s));
  if (v->m->identity) MSCRT_CHECK(mscrt_identity_issue(cu, v->m->e, v->m->identity, v->staging, s));
  if (v->src != v->dst) MSCRT_CHECK(mscrt_copies_issue(cu, &v->m->local, v->dst, v->src, s));
  MSCRT_CHECK(mscrt_copies_issue(cu, &v->m->pack, v->staging, v->src, s));
  return mscrt_widen_issue(cu, v->m, v->staging, v->src, s);
}

static mscrt_status *unpack_value(const mscrt_cuda_api *cu, const value *v, cu_stream s) {
  MSCRT_CHECK(mscrt_narrow_issue(cu, v->m, v->dst, v->staging, s));
  return mscrt_copies_issue(cu, &v->m->unpack, v->dst, v->staging, s);
}

static void *source_address(const value *v, const mscrt_move *m) {
  return (void *)(uintptr_t)((m->direct ? v->src : v->staging) + m->at);
}
static void *destination_address(const value *v, const mscrt_move *m) {
  return (void *)(uintptr_t)((m->direct ? v->dst : v->staging) + m->at);
}

static nccl_result issue_send_receive(const mscrt_links *l, const value *v, nccl_comm comm, cu_stream s) {
  nccl_result r = 0;
  for (uint32_t i = 0; i < v->m->num_sends && !r; i++)
    r = l->nccl.ncclSend(source_address(v, &v->m->send[i]), v->m->send[i].bytes, MSCRT_ncclUint8, v->m->send[i].peer,
                         comm, s);
  for (uint32_t i = 0; i < v->m->num_receives && !r; i++)
    r = l->nccl.ncclRecv(destination_address(v, &v->m->receive[i]), v->m->receive[i].bytes, MSCRT_ncclUint8,
                         v->m->receive[i].peer, comm, s);
  return r;
}

static nccl_result issue_exchange(const mscrt_links *l, const value *v, nccl_comm comm, cu_stream s) {
  const mscrt_moves *m = v->m;
  unsigned type = MSCRT_ncclUint8, op = nccl_op(m->e);
  uint64_t count = m->count;
  if (m->form == MSC_EXCHANGE) return issue_send_receive(l, v, comm, s);
  if (!count) return 0;
  if (m->wide_elems) type = m->e->dtype == MSCRT_I16 ? MSCRT_ncclInt32 : MSCRT_ncclUint32;
  else if (!nccl_type(m->e->dtype, &type)) count *= mscrt_dtype_bytes(m->e->dtype);
  void *src = m->wide_elems ? (void *)(uintptr_t)(v->staging + m->wide_at) : source_address(v, &m->send[0]);
  void *dst = m->wide_elems ? (void *)(uintptr_t)(v->staging + m->wide_result) : destination_address(v, &m->receive[0]);
  if (m->form == MSC_ALL_REDUCE) return l->nccl.ncclAllReduce(src, dst, count, type, op, comm, s);
  if (m->form == MSC_ALL_GATHER) return l->nccl.ncclAllGather(src, dst, count, type, comm, s);
  return l->nccl.ncclReduceScatter(src, dst, count, type, op, comm, s);
}

/* Issues all values of a collective as one group of NCCL's, which fuses them. */
static mscrt_status *issue_group(mscrt_context *c, const mscrt_record *r, const mscrt_part *part) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  nccl_comm comm = l->comm[part[0].e->group.partition];
  nccl_result s = l->nccl.ncclGroupStart();
  for (uint32_t i = 0; i < r->num_parts && !s; i++) {
    value v = locate_value(c, r, part, i);
    s = issue_exchange(l, &v, comm, l->stream);
  }
  nccl_result end = l->nccl.ncclGroupEnd();
  return mscrt_links_check(c, comm, s && s != MSCRT_ncclInProgress ? s : end, msc_verb_name(part[0].e->verb));
}

static mscrt_status *issue_on_stream(mscrt_context *c, const mscrt_execution *t, const mscrt_part *part) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  mscrt_links *l = mscrt_cuda_of(c)->links;
  const mscrt_record *r = t->record;
  MSCRT_CHECK(wait_for_calls(c, l->stream));
  if (t->number == 1) l->waited = 0;
  MSCRT_CHECK(tell_begun(c, r, l->stream));
  for (uint32_t i = 0; i < r->num_parts; i++) {
    value v = locate_value(c, r, part, i);
    MSCRT_CHECK(pack_value(cu, &v, l->stream));
  }
  MSCRT_CHECK(issue_group(c, r, part));
  for (uint32_t i = 0; i < r->num_parts; i++) {
    value v = locate_value(c, r, part, i);
    MSCRT_CHECK(unpack_value(cu, &v, l->stream));
  }
  MSCRT_CUDA(cu, cuEventRecord, l->ran[t->number - 1], l->stream);
  return NULL;
}

mscrt_status *mscrt_links_collective(mscrt_context *c, const mscrt_execution *t) {
  char text[MSCRT_LINKS_TEXT];
  mscrt_status *s = issue_on_stream(c, t, mscrt_parts_of(c, t->record, t->slots, false));
  if (s)
    return mscrt_add_prefix(s, "rank %d: step %" PRId64 ": %s", c->o.rank, mscrt_step_number(t->step),
                            mscrt_links_describe(t->record, text));
  if (!c->timeline) return NULL;
  MSCRT_CHECK(mscrt_links_wait_for(c, t->number)); /* otherwise only the launch would be measured */
  return mscrt_cuda_wait_alone(c, t->record);
}

mscrt_status *mscrt_cuda_local_collective(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_part *part = mscrt_parts_of(c, t->record, t->slots, false);
  for (uint32_t i = 0; i < t->record->num_parts; i++) {
    value v = locate_value(c, t->record, part, i);
    MSCRT_CHECK(pack_value(&mscrt_cuda_of(c)->cu, &v, mscrt_cuda_of(c)->stream));
  }
  return NULL;
}

/* ---- messages ---- */

/* Sends from a copy, so that the sender's calls go on as long as there are free slots. */
static mscrt_status *send_copy(mscrt_context *c, mscrt_channel_link *k, const mscrt_record *r, cu_address from) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  uint32_t slot = k->under_way++ % k->depth;
  cu_address copy = k->slots + slot * k->slot_bytes;
  if (k->under_way > k->depth) MSCRT_CUDA(cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, k->moved[slot], 0);
  MSCRT_CUDA(cu, cuMemcpyDtoDAsync_v2, copy, from, r->channel.bytes, mscrt_cuda_of(c)->stream);
  MSCRT_CHECK(wait_for_calls(c, k->stream));
  MSCRT_CHECK(tell_begun(c, r, k->stream));
  MSCRT_CHECK(mscrt_links_check(c, k->comm,
                                mscrt_cuda_of(c)->links->nccl.ncclSend((void *)(uintptr_t)copy, r->channel.bytes,
                                                                       MSCRT_ncclUint8, k->peer, k->comm, k->stream),
                                "sending"));
  MSCRT_CUDA(cu, cuEventRecord, k->moved[slot], k->stream);
  return NULL;
}

static mscrt_status *receive_in_place(mscrt_context *c, mscrt_channel_link *k, const mscrt_record *r, cu_address to) {
  const mscrt_cuda_api *cu = &mscrt_cuda_of(c)->cu;
  MSCRT_CHECK(wait_for_calls(c, k->stream));
  MSCRT_CHECK(tell_begun(c, r, k->stream));
  MSCRT_CHECK(mscrt_links_check(c, k->comm,
                                mscrt_cuda_of(c)->links->nccl.ncclRecv((void *)(uintptr_t)to, r->channel.bytes,
                                                                       MSCRT_ncclUint8, k->peer, k->comm, k->stream),
                                "receiving"));
  MSCRT_CUDA(cu, cuEventRecord, k->moved[0], k->stream);
  MSCRT_CUDA(cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream, k->moved[0], 0);
  return NULL;
}

mscrt_status *mscrt_links_message(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  mscrt_channel_link *k = &mscrt_cuda_of(c)->links->channel[r->index];
  cu_address at = (cu_address)(uintptr_t)mscrt_buffer_in_slots(r, 0, t->slots);
  return r->receives ? receive_in_place(c, k, r, at) : send_copy(c, k, r, at);
}

void mscrt_links_begin(mscrt_links *l) {
  for (uint32_t i = 0; i < l->num_channels; i++) l->channel[i].under_way = 0;
}

/* The last event of each stream is enough: it comes after all others of the stream. */
mscrt_status *mscrt_links_join(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  for (uint32_t i = 0; i < l->num_channels; i++) {
    mscrt_channel_link *k = &l->channel[i];
    if (k->under_way)
      MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuStreamWaitEvent, mscrt_cuda_of(c)->stream,
                 k->moved[(k->under_way - 1) % k->depth], 0);
  }
  return NULL;
}
