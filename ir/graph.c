/* graph.c: modules, functions, blocks and ops: makes, changes and copies them.  After every function the lists of uses
 * are exact. */
#include <string.h>

#include "ir/ir.h"

static msc_arena *arena_of(const msc_func *f) { return msc_context_arena(f->module->ctx); }

msc_module *msc_module_new(msc_context *ctx) {
  msc_module *m = msc_new(msc_context_arena(ctx), msc_module);
  m->ctx = ctx;
  return m;
}

msc_block *msc_block_new(msc_func *f, msc_op *parent) {
  msc_block *b = msc_new(arena_of(f), msc_block);
  b->func = f;
  b->parent = parent;
  return b;
}

msc_func *msc_func_new(msc_module *m, const char *name) {
  msc_func *f = msc_new(msc_context_arena(m->ctx), msc_func);
  f->module = m;
  f->name = msc_intern(m->ctx, name);
  f->loc = msc_loc_of(m->ctx, &(msc_loc){.implied = true});
  f->body = msc_block_new(f, NULL);
  if (m->last) m->last->next = f;
  else m->first = f;
  m->last = f;
  return f;
}

msc_func *msc_find_func(const msc_module *m, const char *name) {
  for (msc_func *f = m->first; f; f = f->next)
    if (strcmp(f->name, name) == 0) return f;
  return NULL;
}

msc_func *msc_program_func(const msc_module *m, msc_program_kind kind) {
  return msc_find_func(m, msc_program_kind_name(kind));
}

msc_program_kind msc_program_of(const msc_func *f) {
  msc_program_kind kind = MSC_NUM_PROGRAM_KINDS;
  msc_program_kind_parse(f->name, &kind);
  return msc_fact_read(f, program, kind);
}

void msc_func_remove(msc_func *f) {
  msc_module *m = f->module;
  msc_func *previous = NULL;
  for (msc_func *g = m->first; g != f; g = g->next) previous = g;
  if (previous) previous->next = f->next;
  else m->first = f->next;
  if (m->last == f) m->last = previous;
}

msc_value *msc_add_arg(msc_block *b, const msc_type *type, const char *name) {
  msc_func *f = b->func;
  msc_arena *a = arena_of(f);
  msc_value *v = msc_new(a, msc_value);
  v->type = type;
  v->block = b;
  v->index = (uint32_t)b->num_args;
  v->name = msc_intern(f->module->ctx, name);
  msc_grow(a, b->args, b->num_args);
  if (b == f->body) {
    msc_grow(a, f->arg, b->num_args);
    memset(&f->arg[b->num_args], 0, sizeof *f->arg);
  }
  b->args[b->num_args++] = v;
  return v;
}

/* ---- uses ---- */

static void link_use(msc_use *u, msc_value *v) {
  u->value = v;
  if (!v) return;
  u->next = v->uses;
  u->prev = &v->uses;
  if (u->next) u->next->prev = &u->next;
  v->uses = u;
}

static void unlink_use(msc_use *u) {
  if (!u->value) return;
  *u->prev = u->next;
  if (u->next) u->next->prev = u->prev;
  u->value = NULL;
}

void msc_set_operand(msc_op *op, size_t i, msc_value *v) {
  unlink_use(&op->in[i]);
  link_use(&op->in[i], v);
}

void msc_set_operands(msc_op *op, size_t num, msc_value *const *in) {
  for (size_t i = 0; i < op->num_in; i++) unlink_use(&op->in[i]);
  if (num > op->num_in) op->in = msc_new_array(arena_of(op->block->func), msc_use, num);
  op->num_in = (uint16_t)num;
  for (size_t i = 0; i < num; i++) {
    op->in[i].user = op;
    link_use(&op->in[i], in[i]);
  }
}

void msc_replace_uses(msc_value *old, msc_value *new_value) {
  if (!new_value->whole && new_value->def && new_value->type == old->type) new_value->whole = old->whole;
  while (old->uses && old != new_value) {
    msc_use *u = old->uses;
    unlink_use(u);
    link_use(u, new_value);
  }
}

bool msc_has_uses(const msc_value *v) { return v->uses != NULL; }
bool msc_has_one_use(const msc_value *v) { return v->uses && !v->uses->next; }
msc_op *msc_only_user(const msc_value *v, msc_op_kind kind) {
  return msc_has_one_use(v) && v->uses->user->kind == kind ? v->uses->user : NULL;
}

/* ---- ops ---- */

