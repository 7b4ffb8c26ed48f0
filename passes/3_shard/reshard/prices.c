/* prices.c: a type and two layouts, by number -> ns, from tables that the planner and the engine of rows.h fill (see
 * prices.h). */
#include "passes/3_shard/reshard/prices.h"

#include <string.h>

#include "ir/table.h"
#include "passes/3_shard/reshard/rows.h"

/* The layouts asked for so far with one type, numbered in order of appearance, and the costs between them. */
typedef struct {
  const msc_type *type;
  int num, room;
  int *place, num_places; /* by number of prices.h: the layout's number here, plus one; 0: it has none */
  /* row i: costs from layout i; `width[i]` long, UNKNOWN where they were not computed yet */
  int64_t **row;
  int *width;
} price_type;

typedef struct {
  const msc_layout *layout;
  int state; /* of `rows` */
} numbered_layout;

static const int64_t UNKNOWN = -1;

struct shard_prices {
  msc_context *ctx;
  msc_arena *arena;
  const msc_cost *cost;
  int64_t bucket;
  msc_reshard_options options[2];
  shard_rows *rows;        /* NULL: too many digits */
  msc_reshard *planner[2]; /* of other values, and of gradients */
  MSC_TABLE(price_type) types[2];
  MSC_TABLE(numbered_layout) layouts;
};

void shard_reshard_options(const msc_cost *cost, int64_t bucket, msc_reshard_options *out_options) {
  msc_reshard_options *o = out_options;
  memset(o, 0, sizeof *o);
  o->time = true;
  o->launch_ns = (double)cost->cluster->collective_ns;
  o->measured = cost->cluster->num_measures ? cost->cluster : NULL;
  o->shared_by = bucket;
  for (int a = 0; a < cost->mesh->num_axes; a++) {
    int64_t size = cost->mesh->axis[a].size, inner = msc_cost_inner_parts(cost, a);
    msc_subaxis part[2] = {{(uint16_t)a, 1, (uint32_t)(size / inner)},
                           {(uint16_t)a, (uint32_t)(size / inner), (uint32_t)inner}};
    for (int k = 0; k < 2; k++) {
      if (part[k].size == 1) continue;
      const msc_cluster_level *l = &cost->cluster->level[msc_cost_level(cost, part[k])];
      o->link[o->num_links++] =
          (msc_link){part[k], (double)l->latency_ns, l->bytes_per_s / 1e9, (int)(l - cost->cluster->level)};
    }
  }
}

shard_prices *shard_prices_new(msc_context *ctx, msc_arena *arena, const msc_cost *cost, bool no_alltoall,
                               int64_t bucket) {
  shard_prices *p = msc_new(arena, shard_prices);
  p->ctx = ctx;
  p->arena = p->types[0].index.arena = p->types[1].index.arena = p->layouts.index.arena = arena;
  p->cost = cost, p->bucket = bucket;
  for (int k = 0; k < 2; k++) {
    shard_reshard_options(cost, k ? bucket : 1, &p->options[k]);
    p->options[k].no_alltoall = no_alltoall;
    p->planner[k] = msc_reshard_new(ctx, cost->mesh, &p->options[k]);
  }
  return p;
}

/* A digit that crosses the border between two levels of links is split there. */
void shard_prices_digits(shard_prices *p, bool exchanges, int num, const msc_subaxis *digit) {
  msc_subaxis part[2 * MSC_MAX_SUBAXES];
  int parts = 0;
  for (int i = 0; i < num; i++) {
    int64_t border = p->cost->mesh->axis[digit[i].axis].size / msc_cost_inner_parts(p->cost, digit[i].axis);
    int64_t end = (int64_t)digit[i].pre * digit[i].size;
    part[parts] = digit[i];
    if (border > digit[i].pre && border < end && end % border == 0 && border % digit[i].pre == 0) {
      part[parts++].size = (uint32_t)(border / digit[i].pre);
      part[parts] = (msc_subaxis){digit[i].axis, (uint32_t)border, (uint32_t)(end / border)};
    }
    parts++;
  }
  p->rows = shard_rows_new(p->ctx, p->arena, p->cost->mesh, &p->options[0], exchanges, parts, part);
}

