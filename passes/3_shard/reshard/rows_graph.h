/* rows_graph.h: where a value may be on a few digits of a mesh, and the collectives between these places: what rows.c
 * walks.
 *
 * One graph serves all shapes of a rank; its states are numbered, and edges made, as they are asked for. */
#ifndef MSC_PASSES_3_SHARD_ROWS_GRAPH_H
#define MSC_PASSES_3_SHARD_ROWS_GRAPH_H

#include "ir/table.h"
#include "passes/3_shard/reshard/graph.h"

enum { ROWS_MAX_DIGITS = 5 };

typedef struct {
  bool no_alltoall, free_partial; /* as in the planner's options */
  bool orderly;                   /* a permute costs the more the farther it goes, and nothing else counts */
  int num, outermost;             /* digits; the slowest of their levels */
  int64_t size[ROWS_MAX_DIGITS];
  int level[ROWS_MAX_DIGITS];
} rows_digits;

/* Digits by dimension, major first; those in neither a dimension nor `partial` are whole. */
typedef struct {
  uint8_t num[MSC_MAX_RANK], digit[MSC_MAX_RANK][ROWS_MAX_DIGITS];
  uint8_t partial;
} rows_place;

/* Edges out of a state that cost the same: one verb over one group of digits.  Where `shared` is not 0, other states
 * have a batch with these targets, which costs the same out of each. */
typedef struct {
  uint8_t verb, group;
  uint32_t shared;
  uint32_t first, end; /* of the targets */
} rows_batch;

typedef struct {
  uint32_t first, end; /* batches; end 0: not made yet */
  uint8_t used;        /* digits that cut a dimension */
} rows_leaving;

/* Targets that several states have in common: by what they are made of. */
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
  int64_t (*spot)[ROWS_MAX_DIGITS]; /* by state: where each digit is, see rows_graph.c */
  rows_leaving *leaving;            /* by state */
  rows_batch *batch;
  uint32_t *to;
  msc_index numbers; /* of states, by key */
  MSC_TABLE(struct rows_shared) shared;
  struct rows_permute *permute; /* from the state at hand */
  size_t num_permutes, room_permutes;
} rows_graph;

rows_graph *rows_graph_new(msc_arena *arena, const rows_digits *digits, int rank);
uint32_t rows_state(rows_graph *g, const rows_place *s);
/* Makes the edges out of a state, unless they are there. */
void rows_need_edges(rows_graph *g, uint32_t state);
/* Digits that are not at the same place in both states. */
uint8_t rows_moved(const rows_graph *g, uint32_t from, uint32_t to);
/* Product of the sizes of a set of digits, and of those that cut a dimension; the slowest level of a set. */
int64_t rows_size(const rows_digits *d, unsigned set);
int64_t rows_parts(const rows_digits *d, const rows_place *s, int dim);
int rows_level(const rows_digits *d, unsigned set);

#endif
