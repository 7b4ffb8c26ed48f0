/* device_timed.c: a device without values: every call sleeps for its predicted time, so that many ranks run a real plan
 * on few cores. It checks the order of calls.
 *
 * Each range of memory that calls distinguish has a tag. When a call is issued, in program order, its results get new
 * tags made from those of its operands: the expected tags. When it runs, which may be later and beside others, the
 * actual tags of its operands must be the expected ones, at its begin and at its end, and no other call may have
 * written to its results meanwhile: so a missing wait is found. The ranks of a collective exchange their tags through
 * the real transport; the tags must agree, since all ranks run the same calls. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "runtime/context.h"
#include "runtime/wait.h"

#define TAG_ROOM 64 /* a cache line in the arena for the tag of each collective of a section */

typedef struct {
  uint32_t first, end; /* segments */
} tag_range;

/* What is sent instead of a message: the tag of its value, and the time at which it arrives. */
typedef struct {
  uint64_t tag;
  int64_t there_ns;
} tag_message;

typedef struct mscrt_tags {
  void *addresses;               /* addresses of an arena without memory: touching it ends the process */
  size_t address_bytes;
  pthread_mutex_t lock;          /* protects `actual` */
  uint32_t num_segments;
  uint64_t *border;              /* segment i is [border[i], border[i + 1]) of the arena */
  uint64_t *expected, *actual;
  mscrt_exchange *exchange;      /* by collective of the plan: the exchange of its tags */
  uint64_t *peer;                /* tags of the members of a group */
  /* of the caller's thread. issued: when the running call was issued; late: by how many ns its last sleep was too long;
   * late_step: the step of that sleep */
  int64_t issued, late;
  int64_t late_step;
} mscrt_tags;

/* ---- tags ---- */

static int compare_borders(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t mix_tags(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu + b;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
  return x ^ x >> 29;
}

static uint32_t segment_at(const mscrt_tags *g, uint64_t border) {
  const uint64_t *at = bsearch(&border, g->border, g->num_segments + 1, sizeof border, compare_borders);
  return (uint32_t)(at - g->border);
}

static tag_range range_of(const mscrt_tags *g, const mscrt_execution *t, uint32_t span) {
  const msc_span *s = &t->record->span[span];
  uint64_t by = t->slots->shift[s->space];
  return (tag_range){segment_at(g, s->begin + by), segment_at(g, s->end + by)};
}

/* The combined tags of what a call reads. */
static uint64_t combined_tags(const mscrt_tags *g, const uint64_t *tag, const mscrt_execution *t) {
  const mscrt_record *r = t->record;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < r->num_spans; i++) {
    tag_range range = range_of(g, t, i);
    for (uint32_t k = range.first; !r->span[i].written && k < range.end; k++) sum = mix_tags(sum, tag[k]);
  }
  return sum;
}

static void set_tags(const mscrt_tags *g, uint64_t *tag, const mscrt_execution *t, uint64_t value) {
  const mscrt_record *r = t->record;
  for (uint32_t i = 0; i < r->num_spans; i++) {
    tag_range range = range_of(g, t, i);
    for (uint32_t k = range.first; r->span[i].written && k < range.end; k++) tag[k] = value;
  }
}

static bool results_have_tag(const mscrt_tags *g, const mscrt_execution *t, uint64_t value) {
  const mscrt_record *r = t->record;
  for (uint32_t i = 0; i < r->num_spans; i++) {
    tag_range range = range_of(g, t, i);
    for (uint32_t k = range.first; r->span[i].written && k < range.end; k++)
      if (g->actual[k] != value) return false;
  }
  return true;
}

static void issue_timed(mscrt_context *c, mscrt_execution *t) {
  mscrt_tags *g = c->device_state;
  uint64_t call = (uint64_t)(t->section - c->section) << 32 | (uint64_t)(t->record - t->section->call);
  t->expected = combined_tags(g, g->expected, t);
  t->made = mix_tags(mix_tags(mix_tags(call, (uint64_t)t->step), t->micro), t->expected);
  set_tags(g, g->expected, t, t->made);
  if (g->late_step != t->step) g->late = 0;
  g->late_step = t->step;
  g->issued = mscrt_now_ns();
}

