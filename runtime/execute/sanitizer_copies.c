/* sanitizer_copies.c: copies the buffers of a call to separate memory, and back (see sanitizer_copies.h). */
#include "runtime/execute/sanitizer_copies.h"

#include <stdlib.h>
#include <string.h>

/* A range of memory that a call uses, and its copy; buffers that overlap are in the same region. */
typedef struct {
  char *begin, *end, *copy;
} region;

struct mscrt_guard {
  const mscrt_record *record;
  uint32_t num, num_own; /* number of buffers; of those that are not of the epilogue */
  char **place;          /* by buffer: its address; NULL: a tile, which belongs to the worker */
  const plan_ref **ref;
  void **copy;
  uint32_t num_regions;
  region *region;
};

static void add_buffers(mscrt_guard *g, const mscrt_record *r, void *const *buffers) {
  for (uint32_t i = 0; i < r->num_buffers; i++, g->num++) {
    g->place[g->num] = buffers[i];
    g->ref[g->num] = &r->ref[i];
  }
}

static bool regions_overlap(const region *a, const region *b) { return a->begin < b->end && b->begin < a->end; }

static void merge_region(mscrt_guard *g, region r) {
  for (uint32_t i = 0; i < g->num_regions; i++) {
    if (!regions_overlap(&g->region[i], &r)) continue;
    if (g->region[i].begin < r.begin) r.begin = g->region[i].begin;
    if (g->region[i].end > r.end) r.end = g->region[i].end;
    g->region[i] = g->region[--g->num_regions];
    i = UINT32_MAX; /* start again: the larger region may overlap others */
  }
  g->region[g->num_regions++] = r;
}

static mscrt_status *copy_regions(mscrt_guard *g) {
  for (uint32_t i = 0; i < g->num; i++)
    if (g->place[i]) merge_region(g, (region){g->place[i], g->place[i] + g->ref[i]->bytes, NULL});
  for (uint32_t i = 0; i < g->num_regions; i++) {
    region *r = &g->region[i];
    size_t bytes = (size_t)(r->end - r->begin);
    if (posix_memalign((void **)&r->copy, 64, bytes ? bytes : 1))
      return mscrt_fail(MSCRT_NO_MEMORY, "no memory for a copy of %zu bytes", bytes);
    if (bytes) memcpy(r->copy, r->begin, bytes);
  }
  return NULL;
}

static const region *find_region(const mscrt_guard *g, uint32_t i) {
  for (uint32_t k = 0; k < g->num_regions; k++)
    if (g->place[i] >= g->region[k].begin && g->place[i] + g->ref[i]->bytes <= g->region[k].end) return &g->region[k];
  return NULL;
}

static void free_guard(mscrt_guard *g) {
  for (uint32_t i = 0; i < g->num_regions; i++) free(g->region[i].copy);
  free(g->place);
  free(g->ref);
  free(g->copy);
  free(g->region);
  free(g);
}

static mscrt_status *fill_guard(mscrt_guard *g, void *const *buffers, void *const *epilogue) {
  const mscrt_record *r = g->record;
  uint32_t num = r->num_buffers + (r->epilogue ? r->epilogue->num_buffers : 0);
  MSCRT_CHECK(mscrt_new_array(&g->place, num + 1));
  MSCRT_CHECK(mscrt_new_array(&g->ref, num + 1));
  MSCRT_CHECK(mscrt_new_array(&g->copy, num + 1));
  MSCRT_CHECK(mscrt_new_array(&g->region, num + 1));
  add_buffers(g, r, buffers);
  g->num_own = g->num;
  if (r->epilogue) add_buffers(g, r->epilogue, epilogue);
  MSCRT_CHECK(copy_regions(g));
  for (uint32_t i = 0; i < g->num; i++) {
    const region *at = g->place[i] ? find_region(g, i) : NULL;
    g->copy[i] = at ? at->copy + (g->place[i] - at->begin) : NULL;
  }
  return NULL;
}

mscrt_status *mscrt_guard_open(const mscrt_record *r, void *const *buffers, void *const *epilogue, mscrt_guard **out) {
  mscrt_guard *g;
  *out = NULL;
  MSCRT_CHECK(mscrt_new_array(&g, 1));
  g->record = r;
  mscrt_status *s = fill_guard(g, buffers, epilogue);
  if (s) free_guard(g);
  else *out = g;
  return s;
}

void *const *mscrt_guard_buffers(const mscrt_guard *g) { return g->copy; }
void *const *mscrt_guard_epilogue(const mscrt_guard *g) { return g->copy + g->num_own; }

mscrt_status *mscrt_guard_close(mscrt_guard *g, const mscrt_context *c, int64_t step) {
  const mscrt_record *r = g->record;
  mscrt_status *s = NULL;
  for (uint32_t i = 0; i < g->num; i++)
    if (g->place[i] && g->ref[i]->written) memcpy(g->place[i], g->copy[i], g->ref[i]->bytes);
  for (uint32_t i = 0; i < g->num && !s; i++)
    if (g->place[i] && memcmp(g->place[i], g->copy[i], g->ref[i]->bytes))
      s = mscrt_fail(MSCRT_INPUT, "rank %d: step %" PRId64 ": %s: it wrote to buffer %u, which it only reads",
                     c->o.rank, mscrt_step_number(step), r->name ? r->name : "a call", i);
  free_guard(g);
  return s;
}
