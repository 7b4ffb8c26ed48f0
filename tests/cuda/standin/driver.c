/* driver.c: the stand-in's devices, memory, copies and modules, and what all its files report to. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/standin/standin.h"

#define BROKEN 97
#define GUARD 4096

/* ---- rules ---- */

void standin_broken(const char *fmt, ...) {
  va_list ap;
  fputs("stand-in: ", stderr);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fputc('\n', stderr);
  _exit(BROKEN);
}

long long standin_number(const char *name, long long otherwise) {
  const char *text = getenv(name);
  return text ? atoll(text) : otherwise;
}

uint64_t standin_random(void) {
  static uint64_t state;
  static bool begun;
  if (!begun) state = (uint64_t)standin_number("MSC_STANDIN_SEED", 0) * 0x9e3779b97f4a7c15u, begun = true;
  if (!state) return 0;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state >> 11;
}

static struct { const char *kind; int num; } kept[33]; /* the last has no kind */

void standin_count(const char *kind, int by) {
  int i = 0;
  while (kept[i].kind && strcmp(kept[i].kind, kind)) i++;
  if (i + 1 == sizeof kept / sizeof *kept) standin_broken("no room to count %s", kind);
  kept[i].kind = kind;
  kept[i].num += by;
}

static __thread cu_context stack[8];
static __thread int depth;
static bool begun;

/* After these nothing of the context can be used any more. */
static bool is_lost(unsigned r) {
  return (r >= 700 && r < 720) || r == MSCRT_CUDA_ERROR_ECC_UNCORRECTABLE ||
         r == MSCRT_CUDA_ERROR_NVLINK_UNCORRECTABLE || r == MSCRT_CUDA_ERROR_CONTAINED;
}

static bool is_of_driver(const char *function) {
  return !strncmp(function, "cu", 2) && strncmp(function, "cublas", 6) && strncmp(function, "cudnn", 5);
}

/* How often it is called depends on time. */
static bool is_question(const char *function) { return strstr(function, "Query") || strstr(function, "GetAsyncError"); }

/* "function:number:result"; the function may be "any" */
static unsigned ordered_failure(const char *function) {
  static int calls;
  static unsigned lost;
  const char *order = getenv("MSC_STANDIN_FAIL");
  size_t n = strlen(function);
  if (lost && is_of_driver(function)) return lost;
  if (order && !strncmp(order, "any:", 4) && !is_question(function)) n = 3;
  else if (!order || strncmp(order, function, n) || order[n] != ':') return 0;
  char *end;
  long number = strtol(order + n + 1, &end, 10);
  unsigned result = ++calls == number ? (unsigned)atoi(end + 1) : 0;
  if (is_of_driver(function) && is_lost(result)) lost = result;
  return result;
}

void standin_log(const char *text) {
  const char *path = getenv("MSC_STANDIN_LOG");
  static FILE *log;
  if (path && !log) log = fopen(path, "a");
  if (log) fprintf(log, "%d %s\n", getpid(), text), fflush(log);
}

unsigned standin_call(const char *function) {
  standin_log(function);
  if (!begun) standin_broken("%s before cuInit", function);
  if (!depth) standin_broken("%s without a context", function);
  return ordered_failure(function);
}

unsigned standin_call_ahead(const char *function) {
  if (begun) return standin_call(function);
  standin_log(function);
  return ordered_failure(function);
}

/* ---- devices ---- */

struct CUctx_st { int device, users; };
static struct CUctx_st contexts[16];

static int num_gpus(void) { return (int)standin_number("MSC_STANDIN_GPUS", 1); }

/* What a process has not given back when it is done with all GPUs. */
static void check_kept(void) {
  for (int i = 0; kept[i].kind; i++)
    if (kept[i].num) standin_broken("%d %s were not given back", kept[i].num, kept[i].kind);
}

