/* plan.c: checks the plan loader: damaged, inconsistent or foreign plans are refused with a reason; accepted ones
 * can be run. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/abi/product.h"
#include "ir/sanitized.h"
#include "runtime/data/draw.h"
#include "tests/runtime/expect.h"
#include "tests/runtime/make_plan.h"

static KERNEL void k_nothing(void *const *b, int64_t begin, int64_t end, const int64_t *dims, const double *scalars) {
  (void)b, (void)begin, (void)end, (void)dims, (void)scalars;
}

/* A plan with one of everything that the loader checks; one rank, so what it accepts can be run at once. */
static const call_text epilogue = {.num_buffers = 2,
                                   .buffers = {IN(T, 0, 4), OUT(P, 0, 192)},
                                   .num_dims = 1,
                                   .dims = {3},
                                   .num_scalars = 1,
                                   .scalars = {0.5},
                                   .extent = 48};
static const call_text calls[] = {
  {.num_buffers = 2, .buffers = {IN(I, 0, 96), OUT(S, 0, 4)}, .num_dims = 1, .num_scalars = 1, .extent = 24, .grain = 5,
   .checks = true, .has_start = true, .start_layout = 3, .start_shape = 6, .name = "look", .loc = "net.py:1"},
  {.kind = PLAN_CALL_KIND_MATMUL, .index = 0, .num_buffers = 4, .buffers = {IN(S, 64, 96), IN(P, 192, 128), OUT(S, 256,
   192), IN(P, 320, 32)}, .name = "dense"},
  {.kind = PLAN_CALL_KIND_MATMUL, .index = 1, .num_buffers = 3, .buffers = {IN(S, 64, 96), IN(P, 192, 128), OUT(T, 0,
   4)}, .epilogue = &epilogue},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 0, .num_buffers = 2, .buffers = {IN(S, 256, 192), OUT(S, 256, 192)},
   .name = "sum"},
  {.kind = PLAN_CALL_KIND_COLLECTIVE, .index = 1, .num_buffers = 2, .buffers = {IN(S, 256, 192), OUT(S, 448, 192)}},
};

static plan_text everything(void) {
  return (plan_text){
      .num_axes = 2,
      .axes = {1, 1},
      .num_layouts = 5,
      .layouts = {"2:0;1", "2:", "2:|0", "1:0", "0:"},
      .num_kernels = 1,
      .kernel = {{"nothing", k_nothing, 2, 1, 1}},
      .num_matmuls = 2,
      .matmul = {{.batch = 1, .m = 6, .n = 8, .k = 4, .tile_m = 4, .tile_n = 8, .bias = true, .relu = true},
                 {.batch = 1, .m = 6, .n = 8, .k = 4, .tile_m = 4, .tile_n = 5, .tile_bytes = 80}},
      .num_collectives = 2,
      .collective = {{MSC_ALL_REDUCE, 0, 2, {6, 8}, 2, 1, 0}, {MSC_ALL_TO_ALL, 0, 2, {6, 8}, 0, 1, 0}},
      .num_sections = 1,
      .section = {{"train", 640, 5, calls}},
      .persistent = 352,
      .input_stride = 128,
      .constants = "abcdefgh",
      .constant_bytes = 8,
      .num_parameters = 3,
      .parameter = {{"w0", 0, 2, {6, 8}, 0, OUT(P, 0, 192), "uniform:1", .loss = false},
                    {"w1", 0, 2, {4, 8}, 1, IN(P, 192, 128), "normal:0.5", .loss = false},
                    {"b", 0, 1, {8}, 3, IN(P, 320, 32), "constant:2", .loss = false}},
      .num_inputs = 2,
      .input = {{"x", 0, 2, {6, 4}, 1, IN(I, 0, 96), .loss = false},
                {"y", MSCRT_I32, 1, {6}, 3, IN(I, 96, 24), .role = MSCRT_LABEL}},
      .num_outputs = 2,
      .output = {{"loss", 0, 0, {0}, 4, IN(S, 0, 4), .loss = true},
                 {"all", 0, 2, {6, 8}, 1, IN(S, 448, 192), .loss = false}}};
}

