/* memory_use.c: the calls of a section in; for each call the bytes of scratch whose values are still needed while it
 * runs out. They follow from the finished plan, after passes/8_memory has placed its values. */
#include <string.h>

#include "codegen/plan/simulate.h"

/* A value in scratch: bytes [begin, end), which call `made` writes and call `read` is the last to read. */
typedef struct {
  uint64_t begin, end;
  uint32_t made, read;
} life;

typedef struct {
  msc_arena *arena;
  size_t num_all, num_live;
  life *all;
  uint32_t *live; /* numbers of those that later calls may still read */
} lives;

static bool meets(const life *l, uint64_t begin, uint64_t end) { return l->begin < end && begin < l->end; }

static void note_read(lives *l, uint64_t begin, uint64_t end, uint32_t call) {
  for (size_t i = 0; i < l->num_live; i++) {
    life *v = &l->all[l->live[i]];
    if (meets(v, begin, end)) v->read = call;
  }
}

/* Notes that a call writes [begin, end): values that were there end. A value that the same call still reads ends
 * before it, so that these bytes are not counted twice. */
static void note_write(lives *l, uint64_t begin, uint64_t end, uint32_t call) {
  size_t kept = 0;
  for (size_t i = 0; i < l->num_live; i++) {
    life *v = &l->all[l->live[i]];
    if (v->made == call && v->begin <= begin && end <= v->end) return; /* the same call wrote it already */
    if (!meets(v, begin, end)) l->live[kept++] = l->live[i];
    else if (v->read == call) v->read--;
  }
  l->num_live = kept;
  msc_grow(l->arena, l->all, l->num_all);
  msc_grow(l->arena, l->live, l->num_live);
  l->all[l->num_all] = (life){begin, end, call, call};
  l->live[l->num_live++] = (uint32_t)l->num_all++;
}

static void note_buffers(lives *l, plan_call c, uint32_t call, bool written) {
  for (uint32_t i = 0; i < plan_call_buffers_num(c); i++) {
    plan_ref r = plan_call_buffers(c, i);
    if (r.space != PLAN_SPACE_SCRATCH || !r.bytes || (r.written != 0) != written) continue;
    if (written) note_write(l, r.offset, r.offset + r.bytes, call);
    else note_read(l, r.offset, r.offset + r.bytes, call);
  }
  if (has_plan_call_epilogue(c)) note_buffers(l, plan_call_epilogue(c), call, written);
}

const uint64_t *msc_scratch_in_use(msc_arena *arena, plan_section s) {
  uint32_t num = plan_section_calls_num(s);
  uint64_t *use = msc_new_array(arena, uint64_t, num + 1);
  lives l = {.arena = arena};
  for (uint32_t i = 0; i < num; i++) {
    note_buffers(&l, plan_section_calls(s, i), i, false);
    note_buffers(&l, plan_section_calls(s, i), i, true);
  }
  for (size_t i = 0; i < l.num_all; i++)
    for (uint32_t k = l.all[i].made; k <= l.all[i].read; k++) use[k] += l.all[i].end - l.all[i].begin;
  return use;
}
