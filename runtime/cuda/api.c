/* api.c: loads NVIDIA's shared libraries and fills tables of their functions, or reports what is missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cudnn_api.h"

/* A library, what a plan for GPUs needs it for, and how to install it. */
typedef struct {
  const char *names[4], *needed_for, *remedy;
} library;

static const library driver = {{"libcuda.so.1"}, "run on an NVIDIA GPU", "install NVIDIA's driver"};
static const library cublas = {
    {"libcublasLt.so.13", "libcublasLt.so.12"}, "multiply matrices on a GPU", "install CUDA's package libcublas"};
static const library cublas_12 = {{"libcublasLt.so.12"},
                                  "multiply matrices with this driver, which knows no CUDA 13,",
                                  "install CUDA 12's package libcublas, or a newer driver"};
static const library nccl = {
    {"libnccl.so.2"}, "let GPUs communicate", "install NCCL's package libnccl2, or run with --comm local"};

static const library cudnn = {{"libcudnn.so.9"},
                              "compute attention and convolutions on a GPU",
                              "install NVIDIA's package libcudnn9, or compile with --set library_attention=false --set "
                              "library_convolution=false"};

/* Loads a library for the life of the process: threads of the driver outlive its users. */
static mscrt_status *load_library(const library *l, void **out_handle) {
  const char *why = NULL;
  for (int i = 0; l->names[i] && !*out_handle; i++) {
    *out_handle = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!*out_handle && !why) why = dlerror();
  }
  if (*out_handle) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT, "to %s %s is needed, which cannot be loaded; %s (%s)", l->needed_for,
                    l->names[0], l->remedy, why ? why : "unknown reason");
}

static mscrt_status *find_function(const library *l, void *handle, const char *name, void *out_function) {
  *(void **)out_function = dlsym(handle, name);
  return *(void **)out_function
             ? NULL
             : mscrt_fail(MSCRT_ENVIRONMENT, "%s has no function %s: it is too old; %s", l->names[0], name, l->remedy);
}

/* Reports a library that is too old, by the version that it states, before its functions are looked up. */
static mscrt_status *check_version(const library *l, const char *version, bool is, const char *least) {
  return is ? NULL
            : mscrt_fail(MSCRT_ENVIRONMENT, "%s is of version %s, and to %s at least %s is needed: %s", l->names[0],
                         version, l->needed_for, least, l->remedy);
}

/* ---- versions ---- */

