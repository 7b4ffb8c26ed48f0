/* ptxas.h: PTX -> machine code for one GPU, by NVIDIA's assembler where it is installed. */
#ifndef MSC_CODEGEN_PTXAS_H
#define MSC_CODEGEN_PTXAS_H

#include "codegen/codegen.h"

/* *out_made false: there is no ptxas in PATH or in the usual folders of the toolkit.  False after a report: it refused the text. */
bool msc_ptxas(msc_context *ctx, msc_arena *arena, const msc_image *ptx, int arch, msc_image *out_cubin, bool *out_made);

#endif
