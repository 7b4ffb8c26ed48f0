/* cudnn_ahead.c: finds cuDNN's engines for a GPU that is only described, and writes them as text. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cuda/cudnn.h"

/* ---- a driver ---- */

static const char driver[] =
#define EMBEDDED(name, bytes) bytes
#include "willing.h"
#undef EMBEDDED
  ;

/* Loads the driver of tools/willing, which does nothing.  cuDNN loads a driver by its name, also where it needs
 * none. */
static mscrt_status *load_driver(void) {
  char path[64];
  void *loaded = NULL;
  int fd = memfd_create("libcuda.so.1", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (fd >= 0 && write(fd, driver, sizeof driver - 1) == (ssize_t)sizeof driver - 1)
    loaded = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  const char *why = loaded ? NULL : dlerror();
  if (fd >= 0) close(fd);
  return loaded ? NULL
                : mscrt_fail(MSCRT_ENVIRONMENT, "the driver that does nothing cannot be loaded: %s",
                             why ? why : "no memory file");
}

/* ---- a GPU ---- */

/* The properties of a GPU by cuDNN's names.  The constants here hold for all GPUs since compute capability 8.0. */
#define FORM                                                                                                    \
  "{\"deviceName\": \"%s\", \"deviceVer\": %d, \"driverVer\": 13000, \"cudaDeviceId\": 0, \"pciDeviceId\": 0, " \
  "\"isTccDriver\": 0, "                                                                                        \
  "\"supportCoopLaunch\": 1, \"multiProcessorCount\": %" PRId64 ", \"smClockRateKHz\": %" PRId64                \
  ", \"memClockRateKHz\": %" PRId64                                                                             \
  ", "                                                                                                          \
  "\"totalGlobalMem\": %" PRId64 ", \"l2CacheSize\": %" PRId64 ", \"maxSharedMemoryPerSM\": %" PRId64           \
  ", "                                                                                                          \
  "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %" PRId64                              \
  ", \"reservedSharedMemoryPerBlock\": %d, "                                                                    \
  "\"maxThreadsPerSM\": %" PRId64 ", \"maxCtasPerSM\": %" PRId64                                                \
  ", \"maxThreadsPerBlock\": 1024, \"warpSize\": 32, "                                                          \
  "\"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536, \"maxGridSize\": [2147483647, 65535, 65535], "        \
  "\"maxBlockSize\": [1024, 1024, 64]}"

enum { RESERVED = 1024 /* bytes of shared memory of each block that the driver uses */ };

/* Copies a name, with _ in place of characters that JSON would escape. */
static void copy_plain_name(const char *name, char out[64]) {
  snprintf(out, 64, "%s", name);
  for (char *p = out; *p; p++)
    if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\') *p = '_';
}

mscrt_status *mscrt_dnn_describe(const mscrt_gpu *gpu, mscrt_dnn *out) {
  char name[64], text[2048];
  *out = (mscrt_dnn){.is_known = true};
  MSCRT_CHECK(load_driver());
  MSCRT_CHECK(mscrt_cudnn_load(&out->api));
  MSCRT_CHECK(mscrt_new_array(&out->graph, 1)); /* no graph of the plan: it only holds the GPU's descriptor */
  mscrt_dnn_builder b = {.api = &out->api, .out = out->graph};
  copy_plain_name(gpu->name, name);
  int n = snprintf(text, sizeof text, FORM, name, 10 * gpu->arch, gpu->multiprocessors, gpu->clock_hz / 1000,
                   gpu->memory_clock_hz / 1000, gpu->memory_bytes, gpu->cache_bytes, gpu->shared_bytes,
                   gpu->shared_bytes - RESERVED, RESERVED, gpu->threads, gpu->blocks);
  out->device = mscrt_dnn_new(&b, MSCRT_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  mscrt_dnn_set(&b, out->device, MSCRT_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, MSCRT_CUDNN_TYPE_CHAR, n, text);
  mscrt_dnn_finalize(&b, out->device);
  return b.failed;
}

void mscrt_dnn_forget(mscrt_dnn *d) {
  if (d->graph) mscrt_dnn_free(d, d->graph);
  free(d->graph);
  *d = (mscrt_dnn){0};
}

/* ---- engines ---- */

mscrt_status *mscrt_dnn_text(const mscrt_dnn *d, const mscrt_dnn_graph *g, char **out_text) {
  const unsigned name = MSCRT_CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  int64_t bytes = 0, written = 0;
  *out_text = NULL;
  dnn_result r = d->api.cudnnBackendGetAttribute(g->plan, name, MSCRT_CUDNN_TYPE_CHAR, 0, &bytes, NULL);
  if (!r && (bytes < 1 || !(*out_text = calloc(1, (size_t)bytes + 1))))
    return mscrt_fail(MSCRT_NO_MEMORY, "an engine of %" PRId64 " bytes", bytes);
  if (!r) r = d->api.cudnnBackendGetAttribute(g->plan, name, MSCRT_CUDNN_TYPE_CHAR, bytes, &written, *out_text);
  if (!r) return NULL;
  free(*out_text);
  *out_text = NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "cuDNN: an engine as text failed: %s", d->api.cudnnGetErrorString(r));
}
