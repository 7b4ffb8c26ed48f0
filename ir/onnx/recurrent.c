/* recurrent.c: an RNN, GRU or LSTM in; the ops of all its steps out. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_STEPS = 4096, MAX_GATES = 4 };

typedef struct {
  onnx_node *n;
  int gates, state;           /* gates of a cell; number of its states: h, or h and c */
  int64_t steps, batch, size; /* of x; of h */
  int64_t direction;          /* number of the one that is being built */
  msc_value *products, *bias; /* x W of all steps [steps,batch,gates size]; [gates size] of each kind */
  msc_value *r, *recurrent_bias; /* [size,gates size]; of a GRU [size], for its last gate alone */
  msc_value *peep;               /* weights of the peepholes; NULL: the cell has none */
  msc_value *h, *c;              /* the state before the next step; c: of an LSTM */
  const char *activation[3];
  double alpha[3], beta[3], clip;
  bool linear_before_reset; /* of a GRU: the reset gate scales a product, not what it is made of */
  bool coupled;             /* of an LSTM: the forget gate is 1 - the input gate */
} cell;

/* Builds the part of operand i that is for this direction, without the dimension of directions; NULL: the operand is
 * absent. */
static msc_value *part_of_direction(cell *k, size_t i) {
  if (!onnx_has(k->n, i)) return NULL;
  return onnx_drop_dim(k->n->b, part_of(k->n->b, onnx_in(k->n, i), 0, k->direction, k->direction + 1), 0);
}

static msc_value *slice_gate(cell *k, msc_value *x, int number) {
  return part_of(k->n->b, x, x->type->rank - 1, number * k->size, (number + 1) * k->size);
}

/* Clips x and applies activation `which` to it. */
static msc_value *activate(cell *k, int which, msc_value *x) {
  msc_builder *b = k->n->b;
  if (x && k->clip > 0) x = msc_compute(b, "min(max(a, -b), b)", x, like(b, x, k->clip));
  return onnx_activation(k->n, k->activation[which], k->alpha[which], k->beta[which], x);
}

/* x plus what gate `number` sees of the state c through its peephole, if the cell has some. */
static msc_value *add_peephole(cell *k, int number, msc_value *x, msc_value *c) {
  if (!k->peep || !x || !c) return x;
  msc_value *w = part_of(k->n->b, k->peep, 0, number * k->size, (number + 1) * k->size);
  return w ? plus(k->n->b, x, times(k->n->b, w, c)) : NULL;
}

static msc_value *step_rnn(cell *k, msc_value *x) {
  msc_builder *b = k->n->b;
  return activate(k, 0, plus(b, x, onnx_matmul(b, k->h, k->r)));
}

static msc_value *step_gru(cell *k, msc_value *x) {
  msc_builder *b = k->n->b;
  msc_value *rest = part_of(b, k->r, 1, 0, 2 * k->size), *last = slice_gate(k, k->r, 2);
  msc_value *both = plus(b, part_of(b, x, 1, 0, 2 * k->size), onnx_matmul(b, k->h, rest));
  if (!both || !last) return NULL;
  msc_value *z = activate(k, 0, slice_gate(k, both, 0)), *r = activate(k, 0, slice_gate(k, both, 1)), *new;
  if (!z || !r) return NULL;
  msc_value *rb = k->recurrent_bias;
  if (k->linear_before_reset) {
    new = onnx_matmul(b, k->h, last);
    new = times(b, r, rb ? plus(b, new, rb) : new);
  } else {
    new = onnx_matmul(b, times(b, r, k->h), last);
    if (rb && new) new = plus(b, new, rb);
  }
  new = activate(k, 1, plus(b, slice_gate(k, x, 2), new));
  if (!new) return NULL;
  msc_value *kept = times(b, z, k->h), *share = minus(b, like(b, z, 1), z);
  return plus(b, times(b, share, new), kept);
}

static msc_value *step_lstm(cell *k, msc_value *x, msc_value **out_c) {
  msc_builder *b = k->n->b;
  msc_value *all = plus(b, x, onnx_matmul(b, k->h, k->r));
  if (!all) return NULL;
  msc_value *i = activate(k, 0, add_peephole(k, 0, slice_gate(k, all, 0), k->c)), *f;
  if (k->coupled) f = i ? minus(b, like(b, i, 1), i) : NULL;
  else f = activate(k, 0, add_peephole(k, 2, slice_gate(k, all, 2), k->c));
  msc_value *new = activate(k, 1, slice_gate(k, all, 3));
  if (!i || !f || !new) return NULL;
  msc_value *kept = times(b, f, k->c);
  *out_c = plus(b, kept, times(b, i, new));
  msc_value *o = activate(k, 0, add_peephole(k, 1, slice_gate(k, all, 1), *out_c));
  double clip = k->clip;
  k->clip = 0;
  msc_value *squashed = activate(k, 2, *out_c);
  k->clip = clip;
  return o && squashed ? times(b, o, squashed) : NULL;
}

