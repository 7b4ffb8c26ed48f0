/* reshard_ranks.c: device matrices, rank lists and layouts -> which rank needs whom (see reshard_ranks.h). */
#include <stdlib.h>
#include <string.h>

#include "tools/solve/read_grid.h"
#include "tools/solve/reshard_ranks.h"

/* ---- reading ---- */

bool reshard_read_grids(cli *c, const char *shape, reshard_side *from, reshard_side *to) {
  msc_grid a, b;
  MSC_TRY(read_grid(c, cli_text(c, "from-device-matrix"), cli_text(c, "from-tensor-map"), shape, &a));
  MSC_TRY(read_grid(c, cli_text(c, "to-device-matrix"), cli_text(c, "to-tensor-map"), shape, &b));
  int64_t na = msc_grid_devices(&a), nb = msc_grid_devices(&b), all = na > nb ? na : nb;
  if (cli_text(c, "from-ranks"))
    return msc_grid_layout(c->ctx, &a, na, &from->mesh, &from->layout) &&
           msc_grid_layout(c->ctx, &b, nb, &to->mesh, &to->layout);
  if (all % na || all % nb)
    return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--to-device-matrix"),
                     "%" PRId64 " devices and %" PRId64 " devices: one number must divide the other", na, nb);
  return msc_grid_layout(c->ctx, &a, all, &from->mesh, &from->layout) &&
         msc_grid_layout(c->ctx, &b, all, &to->mesh, &to->layout);
}

static bool read_side_ranks(cli *c, const char *option, reshard_side *side) {
  int64_t devices = msc_mesh_size(&side->mesh);
  const char *text = cli_text(c, option + 2);
  if (!text) text = msc_arena_printf(msc_context_arena(c->ctx), "0..%" PRId64, devices - 1);
  MSC_TRY(read_ranks(c, option, text, &side->num_ranks, &side->rank));
  if (side->num_ranks == devices) return true;
  return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, option), "%" PRId64 " ranks are listed for %" PRId64 " devices",
                   side->num_ranks, devices);
}

bool reshard_read_ranks(cli *c, reshard_side *from, reshard_side *to) {
  bool two = cli_text(c, "from-ranks");
  return read_side_ranks(c, two ? "--from-ranks" : "--ranks", from) &&
         read_side_ranks(c, two ? "--to-ranks" : "--ranks", to);
}

bool reshard_same_ranks(const reshard_side *from, const reshard_side *to) {
  return from->num_ranks == to->num_ranks && !memcmp(from->rank, to->rank, (size_t)to->num_ranks * sizeof *to->rank);
}

bool reshard_find_rank(cli *c, const reshard_side *to, int64_t *out_at) {
  int64_t wanted = cli_int(c, "rank", 0);
  for (*out_at = 0; *out_at < to->num_ranks; ++*out_at)
    if (to->rank[*out_at] == wanted) return true;
  return msc_error(c->ctx, MSC_E_LAYOUT, cli_loc(c, "--rank"), "rank %" PRId64 " is not among the %" PRId64 " ranks",
                   wanted, to->num_ranks);
}

/* ---- who is needed ---- */

static msc_box box_at(const msc_type *t, const reshard_side *s, int64_t at) {
  msc_box b;
  memset(&b, 0, sizeof b);
  msc_layout_box(&s->mesh, t, s->layout, at, b.begin, b.size);
  return b;
}

/* Parts of one layout are equal or disjoint; each that meets the wanted part is read once, from the rank itself if it
 * holds it, else from the first holder. */
json_t *reshard_needed(cli *c, const msc_type *t, const reshard_side *from, const reshard_side *to, int64_t at,
                       int64_t *out_elems) {
  msc_box wanted = box_at(t, to, at), piece, *seen = msc_new_array(msc_context_arena(c->ctx), msc_box, from->num_ranks);
  json_t *needed = json_array();
  int64_t num = 0, own = 0;
  while (own < from->num_ranks && from->rank[own] != to->rank[at]) own++;
  *out_elems = 0;
  for (int64_t i = -1; i < from->num_ranks; i++) {
    if (i == own || (i < 0 && own == from->num_ranks)) continue;
    msc_box b = box_at(t, from, i < 0 ? own : i);
    bool known = !msc_box_intersect(t->rank, &wanted, &b, &piece);
    for (int64_t k = 0; !known && k < num; k++) known = !memcmp(&seen[k], &b, sizeof b);
    if (known) continue;
    seen[num++] = b;
    json_array_append_new(needed, json_integer(from->rank[i < 0 ? own : i]));
    if (i >= 0) *out_elems += msc_box_elems(t->rank, &piece);
  }
  return needed;
}

/* ---- one step ---- */

static void *arena_alloc(void *user, size_t bytes) { return msc_arena_alloc(user, bytes); }

static int compare_rank_numbers(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

json_t *reshard_step_ranks(cli *c, const msc_type *t, const reshard_side *on, const msc_layout *from,
                           const msc_layout *to, int64_t at) {
  msc_box_mesh mesh = msc_mesh_sizes(&on->mesh);
  msc_box_layout a = msc_layout_cuts(from), b = msc_layout_cuts(to);
  msc_pull pull;
  json_t *ranks = json_array();
  if (msc_pull_of(&mesh, &a, &b, t->dim, at, arena_alloc, msc_context_arena(c->ctx), &pull) != MSC_PULL_OK)
    return ranks;
  int64_t num = pull.num_pieces * pull.num_terms, last = -1;
  for (int64_t i = 0; i < num; i++) pull.peer[i] = on->rank[pull.peer[i]];
  if (num) qsort(pull.peer, (size_t)num, sizeof *pull.peer, compare_rank_numbers);
  for (int64_t i = 0; i < num; i++) {
    if (pull.peer[i] != last) json_array_append_new(ranks, json_integer(pull.peer[i]));
    last = pull.peer[i];
  }
  return ranks;
}
