/* predict.c: calls of a section and a described cluster -> the time of every call, of the whole, and what of it nothing hides.
 *
 * Two streams: kernels and products one after the other, collectives one after the other beside them.  A collective starts when
 * all calls before it have run and the link is free; a call waits for the collectives whose memory it touches, as the runtime
 * does (ir/hazard.h).  Exposed is the time in which only the link works. */
#include "codegen/plan.h"
#include "ir/hazard.h"
#include "passes/cost.h"

static int64_t transfer_ns(const msc_cost *cost, const msc_plan *p, const msc_plan_transfer *t) {
  static const msc_op_kind verbs[] = {[PLAN_VERB_ALL_REDUCE] = OP_all_reduce, [PLAN_VERB_ALL_GATHER] = OP_all_gather, [PLAN_VERB_REDUCE_SCATTER] = OP_reduce_scatter,
                                      [PLAN_VERB_ALL_TO_ALL] = OP_all_to_all, [PLAN_VERB_PERMUTE] = OP_permute, [PLAN_VERB_EXCHANGE] = OP_exchange,
                                      [PLAN_VERB_BROADCAST] = OP_broadcast, [PLAN_VERB_PAIRS] = OP_permute, [PLAN_VERB_HALO] = OP_permute};
  _Static_assert(sizeof verbs / sizeof *verbs == PLAN_VERB_HALO + 1, "a verb without a price");
  msc_cost_transfer of = {.verb = verbs[t->verb], .ranks = 1, .bytes = (int64_t)t->bytes};
  msc_subaxis group[MSC_MAX_SUBAXES];
  int num = 0;
  if (!t->axes || !msc_subaxis_parse(p->ctx, &p->module->mesh, NULL, t->axes, &num, group)) return 0;
  for (int i = 0; i < num; i++) {
    int level = msc_cost_level(cost, group[i]);
    if (level > of.level) of.level = level;
    of.ranks *= group[i].size;
  }
  of.peers = of.ranks - 1;
  return msc_cost_collective(cost, &of);
}

static void price_calls(msc_plan *p, const msc_cost *cost) {
  for (size_t s = 0; s < p->num_sections; s++)
    for (size_t i = 0; i < p->section[s].num_calls; i++) {
      msc_plan_call *c = &p->section[s].call[i];
      msc_dtype dtype = c->op && c->op->num_out ? c->op->out[0].type->dtype : MSC_F32;
      if (c->kind != PLAN_CALL_KIND_COLLECTIVE) c->predicted_ns = (uint64_t)msc_cost_work(cost, dtype, (double)c->flops, (double)c->bytes);
    }
  for (size_t i = 0; i < p->num_transfers; i++) {
    const msc_plan_transfer *t = &p->transfer[i];
    p->section[t->section].call[t->call].predicted_ns = (uint64_t)transfer_ns(cost, p, t);
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

static size_t put_spans(const msc_plan_call *c, msc_span *span) {
  size_t num = 0;
  for (size_t i = 0; i < c->num_buffers; i++)
    if (c->buffer[i].bytes) span[num++] = (msc_span){c->buffer[i].offset, c->buffer[i].offset + c->buffer[i].bytes, c->buffer[i].space, c->buffer[i].written, false};
  return c->epilogue ? num + put_spans(c->epilogue, span + num) : num;
}

static size_t most_spans(const msc_plan_section *s, size_t *out_total) {
  size_t most = 0;
  *out_total = 0;
  for (size_t i = 0; i < s->num_calls; i++) {
    size_t n = s->call[i].num_buffers + (s->call[i].epilogue ? s->call[i].epilogue->num_buffers : 0);
    if (n > most) most = n;
    if (s->call[i].kind == PLAN_CALL_KIND_COLLECTIVE) *out_total += n;
  }
  return most;
}

static void run_call(timeline *t, const msc_plan_call *c) {
  bool beside = c->kind == PLAN_CALL_KIND_COLLECTIVE && c->predicted_ns > 0; /* what stays on a rank costs nothing on links */
  msc_waits w = msc_hazards_next(&t->hazards, put_spans(c, t->span), t->span, beside);
  if (beside) {
    t->link = (t->link > t->now ? t->link : t->now) + c->predicted_ns;
    t->ends[t->hazards.started] = t->link;
    return;
  }
  if (w.run && t->ends[w.run] > t->now) {
    t->exposed += t->ends[w.run] - t->now;
    t->now = t->ends[w.run];
  }
  t->now += c->predicted_ns;
}

static void predict_section(const msc_plan *p, const msc_plan_section *s, uint64_t *out_ns, uint64_t *out_exposed) {
  size_t total, most = most_spans(s, &total);
  timeline t = {.span = msc_new_array(p->arena, msc_span, most), .ends = msc_new_array(p->arena, uint64_t, s->num_calls + 1)};
  t.hazards.pending = msc_new_array(p->arena, msc_pending, total);
  for (size_t i = 0; i < s->num_calls; i++) run_call(&t, &s->call[i]);
  *out_exposed = t.exposed + (t.link > t.now ? t.link - t.now : 0);
  *out_ns = t.link > t.now ? t.link : t.now;
}

void msc_plan_predict(msc_plan *p, const msc_cluster *cluster) {
  msc_cost cost;
  msc_cost_of(cluster, &p->module->mesh, &cost);
  price_calls(p, &cost);
  if (p->num_sections) predict_section(p, &p->section[0], &p->predicted_step_ns, &p->exposed_comm_ns);
}
