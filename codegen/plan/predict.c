/* predict.c: calls of a section and a described cluster -> the time of every call and of the whole, the part of it in
 * which only links work (exposed), and the depths of mailboxes.
 *
 * There are two streams: kernels and products run one after the other, and beside them collectives one after the other.
 * A collective starts when all calls before it have run and the link is free; a call waits for the collectives whose
 * memory it touches, as in the runtime (ir/abi/hazard.h). All stages of a pipeline are simulated together; a message
 * arrives as long after it is sent as its link takes. A mailbox has room for all messages under way at once, so no
 * sender waits; since this simulation ends, the plan cannot block. */

#include "codegen/plan/plan.h"
#include "ir/abi/hazard.h"
#include "passes/7_lower/transfer.h"

/* The time of a transfer; bytes that stay on a rank use no link. */
static uint64_t transfer_ns(const msc_plan *p, const msc_cost *cost, const msc_op *op) {
  msc_cost_transfer t;
  return op->kind == OP_comm && msc_transfer_of(cost, op, p->arena, &t) ? (uint64_t)msc_cost_collective(cost, &t) : 0;
}

/* Time of a message from a rank of one stage to the same position in another. */
static uint64_t message_ns(const msc_plan *p, const msc_cost *cost, const msc_plan_call *c) {
  const msc_plan_message *m = &p->message[c->index];
  if (m->from == m->to) return 0;
  int level = msc_cost_level_between(cost, m->from * cost->stride[0], m->to * cost->stride[0], cost->stride[0]);
  return (uint64_t)msc_cost_collective(
      cost,
      &(msc_cost_transfer){.verb = MSC_PERMUTE, .level = level, .ranks = 2, .bytes = (int64_t)m->bytes, .peers = 1});
}

static void price_calls(msc_plan *p, const msc_cost *cost) {
  for (size_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      msc_plan_call *c = &p->section[s].call[i];
      msc_dtype dtype = c->op->num_out ? c->op->out[0].type->dtype : MSC_F32;
      /* products in bf16 make the gradients of weights in f32 */
      if (c->kind == PLAN_CALL_KIND_MATMUL) dtype = c->op->in[0].value->type->dtype;
      if (c->kind == PLAN_CALL_KIND_COLLECTIVE) c->predicted_ns = transfer_ns(p, cost, c->op);
      else if (c->kind == PLAN_CALL_KIND_MESSAGE) c->predicted_ns = message_ns(p, cost, c);
      else if (c->op->num_out && msc_info(c->op)->cost == MSC_COST_FLOPS)
        c->predicted_ns = (uint64_t)msc_cost_product(cost, dtype, (double)c->flops, (double)c->bytes);
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

static size_t list_spans(const msc_plan_call *c, msc_span *span) {
  size_t num = 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].bytes)
      span[num++] = (msc_span){c->buffer[i].offset, c->buffer[i].offset + c->buffer[i].bytes, c->buffer[i].space,
                               c->buffer[i].written, false};
  return c->epilogue ? num + list_spans(c->epilogue, span + num) : num;
}

/* Makes a timeline with room for any of the plan's sections. */
static timeline new_timeline(const msc_plan *p) {
  size_t most = 0, most_pending = 0, most_calls = 0;
  for (size_t k = 0; k < p->num_sections; k++) {
    const msc_plan_section *s = &p->section[k];
    size_t pending = 0;
    for (size_t i = 0; i < s->num_calls; i++) {
      size_t n = s->call[i].num_buffers + (s->call[i].epilogue ? s->call[i].epilogue->num_buffers : 0);
      if (n > most) most = n;
      if (s->call[i].kind == PLAN_CALL_KIND_COLLECTIVE) pending += n;
    }
    if (pending > most_pending) most_pending = pending;
    if (s->num_calls > most_calls) most_calls = s->num_calls;
  }
  timeline t = {.span = msc_new_array(p->arena, msc_span, most + 1),
                .ends = msc_new_array(p->arena, uint64_t, most_calls + 1)};
  t.hazards.pending = msc_new_array(p->arena, msc_pending, most_pending + 1);
  return t;
}

