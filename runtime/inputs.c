/* inputs.c: sets a batch: copies it into the arena, or borrows it, so that calls read the caller's memory.  With
 * micro-batches, each takes its part of the whole batch. */
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

/* ---- which batches ---- */

/* The boxes for a copy of what micro-batch `micro` takes: from a batch of `num` micro-batches, or of this rank's part
 * of it. */
typedef struct {
  msc_box piece, buffer, given;
} boxes;

static boxes boxes_of(const mscrt_context *c, const mscrt_variable *v, bool is_part, int64_t num, int64_t micro) {
  boxes b = {0};
  mscrt_variable_box(c->plan, v, c->o.rank, &b.piece, &b.buffer);
  memcpy(b.given.size, v->shape, sizeof b.given.size);
  if (is_part) b.given = b.piece;
  if (num == 1) return b;
  int64_t shift = micro * b.given.size[v->batch_dim];
  b.piece.begin[v->batch_dim] += shift;
  b.buffer.begin[v->batch_dim] += shift;
  b.given.size[v->batch_dim] *= num;
  return b;
}

static uint64_t given_bytes(const mscrt_variable *v, const boxes *b) {
  uint64_t bytes = 0;
  mscrt_shape_bytes(v->rank, b->given.size, mscrt_dtype_bytes(v->dtype), &bytes);
  return bytes;
}

static void copy_batch(const mscrt_context *c, const mscrt_variable *v, const boxes *b, const void *data, int slot) {
  msc_box_copy(v->rank, &b->piece, &b->buffer, mscrt_at(c, v->ref, slot), &b->given, data,
               mscrt_dtype_bytes(v->dtype));
}

/* The micro-batches for which a step takes parts of this input. */
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

void mscrt_take_inputs(mscrt_context *c, uint32_t micro, int slot) {
  for (uint32_t i = 0; i < c->plan->num_inputs; i++) {
    const mscrt_variable *v = &c->plan->input[i];
    if (!c->input[i].step) continue;
    boxes b = boxes_of(c, v, c->input[i].is_part, num_micro(c, v), micro);
    copy_batch(c, v, &b, c->input[i].step, slot);
  }
}

/* ---- borrowing ---- */

/* Finds all places that know an input's address, once; an input that cannot be borrowed has none. */
static mscrt_status *prepare_borrowing(mscrt_context *c, const mscrt_variable *v, mscrt_given *g) {
  if (num_micro(c, v) > 1) return NULL;
  for (uint32_t i = 0; i < c->plan->num_outputs; i++)
    if (mscrt_refs_overlap(c->plan->output[i].ref, v->ref)) return NULL;
  return mscrt_find_places(c, v, 0, c->plan->num_sections, &g->places);
}

void mscrt_return_inputs(mscrt_context *c) {
  for (uint32_t i = 0; i < c->plan->num_inputs; i++)
    mscrt_point_places(&c->input[i].places, mscrt_at(c, c->plan->input[i].ref, 0));
}

void mscrt_free_inputs(mscrt_context *c) {
  for (uint32_t i = 0; c->input && i < c->plan->num_inputs; i++) {
    free(c->input[i].kept);
    mscrt_free_places(&c->input[i].places);
  }
  free(c->input);
}

/* ---- setting ---- */

/* Sets the batch of a whole step; kept, or the caller's. */
static mscrt_status *set_step(mscrt_given *g, const void *data, size_t bytes, bool borrow) {
  if (!borrow && g->kept_bytes != bytes) {
    free(g->kept);
    g->kept = NULL;
    g->kept_bytes = 0;
    MSCRT_CHECK(mscrt_allocate(&g->kept, bytes, 1));
    g->kept_bytes = bytes;
  }
  if (!borrow) memcpy(g->kept, data, bytes);
  g->step = borrow ? data : g->kept;
  return NULL;
}

/* Sets the one batch that every run takes. */
static mscrt_status *set_batch(mscrt_context *c, const mscrt_variable *v, mscrt_given *g, const boxes *b,
                               const void *data, bool borrow) {
  g->step = NULL;
  if (borrow) MSCRT_CHECK(prepare_borrowing(c, v, g));
  if (borrow && g->places.place && (uintptr_t)data % mscrt_dtype_bytes(v->dtype) == 0) {
    mscrt_point_places(&g->places, (void *)(uintptr_t)data);
    return NULL;
  }
  mscrt_point_places(&g->places, mscrt_at(c, v->ref, 0));
  uint64_t slots = mscrt_train_micro(c->plan) > 1 ? c->input_slots : c->plan->copies;
  for (uint64_t slot = 0; slot < slots; slot++) copy_batch(c, v, b, data, (int)slot);
  return mscrt_store(c, c->space_at[PLAN_SPACE_INPUT] + v->ref.offset, mscrt_variable_bytes(v));
}

static mscrt_status *set_input(mscrt_context *c, const char *name, const void *data, size_t bytes, bool is_part,
                               bool borrow) {
  MSCRT_CHECK(mscrt_check_holds_values(c));
  const mscrt_variable *v = mscrt_find_variable(c->plan->num_inputs, c->plan->input, name);
  if (!v) return mscrt_fail(MSCRT_ARGUMENT, "the model has no input '%s'", name);
  if (c->feed) return mscrt_fail(MSCRT_ARGUMENT, "inputs come from a data set already");
  mscrt_given *g = &c->input[v - c->plan->input];
  int64_t num = num_micro(c, v);
  boxes one = boxes_of(c, v, is_part, 1, 0), all = boxes_of(c, v, is_part, num, 0);
  bool is_step = num > 1 && bytes == given_bytes(v, &all);
  if (!is_step && bytes != given_bytes(v, &one))
    return mscrt_fail(MSCRT_ARGUMENT, "%sinput '%s' has %" PRIu64 " bytes, not %zu",
                      is_part ? "this rank's part of " : "", name, given_bytes(v, num > 1 ? &all : &one), bytes);
  g->is_part = is_part;
  MSCRT_CHECK(is_step ? set_step(g, data, bytes, borrow) : set_batch(c, v, g, &one, data, borrow));
  g->set = true;
  return NULL;
}

mscrt_status *mscrt_set_input(mscrt_context *c, const char *name, const void *batch, size_t bytes) {
  return set_input(c, name, batch, bytes, false, false);
}

mscrt_status *mscrt_borrow_input(mscrt_context *c, const char *name, const void *batch, size_t bytes) {
  return set_input(c, name, batch, bytes, false, true);
}

mscrt_status *mscrt_set_part(mscrt_context *c, const char *name, const void *part, size_t bytes) {
  return set_input(c, name, part, bytes, true, false);
}
