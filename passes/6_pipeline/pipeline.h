/* pipeline.h: what the passes of this folder share, and codegen reads: sections, and entries of lanes. */
#ifndef MSC_PASSES_6_PIPELINE_H
#define MSC_PASSES_6_PIPELINE_H

#include "passes/6_pipeline/schedule/schedule.h"
#include "passes/config/config.h"

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks;
  int *place;           /* stage of every virtual stage; its chunk there is how many before it that stage has */
  bool joined;          /* one stage: forward and backward of a micro-batch are one section */
  bool splits_backward; /* W is a section of its own */
} msc_pipeline_shape;

/* Sections: work per micro-batch as a schedule has it, and the update; forward and backward joined, "FB", are an F. */
typedef enum {
  MSC_SECTION_F = MSC_FORWARD,
  MSC_SECTION_B = MSC_BACKWARD,
  MSC_SECTION_W = MSC_WEIGHT,
  MSC_SECTION_U,
  MSC_NUM_SECTIONS
} msc_section_kind;
extern const char *const msc_section_names[MSC_NUM_SECTIONS];
extern const char *const msc_slot_names[MSC_NUM_SLOTS]; /* in msc.class */

msc_slot_class msc_slot_class_of(const char *name); /* one of them */
/* The function of a program; the chunk of U does not count.  NULL: there is none. */
msc_func *msc_find_section(const msc_module *m, const char *program, msc_section_kind kind, int64_t stage,
                           int64_t chunk);

/* The numbers of an entry of `msc.lanes`, and their order; a slot is -1 where nothing of its class is
 * read or written. */
enum {
  MSC_LANE_SECTION,
  MSC_LANE_CHUNK,
  MSC_LANE_MICRO,
  MSC_LANE_SLOTS,
  MSC_LANE_FIELDS = MSC_LANE_SLOTS + MSC_NUM_SLOTS
};

/* In `arena`. */
msc_pipeline_shape msc_pipeline_shape_of(const msc_config *config, msc_arena *arena);
int msc_chunk_of(const msc_pipeline_shape *s, int virtual_stage);

#endif
