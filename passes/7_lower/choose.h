/* choose.h: who computes an op, of the list in kernel.def. */
#ifndef MSC_PASSES_CHOOSE_H
#define MSC_PASSES_CHOOSE_H

#include "passes/7_lower/target.h"
#include "passes/pass.h"

typedef enum {
  MSC_BY_PRODUCT,
  MSC_BY_LIBRARY,
  MSC_BY_KERNEL,
  MSC_BY_BUILTIN,
  MSC_BY_COLLECTIVE,
  MSC_BY_ALIAS
} msc_choice;

typedef struct {
  msc_choice by;
  const char *declined; /* "library: f64 is not among its types": who declined before, or "" */
} msc_chosen;

/* Who there is to choose from. */
typedef struct {
  const msc_target *target;
  int level;                    /* x86-64 level of a CPU, see codegen/cpu.def; 1: any */
  bool attention, convolution;  /* a GPU's library may compute them */
} msc_choices;

/* As the configuration says. */
msc_choices msc_choices_of(const msc_pass_ctx *pass, const msc_module *m);
/* First implementation of the op's list in kernel.def for this target that does not decline. */
msc_chosen msc_choose(msc_arena *arena, const msc_op *op, const msc_choices *choices);
/* Does kernel.def have a row of this kind for the op on this target, whatever it may decline? */
bool msc_has_kernel(const msc_target *target, msc_op_kind op, msc_choice by);

/* ---- widen.c ---- */

/* A product without layouts: where the target widens products, its elements are f16 or bf16 and f32 has something faster
 * than a generated kernel, it is replaced by a product with a result in f32, cast for who wants it narrow, which is
 * returned; else the op itself. */
msc_op *msc_widened(msc_arena *arena, msc_op *op, const msc_choices *choices);

#endif
