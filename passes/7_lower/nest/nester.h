/* nester.h: the working memory of this folder, in which the ops of a region become the program of program.h. */
#ifndef MSC_PASSES_NESTER_H
#define MSC_PASSES_NESTER_H

#include "passes/7_lower/nest/program.h"

enum {
  MAX_VALUES = 256,  /* operands and results of the ops of a region */
  MAX_COORDS = 600,
  MAX_MEMO = 1024,
  VALUE_SLOTS = 512, /* hash table */
};

/* One coordinate of a tensor: an affine form of the axes plus the value of an instruction (i64), or 0. */
typedef struct {
  msc_affine a;
  uint16_t instr;
} msc_coord;

/* A view of a value: the element that is wanted, as a coordinate per dimension. */
typedef struct {
  uint16_t at[MSC_MAX_RANK];
} msc_view;

typedef struct {
  const msc_value *value;
  const msc_op *def;       /* op of the region, or NULL: comes from outside */
  int buffer;              /* outside or result: its buffer, else -1 */
  uint16_t dim_class[MSC_MAX_RANK]; /* nodes of the union-find, 0: size 1, no axis */
  uint16_t once_class[MSC_MAX_RANK]; /* of size 1 since it was reduced: the node it had before; else 0 */
  uint8_t own_axis[2];     /* axis + 1 of a loop that is no dimension of any value; 0: none yet */
} msc_nest_value;

typedef struct {
  uint16_t value, guard, instr;
  msc_view view;
} msc_memo;

/* The context of the instructions that are being made. */
typedef struct {
  uint16_t guard; /* loads are made where this is true; 0: everywhere */
  uint16_t open;  /* axes of the reductions around: mask */
} msc_inside;

/* The walk: how the loops run over the iteration space. */
typedef struct {
  msc_nest_kind kind;
  uint16_t items, reduced, tail; /* masks of axes */
  int lane;                      /* -1: no vectors */
  int across;                    /* TRANSPOSE: the axis along which its operand is contiguous */
  int chunk_axis, clipped;       /* extent of `clipped` = min(itself, chunk_total - chunk_axis * itself); -1: none */
  int64_t chunk_total;
  int64_t blocks, tail_blocks;   /* numbers of blocks of sums over `reduced`, over `tail`; 0: sums in any order */
  int num_phases;
  int num_launches;
  bool by_phase;                 /* each phase has launches of its own, which move `bytes` and do `flops` in all */
  uint64_t bytes, flops;
  uint64_t scratch_begin;        /* offset of the partial sums; results of earlier phases lie before them */
  int strands;                   /* number of strands with threads of their own; 1: all instructions share threads */
} msc_nest_walk;

struct msc_nester {
  msc_context *ctx;
  const msc_target *device; /* what the nester was made for */
  const msc_target *target; /* the device, or its host, for an op that runs there */
  int vector_bytes, apart_bytes; /* bytes of a vector whose lanes are added up, and of any other vector */
  char why[256];
  bool failed;

  size_t num_ops;
  const msc_op *const *ops;
  int num_values;
  msc_nest_value value[MAX_VALUES];
  uint16_t slot[VALUE_SLOTS]; /* value number + 1, by hash of the pointer */
  int num_results;
  uint16_t result[MSC_NEST_BUFFERS];

  int num_classes; /* union-find of dimensions: which are one loop */
  uint16_t parent[MAX_VALUES * MSC_MAX_RANK + 1];
  int64_t size[MAX_VALUES * MSC_MAX_RANK + 1];
  int8_t axis_of[MAX_VALUES * MSC_MAX_RANK + 1]; /* of a root, -1: none yet */

  int num_axes;
  int64_t extent[MSC_NEST_AXES];
  bool used[MSC_NEST_AXES];

  int num_coords;
  msc_coord coord[MAX_COORDS];
  int num_memo;
  msc_memo memo[MAX_MEMO];
  msc_inside inside;
  /* msc_nest_expand, which lies above the files that it calls */
  uint16_t (*expand)(msc_nester *n, int y, const msc_view *view);

  int num_instrs;
  msc_instr instr[MSC_NEST_INSTRS];
  msc_affine at[MSC_NEST_INSTRS];
  uint16_t over[MSC_NEST_INSTRS]; /* REDUCE: mask of axes */
  uint8_t blocks[MSC_NEST_INSTRS]; /* REDUCE: of the op's attribute */
  uint8_t op_blocks;              /* those of the op that is being expanded */
  bool live[MSC_NEST_INSTRS];
  uint8_t strand[MSC_NEST_INSTRS]; /* where there are several */

  int num_buffers;
  msc_nest_buffer buffer[MSC_NEST_BUFFERS];
  int64_t buffer_elems[MSC_NEST_BUFFERS];
  int buffer_number[MSC_NEST_BUFFERS]; /* in the list of msc_kernel_call */
  uint8_t lies_on[MSC_NEST_BUFFERS];   /* of a result: 1 + the buffer of the operand that it overwrites; 0: none */
  uint8_t memory[MSC_NEST_BUFFERS];    /* of an operand: the first buffer in the same memory */
  bool checks;

  int num_dims, num_scalars, num_starts;
  int64_t dims[MSC_NEST_DIMS];
  double scalars[MSC_NEST_SCALARS];
  msc_start start[16];

