/* reshard_graph.h: the graph the redistribution planner searches: states are layouts written as atoms, edges are verbs. */
#ifndef MSC_PASSES_3_SHARD_RESHARD_GRAPH_H
#define MSC_PASSES_3_SHARD_RESHARD_GRAPH_H

#include "passes/3_shard/reshard.h"

/* More than this cannot be written into a key, and would be hopeless to search. */
#define RESHARD_ATOMS 15

/* In the order in which equally good plans prefer them. */
typedef enum { SLICE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, ALL_REDUCE, PERMUTE, EXCHANGE } reshard_verb;

/* Which atoms cut each dimension, major first, and on which the value is partial. */
typedef struct {
  uint8_t num[MSC_MAX_RANK];
  uint8_t atom[MSC_MAX_RANK][RESHARD_ATOMS + 1];
  uint32_t partial;
} reshard_state;

typedef unsigned __int128 reshard_key;

typedef struct {
  msc_context *ctx;
  const msc_mesh *mesh;
  const msc_reshard_options *options;
  const msc_type *type;
  const msc_layout *from_layout, *to_layout;
  int rank, num_atoms;
  int64_t size[RESHARD_ATOMS];
  int num_digits[RESHARD_ATOMS]; /* an atom may stand for several digits that stay together */
  msc_subaxis digit[RESHARD_ATOMS][MSC_MAX_SUBAXES];
  double latency_us[RESHARD_ATOMS], gb_per_s[RESHARD_ATOMS];
  int64_t elem_bytes, total_bytes;
  reshard_state from, to;
  bool uneven;                   /* from or to does not divide the shape */
  bool coarse;                   /* fewer atoms than the mesh has primes */
} reshard_problem;

/* ---- reshard_atoms.c ---- */

/* Chooses the atoms and writes from and to with them; false: the layouts have no common atoms, or too many. */
bool msc_reshard_problem_of(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options, const msc_type *type,
                            const msc_layout *from, const msc_layout *to, reshard_problem *out_problem);
const msc_layout *msc_reshard_layout(const reshard_problem *p, const reshard_state *s);

/* ---- reshard_graph.c ---- */

reshard_key msc_reshard_key(const reshard_problem *p, const reshard_state *s);
void msc_reshard_state_of(const reshard_problem *p, reshard_key key, reshard_state *out_state);
int64_t msc_reshard_parts(const reshard_problem *p, const reshard_state *s, int dim);
int64_t msc_reshard_atoms_size(const reshard_problem *p, uint32_t atoms); /* product of their sizes */
int64_t msc_reshard_local(const reshard_problem *p, const reshard_state *s); /* bytes of the largest part */
uint32_t msc_reshard_used(const reshard_problem *p, const reshard_state *s);
/* Bytes that some device must still receive; 0 where that is not easily known.  Never more than a path from s costs. */
int64_t msc_reshard_bound(const reshard_problem *p, const reshard_state *s);
int64_t msc_reshard_lower_bound(const reshard_problem *p); /* the same from p->from, exactly; -1 with partial values */
/* Does every dimension and the partial set of b continue those of a? */
bool msc_reshard_only_sliced(const reshard_problem *p, const reshard_state *a, const reshard_state *b);

typedef struct {
  reshard_verb verb;
  int64_t bytes, ns;
} reshard_edge;

/* Calls emit for every edge out of `s` that costs at most `budget` (bytes or ns) and stays within the peak limit.
 * Slices are emitted atom by atom; permutes only if asked for; exchange only into the target. */
typedef void reshard_emit(void *user, const reshard_state *to, const reshard_edge *edge);
void msc_reshard_expand(const reshard_problem *p, const reshard_state *s, int64_t budget, bool permutes, reshard_emit *emit, void *user);
/* The cost of a given all_reduce or all_gather. */
void msc_reshard_price(const reshard_problem *p, reshard_verb verb, const reshard_state *from, const reshard_state *to, reshard_edge *out_edge);
int64_t msc_reshard_peak(const reshard_problem *p, reshard_verb verb, const reshard_state *from, const reshard_state *to);

/* ---- reshard_search.c ---- */

typedef struct {
  int num;
  reshard_state *state; /* after each step */
  reshard_edge *edge;
} reshard_path;

/* The best path from p->from to p->to in `arena`; false: there is none.  cost_only: any path of least cost.
 * out_complete: false when the search was cut short and better paths may exist. */
bool msc_reshard_search(const reshard_problem *p, msc_arena *arena, bool cost_only, reshard_path *out_path, bool *out_complete);
/* Least peak of all paths. */
int64_t msc_reshard_least_peak(const reshard_problem *p, msc_arena *arena);

#endif