API unsigned cuInit(unsigned flags) {
  begun = true;
  if (flags) standin_broken("cuInit(%u)", flags);
  return num_gpus() ? ordered_failure(__func__) : MSCRT_CUDA_ERROR_NO_DEVICE;
}

API unsigned cuDriverGetVersion(int *out) {
  return *out = (int)standin_number("MSC_STANDIN_DRIVER", 13000), ordered_failure(__func__);
}
API unsigned cuDeviceGetCount(int *out) { return *out = num_gpus(), 0; }
API unsigned cuDeviceGet(cu_device *out, int ordinal) { return *out = ordinal, ordinal < num_gpus() ? 0 : 101; }
API unsigned cuDeviceGetName(char *name, int room, cu_device d) {
  return snprintf(name, (size_t)room, "stand-in %d", d), 0;
}

API unsigned cuDeviceGetUuid_v2(cu_uuid *out, cu_device d) {
  unsigned failed = standin_call(__func__);
  *out = (cu_uuid){{(uint8_t)d, (uint8_t)standin_number("MSC_STANDIN_HOST", 0)}};
  return failed;
}

API unsigned cuDeviceGetAttribute(int *out, unsigned attribute, cu_device d) {
  long long arch = standin_number("MSC_STANDIN_ARCH", 90);
  (void)d;
  if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *out = (int)(arch / 10);
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *out = (int)(arch % 10);
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *out = 4;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_CLOCK_RATE) *out = 1000000;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *out = 2000000;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) *out = 1 << 20;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) *out = 128 << 10;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) *out = 2048;
  else if (attribute == MSCRT_CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR) *out = 32;
  else standin_broken("device attribute %u", attribute);
  return 0;
}

API unsigned cuDeviceTotalMem_v2(size_t *out, cu_device d) {
  (void)d;
  return *out = (size_t)standin_number("MSC_STANDIN_MEMORY", 1ll << 30), 0;
}

API unsigned cuDevicePrimaryCtxRetain(cu_context *out, cu_device d) {
  unsigned failed = ordered_failure(__func__);
  if (failed) return failed;
  contexts[d] = (struct CUctx_st){d, contexts[d].users + 1};
  *out = &contexts[d];
  return 0;
}

API unsigned cuDevicePrimaryCtxRelease_v2(cu_device d) {
  if (contexts[d].users < 1) standin_broken("a context is released twice");
  standin_wait_all();
  if (--contexts[d].users == 0) check_kept();
  return 0;
}

API unsigned cuCtxPushCurrent_v2(cu_context c) {
  if (depth == 8 || !c->users) standin_broken("a context is pushed that is not there, or too often");
  stack[depth++] = c;
  return 0;
}

API unsigned cuCtxPopCurrent_v2(cu_context *out) {
  if (!depth) standin_broken("a context is popped that nobody pushed");
  *out = stack[--depth];
  return 0;
}

API unsigned cuGetErrorName(cu_result r, const char **out) {
  static const struct { cu_result r; const char *name; } names[] = {
#define X(name, value) {value, #name},
    MSCRT_CUDA_VALUES(X)
#undef X
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].r == r && !strncmp(names[i].name, "CUDA_ERROR", 10)) return *out = names[i].name, 0;
  return 1;
}

API unsigned cuGetErrorString(cu_result r, const char **out) {
  (void)r;
  *out = "in the stand-in's words";
  return 0;
}

/* ---- memory ---- */

typedef struct piece {
  struct piece *next;
  uint8_t *base, *at;            /* mapped with guards; the memory itself, which ends where the second guard begins */
  size_t mapped, bytes;
  bool pinned, mapped_too;       /* the host's; where kernels may touch it */
} piece;

static piece *pieces;
static uint64_t used_bytes;

static uint64_t all_bytes(void) { return (uint64_t)standin_number("MSC_STANDIN_MEMORY", (long long)16 << 30); }

