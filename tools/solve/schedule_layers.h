/* schedule_layers.h: msc schedule --layers: which layers each stage should hold. */
#ifndef MSC_TOOLS_SCHEDULE_LAYERS_H
#define MSC_TOOLS_SCHEDULE_LAYERS_H

#include "passes/6_pipeline/schedule/schedule.h"
#include "tools/cli.h"

/* Reads --layers and what belongs to it, prints the runs; an exit code. */
int schedule_layers(cli *c, msc_schedule_kind kind, int stages, int chunks, int micro_batches);

#endif
