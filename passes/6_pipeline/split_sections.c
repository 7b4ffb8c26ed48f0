/* split_sections: func train, whose micro-batches and stages are marked (by 4_partition/accumulate and stages) -> one
 * function per section; func forward -> one per virtual stage.
 *
 * A section is what runs in one piece. A virtual stage has F, on which the loss depends; W, on which only the gradient
 * of one parameter depends; and B, the rest of the backward; or FB, all of them, with one stage. A stage has U, which
 * runs once per step, and D, if its sections read early sums of data over micro-batches: D runs for all micro-batches
 * before the others, and computes what it needs itself. Attributes of a section: `program` (train or forward),
 * `section` (the letters), `stage` and, of F, B, W, `chunk`.
 *
 * A value that one section makes and another of the same stage reads becomes an argument of both, whose new value the
 * first one makes: with role `carried`, and `msc.class` FB, FW or BW for its lifetime; or with role `sum` for sums over
 * micro-batches, which the first micro-batch sets and the others add to (`msc.loss` marks that of the loss). A value
 * for another stage is sent as soon as it is made and received as late as possible. Constants, views, and values that
 * do not depend on the inputs of the step are computed again in each section. */
#include <string.h>

#include "ir/formula.h"
#include "passes/6_pipeline/pipeline.h"
#include "passes/direction.h"
#include "passes/pass.h"

typedef struct {
  msc_section_kind kind;
  int stage, chunk;
} place;

/* The value that stands for an old one in one of the new functions. */
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

/* A value that a section makes for later sections of its stage. */
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
  msc_value **arg;    /* by number of the old argument */
  tied *first, **end; /* results, in order */
  carried_value *carried;
  msc_value *is_first; /* the value "this is the first micro-batch", built for the first sum that needs it */
  int64_t loss;        /* index of the loss among the results; -1: none */
  size_t num_results;
} section;

typedef struct {
  msc_pass_ctx *pass;
  msc_func *f;
  msc_program_kind program;
  msc_pipeline_shape shape;
  int64_t count;          /* micro-batches */
  const msc_op *loss;     /* the op that sums the loss, or NULL */
  bool *per_micro;        /* by old value id: depends on an input of the micro-batch */
  bool *per_step;         /* by old op id */
  bool *remade;           /* by old op id: computed again in every section that reads it */
  bool *is_data;          /* by old op id: only early sums depend on it, which section D makes */
  msc_section_kind *kind; /* by old op id, for ops that run per micro-batch */
  local **locals;         /* by old value id */
  section **sections;     /* [virtual stage or stage][kind] */
  carrier *carriers;
  int64_t next_message, next_carried;
} section_splitter;

/* ---- where an op runs ---- */

static msc_section_kind section_kind_of(const section_splitter *s, msc_section_kind k) {
  if (s->shape.joined) return MSC_SECTION_F;
  return k == MSC_SECTION_W && !s->shape.splits_backward ? MSC_SECTION_B : k;
}

static place section_place_of(const section_splitter *s, const msc_op *op) {
  const msc_attr_value *v = msc_op_attr(op, MSC_FACT(stage));
  place p = {.stage = v ? s->shape.place[v->i] : 0, .chunk = v ? msc_chunk_of(&s->shape, (int)v->i) : 0};
  /* a sum is complete in U */
  p.kind = s->per_step[op->id] || op->kind == OP_accumulate ? MSC_SECTION_U : section_kind_of(s, s->kind[op->id]);
  if (p.kind == MSC_SECTION_U) p.chunk = 0;
  return p;
}

static bool is_same_section(place a, place b) { return a.kind == b.kind && a.stage == b.stage && a.chunk == b.chunk; }

static bool is_remade(const section_splitter *s, const msc_op *op) { return s->remade[op->id]; }

/* ---- what depends on what ---- */

