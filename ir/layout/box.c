/* box.c: mesh, layouts, shape and rank in; the rank's digits, its boxes and, for a change of layout, its pull list out
 * (see box.h). */
#include "ir/layout/box.h"

#include <string.h>

/* ---- digits ---- */

int64_t msc_box_mesh_size(const msc_box_mesh *mesh) {
  int64_t n = 1;
  for (int a = 0; a < mesh->num_axes; a++) n *= mesh->size[a];
  return n;
}

bool msc_box_mesh_ok(const msc_box_mesh *mesh) {
  if (mesh->num_axes < 0 || mesh->num_axes > MSC_BOX_AXES) return false;
  int64_t n = 1;
  for (int a = 0; a < mesh->num_axes; a++) {
    if (mesh->size[a] < 1 || mesh->size[a] > INT32_MAX) return false;
    n *= mesh->size[a];
    if (n > INT32_MAX) return false;
  }
  return true;
}

static uint64_t digit_end(msc_digit d) { return (uint64_t)d.pre * d.size; }

bool msc_digits_overlap(msc_digit a, msc_digit b) {
  return a.axis == b.axis && a.size > 1 && b.size > 1 && a.pre < digit_end(b) && b.pre < digit_end(a);
}

static const int64_t *split_of(const msc_box_layout *l, int d) { return l->split ? l->split[d] : NULL; }

/* l->digit may be NULL when there are no digits. */
int64_t msc_box_parts(const msc_box_layout *l, int d) {
  int num = l->first[d + 1] - l->first[d];
  return num ? msc_group_size(num, l->digit + l->first[d]) : 1;
}

static bool split_ok(const msc_box_layout *l, int d) {
  const int64_t *split = split_of(l, d);
  int64_t parts = msc_box_parts(l, d);
  if (!split) return true;
  for (int64_t i = 0; i < parts; i++)
    if (split[i] > split[i + 1]) return false;
  return parts > 1 && split[0] == 0;
}

bool msc_box_layout_ok(const msc_box_mesh *mesh, const msc_box_layout *l) {
  if (l->rank < 0 || l->rank > MSC_BOX_RANK || l->num < 0 || l->num > MSC_BOX_DIGITS || l->first[0] != 0) return false;
  for (int d = 0; d < l->rank; d++)
    if (l->first[d] > l->first[d + 1]) return false;
  if (l->first[l->rank] > l->num) return false;
  for (int i = 0; i < l->num; i++) {
    msc_digit d = l->digit[i];
    if (d.axis >= (uint32_t)mesh->num_axes || d.pre < 1 || d.size < 1) return false;
    if (digit_end(d) > (uint64_t)mesh->size[d.axis] || (uint64_t)mesh->size[d.axis] % digit_end(d)) return false;
    for (int j = 0; j < i; j++)
      if (msc_digits_overlap(d, l->digit[j])) return false;
  }
  for (int d = 0; d < l->rank; d++)
    if (!split_ok(l, d)) return false;
  return true;
}

bool msc_box_shape_ok(const msc_box_layout *l, const int64_t *shape) {
  for (int d = 0; d < l->rank; d++) {
    const int64_t *split = split_of(l, d);
    if (split && split[msc_box_parts(l, d)] != shape[d]) return false;
  }
  return true;
}

int64_t msc_digit_stride(const msc_box_mesh *mesh, msc_digit d) {
  int64_t stride = mesh->size[d.axis] / (int64_t)digit_end(d);
  for (int a = (int)d.axis + 1; a < mesh->num_axes; a++) stride *= mesh->size[a];
  return stride;
}

int64_t msc_digit_of(const msc_box_mesh *mesh, msc_digit d, int64_t rank) {
  return rank / msc_digit_stride(mesh, d) % d.size;
}

int64_t msc_group_size(int num, const msc_digit *digit) {
  int64_t n = 1;
  for (int i = 0; i < num; i++) n *= digit[i].size;
  return n;
}

int64_t msc_group_index(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t rank) {
  int64_t index = 0;
  for (int i = 0; i < num; i++) index = index * digit[i].size + msc_digit_of(mesh, digit[i], rank);
  return index;
}

