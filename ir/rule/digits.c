/* digits.c: a rule and mesh digits for its letters in; the layout that each tensor of the op has then, and whether the
 * op can be cut so, out. */
#include <string.h>

#include "ir/rule/rule.h"

static uint32_t letter_atoms(const msc_assignment *a, int letter) {
  uint32_t mask = 0;
  for (int i = 0; i < a->num[letter]; i++) mask |= 1u << a->atom[letter][i];
  return mask;
}

/* Does this operand carry the partial sums that pass through the op?  Of operands that are linear each alone, one
 * does. */
static bool carries_pass(const msc_rule *rule, const msc_assignment *a, size_t tensor) {
  if (tensor >= 32 || !(rule->linear_in >> tensor & 1)) return false;
  bool named = a->pass_in < 32 && (rule->linear_in >> a->pass_in & 1);
  return rule->joint || tensor == (named ? a->pass_in : (size_t)__builtin_ctz(rule->linear_in));
}

/* Atoms on which a result is an unfinished reduction: those of reduced letters that it lacks, and those that pass. */
static uint32_t partial_atoms(const msc_rule *rule, const msc_assignment *a, size_t tensor, uint8_t *out_reduction) {
  uint32_t mask = 0;
  *out_reduction = MSC_SUM;
  if (tensor < rule->num_in) return carries_pass(rule, a, tensor) ? a->pass : 0;
  for (int l = 0; l < rule->num_letters; l++)
    if (rule->letter[l].role == MSC_RED && a->num[l] && !msc_rule_has_letter(&rule->tensor[tensor], l)) {
      mask |= letter_atoms(a, l);
      *out_reduction = rule->letter[l].reduction;
    }
  return mask | a->pass;
}

const msc_layout *msc_rule_layout(msc_context *ctx, const msc_mesh *mesh, const msc_atoms *atoms, const msc_rule *rule,
                                  const msc_assignment *a, size_t tensor) {
  const msc_tensor_letters *t = &rule->tensor[tensor];
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = t->rank;
  int num = 0;
  for (int d = 0; d < t->rank; d++) {
    raw.first[d] = (uint8_t)num;
    for (int i = 0; i < t->dim[d].num; i++) {
      int l = t->dim[d].letter[i];
      for (int j = 0; j < a->num[l]; j++) raw.sub[num++] = atoms->atom[a->atom[l][j]];
    }
    if (num > raw.first[d]) raw.split[d] = t->dim[d].split;
  }
  raw.first[t->rank] = (uint8_t)num;
  uint32_t partial = partial_atoms(rule, a, tensor, &raw.reduction);
  for (int i = 0; i < atoms->num; i++)
    if (partial >> i & 1) raw.sub[num++] = atoms->atom[i];
  raw.num_partial = (uint8_t)(num - raw.first[t->rank]);
  if (num == 0) return msc_layout_replicated(ctx, t->rank);
  return msc_layout_of(ctx, mesh, &raw);
}

static int64_t letter_parts(const msc_assignment *a, const msc_atoms *atoms, int letter) {
  int64_t parts = 1;
  for (int i = 0; i < a->num[letter]; i++) parts *= atoms->atom[a->atom[letter][i]].size;
  return parts;
}

bool msc_rule_divides(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter) {
  return rule->letter[letter].size % letter_parts(a, atoms, letter) == 0;
}

bool msc_rule_fills(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int letter) {
  int64_t size = rule->letter[letter].size, parts = letter_parts(a, atoms, letter), rest = size % parts;
  return rest == 0 || parts - rest <= size / 8;
}

/* A dimension whose parts have chosen sizes is cut into these or not at all. */
static bool splits_allow(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms) {
  for (size_t t = 0; t < rule->num_tensors; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      const msc_dim_letters *l = &rule->tensor[t].dim[d];
      if (l->split && (l->num != 1 || (a->num[l->letter[0]] && letter_parts(a, atoms, l->letter[0]) != l->num_split)))
        return false;
    }
  return true;
}

/* In (ij) a cut of j is a cut into neighbouring elements only when i is cut down to single ones, and the parts of the
 * whole dimension are those of its letters only when they divide them. */
static bool compounds_allow(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms) {
  for (size_t t = 0; t < rule->num_tensors; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      const msc_dim_letters *l = &rule->tensor[t].dim[d];
      for (int i = 0; i < l->num && l->num > 1; i++)
        if (!msc_rule_divides(rule, a, atoms, l->letter[i])) return false;
      for (int i = 1; i < l->num; i++)
        if (a->num[l->letter[i]] && letter_parts(a, atoms, l->letter[i - 1]) != rule->letter[l->letter[i - 1]].size)
          return false;
    }
  return true;
}

bool msc_letter_allows(const msc_letter *letter, int64_t parts) {
  if (letter->role == MSC_REP || letter->size < parts) return false;
  return !letter->halo || (letter->size % parts == 0 && letter->size / parts >= letter->least);
}

bool msc_rule_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms) {
  uint32_t used = a->pass;
  if (a->pass && !rule->linear) return false;
  for (int l = 0; l < rule->num_letters; l++) {
    const msc_letter *letter = &rule->letter[l];
    if (!a->num[l]) continue;
    if (!msc_letter_allows(letter, letter_parts(a, atoms, l))) return false;
    if (a->pass && letter->role == MSC_RED && letter->reduction != MSC_SUM) return false;
    uint32_t mask = letter_atoms(a, l);
    if ((used & mask) || __builtin_popcount(mask) != a->num[l]) return false;
    used |= mask;
  }
  return splits_allow(rule, a, atoms) && compounds_allow(rule, a, atoms);
}
