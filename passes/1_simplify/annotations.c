/* annotations: checks the attributes that the user put on ops and arguments. Each one that no pass reads, or that
 * this version cannot honour, is an error: an annotation is never silently ignored. */
#include <string.h>
#include <strings.h>

#include "ir/fact.h"
#include "passes/config/config.h"
#include "passes/2_train/batch.h"
#include "passes/pass.h"

bool msc_has_user_constraint(const msc_op *op) { return msc_op_has_sort(op, MSC_SORT_CONSTRAINT); }

/* The value of `shard`: {name = "encoder", in_strategy = ..., out_strategy = ...} for an op of that block, or false
 * for an op outside of every such block. */
static bool is_block_shard(const msc_attr_value *v) {
  const msc_attr_value *name = v->kind == MSC_ATTR_DICT ? msc_find_attr(v->dict.a, v->dict.num, "name") : NULL;
  size_t strategies = 0, at = 0;
  bool ok = name && name->kind == MSC_ATTR_STR;
  for (const char *strategy; ok && (strategy = msc_fact_of_sort(MSC_SORT_STRATEGY, &at));) {
    const msc_attr_value *list = msc_find_attr(v->dict.a, v->dict.num, strategy);
    strategies += list != NULL;
    ok = !list || list->kind == MSC_ATTR_LIST;
  }
  ok = ok && v->dict.num == strategies + 1;
  return ok || (v->kind == MSC_ATTR_BOOL && !v->b);
}

static bool is_int_within(const msc_attr_value *v, int64_t least, int64_t most) {
  return v->kind == MSC_ATTR_INT && v->i >= least && v->i <= most;
}

/* The value of `memory_limit`: {bytes = 1000000, name = "encoder"}. */
static bool is_memory_limit(const msc_attr_value *v) {
  const msc_attr_value *bytes = v->kind == MSC_ATTR_DICT ? msc_find_attr(v->dict.a, v->dict.num, "bytes") : NULL;
  const msc_attr_value *name = bytes ? msc_find_attr(v->dict.a, v->dict.num, "name") : NULL;
  return name && v->dict.num == 2 && is_int_within(bytes, 0, INT64_MAX) && name->kind == MSC_ATTR_STR;
}

static bool is_honoured_value(msc_fact_kind kind, const msc_attr_value *v) {
  switch (kind) {
    case MSC_FACT_FALSE_ONLY: return v->kind == MSC_ATTR_BOOL ? !v->b : v->kind == MSC_ATTR_INT && v->i == 0;
    case MSC_FACT_COUNT: return is_int_within(v, 0, INT64_MAX);
    case MSC_FACT_GROUP:
    case MSC_FACT_BYTES: return is_int_within(v, 0, INT64_MAX);
    case MSC_FACT_ROUND: return is_int_within(v, 0, UINT8_MAX);
    case MSC_FACT_STAGE_NUMBER: return is_int_within(v, 0, UINT16_MAX);
    case MSC_FACT_CPU_ONLY: return v->kind == MSC_ATTR_STR && !strcasecmp(v->s, "cpu");
    case MSC_FACT_F32_ONLY: return v->kind == MSC_ATTR_STR && !strcmp(v->s, "f32");
    case MSC_FACT_BLOCK: return is_block_shard(v);
    case MSC_FACT_WEIGHTS: return msc_is_weights(v);
    case MSC_FACT_LIMIT: return is_memory_limit(v);
    /* a string is the name of the block */
    case MSC_FACT_FLAG_OR_NAME: return v->kind == MSC_ATTR_BOOL || v->kind == MSC_ATTR_STR;
    case MSC_FACT_BOOL:
    case MSC_FACT_FLAG: return v->kind == MSC_ATTR_BOOL;
    default: return true; /* the pass that reads it checks it */
  }
}

/* The values that the annotation accepts, in words; NULL if its kind of value is right but not supported. */
static const char *required_form(msc_fact_kind kind) {
  switch (kind) {
    case MSC_FACT_GROUP: return "must be a whole number: 0 for never, or what a group has in common";
    case MSC_FACT_COUNT: return "must be a whole number, from 0 on";
    case MSC_FACT_BYTES: return "must be a number of bytes";
    case MSC_FACT_ROUND: return "must be a whole number from 0, first, to 255";
    case MSC_FACT_STAGE_NUMBER: return "must be the number of a stage, from 0 on";
    case MSC_FACT_BOOL:
    case MSC_FACT_FLAG: return "must be true or false";
    case MSC_FACT_WEIGHTS:
      return "must be {file = PATH, tensor = NAME}, and may have bytes and xxh3; the path is relative, without '..'";
    case MSC_FACT_LIMIT: return "must be {bytes = N, name = BLOCK}, of a block: an op has no limit of its own";
    default: return NULL;
  }
}

