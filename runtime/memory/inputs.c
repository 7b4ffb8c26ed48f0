/* inputs.c: a batch of the caller in; copies it into the arena, or borrows it: calls then read the caller's memory.
 * With micro-batches, each reads its part of the whole batch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"

/* ---- which batches ---- */

/* The boxes of a copy of the part of a batch that this rank reads for one micro-batch. */
typedef struct {
  msc_box piece;  /* the box that is copied */
  msc_box buffer; /* the box of the destination */
  msc_box source; /* of the memory that the caller passed: `num` micro-batches, whole or this rank's parts of them */
} boxes;

static boxes boxes_of(const mscrt_context *c, const mscrt_variable *v, bool is_part, int64_t num, int64_t micro) {
  boxes b = {0};
  mscrt_variable_box(c->plan, v, c->o.rank, &b.piece, &b.buffer);
  memcpy(b.source.size, v->shape, sizeof b.source.size);
  if (is_part) b.source = b.piece;
  if (num == 1) return b;
  int64_t shift = micro * b.source.size[v->batch_dim];
  b.piece.begin[v->batch_dim] += shift;
  b.buffer.begin[v->batch_dim] += shift;
  b.source.size[v->batch_dim] *= num;
  return b;
}

static uint64_t source_bytes(const mscrt_variable *v, const boxes *b) {
  uint64_t bytes = 0;
  mscrt_shape_bytes(v->rank, b->source.size, mscrt_dtype_bytes(v->dtype), &bytes);
  return bytes;
}

static void copy_batch(const mscrt_context *c, const mscrt_variable *v, const boxes *b, const void *data, int slot) {
  msc_box_copy(v->rank, &b->piece, &b->buffer, mscrt_address_of(c, v->ref, slot), &b->source, data,
               mscrt_dtype_bytes(v->dtype));
}

/* Returns the number of micro-batches of a step that read different parts of this input. */
static int64_t num_micro(const mscrt_context *c, const mscrt_variable *v) {
  return v->batch_dim < 0 || c->device->runs_programs ? 1 : mscrt_train_micro(c->plan);
}

mscrt_status *mscrt_check_inputs(const mscrt_context *c, uint32_t program) {
  uint32_t micro = c->program[program].micro;
  for (uint32_t i = 0; i < c->plan->num_inputs && c->device->holds_values; i++) {
    const mscrt_variable *v = &c->plan->input[i];
    if (!c->input[i].set) return mscrt_fail(MSCRT_ARGUMENT, "input '%s' has no data", v->name);
    if (micro > 1 && c->device->runs_programs)
      return mscrt_fail(MSCRT_UNSUPPORTED,
                        "a step takes %u micro-batches, and on a GPU inputs are set for one: give a data set", micro);
    if (micro > 1 && v->batch_dim >= 0 && !c->input[i].step)
      return mscrt_fail(MSCRT_ARGUMENT, "input '%s' was set for one micro-batch, and a step takes %u at once", v->name,
                        micro);
    if (micro == 1 && c->input[i].step)
      return mscrt_fail(MSCRT_ARGUMENT, "input '%s' was set for the %" PRId64 " micro-batches of a step, not for one",
                        v->name, num_micro(c, v));
  }
  return NULL;
}

void mscrt_copy_inputs(mscrt_context *c, uint32_t micro, int slot) {
  for (uint32_t i = 0; i < c->plan->num_inputs; i++) {
    const mscrt_variable *v = &c->plan->input[i];
    if (!c->input[i].step) continue;
    boxes b = boxes_of(c, v, c->input[i].is_part, num_micro(c, v), micro);
    copy_batch(c, v, &b, c->input[i].step, slot);
  }
}

/* ---- borrowing ---- */

/* Finds, once, all pointers to an input; an input that cannot be borrowed gets none. */
static mscrt_status *prepare_borrowing(mscrt_context *c, const mscrt_variable *v, mscrt_caller_input *g) {
  if (num_micro(c, v) > 1) return NULL;
  for (uint32_t i = 0; i < c->plan->num_outputs; i++)
    if (mscrt_refs_overlap(c->plan->output[i].ref, v->ref)) return NULL;
  return mscrt_find_pointers(c, v, 0, c->plan->num_sections, &g->pointers);
}

