/* strategies: in_strategy, in_layout and the mode's default -> `sharding` of the ops they speak of; the mesh when none is given. */
#include <stdlib.h>
#include <string.h>

#include "passes/3_shard/shard.h"
#include "passes/3_shard/strategy_file.h"
#include "passes/config.h"

typedef struct {
  msc_pass_ctx *pass;
  shard_graph g;
  msc_atoms digits;  /* mesh digits that strategies are dealt from */
  int64_t devices;
  bool ok;
} annotating;

/* ---- tuples: parts per letter ---- */

static const char *tuple_text(msc_arena *a, const msc_rule *rule, const int64_t *parts) {
  const char *text = "";
  for (int t = 0; t < rule->num_in; t++) {
    text = msc_arena_printf(a, "%s%s[", text, t ? ", " : "");
    for (int d = 0; d < rule->tensor[t].rank; d++) {
      int64_t p = 1;
      for (int i = 0; i < rule->tensor[t].dim[d].num; i++) p *= parts[rule->tensor[t].dim[d].letter[i]];
      text = msc_arena_printf(a, "%s%s%" PRId64, text, d ? ", " : "", p);
    }
    text = msc_arena_printf(a, "%s]", text);
  }
  return msc_arena_printf(a, "[%s]", text);
}

/* Nearest legal numbers of parts for a size: divisors of both size and device count around p. */
static const char *nearest_parts(msc_arena *a, int64_t size, int64_t devices, int64_t p) {
  int64_t below = 1, above = 0;
  for (int64_t k = 1; k <= devices; k++) {
    if (devices % k || size % k) continue;
    if (k <= p) below = k;
    else if (!above) above = k;
  }
  return above ? msc_arena_printf(a, "%" PRId64 " or %" PRId64, below, above) : msc_arena_printf(a, "%" PRId64, below);
}

static const char *operand_text(const annotating *an, const msc_op *op, int t) {
  const msc_op_info *info = msc_info(op);
  const char *name = t < info->num_operands ? info->operand[t].name : "operand";
  return msc_arena_printf(an->g.arena, "operand %d (%s)", t, name);
}

/* Deals p parts of one dimension to its letters, major first. */
static bool deal_parts(annotating *an, const msc_op *op, const msc_rule *rule, int t, int d, int64_t p, int64_t *parts, int *from) {
  const msc_dim_letters *dim = &rule->tensor[t].dim[d];
  int64_t left = p;
  for (int i = 0; i < dim->num; i++) {
    int l = dim->letter[i];
    int64_t take = left < rule->letter[l].size ? left : rule->letter[l].size;
    if (parts[l] && parts[l] != take)
      return msc_op_error(op, MSC_E_STRATEGY, "in_strategy: %s gives dimension %d %" PRId64 " parts, but %s cuts the same letter '%c' into %" PRId64,
                          operand_text(an, op, t), d, take, operand_text(an, op, from[l]), rule->letter[l].name, parts[l]);
    if (!parts[l]) from[l] = t;
    parts[l] = take;
    if (take > 1 && (rule->letter[l].role == MSC_REP || rule->letter[l].size % take))
      return rule->letter[l].role == MSC_REP
                 ? msc_op_error(op, MSC_E_STRATEGY, "in_strategy: dimension %d of %s must stay whole in %s, not %" PRId64 " parts", d, operand_text(an, op, t), msc_kind_name(op->kind), take)
                 : msc_op_error(op, MSC_E_STRATEGY, "in_strategy: dimension %d of %s has %" PRId64 " elements, which %" PRId64 " parts do not divide; nearest legal: %s", d,
                                operand_text(an, op, t), rule->letter[l].size, take, nearest_parts(an->g.arena, rule->letter[l].size, an->devices, take));
    left /= take;
  }
  if (left > 1)
    return msc_op_error(op, MSC_E_STRATEGY, "in_strategy: dimension %d of %s cannot be cut into %" PRId64 " parts; it must stay whole in %s", d, operand_text(an, op, t), p, msc_kind_name(op->kind));
  return true;
}

