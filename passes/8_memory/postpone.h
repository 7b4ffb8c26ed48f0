/* postpone.h: transfers of an offloaded function in the room that there is. */
#ifndef MSC_PASSES_POSTPONE_H
#define MSC_PASSES_POSTPONE_H

#include "passes/pass.h"

/* Lets fetches begin later, and values that are taken back leave their places sooner, until the function needs no more
 * than the room that memory_limit, or else the device, leaves, if that can be. */
void msc_postpone_transfers(msc_pass_ctx *pass, msc_func *f);

#endif
