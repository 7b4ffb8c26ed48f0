/* localize: global shapes with layouts -> one rank's shapes.  Layout changes and manual collectives become `comm` ops,
 * which name their group or their two layouts.  Facts about the whole that an op's shapes no longer tell are recorded
 * in `count`, `whole`, `start` (nest.h).  `starts` of the function lists the offsets that a rank computes when it loads
 * the plan. */
#include <string.h>

#include "ir/alias.h"
#include "ir/conv.h"
#include "passes/7_lower/localize.h"
#include "passes/7_lower/target.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/config/config.h"
#include "passes/pass.h"

/* ---- offsets ---- */

/* Returns the index in `starts` of the first element of this rank's part of dimension dim, or (behind) of minus the
 * part's size.  Equal ones share an index. */
static int64_t number_offset(localizing *z, const msc_type *t, int dim, bool behind) {
  msc_context *ctx = z->pass->ctx;
  msc_attr *a = NULL;
  size_t num = 0;
  if (behind) msc_attrs_put(ctx, &a, &num, msc_fact_behind(true));
  msc_attrs_put(ctx, &a, &num, msc_fact_dim(dim));
  msc_attrs_put(ctx, &a, &num, msc_fact_layout(t->layout));
  msc_attrs_put(ctx, &a, &num, msc_fact_shape(ctx, (size_t)t->rank, t->dim));
  msc_attr_value v = {.kind = MSC_ATTR_DICT, .dict = {num, a}};
  for (size_t i = 0; i < z->num_starts; i++)
    if (msc_attr_equal(&z->starts[i], &v)) return (int64_t)i;
  z->starts[z->num_starts] = v;
  return (int64_t)z->num_starts++;
}

static int64_t number_start(localizing *z, const msc_type *t, int dim) { return number_offset(z, t, dim, false); }

/* ---- ops ---- */

static const msc_type *localize_type(const localizing *z, const msc_type *t) {
  int64_t dim[MSC_MAX_RANK];
  if (!t->layout) return t;
  msc_local_dims(t, t->layout, dim);
  return msc_type_of(z->pass->ctx, t->dtype, t->rank, dim, NULL);
}

/* Gives a constant its local type.  One with several elements that is cut stays whole, and each rank keeps its part. */
static void slice_constant(localizing *z, msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "value");
  const msc_type *t = global_of(z, &op->out[0]), *local = op->out[0].type;
  if (v->dense.bytes == (size_t)msc_dtype_bytes(t->dtype)) { /* for a splat only the type changes */
    msc_attr_value splat = *v;
    splat.dense.type = local;
    msc_op_set(op, "value", splat);
    return;
  }
  if (msc_layout_is_replicated(t->layout)) return;
  op->out[0].type = msc_type_with_layout(z->pass->ctx, t, NULL);
  z->global[op->out[0].id] = msc_type_with_layout(z->pass->ctx, t, msc_layout_replicated(z->pass->ctx, t->rank));
  msc_op *comm = localize_insert_comm(z, op->next, &op->out[0], MSC_SHARD);
  localize_set_layouts(z, comm, msc_layout_replicated(z->pass->ctx, t->rank), t->layout, t->dim);
  localize_finish_comm(z, comm, t, local);
  for (msc_use *u = op->out[0].uses, *next; u; u = next) {
    next = u->next;
    if (u->user != comm) msc_set_operand(u->user, (size_t)(u - u->user->in), &comm->out[0]);
  }
}

/* Sets the limits of a slice along cut dimensions, which it keeps whole, to the local sizes. */
static void shorten_slice(localizing *z, msc_op *op) {
  int64_t limit[MSC_MAX_RANK];
  const msc_type *x = global_of(z, op->in[0].value), *local = op->in[0].value->type;
  int rank = msc_op_ints(op, "limit", limit, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++)
    if (is_cut_type_dim(x, d)) limit[d] = local->dim[d];
  msc_op_set(op, "limit", msc_ints(z->pass->ctx, (size_t)rank, limit));
}

/* Records where the rank's part of the indexed dimension begins, and the size of the whole, beyond which an index is
 * an error.  Where columns of indices are aligned with the parts that they read, an index of another rank's row is an
 * error, too. */
static void set_start_of_indexed(localizing *z, msc_op *op, const msc_indexed *x) {
  const msc_type *t = global_of(z, x->of);
  if (!is_cut_type_dim(t, x->dim)) return;
  msc_op_put(op, msc_fact_start(number_start(z, t, x->dim)));
  if (x->of->def != op && msc_op_bool(op, MSC_FACT(aligned)))
    msc_op_put(op, msc_fact_part(number_offset(z, t, x->dim, true)));
  else msc_op_put(op, msc_fact_whole(t->dim[x->dim]));
}