/* Returns the difference in rank between group member `index` and member 0. */
static int64_t member_offset(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t index) {
  int64_t offset = 0;
  for (int i = num - 1; i >= 0; i--) {
    offset += index % digit[i].size * msc_digit_stride(mesh, digit[i]);
    index /= digit[i].size;
  }
  return offset;
}

/* Returns the difference in rank between `rank` and member 0 of its group over these digits. */
static int64_t own_offset(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t rank) {
  return member_offset(mesh, num, digit, msc_group_index(mesh, num, digit, rank));
}

int64_t msc_group_member(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t rank, int64_t index) {
  return rank - own_offset(mesh, num, digit, rank) + member_offset(mesh, num, digit, index);
}

/* ---- boxes ---- */

/* Returns the end of the run of digits of one axis that begins at i; these digits act as one cut. */
static int same_axis(const msc_box_layout *l, int i, int end) {
  int j = i + 1;
  while (j < end && l->digit[j].axis == l->digit[i].axis) j++;
  return j;
}

static int64_t cut_size(int64_t block, int64_t parts) { return block / parts + (block % parts != 0); }

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

void msc_box_of(const msc_box_mesh *mesh, const msc_box_layout *l, const int64_t *shape, int64_t rank,
                msc_box *out_box) {
  for (int d = 0; d < l->rank; d++) {
    int64_t begin = 0, end = shape[d], block = shape[d];
    const int64_t *split = split_of(l, d);
    if (split) {
      int64_t part = msc_group_index(mesh, l->first[d + 1] - l->first[d], l->digit + l->first[d], rank);
      begin = split[part], end = split[part + 1];
    }
    for (int i = split ? l->first[d + 1] : l->first[d], j; i < l->first[d + 1]; i = j) {
      j = same_axis(l, i, l->first[d + 1]);
      block = cut_size(block, msc_group_size(j - i, l->digit + i));
      begin = min64(begin + msc_group_index(mesh, j - i, l->digit + i, rank) * block, end);
      end = min64(begin + block, end);
    }
    out_box->begin[d] = begin;
    out_box->size[d] = end - begin;
  }
}

static int64_t largest_split(const int64_t *split, int64_t parts) {
  int64_t largest = 0;
  for (int64_t i = 0; i < parts; i++)
    if (split[i + 1] - split[i] > largest) largest = split[i + 1] - split[i];
  return largest;
}

void msc_box_largest(const msc_box_layout *l, const int64_t *shape, int64_t *out_size) {
  for (int d = 0; d < l->rank; d++) {
    const int64_t *split = split_of(l, d);
    out_size[d] = split ? largest_split(split, msc_box_parts(l, d)) : shape[d];
    for (int i = split ? l->first[d + 1] : l->first[d], j; i < l->first[d + 1]; i = j) {
      j = same_axis(l, i, l->first[d + 1]);
      out_size[d] = cut_size(out_size[d], msc_group_size(j - i, l->digit + i));
    }
  }
}

void msc_box_buffer(const msc_box_mesh *mesh, const msc_box_layout *l, const int64_t *shape, int64_t rank,
                    msc_box *out_box) {
  msc_box_of(mesh, l, shape, rank, out_box);
  msc_box_largest(l, shape, out_box->size);
}

int64_t msc_box_elems(int rank, const msc_box *b) {
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= b->size[d];
  return n;
}

bool msc_box_intersect(int rank, const msc_box *a, const msc_box *b, msc_box *out_box) {
  for (int d = 0; d < rank; d++) {
    int64_t begin = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
    int64_t end = min64(a->begin[d] + a->size[d], b->begin[d] + b->size[d]);
    if (begin >= end) return false;
    out_box->begin[d] = begin;
    out_box->size[d] = end - begin;
  }
  return true;
}

static int64_t offset_in(int rank, const msc_box *b, const int64_t *at) {
  int64_t offset = 0;
  for (int d = 0; d < rank; d++) offset = offset * b->size[d] + (at[d] - b->begin[d]);
  return offset;
}

