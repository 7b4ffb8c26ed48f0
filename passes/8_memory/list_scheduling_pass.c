/* list_scheduling_pass.c: makes one order from the keys of pieces (see list_scheduling_pass.h).
 *
 * Before compute takes its next piece, every link that would become idle until that piece ends starts the first of the
 * pieces that wait for it. Where that would exceed the limit of memory, links start nothing and compute goes on in
 * program order. */
#include "passes/8_memory/list_scheduling_pass.h"

#include <string.h>

#include "ir/table.h"

/* ---- heaps of pieces ---- */

typedef struct {
  const msc_stream_pass *z;
  bool by_time; /* ordered by `ready`; else by key */
  uint32_t *item;
  size_t num;
} queue;

struct msc_stream_pass {
  const msc_streams *s;
  bool backward;
  uint32_t *first_next, *next;        /* successors: next[first_next[i]] .. wait for piece i */
  const uint32_t *first_before, *before;
  uint32_t *first_made, *made;        /* values of a piece */
  uint32_t *first_read, *read;        /* values that a piece uses */
  const int64_t *key;
  uint64_t *ready, *end;              /* by piece: when its predecessors have ended; when it has ended */
  /* by piece: predecessors that have not been listed; by value: uses that have not ended */
  uint32_t *pending, *unread;
  bool *listed;
  queue wait[MSC_MAX_STREAMS];        /* by key: ready pieces of each stream; of compute those ready now */
  queue later;                        /* by time: compute pieces that are ready later */
  /* pieces started on a link, in order; the first finished[l] of started[l] have ended */
  uint32_t *transfers[MSC_MAX_STREAMS];
  size_t finished[MSC_MAX_STREAMS], started[MSC_MAX_STREAMS];
  uint64_t now, link[MSC_MAX_STREAMS], live;
  size_t head, num_listed;            /* all pieces before head are listed */
  uint32_t *order;
};

static bool is_taken_before(const queue *h, uint32_t a, uint32_t b) {
  const msc_stream_pass *z = h->z;
  if (h->by_time && z->ready[a] != z->ready[b]) return z->ready[a] < z->ready[b];
  if (!h->by_time && z->key[a] != z->key[b]) return z->key[a] < z->key[b];
  return z->backward ? a > b : a < b;
}

MSC_HEAP(piece, const queue *, uint32_t, is_taken_before, MSC_STAYS)

static void push_piece(queue *h, uint32_t piece) { piece_push(h, h->item, h->num++, piece); }
static uint32_t pop_piece(queue *h) { return piece_pop(h, h->item, h->num--); }

/* ---- lists by piece ---- */

/* Inverts lists of pairs (from, to): for every `to` the list of its `from`. */
static void invert_pairs(msc_arena *scratch, size_t num_from, const uint32_t *first, const uint32_t *to, size_t num_to,
                         uint32_t **out_first, uint32_t **out_from) {
  uint32_t *count = msc_new_array(scratch, uint32_t, num_to + 2);
  uint32_t *from = msc_new_array(scratch, uint32_t, first[num_from] + 1);
  for (uint32_t k = 0; k < first[num_from]; k++) count[to[k] + 2]++;
  for (size_t i = 0; i + 1 < num_to + 2; i++) count[i + 1] += count[i];
  for (uint32_t i = 0; i < num_from; i++)
    for (uint32_t k = first[i]; k < first[i + 1]; k++) from[count[to[k] + 1]++] = i;
  *out_first = count;
  *out_from = from;
}

