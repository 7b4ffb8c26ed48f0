/* optimizer_groups.c: reads and checks the attribute `optimizer` of a function: its parameter groups. Reports every
 * fault. */
#include "ir/fact.h"
#include "passes/2_train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  msc_op_kind update, second, lazy;
} kinds[] = {
#define OPTIMIZER(kind, update, second, lazy) {#kind, OP_##update, OP_##second, OP_##lazy},
#include "passes/2_train/optimizer_kinds.def"
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

static const struct {
  const char *name;
  double low, high;
  bool below;
  const char *range;
} ranges[] = {
    {"lr", 0, INFINITY, true, "0 or more"},
    {"momentum", 0, 1, false, "0..1"},
    {"dampening", 0, 1, false, "0..1"},
    {"alpha", 0, 1, false, "0..1"},
    {"beta1", 0, 1, true, "at least 0 and below 1"},
    {"beta2", 0, 1, true, "at least 0 and below 1"},
    {"eps", 0, INFINITY, true, "0 or more"},
    {"weight_decay", 0, INFINITY, true, "0 or more"},
    {"clip_norm", 0, INFINITY, true, "0, for none, or more"},
};

/* Hyper-parameter of every kind: bound of the norm of all gradients together. */
static const msc_attr_spec clip_norm = {.name = "clip_norm", .kind = MSC_ATTR_FLOAT};

/* Hyper-parameter of every kind: tables that are only looked up are updated in the rows that were. */
static const msc_attr_spec lazy = {.name = "lazy", .kind = MSC_ATTR_BOOL};

typedef struct {
  const char *name; /* interned: equal means same pointer */
  uint32_t arg;
} named_arg;

typedef struct {
  msc_func *f;
  msc_arena *arena;
  bool *taken;        /* by argument: a group has it */
  named_arg *by_name; /* all arguments, ordered by the pointer */
} group_reader;

static bool MSC_PRINTF(2, 3) report_optimizer_fault(const group_reader *r, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  msc_verror(r->f->module->ctx, MSC_DIAG_ERROR, MSC_E_OPTIMIZER, r->f->loc, NULL, fmt, ap);
  va_end(ap);
  return false;
}

msc_func *msc_training_func(const msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  return f && msc_func_attr(f, MSC_FACT(loss)) && msc_func_attr(f, MSC_FACT(optimizer)) ? f : NULL;
}

msc_func *msc_step_func(const msc_module *m) {
  msc_func *f = msc_program_func(m, MSC_PROGRAM_TRAIN);
  return f ? f : msc_program_func(m, MSC_PROGRAM_FORWARD);
}

msc_value *msc_loss_of(msc_func *f) {
  msc_context *ctx = f->module->ctx;
  const msc_attr_value *loss = msc_func_attr(f, MSC_FACT(loss));
  const msc_op *ret = f->body->last;
  if (loss->kind != MSC_ATTR_INT || loss->i < 0 || loss->i >= ret->num_in) {
    msc_error(ctx, MSC_E_GRADIENT, f->loc, "loss must be the number of a result, 0..%d", ret->num_in - 1);
    return NULL;
  }
  msc_value *v = ret->in[loss->i].value;
  if (v->type->rank == 0 && msc_is_float(v->type->dtype)) return v;
  msc_error(ctx, MSC_E_GRADIENT, v->def ? v->def->loc : f->loc,
            "the loss must be one floating-point number, not a tensor of rank %d of %s; reduce it to its mean or sum",
            v->type->rank, msc_dtype_name(v->type->dtype));
  return NULL;
}

const msc_op *msc_loss_quotient(msc_func *f) {
  const msc_value *loss = msc_func_attr(f, MSC_FACT(micro_quotient)) ? msc_loss_of(f) : NULL;
  return loss && loss->def && loss->def->kind == OP_div ? loss->def : NULL;
}

double msc_loss_seed(const msc_func *f) {
  const msc_attr_value *given = msc_func_attr(f, MSC_FACT(loss_seed));
  return given && given->kind == MSC_ATTR_FLOAT ? given->f : 1;
}

const char *msc_free_arg_name(const msc_func *f, msc_arena *arena, const char *name) {
  for (size_t i = 0; i < f->body->num_args; i++)
    if (!strcmp(msc_name_of_arg(f, i), name)) return msc_free_arg_name(f, arena, msc_arena_printf(arena, "%s_", name));
  return name;
}

void msc_add_result_names(msc_func *f, size_t num, const char *const *names) {
  msc_context *ctx = f->module->ctx;
  const msc_attr_value *old = msc_func_attr(f, MSC_FACT(results));
  if (!old || old->kind != MSC_ATTR_LIST) return;
  msc_attr_value *list = msc_new_array(msc_context_arena(ctx), msc_attr_value, old->list.num + num + 1);
  if (old->list.num) memcpy(list, old->list.v, old->list.num * sizeof *list);
  for (size_t i = 0; i < num; i++) list[old->list.num + i] = msc_str(ctx, names[i]);
  msc_func_put(f, msc_fact_results(ctx, old->list.num + num, list));
}

/* ---- kind and hyper-parameters ---- */

/* "sgd, momentum ...": all kinds, or those with a lazy form. */
static const char *list_kinds(const group_reader *r, bool are_lazy) {
  const char *text = "";
  for (int i = 0; i < NUM_KINDS; i++)
    if (!are_lazy || kinds[i].lazy != OP_return)
      text = msc_arena_printf(msc_context_arena(r->f->module->ctx), "%s%s%s", text, *text ? ", " : "", kinds[i].name);
  return text;
}

static int read_optimizer_kind(const group_reader *r, const msc_attr_value *group) {
  const msc_attr_value *kind = msc_find_attr(group->dict.a, group->dict.num, "kind");
  const char *names[NUM_KINDS];
  if (!kind || kind->kind != MSC_ATTR_STR)
    return report_optimizer_fault(r, "optimizer: 'kind' is missing; it is one of %s", list_kinds(r, false)), -1;
  for (int i = 0; i < NUM_KINDS; i++) {
    names[i] = kinds[i].name;
    if (!strcmp(kind->s, names[i])) return i;
  }
  const char *near = msc_nearest(kind->s, names, NUM_KINDS);
  if (near) report_optimizer_fault(r, "optimizer: unknown kind '%s'; did you mean '%s'?", kind->s, near);
  else report_optimizer_fault(r, "optimizer: unknown kind '%s'; it is one of %s", kind->s, list_kinds(r, false));
  return -1;
}

static const msc_attr_spec *find_attr_spec(const msc_op_info *info, const char *name) {
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, name)) return &info->attr[i];
  return NULL;
}

