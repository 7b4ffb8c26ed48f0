/* portion: large scores and the loss and gradients computed from them -> the same for one portion of the batch after
 * another, so that the scores of only one portion are in memory, where all of them do not fit beside the rest.
 *
 *   y = x w,  loss and dy of y,  dx = dy w^T,  dw = x^T dy
 *
 * becomes y_i, loss_i, dy_i, dx_i and dw_i for every portion of the first dimension of x and the labels.  loss is
 * the sum of loss_i, dx the concatenation of dx_i, and the product that computes dw_i adds dw_(i-1).  Portions have
 * enough rows to keep a GPU as busy as before. */
#include <string.h>

#include "ir/alias.h"
#include "ir/formula.h"
#include "ir/gemm.h"
#include "passes/check.h"
#include "passes/config/config.h"
#include "passes/pass.h"

enum { MOST_OPS = 64, MOST_PORTIONS = 8, LEAST_ROWS = 4096, WORTHWHILE = 256 << 20 /* bytes */ };

typedef enum { ROWS /* of one portion */, LOSS, DX, DW } result_kind;

typedef struct {
  msc_builder b;
  int num, portions;
  msc_op *op[MOST_OPS]; /* in program order; the first is the product that computes the scores */
  result_kind kind[MOST_OPS];
  msc_value *total[MOST_OPS][MOST_PORTIONS]; /* LOSS, DW: the sum so far; DX: every portion's */
  msc_value *beside[MOST_OPS];               /* DW: the sums of dy's rows so far */
} portioning;

static int index_of_op(const portioning *z, const msc_op *op) {
  for (int i = 0; i < z->num; i++)
    if (z->op[i] == op) return i;
  return -1;
}

/* True if each portion computes its own rows of v. */
static bool has_portions(const portioning *z, const msc_value *v) {
  int i = v->def ? index_of_op(z, v->def) : -1;
  return i >= 0 && z->kind[i] == ROWS;
}

/* ---- users of scores ---- */

static bool keeps_columns(const msc_op *op) {
  const msc_type *x = op->in[0].value->type, *y = op->out[0].type;
  return op->kind == OP_reshape && x->rank && y->rank && x->dim[x->rank - 1] == y->dim[y->rank - 1];
}

static bool scales_or_casts(const msc_op *op) {
  return op->kind == OP_cast || op->kind == OP_select || op->kind == OP_mul;
}

/* True for an elementwise op whose other operands are single numbers or one row. */
static bool is_elementwise(const portioning *z, const msc_op *op) {
  if (!scales_or_casts(op)) return false;
  for (size_t i = 0; i < op->num_in; i++)
    if (!has_portions(z, op->in[i].value) && op->in[i].value->type->rank > 1) return false;
  return true;
}

static bool classify_result(const portioning *z, const msc_op *op, result_kind *out_kind) {
  bool first = has_portions(z, op->in[0].value), by_rows = op->kind == OP_gemm && op->in[1].value->type->rank == 2;
  *out_kind = ROWS;
  if (msc_is_cross_entropy(op)) {
    *out_kind = op->kind == OP_softmax_cross_entropy ? LOSS : ROWS;
    return first && msc_op_attr(op, MSC_FACT(count));
  }
  if (!by_rows) return (first && keeps_columns(op)) || is_elementwise(z, op);
  bool sums = msc_op_bool(op, "transpose_a");
  *out_kind = sums ? DW : DX;
  if (!sums) return first && op->num_in == 2 && op->num_out == 1;
  bool adds = op->num_in == 2 || msc_gemm_operand(op, MSC_GEMM_ADD);
  return adds && first != has_portions(z, op->in[1].value) && !msc_op_bool(op, "transpose_b") &&
         !msc_gemm_result(op, MSC_GEMM_AUX);
}

/* Collects the ops computed from the product's scores.  False: there is no loss or gradient, or an op cannot be cut. */
static bool collect_users_of_scores(portioning *z, msc_op *product) {
  bool loss = false, gradient = false;
  z->num = 1, z->op[0] = product, z->kind[0] = ROWS;
  for (msc_op *op = product->next; op; op = op->next) {
    bool uses = false;
    for (size_t i = 0; i < op->num_in; i++) uses |= has_portions(z, op->in[i].value);
    if (!uses) continue;
    if (z->num == MOST_OPS || !op->num_out || !classify_result(z, op, &z->kind[z->num])) return false;
    loss |= z->kind[z->num] == LOSS, gradient |= z->kind[z->num] == DW;
    z->op[z->num++] = op;
  }
  return loss && gradient;
}

static msc_op *earliest_user(const msc_op *op, msc_op *than) {
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next)
      if (u->user->id < than->id) than = u->user;
  return than;
}

static bool has_rows(const portioning *z, const msc_op *op, int i, size_t operand) {
  if (i == 0) return operand == 0;
  return (msc_is_cross_entropy(op) && operand == 1) || (z->kind[i] == DW && operand < 2);
}

