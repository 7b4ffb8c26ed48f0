/* row_cache.h: how much memory a cache of a table's rows needs to know which rows it holds, and to swap them with those
 * of a GPU. */
#ifndef MSC_ROW_CACHE_H
#define MSC_ROW_CACHE_H

#include <stdint.h>

enum {
  MSC_ROW_LEVELS = 256,    /* numbers of uses that a cache tells apart */
  MSC_ROW_ENTRY_BYTES = 8, /* per row of the table: where it is, and how often it was used */
  MSC_ROW_SLOT_BYTES = 40  /* per row of the cache: whose it is, its neighbours in a list; and a row to be brought */
};

/* Returns the bytes of the index of a cache that holds at most `cached` of `rows` rows. */
static inline uint64_t msc_row_index_bytes(uint64_t rows, uint64_t cached) {
  return rows * MSC_ROW_ENTRY_BYTES + (cached + MSC_ROW_LEVELS + 1) * MSC_ROW_SLOT_BYTES;
}

/* A GPU swaps rows in its memory with rows in the pool of a cache, which lies in the host's memory. The pool begins
 * with the number of swaps, u32, and 4 bytes that nobody reads; then, for each swap, the slot, u32, and whether its old
 * row goes back, u32: else the new row stays in the pool, too. Behind these, each from a whole line on, lie the rows of
 * the table and of its state, row number i of each for swap number i. */
enum { MSC_ROW_POOL_HEAD = 8, MSC_ROW_SWAP_BYTES = 8, MSC_ROW_POOL_LINE = 64 };

static inline uint64_t msc_row_pool_lines(uint64_t bytes) {
  return (bytes + MSC_ROW_POOL_LINE - 1) / MSC_ROW_POOL_LINE * MSC_ROW_POOL_LINE;
}

/* Returns where the rows of value `num` begin in a pool with room for so many swaps; with the number of all values: how
 * large the pool is. row_bytes: of a row of each value. */
static inline uint64_t msc_row_pool_at(uint64_t swaps, uint32_t num, const uint64_t *row_bytes) {
  uint64_t at = msc_row_pool_lines(MSC_ROW_POOL_HEAD + swaps * MSC_ROW_SWAP_BYTES);
  for (uint32_t i = 0; i < num; i++) at += msc_row_pool_lines(swaps * row_bytes[i]);
  return at;
}

/* A block of the kernel that swaps has so many threads, which move a unit of a row at a time; there are at most so many
 * blocks: what these have under way fills the link to the host. */
enum { MSC_ROW_SWAP_THREADS = 256, MSC_ROW_SWAP_BLOCKS = 64, MSC_ROW_SWAP_BUFFERS = 3, MSC_ROW_SWAP_DIMS = 1 };

/* Returns the bytes of a unit: the largest power of two up to 16 that divides a row. */
static inline uint64_t msc_row_unit(uint64_t row_bytes) {
  uint64_t unit = 16;
  while (row_bytes % unit) unit /= 2;
  return unit;
}

#endif
