/* split: func train whose micro-batches and stages are marked (`accumulate`, `stage`) -> one function per section; func
 * forward
 * -> one per stage.
 *
 * A section is what runs in one piece: per virtual stage F, what the loss depends on; W, what only one parameter's
 * gradient depends on; B, the rest of the backward; or FB, all of them, where nothing comes between; and per stage U,
 * what runs once per step.  Attributes: `program` train or forward, `section` the letters, `stage` and, of F, B, W,
 * `chunk`.
 *
 * What one section makes and another of the same stage takes becomes an argument of both, tied in the first: role
 * `carried`, with `msc.class` FB, FW or BW telling from where to where it lives; role `sum` for sums over
 * micro-batches, which the first one sets and the others add to, `msc.loss` the loss's.  What another stage takes is
 * sent and received, as soon as it is there and as late as can be.  Constants, views and what no input of the step
 * enters are made again in each section. */
#include <string.h>

#include "passes/6_pipeline/pipeline.h"
#include "passes/direction.h"
#include "passes/pass.h"

typedef struct {
  msc_section_kind kind;
  int stage, chunk;
} place;

/* What an old value is in one of the new functions. */
typedef struct local {
  const struct section *in;
  msc_value *value;
  struct local *next;
} local;

typedef struct tied {
  msc_value *value; /* of the new function */
  uint32_t arg;
  const char *name;
  struct tied *next;
} tied;

/* What one section makes for later ones of its stage, and an argument that is it. */
typedef struct carried_value {
  msc_value *made;
  const char *name;
  msc_slot_class class;
  struct carried_value *next;
} carried_value;

typedef struct carrier {
  msc_func *f;
  uint32_t arg;
  const carried_value *of;
  struct carrier *next;
} carrier;

typedef struct section {
  place at;
  msc_func *f;
  msc_value **arg;   /* by old argument number */
  tied *first, **end; /* results, in order */
  carried_value *carried;
  msc_value *is_first; /* "this is the first micro-batch", once a sum asked for it */
  int64_t loss;      /* its number among the results; -1: none */
  size_t num_results;
} section;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  const char *program;
  msc_pipeline_shape shape;
  int64_t count;      /* micro-batches */
  const msc_op *loss; /* the sum of it, or NULL */
  bool *per_micro;    /* by old value id: an input enters it */
  bool *per_step;     /* by old op id */
  bool *remade;       /* by old op id: made again where it is needed */
  msc_section_kind *kind; /* by old op id, of those that run per micro-batch */
  local **locals;     /* by old value id */
  section **sections; /* [virtual stage or stage][kind] */
  carrier *carriers;
  int64_t next_message, next_carried;
} splitting;

/* ---- where an op runs ---- */

static msc_section_kind joined(const splitting *s, msc_section_kind k) {
  if (s->shape.joined) return MSC_SECTION_F;
  return k == MSC_SECTION_W && !s->shape.splits_backward ? MSC_SECTION_B : k;
}

static place place_of(const splitting *s, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, "stage");
  place p = {.stage = v ? s->shape.place[v->i] : 0, .chunk = v ? msc_chunk_of(&s->shape, (int)v->i) : 0};
  /* a sum is whole in U */
  p.kind = s->per_step[op->id] || op->kind == OP_accumulate ? MSC_SECTION_U : joined(s, s->kind[op->id]);
  if (p.kind == MSC_SECTION_U) p.chunk = 0;
  return p;
}

static bool same_place(place a, place b) { return a.kind == b.kind && a.stage == b.stage && a.chunk == b.chunk; }

static bool is_remade(const splitting *s, const msc_op *op) { return s->remade[op->id]; }

/* ---- what depends on what ---- */