static bool tuple_shape_ok(annotating *an, const msc_op *op, const msc_rule *rule, const msc_attr_value *v) {
  if (v->kind != MSC_ATTR_LIST || v->list.num != rule->num_in)
    return msc_op_error(op, MSC_E_STRATEGY, "in_strategy must have one entry for each of the %d operands of %s", rule->num_in, msc_kind_name(op->kind));
  for (int t = 0; t < rule->num_in; t++) {
    const msc_attr_value *dims = &v->list.v[t];
    if (dims->kind != MSC_ATTR_LIST || dims->list.num != rule->tensor[t].rank)
      return msc_op_error(op, MSC_E_STRATEGY, "in_strategy: %s has rank %d, its entry has %zu numbers", operand_text(an, op, t), rule->tensor[t].rank,
                          dims->kind == MSC_ATTR_LIST ? dims->list.num : 0);
    for (size_t d = 0; d < dims->list.num; d++)
      if (dims->list.v[d].kind != MSC_ATTR_INT || dims->list.v[d].i < 1)
        return msc_op_error(op, MSC_E_STRATEGY, "in_strategy: dimension %zu of %s: parts must be integers of at least 1", d, operand_text(an, op, t));
  }
  return true;
}

/* The same strategy with every letter cut as the first operand that has it says: what was probably meant. */
static void note_legal(annotating *an, const msc_op *op, const msc_rule *rule, const msc_attr_value *v) {
  int64_t parts[MSC_MAX_LETTERS] = {0};
  for (int t = 0; t < rule->num_in; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++)
      if (rule->tensor[t].dim[d].num == 1 && !parts[rule->tensor[t].dim[d].letter[0]]) {
        const msc_letter *l = &rule->letter[rule->tensor[t].dim[d].letter[0]];
        int64_t p = v->list.v[t].list.v[d].i;
        parts[rule->tensor[t].dim[d].letter[0]] = l->role != MSC_REP && l->size % p == 0 && an->devices % p == 0 ? p : 1;
      }
  int64_t product = 1;
  for (int l = 0; l < rule->num_letters; l++) {
    if (!parts[l] || an->devices % (product * parts[l])) parts[l] = 1;
    product *= parts[l];
  }
  msc_note(an->g.ctx, op->loc, "a legal strategy: %s", tuple_text(an->g.arena, rule, parts));
  if (msc_op_bool(op, "transpose_b"))
    msc_note(an->g.ctx, op->loc, "the second operand is stored transposed, [n, k]: its entry reads (n, k), and k must be cut as in the first operand");
}

static bool tuple_parts(annotating *an, const msc_op *op, const msc_rule *rule, const msc_attr_value *v, int64_t *parts) {
  int from[MSC_MAX_LETTERS] = {0};
  MSC_TRY(tuple_shape_ok(an, op, rule, v));
  for (int t = 0; t < rule->num_in; t++)
    for (int d = 0; d < rule->tensor[t].rank; d++)
      if (!deal_parts(an, op, rule, t, d, v->list.v[t].list.v[d].i, parts, from)) {
        note_legal(an, op, rule, v);
        return false;
      }
  int64_t product = 1;
  for (int l = 0; l < rule->num_letters; l++) {
    if (!parts[l]) parts[l] = 1;
    if (__builtin_mul_overflow(product, parts[l], &product)) product = INT64_MAX;
  }
  if (product <= an->devices && an->devices % product == 0) return true;
  msc_op_error(op, MSC_E_STRATEGY, "in_strategy uses %" PRId64 " devices, which must divide the %" PRId64 " there are", product, an->devices);
  note_legal(an, op, rule, v);
  return false;
}

/* ---- parts to digits ---- */

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

