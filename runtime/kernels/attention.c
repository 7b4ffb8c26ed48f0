/* attention.c: queries, keys and values in, the result of attention, or the gradients of all three, out; one item of
 * ir/abi/attention.h at a time.  Scores are computed block by block in a worker's memory, and are never stored. */
#include "runtime/kernels/attention.h"

#include <math.h>
#include <string.h>

enum { ROWS = MSC_ATTENTION_ROWS, KEYS = MSC_ATTENTION_KEYS, LANES = MSC_ATTENTION_LANES };

/* One matrix of an operand: its rows lie `step` elements apart. */
typedef struct {
  float *at;
  int64_t step;
} matrix;

typedef struct {
  const mscrt_record *r;
  void *const *buffers;
  msc_attention a;
  msc_attention_cut cut;
  const mscrt_score_loops *loops;
  float *panels_k, *panels_v, *panels_keys, *panels_rows, *scores, *transposed, *sums, *totals;
} item;

/* True if the graph has a mask. Operand `extra` is the mask or, with dropout, the factors by which weights are kept. */
static bool has_mask(const mscrt_graph *g) {
  return g->kind == PLAN_GRAPH_KIND_MASKED_ATTENTION || g->kind == PLAN_GRAPH_KIND_MASKED_ATTENTION_GRAD;
}
static bool has_keep(const mscrt_graph *g) {
  return g->kind == PLAN_GRAPH_KIND_DROPPED_ATTENTION || g->kind == PLAN_GRAPH_KIND_DROPPED_ATTENTION_GRAD;
}

/* Row `row` of operand i for a batch and a head. */
static matrix matrix_of(const item *t, int i, int64_t batch, int64_t head, int64_t row) {
  const int64_t *step = t->r->graph->operand[i].stride;
  return (matrix){(float *)t->buffers[i] + batch * step[0] + head * step[1] + row * step[2], step[2]};
}

/* ---- products ---- */

/* Packs rows of a matrix, which are columns of the product's second operand. */
static void pack_transposed(const item *t, matrix m, int64_t rows, int64_t terms, float *panels) {
  t->r->pack((void *[]){m.at, panels}, 0, (rows + t->a.width - 1) / t->a.width, (int64_t[]){rows, terms, m.step}, NULL);
}

/* Packs a matrix whose rows are terms of a product. */
static void pack_straight(const item *t, matrix m, int64_t columns, int64_t terms, float *panels) {
  int64_t width = t->a.width;
  for (int64_t c = 0; c < columns; c += width, panels += terms * width)
    t->loops->copy(m.at + c, m.step, terms, mscrt_smaller(width, columns - c), width, panels);
}

/* c = a b, or with `more` c += a b; a's terms lie side by side unless it is transposed.  lies: elements from term to
 * term of b; 0: b is packed, in panels of `packed` terms, of which the first `terms` are taken. */
typedef struct {
  matrix a, c;
  float *b;
  int64_t lies, packed, rows, columns, terms;
  bool transposed, more;
} product;

static void multiply_columns(const item *t, const product *p, float *b, int64_t from, int64_t columns) {
  float *c = p->c.at + from;
  t->r->multiply(
      (void *[]){p->a.at, b, c, t->transposed, p->more ? c : NULL}, 0, p->rows,
      (int64_t[10]){columns, p->terms, p->a.step, p->c.step, 1, p->transposed, false, p->more ? p->c.step : 0, p->lies},
      NULL);
}

static void multiply(const item *t, const product *p) {
  int64_t width = p->lies || p->terms == p->packed ? p->columns : t->a.width;
  for (int64_t c = 0; c < p->columns; c += width)
    multiply_columns(t, p, p->lies ? p->b : p->b + c * p->packed, c, mscrt_smaller(width, p->columns - c));
}

/* Sets the second operand of a product: b itself, read in place, if its columns are whole panels, else b packed into
 * `panels`. */
static void set_second_operand(const item *t, product *p, matrix b, float *panels) {
  if (p->columns % t->a.width == 0 && b.step == p->columns) {
    p->b = b.at, p->lies = b.step;
    return;
  }
  pack_straight(t, b, p->columns, p->terms, panels);
  p->b = panels, p->lies = 0, p->packed = p->terms;
}

/* ---- blocks of scores ---- */

