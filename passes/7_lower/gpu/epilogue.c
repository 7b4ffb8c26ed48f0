/* epilogue: a product that a GPU's library computes and the ops on its result -> one call, where the library can do
 * both:
 *
 *   cast(a^T b)                          a weight's gradient in f32
 *   a^T b, sums of a or b over its rows  sum_a or sum_b: a bias's gradient beside the weight's
 *   gelu(a b + bias)                     aux: the operand of gelu, if other ops read it
 *   a b * gelu'(x)                       slope
 *   select(y > 0, a b, 0)                slope; the product that computed y keeps a bit for each positive element
 *   a b + bias + c                       add, if c is in memory anyway
 *   select(first, a b, a b + sum)        add, unless it is the step's first micro-batch; not for rows that align.c
 *                                        widens
 *
 * A CPU's products are computed in tiles, and take any elementwise op without this pass (tile.c). */
#include <stdio.h>
#include <string.h>

#include "ir/gemm.h"
#include "ir/interp/interp.h"
#include "passes/7_lower/gpu/match_gradient.h"
#include "passes/config/config.h"
#include "passes/pass.h"

typedef struct {
  int64_t absorbed;
  bool is_numbered; /* the ops' numbers tell their order */
} absorber;

/* The library applies relu and gelu to single matrices whose number of columns is a multiple of 8. */
static bool takes_function(const msc_op *gemm) {
  const msc_type *y = gemm->out[0].type, *b = gemm->in[1].value->type;
  bool single = y->rank == 2 || (b->rank == 2 && !msc_op_bool(gemm, "transpose_a"));
  return single && y->dim[y->rank - 1] % 8 == 0 && msc_dtype_bytes(y->dtype) <= 4 && !msc_op_bool(gemm, "relu") &&
         !msc_op_bool(gemm, "gelu");
}

static bool has_no_epilogue(const msc_op *gemm) {
  return gemm->num_in == 2 && gemm->num_out == 1 && !msc_op_bool(gemm, "relu") && !msc_op_bool(gemm, "gelu");
}

static msc_op *any_user(const msc_value *v, msc_op_kind kind) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user->kind == kind) return u->user;
  return NULL;
}

/* ---- changing a gemm ---- */

static void add_word(msc_op *gemm, const char *attr, const char *old, msc_gemm_extra x) {
  char text[64];
  snprintf(text, sizeof text, "%s%s%s", old, *old ? " " : "", msc_gemm_word(x));
  msc_op_set(gemm, attr, msc_str(msc_op_ctx(gemm), text));
}

static size_t list_operands(const msc_op *gemm, msc_value **out_in) {
  for (size_t i = 0; i < gemm->num_in; i++) out_in[i] = gemm->in[i].value;
  return gemm->num_in;
}

static void add_operand(msc_op *gemm, msc_gemm_extra x, msc_value *v) {
  msc_value *in[8];
  size_t num = list_operands(gemm, in);
  in[num] = v;
  add_word(gemm, "takes", num > 2 ? msc_op_str(gemm, "takes") : "", x);
  msc_set_operands(gemm, num + 1, in);
}

/* Replaces the gemm by one with one more result, and with its number. */
static msc_op *add_gemm_result(msc_op *gemm, msc_gemm_extra x) {
  msc_value *in[8];
  size_t num = list_operands(gemm, in);
  msc_op *more = msc_op_new(gemm->block->func, OP_gemm, num, in, (size_t)gemm->num_out + 1, gemm->loc);
  more->name = gemm->name, more->id = gemm->id;
  for (size_t i = 0; i < gemm->num_attrs; i++) msc_op_set(more, gemm->attrs[i].name, gemm->attrs[i].value);
  add_word(more, "gives", "", x);
  msc_insert_before(gemm, more);
  more->out[0].type = gemm->out[0].type;
  msc_replace_uses(&gemm->out[0], &more->out[0]);
  msc_op_erase(gemm);
  return more;
}

/* Replaces op `old` by result i of the gemm.  False: an error was reported. */
static bool replace_by_result(absorber *z, msc_op *gemm, int i, msc_op *old) {
  MSC_TRY(msc_infer(gemm));
  msc_replace_uses(&old->out[0], &gemm->out[i]);
  msc_op_erase(old);
  z->absorbed++;
  return true;
}