/* ---- sets of prices ---- */

typedef struct {
  shard_pricing of;
  msc_mesh mesh;
  msc_cost cost;
  shard_prices *prices;
} priced_mesh;

struct shard_price_book {
  msc_context *ctx;
  msc_arena *arena;
  uint32_t num;
  priced_mesh **mesh;
};

shard_price_book *shard_price_book_new(msc_context *ctx, msc_arena *arena) {
  shard_price_book *b = msc_new(arena, shard_price_book);
  b->ctx = ctx, b->arena = arena;
  return b;
}

static bool is_same_pricing(const shard_pricing *a, const shard_pricing *b) {
  bool same = a->cost->cluster == b->cost->cluster && msc_mesh_equal(a->cost->mesh, b->cost->mesh) &&
              a->no_alltoall == b->no_alltoall && a->exchanges == b->exchanges && a->bucket == b->bucket &&
              a->num == b->num;
  for (int i = 0; i < a->num && same; i++)
    same = a->digit[i].axis == b->digit[i].axis && a->digit[i].pre == b->digit[i].pre &&
           a->digit[i].size == b->digit[i].size;
  return same;
}

shard_prices *shard_find_prices(shard_price_book *book, const shard_pricing *pricing) {
  for (uint32_t i = 0; i < book->num; i++)
    if (is_same_pricing(&book->mesh[i]->of, pricing)) return book->mesh[i]->prices;
  priced_mesh *m = msc_new(book->arena, priced_mesh);
  m->of = *pricing, m->mesh = *pricing->cost->mesh, m->cost = *pricing->cost;
  m->cost.mesh = &m->mesh, m->of.cost = &m->cost;
  m->of.digit = msc_arena_copy(book->arena, pricing->digit, (size_t)pricing->num * sizeof *pricing->digit);
  m->prices = shard_prices_new(book->ctx, book->arena, &m->cost, pricing->no_alltoall, pricing->bucket);
  shard_prices_digits(m->prices, pricing->exchanges, pricing->num, m->of.digit);
  msc_grow(book->arena, book->mesh, book->num);
  book->mesh[book->num++] = m;
  return m->prices;
}

/* ---- numbers ---- */

int shard_layout_number(shard_prices *p, const msc_layout *l) {
  size_t num = msc_table_num(&p->layouts);
  numbered_layout *n = msc_table_at(&p->layouts, &l);
  if (num < msc_table_num(&p->layouts)) n->state = p->rows ? shard_rows_state(p->rows, l) : SHARD_NO_STATE;
  return (int)(n - p->layouts.item);
}

const msc_layout *shard_numbered_layout(const shard_prices *p, int number) { return p->layouts.item[number].layout; }

/* ---- rows ---- */

/* The number that a layout has in a type's tables. */
static int number_in_type(shard_prices *p, price_type *t, int number) {
  msc_reserve(p->arena, t->place, t->num_places, number + 1);
  if (t->place[number]) return t->place[number] - 1;
  int room = t->room; /* rows and widths have the same room */
  msc_reserve(p->arena, t->row, room, t->num + 1);
  msc_reserve(p->arena, t->width, t->room, t->num + 1);
  t->place[number] = ++t->num;
  return t->num - 1;
}

/* Makes the row as long as there are layouts, and returns it. */
static int64_t *widen_row(shard_prices *p, price_type *t, int place) {
  int width = t->width[place];
  if (width < t->num) {
    t->row[place] = msc_array_copy(p->arena, t->row[place], (size_t)width, (size_t)t->room, sizeof **t->row);
    t->width[place] = t->room;
    for (int i = width; i < t->room; i++) t->row[place][i] = UNKNOWN;
  }
  return t->row[place];
}

