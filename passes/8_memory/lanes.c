/* lanes: lowered sections -> the order in which every stage runs them: attribute `msc.lanes` of the module.
 *
 * msc.lanes = {train = [[...], ...], forward = ..., slots = ...}: one list per stage, six numbers per entry: section (0
 * F or FB, 1 B, 2 W, 3 U, 4 P, 5 D), chunk, micro-batch, and the slots of the values carried from F to B, from F to W
 * and from B to W (-1: none); see pipeline.h. `slots` has three numbers of slots per stage.
 *
 * zb-auto chooses among five schedules by the predicted times of the sections: zb-h1, zb-h2, and lists made for the
 * room that memory_limit leaves, with as many micro-batches in flight as stages, twice as many, or any number. Of those
 * within 0.1 % of the fastest it takes the one that needs least memory. */
#include "ir/table.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/8_memory/stage_costs.h"

typedef struct {
  size_t num, room;
  msc_attr_value *v;
} numbers;

static void append_number(msc_arena *a, numbers *n, int64_t v) {
  msc_reserve(a, n->v, n->room, n->num + 1);
  n->v[n->num++] = msc_int(v);
}

/* The number of micro-batches that a section works on side by side; an entry names the first of them. */
static int num_copies_of(const msc_func *f) { return f ? (int)msc_fact_read(f, copies, 1) : 1; }

static void append_lane_entry(msc_arena *a, numbers *n, msc_section_kind kind, int chunk, int micro, const int *slot) {
  const int v[] = {[MSC_LANE_SECTION] = (int)kind, [MSC_LANE_CHUNK] = chunk, [MSC_LANE_MICRO] = micro};
  for (int i = 0; i < MSC_LANE_SLOTS; i++) append_number(a, n, v[i]);
  for (int k = 0; k < MSC_NUM_SLOTS; k++) append_number(a, n, slot ? slot[k] : -1);
}

/* What the stage does before it computes the first of `count` micro-batches. */
static void append_preparation(msc_arena *a, numbers *n, const msc_module *m, int stage, int64_t count) {
  if (msc_find_section(m, MSC_PROGRAM_TRAIN, MSC_SECTION_P, stage, 0))
    append_lane_entry(a, n, MSC_SECTION_P, 0, 0, NULL);
  if (!msc_find_section(m, MSC_PROGRAM_TRAIN, MSC_SECTION_D, stage, 0)) return;
  for (int64_t i = 0; i < count; i++) append_lane_entry(a, n, MSC_SECTION_D, 0, (int)i, NULL);
}

