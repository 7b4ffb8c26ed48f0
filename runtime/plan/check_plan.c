/* check_plan.c: mesh, layouts, kernels, collectives and variables of a plan in; checked and unpacked ones out.
 * The structure of the file was checked before; here no number in it is trusted. */
#include <stdlib.h>
#include <string.h>

#include "ir/abi/product.h"
#include "ir/abi/target.h"
#include "runtime/kernels/builtin.h"
#include "runtime/plan/plan.h"

#define MAX_RANKS 65536

static mscrt_status *read_plan_shape(uint32_t num, const uint64_t *v, int *out_rank, int64_t *out_shape) {
  uint64_t bytes;
  if (num > MSCRT_MAX_RANK) return mscrt_bad_plan("%u dimensions, at most %d are possible", num, MSCRT_MAX_RANK);
  for (uint32_t d = 0; d < num; d++) {
    if (v[d] > INT64_MAX) return mscrt_bad_plan("a dimension of %" PRIu64, v[d]);
    out_shape[d] = (int64_t)v[d];
  }
  *out_rank = (int)num;
  return mscrt_shape_bytes((int)num, out_shape, 8, &bytes) && bytes <= MSCRT_MAX_BYTES
             ? NULL
             : mscrt_bad_plan("the shape is too large");
}

/* ---- mesh and layouts ---- */

static mscrt_status *check_plan_mesh(mscrt_plan *p) {
  uint32_t num = plan_plan_mesh_num(p->root);
  if (num > MSC_BOX_AXES) return mscrt_bad_plan("the mesh has %u axes, at most %d are possible", num, MSC_BOX_AXES);
  p->mesh.num_axes = (int)num;
  for (uint32_t i = 0; i < num; i++) p->mesh.size[i] = plan_axis_size(plan_plan_mesh(p->root, i));
  if (!msc_box_mesh_ok(&p->mesh) || msc_box_mesh_size(&p->mesh) > MAX_RANKS)
    return mscrt_bad_plan("the mesh's sizes are not possible");
  p->ranks = (int)msc_box_mesh_size(&p->mesh);
  return NULL;
}

/* SubAxis of the schema and msc_digit have the same bytes, so digits are read in the file. */
_Static_assert(sizeof(plan_sub_axis) == sizeof(msc_digit) && offsetof(plan_sub_axis, size) == offsetof(msc_digit, size),
               "one struct, two names");

/* Finds the borders of the parts of each dimension that has some; there must be exactly as many as parts need. */
static mscrt_status *check_splits(mscrt_plan *p, plan_layout l, uint32_t i) {
  const uint32_t given = plan_layout_split_num(l), mask = plan_layout_split_dims(l);
  msc_box_layout *layout = &p->layout[i];
  uint64_t at = 0;
  if (!mask && !given) return NULL;
  for (int d = 0; d < layout->rank; d++) {
    if (!(mask >> d & 1)) continue;
    uint64_t need = (uint64_t)msc_box_parts(layout, d) + 1;
    if (need > given - at) return mscrt_bad_plan("layout %u: it lacks borders of parts", i);
    p->split[i][d] = plan_layout_split_data(l) + at;
    at += need;
  }
  if (at != given || mask >> layout->rank) return mscrt_bad_plan("layout %u: it has borders of no parts", i);
  layout->split = p->split[i];
  return msc_box_layout_ok(&p->mesh, layout) ? NULL
                                             : mscrt_bad_plan("layout %u: its borders of parts are impossible", i);
}

static mscrt_status *check_layouts(mscrt_plan *p) {
  MSCRT_CHECK(mscrt_new_array(&p->layout, p->num_layouts));
  MSCRT_CHECK(mscrt_new_array(&p->split, p->num_layouts));
  for (uint32_t i = 0; i < p->num_layouts; i++) {
    plan_layout l = plan_plan_layouts(p->root, i);
    uint32_t num_first = plan_layout_first_num(l), num = plan_layout_sub_num(l);
    if (num_first < 1 || num_first > MSCRT_MAX_RANK + 1 || num > MSC_BOX_DIGITS)
      return mscrt_bad_plan("layout %u: its lists have impossible lengths", i);
    p->layout[i] = (msc_box_layout){(int)num_first - 1, (int)num, plan_layout_first_data(l),
                                    (const msc_digit *)(const void *)plan_layout_sub_data(l), NULL};
    if (!msc_box_layout_ok(&p->mesh, &p->layout[i]))
      return mscrt_bad_plan("layout %u: its digits do not fit the mesh", i);
    MSCRT_CHECK(check_splits(p, l, i));
    if (plan_layout_reduction(l) >= MSC_NUM_REDUCTIONS)
      return mscrt_bad_plan("layout %u: unknown reduction %d", i, plan_layout_reduction(l));
  }
  return NULL;
}