/* Records where the rank's part of the dimension begins along which an op without indices counts. */
static void set_start_of_counted(localizing *z, msc_op *op, const msc_indexed *x) {
  const msc_type *t = global_of(z, x->of);
  if (is_cut_type_dim(t, x->dim))
    msc_op_put(op, msc_fact_start(number_offset(z, t, x->dim, msc_op_bool(op, MSC_FACT(behind)))));
  msc_op_unset(op, MSC_FACT(behind));
}

/* Records the place of the rank's part: random numbers depend on an element's place in the whole tensor. */
static void set_place_in_whole(localizing *z, msc_op *op, const msc_type *t) {
  int64_t number[MSC_MAX_RANK];
  bool any = false;
  for (int d = 0; d < t->rank; d++) {
    number[d] = is_cut_type_dim(t, d) ? number_start(z, t, d) : -1;
    any |= number[d] >= 0;
  }
  if (!any) return;
  msc_op_put(op, msc_fact_starts(msc_ints(z->pass->ctx, (size_t)t->rank, number)));
  msc_op_put(op, msc_fact_whole_shape(z->pass->ctx, (size_t)t->rank, t->dim));
}

/* Records the place of the rank's part, as set_place_in_whole does, in a program for one rank: there `whole_layout`
 * says how the whole is cut. False after a report. */
static bool set_place_from_layout(localizing *z, msc_op *op) {
  const msc_layout *l = msc_op_layout(op, MSC_FACT(whole_layout));
  if (!l) return true;
  msc_type whole = *op->out[0].type;
  whole.layout = l;
  if (whole.layout->rank != whole.rank)
    return msc_op_error(op, MSC_E_LAYOUT, "%s: whole_layout %s is not of rank %d", msc_kind_name(op->kind),
                        msc_layout_print(z->pass->scratch, z->mesh, whole.layout), whole.rank);
  for (int d = 0; d < whole.rank; d++) whole.dim[d] *= msc_layout_parts(whole.layout, d);
  set_place_in_whole(z, op, &whole);
  msc_op_unset(op, MSC_FACT(whole_layout));
  return true;
}

/* The number of blocks of a sum over these dimensions of x (msc_sum_blocks).  Blocks are aligned with the whole's only
 * if just the first dimension is cut, into equal parts. */
static int64_t count_blocks(const localizing *z, const msc_value *x, unsigned dims, int64_t least, int64_t many) {
  const msc_type *t = global_of(z, x);
  int64_t whole = 1, part = 1, parts = 1, first = 0;
  for (int d = 0; d < t->rank; d++) {
    if (!(dims >> d & 1) || t->dim[d] == 1) continue;
    int64_t cut = t->layout ? msc_layout_parts(t->layout, d) : 1;
    whole *= t->dim[d], part *= x->type->dim[d];
    if (!first++) parts = !t->layout || msc_dim_is_even(t->layout, t, d) ? cut : 0;
    else if (cut > 1) parts = 0;
  }
  return parts && part * parts == whole ? msc_sum_blocks_of_part(whole, parts, least, many)
                                        : msc_sum_blocks(part, least, many);
}

/* Sets the number of blocks that an op sums in.  Many short rows are not cut into blocks of a few vectors: adding up
 * the blocks would take longer; so would more than eight blocks of few terms that AMX multiplies, or short blocks in
 * matrices of a batch, whose sums are over no part of the batch. */
static void set_blocks(const localizing *z, msc_op *op) {
  enum { LEAST_OF_ROW = 64, MANY = 32, MANY_OF_BF16 = 128, LEAST_OF_BF16 = 32 };
  unsigned dims = msc_summed_dims(op);
  const msc_value *x = op->num_in ? op->in[0].value : NULL;
  if (!dims || !(z->deterministic || msc_runs_on_host(op))) return;
  if (msc_form_of(op) == MSC_FORM_SCATTER) {
    if (!msc_target_of_op(op)->blocks_scatters || !msc_is_float(op->out[0].type->dtype)) return;
  } else if (!msc_is_float(x->type->dtype)) return;
  bool rows = msc_form_of(op) == MSC_FORM_REDUCE && (dims >> (x->type->rank - 1) & 1) &&
              msc_type_elems(global_of(z, &op->out[0])) > 1;
  bool by_tiles = msc_op_bool(op, MSC_FACT(in_parts)), is_product = msc_form_of(op) == MSC_FORM_PRODUCT;
  bool is_narrow = is_product && x->type->dtype == MSC_BF16,
       in_batch = is_narrow && op->in[1].value->type->rank > 2 && op->out[0].type->rank > 2;
  int64_t least = rows ? LEAST_OF_ROW : in_batch ? LEAST_OF_BF16 : 1;
  msc_op_put(op, msc_fact_blocks(count_blocks(z, x, dims, least, is_narrow || by_tiles ? MANY_OF_BF16 : MANY)));
}

