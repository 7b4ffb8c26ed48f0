/* state.c: a state of the redistribution graph (a layout written as atoms) in; its key, its canonical form and the
 * bytes of its parts out. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

/* Writes a state as a number, four bits per entry: 15, the atoms of each dimension followed by 15, then the partial
 * set. */
reshard_key msc_reshard_key(const reshard_problem *p, const reshard_state *s) {
  reshard_key key = RESHARD_ATOMS;
  for (int d = 0; d < p->rank; d++) {
    for (int i = 0; i < s->num[d]; i++) key = key << 4 | s->atom[d][i];
    key = key << 4 | RESHARD_ATOMS;
  }
  return key << 16 | s->partial;
}

void msc_reshard_state_of(const reshard_problem *p, reshard_key key, reshard_state *out_state) {
  memset(out_state->num, 0, sizeof out_state->num);
  out_state->partial = (uint32_t)(key & 0xffff);
  key >>= 16;
  for (int d = p->rank - 1; d >= 0; d--) {
    uint8_t list[RESHARD_ATOMS];
    int num = 0;
    for (key >>= 4; (key & 15) != RESHARD_ATOMS; key >>= 4) list[num++] = (uint8_t)(key & 15);
    for (int i = 0; i < num; i++) out_state->atom[d][i] = list[num - 1 - i];
    out_state->num[d] = (uint8_t)num;
  }
}

/* Renumbers the atoms of each class in order of use: by dimension, then the partial ones, then the free ones. */
void msc_reshard_canonical(const reshard_problem *p, reshard_state *s) {
  uint32_t left = (1u << p->num_atoms) - 1, partial = 0, members[RESHARD_ATOMS] = {0};
  for (int a = 0; a < p->num_atoms; a++) members[p->class_of[a]] |= 1u << a;
  for (int d = 0; d < p->rank; d++)
    for (int i = 0; i < s->num[d]; i++) {
      int a = __builtin_ctz(members[p->class_of[s->atom[d][i]]] & left);
      s->atom[d][i] = (uint8_t)a;
      left &= ~(1u << a);
    }
  for (uint32_t m = s->partial; m; m &= m - 1) {
    int a = __builtin_ctz(members[p->class_of[__builtin_ctz(m)]] & left);
    partial |= 1u << a;
    left &= ~(1u << a);
  }
  s->partial = partial;
}

int msc_reshard_cuts(const reshard_problem *p, const reshard_state *s, int d, int first, int end, int64_t *out_parts) {
  uint32_t axis = UINT32_MAX;
  int num = 0;
  for (int i = first; i < end; i++)
    for (int j = 0; j < p->num_digits[s->atom[d][i]]; j++) {
      msc_subaxis x = p->digit[s->atom[d][i]][j];
      if (x.axis != axis) out_parts[num++] = 1;
      axis = x.axis;
      out_parts[num - 1] *= x.size;
    }
  return num;
}

/* The size of the largest part of dimension d. */
static int64_t largest_part_in(const reshard_problem *p, const reshard_state *s, int d) {
  int64_t cut[MSC_MAX_SUBAXES], block = p->type->dim[d];
  int num = msc_reshard_cuts(p, s, d, 0, s->num[d], cut);
  for (int i = 0; i < num; i++) block = (block + cut[i] - 1) / cut[i];
  return block;
}

int64_t msc_reshard_local(const reshard_problem *p, const reshard_state *s) {
  int64_t bytes = p->uneven ? p->elem_bytes : p->total_bytes;
  for (int d = 0; d < p->rank; d++) {
    if (p->uneven) bytes *= largest_part_in(p, s, d);
    else bytes /= msc_reshard_parts(p, s, d);
  }
  return bytes;
}

void msc_reshard_largest_parts(const reshard_problem *p, const reshard_state *s, int64_t *out_size) {
  for (int d = 0; d < p->rank; d++) out_size[d] = largest_part_in(p, s, d);
}

int64_t msc_reshard_lacks_of(const reshard_problem *p, const int64_t *part, const int64_t *to_part) {
  int64_t needed = p->elem_bytes, held = p->elem_bytes;
  for (int d = 0; d < p->rank; d++) {
    needed *= to_part[d];
    held *= part[d] < to_part[d] ? part[d] : to_part[d];
  }
  return needed - held;
}

int64_t msc_reshard_first_lacks(const reshard_problem *p, const reshard_state *s, const reshard_state *to) {
  int64_t part[MSC_MAX_RANK], to_part[MSC_MAX_RANK];
  msc_reshard_largest_parts(p, s, part);
  msc_reshard_largest_parts(p, to, to_part);
  return msc_reshard_lacks_of(p, part, to_part);
}

bool msc_reshard_only_sliced(const reshard_problem *p, const reshard_state *a, const reshard_state *b) {
  if (a->partial & ~b->partial) return false;
  for (int d = 0; d < p->rank; d++)
    if (!msc_reshard_starts_with(b, a, d)) return false;
  return true;
}
