/* collectives.c: collectives between processes: every verb, element type and reduction, odd sizes, groups of several
 * meshes, against values computed element by element; and how often bytes cross from host to host. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/runtime/transports.h"

/* ---- cases ---- */

typedef struct {
  msc_verb verb;
  const char *from, *to; /* per dimension, then partial after '|': digits as a0 (axis 0), a1, or a0:pre:size */
  int rank;
  int64_t shape[3];
} shape_case;

static void put_value(mscrt_dtype d, void *data, int64_t i, double v) {
  assert_int_equal(
      mscrt_convert(d, (char *)data + (size_t)i * mscrt_dtype_bytes(d), 1, mscrt_is_float(d) ? MSCRT_F64 : MSCRT_I64,
                    mscrt_is_float(d) ? (void *)&v : (void *)&(int64_t){(int64_t)v}, false, false, 1),
      MSCRT_CONVERTED);
}

/* Integers: products of eight still fit 8 bits.  Floats: large ones of both signs, so that another order of adds
 * is another sum. */
static double value_at(int64_t element, int64_t partial, mscrt_dtype d) {
  if (d == MSCRT_I1) return (double)((element * 7 + partial) % 3 == 0);
  if (!mscrt_is_float(d)) return (double)((element * 5 + partial * 3) % 2 + 1);
  double large = d == MSCRT_F64 ? 3e16 : d == MSCRT_F32 ? 3e7 : 300, v = 0.3 * (double)(element % 7 + 1);
  if (partial % 3) v = partial % 3 == 1 ? large : -large;
  uint64_t room = 0;
  put_value(d, &room, 0, v);
  mscrt_convert(MSCRT_F64, &v, 1, d, &room, false, false, 1); /* as the type holds it */
  return v;
}

static double reduced(msc_reduction red, double a, double b, mscrt_dtype d) {
  double v = red == MSC_MAX ? (a > b ? a : b) : red == MSC_MIN ? (a < b ? a : b) : red == MSC_PROD ? a * b : a + b;
  if (d == MSCRT_I1 && red == MSC_SUM) v = a != 0 || b != 0;
  return mscrt_is_float(d) && d != MSCRT_F64 ? (double)(float)v : v;
}

/* Row-major number in the whole tensor of element i of a box. */
static int64_t element_of(const mscrt_collective *c, const msc_box *b, int64_t i) {
  int64_t at[MSCRT_MAX_RANK], element = 0;
  for (int d = c->rank - 1; d >= 0; d--) {
    at[d] = b->begin[d] + i % b->size[d];
    i /= b->size[d];
  }
  for (int d = 0; d < c->rank; d++) element = element * c->shape[d] + at[d];
  return element;
}

/* Where element i of the box lies in a buffer. */
static int64_t place_in(int rank, const msc_box *b, const msc_box *buffer, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    at += (i % b->size[d]) * stride;
    i /= b->size[d];
    stride *= buffer->size[d];
  }
  return at;
}

static void boxes_of(const msc_box_mesh *mesh, const mscrt_collective *c, const msc_box_layout *l, int64_t rank,
                     msc_box *b, msc_box *buffer) {
  memset(b, 0, sizeof *b);
  memcpy(b->size, c->shape, sizeof b->size);
  *buffer = *b;
  if (!l) return;
  msc_box_of(mesh, l, c->shape, rank, b);
  msc_box_buffer(mesh, l, c->shape, rank, buffer);
}

static int64_t partial_of(const msc_box_mesh *mesh, const msc_box_layout *l, int64_t rank) {
  int first = l->first[l->rank];
  return msc_group_index(mesh, l->num - first, l->digit + first, rank);
}

static void make_source(const msc_box_mesh *mesh, const mscrt_collective *c, int64_t rank, void *out) {
  msc_box b, buffer;
  boxes_of(mesh, c, c->from, rank, &b, &buffer);
  int64_t partial = c->from ? partial_of(mesh, c->from, rank) : rank;
  for (int64_t i = 0; i < msc_box_elems(c->rank, &b); i++)
    put_value(c->dtype, out, place_in(c->rank, &b, &buffer, i), value_at(element_of(c, &b, i), partial, c->dtype));
}

