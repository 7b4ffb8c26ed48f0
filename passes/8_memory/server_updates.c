/* server_updates: updates of parameters that live on servers, as the key parameter_server says -> marked, with the sums
 * of gradients that they read, and what lazy updates read of all ranks' rows: servers make these, of what every worker
 * pushes, and run the updates; workers skip both and pull the new values.
 *
 * An update can be a server's if it reads nothing else but the state, constants, and what these alone give, as the
 * number of the step does: servers compute that too.  A parameter that is cut over the workers stays with them, and so
 * does one whose gradient every worker has whole, without a sum over the workers, or whose sum somebody else reads, or
 * is of another type than most, or does not add what ranks have in the order of their numbers.
 *
 * In mode async workers do not wait for one another: servers must have every parameter, and what else is summed over
 * all workers, as losses are, each worker takes for itself, as if all had what it has. */
#include <string.h>

#include "ir/alias.h"
#include "ir/comm.h"
#include "ir/fact.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/target.h"
#include "passes/7_lower/transfer.h"
#include "passes/8_memory/served.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t ranks;    /* of a stage */
  bool *update;     /* by op id: an update that servers may run */
  bool *workers;    /* by op id: workers need its results */
  uint8_t *by;      /* by op id: who runs it, MSC_BY_... */
  msc_dtype summed; /* the element type of the values that servers sum */
  bool of_lazy;     /* what is marked is read by a lazy update */
} serving_pass;

/* ---- what is marked ---- */

static bool is_marked_for_server(const msc_func *f, size_t arg) {
  const msc_attr_value *v = msc_arg_attr(f, arg, MSC_FACT(msc_parameter_server));
  return v && v->kind == MSC_ATTR_BOOL && v->b;
}

static bool any_marked(const msc_func *f) {
  for (size_t i = 0; i < f->body->num_args; i++)
    if (is_marked_for_server(f, i)) return true;
  return false;
}

/* The parameter that an argument is, or is state of; NULL: neither. */
static const char *owner_of_argument(const msc_func *f, size_t arg) {
  const msc_attr_value *owner = msc_arg_attr(f, arg, MSC_FACT(msc_owner));
  if (msc_arg_role(f, arg) == MSC_ROLE_PARAMETER) return msc_name_of_arg(f, arg);
  return owner ? owner->s : NULL;
}

/* True if the argument is a parameter, or its state, that the user wants on servers. */
static bool is_served_parameter(const msc_func *f, size_t arg, bool all) {
  const char *owner = owner_of_argument(f, arg);
  if (!owner || all) return owner != NULL;
  for (size_t i = 0; i < f->body->num_args; i++)
    if (is_marked_for_server(f, i) && !strcmp(msc_name_of_arg(f, i), owner)) return true;
  return false;
}

/* The ops that write only parameters that are wanted, and their state. */
static void list_updates(serving_pass *z, bool all) {
  const msc_op *ret = z->f->body->last;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (arg >= 0 && maker && is_served_parameter(z->f, (size_t)arg, all)) z->update[maker->id] = true;
  }
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (maker && (arg < 0 || !is_served_parameter(z->f, (size_t)arg, all))) z->update[maker->id] = false;
  }
}

/* ---- what an update reads ---- */

/* The type of the most elements that are summed over ranks: servers sum values of one type. */
static msc_dtype most_summed(const msc_func *f) {
  int64_t elems[MSC_NUM_DTYPES] = {0};
  msc_dtype most = MSC_F32;
  for (const msc_op *op = f->body->first; op; op = op->next)
    for (size_t i = 0; msc_sums_over_ranks(op) && i < op->num_in; i++)
      elems[op->in[i].value->type->dtype] += msc_type_elems(op->in[i].value->type);
  for (msc_dtype d = 0; d < MSC_NUM_DTYPES; d++)
    if (elems[d] > elems[most]) most = d;
  return most;
}

/* True if the terms of a sum are added in the order of the ranks, as servers do. */
static bool adds_in_order_of_ranks(const msc_layout *order) {
  for (int i = 1; order && i < order->first[1]; i++) {
    msc_subaxis a = order->sub[i - 1], b = order->sub[i];
    if (a.axis > b.axis || (a.axis == b.axis && a.pre > b.pre)) return false;
  }
  return true;
}

/* True if the op sums values over all ranks, as servers can: all of one type. */
static bool sums_over_all_ranks(const serving_pass *z, const msc_op *op) {
  msc_cost cost;
  msc_cost_transfer t;
  if (!msc_sums_over_ranks(op) || msc_op_reduction(op) != MSC_SUM) return false;
  const msc_comm_part *part = msc_comm_parts(op, z->pass->scratch);
  for (size_t i = 0; i < op->num_in; i++)
    if (op->in[i].value->type->dtype != z->summed || !part || !adds_in_order_of_ranks(part[i].order)) return false;
  msc_cost_of(msc_pass_cluster(z->pass), &z->f->module->mesh, &cost);
  return msc_transfer_of(&cost, op, z->pass->scratch, &t) && t.ranks == z->ranks;
}