static const msc_attr_spec *find_hyper_spec(const group_reader *r, int kind, const char *name) {
  msc_context *ctx = r->f->module->ctx;
  const msc_attr_spec *spec = find_attr_spec(msc_op_info_of(ctx, kinds[kind].update), name);
  if (!strcmp(name, clip_norm.name)) return &clip_norm;
  if (!strcmp(name, lazy.name)) return &lazy;
  return spec ? spec : find_attr_spec(msc_op_info_of(ctx, kinds[kind].second), name);
}

static bool report_unknown_hyper(const group_reader *r, int kind, const char *name) {
  msc_context *ctx = r->f->module->ctx;
  const char *words[32];
  size_t num = 0;
  const msc_op_kind parts[] = {kinds[kind].update, kinds[kind].second};
  for (int p = 0; p < 2; p++) {
    const msc_op_info *info = msc_op_info_of(ctx, parts[p]);
    for (int i = 0; i < info->num_attrs; i++) words[num++] = info->attr[i].name;
  }
  words[num++] = "parameters";
  words[num++] = clip_norm.name;
  words[num++] = lazy.name;
  const char *near = msc_nearest(name, words, num);
  if (near)
    return report_optimizer_fault(r, "optimizer %s: unknown hyper-parameter '%s'; did you mean '%s'?", kinds[kind].name,
                                  name, near);
  return report_optimizer_fault(r, "optimizer %s: unknown hyper-parameter '%s'", kinds[kind].name, name);
}

static bool check_hyper_range(const group_reader *r, int kind, const char *name, double v) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    if (strcmp(ranges[i].name, name)) continue;
    if (v >= ranges[i].low && (ranges[i].below ? v < ranges[i].high : v <= ranges[i].high)) return true;
    return report_optimizer_fault(r, "optimizer %s: %s is %g; it must be %s", kinds[kind].name, name, v,
                                  ranges[i].range);
  }
  return true;
}

static bool check_hyper(const group_reader *r, int kind, const msc_attr *a) {
  const msc_attr_spec *spec = find_hyper_spec(r, kind, a->name);
  if (!spec) return report_unknown_hyper(r, kind, a->name);
  if (spec->kind == MSC_ATTR_BOOL)
    return a->value.kind == MSC_ATTR_BOOL ||
           report_optimizer_fault(r, "optimizer %s: %s must be true or false", kinds[kind].name, a->name);
  if (a->value.kind == MSC_ATTR_FLOAT) return check_hyper_range(r, kind, a->name, a->value.f);
  if (a->value.kind == MSC_ATTR_INT) return check_hyper_range(r, kind, a->name, (double)a->value.i);
  return report_optimizer_fault(r, "optimizer %s: %s must be a number", kinds[kind].name, a->name);
}

