/* mutation_lowered.c: random training graphs, compiled to the end, with micro-batches and pipelines among them: the
 * result of the passes must be accepted. Then one number is changed (a place, the size of scratch, a message), and the
 * check must refuse it. If it accepts a changed place, an independent check, which marks every byte with the value that
 * lies there, must agree.
 *
 *   LOWERED=1000 build/tests/passes/mutation_lowered        that many programs
 *   LOWERED_SEED=17 build/tests/passes/mutation_lowered     one of them, with its text and what was not refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "passes/6_pipeline/pipeline.h"
#include "passes/7_lower/nest/nest.h"
#include "passes/8_memory/peak.h"
#include "passes/8_memory/offsets/offsets.h"
#include "passes/check.h"
#include "passes/config/config.h"
#include "passes/pass.h"
#include "tests/passes/random_results.h"

enum { QUICK_PROGRAMS = 60, SLOW_PROGRAMS = 1500, MAX_SCRATCH = 1 << 20 };

/* Tried every time: 2523 removes a sum from in front of a segment_sum, of which only some operands have a whole. */
static const uint64_t once_accepted[] = {2523};

typedef struct {
  int programs, bugs, mutants, accepted, wrong, needless, comms, kept_comms;
} tally;

static bool is_refused(msc_module *m) {
  msc_clear_diags(m->ctx);
  bool refused = !msc_check_module(m);
  msc_clear_diags(m->ctx);
  return refused;
}

/* ---- places, byte by byte ---- */

/* Who has each byte: 1 + id of the value, views being what they are views of; spaces: scratch, then arguments. */
typedef struct {
  msc_arena *arena;
  const msc_func *f;
  msc_nester *nester;
  uint32_t **byte;
  int64_t *size;
  uint32_t *of; /* by value id */
  bool wrong, unsure; /* unsure: an op that works in place, where only its kernel knows */
} marking;

static bool has_place(const msc_value *v) {
  return !v->def || (v->def->kind != OP_constant && !msc_runs_in_tiles(v->def));
}

static bool is_view(const msc_op *op) { return op->kind == OP_reshape || op->kind == OP_flatten; }

static void find_place(const msc_value *v, size_t *out_space, int64_t *out_at) {
  int64_t place = v->def ? msc_op_attr(v->def, "place")->list.v[v->index].i : -1 - (int64_t)v->index;
  *out_space = place < 0 ? (size_t)-place : 0;
  *out_at = place < 0 ? 0 : place;
}

static bool is_inside(const marking *k, size_t space, int64_t at, int64_t bytes) {
  return space <= k->f->body->num_args && at >= 0 && at + bytes <= k->size[space];
}

static void mark(marking *k, const msc_value *v) {
  size_t space;
  int64_t at, bytes = msc_type_bytes(v->type);
  find_place(v, &space, &at);
  k->of[v->id] = v->id + 1;
  if (!is_inside(k, space, at, bytes)) k->wrong = true;
  for (int64_t i = 0; !k->wrong && i < bytes; i++) k->byte[space][at + i] = v->id + 1;
}

static bool is_there(const marking *k, const msc_value *v) {
  size_t space;
  int64_t at, bytes = msc_type_bytes(v->type);
  if (!has_place(v) || !k->of[v->id]) return true; /* a view of a constant */
  find_place(v, &space, &at);
  bool there = is_inside(k, space, at, bytes);
  for (int64_t i = 0; there && i < bytes; i++) there = k->byte[space][at + i] == k->of[v->id];
  return there;
}

static void look(marking *k, const msc_value *v) { k->wrong |= !is_there(k, v); }

static bool meet(const msc_value *a, const msc_value *b, bool *out_same) {
  size_t space[2];
  int64_t at[2], bytes[2] = {msc_type_bytes(a->type), msc_type_bytes(b->type)};
  find_place(a, &space[0], &at[0]);
  find_place(b, &space[1], &at[1]);
  *out_same = at[0] == at[1] && bytes[0] == bytes[1];
  return space[0] == space[1] && at[0] < at[1] + bytes[1] && at[1] < at[0] + bytes[0];
}