/* The block of some rows of a head and some keys. */
static mscrt_scores block_of(const item *t, int64_t batch, int64_t head, int64_t row, int64_t rows, int64_t key,
                             int64_t keys) {
  const mscrt_graph *g = t->r->graph;
  mscrt_scores b = {.scores = t->scores,
                    .other = t->scores + ROWS * KEYS,
                    .rows = rows,
                    .keys = g->causal ? mscrt_smaller(keys, row + rows - key) : keys,
                    .row = row,
                    .key = key,
                    .causal = g->causal,
                    .scale = g->scale};
  int extra = t->a.gradient ? 6 : 3;
  const mscrt_graph_tensor *x = &g->operand[extra];
  if (has_keep(g)) {
    matrix keep = matrix_of(t, extra, batch, head, row);
    b.keep = keep.at + key, b.keep_row = keep.step;
  }
  if (has_mask(g)) {
    int64_t at[4] = {batch, head, row, key};
    b.mask = t->buffers[extra];
    for (int d = 0; d < 4; d++) b.mask += x->dim[d] > 1 ? at[d] * x->stride[d] : 0;
    b.mask_row = x->dim[2] > 1 ? x->stride[2] : 0, b.mask_key = x->dim[3] > 1;
  }
  return b;
}

/* Fills a block with the products of rows of a and rows that are packed. */
static void multiply_by_transposed(const item *t, const mscrt_scores *b, float *to, matrix a, float *panels,
                                   int64_t terms) {
  multiply(
      t,
      &(product){
          .a = a, .b = panels, .c = {to, KEYS}, .packed = terms, .rows = b->rows, .columns = b->keys, .terms = terms});
}

/* ---- y ---- */

/* Adds the weighted values of `keys` keys to the sums of some rows of a head. */
static void add_keys(const item *t, int64_t batch, int64_t head, int64_t first, int64_t num, int64_t key,
                     int64_t keys) {
  int64_t group = head / (t->a.heads / t->a.groups), f = t->a.f;
  float *most = t->totals, *total = t->totals + t->cut.totals / 2;
  product p = {.columns = f, .terms = keys, .more = key > 0};
  pack_transposed(t, matrix_of(t, 1, batch, group, key), keys, t->a.e, t->panels_k);
  set_second_operand(t, &p, matrix_of(t, 2, batch, group, key), t->panels_v);
  for (int64_t row = 0; row < num; row += ROWS) {
    int64_t rows = mscrt_smaller(ROWS, num - row);
    if (t->r->graph->causal && key >= first + row + rows) continue;
    mscrt_scores b = block_of(t, batch, head, first + row, rows, key, keys);
    multiply_by_transposed(t, &b, b.scores, matrix_of(t, 0, batch, head, first + row), t->panels_k, t->a.e);
    t->loops->weigh(&b, most + row, total + row, t->sums + row * f, key ? f : 0);
    p.a = (matrix){b.scores, KEYS}, p.c = (matrix){t->sums + row * f, f}, p.rows = rows, p.terms = b.keys;
    multiply(t, &p);
  }
}

static void attend(const item *t, int64_t unit) {
  int64_t part = t->cut.parts - 1 - unit % t->cut.parts, head = unit / t->cut.parts % t->a.heads,
          batch = unit / t->cut.parts / t->a.heads, first = part * t->cut.rows,
          num = mscrt_smaller(t->cut.rows, t->a.rows - first);
  float *most = t->totals, *total = t->totals + t->cut.totals / 2;
  int result = t->r->graph->num_operands - 2;
  for (int64_t i = 0; i < num; i++) most[i] = -INFINITY, total[i] = 0;
  for (int64_t key = 0; key < t->a.keys && !(t->r->graph->causal && key >= first + num); key += KEYS)
    add_keys(t, batch, head, first, num, key, mscrt_smaller(KEYS, t->a.keys - key));
  matrix y = matrix_of(t, result, batch, head, first), stats = matrix_of(t, result + 1, batch, head, first);
  t->loops->divide(t->sums, total, num, t->a.f, y.at, y.step);
  t->loops->log(most, total, num, stats.at, stats.step);
}

/* ---- gradients ---- */

enum { Q, K, V, Y, STATS, DY };

/* Sums dy y of each row of a head. */
static void sum_along(const item *t, int64_t batch, int64_t head, float *out_sum) {
  matrix y = matrix_of(t, Y, batch, head, 0), dy = matrix_of(t, DY, batch, head, 0);
  t->loops->multiply(y.at, y.step, dy.at, dy.step, t->a.rows, t->a.f, out_sum);
}

/* Makes c the products of a block's rows, transposed, with a matrix of as many rows, or adds them to it. */
static void add_transposed_products(const item *t, const mscrt_scores *b, float *scores, matrix of, matrix c,
                                    int64_t columns, bool more) {
  product p = {.a = {scores, KEYS},
               .c = c,
               .rows = b->keys,
               .columns = columns,
               .terms = b->rows,
               .transposed = true,
               .more = more};
  set_second_operand(t, &p, of, t->panels_rows);
  multiply(t, &p);
}