/* True if the op hands all ranks what each of them has, in the same order to all. */
static bool gathers_from_all_ranks(const serving_pass *z, const msc_op *op) {
  msc_cost cost;
  msc_cost_transfer t;
  const msc_comm_part *part = msc_op_verb(op) == MSC_ALL_GATHER ? msc_comm_parts(op, z->pass->scratch) : NULL;
  for (size_t i = 0; part && i < op->num_in; i++)
    if (!msc_layout_is_replicated(part[i].to)) return false;
  msc_cost_of(msc_pass_cluster(z->pass), &z->f->module->mesh, &cost);
  return part && msc_transfer_of(&cost, op, z->pass->scratch, &t) && t.ranks == z->ranks;
}

/* True if every worker has other values in the argument: samples, sums over its micro-batches, or its part of a
 * tensor that is cut. */
static bool differs_between_workers(const msc_func *f, size_t arg) {
  const msc_layout *l = msc_attr_layout(msc_arg_attr(f, arg, MSC_FACT(msc_layout)));
  msc_role role = msc_arg_role(f, arg);
  return (role != MSC_ROLE_PARAMETER && role != MSC_ROLE_STATE) || (l && !msc_layout_is_replicated(l));
}

/* Marks op and all that it is computed from as work of servers. False: it reads something that servers do not have.
 * *out_summed: it reads a sum over all ranks, or the rows of all. */
static bool mark_needed(serving_pass *z, const msc_op *op, bool *out_summed) {
  *out_summed = false;
  if (op->kind == OP_constant) return true;
  if (z->workers[op->id]) return false;
  if (op->kind == OP_comm) {
    *out_summed = sums_over_all_ranks(z, op) || (z->of_lazy && gathers_from_all_ranks(z, op));
    if (*out_summed) z->by[op->id] = MSC_BY_SERVERS;
    return *out_summed;
  }
  if (op->kind == OP_gemm || msc_is_message(op)) return false;
  bool summed = false;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    bool of_operand = false;
    if (!v->def && differs_between_workers(z->f, v->index)) return false;
    if (v->def && !mark_needed(z, v->def, &of_operand)) return false;
    summed |= of_operand;
  }
  *out_summed = summed;
  if (!msc_is_view(op)) z->by[op->id] = summed || z->update[op->id] ? MSC_BY_SERVERS : MSC_BY_BOTH;
  return true;
}

/* True if only servers read the results of op, also through views. */
static bool is_read_by_servers(const serving_pass *z, const msc_op *op) {
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next) {
      if (msc_info(u->user)->flags & MSC_TERMINATOR) {
        if (!z->update[op->id]) return false;
      } else if (msc_is_view(u->user)) {
        if (!is_read_by_servers(z, u->user)) return false;
      } else if (z->by[u->user->id] != MSC_BY_SERVERS) return false;
    }
  return true;
}

/* Marks what the updates in z->update need; drops an update that a server cannot run, and leaves a sum that workers
 * read too to the workers. False: something was dropped, and the marks must be made again. */
static bool mark_all_needed(serving_pass *z) {
  bool stable = true, summed;
  for (const msc_op *op = z->f->body->first; op; op = op->next) z->by[op->id] = 0;
  for (const msc_op *op = z->f->body->first; op; op = op->next)
    if (z->update[op->id]) {
      z->of_lazy = msc_is_lazy_update(op);
      if (!mark_needed(z, op, &summed) || !summed) z->update[op->id] = stable = false;
    }
  for (const msc_op *op = z->f->body->first; op && stable; op = op->next)
    if (z->by[op->id] == MSC_BY_SERVERS && !is_read_by_servers(z, op)) z->workers[op->id] = true, stable = false;
  return stable;
}

/* ---- a function ---- */

static bool report_kept(const serving_pass *z, bool all, int64_t *out_served) {
  const msc_op *ret = z->f->body->last;
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (arg < 0 || !is_served_parameter(z->f, (size_t)arg, all)) continue;
    if (msc_arg_role(z->f, (size_t)arg) != MSC_ROLE_PARAMETER) continue;
    if (maker && z->update[maker->id]) {
      ++*out_served;
      continue;
    }
    const char *name = msc_name_of_arg(z->f, (size_t)arg);
    if (!all)
      ok = msc_error(z->pass->ctx, MSC_E_UNSUPPORTED, z->f->loc,
                     "parameter '%s' is marked msc.parameter_server and cannot live on servers: its gradient is no sum "
                     "over all ranks in their order and of the type of most others, or others read that too",
                     name);
    else msc_remark(z->pass, NULL, "%s stays with the workers: its gradient is no sum over all of them", name);
  }
  return ok;
}

