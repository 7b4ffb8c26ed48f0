/* cuda_kernels: generated kernels on an NVIDIA GPU, one network of one op each, in; the bandwidth of each beside that
 * of the device's own copy, out.  Goal: 90 % of it at 64 MB and more.  Skipped with the reason where there is no GPU.
 *
 * cuda_kernels [BYTES of the operand, 128 MB by default] [FOLDER for the kernels' IR] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/compile.h"
#include "runtime/cuda/api.h"

enum { ROUNDS = 20, WIDTH = 4096, MOST_BUFFERS = 32, MOST_PARAMETERS = 160 };

/* ROWS stands for as many rows as there are bytes for; the traffic is that of `moved` tensors of all rows. */
static const struct {
  const char *what, *body, *result;
  int element_bytes;
  double moved;
} networks[] = {
  {"gelu f32", "%y = \"msc.gelu\"(%x) {form = \"tanh\"} : (tensor<ROWSx4096xf32>) -> tensor<ROWSx4096xf32>",
   "tensor<ROWSx4096xf32>", 4, 2},
  {"gelu bf16", "%y = \"msc.gelu\"(%x) {form = \"tanh\"} : (tensor<ROWSx4096xbf16>) -> tensor<ROWSx4096xbf16>",
   "tensor<ROWSx4096xbf16>", 2, 2},
  {"square f32", "%y = \"msc.mul\"(%x, %x) : (tensor<ROWSx4096xf32>, tensor<ROWSx4096xf32>) -> tensor<ROWSx4096xf32>",
   "tensor<ROWSx4096xf32>", 4, 2},
  {"sum of rows f32", "%y = \"msc.reduce_sum\"(%x) {dims = [1]} : (tensor<ROWSx4096xf32>) -> tensor<ROWSxf32>",
   "tensor<ROWSxf32>", 4, 1},
  {"sum of columns f32", "%y = \"msc.reduce_sum\"(%x) {dims = [0]} : (tensor<ROWSx4096xf32>) -> tensor<4096xf32>",
   "tensor<4096xf32>", 4, 1},
  {"softmax f32", "%y = \"msc.softmax\"(%x) : (tensor<ROWSx4096xf32>) -> tensor<ROWSx4096xf32>",
   "tensor<ROWSx4096xf32>", 4, 2},
  {"softmax bf16", "%y = \"msc.softmax\"(%x) : (tensor<ROWSx4096xbf16>) -> tensor<ROWSx4096xbf16>",
   "tensor<ROWSx4096xbf16>", 2, 2},
  {"layer_norm f32", "%y = \"msc.layer_norm\"(%x) : (tensor<ROWSx4096xf32>) -> tensor<ROWSx4096xf32>",
   "tensor<ROWSx4096xf32>", 4, 2},
  {"transpose f32", "%y = \"msc.transpose\"(%x) {perm = [1, 0]} : (tensor<ROWSx4096xf32>) -> tensor<4096xROWSxf32>",
   "tensor<4096xROWSxf32>", 4, 2},
};

typedef struct {
  mscrt_cuda_api cu;
  cu_device device;
  cu_context context;
  cu_stream stream;
  cu_event begin, end;
  int arch;
  char name[96];
} gpu;

/* ---- the GPU ---- */

static void check(const gpu *g, cu_result r, const char *what) {
  if (!r) return;
  mscrt_status *s = mscrt_cuda_failure(&g->cu, r, what);
  fprintf(stderr, "%s\n", mscrt_status_text(s));
  exit(3);
}

#define CALL(g, function, ...) check(g, (g)->cu.function(__VA_ARGS__), #function)

/* False after saying why there is none. */
static bool find_gpu(gpu *g) {
  int num = 0, major = 0, minor = 0, driver;
  mscrt_status *s = mscrt_cuda_load(&g->cu, &driver);
  if (s) printf("skipped: %s\n", mscrt_status_text(s));
  else if (g->cu.cuInit(0) || g->cu.cuDeviceGetCount(&num) || !num) printf("skipped: the driver finds no GPU\n");
  mscrt_status_free(s);
  if (!num) return false;
  CALL(g, cuDeviceGet, &g->device, 0);
  CALL(g, cuDeviceGetName, g->name, sizeof g->name, g->device);
  CALL(g, cuDeviceGetAttribute, &major, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g->device);
  CALL(g, cuDeviceGetAttribute, &minor, MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, g->device);
  g->arch = 10 * major + minor;
  CALL(g, cuDevicePrimaryCtxRetain, &g->context, g->device);
  CALL(g, cuCtxPushCurrent_v2, g->context);
  CALL(g, cuStreamCreate, &g->stream, MSCRT_CU_STREAM_NON_BLOCKING);
  CALL(g, cuEventCreate, &g->begin, 0);
  CALL(g, cuEventCreate, &g->end, 0);
  return true;
}