static void move_before(msc_op *where, msc_op *op) {
  msc_op_unlink(op);
  msc_insert_before(where, op);
}

/* ---- a weight's gradient: sums over all rows ---- */

static bool absorb_cast_to_f32(absorber *z, msc_op *gemm) {
  msc_op *cast = msc_only_user(&gemm->out[0], OP_cast);
  if (!cast || !msc_op_bool(gemm, "transpose_a") || !has_no_epilogue(gemm) || cast->out[0].type->dtype != MSC_F32 ||
      msc_dtype_bytes(gemm->out[0].type->dtype) != 2)
    return true;
  msc_op_put(gemm, msc_dtype_attr(msc_op_ctx(gemm), MSC_F32));
  return replace_by_result(z, gemm, 0, cast);
}

/* A user of v that sums it over all dimensions but the last; NULL: there is none. */
static msc_op *find_row_sum(const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    int64_t dims[MSC_MAX_RANK];
    int num = u->user->kind == OP_reduce_sum && !msc_op_bool(u->user, "keep_dims")
                  ? msc_op_ints(u->user, "dims", dims, MSC_MAX_RANK)
                  : -1;
    for (int i = 0; i < num; i++)
      if (dims[i] == v->type->rank - 1) num = -1;
    if (num > 0 && num == v->type->rank - 1) return u->user;
  }
  return NULL;
}

/* The operand of the reshape that computes v, if it has the same columns; else v. */
static msc_value *skip_reshape(msc_value *v) {
  if (!v->def || v->def->kind != OP_reshape) return v;
  const msc_type *from = v->def->in[0].value->type;
  return from->rank && from->dim[from->rank - 1] == v->type->dim[v->type->rank - 1] ? v->def->in[0].value : v;
}

/* The sum of operand i over its rows, or the cast of it, in the type of the gemm's result; NULL: there is none. */
static msc_op *find_bias_gradient(const msc_op *gemm, size_t i) {
  msc_value *v = gemm->in[i].value;
  msc_op *sum = find_row_sum(v);
  if (!sum) sum = find_row_sum(skip_reshape(v));
  msc_op *cast = sum ? msc_only_user(&sum->out[0], OP_cast) : NULL, *last = cast ? cast : sum;
  return last && last->out[0].type->dtype == gemm->out[0].type->dtype ? last : NULL;
}

/* Moves the gemm and the reshapes of its operands in front of `where`.  False: an operand is computed later. */
static bool move_up_before(absorber *z, msc_op *gemm, msc_op *where) {
  if (!z->is_numbered) msc_number(gemm->block);
  z->is_numbered = true;
  if (gemm->id < where->id) return true;
  for (size_t i = 0; i < gemm->num_in; i++) {
    const msc_op *def = gemm->in[i].value->def, *source = def && def->kind == OP_reshape ? def->in[0].value->def : def;
    if (source && source->id >= where->id) return false;
  }
  for (size_t i = 0; i < gemm->num_in; i++) {
    msc_op *def = gemm->in[i].value->def;
    if (def && def->id >= where->id && (i == 0 || gemm->in[i].value != gemm->in[0].value)) move_before(where, def);
  }
  move_before(where, gemm);
  z->is_numbered = false;
  return true;
}

/* Absorbs the sum of b over its rows, or that of a.  b first: it is usually dy of x^T dy. */
static bool absorb_row_sum(absorber *z, msc_op *gemm) {
  const msc_type *y = gemm->out[0].type;
  if (!msc_op_bool(gemm, "transpose_a") || msc_op_bool(gemm, "transpose_b") || y->rank != 2 || !has_no_epilogue(gemm) ||
      msc_dtype_bytes(y->dtype) > 4)
    return true;
  for (int i = 1; i >= 0; i--) {
    msc_op *gradient = find_bias_gradient(gemm, (size_t)i);
    if (gradient && move_up_before(z, gemm, gradient))
      return replace_by_result(z, add_gemm_result(gemm, i ? MSC_GEMM_SUM_B : MSC_GEMM_SUM_A), 1, gradient);
  }
  return true;
}

/* ---- functions ---- */

