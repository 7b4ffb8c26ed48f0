/* pile: a sum of products over few rows each, a^T b, as a weight that many steps share has -> one product over the rows
 * of all.  The products' results, of which each is as large as the weight, are never made.  Sums of the rows of the
 * same a or b, as the gradient of a bias beside the weight is -> one sum over the rows of all, which are together
 * already.  What reads these rows step by step, as the gradients of an input's weight and bias do -> the same of the
 * rows of all, with the other operand of its product in their order.
 *
 * Row i of every a stands beside row i of the others, and so with b: a rank that has a part of the rows has a part of
 * the sum, in the order in which one rank adds. */
#include <string.h>

#include "ir/formula.h"
#include "passes/pass.h"

enum { LEAST = 4 }; /* products that are worth it */

/* The terms of a sum, and the adds that make it, the last one first. */
typedef struct {
  size_t num_terms, num_adds;
  msc_value **term;
  msc_op **add;
} terms;

static bool is_part_of_sum(const msc_op *op) {
  return op && op->kind == OP_add && msc_has_one_use(&op->out[0]) && op->out[0].uses->user->kind == OP_add &&
         op->out[0].uses->user->out[0].type == op->out[0].type;
}

static void list_terms(msc_arena *a, msc_op *last, terms *out) {
  msc_grow(a, out->add, out->num_adds);
  out->add[out->num_adds++] = last;
  for (size_t next = 0; next < out->num_adds; next++)
    for (size_t i = 0; i < 2; i++) {
      msc_value *v = out->add[next]->in[i].value;
      if (is_part_of_sum(v->def) && v->type == last->out[0].type) {
        msc_grow(a, out->add, out->num_adds);
        out->add[out->num_adds++] = v->def;
        continue;
      }
      msc_grow(a, out->term, out->num_terms);
      out->term[out->num_terms++] = v;
    }
}

/* True if the term is a product of a transposed matrix that only the sum reads, with few rows: copies of its operands
 * are smaller than its result. It counts the rows of all ranks, so that any number of ranks decides
 * alike. */
static bool is_small_product(const msc_value *v) {
  const msc_op *op = v->def;
  if (!op || op->kind != OP_matmul || !msc_op_bool(op, "transpose_a") || msc_op_bool(op, "transpose_b") ||
      !msc_has_one_use(v) || v->type->rank != 2)
    return false;
  int64_t rows = op->in[0].value->type->dim[0], m = v->type->dim[0], n = v->type->dim[1];
  const msc_layout *l = v->whole ? v->whole->layout : NULL; /* partial: each rank sums its own rows */
  if (l) rows *= msc_group_size(l->num_partial, l->sub + l->first[l->rank]);
  return rows > 0 && rows < m * n / (m + n);
}

static bool are_alike(const msc_value *x, const msc_value *y) {
  const msc_op *a = x->def, *b = y->def;
  return a->in[0].value->type == b->in[0].value->type && a->in[1].value->type == b->in[1].value->type &&
         x->type == y->type && msc_op_int(a, MSC_FACT(blocks)) == msc_op_int(b, MSC_FACT(blocks));
}

/* Operands i of all products, row beside row. */
static msc_value *pile_up(msc_arena *a, msc_builder *b, size_t num, msc_op *const *product, size_t i) {
  msc_value **x = msc_new_array(a, msc_value *, num);
  const msc_type *t = product[0]->in[i].value->type;
  for (size_t k = 0; k < num; k++) x[k] = product[k]->in[i].value;
  return reshape(b, join_along(b, 1, num, x), 2, (int64_t[]){t->dim[0] * (int64_t)num, t->dim[1]});
}

static bool joins_steps(const msc_op *op, size_t num) {
  return op->kind == OP_concat && !msc_op_int(op, "dim") && op->num_in == num;
}

