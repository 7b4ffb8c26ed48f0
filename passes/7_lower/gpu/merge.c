/* merge: the products that compute queries, keys and values from the same rows, for attention by a GPU's library -> one
 * product; likewise in the backward.
 *
 *   q = x a + i,  k = x b + j,  v = x c + l     y = x [a b c] + [i j l];  q, k, v are heads of y
 *   dx = dq a^T + dk b^T + dv c^T               dy = [dq dk dv], heads beside each other;  dx = dy [a b c]^T
 *   dx = r + dq a^T + dk b^T + dv c^T           dx = r + dy [a b c]^T;  r, of a residual, is added in whatever order
 *   da = x^T dq, the sum of dq over rows        columns of x^T dy, of the sum of dy
 *
 * The library reads and writes heads as parts of longer rows (views.c), so nothing is copied.  One product keeps a GPU
 * busier than three of a third of its size, and partial sums of dx do not go through memory. */

#include "ir/formula.h"
#include "ir/gemm.h"
#include "passes/7_lower/gpu/library.h"

enum { PARTS = 3 };

/* Queries, keys or values; heads are [b, s, h, e].  In the forward heads = reshape(gemm), and the attention reads a
 * transpose of them.  In the backward heads are the transpose of a gradient, rows = reshape(heads), and gemm, weight
 * and bias are computed from rows. */
typedef struct {
  msc_value *x, *heads, *rows;
  msc_op *gemm, *weight, *bias; /* bias: the sum over rows, or NULL */
} part;

typedef struct {
  msc_builder b;
  int num;
  part *part[PARTS];
  int64_t heads[PARTS], columns[PARTS];
  /* backward: the adds that sum all dx, in program order, and what they add besides, or NULL */
  int num_adds;
  msc_op *add[PARTS];
  msc_value *rest;
} merger;

static bool swaps_heads(const msc_op *op) {
  int64_t perm[MSC_MAX_RANK];
  return op->kind == OP_transpose && msc_op_ints(op, "perm", perm, MSC_MAX_RANK) == 4 && perm[0] == 0 && perm[1] == 2 &&
         perm[2] == 1;
}

/* A gemm of one result, a matrix as second operand and no function behind it. */
static bool is_plain_product(const msc_op *gemm) {
  return gemm->kind == OP_gemm && gemm->num_out == 1 && gemm->in[1].value->type->rank == 2 &&
         !msc_op_bool(gemm, "generated") && !msc_op_bool(gemm, "relu") && !msc_op_bool(gemm, "gelu");
}

static int64_t num_columns(const msc_value *v) { return v->type->dim[v->type->rank - 1]; }

static msc_value *operand_of_reshape(msc_value *v) {
  return v->def && v->def->kind == OP_reshape ? v->def->in[0].value : v;
}

/* Collects the parts from `first` on that are computed from the same rows and have heads of the same size. */
static void collect_like_parts(merger *z, part *all, const bool *found, int first) {
  const part *p = &all[first];
  z->num = 0;
  for (int i = first; i < PARTS; i++) {
    if (!found[i] || all[i].x != p->x) continue;
    const msc_type *t = all[i].heads->type, *like = p->heads->type;
    bool alike = t->dtype == like->dtype && t->dim[0] == like->dim[0] && t->dim[1] == like->dim[1] &&
                 t->dim[3] == like->dim[3] && all[i].gemm->num_in == p->gemm->num_in && !all[i].bias == !p->bias;
    if (!alike) continue;
    z->part[z->num] = &all[i];
    z->heads[z->num] = t->dim[2];
    z->columns[z->num++] = t->dim[2] * t->dim[3];
  }
}

static int64_t total_size(const merger *z, const int64_t *size) {
  int64_t sum = 0;
  for (int i = 0; i < z->num; i++) sum += size[i];
  return sum;
}

/* ---- building ---- */

static msc_value *swap_heads(merger *z, msc_value *heads) {
  return transpose(&z->b, heads, (const int64_t[]){0, 2, 1, 3});
}

/* Slices part i out of v, whose dimension `dim` has parts of these sizes. */
static msc_value *slice_own_part(merger *z, msc_value *v, int dim, const int64_t *size, int i) {
  int64_t start = 0;
  for (int k = 0; k < i; k++) start += size[k];
  return part_of(&z->b, v, dim, start, start + size[i]);
}

static msc_value *build_gemm(merger *z, const msc_op *like, size_t num, msc_value *const *in) {
  msc_op *gemm = msc_op_new(z->b.func, OP_gemm, num, in, 1, z->b.loc);
  for (size_t i = 0; i < like->num_attrs; i++) msc_op_set(gemm, like->attrs[i].name, like->attrs[i].value);
  gemm->name = z->b.name;
  msc_insert_before(z->b.before, gemm);
  return msc_infer(gemm) ? &gemm->out[0] : NULL;
}

