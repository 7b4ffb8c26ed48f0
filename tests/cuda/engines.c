/* Does the real cuDNN know the graphs that plans have, and do the bounds of their workspaces hold?  Without a GPU: it
 * makes plans for one that is described to it, on a driver that does nothing (tools/willing).  Skipped where cuDNN
 * is not installed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/msc.h"
#include "runtime/cuda/cudnn.h"

static const mscrt_gpu h200 = {.name = "NVIDIA H200",
                               .arch = 90,
                               .multiprocessors = 132,
                               .clock_hz = 1980000000,
                               .memory_clock_hz = 3201000000,
                               .memory_bytes = 150754820096,
                               .cache_bytes = 62914560,
                               .shared_bytes = 233472,
                               .threads = 2048,
                               .blocks = 32};

static void fail(const char *what, mscrt_status *s) {
  printf("%s: %s\n", what, mscrt_status_text(s));
  exit(1);
}

/* ---- models ---- */

/* Attention of parameters, which is trained: with weights that are dropped, a mask, or neither. */
#define FORM(op, extra_argument, extra, extra_type, extra_attr)                                                        \
  "module {\n  \"msc.func\"() ({\n  ^bb0(%%q: %s, %%k: %s, %%v: %s, %%t: %s" extra_argument                            \
  "):\n"                                                                                                               \
  "    %%0 = \"msc." op "\"(%%q, %%k, %%v" extra ") {causal = %s} : (%s, %s, %s" extra_type                            \
  ") -> %s\n"                                                                                                          \
  "    %%1 = \"msc.mean_squared_error\"(%%0, %%t) : (%s, %s) -> tensor<f32>\n    \"msc.return\"(%%1) : (tensor<f32>) " \
  "-> ()\n"                                                                                                            \
  "  }) {sym_name = \"forward\", loss = 0 : i64, results = [\"loss\"], optimizer = {kind = \"sgd\", lr = 0.1 : f32}, " \
  "arg_attrs = [{msc.name = \"q\", msc.role = \"parameter\"}, "                                                        \
  "{msc.name = \"k\", msc.role = \"parameter\"}, {msc.name = \"v\", msc.role = \"parameter\"}, {msc.name = \"t\", "    \
  "msc.role = \"label\"}" extra_attr "]} : () -> ()\n}\n"

typedef struct { int batch, heads, groups, positions, keys, size, values; bool causal, dropped; } attention_sizes;

/* mask: its type; NULL: none. */
static void write_attention(const attention_sizes *z, const char *mask, char *text, size_t room) {
  char q[64], k[64], v[64], y[64], keep[64];
  const char *causal = z->causal ? "true" : "false";
  snprintf(q, sizeof q, "tensor<%dx%dx%dx%dxf32>", z->batch, z->heads, z->positions, z->size);
  snprintf(k, sizeof k, "tensor<%dx%dx%dx%dxf32>", z->batch, z->groups, z->keys, z->size);
  snprintf(v, sizeof v, "tensor<%dx%dx%dx%dxf32>", z->batch, z->groups, z->keys, z->values);
  snprintf(y, sizeof y, "tensor<%dx%dx%dx%dxf32>", z->batch, z->heads, z->positions, z->values);
  snprintf(keep, sizeof keep, "tensor<%dx%dx%dx%dxf32>", z->batch, z->heads, z->positions, z->keys);
  if (mask)
    snprintf(text, room,
             FORM("attention", ", %%mask: %s", ", %%mask", ", %s",
                  ", {msc.name = \"mask\", msc.role = \"data\", msc.batch_dim = -1 : i64}"),
             q, k, v, y, mask, causal, q, k, v, mask, y, y, y);
  else if (!z->dropped)
    snprintf(text, room, FORM("attention", "", "", "", ""), q, k, v, y, causal, q, k, v, y, y, y);
  else
    snprintf(
        text, room,
        FORM("dropped_attention", ", %%keep: %s", ", %%keep", ", %s", ", {msc.name = \"keep\", msc.role = \"data\"}"),
        q, k, v, y, keep, causal, q, k, v, keep, y, y, y);
}

static void read_file(const char *path, char *text, size_t room) {
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, room - 1, f) : 0;
  text[n] = 0;
  if (f) fclose(f);
  if (!n) printf("%s cannot be read\n", path), exit(1);
}

/* ---- plans ---- */

static mscrt_dnn dnn;
static int num_graphs, num_turned; /* and operands with positions before heads */
static double slowest_ms;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void prepare_all(const mscrt_plan *p, const char *name) {
  for (uint32_t i = 0; i < p->num_graphs; i++) {
    mscrt_dnn_graph g = {0};
    double begin = now_ms();
    mscrt_status *s = mscrt_dnn_prepare(&dnn, &p->graph[i], p->graph[i].bytes, name, &g);
    mscrt_dnn_free(&dnn, &g);
    if (s) fail(name, s);
    if (now_ms() - begin > slowest_ms) slowest_ms = now_ms() - begin;
    num_graphs++;
    for (uint32_t k = 0; k < p->graph[i].num_operands; k++)
      num_turned += p->graph[i].operand[k].stride[2] > p->graph[i].operand[k].stride[1];
  }
}

