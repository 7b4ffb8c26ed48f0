/* annotations: checks the attributes that the user put on ops and arguments. Each one that no pass reads, or that
 * this version cannot honour, is an error: an annotation is never silently ignored. */
#include <string.h>
#include <strings.h>

#include "passes/7_lower/target.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef enum {
  ALL,
  FALSE_ONLY,
  ZERO_ONLY,
  GROUP,
  BYTES,
  ROUND,
  STAGE,
  TRUTH,
  ON_CPU,
  IN_F32,
  A_BLOCK,
  A_LIMIT,
  OP_OR_BLOCK,
  NONE
} honoured;

typedef struct {
  const char *name;
  honoured which; /* which of its values are honoured */
} annotation;

static const annotation of_ops[] = {
    {"in_strategy", ALL},         {"out_strategy", ALL},
    {"in_layout", ALL},           {"out_layout", ALL},
    {"pipeline_stage", STAGE},    {"recompute", OP_OR_BLOCK},
    {"mp_comm_recompute", TRUTH}, {"parallel_optimizer_comm_recompute", TRUTH}, /* they refine `recompute` */
    {"comm_fusion", GROUP},       {"fusion", GROUP},
    {"manual_split", ALL},        {"aligned", ALL},
    {"compute_type", IN_F32},     {"primitive_target", ON_CPU},
    {"cross_batch", ALL},         {"shard", A_BLOCK},
    {"memory_limit", A_LIMIT},    {"max_bytes", BYTES},
    {"deny_replicate", TRUTH},    {"priority", ROUND},
};

static const annotation of_args[] = {
  {"msc.name", ALL}, {"msc.role", ALL}, {"msc.init", ALL}, {"msc.weights", ALL}, {"msc.trainable", ALL},
   {"msc.batch_dim", ALL},
  {"msc.owner", ALL}, {"msc.layout", ALL}, {"msc.shape", ALL}, {"msc.model_shape", ALL}, {"msc.whole", ALL},
  {"msc.parallel_optimizer", ALL}, /* opts out of a mode that is off */
  {"msc.layerwise_parallel", ALL},
  {"msc.comm_fusion", GROUP},
  {"msc.parameter_server", FALSE_ONLY},
  {"msc.cache_rows", ZERO_ONLY},
};

enum { NUM_OF_OPS = sizeof of_ops / sizeof *of_ops, NUM_OF_ARGS = sizeof of_args / sizeof *of_args };

bool msc_is_told(const msc_op *op) {
  static const char *const others[] = {"cross_batch", "max_bytes", "deny_replicate"};
  for (size_t i = 0; i < op->num_attrs; i++)
    if (!strncmp(op->attrs[i].name, "in_", 3) || !strncmp(op->attrs[i].name, "out_", 4)) return true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (msc_op_attr(op, others[i])) return true;
  return false;
}

/* The value of `shard`: {name = "encoder", in_strategy = ..., out_strategy = ...} for an op of that block, or false
 * for an op outside of every such block. */
