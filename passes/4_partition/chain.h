/* chain.h: a number of steps and of checkpoints -> an order of work for the backward of the steps. The backward needs
 * the state of every step, but only few fit in memory: the order says which states are recomputed, and when (Griewank
 * and Walther 2000, revolve). */
#ifndef MSC_PASSES_4_PARTITION_CHAIN_H
#define MSC_PASSES_4_PARTITION_CHAIN_H

#include "ir/ir.h"

typedef enum {
  MSC_CHAIN_FORWARD,  /* computes state step + 1 from the current state, `step` */
  MSC_CHAIN_BACKWARD, /* computes the backward of step `step` from the current state */
  MSC_CHAIN_STORE,    /* copies the current state, `step`, into a free checkpoint */
  MSC_CHAIN_RESTORE,  /* makes state `step` the current state, from its checkpoint */
  MSC_CHAIN_FREE,     /* frees the checkpoint that holds state `step` */
} msc_chain_work;

typedef struct {
  msc_chain_work work;
  int64_t step;
} msc_chain_entry;

typedef struct {
  size_t num;
  msc_chain_entry *entry;
  int64_t forwards; /* forwards in all, the fewest possible */
  int64_t repeats;  /* the most forwards of one step */
} msc_chain;

/* Returns the number of steps of the longest chain that can be reversed with at most `repeats` forwards of each step;
 * INT64_MAX: the number does not fit. */
int64_t msc_chain_most(int64_t checkpoints, int64_t repeats);
/* Returns the order of work for at least one step and one checkpoint, which holds the state at the beginning. */
msc_chain msc_chain_reverse(msc_arena *arena, int64_t steps, int64_t checkpoints);
/* The number of forwards in that order, without making it. */
int64_t msc_chain_forwards(int64_t steps, int64_t checkpoints);

#endif
