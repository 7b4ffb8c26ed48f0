/* schedule_transformer.h: `msc schedule --transformer`: what the layers of a transformer keep. */
#ifndef MSC_TOOLS_SCHEDULE_TRANSFORMER_H
#define MSC_TOOLS_SCHEDULE_TRANSFORMER_H

#include "tools/cli.h"

typedef struct {
  bool is_given;
  double layers;      /* of one stage */
  double layer_bytes; /* that a layer keeps for a micro-batch between its forward and its backward */
  double state_bytes; /* of one stage's parameters, their gradients and the optimizer's state */
} schedule_transformer;

/* The first of its options that is given, or NULL. */
const char *schedule_transformer_option(cli *c);
/* Reads its options; CLI_OK, or an exit code after a report. Everything is 0 without --transformer. */
int schedule_transformer_read(cli *c, int stages, int chunks, schedule_transformer *out);

#endif
