/* thrift.h: reads Thrift's compact protocol, in which Parquet's headers are written (thrift.apache.org,
 * thrift-compact-protocol.md): bytes in; fields, numbers and texts out.  Nothing is allocated.  What does not fit makes
 * the reader bad: then all it gives is zero, and every loop over it ends. */
#ifndef MSCRT_THRIFT_H
#define MSCRT_THRIFT_H

#include "runtime/runtime.h"

typedef struct {
  const uint8_t *at, *end;
  bool bad;
} mscrt_thrift;

typedef enum {
  MSCRT_THRIFT_STOP,
  MSCRT_THRIFT_TRUE,
  MSCRT_THRIFT_FALSE,
  MSCRT_THRIFT_BYTE,
  MSCRT_THRIFT_I16,
  MSCRT_THRIFT_I32,
  MSCRT_THRIFT_I64,
  MSCRT_THRIFT_DOUBLE,
  MSCRT_THRIFT_BINARY,
  MSCRT_THRIFT_LIST,
  MSCRT_THRIFT_SET,
  MSCRT_THRIFT_MAP,
  MSCRT_THRIFT_STRUCT
} mscrt_thrift_type;

/* A field of a struct; its value comes next, and is read or skipped before the next field. */
typedef struct {
  int id;
  mscrt_thrift_type type;
} mscrt_thrift_field;

/* Goes to the next field of a struct, whose fields begin with *f zero; false: that was the last one. */
bool mscrt_thrift_next(mscrt_thrift *t, mscrt_thrift_field *f);
/* The value of a field that is to be a number; else it is skipped, and `otherwise` is the answer. */
int64_t mscrt_thrift_number(mscrt_thrift *t, mscrt_thrift_field f, int64_t otherwise);
bool mscrt_thrift_bool(mscrt_thrift *t, mscrt_thrift_field f, bool otherwise);
/* The bytes of a field that is to be a text, which lie in the reader's; NULL: it is none. */
const char *mscrt_thrift_text(mscrt_thrift *t, mscrt_thrift_field f, size_t *out_bytes);
/* The number of entries of a field that is to be a list of `type`; 0 if it is another, which is skipped. */
int64_t mscrt_thrift_list(mscrt_thrift *t, mscrt_thrift_field f, mscrt_thrift_type type);
void mscrt_thrift_skip(mscrt_thrift *t, mscrt_thrift_type type);

#endif
