/* make_plan.h: makes the bytes of plan.bin from a description, without the compiler. Kernels are C functions in a
 * section of their own, without constants or calls, so that their machine code can be copied. */
#ifndef MSC_TESTS_MAKE_PLAN_H
#define MSC_TESTS_MAKE_PLAN_H

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "ir/fbs/flatbuf_build.h"
#include "plan_fbs.h"
#include "runtime/plan/plan.h"

#define KERNEL                                                                                \
  __attribute__((section("kernels"), noinline, no_sanitize("address", "undefined", "thread"), \
                 optimize("no-tree-vectorize")))
/* not there without KERNELs */
extern const char __start_kernels[] __attribute__((weak)), __stop_kernels[] __attribute__((weak));

enum {
  P = PLAN_SPACE_PERSISTENT,
  S = PLAN_SPACE_SCRATCH,
  I = PLAN_SPACE_INPUT,
  C = PLAN_SPACE_CONSTANT,
  T = PLAN_SPACE_TILE
};
#define IN(space, offset, bytes) {offset, bytes, space, 0, {0}}
#define OUT(space, offset, bytes) {offset, bytes, space, 1, {0}}

typedef struct call_text {
  int kind;
  uint32_t index, num_buffers;
  plan_ref buffers[MSCRT_GRAPH_OPERANDS];
  uint32_t num_dims, num_scalars;
  int64_t dims[4];
  double scalars[4];
  uint64_t extent, grain;
  const struct call_text *epilogue;
  const char *name, *loc;
  bool checks;
  bool has_start; /* dims[0] = begin of dimension 0 of (start_layout, start_shape) */
  uint32_t start_layout;
  uint64_t start_shape;
  uint64_t flops, predicted_ns;
} call_text;

/* fn NULL: on a GPU */
typedef struct { const char *name; mscrt_kernel *fn; uint32_t buffers, dims, scalars, threads; } kernel_text;
typedef struct {
  uint8_t verb, dtype;
  int rank;
  uint64_t shape[4];
  uint32_t from, to;
  uint8_t reduction;
  uint32_t halo_dim;
  uint64_t lo, hi, step;
  uint32_t num_members, members[4];
} collective_text;
typedef struct {
  const char *name;
  uint64_t scratch;
  uint32_t num;
  const call_text *call;
  uint32_t stage, copies;
} section_text;
typedef struct {
  uint64_t persistent, stride[MSCRT_NUM_CARRIED];
  uint32_t slots[MSCRT_NUM_CARRIED];
  uint64_t micro;
} stage_text; /* micro 0: it finds no number */
typedef struct {
  uint32_t from, to;
  uint64_t bytes;
  uint32_t depth;
} message_text;
typedef struct {
  const char *name;
  uint32_t micro, num_stages, num[4];
  plan_entry entry[4][8];
} program_text; /* entries by stage */
typedef struct {
  const char *name;
  uint8_t dtype;
  int rank;
  uint64_t shape[4];
  uint32_t layout;
  plan_ref ref;
  const char *init;
  bool state, loss;
  uint8_t role;
  uint32_t section;
  int batch_dim;
} variable_text;

typedef struct {
  uint32_t num_axes, axes[4];
  uint32_t num_layouts;
  const char *layouts[8]; /* as in layout_put below, with the rank in front: "2:0;1|" */
  uint32_t num_kernels, num_matmuls, num_graphs, num_collectives, num_sections, num_parameters, num_inputs, num_outputs,
      num_stages, num_messages, num_programs;
  kernel_text kernel[8];
  mscrt_matmul matmul[8];
  mscrt_graph graph[2];
  collective_text collective[8];
  section_text section[4];
  stage_text stage[4];
  message_text message[4];
  program_text program[2];
  variable_text parameter[8], input[4], output[4];
  uint64_t persistent, input_stride;
  const char *feature, *target, *ptx, *cubin; /* images of these texts, for sm_80 and for sm_90 */
  bool early;                                 /* the image of ptx: its kernels may begin early */
  uint64_t workspace, engines_version;
  uint32_t engines_arch;
  const void *constants;
  size_t constant_bytes;
  uint32_t version;
} plan_text;

/* "RANK:axes;axes|axes": cuts of each dimension, then partial axes */
static void put_layout(flatbuf_builder *b, const plan_text *t, const char *text) {
  uint8_t first[MSCRT_MAX_RANK + 1] = {0};
  plan_sub_axis sub[8];
  uint32_t num = 0, rank = (uint32_t)(text[0] - '0'), d = 0;
  for (text += 2; *text; text++) {
    if (*text >= '0' && *text <= '9') sub[num++] = (plan_sub_axis){(uint32_t)(*text - '0'), 1, t->axes[*text - '0']};
    if (*text == ';') first[++d] = (uint8_t)num;
    if (*text == '|')
      while (d < rank) first[++d] = (uint8_t)num;
  }
  while (d < rank) first[++d] = (uint8_t)num;
  plan_layout_begin(b);
  plan_layout_put_first(b, rank + 1, first);
  plan_layout_put_sub(b, num, sub);
  flatbuf_end(b);
}

