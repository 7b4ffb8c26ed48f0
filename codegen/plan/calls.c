/* calls.c: a lowered function in; a section of calls, whose operands have places in memory, and their code out. */
#include <string.h>

#include "codegen/plan/plan.h"
#include "ir/abi/row_cache.h"
#include "ir/alias.h"
#include "ir/comm.h"
#include "ir/gemm.h"
#include "ir/table.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/gpu/rest.h"
#include "passes/7_lower/transfer.h"
#include "passes/8_memory/offsets/offsets.h"

enum {
  DEPTH = 2, /* of a mailbox at first: one message is on its way while the one before it is used */
};

/* The place in a stage's memory of a sum over micro-batches or of a carried value. */
typedef struct {
  const char *name; /* interned */
  uint32_t stage;
  int64_t chunk;
  plan_ref ref;
} inner_place;

typedef struct {
  const char *name; /* interned */
  size_t last;      /* 1 + index of the last parameter or state of that name */
} kept_name;

struct msc_plan_calls {
  msc_plan *p;
  msc_codegen *cg, *host; /* of the target; of its host, NULL: nothing runs there */
  const msc_func *f;
  msc_plan_section *section;
  plan_ref *arg;       /* by argument number */
  uint64_t *constant;  /* of each constant op, by its id: the offset in the plan's constants */
  size_t room_constants;
  uint32_t program;    /* number of the section's program */
  uint64_t scratch;    /* scratch bytes of the section, as pass allocate placed them */
  uint64_t stashed;    /* offset on disk of the values that the section moves off the device */
  uint64_t host_at, host_scratch; /* offset in host memory of what the section makes or keeps there; its bytes */
  size_t num_inner;
  inner_place *inner;
  MSC_TABLE(kept_name) kept;
};

typedef struct msc_plan_calls calling;

uint32_t msc_plan_layout(msc_plan *p, const msc_layout *l) {
  for (size_t i = 0; i < p->num_layouts; i++)
    if (p->layout[i] == l) return (uint32_t)i;
  msc_grow(p->arena, p->layout, p->num_layouts);
  p->layout[p->num_layouts] = l;
  return (uint32_t)p->num_layouts++;
}

const msc_layout *msc_plan_layout_of(const msc_plan *p, const msc_attr_value *v, int rank) {
  const msc_layout *l = msc_attr_layout(v);
  return l ? l : msc_layout_replicated(p->ctx, rank);
}

static const msc_type *global_type(const msc_plan *p, const msc_type *local, const msc_attr_value *shape,
                                   const msc_attr_value *layout) {
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < local->rank; d++) dim[d] = shape ? shape->list.v[d].i : local->dim[d];
  return msc_type_of(p->ctx, local->dtype, local->rank, dim, msc_plan_layout_of(p, layout, local->rank));
}

/* ---- arguments ---- */

static msc_plan_variable *find_input(const msc_plan *p, const char *name) {
  for (size_t i = 0; i < p->num_inputs; i++)
    if (p->input[i].name == name) return &p->input[i];
  return NULL;
}

/* Returns the interned name of an argument. */
static const char *intern_argument_name(const msc_plan *p, const msc_func *f, size_t i) {
  const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_name));
  if (v) return msc_intern(p->ctx, v->s);
  return msc_intern(p->ctx, f->body->args[i]->name ? f->body->args[i]->name : msc_arena_printf(p->arena, "arg%zu", i));
}

/* Returns the parameter or state of this name on the section's stage, or NULL. */
static msc_plan_variable *find_kept(calling *c, const char *name) {
  for (size_t k = msc_table_at(&c->kept, &name)->last; k; k = c->p->parameter[k - 1].same)
    if (c->p->parameter[k - 1].stage == c->section->stage) return &c->p->parameter[k - 1];
  return NULL;
}

static plan_ref reserve_bytes(uint64_t *end, uint64_t bytes, uint8_t space) {
  plan_ref ref = {.offset = *end, .bytes = bytes, .space = space};
  *end = msc_round_to_lines(*end + bytes);
  return ref;
}

static msc_plan_variable *list_variable(calling *c, bool kept, size_t i, const char *name, plan_ref ref) {
  msc_plan *p = c->p;
  const msc_func *f = c->f;
  msc_plan_variable **list = kept ? &p->parameter : &p->input;
  size_t *num = kept ? &p->num_parameters : &p->num_inputs;
  msc_grow(p->arena, *list, *num);
  msc_plan_variable *v = &(*list)[(*num)++];
  *v = (msc_plan_variable){.name = name, .func = f, .arg = i, .ref = ref, .stage = kept ? c->section->stage : 0};
  if (kept) {
    kept_name *known = msc_table_at(&c->kept, &name);
    v->same = known->last, v->copy = known->last > 0;
    known->last = *num;
  }
  v->global = global_type(p, f->body->args[i]->type, msc_arg_attr(f, i, MSC_FACT(msc_shape)),
                          msc_arg_attr(f, i, MSC_FACT(msc_layout)));
  return v;
}

static void note_reader(msc_plan *p, msc_plan_variable *v, uint32_t stage) {
  if (v->num_readers && v->reader[v->num_readers - 1] == stage) return;
  for (uint32_t i = 0; i < v->num_readers; i++)
    if (v->reader[i] == stage) return;
  msc_grow(p->arena, v->reader, v->num_readers);
  v->reader[v->num_readers++] = stage;
}