/* Returns NULL if the user may write this attribute, on such a thing, with this value; else the end of a message. */
static const char *describe_mistake(const msc_module *m, const msc_attr *a, unsigned on, const msc_op_info *info,
                                 msc_arena *arena, msc_code *out_code) {
  const msc_fact_row *row = msc_fact_row_of(a->name);
  *out_code = MSC_E_ROW;
  if (!row || !msc_fact_is_users(row))
    return msc_arena_printf(arena, "there is no %s '%s'%s", info ? "attribute or annotation" : "annotation", a->name,
                            msc_fact_hint(arena, a->name, on, info));
  if (is_honoured_value(row->kind, &a->value)) return NULL;
  const char *must = required_form(row->kind);
  if (!must) *out_code = MSC_E_UNSUPPORTED;
  return msc_arena_printf(arena, "annotation %s = %s %s", a->name, msc_attr_text(arena, &m->mesh, &a->value),
                          must ? must : "is not supported yet");
}

static bool check_op_annotations(const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  msc_code code;
  bool ok = true;
  for (size_t i = 0; i < op->num_attrs; i++) {
    const msc_attr *a = &op->attrs[i];
    if (msc_declares(op, a->name)) continue;
    const char *wrong = describe_mistake(op->block->func->module, a, MSC_ON_OP, info, arena, &code);
    if (wrong) ok = msc_op_error(op, code, "%s: %s", info->name, wrong);
  }
  return ok;
}

/* Warns about annotations that refine `recompute` on an op that is not recomputed. */
static void warn_of_idle_recompute(const msc_pass_ctx *pass, const msc_op *op) {
  static const char *const more[] = {MSC_FACT(mp_comm_recompute), MSC_FACT(parallel_optimizer_comm_recompute)};
  bool chosen = msc_op_attr(op, MSC_FACT(recompute)) || msc_op_attr(op, MSC_FACT(memory_limit)) ||
                msc_config_choice(pass->config, MSC_KEY_recompute) == 1;
  for (int i = 0; i < 2 && !chosen; i++)
    if (msc_op_attr(op, more[i]) && !(i == 1 && msc_config_zero(pass->config) == 3))
      msc_warning(pass->ctx, MSC_E_ROW, op->loc, "%s: %s says nothing of an op that is not marked recompute%s",
                  msc_info(op)->name, more[i], i == 1 ? ", without zero 3" : "");
}

/* Warns where ops have stages and the configuration has none; a pipeline of one stage has only stage 0. */
static void warn_of_idle_stages(const msc_pass_ctx *pass, const msc_func *f) {
  const msc_op *first = NULL;
  int num = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    const msc_attr_value *stage = msc_op_attr(op, MSC_FACT(pipeline_stage));
    if (!stage || stage->kind != MSC_ATTR_INT || stage->i < 1) continue;
    if (!num++) first = op;
  }
  if (!num || msc_config_int(pass->config, MSC_KEY_pipeline_stages) > 1) return;
  msc_warning(pass->ctx, MSC_E_ROW, first->loc,
              "%s: pipeline_stage = %" PRId64 " has no effect with pipeline_stages = 1; ops that have one: %d",
              msc_info(first)->name, msc_op_int(first, MSC_FACT(pipeline_stage)), num);
}

static bool check_arg_annotations(const msc_func *f, size_t arg, msc_arena *arena) {
  msc_code code;
  bool ok = true;
  for (size_t i = 0; i < f->arg[arg].num_attrs; i++) {
    const char *wrong = describe_mistake(f->module, &f->arg[arg].attrs[i], MSC_ON_ARG, NULL, arena, &code);
    if (wrong) ok = msc_error(f->module->ctx, code, f->loc, "argument '%s': %s", msc_name_of_arg(f, arg), wrong);
  }
  return ok;
}

/* Sets `aligned` on a gather whose table is cut by `manual_split` and whose indices have one column per part: column
 * i only names rows of part i, so the columns can be cut with the parts. */