static bool check_required(const group_reader *r, int kind, const msc_attr_value *group) {
  bool ok = true;
  const msc_op_kind parts[] = {kinds[kind].update, kinds[kind].second};
  for (int p = 0; p < (parts[0] == parts[1] ? 1 : 2); p++) {
    const msc_op_info *info = msc_op_info_of(r->f->module->ctx, parts[p]);
    for (int i = 0; i < info->num_attrs; i++)
      if (!info->attr[i].has_default && !msc_find_attr(group->dict.a, group->dict.num, info->attr[i].name))
        ok = report_optimizer_fault(r, "optimizer %s: '%s' is missing", kinds[kind].name, info->attr[i].name);
  }
  return ok;
}

static double read_number_or(const msc_attr_value *group, const char *name, double absent) {
  const msc_attr_value *v = msc_find_attr(group->dict.a, group->dict.num, name);
  return !v ? absent : v->kind == MSC_ATTR_INT ? (double)v->i : v->f;
}

/* Nesterov momentum looks ahead along the momentum, so there must be one, without dampening. */
static bool check_nesterov(const group_reader *r, int kind, const msc_attr_value *group) {
  const msc_attr_value *nesterov = msc_find_attr(group->dict.a, group->dict.num, "nesterov");
  if (!nesterov || !nesterov->b) return true;
  if (read_number_or(group, "momentum", 0) > 0 && read_number_or(group, "dampening", 0) == 0) return true;
  return report_optimizer_fault(r, "optimizer %s: nesterov needs a momentum above 0 and no dampening",
                                kinds[kind].name);
}

/* Sets the op of lazy updates, if the group asks for them. */
static bool read_lazy(const group_reader *r, int kind, const msc_attr_value *group, msc_optimizer_group *out) {
  const msc_attr_value *v = msc_find_attr(group->dict.a, group->dict.num, lazy.name);
  out->lazy = OP_return;
  if (!v || v->kind != MSC_ATTR_BOOL || !v->b) return true;
  out->lazy = kinds[kind].lazy;
  if (out->lazy == OP_return)
    return report_optimizer_fault(r, "optimizer %s: there is no lazy form; those with one are %s", kinds[kind].name,
                                  list_kinds(r, true));
  return read_number_or(group, clip_norm.name, 0) == 0 ||
         report_optimizer_fault(r,
                                "optimizer %s: clip_norm needs the norm of whole gradients, which lazy updates do not "
                                "make",
                                kinds[kind].name);
}

static bool check_hypers(const group_reader *r, int kind, const msc_attr_value *group) {
  bool ok = check_required(r, kind, group);
  for (size_t i = 0; i < group->dict.num; i++) {
    const msc_attr *a = &group->dict.a[i];
    if (strcmp(a->name, "kind") && strcmp(a->name, "parameters") && !check_hyper(r, kind, a)) ok = false;
  }
  return ok && check_nesterov(r, kind, group);
}

/* ---- which parameters ---- */

static bool is_trainable(const msc_func *f, size_t arg) {
  const msc_attr_value *trainable = msc_arg_attr(f, arg, MSC_FACT(msc_trainable));
  bool on = !trainable || trainable->kind != MSC_ATTR_BOOL || trainable->b;
  return on && msc_arg_role(f, arg) == MSC_ROLE_PARAMETER && msc_is_float(f->body->args[arg]->type->dtype);
}

static int compare_name_pointers(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const named_arg *)a)->name, y = (uintptr_t)((const named_arg *)b)->name;
  return x < y ? -1 : x > y;
}

static bool report_unknown_parameter(const group_reader *r, const char *name) {
  const msc_func *f = r->f;
  size_t num = 0;
  const char **words = msc_new_array(r->arena, const char *, f->body->num_args);
  for (size_t i = 0; i < f->body->num_args; i++)
    if (is_trainable(f, i)) words[num++] = msc_name_of_arg(f, i);
  const char *near = msc_nearest(name, words, num);
  if (near) return report_optimizer_fault(r, "optimizer: there is no parameter '%s'; did you mean '%s'?", name, near);
  return report_optimizer_fault(r, "optimizer: there is no parameter '%s'", name);
}