/* True if an op is a product of two large matrices of f32: the whole ones, so that all ranks, of any number, agree. A
 * block of terms fills a register's row, and b is split for rows enough, also where eight ranks share them, as they do
 * those of a batch, but not those of a weight's gradient. */
static bool multiplies_large(const localizing *z, const msc_op *op) {
  enum { LEAST_COLUMNS = 64, LEAST_ROWS = 512, LEAST_OF_GRADIENT = 128, LEAST_TERMS = 256 };
  bool is_gradient = op->kind == OP_matmul_weight_grad || (op->kind == OP_matmul && msc_op_bool(op, "transpose_a"));
  bool two_matrices = op->kind == OP_matmul_weight_grad ||
                      (msc_form_of(op) == MSC_FORM_PRODUCT && op->num_in == 2 && op->in[1].value->type->rank == 2);
  if (!two_matrices || op->in[0].value->type->dtype != MSC_F32 || op->out[0].type->dtype != MSC_F32) return false;
  const msc_type *x = global_of(z, op->in[0].value), *y = global_of(z, &op->out[0]);
  int64_t columns = y->dim[y->rank - 1], rows = columns ? msc_type_elems(y) / columns : 0,
          terms = rows ? msc_type_elems(x) / rows : 0;
  return columns >= LEAST_COLUMNS && rows >= (is_gradient ? LEAST_OF_GRADIENT : LEAST_ROWS) && terms >= LEAST_TERMS;
}

/* Lets a CPU multiply terms of f32 as sums of numbers of bf16. */
static void set_in_parts(const localizing *z, msc_op *op) {
  const char *way = msc_config_text(z->pass->config, MSC_KEY_f32_products);
  if (!strcmp(way, "bf16_x6") && multiplies_large(z, op)) msc_op_put(op, msc_fact_in_parts(true));
}

/* Lets scattered rows be added in any order, atomically, if the target can and the configuration allows it. */
static void set_any_order(const localizing *z, msc_op *op) {
  if (msc_form_of(op) == MSC_FORM_SCATTER && !z->deterministic && msc_target_of_op(op)->adds_atomically)
    msc_op_put(op, msc_fact_any_order(true));
}