void msc_box_runs(int rank, const msc_box *piece, const msc_box *box_a, const msc_box *box_b, msc_box_run_fn *fn,
                  void *user) {
  if (msc_box_elems(rank, piece) == 0) return;
  /* Trailing dimensions that are whole in both buffers belong to one run, and so does one dimension before them. */
  int outer = rank;
  int64_t run = 1;
  while (outer > 0) {
    int d = --outer;
    run *= piece->size[d];
    if (piece->size[d] != box_a->size[d] || piece->size[d] != box_b->size[d]) break;
  }
  int64_t at[MSC_BOX_RANK];
  for (int d = 0; d < rank; d++) at[d] = piece->begin[d];
  for (;;) {
    fn(user, offset_in(rank, box_a, at), offset_in(rank, box_b, at), run);
    int d = outer - 1;
    while (d >= 0 && ++at[d] == piece->begin[d] + piece->size[d]) {
      at[d] = piece->begin[d];
      d--;
    }
    if (d < 0) return;
  }
}

typedef struct {
  char *dst;
  const char *src;
  size_t elem_bytes;
} copy_args;

static void copy_run(void *user, int64_t dst_offset, int64_t src_offset, int64_t num) {
  const copy_args *c = user;
  memcpy(c->dst + (size_t)dst_offset * c->elem_bytes, c->src + (size_t)src_offset * c->elem_bytes,
         (size_t)num * c->elem_bytes);
}

void msc_box_copy(int rank, const msc_box *piece, const msc_box *dst_box, void *dst, const msc_box *src_box,
                  const void *src, size_t elem_bytes) {
  copy_args c = {dst, src, elem_bytes};
  msc_box_runs(rank, piece, dst_box, src_box, copy_run, &c);
}

/* ---- pull lists ---- */

typedef struct {
  int num;
  msc_digit digit[MSC_BOX_DIGITS]; /* in mesh order */
} digit_list;

/* Adds b to the ascending borders; false when they are full. */
static bool add_box_border(uint64_t *border, int *num, uint64_t b) {
  int i = 0;
  while (i < *num && border[i] < b) i++;
  if (i < *num && border[i] == b) return true;
  if (*num == MSC_BOX_DIGITS) return false;
  memmove(border + i + 1, border + i, sizeof *border * (size_t)(*num - i));
  border[i] = b;
  (*num)++;
  return true;
}

static bool add_borders(const msc_box_layout *l, int axis, uint64_t *border, int *num) {
  for (int i = 0; i < l->num; i++)
    if (l->digit[i].axis == (uint32_t)axis && l->digit[i].size > 1)
      if (!add_box_border(border, num, l->digit[i].pre) || !add_box_border(border, num, digit_end(l->digit[i])))
        return false;
  return true;
}

/* Computes the digits that all borders of the two layouts make; false when two borders of an axis do not divide each
 * other. */
static bool common_digits(const msc_box_mesh *mesh, const msc_box_layout *a, const msc_box_layout *b, digit_list *out) {
  out->num = 0;
  for (int axis = 0; axis < mesh->num_axes; axis++) {
    uint64_t border[MSC_BOX_DIGITS] = {1};
    int num = 1;
    if (!add_box_border(border, &num, (uint64_t)mesh->size[axis])) return false;
    if (!add_borders(a, axis, border, &num) || !add_borders(b, axis, border, &num)) return false;
    for (int i = 1; i < num; i++) {
      if (border[i] % border[i - 1] || out->num == MSC_BOX_DIGITS) return false;
      out->digit[out->num++] =
          (msc_digit){(uint32_t)axis, (uint32_t)border[i - 1], (uint32_t)(border[i] / border[i - 1])};
    }
  }
  return true;
}

typedef enum { FREE, CUT, PARTIAL } digit_place;

static digit_place place_of_digit(const msc_box_layout *l, msc_digit d) {
  for (int i = 0; i < l->num; i++)
    if (msc_digits_overlap(l->digit[i], d)) return i < l->first[l->rank] ? CUT : PARTIAL;
  return FREE;
}