static bool is_block_shard(const msc_attr_value *v) {
  static const char *const members[] = {"name", "in_strategy", "out_strategy", "in_layout", "out_layout"};
  bool ok = v->kind == MSC_ATTR_DICT && msc_find_attr(v->dict.a, v->dict.num, "name");
  for (size_t i = 0; ok && i < v->dict.num; i++) {
    const msc_attr *a = &v->dict.a[i];
    bool known = false;
    for (int k = 0; k < 5; k++)
      known |= !strcmp(members[k], a->name) && a->value.kind == (k ? MSC_ATTR_LIST : MSC_ATTR_STR);
    ok = known;
  }
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

static bool is_honoured_value(honoured which, const msc_attr_value *v, const msc_target *target) {
  switch (which) {
    case ALL: return true;
    case FALSE_ONLY: return v->kind == MSC_ATTR_BOOL ? !v->b : v->kind == MSC_ATTR_INT && v->i == 0;
    case GROUP:
    case BYTES: return is_int_within(v, 0, INT64_MAX);
    case ROUND: return is_int_within(v, 0, UINT8_MAX);
    case STAGE: return is_int_within(v, 0, UINT16_MAX);
    case TRUTH: return v->kind == MSC_ATTR_BOOL;
    case ZERO_ONLY: return is_int_within(v, 0, 0);
    /* the CPU is honoured only where the whole program runs on it */
    case ON_CPU: return target->is_host && v->kind == MSC_ATTR_STR && !strcasecmp(v->s, "cpu");
    case IN_F32: return v->kind == MSC_ATTR_STR && !strcmp(v->s, "f32");
    case A_BLOCK: return is_block_shard(v);
    case A_LIMIT: return is_memory_limit(v);
    /* a string is the name of the block */
    case OP_OR_BLOCK: return v->kind == MSC_ATTR_BOOL || v->kind == MSC_ATTR_STR;
    case NONE: break;
  }
  return false;
}

static const annotation *find_annotation(const annotation *rows, size_t num, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

/* Returns "; did you mean ..." with the nearest of the annotations and of the attributes that the op's row declares
 * (info NULL: an argument, which has none), or "". */
static const char *suggest_name(msc_arena *arena, const char *name, const annotation *rows, size_t num,
                                const msc_op_info *info) {
  const char *words[64];
  size_t n = 0;
  for (size_t i = 0; i < num; i++) words[n++] = rows[i].name;
  for (int i = 0; info && i < info->num_attrs; i++) words[n++] = info->attr[i].name;
  const char *near = msc_nearest(name, words, n);
  return near ? msc_arena_printf(arena, "; did you mean '%s'?", near) : "";
}

static bool is_op_attr(const msc_op_info *info, const char *name) {
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, name)) return true;
  return false;
}

/* The values that the annotation accepts, in words; NULL if its kind of value is right but not supported. */
static const char *required_form(honoured which) {
  switch (which) {
    case GROUP: return "must be a whole number: 0 for never, or what a group has in common";
    case BYTES: return "must be a number of bytes";
    case ROUND: return "must be a whole number from 0, first, to 255";
    case STAGE: return "must be the number of a stage, from 0 on";
    case TRUTH: return "must be true or false";
    case A_LIMIT: return "must be {bytes = N, name = BLOCK}, of a block: an op has no limit of its own";
    default: return NULL;
  }
}

static const char *describe_mistake(honoured which) {
  return required_form(which) ? required_form(which) : "is not supported yet";
}
static msc_code code_of(honoured which) { return required_form(which) ? MSC_E_ROW : MSC_E_UNSUPPORTED; }

static bool check_op_annotations(const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  bool ok = true;
  for (size_t i = 0; i < op->num_attrs; i++) {
    const msc_attr *a = &op->attrs[i];
    if (is_op_attr(info, a->name)) continue;
    const annotation *row = find_annotation(of_ops, NUM_OF_OPS, a->name);
    if (!row)
      ok = msc_op_error(op, MSC_E_ROW, "%s: there is no attribute or annotation '%s'%s", info->name, a->name,
                        suggest_name(arena, a->name, of_ops, NUM_OF_OPS, info));
    else if (!is_honoured_value(row->which, &a->value, msc_target_of(op->block->func->module)))
      ok = msc_op_error(op, code_of(row->which), "%s: annotation %s = %s %s", info->name, a->name,
                        msc_attr_text(arena, &op->block->func->module->mesh, &a->value), describe_mistake(row->which));
  }
  return ok;
}

/* Warns about annotations that refine `recompute` on an op that is not recomputed. */
static void warn_of_idle_recompute(const msc_pass_ctx *pass, const msc_op *op) {
  static const char *const more[] = {"mp_comm_recompute", "parallel_optimizer_comm_recompute"};
  bool chosen = msc_op_attr(op, "recompute") || msc_op_attr(op, "memory_limit") ||
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
    const msc_attr_value *stage = msc_op_attr(op, "pipeline_stage");
    if (!stage || stage->kind != MSC_ATTR_INT || stage->i < 1) continue;
    if (!num++) first = op;
  }
  if (!num || msc_config_int(pass->config, MSC_KEY_pipeline_stages) > 1) return;
  msc_warning(pass->ctx, MSC_E_ROW, first->loc,
              "%s: pipeline_stage = %" PRId64 " has no effect with pipeline_stages = 1; ops that have one: %d",
              msc_info(first)->name, msc_op_int(first, "pipeline_stage"), num);
}

