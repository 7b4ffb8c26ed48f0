/* einsum.c: op einsum: an equation such as "bsd,df->bsf" and its operands in; shape, rule, gradient and expansion out.
 * A letter that operands have and the result lacks is summed; one that only the result has is an error. The expansion
 * multiplies two operands at a time from the left: each becomes [letters of both that stay, its own letters, summed
 * letters], or the last two groups exchanged if its dimensions have that order already; the product is a batch_matmul,
 * or a mul if nothing is summed.  A rule can cut any letter because the op is expanded when shapes are one rank's
 * (passes/7_lower/contract.c). */
#include <ctype.h>
#include <string.h>

#include "ir/formula.h"
#include "ir/grad/op_gradients.h"
#include "ir/op_table.h"
#include "ir/shape/shape.h"

/* The letters of one tensor's dimensions. */
typedef struct {
  int num;
  char letter[MSC_MAX_RANK + 1];
} term;

/* ---- the equation ---- */

static bool read_term(msc_op *op, const char **text, term *out) {
  out->num = 0;
  for (; **text && **text != ',' && **text != '-'; (*text)++) {
    if (**text == ' ') continue;
    if (!isalpha((unsigned char)**text))
      return shape_wrong(op, "equation \"%s\": '%c' is no letter", msc_op_str(op, "equation"), **text);
    if (out->num == MSC_MAX_RANK)
      return shape_wrong(op, "equation \"%s\": a tensor has more than %d letters", msc_op_str(op, "equation"),
                         MSC_MAX_RANK);
    out->letter[out->num++] = **text;
  }
  out->letter[out->num] = 0;
  return true;
}

/* Returns operand i's letters, or the result's if i is the number of operands. The shape function must have checked the
 * equation. */
static term term_of(const msc_op *op, size_t i) {
  const char *text = msc_op_str(op, "equation");
  term t = {0};
  for (size_t k = 0; k <= i; k++) {
    t.num = 0;
    for (; *text && *text != ',' && *text != '-'; text++)
      if (*text != ' ') t.letter[t.num++] = *text;
    text += *text == '-' ? 2 : *text == ',';
  }
  t.letter[t.num] = 0;
  return t;
}

static bool has_letter_of_term(const term *t, char letter) { return memchr(t->letter, letter, (size_t)t->num) != NULL; }

/* ---- shape ---- */

static bool check_term(msc_op *op, size_t i, const term *t, int64_t *size) {
  const msc_type *x = shape_in(op, i);
  MSC_TRY(shape_same_dtype(op, 0, i));
  if (x->rank != t->num)
    return shape_wrong(op, "operand %zu has rank %d and %d letters, \"%s\"", i, x->rank, t->num, t->letter);
  for (int d = 0; d < t->num; d++) {
    int64_t *known = &size[(int)t->letter[d]];
    if (*known >= 0 && *known != x->dim[d])
      return shape_wrong(op, "letter '%c' is %" D " before and %" D " in operand %zu", t->letter[d], *known, x->dim[d],
                         i);
    *known = x->dim[d];
  }
  return true;
}

static bool check_letters(msc_op *op, const char *equation) {
  bool seen[128] = {false};
  int num = 0;
  for (const char *p = equation; *p; p++)
    if (isalpha((unsigned char)*p) && !seen[(int)*p]) seen[(int)*p] = true, num++;
  return num <= MSC_MAX_LETTERS ||
         shape_wrong(op, "equation \"%s\" has more than %d letters", equation, MSC_MAX_LETTERS);
}

bool shape_einsum(msc_op *op) {
  const char *equation = msc_op_str(op, "equation"), *text = equation;
  int64_t size[128], dim[MSC_MAX_RANK];
  term t;
  memset(size, 0xff, sizeof size);
  if (!op->num_in) return shape_wrong(op, "needs at least one operand");
  MSC_TRY(shape_must_be_number(op, 0) && check_letters(op, equation));
  for (size_t i = 0; i < op->num_in; i++) {
    MSC_TRY(read_term(op, &text, &t) && check_term(op, i, &t, size));
    if (i + 1 < op->num_in && *text++ != ',')
      return shape_wrong(op, "equation \"%s\" has %zu operands, not %d", equation, i + 1, op->num_in);
  }
  if (strncmp(text, "->", 2))
    return shape_wrong(op, "equation \"%s\" needs -> behind the letters of %d operands", equation, op->num_in);
  text += 2;
  MSC_TRY(read_term(op, &text, &t));
  if (*text) return shape_wrong(op, "equation \"%s\" has more than one result", equation);
  for (int d = 0; d < t.num; d++) {
    if (size[(int)t.letter[d]] < 0) return shape_wrong(op, "letter '%c' of the result is in no operand", t.letter[d]);
    if (memchr(t.letter, t.letter[d], (size_t)d))
      return shape_wrong(op, "letter '%c' is twice in the result", t.letter[d]);
    dim[d] = size[(int)t.letter[d]];
  }
  return shape_set(op, 0, shape_in(op, 0)->dtype, t.num, dim);
}

