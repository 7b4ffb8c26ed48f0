/* collective.c: a collective and its operands on all ranks in; its results out.  A change of layout moves the pieces
 * of the pull lists of box.h, and only between ranks that differ in the digits that move; one with a group works on
 * groups of ranks. */
#include <string.h>

#include "ir/comm.h"
#include "ir/interp/kernel.h"
#include "ir/verify.h"

/* ---- changes of layout ---- */

typedef struct {
  const msc_interp *in;
  const msc_op *op;
  size_t member; /* the operand and result in question */
  msc_box_layout from, to;
  int rank_of_tensor;
  const int64_t *shape;
  msc_reduction reduction;
  bool no_traffic; /* shard: every rank has what it needs */
  int num_order;   /* digits that number the terms; 0: terms have the order of ranks */
  const msc_subaxis *order;
  msc_atoms moved; /* the digits whose place differs between the layouts */
} layout_change;

/* Returns the place of the atom in the layout as a number: its dimension, and the parts into which the digits before it
 * cut that; -1: it is not there. In {b,c,a} and {a,c,b} of sizes a = 3, b = 2 the digit c is the second, but divides
 * other elements. */
static int64_t find_atom_place(const msc_atoms *atoms, const msc_layout *l, int atom) {
  for (int d = 0; d <= l->rank; d++) {
    int end = d < l->rank ? l->first[d + 1] : l->first[d] + l->num_partial;
    int64_t parts = 1;
    for (int i = l->first[d]; i < end; i++)
      for (int a = 0; a < atoms->num; a++)
        if (msc_digits_overlap(atoms->atom[a], l->sub[i])) {
          if (a == atom) return d * (int64_t)(MSC_MAX_DEVICES + 1) + (d < l->rank ? parts : 0);
          parts *= atoms->atom[a].size;
        }
  }
  return -1;
}

static bool is_cut_alike(const msc_layout *a, const msc_layout *b, int d) {
  int num = a->first[d + 1] - a->first[d];
  return num == b->first[d + 1] - b->first[d] && a->split[d] == b->split[d] &&
         !memcmp(a->sub + a->first[d], b->sub + b->first[d], (size_t)num * sizeof *a->sub);
}

static bool cuts_with(const msc_layout *l, int d, msc_subaxis atom) {
  for (int i = l->first[d]; i < l->first[d + 1]; i++)
    if (msc_digits_overlap(atom, l->sub[i])) return true;
  return false;
}

/* True if the borders of the parts that the atom cuts move. Where parts are not equal, a change of any digit of a
 * dimension moves all its borders. */
static bool borders_move(const msc_type *t, const msc_layout *from, const msc_layout *to, msc_subaxis atom) {
  for (int d = 0; d < t->rank; d++) {
    bool even = msc_dim_is_even(from, t, d) && msc_dim_is_even(to, t, d);
    if (!even && !is_cut_alike(from, to, d) && (cuts_with(from, d, atom) || cuts_with(to, d, atom))) return true;
  }
  return false;
}

static bool find_moved_atoms(const msc_module *m, const msc_type *t, const msc_layout *from, const msc_layout *to,
                             msc_atoms *out) {
  msc_atoms atoms;
  out->num = 0;
  MSC_TRY(msc_atoms_of(&m->mesh, 2, (const msc_layout *[]){from, to}, &atoms));
  for (int a = 0; a < atoms.num; a++)
    if (find_atom_place(&atoms, from, a) != find_atom_place(&atoms, to, a) || borders_move(t, from, to, atoms.atom[a]))
      out->atom[out->num++] = atoms.atom[a];
  return true;
}

/* True if these ranks may exchange data: they must agree in every digit that keeps its place. */
static bool may_exchange(const layout_change *c, int64_t rank, int64_t peer) {
  if (c->no_traffic) return rank == peer;
  for (int i = 0; i < c->moved.num; i++) {
    int64_t stride = msc_digit_stride(&c->in->mesh, c->moved.atom[i]);
    peer += (msc_digit_of(&c->in->mesh, c->moved.atom[i], rank) - msc_digit_of(&c->in->mesh, c->moved.atom[i], peer)) *
            stride;
  }
  return rank == peer;
}

