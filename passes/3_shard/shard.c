/* shard.c: function -> groups of ops with rules, letters and the digits chosen so far (see shard.h). */
#include <string.h>

#include "ir/fact.h"
#include "passes/2_train/train.h"
#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

msc_func *shard_func(msc_module *m) {
  msc_func *f = msc_step_func(m);
  return f && !msc_func_attr(f, MSC_FACT(manual)) ? f : NULL;
}

const msc_layout *shard_fixed_layout(const msc_func *f, size_t arg) {
  return msc_attr_layout(msc_arg_attr(f, arg, MSC_FACT(msc_layout)));
}

bool shard_searches_time(const msc_config *config) {
  return msc_config_parallel_mode(config) == MSC_AUTO_PARALLEL &&
         msc_config_search_mode(config) != MSC_SHARDING_PROPAGATION;
}

uint32_t shard_atom_set(const msc_atoms *atoms, int num, const msc_subaxis *digit) {
  uint32_t set = 0;
  for (int i = 0; i < num; i++)
    for (int a = 0; a < atoms->num; a++) {
      const msc_subaxis *atom = &atoms->atom[a];
      if (atom->axis == digit[i].axis && atom->pre >= digit[i].pre && atom->pre < digit[i].pre * digit[i].size)
        set |= 1u << a;
    }
  return set;
}

int64_t shard_parts(const msc_atoms *atoms, int num, const uint8_t *atom) {
  int64_t parts = 1;
  for (int i = 0; i < num; i++) parts *= atoms->atom[atom[i]].size;
  return parts;
}

msc_assignment shard_assignment(const shard_op *o, const msc_assignment *of_group) {
  msc_assignment a;
  memset(&a, 0, sizeof a);
  for (int l = 0; l < o->rule.num_letters; l++) {
    int from = o->to_group[l];
    if (from < 0) continue;
    a.num[l] = of_group->num[from];
    memcpy(a.atom[l], of_group->atom[from], a.num[l]);
  }
  return a;
}

const msc_layout *shard_layout(shard_graph *g, const shard_op *o, const msc_assignment *of_group, size_t tensor) {
  msc_assignment a = shard_assignment(o, of_group);
  return msc_rule_layout(g->ctx, g->mesh, &g->atoms, &o->rule, &a, tensor);
}

bool shard_allows(const shard_graph *g, int group, const msc_assignment *a) {
  const shard_group *of = &g->group[group];
  if (!msc_rule_allows(&of->rule, a, &g->atoms)) return false;
  for (size_t i = 1; i < of->num_members; i++) {
    const shard_op *o = &g->op[of->member[i]];
    msc_assignment own = shard_assignment(o, a);
    if (!msc_rule_allows(&o->rule, &own, &g->atoms)) return false;
  }
  return true;
}

bool shard_check_digits(const shard_graph *g, int group, const char *annotation) {
  const shard_group *of = &g->group[group];
  const char *kind = msc_kind_name(of->leader->kind);
  if (shard_allows(g, group, &of->digits)) return true;
  if (msc_rule_allows(&g->op[of->leader->id].rule, &of->digits, &g->atoms))
    return msc_op_error(of->leader, MSC_E_STRATEGY, "%s: the gradient of %s cannot be cut like that", annotation, kind);
  return msc_op_error(of->leader, MSC_E_STRATEGY,
                      "%s: %s cannot be cut like that: of dimensions that it merges, a minor one is cut only when "
                      "those before it are cut into single elements",
                      annotation, kind);
}

bool shard_is_copy(const msc_op *op) { return msc_fact_read(op, by, MSC_DECIDER_NOBODY) == MSC_DECIDER_COPY; }

/* Are the op's results read only by updates, by other ops that serve updates, and as new values of arguments? */
static bool serves_updates(const msc_op *op, const msc_op *ret, const msc_attr_value *ties, const bool *serves) {
  if (op->forward || shard_is_copy(op) || msc_info(op)->flags & (MSC_UPDATE | MSC_TERMINATOR)) return false;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next) {
      size_t at = (size_t)(u - u->user->in);
      bool is_state = u->user == ret && at < ties->list.num && ties->list.v[at].i >= 0;
      if (!is_state && !(msc_info(u->user)->flags & MSC_UPDATE) && !serves[u->user->id]) return false;
    }
  return true;
}

