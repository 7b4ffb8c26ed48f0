/* schedule.c: makes a schedule of a kind: lists with times and slots, proved not to block. */
#include "passes/6_pipeline/schedule/schedule.h"

#include <string.h>

#include "passes/6_pipeline/schedule/order.h"

static bool check_schedule_options(msc_context *ctx, const msc_loc *loc, const msc_schedule_options *o) {
  if (o->stages < 1 || o->stages > MSC_MAX_STAGES)
    return msc_error(ctx, MSC_E_CONFIG, loc, "a pipeline has 1 to %d stages, not %d", MSC_MAX_STAGES, o->stages);
  if (o->micro_batches < 1)
    return msc_error(ctx, MSC_E_CONFIG, loc, "a step has at least one micro-batch, not %d", o->micro_batches);
  if (o->chunks < 1 || o->chunks > MSC_MAX_CHUNKS)
    return msc_error(ctx, MSC_E_CONFIG, loc, "a stage has 1 to %d chunks, not %d", MSC_MAX_CHUNKS, o->chunks);
  int most = msc_schedule_most_chunks(o->kind);
  if (o->chunks > most)
    return msc_error(ctx, MSC_E_CONFIG, loc, "%s has at most %d chunk%s per stage, not %d; interleaved has up to %d",
                     msc_schedule_rows[o->kind].name, most, most > 1 ? "s" : "", o->chunks, MSC_MAX_CHUNKS);
  int64_t entries = (int64_t)o->stages * o->chunks * MSC_NUM_WORKS;
  if (entries > MSC_MAX_ENTRIES / o->micro_batches)
    return msc_error(ctx, MSC_E_CONFIG, loc,
                     "%d stages of %d chunks and %d micro-batches are more than %" PRId64 " entries", o->stages,
                     o->chunks, o->micro_batches, MSC_MAX_ENTRIES);
  return true;
}

/* Fills in costs, limits and nodes that the caller left out. */
static msc_schedule_options fill_in_options(msc_arena *scratch, const msc_schedule_options *given) {
  msc_schedule_options o = *given;
  int num = o.stages * o.chunks;
  if (!o.cost) {
    msc_section_cost *cost = msc_new_array(scratch, msc_section_cost, num);
    for (int k = 0; k < num; k++) cost[k] = (msc_section_cost){1, 1, 1, 0, 1, 1};
    o.cost = cost;
  }
  if (!o.limit) {
    int64_t *limit = msc_new_array(scratch, int64_t, o.stages);
    int *place = msc_new_array(scratch, int, num);
    msc_schedule_place(o.kind, o.stages, o.chunks, place);
    for (int k = 0; k < num; k++) limit[place[k]] += o.stages * o.cost[k].kept;
    o.limit = limit;
  }
  if (!o.nodes) o.nodes = 5000000;
  return o;
}

static void new_lists(msc_arena *arena, const msc_schedule_options *o, msc_schedule *s) {
  int per_stage = o->micro_batches * o->chunks * (msc_schedule_is_split(o->kind) ? 3 : 2);
  *s = (msc_schedule){.kind = o->kind, .stages = o->stages, .chunks = o->chunks, .micro_batches = o->micro_batches};
  s->place = msc_new_array(arena, int, o->stages * o->chunks);
  msc_schedule_place(o->kind, o->stages, o->chunks, s->place);
  s->stage = msc_new_array(arena, msc_stage_list, o->stages);
  for (int i = 0; i < o->stages; i++) s->stage[i].entry = msc_new_array(arena, msc_entry, per_stage);
}

static bool complete_schedule(msc_orders *b) {
  const char *why;
  msc_schedule *s = b->s;
  if (!msc_schedule_time(b->scratch, s, b->o->cost))
    return msc_error(b->ctx, MSC_E_INTERNAL, b->loc, "%s: the stages wait for each other",
                     msc_schedule_rows[s->kind].name);
  msc_schedule_slots(b->scratch, s, b->o->cost);
  msc_schedule_channels(msc_context_arena(b->ctx), s, b->o->cost);
  return msc_schedule_check(b->scratch, s, &why) ||
         msc_error(b->ctx, MSC_E_INTERNAL, b->loc, "%s: %s", msc_schedule_rows[s->kind].name, why);
}

bool msc_schedule_make(msc_context *ctx, const msc_loc *loc, const msc_schedule_options *given,
                       msc_schedule *out_schedule) {
  MSC_TRY(check_schedule_options(ctx, loc, given));
  msc_arena *scratch = msc_arena_new(ctx);
  msc_schedule_options o = fill_in_options(scratch, given);
  new_lists(msc_context_arena(ctx), &o, out_schedule);
  msc_orders b = {ctx, scratch, loc, &o, out_schedule, msc_new_array(scratch, int, o.stages *o.chunks *MSC_NUM_WORKS)};
  bool ok = msc_schedule_rows[o.kind].generator(&b) && complete_schedule(&b);
  msc_arena_free(scratch);
  return ok;
}
