/* digits.c: a rule and an assignment of mesh digits to its letters in; each tensor's layout under it, and whether the
 * op may be cut so, out. */
#include <string.h>

#include "ir/rule/rule.h"

static uint32_t letter_atoms(const msc_assignment *a, int letter) {
  uint32_t mask = 0;
  for (int i = 0; i < a->num[letter]; i++) mask |= 1u << a->atom[letter][i];
  return mask;
}

/* Does this operand have the partial sums that pass through the op?  All linear operands have them where the op is
 * linear in all together (joint), else one of them: a->pass_in, or the first where that is none of them. */
static bool carries_pass(const msc_rule *rule, const msc_assignment *a, size_t tensor) {
  if (tensor >= 32 || !(rule->linear_in >> tensor & 1)) return false;
  bool named = a->pass_in < 32 && (rule->linear_in >> a->pass_in & 1);
  return rule->joint || tensor == (named ? a->pass_in : (size_t)__builtin_ctz(rule->linear_in));
}

/* The atoms over which a tensor is partial, a mask: for a result those of reduced letters that it lacks and those that
 * pass, for an operand those that pass if it has them. */
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

/* Is every dimension whose parts have chosen sizes cut into these parts or not at all? */
static bool splits_allow(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms) {
  for (size_t t = 0; t < rule->num_tensors; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      const msc_dim_letters *l = &rule->tensor[t].dim[d];
      if (l->split && (l->num != 1 || (a->num[l->letter[0]] && letter_parts(a, atoms, l->letter[0]) != l->num_split)))
        return false;
    }
  return true;
}

/* Are the parts of every dimension with several letters, (ij), runs of neighbouring elements?  They are if j is cut
 * only where i is cut into single elements, and the parts of each letter are equal. */
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
  return !letter->halo || (letter->over >= parts && (letter->over + parts - 1) / parts % letter->stride == 0);
}

bool msc_letter_allows_digits(const msc_letter *letter, int num, const msc_subaxis *s) {
  int64_t parts = msc_group_size(num, s);
  if (!msc_letter_allows(letter, parts)) return false;
  bool one_cut = true;
  for (int i = 1; i < num; i++) one_cut &= s[i - 1].axis == s[i].axis && s[i - 1].pre * s[i - 1].size == s[i].pre;
  return one_cut || !letter->halo || (letter->size % parts == 0 && letter->over % parts == 0);
}

static bool letter_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms, int l) {
  msc_subaxis digit[MSC_MAX_SUBAXES];
  for (int i = 0; i < a->num[l]; i++) digit[i] = atoms->atom[a->atom[l][i]];
  return msc_letter_allows_digits(&rule->letter[l], a->num[l], digit);
}

bool msc_rule_allows(const msc_rule *rule, const msc_assignment *a, const msc_atoms *atoms) {
  uint32_t used = a->pass;
  if (a->pass && !rule->linear) return false;
  for (int l = 0; l < rule->num_letters; l++) {
    const msc_letter *letter = &rule->letter[l];
    if (!a->num[l]) continue;
    if (!letter_allows(rule, a, atoms, l)) return false;
    if (a->pass && letter->role == MSC_RED && letter->reduction != MSC_SUM) return false;
    uint32_t mask = letter_atoms(a, l);
    if ((used & mask) || __builtin_popcount(mask) != a->num[l]) return false;
    used |= mask;
  }
  return splits_allow(rule, a, atoms) && compounds_allow(rule, a, atoms);
}