/* Returns a rank's buffer as a piece of the global tensor. Lowered values have padding behind their part. */
static msc_piece place_in_global(const layout_change *c, const msc_box_layout *l, const msc_value *v, int64_t rank) {
  msc_piece p = *msc_piece_of(c->in, v, rank);
  bool lowered = c->op->kind == OP_comm;
  p.rank = c->rank_of_tensor;
  memcpy(p.full, c->shape, sizeof *c->shape * (size_t)c->rank_of_tensor);
  (lowered ? msc_box_buffer : msc_box_of)(&c->in->mesh, l, c->shape, rank, &p.box);
  return p;
}

/* Computes a box of the rank's result by reducing the peers' terms; with one peer it is a copy. */
static bool fill_piece(const layout_change *c, int64_t rank, const msc_box *box, const int64_t *peer,
                       int64_t num_terms) {
  const msc_value *x = c->op->in[c->member].value;
  msc_piece to = place_in_global(c, &c->to, &c->op->out[c->member], rank), part = to;
  int64_t index[MSC_MAX_RANK];
  msc_scalar *term = msc_new_array(c->in->arena, msc_scalar, num_terms);
  part.box = *box;
  for (bool more = msc_first_index(&part, index); more; more = msc_next_index(&part, index)) {
    for (int64_t t = 0; t < num_terms; t++) {
      msc_piece from = place_in_global(c, &c->from, x, peer[t]);
      int64_t at = msc_piece_offset(&from, index);
      if (at < 0)
        return msc_op_error(c->op, MSC_E_INTERNAL, "rank %" PRId64 " is to send an element it does not hold", peer[t]);
      term[t] = msc_load(to.dtype, from.data, at);
    }
    msc_store(to.dtype, to.data, msc_piece_offset(&to, index),
              msc_reduce_tree(c->reduction, to.dtype, num_terms, term));
  }
  return true;
}

static void *alloc_in_arena(void *arena, size_t bytes) { return msc_arena_alloc(arena, bytes); }

/* Sorts terms by the op's own order of digits, if it has one; by insertion, as they are few. */
static void order_terms(const layout_change *c, int64_t num, int64_t *peer) {
  for (int64_t t = 1; t < num && c->num_order; t++) {
    int64_t moved = peer[t], at = t, number = msc_group_index(&c->in->mesh, c->num_order, c->order, moved);
    for (; at > 0 && msc_group_index(&c->in->mesh, c->num_order, c->order, peer[at - 1]) > number; at--)
      peer[at] = peer[at - 1];
    peer[at] = moved;
  }
}

static bool pull_rank(const layout_change *c, int64_t rank) {
  msc_pull pull;
  msc_piece to = place_in_global(c, &c->to, &c->op->out[c->member], rank);
  if (msc_pull_of(&c->in->mesh, &c->from, &c->to, c->shape, rank, alloc_in_arena, c->in->arena, &pull) != MSC_PULL_OK)
    return msc_op_error(c->op, MSC_E_SHARDING,
                        "%s: the two layouts cut a mesh axis at places without a common refinement",
                        msc_kind_name(c->op->kind));
  if (c->op->kind == OP_comm) msc_poison(&to);
  if (pull.identity)
    for (int64_t i = 0; i < msc_piece_elems(&to); i++)
      msc_store(to.dtype, to.data, i, msc_identity(c->reduction, to.dtype));
  for (int64_t i = 0; i < pull.num_pieces; i++) {
    int64_t *peer = pull.peer + i * pull.num_terms;
    order_terms(c, pull.num_terms, peer);
    for (int64_t t = 0; t < pull.num_terms; t++)
      if (!may_exchange(c, rank, peer[t]))
        return msc_op_error(c->op, MSC_E_SHARDING,
                            "%s: rank %" PRId64 " would need data of rank %" PRId64 ", which is not of its group",
                            msc_kind_name(c->op->kind), rank, peer[t]);
    MSC_TRY(fill_piece(c, rank, &pull.piece[i], peer, pull.num_terms));
  }
  return true;
}