static void build_before_op(merger *z, msc_op *before, const msc_op *like) {
  z->b.before = before, z->b.loc = like->loc, z->b.name = like->name;
}

static msc_op *later_op(msc_op *a, msc_op *b) { return !a || (b && b->id > a->id) ? b : a; }

/* Concatenates operand i of each part's gemm, or finds a concat of them that is there already. */
static msc_value *join_operands(merger *z, size_t i, int dim) {
  msc_value *v[PARTS];
  for (int k = 0; k < z->num; k++) v[k] = z->part[k]->gemm->in[i].value;
  for (const msc_use *u = v[0]->uses; u; u = u->next) {
    bool same = u->user->kind == OP_concat && u->user->num_in == z->num && msc_op_int(u->user, "dim") == dim;
    for (int k = 0; k < z->num && same; k++) same = u->user->in[k].value == v[k];
    if (same) return &u->user->out[0];
  }
  return join_along(&z->b, dim, (size_t)z->num, v);
}

/* ---- forward ---- */

/* Describes operand v of an attention in *p. False: v is not the result of a matrix product, its columns split into
 * heads, or other ops read that product, too. */
static bool find_source(const msc_value *v, part *p) {
  const msc_op *swap = v->def, *heads = swap && swaps_heads(swap) ? swap->in[0].value->def : NULL;
  if (!heads || heads->kind != OP_reshape || !msc_has_one_use(&heads->out[0])) return false;
  msc_op *gemm = heads->in[0].value->def;
  bool rows = gemm && is_plain_product(gemm) && !msc_op_bool(gemm, "transpose_a") &&
              !msc_op_bool(gemm, "transpose_b") && (gemm->num_in == 2 || msc_gemm_operand(gemm, MSC_GEMM_BIAS));
  if (!rows || gemm->num_in > 3 || !msc_has_one_use(&gemm->out[0])) return false;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (!msc_is_graph(u->user)) return false;
  *p = (part){.x = gemm->in[0].value, .heads = swap->in[0].value, .gemm = gemm};
  return p->heads->type->dim[2] * p->heads->type->dim[3] == num_columns(&gemm->out[0]);
}

static void erase_source(part *p) {
  msc_op *swap = p->heads->uses->user, *heads = p->heads->def;
  msc_op_erase(swap);
  msc_op_erase(heads);
  msc_op_erase(p->gemm);
}

static bool merge_forward(merger *z) {
  msc_op *last = NULL;
  for (int i = 0; i < z->num; i++) last = later_op(last, z->part[i]->gemm);
  build_before_op(z, last, z->part[0]->gemm);
  const msc_op *gemm = z->part[0]->gemm;
  const msc_type *t = z->part[0]->heads->type;
  msc_value *in[3] = {z->part[0]->x, join_operands(z, 1, 1), gemm->num_in > 2 ? join_operands(z, 2, 0) : NULL};
  MSC_TRY(in[1] && (gemm->num_in == 2 || in[2]));
  msc_value *heads = reshape(&z->b, build_gemm(z, gemm, gemm->num_in, in), 4,
                             (const int64_t[]){t->dim[0], t->dim[1], total_size(z, z->heads), t->dim[3]});
  for (int i = 0; i < z->num; i++) {
    msc_value *own = swap_heads(z, slice_own_part(z, heads, 2, z->heads, i));
    MSC_TRY(own);
    msc_replace_uses(&z->part[i]->heads->uses->user->out[0], own);
    erase_source(z->part[i]);
  }
  return true;
}

/* ---- backward ---- */

static bool sums_rows(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  int rank = op->in[0].value->type->rank, num = op->kind == OP_reduce_sum && !msc_op_bool(op, "keep_dims")
                                                    ? msc_op_ints(op, "dims", dims, MSC_MAX_RANK)
                                                    : -1;
  for (int i = 0; i < num; i++)
    if (dims[i] == rank - 1) return false;
  return num > 0 && num == rank - 1;
}

static bool is_gradient_of_parameter(const msc_op *op, const msc_value *dy) {
  return is_plain_product(op) && op->num_in == 2 && op->in[1].value == dy && op->in[0].value != dy &&
         msc_op_bool(op, "transpose_a") && !msc_op_bool(op, "transpose_b");
}

static bool is_data_gradient(const msc_op *op, const msc_value *dy) {
  return is_plain_product(op) && op->num_in == 2 && op->in[0].value == dy && !msc_op_bool(op, "transpose_a") &&
         msc_op_bool(op, "transpose_b");
}

