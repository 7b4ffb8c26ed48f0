/* box.c: parts of even and uneven dimensions, groups, and pull lists executed on simulated ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/layout/box.h"

#define MAX_RANKS 64
#define MAX_ELEMS 4096

typedef struct {
  uint8_t first[MSC_BOX_RANK + 1];
  msc_digit digit[MSC_BOX_DIGITS];
  int64_t border[MSC_BOX_RANK][MAX_RANKS + 1];
  const int64_t *split[MSC_BOX_RANK];
  msc_box_layout l;
} layout;

static uint64_t seed = 1;
static int64_t roll(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void *take(void *user, size_t bytes) {
  (*(int *)user)++;
  return malloc(bytes);
}

static void *refuse(void *user, size_t bytes) {
  (void)user, (void)bytes;
  return NULL;
}

/* Deals the digits of the mesh at random over dimensions, partial and free. */
static void random_layout(const msc_box_mesh *mesh, int rank, bool partial, layout *out) {
  msc_digit atom[MSC_BOX_DIGITS];
  int place[MSC_BOX_DIGITS], num = 0;
  for (int a = 0; a < mesh->num_axes; a++) {
    uint32_t pre = 1, rest = (uint32_t)mesh->size[a];
    for (uint32_t p = 2; rest > 1; p++)
      for (; rest % p == 0; rest /= p, pre *= p) atom[num++] = (msc_digit){(uint32_t)a, pre, p};
  }
  for (int i = 0; i < num; i++) place[i] = (int)roll(rank + 1 + partial);
  for (int i = num - 1; i > 0; i--) { /* partial digits stay in mesh order, cuts come in any */
    int j = (int)roll(i + 1), p = place[i];
    if (p >= rank || place[j] >= rank) continue;
    msc_digit t = atom[i];
    atom[i] = atom[j], atom[j] = t;
    place[i] = place[j], place[j] = p;
  }
  memset(out, 0, sizeof *out);
  for (int d = 0; d <= rank + partial; d++) {
    if (d <= rank) out->first[d] = (uint8_t)out->l.num;
    for (int i = 0; i < num; i++)
      if (place[i] == d && (d < rank || (d == rank + 1 && partial))) out->digit[out->l.num++] = atom[i];
    if (d == rank) out->first[rank] = (uint8_t)out->l.num;
  }
  out->l.rank = rank, out->l.first = out->first, out->l.digit = out->digit;
  assert_true(msc_box_layout_ok(mesh, &out->l));
}

/* Gives some of the cut dimensions parts of random sizes, empty ones too. */
static void choose_sizes(const msc_box_mesh *mesh, const int64_t *shape, layout *x) {
  for (int d = 0; d < x->l.rank; d++) {
    int64_t parts = msc_group_size(x->first[d + 1] - x->first[d], x->digit + x->first[d]);
    if (parts == 1 || roll(3)) continue;
    for (int64_t i = 1; i < parts; i++) {
      int64_t at = i, b = roll(shape[d] + 1);
      for (; at > 1 && x->border[d][at - 1] > b; at--) x->border[d][at] = x->border[d][at - 1];
      x->border[d][at] = b;
    }
    x->border[d][parts] = shape[d];
    x->split[d] = x->border[d];
  }
  x->l.split = x->split;
  assert_true(msc_box_layout_ok(mesh, &x->l));
  assert_true(msc_box_shape_ok(&x->l, shape));
}

static int num_partial(const layout *x) { return x->l.num - x->first[x->l.rank]; }
static const msc_digit *partial_of(const layout *x) { return x->digit + x->first[x->l.rank]; }

/* The term of element e that a rank holds: depends on its partial digits only. */
static int64_t term_of(const msc_box_mesh *mesh, const layout *x, int64_t e, int64_t rank) {
  return 1000 * (e + 1) + 7 * msc_group_index(mesh, num_partial(x), partial_of(x), rank) * (e + 3);
}

