/* lr_schedule.h: how the learning rate changes from step to step: --lr-schedule. */
#ifndef MSC_TOOLS_LR_SCHEDULE_H
#define MSC_TOOLS_LR_SCHEDULE_H

#include "tools/cli.h"

typedef struct {
  enum { LR_AS_COMPILED, LR_CONSTANT, LR_COSINE, LR_LINEAR, LR_STEP } kind;
  double warmup, steps, min, every, factor; /* steps 0: those of the run */
} lr_schedule;

/* "cosine:warmup=100,min=0.1".  False after a report. */
bool lr_schedule_read(cli *c, const char *text, lr_schedule *out);
/* The factor for step `step`, from 0 on, of a run of so many steps:
 *   the first `warmup` steps: (step + 1) / warmup
 *   then, with p the share of the remaining steps that is done, from 0 to 1:
 *   cosine  min + (1 - min) (1 + cos(pi p)) / 2      linear  min + (1 - min) (1 - p)
 *   step    factor ^ floor(steps since the warm-up / every)      constant  1 */
double lr_factor(const lr_schedule *s, int64_t step, int64_t steps);
/* True for the numbers of a plan that are learning rates. */
bool lr_is_learning_rate(const char *name);

#endif