static mscrt_status *open_bytes(const uint8_t *bytes, size_t size, mscrt_plan **out_plan) {
  return mscrt_plan_open(bytes, size, &(mscrt_plan_options){sizeof(mscrt_plan_options), true}, out_plan);
}

static mscrt_status *open_text(const plan_text *t) {
  size_t size;
  mscrt_plan *plan = NULL;
  uint8_t *bytes = make_plan(t, &size);
  mscrt_status *s = open_bytes(bytes, size, &plan);
  mscrt_plan_close(plan);
  free(bytes);
  return s;
}

/* ---- what may be said in general ---- */

static void foreign_plans_are_refused(void **state) {
  (void)state;
  plan_text t = everything();
  size_t size;
  mscrt_plan *plan;
  uint8_t *bytes = make_plan(&t, &size);
  expect_text(mscrt_plan_open(bytes, size, NULL, &plan), MSCRT_UNTRUSTED, "native code, and nobody vouched for it");
  expect_ok(open_bytes(bytes, size, &plan));
  assert_int_equal(mscrt_plan_ranks(plan), 1);
  assert_int_equal(mscrt_plan_num_parameters(plan), 3);
  mscrt_plan_close(plan);
  for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 37)
    expect_text(open_bytes(bytes, cut, &plan), MSCRT_INPUT, "");
  bytes[size - 5] ^= 1;
  expect_text(open_bytes(bytes, size, &plan), MSCRT_INPUT, "");
  free(bytes);
  expect_text(mscrt_plan_open("MSCMODEL", 8, NULL, &plan), MSCRT_INPUT, "not a plan, or a damaged one");
  expect_text(mscrt_plan_read("/nonexistent", NULL, &plan), MSCRT_INPUT, "/nonexistent: cannot open");
  t.version = 9;
  expect_text(open_text(&t), MSCRT_UNSUPPORTED, "version 9, this runtime reads version 1");
  t = everything();
  t.target = "tpu";
  expect_text(open_text(&t), MSCRT_UNSUPPORTED, "target 'tpu'");
  t = everything();
  t.feature = "amx-avx1024";
  expect_text(open_text(&t), MSCRT_ENVIRONMENT, "made for CPU test; this one lacks: amx-avx1024.");
  t.feature = "address-sanitizer";
  if (!MSC_SANITIZED) expect_text(open_text(&t), MSCRT_ENVIRONMENT, "this one lacks: address-sanitizer");
  t.feature = "+sse2";
  expect_ok(open_text(&t));
}

/* Linux allows AMX to no process with a signal stack that cannot hold its registers. */
static void small_signal_stacks_are_named(void **state) {
  enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
  static char memory[4096];
  (void)state;
  plan_text t = everything();
  stack_t small = {.ss_sp = memory, .ss_size = sizeof memory}, before;
  assert_int_equal(sigaltstack(&small, &before), 0);
  bool refused = syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) && errno == ENOSPC;
  t.feature = "amx-tile";
  if (refused) expect_text(open_text(&t), MSCRT_ENVIRONMENT, "amx-tile.  A signal stack (sigaltstack) of this process");
  else printf("skipped: this machine has no AMX that a small signal stack would forbid\n");
  assert_int_equal(sigaltstack(&before, NULL), 0);
  if (refused) expect_ok(open_text(&t));
}

/* ---- one false thing at a time ---- */

typedef struct { const char *expected; void (*spoil)(plan_text *t, call_text *c, call_text *e); } false_case;