/* What sums over micro-batches or updates enter runs once per step. */
static void mark_steps(splitting *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    bool step = msc_info(op)->flags & (MSC_UPDATE | MSC_TERMINATOR);
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_op *def = op->in[i].value->def;
      step |= def && (def->kind == OP_accumulate || s->per_step[def->id]);
    }
    s->per_step[op->id] = step;
    for (size_t i = 0; i < op->num_out && step; i++) s->per_micro[op->out[i].id] = false;
  }
}

/* A number made of arguments alone, as those that tell random draws apart; what it is made of was looked
 * at before it. */
static bool is_scalar_of_arguments(const splitting *s, const msc_op *op) {
  if (op->num_out != 1 || op->out[0].type->rank) return false;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (v->type->rank || (v->def && !s->remade[v->def->id])) return false;
  }
  return true;
}

/* What costs nothing, or what no input of the micro-batch enters. */
static void mark_remade(splitting *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    bool view = op->kind == OP_constant || op->kind == OP_iota || op->kind == OP_reshape || op->kind == OP_flatten,
         varies = false;
    for (size_t i = 0; i < op->num_in; i++) varies |= s->per_micro[op->in[i].value->id];
    bool pure = msc_info(op)->flags & MSC_PURE && !s->per_step[op->id] && op->kind != OP_accumulate;
    s->remade[op->id] = view || (pure && (!varies || is_scalar_of_arguments(s, op)));
  }
}

static bool in_other_stage(const msc_op *a, const msc_op *b) {
  const msc_attr_value *x = msc_op_attr(a, "stage"), *y = msc_op_attr(b, "stage");
  return x && y && x->i != y->i;
}

/* Of the backward: what only one parameter's gradient depends on is W, the rest B. */
static void mark_kinds(splitting *s) {
  enum { NONE = -1, MANY = -2 };
  const bool *forward = msc_forward_ops(s->pass->scratch, s->f);
  int64_t *reach = msc_new_array(s->pass->scratch, int64_t, s->f->body->last->id + 1);
  for (msc_op *op = s->f->body->last; op; op = op->prev) {
    int64_t to = NONE;
    for (size_t i = 0; i < op->num_out; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next) {
        bool per_micro = !s->per_step[u->user->id] && u->user->kind != OP_accumulate;
        int64_t there = u->user->kind == OP_accumulate ? (int64_t)u->user->id : per_micro ? reach[u->user->id] : NONE;
        if (per_micro && in_other_stage(op, u->user)) there = MANY; /* that stage waits for it */
        if (there != NONE) to = to == NONE || to == there ? there : MANY;
      }
    reach[op->id] = to;
    s->kind[op->id] = forward[op->id] ? MSC_SECTION_F : to == MANY || to == NONE ? MSC_SECTION_B : MSC_SECTION_W;
  }
}

/* ---- the new functions ---- */

static section *section_at(splitting *s, place at) {
  int row = at.kind == MSC_SECTION_U ? at.stage : at.chunk * s->shape.stages + at.stage;
  section **slot = &s->sections[row * MSC_NUM_SECTIONS + (int)at.kind];
  if (*slot) return *slot;
  msc_arena *a = s->pass->scratch;
  section *n = msc_new(a, section);
  bool single = s->shape.stages == 1 && s->shape.chunks == 1;
  const char *letters = at.kind == MSC_SECTION_F && s->shape.joined ? "FB" : msc_section_names[at.kind];
  const char *name = single ? msc_arena_printf(a, "%s.%s", s->program, letters)
                     : s->shape.chunks == 1 || at.kind == MSC_SECTION_U
                         ? msc_arena_printf(a, "%s.%d.%s", s->program, at.stage, letters)
                         : msc_arena_printf(a, "%s.%d.%d.%s", s->program, at.stage, at.chunk, letters);
  *n = (section){.at = at, .f = msc_func_new(s->f->module, name), .loss = -1};
  n->end = &n->first;
  n->arg = msc_new_array(a, msc_value *, s->f->body->num_args);
  n->f->loc = s->f->loc;
  msc_func_set(n->f, "program", msc_str(s->pass->ctx, s->program));
  msc_func_set(n->f, "section", msc_str(s->pass->ctx, letters));
  msc_func_set(n->f, "stage", msc_int(at.stage));
  msc_func_set(n->f, "micro", msc_int(s->count));
  if (at.kind != MSC_SECTION_U) msc_func_set(n->f, "chunk", msc_int(at.chunk));
  if (msc_func_attr(s->f, "manual")) msc_func_set(n->f, "manual", msc_bool(true));
  return *slot = n;
}

