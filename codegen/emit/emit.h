/* emit.h: programs of kernels in; LLVM IR and machine code out. The only header that includes LLVM's types. */
#ifndef MSC_CODEGEN_EMIT_H
#define MSC_CODEGEN_EMIT_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "codegen/codegen.h"
#include "ir/abi/product.h"
#include "passes/7_lower/builtin.h"
#include "passes/7_lower/nest/program.h"

/* ---- llvm.c: one module for one target ---- */

/* How a CPU multiplies matrices of bf16: it widens each term; or adds two terms with one instruction, vdpbf16ps; or
 * multiplies tiles of 16 rows by AMX, and what is too small for tiles by pairs of terms. */
typedef enum { MSC_BF16_BY_TERMS, MSC_BF16_BY_PAIRS, MSC_BF16_BY_TILES } msc_bf16_way;

typedef struct {
  const char *name;
  int level; /* level of the x86-64 psABI, 1 to 4 */
  msc_bf16_way bf16;
  int vectors; /* of 64 bytes, multiplied at once; 0: it has none, or this is not known */
} msc_cpu;

typedef struct msc_llvm msc_llvm;

typedef struct msc_emit msc_emit;
typedef LLVMValueRef msc_emit_unary_fn(msc_emit *e, LLVMValueRef x);

/* Bytes of the vectors of kernels. */
typedef struct {
  int summed;  /* of kernels that add up the lanes of a vector */
  int apart;   /* of kernels that do not */
  int product; /* of matrix products */
} msc_vector_width;

/* Chooses the widths for a level of x86-64 (vector_width.c). `forced`: 16, 32 or 64, which all widths become; 0: the
 * fastest. */
msc_vector_width msc_choose_vector_width(int level, int forced);

/* Functions of f32 for which a target has instructions. */
typedef struct {
  msc_emit_unary_fn *exp, *sqrt;
  LLVMValueRef (*divide)(msc_emit *e, LLVMValueRef a, LLVMValueRef b);
  msc_emit_unary_fn *to_bf16; /* gives the 16 bits of bf16 as integers */
} msc_llvm_math;

/* An LLVM module for one target. */
typedef struct {
  const char *triple;
  bool (*choose)(msc_llvm *l, const msc_code_target *target); /* sets l->cpu and the sizes of vectors; or reports */
  LLVMTargetMachineRef (*open)(msc_llvm *l);
  bool makes_ptx;
  bool aligns_vectors; /* a vector lies on a multiple of its size, or of 16 bytes */
  bool has_spare;      /* where a guard is false a kernel reads and writes a spare place; else it branches or selects */
  const msc_llvm_math *math; /* NULL: nothing */
} msc_llvm_target;

struct msc_llvm {
  msc_context *ctx;
  const msc_llvm_target *target;
  msc_cpu cpu;
  msc_vector_width width;
  bool has_fma, has_f16c, has_masks; /* masks: loads and stores of any element size */
  LLVMContextRef llvm;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTargetMachineRef machine;
  bool failed;
  char why[256]; /* when failed */
};

bool msc_llvm_open(msc_context *ctx, const msc_code_target *target, msc_llvm *out_llvm);
/* Opens a module for the same target from bitcode, in an LLVM context of its own; false: see msc_llvm_report. */
bool msc_llvm_open_like(const msc_llvm *other, LLVMMemoryBufferRef bitcode, msc_llvm *out_llvm);
void msc_llvm_close(msc_llvm *l);
/* True if nothing failed; else reports LLVM's message and returns false. */
bool msc_llvm_report(const msc_llvm *l, msc_context *ctx);
/* Which PTX a plan carries, newest first; a GPU takes the newest that is not newer than itself. */
enum { MSC_LEAST_ARCH = 80, MSC_NUM_PTX = 2 };
typedef struct {
  int arch;
  const char *cpu, *features;
} msc_ptx_row;
extern const msc_ptx_row msc_ptx_generation[MSC_NUM_PTX];
/* Returns the LLVM machine that makes PTX for one of these architectures. */
LLVMTargetMachineRef msc_llvm_nvptx_machine(msc_llvm *l, int arch);
void msc_llvm_set_attribute(msc_llvm *l, LLVMValueRef fn, const char *name, const char *value);
void msc_llvm_set_flag(msc_llvm *l, LLVMValueRef fn, const char *name);
/* Runs LLVM's own passes over the module; false: see msc_llvm_report. */
bool msc_llvm_run(msc_llvm *l, const char *pipeline);
/* Makes the code of a module, which is used up. NULL: see msc_llvm_report. */
LLVMMemoryBufferRef msc_llvm_emit(msc_llvm *l, LLVMTargetMachineRef machine, LLVMModuleRef module,
                                  LLVMCodeGenFileType type);