static const char *cuda_version_text(int version, char text[MSCRT_VERSION_TEXT]) {
  snprintf(text, MSCRT_VERSION_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
  return text;
}

const char *mscrt_nccl_version(int version, char text[MSCRT_VERSION_TEXT]) {
  int major = version < 10000 ? version / 1000 : version / 10000,
      minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  snprintf(text, MSCRT_VERSION_TEXT, "%d.%d.%d", major, minor, version % 100);
  return text;
}

/* ---- loading ---- */

#define FIND(name, parameters) MSCRT_CHECK(find_function(FROM, api->handle, #name, &api->name));

/* The least version is 11.4, which instantiates graphs with flags. */
mscrt_status *mscrt_cuda_load(mscrt_cuda_api *api, int *out_driver) {
  char text[MSCRT_VERSION_TEXT];
#define FROM &driver
  MSCRT_CHECK(load_library(FROM, &api->handle));
  FIND(cuDriverGetVersion, )
  cu_result r = api->cuDriverGetVersion(out_driver);
  if (r)
    return mscrt_fail(MSCRT_ENVIRONMENT,
                      "%s is no driver that works (error %u): the toolkit has one to link with alone; %s",
                      driver.names[0], r, driver.remedy);
  MSCRT_CHECK(check_version(FROM, cuda_version_text(*out_driver, text), *out_driver >= 11040, "11.4"));
  MSCRT_CUDA_FUNCTIONS(FIND, FIND)
  if (*out_driver >= CUDA_CAPTURES_EARLY) {
    MSCRT_CUDA_LAUNCHING(FIND, FIND)
  }
#undef FROM
  return NULL;
}

mscrt_status *mscrt_cublas_load(mscrt_cublas_api *api, int version) {
#define FROM version < 13000 ? &cublas_12 : &cublas
  MSCRT_CHECK(load_library(FROM, &api->handle));
  MSCRT_CUBLAS_FUNCTIONS(FIND, FIND)
  FIND(cublasLtGetVersion, )
#undef FROM
  return NULL;
}

mscrt_status *mscrt_cudnn_load(mscrt_cudnn_api *api) {
#define FROM &cudnn
  MSCRT_CHECK(load_library(FROM, &api->handle));
  MSCRT_CUDNN_FUNCTIONS(FIND)
  FIND(cudnnGetVersion, )
  FIND(cudnnGetErrorString, )
#undef FROM
  return NULL;
}

mscrt_status *mscrt_cudnn_fits(const mscrt_cudnn_api *api, int version) {
  char theirs[MSCRT_VERSION_TEXT], known[MSCRT_VERSION_TEXT];
  size_t (*get)(void);
  MSCRT_CHECK(find_function(&cudnn, api->handle, "cudnnGetCudartVersion", &get));
  int made_for = (int)get();
  if (made_for / 1000 <= version / 1000) return NULL;
  return mscrt_fail(MSCRT_ENVIRONMENT,
                    "cuDNN %zu is made for CUDA %s, and the driver knows %s: install NVIDIA's package "
                    "libcudnn9-cuda-%d, or a newer driver",
                    api->cudnnGetVersion(), cuda_version_text(made_for, theirs), cuda_version_text(version, known),
                    version / 1000);
}

/* The least version is 2.18, which splits communicators and has communicators that do not block. */
mscrt_status *mscrt_nccl_load(mscrt_nccl_api *api, int *out_version) {
  char text[MSCRT_VERSION_TEXT];
#define FROM &nccl
  MSCRT_CHECK(load_library(FROM, &api->handle));
  FIND(ncclGetVersion, )
  if (api->ncclGetVersion(out_version))
    return mscrt_fail(MSCRT_ENVIRONMENT, "%s does not say its version", nccl.names[0]);
  MSCRT_CHECK(check_version(FROM, mscrt_nccl_version(*out_version, text), *out_version >= NCCL_LEAST, "2.18.1"));
  MSCRT_NCCL_FUNCTIONS(FIND, FIND)
  if (*out_version >= NCCL_REGISTERS) {
    MSCRT_NCCL_REGISTERING(FIND, FIND)
  }
  if (*out_version >= NCCL_HAS_WINDOWS) {
    MSCRT_NCCL_WINDOWS(FIND, FIND)
  }
  FIND(ncclGetErrorString, )
  FIND(ncclGetLastError, )
#undef FROM
  return NULL;
}

/* ---- failures ---- */

/* True for errors after which the context and everything in the GPU's memory are lost. */
static bool loses_context(cu_result r) {
  static const cu_result lost[] = {MSCRT_CUDA_ERROR_ILLEGAL_ADDRESS,
                                   MSCRT_CUDA_ERROR_LAUNCH_TIMEOUT,
                                   MSCRT_CUDA_ERROR_ASSERT,
                                   MSCRT_CUDA_ERROR_CONTAINED,
                                   MSCRT_CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                   MSCRT_CUDA_ERROR_ECC_UNCORRECTABLE,
                                   MSCRT_CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                   MSCRT_CUDA_ERROR_UNKNOWN};
  for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
    if (r == lost[i]) return true;
  return r >= MSCRT_CUDA_ERROR_HARDWARE_STACK_ERROR && r <= MSCRT_CUDA_ERROR_LAUNCH_FAILED;
}

mscrt_status *mscrt_cuda_failure(const mscrt_cuda_api *api, cu_result r, const char *what) {
  const char *name = NULL, *text = NULL;
  api->cuGetErrorName(r, &name);
  api->cuGetErrorString(r, &text);
  if (!name) name = "an error that this driver does not name";
  if (r == MSCRT_CUDA_ERROR_OUT_OF_MEMORY)
    return mscrt_fail(MSCRT_NO_MEMORY, "%s (%s)",
                      strncmp(what, "cuMemHost", 9) ? "the GPU has no memory left"
                                                    : "the host has no memory left that a GPU's driver could pin",
                      what);
  if (loses_context(r))
    return mscrt_fail(MSCRT_ENVIRONMENT, "the GPU was lost while it worked: %s, %s (seen by %s)", name,
                      text ? text : "", what);
  return mscrt_fail(MSCRT_ENVIRONMENT, "the GPU's driver refused %s: %s, %s", what, name, text ? text : "");
}
