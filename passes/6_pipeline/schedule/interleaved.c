/* interleaved.c: the schedule with v chunks on each of p stages (Narayanan et al. 2021). Micro-batches go through in
 * groups of g = p: a whole group through chunk 0, then through chunk 1, ...; backward with the chunks reversed. Stage i
 * begins with 2 (p - i - 1) + (v - 1) g forwards, then runs F and B in turn.
 *
 * If p does not divide m the groups are larger and differ by one: 13 on 4 stages are 5, 4, 4. A group smaller than p
 * would wait at every chunk for its first micro-batch to come round; larger ones keep the bubble at (p - 1) / (v m + p
 * - 1) and take up to (v - 1) (g - p) more buffers. With m < p there is one group, which waits; no order does
 * better. */
#include "passes/6_pipeline/schedule/order.h"

/* By forward of a stage, in order: its chunk. The chunk of a backward is the mirrored one. */
static int *forward_chunks(const msc_orders *b, int num_groups) {
  int v = b->o->chunks, m = b->o->micro_batches, at = 0, *chunk = msc_new_array(b->scratch, int, v *m);
  for (int g = 0; g < num_groups; g++) {
    int size = m / num_groups + (g < m % num_groups);
    for (int n = 0; n < v * size; n++) chunk[at++] = n / size;
  }
  return chunk;
}

bool order_interleaved(msc_orders *b) {
  int p = b->o->stages, v = b->o->chunks, m = b->o->micro_batches, all = v * m;
  int num_groups = m < p ? 1 : m / p, largest = (m + num_groups - 1) / num_groups;
  const int *chunk = forward_chunks(b, num_groups);
  for (int i = 0; i < p; i++) {
    int ahead = (int)msc_min(2 * (p - i - 1) + (v - 1) * largest, all);
    for (int n = 0; n < ahead; n++) msc_order_put(b, i, MSC_FORWARD, chunk[n]);
    for (int n = 0; n < all; n++) {
      if (ahead + n < all) msc_order_put(b, i, MSC_FORWARD, chunk[ahead + n]);
      msc_order_put(b, i, MSC_BACKWARD, v - 1 - chunk[n]);
    }
  }
  return true;
}