/* The value whose rows a portion slices for x or the labels: v, or what v is a reshape of, where that has rows
 * enough. */
static msc_value *whole_rows(const portioning *z, msc_value *v) {
  bool reshapes = v->def && v->def->kind == OP_reshape && v->def->in[0].value->type->dim[0] % z->portions == 0;
  return reshapes ? v->def->in[0].value : v;
}

/* The op that makes what the portions of operand k of op i are computed from; NULL: none that has to be waited for,
 * as of an argument, of a constant, which is copied, and of another op of the portions. */
static const msc_op *maker_of_operand(const portioning *z, int i, size_t k) {
  msc_value *v = z->op[i]->in[k].value;
  if (!v->def || index_of_op(z, v->def) >= 0 || msc_is_constant_op(v->def)) return NULL;
  return has_rows(z, z->op[i], i, k) ? whole_rows(z, v)->def : v->def;
}

/* The op in front of which all portions can stand: after their operands, except constants, and before the users of
 * their results.  NULL: there is none. */
static msc_op *find_insertion_point(portioning *z) {
  msc_op *place = z->b.block->last;
  for (int i = 0; i < z->num; i++) {
    if (z->kind[i] == ROWS) continue;
    place = earliest_user(z->op[i], place);
    if (z->kind[i] != LOSS && z->op[i]->id < place->id) place = z->op[i];
  }
  for (int i = 0; i < z->num; i++)
    for (size_t k = 0; k < z->op[i]->num_in; k++) {
      const msc_op *maker = maker_of_operand(z, i, k);
      if (maker && maker->id >= place->id) return NULL;
    }
  return place;
}

/* ---- portions ---- */

static msc_value *slice_portion(portioning *z, msc_value *v, int portion) {
  int64_t rows = v->type->dim[0] / z->portions;
  return part_of(&z->b, v, 0, portion * rows, (portion + 1) * rows);
}

static msc_value *reshape_portion(portioning *z, const msc_op *like, msc_value *x) {
  const msc_type *t = like->out[0].type;
  int64_t dim[MSC_MAX_RANK];
  memcpy(dim, t->dim, sizeof dim);
  dim[0] /= z->portions;
  return reshape(&z->b, x, t->rank, dim);
}

/* One portion of a value that is computed whole: x or the labels. */
static msc_value *take_portion(portioning *z, msc_value *v, int portion) {
  msc_value *rows = whole_rows(z, v), *slice = slice_portion(z, rows, portion);
  return rows == v ? slice : reshape_portion(z, v->def, slice);
}

/* Copies a constant to the insertion point, because the constant itself may stand behind that. */
static msc_value *copy_constant(portioning *z, msc_value *v) {
  msc_op *copy = msc_op_copy(z->b.func, v->def, NULL);
  msc_insert_before(z->b.before, copy);
  return &copy->out[0];
}

static msc_value *portion_operand(portioning *z, int i, size_t k, int portion, msc_value *const *made) {
  msc_value *v = z->op[i]->in[k].value;
  int at = v->def ? index_of_op(z, v->def) : -1;
  if (at >= 0) return made[at];
  if (has_rows(z, z->op[i], i, k)) return take_portion(z, v, portion);
  return msc_is_constant(v) ? copy_constant(z, v) : v;
}

/* Lets the product of a portion add the sum of the portions before it. */
static void add_to_last(portioning *z, msc_op *op, int i) {
  msc_value *in[3] = {op->in[0].value, op->in[1].value, z->total[i][0]};
  msc_set_operands(op, 3, in);
  msc_op_set(op, "takes", msc_str(z->b.func->module->ctx, msc_gemm_word(MSC_GEMM_ADD)));
}

static bool keep_total(portioning *z, int i, int portion, msc_op *op) {
  msc_value *v = &op->out[0];
  if (z->kind[i] == DX) z->total[i][portion] = v;
  if (z->kind[i] == LOSS) z->total[i][0] = portion ? plus(&z->b, z->total[i][0], v) : v;
  if (z->kind[i] == DW) z->total[i][0] = v;
  if (op->num_out > 1) z->beside[i] = portion ? plus(&z->b, z->beside[i], &op->out[1]) : &op->out[1];
  return z->total[i][0] || z->kind[i] == ROWS;
}

