/* predict.c: calls of a section and a described cluster -> the time of every call, of the whole, and what of it nothing hides.
 *
 * Two streams: kernels and products one after the other, collectives one after the other beside them.  A collective starts when
 * all calls before it have run and the link is free; a call waits for the collectives whose memory it touches, as the runtime
 * does (ir/hazard.h).  Exposed is the time in which only the link works. */
#include <string.h>

#include "codegen/plan.h"
#include "ir/hazard.h"
#include "passes/7_lower/transfer.h"

/* What stays on a rank costs nothing on links. */
static uint64_t transfer_ns(const msc_plan *p, const msc_cost *cost, const msc_op *op) {
  msc_cost_transfer t;
  return op->kind == OP_comm && msc_transfer_of(cost, op, p->arena, &t) ? (uint64_t)msc_cost_collective(cost, &t) : 0;
}

static void price_calls(msc_plan *p, const msc_cost *cost) {
  for (size_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      msc_plan_call *c = &p->section[s].call[i];
      msc_dtype dtype = c->op->num_out ? c->op->out[0].type->dtype : MSC_F32;
      if (c->kind == PLAN_CALL_KIND_COLLECTIVE) c->predicted_ns = transfer_ns(p, cost, c->op);
      else c->predicted_ns = (uint64_t)msc_cost_work(cost, dtype, (double)c->flops, (double)c->bytes);
    }
}

/* ---- the two streams ---- */

typedef struct {
  msc_hazards hazards;
  msc_span *span;      /* of one call */
  uint64_t *ends;      /* of each collective, from 1 */
  uint64_t now, link;  /* when the last call, the last collective ends */
  uint64_t exposed;
} timeline;

static size_t put_spans(const msc_plan_call *c, msc_span *span) {
  size_t num = 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].bytes) span[num++] = (msc_span){c->buffer[i].offset, c->buffer[i].offset + c->buffer[i].bytes, c->buffer[i].space, c->buffer[i].written, false};
  return c->epilogue ? num + put_spans(c->epilogue, span + num) : num;
}

static size_t most_spans(const msc_plan_section *s, size_t *out_total) {
  size_t most = 0;
  *out_total = 0;
  for (size_t i = 0; i < s->num_calls; i++) {
    size_t n = s->call[i].num_buffers + (s->call[i].epilogue ? s->call[i].epilogue->num_buffers : 0);
    if (n > most) most = n;
    if (s->call[i].kind == PLAN_CALL_KIND_COLLECTIVE) *out_total += n;
  }
  return most;
}

static void run_call(timeline *t, const msc_plan_call *c) {
  bool beside = c->kind == PLAN_CALL_KIND_COLLECTIVE && c->predicted_ns > 0;
  msc_waits w = msc_hazards_next(&t->hazards, put_spans(c, t->span), t->span, beside);
  if (beside) {
    t->link = (t->link > t->now ? t->link : t->now) + c->predicted_ns;
    t->ends[t->hazards.started] = t->link;
    return;
  }
  if (w.run && t->ends[w.run] > t->now) {
    t->exposed += t->ends[w.run] - t->now;
    t->now = t->ends[w.run];
  }
  t->now += c->predicted_ns;
}

static void predict_section(const msc_plan *p, const msc_plan_section *s, uint64_t *out_ns, uint64_t *out_exposed) {
  size_t total, most = most_spans(s, &total);
  timeline t = {.span = msc_new_array(p->arena, msc_span, most), .ends = msc_new_array(p->arena, uint64_t, s->num_calls + 1)};
  t.hazards.pending = msc_new_array(p->arena, msc_pending, total);
  for (size_t i = 0; i < s->num_calls; i++) run_call(&t, &s->call[i]);
  *out_exposed = t.exposed + (t.link > t.now ? t.link - t.now : 0);
  *out_ns = t.link > t.now ? t.link : t.now;
}

/* ---- a program: what every stage runs ---- */

/* Messages that were sent and not yet received: when each is there. */
typedef struct {
  size_t sent, received, room;
  uint64_t *there;
} mailbox;

typedef struct {
  const msc_plan *p;
  const msc_plan_program *g;
  uint64_t *ns, *exposed; /* per section */
  mailbox *box;           /* per message */
  uint32_t *at;           /* per stage: the entry that is next */
  uint64_t *now, *exposed_of;
} lanes;

