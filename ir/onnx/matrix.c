/* matrix.c: a matrix product, an attention or another node made of products in; its ops out. */
#include <math.h>
#include <string.h>

#include "ir/onnx/onnx.h"

bool onnx_build_matmul(onnx_node *n) {
  msc_value *x = onnx_in(n, 0), *y = onnx_in(n, 1);
  return onnx_set(n, 0, x && y ? onnx_matmul(n->b, x, y) : NULL);
}

bool onnx_build_gemm(onnx_node *n) {
  msc_value *a = onnx_in(n, 0), *w = onnx_in(n, 1);
  double alpha = onnx_float(n, "alpha", 1), beta = onnx_float(n, "beta", 1);
  bool ta = onnx_int(n, "transA", 0) != 0, tb = onnx_int(n, "transB", 0) != 0;
  if (n->opset < 7) onnx_int(n, "broadcast", 0);
  if (!a || !w) return false;
  msc_value *y;
  if (msc_is_float(a->type->dtype)) y = matrix_product(n->b, a, ta, w, tb);
  else {
    const int64_t swapped[] = {1, 0};
    if (a->type->rank != 2 || w->type->rank != 2) return onnx_refuse(n, "takes matrices");
    y = onnx_matmul(n->b, ta ? transpose(n->b, a, swapped) : a, tb ? transpose(n->b, w, swapped) : w);
  }
  if (alpha != 1) y = scale_by(n->b, y, alpha);
  if (!onnx_has(n, 2)) return onnx_set(n, 0, y);
  msc_value *c = onnx_in(n, 2);
  if (beta != 1) c = scale_by(n->b, c, beta);
  return onnx_set(n, 0, y && c ? plus(n->b, y, c) : NULL);
}

