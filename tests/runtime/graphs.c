/* graphs.c: checks how plans with graphs for a GPU's library, and with convolutions on a CPU, are loaded: right ones
 * are accepted, each wrong one is refused with a message that names the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/runtime/expect.h"
#include "tests/runtime/make_plan.h"

enum { Q = 0, BYTES = 2 * 2 * 4 * 8 * 16, STATS = 4 * 2 * 4 * 8, ATTENTION = 0, CONV = 1 };

static mscrt_graph_tensor dense(mscrt_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
  return (mscrt_graph_tensor){dtype, {a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/* So many elements in each dimension, but next to each other in memory whatever the dimension. */
static mscrt_graph_tensor thin(int64_t size) {
  return (mscrt_graph_tensor){MSCRT_BF16, {size, size, size, size}, {1, 1, 1, 1}};
}

/* Attention of two samples, four heads that share two, eight positions; then a convolution in steps of two,
 * in two groups. */
static plan_text everything(call_text calls[2]) {
  mscrt_graph attention = {
      .kind = PLAN_GRAPH_KIND_ATTENTION, .num_operands = 5, .causal = true, .scale = 0.25f, .bytes = 1024};
  attention.engine = "{}";
  mscrt_graph conv = {.kind = PLAN_GRAPH_KIND_CONV,
                      .num_operands = 3,
                      .step = {2, 1},
                      .dilation = {1, 2},
                      .padding = {1, 2},
                      .bytes = 64};
  attention.operand[0] = attention.operand[3] = dense(MSCRT_BF16, 2, 4, 8, 16);
  attention.operand[1] = attention.operand[2] = dense(MSCRT_BF16, 2, 2, 8, 16);
  attention.operand[4] = dense(MSCRT_F32, 2, 4, 8, 1);
  conv.operand[0] = dense(MSCRT_F32, 1, 4, 5, 6), conv.operand[1] = dense(MSCRT_F32, 6, 2, 3, 3),
  conv.operand[2] = dense(MSCRT_F32, 1, 6, 3, 6);
  calls[0] = (call_text){.kind = PLAN_CALL_KIND_GRAPH,
                         .index = 0,
                         .num_buffers = 5,
                         .name = "attention",
                         .buffers = {IN(S, 0, BYTES), IN(S, BYTES, BYTES / 2), IN(S, BYTES, BYTES / 2),
                                     OUT(S, 2 * BYTES, BYTES), OUT(S, 3 * BYTES, STATS)}};
  calls[1] = (call_text){.kind = PLAN_CALL_KIND_GRAPH,
                         .index = 1,
                         .num_buffers = 3,
                         .name = "conv",
                         .buffers = {IN(S, 0, 480), IN(S, 480, 432), OUT(S, 1024, 432)}};
  return (plan_text){.target = "cuda",
                     .workspace = 1024,
                     .engines_version = 91900,
                     .engines_arch = 90,
                     .num_graphs = 2,
                     .graph = {attention, conv},
                     .num_sections = 1,
                     .section = {{"forward", 4 * BYTES, 2, calls}}};
}

static mscrt_status *open_text(const plan_text *t) {
  size_t size;
  mscrt_plan *plan = NULL;
  uint8_t *bytes = make_plan(t, &size);
  mscrt_status *s = mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, &plan);
  mscrt_plan_close(plan);
  free(bytes);
  return s;
}

static void right_plans_are_taken(void **state) {
  call_text calls[2];
  (void)state;
  plan_text t = everything(calls);
  expect_ok(open_text(&t));
  t.graph[ATTENTION].operand[0].stride[0] *= 2, calls[0].buffers[0].bytes += BYTES / 2; /* samples apart */
  calls[0].buffers[1].offset = calls[0].buffers[2].offset = 3 * BYTES / 2;
  expect_ok(open_text(&t));
}