static bool change_layout(const msc_interp *in, const msc_op *op, size_t member, const msc_comm_part *p,
                          bool no_traffic) {
  layout_change c = {.in = in,
                     .op = op,
                     .member = member,
                     .from = msc_layout_cuts(p->from),
                     .to = msc_layout_cuts(p->to),
                     .rank_of_tensor = p->from->rank,
                     .shape = p->shape,
                     .reduction = p->from->num_partial ? p->from->reduction : p->to->reduction,
                     .no_traffic = no_traffic};
  if (p->order) c.num_order = p->order->first[1], c.order = p->order->sub;
  const msc_type *whole = msc_type_of(in->m->ctx, op->in[member].value->type->dtype, p->from->rank, p->shape, NULL);
  if (!find_moved_atoms(in->m, whole, p->from, p->to, &c.moved))
    return msc_op_error(op, MSC_E_SHARDING, "%s: the two layouts cut a mesh axis at places without a common refinement",
                        msc_kind_name(op->kind));
  for (int64_t r = 0; r < in->num_ranks; r++) MSC_TRY(pull_rank(&c, r));
  return true;
}

/* ---- groups ---- */

typedef struct {
  const msc_interp *in;
  const msc_op *op;
  size_t member; /* the operand and result in question */
  msc_verb verb; /* of a recv: none */
  int num_digits;
  const msc_subaxis *digit;
  int64_t size; /* members */
} group;

/* Which members' elements an element of the result is reduced from: those at `index` of `num` members from `first` on;
 * num 0: the element is zero. */
typedef struct {
  int64_t first, num;
  int64_t index[MSC_MAX_RANK];
} source;

static source one_member(source s, int64_t member) {
  s.first = member;
  s.num = 1;
  return s;
}

/* Returns the member that sends to `me` by the op's list of source, destination, ...; -1: none does. */
static int64_t sender_to(const group *g, int64_t me) {
  int n = msc_op_ints(g->op, "pairs", NULL, 0);
  int64_t *pair = msc_new_array(g->in->arena, int64_t, n > 0 ? n : 1);
  if (n < 0 && g->op->kind == OP_recv) return msc_op_int(g->op, "to") == me ? msc_op_int(g->op, "from") : -1;
  msc_op_ints(g->op, "pairs", pair, n);
  for (int i = 0; i + 1 < n; i += 2)
    if (pair[i + 1] == me) return pair[i];
  return -1;
}

static source source_in_group(const group *g, const msc_piece *x, const msc_piece *y, int64_t me, int64_t sender,
                              const int64_t *index) {
  source s = {.first = 0, .num = g->size};
  memcpy(s.index, index, sizeof *index * (size_t)y->rank);
  const msc_verb_row *row = g->verb < MSC_NUM_VERBS ? msc_verb_row_of(g->verb) : NULL;
  const char *cut_before = row ? msc_verb_dim_attr(row->operand) : NULL,
             *cut_after = row ? msc_verb_dim_attr(row->result) : NULL;
  bool from_root = row && row->operand == MSC_AT_ROOT;
  if (from_root) s = one_member(s, msc_op_int(g->op, "root"));
  if (cut_before) { /* member j's part is block number j */
    int64_t d = msc_op_int(g->op, cut_before), block = y->full[d] / g->size;
    s.index[d] = index[d] % block;
    s = one_member(s, index[d] / block);
  }
  if (cut_after) { /* block number `me` */
    int64_t d = msc_op_int(g->op, cut_after);
    s.index[d] += me * (x->full[d] / g->size);
  }
  if (cut_before || from_root || msc_verb_reduces(g->verb)) return s;
  s.first = sender < 0 ? 0 : sender; /* permute, pairs, recv */
  s.num = sender >= 0;
  return s;
}

static msc_reduction reduction_of(const msc_op *op) {
  return msc_declares(op, "reduction") ? msc_op_reduction(op) : MSC_SUM;
}

