/* json.h: reads the JSON of headers and manifests piece by piece. A function that returns false leaves the reader where
 * the text is wrong. */
#ifndef MSCRT_JSON_H
#define MSCRT_JSON_H

#include <stdio.h>

#include "runtime/data/data.h"

typedef struct {
  const mscrt_blob *blob;    /* for messages, as the next two are */
  const char *format, *part; /* "safetensors", "header" */
  char *start, *at, *end;    /* the text, in which strings are decoded; *end is writable */
} mscrt_json;

#define mscrt_bad_json(r, what) \
  mscrt_bad_file((r)->blob, "%s: %s at byte %td of the %s", (r)->format, (what), (r)->at - (r)->start, (r)->part)

void mscrt_json_blanks(mscrt_json *r);
bool mscrt_json_token(mscrt_json *r, char want);
bool mscrt_json_string(mscrt_json *r, char **out);
bool mscrt_json_number(mscrt_json *r, uint64_t *out);
bool mscrt_json_bool(mscrt_json *r, bool *out);
/* Reads a string of sixteen hexadecimal digits. */
bool mscrt_json_hex(mscrt_json *r, uint64_t *out);
/* Reads a list of at most MSCRT_MAX_RANK numbers. */
bool mscrt_json_sizes(mscrt_json *r, int *out_num, int64_t out[MSCRT_MAX_RANK]);
/* Skips any value that is nested at most `depth` deep. */
bool mscrt_json_skip(mscrt_json *r, int depth);
/* Writes a string with its quotes. */
void mscrt_json_put(FILE *f, const char *text);

/* ---- write_safetensors.c: a header: its length as a u64, then a line of JSON; a multiple of 8 bytes ---- */

typedef struct {
  char *text; /* the header; the caller frees it after mscrt_header_end */
  size_t bytes;
  /* open between mscrt_header_begin and mscrt_header_end; a caller that writes metadata here sets `any` */
  FILE *f;
  uint64_t at; /* bytes of the data of all tensors so far */
  bool any;    /* the header has an entry, so a comma goes before the next one */
} mscrt_header;

mscrt_status *mscrt_header_begin(mscrt_header *h);
/* Adds a tensor to the header. Its data follow those of the tensor before it. */
void mscrt_header_add(mscrt_header *h, const char *name, mscrt_dtype dtype, int rank, const int64_t *shape);
/* Ends the header; must be called after every mscrt_header_begin that succeeded. Frees everything on a failure. */
mscrt_status *mscrt_header_end(mscrt_header *h);

#endif