/* Marks the ops that only early sums depend on. */
static void mark_data_ops(section_splitter *s) {
  for (const msc_op *op = s->f->body->last; op; op = op->prev) {
    bool any = false, all = !msc_is_early_sum(op);
    for (size_t i = 0; i < op->num_out; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next) {
        all &= msc_is_early_sum(u->user) || s->is_data[u->user->id];
        any = true;
      }
    s->is_data[op->id] = any && all;
  }
}

/* Marks the ops that depend on late sums over micro-batches or on updates: they run once per step. */
static void mark_per_step_ops(section_splitter *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    bool step = msc_info(op)->flags & (MSC_UPDATE | MSC_TERMINATOR);
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_op *def = op->in[i].value->def;
      step |= def && ((def->kind == OP_accumulate && !msc_is_early_sum(def)) || s->per_step[def->id]);
    }
    s->per_step[op->id] = step;
    for (size_t i = 0; i < op->num_out && step; i++) s->per_micro[op->out[i].id] = false;
  }
}

/* True if op makes a number from arguments only, as those that distinguish random draws. Its operands were visited
 * before it. */
static bool is_scalar_of_arguments(const section_splitter *s, const msc_op *op) {
  if (op->num_out != 1 || op->out[0].type->rank) return false;
  for (size_t i = 0; i < op->num_in; i++) {
    const msc_value *v = op->in[i].value;
    if (v->type->rank || (v->def && !s->remade[v->def->id])) return false;
  }
  return true;
}

/* Marks the ops that cost nothing or do not depend on the micro-batch: each section computes them itself. */
static void mark_remade_ops(section_splitter *s) {
  for (const msc_op *op = s->f->body->first; op; op = op->next) {
    bool view = msc_is_constant_op(op) || op->kind == OP_iota || msc_form_of(op) == MSC_FORM_RESHAPE, varies = false;
    for (size_t i = 0; i < op->num_in; i++) varies |= s->per_micro[op->in[i].value->id];
    bool pure = msc_info(op)->flags & MSC_PURE && !s->per_step[op->id] && op->kind != OP_accumulate;
    s->remade[op->id] = view || (pure && (!varies || is_scalar_of_arguments(s, op)));
  }
}

static bool in_other_stage(const msc_op *a, const msc_op *b) {
  const msc_attr_value *x = msc_op_attr(a, MSC_FACT(stage)), *y = msc_op_attr(b, MSC_FACT(stage));
  return x && y && x->i != y->i;
}

/* Sets the kinds of the ops: F for the forward; in the backward W for ops on which the gradient of only one
 * parameter depends, else B. */
static void mark_section_kinds(section_splitter *s) {
  enum { NONE = -1, MANY = -2 };
  const bool *forward = msc_forward_ops(s->pass->scratch, s->f);
  int64_t *reach = msc_new_array(s->pass->scratch, int64_t, s->f->body->last->id + 1);
  for (msc_op *op = s->f->body->last; op; op = op->prev) {
    int64_t to = NONE;
    for (size_t i = 0; i < op->num_out; i++)
      for (const msc_use *u = op->out[i].uses; u; u = u->next) {
        bool per_micro = !s->per_step[u->user->id] && u->user->kind != OP_accumulate;
        int64_t there = u->user->kind == OP_accumulate ? (int64_t)u->user->id : per_micro ? reach[u->user->id] : NONE;
        if (per_micro && in_other_stage(op, u->user)) there = MANY; /* the other stage waits for the value */
        if (there != NONE) to = to == NONE || to == there ? there : MANY;
      }
    reach[op->id] = to;
    s->kind[op->id] = forward[op->id] ? MSC_SECTION_F : to == MANY || to == NONE ? MSC_SECTION_B : MSC_SECTION_W;
  }
}

/* ---- the new functions ---- */