/* Neighbours first: ((0+1)+(2+3))+(4+5). */
static double reduced_terms(msc_reduction red, mscrt_dtype d, int64_t element, int64_t first, int64_t num) {
  int64_t left = 1;
  if (num == 1) return value_at(element, first, d);
  while (2 * left < num) left *= 2;
  return reduced(red, reduced_terms(red, d, element, first, left),
                 reduced_terms(red, d, element, first + left, num - left), d);
}

/* The cases below finish all partial digits or keep them all. */
static void make_expected(const msc_box_mesh *mesh, const mscrt_collective *c, int64_t rank, void *out) {
  msc_box b, buffer;
  boxes_of(mesh, c, c->to, rank, &b, &buffer);
  int first = c->from->first[c->from->rank], num = c->from->num - first;
  bool keeps = c->to->num > c->to->first[c->to->rank];
  for (int64_t i = 0; i < msc_box_elems(c->rank, &b); i++) {
    int64_t element = element_of(c, &b, i), terms = keeps ? 1 : msc_group_size(num, c->from->digit + first);
    double v = reduced_terms(c->reduction, c->dtype, element, keeps ? partial_of(mesh, c->from, rank) : 0, terms);
    put_value(c->dtype, out, place_in(c->rank, &b, &buffer, i), v);
  }
}

/* Padding is not compared. */
static bool same_elements(const msc_box_mesh *mesh, const mscrt_collective *c, int64_t rank, const char *x,
                          const char *y) {
  msc_box b, buffer;
  size_t bytes = mscrt_dtype_bytes(c->dtype);
  boxes_of(mesh, c, c->to, rank, &b, &buffer);
  for (int64_t i = 0; i < msc_box_elems(c->rank, &b); i++) {
    size_t at = (size_t)place_in(c->rank, &b, &buffer, i) * bytes;
    if (memcmp(x + at, y + at, bytes)) return false;
  }
  return true;
}

typedef struct {
  const msc_box_mesh *mesh;
  const place *p;
  mscrt_comm *comm;
  mscrt_pool *pool;
  int64_t step;
} bench;

static int check(bench *b, const mscrt_collective *c, const mscrt_exchange *e, const void *expected, bool in_place) {
  char *arena = comm_api->arena(b->comm);
  mscrt_site site = {.name = "case", .step = b->step++};
  uint64_t src = 4096, dst = in_place ? src : ARENA / 2;
  memset(arena, 0x5a, e->src_bytes + 8192);
  make_source(b->mesh, c, b->p->rank, arena + src);
  mscrt_ticket ticket;
  mscrt_part part = {.e = e, .src = src, .dst = arena + dst};
  mscrt_status *s = comm_api->run(b->comm, b->pool, 1, &part, &site, &ticket);
  if (!s && comm_api->lingers(1, &part)) s = comm_api->finish(b->comm, e, ticket, &site);
  if (s) return say(b->p, s);
  if (same_elements(b->mesh, c, b->p->rank, arena + dst, expected)) return 0;
  char shape[MSCRT_SHAPE_TEXT];
  dprintf(b->p->say, "%s %s %s reduction %d in place %d: wrong values", msc_verb_name(c->verb),
          mscrt_dtype_name(c->dtype), mscrt_shape_text(c->rank, c->shape, shape), c->reduction, in_place);
  return 50;
}

