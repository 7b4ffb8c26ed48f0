/* verify.c: a module in; true, or every fault of it reported, out.
 * Structure, SSA, rows, types against re-run shape functions, tied operands, functions; layouts
 * are in verify_layout.c. */
#include "ir/verify.h"

#include <string.h>

#include "ir/alias.h"
#include "ir/fact.h"
#include "ir/table.h"

static bool bug(const msc_op *op, const char *what) {
  return msc_op_error(op, MSC_E_INTERNAL, "%s: %s", msc_kind_name(op->kind), what);
}

/* ---- structure: what the functions of graph.c keep true ---- */

static bool check_links(const msc_block *b) {
  bool ok = true;
  const msc_op *prev = NULL;
  for (const msc_op *op = b->first; op; prev = op, op = op->next) {
    if (op->block != b || op->prev != prev) ok = bug(op, "op is not linked into its block");
    if (op->kind >= OP_COUNT) return msc_op_error(op, MSC_E_INTERNAL, "op kind %u does not exist", op->kind);
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_use *u = &op->in[i];
      if (!u->value) ok = bug(op, "an operand is missing");
      else if (u->user != op || !u->prev || *u->prev != u) ok = bug(op, "a use is not in its value's list");
    }
    for (size_t i = 0; i < op->num_out; i++)
      if (op->out[i].def != op || op->out[i].index != i) ok = bug(op, "a result does not belong to its op");
  }
  if (b->last != prev)
    ok = msc_error(b->func->module->ctx, MSC_E_INTERNAL, b->func->loc, "%s: the block's last op is not its last",
                   b->func->name);
  return ok;
}

static bool check_end(const msc_block *b, msc_op_kind terminator) {
  bool ok = true;
  for (const msc_op *op = b->first; op; op = op->next)
    if ((msc_info(op)->flags & MSC_TERMINATOR) && op != b->last)
      ok = msc_op_error(op, MSC_E_SSA, "%s: must be the last op of its block", msc_kind_name(op->kind));
  if (b->last && b->last->kind == terminator) return ok;
  const msc_loc *loc = b->last ? b->last->loc : b->func->loc;
  return msc_error(b->func->module->ctx, MSC_E_SSA, loc, "%s: must end with %s", b->parent ? "region" : b->func->name,
                   msc_kind_name(terminator));
}

/* ---- SSA ---- */

typedef struct {
  msc_arena *arena;
  const msc_value **defined; /* of each value, by its id: the value, once the walk has passed its definition */
  const msc_op **passed;     /* likewise ops */
  msc_numbering num;
} ssa;

static bool check_ssa_operands(const ssa *s, const msc_op *op) {
  bool ok = true;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_block *home = v->def ? v->def->block : v->block;
    if (home != op->block)
      ok = msc_op_error(op, MSC_E_SSA,
                        "%s: operand %zu is defined in another block; a region sees its own arguments only",
                        msc_kind_name(op->kind), i);
    else if (v->id >= s->num.num_values || s->defined[v->id] != v)
      ok = msc_op_error(op, MSC_E_SSA, "%s: operand %zu is used before its definition, or its definition was removed",
                        msc_kind_name(op->kind), i);
  }
  if (op->forward && (op->forward->id >= s->num.num_ops || s->passed[op->forward->id] != op->forward))
    ok = msc_op_error(op, MSC_E_SSA, "%s: the forward op it belongs to does not stand before it",
                      msc_kind_name(op->kind));
  return ok;
}

static bool check_ssa(ssa *s, const msc_block *b) {
  bool ok = true;
  for (size_t i = 0; i < b->num_args; i++) s->defined[b->args[i]->id] = b->args[i];
  for (const msc_op *op = b->first; op; op = op->next) {
    ok &= check_ssa_operands(s, op);
    if (op->body) ok &= check_ssa(s, op->body);
    for (size_t i = 0; i < op->num_out; i++) s->defined[op->out[i].id] = &op->out[i];
    s->passed[op->id] = op;
  }
  return ok;
}

/* ---- types ---- */

static bool has_types(const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (!op->in[i].value->type) return false;
  for (size_t i = 0; i < op->num_out; i++)
    if (!op->out[i].type) return bug(op, "a result has no type");
  return true;
}

