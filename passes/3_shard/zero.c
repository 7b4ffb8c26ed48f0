/* zero: the parallel optimizer.  A function whose values have layouts -> the same with the update and the optimizer
 * state of every parameter that several ranks hold alike cut over these ranks; with stage 3 the parameter itself too.
 *
 * Only layouts change: those that updates want their operands in, and those of arguments and their new values.  The
 * pass redistribute then inserts the collectives that sum the gradient into parts and gather the parameter: after the
 * update, or with stage 3 before each use, forward and backward (`msc.gathered` tells it not to keep the whole
 * parameter in between).  A parameter that is cast to compute_type is gathered in that type.  The forward pass and the
 * gradients stay as they are.  With any stage, 0 too, the other ops of the optimizer, as norms, are cut as the update
 * is. What was chosen for a parameter, and why, stands in its attribute `msc.zero`. */
#include <string.h>

#include "passes/3_shard/shard.h"
#include "passes/config/config.h"

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  shard_graph g;
  shard_zero o;
  const msc_layout **wanted; /* by value id: the layout in which ops of the optimizer want it; NULL: none read it */
  const msc_layout **moved;  /* by argument: its new layout; NULL: it keeps its own */
  bool *has_layout;          /* by op id */
  const bool *is_optimizers;
} zero_pass;

static const char *layout_text(const zero_pass *z, const msc_layout *l) {
  return msc_layout_print(z->pass->scratch, z->g.mesh, l);
}

/* ---- what is configured ---- */

shard_zero shard_zero_of(const msc_config *config) {
  return (shard_zero){msc_config_zero(config), msc_config_optimizer_threshold(config) * 1024,
                      msc_config_int(config, MSC_KEY_optimizer_weight_shard_size)};
}

/* Does the op cast an argument to fewer bytes, as a parameter for products of compute_type? */
static bool narrows(const msc_op *op) {
  return op->kind == OP_cast && !op->forward && !op->in[0].value->def &&
         msc_dtype_bytes(op->out[0].type->dtype) < msc_dtype_bytes(op->in[0].value->type->dtype);
}

/* Does the model read the parameter only through casts to fewer bytes, and does a step have one micro-batch? Such a
 * parameter is kept cut from stage 1 on: gathering its narrow copy moves half the bytes of the new parameter. */
static bool is_read_narrowed(const msc_op *update) {
  const msc_value *w = update->in[0].value;
  bool any = false;
  for (const msc_use *u = w->uses; u; u = u->next) {
    bool own = msc_info(u->user)->flags & MSC_UPDATE || u->user == update->block->last;
    if (!own && !narrows(u->user)) return false;
    any |= !own;
  }
  return any && !msc_func_attr(update->block->func, MSC_FACT(micro));
}

/* The text of msc.zero for a parameter that the model keeps whole; NULL: the model does not. */
static const char *reason_of_model(const msc_func *f, size_t arg) {
  const msc_attr_value *v = msc_arg_attr(f, arg, MSC_FACT(msc_parallel_optimizer));
  if (v && v->kind == MSC_ATTR_BOOL && !v->b) return "whole: its parallel_optimizer is false";
  return msc_arg_attr(f, arg, MSC_FACT(msc_cache_rows)) ? "whole: the device has only cache_rows of its rows" : NULL;
}

static const char *reason_of_size(const msc_func *f, size_t arg, const shard_zero *z) {
  int64_t bytes = msc_type_bytes(f->body->args[arg]->type);
  if (bytes > z->threshold) return NULL;
  return msc_arena_printf(msc_context_arena(f->module->ctx),
                          "whole: %" PRId64 " bytes are not more than parallel_optimizer_threshold, %" PRId64 " KB",
                          bytes, z->threshold / 1024);
}

const char *shard_reason_to_stay_whole(const msc_func *f, size_t arg, const shard_zero *z) {
  const char *why = reason_of_model(f, arg);
  return why ? why : reason_of_size(f, arg, z);
}

int64_t shard_zero_ranks(const shard_zero *z, const msc_op *update, int operand, int64_t repeats) {
  const msc_value *w = update->in[0].value;
  int64_t ranks = z->most < 0 || z->most > repeats ? repeats : z->most;
  int64_t from = operand || is_read_narrowed(update) ? 1 : 3; /* the stage that cuts it */
  if (z->stage < from || w->def || reason_of_model(update->block->func, w->index) ||
      msc_type_bytes(w->type) <= z->threshold)
    return 1;
  while (repeats % ranks) ranks--;
  return ranks;
}

