/* copies: micro_batch_interleaved = n: a section -> the same with the ops of n micro-batches, which do not depend on
 * each other except for the sums they add to. So the collectives of one can run beside the work of another; pass
 * overlap makes the order.
 *
 * Copy 0 is the section itself. Copy c works on the micro-batch c further on: its inputs are arguments with `msc.copy =
 * c`, its number is that of the section plus c, and what it carries and sends has names and numbers of its own. Values
 * that depend on parameters alone exist once. Sums, and other values kept from one micro-batch to the next, go from
 * copy to copy, so the bits are those of micro-batches one after the other. All copies receive before the first op and
 * send after the last one; entry k of a lane starts at micro-batch n k. */
#include <string.h>

#include "ir/formula.h"
#include "passes/pass.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  int64_t n;
  const int64_t *message; /* by message: the number of the message of copy 1; those of the other copies follow */
  size_t num_args, num_ops, num_results; /* of copy 0 */
  msc_op **op;
  bool *varies;           /* by value id: differs between copies */
  msc_value **value;      /* by value id: the value that stands for it in the copy being made */
  msc_value **kept;       /* by argument: its new value after the last copy made; NULL: it gets no new value */
  int64_t *ties;          /* by result: argument or -1 */
  size_t num_new_results; /* results of the new return, their ties and names */
  msc_value **new_result;
  int64_t *new_tie;
  msc_attr_value *new_name;
} section_copier;

/* ---- what differs between copies ---- */

static bool is_argument_of_copy(const section_copier *z, size_t arg) {
  msc_role role = msc_arg_role(z->f, arg);
  return role <= MSC_ROLE_MASK || role == MSC_ROLE_MICRO || role == MSC_ROLE_CARRIED;
}

static void mark_varying_values(section_copier *z) {
  for (size_t i = 0; i < z->num_args; i++) z->varies[z->f->body->args[i]->id] = is_argument_of_copy(z, i) || z->kept[i];
  for (size_t k = 0; k < z->num_ops; k++) {
    const msc_op *op = z->op[k];
    bool varies = op->kind == OP_stage_recv;
    for (size_t i = 0; i < op->num_in; i++) varies |= z->varies[op->in[i].value->id];
    for (size_t i = 0; i < op->num_out; i++) z->varies[op->out[i].id] = varies;
  }
}

static bool depends_on_copy(const section_copier *z, const msc_op *op) {
  bool varies = op->kind == OP_stage_recv;
  for (size_t i = 0; i < op->num_in; i++) varies |= z->varies[op->in[i].value->id];
  return varies;
}

/* ---- the first micro-batch ---- */

/* True if op compares the number of the micro-batch with that of the first. For copies after copy 0 it never is. */
static bool tests_first_micro_batch(const section_copier *z, const msc_op *op) {
  const msc_value *v = op->kind == OP_compare ? op->in[0].value : NULL;
  return v && !v->def && msc_arg_role(z->f, v->index) == MSC_ROLE_MICRO;
}

static bool selects_by_first_micro_batch(const section_copier *z, const msc_op *op) {
  return op->kind == OP_select && op->in[0].value->def && tests_first_micro_batch(z, op->in[0].value->def);
}

static bool needs_number(const section_copier *z, const msc_value *micro) {
  for (const msc_use *u = micro->uses; u; u = u->next)
    if (!tests_first_micro_batch(z, u->user)) return true;
  return false;
}

/* ---- arguments of a copy ---- */

static msc_value *add_argument_of_copy(section_copier *z, size_t i, int64_t copy) {
  const msc_value *old = z->f->body->args[i];
  bool carried = msc_arg_role(z->f, i) == MSC_ROLE_CARRIED;
  const char *name = msc_arg_attr(z->f, i, MSC_FACT(msc_name))->s;
  if (carried) name = msc_arena_printf(z->pass->scratch, "%s_%" PRId64, name, copy);
  msc_value *v = msc_add_arg(z->f->body, old->type, name);
  for (size_t k = 0; k < z->f->arg[i].num_attrs; k++)
    msc_arg_set(z->f, v->index, z->f->arg[i].attrs[k].name, z->f->arg[i].attrs[k].value);
  if (carried) msc_arg_put(z->f, v->index, msc_fact_msc_name(z->pass->ctx, name));
  else msc_arg_put(z->f, v->index, msc_fact_msc_copy(copy));
  return v;
}