/* Runs the shape function again and puts the declared types back. */
static bool check_types(msc_op *op, msc_arena *arena) {
  const msc_mesh *mesh = &op->block->func->module->mesh;
  const msc_type **declared = msc_new_array(arena, const msc_type *, op->num_out);
  for (size_t i = 0; i < op->num_out; i++) declared[i] = op->out[i].type;
  bool ok = msc_info(op)->shape(op);
  for (size_t i = 0; i < op->num_out; i++) {
    const msc_type *computed = op->out[i].type;
    op->out[i].type = declared[i];
    if (ok && !msc_same_tensor(computed, declared[i]))
      msc_op_error(op, MSC_E_TYPE, "%s: result %zu is declared %s but computed as %s", msc_kind_name(op->kind), i,
                   msc_type_text(arena, mesh, declared[i]), msc_type_text(arena, mesh, computed));
    if (ok && !msc_same_tensor(computed, declared[i])) ok = false;
  }
  return ok;
}

/* ---- tied operands ---- */

static bool check_tied(const msc_op *op) {
  bool ok = true;
  for (size_t i = 0; i < op->num_in; i++) {
    int result = msc_tied_result(op, i);
    if (result < 0) continue;
    const msc_value *old = op->in[i].value;
    /* the operand's layout differs from in_layout: a later pass changes it */
    bool moves = msc_op_attr(op, MSC_FACT(in_layout)) && msc_same_tensor(old->type, op->out[result].type);
    if (old->type != op->out[result].type && !moves)
      ok = msc_op_error(op, MSC_E_TYPE,
                        "%s: result %d takes the buffer of operand %zu, so both must have the same type and layout",
                        msc_kind_name(op->kind), result, i);
  }
  return ok;
}

/* Returns the value of block b whose memory v shares. Arguments of regions share none, since a kernel reads and writes
 * element by element. */
static const msc_value *memory_in(const msc_block *b, const msc_value *v) {
  return b->parent ? v : msc_memory_of(v).root;
}

/* Checks that nothing reads a value, or a view of it, that an update has overwritten. `thief`, by value id: the op
 * that overwrote the memory. */
static bool check_overwritten(const msc_block *b, const msc_op **thief) {
  bool ok = true;
  for (const msc_op *op = b->first; op; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_op *by = thief[memory_in(b, op->in[i].value)->id];
      if (!by) continue;
      ok = msc_op_error(op, MSC_E_SSA, "%s: reads a value that %s has overwritten; use its result",
                        msc_kind_name(op->kind), msc_kind_name(by->kind));
      msc_note(msc_op_ctx(op), by->loc, "overwritten here");
    }
    if (op->body) ok &= check_overwritten(op->body, thief);
    for (size_t i = 0; i < op->num_in; i++)
      if (msc_tied_result(op, i) >= 0) thief[memory_in(b, op->in[i].value)->id] = op;
  }
  return ok;
}

/* ---- ops of a block ---- */

static bool check_region(const msc_op *op) {
  if (!op->body) return op->kind != OP_fused || msc_op_error(op, MSC_E_ROW, "fused: needs a region");
  if (op->kind != OP_fused) return msc_op_error(op, MSC_E_ROW, "%s: has no region", msc_kind_name(op->kind));
  if (op->body->parent != op || op->body->func != op->block->func) return bug(op, "its region belongs to another op");
  for (size_t i = 0; i < op->body->num_args; i++)
    if (!op->body->args[i]->type) return bug(op, "a region argument has no type");
  if (op->block->parent) return msc_op_error(op, MSC_E_ROW, "fused: regions do not nest");
  return check_links(op->body) && check_end(op->body, OP_yield);
}

/* Returns a hash of everything that check_op depends on: the op's row, types and layouts, and the hash of its forward
 * op, which is computed before. */