#define CASE(name, what) static void name(plan_text *t, call_text *c, call_text *e) { (void)t, (void)c, (void)e; what; }
CASE(mesh_size, t->axes[0] = 0)
CASE(mesh_huge, t->axes[0] = 1u << 31)
CASE(digit_twice, (t->axes[0] = 2, t->layouts[0] = "2:0;0|"))
CASE(layout_index, t->parameter[0].layout = 5)
CASE(layout_rank, t->parameter[0].layout = 3)
CASE(kernel_index, c[0].index = 1)
CASE(kernel_buffers, c[0].num_buffers = 1)
CASE(kernel_dims, t->kernel[0].dims = 2)
CASE(buffer_range, c[0].buffers[0].bytes = 129)
CASE(buffer_offset, c[0].buffers[0].offset = UINT64_MAX - 8)
CASE(buffer_space, c[0].buffers[0].space = 9)
CASE(buffer_host, c[0].buffers[0].space = 8)
CASE(buffer_tile, c[0].buffers[0] = (plan_ref)IN(T, 0, 4))
CASE(input_written, c[0].buffers[0].written = 1)
CASE(written_twice, c[0].buffers[1].written = 2)
CASE(flag_small, c[0].buffers[1].bytes = 2)
CASE(units, (c[0].extent = (uint64_t)1 << 60, c[0].grain = 1))
CASE(start_layout, c[0].start_layout = 4)
CASE(matmul_index, c[1].index = 2)
CASE(matmul_small, c[1].buffers[1].bytes = 124)
CASE(matmul_overlap, c[1].buffers[2].offset = 128)
CASE(matmul_operands, c[1].num_buffers = 3)
CASE(matmul_odd, c[1].buffers[0].offset = 66)
CASE(matmul_zero, t->matmul[0].k = 0)
CASE(matmul_huge, (t->matmul[0].m = (int64_t)1 << 40, t->matmul[0].k = (int64_t)1 << 40))
CASE(matmul_type, t->matmul[0].dtype = MSCRT_F64)
CASE(tile_wide, t->matmul[0].tile_n = 9)
CASE(tile_zero, t->matmul[0].tile_m = 0)
CASE(tile_small, t->matmul[1].tile_bytes = 79)
CASE(tile_alone, c[2].epilogue = NULL)
CASE(epilogue_items, e->extent = 47)
CASE(epilogue_writes, e->buffers[1].bytes = 200)
CASE(collective_index, c[3].index = 2)
CASE(collective_small, c[4].buffers[1].bytes = 191)
CASE(collective_overlap, c[4].buffers[1].offset = 320)
CASE(collective_verb, t->collective[0].verb = MSC_SHARD)
CASE(halo_layout, (t->collective[0].verb = MSC_HALO, t->collective[0].lo = 1))
CASE(halo_dim, (t->collective[0].verb = MSC_HALO, t->collective[0].to = 2, t->collective[0].halo_dim = 2))
CASE(halo_rows, (t->collective[0].verb = MSC_HALO, t->collective[0].to = 2, t->collective[0].hi = 7))
CASE(halo_bytes, (t->collective[0].verb = MSC_HALO, t->collective[0].to = 2, t->collective[0].step = 7))
CASE(collective_layout, t->collective[0].to = 3)
CASE(collective_none, t->collective[0].from = 99)
/* Two sums at once, each in place. */
static void put_together(plan_text *t, call_text *c) {
  t->num_collectives = 3;
  t->collective[2] = (collective_text){.verb = MSC_ALL_REDUCE, .num_members = 2};
  c[3].index = 2, c[3].num_buffers = 4;
  c[3].buffers[2] = (plan_ref)IN(S, 448, 192), c[3].buffers[3] = (plan_ref)OUT(S, 448, 192);
}

CASE(members_overlap, (put_together(t, c), c[3].buffers[3].offset = 256))
CASE(members_cross, (put_together(t, c), c[3].buffers[1].offset = 64, c[3].buffers[3].offset = 256))
CASE(members_missing, (put_together(t, c), c[3].num_buffers = 2))
CASE(member_later, (put_together(t, c), t->collective[2].members[1] = 2))
CASE(member_other, (put_together(t, c), t->collective[2].members[1] = 1))
CASE(members_verb, (put_together(t, c), t->collective[2].verb = MSC_ALL_TO_ALL))
CASE(parameter_outside, t->parameter[2].ref.offset = 324)
CASE(parameter_small, t->parameter[2].ref.bytes = 28)
CASE(parameter_init, t->parameter[2].init = "normal:nan")
CASE(parameter_partial, t->parameter[0].layout = 2)
CASE(parameter_twice, t->parameter[1].name = "w0")
CASE(input_batch, t->input[1].batch_dim = 1)
CASE(input_batches, (t->input[1].shape[0] = 5, t->input[1].ref.bytes = 20))
CASE(output_section, t->output[1].section = 1)
CASE(output_loss, t->output[1].loss = true)
CASE(two_sections, (t->num_sections = 2, t->section[1] = t->section[0]))