static mscrt_status *report_wrong_order(const mscrt_context *c, const mscrt_execution *t, const char *what) {
  return mscrt_fail(MSCRT_BUG, "rank %d: step %" PRId64 ": %s%s%s %s: an order of calls is wrong", c->o.rank,
                    mscrt_step_number(t->step), t->record->name ? t->record->name : "a call",
                    t->record->loc ? " at " : "", t->record->loc ? t->record->loc : "", what);
}

/* Begins a call: its results are marked as being written. *out_during: the tags of its operands while it runs, which
 * include results if it works in place. */
static mscrt_status *begin_timed_call(mscrt_context *c, const mscrt_execution *t, uint64_t *out_during) {
  mscrt_tags *g = c->device_state;
  pthread_mutex_lock(&g->lock);
  bool right = combined_tags(g, g->actual, t) == t->expected;
  set_tags(g, g->actual, t, ~t->made);
  *out_during = combined_tags(g, g->actual, t);
  pthread_mutex_unlock(&g->lock);
  return right ? NULL : report_wrong_order(c, t, "begins before its operands are there");
}

static mscrt_status *end_timed_call(mscrt_context *c, const mscrt_execution *t, uint64_t during) {
  mscrt_tags *g = c->device_state;
  pthread_mutex_lock(&g->lock);
  bool read = combined_tags(g, g->actual, t) == during, written = results_have_tag(g, t, ~t->made);
  set_tags(g, g->actual, t, t->made);
  pthread_mutex_unlock(&g->lock);
  if (!read) return report_wrong_order(c, t, "has its operands overwritten while it runs");
  return written ? NULL : report_wrong_order(c, t, "has its results overwritten while it runs");
}

/* ---- time ---- */

static int64_t scale_time(const mscrt_context *c, int64_t ns) {
  return (int64_t)((double)ns * (c->o.time_scale > 0 ? c->o.time_scale : 1));
}

/* Sleeps until a time; returns how late it woke up. */
static int64_t sleep_until(int64_t end) {
  struct timespec until = {end / 1000000000, end % 1000000000};
  int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* otherwise each sleep takes 50 us more */
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {}
  if (slack > 0) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
  int64_t late = mscrt_now_ns() - end;
  return late > 0 ? late : 0;
}

/* Returns the time on a device that always wakes in time: now, less by how much the last sleep was too long, as far as
 * that is not longer ago than the call was issued. */
static int64_t device_now(const mscrt_tags *g) {
  int64_t now = mscrt_now_ns(), credit = g->late - (now - g->issued);
  return credit > 0 ? now - credit : now;
}

/* Sleeps for the predicted time from now on, not from the predicted begin, so that the time that the executor itself
 * needs shows. */
static mscrt_status *compute_timed(mscrt_context *c, const mscrt_execution *t) {
  mscrt_tags *g = c->device_state;
  int64_t begin = device_now(g);
  uint64_t during;
  MSCRT_CHECK(begin_timed_call(c, t, &during));
  g->late = sleep_until(begin + scale_time(c, t->record->predicted_ns));
  return end_timed_call(c, t, during);
}

/* Runs a collective: all ranks have arrived when the tags are here, and the links work from then on. */
static mscrt_status *run_timed_collective(mscrt_context *c, mscrt_pool *pool, const mscrt_execution *t,
                                          mscrt_ticket *out_ticket) {
  const mscrt_tags *g = c->device_state;
  const mscrt_record *r = t->record;
  const mscrt_exchange *e = &g->exchange[r->index];
  uint64_t during, at = c->mailbox_bytes + (uint64_t)(t->number - 1) * TAG_ROOM,
                   *own = (uint64_t *)((char *)c->transport->arena(c->comm) + at);
  MSCRT_CHECK(begin_timed_call(c, t, &during));
  *own = t->expected;
  MSCRT_CHECK(c->transport->run(c->comm, pool, 1, &(mscrt_part){.e = e, .src = at, .dst = g->peer},
                                &(mscrt_site){r->name, r->loc, t->step}, out_ticket));
  int64_t begin = mscrt_now_ns();
  for (int i = 0; i < e->group.num; i++)
    if (g->peer[i] != t->expected) return report_wrong_order(c, t, "meets another rank that gives something else");
  sleep_until(begin + scale_time(c, r->predicted_ns));
  return end_timed_call(c, t, during);
}