msc_op *msc_op_new(msc_func *f, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                   const msc_loc *loc) {
  msc_arena *a = arena_of(f);
  msc_op *op = msc_new(a, msc_op);
  op->kind = (uint16_t)kind;
  op->block = f->body; /* lets the context be found; insertion sets the real block */
  op->loc = loc ? loc : f->loc;
  op->num_in = (uint16_t)num_in;
  op->in = msc_new_array(a, msc_use, num_in);
  for (size_t i = 0; i < num_in; i++) {
    op->in[i].user = op;
    link_use(&op->in[i], in[i]);
  }
  op->num_out = (uint16_t)num_out;
  op->out = msc_new_array(a, msc_value, num_out);
  for (size_t i = 0; i < num_out; i++) {
    op->out[i].def = op;
    op->out[i].index = (uint32_t)i;
  }
  return op;
}

void msc_append(msc_block *b, msc_op *op) {
  op->block = b;
  op->prev = b->last;
  op->next = NULL;
  if (b->last) b->last->next = op;
  else b->first = op;
  b->last = op;
}

void msc_append_return(msc_func *f, size_t num, msc_value *const *result, const msc_loc *loc) {
  msc_append(f->body, msc_op_new(f, OP_return, num, result, 0, loc));
}

void msc_insert_before(msc_op *where, msc_op *op) {
  msc_block *b = op->block = where->block;
  op->prev = where->prev;
  op->next = where;
  if (op->prev) op->prev->next = op;
  else b->first = op;
  where->prev = op;
}

void msc_insert_after(msc_op *where, msc_op *op) {
  if (where->next) msc_insert_before(where->next, op);
  else msc_append(where->block, op);
}

void msc_op_unlink(msc_op *op) {
  msc_block *b = op->block;
  if (op->prev) op->prev->next = op->next;
  else b->first = op->next;
  if (op->next) op->next->prev = op->prev;
  else b->last = op->prev;
  op->prev = op->next = NULL;
}

/* Drops the uses that ops inside the region make of values outside it. */
static void drop_region_uses(msc_block *b) {
  for (msc_op *op = b->first; op; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) unlink_use(&op->in[i]);
    if (op->body) drop_region_uses(op->body);
  }
}

void msc_op_erase(msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) unlink_use(&op->in[i]);
  if (op->body) drop_region_uses(op->body);
  msc_op_unlink(op);
  op->block = NULL;
}

void msc_forget_erased(msc_func *f) {
  for (msc_op *op = f->body->first; op; op = op->next)
    if (op->forward && !op->forward->block) op->forward = NULL, op->letters = NULL;
}

bool msc_infer(msc_op *op) {
  MSC_TRY(msc_check_row(op));
  return msc_info(op)->shape(op);
}

bool msc_result(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim) {
  const msc_type *old = op->out[i].type;
  const msc_layout *layout = old && old->rank == rank ? old->layout : NULL;
  op->out[i].type = msc_type_of(msc_op_ctx(op), dtype, rank, dim, layout);
  return true;
}

/* ---- numbering and cloning ---- */

static void number_block(msc_block *b, msc_numbering *n) {
  for (size_t i = 0; i < b->num_args; i++) b->args[i]->id = n->num_values++;
  for (msc_op *op = b->first; op; op = op->next) {
    op->id = n->num_ops++;
    for (size_t i = 0; i < op->num_out; i++) op->out[i].id = n->num_values++;
    if (op->body) number_block(op->body, n); /* regions nest once: a fused kernel */
  }
}

msc_numbering msc_number(msc_block *b) {
  msc_numbering n = {0, 0};
  number_block(b, &n);
  return n;
}

typedef struct {
  msc_func *to;
  msc_value **value; /* by old id */
  msc_op **op;
} cloning;

static void clone_block(cloning *c, const msc_block *from, msc_block *to);

static void clone_op(cloning *c, const msc_op *op, msc_block *to) {
  msc_arena *a = arena_of(c->to);
  msc_op *n = msc_op_new(c->to, (msc_op_kind)op->kind, 0, NULL, op->num_out, op->loc);
  msc_append(to, n);
  msc_value **in = msc_new_array(a, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) in[i] = c->value[op->in[i].value->id];
  msc_set_operands(n, op->num_in, in);
  for (size_t i = 0; i < op->num_out; i++) {
    n->out[i].type = op->out[i].type;
    n->out[i].whole = op->out[i].whole;
    c->value[op->out[i].id] = &n->out[i];
  }
  n->attrs = msc_arena_copy(a, op->attrs, op->num_attrs * sizeof *op->attrs);
  n->num_attrs = op->num_attrs;
  n->name = op->name;
  n->letters = op->letters;
  n->forward = op->forward ? c->op[op->forward->id] : NULL;
  c->op[op->id] = n;
  if (op->body) {
    n->body = msc_block_new(c->to, n);
    clone_block(c, op->body, n->body);
  }
}

