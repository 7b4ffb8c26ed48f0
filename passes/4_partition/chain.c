/* chain.c: the binomial order of a chain's backward (see chain.h).
 *
 * With c checkpoints and r forwards of a step at most, (c + r choose c) steps can be reversed: a checkpoint behind the
 * first k of them leaves the rest to c - 1 checkpoints and r forwards, and the first k, which ran once by then, to c
 * and r - 1. */
#include "passes/4_partition/chain.h"

int64_t msc_chain_most(int64_t checkpoints, int64_t repeats) {
  int64_t least = checkpoints < repeats ? checkpoints : repeats, n = 1;
  if (least < 0) return 0;
  for (int64_t i = 1; i <= least; i++) {
    int64_t factor = checkpoints + repeats - least + i;
    if (n > INT64_MAX / factor) return INT64_MAX;
    n = n * factor / i; /* whole: it is (factor choose i) */
  }
  return n;
}

static int64_t repeats_for(int64_t steps, int64_t checkpoints) {
  int64_t r = 0;
  while (msc_chain_most(checkpoints, r) < steps) r++;
  return r;
}

/* Every step runs forward r times, but for those that a smaller number is enough for. */
int64_t msc_chain_forwards(int64_t steps, int64_t checkpoints) {
  int64_t r = repeats_for(steps, checkpoints);
  return r ? r * steps - msc_chain_most(checkpoints + 1, r - 1) : 0;
}

typedef struct {
  msc_arena *arena;
  msc_chain *chain;
  size_t room;
  int64_t *ran; /* by step: forwards */
} reversing;

static void put(reversing *z, msc_chain_work work, int64_t step) {
  msc_chain *c = z->chain;
  if (c->num == z->room) {
    msc_chain_entry *old = c->entry;
    z->room = 2 * z->room + 64;
    c->entry = msc_new_array(z->arena, msc_chain_entry, z->room);
    for (size_t i = 0; i < c->num; i++) c->entry[i] = old[i];
  }
  c->entry[c->num++] = (msc_chain_entry){work, step};
  if (work != MSC_CHAIN_FORWARD) return;
  c->forwards++;
  if (++z->ran[step] > c->repeats) c->repeats = z->ran[step];
}

/* Steps before the next checkpoint: both sides can be done with as many forwards as they may have. */
static int64_t split(int64_t steps, int64_t checkpoints) {
  int64_t r = repeats_for(steps, checkpoints), most = msc_chain_most(checkpoints, r - 1),
          rest = steps - msc_chain_most(checkpoints - 1, r - 1);
  int64_t k = rest < most ? rest : most;
  return k > 1 ? k : 1;
}

/* Of steps from `from` on, whose state is there and in one of the checkpoints.  As deep as there are checkpoints. */
static void reverse(reversing *z, int64_t from, int64_t steps, int64_t checkpoints) {
  for (; steps > 1; put(z, MSC_CHAIN_RESTORE, from)) {
    int64_t k = checkpoints > 1 ? split(steps, checkpoints) : steps - 1;
    for (int64_t i = 0; i < k; i++) put(z, MSC_CHAIN_FORWARD, from + i);
    if (checkpoints > 1 && steps - k > 1) {
      put(z, MSC_CHAIN_STORE, from + k);
      reverse(z, from + k, steps - k, checkpoints - 1);
      put(z, MSC_CHAIN_FREE, from + k);
    } else put(z, MSC_CHAIN_BACKWARD, from + k);
    steps = k;
  }
  put(z, MSC_CHAIN_BACKWARD, from);
}

msc_chain msc_chain_reverse(msc_arena *arena, int64_t steps, int64_t checkpoints) {
  msc_chain c = {0};
  reversing z = {.arena = arena, .chain = &c, .ran = msc_new_array(arena, int64_t, steps)};
  put(&z, MSC_CHAIN_STORE, 0);
  reverse(&z, 0, steps, checkpoints);
  put(&z, MSC_CHAIN_FREE, 0);
  return c;
}
