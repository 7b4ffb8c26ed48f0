/* stage_costs.h: lowered and allocated sections -> what a schedule is made for. */
#ifndef MSC_PASSES_STAGE_COSTS_H
#define MSC_PASSES_STAGE_COSTS_H

#include "passes/6_pipeline/pipeline.h"
#include "passes/pass.h"

/* By virtual stage: predicted times of its sections and messages, bytes that they carry.  In the scratch arena. */
msc_section_cost *msc_stage_costs(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* By stage: ns of what runs once per step. */
int64_t *msc_stage_updates(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* By stage: bytes that memory_limit, or else the device, leaves for what depends on the schedule; 0: none. */
int64_t *msc_stage_room(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* Bytes that memory_limit, or else the device, leaves for values of one function of the module, before there is a
 * schedule: with one batch at work, one that is read ahead, and as many micro-batches carried as there are stages. */
uint64_t msc_room_for_values(msc_pass_ctx *pass, const msc_func *f);
/* By stage: bytes of its slots and inputs.  Slots of a class are as large as the largest of its chunks; all stages have
 * as many batches of inputs as the one that needs most. */
int64_t *msc_stage_slot_bytes(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape,
                              const msc_schedule *s);

#endif
