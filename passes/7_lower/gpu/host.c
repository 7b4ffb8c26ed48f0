/* host: ops marked primitive_target in a program for a GPU, as look-ups of a table, and updates of state that lives in
 * the host's memory, if the key offload says so -> these run on the host, where the parameters that they read live,
 * with their state and their sums over micro-batches; `stash` and `fetch` move values from the GPU to the host and
 * back.
 *
 * Ops that nobody has marked run there too where fewer bytes are moved then: what makes a large value for host ops of a
 * smaller one, as the gradient of a table of rows, and what sums up what the host has made. */
#include "ir/alias.h"
#include "ir/fact.h"
#include "ir/table.h"
#include "passes/7_lower/builtin.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/8_memory/homes.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  const char *name; /* interned */
  bool lives, never; /* on the host; some op on the GPU needs it there */
} kept_value;

typedef struct {
  msc_func *f;
  bool *runs; /* by op id: on the host */
} host_func;

typedef struct {
  msc_pass_ctx *pass;
  size_t num;
  host_func *func;
  MSC_TABLE(kept_value) kept; /* parameters, state and sums of all functions */
  bool changed;
} host_placer;

/* ---- where values are ---- */

static kept_value *kept_of(host_placer *z, const msc_func *f, size_t arg) {
  const char *name = msc_intern(z->pass->ctx, msc_name_of_arg(f, arg));
  return msc_table_at(&z->kept, &name);
}

/* True if the host may keep the argument: a parameter, its state, or a sum over micro-batches. */
static bool may_live_there(const msc_func *f, size_t arg) {
  msc_role role = msc_arg_role(f, arg);
  return f->body->args[arg]->type->rank &&
         (role == MSC_ROLE_PARAMETER || role == MSC_ROLE_SUM ||
          (role == MSC_ROLE_STATE && msc_arg_attr(f, arg, MSC_FACT(msc_owner))));
}

static bool is_there(host_placer *z, const host_func *h, const msc_value *v) {
  return v->def ? h->runs[v->def->id] : kept_of(z, h->f, v->index)->lives;
}

/* True if the host can read the value without a transfer, or could keep it: nobody else reads it, or it is a sum. */
static bool is_free(host_placer *z, const host_func *h, const msc_value *v) {
  if (msc_is_constant(v) || is_there(z, h, v)) return true;
  if (v->def || !may_live_there(h->f, v->index) || kept_of(z, h->f, v->index)->never) return false;
  return msc_has_one_use(v) || msc_arg_role(h->f, v->index) == MSC_ROLE_SUM;
}

static bool is_used_there(host_placer *z, const host_func *h, const msc_use *u) {
  if (!(msc_info(u->user)->flags & MSC_TERMINATOR)) return h->runs[u->user->id];
  int64_t arg = msc_tied_argument(h->f, (size_t)(u - u->user->in));
  return arg >= 0 && kept_of(z, h->f, (size_t)arg)->lives;
}

/* ---- which ops run there ---- */

static bool has_kernel_for_host(const msc_op *op) {
  if (op->kind == OP_admit) return true; /* the runtime runs it */
  if (msc_info(op)->flags & (MSC_COLLECTIVE | MSC_TERMINATOR | MSC_MESSAGE | MSC_TRANSFER)) return false;
  return msc_is_view(op) || msc_builtin_of(op, NULL) || msc_nest_can_fuse(op);
}

static uint64_t bytes_of_results(const msc_op *op) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < op->num_out; i++) bytes += (uint64_t)msc_type_bytes(op->out[i].type);
  return bytes;
}

/* True if op may join the host without a mark: its arithmetic is light. */
static bool may_join(const msc_op *op) {
  return msc_info(op)->cost != MSC_COST_FLOPS && !msc_is_constant_op(op) && has_kernel_for_host(op);
}

/* Bytes that must be moved so that op can run on the host. What op alone reads may be made there, too: `depth` ops
 * before it. */
static uint64_t bytes_to_move(host_placer *z, const host_func *h, const msc_op *op, int depth) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (is_free(z, h, v)) continue;
    uint64_t all = (uint64_t)msc_type_bytes(v->type);
    bool its_own = depth && v->def && msc_has_one_use(v) && may_join(v->def);
    uint64_t less = its_own ? bytes_to_move(z, h, v->def, depth - 1) : all;
    bytes += less < all ? less : all;
  }
  return bytes;
}

