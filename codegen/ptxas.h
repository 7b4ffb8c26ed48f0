/* ptxas.h: PTX in; machine code for one GPU out, by NVIDIA's assembler if it is installed, which runs beside the
 * caller. */
#ifndef MSC_CODEGEN_PTXAS_H
#define MSC_CODEGEN_PTXAS_H

#include "codegen/codegen.h"

typedef struct msc_ptxas msc_ptxas;

/* Starts the assembler; the result lives in the arena and must be ended. *out NULL, after a warning: there is no ptxas
 * in PATH or in the toolkit's folder (CUDA_HOME). False after a report: there is no such GPU. */
bool msc_ptxas_begin(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_ptxas **out);
/* Waits for the assembler. *out_made false: there was none, or, after a warning, it is too old for this GPU or failed;
 * the plan then has the PTX alone. */
bool msc_ptxas_end(msc_ptxas *assembler, msc_image *out_cubin, bool *out_made);

#endif