static int64_t element_at(int rank, const int64_t *shape, const msc_box *b, int64_t i) {
  int64_t at[MSC_BOX_RANK], e = 0;
  for (int d = rank - 1; d >= 0; d--) at[d] = b->begin[d] + i % b->size[d], i /= b->size[d];
  for (int d = 0; d < rank; d++) e = e * shape[d] + at[d];
  return e;
}

/* Where element i of the box lies in a buffer, and how large that is. */
static int64_t place_of(int rank, const msc_box *b, const msc_box *buffer, int64_t i) {
  int64_t place = 0, stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    place += (i % b->size[d] + b->begin[d] - buffer->begin[d]) * stride;
    i /= b->size[d];
    stride *= buffer->size[d];
  }
  return place;
}

typedef struct {
  const int64_t *src;
  int64_t *dst, *seen;
} sum_args;

static void sum_run(void *user, int64_t dst, int64_t src, int64_t num) {
  sum_args *s = user;
  for (int64_t i = 0; i < num; i++) s->dst[dst + i] += s->src[src + i], s->seen[dst + i]++;
}

static int64_t before[MAX_RANKS][MAX_ELEMS], after[MAX_RANKS][MAX_ELEMS];

static void fill_before(const msc_box_mesh *mesh, const layout *from, const int64_t *shape) {
  for (int64_t r = 0; r < msc_box_mesh_size(mesh); r++) {
    msc_box b, buffer;
    msc_box_of(mesh, &from->l, shape, r, &b);
    msc_box_buffer(mesh, &from->l, shape, r, &buffer);
    for (int64_t i = 0; i < MAX_ELEMS; i++) before[r][i] = -1; /* padding */
    for (int64_t i = 0; i < msc_box_elems(from->l.rank, &b); i++)
      before[r][place_of(from->l.rank, &b, &buffer, i)] =
          term_of(mesh, from, element_at(from->l.rank, shape, &b, i), r);
  }
}

/* Executes one rank's pull list; every element of its box must be written num_terms times. */
static void pull(const msc_box_mesh *mesh, const layout *from, const layout *to, const int64_t *shape, int64_t r,
                 int *readers) {
  static int64_t seen[MAX_ELEMS];
  int calls = 0, rank = from->l.rank;
  msc_pull p;
  msc_box mine, buffer, theirs;
  assert_int_equal(msc_pull_of(mesh, &from->l, &to->l, shape, r, take, &calls, &p), MSC_PULL_OK);
  assert_true(calls <= 1);
  msc_box_of(mesh, &to->l, shape, r, &mine);
  msc_box_buffer(mesh, &to->l, shape, r, &buffer);
  memset(after[r], 0, sizeof after[r]);
  memset(seen, 0, sizeof seen);
  bool reads[MAX_RANKS] = {false};
  for (int64_t i = 0; i < p.num_pieces; i++)
    for (int64_t t = 0; t < p.num_terms; t++) {
      int64_t peer = p.peer[i * p.num_terms + t];
      assert_in_range(peer, t ? p.peer[i * p.num_terms + t - 1] + 1 : 0, msc_box_mesh_size(mesh) - 1);
      msc_box_buffer(mesh, &from->l, shape, peer, &theirs);
      msc_box_runs(rank, &p.piece[i], &buffer, &theirs, sum_run, &(sum_args){before[peer], after[r], seen});
      reads[peer] = true;
    }
  for (int64_t i = 0; i < msc_box_elems(rank, &mine); i++)
    assert_int_equal(seen[place_of(rank, &mine, &buffer, i)], p.identity ? 0 : p.num_terms);
  int64_t touched = 0;
  for (int64_t i = 0; i < MAX_ELEMS; i++) touched += seen[i] != 0;
  assert_int_equal(touched, p.identity ? 0 : msc_box_elems(rank, &mine));
  for (int64_t s = 0; s < msc_box_mesh_size(mesh); s++) readers[s] += reads[s] && s != r;
  free(p.piece);
}

