/* target.c: a module in; what its attribute says that it is lowered for, out. */
#include "passes/7_lower/target.h"

#include <string.h>

static const char *const names[MSC_NUM_TARGETS] = {[MSC_TARGET_CPU] = "cpu", [MSC_TARGET_CUDA] = "cuda"};

const char *msc_target_name(msc_target t) { return names[t]; }

bool msc_target_named(const char *name, msc_target *out_target) {
  for (int t = 0; t < MSC_NUM_TARGETS; t++) {
    if (strcmp(names[t], name) != 0) continue;
    *out_target = (msc_target)t;
    return true;
  }
  return false;
}

msc_target msc_target_of(const msc_module *m) {
  const msc_attr_value *v = msc_find_attr(m->attrs, m->num_attrs, "msc.target");
  msc_target t = MSC_TARGET_CPU;
  if (v && v->kind == MSC_ATTR_STR) msc_target_named(v->s, &t);
  return t;
}

bool msc_is_deterministic(const msc_module *m, const msc_config *config) {
  return msc_config_is_set(config, MSC_KEY_deterministic) ? msc_config_bool(config, MSC_KEY_deterministic)
                                                          : msc_target_of(m) == MSC_TARGET_CPU;
}
