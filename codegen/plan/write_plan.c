/* write_plan.c: the records of a plan in; the bytes of plan.bin (schema: plan.fbs) out. */
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/fbs/flatbuf_build.h"

#include "codegen/plan/plan.h"
#include "passes/7_lower/target.h"

enum { PLAN_VERSION = 1 };

static void put_plan_mesh(flatbuf_builder *b, const msc_mesh *mesh) {
  plan_plan_begin_mesh(b);
  for (int i = 0; i < mesh->num_axes; i++) {
    plan_axis_begin(b);
    plan_axis_put_name(b, mesh->axis[i].name);
    plan_axis_put_size(b, (uint32_t)mesh->axis[i].size);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_layout_splits(flatbuf_builder *b, const msc_plan *p, const msc_layout *l) {
  uint8_t dims = 0;
  size_t num = 0;
  for (int d = 0; d < l->rank; d++) num += l->split[d] ? (size_t)msc_layout_parts(l, d) + 1 : 0;
  int64_t *all = msc_new_array(p->arena, int64_t, num);
  num = 0;
  for (int d = 0; d < l->rank; d++) {
    if (!l->split[d]) continue;
    size_t own = (size_t)msc_layout_parts(l, d) + 1;
    memcpy(all + num, l->split[d], own * sizeof *all);
    num += own;
    dims |= (uint8_t)(1u << d);
  }
  if (!dims) return;
  plan_layout_put_split_dims(b, dims);
  plan_layout_put_split(b, num, all);
}

static void put_plan_layouts(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_layouts(b);
  for (size_t i = 0; i < p->num_layouts; i++) {
    const msc_layout *l = p->layout[i];
    plan_sub_axis sub[MSC_MAX_SUBAXES];
    size_t num = (size_t)l->first[l->rank] + l->num_partial;
    for (size_t k = 0; k < num; k++) sub[k] = (plan_sub_axis){l->sub[k].axis, l->sub[k].pre, l->sub[k].size};
    plan_layout_begin(b);
    plan_layout_put_first(b, (size_t)l->rank + 1, l->first);
    if (num) plan_layout_put_sub(b, num, sub);
    plan_layout_put_reduction(b, l->reduction);
    put_layout_splits(b, p, l);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_kernels(flatbuf_builder *b, const msc_machine_code *code) {
  plan_plan_begin_kernels(b);
  for (size_t i = 0; i < code->num_kernels; i++) {
    const msc_kernel *k = &code->kernel[i];
    plan_kernel_begin(b);
    plan_kernel_put_name(b, k->name);
    plan_kernel_put_entry(b, k->entry);
    plan_kernel_put_bytes(b, k->bytes);
    plan_kernel_put_num_buffers(b, k->num_buffers);
    plan_kernel_put_num_dims(b, k->num_dims);
    plan_kernel_put_num_scalars(b, k->num_scalars);
    plan_kernel_put_builtin(b, (uint8_t)k->builtin);
    plan_kernel_put_threads(b, k->threads);
    plan_kernel_put_narrow_scalars(b, k->narrow_scalars);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_put_code(b, code->num_bytes, code->bytes);
  plan_plan_put_code_text(b, code->text_bytes);
  plan_plan_put_cpu(b, code->cpu);
  plan_plan_put_features(b, code->num_features, code->feature);
}

static void put_images(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_images(b);
  for (size_t i = 0; i < p->code.num_images; i++) {
    const msc_image *image = &p->code.image[i];
    plan_image_begin(b);
    plan_image_put_arch(b, (uint32_t)image->arch);
    plan_image_put_kind(b, image->is_cubin ? PLAN_IMAGE_KIND_CUBIN : PLAN_IMAGE_KIND_PTX);
    plan_image_put_code(b, image->num_bytes, (const uint8_t *)image->bytes);
    plan_image_put_made_by(b, image->made_by);
    plan_image_put_early(b, image->waits && p->early_launch);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_matmuls(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_matmuls(b);
  for (size_t i = 0; i < p->num_matmuls; i++) {
    const msc_plan_matmul *m = &p->matmul[i];
    plan_matmul_begin(b);
    plan_matmul_put_dtype(b, (uint8_t)m->dtype);
    plan_matmul_put_batch(b, m->batch);
    plan_matmul_put_m(b, m->m);
    plan_matmul_put_n(b, m->n);
    plan_matmul_put_k(b, m->k);
    plan_matmul_put_transpose_a(b, m->transpose_a);
    plan_matmul_put_transpose_b(b, m->transpose_b);
    plan_matmul_put_batch_stride_a(b, m->stride_a);
    plan_matmul_put_batch_stride_b(b, m->stride_b);
    plan_matmul_put_tile_m(b, m->tile_m);
    plan_matmul_put_tile_n(b, m->tile_n);
    plan_matmul_put_tile_bytes(b, m->tile_bytes);
    plan_matmul_put_bias(b, m->bias);
    plan_matmul_put_relu(b, m->relu);
    plan_matmul_put_wide(b, m->wide);
    plan_matmul_put_gelu(b, m->gelu);
    plan_matmul_put_slope(b, m->slope);
    plan_matmul_put_add(b, m->add);
    plan_matmul_put_after_first(b, m->after_first);
    plan_matmul_put_aux(b, m->aux);
    plan_matmul_put_sum_a(b, m->sum_a);
    plan_matmul_put_sum_b(b, m->sum_b);
    if (m->generated) {
      plan_matmul_put_pack(b, m->pack);
      plan_matmul_put_multiply(b, m->multiply);
      plan_matmul_put_width(b, m->width);
      plan_matmul_put_blocks(b, m->blocks);
      plan_matmul_put_panel_bytes(b, m->panel_bytes);
      plan_matmul_put_room_bytes(b, m->room_bytes);
      plan_matmul_put_shared_columns(b, m->shared_columns);
      plan_matmul_put_pairs(b, m->pairs);
      plan_matmul_put_b_lies(b, m->b_lies);
      plan_matmul_put_library(b, m->library);
    }
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_graphs(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_graphs(b);
  for (size_t i = 0; i < p->num_graphs; i++) {
    const msc_plan_graph *g = &p->graph[i];
    plan_graph_begin(b);
    plan_graph_put_kind(b, g->kind);
    plan_graph_begin_operands(b);
    for (size_t k = 0; k < g->num_operands; k++) {
      plan_operand_begin(b);
      plan_operand_put_dtype(b, (uint8_t)g->operand[k].dtype);
      plan_operand_put_shape(b, 4, g->operand[k].shape);
      plan_operand_put_stride(b, 4, g->operand[k].stride);
      flatbuf_end(b);
    }
    flatbuf_end(b);
    plan_graph_put_bytes(b, g->bytes);
    plan_graph_put_deterministic(b, g->deterministic);
    plan_graph_put_causal(b, g->causal);
    plan_graph_put_scale(b, g->scale);
    if (g->kind >= PLAN_GRAPH_KIND_CONV) {
      plan_graph_put_step(b, 2, g->step);
      plan_graph_put_dilation(b, 2, g->dilation);
      plan_graph_put_padding(b, 2, g->padding);
      plan_graph_put_relu(b, g->relu);
    }
    if (p->engine) plan_graph_put_engine(b, p->engine[i]);
    if (g->on_cpu) {
      plan_graph_put_pack(b, g->pack);
      plan_graph_put_multiply(b, g->multiply);
      plan_graph_put_width(b, g->width);
      plan_graph_put_pairs(b, g->pairs);
    }
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_collectives(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_collectives(b);
  for (size_t i = 0; i < p->num_collectives; i++) {
    const msc_plan_collective *c = &p->collective[i];
    plan_collective_begin(b);
    plan_collective_put_verb(b, c->verb);
    plan_collective_put_dtype(b, (uint8_t)c->dtype);
    if (c->rank) plan_collective_put_shape(b, (size_t)c->rank, c->shape);
    plan_collective_put_from(b, c->from);
    plan_collective_put_to(b, c->to);
    plan_collective_put_reduction(b, (uint8_t)c->reduction);
    if (c->num_axes) plan_collective_put_axes(b, c->num_axes, c->axis);
    plan_collective_put_root(b, c->root);
    if (c->num_pairs) plan_collective_put_pairs(b, c->num_pairs, c->pair);
    plan_collective_put_halo_dim(b, c->halo_dim);
    plan_collective_put_halo_lo(b, c->halo_lo);
    plan_collective_put_halo_hi(b, c->halo_hi);
    plan_collective_put_halo_step(b, c->halo_step);
    if (c->num_members) plan_collective_put_members(b, c->num_members, c->member);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* ---- calls ---- */

static const char *loc_text(const msc_plan *p, const msc_op *op) {
  const msc_loc *l = op->loc;
  if (!l || !l->file) return NULL;
  if (!l->line) return l->scope; /* the model has no line of the user's for it */
  return l->scope ? msc_arena_printf(p->arena, "%s:%u in %s", l->file, l->line, l->scope)
                  : msc_arena_printf(p->arena, "%s:%u", l->file, l->line);
}

static void put_starts(flatbuf_builder *b, const msc_plan *p, const msc_func *f, const msc_launch *l) {
  const msc_attr_value *starts = msc_func_attr(f, MSC_FACT(starts));
  plan_call_begin_starts(b);
  for (size_t i = 0; i < l->num_starts; i++) {
    const msc_attr_value *d = &starts->list.v[l->start[i].number];
    const msc_attr_value *shape = msc_find_attr(d->dict.a, d->dict.num, MSC_FACT(shape));
    const msc_layout *layout = msc_attr_layout(msc_find_attr(d->dict.a, d->dict.num, MSC_FACT(layout)));
    uint64_t dim[MSC_MAX_RANK];
    for (size_t k = 0; k < shape->list.num; k++) dim[k] = (uint64_t)shape->list.v[k].i;
    if (!layout) continue;
    plan_start_begin(b);
    plan_start_put_index(b, l->start[i].index);
    plan_start_put_layout(b, msc_plan_layout((msc_plan *)p, layout));
    plan_start_put_dim(b, (uint32_t)msc_find_attr(d->dict.a, d->dict.num, MSC_FACT(dim))->i);
    plan_start_put_shape(b, shape->list.num, dim);
    plan_start_put_behind(b, msc_find_attr(d->dict.a, d->dict.num, MSC_FACT(behind)) != NULL);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_call_fields(flatbuf_builder *b, const msc_plan *p, const msc_func *f, const msc_plan_call *c) {
  plan_call_put_kind(b, c->kind);
  plan_call_put_index(b, c->index);
  plan_call_put_buffers(b, c->num_buffers, c->buffer);
  if (c->launch) {
    if (c->launch->num_dims) plan_call_put_dims(b, c->launch->num_dims, c->launch->dims);
    if (c->launch->num_scalars) plan_call_put_scalars(b, c->launch->num_scalars, c->launch->scalars);
    plan_call_put_extent(b, c->launch->extent);
    plan_call_put_grain(b, c->launch->grain);
    if (c->launch->num_starts) put_starts(b, p, f, c->launch);
  }
  plan_call_put_name(b, msc_op_title(c->op));
  plan_call_put_loc(b, loc_text(p, c->op));
  plan_call_put_bytes(b, c->bytes);
  plan_call_put_flops(b, c->flops);
  plan_call_put_checks(b, c->checks);
  plan_call_put_predicted_ns(b, c->predicted_ns);
  plan_call_put_dtype(b, (uint8_t)c->dtype);
  plan_call_put_is_product(b, c->is_product);
  if (c->served) plan_call_put_served(b, c->served);
  if (c->strips) plan_call_put_strips(b, c->strips);
  if (c->goes_on) plan_call_put_goes_on(b, c->goes_on);
  if (!c->epilogue) return;
  plan_call_begin_epilogue(b);
  put_call_fields(b, p, f, c->epilogue);
  flatbuf_end(b);
}

static void put_sections(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_sections(b);
  for (size_t i = 0; i < p->num_sections; i++) {
    const msc_plan_section *s = &p->section[i];
    plan_section_begin(b);
    plan_section_put_name(b, s->name);
    plan_section_put_scratch_bytes(b, s->scratch_bytes);
    plan_section_put_stage(b, s->stage);
    plan_section_put_inputs(b, s->inputs);
    plan_section_put_copies(b, s->copies);
    plan_section_begin_calls(b);
    for (size_t k = 0; k < s->num_calls; k++) {
      plan_call_begin(b);
      put_call_fields(b, p, s->func, &s->call[k]);
      flatbuf_end(b);
    }
    flatbuf_end(b);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* ---- schedule ---- */

/* Writes the schedule of a program that is one function. */
static void put_only_section(flatbuf_builder *b, const msc_plan *p, uint32_t program) {
  plan_entry e = {0};
  while (e.section < p->num_sections && strcmp(p->section[e.section].name, p->program[program].name)) e.section++;
  plan_lane_put_entries(b, 1, &e);
}

static void put_programs(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_programs(b);
  for (uint32_t i = 0; i < p->num_programs; i++) {
    const msc_plan_program *g = &p->program[i];
    plan_program_begin(b);
    plan_program_put_name(b, g->name);
    plan_program_put_micro(b, g->micro);
    plan_program_begin_stages(b);
    for (uint32_t k = 0; k < p->num_stages; k++) {
      plan_lane_begin(b);
      if (g->entry) plan_lane_put_entries(b, g->num_entries[k], g->entry[k]);
      else put_only_section(b, p, i);
      flatbuf_end(b);
    }
    flatbuf_end(b);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_stages(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_stages(b);
  for (uint32_t i = 0; i < p->num_stages; i++) {
    const msc_plan_stage *s = &p->stage[i];
    plan_stage_begin(b);
    plan_stage_put_persistent_bytes(b, s->persistent_bytes);
    plan_stage_put_carried_stride(b, MSC_NUM_SLOTS, s->carried_stride);
    plan_stage_put_carried_slots(b, MSC_NUM_SLOTS, s->carried_slots);
    plan_stage_put_micro(b, (int64_t)s->micro);
    if (s->home_bytes[MSC_HOME_CPU]) plan_stage_put_host_bytes(b, s->home_bytes[MSC_HOME_CPU]);
    if (s->home_bytes[MSC_HOME_DISK]) plan_stage_put_disk_bytes(b, s->home_bytes[MSC_HOME_DISK]);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_messages(b);
  for (uint32_t i = 0; i < p->num_messages; i++) {
    plan_message_begin(b);
    plan_message_put_from(b, p->message[i].from);
    plan_message_put_to(b, p->message[i].to);
    plan_message_put_bytes(b, p->message[i].bytes);
    plan_message_put_depth(b, p->message[i].depth);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

/* ---- variables ---- */

static const char *arg_text(const msc_plan_variable *v, const char *name) {
  const msc_attr_value *a = msc_arg_attr(v->func, v->arg, name);
  return a && a->kind == MSC_ATTR_STR ? a->s : NULL;
}

static int64_t arg_int(const msc_plan_variable *v, const char *name, int64_t otherwise) {
  const msc_attr_value *a = msc_arg_attr(v->func, v->arg, name);
  if (!a) return otherwise;
  return a->kind == MSC_ATTR_BOOL ? a->b : a->kind == MSC_ATTR_INT ? a->i : otherwise;
}

static size_t copy_shape(const msc_type *t, uint64_t *out_dim) {
  for (int d = 0; d < t->rank; d++) out_dim[d] = (uint64_t)t->dim[d];
  return (size_t)t->rank;
}

/* True if v is a list of sizes whose product is the number of elements of t. */
static bool is_shape_of(const msc_attr_value *v, const msc_type *t) {
  int64_t elems = 1;
  if (!v || v->kind != MSC_ATTR_LIST || v->list.num > MSC_MAX_RANK) return false;
  for (size_t i = 0; i < v->list.num; i++)
    if (v->list.v[i].kind != MSC_ATTR_INT || v->list.v[i].i < 0 ||
        __builtin_mul_overflow(elems, v->list.v[i].i, &elems))
      return false;
  return elems == msc_type_elems(t);
}

/* Returns the shape that the model gives a parameter; NULL: the global shape. */
static const msc_attr_value *model_shape(const msc_plan_variable *v) {
  const msc_attr_value *own = msc_arg_attr(v->func, v->arg, MSC_FACT(msc_model_shape));
  return is_shape_of(own, v->global) ? own : NULL;
}

static const msc_attr_value *required_member(const msc_attr_value *dict, const char *name) {
  return msc_find_attr(dict->dict.a, dict->dict.num, name);
}

/* The files that parameters take their values from. */
typedef struct {
  uint32_t num, *file;          /* number of files; file[i]: the file of parameter i, UINT32_MAX: none */
  const msc_attr_value **first; /* for each file the weights of a parameter from it */
} weight_files;

static weight_files list_weight_files(const msc_plan *p) {
  weight_files w = {.file = msc_new_array(p->arena, uint32_t, p->num_parameters + 1),
                    .first = msc_new_array(p->arena, const msc_attr_value *, p->num_parameters + 1)};
  for (size_t i = 0; i < p->num_parameters; i++) {
    const msc_attr_value *own = msc_arg_attr(p->parameter[i].func, p->parameter[i].arg, MSC_FACT(msc_weights));
    uint32_t k = 0;
    while (own && k < w.num && strcmp(required_member(w.first[k], "file")->s, required_member(own, "file")->s)) k++;
    w.file[i] = own ? k : UINT32_MAX;
    if (own && k == w.num) w.first[w.num++] = own;
  }
  return w;
}

static void put_weight_file_table(flatbuf_builder *b, const msc_plan *p, const weight_files *w) {
  if (w->num) plan_plan_begin_weight_files(b);
  for (uint32_t i = 0; i < w->num; i++) {
    const msc_attr_value *bytes = required_member(w->first[i], "bytes"), *xxh3 = required_member(w->first[i], "xxh3");
    plan_weight_file_begin(b);
    plan_weight_file_put_path(b, required_member(w->first[i], "file")->s);
    if (bytes) plan_weight_file_put_bytes(b, (uint64_t)bytes->i);
    if (xxh3) plan_weight_file_put_xxh3(b, (uint64_t)xxh3->i);
    flatbuf_end(b);
  }
  if (w->num) flatbuf_end(b);
  if (w->num && p->model_folder) plan_plan_put_model_folder(b, p->model_folder);
}

static void put_plan_parameters(flatbuf_builder *b, const msc_plan *p, const weight_files *w) {
  uint64_t dim[MSC_MAX_RANK];
  plan_plan_begin_parameters(b);
  for (size_t i = 0; i < p->num_parameters; i++) {
    const msc_plan_variable *v = &p->parameter[i];
    size_t rank = copy_shape(v->global, dim);
    const char *init = arg_text(v, MSC_FACT(msc_init));
    plan_parameter_begin(b);
    plan_parameter_put_name(b, v->name);
    plan_parameter_put_dtype(b, (uint8_t)v->global->dtype);
    plan_parameter_put_shape(b, rank, dim);
    plan_parameter_put_layout(b, msc_plan_layout((msc_plan *)p, v->global->layout));
    plan_parameter_put_ref(b, v->ref);
    plan_parameter_put_init(b, init ? init : "zeros");
    plan_parameter_put_state(b, msc_arg_role(v->func, v->arg) == MSC_ROLE_STATE);
    plan_parameter_put_trainable(b, arg_int(v, MSC_FACT(msc_trainable), 1));
    plan_parameter_put_owner(b, arg_text(v, MSC_FACT(msc_owner)));
    plan_parameter_put_stage(b, v->stage);
    plan_parameter_put_copy(b, v->copy);
    if (w->file[i] != UINT32_MAX) {
      plan_parameter_put_weights(b, w->file[i]);
      plan_parameter_put_tensor(b, required_member(msc_arg_attr(v->func, v->arg, MSC_FACT(msc_weights)), "tensor")->s);
    }
    const msc_attr_value *model = model_shape(v);
    for (size_t d = 0; model && d < model->list.num; d++) dim[d] = (uint64_t)model->list.v[d].i;
    if (model) plan_parameter_put_model_shape(b, model->list.num, dim);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_plan_inputs(flatbuf_builder *b, const msc_plan *p) {
  uint64_t dim[MSC_MAX_RANK];
  plan_plan_begin_inputs(b);
  for (size_t i = 0; i < p->num_inputs; i++) {
    const msc_plan_variable *v = &p->input[i];
    msc_role role = msc_arg_role(v->func, v->arg);
    size_t rank = copy_shape(v->global, dim);
    plan_input_begin(b);
    plan_input_put_name(b, v->name);
    plan_input_put_role(b, role == MSC_NUM_ROLES ? MSC_ROLE_DATA : (uint8_t)role);
    plan_input_put_dtype(b, (uint8_t)v->global->dtype);
    plan_input_put_shape(b, rank, dim);
    plan_input_put_layout(b, msc_plan_layout((msc_plan *)p, v->global->layout));
    plan_input_put_ref(b, v->ref);
    plan_input_put_batch_dim(b, (int32_t)arg_int(v, MSC_FACT(msc_batch_dim), rank ? 0 : -1));
    plan_input_put_whole(b, arg_int(v, MSC_FACT(msc_whole), 0));
    if (p->num_stages > 1) plan_input_put_stages(b, v->num_readers, v->reader);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_plan_outputs(flatbuf_builder *b, const msc_plan *p) {
  uint64_t dim[MSC_MAX_RANK];
  plan_plan_begin_outputs(b);
  for (size_t i = 0; i < p->num_outputs; i++) {
    const msc_plan_output *o = &p->output[i];
    size_t rank = copy_shape(o->global, dim);
    plan_output_begin(b);
    plan_output_put_name(b, o->name);
    plan_output_put_program(b, o->program);
    plan_output_put_dtype(b, (uint8_t)o->global->dtype);
    plan_output_put_shape(b, rank, dim);
    plan_output_put_layout(b, msc_plan_layout((msc_plan *)p, o->global->layout));
    plan_output_put_ref(b, o->ref);
    plan_output_put_loss(b, o->loss);
    plan_output_put_stage(b, o->stage);
    plan_output_put_batch_dim(b, o->batch_dim);
    plan_output_put_labels(b, o->labels);
    plan_output_put_adds_up(b, o->adds_up);
    plan_output_put_divisor(b, o->divisor);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_group(flatbuf_builder *b, const msc_plan_transfer *t) {
  plan_sub_axis sub[MSC_MAX_SUBAXES];
  for (int i = 0; i < t->num_digits; i++) sub[i] = (plan_sub_axis){t->digit[i].axis, t->digit[i].pre, t->digit[i].size};
  if (t->num_digits) plan_transfer_put_group(b, (size_t)t->num_digits, sub);
}

static void put_notes(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_decisions(b);
  for (size_t i = 0; i < p->num_decisions; i++) {
    plan_decision_begin(b);
    plan_decision_put_op(b, p->decision[i].op);
    plan_decision_put_text(b, p->decision[i].text);
    plan_decision_put_by(b, p->decision[i].by);
    flatbuf_end(b);
  }
  flatbuf_end(b);
  plan_plan_begin_transfers(b);
  for (size_t i = 0; i < p->num_transfers; i++) {
    const msc_plan_transfer *t = &p->transfer[i];
    plan_transfer_begin(b);
    plan_transfer_put_section(b, t->section);
    plan_transfer_put_call(b, t->call);
    plan_transfer_put_verb(b, t->verb);
    plan_transfer_put_axes(b, t->axes);
    plan_transfer_put_from(b, t->from ? msc_layout_print(p->arena, &p->module->mesh, t->from) : "");
    plan_transfer_put_to(b, t->to ? msc_layout_print(p->arena, &p->module->mesh, t->to) : "");
    plan_transfer_put_bytes(b, t->bytes);
    plan_transfer_put_value(b, t->value);
    put_group(b, t);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_smaller(flatbuf_builder *b, const msc_plan *p) {
  if (!p->num_smaller) return;
  plan_plan_begin_smaller(b);
  for (size_t i = 0; i < p->num_smaller; i++) {
    plan_smaller_begin(b);
    plan_smaller_put_plan(b, p->smaller[i].num_bytes, p->smaller[i].bytes);
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_caches(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin_caches(b);
  for (size_t i = 0; i < p->num_caches; i++) {
    const msc_plan_cache *k = &p->cache[i];
    plan_cache_begin(b);
    plan_cache_put_parameters(b, k->num, k->parameter);
    plan_cache_put_at(b, k->num, k->at);
    plan_cache_put_index(b, k->index);
    plan_cache_put_rows(b, k->rows);
    plan_cache_put_numbers(b, k->numbers);
    plan_cache_put_columns(b, k->columns);
    if (k->pool.bytes) {
      plan_cache_put_pool(b, k->pool);
      plan_cache_put_swaps(b, k->swaps);
      plan_cache_put_kernels(b, k->num, k->kernel);
    }
    flatbuf_end(b);
  }
  flatbuf_end(b);
}

static void put_plan(flatbuf_builder *b, const msc_plan *p) {
  plan_plan_begin(b);
  plan_plan_put_version(b, PLAN_VERSION);
  plan_plan_put_compiler(b, "msc 0.1");
  plan_plan_put_target(b, msc_target_of(p->module)->name);
  put_plan_mesh(b, &p->module->mesh);
  put_plan_layouts(b, p);
  put_kernels(b, &p->code);
  put_images(b, p);
  if (p->workspace_bytes) plan_plan_put_workspace_bytes(b, p->workspace_bytes);
  if (p->memory_bytes) plan_plan_put_memory_bytes(b, p->memory_bytes);
  if (p->offload_path) plan_plan_put_offload_path(b, p->offload_path);
  if (p->served) plan_plan_put_served(b, true);
  if (p->served && p->asynchronous) {
    plan_plan_put_asynchronous(b, true);
    plan_plan_put_staleness(b, p->staleness);
  }
  if (p->served && p->copies > 1) plan_plan_put_copies(b, (uint8_t)p->copies);
  put_smaller(b, p);
  if (p->offload_path) plan_plan_put_offload_block(b, p->offload_block);
  put_matmuls(b, p);
  if (p->num_graphs) put_graphs(b, p);
  if (p->engine) {
    plan_plan_put_engines_version(b, p->engines_version);
    plan_plan_put_engines_arch(b, (uint32_t)p->engines_arch);
  }
  put_collectives(b, p);
  if (p->constant_bytes) plan_plan_put_constants(b, p->constant_bytes, p->constants);
  put_sections(b, p);
  put_programs(b, p);
  put_stages(b, p);
  weight_files weights = list_weight_files(p);
  put_weight_file_table(b, p, &weights);
  put_plan_parameters(b, p, &weights);
  if (p->num_caches) put_caches(b, p);
  put_plan_inputs(b, p);
  put_plan_outputs(b, p);
  plan_plan_put_persistent_bytes(b, p->persistent_bytes);
  plan_plan_put_input_stride(b, p->input_stride);
  plan_plan_put_input_slots(b, p->input_slots);
  plan_plan_put_config(b, p->config);
  put_notes(b, p);
  plan_plan_put_model(b, p->model);
  plan_plan_put_model_hash(b, p->model_hash);
  plan_plan_put_predicted_step_ns(b, p->predicted_step_ns);
  plan_plan_put_exposed_comm_ns(b, p->exposed_comm_ns);
  plan_plan_put_checksum(b, UINT64_MAX); /* room for the checksum, which is filled in below */
  if (p->searched) plan_plan_put_searched(b, p->searched_packed, p->searched);
  plan_plan_put_searched_bytes(b, p->searched_bytes);
  plan_plan_put_cluster(b, p->cluster ? p->cluster : "");
  flatbuf_end(b);
}

/* Writes the checksum of the file, computed while its eight bytes are zero. */
static void seal(unsigned char *file, size_t bytes) {
  enum { CHECKSUM = 25 }; /* its id in plan.fbs */
  unsigned char *at = (unsigned char *)flatbuf_inline(plan_plan_root(file).at, CHECKSUM);
  memset(at, 0, 8);
  uint64_t sum = XXH3_64bits(file, bytes);
  memcpy(at, &sum, 8);
}

const void *msc_plan_bytes(const msc_plan *p, size_t *out_bytes) {
  flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
  const void *result = NULL;
  if (b) put_plan(b, p);
  void *data = b ? flatbuf_finish(b, out_bytes) : NULL;
  if (data) {
    unsigned char *copy = msc_arena_copy(p->arena, data, *out_bytes);
    seal(copy, *out_bytes);
    result = copy;
  } else if (b && flatbuf_builder_status(b) == FLATBUF_TOO_BIG) {
    msc_error(p->ctx, MSC_E_UNSUPPORTED, NULL,
              "the plan could not be written: a plan file has less than 2 GiB, and its constants alone have %" PRIu64
              " bytes; large constants are better made parameters",
              p->constant_bytes);
  } else {
    msc_error(p->ctx, MSC_E_INTERNAL, NULL, "the plan could not be written: %s",
              b ? flatbuf_builder_fault(b) : "out of memory");
  }
  flatbuf_builder_free(b);
  return result;
}