static const false_case false_cases[] = {
  {"the mesh's sizes are not possible", mesh_size}, {"the mesh's sizes are not possible", mesh_huge},
   {"layout 0: its digits do not fit the mesh", digit_twice},
  {"parameter 'w0': layout 5 of 5", layout_index}, {"parameter 'w0': a layout of 1 dimensions for 2", layout_rank},
  {"section 'train', call 0 of look: kernel 1 of 1", kernel_index},
   {"call 0 of look: 1 buffers, 1 dimensions and 1 scalars for kernel nothing, which takes 2, 1 and 1", kernel_buffers},
  {"for kernel nothing, which takes 2, 2 and 1", kernel_dims}, {"buffer 0: bytes 0 + 129 of space input, which has 128",
   buffer_range}, {"buffer 0: bytes", buffer_offset},
  {"buffer 0: space 9", buffer_space}, {"of space host, which has 0", buffer_host}, {"buffer 0: space 4", buffer_tile},
  {"buffer 0: space input is not written", input_written}, {"buffer 1: written is 2", written_twice},
  {"error flag", flag_small},
  {"items in units of", units}, {"start 0 has no such layout", start_layout}, {"matmul 2 of 2", matmul_index},
   {"operand 1: 124 bytes where 128 are needed", matmul_small},
  {"operand 0: a result lies in it", matmul_overlap}, {"call 1 of dense: 3 operands", matmul_operands},
   {"operand 0: its address is not aligned", matmul_odd},
  {"matmul 0: impossible sizes", matmul_zero}, {"matmul 0: impossible sizes", matmul_huge}, {"element type 3",
   matmul_type}, {"tiles of 4 x 9", tile_wide}, {"tiles of 0 x 8", tile_zero},
  {"79 bytes for a tile of 4 x 5", tile_small}, {"tiles that nobody takes", tile_alone},
   {"its epilogue has 47 items for 48 elements", epilogue_items},
  {"its epilogue writes to operand 1", epilogue_writes}, {"collective 2 of 2", collective_index},
   {"destination: 191 bytes where 192 are needed", collective_small},
  {"source and destination overlap", collective_overlap}, {"collective 0: unknown verb", collective_verb},
  {"collective 0: a halo changes its layout", halo_layout}, {"collective 0: a halo along dimension 2 of 2", halo_dim},
   {"collective 0: a halo of 0 and 7 rows beside 0", halo_rows},
  {"call 3 of sum: its values overlap", members_overlap}, {"call 3 of sum: its values overlap", members_cross},
   {"call 3 of sum: 2 buffers", members_missing},
  {"collective 2: member 1 is entry 2, which is none before it", member_later},
   {"collective 2: member 1 is of another kind", member_other},
  {"collective 2: all_to_all is of one value", members_verb}, {"destination: 192 bytes where 224 are needed",
   halo_bytes}, {"collective 0: a layout of 1 dimensions for 2", collective_layout},
  {"collective 0: layout 99 of 5", collective_none}, {"parameter 'b': bytes 324 + 32 of a space of 352",
   parameter_outside}, {"parameter 'b': 28 bytes where 32 are needed", parameter_small},
  {"parameter 'b': initial values 'normal:nan'", parameter_init}, {"two parameters are called 'w0'", parameter_twice},
   {"input 'y': batch dimension 1 of 1", input_batch},
  {"input 'y': a batch of 5, but 'x' has 6", input_batches}, {"output 'all': program 1 of 1", output_section},
   {"output 'all': a loss must be one float", output_loss},
  {"two sections are called 'train'", two_sections}, {"parameter 'w0': it is a partial result", parameter_partial},
};

