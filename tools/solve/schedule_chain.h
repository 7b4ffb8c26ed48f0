/* schedule_chain.h: `msc schedule --checkpoints`. */
#ifndef MSC_TOOLS_SCHEDULE_CHAIN_H
#define MSC_TOOLS_SCHEDULE_CHAIN_H

#include "tools/cli.h"

/* --chain or --repeats in; the order of the chain's backward out, as text or as JSON. */
int schedule_chain(cli *c);

#endif
