/* segments: updates that scatter_add adds to the rows that numbers name, as a table's gradient is made -> sorted by
 * number, and the updates of each row added.
 *
 * One rank adds the updates of a row in the order of their positions.  Ranks that have a part of the positions each add
 * theirs first, so what one rank adds must be cut into blocks of positions as well, whose sums are added as a tree
 * (msc_sum_blocks).  A table with a sum for every block would be too large, but the updates of one row lie one behind
 * the other once they are sorted. */
#include "ir/formula.h"
#include "passes/7_lower/target.h"
#include "passes/pass.h"

/* Numbers in order and the places where they stood: what sort made of the indices of a scatter_add. */
typedef struct {
  const msc_value *indices;
  msc_value *sorted, *order;
} numbers;

typedef struct {
  msc_arena *scratch;
  numbers *known;
  size_t num_known;
} sorter;

static int64_t blocks_of(const msc_op *op) { return msc_fact_read(op, blocks, 1); }

/* Is op one whose order the runtime's kernel keeps?  A table that is cut into unequal parts, or by hand, is not. */
static bool adds_in_blocks(const msc_op *op) {
  if (op->kind != OP_scatter_add || !msc_target_of_op(op)->blocks_scatters || blocks_of(op) < 2 ||
      msc_op_int(op, "axis"))
    return false;
  msc_dtype dtype = op->out[0].type->dtype;
  return (dtype == MSC_F32 || dtype == MSC_F64) && !msc_op_attr(op, MSC_FACT(part)) &&
         !msc_op_bool(op, MSC_FACT(aligned)) && msc_type_elems(op->in[0].value->type) <= INT32_MAX;
}

/* Returns the sorted row numbers of op. Builds the sort in front of op unless an earlier op has the same indices. */
static const numbers *sort_row_numbers(sorter *s, msc_builder *b, const msc_op *op) {
  msc_value *indices = op->in[0].value;
  for (size_t i = 0; i < s->num_known; i++)
    if (s->known[i].indices == indices) return &s->known[i];
  int64_t num = msc_type_elems(indices->type);
  msc_value *flat = reshape(b, indices, 1, &num);
  msc_op *sort = flat ? msc_build_with(b, OP_sort, 1, &flat, 2, 0, NULL) : NULL;
  if (!sort) return NULL;
  msc_grow(s->scratch, s->known, s->num_known);
  s->known[s->num_known] = (numbers){indices, &sort->out[0], &sort->out[1]};
  return &s->known[s->num_known++];
}

static bool add_segments(sorter *s, msc_op *op) {
  msc_builder b = {.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
  msc_value *updates = op->in[1].value;
  const numbers *n = sort_row_numbers(s, &b, op);
  if (!n) return false;
  int64_t dim[MSC_MAX_RANK] = {msc_type_elems(op->in[0].value->type)};
  int rank = 1;
  for (int d = op->in[0].value->type->rank; d < updates->type->rank; d++) dim[rank++] = updates->type->dim[d];
  updates = reshape(&b, updates, rank, dim);
  msc_attr rows = msc_named(formula_ctx(&b), "rows", msc_int(msc_op_int(op, "rows")));
  msc_value *in[] = {n->sorted, n->order, updates};
  msc_value *y = updates ? with_attrs(&b, OP_segment_sum, 3, in, 1, &rows) : NULL;
  if (!y) return false;
  const char *const kept[] = {MSC_FACT(blocks), MSC_FACT(start), MSC_FACT(whole)};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    const msc_attr_value *v = msc_op_attr(op, kept[i]);
    if (v) msc_op_set(y->def, kept[i], *v);
  }
  if (msc_runs_on_host(op))
    msc_op_set(y->def, MSC_FACT(primitive_target), *msc_op_attr(op, MSC_FACT(primitive_target)));
  msc_replace_uses(&op->out[0], y);
  msc_op_erase(op);
  return true;
}

bool pass_segments(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    sorter s = {.scratch = pass->scratch};
    for (msc_op *op = f->body->first, *next; op; op = next) {
      next = op->next;
      if (!adds_in_blocks(op)) continue;
      MSC_TRY(add_segments(&s, op));
      num++;
    }
  }
  msc_stat(pass, "tables whose rows are added in blocks", num);
  return true;
}