/* Returns the bytes of all inputs of a micro-batch, which are the distance to the inputs of the next one. */
static uint64_t input_stride(const msc_plan *p) {
  uint64_t bytes = 0;
  size_t num = 0;
  for (const msc_func *f = p->module->first; f; f = f->next) num += f->body->num_args;
  const char **seen = msc_new_array(p->arena, const char *, num + 1);
  num = 0;
  for (const msc_func *f = p->module->first; f; f = f->next)
    for (size_t i = 0; i < f->body->num_args; i++) {
      size_t k = 0;
      if (msc_arg_role(f, i) > MSC_ROLE_MASK) continue;
      while (k < num && strcmp(seen[k], intern_argument_name(p, f, i))) k++;
      if (k < num) continue;
      seen[num++] = intern_argument_name(p, f, i);
      bytes = msc_round_to_lines(bytes + (uint64_t)msc_type_bytes(f->body->args[i]->type));
    }
  return bytes;
}

static plan_ref place_input(calling *c, size_t i, const char *name, uint64_t bytes) {
  msc_plan *p = c->p;
  msc_plan_variable *v = find_input(p, name);
  if (!v) v = list_variable(c, false, i, name, reserve_bytes(&p->input_stride, bytes, PLAN_SPACE_INPUT));
  note_reader(p, v, c->section->stage);
  c->section->inputs = true;
  const msc_attr_value *copy = msc_arg_attr(c->f, i, MSC_FACT(msc_copy));
  plan_ref ref = v->ref;
  if (copy) ref.offset += (uint64_t)copy->i * input_stride(p);
  return ref;
}

static int64_t chunk_of(const msc_func *f) { return msc_fact_read(f, chunk, 0); }

/* Places a sum over micro-batches or a carried value; all uses of one name in a stage get the same place. */
static plan_ref place_inner(calling *c, const char *name, uint64_t bytes, uint64_t *end, uint8_t space) {
  for (size_t k = 0; k < c->num_inner; k++)
    if (c->inner[k].name == name && c->inner[k].stage == c->section->stage) return c->inner[k].ref;
  msc_grow(c->p->arena, c->inner, c->num_inner);
  inner_place *v = &c->inner[c->num_inner++];
  *v = (inner_place){name, c->section->stage, chunk_of(c->f), reserve_bytes(end, bytes, space)};
  return v->ref;
}

/* Places a carried value in the slot of its micro-batch.  Chunks share slots, so their values may overlap. */
static plan_ref place_carried(calling *c, size_t i, const char *name, uint64_t bytes, msc_plan_stage *stage) {
  msc_slot_class k = msc_fact_read(&c->f->arg[i], msc_class, MSC_SLOT_BW);
  uint8_t space = (uint8_t)(PLAN_SPACE_CARRIED_FB + (int)k);
  uint64_t end = 0;
  for (size_t n = 0; n < c->num_inner; n++) {
    const inner_place *v = &c->inner[n];
    uint64_t its = msc_round_to_lines(v->ref.offset + v->ref.bytes);
    if (v->ref.space == space && v->stage == c->section->stage && v->chunk == chunk_of(c->f) && its > end) end = its;
  }
  plan_ref ref = place_inner(c, name, bytes, &end, space);
  if (end > stage->carried_stride[k]) stage->carried_stride[k] = end;
  return ref;
}

/* Places a value in host memory or on disk, behind *end. A disk is read and written in pages. */
static plan_ref place_away(uint64_t *end, uint64_t bytes, msc_home home) {
  enum { PAGE = 4096 };
  plan_ref ref = reserve_bytes(end, bytes, home == MSC_HOME_CPU ? PLAN_SPACE_HOST : PLAN_SPACE_DISK);
  if (home == MSC_HOME_DISK) *end = (*end + PAGE - 1) / PAGE * PAGE;
  return ref;
}

/* True if section P of the stage makes the value of this name. */
static bool is_prepared(const calling *c, const char *name) {
  const msc_func *f = msc_find_section(c->f->module, MSC_PROGRAM_TRAIN, MSC_SECTION_P, c->section->stage, 0);
  for (size_t i = 0; f && i < f->body->num_args; i++)
    if (msc_arg_role(f, i) == MSC_ROLE_SUM && !strcmp(intern_argument_name(c->p, f, i), name)) return true;
  return false;
}

/* ---- tables with a cache ---- */

/* Returns the cache of the table of this name on the section's stage; NULL: there is none yet. */
static msc_plan_cache *find_cache(const calling *c, const char *table) {
  for (size_t i = 0; i < c->p->num_caches; i++)
    if (c->p->cache[i].table == table && c->p->cache[i].stage == c->section->stage) return &c->p->cache[i];
  return NULL;
}

static msc_plan_cache *list_cache(calling *c, const char *table, uint64_t rows, uint64_t whole) {
  msc_plan *p = c->p;
  msc_plan_cache *old = find_cache(c, table);
  if (old) return old;
  msc_grow(p->arena, p->cache, p->num_caches);
  msc_plan_cache *k = &p->cache[p->num_caches++];
  *k = (msc_plan_cache){.table = table, .stage = c->section->stage, .num = 1, .rows = rows, .whole = whole};
  k->index = place_away(&p->stage[k->stage].home_bytes[MSC_HOME_CPU], msc_row_index_bytes(whole, rows), MSC_HOME_CPU);
  return k;
}

/* Places a table, or its state, of which the device holds only some rows: returns where these rows are on the
 * device. */