static msc_value *set_value_type(msc_value *v, const msc_type *t) {
  if (v) v->type = t;
  return v;
}

static msc_value *micro_number_of_copy(section_copier *z, msc_value *micro, int64_t copy) {
  msc_builder b = {.func = z->f, .block = z->f->body, .loc = z->f->loc, .name = micro->name};
  msc_value *c = set_value_type(msc_build_scalar(&b, micro->type->dtype, (double)copy), micro->type);
  return set_value_type(plus(&b, micro, c), micro->type);
}

static bool map_arguments(section_copier *z, int64_t copy) {
  for (size_t i = 0; i < z->num_args; i++) {
    msc_value *old = z->f->body->args[i], *v = old;
    if (z->kept[i]) v = z->kept[i];
    else if (msc_arg_role(z->f, i) == MSC_ROLE_MICRO)
      v = needs_number(z, old) ? micro_number_of_copy(z, old, copy) : old;
    else if (is_argument_of_copy(z, i)) v = add_argument_of_copy(z, i, copy);
    MSC_TRY(v);
    z->value[old->id] = v;
  }
  return true;
}

/* ---- ops ---- */

static void copy_op_for(section_copier *z, const msc_op *op, int64_t copy) {
  if (tests_first_micro_batch(z, op)) return;
  if (selects_by_first_micro_batch(z, op)) {
    z->value[op->out[0].id] = z->value[op->in[2].value->id];
    return;
  }
  msc_value **in = msc_new_array(z->pass->scratch, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) in[i] = z->value[op->in[i].value->id];
  msc_op *made = msc_op_copy(z->f, op, in);
  msc_append(z->f->body, made);
  if (msc_is_message(op)) {
    msc_op_set(made, "message", msc_int(z->message[msc_op_int(op, "message")] + copy - 1));
    msc_op_put(made, msc_fact_copy(copy));
  }
  for (size_t i = 0; i < op->num_out; i++) z->value[op->out[i].id] = &made->out[i];
}

/* ---- results ---- */

static void add_copy_result(section_copier *z, msc_value *v, int64_t tie, const char *name) {
  z->new_result[z->num_new_results] = v;
  z->new_tie[z->num_new_results] = tie;
  z->new_name[z->num_new_results++] = msc_str(z->pass->ctx, name);
}

/* Adds the results of a copy: carried values of every copy, other values of the last copy only. */
static void add_results_of_copy(section_copier *z, msc_value *const *result, const msc_attr_value *names,
                                int64_t copy) {
  for (size_t r = 0; r < z->num_results; r++) {
    int64_t tie = z->ties[r];
    msc_value *made = z->value[result[r]->id];
    if (tie >= 0 && z->kept[tie]) z->kept[tie] = made;
    bool carried = tie >= 0 && msc_arg_role(z->f, (size_t)tie) == MSC_ROLE_CARRIED;
    const msc_value *arg = carried ? z->value[z->f->body->args[tie]->id] : NULL;
    if (carried) add_copy_result(z, made, (int64_t)arg->index, msc_arg_attr(z->f, arg->index, MSC_FACT(msc_name))->s);
    else if (copy + 1 == z->n) add_copy_result(z, made, tie, names->list.v[r].s);
  }
}

static void write_results(section_copier *z) {
  msc_context *ctx = z->pass->ctx;
  msc_append_return(z->f, z->num_new_results, z->new_result, z->f->loc);
  msc_func_put(z->f, msc_fact_ties(ctx, z->num_new_results, z->new_tie));
  msc_func_put(z->f, msc_fact_results(ctx, z->num_new_results, z->new_name));
}

/* ---- one section ---- */

/* Moves all ops of a kind, in their order, in front of `where`. */
static void move_ops_before(section_copier *z, msc_op_kind kind, msc_op *where) {
  size_t num = 0;
  msc_op **found = msc_new_array(z->pass->scratch, msc_op *, z->num_ops * (size_t)z->n + 1);
  for (msc_op *op = z->f->body->first; op; op = op->next)
    if (op->kind == kind) found[num++] = op;
  for (size_t i = 0; i < num; i++) {
    msc_op_unlink(found[i]);
    msc_insert_before(where, found[i]);
  }
}

static void move_messages(section_copier *z) {
  msc_op *first = z->f->body->first;
  while (first->kind == OP_stage_recv) first = first->next;
  move_ops_before(z, OP_stage_recv, first);
  move_ops_before(z, OP_stage_send, z->f->body->last);
}

