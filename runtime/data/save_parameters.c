/* save_parameters.c: whole parameters of all ranks in; one safetensors file, which rank 0 writes, out. */
#include <stdlib.h>

#include "runtime/data/json.h"
#include "runtime/memory/memory.h"
#include "runtime/server/share.h"

static bool is_in_checkpoint(const mscrt_variable *v) { return !v->copy && !v->state; }

static mscrt_status *write_slice_header(const mscrt_plan *p, const mscrt_file *f) {
  mscrt_header h;
  MSCRT_CHECK(mscrt_header_begin(&h));
  for (uint32_t i = 0; i < p->num_parameters; i++) {
    const mscrt_variable *v = &p->parameter[i];
    if (is_in_checkpoint(v)) mscrt_header_add(&h, v->name, v->dtype, v->model_rank, v->model_shape);
  }
  MSCRT_CHECK(mscrt_header_end(&h));
  mscrt_status *s = mscrt_file_write(f, h.text, h.bytes);
  free(h.text);
  return s;
}

/* A failure of rank 0 must not leave the others waiting: rank 0 goes on taking part, and all ranks learn of it at
 * the end. */
mscrt_status *mscrt_save(mscrt_context *c, const char *path) {
  MSCRT_NEEDS(c && path);
  MSCRT_CHECK(mscrt_check_holds_values(c));
  mscrt_file f = {.fd = -1};
  mscrt_status *s = NULL, *lost = NULL;
  bool writes = c->o.rank == 0, begun = false;
  MSCRT_CHECK(mscrt_pull_settled(c, false));
  if (writes) s = mscrt_file_begin(path, &f);
  begun = writes && !s;
  if (begun) s = write_slice_header(c->plan, &f);
  for (uint32_t i = 0; i < c->plan->num_parameters && !lost; i++) {
    const mscrt_variable *v = &c->plan->parameter[i];
    void *whole = NULL;
    if (!is_in_checkpoint(v)) continue;
    if (writes && !s) s = mscrt_allocate(&whole, (size_t)mscrt_whole_bytes(v), 1);
    lost = mscrt_gather(c, v, whole);
    if (whole && !lost && !s) s = mscrt_file_write(&f, whole, (size_t)mscrt_whole_bytes(v));
    free(whole);
  }
  if (begun) s = mscrt_file_end(&f, s ? s : mscrt_add_to_trail(lost, __FILE__, __LINE__));
  if (lost) {
    if (s && s != lost) mscrt_status_free(lost);
    return s ? s : lost;
  }
  uint64_t failed = 0;
  lost = mscrt_max(c, s != NULL, &failed);
  if (s) mscrt_status_free(lost);
  if (s || lost) return s ? s : lost;
  return failed ? mscrt_fail(MSCRT_PEER, "rank 0 could not save %s", path) : NULL;
}