static bool set_once(msc_op **place, msc_op *op) {
  bool first = !*place;
  *place = op;
  return first;
}

/* Notes an op that reads the rows of a gradient.  False: it is none of those that can be merged. */
static bool note_user(part *p, msc_op *op) {
  if (is_data_gradient(op, p->rows)) return set_once(&p->gemm, op);
  if (sums_rows(op)) return set_once(&p->bias, op);
  if (is_gradient_of_parameter(op, p->rows)) return set_once(&p->weight, op);
  msc_op *weight = op->kind == OP_reshape ? msc_only_user(&op->out[0], OP_gemm) : NULL;
  return weight && is_gradient_of_parameter(weight, &op->out[0]) && set_once(&p->weight, weight);
}

/* Describes result v of an attention's gradient if dx, dw and a sum over rows are computed from its rows; else
 * false. */
static bool find_gradient(const msc_value *v, part *p) {
  msc_op *swap = msc_only_user(v, OP_transpose),
         *rows = swap && swaps_heads(swap) ? msc_only_user(&swap->out[0], OP_reshape) : NULL;
  if (!rows) return false;
  *p = (part){.heads = &swap->out[0], .rows = &rows->out[0]};
  for (const msc_use *u = p->rows->uses; u; u = u->next)
    if (!note_user(p, u->user)) return false;
  if (!p->gemm || !p->weight) return false;
  p->x = operand_of_reshape(p->weight->in[0].value);
  if (p->x->def && p->x->def->id > v->def->id) return false; /* recomputed after the gradient */
  return p->heads->type->dim[2] * p->heads->type->dim[3] == num_columns(p->rows);
}

static msc_value *other_operand(const msc_op *add, const msc_value *v) {
  return add->in[add->in[0].value == v].value;
}

/* Returns the first op that adds two of the values, neither of which has another use; with `rest`, that adds any value
 * to one of them.  NULL: there is none. */
static msc_op *find_first_add(msc_value *const *v, int num, bool rest) {
  msc_op *first = NULL;
  for (int i = 0; i < num; i++) {
    msc_op *add = msc_only_user(v[i], OP_add);
    bool found = add && rest && other_operand(add, v[i])->type == v[i]->type;
    for (int k = 0; add && k < num && !found; k++) found = k != i && msc_only_user(v[k], OP_add) == add;
    if (found && (!first || add->id < first->id)) first = add;
  }
  return first;
}

/* Finds the adds that sum all dx, and one value besides.  False: they are not summed. */
static bool find_sum_of_data(merger *z) {
  msc_value *v[PARTS];
  int num = z->num;
  z->num_adds = 0, z->rest = NULL;
  for (int i = 0; i < num; i++) v[i] = &z->part[i]->gemm->out[0];
  while (num > 1) {
    msc_op *add = find_first_add(v, num, false);
    bool rest = !add && !z->rest && (add = find_first_add(v, num, true));
    int kept = 0;
    if (!add) return false;
    for (int i = 0; i < num; i++)
      if (msc_only_user(v[i], OP_add) != add) v[kept++] = v[i];
      else if (rest) z->rest = other_operand(add, v[i]);
    v[kept++] = &add->out[0];
    num = kept;
    z->add[z->num_adds++] = add;
  }
  return true;
}

static msc_value *reshape_to_rows(merger *z, msc_value *v, int64_t columns) {
  return reshape(&z->b, v, 2, (const int64_t[]){v && columns ? msc_type_elems(v->type) / columns : 0, columns});
}

static msc_op *find_first_user(const msc_value *v) {
  msc_op *first = v->uses->user;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (u->user->id < first->id) first = u->user;
  return first;
}

/* Replaces the op old(part) of each part by columns of `whole`, behind a cast if that is all that follows each.
 * Columns are sliced in front of their first use. */
static bool replace_by_columns(merger *z, msc_value *whole, msc_op *(*old)(part *p)) {
  const msc_op *cast = msc_only_user(&old(z->part[0])->out[0], OP_cast);
  for (int i = 1; i < z->num && cast; i++) {
    const msc_op *other = msc_only_user(&old(z->part[i])->out[0], OP_cast);
    if (!other || other->out[0].type->dtype != cast->out[0].type->dtype) cast = NULL;
  }
  if (cast) whole = with_attrs(&z->b, OP_cast, 1, &whole, cast->num_attrs, cast->attrs);
  msc_op *before = z->b.before;
  for (int i = 0; i < z->num; i++) {
    msc_op *op = old(z->part[i]), *last = cast ? op->out[0].uses->user : op;
    z->b.before = find_first_user(&last->out[0]);
    msc_value *own = slice_own_part(z, whole, whole ? whole->type->rank - 1 : 0, z->columns, i);
    MSC_TRY(own);
    own->def->name = last->name;
    msc_replace_uses(&last->out[0], own);
    if (last != op) msc_op_erase(last);
  }
  z->b.before = before;
  return true;
}

