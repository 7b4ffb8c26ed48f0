/* codegen.c: ops in, one blob of kernels and how to call them out.  Programs of equal bytes share one kernel. */
#include "codegen/codegen.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "codegen/emit/emit.h"
#include "ir/abi/row_cache.h"
#include "ir/sanitized.h"
#include "ir/table.h"
#include "passes/7_lower/builtin.h"
#include "passes/7_lower/nest/program.h"

typedef struct {
  msc_program program;
  uint32_t number;
  const char *name;
  msc_builtin builtin; /* if not NONE, `program` says only how many buffers and dims there are */
  msc_object object;   /* code that was compiled when msc was built, else empty */
} entry;

typedef struct {
  const char *name; /* interned */
  uint64_t number;  /* in `whole` the kernel's number; in `bases` how many kernels have this name */
} named;

/* How the code of a target is put together. */
typedef struct {
  const char *separator; /* between a kernel's name and its number */
  void (*emit)(msc_codegen *cg, const entry *k);
  /* makes the kernel of a builtin's launch, or marks it as one of the runtime's */
  void (*make_builtin)(msc_codegen *cg, entry *k, const msc_builtin_call *b);
  bool by_name; /* kernels are found by name when the plan is opened; else by their offset in the blob */
  bool (*finish)(msc_codegen *cg, msc_machine_code *out);
} code_kind;

struct msc_codegen {
  msc_context *ctx;
  const code_kind *kind;
  msc_code_target target;
  msc_arena *arena;   /* the context's */
  msc_arena *scratch; /* of the op at hand */
  msc_llvm llvm;
  msc_nester *nester;
  uint32_t num;
  entry **kernel;          /* by number */
  msc_index programs;      /* kernels of loop nests, by their programs */
  MSC_TABLE(named) whole;  /* kernels of the runtime and of products, by names that say all that they depend on */
  MSC_TABLE(named) bases;  /* names of all kernels */
  msc_bf16_way bf16;       /* the most special instructions that any kernel uses */
  const char **out_text; /* NULL: nobody wants it */
};

static const code_kind x86, nvptx;

msc_codegen *msc_codegen_begin(msc_context *ctx, const msc_code_target *target) {
  msc_codegen *cg = msc_new(msc_context_arena(ctx), msc_codegen);
  cg->ctx = ctx, cg->target = *target, cg->arena = msc_context_arena(ctx);
  cg->programs.arena = cg->whole.index.arena = cg->bases.index.arena = cg->arena;
  cg->nester = msc_nester_new(ctx, cg->arena, target->target);
  if (!msc_llvm_open(ctx, target, &cg->llvm)) return NULL;
  cg->kind = cg->llvm.target->makes_ptx ? &nvptx : &x86;
  cg->scratch = msc_arena_new(ctx);
  msc_nest_set_vector_bytes(cg->nester, cg->llvm.width.summed, cg->llvm.width.apart);
  return cg;
}

/* ---- one copy per distinct body ---- */

static uint64_t hash_program(const msc_program *p) {
  return XXH3_64bits_withSeed(p->instr, sizeof *p->instr * p->head.num_instrs, XXH3_64bits(&p->head, sizeof p->head));
}

static bool same_program(const msc_program *a, const msc_program *b) {
  return !memcmp(&a->head, &b->head, sizeof a->head) &&
         !memcmp(a->instr, b->instr, sizeof *a->instr * a->head.num_instrs);
}

/* Returns the name of a fused kernel, "fused_mul_add": the ops inside it, up to 40 letters. */
static const char *base_name(msc_codegen *cg, const msc_op *op, const char *suffix) {
  char text[64];
  size_t n = (size_t)snprintf(text, sizeof text, "%s", msc_kind_name(op->kind));
  for (const msc_op *o = op->kind == OP_fused ? op->body->first : NULL; o && o->kind != OP_yield; o = o->next) {
    const char *word = msc_kind_name(o->kind);
    if (msc_is_constant_op(o) || n + strlen(word) + 1 > 40) continue;
    n += (size_t)snprintf(text + n, sizeof text - n, "_%s", word);
  }
  return msc_arena_printf(cg->arena, "%s%s", text, suffix);
}

static const char *unique_name(msc_codegen *cg, const char *base) {
  base = msc_intern(cg->ctx, base);
  uint64_t taken = msc_table_at(&cg->bases, &base)->number++;
  return taken ? msc_arena_printf(cg->arena, "%s%s%" PRIu64, base, cg->kind->separator, taken + 1) : base;
}

