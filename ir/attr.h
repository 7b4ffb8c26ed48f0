/* attr.h: attributes of ops, functions, arguments and modules, and the facts that passes leave for each other. */
#ifndef MSC_IR_ATTR_H
#define MSC_IR_ATTR_H

#include "ir/layout/layout.h"

typedef struct msc_module msc_module;
typedef struct msc_func msc_func;
typedef struct msc_attr msc_attr;
typedef struct msc_attr_value msc_attr_value;
typedef struct msc_op_info msc_op_info;

typedef enum {
  MSC_ATTR_INT,
  MSC_ATTR_FLOAT,
  MSC_ATTR_BOOL,
  MSC_ATTR_STR,
  MSC_ATTR_LIST,
  MSC_ATTR_DICT,
  MSC_ATTR_TYPE,
  MSC_ATTR_DENSE,
  MSC_ATTR_LAYOUT, /* in IR text a string */
  MSC_ATTR_DIGITS, /* digits of mesh axes, major first: a layout of one dimension, in IR text without its brackets */
} msc_attr_kind;

struct msc_attr_value {
  msc_attr_kind kind;
  msc_dtype dtype; /* of INT and FLOAT: the type that stands behind the number, as in `1 : i64` */
  union {
    int64_t i;
    double f;
    bool b;
    const char *s; /* interned */
    struct {
      size_t num;
      const msc_attr_value *v;
    } list;
    struct {
      size_t num;
      const msc_attr *a;
    } dict; /* sorted by name */
    const msc_type *type;
    const msc_layout *layout;
    struct {
      const msc_type *type;
      const void *data;
      size_t bytes;
    } dense; /* the bytes of all elements, or of one that all are equal to */
  };
};

struct msc_attr {
  const char *name; /* interned */
  msc_attr_value value;
};

/* Names of the rows of fact.def.  msc_intern returns these very arrays, in every context: so addresses tell whether an
 * attribute is a fact, and a misspelt name does not compile. */
typedef struct {
#define FACT(id, name, on, kind, from, until, meaning) char id[sizeof name];
#include "ir/fact.def"
#undef FACT
} msc_fact_name_table;
extern const msc_fact_name_table msc_fact_names; /* fact.c */
#define MSC_FACT(id) (msc_fact_names.id)
static inline bool msc_is_fact_name(const char *name) {
  return (uintptr_t)name - (uintptr_t)&msc_fact_names < sizeof msc_fact_names;
}

/* ---- attr.c ---- */

msc_attr_value msc_int(int64_t v);
msc_attr_value msc_float(double v);
msc_attr_value msc_bool(bool v);
msc_attr_value msc_str(msc_context *ctx, const char *s);
msc_attr_value msc_type_attr(const msc_type *t);
msc_attr_value msc_layout_attr(const msc_layout *l);
msc_attr_value msc_layouts_attr(msc_context *ctx, size_t num, const msc_layout *const *l);
msc_attr_value msc_digits_attr(const msc_layout *digits);
/* Returns the layout or digits that v holds; NULL if v is NULL or holds something else. */
const msc_layout *msc_attr_layout(const msc_attr_value *v);
msc_attr_value msc_ints(msc_context *ctx, size_t num, const int64_t *v);
msc_attr_value msc_list(msc_context *ctx, size_t num, const msc_attr_value *v);
msc_attr msc_named(msc_context *ctx, const char *name, msc_attr_value v);
bool msc_attr_equal(const msc_attr_value *a, const msc_attr_value *b);

/* Mixes v into the hash h of contents: equal contents have equal hashes. Interned things count by their addresses,
 * which differ from run to run, so nothing may be ordered by hashes. */
static inline uint64_t msc_mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}
static inline uint64_t msc_mix_pointer(uint64_t h, const void *p) { return msc_mix(h, (uintptr_t)p); }
uint64_t msc_mix_attrs(uint64_t h, const msc_attr *attrs, size_t num);

/* Finds an attribute by its name: MSC_FACT(stage), or one that the op's row declares. */
const msc_attr_value *msc_find_attr(const msc_attr *attrs, size_t num, const char *name);
void msc_put_attr(msc_context *ctx, msc_attr **attrs, size_t *num, const char *name, msc_attr_value v);
void msc_drop_attr(msc_attr *attrs, size_t *num, const char *name);
const msc_attr_value *msc_op_attr(const msc_op *op, const char *name); /* NULL: absent */
/* Returns the layout in which the op wants operand i (its fact in_layout); NULL: the layout that the operand has. */
const msc_layout *msc_wanted_layout(const msc_op *op, size_t i);
void msc_op_set(msc_op *op, const char *name, msc_attr_value v);
/* Copies an attribute of `from`, if it has it. */
void msc_op_copy_attr(msc_op *op, const msc_op *from, const char *name);
void msc_op_unset(msc_op *op, const char *name);
/* Reads an attribute; an absent one has the default of the op's row. */
int64_t msc_op_int(const msc_op *op, const char *name);
double msc_op_float(const msc_op *op, const char *name);
/* Returns the number of the operand that the op's row gives this name; -1: the row has none, or this op leaves it
 * out. */
int msc_operand_called(const msc_op *op, const char *name);
bool msc_op_bool(const msc_op *op, const char *name);
const char *msc_op_str(const msc_op *op, const char *name);
const msc_layout *msc_op_layout(const msc_op *op, const char *name); /* reads a layout or digits; NULL: absent */
/* Copies up to max ints; returns how many the list has, -1 when absent. */
int msc_op_ints(const msc_op *op, const char *name, int64_t *out_v, int max);
/* Attributes of a function's arguments, then of the function. */
const msc_attr_value *msc_arg_attr(const msc_func *f, size_t arg, const char *name);
void msc_arg_set(msc_func *f, size_t arg, const char *name, msc_attr_value v);
const msc_attr_value *msc_func_attr(const msc_func *f, const char *name);
void msc_func_set(msc_func *f, const char *name, msc_attr_value v);

/* ---- layout_attr.c ---- */

/* Replaces texts by layouts or digits in those attributes that hold these by their row of fact.def, or of op.def
 * (`info`; NULL: of no op). A user's text that cannot be read stays text, because it may need a mesh that comes later.
 * False after reports. */
bool msc_read_layouts(const msc_module *m, const msc_loc *loc, msc_attr *attrs, size_t num, const msc_op_info *info);
/* Reads a layout given by the user, for reports about it; NULL: it is no layout, or not given (""). */
bool msc_users_layout(const msc_module *m, const msc_loc *loc, const msc_attr_value *v, const msc_layout **out_layout);
/* Gives the module another mesh. Its layouts become those with the same names of axes on that mesh, and layouts that
 * were still text are read. False after reports. */
bool msc_change_mesh(msc_module *m, const msc_mesh *mesh);
/* Replaces layouts and digits in v, and in lists in v, by their texts. */
msc_attr_value msc_attr_with_texts(const msc_module *m, msc_arena *arena, const msc_attr_value *v);

#include "ir/fact_values.h"

#endif
