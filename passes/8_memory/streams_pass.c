/* streams_pass.c: keys of pieces in, an order out (see streams_pass.h).
 *
 * Before compute goes on, every link that would fall idle until that piece ends is given the first of those that wait
 * for it.  Where the limit of memory would be passed, a link is given nothing and compute goes on in program order. */
#include "passes/8_memory/streams_pass.h"

#include <string.h>

/* ---- heaps of pieces ---- */

typedef struct {
  uint32_t *item;
  size_t num;
} heap;

struct msc_stream_pass {
  const msc_streams *s;
  bool backward;
  uint32_t *first_next, *next;        /* piece i lets next[first_next[i]] .. go on */
  const uint32_t *first_before, *before;
  uint32_t *first_made, *made;        /* values of a piece */
  uint32_t *first_read, *read;        /* values that a piece uses */
  const int64_t *key;
  uint64_t *ready, *end;              /* by piece: what it waits for has ended; it has */
  uint32_t *pending, *unread;         /* by piece: how many it waits for; by value: uses that have not ended */
  bool *listed;
  heap wait[MSC_MAX_STREAMS];         /* by key: pieces that may be taken; of compute: now */
  heap later;                         /* by `ready`: of compute */
  uint32_t *flying[MSC_MAX_STREAMS];  /* given to a link, in order */
  size_t landed[MSC_MAX_STREAMS], flown[MSC_MAX_STREAMS];
  uint64_t now, link[MSC_MAX_STREAMS], live;
  size_t head, num_listed;            /* pieces before head are all listed */
  uint32_t *order;
};

static bool before(const msc_stream_pass *z, bool by_time, uint32_t a, uint32_t b) {
  if (by_time && z->ready[a] != z->ready[b]) return z->ready[a] < z->ready[b];
  if (!by_time && z->key[a] != z->key[b]) return z->key[a] < z->key[b];
  return z->backward ? a > b : a < b;
}

static void push(const msc_stream_pass *z, heap *h, bool by_time, uint32_t piece) {
  size_t i = h->num++;
  for (; i && before(z, by_time, piece, h->item[(i - 1) / 2]); i = (i - 1) / 2) h->item[i] = h->item[(i - 1) / 2];
  h->item[i] = piece;
}

static uint32_t pop(const msc_stream_pass *z, heap *h, bool by_time) {
  uint32_t top = h->item[0], last = h->item[--h->num];
  size_t i = 0;
  for (size_t k; (k = 2 * i + 1) < h->num; i = k) {
    if (k + 1 < h->num && before(z, by_time, h->item[k + 1], h->item[k])) k++;
    if (!before(z, by_time, h->item[k], last)) break;
    h->item[i] = h->item[k];
  }
  h->item[i] = last;
  return top;
}

/* ---- lists by piece ---- */

/* Turns a list of pairs (from, to) around: who has `to` in his list? */
static void turn(msc_arena *scratch, size_t num_from, const uint32_t *first, const uint32_t *to, size_t num_to,
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
  turn(scratch, s->num, s->first, s->before, s->num, &first_after, &after);
  z->first_next = backward ? (uint32_t *)(uintptr_t)s->first : first_after;
  z->next = backward ? (uint32_t *)(uintptr_t)s->before : after;
  z->first_before = backward ? first_after : s->first;
  z->before = backward ? after : s->before;
  for (uint32_t v = 0; v <= s->num_values; v++) each[v] = v;
  if (!backward && s->num_values) {
    turn(scratch, s->num_values, each, s->maker, s->num, &z->first_made, &z->made);
    turn(scratch, s->num_values, s->first_use, s->use, s->num, &z->first_read, &z->read);
  }
  z->ready = msc_new_array(scratch, uint64_t, s->num);
  z->end = msc_new_array(scratch, uint64_t, s->num);
  z->pending = msc_new_array(scratch, uint32_t, s->num);
  z->unread = msc_new_array(scratch, uint32_t, s->num_values);
  z->listed = msc_new_array(scratch, bool, s->num);
  z->order = msc_new_array(scratch, uint32_t, s->num);
  z->later.item = msc_new_array(scratch, uint32_t, s->num);
  size_t of_stream[MSC_MAX_STREAMS] = {0};
  for (size_t i = 0; i < s->num; i++) of_stream[s->stream[i]]++;
  for (int l = 0; l < MSC_MAX_STREAMS; l++) {
    z->wait[l].item = msc_new_array(scratch, uint32_t, of_stream[l]);
    z->flying[l] = msc_new_array(scratch, uint32_t, of_stream[l]);
  }
  return z;
}

/* ---- memory ---- */

static bool has_limit(const msc_stream_pass *z) { return z->made && z->s->limit != UINT64_MAX; }

static bool fits(const msc_stream_pass *z, uint32_t piece) {
  uint64_t more = 0;
  if (!has_limit(z)) return true;
  for (uint32_t k = z->first_made[piece]; k < z->first_made[piece + 1]; k++) more += z->s->bytes[z->made[k]];
  return z->live + more <= z->s->limit;
}

static void free_read(msc_stream_pass *z, uint32_t piece) {
  for (uint32_t k = z->first_read[piece]; k < z->first_read[piece + 1]; k++)
    if (--z->unread[z->read[k]] == 0) z->live -= z->s->bytes[z->read[k]];
}

