/* dump_plan.c: a verified plan.bin in; text for people out: the values, calls and messages of ranks, in order. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/plan/dump_plan.h"
#include "ir/layout/box.h"
#include "plan_fbs.h"

typedef struct {
  plan_plan root;
  msc_write_fn *write;
  void *user;
  int64_t rank; /* -1: none */
} dumping;

static const char *text_or_blank(const char *s) { return s ? s : ""; }

static void write_dump(const dumping *d, const char *fmt, ...) MSC_PRINTF(2, 3);
static void write_dump(const dumping *d, const char *fmt, ...) {
  char line[1024]; /* longer lines are cut */
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  if (n > 0) d->write(d->user, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static const char *const spaces[] = {"persistent", "scratch",    "input",      "constant",
                                     "tile",       "carried_fb", "carried_fw", "carried_bw",
                                     "host",       "disk"};

/* ---- layouts and types ---- */

static void write_digit(const dumping *d, plan_sub_axis s) {
  plan_axis axis = plan_plan_mesh(d->root, s.axis);
  write_dump(d, s.pre == 1 && s.size == plan_axis_size(axis) ? "%s" : "%s:(%u)%u", plan_axis_name(axis), s.pre, s.size);
}

static void write_digits(const dumping *d, plan_layout l, uint32_t from, uint32_t to) {
  write_dump(d, "{");
  for (uint32_t i = from; i < to; i++) {
    if (i > from) write_dump(d, ",");
    write_digit(d, plan_layout_sub(l, i));
  }
  write_dump(d, "}");
}

/* Writes the sizes of the parts of a dimension. The numbers of their borders begin at index `at`; returns the index
 * where those of the next dimension begin. */
static uint64_t write_split(const dumping *d, plan_layout l, uint32_t dim, uint64_t at) {
  uint64_t parts = 1;
  for (uint32_t i = plan_layout_first(l, dim); i < plan_layout_first(l, dim + 1); i++)
    parts *= plan_layout_sub(l, i).size;
  for (uint64_t i = 0; i < parts; i++)
    write_dump(d, "%s%" PRId64, i ? "," : "/(",
               plan_layout_split(l, (uint32_t)(at + i + 1)) - plan_layout_split(l, (uint32_t)(at + i)));
  write_dump(d, ")");
  return at + parts + 1;
}

static void write_layout(const dumping *d, uint32_t index) {
  plan_layout l = plan_plan_layouts(d->root, index);
  uint32_t rank = plan_layout_first_num(l) - 1, end = plan_layout_first(l, rank);
  uint64_t at = 0;
  write_dump(d, "[");
  for (uint32_t i = 0; i < rank; i++) {
    if (i) write_dump(d, ",");
    write_digits(d, l, plan_layout_first(l, i), plan_layout_first(l, i + 1));
    if (plan_layout_split_dims(l) >> i & 1) at = write_split(d, l, i, at);
  }
  write_dump(d, "]");
  if (end == plan_layout_sub_num(l)) return;
  write_dump(d, " partial%s%s=", plan_layout_reduction(l) ? "_" : "",
             plan_layout_reduction(l) ? msc_reduction_name((msc_reduction)plan_layout_reduction(l)) : "");
  write_digits(d, l, end, plan_layout_sub_num(l));
}

static void write_type(const dumping *d, uint8_t dtype, uint32_t rank, const uint64_t *dim) {
  write_dump(d, "%s[", msc_dtype_name((msc_dtype)dtype));
  for (uint32_t i = 0; i < rank; i++) write_dump(d, "%s%" PRIu64, i ? "," : "", dim[i]);
  write_dump(d, "]");
}

static void write_ref(const dumping *d, plan_ref r) {
  write_dump(d, " %s+%" PRIu64 ":%" PRIu64 "%s", spaces[r.space], r.offset, r.bytes, r.written ? "w" : "");
}

/* ---- header ---- */

static void write_header(const dumping *d) {
  write_dump(d, "plan %s\n  version %u, by %s, for %s %s\n  needs", text_or_blank(plan_plan_model(d->root)),
             plan_plan_version(d->root), text_or_blank(plan_plan_compiler(d->root)),
             text_or_blank(plan_plan_target(d->root)), text_or_blank(plan_plan_cpu(d->root)));
  for (uint32_t i = 0; i < plan_plan_features_num(d->root); i++) write_dump(d, " %s", plan_plan_features(d->root, i));
  write_dump(d, "\n  mesh");
  for (uint32_t i = 0; i < plan_plan_mesh_num(d->root); i++)
    write_dump(d, " %s=%u", plan_axis_name(plan_plan_mesh(d->root, i)), plan_axis_size(plan_plan_mesh(d->root, i)));
  write_dump(d, "\n  persistent %" PRIu64 " bytes, input slot %" PRIu64 " bytes, constants %u bytes, code %u bytes\n",
             plan_plan_persistent_bytes(d->root), plan_plan_input_stride(d->root), plan_plan_constants_num(d->root),
             plan_plan_code_num(d->root));
  for (uint32_t i = 0; i < plan_plan_stages_num(d->root); i++) {
    plan_stage s = plan_plan_stages(d->root, i);
    if (plan_stage_host_bytes(s))
      write_dump(d, "  host of stage %u: %" PRIu64 " bytes\n", i, plan_stage_host_bytes(s));
    if (plan_stage_disk_bytes(s))
      write_dump(d, "  disk of stage %u: %" PRIu64 " bytes in %s, by blocks of %" PRIu64 "\n", i,
                 plan_stage_disk_bytes(s), text_or_blank(plan_plan_offload_path(d->root)),
                 plan_plan_offload_block(d->root));
  }
  for (uint32_t i = 0; i < plan_plan_images_num(d->root); i++) {
    plan_image m = plan_plan_images(d->root, i);
    write_dump(d, "  image sm_%u %s %u bytes, by %s%s\n", plan_image_arch(m),
               plan_image_kind(m) == PLAN_IMAGE_KIND_PTX ? "ptx" : "cubin", plan_image_code_num(m),
               text_or_blank(plan_image_made_by(m)), plan_image_early(m) ? ", kernels may begin early" : "");
  }
  if (plan_plan_engines_version(d->root))
    write_dump(d, "  engines of cuDNN %" PRIu64 " for sm_%u\n", plan_plan_engines_version(d->root),
               plan_plan_engines_arch(d->root));
}

/* Writes the keys that were set when the plan was compiled. */
static void write_config(const dumping *d) {
  json_t *all = json_loads(text_or_blank(plan_plan_config(d->root)), 0, NULL), *one;
  const char *key;
  json_object_foreach(all, key, one) {
    const char *from = json_string_value(json_object_get(one, "from"));
    char *value = json_dumps(json_object_get(one, "value"), JSON_ENCODE_ANY | JSON_COMPACT);
    if (from && value && strcmp(from, "default")) write_dump(d, "  set %s=%s (%s)\n", key, value, from);
    free(value);
  }
  json_decref(all);
}

/* ---- one rank ---- */

static msc_box_mesh box_mesh(const dumping *d) {
  msc_box_mesh mesh = {.num_axes = (int)plan_plan_mesh_num(d->root)};
  for (int i = 0; i < mesh.num_axes; i++) mesh.size[i] = plan_axis_size(plan_plan_mesh(d->root, (uint32_t)i));
  return mesh;
}

/* Writes the coordinates of the rank in the mesh. */
static void write_rank_coordinates(const dumping *d) {
  msc_box_mesh mesh = box_mesh(d);
  if (d->rank < 0) return;
  write_dump(d, "  rank %" PRId64 " is at", d->rank);
  for (int i = 0; i < mesh.num_axes; i++)
    write_dump(d, " %s=%" PRId64, plan_axis_name(plan_plan_mesh(d->root, (uint32_t)i)),
               msc_digit_of(&mesh, (msc_digit){(uint32_t)i, 1, (uint32_t)mesh.size[i]}, d->rank));
  write_dump(d, "\n");
}

/* Reads the borders of unequal parts, by dimension. */
static void read_borders(plan_layout l, const msc_box_layout *layout, const int64_t **out_split) {
  uint64_t at = 0;
  for (int i = 0; i < layout->rank; i++) {
    bool has = plan_layout_split_dims(l) >> i & 1;
    out_split[i] = has ? plan_layout_split_data(l) + at : NULL;
    if (has) at += (uint64_t)msc_box_parts(layout, i) + 1;
  }
}

/* Writes the elements that a rank has, " rank 3 [16:32,0:8]"; nothing for a value of another stage. */
static void write_part(const dumping *d, uint32_t index, uint32_t rank, const uint64_t *dim, bool here) {
  if (d->rank < 0) return;
  plan_layout l = plan_plan_layouts(d->root, index);
  msc_box_mesh mesh = box_mesh(d);
  const int64_t *split[MSC_BOX_RANK];
  msc_box_layout layout = {(int)rank, (int)plan_layout_sub_num(l), plan_layout_first_data(l),
                           (const msc_digit *)(const void *)plan_layout_sub_data(l), NULL};
  int64_t shape[MSC_BOX_RANK];
  msc_box box;
  read_borders(l, &layout, split);
  if (plan_layout_split_dims(l)) layout.split = split;
  for (uint32_t i = 0; i < rank; i++) shape[i] = (int64_t)dim[i];
  msc_box_of(&mesh, &layout, shape, d->rank, &box);
  write_dump(d, here ? " rank %" PRId64 " [" : " not of rank %" PRId64, d->rank);
  for (uint32_t i = 0; here && i < rank; i++)
    write_dump(d, "%s%" PRId64 ":%" PRId64, i ? "," : "", box.begin[i], box.begin[i] + box.size[i]);
  if (here) write_dump(d, "]");
}

/* True if the rank belongs to the stage. */
static bool is_in_stage(const dumping *d, uint32_t stage) {
  msc_box_mesh mesh = box_mesh(d);
  uint32_t stages = plan_plan_stages_num(d->root);
  return stages < 2 || d->rank < 0 || d->rank / (msc_box_mesh_size(&mesh) / stages) == stage;
}

static void write_variables(const dumping *d) {
  for (uint32_t i = 0; i < plan_plan_parameters_num(d->root); i++) {
    plan_parameter p = plan_plan_parameters(d->root, i);
    write_dump(d, "%s %s ", plan_parameter_state(p) ? "state" : "parameter", text_or_blank(plan_parameter_name(p)));
    write_type(d, plan_parameter_dtype(p), plan_parameter_shape_num(p), plan_parameter_shape_data(p));
    write_dump(d, " ");
    if (plan_parameter_model_shape_num(p)) write_dump(d, "of the model's ");
    if (plan_parameter_model_shape_num(p))
      write_type(d, plan_parameter_dtype(p), plan_parameter_model_shape_num(p), plan_parameter_model_shape_data(p)),
          write_dump(d, " ");
    write_layout(d, plan_parameter_layout(p));
    write_ref(d, plan_parameter_ref(p));
    write_part(d, plan_parameter_layout(p), plan_parameter_shape_num(p), plan_parameter_shape_data(p),
               is_in_stage(d, plan_parameter_stage(p)));
    write_dump(d, " init %s\n", text_or_blank(plan_parameter_init(p)));
  }
  for (uint32_t i = 0; i < plan_plan_inputs_num(d->root); i++) {
    plan_input p = plan_plan_inputs(d->root, i);
    write_dump(d, "input %s ", text_or_blank(plan_input_name(p)));
    write_type(d, plan_input_dtype(p), plan_input_shape_num(p), plan_input_shape_data(p));
    write_dump(d, " ");
    write_layout(d, plan_input_layout(p));
    write_ref(d, plan_input_ref(p));
    bool here = plan_input_stages_num(p) == 0;
    for (uint32_t k = 0; k < plan_input_stages_num(p); k++) here |= is_in_stage(d, plan_input_stages(p, k));
    if (!plan_input_whole(p))
      write_part(d, plan_input_layout(p), plan_input_shape_num(p), plan_input_shape_data(p), here);
    write_dump(d, "%s\n", plan_input_whole(p) ? " whole" : "");
  }
  for (uint32_t i = 0; i < plan_plan_outputs_num(d->root); i++) {
    plan_output p = plan_plan_outputs(d->root, i);
    write_dump(d, "output %s of %s ", text_or_blank(plan_output_name(p)),
               text_or_blank(plan_program_name(plan_plan_programs(d->root, plan_output_program(p)))));
    write_type(d, plan_output_dtype(p), plan_output_shape_num(p), plan_output_shape_data(p));
    write_ref(d, plan_output_ref(p));
    write_dump(d, "%s\n", plan_output_loss(p) ? " loss" : "");
  }
}

/* ---- calls ---- */

static void write_matmul(const dumping *d, plan_call c) {
  plan_matmul m = plan_plan_matmuls(d->root, plan_call_index(c));
  write_dump(d, "matmul %s %" PRIu64 "x%" PRIu64 "x%" PRIu64, msc_dtype_name((msc_dtype)plan_matmul_dtype(m)),
             plan_matmul_m(m), plan_matmul_n(m), plan_matmul_k(m));
  if (plan_matmul_batch(m) > 1) write_dump(d, " batch %" PRIu64, plan_matmul_batch(m));
  write_dump(d, "%s%s%s%s tile %" PRIu64 "x%" PRIu64, plan_matmul_transpose_a(m) ? " a^T" : "",
             plan_matmul_transpose_b(m) ? " b^T" : "", plan_matmul_bias(m) ? " +bias" : "",
             plan_matmul_relu(m) ? " relu" : "", plan_matmul_tile_m(m), plan_matmul_tile_n(m));
  if (plan_matmul_multiply(m) == UINT32_MAX) write_dump(d, " by the library");
  else if (plan_matmul_blocks(m) > 1) write_dump(d, " in %u blocks", plan_matmul_blocks(m));
  static const char *const library[] = {[PLAN_LIBRARY_USE_MEASURED] = ", or by a library if measured to be faster",
                                        [PLAN_LIBRARY_USE_PREFERRED] = ", by a library where it is installed"};
  if (plan_matmul_library(m)) write_dump(d, "%s", library[plan_matmul_library(m)]);
  if (plan_matmul_pairs(m))
    write_dump(d, plan_matmul_dtype(m) == MSC_F32 ? ", terms in three parts of bf16" : ", terms in pairs");
  if (plan_matmul_b_lies(m)) write_dump(d, ", b not packed");
  uint64_t shared = plan_matmul_shared_columns(m);
  if (shared == plan_matmul_n(m)) write_dump(d, ", b packed for all threads");
  else if (shared) write_dump(d, ", %" PRIu64 " columns of b packed for all threads", shared);
}

/* Writes the graph of a call, "attention bf16[8,12,1024,64] bf16[8,12,1024,64] bf16[8,12,1024,64] causal by the
 * library". */
static void write_graph(const dumping *d, plan_call c) {
  static const char *const kinds[] = {"attention",
                                      "attention_grad",
                                      "dropped_attention",
                                      "dropped_attention_grad",
                                      "masked_attention",
                                      "masked_attention_grad",
                                      "conv",
                                      "conv_data",
                                      "conv_weight",
                                      "biased_conv"};
  plan_graph g = plan_plan_graphs(d->root, plan_call_index(c));
  bool is_attention = plan_graph_kind(g) < PLAN_GRAPH_KIND_CONV;
  write_dump(d, "%s", kinds[plan_graph_kind(g)]);
  for (uint32_t i = 0; i < (is_attention ? 3 : 2); i++) {
    plan_operand o = plan_graph_operands(g, i);
    write_dump(d, " ");
    write_type(d, plan_operand_dtype(o), plan_operand_shape_num(o), plan_operand_shape_data(o));
  }
  if (is_attention) write_dump(d, "%s scale %g", plan_graph_causal(g) ? " causal" : "", plan_graph_scale(g));
  else
    write_dump(d, " step %" PRIu64 "x%" PRIu64 " dilation %" PRIu64 "x%" PRIu64 " padding %" PRIu64 "x%" PRIu64,
               plan_graph_step(g, 0), plan_graph_step(g, 1), plan_graph_dilation(g, 0), plan_graph_dilation(g, 1),
               plan_graph_padding(g, 0), plan_graph_padding(g, 1));
  if (plan_graph_relu(g)) write_dump(d, " relu");
  if (plan_graph_pairs(g)) write_dump(d, " in bf16");
  if (plan_graph_width(g)) write_dump(d, " by kernels, %" PRIu64 " bytes of each worker", plan_graph_bytes(g));
  else
    write_dump(d, "%s by the library, workspace %" PRIu64, plan_graph_deterministic(g) ? "" : " in any order",
               plan_graph_bytes(g));
  if (plan_graph_engine(g)) write_dump(d, ", engine of %zu bytes", strlen(plan_graph_engine(g)));
}

static void write_layout_change(const dumping *d, plan_collective v) {
  write_type(d, plan_collective_dtype(v), plan_collective_shape_num(v), plan_collective_shape_data(v));
  if (plan_collective_from(v) == UINT32_MAX) {
    write_dump(d, " over {");
    for (uint32_t i = 0; i < plan_collective_axes_num(v); i++) {
      if (i) write_dump(d, ",");
      write_digit(d, plan_collective_axes(v, i));
    }
    write_dump(d, "} root %u", plan_collective_root(v));
    return;
  }
  write_dump(d, " ");
  write_layout(d, plan_collective_from(v));
  if (plan_collective_verb(v) == MSC_HALO) {
    write_dump(d, " rows of dimension %u: %" PRIu64 " before, %" PRIu64 " behind every %" PRIu64,
               plan_collective_halo_dim(v), plan_collective_halo_lo(v), plan_collective_halo_hi(v),
               plan_collective_halo_step(v));
    return;
  }
  write_dump(d, " -> ");
  write_layout(d, plan_collective_to(v));
}

static void write_collective(const dumping *d, plan_call c) {
  plan_collective v = plan_plan_collectives(d->root, plan_call_index(c));
  uint32_t num = plan_collective_members_num(v);
  write_dump(d, "%s ", msc_verb_name((msc_verb)plan_collective_verb(v)));
  if (num == 0) write_layout_change(d, v);
  for (uint32_t i = 0; i < num; i++) {
    if (i) write_dump(d, " & ");
    write_layout_change(d, plan_plan_collectives(d->root, plan_collective_members(v, i)));
  }
}

static void write_kernel(const dumping *d, plan_call c) {
  plan_kernel k = plan_plan_kernels(d->root, plan_call_index(c));
  write_dump(d, "kernel %s, %" PRIu64 " items by %" PRIu64, plan_kernel_name(k), plan_call_extent(c),
             plan_call_grain(c));
}

static void write_message(const dumping *d, plan_call c) {
  plan_message m = plan_plan_messages(d->root, plan_call_index(c));
  bool receives = plan_call_buffers(c, 0).written;
  write_dump(d, "%s message %u %s stage %u, %" PRIu64 " bytes", receives ? "receive" : "send", plan_call_index(c),
             receives ? "from" : "to", receives ? plan_message_from(m) : plan_message_to(m), plan_message_bytes(m));
}

static void write_transfer(const dumping *d, plan_call c) {
  bool stows = plan_call_buffers(c, 1).space >= PLAN_SPACE_HOST;
  write_dump(d, "%s %" PRIu64 " bytes %s %s", stows ? "stow" : "fetch", plan_call_bytes(c), stows ? "to" : "from",
             spaces[plan_call_buffers(c, stows).space]);
}

static void write_admit(const dumping *d, plan_call c) {
  plan_cache k = plan_plan_caches(d->root, plan_call_index(c));
  write_dump(d, "admit to %" PRIu64 " rows of %s%s", plan_cache_rows(k),
             text_or_blank(plan_parameter_name(plan_plan_parameters(d->root, plan_cache_parameters(k, 0)))),
             plan_call_dims(c, 0) ? ", updated" : "");
}

static void write_host_kernel(const dumping *d, plan_call c) {
  write_dump(d, "on the host: ");
  write_kernel(d, c);
}

static void write_call(const dumping *d, plan_call c) {
  static void (*const write_kind[])(const dumping *, plan_call) = {write_kernel,  write_matmul,     write_collective,
                                                                   write_message, write_graph,      write_transfer,
                                                                   write_admit,   write_host_kernel};
  write_kind[plan_call_kind(c)](d, c);
  if (plan_call_strips(c))
    write_dump(d, ", %s%u strips", plan_call_goes_on(c) ? "goes on in " : "", plan_call_strips(c));
  if (plan_call_name(c)) write_dump(d, "  (%s)", plan_call_name(c));
  write_dump(d, "\n       ");
  for (uint32_t i = 0; i < plan_call_buffers_num(c); i++) write_ref(d, plan_call_buffers(c, i));
  write_dump(d, "\n");
}

static void write_section(const dumping *d, plan_section s) {
  write_dump(d, "section %s: %u calls, scratch %" PRIu64 " bytes\n", text_or_blank(plan_section_name(s)),
             plan_section_calls_num(s), plan_section_scratch_bytes(s));
  for (uint32_t i = 0; i < plan_section_calls_num(s); i++) {
    plan_call c = plan_section_calls(s, i);
    write_dump(d, "%5u  ", i);
    write_call(d, c);
    while (has_plan_call_epilogue(c)) {
      c = plan_call_epilogue(c);
      write_dump(d, "       then ");
      write_call(d, c);
    }
  }
}

void msc_dump_plan(const void *file, int64_t rank, msc_write_fn *write, void *user) {
  dumping d = {plan_plan_root(file), write, user, rank};
  write_header(&d);
  write_config(&d);
  write_rank_coordinates(&d);
  write_variables(&d);
  for (uint32_t i = 0; i < plan_plan_decisions_num(d.root); i++) {
    plan_decision v = plan_plan_decisions(d.root, i);
    write_dump(&d, "strategy %s: %s (%s)\n", text_or_blank(plan_decision_op(v)), text_or_blank(plan_decision_text(v)),
               text_or_blank(plan_decision_by(v)));
  }
  for (uint32_t i = 0; i < plan_plan_sections_num(d.root); i++) write_section(&d, plan_plan_sections(d.root, i));
}

const char *msc_plan_config_text(const void *file) { return text_or_blank(plan_plan_config(plan_plan_root(file))); }
const char *msc_plan_model_name(const void *file) { return text_or_blank(plan_plan_model(plan_plan_root(file))); }
