/* take_parts.c: a number of parts in; unused digits of the mesh whose sizes multiply to it, out. */
#include "passes/3_shard/shard.h"

/* Takes whole unused axes whose sizes multiply to `parts`, first ones first.  Depth is bounded by the
 * number of axes. */
static bool take_axes(const shard_graph *g, int64_t parts, int axis, uint32_t *used, uint8_t *atom, uint8_t *num) {
  const msc_atoms *digits = &g->atoms;
  if (parts == 1) return true;
  for (; axis < g->mesh->num_axes; axis++) {
    int64_t size = g->mesh->axis[axis].size;
    uint32_t mask = 0;
    for (int i = 0; i < digits->num; i++)
      if (digits->atom[i].axis == (uint32_t)axis) mask |= 1u << i;
    if (size == 1 || parts % size || *used & mask) continue;
    uint8_t before = *num;
    for (int i = 0; i < digits->num; i++)
      if (mask >> i & 1) atom[(*num)++] = (uint8_t)i;
    *used |= mask;
    if (take_axes(g, parts / size, axis + 1, used, atom, num)) return true;
    *used &= ~mask;
    *num = before;
  }
  return false;
}

/* Takes unused digits whose sizes multiply to `parts`, first ones first.  Depth is bounded by the number of digits. */
static bool take_digits(const msc_atoms *digits, int64_t parts, int at, uint32_t *used, uint8_t *atom, uint8_t *num) {
  if (parts == 1) return true;
  for (int i = at; i < digits->num; i++) {
    if (*used >> i & 1 || parts % digits->atom[i].size) continue;
    *used |= 1u << i;
    atom[(*num)++] = (uint8_t)i;
    if (take_digits(digits, parts / digits->atom[i].size, i + 1, used, atom, num)) return true;
    --*num;
    *used &= ~(1u << i);
  }
  return false;
}

/* Axes before digits of axes: a user's axis stays in one piece when it can. */
bool shard_take_parts(const shard_graph *g, int64_t parts, uint32_t *used, uint8_t *atom, uint8_t *num) {
  return take_axes(g, parts, 0, used, atom, num) || take_digits(&g->atoms, parts, 0, used, atom, num);
}
