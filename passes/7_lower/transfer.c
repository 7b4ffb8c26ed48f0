/* transfer.c: finds what a `comm` moves: the digits of its group, its bytes, and the transfer for the cost model. */
#include "passes/7_lower/transfer.h"

#include <string.h>

/* ---- digits ---- */

/* The place of a digit in a layout: dimension and place among its digits, or partial; -1: it has none. */
static int64_t find_digit_place(const msc_layout *l, msc_subaxis digit) {
  for (int d = 0; d <= l->rank; d++) {
    int end = d < l->rank ? l->first[d + 1] : l->first[d] + l->num_partial;
    int64_t parts = 1;
    for (int i = l->first[d]; i < end; i++) {
      msc_subaxis s = l->sub[i];
      if (s.axis == digit.axis && digit.pre >= s.pre && digit.pre < s.pre * s.size)
        return d < l->rank ? d * ((int64_t)1 << 32) + parts * (digit.pre / s.pre) : d * ((int64_t)1 << 32);
      parts *= s.size;
    }
  }
  return -1;
}

int msc_moved_digits(msc_context *ctx, const msc_mesh *mesh, const msc_layout *from, const msc_layout *to,
                     msc_subaxis *out_digit) {
  const msc_layout *both[2] = {from, to};
  msc_atoms atoms;
  msc_layout raw;
  if (!msc_atoms_of(mesh, 2, both, &atoms)) return 0;
  memset(&raw, 0, sizeof raw);
  raw.rank = 1;
  for (int a = 0; a < atoms.num; a++)
    if (find_digit_place(from, atoms.atom[a]) != find_digit_place(to, atoms.atom[a]))
      raw.sub[raw.first[1]++] = atoms.atom[a];
  const msc_layout *merged = msc_layout_of(ctx, mesh, &raw); /* neighbours are one digit */
  memcpy(out_digit, merged->sub, merged->first[1] * sizeof *out_digit);
  return merged->first[1];
}

/* ---- bytes ---- */

static int64_t partial_parts(const msc_layout *l) { return msc_group_size(l->num_partial, l->sub + l->first[l->rank]); }

int64_t msc_received_bytes(const msc_op *comm, size_t i, const msc_layout *from, const msc_layout *to) {
  int64_t in = msc_type_bytes(comm->in[i].value->type), out = msc_type_bytes(comm->out[i].type), k = 1;
  if (!from) return in;
  k = partial_parts(from) / partial_parts(to);
  for (int d = 0; d < from->rank; d++) {
    int64_t a = msc_layout_parts(from, d), b = msc_layout_parts(to, d);
    if (a > b) k *= a / b;
  }
  return msc_verb_received(msc_op_verb(comm), in, out, k);
}

/* ---- costs ---- */

/* The digits of the group in which one change of layout moves data; returns their number. */
static int find_group_digits(const msc_mesh *mesh, const msc_op *comm, const msc_comm_part *part, msc_subaxis *digit) {
  msc_comm_halo h;
  if (msc_op_verb(comm) != MSC_HALO) return msc_moved_digits(msc_op_ctx(comm), mesh, part->from, part->to, digit);
  if (!msc_comm_halo_of(comm, &h)) return 0;
  int first = part->from->first[h.dim], num = part->from->first[h.dim + 1] - first;
  memcpy(digit, part->from->sub + first, (size_t)num * sizeof *digit);
  return num;
}

int msc_transfer_digits(const msc_mesh *mesh, const msc_op *comm, msc_arena *scratch, msc_subaxis *out_digit) {
  const msc_layout *axes = msc_op_layout(comm, "axes");
  const msc_comm_part *part = axes ? NULL : msc_comm_parts(comm, scratch);
  if (!axes) return part ? find_group_digits(mesh, comm, part, out_digit) : -1;
  memcpy(out_digit, axes->sub, axes->first[1] * sizeof *out_digit);
  return axes->first[1];
}

bool msc_transfer_of(const msc_cost *cost, const msc_op *comm, msc_arena *scratch, msc_cost_transfer *out_transfer) {
  msc_subaxis digit[MSC_MAX_SUBAXES];
  int num = msc_transfer_digits(cost->mesh, comm, scratch, digit);
  MSC_TRY(num >= 0);
  *out_transfer = (msc_cost_transfer){.verb = msc_verb_row_of(msc_op_verb(comm))->op, .ranks = 1};
  if (msc_op_layout(comm, "axes")) {
    out_transfer->bytes = msc_received_bytes(comm, 0, NULL, NULL);
  } else {
    const msc_comm_part *part = msc_comm_parts(comm, scratch);
    MSC_TRY(part);
    for (size_t i = 0; i < comm->num_in; i++)
      out_transfer->bytes += msc_received_bytes(comm, i, part[i].from, part[i].to);
  }
  for (int i = 0; i < num; i++) {
    int level = msc_cost_level(cost, digit[i]);
    if (level > out_transfer->level) out_transfer->level = level;
    out_transfer->ranks *= digit[i].size;
  }
  out_transfer->peers = out_transfer->ranks - 1;
  return true;
}
