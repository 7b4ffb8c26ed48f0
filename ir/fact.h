/* fact.h: the rows of fact.def, for code that checks or lists facts. Names are in ir.h: MSC_FACT. */
#ifndef MSC_IR_FACT_H
#define MSC_IR_FACT_H

#include "ir/ir.h"

/* What a fact's value is, for messages.  Below ANY: the kinds of users' facts, which pass annotations checks. */
#define MSC_FACT_KINDS(X)                                     \
  X(INT, "an integer")                                        \
  X(FLOAT, "a float")                                         \
  X(NUMBER, "a number")                                       \
  X(BOOL, "a bool")                                           \
  X(FLAG, "a bool") /* in a model file: true, or not given */ \
  X(TEXT, "a string")                                         \
  X(INTS, "a list of integers")                               \
  X(TEXTS, "a list of strings")                               \
  X(LIST, "a list")                                           \
  X(DICT, "a dictionary")                                     \
  X(LAYOUT, "a layout")                                       \
  X(LAYOUTS, "a list of layouts")                             \
  X(DIGITS, "digits of mesh axes")                            \
  X(LETTERS, "a dictionary of digits of mesh axes")           \
  X(HOME, "device, cpu or disk")                              \
  X(ROLE, "a role")                                           \
  X(DECIDER, "user, default, propagation, search or copy")    \
  X(PROGRAM_KIND, "train, forward or prepare")                \
  X(SECTION_KIND, "F, B, W, U, P or FB")                      \
  X(SLOT_CLASS, "FB, FW or BW")                               \
  X(ANY, "a value")                                           \
  X(SPLITS, "a list of lists of integers")                    \
  X(FALSE_ONLY, "false")                                      \
  X(COUNT, "a number from 0 on")                              \
  X(GROUP, "a number of a group")                             \
  X(BYTES, "a number of bytes")                               \
  X(ROUND, "a number from 0 to 255")                          \
  X(STAGE_NUMBER, "a number of a stage")                      \
  X(CPU_ONLY, "cpu")                                          \
  X(F32_ONLY, "f32")                                          \
  X(BLOCK, "a block")                                         \
  X(WEIGHTS, "a file and a tensor")                           \
  X(LIMIT, "a limit of a block")                              \
  X(FLAG_OR_INT, "a bool or an integer")                      \
  X(FLAG_OR_NAME, "a bool, or the name of a block")

typedef enum {
#define X(name, text) MSC_FACT_##name,
  MSC_FACT_KINDS(X)
#undef X
} msc_fact_kind;

enum {
  MSC_ON_OP = 1,
  MSC_ON_ARG = 2,
  MSC_ON_FUNC = 4,
  MSC_ON_OP_FUNC = 5,
  MSC_ON_MODULE = 8,
  MSC_ON_MEMBER = 16,
  MSC_ON_ARG_MODULE = 10,
  MSC_ON_OP_MEMBER = 17
};

typedef struct {
  const char *name;         /* MSC_FACT(id) */
  unsigned on;              /* MSC_ON_x */
  msc_fact_kind kind;
  const char *from, *until; /* stage folders; "user" and "driver"; "-" */
  const char *meaning;
} msc_fact_row;

enum {
#define FACT(id, name, on, kind, from, until, meaning) +1
  MSC_NUM_FACTS = 0
#include "ir/fact.def"
#undef FACT
};
extern const msc_fact_row msc_fact_rows[MSC_NUM_FACTS];
/* Returns the row of an interned name; NULL: it is no fact's name. */
const msc_fact_row *msc_fact_row_of(const char *name);
const char *msc_fact_kind_text(msc_fact_kind kind);
bool msc_fact_fits(msc_fact_kind kind, const msc_attr_value *v);
/* Returns the fault of a value of this fact, to follow the fact's name in a message: "must be a list"; NULL: none. */
const char *msc_fact_wrong(msc_arena *arena, const msc_fact_row *row, const msc_attr_value *v);
/* Goes over the facts that the dictionaries of fact `of` may hold: returns the next one, from row *at on, and moves
 * *at behind it; NULL: there is none. */
const msc_fact_row *msc_fact_member(const msc_fact_row *of, size_t *at);
bool msc_fact_is_users(const msc_fact_row *row);
/* Sorts of facts that passes treat alike: SORT in fact.def. */
enum {
  MSC_SORT_STRATEGY = 1,
  MSC_SORT_CONSTRAINT = 2,
  MSC_SORT_BUDGET = 4,
  MSC_SORT_BLOCK = 8,
  MSC_SORT_RECOMPUTE = 16,
  MSC_SORT_EXPANSION = 32
};
/* Goes over the names of the facts of a sort, in the order of the rows: returns the next one, from row *at on, and
 * moves *at behind it; NULL: there is none. */
const char *msc_fact_of_sort(unsigned sort, size_t *at);
bool msc_op_has_sort(const msc_op *op, unsigned sort); /* true if op has a fact of this sort */
void msc_op_unset_sort(msc_op *op, unsigned sort);
/* Copies the facts of this sort that `from` has. */
void msc_op_copy_sort(msc_op *to, const msc_op *from, unsigned sort);
/* Returns "; did you mean 'x'?" with the nearest name among the facts on such a thing (MSC_ON_x), users' ones first,
 * and the attributes of an op's row (NULL: of no op); "" if none is near. */
const char *msc_fact_hint(msc_arena *arena, const char *name, unsigned on, const msc_op_info *info);
/* Returns the name of an argument in the model, for messages; never NULL. */
const char *msc_name_of_arg(const msc_func *f, size_t arg);

/* True if the path is relative and has no empty, "." or ".." components, so that it leads into the model's folder or
 * below. */
bool msc_is_weight_path(const char *path);
/* True if v is a value of msc.weights: {file = PATH, tensor = NAME}, and what is known of the file: bytes, xxh3. */
bool msc_is_weights(const msc_attr_value *v);

/* Checks that every attribute of the module, its functions and arguments is a fact, stands where its row allows and has
 * its kind. */
bool msc_check_facts(const msc_module *m);
/* Checks that no fact outlives its last stage, at the end of `stage`; reports the first one that does. */
bool msc_check_outlived(const msc_module *m, const char *stage);
/* Goes over the needs of a fact (NEED in fact.def): returns the stage after which it must stand on every function, or
 * on every op of the kind *out_op (else NULL), from row *at on, and moves *at behind it; NULL: there is none. */
const char *msc_fact_need(const msc_fact_row *row, size_t *at, const char **out_op);
/* Checks that at the end of `stage` every fact stands that the stage must leave (NEED in fact.def); reports the first
 * one that is missing. */
bool msc_check_missing(const msc_module *m, const char *stage);

#endif
