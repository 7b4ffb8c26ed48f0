/* standin.h: what the files of the stand-in share.  One library plays libcuda, libcublasLt, libcudnn and libnccl on a
 * machine without a GPU: it checks the rules of their use and really executes, later than issued and in any order that
 * streams and events allow.
 *
 * A broken rule is written to stderr and ends the process with code 97.  Environment:
 *   MSC_STANDIN_SEED=N        order of what may run in any order; 0: as issued
 *   MSC_STANDIN_WARPS=W       order of threads: up, down, shuffled
 *   MSC_STANDIN_KERNELS=F     the plan's kernels as LLVM IR, which run here in place of PTX
 *   MSC_STANDIN_GPUS=N, _ARCH=N, _MEMORY=BYTES   what there is: 1, 90, 16 GiB
 *   MSC_STANDIN_HOST=N       which host: GPUs of others have other names
 *   MSC_STANDIN_CUBIN=0       the driver takes no machine code
 *   MSC_STANDIN_DRIVER=N, _NCCL=N   versions: 13000, 22809
 *   MSC_STANDIN_ENGINES=N     of cuDNN: 5, see dnn.c
 *   MSC_STANDIN_CUDNN=N       its version: 91900
 *   MSC_STANDIN_FAIL=F:K:R    call number K of function F, or of any that is no question, gives result R
 *                             from an error on that a GPU does not survive, all calls of the driver give it
 *   MSC_STANDIN_HANG=N:K      number K of the work called N, e.g. kernel, never ends; the driver then waits
 *                             where the real one does
 *   MSC_STANDIN_EPILOGUES=0   cuBLASLt has algorithms for products alone
 *   MSC_STANDIN_SLOW=N:US     work called N takes US microseconds more, and events tell the time that has passed
 *   MSC_STANDIN_LOG=F         a line per call */
#ifndef MSC_TESTS_STANDIN_H
#define MSC_TESTS_STANDIN_H

#include "runtime/cuda/cudnn_api.h"

#define API __attribute__((visibility("default")))

/* What the runtime asks for is what is defined here. */
#define DECLARE(name, parameters) API unsigned name parameters;
MSCRT_CUDA_FUNCTIONS(DECLARE, DECLARE)
MSCRT_CUDA_LAUNCHING(DECLARE, DECLARE)
MSCRT_CUBLAS_FUNCTIONS(DECLARE, DECLARE)
MSCRT_NCCL_FUNCTIONS(DECLARE, DECLARE)
MSCRT_NCCL_REGISTERING(DECLARE, DECLARE)
MSCRT_NCCL_WINDOWS(DECLARE, DECLARE)
MSCRT_CUDNN_FUNCTIONS(DECLARE)
API size_t cublasLtGetVersion(void);
API size_t cudnnGetVersion(void);
API size_t cudnnGetCudartVersion(void);
API const char *cudnnGetErrorString(dnn_result r);
API const char *ncclGetErrorString(nccl_result r);
API const char *ncclGetLastError(nccl_comm c);
#undef DECLARE

/* ---- kernels.c ---- */

/* How the instructions err that approximate: 1 up, -1 down, as far as their documentation allows; 0: not at all. */
API extern int standin_error;

/* ---- queue.c: what was issued, and when it runs ---- */

/* Executes; false: not yet, since another process has not come so far. */
typedef bool node_fn(void *argument);

/* One more piece of work of a stream; the argument is copied. */
void standin_issue(cu_stream s, const char *name, node_fn *fn, const void *argument, size_t bytes);
/* Is a capture under way?  `what` is then not allowed. */
void standin_forbid_in_capture(const char *what);
bool standin_capturing(void);
/* Is the last work of the stream of this name? */
bool standin_follows(cu_stream s, const char *name);
/* The driver itself waits, for a stream and for all of them: for ever, if need be. */
void standin_wait(cu_stream s);
void standin_wait_all(void);

/* ---- driver.c ---- */

void standin_broken(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Notes the call; a result that was ordered instead of doing it, else 0. */
unsigned standin_call(const char *function);
unsigned standin_call_ahead(const char *function); /* the same, of what may also be called without a GPU */
/* A line of the log. */
void standin_log(const char *text);
/* A number of the environment. */
long long standin_number(const char *name, long long otherwise);
uint64_t standin_random(void); /* by seed; 0 when the seed is 0 */
/* All of [at, at + bytes) lies in one piece of the GPU's memory. */
void standin_check_memory(cu_address at, size_t bytes, const char *what);
/* Pieces that NCCL has allocated. */
unsigned standin_allocate(cu_address *out, size_t bytes);
void standin_free(cu_address at);
void standin_count(const char *kind, int by); /* of things that must be given back */

/* ---- kernels.c ---- */

typedef struct {
  void (*run)(void **parameters);
  bool meets;                    /* its threads meet at barriers or exchange values */
} standin_kernel;

/* Blocks of a grid one after the other. */
void standin_run_grid(const standin_kernel *k, unsigned blocks, unsigned threads, void **parameters);

#endif