static msc_value *new_arg(splitting *s, section *n, const msc_type *t, const char *name, msc_role role) {
  msc_value *v = msc_add_arg(n->f->body, t, name);
  msc_arg_set(n->f, v->index, "msc.name", msc_str(s->pass->ctx, name));
  msc_arg_set(n->f, v->index, "msc.role", msc_str(s->pass->ctx, msc_role_name(role)));
  return v;
}

static msc_value *own_arg(splitting *s, section *n, uint32_t i) {
  if (n->arg[i]) return n->arg[i];
  const msc_value *old = s->f->body->args[i];
  msc_value *v = msc_add_arg(n->f->body, old->type, old->name);
  for (size_t k = 0; k < s->f->arg[i].num_attrs; k++)
    msc_arg_set(n->f, v->index, s->f->arg[i].attrs[k].name, s->f->arg[i].attrs[k].value);
  return n->arg[i] = v;
}

static void give(splitting *s, section *n, msc_value *v, uint32_t arg, const char *name) {
  tied *t = msc_new(s->pass->scratch, tied);
  *t = (tied){v, arg, name, NULL};
  *n->end = t;
  n->end = &t->next;
  n->num_results++;
}

static void note_local(splitting *s, const msc_value *old, const section *n, msc_value *v) {
  local *l = msc_new(s->pass->scratch, local);
  *l = (local){n, v, s->locals[old->id]};
  s->locals[old->id] = l;
}

static msc_value *known(const splitting *s, const msc_value *old, const section *n) {
  for (const local *l = s->locals[old->id]; l; l = l->next)
    if (l->in == n) return l->value;
  return NULL;
}

/* ---- values from elsewhere ---- */

static msc_value *value_in(splitting *s, section *n, msc_value *old);

static msc_op *copy_op(splitting *s, section *n, const msc_op *op) {
  msc_value **in = msc_new_array(s->pass->scratch, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) in[i] = value_in(s, n, op->in[i].value);
  msc_op *copy = msc_op_copy(n->f, op, in);
  msc_op_unset(copy, "stage");
  msc_append(n->f->body, copy);
  for (size_t i = 0; i < op->num_out; i++) note_local(s, &op->out[i], n, &copy->out[i]);
  return copy;
}

static msc_slot_class class_of(msc_section_kind from, msc_section_kind to) {
  if (from != MSC_SECTION_F) return MSC_SLOT_BW;
  return to == MSC_SECTION_W ? MSC_SLOT_FW : MSC_SLOT_FB;
}

static msc_value *carried_arg(splitting *s, section *n, carried_value *c) {
  msc_value *v = new_arg(s, n, c->made->type, c->name, MSC_ROLE_CARRIED);
  carrier *r = msc_new(s->pass->scratch, carrier);
  *r = (carrier){n->f, v->index, c, s->carriers};
  s->carriers = r;
  return v;
}

/* An argument of both sections, which the first one sets. */
static msc_value *carried(splitting *s, section *from, section *to, msc_value *old) {
  msc_value *made = value_in(s, from, old);
  carried_value *c = from->carried;
  while (c && c->made != made) c = c->next;
  if (!c) {
    c = msc_new(s->pass->scratch, carried_value);
    *c = (carried_value){made, msc_arena_printf(s->pass->scratch, "%s.%" PRId64, s->program, s->next_carried++),
                         class_of(from->at.kind, to->at.kind), from->carried};
    from->carried = c;
    give(s, from, made, carried_arg(s, from, c)->index, c->name);
  }
  if (c->class != MSC_SLOT_FW) c->class = class_of(from->at.kind, to->at.kind); /* the longest life wins */
  return carried_arg(s, to, c);
}