/* True if only ops of the host use the results, and more bytes would be moved to them than to the op; as many, of a
 * view, which costs nothing. */
static bool makes_more_for_host(host_placer *z, const host_func *h, const msc_op *op) {
  bool used = false;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next, used = true)
      if (!is_used_there(z, h, u)) return false;
  enum { DEPTH = 3 };
  uint64_t moved = bytes_to_move(z, h, op, DEPTH), made = bytes_of_results(op);
  return used && (moved < made || (moved == made && msc_is_view(op)));
}

/* True if op sums up, into less, what the host has made for it alone. */
static bool sums_what_host_made(const host_func *h, const msc_op *op) {
  const msc_value *x = op->num_in == 1 ? op->in[0].value : NULL;
  return x && msc_form_of(op) == MSC_FORM_REDUCE && x->def && h->runs[x->def->id] && msc_has_one_use(x) &&
         bytes_of_results(op) < (uint64_t)msc_type_bytes(x->type);
}

static void run_there(host_placer *z, const host_func *h, const msc_op *op) {
  h->runs[op->id] = z->changed = true;
}

static void spread_in_func(host_placer *z, const host_func *h) {
  for (const msc_op *op = h->f->body->first; op; op = op->next)
    if (!h->runs[op->id] && has_kernel_for_host(op) && sums_what_host_made(h, op)) run_there(z, h, op);
  for (const msc_op *op = h->f->body->last; op; op = op->prev) {
    if (!h->runs[op->id] && may_join(op) && makes_more_for_host(z, h, op)) run_there(z, h, op);
    for (size_t i = 0; h->runs[op->id] && i < op->num_in; i++) {
      const msc_value *v = op->in[i].value;
      if (v->def || is_there(z, h, v) || !(msc_runs_on_host(op) ? may_live_there(h->f, v->index) : is_free(z, h, v)))
        continue;
      kept_value *k = kept_of(z, h->f, v->index);
      if (!k->never) k->lives = z->changed = true;
    }
  }
}

/* Finds a sum that the host was to keep and that an op on the GPU reads or makes. */
static kept_value *find_sum_of_device(host_placer *z) {
  for (const host_func *h = z->func; h < z->func + z->num; h++) {
    const msc_op *ret = h->f->body->last;
    for (size_t i = 0; i < h->f->body->num_args; i++) {
      kept_value *k = kept_of(z, h->f, i);
      for (const msc_use *u = h->f->body->args[i]->uses; u; u = u->next)
        if (msc_arg_role(h->f, i) == MSC_ROLE_SUM && k->lives && !is_used_there(z, h, u)) return k;
    }
    for (size_t i = 0; i < ret->num_in; i++) {
      int64_t arg = msc_tied_argument(h->f, i);
      if (arg < 0 || msc_arg_role(h->f, (size_t)arg) != MSC_ROLE_SUM || is_there(z, h, ret->in[i].value)) continue;
      kept_value *k = kept_of(z, h->f, (size_t)arg);
      if (k->lives) return k;
    }
  }
  return NULL;
}

/* Lets the marked ops run on the host, and what belongs to them, until nothing more joins them. */
static void spread(host_placer *z) {
  for (const host_func *h = z->func; h < z->func + z->num; h++) {
    for (const msc_op *op = h->f->body->first; op; op = op->next) h->runs[op->id] = msc_runs_on_host(op);
    for (size_t i = 0; i < h->f->body->num_args; i++) kept_of(z, h->f, i)->lives = false;
  }
  do {
    z->changed = false;
    for (const host_func *h = z->func; h < z->func + z->num; h++) spread_in_func(z, h);
  } while (z->changed);
}

static void place_all(host_placer *z) {
  spread(z);
  for (kept_value *k; (k = find_sum_of_device(z)); spread(z)) k->never = true;
}

/* ---- transfers ---- */

static msc_value *move_value(const host_placer *z, msc_func *f, msc_op_kind kind, msc_value *v) {
  msc_op *op = msc_op_new(f, kind, 1, &v, 1, v->def ? v->def->loc : f->loc);
  op->name = v->def ? v->def->name : v->name;
  if (kind == OP_stash) msc_op_put(op, msc_home_attr(z->pass->ctx, MSC_HOME_CPU));
  if (v->def) msc_insert_after(v->def, op);
  else msc_insert_before(f->body->first, op);
  if (!msc_infer(op)) return NULL;
  op->out[0].whole = v->whole;
  return &op->out[0];
}

