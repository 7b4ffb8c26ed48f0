/* search_time.h: the searches for the least time of a step: exact (dynamic_programming), digit by digit
 * (recursive_programming), and of what propagation left free (sharding_propagation, and all modes but auto_parallel):
 * few ways are tried then, whatever memory they take.  In the others what is kept over a step stays within
 * memory_limit, else the device's memory, or within search_room = BYTES on the function: as nearly as can be, 0:
 * whatever it is, for whom will see what a step needs in all (then kept_bytes = BYTES says what is kept).
 *
 * They leave behind `sharding` and `by` on leaders, and of auto_parallel
 *   least_step_ns = NS, and compared = "..." on the function: no strategy takes less, of those that are named; not
 * there: of all
 *   searched = true   on the function: layouts lets sums pass only where told, redistributions are planned for time
 *   pass = "{tp}"     on sums of gradients that leave and arrive unfinished on these digits
 *   by = "copy"       on those, which are no gradient ops any more (but once of `owner`, with `owner_letters`), and on
 *   broadcast_to      to the same shape: where a value is brought into a layout once for several users;
 * redistribute drops it */
#ifndef MSC_PASSES_3_SHARD_SEARCH_TIME_H
#define MSC_PASSES_3_SHARD_SEARCH_TIME_H

#include "passes/pass.h"

bool shard_search_time(msc_pass_ctx *pass, msc_func *f);

#endif
