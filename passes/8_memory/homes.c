/* homes.c: the key offload and an argument in; where the argument lives, and the time of a transfer from there, out. */
#include <string.h>

#include "ir/alias.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/homes.h"
#include "passes/config/config.h"

/* The place that a detail of the key offload names; NULL: the device. */
static msc_home home_called(const char *name) {
  msc_home home = MSC_HOME_DEVICE;
  if (name) msc_home_parse(name, &home);
  return home;
}

/* Has auto_offload chosen this argument for a place, which has the list `fact`? */
static bool is_chosen(const msc_func *f, size_t i, const char *fact) {
  const msc_attr_value *away = msc_find_attr(f->module->attrs, f->module->num_attrs, fact),
                       *own = away ? msc_arg_attr(f, i, MSC_FACT(msc_name)) : NULL;
  const char *name = own ? own->s : f->body->args[i]->name;
  for (size_t k = 0; away && name && k < away->list.num; k++)
    if (!strcmp(away->list.v[k].s, name)) return true;
  return false;
}

msc_home msc_home_of(const msc_config *config, const msc_func *f, size_t i) {
  msc_role role = msc_arg_role(f, i);
  const msc_type *t = f->body->args[i]->type;
  if (msc_home_said(f, i) == MSC_HOME_CPU && !msc_arg_attr(f, i, MSC_FACT(msc_cached))) return MSC_HOME_CPU;
  if (!config || (role != MSC_ROLE_PARAMETER && role != MSC_ROLE_STATE)) return MSC_HOME_DEVICE;
  if (msc_arg_attr(f, i, MSC_FACT(msc_cached))) return MSC_HOME_DEVICE; /* pass cached has said where it lives */
  if (t->rank == 0 || msc_local_bytes(t) < MSC_LEAST_OFFLOADED_BYTES) return MSC_HOME_DEVICE;
  msc_home home = home_called(msc_config_offload(config, role == MSC_ROLE_STATE ? "optimizer" : "param"));
  if (home != MSC_HOME_DEVICE) return home;
  return is_chosen(f, i, MSC_FACT(msc_away))  ? MSC_HOME_CPU
         : is_chosen(f, i, MSC_FACT(msc_far)) ? MSC_HOME_DISK
                                              : MSC_HOME_DEVICE;
}

msc_put_off msc_put_off_of(const msc_config *config, const msc_module *m) {
  msc_home said = config ? home_called(msc_config_offload(config, "activation")) : MSC_HOME_DEVICE;
  if (said != MSC_HOME_DEVICE) return (msc_put_off){MSC_PUT_OFF_PARTS, INT64_MAX, said, said};
  bool disk = config && msc_config_value(config, MSC_KEY_offload_path);
  return (msc_put_off){.parts = msc_fact_read(m, msc_put_off, 0),
                       .room = msc_fact_read(m, msc_put_off_room, INT64_MAX),
                       .home = MSC_HOME_CPU,
                       .beyond = disk ? MSC_HOME_DISK : MSC_HOME_DEVICE};
}

msc_home msc_home_said(const msc_func *f, size_t i) { return msc_fact_read(&f->arg[i], msc_home, MSC_HOME_DEVICE); }

bool msc_is_made_on_host(const msc_value *v) {
  const msc_op *op = msc_memory_of(v).root->def;
  return op && (op->kind == OP_stash ? msc_op_home(op) == MSC_HOME_CPU : msc_runs_on_host(op));
}

msc_home msc_home_of_transfer(const msc_func *f, const msc_op *op) {
  const msc_value *v = op->in[0].value;
  const msc_op *stash = op->kind == OP_stash ? op : v->def && v->def->kind == OP_stash ? v->def : NULL;
  if (stash) return msc_op_home(stash);
  return v->def ? MSC_HOME_CPU : msc_home_said(f, v->index);
}

uint64_t msc_home_ns(const msc_cluster *cluster, msc_home home, uint64_t bytes) {
  if (home == MSC_HOME_DEVICE) return 0;
  if (home == MSC_HOME_DISK) return MSC_DISK_NS + (uint64_t)(1e9 * (double)bytes / cluster->disk_bytes_per_s);
  return (uint64_t)cluster->launch_ns + (uint64_t)(1e9 * (double)bytes / cluster->host_bytes_per_s);
}