/* Results over operands: right at most where they cover them. */
static void look_beside(marking *k, const msc_op *op) {
  for (size_t o = 0; o < op->num_out; o++)
    for (size_t i = 0; i < op->num_in; i++) {
      const msc_value *x = op->in[i].value;
      bool same;
      if (!has_place(x) || !k->of[x->id] || !has_place(&op->out[o]) || !meet(x, &op->out[o], &same)) continue;
      if (same) k->unsure = true;
      else k->wrong = true;
    }
}

static void run_op(marking *k, const msc_op *op) {
  for (size_t i = 0; i < op->num_in; i++) look(k, op->in[i].value);
  if (is_view(op)) {
    size_t space, other;
    int64_t at, its;
    k->of[op->out[0].id] = k->of[op->in[0].value->id];
    if (!k->of[op->out[0].id]) return;
    find_place(&op->out[0], &space, &at);
    find_place(op->in[0].value, &other, &its);
    k->wrong |= space != other || at != its;
    return;
  }
  look_beside(k, op);
  const msc_attr_value *work = msc_op_attr(op, "work");
  int64_t bytes = work ? (int64_t)msc_scratch_bytes(k->nester, op) : 0;
  if (!is_inside(k, 0, work ? work->i : 0, bytes)) k->wrong = true;
  for (int64_t i = 0; !k->wrong && i < bytes; i++) k->byte[0][work->i + i] = UINT32_MAX - op->id;
  for (size_t i = 0; i < op->num_in; i++) look(k, op->in[i].value);
  for (size_t o = 0; o < op->num_out; o++)
    if (has_place(&op->out[o])) mark(k, &op->out[o]);
  for (size_t o = 0; o < op->num_out; o++)
    if (has_place(&op->out[o])) look(k, &op->out[o]); /* no two over each other */
  for (int64_t i = 0; !k->wrong && i < bytes; i++) k->wrong = k->byte[0][work->i + i] != UINT32_MAX - op->id;
}

/* What still reads when this op writes: a tiled product, or a collective beside it.  Collectives themselves run one
 * after the other: what the next one wrote over is no longer read. */
static void look_at_readers(marking *k, const msc_op *now, const uint32_t *end) {
  bool same;
  for (const msc_op *op = now->prev; op; op = op->prev)
    for (size_t i = 0; end[op->id] >= now->id && (op->kind != OP_comm || now->kind != OP_comm) && i < op->num_in; i++)
      for (size_t o = 0; o < now->num_out; o++)
        if (has_place(op->in[i].value) && has_place(&now->out[o]) && k->of[op->in[i].value->id] &&
            is_there(k, op->in[i].value))
          k->wrong |= meet(op->in[i].value, &now->out[o], &same);
}

static void run_return(marking *k, const msc_op *ret) {
  const msc_attr_value *ties = msc_func_attr(k->f, "ties");
  for (size_t i = 0; i < ret->num_in; i++) look(k, ret->in[i].value);
  for (size_t i = 0; ties && i < ties->list.num && i < ret->num_in; i++) {
    size_t space;
    int64_t at;
    if (ties->list.v[i].i < 0 || !has_place(ret->in[i].value) || !k->of[ret->in[i].value->id]) continue;
    find_place(ret->in[i].value, &space, &at);
    if (space != (size_t)ties->list.v[i].i + 1) k->unsure = true; /* copied there at the end */
  }
}

typedef enum { WRONG, UNSURE, RIGHT } verdict;

