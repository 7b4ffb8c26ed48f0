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

/* Kinds of sections: the works of a schedule, the update, and what is made of parameters before the first micro-batch.
 * Forward and backward joined, "FB", count as F. */
typedef enum {
  MSC_SECTION_F = MSC_FORWARD,
  MSC_SECTION_B = MSC_BACKWARD,
  MSC_SECTION_W = MSC_WEIGHT,
  MSC_SECTION_U,
  MSC_SECTION_P,
  MSC_NUM_SECTIONS
} msc_section_kind;
extern const char *const msc_section_names[MSC_NUM_SECTIONS];

/* The section of a program; NULL if there is none. The chunk is ignored for U and P. */
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