static bool is_message(const msc_plan_call *c, bool receives) { return c->kind == PLAN_CALL_KIND_MESSAGE && (c->buffer[0].written != 0) == receives; }

/* When all that the section receives is there; UINT64_MAX: not yet sent. */
static uint64_t ready_at(const lanes *l, const msc_plan_section *s) {
  uint64_t at = 0;
  for (size_t i = 0; i < s->num_calls; i++) {
    if (!is_message(&s->call[i], true)) continue;
    const mailbox *b = &l->box[s->call[i].index];
    if (b->received == b->sent) return UINT64_MAX;
    if (b->there[b->received] > at) at = b->there[b->received];
  }
  return at;
}

static void pass_messages(lanes *l, const msc_plan_section *s, uint64_t now) {
  for (size_t i = 0; i < s->num_calls; i++) {
    if (s->call[i].kind != PLAN_CALL_KIND_MESSAGE) continue;
    mailbox *b = &l->box[s->call[i].index];
    if (is_message(&s->call[i], true)) {
      b->received++;
      continue;
    }
    if (b->sent == b->room) {
      uint64_t *old = b->there;
      b->room = b->room ? 2 * b->room : 16;
      b->there = msc_new_array(l->p->arena, uint64_t, b->room);
      if (old) memcpy(b->there, old, b->sent * sizeof *old);
    }
    b->there[b->sent++] = now + s->call[i].predicted_ns;
  }
}

/* Entries start as soon as what they receive is there. */
static bool advance(lanes *l, uint32_t stage) {
  bool any = false;
  while (l->at[stage] < l->g->num_entries[stage]) {
    uint32_t section = l->g->entry[stage][l->at[stage]].section;
    uint64_t ready = ready_at(l, &l->p->section[section]);
    if (ready == UINT64_MAX) return any;
    if (ready > l->now[stage]) l->now[stage] = ready;
    l->now[stage] += l->ns[section];
    l->exposed_of[stage] += l->exposed[section];
    pass_messages(l, &l->p->section[section], l->now[stage]);
    l->at[stage]++;
    any = true;
  }
  return any;
}

static void predict_program(msc_plan *p, const msc_plan_program *g, uint64_t *ns, uint64_t *exposed) {
  lanes l = {.p = p, .g = g, .ns = ns, .exposed = exposed, .box = msc_new_array(p->arena, mailbox, p->num_messages + 1), .at = msc_new_array(p->arena, uint32_t, p->num_stages)};
  l.now = msc_new_array(p->arena, uint64_t, p->num_stages);
  l.exposed_of = msc_new_array(p->arena, uint64_t, p->num_stages);
  for (bool any = true; any;) {
    any = false;
    for (uint32_t i = 0; i < p->num_stages; i++) any |= advance(&l, i);
  }
  for (uint32_t i = 0; i < p->num_stages; i++) {
    if (l.now[i] > p->predicted_step_ns) p->predicted_step_ns = l.now[i];
    if (l.exposed_of[i] > p->exposed_comm_ns) p->exposed_comm_ns = l.exposed_of[i];
  }
}

uint64_t msc_plan_uses(const msc_plan *p, uint32_t section) {
  const msc_plan_program *g = &p->program[0];
  uint32_t stage = p->section[section].stage;
  uint64_t uses = 0;
  if (p->num_programs == 0) return 0;
  if (!g->entry) return section == 0;
  for (uint32_t i = 0; i < g->num_entries[stage]; i++) uses += g->entry[stage][i].section == section;
  return uses;
}

void msc_plan_predict(msc_plan *p, const msc_cluster *cluster) {
  msc_cost cost;
  msc_cost_of(cluster, &p->module->mesh, &cost);
  price_calls(p, &cost);
  uint64_t *ns = msc_new_array(p->arena, uint64_t, p->num_sections + 1), *exposed = msc_new_array(p->arena, uint64_t, p->num_sections + 1);
  for (size_t i = 0; i < p->num_sections; i++) predict_section(p, &p->section[i], &ns[i], &exposed[i]);
  if (p->num_programs && p->program[0].entry) predict_program(p, &p->program[0], ns, exposed);
  else if (p->num_sections) p->predicted_step_ns = ns[0], p->exposed_comm_ns = exposed[0];
}