/* ---- rule: the letters as they are written ---- */

static int letter_number(msc_rule *rule, char name, int64_t size) {
  int i = 0;
  while (i < rule->num_letters && rule->letter[i].name != name) i++;
  if (i == rule->num_letters)
    rule->letter[rule->num_letters++] = (msc_letter){.name = name, .role = MSC_RED, .reduction = MSC_SUM, .size = size};
  return i;
}

bool rule_einsum(const msc_op *op, msc_rule *rule) {
  for (size_t i = 0; i <= op->num_in; i++) {
    term t = term_of(op, i);
    const msc_type *type = i < op->num_in ? op->in[i].value->type : op->out[0].type;
    for (int d = 0; d < t.num; d++) {
      int l = letter_number(rule, t.letter[d], type->dim[d]);
      bool twice = memchr(t.letter, t.letter[d], (size_t)d) != NULL; /* a diagonal needs both dimensions whole */
      if (i == op->num_in && rule->letter[l].role == MSC_RED) rule->letter[l].role = MSC_PAR;
      if (twice) rule->letter[l].role = MSC_REP;
      rule->tensor[i].dim[d] = (msc_dim_letters){.num = 1, .letter = {(uint8_t)l}};
    }
  }
  rule->linear = true;
  rule->linear_in = op->num_in < 32 ? (1u << op->num_in) - 1 : UINT32_MAX;
  return true;
}

unsigned msc_einsum_summed(const msc_op *op) {
  term t = term_of(op, 0), with = term_of(op, 1), result = term_of(op, op->num_in);
  unsigned dims = 0;
  for (int d = 0; d < t.num && op->num_in == 2; d++)
    if (has_letter_of_term(&with, t.letter[d]) && !has_letter_of_term(&result, t.letter[d])) dims |= 1u << d;
  return dims;
}

/* ---- gradient: the equation with the result and the operand changed about ---- */

static char *put_term(char *at, const term *t) {
  memcpy(at, t->letter, (size_t)t->num);
  return at + t->num;
}

static bool is_elsewhere(const msc_op *op, size_t operand, char letter) {
  for (size_t i = 0; i <= op->num_in; i++) {
    term t = term_of(op, i);
    if (i != operand && has_letter_of_term(&t, letter)) return true;
  }
  return false;
}

/* Broadcasts the operand along the dimensions whose letters only other operands have. */
static msc_value *broadcast_to_letters(msc_builder *b, msc_value *v, const msc_type *like, const bool *is_own) {
  int64_t dim[MSC_MAX_RANK];
  for (int d = 0; d < like->rank; d++) dim[d] = is_own[d] ? 1 : like->dim[d];
  v = v ? reshape(b, v, like->rank, dim) : NULL;
  return v ? broadcast(b, v, like->rank, like->dim) : NULL;
}

static msc_value *grad_of_operand(msc_grad_ctx *g, const msc_op *op, size_t operand) {
  msc_context *ctx = formula_ctx(&g->b);
  term mine = term_of(op, operand), wanted = {0};
  bool is_own[MSC_MAX_RANK] = {false};
  msc_arena *arena = msc_context_arena(ctx);
  char *equation = msc_arena_alloc(arena, (op->num_in + 1) * (MSC_MAX_RANK + 2)), *at = equation;
  msc_value **in = msc_new_array(arena, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in;
       i++) { /* dy stands in operand i's place, so that the gradient has its order of letters */
    term t = term_of(op, i == operand ? op->num_in : i);
    if (i) *at++ = ',';
    at = put_term(at, &t);
    in[i] = i == operand ? g->dresult[0] : op->in[i].value;
  }
  for (int d = 0; d < mine.num; d++) {
    is_own[d] = !is_elsewhere(op, operand, mine.letter[d]);
    if (!is_own[d]) wanted.letter[wanted.num++] = mine.letter[d];
  }
  at = put_term(put_term(at, &(term){2, "->"}), &wanted);
  *at = 0;
  msc_attr attr = msc_named(ctx, "equation", msc_str(ctx, equation));
  return broadcast_to_letters(&g->b, with_attrs(&g->b, OP_einsum, op->num_in, in, 1, &attr),
                              op->in[operand].value->type, is_own);
}

