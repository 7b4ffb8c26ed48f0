/* cached: a table of which a device holds only some rows (msc.cache_rows), and its state -> arguments of so many rows,
 * the cache, and an op `admit` in front of their first user, which brings the rows that the step names into the cache
 * and returns their places there.  Look-ups and lazy updates then work on rows of the cache; the table itself and its
 * state live in host memory or on disk.
 *
 * One `admit` brings all rows of a function: those that it updates, whose numbers are sorted, and those that it looks
 * up.  The ops that compute these numbers move in front of the first look-up.  Beside a GPU the host runs it: pass host
 * moves the numbers there and the places back. */
#include <string.h>

#include "ir/alias.h"
#include "passes/2_train/train.h"
#include "passes/7_lower/target.h"
#include "passes/8_memory/homes.h"
#include "passes/check.h"
#include "passes/config/config.h"
#include "passes/pass.h"

/* A table of a function, and who uses it. */
typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_value *table;
  const char *name;
  int64_t rows, cached;   /* of this rank's part; of the cache */
  msc_op *first, *update; /* the first user; the lazy update, NULL: none */
  size_t num_lookups;
  msc_op **lookup;
} cache_builder;

static bool refuse(const cache_builder *z, const msc_op *op, const char *why) {
  return msc_error(z->pass->ctx, MSC_E_UNSUPPORTED, op ? op->loc : z->f->loc, "cache_rows of '%s': %s", z->name, why);
}

/* ---- who uses the table ---- */

static bool note_user(cache_builder *z, const msc_use *u) {
  msc_op *op = u->user;
  size_t at = (size_t)(u - op->in);
  if (msc_info(op)->flags & MSC_TERMINATOR) return true;
  if (msc_runs_on_host(op))
    return refuse(z, op, "with primitive_target = \"CPU\" the table stays in host memory, and so do its rows");
  if (op->kind == OP_gather && at == 0 && !msc_op_int(op, "axis")) {
    msc_grow(z->pass->scratch, z->lookup, z->num_lookups);
    z->lookup[z->num_lookups++] = op;
  } else if (msc_is_lazy_update(op) && at == 0 && !z->update) {
    z->update = op;
  } else if (msc_info(op)->flags & MSC_UPDATE) {
    return refuse(z, op, "all rows of the table are updated; with 'lazy' an optimizer updates those of the step");
  } else {
    return refuse(z, op,
                  msc_arena_printf(z->pass->scratch,
                                   "%s reads the table too; it may only be looked up, along its first dimension, and "
                                   "updated lazily",
                                   msc_kind_name(op->kind)));
  }
  if (!z->first || op->id < z->first->id) z->first = op;
  return true;
}

/* ---- what computes row numbers, in front of the first user ---- */

/* Moves the op that makes v, and what that needs, in front of the first user. False: it depends on a look-up. */
static bool hoist_maker(const cache_builder *z, msc_value *v) {
  msc_op *op = v->def;
  if (!op || op->id < z->first->id) return true;
  if (op == z->first) return false;
  for (size_t i = 0; i < z->num_lookups; i++)
    if (op == z->lookup[i]) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (!hoist_maker(z, op->in[i].value)) return false;
  msc_op_unlink(op);
  msc_insert_before(z->first, op);
  op->id = 0;
  return true;
}

/* ---- rewriting ---- */

/* Makes an argument as large as the cache, and notes where its rows live. */
static void shrink_argument(const cache_builder *z, msc_value *v) {
  const msc_type *t = v->type;
  size_t i = v->index;
  int64_t dim[MSC_MAX_RANK];
  msc_role role = msc_arg_role(z->f, i);
  const char *word = msc_config_offload(z->pass->config, role == MSC_ROLE_STATE ? "optimizer" : "param");
  msc_home home = MSC_HOME_CPU;
  if (word) msc_home_parse(word, &home);
  if (!msc_arg_attr(z->f, i, MSC_FACT(msc_shape)))
    msc_arg_put(z->f, i, msc_fact_msc_shape(z->pass->ctx, (size_t)t->rank, t->dim));
  msc_arg_put(z->f, i, msc_fact_msc_cached(t->dim[0]));
  msc_arg_put(z->f, i, msc_fact_msc_home(z->pass->ctx, home));
  memcpy(dim, t->dim, sizeof dim);
  dim[0] = z->cached;
  v->type = msc_type_of(z->pass->ctx, t->dtype, t->rank, dim, t->layout);
}

/* Lets the update work on rows of the cache. */
static bool rewrite_update(const cache_builder *z, msc_value *slots) {
  msc_op *op = z->update;
  for (size_t i = 0; i < op->num_in; i++) {
    msc_value *v = op->in[i].value;
    if (msc_tied_result(op, i) < 0) continue;
    if (v->def || v->type->dim[0] != (i ? z->rows : z->cached))
      return refuse(z, op, "its state is cut over ranks otherwise than the table");
    if (i) shrink_argument(z, v);
  }
  msc_op_unset(op, MSC_FACT(start));
  msc_set_operand(op, (size_t)msc_operand_called(op, "indices"), slots);
  if (!msc_infer(op)) return false;
  msc_forget_wholes(op);
  return true;
}

