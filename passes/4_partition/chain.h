/* chain.h: the backward of a chain of steps needs the state of every step, but only few fit in memory: which are
 * recomputed when (Griewank and Walther 2000, revolve). */
#ifndef MSC_PASSES_4_PARTITION_CHAIN_H
#define MSC_PASSES_4_PARTITION_CHAIN_H

#include "ir/ir.h"

typedef enum {
  MSC_CHAIN_FORWARD,  /* from state `step` to state step + 1 */
  MSC_CHAIN_BACKWARD, /* of step `step`, from its state */
  MSC_CHAIN_STORE,    /* the state, `step`, in a free checkpoint */
  MSC_CHAIN_RESTORE,  /* state `step` becomes the state */
  MSC_CHAIN_FREE,     /* the checkpoint that holds state `step` */
} msc_chain_work;

typedef struct {
  msc_chain_work work;
  int64_t step;
} msc_chain_entry;

typedef struct {
  size_t num;
  msc_chain_entry *entry;
  int64_t forwards; /* as few as can be */
  int64_t repeats;  /* the most forwards of one step */
} msc_chain;

/* The longest chain that can be reversed with no step running forward more than `repeats` times; INT64_MAX if
 * longer. */
int64_t msc_chain_most(int64_t checkpoints, int64_t repeats);
/* Returns the order of work for at least one step and one checkpoint, which holds the state at the beginning. */
msc_chain msc_chain_reverse(msc_arena *arena, int64_t steps, int64_t checkpoints);
/* The number of forwards in that order, without making it. */
int64_t msc_chain_forwards(int64_t steps, int64_t checkpoints);

#endif