const bool *shard_optimizer_ops(msc_arena *arena, const msc_func *f) {
  const msc_op *ret = f->body->last;
  bool *serves = msc_new_array(arena, bool, ret->id + 1);
  const msc_attr_value *ties = msc_func_attr(f, MSC_FACT(ties));
  if (!ties || ties->kind != MSC_ATTR_LIST) return serves;
  for (const msc_op *op = ret; op; op = op->prev) serves[op->id] = serves_updates(op, ret, ties, serves);
  return serves;
}

const msc_use *shard_owner_of(const shard_graph *g, const msc_value *arg) {
  const msc_use *first = NULL;
  for (const msc_use *u = arg->uses; u; u = u->next) {
    if (u->user->block != g->func->body || g->op[u->user->id].group < 0) continue;
    if (msc_info(u->user)->flags & MSC_UPDATE) return u;
    if (!first || u->user->id < first->user->id) first = u;
  }
  return first;
}

bool shard_widens_gradient(const msc_op *op) {
  return op->kind == OP_cast && op->forward && op->forward->kind == OP_cast && !op->forward->in[0].value->def &&
         op->out[0].type->dtype == MSC_F32;
}

bool shard_runs_per_step(const msc_op *op, const bool *per_step) {
  if (msc_info(op)->flags & MSC_UPDATE) return true;
  if (op->forward || msc_info(op)->flags & MSC_TERMINATOR || op->kind == OP_accumulate) return false;
  bool any = false;
  for (size_t i = 0; i < op->num_out; i++)
    for (const msc_use *u = op->out[i].uses; u; u = u->next) {
      if (!per_step[u->user->id]) return false;
      any = true;
    }
  return any;
}

const msc_layout *shard_digits(const shard_graph *g, int num, const uint8_t *atom, const int64_t *split) {
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = 1;
  raw.first[1] = (uint8_t)num;
  for (int i = 0; i < num; i++) raw.sub[i] = g->atoms.atom[atom[i]];
  raw.split[0] = split;
  return msc_layout_of(g->ctx, g->mesh, &raw);
}

/* ---- texts ---- */

const char *shard_tensor_text(const shard_graph *g, const msc_op *op, int tensor) {
  const msc_op_info *info = msc_info(op);
  if (tensor >= op->num_in) return msc_arena_printf(g->arena, "result %d", tensor - op->num_in);
  int last = info->num_operands - 1;
  const char *name = tensor < last || !info->operand[last].variadic ? info->operand[tensor].name : NULL;
  return name ? msc_arena_printf(g->arena, "operand %d (%s)", tensor, name)
              : msc_arena_printf(g->arena, "operand %d", tensor);
}

int shard_annotated_operands(const msc_op *op) {
  bool has_key = msc_info(op)->flags & MSC_RANDOM && op->num_in == msc_info(op)->max_in;
  return has_key ? op->num_in - 2 : op->num_in;
}

const char *shard_gradient_text(const shard_graph *g, const msc_op *op, const msc_dim_letters *dim) {
  const msc_rule *own = &g->op[op->id].rule, *of_group = &g->group[g->op[op->id].group].rule;
  for (int i = 0; i < dim->num; i++)
    if (of_group->letter[dim->letter[i]].role == MSC_REP && own->letter[dim->letter[i]].role != MSC_REP)
      return " because of its gradient";
  return "";
}

const char *shard_digits_text(const shard_graph *g, int num, const uint8_t *atom) {
  /* most letters have no digits: this saves making a layout for them */
  return num ? msc_digits_print(g->arena, g->mesh, shard_digits(g, num, atom, NULL)) : "{}";
}

/* ---- reading ---- */

static const msc_attr_value *sharding_of(const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(sharding));
  return v && v->kind == MSC_ATTR_DICT ? v : NULL;
}

