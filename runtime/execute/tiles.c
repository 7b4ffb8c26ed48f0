/* tiles.c: the products of a plan for CPUs in; the tiles that were measured fastest on this machine out, or a library
 * that was faster. The line of a product in the file of choices has the key "CPU|threads|problem|" and the rows and
 * columns of a tile, or "library"; a damaged line, or one whose tile does not fit, is ignored. Sums of kernels have the
 * same bits whatever the tiles, so ranks need not agree on these; on the library they do: library_products.c.
 *
 * One thread computes a whole matrix to measure a size of tiles; if that size would leave threads idle, its time is
 * multiplied accordingly. */
#include <cpuid.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/abi/product.h"
#include "runtime/execute/library_products.h"
#include "runtime/execute/measured_choices.h"
#include "runtime/kernels/onednn.h"
#include "runtime/trace/trace.h"
#include "runtime/wait.h"

enum {
  PASSES = 3,                     /* over all tiles; the fastest counts */
  MOST_BYTES = 256 * 1024 * 1024, /* of the operands of a product that is measured */
  MOST_ROOM = 16 * 1024 * 1024,   /* of what a worker packs */
  LEAST_OPERATIONS = 200000,      /* of a tile */
};
#define MEASURING_NS 10000000000 /* for all products: other ranks wait */
#define CLEARLY      0.97        /* other tiles must take less than this part of the time with the plan's tiles */
#define CLEARLY_LESS 0.95        /* and a library than this part of that with the fastest tiles */

typedef struct {
  int64_t rows, columns;
} tile_size;

static int64_t count_parts(int64_t n, int64_t part) { return (n + part - 1) / part; }

static uint64_t packed_bytes(const mscrt_matmul *m, int64_t elems) {
  return (uint64_t)(elems * msc_product_bytes((int64_t)mscrt_dtype_bytes(m->dtype)) + 63) / 64 * 64;
}

/* Sets tiles, and what workers need for them; the columns that workers share stay. */
static void set_tiles(mscrt_matmul *m, tile_size t) {
  int64_t units = msc_product_units(m->k, m->blocks, m->packing);
  bool filled = msc_product_is_filled(m->k, m->blocks, m->packing);
  bool packs_rows = msc_product_packs_rows((int64_t)mscrt_dtype_bytes(m->dtype), m->transpose_a, m->packing, filled);
  m->tile_m = t.rows, m->tile_n = t.columns;
  m->tiles_m = count_parts(m->m, t.rows), m->tiles_n = count_parts(m->n, t.columns);
  m->tiles = m->batch * m->tiles_m * m->tiles_n;
  if (!m->shared_columns && !m->b_lies) m->panel_bytes = packed_bytes(m, mscrt_panel_elems(m, t.columns));
  m->room_bytes = packs_rows ? packed_bytes(m, msc_product_room_elems(t.rows, units)) : 0;
}

/* True if the product can have tiles of this size. */
static bool tile_fits(const mscrt_matmul *m, tile_size t) {
  if (t.rows < 1 || t.columns < 1 || t.rows > m->m || t.columns > m->n) return false;
  if (t.columns % m->width && t.columns != m->n) return false;
  int64_t shared = m->shared_columns;
  if (shared && (t.columns > shared || (shared % t.columns && shared != m->n))) return false;
  mscrt_matmul with = *m;
  set_tiles(&with, t);
  return (m->shared_columns || with.panel_bytes <= MOST_ROOM || with.panel_bytes <= m->panel_bytes) &&
         (with.room_bytes <= MOST_ROOM || with.room_bytes <= m->room_bytes);
}

/* True if the tiles of a product may be chosen by speed alone; an epilogue limits their size. Few rows of a that meet
 * a b in place, of which only some columns are packed, have no other tiles. */
static bool has_free_tiles(const mscrt_matmul *m) {
  bool packs_rest = m->b_lies && m->n % m->width;
  return m->multiply != MSCRT_BY_LIBRARY && !m->tile_bytes && !packs_rest && m->m && m->n && m->k && m->batch;
}

/* Gives one thread whole rows of a b that it reads row by row: longer runs of memory. */
static void join_columns(const mscrt_context *c, mscrt_matmul *m) {
  int64_t row_bytes = m->width * (int64_t)mscrt_dtype_bytes(m->dtype);
  if (c->threads == 1 && msc_product_streams(m->m, row_bytes, m->b_lies, m->transpose_b))
    set_tiles(m, (tile_size){m->m, m->n});
}

/* Returns how many times longer tiles keep the busiest thread than each would take of equal parts. The tiles of columns
 * that are packed together for all workers are computed before the next ones. */
