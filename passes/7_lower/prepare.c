/* prepare: what a section makes of parameters alone for every micro-batch of a step, as casts of weights to the compute
 * type -> a section P of its stage, which makes it once per step, before the first micro-batch.
 *
 * Only values that a cast is part of move: what makes no narrower copy would double its memory. They become arguments
 * with role `sum`, which the sections of a stage share: forward and backward read one copy. They stay where the memory
 * of a stage may not hold them all beside the values of its sections, and where the parameter is not on the device.
 *
 * On a GPU, and without a pipeline, casts of whole parameters stay right from step to step, with micro-batches or
 * without: the update's kernel stores them beside the parameter, which saves reading it again, and program prepare
 * makes them first; their role is `copy`.  What is put together or padded is made in each step, by kernels of its own.
 * The memory of a GPU changes by the plan's programs and the runtime alone, which runs prepare again once it has
 * changed what that reads.  A CPU's lies open to the caller, who may change parameters at any time. */
#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/allocate.h"
#include "passes/8_memory/homes.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/8_memory/stage_costs.h"

/* A value that section P makes. */
typedef struct {
  msc_value *value;
  const char *name;
} prepared;

/* A section P, or program prepare: its function and the values that it makes. */
typedef struct {
  msc_func *f; /* NULL: the stage has none yet */
  bool stays;  /* it is program prepare */
  prepared *all;
  size_t num;
} preparation;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f; /* a section that runs for every micro-batch */
  preparation *to;
  bool *constant;   /* by value id: a parameter, or made of parameters alone */
  bool *moves;      /* by value id: made of parameters alone, by ops of which at least one is a cast */
  msc_value **made; /* by value id: what P makes of it */
} preparer;

static bool runs_often(const msc_func *f) {
  return msc_fact_read(f, program, MSC_NUM_PROGRAM_KINDS) == MSC_PROGRAM_TRAIN && msc_func_attr(f, MSC_FACT(chunk)) &&
         msc_fact_read(f, micro, 1) > msc_fact_read(f, copies, 1);
}

static const char *name_of_argument(const msc_func *f, size_t i) {
  const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_name));
  return v ? v->s : "";
}

/* True if a section gives the argument of this name a new value for every micro-batch. */
static bool changes_within_step(const msc_module *m, const char *name) {
  for (const msc_func *f = m->first; f; f = f->next)
    for (size_t i = 0; runs_often(f) && i < f->body->last->num_in; i++) {
      int64_t arg = msc_tied_argument(f, i);
      if (arg >= 0 && !strcmp(name_of_argument(f, (size_t)arg), name)) return true;
    }
  return false;
}

/* A host that reads a table updates it, too, in its own memory. */
static bool is_read_by_host(const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (msc_runs_on_host(u->user)) return true;
  return false;
}

/* A step brings other rows of a table with a cache. */
static bool is_kept_parameter(const msc_pass_ctx *pass, const msc_func *f, size_t i) {
  return msc_arg_role(f, i) == MSC_ROLE_PARAMETER && msc_home_of(pass->config, f, i) == MSC_HOME_DEVICE &&
         !msc_arg_attr(f, i, MSC_FACT(msc_cached)) && !is_read_by_host(f->body->args[i]) &&
         !changes_within_step(f->module, name_of_argument(f, i));
}

static bool only_copies(const msc_op *op) {
  bool copies = op->kind == OP_cast || op->kind == OP_concat || op->kind == OP_pad || op->kind == OP_reshape ||
                op->kind == OP_slice || op->kind == OP_transpose;
  return copies && !msc_op_attr(op, MSC_FACT(starts)) && !msc_op_attr(op, MSC_FACT(view));
}

static bool narrows(const msc_op *op) {
  return op->kind == OP_cast && msc_dtype_bytes(op->out[0].type->dtype) < msc_dtype_bytes(op->in[0].value->type->dtype);
}

static void mark_values(preparer *p) {
  for (size_t i = 0; i < p->f->body->num_args; i++)
    p->constant[p->f->body->args[i]->id] = is_kept_parameter(p->pass, p->f, i);
  for (const msc_op *op = p->f->body->first; op; op = op->next) {
    bool constant = only_copies(op), moves = narrows(op);
    for (size_t i = 0; i < op->num_in; i++) {
      constant &= p->constant[op->in[i].value->id];
      moves |= p->moves[op->in[i].value->id];
    }
    if (!constant) continue;
    p->constant[op->out[0].id] = true;
    p->moves[op->out[0].id] = moves;
  }
}

/* True if v has the elements of one parameter: an update's kernel can store it too. */
static bool is_whole_parameter(const msc_value *v) {
  while (v->def && (v->def->kind == OP_cast || v->def->kind == OP_reshape)) v = v->def->in[0].value;
  return !v->def;
}