/* Sets the size of a result along the indexed dimension (`rows`, `depth` or `shape`) to that of this rank's part. */
static void set_size(const localizing *z, msc_op *op, const msc_indexed *x, const msc_type *local) {
  static const char *const name[] = {"rows", "depth", "shape"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (msc_op_attr(op, name[i])) msc_op_set(op, name[i], i == 2 ? dims_attr(z, local) : msc_int(local->dim[x->dim]));
}

static void localize_op(localizing *z, msc_op *op) {
  set_in_parts(z, op);
  set_blocks(z, op);
  set_any_order(z, op);
  const msc_type *y = op->num_out ? global_of(z, &op->out[0]) : NULL;
  if (!y || !y->layout) return; /* of a program for one rank: local already */
  const msc_type *local = op->out[0].type;
  if (msc_is_windowed(op)) localize_windows(z, op);
  msc_indexed x;
  bool indexes = msc_indexed_of(op, &x);
  if (indexes && !x.by) set_start_of_counted(z, op, &x);
  if (indexes && x.by) set_start_of_indexed(z, op, &x);
  if (indexes && x.by && x.of->def == op) set_size(z, op, &x, local);
  if (msc_op_attr(op, "type")) msc_op_set(op, "type", msc_type_attr(local));
  bool is_shaped = msc_form_of(op) == MSC_FORM_RESHAPE || msc_form_of(op) == MSC_FORM_STRETCH;
  if (is_shaped && msc_op_attr(op, MSC_FACT(shape)))
    msc_op_put(op, msc_fact_shape(z->pass->ctx, (size_t)local->rank, local->dim));
  if (msc_info(op)->flags & MSC_RANDOM) set_place_in_whole(z, op, y);
  if (msc_takes_mean(op)) msc_op_put(op, msc_fact_count(msc_int(msc_terms_of_mean(op, global_of(z, op->in[0].value)))));
  if (msc_is_constant_op(op)) slice_constant(z, op);
  if (op->kind == OP_slice) shorten_slice(z, op);
}

/* ---- a program for one rank: the wholes of its arguments ---- */

static bool is_marked_argument(const msc_func *f, size_t arg, const char *mark) {
  const msc_attr_value *v = msc_arg_attr(f, arg, mark);
  return v && v->kind == MSC_ATTR_BOOL && v->b;
}

/* The parameter that an argument is, or whose state it is; an argument that is neither is its own. */
static size_t parameter_of(const msc_func *f, size_t arg) {
  const msc_attr_value *owner = msc_arg_attr(f, arg, MSC_FACT(msc_owner));
  for (size_t i = 0; owner && i < f->body->num_args; i++)
    if (f->body->args[i]->name && !strcmp(f->body->args[i]->name, owner->s)) return i;
  return arg;
}

/* The dimension along which ranks hold different parts of a parameter, or of its state; -1: they hold the same. */
static int64_t cut_dim_of_parameter(const msc_func *f, size_t arg) {
  size_t of = parameter_of(f, arg);
  if (is_marked_argument(f, of, MSC_FACT(msc_layerwise_parallel))) return 0;
  return msc_fact_read(&f->arg[of], msc_cut_dim, -1);
}

/* The whole that the ranks of a stage together hold of an argument: inputs are cut along their batch, parameters that
 * differ between ranks along dimension 0, those that the parallel optimizer cuts as it says; other arguments are the
 * same on every rank. */
static const msc_type *whole_of_argument(const localizing *z, size_t arg) {
  const msc_type *t = z->f->body->args[arg]->type;
  bool is_input = msc_arg_role(z->f, arg) <= MSC_ROLE_MASK;
  int64_t cut = is_input ? msc_fact_read(&z->f->arg[arg], msc_batch_dim, 0) : cut_dim_of_parameter(z->f, arg);
  bool whole = is_input && msc_config_input_mode(z->pass->config) == MSC_INPUT_FULL_BATCH;
  int stage_axes = msc_pipeline_shape_of(z->pass->config, z->pass->scratch).joined ? 0 : 1;
  msc_layout raw = {.rank = (uint8_t)t->rank};
  msc_type all = *t;
  if (!whole && cut >= 0 && cut < t->rank) {
    for (int d = (int)cut; d < t->rank; d++) raw.first[d + 1] = (uint8_t)(z->mesh->num_axes - stage_axes);
    for (int a = stage_axes; a < z->mesh->num_axes; a++) {
      raw.sub[a - stage_axes] = (msc_subaxis){(uint32_t)a, 1, (uint32_t)z->mesh->axis[a].size};
      all.dim[cut] *= z->mesh->axis[a].size;
    }
  }
  return msc_type_of(z->pass->ctx, t->dtype, t->rank, all.dim, msc_layout_of(z->pass->ctx, z->mesh, &raw));
}

static void localize_types(localizing *z) {
  msc_block *b = z->f->body;
  bool manual = msc_func_attr(z->f, MSC_FACT(manual));
  for (size_t i = 0; i < b->num_args; i++) {
    msc_value *v = b->args[i];
    if (manual) v->type = whole_of_argument(z, i);
    z->global[v->id] = v->type;
    if (v->type->layout) { /* the plan needs both */
      msc_arg_put(z->f, i, msc_fact_msc_layout(v->type->layout));
      msc_arg_put(z->f, i, msc_fact_msc_shape(z->pass->ctx, (size_t)v->type->rank, v->type->dim));
    }
    v->type = localize_type(z, v->type);
  }
  for (msc_op *op = b->first; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++) {
      z->global[op->out[i].id] = op->out[i].type;
      op->out[i].type = localize_type(z, op->out[i].type);
    }
}

static void record_results(localizing *z) {
  msc_op *ret = z->f->body->last;
  const msc_layout **layout = msc_new_array(z->pass->scratch, const msc_layout *, ret->num_in);
  msc_attr_value *shape = msc_new_array(z->pass->scratch, msc_attr_value, ret->num_in);
  const msc_attr_value *ties = msc_func_attr(z->f, MSC_FACT(manual)) ? msc_func_attr(z->f, MSC_FACT(ties)) : NULL;
  for (size_t i = 0; i < ret->num_in; i++) {
    bool tied = ties && i < ties->list.num && ties->list.v[i].i >= 0;
    const msc_type *t = global_of(z, tied ? z->f->body->args[ties->list.v[i].i] : ret->in[i].value);
    layout[i] = t->layout ? t->layout : msc_layout_replicated(z->pass->ctx, t->rank);
    shape[i] = dims_attr(z, t);
  }
  msc_func_put(z->f, msc_fact_result_layouts(z->pass->ctx, ret->num_in, layout));
  msc_func_put(z->f, msc_fact_result_shapes(z->pass->ctx, ret->num_in, shape));
}

/* Removes what only the choice of layouts needed; gradients need their forward ops no longer. */
static void drop_layout_choices(msc_op *op) {
  msc_op_unset(op, MSC_FACT(by));
  msc_op_unset(op, MSC_FACT(inherited));
  msc_op_unset(op, MSC_FACT(conflicts));
  msc_op_unset(op, MSC_FACT(manual_split));
  msc_op_unset(op, MSC_FACT(in_layout));
  op->forward = NULL;
  op->letters = NULL;
}

static bool copy_operand(const localizing *z, msc_op *user, size_t i) {
  msc_value *v = user->in[i].value;
  msc_builder b = {.func = z->f, .block = z->f->body, .before = user, .loc = user->loc, .name = user->name};
  msc_attr shape = msc_fact_shape(z->pass->ctx, (size_t)v->type->rank, v->type->dim);
  msc_op *copy = msc_build_with(&b, OP_broadcast_to, 1, &v, 1, 1, &shape);
  MSC_TRY(copy);
  const msc_type *whole = v->def ? v->whole : msc_mesh_size(z->mesh) > 1 ? global_of(z, v) : NULL;
  copy->out[0].whole = whole && whole->layout ? whole : NULL;
  msc_set_operand(user, i, &copy->out[0]);
  return true;
}

/* Copies constants that collectives read into memory that other ranks can read. */
static bool copy_constants(const localizing *z) {
  for (msc_op *op = z->f->body->first; op; op = op->next)
    for (size_t i = 0; op->kind == OP_comm && i < op->num_in; i++)
      if (msc_is_constant(op->in[i].value)) MSC_TRY(copy_operand(z, op, i));
  return true;
}

/* Copies results that lie in a constant, in another argument than the one they are the new value of, or in an argument
 * that gets a new value: they must still be there when arguments get their new values. */
static bool copy_results(const localizing *z) {
  msc_op *ret = z->f->body->last;
  bool *replaced = msc_new_array(z->pass->scratch, bool, z->f->body->num_args);
  for (size_t i = 0; i < ret->num_in; i++)
    if (msc_tied_argument(z->f, i) >= 0) replaced[msc_tied_argument(z->f, i)] = true;
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_value *v = ret->in[i].value, *root = msc_memory_of(v).root;
    int64_t to = msc_tied_argument(z->f, i);
    bool moves =
        to >= 0 ? msc_is_constant(v) || (!root->def && root->index != to) : !root->def && replaced[root->index];
    if (moves) MSC_TRY(copy_operand(z, ret, i));
  }
  return true;
}

