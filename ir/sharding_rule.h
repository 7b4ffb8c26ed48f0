/* sharding_rule.h: an op in; its rule, the letters of its tensors' dimensions, out.  A rule and cuts of its letters in;
 * the tensors' layouts out. */
#ifndef MSC_IR_SHARDING_RULE_H
#define MSC_IR_SHARDING_RULE_H

#include "ir/op.h"

enum { MSC_MAX_LETTERS = 24 }; /* of one rule */

typedef enum { MSC_PAR, MSC_RED, MSC_REP } msc_letter_role;

typedef struct {
  char name;      /* as in the rule text; letters made by '*' are A, B, C ... */
  uint8_t role;   /* msc_letter_role */
  uint8_t reduction;
  bool expands;   /* when it is cut, the op is replaced by its expansion */
  bool halo;      /* parts need elements of their neighbours: they are equal, and no smaller than `least` */
  int64_t size, least;
} msc_letter;

typedef struct {
  uint8_t num;
  /* major first; (ij) is {2, {i, j}}: a reshape merges no more than there are dimensions */
  uint8_t letter[MSC_MAX_RANK];
  uint32_t num_split;           /* with split: the parts it is cut into, if at all */
  const int64_t *split;         /* chosen borders of its parts (msc_split_of), or NULL */
} msc_dim_letters;

typedef struct {
  uint8_t rank;
  msc_dim_letters *dim; /* num 0: this dimension has no letter and is whole */
} msc_tensor_letters;

/* The rule of one op instance; its arrays are in the arena given to msc_rule_of.  Tensors: operands first, then
 * results. */
struct msc_rule {
  uint8_t num_letters;        /* in the order of the row's text; a star's are A, B ... by position */
  bool linear;                /* sum-partials may pass: see `joint` */
  bool joint;                 /* all linear operands partial, or none (add); else exactly one of them (matmul) */
  uint16_t num_in, num_tensors;
  uint32_t linear_in;         /* mask of linear operands */
  msc_letter *letter;
  msc_tensor_letters *tensor;
};

/* ---- rule.c ---- */

/* The rule of this op with its actual ranks and attributes, in `arena`.  An op without a rule gets REP letters. */
bool msc_rule_of(const msc_op *op, msc_arena *arena, msc_rule *out_rule);
/* The number of the letter with this name; -1: the rule has none. */
int msc_find_letter(const msc_rule *rule, char name);
/* "Amk,kn->Amn ; k:sum ; lin 0|1"; a dimension without letter is "." */
const char *msc_rule_print(msc_arena *arena, const msc_rule *rule);

/* ---- rule/digits.c ---- */

/* The cut of each letter of a rule, which gives the layouts of all tensors; `pass` are atoms over which operands of a
 * linear op are partial, and its result. */
typedef struct {
  uint8_t num[MSC_MAX_LETTERS];
  uint8_t atom[MSC_MAX_LETTERS][MSC_MAX_SUBAXES]; /* major first */
  uint32_t pass;                                  /* mask of atoms */
  uint8_t pass_in;                                /* the operand they are in, when the op is linear in each alone */
} msc_assignment;
const msc_layout *msc_rule_layout(msc_context *ctx, const msc_mesh *mesh, const msc_atoms *atoms, const msc_rule *rule,
                                  const msc_assignment *a, size_t tensor);
/* May this letter be cut into so many parts?  Each needs an element; parts of a halo letter are equal, and no smaller
 * than the elements that neighbours need of them. */
bool msc_letter_allows(const msc_letter *letter, int64_t parts);
/* May the letters be cut like this, each by itself and all together?  Parts need not be equal. */
bool msc_rule_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms);
/* msc_rule_divides: are the parts of this letter equal?  msc_rule_fills: does padding add an eighth of the letter at
 * most? */
bool msc_rule_divides(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);
bool msc_rule_fills(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);

/* ---- rule/work.c ---- */

/* The floating-point operations of an op, and the bytes that it reads and writes. */
typedef struct {
  double flops, bytes;
} msc_op_work;
/* Writes the size of each letter's largest part when letter l is cut into parts[l]; parts NULL: letters are whole. */
void msc_rule_sizes(const msc_rule *rule, const int64_t *parts, int64_t *out_size);
/* Returns the number of elements of a tensor whose letters have these sizes. */
double msc_rule_elems(const msc_tensor_letters *t, const msc_type *type, const int64_t *size);
/* The operations of a product whose letters have these sizes; other ops have none that count. */
double msc_rule_flops(const msc_op *op, const msc_rule *rule, const int64_t *size);
/* The operations of an op on operands of the sizes that their types have, and on one rank's parts of them, as layouts
 * cut them: those of products, also of attention in one call, and 0 for other ops. */
double msc_op_flops(const msc_op *op, msc_arena *arena);
double msc_rank_flops(const msc_op *op, msc_arena *arena);
/* The work of an op whose letters have these sizes. */
msc_op_work msc_rule_work(const msc_op *op, const msc_rule *rule, const int64_t *size);

/* ---- rule/check.c ---- */

/* The type check of an op whose tensors all carry layouts (none: nothing to check); reports with both tensors named. */
bool msc_rule_check(const msc_op *op, msc_arena *arena);
/* Why this verb cannot change `from` into `to`, or NULL: it can. */
const char *msc_relayout_wrong(const msc_mesh *mesh, const msc_type *t, msc_verb verb, const msc_layout *from,
                               const msc_layout *to);

#endif