bool grad_einsum(msc_grad_ctx *g, msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) {
    term t = term_of(op, i);
    for (int d = 1; d < t.num; d++)
      if (memchr(t.letter, t.letter[d], (size_t)d)) return grad_composite(g, op); /* of a diagonal */
  }
  for (size_t i = 0; i < op->num_in; i++)
    if (g->wanted[i] && !(g->doperand[i] = grad_of_operand(g, op, i))) return false;
  return true;
}

/* ---- expansion ---- */

/* A value and the letters of its dimensions. */
typedef struct {
  msc_value *v;
  term t;
} labelled_value;

static int place_of_letter(const term *t, char letter) {
  return (int)((const char *)memchr(t->letter, letter, (size_t)t->num) - t->letter);
}

static void drop_letter(term *t, int d) {
  memmove(t->letter + d, t->letter + d + 1, (size_t)(t->num - d));
  t->num--;
}

/* Takes the diagonal of two dimensions. */
static msc_value *diagonal(msc_builder *b, msc_value *x, int first, int second) {
  int64_t dim[MSC_MAX_RANK];
  msc_value *count[2];
  for (int k = 0; k < 2; k++) {
    for (int d = 0; d < x->type->rank; d++) dim[d] = d == (k ? second : first) ? x->type->dim[d] : 1;
    count[k] = count_up(b, MSC_I64, x->type->dim[first]);
    if (count[k]) count[k] = reshape(b, count[k], x->type->rank, dim);
    if (!count[k]) return NULL;
  }
  msc_value *kept = choose(b, compare(b, MSC_EQ, count[0], count[1]), x, number(b, x, 0));
  const int64_t gone = second;
  return kept ? sum_over(b, kept, 1, &gone, false) : NULL;
}

/* Sums over the letters that neither the result nor another operand has. */
static bool sum_own(msc_builder *b, labelled_value *x, const term *other, const bool *later) {
  int64_t dims[MSC_MAX_RANK];
  int num = 0;
  for (int d = 0; d < x->t.num; d++)
    for (int e = d + 1; e < x->t.num;) {
      if (x->t.letter[e] != x->t.letter[d]) {
        e++;
        continue;
      }
      MSC_TRY((x->v = diagonal(b, x->v, d, e)));
      drop_letter(&x->t, e);
    }
  for (int d = 0; d < x->t.num; d++)
    if (!later[(int)x->t.letter[d]] && !(other && has_letter_of_term(other, x->t.letter[d]))) dims[num++] = d;
  if (!num) return true;
  MSC_TRY((x->v = sum_over(b, x->v, num, dims, false)));
  while (num) drop_letter(&x->t, (int)dims[--num]);
  return true;
}

static msc_value *in_order(msc_builder *b, const labelled_value *x, const term *order) {
  int64_t perm[MSC_MAX_RANK];
  bool same = true;
  for (int d = 0; d < order->num; d++) perm[d] = place_of_letter(&x->t, order->letter[d]), same &= perm[d] == d;
  return same ? x->v : transpose(b, x->v, perm);
}

static void append_letter(term *t, char letter) {
  if (t->num < MSC_MAX_RANK) t->letter[t->num] = letter;
  t->letter[++t->num < MSC_MAX_RANK ? t->num : MSC_MAX_RANK] = 0;
}

static int64_t size_of_letter(const labelled_value *x, char letter) {
  return x->v->type->dim[place_of_letter(&x->t, letter)];
}