/* ---- the ranks that hold the same ---- */

/* Lists the digits by which the update of a parameter with this layout can be cut, and returns how many: those over
 * which the parameter is replicated, all of them or the set of most ranks that has at most z->o.most, minor digits
 * first. They stand in mesh order, those in `last` behind the others. */
static int list_spare_digits(const zero_pass *z, const msc_layout *l, uint32_t last, uint8_t *out_atom) {
  const msc_atoms *atoms = &z->g.atoms;
  uint8_t free_atom[MSC_MAX_SUBAXES];
  uint32_t used = shard_atom_set(atoms, l->first[l->rank], l->sub), best = 0;
  int num = 0, kept = 0;
  for (int a = 0; a < atoms->num; a++)
    if (!(used >> a & 1)) free_atom[num++] = (uint8_t)a;
  int64_t ranks = 1;
  for (uint32_t mask = 1u << num; mask-- > 1 && z->o.most >= 0;) {
    int64_t n = 1;
    for (int i = 0; i < num; i++)
      if (mask >> (num - 1 - i) & 1) n *= atoms->atom[free_atom[i]].size;
    if (n <= z->o.most && n >= ranks && n > 1) best = mask, ranks = n;
  }
  for (int i = 0; i < 2 * num; i++) {
    int at = i % num;
    bool is_last = last >> free_atom[at] & 1;
    if (is_last == (i >= num) && (z->o.most < 0 || best >> (num - 1 - at) & 1)) out_atom[kept++] = free_atom[at];
  }
  return kept;
}

/* ---- the dimension ---- */

/* The sizes of parts when each of `parts` parts is cut into `into`. */
static const int64_t *finer_split(const zero_pass *z, const int64_t *split, int64_t parts, int64_t into) {
  int64_t *size = msc_new_array(z->pass->scratch, int64_t, parts * into);
  for (int64_t i = 0; i < parts; i++) {
    int64_t n = split[i + 1] - split[i], c = n / into + (n % into != 0);
    for (int64_t k = 0; k < into; k++) {
      int64_t begin = k * c < n ? k * c : n, end = begin + c < n ? begin + c : n;
      size[i * into + k] = end - begin;
    }
  }
  return msc_split_of(z->g.ctx, (size_t)(parts * into), size);
}

/* The layout l with dimension d cut further, by minor digits. NULL: the parts would not lie within those of l. */
static const msc_layout *cut_further(const zero_pass *z, const msc_type *t, const msc_layout *l, int d, int num,
                                     const uint8_t *atom) {
  msc_layout raw = *l;
  int at = l->first[d + 1];
  int64_t parts = msc_layout_parts(l, d), into = shard_parts(&z->g.atoms, num, atom);
  memmove(&raw.sub[at + num], &l->sub[at], sizeof *l->sub * (size_t)(MSC_MAX_SUBAXES - at - num));
  for (int i = 0; i < num; i++) raw.sub[at + i] = z->g.atoms.atom[atom[i]];
  for (int e = d + 1; e <= l->rank; e++) raw.first[e] = (uint8_t)(raw.first[e] + num);
  if (l->split[d]) raw.split[d] = finer_split(z, l->split[d], parts, into);
  bool merges = at > l->first[d] && raw.sub[at - 1].axis == raw.sub[at].axis &&
                raw.sub[at - 1].pre * raw.sub[at - 1].size == raw.sub[at].pre;
  if (merges && !l->split[d] && t->dim[d] % (parts * into)) return NULL;
  return msc_layout_of(z->g.ctx, z->g.mesh, &raw);
}

/* The layout l with that dimension cut further, by these digits, whose largest part is then the smallest; of equals the
 * outermost. NULL: no dimension can be cut. */
static const msc_layout *best_cut(const zero_pass *z, const msc_type *t, const msc_layout *l, int num,
                                  const uint8_t *atom, int *out_dim) {
  const msc_layout *best = NULL;
  int64_t least = msc_local_bytes(msc_type_with_layout(z->g.ctx, t, l));
  for (int d = 0; d < t->rank; d++) {
    const msc_layout *cut = cut_further(z, t, l, d, num, atom);
    int64_t bytes = cut ? msc_local_bytes(msc_type_with_layout(z->g.ctx, t, cut)) : INT64_MAX;
    if (bytes < least) least = bytes, best = cut, *out_dim = d;
  }
  return best;
}

