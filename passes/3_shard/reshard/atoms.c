/* atoms.c: two layouts in; the planner's atoms, and both layouts written with them, out.
 *
 * If sizes divide and the mesh has at most max_atoms prime digits, these are the atoms, and the search over them is
 * exact.  Else the axes are cut only where the layouts cut them, and where digits of a dimension make as many parts as
 * digits of the other layout do there: from 2 parts along x to 4 along y, y is cut at 2.  If these are still too many,
 * digits that stay together in both layouts become one atom. */
#include <string.h>

#include "passes/3_shard/reshard/graph.h"

enum { FREE = -1, PARTIAL = -2, MAX_DIGITS = 2 * MSC_MAX_SUBAXES };

/* A run of digits and its place in each of the two layouts: elements [begin, end) of a dimension's list, or the set of
 * partial or free digits. */
typedef struct {
  int num;
  msc_subaxis digit[MSC_MAX_SUBAXES];
  int place[2], begin[2], end[2];
} run;

typedef struct {
  int num;
  run run[MAX_DIGITS];
} runs;

typedef struct {
  int num;
  uint32_t at[MAX_DIGITS];
} borders;

/* Adds a border to an axis, unless the borders would then not be a chain of divisors. */
static void add_digit_border(borders *b, uint32_t at) {
  int i = 0;
  while (i < b->num && b->at[i] < at) i++;
  if (i < b->num && b->at[i] == at) return;
  if (b->num == MAX_DIGITS || (i > 0 && at % b->at[i - 1]) || (i < b->num && b->at[i] % at)) return;
  memmove(b->at + i + 1, b->at + i, sizeof *b->at * (size_t)(b->num - i));
  b->at[i] = at;
  b->num++;
}

static void add_layout_borders(borders *axis, const msc_layout *l) {
  for (int i = 0; i < l->first[l->rank] + l->num_partial; i++) {
    add_digit_border(&axis[l->sub[i].axis], l->sub[i].pre);
    add_digit_border(&axis[l->sub[i].axis], l->sub[i].pre * l->sub[i].size);
  }
}

/* Adds a border inside the digit of dimension d of `l` where the digits up to it make `parts` parts. */
static void add_parts_border(borders *axis, const msc_layout *l, int d, int64_t parts) {
  int64_t before = 1;
  for (int i = l->first[d]; i < l->first[d + 1]; i++) {
    msc_subaxis s = l->sub[i];
    int64_t after = before * s.size;
    if (parts > before && parts < after && parts % before == 0 && after % parts == 0)
      add_digit_border(&axis[s.axis], (uint32_t)(s.pre * (parts / before)));
    before = after;
  }
}

static void add_common_borders(borders *axis, const msc_layout *l, const msc_layout *other) {
  for (int d = 0; d < l->rank; d++) {
    int64_t parts = 1;
    for (int i = other->first[d]; i < other->first[d + 1]; i++) {
      parts *= other->sub[i].size;
      add_parts_border(axis, l, d, parts);
    }
  }
}

/* The links as the partial digits of a layout, so that add_layout_borders and msc_atoms_of can take them. */
static msc_layout links_layout(const msc_reshard_options *options) {
  msc_layout l = {.num_partial = (uint8_t)options->num_links};
  for (int i = 0; i < options->num_links; i++) l.sub[i] = options->link[i].part;
  return l;
}

/* Splits the axes into prime digits whose borders include the ends of the links where that is possible. */
static bool find_prime_digits(const msc_mesh *mesh, const msc_reshard_options *options, const msc_layout *from,
                              const msc_layout *to, msc_atoms *out_digits) {
  msc_layout links = links_layout(options);
  const msc_layout *all[3] = {from, to, &links};
  return msc_atoms_of(mesh, 3, all, out_digits) || msc_atoms_of(mesh, 2, all, out_digits);
}

static void put_borders(const msc_mesh *mesh, const msc_reshard_options *options, int num,
                        const msc_layout *const *layout, borders *axis) {
  for (int a = 0; a < mesh->num_axes; a++) {
    add_digit_border(&axis[a], 1);
    add_digit_border(&axis[a], (uint32_t)mesh->axis[a].size);
  }
  for (int i = 0; i < num; i++) add_layout_borders(axis, layout[i]);
  msc_layout links = links_layout(options);
  add_layout_borders(axis, &links);
}

