/* program.h: the program of a kernel, as this folder makes it and codegen/emit reads it.
 *
 * Axes are loops.  An item is one point of the item axes (kind MAP: of all axes); per item the `reduced` axes are run
 * through once per phase, and if `tail` axes exist, that whole is run through once per point of them.  Lanes of vectors
 * lie along `lane`.  Example, softmax of [r, c]: item axis r, reduced and lane axis c, three phases: max, sum of exp,
 * store.
 *
 *   %1 load b0[r*C + c]   %2 reduce max %1 (phase 1)   %3 sub %1 %2   %4 exp %3   %5 reduce sum %4 (phase 2)
 *   %6 div %4 %5          store b1[r*C + c] %6 (phase 3)
 *
 * Sizes and strides other than 0 and 1 are dims of the launch, so programs of equal form are equal bytes. */
#ifndef MSC_PASSES_PROGRAM_H
#define MSC_PASSES_PROGRAM_H

#include "passes/7_lower/nest/nest.h"

typedef enum {
#define CODE(name, operands, result, imm, facts, flops, size) NEST_##name,
#include "passes/7_lower/nest/code.def"
#undef CODE
  NEST_CODE_COUNT
} msc_nest_code;

/* Facts of a row of code.def. */
enum { NEST_PLACE = 1, NEST_MEMORY = 2, NEST_ROOT = 4, NEST_ADDRESS = 8 };

/* The meaning of `imm`, and its words in the text form. */
typedef enum {
  NEST_IMM_NONE,
  NEST_IMM_AT_ONCE,   /* 1: other threads may add to the same element, so the addition is atomic */
  NEST_IMM_FAULT,     /* msc_kernel_fault */
  NEST_IMM_DIM,       /* number of a dim of the launch */
  NEST_IMM_SCALAR,    /* number of a scalar of the launch */
  NEST_IMM_REDUCTION, /* msc_reduction or NEST_LOOSE_MAX */
  NEST_IMM_PREDICATE, /* msc_nest_predicate */
  NEST_IMM_HALF,      /* element type f16 or bf16 */
} msc_nest_imm;

typedef struct {
  const char *name; /* "LOAD" */
  const char *operands, *result;
  msc_nest_imm imm;
  uint8_t facts, flops, size;
} msc_nest_code_info;

/* Rows of code.def, by msc_nest_code. */
extern const msc_nest_code_info msc_nest_codes[NEST_CODE_COUNT];

/* A maximum that may ignore NaN, for the shift of a softmax: the sum of its exponentials becomes NaN all the same. */
enum { NEST_LOOSE_MAX = MSC_NUM_REDUCTIONS };

typedef enum { NEST_EQ, NEST_NE, NEST_LT, NEST_LE, NEST_GT, NEST_GE, NEST_BELOW /* unsigned < */ } msc_nest_predicate;

/* c0 + sum of coef[axis] * axis, in elements. */
typedef struct {
  int64_t c0, coef[MSC_NEST_AXES];
} msc_affine;

/* An affine form whose numbers are dims of the launch: 0 and 1 are the numbers themselves, k + 2 is dims[k]. */
typedef struct {
  uint8_t c0, coef[MSC_NEST_AXES];
} msc_slots;

typedef struct {
  uint8_t code, dtype;  /* element type of the value as computed: f32 for f16 and bf16 */
  uint8_t buffer;
  uint8_t phase;        /* REDUCE and roots inside the reduced axes: loop number from 1; else: phases to wait for */
  uint8_t level;        /* REDUCE: 0 over reduced, 1 over tail; else 1: after the tail axes */
  int8_t imm;           /* see code.def */
  uint16_t arg[3];      /* instruction numbers; 0: none */
  uint16_t axes;        /* mask of the axes along which the value varies */
  msc_slots at;
  double number;
} msc_instr;

typedef struct {
  uint8_t size;        /* slot; 0: not needed or baked */
  int64_t baked_size;  /* > 0: the size is part of the code */
} msc_nest_extent;

typedef struct {
  uint8_t dtype;  /* element type in memory; MSC_NUM_DTYPES: scratch, where each access has its own type */
  bool is_out;
} msc_nest_buffer;

/* The head of a program: everything that its code depends on, compared as bytes. */
typedef struct {
  uint8_t kind, num_axes, num_buffers, num_dims, num_scalars;
  uint8_t num_phases;
  int8_t lane;          /* axis, or -1: no vectors */
  uint8_t lanes;        /* elements of a vector; 1: none */
  /* ROW: the lane axis is at most MSC_KEPT_ROW: expensive values of one phase are kept for the next */
  bool keeps_row;
  int8_t across;        /* TRANSPOSE: axis along which its operands are contiguous */
  /* slots of the number of blocks of the outermost reduced axis, and of the outermost tail axis: the terms of a block
   * are added one by one, the sums of blocks as a tree, so that the order is fixed. 0: no blocks */
  uint8_t blocks, tail_blocks;
  uint8_t strands;      /* MAP on a GPU: number of strands, each with all items, those of strand 1 first; 0: just one */
  uint8_t chunk;        /* slot of the total size of axis `clipped`, which holds the part that axis `chunk_axis` says */
  int8_t chunk_axis, clipped; /* -1: none.  size(clipped) = min(its size, total - chunk_axis * its size) */
  int8_t flag;          /* buffer of the error flag, or -1 */
  uint16_t items, reduced, tail; /* masks of axes; axes with smaller numbers are outer loops */
  bool is_gpu;          /* the program is for a GPU; the next ones are 0 and -1 for a CPU */
  uint16_t threads;     /* of a block */
  uint16_t team;        /* of them, so many share an item: each takes every team-th position ... */
  int8_t team_axis;     /* ... along this axis; -1: a thread has its items to itself */
  uint16_t per_block;   /* items of a block */
  bool narrow;          /* numbers of points fit 32 bits */
  uint16_t num_instrs;
  msc_nest_extent axis[MSC_NEST_AXES];
  msc_nest_buffer buffer[MSC_NEST_BUFFERS];
} msc_program_head;

