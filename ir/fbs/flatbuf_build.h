/* flatbuf_build.h: writes FlatBuffers in the order of a document, from the outside in; libc only.
 *
 *     flatbuf_builder *b = flatbuf_builder_new(NULL, NULL);
 *     plan_plan_begin(b);
 *       plan_plan_put_version(b, 1);
 *       plan_plan_begin_sections(b);                       // a list of tables
 *         plan_section_begin(b);                           // one of them
 *           plan_section_put_name(b, "train");             // the string is copied
 *         flatbuf_end(b);
 *       flatbuf_end(b);
 *     flatbuf_end(b);
 *     void *data = flatbuf_finish(b, &bytes);        // lives until flatbuf_builder_free
 *
 * NAME_fbs.h has a put_ or begin_ for every field; they go to the innermost open table, in any order, at most once.
 * An integer that equals its default, and a NULL string, is left out.  Equal strings are stored once.
 * The same calls give the same bytes.  Errors stick: calls after one do nothing, and flatbuf_finish returns NULL. */
#ifndef MSC_IR_FLATBUF_BUILD_H
#define MSC_IR_FLATBUF_BUILD_H

#include "ir/fbs/flatbuf.h"

typedef struct flatbuf_builder flatbuf_builder;
typedef void *flatbuf_realloc(void *user, void *ptr, size_t old_bytes, size_t bytes); /* bytes 0 frees */

typedef enum {
  FLATBUF_OK,
  FLATBUF_NOMEM,
  FLATBUF_TOO_BIG, /* more than FLATBUF_MAX_BYTES */
  FLATBUF_MISUSE   /* a field of another table, given twice, required but missing, or begin and end do not match */
} flatbuf_status;

/* Makes a builder; NULL: there is no memory. `alloc` NULL: the C library's. */
flatbuf_builder *flatbuf_builder_new(flatbuf_realloc *alloc, void *user);
void flatbuf_builder_free(flatbuf_builder *b);
flatbuf_status flatbuf_builder_status(const flatbuf_builder *b);
/* The text of a misuse, for assertions: "Call.name" or a short sentence. */
const char *flatbuf_builder_fault(const flatbuf_builder *b);

/* Closes the innermost table or list. */
void flatbuf_end(flatbuf_builder *b);
/* Returns the finished buffer after the root table was closed; scalars in it may still be changed in place.  Its
 * vectors are aligned within it: to read them in place, copy it to memory aligned to FLATBUF_ALIGN.  NULL after an
 * error. */
void *flatbuf_finish(flatbuf_builder *b, size_t *out_bytes);
/* Begins the next buffer; memory is kept. */
void flatbuf_builder_reset(flatbuf_builder *b);

/* ---- what the generated functions are made of; `in` and `table` are numbers of tables of the root's schema ---- */

/* the root, or an element of the open list */
void flatbuf_begin(flatbuf_builder *b, const flatbuf_schema *schema, unsigned table);
void flatbuf_begin_field(flatbuf_builder *b, unsigned in, unsigned id, unsigned table); /* a table inside a table */
void flatbuf_begin_list(flatbuf_builder *b, unsigned in, unsigned id);                  /* a list of tables */
void flatbuf_put(flatbuf_builder *b, unsigned in, unsigned id, const void *value);      /* scalar or struct */
void flatbuf_put_string(flatbuf_builder *b, unsigned in, unsigned id, const char *text, size_t bytes);
void flatbuf_put_strings(flatbuf_builder *b, unsigned in, unsigned id, size_t num, const char *const *text);
void flatbuf_put_vector(flatbuf_builder *b, unsigned in, unsigned id, size_t num, const void *data);

#endif