static void put_call_fields(flatbuf_builder *b, const call_text *c);

static void put_call(flatbuf_builder *b, const call_text *c) {
  plan_call_begin(b);
  put_call_fields(b, c);
  flatbuf_end(b);
}

static void put_call_fields(flatbuf_builder *b, const call_text *c) {
  plan_call_put_kind(b, (uint8_t)c->kind);
  plan_call_put_index(b, c->index);
  plan_call_put_buffers(b, c->num_buffers, c->buffers);
  plan_call_put_dims(b, c->num_dims, c->dims);
  plan_call_put_scalars(b, c->num_scalars, c->scalars);
  plan_call_put_extent(b, c->extent ? c->extent : 1);
  plan_call_put_grain(b, c->grain ? c->grain : 1);
  plan_call_put_name(b, c->name);
  plan_call_put_loc(b, c->loc);
  plan_call_put_checks(b, c->checks);
  plan_call_put_flops(b, c->flops);
  plan_call_put_predicted_ns(b, c->predicted_ns);
  if (c->has_start) {
    plan_call_begin_starts(b);
    plan_start_begin(b);
    plan_start_put_layout(b, c->start_layout);
    plan_start_put_shape(b, 1, &c->start_shape);
    flatbuf_end(b);
    flatbuf_end(b);
  }
  if (c->epilogue) {
    plan_call_begin_epilogue(b);
    put_call_fields(b, c->epilogue);
    flatbuf_end(b);
  }
}

static void put_matmul(flatbuf_builder *b, const mscrt_matmul *m) {
  plan_matmul_begin(b);
  plan_matmul_put_dtype(b, (uint8_t)m->dtype);
  plan_matmul_put_batch(b, (uint64_t)m->batch);
  plan_matmul_put_m(b, (uint64_t)m->m);
  plan_matmul_put_n(b, (uint64_t)m->n);
  plan_matmul_put_k(b, (uint64_t)m->k);
  plan_matmul_put_transpose_a(b, m->transpose_a);
  plan_matmul_put_transpose_b(b, m->transpose_b);
  plan_matmul_put_batch_stride_a(b, (uint64_t)m->stride_a);
  plan_matmul_put_batch_stride_b(b, (uint64_t)m->stride_b);
  plan_matmul_put_tile_m(b, (uint64_t)m->tile_m);
  plan_matmul_put_tile_n(b, (uint64_t)m->tile_n);
  plan_matmul_put_tile_bytes(b, m->tile_bytes);
  plan_matmul_put_bias(b, m->bias);
  plan_matmul_put_relu(b, m->relu);
  plan_matmul_put_wide(b, m->wide);
  if (m->width) { /* by kernels of the plan, not the library */
    plan_matmul_put_pack(b, m->pack), plan_matmul_put_multiply(b, m->multiply);
    plan_matmul_put_width(b, (uint32_t)m->width), plan_matmul_put_blocks(b, (uint32_t)m->blocks);
    plan_matmul_put_pairs(b, m->packing), plan_matmul_put_b_lies(b, m->b_lies);
    plan_matmul_put_panel_bytes(b, m->panel_bytes), plan_matmul_put_room_bytes(b, m->room_bytes);
    plan_matmul_put_shared_columns(b, (uint64_t)m->shared_columns);
    plan_matmul_put_library(b, m->library);
  }
  flatbuf_end(b);
}

static void put_collective(flatbuf_builder *b, const collective_text *c) {
  plan_collective_begin(b);
  plan_collective_put_verb(b, c->verb);
  plan_collective_put_dtype(b, c->dtype);
  plan_collective_put_shape(b, (size_t)c->rank, c->shape);
  plan_collective_put_from(b, c->from);
  plan_collective_put_to(b, c->to);
  plan_collective_put_reduction(b, c->reduction);
  plan_collective_put_halo_dim(b, c->halo_dim);
  plan_collective_put_halo_lo(b, c->lo);
  plan_collective_put_halo_hi(b, c->hi);
  plan_collective_put_halo_step(b, c->step);
  if (c->num_members) plan_collective_put_members(b, c->num_members, c->members);
  flatbuf_end(b);
}

