/* deadlock.c: finds the channels of a schedule, and proves that no execution can block, or says which entries wait for
 * each other.
 *
 * Nodes are entries and messages. An entry waits for the entry before it in its list, for its data and for a free
 * buffer to send from; a message waits for its sender, for the message before it in its channel and for a free buffer
 * at the receiver: that of the message `depth` before it, which the receiver has read. Every wait is for one fixed node
 * (a marked graph), so either every execution ends or none does, and they end if and only if the waits have no circle:
 * it is enough to run once, without times. Slots are taken and released by one list, so their order is fixed by the
 * list. */
#include "passes/6_pipeline/schedule/schedule.h"

#include <string.h>

/* ---- channels ---- */

/* By virtual stage k: the channels on which it sends forward (to k + 1) and backward (to k - 1); -1: it has none. */
typedef struct {
  int *of[2];
} routes;

static int neighbour(const msc_schedule *s, int k, bool backward) {
  int to = backward ? k - 1 : k + 1;
  return to >= 0 && to < s->stages * s->chunks ? to : -1;
}

static routes find_routes(msc_arena *scratch, msc_schedule *s, msc_channel *channel, int *out_num) {
  routes r;
  int num = 0, virtual_stages = s->stages * s->chunks;
  /* linked lists of the channels of each sender */
  int *first = msc_new_array(scratch, int, 2 * s->stages), *next = msc_new_array(scratch, int, 2 * virtual_stages);
  for (int i = 0; i < 2 * s->stages; i++) first[i] = -1;
  for (int backward = 0; backward < 2; backward++) {
    r.of[backward] = msc_new_array(scratch, int, virtual_stages);
    for (int k = 0; k < virtual_stages; k++) {
      int to = neighbour(s, k, backward), from = s->place[k], *chain = &first[2 * from + backward], c;
      r.of[backward][k] = -1;
      if (to < 0 || s->place[to] == from) continue;
      for (c = *chain; c >= 0 && channel[c].to != s->place[to]; c = next[c]) continue;
      if (c < 0) {
        c = num++;
        channel[c] = (msc_channel){.from = from, .to = s->place[to], .backward = backward};
        next[c] = *chain, *chain = c;
      }
      channel[c].num_messages += s->micro_batches;
      r.of[backward][k] = c;
    }
  }
  *out_num = num;
  return r;
}

/* The entries that send and receive the messages of a channel, in order of the lists. */
typedef struct {
  int num_sent, num_received;
  const msc_entry **sender, **receiver;
  int64_t hop; /* the longest hop */
} traffic;

static void add_channel_entry(const msc_schedule *s, const routes *r, traffic *t, int stage, const msc_entry *e,
                              const msc_section_cost *cost) {
  if (e->work == MSC_WEIGHT) return;
  bool backward = e->work == MSC_BACKWARD;
  int k = msc_virtual_stage(s, stage, e->chunk), from = neighbour(s, k, !backward), out = r->of[backward][k],
      in = from < 0 ? -1 : r->of[backward][from];
  if (in >= 0) t[in].receiver[t[in].num_received++] = e;
  if (out < 0) return;
  t[out].sender[t[out].num_sent++] = e;
  int64_t hop = cost[backward ? k - 1 : k].hop;
  if (hop > t[out].hop) t[out].hop = hop;
}

/* True if what ends at `end` is over when `entry` starts or ends at `at`. Of entries without a length that fall on the
 * same instant times do not tell the order: none counts as over before the other. */
static bool is_over_by(int64_t end, int64_t at, const msc_entry *entry) {
  return end < at || (end == at && entry->start < entry->end);
}

/* The buffers that a channel needs so that no message waits for one. A message occupies a buffer of its sender from
 * the start of the entry that writes it until it has arrived, and a buffer of its receiver from when it is sent
 * until the entry that reads it has ended. */