static bool is_partial(const msc_box_layout *l) { return l->num > l->first[l->rank]; }

static mscrt_status *find_layout_of(const mscrt_plan *p, uint32_t index, int rank, const int64_t *shape,
                                    const msc_box_layout **out_layout) {
  if (index >= p->num_layouts) return mscrt_bad_plan("layout %u of %u", index, p->num_layouts);
  if (p->layout[index].rank != rank)
    return mscrt_bad_plan("a layout of %d dimensions for %d", p->layout[index].rank, rank);
  if (!msc_box_shape_ok(&p->layout[index], shape))
    return mscrt_bad_plan("a layout whose parts do not add up to the shape");
  *out_layout = &p->layout[index];
  return NULL;
}

/* ---- memory ---- */

static mscrt_status *check_spaces(mscrt_plan *p) {
  uint64_t scratch = 0;
  for (uint32_t i = 0; i < p->num_sections; i++) {
    uint64_t bytes = plan_section_scratch_bytes(plan_plan_sections(p->root, i));
    if (bytes > scratch) scratch = bytes;
  }
  p->space_bytes[PLAN_SPACE_SCRATCH] = scratch;
  p->space_bytes[PLAN_SPACE_INPUT] = plan_plan_input_stride(p->root);
  p->space_bytes[PLAN_SPACE_CONSTANT] = plan_plan_constants_num(p->root);
  for (int i = 0; i < PLAN_SPACE_TILE; i++)
    if (p->space_bytes[i] > MSCRT_MAX_BYTES) return mscrt_bad_plan("a memory of %" PRIu64 " bytes", p->space_bytes[i]);
  return NULL;
}

/* ---- kernels ---- */

static mscrt_status *check_images(const mscrt_plan *p) {
  uint32_t kernels = 0;
  for (uint32_t i = 0; i < plan_plan_kernels_num(p->root); i++)
    kernels += plan_kernel_threads(plan_plan_kernels(p->root, i)) > 0;
  if (!plan_plan_images_num(p->root) != !kernels)
    return mscrt_bad_plan("a plan for GPUs has their kernels in images, and only there");
  if (plan_plan_workspace_bytes(p->root) > MSCRT_MAX_BYTES)
    return mscrt_bad_plan("a workspace of %" PRIu64 " bytes", plan_plan_workspace_bytes(p->root));
  for (uint32_t i = 0; i < plan_plan_images_num(p->root); i++) {
    plan_image m = plan_plan_images(p->root, i);
    uint32_t bytes = plan_image_code_num(m);
    bool text = plan_image_kind(m) == PLAN_IMAGE_KIND_PTX;
    if (plan_image_kind(m) > PLAN_IMAGE_KIND_CUBIN || plan_image_arch(m) < 10 || plan_image_arch(m) > 1000)
      return mscrt_bad_plan("image %u is of kind %d for architecture %u", i, plan_image_kind(m), plan_image_arch(m));
    /* 64: an ELF header, which contains its length */
    if (bytes < 64 || (text && plan_image_code_data(m)[bytes - 1])) return mscrt_bad_plan("image %u has no end", i);
  }
  return NULL;
}

static mscrt_status *check_gpu_kernel(plan_kernel k) {
  uint32_t threads = plan_kernel_threads(k);
  if (plan_kernel_entry(k) || plan_kernel_bytes(k) || plan_kernel_builtin(k))
    return mscrt_bad_plan("kernel %s is CPU code in a plan for GPUs", plan_kernel_name(k));
  return threads <= 1024 ? NULL : mscrt_bad_plan("kernel %s has blocks of %u threads", plan_kernel_name(k), threads);
}

