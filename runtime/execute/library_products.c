/* library_products.c: see library_products.h. */
#include "runtime/execute/library_products.h"

#include "runtime/comm/comm.h"
#include "runtime/kernels/onednn.h"
#include "runtime/trace/trace.h"
#include "runtime/wait.h"

/* ---- loading ---- */

/* What a context needs of the library. */
typedef struct {
  bool needed;      /* a product has no kernels */
  uint32_t wanted;  /* products that are computed there unless kernels were measured to be faster */
  bool may_measure; /* products may be measured there, or were */
} library_need;

static library_need need_of(const mscrt_context *c) {
  library_need n = {0};
  for (uint32_t i = 0; i < c->plan->num_matmuls && c->device->has_onednn; i++) {
    const mscrt_matmul *m = &c->plan->matmul[i];
    n.needed = n.needed || m->multiply == MSCRT_BY_LIBRARY;
    if (c->o.server) continue;
    n.wanted += m->library == PLAN_LIBRARY_USE_PREFERRED;
    n.may_measure = n.may_measure || (m->library && c->o.choices);
  }
  return n;
}

mscrt_status *mscrt_load_library(mscrt_context *c) {
  library_need n = need_of(c);
  if (!n.needed && !n.wanted && !n.may_measure) return NULL;
  mscrt_status *s = mscrt_library_open(c->threads, &c->library);
  if (!s || n.needed) return s;
  if (n.wanted) c->no_library = s;
  else mscrt_status_free(s);
  return NULL;
}

/* ---- tiles ---- */

static int64_t share_of(int64_t n, int64_t parts, int64_t unit) {
  int64_t part = (n + parts - 1) / parts;
  part = (part + unit - 1) / unit * unit;
  return part < n ? part : n;
}

/* Chooses as many tiles as the threads can share, each of at least some time by the estimate of prepare_calls.c: one of
 * a matrix for one thread, since the library packs what it needs again in each tile. */
void mscrt_give_to_library(const mscrt_context *c, mscrt_matmul *m) {
  enum { LEAST_NS = 12000, COLUMNS = 64, ROWS = 16, FEW_ROWS = 64 };
  int64_t most = c->threads / mscrt_smaller(m->batch, c->threads),
          ns = (m->m * m->k + m->k * m->n + m->m * m->n) / 2 + m->m * m->n * m->k / 8,
          parts = c->threads > 1 ? mscrt_smaller(most, ns / LEAST_NS) : 1;
  if (parts < 1) parts = 1;
  m->multiply = MSCRT_BY_LIBRARY;
  m->shared_columns = 0, m->panel_bytes = m->room_bytes = 0;
  m->b_lies = false;
  bool by_rows = m->m >= parts * FEW_ROWS;
  m->tile_m = by_rows ? share_of(m->m, parts, ROWS) : m->m;
  m->tile_n = by_rows ? m->n : share_of(m->n, parts, COLUMNS);
  m->tiles_m = (m->m + m->tile_m - 1) / m->tile_m, m->tiles_n = (m->n + m->tile_n - 1) / m->tile_n;
  m->tiles = m->batch * m->tiles_m * m->tiles_n;
}

/* ---- measuring ---- */

/* Runs all tiles of one matrix. */
static bool run_tiles(const mscrt_matmul *m, const mscrt_tile *const tile[2][2], const float *a, const float *b,
                      float *c) {
  bool ok = true;
  for (int64_t j = 0; j < m->tiles_n; j++)
    for (int64_t i = 0; i < m->tiles_m; i++) {
      int64_t row = i * m->tile_m, column = j * m->tile_n;
      ok =
          ok && mscrt_tile_run(tile[i == m->tiles_m - 1][j == m->tiles_n - 1], 0, a + row * (m->transpose_a ? 1 : m->k),
                               b + column * (m->transpose_b ? m->k : 1), c + row * m->n + column, b);
    }
  return ok;
}

mscrt_status *mscrt_measure_library(const mscrt_matmul *m, int passes, const void *a, const void *b, void *c,
                                    int64_t *out_ns) {
  mscrt_library *l;
  const mscrt_tile *tile[2][2];
  *out_ns = INT64_MAX;
  MSCRT_CHECK(mscrt_library_open(1, &l));
  mscrt_status *s = mscrt_library_tiles(l, m, tile);
  if (!s) s = mscrt_library_ready(l);
  int before = mscrt_library_enter(l);
  for (int i = 0; i <= passes && !s; i++) { /* the first fills the caches */
    int64_t begin = mscrt_thread_ns();
    if (!run_tiles(m, tile, a, b, c)) s = mscrt_fail(MSCRT_ENVIRONMENT, "a library failed in a measurement");
    if (i) *out_ns = mscrt_smaller(*out_ns, mscrt_thread_ns() - begin);
  }
  mscrt_library_leave(l, before);
  mscrt_library_close(l);
  return s;
}

/* ---- agreeing ---- */

static bool is_wanted(const mscrt_context *c, uint32_t product) {
  return c->plan->matmul[product].library && c->matmul[product].library && c->library;
}

/* Sets *out_same to whether all ranks want the same products at the library. */
static mscrt_status *compare_wanted(mscrt_context *c, const mscrt_site *site, bool *out_same) {
  uint64_t hash = 0, most = 0, least = 0;
  for (uint32_t i = 0; i < c->plan->num_matmuls; i++) hash = (hash ^ is_wanted(c, i)) * 0x9e3779b97f4a7c15u + 1;
  MSCRT_CHECK(c->transport->max(c->comm, hash, &most, site));
  MSCRT_CHECK(c->transport->max(c->comm, ~hash, &least, site));
  *out_same = most == ~least;
  return NULL;
}

/* Rank 0 tells who computes what. */
static void tell_who(const mscrt_context *c, uint32_t given, uint32_t missed) {
  if (c->o.rank) return;
  if (given)
    mscrt_log_line(c, MSCRT_LOG_INFO, "rank %d: %s computes %u of %u matrix products", c->o.rank,
                   mscrt_library_name(c->library), given, c->plan->num_matmuls);
  if (missed)
    mscrt_log_line(c, MSCRT_LOG_WARNING,
                   "rank %d: the plan's own kernels compute %u matrix products for which a library is faster: %s",
                   c->o.rank, missed,
                   c->no_library ? mscrt_status_text(c->no_library) : "another rank does without it");
}

mscrt_status *mscrt_agree_on_library(mscrt_context *c) {
  const mscrt_site site = {.name = "products by a library"};
  uint32_t open = 0, given = 0, missed = 0;
  bool same = true, here = c->device->has_onednn && !c->o.server;
  for (uint32_t i = 0; i < c->plan->num_matmuls && here; i++) open += c->plan->matmul[i].library != 0;
  if (!open) return NULL;
  if (c->o.ranks > 1) MSCRT_CHECK(compare_wanted(c, &site, &same));
  for (uint32_t i = 0; i < c->plan->num_matmuls; i++) {
    uint64_t refused = !is_wanted(c, i), by_any = refused;
    if (!c->plan->matmul[i].library) continue;
    if (!same) MSCRT_CHECK(c->transport->max(c->comm, refused, &by_any, &site));
    if (!by_any) mscrt_give_to_library(c, &c->matmul[i]), given++;
    else missed += c->matmul[i].library != 0;
  }
  tell_who(c, given, missed);
  return NULL;
}
