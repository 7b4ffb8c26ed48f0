/* step_time_search.h: the searches for the strategy with the least time of a step.
 *
 * dynamic_programming compares all strategies, recursive_programming goes piece by piece of the mesh, and in every
 * other mode only letters that propagation left free are searched (sharding_propagation): few states, and no limit on
 * memory. The first two keep the bytes that live over a step within a limit: memory_limit, else the device's memory.
 * The fact search_room = BYTES of the function replaces it, for a driver that compiles the plan and then knows the
 * memory of a whole step: 0 is no limit, and a limit that no strategy keeps is raised to the least. The search then
 * leaves kept_bytes, the bytes that its strategy keeps.  The fact batch_cut = NS, of such a driver too, leaves to the
 * search only what data parallelism leaves open; NS is the bound of the search that was free, which this one repeats.
 *
 * The searches leave `sharding` and `by` on leaders, and in auto_parallel:
 *   least_step_ns = NS, compared = "..."   on the function: no strategy that `compared` names takes less time; without
 *                                          `compared`, none at all
 *   searched = true    on the function: sums pass only through ops with `pass`; redistributions are planned for time
 *   pass = "{tp}"      on ops through which sums over these digits pass unfinished
 *   by = "copy"        on sums of gradients that left the group of their op (`owner`, `owner_letters`), and on a
 *                      broadcast_to to the same shape, which brings a value into one layout for several users;
 *                      redistribute drops it */
#ifndef MSC_PASSES_3_SHARD_STEP_TIME_SEARCH_H
#define MSC_PASSES_3_SHARD_STEP_TIME_SEARCH_H

#include "passes/pass.h"

bool shard_search_time(msc_pass_ctx *pass, msc_func *f);

#endif