/* Returns the concat of `num` steps, of which v, or its reshape to a step [1, ...], is one; NULL: there is none. */
static msc_op *find_steps(const msc_value *v, size_t num) {
  for (const msc_use *u = v->uses; u; u = u->next) {
    const msc_type *step = u->user->kind == OP_reshape ? u->user->out[0].type : NULL;
    if (joins_steps(u->user, num)) return u->user;
    if (!step || step->rank != v->type->rank + 1 || step->dim[0] != 1) continue;
    for (const msc_use *w = u->user->out[0].uses; w; w = w->next)
      if (joins_steps(w->user, num)) return w->user;
  }
  return NULL;
}

/* Returns the value [rows, columns] that is step k. */
static const msc_value *step_of(const msc_op *steps, size_t k) {
  const msc_value *v = steps->in[k].value;
  if (v->type->rank == 2) return v;
  return v->def && v->def->kind == OP_reshape ? v->def->in[0].value : NULL;
}

/* Puts products whose operands `side` are the steps of a concat in its order. */
static void order_as_steps(msc_arena *a, msc_op **product, size_t num, size_t side) {
  const msc_op *steps = find_steps(product[0]->in[side].value, num);
  msc_op **ordered = msc_new_array(a, msc_op *, num);
  if (!steps) return;
  memcpy(ordered, product, sizeof *ordered * num);
  for (size_t k = 0; k < num; k++) {
    size_t i = k;
    while (i < num && ordered[i]->in[side].value != step_of(steps, k)) i++;
    if (i == num) return;
    msc_op *found = ordered[i];
    ordered[i] = ordered[k], ordered[k] = found;
  }
  memcpy(product, ordered, sizeof *ordered * num);
}

/* Replaces the sum that ends in `last`; returns how many products became one; 0: the sum stays. */
static size_t pile_products(msc_arena *a, msc_op *last) {
  terms t = {0};
  list_terms(a, last, &t);
  msc_op **product = msc_new_array(a, msc_op *, t.num_terms);
  size_t num = 0, rest = 0;
  for (size_t i = t.num_terms; i-- > 0;) /* about as they were added */
    if (is_small_product(t.term[i]) && (!num || are_alike(t.term[i], &product[0]->out[0])))
      product[num++] = t.term[i]->def;
    else t.term[t.num_terms - ++rest] = t.term[i];
  if (num < LEAST) return 0;
  for (size_t side = 0; side < 2; side++) order_as_steps(a, product, num, side);
  msc_builder b = {
      .func = last->block->func, .block = last->block, .before = last, .loc = last->loc, .name = product[0]->name};
  msc_value *x = pile_up(a, &b, num, product, 0), *y = pile_up(a, &b, num, product, 1);
  msc_value *sum = matrix_product(&b, x, true, y, false);
  if (!sum) return 0;
  msc_op_copy_attr(sum->def, product[0], MSC_FACT(blocks));
  msc_op_copy_attr(sum->def, product[0], MSC_FACT(in_parts));
  for (size_t i = 0; i < rest && sum; i++) sum = plus(&b, sum, t.term[t.num_terms - 1 - i]);
  if (!sum) return 0;
  msc_replace_uses(&last->out[0], sum);
  for (size_t i = 0; i < t.num_adds; i++) msc_op_erase(t.add[i]);
  for (size_t i = 0; i < num; i++) msc_op_erase(product[i]);
  return num;
}

/* ---- sums of rows ---- */

static bool sums_rows(const msc_op *op) {
  int64_t dims[MSC_MAX_RANK];
  return op->kind == OP_reduce_sum && op->out[0].type->rank == 1 && op->in[0].value->type->rank == 2 &&
         msc_op_ints(op, "dims", dims, MSC_MAX_RANK) == 1 && !dims[0];
}

static bool is_sum_of_rows(const msc_value *v) { return v->def && msc_has_one_use(v) && sums_rows(v->def); }

/* Is it a concat as `pile_up` makes it, of which only a reshape to rows is read? */
static bool is_pile(const msc_op *op) {
  if (op->kind != OP_concat || msc_op_int(op, "dim") != 1 || op->num_in < LEAST || !msc_has_one_use(&op->out[0]))
    return false;
  const msc_op *rows = op->out[0].uses->user;
  return rows->kind == OP_reshape && rows->out[0].type->rank == 2 &&
         rows->out[0].type->dim[1] == op->in[0].value->type->dim[1];
}

