/* api.h: declares the functions of NVIDIA's driver, cuBLASLt and NCCL that the runtime calls.  The runtime is built
 * without their headers and loads the libraries when a plan needs them.  tests/cuda/headers.c compares every line with
 * the real headers. */
#ifndef MSCRT_CUDA_API_H
#define MSCRT_CUDA_API_H

#include "runtime/runtime.h"

/* Enumerations are unsigned there; handles are pointers to structs that only the libraries know. */
typedef unsigned cu_result, lt_result, nccl_result;
typedef unsigned long long cu_address;
typedef int cu_device;
typedef struct CUctx_st *cu_context;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_graph_exec;
typedef struct cublasLtContext *lt_handle;
typedef struct lt_product_struct *lt_product;
typedef struct lt_layout_struct *lt_layout;
typedef struct lt_preference_struct *lt_preference;
typedef struct ncclComm *nccl_comm;
typedef struct { uint8_t byte[16]; } cu_uuid;
typedef struct ncclWindow_vidmem *nccl_window;

/* Values of their enumerations: X(name, value) */
#define MSCRT_CUDA_VALUES(X)                                                                                           \
  X(CUDA_SUCCESS, 0)                                                                                                   \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2) X(CUDA_ERROR_NO_DEVICE, 100) X(CUDA_ERROR_INVALID_IMAGE, 200)                         \
      X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209) X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                   \
          X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222) X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)                       \
              X(CUDA_ERROR_NOT_FOUND, 500) X(CUDA_ERROR_NOT_READY, 600) X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)             \
                  X(CUDA_ERROR_LAUNCH_TIMEOUT, 702) X(CUDA_ERROR_ASSERT, 710) X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)  \
                      X(CUDA_ERROR_LAUNCH_FAILED, 719) X(CUDA_ERROR_CONTAINED, 226)                                    \
                          X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709) X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                 \
                              X(CUDA_ERROR_ECC_UNCORRECTABLE, 214) X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)             \
                                  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904) X(CUDA_ERROR_UNKNOWN, 999)                \
                                      X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                              \
                                          X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                          \
                                              X(CU_STREAM_NON_BLOCKING, 1) X(CU_EVENT_DISABLE_TIMING, 2)               \
                                                  X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) X(CU_MEMORYTYPE_DEVICE, 2) \
                                                      X(CU_JIT_ERROR_LOG_BUFFER, 5)                                    \
                                                          X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                     \
                                                              X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)
/* Attributes of a launch: X(name, value) */
#define MSCRT_CUDA_LAUNCH_VALUES(X) X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)
/* What a GPU is asked for: X(name, value) */
#define MSCRT_CUDA_ATTRIBUTES(X)                                   \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                  \
  X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)        /* kHz */           \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) /* kHz */           \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                         \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)  \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)        \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106)
#define MSCRT_CUBLAS_VALUES(X)                                                                                     \
  X(CUBLAS_STATUS_SUCCESS, 0)                                                                                      \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                                                                               \
  X(CUBLAS_COMPUTE_32F, 68) X(CUBLAS_COMPUTE_64F, 70) X(CUBLAS_OP_N, 0) X(CUBLAS_OP_T, 1) X(CUDA_R_32F, 0)         \
      X(CUDA_R_64F, 1) X(CUDA_R_16F, 2) X(CUDA_R_16BF, 14) X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                       \
          X(CUBLASLT_MATMUL_DESC_TRANSB, 4) X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                    \
              X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) X(CUBLASLT_EPILOGUE_DEFAULT, 1) X(CUBLASLT_EPILOGUE_RELU, 2) \
                  X(CUBLASLT_EPILOGUE_BIAS, 4) X(CUBLASLT_EPILOGUE_GELU, 32) X(CUBLASLT_EPILOGUE_RELU_AUX, 130)    \
                      X(CUBLASLT_EPILOGUE_GELU_AUX, 160) X(CUBLASLT_EPILOGUE_DRELU, 136)                           \
                          X(CUBLASLT_EPILOGUE_DGELU, 192) X(CUBLASLT_EPILOGUE_BGRADA, 256)                         \
                              X(CUBLASLT_EPILOGUE_BGRADB, 512) X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)    \
                                  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12) X(CUBLASLT_EPILOGUE_RELU_BIAS, 6)    \
                                      X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                     \
                                          X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                        \
                                              X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                       \
                                                  X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                 \
                                                      X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)             \
                                                          X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)         \
                                                              X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)     \
                                                                  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8) \
                                                                      X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)