/* The sum over the ranks of a partial group, for element i of the group's box. */
static int64_t finished(const msc_box_mesh *mesh, const layout *x, int64_t (*value)[MAX_ELEMS], int64_t r, int64_t i) {
  int64_t sum = 0, n = msc_group_size(num_partial(x), partial_of(x));
  for (int64_t t = 0; t < n; t++) sum += value[msc_group_member(mesh, num_partial(x), partial_of(x), r, t)][i];
  return sum;
}

static int64_t whole_value(const layout *from, int64_t e) {
  int64_t n = msc_group_size(num_partial(from), partial_of(from));
  return 1000 * (e + 1) * n + 7 * (e + 3) * (n * (n - 1) / 2);
}

static bool one_block_to_one(const layout *a, const layout *b, const int64_t *shape) {
  int64_t x[MSC_BOX_RANK], y[MSC_BOX_RANK];
  msc_box_largest(&a->l, shape, x);
  msc_box_largest(&b->l, shape, y);
  for (int d = 0; d < a->l.rank; d++) {
    int64_t k = msc_group_size(a->first[d + 1] - a->first[d], a->digit + a->first[d]);
    if (x[d] != y[d] || k * x[d] != shape[d] ||
        k != msc_group_size(b->first[d + 1] - b->first[d], b->digit + b->first[d]))
      return false;
  }
  return msc_group_size(num_partial(a), partial_of(a)) == msc_group_size(num_partial(b), partial_of(b));
}

static bool pure_permute(const layout *a, const layout *b) { return num_partial(a) == 0 && num_partial(b) == 0; }

static void run_change(const msc_box_mesh *mesh, const layout *from, const layout *to, const int64_t *shape) {
  int readers[MAX_RANKS] = {0};
  fill_before(mesh, from, shape);
  for (int64_t r = 0; r < msc_box_mesh_size(mesh); r++) pull(mesh, from, to, shape, r, readers);
  for (int64_t r = 0; r < msc_box_mesh_size(mesh); r++) {
    msc_box b, buffer;
    msc_box_of(mesh, &to->l, shape, r, &b);
    msc_box_buffer(mesh, &to->l, shape, r, &buffer);
    for (int64_t i = 0; i < msc_box_elems(to->l.rank, &b); i++)
      assert_int_equal(finished(mesh, to, after, r, place_of(to->l.rank, &b, &buffer, i)),
                       whole_value(from, element_at(to->l.rank, shape, &b, i)));
    if (pure_permute(from, to) && one_block_to_one(from, to, shape)) assert_in_range(readers[r], 0, 1);
  }
}

static void test_random_changes(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 2, 3, 4, 6};
  for (int n = 0; n < 4000; n++) {
    msc_box_mesh mesh = {.num_axes = (int)roll(4)};
    do
      for (int a = 0; a < mesh.num_axes; a++) mesh.size[a] = sizes[roll(6)];
    while (msc_box_mesh_size(&mesh) > MAX_RANKS);
    int rank = (int)roll(4);
    int64_t shape[3];
    for (int d = 0; d < rank; d++) shape[d] = roll(3) ? 12 : roll(14);
    layout from, to;
    random_layout(&mesh, rank, roll(2), &from);
    random_layout(&mesh, rank, roll(2), &to);
    choose_sizes(&mesh, shape, &from);
    choose_sizes(&mesh, shape, &to);
    run_change(&mesh, &from, &to, shape);
  }
}

/* x=4, y=2: 10 elements in 4 parts of 3 (3,3,3,1), each of these in 2 parts of 2 (2,1, 2,1, 2,1, 1,0). */
static void test_uneven_parts_nest(void **state) {
  (void)state;
  msc_box_mesh mesh = {2, {4, 2}};
  layout x = {.first = {0, 2}, .digit = {{0, 1, 4}, {1, 1, 2}}};
  x.l = (msc_box_layout){1, 2, x.first, x.digit, NULL};
  static const int64_t begin[8] = {0, 2, 3, 5, 6, 8, 9, 10}, size[8] = {2, 1, 2, 1, 2, 1, 1, 0};
  msc_box b;
  for (int64_t r = 0; r < 8; r++) {
    msc_box_of(&mesh, &x.l, (int64_t[]){10}, r, &b);
    assert_int_equal(b.begin[0], begin[r]);
    assert_int_equal(b.size[0], size[r]);
  }
  int64_t largest;
  msc_box_largest(&x.l, (int64_t[]){10}, &largest);
  assert_int_equal(largest, 2);
}

