/* graph.h: the graph that the redistribution planner searches: states are layouts written as atoms, edges collectives.
 */
#ifndef MSC_PASSES_3_SHARD_RESHARD_GRAPH_H
#define MSC_PASSES_3_SHARD_RESHARD_GRAPH_H

#include <string.h>

#include "passes/3_shard/reshard/reshard.h"
#include "passes/time_model.h"

/* The most atoms of a problem. A reshard_key has no room for more, and a search over more would not end. */
#define RESHARD_ATOMS 15

/* Which atoms cut each dimension, major first, and on which the value is partial. */
typedef struct {
  uint8_t num[MSC_MAX_RANK];
  uint8_t atom[MSC_MAX_RANK][RESHARD_ATOMS + 1];
  uint32_t partial;
} reshard_state;

typedef unsigned __int128 reshard_key;

/* The cost of a path, as a number to compare: bytes or ns, then exchanges, then steps with traffic. */
typedef unsigned __int128 reshard_cost;
enum { RESHARD_MINOR_BITS = 32, RESHARD_EXCHANGE = 1 << 16 };
#define MSC_RESHARD_NO_COST ((reshard_cost)INT64_MAX << RESHARD_MINOR_BITS) /* its bytes still fit a budget */
static inline reshard_cost msc_reshard_cost_of(int64_t major, int exchanges, int steps) {
  return (reshard_cost)(uint64_t)major << RESHARD_MINOR_BITS | (uint32_t)(exchanges * RESHARD_EXCHANGE + steps);
}

/* For one rate of links: the atoms whose links are no faster, and the nodes that these links connect. */
typedef struct {
  uint32_t slow;
  double rate, alpha_ns; /* bytes per ns of the fastest of them; least latency */
  int64_t devices;       /* of a node: product of the other atoms */
  int64_t to_copies;     /* nodes that hold the same part of the target */
} reshard_links;

typedef struct {
  msc_context *ctx;
  const msc_mesh *mesh;
  const msc_reshard_options *options;
  const msc_type *type;
  struct shard_rows **rows; /* engines made so far (rows.h), in rows_arena; may be NULL */
  msc_arena *rows_arena;
  const msc_layout *from_layout, *to_layout;
  int rank, num_atoms;
  int64_t size[RESHARD_ATOMS];
  bool prime[RESHARD_ATOMS]; /* the size is a prime */
  /* by atom: the first atom of its class. Atoms of a class can be swapped: they have the same size, link and role, and
   * `from` and `to` do not tell them apart */
  uint8_t class_of[RESHARD_ATOMS];
  bool has_classes;              /* some class has two atoms: of states that differ by swaps, one is searched */
  int num_digits[RESHARD_ATOMS]; /* an atom may stand for several digits that stay together */
  msc_subaxis digit[RESHARD_ATOMS][MSC_MAX_SUBAXES];
  double alpha_ns[RESHARD_ATOMS], bytes_per_ns[RESHARD_ATOMS];
  int level[RESHARD_ATOMS]; /* of the cluster: the outermost of the atom's links */
  int64_t elem_bytes, total_bytes;
  reshard_state from, to;
  bool uneven; /* from or to does not divide the shape */
  bool coarse; /* fewer atoms than the mesh has primes */
  bool any_cut; /* states may cut dimensions that do not divide in any way */
  /* bytes of a part of the source and of the target; partial terms of the target; devices that hold the same part
   * of it */
  int64_t from_local, to_local, to_terms, to_copies;
  double fastest, fastest_alpha; /* bytes per ns and latency of the best link */
  uint32_t not_slowest;          /* atoms on a link that is not the slowest both in bandwidth and in latency */
  int num_links;
  reshard_links links[RESHARD_ATOMS]; /* slowest first, without the fastest */
} reshard_problem;

/* ---- reshard/atoms.c ---- */

int msc_reshard_max_atoms(const msc_reshard_options *options); /* digits that are told apart */
/* Chooses the atoms and writes from and to with them; false: the layouts have no atoms in common, or too many. */
bool msc_reshard_problem_of(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options,
                            const msc_type *type, const msc_layout *from, const msc_layout *to,
                            reshard_problem *out_problem);
