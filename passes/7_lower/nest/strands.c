/* strands.c: the instructions of a kernel -> its strands, groups of instructions that depend on each other.  No value
 * that is computed from loads belongs to two strands: if a kernel updates several parameters, each update is a strand.
 * On a GPU each strand gets threads of its own, so that many small ones take hardly longer than one. */
#include <string.h>

#include "ir/table.h"
#include "passes/7_lower/nest/nester.h"

enum { SEVERAL = UINT8_MAX };

/* Groups the instructions that load, that store or that are computed from loads into trees, one for each strand: writes
 * the parent of each of them, 0 of all others. */
static void join_users(const msc_instr *instr, int num, const bool *live, uint32_t parent[MSC_NEST_INSTRS]) {
  for (int i = 0; i < num; i++) {
    bool varies = i && instr[i].axes && (!live || live[i]),
         own = varies && (instr[i].code == NEST_LOAD || msc_nest_has(&instr[i], NEST_ROOT));
    for (int k = 0; k < 3 && varies; k++) own |= parent[instr[i].arg[k]] != 0;
    parent[i] = own ? (uint32_t)i : 0;
    for (int k = 0; k < 3 && own; k++)
      if (parent[instr[i].arg[k]]) parent[msc_set_root(parent, instr[i].arg[k])] = (uint32_t)i;
  }
}

int msc_nest_find_strands(const msc_instr *instr, int num, const bool *live, uint8_t out_strand[MSC_NEST_INSTRS]) {
  uint32_t parent[MSC_NEST_INSTRS];
  uint8_t users[MSC_NEST_INSTRS] = {0}; /* the strand of all of them; 0: there are none */
  int strands = 0;
  join_users(instr, num, live, parent);
  memset(out_strand, 0, MSC_NEST_INSTRS);
  for (int i = num - 1; i > 0; i--) {
    uint32_t root = parent[i] ? msc_set_root(parent, (uint32_t)i) : 0;
    if (live && !live[i]) continue;
    if (root == (uint32_t)i) out_strand[i] = (uint8_t)++strands;
    else if (root) out_strand[i] = out_strand[root];
    else if (instr[i].axes && users[i] != SEVERAL) out_strand[i] = users[i];
    for (int k = 0; k < 3; k++) {
      uint8_t *of = &users[instr[i].arg[k]], strand = out_strand[i] ? out_strand[i] : SEVERAL;
      *of = *of == 0 || *of == strand ? strand : SEVERAL;
    }
  }
  return strands;
}

/* Does the strand of store i overwrite what another one reads? */
static bool overwrites_another(const msc_nester *n, const uint8_t *strand, int i) {
  int old = n->lies_on[n->instr[i].buffer] - 1;
  for (int k = 1; k < n->num_instrs && old >= 0; k++)
    if (n->live[k] && n->instr[k].code == NEST_LOAD && strand[k] != strand[i] &&
        n->memory[n->instr[k].buffer] == n->memory[old])
      return true;
  return false;
}

void msc_nest_choose_strands(msc_nester *n) {
  enum { SMALL = 1 << 20 };
  int num = msc_nest_find_strands(n->instr, n->num_instrs, n->live, n->strand);
  uint64_t points = msc_nest_points(n, n->walk.items);
  n->walk.strands = 1;
  if (!n->target->joins_small_kernels || n->walk.kind != MSC_NEST_MAP || num < 2 || points > SMALL) return;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && msc_nest_has(&n->instr[i], NEST_ROOT) &&
        (n->instr[i].code != NEST_STORE || overwrites_another(n, n->strand, i)))
      return;
  n->walk.strands = num;
}
