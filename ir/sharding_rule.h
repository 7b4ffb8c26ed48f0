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
  bool expands;   /* if the letter is cut, the op is replaced by its expansion */
  bool halo;      /* counts windows, whose parts need elements of their neighbours' parts of x */
  int64_t size;
  int64_t over, stride; /* of windows: the elements of x that they slide over, and the distance of two of them */
} msc_letter;

typedef struct {
  uint8_t num;
  /* major first; (ij) is {2, {i, j}}: a reshape merges no more than there are dimensions */
  uint8_t letter[MSC_MAX_RANK];
  uint32_t num_split;           /* with `split`: the number of parts, if the letter is cut */
  const int64_t *split;         /* chosen borders of its parts (msc_split_of), or NULL */
} msc_dim_letters;

typedef struct {
  uint8_t rank;
  msc_dim_letters *dim; /* for each dimension its letters; num 0: none, the dimension is whole */
} msc_tensor_letters;

/* The rule of one op instance; its arrays are in the arena given to msc_rule_of.  Tensors: operands first, then
 * results. */
struct msc_rule {
  uint8_t num_letters;        /* in the order of the row's text; a star's are A, B ... by position */
  bool linear;                /* operands may be partial sums: see `joint` */
  bool joint;                 /* all linear operands are partial, or none is (add); else exactly one may be (matmul) */
  uint16_t num_in, num_tensors;
  uint32_t linear_in;         /* mask of linear operands */
  msc_letter *letter;
  msc_tensor_letters *tensor;
};

/* ---- rule.c ---- */

/* Computes the rule of this op with its actual ranks and attributes, in `arena`. The letters of an op without a rule
 * all have the role REP. */
bool msc_rule_of(const msc_op *op, msc_arena *arena, msc_rule *out_rule);
/* Returns the number of the letter with this name; -1: the rule has none. */
int msc_find_letter(const msc_rule *rule, char name);
/* Returns the rule as text, "Amk,kn->Amn ; k:sum ; lin 0|1"; a dimension without a letter is ".". */
const char *msc_rule_print(msc_arena *arena, const msc_rule *rule);

/* ---- rule/digits.c ---- */

/* How each letter of a rule is cut, from which the layouts of all tensors follow. `pass`: atoms over which the operands
 * of a linear op are partial, and therefore its result. */
typedef struct {
  uint8_t num[MSC_MAX_LETTERS];
  uint8_t atom[MSC_MAX_LETTERS][MSC_MAX_SUBAXES]; /* major first */
  uint32_t pass;                                  /* mask of atoms */
  uint8_t pass_in;                                /* the one partial operand, if the op is linear in each alone */
} msc_assignment;
const msc_layout *msc_rule_layout(msc_context *ctx, const msc_mesh *mesh, const msc_atoms *atoms, const msc_rule *rule,
                                  const msc_assignment *a, size_t tensor);
/* True if this letter may be cut into so many parts. There are enough elements for all; parts of what windows slide
 * over begin at multiples of their stride. */
bool msc_letter_allows(const msc_letter *letter, int64_t parts);
/* True if these digits may cut it, major first: into so many parts, and part i of windows, and of what they slide over,
 * begins at i times the size of the first. Parts that are not equal do if the digits are neighbours on one axis;
 * another digit would cut the parts of those before it. */
bool msc_letter_allows_digits(const msc_letter *letter, int num, const msc_subaxis *s);
/* True if the letters may be cut like this, each by itself and all together. Parts need not be equal. */
bool msc_rule_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms);
/* msc_rule_divides is true if the parts of this letter are equal; msc_rule_fills, if padding adds at most an eighth of
 * the letter. */
bool msc_rule_divides(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);
bool msc_rule_fills(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter);

/* ---- rule/work.c ---- */

/* The floating-point operations of an op, and the bytes that it reads and writes. */
typedef struct {
  double flops, bytes;
} msc_op_work;
/* Writes the size of each letter's largest part when letter l is cut into parts[l]; parts NULL: letters are whole. */
void msc_rule_sizes(const msc_rule *rule, const int64_t *parts, int64_t *out_size);
/* Returns the number of elements of a tensor of the rule, of this type, when letters have these sizes. */
double msc_rule_elems(const msc_rule *rule, size_t tensor, const msc_type *type, const int64_t *size);
/* Returns the operations of a product whose letters have these sizes; 0 for other ops. */
double msc_rule_flops(const msc_op *op, const msc_rule *rule, const int64_t *size);
/* The first returns the operations of an op with operands of the sizes that their types have; the second those on one
 * rank's parts of them, as layouts cut them. Only products count, also those of attention in one call; other ops have
 * 0. */
double msc_op_flops(const msc_op *op, msc_arena *arena);
double msc_rank_flops(const msc_op *op, msc_arena *arena);
/* Returns the work of an op whose letters have these sizes. */
msc_op_work msc_rule_work(const msc_op *op, const msc_rule *rule, const int64_t *size);

/* ---- rule/check.c ---- */

/* Checks an op whose tensors all carry layouts against its rule (without layouts there is nothing to check); reports
 * name both tensors. */
bool msc_rule_check(const msc_op *op, msc_arena *arena);
/* Returns why this verb cannot change `from` into `to`; NULL: it can. */
const char *msc_relayout_wrong(const msc_mesh *mesh, const msc_type *t, msc_verb verb, const msc_layout *from,
                               const msc_layout *to);

#endif