typedef struct {
  const msc_box_mesh *mesh;
  const msc_box_layout *from;
  const int64_t *shape;
  int64_t rank;
  digit_list lost, gained; /* partial in `from` only, in `to` only */
  digit_list freed, taken; /* replicated in `to` only, in `from` only */
  bool moves;              /* terms move from lost to gained digits instead of being reduced */
  /* Sums of digits times strides: */
  int64_t kept;                 /* of the unchanged digits, which the peer has in common with the rank */
  int64_t own_cuts;             /* of the digits that cut the rank's own block of `from` */
  int64_t own_taken, far_taken; /* of the digits that choose a replica to read: of its own block, of another's */
} layout_change;

/* Appends a digit. */
static void add_digit(digit_list *to, msc_digit d) { to->digit[to->num++] = d; }

/* Fills the fields behind `rank` from the difference between c->from and `to`; false: the layouts have no common
 * digits. */
static bool compare_layouts(layout_change *c, const msc_box_layout *to) {
  const msc_box_layout *from = c->from;
  digit_list all, kept = {0}, cuts = {0};
  if (!common_digits(c->mesh, from, to, &all)) return false;
  for (int i = 0; i < all.num; i++) {
    msc_digit d = all.digit[i];
    digit_place f = place_of_digit(from, d), t = place_of_digit(to, d);
    if (f == CUT) add_digit(&cuts, d);
    if (f == t && f != CUT) add_digit(&kept, d);
    if (f == FREE && t != FREE) add_digit(&c->taken, d);
    if (f != FREE && t == FREE) add_digit(&c->freed, d);
    if (f == PARTIAL && t != PARTIAL) add_digit(&c->lost, d);
    if (f != PARTIAL && t == PARTIAL) add_digit(&c->gained, d);
  }
  int64_t terms = msc_group_size(c->lost.num, c->lost.digit);
  c->moves = terms > 1 && terms == msc_group_size(c->gained.num, c->gained.digit);
  c->kept = own_offset(c->mesh, kept.num, kept.digit, c->rank);
  c->own_cuts = own_offset(c->mesh, cuts.num, cuts.digit, c->rank);
  c->own_taken = own_offset(c->mesh, c->taken.num, c->taken.digit, c->rank);
  c->far_taken = c->own_taken;
  if (c->freed.num) {
    int64_t share = msc_group_index(c->mesh, c->freed.num, c->freed.digit, c->rank);
    c->far_taken =
        member_offset(c->mesh, c->taken.num, c->taken.digit, share % msc_group_size(c->taken.num, c->taken.digit));
  }
  return true;
}

/* Returns the part that holds element `at`; it is never an empty one. */
static int64_t part_at(const int64_t *split, int64_t parts, int64_t at) {
  int64_t low = 0, high = parts; /* split[low] <= at < split[high] */
  while (high - low > 1) {
    int64_t mid = low + (high - low) / 2;
    if (split[mid] <= at) low = mid;
    else high = mid;
  }
  return low;
}

/* Finds the block of `from` that holds element `at` of dimension d: returns what the block's digits add to its holder's
 * rank. */
static int64_t block_at(const layout_change *c, int d, int64_t at, int64_t *out_end) {
  const msc_box_layout *l = c->from;
  const int64_t *split = split_of(l, d);
  int64_t begin = 0, end = c->shape[d], block = c->shape[d], offset = 0;
  if (split) {
    int64_t part = part_at(split, msc_box_parts(l, d), at);
    *out_end = split[part + 1];
    return member_offset(c->mesh, l->first[d + 1] - l->first[d], l->digit + l->first[d], part);
  }
  for (int i = l->first[d], j; i < l->first[d + 1]; i = j) {
    j = same_axis(l, i, l->first[d + 1]);
    block = cut_size(block, msc_group_size(j - i, l->digit + i));
    int64_t part = (at - begin) / block;
    begin += part * block;
    end = min64(begin + block, end);
    offset += member_offset(c->mesh, j - i, l->digit + i, part);
  }
  *out_end = end;
  return offset;
}

/* Writes the peers of a piece that lies in the block of `from` whose digits add `block` to a rank. */
static void put_peers(const layout_change *c, int64_t block, int64_t num_terms, int64_t *peer) {
  const digit_list *lost = &c->lost;
  int64_t first = 0;
  bool own = block == c->own_cuts;
  if (c->moves) {
    first = msc_group_index(c->mesh, c->gained.num, c->gained.digit, c->rank);
    own = own && first == msc_group_index(c->mesh, lost->num, lost->digit, c->rank);
  }
  int64_t base = block + c->kept + (own ? c->own_taken : c->far_taken);
  for (int64_t t = 0; t < num_terms; t++) peer[t] = base + member_offset(c->mesh, lost->num, lost->digit, first + t);
}