/* Generated kernels write as far as ir/abi/product.h says: whatever their vectors, a plan with a byte
 * less is refused. */
static void products_have_room(void **state) {
  (void)state;
  static const mscrt_dtype dtypes[] = {MSCRT_F32, MSCRT_F64, MSCRT_BF16, MSCRT_BF16, MSCRT_F32};
  for (int i = 0; i < 5 * 4 * 2 * 2 * 20; i++) {
    plan_text t = everything();
    int64_t k = i % 20 + 1, width = (int64_t)4 << i / 20 % 4, m = 6;
    mscrt_dtype dtype = dtypes[i / 320];
    int64_t operand_bytes = (int64_t)mscrt_dtype_bytes(dtype);
    int packing = msc_product_packing(operand_bytes, i / 320 >= 3);
    bool turned = i / 80 % 2, filled = msc_product_is_filled(k, 1, packing),
         packed = msc_product_packs_rows(operand_bytes, turned, packing, filled);
    int64_t units = msc_product_units(k, 1, packing);
    uint64_t bytes = (uint64_t)msc_product_bytes(operand_bytes);
    t.num_kernels = 3, t.kernel[1] = (kernel_text){"pack", k_nothing, 2, packing ? 4 : 3, 0, 0},
    t.kernel[2] = (kernel_text){"multiply", k_nothing, 5, 10, 0, 0};
    mscrt_matmul p = {.dtype = dtype,
                      .wide = dtype == MSCRT_BF16,
                      .batch = 1,
                      .m = m,
                      .n = 70,
                      .k = k,
                      .tile_m = m,
                      .tile_n = width,
                      .transpose_a = turned,
                      .transpose_b = true,
                      .pack = 1,
                      .multiply = 2,
                      .width = width,
                      .blocks = 1,
                      .packing = packing};
    p.panel_bytes = bytes * (uint64_t)(filled ? msc_product_filled_panel_elems : msc_product_panel_elems)(width, units,
                                                                                                         width);
    p.room_bytes = packed ? bytes * (uint64_t)msc_product_room_elems(m, units) : 0;
    uint64_t *room = i / 160 % 2 && packed ? &p.room_bytes : &p.panel_bytes;
    t.matmul[t.num_matmuls++] = p;
    expect_ok(open_text(&t));
    --*room, t.matmul[t.num_matmuls - 1] = p;
    expect_text(open_text(&t), MSCRT_INPUT, "bytes for packed operands of");
    ++*room, p.wide = !p.wide, p.bias = !p.wide, t.matmul[t.num_matmuls - 1] = p;
    expect_text(open_text(&t), MSCRT_INPUT, p.bias ? "a bias for sums that are rounded to bf16" : "is not widened");
    p.bias = false;
    p.wide = !p.wide, p.b_lies = true, t.matmul[t.num_matmuls - 1] = p;
    expect_text(open_text(&t), MSCRT_INPUT, "are read where they lie");
    p.wide = !p.wide, p.b_lies = false;
    p.wide = !p.wide, p.packing = !packing, t.matmul[t.num_matmuls - 1] = p;
    expect_text(open_text(&t), MSCRT_INPUT, "its kernels do not take");
    if (dtype != MSCRT_F64) continue;
    t.kernel[1].dims = 4;
    expect_text(open_text(&t), MSCRT_INPUT, "pairs of ");
  }
}