/* Adds a kernel; if another has its name, a number is appended to the name. */
static entry *add_kernel_entry(msc_codegen *cg, const entry *fresh) {
  entry *k = msc_arena_copy(cg->arena, fresh, sizeof *fresh);
  k->name = unique_name(cg, k->name);
  msc_grow(cg->arena, cg->kernel, cg->num);
  k->number = cg->num, cg->kernel[cg->num++] = k;
  return k;
}

/* Adds a kernel that find_kernel_named is to find by its name. */
static entry *add_named_kernel(msc_codegen *cg, const entry *fresh) {
  const char *name = msc_intern(cg->ctx, fresh->name);
  entry *k = add_kernel_entry(cg, fresh);
  msc_table_at(&cg->whole, &name)->number = k->number;
  return k;
}

static entry *find_kernel_named(msc_codegen *cg, const char *name) {
  name = msc_intern(cg->ctx, name);
  const named *n = msc_table_find(&cg->whole, &name);
  return n ? cg->kernel[n->number] : NULL;
}

/* Returns the entry of this program, which is made if there is none; NULL after a report. */
static entry *find_or_make(msc_codegen *cg, const msc_program *p, const msc_op *op, const char *suffix) {
  uint64_t hash = hash_program(p);
  MSC_INDEX_EACH(&cg->programs, hash, i)
  if (same_program(&cg->kernel[i]->program, p)) return cg->kernel[i];
  const char *fault = msc_nest_find_fault(p, cg->arena);
  if (fault) {
    msc_op_error(op, MSC_E_INTERNAL, "%s: its kernel is wrong: %s\n%s", msc_kind_name(op->kind), fault,
                 msc_nest_text(p, cg->arena));
    return NULL;
  }
  entry *k = add_kernel_entry(cg, &(entry){.program = *p, .name = base_name(cg, op, suffix)});
  k->program.instr = msc_arena_copy(cg->arena, p->instr, p->head.num_instrs * sizeof *p->instr);
  msc_index_add(&cg->programs, hash, k->number);
  cg->kind->emit(cg, k);
  return k;
}

/* The name of each builtin. Its first dim is its element type, but for pools; the second one is the type of its
 * indices, but for scans. */
_Static_assert(!MSC_SCAN_DTYPE && !MSC_SORT_DTYPE && !MSC_UNIQUE_DTYPE && !MSC_UPDATE_DTYPE &&
                   !MSC_LAZY_DTYPE && MSC_LAZY_INDEX_DTYPE == 1 &&
                   MSC_SORT_INDEX_DTYPE == 1 && MSC_UNIQUE_INDEX_DTYPE == 1 && MSC_UPDATE_INDEX_DTYPE == 1 &&
                   !MSC_SEGMENTS_DTYPE && MSC_SEGMENTS_INDEX_DTYPE == 1,
               "types of values, of indices");

/* Returns the name of a builtin with everything that its code depends on, "sort_f32_i64". */
static const char *builtin_name(msc_codegen *cg, const msc_builtin_call *c) {
  const msc_builtin_launch *b = &c->launch;
  static const char *const names[MSC_NUM_BUILTINS] = {"",     "scan", "sort", "unique",
                                                           "update", "pool", "lazy", "segments"},
                           *const scans[MSC_NUM_SCANS] = {"scan_sum", "scan_prod", "scan_prod_grad"};
  static const char *const lazy[MSC_NUM_LAZY] = {"lazy_sgd", "lazy_momentum", "lazy_adagrad", "lazy_adam"};
  static const char *const pools[MSC_NUM_POOLINGS] = {"max_pool", "max_pool_index", "max_pool_grad"};
  if (b->number == MSC_BUILTIN_POOLING) return pools[b->dims[MSC_POOLING_KIND]];
  const char *dtype = msc_dtype_name((msc_dtype)b->dims[0]);
  if (b->number == MSC_BUILTIN_LAZY)
    return msc_arena_printf(cg->arena, "%s%s_%s_%s%s%s%s%s", lazy[b->dims[MSC_LAZY_KIND]],
                            c->step == MSC_GPU_PARTS ? "_parts"
                            : b->scratch_bytes       ? "_of_parts"
                                                     : "",
                            dtype, msc_dtype_name((msc_dtype)b->dims[MSC_LAZY_INDEX_DTYPE]),
                            b->dims[MSC_LAZY_GIVEN] & MSC_LAZY_OK ? "_ok" : "",
                            b->dims[MSC_LAZY_GIVEN] & MSC_LAZY_RATE ? "_rate" : "",
                            b->dims[MSC_LAZY_GIVEN] & MSC_LAZY_NESTEROV ? "_nesterov" : "",
                            b->dims[MSC_LAZY_GIVEN] & MSC_LAZY_PAIR ? "_pair" : "");
  if (b->number == MSC_BUILTIN_SCAN) return msc_arena_printf(cg->arena, "%s_%s", scans[b->dims[MSC_SCAN_KIND]], dtype);
  const char *first = c->step == MSC_GPU_MERGE   ? "merge"
                      : c->step == MSC_GPU_CLEAR ? "update_clear"
                      : c->step == MSC_GPU_CLAIM ? "update_claim"
                                                 : names[b->number];
  return msc_arena_printf(cg->arena, "%s_%s_%s", first, dtype, msc_dtype_name((msc_dtype)b->dims[1]));
}