static bool check_arg_annotations(const msc_func *f, size_t arg, msc_arena *arena) {
  msc_context *ctx = f->module->ctx;
  const msc_attr_value *name = msc_arg_attr(f, arg, "msc.name");
  const char *what = name && name->kind == MSC_ATTR_STR ? name->s : f->body->args[arg]->name;
  if (!what) what = "";
  bool ok = true;
  for (size_t i = 0; i < f->arg[arg].num_attrs; i++) {
    const msc_attr *a = &f->arg[arg].attrs[i];
    const annotation *row = find_annotation(of_args, NUM_OF_ARGS, a->name);
    if (!row)
      ok = msc_error(ctx, MSC_E_ROW, f->loc, "argument '%s': there is no annotation '%s'%s", what, a->name,
                     suggest_name(arena, a->name, of_args, NUM_OF_ARGS, NULL));
    else if (!is_honoured_value(row->which, &a->value, msc_target_of(f->module)))
      ok = msc_error(ctx, code_of(row->which), f->loc, "argument '%s': annotation %s = %s %s", what, a->name,
                     msc_attr_text(arena, &f->module->mesh, &a->value), describe_mistake(row->which));
  }
  return ok;
}

/* Sets `aligned` on a gather whose table is cut by `manual_split` and whose indices have one column per part: column
 * i only names rows of part i, so the columns can be cut with the parts. */
static void align_columns(msc_op *op) {
  const msc_attr_value *s = msc_op_attr(op, "in_strategy");
  int parts = msc_op_ints(op, "manual_split", NULL, 0);
  if (parts < 2) msc_op_unset(op, "aligned");
  if (op->kind != OP_gather || parts < 2 || !s || s->kind != MSC_ATTR_LIST || s->list.num != 2 ||
      s->list.v[1].kind != MSC_ATTR_LIST)
    return;
  size_t rank = s->list.v[1].list.num;
  if (rank && s->list.v[1].list.v[rank - 1].kind == MSC_ATTR_INT && s->list.v[1].list.v[rank - 1].i == parts)
    msc_op_set(op, "aligned", msc_bool(true));
}

/* If any block is sharded by itself, marks the user's other ops as outside of it. Ops that later passes make carry
 * no mark. */
static void mark_outside(msc_func *f) {
  bool any = false;
  for (const msc_op *op = f->body->first; op && !any; op = op->next) {
    const msc_attr_value *v = msc_op_attr(op, "shard");
    any = v && v->kind == MSC_ATTR_DICT;
  }
  for (msc_op *op = f->body->first; op && any; op = op->next)
    if (op->num_in && !(msc_info(op)->flags & MSC_TERMINATOR) && !msc_op_attr(op, "shard"))
      msc_op_set(op, "shard", msc_bool(false));
}

/* Copies the `comm_fusion` of an op, or of its block, to the parameters that the op reads: their collectives are
 * fused with those of the same number. A number on the parameter itself counts more; of several ops the last one
 * counts. */
static void pass_fusion_to_parameters(msc_op *op) {
  msc_func *f = op->block->func;
  if (msc_op_attr(op, "fusion")) msc_op_set(op, "comm_fusion", *msc_op_attr(op, "fusion"));
  msc_op_unset(op, "fusion");
  const msc_attr_value *id = msc_op_attr(op, "comm_fusion");
  for (size_t i = 0; id && i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (!v->def && msc_arg_role(f, v->index) == MSC_ROLE_PARAMETER && !msc_arg_attr(f, v->index, "msc.comm_fusion"))
      msc_arg_set(f, v->index, "msc.comm_fusion", *id);
  }
  if (!(msc_info(op)->flags & MSC_COLLECTIVE)) msc_op_unset(op, "comm_fusion");
}

bool pass_annotations(msc_pass_ctx *pass, msc_module *m) {
  bool ok = true;
  for (msc_func *f = m->first; f; f = f->next) {
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
