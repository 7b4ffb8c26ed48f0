/* plan.c: answers queries about a verified plan. */
#include <string.h>

#include "runtime/kernels/builtin.h"
#include "runtime/plan/plan.h"

int mscrt_plan_ranks(const mscrt_plan *p) { return p->ranks; }
const char *mscrt_plan_model(const mscrt_plan *p) { return plan_plan_model(p->root) ? plan_plan_model(p->root) : ""; }

const char *mscrt_plan_config(const mscrt_plan *p) {
  return plan_plan_config(p->root) ? plan_plan_config(p->root) : "{}";
}

const char *mscrt_plan_weights(const mscrt_plan *p) {
  if (!plan_plan_weight_files_num(p->root)) return NULL;
  return plan_plan_model_folder(p->root) ? plan_plan_model_folder(p->root) : "";
}

bool mscrt_plan_is_served(const mscrt_plan *p) { return plan_plan_served(p->root); }
int mscrt_plan_server_copies(const mscrt_plan *p) { return plan_plan_copies(p->root); }

size_t mscrt_plan_num_smaller(const mscrt_plan *p) { return plan_plan_smaller_num(p->root); }

const void *mscrt_plan_smaller(const mscrt_plan *p, size_t i, size_t *out_bytes) {
  plan_smaller s = plan_plan_smaller(p->root, (uint32_t)i);
  *out_bytes = plan_smaller_plan_num(s);
  return plan_smaller_plan_data(s);
}

int64_t mscrt_plan_predicted_ns(const mscrt_plan *p, int64_t *out_exposed_ns) {
  *out_exposed_ns = (int64_t)plan_plan_exposed_comm_ns(p->root);
  return (int64_t)plan_plan_predicted_step_ns(p->root);
}

const char *mscrt_program_name(const mscrt_plan *p, uint32_t program) {
  return p->only ? plan_section_name(plan_plan_sections(p->root, program))
                 : plan_program_name(plan_plan_programs(p->root, program));
}

uint32_t mscrt_program_micro(const mscrt_plan *p, uint32_t program) {
  return p->only ? 1 : plan_program_micro(plan_plan_programs(p->root, program));
}

const plan_entry *mscrt_program_lane(const mscrt_plan *p, uint32_t program, uint32_t stage, uint32_t *out_num) {
  if (p->only) {
    *out_num = 1;
    return &p->only[program];
  }
  plan_lane lane = plan_program_stages(plan_plan_programs(p->root, program), stage);
  *out_num = plan_lane_entries_num(lane);
  return plan_lane_entries_data(lane);
}

bool mscrt_find_program(const mscrt_plan *p, const char *name, uint32_t *out_program) {
  for (uint32_t i = 0; i < p->num_programs; i++)
    if (!strcmp(mscrt_program_name(p, i), name)) {
      *out_program = i;
      return true;
    }
  return false;
}

int64_t mscrt_train_micro(const mscrt_plan *p) {
  uint32_t train;
  return mscrt_find_program(p, "train", &train) ? mscrt_program_micro(p, train) : 1;
}

uint32_t mscrt_plan_micro(const mscrt_plan *p, const char *section) {
  uint32_t index;
  return mscrt_find_program(p, section, &index) ? mscrt_program_micro(p, index) : 0;
}

bool mscrt_plan_has(const mscrt_plan *p, const char *program) {
  uint32_t index;
  return mscrt_find_program(p, program, &index);
}

bool mscrt_stage_reads(const mscrt_plan *p, uint32_t stage, uint32_t input) {
  plan_input t = plan_plan_inputs(p->root, input);
  uint32_t num = plan_input_stages_num(t);
  for (uint32_t i = 0; i < num; i++)
    if (plan_input_stages(t, i) == stage) return true;
  return num == 0;
}

static void describe_variable(const mscrt_variable *v, mscrt_tensor *out) {
  *out = (mscrt_tensor){.name = v->name, .dtype = v->dtype, .rank = v->rank};
  memcpy(out->shape, v->shape, sizeof out->shape);
  memcpy(out->size, v->shape, sizeof out->size);
}

size_t mscrt_plan_num_inputs(const mscrt_plan *p) { return p->num_inputs; }
size_t mscrt_plan_num_parameters(const mscrt_plan *p) { return p->num_parameters; }
size_t mscrt_plan_num_outputs(const mscrt_plan *p) { return p->num_outputs; }

bool mscrt_is_scalar(const mscrt_variable *v) {
  return v->state && !v->owned && v->rank == 0 && mscrt_is_float(v->dtype);
}

static bool is_named_scalar(const mscrt_variable *v) { return mscrt_is_scalar(v) && !v->copy; }

size_t mscrt_plan_num_scalars(const mscrt_plan *p) {
  size_t num = 0;
  for (uint32_t i = 0; i < p->num_parameters; i++) num += is_named_scalar(&p->parameter[i]);
  return num;
}