static verdict verdict_of(msc_arena *arena, msc_func *f) {
  msc_numbering n = msc_number(f->body);
  marking k = {.arena = arena, .f = f, .nester = msc_nester_new(f->module->ctx, arena, msc_target_of(f->module))};
  const uint32_t *end = msc_ends_of_reads(arena, f);
  k.byte = msc_new_array(arena, uint32_t *, f->body->num_args + 1);
  k.size = msc_new_array(arena, int64_t, f->body->num_args + 1);
  k.of = msc_new_array(arena, uint32_t, n.num_values);
  k.size[0] = msc_func_attr(f, "scratch")->i;
  for (size_t i = 0; i < f->body->num_args; i++) k.size[i + 1] = msc_type_bytes(f->body->args[i]->type);
  for (size_t i = 0; i <= f->body->num_args; i++) k.byte[i] = msc_new_array(arena, uint32_t, k.size[i] + 1);
  for (size_t i = 0; i < f->body->num_args; i++) mark(&k, f->body->args[i]);
  for (const msc_op *op = f->body->first; op->next && !k.wrong; op = op->next) {
    if (!is_view(op)) look_at_readers(&k, op, end);
    run_op(&k, op);
  }
  if (!k.wrong) run_return(&k, f->body->last);
  return k.wrong ? WRONG : k.unsure ? UNSURE : RIGHT;
}

/* ---- mutants of places ---- */

static void judge(tally *t, msc_func *f, const msc_op *op, const char *what, int64_t from, int64_t to) {
  msc_arena *arena = msc_arena_new(f->module->ctx);
  bool accepted = !is_refused(f->module);
  verdict v = verdict_of(arena, f);
  t->mutants++;
  t->accepted += accepted;
  if (accepted && v == WRONG) t->wrong++;
  if (!accepted && v == RIGHT) t->needless++;
  if (accepted ? v == WRONG : v == RIGHT)
    print_message("%s: %s of %s, %" PRId64 " instead of %" PRId64 ", is %srefused\n", f->name, what,
                  msc_kind_name(op->kind), to, from, accepted ? "not " : "");
  msc_arena_free(arena);
}

/* A multiple of the alignment: what is there, a little beside, anywhere, an argument. */
static int64_t other_place(random_graph *g, const msc_func *f, int64_t old) {
  int64_t scratch = msc_func_attr(f, "scratch")->i, lines = scratch / MSC_ALIGN + 2;
  switch (below(g, 4)) {
    case 0: return old < 0 ? 0 : old + MSC_ALIGN;
    case 1: return old >= MSC_ALIGN ? old - MSC_ALIGN : 0;
    case 2: return -1 - below(g, (int)f->body->num_args + 1);
    default: return MSC_ALIGN * (int64_t)(random_bits(g) % (uint64_t)lines);
  }
}

static void move_results(tally *t, random_graph *g, msc_op *op) {
  const msc_attr_value old = *msc_op_attr(op, "place");
  for (size_t i = 0; i < op->num_out; i++) {
    int64_t *place = msc_new_array(g->arena, int64_t, op->num_out);
    if (!has_place(&op->out[i])) continue;
    for (size_t k = 0; k < op->num_out; k++) place[k] = old.list.v[k].i;
    place[i] = other_place(g, op->block->func, place[i]);
    if (place[i] == old.list.v[i].i) continue;
    msc_op_set(op, "place", msc_ints(g->ctx, op->num_out, place));
    judge(t, op->block->func, op, "the place", old.list.v[i].i, place[i]);
  }
  msc_op_set(op, "place", old);
}

static void shrink(tally *t, msc_func *f) {
  int64_t scratch = msc_func_attr(f, "scratch")->i;
  if (scratch < MSC_ALIGN) return;
  msc_func_set(f, "scratch", msc_int(scratch - MSC_ALIGN));
  judge(t, f, f->body->last, "scratch", scratch, scratch - MSC_ALIGN);
  msc_func_set(f, "scratch", msc_int(scratch));
}

/* ---- mutants of collectives ---- */

/* A changed module; `undo` makes it as it was.  What is accepted gives the same numbers. */
typedef void undo_fn(void *change);