/* The halves of one axis act as the whole axis, so blocks do not depend on how finely it is written. */
static void test_neighbours_of_an_axis_are_one_cut(void **state) {
  (void)state;
  msc_box_mesh mesh = {1, {4}};
  layout whole = {.first = {0, 1}, .digit = {{0, 1, 4}}}, halves = {.first = {0, 2}, .digit = {{0, 1, 2}, {0, 2, 2}}};
  whole.l = (msc_box_layout){1, 1, whole.first, whole.digit, NULL};
  halves.l = (msc_box_layout){1, 2, halves.first, halves.digit, NULL};
  for (int64_t n = 0; n < 20; n++)
    for (int64_t r = 0; r < 4; r++) {
      msc_box a, b;
      msc_box_of(&mesh, &whole.l, &n, r, &a);
      msc_box_of(&mesh, &halves.l, &n, r, &b);
      assert_int_equal(a.begin[0], b.begin[0]);
      assert_int_equal(a.size[0], b.size[0]);
    }
}

/* The header's example, an all-reduce, and a partial term that only moves. */
static void test_peers(void **state) {
  (void)state;
  int calls = 0;
  msc_box_mesh mesh = {2, {2, 2}};
  int64_t shape[1] = {4};
  msc_pull p;
  layout x = {.first = {0, 1}, .digit = {{0, 1, 2}}}, y = {.first = {0, 1}, .digit = {{1, 1, 2}}};
  x.l = (msc_box_layout){1, 1, x.first, x.digit, NULL};
  y.l = (msc_box_layout){1, 1, y.first, y.digit, NULL};
  msc_pull_of(&mesh, &x.l, &y.l, shape, 1, take, &calls, &p);
  assert_int_equal(p.num_pieces, 1);
  assert_int_equal(p.piece[0].begin[0], 2);
  assert_int_equal(p.piece[0].size[0], 2);
  assert_int_equal(p.peer[0], 2);
  assert_int_equal(msc_pull_received(&p, 1, 1), 2);
  free(p.piece);
  layout px = {.first = {0, 0}, .digit = {{0, 1, 2}}}, py = {.first = {0, 0}, .digit = {{1, 1, 2}}},
         none = {.first = {0, 0}};
  px.l = (msc_box_layout){1, 1, px.first, px.digit, NULL};
  py.l = (msc_box_layout){1, 1, py.first, py.digit, NULL};
  none.l = (msc_box_layout){1, 0, none.first, none.digit, NULL};
  msc_pull_of(&mesh, &px.l, &none.l, shape, 3, take, &calls, &p);
  assert_int_equal(p.num_terms, 2);
  assert_int_equal(p.peer[0], 1);
  assert_int_equal(p.peer[1], 3);
  free(p.piece);
  msc_pull_of(&mesh, &px.l, &py.l, shape, 1, take, &calls, &p);
  assert_int_equal(p.num_terms, 1);
  assert_int_equal(p.peer[0], 2);
  free(p.piece);
  msc_pull_of(&mesh, &none.l, &py.l, shape, 1, take, &calls, &p);
  assert_true(p.identity);
  assert_int_equal(p.num_pieces, 0);
  assert_null(p.piece);
}