static section *find_or_make_section(section_splitter *s, place at) {
  int row = at.kind == MSC_SECTION_U ? at.stage : at.chunk * s->shape.stages + at.stage;
  section **slot = &s->sections[row * MSC_NUM_SECTIONS + (int)at.kind];
  if (*slot) return *slot;
  msc_arena *a = s->pass->scratch;
  section *n = msc_new(a, section);
  bool single = s->shape.stages == 1 && s->shape.chunks == 1;
  msc_section_kind kind = at.kind == MSC_SECTION_F && s->shape.joined ? MSC_SECTION_FB : at.kind;
  const char *letters = msc_section_kind_name(kind);
  const char *name = single ? msc_arena_printf(a, "%s.%s", s->f->name, letters)
                     : s->shape.chunks == 1 || at.kind == MSC_SECTION_U || at.kind == MSC_SECTION_D
                         ? msc_arena_printf(a, "%s.%d.%s", s->f->name, at.stage, letters)
                         : msc_arena_printf(a, "%s.%d.%d.%s", s->f->name, at.stage, at.chunk, letters);
  *n = (section){.at = at, .f = msc_func_new(s->f->module, name), .loss = -1};
  n->end = &n->first;
  n->arg = msc_new_array(a, msc_value *, s->f->body->num_args);
  n->f->loc = s->f->loc;
  msc_func_put(n->f, msc_fact_program(s->pass->ctx, s->program));
  msc_func_put(n->f, msc_fact_section(s->pass->ctx, kind));
  msc_func_put(n->f, msc_fact_stage(at.stage));
  msc_func_put(n->f, msc_fact_micro(s->count));
  if (at.kind != MSC_SECTION_U && at.kind != MSC_SECTION_D) msc_func_put(n->f, msc_fact_chunk(at.chunk));
  if (msc_func_attr(s->f, MSC_FACT(manual))) msc_func_put(n->f, msc_fact_manual(true));
  return *slot = n;
}

static msc_value *add_section_argument(section_splitter *s, section *n, const msc_type *t, const char *name,
                                       msc_role role) {
  msc_value *v = msc_add_arg(n->f->body, t, name);
  msc_arg_put(n->f, v->index, msc_fact_msc_name(s->pass->ctx, name));
  msc_arg_put(n->f, v->index, msc_fact_msc_role(s->pass->ctx, role));
  return v;
}

static msc_value *function_argument_in(section_splitter *s, section *n, uint32_t i) {
  if (n->arg[i]) return n->arg[i];
  const msc_value *old = s->f->body->args[i];
  msc_value *v = msc_add_arg(n->f->body, old->type, old->name);
  for (size_t k = 0; k < s->f->arg[i].num_attrs; k++)
    msc_arg_set(n->f, v->index, s->f->arg[i].attrs[k].name, s->f->arg[i].attrs[k].value);
  return n->arg[i] = v;
}

static void add_section_result(section_splitter *s, section *n, msc_value *v, uint32_t arg, const char *name) {
  tied *t = msc_new(s->pass->scratch, tied);
  *t = (tied){v, arg, name, NULL};
  *n->end = t;
  n->end = &t->next;
  n->num_results++;
}

static void record_local(section_splitter *s, const msc_value *old, const section *n, msc_value *v) {
  local *l = msc_new(s->pass->scratch, local);
  *l = (local){n, v, s->locals[old->id]};
  s->locals[old->id] = l;
}

static msc_value *find_local(const section_splitter *s, const msc_value *old, const section *n) {
  for (const local *l = s->locals[old->id]; l; l = l->next)
    if (l->in == n) return l->value;
  return NULL;
}

/* ---- values of other sections ---- */

static msc_value *value_in_section(section_splitter *s, section *n, msc_value *old);
static msc_value *use_early_sum(section_splitter *s, section *n, const msc_op *op);

static msc_op *copy_op_into(section_splitter *s, section *n, const msc_op *op) {
  msc_value **in = msc_new_array(s->pass->scratch, msc_value *, op->num_in);
  for (size_t i = 0; i < op->num_in; i++) in[i] = value_in_section(s, n, op->in[i].value);
  msc_op *copy = msc_op_copy(n->f, op, in);
  msc_op_unset(copy, MSC_FACT(stage));
  msc_append(n->f->body, copy);
  for (size_t i = 0; i < op->num_out; i++) record_local(s, &op->out[i], n, &copy->out[i]);
  return copy;
}

