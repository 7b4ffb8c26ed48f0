/* graphs.c: checks how plans with graphs for a GPU's library are loaded: right ones are accepted, each wrong one is
 * refused with a message that names the place. */
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
  {"graph 0: kind 0 is not computed on a CPU", on_cpu}, {"graph 1: kind 10", kind}, {"graph 0: 4 operands, not 5",
   operands}, {"graph 0: operand 1: size 0 with stride 16", zero_size},
  {"graph 0: operand 1: size 8 with stride 0", zero_stride},
   {"graph 0: operand 1: size 2 with stride 9223372036854775807", huge_stride},
   {"graph 0: operand 2: dimension 2 is 7, not 8", other_size},
  {"graph 0: operand 3: dimension 2 is 3, not 8", mask_size}, {"graph 0: operand 4 is of type 2", stats_type},
   {"graph 0: operand 0 is of type 0", wide_type}, {"graph 1: operand 0 is of type 3", conv_type},
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right_plans_are_taken), cmocka_unit_test(gradients_share_rows),
                                     cmocka_unit_test(false_plans_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