/* Adds an empty kernel with the target's attributes. */
LLVMValueRef msc_llvm_kernel(msc_llvm *l, const char *name);
/* Allows a kernel the CPU features beyond its level that products of bf16 use. */
void msc_llvm_allow(msc_llvm *l, LLVMValueRef fn, msc_bf16_way way);
/* msc_product_width returns the columns of a panel: as many as the vectors of sums hold. msc_product_height returns how
 * many rows are multiplied together, so that their sums fit the registers. */
static inline int msc_product_width(const msc_llvm *l, msc_dtype d) {
  return MSC_PRODUCT_VECTORS * l->width.product / (int)msc_product_bytes(msc_dtype_bytes(d));
}
static inline int msc_product_height(const msc_llvm *l) { return l->width.product == 64 ? MSC_PRODUCT_MAX_HEIGHT : 6; }

/* ---- sanitize.c ---- */

/* Adds the address sanitizer's checks to the module's kernels, which then run only in a process with that sanitizer.
 * False: see msc_llvm_report. */
bool msc_sanitize(msc_llvm *l);

/* ---- parallel.c ---- */

enum { MSC_MAX_PARTS = 4 };
/* Calls make(user, i) for each i < num, in as many threads as there are CPUs, MSC_MAX_PARTS at most. */
void msc_run_in_parallel(size_t num, void (*make)(void *user, size_t piece), void *user);

/* ---- parts.c ---- */

/* Optimises and assembles the module; returns an ELF relocatable, or NULL: see msc_llvm_report. */
LLVMMemoryBufferRef msc_llvm_assemble(msc_llvm *l);
/* Assembles the module in parts at the same time. The caller owns the objects, which are NULL where there is none;
 * false after a report. */
bool msc_parts_assemble(msc_llvm *l, size_t *out_num, LLVMMemoryBufferRef out_object[MSC_MAX_PARTS]);

/* ---- cpu.c ---- */

size_t msc_cpu_count(void);
msc_cpu msc_cpu_row(size_t i);
/* Finds a CPU by name; NULL or "native": this machine. False after an error that suggests a name. */
bool msc_cpu_choose(msc_context *ctx, const char *name, msc_cpu *out_cpu);
/* Returns the level of a CPU by its name; NULL or "native": this machine's; 1 for unknown names. */
int msc_cpu_level(const char *name);
/* Returns the name that stands for all CPUs of a level. */
const char *msc_cpu_plain(int level);
/* Returns the features of a level, by LLVM's names, sorted. */
const char *const *msc_cpu_features(int level, size_t *out_num);
/* Returns the features beyond level 4 that products of bf16 use, by LLVM's names, sorted. */
const char *const *msc_cpu_bf16_features(msc_bf16_way way, size_t *out_num);

/* ---- nvptx.c ---- */

extern const char msc_nvptx_pipeline[];
/* Returns a mask of the scalars of a program that its kernel takes as f32. */
uint64_t msc_nvptx_narrow_scalars(const msc_program *p);
/* Adds an empty kernel whose parameters are the program's buffers, the extent, dims and scalars, one by one. */
LLVMValueRef msc_nvptx_kernel(msc_llvm *l, const char *name, const msc_program *p);
/* Allows all kernels so far the operations that a GPU computes faster than IEEE 754 demands. */
void msc_nvptx_relax(msc_llvm *l);
/* Makes images of the module: PTX for every generation of GPUs, the newest first. */
bool msc_nvptx_images(msc_llvm *l, msc_arena *arena, msc_machine_code *out_code);

