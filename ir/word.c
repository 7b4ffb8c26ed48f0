/* word.c: words that attributes may be, and their numbers (word.h). */
#include "ir/word.h"

#include <string.h>

#include "ir/ir.h"

/* clang-format off */
#define WORDS(set, attribute) static const char *const set##_words[] = {
#define WORD(NAME, word) word,
#define END_WORDS(set, SETS) };
#include "ir/word.def"
/* clang-format on */

static const struct {
  const char *name;
  const char *const *words;
  int num;
} sets[MSC_NUM_WORD_SETS] = {
#define WORDS(set, attribute) {#set, set##_words, (int)(sizeof set##_words / sizeof *set##_words)},
#define WORD(NAME, word)
#define END_WORDS(set, SETS)
#include "ir/word.def"
};

const char *const *msc_words_of(msc_word_set set, int *out_num) {
  *out_num = sets[set].num;
  return sets[set].words;
}

msc_word_set msc_word_set_called(const char *kind) {
  int set = 0;
  while (set < MSC_NUM_WORD_SETS && strcmp(sets[set].name, kind)) set++;
  return (msc_word_set)set;
}

int msc_word_parse(msc_word_set set, const char *word) {
  for (int i = 0; i < sets[set].num; i++)
    if (!strcmp(sets[set].words[i], word)) return i;
  return -1;
}

static int number_of_attr(const msc_op *op, msc_word_set set, const char *attribute) {
  const char *word = msc_op_str(op, attribute);
  int number = word ? msc_word_parse(set, word) : -1;
  return number < 0 ? 0 : number;
}

#define WORDS(set, attribute)                                                                                   \
  msc_##set msc_op_##set(const msc_op *op) { return (msc_##set)number_of_attr(op, MSC_WORDS_##set, attribute); } \
  msc_attr msc_##set##_attr(msc_context *ctx, msc_##set value) {                                                \
    return msc_named(ctx, attribute, msc_str(ctx, set##_words[value]));                                         \
  }                                                                                                             \
  const char *msc_##set##_name(msc_##set value) { return set##_words[value]; }                                  \
  bool msc_##set##_parse(const char *word, msc_##set *out_value) {                                              \
    int number = msc_word_parse(MSC_WORDS_##set, word);                                                         \
    if (number >= 0) *out_value = (msc_##set)number;                                                            \
    return number >= 0;                                                                                         \
  }
#define WORD(NAME, word)
#define END_WORDS(set, SETS)
#include "ir/word.def"

msc_dtype msc_op_dtype(const msc_op *op) {
  const char *word = msc_op_str(op, "dtype");
  msc_dtype dtype = MSC_F32;
  if (word) msc_dtype_parse(word, &dtype);
  return dtype;
}

msc_attr msc_dtype_attr(msc_context *ctx, msc_dtype dtype) {
  return msc_named(ctx, "dtype", msc_str(ctx, msc_dtype_name(dtype)));
}
