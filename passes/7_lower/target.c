/* target.c: a name, or a module's attribute, in; the target out. */
#include "passes/7_lower/target.h"

#include <string.h>

static const msc_target *const targets[] = {
#define X(id, most_units, has_images, calls_whole) &msc_target_##id,
    MSC_TARGETS(X)
#undef X
};

const msc_target *msc_target_named(const char *name) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (!strcmp(targets[i]->name, name)) return targets[i];
  return NULL;
}

const char *msc_target_names(msc_arena *arena, const char *between) {
  const char *names = targets[0]->name;
  for (size_t i = 1; i < sizeof targets / sizeof *targets; i++)
    names = msc_arena_printf(arena, "%s%s%s", names, between, targets[i]->name);
  return names;
}

const msc_target *msc_target_alone(unsigned set) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (targets[i]->bit == set) return targets[i];
  return NULL;
}

const msc_target *msc_target_of(const msc_module *m) {
  const msc_attr_value *v = msc_find_attr(m->attrs, m->num_attrs, MSC_FACT(msc_target));
  const msc_target *t = v && v->kind == MSC_ATTR_STR ? msc_target_named(v->s) : NULL;
  return t ? t : targets[0];
}

bool msc_runs_on_host(const msc_op *op) {
  return msc_op_attr(op, MSC_FACT(primitive_target)) && msc_target_of(op->block->func->module)->host;
}

const msc_target *msc_target_of_op(const msc_op *op) {
  const msc_target *t = msc_target_of(op->block->func->module);
  return msc_runs_on_host(op) ? t->host : t;
}

bool msc_is_deterministic(const msc_module *m, const msc_config *config) {
  return msc_config_is_set(config, MSC_KEY_deterministic) ? msc_config_bool(config, MSC_KEY_deterministic)
                                                          : msc_target_of(m)->deterministic;
}
