/* across: elementwise ops that feed reductions along the last dimension and reductions across it -> one copy of the ops
 * for each kind of reduction, computed from the same sources.
 *
 * No kernel does both kinds, so a value that both read would go through memory: for a norm, dx = f(dy, x, mean(x)) is
 * computed along rows and dgamma = sum(g(dy, x, mean(x))) across them.  The pass copies an op for the reductions across
 * if reading the copy's sources takes no more bytes than writing the op's result and reading it again.  It copies no op
 * of the forward: its result is kept for the backward, its operands need not be.  Copies, and the ops between them and
 * their reductions, carry `across = true`, which keeps them out of kernels that go along rows (fuse). */
#include "passes/direction.h"
#include "passes/pass.h"

enum { ALONG = 1, ACROSS = 2, BOTH = ALONG | ACROSS, MOST_SOURCES = 6 };

/* The values in memory that a chain of copied ops reads. */
typedef struct {
  int num;
  const msc_value *value[MOST_SOURCES];
} sources;

typedef struct {
  msc_func *f;
  msc_arena *scratch;
  const bool *forward; /* by op id; NULL: the function has only forward ops, or only others */
  uint8_t *feeds;      /* by op id: kinds of reductions that read its result directly or through elementwise ops */
  msc_op **copy;       /* by op id, or NULL */
  sources *from;       /* by op id: the sources of its copy */
} copier;

static bool may_be_copied(const msc_op *op) { return msc_info(op)->flags & MSC_CHEAP && op->kind != OP_relu; }

static int reduction_direction(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  int rank = op->num_in ? op->in[0].value->type->rank : 0;
  if (op->kind != OP_reduce_sum && op->kind != OP_reduce_mean && op->kind != OP_reduce_max) return 0;
  for (int i = msc_op_ints(op, "dims", dims, MSC_MAX_RANK); i-- > 0;)
    if (dims[i] == rank - 1 || dims[i] == -1) return ALONG;
  return ACROSS;
}

static int reductions_fed_by(const copier *c, const msc_op *user) {
  return may_be_copied(user) ? c->feeds[user->id] : reduction_direction(user);
}

/* True if an op other than elementwise ones and reductions reads the result, so that it is stored in any case: then
 * reductions across read it from there. */
static bool is_stored_anyway(const msc_op *op) {
  const msc_use *u = op->out[0].uses;
  while (u && (may_be_copied(u->user) || reduction_direction(u->user))) u = u->next;
  return u != NULL;
}

static void mark_feeding_ops(copier *c) {
  for (msc_op *op = c->f->body->last; op; op = op->prev) {
    if (!may_be_copied(op)) continue;
    for (const msc_use *u = op->out[0].uses; u; u = u->next) c->feeds[op->id] |= (uint8_t)reductions_fed_by(c, u->user);
    if (is_stored_anyway(op)) c->feeds[op->id] &= ALONG;
  }
}

static bool add_copy_source(sources *s, const msc_value *v) {
  int i = 0;
  while (i < s->num && s->value[i] != v) i++;
  if (i == MOST_SOURCES) return false;
  s->value[i] = v;
  s->num += i == s->num;
  return true;
}

/* Finds the sources of a copy of op.  Returns false if they are too many or have too many bytes.  Sources smaller than
 * the result, such as weights, are not counted: so ranks with larger and with smaller parts of the batch decide alike,
 * and round alike. */
static bool find_sources(const copier *c, const msc_op *op, sources *out) {
  const msc_type *y = op->out[0].type;
  int bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_op *copy = v->def ? c->copy[v->def->id] : NULL;
    const sources own = {1, {v}}, *from = copy ? &c->from[v->def->id] : &own;
    for (int k = 0; k < from->num; k++) MSC_TRY(add_copy_source(out, from->value[k]));
  }
  for (int i = 0; i < out->num; i++)
    if (msc_type_elems(out->value[i]->type) >= msc_type_elems(y)) bytes += msc_dtype_bytes(out->value[i]->type->dtype);
  return bytes <= 2 * msc_dtype_bytes(y->dtype);
}

static void copy_for_across(copier *c, msc_op *op) {
  sources from = {0};
  if (c->feeds[op->id] != BOTH || (c->forward && c->forward[op->id]) || !find_sources(c, op, &from)) return;
  msc_value **in = msc_new_array(c->scratch, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_op *def = op->in[i].value->def;
    in[i] = def && c->copy[def->id] ? &c->copy[def->id]->out[0] : op->in[i].value;
  }
  msc_op *copy = c->copy[op->id] = msc_op_copy(c->f, op, in);
  c->from[op->id] = from;
  msc_op_put(copy, msc_fact_across(true));
  msc_insert_after(op, copy);
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (u->user != copy && reductions_fed_by(c, u->user) == ACROSS)
      msc_set_operand(u->user, (size_t)(u - u->user->in), &copy->out[0]);
  }
}

/* Marks ops that read copies and feed reductions across only: what else they read may come from a kernel along rows,
 * which would store their results. */
static void mark_between(const copier *c, size_t num_ops) {
  for (msc_op *op = c->f->body->first; op; op = op->next) {
    bool reads = false;
    if (op->id >= num_ops || !may_be_copied(op) || c->feeds[op->id] != ACROSS) continue;
    for (size_t i = 0; i < op->num_in; i++)
      reads |= op->in[i].value->def && msc_op_attr(op->in[i].value->def, MSC_FACT(across));
    if (reads) msc_op_put(op, msc_fact_across(true));
  }
}

/* Erases the copies that have no users; returns the number of the others. */
static int64_t erase_unused_copies(const copier *c, size_t num_ops) {
  int64_t num = 0;
  for (size_t i = num_ops; i-- > 0;) {
    if (!c->copy[i]) continue;
    if (msc_has_uses(&c->copy[i]->out[0])) num++;
    else msc_op_erase(c->copy[i]);
  }
  return num;
}

/* By op id: whether the op is part of the forward; NULL if all ops but the updates are. */
static const bool *list_forward_ops(msc_arena *scratch, msc_func *f) {
  const bool *forward = msc_forward_ops(scratch, f);
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (!forward[op->id] && !(msc_info(op)->flags & MSC_UPDATE)) return forward;
  return NULL;
}

static int64_t copy_ops(msc_arena *scratch, msc_func *f) {
  size_t num = msc_number(f->body).num_ops;
  copier c = {.f = f,
              .scratch = scratch,
              .forward = list_forward_ops(scratch, f),
              .feeds = msc_new_array(scratch, uint8_t, num),
              .copy = msc_new_array(scratch, msc_op *, num),
              .from = msc_new_array(scratch, sources, num)};
  mark_feeding_ops(&c);
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (may_be_copied(op)) copy_for_across(&c, op);
  }
  int64_t copies = erase_unused_copies(&c, num);
  if (copies) mark_between(&c, num);
  return copies;
}

bool pass_across(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += copy_ops(pass->scratch, f);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "ops computed twice", num);
  return true;
}