/* The lane of a single stage: each micro-batch, then the update. */
static msc_attr_value make_joined_lane(msc_pass_ctx *pass, const msc_module *m, int64_t count, int copies) {
  numbers n = {0};
  append_preparation(pass->scratch, &n, m, 0, count);
  for (int64_t i = 0; i < count; i += copies) append_lane_entry(pass->scratch, &n, MSC_SECTION_F, 0, (int)i, NULL);
  append_lane_entry(pass->scratch, &n, MSC_SECTION_U, 0, (int)count - 1, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

static msc_attr_value make_scheduled_lane(msc_pass_ctx *pass, const msc_module *m, const msc_schedule *s, int stage,
                                          int copies) {
  numbers n = {0};
  append_preparation(pass->scratch, &n, m, stage, (int64_t)copies * s->micro_batches);
  for (int i = 0; i < s->stage[stage].num_entries; i++) {
    const msc_entry *e = &s->stage[stage].entry[i];
    if (!msc_find_section(m, MSC_PROGRAM_TRAIN, (msc_section_kind)e->work, stage, e->chunk)) continue;
    append_lane_entry(pass->scratch, &n, (msc_section_kind)e->work, e->chunk, copies * e->micro_batch, e->slot);
  }
  if (msc_find_section(m, MSC_PROGRAM_TRAIN, MSC_SECTION_U, stage, 0))
    append_lane_entry(pass->scratch, &n, MSC_SECTION_U, 0, copies * s->micro_batches - 1, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

/* The lane of evaluation: F of every chunk, once. */
static msc_attr_value make_forward_lane(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape,
                                        int stage) {
  numbers n = {0};
  for (int c = 0; c < shape->chunks; c++)
    if (msc_find_section(m, MSC_PROGRAM_FORWARD, MSC_SECTION_F, stage, c))
      append_lane_entry(pass->scratch, &n, MSC_SECTION_F, c, 0, NULL);
  return msc_list(pass->ctx, n.num, n.v);
}

/* ---- zb-auto ---- */

typedef struct {
  msc_pass_ctx *pass;
  const msc_module *m;
  const msc_pipeline_shape *shape;
  const msc_loc *loc;
  msc_schedule_options o;
  const int64_t *room, *update; /* by stage: bytes that its slots may take; time of its update */
} lane_scheduler;

/* Bytes that `num` micro-batches keep in all chunks of a stage until the end of B; out_least: the bytes without
 * which no micro-batch gets through. */
static int64_t bytes_in_flight(const lane_scheduler *z, int stage, int64_t num, int64_t *out_least) {
  int64_t bytes = 0;
  *out_least = 0;
  for (int k = 0; k < z->o.stages * z->o.chunks; k++) {
    const msc_section_cost *c = &z->o.cost[k];
    if (z->shape->place[k] != stage) continue;
    *out_least += c->kept > c->kept_for_weight ? c->kept : c->kept_for_weight;
    bytes += num * c->kept;
  }
  return bytes;
}

/* The largest number of bytes by which the slots of a stage exceed its room; limit (may be NULL) is lowered by the
 * excess of each stage. */
static int64_t largest_excess(const lane_scheduler *z, const msc_schedule *s, int64_t *limit) {
  const int64_t *bytes = msc_stage_slot_bytes(z->pass, z->m, z->shape, s);
  int64_t most = 0;
  for (int i = 0; i < z->o.stages; i++) {
    int64_t more = bytes[i] - z->room[i];
    if (more > most) most = more;
    if (more > 0 && limit) limit[i] -= more;
  }
  return most;
}

/* Schedules with at most `in_flight` micro-batches in flight, within memory. Slots of three sizes leave gaps, so the
 * limit is lowered by what exceeds the room until the slots fit. If they never do, the finished plan is refused
 * later. */
static bool schedule_within(lane_scheduler *z, int64_t in_flight, msc_schedule *out) {
  enum { ROUNDS = 8 };
  int64_t *limit = msc_new_array(z->pass->scratch, int64_t, z->o.stages),
          *least = msc_new_array(z->pass->scratch, int64_t, z->o.stages);
  for (int i = 0; i < z->o.stages; i++) {
    limit[i] = bytes_in_flight(z, i, in_flight, &least[i]);
    if (limit[i] > z->room[i]) limit[i] = z->room[i];
  }
  z->o.limit = limit;
  z->o.kind = MSC_SCHEDULE_ZB_AUTO;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < z->o.stages; i++)
      if (limit[i] < least[i]) limit[i] = least[i];
    MSC_TRY(msc_schedule_make(z->pass->ctx, z->loc, &z->o, out));
    if (largest_excess(z, out, limit) <= 0) break;
  }
  return true;
}

static bool schedule_by_rule(lane_scheduler *z, msc_schedule_kind kind, msc_schedule *out) {
  z->o.kind = kind;
  return msc_schedule_make(z->pass->ctx, z->loc, &z->o, out);
}

static bool is_hardly_more(int64_t a, int64_t b) { return a <= b + b / 1000; }

static bool schedule_zb_auto(lane_scheduler *z, msc_schedule *out) {
  enum { H1, P, H2, TWO_P, ANY, TRIES };
  const int64_t in_flight[TRIES] = {[P] = z->o.stages, [TWO_P] = 2 * (int64_t)z->o.stages, [ANY] = z->o.micro_batches};
  msc_schedule s[TRIES];
  int64_t period[TRIES], best = INT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    bool is_rule = i == H1 || i == H2;
    period[i] = INT64_MAX;
    if (is_rule ? z->o.chunks > 1 : i > P && in_flight[i] > 2 * z->o.micro_batches) continue;
    MSC_TRY(is_rule ? schedule_by_rule(z, i == H1 ? MSC_SCHEDULE_ZB_H1 : MSC_SCHEDULE_ZB_H2, &s[i])
                    : schedule_within(z, in_flight[i], &s[i]));
    if (largest_excess(z, &s[i], NULL) <= 0)
      period[i] = msc_schedule_period(z->pass->scratch, &s[i], z->o.cost, z->update);
    if (period[i] < best) best = period[i];
  }
  int first = P;
  for (int i = TRIES - 1; i >= 0; i--)
    if (period[i] != INT64_MAX && is_hardly_more(period[i], best)) first = i;
  *out = s[first];
  return true;
}

static bool make_schedule(msc_pass_ctx *pass, const msc_module *m, const msc_func *any, const msc_pipeline_shape *shape,
                          int64_t count, msc_schedule *out) {
  lane_scheduler z = {.pass = pass,
                      .m = m,
                      .shape = shape,
                      .loc = any->loc,
                      .room = msc_stage_room(pass, m, shape),
                      .update = msc_stage_updates(pass, m, shape)};
  z.o = (msc_schedule_options){.kind = shape->kind,
                               .stages = shape->stages,
                               .chunks = shape->chunks,
                               .micro_batches = (int)count,
                               .cost = msc_stage_costs(pass, m, shape)};
  return shape->kind == MSC_SCHEDULE_ZB_AUTO ? schedule_zb_auto(&z, out)
                                             : msc_schedule_make(pass->ctx, any->loc, &z.o, out);
}

bool pass_lanes(msc_pass_ctx *pass, msc_module *m) {
  msc_pipeline_shape shape = msc_pipeline_shape_of(pass->config, pass->scratch);
  const msc_func *first = NULL;
  for (const msc_func *f = m->first; f && !first; f = f->next)
    if (msc_func_attr(f, MSC_FACT(program))) first = f;
  if (!first || msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_lanes))) return msc_not_asked_for(pass);
  int64_t count = msc_func_attr(first, MSC_FACT(micro))->i;
  int copies = num_copies_of(first);
  for (const msc_func *f = first; f; f = f->next)
    if (num_copies_of(f) > copies) copies = num_copies_of(f);
  msc_attr_value *train = msc_new_array(pass->scratch, msc_attr_value, shape.stages),
                 *forward = msc_new_array(pass->scratch, msc_attr_value, shape.stages);
  numbers slots = {0};
  msc_schedule s;
  if (!shape.joined) MSC_TRY(make_schedule(pass, m, first, &shape, count / copies, &s));
  for (int i = 0; i < shape.stages; i++) {
    train[i] = shape.joined ? make_joined_lane(pass, m, count, copies) : make_scheduled_lane(pass, m, &s, i, copies);
    forward[i] = make_forward_lane(pass, m, &shape, i);
    for (int k = 0; k < MSC_NUM_SLOTS; k++)
      append_number(pass->scratch, &slots, shape.joined ? 0 : s.stage[i].num_slots[k]);
  }
  msc_attr *a = NULL;
  size_t num = 0;
  if (!shape.joined) msc_attrs_put(pass->ctx, &a, &num, msc_fact_forward(pass->ctx, (size_t)shape.stages, forward));
  msc_attrs_put(pass->ctx, &a, &num, msc_fact_slots(pass->ctx, slots.num, slots.v));
  msc_attrs_put(pass->ctx, &a, &num, msc_fact_train(pass->ctx, (size_t)shape.stages, train));
  msc_attrs_put(pass->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_lanes(num, a));
  msc_stat(pass, "entries", (int64_t)(train[0].list.num / MSC_LANE_FIELDS));
  return true;
}