static entry *find_or_make_builtin(msc_codegen *cg, const msc_builtin_call *c) {
  const char *name = builtin_name(cg, c);
  entry *k = find_kernel_named(cg, name), fresh = {.program.head = {.num_buffers = (uint8_t)c->num_buffers,
                                                                    .num_dims = (uint8_t)c->launch.num_dims,
                                                                    .num_scalars = (uint8_t)c->launch.num_scalars},
                                                   .name = name};
  if (k) return k;
  k = add_named_kernel(cg, &fresh);
  cg->kind->make_builtin(cg, k, c);
  return k;
}

static msc_launch launch_of_builtin(msc_codegen *cg, const msc_builtin_call *c) {
  const msc_builtin_launch *b = &c->launch;
  const entry *k = find_or_make_builtin(cg, c);
  return (msc_launch){.kernel = k->number,
                      .extent = b->extent,
                      .grain = b->grain,
                      .threads = k->program.head.threads,
                      .num_dims = b->num_dims,
                      .num_scalars = b->num_scalars,
                      .num_starts = b->num_starts,
                      .dims = b->dims,
                      .scalars = b->scalars,
                      .start = b->start,
                      .num_buffers = c->num_buffers,
                      .buffer = c->buffer,
                      .checks = b->checks,
                      .bytes = b->bytes,
                      .flops = b->flops};
}

/* The one launch of a builtin of the runtime, with all buffers of its op. */
static msc_builtin_call *launch_in_runtime(msc_codegen *cg, const msc_builtin_launch *b, size_t num_buffers) {
  msc_builtin_call *c = msc_new(cg->arena, msc_builtin_call);
  c->launch = *b, c->num_buffers = num_buffers;
  for (size_t i = 0; i < num_buffers; i++) c->buffer[i] = (uint32_t)i;
  return c;
}

static bool add_builtin(msc_codegen *cg, const msc_op *op, const msc_builtin_launch *b, msc_kernel_call *out) {
  size_t num_buffers = (size_t)op->num_in + op->num_out + (b->scratch_bytes > 0) + b->checks, num = 1;
  msc_builtin_call *list = cg->llvm.target->makes_ptx ? msc_cuda_order_launches(cg->arena, b, num_buffers, &num)
                                                      : launch_in_runtime(cg, b, num_buffers);
  msc_launch *launch = msc_new_array(cg->arena, msc_launch, num);
  for (size_t i = 0; i < num; i++) launch[i] = launch_of_builtin(cg, &list[i]);
  *out =
      (msc_kernel_call){.num_launches = num, .launch = launch, .scratch_bytes = b->scratch_bytes, .checks = b->checks};
  return true;
}