static void wait_until(timeline *t, uint64_t end) {
  if (end <= t->now) return;
  t->exposed += end - t->now;
  t->now = end;
}

/* Drops transfers that have ended, so that later calls need not look at them. */
static void forget_ended(timeline *t) {
  enum { MANY = 32 };
  uint32_t ended = t->hazards.ran;
  while (ended < t->hazards.started && t->ends[ended + 1] <= t->now) ended++;
  if (ended >= t->hazards.ran + MANY) msc_hazards_settle(&t->hazards, (msc_waits){.run = ended});
}

/* Starts a call after everything that it waits for.  False: it is a collective, which runs beside the next calls. */
static bool begin_predicted_call(timeline *t, const msc_plan_call *c) {
  bool beside = c->kind == PLAN_CALL_KIND_COLLECTIVE && c->predicted_ns > 0;
  forget_ended(t);
  msc_waits w = msc_hazards_next(&t->hazards, list_spans(c, t->span), t->span, beside);
  if (w.run) wait_until(t, t->ends[w.run]);
  if (!beside) return true;
  t->link = (t->link > t->now ? t->link : t->now) + c->predicted_ns;
  t->ends[t->hazards.started] = t->link;
  return false;
}

static void end_section(timeline *t) {
  wait_until(t, t->link);
  t->hazards = (msc_hazards){.pending = t->hazards.pending};
}

/* Predicts a section, as if it had no messages. */
static void predict_section(timeline *t, const msc_plan_section *s) {
  for (size_t i = 0; i < s->num_calls; i++)
    if (begin_predicted_call(t, &s->call[i])) t->now += s->call[i].predicted_ns;
  end_section(t);
}

/* ---- a program: what every stage runs ---- */

/* A mailbox: for each micro-batch, when its message was sent, and when it was taken. */
typedef struct {
  size_t num_sent, num_taken;
  uint64_t *sent, *taken;
} mailbox;

/* The state of a stage in the simulation: its entry, and its call within that. */
typedef struct {
  uint32_t step, entry;
  size_t call;
  bool begun;            /* the call has waited for collectives */
  timeline t;
  uint64_t now, exposed; /* before its last step */
} lane;

typedef struct {
  const msc_plan *p;
  const msc_plan_program *g;
  uint32_t steps;
  mailbox *box; /* per message */
  lane *lane;   /* per stage */
} lanes;

/* Lets a stage send or receive a message.  False: it receives one that is not sent yet, and must wait. */
static bool advance_over_message(lanes *l, timeline *t, const msc_plan_call *c) {
  mailbox *b = &l->box[c->index];
  if (c->buffer[0].written) {
    if (b->num_taken == b->num_sent) return false;
    uint64_t sent = b->sent[b->num_taken], there = sent + c->predicted_ns;
    if (t->now < sent) t->now = sent; /* a bubble, which no faster link would fill */
    b->taken[b->num_taken++] = t->now;
    wait_until(t, there);
    return true;
  }
  b->sent[b->num_sent++] = t->now;
  return true;
}

static bool advance_call(lanes *l, lane *n, const msc_plan_call *c) {
  bool done = true;
  if (!n->begun && !begin_predicted_call(&n->t, c)) return true;
  n->begun = true;
  if (c->kind == PLAN_CALL_KIND_MESSAGE) done = advance_over_message(l, &n->t, c);
  else n->t.now += c->predicted_ns;
  if (done) n->begun = false;
  return done;
}

static bool advance_step(lanes *l, uint32_t stage) {
  lane *n = &l->lane[stage];
  bool any = false;
  for (; n->entry < l->g->num_entries[stage]; n->entry++, n->call = 0) {
    const msc_plan_section *s = &l->p->section[l->g->entry[stage][n->entry].section];
    for (; n->call < s->num_calls; n->call++, any = true)
      if (!advance_call(l, n, &s->call[n->call])) return any;
    end_section(&n->t);
  }
  return any;
}

static bool advance_stage(lanes *l, uint32_t stage) {
  lane *n = &l->lane[stage];
  bool any = false;
  while (n->step < l->steps) {
    any |= advance_step(l, stage);
    if (n->entry < l->g->num_entries[stage]) break;
    if (++n->step == l->steps) break;
    n->entry = 0;
    n->now = n->t.now, n->exposed = n->t.exposed;
  }
  return any;
}