static void align_columns(msc_op *op) {
  const msc_attr_value *s = msc_op_attr(op, MSC_FACT(in_strategy));
  int parts = msc_op_ints(op, MSC_FACT(manual_split), NULL, 0);
  if (parts < 2) msc_op_unset(op, MSC_FACT(aligned));
  if (op->kind != OP_gather || parts < 2 || !s || s->kind != MSC_ATTR_LIST || s->list.num != 2 ||
      s->list.v[1].kind != MSC_ATTR_LIST)
    return;
  size_t rank = s->list.v[1].list.num;
  if (rank && s->list.v[1].list.v[rank - 1].kind == MSC_ATTR_INT && s->list.v[1].list.v[rank - 1].i == parts)
    msc_op_put(op, msc_fact_aligned(true));
}

/* If any block is sharded by itself, marks the user's other ops as outside of it. Ops that later passes make carry
 * no mark. */
static void mark_outside(msc_func *f) {
  bool any = false;
  for (const msc_op *op = f->body->first; op && !any; op = op->next) {
    const msc_attr_value *v = msc_op_attr(op, MSC_FACT(shard));
    any = v && v->kind == MSC_ATTR_DICT;
  }
  for (msc_op *op = f->body->first; op && any; op = op->next)
    if (op->num_in && !(msc_info(op)->flags & MSC_TERMINATOR) && !msc_op_attr(op, MSC_FACT(shard)))
      msc_op_put(op, msc_fact_shard(msc_bool(false)));
}

/* Copies the `comm_fusion` of an op, or of its block, to the parameters that the op reads: their collectives are
 * fused with those of the same number. A number on the parameter itself counts more; of several ops the last one
 * counts. */
static void pass_fusion_to_parameters(msc_op *op) {
  msc_func *f = op->block->func;
  if (msc_op_attr(op, MSC_FACT(fusion))) msc_op_set(op, MSC_FACT(comm_fusion), *msc_op_attr(op, MSC_FACT(fusion)));
  msc_op_unset(op, MSC_FACT(fusion));
  const msc_attr_value *id = msc_op_attr(op, MSC_FACT(comm_fusion));
  for (size_t i = 0; id && i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (!v->def && msc_arg_role(f, v->index) == MSC_ROLE_PARAMETER &&
        !msc_arg_attr(f, v->index, MSC_FACT(msc_comm_fusion)))
      msc_arg_set(f, v->index, MSC_FACT(msc_comm_fusion), *id);
  }
  if (!(msc_info(op)->flags & MSC_COLLECTIVE)) msc_op_unset(op, MSC_FACT(comm_fusion));
}

/* The input whose batch is that of all: the first of which the model says the dimension, else the first label, else the
 * first input. -1: no input has a batch. */
static int find_batch_input(const msc_func *f) {
  int found[3] = {-1, -1, -1};
  for (int i = (int)f->body->num_args - 1; i >= 0; i--) {
    if (msc_batch_dim(f, (size_t)i) < 0) continue;
    bool is_said = msc_arg_attr(f, (size_t)i, MSC_FACT(msc_batch_dim)) != NULL;
    found[is_said ? 0 : msc_arg_role(f, (size_t)i) == MSC_ROLE_LABEL ? 1 : 2] = i;
  }
  return found[0] >= 0 ? found[0] : found[1] >= 0 ? found[1] : found[2];
}

/* Says of inputs whose first dimension is not as long as the batch, and of which the model says nothing, that they have
 * no batch. */
static bool say_batch_dims(msc_func *f) {
  int of_batch = find_batch_input(f);
  if (of_batch < 0) return true;
  int64_t num = f->body->args[of_batch]->type->dim[msc_batch_dim(f, (size_t)of_batch)];
  for (size_t i = 0; i < f->body->num_args; i++) {
    int dim = msc_batch_dim(f, i);
    int64_t own = dim < 0 ? num : f->body->args[i]->type->dim[dim];
    if (own == num) continue;
    if (msc_arg_attr(f, i, MSC_FACT(msc_batch_dim)))
      return msc_error(f->module->ctx, MSC_E_CONFIG, f->loc,
                       "input '%s' has a batch of %" PRId64 " samples in dimension %d, and '%s' one of %" PRId64
                       "; what has no batch is given batch_dim = -1",
                       msc_name_of_arg(f, i), own, dim, msc_name_of_arg(f, (size_t)of_batch), num);
    msc_arg_put(f, (uint32_t)i, msc_fact_msc_batch_dim(-1));
  }
  return true;
}

/* Checks that what the user says of a module, a function or an argument is of its kind, as whoever reads it expects. A
 * layout is a text as long as there is no mesh. */
