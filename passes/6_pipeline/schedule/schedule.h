/* schedule.h: pipeline schedules as data.  In: a kind, stages, micro-batches, chunks, times; out: for every stage the
 * list of (section, micro-batch, slots) that it runs, with the buffers this takes and a proof that it cannot block.
 *
 *   msc_schedule_options o = {.kind = MSC_SCHEDULE_1F1B, .stages = 4, .chunks = 1, .micro_batches = 8};
 *   msc_schedule s;
 *   if (!msc_schedule_make(ctx, loc, &o, &s)) return false;
 *   for (int i = 0; i < s.stage[2].num_entries; i++) run(&s.stage[2].entry[i]);
 *
 * Virtual stages 0 .. stages * chunks - 1 are the parts of the model in order; stage place[k] holds virtual stage k.
 * Forward of k sends to k + 1, backward of k to k - 1; where both are on one stage nothing is sent.  The once-per-step
 * section (update) follows the list and is not in it. */
#ifndef MSC_PASSES_6_PIPELINE_SCHEDULE_H
#define MSC_PASSES_6_PIPELINE_SCHEDULE_H

#include "ir/ir.h"

typedef enum {
#define SCHEDULE(name, text, split, generator, order) MSC_SCHEDULE_##name,
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE
  MSC_NUM_SCHEDULES
} msc_schedule_kind;

typedef enum { MSC_FORWARD, MSC_BACKWARD, MSC_WEIGHT, MSC_NUM_WORKS } msc_work;

/* Values are kept from F to B, from F to W, and from B to W; each class has slots of its own.  Without split there
 * is FB only. */
typedef enum { MSC_SLOT_FB, MSC_SLOT_FW, MSC_SLOT_BW, MSC_NUM_SLOTS } msc_slot_class;

enum { MSC_MAX_STAGES = 4096, MSC_MAX_CHUNKS = 256 };
#define MSC_MAX_ENTRIES (INT64_C(1) << 22) /* of all stages together */

/* What one virtual stage takes for one micro-batch. */
typedef struct {
  int64_t forward, backward, weight; /* ns; without split the backward entry lasts backward + weight */
  /* ns from this virtual stage to the next one, and back, where they are on different stages */
  int64_t hop;
  /* bytes from the start of F to the end of B, and from the end of B to the end of W */
  int64_t kept, kept_for_weight;
} msc_section_cost;

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks, micro_batches;
  const msc_section_cost *cost; /* of every virtual stage; NULL: 1 ns each, no hop, 1 byte each */
  /* zb-auto: of every stage, in the bytes of `cost`; NULL: what `stages` micro-batches take */
  const int64_t *limit;
  /* zb-auto: entries the search may look at, which makes it the same everywhere; 0: 5,000,000 */
  int64_t nodes;
  /* zb-auto: CPU time after which it ends instead; 0: none.  The order then depends on the machine */
  double seconds;
} msc_schedule_options;

typedef struct {
  msc_work work;
  int chunk;                /* virtual stage msc_virtual_stage(s, stage, chunk) */
  int micro_batch;
  int slot[MSC_NUM_SLOTS];  /* that this entry reads or writes; -1: none */
  uint32_t order;           /* number in one order of all stages' entries that respects every wait */
  int64_t start, end;       /* ns, when every entry starts as soon as it can */
} msc_entry;

typedef struct {
  int num_entries;
  msc_entry *entry;
  int num_slots[MSC_NUM_SLOTS];
  int in_flight;            /* most (micro-batch, chunk) pairs between the start of F and the end of B */
  int64_t memory;           /* most bytes at any time, by `cost` */
} msc_stage_list;

/* Messages of one direction between two stages: one stream of its own, first in, first out. */
typedef struct {
  int from, to;             /* stages */
  bool backward;            /* gradients */
  int num_messages;
  int depth;                /* buffers on either side with which no entry waits longer than for the data */
} msc_channel;

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks, micro_batches;
  int *place;               /* stage of every virtual stage */
  msc_stage_list *stage;
  int num_channels;
  msc_channel *channel;
  int64_t makespan;         /* largest (last end - first start) of a stage */
  int64_t wall;             /* last end - first start of all */
  int64_t bound;            /* zb-auto: no order within the limit has a smaller makespan */
} msc_schedule;

/* ---- schedule.c ---- */

const char *msc_schedule_name(msc_schedule_kind kind);
const char *msc_schedule_order(msc_schedule_kind kind); /* in a few words */
bool msc_schedule_of_name(const char *name, msc_schedule_kind *out_kind);
bool msc_schedule_is_split(msc_schedule_kind kind);
/* The stage of every virtual stage: round robin; with zb-auto and two chunks down and up again (V). */
void msc_schedule_place(msc_schedule_kind kind, int stages, int chunks, int *out_place);
int msc_virtual_stage(const msc_schedule *s, int stage, int chunk);

/* In the context's arena, proved by msc_schedule_check.  Reports at `loc` and returns false when a kind cannot have so
 * many chunks, or nothing stays within the limit. */
bool msc_schedule_make(msc_context *ctx, const msc_loc *loc, const msc_schedule_options *o, msc_schedule *out_schedule);

/* ---- start_times.c ---- */

/* Start and end of every entry, makespan and wall; false when the lists wait for each other. */
bool msc_schedule_time(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost);
/* Of a schedule that has times: ns from step to step when steps follow each other, each stage beginning the next one
 * when it is done with `update` of its own.  The makespan, where the first stages start and end early and
 * the others late. */
int64_t msc_schedule_period(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost, const int64_t *update);

/* ---- slots.c ---- */

/* Slots of every entry, as few as can be, in flight and bytes; entries of W see those of their F and B. */
void msc_schedule_slots(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost);

/* ---- deadlock.c ---- */

/* Channels with their depths, from the times. */
void msc_schedule_channels(msc_arena *arena, msc_schedule *s, const msc_section_cost *cost);
/* Every unit of work once, in an order that no execution with the slots and the depths of the lists can block in,
 * whatever the times: fills `order`.  Linear in the entries.  False with the reason, a circle of waits say,
 * in the arena. */
bool msc_schedule_check(msc_arena *arena, msc_schedule *s, const char **out_why);

#endif
