/* parquet.h: shared by the files of the reader of Parquet: a column of a group of rows, and its decoding. */
#ifndef MSCRT_PARQUET_H
#define MSCRT_PARQUET_H

#include "runtime/data/data.h"

/* Parquet's numbers for types, codecs and encodings (parquet.thrift). */
typedef enum {
  PARQUET_BOOLEAN,
  PARQUET_INT32,
  PARQUET_INT64,
  PARQUET_INT96,
  PARQUET_FLOAT,
  PARQUET_DOUBLE
} parquet_type;

typedef struct {
  const char *name; /* owned */
  int type;         /* parquet_type, or beyond: no number */
  bool optional;    /* it may have nulls */
  bool is_unsigned; /* of 32 bits */
  bool nested;      /* repeated, or inside another column */
  bool is_decimal;
} parquet_column;

/* A column of a group of rows, as it lies in the file. */
typedef struct {
  int codec;
  int64_t values;
  uint64_t at, bytes;
} parquet_chunk;

/* Decodes a chunk of `rows` values, i64 if `whole`, else f64. first_row: number of its first row in the file, for
 * messages. */
mscrt_status *mscrt_parquet_decode(const mscrt_blob *b, const parquet_column *column, const parquet_chunk *chunk,
                                   int64_t rows, int64_t first_row, bool whole, void *out);

#endif