/* Those of c[0..num) that go with c[first], at once: the same values as one by one, and ranks meet once for all. */
static int check_together(bench *b, size_t num, size_t first, const mscrt_collective *c, const mscrt_exchange *e,
                          void *expected, bool in_place) {
  char *arena = comm_api->arena(b->comm);
  mscrt_site site = {.name = "together", .step = b->step++};
  mscrt_part part[num];
  size_t of[num];
  uint32_t n = 0;
  uint64_t src = 4096, dst = ARENA / 2;
  int64_t at = 0;
  for (size_t i = first; i < num; i++) {
    if (c[i].verb != c[first].verb || c[i].dtype != c[first].dtype || c[i].reduction != c[first].reduction ||
        e[i].group.partition != e[first].group.partition)
      continue;
    if (in_place && !e[i].slices) continue;
    of[n] = i;
    memset(arena + src, 0x5a, e[i].src_bytes);
    part[n++] = (mscrt_part){.e = &e[i], .src = src, .dst = arena + (in_place ? src : dst), .at = at};
    make_source(b->mesh, &c[i], b->p->rank, arena + src);
    src += (e[i].src_bytes + 127) / 64 * 64, dst += (e[i].dst_bytes + 127) / 64 * 64, at += e[i].elems;
  }
  if (src > ARENA / 2 || dst > ARENA) return 53;
  mscrt_ticket ticket;
  mscrt_status *s = n ? comm_api->run(b->comm, b->pool, n, part, &site, &ticket) : NULL;
  if (!s && n && comm_api->lingers(n, part)) s = comm_api->finish(b->comm, part[0].e, ticket, &site);
  if (s) return say(b->p, s);
  for (uint32_t i = 0; i < n; i++) {
    make_expected(b->mesh, &c[of[i]], b->p->rank, expected);
    if (same_elements(b->mesh, &c[of[i]], b->p->rank, part[i].dst, expected)) continue;
    dprintf(b->p->say, "%s %s: value %u of %u together, in place %d: wrong", msc_verb_name(c[first].verb),
            mscrt_dtype_name(c[first].dtype), i, n, in_place);
    return 54;
  }
  return 0;
}

static mscrt_status *open_bench(bench *b, const place *p, uint32_t partitions, int threads) {
  mscrt_comm_options o = {.rank = p->rank,
                          .ranks = p->ranks,
                          .address = p->address,
                          .timeout_ms = 20000,
                          .plan_hash = 1,
                          .arena_bytes = ARENA,
                          .num_partitions = partitions,
                          .host_number = host_of(p->rank)};
  b->p = p;
  MSCRT_CHECK(mscrt_pool_new(threads, false, NULL, NULL, &b->pool));
  return comm_api->open(&o, &b->comm);
}

static void close_bench(bench *b) {
  comm_api->close(b->comm);
  mscrt_pool_free(b->pool);
}

typedef struct {
  const shape_case *c;
  mscrt_dtype dtype;
  msc_reduction red;
  bool joins; /* the group of the first */
} run_case;

static bool is_first(const mscrt_collective *c, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (c[k].verb == c[i].verb && c[k].dtype == c[i].dtype) return false;
  return true;
}

