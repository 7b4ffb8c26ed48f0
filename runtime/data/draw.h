/* draw.h: random numbers of initial values. */
#ifndef MSC_RUNTIME_DRAW_H
#define MSC_RUNTIME_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#define MSCRT_DRAWN_BLOCKS 16

/* Writes to out[4 i .. 4 i + 3] the numbers of block `block` + i, for i below MSCRT_DRAWN_BLOCKS: between -scale and
 * scale, or with `normal` those of mean 0 and standard deviation `scale`. plain: without wide vectors, to the same
 * bits. */
void mscrt_draw_blocks(bool normal, double scale, const uint32_t key[2], uint64_t block, double *out, bool plain);

#endif