static mscrt_status *check_plan_kernels(const mscrt_plan *p) {
  uint64_t text = plan_plan_code_text(p->root), code = plan_plan_code_num(p->root);
  if (p->target->has_images) MSCRT_CHECK(check_images(p));
  if (text > code) return mscrt_bad_plan("%" PRIu64 " bytes of text in %" PRIu64 " bytes of code", text, code);
  for (uint32_t i = 0; i < plan_plan_kernels_num(p->root); i++) {
    plan_kernel k = plan_plan_kernels(p->root, i);
    uint64_t entry = plan_kernel_entry(k), bytes = plan_kernel_bytes(k);
    uint8_t builtin = plan_kernel_builtin(k);
    if (builtin >= MSC_NUM_BUILTINS)
      return mscrt_bad_plan("kernel %s is number %d of the runtime's", plan_kernel_name(k), builtin);
    if (p->target->has_images && plan_kernel_threads(k)) MSCRT_CHECK(check_gpu_kernel(k));
    else if (!builtin && (entry >= text || bytes > text - entry))
      return mscrt_bad_plan("kernel %s lies outside the code", plan_kernel_name(k));
    if (plan_kernel_num_buffers(k) > MSCRT_MAX_DIMS || plan_kernel_num_dims(k) > MSCRT_MAX_DIMS ||
        plan_kernel_num_scalars(k) > MSCRT_MAX_DIMS)
      return mscrt_bad_plan("kernel %s has more than %d arguments of a kind", plan_kernel_name(k), MSCRT_MAX_DIMS);
  }
  return NULL;
}

/* ---- collectives ---- */

/* Checks the digits of a group: digits of the mesh, none twice. */
static mscrt_status *check_collective_axes(const mscrt_plan *p, plan_collective t, mscrt_collective *c) {
  uint8_t first[1] = {0};
  uint32_t num = plan_collective_axes_num(t);
  c->axes = (const msc_digit *)(const void *)plan_collective_axes_data(t);
  c->num_axes = (int)num;
  if (num > MSC_BOX_DIGITS || !msc_box_layout_ok(&p->mesh, &(msc_box_layout){0, (int)num, first, c->axes, NULL}))
    return mscrt_bad_plan("its axes do not fit the mesh");
  return NULL;
}

/* Checks the group of broadcast and pairs. */
static mscrt_status *check_collective_group(const mscrt_plan *p, plan_collective t, mscrt_collective *c) {
  MSCRT_CHECK(check_collective_axes(p, t, c));
  uint64_t members = (uint64_t)msc_group_size(c->num_axes, c->axes);
  c->root = plan_collective_root(t);
  if (c->root >= members) return mscrt_bad_plan("root %u in a group of %" PRIu64, c->root, members);
  c->num_pairs = plan_collective_pairs_num(t) / 2;
  c->pairs = plan_collective_pairs_data(t);
  if (plan_collective_pairs_num(t) % 2 || c->num_pairs > members)
    return mscrt_bad_plan("%u numbers are no pairs of a group of %" PRIu64, plan_collective_pairs_num(t), members);
  uint8_t *receives;
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_new_array(&receives, members));
  for (uint32_t i = 0; i < c->num_pairs && !s; i++) {
    if (c->pairs[2 * i] >= members || c->pairs[2 * i + 1] >= members)
      s = mscrt_bad_plan("pair %u names a member that the group does not have", i);
    else if (receives[c->pairs[2 * i + 1]]++) s = mscrt_bad_plan("member %u receives twice", c->pairs[2 * i + 1]);
  }
  free(receives);
  return s;
}

static void *allocate_nothing(void *user, size_t bytes) {
  (void)user, (void)bytes;
  return NULL;
}

static mscrt_status *check_layout_change(const mscrt_plan *p, plan_collective t, mscrt_collective *c) {
  MSCRT_CHECK(find_layout_of(p, plan_collective_from(t), c->rank, c->shape, &c->from));
  MSCRT_CHECK(find_layout_of(p, plan_collective_to(t), c->rank, c->shape, &c->to));
  MSCRT_CHECK(check_collective_axes(p, t, c));
  msc_pull pull;
  if (msc_pull_of(&p->mesh, c->from, c->to, c->shape, 0, allocate_nothing, NULL, &pull) == MSC_PULL_NO_DIGITS)
    return mscrt_bad_plan("its layouts cut an axis at places that have no common refinement");
  return NULL;
}

