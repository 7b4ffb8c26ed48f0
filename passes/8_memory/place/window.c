/* window.c: a plan of many bodies that sticks out of the goal in some places -> a lower one, by placing what lies
 * around these places anew, beside the rest. */
#include <string.h>

#include "passes/8_memory/place/placing.h"

enum { MOST_OUT = 100, MOST_BODIES = 900, NODES_OF_BODY = 12, SHARE_OF_TIME = 8 };

typedef struct {
  uint32_t from, to; /* sections */
} window;

typedef struct {
  msc_placing *z;
  int64_t *offset;
  uint32_t *body; /* of the window */
} repair;

static int64_t top_of(const repair *p, uint32_t i) { return p->offset[i] + p->z->body[i].height; }

static uint32_t uppermost(const repair *p) {
  uint32_t top = 0;
  for (uint32_t i = 1; i < p->z->num; i++)
    if (top_of(p, i) > top_of(p, top)) top = i;
  return top;
}

static size_t num_out(const repair *p) {
  size_t num = 0;
  for (uint32_t i = 0; i < p->z->num; i++) num += top_of(p, i) > p->z->goal;
  return num;
}

static bool is_inside(const msc_body *b, window w) { return b->from >= w.from && b->to <= w.to; }
static bool reaches_in(const msc_body *b, window w) { return b->from < w.to && b->to > w.from; }

/* Around the body's lifetime, as wide as is needed for `num` bodies, or all there is. */
static window around(const msc_placing *z, const msc_body *b, size_t num) {
  window w = {b->from, b->to};
  size_t inside = 0;
  for (uint32_t by = 1; inside < num && (w.from > 0 || w.to < z->num_sections); by *= 2) {
    w.from = w.from > by ? w.from - by : 0;
    w.to = w.to + by < z->num_sections ? w.to + by : (uint32_t)z->num_sections;
    inside = 0;
    for (size_t i = 0; i < z->num; i++) inside += is_inside(&z->body[i], w);
  }
  return w;
}

/* The bodies of a window: those inside first. */
static size_t list_bodies(const repair *p, window w, size_t *out_inside) {
  const msc_placing *z = p->z;
  size_t num = 0;
  for (uint32_t i = 0; i < z->num; i++)
    if (is_inside(&z->body[i], w)) p->body[num++] = i;
  *out_inside = num;
  for (uint32_t i = 0; i < z->num && num <= MOST_BODIES; i++)
    if (!is_inside(&z->body[i], w) && reaches_in(&z->body[i], w)) p->body[num++] = i;
  return num;
}

/* Those inside the window; false: they became no lower. */
static bool place_window(repair *p, window w, int64_t top) {
  msc_placing *z = p->z;
  size_t inside, num = list_bodies(p, w, &inside);
  if (num > MOST_BODIES) return false;
  msc_buffer *b = msc_new_array(z->arena, msc_buffer, num);
  uint64_t *fixed = msc_new_array(z->arena, uint64_t, num), *offset = msc_new_array(z->arena, uint64_t, num);
  for (size_t i = 0; i < num; i++) {
    const msc_body *k = &z->body[p->body[i]];
    b[i] = (msc_buffer){k->from > w.from ? k->from : w.from, k->to < w.to ? k->to : w.to, (uint64_t)k->height};
    fixed[i] = i < inside ? MSC_PLACE_FREE : (uint64_t)p->offset[p->body[i]];
  }
  msc_place_options o = {.capacity = (uint64_t)z->goal,
                         .node_limit = NODES_OF_BODY * num,
                         .time_limit_s = msc_placing_left(z) / SHARE_OF_TIME,
                         .fixed = fixed};
  msc_place_result r = msc_place(z->arena, num, b, &o, offset);
  z->nodes += r.nodes * num / z->num + 1; /* a node of fewer takes less */
  int64_t became = 0;
  for (size_t i = 0; i < inside; i++)
    if ((int64_t)(offset[i] + b[i].bytes) > became) became = (int64_t)(offset[i] + b[i].bytes);
  if (became >= top) return false;
  for (size_t i = 0; i < inside; i++) p->offset[p->body[i]] = (int64_t)offset[i];
  return true;
}

void msc_place_by_windows(msc_placing *z) {
  static const size_t sizes[] = {25, 75, 200, 500};
  repair p = {z, msc_new_array(z->arena, int64_t, z->num), msc_new_array(z->arena, uint32_t, z->num)};
  memcpy(p.offset, z->best, z->num * sizeof *z->best);
  if (!msc_placing_is_plain(z) || num_out(&p) > MOST_OUT) return;
  for (bool lower = true; lower;) {
    uint32_t i = uppermost(&p);
    lower = false;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes && !lower && top_of(&p, i) > z->goal && !msc_placing_spent(z);
         k++)
      lower = place_window(&p, around(z, &z->body[i], sizes[k]), top_of(&p, i));
  }
  msc_placing_keep(z, p.offset);
}