static int run_cases(const msc_box_mesh *mesh, const place *p, size_t num, const run_case *cases, int threads) {
  bench b = {.mesh = mesh};
  mscrt_partitions parts;
  layout_room from[num], to[num];
  mscrt_collective *c = calloc(num, sizeof *c);
  mscrt_exchange *e = calloc(num, sizeof *e);
  mscrt_status *s = mscrt_partitions_new(p->ranks, &parts);
  for (size_t i = 0; i < num && !s; i++) {
    const shape_case *k = cases[i].c;
    c[i] = (mscrt_collective){.verb = k->verb, .dtype = cases[i].dtype, .reduction = cases[i].red, .rank = k->rank};
    memcpy(c[i].shape, k->shape, sizeof k->shape);
    c[i].from = layout_of(mesh, k->from, k->rank, &from[i]);
    c[i].to = layout_of(mesh, k->to, k->rank, &to[i]);
    s = mscrt_exchange_make(mesh, p->rank, &c[i], &parts, comm_api->sends, &e[i]);
    bool ok = true;
    if (!s && cases[i].joins) s = mscrt_exchanges_join(2, (uint32_t[]){0, (uint32_t)i}, p->rank, &parts, e, &ok);
    if (!s && !ok) s = mscrt_fail(MSCRT_INPUT, "other groups");
  }
  if (!s) s = open_bench(&b, p, parts.num, threads);
  int code = say(p, s);
  void *expected = malloc(ARENA);
  for (size_t i = 0; i < num && !code; i++) {
    make_expected(mesh, &c[i], p->rank, expected);
    code = check(&b, &c[i], &e[i], expected, false);
    if (!code && c[i].verb == MSC_ALL_REDUCE && e[i].slices) code = check(&b, &c[i], &e[i], expected, true);
  }
  for (size_t i = 0; i < num && !code && num < 20; i++) /* fewer where every type has its cases */
    for (int in_place = 0; in_place < 2 && !code; in_place++)
      if (c[i].verb <= MSC_REDUCE_SCATTER && is_first(c, i))
        code = check_together(&b, num, i, c, e, expected, in_place);
  free(expected);
  close_bench(&b);
  for (size_t i = 0; i < num; i++) mscrt_exchange_free(&e[i]);
  mscrt_partitions_free(&parts);
  free(c);
  free(e);
  return code;
}

/* ---- verbs ---- */

static const shape_case cases_one_axis[] = {
    {MSC_ALL_REDUCE, "|0", "", 1, {1}},
    {MSC_ALL_REDUCE, "|0", "", 2, {7, 5}},
    {MSC_ALL_REDUCE, "|0", "", 1, {100003}},
    {MSC_ALL_REDUCE, "|0", "", 0, {0}},
    {MSC_ALL_REDUCE, "|0", "", 1, {17000}},
    {MSC_REDUCE_SCATTER, "|0", "0", 1, {48}},
    {MSC_REDUCE_SCATTER, "|0", ";0", 2, {3, 48}},
    {MSC_REDUCE_SCATTER, "|0", "0", 1, {100003}},
    {MSC_ALL_GATHER, "0", "", 2, {24, 5}},
    {MSC_ALL_GATHER, ";0", "", 2, {5, 24}},
    {MSC_ALL_GATHER, "0", "", 1, {77777}},
    {MSC_ALL_GATHER, "0", "", 1, {1}},
    {MSC_ALL_TO_ALL, "0", ";0", 2, {24, 48}},
    {MSC_ALL_TO_ALL, "0", ";0", 2, {331, 173}},
    {MSC_ALL_TO_ALL, ";0", ";;0", 3, {5, 24, 24}},
    {MSC_EXCHANGE, "", "0", 2, {25, 3}},
};

static const shape_case cases_two_axes[] = {
    {MSC_ALL_REDUCE, "0|1", "0", 2, {6, 5}},
    {MSC_ALL_REDUCE, "1|0", "1", 2, {600, 500}},
    {MSC_ALL_REDUCE, "|01", "", 1, {131072}},
    {MSC_REDUCE_SCATTER, "0|1", "01", 2, {24, 3}},
    {MSC_REDUCE_SCATTER, "0|1", "0;1", 2, {600, 400}},
    {MSC_ALL_GATHER, "01", "0", 1, {240}},
    {MSC_ALL_GATHER, "0;1", "0", 2, {600, 401}},
    {MSC_ALL_TO_ALL, "0;1", "01", 2, {48, 48}},
    {MSC_PERMUTE, "01", "10", 1, {240}},
    {MSC_PERMUTE, "01", "10", 2, {240, 100}},
    {MSC_EXCHANGE, "0;1", "1;0", 2, {480, 480}},
    {MSC_ALL_GATHER, "0|1", "|1", 1, {96}},
    {MSC_EXCHANGE, ";0", ";01", 2, {96, 96}},
};

