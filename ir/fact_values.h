/* fact_values.h: one function per row of fact.def, which gives the fact as an attribute: a value of another kind does
 * not compile.
 *
 *   msc_op_put(op, msc_fact_whole(50257));
 *   msc_func_put(f, msc_fact_section(ctx, MSC_SECTION_F));
 *
 * Kinds whose values are whatever a user wrote take any value.
 *
 * Facts that are numbers, truth values, words or layouts are read likewise, from whatever has attributes: an op, a
 * function, an argument (&f->arg[i]), a module.  The last operand is what an absent fact, or one of another kind,
 * gives:
 *
 *   int64_t micro = msc_fact_read(f, micro, 1); */
#ifndef MSC_IR_FACT_VALUES_H
#define MSC_IR_FACT_VALUES_H

#include "ir/attr.h"
#include "ir/word.h"

#define FACT_OF(id, parameters, v) \
  static inline msc_attr msc_fact_##id parameters { return (msc_attr){MSC_FACT(id), v}; }
#define READ_FACT(id, T, member, KIND)                                              \
  static inline T msc_fact_read_##id(const msc_attr *attrs, size_t num, T absent) { \
    const msc_attr_value *v = msc_find_attr(attrs, num, MSC_FACT(id));              \
    return v && v->kind == MSC_ATTR_##KIND ? v->member : absent;                    \
  }
#define msc_fact_read(holder, id, absent) msc_fact_read_##id((holder)->attrs, (holder)->num_attrs, (absent))
#define FACT_INT(id)                      FACT_OF(id, (int64_t v), msc_int(v)) READ_FACT(id, int64_t, i, INT)
#define FACT_GROUP FACT_INT
#define FACT_BYTES FACT_INT
#define FACT_ROUND FACT_INT
#define FACT_STAGE_NUMBER FACT_INT
#define FACT_FLOAT(id)                    FACT_OF(id, (double v), msc_float(v)) READ_FACT(id, double, f, FLOAT)
#define FACT_BOOL(id)                     FACT_OF(id, (bool v), msc_bool(v)) READ_FACT(id, bool, b, BOOL)
#define FACT_FLAG FACT_BOOL
#define FACT_TEXT(id) \
  FACT_OF(id, (msc_context * ctx, const char *v), msc_str(ctx, v)) READ_FACT(id, const char *, s, STR)
#define WORD_FACT(id, set)                                                                          \
  FACT_OF(id, (msc_context * ctx, msc_##set v), msc_str(ctx, msc_##set##_name(v)))                  \
  static inline msc_##set msc_fact_read_##id(const msc_attr *attrs, size_t num, msc_##set absent) { \
    const msc_attr_value *v = msc_find_attr(attrs, num, MSC_FACT(id));                              \
    if (v && v->kind == MSC_ATTR_STR) msc_##set##_parse(v->s, &absent);                             \
    return absent;                                                                                  \
  }
#define FACT_HOME(id)       WORD_FACT(id, home)
#define FACT_ROLE(id)       WORD_FACT(id, role)
#define FACT_DECIDER(id)      WORD_FACT(id, decider)
#define FACT_PROGRAM_KIND(id) WORD_FACT(id, program_kind)
#define FACT_SECTION_KIND(id) WORD_FACT(id, section_kind)
#define FACT_SLOT_CLASS(id) WORD_FACT(id, slot_class)
#define FACT_INTS(id) FACT_OF(id, (msc_context * ctx, size_t num, const int64_t *v), msc_ints(ctx, num, v))
#define FACT_LIST(id) FACT_OF(id, (msc_context * ctx, size_t num, const msc_attr_value *v), msc_list(ctx, num, v))
#define FACT_TEXTS FACT_LIST
#define FACT_DICT(id) \
  FACT_OF(id, (size_t num, const msc_attr *v), ((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, v}}))
#define FACT_LETTERS FACT_DICT
#define FACT_LAYOUT(id) \
  FACT_OF(id, (const msc_layout *v), msc_layout_attr(v)) READ_FACT(id, const msc_layout *, layout, LAYOUT)
#define FACT_LAYOUTS(id) \
  FACT_OF(id, (msc_context * ctx, size_t num, const msc_layout *const *v), msc_layouts_attr(ctx, num, v))
#define FACT_DIGITS(id) FACT_OF(id, (const msc_layout *v), msc_digits_attr(v))
#define FACT_ANY(id) FACT_OF(id, (msc_attr_value v), v)
#define FACT_NUMBER FACT_ANY
#define FACT_SPLITS FACT_ANY
#define FACT_FALSE_ONLY FACT_ANY
#define FACT_COUNT FACT_INT
#define FACT_CPU_ONLY FACT_ANY
#define FACT_F32_ONLY FACT_ANY
#define FACT_BLOCK FACT_ANY
#define FACT_WEIGHTS FACT_ANY
#define FACT_LIMIT FACT_ANY
#define FACT_FLAG_OR_INT FACT_ANY
#define FACT_FLAG_OR_NAME FACT_ANY
#define FACT(id, name, on, kind, from, until, meaning) FACT_##kind(id)
#include "ir/fact.def"
#undef FACT
#undef READ_FACT
#undef WORD_FACT

static inline void msc_attrs_put(msc_context *ctx, msc_attr **attrs, size_t *num, msc_attr a) {
  msc_put_attr(ctx, attrs, num, a.name, a.value);
}
static inline void msc_op_put(msc_op *op, msc_attr a) { msc_op_set(op, a.name, a.value); }
static inline void msc_func_put(msc_func *f, msc_attr a) { msc_func_set(f, a.name, a.value); }
static inline void msc_arg_put(msc_func *f, size_t arg, msc_attr a) { msc_arg_set(f, arg, a.name, a.value); }

#endif
