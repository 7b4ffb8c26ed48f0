/* depend.c: finds the dependencies between the ops of a function (see depend.h). */
#include "passes/7_lower/depend.h"

#include "ir/alias.h"

typedef void edge_fn(void *user, uint32_t op, uint32_t before);

/* The op that writes the argument whose memory v lies in, if it stands after op; else NULL.  An op after the writer
 * reads the old value too: allocate.c keeps that until the end. */
static const msc_op *find_overwriter(const msc_op *const *writer, const msc_op *op, const msc_value *v) {
  const msc_value *root = msc_memory_of(v).root;
  const msc_op *w = root->def || msc_info(op)->flags & MSC_TERMINATOR ? NULL : writer[root->index];
  return w && w->id > op->id ? w : NULL;
}

/* Calls fn for every dependency.  A gradient depends on its forward op even if it reads nothing of it, as verify.c
 * requires.  A recomputed op depends on the op in front of it: earlier it would only hold memory.  Messages between
 * stages keep their order: the k-th send belongs to the k-th receive, and two stages that both received first would
 * wait for ever. */
static void visit_edges(const msc_func *f, const msc_op *const *writer, edge_fn *fn, void *user) {
  const msc_op *before = NULL, *message = NULL;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_value *v = op->in[i].value;
      const msc_op *overwriter = find_overwriter(writer, op, v);
      if (v->def) fn(user, op->id, v->def->id);
      if (overwriter) fn(user, overwriter->id, op->id);
    }
    if (op->forward && op->forward->block == op->block) fn(user, op->id, op->forward->id);
    if (!msc_op_attr(op, MSC_FACT(recompute))) before = op->num_in ? op : before;
    else if (before) fn(user, op->id, before->id);
    if (msc_is_message(op) && message) fn(user, op->id, message->id);
    if (msc_is_message(op)) message = op;
  }
}

static void count_edge(void *user, uint32_t op, uint32_t before) {
  (void)before;
  ((msc_depend *)user)->first[op + 1]++;
}

typedef struct {
  msc_depend *d;
  uint32_t *at;
} filling;

static void fill_edge(void *user, uint32_t op, uint32_t before) {
  filling *z = user;
  z->d->before[z->at[op]++] = before;
}

msc_depend msc_depend_of(msc_arena *arena, msc_func *f) {
  msc_depend d = {.num_ops = 0};
  for (msc_op *op = f->body->first; op; op = op->next) op->id = (uint32_t)d.num_ops++;
  d.op = msc_new_array(arena, msc_op *, d.num_ops);
  for (msc_op *op = f->body->first; op; op = op->next) d.op[op->id] = op;
  d.first = msc_new_array(arena, uint32_t, d.num_ops + 1);
  const msc_op **writer = msc_writers(arena, f);
  visit_edges(f, writer, count_edge, &d);
  for (size_t i = 0; i < d.num_ops; i++) d.first[i + 1] += d.first[i];
  d.before = msc_new_array(arena, uint32_t, d.first[d.num_ops] + 1);
  filling z = {&d, msc_arena_copy(arena, d.first, (d.num_ops + 1) * sizeof *d.first)};
  visit_edges(f, writer, fill_edge, &z);
  return d;
}
