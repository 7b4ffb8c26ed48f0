/* timeline.c: the calls of a plan with their predicted times in; when each of them runs out (see timeline.h). */
#include "codegen/plan/timeline.h"
#include "ir/abi/hazard.h"

/* ---- the streams ---- */

/* A stream that runs beside the calls: of collectives, or of transfers. */
typedef struct {
  msc_hazards hazards;
  uint64_t *ends;      /* of each, from 1 */
  const msc_plan_call **call;
  uint64_t free; /* when its last member ends */
  msc_activity busy, waits;
} side_stream;

enum { LINK, MOVER, NUM_SIDES };

typedef struct {
  side_stream side[NUM_SIDES];
  msc_span *span;      /* of one call */
  uint64_t now;        /* when the last call ends */
  uint64_t exposed;
  bool copies_in_place;
  const msc_plan_section *section;
  const msc_timeline_watch *watch;
  msc_timeline_event at; /* stage, step, section, micro */
} timeline;

static size_t list_spans(const msc_plan_call *c, msc_span *span) {
  size_t num = 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].bytes)
      span[num++] = (msc_span){c->buffer[i].offset, c->buffer[i].offset + c->buffer[i].bytes, c->buffer[i].space,
                               c->buffer[i].written, false};
  return c->epilogue ? num + list_spans(c->epilogue, span + num) : num;
}

/* Counts the buffers of a call and of the calls behind it. */
static size_t count_call_buffers(const msc_plan_call *c) {
  size_t num = 0;
  for (; c; c = c->epilogue) num += c->num_buffers;
  return num;
}

static bool is_on_disk(const msc_plan_call *c) {
  return c->buffer[0].space == PLAN_SPACE_DISK || c->buffer[1].space == PLAN_SPACE_DISK;
}

/* Returns the stream of a collective or transfer; NUM_SIDES: the call runs in the stage's own sequence of calls. */
static int side_stream_of(const msc_plan_call *c, bool copies_in_place) {
  if (c->kind == PLAN_CALL_KIND_TRANSFER && copies_in_place && !is_on_disk(c)) return NUM_SIDES;
  if (msc_plan_runs_beside(c)) return MOVER;
  return c->kind == PLAN_CALL_KIND_COLLECTIVE && c->predicted_ns > 0 ? LINK : NUM_SIDES;
}

/* Makes a timeline with room for any of the plan's sections. */
static timeline new_timeline(const msc_plan *p) {
  size_t most = 0, most_pending = 0, most_calls = 0;
  for (size_t k = 0; k < p->num_sections; k++) {
    const msc_plan_section *s = &p->section[k];
    size_t pending = 0;
    for (size_t i = 0; i < s->num_calls; i++) {
      size_t n = count_call_buffers(&s->call[i]);
      if (n > most) most = n;
      if (side_stream_of(&s->call[i], p->copies_in_place) < NUM_SIDES) pending += n;
    }
    if (pending > most_pending) most_pending = pending;
    if (s->num_calls > most_calls) most_calls = s->num_calls;
  }
  timeline t = {.section = p->section,
                .span = msc_new_array(p->arena, msc_span, most + 1),
                .copies_in_place = p->copies_in_place};
  for (int i = 0; i < NUM_SIDES; i++)
    t.side[i] = (side_stream){.hazards = {.pending = msc_new_array(p->arena, msc_pending, most_pending + 1)},
                              .ends = msc_new_array(p->arena, uint64_t, most_calls + 1),
                              .call = msc_new_array(p->arena, const msc_plan_call *, most_calls + 1),
                              .busy = i == LINK ? MSC_BUSY_LINK : MSC_BUSY_TRANSFER,
                              .waits = i == LINK ? MSC_WAITS_COLLECTIVE : MSC_WAITS_TRANSFER};
  return t;
}

