/* chain.h: a chain of steps whose backward needs every step's state, with room for few of them -> what is computed
 * again when (Griewank and Walther 2000, revolve). */
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

/* The most steps of a chain of which none runs forward more often than `repeats` times; INT64_MAX: more than that. */
int64_t msc_chain_most(int64_t checkpoints, int64_t repeats);
/* Of at least one step and one checkpoint, which holds the state at the beginning. */
msc_chain msc_chain_reverse(msc_arena *arena, int64_t steps, int64_t checkpoints);
/* Forwards of that; without the order. */
int64_t msc_chain_forwards(int64_t steps, int64_t checkpoints);

#endif