/* Only now is it known how long each lives. */
static void write_classes(const splitting *s) {
  for (const carrier *r = s->carriers; r; r = r->next)
    msc_arg_set(r->f, r->arg, "msc.class", msc_str(s->pass->ctx, msc_slot_names[r->of->class]));
}

/* From another stage: what the forward makes is received by the forward, and so on, and carried from there. */
static msc_value *received(splitting *s, section *from, section *to, msc_value *old) {
  msc_value *made = value_in(s, from, old);
  msc_attr attrs[3] = {msc_named(s->pass->ctx, "message", msc_int(s->next_message++)),
                       msc_named(s->pass->ctx, "stage", msc_int(to->at.stage))};
  msc_builder sending = {.func = from->f,
                         .block = from->f->body,
                         .before = made->def ? made->def->next : from->f->body->first,
                         .loc = old->def->loc,
                         .name = old->def->name};
  msc_builder receiving = {.func = to->f, .block = to->f->body, .loc = old->def->loc, .name = old->def->name};
  if (!msc_build_with(&sending, OP_stage_send, 1, &made, 0, 2, attrs)) return NULL;
  attrs[1].value = msc_int(from->at.stage);
  attrs[2] = msc_named(s->pass->ctx, "type", msc_type_attr(made->type));
  msc_op *op = msc_build_with(&receiving, OP_stage_recv, 0, NULL, 1, 3, attrs);
  msc_stat(s->pass, "messages", 1);
  return op ? &op->out[0] : NULL;
}

static msc_value *from_elsewhere(splitting *s, section *n, msc_value *old) {
  place made = place_of(s, old->def), here = n->at;
  if (made.stage != here.stage || made.chunk != (here.kind == MSC_SECTION_U ? 0 : here.chunk)) {
    place enters = here;
    enters.kind = made.kind;
    if (enters.kind == MSC_SECTION_U) enters.chunk = 0;
    if (same_place(enters, here)) return received(s, section_at(s, made), n, old);
    made = enters;
  }
  return carried(s, section_at(s, made), n, old);
}

/* The sum over micro-batches, where the step uses it. */
static msc_value *sum_in(splitting *s, section *n, const msc_op *op) {
  const char *name = msc_arena_printf(s->pass->scratch, "%s.sum%u", s->program, op->id);
  msc_value *v = new_arg(s, n, op->out[0].type, name, MSC_ROLE_SUM);
  if (!msc_op_bool(op, "mean") || s->count == 1) return v;
  msc_builder b = {.func = n->f, .block = n->f->body, .loc = op->loc, .name = op->name};
  msc_value *factor = msc_build_scalar(&b, v->type->dtype, 1.0 / (double)s->count);
  if (factor)
    factor->type = msc_type_with_layout(s->pass->ctx, factor->type,
                                        v->type->layout ? msc_layout_replicated(s->pass->ctx, 0) : NULL);
  msc_value *mean = factor ? msc_build(&b, OP_mul, 2, (msc_value *[]){v, factor}) : NULL;
  if (mean) mean->def->out[0].type = v->type;
  return mean;
}

static msc_value *value_in(splitting *s, section *n, msc_value *old) {
  msc_value *v = known(s, old, n);
  if (v) return v;
  if (!old->def) return own_arg(s, n, old->index);
  if (is_remade(s, old->def)) return &copy_op(s, n, old->def)->out[old->index];
  if (same_place(place_of(s, old->def), n->at)) v = sum_in(s, n, old->def);
  else v = from_elsewhere(s, n, old);
  if (v) note_local(s, old, n, v);
  return v;
}

