/* chain.c: the order in which the backward of a chain recomputes its states (binomial checkpointing, see chain.h).
 *
 * With c checkpoints and at most r forwards of any step, (c + r choose c) steps can be reversed: a checkpoint behind
 * the first k steps leaves the rest c - 1 checkpoints and r forwards, and the first k, which have run once by then, c
 * checkpoints and r - 1 forwards. */
#include "passes/4_partition/chain.h"

#include "ir/table.h"

int64_t msc_chain_most(int64_t checkpoints, int64_t repeats) {
  int64_t least = checkpoints < repeats ? checkpoints : repeats, n = 1;
  if (least < 0) return 0;
  for (int64_t i = 1; i <= least; i++) {
    int64_t factor = checkpoints + repeats - least + i;
    if (n > INT64_MAX / factor) return INT64_MAX;
    n = n * factor / i; /* an integer: (factor choose i) */
  }
  return n;
}

static int64_t min_repeats(int64_t steps, int64_t checkpoints) {
  int64_t r = 0;
  while (msc_chain_most(checkpoints, r) < steps) r++;
  return r;
}

/* Every step runs forward r times, except those for which fewer are enough. */
int64_t msc_chain_forwards(int64_t steps, int64_t checkpoints) {
  int64_t r = min_repeats(steps, checkpoints);
  return r ? r * steps - msc_chain_most(checkpoints + 1, r - 1) : 0;
}

typedef struct {
  msc_arena *arena;
  msc_chain *chain;
  size_t room;
  int64_t *ran; /* by step: forwards */
} reverser;

static void append_chain_work(reverser *z, msc_chain_work work, int64_t step) {
  msc_chain *c = z->chain;
  msc_reserve(z->arena, c->entry, z->room, c->num + 1);
  c->entry[c->num++] = (msc_chain_entry){work, step};
  if (work != MSC_CHAIN_FORWARD) return;
  c->forwards++;
  if (++z->ran[step] > c->repeats) c->repeats = z->ran[step];
}

/* Returns the number of steps before the next checkpoint: so many that the steps on both sides of it can be reversed
 * without more forwards of a step than the whole chain needs. */
static int64_t steps_before_checkpoint(int64_t steps, int64_t checkpoints) {
  int64_t r = min_repeats(steps, checkpoints), most = msc_chain_most(checkpoints, r - 1),
          rest = steps - msc_chain_most(checkpoints - 1, r - 1);
  int64_t k = rest < most ? rest : most;
  return k > 1 ? k : 1;
}

/* Reverses `steps` steps from `from` on, whose state is current and in a checkpoint. The recursion is as deep as
 * there are checkpoints. */
static void reverse_chain(reverser *z, int64_t from, int64_t steps, int64_t checkpoints) {
  for (; steps > 1; append_chain_work(z, MSC_CHAIN_RESTORE, from)) {
    int64_t k = checkpoints > 1 ? steps_before_checkpoint(steps, checkpoints) : steps - 1;
    for (int64_t i = 0; i < k; i++) append_chain_work(z, MSC_CHAIN_FORWARD, from + i);
    if (checkpoints > 1 && steps - k > 1) {
      append_chain_work(z, MSC_CHAIN_STORE, from + k);
      reverse_chain(z, from + k, steps - k, checkpoints - 1);
      append_chain_work(z, MSC_CHAIN_FREE, from + k);
    } else append_chain_work(z, MSC_CHAIN_BACKWARD, from + k);
    steps = k;
  }
  append_chain_work(z, MSC_CHAIN_BACKWARD, from);
}

msc_chain msc_chain_reverse(msc_arena *arena, int64_t steps, int64_t checkpoints) {
  msc_chain c = {0};
  reverser z = {.arena = arena, .chain = &c, .ran = msc_new_array(arena, int64_t, steps)};
  append_chain_work(&z, MSC_CHAIN_STORE, 0);
  reverse_chain(&z, 0, steps, checkpoints);
  append_chain_work(&z, MSC_CHAIN_FREE, 0);
  return c;
}