static void run_member(const group *g, int64_t rank) {
  const msc_value *v = g->op->in[g->member].value;
  const msc_piece *y = msc_piece_of(g->in, &g->op->out[g->member], rank), *x = msc_piece_of(g->in, v, rank);
  int64_t me = msc_group_index(&g->in->mesh, g->num_digits, g->digit, rank), sender = sender_to(g, me),
          index[MSC_MAX_RANK];
  msc_reduction r = reduction_of(g->op);
  msc_scalar *term = msc_new_array(g->in->arena, msc_scalar, g->size + 1);
  for (bool more = msc_first_index(y, index); more; more = msc_next_index(y, index)) {
    source s = source_in_group(g, x, y, me, sender, index);
    for (int64_t i = 0; i < s.num; i++) {
      const msc_piece *from =
          msc_piece_of(g->in, v, msc_group_member(&g->in->mesh, g->num_digits, g->digit, rank, s.first + i));
      term[i] = msc_load(y->dtype, from->data, msc_piece_offset(from, s.index));
    }
    msc_scalar sum = s.num ? msc_reduce_tree(r, y->dtype, s.num, term) : (msc_scalar){.u = 0};
    msc_store(y->dtype, y->data, msc_piece_offset(y, index), sum);
  }
}

static bool run_group(const msc_interp *in, const msc_op *op) {
  group g = {.in = in, .op = op, .verb = msc_op_verb(op)};
  const msc_layout *digits = msc_op_layout(op, "axes");
  g.num_digits = digits->first[1], g.digit = digits->sub;
  g.size = msc_group_size(g.num_digits, g.digit);
  for (; g.member < op->num_in; g.member++)
    for (int64_t r = 0; r < in->num_ranks; r++) run_member(&g, r);
  return true;
}

/* ---- all collectives ---- */

/* Copies operands to results: a token, or a change of layout on one device. */
static bool pass_through(const msc_interp *in, const msc_op *op) {
  for (int64_t r = 0; r < in->num_ranks; r++)
    for (size_t i = 0; i < op->num_in; i++) {
      msc_piece *x = msc_piece_of(in, op->in[i].value, r), *y = msc_piece_of(in, &op->out[i], r);
      memcpy(y->data, x->data, (size_t)(msc_piece_elems(y) * msc_dtype_bytes(y->dtype)));
    }
  return true;
}

/* Runs a lowered collective, whose attributes name its layouts or its group. */
static bool run_comm(const msc_interp *in, const msc_op *op) {
  bool no_traffic = msc_op_verb(op) == MSC_SHARD;
  if (msc_op_attr(op, "axes")) return run_group(in, op);
  const msc_comm_part *p = msc_comm_parts(op, in->arena);
  for (size_t i = 0; p && i < op->num_in; i++)
    MSC_TRY(msc_op_attr(op, "halo") ? msc_run_halo(in, op, p[i].from, p[i].shape, reduction_of(op))
                                    : change_layout(in, op, i, &p[i], no_traffic));
  return p != NULL;
}

/* Runs a collective before lowering: its layouts are those of operand and result. */
static bool run_relayout(const msc_interp *in, const msc_op *op) {
  MSC_TRY(msc_verify_layouts(op, in->arena));
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_type *x = op->in[i].value->type, *y = op->out[i].type;
    if (!x->layout || !y->layout)
      return msc_op_error(op, MSC_E_SHARDING, "%s: needs axes, or layouts on operand and result",
                          msc_kind_name(op->kind));
    msc_comm_part p = {.from = x->layout, .to = y->layout};
    memcpy(p.shape, x->dim, sizeof p.shape);
    MSC_TRY(change_layout(in, op, i, &p, op->kind == OP_shard));
  }
  return true;
}

bool msc_run_collective(const msc_interp *in, const msc_op *op) {
  bool manual = msc_op_attr(op, "axes") != NULL || op->kind == OP_comm;
  if (in->one_device && manual)
    return msc_op_error(op, MSC_E_UNSUPPORTED, "%s: works on one rank's shapes, so one device cannot run it",
                        msc_kind_name(op->kind));
  if (in->one_device || op->kind == OP_send) return pass_through(in, op);
  if (op->kind == OP_comm) return run_comm(in, op);
  if (manual) return run_group(in, op);
  return run_relayout(in, op);
}