/* ---- one parameter ---- */

/* The digits over which the update's gradient is partial. If the cut has them as its minor digits, one collective
 * sums the gradient and leaves each rank just the part that it updates. */
static uint32_t summed_digits(const zero_pass *z, const msc_op *update) {
  const msc_op_info *info = msc_info(update);
  const msc_value *g = NULL;
  for (int i = 0; i < info->num_operands; i++)
    if (!strcmp(info->operand[i].name, "g")) g = update->in[i].value;
  while (g && g->def && z->is_optimizers[g->def->id] && g->def->num_in) g = g->def->in[0].value;
  const msc_layout *l = g ? g->type->layout : NULL;
  return l ? shard_atom_set(&z->g.atoms, l->num_partial, &l->sub[l->first[l->rank]]) : 0;
}

/* The layout of the parameter's update; NULL: it stays whole. *out_why says what was chosen, in the words of msc.zero.
 */
static const msc_layout *choose_cut(const zero_pass *z, const msc_op *update, const char **out_why) {
  const msc_value *w = update->in[0].value;
  uint32_t last = summed_digits(z, update);
  msc_arena *a = z->pass->scratch;
  const msc_layout *l = w->type->layout;
  uint8_t atom[MSC_MAX_SUBAXES];
  int64_t bytes = msc_local_bytes(w->type);
  int dim = 0;
  zero_pass unlimited = *z;
  unlimited.o.most = -1;
  if ((*out_why = reason_of_model(z->f, w->index))) return NULL;
  if (!list_spare_digits(&unlimited, l, 0, atom)) return *out_why = "whole: no two ranks hold the same part", NULL;
  if ((*out_why = reason_of_size(z->f, w->index, &z->o))) return NULL;
  int num = list_spare_digits(z, l, last, atom);
  if (!num)
    return *out_why = msc_arena_printf(
               a, "whole: no group of ranks is as small as optimizer_weight_shard_size, %" PRId64, z->o.most),
           NULL;
  const msc_layout *cut = best_cut(z, w->type, l, num, atom, &dim);
  if (!cut) return *out_why = "whole: no dimension can be cut further", NULL;
  int64_t part = msc_local_bytes(msc_type_with_layout(z->g.ctx, w->type, cut)),
          ranks = shard_parts(&z->g.atoms, num, atom);
  *out_why = msc_arena_printf(
      a, "%s in %s: dimension %d over %" PRId64 " ranks, %" PRId64 " of %" PRId64 " bytes%s",
      z->o.stage == 3 || is_read_narrowed(update) ? "parameter, update and state" : "update and state",
      layout_text(z, cut), dim, ranks, part, bytes, part * ranks == bytes ? "" : ", parts are not equal");
  return cut;
}

/* ---- ops of the optimizer ---- */

/* Gives the letter the digits, and the sizes of parts, that l has in dimension d. */
static void set_digits_of_letter(const zero_pass *z, const msc_rule *rule, const msc_layout *l, int d, int letter,
                                 msc_assignment *a) {
  a->num[letter] =
      (uint8_t)msc_atoms_in(&z->g.atoms, l->first[d + 1] - l->first[d], &l->sub[l->first[d]], a->atom[letter]);
  for (int t = 0; t < rule->num_tensors; t++)
    for (int e = 0; e < rule->tensor[t].rank; e++) {
      msc_dim_letters *dim = &rule->tensor[t].dim[e];
      if (dim->num == 1 && dim->letter[0] == letter)
        dim->split = l->split[d], dim->num_split = (uint32_t)msc_layout_parts(l, d);
    }
}

/* Lays out the op with one tensor in `l` and its others as its rule says. */
static void lay_out_op(zero_pass *z, msc_op *op, int tensor, const msc_layout *l) {
  msc_rule *rule = &z->g.op[op->id].rule;
  const msc_layout **want = msc_new_array(z->pass->scratch, const msc_layout *, op->num_in);
  msc_assignment a;
  memset(&a, 0, sizeof a);
  for (int d = 0; d < rule->tensor[tensor].rank; d++)
    if (rule->tensor[tensor].dim[d].num == 1)
      set_digits_of_letter(z, rule, l, d, rule->tensor[tensor].dim[d].letter[0], &a);
  for (int t = 0; t < op->num_in; t++) {
    want[t] = msc_rule_layout(z->g.ctx, z->g.mesh, &z->g.atoms, rule, &a, (size_t)t);
    if (op->in[t].value->type->rank) z->wanted[op->in[t].value->id] = want[t];
  }
  msc_op_put(op, msc_fact_in_layout(z->g.ctx, op->num_in, want));
  for (int i = 0; i < op->num_out; i++) {
    const msc_layout *made = msc_rule_layout(z->g.ctx, z->g.mesh, &z->g.atoms, rule, &a, (size_t)(op->num_in + i));
    op->out[i].type = msc_type_with_layout(z->g.ctx, op->out[i].type, made);
    if (op->out[i].type->rank) z->wanted[op->out[i].id] = made;
  }
  z->has_layout[op->id] = true;
}

