/* gpu.c: the walk of a region in; how a GPU goes through it, out: elements of a vector, threads of a block and how many
 * of them share an item, items of a block.
 *
 *   MAP        a thread takes a vector of elements
 *   ROW        a team of threads, a warp or a block, takes a row: it strides along the innermost reduced axis
 *   COLUMN     a block takes vectors of columns side by side, `team` threads each: they stride along the outermost
 *              reduced axis
 *   TRANSPOSE  a block takes a square, through shared memory
 *   SCATTER    a thread takes a column of some of the rows (nest.c) and goes through all positions in order
 *
 * Vectors are whole and aligned or there are none: sizes and strides are known here. */
#include <string.h>

#include "passes/7_lower/nest/expand.h"

enum {
  VECTOR_BYTES = 16, /* the widest access of a thread */
  MOST_LANES = 8,
  WARP = 32,
  MAP_THREADS = 256,
  COLUMN_THREADS = 256,
  SCATTER_THREADS = 128,
  VECTORS_PER_THREAD = 4, /* of a row */
  MOST_TEAM = 512, /* 128 registers each */
  FEW_BLOCKS = 128, /* fewer leave multiprocessors without work */
  LEAST_COLUMNS = 2, /* vectors side by side: a sector of memory */
};

static int64_t memory_bytes(const msc_nester *n, const msc_instr *in) {
  uint8_t stored = n->buffer[in->buffer].dtype;
  return msc_dtype_bytes((msc_dtype)(stored == MSC_NUM_DTYPES ? in->dtype : stored));
}

/* Is the value of an instruction a multiple of v, whatever it is? */
static bool divides(const msc_nester *n, uint16_t i, int64_t v) {
  const msc_instr *in = &n->instr[i];
  switch (in->code) {
    case NEST_DIM:
      for (int s = 0; s < n->num_starts; s++)
        if (n->start[s].index == (uint32_t)in->imm) return false; /* the loader's */
      return n->dims[(int)in->imm] % v == 0;
    case NEST_CONST: return (int64_t)in->number % v == 0;
    case NEST_MUL: return divides(n, in->arg[0], v) || divides(n, in->arg[1], v);
    case NEST_ADD: return divides(n, in->arg[0], v) && divides(n, in->arg[1], v);
    case NEST_SELECT: return divides(n, in->arg[1], v) && divides(n, in->arg[2], v);
    default: return false;
  }
}

static bool varies_along_lane(const msc_nester *n, uint16_t i, int lane) { return i && (n->instr[i].axes >> lane & 1); }

/* Can this access be made by vectors of v elements? */
static bool takes_vector(const msc_nester *n, int i, int64_t v) {
  const msc_instr *in = &n->instr[i];
  int lane = n->walk.lane;
  bool moves = in->code != NEST_STORE;
  if (n->at[i].coef[lane] != 1 || n->at[i].c0 % v) return false;
  for (int a = 0; a < n->num_axes; a++)
    if (a != lane && n->at[i].coef[a] % v) return false;
  if (moves && in->arg[0] && (varies_along_lane(n, in->arg[0], lane) || !divides(n, in->arg[0], v))) return false;
  uint16_t guard = in->code == NEST_LOAD ? in->arg[1] : in->code == NEST_SCATTER ? in->arg[2] : 0;
  return !varies_along_lane(n, guard, lane);
}

int msc_nest_gpu_lanes(const msc_nester *n) {
  int64_t least = MOST_LANES;
  int lane = n->walk.lane;
  if (lane < 0 || n->walk.kind == MSC_NEST_TRANSPOSE || n->walk.kind == MSC_NEST_SCATTER) return 1;
  for (int i = 1; i < n->num_instrs; i++)
    if (n->live[i] && msc_nest_has(&n->instr[i], NEST_MEMORY) &&
        (n->at[i].coef[lane] || varies_along_lane(n, n->instr[i].arg[0], lane)) &&
        memory_bytes(n, &n->instr[i]) < least)
      least = memory_bytes(n, &n->instr[i]);
  int64_t v = VECTOR_BYTES / least;
  for (v = v > MOST_LANES ? MOST_LANES : v; v > 1; v /= 2) {
    bool all = n->extent[lane] % v == 0 && (lane != n->walk.clipped || n->walk.chunk_total % v == 0);
    for (int i = 1; i < n->num_instrs && all; i++) {
      const msc_instr *in = &n->instr[i];
      if (n->live[i] && msc_nest_has(in, NEST_MEMORY) &&
          (n->at[i].coef[lane] || varies_along_lane(n, in->arg[0], lane) || varies_along_lane(n, in->arg[1], lane)))
        all = takes_vector(n, i, v);
    }
    if (all) break;
  }
  return (int)v;
}

