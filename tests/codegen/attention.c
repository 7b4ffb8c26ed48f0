/* attention.c: compares attention and its gradient, as the runtime computes them block of scores by block, with plain
 * loops in f64; in every other case heads lie behind positions.  Memory ends where operands and a worker's room end.
 * Results of a batch's last heads do not depend on those before, nor on the width of vectors. */
#include <stdlib.h>

#include "codegen/emit/emit.h"
#include "runtime/kernels/attention.h"
#include "tests/codegen/kernels.h"

typedef enum { PLAIN, KEEP, ADDED, NUM_EXTRAS } extras;

/* batch, heads, groups, rows, keys, e, f, causal; the mask's four dimensions, where 0 stands for the scores'. */
static const int64_t cases[][12] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0},       {2, 2, 2, 64, 64, 32, 32, 1, 0, 1, 1, 0},
    {1, 4, 2, 65, 65, 64, 64, 1, 1, 1, 0, 0},   {2, 2, 1, 70, 300, 16, 24, 0, 0, 0, 0, 0},
    {1, 2, 2, 300, 70, 5, 7, 1, 1, 0, 0, 1},    {1, 6, 2, 130, 520, 40, 33, 0, 0, 1, 1, 0},
    {1, 1, 1, 530, 530, 32, 64, 1, 1, 1, 1, 1}, {3, 3, 3, 17, 257, 96, 8, 0, 0, 0, 1, 0},
    {1, 4, 2, 70, 600, 72, 80, 1, 0, 1, 1, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static mscrt_graph_tensor tensor(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (mscrt_graph_tensor){.dtype = MSCRT_F32, .dim = {a, b, c, d}, .stride = {b * c * d, c * d, d, 1}};
}

/* The same with heads behind positions, as a transpose that moves nothing leaves them. */
static mscrt_graph_tensor turned(mscrt_graph_tensor t) {
  t.stride[1] = t.dim[3], t.stride[2] = t.dim[1] * t.dim[3];
  return t;
}

static int64_t num_elems(const mscrt_graph_tensor *t) { return t->dim[0] * t->stride[0]; }

enum { Q, K, V, Y, STATS, DY, EXTRA, DQ, DK, DV, NUM_TENSORS };

/* The operands of a call, as numbers of tensors. */
static int operands_of(bool gradient, extras extra, int *out) {
  int n = 0;
  for (int i = Q; i <= V; i++) out[n++] = i;
  for (int i = Y; i <= DY && gradient; i++) out[n++] = i;
  if (extra) out[n++] = EXTRA;
  for (int i = gradient ? DQ : Y; i <= (gradient ? DV : STATS); i++) out[n++] = i;
  return n;
}

static mscrt_graph graph_of(const mscrt_graph_tensor *t, bool causal, bool gradient, extras extra, int width) {
  int operand[MSCRT_GRAPH_OPERANDS];
  mscrt_graph g = {.kind = (uint8_t)(2 * extra + gradient),
                   .num_results = gradient ? 3 : 2,
                   .causal = causal,
                   .scale = 0.3f,
                   .width = width};
  g.num_operands = (uint8_t)operands_of(gradient, extra, operand);
  for (int i = 0; i < g.num_operands; i++) g.operand[i] = t[operand[i]];
  return g;
}

static double at(const fenced *memory, const mscrt_graph_tensor *t, int i, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t *dim = t[i].dim, *s = t[i].stride;
  return ((float *)memory[i].data)[(dim[0] > 1) * a * s[0] + (dim[1] > 1) * b * s[1] + (dim[2] > 1) * c * s[2] +
                                   (dim[3] > 1) * d * s[3]];
}

/* Adds one row of a head to what is wanted; room: of two rows of scores. */
static void add_row(const mscrt_graph_tensor *t, const fenced *m, bool causal, extras extra, const int64_t *i,
                    double **want, double *room) {
  int64_t keys = t[K].dim[2], e = t[Q].dim[3], f = t[V].dim[3], g = i[1] / (t[Q].dim[1] / t[K].dim[1]);
  double *p = room, *dp = room + keys, most = -INFINITY, sum = 0, along = 0;
  int64_t row = (i[0] * t[Q].dim[1] + i[1]) * t[Q].dim[2] + i[2], first = (i[0] * t[K].dim[1] + g) * keys;
  for (int64_t k = 0; k < keys; k++) {
    p[k] = 0, dp[k] = 0;
    for (int64_t c = 0; c < e; c++) p[k] += at(m, t, Q, i[0], i[1], i[2], c) * at(m, t, K, i[0], g, k, c);
    for (int64_t c = 0; c < f; c++) dp[k] += at(m, t, DY, i[0], i[1], i[2], c) * at(m, t, V, i[0], g, k, c);
    p[k] = p[k] * (double)0.3f + (extra == ADDED ? at(m, t, EXTRA, i[0], i[1], i[2], k) : 0);
    if (causal && k > i[2]) p[k] = -INFINITY;
    if (p[k] > most) most = p[k];
  }
  for (int64_t k = 0; k < keys; k++) sum += p[k] = exp(p[k] - most);
  want[STATS][row] = most + log(sum);
  for (int64_t k = 0; k < keys; k++) {
    double keep = extra == KEEP ? at(m, t, EXTRA, i[0], i[1], i[2], k) : 1;
    p[k] /= sum, dp[k] *= keep;
    along += p[k] * dp[k];
    for (int64_t c = 0; c < f; c++) want[Y][row * f + c] += p[k] * keep * at(m, t, V, i[0], g, k, c);
    for (int64_t c = 0; c < f; c++) want[DV][(first + k) * f + c] += p[k] * keep * at(m, t, DY, i[0], i[1], i[2], c);
  }
  for (int64_t k = 0; k < keys; k++)
    for (int64_t c = 0; c < e; c++) {
      double ds = p[k] * (dp[k] - along) * (double)0.3f;
      want[DQ][row * e + c] += ds * at(m, t, K, i[0], g, k, c);
      want[DK][(first + k) * e + c] += ds * at(m, t, Q, i[0], i[1], i[2], c);
    }
}

/* Runs the call's units on memory from element `from` of each tensor on. */
static void run_units(mscrt_record *r, const mscrt_graph *g, extras extra, const fenced *memory, const int64_t *from,
                      bool backwards) {
  msc_attention a = mscrt_attention_of(g);
  msc_attention_cut u = msc_attention_cut_of(&a);
  int operand[MSCRT_GRAPH_OPERANDS], num = operands_of(a.gradient, extra, operand);
  void *buffers[MSCRT_GRAPH_OPERANDS];
  fenced room = fenced_new((size_t)msc_attention_bytes(&u));
  memset(room.data, 0xff, (size_t)msc_attention_bytes(&u)); /* NaN */
  for (int i = 0; i < num; i++) buffers[i] = (float *)memory[operand[i]].data + (from ? from[operand[i]] : 0);
  r->graph = g;
  for (int64_t i = 0; i < u.units; i++) mscrt_run_attention(r, buffers, backwards ? u.units - 1 - i : i, room.data);
  fenced_free(&room);
}

/* Fills operands; every fifth element of a mask hides its score, but the first. */
static void fill_operands(kernel_run *run, const mscrt_graph_tensor *t, extras extra, fenced *memory) {
  for (int i = 0; i < NUM_TENSORS; i++) {
    int64_t num = num_elems(&t[i]);
    memory[i] = fenced_new(sizeof(float) * (size_t)num);
    for (int64_t k = 0; k < num; k++) {
      float x = (float)(2 * random_number(run) - 1);
      if (i == EXTRA && extra == KEEP) x = x < -0.8f ? 0 : 1 / 0.9f;
      if (i == EXTRA && extra == ADDED && k % t[EXTRA].dim[3] % 5 == 4) x = -INFINITY;
      ((float *)memory[i].data)[k] = x;
    }
  }
}

static void check_result(int number, int i, const fenced *memory, const mscrt_graph_tensor *t, const double *want) {
  const int64_t *dim = t[i].dim;
  for (int64_t k = 0; k < num_elems(&t[i]); k++) {
    double got = at(memory, t, i, k / (dim[1] * dim[2] * dim[3]), k / (dim[2] * dim[3]) % dim[1], k / dim[3] % dim[2],
                    k % dim[3]);
    if (!(fabs(got - want[k]) <= 2e-5 * (1 + fabs(want[k]))))
      fail_msg("case %d, tensor %d: element %d is %.9g, expected %.9g", number, i, (int)k, got, want[k]);
  }
}

/* The last batch and group alone come out as they do among the others. */
static void check_last(mscrt_record *r, mscrt_graph_tensor *t, bool causal, extras extra, const fenced *memory,
                       int width) {
  void *old[NUM_TENSORS];
  mscrt_graph_tensor whole[NUM_TENSORS];
  int64_t from[NUM_TENSORS], members = t[Q].dim[1] / t[K].dim[1];
  memcpy(whole, t, sizeof whole);
  for (int i = 0; i < NUM_TENSORS; i++) {
    bool shared = i == K || i == V || i == DK || i == DV;
    if (t[i].dim[0] > 1) t[i].dim[0] = 1;
    if (t[i].dim[1] > 1 || i != EXTRA) t[i].dim[1] = shared ? 1 : members;
    from[i] = (whole[i].dim[0] - t[i].dim[0]) * t[i].stride[0] + (whole[i].dim[1] - t[i].dim[1]) * t[i].stride[1];
  }
  for (int gradient = 0; gradient < 2; gradient++) {
    mscrt_graph g = graph_of(t, causal, gradient, extra, width);
    for (int i = gradient ? DQ : Y; i <= (gradient ? DV : STATS); i++) {
      size_t bytes = sizeof(float) * (size_t)(num_elems(&whole[i]) - from[i]);
      float *now = (float *)memory[i].data + from[i];
      old[i] = malloc(bytes);
      memcpy(old[i], now, bytes), memset(now, 0xff, bytes);
    }
    run_units(r, &g, extra, memory, from, false);
    for (int i = gradient ? DQ : Y; i <= (gradient ? DV : STATS); i++) {
      size_t bytes = sizeof(float) * (size_t)(num_elems(&whole[i]) - from[i]);
      assert_memory_equal(old[i], (float *)memory[i].data + from[i], bytes);
      free(old[i]);
    }
  }
}

/* Returns a hash of the results' bits. */
static uint64_t check_case(kernel_run *run, int number, extras extra, const msc_product_kernels *kernels) {
  const int64_t *v = cases[number];
  mscrt_graph_tensor q = tensor(v[0], v[1], v[3], v[5]), k = tensor(v[0], v[2], v[4], v[5]),
                     y = tensor(v[0], v[1], v[3], v[6]), of_v = tensor(v[0], v[2], v[4], v[6]),
                     full = tensor(v[0], v[1], v[3], v[4]),
                     mask = tensor(v[8] ? 1 : v[0], v[9] ? 1 : v[1], v[10] ? 1 : v[3], v[11] ? 1 : v[4]);
  mscrt_graph_tensor t[NUM_TENSORS] = {q, k, of_v, y, tensor(v[0], v[1], v[3], 1), y, extra == ADDED ? mask : full,
                                       q, k, of_v};
  fenced memory[NUM_TENSORS];
  double *want[NUM_TENSORS], *room = calloc((size_t)v[4], 2 * sizeof *room);
  uint64_t hash = 14695981039346656037u;
  mscrt_record r = {.pack = (mscrt_kernel *)(void *)(run->memory + run->code.kernel[kernels->pack].entry),
                    .multiply = (mscrt_kernel *)(void *)(run->memory + run->code.kernel[kernels->multiply].entry)};
  for (int i = 0; i < NUM_TENSORS && number % 2; i++)
    if (i != STATS && i != EXTRA) t[i] = turned(t[i]);
  fill_operands(run, t, extra, memory);
  for (int i = 0; i < NUM_TENSORS; i++) want[i] = calloc((size_t)num_elems(&t[i]), sizeof **want);
  for (int64_t i = 0; i < v[0] * v[1] * v[3]; i++)
    add_row(t, memory, v[7], extra, (int64_t[]){i / (v[1] * v[3]), i / v[3] % v[1], i % v[3]}, want, room);
  for (int gradient = 0; gradient < 2; gradient++) {
    mscrt_graph g = graph_of(t, v[7], gradient, extra, kernels->width);
    run_units(&r, &g, extra, memory, NULL, gradient);
    for (int i = gradient ? DQ : Y; i <= (gradient ? DV : STATS); i++) {
      check_result(number, i, memory, t, want[i]);
      for (int64_t b = 0; b < num_elems(&t[i]) * 4; b++)
        hash = (hash ^ ((const unsigned char *)memory[i].data)[b]) * 1099511628211u;
    }
  }
  if (number % 2 == 0) check_last(&r, t, v[7], extra, memory, kernels->width);
  for (int i = 0; i < NUM_TENSORS; i++) fenced_free(&memory[i]), free(want[i]);
  free(room);
  return hash;
}

static void test_attention(void **state) {
  uint64_t first[CASES * NUM_EXTRAS];
  (void)state;
  for (int bytes = 16; bytes <= 64; bytes *= 2) {
    kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu, .vector_bytes = bytes});
    msc_product_kernels kernels;
    if (!msc_codegen_product(run->cg, MSC_F32, true, 1, &kernels)) skip(); /* no fused multiply-add here */
    kernels_finish(run);
    for (int i = 0; i < CASES * NUM_EXTRAS; i++) {
      uint64_t hash = check_case(run, i / NUM_EXTRAS, (extras)(i % NUM_EXTRAS), &kernels);
      if (bytes == 16) first[i] = hash;
      assert_true(hash == first[i]);
    }
    kernels_free(run);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