static void put_prime_digits(msc_atoms *digits, uint16_t axis, uint32_t *pre, int64_t n) {
  for (int64_t p = 2; n > 1; p++) {
    if (p * p > n) p = n;
    for (; n % p == 0; n /= p) {
      digits->atom[digits->num++] = (msc_subaxis){axis, *pre, (uint32_t)p};
      *pre *= (uint32_t)p;
    }
  }
}

/* Prime digits of every axis.  Without a user's mesh the one axis is cut as the first strategy deals its parts, the
 * device-matrix order, so that a lone op is placed as its author expects. */
static void choose_digits(annotating *an, const int64_t *first_parts, int num_parts) {
  const msc_mesh *mesh = an->g.mesh;
  for (int a = 0; a < mesh->num_axes; a++) {
    uint32_t pre = 1;
    int64_t left = mesh->axis[a].size;
    for (int l = 0; mesh->num_axes == 1 && l < num_parts; l++) {
      put_prime_digits(&an->digits, 0, &pre, first_parts[l]);
      left /= first_parts[l];
    }
    put_prime_digits(&an->digits, (uint16_t)a, &pre, left);
  }
}

static bool deal_digits(annotating *an, shard_group *group, const int64_t *parts) {
  uint32_t used = 0;
  msc_assignment *a = &group->digits;
  memset(a, 0, sizeof *a);
  for (int l = 0; l < group->rule.num_letters; l++)
    if (!take_digits(&an->digits, parts[l], 0, &used, a->atom[l], &a->num[l]))
      return msc_op_error(group->leader, MSC_E_STRATEGY, "in_strategy: no axes of the mesh {%s} give %" PRId64 " parts for letter '%c'", msc_mesh_print(an->g.arena, an->g.mesh),
                          parts[l], group->rule.letter[l].name);
  group->closed = (1u << group->rule.num_letters) - 1;
  group->by = "user";
  return true;
}

/* ---- layout form ---- */

static bool layout_digits(annotating *an, shard_group *group, const msc_layout *l, int tensor) {
  const msc_op *op = group->leader;
  const msc_tensor_letters *t = &group->rule.tensor[tensor];
  if (l->rank != t->rank || l->num_partial)
    return msc_op_error(op, MSC_E_STRATEGY, "in_layout of %s must cut %d dimensions and not be partial", operand_text(an, op, tensor), t->rank);
  for (int d = 0; d < l->rank; d++) {
    int num = l->first[d + 1] - l->first[d];
    if (t->dim[d].num != 1) {
      if (num) return msc_op_error(op, MSC_E_STRATEGY, "in_layout: dimension %d of %s must stay whole here", d, operand_text(an, op, tensor));
      continue;
    }
    int letter = t->dim[d].letter[0];
    msc_assignment *a = &group->digits;
    uint8_t atom[MSC_MAX_SUBAXES], count = 0;
    for (int i = l->first[d]; i < l->first[d + 1]; i++)
      for (uint32_t pre = l->sub[i].pre; pre < l->sub[i].pre * l->sub[i].size;)
        for (int k = 0; k < an->digits.num; k++)
          if (an->digits.atom[k].axis == l->sub[i].axis && an->digits.atom[k].pre == pre) {
            atom[count++] = (uint8_t)k;
            pre *= an->digits.atom[k].size;
            break;
          }
    if (group->closed >> letter & 1 && (a->num[letter] != count || memcmp(a->atom[letter], atom, count)))
      return msc_op_error(op, MSC_E_STRATEGY, "in_layout: %s cuts letter '%c' otherwise than an operand before it", operand_text(an, op, tensor), group->rule.letter[letter].name);
    a->num[letter] = count;
    memcpy(a->atom[letter], atom, count);
    group->closed |= 1u << letter;
  }
  return true;
}