/* Makes the mailboxes. A message is sent at most once per entry of its sender. */
static void new_mailboxes(lanes *l) {
  size_t *num = msc_new_array(l->p->arena, size_t, l->p->num_messages + 1);
  l->box = msc_new_array(l->p->arena, mailbox, l->p->num_messages + 1);
  for (uint32_t i = 0; i < l->p->num_stages; i++)
    for (uint32_t k = 0; k < l->g->num_entries[i]; k++) {
      const msc_plan_section *s = &l->p->section[l->g->entry[i][k].section];
      for (size_t c = 0; c < s->num_calls; c++)
        if (s->call[c].kind == PLAN_CALL_KIND_MESSAGE) num[s->call[c].index] += l->steps;
    }
  for (uint32_t i = 0; i < l->p->num_messages; i++) {
    l->box[i].sent = msc_new_array(l->p->arena, uint64_t, num[i] + 1);
    l->box[i].taken = msc_new_array(l->p->arena, uint64_t, num[i] + 1);
  }
}

/* The most messages that wait in a mailbox at a time.  One that is taken when another arrives counts as waiting. */
static uint32_t most_messages_under_way(const mailbox *b) {
  size_t most = 0, taken = 0;
  for (size_t sent = 0; sent < b->num_sent; sent++) {
    while (taken < sent && b->taken[taken] < b->sent[sent]) taken++;
    if (sent + 1 - taken > most) most = sent + 1 - taken;
  }
  return (uint32_t)most;
}

static void deepen_mailboxes(const lanes *l) {
  for (uint32_t i = 0; i < l->p->num_messages; i++)
    while (l->p->message[i].depth < most_messages_under_way(&l->box[i])) l->p->message[i].depth *= 2;
}

static bool has_every_stage_ended(const lanes *l) {
  for (uint32_t i = 0; i < l->p->num_stages; i++)
    if (l->lane[i].step < l->steps)
      return msc_error(l->p->ctx, MSC_E_INTERNAL, NULL, "program '%s': stage %u waits for ever at its entry %u",
                       l->g->name, i, l->lane[i].entry);
  return true;
}

/* Predicts a program. For the first program the time of a step is what one step adds to those before it, since stages
 * that end early begin the next. */
static bool predict_program(msc_plan *p, const msc_plan_program *g) {
  enum { STEPS = 4 }; /* until all are alike */
  lanes l = {
      .p = p, .g = g, .steps = g == p->program ? STEPS : 1, .lane = msc_new_array(p->arena, lane, p->num_stages)};
  uint64_t now = 0, before = 0;
  new_mailboxes(&l);
  for (uint32_t i = 0; i < p->num_stages; i++) l.lane[i].t = new_timeline(p);
  for (bool any = true; any;) {
    any = false;
    for (uint32_t i = 0; i < p->num_stages; i++) any |= advance_stage(&l, i);
  }
  MSC_TRY(has_every_stage_ended(&l));
  deepen_mailboxes(&l);
  for (uint32_t i = 0; g == p->program && i < p->num_stages; i++) {
    const lane *n = &l.lane[i];
    if (n->t.now > now) now = n->t.now;
    if (n->now > before) before = n->now;
    if (n->t.exposed - n->exposed > p->exposed_comm_ns) p->exposed_comm_ns = n->t.exposed - n->exposed;
  }
  p->predicted_step_ns += now - before;
  return true;
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

bool msc_plan_predict(msc_plan *p, const msc_cluster *cluster) {
  msc_cost cost;
  msc_cost_of(cluster, &p->module->mesh, &cost);
  price_calls(p, &cost);
  for (uint32_t i = 0; i < p->num_programs; i++)
    if (p->program[i].entry) MSC_TRY(predict_program(p, &p->program[i]));
  if (p->num_sections && !(p->num_programs && p->program[0].entry)) {
    timeline t = new_timeline(p);
    predict_section(&t, &p->section[0]);
    p->predicted_step_ns = t.now, p->exposed_comm_ns = t.exposed;
  }
  return true;
}
