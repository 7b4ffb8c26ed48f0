/* manual_split.c: manual_split of a gather, the rows of its table in each part, (10,20,30,4) -> in_layout with parts of
 * these sizes.
 *
 * The gather then yields zeros for rows of other ranks, and the sum over the parts is finished where the result is
 * used. Where the columns of the indices are aligned to the parts (fact `aligned`, set by annotations.c), the op's rule
 * has the parts and no sum is left: manual_split is only checked here. */
#include "passes/3_shard/shard.h"

enum { MAX_PARTS = 4096 };

static bool report(const msc_op *op, const char *why) {
  return msc_op_error(op, MSC_E_STRATEGY, "manual_split: %s", why);
}

/* Cuts dimension 0 along the axes whose sizes multiply to the number of parts: all axes, or the first one of that size.
 * False: there are none. */
static bool cut_rows(const shard_graph *g, int num, msc_layout *raw) {
  int first = 0, axes = g->mesh->num_axes;
  if (msc_mesh_size(g->mesh) != num) {
    while (first < axes && g->mesh->axis[first].size != num) first++;
    if (first == axes) return false;
    axes = 1;
  }
  for (int a = 0; a < axes; a++)
    raw->sub[a] = (msc_subaxis){(uint32_t)(first + a), 1, (uint32_t)g->mesh->axis[first + a].size};
  for (int d = 1; d <= raw->rank; d++) raw->first[d] = (uint8_t)axes;
  return true;
}

/* Checks that in_strategy, if the op has it too, cuts the rows into as many parts. */
static bool check_strategy(const msc_op *op, int num) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(in_strategy));
  if (!v) return true;
  const msc_attr_value *table = v->kind == MSC_ATTR_LIST && v->list.num ? &v->list.v[0] : NULL;
  if (table && table->kind == MSC_ATTR_LIST && table->list.num && table->list.v[0].kind == MSC_ATTR_INT &&
      table->list.v[0].i == num)
    return true;
  return report(op, "its number of parts is not that of in_strategy's first entry, the rows of the table");
}

/* Checks the numbers of rows and writes them to `rows`, which has room for MAX_PARTS. */
static bool check_parts(const msc_op *op, int *out_num, int64_t *rows) {
  int64_t sum = 0;
  int num = msc_op_ints(op, MSC_FACT(manual_split), rows, MAX_PARTS);
  if (op->kind != OP_gather) return report(op, "only gather takes it");
  if (msc_op_int(op, "axis") != 0) return report(op, "the gather must be along axis 0");
  if (num < 1 || num > MAX_PARTS) return report(op, "a list of 1 to 4096 numbers of rows is expected");
  *out_num = num;
  for (int i = 0; i < num; i++)
    if (rows[i] < 1 || __builtin_add_overflow(sum, rows[i], &sum))
      return report(op, "every part must have at least one row");
  int64_t have = op->in[0].value->type->dim[0];
  return sum == have ||
         msc_op_error(op, MSC_E_STRATEGY,
                      "manual_split: the parts have %" PRId64 " rows together, the table has %" PRId64, sum, have);
}

/* Replaces manual_split of the op by in_layout; `rows`: room for MAX_PARTS. False after a report. */
static bool replace_by_layout(const shard_graph *g, msc_op *op, int64_t *rows) {
  msc_layout raw = {.rank = (uint8_t)op->in[0].value->type->rank};
  int num;
  MSC_TRY(check_parts(op, &num, rows));
  if (!cut_rows(g, num, &raw))
    return msc_op_error(op, MSC_E_STRATEGY,
                        "manual_split: %d parts are neither the %" PRId64 " devices nor an axis of the mesh %s", num,
                        msc_mesh_size(g->mesh), msc_mesh_print(g->arena, g->mesh));
  if (msc_op_attr(op, MSC_FACT(in_layout))) return report(op, "in_layout is given, too; one of them decides");
  MSC_TRY(check_strategy(op, num));
  if (num > 1) raw.split[0] = msc_split_of(g->ctx, (size_t)num, rows);
  const msc_layout *layout[2] = {msc_layout_of(g->ctx, g->mesh, &raw),
                                 msc_layout_replicated(g->ctx, op->in[1].value->type->rank)};
  msc_op_put(op, msc_fact_in_layout(g->ctx, 2, layout));
  msc_op_unset(op, MSC_FACT(in_strategy));
  return true;
}

bool shard_manual_splits(shard_graph *g) {
  int64_t *rows = msc_new_array(g->arena, int64_t, MAX_PARTS);
  bool ok = true;
  for (msc_op *op = g->func->body->first; op; op = op->next) {
    int num;
    if (!msc_op_attr(op, MSC_FACT(manual_split))) continue;
    if (msc_op_bool(op, MSC_FACT(aligned))) {
      ok &= op->forward || check_parts(op, &num, rows); /* gradient ops have a copy of their forward op's */
      continue;
    }
    ok &= replace_by_layout(g, op, rows);
    msc_op_unset(op, MSC_FACT(manual_split));
  }
  return ok;
}