bool msc_codegen_add(msc_codegen *cg, const msc_op *op, msc_kernel_call *out) {
  msc_nest_info info;
  msc_nest_launch *nest;
  msc_builtin_launch builtin;
  memset(out, 0, sizeof *out);
  if (msc_builtin_of(op, &builtin)) return add_builtin(cg, op, &builtin, out);
  msc_arena_reset(cg->scratch);
  if (!msc_nest_launches(cg->nester, cg->scratch, op, &info, &nest))
    return msc_op_error(op, MSC_E_INTERNAL, "%s: no kernel: %s", msc_kind_name(op->kind), msc_nest_why(cg->nester));
  msc_launch *launch = msc_new_array(cg->arena, msc_launch, info.num_launches);
  for (int i = 0; i < info.num_launches; i++) {
    const msc_nest_launch *l = &nest[i];
    const msc_program_head *h = &l->program.head;
    entry *k = find_or_make(cg, &l->program, op, l->suffix);
    if (!k) return false;
    launch[i] =
        (msc_launch){.kernel = k->number,
                     .extent = l->extent,
                     .grain = l->grain,
                     .threads = h->threads,
                     .num_dims = h->num_dims,
                     .num_scalars = h->num_scalars,
                     .num_starts = l->num_starts,
                     .dims = msc_arena_copy(cg->arena, l->dims, h->num_dims * sizeof *l->dims),
                     .scalars = msc_arena_copy(cg->arena, l->scalars, h->num_scalars * sizeof *l->scalars),
                     .start = msc_arena_copy(cg->arena, l->start, l->num_starts * sizeof *l->start),
                     .num_buffers = h->num_buffers,
                     .buffer = msc_arena_copy(cg->arena, l->buffer, h->num_buffers * sizeof *l->buffer),
                     .checks = h->flag >= 0,
                     .bytes = l->bytes,
                     .flops = l->flops,
                     .rows = l->rows,
                     .reach = msc_arena_copy(cg->arena, l->reach, l->rows ? h->num_buffers * sizeof *l->reach : 0)};
  }
  *out = (msc_kernel_call){.num_launches = (size_t)info.num_launches,
                           .launch = launch,
                           .scratch_bytes = info.scratch_bytes,
                           .checks = info.checks,
                           .is_map = info.kind == MSC_NEST_MAP && info.num_launches == 1};
  return msc_llvm_report(&cg->llvm, cg->ctx);
}

/* ---- products ---- */

/* Returns how products of bf16 with blocks of this length are multiplied. With vectors of 16 or 32 bytes, which stand
 * for older CPUs, they are multiplied as on those. */
static msc_bf16_way bf16_way(const msc_codegen *cg, msc_dtype dtype, int64_t block) {
  /* The least lengths of blocks. In a block of 2 terms adding its sum to the others takes longer than computing it by
   * tiles; in an odd block half of a pair is unused. */
  enum { LEAST_OF_TILES = 4, LEAST_OF_ODD = 5 };
  msc_bf16_way most = cg->llvm.width.product == 64 ? cg->llvm.cpu.bf16 : MSC_BF16_BY_TERMS;
  if (dtype != MSC_BF16 || most == MSC_BF16_BY_TERMS || (block % 2 && block < LEAST_OF_ODD)) return MSC_BF16_BY_TERMS;
  return most == MSC_BF16_BY_TILES && block >= LEAST_OF_TILES ? MSC_BF16_BY_TILES : MSC_BF16_BY_PAIRS;
}

static uint32_t product_kernel(msc_codegen *cg, msc_product_part part, msc_dtype dtype, int num_buffers, int num_dims) {
  const char *name = msc_product_name(cg->ctx, part, dtype);
  const entry *k = find_kernel_named(cg, name);
  if (k) return k->number;
  entry fresh = {.program.head = {.num_buffers = (uint8_t)num_buffers, .num_dims = (uint8_t)num_dims}, .name = name};
  if (cg->target.vector_bytes) msc_product_emit(&cg->llvm, name, part, dtype);
  else fresh.object = msc_product_object(cg->llvm.cpu.level, part, dtype);
  return add_named_kernel(cg, &fresh)->number;
}

static const struct {
  msc_product_part pack, pack_transposed, multiply;
} parts_of[] = {[MSC_BF16_BY_TERMS] = {MSC_PACK, MSC_PACK_TRANSPOSED, MSC_MULTIPLY},
                [MSC_BF16_BY_PAIRS] = {MSC_PACK_PAIRS, MSC_PACK_PAIRS_TRANSPOSED, MSC_MULTIPLY_PAIRS},
                [MSC_BF16_BY_TILES] = {MSC_PACK_PAIRS, MSC_PACK_PAIRS_TRANSPOSED, MSC_MULTIPLY_TILES}};

static uint32_t multiply_kernel(msc_codegen *cg, msc_bf16_way way, msc_dtype dtype) {
  if (way > cg->bf16) cg->bf16 = way;
  return product_kernel(cg, parts_of[way].multiply, dtype, 5, 10);
}