/* Columns that are packed for all workers are whole tiles of the one b, with room for their panels. */
static void shared_columns_are_whole_tiles(void **state) {
  (void)state;
  static const struct {
    int64_t columns, batch;
    const char *expected;
  } cases[] = {{16, 1, NULL},
               {64, 1, NULL},
               {70, 1, NULL},
               {12, 1, "12 shared columns of 70 for tiles of 8"},
               {4, 1, "4 shared columns of 70 for tiles of 8"},
               {72, 1, "72 shared columns of 70 for tiles of 8"},
               {-8, 1, "-8 shared columns of 70 for tiles of 8"},
               {16, 2, "16 shared columns of 70 for tiles of 8"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plan_text t = everything();
    t.num_kernels = 3, t.kernel[1] = (kernel_text){"pack", k_nothing, 2, 3, 0, 0},
    t.kernel[2] = (kernel_text){"multiply", k_nothing, 5, 10, 0, 0};
    mscrt_matmul p = {.dtype = MSCRT_F32,
                      .batch = cases[i].batch,
                      .m = 6,
                      .n = 70,
                      .k = 8,
                      .tile_m = 3,
                      .tile_n = 8,
                      .pack = 1,
                      .multiply = 2,
                      .width = 8,
                      .blocks = 1,
                      .shared_columns = cases[i].columns,
                      .panel_bytes = 4 * (uint64_t)msc_product_panel_elems(72, 8, 8)};
    t.matmul[t.num_matmuls] = p;
    t.num_matmuls++;
    if (cases[i].expected) {
      expect_text(open_text(&t), MSCRT_INPUT, cases[i].expected);
      continue;
    }
    expect_ok(open_text(&t));
    p.panel_bytes = 4 * (uint64_t)msc_product_panel_elems(cases[i].columns, 8, 8) - 1;
    t.matmul[t.num_matmuls - 1] = p;
    expect_text(open_text(&t), MSCRT_INPUT, "bytes for packed operands of");
  }
}

/* A product that kernels or a library compute is one that either can. */
static void a_library_may_compute_what_kernels_do(void **state) {
  (void)state;
  static const char no_product[] = "a product that kernels or a library compute has kernels";
  const struct {
    mscrt_dtype dtype;
    uint8_t library;
    uint64_t tile_bytes;
    const char *expected; /* NULL: right */
  } cases[] = {{MSCRT_F32, PLAN_LIBRARY_USE_MEASURED, 0, NULL},
               {MSCRT_F32, PLAN_LIBRARY_USE_PREFERRED, 0, NULL},
               {MSCRT_F32, 3, 0, "use 3 of a library"},
               {MSCRT_F64, PLAN_LIBRARY_USE_MEASURED, 0, no_product},
               {MSCRT_F32, PLAN_LIBRARY_USE_MEASURED, 96, no_product},
               {MSCRT_F32, PLAN_LIBRARY_USE_NEVER, 96, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plan_text t = everything();
    t.num_kernels = 3, t.kernel[1] = (kernel_text){"pack", k_nothing, 2, 3, 0, 0},
    t.kernel[2] = (kernel_text){"multiply", k_nothing, 5, 10, 0, 0};
    t.matmul[t.num_matmuls++] = (mscrt_matmul){.dtype = cases[i].dtype,
                                               .batch = 1,
                                               .m = 6,
                                               .n = 16,
                                               .k = 8,
                                               .tile_m = 3,
                                               .tile_n = 8,
                                               .tile_bytes = cases[i].tile_bytes,
                                               .pack = 1,
                                               .multiply = 2,
                                               .width = 8,
                                               .blocks = 1,
                                               .library = cases[i].library,
                                               .panel_bytes = 8 * (uint64_t)msc_product_panel_elems(8, 8, 8)};
    if (cases[i].expected) expect_text(open_text(&t), MSCRT_INPUT, cases[i].expected);
    else expect_ok(open_text(&t));
  }
}

static void several_at_once_may_be_said(void **state) {
  (void)state;
  plan_text t = everything();
  call_text c[5];
  memcpy(c, calls, sizeof calls);
  t.section[0].call = c;
  put_together(&t, c);
  expect_ok(open_text(&t));
}

static void false_plans_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof false_cases / sizeof *false_cases; i++) {
    plan_text t = everything();
    call_text c[5], e = epilogue;
    memcpy(c, calls, sizeof calls);
    t.section[0].call = c;
    c[2].epilogue = &e;
    false_cases[i].spoil(&t, c, &e);
    expect_text(open_text(&t), MSCRT_INPUT, false_cases[i].expected);
  }
}

