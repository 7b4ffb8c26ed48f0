/* ptxas.h: PTX -> machine code for one GPU, by NVIDIA's assembler where it is installed. */
#ifndef MSC_CODEGEN_PTXAS_H
#define MSC_CODEGEN_PTXAS_H

#include "codegen/codegen.h"

/* *out_made false, after a warning: there is no ptxas in PATH or in the toolkit's folder (CUDA_HOME), it is too old for this GPU or
 * does not work; a plan then has the PTX alone.  False after a report: nobody knows such a GPU. */
bool msc_ptxas(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_image *out_cubin, bool *out_made);

#endif
