/* grouping.c: reproduces published buckets; checks that the optimum is the best of all groupings, and that with the
 * gradients of eight networks it leaves less exposed than any usual bucket size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "passes/5_comm/grouping.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MOST = 1200 };

/* Returns when the last transfer ends. */
static double finish_ns(const comm_item *item, size_t num_groups, const size_t *end, const comm_link *link) {
  double at = 0, ready = 0;
  for (size_t g = 0, i = 0; g < num_groups; g++) {
    double bytes = 0;
    for (; i < end[g]; i++) {
      bytes += (double)item[i].bytes;
      if ((double)item[i].ready_ns > ready) ready = (double)item[i].ready_ns;
    }
    at = (at > ready ? at : ready) + link->start_ns + link->ns_per_byte * bytes;
  }
  return at;
}

static uint64_t random_state = 7;

static uint64_t draw(uint64_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % below;
}

/* ---- rules ---- */

/* The gradients of ResNet-18 in the order in which its parameters are defined: they are ready from the last
 * to the first. */
static const int64_t resnet18[] = {
  9408, 64, 64, 36864, 64, 64, 36864, 64, 64, 36864, 64, 64, 36864, 64, 64, 73728, 128, 128, 147456, 128, 128, 8192,
      128, 128, 147456, 128, 128, 147456, 128, 128, 294912,
  256, 256, 589824, 256, 256, 32768, 256, 256, 589824, 256, 256, 589824, 256, 256, 1179648, 512, 512, 2359296, 512, 512,
      131072, 512, 512, 2359296, 512, 512, 2359296, 512,
  512, 512000, 1000};

static int64_t bytes_of(const comm_item *item, size_t begin, size_t end) {
  int64_t bytes = 0;
  for (size_t i = begin; i < end; i++) bytes += item[i].bytes;
  return bytes;
}

static void published_buckets(void **state) {
  (void)state;
  comm_item item[COUNT(resnet18)] = {{0}};
  size_t end[COUNT(resnet18)];
  for (size_t i = 0; i < COUNT(resnet18); i++) item[i].bytes = 4 * resnet18[COUNT(resnet18) - 1 - i];
  assert_int_equal(comm_group_by_bytes(COUNT(resnet18), item, 2, (int64_t[]){1 << 20, 25 << 20}, end), 3);
  assert_int_equal(bytes_of(item, 0, end[0]), 2052000);
  assert_int_equal(bytes_of(item, end[0], end[1]), 28852224);
  assert_int_equal(bytes_of(item, end[1], end[2]), 15853824);
  assert_int_equal(end[2], COUNT(resnet18));
}

static void sizes_and_indices(void **state) {
  (void)state;
  comm_item item[40];
  size_t end[40], number[40];
  for (size_t i = 0; i < 40; i++) item[i] = (comm_item){0, 10}, number[i] = i;
  assert_int_equal(comm_group_by_bytes(0, item, 1, (int64_t[]){5}, end), 0);
  assert_int_equal(comm_group_by_bytes(40, item, 1, (int64_t[]){5}, end), 40); /* none is split */
  assert_int_equal(comm_group_by_bytes(40, item, 1, (int64_t[]){400}, end), 1);
  assert_int_equal(comm_group_by_bytes(40, item, 1, (int64_t[]){11}, end), 20);
  assert_int_equal(comm_group_by_index(40, number, 2, (int64_t[]){20, 35}, end), 3); /* 0..19 | 20..34 | 35..39 */
  assert_int_equal(end[0], 20);
  assert_int_equal(end[1], 35);
  assert_int_equal(end[2], 40);
  assert_int_equal(comm_group_by_index(40, number, 0, NULL, end), 1);
  assert_int_equal(comm_group_by_index(40, number, 2, (int64_t[]){40, 99}, end), 1);
  for (size_t i = 0; i < 40; i++) number[i] = 3 * i; /* others lie between */
  assert_int_equal(comm_group_by_index(40, number, 1, (int64_t[]){20}, end), 2);
  assert_int_equal(end[0], 7);
}

