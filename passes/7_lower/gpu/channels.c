/* channels: networks of convolutions in 16 bits that a GPU's library computes -> with channels as the last dimension.
 *
 * The library's kernels for 16 bits want channels last; of images with channels first it copies operands and results in
 * every call.  So images of convolutions, and what is elementwise or reduced between them, norms above all, get a twin
 * [n, h, w, c], and the convolution reads and writes the twins through transposes that views.c turns into strides:
 *
 *   y = conv2d(x, w)        ->  t = transpose(conv2d(transpose(x'), transpose(w')))      t is the twin of y
 *   z = relu(y + b)         ->  z' = relu(t + b')
 *   p = max_pool(z)         ->  p = max_pool(transpose(z'))      a copy, as in front of all that knows no twins
 *
 * A function is changed if these copies move fewer bytes than those of the library. */
#include "ir/conv.h"
#include "ir/formula.h"
#include "passes/1_simplify/simplify.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/7_lower/target.h"
#include "passes/check.h"

static const int64_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2}; /* where channels go */

/* A value that the function had before the pass, and what the pass has made of it. */
typedef struct {
  bool has;        /* the value has a twin */
  msc_value *twin, /* NULL while the copies are counted */
      *seen,       /* a transposed view of the twin, which convolutions read */
      *back;       /* a transposed copy of the twin, which all other ops read; NULL: none is made */
  bool is_back;    /* this copy is needed and was counted */
} image;

typedef struct {
  msc_func *f;
  uint32_t num; /* number of values that f had before the pass */
  image *of;    /* by value id */
  bool changes; /* true: rewrites f; false: only counts the copies that a rewrite needs and saves */
  bool failed;
  uint64_t copied, spared; /* bytes of copies that the twins need, and of those that the library need not make */
} channel_mover;

/* Returns the image of v; NULL: this pass made v.  Such a value has the id 0, as the function's first argument has. */
static image *image_of(const channel_mover *z, const msc_value *v) { return v->id || !v->def ? &z->of[v->id] : NULL; }
static bool has_twin(const channel_mover *z, const msc_value *v) { return image_of(z, v) && image_of(z, v)->has; }

static uint64_t moved_bytes(const msc_value *v) { return 2 * (uint64_t)msc_type_bytes(v->type); }

/* True if at most one dimension is larger than 1: then any order of dimensions is the same memory. */
static bool is_line(const msc_value *v) {
  int large = 0;
  for (int d = 0; d < v->type->rank; d++) large += v->type->dim[d] > 1;
  return large <= 1;
}

/* True if putting channels last leaves elements where they are. */
static bool lies_alike(const msc_value *v) {
  const int64_t *dim = v->type->dim;
  return dim[1] == 1 || (dim[2] == 1 && dim[3] == 1);
}

static msc_builder builder_before(const channel_mover *z, msc_op *op) {
  return (msc_builder){.func = z->f, .block = op->block, .before = op, .loc = op->loc, .name = op->name};
}

static msc_value *move_channels(msc_builder *b, msc_value *v, const int64_t *perm) {
  int64_t dim[4];
  if (!v || !lies_alike(v)) return transpose(b, v, perm);
  for (int d = 0; d < 4; d++) dim[d] = v->type->dim[perm[d]];
  return reshape(b, v, 4, dim);
}

/* ---- operands ---- */

/* Builds a view of v, an operand of an elementwise op on images that is smaller than they are, that is broadcast to
 * twins as v is to images. */
static msc_value *transpose_small(channel_mover *z, msc_op *op, msc_value *v) {
  int64_t dim[4] = {1, 1, 1, 1};
  msc_builder b = builder_before(z, op);
  if (!z->changes || v->type->rank == 0) return v;
  for (int d = 0; d < v->type->rank; d++) dim[4 - v->type->rank + d] = v->type->dim[d];
  return move_channels(&b, reshape(&b, v, 4, dim), last);
}

