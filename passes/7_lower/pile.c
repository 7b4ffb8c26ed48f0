/* pile: a sum of products over few rows each, a^T b, as a weight that many steps share has -> one product over the rows
 * of all.  The products' results, of which each is as large as the weight, are never made.  Sums of the rows of the
 * same a or b, as the gradient of a bias beside the weight is -> one sum over the rows of all, which are together
 * already.
 *
 * Row i of every a stands beside row i of the others, and so with b: a rank that has a part of the rows has a part of
 * the sum, in the order in which one rank adds. */
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
 * are smaller than its result. */
static bool is_small_product(const msc_value *v) {
  const msc_op *op = v->def;
  if (!op || op->kind != OP_matmul || !msc_op_bool(op, "transpose_a") || msc_op_bool(op, "transpose_b") ||
      !msc_has_one_use(v) || v->type->rank != 2)
    return false;
  int64_t rows = op->in[0].value->type->dim[0], m = v->type->dim[0], n = v->type->dim[1];
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
  msc_builder b = {
      .func = last->block->func, .block = last->block, .before = last, .loc = last->loc, .name = product[0]->name};
  msc_value *x = pile_up(a, &b, num, product, 0), *y = pile_up(a, &b, num, product, 1);
  msc_value *sum = matrix_product(&b, x, true, y, false);
  if (!sum) return 0;
  msc_op_copy_attr(sum->def, product[0], MSC_FACT(blocks));
  for (size_t i = 0; i < rest && sum; i++) sum = plus(&b, sum, t.term[t.num_terms - 1 - i]);
  if (!sum) return 0;
  msc_replace_uses(&last->out[0], sum);
  for (size_t i = 0; i < t.num_adds; i++) msc_op_erase(t.add[i]);
  for (size_t i = 0; i < num; i++) msc_op_erase(product[i]);
  return num;
}

/* ---- sums of rows ---- */

static bool is_sum_of_rows(const msc_value *v) {
  int64_t dims[MSC_MAX_RANK];
  const msc_op *op = v->def;
  return op && op->kind == OP_reduce_sum && msc_has_one_use(v) && v->type->rank == 1 &&
         op->in[0].value->type->rank == 2 && msc_op_ints(op, "dims", dims, MSC_MAX_RANK) == 1 && !dims[0];
}

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
  }
  msc_stat(pass, "products piled up", products);
  msc_stat(pass, "sums of rows piled up", sums);
  return true;
}