/* Chooses the atoms: every cut of a digit list in use is a border between two of them. False after reporting. */
static bool choose_atoms(shard_graph *g) {
  size_t num = 0;
  for (size_t i = 0; i < g->num_ops; i++) {
    const msc_attr_value *v = sharding_of(g->op[i].op);
    num += v ? v->dict.num : 0;
  }
  const msc_layout **layout = msc_new_array(g->arena, const msc_layout *, num + g->func->body->num_args);
  num = 0;
  for (size_t i = 0; i < g->num_ops; i++) {
    const msc_attr_value *v = sharding_of(g->op[i].op);
    for (size_t j = 0; v && j < v->dict.num; j++) layout[num++] = msc_attr_layout(&v->dict.a[j].value);
  }
  for (size_t i = 0; i < g->func->body->num_args; i++) {
    if (g->arg_layout[i]) layout[num++] = g->arg_layout[i];
  }
  if (msc_atoms_of(g->mesh, num, layout, &g->atoms)) return true;
  return msc_error(g->ctx, MSC_E_LAYOUT, g->func->loc,
                   "layouts cut a mesh axis at places that have no common refinement");
}

void shard_set_split(shard_graph *g, int group, int letter, const int64_t *split) {
  shard_group *of = &g->group[group];
  int64_t parts = split ? shard_parts(&g->atoms, of->digits.num[letter], of->digits.atom[letter]) : 0;
  const int64_t *old = of->split[letter];
  of->split[letter] = split;
  for (size_t i = 0; i < of->num_members; i++) {
    shard_op *o = &g->op[of->member[i]];
    for (int t = 0; t < o->rule.num_tensors; t++)
      for (int d = 0; d < o->rule.tensor[t].rank; d++) {
        msc_dim_letters *dim = &o->rule.tensor[t].dim[d];
        const msc_type *type = t < o->op->num_in ? o->op->in[t].value->type : o->op->out[t - o->op->num_in].type;
        if (dim->num != 1 || o->to_group[dim->letter[0]] != letter ||
            (split ? type->dim[d] != split[parts] : dim->split != old))
          continue;
        dim->split = split, dim->num_split = (uint32_t)parts;
      }
  }
}

static void read_sharding(shard_graph *g, shard_group *group) {
  const msc_attr_value *v = sharding_of(group->leader);
  if (!v) return;
  for (size_t i = 0; i < v->dict.num; i++) {
    int l = msc_find_letter(&group->rule, v->dict.a[i].name[0]);
    const msc_layout *digits = l < 0 ? NULL : msc_attr_layout(&v->dict.a[i].value);
    if (!digits) continue;
    group->digits.num[l] = (uint8_t)msc_atoms_in(&g->atoms, digits->first[1], digits->sub, group->digits.atom[l]);
    group->closed |= 1u << l;
    if (digits->split[0]) shard_set_split(g, (int)(group - g->group), l, digits->split[0]);
  }
  group->by = msc_fact_read(group->leader, by, MSC_DECIDER_NOBODY);
}

/* Maps o's letters to its group's: each to itself for a leader, by `letters` for a gradient op. */
static void map_letters(const shard_graph *g, shard_op *o) {
  const shard_op *forward = o->op->forward ? &g->op[o->op->forward->id] : NULL;
  memset(o->to_group, -1, sizeof o->to_group);
  for (int l = 0; l < o->rule.num_letters; l++) {
    if (!forward) o->to_group[l] = (int8_t)l;
    else if (o->op->letters && (size_t)l < strlen(o->op->letters)) {
      int theirs = msc_find_letter(&forward->rule, o->op->letters[l]);
      if (theirs >= 0) o->to_group[l] = forward->to_group[theirs];
    }
  }
}

/* Does a dimension with this letter have parts of chosen sizes (manual_split)? Such a dimension may differ in size from
 * others of the letter, since its parts follow theirs one by one, as those of a table's rows follow its fields. */
static bool has_split(const msc_rule *rule, int letter) {
  for (size_t t = 0; t < rule->num_tensors; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      const msc_dim_letters *dim = &rule->tensor[t].dim[d];
      if (dim->split && dim->num == 1 && dim->letter[0] == letter) return true;
    }
  return false;
}

/* Applies what op o demands to the letters of its group: a letter stays whole if o keeps it whole or has another size
 * for it, or windows over other elements; what windows slide over is cut where o's windows allow. */
static void merge_letter(shard_graph *g, const shard_op *o) {
  msc_rule *of_group = &g->group[o->group].rule;
  for (int l = 0; l < o->rule.num_letters; l++) {
    if (o->to_group[l] < 0) continue;
    msc_letter *to = &of_group->letter[o->to_group[l]];
    const msc_letter *own = &o->rule.letter[l];
    if (own->role == MSC_REP || (own->size != to->size && !has_split(&o->rule, l))) to->role = MSC_REP;
    if (own->halo && to->halo && (own->over != to->over || own->stride != to->stride)) to->role = MSC_REP;
    if (own->halo) to->halo = true, to->over = own->over, to->stride = own->stride;
  }
}

