/* shared_parameters.c: another context in; a context whose parameters lie in the memory of the other one out: a plan
 * that trains and one that predicts, or plans for several sizes of a batch, share one copy of the model. */
#include <stdlib.h>
#include <string.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"

/* ---- addresses of shared parameters ---- */

const mscrt_shared_span *mscrt_find_shared(const mscrt_context *c, plan_ref r) {
  uint32_t from = 0, to = c->num_shared; /* spans are in order and do not overlap */
  while (r.space == PLAN_SPACE_PERSISTENT && from < to) {
    uint32_t middle = from + (to - from) / 2;
    const mscrt_shared_span *s = &c->shared[middle];
    if (r.offset < s->offset) to = middle;
    else if (r.offset >= s->offset + s->bytes) from = middle + 1;
    else return s;
  }
  return NULL;
}

void *mscrt_shared_at(const mscrt_context *c, plan_ref r) {
  const mscrt_shared_span *s = mscrt_find_shared(c, r);
  return s ? s->address + (r.offset - s->offset) : NULL;
}

/* ---- the step that contexts count together ---- */

void mscrt_set_step(mscrt_context *c, int64_t step) {
  for (; c; c = c->o.parameters_of) c->step = step;
}

int64_t mscrt_next_step(const mscrt_context *c) {
  while (c->o.parameters_of) c = c->o.parameters_of;
  return c->step;
}

/* ---- finding shared parameters ---- */

static bool is_one_piece(const mscrt_variable *v, const msc_box *box, const msc_box *buffer) {
  for (int d = 0; d < v->rank; d++)
    if (box->size[d] != v->shape[d] || buffer->size[d] != v->shape[d]) return false;
  return true;
}

/* True if this rank holds the same elements of a variable in both plans, in the same order and with the same padding.
 * A variable that both hold whole may have different dimensions in memory. */
static bool have_same_elements(const mscrt_context *a, const mscrt_variable *va, const mscrt_context *b,
                               const mscrt_variable *vb) {
  msc_box box_a, box_b, buffer_a, buffer_b;
  if (va->dtype != vb->dtype || mscrt_whole_bytes(va) != mscrt_whole_bytes(vb)) return false;
  mscrt_variable_box(a->plan, va, a->o.rank, &box_a, &buffer_a);
  mscrt_variable_box(b->plan, vb, b->o.rank, &box_b, &buffer_b);
  if (is_one_piece(va, &box_a, &buffer_a) && is_one_piece(vb, &box_b, &buffer_b)) return true;
  if (va->rank != vb->rank) return false;
  for (int d = 0; d < va->rank; d++)
    if (va->shape[d] != vb->shape[d] || box_a.begin[d] != box_b.begin[d] || box_a.size[d] != box_b.size[d] ||
        buffer_a.size[d] != buffer_b.size[d])
      return false;
  return true;
}

static int compare_offsets(const void *a, const void *b) {
  uint64_t at_a = ((const mscrt_shared_span *)a)->offset, at_b = ((const mscrt_shared_span *)b)->offset;
  return (at_a > at_b) - (at_a < at_b);
}

static mscrt_status *share_variable(mscrt_context *c, const mscrt_context *owner, const mscrt_variable *v) {
  const mscrt_variable *own = mscrt_find_variable(owner->plan->num_parameters, owner->plan->parameter, v->name);
  if (!own && v->state) return NULL;
  if (!own) return mscrt_fail(MSCRT_INPUT, "the other plan has no parameter '%s' that this one could have", v->name);
  if (v->ref.space != PLAN_SPACE_PERSISTENT || own->ref.space != PLAN_SPACE_PERSISTENT)
    return mscrt_fail(MSCRT_UNSUPPORTED, "'%s' does not live on the device: it is not shared by two plans", v->name);
  if (v->stage != own->stage || !have_same_elements(c, v, owner, own))
    return mscrt_fail(MSCRT_INPUT,
                      "'%s' is cut or typed otherwise than in the plan whose parameters this one is to have: compile "
                      "both with the same layouts and types",
                      v->name);
  if (v->stage == c->stage)
    c->shared[c->num_shared++] =
        (mscrt_shared_span){v->ref.offset, mscrt_variable_bytes(v), mscrt_address_of(owner, own->ref, 0)};
  return NULL;
}

static mscrt_status *check_owner(const mscrt_context *c, const mscrt_context *owner) {
  const mscrt_options *o = &c->o;
  if (owner->o.ranks != o->ranks || owner->o.rank != o->rank)
    return mscrt_fail(MSCRT_ARGUMENT, "the parameters of rank %d of %d are not those of rank %d of %d", owner->o.rank,
                      owner->o.ranks, o->rank, o->ranks);
  if (!c->device->uses_arena || owner->device != c->device)
    return mscrt_fail(MSCRT_UNSUPPORTED, "two plans have the same parameters on the device cpu, not on '%s'",
                      c->device->name);
  if (o->recover || owner->o.recover || o->servers || owner->o.servers)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "parameters that lie with servers, or that lost ranks get back, are not shared "
                      "by two plans");
  return mscrt_check_not_broken(owner);
}

mscrt_status *mscrt_share_parameters(mscrt_context *c) {
  const mscrt_context *owner = c->o.parameters_of;
  if (!owner) return NULL;
  MSCRT_CHECK(check_owner(c, owner));
  MSCRT_CHECK(mscrt_new_array(&c->shared, c->plan->num_parameters + 1));
  for (uint32_t i = 0; i < c->plan->num_parameters; i++) MSCRT_CHECK(share_variable(c, owner, &c->plan->parameter[i]));
  qsort(c->shared, c->num_shared, sizeof *c->shared, compare_offsets);
  return NULL;
}

/* ---- calls that use them ---- */

/* Returns a status if a buffer lies partly in a shared parameter, or if other ranks read it in the arena. */
static mscrt_status *check_buffers(const mscrt_context *c, const mscrt_record *r) {
  uint32_t num = !r ? 0 : r->num_parts ? 2 * r->num_parts : r->num_buffers;
  for (uint32_t i = 0; i < num; i++) {
    plan_ref last = r->ref[i];
    last.offset += last.bytes ? last.bytes - 1 : 0;
    const mscrt_shared_span *s = mscrt_find_shared(c, r->ref[i]);
    bool others_read = r->num_parts || r->kind == PLAN_CALL_KIND_MESSAGE;
    if (s != mscrt_find_shared(c, last) || (s && others_read))
      return mscrt_fail(MSCRT_UNSUPPORTED,
                        "call %s needs parameters in memory of its own plan: they cannot be those of "
                        "another",
                        r->name);
  }
  return r && r->epilogue ? check_buffers(c, r->epilogue) : NULL;
}

mscrt_status *mscrt_check_shared(const mscrt_context *c) {
  for (uint32_t s = 0; c->num_shared && s < c->plan->num_sections; s++)
    for (uint32_t i = 0; i < c->section[s].num_calls; i++) MSCRT_CHECK(check_buffers(c, &c->section[s].call[i]));
  return NULL;
}