static bool absorb_gelu(absorber *z, msc_op *gemm) {
  msc_op *gelu = any_user(&gemm->out[0], OP_gelu);
  if (!gelu || !takes_function(gemm) || gemm->num_out > 1 || msc_op_gelu_form(gelu) != MSC_GELU_TANH) return true;
  if (!msc_has_one_use(&gemm->out[0])) {
    gemm = add_gemm_result(gemm, MSC_GEMM_AUX);
    msc_replace_uses(&gemm->out[0], &gemm->out[1]);
  }
  msc_op_set(gemm, "gelu", msc_bool(true));
  return replace_by_result(z, gemm, 0, gelu);
}

/* Moves the gemm to `last`, which reads aux, and lets it compute `last`. */
static bool absorb_slope(absorber *z, msc_op *gemm, const char *function, msc_value *aux, msc_op *last) {
  msc_op_set(gemm, function, msc_bool(true));
  msc_op_set(gemm, "slope", msc_bool(true));
  add_operand(gemm, MSC_GEMM_AUX, aux);
  move_before(last, gemm);
  return replace_by_result(z, gemm, 0, last);
}

static bool absorb_gelu_slope(absorber *z, msc_op *gemm) {
  msc_gradient_match m;
  msc_op *last = msc_only_user(&gemm->out[0], OP_mul);
  msc_attr form = msc_gelu_form_attr(msc_op_ctx(gemm), MSC_GELU_TANH);
  if (!last || !takes_function(gemm) || !has_no_epilogue(gemm) ||
      !msc_match_gradient(last, &gemm->out[0], OP_gelu, &form, &m))
    return true;
  return m.x && m.x->type == gemm->out[0].type ? absorb_slope(z, gemm, "gelu", m.x, last) : true;
}

/* The bits that tell which elements of y are positive, if a product with relu computes y; else NULL. */
static msc_value *find_relu_bits(msc_value *y) {
  if (!y || y->index || !y->def || y->def->kind != OP_gemm || !msc_op_bool(y->def, "relu") ||
      msc_op_bool(y->def, "slope"))
    return NULL;
  msc_value *have = msc_gemm_result(y->def, MSC_GEMM_AUX);
  if (have) return have;
  const msc_type *b = y->def->in[1].value->type;
  if (y->def->num_out > 1 || (y->type->rank != 2 && (b->rank != 2 || msc_op_bool(y->def, "transpose_a")))) return NULL;
  msc_op *gemm = add_gemm_result(y->def, MSC_GEMM_AUX);
  return msc_infer(gemm) ? &gemm->out[1] : NULL;
}

static bool absorb_relu_slope(absorber *z, msc_op *gemm) {
  msc_gradient_match m;
  msc_op *last = msc_only_user(&gemm->out[0], OP_select);
  if (!last || !takes_function(gemm) || !has_no_epilogue(gemm) ||
      !msc_match_gradient(last, &gemm->out[0], OP_relu, NULL, &m))
    return true;
  msc_value *bits = m.y && m.y->type == gemm->out[0].type ? find_relu_bits(m.y) : NULL;
  return bits ? absorb_slope(z, gemm, "relu", bits, last) : true;
}

/* ---- sums ---- */

/* True if v is stored whatever its users are fused with. */
static bool is_stored_value(const msc_value *v) { return !v->def || v->def->kind == OP_gemm || !msc_has_one_use(v); }

static bool absorb_add(absorber *z, msc_op *gemm) {
  msc_op *add = msc_only_user(&gemm->out[0], OP_add);
  if (!add || gemm->num_out > 1 || msc_op_bool(gemm, "relu") || msc_op_bool(gemm, "gelu") ||
      msc_gemm_operand(gemm, MSC_GEMM_ADD))
    return true;
  msc_value *other = add->in[add->in[0].value == &gemm->out[0]].value;
  if (other == &gemm->out[0] || other->type != gemm->out[0].type || add->out[0].type != other->type ||
      !is_stored_value(other))
    return true;
  add_operand(gemm, MSC_GEMM_ADD, other);
  move_before(add, gemm);
  return replace_by_result(z, gemm, 0, add);
}

