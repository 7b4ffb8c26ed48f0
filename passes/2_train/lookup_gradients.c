/* lookup_gradients.c: the gradient of a table that is only looked up, a scatter of rows, in; the rows and their
 * numbers, for updates that touch no other row, out.  Of micro-batches they are the rows of all, in their order.
 *
 * The gradient of one look-up is scatter_add(indices, rows); that of several look-ups is their sum, in which each may
 * be cast, scaled, or summed over ranks.  These ops are then applied to the rows instead; where ranks add gradients,
 * their rows are put one behind the other. */
#include <string.h>

#include "ir/fact.h"
#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "passes/pass.h"

/* The ops applied to a part of the gradient before it is added: `op`, then those of `outer`. */
typedef struct wrapping_op {
  const msc_op *op;
  const struct wrapping_op *outer;
} wrapping_op;

typedef struct {
  const msc_value *v;
  const wrapping_op *in;
} part;

typedef struct {
  msc_builder *b;
  msc_arena *arena;
  size_t num, most; /* look-ups */
  msc_value **rows, **indices;
} row_separator;

static bool is_one_constant(const msc_value *v) { return v->def && v->def->kind == OP_constant && !v->type->rank; }

/* The operand that the op scales, rounds, or sums over ranks; -1: it does something else. */
static int wrapped_operand(const msc_op *op) {
  if (op->kind == OP_cast) return 0;
  if (op->kind == OP_all_reduce && op->num_in == 1 && msc_op_reduction(op) == MSC_SUM) return 0;
  if (op->kind == OP_mul && is_one_constant(op->in[1].value)) return 0;
  return op->kind == OP_mul && is_one_constant(op->in[0].value) ? 1 : -1;
}

static bool is_lookup(const msc_op *op) {
  return op->kind == OP_scatter_add && !msc_op_int(op, "axis") && !msc_op_bool(op, MSC_FACT(aligned));
}

/* The look-ups of which `g` is the sum, in the order of its terms; false: it is something else as well. */
static bool list_lookups(msc_arena *arena, const msc_value *g, size_t most, part *out, size_t *out_num) {
  part *open = msc_new_array(arena, part, most + 1);
  size_t num = 1;
  *out_num = 0;
  open[0] = (part){g, NULL};
  while (num) {
    part p = open[--num];
    const msc_op *op = p.v->def;
    int through = op ? wrapped_operand(op) : -1;
    if (op && is_lookup(op)) {
      if (*out_num == most) return false;
      out[(*out_num)++] = p;
    } else if (op && op->kind == OP_add && op->in[0].value->type == op->in[1].value->type) {
      if (num + 2 > most + 1) return false;
      open[num++] = (part){op->in[1].value, p.in};
      open[num++] = (part){op->in[0].value, p.in};
    } else if (through >= 0) {
      open[num++] = (part){op->in[through].value, msc_arena_copy(arena, &(wrapping_op){op, p.in}, sizeof(wrapping_op))};
    } else {
      return false;
    }
  }
  return true;
}

static msc_value *gather_over_ranks(msc_builder *b, const msc_op *sum, msc_value *v) {
  const msc_attr_value *axes = msc_op_attr(sum, "axes");
  msc_attr attr = axes ? msc_named(formula_ctx(b), "axes", *axes) : (msc_attr){0};
  return v ? with_attrs(b, OP_all_gather, 1, &v, axes != NULL, &attr) : NULL;
}

/* Returns how many consecutive looked-up rows have the same gradient, as rows have that are summed; 1: each its own. */
static int64_t bag_of(const part *p) {
  const msc_op *made = p->v->def->in[1].value->def;
  const msc_type *x = made && made->kind == OP_broadcast_to ? made->in[0].value->type : NULL,
                 *y = p->v->def->in[1].value->type;
  int at = p->v->def->in[0].value->type->rank - 1; /* the last dimension of the indices */
  if (!x || at < 0 || x->rank != y->rank || x->dim[at] != 1) return 1;
  for (int d = 0; d < y->rank; d++)
    if (d != at && x->dim[d] != y->dim[d]) return 1;
  return y->dim[at] > 1 ? y->dim[at] : 1;
}

static int64_t common_bag(size_t num, const part *list) {
  for (size_t i = 1; i < num; i++)
    if (bag_of(&list[i]) != bag_of(&list[0])) return 1;
  return bag_of(&list[0]);
}

static int64_t num_micro_batches(const msc_builder *b) {
  const msc_attr_value *micro = msc_func_attr(b->func, MSC_FACT(micro));
  return micro ? micro->i : 1;
}