msc_stream_pass *msc_stream_pass_new(msc_arena *scratch, const msc_streams *s, bool backward) {
  msc_stream_pass *z = msc_new(scratch, msc_stream_pass);
  uint32_t *first_after, *after, *each = msc_new_array(scratch, uint32_t, s->num_values + 1);
  *z = (msc_stream_pass){.s = s, .backward = backward};
  invert_pairs(scratch, s->num, s->first, s->before, s->num, &first_after, &after);
  z->first_next = backward ? (uint32_t *)(uintptr_t)s->first : first_after;
  z->next = backward ? (uint32_t *)(uintptr_t)s->before : after;
  z->first_before = backward ? first_after : s->first;
  z->before = backward ? after : s->before;
  for (uint32_t v = 0; v <= s->num_values; v++) each[v] = v;
  if (!backward && s->num_values) {
    invert_pairs(scratch, s->num_values, each, s->maker, s->num, &z->first_made, &z->made);
    invert_pairs(scratch, s->num_values, s->first_use, s->use, s->num, &z->first_read, &z->read);
  }
  z->ready = msc_new_array(scratch, uint64_t, s->num);
  z->end = msc_new_array(scratch, uint64_t, s->num);
  z->pending = msc_new_array(scratch, uint32_t, s->num);
  z->unread = msc_new_array(scratch, uint32_t, s->num_values);
  z->listed = msc_new_array(scratch, bool, s->num);
  z->order = msc_new_array(scratch, uint32_t, s->num);
  z->later = (queue){z, true, msc_new_array(scratch, uint32_t, s->num), 0};
  size_t of_stream[MSC_MAX_STREAMS] = {0};
  for (size_t i = 0; i < s->num; i++) of_stream[s->stream[i]]++;
  for (int l = 0; l < MSC_MAX_STREAMS; l++) {
    z->wait[l] = (queue){z, false, msc_new_array(scratch, uint32_t, of_stream[l]), 0};
    z->transfers[l] = msc_new_array(scratch, uint32_t, of_stream[l]);
  }
  return z;
}

/* ---- memory ---- */

static bool has_limit(const msc_stream_pass *z) { return z->made && z->s->limit != UINT64_MAX; }

static bool fits_in_memory(const msc_stream_pass *z, uint32_t piece) {
  uint64_t more = 0;
  if (!has_limit(z)) return true;
  for (uint32_t k = z->first_made[piece]; k < z->first_made[piece + 1]; k++) more += z->s->bytes[z->made[k]];
  return z->live + more <= z->s->limit;
}

static void free_operands(msc_stream_pass *z, uint32_t piece) {
  for (uint32_t k = z->first_read[piece]; k < z->first_read[piece + 1]; k++)
    if (--z->unread[z->read[k]] == 0) z->live -= z->s->bytes[z->read[k]];
}

static void make_values(msc_stream_pass *z, uint32_t piece) {
  for (uint32_t k = z->first_made[piece]; k < z->first_made[piece + 1]; k++)
    if (z->unread[z->made[k]]) z->live += z->s->bytes[z->made[k]];
}

/* Frees the operands of every transfer that ends at or before `now`. */
static void retire_transfers(msc_stream_pass *z) {
  for (int l = 1; l < MSC_MAX_STREAMS && has_limit(z); l++)
    while (z->finished[l] < z->started[l] && z->end[z->transfers[l][z->finished[l]]] <= z->now)
      free_operands(z, z->transfers[l][z->finished[l]++]);
}

/* ---- taking ---- */

static void mark_ready(msc_stream_pass *z, uint32_t piece) {
  int l = z->s->stream[piece];
  for (uint32_t k = z->first_before[piece]; k < z->first_before[piece + 1]; k++)
    if (z->end[z->before[k]] > z->ready[piece]) z->ready[piece] = z->end[z->before[k]];
  if (l || z->ready[piece] <= z->now) push_piece(&z->wait[l], piece);
  else push_piece(&z->later, piece);
}

static void add_to_order(msc_stream_pass *z, uint32_t piece, uint64_t end) {
  z->end[piece] = end;
  z->listed[piece] = true;
  z->order[z->num_listed++] = piece;
  while (z->head < z->s->num && z->listed[z->head]) z->head++;
  if (has_limit(z)) make_values(z, piece);
  for (uint32_t k = z->first_next[piece]; k < z->first_next[piece + 1]; k++)
    if (--z->pending[z->next[k]] == 0) mark_ready(z, z->next[k]);
}

