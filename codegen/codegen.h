/* codegen.h: ops with local shapes in; machine code of the plan's kernels, and how they are called, out.
 *
 * A kernel of a CPU is  void kernel(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double
 * *scalars) and computes items [begin, end) of its launch's extent.  Its results never depend on how the extent is cut
 * into items.  A kernel of a GPU has these as separate parameters: each buffer, a pointer aligned to 16 bytes; the
 * extent, an int64_t; each of its dims, an int64_t; each of its scalars, a double.  It is launched as
 * ceil(extent / grain) blocks of msc_kernel.threads threads, in one dimension.
 *
 *   msc_codegen *cg = msc_codegen_begin(ctx, &(msc_code_target){.target = &msc_target_cpu});
 *   msc_kernel_call call;
 *   MSC_TRY(cg && msc_codegen_add(cg, op, &call));           // for each op; equal bodies share one kernel
 *   msc_machine_code code;
 *   MSC_TRY(msc_codegen_finish(cg, &code));                  // all kernels, one blob */
#ifndef MSC_CODEGEN_CODEGEN_H
#define MSC_CODEGEN_CODEGEN_H

#include "ir/abi/builtin.h"
#include "passes/7_lower/nest/program.h"
#include "ir/ir.h"

typedef struct msc_codegen msc_codegen;

/* What code is made for. */
typedef struct {
  const msc_target *target;
  const char *cpu;  /* the CPU's name in codegen/cpu.def, of a GPU's target that of its host; NULL: this machine */
  const msc_loc *cpu_loc; /* where its name was given */
  int arch;         /* CUDA: the GPU to make machine code for, as 90 for sm_90; 0: none, only PTX */
  int vector_bytes; /* of a CPU's vectors: 16, 32 or 64, even if it has none so wide; 0: the fastest */
} msc_code_target;

typedef struct {
  uint32_t kernel;        /* into msc_machine_code.kernel */
  uint64_t extent, grain; /* items; items per work unit, on a GPU per block */
  uint32_t threads;       /* of a GPU's block; 0: for a CPU */
  size_t num_dims, num_scalars, num_starts;
  const int64_t *dims;
  const double *scalars;
  const msc_start *start;
  size_t num_buffers;
  const uint32_t *buffer; /* what to pass: numbers in the list below */
  bool checks;            /* the last of these buffers is the error flag */
  uint64_t bytes, flops; /* estimate: memory traffic, arithmetic */
  uint64_t rows;         /* into so many rows the items divide, as in msc_nest_launch; 0: not known */
  const msc_nest_reach *reach;
} msc_launch;

/* The launches of one op, in order (none for an op without elements). Their buffers are, in this order, the op's
 * operands, its results, a scratch buffer (64-byte aligned) if scratch_bytes > 0, an i32[1] error flag if checks.
 * A launch of kind MSC_NEST_MAP has one item per element, in row-major order of the result's shape: items
 * [r * extent / rows, ...) are whole rows, so it can be a matmul's epilogue on a tile of rows. */
typedef struct {
  size_t num_launches;
  const msc_launch *launch;
  uint64_t scratch_bytes;
  bool checks;  /* the flag gets a msc_kernel_fault when an index or divisor is bad; it starts as 0 */
  bool is_map;  /* one launch of kind MSC_NEST_MAP */
} msc_kernel_call;

typedef struct {
  const char *name; /* unique, from the ops inside: "fused_mul_add_2" */
  uint64_t entry, bytes;
  uint32_t num_buffers, num_dims, num_scalars;
  uint64_t narrow_scalars; /* a GPU's kernel takes them as f32 */
  uint32_t threads;        /* per block of a GPU, where entry and bytes are 0; else 0 */
  msc_builtin builtin;     /* if not MSC_BUILTIN_NONE, the code is in the runtime */
} msc_kernel;