bool onnx_build_einsum(onnx_node *n) {
  const char *equation = onnx_text(n, "equation", "");
  msc_value **in = msc_new_array(n->scratch, msc_value *, n->num_in + 1);
  for (size_t i = 0; i < n->num_in; i++) MSC_TRY((in[i] = onnx_in(n, i)));
  char text[256];
  size_t k = 0;
  bool seen[128] = {false}, twice[128] = {false}, arrow = false;
  int dots = 0;
  for (const char *p = equation; *p; p++) {
    if (*p == ' ') continue;
    if (k + 32 > sizeof text || (unsigned char)*p > 126)
      return onnx_refuse(n, "its equation is too long, or no equation");
    arrow |= *p == '>';
    if (*p == '.') { /* leading dimensions: letters that the equation does not use, from the right */
      while (p[1] == '.') p++;
      int operand = 0, letters = 0;
      for (const char *q = equation; q < p; q++) operand += *q == ',';
      const char *from = p, *to = p;
      while (from > equation && from[-1] != ',' && from[-1] != '>') from--;
      while (*to && *to != ',' && *to != '-') to++;
      for (; from < to; from++) letters += (*from >= 'a' && *from <= 'z') || (*from >= 'A' && *from <= 'Z');
      int num = arrow ? dots : operand < (int)n->num_in ? in[operand]->type->rank - letters : 0;
      if (num < 0 || num > MSC_MAX_RANK) return onnx_refuse(n, "'...' does not fit its operand");
      if (!arrow && num > dots) dots = num;
      for (int d = 0; d < num; d++) {
        char c = 0;
        int skip = num - 1 - d;
        for (char l = 'Z'; l >= 'A' && !c; l--)
          if (!strchr(equation, l) && skip-- == 0) c = l;
        if (!c) return onnx_refuse(n, "its equation has too many letters");
        text[k++] = c;
      }
      continue;
    }
    if (!arrow && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')))
      twice[(int)*p] = seen[(int)*p], seen[(int)*p] = true;
    text[k++] = *p;
  }
  if (!arrow) { /* letters that occur once, in order */
    text[k++] = '-', text[k++] = '>';
    for (int d = dots - 1; d >= 0; d--) {
      int skip = d;
      for (char l = 'Z'; l >= 'A'; l--)
        if (!strchr(equation, l) && skip-- == 0) text[k++] = l;
    }
    for (int c = 'A'; c <= 'z' && k + 2 < sizeof text; c++)
      if (seen[c] && !twice[c]) text[k++] = (char)c;
  }
  text[k] = 0;
  return onnx_set(n, 0,
                  with_attr(n->b, OP_einsum, n->num_in, in, msc_named(n->ctx, "equation", msc_str(n->ctx, text))));
}

/* ---- attention ---- */

typedef struct {
  msc_value *q, *k, *v; /* [batch,heads,length,size] */
  int64_t heads, groups, offset;
  bool flat; /* they came as [batch,length,heads * size] */
} heads;

static msc_value *split_heads(onnx_node *n, msc_value *x, int64_t num) {
  const int64_t *d = x->type->dim;
  if (num < 1 || d[2] % num) return onnx_refuse(n, "the number of heads does not divide %" PRId64, d[2]), NULL;
  msc_value *four = reshape(n->b, x, 4, (int64_t[]){d[0], d[1], num, d[2] / num});
  return onnx_move_dim(n->b, four, 2, 1);
}

static bool read_heads(onnx_node *n, heads *h) {
  msc_value *in[3];
  for (size_t i = 0; i < 3; i++) MSC_TRY((in[i] = onnx_in(n, i)));
  int64_t q = onnx_int(n, "q_num_heads", 0), kv = onnx_int(n, "kv_num_heads", 0);
  int rank = in[0]->type->rank;
  if ((rank != 3 && rank != 4) || in[1]->type->rank != rank || in[2]->type->rank != rank)
    return onnx_refuse(n, "takes Q, K and V of rank 3 or of rank 4");
  h->flat = rank == 3;
  for (int i = 0; h->flat && i < 3; i++) MSC_TRY((in[i] = split_heads(n, in[i], i ? kv : q)));
  for (size_t i = 0; i < 2; i++) { /* keys and values of earlier positions come first */
    if (!onnx_has(n, 4 + i)) continue;
    msc_value *past = onnx_in(n, 4 + i);
    if (!past || past->type->rank != 4) return past && onnx_refuse(n, "what is kept must have rank 4");
    h->offset = past->type->dim[2];
    MSC_TRY((in[1 + i] = join_along(n->b, 2, 2, (msc_value *[]){past, in[1 + i]})));
  }
  h->q = in[0], h->k = in[1], h->v = in[2];
  h->heads = h->q->type->dim[1], h->groups = h->k->type->dim[1];
  if (h->groups < 1 || h->heads % h->groups) return onnx_refuse(n, "heads of K do not divide those of Q");
  return true;
}

/* Keys or values with every head repeated for the heads of queries that use it. */
static msc_value *repeat_heads(onnx_node *n, msc_value *x, int64_t times_) {
  if (times_ == 1) return x;
  const int64_t *d = x->type->dim;
  msc_value *five = reshape(n->b, x, 5, (int64_t[]){d[0], d[1], 1, d[2], d[3]});
  five = broadcast(n->b, five, 5, (int64_t[]){d[0], d[1], times_, d[2], d[3]});
  return five ? reshape(n->b, five, 4, (int64_t[]){d[0], d[1] * times_, d[2], d[3]}) : NULL;
}

/* The numbers first .. first + num - 1 along dimension `at` of a tensor of rank 4, i64. */
static msc_value *numbers_along(onnx_node *n, int64_t num, int at) {
  int64_t dim[4] = {1, 1, 1, 1};
  dim[at] = num;
  return iota(n->b, MSC_I64, 4, dim, at);
}

/* The keys that each query sees, i1; NULL: all.  `ok` false after a report. */
static msc_value *find_visible(onnx_node *n, const heads *h, bool causal, int64_t left, int64_t right, bool *ok) {
  int64_t s = h->q->type->dim[2], t = h->k->type->dim[2];
  msc_value *lengths = NULL, *seen = NULL;
  *ok = false;
  if (onnx_has(n, 6)) {
    lengths = cast(n->b, onnx_in(n, 6), MSC_I64);
    lengths = lengths ? reshape(n->b, lengths, 4, (int64_t[]){msc_type_elems(lengths->type), 1, 1, 1}) : NULL;
    if (!lengths) return NULL;
  }
  msc_value *key = numbers_along(n, t, 3), *query = numbers_along(n, s, 2);
  msc_value *offset =
      lengths ? minus(n->b, lengths, like(n->b, lengths, (double)s)) : like(n->b, query, (double)h->offset);
  msc_value *at = query && offset ? plus(n->b, query, offset) : NULL, *ahead = at ? minus(n->b, key, at) : NULL;
  if (!ahead) return NULL;
  if (causal) seen = compare(n->b, MSC_LE, key, at);
  if (left >= 0) {
    msc_value *near = compare(n->b, MSC_GE, ahead, like(n->b, ahead, -(double)left));
    seen = onnx_both(n->b, seen, near);
  }
  if (right >= 0) {
    msc_value *near = compare(n->b, MSC_LE, ahead, like(n->b, ahead, (double)right));
    seen = onnx_both(n->b, seen, near);
  }
  if (lengths) {
    msc_value *filled = compare(n->b, MSC_LT, key, lengths);
    seen = onnx_both(n->b, seen, filled);
  }
  *ok = true;
  return seen;
}

/* The mask of input 3, extended to all keys: those that it does not have are not seen. */
static msc_value *given_mask(onnx_node *n, int64_t keys) {
  msc_value *m = onnx_in(n, 3);
  int64_t zero[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  if (!m) return NULL;
  if (m->type->rank < 1) return onnx_refuse(n, "the mask has rank 0"), NULL;
  high[m->type->rank - 1] = keys - m->type->dim[m->type->rank - 1];
  if (high[m->type->rank - 1] <= 0 || (m->type->dim[m->type->rank - 1] == 1)) return m;
  if (m->type->dtype != MSC_I1) return pad_with(n->b, m, zero, high, NULL, -(double)INFINITY);
  msc_value *padded = pad_with(n->b, cast(n->b, m, MSC_I32), zero, high, NULL, 0);
  return padded ? compare(n->b, MSC_NE, padded, like(n->b, padded, 0)) : NULL;
}

/* scale q k^T */
static msc_value *scaled_scores(onnx_node *n, msc_value *q, msc_value *k, double scale) {
  return matrix_product(n->b, scale_by(n->b, q, scale), false, k, true);
}

/* The softmax along the last dimension; 0 in rows that see nothing. */
static msc_value *softmax_rows(onnx_node *n, msc_value *x, bool may_be_empty) {
  if (!may_be_empty) return msc_compute(n->b, "softmax(a)", x);
  int64_t last = x->type->rank - 1;
  msc_value *m = reduce_along(n->b, MSC_MAX, x, last);
  msc_value *none = m ? compare(n->b, MSC_EQ, m, like(n->b, m, -(double)INFINITY)) : NULL;
  m = none ? choose(n->b, none, like(n->b, m, 0), m) : NULL;
  msc_value *e = msc_compute(n->b, "exp(a - b)", x, m), *sum = e ? sum_over(n->b, e, 1, &last, true) : NULL;
  msc_value *empty = sum ? compare(n->b, MSC_EQ, sum, like(n->b, sum, 0)) : NULL;
  return empty ? over(n->b, e, choose(n->b, empty, like(n->b, sum, 1), sum)) : NULL;
}

static bool set_attention_result(onnx_node *n, const heads *h, msc_value *y) {
  if (y && h->flat) {
    y = onnx_move_dim(n->b, y, 1, 2);
    const int64_t *d = y ? y->type->dim : NULL;
    y = y ? reshape(n->b, y, 3, (int64_t[]){d[0], d[1], d[2] * d[3]}) : NULL;
  }
  return onnx_set(n, 0, y) && onnx_set(n, 1, h->k) && onnx_set(n, 2, h->v);
}

bool onnx_build_attention(onnx_node *n) {
  heads h = {0};
  bool causal = onnx_int(n, "is_causal", 0) != 0, ok;
  double scale = onnx_float(n, "scale", 0), softcap = onnx_float(n, "softcap", 0);
  int64_t mode = onnx_int(n, "qk_matmul_output_mode", 0), left = onnx_int(n, "left_window_size", -1),
          right = onnx_int(n, "right_window_size", -1);
  onnx_int(n, "softmax_precision", 1); /* accepted without effect: softmax is computed in f32 or f64 */
  if (!read_heads(n, &h)) return false;
  msc_dtype type = h.q->type->dtype;
  if (scale == 0) scale = 1 / sqrt((double)h.q->type->dim[3]);
  bool plain = !softcap && !onnx_wants(n, 3) && !onnx_has(n, 6) && !onnx_has(n, 3) && left < 0 && right < 0;
  if (plain && type == MSC_F32 && (!causal || (!h.offset && h.q->type->dim[2] == h.k->type->dim[2]))) {
    msc_attr attrs[] = {msc_named(n->ctx, "causal", msc_bool(causal)), msc_named(n->ctx, "scale", msc_float(scale))};
    return set_attention_result(n, &h, with_attrs(n->b, OP_attention, 3, (msc_value *[]){h.q, h.k, h.v}, 2, attrs));
  }
  msc_value *k = repeat_heads(n, h.k, h.heads / h.groups), *v = repeat_heads(n, h.v, h.heads / h.groups);
  msc_value *q = widen(n->b, h.q);
  k = widen(n->b, k), v = widen(n->b, v);
  if (!q || !k || !v) return false;
  msc_value *scores = scaled_scores(n, q, k, scale);
  if (softcap > 0) scores = msc_compute(n->b, "b * tanh(a / b)", scores, like(n->b, scores, softcap));
  msc_value *shown = scores;
  msc_value *seen = find_visible(n, &h, causal, left, right, &ok);
  if (!ok || !scores) return false;
  if (onnx_has(n, 3)) {
    msc_value *mask = given_mask(n, h.k->type->dim[2]);
    if (!mask) return false;
    if (mask->type->dtype != MSC_I1) scores = plus(n->b, scores, cast(n->b, mask, scores->type->dtype));
    else seen = onnx_both(n->b, seen, mask);
  }
  if (seen && scores) scores = choose(n->b, seen, scores, like(n->b, scores, -(double)INFINITY));
  if (mode == 2) shown = scores;
  msc_value *weights = scores ? softmax_rows(n, scores, seen || onnx_has(n, 3)) : NULL;
  if (mode == 3) shown = weights;
  if (!weights || !shown) return false;
  MSC_TRY(onnx_set(n, 3, cast(n->b, shown, type)));
  msc_value *y = msc_compute(n->b, "batch_matmul(a, b)", weights, v);
  return set_attention_result(n, &h,
                              y ? cast(n->b, y, n->in[2]->type->dtype == type ? type : n->in[2]->type->dtype) : NULL);
}

/* The result of the graph in attribute `name`, if there is one, for x; x itself without. */
static msc_value *run_modifier(onnx_node *n, const char *name, msc_value *x) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_GRAPH);
  onnx_value *in = onnx_computed(n, x), *out[1];
  if (!a || !x) return x;
  if (!a->graph || a->graph->num_out != 1) return onnx_refuse(n, "'%s' must be a graph of one output", name), NULL;
  if (!onnx_run_graph(n, a->graph, 1, &in, out)) return NULL;
  return out[0]->kind == ONNX_IS_FAULTY ? NULL : onnx_value_of(n, out[0]);
}

