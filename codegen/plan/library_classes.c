/* library_classes.c: the sizes of a product of f32 in; why a library is faster there out. A row is a class of products
 * in which oneDNN 2.6 took at least 5 % less time than generated kernels, on one thread and on two of the machine that
 * it names; products of other classes are a library's only where --autotune measures them to be
 * (runtime/execute/tiles.c). */
#include "codegen/plan/plan.h"

typedef struct {
  uint64_t least, most;
} range;

enum { NN = 1, NT = 2, TN = 4 }; /* which operand is transposed */

#define ANY UINT64_MAX

static const struct {
  int forms;
  range m, n, k;
  const char *why;
} classes[] = {
    /* AMD Zen 3 (AVX2): 1.2 to 2.3 times the speed of kernels */
    {NN | NT | TN, {1, 1}, {1024, ANY}, {1024, ANY}, "one row meets a whole matrix, which a library fetches ahead"},
    /* likewise: 1.14 to 1.35 */
    {NN | NT | TN, {256, 1024}, {256, 1024}, {1, 8}, "storing the sums of so few terms takes most of the time"},
    /* likewise: 1.09 to 1.30; in the other forms oneDNN may take twice the time of kernels */
    {NT, {512, 1024}, {256, 1024}, {9, 32}, "storing the sums of so few terms takes most of the time"},
};

static bool holds(range r, uint64_t size) { return size >= r.least && size <= r.most; }

const char *msc_why_by_library(const msc_plan_matmul *p) {
  int form = p->transpose_a ? (p->transpose_b ? 0 : TN) : p->transpose_b ? NT : NN;
  for (size_t i = 0; i < sizeof classes / sizeof *classes && p->batch == 1; i++)
    if (form & classes[i].forms && holds(classes[i].m, p->m) && holds(classes[i].n, p->n) && holds(classes[i].k, p->k))
      return classes[i].why;
  return NULL;
}
