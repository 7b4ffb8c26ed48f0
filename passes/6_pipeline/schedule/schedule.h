/* schedule.h: makes pipeline schedules as data. From a kind, stages, micro-batches, chunks and times it makes, for
 * every stage, the list of (section, micro-batch, slots) that it runs, with the buffers this takes and a proof that it
 * cannot block.
 *
 *   msc_schedule_options o = {.kind = MSC_SCHEDULE_1F1B, .stages = 4, .chunks = 1, .micro_batches = 8};
 *   msc_schedule s;
 *   if (!msc_schedule_make(ctx, loc, &o, &s)) return false;
 *   for (int i = 0; i < s.stage[2].num_entries; i++) run(&s.stage[2].entry[i]);
 *
 * Virtual stages 0 .. stages * chunks - 1 are the parts of the model in order; virtual stage k runs on stage place[k].
 * Forward of k sends to k + 1, backward of k to k - 1; if both are on one stage nothing is sent. The section that runs
 * once per step (update) follows the list and is not in it. */
#ifndef MSC_PASSES_6_PIPELINE_SCHEDULE_H
#define MSC_PASSES_6_PIPELINE_SCHEDULE_H

#include "ir/ir.h"

typedef enum {
#define SCHEDULE(name, text, split, chunks, generator, order) MSC_SCHEDULE_##name,
#include "passes/6_pipeline/schedule/schedule.def"
#undef SCHEDULE
  MSC_NUM_SCHEDULES
} msc_schedule_kind;

typedef enum { MSC_FORWARD, MSC_BACKWARD, MSC_WEIGHT, MSC_NUM_WORKS } msc_work;

enum { MSC_MAX_STAGES = 4096, MSC_MAX_CHUNKS = 256 };
#define MSC_MAX_ENTRIES (INT64_C(1) << 22) /* limit for all stages together */

/* Times and bytes of one virtual stage for one micro-batch. */
typedef struct {
  int64_t forward, backward, weight; /* ns; without split the backward entry lasts backward + weight */
  /* ns of a message to the next virtual stage, and back, if it is on another stage */
  int64_t hop;
  /* bytes kept from the start of F to the end of B, and from the end of B to the end of W */
  int64_t kept, kept_for_weight;
} msc_section_cost;

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks, micro_batches;
  const msc_section_cost *cost; /* by virtual stage; NULL: 1 ns each, no hop, 1 byte each */
  /* zb-auto: limit of kept bytes by stage; NULL: what `stages` micro-batches need */
  const int64_t *limit;
  /* zb-auto: limit of the search in entries visited, the same on every machine; 0: 5,000,000 */
  int64_t nodes;
  /* zb-auto: limit in CPU time instead; 0: none. The order then depends on the machine */
  double seconds;
} msc_schedule_options;

typedef struct {
  msc_work work;
  int chunk;                /* virtual stage msc_virtual_stage(s, stage, chunk) */
  int micro_batch;
  int slot[MSC_NUM_SLOTS];  /* slots that this entry reads or writes; -1: none */
  uint32_t order;           /* position in one order of the entries of all stages that respects every wait */
  int64_t start, end;       /* ns, if every entry starts as soon as it can */
} msc_entry;

typedef struct {
  int num_entries;
  msc_entry *entry;
  int num_slots[MSC_NUM_SLOTS];
  int in_flight;            /* most (micro-batch, chunk) pairs between the start of F and the end of B */
  int64_t memory;           /* most bytes kept at any time, by `cost` */
} msc_stage_list;

/* The messages of one direction between two stages: they arrive in the order in which they are sent. */
typedef struct {
  int from, to;             /* stages */
  bool backward;            /* gradients */
  int num_messages;
  int depth;                /* buffers on either side, so many that no entry waits for one */
} msc_channel;

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks, micro_batches;
  int *place;               /* stage of every virtual stage */
  msc_stage_list *stage;
  int num_channels;
  msc_channel *channel;
  int64_t makespan;         /* largest (last end - first start) of any stage */
  int64_t wall;             /* last end - first start over all stages */
  int64_t bound;            /* zb-auto: no order within the limit has a smaller makespan */
} msc_schedule;

/* ---- schedule.c ---- */

const char *msc_schedule_name(msc_schedule_kind kind);
const char *msc_schedule_order(msc_schedule_kind kind); /* the order described in a few words */
bool msc_schedule_of_name(const char *name, msc_schedule_kind *out_kind);
bool msc_schedule_is_split(msc_schedule_kind kind);
int msc_schedule_most_chunks(msc_schedule_kind kind);
/* Sets the stage of every virtual stage: round robin; for zb-auto with two chunks down the stages and up again (V). */
void msc_schedule_place(msc_schedule_kind kind, int stages, int chunks, int *out_place);
int msc_virtual_stage(const msc_schedule *s, int stage, int chunk);

/* Makes a schedule in the context's arena, proved by msc_schedule_check. Reports at `loc` and returns false if the
 * kind cannot have so many chunks, or if nothing stays within the limit. */
bool msc_schedule_make(msc_context *ctx, const msc_loc *loc, const msc_schedule_options *o, msc_schedule *out_schedule);

/* ---- start_times.c ---- */

/* Sets start and end of every entry, makespan and wall; false if the lists wait for each other. */
bool msc_schedule_time(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost);
/* The time from step to step, in ns, of a schedule with times, when steps follow each other and each stage begins
 * the next step when it is done with its own `update`. It is the makespan if the first stages start and end early
 * and the others late. */
int64_t msc_schedule_period(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost, const int64_t *update);

/* ---- slots.c ---- */

/* Sets the slots of every entry, as few as possible, and in_flight and memory of the stages. Entries of W see the
 * slots of their F and B. */
void msc_schedule_slots(msc_arena *scratch, msc_schedule *s, const msc_section_cost *cost);

/* ---- deadlock.c ---- */

/* Sets the channels and their depths, from the times. */
void msc_schedule_channels(msc_arena *arena, msc_schedule *s, const msc_section_cost *cost);
/* Proves that the lists contain every unit of work once, in an order in which no execution with these slots and
 * depths can block, whatever the times; sets `order`. Linear in the entries. False with the reason, for instance a
 * circle of waits, in the arena. */
bool msc_schedule_check(msc_arena *arena, msc_schedule *s, const char **out_why);

#endif