/* Attention whose scores and probabilities pass through graphs of the node's own. */
bool onnx_build_flex_attention(onnx_node *n) {
  heads h = {0};
  double scale = onnx_float(n, "scale", 0);
  onnx_int(n, "softmax_precision", 1);
  if (!read_heads(n, &h)) return false;
  if (scale == 0) scale = 1 / sqrt((double)h.q->type->dim[3]);
  msc_value *q = widen(n->b, h.q), *k = widen(n->b, repeat_heads(n, h.k, h.heads / h.groups));
  msc_value *v = widen(n->b, repeat_heads(n, h.v, h.heads / h.groups));
  if (!q || !k || !v) return false;
  msc_value *scores = scaled_scores(n, q, k, scale);
  scores = run_modifier(n, "score_mod", scores);
  msc_value *weights = scores ? run_modifier(n, "prob_mod", softmax_rows(n, scores, false)) : NULL;
  msc_value *y = weights ? msc_compute(n->b, "batch_matmul(a, b)", weights, v) : NULL;
  return onnx_set(n, 0, y ? cast(n->b, y, h.v->type->dtype) : NULL);
}

/* Builds the rotation of pairs of elements by angles whose cosines and sines are inputs, for each position. */
bool onnx_build_rotary(onnx_node *n) {
  msc_value *in = onnx_in(n, 0), *x = in, *angle[2];
  int64_t part = onnx_int(n, "rotary_embedding_dim", 0), num = onnx_int(n, "num_heads", 0);
  bool interleaved = onnx_int(n, "interleaved", 0) != 0;
  if (!in) return false;
  if (in->type->rank == 4) x = onnx_move_dim(n->b, in, 1, 2); /* [batch,length,heads,size] */
  else if (in->type->rank != 3 || num < 1 || in->type->dim[2] % num)
    return onnx_refuse(n, "rank or num_heads does not fit");
  else x = reshape(n->b, in, 4, (int64_t[]){in->type->dim[0], in->type->dim[1], num, in->type->dim[2] / num});
  if (!x) return false;
  const int64_t *d = x->type->dim;
  int64_t size = d[3], half = (part ? part : size) / 2;
  if (half * 2 > size || half < 1) return onnx_refuse(n, "rotary_embedding_dim does not fit");
  for (size_t i = 0; i < 2; i++) {
    msc_value *table = onnx_in(n, 1 + i);
    if (table && onnx_has(n, 3)) table = gather(n->b, table, onnx_in(n, 3), 0);
    if (!table) return false;
    if (table->type->rank != 3 || table->type->dim[2] != half) return onnx_refuse(n, "the tables of angles do not fit");
    angle[i] = reshape(n->b, table, 4, (int64_t[]){table->type->dim[0], table->type->dim[1], 1, half});
  }
  msc_value *rotated = part_of(n->b, x, 3, 0, 2 * half), *a, *c;
  if (interleaved) {
    msc_value *pairs = reshape(n->b, rotated, 5, (int64_t[]){d[0], d[1], d[2], half, 2});
    a = part_of(n->b, pairs, 4, 0, 1), c = part_of(n->b, pairs, 4, 1, 2);
    a = a ? reshape(n->b, a, 4, (int64_t[]){d[0], d[1], d[2], half}) : NULL;
    c = c ? reshape(n->b, c, 4, (int64_t[]){d[0], d[1], d[2], half}) : NULL;
  } else a = part_of(n->b, rotated, 3, 0, half), c = part_of(n->b, rotated, 3, half, 2 * half);
  if (!a || !c) return false;
  msc_value *p = times(n->b, angle[0], a), *real = minus(n->b, p, times(n->b, angle[1], c));
  msc_value *q = times(n->b, angle[1], a), *imaginary = plus(n->b, q, times(n->b, angle[0], c));
  if (!real || !imaginary) return false;
  if (interleaved) {
    const int64_t five[] = {d[0], d[1], d[2], half, 1};
    msc_value *both[2] = {reshape(n->b, real, 5, five), reshape(n->b, imaginary, 5, five)};
    rotated = join_along(n->b, 4, 2, both);
    rotated = rotated ? reshape(n->b, rotated, 4, (int64_t[]){d[0], d[1], d[2], 2 * half}) : NULL;
  } else rotated = join_along(n->b, 3, 2, (msc_value *[]){real, imaginary});
  if (2 * half < size) rotated = join_along(n->b, 3, 2, (msc_value *[]){rotated, part_of(n->b, x, 3, 2 * half, size)});
  if (in->type->rank == 4) rotated = onnx_move_dim(n->b, rotated, 2, 1);
  return onnx_set(n, 0, rotated ? reshape(n->b, rotated, in->type->rank, in->type->dim) : NULL);
}