/* Checks a halo: its rows can be counted, and its destination is not too large. */
static mscrt_status *check_halo_exchange(const mscrt_plan *p, plan_collective t, mscrt_collective *c) {
  enum { MOST = 1 << 30 };
  MSCRT_CHECK(find_layout_of(p, plan_collective_from(t), c->rank, c->shape, &c->from));
  c->to = c->from;
  if (plan_collective_to(t) != plan_collective_from(t)) return mscrt_bad_plan("a halo changes its layout");
  if (plan_collective_halo_dim(t) >= (uint32_t)c->rank)
    return mscrt_bad_plan("a halo along dimension %u of %d", plan_collective_halo_dim(t), c->rank);
  uint64_t lo = plan_collective_halo_lo(t), hi = plan_collective_halo_hi(t), step = plan_collective_halo_step(t), bytes;
  if (lo > MOST || hi > MOST || step < 1 || step > MOST)
    return mscrt_bad_plan("a halo of %" PRIu64 " and %" PRIu64 " rows beside %" PRIu64, lo, hi, step);
  c->halo_dim = (int)plan_collective_halo_dim(t);
  c->lo = (int64_t)lo, c->hi = (int64_t)hi, c->step = (int64_t)step;
  int64_t wide[MSCRT_MAX_RANK];
  mscrt_largest_destination(c, wide);
  return mscrt_shape_bytes(c->rank, wide, mscrt_dtype_bytes(c->dtype), &bytes) ? NULL
                                                                               : mscrt_bad_plan("a halo is too large");
}

/* Checks a collective of several values: its members are earlier entries of the same kind, none of them of several
 * values. That the same ranks meet for all is checked when groups are made. */
static mscrt_status *check_bucket_members(const mscrt_plan *p, plan_collective t, uint32_t number,
                                          mscrt_collective *c) {
  c->num_members = plan_collective_members_num(t);
  c->members = plan_collective_members_data(t);
  if (!msc_verb_fuses(c->verb)) return mscrt_bad_plan("%s is of one value", msc_verb_name(c->verb));
  for (uint32_t i = 0; i < c->num_members; i++) {
    const mscrt_collective *m = &p->collective[c->members[i] < number ? c->members[i] : 0];
    if (c->members[i] >= number || m->num_members)
      return mscrt_bad_plan("member %u is entry %u, which is none before it", i, c->members[i]);
    if (m->verb != c->verb || m->dtype != c->dtype || m->reduction != c->reduction)
      return mscrt_bad_plan("member %u is of another kind", i);
  }
  return NULL;
}

static mscrt_status *check_plan_collective(const mscrt_plan *p, plan_collective t, uint32_t number,
                                           mscrt_collective *c) {
  if (plan_collective_verb(t) >= MSC_NUM_PLAN_VERBS || plan_collective_dtype(t) >= MSCRT_NUM_DTYPES ||
      plan_collective_reduction(t) >= MSC_NUM_REDUCTIONS)
    return mscrt_bad_plan("unknown verb, element type or reduction");
  *c = (mscrt_collective){.verb = (msc_verb)plan_collective_verb(t),
                          .dtype = (mscrt_dtype)plan_collective_dtype(t),
                          .reduction = (msc_reduction)plan_collective_reduction(t)};
  if (plan_collective_members_num(t)) return check_bucket_members(p, t, number, c);
  MSCRT_CHECK(read_plan_shape(plan_collective_shape_num(t), plan_collective_shape_data(t), &c->rank, c->shape));
  if (c->verb == MSC_HALO) return check_halo_exchange(p, t, c);
  return msc_verb_is(c->verb, MSC_VERB_GROUP) ? check_collective_group(p, t, c) : check_layout_change(p, t, c);
}

static mscrt_status *check_collectives(mscrt_plan *p) {
  MSCRT_CHECK(mscrt_new_array(&p->collective, p->num_collectives));
  for (uint32_t i = 0; i < p->num_collectives; i++) {
    mscrt_status *s = check_plan_collective(p, plan_plan_collectives(p->root, i), i, &p->collective[i]);
    if (s) return mscrt_add_prefix(s, "collective %u", i);
  }
  return NULL;
}

/* ---- parameters, inputs, outputs ---- */

