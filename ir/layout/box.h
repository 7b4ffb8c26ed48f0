/* box.h: layouts as boxes of elements.  In: mesh sizes, layouts, a shape and a rank; out: which elements the rank
 * holds, and which ranks send it the elements of another layout.  Needs the C library only: the compiler and the
 * runtime share it.
 *
 * Example, mesh x=2,y=2, shape 4: from [{x}] to [{y}].  Rank (0,1) holds elements 0..1 and wants 2..3, which (1,0) and
 * (1,1) hold: its pull list is one piece {begin 2, size 2} with the peer (1,0). */
#ifndef MSC_IR_BOX_H
#define MSC_IR_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MSC_BOX_RANK 8
#define MSC_BOX_AXES 8
#define MSC_BOX_DIGITS 32 /* more than a mesh of 2^31 ranks can have */

/* `size` parts after `pre` parts of a mesh axis; the same bytes as SubAxis of plan.fbs. */
typedef struct {
  uint32_t axis, pre, size;
} msc_digit;

/* A rank's coordinates are its number in mixed radix, first axis major. */
typedef struct {
  int num_axes;
  int64_t size[MSC_BOX_AXES];
} msc_box_mesh;

/* Dimension d is cut by digit[first[d]] .. digit[first[d+1]-1], major first; partial over digit[first[rank]] ..
 * digit[num-1]; replicated on the rest.  Neighbours of one axis act as one cut of their product; different axes nest:
 * the minor one cuts the major one's block.  Part i of k of n elements is [i*c, min(n, (i+1)*c)), c = ceil(n/k).  With
 * split[d] the parts have chosen sizes: part i of the product of all digits is [split[d][i], split[d][i+1]). */
typedef struct {
  int rank, num;
  const uint8_t *first; /* rank + 1 numbers */
  const msc_digit *digit;
  /* by dimension: one number more than parts, from 0 to the dimension's size; NULL: none */
  const int64_t *const *split;
} msc_box_layout;

/* Elements begin[d] .. begin[d]+size[d]-1 of every dimension d. */
typedef struct {
  int64_t begin[MSC_BOX_RANK], size[MSC_BOX_RANK];
} msc_box;

/* True if all numbers are in range and no digit is used twice. All functions below expect layouts for which this
 * holds. */
bool msc_box_mesh_ok(const msc_box_mesh *mesh);
bool msc_box_layout_ok(const msc_box_mesh *mesh, const msc_box_layout *l);
/* True if the chosen sizes of parts add up to the shape. */
bool msc_box_shape_ok(const msc_box_layout *l, const int64_t *shape);
int64_t msc_box_mesh_size(const msc_box_mesh *mesh);

/* True if two digits divide the same parts of one axis. A digit of size 1 divides nothing. */
bool msc_digits_overlap(msc_digit a, msc_digit b);
/* One digit of a rank, and what one step of that digit adds to the rank. */
int64_t msc_digit_of(const msc_box_mesh *mesh, msc_digit d, int64_t rank);
int64_t msc_digit_stride(const msc_box_mesh *mesh, msc_digit d);

/* The group of a rank over some digits: the ranks that differ from it in these digits only.  Members are numbered in
 * mixed radix, first digit major. */
int64_t msc_group_size(int num, const msc_digit *digit);
int64_t msc_box_parts(const msc_box_layout *l, int d); /* parts of dimension d */
int64_t msc_group_index(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t rank);
int64_t msc_group_member(const msc_box_mesh *mesh, int num, const msc_digit *digit, int64_t rank, int64_t index);

/* Computes which elements the rank holds. A part at the end of an uneven dimension may be empty (size 0). */
void msc_box_of(const msc_box_mesh *mesh, const msc_box_layout *l, const int64_t *shape, int64_t rank,
                msc_box *out_box);
/* Computes the sizes of the largest part, for which buffers are made. */
void msc_box_largest(const msc_box_layout *l, const int64_t *shape, int64_t *out_size);
/* Computes the box of memory in which the rank's part lies: it begins where the part does and is as large as the
 * largest part. The rest of it is padding. */
void msc_box_buffer(const msc_box_mesh *mesh, const msc_box_layout *l, const int64_t *shape, int64_t rank,
                    msc_box *out_box);
int64_t msc_box_elems(int rank, const msc_box *b);
/* Computes the elements that two boxes share; false: there are none. A scalar (rank 0) is one element. */
bool msc_box_intersect(int rank, const msc_box *a, const msc_box *b, msc_box *out_box);

/* Calls fn for every run of elements of `piece` that is contiguous in two row-major buffers, which have room for box_a
 * and box_b.  Offsets and num are in elements. */
typedef void msc_box_run_fn(void *user, int64_t offset_a, int64_t offset_b, int64_t num);
void msc_box_runs(int rank, const msc_box *piece, const msc_box *box_a, const msc_box *box_b, msc_box_run_fn *fn,
                  void *user);
void msc_box_copy(int rank, const msc_box *piece, const msc_box *dst_box, void *dst, const msc_box *src_box,
                  const void *src, size_t elem_bytes);

/* What one rank reads in a change of layout: every element of its `to` box is in exactly one piece.  A piece's value is
 * the reduction, in this order, of the values its `num_terms` peers hold under `from`; one term: a copy.
 *   partial in `from`, not in `to`   one term per value of these digits, ascending
 *   partial in both                  stays: the peer has the same digit
 *   partial in `to`, not in `from`   digit 0 gets the value, the others the identity (identity true, no pieces)
 *   as many digits lost as gained    term number t of the lost digits moves to number t of the gained ones (permute)
 * A rank that holds a piece is its own peer.  Else the peer has the rank's digits wherever `from` and `to` are both
 * replicated, and, when `to` is replicated over no digit that `from` uses, wherever `from` is.  Else the replicas of a
 * block share its readers evenly: in a permute every block is read once. */
typedef struct {
  bool identity;
  int64_t num_pieces, num_terms;
  msc_box *piece;
  int64_t *peer; /* of piece i: peer[i * num_terms] ..; ascending ranks */
} msc_pull;

typedef void *msc_box_alloc(void *user, size_t bytes); /* 8-byte aligned, or NULL */
typedef enum {
  MSC_PULL_OK,
  MSC_PULL_NO_MEMORY,
  MSC_PULL_NO_DIGITS /* the layouts cut an axis at places that have no common refinement, as 2 and 3 of 6 */
} msc_pull_status;

/* One call of alloc; the caller frees pull->piece (NULL when there are no pieces), which holds the peers too. */
msc_pull_status msc_pull_of(const msc_box_mesh *mesh, const msc_box_layout *from, const msc_box_layout *to,
                            const int64_t *shape, int64_t rank, msc_box_alloc *alloc, void *user, msc_pull *out_pull);
/* Returns how many elements the rank receives: those of pieces and terms whose peer is another rank. */
int64_t msc_pull_received(const msc_pull *pull, int rank_of_tensor, int64_t rank);

#endif