static void tell(timeline *t, msc_activity activity, const msc_plan_call *c, uint64_t begin, uint64_t end) {
  if (!t->watch->event || end <= begin) return;
  msc_timeline_event e = t->at;
  e.activity = activity, e.call = c, e.begin = begin, e.end = end;
  e.index = c ? (uint32_t)(c - t->section[e.section].call) : 0;
  t->watch->event(t->watch->user, &e);
}

/* Waits until `end` for c, a collective, transfer or message. Only communication counts as exposed. */
static void wait_until(timeline *t, msc_activity waits, const msc_plan_call *c, uint64_t end) {
  if (end <= t->now) return;
  tell(t, waits, c, t->now, end);
  if (waits != MSC_WAITS_TRANSFER) t->exposed += end - t->now;
  t->now = end;
}

static void wait_for_side(timeline *t, const side_stream *s, uint32_t number) {
  if (number) wait_until(t, s->waits, s->call[number], s->ends[number]);
}

static void run_call(timeline *t, const msc_plan_call *c) {
  bool copies = c->kind == PLAN_CALL_KIND_TRANSFER;
  if (copies) tell(t, MSC_BUSY_TRANSFER, c, t->now, t->now + c->predicted_ns);
  tell(t, copies ? MSC_WAITS_TRANSFER : MSC_BUSY_CALL, c, t->now, t->now + c->predicted_ns);
  t->now += c->predicted_ns;
}

/* Drops the spans of calls that have ended, so that later calls need not be compared with them. */
static void drop_ended(const timeline *t, side_stream *s) {
  enum { MANY = 32 };
  uint32_t ended = s->hazards.ran;
  while (ended < s->hazards.started && s->ends[ended + 1] <= t->now) ended++;
  if (ended >= s->hazards.ran + MANY) msc_hazards_settle(&s->hazards, (msc_waits){.run = ended});
}

/* Starts a call after everything that it waits for has ended. Returns false if the call runs beside the next calls. */
static bool begin_predicted_call(timeline *t, const msc_plan_call *c) {
  int own = side_stream_of(c, t->copies_in_place);
  size_t num = list_spans(c, t->span);
  for (int i = 0; i < NUM_SIDES; i++) {
    drop_ended(t, &t->side[i]);
    wait_for_side(t, &t->side[i], msc_hazards_next(&t->side[i].hazards, num, t->span, i == own).run);
  }
  if (own == NUM_SIDES) return true;
  side_stream *s = &t->side[own];
  uint64_t begin = s->free > t->now ? s->free : t->now;
  s->free = begin + c->predicted_ns;
  s->ends[s->hazards.started] = s->free;
  s->call[s->hazards.started] = c;
  tell(t, s->busy, c, begin, s->free);
  return false;
}

static void begin_section(timeline *t, const msc_plan_section *s) {
  tell(t, MSC_BEGINS_SECTION, NULL, t->now, t->now + s->begin_ns);
  t->now += s->begin_ns;
}

static void finish_section(timeline *t) {
  for (int i = 0; i < NUM_SIDES; i++) {
    side_stream *s = &t->side[i];
    wait_for_side(t, s, s->hazards.started);
    s->hazards = (msc_hazards){.pending = s->hazards.pending};
  }
}

/* Predicts the time of a section as if it had no messages. */
static void predict_section(timeline *t, const msc_plan_section *s) {
  begin_section(t, s);
  for (size_t i = 0; i < s->num_calls; i++)
    if (begin_predicted_call(t, &s->call[i])) run_call(t, &s->call[i]);
  finish_section(t);
}

/* ---- a program: what every stage runs ---- */

/* A mailbox: for each message, one per micro-batch, when it was sent and when it was taken out. */
typedef struct {
  size_t num_sent, num_taken;
  uint64_t *sent, *taken;
} mailbox;

/* The state of a stage in the simulation: its entry, and its call within that. */
typedef struct {
  uint32_t step, entry;
  size_t call;
  bool entered;          /* the section has begun */
  bool begun;            /* the call has waited for collectives */
  timeline t;
  uint64_t now, exposed; /* values at the start of its last step */
} lane;