/* As many graphs at least must be in its plan. */
static void try_model(const char *name, const char *text, const char *keys, uint32_t least) {
  const void *bytes;
  size_t size;
  mscrt_plan *plan;
  msc_compiler *c =
      msc_compiler_new(&(msc_compiler_options){.struct_size = sizeof(msc_compiler_options), .target = "cuda"});
  bool ok = msc_compiler_configure(c, "keys", keys, strlen(keys)) &&
            msc_compiler_compile(c, name, text, strlen(text), &bytes, &size);
  for (size_t i = 0; i < msc_compiler_num_messages(c) && !ok; i++)
    printf("%s: %s\n", name, msc_compiler_message(c, i).text);
  if (!ok) exit(1);
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  if (s) fail(name, s);
  if (plan->num_graphs < least) printf("%s: %u graphs in its plan, not %u\n", name, plan->num_graphs, least), exit(1);
  prepare_all(plan, name);
  mscrt_plan_close(plan);
  msc_compiler_free(c);
}

/* ---- machines ---- */

/* An H200, as if it were of another architecture.  Skips all where there is no cuDNN. */
static void describe_device(int arch) {
  mscrt_gpu gpu = h200;
  gpu.arch = arch;
  mscrt_dnn_forget(&dnn);
  mscrt_status *s = mscrt_dnn_describe(&gpu, &dnn);
  if (s && !dnn.api.handle) printf("skipped: %s\n", mscrt_status_text(s)), exit(0);
  if (s) fail("a described device", s);
}

static void try_attention(const char *keys, const attention_sizes *z, const char *mask, uint32_t least) {
  char text[4096];
  write_attention(z, mask, text, sizeof text);
  try_model("attention", text, keys, least);
}

/* Positions come before heads in memory, and nothing is transposed for it. */
static void try_heads(const char *keys) {
  static char text[1 << 16];
  read_file("tests/cuda/engines/heads.mlir", text, sizeof text);
  num_turned = 0;
  try_model("heads", text, keys, 2);
  if (num_turned != 12)
    printf("heads: %d operands with positions before heads, not 12: q k v y, and in the gradient dy dq dk dv besides\n",
           num_turned),
        exit(1);
}

/* Padding, as encoders have it; what is added, for all heads or each; in rows of any length. */
static void try_masks(bool all) {
  static const struct { attention_sizes z; const char *mask; } masks[] = {
    {{16, 12, 12, 512, 512, 64, 64, false, false}, "tensor<16x1x1x512xi1>"}, {{16, 12, 12, 512, 512, 64, 64, false,
     false}, "tensor<512x512xf32>"},
    {{2, 4, 2, 100, 101, 64, 64, false, false}, "tensor<2x1x100x101xf32>"}, {{2, 4, 4, 128, 192, 128, 64, true, false},
     "tensor<1x4x128x192xf32>"},
    {{2, 2, 2, 8, 5, 8, 8, false, false}, "tensor<5xi1>"}, {{1, 2, 2, 7, 64, 64, 128, false, false},
     "tensor<1x2x7x64xi1>"}};
  for (size_t i = 0; i < (all ? sizeof masks / sizeof *masks : 1); i++)
    try_attention(i % 2 ? "{\"compute_type\": \"f16\", \"deterministic\": true}" : "{\"compute_type\": \"bf16\"}",
                  &masks[i].z, masks[i].mask, 2);
}

static void try_gpu(int arch, bool all) {
  static const attention_sizes gpt2 = {16, 12, 12, 1024, 1024, 64, 64, true, false},
                               dropped = {16, 12, 12, 1024, 1024, 64, 64, true, true},
                               others[] = {{2, 2, 2, 8, 8, 8, 8, true, false},
                                           {2, 4, 4, 100, 100, 64, 64, false, true},
                                           {2, 4, 4, 128, 192, 128, 64, true, false},
                                           {1, 2, 2, 1, 64, 64, 128, false, false},
                                           {1, 3, 3, 2000, 2000, 40, 40, true, false}};
  static const char *const networks[] = {"tests/e2e/fixtures/resnet.mlir", "tests/e2e/fixtures/windows.mlir",
                                         "tests/cuda/losses/biased.mlir"};
  static char text[1 << 16];
  describe_device(arch);
  try_attention("{\"compute_type\": \"bf16\"}", &gpt2, NULL, 2);
  try_attention("{\"compute_type\": \"f16\", \"deterministic\": true}", &gpt2, NULL, 2);
  try_attention("{\"compute_type\": \"bf16\"}", &dropped, NULL, 2);
  try_heads("{\"compute_type\": \"bf16\"}");
  try_masks(all);
  if (!all) return;
  try_heads("{\"compute_type\": \"bf16\", \"deterministic\": true}");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    try_attention(i % 2 ? "{\"compute_type\": \"bf16\"}" : "{\"compute_type\": \"bf16\", \"deterministic\": true}",
                  &others[i], NULL, 2);
  for (int i = 0; i < 2; i++)
    try_attention("{\"compute_type\": \"bf16\"}", &(attention_sizes){2, 8, 2, 256, 256, 64, 64, true, i}, NULL, 2);
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
    read_file(networks[i], text, sizeof text);
    try_model(networks[i], text, "{\"deterministic\": true}", 4);
    try_model(networks[i], text, "{\"compute_type\": \"bf16\"}", 4);
  }
}

int main(void) {
  bool all = getenv("MSC_TEST_SLOW") != NULL;
  try_gpu(90, all);
  if (all) try_gpu(80, true), try_gpu(100, false);
  printf("cuDNN %zu has an engine for each of %d graphs, made in %.0f ms at most\n", dnn.api.cudnnGetVersion(),
         num_graphs, slowest_ms);
  return 0;
}