static bool read_layouts(annotating *an, shard_group *group, const msc_attr_value *v) {
  const msc_op *op = group->leader;
  if (v->kind != MSC_ATTR_LIST || v->list.num != group->rule.num_in)
    return msc_op_error(op, MSC_E_STRATEGY, "in_layout must have one layout for each of the %d operands of %s", group->rule.num_in, msc_kind_name(op->kind));
  for (int t = 0; t < group->rule.num_in; t++) {
    const msc_layout *l = NULL;
    if (v->list.v[t].kind != MSC_ATTR_STR) return msc_op_error(op, MSC_E_STRATEGY, "in_layout: entry %d must be a layout text", t);
    if (!*v->list.v[t].s) continue; /* not given */
    MSC_TRY(msc_layout_parse(an->g.ctx, an->g.mesh, op->loc, v->list.v[t].s, &l));
    MSC_TRY(layout_digits(an, group, l, t));
  }
  group->by = msc_op_attr(op, "by") ? msc_op_str(op, "by") : "user"; /* recorded in a strategy file */
  if (shard_allows(&an->g, (int)(group - an->g.group), &group->digits)) return true;
  return msc_op_error(op, MSC_E_STRATEGY, "in_layout cuts a dimension that must stay whole, does not divide its size, or uses an axis twice");
}

/* ---- the mode's default: the batch letter ---- */

/* By value id: the dimension that carries the batch, or -1. */
static int8_t *batch_dims(annotating *an, int8_t *letter_of_group) {
  shard_graph *g = &an->g;
  int8_t *dim = msc_new_array(g->arena, int8_t, g->num_values);
  memset(dim, -1, g->num_values);
  memset(letter_of_group, -1, g->num_groups);
  for (size_t i = 0; i < g->func->body->num_args; i++) {
    if (msc_arg_role(g->func, i) > MSC_ROLE_MASK || g->func->body->args[i]->type->rank == 0) continue;
    const msc_attr_value *v = msc_arg_attr(g->func, i, "msc.batch_dim");
    int64_t d = v && v->kind == MSC_ATTR_INT ? v->i : 0;
    if (d >= 0 && d < g->func->body->args[i]->type->rank) dim[g->func->body->args[i]->id] = (int8_t)d;
  }
  for (size_t i = 0; i < g->num_ops; i++) {
    const shard_op *o = &g->op[i];
    if (o->group < 0 || g->group[o->group].leader != o->op) continue;
    int letter = -1;
    for (int t = 0; t < o->rule.num_in && letter < 0; t++) {
      int d = dim[o->op->in[t].value->id];
      if (d >= 0 && o->rule.tensor[t].dim[d].num) letter = o->rule.tensor[t].dim[d].letter[0];
    }
    letter_of_group[o->group] = (int8_t)letter;
    for (int t = 0; letter >= 0 && t < o->op->num_out; t++) {
      const msc_tensor_letters *out = &o->rule.tensor[o->rule.num_in + t];
      for (int d = 0; d < out->rank; d++)
        if (out->dim[d].num && out->dim[d].letter[0] == letter) dim[o->op->out[t].id] = (int8_t)d;
    }
  }
  return dim;
}

/* All digits on the batch letter where they divide its size, else as many as fit; the others whole. */
static void cut_batch(annotating *an, shard_group *group, int letter) {
  msc_assignment *a = &group->digits;
  for (int i = 0; letter >= 0 && i < an->digits.num; i++) {
    a->atom[letter][a->num[letter]++] = (uint8_t)i;
    if (!shard_allows(&an->g, (int)(group - an->g.group), a)) a->num[letter]--;
  }
  group->closed = (1u << group->rule.num_letters) - 1;
  group->by = "default";
}

static void apply_default(annotating *an) {
  int8_t *letter = msc_new_array(an->g.arena, int8_t, an->g.num_groups);
  batch_dims(an, letter);
  for (size_t i = 0; i < an->g.num_groups; i++) {
    shard_group *group = &an->g.group[i];
    if (!group->by) cut_batch(an, group, letter[i]);
  }
}

/* ---- the pass ---- */