/* Returns the rows v of all micro-batches of a step: the first ones of all, then the second ones, and so on. */
static msc_value *rows_of_step(msc_builder *b, msc_value *v) {
  int64_t k = num_micro_batches(b);
  msc_attr attrs[2] = {msc_fact_count(msc_int(k)), msc_named(formula_ctx(b), "rows", msc_bool(true))};
  return k == 1 || !v ? v : with_attrs(b, OP_accumulate, 1, &v, 2, attrs);
}

/* Returns the numbers of all micro-batches of a step, one micro-batch behind the other: in the order of the samples. */
static msc_value *numbers_of_step(msc_builder *b, msc_value *v) {
  int64_t k = num_micro_batches(b);
  if (k == 1 || !(v = rows_of_step(b, v))) return v;
  int64_t num = v->type->dim[0];
  v = transpose(b, reshape(b, v, 2, (int64_t[]){num / k, k}), (int64_t[]){1, 0});
  return v ? reshape(b, v, 1, &num) : NULL;
}

/* Returns, for each number of one look-up (numbers_of_step, of `ranks` ranks one behind the other), the place of its
 * row among the rows (rows_of_step), the first of which is row `first` of all look-ups. Worked example, two rows of
 * each of two micro-batches: the numbers are a0 a1 b0 b1, the rows a0 b0 a1 b1, so the places are 0 2 1 3. */
static msc_value *places_of_rows(msc_builder *b, int64_t num, int64_t ranks, int64_t bag, int64_t first) {
  int64_t k = num_micro_batches(b), of_rank = num / ranks, n = of_rank / k;
  msc_value *at = count_up(b, MSC_I32, num);
  msc_value *rank = over(b, at, number(b, at, (double)of_rank)),
            *inside = minus(b, at, times(b, rank, number(b, at, (double)of_rank))),
            *batch = over(b, inside, number(b, at, (double)n)),
            *row = over(b, minus(b, inside, times(b, batch, number(b, at, (double)n))), number(b, at, (double)bag));
  row = plus(b, plus(b, times(b, row, number(b, at, (double)k)), batch),
             times(b, rank, number(b, at, (double)(of_rank / bag))));
  return first ? plus(b, row, number(b, at, (double)first)) : row;
}

/* Builds the gradient's rows of one look-up, [n,...], and their numbers, [n]. If `bag` consecutive rows are equal, only
 * one of them is built: [n/bag,...]. The ops that wrap the gradient (p->in) are applied to the rows instead. */
static bool build_rows(msc_builder *b, const part *p, int64_t bag, msc_value **out_rows, msc_value **out_indices) {
  const msc_op *op = p->v->def;
  msc_value *indices = op->in[0].value, *rows = op->in[1].value;
  const msc_type *t = op->out[0].type;
  int64_t n = msc_type_elems(indices->type), dim[MSC_MAX_RANK];
  if (bag > 1) rows = rows->def->in[0].value;
  memcpy(dim, t->dim, sizeof dim);
  dim[0] = n / bag;
  indices = numbers_of_step(b, reshape(b, indices, 1, &n)), rows = rows_of_step(b, reshape(b, rows, t->rank, dim));
  for (const wrapping_op *w = p->in; w && rows && indices; w = w->outer) {
    int through = wrapped_operand(w->op);
    if (w->op->kind == OP_cast) rows = cast(b, rows, w->op->out[0].type->dtype);
    else if (w->op->kind == OP_mul) rows = times(b, rows, w->op->in[1 - through].value);
    else rows = gather_over_ranks(b, w->op, rows), indices = gather_over_ranks(b, w->op, indices);
  }
  *out_rows = rows, *out_indices = indices;
  return rows && indices;
}

/* Builds the places of the rows of all look-ups, whose numbers and rows are built; none for one micro-batch. */
static bool join_places(row_separator *s, size_t num, const part *list, int64_t bag, msc_value **out_places) {
  int64_t k = num_micro_batches(s->b), first = 0;
  msc_value **places = msc_new_array(s->arena, msc_value *, num);
  if (k == 1) return true;
  for (size_t i = 0; i < num; first += s->rows[i++]->type->dim[0]) {
    int64_t own = k * msc_type_elems(list[i].v->def->in[0].value->type), all = s->indices[i]->type->dim[0];
    MSC_TRY((places[i] = places_of_rows(s->b, all, own ? all / own : 1, bag, first)));
  }
  return (*out_places = num == 1 ? places[0] : join_along(s->b, 0, num, places)) != NULL;
}