static mscrt_status *check_variable(const mscrt_plan *p, mscrt_variable *v, uint8_t dtype, uint32_t layout,
                                    bool local) {
  if (dtype >= MSCRT_NUM_DTYPES) return mscrt_bad_plan("element type %d", dtype);
  v->dtype = (mscrt_dtype)dtype;
  if (!local) MSCRT_CHECK(find_layout_of(p, layout, v->rank, v->shape, &v->layout));
  if (v->layout && is_partial(v->layout)) return mscrt_bad_plan("it is a partial result");
  if (v->ref.space == PLAN_SPACE_TILE || v->ref.space >= MSCRT_NUM_SPACES ||
      (v->ref.space > PLAN_SPACE_TILE && !mscrt_is_offloaded(v->ref.space)))
    return mscrt_bad_plan("space %d", v->ref.space);
  if (v->stage >= p->num_stages) return mscrt_bad_plan("stage %u of %u", v->stage, p->num_stages);
  uint64_t room = mscrt_room(p, v->stage, v->ref.space), need = mscrt_variable_bytes(v);
  if (v->ref.offset > room || v->ref.bytes > room - v->ref.offset)
    return mscrt_bad_plan("bytes %" PRIu64 " + %" PRIu64 " of a space of %" PRIu64, v->ref.offset, v->ref.bytes, room);
  if (need > v->ref.bytes) return mscrt_bad_plan("%" PRIu64 " bytes where %" PRIu64 " are needed", v->ref.bytes, need);
  if (v->ref.offset % mscrt_dtype_bytes(v->dtype)) return mscrt_bad_plan("its address is not aligned");
  return NULL;
}

static int compare_variables(const void *a, const void *b) {
  const mscrt_variable *x = *(const mscrt_variable *const *)a, *y = *(const mscrt_variable *const *)b;
  int order = strcmp(x->name, y->name);
  if (!order) order = (x->program > y->program) - (x->program < y->program);
  return order ? order : (x->stage > y->stage) - (x->stage < y->stage);
}

static mscrt_status *check_names(uint32_t num, const mscrt_variable *v, const char *what) {
  const mscrt_variable **sorted;
  mscrt_status *s = NULL;
  MSCRT_CHECK(mscrt_new_array(&sorted, num));
  for (uint32_t i = 0; i < num; i++) sorted[i] = &v[i];
  qsort(sorted, num, sizeof *sorted, compare_variables);
  for (uint32_t i = 1; i < num && !s; i++)
    if (!compare_variables(&sorted[i - 1], &sorted[i]))
      s = mscrt_bad_plan("two %ss are called '%s'", what, sorted[i]->name);
  free(sorted);
  return s;
}

static mscrt_status *check_model_shape(mscrt_variable *v, plan_parameter t) {
  uint64_t own = 0, models = 0;
  v->model_rank = v->rank;
  memcpy(v->model_shape, v->shape, sizeof v->shape);
  if (!plan_parameter_model_shape_num(t)) return NULL;
  memset(v->model_shape, 0, sizeof v->model_shape);
  MSCRT_CHECK(read_plan_shape(plan_parameter_model_shape_num(t), plan_parameter_model_shape_data(t), &v->model_rank,
                              v->model_shape));
  mscrt_shape_bytes(v->rank, v->shape, 1, &own);
  if (!mscrt_shape_bytes(v->model_rank, v->model_shape, 1, &models) || own != models)
    return mscrt_bad_plan("the model's shape has other elements");
  return NULL;
}

/* Checks a parameter in host memory or on disk. */
static mscrt_status *check_offloaded(const mscrt_plan *p, const mscrt_variable *v) {
  if (v->ref.space == PLAN_SPACE_DISK && v->ref.offset % MSCRT_DISK_PAGE)
    return mscrt_bad_plan("it begins within a page of the disk");
  if (v->ref.space == PLAN_SPACE_DISK && !plan_plan_offload_path(p->root))
    return mscrt_bad_plan("its disk has no folder");
  return NULL;
}