static msc_slot_class slot_class_between(msc_section_kind from, msc_section_kind to) {
  if (from != MSC_SECTION_F) return MSC_SLOT_BW;
  return to == MSC_SECTION_W ? MSC_SLOT_FW : MSC_SLOT_FB;
}

static msc_value *add_carried_argument(section_splitter *s, section *n, carried_value *c) {
  msc_value *v = add_section_argument(s, n, c->made->type, c->name, MSC_ROLE_CARRIED);
  carrier *r = msc_new(s->pass->scratch, carrier);
  *r = (carrier){n->f, v->index, c, s->carriers};
  s->carriers = r;
  return v;
}

/* Makes the value an argument of both sections; `from` sets it. */
static msc_value *carry_between_sections(section_splitter *s, section *from, section *to, msc_value *old) {
  msc_value *made = value_in_section(s, from, old);
  carried_value *c = from->carried;
  while (c && c->made != made) c = c->next;
  if (!c) {
    c = msc_new(s->pass->scratch, carried_value);
    *c = (carried_value){made, msc_arena_printf(s->pass->scratch, "%s.%" PRId64, s->f->name, s->next_carried++),
                         slot_class_between(from->at.kind, to->at.kind), from->carried};
    from->carried = c;
    add_section_result(s, from, made, add_carried_argument(s, from, c)->index, c->name);
  }
  /* a value read by several sections has the longest lifetime */
  if (c->class != MSC_SLOT_FW) c->class = slot_class_between(from->at.kind, to->at.kind);
  return add_carried_argument(s, to, c);
}

/* Writes the slot classes, once all readers of carried values are known. */
static void write_classes(const section_splitter *s) {
  for (const carrier *r = s->carriers; r; r = r->next)
    msc_arg_put(r->f, r->arg, msc_fact_msc_class(s->pass->ctx, r->of->class));
}

/* Sends a value from a section of one stage to a section of another: forward sends to forward, backward to backward;
 * other sections of that stage get it carried from there. */
