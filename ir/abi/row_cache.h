/* row_cache.h: how much memory a cache of a table's rows needs to know which rows it holds. */
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

#endif
