/* statistics: a value that is reduced twice in the same way, as by a norm and by its gradient -> the first result.
 *
 *   m = mean(x); y = f(x - m)  ..  n = mean(x); dx = g(x - n)   ->   m = mean(x); y = f(x - m)  ..  dx = g(x - m)
 *
 * Expansions of composites compute again what their gradients need.  A mean is small and is kept, as is what is made of
 * it without becoming larger, as 1 / sqrt(variance); what lies between two reductions, as x - m below the variance, is
 * large and is computed again where it is used: such ops are compared, not merged. */
#include "ir/table.h"
#include "passes/pass.h"

typedef struct {
  msc_arena *arena;
  uint32_t *class; /* by value: the first value that is the same */
  bool *shared;    /* by value: a reduction that was made twice, or made of such */
  msc_index index;
  msc_op **op;     /* the first of each class */
} classes;

/* True if ops of this kind that look alike compute the same. */
static bool is_comparable(const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  return flags & MSC_PURE && !(flags & (MSC_RANDOM | MSC_COLLECTIVE)) && !op->body && op->num_out == 1;
}

static uint64_t hash_class(const classes *c, const msc_op *op) {
  uint64_t h = msc_mix(op->kind, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) h = msc_mix(h, c->class[op->in[i].value->id]);
  return msc_mix_attrs(msc_mix_pointer(h, op->out[0].type), op->attrs, op->num_attrs);
}

static bool is_of_class(const classes *c, const msc_op *a, const msc_op *b) {
  if (a->kind != b->kind || a->num_in != b->num_in || a->out[0].type != b->out[0].type ||
      a->num_attrs != b->num_attrs)
    return false;
  for (size_t i = 0; i < a->num_in; i++)
    if (c->class[a->in[i].value->id] != c->class[b->in[i].value->id]) return false;
  for (size_t i = 0; i < a->num_attrs; i++)
    if (a->attrs[i].name != b->attrs[i].name || !msc_attr_equal(&a->attrs[i].value, &b->attrs[i].value)) return false;
  return true;
}

/* The first op that computes the same as op, which may be op itself. */
static msc_op *first_like(classes *c, msc_op *op) {
  uint64_t hash = hash_class(c, op);
  MSC_INDEX_EACH(&c->index, hash, i) if (is_of_class(c, c->op[i], op)) return c->op[i];
  msc_grow(c->arena, c->op, c->index.num);
  c->op[c->index.num] = op;
  msc_index_add(&c->index, hash, c->index.num);
  return op;
}

/* True for a reduction whose result takes little room beside its operand. */
static bool is_statistic(const msc_op *op) {
  enum { LEAST_SHARE = 8 };
  return msc_form_of(op) == MSC_FORM_REDUCE &&
         msc_type_elems(op->out[0].type) <= msc_type_elems(op->in[0].value->type) / LEAST_SHARE;
}

/* True if op has a shared operand that is at least as large as its result. */
static bool is_made_of_statistics(const classes *c, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++)
    if (c->shared[op->in[i].value->id] && msc_type_elems(op->out[0].type) <= msc_type_elems(op->in[i].value->type))
      return true;
  return false;
}

static int64_t share_statistics(msc_func *f, msc_arena *arena) {
  size_t num_values = msc_number(f->body).num_values;
  classes c = {.arena = arena,
               .class = msc_new_array(arena, uint32_t, num_values),
               .shared = msc_new_array(arena, bool, num_values),
               .index.arena = arena};
  int64_t num = 0;
  for (size_t i = 0; i < num_values; i++) c.class[i] = (uint32_t)i;
  for (msc_op *op = f->body->first; op; op = op->next) {
    if (!is_comparable(op)) continue;
    msc_op *first = first_like(&c, op);
    if (first == op) continue;
    c.class[op->out[0].id] = c.class[first->out[0].id];
    if (!is_statistic(op) && !is_made_of_statistics(&c, op)) continue;
    c.shared[first->out[0].id] = true;
    msc_replace_uses(&op->out[0], &first->out[0]);
    num++;
  }
  if (num) msc_drop_unused(f);
  return num;
}

bool pass_statistics(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += share_statistics(f, pass->scratch);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "reductions shared", num);
  return true;
}