bool msc_codegen_product(msc_codegen *cg, msc_dtype dtype, bool transpose_b, int64_t block, msc_product_kernels *out) {
  if (!cg->llvm.has_fma) return false;
  msc_bf16_way way = bf16_way(cg, dtype, block);
  out->pack = product_kernel(cg, transpose_b ? parts_of[way].pack_transposed : parts_of[way].pack, dtype, 2,
                             way == MSC_BF16_BY_TERMS ? 3 : 4);
  out->multiply = multiply_kernel(cg, way, dtype);
  out->width = msc_product_width(&cg->llvm, dtype), out->height = msc_product_height(&cg->llvm);
  if (way == MSC_BF16_BY_TILES) out->height = MSC_TILE_HEIGHT;
  out->pairs = way != MSC_BF16_BY_TERMS;
  out->twice = cg->llvm.cpu.vectors > 1 && cg->llvm.width.product == 64;
  return true;
}

bool msc_codegen_product_of_parts(msc_codegen *cg, bool transpose_b, msc_product_kernels *out) {
  if (cg->llvm.width.product != 64 || cg->llvm.cpu.bf16 != MSC_BF16_BY_TILES) return false;
  cg->bf16 = MSC_BF16_BY_TILES;
  *out = (msc_product_kernels){
      .pack = product_kernel(cg, transpose_b ? MSC_PACK_PARTS_TRANSPOSED : MSC_PACK_PARTS, MSC_F32, 2, 4),
      .multiply = product_kernel(cg, MSC_MULTIPLY_PARTS, MSC_F32, 5, 10),
      .width = msc_product_width(&cg->llvm, MSC_F32),
      .height = MSC_TILE_HEIGHT,
      .pairs = true};
  return true;
}

bool msc_codegen_pairs(msc_codegen *cg, uint32_t *out_multiply) {
  msc_bf16_way way = bf16_way(cg, MSC_BF16, 2 * MSC_PRODUCT_CHUNK);
  if (way == MSC_BF16_BY_TERMS) return false;
  *out_multiply = multiply_kernel(cg, way, MSC_BF16);
  return true;
}

uint32_t msc_codegen_swap(msc_codegen *cg, uint64_t row_bytes) {
  uint64_t unit = msc_row_unit(row_bytes);
  const char *name = msc_arena_printf(cg->arena, "swap_rows_%" PRIu64, unit);
  const entry *k = find_kernel_named(cg, name);
  entry fresh = {.program.head = {.num_buffers = MSC_ROW_SWAP_BUFFERS,
                                  .num_dims = MSC_ROW_SWAP_DIMS,
                                  .threads = MSC_ROW_SWAP_THREADS},
                 .name = name};
  if (k) return k->number;
  k = add_named_kernel(cg, &fresh);
  msc_emit_cuda_swap(&cg->llvm, unit, msc_nvptx_kernel(&cg->llvm, k->name, &k->program));
  return k->number;
}

void msc_codegen_want_text(msc_codegen *cg, const char **out_text) { cg->out_text = out_text; }

static const char *print_ir(msc_codegen *cg) {
  char *text = LLVMPrintModuleToString(cg->llvm.module);
  const char *copy = msc_arena_printf(cg->arena, "%s", text);
  LLVMDisposeMessage(text);
  return copy;
}

void msc_codegen_abandon(msc_codegen *cg) {
  msc_llvm_close(&cg->llvm);
  if (cg->scratch) msc_arena_free(cg->scratch);
  cg->scratch = NULL;
}

/* ---- the blob ---- */

static const msc_symbol *find_symbol(const msc_symbol *symbol, size_t num, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(symbol[i].name, name)) return &symbol[i];
  return NULL;
}

static bool list_kernels(msc_codegen *cg, const msc_symbol *symbol, size_t num, msc_machine_code *out) {
  msc_kernel *list = msc_new_array(cg->arena, msc_kernel, cg->num);
  for (uint32_t i = 0; i < cg->num; i++) {
    const entry *k = cg->kernel[i];
    const msc_symbol none = {0}, *s = k->builtin || cg->kind->by_name ? &none : find_symbol(symbol, num, k->name);
    if (!s) return msc_error(cg->ctx, MSC_E_INTERNAL, NULL, "object: kernel %s is missing", k->name);
    list[k->number] = (msc_kernel){.name = k->name,
                                   .entry = s->entry,
                                   .bytes = s->bytes,
                                   .num_buffers = k->program.head.num_buffers,
                                   .num_dims = k->program.head.num_dims,
                                   .num_scalars = k->program.head.num_scalars,
                                   .narrow_scalars = k->program.head.is_gpu ? msc_nvptx_narrow_scalars(&k->program) : 0,
                                   .threads = k->program.head.threads,
                                   .builtin = k->builtin};
  }
  out->kernel = list, out->num_kernels = cg->num;
  return true;
}