  msc_nest_walk walk;
};

/* Fails the region with a reason; returns 0 so that evaluation can go on harmlessly. */
uint16_t msc_nest_refuse(msc_nester *n, const char *fmt, ...) MSC_PRINTF(2, 3);

/* ---- nest/axes.c ---- */

/* Collects the values of the ops and finds which of their dimensions are one loop. */
bool msc_nest_collect_values(msc_nester *n);
int msc_nest_add_value(msc_nester *n, const msc_value *v, const msc_op *def);
int msc_nest_find_value(const msc_nester *n, const msc_value *v);
/* Axis of dimension d of value v, made on first use; -1: size 1. */
int msc_nest_axis(msc_nester *n, int v, int d);
/* Axis k, of so many elements, for the evaluation of v alone, which is no dimension of any value; -1: one element. Ops
 * that evaluate v in the same way share it. */
int msc_nest_own_axis(msc_nester *n, int v, int k, int64_t extent);

/* ---- nest/instr.c ---- */

/* Instruction that computes value v at the view, expanding ops into scalar arithmetic. */
uint16_t msc_nest_eval(msc_nester *n, int v, const msc_view *view);
msc_view msc_nest_view_of(msc_nester *n, int v);
/* Element number of a view of a row-major tensor: affine part, and the instruction to add or 0. */
msc_affine msc_nest_offset(msc_nester *n, const msc_type *t, const msc_view *view, uint16_t *out_instr);
uint16_t msc_affine_axes(const msc_affine *a);
msc_dtype msc_compute_dtype(msc_dtype d);

/* ---- nest/expand.c ---- */

/* The instruction that computes value y, a result of an op of the region, at the view; msc_nest_eval asks for it. */
uint16_t msc_nest_expand(msc_nester *n, int y, const msc_view *view);

/* ---- nest/walk.c ---- */

/* Chooses kind, axis groups, lanes and phases for the instructions, orders the axes outer to inner and merges
 * neighbours. */
bool msc_nest_choose_walk(msc_nester *n);
void msc_nest_mark_live(msc_nester *n);
void msc_nest_set_phases(msc_nester *n);
void msc_nest_split_double_reductions(msc_nester *n);
void msc_nest_order_axes(msc_nester *n);
/* Renames axis i to number[i]; -1: the axis is dropped. `num` is the number of axes afterwards. */
void msc_nest_renumber(msc_nester *n, const int8_t *number, int num);
uint64_t msc_nest_points(const msc_nester *n, uint16_t axes);
/* Returns the number of the instruction that adds to places given by indices; 0: there is none. */
int msc_nest_find_scatter(const msc_nester *n);

/* ---- nest/finish.c ---- */

/* Makes a launch from the instructions and the walk. */
void msc_nest_finish(msc_nester *n, msc_arena *arena, msc_nest_launch *out_launch);
void msc_nest_estimate(const msc_nester *n, uint64_t *out_bytes, uint64_t *out_flops);

static inline uint64_t msc_nest_divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* ---- nest/strands.c ---- */

/* Decides whether each strand gets threads of its own, and sets walk.strands. */
void msc_nest_choose_strands(msc_nester *n);

/* ---- nest/split.c ---- */

/* Decides whether the kernel needs several launches, and changes the walk: a long reduction with few items is cut into
 * parts, which a second launch combines; before a sum by index another launch may write zeros. Returns the bytes of
 * scratch between the launches. */
uint64_t msc_nest_choose_split(msc_nester *n);

typedef struct {
  msc_nester *nester;
  const char *suffix; /* as msc_nest_launch */
} msc_nest_part;
/* Lists the launches of the walk in order. A launch is a copy of n in the arena or n itself, which this call may
 * change. */
void msc_nest_split(msc_nester *n, msc_arena *arena, msc_nest_part *out_part);
/* Reserves scratch at byte *offset for one element of each point of the axes, row-major in the order of their numbers,
 * and moves *offset behind it. Returns the place of an element. */
msc_affine msc_nest_scratch_place(const msc_nester *n, uint16_t axes, uint64_t *offset, msc_dtype dtype);

/* ---- nest/by_phase.c ---- */

/* Decides whether each phase runs in launches of its own, and marks the walk. Returns the bytes of scratch; 0: no. */
uint64_t msc_nest_choose_phases(msc_nester *n);
/* The launches of all phases, in order. */
void msc_nest_split_phases(const msc_nester *n, msc_arena *arena, int scratch, msc_nest_part *out_part);

/* ---- nest/known.c ---- */

/* The ops that shall be one kernel. */
typedef struct {
  size_t num_ops, num_in, num_out;
  const msc_op *const *ops;
  const msc_value *const *in;  /* buffers 0 ..; NULL: values from outside in the order they are met */
  const msc_value *const *out; /* buffers after them; NULL: results used outside the ops */
} msc_nest_region;

bool msc_nest_is_used_outside(const msc_nest_region *r, const msc_value *v);
/* Finds the slot in the context that holds the answer to a question about regions equal to this one.  The slot holds
 * NULL until the question is answered.  Returns NULL when the region is too large to compare. */
const void **msc_nest_find_answer(const msc_nester *n, const msc_nest_region *r, uint32_t question);

#endif