static void judge_numbers(tally *t, random_graph *g, msc_op *op, const char *what, undo_fn *undo, void *change) {
  msc_func *f = op->block->func;
  bool accepted = !is_refused(f->module);
  msc_arena *a = msc_arena_new(g->ctx);
  const msc_tensor *mutated = accepted ? random_results(g, a, f) : NULL;
  undo(change);
  t->comms++;
  if (accepted) t->kept_comms++;
  const msc_tensor *right = accepted ? random_results(g, a, f) : NULL; /* what gets messages does not run by itself */
  if (right && !random_same_results(g, f, right, mutated)) {
    t->wrong++;
    print_message("%s: %s of %s, %s, is not refused\n", f->name, what,
                  msc_op_attr(op, "verb") ? msc_op_str(op, "verb") : msc_kind_name(op->kind), op->name ? op->name : "");
  }
  msc_clear_diags(g->ctx);
  msc_arena_free(a);
}

enum { MAX_USES = 64 };

typedef struct {
  msc_value *value;
  size_t num;
  struct {
    msc_op *user;
    size_t operand;
  } use[MAX_USES];
} redirection;

static void put_back(void *change) {
  const redirection *r = change;
  for (size_t i = 0; i < r->num; i++) msc_set_operand(r->use[i].user, r->use[i].operand, r->value);
}

/* All who read result i read operand i instead. */
static void without_comm(tally *t, random_graph *g, msc_op *op, size_t i) {
  redirection r = {.value = &op->out[i]};
  if (op->out[i].type != op->in[i].value->type || !msc_has_uses(&op->out[i])) return;
  for (const msc_use *u = op->out[i].uses; u; u = u->next, r.num++) {
    if (r.num == MAX_USES) return;
    r.use[r.num].user = u->user, r.use[r.num].operand = (size_t)(u - u->user->in);
  }
  for (size_t k = 0; k < r.num; k++) msc_set_operand(r.use[k].user, r.use[k].operand, op->in[i].value);
  judge_numbers(t, g, op, "removal", put_back, &r);
}

typedef struct {
  msc_op *op;
  size_t num;
  msc_attr *attrs;
} attributes;

static void put_attributes(void *change) {
  attributes *c = change;
  c->op->attrs = c->attrs, c->op->num_attrs = c->num;
}

static attributes attributes_of(random_graph *g, msc_op *op) {
  attributes c = {op, op->num_attrs, op->attrs};
  op->attrs = msc_arena_copy(g->arena, op->attrs, op->num_attrs * sizeof *op->attrs);
  return c;
}

static void set_text(random_graph *g, msc_op *op, const char *name, const char *text) {
  msc_op_set(op, name, msc_str(g->ctx, text));
}

/* Of the first value. */
static const msc_layout *layout_of(const msc_op *op, const char *name) {
  return msc_attr_layout(&msc_op_attr(op, name)->list.v[0]);
}

static void change_comm(tally *t, random_graph *g, msc_op *op) {
  static const char *const verbs[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                      "permute",    "exchange",   "shard"};
  attributes c = attributes_of(g, op);
  if (layout_of(op, "from")->num_partial) { /* elsewhere nothing is reduced */
    set_text(g, op, "reduction", strcmp(msc_op_str(op, "reduction"), "max") ? "max" : "sum");
    judge_numbers(t, g, op, "another reduction", put_attributes, &c);
    c = attributes_of(g, op);
  }
  msc_op_set(op, "from", *msc_op_attr(op, "to"));
  judge_numbers(t, g, op, "from what it makes", put_attributes, &c);
  c = attributes_of(g, op);
  msc_op_set(op, "to", *msc_op_attr(op, "from"));
  judge_numbers(t, g, op, "to what it has", put_attributes, &c);
  c = attributes_of(g, op);
  set_text(g, op, "verb", verbs[below(g, sizeof verbs / sizeof *verbs)]);
  judge_numbers(t, g, op, "another verb", put_attributes, &c);
}

