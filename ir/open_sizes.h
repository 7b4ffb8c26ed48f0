/* open_sizes.h: models whose source leaves sizes open, read once for each of several values and written as one
 * file. */
#ifndef MSC_IR_OPEN_SIZES_H
#define MSC_IR_OPEN_SIZES_H

#include "ir/ir.h"

enum { MSC_MAX_OPEN_SIZES = 4 };

/* ---- onnx/read_onnx.c ---- */

/* Lists the names of the sizes that an ONNX file leaves open and `file->dim` does not give, each once; returns how
 * many, also 0 if the file cannot be read, which msc_read_onnx will report. */
size_t msc_onnx_open_sizes(msc_context *ctx, const msc_model_bytes *file, const char *const **out_name);
/* Reads a file like msc_read_onnx, but one that is read for other sizes, too: data that are computed from sizes stay
 * ops. */
msc_module *msc_read_onnx_at(msc_context *ctx, const msc_model_bytes *file);

/* ---- fbs/open_sizes.c ---- */

/* Adds to a module what its source leaves out; false after a report. */
typedef bool msc_finish_fn(void *user, msc_module *m);
/* Writes an ONNX file that leaves the sizes `name` open as the bytes of one model.fbs for all of them, in the context's
 * arena; source->weights are set.  NULL after a report. */
const void *msc_write_open_fbs(msc_context *ctx, const msc_model_bytes *source, size_t num, const char *const *name,
                               msc_finish_fn *finish, void *user, size_t *out_bytes);

#endif