static int64_t count_pieces(const layout_change *c, const msc_box *box) {
  int64_t num = 1;
  for (int d = 0; d < c->from->rank; d++) {
    int64_t in_dim = 0;
    for (int64_t at = box->begin[d]; at < box->begin[d] + box->size[d]; in_dim++) block_at(c, d, at, &at);
    num *= in_dim;
  }
  return num;
}

/* Sets dimension d of a piece that begins at `at`; returns what the digits of its block add to a rank. */
static int64_t open_piece(const layout_change *c, const msc_box *box, int d, int64_t at, msc_box *piece) {
  int64_t end, offset = block_at(c, d, at, &end);
  piece->begin[d] = at;
  piece->size[d] = min64(end, box->begin[d] + box->size[d]) - at;
  return offset;
}

/* Fills the pieces and peers of `pull`, in row-major order. */
static void put_pieces(const layout_change *c, const msc_box *box, msc_pull *pull) {
  int rank = c->from->rank;
  msc_box piece;
  int64_t offset[MSC_BOX_RANK];
  memset(&piece, 0, sizeof piece);
  for (int d = 0; d < rank; d++) offset[d] = open_piece(c, box, d, box->begin[d], &piece);
  for (int64_t i = 0; i < pull->num_pieces; i++) {
    int64_t block = 0;
    for (int d = 0; d < rank; d++) block += offset[d];
    pull->piece[i] = piece;
    put_peers(c, block, pull->num_terms, pull->peer + i * pull->num_terms);
    for (int d = rank - 1; d >= 0; d--) {
      int64_t next = piece.begin[d] + piece.size[d];
      bool wraps = next == box->begin[d] + box->size[d];
      offset[d] = open_piece(c, box, d, wraps ? box->begin[d] : next, &piece);
      if (!wraps) break;
    }
  }
}

msc_pull_status msc_pull_of(const msc_box_mesh *mesh, const msc_box_layout *from, const msc_box_layout *to,
                            const int64_t *shape, int64_t rank, msc_box_alloc *alloc, void *user, msc_pull *out_pull) {
  layout_change c = {.mesh = mesh, .from = from, .shape = shape, .rank = rank};
  memset(out_pull, 0, sizeof *out_pull);
  if (!compare_layouts(&c, to)) return MSC_PULL_NO_DIGITS;
  out_pull->num_terms = c.moves ? 1 : msc_group_size(c.lost.num, c.lost.digit);
  if (!c.moves && msc_group_index(mesh, c.gained.num, c.gained.digit, rank) != 0) {
    out_pull->identity = true;
    return MSC_PULL_OK;
  }
  msc_box box;
  msc_box_of(mesh, to, shape, rank, &box);
  out_pull->num_pieces = count_pieces(&c, &box);
  if (out_pull->num_pieces == 0) return MSC_PULL_OK;
  size_t pieces = (size_t)out_pull->num_pieces, peers = pieces * (size_t)out_pull->num_terms;
  char *memory = alloc(user, pieces * sizeof(msc_box) + peers * sizeof(int64_t));
  if (!memory) return MSC_PULL_NO_MEMORY;
  out_pull->piece = (msc_box *)memory;
  out_pull->peer = (int64_t *)(memory + pieces * sizeof(msc_box));
  put_pieces(&c, &box, out_pull);
  return MSC_PULL_OK;
}

int64_t msc_pull_received(const msc_pull *pull, int rank_of_tensor, int64_t rank) {
  int64_t elems = 0;
  for (int64_t i = 0; i < pull->num_pieces; i++) {
    int64_t others = 0;
    for (int64_t t = 0; t < pull->num_terms; t++) others += pull->peer[i * pull->num_terms + t] != rank;
    elems += others * msc_box_elems(rank_of_tensor, &pull->piece[i]);
  }
  return elems;
}