static void start_link(msc_stream_pass *z, uint32_t piece) {
  int l = z->s->stream[piece];
  uint64_t begin = z->link[l] > z->now ? z->link[l] : z->now;
  if (z->ready[piece] > begin) begin = z->ready[piece];
  z->link[l] = begin + z->s->ns[piece];
  z->transfers[l][z->started[l]++] = piece;
  add_to_order(z, piece, z->link[l]);
}

static void run_compute(msc_stream_pass *z, uint32_t piece) {
  z->now += z->s->ns[piece];
  add_to_order(z, piece, z->now);
  if (has_limit(z)) free_operands(z, piece);
}

static void drop_listed(queue *h) {
  while (h->num && h->z->listed[h->item[0]]) pop_piece(h);
}

/* Starts on links every piece that can start before `until`; true if any did. */
static bool feed_links(msc_stream_pass *z, uint64_t until) {
  bool any = false;
  for (int l = 1; l < MSC_MAX_STREAMS; l++)
    for (;;) {
      drop_listed(&z->wait[l]);
      if (!z->wait[l].num || z->link[l] >= until || !fits_in_memory(z, z->wait[l].item[0])) break;
      start_link(z, pop_piece(&z->wait[l]));
      any = true;
    }
  return any;
}

static void wake_compute(msc_stream_pass *z) {
  for (drop_listed(&z->later); z->later.num && z->ready[z->later.item[0]] <= z->now; drop_listed(&z->later))
    push_piece(&z->wait[0], pop_piece(&z->later));
  drop_listed(&z->wait[0]);
}

/* Runs the first unlisted piece in program order as soon as it can start: nothing else fits within the limit of
 * memory. */
static void run_first_unlisted(msc_stream_pass *z) {
  uint32_t piece = (uint32_t)z->head;
  if (z->s->stream[piece]) {
    start_link(z, piece);
    return;
  }
  if (z->ready[piece] > z->now) z->now = z->ready[piece];
  run_compute(z, piece);
}

static void run_next(msc_stream_pass *z) {
  retire_transfers(z);
  wake_compute(z);
  if (z->wait[0].num) {
    uint32_t piece = z->wait[0].item[0];
    if (!fits_in_memory(z, piece)) {
      run_first_unlisted(z);
      return;
    }
    uint64_t until = z->now + z->s->ns[piece];
    if (feed_links(z, until > z->now ? until : z->now + 1)) return; /* a piece that they make ready may come first */
    run_compute(z, pop_piece(&z->wait[0]));
    return;
  }
  uint64_t until = z->later.num ? z->ready[z->later.item[0]] : UINT64_MAX;
  if (feed_links(z, until)) return;
  if (z->later.num) z->now = until;
  else run_first_unlisted(z);
}

const uint64_t *msc_stream_pass_run(msc_stream_pass *z, const int64_t *key, uint32_t *out_order) {
  const msc_streams *s = z->s;
  z->key = key;
  z->now = z->live = 0;
  z->head = z->num_listed = z->later.num = 0;
  for (int l = 0; l < MSC_MAX_STREAMS; l++) z->link[l] = 0, z->wait[l].num = z->finished[l] = z->started[l] = 0;
  memset(z->listed, 0, s->num * sizeof *z->listed);
  memset(z->ready, 0, s->num * sizeof *z->ready);
  for (size_t v = 0; v < s->num_values; v++) z->unread[v] = s->first_use[v + 1] - s->first_use[v];
  for (uint32_t i = 0; i < s->num; i++) z->pending[i] = z->first_before[i + 1] - z->first_before[i];
  for (uint32_t i = 0; i < s->num; i++)
    if (!z->pending[i]) mark_ready(z, i);
  while (z->num_listed < s->num) run_next(z);
  if (out_order) memcpy(out_order, z->order, s->num * sizeof *out_order);
  return z->end;
}
