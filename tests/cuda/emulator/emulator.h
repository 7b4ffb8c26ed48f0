/* emulator.h: kernels for a GPU, as LLVM IR, executed on this CPU by the stand-in (tests/cuda/standin/kernels.c).
 *
 * The IR is what PTX was made from (kernels.ll of `msc compile --target cuda --dump-dir`): special registers, shuffles
 * and barriers become calls, all else is compiled for this machine.  Warps run ahead of each other in a chosen order as
 * far as barriers let them, so a barrier that is missing shows as another result in one of the orders.  What a GPU
 * would hang on ends the process. */
#ifndef MSC_TESTS_CUDA_EMULATOR_H
#define MSC_TESTS_CUDA_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct emulator emulator;

/* In which warps, and the threads of a warp, get on. */
typedef enum { EMULATOR_UP, EMULATOR_DOWN, EMULATOR_MIXED, EMULATOR_ORDERS } emulator_order;

/* NULL: *out_why says why, freed by the caller. */
emulator *emulator_open(const char *ir, size_t bytes, char **out_why);
void emulator_close(emulator *e);

/* As cuLaunchKernel: param[i] points at the value of parameter i, of 8 bytes.  NULL, or what is wrong: valid until
 * the next call. */
const char *emulator_launch(emulator *e, const char *kernel, unsigned blocks, unsigned threads, void *const *param,
                            emulator_order order);

#endif