static mscrt_status *check_plan_parameters(mscrt_plan *p) {
  MSCRT_CHECK(mscrt_new_array(&p->parameter, p->num_parameters));
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    plan_parameter t = plan_plan_parameters(p->root, i);
    mscrt_variable *v = &p->parameter[i];
    *v = (mscrt_variable){.name = plan_parameter_name(t),
                          .init = plan_parameter_init(t),
                          .state = plan_parameter_state(t),
                          .owned = plan_parameter_owner(t) != NULL,
                          .ref = plan_parameter_ref(t),
                          .stage = plan_parameter_stage(t),
                          .copy = plan_parameter_copy(t),
                          .weights = plan_parameter_weights(t),
                          .tensor = plan_parameter_tensor(t)};
    mscrt_status *s = read_plan_shape(plan_parameter_shape_num(t), plan_parameter_shape_data(t), &v->rank, v->shape);
    if (!s) s = check_variable(p, v, plan_parameter_dtype(t), plan_parameter_layout(t), false);
    if (!s) s = check_model_shape(v, t);
    if (!s && v->ref.space != PLAN_SPACE_PERSISTENT && !mscrt_is_offloaded(v->ref.space))
      s = mscrt_bad_plan("it is not in the persistent space");
    if (!s && mscrt_is_offloaded(v->ref.space)) s = check_offloaded(p, v);
    if (!s && !mscrt_init_ok(v->init, v->dtype))
      s = mscrt_bad_plan("initial values '%.32s' of %s", v->init ? v->init : "", mscrt_dtype_name(v->dtype));
    if (!s && v->tensor && v->weights >= plan_plan_weight_files_num(p->root))
      s = mscrt_bad_plan("weight file %u of %u", v->weights, plan_plan_weight_files_num(p->root));
    if (s) return mscrt_add_prefix(s, "parameter '%s'", v->name);
  }
  return check_names(p->num_parameters, p->parameter, "parameter");
}

static mscrt_status *check_input_batch(const mscrt_plan *p, const mscrt_variable *v) {
  if (v->batch_dim < -1 || v->batch_dim >= v->rank)
    return mscrt_bad_plan("batch dimension %d of %d", v->batch_dim, v->rank);
  if (v->batch_dim < 0) return NULL;
  if (v->shape[v->batch_dim] < 1) return mscrt_bad_plan("an empty batch");
  for (const mscrt_variable *other = p->input; other < v; other++)
    if (other->batch_dim >= 0 && other->shape[other->batch_dim] != v->shape[v->batch_dim])
      return mscrt_bad_plan("a batch of %" PRId64 ", but '%s' has %" PRId64
                            "; in the model what has no batch is given batch_dim = -1",
                            v->shape[v->batch_dim], other->name, other->shape[other->batch_dim]);
  return NULL;
}

static mscrt_status *check_plan_inputs(mscrt_plan *p) {
  MSCRT_CHECK(mscrt_new_array(&p->input, p->num_inputs));
  for (uint32_t i = 0; i < p->num_inputs; i++) {
    plan_input t = plan_plan_inputs(p->root, i);
    mscrt_variable *v = &p->input[i];
    *v = (mscrt_variable){.name = plan_input_name(t),
                          .ref = plan_input_ref(t),
                          .batch_dim = plan_input_batch_dim(t),
                          .whole = plan_input_whole(t)};
    mscrt_status *s = read_plan_shape(plan_input_shape_num(t), plan_input_shape_data(t), &v->rank, v->shape);
    if (!s) s = check_variable(p, v, plan_input_dtype(t), plan_input_layout(t), v->whole);
    if (!s && v->ref.space != PLAN_SPACE_INPUT) s = mscrt_bad_plan("it is not in the input space");
    if (!s && plan_input_role(t) > MSCRT_MASK) s = mscrt_bad_plan("role %d", plan_input_role(t));
    v->role = (mscrt_role)plan_input_role(t);
    if (!s) s = check_input_batch(p, v);
    if (s) return mscrt_add_prefix(s, "input '%s'", v->name);
  }
  return check_names(p->num_inputs, p->input, "input");
}

