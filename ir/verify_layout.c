/* verify_layout.c: an op whose tensors carry layouts in; true, or what does not fit reported, out.
 * A computing op must obey its rule (rule.c); a collective must change the layout in the way its name says. */
#include <string.h>

#include "ir/ir.h"
#include "ir/verify.h"

/* ---- one layout ---- */

/* NULL, or what is wrong with the layout. */
static const char *layout_fault(const msc_mesh *mesh, const msc_type *t) {
  msc_box_mesh sizes = msc_mesh_sizes(mesh);
  msc_box_layout cuts = msc_layout_cuts(t->layout);
  if (t->layout->rank != t->rank) return "has another rank than its tensor";
  if (!msc_box_layout_ok(&sizes, &cuts)) return "names a digit that the mesh does not have, or uses one twice";
  if (t->layout->reduction >= MSC_NUM_REDUCTIONS) return "has an unknown reduction";
  return NULL;
}

bool msc_verify_type(const msc_module *m, const msc_loc *loc, const msc_type *t) {
  const char *fault = t->layout ? layout_fault(&m->mesh, t) : NULL;
  return !fault || msc_error(m->ctx, MSC_E_LAYOUT, loc, "a layout of rank %d %s", t->layout->rank, fault);
}

/* ---- changes of layout ---- */

/* The digits of a layout as atoms of both layouts: list d of dimension d, list `rank` of the partial digits. */
typedef struct {
  int rank, num[MSC_MAX_RANK + 1];
  uint8_t list[MSC_MAX_RANK + 1][MSC_MAX_SUBAXES];
  int64_t parts[MSC_MAX_RANK + 1];
  uint32_t in_dims, partial; /* masks of atoms */
} atom_lists;

static bool overlap(msc_subaxis a, msc_subaxis b) {
  return a.axis == b.axis && a.pre < (uint64_t)b.pre * b.size && b.pre < (uint64_t)a.pre * a.size;
}

static void split_into_atoms(const msc_atoms *atoms, const msc_layout *l, atom_lists *out) {
  memset(out, 0, sizeof *out);
  out->rank = l->rank;
  for (int d = 0; d <= l->rank; d++) {
    int end = d < l->rank ? l->first[d + 1] : l->first[d] + l->num_partial;
    out->parts[d] = 1;
    for (int i = l->first[d]; i < end; i++)
      for (int a = 0; a < atoms->num; a++)
        if (overlap(atoms->atom[a], l->sub[i])) {
          out->list[d][out->num[d]++] = (uint8_t)a;
          out->parts[d] *= atoms->atom[a].size;
          *(d < l->rank ? &out->in_dims : &out->partial) |= 1u << a;
        }
  }
}

static bool is_prefix(const atom_lists *a, const atom_lists *b, int d) {
  return a->num[d] <= b->num[d] && memcmp(a->list[d], b->list[d], (size_t)a->num[d]) == 0;
}

static bool all_prefixes(const atom_lists *a, const atom_lists *b) {
  for (int d = 0; d < a->rank; d++)
    if (!is_prefix(a, b, d)) return false;
  return true;
}

static bool every_dim_shrinks_or_grows(const atom_lists *a, const atom_lists *b) {
  for (int d = 0; d < a->rank; d++)
    if (!is_prefix(a, b, d) && !is_prefix(b, a, d)) return false;
  return true;
}

static bool same_parts(const atom_lists *a, const atom_lists *b) {
  return memcmp(a->parts, b->parts, sizeof *a->parts * ((size_t)a->rank + 1)) == 0;
}

/* NULL, or what the verb would have to do and cannot. */
static const char *verb_fault(const msc_op *op, const atom_lists *from, const atom_lists *to) {
  uint32_t added = to->in_dims & ~from->in_dims, summed = from->partial & ~to->partial, made = to->partial & ~from->partial;
  if (made && op->kind != OP_shard && op->kind != OP_permute) return "it cannot make a partial result";
  switch (op->kind) {
    case OP_shard: return all_prefixes(from, to) && !summed ? NULL : "it only cuts further, behind the digits that cut already";
    case OP_all_gather: return all_prefixes(to, from) && !summed ? NULL : "it only removes digits from the ends of dimensions";
    case OP_all_reduce: return all_prefixes(from, to) && !added && summed ? NULL : "it finishes a partial result and leaves the cuts as they are";
    case OP_reduce_scatter: return all_prefixes(from, to) && added && added == summed ? NULL : "it moves partial digits to the ends of dimensions";
    case OP_all_to_all:
      return every_dim_shrinks_or_grows(from, to) && !summed && to->in_dims == from->in_dims ? NULL : "it moves digits from the ends of some dimensions to the ends of others";
    case OP_permute: return same_parts(from, to) ? NULL : "it keeps the number of parts of every dimension";
    default: return NULL; /* exchange goes anywhere */
  }
}

static const char *const reduction_words[] = {"sum", "max", "min", "prod"};

