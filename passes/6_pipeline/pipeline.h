/* pipeline.h: what the passes of this folder share. */
#ifndef MSC_PASSES_6_PIPELINE_H
#define MSC_PASSES_6_PIPELINE_H

#include "passes/6_pipeline/schedule.h"
#include "passes/config.h"

typedef struct {
  msc_schedule_kind kind;
  int stages, chunks;
  int *place;           /* stage of every virtual stage; its chunk there is how many before it that stage has */
  bool joined;          /* one stage: forward and backward of a micro-batch are one section */
  bool splits_backward; /* W is a section of its own */
} msc_pipeline_shape;

/* In `arena`. */
msc_pipeline_shape msc_pipeline_shape_of(const msc_config *config, msc_arena *arena);
int msc_chunk_of(const msc_pipeline_shape *s, int virtual_stage);

#endif