API unsigned cuMemGetInfo_v2(size_t *out_free, size_t *out_total) {
  *out_total = all_bytes();
  *out_free = *out_total - used_bytes;
  return standin_call(__func__);
}

static piece *holder(const void *at, size_t bytes, bool pinned) {
  for (piece *p = pieces; p; p = p->next)
    if (p->pinned == pinned && (const uint8_t *)at >= p->at && (const uint8_t *)at + bytes <= p->at + p->bytes)
      return p;
  return NULL;
}

void standin_check_memory(cu_address at, size_t bytes, const char *what) {
  if (!holder((const void *)(uintptr_t)at, bytes, false))
    standin_broken("%s of %zu bytes at %llx, which are not the GPU's", what, bytes, at);
}

static piece *add_piece(uint8_t *at, size_t bytes, bool pinned) {
  piece *p = calloc(1, sizeof *p);
  *p = (piece){.next = pieces, .at = at, .bytes = bytes, .pinned = pinned};
  pieces = p;
  return p;
}

static void drop_piece(const void *at, bool pinned) {
  piece **p = &pieces;
  while (*p && ((*p)->at != at || (*p)->pinned != pinned)) p = &(*p)->next;
  if (!*p) standin_broken("memory is given back that is not there");
  piece *gone = *p;
  *p = gone->next;
  if (gone->base) munmap(gone->base, gone->mapped);
  free(gone);
}

/* All bits set: what is read before it was written is no number. */
unsigned standin_allocate(cu_address *out, size_t bytes) {
  size_t room = (bytes + 255) / 256 * 256, mapped = (room + GUARD - 1) / GUARD * GUARD + 2 * GUARD;
  if (!bytes || used_bytes + bytes > all_bytes()) return bytes ? MSCRT_CUDA_ERROR_OUT_OF_MEMORY : 1;
  uint8_t *base = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(base + GUARD, mapped - 2 * GUARD, PROT_READ | PROT_WRITE);
  piece *p = add_piece(base + mapped - GUARD - room, bytes, false);
  p->base = base, p->mapped = mapped;
  memset(p->at, 0xff, bytes);
  used_bytes += bytes;
  *out = (cu_address)(uintptr_t)p->at;
  standin_count("pieces of GPU memory", 1);
  return 0;
}

API unsigned cuMemAlloc_v2(cu_address *out, size_t bytes) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  return failed ? failed : standin_allocate(out, bytes);
}

void standin_free(cu_address at) {
  standin_wait_all();
  piece *p = holder((void *)(uintptr_t)at, 1, false);
  if (p) used_bytes -= p->bytes;
  drop_piece((void *)(uintptr_t)at, false);
  standin_count("pieces of GPU memory", -1);
}

API unsigned cuMemFree_v2(cu_address at) {
  standin_forbid_in_capture(__func__);
  standin_free(at);
  return standin_call(__func__);
}

API unsigned cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  (void)flags;
  if (failed) return failed;
  *out = calloc(bytes, 1);
  add_piece(*out, bytes, true);
  standin_count("pieces of pinned memory", 1);
  return 0;
}

API unsigned cuMemFreeHost(void *at) {
  standin_wait_all();
  drop_piece(at, true);
  free(at);
  standin_count("pieces of pinned memory", -1);
  return standin_call(__func__);
}

API unsigned cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  add_piece(at, bytes, true)->mapped_too = flags == MSCRT_CU_MEMHOSTREGISTER_DEVICEMAP;
  standin_count("registered ranges", 1);
  return 0;
}

API unsigned cuMemHostUnregister(void *at) {
  standin_wait_all();
  drop_piece(at, true);
  standin_count("registered ranges", -1);
  return standin_call(__func__);
}

API unsigned cuMemHostGetDevicePointer_v2(cu_address *out, void *at, unsigned flags) {
  unsigned failed = standin_call(__func__);
  const piece *p = holder(at, 1, true);
  if (failed) return failed;
  if (flags || !p || !p->mapped_too) standin_broken("a kernel is to touch memory of the host that is not mapped");
  *out = (cu_address)(uintptr_t)at;
  return 0;
}