/* Another collective of the function says what it changes into what. */
static void exchange_layouts(tally *t, random_graph *g, msc_op *op) {
  for (msc_op *other = op->block->first; other; other = other->next) {
    if (other->kind != OP_comm || !msc_op_attr(other, "from") ||
        msc_attr_equal(msc_op_attr(other, "from"), msc_op_attr(op, "from")))
      continue;
    attributes c = attributes_of(g, op);
    msc_op_set(op, "from", *msc_op_attr(other, "from"));
    msc_op_set(op, "to", *msc_op_attr(other, "to"));
    judge_numbers(t, g, op, "other layouts", put_attributes, &c);
    return;
  }
}

typedef struct {
  msc_func *f;
  msc_attr_value old;
} offsets;

static void put_offsets(void *change) {
  const offsets *c = change;
  msc_func_set(c->f, "starts", c->old);
}

/* Two that change places: each op that uses one gets the other's. */
static void exchange_offsets(tally *t, random_graph *g, msc_func *f) {
  const msc_attr_value *starts = msc_func_attr(f, "starts");
  for (size_t i = 1; starts && i < starts->list.num; i++) {
    offsets c = {f, *starts};
    msc_attr_value *v = msc_arena_copy(g->arena, c.old.list.v, c.old.list.num * sizeof *v);
    v[i - 1] = c.old.list.v[i], v[i] = c.old.list.v[i - 1];
    msc_func_set(f, "starts", msc_list(g->ctx, c.old.list.num, v));
    judge_numbers(t, g, f->body->last, "other offsets", put_offsets, &c);
    starts = msc_func_attr(f, "starts");
  }
}

static void mutate_comm(tally *t, random_graph *g, msc_op *op) {
  if (op->kind != OP_comm || !msc_op_attr(op, "from")) return;
  for (size_t i = 0; i < op->num_in; i++) without_comm(t, g, op, i);
  if (msc_op_attr(op, "halo")) return;
  change_comm(t, g, op);
  exchange_layouts(t, g, op);
}

/* ---- mutants of messages ---- */

/* What cannot be right. */
static void must_refuse(tally *t, const msc_op *op, const char *what) {
  t->mutants++;
  if (is_refused(op->block->func->module)) return;
  t->accepted++, t->wrong++;
  print_message("%s: %s of %s is not refused\n", op->block->func->name, what, msc_kind_name(op->kind));
}

static bool is_message(const msc_op *op) { return op->kind == OP_stage_send || op->kind == OP_stage_recv; }

static void change_number(tally *t, msc_op *op, const char *name, int64_t to) {
  const msc_attr_value old = *msc_op_attr(op, name);
  msc_op_set(op, name, msc_int(to));
  if (to != old.i)
    must_refuse(t, op,
                msc_arena_printf(msc_context_arena(msc_op_ctx(op)), "another %s, %" PRId64 " instead of %" PRId64 ",",
                                 name, to, old.i));
  msc_op_set(op, name, old);
}

static void without_send(tally *t, msc_op *op) {
  msc_op *next = op->next;
  msc_op_unlink(op);
  t->mutants++;
  if (!is_refused(next->block->func->module))
    t->accepted++, t->wrong++, print_message("%s: a stage_send less is not refused\n", next->block->func->name);
  msc_insert_before(next, op);
}

static void send_other_type(tally *t, msc_op *op) {
  msc_value *old = op->in[0].value;
  for (msc_op *other = op->block->first; other != op; other = other->next)
    for (size_t i = 0; i < other->num_out; i++) {
      if (other->out[i].type == old->type) continue;
      msc_set_operand(op, 0, &other->out[i]);
      must_refuse(t, op, "a value of another type");
      msc_set_operand(op, 0, old);
      return;
    }
}