/* ---- the optimum ---- */

static void best_of_all_groupings(void **state) {
  msc_arena *arena = msc_context_arena(*state);
  for (int round = 0; round < 3000; round++) {
    enum { N = 9 };
    comm_item item[N];
    size_t num = 1 + draw(N), end[N], other[N];
    comm_link link = {(double)draw(30), 0.5 * (double)draw(6)};
    int64_t ready = 0;
    for (size_t i = 0; i < num; i++) item[i] = (comm_item){ready += (int64_t)draw(40), (int64_t)draw(30)};
    size_t groups = comm_group_optimal(arena, num, item, &link, end);
    assert_int_equal(end[groups - 1], num);
    double least = finish_ns(item, groups, end, &link);
    for (unsigned cuts = 0; cuts < 1u << (num - 1); cuts++) {
      size_t n = 0;
      for (size_t i = 0; i < num; i++)
        if (i + 1 == num || cuts >> i & 1) other[n++] = i + 1;
      assert_true(finish_ns(item, n, other, &link) > least - 1e-6);
    }
  }
}

static void many_tensors_in_no_time(void **state) {
  enum { N = 10000 };
  msc_arena *arena = msc_context_arena(*state);
  comm_item *item = msc_new_array(arena, comm_item, N);
  size_t *end = msc_new_array(arena, size_t, N);
  static const comm_link links[] = {{10000, 0}, {10000, 1e-3}, {10000, 1}, {0, 1e-3}};
  for (size_t i = 0; i < N; i++) item[i] = (comm_item){(int64_t)(1000 * i), (int64_t)(1 + draw(1 << 22))};
  for (size_t k = 0; k < COUNT(links); k++) {
    clock_t begin = clock();
    size_t groups = comm_group_optimal(arena, N, item, &links[k], end);
    double ms = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (ms > 250) fail_msg("%zu groups of %d tensors took %.0f ms", groups, N, ms);
  }
}

/* ---- what stays exposed ---- */

/* Gradients as they become ready, and when the work is done. */
typedef struct {
  const char *name;
  size_t num;
  comm_item item[MOST];
  int64_t done_ns;
} network;

/* Adds a layer: its work and its gradients, of weights and of small parameters ready at the same time. */
static void layer(network *n, double us, int64_t elems, int num_small, int64_t small_elems) {
  n->done_ns += (int64_t)(us * 1000);
  for (int i = 0; i < num_small; i++) n->item[n->num++] = (comm_item){n->done_ns, 4 * small_elems};
  n->item[n->num++] = (comm_item){n->done_ns, 4 * elems};
}

/* d: width; tokens: per rank; at 100 teraflops a second.  The backward of a product is twice its forward. */
static void transformer(network *n, const char *name, int layers, int64_t d, int64_t vocabulary, int64_t tokens,
                        bool tied) {
  double us_per_elem = 4.0 * (double)tokens / 100e6;
  *n = (network){.name = name};
  if (!tied) layer(n, us_per_elem * (double)(d * vocabulary), d * vocabulary, 0, 0);
  else n->done_ns += (int64_t)(us_per_elem * 1e3 * (double)(d * vocabulary));
  for (int l = 0; l < layers; l++) {
    layer(n, us_per_elem * 4 * (double)(d * d), 4 * d * d, 1, d);
    layer(n, us_per_elem * 4 * (double)(d * d), 4 * d * d, 3, 4 * d);
    layer(n, us_per_elem * 2 * (double)(d * d), d * d, 1, d);
    layer(n, us_per_elem * 3 * (double)(d * d), 3 * d * d, 3, 3 * d);
  }
  layer(n, 50, d * vocabulary, 1, 1024 * d); /* the table gets its sum last */
}