/* ---- object.c ---- */

typedef struct {
  const char *name;
  uint64_t entry, bytes;
} msc_symbol;

typedef struct {
  const void *elf; /* a relocatable */
  size_t bytes;
} msc_object;

/* Links ELF relocatables into one position-independent blob: text, then read-only data from the next page on. Fails on
 * a symbol or relocation that would need a loader. */
bool msc_object_link(msc_context *ctx, msc_arena *arena, size_t num, const msc_object *object,
                     msc_machine_code *out_code, size_t *out_num, msc_symbol **out_symbol);

/* ---- where code is emitted: the values of instructions at the current point; shared by targets ---- */

enum { MSC_COPIES = MSC_COLUMN_VECTORS };

struct msc_emit {
  msc_llvm *l;
  LLVMBuilderRef b;
  LLVMValueRef fn;
  const msc_program *p;
  LLVMValueRef buffer[MSC_NEST_BUFFERS], dim[MSC_NEST_DIMS];
  LLVMValueRef scalars;             /* where they are in memory; NULL: ... */
  LLVMValueRef scalar[MSC_NEST_SCALARS]; /* ... here they are */
  LLVMValueRef axis[MSC_NEST_AXES];      /* i64: positions; of the lane axis that of the first lane, less lane_offset */
  int lane_offset;
  LLVMValueRef mask;                /* <lanes x i1> of lanes that exist; NULL: all */
  LLVMValueRef spare;               /* 256 bytes on the stack: zeros to load where a guard is false; not on a GPU */
  LLVMValueRef sink;                /* 256 bytes on the stack: lanes that must store nothing store here */
  int copy;                         /* number of this vector among those that are computed side by side */
  LLVMValueRef value[MSC_NEST_INSTRS][MSC_COPIES];
};

/* ---- emit/build.c ---- */

bool msc_emit_varies(const msc_emit *e, int instr); /* along the lanes */
LLVMTypeRef msc_emit_type(const msc_emit *e, msc_dtype dtype, int lanes);
LLVMValueRef msc_emit_int(const msc_emit *e, int64_t v); /* i64 */
LLVMValueRef msc_emit_size(const msc_emit *e, int axis);
/* Returns the value of instruction i; if `vector`, a scalar is repeated in all lanes. */
LLVMValueRef msc_emit_get(msc_emit *e, int i, bool vector);
LLVMValueRef msc_emit_splat(const msc_emit *e, LLVMValueRef v, int lanes);
LLVMValueRef msc_emit_unmasked(msc_emit *e, LLVMValueRef v, LLVMValueRef identity); /* `identity` where no lane is */

/* ---- emit/body.c ---- */

/* Computes instruction i from its arguments and keeps it. */
void msc_emit_instr(msc_emit *e, int i);

/* ---- emit/arithmetic.c: reductions ---- */

LLVMValueRef msc_emit_identity(const msc_emit *e, int kind, msc_dtype dtype, int lanes);
LLVMValueRef msc_emit_combine(msc_emit *e, int kind, msc_dtype dtype, LLVMValueRef a, LLVMValueRef b);
/* Reduces all lanes to one value, in a fixed order. */
LLVMValueRef msc_emit_horizontal(msc_emit *e, int kind, msc_dtype dtype, LLVMValueRef v);

/* ---- emit/memory.c ---- */

