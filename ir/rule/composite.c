/* composite.c: rule functions of composites: an op in; the letters of its tensors' dimensions out.  A letter with the
 * role `expand` may be cut because the expansion of the op has the collectives that this takes. */
#include "ir/formula.h"
#include "ir/op_table.h"
#include "ir/rule/rule.h"

/* Dimensions before the axis are A, B ...; from it on d, e ... */
bool rule_norm(const msc_op *op, msc_rule *rule) {
  int axis = axis_of(op, "axis", msc_rule_tensor_type(op, 0)->rank);
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    int lead = i == 0 || i >= rule->num_in ? axis : 0;
    for (int d = 0; d < t->rank; d++)
      msc_rule_give(rule, i, d, d < lead ? msc_rule_star(d) : (char)('d' + d - lead), t->dim[d]);
  }
  return true;
}

/* x [n,(gi),B..], gamma and beta [(gi)] */
bool rule_group_norm(const msc_op *op, msc_rule *rule) {
  int64_t groups = msc_op_int(op, "groups");
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    int c = t->rank > 1;
    if (c) msc_rule_give(rule, i, 0, 'n', t->dim[0]);
    msc_rule_give(rule, i, c, 'g', groups);
    msc_rule_give(rule, i, c, 'i', t->dim[c] / groups);
    for (int d = 2; d < t->rank; d++) msc_rule_give(rule, i, d, msc_rule_star(d), t->dim[d]);
  }
  return true;
}

bool rule_batch_norm(const msc_op *op, msc_rule *rule) {
  int axis = axis_of(op, "axis", msc_rule_tensor_type(op, 0)->rank);
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    bool is_data = i == 0 || i == rule->num_in;
    for (int d = 0; d < t->rank; d++)
      msc_rule_give(rule, i, d, is_data && d != axis ? msc_rule_star(d) : 'c', t->dim[d]);
  }
  return true;
}

/* Gives x the letters [*,(hf)], where h are the two halves, and the result [*,f]. */
bool rule_glu(const msc_op *op, msc_rule *rule) {
  int last = msc_rule_tensor_type(op, 0)->rank - 1;
  for (size_t i = 0; i < 2; i++) {
    for (int d = 0; d < last; d++) msc_rule_give(rule, i, d, msc_rule_star(d), msc_rule_tensor_type(op, i)->dim[d]);
    if (i == 0) msc_rule_give(rule, i, last, 'h', 2);
    msc_rule_give(rule, i, last, 'f', msc_rule_tensor_type(op, 1)->dim[last]);
  }
  return true;
}

bool rule_rotary(const msc_op *op, msc_rule *rule) {
  int last = msc_rule_tensor_type(op, 0)->rank - 1;
  for (size_t i = 0; i < 2; i++)
    for (int d = 0; d <= last; d++)
      msc_rule_give(rule, i, d, d == last ? 'e' : msc_rule_star(d), msc_rule_tensor_type(op, i)->dim[d]);
  return true;
}

/* Gives a tensor of an attention the letters `name`.  The heads of what has a position per query (s) are groups of
 * members, (gm); those of keys and values are groups.  A mask has the last letters, and none where it broadcasts. */
static void give_attention(const msc_op *op, msc_rule *rule, size_t tensor, const char *name, bool is_mask) {
  int64_t groups = msc_rule_tensor_type(op, 1)->dim[1],
          members = groups ? msc_rule_tensor_type(op, 0)->dim[1] / groups : 1;
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  for (int d = 0; d < t->rank; d++) {
    int at = is_mask ? 4 - t->rank + d : d;
    bool has_members = at == 1 && name[2] == 's' && members > 1;
    if (is_mask && t->dim[d] == 1) continue;
    msc_rule_give(rule, tensor, d, name[at], has_members ? groups : t->dim[d]);
    if (has_members) msc_rule_give(rule, tensor, d, 'm', members);
  }
}

/* q [b,(gm),s,e], k [b,g,t,e], v [b,g,t,f], mask broadcast to [b,(gm),s,t] -> [b,(gm),s,f] */
bool rule_attention(const msc_op *op, msc_rule *rule) {
  static const char *const operand[] = {"bgse", "bgte", "bgtf", "bgst", "bgst"};
  for (size_t i = 0; i < rule->num_tensors; i++)
    give_attention(op, rule, i, i < rule->num_in ? operand[i] : "bgsf", i >= 3 && i < rule->num_in);
  return true;
}