/* Two receipts that are there for each other's values. */
static void swap_numbers(tally *t, msc_op *a, msc_op *b) {
  const msc_attr_value x = *msc_op_attr(a, "message"), y = *msc_op_attr(b, "message");
  bool alike =
      a->name == b->name && a->out[0].type == b->out[0].type && !msc_op_attr(a, "copy") == !msc_op_attr(b, "copy");
  if (alike) return; /* nothing tells them apart */
  msc_op_set(a, "message", y), msc_op_set(b, "message", x);
  must_refuse(t, a, "the message of another");
  msc_op_set(a, "message", x), msc_op_set(b, "message", y);
}

static void mutate_message(tally *t, random_graph *g, msc_op *op) {
  msc_op *other = op->next;
  change_number(t, op, "message", msc_op_int(op, "message") + 1 + below(g, 3));
  change_number(t, op, "stage", msc_op_int(op, "stage") + 1);
  change_number(t, op, "stage", 1 - msc_op_int(op, "stage"));
  if (op->kind == OP_stage_send) {
    without_send(t, op);
    send_other_type(t, op);
  }
  while (other && other->kind != OP_stage_recv) other = other->next;
  if (op->kind == OP_stage_recv && other) swap_numbers(t, op, other);
}

/* One entry of a lane less, one twice. */
static void mutate_lanes(tally *t, msc_module *m) {
  const msc_attr_value *old = msc_find_attr(m->attrs, m->num_attrs, "msc.lanes");
  const msc_attr_value *train = old ? msc_find_attr(old->dict.a, old->dict.num, "train") : NULL;
  msc_arena *arena = msc_context_arena(m->ctx);
  for (size_t s = 0; train && s < train->list.num; s++) {
    const msc_attr_value *lane = &train->list.v[s];
    for (int less = 0; less < 2 && lane->list.num; less++) {
      size_t fields = MSC_LANE_FIELDS, num = less ? lane->list.num - fields : lane->list.num + fields;
      msc_attr_value *stage = msc_arena_copy(arena, train->list.v, train->list.num * sizeof *stage),
                     *v = msc_new_array(arena, msc_attr_value, num + 1), lanes = *old;
      msc_attr *dict = msc_arena_copy(arena, old->dict.a, old->dict.num * sizeof *dict);
      memcpy(v, lane->list.v, (less ? num : lane->list.num) * sizeof *v);
      if (!less) memcpy(v + lane->list.num, lane->list.v, fields * sizeof *v);
      stage[s] = msc_list(m->ctx, num, v);
      for (size_t i = 0; i < old->dict.num; i++)
        if (!strcmp(dict[i].name, "train")) dict[i].value = msc_list(m->ctx, train->list.num, stage);
      lanes.dict.a = dict;
      msc_attr_value kept = *old;
      msc_put_attr(m->ctx, &m->attrs, &m->num_attrs, "msc.lanes", lanes);
      must_refuse(t, m->first->body->last, less ? "one entry of a lane less" : "one entry of a lane twice");
      msc_put_attr(m->ctx, &m->attrs, &m->num_attrs, "msc.lanes", kept);
      old = msc_find_attr(m->attrs, m->num_attrs, "msc.lanes");
      train = msc_find_attr(old->dict.a, old->dict.num, "train");
      lane = &train->list.v[s];
    }
  }
}

/* ---- programs ---- */

/* A third has micro-batches, a third a pipeline. */
static void add_settings(random_graph *g, uint64_t seed) {
  static const char *const scheduler[] = {"gpipe", "1f1b", "zb-h1"};
  if (seed % 3 == 0 || g->num_settings + 3 > MAX_SETTINGS) return;
  set(g, "micro_size=2");
  if (seed % 3 == 1) return;
  set(g, "pipeline_stages=2");
  set(g, msc_arena_printf(g->arena, "pipeline_scheduler=%s", scheduler[below(g, 3)]));
}