/* Sleeps for the predicted time of a transfer from now on: the transfers before it have ended. */
static mscrt_status *transfer_timed(mscrt_context *c, const mscrt_execution *t) {
  int64_t begin = mscrt_now_ns();
  uint64_t during;
  MSCRT_CHECK(begin_timed_call(c, t, &during));
  sleep_until(begin + scale_time(c, t->record->predicted_ns));
  return end_timed_call(c, t, during);
}

/* Passes a message: a hop delays the receiver and occupies neither end. */
static mscrt_status *pass_timed_message(mscrt_context *c, const mscrt_execution *t) {
  mscrt_tags *g = c->device_state;
  const mscrt_record *r = t->record;
  mscrt_site site = {r->name, r->loc, t->step};
  uint64_t during;
  MSCRT_CHECK(begin_timed_call(c, t, &during));
  tag_message m = {t->expected, device_now(g) + scale_time(c, r->predicted_ns)};
  if (!r->receives) {
    MSCRT_CHECK(c->transport->send(c->comm, &r->channel, &m, &site));
  } else {
    MSCRT_CHECK(c->transport->receive(c->comm, &r->channel, &m, &site));
    int64_t now = device_now(g);
    g->late = m.there_ns > now ? sleep_until(m.there_ns) : mscrt_now_ns() - now;
  }
  return end_timed_call(c, t, during);
}

static uint64_t timed_message_bytes(uint64_t bytes) {
  (void)bytes;
  return sizeof(tag_message);
}

/* ---- making it ---- */

/* Makes the exchange of the tags of a collective: every member reads one number from each. It lingers if the exchange
 * of the collective itself does. */
static mscrt_status *make_tag_exchange(const mscrt_context *c, uint32_t number, mscrt_exchange *e) {
  const mscrt_collective *k = &c->plan->collective[number];
  uint32_t num = k->num_members ? k->num_members : 1;
  mscrt_part *part;
  MSCRT_CHECK(mscrt_new_array(&part, num));
  for (uint32_t i = 0; i < num; i++) part[i].e = &c->exchange[k->num_members ? k->members[i] : number];
  const mscrt_exchange *real = part[0].e;
  bool lingers = c->transport->lingers(num, part) != MSCRT_LINGERS_NOT;
  free(part);
  *e = (mscrt_exchange){.verb = real->verb,
                        .dtype = MSCRT_U64,
                        .rank = 1,
                        .num_terms = 1,
                        .group = real->group,
                        .num_cuts = real->group.num,
                        .elems = real->group.num};
  e->to_box.size[0] = real->group.num;
  e->src_bytes = lingers ? UINT32_MAX : sizeof(uint64_t);
  e->dst_bytes = (uint64_t)e->elems * sizeof(uint64_t);
  e->group.member = NULL;
  MSCRT_CHECK(mscrt_new_array(&e->cut, e->num_cuts));
  MSCRT_CHECK(mscrt_new_array(&e->peers, e->num_cuts));
  MSCRT_CHECK(mscrt_new_array(&e->group.member, e->num_cuts));
  for (int i = 0; i < real->group.num; i++) {
    e->peers[i] = e->group.member[i] = real->group.member[i];
    e->cut[i] =
        (mscrt_cut){.box = {.begin = {i}, .size = {1}}, .from_box = {.begin = {i}, .size = {1}}, .peer = &e->peers[i]};
  }
  return NULL;
}

static uint64_t timed_shared_bytes(const mscrt_context *c) {
  uint64_t most = 0, mailboxes = 0;
  for (uint32_t i = 0; i < c->plan->num_sections; i++) {
    plan_section s = plan_plan_sections(c->plan->root, i);
    uint64_t num = 0;
    for (uint32_t k = 0; k < plan_section_calls_num(s); k++)
      num += plan_call_kind(plan_section_calls(s, k)) == PLAN_CALL_KIND_COLLECTIVE;
    if (num > most) most = num;
  }
  for (uint32_t i = 0; i < c->plan->num_stages; i++)
    if (c->mailboxes[i] > mailboxes) mailboxes = c->mailboxes[i];
  return mailboxes + most * TAG_ROOM;
}