static void clone_block(cloning *c, const msc_block *from, msc_block *to) {
  for (size_t i = 0; i < from->num_args; i++)
    c->value[from->args[i]->id] = msc_add_arg(to, from->args[i]->type, from->args[i]->name);
  for (const msc_op *op = from->first; op; op = op->next) clone_op(c, op, to);
}

msc_func *msc_func_clone(msc_func *f, const char *name) {
  msc_arena *a = arena_of(f);
  msc_numbering n = msc_number(f->body);
  msc_func *to = msc_func_new(f->module, name);
  cloning c = {to, msc_new_array(a, msc_value *, n.num_values), msc_new_array(a, msc_op *, n.num_ops)};
  clone_block(&c, f->body, to->body);
  for (size_t i = 0; i < f->body->num_args; i++) {
    to->arg[i].attrs = msc_arena_copy(a, f->arg[i].attrs, f->arg[i].num_attrs * sizeof(msc_attr));
    to->arg[i].num_attrs = f->arg[i].num_attrs;
  }
  to->attrs = msc_arena_copy(a, f->attrs, f->num_attrs * sizeof(msc_attr));
  to->num_attrs = f->num_attrs;
  to->loc = f->loc;
  return to;
}

msc_op *msc_op_copy(msc_func *f, const msc_op *op, msc_value *const *in) {
  msc_op *n = msc_op_new(f, (msc_op_kind)op->kind, op->num_in, in, op->num_out, op->loc);
  for (size_t i = 0; i < op->num_out; i++) n->out[i].type = op->out[i].type, n->out[i].whole = op->out[i].whole;
  n->attrs = msc_arena_copy(arena_of(f), op->attrs, op->num_attrs * sizeof *op->attrs);
  n->num_attrs = op->num_attrs;
  n->name = op->name;
  return n;
}

/* ---- building ---- */

msc_op *msc_build_with(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in, size_t num_out,
                       size_t num_attrs, const msc_attr *attrs) {
  for (size_t i = 0; i < num_in; i++)
    if (!in[i]) return NULL; /* an operand's own build failed and was reported */
  msc_op *op = msc_op_new(b->func, kind, num_in, in, num_out, b->loc);
  op->name = b->name;
  op->forward = b->forward;
  if (b->before) msc_insert_before(b->before, op);
  else msc_append(b->block ? b->block : b->func->body, op);
  for (size_t i = 0; i < num_attrs; i++) msc_op_set(op, attrs[i].name, attrs[i].value);
  return msc_infer(op) ? op : NULL;
}

msc_value *msc_build(msc_builder *b, msc_op_kind kind, size_t num_in, msc_value *const *in) {
  msc_op *op = msc_build_with(b, kind, num_in, in, 1, 0, NULL);
  return op ? &op->out[0] : NULL;
}

/* Writes the bytes of one element of value v, and returns how many; floats are rounded to nearest even. */
static size_t element(msc_dtype dtype, double v, unsigned char *out) {
  switch (dtype) {
    case MSC_F32: {
      float f = (float)v;
      memcpy(out, &f, 4);
      break;
    }
    case MSC_F64: memcpy(out, &v, 8); break;
    case MSC_F16: {
      _Float16 h = (_Float16)v;
      memcpy(out, &h, 2);
      break;
    }
    case MSC_BF16: {
      float f = (float)v;
      uint32_t u;
      memcpy(&u, &f, 4);
      uint16_t h = f != f ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
      memcpy(out, &h, 2);
      break;
    }
    case MSC_I1: out[0] = v != 0; break;
    default: {
      int64_t i = (int64_t)v; /* little endian: the low bytes are the narrow integer */
      memcpy(out, &i, 8);
    }
  }
  return (size_t)msc_dtype_bytes(dtype);
}

msc_value *msc_build_scalar(msc_builder *b, msc_dtype dtype, double v) {
  msc_context *ctx = b->func->module->ctx;
  unsigned char data[8];
  size_t bytes = element(dtype, v, data);
  msc_attr_value value = {
      .kind = MSC_ATTR_DENSE,
      .dense = {msc_type_of(ctx, dtype, 0, NULL, NULL), msc_arena_copy(msc_context_arena(ctx), data, bytes), bytes}};
  msc_attr attr = msc_named(ctx, "value", value);
  msc_op *op = msc_build_with(b, OP_constant, 0, NULL, 1, 1, &attr);
  return op ? &op->out[0] : NULL;
}