/* Writes the prices that the engine of rows.h gives; SHARD_UNEVEN for layouts that it cannot represent. out_ns has room
 * for 2 * num numbers, state for num. */
static void price_by_rows(shard_prices *p, const msc_type *type, int64_t bucket, int from, int num, const int *to,
                          int64_t *out_ns, int *state) {
  int known = 0;
  int64_t *ns = out_ns + num;
  for (int i = 0; i < num; i++) {
    out_ns[i] = SHARD_UNEVEN;
    if (p->layouts.item[to[i]].state != SHARD_NO_STATE) state[known++] = p->layouts.item[to[i]].state;
  }
  if (p->layouts.item[from].state == SHARD_NO_STATE || !known ||
      !shard_rows_costs(p->rows, type, bucket, p->layouts.item[from].state, known, state, ns))
    return;
  for (int i = 0, k = 0; i < num; i++)
    if (p->layouts.item[to[i]].state != SHARD_NO_STATE) out_ns[i] = ns[k++];
}

/* Computes the costs to those layouts of to[0..num) that the row does not have yet. */
static void fill_price_row(shard_prices *p, price_type *t, bool is_gradient, int from, int num, const int *to,
                           int64_t *row) {
  msc_arena *a = msc_arena_new(p->ctx);
  int missing = 0, *number = msc_new_array(a, int, num);
  for (int i = 0; i < num; i++)
    if (row[t->place[to[i]] - 1] == UNKNOWN) number[missing++] = to[i];
  int64_t *cost = msc_new_array(a, int64_t, 2 * (size_t)missing);
  if (p->rows)
    price_by_rows(p, t->type, is_gradient ? p->bucket : 1, from, missing, number, cost, msc_new_array(a, int, missing));
  for (int i = 0; i < missing && !p->rows; i++) cost[i] = SHARD_UNEVEN;
  for (int i = 0; i < missing; i++) {
    if (cost[i] == SHARD_UNEVEN)
      cost[i] = msc_reshard_cost(p->planner[is_gradient], t->type, p->layouts.item[from].layout,
                                 p->layouts.item[number[i]].layout);
    row[t->place[number[i]] - 1] = cost[i] < 0 ? SHARD_IMPOSSIBLE : cost[i];
  }
  msc_arena_free(a);
}

void shard_price_row(shard_prices *p, const msc_type *type, bool is_gradient, int from, int num, const int *to,
                     int64_t *out_ns) {
  const msc_type *plain = msc_type_with_layout(p->ctx, type, NULL);
  price_type *t = msc_table_at(&p->types[is_gradient], &plain);
  int at = number_in_type(p, t, from);
  for (int i = 0; i < num; i++) number_in_type(p, t, to[i]);
  int64_t *row = widen_row(p, t, at);
  bool whole = true;
  for (int i = 0; i < num && whole; i++) whole = row[t->place[to[i]] - 1] != UNKNOWN;
  if (!whole) fill_price_row(p, t, is_gradient, from, num, to, row);
  for (int i = 0; i < num; i++) out_ns[i] = row[t->place[to[i]] - 1];
}

int64_t shard_price(shard_prices *p, const msc_type *type, bool is_gradient, int from, int to) {
  int64_t ns;
  shard_price_row(p, type, is_gradient, from, 1, &to, &ns);
  return ns;
}

int64_t shard_bucket_of(const msc_func *f) {
  const int64_t bucket_bytes = 64 << 20;
  int64_t num = 0, bytes = 0;
  for (const msc_op *op = f->body->first; op; op = op->next) {
    if (!(msc_info(op)->flags & MSC_UPDATE)) continue;
    num++;
    bytes += msc_type_bytes(op->in[0].value->type);
  }
  int64_t buckets = 1 + bytes / bucket_bytes;
  return num > buckets ? num / buckets : 1;
}