/* Records the layouts in which an update that is not cut wants its operands. */
static void record_wanted_layouts(zero_pass *z, const msc_op *op) {
  for (size_t t = 0; msc_op_attr(op, MSC_FACT(in_layout)) && t < op->num_in; t++)
    if (op->in[t].value->type->rank) z->wanted[op->in[t].value->id] = msc_wanted_layout(op, t);
  z->has_layout[op->id] = true;
}

/* Can the op be laid out with one tensor in `l`? Not if l cuts a letter that is a minor one of a merged dimension of
 * another tensor: where fields and columns are one dimension, columns alone cannot be cut. */
static bool can_lay_out(const zero_pass *z, const msc_op *op, int tensor, const msc_layout *l) {
  const msc_rule *rule = &z->g.op[op->id].rule;
  for (int d = 0; d < rule->tensor[tensor].rank; d++) {
    const msc_dim_letters *own = &rule->tensor[tensor].dim[d];
    if (own->num != 1 || l->first[d + 1] == l->first[d]) continue;
    for (int t = 0; t < rule->num_tensors; t++)
      for (int e = 0; e < rule->tensor[t].rank; e++)
        for (int i = 1; i < rule->tensor[t].dim[e].num; i++)
          if (rule->tensor[t].dim[e].letter[i] == own->letter[0]) return false;
  }
  return true;
}

/* True for the rows of all micro-batches, which stay as they are: a rank keeps its own until the step ends, when one
 * collective brings those of all. */
static bool keeps_rows(const msc_op *op) { return op->kind == OP_accumulate && msc_op_bool(op, "rows"); }

/* Lays out the other ops of the optimizer, those between gradient and update and norms: as their results are wanted,
 * else as their operands are. */
static void lay_out_optimizer_ops(zero_pass *z) {
  for (size_t i = z->g.num_ops; i-- > 0;) {
    msc_op *op = z->g.op[i].op;
    const msc_layout *l = op->num_out == 1 && z->is_optimizers[i] ? z->wanted[op->out[0].id] : NULL;
    if (!l || z->has_layout[i] || keeps_rows(op) || !can_lay_out(z, op, op->num_in, l)) continue;
    lay_out_op(z, op, op->num_in, l);
  }
  for (size_t i = 0; i < z->g.num_ops; i++) {
    msc_op *op = z->g.op[i].op;
    for (int t = 0; t < op->num_in && z->is_optimizers[i] && !z->has_layout[i]; t++)
      if (z->wanted[op->in[t].value->id] && can_lay_out(z, op, t, z->wanted[op->in[t].value->id]))
        lay_out_op(z, op, t, z->wanted[op->in[t].value->id]);
  }
}

/* ---- arguments ---- */

static bool is_update(const msc_op *op) { return msc_info(op)->flags & MSC_UPDATE; }

static const msc_layout **choose_cuts(zero_pass *z) {
  msc_block *b = z->f->body;
  const msc_layout **cut = msc_new_array(z->pass->scratch, const msc_layout *, b->num_args);
  int64_t num = 0;
  for (msc_op *op = b->first; op; op = op->next) {
    const msc_value *w = is_update(op) ? op->in[0].value : NULL;
    const char *why = NULL;
    if (!w || w->def || !z->o.stage || msc_arg_attr(z->f, w->index, MSC_FACT(msc_zero))) continue;
    cut[w->index] = choose_cut(z, op, &why);
    num += cut[w->index] != NULL;
    msc_remark(z->pass, op, "%s: %s", w->name ? w->name : "", why);
    msc_arg_put(z->f, w->index, msc_fact_msc_zero(z->g.ctx, why));
  }
  if (z->o.stage) msc_stat(z->pass, "parameters cut", num);
  return cut;
}