/* ---- random changes that keep the checksum right: refused, or run without a memory error ---- */

static uint64_t dice(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

static void run_if_small(mscrt_plan *plan) {
  mscrt_context *ctx;
  uint64_t bytes = 0;
  for (int i = 0; i < MSCRT_NUM_SPACES; i++) bytes += plan->space_bytes[i];
  if (plan->ranks != 1 || bytes > (16 << 20)) return;
  mscrt_status *s = mscrt_open(plan, &(mscrt_options){.struct_size = sizeof(mscrt_options), .threads = 1}, &ctx);
  uint8_t batch[4096] = {0};
  for (uint32_t i = 0; !s && i < plan->num_inputs; i++) {
    mscrt_status_free(mscrt_set_input(ctx, plan->input[i].name, batch, 96));
    mscrt_status_free(mscrt_set_input(ctx, plan->input[i].name, batch, 24));
  }
  if (!s) s = mscrt_run(ctx, "train", 1, NULL);
  mscrt_status_free(s);
  mscrt_close(ctx);
}

/* The kernel does nothing, so no change of its arguments can do harm; code itself is trusted and stays as it is. */
static void changed_plans_are_refused_or_run(void **state) {
  (void)state;
  plan_text t = everything();
  size_t size;
  uint8_t *good = make_plan(&t, &size), *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
  uint64_t seed = 1;
  int accepted = 0, rounds = 10000;
  mscrt_plan *plan;
  expect_ok(open_bytes(good, size, &plan));
  size_t code = (size_t)(plan_plan_code_data(plan->root) - plan->bytes), code_bytes = plan_plan_code_num(plan->root);
  uint32_t entry = (uint32_t)plan_kernel_entry(plan_plan_kernels(plan->root, 0));
  mscrt_plan_close(plan);
  for (int i = 0; i < rounds; i++) {
    memcpy(bytes, good, size);
    for (uint64_t n = dice(&seed) % 3 + 1; n > 0; n--) {
      size_t at = dice(&seed) % size;
      if (at >= code && at < code + code_bytes) continue;
      bytes[at] = dice(&seed) % 2 ? (uint8_t)dice(&seed) : (uint8_t)(bytes[at] ^ 1 << dice(&seed) % 8);
    }
    flatbuf_fault fault;
    if (!flatbuf_verify(&plan_schema, bytes, size, 100000, &fault) || !flatbuf_inline(plan_plan_root(bytes).at, 25))
      continue;
    seal_plan(bytes, size);
    mscrt_status *s = open_bytes(bytes, size, &plan);
    if (!s && plan_kernel_entry(plan_plan_kernels(plan->root, 0)) == entry &&
        plan_plan_code_num(plan->root) == code_bytes) {
      run_if_small(plan);
      accepted++;
    }
    mscrt_status_free(s);
    mscrt_plan_close(plan);
  }
  assert_true(accepted > rounds / 100 && accepted < rounds);
  free(good);
  free(bytes);
}

/* ---- initial values ---- */

/* The initial values of a part, in a buffer that is larger, are those of the whole; the rest of the buffer is zero. */
static void expect_part_of_whole(const char *init, mscrt_dtype dtype) {
  enum { ROWS = 7, COLUMNS = 151, BUFFER = 5 * 140 };
  const mscrt_variable v = {.name = "w", .dtype = dtype, .rank = 2, .shape = {ROWS, COLUMNS}, .init = init};
  const msc_box all = {.size = {ROWS, COLUMNS}}, part = {{2, 3}, {4, 133}}, room = {{2, 3}, {5, 140}};
  size_t bytes = mscrt_dtype_bytes(dtype);
  uint8_t whole[ROWS * COLUMNS * 8], buffer[BUFFER * 8], zero[8] = {0};
  memset(buffer, 0xff, sizeof buffer);
  mscrt_init_box(&v, 5, &all, &all, whole);
  mscrt_init_box(&v, 5, &part, &room, buffer);
  for (size_t i = 0; i < BUFFER; i++) {
    size_t row = i / 140, column = i % 140;
    const uint8_t *expected = whole + ((row + 2) * COLUMNS + column + 3) * bytes;
    assert_memory_equal(buffer + i * bytes, row < 4 && column < 133 ? expected : zero, bytes);
  }
}

static void parts_begin_as_the_whole(void **state) {
  (void)state;
  static const char *const inits[] = {"zeros", "ones", "normal:0.5", "uniform:2"};
  for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
    expect_part_of_whole(inits[i], MSCRT_F32);
    expect_part_of_whole(inits[i], MSCRT_BF16);
    expect_part_of_whole(inits[i], MSCRT_F64);
  }
  expect_part_of_whole("constant:3", MSCRT_I64);
}