static bool set_mesh(msc_pass_ctx *pass, msc_module *m) {
  int64_t devices = msc_config_int(pass->config, MSC_KEY_device_num);
  msc_config_mesh(pass->config, pass->ctx, &m->mesh);
  if (m->mesh.num_axes == 0) {
    m->mesh.num_axes = 1;
    m->mesh.axis[0] = (msc_axis){msc_intern(pass->ctx, "d"), devices};
  }
  if (msc_mesh_size(&m->mesh) == devices) return true;
  return msc_error(pass->ctx, MSC_E_CONFIG, NULL, "the mesh %s has %" PRId64 " devices, device_num is %" PRId64, msc_mesh_print(pass->scratch, &m->mesh), msc_mesh_size(&m->mesh), devices);
}

static bool read_strategies(annotating *an) {
  shard_graph *g = &an->g;
  int64_t(*parts)[MSC_MAX_LETTERS] = msc_arena_alloc(g->arena, g->num_groups * sizeof *parts);
  int first = -1;
  for (size_t i = 0; i < g->num_groups; i++) {
    const msc_attr_value *v = msc_op_attr(g->group[i].leader, "in_strategy");
    if (!v) continue;
    if (!tuple_parts(an, g->group[i].leader, &g->group[i].rule, v, parts[i])) {
      an->ok = false;
      memset(parts[i], 0, sizeof *parts);
    } else if (first < 0) {
      first = (int)i;
    }
  }
  choose_digits(an, first < 0 ? NULL : parts[first], first < 0 ? 0 : g->group[first].rule.num_letters);
  g->atoms = an->digits;
  for (size_t i = 0; i < g->num_groups; i++) {
    const msc_attr_value *layouts = msc_op_attr(g->group[i].leader, "in_layout");
    if (parts[i][0]) an->ok &= deal_digits(an, &g->group[i], parts[i]);
    else if (layouts && !msc_op_attr(g->group[i].leader, "in_strategy")) an->ok &= read_layouts(an, &g->group[i], layouts);
  }
  return an->ok;
}

/* `out_strategy` may only repeat what the rule yields; asking for the reduce-scatter form is another form of the op. */
static bool check_out_strategies(annotating *an) {
  for (size_t i = 0; i < an->g.num_groups; i++) {
    const shard_group *group = &an->g.group[i];
    const msc_attr_value *v = msc_op_attr(group->leader, "out_strategy");
    if (!v) continue;
    const msc_tensor_letters *out = &group->rule.tensor[group->rule.num_in];
    bool same = v->kind == MSC_ATTR_LIST && v->list.num == 1 && v->list.v[0].kind == MSC_ATTR_LIST && v->list.v[0].list.num == out->rank;
    for (int d = 0; same && d < out->rank; d++) {
      int l = out->dim[d].num ? out->dim[d].letter[0] : -1;
      same = v->list.v[0].list.v[d].i == (l < 0 ? 1 : shard_parts(&an->g.atoms, group->digits.num[l], group->digits.atom[l]));
    }
    if (!same) an->ok = msc_op_error(group->leader, MSC_E_UNSUPPORTED, "out_strategy other than what in_strategy yields is not supported yet");
  }
  return an->ok;
}

static void ignore_strategies(annotating *an, const char *mode) {
  for (size_t i = 0; i < an->g.num_groups; i++) {
    msc_op *op = an->g.group[i].leader;
    if (!msc_op_attr(op, "in_strategy") && !msc_op_attr(op, "in_layout") && !msc_op_attr(op, "out_strategy")) continue;
    msc_warning(an->g.ctx, MSC_E_STRATEGY, op->loc, "the strategy of %s is ignored: parallel_mode is %s", op->name ? op->name : msc_kind_name(op->kind), mode);
    msc_op_unset(op, "in_strategy");
    msc_op_unset(op, "in_layout");
    msc_op_unset(op, "out_strategy");
  }
}

