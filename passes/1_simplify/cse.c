/* cse: common subexpressions; pure ops that compute the same from the same operands -> the first of them. Operands
 * of commutative ops compare in either order. One hash table per function, one walk. */
#include "ir/table.h"
#include "passes/1_simplify/simplify.h"
#include "passes/pass.h"

static bool is_swapped(const msc_op *op) {
  return (msc_info(op)->flags & MSC_COMMUTES) && op->in[0].value->id > op->in[1].value->id;
}

static const msc_value *canonical_operand(const msc_op *op, size_t i) {
  return op->in[i < 2 && is_swapped(op) ? 1 - i : i].value;
}

static uint64_t hash_op(const msc_op *op) {
  uint64_t h = msc_mix(op->kind, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix(h, canonical_operand(op, i)->id);
  for (size_t i = 0; i < op->num_out; i++) h = msc_mix_pointer(h, op->out[i].type);
  return msc_mix_attrs(h, op->attrs, op->num_attrs);
}

static bool computes_the_same(const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind || a->num_in != b->num_in || a->num_out != b->num_out || a->num_attrs != b->num_attrs)
    return false;
  for (size_t i = 0; i < a->num_in; i++)
    if (canonical_operand(a, i) != canonical_operand(b, i)) return false;
  for (size_t i = 0; i < a->num_out; i++)
    if (a->out[i].type != b->out[i].type) return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

typedef MSC_TABLE(msc_op *) op_table;

/* The earlier op that computes the same; if there is none, adds op to the table and returns it. */
static msc_op *find_or_add_op(op_table *t, msc_op *op) {
  uint64_t hash = hash_op(op);
  MSC_INDEX_EACH(&t->index, hash, i) if (computes_the_same(t->item[i], op)) return t->item[i];
  msc_grow(t->index.arena, t->item, t->index.num);
  t->item[t->index.num] = op;
  msc_index_add(&t->index, hash, t->index.num);
  return op;
}

/* A random op without `salt` draws numbers of its own (`salt` will name them), so it is not merged. */
static bool is_mergeable(const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  return (flags & MSC_PURE) && !(flags & MSC_RANDOM && !msc_op_attr(op, "salt")) && !op->body && op->num_out;
}

int64_t msc_merge_equal_ops(msc_func *f, msc_arena *arena, const bool *which) {
  msc_erasing e = msc_erase_begin(f, arena);
  op_table t = {.index.arena = arena};
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!is_mergeable(op) || (which && !which[op->id])) continue;
    msc_op *same = find_or_add_op(&t, op);
    if (same == op) continue;
    for (size_t i = 0; i < op->num_out; i++) msc_replace_uses(&op->out[i], &same->out[i]);
    msc_erase(&e, op, same);
  }
  msc_erase_end(&e);
  return e.num;
}

bool pass_cse(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    msc_stat(pass, "ops merged", msc_merge_equal_ops(f, pass->scratch, NULL));
  return true;
}