static int channel_depth(const traffic *t) {
  int depth = 1, arrived = 0, read = 0;
  for (int n = 0; n < t->num_sent; n++) {
    const msc_entry *sender = t->sender[n];
    while (arrived < n && is_over_by(t->sender[arrived]->end + t->hop, sender->start, sender)) arrived++;
    while (read < n && is_over_by(t->receiver[read]->end, sender->end, t->receiver[read])) read++;
    if (n - arrived + 1 > depth) depth = n - arrived + 1;
    if (n - read + 1 > depth) depth = n - read + 1;
  }
  return depth;
}

void msc_schedule_channels(msc_arena *arena, msc_schedule *s, const msc_section_cost *cost) {
  s->channel = msc_new_array(arena, msc_channel, 2 * s->stages * s->chunks);
  routes r = find_routes(arena, s, s->channel, &s->num_channels);
  traffic *t = msc_new_array(arena, traffic, s->num_channels);
  for (int c = 0; c < s->num_channels; c++) {
    t[c].sender = msc_new_array(arena, const msc_entry *, s->channel[c].num_messages);
    t[c].receiver = msc_new_array(arena, const msc_entry *, s->channel[c].num_messages);
  }
  for (int i = 0; i < s->stages; i++)
    for (int n = 0; n < s->stage[i].num_entries; n++) add_channel_entry(s, &r, t, i, &s->stage[i].entry[n], cost);
  for (int c = 0; c < s->num_channels; c++) s->channel[c].depth = channel_depth(&t[c]);
}

/* ---- the execution without times ---- */

typedef struct {
  int sent, delivered, received;
  int *tag; /* by message: virtual stage * micro-batches + micro-batch of its sender */
} state;

typedef struct {
  msc_arena *arena;
  msc_schedule *s;
  const char *why;
  routes route;
  const msc_channel *channel;
  state *state;     /* by channel */
  uint8_t *done;    /* by virtual stage and micro-batch: bit w: work w is done */
  int *at;          /* by stage: its next entry */
  int *awake, num_awake;
  bool *is_awake;
  uint32_t order;
} machine;

static const char letter_of[] = "FBW";

static const char *describe_entry(machine *m, int stage, const msc_entry *e) {
  return msc_arena_printf(m->arena, "%c of micro-batch %d, chunk %d, on stage %d", letter_of[e->work], e->micro_batch,
                          e->chunk, stage);
}

static void wake_stage(machine *m, int stage) {
  if (m->is_awake[stage]) return;
  m->is_awake[stage] = true;
  m->awake[m->num_awake++] = stage;
}

static void deliver_messages(machine *m, int channel) {
  state *c = &m->state[channel];
  while (c->delivered < c->sent && c->delivered - c->received < m->channel[channel].depth) {
    c->delivered++;
    wake_stage(m, m->channel[channel].from);
    wake_stage(m, m->channel[channel].to);
  }
}

typedef struct {
  int k, in, out;   /* virtual stage; channels the entry receives from and sends to, or -1 */
  int from;         /* virtual stage of the data; -1: none */
} need;

static need find_needs(const machine *m, int stage, const msc_entry *e) {
  need n = {msc_virtual_stage(m->s, stage, e->chunk), -1, -1, -1};
  if (e->work == MSC_WEIGHT) return n;
  bool backward = e->work == MSC_BACKWARD;
  n.from = neighbour(m->s, n.k, !backward);
  n.out = m->route.of[backward][n.k];
  n.in = n.from < 0 ? -1 : m->route.of[backward][n.from];
  return n;
}

static bool is_work_done(const machine *m, int k, int j, msc_work w) {
  return m->done[(int64_t)k * m->s->micro_batches + j] >> w & 1;
}

/* Returns the stage that an entry waits for: its own stage if an entry that it needs comes later in the same list; -1
 * if the entry can run. */