static void digits_between(const msc_mesh *mesh, const borders *axis, msc_atoms *out_digits) {
  out_digits->num = 0;
  for (int a = 0; a < mesh->num_axes; a++)
    for (int i = 1; i < axis[a].num && out_digits->num < MSC_MAX_SUBAXES; i++)
      out_digits->atom[out_digits->num++] =
          (msc_subaxis){(uint32_t)a, axis[a].at[i - 1], axis[a].at[i] / axis[a].at[i - 1]};
}

static void find_coarse_digits(const msc_mesh *mesh, const msc_reshard_options *options, const msc_layout *from,
                               const msc_layout *to, msc_atoms *out_digits) {
  borders axis[MSC_MAX_AXES] = {{0}};
  put_borders(mesh, options, 2, (const msc_layout *[]){from, to}, axis);
  add_common_borders(axis, from, to);
  add_common_borders(axis, to, from);
  digits_between(mesh, axis, out_digits);
}

/* Finds where each digit stands in layout number `which`. */
static void find_places_of_digits(const msc_atoms *digits, const msc_layout *l, int which, runs *r) {
  uint8_t list[MSC_MAX_SUBAXES];
  for (int d = 0; d < l->rank; d++) {
    int num = msc_atoms_in(digits, l->first[d + 1] - l->first[d], l->sub + l->first[d], list);
    for (int i = 0; i < num; i++)
      r->run[list[i]].place[which] = d, r->run[list[i]].begin[which] = i, r->run[list[i]].end[which] = i + 1;
  }
  int num = msc_atoms_in(digits, l->num_partial, l->sub + l->first[l->rank], list);
  for (int i = 0; i < num; i++) r->run[list[i]].place[which] = PARTIAL;
}

static bool is_continued_by(const run *a, const run *b, int which) {
  if (a->place[which] != b->place[which]) return false;
  return a->place[which] < 0 || a->end[which] == b->begin[which];
}

/* Merges the first two runs that are neighbours in both layouts; runs that are free in both layouts before others.
 * False: none. */
static bool merge_two_runs(runs *r, bool only_free) {
  for (int i = 0; i < r->num; i++)
    for (int j = 0; j < r->num; j++) {
      run *a = &r->run[i], *b = &r->run[j];
      if (i == j || !is_continued_by(a, b, 0) || !is_continued_by(a, b, 1)) continue;
      if (only_free && (a->place[0] != FREE || a->place[1] != FREE)) continue;
      for (int k = 0; k < b->num; k++) a->digit[a->num++] = b->digit[k];
      for (int w = 0; w < 2; w++) a->end[w] = b->end[w];
      memmove(b, b + 1, sizeof *b * (size_t)(r->num - j - 1));
      r->num--;
      return true;
    }
  return false;
}

/* Gives the atom the greatest latency, the least rate and the outermost level of the links that its digit lies on. */
static void put_link(reshard_problem *p, msc_subaxis s, int atom) {
  for (int i = 0; i < p->options->num_links; i++) {
    const msc_link *l = &p->options->link[i];
    if (l->part.axis != s.axis || l->part.pre * l->part.size <= s.pre || s.pre * s.size <= l->part.pre) continue;
    if (l->alpha_ns > p->alpha_ns[atom]) p->alpha_ns[atom] = l->alpha_ns;
    if (l->level > p->level[atom]) p->level[atom] = l->level;
    if (p->bytes_per_ns[atom] == 0 || l->bytes_per_ns < p->bytes_per_ns[atom]) p->bytes_per_ns[atom] = l->bytes_per_ns;
  }
}

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return true;
}

static void put_run(reshard_problem *p, const run *r, int atom) {
  p->num_digits[atom] = r->num;
  memcpy(p->digit[atom], r->digit, (size_t)r->num * sizeof *r->digit);
  p->size[atom] = msc_group_size(r->num, r->digit);
  p->prime[atom] = is_prime(p->size[atom]);
  p->alpha_ns[atom] = 0, p->bytes_per_ns[atom] = 0, p->level[atom] = 0;
  for (int i = 0; i < r->num; i++) put_link(p, r->digit[i], atom);
}