/* The four numbers of a block as the library of C computes them: two pairs by the method of Box and Muller, or uniform
 * ones; in long double, so that what differs is not its own error. */
static void draw_by_library(bool normal, const uint32_t key[2], uint64_t block, long double out[4]) {
  const long double pi = 3.14159265358979323846264338327950288L;
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0x696e6974}, r[4];
  mscrt_philox(counter, key, r);
  for (int i = 0; i < 4; i++) {
    long double first = ((long double)r[i / 2 * 2] + 0.5L) * 0x1p-32L,
                second = ((long double)r[i / 2 * 2 + 1] + 0.5L) * 0x1p-32L, angle = 2 * pi * second;
    if (normal) out[i] = sqrtl(-2 * logl(first)) * (i % 2 ? sinl(angle) : cosl(angle));
    else out[i] = 2 * (i % 2 ? second : first) - 1;
  }
}

/* Numbers of initial values are exact but for a few units in the last place of f64, and have the same bits with
 * vectors of every width and wherever a draw of several blocks begins. */
static void numbers_are_drawn_alike(void **state) {
  (void)state;
  enum { BLOCKS = MSCRT_DRAWN_BLOCKS, NUMBERS = 4 * BLOCKS };
  static const uint64_t from[] = {0, 5, 4096, ((uint64_t)1 << 32) - 3, (uint64_t)1 << 40};
  const uint32_t key[2] = {0x12345678, 0x9abcdef0};
  for (size_t f = 0; f < sizeof from / sizeof *from; f++)
    for (int normal = 0; normal < 2; normal++)
      for (uint64_t at = 0; at < 300 * BLOCKS; at += BLOCKS) {
        double wide[NUMBERS], plain[NUMBERS], later[NUMBERS];
        mscrt_draw_blocks(normal, 0.25, key, from[f] + at, wide, false);
        mscrt_draw_blocks(normal, 0.25, key, from[f] + at, plain, true);
        mscrt_draw_blocks(normal, 0.25, key, from[f] + at + 3, later, false);
        assert_memory_equal(wide, plain, sizeof wide);
        assert_memory_equal(wide + 12, later, sizeof wide - sizeof *wide * 12);
        for (uint64_t b = 0; b < BLOCKS; b++) {
          long double exact[4];
          draw_by_library(normal, key, from[f] + at + b, exact);
          for (int i = 0; i < 4; i++) assert_true(fabsl(wide[4 * b + (uint64_t)i] - 0.25L * exact[i]) <= 4e-16L);
        }
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(foreign_plans_are_refused),       cmocka_unit_test(small_signal_stacks_are_named),
      cmocka_unit_test(several_at_once_may_be_said),     cmocka_unit_test(a_library_may_compute_what_kernels_do),
      cmocka_unit_test(false_plans_are_refused),
      cmocka_unit_test(products_have_room),              cmocka_unit_test(shared_columns_are_whole_tiles),
      cmocka_unit_test(parts_begin_as_the_whole),        cmocka_unit_test(numbers_are_drawn_alike),
      cmocka_unit_test(changed_plans_are_refused_or_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