/* ---- copies ---- */

typedef struct { size_t rows, bytes, to_pitch, from_pitch; char *to; const char *from; } copy;

static bool run_copy(void *argument) {
  const copy *c = argument;
  for (size_t i = 0; i < c->rows; i++) memmove(c->to + i * c->to_pitch, c->from + i * c->from_pitch, c->bytes);
  return true;
}

/* With memory that is not pinned the driver copies by itself: then it waits. */
static void issue_with_host(cu_stream s, const char *name, copy c, const void *host) {
  bool pinned = holder(host, c.bytes, true);
  if (!pinned) standin_forbid_in_capture("a copy of pageable memory");
  standin_issue(s, name, run_copy, &c, sizeof c);
  if (!pinned) standin_wait(s);
}

API unsigned cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_check_memory(to, bytes, __func__);
  issue_with_host(s, __func__, (copy){1, bytes, 0, 0, (char *)(uintptr_t)to, from}, from);
  return 0;
}

API unsigned cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_check_memory(from, bytes, __func__);
  issue_with_host(s, __func__, (copy){1, bytes, 0, 0, to, (const char *)(uintptr_t)from}, to);
  return 0;
}

API unsigned cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  standin_check_memory(to, bytes, __func__);
  standin_check_memory(from, bytes, __func__);
  standin_issue(s, __func__, run_copy, &(copy){1, bytes, 0, 0, (char *)(uintptr_t)to, (const char *)(uintptr_t)from},
                sizeof(copy));
  return 0;
}

API unsigned cuMemcpy2DAsync_v2(const cu_copy_2d *c, cu_stream s) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  if (c->src_kind != MSCRT_CU_MEMORYTYPE_DEVICE || c->dst_kind != MSCRT_CU_MEMORYTYPE_DEVICE || c->src_x || c->src_y ||
      c->dst_x || c->dst_y)
    standin_broken("a copy of another kind");
  if (!c->height || !c->width || c->width > c->src_pitch || c->width > c->dst_pitch)
    standin_broken("rows of %zu bytes in pitches of %zu and %zu", c->width, c->src_pitch, c->dst_pitch);
  standin_check_memory(c->src, (c->height - 1) * c->src_pitch + c->width, __func__);
  standin_check_memory(c->dst, (c->height - 1) * c->dst_pitch + c->width, __func__);
  standin_issue(s, __func__, run_copy,
                &(copy){c->height, c->width, c->dst_pitch, c->src_pitch, (char *)(uintptr_t)c->dst,
                        (const char *)(uintptr_t)c->src},
                sizeof(copy));
  return 0;
}

typedef struct { char *to; size_t size, num, pitch, rows; uint32_t value; } fill;

static bool run_fill(void *argument) {
  const fill *f = argument;
  for (size_t r = 0; r < f->rows; r++)
    for (size_t i = 0; i < f->num; i++) memcpy(f->to + r * f->pitch + i * f->size, &f->value, f->size);
  return true;
}

static unsigned issue_fill(const char *name, cu_stream s, fill f) {
  unsigned failed = standin_call(name);
  if (failed) return failed;
  if ((uintptr_t)f.to % f.size) standin_broken("%s at an address that is not aligned", name);
  standin_check_memory((cu_address)(uintptr_t)f.to, (f.rows - 1) * f.pitch + f.num * f.size, name);
  standin_issue(s, name, run_fill, &f, sizeof f);
  return 0;
}

