/* repair_windows.c: lowers a plan of many bodies that exceeds the goal in few places, by placing the bodies around
 * these places again, beside the rest. */
#include <string.h>

#include "passes/8_memory/offsets/bodies.h"

enum { MOST_OUT = 100, MOST_BODIES = 900, NODES_OF_BODY = 12, SHARE_OF_TIME = 8 };

typedef struct {
  uint32_t from, to; /* sections */
} window;

typedef struct {
  msc_placing *z;
  int64_t *offset;
  uint32_t *body; /* bodies of the current window */
} repair;

static int64_t body_top(const repair *p, uint32_t i) { return p->offset[i] + p->z->body[i].height; }

static uint32_t highest_body(const repair *p) {
  uint32_t top = 0;
  for (uint32_t i = 1; i < p->z->num; i++)
    if (body_top(p, i) > body_top(p, top)) top = i;
  return top;
}

static size_t num_above_goal(const repair *p) {
  size_t num = 0;
  for (uint32_t i = 0; i < p->z->num; i++) num += body_top(p, i) > p->z->goal;
  return num;
}

static bool is_inside_window(const msc_body *b, window w) { return b->from >= w.from && b->to <= w.to; }
static bool overlaps_window(const msc_body *b, window w) { return b->from < w.to && b->to > w.from; }

/* The window around the lifetime of b that contains `num` bodies, or all sections. */
static window window_around(const msc_placing *z, const msc_body *b, size_t num) {
  window w = {b->from, b->to};
  size_t inside = 0;
  for (uint32_t by = 1; inside < num && (w.from > 0 || w.to < z->num_sections); by *= 2) {
    w.from = w.from > by ? w.from - by : 0;
    w.to = w.to + by < z->num_sections ? w.to + by : (uint32_t)z->num_sections;
    inside = 0;
    for (size_t i = 0; i < z->num; i++) inside += is_inside_window(&z->body[i], w);
  }
  return w;
}

/* Lists the bodies of a window, those inside first, and returns how many there are. */
static size_t list_window_bodies(const repair *p, window w, size_t *out_inside) {
  const msc_placing *z = p->z;
  size_t num = 0;
  for (uint32_t i = 0; i < z->num; i++)
    if (is_inside_window(&z->body[i], w)) p->body[num++] = i;
  *out_inside = num;
  for (uint32_t i = 0; i < z->num && num <= MOST_BODIES; i++)
    if (!is_inside_window(&z->body[i], w) && overlaps_window(&z->body[i], w)) p->body[num++] = i;
  return num;
}

/* Places the bodies inside the window again; false: they became no lower than `top`. */
static bool place_window(repair *p, window w, int64_t top) {
  msc_placing *z = p->z;
  size_t inside, num = list_window_bodies(p, w, &inside);
  if (num > MOST_BODIES) return false;
  msc_buffer *b = msc_new_array(z->arena, msc_buffer, num);
  uint64_t *fixed = msc_new_array(z->arena, uint64_t, num), *offset = msc_new_array(z->arena, uint64_t, num);
  for (size_t i = 0; i < num; i++) {
    const msc_body *k = &z->body[p->body[i]];
    b[i] = (msc_buffer){k->from > w.from ? k->from : w.from, k->to < w.to ? k->to : w.to, (uint64_t)k->height};
    fixed[i] = i < inside ? MSC_OFFSET_FREE : (uint64_t)p->offset[p->body[i]];
  }
  msc_offsets_options o = {.capacity = (uint64_t)z->goal,
                           .node_limit = NODES_OF_BODY * num,
                           .time_limit_s = msc_placing_seconds_left(z) / SHARE_OF_TIME,
                           .fixed = fixed};
  msc_offsets_result r = msc_find_offsets(z->arena, num, b, &o, offset);
  z->nodes += r.nodes * num / z->num + 1; /* a node of a smaller problem takes less time */
  int64_t became = 0;
  for (size_t i = 0; i < inside; i++)
    if ((int64_t)(offset[i] + b[i].bytes) > became) became = (int64_t)(offset[i] + b[i].bytes);
  if (became >= top) return false;
  for (size_t i = 0; i < inside; i++) p->offset[p->body[i]] = (int64_t)offset[i];
  return true;
}

void msc_place_repair_windows(msc_placing *z) {
  static const size_t sizes[] = {25, 75, 200, 500};
  repair p = {z, msc_new_array(z->arena, int64_t, z->num), msc_new_array(z->arena, uint32_t, z->num)};
  memcpy(p.offset, z->best, z->num * sizeof *z->best);
  if (!msc_placing_is_plain(z) || num_above_goal(&p) > MOST_OUT) return;
  for (bool lower = true; lower;) {
    uint32_t i = highest_body(&p);
    lower = false;
    for (size_t k = 0;
         k < sizeof sizes / sizeof *sizes && !lower && body_top(&p, i) > z->goal && !msc_placing_limit_reached(z); k++)
      lower = place_window(&p, window_around(z, &z->body[i], sizes[k]), body_top(&p, i));
  }
  msc_placing_keep(z, p.offset);
}
