/* comm.c: which collective an op is; the attributes from, to, shape and order of a `comm` in, the same for each of its
 * values out (see comm.h). */
#include "ir/comm.h"

#include <string.h>

/* ---- verbs ---- */

msc_verb msc_op_verb(const msc_op *op) {
  return op->kind == OP_comm ? msc_verb_parse(msc_op_str(op, "verb")) : msc_info(op)->verb;
}

bool msc_sums_over_ranks(const msc_op *op) { return op->kind == OP_comm && msc_op_verb(op) == MSC_ALL_REDUCE; }

msc_reduction msc_op_reduction(const msc_op *op) { return msc_reduction_parse(msc_op_str(op, "reduction")); }

msc_op_kind msc_verb_kind(msc_verb v) {
  msc_op_kind kind = OP_comm;
  msc_kind_parse(msc_verb_name(msc_verb_row_of(v)->op), &kind);
  return kind;
}

/* ---- values ---- */

#define SEPARATOR "; "

/* The next of "a; b; c", interned; NULL: there are no more. */
static const char *next_entry(msc_context *ctx, const char **at) {
  const char *text = *at, *end = text ? strstr(text, SEPARATOR) : NULL;
  *at = end ? end + strlen(SEPARATOR) : NULL;
  return text ? msc_intern_n(ctx, text, end ? (size_t)(end - text) : strlen(text)) : NULL;
}

static bool read_part(const msc_op *comm, const msc_type *x, const char **from, const char **to, const char **order,
                      const int64_t *shape, msc_comm_part *out_part) {
  msc_context *ctx = msc_op_ctx(comm);
  const msc_mesh *mesh = &comm->block->func->module->mesh;
  const char *text[2] = {next_entry(ctx, from), next_entry(ctx, to)};
  if (!text[0] || !text[1]) return msc_op_error(comm, MSC_E_ROW, "comm: needs axes, or from, to and shape");
  memcpy(out_part->shape, shape, sizeof *shape * (size_t)x->rank);
  out_part->order = next_entry(ctx, order);
  if (out_part->order && !*out_part->order) out_part->order = NULL;
  MSC_TRY(msc_layout_parse(ctx, mesh, comm->loc, text[0], &out_part->from) &&
          msc_layout_parse(ctx, mesh, comm->loc, text[1], &out_part->to));
  if (out_part->from->rank == x->rank && out_part->to->rank == x->rank) return true;
  return msc_op_error(comm, MSC_E_SHARDING, "comm: a layout has another rank than its value");
}

const msc_comm_part *msc_comm_parts(const msc_op *comm, msc_arena *arena) {
  const char *from = msc_op_str(comm, "from"), *to = msc_op_str(comm, "to"), *order = msc_op_str(comm, "order");
  int num = msc_op_ints(comm, MSC_FACT(shape), NULL, 0), rank = 0;
  for (size_t i = 0; i < comm->num_in; i++) rank += comm->in[i].value->type->rank;
  if (num != rank) {
    msc_op_error(comm, MSC_E_ROW, "comm: needs axes, or from, to and shape");
    return NULL;
  }
  int64_t *shape = msc_new_array(arena, int64_t, rank + 1);
  msc_comm_part *part = msc_new_array(arena, msc_comm_part, comm->num_in);
  msc_op_ints(comm, MSC_FACT(shape), shape, num);
  for (size_t i = 0; i < comm->num_in; i++) {
    const msc_type *x = comm->in[i].value->type;
    if (!read_part(comm, x, &from, &to, &order, shape, &part[i])) return NULL;
    shape += x->rank;
  }
  return part;
}

/* ---- writing ---- */

typedef struct {
  msc_arena *arena;
  char *text;
  size_t num, room;
} joined;

static void join(joined *j, bool first, const char *s) {
  size_t n = strlen(s), gap = first ? 0 : strlen(SEPARATOR);
  if (j->num + gap + n + 1 > j->room) {
    j->room = 2 * (j->num + gap + n + 1);
    char *more = msc_arena_alloc(j->arena, j->room);
    if (j->num) memcpy(more, j->text, j->num);
    j->text = more;
  }
  memcpy(j->text + j->num, SEPARATOR, gap);
  memcpy(j->text + j->num + gap, s, n + 1);
  j->num += gap + n;
}

void msc_comm_set_parts(msc_op *comm, size_t num, const msc_comm_part *part) {
  msc_context *ctx = msc_op_ctx(comm);
  const msc_mesh *mesh = &comm->block->func->module->mesh;
  msc_arena *arena = msc_context_arena(ctx);
  joined from = {.arena = arena}, to = from, order = from;
  size_t rank = 0, at = 0;
  bool ordered = false;
  for (size_t i = 0; i < num; i++) {
    rank += part[i].from->rank;
    ordered |= part[i].order != NULL;
    join(&from, i == 0, msc_layout_print(arena, mesh, part[i].from));
    join(&to, i == 0, msc_layout_print(arena, mesh, part[i].to));
    join(&order, i == 0, part[i].order ? part[i].order : "");
  }
  int64_t *shape = msc_new_array(arena, int64_t, rank);
  for (size_t i = 0; i < num; i++)
    for (int d = 0; d < part[i].from->rank; d++) shape[at++] = part[i].shape[d];
  msc_op_set(comm, "from", msc_str(ctx, from.text));
  msc_op_set(comm, "to", msc_str(ctx, to.text));
  msc_op_set(comm, MSC_FACT(shape), msc_ints(ctx, rank, shape));
  if (ordered) msc_op_set(comm, "order", msc_str(ctx, order.text));
}