static void put_state(const runs *r, int which, int rank, reshard_state *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < r->num; i++)
    if (r->run[i].place[which] == PARTIAL) out->partial |= 1u << i;
  for (int d = 0; d < rank; d++)
    for (int at = 0, found = 1; found;) {
      found = 0;
      for (int i = 0; i < r->num && !found; i++)
        if (r->run[i].place[which] == d && r->run[i].begin[which] == at) {
          out->atom[d][out->num[d]++] = (uint8_t)i;
          at = r->run[i].end[which];
          found = 1;
        }
    }
}

/* Puts atoms that the problem does not tell apart into one class. With uneven parts no two atoms are alike, because
 * the parts depend on which digits are neighbours. */
static void put_classes(reshard_problem *p, const runs *r) {
  for (int i = 0; i < p->num_atoms; i++) {
    const run *a = &r->run[i];
    p->class_of[i] = (uint8_t)i;
    if (p->uneven || a->place[0] >= 0 || a->place[1] >= 0) continue;
    for (int j = i - 1; j >= 0; j--) {
      const run *b = &r->run[j];
      if (p->size[i] != p->size[j] || p->alpha_ns[i] != p->alpha_ns[j] || p->bytes_per_ns[i] != p->bytes_per_ns[j] ||
          p->level[i] != p->level[j])
        continue;
      if (a->place[0] != b->place[0] || a->place[1] != b->place[1]) continue;
      p->class_of[i] = p->class_of[j];
      p->has_classes = true;
      break;
    }
  }
}

static void put_target(reshard_problem *p) {
  uint32_t all = (1u << p->num_atoms) - 1;
  p->from_local = msc_reshard_local(p, &p->from);
  p->to_local = msc_reshard_local(p, &p->to);
  p->to_terms = msc_reshard_atoms_size(p, p->to.partial);
  p->to_copies = msc_reshard_atoms_size(p, all & ~msc_reshard_used(p, &p->to));
}

/* Makes a row for every link rate but the fastest: the atoms that are no faster than it. */
static void put_links(reshard_problem *p) {
  uint32_t all = (1u << p->num_atoms) - 1;
  double above = 0, slowest = 0, slowest_alpha = 0;
  for (int i = 0; i < p->num_atoms; i++) {
    if (i == 0 || p->bytes_per_ns[i] < slowest) slowest = p->bytes_per_ns[i];
    if (p->alpha_ns[i] > slowest_alpha) slowest_alpha = p->alpha_ns[i];
    if (i == 0 || p->alpha_ns[i] < p->fastest_alpha) p->fastest_alpha = p->alpha_ns[i];
    if (p->bytes_per_ns[i] > p->fastest) p->fastest = p->bytes_per_ns[i];
  }
  for (int i = 0; i < p->num_atoms; i++)
    if (p->bytes_per_ns[i] > slowest || p->alpha_ns[i] < slowest_alpha) p->not_slowest |= 1u << i;
  for (;;) {
    reshard_links l = {.rate = p->fastest};
    for (int i = 0; i < p->num_atoms; i++)
      if (p->bytes_per_ns[i] > above && p->bytes_per_ns[i] < l.rate) l.rate = p->bytes_per_ns[i];
    if (l.rate >= p->fastest) return;
    l.alpha_ns = 1e30;
    for (int i = 0; i < p->num_atoms; i++) {
      if (p->bytes_per_ns[i] > l.rate) continue;
      l.slow |= 1u << i;
      if (p->alpha_ns[i] < l.alpha_ns) l.alpha_ns = p->alpha_ns[i];
    }
    l.devices = msc_reshard_atoms_size(p, all & ~l.slow);
    l.to_copies = msc_reshard_atoms_size(p, l.slow & ~msc_reshard_used(p, &p->to));
    p->links[p->num_links++] = l;
    above = l.rate;
  }
}

int msc_reshard_max_atoms(const msc_reshard_options *options) {
  int max = options->max_atoms ? options->max_atoms : options->time ? 4 : 7;
  return max < RESHARD_ATOMS ? max : RESHARD_ATOMS;
}