/* Computes one step; rows of the batch whose sequence has ended keep their state. */
static bool step(cell *k, int64_t t, msc_value *lengths, msc_value **out_y) {
  msc_builder *b = k->n->b;
  msc_value *x = part_of(b, k->products, 0, t, t + 1), *c = NULL, *h = NULL;
  x = x ? reshape(b, x, 2, (int64_t[]){k->batch, k->gates * k->size}) : NULL;
  if (!x) return false;
  h = k->gates == 1 ? step_rnn(k, x) : k->gates == 3 ? step_gru(k, x) : step_lstm(k, x, &c);
  if (!h) return false;
  *out_y = h;
  if (lengths) {
    msc_value *runs = compare(b, MSC_GT, lengths, like(b, lengths, (double)t));
    *out_y = choose(b, runs, h, like(b, h, 0));
    h = choose(b, runs, h, k->h);
    if (c) c = choose(b, runs, c, k->c);
  }
  k->h = h;
  if (c) k->c = c;
  return k->h && *out_y;
}

/* The initial state: operand i, or zeros where it is absent. */
static msc_value *initial_state(cell *k, size_t i, bool batch_first) {
  msc_builder *b = k->n->b;
  int64_t dim[2] = {k->batch, k->size};
  if (!onnx_has(k->n, i)) return broadcast(b, msc_build_scalar(b, k->products->type->dtype, 0), 2, dim);
  if (!batch_first) return part_of_direction(k, i);
  msc_value *p = part_of(b, onnx_in(k->n, i), 1, k->direction, k->direction + 1);
  return p ? reshape(b, p, 2, dim) : NULL;
}

/* Multiplies the inputs of all steps by the weights of one direction, and adds the biases; false after a report.  The
 * recurrent bias of a GRU's last gate belongs to that gate's own product: it is kept in recurrent_bias. */
static bool multiply_inputs(cell *k, msc_value *x) {
  msc_builder *b = k->n->b;
  msc_value *w = part_of_direction(k, 1), *r = part_of_direction(k, 2), *bias = part_of_direction(k, 3);
  if (!w || !r) return false;
  const int64_t swapped[] = {1, 0};
  int64_t all = k->gates * k->size;
  if (w->type->rank != 2 || r->type->rank != 2 || w->type->dim[0] != all || r->type->dim[0] != all)
    return onnx_refuse(k->n, "weights do not fit hidden_size %" PRId64, k->size);
  k->r = transpose(b, r, swapped);
  k->products = onnx_matmul(b, x, transpose(b, w, swapped));
  k->recurrent_bias = NULL;
  if (!bias || !k->products) return k->products != NULL;
  msc_value *wb = part_of(b, bias, 0, 0, all), *rb = part_of(b, bias, 0, all, 2 * all);
  if (!wb || !rb) return false;
  k->products = plus(b, k->products, wb);
  if (k->gates == 3) {
    k->recurrent_bias = slice_gate(k, rb, 2);
    rb = pad_with(b, part_of(b, rb, 0, 0, 2 * k->size), (int64_t[]){0}, (int64_t[]){k->size}, NULL, 0);
  }
  k->products = k->products && rb ? plus(b, k->products, rb) : NULL;
  return k->products != NULL;
}

/* Builds all steps of one direction. *out_y is y [steps,1,batch,size], and the cell holds the state after the last
 * step. */
static bool run_direction(cell *k, msc_value *x, bool reversed, bool batch_first, msc_value *lengths,
                          msc_value **out_y) {
  msc_builder *b = k->n->b;
  MSC_TRY(multiply_inputs(k, x));
  k->peep = k->gates == 4 ? part_of_direction(k, 7) : NULL;
  MSC_TRY((k->h = initial_state(k, 5, batch_first)) && (k->gates != 4 || (k->c = initial_state(k, 6, batch_first))));
  msc_value **y = msc_new_array(k->n->scratch, msc_value *, k->steps + 1);
  for (int64_t i = 0; i < k->steps; i++) {
    int64_t t = reversed ? k->steps - 1 - i : i;
    MSC_TRY(step(k, t, lengths, &y[t]));
    MSC_TRY((y[t] = reshape(b, y[t], 4, (int64_t[]){1, 1, k->batch, k->size})));
  }
  return (*out_y = k->steps == 1 ? y[0] : join_along(b, 0, (size_t)k->steps, y)) != NULL;
}

