/* target.h: a row for each target that plans are compiled for, which compiler and runtime read. */
#ifndef MSC_IR_ABI_TARGET_H
#define MSC_IR_ABI_TARGET_H

#include <stdint.h>

/* id            its name in C, in plans, and as --target says it
 * most_units    units of work of one launch: a GPU's grid has so many blocks at most
 * has_images    a plan's code is for a driver to load; none of it is for the CPU of this machine
 * calls_whole   a product or graph is one call of a library, which adds functions and sums; else it has tiles */
#define MSC_TARGETS(X)             \
  X(cpu, UINT32_MAX, false, false) \
  X(cuda, INT32_MAX, true, true)

enum {
#define X(id, most_units, has_images, calls_whole) MSC_TARGET_##id,
  MSC_TARGETS(X)
#undef X
};

enum {
#define X(id, most_units, has_images, calls_whole) MSC_MOST_UNITS_##id = most_units,
  MSC_TARGETS(X)
#undef X
};

#endif
