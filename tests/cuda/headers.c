/* The runtime's own declarations of CUDA's libraries against the real headers, where there are some: that this file
 * compiles is the test. */
#include <stdio.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAS_CUDA 1
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HAS_CUBLAS 1
#endif
#if __has_include(<cudnn_graph.h>) && __has_include(<cuda_runtime_api.h>)
#include <cudnn_graph.h>
#define HAS_CUDNN 1
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define HAS_NCCL 1
#endif

#include "runtime/cuda/cudnn_api.h"

#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#define VALUE(name, value) _Static_assert((int)name == value, #name);
/* Unevaluated: no library is linked. */
#define SAME(name, parameters) _Static_assert(sizeof((unsigned(*[]) parameters){name}) > 0, #name);
/* A struct of ours stands for one of theirs: its layout is compared below. */
#define EXISTS(name, parameters) _Static_assert(sizeof(&name) > 0, #name);
#define FIELD(theirs, field, ours, own) \
  _Static_assert(offsetof(theirs, field) == offsetof(ours, own), #theirs "." #field)
#define SIZE(theirs, ours) _Static_assert(sizeof(theirs) == sizeof(ours) && _Alignof(theirs) == _Alignof(ours), #theirs)

#ifdef HAS_CUDA
MSCRT_CUDA_VALUES(VALUE)
MSCRT_CUDA_LAUNCH_VALUES(VALUE)
MSCRT_CUDA_ATTRIBUTES(VALUE)
MSCRT_CUDA_FUNCTIONS(SAME, EXISTS)
SIZE(CUuuid, cu_uuid);
SIZE(CUDA_MEMCPY2D, cu_copy_2d);
MSCRT_CUDA_LAUNCHING(SAME, EXISTS)
SIZE(CUlaunchAttribute, cu_launch_attribute);
FIELD(CUlaunchAttribute, value.programmaticStreamSerializationAllowed, cu_launch_attribute, value.allowed);
SIZE(CUlaunchConfig, cu_launch);
FIELD(CUlaunchConfig, gridDimX, cu_launch, grid_x);
FIELD(CUlaunchConfig, blockDimX, cu_launch, block_x);
FIELD(CUlaunchConfig, sharedMemBytes, cu_launch, shared_bytes);
FIELD(CUlaunchConfig, hStream, cu_launch, stream);
FIELD(CUlaunchConfig, attrs, cu_launch, attributes);
FIELD(CUlaunchConfig, numAttrs, cu_launch, num_attributes);
FIELD(CUDA_MEMCPY2D, srcXInBytes, cu_copy_2d, src_x);
FIELD(CUDA_MEMCPY2D, srcMemoryType, cu_copy_2d, src_kind);
FIELD(CUDA_MEMCPY2D, srcDevice, cu_copy_2d, src);
FIELD(CUDA_MEMCPY2D, srcPitch, cu_copy_2d, src_pitch);
FIELD(CUDA_MEMCPY2D, dstXInBytes, cu_copy_2d, dst_x);
FIELD(CUDA_MEMCPY2D, dstMemoryType, cu_copy_2d, dst_kind);
FIELD(CUDA_MEMCPY2D, dstDevice, cu_copy_2d, dst);
FIELD(CUDA_MEMCPY2D, dstPitch, cu_copy_2d, dst_pitch);
FIELD(CUDA_MEMCPY2D, WidthInBytes, cu_copy_2d, width);
FIELD(CUDA_MEMCPY2D, Height, cu_copy_2d, height);
#endif

#ifdef HAS_CUBLAS
MSCRT_CUBLAS_VALUES(VALUE)
MSCRT_CUBLAS_FUNCTIONS(SAME, EXISTS)
_Static_assert(sizeof((size_t(*[])(void)){cublasLtGetVersion}) > 0, "version");
SIZE(cublasLtMatmulAlgo_t, lt_algorithm);
SIZE(cublasLtMatmulHeuristicResult_t, lt_candidate);
FIELD(cublasLtMatmulHeuristicResult_t, workspaceSize, lt_candidate, workspace_bytes);
FIELD(cublasLtMatmulHeuristicResult_t, state, lt_candidate, state);
FIELD(cublasLtMatmulHeuristicResult_t, wavesCount, lt_candidate, waves);
#endif

#ifdef HAS_CUDNN
MSCRT_CUDNN_VALUES(VALUE)
MSCRT_CUDNN_FUNCTIONS(SAME)
_Static_assert(sizeof((size_t(*[])(void)){cudnnGetVersion}) > 0, "version");
_Static_assert(sizeof((const char *(*[])(cudnnStatus_t)){cudnnGetErrorString}) > 0, "text");
#endif

#ifdef HAS_NCCL
MSCRT_NCCL_VALUES(VALUE)
#if NCCL_VERSION_CODE >= NCCL_HAS_WINDOWS
MSCRT_NCCL_WINDOW_VALUES(VALUE)
#endif
MSCRT_NCCL_FUNCTIONS(SAME, EXISTS)
#if NCCL_VERSION_CODE >= NCCL_HAS_WINDOWS
MSCRT_NCCL_REGISTERING(SAME, EXISTS)
MSCRT_NCCL_WINDOWS(SAME, EXISTS)
#endif
_Static_assert(sizeof((const char *(*[])(ncclResult_t)){ncclGetErrorString}) > 0, "text");
_Static_assert(sizeof((const char *(*[])(ncclComm_t)){ncclGetLastError}) > 0, "text");
SIZE(ncclUniqueId, nccl_id);
FIELD(ncclConfig_t, magic, nccl_config, magic);
FIELD(ncclConfig_t, version, nccl_config, version);
FIELD(ncclConfig_t, blocking, nccl_config, blocking);
FIELD(ncclConfig_t, maxCTAs, nccl_config, max_ctas);
FIELD(ncclConfig_t, netName, nccl_config, net_name);
FIELD(ncclConfig_t, splitShare, nccl_config, split_share);
_Static_assert(NCCL_UNDEFINED_INT == NCCL_CONFIG_UNDEF_INT, "undefined");
_Static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t), "it only grows");
#endif

int main(void) {
#if !defined HAS_CUDA || !defined HAS_CUBLAS || !defined HAS_CUDNN || !defined HAS_NCCL
  puts("skipped: cuda.h, cublasLt.h, cudnn_graph.h or nccl.h is not there to compare with");
#endif
  return 0;
}