static int one_axis(const place *p) {
  msc_box_mesh mesh = {.num_axes = 1, .size = {p->ranks}};
  enum { N = sizeof cases_one_axis / sizeof *cases_one_axis };
  run_case cases[N];
  for (int i = 0; i < N; i++) cases[i] = (run_case){&cases_one_axis[i], i % 2 ? MSCRT_F32 : MSCRT_F64, MSC_SUM, false};
  return run_cases(&mesh, p, N, cases, 1);
}

static int two_axes(const place *p) {
  msc_box_mesh mesh = {.num_axes = 2, .size = {2, p->ranks / 2}};
  enum { N = sizeof cases_two_axes / sizeof *cases_two_axes };
  run_case cases[N];
  for (int i = 0; i < N; i++) cases[i] = (run_case){&cases_two_axes[i], MSCRT_F32, MSC_SUM, false};
  return run_cases(&mesh, p, N, cases, 2);
}

/* One value has a part for every rank, the other has none for most: they meet as one, whichever comes first. */
static int empty_parts(const place *p) {
  static const shape_case shapes[] = {{MSC_ALL_REDUCE, "1|0", "1", 2, {60, 50}},
                                      {MSC_ALL_REDUCE, "1|0", "1", 1, {1}},
                                      {MSC_ALL_REDUCE, "1|0", "1", 2, {1, 20000}},
                                      {MSC_ALL_REDUCE, "1|0", "1", 1, {1}},
                                      {MSC_ALL_GATHER, "0;1", "0", 2, {1, 6}},
                                      {MSC_ALL_GATHER, "0;1", "0", 2, {6, 5}}};
  msc_box_mesh mesh = {.num_axes = 2, .size = {2, p->ranks / 2}};
  run_case cases[2];
  for (int k = 0; k < 6; k++) {
    for (int i = 0; i < 2; i++) cases[i] = (run_case){&shapes[k / 2 * 2 + (i + k) % 2], MSCRT_F32, MSC_SUM, i == 1};
    int code = run_cases(&mesh, p, 2, cases, 1);
    if (code) return code;
  }
  return 0;
}

/* Every type with every reduction: staged, direct, and in slices. */
static int all_types(const place *p) {
  static const shape_case shapes[] = {{MSC_ALL_REDUCE, "|0", "", 1, {77}},
                                      {MSC_ALL_REDUCE, "|0", "", 1, {65003}},
                                      {MSC_REDUCE_SCATTER, "|0", "0", 1, {65003}}};
  msc_box_mesh mesh = {.num_axes = 1, .size = {p->ranks}};
  run_case cases[MSCRT_NUM_DTYPES * MSC_NUM_REDUCTIONS * 3];
  int n = 0;
  for (int d = 0; d < MSCRT_NUM_DTYPES; d++)
    for (int r = 0; r < MSC_NUM_REDUCTIONS; r++)
      for (int i = 0; i < 3; i++)
        if (i == 0 || (d + r) % 3 == i) cases[n++] = (run_case){&shapes[i], (mscrt_dtype)d, (msc_reduction)r, false};
  return run_cases(&mesh, p, n, cases, 1);
}

static void verbs_on_one_axis(void **state) {
  (void)state;
  static const int sizes[] = {1, 2, 3, 4, 8};
  for (int i = 0; i < 5; i++) {
    job j;
    start_job(&j, sizes[i], one_axis);
    expect_all_well(&j);
  }
}

static void verbs_on_two_axes(void **state) {
  (void)state;
  static const int sizes[] = {4, 6, 8};
  for (int i = 0; i < 3; i++) {
    job j;
    start_job(&j, sizes[i], two_axes);
    expect_all_well(&j);
  }
}

static void parts_that_are_empty(void **state) {
  (void)state;
  static const int sizes[] = {4, 6};
  for (int i = 0; i < 2; i++) {
    job j;
    start_job(&j, sizes[i], empty_parts);
    expect_all_well(&j);
  }
}

static void types_and_reductions(void **state) {
  (void)state;
  job j;
  start_job(&j, 3, all_types);
  expect_all_well(&j);
}