static plan_ref place_cached(calling *c, size_t i, const char *name, msc_home home) {
  msc_plan *p = c->p;
  msc_plan_stage *stage = &p->stage[c->section->stage];
  const msc_type *t = c->f->body->args[i]->type;
  const msc_attr_value *owner = msc_arg_attr(c->f, i, MSC_FACT(msc_owner));
  bool is_state = msc_arg_role(c->f, i) == MSC_ROLE_STATE;
  uint64_t whole = (uint64_t)msc_arg_attr(c->f, i, MSC_FACT(msc_cached))->i, rows = (uint64_t)t->dim[0],
           bytes = (uint64_t)msc_type_bytes(t);
  msc_plan_cache *k = list_cache(c, is_state && owner ? msc_intern(p->ctx, owner->s) : name, rows, whole);
  const msc_plan_variable *old = find_kept(c, name);
  for (size_t n = 0; old && n < k->num; n++)
    if (k->parameter[n] == (uint32_t)(old - p->parameter)) return k->at[n];
  size_t n = is_state ? k->num++ : 0;
  k->at[n] = reserve_bytes(&stage->persistent_bytes, bytes, PLAN_SPACE_PERSISTENT);
  old = list_variable(c, true, i, name, place_away(&stage->home_bytes[home], bytes / rows * whole, home));
  k->parameter[n] = (uint32_t)(old - p->parameter);
  return k->at[n];
}

static plan_ref place_argument(calling *c, size_t i) {
  msc_plan *p = c->p;
  const char *name = intern_argument_name(p, c->f, i);
  uint64_t bytes = (uint64_t)msc_type_bytes(c->f->body->args[i]->type);
  msc_plan_stage *stage = &p->stage[c->section->stage];
  msc_role role = msc_arg_role(c->f, i);
  if (role == MSC_ROLE_CARRIED) return place_carried(c, i, name, bytes, stage);
  if (role == MSC_ROLE_SUM) {
    if (msc_home_said(c->f, i) == MSC_HOME_CPU)
      return place_inner(c, name, bytes, &stage->home_bytes[MSC_HOME_CPU], PLAN_SPACE_HOST);
    uint64_t before = stage->persistent_bytes;
    plan_ref ref = place_inner(c, name, bytes, &stage->persistent_bytes, PLAN_SPACE_PERSISTENT);
    if (stage->persistent_bytes > before) *(is_prepared(c, name) ? &stage->copy_bytes : &stage->sum_bytes) += bytes;
    return ref;
  }
  if (role == MSC_ROLE_MICRO) {
    if (stage->micro == UINT64_MAX)
      stage->micro = reserve_bytes(&stage->persistent_bytes, bytes, PLAN_SPACE_PERSISTENT).offset;
    return (plan_ref){.offset = stage->micro, .bytes = bytes, .space = PLAN_SPACE_PERSISTENT};
  }
  if (role != MSC_ROLE_PARAMETER && role != MSC_ROLE_STATE) return place_input(c, i, name, bytes);
  msc_plan_variable *old = find_kept(c, name);
  msc_home home = msc_home_said(c->f, i);
  if (msc_arg_attr(c->f, i, MSC_FACT(msc_cached))) return place_cached(c, i, name, home);
  if (old) return old->ref;
  if (home != MSC_HOME_DEVICE)
    return list_variable(c, true, i, name, place_away(&stage->home_bytes[home], bytes, home))->ref;
  return list_variable(c, true, i, name, reserve_bytes(&stage->persistent_bytes, bytes, PLAN_SPACE_PERSISTENT))->ref;
}

/* ---- values ---- */

static uint64_t put_constant(calling *c, const msc_op *op) {
  msc_plan *p = c->p;
  const msc_attr_value *v = msc_op_attr(op, "value");
  uint64_t bytes = (uint64_t)msc_type_bytes(op->out[0].type), at = p->constant_bytes,
           end = msc_round_to_lines(at + bytes);
  if (end > c->room_constants) {
    c->room_constants = 2 * end;
    unsigned char *more = msc_arena_alloc(p->arena, c->room_constants);
    if (at) memcpy(more, p->constants, at);
    p->constants = more;
  }
  for (uint64_t i = 0; i < bytes; i += v->dense.bytes) memcpy(p->constants + at + i, v->dense.data, v->dense.bytes);
  p->constant_bytes = end;
  return at;
}

static plan_ref place_in_scratch(const calling *c, bool on_host, uint64_t offset, uint64_t bytes) {
  return (plan_ref){.offset = on_host ? c->host_at + offset : offset,
                    .bytes = bytes,
                    .space = on_host ? PLAN_SPACE_HOST : PLAN_SPACE_SCRATCH};
}

static plan_ref place_of_value(calling *c, const msc_value *v, bool written) {
  plan_ref ref;
  if (!v->def) {
    ref = c->arg[v->index];
  } else if (msc_is_constant(v)) {
    msc_memory m = msc_memory_of(v);
    uint64_t offset = c->constant[m.root->def->id] + (uint64_t)(m.shift * msc_dtype_bytes(v->type->dtype));
    ref = (plan_ref){.offset = offset, .bytes = (uint64_t)msc_type_bytes(v->type), .space = PLAN_SPACE_CONSTANT};
  } else if (v->def->kind == OP_stash && msc_op_home(v->def) == MSC_HOME_DISK) {
    ref = (plan_ref){.offset = c->stashed + (uint64_t)msc_op_int(v->def, "slot"),
                     .bytes = (uint64_t)msc_type_bytes(v->type),
                     .space = PLAN_SPACE_DISK};
  } else if (v->def->kind == OP_gemm && msc_op_int(v->def, "tile")) {
    ref = (plan_ref){.bytes = (uint64_t)msc_dtype_bytes(v->type->dtype), .space = PLAN_SPACE_TILE};
  } else {
    int64_t place = msc_op_attr(v->def, MSC_FACT(place))->list.v[v->index].i;
    if (place < 0) ref = c->arg[-1 - place];
    else ref = place_in_scratch(c, msc_is_made_on_host(v), (uint64_t)place, (uint64_t)msc_type_bytes(v->type));
  }
  ref.written = written;
  return ref;
}