/* Adds what one block of scores adds to the gradients; keys: its keys as terms of a product; more: it is not the first
 * that adds to the gradients of its keys. */
static void add_block(const item *t, const mscrt_scores *b, int64_t batch, int64_t head, const product *keys,
                      const float *along, bool more) {
  int64_t group = head / (t->a.heads / t->a.groups);
  int result = t->r->graph->num_operands - 3;
  matrix q = matrix_of(t, Q, batch, head, b->row), dy = matrix_of(t, DY, batch, head, b->row),
         stats = matrix_of(t, STATS, batch, head, b->row);
  multiply_by_transposed(t, b, b->scores, q, t->panels_k, t->a.e);
  multiply_by_transposed(t, b, b->other, dy, t->panels_v, t->a.f);
  t->loops->differentiate(b, stats.at, along);
  add_transposed_products(t, b, b->scores, dy, matrix_of(t, result + 2, batch, group, b->key), t->a.f, more);
  add_transposed_products(t, b, b->other, q, matrix_of(t, result + 1, batch, group, b->key), t->a.e, more);
  product p = {.a = {b->other, KEYS},
               .c = matrix_of(t, result, batch, head, b->row),
               .rows = b->rows,
               .columns = t->a.e,
               .terms = b->keys,
               .b = keys->b,
               .lies = keys->lies,
               .packed = keys->packed,
               .more = b->key > 0};
  multiply(t, &p);
}

/* Clears the gradients of so many keys, to which no block adds. */
static void clear_keys(const item *t, int64_t batch, int64_t group, int64_t key, int64_t keys) {
  int result = t->r->graph->num_operands - 3;
  matrix dk = matrix_of(t, result + 1, batch, group, key), dv = matrix_of(t, result + 2, batch, group, key);
  for (int64_t i = 0; i < keys; i++) {
    memset(dk.at + i * dk.step, 0, sizeof *dk.at * (size_t)t->a.e);
    memset(dv.at + i * dv.step, 0, sizeof *dv.at * (size_t)t->a.f);
  }
}

static void differentiate(const item *t, int64_t unit) {
  int64_t group = unit % t->a.groups, batch = unit / t->a.groups, members = t->a.heads / t->a.groups,
          head = group * members;
  for (int64_t m = 0; m < members; m++) sum_along(t, batch, head + m, t->totals + m * t->a.rows);
  for (int64_t key = 0; key < t->a.keys; key += KEYS) {
    int64_t keys = mscrt_smaller(KEYS, t->a.keys - key), first = t->r->graph->causal ? key / ROWS * ROWS : 0, made = 0;
    pack_transposed(t, matrix_of(t, K, batch, group, key), keys, t->a.e, t->panels_k);
    pack_transposed(t, matrix_of(t, V, batch, group, key), keys, t->a.f, t->panels_v);
    product p = {.columns = t->a.e, .terms = keys};
    set_second_operand(t, &p, matrix_of(t, K, batch, group, key), t->panels_keys);
    for (int64_t m = 0; m < members; m++)
      for (int64_t row = first; row < t->a.rows; row += ROWS) {
        mscrt_scores b = block_of(t, batch, head + m, row, mscrt_smaller(ROWS, t->a.rows - row), key, keys);
        if (!made) clear_keys(t, batch, group, key + b.keys, keys - b.keys);
        add_block(t, &b, batch, head + m, &p, t->totals + m * t->a.rows + row, made > 0);
        made++;
      }
    if (!made) clear_keys(t, batch, group, key, keys);
  }
}

void mscrt_run_attention(const mscrt_record *r, void *const *buffers, int64_t unit, void *room) {
  item t = {.r = r, .buffers = buffers, .a = mscrt_attention_of(r->graph), .panels_k = room};
  t.loops = mscrt_score_loops_of(msc_product_lanes(t.a.width));
  t.cut = msc_attention_cut_of(&t.a);
  t.panels_v = t.panels_k + t.cut.panels_k;
  t.panels_keys = t.panels_v + t.cut.panels_v;
  t.panels_rows = t.panels_keys + t.cut.panels_keys;
  t.scores = t.panels_rows + t.cut.panels_rows;
  t.transposed = t.scores + t.cut.scores;
  t.sums = t.transposed + t.cut.transposed;
  t.totals = t.sums + t.cut.sums;
  if (t.a.gradient) differentiate(&t, unit);
  else attend(&t, unit);
}