void mscrt_unborrow_inputs(mscrt_context *c) {
  for (uint32_t i = 0; i < c->plan->num_inputs; i++)
    mscrt_redirect_pointers(&c->input[i].pointers, mscrt_address_of(c, c->plan->input[i].ref, 0));
}

void mscrt_free_inputs(mscrt_context *c) {
  for (uint32_t i = 0; c->input && i < c->plan->num_inputs; i++) {
    free(c->input[i].copy);
    mscrt_free_pointers(&c->input[i].pointers);
  }
  free(c->input);
}

/* ---- setting ---- */

/* Sets the batch of a whole step: a copy of `data`, or `data` itself if it is borrowed. */
static mscrt_status *set_step(mscrt_caller_input *g, const void *data, size_t bytes, bool borrow) {
  if (!borrow && g->copy_bytes != bytes) {
    free(g->copy);
    g->copy = NULL;
    g->copy_bytes = 0;
    MSCRT_CHECK(mscrt_allocate(&g->copy, bytes, 1));
    g->copy_bytes = bytes;
  }
  if (!borrow) memcpy(g->copy, data, bytes);
  g->step = borrow ? data : g->copy;
  return NULL;
}

/* Sets a batch that every run reads whole: copies it to all its slots, or points calls to it. */
static mscrt_status *set_batch(mscrt_context *c, const mscrt_variable *v, mscrt_caller_input *g, const boxes *b,
                               const void *data, bool borrow) {
  g->step = NULL;
  if (borrow) MSCRT_CHECK(prepare_borrowing(c, v, g));
  if (borrow && g->pointers.pointer && (uintptr_t)data % mscrt_dtype_bytes(v->dtype) == 0) {
    mscrt_redirect_pointers(&g->pointers, (void *)(uintptr_t)data);
    return NULL;
  }
  mscrt_redirect_pointers(&g->pointers, mscrt_address_of(c, v->ref, 0));
  uint64_t slots = mscrt_train_micro(c->plan) > 1 ? c->input_slots : c->plan->copies;
  for (uint64_t slot = 0; slot < slots; slot++) copy_batch(c, v, b, data, (int)slot);
  return mscrt_store(c, c->space_offset[PLAN_SPACE_INPUT] + v->ref.offset, mscrt_variable_bytes(v));
}

static mscrt_status *set_input(mscrt_context *c, const char *name, const void *data, size_t bytes, bool is_part,
                               bool borrow) {
  MSCRT_CHECK(mscrt_check_holds_values(c));
  const mscrt_variable *v = mscrt_find_variable(c->plan->num_inputs, c->plan->input, name);
  if (!v) return mscrt_fail(MSCRT_ARGUMENT, "the model has no input '%s'", name);
  if (c->feed) return mscrt_fail(MSCRT_ARGUMENT, "inputs come from a data set already");
  mscrt_caller_input *g = &c->input[v - c->plan->input];
  int64_t num = num_micro(c, v);
  boxes one = boxes_of(c, v, is_part, 1, 0), all = boxes_of(c, v, is_part, num, 0);
  bool is_step = num > 1 && bytes == source_bytes(v, &all);
  if (!is_step && bytes != source_bytes(v, &one))
    return mscrt_fail(MSCRT_ARGUMENT, "%sinput '%s' has %" PRIu64 " bytes, not %zu",
                      is_part ? "this rank's part of " : "", name, source_bytes(v, num > 1 ? &all : &one), bytes);
  g->is_part = is_part;
  MSCRT_CHECK(is_step ? set_step(g, data, bytes, borrow) : set_batch(c, v, g, &one, data, borrow));
  g->set = true;
  return NULL;
}

mscrt_status *mscrt_set_input(mscrt_context *c, const char *name, const void *batch, size_t bytes) {
  MSCRT_NEEDS(c && name && (batch || !bytes));
  return set_input(c, name, batch, bytes, false, false);
}

mscrt_status *mscrt_borrow_input(mscrt_context *c, const char *name, const void *batch, size_t bytes) {
  MSCRT_NEEDS(c && name && (batch || !bytes));
  return set_input(c, name, batch, bytes, false, true);
}

mscrt_status *mscrt_set_part(mscrt_context *c, const char *name, const void *part, size_t bytes) {
  MSCRT_NEEDS(c && name && (part || !bytes));
  return set_input(c, name, part, bytes, true, false);
}