static mscrt_status *check_plan_outputs(mscrt_plan *p) {
  MSCRT_CHECK(mscrt_new_array(&p->output, p->num_outputs));
  for (uint32_t i = 0; i < p->num_outputs; i++) {
    plan_output t = plan_plan_outputs(p->root, i);
    mscrt_variable *v = &p->output[i];
    *v = (mscrt_variable){.name = plan_output_name(t),
                          .ref = plan_output_ref(t),
                          .program = plan_output_program(t),
                          .stage = plan_output_stage(t),
                          .loss = plan_output_loss(t),
                          .labels = plan_output_labels(t),
                          .adds_up = plan_output_adds_up(t),
                          .divisor = plan_output_divisor(t),
                          .batch_dim = plan_output_batch_dim(t)};
    mscrt_status *s = read_plan_shape(plan_output_shape_num(t), plan_output_shape_data(t), &v->rank, v->shape);
    if (!s) s = check_variable(p, v, plan_output_dtype(t), plan_output_layout(t), false);
    if (!s && v->program >= p->num_programs) s = mscrt_bad_plan("program %u of %u", v->program, p->num_programs);
    if (!s && (v->batch_dim < -1 || v->batch_dim >= v->rank))
      s = mscrt_bad_plan("batch dimension %d of %d", v->batch_dim, v->rank);
    uint64_t bytes = 0;
    mscrt_shape_bytes(v->rank, v->shape, 1, &bytes);
    if (!s && v->loss && (bytes != 1 || !mscrt_is_float(v->dtype))) s = mscrt_bad_plan("a loss must be one float");
    if (!s && v->divisor && (bytes != 1 || !mscrt_is_float(v->dtype)))
      s = mscrt_bad_plan("a divisor must be one float");
    for (uint32_t j = 0; !s && (v->loss || v->divisor) && j < i; j++)
      if (p->output[j].loss == v->loss && p->output[j].divisor == v->divisor && p->output[j].program == v->program)
        s = mscrt_bad_plan("a second %s", v->loss ? "loss" : "divisor");
    if (s) return mscrt_add_prefix(s, "output '%s'", v->name);
  }
  return check_names(p->num_outputs, p->output, "output");
}

/* ---- the plan ---- */

static mscrt_status *check_header(mscrt_plan *p) {
  static const mscrt_target targets[] = {
#define X(id, most_units, has_images, calls_whole) {#id, most_units, has_images, calls_whole},
      MSC_TARGETS(X)
#undef X
  };
#define X(id, most_units, has_images, calls_whole) " '" #id "'"
  static const char names[] = MSC_TARGETS(X);
#undef X
  const char *target = plan_plan_target(p->root);
  char clean[32];
  for (size_t i = 0; target && i < sizeof targets / sizeof *targets; i++)
    if (!strcmp(target, targets[i].name)) p->target = &targets[i];
  if (!p->target)
    return mscrt_fail(MSCRT_UNSUPPORTED, "the plan is for target '%s', this runtime executes%s",
                      mscrt_clean_text(target ? target : "", SIZE_MAX, clean, sizeof clean), names);
  for (uint32_t i = 0; i < plan_plan_sections_num(p->root); i++)
    for (uint32_t j = 0; j < i; j++)
      if (!strcmp(plan_section_name(plan_plan_sections(p->root, i)), plan_section_name(plan_plan_sections(p->root, j))))
        return mscrt_bad_plan("two sections are called '%s'", plan_section_name(plan_plan_sections(p->root, i)));
  return NULL;
}

mscrt_status *mscrt_check_plan(mscrt_plan *p) {
  p->num_layouts = plan_plan_layouts_num(p->root);
  p->num_matmuls = plan_plan_matmuls_num(p->root);
  p->num_collectives = plan_plan_collectives_num(p->root);
  p->num_sections = plan_plan_sections_num(p->root);
  p->num_parameters = plan_plan_parameters_num(p->root);
  p->num_inputs = plan_plan_inputs_num(p->root);
  p->num_outputs = plan_plan_outputs_num(p->root);
  if (p->num_sections > UINT16_MAX) return mscrt_bad_plan("%u sections", p->num_sections);
  MSCRT_CHECK(check_header(p));
  MSCRT_CHECK(check_plan_mesh(p));
  MSCRT_CHECK(check_layouts(p));
  MSCRT_CHECK(mscrt_check_stages(p));
  MSCRT_CHECK(mscrt_check_programs(p));
  MSCRT_CHECK(mscrt_check_messages(p));
  MSCRT_CHECK(check_spaces(p));
  MSCRT_CHECK(check_plan_kernels(p));
  MSCRT_CHECK(mscrt_check_products(p));
  MSCRT_CHECK(mscrt_check_graphs(p));
  MSCRT_CHECK(check_collectives(p));
  MSCRT_CHECK(check_plan_parameters(p));
  MSCRT_CHECK(mscrt_check_caches(p));
  MSCRT_CHECK(check_plan_inputs(p));
  MSCRT_CHECK(check_plan_outputs(p));
  mscrt_note_tiles_of_kernels(p);
  MSCRT_CHECK(mscrt_check_calls(p));
  return mscrt_check_deadlock(p);
}
