/* verb.h: collectives and reductions, as rows of verb.def.  For compiler, runtime and tools. */
#ifndef MSC_IR_VERB_H
#define MSC_IR_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ir/abi/dtype.h"

typedef enum {
#define REDUCTION(NAME, word, between) MSC_##NAME,
#include "ir/verb.def"
  MSC_NUM_REDUCTIONS
} msc_reduction;

typedef enum {
#define VERB(NAME, ...) MSC_##NAME,
#include "ir/verb.def"
  MSC_NUM_VERBS /* also: no verb */
} msc_verb;

/* Verbs below this number stand in plans. */
enum { MSC_NUM_PLAN_VERBS = MSC_SHARD };

typedef enum {
  MSC_AT_ANY,
  MSC_AT_WHOLE,
  MSC_AT_ROOT,
  MSC_AT_PARTIAL,
  MSC_AT_DIM,
  MSC_AT_SPLIT_DIM,
  MSC_AT_CONCAT_DIM
} msc_verb_side;
typedef enum {
  MSC_RECEIVES_NOTHING,
  MSC_RECEIVES_GROWTH,
  MSC_RECEIVES_LOSS,
  MSC_RECEIVES_REST,
  MSC_RECEIVES_TWICE,
  MSC_RECEIVES_RESULT
} msc_verb_receives;
typedef enum {
  MSC_ROUNDS_NONE,
  MSC_ROUNDS_ONE,
  MSC_ROUNDS_PEERS,
  MSC_ROUNDS_RING,
  MSC_ROUNDS_TWO_RINGS
} msc_verb_rounds_form;
enum { MSC_VERB_MEASURED = 1, MSC_VERB_RELAYOUT = 2, MSC_VERB_GROUP = 4 };

typedef struct {
  const char *word;
  msc_verb_side operand, result;
  msc_verb_receives receives;
  msc_verb_rounds_form rounds;
  msc_verb op, inverse;
  const char *fusion;
  unsigned flags;
} msc_verb_row;

static inline const msc_verb_row *msc_verb_row_of(msc_verb v) {
  enum { MEASURED = MSC_VERB_MEASURED, RELAYOUT = MSC_VERB_RELAYOUT, GROUP = MSC_VERB_GROUP };
  static const msc_verb_row rows[MSC_NUM_VERBS] = {
#define VERB(NAME, word, operand, result, receives, rounds, op, inverse, fusion, flags) \
  {word,                                                                                \
   MSC_AT_##operand,                                                                    \
   MSC_AT_##result,                                                                     \
   MSC_RECEIVES_##receives,                                                             \
   MSC_ROUNDS_##rounds,                                                                 \
   MSC_##op,                                                                            \
   MSC_##inverse,                                                                       \
   fusion,                                                                              \
   flags},
#include "ir/verb.def"
  };
  return &rows[v];
}

static inline const char *msc_verb_name(msc_verb v) { return msc_verb_row_of(v)->word; }
static inline bool msc_verb_is(msc_verb v, unsigned flag) {
  return v < MSC_NUM_VERBS && msc_verb_row_of(v)->flags & flag;
}
/* True if the verb combines the values of a group into one. */
static inline bool msc_verb_reduces(msc_verb v) {
  return v < MSC_NUM_VERBS && msc_verb_row_of(v)->operand == MSC_AT_PARTIAL;
}
/* True if every rank has a part before and all parts after. */
static inline bool msc_verb_gathers(msc_verb v) {
  return v < MSC_NUM_VERBS && msc_verb_row_of(v)->operand == MSC_AT_DIM && msc_verb_row_of(v)->result == MSC_AT_WHOLE;
}
/* True if every rank has a term before and a part of the reduced whole after. */
static inline bool msc_verb_scatters(msc_verb v) {
  return msc_verb_reduces(v) && msc_verb_row_of(v)->result == MSC_AT_DIM;
}
/* True if one collective may carry several values at once, as comm_fusion makes them. */
static inline bool msc_verb_fuses(msc_verb v) { return v < MSC_NUM_VERBS && msc_verb_row_of(v)->fusion; }

/* Returns the name of the op's attribute that names the dimension which is cut on this side, or NULL. */
static inline const char *msc_verb_dim_attr(msc_verb_side side) {
  static const char *const names[] = {NULL, NULL, NULL, NULL, "dim", "split_dim", "concat_dim"};
  return names[side];
}

