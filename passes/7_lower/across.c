/* across: reductions along the last dimension and reductions across it, of values that have elementwise ops in common
 * -> each with ops of its own, from what both begin at.
 *
 * No kernel does both, so what lies between them would go through memory: of a norm dx = f(dy, x, mean(x)) is made
 * along rows and dgamma = sum(g(dy, x, mean(x))) across them.  Ops are copied for the latter when reading what they
 * begin at takes no more bytes than to write the result and to read it again; not those of the forward: what they make
 * is kept, what they are made of need not be.  The copies carry `across = true`, which keeps them out of kernels that
 * go along rows (fuse). */
#include "passes/direction.h"
#include "passes/pass.h"

enum { ALONG = 1, ACROSS = 2, BOTH = ALONG | ACROSS, MOST_SOURCES = 6 };

/* What a copy begins at. */
typedef struct {
  int num;
  const msc_value *value[MOST_SOURCES];
} sources;

typedef struct {
  msc_func *f;
  msc_arena *scratch;
  const bool *forward; /* by op id; NULL: a backward without its forward, or the other way round */
  uint8_t *feeds;  /* by op id: reductions that its result reaches by way of elementwise ops alone */
  msc_op **copy;   /* by op id, or NULL */
  sources *from;   /* by op id: of its copy */
} copying;

static bool is_cheap(const msc_op *op) {
  switch (op->kind) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_neg:
    case OP_rsqrt:
    case OP_cast:
    case OP_broadcast_to: return true;
    default: return false;
  }
}

static int reduces(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  int rank = op->num_in ? op->in[0].value->type->rank : 0;
  if (op->kind != OP_reduce_sum && op->kind != OP_reduce_mean && op->kind != OP_reduce_max) return 0;
  for (int i = msc_op_ints(op, "dims", dims, MSC_MAX_RANK); i-- > 0;)
    if (dims[i] == rank - 1 || dims[i] == -1) return ALONG;
  return ACROSS;
}

static int feeds(const copying *c, const msc_op *user) { return is_cheap(user) ? c->feeds[user->id] : reduces(user); }

/* What is in memory for others anyway is where reductions across begin. */
static bool is_stored(const msc_op *op) {
  const msc_use *u = op->out[0].uses;
  while (u && (is_cheap(u->user) || reduces(u->user))) u = u->next;
  return u != NULL;
}

static void find_feeders(copying *c) {
  for (msc_op *op = c->f->body->last; op; op = op->prev) {
    if (!is_cheap(op)) continue;
    for (const msc_use *u = op->out[0].uses; u; u = u->next) c->feeds[op->id] |= (uint8_t)feeds(c, u->user);
    if (is_stored(op)) c->feeds[op->id] &= ALONG;
  }
}

static bool add_source(sources *s, const msc_value *v) {
  int i = 0;
  while (i < s->num && s->value[i] != v) i++;
  if (i == MOST_SOURCES) return false;
  s->value[i] = v;
  s->num += i == s->num;
  return true;
}

/* False: there are too many, or too much of them.  What is smaller than the result, as weights are, is not counted:
 * ranks with larger and with smaller parts of the batch then decide alike, and round alike. */
static bool find_sources(const copying *c, const msc_op *op, sources *out) {
  const msc_type *y = op->out[0].type;
  int bytes = 0;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    const msc_op *copy = v->def ? c->copy[v->def->id] : NULL;
    const sources own = {1, {v}}, *from = copy ? &c->from[v->def->id] : &own;
    for (int k = 0; k < from->num; k++) MSC_TRY(add_source(out, from->value[k]));
  }
  for (int i = 0; i < out->num; i++)
    if (msc_type_elems(out->value[i]->type) >= msc_type_elems(y)) bytes += msc_dtype_bytes(out->value[i]->type->dtype);
  return bytes <= 2 * msc_dtype_bytes(y->dtype);
}

static void copy_op(copying *c, msc_op *op) {
  sources from = {0};
  if (c->feeds[op->id] != BOTH || (c->forward && c->forward[op->id]) || !find_sources(c, op, &from)) return;
  msc_value **in = msc_new_array(c->scratch, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_op *def = op->in[i].value->def;
    in[i] = def && c->copy[def->id] ? &c->copy[def->id]->out[0] : op->in[i].value;
  }
  msc_op *copy = c->copy[op->id] = msc_op_copy(c->f, op, in);
  c->from[op->id] = from;
  msc_op_set(copy, "across", msc_bool(true));
  msc_insert_after(op, copy);
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (u->user != copy && feeds(c, u->user) == ACROSS)
      msc_set_operand(u->user, (size_t)(u - u->user->in), &copy->out[0]);
  }
}

/* Copies that nobody came to need go; the number of the others. */
static int64_t settle(const copying *c, size_t num_ops) {
  int64_t num = 0;
  for (size_t i = num_ops; i-- > 0;) {
    if (!c->copy[i]) continue;
    if (msc_has_uses(&c->copy[i]->out[0])) num++;
    else msc_op_erase(c->copy[i]);
  }
  return num;
}

/* Which are forward, where there are others besides; NULL elsewhere. */
static const bool *forward_of(msc_arena *scratch, msc_func *f) {
  const bool *forward = msc_forward_ops(scratch, f);
  for (const msc_op *op = f->body->first; op; op = op->next)
    if (!forward[op->id] && !(msc_info(op)->flags & MSC_UPDATE)) return forward;
  return NULL;
}

static int64_t copy_ops(msc_arena *scratch, msc_func *f) {
  size_t num = msc_number(f->body).num_ops;
  copying c = {.f = f,
               .scratch = scratch,
               .forward = forward_of(scratch, f),
               .feeds = msc_new_array(scratch, uint8_t, num),
               .copy = msc_new_array(scratch, msc_op *, num),
               .from = msc_new_array(scratch, sources, num)};
  find_feeders(&c);
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (is_cheap(op)) copy_op(&c, op);
  }
  return settle(&c, num);
}

bool pass_across(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) num += copy_ops(pass->scratch, f);
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "ops computed twice", num);
  return true;
}