static double load_of(const mscrt_context *c, const mscrt_matmul *m) {
  int64_t together = m->tiles;
  if (m->shared_columns && m->shared_columns < m->n) together = m->tiles_m * (m->shared_columns / m->tile_n);
  return (double)(count_parts(together, c->threads) * c->threads) / (double)together;
}

/* Makes tiles of a transposed a of f32 higher, where that leaves work for all threads: every tile packs its rows, and
 * reads all of b's panels. */
static void join_rows(const mscrt_context *c, mscrt_matmul *m) {
  enum { MOST = 384, ROOM = 4 * 1024 * 1024, UNIT = MSC_PRODUCT_MAX_HEIGHT };
  if (!m->transpose_a || m->dtype != MSCRT_F32 || m->packing) return;
  double least = 1.1 * load_of(c, m);
  for (int64_t parts = count_parts(m->m, MOST); parts < m->tiles_m; parts++) {
    mscrt_matmul joined = *m;
    int64_t rows = count_parts(count_parts(m->m, parts), UNIT) * UNIT;
    set_tiles(&joined, (tile_size){rows < m->m ? rows : m->m, m->tile_n});
    if (joined.room_bytes > ROOM || load_of(c, &joined) > least) continue;
    *m = joined;
    return;
  }
}

static void write_product_key(const mscrt_context *c, const mscrt_matmul *m, char key[MSCRT_CHOICE_KEY]) {
  uint32_t name[13] = {0};
  for (uint32_t i = 0; i < 3; i++)
    __get_cpuid(0x80000002 + i, &name[4 * i], &name[4 * i + 1], &name[4 * i + 2], &name[4 * i + 3]);
  snprintf(key, MSCRT_CHOICE_KEY,
           "%.48s|%d threads|%s %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " transposed %d %d in %" PRId64
           " blocks, panels of %" PRId64 ", lies %d, packing %d, shared %" PRId64 "%s%s%s|",
           (const char *)name, c->threads, mscrt_dtype_name(m->dtype), m->batch, m->m, m->n, m->k, m->transpose_a,
           m->transpose_b, m->blocks, m->width, m->b_lies, m->packing, m->shared_columns,
           m->traits & MSC_PRODUCT_ROUNDS ? ", rounded" : "", m->library && c->library ? ", or " : "",
           m->library && c->library ? mscrt_library_name(c->library) : "");
}

/* What was chosen for a product: the library, or tiles for kernels. */
typedef struct {
  const mscrt_matmul *product;
  tile_size tile;
  bool by_library;
} choice;

#define BY_LIBRARY "library\n"

static bool read_choice(const char *text, void *out) {
  choice *kept = out;
  tile_size t;
  int end = 0;
  kept->by_library = kept->product->library && !strcmp(text, BY_LIBRARY);
  if (kept->by_library) return true;
  if (sscanf(text, "%" SCNd64 " x %" SCNd64 "%n", &t.rows, &t.columns, &end) != 2 || text[end] != '\n' ||
      !tile_fits(kept->product, t))
    return false;
  kept->tile = t;
  return true;
}

/* ---- measuring ---- */

typedef struct {
  const mscrt_record *kernels; /* pack and multiply */
  char *a, *b, *c, *panels, *room;
} trial;

static void pack_columns_of(const trial *t, const mscrt_matmul *m, int64_t column, int64_t columns) {
  size_t bytes = mscrt_dtype_bytes(m->dtype);
  char *b = t->b + (size_t)(column * (m->transpose_b ? m->k : 1)) * bytes;
  t->kernels->pack((void *[]){b, t->panels}, 0, count_parts(columns, m->width),
                   (int64_t[]){columns, m->k, m->transpose_b ? m->k : m->n, m->blocks}, NULL);
}

/* Computes a matrix tile by tile; shared columns are packed already. */
static void run_all_tiles(const trial *t, const mscrt_matmul *m) {
  size_t bytes = mscrt_dtype_bytes(m->dtype), packed = (size_t)msc_product_bytes((int64_t)bytes),
         result_bytes = mscrt_dtype_bytes(mscrt_result_dtype(m));
  int64_t units = msc_product_units(m->k, m->blocks, m->packing);
  for (int64_t column = 0; column < m->n; column += m->tile_n) {
    int64_t columns = mscrt_smaller(m->tile_n, m->n - column);
    char *b = m->b_lies ? t->b + (size_t)(column * (m->transpose_b ? m->k : 1)) * bytes : t->panels;
    if (m->shared_columns) b += (size_t)(column * units) * packed;
    else if (!m->b_lies) pack_columns_of(t, m, column, columns);
    for (int64_t row = 0; row < m->m; row += m->tile_m) {
      char *a = t->a + (size_t)(row * (m->transpose_a ? 1 : m->k)) * bytes,
           *c = t->c + (size_t)(row * m->n + column) * result_bytes;
      t->kernels->multiply((void *[]){a, b, c, t->room, NULL}, 0, mscrt_smaller(m->tile_m, m->m - row),
                           (int64_t[]){columns, m->k, m->transpose_a ? m->m : m->k, m->n, m->blocks, m->transpose_a,
                                       m->relu, 0, mscrt_step_of_lying_b(m), m->traits},
                           NULL);
    }
  }
}

