/* origins.h: where digits that propagation hands on come from: recorded while it runs, kept on the leaders, read by
 * explain.
 *
 *   inherited = [{by = "dense1", digits = "{d:(1)2}"}]
 *     `by`: the op, or "argument x", next to this op on the way to the origin of these digits; digits without an entry
 *     are the op's own
 *   conflicts = [{value = "relu1", dim = 0, here = "{a}", there = "{b}", by = "dense3"}]
 *     of a dimension of an operand or result: `here` is how the op had it, `there` what came with the value, from `by`
 */
#ifndef MSC_PASSES_3_SHARD_ORIGINS_H
#define MSC_PASSES_3_SHARD_ORIGINS_H

#include "passes/3_shard/shard.h"

/* ---- recording ---- */

typedef struct {
  int num;
  const uint8_t *atom;
} shard_digit_list;

typedef struct shard_origins shard_origins;

/* Makes an empty record in the graph's arena. */
shard_origins *shard_origins_new(shard_graph *g);
void shard_origins_argument(shard_origins *o, const msc_value *argument, int atom);
void shard_origins_to_value(shard_origins *o, const msc_value *v, int atom, int group);
void shard_origins_to_group(shard_origins *o, int group, int atom, const msc_value *v);
/* Records a conflict at dimension d of v: `op` has the digits `here`, the value has `there`. An empty `there` means
 * that its first digit cuts another dimension. */
void shard_origins_conflict(shard_origins *o, const shard_op *op, const msc_value *v, int d, shard_digit_list here,
                            shard_digit_list there);
/* Sets the attributes. Sources without a name are left out of the chains. */
void shard_origins_store(shard_origins *o);

/* ---- reading ---- */

enum { SHARD_MOST_THROUGH = 64 };

/* Some digits, the op or argument they come from, and the ops that handed them on, in order; of a long chain only the
 * last ones. */
typedef struct {
  const msc_layout *digits;
  const char *origin;
  const msc_loc *loc; /* of the origin, or NULL */
  size_t left_out, num;
  const char **through;
} shard_chain;

typedef struct {
  const char *op, *value;
  int64_t dim;
  shard_chain here, there;
} shard_conflict;

typedef struct shard_chains shard_chains;

/* Reads all stored attributes into chains, in the graph's arena. */
shard_chains *shard_chains_of(shard_graph *g);
/* Lists the chains of the digits that the group has from others, one per origin and path. Returns how many. */
size_t shard_chains_to(const shard_chains *c, int group, shard_chain **out_chain);
size_t shard_chains_conflicts(const shard_chains *c, int group, shard_conflict **out_conflict);

#endif