/* ---- sums ---- */

static msc_value *counter_in(splitting *s, section *n) {
  for (uint32_t i = 0; i < s->f->body->num_args; i++)
    if (msc_arg_role(s->f, i) == MSC_ROLE_MICRO) return own_arg(s, n, i);
  return NULL;
}

static msc_value *laid(splitting *s, msc_value *v, const msc_layout *l) {
  if (v) v->type = msc_type_with_layout(s->pass->ctx, v->type, l);
  return v;
}

static msc_value *is_first(splitting *s, section *n, msc_builder *b, bool has_layout) {
  if (n->is_first) return n->is_first;
  const msc_layout *whole = has_layout ? msc_layout_replicated(s->pass->ctx, 0) : NULL;
  msc_value *number = counter_in(s, n), *zero = laid(s, msc_build_scalar(b, number->type->dtype, 0), whole);
  msc_attr eq = msc_named(s->pass->ctx, "predicate", msc_str(s->pass->ctx, "eq"));
  msc_op *op = msc_build_with(b, OP_compare, 2, (msc_value *[]){number, zero}, 1, 1, &eq);
  return n->is_first = op ? laid(s, &op->out[0], whole) : NULL;
}

/* Where a value is added to its sum: where it is made, or, on a stage that has the sum of what another one makes, in
 * the last section of the micro-batch, which waits for no message that is not there. */
static msc_value *summand(splitting *s, const msc_op *op, section **out_section) {
  place made = place_of(s, op->in[0].value->def), sum = place_of(s, op);
  *out_section = section_at(s, made);
  if (made.stage == sum.stage) return value_in(s, *out_section, op->in[0].value);
  section *from = *out_section;
  *out_section = section_at(s, (place){joined(s, MSC_SECTION_W), sum.stage, 0});
  return received(s, from, *out_section, op->in[0].value);
}

/* The first micro-batch sets the sum, the others add to it. */
static bool add_to_sum(splitting *s, const msc_op *op) {
  section *n;
  const msc_type *t = op->out[0].type;
  const char *name = msc_arena_printf(s->pass->scratch, "%s.sum%u", s->program, op->id);
  msc_value *x = summand(s, op, &n), *sum = new_arg(s, n, t, name, MSC_ROLE_SUM), *after = x;
  msc_builder b = {.func = n->f, .block = n->f->body, .loc = op->loc, .name = op->name};
  if (s->count > 1) {
    msc_value *first = is_first(s, n, &b, t->layout != NULL);
    after = laid(s, msc_build(&b, OP_add, 2, (msc_value *[]){sum, x}), t->layout);
    after = laid(s, msc_build(&b, OP_select, 3, (msc_value *[]){first, x, after}), t->layout);
  }
  MSC_TRY(after);
  if (op == s->loss) msc_arg_set(n->f, sum->index, "msc.loss", msc_bool(true));
  give(s, n, after, sum->index, name);
  return true;
}

/* ---- results ---- */

/* The new value of an argument: in every section of the step whose stage has it. */
static bool give_new_value(splitting *s, msc_value *v, uint32_t arg, const char *name) {
  if (v->def && !is_remade(s, v->def) && !s->per_step[v->def->id]) { /* kept of each micro-batch */
    section *n = section_at(s, place_of(s, v->def));
    msc_value *made = value_in(s, n, v);
    give(s, n, made, own_arg(s, n, arg)->index, name);
    return true;
  }
  for (int i = 0; i < s->shape.stages; i++) {
    bool has = false;
    for (int k = 0; k < s->shape.chunks * s->shape.stages * MSC_NUM_SECTIONS && !has; k++)
      has = s->sections[k] && s->sections[k]->at.stage == i && s->sections[k]->arg[arg];
    if (!has) continue;
    section *n = section_at(s, (place){MSC_SECTION_U, i, 0});
    msc_value *made = value_in(s, n, v);
    MSC_TRY(made);
    give(s, n, made, own_arg(s, n, arg)->index, name);
  }
  return true;
}