/* Heads of all three gradients in rows of eight, which begin anywhere. */
static plan_text gradients(call_text *call, int64_t first_of_values) {
  enum { ROW = 8 * 16, AT = 4 * BYTES + 64, HEAD = 2 * 16 };
  mscrt_graph g = {.kind = PLAN_GRAPH_KIND_ATTENTION_GRAD, .num_operands = 9, .scale = 0.25f};
  g.operand[0] = g.operand[3] = g.operand[5] = g.operand[6] = dense(MSCRT_BF16, 2, 4, 8, 16);
  g.operand[1] = g.operand[2] = g.operand[7] = g.operand[8] = dense(MSCRT_BF16, 2, 2, 8, 16);
  g.operand[4] = dense(MSCRT_F32, 2, 4, 8, 1);
  for (int i = 6; i < 9; i++)
    g.operand[i].stride[0] = 8 * ROW, g.operand[i].stride[1] = 16, g.operand[i].stride[2] = ROW;
  *call = (call_text){.kind = PLAN_CALL_KIND_GRAPH,
                      .index = 0,
                      .num_buffers = 9,
                      .name = "gradients",
                      .buffers = {IN(S, 0, BYTES), IN(S, BYTES, BYTES / 2), IN(S, BYTES, BYTES / 2),
                                  IN(S, 2 * BYTES, BYTES), IN(S, 3 * BYTES, STATS), IN(S, 2 * BYTES, BYTES),
                                  OUT(S, AT, 2 * BYTES - 4 * HEAD), OUT(S, AT + 4 * HEAD, 2 * BYTES - 6 * HEAD),
                                  OUT(S, AT + first_of_values * HEAD, 2 * BYTES - 6 * HEAD)}};
  return (plan_text){.target = "cuda",
                     .num_graphs = 1,
                     .graph = {g},
                     .num_sections = 1,
                     .section = {{"backward", 7 * BYTES, 1, call}}};
}

static void gradients_share_rows(void **state) {
  call_text call;
  (void)state;
  plan_text right = gradients(&call, 6);
  expect_ok(open_text(&right));
  plan_text overlapping = gradients(&call, 5);
  expect_text(open_text(&overlapping), MSCRT_INPUT, "call 0 of gradients: operand 7: a result lies in it");
  plan_text beyond = gradients(&call, 7);
  expect_text(open_text(&beyond), MSCRT_INPUT, "call 0 of gradients: operand 6: a result lies in it");
}

typedef struct {
  const char *expected;
  void (*spoil)(plan_text *t, call_text *c, mscrt_graph *attention, mscrt_graph *conv);
} false_case;

#define CASE(name, what)                                                                    \
  static void name(plan_text *t, call_text *c, mscrt_graph *attention, mscrt_graph *conv) { \
    (void)t, (void)c, (void)attention, (void)conv;                                          \
    what;                                                                                   \
  }
CASE(on_cpu, t->target = "cpu")
CASE(kind, conv->kind = 10)
CASE(operands, attention->num_operands = 4)
CASE(zero_size, attention->operand[1].dim[2] = 0)
CASE(zero_stride, attention->operand[1].stride[2] = 0)
CASE(huge_stride, attention->operand[1].stride[0] = INT64_MAX)
CASE(overlapping, attention->operand[1] = thin(1 << 20))
CASE(other_size, attention->operand[2].dim[2] = 7)
CASE(mask_size, (attention->kind = PLAN_GRAPH_KIND_MASKED_ATTENTION, attention->num_operands = 6,
                 attention->operand[5] = attention->operand[4], attention->operand[4] = attention->operand[3],
                 attention->operand[3] = dense(MSCRT_BF16, 2, 1, 3, 8)))
CASE(stats_type, attention->operand[4].dtype = MSCRT_BF16)
CASE(wide_type, attention->operand[0].dtype = MSCRT_F32)
CASE(conv_type, (conv->operand[0].dtype = conv->operand[1].dtype = conv->operand[2].dtype = MSCRT_F64))
CASE(heads, (attention->operand[1].dim[1] = attention->operand[2].dim[1] = 3))
CASE(workspace, conv->bytes = 1025)
CASE(windows, conv->padding[0] = 2)
CASE(step, conv->step[0] = 0)
CASE(groups, conv->operand[1].dim[1] = 3)
CASE(index_of, c[1].index = 2)
CASE(buffers, c[1].num_buffers = 2)
CASE(outside, c[0].buffers[0].offset = 4 * BYTES)
CASE(small, c[0].buffers[4].bytes -= 4)
CASE(odd, c[1].buffers[1].offset = 488)
CASE(engine, conv->engine = "x")
CASE(no_engine, conv->engine = "")
CASE(no_version, t->engines_version = 0)
CASE(no_arch, t->engines_arch = 0)
CASE(written, c[0].buffers[2].written = 1)
CASE(overlap, c[0].buffers[3].offset = BYTES / 2)

