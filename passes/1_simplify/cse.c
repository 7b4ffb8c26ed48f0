/* cse: pure ops that compute the same from the same operands -> the first of them.  Operands of ops that commute may be
 * exchanged.  One hash table per function, one walk. */
#include <string.h>

#include "passes/1_simplify/simplify.h"
#include "passes/pass.h"

typedef struct {
  size_t mask;
  msc_op **slot;
} op_table;

static bool is_exchanged(const msc_op *op) {
  return (msc_info(op)->flags & MSC_COMMUTES) && op->in[0].value->id > op->in[1].value->id;
}

static const msc_value *operand(const msc_op *op, size_t i) {
  return op->in[i < 2 && is_exchanged(op) ? 1 - i : i].value;
}

static uint64_t hash_op(const msc_op *op) {
  uint64_t h = msc_mix(op->kind, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix(h, operand(op, i)->id);
  for (size_t i = 0; i < op->num_out; i++) h = msc_mix_pointer(h, op->out[i].type);
  return msc_mix_attrs(h, op->attrs, op->num_attrs);
}

static bool same_op(const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind || a->num_in != b->num_in || a->num_out != b->num_out || a->num_attrs != b->num_attrs)
    return false;
  for (size_t i = 0; i < a->num_in; i++)
    if (operand(a, i) != operand(b, i)) return false;
  for (size_t i = 0; i < a->num_out; i++)
    if (a->out[i].type != b->out[i].type) return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

/* The op like this one that stood before, or this one, which is now in the table. */
static msc_op *first_like(op_table *t, msc_op *op) {
  size_t i = (size_t)hash_op(op) & t->mask;
  while (t->slot[i] && !same_op(t->slot[i], op)) i = (i + 1) & t->mask;
  if (!t->slot[i]) t->slot[i] = op;
  return t->slot[i];
}

/* A random op has its own numbers, which `salt` will name. */
static bool may_merge(const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  return (flags & MSC_PURE) && !(flags & MSC_RANDOM && !msc_op_attr(op, "salt")) && !op->body && op->num_out;
}

static int64_t merge(msc_func *f, msc_arena *arena) {
  msc_erasing e = msc_erase_begin(f, arena);
  size_t num = 0, room = 16;
  for (const msc_op *op = f->body->first; op; op = op->next) num++;
  while (room < 2 * num) room *= 2;
  op_table t = {room - 1, msc_new_array(arena, msc_op *, room)};
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!may_merge(op)) continue;
    msc_op *same = first_like(&t, op);
    if (same == op) continue;
    for (size_t i = 0; i < op->num_out; i++) msc_replace_uses(&op->out[i], &same->out[i]);
    msc_erase(&e, op, same);
  }
  msc_erase_end(&e);
  return e.num;
}

bool pass_cse(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) msc_stat(pass, "ops merged", merge(f, pass->scratch));
  return true;
}
