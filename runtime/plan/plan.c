/* plan.c: opens plan.bin: private copy, structure, version, checksum, meaning, trust, CPU, in this order; only then
 * code is mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ir/fbs/flatbuf.h"
#include "runtime/builtin.h"
#include "runtime/plan/plan.h"

#define VERSION 1
#define MAX_TABLES 2000000

/* ---- checksum ---- */

/* XXH3 of the file, with the checksum field taken as zero. */
static bool checksum_of(const uint8_t *bytes, size_t size, const uint8_t *field, uint64_t *out_sum) {
  static const uint8_t zero[8];
  XXH3_state_t *state = XXH3_createState();
  if (!state) return false;
  size_t before = (size_t)(field - bytes);
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, bytes, before);
  XXH3_64bits_update(state, zero, sizeof zero);
  XXH3_64bits_update(state, field + sizeof zero, size - before - sizeof zero);
  *out_sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return true;
}

static mscrt_status *check_sum(mscrt_plan *p) {
  const uint8_t *field = flatbuf_inline(p->root.at, 25);
  if (!field) return mscrt_fail(MSCRT_INPUT, "the plan has no checksum");
  if (!checksum_of(p->bytes, p->size, field, &p->hash)) return mscrt_fail(MSCRT_NO_MEMORY, "out of memory");
  return p->hash == plan_plan_checksum(p->root)
             ? NULL
             : mscrt_fail(MSCRT_INPUT, "the plan is damaged: its checksum does not match");
}

/* ---- opening ---- */

static mscrt_status *check_structure(mscrt_plan *p) {
  flatbuf_fault fault;
  if (!flatbuf_verify(&plan_schema, p->bytes, p->size, MAX_TABLES, &fault))
    return mscrt_fail(MSCRT_INPUT, "not a plan, or a damaged one: %s (%s%s%s, byte %u)", fault.what,
                      fault.table ? fault.table : "", fault.field ? "." : "", fault.field ? fault.field : "", fault.at);
  p->root = plan_plan_root(p->bytes);
  if (plan_plan_version(p->root) != VERSION)
    return mscrt_fail(MSCRT_UNSUPPORTED,
                      "the plan has version %u, this runtime reads version %d: compile the model again",
                      plan_plan_version(p->root), VERSION);
  return NULL;
}

static mscrt_status *verify_opened(mscrt_plan *p) {
  MSCRT_CHECK(check_structure(p));
  MSCRT_CHECK(check_sum(p));
  return mscrt_within(mscrt_check_plan(p), "the plan contradicts itself");
}

static mscrt_status *verify_and_map(mscrt_plan *p, bool trusted) {
  MSCRT_CHECK(verify_opened(p));
  if (plan_plan_code_num(p->root) == 0 && plan_plan_images_num(p->root) == 0) return NULL;
  if (!trusted) return mscrt_fail(MSCRT_UNTRUSTED, "the plan holds native code, and nobody vouched for it");
  if (p->on_gpu) return NULL;
  MSCRT_CHECK(mscrt_check_cpu(p));
  p->code_bytes = plan_plan_code_num(p->root);
  return mscrt_map_code(plan_plan_code_data(p->root), p->code_bytes, (size_t)plan_plan_code_text(p->root), &p->code);
}

/* True if the caller trusts native code. Options of callers that know fewer fields are extended by zeros. */
static bool is_native_trusted(const mscrt_plan_options *o) {
  return o && o->struct_size >= offsetof(mscrt_plan_options, trust_native) + sizeof o->trust_native && o->trust_native;
}

/* Opens a plan from bytes, which it owns from now on, also if it fails. */
static mscrt_status *open_bytes(uint8_t *bytes, size_t size, const mscrt_plan_options *options, mscrt_plan **out_plan) {
  mscrt_plan *p = NULL;
  *out_plan = NULL;
  mscrt_status *s = mscrt_new_array(&p, 1);
  if (s) {
    free(bytes);
    return s;
  }
  p->bytes = bytes;
  p->size = size;
  s = verify_and_map(p, is_native_trusted(options));
  if (s) mscrt_plan_close(p);
  else *out_plan = p;
  return s;
}

static mscrt_status *allocate_private(size_t size, uint8_t **out_bytes) {
  if (size > FLATBUF_MAX_BYTES) return mscrt_fail(MSCRT_INPUT, "%zu bytes are too large for a plan", size);
  *out_bytes = aligned_alloc(FLATBUF_ALIGN, (size + FLATBUF_ALIGN) / FLATBUF_ALIGN * FLATBUF_ALIGN);
  return *out_bytes ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "no memory for a plan of %zu bytes", size);
}

mscrt_status *mscrt_plan_open(const void *bytes, size_t size, const mscrt_plan_options *options,
                              mscrt_plan **out_plan) {
  uint8_t *copy;
  *out_plan = NULL;
  MSCRT_CHECK(allocate_private(size, &copy));
  if (size) memcpy(copy, bytes, size);
  return open_bytes(copy, size, options, out_plan);
}

mscrt_status *mscrt_plan_verify(const void *bytes, size_t size) {
  mscrt_plan *p;
  MSCRT_CHECK(mscrt_new_array(&p, 1));
  mscrt_status *s = allocate_private(size, &p->bytes);
  p->size = size;
  if (!s && size) memcpy(p->bytes, bytes, size);
  if (!s) s = verify_opened(p);
  mscrt_plan_close(p);
  return s;
}

mscrt_status *mscrt_plan_read(const char *path, const mscrt_plan_options *options, mscrt_plan **out_plan) {
  mscrt_blob b;
  uint8_t *bytes = NULL;
  *out_plan = NULL;
  MSCRT_CHECK(mscrt_blob_open(path, &b));
  mscrt_status *s = allocate_private((size_t)b.bytes, &bytes);
  if (!s) s = mscrt_blob_read(&b, 0, bytes, (size_t)b.bytes);
  size_t size = (size_t)b.bytes;
  mscrt_blob_close(&b);
  if (s) {
    free(bytes);
    return s;
  }
  return mscrt_within(open_bytes(bytes, size, options, out_plan), "%s", path);
}

void mscrt_plan_close(mscrt_plan *p) {
  if (!p) return;
  mscrt_unmap_code(p->code, p->code_bytes);
  free(p->layout);
  free(p->split);
  free(p->matmul);
  free(p->graph);
  free(p->collective);
  free(p->parameter);
  free(p->input);
  free(p->output);
  free(p->stage);
  free(p->only);
  free(p->bytes);
  free(p);
}

/* ---- asking ---- */

int mscrt_plan_ranks(const mscrt_plan *p) { return p->ranks; }
const char *mscrt_plan_model(const mscrt_plan *p) { return plan_plan_model(p->root) ? plan_plan_model(p->root) : ""; }

const char *mscrt_plan_config(const mscrt_plan *p) {
  return plan_plan_config(p->root) ? plan_plan_config(p->root) : "{}";
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