/* The id of the first op in program order, other than an update, that uses the parameter of update op o; -1: none. */
static int64_t first_parameter_user(const shard_graph *g, const msc_op *o) {
  int64_t first = -1;
  for (const msc_use *u = o->in[0].value->uses; u; u = u->next) {
    const shard_op *user = u->user->block == g->func->body ? &g->op[u->user->id] : NULL;
    if (!user || user->group < 0 || msc_info(u->user)->flags & MSC_UPDATE) continue;
    if (first < 0 || u->user->id < first) first = u->user->id;
  }
  return first;
}

/* Puts o into the group of `user`, whose tensor t is the same value as o's tensor `own`: o's letters there become those
 * that `user` has there. */
static void join_owner(shard_op *o, int own, const shard_op *user, int t) {
  o->group = user->group;
  memset(o->to_group, -1, sizeof o->to_group);
  for (int d = 0; d < o->rule.tensor[own].rank; d++) {
    const msc_dim_letters *mine = &o->rule.tensor[own].dim[d], *theirs = &user->rule.tensor[t].dim[d];
    if (mine->num != 1 || theirs->num != 1) continue;
    o->to_group[mine->letter[0]] = user->to_group[theirs->letter[0]];
    for (int k = 0; k < o->rule.num_tensors && theirs->split; k++) {
      if (o->rule.tensor[k].rank != o->rule.tensor[own].rank) continue;
      o->rule.tensor[k].dim[d].split = theirs->split;
      o->rule.tensor[k].dim[d].num_split = theirs->num_split;
    }
  }
}

static int operand_number(const msc_op *op, const msc_value *v) {
  int t = 0;
  while (op->in[t].value != v) t++;
  return t;
}

/* An update op joins the group of its parameter's first user: parameter and state live where they are used. */
static void join_first_user(shard_graph *g, shard_op *o) {
  const msc_value *w = o->op->in[0].value;
  int64_t id = first_parameter_user(g, o->op);
  if (id >= 0) join_owner(o, 0, &g->op[id], operand_number(g->op[id].op, w));
}

/* ---- casts ---- */

static msc_op *first_user_of(const msc_value *v) {
  msc_op *first = NULL;
  for (const msc_use *u = v->uses; u; u = u->next)
    if (!first || u->user->id < first->id) first = u->user;
  return first;
}

/* The op whose layout a cast between floats shares, so that layouts change in the narrower type: for a cast that
 * narrows a computed value the op that made the value; for one that widens, or that narrows an argument, the first user
 * of its result. NULL: the cast has a strategy of its own, or there is no such op. */
static msc_op *partner_of_cast(const msc_op *op) {
  if (op->kind != OP_cast || op->forward || msc_op_has_sort(op, MSC_SORT_STRATEGY)) return NULL;
  const msc_value *x = op->in[0].value;
  if (!msc_is_float(x->type->dtype) || !msc_is_float(op->out[0].type->dtype)) return NULL;
  msc_op *partner = x->def && msc_dtype_bytes(op->out[0].type->dtype) < msc_dtype_bytes(x->type->dtype)
                        ? x->def
                        : first_user_of(&op->out[0]);
  bool fits = partner && partner->block == op->block && !partner->forward && partner->kind != OP_cast &&
              !(msc_info(partner)->flags & (MSC_TERMINATOR | MSC_UPDATE));
  return fits ? partner : NULL;
}

static bool group_op(shard_graph *g, shard_op *o);

/* Puts a cast into the group of its partner, unless a dimension of the value between them has several letters. */
static bool join_partner(shard_graph *g, shard_op *o) {
  msc_op *op = o->op, *partner = partner_of_cast(op);
  if (!partner) return true;
  MSC_TRY(group_op(g, &g->op[partner->id]));
  const shard_op *of = &g->op[partner->id];
  bool made = op->in[0].value->def == partner;
  int t = made ? partner->num_in + (int)op->in[0].value->index : operand_number(partner, &op->out[0]);
  for (int d = 0; d < of->rule.tensor[t].rank; d++)
    if (of->rule.tensor[t].dim[d].num > 1) return true;
  if (of->group >= 0) join_owner(o, made ? 0 : 1, of, t);
  return true;
}

