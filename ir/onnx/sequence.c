/* sequence.c: a node with sequences of tensors in; its ops and sequences out.  The lengths of sequences are known, and
 * they exist only while the file is read. */
#include <string.h>

#include "ir/onnx/onnx.h"

/* Operand i, which must be a sequence. */
static const onnx_value *sequence(onnx_node *n, size_t i) {
  if (onnx_has(n, i) && n->in[i]->kind == ONNX_IS_SEQUENCE) return n->in[i];
  onnx_refuse(n, "takes a sequence as input %zu", i);
  return NULL;
}

/* `num` items, of which those of `from` up to `have` are copied. */
static onnx_value *new_sequence(onnx_node *n, size_t num, size_t have, onnx_value *const *from) {
  onnx_value *s = onnx_new_value(n);
  s->kind = ONNX_IS_SEQUENCE, s->num_items = num;
  s->item = msc_new_array(n->scratch, onnx_value *, num + 1);
  for (size_t i = 0; i < have; i++) s->item[i] = from[i];
  return s;
}

/* Reads operand i as a position below `limit` in a sequence of `num`; an absent one is the last. */
static bool read_position(onnx_node *n, size_t i, size_t num, size_t limit, size_t *out) {
  int64_t at = (int64_t)limit - 1;
  if (onnx_has(n, i)) MSC_TRY(onnx_const_int(n, i, &at));
  if (at < 0) at += (int64_t)num;
  if (at < 0 || at >= (int64_t)limit) return onnx_refuse(n, "there is no such place in a sequence of %zu", num);
  *out = (size_t)at;
  return true;
}

bool onnx_build_sequence_empty(onnx_node *n) {
  onnx_int(n, "dtype", 1);
  return onnx_set_value(n, 0, new_sequence(n, 0, 0, NULL));
}

bool onnx_build_sequence_construct(onnx_node *n) {
  for (size_t i = 0; i < n->num_in; i++)
    if (!n->in[i]) return onnx_refuse(n, "lacks input %zu", i);
  return onnx_set_value(n, 0, new_sequence(n, n->num_in, n->num_in, n->in));
}

bool onnx_build_sequence_insert(onnx_node *n) {
  const onnx_value *s = sequence(n, 0);
  size_t at;
  if (!s || !onnx_has(n, 1) || !read_position(n, 2, s->num_items, s->num_items + 1, &at))
    return s && !onnx_has(n, 1) && onnx_refuse(n, "lacks input 1");
  onnx_value *y = new_sequence(n, s->num_items + 1, at, s->item);
  y->item[at] = n->in[1];
  for (size_t i = at; i < s->num_items; i++) y->item[i + 1] = s->item[i];
  return onnx_set_value(n, 0, y);
}

bool onnx_build_sequence_erase(onnx_node *n) {
  const onnx_value *s = sequence(n, 0);
  size_t at;
  if (!s || !read_position(n, 1, s->num_items, s->num_items, &at)) return false;
  onnx_value *y = new_sequence(n, s->num_items - 1, at, s->item);
  for (size_t i = at + 1; i < s->num_items; i++) y->item[i - 1] = s->item[i];
  return onnx_set_value(n, 0, y);
}

bool onnx_build_sequence_at(onnx_node *n) {
  const onnx_value *s = sequence(n, 0);
  size_t at;
  return s && read_position(n, 1, s->num_items, s->num_items, &at) && onnx_set_value(n, 0, s->item[at]);
}

bool onnx_build_sequence_length(onnx_node *n) {
  const onnx_value *s = sequence(n, 0);
  if (!s) return false;
  int64_t num = (int64_t)s->num_items;
  return onnx_set_constant(n, 0, msc_type_of(n->ctx, MSC_I64, 0, NULL, NULL),
                           msc_arena_copy(n->scratch, &num, sizeof num));
}

/* Concatenates the items along a dimension, which may be a new one. */
bool onnx_build_concat_from_sequence(onnx_node *n) {
  const onnx_value *s = sequence(n, 0);
  int64_t axis = onnx_int(n, "axis", 0);
  bool adds = onnx_int(n, "new_axis", 0) != 0;
  int at = 0;
  if (!s) return false;
  msc_value **in = msc_new_array(n->scratch, msc_value *, s->num_items + 1);
  if (!s->num_items) return onnx_refuse(n, "its sequence is empty");
  for (size_t i = 0; i < s->num_items; i++) {
    if (s->item[i]->kind == ONNX_IS_FAULTY) return onnx_set_value(n, 0, s->item[i]);
    MSC_TRY((in[i] = onnx_value_of(n, s->item[i])));
    int rank = in[i]->type->rank + adds;
    if (rank > MSC_MAX_RANK) return onnx_refuse(n, "its result has too many dimensions");
    if (!i) MSC_TRY(onnx_axis(n, axis, rank, &at));
    if (adds) MSC_TRY((in[i] = onnx_insert_dim(n->b, in[i], at)));
  }
  return onnx_set(n, 0, s->num_items == 1 ? in[0] : join_along(n->b, at, s->num_items, in));
}

/* Builds parts of equal or of given sizes; without sizes, parts of size 1, whose dimension is removed unless keepdims
 * is set. */
bool onnx_build_split_to_sequence(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  int64_t each = 1, at = 0;
  int axis;
  bool keeps = onnx_int(n, "keepdims", 1) != 0 || onnx_has(n, 1);
  if (!x || !onnx_axis(n, onnx_int(n, "axis", 0), x->type->rank, &axis)) return false;
  size_t num = 0;
  const int64_t *sizes = onnx_has(n, 1) ? onnx_const_ints(n, 1, &num) : NULL;
  if (onnx_has(n, 1) && !sizes) return false;
  bool listed = sizes && n->in[1]->type->rank == 1;
  if (sizes && !listed) each = sizes[0];
  int64_t whole = x->type->dim[axis];
  if (each < 1 || whole / each >= 1 << 16) return onnx_refuse(n, "its parts are out of range");
  if (!listed) num = (size_t)((whole + each - 1) / each);
  onnx_value *y = new_sequence(n, num, 0, NULL);
  for (size_t i = 0; i < num; i++) {
    int64_t next = listed ? at + sizes[i] : at + each < whole ? at + each : whole;
    if (next < at || next > whole) return onnx_refuse(n, "its parts do not fit a dimension of size %" PRId64, whole);
    msc_value *p = part_of(n->b, x, axis, at, next);
    MSC_TRY((y->item[i] = onnx_computed(n, keeps ? p : onnx_drop_dim(n->b, p, axis))));
    at = next;
  }
  return onnx_set_value(n, 0, y);
}
