/* alias.c: a value in; the memory it lies in out (see alias.h). */
#include "ir/alias.h"

/* True if the op is of this kind and has the attribute `view`. Vectors never have it as operands of a transpose or
 * concat, so their users are not searched: some vectors have thousands. */
static bool is_marked(const msc_op *op, msc_op_kind kind) {
  return op && op->kind == kind && (kind == OP_slice || op->out[0].type->rank > 1) && msc_op_bool(op, MSC_FACT(view));
}

static bool is_transpose_view(const msc_op *op) { return is_marked(op, OP_transpose); }

bool msc_is_view(const msc_op *op) {
  return msc_form_of(op) == MSC_FORM_RESHAPE || is_transpose_view(op) || is_marked(op, OP_slice);
}

bool msc_moves_nothing(const msc_op *op) {
  return is_transpose_view(op) || is_marked(op, OP_slice) || is_marked(op, OP_concat);
}

static void row_major(const msc_type *t, int64_t *out_stride) {
  int64_t stride = 1;
  for (int d = t->rank; d-- > 0;) {
    out_stride[d] = stride;
    stride *= t->dim[d];
  }
}

static const msc_use *used_by_view(const msc_value *v, msc_op_kind kind) {
  const msc_use *u = v->type->rank > 1 ? v->uses : NULL;
  while (u && !is_marked(u->user, kind)) u = u->next;
  return u;
}

static const msc_op *find_transpose_view(const msc_value *v) {
  const msc_use *u = used_by_view(v, OP_transpose);
  return u ? u->user : NULL;
}

/* ---- memory ---- */

static int64_t start_of(const msc_op *slice) {
  int64_t stride[MSC_MAX_RANK], start[MSC_MAX_RANK], at = 0;
  row_major(slice->in[0].value->type, stride);
  for (int d = msc_op_ints(slice, MSC_FACT(start), start, MSC_MAX_RANK); d-- > 0;) at += start[d] * stride[d];
  return at;
}

/* Returns the use of v, or of a transpose that is only a view of v, as an operand of a concat that moves no data; NULL:
 * there is none. */
static const msc_use *part_of(const msc_value *v) {
  if (!v->def) return NULL;
  const msc_op *behind = find_transpose_view(v);
  return used_by_view(behind ? &behind->out[0] : v, OP_concat);
}

static int64_t place_in(const msc_use *part) {
  int64_t stride[MSC_MAX_RANK], at = 0;
  int dim = (int)msc_op_int(part->user, "dim");
  for (const msc_use *before = part->user->in; before < part; before++) at += before->value->type->dim[dim];
  row_major(part->user->out[0].type, stride);
  return at * stride[dim];
}

msc_memory msc_memory_of(const msc_value *v) {
  msc_memory m = {v, 0};
  for (;;) {
    const msc_op *def = m.root->def, *region = def ? NULL : m.root->block->parent;
    const msc_use *part;
    if (region) {
      m.root = region->in[m.root->index].value;
    } else if (def && msc_is_view(def)) {
      if (def->kind == OP_slice) m.shift += start_of(def);
      m.root = def->in[0].value;
    } else if ((part = part_of(m.root))) {
      m.shift += place_in(part);
      m.root = &part->user->out[0];
    } else {
      return m;
    }
  }
}

/* If v is a slice of another value, or a part of one by a concat, sets the strides of that value. */
static void strides_in_whole(const msc_value *v, int64_t *out_stride) {
  const msc_use *part = used_by_view(v, OP_concat);
  row_major(is_marked(v->def, OP_slice) ? v->def->in[0].value->type
            : part                      ? part->user->out[0].type
                                        : v->type,
            out_stride);
}

void msc_strides(const msc_value *v, int64_t out_stride[MSC_MAX_RANK]) {
  int64_t perm[MSC_MAX_RANK], stride[MSC_MAX_RANK];
  const msc_op *before = is_transpose_view(v->def) ? v->def : NULL, *behind = before ? NULL : find_transpose_view(v);
  strides_in_whole(before ? before->in[0].value : behind ? &behind->out[0] : v, stride);
  if (before || behind) msc_op_ints(before ? before : behind, "perm", perm, MSC_MAX_RANK);
  for (int d = 0; d < v->type->rank; d++) {
    if (behind) out_stride[perm[d]] = stride[d];
    else out_stride[d] = stride[before ? perm[d] : d];
  }
}

/* ---- new values ---- */

int msc_tied_result(const msc_op *op, size_t i) {
  const msc_op_info *info = msc_info(op);
  if (!op->body) return (int)i < info->num_operands ? info->operand[i].tied : -1;
  for (const msc_use *u = op->body->args[i]->uses; u; u = u->next) {
    int inner = u->user->body ? -1 : msc_tied_result(u->user, (size_t)(u - u->user->in));
    for (size_t r = 0; inner >= 0 && r < op->body->last->num_in; r++)
      if (op->body->last->in[r].value == &u->user->out[inner]) return (int)r;
  }
  return -1;
}

int64_t msc_tied_argument(const msc_func *f, size_t i) {
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  if (!ties || ties->kind != MSC_ATTR_LIST || i >= ties->list.num || ties->list.v[i].kind != MSC_ATTR_INT) return -1;
  return ties->list.v[i].i >= 0 && ties->list.v[i].i < (int64_t)f->body->num_args ? ties->list.v[i].i : -1;
}

const msc_op **msc_writers(msc_arena *arena, const msc_func *f) {
  const msc_op *ret = f->body->last;
  const msc_op **writer = msc_new_array(arena, const msc_op *, f->body->num_args);
  for (size_t i = 0; i < ret->num_in; i++) {
    int64_t arg = msc_tied_argument(f, i);
    const msc_op *maker = arg < 0 ? NULL : msc_memory_of(ret->in[i].value).root->def;
    if (maker && !msc_is_constant_op(maker)) writer[arg] = maker;
  }
  return writer;
}