static bool group_op(shard_graph *g, shard_op *o) {
  bool is_grouped = o->rule.num_tensors > 0;
  if (is_grouped || msc_info(o->op)->flags & MSC_TERMINATOR) return true;
  MSC_TRY(msc_rule_of(o->op, g->arena, &o->rule));
  if (o->op->forward) {
    o->group = g->op[o->op->forward->id].group;
    map_letters(g, o);
    return true;
  }
  if (msc_info(o->op)->flags & MSC_UPDATE) join_first_user(g, o);
  MSC_TRY(join_partner(g, o));
  if (o->group >= 0) return true;
  o->group = (int)g->num_groups;
  shard_group *group = &g->group[g->num_groups++];
  group->leader = o->op;
  group->rule = o->rule;
  group->rule.letter = msc_arena_copy(g->arena, o->rule.letter, o->rule.num_letters * sizeof *o->rule.letter);
  map_letters(g, o);
  return true;
}

static bool make_groups(shard_graph *g) {
  for (size_t i = 0; i < g->num_ops; i++) g->op[i].group = -1;
  for (size_t i = 0; i < g->num_ops; i++) MSC_TRY(group_op(g, &g->op[i]));
  for (size_t i = 0; i < g->num_ops; i++)
    if (g->op[i].group >= 0) merge_letter(g, &g->op[i]);
  return true;
}

static void list_members(shard_graph *g) {
  for (size_t i = 0; i < g->num_ops; i++)
    if (g->op[i].group >= 0) g->group[g->op[i].group].num_members++;
  for (size_t i = 0; i < g->num_groups; i++) {
    g->group[i].member = msc_new_array(g->arena, uint32_t, g->group[i].num_members);
    g->group[i].member[0] = g->group[i].leader->id;
    g->group[i].num_members = 1;
  }
  for (size_t i = 0; i < g->num_ops; i++) {
    shard_group *group = g->op[i].group < 0 ? NULL : &g->group[g->op[i].group];
    if (group && group->leader != g->op[i].op) group->member[group->num_members++] = (uint32_t)i;
  }
}

bool shard_graph_of(msc_pass_ctx *pass, msc_func *f, shard_graph *out_g) {
  memset(out_g, 0, sizeof *out_g);
  shard_graph *g = out_g;
  g->ctx = pass->ctx;
  g->arena = pass->scratch;
  g->func = f;
  g->mesh = &f->module->mesh;
  msc_numbering n = msc_number(f->body);
  g->num_ops = n.num_ops;
  g->num_values = n.num_values;
  g->op = msc_new_array(g->arena, shard_op, n.num_ops);
  size_t most = 0; /* groups: gradient ops have none of their own */
  for (const msc_op *op = f->body->first; op; op = op->next) most += !op->forward;
  g->group = msc_new_array(g->arena, shard_group, most);
  for (msc_op *op = f->body->first; op; op = op->next) g->op[op->id].op = op;
  g->arg_layout = msc_new_array(g->arena, const msc_layout *, f->body->num_args);
  for (size_t i = 0; i < f->body->num_args; i++) g->arg_layout[i] = shard_fixed_layout(f, i);
  MSC_TRY(make_groups(g));
  list_members(g);
  MSC_TRY(choose_atoms(g));
  for (size_t i = 0; i < g->num_groups; i++) read_sharding(g, &g->group[i]);
  return true;
}

void shard_graph_store(shard_graph *g) {
  for (size_t i = 0; i < g->num_groups; i++) {
    shard_group *group = &g->group[i];
    if (!group->by) continue;
    msc_attr *attrs = NULL;
    size_t num = 0;
    for (int l = 0; l < group->rule.num_letters; l++) {
      if (!group->digits.num[l] && !(group->closed >> l & 1)) continue;
      char name[2] = {group->rule.letter[l].name, 0};
      msc_put_attr(g->ctx, &attrs, &num, name,
                   msc_digits_attr(shard_digits(g, group->digits.num[l], group->digits.atom[l], group->split[l])));
    }
    msc_op_put(group->leader, msc_fact_sharding(num, attrs));
    msc_op_put(group->leader, msc_fact_by(g->ctx, group->by));
  }
}