/* The cost of tiles: nanoseconds of one thread for a matrix, times a factor for threads that the tiles leave idle.
 * Tiles that take much longer than `least` are measured once only. */
static double cost_of(const mscrt_context *c, const trial *t, const mscrt_matmul *m, double least) {
  int64_t best = INT64_MAX, turns = count_parts(m->tiles, c->threads);
  for (int i = 0; i < PASSES && (!i || (double)best < 1.25 * least); i++) {
    int64_t begin = mscrt_thread_ns();
    run_all_tiles(t, m);
    best = mscrt_smaller(best, mscrt_thread_ns() - begin);
  }
  return (double)best * (double)(turns * c->threads) / (double)m->tiles;
}

/* Costs of one matrix, as of cost_of, and with what packing columns for all workers takes. */
typedef struct {
  double planned, fastest, library; /* with the plan's tiles; with the fastest; by a library, 0: not measured */
} costs;

/* A size of tiles that takes less time than the plan's, if each is measured once. */
static tile_size likely_tile(const mscrt_context *c, const trial *t, const mscrt_matmul *m) {
  const int64_t rows[] = {m->m, m->tile_m, 24, 48, 96, 192}, columns[] = {m->n, m->tile_n, 64, 128, 256, 512};
  tile_size own = {m->tile_m, m->tile_n}, best = own;
  run_all_tiles(t, m); /* fills the caches */
  double least = CLEARLY * cost_of(c, t, m, INFINITY);
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 6; j++) {
      tile_size size = {rows[i], columns[j]};
      mscrt_matmul with = *m;
      if (!tile_fits(m, size) || 2 * size.rows * size.columns * m->k < LEAST_OPERATIONS) continue;
      set_tiles(&with, size);
      double now = cost_of(c, t, &with, least);
      if (now < least) least = now, best = size;
    }
  return best;
}

/* Nanoseconds of one thread for packing the columns that workers share. */
static double packing_ns(const trial *t, const mscrt_matmul *m) {
  int64_t begin = mscrt_thread_ns();
  if (m->shared_columns) pack_columns_of(t, m, 0, m->n);
  return (double)(mscrt_thread_ns() - begin);
}

/* Measures the plan's tiles, likely ones and, if the product may be its, the library by turns, so that all have the
 * machine as it is then; the least of each counts. */
static mscrt_status *measure_by_turns(const mscrt_context *c, const trial *t, const mscrt_matmul *m, tile_size likely,
                                      costs *out) {
  enum { TURNS = 5 };
  double packing = INFINITY;
  mscrt_matmul fastest = *m, by_library = *m;
  bool may = m->library && c->library;
  set_tiles(&fastest, likely);
  if (may) mscrt_give_to_library(c, &by_library);
  double idle = (double)(count_parts(by_library.tiles, c->threads) * c->threads) / (double)by_library.tiles;
  *out = (costs){INFINITY, INFINITY, may ? INFINITY : 0};
  for (int i = 0; i < TURNS; i++) {
    int64_t ns = 0;
    packing = fmin(packing, packing_ns(t, m));
    out->planned = fmin(out->planned, cost_of(c, t, m, INFINITY));
    out->fastest = fmin(out->fastest, cost_of(c, t, &fastest, INFINITY));
    if (may) MSCRT_CHECK(mscrt_measure_library(&by_library, PASSES, t->a, t->b, t->c, &ns));
    out->library = fmin(out->library, idle * (double)ns);
  }
  out->planned += packing, out->fastest += packing;
  return NULL;
}

static mscrt_status *allocate_filled(int64_t elems, size_t bytes, char **out) {
  size_t all = ((size_t)elems * bytes + 4095) / 4096 * 4096;
  *out = aligned_alloc(4096, all ? all : 4096);
  if (!*out) return mscrt_fail(MSCRT_NO_MEMORY, "no memory to measure a product of %zu bytes", all);
  memset(*out, 0x3f, all); /* numbers near 1 in all types */
  return NULL;
}