#define MSCRT_NCCL_VALUES(X)                                                                                    \
  X(ncclSuccess, 0)                                                                                             \
  X(ncclRemoteError, 6) X(ncclInProgress, 7) X(ncclInt8, 0) X(ncclUint8, 1) X(ncclInt32, 2) X(ncclUint32, 3)    \
      X(ncclInt64, 4) X(ncclUint64, 5) X(ncclFloat16, 6) X(ncclFloat32, 7) X(ncclFloat64, 8) X(ncclBfloat16, 9) \
          X(ncclSum, 0) X(ncclProd, 1) X(ncclMax, 2) X(ncclMin, 3)
#define MSCRT_NCCL_WINDOW_VALUES(X) X(NCCL_WIN_COLL_SYMMETRIC, 1)

enum {
#define X(name, value) MSCRT_##name = value,
  MSCRT_CUDA_VALUES(X) MSCRT_CUDA_LAUNCH_VALUES(X) MSCRT_CUDA_ATTRIBUTES(X)
  MSCRT_CUBLAS_VALUES(X) MSCRT_NCCL_VALUES(X) MSCRT_NCCL_WINDOW_VALUES(X)
#undef X
};

/* CUDA_MEMCPY2D */
typedef struct {
  size_t src_x, src_y;
  unsigned src_kind;
  const void *src_host;
  cu_address src;
  void *src_array;
  size_t src_pitch, dst_x, dst_y;
  unsigned dst_kind;
  void *dst_host;
  cu_address dst;
  void *dst_array;
  size_t dst_pitch, width, height;
} cu_copy_2d;

