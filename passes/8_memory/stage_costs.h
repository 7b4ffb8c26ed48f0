/* stage_costs.h: times and bytes of the stages, by which schedules are made, from lowered and allocated sections. */
#ifndef MSC_PASSES_STAGE_COSTS_H
#define MSC_PASSES_STAGE_COSTS_H

#include "passes/6_pipeline/pipeline.h"
#include "passes/pass.h"

/* By virtual stage: predicted times of its sections and messages, and the bytes that they carry. Allocated in the
 * scratch arena. */
msc_section_cost *msc_stage_costs(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* By stage: time of the update section, in ns. */
int64_t *msc_stage_updates(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* By stage: the bytes that memory_limit, or else the device, leaves for slots and inputs; 0: none. */
int64_t *msc_stage_room(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape);
/* The bytes that memory_limit, or else the device, leaves for the values of function f, before there is a schedule:
 * it assumes one batch in use, one read ahead, and as many micro-batches in flight as there are stages. */
uint64_t msc_room_for_values(msc_pass_ctx *pass, const msc_func *f);
/* Bytes that a chunk of a stage carries from one section to a later one, of one class and micro-batch. */
int64_t msc_carried_bytes(const msc_module *m, msc_slot_class class, int64_t stage, int64_t chunk);
/* By stage: bytes of its slots and inputs. Slots of a class have the size that the largest chunk needs; all stages
 * have as many batches of inputs as the stage that needs most. */
int64_t *msc_stage_slot_bytes(msc_pass_ctx *pass, const msc_module *m, const msc_pipeline_shape *shape,
                              const msc_schedule *s);

#endif
