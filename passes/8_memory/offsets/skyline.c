/* skyline.c: the height of a stack by section: a segment tree that returns the maximum of a range, and sets a range,
 * in O(log sections). */
#include "passes/8_memory/offsets/bodies.h"

struct msc_skyline {
  size_t width;  /* number of leaves, a power of two */
  int64_t *top;  /* by node: the largest height below it */
  int64_t *flat; /* by node: the height that its whole range was set to since; -1: not set as a whole */
};

msc_skyline *msc_skyline_new(const msc_placing *z) {
  msc_skyline *y = msc_new(z->arena, msc_skyline);
  y->width = 1;
  while (y->width < z->num_sections) y->width *= 2;
  y->top = msc_new_array(z->arena, int64_t, 2 * y->width);
  y->flat = msc_new_array(z->arena, int64_t, 2 * y->width);
  for (size_t i = 0; i < 2 * y->width; i++) y->flat[i] = -1;
  return y;
}

/* The largest height in [from, to); the node covers [low, high). */
static int64_t range_top(const msc_skyline *y, size_t node, size_t low, size_t high, size_t from, size_t to) {
  if (from <= low && high <= to) return y->top[node];
  if (y->flat[node] >= 0) return y->flat[node];
  size_t middle = (low + high) / 2;
  int64_t left = from < middle ? range_top(y, 2 * node, low, middle, from, to) : 0;
  return to > middle ? msc_max(left, range_top(y, 2 * node + 1, middle, high, from, to)) : left;
}

static void set_range_top(msc_skyline *y, size_t node, size_t low, size_t high, size_t from, size_t to, int64_t top) {
  if (from <= low && high <= to) {
    y->top[node] = y->flat[node] = top;
    return;
  }
  size_t middle = (low + high) / 2;
  if (y->flat[node] >= 0) {
    for (size_t child = 2 * node; child <= 2 * node + 1; child++) y->top[child] = y->flat[child] = y->flat[node];
    y->flat[node] = -1;
  }
  if (from < middle) set_range_top(y, 2 * node, low, middle, from, to, top);
  if (to > middle) set_range_top(y, 2 * node + 1, middle, high, from, to, top);
  y->top[node] = msc_max(y->top[2 * node], y->top[2 * node + 1]);
}

int64_t msc_skyline_drop(msc_skyline *y, const msc_body *b) {
  int64_t offset = range_top(y, 1, 0, y->width, b->from, b->to);
  set_range_top(y, 1, 0, y->width, b->from, b->to, offset + b->height);
  return offset;
}
