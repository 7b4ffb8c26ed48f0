/* borrow.c: memory of the caller for an input or an output in; records whose pointers point to that memory instead of
 * the arena out. */
#include <stdlib.h>
#include <string.h>

#include "runtime/execute/execute.h"
#include "runtime/memory/memory.h"

/* ---- the pointers in records ---- */

static bool is_inside(plan_ref whole, plan_ref r) {
  return r.space == whole.space && r.offset >= whole.offset && r.offset + r.bytes <= whole.offset + whole.bytes;
}

bool mscrt_refs_overlap(plan_ref a, plan_ref b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/* Counts the pointers in a call that point into the variable `whole`, and stores them if p has arrays. False: the call
 * does not allow the variable to lie elsewhere than in the arena. */
static bool find_pointers_in_call(plan_ref whole, bool is_input, mscrt_record *r, mscrt_pointers *p) {
  for (uint32_t i = 0; r && i < r->num_buffers; i++) {
    if (!mscrt_refs_overlap(whole, r->ref[i])) continue;
    if (!is_inside(whole, r->ref[i]) || (is_input && r->ref[i].written) || r->kind == PLAN_CALL_KIND_MESSAGE)
      return false;
    if (p->pointer) {
      p->pointer[p->num] = &r->buffers[i];
      p->offset[p->num] = r->ref[i].offset - whole.offset;
    }
    p->num++;
  }
  return !r || !r->epilogue || find_pointers_in_call(whole, is_input, r->epilogue, p);
}

static bool find_pointers_in_sections(mscrt_context *c, plan_ref whole, bool is_input, uint32_t first, uint32_t num,
                                      mscrt_pointers *p) {
  p->num = 0;
  for (uint32_t s = first; s < first + num; s++)
    for (uint32_t i = 0; i < c->section[s].num_calls; i++)
      if (c->section[s].call[i].part || !find_pointers_in_call(whole, is_input, &c->section[s].call[i], p))
        return false;
  return true;
}

mscrt_status *mscrt_find_pointers(mscrt_context *c, const mscrt_variable *v, uint32_t first, uint32_t num,
                                  mscrt_pointers *p) {
  if (p->known) return NULL;
  p->known = true;
  if (c->o.ranks > 1 || !c->device->uses_arena || c->plan->copies > 1) return NULL;
  plan_ref whole = v->ref;
  whole.bytes = mscrt_variable_bytes(v);
  bool is_input = whole.space == PLAN_SPACE_INPUT;
  if (!find_pointers_in_sections(c, whole, is_input, first, num, p)) return NULL;
  MSCRT_CHECK(mscrt_new_array(&p->pointer, p->num + 1));
  MSCRT_CHECK(mscrt_new_array(&p->offset, p->num + 1));
  find_pointers_in_sections(c, whole, is_input, first, num, p);
  return NULL;
}

void mscrt_redirect_pointers(const mscrt_pointers *p, void *data) {
  for (uint32_t i = 0; p->pointer && i < p->num; i++) *p->pointer[i] = (char *)data + p->offset[i];
}

void mscrt_free_pointers(mscrt_pointers *p) {
  free(p->pointer);
  free(p->offset);
  *p = (mscrt_pointers){0};
}

/* ---- outputs ---- */

/* True if calls may write an output to memory of the caller. Values that share its bytes in the arena at other times
 * then lie in that memory too. */
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
  MSCRT_NEEDS(c && section && name);
  uint32_t i = 0;
  MSCRT_CHECK(find_output(c, section, name, &i));
  const mscrt_variable *v = &c->plan->output[i];
  if (c->o.ranks > 1) return mscrt_fail(MSCRT_ARGUMENT, "on several ranks outputs are read: mscrt_read");
  if (data && bytes != mscrt_whole_bytes(v))
    return mscrt_fail(MSCRT_ARGUMENT, "output '%s' has %" PRIu64 " bytes, not %zu", name, mscrt_whole_bytes(v), bytes);
  if (!c->output) MSCRT_CHECK(mscrt_new_array(&c->output, c->plan->num_outputs));
  mscrt_caller_output *t = &c->output[i];
  if (data && may_lie_elsewhere(c, v))
    MSCRT_CHECK(mscrt_find_pointers(c, v, c->program[v->program].entry[0].section, 1, &t->pointers));
  bool direct = data && t->pointers.pointer && (uintptr_t)data % mscrt_dtype_bytes(v->dtype) == 0;
  mscrt_redirect_pointers(&t->pointers, direct ? data : mscrt_address_of(c, v->ref, 0));
  t->data = data;
  t->direct = direct;
  return NULL;
}

const void *mscrt_output_in_caller_memory(const mscrt_context *c, const mscrt_variable *v) {
  bool is_output = c->output && v >= c->plan->output && v < c->plan->output + c->plan->num_outputs;
  const mscrt_caller_output *t = is_output ? &c->output[v - c->plan->output] : NULL;
  return t && t->direct ? t->data : NULL;
}

void mscrt_free_outputs(mscrt_context *c) {
  for (uint32_t i = 0; c->output && i < c->plan->num_outputs; i++) mscrt_free_pointers(&c->output[i].pointers);
  free(c->output);
}
