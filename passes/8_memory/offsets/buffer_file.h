/* buffer_file.h: reads buffers from CSV text with the columns id, lower, upper, size. The text is untrusted. */
#ifndef MSC_PASSES_BUFFER_FILE_H
#define MSC_PASSES_BUFFER_FILE_H

#include "passes/8_memory/offsets/offsets.h"

typedef struct {
  size_t num;
  const char **id;    /* distinct, printable UTF-8; in the order of the lines */
  msc_buffer *buffer; /* lower and upper are biased by 2^63, so that times below 0 keep their order */
} msc_buffer_file;

/* On true, lower < upper for every buffer and all sizes together are below MSC_OFFSETS_MOST. Every mistake is reported
 * with its line. */
bool msc_buffers_read(msc_context *ctx, const char *path, const char *text, size_t bytes, msc_buffer_file *out_file);

#endif
