/* host_collective.c: runs collectives and messages of GPUs through the host: copies values to the memory that ranks
 * share, exchanges them there and copies results back.  Any number of ranks may use one GPU.  Simple rather than fast:
 * every exchange waits. */
#include "runtime/cuda/cuda.h"
#include "runtime/execute/execute.h"

mscrt_status *mscrt_cuda_copy_down(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  if (bytes)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyDtoHAsync_v2, c->arena + offset,
               (cu_address)(uintptr_t)(c->memory + offset), bytes, mscrt_cuda_of(c)->stream);
  return NULL;
}

mscrt_status *mscrt_cuda_copy_up(mscrt_context *c, uint64_t offset, uint64_t bytes) {
  if (bytes)
    MSCRT_CUDA(&mscrt_cuda_of(c)->cu, cuMemcpyHtoDAsync_v2, (cu_address)(uintptr_t)(c->memory + offset),
               c->arena + offset, bytes, mscrt_cuda_of(c)->stream);
  return NULL;
}

/* Waits until other ranks no longer read the host's memory. */
mscrt_status *mscrt_cuda_host_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                         mscrt_ticket *out_ticket) {
  const mscrt_record *r = t->record;
  const mscrt_part *part = mscrt_parts_of(c, r, t->slots, false);
  mscrt_site site = {r->name, r->loc, t->step};
  MSCRT_CHECK(mscrt_cuda_wait_alone(c, r));
  for (uint32_t i = 0; i < r->num_parts; i++) MSCRT_CHECK(mscrt_cuda_copy_down(c, part[i].src, part[i].e->src_bytes));
  MSCRT_CHECK(mscrt_cuda_wait(c));
  MSCRT_CHECK(c->transport->run(c->comm, pool, r->num_parts, part, &site, out_ticket));
  if (c->transport->lingers(r->num_parts, part) != MSCRT_LINGERS_NOT)
    MSCRT_CHECK(c->transport->finish(c->comm, part[0].e, *out_ticket, &site));
  for (uint32_t i = 0; i < r->num_parts; i++)
    MSCRT_CHECK(mscrt_cuda_copy_up(c, (uint64_t)((uint8_t *)part[i].dst - c->arena), part[i].e->dst_bytes));
  return mscrt_cuda_wait(c);
}

mscrt_status *mscrt_cuda_host_message(mscrt_context *c, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  mscrt_site site = {r->name, r->loc, t->step};
  uint64_t offset = (uint64_t)((uint8_t *)mscrt_buffer_in_slots(r, 0, t->slots) - c->memory);
  if (r->receives) {
    MSCRT_CHECK(c->transport->receive(c->comm, &r->channel, c->arena + offset, &site));
    MSCRT_CHECK(mscrt_cuda_copy_up(c, offset, r->channel.bytes));
    return mscrt_cuda_wait(c);
  }
  MSCRT_CHECK(mscrt_cuda_wait_alone(c, r));
  MSCRT_CHECK(mscrt_cuda_copy_down(c, offset, r->channel.bytes));
  MSCRT_CHECK(mscrt_cuda_wait(c));
  return c->transport->send(c->comm, &r->channel, c->arena + offset, &site);
}
