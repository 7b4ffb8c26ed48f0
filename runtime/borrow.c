/* borrow.c: memory of the caller in, which stands for an input or an output: calls get its address instead of the
 * arena's. */
#include <stdlib.h>
#include <string.h>

#include "runtime/context.h"

/* ---- the addresses that calls have ---- */

static bool is_inside(plan_ref whole, plan_ref r) {
  return r.space == whole.space && r.offset >= whole.offset && r.offset + r.bytes <= whole.offset + whole.bytes;
}

bool mscrt_refs_overlap(plan_ref a, plan_ref b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/* Finds the addresses in a call that lie inside `whole`, and stores them if p has room. False: the call does not allow
 * the value to lie elsewhere than in the arena. */
static bool find_places_in_call(plan_ref whole, bool is_input, mscrt_record *r, mscrt_places *p) {
  for (uint32_t i = 0; r && i < r->num_buffers; i++) {
    if (!mscrt_refs_overlap(whole, r->ref[i])) continue;
    if (!is_inside(whole, r->ref[i]) || (is_input && r->ref[i].written) || r->kind == PLAN_CALL_KIND_MESSAGE)
      return false;
    if (p->place) {
      p->place[p->num] = &r->buffers[i];
      p->offset[p->num] = r->ref[i].offset - whole.offset;
    }
    p->num++;
  }
  return !r || !r->epilogue || find_places_in_call(whole, is_input, r->epilogue, p);
}

static bool find_places_in_sections(mscrt_context *c, plan_ref whole, bool is_input, uint32_t first, uint32_t num,
                                    mscrt_places *p) {
  p->num = 0;
  for (uint32_t s = first; s < first + num; s++)
    for (uint32_t i = 0; i < c->section[s].num_calls; i++)
      if (c->section[s].call[i].part || !find_places_in_call(whole, is_input, &c->section[s].call[i], p)) return false;
  return true;
}

mscrt_status *mscrt_find_places(mscrt_context *c, const mscrt_variable *v, uint32_t first, uint32_t num,
                                mscrt_places *p) {
  if (p->known) return NULL;
  p->known = true;
  if (c->o.ranks > 1 || !c->device->uses_arena || c->plan->copies > 1) return NULL;
  plan_ref whole = v->ref;
  whole.bytes = mscrt_variable_bytes(v);
  bool is_input = whole.space == PLAN_SPACE_INPUT;
  if (!find_places_in_sections(c, whole, is_input, first, num, p)) return NULL;
  MSCRT_CHECK(mscrt_new_array(&p->place, p->num + 1));
  MSCRT_CHECK(mscrt_new_array(&p->offset, p->num + 1));
  find_places_in_sections(c, whole, is_input, first, num, p);
  return NULL;
}

void mscrt_point_places(const mscrt_places *p, void *data) {
  for (uint32_t i = 0; p->place && i < p->num; i++) *p->place[i] = (char *)data + p->offset[i];
}

void mscrt_free_places(mscrt_places *p) {
  free(p->place);
  free(p->offset);
  *p = (mscrt_places){0};
}

/* ---- outputs ---- */

/* May an output lie in memory of the caller? Other values may share its bytes at other times; they then lie
 * there too. */
static bool may_lie_elsewhere(const mscrt_context *c, const mscrt_variable *v) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < c->plan->num_outputs; i++)
    others += &c->plan->output[i] != v && mscrt_refs_overlap(c->plan->output[i].ref, v->ref);
  return v->ref.space == PLAN_SPACE_SCRATCH && !others &&
         c->program[v->program].num == 1 && c->program[v->program].loss != v;
}

static mscrt_status *find_output(const mscrt_context *c, const char *section, const char *name, uint32_t *out_index) {
  uint32_t program;
  MSCRT_CHECK(mscrt_check_holds_values(c));
  if (!mscrt_find_program(c->plan, section, &program))
    return mscrt_fail(MSCRT_INPUT, "the plan has no section '%s'", section);
  for (*out_index = 0; *out_index < c->plan->num_outputs; ++*out_index) {
    const mscrt_variable *v = &c->plan->output[*out_index];
    if (v->program == program && !strcmp(v->name, name)) return NULL;
  }
  return mscrt_fail(MSCRT_ARGUMENT, "section '%s' has no output '%s'", section, name);
}

mscrt_status *mscrt_borrow_output(mscrt_context *c, const char *section, const char *name, void *data, size_t bytes) {
  uint32_t i = 0;
  MSCRT_CHECK(find_output(c, section, name, &i));
  const mscrt_variable *v = &c->plan->output[i];
  if (c->o.ranks > 1) return mscrt_fail(MSCRT_ARGUMENT, "on several ranks outputs are read: mscrt_read");
  if (data && bytes != mscrt_whole_bytes(v))
    return mscrt_fail(MSCRT_ARGUMENT, "output '%s' has %" PRIu64 " bytes, not %zu", name, mscrt_whole_bytes(v), bytes);
  if (!c->output) MSCRT_CHECK(mscrt_new_array(&c->output, c->plan->num_outputs));
  mscrt_taken *t = &c->output[i];
  if (data && may_lie_elsewhere(c, v))
    MSCRT_CHECK(mscrt_find_places(c, v, c->program[v->program].entry[0].section, 1, &t->places));
  bool direct = data && t->places.place && (uintptr_t)data % mscrt_dtype_bytes(v->dtype) == 0;
  mscrt_point_places(&t->places, direct ? data : mscrt_at(c, v->ref, 0));
  t->data = data;
  t->direct = direct;
  return NULL;
}

const void *mscrt_taken_at(const mscrt_context *c, const mscrt_variable *v) {
  bool is_output = c->output && v >= c->plan->output && v < c->plan->output + c->plan->num_outputs;
  const mscrt_taken *t = is_output ? &c->output[v - c->plan->output] : NULL;
  return t && t->direct ? t->data : NULL;
}

void mscrt_free_outputs(mscrt_context *c) {
  for (uint32_t i = 0; c->output && i < c->plan->num_outputs; i++) mscrt_free_places(&c->output[i].places);
  free(c->output);
}