static const false_case false_cases[] = {
  {"graph 0: its kernels do not take what a product gives", on_cpu}, {"graph 1: kind 10", kind},
  {"graph 0: 4 operands, not 5", operands}, {"graph 0: operand 1: size 0 with stride 16", zero_size},
  {"graph 0: operand 1: size 8 with stride 0", zero_stride},
   {"graph 0: operand 1: size 2 with stride 9223372036854775807", huge_stride},
   {"graph 0: operand 1: it is too large", overlapping}, {"graph 0: operand 2: dimension 2 is 7, not 8", other_size},
  {"graph 0: operand 3: dimension 2 is 3, not 8", mask_size}, {"graph 0: operand 4 is of type 2", stats_type},
   {"graph 0: operand 1 is of type 2", wide_type}, {"graph 1: operand 0 is of type 3", conv_type},
   {"graph 0: 4 heads share 3", heads},
  {"graph 1: 1025 bytes of a workspace of 1024", workspace}, {"graph 1: 3 windows of 3 on 5", windows},
   {"graph 1: windows with step 0", step}, {"graph 1: 4 channels do not divide into groups", groups},
  {"call 1 of conv: graph 2 of 2", index_of}, {"call 1 of conv: 2 operands", buffers},
   {"call 0 of attention: operand 0: bytes", outside},
   {"call 0 of attention: operand 4: 252 bytes where 256 are needed", small},
  {"graph 1: 1 bytes that are no engine", engine}, {"graph 1: 0 bytes that are no engine", no_engine},
   {"graph 0: an engine of no version of the library, or for no GPU", no_version},
  {"graph 0: an engine of no version of the library, or for no GPU", no_arch},
  {"call 1 of conv: operand 1: its address is not aligned", odd},
   {"call 0 of attention: operand 2: only results are written", written},
   {"call 0 of attention: operand 0: a result lies in it", overlap},
};

static void false_plans_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof false_cases / sizeof *false_cases; i++) {
    call_text calls[2];
    plan_text t = everything(calls);
    false_cases[i].spoil(&t, calls, &t.graph[ATTENTION], &t.graph[CONV]);
    expect_text(open_text(&t), MSCRT_INPUT, false_cases[i].expected);
  }
}

/* ---- convolutions on a CPU ---- */

static KERNEL void k_nothing(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)b, (void)begin, (void)end, (void)dims, (void)scalars;
}

/* Two images of four channels, or the gradient of its weights, by the kernels of products. */
static plan_text conv_on_cpu(call_text *call, bool gradient) {
  enum { X = 2 * 4 * 8 * 8 * 4, W = 6 * 4 * 3 * 3 * 4, Y = 2 * 6 * 8 * 8 * 4, W_AT = X, Y_AT = 3072, END = Y_AT + Y };
  mscrt_graph g = {.kind = gradient ? PLAN_GRAPH_KIND_CONV_WEIGHT : PLAN_GRAPH_KIND_CONV,
                   .num_operands = 3,
                   .step = {1, 1},
                   .dilation = {1, 1},
                   .padding = {1, 1},
                   .pack = 0,
                   .multiply = 1,
                   .width = 16};
  g.operand[0] = dense(MSCRT_F32, 2, 4, 8, 8);
  g.operand[gradient ? 2 : 1] = dense(MSCRT_F32, 6, 4, 3, 3);
  g.operand[gradient ? 1 : 2] = dense(MSCRT_F32, 2, 6, 8, 8);
  msc_windows_cut u = mscrt_windows_cut(&g);
  g.bytes = (uint64_t)msc_windows_bytes(&u);
  *call = (call_text){.kind = PLAN_CALL_KIND_GRAPH, .num_buffers = 3, .name = "conv", .buffers = {IN(S, 0, X)}};
  call->buffers[gradient ? 2 : 1] = (plan_ref){W_AT, W, S, gradient, {0}};
  call->buffers[gradient ? 1 : 2] = (plan_ref){Y_AT, Y, S, !gradient, {0}};
  return (plan_text){.num_kernels = 2,
                     .kernel = {{"pack", k_nothing, 2, 3, 0, 0}, {"multiply", k_nothing, 5, 10, 0, 0}},
                     .num_graphs = 1,
                     .graph = {g},
                     .num_sections = 1,
                     .section = {{"forward", END, 1, call}}};
}

typedef struct {
  const char *expected;
  bool of_gradient; /* too */
  void (*spoil)(plan_text *t, mscrt_graph *g);
} false_conv;

#define CONV_CASE(name, what)                      \
  static void name(plan_text *t, mscrt_graph *g) { \
    (void)t, (void)g;                              \
    what;                                          \
  }
CONV_CASE(cpu_kind, (g->kind = PLAN_GRAPH_KIND_BIASED_CONV, g->num_operands = 4, g->operand[3] = g->operand[2],
                     g->operand[2] = dense(MSCRT_F32, 1, 6, 1, 1)))
CONV_CASE(cpu_large_data, (g->kind = PLAN_GRAPH_KIND_CONV_DATA, g->operand[0] = dense(MSCRT_F32, 2, 6, 8, 8),
                           g->operand[2] = dense(MSCRT_F32, 2, 4, 8, 8)))
