/* pieces.c: a model on a mesh -> pieces, runs of digits that a search assigns as a whole, and prices of changes of
 * layout (see space.h). */
#include <string.h>

#include "passes/3_shard/step_time_search/mesh_shape.h"
#include "passes/3_shard/step_time_search/space.h"

enum { FEW_DEVICES = 8 };

/* Marks border[a] if a piece must begin at atom a because of a list of digits: where the list begins or ends in the
 * order of the mesh, and where it does not have atom a directly behind atom a - 1. */
static void mark_borders(const msc_atoms *atoms, int num, const uint8_t *atom, bool *border) {
  uint32_t in = 0, joined = 0;
  for (int i = 0; i < num; i++) {
    in |= 1u << atom[i];
    if (i && atom[i] == atom[i - 1] + 1) joined |= 1u << atom[i];
  }
  for (int a = 1; a < atoms->num; a++)
    if ((in >> a & 1) != (in >> (a - 1) & 1) || ((in >> a & 1) && !(joined >> a & 1))) border[a] = true;
}

static void mark_layout(const msc_atoms *atoms, const msc_layout *l, bool *border) {
  uint8_t atom[MSC_MAX_SUBAXES];
  for (int d = 0; l && d < l->rank; d++) {
    int num = msc_atoms_in(atoms, l->first[d + 1] - l->first[d], l->sub + l->first[d], atom);
    if (num > 0) mark_borders(atoms, num, atom, border);
  }
}

/* Finds the pieces: axes, cut where digits that are fixed, or layouts of arguments, begin or end. False: too many. */
static bool find_pieces(const shard_model *m, int *out_num, shard_piece *out_piece) {
  const msc_atoms *atoms = &m->g->atoms;
  bool border[MSC_MAX_SUBAXES] = {true};
  for (int a = 1; a < atoms->num; a++) border[a] = atoms->atom[a].axis != atoms->atom[a - 1].axis;
  for (size_t i = 0; i < m->num_vars; i++)
    for (int l = 0; l < m->var[i].rule->num_letters; l++)
      if (m->var[i].fixed.num[l]) mark_borders(atoms, m->var[i].fixed.num[l], m->var[i].fixed.atom[l], border);
  for (size_t i = 0; i < m->g->func->body->num_args; i++) mark_layout(atoms, m->g->arg_layout[i], border);
  *out_num = 0;
  for (int a = 0; a < atoms->num; a++) {
    if (border[a] && *out_num == SHARD_MAX_PIECES) return false;
    if (border[a]) out_piece[(*out_num)++] = (shard_piece){(uint8_t)a, 0, 1};
    out_piece[*out_num - 1].num++;
    out_piece[*out_num - 1].size *= atoms->atom[a].size;
  }
  return true;
}

/* Cuts the largest piece that can be cut in two, repeatedly, up to the greatest number of axes that a mesh has. */
static void cut_largest_pieces(const msc_atoms *atoms, int *num, shard_piece *piece) {
  while (*num < SHARD_MESH_AXES) {
    int at = -1;
    for (int p = 0; p < *num; p++)
      if (piece[p].num > 1 && (at < 0 || piece[p].size > piece[at].size)) at = p;
    if (at < 0) return;
    shard_piece *p = &piece[at];
    memmove(p + 1, p, (size_t)((*num)++ - at) * sizeof *p);
    p->num--, p->size /= atoms->atom[p->first + p->num].size;
    p[1].first += p->num, p[1].num = 1, p[1].size = atoms->atom[p[1].first].size;
  }
}

/* Do prices include exchanges? Yes for few devices, or few pieces that cannot be cut: then the best strategy that a
 * search finds is the best under the planner's own prices. On 16 devices and more, exchanges add half to the
 * time of a compile and change a step's by a ten-thousandth. */
static bool has_exchanges(int num, const shard_piece *piece) {
  int64_t devices = 1;
  bool is_finest = num <= SHARD_MESH_AXES;
  for (int p = 0; p < num; p++) devices *= piece[p].size, is_finest &= shard_count_primes(piece[p].size) <= 1;
  return is_finest || devices <= FEW_DEVICES;
}

/* The costs of composites on the mesh of these prices, which a search may look at several times. */
static shard_expansions *find_expansions(const shard_model *m, shard_space_options *o) {
  for (size_t i = 0; i < o->num_meshes; i++)
    if (o->of_mesh[i].prices == o->prices) return o->of_mesh[i].expansions;
  msc_grow(m->g->arena, o->of_mesh, o->num_meshes);
  o->of_mesh[o->num_meshes] =
      (shard_mesh_expansions){o->prices, shard_expansions_new(m->g->ctx, m->g->arena, o->cost, o->prices)};
  return o->of_mesh[o->num_meshes++].expansions;
}

bool shard_price_mesh(const shard_model *m, const msc_cost *cost, bool no_alltoall, int64_t bucket, bool fine,
                      shard_space_options *o) {
  shard_piece piece[SHARD_MAX_PIECES]; /* for prices, which count steps by parts of the search's pieces, too */
  msc_subaxis digit[SHARD_MAX_PIECES];
  int num;
  MSC_TRY(find_pieces(m, &num, piece));
  memcpy(o->piece, piece, sizeof piece), o->num_pieces = num;
  cut_largest_pieces(&m->g->atoms, &num, piece);
  if (fine) memcpy(o->piece, piece, sizeof piece), o->num_pieces = num;
  for (int i = 0; i < num; i++) {
    const msc_subaxis *first = &m->g->atoms.atom[piece[i].first];
    digit[i] = (msc_subaxis){first->axis, first->pre, (uint32_t)piece[i].size};
  }
  o->cost = cost;
  if (!o->book) o->book = shard_price_book_new(m->g->ctx, m->g->arena);
  o->prices =
      shard_find_prices(o->book, &(shard_pricing){cost, no_alltoall, has_exchanges(num, piece), bucket, num, digit});
  o->expansions = find_expansions(m, o);
  return true;
}
