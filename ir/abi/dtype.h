/* dtype.h: element types: one row each, in the order of model.fbs and plan.fbs, append-only. */
#ifndef MSC_IR_ABI_DTYPE_H
#define MSC_IR_ABI_DTYPE_H

/*            name  IR text  bytes  class */
#define MSC_DTYPES(X)                         \
  X(F32, "f32", 4, FLOAT)                     \
  X(F16, "f16", 2, FLOAT)                     \
  X(BF16, "bf16", 2, FLOAT)                   \
  X(F64, "f64", 8, FLOAT)                     \
  X(I1, "i1", 1, BOOL) /* one byte, 0 or 1 */ \
  X(I8, "i8", 1, INT)                         \
  X(I16, "i16", 2, INT)                       \
  X(I32, "i32", 4, INT)                       \
  X(I64, "i64", 8, INT)                       \
  X(U8, "ui8", 1, UINT)                       \
  X(U16, "ui16", 2, UINT)                     \
  X(U32, "ui32", 4, UINT)                     \
  X(U64, "ui64", 8, UINT)

typedef enum {
#define X(name, text, bytes, class) MSC_##name,
  MSC_DTYPES(X)
#undef X
      MSC_NUM_DTYPES
} msc_dtype;

typedef enum { MSC_CLASS_FLOAT, MSC_CLASS_BOOL, MSC_CLASS_INT, MSC_CLASS_UINT } msc_dtype_class;

#endif