static msc_plan_call *new_call(calling *c, uint8_t kind, const msc_op *op) {
  msc_plan_section *s = c->section;
  msc_grow(c->p->arena, s->call, s->num_calls);
  msc_plan_call *call = &s->call[s->num_calls++];
  memset(call, 0, sizeof *call);
  call->kind = kind;
  call->op = op;
  call->served = (uint8_t)msc_op_int(op, MSC_FACT(served));
  c->p->served |= call->served > 0;
  return call;
}

/* ---- kernels ---- */

/* Lists the buffers of all launches of an op: operands, results, working memory, error flag. */
static const plan_ref *kernel_buffers(calling *c, const msc_op *op, const msc_kernel_call *k) {
  plan_ref *b = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out + 2);
  size_t num = 0, operands = op->num_in + op->num_out;
  bool on_host = msc_runs_on_host(op);
  for (size_t i = 0; i < op->num_in; i++) b[num++] = place_of_value(c, op->in[i].value, false);
  for (size_t i = 0; i < op->num_out; i++) b[num++] = place_of_value(c, &op->out[i], true);
  if (k->scratch_bytes)
    b[num++] = place_in_scratch(c, on_host, (uint64_t)msc_op_int(op, MSC_FACT(work)), k->scratch_bytes);
  if (k->checks) b[num++] = place_in_scratch(c, on_host, on_host ? c->host_scratch : c->scratch, 4);
  for (size_t i = operands; i < num; i++) b[i].written = true;
  return b;
}

static void fill_launch(calling *c, msc_plan_call *call, const msc_op *op, const plan_ref *all, const msc_launch *l) {
  call->kind = msc_runs_on_host(op) ? PLAN_CALL_KIND_HOST_KERNEL : PLAN_CALL_KIND_KERNEL;
  call->op = op;
  call->index = l->kernel;
  call->launch = l;
  call->buffer = msc_new_array(c->p->arena, plan_ref, l->num_buffers + 1);
  call->num_buffers = l->num_buffers;
  for (size_t i = 0; i < l->num_buffers; i++) call->buffer[i] = all[l->buffer[i]];
  call->bytes = l->bytes;
  call->flops = l->flops;
  call->grid = msc_plan_grid(l->extent, l->grain, l->threads);
  call->checks = l->checks;
}

/* Reports a launch that has more blocks than a grid may have, because a block computes only its own items. */
static bool check_units(const msc_op *op, const msc_launch *l) {
  const msc_target *target = msc_target_of_op(op);
  uint64_t units = ((uint64_t)l->extent + (uint64_t)l->grain - 1) / (uint64_t)l->grain;
  return units <= target->most_units ||
         msc_op_error(op, MSC_E_UNSUPPORTED,
                      "its kernel works on %" PRIu64 " parts, and at most %" PRIu64 " can be launched at once on %s",
                      units, target->most_units, target->name);
}

static bool call_kernel(calling *c, const msc_op *op) {
  msc_kernel_call k;
  MSC_TRY(msc_codegen_add(msc_runs_on_host(op) ? c->host : c->cg, op, &k));
  for (size_t i = 0; i < k.num_launches; i++) MSC_TRY(check_units(op, &k.launch[i]));
  const plan_ref *all = kernel_buffers(c, op, &k);
  for (size_t i = 0; i < k.num_launches; i++)
    fill_launch(c, new_call(c, PLAN_CALL_KIND_KERNEL, op), op, all, &k.launch[i]);
  return true;
}

/* ---- products ---- */

/* The operands of a product whose buffers follow those of a, b and c. */
static const msc_gemm_extra behind[] = {MSC_GEMM_BIAS, MSC_GEMM_ADD, MSC_GEMM_AUX, MSC_GEMM_SUM_A, MSC_GEMM_SUM_B};

static void add_further_buffers(calling *c, const msc_op *op, msc_plan_call *call) {
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
    const msc_value *read = msc_gemm_operand(op, behind[i]), *written = msc_gemm_result(op, behind[i]);
    if (read || written) call->buffer[call->num_buffers++] = place_of_value(c, read ? read : written, !read);
  }
}

static uint32_t number_matmul(msc_plan *p, const msc_plan_matmul *m) {
  for (size_t i = 0; i < p->num_matmuls; i++)
    if (memcmp(&p->matmul[i], m, sizeof *m) == 0) return (uint32_t)i;
  msc_grow(p->arena, p->matmul, p->num_matmuls);
  p->matmul[p->num_matmuls] = *m;
  return (uint32_t)p->num_matmuls++;
}