/* True if P, or prepare, has to make v: it can, and an op that stays reads it. */
static bool is_handed_over(const preparer *p, const msc_value *v) {
  if (!p->moves[v->id] || (p->to->stays && !is_whole_parameter(v))) return false;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (!u->user->num_out || !p->moves[u->user->out[0].id]) return true;
  return false;
}

static preparer start_preparing(msc_pass_ctx *pass, msc_func *f, preparation *to) {
  preparer p = {.pass = pass, .f = f, .to = to};
  size_t num = msc_number(f->body).num_values;
  p.constant = msc_new_array(pass->scratch, bool, num);
  p.moves = msc_new_array(pass->scratch, bool, num);
  p.made = msc_new_array(pass->scratch, msc_value *, num);
  mark_values(&p);
  return p;
}

/* ---- section P ---- */

static msc_func *new_program(const msc_func *like) {
  msc_func *f = msc_func_new(like->module, msc_program_kind_name(MSC_PROGRAM_PREPARE));
  f->loc = like->loc;
  if (msc_func_attr(like, MSC_FACT(manual))) msc_func_put(f, msc_fact_manual(true));
  return f;
}

static msc_func *new_section(msc_pass_ctx *pass, const msc_func *like) {
  const msc_attr_value *stage = msc_func_attr(like, MSC_FACT(stage)), *micro = msc_func_attr(like, MSC_FACT(micro));
  bool single = msc_pipeline_shape_of(pass->config, pass->scratch).joined;
  const char *name = single ? "train.P" : msc_arena_printf(pass->scratch, "train.%" PRId64 ".P", stage->i);
  msc_func *f = msc_func_new(like->module, name);
  f->loc = like->loc;
  msc_func_put(f, msc_fact_program(pass->ctx, MSC_PROGRAM_TRAIN));
  msc_func_put(f, msc_fact_section(pass->ctx, MSC_SECTION_P));
  msc_func_put(f, msc_fact_stage(stage->i));
  msc_func_put(f, msc_fact_micro(micro->i));
  if (msc_func_attr(like, MSC_FACT(manual))) msc_func_put(f, msc_fact_manual(true));
  return f;
}

/* The argument of this name; NULL: f has none. */
static msc_value *find_argument(const msc_func *f, const char *name) {
  for (size_t k = 0; k < f->body->num_args; k++)
    if (!strcmp(name_of_argument(f, k), name)) return f->body->args[k];
  return NULL;
}

/* Argument i of function `from` in function f. */
static msc_value *argument_in(msc_func *f, const msc_func *from, size_t i) {
  msc_value *v = find_argument(f, name_of_argument(from, i));
  if (v) return v;
  const msc_value *old = from->body->args[i];
  v = msc_add_arg(f->body, old->type, old->name);
  for (size_t k = 0; k < from->arg[i].num_attrs; k++)
    msc_arg_set(f, v->index, from->arg[i].attrs[k].name, from->arg[i].attrs[k].value);
  return v;
}

static bool makes_the_same(const msc_op *a, const msc_op *b, msc_value *const *in) {
  bool same =
      a->kind == b->kind && a->num_in == b->num_in && a->out[0].type == b->out[0].type && a->num_attrs == b->num_attrs;
  for (size_t i = 0; same && i < a->num_in; i++) same = a->in[i].value == in[i];
  for (size_t i = 0; same && i < a->num_attrs; i++)
    same = a->attrs[i].name == b->attrs[i].name && msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value);
  return same;
}

/* Builds v in section P; equal ops are built once. */
static msc_value *make_in_section(preparer *p, msc_value *v) {
  if (p->made[v->id]) return p->made[v->id];
  if (!v->def) return p->made[v->id] = argument_in(p->to->f, p->f, v->index);
  msc_value **in = msc_new_array(p->pass->scratch, msc_value *, v->def->num_in);
  for (size_t i = 0; i < v->def->num_in; i++) in[i] = make_in_section(p, v->def->in[i].value);
  msc_op *op = p->to->f->body->first;
  while (op && !makes_the_same(op, v->def, in)) op = op->next;
  if (!op) msc_append(p->to->f->body, op = msc_op_copy(p->to->f, v->def, in));
  return p->made[v->id] = &op->out[0];
}

/* The name of the argument by which other sections read a value of section P; made on first use. */
static const char *name_prepared(preparer *p, msc_value *made) {
  preparation *to = p->to;
  for (size_t i = 0; i < to->num; i++)
    if (to->all[i].value == made) return to->all[i].name;
  const char *name = msc_intern(p->pass->ctx, msc_arena_printf(p->pass->scratch, "train.%s%zu",
                                                               to->stays ? "copy" : "prepared", to->num));
  msc_grow(p->pass->scratch, to->all, to->num);
  to->all[to->num++] = (prepared){made, name};
  return name;
}

