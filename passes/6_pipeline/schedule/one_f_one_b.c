/* one_f_one_b.c: the schedules given by a rule: gpipe, 1f1b, zb-h1, zb-h2. Stage i of p, m micro-batches. */
#include "passes/6_pipeline/schedule/order.h"

bool order_gpipe(msc_orders *b) {
  for (int i = 0; i < b->o->stages; i++) {
    for (int j = 0; j < b->o->micro_batches; j++) msc_order_put(b, i, MSC_FORWARD, 0);
    for (int j = 0; j < b->o->micro_batches; j++) msc_order_put(b, i, MSC_BACKWARD, 0);
  }
  return true;
}

/* Stage i: p - i - 1 forwards, then F and B in turn. The last stage begins with B at once, so at most p - i
 * micro-batches are in flight. */
bool order_1f1b(msc_orders *b) {
  int m = b->o->micro_batches;
  for (int i = 0; i < b->o->stages; i++) {
    int ahead = (int)msc_min(b->o->stages - i - 1, m);
    for (int j = 0; j < ahead; j++) msc_order_put(b, i, MSC_FORWARD, 0);
    for (int j = 0; j < m; j++) {
      if (ahead + j < m) msc_order_put(b, i, MSC_FORWARD, 0);
      msc_order_put(b, i, MSC_BACKWARD, 0);
    }
  }
  return true;
}

/* Appends `ahead` forwards, then B, W, F in turn, with W `late` micro-batches behind B. */
static void append_split_list(msc_orders *b, int stage, int ahead, int late) {
  int m = b->o->micro_batches;
  ahead = (int)msc_min(ahead, m);
  for (int j = 0; j < ahead; j++) msc_order_put(b, stage, MSC_FORWARD, 0);
  for (int j = 0; j < m; j++) {
    msc_order_put(b, stage, MSC_BACKWARD, 0);
    if (j >= late) msc_order_put(b, stage, MSC_WEIGHT, 0);
    if (ahead + j < m) msc_order_put(b, stage, MSC_FORWARD, 0);
  }
  for (int j = 0; j < (int)msc_min(late, m); j++) msc_order_put(b, stage, MSC_WEIGHT, 0);
}

bool order_zb_h1(msc_orders *b) {
  for (int i = 0; i < b->o->stages; i++) append_split_list(b, i, b->o->stages - i, i);
  return true;
}

bool order_zb_h2(msc_orders *b) {
  for (int i = 0; i < b->o->stages; i++) append_split_list(b, i, 2 * (b->o->stages - i) - 1, 2 * i);
  return true;
}