static bool give_results(splitting *s) {
  const msc_op *ret = s->f->body->last;
  const msc_attr_value *ties = msc_func_attr(s->f, "ties"), *names = msc_func_attr(s->f, "results"),
                       *loss = msc_func_attr(s->f, "loss");
  for (size_t i = 0; i < ret->num_in; i++) {
    msc_value *v = ret->in[i].value;
    int64_t tie = ties && i < ties->list.num ? ties->list.v[i].i : -1;
    const char *name =
        names && i < names->list.num ? names->list.v[i].s : msc_arena_printf(s->pass->scratch, "result%zu", i);
    if (tie >= 0) {
      MSC_TRY(give_new_value(s, v, (uint32_t)tie, name));
      continue;
    }
    place at = v->def && !is_remade(s, v->def) ? place_of(s, v->def) : (place){0};
    bool is_loss = loss && (size_t)loss->i == i;
    /* rank 0 tells it, in its last section */
    if (is_loss) at = (place){.kind = at.kind, .chunk = at.kind == MSC_SECTION_U ? 0 : s->shape.chunks - 1};
    section *n = section_at(s, at);
    msc_value *made = value_in(s, n, v);
    MSC_TRY(made);
    if (is_loss) n->loss = (int64_t)n->num_results;
    give(s, n, made, UINT32_MAX, name);
  }
  return true;
}

/* What nobody reads belongs to the program all the same: a parameter is kept and saved, an input may be given. */
static void give_unread(splitting *s, int rows) {
  for (uint32_t i = 0; i < s->f->body->num_args; i++) {
    msc_role role = msc_arg_role(s->f, i);
    bool has = role == MSC_ROLE_MICRO || (role > MSC_ROLE_MASK && strcmp(s->program, "train") != 0);
    for (int k = 0; k < rows * MSC_NUM_SECTIONS && !has; k++) has = s->sections[k] && s->sections[k]->arg[i];
    if (!has) own_arg(s, section_at(s, (place){MSC_SECTION_F, 0, 0}), i);
  }
}

static void end_section(splitting *s, section *n) {
  msc_context *ctx = s->pass->ctx;
  msc_arena *a = s->pass->scratch;
  msc_value **result = msc_new_array(a, msc_value *, n->num_results + 1);
  msc_attr_value *ties = msc_new_array(a, msc_attr_value, n->num_results + 1),
                 *names = msc_new_array(a, msc_attr_value, n->num_results + 1);
  size_t num = 0;
  for (const tied *t = n->first; t; t = t->next, num++) {
    result[num] = t->value;
    ties[num] = msc_int(t->arg == UINT32_MAX ? -1 : (int64_t)t->arg);
    names[num] = msc_str(ctx, t->name);
  }
  msc_append(n->f->body, msc_op_new(n->f, OP_return, num, result, 0, n->f->loc));
  msc_func_set(n->f, "ties", msc_list(ctx, num, ties));
  msc_func_set(n->f, "results", msc_list(ctx, num, names));
  if (n->loss >= 0) msc_func_set(n->f, "loss", msc_int(n->loss));
}

/* ---- the pass ---- */