static uint64_t number_for_op(const msc_op *op, uint64_t mesh) {
  uint64_t h = msc_mix(mesh, (uint64_t)op->kind << 32 | (uint64_t)op->num_in << 16 | op->num_out);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix_pointer(h, op->in[i].value->type);
  for (size_t i = 0; i < op->num_out; i++) h = msc_mix_pointer(h, op->out[i].type);
  h = msc_mix_attrs(h, op->attrs, op->num_attrs);
  if (op->forward) h = msc_mix_pointer(msc_mix(h, op->forward->verified), op->letters);
  for (size_t i = 0; op->body && i < op->body->num_args; i++) h = msc_mix_pointer(h, op->body->args[i]->type);
  for (const msc_op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    h = msc_mix(h, inner->verified);
  return h ? h : 1;
}

/* Checks that every attribute which the op's row does not declare is a fact (fact.def) with a value of its kind. */
static bool check_facts(const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  bool ok = true;
  for (size_t i = 0; i < op->num_attrs; i++) {
    const msc_attr *a = &op->attrs[i];
    const msc_fact_row *row = msc_fact_row_of(a->name);
    if (msc_declares(op, a->name)) continue;
    const char *wrong = row ? msc_fact_wrong(arena, row, &a->value) : NULL;
    if (!row || !(row->on & MSC_ON_OP))
      ok = msc_op_error(op, MSC_E_ROW, "%s: there is no attribute or annotation '%s'%s", info->name, a->name,
                        msc_fact_hint(arena, a->name, MSC_ON_OP, info));
    else if (wrong) ok = msc_op_error(op, MSC_E_ROW, "%s: attribute %s %s", info->name, a->name, wrong);
  }
  return ok;
}

/* Checks an op, unless it is the same as when it passed the checks before: most passes leave most ops as they are. */
static bool check_op(msc_op *op, uint64_t mesh, msc_arena *arena) {
  bool ok = true;
  if (!has_types(op)) return false;
  for (msc_op *inner = op->body ? op->body->first : NULL; inner; inner = inner->next)
    ok &= check_op(inner, mesh, arena);
  if (!ok) return false;
  uint64_t number = number_for_op(op, mesh);
  bool known = number == op->verified;
  op->verified = 0;
  ok = known || (msc_check_row(op) & check_facts(op, arena) && check_types(op, arena));
  if (ok) ok = check_tied(op) & (known || msc_verify_layouts(op, arena));
  if (ok && op->kind != OP_send && op->kind != OP_recv) op->verified = number; /* their checks read the other op */
  return ok;
}

/* ---- functions ---- */

/* Checks that no two arguments have one name, and that all names may stand in a file of weights. A section may have
 * an input for each of the copies that it works on. */
static bool check_arg_names(const msc_func *f, msc_arena *arena) {
  MSC_TABLE(const char *) seen = {.index.arena = arena};
  bool ok = true;
  if (msc_func_attr(f, MSC_FACT(section))) return true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_attr_value *name = msc_arg_attr(f, i, MSC_FACT(msc_name));
    if (!name || name->kind != MSC_ATTR_STR) continue;
    if (msc_table_find(&seen, &name->s))
      ok = msc_error(f->module->ctx, MSC_E_FORMAT, f->loc, "%s: two arguments are called '%s'", f->name, name->s);
    else msc_table_at(&seen, &name->s);
    if (!strcmp(name->s, "__metadata__"))
      ok = msc_error(f->module->ctx, MSC_E_FORMAT, f->loc,
                     "%s: an argument is called '%s', which files of weights keep for themselves", f->name, name->s);
  }
  return ok;
}

static bool check_args(const msc_func *f) {
  msc_context *ctx = f->module->ctx;
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_value *v = f->body->args[i];
    const msc_attr_value *role = msc_arg_attr(f, i, MSC_FACT(msc_role));
    if (!v->type) {
      ok = msc_error(ctx, MSC_E_INTERNAL, f->loc, "%s: argument %zu has no type", f->name, i);
      continue;
    }
    ok &= msc_verify_type(f->module, f->loc, v->type);
    /* it comes from another section of the step */
    bool inner = msc_arg_role(f, i) == MSC_ROLE_SUM || msc_arg_role(f, i) == MSC_ROLE_CARRIED;
    if (v->type->layout && v->type->layout->num_partial && !inner)
      ok = msc_error(ctx, MSC_E_LAYOUT, f->loc, "%s: argument %zu is partial; what comes from outside is finished",
                     f->name, i);
    if (role && msc_arg_role(f, i) == MSC_NUM_ROLES)
      ok = msc_error(ctx, MSC_E_CONFIG, f->loc, "%s: argument %zu has an unknown msc.role", f->name, i);
  }
  return ok;
}

