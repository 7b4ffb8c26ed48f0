/* depend.c: finds the dependencies between the ops of a function (see depend.h). */
#include "passes/7_lower/depend.h"

#include "ir/alias.h"

/* The dependencies found so far, in no particular order: op waits for `before`. Both are ids of ops. */
typedef struct {
  size_t num;
  struct edge {
    uint32_t op, before;
  } * edge;
} edges;

static void add_edge(edges *e, const msc_op *op, const msc_op *before) {
  e->edge[e->num++] = (struct edge){op->id, before->id};
}

/* The op that writes the argument whose memory v lies in, if it stands after op; else NULL.  An op after the writer
 * reads the old value too: allocate.c keeps that until the end. */
static const msc_op *find_overwriter(const msc_op *const *writer, const msc_op *op, const msc_value *v) {
  const msc_value *root = msc_memory_of(v).root;
  const msc_op *w = root->def || msc_info(op)->flags & MSC_TERMINATOR ? NULL : writer[root->index];
  return w && w->id > op->id ? w : NULL;
}

/* Adds every dependency.  A gradient depends on its forward op even if it reads no result of that, as verify.c
 * requires.  A recomputed op depends on the op in front of it: if it ran earlier, it would only hold memory longer.
 * Messages between stages keep their order: the k-th send belongs to the k-th receive, and two stages that both
 * received first would wait for ever. */
static void add_edges(const msc_func *f, const msc_op *const *writer, edges *e) {
  const msc_op *before = NULL, *message = NULL;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_value *v = op->in[i].value;
      const msc_op *overwriter = find_overwriter(writer, op, v);
      if (v->def) add_edge(e, op, v->def);
      if (overwriter) add_edge(e, overwriter, op);
    }
    if (op->forward && op->forward->block == op->block) add_edge(e, op, op->forward);
    if (!msc_op_attr(op, MSC_FACT(recompute))) before = op->num_in ? op : before;
    else if (before) add_edge(e, op, before);
    bool is_message = msc_is_message(op);
    if (is_message && message) add_edge(e, op, message);
    if (is_message) message = op;
  }
}

msc_depend msc_depend_of(msc_arena *arena, msc_func *f) {
  msc_depend d = {.num_ops = 0};
  size_t most = 0;
  for (msc_op *op = f->body->first; op; op = op->next) {
    op->id = (uint32_t)d.num_ops++;
    most += 2 * (size_t)op->num_in + 3;
  }
  d.op = msc_new_array(arena, msc_op *, d.num_ops);
  for (msc_op *op = f->body->first; op; op = op->next) d.op[op->id] = op;
  msc_arena *scratch = msc_arena_beside(arena);
  edges e = {0, msc_new_array(scratch, struct edge, most)};
  add_edges(f, msc_writers(scratch, f), &e);
  d.first = msc_new_array(arena, uint32_t, d.num_ops + 2);
  for (size_t i = 0; i < e.num; i++) d.first[e.edge[i].op + 2]++;
  for (size_t i = 0; i < d.num_ops; i++) d.first[i + 2] += d.first[i + 1];
  d.before = msc_new_array(arena, uint32_t, e.num + 1);
  for (size_t i = 0; i < e.num; i++) d.before[d.first[e.edge[i].op + 1]++] = e.edge[i].before;
  msc_arena_free(scratch);
  return d;
}
