/* lanes: functions of sections -> what every stage runs, in order: attribute `msc.lanes` of the module.
 *
 * msc.lanes = {train = [[...], ...], forward = ...}: a list per stage, six numbers per entry: section (0 F or FB, 1 B, 2 W, 3 U),
 * chunk, micro-batch, and the slots of what is carried from F to B, from F to W and from B to W (-1: none); see pipeline.h.
 * `slots` has the numbers of slots, three per stage. */
#include <string.h>

#include "passes/6_pipeline/pipeline.h"
#include "passes/6_pipeline/schedule.h"
#include "passes/pass.h"

typedef struct {
  size_t num, room;
  msc_attr_value *v;
} numbers;

static void put(msc_arena *a, numbers *n, int64_t v) {
  if (n->num == n->room) {
    msc_attr_value *old = n->v;
    n->room = n->room ? 2 * n->room : 64;
    n->v = msc_new_array(a, msc_attr_value, n->room);
    if (old) memcpy(n->v, old, n->num * sizeof *old);
  }
  n->v[n->num++] = msc_int(v);
}

static void put_entry(msc_arena *a, numbers *n, msc_section_kind kind, int chunk, int micro, const int *slot) {
  const int v[] = {[MSC_LANE_SECTION] = (int)kind, [MSC_LANE_CHUNK] = chunk, [MSC_LANE_MICRO] = micro};
  for (int i = 0; i < MSC_LANE_SLOTS; i++) put(a, n, v[i]);
  for (int k = 0; k < MSC_NUM_SLOTS; k++) put(a, n, slot ? slot[k] : -1);
}

/* One stage: each micro-batch, then the update. */
static msc_attr_value joined_lane(msc_pass_ctx *pass, int64_t count) {
  numbers n = {0};
  for (int64_t i = 0; i < count; i++) put_entry(pass->scratch, &n, MSC_SECTION_F, 0, (int)i, NULL);
  put_entry(pass->scratch, &n, MSC_SECTION_U, 0, (int)count - 1, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

static msc_attr_value scheduled_lane(msc_pass_ctx *pass, const msc_module *m, const msc_schedule *s, int stage) {
  numbers n = {0};
  for (int i = 0; i < s->stage[stage].num_entries; i++) {
    const msc_entry *e = &s->stage[stage].entry[i];
    if (!msc_find_section(m, "train", (msc_section_kind)e->work, stage, e->chunk)) continue;
    put_entry(pass->scratch, &n, (msc_section_kind)e->work, e->chunk, e->micro_batch, e->slot);
  }
  if (msc_find_section(m, "train", MSC_SECTION_U, stage, 0)) put_entry(pass->scratch, &n, MSC_SECTION_U, 0, s->micro_batches - 1, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

/* Evaluation: one pass through all chunks. */
static msc_attr_value forward_lane(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape, int stage) {
  numbers n = {0};
  for (int c = 0; c < shape->chunks; c++)
    if (msc_find_section(m, "forward", MSC_SECTION_F, stage, c)) put_entry(pass->scratch, &n, MSC_SECTION_F, c, 0, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

static bool schedule_of(msc_pass_ctx *pass, const msc_func *any, const msc_pipeline_shape *shape, int64_t count, msc_schedule *out) {
  msc_schedule_options o = {.kind = shape->kind, .stages = shape->stages, .chunks = shape->chunks, .micro_batches = (int)count};
  return msc_schedule_make(pass->ctx, any->loc, &o, out);
}

bool pass_lanes(msc_pass_ctx *pass, msc_module *m) {
  msc_pipeline_shape shape = msc_pipeline_shape_of(pass->config, pass->scratch);
  const msc_func *first = NULL;
  for (const msc_func *f = m->first; f && !first; f = f->next)
    if (msc_func_attr(f, "program")) first = f;
  if (!first || msc_find_attr(m->attrs, m->num_attrs, "msc.lanes")) return msc_not_asked_for(pass);
  int64_t count = msc_func_attr(first, "micro")->i;
  msc_attr_value *train = msc_new_array(pass->scratch, msc_attr_value, shape.stages), *forward = msc_new_array(pass->scratch, msc_attr_value, shape.stages);
  numbers slots = {0};
  msc_schedule s;
  if (!shape.joined) MSC_TRY(schedule_of(pass, first, &shape, count, &s));
  for (int i = 0; i < shape.stages; i++) {
    train[i] = shape.joined ? joined_lane(pass, count) : scheduled_lane(pass, m, &s, i);
    forward[i] = forward_lane(pass, m, &shape, i);
    for (int k = 0; k < MSC_NUM_SLOTS; k++) put(pass->scratch, &slots, shape.joined ? 0 : s.stage[i].num_slots[k]);
  }
  msc_attr *a = NULL;
  size_t num = 0;
  if (!shape.joined) msc_put_attr(pass->ctx, &a, &num, "forward", msc_list(pass->ctx, (size_t)shape.stages, forward));
  msc_put_attr(pass->ctx, &a, &num, "slots", msc_list(pass->ctx, slots.num, slots.v));
  msc_put_attr(pass->ctx, &a, &num, "train", msc_list(pass->ctx, (size_t)shape.stages, train));
  msc_put_attr(pass->ctx, &m->attrs, &m->num_attrs, "msc.lanes", (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, a}});
  msc_stat(pass, "entries", (int64_t)(train[0].list.num / MSC_LANE_FIELDS));
  return true;
}