API unsigned cuMemsetD8Async(cu_address to, unsigned char value, size_t num, cu_stream s) {
  return issue_fill(__func__, s, (fill){(char *)(uintptr_t)to, 1, num, 0, 1, value});
}
API unsigned cuMemsetD16Async(cu_address to, unsigned short value, size_t num, cu_stream s) {
  return issue_fill(__func__, s, (fill){(char *)(uintptr_t)to, 2, num, 0, 1, value});
}
API unsigned cuMemsetD32Async(cu_address to, unsigned value, size_t num, cu_stream s) {
  return issue_fill(__func__, s, (fill){(char *)(uintptr_t)to, 4, num, 0, 1, value});
}
API unsigned cuMemsetD2D32Async(cu_address to, size_t pitch, unsigned value, size_t width, size_t height, cu_stream s) {
  return issue_fill(__func__, s, (fill){(char *)(uintptr_t)to, 4, width, pitch, height, value});
}

/* ---- modules ---- */

struct CUmod_st { char *ptx; void *kernels; bool is_cubin; };
struct CUfunc_st { cu_function next; standin_kernel k; cu_module module; size_t parameters; const char *body; };
static cu_function functions;

/* The plan's kernels for this machine, made once: F.so beside F. */
static void *open_kernels(void) {
  const char *ir = getenv("MSC_STANDIN_KERNELS");
  char script[4096], made[4096];
  Dl_info own;
  if (!ir) standin_broken("MSC_STANDIN_KERNELS names no file");
  dladdr((void *)(uintptr_t)open_kernels, &own);
  snprintf(script, sizeof script, "%s", own.dli_fname);
  snprintf(strrchr(script, '/'), 16, "/retarget.py");
  snprintf(made, sizeof made, "%s.so", ir);
  pid_t child = fork();
  if (child == 0) {
    unsetenv("LD_LIBRARY_PATH");
    execlp("python3", "python3", script, ir, made, own.dli_fname, (char *)NULL);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) < 0 || status) standin_broken("%s cannot be compiled for this machine", ir);
  void *kernels = dlopen(made, RTLD_NOW | RTLD_LOCAL);
  if (!kernels) standin_broken("%s", dlerror());
  return kernels;
}

API unsigned cuModuleLoadDataEx(cu_module *out, const void *image, unsigned num, unsigned *option, void **value) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  (void)num, (void)option, (void)value;
  if (failed) return failed;
  bool cubin = !memcmp(image, "\177ELF", 4);
  if (cubin && !standin_number("MSC_STANDIN_CUBIN", 1)) return MSCRT_CUDA_ERROR_NO_BINARY_FOR_GPU;
  const char *target = cubin ? NULL : strstr(image, ".target sm_");
  if (!cubin && !target) return MSCRT_CUDA_ERROR_INVALID_IMAGE;
  if (target && atoi(target + 11) > standin_number("MSC_STANDIN_ARCH", 90)) return MSCRT_CUDA_ERROR_NO_BINARY_FOR_GPU;
  *out = calloc(1, sizeof **out);
  (*out)->ptx = cubin ? NULL : strdup(image), (*out)->is_cubin = cubin;
  (*out)->kernels = open_kernels();
  standin_count("modules", 1);
  return 0;
}

/* Where the kernel begins in the text; NULL: nowhere. */
static const char *find_entry(const char *ptx, const char *name) {
  char entry[512];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  return strstr(ptx, entry);
}

API unsigned cuModuleGetFunction(cu_function *out, cu_module m, const char *name) {
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  char symbol[512];
  const char *entry = m->ptx ? find_entry(m->ptx, name) : NULL;
  if (m->ptx && !entry) return MSCRT_CUDA_ERROR_NOT_FOUND;
  snprintf(symbol, sizeof symbol, "%s__run", name);
  void *run = dlsym(m->kernels, symbol);
  snprintf(symbol, sizeof symbol, "%s__meets", name);
  const int *meets = dlsym(m->kernels, symbol);
  snprintf(symbol, sizeof symbol, "%s__parameters", name);
  const int *parameters = dlsym(m->kernels, symbol);
  if (!run || !meets || !parameters) standin_broken("kernel %s is in the PTX, but not in the IR", name);
  *out = calloc(1, sizeof **out);
  **out = (struct CUfunc_st){.next = functions, .module = m, .k = {.meets = *meets}, .parameters = (size_t)*parameters,
                            .body = entry};
  memcpy(&(*out)->k.run, &run, sizeof run);
  functions = *out;
  return 0;
}