/* Reserves addresses without memory in place of the arena. */
static mscrt_status *open_timed(mscrt_context *c) {
  mscrt_tags *g;
  MSCRT_CHECK(mscrt_new_array(&g, 1));
  c->device_state = g;
  pthread_mutex_init(&g->lock, NULL);
  g->address_bytes = (size_t)c->arena_bytes + 1;
  g->addresses = mmap(NULL, g->address_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (g->addresses == MAP_FAILED) g->addresses = NULL;
  if (!g->addresses)
    return mscrt_fail(MSCRT_NO_MEMORY, "no addresses for an arena of %" PRIu64 " bytes", c->arena_bytes);
  c->memory = c->arena = g->addresses;
  return NULL;
}

static uint64_t num_slots(const mscrt_context *c, uint32_t space) {
  if (space == PLAN_SPACE_INPUT) return c->input_slots;
  return mscrt_has_slots(space) && c->plan->stage[c->stage].slots[space - PLAN_SPACE_CARRIED_FB]
             ? c->plan->stage[c->stage].slots[space - PLAN_SPACE_CARRIED_FB]
             : 1;
}

static uint64_t slot_stride(const mscrt_context *c, uint32_t space) {
  return space == PLAN_SPACE_INPUT ? c->input_stride
         : mscrt_has_slots(space) ? c->plan->stage[c->stage].bytes[space]
                                   : 0;
}

/* Adds the ends of the spans of a call in all slots; border NULL: only counts them. */
static size_t add_span_borders(const mscrt_context *c, const mscrt_record *r, uint64_t *border) {
  size_t num = 0;
  for (uint32_t j = 0; j < r->num_spans; j++)
    for (uint64_t slot = 0; slot < num_slots(c, r->span[j].space); slot++, num += 2) {
      uint64_t by = slot * slot_stride(c, r->span[j].space);
      if (border) border[num] = r->span[j].begin + by, border[num + 1] = r->span[j].end + by;
    }
  return num;
}

/* Finds the borders of the segments: all ends of spans, sorted, each once. */
static mscrt_status *find_borders(mscrt_context *c) {
  mscrt_tags *g = c->device_state;
  size_t num = 0, kept = 0;
  for (int fill = 0; fill < 2; fill++) {
    if (fill) MSCRT_CHECK(mscrt_new_array(&g->border, num + 1));
    num = 0;
    for (uint32_t i = 0; i < c->plan->num_sections; i++)
      for (uint32_t k = 0; k < c->section[i].num_calls; k++)
        num += add_span_borders(c, &c->section[i].call[k], fill ? g->border + num : NULL);
  }
  qsort(g->border, num, sizeof *g->border, compare_borders);
  for (size_t i = 0; i < num; i++)
    if (!kept || g->border[kept - 1] != g->border[i]) g->border[kept++] = g->border[i];
  g->num_segments = kept ? (uint32_t)kept - 1 : 0;
  return NULL;
}

static mscrt_status *ready_timed(mscrt_context *c) {
  mscrt_tags *g = c->device_state;
  MSCRT_CHECK(find_borders(c));
  MSCRT_CHECK(mscrt_new_array(&g->expected, g->num_segments));
  MSCRT_CHECK(mscrt_new_array(&g->actual, g->num_segments));
  MSCRT_CHECK(mscrt_new_array(&g->peer, c->o.ranks));
  MSCRT_CHECK(mscrt_new_array(&g->exchange, c->plan->num_collectives));
  for (uint32_t i = 0; i < c->plan->num_collectives; i++) MSCRT_CHECK(make_tag_exchange(c, i, &g->exchange[i]));
  return NULL;
}

static void close_timed(mscrt_context *c) {
  mscrt_tags *g = c->device_state;
  if (!g) return;
  if (g->addresses) munmap(g->addresses, g->address_bytes);
  for (uint32_t i = 0; g->exchange && i < c->plan->num_collectives; i++) mscrt_exchange_free(&g->exchange[i]);
  free(g->exchange);
  free(g->peer);
  free(g->expected);
  free(g->actual);
  free(g->border);
  pthread_mutex_destroy(&g->lock);
  free(g);
}

const mscrt_device mscrt_device_timed = {.name = "timed",
                                         .open = open_timed,
                                         .ready = ready_timed,
                                         .close = close_timed,
                                         .issue = issue_timed,
                                         .compute = compute_timed,
                                         .transfer = transfer_timed,
                                         .message = pass_timed_message,
                                         .message_bytes = timed_message_bytes,
                                         .shared_bytes = timed_shared_bytes,
                                         .collective = run_timed_collective};
