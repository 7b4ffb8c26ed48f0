/* shape.h: shape functions take an op with typed operands and set its result types, with these functions; each returns
 * false after a report. */
#ifndef MSC_IR_SHAPE_H
#define MSC_IR_SHAPE_H

#include "ir/ir.h"

#define D PRId64

static inline const msc_type *shape_in(const msc_op *op, size_t i) { return op->in[i].value->type; }

/* ---- shape.c ---- */

/* Reports at the op, with its kind in front; false. */
bool shape_wrong(const msc_op *op, const char *fmt, ...) MSC_PRINTF(2, 3);
const char *shape_text(const msc_op *op, const msc_type *t); /* "[2,3]f32" for messages */
/* Sets the type of result i, after checking its rank and its number of bytes. */
bool shape_set(msc_op *op, size_t i, msc_dtype dtype, int rank, const int64_t *dim);
bool shape_set_like(msc_op *op, size_t i, const msc_type *t);

/* Sets the result to the shape that all operands broadcast to, with this element type; the operands' types must be
 * equal. */
bool shape_broadcast(msc_op *op, msc_dtype dtype);

bool shape_same_dtype(msc_op *op, size_t i, size_t j);
bool shape_must_be_float(msc_op *op, size_t i);
bool shape_must_be_number(msc_op *op, size_t i);
bool shape_must_be_index(msc_op *op, size_t i); /* i32 or i64 */
bool shape_same_type(msc_op *op, size_t i, size_t j);
const char *shape_operand_name(const msc_op *op, size_t i);
/* Attribute `name` as a dimension of t; the attribute may count from the end. */
bool shape_axis_attr(msc_op *op, const char *name, const msc_type *t, int *out_axis);
/* Attribute `name` as a dimension number below `rank`. */
bool shape_dim_attr(msc_op *op, const char *name, int rank, int64_t *out_dim);
/* Attribute `ignore_index`, a class number that operand 1 may have. */
bool shape_ignore_index(msc_op *op);

#endif