CONV_CASE(cpu_pack, g->pack = 2)
CONV_CASE(cpu_pack_buffers, t->kernel[0].buffers = 3)
CONV_CASE(cpu_pack_dims, t->kernel[0].dims = 2)
CONV_CASE(cpu_multiply, g->multiply = 0)
CONV_CASE(cpu_multiply_scalars, t->kernel[1].scalars = 1)
CONV_CASE(cpu_no_width, g->width = 0)
CONV_CASE(cpu_narrow, g->width = MSC_PRODUCT_VECTORS / 2)
CONV_CASE(cpu_wide, g->width = MSC_WINDOWS_MAX_WIDTH + MSC_PRODUCT_VECTORS)
CONV_CASE(cpu_part_of_vector, g->width = MSC_PRODUCT_VECTORS + 1)
CONV_CASE(cpu_type, (g->operand[0].dtype = g->operand[1].dtype = g->operand[2].dtype = MSCRT_BF16))
CONV_CASE(cpu_apart, g->operand[1].stride[0] += 4)
CONV_CASE(cpu_turned, (g->operand[2].stride[2] = 1, g->operand[2].stride[3] = g->operand[2].dim[2]))
CONV_CASE(cpu_engine, (g->engine = "{}", t->engines_version = 1, t->engines_arch = 1))
CONV_CASE(cpu_groups, g->operand[g->kind == PLAN_GRAPH_KIND_CONV ? 1 : 2] = dense(MSCRT_F32, 6, 3, 3, 3))
CONV_CASE(cpu_huge, g->operand[0] = dense(MSCRT_F32, 2, 4, 8, MSC_WINDOWS_MAX_SIZE + 1))
CONV_CASE(cpu_pairs_bytes, g->pairs = true)
CONV_CASE(cpu_pairs_of_groups,
          (g->pairs = true, g->operand[g->kind == PLAN_GRAPH_KIND_CONV ? 1 : 2] = dense(MSCRT_F32, 6, 2, 3, 3)))
CONV_CASE(cpu_bytes, g->bytes--)
CONV_CASE(cpu_much, g->bytes = MSC_WINDOWS_MAX_BYTES + 1)
CONV_CASE(cpu_units, (g->operand[0] = dense(MSCRT_F32, 1 << 20, 640, 1, 1),
                      g->operand[1] = dense(MSCRT_F32, 1, 640, 1, 1),
                      g->operand[2] = dense(MSCRT_F32, 1 << 20, 1, 1 << 20, 8),
                      g->bytes = MSC_WINDOWS_MAX_BYTES))

static const false_conv false_convs[] = {
    {"graph 0: kind 9 is not computed on a CPU", false, cpu_kind},
    {"graph 0: the gradient of images that do not lie side by side", false, cpu_large_data},
    {"graph 0: its kernels do not take what a product gives", true, cpu_pack},
    {"graph 0: its kernels do not take what a product gives", true, cpu_pack_buffers},
    {"graph 0: its kernels do not take what a product gives", true, cpu_pack_dims},
    {"graph 0: its kernels do not take what a product gives", true, cpu_multiply},
    {"graph 0: its kernels do not take what a product gives", true, cpu_multiply_scalars},
    {"graph 0: panels of 0 columns", true, cpu_no_width},
    {"graph 0: panels of 1 columns", true, cpu_narrow},
    {"graph 0: panels of 66 columns", true, cpu_wide},
    {"graph 0: panels of 3 columns", true, cpu_part_of_vector},
    {"graph 0: operand 0 is not an array of f32", true, cpu_type},
    {"graph 0: operand 1 is not an array of f32", true, cpu_apart},
    {"graph 0: operand 2 is not an array of f32", true, cpu_turned},
    {"graph 0: an engine of a GPU's library", true, cpu_engine},
    {"graph 0: 4 channels do not divide into groups", true, cpu_groups},
    {"graph 0: its sizes are out of range", true, cpu_huge},
    {"graph 0: 2 units that need 12672 bytes, not 12671", false, cpu_bytes},
    {"units that need ", true, cpu_bytes},
    {"units that need ", false, cpu_pairs_bytes},
    {"graph 0: pairs of terms where there are none", true, cpu_pairs_of_groups},
    {"bytes, not 8388609", true, cpu_much},
    {"units that need", false, cpu_units},
};