static void tell_costs(const mscrt_context *c, const mscrt_matmul *m, const choice *k, const costs *found) {
  mscrt_log_line(c, MSCRT_LOG_INFO,
                 "measured %s %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64
                 " transposed %d %d: planned tiles of %" PRId64 " x %" PRId64 " %.0f ns, fastest of %" PRId64
                 " x %" PRId64 " %.0f ns, library %.0f ns",
                 mscrt_dtype_name(m->dtype), m->batch, m->m, m->n, m->k, m->transpose_a, m->transpose_b, m->tile_m,
                 m->tile_n, found->planned, k->tile.rows, k->tile.columns, found->fastest, found->library);
}

/* Measures sizes of tiles, and the library if the product may be its. */
static mscrt_status *measure_product(mscrt_context *c, const mscrt_matmul *m, choice *out) {
  mscrt_record kernels = {.pack = mscrt_plan_kernel(c->plan, m->pack),
                          .multiply = mscrt_plan_kernel(c->plan, m->multiply)};
  trial t = {.kernels = &kernels};
  costs found = {0};
  size_t bytes = mscrt_dtype_bytes(m->dtype);
  int64_t panels = mscrt_panel_elems(m, m->n);
  mscrt_status *s = allocate_filled(m->m * m->k, bytes, &t.a);
  if (!s) s = allocate_filled(m->k * m->n, bytes, &t.b);
  if (!s) s = allocate_filled(m->m * m->n, mscrt_dtype_bytes(mscrt_result_dtype(m)), &t.c);
  if (!s) s = allocate_filled(panels, 8, &t.panels);
  if (!s) s = allocate_filled(msc_product_room_elems(m->m, msc_product_units(m->k, m->blocks, m->packing)), 8, &t.room);
  if (!s) {
    if (m->shared_columns) pack_columns_of(&t, m, 0, m->n);
    tile_size likely = likely_tile(c, &t, m);
    s = measure_by_turns(c, &t, m, likely, &found);
    bool is_faster = found.fastest < CLEARLY * found.planned;
    out->tile = is_faster ? likely : (tile_size){m->tile_m, m->tile_n};
    if (!is_faster) found.fastest = found.planned;
    out->by_library = found.library > 0 && found.library < CLEARLY_LESS * found.fastest;
  }
  if (!s) tell_costs(c, m, out, &found);
  free(t.a), free(t.b), free(t.c), free(t.panels), free(t.room);
  return s;
}

static bool is_small_enough(const mscrt_matmul *m) {
  uint64_t most = MOST_BYTES / 8;
  return (uint64_t)(m->m * m->k) <= most && (uint64_t)(m->k * m->n) <= most && (uint64_t)(m->m * m->n) <= most;
}

static void write_choice(const choice *k, char *out, size_t room) {
  if (k->by_library) snprintf(out, room, BY_LIBRARY);
  else snprintf(out, room, "%" PRId64 " x %" PRId64 "\n", k->tile.rows, k->tile.columns);
}

/* Sets the tiles of a product, or `library`, whether this rank wants it there. */
static void take_choice(mscrt_matmul *m, const choice *k) {
  m->library = k->by_library;
  if (!k->by_library) set_tiles(m, k->tile);
}

mscrt_status *mscrt_choose_tiles(mscrt_context *c) {
  bool here = c->device->holds_values && !c->plan->target->calls_whole && c->o.choices;
  int64_t end = mscrt_now_ns() + MEASURING_NS;
  MSCRT_CHECK(mscrt_new_array(&c->matmul, c->plan->num_matmuls + 1));
  for (uint32_t i = 0; i < c->plan->num_matmuls; i++) {
    mscrt_matmul *m = &c->matmul[i], joined = c->plan->matmul[i], *product = &joined;
    char line[2 * MSCRT_CHOICE_KEY];
    choice kept = {.product = product};
    if (has_free_tiles(product)) join_columns(c, product), join_rows(c, product);
    *m = *product;
    m->library = product->library == PLAN_LIBRARY_USE_PREFERRED;
    if (!here || !has_free_tiles(m)) continue;
    write_product_key(c, product, line);
    bool found = mscrt_choice_find(c->o.choices, line, read_choice, &kept);
    if (!found && c->o.tune && !c->o.rank && is_small_enough(m) && mscrt_now_ns() < end) {
      size_t n = strlen(line);
      MSCRT_CHECK(measure_product(c, product, &kept));
      write_choice(&kept, line + n, sizeof line - n);
      MSCRT_CHECK(mscrt_choice_append(c->o.choices, line));
      found = true;
    }
    if (found) take_choice(m, &kept);
  }
  return NULL;
}
