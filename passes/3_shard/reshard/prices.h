/* prices.h: costs of changes of layout, by type and numbers of layouts, computed on first use.  The cost of one step of
 * a change is computed in graph.c: msc_reshard_price. */
#ifndef MSC_PASSES_3_SHARD_PRICES_H
#define MSC_PASSES_3_SHARD_PRICES_H

#include "passes/3_shard/step_time_search/eliminate.h"
#include "passes/3_shard/reshard/reshard.h"
#include "passes/time_model.h"

typedef struct shard_prices shard_prices;

/* Makes empty tables of prices in ns on the described cluster, in `arena`; a gradient pays its share of launch and
 * latencies among the `bucket` gradients that one collective carries. */
shard_prices *shard_prices_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, bool no_alltoall,
                               int64_t bucket);
/* Sets the digits of which all layouts asked for consist; if they are few, a whole row of prices is computed at once
 * (rows.h), with or without exchanges. */
void shard_prices_digits(shard_prices *p, bool exchanges, int num, const msc_subaxis *digit);
/* Everything that prices depend on: the key under which a price book stores them. */
typedef struct {
  const msc_cost *cost;
  bool no_alltoall, exchanges;
  int64_t bucket;
  int num;
  const msc_subaxis *digit;
} shard_pricing;

/* Prices that all searches of one compilation share, one set for each mesh.  The caller frees `arena`. */
typedef struct shard_price_book shard_price_book;
shard_price_book *shard_price_book_new(msc_context *ctx, msc_arena *arena);
/* The prices in the book, made on first use.  The book copies what `pricing` points to. */
shard_prices *shard_find_prices(shard_price_book *book, const shard_pricing *pricing);

/* The planner's options for a described cluster. */
void shard_reshard_options(const msc_cost *cost, int64_t bucket, msc_reshard_options *out_options);

/* A small number for an interned layout. */
int shard_layout_number(shard_prices *p, const msc_layout *l);
const msc_layout *shard_numbered_layout(const shard_prices *p, int number);
/* Costs from one layout of a value of this type to each of num others, by number.  SHARD_IMPOSSIBLE: no plan. */
void shard_price_row(shard_prices *p, const msc_type *type, bool is_gradient, int from, int num, const int *to,
                     int64_t *out_ns);
int64_t shard_price(shard_prices *p, const msc_type *type, bool is_gradient, int from, int to);

/* How many gradients of the function travel in one bucket, on average. */
int64_t shard_bucket_of(const msc_func *f);

#endif