static int awaited_stage(const machine *m, int stage, const msc_entry *e) {
  need n = find_needs(m, stage, e);
  if (e->work != MSC_FORWARD && !is_work_done(m, n.k, e->micro_batch, e->work - 1)) return stage;
  if (n.from >= 0 && n.in < 0 && !is_work_done(m, n.from, e->micro_batch, e->work)) return stage;
  if (n.in >= 0 && m->state[n.in].delivered <= m->state[n.in].received) return m->channel[n.in].from;
  if (n.out >= 0 && m->state[n.out].sent - m->state[n.out].delivered >= m->channel[n.out].depth)
    return m->channel[n.out].to;
  return -1;
}

static bool run_schedule_entry(machine *m, int stage, msc_entry *e) {
  need n = find_needs(m, stage, e);
  uint8_t *done = &m->done[(int64_t)n.k * m->s->micro_batches + e->micro_batch];
  if (*done >> e->work & 1)
    return m->why = msc_arena_printf(m->arena, "%s comes twice", describe_entry(m, stage, e)), false;
  *done |= (uint8_t)(1 << e->work);
  e->order = m->order++;
  if (n.in >= 0) {
    state *c = &m->state[n.in];
    if (c->tag[c->received] != n.from * m->s->micro_batches + e->micro_batch)
      return m->why = msc_arena_printf(m->arena, "%s receives message %d of stage %d, which is not for it",
                                       describe_entry(m, stage, e), c->received, m->channel[n.in].from),
             false;
    c->received++;
    deliver_messages(m, n.in);
  }
  if (n.out >= 0) {
    state *c = &m->state[n.out];
    c->tag[c->sent++] = n.k * m->s->micro_batches + e->micro_batch;
    deliver_messages(m, n.out);
  }
  return true;
}

static bool run_stage_until_wait(machine *m, int stage) {
  msc_stage_list *l = &m->s->stage[stage];
  for (; m->at[stage] < l->num_entries; m->at[stage]++) {
    if (awaited_stage(m, stage, &l->entry[m->at[stage]]) >= 0) return true;
    if (!run_schedule_entry(m, stage, &l->entry[m->at[stage]])) return false;
  }
  return true;
}

/* Describes a circle of waits: following the waits from any waiting stage leads to one. It is told from its lowest
 * stage on. */
static const char *describe_circle(machine *m, int stage) {
  int start = stage, at = stage;
  const char *text = NULL;
  for (int i = 0; i < m->s->stages; i++)
    start = awaited_stage(m, start, &m->s->stage[start].entry[m->at[start]]);
  for (at = stage = start; at = awaited_stage(m, at, &m->s->stage[at].entry[m->at[at]]), at != start;)
    if (at < stage) stage = at;
  at = stage;
  do {
    const char *name = describe_entry(m, at, &m->s->stage[at].entry[m->at[at]]);
    text = text ? msc_arena_printf(m->arena, "%s, which waits for %s", text, name) : name;
    at = awaited_stage(m, at, &m->s->stage[at].entry[m->at[at]]);
  } while (at != stage);
  return msc_arena_printf(m->arena, "%s, which waits for the first", text);
}

/* ---- checks of single lists ---- */

static bool check_entry_list(machine *m, int stage) {
  msc_schedule *s = m->s;
  const msc_stage_list *l = &s->stage[stage];
  int works = msc_schedule_is_split(s->kind) ? 3 : 2, expected = works * s->chunks * s->micro_batches;
  if (l->num_entries != expected)
    return m->why = msc_arena_printf(m->arena, "stage %d has %d entries, not %d", stage, l->num_entries, expected),
           false;
  for (int i = 0; i < l->num_entries; i++) {
    const msc_entry *e = &l->entry[i];
    if ((int)e->work >= works || e->chunk < 0 || e->chunk >= s->chunks || e->micro_batch < 0 ||
        e->micro_batch >= s->micro_batches)
      return m->why = msc_arena_printf(m->arena, "entry %d of stage %d is nothing the stage has", i, stage), false;
  }
  return true;
}

/* Checks that no slot is used while another micro-batch holds it. holder[slot]: 1 + the (micro-batch, chunk) whose
 * values it has; 0: free. */