/* The pile that v lies in; NULL: there is none. */
static msc_op *find_pile(const msc_value *v) {
  for (const msc_use *u = v->uses; u; u = u->next)
    if (is_pile(u->user)) return u->user;
  return NULL;
}

/* Finds, for each operand of a pile, a term that sums its rows; the others go to the end of t->term.  False: one has
 * none, or terms differ in their blocks. */
static bool match_terms(terms *t, const msc_op *pile) {
  for (size_t k = 0; k < pile->num_in; k++) {
    size_t i = k;
    while (i < t->num_terms && !(is_sum_of_rows(t->term[i]) && t->term[i]->def->in[0].value == pile->in[k].value)) i++;
    if (i == t->num_terms) return false;
    msc_value *found = t->term[i];
    t->term[i] = t->term[k], t->term[k] = found;
    if (msc_op_int(found->def, MSC_FACT(blocks)) != msc_op_int(t->term[0]->def, MSC_FACT(blocks))) return false;
  }
  return true;
}

/* Moves a pile and its reshape in front of `op` if they stand behind it, which their ids tell. The operands of the pile
 * must be computed before `op`. */
static void move_pile_before(msc_op *op, msc_op *pile) {
  msc_op *reshape = pile->out[0].uses->user;
  msc_op *const moved[2] = {pile, reshape};
  for (int i = 0; i < 2; i++) {
    if (moved[i]->id < op->id) continue;
    msc_op_unlink(moved[i]);
    msc_insert_before(op, moved[i]);
    moved[i]->id = op->id;
  }
}

/* Replaces the sum that ends in `last` if sums of the rows of a pile are among its terms; returns how many. */
static size_t sum_pile(msc_arena *a, msc_op *last) {
  terms t = {0};
  list_terms(a, last, &t);
  msc_op *pile = NULL;
  for (size_t i = 0; i < t.num_terms && !pile; i++)
    if (is_sum_of_rows(t.term[i])) pile = find_pile(t.term[i]->def->in[0].value);
  if (!pile || pile->block != last->block || !match_terms(&t, pile)) return 0;
  size_t num = pile->num_in;
  move_pile_before(last, pile);
  msc_builder b = {
      .func = last->block->func, .block = last->block, .before = last, .loc = last->loc, .name = t.term[0]->def->name};
  msc_value *sum = reduce(&b, OP_reduce_sum, &pile->out[0].uses->user->out[0], 1, (int64_t[]){0}, false);
  if (!sum) return 0;
  msc_op_copy_attr(sum->def, t.term[0]->def, MSC_FACT(blocks));
  for (size_t i = num; i < t.num_terms && sum; i++) sum = plus(&b, sum, t.term[i]);
  if (!sum) return 0;
  msc_replace_uses(&last->out[0], sum);
  for (size_t i = 0; i < t.num_adds; i++) msc_op_erase(t.add[i]);
  for (size_t i = 0; i < num; i++) msc_op_erase(t.term[i]->def);
  return num;
}

/* ---- what reads the rows step by step ---- */

/* The rows of a pile, the concat [steps, rows, columns] or [steps * rows, columns] that has them step by step, and the
 * blocks of sums over them. */
typedef struct {
  msc_op *pile, *steps;
  int64_t num, of_each; /* steps, rows of one */
  msc_value *rows;      /* [rows of a step * steps, columns] */
  int64_t blocks;
} piled_steps;

/* True if the pile has the steps of a concat in their order, and a product of its rows tells how they are summed. */
static bool find_piled_steps(msc_op *pile, piled_steps *out) {
  *out = (piled_steps){.pile = pile,
                       .steps = find_steps(pile->in[0].value, pile->num_in),
                       .num = (int64_t)pile->num_in,
                       .of_each = pile->in[0].value->type->dim[0]};
  for (size_t k = 0; out->steps && k < pile->num_in; k++)
    if (step_of(out->steps, k) != pile->in[k].value) return false;
  if (!out->steps || out->steps->out[0].type->rank > 3 || out->steps->block != pile->block) return false;
  out->rows = &pile->out[0].uses->user->out[0];
  for (const msc_use *u = out->rows->uses; u; u = u->next)
    if (u->user->kind == OP_matmul) out->blocks = msc_op_int(u->user, MSC_FACT(blocks));
  return out->blocks > 0;
}