static msc_value *receive_from_stage(section_splitter *s, section *from, section *to, msc_value *old) {
  msc_value *made = value_in_section(s, from, old);
  msc_attr attrs[3] = {msc_named(s->pass->ctx, "message", msc_int(s->next_message++)), msc_fact_stage(to->at.stage)};
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

static msc_value *bring_into_section(section_splitter *s, section *n, msc_value *old) {
  place made = section_place_of(s, old->def), here = n->at;
  if (made.stage != here.stage || made.chunk != (here.kind == MSC_SECTION_U ? 0 : here.chunk)) {
    place enters = here;
    enters.kind = made.kind;
    if (enters.kind == MSC_SECTION_U) enters.chunk = 0;
    if (is_same_section(enters, here)) return receive_from_stage(s, find_or_make_section(s, made), n, old);
    made = enters;
  }
  return carry_between_sections(s, find_or_make_section(s, made), n, old);
}

/* The sum over micro-batches as an argument of section n, divided by their number if it is a mean. */
static msc_value *use_sum(section_splitter *s, section *n, const msc_op *op) {
  const char *name = msc_arena_printf(s->pass->scratch, "%s.sum%u", s->f->name, op->id);
  msc_value *v = add_section_argument(s, n, op->out[0].type, name, MSC_ROLE_SUM);
  if (!msc_op_bool(op, "mean") || s->count == 1) return v;
  msc_builder b = {.func = n->f, .block = n->f->body, .loc = op->loc, .name = op->name};
  msc_value *factor = msc_build_scalar(&b, v->type->dtype, 1.0 / (double)s->count);
  if (factor)
    factor->type = msc_type_with_layout(s->pass->ctx, factor->type,
                                        v->type->layout ? msc_layout_replicated(s->pass->ctx, 0) : NULL);
  msc_value *mean = times(&b, v, factor);
  if (mean) mean->def->out[0].type = v->type;
  return mean;
}

static msc_value *value_in_section(section_splitter *s, section *n, msc_value *old) {
  msc_value *v = find_local(s, old, n);
  if (v) return v;
  if (!old->def) return function_argument_in(s, n, old->index);
  if (is_remade(s, old->def) || (n->at.kind == MSC_SECTION_D && !msc_is_early_sum(old->def)))
    return &copy_op_into(s, n, old->def)->out[old->index];
  if (msc_is_early_sum(old->def)) v = use_early_sum(s, n, old->def);
  else if (is_same_section(section_place_of(s, old->def), n->at)) v = use_sum(s, n, old->def);
  else v = bring_into_section(s, n, old);
  if (v) record_local(s, old, n, v);
  return v;
}

/* ---- sums ---- */

static msc_value *micro_argument_in(section_splitter *s, section *n) {
  for (uint32_t i = 0; i < s->f->body->num_args; i++)
    if (msc_arg_role(s->f, i) == MSC_ROLE_MICRO) return function_argument_in(s, n, i);
  return NULL;
}

static msc_value *set_layout_of(section_splitter *s, msc_value *v, const msc_layout *l) {
  if (v) v->type = msc_type_with_layout(s->pass->ctx, v->type, l);
  return v;
}

static msc_value *build_first_test(section_splitter *s, section *n, msc_builder *b, bool has_layout) {
  if (n->is_first) return n->is_first;
  const msc_layout *whole = has_layout ? msc_layout_replicated(s->pass->ctx, 0) : NULL;
  msc_value *number = micro_argument_in(s, n),
            *zero = set_layout_of(s, msc_build_scalar(b, number->type->dtype, 0), whole);
  return n->is_first = set_layout_of(s, compare(b, MSC_EQ, number, zero), whole);
}

/* The operand of an accumulate, in the section that adds it to its sum: the section that makes it, or, if the sum
 * belongs to another stage, the last section of that stage in the micro-batch, which never waits for a message that
 * is not there.  An argument is added in the forward of the sum's stage. */
static msc_value *find_summand(section_splitter *s, const msc_op *op, section **out_section) {
  const msc_op *def = op->in[0].value->def;
  place sum = section_place_of(s, op), forward = {section_kind_of(s, MSC_SECTION_F), sum.stage, 0},
        made = def ? section_place_of(s, def) : forward;
  *out_section = find_or_make_section(s, made);
  if (made.stage == sum.stage) return value_in_section(s, *out_section, op->in[0].value);
  section *from = *out_section;
  *out_section = find_or_make_section(s, (place){section_kind_of(s, MSC_SECTION_W), sum.stage, 0});
  return receive_from_stage(s, from, *out_section, op->in[0].value);
}

/* Puts the rows of a micro-batch where they belong among the rows of a step. */
static msc_value *put_rows(section_splitter *s, section *n, msc_builder *b, msc_value *all, msc_value *x) {
  msc_value *in[3] = {all, x, micro_argument_in(s, n)};
  return set_layout_of(s, msc_build(b, OP_put_rows, 3, in), all->type->layout);
}

/* Lets section n add x to its sum: the first micro-batch sets the sum, the others add to it.  Of rows the sum is a
 * list, into which each micro-batch puts its own. */
static bool add_in_section(section_splitter *s, section *n, const msc_op *op, msc_value *x) {
  const msc_type *t = op->out[0].type;
  const char *name = msc_arena_printf(s->pass->scratch, "%s.sum%u", s->f->name, op->id);
  msc_value *sum = add_section_argument(s, n, t, name, MSC_ROLE_SUM), *after = x;
  msc_builder b = {.func = n->f, .block = n->f->body, .loc = op->loc, .name = op->name};
  if (s->count > 1 && msc_op_bool(op, "rows")) {
    after = put_rows(s, n, &b, sum, x);
  } else if (s->count > 1) {
    msc_value *first = build_first_test(s, n, &b, t->layout != NULL);
    after = set_layout_of(s, plus(&b, sum, x), t->layout);
    after = set_layout_of(s, choose(&b, first, x, after), t->layout);
  }
  MSC_TRY(after);
  if (op == s->loss) msc_arg_put(n->f, sum->index, msc_fact_msc_loss(true));
  add_section_result(s, n, after, sum->index, name);
  record_local(s, &op->out[0], n, sum);
  return true;
}

static bool add_to_sum(section_splitter *s, const msc_op *op) {
  section *n;
  msc_value *x = find_summand(s, op, &n);
  return add_in_section(s, n, op, x);
}

/* An early sum as an argument of section n; section D of its stage makes it. */
static msc_value *use_early_sum(section_splitter *s, section *n, const msc_op *op) {
  section *data = find_or_make_section(s, (place){MSC_SECTION_D, n->at.stage, 0});
  if (!find_local(s, &op->out[0], data) && !add_in_section(s, data, op, value_in_section(s, data, op->in[0].value)))
    return NULL;
  return use_sum(s, n, op);
}

/* ---- results ---- */

static bool add_value_of_step(section_splitter *s, msc_value *v, int stage, uint32_t arg, const char *name) {
  section *n = find_or_make_section(s, (place){MSC_SECTION_U, stage, 0});
  msc_value *made = value_in_section(s, n, v);
  MSC_TRY(made);
  add_section_result(s, n, made, function_argument_in(s, n, arg)->index, name);
  return true;
}

/* Makes the new value of an argument a result of the U section of every stage that uses the argument or, if no stage
 * does, of the stage that computes the value. */
static bool add_new_argument_value(section_splitter *s, msc_value *v, uint32_t arg, const char *name) {
  if (v->def && !is_remade(s, v->def) && !s->per_step[v->def->id]) { /* a new value in every micro-batch */
    section *n = find_or_make_section(s, section_place_of(s, v->def));
    msc_value *made = value_in_section(s, n, v);
    add_section_result(s, n, made, function_argument_in(s, n, arg)->index, name);
    return true;
  }
  bool any = false;
  for (int i = 0; i < s->shape.stages; i++) {
    bool has = false;
    for (int k = 0; k < s->shape.chunks * s->shape.stages * MSC_NUM_SECTIONS && !has; k++)
      has = s->sections[k] && s->sections[k]->at.stage == i && s->sections[k]->arg[arg];
    if (has) MSC_TRY(add_value_of_step(s, v, i, arg, name));
    any |= has;
  }
  return any || add_value_of_step(s, v, v->def ? section_place_of(s, v->def).stage : 0, arg, name);
}

/* Finds, by old value id, what is computed from an argument that gets a new value once per step. */
static bool *mark_values_of_updated_arguments(const section_splitter *s, const msc_attr_value *ties) {
  const msc_op *ret = s->f->body->last;
  bool *mark = msc_new_array(s->pass->scratch, bool, msc_number(s->f->body).num_values);
  for (size_t i = 0; i < ties->list.num; i++) {
    const msc_op *def = ret->in[i].value->def;
    if (ties->list.v[i].i >= 0 && def && s->per_step[def->id])
      mark[s->f->body->args[ties->list.v[i].i]->id] = true;
  }
  for (const msc_op *op = s->f->body->first; op->next; op = op->next)
    for (size_t i = 0; i < op->num_in; i++)
      for (size_t o = 0; o < op->num_out; o++) mark[op->out[o].id] |= mark[op->in[i].value->id];
  return mark;
}

/* Builds new values that depend on updated arguments but not on the micro-batch, as power iterations on a parameter, in
 * each U section whose stage reads the argument they are for: before the updates, since they are of what a step begins
 * with. */
static bool build_new_values_before_updates(section_splitter *s) {
  const msc_op *ret = s->f->body->last;
  const msc_attr_value *ties = msc_func_attr(s->f, MSC_FACT(ties));
  if (!ties) return true;
  const bool *is_of_updated = mark_values_of_updated_arguments(s, ties);
  for (size_t i = 0; i < ties->list.num; i++) {
    msc_value *v = ret->in[i].value;
    if (ties->list.v[i].i < 0 || !v->def || !is_remade(s, v->def) || !is_of_updated[v->id]) continue;
    const msc_use *u = s->f->body->args[ties->list.v[i].i]->uses;
    do {
      place at = {MSC_SECTION_U, section_place_of(s, u ? u->user : v->def).stage, 0};
      MSC_TRY(value_in_section(s, find_or_make_section(s, at), v));
      u = u ? u->next : NULL;
    } while (u);
  }
  return true;
}

/* The section that has what a result is a view of. */
static place place_of_result(const section_splitter *s, const msc_value *v) {
  while (v->def && is_remade(s, v->def) && v->def->num_in) v = v->def->in[0].value;
  return v->def && !is_remade(s, v->def) ? section_place_of(s, v->def) : (place){0};
}

static bool add_results_of_function(section_splitter *s) {
  const msc_op *ret = s->f->body->last;
  const msc_attr_value *ties = msc_func_attr(s->f, MSC_FACT(ties)), *names = msc_func_attr(s->f, MSC_FACT(results)),
                       *loss = msc_func_attr(s->f, MSC_FACT(loss));
  for (size_t i = 0; i < ret->num_in; i++) {
    msc_value *v = ret->in[i].value;
    int64_t tie = ties && i < ties->list.num ? ties->list.v[i].i : -1;
    const char *name =
        names && i < names->list.num ? names->list.v[i].s : msc_arena_printf(s->pass->scratch, "result%zu", i);
    if (tie >= 0) {
      MSC_TRY(add_new_argument_value(s, v, (uint32_t)tie, name));
      continue;
    }
    place at = place_of_result(s, v);
    bool is_loss = loss && (size_t)loss->i == i;
    /* rank 0 reports the loss, in its last section */
    if (is_loss) at = (place){.kind = at.kind, .chunk = at.kind == MSC_SECTION_U ? 0 : s->shape.chunks - 1};
    section *n = find_or_make_section(s, at);
    msc_value *made = value_in_section(s, n, v);
    MSC_TRY(made);
    if (is_loss) n->loss = (int64_t)n->num_results;
    add_section_result(s, n, made, UINT32_MAX, name);
  }
  return true;
}

/* Gives arguments that no section reads to the first section: a parameter is still kept and saved, and an input may
 * be given. */
static void keep_unread_arguments(section_splitter *s, int rows) {
  for (uint32_t i = 0; i < s->f->body->num_args; i++) {
    msc_role role = msc_arg_role(s->f, i);
    bool has = role == MSC_ROLE_MICRO || (role > MSC_ROLE_MASK && s->program != MSC_PROGRAM_TRAIN);
    for (int k = 0; k < rows * MSC_NUM_SECTIONS && !has; k++) has = s->sections[k] && s->sections[k]->arg[i];
    if (!has) function_argument_in(s, find_or_make_section(s, (place){MSC_SECTION_F, 0, 0}), i);
  }
}

static void write_section_results(section_splitter *s, section *n) {
  msc_context *ctx = s->pass->ctx;
  msc_arena *a = s->pass->scratch;
  msc_value **result = msc_new_array(a, msc_value *, n->num_results + 1);
  int64_t *ties = msc_new_array(a, int64_t, n->num_results + 1);
  msc_attr_value *names = msc_new_array(a, msc_attr_value, n->num_results + 1);
  size_t num = 0;
  for (const tied *t = n->first; t; t = t->next, num++) {
    result[num] = t->value;
    ties[num] = t->arg == UINT32_MAX ? -1 : (int64_t)t->arg;
    names[num] = msc_str(ctx, t->name);
  }
  msc_append_return(n->f, num, result, n->f->loc);
  msc_func_put(n->f, msc_fact_ties(ctx, num, ties));
  msc_func_put(n->f, msc_fact_results(ctx, num, names));
  if (n->loss >= 0) msc_func_put(n->f, msc_fact_loss(n->loss));
}

/* ---- the pass ---- */

static bool split_func(msc_pass_ctx *pass, msc_func *f, msc_program_kind program, int64_t count, int64_t *message) {
  msc_numbering n = msc_number(f->body);
  section_splitter s = {.pass = pass,
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
  s.is_data = msc_new_array(pass->scratch, bool, n.num_ops);
  s.kind = msc_new_array(pass->scratch, msc_section_kind, n.num_ops);
  s.locals = msc_new_array(pass->scratch, local *, n.num_values);
  s.sections = msc_new_array(pass->scratch, section *, rows * MSC_NUM_SECTIONS);
  mark_data_ops(&s);
  mark_per_step_ops(&s);
  mark_remade_ops(&s);
  if (program == MSC_PROGRAM_TRAIN) mark_section_kinds(&s);
  MSC_TRY(build_new_values_before_updates(&s));
  for (msc_op *op = f->body->first; op->next; op = op->next) {
    if (is_remade(&s, op) || s.is_data[op->id] || msc_is_early_sum(op)) continue;
    if (op->kind == OP_accumulate) MSC_TRY(add_to_sum(&s, op));
    else if (!copy_op_into(&s, find_or_make_section(&s, section_place_of(&s, op)), op)) return false;
  }
  MSC_TRY(add_results_of_function(&s));
  keep_unread_arguments(&s, (int)rows);
  write_classes(&s);
  for (size_t i = 0; i < rows * MSC_NUM_SECTIONS; i++)
    if (s.sections[i]) write_section_results(&s, s.sections[i]);
  *message = s.next_message;
  msc_func_remove(f);
  return true;
}

/* ---- the mesh of all stages ---- */

/* Makes the stage the first axis of the mesh, along which nothing is cut. */
static bool add_stage_axis(msc_pass_ctx *pass, msc_module *m, int stages) {
  const char *name = MSC_FACT(stage);
  for (int i = 0; i < m->mesh.num_axes; i++)
    if (!strcmp(m->mesh.axis[i].name, name)) name = msc_arena_printf(pass->scratch, "%s_", name);
  if (m->mesh.num_axes == MSC_MAX_AXES)
    return msc_error(pass->ctx, MSC_E_UNSUPPORTED, NULL, "a mesh of %d axes and pipeline stages: not supported yet",
                     MSC_MAX_AXES);
  msc_mesh mesh = {.num_axes = m->mesh.num_axes + 1, .axis = {{msc_intern(pass->ctx, name), stages}}};
  memcpy(&mesh.axis[1], m->mesh.axis, sizeof *mesh.axis * (size_t)m->mesh.num_axes);
  return msc_change_mesh(m, &mesh);
}

bool pass_split_sections(msc_pass_ctx *pass, msc_module *m) {
  msc_func *train = msc_program_func(m, MSC_PROGRAM_TRAIN), *forward = msc_program_func(m, MSC_PROGRAM_FORWARD);
  const msc_attr_value *micro = train ? msc_func_attr(train, MSC_FACT(micro)) : NULL;
  msc_pipeline_shape shape = msc_pipeline_shape_of(pass->config, pass->scratch);
  int64_t message = 0;
  if (train ? !micro : shape.joined) return msc_not_asked_for(pass);
  pass->changes_meaning = true;
  if (train) MSC_TRY(split_func(pass, train, MSC_PROGRAM_TRAIN, micro->i, &message));
  if (shape.joined) return true;
  if (forward) MSC_TRY(split_func(pass, forward, MSC_PROGRAM_FORWARD, 1, &message));
  return add_stage_axis(pass, m, shape.stages);
}
