/* walk.h: the state of the emission of a kernel: the values that are computed at the current point of the loops; and
 * the loops that kernels of CPUs and GPUs share. */
#ifndef MSC_CODEGEN_EMIT_WALK_H
#define MSC_CODEGEN_EMIT_WALK_H

#include "codegen/emit/build.h"

typedef struct msc_walk msc_walk;

/* On a GPU: a team, the threads that share an item. Each takes some positions along head.team_axis, and their
 * reductions are combined. */
typedef struct {
  int size;                 /* 1: nobody shares */
  LLVMValueRef rank;        /* i64: 0 .. size - 1 */
  LLVMValueRef first;       /* i1: this thread stores the values that all threads of the team hold */
  LLVMValueRef active;      /* i1: the thread's lanes exist; NULL: all do */
  LLVMValueRef memory;      /* shared memory of the block, which `join` uses */
  LLVMValueRef (*join)(msc_walk *w, int kind, msc_dtype dtype, LLVMValueRef v); /* all threads get one result */
} msc_team;

struct msc_walk {
  msc_emit e;
  const msc_program_head *h;
  msc_team team;
  uint16_t bound;           /* axes whose position is known */
  int copies;               /* vectors side by side */
  uint8_t phases_done, level, phase;
  /* on the stack: rows of values that several phases need; NULL: computed again in each */
  LLVMValueRef kept[MSC_NEST_INSTRS];
  uint8_t kept_from[MSC_NEST_INSTRS]; /* the phase that computes these rows */
  /* Pairs of m = max x and s = sum exp(x - m) that one run through the row computes: at index s the number of m, at m
   * that of s; else 0. */
  uint16_t partner[MSC_NEST_INSTRS];
};

/* A phase: one run through the reduced axes. */
typedef struct {
  int num_reduces, reduce[MAX_CARRIED];
  bool needed[MSC_NEST_INSTRS];
  int weight;               /* instructions per point */
  int accumulators;         /* per reduction */
  LLVMValueRef carried[MAX_CARRIED];
} msc_phase;

enum { MSC_INSIDE_ITEMS = 0x8000 }; /* a bit of `bound` that is no axis: results may be stored from here on */

static inline uint16_t msc_bit(int axis) { return axis >= 0 ? (uint16_t)(1u << axis) : 0; }

/* In a kernel of kind TRANSPOSE: true if the elements that instruction i loads are contiguous along the other axis,
 * instead of along the lanes. */
static inline bool msc_walk_is_transposed(const msc_walk *w, int i) {
  const msc_instr *in = &w->e.p->instr[i];
  return in->code == NEST_LOAD && in->at.coef[w->h->across] == 1 && in->at.coef[w->h->lane] > 1;
}

/* Return what reduction i of the program computes, and of which type. */
static inline int msc_walk_kind(const msc_walk *w, int i) { return w->e.p->instr[i].imm; }
static inline msc_dtype msc_walk_dtype(const msc_walk *w, int i) { return (msc_dtype)w->e.p->instr[i].dtype; }
/* Combines two values of reduction i. */
static inline LLVMValueRef msc_walk_combine(msc_walk *w, int i, LLVMValueRef a, LLVMValueRef b) {
  return msc_emit_combine(&w->e, msc_walk_kind(w, i), msc_walk_dtype(w, i), a, b);
}
/* Returns what reduction i begins with, in so many lanes. */
static inline LLVMValueRef msc_walk_identity(msc_walk *w, int i, int lanes) {
  return msc_emit_identity(&w->e, msc_walk_kind(w, i), msc_walk_dtype(w, i), lanes);
}
/* True for the sum of a pair (softmax_sums.c). */
static inline bool msc_walk_is_paired_sum(const msc_walk *w, int i) {
  return w->partner[i] && msc_walk_kind(w, i) == MSC_SUM;
}
/* True if reductions add up the lanes of a vector. */
static inline bool msc_walk_reduces_lanes(const msc_walk *w) {
  return w->h->lanes > 1 && (w->h->reduced & msc_bit(w->h->lane));
}

/* ---- emit/positions.c ---- */

/* Gives an axis a position; values computed at another one are dropped. */
void msc_walk_bind(msc_walk *w, int axis, LLVMValueRef at);
/* Gives the axes in the set `axes` their positions, which it computes from a number in row-major order. */
void msc_walk_bind_items(msc_walk *w, LLVMValueRef number, uint16_t axes);
/* Emits a / b, rounded down, of integers that are not negative. */
LLVMValueRef msc_walk_divide(msc_walk *w, LLVMValueRef a, LLVMValueRef b);

/* ---- emit/phases.c ---- */

/* Emits all instructions that can be computed and are not yet; `needed` NULL: all those outside the reduced axes. */
void msc_walk_emit_ready(msc_walk *w, const bool *needed);
/* Emits all of an item whose axes have positions: its phases, and the instructions before and after them. */
void msc_walk_emit_item(msc_walk *w);
/* Reserves stack memory for rows that several phases need; called before the loops. */
void msc_walk_keep_rows(msc_walk *w);

/* ---- emit/softmax_sums.c ---- */

/* Marks pairs of a maximum and the sum of exponentials relative to it, so that one run through long rows computes both.
 * Called before the loops of a GPU's team. */
void msc_walk_pair_sums(msc_walk *w);
/* Adds the position's elements to paired sum i of the phase, and to its maximum. */
void msc_walk_add_to_pair(msc_walk *w, msc_phase *ph, int i);
/* Combines, over all threads of a team, the maxima and the sums that are relative to them. */
void msc_walk_join_pairs(msc_walk *w, msc_phase *ph);

/* ---- emit/unroll.c ---- */

/* Returns how many vectors an iteration of the inner loop handles. */
int msc_walk_choose_unroll(const msc_walk *w, const msc_phase *ph);
/* Returns a mask of type <lanes x i1>: which lanes of a vector at `first` lie below `to`. */
LLVMValueRef msc_walk_mask(msc_walk *w, LLVMValueRef first, LLVMValueRef to);
/* Returns the end of the whole steps of `width` positions between `from` and `to`. */
LLVMValueRef msc_walk_whole_end(msc_walk *w, LLVMValueRef from, LLVMValueRef to, int width);
/* Emits vectors along the lane axis from `from` to `to`: `unroll` at a time, then one at a time under a mask; `point`
 * emits the body at the present position. */
typedef void msc_point_fn(msc_walk *w, msc_phase *ph, int accumulator);
void msc_walk_emit_lanes(msc_walk *w, msc_phase *ph, LLVMValueRef from, LLVMValueRef to, int unroll,
                         msc_point_fn *point);

#endif