/* Records for check_layouts the whole that every result is a part of. */
static void record_wholes(const localizing *z) {
  for (msc_op *op = msc_mesh_size(z->mesh) > 1 ? z->f->body->first : NULL; op; op = op->next)
    for (size_t i = 0; i < op->num_out; i++)
      if (global_of(z, &op->out[i])->layout) op->out[i].whole = global_of(z, &op->out[i]);
}

static bool localize_func(msc_pass_ctx *pass, msc_func *f) {
  localizing z = {
      .pass = pass, .f = f, .mesh = &f->module->mesh, .deterministic = msc_is_deterministic(f->module, pass->config)};
  msc_numbering n = msc_number(f->body);
  z.num_values = n.num_values;
  /* room for the results of comms: one for every result, and four in front of windows over two operands */
  z.global = msc_new_array(pass->scratch, const msc_type *, 2 * n.num_values + 4 * n.num_ops);
  z.starts = msc_new_array(pass->scratch, msc_attr_value, n.num_ops * MSC_MAX_RANK);
  localize_types(&z);
  record_results(&z);
  bool ok = true;
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    drop_layout_choices(op);
    bool moves = (msc_info(op)->flags & MSC_COLLECTIVE && !msc_is_message(op)) || op->kind == OP_shard;
    if (moves) localize_collective(&z, op);
    else ok &= set_place_from_layout(&z, op), localize_op(&z, op);
  }
  if (z.num_starts) msc_func_put(f, msc_fact_starts(msc_list(pass->ctx, z.num_starts, z.starts)));
  record_wholes(&z);
  return ok && copy_constants(&z) && copy_results(&z);
}

bool pass_localize(msc_pass_ctx *pass, msc_module *m) {
  bool ok = true;
  for (msc_func *f = m->first; f; f = f->next) ok &= localize_func(pass, f);
  return ok;
}
