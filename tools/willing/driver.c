/* driver.c: a libcuda that is content with everything and does nothing: enough for the real cuDNN to make plans on a
 * machine without a GPU, for one that is described to it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define API __attribute__((visibility("default")))

static char something[4096]; /* what handles point to */

/* Succeeds and does nothing: the functions of the driver listed below. */
static int content(void) { return 0; }

#define CONTENT(X)                                                                                                    \
  X(cuInit)                                                                                                           \
  X(cuCtxGetLimit) X(cuCtxSetCurrent) X(cuCtxPopCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent_v2)                    \
      X(cuCtxPushCurrent_v2) X(cuStreamGetCtx) X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuDeviceGetName)              \
          X(cuDeviceTotalMem_v2) X(cuDeviceGetUuid_v2) X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkDestroy)          \
              X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLibraryUnload) X(cuModuleUnload) \
                  X(cuKernelSetAttribute) X(cuKernelGetAttribute) X(cuFuncSetAttribute) X(cuFuncGetAttribute)         \
                      X(cuOccupancyMaxPotentialClusterSize) X(cuOccupancyMaxActiveBlocksPerMultiprocessor)
#define GIVEN(X)                                                                                                      \
  X(cuCtxGetCurrent)                                                                                                  \
  X(cuDevicePrimaryCtxRetain) X(cuLibraryLoadData) X(cuLibraryLoadFromFile) X(cuLibraryGetKernel)                     \
      X(cuLibraryGetModule) X(cuKernelGetFunction) X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) \
          X(cuModuleGetFunction)

#define X(name) API int name(void); int name(void) { return content(); }
CONTENT(X)
#undef X
#define X(name) API int name(void **out); int name(void **out) { return *out = something, 0; }
GIVEN(X)
#undef X

API int cuDriverGetVersion(int *out);
int cuDriverGetVersion(int *out) { return *out = 13000, 0; }

API int cuDeviceGetCount(int *out);
int cuDeviceGetCount(int *out) { return *out = 1, 0; }

/* The real driver exports undocumented tables of functions; this one has none and says so. */
API int cuGetExportTable(const void **out, const void *id);
int cuGetExportTable(const void **out, const void *id) { return (void)id, *out = NULL, 500; }

static int name_of(int result, const char **out) { return (void)result, *out = "none", 0; }
API int cuGetErrorName(int result, const char **out);
int cuGetErrorName(int result, const char **out) { return name_of(result, out); }
API int cuGetErrorString(int result, const char **out);
int cuGetErrorString(int result, const char **out) { return name_of(result, out); }

API int cuLinkCreate_v2(unsigned num, void *option, void *value, void **out);
int cuLinkCreate_v2(unsigned num, void *option, void *value, void **out) {
  return (void)num, (void)option, (void)value, *out = something, 0;
}
API int cuLinkCreate(unsigned num, void *option, void *value, void **out);
int cuLinkCreate(unsigned num, void *option, void *value, void **out) {
  return cuLinkCreate_v2(num, option, value, out);
}
API int cuLinkComplete(void *link, void **out, size_t *out_bytes);
int cuLinkComplete(void *link, void **out, size_t *out_bytes) {
  return (void)link, *out = something, *out_bytes = sizeof something, 0;
}

/* Finds a function of this library by name, its newer version (NAME_v2) if there is one. */
API int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *out_status);
int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *out_status) {
  static void *self;
  char later[128];
  (void)version, (void)flags;
  if (!self) self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  snprintf(later, sizeof later, "%s_v2", name);
  *out = dlsym(self, later);
  if (!*out) *out = dlsym(self, name);
  if (!*out) *out = (void *)(uintptr_t)content;
  if (out_status) *out_status = 0;
  return 0;
}

API int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags);
int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