static bool split_func(msc_pass_ctx *pass, msc_func *f, const char *program, int64_t count, int64_t *message) {
  msc_numbering n = msc_number(f->body);
  splitting s = {.pass = pass,
                 .f = f,
                 .program = program,
                 .shape = msc_pipeline_shape_of(pass->config, pass->scratch),
                 .count = count,
                 .next_message = *message};
  size_t rows = (size_t)(s.shape.stages * s.shape.chunks);
  s.loss = msc_sum_of_loss(f);
  s.per_micro = msc_micro_values(pass->scratch, f);
  s.per_step = msc_new_array(pass->scratch, bool, n.num_ops);
  s.remade = msc_new_array(pass->scratch, bool, n.num_ops);
  s.kind = msc_new_array(pass->scratch, msc_section_kind, n.num_ops);
  s.locals = msc_new_array(pass->scratch, local *, n.num_values);
  s.sections = msc_new_array(pass->scratch, section *, rows * MSC_NUM_SECTIONS);
  mark_steps(&s);
  mark_remade(&s);
  if (!strcmp(program, "train")) mark_kinds(&s);
  for (msc_op *op = f->body->first; op->next; op = op->next) {
    if (is_remade(&s, op)) continue;
    if (op->kind == OP_accumulate) MSC_TRY(add_to_sum(&s, op));
    else if (!copy_op(&s, section_at(&s, place_of(&s, op)), op)) return false;
  }
  MSC_TRY(give_results(&s));
  give_unread(&s, (int)rows);
  write_classes(&s);
  for (size_t i = 0; i < rows * MSC_NUM_SECTIONS; i++)
    if (s.sections[i]) end_section(&s, s.sections[i]);
  *message = s.next_message;
  msc_func_remove(f);
  return true;
}

/* ---- the mesh of all stages ---- */

static const msc_type *on_all_stages(msc_context *ctx, const msc_mesh *mesh, const msc_type *t) {
  if (!t->layout) return t;
  msc_layout raw = *t->layout;
  for (int i = 0; i < raw.first[raw.rank] + raw.num_partial; i++) raw.sub[i].axis++;
  return msc_type_with_layout(ctx, t, msc_layout_of(ctx, mesh, &raw));
}

/* The stage becomes the mesh's first axis, along which nothing is cut. */
static bool add_stage_axis(msc_pass_ctx *pass, msc_module *m, int stages) {
  const char *name = "stage";
  for (int i = 0; i < m->mesh.num_axes; i++)
    if (!strcmp(m->mesh.axis[i].name, name)) name = msc_arena_printf(pass->scratch, "%s_", name);
  if (m->mesh.num_axes == MSC_MAX_AXES)
    return msc_error(pass->ctx, MSC_E_UNSUPPORTED, NULL, "a mesh of %d axes and pipeline stages: not supported yet",
                     MSC_MAX_AXES);
  memmove(&m->mesh.axis[1], &m->mesh.axis[0], sizeof *m->mesh.axis * (size_t)m->mesh.num_axes);
  m->mesh.num_axes++;
  m->mesh.axis[0] = (msc_axis){msc_intern(pass->ctx, name), stages};
  for (msc_func *f = m->first; f; f = f->next) {
    for (size_t i = 0; i < f->body->num_args; i++)
      f->body->args[i]->type = on_all_stages(pass->ctx, &m->mesh, f->body->args[i]->type);
    for (msc_op *op = f->body->first; op; op = op->next) {
      for (size_t i = 0; i < op->num_out; i++) op->out[i].type = on_all_stages(pass->ctx, &m->mesh, op->out[i].type);
      if (op->kind == OP_stage_recv) msc_op_set(op, "type", msc_type_attr(op->out[0].type));
    }
  }
  return true;
}

bool pass_split(msc_pass_ctx *pass, msc_module *m) {
  msc_func *train = msc_find_func(m, "train"), *forward = msc_find_func(m, "forward");
  const msc_attr_value *micro = train ? msc_func_attr(train, "micro") : NULL;
  msc_pipeline_shape shape = msc_pipeline_shape_of(pass->config, pass->scratch);
  int64_t message = 0;
  if (train ? !micro : shape.joined) return msc_not_asked_for(pass);
  pass->changes_meaning = true;
  if (train) MSC_TRY(split_func(pass, train, "train", micro->i, &message));
  if (shape.joined) return true;
  if (forward) MSC_TRY(split_func(pass, forward, "forward", 1, &message));
  return add_stage_axis(pass, m, shape.stages);
}
