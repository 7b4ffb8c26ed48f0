/* kernels.h: compares the numbers of functions by the interpreter and by generated kernels. All cases of a test
 * share one module of machine code. Every buffer ends at a page that cannot be accessed, so a read or write beyond
 * it stops the test. With MSC_TEST_TARGET=cuda kernels are for a GPU and are emulated, with threads that progress in
 * several orders. */
#ifndef MSC_TESTS_CODEGEN_KERNELS_H
#define MSC_TESTS_CODEGEN_KERNELS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "ir/interp/interp.h"
#include "passes/7_lower/builtin.h"
#include "runtime/kernels/builtin.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/ir/one_op.h"

enum { MOST_OPERANDS = 300, MOST_BUFFERS = MOST_OPERANDS + 20 };

typedef struct {
  const char *what;
  msc_func *func;
  double low, high;   /* range of inputs */
  bool reordered;     /* sums: another order than the interpreter's */
  bool unordered;     /* and another in each run */
  const msc_op *op;
  msc_kernel_call call;
  msc_tensor in[MOST_OPERANDS], expected[MOST_OPERANDS];
  int faults;         /* expected in the flag */
} kernel_case;

typedef struct {
  msc_context *ctx;
  msc_codegen *cg;
  msc_machine_code code;
  char *memory;       /* the code, where it runs */
  emulator *gpu;      /* or who runs it */
  const char *text;
  kernel_case *cases[2000];
  size_t num;
  msc_nester *nester;
  uint64_t seed;
} kernel_run;

typedef void kernel_fn(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);

static inline void print_diags(msc_context *ctx) {
  for (const msc_diag *d = msc_diags(ctx); d; d = d->next) print_message("%s\n", d->text);
}

static inline bool on_gpu(void) {
  const char *target = getenv("MSC_TEST_TARGET");
  return target && !strcmp(target, "cuda");
}

/* Bytes of vectors that this machine's code is to have; 0: as is fastest. */
static inline int wanted_vectors(const char *cpu) {
  const char *bytes = getenv("MSC_VECTOR_BYTES");
  return bytes && (!cpu || !strcmp(cpu, "native")) ? atoi(bytes) : 0;
}

static inline kernel_run *kernels_new_for(const msc_code_target *target) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  kernel_run *k = msc_new(msc_context_arena(ctx), kernel_run);
  k->ctx = ctx, k->seed = 1, k->nester = msc_nester_new(ctx, msc_context_arena(ctx), target->target);
  k->cg = msc_codegen_begin(ctx, target);
  if (!k->cg) print_diags(ctx);
  assert_non_null(k->cg);
  if (on_gpu()) msc_codegen_want_text(k->cg, &k->text);
  return k;
}

static inline kernel_run *kernels_new(const char *cpu) {
  return kernels_new_for(&(msc_code_target){
      .cpu = cpu, .target = on_gpu() ? &msc_target_cuda : &msc_target_cpu, .vector_bytes = wanted_vectors(cpu)});
}

static inline double random_number(kernel_run *k) {
  k->seed = k->seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(k->seed >> 11) * 0x1p-53;
}

static inline void fill(kernel_run *k, msc_tensor *t, double low, double high) {
  for (int64_t i = 0; i < msc_type_elems(t->type); i++) {
    double v = low + (high - low) * random_number(k);
    if (t->type->dtype == MSC_I1) v = random_number(k) < 0.5;
    else if (!msc_is_float(t->type->dtype)) v = floor(v);
    if (v < 0 && msc_dtype_class_of(t->type->dtype) == MSC_CLASS_UINT) v = -v;
    msc_tensor_set(t, i, v);
  }
}

/* All ops of f but the return become the region of one fused op. */
static inline msc_op *fuse_all(msc_func *f) {
  msc_op *ret = f->body->last, *next;
  msc_op *fused = msc_op_new(f, OP_fused, f->body->num_args, f->body->args, ret->num_in, NULL);
  msc_insert_before(ret, fused);
  fused->body = msc_block_new(f, fused);
  msc_value *out[32];
  for (size_t i = 0; i < f->body->num_args; i++) {
    msc_value *inner = msc_add_arg(fused->body, f->body->args[i]->type, NULL);
    for (msc_use *u = f->body->args[i]->uses, *after; u; u = after) {
      after = u->next;
      if (u->user == fused) continue;
      for (size_t j = 0; j < u->user->num_in; j++)
        if (u->user != ret && &u->user->in[j] == u) msc_set_operand(u->user, j, inner);
    }
  }
  for (msc_op *op = f->body->first; op != fused; op = next) {
    next = op->next;
    msc_op_unlink(op);
    msc_append(fused->body, op);
  }
  for (int i = 0; i < ret->num_in; i++) {
    out[i] = ret->in[i].value;
    for (size_t a = 0; a < f->body->num_args; a++)
      if (out[i] == f->body->args[a]) out[i] = fused->body->args[a];
  }
  msc_append(fused->body, msc_op_new(f, OP_yield, ret->num_in, out, 0, NULL));
  assert_true(msc_infer(fused));
  for (int i = 0; i < ret->num_in; i++) msc_set_operand(ret, (size_t)i, &fused->out[i]);
  return fused;
}