/* Reshapes x: the dimensions of `lead` stay, and those of each of the two groups are merged into one. */
static msc_value *merge_groups(msc_builder *b, const labelled_value *x, const term *lead, const term *first,
                               const term *second) {
  term order = *lead;
  int64_t dim[MSC_MAX_RANK + 2];
  const term *group[2] = {first, second};
  for (int d = 0; d < lead->num; d++) dim[d] = size_of_letter(x, lead->letter[d]);
  for (int g = 0; g < 2; g++) {
    dim[lead->num + g] = 1;
    for (int d = 0; d < group[g]->num; d++)
      append_letter(&order, group[g]->letter[d]), dim[lead->num + g] *= size_of_letter(x, group[g]->letter[d]);
  }
  msc_value *v = in_order(b, x, &order);
  return v ? reshape(b, v, lead->num + 2, dim) : NULL;
}

/* True if the term's letters are those of a, b and c, in this order. */
static bool is_in_order(const term *t, const term *a, const term *b, const term *c) {
  return t->num == a->num + b->num + c->num && !memcmp(t->letter, a->letter, (size_t)a->num) &&
         !memcmp(t->letter + a->num, b->letter, (size_t)b->num) &&
         !memcmp(t->letter + a->num + b->num, c->letter, (size_t)c->num);
}

/* Multiplies x and y and sums over their letters that are not in `later`, which are still needed. */
static bool join_labelled(msc_builder *b, labelled_value *x, labelled_value *y, const bool *later) {
  term both = {0}, summed = {0}, mine = {0}, theirs = {0}, all;
  int64_t dim[2 * MSC_MAX_RANK];
  MSC_TRY(sum_own(b, x, &y->t, later) && sum_own(b, y, &x->t, later));
  for (int d = 0; d < x->t.num; d++)
    append_letter(!has_letter_of_term(&y->t, x->t.letter[d]) ? &mine
                  : later[(int)x->t.letter[d]]               ? &both
                                                             : &summed,
                  x->t.letter[d]);
  for (int d = 0; d < y->t.num; d++)
    if (!has_letter_of_term(&x->t, y->t.letter[d])) append_letter(&theirs, y->t.letter[d]);
  all = both;
  for (int d = 0; d < mine.num; d++) append_letter(&all, mine.letter[d]);
  for (int d = 0; d < theirs.num; d++) append_letter(&all, theirs.letter[d]);
  if (all.num > MSC_MAX_RANK || both.num + 2 > MSC_MAX_RANK) {
    msc_error(b->func->module->ctx, MSC_E_UNSUPPORTED, b->loc,
              "einsum: a product on the way would have more than %d dimensions", MSC_MAX_RANK);
    return false;
  }
  for (int d = 0; d < all.num; d++)
    dim[d] = size_of_letter(has_letter_of_term(&x->t, all.letter[d]) ? x : y, all.letter[d]);
  bool is_x_transposed = summed.num && mine.num && is_in_order(&x->t, &both, &summed, &mine),
       is_y_transposed = summed.num && theirs.num && is_in_order(&y->t, &both, &theirs, &summed);
  msc_value *p =
      is_x_transposed ? merge_groups(b, x, &both, &summed, &mine) : merge_groups(b, x, &both, &mine, &summed);
  msc_value *q =
      is_y_transposed ? merge_groups(b, y, &both, &theirs, &summed) : merge_groups(b, y, &both, &summed, &theirs);
  if (!p || !q) return false;
  /* [both, mine, 1] and [both, 1, theirs] */
  msc_value *v = summed.num ? matrix_product(b, p, is_x_transposed, q, is_y_transposed) : times(b, p, q);
  *x = (labelled_value){v ? reshape(b, v, all.num, dim) : NULL, all};
  return x->v != NULL;
}

bool expand_einsum(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  labelled_value x = {in[0], term_of(op, 0)};
  term result = term_of(op, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) {
    bool later[128] = {false};
    for (size_t k = i + 1; k <= op->num_in; k++) {
      term t = term_of(op, k);
      for (int d = 0; d < t.num; d++) later[(int)t.letter[d]] = true;
    }
    labelled_value y = {in[i], term_of(op, i)};
    if (op->num_in == 1) MSC_TRY(sum_own(b, &x, NULL, later));
    else if (i) MSC_TRY(join_labelled(b, &x, &y, later));
  }
  out_result[0] = in_order(b, &x, &result);
  return out_result[0] != NULL;
}