/* Checks the attributes `results`, the names of the results, and `loss`, the number of a result that is a scalar. */
static bool check_named_results(const msc_func *f) {
  msc_context *ctx = f->module->ctx;
  const msc_op *end = f->body->last;
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results)), *loss = msc_func_attr(f, MSC_FACT(loss));
  bool ok = true;
  if (names && (names->kind != MSC_ATTR_LIST || names->list.num != end->num_in))
    ok = msc_error(ctx, MSC_E_ROW, f->loc, "%s: results must be a list of %d names, one for each value returned",
                   f->name, end->num_in);
  if (!loss) return ok;
  if (loss->kind != MSC_ATTR_INT || loss->i < 0 || loss->i >= end->num_in)
    return msc_error(ctx, MSC_E_ROW, f->loc, "%s: loss must be the number of a value returned, 0..%d", f->name,
                     end->num_in - 1);
  const msc_type *t = end->in[loss->i].value->type;
  if (t && (t->rank != 0 || !msc_is_float(t->dtype)))
    ok = msc_error(ctx, MSC_E_SHAPE, end->loc,
                   "%s: the loss must be a floating-point scalar, not rank %d of %s; reduce it first", f->name, t->rank,
                   msc_dtype_name(t->dtype));
  return ok;
}

static bool verify_func(msc_func *f, uint64_t mesh, msc_arena *arena) {
  bool ok = check_links(f->body) && check_end(f->body, OP_return);
  for (msc_op *op = f->body->first; ok && op; op = op->next) ok &= check_region(op);
  if (!ok) return false; /* the checks below walk the graph */
  ssa s = {.arena = arena, .num = msc_number(f->body)};
  s.defined = msc_new_array(arena, const msc_value *, s.num.num_values);
  s.passed = msc_new_array(arena, const msc_op *, s.num.num_ops);
  ok = check_ssa(&s, f->body) & check_args(f) & check_arg_names(f, arena);
  msc_arena *of_op = msc_arena_new(f->module->ctx);
  for (msc_op *op = f->body->first; op; op = op->next, msc_arena_reset(of_op)) ok &= check_op(op, mesh, of_op);
  msc_arena_free(of_op);
  if (ok) ok = check_overwritten(f->body, msc_new_array(arena, const msc_op *, s.num.num_values));
  return ok & check_named_results(f) && msc_verify_partitioned(f, arena);
}

static bool check_mesh(const msc_module *m) {
  int64_t devices = 1;
  const msc_mesh *mesh = &m->mesh;
  for (int i = 0; i < mesh->num_axes; i++) {
    if (mesh->axis[i].size < 1 || mesh->axis[i].size > MSC_MAX_DEVICES ||
        (devices *= mesh->axis[i].size) > MSC_MAX_DEVICES)
      return msc_error(m->ctx, MSC_E_LAYOUT, NULL,
                       "mesh axis %s has size %" PRId64 "; the mesh may have 1 to %d devices", mesh->axis[i].name,
                       mesh->axis[i].size, MSC_MAX_DEVICES);
    for (int j = 0; j < i; j++)
      if (strcmp(mesh->axis[i].name, mesh->axis[j].name) == 0)
        return msc_error(m->ctx, MSC_E_LAYOUT, NULL, "mesh has two axes named %s", mesh->axis[i].name);
  }
  return true;
}

bool msc_verify(msc_module *m) {
  bool ok = check_mesh(m);
  uint64_t mesh = msc_mix(0, (uint64_t)m->mesh.num_axes);
  for (int i = 0; i < m->mesh.num_axes; i++)
    mesh = msc_mix_pointer(msc_mix(mesh, (uint64_t)m->mesh.axis[i].size), m->mesh.axis[i].name);
  msc_arena *arena = msc_arena_new(m->ctx);
  for (msc_func *f = m->first; ok && f; f = f->next)
    if (msc_find_func(m, f->name) != f)
      ok = msc_error(m->ctx, MSC_E_ROW, f->loc, "two functions are named %s", f->name);
  if (ok)
    for (msc_func *f = m->first; f; f = f->next) ok &= verify_func(f, mesh, arena);
  msc_arena_free(arena);
  return msc_check_facts(m) && ok;
}