/* Stages of convolutions, from the last to the first: all stages have about the same work. */
static void convolutions(network *n, const char *name, const int *blocks, int per_block, int64_t channels, double us) {
  *n = (network){.name = name};
  layer(n, us / 4, 8 * channels * 1000, 1, 1000);
  for (int stage = 3; stage >= 0; stage--) {
    int64_t c = channels << stage, e = per_block == 3 ? 17 * c * c / 3 : 9 * c * c;
    for (int b = 0; b < blocks[stage]; b++)
      for (int k = 0; k < per_block; k++) layer(n, us, e, 2, c);
  }
  layer(n, us, 9408, 2, 64);
}

static void perceptron(network *n, const char *name, int layers, int64_t width, double us) {
  *n = (network){.name = name};
  for (int l = 0; l < layers; l++) layer(n, us, width * width, 1, width);
}

static void make_networks(network n[8]) {
  convolutions(&n[0], "resnet18", (int[]){2, 2, 2, 2}, 2, 64, 900);
  convolutions(&n[1], "resnet50", (int[]){3, 4, 6, 3}, 3, 64, 700);
  transformer(&n[2], "bert_base", 12, 768, 30522, 4096, true);
  transformer(&n[3], "bert_large", 24, 1024, 30522, 2048, true);
  transformer(&n[4], "gpt2_small", 12, 768, 50257, 8192, true);
  transformer(&n[5], "gpt2_medium", 24, 1024, 50257, 4096, false);
  perceptron(&n[6], "perceptron", 8, 4096, 1500);
  convolutions(&n[7], "wide_resnet", (int[]){3, 4, 6, 3}, 3, 128, 2200);
}

/* 8 ranks: 2 * 7 / 8 of the bytes go over each link. */
static const struct {
  const char *name;
  comm_link link;
} nets[] = {{"A100 node", {78.6e3, 2 * 7.0 / 8 / 227.3}},
            {"25 GB/s", {60e3, 2 * 7.0 / 8 / 25}},
            {"1 GB/s", {200e3, 2 * 7.0 / 8 / 1}}};

static double exposed_ms(const network *n, size_t groups, const size_t *end, const comm_link *link) {
  return (finish_ns(n->item, groups, end, link) - (double)n->done_ns) / 1e6;
}

static void less_is_exposed(void **state) {
  static network n[8];
  static const int64_t caps[] = {25 << 20, 30 << 20, 64 << 20, INT64_MAX};
  make_networks(n);
  double saved = 0;
  for (size_t k = 0; k < 8; k++)
    for (size_t l = 0; l < COUNT(nets); l++) {
      size_t end[MOST];
      double mean = 0, best = 1e300,
             least = exposed_ms(&n[k],
                                comm_group_optimal(msc_context_arena(*state), n[k].num, n[k].item, &nets[l].link, end),
                                end, &nets[l].link);
      for (size_t c = 0; c < COUNT(caps); c++) {
        double ms = exposed_ms(&n[k], comm_group_by_bytes(n[k].num, n[k].item, 1, &caps[c], end), end, &nets[l].link);
        mean += ms / COUNT(caps);
        if (ms < best) best = ms;
      }
      if (least > best * (1 + 1e-9))
        fail_msg("%s on %s: %.3f ms exposed, %.3f with buckets of one size", n[k].name, nets[l].name, least, best);
      print_message("%-12s %-10s %8.3f ms exposed, best size %8.3f, mean of sizes %8.3f\n", n[k].name, nets[l].name,
                    least, best, mean);
      saved += 1 - least / mean;
    }
  saved /= 8 * COUNT(nets);
  print_message("%.1f %% below the mean of the sizes\n", 100 * saved);
  assert_true(saved >= 0.15);
}

static int begin(void **state) { return (*state = msc_context_new(NULL, NULL)) ? 0 : -1; }

static int end(void **state) {
  msc_context_free(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(published_buckets),       cmocka_unit_test(sizes_and_indices),
        cmocka_unit_test(best_of_all_groupings),
    cmocka_unit_test(many_tensors_in_no_time), cmocka_unit_test(less_is_exposed),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