/* CUlaunchAttribute, CUlaunchConfig */
typedef struct {
  unsigned id;
  char pad[4];
  union {
    uint64_t room[8];
    int allowed; /* of MSCRT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
  } value;
} cu_launch_attribute;
typedef struct {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  cu_stream stream;
  cu_launch_attribute *attributes;
  unsigned num_attributes;
} cu_launch;

/* cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t */
typedef struct { uint64_t data[8]; } lt_algorithm;
typedef struct {
  lt_algorithm algorithm;
  size_t workspace_bytes;
  lt_result state;
  float waves;
  int reserved[4];
} lt_candidate;

/* ncclUniqueId, and ncclConfig_t as in its first version: later libraries see by its size which fields are missing */
typedef struct { char bytes[128]; } nccl_id;
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share;
} nccl_config;
#define NCCL_UNDEFINED_INT INT32_MIN
#define NCCL_LEAST       21801 /* 2.18.1 */
#define NCCL_REGISTERS   21901
#define NCCL_HAS_WINDOWS 22807 /* before, symmetric kernels in groups gave wrong numbers */
#define NCCL_CONFIG                                                                                                   \
  {                                                                                                                   \
    sizeof(nccl_config), 0xcafebeef, NCCL_LEAST, 0, NCCL_UNDEFINED_INT, NCCL_UNDEFINED_INT, NCCL_UNDEFINED_INT, NULL, \
        0                                                                                                             \
  }

/* Names as they are in the library, after the headers' macros.  X(name, parameters); S: a parameter is a struct,
 * which is compared by its layout alone. */
#define MSCRT_CUDA_FUNCTIONS(X, S)                                                                                 \
  X(cuInit, (unsigned flags))                                                                                      \
  X(cuDriverGetVersion, (int *version))                                                                            \
  X(cuGetErrorName, (cu_result r, const char **out_text))                                                          \
  X(cuGetErrorString, (cu_result r, const char **out_text))                                                        \
  X(cuDeviceGetCount, (int *num))                                                                                  \
  X(cuDeviceGet, (cu_device * out_device, int ordinal))                                                            \
  X(cuDeviceGetName, (char *name, int room, cu_device d))                                                          \
  X(cuDeviceGetAttribute, (int *out_value, unsigned attribute, cu_device d))                                       \
  S(cuDeviceGetUuid_v2, (cu_uuid * out_uuid, cu_device d))                                                         \
  X(cuDeviceTotalMem_v2, (size_t * out_bytes, cu_device d))                                                        \
  X(cuDevicePrimaryCtxRetain, (cu_context * out_context, cu_device d))                                             \
  X(cuDevicePrimaryCtxRelease_v2, (cu_device d))                                                                   \
  X(cuCtxPushCurrent_v2, (cu_context c))                                                                           \
  X(cuCtxPopCurrent_v2, (cu_context * out_context))                                                                \
  X(cuMemGetInfo_v2, (size_t * out_free, size_t * out_total))                                                      \
  X(cuMemAlloc_v2, (cu_address * out_memory, size_t bytes))                                                        \
  X(cuMemFree_v2, (cu_address memory))                                                                             \
  X(cuMemHostAlloc, (void **out_memory, size_t bytes, unsigned flags))                                             \
  X(cuMemFreeHost, (void *memory))                                                                                 \
  X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                            \
  X(cuMemHostUnregister, (void *memory))                                                                           \
  X(cuMemHostGetDevicePointer_v2, (cu_address * out_memory, void *memory, unsigned flags))                         \
  X(cuMemcpyHtoDAsync_v2, (cu_address dst, const void *src, size_t bytes, cu_stream s))                            \
  X(cuMemcpyDtoHAsync_v2, (void *dst, cu_address src, size_t bytes, cu_stream s))                                  \
  X(cuMemcpyDtoDAsync_v2, (cu_address dst, cu_address src, size_t bytes, cu_stream s))                             \
  S(cuMemcpy2DAsync_v2, (const cu_copy_2d *copy, cu_stream s))                                                     \
  X(cuMemsetD8Async, (cu_address dst, unsigned char value, size_t num, cu_stream s))                               \
  X(cuMemsetD16Async, (cu_address dst, unsigned short value, size_t num, cu_stream s))                             \
  X(cuMemsetD32Async, (cu_address dst, unsigned value, size_t num, cu_stream s))                                   \
  X(cuMemsetD2D32Async, (cu_address dst, size_t pitch, unsigned value, size_t width, size_t height, cu_stream s))  \
  X(cuStreamCreate, (cu_stream * out_stream, unsigned flags))                                                      \
  X(cuStreamDestroy_v2, (cu_stream s))                                                                             \
  X(cuStreamQuery, (cu_stream s))                                                                                  \
  X(cuStreamWaitEvent, (cu_stream s, cu_event e, unsigned flags))                                                  \
  X(cuStreamBeginCapture_v2, (cu_stream s, unsigned mode))                                                         \
  X(cuStreamEndCapture, (cu_stream s, cu_graph * out_graph))                                                       \
  X(cuGraphInstantiateWithFlags, (cu_graph_exec * out_exec, cu_graph g, unsigned long long flags))                 \
  X(cuGraphLaunch, (cu_graph_exec e, cu_stream s))                                                                 \
  X(cuGraphDestroy, (cu_graph g))                                                                                  \
  X(cuGraphExecDestroy, (cu_graph_exec e))                                                                         \
  X(cuEventCreate, (cu_event * out_event, unsigned flags))                                                         \
  X(cuEventDestroy_v2, (cu_event e))                                                                               \
  X(cuLaunchHostFunc, (cu_stream s, void (*function)(void *), void *user))                                         \
  X(cuEventRecord, (cu_event e, cu_stream s))                                                                      \
  X(cuEventQuery, (cu_event e))                                                                                    \
  X(cuEventSynchronize, (cu_event e))                                                                              \
  X(cuEventElapsedTime, (float *out_ms, cu_event begin, cu_event end))                                             \
  X(cuModuleLoadDataEx, (cu_module * out_module, const void *image, unsigned num, unsigned *option, void **value)) \
  X(cuModuleGetFunction, (cu_function * out_function, cu_module m, const char *name))                              \
  X(cuModuleUnload, (cu_module m))                                                                                 \
  X(cuLaunchKernel,                                                                                                \
    (cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, cu_stream s, void **parameters, void **extra))

/* Since CUDA_CAPTURES_EARLY, the first driver whose graphs keep the attribute; NULL in the tables of older ones. */
#define CUDA_CAPTURES_EARLY 12030
#define MSCRT_CUDA_LAUNCHING(X, S) \
  S(cuLaunchKernelEx, (const cu_launch *launch, cu_function f, void **parameters, void **extra))

#define MSCRT_CUBLAS_FUNCTIONS(X, S)                                                                                  \
  X(cublasLtCreate, (lt_handle * out_handle))                                                                         \
  X(cublasLtDestroy, (lt_handle h))                                                                                   \
  S(cublasLtMatmulDescCreate, (lt_product * out_product, unsigned compute, unsigned scale))                           \
  S(cublasLtMatmulDescDestroy, (lt_product p))                                                                        \
  S(cublasLtMatmulDescSetAttribute, (lt_product p, unsigned attribute, const void *value, size_t bytes))              \
  S(cublasLtMatrixLayoutCreate, (lt_layout * out_layout, unsigned type, uint64_t rows, uint64_t columns, int64_t ld)) \
  S(cublasLtMatrixLayoutDestroy, (lt_layout l))                                                                       \
  S(cublasLtMatrixLayoutSetAttribute, (lt_layout l, unsigned attribute, const void *value, size_t bytes))             \
  S(cublasLtMatmulPreferenceCreate, (lt_preference * out_preference))                                                 \
  S(cublasLtMatmulPreferenceDestroy, (lt_preference p))                                                               \
  S(cublasLtMatmulPreferenceSetAttribute, (lt_preference p, unsigned attribute, const void *value, size_t bytes))     \
  S(cublasLtMatmulAlgoGetHeuristic, (lt_handle h, lt_product p, lt_layout a, lt_layout b, lt_layout c, lt_layout d,   \
                                     lt_preference preference, int num, lt_candidate *out_candidates, int *out_num))  \
  S(cublasLtMatmulAlgoCheck, (lt_handle h, lt_product p, lt_layout a, lt_layout b, lt_layout c, lt_layout d,          \
                              const lt_algorithm *algorithm, lt_candidate *out_candidate))                            \
  S(cublasLtMatmul, (lt_handle h, lt_product p, const void *alpha, const void *a, lt_layout la, const void *b,        \
                     lt_layout lb, const void *beta, const void *c, lt_layout lc, void *d, lt_layout ld,              \
                     const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, cu_stream s))

#define MSCRT_NCCL_FUNCTIONS(X, S)                                                                                     \
  X(ncclGetVersion, (int *out_version))                                                                                \
  S(ncclGetUniqueId, (nccl_id *out_id))                                                                                \
  S(ncclCommInitRankConfig, (nccl_comm *out_comm, int ranks, nccl_id id, int rank, nccl_config *config))               \
  S(ncclCommSplit, (nccl_comm c, int color, int key, nccl_comm *out_comm, nccl_config *config))                        \
  X(ncclCommGetAsyncError, (nccl_comm c, nccl_result *out_result))                                                     \
  X(ncclCommFinalize, (nccl_comm c))                                                                                   \
  X(ncclCommDestroy, (nccl_comm c))                                                                                    \
  X(ncclCommAbort, (nccl_comm c))                                                                                      \
  X(ncclGroupStart, (void))                                                                                            \
  X(ncclGroupEnd, (void))                                                                                              \
  X(ncclAllReduce, (const void *src, void *dst, size_t num, unsigned type, unsigned op, nccl_comm c, cu_stream s))     \
  X(ncclAllGather, (const void *src, void *dst, size_t num, unsigned type, nccl_comm c, cu_stream s))                  \
  X(ncclReduceScatter, (const void *src, void *dst, size_t num, unsigned type, unsigned op, nccl_comm c, cu_stream s)) \
  X(ncclSend, (const void *src, size_t num, unsigned type, int peer, nccl_comm c, cu_stream s))                        \
  X(ncclRecv, (void *dst, size_t num, unsigned type, int peer, nccl_comm c, cu_stream s))
/* Since 2.19 and 2.27; NULL in the tables of older ones. */
#define MSCRT_NCCL_REGISTERING(X, S)                                                 \
  X(ncclMemAlloc, (void **out_memory, size_t bytes))                                 \
  X(ncclMemFree, (void *memory))                                                     \
  X(ncclCommRegister, (nccl_comm c, void *memory, size_t bytes, void **out_handle))  \
  X(ncclCommDeregister, (nccl_comm c, void *handle))
#define MSCRT_NCCL_WINDOWS(X, S)                                                                              \
  S(ncclCommWindowRegister, (nccl_comm c, void *memory, size_t bytes, nccl_window *out_window, int flags))    \
  S(ncclCommWindowDeregister, (nccl_comm c, nccl_window window))

#define FIELD(name, parameters) unsigned(*name) parameters;
typedef struct {
  void *handle;
  MSCRT_CUDA_FUNCTIONS(FIELD, FIELD)
  MSCRT_CUDA_LAUNCHING(FIELD, FIELD)
} mscrt_cuda_api;
typedef struct {
  void *handle;
  MSCRT_CUBLAS_FUNCTIONS(FIELD, FIELD)
  size_t (*cublasLtGetVersion)(void);
} mscrt_cublas_api;
typedef struct {
  void *handle;
  MSCRT_NCCL_FUNCTIONS(FIELD, FIELD)
  MSCRT_NCCL_REGISTERING(FIELD, FIELD)
  MSCRT_NCCL_WINDOWS(FIELD, FIELD)
  const char *(*ncclGetErrorString)(nccl_result r);
  const char *(*ncclGetLastError)(nccl_comm c);
} mscrt_nccl_api;
#undef FIELD

/* Load a library until the process ends and fill the caller's table of its functions; the status names what is missing
 * or too old.  driver: the version of CUDA that the driver knows, 12040 is 12.4; a library for a later version is
 * refused. */
mscrt_status *mscrt_cuda_load(mscrt_cuda_api *api, int *out_driver);
mscrt_status *mscrt_cublas_load(mscrt_cublas_api *api, int driver);
mscrt_status *mscrt_nccl_load(mscrt_nccl_api *api, int *out_version);
/* "2.28.9" */
#define MSCRT_VERSION_TEXT 24
const char *mscrt_nccl_version(int version, char text[MSCRT_VERSION_TEXT]);

/* Makes the status of a call `what` that returned this result, in the words of the driver; it says whether the GPU is
 * lost or refused the call. */
mscrt_status *mscrt_cuda_failure(const mscrt_cuda_api *api, cu_result r, const char *what);

/* For functions that see the table as `cu`. */
#define MSCRT_CUDA(cu, function, ...)                                                           \
  do {                                                                                          \
    cu_result result_ = (cu)->function(__VA_ARGS__);                                            \
    if (result_) return mscrt_cuda_failure(cu, result_, #function);                             \
  } while (0)

#endif