/* Layouts of the inputs: `full_batch` and `dataset_strategy`; else an input is read as its first user wants it. */
static bool lay_input(annotating *an, size_t arg, size_t input) {
  msc_value *v = an->g.func->body->args[arg];
  msc_context *ctx = an->g.ctx;
  int64_t parts[MSC_MAX_RANK];
  int rank = msc_config_input_parts(an->pass->config, input, parts);
  if (rank < 0) return true;
  if (rank != v->type->rank) return msc_error(ctx, MSC_E_STRATEGY, an->g.func->loc, "dataset_strategy: input %s has rank %d, its entry has %d numbers", v->name ? v->name : "", v->type->rank, rank);
  msc_layout raw;
  uint32_t used = 0;
  uint8_t atom[MSC_MAX_SUBAXES], num = 0;
  memset(&raw, 0, sizeof raw);
  raw.rank = (uint8_t)rank;
  for (int d = 0; d < rank; d++) {
    if (parts[d] < 1 || v->type->dim[d] % parts[d] || !take_digits(&an->digits, parts[d], 0, &used, atom, &num))
      return msc_error(ctx, MSC_E_STRATEGY, an->g.func->loc, "dataset_strategy: dimension %d of input %s has %" PRId64 " elements, which cannot be cut into %" PRId64 " parts on %" PRId64 " devices; nearest legal: %s", d,
                       v->name ? v->name : "", v->type->dim[d], parts[d], an->devices, nearest_parts(an->g.arena, v->type->dim[d], an->devices, parts[d]));
    raw.first[d + 1] = num;
  }
  for (int i = 0; i < num; i++) raw.sub[i] = an->digits.atom[atom[i]];
  msc_arg_set(an->g.func, arg, "msc.layout", msc_str(ctx, msc_layout_print(an->g.arena, an->g.mesh, msc_layout_of(ctx, an->g.mesh, &raw))));
  return true;
}

static bool lay_inputs(annotating *an) {
  msc_func *f = an->g.func;
  msc_input_mode mode = msc_config_input_mode(an->pass->config);
  size_t input = 0;
  bool ok = true;
  for (size_t i = 0; i < f->body->num_args && mode != MSC_INPUT_DATA_PARALLEL; i++) {
    if (msc_arg_role(f, i) > MSC_ROLE_MASK) continue;
    msc_value *v = f->body->args[i];
    if (mode == MSC_INPUT_TUPLES) {
      ok &= lay_input(an, i, input++);
    } else {
      const msc_layout *whole = msc_layout_replicated(an->g.ctx, v->type->rank);
      msc_arg_set(f, i, "msc.layout", msc_str(an->g.ctx, msc_layout_print(an->g.arena, an->g.mesh, whole)));
      msc_arg_set(f, i, "msc.whole", msc_bool(true));
    }
  }
  return ok;
}

bool pass_strategies(msc_pass_ctx *pass, msc_module *m) {
  msc_func *f = shard_func(m);
  const char *mode = msc_config_text(pass->config, MSC_KEY_parallel_mode);
  annotating an = {.pass = pass, .ok = true, .devices = msc_config_int(pass->config, MSC_KEY_device_num)};
  if (!f) return true;
  MSC_TRY(set_mesh(pass, m));
  const char *file = msc_config_text(pass->config, MSC_KEY_strategy_ckpt_load_file);
  if (file) MSC_TRY(msc_strategy_load(f, file));
  MSC_TRY(shard_graph_of(pass, f, &an.g));
  if (strcmp(mode, "data_parallel") == 0 || strcmp(mode, "stand_alone") == 0) ignore_strategies(&an, mode);
  MSC_TRY(read_strategies(&an));
  MSC_TRY(check_out_strategies(&an));
  MSC_TRY(lay_inputs(&an));
  bool configured = false;
  for (size_t i = 0; i < an.g.num_groups; i++) configured |= an.g.group[i].by != NULL;
  if (strcmp(mode, "auto_parallel") != 0 || !configured) apply_default(&an);
  shard_graph_store(&an.g);
  for (size_t i = 0; i < an.g.num_groups; i++) {
    msc_op_unset(an.g.group[i].leader, "in_layout");
    msc_op_unset(an.g.group[i].leader, "out_strategy");
  }
  return true;
}