static uint64_t power_of_two(uint64_t n) {
  uint64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

static uint64_t least_of(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int inner_reduced(const msc_nester *n) { return 31 - __builtin_clz(n->walk.reduced); }
static int outer_reduced(const msc_nester *n) { return __builtin_ctz(n->walk.reduced); }

static void row_shape(const msc_nester *n, msc_nest_launch *l) {
  msc_program_head *h = &l->program.head;
  int axis = inner_reduced(n);
  uint64_t vectors = msc_nest_divide_up((uint64_t)n->extent[axis], axis == n->walk.lane ? h->lanes : 1);
  uint64_t team = power_of_two(msc_nest_divide_up(vectors, VECTORS_PER_THREAD));
  team = team <= WARP ? WARP : least_of(team, MOST_TEAM);
  uint64_t rows = team == WARP ? MAP_THREADS / 2 / WARP : 1;
  h->team = (uint16_t)team, h->team_axis = (int8_t)axis;
  h->threads = (uint16_t)(team * rows), h->per_block = (uint16_t)rows, l->extent = msc_nest_points(n, n->walk.items);
}

static uint64_t count_vectors(const msc_nester *n, int lanes) {
  return msc_nest_divide_up((uint64_t)n->extent[n->walk.lane], (uint64_t)lanes);
}

/* Returns the number of blocks of a COLUMN whose blocks have so many vectors side by side. */
static uint64_t count_column_blocks(const msc_nester *n, int lanes, uint64_t columns) {
  return msc_nest_points(n, n->walk.items & (uint16_t) ~(1u << n->walk.lane)) *
         msc_nest_divide_up(count_vectors(n, lanes), columns);
}

static uint64_t most_columns(const msc_nester *n, int lanes) {
  return least_of(WARP, power_of_two(count_vectors(n, lanes)));
}

/* Lays threads along the columns; the remaining ones stride along the rows. Where that makes few blocks, as for the
 * total of the parts of a long sum, blocks have fewer columns and more threads for each. */
static void column_shape(const msc_nester *n, msc_nest_launch *l) {
  msc_program_head *h = &l->program.head;
  int axis = outer_reduced(n);
  uint64_t rows = power_of_two((uint64_t)n->extent[axis]), columns = most_columns(n, h->lanes);
  while (columns > LEAST_COLUMNS && COLUMN_THREADS / columns < rows &&
         count_column_blocks(n, h->lanes, columns) < FEW_BLOCKS)
    columns /= 2;
  uint64_t team = least_of(COLUMN_THREADS / columns, rows);
  h->team = (uint16_t)team, h->team_axis = (int8_t)axis;
  h->threads = (uint16_t)(columns * team), h->per_block = 1;
  l->extent = count_column_blocks(n, h->lanes, columns);
}

static void square_shape(const msc_nester *n, msc_nest_launch *l) {
  const msc_nest_walk *w = &n->walk;
  l->program.head.threads = MSC_SQUARE * MSC_SQUARE_ROWS, l->program.head.per_block = 1;
  l->extent = msc_nest_points(n, w->items & (uint16_t) ~(1u << w->lane | 1u << w->across)) *
              msc_nest_divide_up((uint64_t)n->extent[w->across], MSC_SQUARE) *
              msc_nest_divide_up((uint64_t)n->extent[w->lane], MSC_SQUARE);
}

/* Gives each item to one thread. */
static void thread_shape(const msc_nester *n, msc_nest_launch *l, int threads) {
  msc_program_head *h = &l->program.head;
  h->threads = (uint16_t)threads, h->per_block = (uint16_t)(threads * h->lanes);
  l->extent = msc_nest_points(n, n->walk.items) * (n->walk.strands > 1 ? (uint64_t)n->walk.strands : 1);
}

void msc_nest_gpu_shape(const msc_nester *n, msc_nest_launch *l) {
  msc_program_head *h = &l->program.head;
  h->is_gpu = true, h->team = 1;
  h->narrow = msc_nest_points(n, n->walk.items | n->walk.tail | n->walk.reduced) <= INT32_MAX;
  switch (n->walk.kind) {
    case MSC_NEST_ROW: row_shape(n, l); break;
    case MSC_NEST_COLUMN: column_shape(n, l); break;
    case MSC_NEST_TRANSPOSE: square_shape(n, l); break;
    case MSC_NEST_SCATTER: thread_shape(n, l, SCATTER_THREADS); break;
    case MSC_NEST_MAP: thread_shape(n, l, MAP_THREADS); break;
  }
  l->grain = h->per_block;
}

uint64_t msc_nest_gpu_items(const msc_nester *n) {
  msc_nest_launch l = {.program.head.lanes = (uint8_t)msc_nest_gpu_lanes(n)};
  /* of columns as wide as they are best read: by these a long sum is cut */
  if (n->walk.kind == MSC_NEST_COLUMN)
    return count_column_blocks(n, l.program.head.lanes, most_columns(n, l.program.head.lanes));
  msc_nest_gpu_shape(n, &l);
  return l.extent;
}

/* The length of a part of the axis: so that all multiprocessors get a few blocks, and each part is long enough for its
 * threads and for whole vectors. */
int64_t msc_nest_gpu_part(const msc_nester *n, int axis) {
  enum { BLOCKS = 512, LEAST_ROWS = 32, LEAST_RUN = 2048 };
  uint64_t least = axis == n->walk.lane ? LEAST_RUN : LEAST_ROWS;
  uint64_t blocks = n->walk.kind == MSC_NEST_COLUMN ? msc_nest_gpu_items(n) : msc_nest_points(n, n->walk.items);
  uint64_t part = msc_nest_divide_up((uint64_t)n->extent[axis], msc_nest_divide_up(BLOCKS, blocks ? blocks : 1));
  return (int64_t)(part < least ? least : msc_nest_divide_up(part, least) * least);
}
