/* vector_width.c: the x86-64 level of a CPU, or a width that the user forces, in; how wide the vectors of kernels are,
 * out. */
#include "codegen/emit/emit.h"

msc_vector_width msc_choose_vector_width(int level, int forced) {
  if (forced) return (msc_vector_width){forced, forced, forced};
  int bytes = level >= 3 ? 32 : 16, product = level >= 4 ? 64 : 32;
  /* sums over lanes gain little from vectors of 64 bytes, and the order of their terms would change */
  return (msc_vector_width){.summed = bytes, .apart = level >= 4 ? 64 : bytes, .product = product};
}