API unsigned cuModuleUnload(cu_module m) {
  standin_wait_all();
  for (cu_function *f = &functions; *f;) {
    cu_function gone = *f;
    if (gone->module != m) f = &gone->next;
    else *f = gone->next, free(gone);
  }
  free(m->ptx);
  free(m);
  standin_count("modules", -1);
  return standin_call(__func__);
}

typedef struct { standin_kernel k; unsigned blocks, threads; size_t num; uint64_t value[]; } grid;

static bool run_grid(void *argument) {
  grid *g = argument;
  void **parameters = calloc(g->num + 1, sizeof *parameters);
  for (size_t i = 0; i < g->num; i++) parameters[i] = &g->value[i];
  standin_run_grid(&g->k, g->blocks, g->threads, parameters);
  free(parameters);
  return true;
}

static unsigned launch(const char *name, cu_function f, const cu_launch *l, void **parameters, void **extra) {
  unsigned failed = standin_call(name);
  if (failed) return failed;
  if (!l->grid_x || l->grid_x > INT32_MAX || l->grid_y != 1 || l->grid_z != 1 || !l->block_x || l->block_x > 1024 ||
      l->block_y != 1 || l->block_z != 1 || l->shared_bytes || extra)
    standin_broken("a launch of %u x %u x %u blocks of %u x %u x %u", l->grid_x, l->grid_y, l->grid_z, l->block_x,
                   l->block_y, l->block_z);
  grid *g = malloc(sizeof *g + f->parameters * 8);
  *g = (grid){f->k, l->grid_x, l->block_x, f->parameters};
  for (size_t i = 0; i < f->parameters; i++) memcpy(&g->value[i], parameters[i], 8);
  standin_issue(l->stream, "kernel", run_grid, g, sizeof *g + f->parameters * 8);
  free(g);
  return 0;
}

API unsigned cuLaunchKernel(cu_function f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, cu_stream s, void **parameters, void **extra) {
  return launch(__func__, f, &(cu_launch){x, y, z, bx, by, bz, shared, s, NULL, 0}, parameters, extra);
}

/* Does every thread of the kernel wait for the kernel before it, ahead of all that it reads and writes? */
static bool waits_first(cu_function f) {
  static const char *const touching[] = {"\tld.global", "\tst.global", "\tld.shared", "\tst.shared", "\tatom.",
                                         "\tred.",      " bra",        "\tbra",       "\tret;"};
  const char *wait = f->body ? strstr(f->body, "griddepcontrol.wait;") : NULL;
  for (size_t i = 0; wait && i < sizeof touching / sizeof *touching; i++) {
    const char *at = strstr(f->body, touching[i]);
    if (at && at < wait) return false;
  }
  return wait || f->module->is_cubin; /* machine code is not read here */
}

/* Of two kernels in a row the second one may begin early; it is executed here after the first one all the same. */
API unsigned cuLaunchKernelEx(const cu_launch *l, cu_function f, void **parameters, void **extra) {
  if (l->num_attributes != 1 ||
      l->attributes->id != MSCRT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION || !l->attributes->value.allowed)
    standin_broken("a launch with %u other attributes", l->num_attributes);
  if (standin_number("MSC_STANDIN_ARCH", 90) < 90) standin_broken("a kernel begins early on a GPU that cannot do it");
  if (!standin_follows(l->stream, "kernel")) standin_broken("a kernel begins early that follows none");
  if (!waits_first(f)) standin_broken("a kernel begins early and does not wait for the one before it");
  return launch(__func__, f, l, parameters, extra);
}