/* Makes the twin of an image that has none, in front of op. */
static void make_twin(channel_mover *z, msc_op *op, msc_value *v) {
  image *i = image_of(z, v);
  const msc_op *def = v->def;
  if (i->has) return;
  i->has = true;
  bool spreads = def && def->kind == OP_broadcast_to;
  if (!spreads && !lies_alike(v)) z->copied += moved_bytes(v);
  if (!z->changes) return;
  msc_builder b = builder_before(z, op);
  const int64_t *d = v->type->dim;
  msc_value *small = spreads ? def->in[0].value : NULL;
  if (small && has_twin(z, small)) small = image_of(z, small)->twin;
  else if (small) small = transpose_small(z, op, small);
  i->twin = small ? broadcast(&b, small, 4, (int64_t[]){d[0], d[2], d[3], d[1]}) : move_channels(&b, v, last);
  z->failed |= !i->twin;
}

/* Replaces operand k of op, which cannot read the operand's twin, by a copy of the twin with channels first. */
static void give_back(channel_mover *z, msc_op *op, size_t k) {
  image *i = image_of(z, op->in[k].value);
  if (!i->is_back && !lies_alike(op->in[k].value)) z->copied += moved_bytes(op->in[k].value);
  i->is_back = true;
  if (!z->changes) return;
  msc_builder b = builder_before(z, op);
  if (!i->back) i->back = move_channels(&b, i->twin, first);
  z->failed |= !i->back;
  if (i->back) msc_set_operand(op, k, i->back);
}

/* ---- convolutions ---- */

static bool is_narrow_convolution(const msc_op *op) {
  return msc_is_graph(op) && msc_form_of(op) != MSC_FORM_ATTENTION &&
         msc_dtype_bytes(op->in[0].value->type->dtype) == 2;
}

/* Lets a convolution read and write twins.  A bias, [1, c, 1, 1], is the same memory in any order. */
static void rewrite_convolution(channel_mover *z, msc_op *op) {
  for (size_t k = 0; k < op->num_in; k++) {
    msc_value *v = op->in[k].value;
    if (is_line(v)) continue;
    if (!lies_alike(v)) z->spared += moved_bytes(v);
    make_twin(z, op, v);
    if (!z->changes || z->failed) continue;
    image *i = image_of(z, v);
    msc_builder b = builder_before(z, op);
    if (!i->seen) i->seen = transpose(&b, i->twin, first);
    msc_set_operand(op, k, i->seen);
  }
  msc_value *y = &op->out[0];
  image *i = image_of(z, y);
  if (!lies_alike(y)) z->spared += moved_bytes(y);
  i->has = true;
  if (!z->changes) return;
  msc_builder b = builder_before(z, op->next);
  b.loc = op->loc, b.name = op->name;
  i->twin = transpose(&b, y, last);
  z->failed |= !i->twin;
}

/* ---- what lies between ---- */

static bool is_whole_image(const msc_value *v, const msc_value *y) {
  bool whole = v->type->rank == 4 && y->type->rank == 4;
  for (int d = 0; d < 4 && whole; d++) whole = v->type->dim[d] == y->type->dim[d];
  return whole;
}

static bool is_elementwise_on_twins(const channel_mover *z, const msc_op *op) {
  unsigned flags = msc_info(op)->flags;
  bool twins = false;
  if (msc_form_of(op) != MSC_FORM_ELEMENTWISE || !(flags & MSC_PURE) || flags & (MSC_RANDOM | MSC_UPDATE) || op->body ||
      op->num_out != 1 || op->out[0].type->rank != 4)
    return false;
  for (size_t k = 0; k < op->num_in; k++)
    twins |= is_whole_image(op->in[k].value, &op->out[0]) && has_twin(z, op->in[k].value);
  return twins;
}

/* Writes the dimensions of the twin that a reduction removes, ascending. False: the remaining dimensions of the twin
 * have another order than those of the image. */
static bool turned_dims(const msc_op *op, int64_t dims[4], int *out_num) {
  int64_t own[MSC_MAX_RANK];
  bool gone[4] = {0}, keep = msc_op_bool(op, "keep_dims");
  int num = msc_op_ints(op, "dims", own, MSC_MAX_RANK), left = -1;
  *out_num = 0;
  if (num < 1) return false;
  for (int i = 0; i < num; i++) gone[own[i] < 0 ? own[i] + 4 : own[i]] = true;
  for (int d = 0; d < 4; d++) {
    if (gone[last[d]]) dims[(*out_num)++] = d;
    else if (last[d] < left && !keep) return false;
    else left = (int)last[d];
  }
  return true;
}

static bool reduces_twin(const channel_mover *z, const msc_op *op) {
  int64_t dims[4];
  int num;
  return msc_form_of(op) == MSC_FORM_REDUCE && op->num_in == 1 && op->num_out == 1 && has_twin(z, op->in[0].value) &&
         msc_declares(op, "dims") && turned_dims(op, dims, &num);
}