/* ---- workers that do not wait for one another ---- */

/* Marks sums over all workers that are left as each worker's own. */
static bool mark_own_sums(const serving_pass *z) {
  bool ok = true;
  for (const msc_op *op = z->f->body->first; op; op = op->next) {
    bool waits = msc_is_message(op) || (op->kind == OP_comm && msc_op_verb(op) != MSC_SHARD);
    if (z->by[op->id] || !waits) continue;
    serving_pass of_any_type = *z;
    if (op->num_in) of_any_type.summed = op->in[0].value->type->dtype;
    if (op->kind == OP_comm && sums_over_all_ranks(&of_any_type, op)) z->by[op->id] = MSC_BY_EACH;
    else
      ok = msc_op_error(op, MSC_E_UNSUPPORTED,
                        "parameter_server.mode async: here workers wait for one another, for more than sums of "
                        "gradients and losses over all of them; mode sync can do that");
  }
  return ok;
}

/* Reports parameters that servers do not update: workers could not keep them alike. */
static bool check_all_served(const serving_pass *z) {
  const msc_op *ret = z->f->body->last;
  bool ok = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(z->f, i);
    const msc_op *maker = msc_memory_of(ret->in[i].value).root->def;
    if (arg < 0 || msc_arg_role(z->f, (size_t)arg) != MSC_ROLE_PARAMETER || (maker && z->update[maker->id])) continue;
    ok = msc_error(z->pass->ctx, MSC_E_UNSUPPORTED, z->f->loc,
                   "parameter_server.mode async: parameter '%s' cannot live on servers, and workers that do not wait "
                   "for one another cannot update it",
                   msc_name_of_arg(z->f, (size_t)arg));
  }
  return ok;
}

static bool serve_func(msc_pass_ctx *pass, msc_func *f, bool all, int64_t *out_served) {
  msc_numbering n = msc_number(f->body);
  int64_t served = 0;
  serving_pass z = {.pass = pass,
                    .f = f,
                    .ranks = msc_mesh_size(&f->module->mesh) / msc_config_int(pass->config, MSC_KEY_pipeline_stages),
                    .update = msc_new_array(pass->scratch, bool, n.num_ops + 1),
                    .workers = msc_new_array(pass->scratch, bool, n.num_ops + 1),
                    .by = msc_new_array(pass->scratch, uint8_t, n.num_ops + 1),
                    .summed = most_summed(f)};
  list_updates(&z, all);
  while (!mark_all_needed(&z)) {}
  if (!msc_config_servers(pass->config).sync) MSC_TRY(check_all_served(&z) && mark_own_sums(&z));
  for (msc_op *op = f->body->first; op; op = op->next)
    if (z.by[op->id]) msc_op_put(op, msc_fact_served(z.by[op->id]));
  MSC_TRY(report_kept(&z, all, &served));
  msc_stat(pass, "parameters on servers", served);
  *out_served += served;
  return true;
}

/* Refuses parameters marked for servers in a configuration without servers, and servers for a target that has none. */
static bool check_asked(const msc_pass_ctx *pass, const msc_module *m, bool asked) {
  const msc_target *target = msc_target_of(m);
  bool marks = false;
  for (const msc_func *f = m->first; f; f = f->next) marks |= any_marked(f);
  if (marks && !asked && pass->config)
    return msc_error(pass->ctx, MSC_E_CONFIG, m->first->loc,
                     "parameters are marked parameter_server, and the key parameter_server does not say how they are "
                     "served: {\"mode\": \"sync\"}");
  return !asked || target->has_servers ||
         msc_error(pass->ctx, MSC_E_UNSUPPORTED, msc_config_loc(pass->config, MSC_KEY_parameter_server),
                   "parameter_server: not supported yet for %s, only for cpu", target->name);
}

bool pass_server_updates(msc_pass_ctx *pass, msc_module *m) {
  bool asked = pass->config && msc_config_value(pass->config, MSC_KEY_parameter_server);
  MSC_TRY(check_asked(pass, m, asked));
  if (!asked) return msc_not_asked_for(pass);
  bool all = true;
  int64_t served = 0;
  for (const msc_func *f = m->first; f; f = f->next) all = all && !any_marked(f);
  for (msc_func *f = m->first; f; f = f->next)
    if (msc_program_of(f) == MSC_PROGRAM_TRAIN) MSC_TRY(serve_func(pass, f, all, &served));
  if (all && !served)
    msc_warning(pass->ctx, MSC_E_CONFIG, msc_config_loc(pass->config, MSC_KEY_parameter_server),
                "parameter_server does nothing here: of no parameter is the gradient a sum over all ranks that its "
                "update alone reads");
  return true;
}
