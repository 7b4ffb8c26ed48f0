/* parts.c: whole tensors and a layout in; the parts that ranks hold out, and back. */
#include <string.h>

#include "ir/interp/kernel.h"

msc_piece msc_piece_of_layout(const msc_box_mesh *mesh, msc_arena *arena, msc_dtype dtype, int rank_of_tensor,
                              const int64_t *shape, const msc_layout *l, int64_t rank) {
  msc_piece p = {.dtype = dtype, .rank = rank_of_tensor};
  memcpy(p.full, shape, sizeof *shape * (size_t)rank_of_tensor);
  memcpy(p.box.size, shape, sizeof *shape * (size_t)rank_of_tensor);
  if (l) {
    msc_box_layout cuts = msc_layout_cuts(l);
    msc_box_of(mesh, &cuts, shape, rank, &p.box);
  }
  p.data = msc_arena_alloc(arena, (size_t)(msc_piece_elems(&p) * msc_dtype_bytes(dtype)));
  return p;
}

void msc_poison(msc_piece *p) {
  memset(p->data, p->dtype == MSC_I1 ? 1 : 0xff, (size_t)(msc_piece_elems(p) * msc_dtype_bytes(p->dtype)));
}

static const msc_type *type_of_piece(const msc_module *m, const msc_piece *p) {
  return msc_type_of(m->ctx, p->dtype, p->rank, p->box.size, NULL);
}

/* True if this rank holds the reduction's identity instead of the value: if its number in some digit that l is partial
 * over is above 0. */
static bool holds_identity(const msc_box_mesh *mesh, const msc_layout *l, int64_t rank) {
  for (int i = 0; i < l->num_partial; i++)
    if (msc_digit_of(mesh, l->sub[l->first[l->rank] + i], rank)) return true;
  return false;
}

msc_tensor msc_tensor_part(const msc_module *m, msc_arena *arena, const msc_tensor *whole, const msc_layout *layout,
                           int64_t rank) {
  msc_box_mesh mesh = msc_mesh_sizes(&m->mesh);
  const msc_type *t = whole->type;
  msc_piece from = msc_piece_whole(t, whole->data),
            to = msc_piece_of_layout(&mesh, arena, t->dtype, t->rank, t->dim, layout, rank);
  bool identity = layout && holds_identity(&mesh, layout, rank);
  int64_t index[MSC_MAX_RANK];
  for (bool more = msc_first_index(&to, index); more; more = msc_next_index(&to, index)) {
    msc_scalar v = identity ? msc_identity(layout->reduction, t->dtype)
                            : msc_load(t->dtype, from.data, msc_piece_offset(&from, index));
    msc_store(t->dtype, to.data, msc_piece_offset(&to, index), v);
  }
  return (msc_tensor){type_of_piece(m, &to), to.data};
}

/* Returns the rank that has this rank's digits where the layout uses them, and 0 elsewhere: the first of its
 * replicas. */
static int64_t first_replica(const msc_box_mesh *mesh, const msc_layout *l, int64_t rank) {
  int64_t first = 0;
  for (int i = 0; i < l->first[l->rank] + l->num_partial; i++)
    first += msc_digit_of(mesh, l->sub[i], rank) * msc_digit_stride(mesh, l->sub[i]);
  return first;
}

/* Returns a rank's part as a piece of the whole tensor; `padded`: with its padding. */
static msc_piece place_part(const msc_box_mesh *mesh, const msc_type *type, const msc_layout *l, int64_t rank,
                            void *data, bool padded) {
  msc_piece p = msc_piece_whole(type, data);
  msc_box_layout cuts = msc_layout_cuts(l);
  (padded ? msc_box_buffer : msc_box_of)(mesh, &cuts, type->dim, rank, &p.box);
  return p;
}

static void move_box(const msc_box *box, const msc_piece *to, const msc_piece *from) {
  msc_box_copy(to->rank, box, &to->box, to->data, &from->box, from->data, (size_t)msc_dtype_bytes(to->dtype));
}

/* Copies a part: `pads` adds its padding, else the padding is removed. */
static msc_tensor change_padding(const msc_module *m, msc_arena *arena, const msc_type *whole, int64_t rank,
                                 const msc_tensor *part, bool pads) {
  msc_box_mesh mesh = msc_mesh_sizes(&m->mesh);
  if (!whole->layout) return *part;
  msc_piece from = place_part(&mesh, whole, whole->layout, rank, part->data, !pads),
            to = place_part(&mesh, whole, whole->layout, rank, NULL, pads);
  to.data = msc_arena_alloc(arena, (size_t)(msc_piece_elems(&to) * msc_dtype_bytes(to.dtype)));
  if (pads) msc_poison(&to);
  move_box(pads ? &from.box : &to.box, &to, &from);
  return (msc_tensor){type_of_piece(m, &to), to.data};
}

msc_tensor msc_tensor_pad(const msc_module *m, msc_arena *arena, const msc_type *whole, int64_t rank,
                          const msc_tensor *part) {
  return change_padding(m, arena, whole, rank, part, true);
}

msc_tensor msc_tensor_unpad(const msc_module *m, msc_arena *arena, const msc_type *whole, int64_t rank,
                            const msc_tensor *padded) {
  return change_padding(m, arena, whole, rank, padded, false);
}

/* Joins the parts. For an unfinished reduction the result begins with the identity, and every term is combined in the
 * order of ranks, in double. */
const char *msc_tensor_join(const msc_module *m, msc_arena *arena, const msc_type *type, const msc_layout *layout,
                            const msc_tensor *part, msc_tensor *out_whole) {
  msc_box_mesh mesh = msc_mesh_sizes(&m->mesh);
  if (!layout) layout = msc_layout_replicated(m->ctx, type->rank);
  *out_whole = msc_tensor_new(arena, msc_type_with_layout(m->ctx, type, NULL));
  int64_t num = msc_type_elems(type), index[MSC_MAX_RANK];
  msc_scalar *sum = msc_new_array(arena, msc_scalar, num);
  msc_piece whole = msc_piece_whole(type, out_whole->data);
  for (int64_t i = 0; i < num; i++) sum[i] = msc_identity(layout->reduction, type->dtype);
  for (int64_t r = 0; r < msc_mesh_size(&m->mesh); r++) {
    msc_piece p = place_part(&mesh, type, layout, r, part[r].data, false);
    int64_t first = first_replica(&mesh, layout, r), elems = msc_piece_elems(&p);
    if (msc_type_elems(part[r].type) != elems)
      return msc_arena_printf(arena, "rank %" PRId64 " has %" PRId64 " elements of a part of %" PRId64, r,
                              msc_type_elems(part[r].type), elems);
    if (first != r) {
      if (memcmp(part[first].data, p.data, (size_t)(elems * msc_dtype_bytes(type->dtype))))
        return msc_arena_printf(arena, "ranks %" PRId64 " and %" PRId64 " hold the same part with different bits",
                                first, r);
      continue;
    }
    for (bool more = msc_first_index(&p, index); more; more = msc_next_index(&p, index)) {
      int64_t at = msc_piece_offset(&whole, index);
      msc_scalar term = msc_load(type->dtype, p.data, msc_piece_offset(&p, index));
      sum[at] = layout->num_partial ? msc_reduce(layout->reduction, type->dtype, sum[at], term) : term;
    }
  }
  for (int64_t i = 0; i < num; i++) msc_store(type->dtype, out_whole->data, i, sum[i]);
  return NULL;
}