LLVMValueRef msc_emit_load(msc_emit *e, int i);
/* Loads a vector of neighbouring elements from the first lane's place on, whichever axis the lanes lie along. */
LLVMValueRef msc_emit_load_run(msc_emit *e, int i);
/* Prefetches what the load or store will access at a later position of the axis: `lanes` neighbouring elements. */
void msc_emit_prefetch(msc_emit *e, int i, int axis, int64_t ahead, int lanes);
void msc_emit_store(msc_emit *e, int i);
void msc_emit_scatter(msc_emit *e, int i);
void msc_emit_fill(msc_emit *e, int i);
void msc_emit_check(msc_emit *e, int i);
LLVMValueRef msc_emit_index(msc_emit *e, int i); /* a NEST_INDEX */
/* Convert between an element as it is stored and as it is computed. */
LLVMValueRef msc_emit_widen(msc_emit *e, LLVMValueRef stored, msc_dtype memory);
LLVMValueRef msc_emit_narrow(msc_emit *e, LLVMValueRef value, msc_dtype memory);
LLVMTypeRef msc_emit_stored_type(const msc_emit *e, msc_dtype memory, int lanes);

/* ---- math.c: vectors or scalars of f32 or f64 ---- */

LLVMValueRef msc_math_exp(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_log(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_log2(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_log10(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_tanh(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_erf(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_pow(msc_emit *e, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef msc_math_sin(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_cos(msc_emit *e, LLVMValueRef x);
LLVMValueRef msc_math_atan(msc_emit *e, LLVMValueRef x);

/* ---- nvvm.c: scalars or vectors of f32 by instructions of NVIDIA's GPUs ---- */

extern const msc_llvm_math msc_nvvm_math;
/* Emits exp x for x <= 0. The relative error is (2 + |x|) 2^-23, so the absolute error is at most 2^-22: accurate
 * enough for the terms of a sum that is at least 1, and for the factors that scale such terms. */
LLVMValueRef msc_nvvm_exp_of_term(msc_emit *e, LLVMValueRef x);

/* ---- emit/product.c ---- */

/* The kernels of a product. The kernels of pairs and tiles are for bf16, on CPUs that have the instructions; tiles read
 * the same panels as pairs. Those of parts are for f32, by tiles of bf16. */
#define MSC_PRODUCT_PARTS(X)   \
  X(MSC_PACK)                  \
  X(MSC_PACK_TRANSPOSED)       \
  X(MSC_MULTIPLY)              \
  X(MSC_PACK_PAIRS)            \
  X(MSC_PACK_PAIRS_TRANSPOSED) \
  X(MSC_MULTIPLY_PAIRS)        \
  X(MSC_MULTIPLY_TILES)        \
  X(MSC_PACK_PARTS)            \
  X(MSC_PACK_PARTS_TRANSPOSED) \
  X(MSC_MULTIPLY_PARTS)

typedef enum {
#define X(name) name,
  MSC_PRODUCT_PARTS(X)
#undef X
      MSC_NUM_PRODUCT_PARTS
} msc_product_part;

static inline msc_bf16_way msc_product_way(msc_product_part part) {
  if (part == MSC_MULTIPLY_TILES || part == MSC_MULTIPLY_PARTS) return MSC_BF16_BY_TILES;
  return part < MSC_PACK_PAIRS || part > MSC_MULTIPLY_TILES ? MSC_BF16_BY_TERMS : MSC_BF16_BY_PAIRS;
}
/* True if there is such a kernel. */
static inline bool msc_product_has(int level, msc_product_part part, msc_dtype dtype) {
  if (part >= MSC_PACK_PARTS) return level == 4 && dtype == MSC_F32;
  return level >= 3 && (msc_product_way(part) == MSC_BF16_BY_TERMS || (level == 4 && dtype == MSC_BF16));
}

/* Returns the kernel's name, such as "multiply_f32". */
const char *msc_product_name(msc_context *ctx, msc_product_part part, msc_dtype dtype);
/* Emits the kernel into the module. */
void msc_product_emit(msc_llvm *l, const char *name, msc_product_part part, msc_dtype dtype);
/* Assembles the kernel as an ELF relocatable for all CPUs of a level that has fused multiply-add; NULL after a
 * report. */
LLVMMemoryBufferRef msc_product_assemble(msc_context *ctx, int level, msc_product_part part, msc_dtype dtype);

/* ---- emit/product_pack.c ---- */

/* Emits the body of a kernel that packs columns of b; `pairs`: in pairs of terms. */
void msc_product_emit_pack(msc_llvm *l, msc_dtype dtype, bool transposed, bool pairs, LLVMValueRef fn);

/* ---- emit/product_tiles.c ---- */

/* Rows of an AMX register; rows that are multiplied together, in two registers; pairs of terms in a row of a
 * register. */
enum { MSC_TILE_ROWS = 16, MSC_TILE_HEIGHT = 32, MSC_TILE_PAIRS = MSC_PRODUCT_CHUNK };
/* Emits the body of the kernel that multiplies by AMX: of bf16, or of f32 in parts. */
void msc_product_emit_tiles(msc_llvm *l, msc_dtype dtype, LLVMValueRef fn);

/* ---- emit/product_parts.c ---- */

/* Emits the body of a kernel that packs columns of b, of f32, in parts of bf16. */
void msc_product_emit_split(msc_llvm *l, bool transposed, LLVMValueRef fn);

/* ---- products.c ---- */

/* Returns what msc_product_assemble made when msc was built: making it takes longer than all other kernels of a small
 * network. */
msc_object msc_product_object(int level, msc_product_part part, msc_dtype dtype);

/* ---- emit/cpu.c ---- */

/* Completes the function of a CPU's kernel: loops around the program's body. */
void msc_emit_cpu(msc_llvm *l, const msc_program *p, LLVMValueRef fn);

/* ---- emit/cuda.c ---- */

/* Completes the function of a GPU's kernel: blocks and threads around the program's body. */
void msc_emit_cuda(msc_llvm *l, const msc_program *p, LLVMValueRef fn);

/* ---- emit/cuda_order.c ---- */

enum { MSC_ORDER_THREADS = 128 };
/* The further dims of a sort on a GPU: the length of runs; where elements and indices come from and go to, as bytes in
 * working memory, -1: the results; how far indices lie behind their elements there; steps of a search in a run. */
enum {
  MSC_GPU_SORT_RUN = MSC_SORT_DIMS,
  MSC_GPU_SORT_FROM,
  MSC_GPU_SORT_TO,
  MSC_GPU_SORT_INDICES,
  MSC_GPU_SORT_STEPS,
  MSC_GPU_SORT_DIMS
};
/* Those of `unique`: where in working memory the indices of the sorted elements lie, which themselves are at its begin,
 * and the threads' numbers. */
enum { MSC_GPU_UNIQUE_INDICES = MSC_UNIQUE_DIMS, MSC_GPU_UNIQUE_COUNTS, MSC_GPU_UNIQUE_DIMS };
/* That of a lazy update's parts: the steps of a search by halves among the numbers. */
enum { MSC_GPU_LAZY_STEPS = MSC_LAZY_DIMS, MSC_GPU_LAZY_DIMS };
/* What a launch does for its op: all, or what is left behind other launches, which merge the runs of a sort, add up
 * parts of the gradients of a lazy update, or clear and make the claims of an update. */
typedef enum { MSC_GPU_LAST, MSC_GPU_MERGE, MSC_GPU_PARTS, MSC_GPU_CLEAR, MSC_GPU_CLAIM } msc_gpu_step;
/* A launch of a builtin, and which buffers of the op it takes. */
typedef struct {
  msc_builtin_launch launch;
  msc_gpu_step step;
  size_t num_buffers;
  uint32_t buffer[MSC_MOST_BUILTIN_BUFFERS + 1]; /* and working memory */
} msc_builtin_call;
/* Returns the launches on a GPU of a builtin whose op has so many buffers. */
msc_builtin_call *msc_cuda_order_launches(msc_arena *arena, const msc_builtin_launch *l, size_t num_buffers,
                                          size_t *out_num);
/* Emits a kernel of ir/abi/builtin.h for a GPU; element types and kinds are part of the code. */
void msc_emit_cuda_order(msc_llvm *l, const msc_builtin_call *launch, LLVMValueRef fn);

/* ---- emit/cuda_swap.c ---- */

/* Emits the kernel that swaps rows of a cache on a GPU, in units of so many bytes: a power of two, 16 at most. */
void msc_emit_cuda_swap(msc_llvm *l, uint64_t unit, LLVMValueRef fn);

#endif
