/* product_multiply.h: what the files of the kernel `multiply` share: where its operands lie, the forms of sums, and the
 * functions that its files call of each other. */
#ifndef MSC_CODEGEN_EMIT_PRODUCT_MULTIPLY_H
#define MSC_CODEGEN_EMIT_PRODUCT_MULTIPLY_H

#include "codegen/emit/product_result.h"

enum {
  MAX_HEIGHT = MSC_PRODUCT_MAX_HEIGHT,
  MAX_VECTORS = 4 * VECTORS,
  EIGHT = 8,      /* blocks of ONES and TWOS */
  ROWS_APART = 4, /* rows that one pointer reaches: the machine adds one, two or three times a register to it */
  SUMS = MAX_HEIGHT * VECTORS,
};

/* How many blocks the code sums without a loop over them, as a power of two. Two blocks are summed side by side: each
 * iteration takes a term of each. The sum of one pair of blocks waits in registers for that of the next, so that of
 * four blocks, or of eight short ones, only one sum is stored. With 16 registers two blocks are summed one after the
 * other, the sum of each pair is stored, and EIGHTS takes eight blocks of an even number of terms and a packed b.
 * DOUBLE is SINGLE for two panels of a packed b side by side and half as many rows: it loads fewer elements of a.
 * NARROW is SINGLE for a panel with at most one vector of columns. WIDE and WIDEST are SINGLE for few rows of a and a b
 * that is read in place: they read more columns of a row of b at once. With 16 registers STREAM takes their place: it
 * reads rows of b from end to end, and the sums of a block lie in memory. TRANSPOSED is SINGLE for few rows of a and a
 * transposed b that is read in place: its squares are transposed in registers. ONES and TWOS are for eight blocks of
 * one term or two: the terms of some columns of b stay in registers for all rows, and so does the whole tree of a row's
 * sums. SPREAD is SINGLE for 16 registers: sums are stored between multiplications. */
typedef enum {
  SINGLE,
  DOUBLE,
  NARROW,
  WIDE,
  WIDEST,
  TRANSPOSED,
  ONES,
  TWOS,
  PAIRS,
  QUADS,
  EIGHTS,
  SPREAD,
  STREAM,
  NUM_FORMS
} sum_form;

typedef struct {
  result c;
  LLVMValueRef a, b, room;       /* room: memory for packed panels of rows of a */
  LLVMValueRef k, blocks, block; /* block: its elements */
  filling filling;               /* of pairs */
  /* distances between elements of a: from row to row, from term to term, from panel to panel of rows */
  LLVMValueRef row_a, term_a, panel_a;
  LLVMValueRef in_panels;        /* i1: true if rows of a lie in panels; else groups are chosen among all rows */
  LLVMValueRef term_b, column_b; /* distances between elements of b: from term to term, from column to column */
  LLVMValueRef next_panel;       /* of a packed b: elements from a panel to the next */
  LLVMValueRef ahead;            /* distance of prefetched terms of b: term_b, or 0 where the CPU prefetches */
  LLVMValueRef waiting;          /* sums of blocks */
  LLVMValueRef panel_rows;       /* rows in a panel of rows of a */
  sum_form form;
} multiplying;

static inline bool has_32_registers(const product *p) { return p->height > 6; }

/* True if kernels of this type can read b in place: an operand that is widened, or in pairs, is always packed. */
static inline bool reads_in_place(const product *p) { return p->operand_bytes >= 4; }

/* True if kernels of this type have DOUBLE. Rows of elements of eight bytes take more registers for their addresses. */
static inline bool has_double(const product *p) { return has_32_registers(p) && p->operand_bytes == 4; }

static inline bool is_wide(sum_form form) { return form == WIDE || form == WIDEST; }

static inline bool keeps_terms(sum_form form) { return form == ONES || form == TWOS; }

/* True if kernels of this type have ONES and TWOS. Sums that are rounded take more registers, and more time, to store
 * than is saved. */
static inline bool may_keep_terms(const product *p) { return has_32_registers(p) && p->operand_bytes == p->bytes; }

/* True if `step` elements of an operand are a multiple of 4096 bytes: the nearest cache has few places for elements
 * that are so far apart. */
static inline LLVMValueRef places_meet(product *p, LLVMValueRef step) {
  enum { PLACES = 4096 };
  LLVMValueRef apart = LLVMBuildAnd(p->b, step, i64(p, PLACES / p->operand_bytes - 1), "");
  return LLVMBuildICmp(p->b, LLVMIntEQ, apart, i64(p, 0), "");
}

/* A group of rows and the addresses of its next terms. Pointers are advanced term by term: LLVM keeps many copies of
 * addresses that it can compute from a counter. */
typedef struct {
  int height;
  LLVMValueRef row[ROWS_APART]; /* row[i]: elements from a pointer's row to the i-th row behind it */
  LLVMValueRef a, b;            /* the next terms */
} walk;

/* product_forms.c */

/* Returns how many vectors of a row of b are multiplied together. */
int msc_product_form_vectors(sum_form form);
/* Returns how many rows are packed together: a whole number of the form's groups. */
int msc_product_panel_rows(const product *p, sum_form form);
/* Returns the heights of groups for which code is emitted, descending, ended by 0. The registers hold the sums of one
 * group of the greatest height, or, in other forms, two or three sets of sums of lower groups. */
const int *msc_product_heights(const product *p, sum_form form);
/* Chooses the form for `rows` rows, i64: few rows take a wide form if b is read in place, or TRANSPOSED if that b is
 * transposed. */
LLVMValueRef msc_product_form(product *p, const multiplying *x, LLVMValueRef rows);

/* product_rows.c */

/* Chooses where rows begin .. end - 1 of a are read from for x->form, packs them if they are packed, and sets how they
 * lie. */
void msc_product_read_rows(product *p, multiplying *x, LLVMValueRef begin, LLVMValueRef end);

/* product_sums.c */

/* Emits sum + a b; an element of pairs adds the products of both its terms. */
LLVMValueRef msc_product_add(product *p, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum);
/* Returns the address of the next term of a row; `a`: the pointers of the group. */
LLVMValueRef msc_product_at_row(product *p, const walk *w, const LLVMValueRef *a, int row);
/* Sums all blocks of a group of rows: sum v of row r is out_acc[r * p->vectors + v]. */
void msc_product_sum_blocks(product *p, const multiplying *x, walk *w, LLVMValueRef *out_acc);

/* product_streams.c */

/* Returns how many columns' sums lie in memory at once. */
int msc_product_stream_columns(const product *p);
/* Multiplies rows begin .. end - 1 of a by all columns of a b that is read in place. */
void msc_product_multiply_streams(product *p, const multiplying *x, LLVMValueRef begin, LLVMValueRef end);

/* product_kept.c */

/* Multiplies rows first .. last - 1 of a, from `a` on, by columns of b whose terms stay in registers, two rows at a
 * time, then the last. */
void msc_product_multiply_by_kept(product *p, const multiplying *x, LLVMValueRef a, LLVMValueRef first,
                                  LLVMValueRef last, LLVMValueRef column);

#endif