static bool add_named_parameter(group_reader *r, const char *name, msc_optimizer_group *out) {
  named_arg key = {name, 0};
  const named_arg *found = bsearch(&key, r->by_name, r->f->body->num_args, sizeof key, compare_name_pointers);
  if (!found) return report_unknown_parameter(r, name);
  if (!is_trainable(r->f, found->arg))
    return report_optimizer_fault(r, "optimizer: '%s' is not a trainable floating-point parameter", name);
  if (r->taken[found->arg]) return report_optimizer_fault(r, "optimizer: parameter '%s' is named twice", name);
  r->taken[found->arg] = true;
  out->arg[out->num_args++] = found->arg;
  return true;
}

static int compare_ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Adds the parameters that the group names. */
static bool add_listed_parameters(group_reader *r, const msc_attr_value *names, msc_optimizer_group *out) {
  if (names->kind != MSC_ATTR_LIST) return report_optimizer_fault(r, "optimizer: 'parameters' must be a list of names");
  bool ok = true;
  out->arg = msc_new_array(r->arena, uint32_t, names->list.num + 1);
  for (size_t i = 0; i < names->list.num; i++) {
    if (names->list.v[i].kind != MSC_ATTR_STR)
      ok = report_optimizer_fault(r, "optimizer: entry %zu of 'parameters' must be a name", i);
    else if (!add_named_parameter(r, names->list.v[i].s, out)) ok = false;
  }
  qsort(out->arg, out->num_args, sizeof *out->arg, compare_ascending);
  return ok;
}

static bool add_group_parameters(group_reader *r, const msc_attr_value *values, bool alone, msc_optimizer_group *out) {
  const msc_attr_value *names = msc_find_attr(values->dict.a, values->dict.num, "parameters");
  if (names) return add_listed_parameters(r, names, out);
  if (!alone)
    return report_optimizer_fault(r, "optimizer: with several groups each needs 'parameters', the list of their names");
  out->arg = msc_new_array(r->arena, uint32_t, r->f->body->num_args + 1);
  for (size_t i = 0; i < r->f->body->num_args; i++)
    if (is_trainable(r->f, i)) out->arg[out->num_args++] = (uint32_t)i;
  return true;
}

static bool read_optimizer_group(group_reader *r, const msc_attr_value *values, bool alone, msc_optimizer_group *out) {
  if (values->kind != MSC_ATTR_DICT)
    return report_optimizer_fault(r, "optimizer: must be a dictionary, or a list of them");
  int kind = read_optimizer_kind(r, values);
  out->values = values;
  if (kind >= 0) out->update = kinds[kind].update, out->apply = kinds[kind].second;
  bool ok = kind >= 0 && check_hypers(r, kind, values) && read_lazy(r, kind, values, out);
  return add_group_parameters(r, values, alone, out) && ok;
}

/* Reads clip_norm, which must be the same in every group: the norm is that of all gradients together. */
static bool read_clip_norm(const group_reader *r, msc_optimizer_groups *out) {
  out->clip_norm = out->num ? read_number_or(out->group[0].values, clip_norm.name, 0) : 0;
  for (size_t i = 1; i < out->num; i++) {
    double other = read_number_or(out->group[i].values, clip_norm.name, 0);
    if (other != out->clip_norm)
      return report_optimizer_fault(
          r, "optimizer: clip_norm is of all gradients together; group 0 says %g, group %zu says %g", out->clip_norm, i,
          other);
  }
  return true;
}

bool msc_read_optimizer(msc_func *f, msc_arena *arena, msc_optimizer_groups *out) {
  size_t num_args = f->body->num_args;
  group_reader r = {f, arena, msc_new_array(arena, bool, num_args + 1), msc_new_array(arena, named_arg, num_args + 1)};
  for (size_t i = 0; i < num_args; i++) r.by_name[i] = (named_arg){msc_name_of_arg(f, i), (uint32_t)i};
  qsort(r.by_name, num_args, sizeof *r.by_name, compare_name_pointers);
  const msc_attr_value *optimizer = msc_func_attr(f, MSC_FACT(optimizer));
  bool ok = true, list = optimizer->kind == MSC_ATTR_LIST;
  out->num = list ? optimizer->list.num : 1;
  out->group = msc_new_array(arena, msc_optimizer_group, out->num + 1);
  size_t taken = 0;
  for (size_t i = 0; i < out->num; i++) {
    if (!read_optimizer_group(&r, list ? &optimizer->list.v[i] : optimizer, out->num == 1, &out->group[i])) ok = false;
    taken += out->group[i].num_args;
  }
  ok = ok && read_clip_norm(&r, out);
  return ok && (taken || report_optimizer_fault(&r, "optimizer: the function has no trainable parameter"));
}