static void put_variables(flatbuf_builder *b, const plan_text *t) {
  plan_plan_begin_parameters(b);
  for (uint32_t i = 0; i < t->num_parameters; i++) {
    const variable_text *v = &t->parameter[i];
    plan_parameter_begin(b);
    plan_parameter_put_name(b, v->name);
    plan_parameter_put_dtype(b, v->dtype);
    plan_parameter_put_shape(b, (size_t)v->rank, v->shape);
    plan_parameter_put_layout(b, v->layout);
    plan_parameter_put_ref(b, v->ref);
    plan_parameter_put_init(b, v->init);
    plan_parameter_put_state(b, v->state);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_inputs(b);
  for (uint32_t i = 0; i < t->num_inputs; i++) {
    const variable_text *v = &t->input[i];
    plan_input_begin(b);
    plan_input_put_name(b, v->name);
    plan_input_put_role(b, v->role);
    plan_input_put_dtype(b, v->dtype);
    plan_input_put_shape(b, (size_t)v->rank, v->shape);
    plan_input_put_layout(b, v->layout);
    plan_input_put_ref(b, v->ref);
    plan_input_put_batch_dim(b, v->batch_dim);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_outputs(b);
  for (uint32_t i = 0; i < t->num_outputs; i++) {
    const variable_text *v = &t->output[i];
    plan_output_begin(b);
    plan_output_put_name(b, v->name);
    plan_output_put_program(b, v->section);
    plan_output_put_dtype(b, v->dtype);
    plan_output_put_shape(b, (size_t)v->rank, v->shape);
    plan_output_put_layout(b, v->layout);
    plan_output_put_ref(b, v->ref);
    plan_output_put_loss(b, v->loss);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_code(flatbuf_builder *b, const plan_text *t) {
  size_t code = (size_t)(__stop_kernels - __start_kernels);
  plan_plan_begin_kernels(b);
  for (uint32_t i = 0; i < t->num_kernels; i++) {
    const kernel_text *k = &t->kernel[i];
    const char *entry;
    memcpy(&entry, &k->fn, sizeof entry);
    plan_kernel_begin(b);
    plan_kernel_put_name(b, k->name);
    if (k->fn) plan_kernel_put_entry(b, (uint64_t)(entry - __start_kernels));
    if (k->fn) plan_kernel_put_bytes(b, 1);
    plan_kernel_put_threads(b, k->threads);
    plan_kernel_put_num_buffers(b, k->buffers);
    plan_kernel_put_num_dims(b, k->dims);
    plan_kernel_put_num_scalars(b, k->scalars);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  if (t->ptx) {
    plan_plan_begin_images(b);
    if (t->cubin) {
      plan_image_begin(b);
      plan_image_put_arch(b, 90);
      plan_image_put_kind(b, PLAN_IMAGE_KIND_CUBIN);
      plan_image_put_code(b, strlen(t->cubin), (const uint8_t *)t->cubin);
      flatbuf_end(b);
    }
    plan_image_begin(b);
    plan_image_put_arch(b, 80);
    plan_image_put_code(b, strlen(t->ptx) + 1, (const uint8_t *)t->ptx);
    plan_image_put_early(b, t->early);
    flatbuf_end(b);
    flatbuf_end(b);
  } else if (t->num_kernels) {
    plan_plan_put_code(b, code, (const uint8_t *)__start_kernels);
    plan_plan_put_code_text(b, code);
  }
}

static void put_graph(flatbuf_builder *b, const mscrt_graph *g) {
  plan_graph_begin(b);
  plan_graph_put_kind(b, g->kind);
  plan_graph_begin_operands(b);
  for (uint32_t i = 0; i < g->num_operands; i++) {
    const mscrt_graph_tensor *o = &g->operand[i];
    plan_operand_begin(b);
    plan_operand_put_dtype(b, (uint8_t)o->dtype);
    plan_operand_put_shape(b, 4, (const uint64_t *)o->dim);
    plan_operand_put_stride(b, 4, (const uint64_t *)o->stride);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_graph_put_bytes(b, g->bytes);
  plan_graph_put_deterministic(b, g->deterministic);
  plan_graph_put_causal(b, g->causal);
  plan_graph_put_scale(b, (double)g->scale);
  plan_graph_put_step(b, 2, (const uint64_t *)g->step);
  plan_graph_put_dilation(b, 2, (const uint64_t *)g->dilation);
  plan_graph_put_padding(b, 2, (const uint64_t *)g->padding);
  plan_graph_put_engine(b, g->engine);
  plan_graph_put_relu(b, g->relu);
  plan_graph_put_pack(b, g->pack);
  plan_graph_put_multiply(b, g->multiply);
  plan_graph_put_width(b, g->width);
  plan_graph_put_pairs(b, g->pairs);
  flatbuf_end(b);
}

static void put_lists(flatbuf_builder *b, const plan_text *t) {
  plan_plan_begin_mesh(b);
  for (uint32_t i = 0; i < t->num_axes; i++) {
    plan_axis_begin(b);
    plan_axis_put_name(b, (char[2]){(char)('x' + i), 0});
    plan_axis_put_size(b, t->axes[i]);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_layouts(b);
  for (uint32_t i = 0; i < t->num_layouts; i++) put_layout(b, t, t->layouts[i]);
  flatbuf_end(b);
  plan_plan_begin_matmuls(b);
  for (uint32_t i = 0; i < t->num_matmuls; i++) put_matmul(b, &t->matmul[i]);
  flatbuf_end(b);
  plan_plan_begin_graphs(b);
  for (uint32_t i = 0; i < t->num_graphs; i++) put_graph(b, &t->graph[i]);
  flatbuf_end(b);
  plan_plan_begin_collectives(b);
  for (uint32_t i = 0; i < t->num_collectives; i++) put_collective(b, &t->collective[i]);
  flatbuf_end(b);
  plan_plan_begin_sections(b);
  for (uint32_t i = 0; i < t->num_sections; i++) {
    plan_section_begin(b);
    plan_section_put_name(b, t->section[i].name);
    plan_section_put_scratch_bytes(b, t->section[i].scratch);
    plan_section_put_stage(b, t->section[i].stage);
    plan_section_put_copies(b, t->section[i].copies ? t->section[i].copies : 1);
    plan_section_begin_calls(b);
    for (uint32_t k = 0; k < t->section[i].num; k++) put_call(b, &t->section[i].call[k]);
    flatbuf_end(b);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_program(flatbuf_builder *b, const program_text *g) {
  plan_program_begin(b);
  plan_program_put_name(b, g->name);
  plan_program_put_micro(b, g->micro);
  plan_program_begin_stages(b);
  for (uint32_t i = 0; i < g->num_stages; i++) {
    plan_lane_begin(b);
    plan_lane_put_entries(b, g->num[i], g->entry[i]);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  flatbuf_end(b);
}

static void put_schedule(flatbuf_builder *b, const plan_text *t) {
  plan_plan_begin_stages(b);
  for (uint32_t i = 0; i < t->num_stages; i++) {
    plan_stage_begin(b);
    plan_stage_put_persistent_bytes(b, t->stage[i].persistent);
    plan_stage_put_carried_stride(b, MSCRT_NUM_CARRIED, t->stage[i].stride);
    plan_stage_put_carried_slots(b, MSCRT_NUM_CARRIED, t->stage[i].slots);
    plan_stage_put_micro(b, t->stage[i].micro ? t->stage[i].micro : UINT64_MAX);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_messages(b);
  for (uint32_t i = 0; i < t->num_messages; i++) {
    plan_message_begin(b);
    plan_message_put_from(b, t->message[i].from);
    plan_message_put_to(b, t->message[i].to);
    plan_message_put_bytes(b, t->message[i].bytes);
    plan_message_put_depth(b, t->message[i].depth);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_programs(b);
  for (uint32_t i = 0; i < t->num_programs; i++) put_program(b, &t->program[i]);
  flatbuf_end(b);
}

/* XXH3 of the bytes with the field as zero, into the field. */
static void seal_plan(uint8_t *bytes, size_t size) {
  uint8_t *field = (uint8_t *)(uintptr_t)flatbuf_inline(plan_plan_root(bytes).at, 25);
  uint64_t sum;
  memset(field, 0, 8);
  sum = XXH3_64bits(bytes, size);
  memcpy(field, &sum, 8);
}

/* The caller frees it. */
static uint8_t *make_plan(const plan_text *t, size_t *out_size) {
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  plan_plan_begin(b);
  plan_plan_put_version(b, t->version ? t->version : 1);
  plan_plan_put_compiler(b, "test");
  plan_plan_put_target(b, t->target ? t->target : "cpu");
  plan_plan_put_cpu(b, "test");
  if (t->feature) plan_plan_put_features(b, 1, &t->feature);
  put_lists(b, t);
  put_code(b, t);
  put_variables(b, t);
  if (t->num_stages) put_schedule(b, t);
  if (t->constants) plan_plan_put_constants(b, t->constant_bytes, t->constants);
  plan_plan_put_persistent_bytes(b, t->persistent);
  plan_plan_put_input_stride(b, t->input_stride);
  plan_plan_put_workspace_bytes(b, t->workspace);
  plan_plan_put_engines_version(b, t->engines_version);
  plan_plan_put_engines_arch(b, t->engines_arch);
  plan_plan_put_model(b, "test");
  plan_plan_put_checksum(b, 1);
  flatbuf_end(b);
  void *made = flatbuf_finish(b, out_size);
  if (!made) fail_msg("plan: %s", flatbuf_builder_fault(b));
  uint8_t *bytes = aligned_alloc(64, (*out_size + 63) / 64 * 64);
  memcpy(bytes, made, *out_size);
  seal_plan(bytes, *out_size);
  flatbuf_builder_free(b);
  return bytes;
}

#endif