/* Makes a problem with given digits as atoms, and from and to empty. */
void msc_reshard_problem_with(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options,
                              const msc_type *type, const msc_atoms *digits, reshard_problem *out_problem);
const msc_layout *msc_reshard_layout(const reshard_problem *p, const reshard_state *s);
const char *msc_reshard_text(const reshard_problem *p, msc_arena *arena, const reshard_state *s);

/* ---- reshard/state.c ---- */

reshard_key msc_reshard_key(const reshard_problem *p, const reshard_state *s);
void msc_reshard_state_of(const reshard_problem *p, reshard_key key, reshard_state *out_state);
static inline uint64_t msc_reshard_hash(reshard_key key) {
  return msc_mix(msc_mix(0, (uint64_t)key), (uint64_t)(key >> 64));
}
/* Replaces s by the one state that represents all that differ from it by swaps of atoms of one class. */
void msc_reshard_canonical(const reshard_problem *p, reshard_state *s);
/* Does the list of dimension d in `longer` begin with that in `shorter`? */
static inline bool msc_reshard_starts_with(const reshard_state *longer, const reshard_state *shorter, int d) {
  return shorter->num[d] <= longer->num[d] && memcmp(longer->atom[d], shorter->atom[d], shorter->num[d]) == 0;
}
/* The number of parts that dimension `dim` is cut into. */
static inline int64_t msc_reshard_parts(const reshard_problem *p, const reshard_state *s, int dim) {
  int64_t parts = 1;
  for (int i = 0; i < s->num[dim]; i++) parts *= p->size[s->atom[dim][i]];
  return parts;
}
/* Writes the parts of each cut that atoms `first` to `end` of dimension d make, and returns how many cuts there are:
 * neighbouring digits of one axis are one.  out_parts has room for MSC_MAX_SUBAXES. */
int msc_reshard_cuts(const reshard_problem *p, const reshard_state *s, int d, int first, int end, int64_t *out_parts);
/* Product of the sizes of the atoms in a set. */
static inline int64_t msc_reshard_atoms_size(const reshard_problem *p, uint32_t atoms) {
  int64_t n = 1;
  for (; atoms; atoms &= atoms - 1) n *= p->size[__builtin_ctz(atoms)];
  return n;
}
/* The set of atoms that cut a dimension or are partial. */
static inline uint32_t msc_reshard_used(const reshard_problem *p, const reshard_state *s) {
  uint32_t used = s->partial;
  for (int d = 0; d < p->rank; d++)
    for (int i = 0; i < s->num[d]; i++) used |= 1u << s->atom[d][i];
  return used;
}
/* Does dimension d divide? */
static inline bool msc_reshard_is_even(const reshard_problem *p, const reshard_state *s, int d) {
  return p->type->dim[d] % msc_reshard_parts(p, s, d) == 0;
}
int64_t msc_reshard_local(const reshard_problem *p, const reshard_state *s); /* bytes of the largest part */
/* Writes the sizes of the largest part, by dimension; it is the first device's. */
void msc_reshard_largest_parts(const reshard_problem *p, const reshard_state *s, int64_t *out_size);
/* Returns the bytes of its part of `to` that the first device lacks in s if parts are uneven. */
int64_t msc_reshard_first_lacks(const reshard_problem *p, const reshard_state *s, const reshard_state *to);
/* Those bytes, of states with these largest parts. */
int64_t msc_reshard_lacks_of(const reshard_problem *p, const int64_t *part, const int64_t *to_part);
/* Does every dimension and the partial set of b continue those of a? */
bool msc_reshard_only_sliced(const reshard_problem *p, const reshard_state *a, const reshard_state *b);

/* ---- reshard/graph.c ---- */

typedef struct {
  msc_verb verb;
  int64_t bytes, ns;
  uint32_t atoms; /* of the group */
} reshard_edge;

/* Which edges out of a state the caller wants. */
typedef struct {
  int64_t budget;   /* bytes or ns: those on a path to the target that costs no more, as far as bounds can tell */
  uint32_t movable; /* permutes move only these atoms */
  bool only_slices;
  bool no_exchange;
  bool twins; /* also what differs only by a swap of atoms that the state does not tell apart */
} reshard_wanted;