static msc_value *add_prepared_argument(msc_pass_ctx *pass, const preparation *to, msc_func *f, const msc_value *like,
                                        const char *name) {
  msc_value *v = msc_add_arg(f->body, like->type, name);
  msc_arg_put(f, v->index, msc_fact_msc_name(pass->ctx, name));
  msc_arg_put(f, v->index, msc_fact_msc_role(pass->ctx, to->stays ? MSC_ROLE_COPY : MSC_ROLE_SUM));
  if (like->whole && like->whole->layout) {
    msc_arg_put(f, v->index, msc_fact_msc_layout(like->whole->layout));
    msc_arg_put(f, v->index, msc_fact_msc_shape(pass->ctx, (size_t)like->whole->rank, like->whole->dim));
  }
  return v;
}

static void section_for_preparation(preparer *p) {
  size_t num = 0;
  msc_value **old = NULL, **made = NULL;
  for (msc_op *op = p->f->body->first; op; op = op->next) {
    if (op->num_out != 1 || !is_handed_over(p, &op->out[0])) continue;
    if (!p->to->f) p->to->f = p->to->stays ? new_program(p->f) : new_section(p->pass, p->f);
    msc_grow(p->pass->scratch, old, num);
    msc_grow(p->pass->scratch, made, num);
    made[num] = make_in_section(p, &op->out[0]);
    old[num++] = &op->out[0];
  }
  for (size_t i = 0; i < num; i++)
    msc_replace_uses(old[i], add_prepared_argument(p->pass, p->to, p->f, old[i], name_prepared(p, made[i])));
  for (msc_op *op = p->f->body->last, *previous; op; op = previous) {
    previous = op->prev;
    if (op->num_out == 1 && p->moves[op->out[0].id] && !msc_has_uses(&op->out[0])) msc_op_erase(op);
  }
  msc_stat(p->pass, p->to->stays ? "values kept from step to step" : "values made once per step", (int64_t)num);
}

/* Appends to a list of one entry for each result of the function. */
static void extend_fact(const msc_pass_ctx *pass, msc_func *f, msc_attr more) {
  const msc_attr_value *old = msc_func_attr(f, more.name);
  size_t have = old ? old->list.num : 0, num = have + more.value.list.num;
  msc_attr_value *all = msc_new_array(pass->scratch, msc_attr_value, num);
  for (size_t i = 0; i < num; i++) all[i] = i < have ? old->list.v[i] : more.value.list.v[i - have];
  more.value = msc_list(pass->ctx, num, all);
  msc_func_put(f, more);
}

/* Makes values of f its results, the new values of the arguments that have the names of what is prepared; value[i]
 * NULL: not of all[i]. */
static void return_prepared(msc_pass_ctx *pass, preparation *to, msc_func *f, msc_value *const *value) {
  msc_op *ret = f->body->last;
  size_t num = 0, before = ret->num_in;
  msc_value **result = msc_new_array(pass->scratch, msc_value *, before + to->num);
  int64_t *ties = msc_new_array(pass->scratch, int64_t, to->num);
  msc_attr_value *names = msc_new_array(pass->scratch, msc_attr_value, to->num),
                 *shapes = msc_new_array(pass->scratch, msc_attr_value, to->num);
  const msc_layout **layouts = msc_new_array(pass->scratch, const msc_layout *, to->num);
  for (size_t i = 0; i < before; i++) result[i] = ret->in[i].value;
  for (size_t i = 0; i < to->num; i++) {
    const msc_value *v = to->all[i].value;
    const msc_type *whole = v->whole && v->whole->layout ? v->whole : v->type;
    if (!value[i]) continue;
    msc_value *arg = find_argument(f, to->all[i].name);
    if (!arg) arg = add_prepared_argument(pass, to, f, v, to->all[i].name);
    result[before + num] = value[i];
    ties[num] = arg->index;
    names[num] = msc_str(pass->ctx, to->all[i].name);
    layouts[num] = whole->layout ? whole->layout : msc_layout_replicated(pass->ctx, whole->rank);
    shapes[num++] = msc_ints(pass->ctx, (size_t)whole->rank, whole->dim);
  }
  msc_set_operands(ret, before + num, result);
  extend_fact(pass, f, msc_fact_ties(pass->ctx, num, ties));
  extend_fact(pass, f, msc_fact_results(pass->ctx, num, names));
  extend_fact(pass, f, msc_fact_result_layouts(pass->ctx, num, layouts));
  extend_fact(pass, f, msc_fact_result_shapes(pass->ctx, num, shapes));
}