/* Lists the buffers of the op that does the rest of a gemm.  Its working memory is the library's workspace. */
static const plan_ref *rest_buffers(calling *c, const msc_op *rest, msc_value *const *result, uint64_t scratch_bytes) {
  plan_ref *all = msc_new_array(c->p->arena, plan_ref, rest->num_in + rest->num_out + 1);
  size_t num = 0;
  for (size_t i = 0; i < rest->num_in; i++) all[num++] = place_of_value(c, rest->in[i].value, false);
  for (size_t i = 0; i < rest->num_out; i++) all[num++] = place_of_value(c, result[i], true);
  all[num] = (plan_ref){.bytes = scratch_bytes, .space = PLAN_SPACE_TILE, .written = true};
  return all;
}

/* Gives a call of a GPU's library the kernels that do what the library does besides the product, for a library that
 * refuses to, or takes longer. */
static bool add_rest(calling *c, msc_op *gemm, msc_plan_call *call) {
  msc_op *rest;
  msc_value *result[MSC_REST_RESULTS];
  msc_kernel_call k;
  MSC_TRY(msc_insert_rest(gemm, &rest, result));
  if (!rest) return true;
  bool ok = msc_codegen_add(c->cg, rest, &k);
  const plan_ref *all = ok ? rest_buffers(c, rest, result, k.scratch_bytes) : NULL;
  for (size_t i = 0; ok && i < k.num_launches && k.scratch_bytes <= c->p->workspace_bytes; i++) {
    ok = check_units(gemm, &k.launch[i]);
    call = call->epilogue = msc_new(c->p->arena, msc_plan_call);
    fill_launch(c, call, gemm, all, &k.launch[i]);
    call->bytes = call->flops = 0; /* those of the product's call are of all that it does */
  }
  msc_op_erase(rest);
  return ok;
}

static bool call_matmul(calling *c, const msc_op *op) {
  msc_plan_matmul m;
  const msc_target *target = msc_target_of(c->p->module);
  memset(&m, 0, sizeof m); /* clears the padding, too: equal products are found by their bytes */
  MSC_TRY(msc_plan_product(c->cg, op, target, &m));
  if (c->p->workspace_bytes < target->product_workspace) c->p->workspace_bytes = target->product_workspace;
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_MATMUL, op);
  call->index = number_matmul(c->p, &m);
  call->buffer = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out);
  for (size_t i = 0; i < 2; i++) call->buffer[i] = place_of_value(c, op->in[i].value, false);
  call->buffer[2] = place_of_value(c, &op->out[0], true);
  if (m.tile_bytes) call->buffer[2].bytes = m.tile_bytes;
  call->num_buffers = 3;
  add_further_buffers(c, op, call);
  call->flops = (uint64_t)msc_op_flops(op, c->p->arena);
  call->bytes = (m.batch * m.m * m.k + m.batch * m.k * m.n + m.batch * m.m * m.n) * (uint64_t)msc_dtype_bytes(m.dtype);
  if (target->is_gpu) return add_rest(c, (msc_op *)(uintptr_t)op, call);
  if (!m.tile_bytes) return true;
  msc_kernel_call k;
  MSC_TRY(msc_codegen_add(c->cg, op->next, &k));
  call->epilogue = msc_new(c->p->arena, msc_plan_call);
  fill_launch(c, call->epilogue, op->next, kernel_buffers(c, op->next, &k), &k.launch[0]);
  return true;
}

/* ---- graphs of a GPU's library ---- */

static uint32_t number_graph(msc_plan *p, const msc_plan_graph *g) {
  for (size_t i = 0; i < p->num_graphs; i++)
    if (memcmp(&p->graph[i], g, sizeof *g) == 0) return (uint32_t)i;
  msc_grow(p->arena, p->graph, p->num_graphs);
  p->graph[p->num_graphs] = *g;
  return (uint32_t)p->num_graphs++;
}

/* Returns the bytes from the first element of an operand to its last; elements of other values may lie between. */
static uint64_t operand_span(const msc_plan_operand *o) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += (o->shape[d] - 1) * o->stride[d];
  return (last + 1) * (uint64_t)msc_dtype_bytes(o->dtype);
}

static bool call_graph(calling *c, const msc_op *op) {
  msc_plan_graph g;
  msc_plan_graph_of(op, &g);
  if (msc_target_of(c->p->module)->graphs_have_kernels) MSC_TRY(msc_plan_graph_kernels(c->cg, op, &g));
  else if (c->p->workspace_bytes < g.bytes) c->p->workspace_bytes = g.bytes;
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_GRAPH, op);
  call->index = number_graph(c->p, &g);
  call->buffer = msc_new_array(c->p->arena, plan_ref, op->num_in + op->num_out);
  for (size_t i = 0; i < op->num_in; i++) call->buffer[call->num_buffers++] = place_of_value(c, op->in[i].value, false);
  for (size_t i = 0; i < op->num_out; i++) call->buffer[call->num_buffers++] = place_of_value(c, &op->out[i], true);
  for (size_t i = 0; i < call->num_buffers; i++) call->buffer[i].bytes = operand_span(&g.operand[i]);
  call->flops = (uint64_t)msc_op_flops(op, c->p->arena);
  call->bytes = (uint64_t)msc_graph_bytes(op);
  return true;
}

/* ---- collectives ---- */

static uint8_t verb_in_plan(const msc_op *comm) {
  msc_verb v = msc_op_verb(comm);
  return (uint8_t)(v == MSC_SHARD ? MSC_EXCHANGE : v);
}

static void set_collective_axes(msc_plan_collective *v, const msc_layout *group) {
  v->num_axes = group->first[1];
  for (size_t i = 0; i < v->num_axes; i++)
    v->axis[i] = (plan_sub_axis){group->sub[i].axis, group->sub[i].pre, group->sub[i].size};
}