/* broadcast from member 1 of the second axis, and a ring of pairs in which the last member gives to nobody */
static int groups(const place *p) {
  static const uint32_t ring[] = {0, 1, 1, 2};
  msc_box_mesh mesh = {.num_axes = 2, .size = {2, 3}};
  msc_digit axis = {1, 1, 3};
  mscrt_partitions parts;
  mscrt_exchange e[2];
  bench b = {.mesh = &mesh};
  mscrt_collective c[2] = {
      {.verb = MSC_BROADCAST, .dtype = MSCRT_I32, .rank = 1, .shape = {20000}, .num_axes = 1, .axes = &axis, .root = 1},
      {.verb = MSC_PAIRS,
       .dtype = MSCRT_I32,
       .rank = 1,
       .shape = {5},
       .num_axes = 1,
       .axes = &axis,
       .num_pairs = 2,
       .pairs = ring}};
  mscrt_status *s = mscrt_partitions_new(6, &parts);
  for (int i = 0; i < 2 && !s; i++) s = mscrt_exchange_make(&mesh, p->rank, &c[i], &parts, comm_api->sends, &e[i]);
  if (!s) s = open_bench(&b, p, parts.num, 1);
  int code = say(p, s), first = p->rank / 3 * 3;
  int32_t *expected = calloc(20000, 4);
  if (!code) make_source(&mesh, &c[0], first + 1, expected);
  if (!code) code = check(&b, &c[0], &e[0], expected, false);
  memset(expected, 0, 20);
  if (p->rank > first) make_source(&mesh, &c[1], p->rank - 1, expected);
  if (!code) code = check(&b, &c[1], &e[1], expected, false);
  uint64_t max;
  if (!code) code = say(p, comm_api->max(b.comm, (uint64_t)p->rank * 10, &max, &(mscrt_site){0}));
  if (!code && max != 50) code = 51;
  free(expected);
  close_bench(&b);
  for (int i = 0; i < 2; i++) mscrt_exchange_free(&e[i]);
  mscrt_partitions_free(&parts);
  return code;
}

static void broadcast_and_pairs(void **state) {
  (void)state;
  job j;
  start_job(&j, 6, groups);
  expect_all_well(&j);
}

/* The columns that the halo names; -inf or 0 beside the whole. */
static void expect_halo(const msc_box_mesh *mesh, const mscrt_collective *c, int64_t rank, void *out) {
  msc_box one = {.size = {1, 1, 1}};
  int64_t part = msc_group_index(mesh, c->from->num, c->from->digit, rank);
  for (int64_t i = 0, k = 0; i < c->shape[0]; i++)
    for (int64_t j = -c->lo; j < c->step + c->hi; j++, k++) {
      one.begin[0] = i, one.begin[1] = part * c->step + j;
      bool beside = one.begin[1] < 0 || one.begin[1] >= c->shape[1];
      put_value(c->dtype, out, k,
                !beside                   ? value_at(element_of(c, &one, 0), 0, c->dtype)
                : c->reduction == MSC_MAX ? -INFINITY
                                          : 0);
    }
}