/* ---- determinant: by rows, each step divides by the largest of what is left of a column ---- */

bool onnx_build_det(onnx_node *n) {
  msc_value *x = onnx_in(n, 0);
  if (!x) return false;
  int rank = x->type->rank;
  int64_t size = rank < 2 ? 0 : x->type->dim[rank - 1], dim[MSC_MAX_RANK];
  if (rank < 2 || x->type->dim[rank - 2] != size) return onnx_refuse(n, "takes square matrices");
  if (size > 16) return onnx_refuse(n, "matrices of more than 16 rows are not supported");
  int64_t batch = 1;
  for (int d = 0; d < rank - 2; d++) batch *= (dim[d] = x->type->dim[d]);
  msc_value *a = reshape(n->b, x, 3, (int64_t[]){batch, size, size}), *det = NULL;
  for (int64_t k = size; k > 0 && a; k--) {
    /* the row with the largest first element changes places with the first one */
    msc_value *column = part_of(n->b, a, 2, 0, 1);
    msc_attr attrs[] = {msc_named(n->ctx, "axis", msc_int(1)), msc_dtype_attr(n->ctx, MSC_I32),
                        msc_named(n->ctx, "keep_dims", msc_bool(true))};
    msc_value *size_of = msc_compute(n->b, "abs(a)", column);
    msc_value *at = size_of ? with_attrs(n->b, OP_argmax, 1, &size_of, 3, attrs) : NULL;
    msc_value *row = iota(n->b, MSC_I32, 3, (int64_t[]){1, k, 1}, 1);
    if (!at || !row) return false;
    msc_value *is = cast(n->b, compare(n->b, MSC_EQ, row, at), a->type->dtype);
    msc_value *pivot = is ? sum_over(n->b, times(n->b, a, is), 1, (int64_t[]){1}, true) : NULL;
    msc_value *head = pivot ? part_of(n->b, pivot, 2, 0, 1) : NULL;
    if (!head) return false;
    msc_value *moved = compare(n->b, MSC_NE, at, like(n->b, at, 0));
    msc_value *signed_head = msc_compute(n->b, "select(b, -a, a)", head, moved);
    det = det ? times(n->b, det, signed_head) : signed_head;
    if (k == 1) break;
    /* rows from the second on, where the first one stands in the pivot's place */
    msc_value *first = part_of(n->b, a, 1, 0, 1), *is_rest = part_of(n->b, is, 1, 1, k),
              *rest = part_of(n->b, a, 1, 1, k);
    msc_value *keep = is_rest ? minus(n->b, like(n->b, is_rest, 1), is_rest) : NULL;
    msc_value *kept = keep && rest ? times(n->b, rest, keep) : NULL;
    rest = kept && first ? plus(n->b, kept, times(n->b, is_rest, first)) : NULL;
    msc_value *none = compare(n->b, MSC_EQ, head, like(n->b, head, 0)),
              *by = choose(n->b, none, like(n->b, head, 1), head);
    msc_value *factor = rest && by ? over(n->b, part_of(n->b, rest, 2, 0, 1), by) : NULL;
    a = factor ? minus(n->b, rest, times(n->b, factor, pivot)) : NULL;
    a = a ? part_of(n->b, a, 2, 1, k) : NULL;
  }
  return onnx_set(n, 0, det ? reshape(n->b, det, rank - 2, dim) : NULL);
}