static void leave_gpu(gpu *g) {
  cu_context own;
  CALL(g, cuEventDestroy_v2, g->begin);
  CALL(g, cuEventDestroy_v2, g->end);
  CALL(g, cuStreamDestroy_v2, g->stream);
  CALL(g, cuCtxPopCurrent_v2, &own);
  CALL(g, cuDevicePrimaryCtxRelease_v2, g->device);
}

/* Milliseconds of one of ROUNDS calls in a row, after one that nobody times. */
static double timed(gpu *g, void (*issue)(gpu *g, void *what), void *what) {
  float ms = 0;
  issue(g, what);
  CALL(g, cuEventRecord, g->begin, g->stream);
  for (int i = 0; i < ROUNDS; i++) issue(g, what);
  CALL(g, cuEventRecord, g->end, g->stream);
  CALL(g, cuEventSynchronize, g->end);
  CALL(g, cuEventElapsedTime, &ms, g->begin, g->end);
  return (double)ms / ROUNDS;
}

typedef struct {
  cu_address to, from;
  size_t bytes;
} copying;

static void issue_copy(gpu *g, void *what) {
  const copying *c = what;
  CALL(g, cuMemcpyDtoDAsync_v2, c->to, c->from, c->bytes, g->stream);
}

static double copy_ms(gpu *g, size_t bytes) {
  copying c = {.bytes = bytes};
  CALL(g, cuMemAlloc_v2, &c.to, bytes);
  CALL(g, cuMemAlloc_v2, &c.from, bytes);
  double ms = timed(g, issue_copy, &c);
  CALL(g, cuMemFree_v2, c.to);
  CALL(g, cuMemFree_v2, c.from);
  return ms;
}

/* ---- a network's kernels ---- */

typedef struct {
  cu_function function;
  unsigned blocks, threads;
  size_t num_buffers;
  cu_address buffer[MOST_BUFFERS];
  int64_t extent;
  void *parameter[MOST_PARAMETERS];
} kernel;

typedef struct {
  cu_module module;
  size_t num;
  kernel *kernel;
} kernels;

/* The newest PTX that this GPU takes. */
static void load(gpu *g, const msc_machine_code *code, cu_module *out) {
  size_t i = 0;
  while (i + 1 < code->num_images && code->image[i].arch > g->arch) i++;
  CALL(g, cuModuleLoadDataEx, out, code->image[i].bytes, 0, NULL, NULL);
}

static void prepare(gpu *g, const msc_plan *p, const msc_plan_call *call, cu_module module, kernel *k) {
  const msc_launch *l = call->launch;
  size_t n = 0;
  k->threads = p->code.kernel[l->kernel].threads, k->blocks = (unsigned)((l->extent + l->grain - 1) / l->grain),
  k->extent = (int64_t)l->extent;
  CALL(g, cuModuleGetFunction, &k->function, module, p->code.kernel[l->kernel].name);
  for (k->num_buffers = 0; k->num_buffers < call->num_buffers; k->num_buffers++) {
    cu_address *at = &k->buffer[k->num_buffers];
    CALL(g, cuMemAlloc_v2, at, (size_t)call->buffer[k->num_buffers].bytes);
    CALL(g, cuMemsetD8Async, *at, 0, (size_t)call->buffer[k->num_buffers].bytes, g->stream);
    k->parameter[n++] = at;
  }
  k->parameter[n++] = &k->extent;
  for (size_t i = 0; i < l->num_dims; i++) k->parameter[n++] = (void *)(uintptr_t)&l->dims[i];
  for (size_t i = 0; i < l->num_scalars; i++) k->parameter[n++] = (void *)(uintptr_t)&l->scalars[i];
}

static void issue_kernels(gpu *g, void *what) {
  kernels *all = what;
  for (size_t i = 0; i < all->num; i++) {
    kernel *k = &all->kernel[i];
    CALL(g, cuLaunchKernel, k->function, k->blocks, 1, 1, k->threads, 1, 1, 0, g->stream, k->parameter, NULL);
  }
}