static int halos(const place *p) {
  static const struct {
    int64_t shape[2], lo, hi, step[2]; /* of a cut in 6 parts, and in 3 */
  } cases[] = {{{3, 24}, 2, 1, {4, 8}},
               {{1, 6}, 1, 1, {1, 2}},
               {{400, 600}, 2, 1, {100, 200}},
               {{2, 23}, 0, 2, {4, 7}},  /* parts of 4, the last of 3; of 8, 8 and 7 */
               {{2, 7}, 3, 5, {2, 3}},   /* parts of 2, 2, 2, 1, 0 and 0 */
               {{3, 12}, 0, 0, {1, 5}}}; /* fewer columns than a part has */
  enum { NUM = 2 * sizeof cases / sizeof *cases };
  msc_box_mesh mesh = {.num_axes = 2, .size = {2, 3}};
  mscrt_partitions parts;
  mscrt_exchange e[NUM];
  mscrt_collective c[NUM];
  layout_room room[NUM];
  bench b = {.mesh = &mesh};
  mscrt_status *s = mscrt_partitions_new(6, &parts);
  for (int i = 0; i < NUM && !s; i++) {
    const msc_box_layout *l = layout_of(&mesh, i % 2 ? ";1" : i % 4 ? ";10" : ";01", 2, &room[i]);
    c[i] = (mscrt_collective){.verb = MSC_HALO,
                              .dtype = MSCRT_F32,
                              .reduction = i % 2 ? MSC_MAX : MSC_SUM,
                              .rank = 2,
                              .shape = {cases[i / 2].shape[0], cases[i / 2].shape[1]},
                              .from = l,
                              .to = l,
                              .halo_dim = 1,
                              .lo = cases[i / 2].lo,
                              .hi = cases[i / 2].hi,
                              .step = cases[i / 2].step[i % 2]};
    s = mscrt_exchange_make(&mesh, p->rank, &c[i], &parts, comm_api->sends, &e[i]);
  }
  if (!s) s = open_bench(&b, p, parts.num, 1);
  int code = say(p, s);
  float *expected = calloc(400 * 700, sizeof *expected);
  for (int i = 0; i < NUM && !code; i++) {
    expect_halo(&mesh, &c[i], p->rank, expected);
    code = e[i].dst_bytes == (uint64_t)e[i].elems * 4 ? check(&b, &c[i], &e[i], expected, false) : 52;
    mscrt_exchange_free(&e[i]);
  }
  free(expected);
  close_bench(&b);
  mscrt_partitions_free(&parts);
  return code;
}

static void halos_of_parts(void **state) {
  (void)state;
  job j;
  start_job(&j, 6, halos);
  expect_all_well(&j);
}

/* ---- bytes between hosts ---- */

#define GATHERED (1 << 20) /* elements of all ranks */

/* The bytes that this process has sent over TCP, each once: those that wait to be sent are sent first. */
static uint64_t count_sent_bytes(void) {
  uint64_t sent = 0;
  for (int fd = 0; fd < 256; fd++) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    while (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_notsent_bytes) usleep(1000);
    sent += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  }
  return sent;
}

/* How many sums a host of four ranks sends for a part of ((0+1)+(2+3)): of two neighbours one, if both are there. */
static uint64_t count_sums(uint64_t host) {
  uint64_t sums = 0;
  for (int r = 0; r < 4; r++) sums += host_of(r) == host && (r % 2 == 0 || host_of(r - 1) != host);
  return sums;
}

/* The number of a rank among those of its host. */
static int place_on_host(int rank) {
  int before = 0;
  for (int r = 0; r < rank; r++) before += host_of(r) == host_of(rank);
  return before;
}

/* The bytes that one of four ranks sends to other hosts, for parts of `own` bytes: of every part of a reduce_scatter
 * there its host sends the sums once. */
static uint64_t bytes_of_sums(int rank, uint64_t own) {
  uint64_t bytes = 0;
  int members = 0;
  for (int r = 0; r < 4; r++) members += host_of(r) == host_of(rank);
  for (int r = 0; r < 4; r++)
    if (host_of(r) != host_of(rank) && place_on_host(r) % members == place_on_host(rank))
      bytes += own * count_sums(host_of(rank));
  return bytes;
}

/* A rank's part goes once to each other host, however many ranks take it there; so does the tensor of a root. What the
 * ranks of a host have of a part of a sum goes to another host as one. */