/* Adds the function: interprets it, then makes its kernel.  `fuse`: all its ops as one. */
static inline kernel_case *kernels_add_with(kernel_run *k, const char *what, msc_func *f, bool fuse, double low,
                                            double high, void (*prepare)(kernel_run *, kernel_case *)) {
  kernel_case *c = msc_new(msc_context_arena(k->ctx), kernel_case);
  msc_module *m = f->module;
  if (on_gpu()) msc_attrs_put(k->ctx, &m->attrs, &m->num_attrs, msc_fact_msc_target(k->ctx, msc_target_cuda.name));
  c->what = what, c->func = f, c->low = low, c->high = high;
  for (size_t i = 0; i < f->body->num_args; i++) {
    c->in[i] = msc_tensor_new(msc_context_arena(k->ctx), f->body->args[i]->type);
    fill(k, &c->in[i], low, high);
  }
  if (prepare) prepare(k, c);
  if (!msc_interpret(f, msc_context_arena(k->ctx), c->in, c->expected)) {
    c->faults = 1;
    msc_clear_diags(k->ctx);
  }
  c->op = fuse ? fuse_all(f) : f->body->first;
  if (!msc_codegen_add(k->cg, c->op, &c->call)) {
    print_message("%s\n", what);
    print_diags(k->ctx);
    fail();
  }
  assert_true(k->num < 2000);
  return k->cases[k->num++] = c;
}

static inline kernel_case *kernels_add(kernel_run *k, const char *what, msc_func *f, bool fuse, double low,
                                       double high) {
  return kernels_add_with(k, what, f, fuse, low, high, NULL);
}

static inline kernel_case *kernels_add_op(kernel_run *k, const char *op, const char *in, const char *attrs, int num_out,
                                          double low, double high) {
  msc_module *m = msc_module_new(k->ctx);
  msc_op *o = one_op(m, op, in, attrs, num_out);
  if (!o) print_diags(k->ctx);
  assert_non_null(o);
  char *what = msc_arena_printf(msc_context_arena(k->ctx), "%s %s %s", op, in, attrs);
  return kernels_add(k, what, m->first, false, low, high);
}

/* body: MLIR text of the function's ops; args and results: "tensor<3xf32>, ..." */
static inline kernel_case *kernels_add_text(kernel_run *k, const char *text, double low, double high) {
  msc_module *m = msc_parse(k->ctx, "test", text, strlen(text));
  if (!m) print_message("%s\n", text), print_diags(k->ctx);
  assert_non_null(m);
  return kernels_add(k, text, m->first, true, low, high);
}

/* Asks for the registers of AMX, as runtime/plan/check_cpu.c does; before that its instructions are illegal. */
static inline void ask_for_tiles(void) {
  enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
  syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA);
}

static inline void kernels_finish(kernel_run *k) {
  if (!msc_codegen_finish(k->cg, &k->code)) {
    print_diags(k->ctx);
    fail();
  }
  if (on_gpu()) {
    char *why;
    k->gpu = emulator_open(k->text, strlen(k->text), &why);
    if (!k->gpu) fail_msg("%s", why);
    return;
  }
  ask_for_tiles();
  size_t bytes = (k->code.num_bytes + 4095) / 4096 * 4096;
  if (!bytes) return; /* only kernels of the runtime */
  k->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(k->memory, k->code.bytes, k->code.num_bytes);
  assert_int_equal(mprotect(k->memory, (k->code.text_bytes + 4095) / 4096 * 4096, PROT_READ | PROT_EXEC), 0);
}

static inline void kernels_free(kernel_run *k) {
  emulator_close(k->gpu);
  if (k->memory) munmap(k->memory, (k->code.num_bytes + 4095) / 4096 * 4096);
  msc_context_free(k->ctx);
}

/* ---- buffers that end at a page which cannot be touched ---- */

typedef struct {
  char *map;
  size_t map_bytes, bytes;
  void *data;
} fenced;

