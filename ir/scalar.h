/* scalar.h: formulas of elements, as rows of op.def write them: "1 / (1 + exp(-a))".  a, b, c are the elements of the
 * operands; sums, products, numbers, and functions by the names of scalar.def. */
#ifndef MSC_IR_SCALAR_H
#define MSC_IR_SCALAR_H

#include "ir/ir.h"

typedef enum {
#define SCALAR(name, operands) SCALAR_##name,
#include "ir/scalar.def"
#undef SCALAR
  SCALAR_COUNT
} msc_scalar_code;

enum { MSC_FORMULA_OPERANDS = 3, MSC_FORMULA_STEPS = 40 };

/* One step; its operands are numbered: a, b, c, then the results of the steps before. */
typedef struct {
  msc_scalar_code code;
  int num_args;
  uint8_t arg[3];
  double number; /* of SCALAR_number */
} msc_scalar_step;

typedef struct msc_formula {
  bool is_choice; /* true if the formula depends on gelu's form */
  msc_gelu_form form;
  int num;
  msc_scalar_step step[MSC_FORMULA_STEPS]; /* the result of the last step is the element */
  const struct msc_formula *next;          /* for another choice */
} msc_formula;

/* Reads a row's formula; the text is the compiler's own, so a fault in it is an assertion. */
const msc_formula *msc_formula_read(msc_arena *arena, const char *text);
/* Returns the formula that op computes; NULL: its row has none. */
const msc_formula *msc_formula_of(const msc_op *op);

/* Builds the ops of a formula of the values a, b, c, one for each step in order of the text: msc_compute(b, "a *
 * exp(-b)", x, y).  Ops may be called by their names too, with the attributes' defaults: "a * rsqrt(b)".  Numbers have
 * a's element type.  NULL after a report, or when an operand is NULL. */
msc_value *msc_build_formula(msc_builder *b, const char *text, msc_value *const operand[MSC_FORMULA_OPERANDS]);
#define msc_compute(b, text, ...) msc_build_formula(b, text, (msc_value *[MSC_FORMULA_OPERANDS]){__VA_ARGS__})

#endif