static section_copier start_copying(msc_pass_ctx *pass, msc_func *f, int64_t n, const int64_t *message) {
  msc_numbering num = msc_number(f->body);
  msc_arena *a = pass->scratch;
  section_copier z = {.pass = pass,
                      .f = f,
                      .n = n,
                      .message = message,
                      .num_args = f->body->num_args,
                      .num_results = f->body->last->num_in};
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  size_t room = z.num_results * (size_t)n + 1;
  z.op = msc_new_array(a, msc_op *, num.num_ops);
  z.varies = msc_new_array(a, bool, num.num_values);
  z.value = msc_new_array(a, msc_value *, num.num_values);
  z.kept = msc_new_array(a, msc_value *, z.num_args + 1);
  z.ties = msc_new_array(a, int64_t, z.num_results + 1);
  z.new_result = msc_new_array(a, msc_value *, room);
  z.new_tie = msc_new_array(a, int64_t, room);
  z.new_name = msc_new_array(a, msc_attr_value, room);
  for (msc_op *op = f->body->first; op->next; op = op->next) z.op[z.num_ops++] = op;
  for (size_t i = 0; i < z.num_args; i++) z.value[f->body->args[i]->id] = f->body->args[i];
  for (size_t k = 0; k < z.num_ops; k++)
    for (size_t i = 0; i < z.op[k]->num_out; i++) z.value[z.op[k]->out[i].id] = &z.op[k]->out[i];
  for (size_t r = 0; r < z.num_results; r++) {
    z.ties[r] = ties->list.v[r].i;
    if (z.ties[r] >= 0 && !is_argument_of_copy(&z, (size_t)z.ties[r])) z.kept[z.ties[r]] = f->body->args[z.ties[r]];
  }
  return z;
}

static bool copy_section(msc_pass_ctx *pass, msc_func *f, int64_t n, const int64_t *message) {
  section_copier z = start_copying(pass, f, n, message);
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  msc_op *ret = f->body->last;
  msc_value **result = msc_new_array(pass->scratch, msc_value *, z.num_results + 1);
  for (size_t r = 0; r < z.num_results; r++) result[r] = ret->in[r].value;
  msc_op_erase(ret);
  mark_varying_values(&z);
  add_results_of_copy(&z, result, names, 0);
  for (int64_t copy = 1; copy < n; copy++) {
    MSC_TRY(map_arguments(&z, copy));
    for (size_t k = 0; k < z.num_ops; k++)
      if (depends_on_copy(&z, z.op[k])) copy_op_for(&z, z.op[k], copy);
    add_results_of_copy(&z, result, names, copy);
  }
  write_results(&z);
  move_messages(&z);
  msc_func_put(f, msc_fact_copies(n));
  msc_stat(pass, "sections", 1);
  return true;
}

static bool is_per_micro(const msc_func *f) {
  return msc_fact_read(f, program, MSC_NUM_PROGRAM_KINDS) == MSC_PROGRAM_TRAIN && msc_func_attr(f, MSC_FACT(chunk));
}

/* By message: the number that the first copy of it gets. Those of further copies follow; all lie behind the numbers in
 * use. */
static int64_t *number_messages(msc_pass_ctx *pass, const msc_module *m, int64_t n) {
  int64_t num = 0;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next)
      if (msc_is_message(op) && msc_op_int(op, "message") >= num) num = msc_op_int(op, "message") + 1;
  int64_t *number = msc_new_array(pass->scratch, int64_t, num + 1), next = num;
  for (const msc_func *f = m->first; f; f = f->next)
    for (const msc_op *op = f->body->first; op; op = op->next) {
      if (op->kind != OP_stage_send || !is_per_micro(f)) continue;
      number[msc_op_int(op, "message")] = next;
      next += n - 1;
    }
  return number;
}

bool pass_copies(msc_pass_ctx *pass, msc_module *m) {
  int64_t n = msc_copies_of(pass, m);
  bool any = false;
  for (const msc_func *f = m->first; f; f = f->next) any |= is_per_micro(f);
  for (const msc_func *f = m->first; f; f = f->next) any &= !msc_func_attr(f, MSC_FACT(copies));
  if (n <= 1 || !any) return msc_not_asked_for(pass);
  pass->changes_meaning = true;
  const int64_t *message = number_messages(pass, m, n);
  for (msc_func *f = m->first; f; f = f->next)
    if (is_per_micro(f)) MSC_TRY(copy_section(pass, f, n, message));
  return true;
}