typedef struct {
  msc_codegen *cg;
  size_t num;
  LLVMMemoryBufferRef object[MSC_MAX_PARTS];
  msc_machine_code *out;
} linking;

static bool link_kernels(msc_context *ctx, void *arg) {
  linking *l = arg;
  size_t num = 0, symbols = 0;
  msc_symbol *symbol = NULL;
  msc_object *object = msc_new_array(l->cg->arena, msc_object, l->num + l->cg->num);
  for (; num < l->num; num++)
    object[num] = (msc_object){LLVMGetBufferStart(l->object[num]), LLVMGetBufferSize(l->object[num])};
  for (uint32_t i = 0; i < l->cg->num; i++)
    if (l->cg->kernel[i]->object.elf) object[num++] = l->cg->kernel[i]->object;
  return msc_object_link(ctx, l->cg->arena, num, object, l->out, &symbols, &symbol) &&
         list_kernels(l->cg, symbol, symbols, l->out);
}

/* ---- NVIDIA's GPUs ---- */

static void emit_nvptx(msc_codegen *cg, const entry *k) {
  msc_emit_cuda(&cg->llvm, &k->program, msc_nvptx_kernel(&cg->llvm, k->name, &k->program));
}

static void make_nvptx_builtin(msc_codegen *cg, entry *k, const msc_builtin_call *c) {
  k->program.head.threads = (uint16_t)c->launch.grain;
  msc_emit_cuda_order(&cg->llvm, c, msc_nvptx_kernel(&cg->llvm, k->name, &k->program));
}

static bool finish_nvptx(msc_codegen *cg, msc_machine_code *out) {
  *out = (msc_machine_code){.cpu = ""};
  msc_nvptx_relax(&cg->llvm);
  bool ok = msc_llvm_run(&cg->llvm, msc_nvptx_pipeline) || msc_llvm_report(&cg->llvm, cg->ctx);
  if (ok && cg->out_text) *cg->out_text = print_ir(cg);
  /* a plan without kernels has no code: libraries compute everything */
  if (cg->num) ok = ok && msc_nvptx_images(&cg->llvm, cg->arena, out) && list_kernels(cg, NULL, 0, out);
  msc_codegen_abandon(cg);
  return ok;
}

static const code_kind nvptx = {"__" /* PTX allows no dots in names */, emit_nvptx, make_nvptx_builtin, true,
                                finish_nvptx};

/* ---- CPUs ---- */

static void emit_x86(msc_codegen *cg, const entry *k) {
  msc_emit_cpu(&cg->llvm, &k->program, msc_llvm_kernel(&cg->llvm, k->name));
}

/* Marks a builtin as a kernel of the runtime. */
static void use_runtime_builtin(msc_codegen *cg, entry *k, const msc_builtin_call *b) {
  (void)cg;
  k->builtin = b->launch.number;
}

static int compare_kernel_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void set_features(msc_codegen *cg, msc_machine_code *out) {
  size_t num, more;
  const char *const *cpu = msc_cpu_features(cg->llvm.cpu.level, &num), *const *also =
                                                                           msc_cpu_bf16_features(cg->bf16, &more);
  const char **all = msc_new_array(cg->arena, const char *, num + more + 1);
  if (MSC_SANITIZED) all[out->num_features++] = "address-sanitizer"; /* of the process, not the CPU: see sanitize.c */
  for (size_t i = 0; i < num; i++) all[out->num_features++] = cpu[i];
  for (size_t i = 0; i < more; i++) all[out->num_features++] = also[i];
  qsort(all, out->num_features, sizeof *all, compare_kernel_names);
  out->feature = all;
}

static bool finish_x86(msc_codegen *cg, msc_machine_code *out) {
  *out = (msc_machine_code){.cpu = cg->llvm.cpu.name};
  if (cg->out_text) *cg->out_text = print_ir(cg);
  set_features(cg, out);
  linking l = {.cg = cg, .out = out};
  /* the objects are not in the arena: they are freed in any case */
  bool ok = msc_parts_assemble(&cg->llvm, &l.num, l.object) && msc_protect(cg->ctx, link_kernels, &l);
  for (size_t i = 0; i < l.num; i++)
    if (l.object[i]) LLVMDisposeMemoryBuffer(l.object[i]);
  msc_codegen_abandon(cg);
  return ok;
}

static const code_kind x86 = {".", emit_x86, use_runtime_builtin, false, finish_x86};

bool msc_codegen_finish(msc_codegen *cg, msc_machine_code *out) { return cg->kind->finish(cg, out); }