const char *mscrt_plan_scalar(const mscrt_plan *p, size_t i, double *out_initial) {
  const mscrt_variable *v = p->parameter;
  while (!is_named_scalar(v) || i--) v++;
  static const msc_box one = {0};
  char data[8] = {0};
  mscrt_init_box(v, 0, &one, &one, data);
  mscrt_convert(MSCRT_F64, out_initial, 1, v->dtype, data, false, false, 1);
  return v->name;
}

int mscrt_plan_input_batch(const mscrt_plan *p, size_t i) { return p->input[i].batch_dim; }
int mscrt_plan_output_batch(const mscrt_plan *p, size_t i) { return p->output[i].batch_dim; }
bool mscrt_plan_output_reads_labels(const mscrt_plan *p, size_t i) { return p->output[i].labels; }

bool mscrt_plan_loss_adds_up(const mscrt_plan *p, const char **out_divisor) {
  uint32_t program;
  bool adds_up = false;
  *out_divisor = NULL;
  for (uint32_t i = 0; mscrt_find_program(p, "forward", &program) && i < p->num_outputs; i++) {
    const mscrt_variable *v = &p->output[i];
    if (v->program != program) continue;
    if (v->divisor) *out_divisor = v->name;
    adds_up |= v->divisor || (v->loss && v->adds_up);
  }
  return adds_up;
}

void mscrt_plan_input(const mscrt_plan *p, size_t i, mscrt_tensor *out_tensor, mscrt_role *out_role) {
  describe_variable(&p->input[i], out_tensor);
  *out_role = p->input[i].role;
}

void mscrt_plan_parameter(const mscrt_plan *p, size_t i, mscrt_tensor *out_tensor, bool *out_is_state) {
  const mscrt_variable *v = &p->parameter[i];
  describe_variable(v, out_tensor);
  out_tensor->rank = v->model_rank;
  memcpy(out_tensor->shape, v->model_shape, sizeof out_tensor->shape);
  memcpy(out_tensor->size, v->model_shape, sizeof out_tensor->size);
  *out_is_state = p->parameter[i].state;
}

void mscrt_plan_output(const mscrt_plan *p, size_t i, mscrt_tensor *out_tensor, const char **out_section) {
  describe_variable(&p->output[i], out_tensor);
  *out_section = mscrt_program_name(p, p->output[i].program);
}

mscrt_kernel *mscrt_plan_kernel(const mscrt_plan *p, uint32_t index) {
  plan_kernel k = plan_plan_kernels(p->root, index);
  if (plan_kernel_builtin(k)) return mscrt_builtin(plan_kernel_builtin(k));
  if (!p->code) return NULL;
  uint8_t *entry = p->code + plan_kernel_entry(k);
  mscrt_kernel *kernel;
  memcpy(&kernel, &entry, sizeof kernel);
  return kernel;
}

const mscrt_variable *mscrt_find_variable(uint32_t num, const mscrt_variable *v, const char *name) {
  for (uint32_t i = 0; i < num; i++)
    if (!strcmp(v[i].name, name)) return &v[i];
  return NULL;
}

void mscrt_variable_box(const mscrt_plan *p, const mscrt_variable *v, int rank, msc_box *out_box, msc_box *out_buffer) {
  memset(out_box, 0, sizeof *out_box);
  memcpy(out_box->size, v->shape, sizeof out_box->size);
  *out_buffer = *out_box;
  if (!v->layout) return;
  msc_box_of(&p->mesh, v->layout, v->shape, rank, out_box);
  msc_box_buffer(&p->mesh, v->layout, v->shape, rank, out_buffer);
}

uint64_t mscrt_whole_bytes(const mscrt_variable *v) {
  uint64_t bytes = 0;
  mscrt_shape_bytes(v->rank, v->shape, mscrt_dtype_bytes(v->dtype), &bytes);
  return bytes;
}

uint64_t mscrt_variable_bytes(const mscrt_variable *v) {
  int64_t size[MSCRT_MAX_RANK];
  uint64_t bytes = 0;
  memcpy(size, v->shape, sizeof size);
  if (v->layout) msc_box_largest(v->layout, v->shape, size);
  mscrt_shape_bytes(v->rank, size, mscrt_dtype_bytes(v->dtype), &bytes);
  return bytes;
}

mscrt_wanted mscrt_wanted_of(const mscrt_variable *v) {
  mscrt_wanted w = {.name = v->name, .role = v->role, .dtype = v->dtype, .rank = v->rank, .batch_dim = v->batch_dim};
  memcpy(w.shape, v->shape, sizeof w.shape);
  return w;
}

bool mscrt_plan_axis(const mscrt_plan *p, const char *axis, int rank, int *out_index, int *out_size) {
  for (uint32_t i = 0; i < plan_plan_mesh_num(p->root); i++) {
    const char *name = plan_axis_name(plan_plan_mesh(p->root, i));
    if (!name || strcmp(name, axis) || rank < 0 || rank >= p->ranks) continue;
    msc_digit digit = {i, 1, (uint32_t)p->mesh.size[i]};
    *out_index = (int)msc_group_index(&p->mesh, 1, &digit, rank);
    *out_size = (int)p->mesh.size[i];
    return true;
  }
  return false;
}
