/* pipeline.h: sections and the entries of lanes: shared by the passes of this folder and read by codegen. */
#ifndef MSC_PASSES_6_PIPELINE_H
#define MSC_PASSES_6_PIPELINE_H

#include "passes/6_pipeline/schedule/schedule.h"
#include "passes/config/config.h"

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks;
  /* stage of every virtual stage; its chunk there is the number of earlier virtual stages on that stage */
  int *place;
  bool joined;          /* one stage: forward and backward of a micro-batch are one section */
  bool splits_backward; /* W is a section of its own */
} msc_pipeline_shape;

/* Sections that a pipeline has at most; FB, forward and backward together, counts as F. */
enum { MSC_NUM_SECTIONS = MSC_SECTION_FB };
_Static_assert((int)MSC_SECTION_F == (int)MSC_FORWARD && (int)MSC_SECTION_B == (int)MSC_BACKWARD &&
                   (int)MSC_SECTION_W == (int)MSC_WEIGHT,
               "the works of a schedule come first");

/* Which section a function is; MSC_NUM_SECTION_KINDS: none. */
msc_section_kind msc_section_of(const msc_func *f);
/* The section of a program; NULL if there is none. The chunk is ignored for U, P and D. */
msc_func *msc_find_section(const msc_module *m, msc_program_kind program, msc_section_kind kind, int64_t stage,
                           int64_t chunk);

/* The numbers of an entry of `msc.lanes`, in this order; a slot is -1 where the section reads and writes nothing of
 * its class. */
enum {
  MSC_LANE_SECTION,
  MSC_LANE_CHUNK,
  MSC_LANE_MICRO,
  MSC_LANE_SLOTS,
  MSC_LANE_FIELDS = MSC_LANE_SLOTS + MSC_NUM_SLOTS
};

/* The shape that the configuration asks for; `place` is allocated in `arena`. */
msc_pipeline_shape msc_pipeline_shape_of(const msc_config *config, msc_arena *arena);
int msc_chunk_of(const msc_pipeline_shape *s, int virtual_stage);

#endif