static msc_op *get_weight(part *p) { return p->weight; }
static msc_op *get_bias(part *p) { return p->bias; }

/* Merges dw and the sums over rows, at a place where dy and x are computed. */
static bool merge_parameters(merger *z, msc_value *rows) {
  const msc_op *weight = z->part[0]->weight, *bias = z->part[0]->bias;
  msc_value *x = weight->in[0].value,
            *in[2] = {x->def && x->def->kind == OP_reshape ? reshape(&z->b, operand_of_reshape(x), 2, x->type->dim) : x,
                      reshape_to_rows(z, rows, total_size(z, z->columns))};
  MSC_TRY(in[0] && in[1]);
  z->b.name = weight->name, z->b.loc = weight->loc;
  if (bias) {
    msc_value *sum = with_attrs(&z->b, OP_reduce_sum, 1, &rows, bias->num_attrs, bias->attrs);
    MSC_TRY(sum && replace_by_columns(z, sum, get_bias));
  }
  msc_value *whole = build_gemm(z, weight, 2, in);
  return whole && replace_by_columns(z, whole, get_weight);
}

static bool merge_data(merger *z, msc_value *rows) {
  msc_op *last = z->add[z->num_adds - 1];
  build_before_op(z, last, z->part[0]->gemm);
  msc_value *in[2] = {rows, join_operands(z, 1, 1)};
  msc_value *dx = in[1] ? build_gemm(z, z->part[0]->gemm, 2, in) : NULL;
  if (dx && z->rest) dx = plus(&z->b, z->rest, dx);
  MSC_TRY(dx);
  msc_replace_uses(&last->out[0], dx);
  while (z->num_adds) msc_op_erase(z->add[--z->num_adds]);
  return true;
}

static void erase_reshape(msc_value *v) {
  if (v->def && v->def->kind == OP_reshape && !msc_has_uses(v)) msc_op_erase(v->def);
}

static void erase_gradient(part *p) {
  msc_value *x = p->weight->in[0].value, *dy = p->weight->in[1].value;
  msc_op_erase(p->gemm);
  msc_op_erase(p->weight);
  if (p->bias) msc_op_erase(p->bias);
  erase_reshape(x);
  if (dy != p->rows) erase_reshape(dy);
  msc_op_erase(p->rows->def);
  msc_op_erase(p->heads->def);
}

static bool merge_backward(merger *z, msc_op *grad) {
  msc_value *heads[PARTS];
  const msc_type *t = z->part[0]->heads->type;
  int64_t dim[3] = {t->dim[0], t->dim[1], total_size(z, z->columns)};
  build_before_op(z, grad->next, grad);
  for (int i = 0; i < z->num; i++) MSC_TRY(heads[i] = swap_heads(z, z->part[i]->heads->def->in[0].value));
  msc_value *rows = join_along(&z->b, 2, (size_t)z->num, heads);
  if (rows) rows = z->part[0]->rows->type->rank == 2 ? reshape_to_rows(z, rows, dim[2]) : reshape(&z->b, rows, 3, dim);
  MSC_TRY(rows && merge_parameters(z, rows) && merge_data(z, rows));
  for (int i = 0; i < z->num; i++) erase_gradient(z->part[i]);
  return true;
}

/* ---- the pass ---- */

static bool merge_attention(merger *z, msc_op *op, bool backward, int64_t *count) {
  msc_number(op->block);
  part all[PARTS];
  bool found[PARTS];
  for (int i = 0; i < PARTS; i++)
    found[i] = backward ? find_gradient(&op->out[i], &all[i]) : find_source(op->in[i].value, &all[i]);
  for (int i = 0; i + 1 < PARTS; i++) {
    if (!found[i]) continue;
    collect_like_parts(z, all, found, i);
    if (z->num < 2 || (backward && !find_sum_of_data(z))) continue;
    for (int k = 0; k < z->num; k++) found[z->part[k] - all] = false;
    MSC_TRY(backward ? merge_backward(z, op) : merge_forward(z));
    *count += z->num;
  }
  return true;
}

bool pass_merge(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next)
    for (msc_op *op = f->body->first; op; op = op->next) {
      merger z = {.b = {.func = f, .block = f->body}};
      if (!msc_is_graph(op) || msc_form_of(op) != MSC_FORM_ATTENTION) continue;
      MSC_TRY(merge_attention(&z, op, op->kind == OP_flash_attention_grad, &num));
    }
  if (!num) return msc_not_asked_for(pass);
  msc_stat(pass, "products merged", num);
  return true;
}