static int cross_once(const place *at) {
  place p = *at;
  unsigned number = (unsigned)getppid(); /* addresses of this host, one for each job */
  snprintf(p.address, sizeof p.address, "127.%u.%u.%u:29500", number >> 16 & 127, number >> 8 & 255, number & 255);
  msc_box_mesh mesh = {.num_axes = 1, .size = {p.ranks}};
  msc_digit axis = {0, 1, (uint32_t)p.ranks};
  mscrt_partitions parts;
  enum { CASES = 5 };
  mscrt_exchange e[CASES];
  layout_room from[4], to[4];
  bench b = {.mesh = &mesh};
  mscrt_collective c[CASES] = {
      {.verb = MSC_ALL_GATHER, .rank = 1, .shape = {GATHERED}},
      {.verb = MSC_ALL_GATHER, .rank = 2, .shape = {GATHERED / 1024, 1024}},
      {.verb = MSC_BROADCAST, .rank = 1, .shape = {GATHERED / 4}, .num_axes = 1, .axes = &axis, .root = 1},
      {.verb = MSC_REDUCE_SCATTER, .rank = 1, .shape = {GATHERED}},
      {.verb = MSC_REDUCE_SCATTER, .rank = 2, .shape = {GATHERED / 1024, 1024}}};
  c[0].from = layout_of(&mesh, "0", 1, &from[0]), c[0].to = layout_of(&mesh, "", 1, &to[0]);
  c[1].from = layout_of(&mesh, ";0", 2, &from[1]), c[1].to = layout_of(&mesh, "", 2, &to[1]);
  c[3].from = layout_of(&mesh, "|0", 1, &from[2]), c[3].to = layout_of(&mesh, "0", 1, &to[2]);
  c[4].from = layout_of(&mesh, ";|0", 2, &from[3]), c[4].to = layout_of(&mesh, ";0", 2, &to[3]);
  mscrt_status *s = mscrt_partitions_new(p.ranks, &parts);
  for (int i = 0; i < CASES && !s; i++) s = mscrt_exchange_make(&mesh, p.rank, &c[i], &parts, comm_api->sends, &e[i]);
  if (!s) s = open_bench(&b, &p, parts.num, 1);
  int code = say(&p, s);
  uint64_t other_hosts = 0, own = GATHERED / 4 * sizeof(float);
  for (int r = 0; r < p.ranks; r++) {
    bool first = host_of(r) != host_of(p.rank);
    for (int k = 0; k < r; k++) first = first && host_of(k) != host_of(r);
    other_hosts += first;
  }
  float *expected = calloc(GATHERED, sizeof *expected);
  for (int i = 0; i < CASES && !code; i++) {
    if (c[i].from) make_expected(&mesh, &c[i], p.rank, expected);
    else make_source(&mesh, &c[i], 1, expected);
    uint64_t before = count_sent_bytes(), needed = i > 2                   ? bytes_of_sums(p.rank, own)
                                                   : i == 2 && p.rank != 1 ? 0
                                                                           : other_hosts * own;
    code = check(&b, &c[i], &e[i], expected, false);
    uint64_t sent = count_sent_bytes() - before;
    if (code || (sent >= needed && sent < needed + 8192)) continue;
    dprintf(p.say, "case %d: %" PRIu64 " bytes sent, %" PRIu64 " needed", i, sent, needed);
    code = 55;
  }
  uint64_t all; /* have counted, before connections are closed */
  if (!code) code = say(&p, comm_api->max(b.comm, 0, &all, &(mscrt_site){.name = "counted"}));
  free(expected);
  close_bench(&b);
  for (int i = 0; i < CASES; i++) mscrt_exchange_free(&e[i]);
  mscrt_partitions_free(&parts);
  return code;
}

static void gathers_cross_once(void **state) {
  (void)state;
  if (comm_api != &mscrt_comm_hosts) skip();
  job j;
  start_job(&j, 4, cross_once);
  expect_all_well(&j);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(verbs_on_one_axis),    cmocka_unit_test(verbs_on_two_axes),
      cmocka_unit_test(parts_that_are_empty), cmocka_unit_test(types_and_reductions),
      cmocka_unit_test(broadcast_and_pairs),  cmocka_unit_test(halos_of_parts),
      cmocka_unit_test(gathers_cross_once)};
  return run_on_all_transports(tests, sizeof tests / sizeof *tests);
}
