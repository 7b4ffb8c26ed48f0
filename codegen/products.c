/* products.c: the kernels of matrix products as tools/embed_products.c made them when msc was built. */
#include "codegen/emit/emit.h"

#define PRODUCT(level, part, dtype, num, ...) \
  static const _Alignas(8) uint8_t object_##level##_##part##_##dtype[num] = {__VA_ARGS__};
#include "products.h"
#undef PRODUCT

msc_object msc_product_object(int level, msc_product_part part, msc_dtype dtype) {
#define PRODUCT(l, p, d, num, ...) \
  if (level == l && part == p && dtype == d) return (msc_object){object_##l##_##p##_##d, num};
#include "products.h"
#undef PRODUCT
  return (msc_object){0};
}
