/* pools.h: where the pools of a rank's memory lie: the compiler counts with it, the runtime lays out by it, so that
 * what a plan says is what a rank has. */
#ifndef MSC_IR_POOLS_H
#define MSC_IR_POOLS_H

#include <stdint.h>

/* Mailboxes come first: their senders are on other stages, and find them without knowing the rest. Scratch begins at a
 * sector, so that a value on disk may be read to its place there. */
typedef enum {
  MSC_POOL_MAILBOXES,
  MSC_POOL_SCRATCH,
  MSC_POOL_PERSISTENT,
  MSC_POOL_INPUTS,
  MSC_POOL_CARRIED, /* three classes of values carried to later sections */
  MSC_NUM_POOLS = MSC_POOL_CARRIED + 3,
} msc_pool;

enum { MSC_POOL_LINE = 64, MSC_SECTOR = 512 };
#define MSC_MOST_POOL_BYTES ((uint64_t)1 << 46) /* of a pool: sums of offsets cannot overflow; no rank has so much */

static inline uint64_t msc_pool_lines(uint64_t bytes) {
  return (bytes + MSC_POOL_LINE - 1) / MSC_POOL_LINE * MSC_POOL_LINE;
}

/* Returns the bytes of `slots` slots, of one at least, because entries that carry nothing name slot 0. */
static inline uint64_t msc_pool_slots_bytes(uint64_t slot_bytes, uint32_t slots) {
  return slot_bytes * (slots ? slots : 1);
}

/* Places the pools one behind the other, each at the begin of a line; returns the bytes of all. */
static inline uint64_t msc_pools_lay_out(const uint64_t *bytes, uint64_t *out_at) {
  uint64_t at = 0;
  for (int i = 0; i < MSC_NUM_POOLS; i++) {
    if (i == MSC_POOL_SCRATCH) at = (at + MSC_SECTOR - 1) / MSC_SECTOR * MSC_SECTOR;
    out_at[i] = at;
    at += msc_pool_lines(bytes[i]);
  }
  return at;
}

#endif