/* May a state on a path cut dimension d as s does? Yes if the parts are even, or if the source or the target cut it by
 * the same digits or further. */
bool msc_reshard_allows_cut(const reshard_problem *p, const reshard_state *s, int d);
/* Calls emit for every such edge that stays within the peak limit.  Slices come atom by atom; exchanges go into the
 * target, or into parts of its parts where there are sums to finish. */
typedef void reshard_emit(void *user, const reshard_state *to, const reshard_edge *edge);
void msc_reshard_expand(const reshard_problem *p, const reshard_state *s, const reshard_wanted *wanted,
                        reshard_emit *emit, void *user);
/* The part of a step's time that does not depend on its bytes, over a group of k. */
double msc_reshard_fixed_ns(const reshard_problem *p, msc_verb verb, uint32_t atoms, int64_t k); /* without bytes */
/* A lower bound on rounded costs whose exact sum is `ns`; 0 where times are measured, since these have no such
 * bound. */
static inline int64_t msc_reshard_below_ns(const msc_reshard_options *o, double ns) {
  return o->measured ? 0 : msc_cost_whole_ns((ns < 1e17 ? ns : 1e17) * (1 - 1e-9));
}
/* The time of a step over links of this latency and rate. */
int64_t msc_reshard_step_ns(const msc_reshard_options *o, double alpha_ns, double bytes_per_ns,
                            const msc_cost_transfer *t);
int64_t msc_reshard_ns(const reshard_problem *p, msc_verb verb, uint32_t atoms, int64_t k, int64_t bytes);
/* The bytes that a rank receives in a step between equal parts over a group of k, before which it has `local` bytes. */
static inline int64_t msc_reshard_received(msc_verb verb, int64_t k, int64_t local) {
  int64_t out = msc_verb_gathers(verb) ? k * local : msc_verb_scatters(verb) ? local / k : local;
  return msc_verb_received(verb, local, out, k);
}
/* The exchange from one state into another; false: partial values forbid it, or it costs more than `budget`. */
bool msc_reshard_exchange(const reshard_problem *p, const reshard_state *from, const reshard_state *to, int64_t budget,
                          reshard_edge *out_edge);
/* A lower bound on what that exchange costs, which takes less time to compute; false: partial values forbid it. */
bool msc_reshard_least_exchange(const reshard_problem *p, const reshard_state *from, const reshard_state *to,
                                int64_t *out_cost);
/* Are exchanges tried from the first state only? They take long to price where many parts are uneven. */
bool msc_reshard_exchanges_first(const reshard_problem *p);
/* The cost of the all_reduce or all_gather that changes `from` into `to`. */
void msc_reshard_price(const reshard_problem *p, msc_verb verb, const reshard_state *from, const reshard_state *to,
                       reshard_edge *out_edge);
/* The bytes of the source and the destination that a device holds during a step; a slice needs no destination. */
int64_t msc_reshard_peak(const reshard_problem *p, msc_verb verb, const reshard_state *from, const reshard_state *to);

/* ---- reshard/worst_device.c ---- */

/* The most bytes that a device lacks of its part of `to`, of `terms` terms each; own: without those that it has in its
 * part of s. */
int64_t msc_reshard_worst_lacks(const reshard_problem *p, const reshard_state *s, const reshard_state *to,
                                int64_t terms, bool own);

/* ---- reshard/bound.c ---- */

/* Bytes that the worst device receives by an all_gather into `to`, which must keep runs (graph.c); false: there are too
 * many sizes of parts. */
bool msc_reshard_gathered(const reshard_problem *p, const reshard_state *s, const reshard_state *to,
                          int64_t *out_bytes);
/* Writes how many terms of each element an exchange from s into `to` adds up; false: partial values forbid it. */
bool msc_reshard_terms(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t *out_terms);
/* The most bytes that a device receives by a direct exchange; false: partial values forbid it. */
bool msc_reshard_direct(const reshard_problem *p, const reshard_state *s, const reshard_state *to, int64_t *out_bytes);
/* Those bytes from p->from to p->to, which no plan undercuts; -1: one of them is partial. */
int64_t msc_reshard_lower_bound(const reshard_problem *p);
/* A lower bound on the cost of every path from s to the target that needs more than slices. */
reshard_cost msc_reshard_estimate(const reshard_problem *p, const reshard_state *s);
/* That bound, in ns, where parts are uneven, from a state with these partial atoms and largest parts. */
int64_t msc_reshard_uneven_ahead(const reshard_problem *p, uint32_t partial, const int64_t *part,
                                 const int64_t *to_part);