static bool make_portion(portioning *z, int portion) {
  msc_value *made[MOST_OPS], *in[8];
  for (int i = 0; i < z->num; i++) {
    const msc_op *old = z->op[i];
    z->b.loc = old->loc, z->b.name = old->name;
    if (old->kind == OP_reshape) {
      MSC_TRY(made[i] = reshape_portion(z, old, made[index_of_op(z, old->in[0].value->def)]));
      continue;
    }
    for (size_t k = 0; k < old->num_in; k++) MSC_TRY(in[k] = portion_operand(z, i, k, portion, made));
    msc_op *op = msc_op_copy(z->b.func, old, in);
    if (z->kind[i] == DW && portion) add_to_last(z, op, i);
    /* The rows of a portion are no part of a whole: portions of all ranks together are not rows in a row. */
    if (z->kind[i] == ROWS || z->kind[i] == DX) msc_forget_wholes(op);
    msc_insert_before(z->b.before, op);
    MSC_TRY(msc_infer(op) && keep_total(z, i, portion, op));
    made[i] = &op->out[0];
  }
  return true;
}

static bool replace_whole(portioning *z) {
  for (int i = 0; i < z->num; i++) {
    z->b.loc = z->op[i]->loc, z->b.name = z->op[i]->name;
    if (z->kind[i] == DX) MSC_TRY(z->total[i][0] = join_along(&z->b, 0, (size_t)z->portions, z->total[i]));
    if (z->kind[i] != ROWS) msc_replace_uses(&z->op[i]->out[0], z->total[i][0]);
    if (z->op[i]->num_out > 1) msc_replace_uses(&z->op[i]->out[1], z->beside[i]);
  }
  while (z->num) msc_op_erase(z->op[--z->num]);
  return true;
}

/* ---- the pass ---- */

static int64_t count_batch_rows(const msc_type *t) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < t->rank; d++) rows *= t->dim[d];
  return rows;
}

/* Bytes of v, if it has memory of its own. */
static int64_t own_bytes(const msc_value *v) { return msc_memory_of(v).root == v ? msc_type_bytes(v->type) : 0; }

static bool is_used_after(const msc_value *v, size_t id) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user->id > id) return true;
  return false;
}

/* In a numbered block: do scores and their gradient, as large as they are, fit beside the function's arguments and what
 * was computed before the scores and is needed after them?  An eighth of the memory is left for everything else. */
static bool scores_fit(const msc_pass_ctx *pass, const msc_op *op) {
  const msc_block *block = op->block;
  int64_t limit = msc_memory_limit(pass->config, msc_pass_cluster(pass)), need = 2 * msc_type_bytes(op->out[0].type);
  for (size_t i = 0; i < block->num_args; i++) need += msc_type_bytes(block->args[i]->type);
  for (const msc_op *before = block->first; before != op; before = before->next)
    for (size_t i = 0; i < before->num_out; i++)
      if (is_used_after(&before->out[i], op->id)) need += own_bytes(&before->out[i]);
  return need <= limit - limit / 8;
}

/* Numbers the block and returns, by op id: true if a cross entropy reads a result of the op, directly or through ops
 * that keep its rows. */
static bool *find_scores(msc_pass_ctx *pass, msc_block *block) {
  bool *scores = msc_new_array(pass->scratch, bool, msc_number(block).num_ops);
  for (msc_op *op = block->last; op; op = op->prev)
    for (size_t i = 0; i < op->num_out; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next)
        scores[op->id] |= msc_is_cross_entropy(u->user) ||
                          ((keeps_columns(u->user) || scales_or_casts(u->user)) && scores[u->user->id]);
  return scores;
}

/* The number of portions for the scores that op computes; 1: none. */
static int choose_num_portions(const msc_pass_ctx *pass, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  bool product = op->kind == OP_gemm && op->num_out == 1 &&
                 (op->num_in == 2 || (op->num_in == 3 && msc_gemm_operand(op, MSC_GEMM_BIAS))) && t->rank > 1 &&
                 !msc_op_bool(op, "transpose_a") && op->in[1].value->type->rank == 2 &&
                 op->in[0].value->type->rank == t->rank;
  int64_t asked = msc_config_int(pass->config, MSC_KEY_score_portions), num = asked ? asked : MOST_PORTIONS;
  if (!product || (!asked && (msc_type_bytes(t) < WORTHWHILE || scores_fit(pass, op)))) return 1;
  while (num > 1 && (t->dim[0] % num || (!asked && count_batch_rows(t) / num < LEAST_ROWS))) num--;
  return (int)num;
}

static bool portion_func(msc_pass_ctx *pass, msc_func *f, int64_t *count) {
  const bool *scores = find_scores(pass, f->body);
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!scores[op->id]) continue;
    portioning z = {.b = {.func = f, .block = f->body}, .portions = choose_num_portions(pass, op)};
    if (z.portions == 1 || !collect_users_of_scores(&z, op) || !(z.b.before = find_insertion_point(&z))) continue;
    next = z.op[z.num - 1]->next;
    for (int i = 0; i < z.portions; i++) MSC_TRY(make_portion(&z, i));
    *count += z.portions;
    MSC_TRY(replace_whole(&z));
    scores = find_scores(pass, f->body);
  }
  return true;
}

bool pass_portion(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(portion_func(pass, f, &num));
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "portions of scores", num);
  return true;
}
