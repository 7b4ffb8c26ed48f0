/* tables: sines and cosines of positions, as every layer with rotary positions makes them -> made once per function.
 * Tables of other functions, as masks, stay: they are cheap enough to be made inside the kernels that read them. */
#include "passes/1_simplify/simplify.h"
#include "passes/pass.h"

/* True if the op reads no more than other tables. */
static bool makes_table(const msc_op *op, const bool *is_table) {
  bool makes = (msc_info(op)->flags & MSC_PURE) && !(msc_info(op)->flags & MSC_RANDOM) && !op->body && op->num_out;
  for (size_t i = 0; i < op->num_in && makes; i++) {
    const msc_op *def = op->in[i].value->def;
    makes = def && def->block == op->block && is_table[def->id];
  }
  return makes;
}

static bool feeds_costly(const msc_op *op, const bool *costly) {
  if (op->kind == OP_sin || op->kind == OP_cos) return true;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (u->user->block == op->block && costly[u->user->id]) return true;
  return false;
}

/* Returns, by op id: true for a table of sines or cosines, and for a table that is computed into one. */
static const bool *find_costly_tables(msc_func *f, msc_arena *arena) {
  size_t num = msc_number(f->body).num_ops;
  bool *is_table = msc_new_array(arena, bool, num + 1), *costly = msc_new_array(arena, bool, num + 1);
  for (const msc_op *op = f->body->first; op; op = op->next) is_table[op->id] = makes_table(op, is_table);
  for (const msc_op *op = f->body->last; op; op = op->prev)
    costly[op->id] = is_table[op->id] && feeds_costly(op, costly);
  return costly;
}

bool pass_tables(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next)
    msc_stat(pass, "ops merged", msc_merge_equal_ops(f, pass->scratch, find_costly_tables(f, pass->scratch)));
  return true;
}