/* x is only cut further: every rank keeps to the ranks that have its own digit of x. */
static void test_peers_stay_near(void **state) {
  (void)state;
  int calls = 0;
  msc_box_mesh mesh = {2, {2, 4}};
  layout from = {.first = {0, 1, 1}, .digit = {{1, 1, 4}}}, to = {.first = {0, 0, 2}, .digit = {{1, 1, 4}, {0, 1, 2}}};
  from.l = (msc_box_layout){2, 1, from.first, from.digit, NULL};
  to.l = (msc_box_layout){2, 2, to.first, to.digit, NULL};
  for (int64_t r = 0; r < 8; r++) {
    msc_pull p;
    msc_pull_of(&mesh, &from.l, &to.l, (int64_t[]){4, 8}, r, take, &calls, &p);
    assert_int_equal(p.num_pieces, 4);
    for (int64_t i = 0; i < 4; i++) assert_int_equal(p.peer[i], r / 4 * 4 + i);
    free(p.piece);
  }
}

static void test_failures(void **state) {
  (void)state;
  msc_box_mesh mesh = {1, {6}};
  layout two = {.first = {0, 1}, .digit = {{0, 1, 2}}}, three = {.first = {0, 1}, .digit = {{0, 1, 3}}};
  two.l = (msc_box_layout){1, 1, two.first, two.digit, NULL};
  three.l = (msc_box_layout){1, 1, three.first, three.digit, NULL};
  int64_t shape[1] = {6};
  msc_pull p;
  assert_int_equal(msc_pull_of(&mesh, &two.l, &three.l, shape, 0, refuse, NULL, &p), MSC_PULL_NO_DIGITS);
  assert_int_equal(msc_pull_of(&mesh, &two.l, &two.l, shape, 0, refuse, NULL, &p), MSC_PULL_NO_MEMORY);
}

static void test_bad_layouts(void **state) {
  (void)state;
  msc_box_mesh mesh = {1, {4}};
  assert_true(msc_box_mesh_ok(&mesh));
  assert_false(msc_box_mesh_ok(&(msc_box_mesh){2, {1 << 20, 1 << 20}}));
  assert_false(msc_box_mesh_ok(&(msc_box_mesh){1, {0}}));
  assert_false(msc_box_mesh_ok(&(msc_box_mesh){9, {1}}));
  static const uint8_t first[] = {0, 1}, back[] = {0, 2}, late[] = {1, 1};
  static const msc_digit good[] = {{0, 1, 2}, {0, 2, 2}}, twice[] = {{0, 1, 2}, {0, 1, 4}}, axis[] = {{1, 1, 2}},
                         divides[] = {{0, 1, 3}}, zero[] = {{0, 0, 2}}, large[] = {{0, 65536, 65536}};
  assert_true(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 2, first, good, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, back, good, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, late, good, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 2, first, twice, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, first, axis, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, first, divides, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, first, zero, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){1, 1, first, large, NULL}));
  assert_false(msc_box_layout_ok(&mesh, &(msc_box_layout){9, 0, first, good, NULL}));
}

static void test_copy_of_a_block(void **state) {
  (void)state;
  msc_box whole = {{0, 0}, {4, 6}}, right = {{0, 3}, {4, 3}}, piece = {{1, 3}, {2, 2}}, common;
  uint16_t src[24], dst[12] = {0};
  for (int i = 0; i < 24; i++) src[i] = (uint16_t)i;
  msc_box_copy(2, &piece, &right, dst, &whole, src, sizeof *src);
  uint16_t want[12] = {0, 0, 0, 9, 10, 0, 15, 16, 0, 0, 0, 0};
  assert_memory_equal(dst, want, sizeof want);
  assert_true(msc_box_intersect(2, &right, &piece, &common));
  assert_memory_equal(&common.size[0], &piece.size[0], 2 * sizeof(int64_t));
  assert_false(msc_box_intersect(2, &right, &(msc_box){{0, 0}, {4, 3}}, &common));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_random_changes),
    cmocka_unit_test(test_uneven_parts_nest),
    cmocka_unit_test(test_neighbours_of_an_axis_are_one_cut),
    cmocka_unit_test(test_peers),
    cmocka_unit_test(test_peers_stay_near),
    cmocka_unit_test(test_failures),
    cmocka_unit_test(test_bad_layouts),
    cmocka_unit_test(test_copy_of_a_block),
  };
  return cmocka_run_group_tests_name("ir/box", tests, NULL, NULL);
}