/* True if v says whether the micro-batch is the step's first, which the runtime knows. */
static bool is_first_of_step(const msc_func *f, const msc_value *v) {
  const msc_op *op = v->def;
  if (!op || op->kind != OP_compare || msc_op_predicate(op) != MSC_EQ) return false;
  const msc_value *number = op->in[0].value;
  return !number->def && msc_arg_role(f, number->index) == MSC_ROLE_MICRO && msc_is_splat(op->in[1].value, 0);
}

/* The argument `sum` of y = select(first, x, x + sum); NULL: y is another select. */
static msc_value *find_micro_batch_sum(const msc_op *select, const msc_value *x) {
  const msc_op *add = select->in[2].value->def;
  if (select->in[1].value != x || !add || add->kind != OP_add || !msc_has_one_use(&add->out[0])) return NULL;
  msc_value *sum = add->in[add->in[0].value == x].value;
  bool is_it = !sum->def && (add->in[0].value == x || add->in[1].value == x) && sum->type == x->type &&
               add->out[0].type == x->type;
  return is_it && is_first_of_step(select->block->func, select->in[0].value) ? sum : NULL;
}

/* Moves the compare, which reads arguments and a constant only, in front of all its users. */
static void move_first_compare_up(msc_op *compare) {
  move_before(compare->block->first, compare);
  move_before(compare, compare->in[1].value->def);
}

static bool absorb_sum(absorber *z, msc_op *gemm) {
  msc_op *select = any_user(&gemm->out[0], OP_select);
  size_t uses = 0;
  for (const msc_use *u = gemm->out[0].uses; u; u = u->next) uses++;
  msc_value *sum = select && uses == 2 && !msc_op_bool(gemm, "slope") && !msc_gemm_operand(gemm, MSC_GEMM_ADD)
                       ? find_micro_batch_sum(select, &gemm->out[0])
                       : NULL;
  if (!sum || msc_op_bool(gemm, "relu") || msc_op_bool(gemm, "gelu") || sum->type->dim[sum->type->rank - 1] % 8)
    return true;
  msc_op *add = select->in[2].value->def;
  add_operand(gemm, MSC_GEMM_ADD, sum);
  add_operand(gemm, MSC_GEMM_UNLESS, select->in[0].value);
  move_first_compare_up(select->in[0].value->def);
  msc_set_operand(select, 2, &gemm->out[0]);
  msc_op_erase(add);
  return replace_by_result(z, gemm, 0, select);
}

/* ---- the pass ---- */

/* Erases pure ops that nobody uses, such as operands of absorbed ops. */
static void erase_absorbed_ops(msc_func *f) {
  for (msc_op *op = f->body->last, *previous; op; op = previous) {
    previous = op->prev;
    if (msc_info(op)->flags & MSC_PURE && msc_is_unused(op)) msc_op_erase(op);
  }
}

typedef bool absorb_fn(absorber *z, msc_op *gemm);

/* Calls fn for every gemm of the library.  fn may replace that gemm and those after it. */
static bool absorb_into_all(msc_pass_ctx *pass, absorber *z, msc_func *f, absorb_fn *fn) {
  size_t num = 0;
  msc_op **gemm = msc_new_array(pass->scratch, msc_op *, msc_number(f->body).num_ops + 1);
  z->is_numbered = true;
  for (msc_op *op = f->body->first; op; op = op->next)
    if (op->kind == OP_gemm && !msc_op_bool(op, "generated")) gemm[num++] = op;
  for (size_t i = 0; i < num; i++) MSC_TRY(fn(z, gemm[i]));
  return true;
}

/* The order matters: each function sees the results of those before it. */
bool pass_epilogue(msc_pass_ctx *pass, msc_module *m) {
  static absorb_fn *const fns[] = {absorb_cast_to_f32, absorb_row_sum, absorb_gelu, absorb_gelu_slope,
                                   absorb_relu_slope,  absorb_add,     absorb_sum};
  absorber z = {0};
  if (!msc_config_bool(pass->config, MSC_KEY_library_epilogues)) return true;
  for (msc_func *f = m->first; f; f = f->next) {
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) MSC_TRY(absorb_into_all(pass, &z, f, fns[i]));
    erase_absorbed_ops(f);
  }
  msc_stat(pass, "ops absorbed", z.absorbed);
  return true;
}