typedef struct {
  const msc_plan *p;
  const msc_plan_program *g;
  uint32_t steps;
  mailbox *box; /* per message */
  lane *lane;   /* per stage */
} lanes;

/* Lets a stage send or receive a message. False: the message to receive is not sent yet, and the stage must wait. */
static bool advance_over_message(lanes *l, timeline *t, const msc_plan_call *c) {
  mailbox *b = &l->box[c->index];
  if (c->buffer[0].written) {
    if (b->num_taken == b->num_sent) return false;
    uint64_t sent = b->sent[b->num_taken], there = sent + c->predicted_ns;
    if (t->now < sent) { /* a bubble: a faster link would not shorten it */
      tell(t, MSC_WAITS_STAGE, c, t->now, sent);
      t->now = sent;
    }
    b->taken[b->num_taken++] = t->now;
    wait_until(t, MSC_WAITS_MESSAGE, c, there);
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
  else run_call(&n->t, c);
  if (done) n->begun = false;
  return done;
}

static bool advance_step(lanes *l, uint32_t stage) {
  lane *n = &l->lane[stage];
  bool any = false;
  for (; n->entry < l->g->num_entries[stage]; n->entry++, n->call = 0) {
    const plan_entry *e = &l->g->entry[stage][n->entry];
    const msc_plan_section *s = &l->p->section[e->section];
    n->t.at.section = e->section, n->t.at.micro = e->micro, n->t.at.step = n->step;
    if (!n->entered) begin_section(&n->t, s), any = true;
    n->entered = true;
    for (; n->call < s->num_calls; n->call++, any = true)
      if (!advance_call(l, n, &s->call[n->call])) return any;
    finish_section(&n->t);
    n->entered = false;
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

/* Returns the most messages that wait in a mailbox at a time. A message that is taken when another arrives counts as
 * waiting. */
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

/* A program without lanes is the first section, and all its steps are alike. */
static void run_section(msc_plan *p, const msc_timeline_watch *watch, uint64_t *out_step_ns, uint64_t *out_exposed_ns) {
  timeline t = new_timeline(p);
  t.watch = watch;
  t.at.step = MSC_TIMELINE_STEPS - 1;
  predict_section(&t, &p->section[0]);
  *out_step_ns = t.now, *out_exposed_ns = t.exposed;
}

bool msc_timeline_run(msc_plan *p, const msc_plan_program *g, const msc_timeline_watch *watch, uint64_t *out_step_ns,
                      uint64_t *out_exposed_ns) {
  lanes l = {.p = p,
             .g = g,
             .steps = g == p->program ? MSC_TIMELINE_STEPS : 1,
             .lane = msc_new_array(p->arena, lane, p->num_stages)};
  uint64_t now = 0, before = 0;
  if (!g->entry) return run_section(p, watch, out_step_ns, out_exposed_ns), true;
  new_mailboxes(&l);
  for (uint32_t i = 0; i < p->num_stages; i++) {
    l.lane[i].t = new_timeline(p);
    l.lane[i].t.watch = watch, l.lane[i].t.at.stage = i;
  }
  for (bool any = true; any;) {
    any = false;
    for (uint32_t i = 0; i < p->num_stages; i++) any |= advance_stage(&l, i);
  }
  MSC_TRY(has_every_stage_ended(&l));
  deepen_mailboxes(&l);
  *out_exposed_ns = 0;
  for (uint32_t i = 0; i < p->num_stages; i++) {
    const lane *n = &l.lane[i];
    if (n->t.now > now) now = n->t.now;
    if (n->now > before) before = n->now;
    if (n->t.exposed - n->exposed > *out_exposed_ns) *out_exposed_ns = n->t.exposed - n->exposed;
  }
  *out_step_ns = now - before;
  return true;
}