/* The tensors' letters differ only in the last two dimensions: positions of queries (s) or of keys and values (t), and
 * the size of a key (e) or of a value (f). */
bool rule_flash_attention(const msc_op *op, msc_rule *rule) {
  static const char *const forward[] = {"bgse", "bgte", "bgtf", "bgst"}, *const result[] = {"bgsf", "bgs"};
  static const char *const backward[] = {"bgse", "bgte", "bgtf", "bgsf", "bgs", "bgsf", "bgst"};
  bool is_grad = op->kind == OP_flash_attention_grad, is_masked = msc_op_bool(op, "masked");
  for (size_t i = 0; i < rule->num_tensors; i++) {
    bool is_result = i >= rule->num_in;
    const char *const *name = is_grad ? backward : is_result ? result : forward;
    give_attention(op, rule, i, name[is_result ? i - rule->num_in : i], is_masked && i == (is_grad ? 6 : 3));
  }
  return true;
}

bool rule_prelu(const msc_op *op, msc_rule *rule) {
  for (size_t i = 0; i < 3; i += 2)
    for (int d = 0; d < msc_rule_tensor_type(op, 0)->rank; d++)
      msc_rule_give(rule, i, d, msc_rule_star(d), msc_rule_tensor_type(op, 0)->dim[d]);
  if (msc_rule_tensor_type(op, 1)->dim[0] != 1)
    msc_rule_give(rule, 1, 0, msc_rule_star(1), msc_rule_tensor_type(op, 1)->dim[0]);
  return true;
}

/* x [n] -> [(tn)]: t copies of the n elements, one behind the other. */
bool rule_tile(const msc_op *op, msc_rule *rule) {
  int64_t repeats[MSC_MAX_RANK];
  int rank = msc_op_ints(op, "repeats", repeats, MSC_MAX_RANK);
  for (int d = 0; d < rank; d++) {
    int64_t n = msc_rule_tensor_type(op, 0)->dim[d];
    msc_rule_give(rule, 0, d, msc_rule_star(d), n);
    if (repeats[d] > 1) msc_rule_give(rule, 1, d, (char)('a' + d), repeats[d]);
    msc_rule_give(rule, 1, d, msc_rule_star(d), n);
  }
  return true;
}

bool rule_stack(const msc_op *op, msc_rule *rule) {
  int rank = msc_rule_tensor_type(op, op->num_in)->rank, axis = axis_of(op, "axis", rank);
  rule->linear = rule->joint = op->num_in <= 32;
  rule->linear_in = op->num_in < 32 ? (1u << op->num_in) - 1 : ~0u;
  for (size_t i = 0; i < rule->num_tensors; i++)
    for (int d = 0, s = 0; d < rank; d++) {
      if (d == axis) continue;
      msc_rule_give(rule, i, i < op->num_in ? s : d, msc_rule_star(s), msc_rule_tensor_type(op, op->num_in)->dim[d]);
      s++;
    }
  return true;
}

/* Gives letters to the dimensions of x and y that are not in the mask `moved`: their elements stay where they are. */
static bool give_others(const msc_op *op, msc_rule *rule, unsigned moved) {
  for (size_t i = 0; i < 2; i++)
    for (int d = 0; d < msc_rule_tensor_type(op, 0)->rank; d++)
      if (!(moved >> d & 1)) msc_rule_give(rule, i, d, msc_rule_star(d), msc_rule_tensor_type(op, 0)->dim[d]);
  return true;
}

bool rule_reverse(const msc_op *op, msc_rule *rule) {
  int64_t dims[MSC_MAX_RANK];
  unsigned moved = 0;
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  for (int i = 0; i < num; i++) moved |= 1u << dims[i];
  return give_others(op, rule, moved);
}

bool rule_roll(const msc_op *op, msc_rule *rule) {
  return give_others(op, rule, 1u << axis_of(op, "dim", msc_rule_tensor_type(op, 0)->rank));
}

bool rule_nll_loss(const msc_op *op, msc_rule *rule) { return rule_cross_entropy(op, rule); }