static msc_builder builder_before(msc_op *op) {
  return (msc_builder){.func = op->block->func, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
}

/* Returns the sum of a pile's rows of this type; NULL: there is none. */
static msc_op *find_sum(const piled_steps *p, const msc_type *t) {
  for (const msc_use *u = p->rows->uses; u; u = u->next)
    if (sums_rows(u->user) && u->user->out[0].type == t && msc_op_int(u->user, MSC_FACT(blocks)) == p->blocks)
      return u->user;
  return NULL;
}

/* Replaces a sum over all rows of all steps, and that of the pile's rows if there is one, by one. */
static bool sum_rows(const piled_steps *p, msc_op *sum) {
  int64_t dims[MSC_MAX_RANK];
  int lead = p->steps->out[0].type->rank - 1, num = msc_op_ints(sum, "dims", dims, MSC_MAX_RANK);
  if (sum->out[0].type->rank != 1 || num != lead || (lead == 1 ? dims[0] : dims[0] + dims[1] - 1)) return true;
  msc_op *other = find_sum(p, sum->out[0].type);
  msc_value *all = other && other->id < sum->id ? &other->out[0] : NULL;
  if (!all) {
    move_pile_before(sum, p->pile);
    msc_builder b = builder_before(sum);
    all = reduce(&b, OP_reduce_sum, p->rows, 1, (int64_t[]){0}, false);
    if (!all) return false;
    msc_op_put(all->def, msc_fact_blocks(p->blocks));
    if (other) msc_replace_uses(&other->out[0], all), msc_op_erase(other);
  }
  msc_replace_uses(&sum->out[0], all);
  msc_op_erase(sum);
  return true;
}

/* What the steps [steps, rows, n], or their rows [steps * rows, n], are a transpose of, [rows, steps, n]; NULL: of
 * nothing. */
static msc_value *unturned(msc_value *x, const piled_steps *p) {
  static const int64_t swap[3] = {1, 0, 2};
  int64_t perm[MSC_MAX_RANK];
  const msc_value *whole = x->type->rank == 2 && x->def && x->def->kind == OP_reshape ? x->def->in[0].value : x;
  const msc_type *t = whole->type;
  const msc_op *turn = whole->def;
  bool is_turned = t->rank == 3 && t->dim[0] == p->num && t->dim[1] == p->of_each && turn &&
                   turn->kind == OP_transpose && msc_op_ints(turn, "perm", perm, MSC_MAX_RANK) == 3 &&
                   !memcmp(perm, swap, sizeof swap);
  return is_turned ? turn->in[0].value : NULL;
}

/* Returns steps, or their rows, as rows in the order of a pile. */
static msc_value *turn_rows(msc_builder *b, msc_value *x, const piled_steps *p) {
  int64_t n = x->type->dim[x->type->rank - 1], apart[3] = {p->num, p->of_each, n};
  msc_value *turned = unturned(x, p);
  if (!turned) turned = transpose(b, reshape(b, x, 3, apart), (int64_t[]){1, 0, 2});
  return turned ? reshape(b, turned, 2, (int64_t[]){apart[0] * apart[1], n}) : NULL;
}

/* True if the op is a^T b of all rows of steps, which an operand may still have step by step. */
static bool multiplies_rows(const msc_op *op) {
  if (op->kind == OP_matmul_weight_grad) return op->in[0].value->type->rank == 3;
  return op->kind == OP_matmul && msc_op_bool(op, "transpose_a") && !msc_op_bool(op, "transpose_b") &&
         op->in[0].value->type->rank == 2 && op->in[1].value->type->rank == 2;
}

/* Replaces a product a^T b of rows that lie step by step, `side` of its operands, by one of the pile's rows, unless
 * its other operand is larger and would have to be copied. */
static bool multiply_rows(const piled_steps *p, msc_op *product, size_t side) {
  if (!multiplies_rows(product)) return true;
  msc_value *x = product->in[1 - side].value;
  bool is_larger = x->type->dim[x->type->rank - 1] > p->rows->type->dim[1];
  if (x == product->in[side].value || (is_larger && !unturned(x, p))) return true;
  move_pile_before(product, p->pile);
  msc_builder b = builder_before(product);
  msc_value *turned = turn_rows(&b, x, p);
  msc_value *y = turned ? matrix_product(&b, side ? turned : p->rows, true, side ? p->rows : turned, false) : NULL;
  if (!y) return false;
  msc_op_put(y->def, msc_fact_blocks(p->blocks));
  msc_replace_uses(&product->out[0], y);
  msc_op_erase(product);
  return true;
}

static void erase_unused_steps(msc_arena *a, msc_op *steps) {
  size_t num = steps->num_in;
  msc_op **step = msc_new_array(a, msc_op *, num);
  for (size_t k = 0; k < num; k++) step[k] = steps->in[k].value->def;
  if (msc_has_uses(&steps->out[0])) return;
  msc_op_erase(steps);
  for (size_t k = 0; k < num; k++)
    if (step[k] && step[k]->kind == OP_reshape && !msc_has_uses(&step[k]->out[0])) msc_op_erase(step[k]);
}

/* Lists the ops that read v. */
static size_t list_readers(msc_arena *a, const msc_value *v, msc_op ***out) {
  size_t num = 0;
  *out = NULL;
  for (const msc_use *u = v->uses; u; u = u->next) {
    msc_grow(a, *out, num);
    (*out)[num++] = u->user;
  }
  return num;
}

/* Lets products of the steps' rows read the pile's. */
static bool multiply_all_rows(msc_arena *a, const piled_steps *p, msc_op *reshape) {
  msc_op **product;
  if (reshape->out[0].type != p->rows->type) return true;
  size_t num = list_readers(a, &reshape->out[0], &product);
  for (size_t i = 0; i < num; i++)
    MSC_TRY(multiply_rows(p, product[i], product[i]->in[1].value == &reshape->out[0]));
  if (!msc_has_uses(&reshape->out[0])) msc_op_erase(reshape);
  return true;
}

/* Lets sums and products of the steps' rows read the pile's, in all piles of a function. */
static bool read_piles(msc_arena *a, msc_func *f) {
  piled_steps p;
  msc_op **reader;
  msc_number(f->body);
  for (msc_op *op = f->body->last, *previous; op; op = previous) {
    previous = op->prev; /* from last to first: what moves, moves to the front */
    if (!is_pile(op) || !find_piled_steps(op, &p)) continue;
    size_t num = list_readers(a, &p.steps->out[0], &reader);
    for (size_t i = 0; i < num; i++) {
      if (reader[i]->kind == OP_reduce_sum) MSC_TRY(sum_rows(&p, reader[i]));
      else if (reader[i]->kind == OP_reshape) MSC_TRY(multiply_all_rows(a, &p, reader[i]));
      else MSC_TRY(multiply_rows(&p, reader[i], reader[i]->in[0].value != &p.steps->out[0]));
    }
    erase_unused_steps(a, p.steps);
  }
  return true;
}

/* Replaces sums of a function by `replace`; returns how many of their terms it replaced. */
static int64_t replace_sums(msc_pass_ctx *pass, msc_func *f, size_t (*replace)(msc_arena *a, msc_op *last)) {
  int64_t num = 0;
  msc_number(f->body);
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (op->kind == OP_add && !is_part_of_sum(op)) num += (int64_t)replace(pass->scratch, op);
  }
  return num;
}

bool pass_pile(msc_pass_ctx *pass, msc_module *m) {
  int64_t products = 0, sums = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    int64_t piled = replace_sums(pass, f, pile_products);
    products += piled;
    if (piled) sums += replace_sums(pass, f, sum_pile);
    if (piled) MSC_TRY(read_piles(pass->scratch, f));
  }
  msc_stat(pass, "products piled up", products);
  msc_stat(pass, "sums of rows piled up", sums);
  return true;
}