static void convolutions_on_a_cpu_are_checked(void **state) {
  (void)state;
  call_text call;
  for (int gradient = 0; gradient < 2; gradient++) {
    plan_text right = conv_on_cpu(&call, gradient);
    expect_ok(open_text(&right));
    for (size_t i = 0; i < sizeof false_convs / sizeof *false_convs; i++) {
      plan_text t = conv_on_cpu(&call, gradient);
      if (gradient && !false_convs[i].of_gradient) continue;
      false_convs[i].spoil(&t, &t.graph[0]);
      expect_text(open_text(&t), MSCRT_INPUT, false_convs[i].expected);
    }
  }
}

/* ---- attention on a CPU ---- */

/* Two batches of four heads that share keys and values in pairs; 8 positions and keys. */
static plan_text attention_on_cpu(call_text *call) {
  enum { KV = 2 * 2 * 8 * 16 * 4, QY = 2 * KV, TOTALS = 2 * 4 * 8 * 4, V_AT = QY + KV, Y_AT = V_AT + KV,
         STATS_AT = Y_AT + QY };
  mscrt_graph g = {.kind = PLAN_GRAPH_KIND_ATTENTION,
                   .num_operands = 5,
                   .num_results = 2,
                   .scale = 1,
                   .pack = 0,
                   .multiply = 1,
                   .width = 16};
  g.operand[0] = g.operand[3] = dense(MSCRT_F32, 2, 4, 8, 16);
  g.operand[1] = g.operand[2] = dense(MSCRT_F32, 2, 2, 8, 16);
  g.operand[4] = dense(MSCRT_F32, 2, 4, 8, 1);
  msc_attention a = mscrt_attention_of(&g);
  msc_attention_cut u = msc_attention_cut_of(&a);
  g.bytes = (uint64_t)msc_attention_bytes(&u);
  *call = (call_text){.kind = PLAN_CALL_KIND_GRAPH,
                      .num_buffers = 5,
                      .name = "attention",
                      .buffers = {IN(S, 0, QY), IN(S, QY, KV), IN(S, V_AT, KV), {Y_AT, QY, S, 1, {0}},
                                  {STATS_AT, TOTALS, S, 1, {0}}}};
  return (plan_text){.num_kernels = 2,
                     .kernel = {{"pack", k_nothing, 2, 3, 0, 0}, {"multiply", k_nothing, 5, 10, 0, 0}},
                     .num_graphs = 1,
                     .graph = {g},
                     .num_sections = 1,
                     .section = {{"forward", STATS_AT + TOTALS, 1, call}}};
}

CONV_CASE(scores_bytes, g->bytes--)
CONV_CASE(scores_much, g->bytes = MSC_ATTENTION_MAX_BYTES + 1)
CONV_CASE(scores_type, (g->operand[0] = g->operand[3] = dense(MSCRT_BF16, 2, 4, 8, 16),
                        g->operand[1] = g->operand[2] = dense(MSCRT_BF16, 2, 2, 8, 16)))
CONV_CASE(scores_turned, (g->operand[0].stride[2] = 1, g->operand[0].stride[3] = 8))
CONV_CASE(scores_shared, g->operand[1].dim[1] = g->operand[2].dim[1] = 3)
CONV_CASE(scores_head, g->operand[0] = dense(MSCRT_F32, 2, 4, 8, MSC_ATTENTION_MAX_HEAD + 1);
          g->operand[1] = dense(MSCRT_F32, 2, 2, 8, MSC_ATTENTION_MAX_HEAD + 1))
CONV_CASE(scores_multiply, g->multiply = 2)
CONV_CASE(scores_pairs, g->pairs = true)

static void attention_on_a_cpu_is_checked(void **state) {
  static const false_conv cases[] = {
      {"units that need ", true, scores_bytes},
      {"bytes, not 67108865", true, scores_much},
      {"graph 0: operand 0 is not an array of f32", true, scores_type},
      {"graph 0: operand 0 is not an array of f32", true, scores_turned},
      {"graph 0: 4 heads share 3", true, scores_shared},
      {"graph 0: its sizes are out of range", true, scores_head},
      {"graph 0: its kernels do not take what a product gives", true, scores_multiply},
      {"graph 0: pairs of terms in attention", true, scores_pairs},
  };
  (void)state;
  call_text call;
  plan_text right = attention_on_cpu(&call);
  expect_ok(open_text(&right));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plan_text t = attention_on_cpu(&call);
    cases[i].spoil(&t, &t.graph[0]);
    expect_text(open_text(&t), MSCRT_INPUT, cases[i].expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right_plans_are_taken), cmocka_unit_test(gradients_share_rows),
                                     cmocka_unit_test(false_plans_are_refused),
                                     cmocka_unit_test(convolutions_on_a_cpu_are_checked),
                                     cmocka_unit_test(attention_on_a_cpu_is_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