/* Lets each op read what lies where it runs. A value is moved once. */
static bool move_operands(host_placer *z, const host_func *h, size_t num_values) {
  msc_value **copy = msc_new_array(z->pass->scratch, msc_value *, num_values);
  int64_t num = 0;
  for (msc_op *op = h->f->body->first, *next; op; op = next) {
    next = op->next;
    for (size_t i = 0; i < op->num_in; i++) {
      msc_value *v = op->in[i].value;
      bool terminates = msc_info(op)->flags & MSC_TERMINATOR, there = is_there(z, h, v),
           wanted = terminates ? is_used_there(z, h, &op->in[i]) : h->runs[op->id];
      if (msc_is_constant(v) || there == wanted || (!v->def && there)) continue; /* pass offload fetches parameters */
      if (terminates && !v->def) continue;
      if (!copy[v->id] && !(copy[v->id] = move_value(z, h->f, wanted ? OP_stash : OP_fetch, v))) return false;
      num += copy[v->id]->uses == NULL;
      msc_set_operand(op, i, copy[v->id]);
    }
  }
  msc_stat(z->pass, "values moved between host and device", num);
  return true;
}

static bool place_func(host_placer *z, const host_func *h, size_t num_values) {
  int64_t ops = 0;
  MSC_TRY(move_operands(z, h, num_values));
  for (size_t i = 0; i < h->f->body->num_args; i++)
    if (may_live_there(h->f, i) && kept_of(z, h->f, i)->lives)
      msc_arg_put(h->f, i, msc_fact_msc_home(z->pass->ctx, MSC_HOME_CPU));
  for (msc_op *op = h->f->body->first; op; op = op->next) {
    if (msc_is_transfer(op) || !h->runs[op->id]) continue;
    msc_op_set(op, MSC_FACT(primitive_target), msc_str(z->pass->ctx, "CPU"));
    ops++;
  }
  msc_stat(z->pass, "ops on the host", ops);
  return true;
}

/* ---- the module ---- */

/* Marks the updates that the key offload leaves to the host: of state that lives in its memory. */
static void mark_updates(const msc_pass_ctx *pass, msc_module *m) {
  if (!msc_config_updates_on_host(pass->config)) return;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next) {
      bool away = false;
      for (size_t i = 0; i < op->num_in && msc_info(op)->flags & MSC_UPDATE; i++) {
        const msc_value *v = op->in[i].value;
        away |= !v->def && msc_arg_role(f, v->index) == MSC_ROLE_STATE &&
                msc_home_of(pass->config, f, v->index) == MSC_HOME_CPU;
      }
      if (away && has_kernel_for_host(op))
        msc_op_set(op, MSC_FACT(primitive_target), msc_str(pass->ctx, "CPU"));
    }
}

/* Reports marked ops that the host has no kernel for; *out_any: there are marked ones. */
static bool check_marked(const msc_module *m, bool *out_any) {
  bool ok = true;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next) {
      if (!msc_runs_on_host(op)) continue;
      *out_any = true;
      if (!has_kernel_for_host(op) && !msc_is_constant_op(op))
        ok = msc_op_error(op, MSC_E_UNSUPPORTED,
                          "%s: primitive_target = \"CPU\": the host has no kernel for it beside the ones of %s",
                          msc_kind_name(op->kind), msc_target_of(m)->name);
    }
  return ok;
}

bool pass_host(msc_pass_ctx *pass, msc_module *m) {
  host_placer z = {.pass = pass, .kept.index.arena = pass->scratch};
  bool any = false;
  mark_updates(pass, m);
  MSC_TRY(check_marked(m, &any));
  if (!any) return msc_not_asked_for(pass);
  for (const msc_func *f = m->first; f; f = f->next) z.num++;
  z.func = msc_new_array(pass->scratch, host_func, z.num);
  size_t *num_values = msc_new_array(pass->scratch, size_t, z.num), i = 0;
  for (msc_func *f = m->first; f; f = f->next, i++) {
    msc_numbering n = msc_number(f->body);
    num_values[i] = n.num_values;
    z.func[i] = (host_func){f, msc_new_array(pass->scratch, bool, n.num_ops + 1)};
  }
  place_all(&z);
  for (i = 0; i < z.num; i++) MSC_TRY(place_func(&z, &z.func[i], num_values[i]));
  return true;
}