/* Inserts before op a copy of it that reads `in`, the twins of its operands. */
static msc_op *insert_twin(channel_mover *z, msc_op *op, msc_value *const *in) {
  int64_t dims[4];
  int num;
  msc_op *twin = msc_op_copy(z->f, op, in);
  twin->forward = op->forward;
  msc_forget_wholes(twin);
  msc_insert_before(op, twin);
  if (msc_form_of(op) == MSC_FORM_REDUCE && turned_dims(op, dims, &num))
    msc_op_set(twin, "dims", msc_ints(z->f->module->ctx, (size_t)num, dims));
  z->failed |= !msc_infer(twin);
  return twin;
}

static void rewrite_elementwise(channel_mover *z, msc_op *op) {
  msc_value *in[8];
  for (size_t k = 0; k < op->num_in; k++) {
    msc_value *v = op->in[k].value;
    bool whole = is_whole_image(v, &op->out[0]);
    if (whole) make_twin(z, op, v);
    else if (!is_line(v) && !has_twin(z, v)) z->copied += moved_bytes(v);
    if (z->changes) in[k] = has_twin(z, v) ? image_of(z, v)->twin : transpose_small(z, op, v);
    if (z->failed || (z->changes && !in[k])) {
      z->failed = true;
      return;
    }
  }
  image_of(z, &op->out[0])->has = true;
  if (z->changes) image_of(z, &op->out[0])->twin = &insert_twin(z, op, in)->out[0];
}

static void rewrite_reduction(channel_mover *z, msc_op *op) {
  bool image_left = op->out[0].type->rank == 4;
  if (image_left) image_of(z, &op->out[0])->has = true;
  if (!z->changes) return;
  msc_op *twin = insert_twin(z, op, &image_of(z, op->in[0].value)->twin);
  if (image_left) image_of(z, &op->out[0])->twin = &twin->out[0];
  else msc_replace_uses(&op->out[0], &twin->out[0]);
}

static void rewrite_op(channel_mover *z, msc_op *op) {
  enum { MOST_OPERANDS = 8 };
  if (is_narrow_convolution(op)) rewrite_convolution(z, op);
  else if (op->num_in <= MOST_OPERANDS && is_elementwise_on_twins(z, op)) rewrite_elementwise(z, op);
  else if (reduces_twin(z, op)) rewrite_reduction(z, op);
  else
    for (size_t k = 0; k < op->num_in; k++)
      if (has_twin(z, op->in[k].value)) give_back(z, op, k);
}

/* Goes through the function as it was, once. */
static void rewrite_ops(channel_mover *z, msc_arena *arena, bool changes) {
  z->of = msc_new_array(arena, image, z->num);
  z->changes = changes;
  for (msc_op *op = z->f->body->first, *next; op && !z->failed; op = next) {
    next = op->next;
    rewrite_op(z, op);
  }
}

static void erase_unused(msc_func *f, msc_arena *arena) {
  msc_erasing e = msc_erase_begin(f, arena);
  for (msc_op *op = f->body->last, *before; op; op = before) {
    bool used = !(msc_info(op)->flags & MSC_PURE) || msc_info(op)->flags & MSC_TERMINATOR;
    before = op->prev;
    for (size_t i = 0; i < op->num_out; i++) used |= msc_has_uses(&op->out[i]);
    if (!used) msc_erase(&e, op, NULL);
  }
  msc_erase_end(&e);
}

bool pass_channels(msc_pass_ctx *pass, msc_module *m) {
  int64_t num = 0;
  for (msc_func *f = m->first; f; f = f->next) {
    channel_mover z = {.f = f, .num = msc_number(f->body).num_values};
    rewrite_ops(&z, pass->scratch, false);
    if (!z.spared) continue; /* and where there are convolutions, there are arguments */
    msc_stat(pass, "bytes that the library would copy", (int64_t)z.spared);
    msc_stat(pass, "bytes of copies to other orders", (int64_t)z.copied);
    if (z.copied >= z.spared) continue;
    rewrite_ops(&z, pass->scratch, true);
    if (z.failed) return false;
    erase_unused(f, pass->scratch);
    num++;
  }
  return num || msc_not_asked_for(pass);
}
