/* grid.c: refines random grids: every rank keeps its elements, and what is cut further divides each slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ir/layout/grid.h"

enum { CASES = 400, MAX_ELEMS = 1 << 12 };

static uint32_t next_random = 1;

static int64_t pick(int64_t n) {
  next_random = next_random * 1664525u + 1013904223u;
  return (next_random >> 8) % n;
}

/* Factors of n in random order and number. */
static int factors(int64_t n, int max, int64_t *out) {
  int num = 0;
  while (n > 1 && num < max - 1) {
    int64_t f = 1 + pick(n);
    while (n % f) f--;
    out[num++] = f;
    n /= f;
  }
  out[num++] = n;
  return num;
}

static msc_grid random_grid(int64_t devices, int64_t elems) {
  msc_grid g;
  uint32_t used = 0;
  memset(&g, 0, sizeof g);
  g.num_axes = factors(devices, 4, g.axis);
  g.num_dims = factors(elems, 4, g.dim);
  for (int d = 0; d < g.num_dims; d++)
    for (int64_t left = g.dim[d]; pick(3);) {
      int a = (int)pick(g.num_axes);
      if (used >> a & 1 || left % g.axis[a]) break;
      used |= 1u << a;
      left /= g.axis[a];
      g.on[d][g.num[d]++] = (uint8_t)a;
    }
  return g;
}

/* Numbers of the elements that a rank holds, in row-major order of the whole tensor; the layout algebra
 * takes 8 dimensions. */
static int64_t elements(const msc_grid *g, int64_t rank, int64_t *out) {
  int64_t at[MSC_GRID_AXES], begin[MSC_GRID_DIMS], size[MSC_GRID_DIMS], num = 1, i[MSC_GRID_DIMS] = {0};
  for (int a = g->num_axes; a-- > 0; rank /= g->axis[a]) at[a] = rank % g->axis[a];
  for (int d = 0; d < g->num_dims; d++) {
    begin[d] = 0, size[d] = g->dim[d];
    for (int k = 0; k < g->num[d]; k++) size[d] /= g->axis[g->on[d][k]], begin[d] += size[d] * at[g->on[d][k]];
    num *= size[d];
  }
  for (int64_t n = 0; n < num; n++) {
    out[n] = 0;
    for (int d = 0; d < g->num_dims; d++) out[n] = out[n] * g->dim[d] + begin[d] + i[d];
    for (int d = g->num_dims; d-- > 0 && ++i[d] == size[d];) i[d] = 0;
  }
  return num;
}

/* `copies` of a's devices in front make b's. */
static void assert_same(const msc_grid *a, const msc_grid *b) {
  static int64_t x[MAX_ELEMS], y[MAX_ELEMS];
  int64_t devices = msc_grid_devices(a);
  for (int64_t rank = 0; rank < msc_grid_devices(b); rank++) {
    int64_t num = elements(a, rank % devices, x);
    assert_int_equal(num, elements(b, rank, y));
    assert_memory_equal(x, y, (size_t)num * sizeof *x);
  }
}

static void refined_grids_hold_the_same(void **state) {
  (void)state;
  int done = 0;
  for (int n = 0; n < CASES; n++) {
    int64_t devices = (int64_t[]){4, 6, 8, 12, 16, 36}[pick(6)],
            elems = (int64_t[]){16, 36, 64, 144, 576, 1024}[pick(6)];
    msc_grid was[2] = {random_grid(devices, elems), random_grid(pick(3) ? devices : 2 * devices, elems)},
             now[2] = {was[0], was[1]};
    if (!msc_grid_refine(2, now, (msc_grid_sizes){0}, (msc_grid_sizes){0})) continue;
    done++;
    assert_int_equal(now[0].num_axes, now[1].num_axes);
    assert_memory_equal(now[0].axis, now[1].axis, sizeof *now[0].axis * (size_t)now[0].num_axes);
    assert_int_equal(now[0].num_dims, now[1].num_dims);
    assert_memory_equal(now[0].dim, now[1].dim, sizeof *now[0].dim * (size_t)now[0].num_dims);
    for (int k = 0; k < 2; k++) {
      for (int d = 0; d < now[k].num_dims; d++) assert_true(now[k].num[d] <= 1);
      assert_same(&was[k], &now[k]);
    }
  }
  assert_true(done > CASES / 4);
}

static void mesh_and_back(void **state) {
  (void)state;
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int n = 0; n < CASES; n++) {
    msc_grid g = random_grid(36, 576), back;
    msc_mesh mesh;
    const msc_layout *l;
    assert_true(msc_grid_layout(ctx, &g, 72, &mesh, &l));
    msc_grid_of(&mesh, l, g.num_dims, g.dim, &back);
    assert_same(&g, &back);
  }
  msc_context_free(ctx);
}

static void copies_are_cut(void **state) {
  (void)state;
  int done = 0;
  for (int n = 0; n < CASES; n++) {
    static int64_t x[MAX_ELEMS], y[MAX_ELEMS];
    msc_grid g = random_grid(16, 1024), cut = g;
    int64_t ways = (int64_t[]){2, 4, -1}[pick(3)];
    if (!msc_grid_cut_copies(&cut, ways)) continue;
    done++;
    assert_int_equal(msc_grid_devices(&cut), 16);
    int64_t before = elements(&g, 0, x), after = elements(&cut, 0, y);
    if (ways > 0) assert_int_equal(before, after * ways);
    else assert_true(after < before);
    for (int d = 1; d < g.num_dims; d++) assert_int_equal(cut.dim[cut.num_dims - d], g.dim[g.num_dims - d]);
  }
  assert_true(done > CASES / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(refined_grids_hold_the_same), cmocka_unit_test(mesh_and_back),
                                     cmocka_unit_test(copies_are_cut)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
