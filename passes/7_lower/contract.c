/* contract: einsum and products of groups, with one rank's shapes -> matrix products, and transposes where the order of
 * letters asks for them.
 *
 * A product takes each group of letters as one dimension.  In a whole tensor this would keep the minor letters of a
 * group from being cut; here every rank's part is a tensor of its own. */
#include "ir/formula.h"
#include "passes/check.h"
#include "passes/pass.h"

/* Gives the products of the expansion the op's blocks of sums, if it has some. */
static void copy_blocks_to_products(const msc_op *op, msc_func *expansion) {
  for (msc_op *o = expansion->body->first; o; o = o->next)
    if (msc_form_of(o) == MSC_FORM_PRODUCT) msc_op_copy_attr(o, op, MSC_FACT(blocks));
}

static bool is_product_result(const msc_value *v) { return v->def && msc_form_of(v->def) == MSC_FORM_PRODUCT; }

/* True if v has the shape of x's last dimensions and as many elements as a row of the product. */
static bool is_row_of_product(const msc_value *v, const msc_type *x, const msc_type *product) {
  const msc_type *t = v->type;
  bool fits = t->rank && t->rank <= x->rank && msc_type_elems(t) == product->dim[product->rank - 1];
  for (int d = 0; d < t->rank && fits; d++) fits = t->dim[d] == x->dim[x->rank - t->rank + d];
  return fits;
}

/* Moves the addition of a bias in front of the reshape of a product's columns, so that the implementation of the
 * product adds it too (library.c, epilogue.c). */
static bool add_bias_before_reshape(msc_op *split) {
  msc_value *product = split->in[0].value;
  if (split->kind != OP_reshape || !is_product_result(product) || !msc_has_one_use(product) ||
      !msc_has_one_use(&split->out[0]))
    return true;
  msc_op *sum = split->out[0].uses->user;
  if (sum->kind != OP_add) return true;
  msc_value *bias = sum->in[sum->in[0].value == &split->out[0]].value;
  if (sum->out[0].type != split->out[0].type || !is_row_of_product(bias, split->out[0].type, product->type))
    return true;
  msc_builder b = {.func = sum->block->func, .block = sum->block, .before = sum, .loc = sum->loc, .name = sum->name};
  msc_value *row = reshape(&b, bias, 1, &product->type->dim[product->type->rank - 1]);
  msc_value *whole = row ? plus(&b, product, row) : NULL;
  if (whole) msc_copy_marks(sum, whole->def);
  msc_value *back = whole ? reshape(&b, whole, sum->out[0].type->rank, sum->out[0].type->dim) : NULL;
  MSC_TRY(back);
  msc_replace_uses(&sum->out[0], back);
  msc_op_erase(sum);
  msc_op_erase(split);
  return true;
}

static bool contract_func(msc_pass_ctx *pass, msc_func *f) {
  for (msc_op *op = f->body->first, *next; op; op = next) {
    next = op->next;
    if (!msc_info(op)->facts.local) continue;
    msc_func *expansion = msc_expansion_of(op);
    MSC_TRY(expansion);
    copy_blocks_to_products(op, expansion);
    msc_expand_in_place(op, expansion);
    msc_stat(pass, "ops expanded", 1);
  }
  for (msc_op *op = f->body->last, *before; op; op = before) {
    before = op->prev;
    MSC_TRY(add_bias_before_reshape(op));
  }
  return true;
}

bool pass_contract(msc_pass_ctx *pass, msc_module *m) {
  for (msc_func *f = m->first; f; f = f->next) MSC_TRY(contract_func(pass, f));
  msc_record_reads(m);
  return true;
}