static msc_plan_collective collective_without_layouts(const msc_op *op) {
  return (msc_plan_collective){.verb = verb_in_plan(op),
                               .dtype = op->in[0].value->type->dtype,
                               .from = UINT32_MAX,
                               .to = UINT32_MAX,
                               .reduction = msc_op_reduction(op)};
}

static msc_plan_collective collective_of_layouts(msc_plan *p, const msc_op *op, const msc_comm_part *part) {
  msc_plan_collective v = collective_without_layouts(op);
  int64_t halo[3] = {0};
  v.rank = part->from->rank;
  for (int d = 0; d < v.rank; d++) v.shape[d] = (uint64_t)part->shape[d];
  v.from = msc_plan_layout(p, part->from);
  v.to = msc_plan_layout(p, part->to);
  if (part->order) set_collective_axes(&v, part->order);
  msc_op_ints(op, "halo", halo, 3);
  v.halo_dim = (uint32_t)halo[0], v.halo_lo = (uint64_t)halo[1], v.halo_hi = (uint64_t)halo[2];
  return v;
}

/* Returns the collective of an op whose operands have no layouts: a broadcast, or exchanges between pairs. */
static msc_plan_collective collective_of_group(msc_plan *p, const msc_op *op) {
  msc_plan_collective v = collective_without_layouts(op);
  const msc_type *x = op->in[0].value->type;
  v.rank = x->rank;
  for (int d = 0; d < v.rank; d++) v.shape[d] = (uint64_t)x->dim[d];
  v.root = (uint32_t)msc_op_int(op, "root");
  set_collective_axes(&v, msc_op_layout(op, "axes"));
  int n = msc_op_ints(op, "pairs", NULL, 0);
  v.num_pairs = n < 0 ? 0 : (size_t)n;
  v.pair = msc_new_array(p->arena, uint32_t, v.num_pairs);
  for (size_t i = 0; i < v.num_pairs; i++) v.pair[i] = (uint32_t)msc_op_attr(op, "pairs")->list.v[i].i;
  return v;
}

static bool same_collective(const msc_plan_collective *a, const msc_plan_collective *b) {
  return a->verb == b->verb && a->dtype == b->dtype && a->rank == b->rank && a->from == b->from && a->to == b->to &&
         a->reduction == b->reduction && a->root == b->root && a->halo_dim == b->halo_dim && a->halo_lo == b->halo_lo &&
         a->halo_hi == b->halo_hi && a->num_axes == b->num_axes && a->num_pairs == b->num_pairs &&
         memcmp(a->shape, b->shape, sizeof a->shape) == 0 && memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
         (a->num_pairs == 0 || memcmp(a->pair, b->pair, a->num_pairs * sizeof *a->pair) == 0) &&
         a->num_members == b->num_members &&
         (a->num_members == 0 || memcmp(a->member, b->member, a->num_members * sizeof *a->member) == 0);
}

/* Returns the number of a collective in the plan; equal collectives share an entry. */
static uint32_t number_collective(msc_plan *p, const msc_plan_collective *v) {
  for (size_t i = 0; i < p->num_collectives; i++)
    if (same_collective(&p->collective[i], v)) return (uint32_t)i;
  msc_grow(p->arena, p->collective, p->num_collectives);
  p->collective[p->num_collectives] = *v;
  return (uint32_t)p->num_collectives++;
}

/* Numbers the collectives of the op: one for each value, and one for all values together. */
static bool number_op(calling *c, const msc_op *op, msc_plan_call *call) {
  msc_plan *p = c->p;
  if (msc_op_attr(op, "axes")) {
    msc_plan_collective v = collective_of_group(p, op);
    call->bytes = (uint64_t)msc_received_bytes(op, 0, NULL, NULL);
    call->index = number_collective(p, &v);
    return true;
  }
  const msc_comm_part *part = msc_comm_parts(op, p->arena);
  MSC_TRY(part);
  uint32_t *member = msc_new_array(p->arena, uint32_t, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    msc_plan_collective v = collective_of_layouts(p, op, &part[i]);
    call->bytes += (uint64_t)msc_received_bytes(op, i, part[i].from, part[i].to);
    member[i] = number_collective(p, &v);
  }
  msc_plan_collective all = collective_without_layouts(op);
  all.num_members = op->num_in, all.member = member;
  call->index = op->num_in == 1 ? member[0] : number_collective(p, &all);
  return true;
}

static void note_transfer(calling *c, const msc_op *op, const msc_plan_call *call) {
  msc_plan *p = c->p;
  const msc_plan_collective *v = &p->collective[call->index],
                            *first = v->num_members ? &p->collective[v->member[0]] : v;
  const msc_layout *from = first->from == UINT32_MAX ? NULL : p->layout[first->from],
                   *to = from ? p->layout[first->to] : NULL;
  msc_grow(p->arena, p->transfer, p->num_transfers);
  msc_plan_transfer *t = &p->transfer[p->num_transfers++];
  *t = (msc_plan_transfer){.section = (uint32_t)(c->section - p->section),
                           .call = (uint32_t)c->section->num_calls - 1,
                           .verb = v->verb,
                           .bytes = call->bytes};
  t->num_digits = msc_transfer_digits(&p->module->mesh, op, p->arena, t->digit);
  t->axes = msc_subaxis_print(p->arena, &p->module->mesh, t->num_digits, t->digit);
  t->from = from, t->to = to;
  t->value = op->name ? op->name : "";
}