/* The kernels for one GPU architecture. */
typedef struct {
  int arch;               /* compute capability, as 90 */
  bool is_cubin;          /* else PTX, text with a final 0 */
  bool waits;             /* its kernels wait for the end of the kernel before them by themselves */
  const char *bytes;
  size_t num_bytes;
  const char *made_by;
} msc_image;

typedef struct {
  const void *bytes; /* position independent: text, then read-only data on a page of its own; none for a GPU */
  uint64_t num_bytes, text_bytes;
  size_t num_kernels;
  const msc_kernel *kernel;
  const char *cpu;
  size_t num_features;    /* CPU features the code needs, LLVM's names, sorted */
  const char *const *feature;
  size_t num_images;
  const msc_image *image; /* for a GPU, best first */
  const char *text;       /* LLVM IR of all of it; NULL unless msc_codegen_want_text was called */
} msc_machine_code;

/* Kernels of a product c = op(a) op(b), its operands row major:
 *
 *   pack      buffers b, panels;                 dims columns, k, step of b, and for pairs blocks;
 *             items: panels of `width` columns
 *   multiply  buffers a, panels, c, room, bias;  dims columns, k, step of a, step of c, blocks, a is transposed, relu,
 *             step of bias rows (0: one for all), step of b if it is read in place (0: packed);  items: rows of c
 *
 * a, b, c and bias (NULL: none) are the addresses of the tile's first elements; a step is the distance of rows in
 * elements. `blocks` parts of k are summed one by one and added as a tree (see emit/product.c): a power of two that
 * divides k, MSC_MAX_SUM_BLOCKS at most.  ir/abi/product.h says how far panels and room are written.  With a and b of
 * f16 or bf16, c and bias are f32, or c is of their type and there is no bias; panels and room are f32 or pairs of
 * bf16. */
typedef struct {
  uint32_t pack, multiply; /* into msc_machine_code.kernel */
  int width, height;       /* columns of a panel; rows that are multiplied together */
  bool pairs;              /* each element of panels and packed rows holds two terms, of f32 a part of two */
  bool twice;              /* the CPU multiplies two vectors at once, of 64 bytes */
} msc_product_kernels;

/* ---- codegen.c ---- */

/* Begins the code of a plan; NULL after a reported error. */
msc_codegen *msc_codegen_begin(msc_context *ctx, const msc_code_target *target);
/* Adds a fused op, or any single op that is no collective; a matmul becomes a generated kernel, which is slow. */
bool msc_codegen_add(msc_codegen *cg, const msc_op *op, msc_kernel_call *out_call);
/* Adds the kernels of a matrix product of any float type, for a CPU. `block`: how many terms are summed as one block.
 * The kernels of bf16 are chosen by `block`, and never by what may differ between ranks. Returns false if the CPU
 * has no fused multiply-add. */
bool msc_codegen_product(msc_codegen *cg, msc_dtype dtype, bool transpose_b, int64_t block,
                         msc_product_kernels *out_kernels);
/* Adds the kernels of a product of f32 that multiply terms as sums of three numbers of bf16, by AMX. Returns false if
 * the CPU has none. */
bool msc_codegen_product_of_parts(msc_codegen *cg, bool transpose_b, msc_product_kernels *out_kernels);
/* Returns the number of the kernel with which a GPU swaps rows of a cache, of so many bytes (ir/abi/row_cache.h). */
uint32_t msc_codegen_swap(msc_codegen *cg, uint64_t row_bytes);
/* Adds the kernel that multiplies pairs of bf16, for callers that pack panels themselves. Returns false if the CPU has
 * no instructions for it. */
bool msc_codegen_pairs(msc_codegen *cg, uint32_t *out_multiply);
/* Ends the codegen, also when it fails; everything handed out lives in the context's arena. */
bool msc_codegen_finish(msc_codegen *cg, msc_machine_code *out_code);
void msc_codegen_abandon(msc_codegen *cg);
/* Makes msc_codegen_finish set *out_text to the LLVM IR: of a CPU as it is emitted, of a GPU after LLVM's passes. */
void msc_codegen_want_text(msc_codegen *cg, const char **out_text);

#endif