static void make_values(msc_stream_pass *z, uint32_t piece) {
  for (uint32_t k = z->first_made[piece]; k < z->first_made[piece + 1]; k++)
    if (z->unread[z->made[k]]) z->live += z->s->bytes[z->made[k]];
}

/* What links have done by now lets go of its operands. */
static void land(msc_stream_pass *z) {
  for (int l = 1; l < MSC_MAX_STREAMS && has_limit(z); l++)
    while (z->landed[l] < z->flown[l] && z->end[z->flying[l][z->landed[l]]] <= z->now)
      free_read(z, z->flying[l][z->landed[l]++]);
}

/* ---- taking ---- */

static void is_free(msc_stream_pass *z, uint32_t piece) {
  int l = z->s->stream[piece];
  for (uint32_t k = z->first_before[piece]; k < z->first_before[piece + 1]; k++)
    if (z->end[z->before[k]] > z->ready[piece]) z->ready[piece] = z->end[z->before[k]];
  if (l || z->ready[piece] <= z->now) push(z, &z->wait[l], false, piece);
  else push(z, &z->later, true, piece);
}

static void list(msc_stream_pass *z, uint32_t piece, uint64_t end) {
  z->end[piece] = end;
  z->listed[piece] = true;
  z->order[z->num_listed++] = piece;
  while (z->head < z->s->num && z->listed[z->head]) z->head++;
  if (has_limit(z)) make_values(z, piece);
  for (uint32_t k = z->first_next[piece]; k < z->first_next[piece + 1]; k++)
    if (--z->pending[z->next[k]] == 0) is_free(z, z->next[k]);
}

static void start_link(msc_stream_pass *z, uint32_t piece) {
  int l = z->s->stream[piece];
  uint64_t begin = z->link[l] > z->now ? z->link[l] : z->now;
  if (z->ready[piece] > begin) begin = z->ready[piece];
  z->link[l] = begin + z->s->ns[piece];
  z->flying[l][z->flown[l]++] = piece;
  list(z, piece, z->link[l]);
}

static void run_compute(msc_stream_pass *z, uint32_t piece) {
  z->now += z->s->ns[piece];
  list(z, piece, z->now);
  if (has_limit(z)) free_read(z, piece);
}

static void drop_listed(msc_stream_pass *z, heap *h, bool by_time) {
  while (h->num && z->listed[h->item[0]]) pop(z, h, by_time);
}

/* Gives links what they can start before `until`; whether any was given. */
static bool feed_links(msc_stream_pass *z, uint64_t until) {
  bool any = false;
  for (int l = 1; l < MSC_MAX_STREAMS; l++)
    for (;;) {
      drop_listed(z, &z->wait[l], false);
      if (!z->wait[l].num || z->link[l] >= until || !fits(z, z->wait[l].item[0])) break;
      start_link(z, pop(z, &z->wait[l], false));
      any = true;
    }
  return any;
}

static void wake(msc_stream_pass *z) {
  for (drop_listed(z, &z->later, true); z->later.num && z->ready[z->later.item[0]] <= z->now;
       drop_listed(z, &z->later, true))
    push(z, &z->wait[0], false, pop(z, &z->later, true));
  drop_listed(z, &z->wait[0], false);
}

/* Where the limit is passed anyway: the first piece in program order, as soon as it can run. */
static void take_head(msc_stream_pass *z) {
  uint32_t piece = (uint32_t)z->head;
  if (z->s->stream[piece]) {
    start_link(z, piece);
    return;
  }
  if (z->ready[piece] > z->now) z->now = z->ready[piece];
  run_compute(z, piece);
}

static void take_one(msc_stream_pass *z) {
  land(z);
  wake(z);
  if (z->wait[0].num) {
    uint32_t piece = z->wait[0].item[0];
    if (!fits(z, piece)) {
      take_head(z);
      return;
    }
    uint64_t until = z->now + z->s->ns[piece];
    if (feed_links(z, until > z->now ? until : z->now + 1)) return; /* what they free may come first */
    run_compute(z, pop(z, &z->wait[0], false));
    return;
  }
  uint64_t until = z->later.num ? z->ready[z->later.item[0]] : UINT64_MAX;
  if (feed_links(z, until)) return;
  if (z->later.num) z->now = until;
  else take_head(z);
}

const uint64_t *msc_stream_pass_run(msc_stream_pass *z, const int64_t *key, uint32_t *out_order) {
  const msc_streams *s = z->s;
  z->key = key;
  z->now = z->live = 0;
  z->head = z->num_listed = z->later.num = 0;
  for (int l = 0; l < MSC_MAX_STREAMS; l++) z->link[l] = 0, z->wait[l].num = z->landed[l] = z->flown[l] = 0;
  memset(z->listed, 0, s->num * sizeof *z->listed);
  memset(z->ready, 0, s->num * sizeof *z->ready);
  for (size_t v = 0; v < s->num_values; v++) z->unread[v] = s->first_use[v + 1] - s->first_use[v];
  for (uint32_t i = 0; i < s->num; i++) z->pending[i] = z->first_before[i + 1] - z->first_before[i];
  for (uint32_t i = 0; i < s->num; i++)
    if (!z->pending[i]) is_free(z, i);
  while (z->num_listed < s->num) take_one(z);
  if (out_order) memcpy(out_order, z->order, s->num * sizeof *out_order);
  return z->end;
}