/* Builds the rows of all look-ups, one behind the other. */
static bool join_rows(row_separator *s, size_t num, const part *list, msc_value **out_rows, msc_row_numbers *out) {
  msc_dtype wide = MSC_I32;
  int64_t bag = common_bag(num, list);
  for (size_t i = 0; i < num; i++) {
    MSC_TRY(build_rows(s->b, &list[i], bag, &s->rows[i], &s->indices[i]));
    if (s->indices[i]->type->dtype != MSC_I32) wide = MSC_I64;
  }
  MSC_TRY(join_places(s, num, list, bag, &out->places));
  for (size_t i = 0; i < num; i++) MSC_TRY((s->indices[i] = cast(s->b, s->indices[i], wide)));
  *out_rows = num == 1 ? s->rows[0] : join_along(s->b, 0, num, s->rows);
  out->indices = num == 1 ? s->indices[0] : join_along(s->b, 0, num, s->indices);
  return *out_rows && out->indices;
}

static bool report_dense(const msc_func *f, const msc_op *loc_of, const char *name, const char *why) {
  return msc_error(f->module->ctx, MSC_E_OPTIMIZER, loc_of ? loc_of->loc : f->loc,
                   "optimizer: '%s' cannot be updated lazily: %s", name, why);
}

/* Replaces the gradient of argument `arg` by its rows; a table of f16, or one that is not only looked up, is updated
 * whole, or reported if the group names it. */
static bool separate_rows(row_separator *s, const msc_optimizer_group *group, uint32_t arg, msc_value **grad,
                          msc_row_numbers *out) {
  const msc_func *f = s->b->func;
  const msc_type *t = f->body->args[arg]->type;
  bool named = msc_find_attr(group->values->dict.a, group->values->dict.num, "parameters");
  size_t num = 0;
  part *list = msc_new_array(s->arena, part, s->most);
  const char *name = msc_name_of_arg(f, arg);
  bool is_sum = list_lookups(s->arena, *grad, s->most, list, &num);
  bool fits = t->rank && (t->dtype == MSC_F32 || t->dtype == MSC_F64);
  if (!is_sum || !fits) {
    return !named || report_dense(f, (*grad)->def, name,
                                  is_sum ? "its elements are neither f32 nor f64"
                                         : "it is not only looked up, so that its gradient has no rows");
  }
  s->b->name = msc_intern(formula_ctx(s->b), msc_arena_printf(s->arena, "%s.rows", name));
  return join_rows(s, num, list, grad, out);
}

bool msc_keep_rows_apart(msc_builder *b, msc_pass_ctx *pass, const msc_optimizer_groups *groups, msc_value **grad,
                         msc_row_numbers *out) {
  row_separator s = {.b = b, .arena = pass->scratch};
  int64_t apart = 0;
  bool any = false;
  for (size_t g = 0; g < groups->num; g++) any |= groups->group[g].lazy != OP_return;
  if (!any) return true;
  if (msc_config_bool(pass->config, MSC_KEY_gradients_mean) &&
      msc_config_choice(pass->config, MSC_KEY_gradients_mean_of) == 1)
    return msc_error(pass->ctx, MSC_E_UNSUPPORTED, b->func->loc,
                     "optimizer: lazy updates with gradients_mean_of parameter are not supported yet: rows are not "
                     "summed over ranks");
  for (const msc_op *op = b->func->body->first; op; op = op->next) s.most += op->kind == OP_scatter_add;
  s.most = 2 * s.most + 1; /* look-ups, and sums of them */
  s.rows = msc_new_array(s.arena, msc_value *, s.most);
  s.indices = msc_new_array(s.arena, msc_value *, s.most);
  for (size_t g = 0; g < groups->num; g++) {
    const msc_optimizer_group *group = &groups->group[g];
    for (size_t i = 0; i < group->num_args && group->lazy != OP_return; i++) {
      uint32_t arg = group->arg[i];
      if (grad[arg]) MSC_TRY(separate_rows(&s, group, arg, &grad[arg], &out[arg]));
      apart += out[arg].indices != NULL;
    }
  }
  b->name = NULL;
  if (!apart)
    return msc_error(pass->ctx, MSC_E_OPTIMIZER, b->func->loc,
                     "optimizer: 'lazy' says nothing: no parameter of f32 or f64 is only looked up");
  msc_stat(pass, "tables updated lazily", apart);
  return true;
}

bool msc_is_lazy_update(const msc_op *op) { return msc_info(op)->flags & MSC_UPDATE && msc_info(op)->facts.indexed; }
