/* progress.c: exchanges between GPUs in; their errors, and the exchange that began last, out; ends them after a
 * failure. */
#include <sched.h>
#include <stdio.h>

#include "runtime/cuda/nccl.h"
#include "runtime/wait.h"

/* ---- NCCL's answers ---- */

static mscrt_status *report_refusal(mscrt_context *c, nccl_comm comm, nccl_result r, const char *what) {
  const mscrt_nccl_api *n = &mscrt_cuda_of(c)->links->nccl;
  const char *more = n->ncclGetLastError(comm);
  char clean[200];
  return mscrt_fail(r == MSCRT_ncclRemoteError ? MSCRT_PEER : MSCRT_ENVIRONMENT, "rank %d: NCCL: %s: %s%s%s", c->o.rank,
                    what, n->ncclGetErrorString(r), more && *more ? ": " : "",
                    more ? mscrt_clean_text(more, SIZE_MAX, clean, sizeof clean) : "");
}

mscrt_status *mscrt_links_check(mscrt_context *c, nccl_comm comm, nccl_result r, const char *what) {
  const mscrt_nccl_api *n = &mscrt_cuda_of(c)->links->nccl;
  int64_t deadline = mscrt_now_ns() + (int64_t)c->o.timeout_ms * 1000000;
  while (r == MSCRT_ncclInProgress) {
    nccl_result asked = n->ncclCommGetAsyncError(comm, &r);
    if (asked) return report_refusal(c, comm, asked, what);
    if (r != MSCRT_ncclInProgress) break;
    MSCRT_CHECK(c->transport->lost(c->comm, what));
    if (mscrt_now_ns() > deadline)
      return mscrt_fail(MSCRT_PEER, "rank %d: NCCL: %s: other ranks have not come within %d ms", c->o.rank, what,
                        c->o.timeout_ms);
    sched_yield();
  }
  return r ? report_refusal(c, comm, r, what) : NULL;
}

/* ---- progress ---- */

const char *mscrt_links_describe(const mscrt_record *r, char text[MSCRT_LINKS_TEXT]) {
  bool message = r->kind == PLAN_CALL_KIND_MESSAGE;
  const char *what = message ? r->receives ? "the receipt of" : "the sending of" : msc_verb_name(r->part[0].e->verb);
  size_t n = (size_t)snprintf(text, MSCRT_LINKS_TEXT, "%s %s%s%s", what, r->name ? r->name : "", r->loc ? " at " : "",
                              r->loc ? r->loc : "");
  if (message && n < MSCRT_LINKS_TEXT) snprintf(text + n, MSCRT_LINKS_TEXT - n, " (rank %d)", r->channel.peer);
  for (int i = 0; !message && i < r->part[0].e->group.num && n + 16 < MSCRT_LINKS_TEXT; i++)
    n += (size_t)snprintf(text + n, MSCRT_LINKS_TEXT - n, "%s%d%s", i ? "," : " (ranks ", r->part[0].e->group.member[i],
                          i + 1 == r->part[0].e->group.num ? ")" : "");
  return text;
}

/* volatile: the GPU writes it at any time. */
uint32_t mscrt_links_begun(const mscrt_links *l) { return *(volatile uint32_t *)l->begun; }

const char *mscrt_links_last_begun(const mscrt_links *l, char text[MSCRT_LINKS_TEXT]) {
  uint32_t begun = mscrt_links_begun(l);
  return begun && begun <= l->num_watched ? mscrt_links_describe(l->watched[begun], text) : NULL;
}

mscrt_status *mscrt_links_check_async(mscrt_context *c) {
  mscrt_links *l = mscrt_cuda_of(c)->links;
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < l->num_comms && !s; i++)
    if (l->comm[i]) s = mscrt_links_check(c, l->comm[i], MSCRT_ncclInProgress, "collectives");
  for (uint32_t i = 0; i < l->num_channels && !s; i++)
    if (l->channel[i].comm) s = mscrt_links_check(c, l->channel[i].comm, MSCRT_ncclInProgress, "messages");
  return s;
}

/* ---- the end ---- */

/* Aborts all communicators in one group: each waits for its kernels, which may stand behind another's in a stream. */
void mscrt_links_abort(mscrt_links *l) {
  if (!l || l->aborted || !l->nccl.ncclGroupStart) return;
  l->aborted = true;
  l->nccl.ncclGroupStart();
  for (uint32_t i = 0; i < l->num_channels && l->channel; i++)
    if (l->channel[i].comm) l->nccl.ncclCommAbort(l->channel[i].comm);
  for (uint32_t i = l->num_comms; l->comm && i-- > 0;)
    if (l->comm[i]) l->nccl.ncclCommAbort(l->comm[i]);
  l->nccl.ncclGroupEnd();
}