/* Returns the bytes that one rank receives, rounded up, by the row's column `receives`; in, out: bytes of its operand
 * and result; k: members of the group. */
static inline int64_t msc_verb_received(msc_verb v, int64_t in, int64_t out, int64_t k) {
  switch (msc_verb_row_of(v)->receives) {
    case MSC_RECEIVES_NOTHING: return 0;
    case MSC_RECEIVES_GROWTH: return out - in;
    case MSC_RECEIVES_LOSS: return in - out;
    case MSC_RECEIVES_REST: return in - in / k;
    case MSC_RECEIVES_TWICE: return (int64_t)((2 * (__int128)(k - 1) * in + k - 1) / k);
    default: return out;
  }
}

/* Returns how many messages a rank waits for one after another, in a group of `ranks` where each reads data of `peers`
 * others. */
static inline int64_t msc_verb_rounds(msc_verb v, int64_t ranks, int64_t peers) {
  int64_t ring = ranks - 1, trees = 0;
  switch (msc_verb_row_of(v)->rounds) {
    case MSC_ROUNDS_NONE: return 0;
    case MSC_ROUNDS_ONE: return 1;
    case MSC_ROUNDS_PEERS: return peers;
    case MSC_ROUNDS_RING: return ring;
    default: break;
  }
  for (int64_t n = 1; n < ranks; n *= 2) trees += 2;
  return 2 * ring < trees ? 2 * ring : trees;
}

/* Returns the bytes received for each byte that measured tables count, which are those that a rank holds before, or
 * those that it holds after where these are more. */
static inline double msc_verb_received_share(msc_verb v, int64_t ranks) {
  double k = (double)ranks, share = (k - 1) / k;
  msc_verb_receives r = msc_verb_row_of(v)->receives;
  return r == MSC_RECEIVES_RESULT ? 1 : r == MSC_RECEIVES_TWICE ? 2 * share : share;
}

static inline const char *msc_reduction_name(msc_reduction r) {
  static const char *const words[] = {
#define REDUCTION(NAME, word, between) #word,
#include "ir/verb.def"
  };
  return words[r];
}

/* Returns the bits of the reduction's identity, 0, 1, an infinity or a limit, in the low bytes. */
static inline uint64_t msc_reduction_identity_bits(msc_reduction r, msc_dtype d) {
  static const struct {
    uint8_t bytes, class;
  } types[] = {
#define X(name, text, bytes, class) {bytes, MSC_CLASS_##class},
      MSC_DTYPES(X)
#undef X
  };
  int bits = 8 * types[d].bytes, exponent = d == MSC_F64 ? 11 : d == MSC_F16 ? 5 : 8;
  uint64_t all = UINT64_MAX >> (64 - bits), sign = (uint64_t)1 << (bits - 1);
  if (r == MSC_SUM) return 0;
  switch (types[d].class) {
    case MSC_CLASS_FLOAT:
      if (r == MSC_PROD) return (((uint64_t)1 << (exponent - 1)) - 1) << (bits - 1 - exponent);
      return (((uint64_t)1 << exponent) - 1) << (bits - 1 - exponent) | (r == MSC_MAX ? sign : 0);
    case MSC_CLASS_BOOL: return r != MSC_MAX;
    case MSC_CLASS_INT: return r == MSC_PROD ? 1 : r == MSC_MAX ? sign : all ^ sign;
    default: return r == MSC_PROD ? 1 : r == MSC_MAX ? 0 : all;
  }
}

/* Returns the verb of this word; MSC_NUM_VERBS: there is none. */
static inline msc_verb msc_verb_parse(const char *word) {
  unsigned v = 0;
  while (v < MSC_NUM_VERBS && strcmp(msc_verb_name((msc_verb)v), word)) v++;
  return (msc_verb)v;
}

/* Returns the reduction of this word; MSC_NUM_REDUCTIONS: there is none. */
static inline msc_reduction msc_reduction_parse(const char *word) {
  unsigned r = 0;
  while (r < MSC_NUM_REDUCTIONS && strcmp(msc_reduction_name((msc_reduction)r), word)) r++;
  return (msc_reduction)r;
}

#endif