static bool call_collective(calling *c, const msc_op *op) {
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_COLLECTIVE, op);
  MSC_TRY(number_op(c, op, call));
  call->num_buffers = 2 * (size_t)op->num_in;
  call->buffer = msc_new_array(c->p->arena, plan_ref, call->num_buffers);
  for (size_t i = 0; i < op->num_in; i++) {
    call->buffer[2 * i] = place_of_value(c, op->in[i].value, false);
    call->buffer[2 * i + 1] = place_of_value(c, &op->out[i], true);
  }
  if (msc_op_verb(op) != MSC_SHARD) note_transfer(c, op, call);
  return true;
}

/* ---- transfers ---- */

static bool call_transfer(calling *c, const msc_op *op) {
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_TRANSFER, op);
  call->num_buffers = 2;
  call->buffer = msc_new_array(c->p->arena, plan_ref, 2);
  call->buffer[0] = place_of_value(c, op->in[op->kind == OP_stow].value, false);
  call->buffer[1] = place_of_value(c, &op->out[0], true);
  call->bytes = (uint64_t)msc_type_bytes(op->out[0].type);
  return true;
}

/* Adds the call that brings rows of a table with a cache to the device. Its bytes are those of the rows expected to be
 * missing, with their state, and of as many rows that are written back. */
static bool call_admit(calling *c, const msc_op *op) {
  msc_plan *p = c->p;
  msc_plan_cache *k = find_cache(c, msc_intern(p->ctx, msc_op_str(op, "table")));
  msc_launch *l = msc_new(p->arena, msc_launch);
  int64_t *dims = msc_new_array(p->arena, int64_t, op->num_in + 1);
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_ADMIT, op);
  bool updates = msc_op_bool(op, "updates");
  uint64_t row = 0;
  const msc_type *last = op->in[op->num_in - 1].value->type;
  call->index = (uint32_t)(k - p->cache);
  call->buffer = msc_new_array(p->arena, plan_ref, 2 * op->num_in);
  call->num_buffers = 2 * op->num_in;
  dims[0] = updates;
  for (size_t i = 0; i < op->num_in; i++) {
    call->buffer[i] = place_of_value(c, op->in[i].value, false);
    call->buffer[op->num_in + i] = place_of_value(c, &op->out[i], true);
    dims[i + 1] = op->in[i].value->type->dtype;
    if (!updates || i == 0) call->flops += (uint64_t)msc_type_elems(op->in[i].value->type);
  }
  *l = (msc_launch){.extent = 1, .grain = 1, .num_dims = op->num_in + 1, .dims = dims};
  call->launch = l;
  if (updates || !k->numbers) k->numbers = call->flops, k->columns = last->rank > 1 ? last->dim[last->rank - 1] : 1;
  for (size_t i = 0; i < k->num; i++) row += k->at[i].bytes / k->rows;
  call->bytes = 16 * call->flops + (uint64_t)(2 * msc_expected_misses(k->whole, k->rows, (double)call->flops)) * row;
  return true;
}

/* Reserves memory of the host and on disk for what the section makes there, or moves there; each section has its
 * own. */
static void place_away_from_device(calling *c) {
  uint64_t *end = c->p->stage[c->section->stage].home_bytes, disk = (uint64_t)msc_fact_read(c->f, stashed, 0);
  c->host_scratch = (uint64_t)msc_fact_read(c->f, host_scratch, 0);
  if (disk) c->stashed = place_away(&end[MSC_HOME_DISK], disk, MSC_HOME_DISK).offset;
  bool any = c->host_scratch > 0;
  for (const msc_op *op = c->f->body->first; op && !any; op = op->next) any = msc_runs_on_host(op);
  if (any) c->host_at = place_away(&end[MSC_HOME_CPU], c->host_scratch + MSC_FLAG_BYTES, MSC_HOME_CPU).offset;
}

/* ---- sections ---- */

static bool call_message(calling *c, const msc_op *op) {
  msc_plan *p = c->p;
  bool sends = op->num_in;
  uint32_t number = (uint32_t)msc_op_int(op, "message"), other = (uint32_t)msc_op_int(op, MSC_FACT(stage)),
           own = c->section->stage;
  const msc_value *v = sends ? op->in[0].value : &op->out[0];
  while (p->num_messages <= number) {
    msc_grow(p->arena, p->message, p->num_messages);
    p->message[p->num_messages++] = (msc_plan_message){0};
  }
  p->message[number] =
      (msc_plan_message){sends ? own : other, sends ? other : own, DEPTH, (uint64_t)msc_type_bytes(v->type)};
  msc_plan_call *call = new_call(c, PLAN_CALL_KIND_MESSAGE, op);
  call->index = number;
  call->buffer = msc_new_array(p->arena, plan_ref, 1);
  call->buffer[0] = place_of_value(c, v, !sends);
  call->num_buffers = 1;
  call->bytes = (uint64_t)msc_type_bytes(v->type);
  return true;
}

static bool call_op(calling *c, const msc_op *op) {
  if (msc_is_graph(op)) return call_graph(c, op);
  if (msc_is_view(op) || msc_moves_nothing(op)) return true;
  if (msc_is_message(op)) return call_message(c, op);
  if (msc_is_transfer(op)) return call_transfer(c, op);
  switch (op->kind) {
    case OP_return: return true;
    case OP_constant: c->constant[op->id] = put_constant(c, op); return true;
    case OP_comm: return call_collective(c, op);
    case OP_gemm: return call_matmul(c, op);
    case OP_admit: return call_admit(c, op);
    default: break;
  }
  bool epilogue = op->prev && op->prev->kind == OP_gemm && msc_op_int(op->prev, "tile");
  return epilogue || call_kernel(c, op);
}