/* Reads the activations of direction d: the attribute's, or the operator's defaults. */
static bool read_activations(cell *k, int d, int num) {
  static const char *const own[3][3] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  onnx_node *n = k->n;
  const onnx_attr *names = onnx_attr_of(n, "activations", ONNX_STRINGS),
                  *alpha = onnx_attr_of(n, "activation_alpha", ONNX_FLOATS),
                  *beta = onnx_attr_of(n, "activation_beta", ONNX_FLOATS);
  for (int i = 0; i < num; i++) {
    size_t at = (size_t)(d * num + i);
    k->activation[i] = names && at < names->num ? names->strings[at] : own[num - 1][i];
    k->alpha[i] = alpha && at < alpha->num ? (double)alpha->floats[at] : (double)NAN;
    k->beta[i] = beta && at < beta->num ? (double)beta->floats[at] : (double)NAN;
    if (names && at >= names->num) return onnx_refuse(n, "has too few activations");
  }
  return true;
}

bool onnx_build_recurrent(onnx_node *n) {
  cell k = {.n = n, .clip = onnx_float(n, "clip", 0)};
  k.gates = n->row->name[0] == 'R' ? 1 : n->row->name[0] == 'G' ? 3 : 4;
  int num_act = k.gates == 1 ? 1 : k.gates == 3 ? 2 : 3, dirs;
  const char *direction = onnx_text(n, "direction", "forward");
  bool batch_first = onnx_int(n, "layout", 0) != 0, both = !strcmp(direction, "bidirectional");
  if (k.gates == 3) k.linear_before_reset = onnx_int(n, "linear_before_reset", 0) != 0;
  if (k.gates == 4) k.coupled = onnx_int(n, "input_forget", 0) != 0;
  if (n->opset < 7) onnx_int(n, "output_sequence", 0);
  msc_value *x = onnx_in(n, 0);
  const msc_type *r = onnx_type(n, 2);
  if (!x || !r || x->type->rank != 3 || r->rank != 3) return x && r && onnx_refuse(n, "takes X and R of rank 3");
  k.size = onnx_int(n, "hidden_size", r->dim[2]);
  dirs = both ? 2 : 1;
  if (r->dim[0] != dirs || r->dim[2] != k.size) return onnx_refuse(n, "R does not fit direction and hidden_size");
  if (batch_first) x = transpose(n->b, x, (int64_t[]){1, 0, 2});
  k.steps = x->type->dim[0], k.batch = x->type->dim[1];
  if (k.steps < 1 || k.steps > MAX_STEPS) return onnx_refuse(n, "of %" PRId64 " steps is not supported", k.steps);
  msc_value *lengths = NULL, *y[2], *h[2], *c[2] = {NULL, NULL};
  if (onnx_has(n, 4)) lengths = reshape(n->b, onnx_in(n, 4), 2, (int64_t[]){k.batch, 1});
  for (int d = 0; d < dirs; d++) {
    k.direction = d;
    bool reversed = d == 1 || !strcmp(direction, "reverse");
    MSC_TRY(read_activations(&k, d, num_act) && run_direction(&k, x, reversed, batch_first, lengths, &y[d]));
    const int64_t dim[] = {1, k.batch, k.size};
    MSC_TRY((h[d] = reshape(n->b, k.h, 3, dim)));
    if (k.c) MSC_TRY((c[d] = reshape(n->b, k.c, 3, dim)));
  }
  msc_value *all = both ? join_along(n->b, 1, 2, y) : y[0], *last[2] = {both ? join_along(n->b, 0, 2, h) : h[0], c[0]};
  if (both && c[0]) last[1] = join_along(n->b, 0, 2, c);
  if (batch_first) {
    all = all ? transpose(n->b, all, (int64_t[]){2, 0, 1, 3}) : NULL;
    for (int i = 0; i < 2; i++) last[i] = last[i] ? transpose(n->b, last[i], (int64_t[]){1, 0, 2}) : NULL;
  }
  return onnx_set(n, 0, all) && onnx_set(n, 1, last[0]) && (k.gates != 4 || onnx_set(n, 2, last[1]));
}