/* Of these only that they are sound: their views and kernels are their own. */
static bool is_for_gpu(uint64_t seed) { return seed % 5 == 4; }

/* Not every drawing is a legal program; but what the compiler makes is sound. */
static bool compiled(tally *t, random_graph *g, msc_context *ctx, uint64_t seed) {
  random_graph_make(g, ctx, seed);
  add_settings(g, seed);
  msc_config *config = msc_config_new(ctx);
  for (int i = 0; i < g->num_settings; i++) MSC_TRY(msc_config_set(config, g->setting[i]));
  if (is_for_gpu(seed)) msc_put_attr(ctx, &g->m->attrs, &g->m->num_attrs, "msc.target", msc_str(ctx, "cuda"));
  msc_pass_options options = {.from = "fold", .verify = MSC_VERIFY_IR, .config = config};
  bool ok = msc_config_check(config) && msc_run_passes(ctx, g->m, &options);
  bool bug = false;
  for (const msc_diag *d = ok ? NULL : msc_diags(ctx); d; d = d->next)
    bug |= d->code == MSC_E_PLAN || d->code == MSC_E_INTERNAL;
  for (const msc_diag *d = msc_diags(ctx); bug && d; d = d->next)
    print_error("seed %" PRIu64 ": %s%s%s\n", seed, d->op_name ? d->op_name : "", d->op_name ? ": " : "", d->text);
  t->bugs += bug;
  return ok;
}

static void one_program(tally *t, uint64_t seed, bool show) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  random_graph g;
  tally before = *t;
  bool done = compiled(t, &g, ctx, seed);
  if (show) fputs(msc_print_text(g.m, g.arena, &(size_t){0}), stdout);
  for (msc_func *f = done && !is_for_gpu(seed) ? g.m->first : NULL; f; f = f->next) {
    if (msc_func_attr(f, "scratch")->i > MAX_SCRATCH) continue;
    msc_arena *arena = msc_arena_new(ctx);
    if (verdict_of(arena, f) == WRONG) fail_msg("seed %" PRIu64 ": %s is wrong", seed, f->name);
    msc_arena_free(arena);
    shrink(t, f);
    for (msc_op *op = f->body->first; op; op = op->next) mutate_comm(t, &g, op);
    exchange_offsets(t, &g, f);
    for (msc_op *op = f->body->first; op; op = op->next)
      if (is_message(op)) mutate_message(t, &g, op);
    for (msc_op *op = f->body->first; op; op = op->next)
      if (op->num_out && chance(&g, 25)) move_results(t, &g, op);
  }
  if (done) mutate_lanes(t, g.m);
  if (done) t->programs++;
  if (done) assert_true(msc_check_module(g.m)); /* every mutation was taken back */
  if (t->wrong > before.wrong || t->needless > before.needless) print_message("seed %" PRIu64 "\n", seed);
  msc_context_free(ctx);
}

static void mutants_are_refused(void **state) {
  (void)state;
  const char *number = getenv("LOWERED"), *only = getenv("LOWERED_SEED");
  int programs = number ? atoi(number) : getenv("MSC_TEST_SLOW") ? SLOW_PROGRAMS : QUICK_PROGRAMS;
  tally t = {0};
  if (only) one_program(&t, strtoull(only, NULL, 10), true);
  for (size_t i = 0; !only && i < sizeof once_accepted / sizeof *once_accepted; i++)
    one_program(&t, once_accepted[i], false);
  for (uint64_t seed = 1; !only && t.programs < programs; seed++) one_program(&t, seed, false);
  print_message(
      "%d programs; %d mutants of places and messages, %d not refused; %d of collectives, %d not refused; of all %d "
      "wrong; %d refused "
      "though right\n",
      t.programs, t.mutants, t.accepted, t.comms, t.kept_comms, t.wrong, t.needless);
  assert_int_equal(t.bugs, 0);
  assert_int_equal(t.wrong, 0);
  assert_int_equal(t.needless, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(mutants_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