/* Adds copies of results that are the new value of an argument but do not lie in its place. */
static bool copy_ties(calling *c) {
  const msc_op *ret = c->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(c->f, i);
    if (arg < 0) continue;
    plan_ref from = place_of_value(c, ret->in[i].value, false), to = c->arg[arg];
    if (from.space == to.space && from.offset == to.offset) continue;
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (from.space == PLAN_SPACE_HOST || to.space == PLAN_SPACE_HOST)
      return msc_op_error(ret, MSC_E_INTERNAL, "what the host updates does not lie where it did");
    if (msc_arg_attr(c->f, (size_t)arg, MSC_FACT(msc_cached)))
      return msc_op_error(ret, MSC_E_INTERNAL, "updated rows of a cache do not lie where they did");
    if (maker && msc_op_int(maker, MSC_FACT(served)) == 1)
      return msc_op_error(maker, MSC_E_INTERNAL, "what a server updates does not lie where the parameter does");
    const msc_type *t = ret->in[i].value->type;
    msc_plan_collective v = {.verb = MSC_EXCHANGE, .dtype = t->dtype, .rank = t->rank};
    for (int d = 0; d < t->rank; d++) v.shape[d] = (uint64_t)t->dim[d];
    v.from = v.to = msc_plan_layout(c->p, msc_layout_replicated(c->p->ctx, t->rank));
    msc_plan_call *call = new_call(c, PLAN_CALL_KIND_COLLECTIVE, ret);
    call->index = number_collective(c->p, &v);
    call->buffer = msc_new_array(c->p->arena, plan_ref, 2);
    call->buffer[0] = from;
    call->buffer[1] = to;
    call->buffer[1].written = true;
    call->num_buffers = 2;
  }
  return true;
}

/* Sets what pass outputs has noted about the model's result of this name. */
static void note_batch(const calling *c, msc_plan_output *o) {
  const msc_module *m = c->f->module;
  const msc_attr_value *all = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_outputs));
  o->batch_dim = -1;
  for (size_t i = 0; all && i < all->list.num; i++) {
    const msc_attr_value *v = all->list.v[i].list.v;
    if (strcmp(v[0].s, o->name)) continue;
    o->batch_dim = (int)v[1].i;
    o->labels = v[2].b;
  }
}

static void note_outputs(calling *c) {
  msc_plan *p = c->p;
  const msc_op *ret = c->f->body->last;
  const msc_attr_value *names = msc_func_attr(c->f, MSC_FACT(results)), *loss = msc_func_attr(c->f, MSC_FACT(loss));
  const msc_attr_value *layouts = msc_func_attr(c->f, MSC_FACT(result_layouts)),
                       *shapes = msc_func_attr(c->f, MSC_FACT(result_shapes));
  for (size_t i = 0; i < ret->num_in; i++) {
    if (msc_tied_argument(c->f, i) >= 0) continue;
    msc_grow(p->arena, p->output, p->num_outputs);
    msc_plan_output *o = &p->output[p->num_outputs++];
    o->name = names && i < names->list.num ? names->list.v[i].s : msc_arena_printf(p->arena, "result%zu", i);
    o->program = c->program;
    o->stage = c->section->stage;
    o->global = global_type(p, ret->in[i].value->type, shapes ? &shapes->list.v[i] : NULL,
                            layouts ? &layouts->list.v[i] : NULL);
    o->ref = place_of_value(c, ret->in[i].value, false);
    o->loss = loss && (size_t)loss->i == i;
    note_batch(c, o);
  }
}

msc_plan_calls *msc_plan_calls_begin(msc_plan *p, msc_codegen *cg, msc_codegen *host) {
  calling *c = msc_new(p->arena, calling);
  c->p = p, c->cg = cg, c->host = host, c->kept.index.arena = p->arena;
  return c;
}

bool msc_plan_add_section(msc_plan_calls *c, msc_func *f, uint32_t program) {
  msc_plan *p = c->p;
  msc_numbering n = msc_number(f->body);
  msc_grow(p->arena, p->section, p->num_sections);
  c->f = f, c->program = program;
  c->section = &p->section[p->num_sections++];
  *c->section = (msc_plan_section){.func = f,
                                   .name = f->name,
                                   .stage = (uint32_t)msc_fact_read(f, stage, 0),
                                   .copies = (uint32_t)msc_fact_read(f, copies, 1)};
  c->arg = msc_new_array(p->arena, plan_ref, f->body->num_args);
  c->constant = msc_new_array(p->arena, uint64_t, n.num_ops);
  c->scratch = (uint64_t)msc_fact_read(f, scratch, 0);
  c->section->scratch_bytes = c->scratch + MSC_FLAG_BYTES;
  for (size_t i = 0; i < f->body->num_args; i++) c->arg[i] = place_argument(c, i);
  place_away_from_device(c);
  for (const msc_op *op = f->body->first; op; op = op->next) MSC_TRY(call_op(c, op));
  MSC_TRY(copy_ties(c));
  note_outputs(c);
  if (msc_target_of(p->module)->is_host) msc_plan_find_chains(p, c->section);
  return true;
}