static void end_section(msc_pass_ctx *pass, preparation *to) {
  msc_value **value = msc_new_array(pass->scratch, msc_value *, to->num);
  for (size_t i = 0; i < to->num; i++) value[i] = to->all[i].value;
  msc_append_return(to->f, 0, NULL, to->f->loc);
  return_prepared(pass, to, to->f, value);
}

/* ---- what updates make anew ---- */

/* The new value of the argument of this name; NULL: f has none. */
static msc_value *new_value_of(const msc_func *f, const char *name) {
  const msc_op *ret = f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(f, i);
    if (arg >= 0 && !strcmp(name_of_argument(f, (size_t)arg), name)) return ret->in[i].value;
  }
  return NULL;
}

/* Builds in f, right behind the update of a parameter, what prepare makes of it; NULL: f does not update it. */
static msc_value *renew(const preparation *to, msc_func *f, msc_value *v) {
  if (!v->def) return new_value_of(f, name_of_argument(to->f, v->index));
  msc_value *x = renew(to, f, v->def->in[0].value);
  if (!x) return NULL;
  msc_op *op = msc_op_copy(f, v->def, &x);
  if (x->def) msc_insert_after(x->def, op);
  else msc_insert_before(f->body->last, op);
  return &op->out[0];
}

/* Lets function f make anew what prepare makes of parameters that f updates. */
static void renew_all(msc_pass_ctx *pass, preparation *to, msc_func *f) {
  msc_value **value = msc_new_array(pass->scratch, msc_value *, to->num);
  for (size_t i = 0; i < to->num; i++) value[i] = renew(to, f, to->all[i].value);
  return_prepared(pass, to, f, value);
}

/* ---- memory ---- */

static uint64_t bytes_of_section(msc_pass_ctx *pass, msc_func *f, bool stays) {
  preparer p = start_preparing(pass, f, &(preparation){.stays = stays});
  uint64_t bytes = 0;
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (op->num_out == 1 && is_handed_over(&p, &op->out[0]))
      bytes += (uint64_t)msc_round_to_lines(msc_type_bytes(op->out[0].type));
  return bytes;
}

/* True if f runs for every micro-batch of the stage, or is a whole step whose copies of parameters may stay. */
static bool reads_copies(const msc_func *f, int64_t stage, bool stay) {
  if (runs_often(f)) return msc_func_attr(f, MSC_FACT(stage))->i == stage;
  return stay && !msc_func_attr(f, MSC_FACT(program)) && msc_program_of(f) == MSC_PROGRAM_TRAIN;
}

/* True if there are values that section P, or prepare, could make for the stage, and they fit into its memory beside
 * the scratch of each section; a value counts once for each section that reads it. */
static bool fits_stage(msc_pass_ctx *pass, const msc_module *m, int64_t stage, bool stay) {
  uint64_t bytes = 0;
  bool fits = true;
  for (msc_func *f = m->first; f; f = f->next)
    if (reads_copies(f, stage, stay)) bytes += bytes_of_section(pass, f, stay);
  for (msc_func *f = m->first; f && fits && bytes; f = f->next)
    if (reads_copies(f, stage, stay)) fits = bytes + msc_scratch_of(pass, f, 0) <= msc_room_for_values(pass, f);
  return bytes && fits;
}

/* ---- the pass ---- */

static void prepare_stage(msc_pass_ctx *pass, msc_module *m, int64_t stage, bool stay) {
  preparation to = {.stays = stay};
  msc_func *update = msc_find_section(m, MSC_PROGRAM_TRAIN, MSC_SECTION_U, stage, 0);
  if (!fits_stage(pass, m, stage, stay)) return;
  for (msc_func *f = m->first; f; f = f->next) {
    if (f == to.f || !reads_copies(f, stage, stay)) continue;
    preparer p = start_preparing(pass, f, &to);
    section_for_preparation(&p);
    if (!update) update = f;
  }
  if (!to.f) return;
  end_section(pass, &to);
  if (stay) renew_all(pass, &to, update);
}

bool pass_prepare(msc_pass_ctx *pass, msc_module *m) {
  int stages = msc_pipeline_shape_of(pass->config, pass->scratch).stages;
  bool any = false, stay = msc_target_of(m)->is_gpu && stages == 1;
  for (const msc_func *f = m->first; f; f = f->next) any |= runs_often(f) || reads_copies(f, 0, stay);
  if (!any) return msc_not_asked_for(pass);
  pass->changes_meaning = true;
  if (stay) prepare_stage(pass, m, 0, true);
  for (int i = 0; i < stages; i++) prepare_stage(pass, m, i, false);
  return true;
}