static double kernels_ms(gpu *g, const msc_plan *p, size_t *out_num) {
  const msc_plan_section *s = &p->section[0];
  kernels all = {.kernel = calloc(s->num_calls, sizeof(kernel))};
  load(g, &p->code, &all.module);
  for (size_t i = 0; i < s->num_calls; i++)
    if (s->call[i].launch) prepare(g, p, &s->call[i], all.module, &all.kernel[all.num++]);
  double ms = timed(g, issue_kernels, &all);
  for (size_t i = 0; i < all.num; i++)
    for (size_t b = 0; b < all.kernel[i].num_buffers; b++) CALL(g, cuMemFree_v2, all.kernel[i].buffer[b]);
  CALL(g, cuModuleUnload, all.module);
  free(all.kernel);
  *out_num = all.num;
  return ms;
}

/* ---- networks ---- */

static const char *with_rows(msc_arena *arena, const char *text, int64_t rows) {
  const char *at = strstr(text, "ROWS");
  return at ? msc_arena_printf(arena, "%.*s%" PRId64 "%s", (int)(at - text), text, rows, with_rows(arena, at + 4, rows))
            : text;
}

static const char *text_of(msc_context *ctx, size_t i, int64_t rows) {
  const char *in = networks[i].element_bytes == 2 ? "tensor<ROWSx4096xbf16>" : "tensor<ROWSx4096xf32>";
  const char *text =
      msc_arena_printf(msc_context_arena(ctx),
                       "module {\n  \"msc.func\"() ({\n  ^bb0(%%x: %s):\n    %s\n    \"msc.return\"(%%y) : (%s) -> ()\n"
                       "  }) {arg_attrs = [{msc.name = \"x\", msc.role = \"data\"}],\n      results = [\"y\"],\n      "
                       "sym_name = \"forward\"} : () -> ()\n}\n",
                       in, networks[i].body, networks[i].result);
  return with_rows(msc_context_arena(ctx), text, rows);
}

static const char *ir_folder; /* NULL: nobody wants it */

/* The stand-in of tests/cuda executes the IR, which it finds in a file. */
static void keep_ir(void *user, const char *name, const char *text, size_t bytes) {
  static int number;
  char path[4096];
  (void)user;
  if (!ir_folder || strcmp(name, "kernels.ll")) return;
  snprintf(path, sizeof path, "%s/%d.ll", ir_folder, number++);
  FILE *f = fopen(path, "w");
  if (!f) return;
  fwrite(text, 1, bytes, f);
  fclose(f);
  setenv("MSC_STANDIN_KERNELS", path, 1);
}

static bool measure(gpu *g, size_t i, size_t bytes, double copied) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_config *config = msc_config_new(ctx);
  int64_t rows = (int64_t)(bytes / (size_t)networks[i].element_bytes / WIDTH);
  const char *text = text_of(ctx, i, rows);
  msc_model_bytes model = {.name = "network.mlir", .data = text, .bytes = strlen(text)};
  msc_compile_options o = {.config = config, .target = {.target = &msc_target_cuda}, .emitted = keep_ir};
  msc_compiled made;
  bool ok = msc_compile_model(ctx, &model, &o, &made);
  for (const msc_diag *d = ok ? NULL : msc_diags(ctx); d; d = d->next) fprintf(stderr, "%s\n", d->text);
  if (ok) {
    size_t num = 0;
    double moved = networks[i].moved * (double)(rows * WIDTH * networks[i].element_bytes),
           rate = moved / kernels_ms(g, made.plan, &num) / 1e6;
    printf("%-20s %zu kernel%s %8.0f GB/s, %5.1f %% of a copy (goal 90 %%)\n", networks[i].what, num,
           num == 1 ? " " : "s", rate, 100 * rate / copied);
  }
  msc_context_free(ctx);
  return ok;
}

int main(int argc, char **argv) {
  static gpu g;
  size_t bytes = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : (size_t)128 << 20;
  bool ok = true;
  ir_folder = argc > 2 ? argv[2] : NULL;
  if (!find_gpu(&g)) return 0;
  double copied = 2 * (double)bytes / copy_ms(&g, bytes) / 1e6;
  printf("%s, sm_%d: copies %zu MB at %.0f GB/s\n", g.name, g.arch, bytes >> 20, copied);
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) ok &= measure(&g, i, bytes, copied);
  leave_gpu(&g);
  return ok ? 0 : 1;
}
