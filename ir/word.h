/* word.h: attributes that are one of a few words, by the rows of word.def: enumerations, and functions that read,
 * write and name them. */
#ifndef MSC_IR_WORD_H
#define MSC_IR_WORD_H

#include "ir/layout/layout.h"

typedef struct msc_attr msc_attr;

/* clang-format off */
#define WORDS(set, attribute) typedef enum {
#define WORD(NAME, word) MSC_##NAME,
#define END_WORDS(set, SETS) MSC_NUM_##SETS } msc_##set;
#include "ir/word.def"

/* The numbers of the sets: MSC_WORDS_predicate ... */
#define WORDS(set, attribute) MSC_WORDS_##set,
#define WORD(NAME, word)
#define END_WORDS(set, SETS)
typedef enum {
#include "ir/word.def"
  MSC_NUM_WORD_SETS
} msc_word_set;
/* clang-format on */

/* Returns the words of a set, in the order of their numbers; *out_num: how many. */
const char *const *msc_words_of(msc_word_set set, int *out_num);
/* Returns the set that a kind in op.def names; MSC_NUM_WORD_SETS: it names none. */
msc_word_set msc_word_set_called(const char *kind);
/* Returns the number of a word in a set; -1: the set lacks it. */
int msc_word_parse(msc_word_set set, const char *word);

/* Four functions for each set. msc_op_predicate reads the attribute of a verified op, 0 if the op's row has none.
 * msc_predicate_attr makes the attribute that msc_build_with takes. msc_predicate_name returns the word of a number.
 * msc_predicate_parse finds the number of a word; false: the set lacks the word. */
#define WORDS(set, attribute)                                      \
  msc_##set msc_op_##set(const msc_op *op);                        \
  msc_attr msc_##set##_attr(msc_context *ctx, msc_##set value);    \
  const char *msc_##set##_name(msc_##set value);                   \
  bool msc_##set##_parse(const char *word, msc_##set *out_value);
#define WORD(NAME, word)
#define END_WORDS(set, SETS)
#include "ir/word.def"

/* For the attribute `dtype`: msc_op_dtype reads the element type of a verified op, msc_dtype_attr makes the
 * attribute. */
msc_dtype msc_op_dtype(const msc_op *op);
msc_attr msc_dtype_attr(msc_context *ctx, msc_dtype dtype);

#endif