static void move_argument(zero_pass *z, msc_value *v, const msc_layout *l) {
  v->type = msc_type_with_layout(z->g.ctx, v->type, l);
  z->moved[v->index] = l;
}

/* Gives new values the layouts of the arguments that they replace. */
static void move_results(zero_pass *z) {
  msc_op *ret = z->f->body->last;
  const msc_attr_value *ties = msc_func_attr(z->f, MSC_FACT(ties));
  const msc_layout **want = msc_new_array(z->pass->scratch, const msc_layout *, ret->num_in);
  for (size_t i = 0; i < ret->num_in; i++) {
    const msc_layout *l = ties->list.v[i].i >= 0 ? z->moved[ties->list.v[i].i] : NULL;
    want[i] = l ? l : msc_wanted_layout(ret, i);
  }
  msc_op_put(ret, msc_fact_in_layout(z->g.ctx, ret->num_in, want));
}

/* Keeps the parameter cut. Casts of it to fewer bytes are cut too, so that the narrow value is gathered. */
static void move_parameter(zero_pass *z, msc_value *w, const msc_layout *cut) {
  move_argument(z, w, cut);
  for (const msc_use *u = w->uses; u; u = u->next)
    if (narrows(u->user)) lay_out_op(z, u->user, 0, cut);
  if (z->o.stage == 3) msc_arg_put(z->f, w->index, msc_fact_msc_gathered(true));
}

/* Gives state the layout of its update; with stage 3 the parameter too. */
static void move_arguments(zero_pass *z, const msc_layout *const *cut) {
  for (msc_op *op = z->f->body->first; op; op = op->next) {
    const msc_value *w = is_update(op) ? op->in[0].value : NULL;
    if (!w || w->def || !cut[w->index]) continue;
    for (int t = 1; t < op->num_in && t < msc_info(op)->num_operands; t++)
      if (msc_info(op)->operand[t].tied >= 0 && !op->in[t].value->def) move_argument(z, op->in[t].value, cut[w->index]);
    if ((z->o.stage == 3 || is_read_narrowed(op)) && w->type->layout != cut[w->index])
      move_parameter(z, op->in[0].value, cut[w->index]);
  }
  move_results(z);
}

/* ---- the pass ---- */

/* Chooses the atoms by the layouts of all arguments and results; false after a report. */
static bool find_digits(zero_pass *z) {
  size_t num = 0, room = z->f->body->num_args;
  for (size_t i = 0; i < z->g.num_ops; i++) room += z->g.op[i].op->num_out;
  const msc_layout **layout = msc_new_array(z->pass->scratch, const msc_layout *, room);
  for (size_t i = 0; i < z->f->body->num_args; i++) layout[num++] = z->f->body->args[i]->type->layout;
  for (size_t i = 0; i < z->g.num_ops; i++)
    for (int k = 0; k < z->g.op[i].op->num_out; k++) layout[num++] = z->g.op[i].op->out[k].type->layout;
  if (msc_atoms_of(z->g.mesh, num, layout, &z->g.atoms)) return true;
  return msc_error(z->g.ctx, MSC_E_LAYOUT, z->f->loc,
                   "layouts cut a mesh axis at places that have no common refinement");
}

bool pass_zero(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = shard_func(m);
  zero_pass z = {.pass = pass, .f = f, .o = shard_zero_of(pass->config)};
  if (!f || !msc_func_attr(f, MSC_FACT(ties)) || !msc_op_attr(f->body->last, MSC_FACT(in_layout))) return true;
  MSC_TRY(shard_graph_of(pass, f, &z.g));
  MSC_TRY(find_digits(&z));
  z.wanted = msc_new_array(pass->scratch, const msc_layout *, z.g.num_values);
  z.moved = msc_new_array(pass->scratch, const msc_layout *, f->body->num_args);
  z.is_optimizers = shard_optimizer_ops(pass->scratch, f);
  z.has_layout = msc_new_array(pass->scratch, bool, z.g.num_ops);
  const msc_layout **cut = choose_cuts(&z);
  for (size_t i = 0; i < z.g.num_ops; i++) {
    msc_op *op = z.g.op[i].op;
    const msc_value *w = is_update(op) ? op->in[0].value : NULL;
    if (w && !w->def && cut[w->index]) lay_out_op(&z, op, 0, cut[w->index]);
    else if (w) record_wanted_layouts(&z, op);
  }
  lay_out_optimizer_ops(&z);
  move_arguments(&z, cut);
  return true;
}