static bool check_kinds(const msc_module *m, const msc_loc *loc, const char *what, const msc_attr *attrs, size_t num) {
  bool ok = true;
  for (size_t i = 0; i < num; i++) {
    const msc_fact_row *row = msc_fact_row_of(attrs[i].name);
    bool is_text = row && row->kind == MSC_FACT_LAYOUT && attrs[i].value.kind == MSC_ATTR_STR;
    if (!row || !msc_fact_is_users(row) || required_form(row->kind) || is_text ||
        msc_fact_fits(row->kind, &attrs[i].value))
      continue;
    ok = msc_error(m->ctx, MSC_E_ROW, loc, "%s: attribute %s must be %s", what, row->name,
                   msc_fact_kind_text(row->kind));
  }
  return ok;
}

static bool check_all_kinds(const msc_module *m) {
  bool ok = check_kinds(m, m->first ? m->first->loc : NULL, "module", m->attrs, m->num_attrs);
  for (const msc_func *f = m->first; f; f = f->next) {
    ok &= check_kinds(m, f->loc, f->name, f->attrs, f->num_attrs);
    for (size_t i = 0; i < f->body->num_args; i++)
      ok &= check_kinds(m, f->loc, f->body->args[i]->name ? f->body->args[i]->name : f->name, f->arg[i].attrs,
                        f->arg[i].num_attrs);
  }
  return ok;
}

/* Checks that a result which becomes an argument, as a running mean does, is a tensor like it. */
static bool check_ties(const msc_func *f) {
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  const msc_op *ret = f->body->last;
  for (size_t i = 0; ties && i < ties->list.num; i++) {
    int64_t arg = ties->list.v[i].i;
    if (arg == -1) continue;
    if (arg < -1 || arg >= (int64_t)f->body->num_args || i >= ret->num_in)
      return msc_error(f->module->ctx, MSC_E_ROW, f->loc,
                       "%s: ties: result %zu becomes argument %" PRId64 ", of %zu results and %zu arguments", f->name,
                       i, arg, (size_t)ret->num_in, f->body->num_args);
    if (!msc_same_tensor(ret->in[i].value->type, f->body->args[arg]->type))
      return msc_error(f->module->ctx, MSC_E_ROW, f->loc,
                       "%s: ties: result %zu becomes argument '%s', which is a tensor of another type", f->name, i,
                       msc_name_of_arg(f, (size_t)arg));
  }
  return true;
}

/* Refuses attributes of training on functions other than "forward", where they would have no effect, and an optimizer
 * without a loss. */
static bool check_training(const msc_func *f) {
  static const char *const facts[] = {MSC_FACT(optimizer), MSC_FACT(micro_size)};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    if (msc_func_attr(f, facts[i]) && strcmp(f->name, "forward"))
      return msc_error(f->module->ctx, MSC_E_OPTIMIZER, f->loc,
                       "%s: it has the attribute %s, but what is trained is the function \"forward\"", f->name,
                       facts[i]);
  static const msc_program_kind made[] = {MSC_PROGRAM_TRAIN, MSC_PROGRAM_PREPARE};
  if (!msc_func_attr(f, MSC_FACT(optimizer))) return true;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    const msc_func *taken = msc_program_func(f->module, made[i]);
    if (taken)
      return msc_error(f->module->ctx, MSC_E_OPTIMIZER, taken->loc,
                       "%s: training makes a function of this name; give this one another", taken->name);
  }
  return msc_func_attr(f, MSC_FACT(loss)) ||
         msc_error(f->module->ctx, MSC_E_OPTIMIZER, f->loc,
                   "%s: an optimizer without a loss; say which of its results that is, as loss = 0", f->name);
}

bool pass_annotations(msc_pass_ctx *pass, msc_module *m) {
  MSC_TRY(check_all_kinds(m));
  bool ok = true;
  for (msc_func *f = m->first; f; f = f->next) {
    ok &= check_training(f) && check_ties(f) && say_batch_dims(f);
    for (size_t i = 0; i < f->body->num_args; i++) ok &= check_arg_annotations(f, i, pass->scratch);
    for (msc_op *op = f->body->first; op; op = op->next) {
      ok &= check_op_annotations(op, pass->scratch);
      warn_of_idle_recompute(pass, op);
      align_columns(op);
    }
    warn_of_idle_stages(pass, f);
    mark_outside(f);
    for (msc_op *op = f->body->last; ok && op; op = op->prev) pass_fusion_to_parameters(op);
  }
  return ok;
}