static bool check_slots(machine *m, int stage, msc_slot_class class, int *holder) {
  static const msc_work takes[] = {MSC_FORWARD, MSC_FORWARD, MSC_BACKWARD},
                        gives[] = {MSC_BACKWARD, MSC_WEIGHT, MSC_WEIGHT};
  const msc_stage_list *l = &m->s->stage[stage];
  memset(holder, 0, sizeof *holder * (size_t)l->num_slots[class]);
  for (int i = 0; i < l->num_entries; i++) {
    const msc_entry *e = &l->entry[i];
    int slot = e->slot[class], who = e->chunk * m->s->micro_batches + e->micro_batch + 1;
    if (e->work < takes[class] || e->work > gives[class] ||
        (class == MSC_SLOT_FW && e->work == MSC_BACKWARD && slot < 0))
      continue;
    if (slot < 0 || slot >= l->num_slots[class] || holder[slot] != (e->work == takes[class] ? 0 : who))
      return m->why =
                 msc_arena_printf(m->arena, "%s finds slot %d in use by others", describe_entry(m, stage, e), slot),
             false;
    holder[slot] = e->work == gives[class] ? 0 : who;
  }
  return true;
}

static bool check_stage_list(machine *m, int stage) {
  int classes = msc_schedule_is_split(m->s->kind) ? MSC_NUM_SLOTS : 1;
  MSC_TRY(check_entry_list(m, stage));
  for (int c = 0; c < classes; c++) {
    int num = m->s->stage[stage].num_slots[c];
    if (num < 0 || num > m->s->chunks * m->s->micro_batches)
      return m->why = msc_arena_printf(m->arena, "stage %d has %d slots", stage, num), false;
  }
  int *holder = msc_new_array(m->arena, int, m->s->chunks *m->s->micro_batches);
  for (int c = 0; c < classes; c++) MSC_TRY(check_slots(m, stage, (msc_slot_class)c, holder));
  return true;
}

static bool start_machine(machine *m) {
  msc_schedule *s = m->s;
  msc_channel *found = msc_new_array(m->arena, msc_channel, 2 * s->stages * s->chunks);
  int num;
  m->route = find_routes(m->arena, s, found, &num);
  m->channel = s->channel;
  m->state = msc_new_array(m->arena, state, num);
  if (num != s->num_channels)
    return m->why = msc_arena_printf(m->arena, "there are %d channels, not %d", s->num_channels, num), false;
  for (int c = 0; c < num; c++) {
    m->state[c].tag = msc_new_array(m->arena, int, found[c].num_messages);
    if (s->channel[c].from != found[c].from || s->channel[c].to != found[c].to ||
        s->channel[c].backward != found[c].backward)
      return m->why = msc_arena_printf(m->arena, "channel %d is not from stage %d to stage %d", c, found[c].from,
                                       found[c].to),
             false;
  }
  m->done = msc_new_array(m->arena, uint8_t, (int64_t)s->stages * s->chunks * s->micro_batches);
  m->at = msc_new_array(m->arena, int, s->stages);
  m->awake = msc_new_array(m->arena, int, s->stages);
  m->is_awake = msc_new_array(m->arena, bool, s->stages);
  return true;
}

static bool run_all_stages(machine *m) {
  for (int i = m->s->stages - 1; i >= 0; i--) wake_stage(m, i);
  while (m->num_awake) {
    int stage = m->awake[--m->num_awake];
    m->is_awake[stage] = false;
    MSC_TRY(run_stage_until_wait(m, stage));
  }
  for (int i = 0; i < m->s->stages; i++)
    if (m->at[i] < m->s->stage[i].num_entries) return m->why = describe_circle(m, i), false;
  return true;
}

bool msc_schedule_check(msc_arena *arena, msc_schedule *s, const char **out_why) {
  machine m = {.arena = arena, .s = s};
  bool ok = true;
  for (int i = 0; i < s->stages && ok; i++) ok = check_stage_list(&m, i);
  ok = ok && start_machine(&m) && run_all_stages(&m);
  *out_why = m.why;
  return ok;
}