/* A lower bound on the bytes of every path from p->from, as proven in reshard/bound.c. */
int64_t msc_reshard_least_bytes(const reshard_problem *p);
/* A lower bound on the cost of receiving these bytes: the bytes themselves, or ns. */
int64_t msc_reshard_least_cost(const reshard_problem *p, int64_t bytes);
/* Which states with this partial set may be on a path that costs at most `budget` more: none, those in which no
 * dimension contradicts the target's, or any. */
typedef enum { HOPE_NONE, HOPE_NESTED, HOPE_ANY } reshard_hope;
reshard_hope msc_reshard_hope(const reshard_problem *p, uint32_t partial, int64_t budget);

/* ---- reshard/bound_by_counts.c ---- */

typedef struct reshard_tallies reshard_tallies;
/* NULL: there are too many tallies, or sizes do not divide. */
reshard_tallies *msc_reshard_tallies_new(const reshard_problem *p, msc_arena *arena);
/* A lower bound on the cost from s to the target. It is exact, or above the limit, for problems with one kind of atoms.
 * The limit must not grow from call to call. */
reshard_cost msc_reshard_tally_bound(reshard_tallies *t, const reshard_state *s, reshard_cost limit);

/* ---- reshard/choose_collectives.c ---- */

typedef struct {
  int num;
  reshard_state *state; /* after each step */
  reshard_edge *edge;
} reshard_path;

/* The best path from p->from to p->to in `arena`; false: there is none.  cost_only: any path of least cost.
 * out_proven: false when the search was cut short and a cheaper one may exist. */
bool msc_reshard_search(const reshard_problem *p, msc_arena *arena, bool cost_only, reshard_path *out_path,
                        bool *out_proven);
/* The least peak of all paths, whatever the options' limit; 0: there is no path. */
int64_t msc_reshard_least_peak(const reshard_problem *p, msc_arena *arena);

/* ---- reshard/uneven_costs.c ---- */

typedef struct reshard_uneven_costs reshard_uneven_costs;
/* Makes an empty memory, in `arena`, of what calls of msc_reshard_uneven_ns can share. The problems of these calls must
 * have the same mesh and options. */
reshard_uneven_costs *msc_reshard_uneven_costs_new(msc_arena *arena);
/* The least time of a path from p->from to p->to; -1: there is none.  False: the parts are even, the options ask for
 * more than time, or it takes too much work. */
bool msc_reshard_uneven_ns(reshard_uneven_costs *costs, const reshard_problem *p, int64_t *out_ns);

/* ---- reshard/rows.c: least times of rows of layouts (rows.h), and one path ---- */

/* Returns the engine for p's atoms, from *known or newly made; NULL: it cannot represent all of p's digits. */
struct shard_rows *msc_reshard_rows_for(struct shard_rows **known, msc_arena *arena, const reshard_problem *p);
/* A path of least time from p->from to p->to.  p has the engine's digits as atoms. */
bool msc_reshard_rows_path(struct shard_rows *r, const reshard_problem *p, msc_arena *arena, reshard_path *out_path);

/* ---- reshard/split.c: layouts with parts of chosen sizes ---- */

/* The layout l without its partial digits, and with keep_cuts false also without cuts. */
const msc_layout *msc_reshard_finished(msc_context *ctx, const msc_mesh *mesh, const msc_layout *l, bool keep_cuts);
/* msc_reshard_plan_of for layouts of which one has parts of chosen sizes. */
bool msc_reshard_split_plan(msc_context *ctx, msc_arena *arena, const msc_mesh *mesh,
                            const msc_reshard_options *options, const msc_type *type, const msc_layout *from,
                            const msc_layout *to, msc_reshard_plan *out_plan);

#endif
