/* choose.h: which implementation in kernel.def computes an op. */
#ifndef MSC_PASSES_CHOOSE_H
#define MSC_PASSES_CHOOSE_H

#include "passes/7_lower/target.h"
#include "passes/pass.h"

typedef enum {
  MSC_BY_PRODUCT,
  MSC_BY_LIBRARY,
  MSC_BY_WINDOWS,
  MSC_BY_BLOCKS,
  MSC_BY_KERNEL,
  MSC_BY_BUILTIN,
  MSC_BY_COLLECTIVE,
  MSC_BY_ALIAS
} msc_choice;

typedef struct {
  msc_choice by;
  const char *declined; /* "library: f64 is not among its types": the preferred ones and their reasons, or "" */
} msc_chosen;

/* What the choice depends on. */
typedef struct {
  const msc_target *target;
  int level;                    /* x86-64 level of a CPU, see codegen/cpu.def; 1: any */
  bool attention, convolution;  /* the configuration lets a GPU's library compute them */
} msc_choices;

/* The choices that configuration, machine and module allow. */
msc_choices msc_choices_of(const msc_pass_ctx *pass, const msc_module *m);
/* The first of the op's rows in kernel.def for this target that does not decline. */
msc_chosen msc_choose(msc_arena *arena, const msc_op *op, const msc_choices *choices);
/* Does kernel.def have a row of this kind for the op on this target, whatever it may decline? */
bool msc_has_kernel(const msc_target *target, msc_op_kind op, msc_choice by);

/* ---- widen.c ---- */

/* Replaces a product of f16 or bf16 by one with a result in f32, followed by a cast for users of the narrow one, and
 * returns it, if the target widens products and has something faster than a generated kernel for f32; else returns op.
 * The op has no layouts. */
msc_op *msc_widen_product(msc_arena *arena, msc_op *op, const msc_choices *choices);

#endif