/* Lets a look-up read rows of the cache.  A row of another rank has a number behind the last row: the look-up gives
 * zeros for it, or, if it must have rows of this rank only, an error. */
static void rewrite_lookup(const cache_builder *z, msc_op *op, msc_value *slots) {
  bool aligned = msc_op_bool(op, MSC_FACT(aligned));
  msc_op_unset(op, MSC_FACT(start));
  msc_op_unset(op, MSC_FACT(part));
  if (aligned) msc_op_unset(op, MSC_FACT(whole));
  else msc_op_put(op, msc_fact_whole(z->cached + 1));
  msc_set_operand(op, 1, slots);
}

/* The operands of admit: the rows that are updated, if there are any, and the numbers of each look-up once. */
static size_t list_numbers(const cache_builder *z, msc_value **in) {
  size_t num = 0;
  if (z->update) in[num++] = msc_named_value(z->update, "indices");
  for (size_t i = 0; i < z->num_lookups; i++) {
    msc_value *v = z->lookup[i]->in[1].value;
    size_t k = z->update != NULL;
    while (k < num && in[k] != v) k++;
    if (k == num) in[num++] = v;
  }
  return num;
}

static bool cache_table(cache_builder *z) {
  msc_value **in = msc_new_array(z->pass->scratch, msc_value *, z->num_lookups + 1);
  size_t num = list_numbers(z, in);
  msc_op *first = z->first;
  for (size_t i = 0; i < num; i++)
    if (!hoist_maker(z, in[i])) return refuse(z, first, "what is looked up depends on what was looked up before");
  msc_op *admit = msc_op_new(z->f, OP_admit, num, in, num, first->loc);
  admit->name = msc_intern(z->pass->ctx, msc_arena_printf(z->pass->scratch, "%s.rows", z->name));
  msc_op_set(admit, "table", msc_str(z->pass->ctx, z->name));
  if (z->update) msc_op_set(admit, "updates", msc_bool(true));
  if (msc_target_of(z->f->module)->host) msc_op_set(admit, MSC_FACT(primitive_target), msc_str(z->pass->ctx, "CPU"));
  msc_insert_before(first, admit);
  if (!msc_infer(admit)) return false;
  shrink_argument(z, z->table);
  for (size_t i = 0; i < z->num_lookups; i++) {
    size_t k = z->update != NULL;
    while (in[k] != z->lookup[i]->in[1].value) k++;
    rewrite_lookup(z, z->lookup[i], &admit->out[k]);
  }
  return !z->update || rewrite_update(z, &admit->out[0]);
}

static const char *name_of_table(const msc_func *f, size_t i) {
  const msc_attr_value *v = msc_arg_attr(f, i, MSC_FACT(msc_name));
  return v ? v->s : f->body->args[i]->name;
}

/* The rows of the cache of argument i; 0: it has none. */
static int64_t cache_rows_of(const msc_func *f, size_t i) {
  const msc_attr_value *rows = msc_arg_attr(f, i, MSC_FACT(msc_cache_rows));
  return rows && rows->kind == MSC_ATTR_INT ? rows->i : 0;
}

static bool cache_argument(msc_pass_ctx *pass, msc_func *f, size_t i, int64_t cached) {
  msc_value *v = f->body->args[i];
  const msc_attr_value *served = msc_arg_attr(f, i, MSC_FACT(msc_parameter_server));
  cache_builder z = {.pass = pass, .f = f, .table = v, .name = name_of_table(f, i), .cached = cached};
  if (msc_arg_role(f, i) != MSC_ROLE_PARAMETER || !v->type->rank || v->type->dim[0] < 1)
    return refuse(&z, NULL, "only a parameter with rows has a cache of them");
  if (served && served->b) return refuse(&z, NULL, "it lives on a parameter server, or in host memory with a cache");
  if (msc_config_bool(pass->config, MSC_KEY_elastic)) return refuse(&z, NULL, "not supported yet with elastic");
  z.rows = v->type->dim[0];
  if (cached > z.rows) z.cached = z.rows;
  if (z.cached > INT32_MAX / 2) return refuse(&z, NULL, "a cache has fewer than 2^30 rows");
  msc_number(f->body);
  for (msc_op *op = f->body->first; op; op = op->next) op->id++; /* 0: it was moved to the front */
  for (const msc_use *u = v->uses; u; u = u->next) MSC_TRY(note_user(&z, u));
  if (z.first) MSC_TRY(cache_table(&z));
  else shrink_argument(&z, v);
  msc_remark(pass, z.first, "%s: %" PRId64 " of %" PRId64 " rows of '%s' lie on the device", f->name, z.cached, z.rows,
             z.name);
  return true;
}

bool pass_cached(msc_pass_ctx *pass, msc_module *m) {
  int64_t tables = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (size_t i = 0; i < f->body->num_args; i++) {
      int64_t rows = cache_rows_of(f, i);
      if (!rows) continue;
      MSC_TRY(cache_argument(pass, f, i, rows));
      tables++;
    }
  if (!tables) return msc_not_asked_for(pass);
  pass->changes_meaning = true; /* an argument is rows of a table, which are not always the same */
  msc_stat(pass, "tables with a cache", tables);
  return true;
}