static inline fenced fenced_new(size_t bytes) {
  /* a GPU's arena goes on behind a buffer, which begins where vectors may */
  size_t room = on_gpu() ? (bytes + 31) / 16 * 16 : bytes;
  fenced f = {.bytes = bytes, .map_bytes = (room + 4095) / 4096 * 4096 + 8192};
  f.map = mmap(NULL, f.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(f.map != MAP_FAILED);
  mprotect(f.map + 4096, f.map_bytes - 8192, PROT_READ | PROT_WRITE);
  f.data = f.map + f.map_bytes - 4096 - room;
  memset(f.data, 0xA5, bytes);
  return f;
}

static inline void fenced_free(fenced *f) { munmap(f->map, f->map_bytes); }

/* ---- running ---- */

static inline kernel_fn *kernels_code(const kernel_run *k, const msc_launch *l) {
  kernel_fn *fn;
  void *entry = k->memory + k->code.kernel[l->kernel].entry;
  memcpy(&fn, &entry, sizeof fn);
  return k->code.kernel[l->kernel].builtin ? mscrt_builtin(k->code.kernel[l->kernel].builtin) : fn;
}

static inline void launch_on_gpu(kernel_run *k, const msc_launch *l, void **buffers, const int64_t *dims, int cut) {
  const msc_kernel *kernel = &k->code.kernel[l->kernel];
  void *param[256];
  float narrow[MSC_NEST_SCALARS];
  int64_t extent = (int64_t)l->extent;
  size_t num = 0;
  for (size_t i = 0; i < l->num_buffers; i++) param[num++] = &buffers[i];
  param[num++] = &extent;
  for (size_t i = 0; i < l->num_dims; i++) param[num++] = (void *)(uintptr_t)&dims[i];
  for (size_t i = 0; i < l->num_scalars; i++) {
    narrow[i] = (float)l->scalars[i];
    param[num++] = kernel->narrow_scalars >> i & 1 ? (void *)&narrow[i] : (void *)(uintptr_t)&l->scalars[i];
  }
  uint64_t blocks = (l->extent + l->grain - 1) / l->grain;
  if (!blocks) return;
  const char *why =
      emulator_launch(k->gpu, kernel->name, (unsigned)blocks, kernel->threads, param, (emulator_order)cut);
  if (why) fail_msg("%s", why);
}

static inline void launch(kernel_run *k, const msc_launch *l, fenced *list, int cut) {
  void *buffers[40];
  for (size_t i = 0; i < l->num_buffers; i++) buffers[i] = list[l->buffer[i]].data;
  if (k->gpu) {
    launch_on_gpu(k, l, buffers, l->dims, cut);
    return;
  }
  kernel_fn *fn = kernels_code(k, l);
  int64_t extent = (int64_t)l->extent;
  if (cut == 0) {
    fn(buffers, 0, extent, l->dims, l->scalars);
    return;
  }
  /* parts of uneven sizes, the last first */
  int64_t border[] = {0, extent / 7, extent / 3 + (extent > 3), extent / 2, extent - extent / 5, extent};
  for (int i = 4; i >= 0; i--) {
    int64_t begin = border[i], end = border[i + 1];
    if (end > begin) fn(buffers, begin, end, l->dims, l->scalars);
  }
}

/* Result 0 on the first operand that it may overwrite. */
static inline void lay_over(kernel_run *k, const kernel_case *c, fenced *list) {
  for (size_t i = 0; i < c->op->num_in && c->op->num_out; i++) {
    if (!msc_may_overwrite(k->nester, c->op, i, 0)) continue;
    list[c->op->num_in].data = list[i].data;
    return;
  }
}

/* Result i as an operand of `end`: the operand of the op whose new value it is, or -1. */
static inline int tied_operand(const kernel_case *c, const msc_value *v) {
  const msc_op_info *info = v->def && v->def != c->op ? msc_info(v->def) : NULL;
  for (int i = 0; info && i < info->num_operands && i < v->def->num_in; i++)
    if (info->operand[i].tied == (int)v->index && !v->def->in[i].value->def) return (int)v->def->in[i].value->index;
  return -1;
}

/* New values of operands on them, as always in a plan. */
static inline void lay_ties(const kernel_case *c, fenced *list) {
  const msc_op *end = c->op->body ? c->op->body->last : NULL;
  for (size_t i = 0; end && i < end->num_in; i++) {
    int at = tied_operand(c, end->in[i].value);
    if (at >= 0) list[c->op->num_in + i].data = list[at].data;
  }
}

typedef enum { APART, ON_AN_OPERAND, NEW_VALUES_ON_OLD } placing;

static inline void run_case(kernel_run *k, kernel_case *c, int cut, placing where, fenced *list) {
  size_t num = 0, num_in = c->op->num_in;
  for (size_t i = 0; i < num_in; i++) {
    list[num] = fenced_new((size_t)msc_type_bytes(c->in[i].type));
    memcpy(list[num].data, c->in[i].data, list[num].bytes);
    num++;
  }
  for (int i = 0; i < c->op->num_out; i++) list[num++] = fenced_new((size_t)msc_type_bytes(c->op->out[i].type));
  list[num++] = fenced_new(c->call.scratch_bytes);
  fenced *flag = &list[num - !c->call.scratch_bytes];
  *flag = fenced_new(4);
  *(int32_t *)flag->data = 0;
  if (where == ON_AN_OPERAND) lay_over(k, c, list);
  if (where == NEW_VALUES_ON_OLD) lay_ties(c, list);
  for (size_t i = 0; i < c->call.num_launches; i++) {
    const msc_launch *l = &c->call.launch[i];
    assert_int_equal(l->checks, &list[l->buffer[l->num_buffers - 1]] == flag);
    launch(k, l, list, cut);
  }
  if (c->faults != *(int32_t *)flag->data)
    fail_msg("%s: flag is %d, not %d", c->what, *(int32_t *)flag->data, c->faults);
}

static inline double tolerance_of(msc_dtype d, bool reordered) {
  switch (d) {
    case MSC_F64: return reordered ? 1e-13 : 1e-14;
    case MSC_F32: return reordered ? 3e-6 : 6e-7;
    case MSC_F16: return 2e-3;
    case MSC_BF16: return 1.6e-2;
    default: return 0;
  }
}

static inline void compare_case(kernel_case *c, const fenced *list) {
  for (int r = 0; r < c->op->num_out; r++) {
    const msc_type *t = c->op->out[r].type;
    msc_tensor got = {.type = t, .data = list[c->op->num_in + r].data};
    double most = 0, tolerance = tolerance_of(t->dtype, c->reordered);
    for (int64_t i = 0; i < msc_type_elems(t); i++) {
      double v = fabs(msc_tensor_get(&c->expected[r], i));
      if (v > most && v <= 1e300) most = v;
    }
    for (int64_t i = 0; i < msc_type_elems(t); i++) {
      double a = msc_tensor_get(&got, i), b = msc_tensor_get(&c->expected[r], i);
      double least = !c->reordered ? 0 : t->dtype == MSC_F64 ? 1e-14 : 1e-6;
      bool same = a == b || (isnan(a) && isnan(b)) ||
                  fabs(a - b) <= least + tolerance * (fabs(b) + (c->reordered ? most : most * 1e-3));
      if (!same) fail_msg("%s: result %d element %" PRId64 " is %.9g, not %.9g", c->what, r, i, a, b);
    }
  }
}

static inline void compare_runs(kernel_case *c, const fenced *whole, const fenced *other, const char *what) {
  if (c->unordered && !c->faults) {
    compare_case(c, other);
    return;
  }
  for (int r = 0; r < c->op->num_out && !c->faults; r++) {
    const fenced *a = &whole[c->op->num_in + r], *b = &other[c->op->num_in + r];
    if (memcmp(a->data, b->data, a->bytes)) fail_msg("%s: result %d %s", c->what, r, what);
  }
}

/* Runs every case whole, in parts, and with a result on an operand where it may: right, and bit for bit the same. */
static inline void kernels_check(kernel_run *k) {
  for (size_t i = 0; i < k->num; i++) {
    kernel_case *c = k->cases[i];
    fenced whole[MOST_BUFFERS] = {{0}}, parts[MOST_BUFFERS] = {{0}}, over[MOST_BUFFERS] = {{0}},
           ties[MOST_BUFFERS] = {{0}};
    run_case(k, c, 0, APART, whole);
    if (!c->faults) compare_case(c, whole);
    run_case(k, c, 1, APART, parts);
    compare_runs(c, whole, parts, "depends on the cut");
    run_case(k, c, 2, ON_AN_OPERAND, over);
    compare_runs(c, whole, over, "differs when it lies on an operand");
    run_case(k, c, 0, NEW_VALUES_ON_OLD, ties);
    compare_runs(c, whole, ties, "differs when new values lie on old ones");
    for (int j = 0; whole[j].map; j++)
      fenced_free(&whole[j]), fenced_free(&parts[j]), fenced_free(&over[j]), fenced_free(&ties[j]);
  }
}

#endif