static bool check_verb(const msc_op *op, msc_arena *arena) {
  const msc_module *m = op->block->func->module;
  const msc_type *x = op->in[0].value->type, *y = op->out[0].type;
  const char *name = msc_kind_name(op->kind);
  const msc_layout *both[2] = {x->layout, y->layout};
  msc_atoms atoms;
  atom_lists from, to;
  if (!msc_atoms_of(&m->mesh, 2, both, &atoms)) return msc_op_error(op, MSC_E_SHARDING, "%s: its two layouts cut a mesh axis at places without a common refinement", name);
  split_into_atoms(&atoms, x->layout, &from);
  split_into_atoms(&atoms, y->layout, &to);
  const char *fault = verb_fault(op, &from, &to);
  if (fault)
    return msc_op_error(op, MSC_E_SHARDING, "%s: %s; here from %s to %s", name, fault, msc_layout_print(arena, &m->mesh, x->layout), msc_layout_print(arena, &m->mesh, y->layout));
  if (from.partial & to.partial && x->layout->reduction != y->layout->reduction)
    return msc_op_error(op, MSC_E_SHARDING, "%s: the reductions of a partial operand and a partial result differ", name);
  bool reduces = op->kind == OP_all_reduce || op->kind == OP_reduce_scatter;
  if (reduces && strcmp(msc_op_str(op, "reduction"), reduction_words[x->layout->reduction]))
    return msc_op_error(op, MSC_E_SHARDING, "%s: reduction is %s, but its operand is a partial %s", name, msc_op_str(op, "reduction"), reduction_words[x->layout->reduction]);
  return true;
}

/* ---- the manual form, and point to point ---- */

static bool member_attr(const msc_op *op, const char *attr, int64_t num) {
  int64_t v = msc_op_int(op, attr);
  if (v >= 0 && v < num) return true;
  return msc_op_error(op, MSC_E_ROW, "%s: %s is %" PRId64 "; the group %s has members 0..%" PRId64, msc_kind_name(op->kind), attr, v, msc_op_str(op, "axes"), num - 1);
}

static bool check_group(const msc_op *op) {
  int num_digits;
  msc_subaxis digit[MSC_MAX_SUBAXES];
  MSC_TRY(msc_subaxis_parse(msc_op_ctx(op), &op->block->func->module->mesh, op->loc, msc_op_str(op, "axes"), &num_digits, digit));
  int64_t num = msc_group_size(num_digits, digit);
  if (op->kind == OP_broadcast) return member_attr(op, "root", num);
  return member_attr(op, "from", num) & member_attr(op, "to", num);
}

/* A token goes from one send to one recv over the same channel. */
static bool check_pair(const msc_op *op) {
  static const char *const attrs[] = {"axes", "from", "to", "channel"};
  if (op->kind == OP_send) {
    for (const msc_use *u = op->out[0].uses; u; u = u->next)
      if (u->user->kind != OP_recv) return msc_op_error(u->user, MSC_E_ROW, "%s: uses the token of a send; only recv may", msc_kind_name(u->user->kind));
    return true;
  }
  const msc_op *send = op->in[0].value->def;
  if (!send || send->kind != OP_send) return msc_op_error(op, MSC_E_ROW, "recv: its operand must be the token of a send");
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
    bool same = i == 0 ? strcmp(msc_op_str(op, "axes"), msc_op_str(send, "axes")) == 0 : msc_op_int(op, attrs[i]) == msc_op_int(send, attrs[i]);
    if (!same) return msc_op_error(op, MSC_E_ROW, "recv: %s differs from that of its send", attrs[i]);
  }
  return true;
}

/* ---- all ---- */

static bool own_layouts(const msc_op *op) {
  bool ok = true;
  for (size_t i = 0; i < op->num_out; i++) ok &= msc_verify_type(op->block->func->module, op->loc, op->out[i].type);
  return ok;
}

/* How many of the op's tensors carry a layout. */
static size_t num_layouts(const msc_op *op) {
  size_t num = 0;
  for (size_t i = 0; i < op->num_in; i++) num += op->in[i].value->type->layout != NULL;
  for (size_t i = 0; i < op->num_out; i++) num += op->out[i].type->layout != NULL;
  return num;
}

static bool is_layout_change(const msc_op *op) {
  switch (op->kind) {
    case OP_all_reduce: case OP_all_gather: case OP_reduce_scatter: case OP_all_to_all: case OP_permute: case OP_exchange: case OP_shard: return true;
    default: return false;
  }
}

bool msc_verify_layouts(const msc_op *op, msc_arena *arena) {
  const msc_op_info *info = msc_info(op);
  size_t num = num_layouts(op);
  MSC_TRY(own_layouts(op));
  bool manual = (info->flags & MSC_COLLECTIVE) && msc_op_attr(op, "axes");
  if (manual && num) return msc_op_error(op, MSC_E_SHARDING, "%s: with axes it works on one rank's shapes, so its tensors cannot have layouts", info->name);
  if (op->kind == OP_send || op->kind == OP_recv) MSC_TRY(check_group(op) && check_pair(op));
  if (op->kind == OP_broadcast) MSC_TRY(check_group(op));
  if (is_layout_change(op) && !manual && num != 2)
    return msc_op_error(op, MSC_E_SHARDING, "%s: needs axes, or layouts on operand and result", info->name);
  if (num < (size_t)op->num_in + op->num_out || num == 0 || (info->flags & MSC_TERMINATOR)) return true;
  return is_layout_change(op) ? check_verb(op, arena) : msc_rule_check(op, arena);
}
