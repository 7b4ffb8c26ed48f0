/* windows.c: compares convolutions and their gradients, as the runtime computes them with the kernels of products, with
 * plain loops; memory ends where operands and a worker's room end.  No error is larger than 2e-6 of the largest
 * result, however it is computed, and an image's results do not depend on how many there are; those of channels in
 * groups do not depend on the length of vectors.  So it is with operands in bf16 on a CPU that multiplies pairs of
 * terms. */
#include <stdlib.h>
#include <string.h>

#include "codegen/emit/emit.h"
#include "runtime/kernels/windows.h"
#include "tests/codegen/kernels.h"

enum { FIELDS = 14 };

/* n c h w o, kernel, step, dilation, padding, groups if more than one. */
static const int64_t cases[][FIELDS] = {
    {2, 3, 5, 7, 4, 3, 3, 1, 1, 1, 1, 1, 1},           {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
    {3, 17, 9, 33, 5, 3, 2, 1, 1, 1, 1, 1, 0},         {2, 40, 8, 8, 70, 3, 3, 1, 1, 1, 1, 1, 1},
    {9, 20, 4, 4, 33, 3, 3, 1, 1, 1, 1, 1, 1},         {2, 33, 14, 14, 8, 3, 3, 2, 2, 1, 1, 1, 1},
    {1, 3, 40, 61, 6, 7, 7, 2, 2, 1, 1, 3, 3},         {2, 18, 11, 19, 7, 2, 5, 3, 2, 2, 3, 2, 4},
    {5, 90, 7, 7, 12, 3, 3, 1, 1, 1, 1, 1, 1},         {1, 16, 70, 70, 3, 3, 3, 1, 1, 1, 1, 1, 1},
    {3, 32, 16, 16, 40, 1, 1, 2, 2, 1, 1, 0, 0},       {2, 5, 3, 3, 9, 3, 3, 1, 1, 1, 1, 4, 5},
    {2, 16, 6, 50, 290, 1, 3, 1, 1, 1, 1, 0, 1},       {1, 64, 16, 32, 24, 3, 3, 1, 1, 1, 1, 1, 1},
    {4, 150, 2, 2, 31, 2, 2, 1, 1, 1, 1, 0, 1},        {2, 21, 40, 33, 11, 3, 3, 1, 1, 5, 1, 5, 1},
    {70, 20, 4, 4, 18, 3, 3, 1, 1, 1, 1, 1, 1},        {33, 17, 2, 2, 100, 3, 3, 1, 1, 1, 1, 1, 1},
    {9, 24, 8, 8, 16, 3, 3, 2, 2, 1, 1, 1, 1},         {8, 16, 7, 5, 19, 2, 3, 3, 2, 2, 3, 2, 4},
    {2, 33, 9, 31, 17, 3, 3, 1, 1, 1, 1, 1, 1},        {3, 16, 13, 12, 70, 3, 3, 1, 1, 1, 1, 0, 2},
    {5, 40, 14, 14, 36, 3, 3, 1, 1, 1, 1, 1, 1},       {1, 17, 4, 150, 16, 3, 3, 1, 1, 1, 1, 4, 0},
    {7, 24, 11, 9, 300, 3, 3, 1, 1, 1, 1, 2, 1},       {40, 16, 4, 4, 16, 1, 1, 2, 2, 1, 1, 0, 0},
    {12, 30, 3, 5, 22, 5, 4, 1, 1, 2, 1, 4, 2},        {2, 5, 9, 11, 5, 3, 3, 1, 1, 1, 1, 1, 1, 5},
    {3, 19, 14, 14, 19, 5, 5, 1, 1, 1, 1, 2, 2, 19},   {2, 33, 7, 7, 33, 5, 5, 1, 1, 1, 1, 2, 2, 33},
    {1, 16, 56, 56, 16, 3, 3, 2, 2, 1, 1, 1, 1, 16},   {2, 24, 28, 31, 24, 5, 5, 2, 2, 1, 1, 2, 2, 24},
    {5, 64, 3, 2, 64, 3, 3, 1, 1, 1, 1, 1, 1, 64},     {2, 20, 11, 19, 20, 2, 5, 3, 2, 2, 3, 2, 4, 20},
    {1, 70, 40, 61, 70, 7, 7, 2, 3, 1, 1, 3, 3, 70},   {2, 18, 10, 10, 18, 1, 1, 2, 2, 1, 1, 0, 0, 18},
    {1, 16, 120, 200, 16, 3, 3, 1, 1, 1, 1, 1, 1, 16}, {1, 3, 5, 2000, 3, 3, 5, 1, 2, 1, 1, 1, 2, 3},
    {2, 9, 8, 8, 9, 3, 3, 1, 1, 1, 1, 4, 5, 9},        {2, 12, 9, 9, 18, 3, 3, 1, 1, 1, 1, 1, 1, 3},
    {3, 8, 6, 7, 16, 3, 3, 2, 2, 1, 1, 1, 1, 8},       {3, 64, 8, 8, 64, 3, 3, 1, 1, 1, 1, 1, 1},
    {40, 32, 4, 4, 96, 3, 3, 1, 1, 1, 1, 1, 1},        {2, 64, 15, 15, 32, 3, 3, 2, 2, 1, 1, 1, 1},
    {2, 20, 23, 21, 40, 5, 3, 1, 1, 1, 1, 2, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static mscrt_graph_tensor tensor(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (mscrt_graph_tensor){.dtype = MSCRT_F32, .dim = {a, b, c, d}, .stride = {b * c * d, c * d, d, 1}};
}

/* Operands of a kind, by their places in x, w, y. */
static const int places[][3] = {[PLAN_GRAPH_KIND_CONV] = {0, 1, 2},
                                [PLAN_GRAPH_KIND_CONV_DATA] = {2, 1, 0},
                                [PLAN_GRAPH_KIND_CONV_WEIGHT] = {0, 2, 1}};

static mscrt_graph graph_of(const int64_t *v, int kind, int width) {
  mscrt_graph g = {.kind = kind, .width = width};
  int64_t y[2];
  for (int d = 0; d < 2; d++) {
    g.step[d] = v[7 + d], g.dilation[d] = v[9 + d], g.padding[d] = v[11 + d];
    y[d] = (v[2 + d] + 2 * v[11 + d] - (v[5 + d] - 1) * v[9 + d] - 1) / v[7 + d] + 1;
    if (v[1] % 2) y[d] += d; /* wider padding behind */
  }
  g.operand[places[kind][0]] = tensor(v[0], v[1], v[2], v[3]);
  g.operand[places[kind][1]] = tensor(v[4], v[1] / (v[13] ? v[13] : 1), v[5], v[6]);
  g.operand[places[kind][2]] = tensor(v[0], v[4], y[0], y[1]);
  return g;
}

static int64_t num_elems(const mscrt_graph_tensor *t) { return t->dim[0] * t->stride[0]; }

/* An element as it is multiplied. */
static double operand(const mscrt_graph *g, float v) {
  return (double)(g->pairs ? mscrt_from_bf16(mscrt_to_bf16(v)) : v);
}

/* Adds each term to the result. */
static void add_terms(const mscrt_graph *g, const fenced *memory, double *sum) {
  msc_windows v = mscrt_windows_of(g);
  int64_t taps = msc_windows_taps(&v), channels = v.c / v.groups;
  for (int64_t n = 0; n < v.n; n++)
    for (int64_t o = 0; o < v.o; o++)
      for (int64_t i = 0; i < v.y[0] * v.y[1]; i++)
        for (int64_t c = 0, first = o / (v.o / v.groups) * channels; c < channels; c++)
          for (int64_t t = 0; t < taps; t++) {
            int64_t h = i / v.y[1] * v.step[0] + t / v.kernel[1] * v.dilation[0] - v.padding[0],
                    w = i % v.y[1] * v.step[1] + t % v.kernel[1] * v.dilation[1] - v.padding[1];
            if (h < 0 || h >= v.x[0] || w < 0 || w >= v.x[1]) continue;
            int64_t at[3] = {((n * v.c + first + c) * v.x[0] + h) * v.x[1] + w, (o * channels + c) * taps + t,
                             (n * v.o + o) * v.y[0] * v.y[1] + i};
            const int *place = places[g->kind];
            double term = 1;
            for (int k = 0; k < 3; k++)
              if (place[k] < 2) term *= operand(g, ((float *)memory[place[k]].data)[at[k]]);
            for (int k = 0; k < 3; k++)
              if (place[k] == 2) sum[at[k]] += term;
          }
}

static void run_units(const mscrt_record *r, void *const *buffers, void *room, bool backwards) {
  int64_t units = mscrt_windows_cut(r->graph).units;
  for (int64_t i = 0; i < units; i++) mscrt_run_windows(r, buffers, backwards ? units - 1 - i : i, room);
}

/* The last image alone comes out as it does among the others. */
static void check_last_image(mscrt_record r, const fenced *memory, void *room) {
  mscrt_graph one = *r.graph;
  int64_t from = 0, to = 0;
  one.operand[0].dim[0] = one.operand[2].dim[0] = 1;
  from = num_elems(&r.graph->operand[0]) - num_elems(&one.operand[0]);
  to = num_elems(&r.graph->operand[2]) - num_elems(&one.operand[2]);
  r.graph = &one;
  run_units(&r, (void *[]){(float *)memory[0].data + from, memory[1].data, memory[3].data}, room, false);
  assert_memory_equal(memory[3].data, (float *)memory[2].data + to, sizeof(float) * (size_t)num_elems(&one.operand[2]));
}

/* Channels in groups come out alike however long vectors are: compares a sum over the bits with that of others. */
static void check_bits(const int64_t *v, int kind, const fenced *made) {
  static uint64_t known[CASES][3];
  uint64_t *at = &known[(v - cases[0]) / FIELDS][kind - PLAN_GRAPH_KIND_CONV], sum = 1;
  const unsigned char *byte = made->data;
  for (size_t i = 0; i < made->bytes; i++) sum = (sum ^ byte[i]) * 0x100000001b3u;
  if (v[13] && *at) assert_int_equal(*at, sum);
  *at = sum;
}

/* multiply: the kernel of f32, or with `pairs` that of pairs of bf16. */
static void check_case(kernel_run *run, const int64_t *v, int kind, const msc_product_kernels kernels[2],
                       uint32_t multiply, bool pairs) {
  mscrt_graph g = graph_of(v, kind, kernels[0].width);
  g.pairs = pairs;
  msc_windows seen = mscrt_windows_of(&g);
  msc_windows_cut cut = mscrt_windows_cut(&g);
  if (kind == PLAN_GRAPH_KIND_CONV_DATA && seen.groups == 1 && !msc_windows_lie_side_by_side(&seen) &&
      !msc_windows_are_tiles(&seen))
    return; /* no plan has it */
  if (pairs && !msc_windows_take_pairs(&seen)) return;
  uint32_t pack = kernels[msc_windows_pack_transposed(&seen)].pack;
  mscrt_record r = {.graph = &g,
                    .pack = (mscrt_kernel *)(void *)(run->memory + run->code.kernel[pack].entry),
                    .multiply = (mscrt_kernel *)(void *)(run->memory + run->code.kernel[multiply].entry)};
  fenced memory[4], room = fenced_new((size_t)msc_windows_bytes(&cut));
  memset(room.data, 0xff, room.bytes); /* no number */
  for (int i = 0; i < 4; i++) {
    int64_t num = num_elems(&g.operand[i < 3 ? i : 2]);
    memory[i] = fenced_new(sizeof(float) * (size_t)num);
    for (int64_t k = 0; k < num; k++) ((float *)memory[i].data)[k] = (float)(2 * random_number(run) - 1);
  }
  int64_t num = num_elems(&g.operand[2]);
  double *want = calloc((size_t)num, sizeof *want), largest = 0;
  add_terms(&g, memory, want);
  for (int64_t i = 0; i < num; i++) largest = fmax(largest, fabs(want[i]));
  run_units(&r, (void *[]){memory[0].data, memory[1].data, memory[2].data}, room.data, false);
  run_units(&r, (void *[]){memory[0].data, memory[1].data, memory[3].data}, room.data, true);
  assert_memory_equal(memory[2].data, memory[3].data, sizeof(float) * (size_t)num);
  for (int64_t i = 0; i < num; i++) {
    double got = ((float *)memory[2].data)[i];
    if (!(fabs(got - want[i]) <= 2e-6 * largest))
      fail_msg("case %d, kind %d: element %d is %.9g, expected %.9g", (int)((v - cases[0]) / FIELDS), kind, (int)i, got,
               want[i]);
  }
  check_bits(v, kind, &memory[2]);
  if (kind != PLAN_GRAPH_KIND_CONV_WEIGHT) check_last_image(r, memory, room.data);
  free(want);
  for (int i = 0; i < 4; i++) fenced_free(&memory[i]);
  fenced_free(&room);
}

static void check_windows(int vector_bytes) {
  kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu, .vector_bytes = vector_bytes});
  msc_product_kernels kernels[2];
  for (int i = 0; i < 2; i++)
    if (!msc_codegen_product(run->cg, MSC_F32, i, 1, &kernels[i])) skip(); /* no fused multiply-add here */
  uint32_t of_pairs = 0;
  bool has_pairs = msc_codegen_pairs(run->cg, &of_pairs);
  if (!has_pairs) print_message("vectors of %d bytes: no instructions for pairs of bf16\n", vector_bytes);
  kernels_finish(run);
  for (int pairs = 0; pairs <= has_pairs; pairs++)
    for (int i = 0; i < CASES; i++)
      for (int kind = PLAN_GRAPH_KIND_CONV; kind <= PLAN_GRAPH_KIND_CONV_WEIGHT; kind++)
        check_case(run, cases[i], kind, kernels, pairs ? of_pairs : kernels[0].multiply, pairs);
  kernels_free(run);
}

static void test_windows(void **state) {
  (void)state;
  for (int bytes = 16; bytes <= 64; bytes *= 2) check_windows(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
