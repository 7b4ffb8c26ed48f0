/* places.c: an argument, a constant or a value of a section in; its place in memory out. */
#include <string.h>

#include "codegen/plan/section.h"
#include "ir/abi/row_cache.h"
#include "ir/alias.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/8_memory/peak.h"

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

const msc_type *msc_plan_global_type(const msc_plan *p, const msc_type *local, const msc_attr_value *shape,
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
  v->global = msc_plan_global_type(p, f->body->args[i]->type, msc_arg_attr(f, i, MSC_FACT(msc_shape)),
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

msc_plan_cache *msc_plan_find_cache(const calling *c, const char *table) {
  for (size_t i = 0; i < c->p->num_caches; i++)
    if (c->p->cache[i].table == table && c->p->cache[i].stage == c->section->stage) return &c->p->cache[i];
  return NULL;
}

static msc_plan_cache *list_cache(calling *c, const char *table, uint64_t rows, uint64_t whole) {
  msc_plan *p = c->p;
  msc_plan_cache *old = msc_plan_find_cache(c, table);
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

void msc_plan_place_pools(calling *c) {
  for (size_t i = 0; i < c->p->num_caches; i++) {
    msc_plan_cache *k = &c->p->cache[i];
    uint64_t row_bytes[MSC_MOST_CACHED];
    if (!k->swaps) continue;
    for (size_t n = 0; n < k->num; n++) {
      row_bytes[n] = k->at[n].bytes / k->rows;
      k->kernel[n] = msc_codegen_swap(c->cg, row_bytes[n]);
    }
    k->pool = place_away(&c->p->stage[k->stage].home_bytes[MSC_HOME_CPU],
                         msc_row_pool_at(k->swaps, (uint32_t)k->num, row_bytes), MSC_HOME_CPU);
  }
}

plan_ref msc_plan_place_argument(calling *c, size_t i) {
  msc_plan *p = c->p;
  const char *name = intern_argument_name(p, c->f, i);
  uint64_t bytes = (uint64_t)msc_type_bytes(c->f->body->args[i]->type);
  msc_plan_stage *stage = &p->stage[c->section->stage];
  msc_role role = msc_arg_role(c->f, i);
  if (role == MSC_ROLE_CARRIED) return place_carried(c, i, name, bytes, stage);
  if (role == MSC_ROLE_SUM || role == MSC_ROLE_COPY) {
    if (msc_home_said(c->f, i) == MSC_HOME_CPU)
      return place_inner(c, name, bytes, &stage->home_bytes[MSC_HOME_CPU], PLAN_SPACE_HOST);
    uint64_t before = stage->persistent_bytes;
    plan_ref ref = place_inner(c, name, bytes, &stage->persistent_bytes, PLAN_SPACE_PERSISTENT);
    bool copy = role == MSC_ROLE_COPY || is_prepared(c, name);
    if (stage->persistent_bytes > before) *(copy ? &stage->copy_bytes : &stage->sum_bytes) += bytes;
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

uint64_t msc_plan_put_constant(calling *c, const msc_op *op) {
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

plan_ref msc_plan_place_in_scratch(const calling *c, bool on_host, uint64_t offset, uint64_t bytes) {
  return (plan_ref){.offset = on_host ? c->host_at + offset : offset,
                    .bytes = bytes,
                    .space = on_host ? PLAN_SPACE_HOST : PLAN_SPACE_SCRATCH};
}

plan_ref msc_plan_place_of(calling *c, const msc_value *v, bool written) {
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
  } else if (msc_runs_in_tiles(v->def)) {
    ref = (plan_ref){.bytes = (uint64_t)msc_dtype_bytes(v->type->dtype), .space = PLAN_SPACE_TILE};
  } else {
    int64_t place = msc_op_attr(v->def, MSC_FACT(place))->list.v[v->index].i;
    if (place < 0) ref = c->arg[-1 - place];
    else ref = msc_plan_place_in_scratch(c, msc_is_made_on_host(v), (uint64_t)place, (uint64_t)msc_type_bytes(v->type));
  }
  ref.written = written;
  return ref;
}

void msc_plan_place_away_from_device(calling *c) {
  uint64_t *end = c->p->stage[c->section->stage].home_bytes, disk = (uint64_t)msc_fact_read(c->f, stashed, 0);
  c->host_scratch = (uint64_t)msc_fact_read(c->f, host_scratch, 0);
  if (disk) c->stashed = place_away(&end[MSC_HOME_DISK], disk, MSC_HOME_DISK).offset;
  bool any = c->host_scratch > 0;
  for (const msc_op *op = c->f->body->first; op && !any; op = op->next) any = msc_runs_on_host(op);
  if (any) c->host_at = place_away(&end[MSC_HOME_CPU], c->host_scratch + MSC_FLAG_BYTES, MSC_HOME_CPU).offset;
}