bool msc_reshard_problem_of(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options,
                            const msc_type *type, const msc_layout *from, const msc_layout *to,
                            reshard_problem *out_problem) {
  reshard_problem *p = out_problem;
  msc_atoms digits;
  runs r = {0};
  memset(p, 0, sizeof *p);
  if (!find_prime_digits(mesh, options, from, to, &digits)) return false;
  int max = msc_reshard_max_atoms(options);
  p->uneven = !msc_layout_fits(from, type) || !msc_layout_fits(to, type);
  p->coarse = digits.num > max || p->uneven; /* splitting a digit changes the parts of an uneven dimension */
  if (p->coarse) find_coarse_digits(mesh, options, from, to, &digits);
  r.num = digits.num;
  for (int i = 0; i < r.num; i++) r.run[i] = (run){.num = 1, .digit = {digits.atom[i]}, .place = {FREE, FREE}};
  find_places_of_digits(&digits, from, 0, &r);
  find_places_of_digits(&digits, to, 1, &r);
  while (r.num > max && (merge_two_runs(&r, true) || merge_two_runs(&r, false))) {}
  if (r.num > RESHARD_ATOMS) return false;
  p->ctx = ctx, p->mesh = mesh, p->options = options, p->type = type;
  p->from_layout = from, p->to_layout = to;
  p->rank = type->rank, p->num_atoms = r.num;
  for (int i = 0; i < r.num; i++) put_run(p, &r.run[i], i);
  put_classes(p, &r);
  put_state(&r, 0, p->rank, &p->from);
  put_state(&r, 1, p->rank, &p->to);
  p->elem_bytes = msc_dtype_bytes(type->dtype);
  p->total_bytes = msc_type_bytes(type);
  put_target(p);
  if (options->time) put_links(p);
  return true;
}

void msc_reshard_problem_with(msc_context *ctx, const msc_mesh *mesh, const msc_reshard_options *options,
                              const msc_type *type, const msc_atoms *digits, reshard_problem *out_problem) {
  reshard_problem *p = out_problem;
  memset(p, 0, sizeof *p);
  p->ctx = ctx, p->mesh = mesh, p->options = options, p->type = type;
  p->rank = type->rank, p->num_atoms = digits->num;
  for (int i = 0; i < digits->num; i++) {
    put_run(p, &(run){.num = 1, .digit = {digits->atom[i]}}, i);
    p->class_of[i] = (uint8_t)i;
    p->coarse |= !p->prime[i];
  }
  p->elem_bytes = msc_dtype_bytes(type->dtype);
  p->total_bytes = msc_type_bytes(type);
  put_target(p);
  put_links(p);
}

/* The layout of a state, not in normal form. */
static msc_layout raw_layout(const reshard_problem *p, const reshard_state *s) {
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = (uint8_t)p->rank;
  int num = 0;
  for (int d = 0; d < p->rank; d++) {
    raw.first[d] = (uint8_t)num;
    for (int i = 0; i < s->num[d]; i++)
      for (int j = 0; j < p->num_digits[s->atom[d][i]]; j++) raw.sub[num++] = p->digit[s->atom[d][i]][j];
  }
  raw.first[p->rank] = (uint8_t)num;
  for (int a = 0; a < p->num_atoms; a++)
    for (int j = 0; j < p->num_digits[a] && (s->partial >> a & 1); j++) raw.sub[num++] = p->digit[a][j];
  raw.num_partial = (uint8_t)(num - raw.first[p->rank]);
  raw.reduction = p->from_layout->num_partial ? p->from_layout->reduction : p->to_layout->reduction;
  return raw;
}

const msc_layout *msc_reshard_layout(const reshard_problem *p, const reshard_state *s) {
  msc_layout raw = raw_layout(p, s);
  return msc_layout_of(p->ctx, p->mesh, &raw);
}

const char *msc_reshard_text(const reshard_problem *p, msc_arena *arena, const reshard_state *s) {
  msc_layout raw = raw_layout(p, s);
  msc_layout_normalize(&raw, &raw);
  return msc_layout_print(arena, p->mesh, &raw);
}
