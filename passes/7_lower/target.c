/* target.c: a name, or a module's attribute, in; the target out. */
#include "passes/7_lower/target.h"

#include <string.h>

static const msc_target *const targets[] = {&msc_target_cpu, &msc_target_cuda};

const msc_target *msc_target_named(const char *name) {
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (!strcmp(targets[i]->name, name)) return targets[i];
  return NULL;
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

bool msc_is_deterministic(const msc_module *m, const msc_config *config) {
  return msc_config_is_set(config, MSC_KEY_deterministic) ? msc_config_bool(config, MSC_KEY_deterministic)
                                                          : msc_target_of(m)->deterministic;
}
