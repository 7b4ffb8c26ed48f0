/* rows_graph.h: the layouts that a few digits of a mesh allow, as states, and the collectives between them as edges:
 * the graph that rows.c searches. One graph serves all shapes of a rank; states get numbers and edges when they are
 * first needed. */
#ifndef MSC_PASSES_3_SHARD_ROWS_GRAPH_H
#define MSC_PASSES_3_SHARD_ROWS_GRAPH_H

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

enum { ROWS_MAX_DIGITS = 5 };

typedef struct {
  bool no_alltoall, free_partial; /* as in the planner's options */
  bool orderly;       /* the cost of a permute grows with the level of its links and depends on nothing else */
  int num, outermost; /* digits; the slowest of their levels */
  int64_t size[ROWS_MAX_DIGITS];
  int level[ROWS_MAX_DIGITS];
} rows_digits;

/* A state: the digits that cut each dimension, major first, and the partial ones; over all other digits the value is
 * whole. */
typedef struct {
  uint8_t num[MSC_MAX_RANK], digit[MSC_MAX_RANK][ROWS_MAX_DIGITS];
  uint8_t partial;
} rows_place;

/* Edges out of a state with one cost: one verb over one group of digits. If `shared` is not 0, it is the number of
 * shared targets, plus one: other states have a batch with these targets and the same cost. */
typedef struct {
  uint8_t verb, group;
  uint32_t shared;
  uint32_t first, end; /* of the targets */
} rows_batch;

typedef struct {
  uint32_t first, end; /* batches; end 0: not made yet */
  uint8_t used;        /* digits that cut a dimension */
} rows_leaving;

/* Targets that several states share; the key says what they depend on. */
struct rows_shared {
  uint64_t key;
  uint32_t first, end;
};

typedef struct {
  msc_arena *arena;
  const rows_digits *digits;
  int rank;
  size_t num, room, num_batches, room_batches, num_to, room_to;
  rows_place *state;
  uint64_t *key;
  int64_t (*spot)[ROWS_MAX_DIGITS]; /* by state and digit: where the digit is (put_spots in rows_graph.c) */
  rows_leaving *leaving;            /* by state */
  rows_batch *batch;
  uint32_t *to;
  msc_index numbers; /* of states, by key */
  MSC_TABLE(struct rows_shared) shared;
  struct rows_permute *permute; /* out of the state whose edges are being made */
  size_t num_permutes, room_permutes;
} rows_graph;

rows_graph *rows_graph_new(msc_arena *arena, const rows_digits *digits, int rank);
/* The number of a state, which is given one when it has none. */
uint32_t rows_state(rows_graph *g, const rows_place *s);
/* Makes the edges out of a state, unless they are made already. */
void rows_need_edges(rows_graph *g, uint32_t state);
/* The set of digits that are in different places in the two states. */
uint8_t rows_moved(const rows_graph *g, uint32_t from, uint32_t to);
/* rows_size: the product of the sizes of a set of digits. rows_parts: the number of parts of a dimension. rows_level:
 * the slowest level of links of a set. */
int64_t rows_size(const rows_digits *d, unsigned set);
int64_t rows_parts(const rows_digits *d, const rows_place *s, int dim);
int rows_level(const rows_digits *d, unsigned set);

#endif