typedef struct {
  msc_program_head head;
  msc_instr *instr;     /* from 1 */
} msc_program;

static inline const msc_nest_code_info *msc_nest_info_of(const msc_instr *in) { return &msc_nest_codes[in->code]; }
static inline bool msc_nest_has(const msc_instr *in, int fact) { return msc_nest_info_of(in)->facts & fact; }
/* Does the instruction write to a buffer? */
static inline bool msc_nest_writes(const msc_instr *in) {
  return msc_nest_has(in, NEST_ROOT) && msc_nest_has(in, NEST_MEMORY);
}

/* dims[index] is the first element of this rank's part; `number` is the op's attribute `start`. */
typedef struct {
  uint32_t index;
  int64_t number;
} msc_start;

/* Finds the strands among instructions 1 .. num - 1, or those that are live: sets the number of each, from 1; 0:
 * several strands may need it, which is a number, or made of positions.  Returns how many there are. */
int msc_nest_find_strands(const msc_instr *instr, int num, const bool *live, uint8_t out_strand[MSC_NEST_INSTRS]);

/* Where a program touches a buffer at one point of its outermost item axis: bytes [lo + i * step, hi + i * step) at
 * point i. */
typedef struct {
  int64_t lo, hi, step;
} msc_nest_reach;

/* A launch of a program. */
typedef struct msc_nest_launch {
  const char *suffix; /* to the op's name: "", "_total" or "_zeros" */
  msc_program program;
  uint64_t extent, grain, bytes, flops; /* on a GPU `grain` items are a block's */
  const int64_t *dims;
  const double *scalars;
  size_t num_starts;
  const msc_start *start;
  const uint32_t *buffer; /* per buffer of the program: its number in the list of msc_kernel_call */
  /* Points of the outermost item axis: items [i * extent / rows, (i + 1) * extent / rows) have one in common. And what
   * each touches of every buffer. 0: that is not known. */
  uint64_t rows;
  const msc_nest_reach *reach;
} msc_nest_launch;

enum {
  MSC_COLUMN_VECTORS = 4,  /* vectors side by side in one item of a COLUMN or SCATTER */
  MSC_TRANSPOSE_ROWS = 16, /* of the axis `across` in one item of a TRANSPOSE */
  MSC_SQUARE = 32,         /* on a GPU: the side of an item, ... */
  MSC_SQUARE_ROWS = 8,     /* ... of which so many rows are moved at once */
  MSC_BAKED_SIZE = 64,     /* lane axes up to this size are part of the code */
  MSC_KEPT_ROW = 8192,     /* elements */
  MSC_NEST_REDUCTIONS = 16,
  MSC_NEST_LAUNCHES = 12, /* of one op that is no concat or split */
};

/* ---- nest/verify.c ---- */

/* What is wrong with the program, in the arena, with the instruction's number; NULL: nothing.  Then codegen/emit finds
 * every value computed before it is read, of the type that it needs, and every buffer, dim and scalar given. */
const char *msc_nest_find_fault(const msc_program *p, msc_arena *arena);

/* ---- nest/text.c ---- */

/* Prints a program as text that msc_nest_parse reads back to the same bytes; faults are printed too. */
const char *msc_nest_text(const msc_program *p, msc_arena *arena);
/* Reads a program, which may have faults; false after reporting text that is no program, at its place in `file`. */
bool msc_nest_parse(msc_context *ctx, const char *file, const char *text, size_t bytes, msc_arena *arena,
                    msc_program *out_program);

/* ---- nest.c ---- */

/* Makes kernels for vectors of so many bytes, instead of the target's; apart_bytes: of vectors whose lanes no sum
 * adds to each other. */
void msc_nest_set_vector_bytes(msc_nester *n, int bytes, int apart_bytes);
/* Why the last op that was asked for cannot be a kernel; valid until the next one is. */
const char *msc_nest_why(const msc_nester *n);
/* Makes the launches of an op, fused or single, in the arena. False: the op cannot be a kernel. */
bool msc_nest_launches(msc_nester *n, msc_arena *arena, const msc_op *op, msc_nest_info *out_info,
                       msc_nest_launch **out_launch);

/* ---- nest/cpu.c, nest/gpu.c: functions of msc_target ---- */

int msc_nest_cpu_lanes(const msc_nester *n);
uint64_t msc_nest_cpu_items(const msc_nester *n);
int64_t msc_nest_cpu_part(const msc_nester *n, int axis);
void msc_nest_cpu_shape(const msc_nester *n, msc_nest_launch *l);

int msc_nest_gpu_lanes(const msc_nester *n);
uint64_t msc_nest_gpu_items(const msc_nester *n);
int64_t msc_nest_gpu_part(const msc_nester *n, int axis);
void msc_nest_gpu_shape(const msc_nester *n, msc_nest_launch *l);

#endif
