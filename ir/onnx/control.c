/* control.c: a constant, or a node with graphs of its own (If, Loop, Scan), in; its ops out. */
#include <string.h>

#include "ir/onnx/onnx.h"

enum { MAX_ROUNDS = 4096 };

bool onnx_build_constant(onnx_node *n) {
  static const struct {
    const char *name;
    onnx_attr_type type;
  } kinds[] = {
      {"value_float", ONNX_FLOAT}, {"value_floats", ONNX_FLOATS}, {"value_int", ONNX_INT}, {"value_ints", ONNX_INTS}};
  const onnx_attr *a = onnx_attr_of(n, "value", ONNX_TENSOR);
  if (a) {
    onnx_tensor t;
    const char *wrong = onnx_read_tensor(n->ctx, n->scratch, onnx_file(n), a->tensor, &t);
    return wrong ? onnx_refuse(n, "its value %s", wrong) : onnx_set_constant(n, 0, t.type, t.data);
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!(a = onnx_attr_of(n, kinds[i].name, kinds[i].type))) continue;
    int64_t num = (int64_t)a->num;
    bool is_float = a->type == ONNX_FLOAT || a->type == ONNX_FLOATS,
         is_list = a->type == ONNX_FLOATS || a->type == ONNX_INTS;
    const void *floats = is_list ? a->floats : &a->f, *ints = is_list ? a->ints : &a->i;
    const msc_type *t = msc_type_of(n->ctx, is_float ? MSC_F32 : MSC_I64, is_list, &num, NULL);
    return onnx_set_constant(n, 0, t, is_float ? floats : ints);
  }
  return onnx_refuse(n, "has no value that msc reads: texts and sparse tensors are not supported");
}

/* ---- conditions and loops become the ops of all their rounds ---- */

static const onnx_graph *graph_of(onnx_node *n, const char *name) {
  const onnx_attr *a = onnx_attr_of(n, name, ONNX_GRAPH);
  if (!a || !a->graph) return onnx_refuse(n, "lacks the graph '%s'", name), NULL;
  return a->graph;
}

static bool have_same_type(const onnx_value *a, const onnx_value *b) {
  return a->kind == ONNX_IS_TENSOR && b->kind == ONNX_IS_TENSOR && a->type == b->type;
}

/* Computes both graphs of a condition that is known only when the plan runs, and selects the results of one. */
static bool choose_results(onnx_node *n, const onnx_graph *then, const onnx_graph *otherwise) {
  onnx_value **yes = msc_new_array(n->scratch, onnx_value *, then->num_out + 1);
  onnx_value **no = msc_new_array(n->scratch, onnx_value *, otherwise->num_out + 1);
  MSC_TRY(onnx_run_graph(n, then, 0, NULL, yes) && onnx_run_graph(n, otherwise, 0, NULL, no));
  msc_value *c = onnx_in(n, 0);
  c = c ? reshape(n->b, c, 0, NULL) : NULL;
  for (size_t i = 0; c && i < n->num_out; i++) {
    if (yes[i]->kind == ONNX_IS_FAULTY || no[i]->kind == ONNX_IS_FAULTY) {
      onnx_set_value(n, i, yes[i]->kind == ONNX_IS_FAULTY ? yes[i] : no[i]);
      continue;
    }
    if (!have_same_type(yes[i], no[i]))
      return onnx_refuse(n,
                         "its condition is not known when the model is read, and its graphs' results differ in type");
    msc_value *a = onnx_value_of(n, yes[i]), *b = onnx_value_of(n, no[i]);
    MSC_TRY(a && b && onnx_set(n, i, choose(n->b, c, a, b)));
  }
  return c != NULL;
}

bool onnx_build_if(onnx_node *n) {
  const onnx_graph *then = graph_of(n, "then_branch"), *otherwise = graph_of(n, "else_branch");
  if (!then || !otherwise) return false;
  if (then->num_out < n->num_out || otherwise->num_out < n->num_out)
    return onnx_refuse(n, "its graphs have fewer outputs than it has");
  if (!onnx_has(n, 0)) return onnx_refuse(n, "lacks its condition");
  if (!n->in[0]->data) return choose_results(n, then, otherwise);
  int64_t which;
  MSC_TRY(onnx_const_int(n, 0, &which));
  const onnx_graph *g = which ? then : otherwise;
  onnx_value **out = msc_new_array(n->scratch, onnx_value *, g->num_out + 1);
  MSC_TRY(onnx_run_graph(n, g, 0, NULL, out));
  for (size_t i = 0; i < n->num_out; i++) onnx_set_value(n, i, out[i]);
  return true;
}

/* Sets output i to the values of a loop's rounds, stacked along a new dimension `axis`. */
static bool set_stacked(onnx_node *n, size_t i, size_t num, onnx_value *const *v, int64_t axis, bool reversed) {
  msc_value **part = msc_new_array(n->scratch, msc_value *, num + 1);
  int at = 0;
  if (!num) return onnx_refuse(n, "without a round it has no output %zu", i);
  for (size_t k = 0; k < num; k++) {
    if (v[k]->kind == ONNX_IS_FAULTY) return onnx_set_value(n, i, v[k]);
    msc_value *x = onnx_value_of(n, v[k]);
    if (!x || (!k && !onnx_axis(n, axis, x->type->rank + 1, &at))) return false;
    if (x->type->rank == MSC_MAX_RANK) return onnx_refuse(n, "its results have too many dimensions");
    MSC_TRY((part[reversed ? num - 1 - k : k] = onnx_insert_dim(n->b, x, at)));
  }
  return onnx_set(n, i, num == 1 ? part[0] : join_along(n->b, at, num, part));
}

static onnx_value *scalar(onnx_node *n, msc_dtype dtype, int64_t v) {
  return onnx_constant(n, msc_type_of(n->ctx, dtype, 0, NULL, NULL), msc_arena_copy(n->scratch, &v, sizeof v));
}

/* 1: v is true; 0: false; -1: that is not known. */
static int truth_of(const onnx_value *v) { return !v->data ? -1 : *(const uint8_t *)v->data != 0; }

bool onnx_build_loop(onnx_node *n) {
  const onnx_graph *body = graph_of(n, "body");
  int64_t most = MAX_ROUNDS + 1;
  if (!body) return false;
  if (onnx_has(n, 0)) MSC_TRY(onnx_const_int(n, 0, &most));
  size_t num = n->num_in > 2 ? n->num_in - 2 : 0, scans = body->num_out > num ? body->num_out - 1 - num : 0;
  if (body->num_in != num + 2 || body->num_out < num + 1 || n->num_out > num + scans)
    return onnx_refuse(n, "its graph does not fit its inputs and outputs");
  onnx_value **in = msc_new_array(n->scratch, onnx_value *, num + 3), **out, ***stacked;
  stacked = msc_new_array(n->scratch, onnx_value **, scans + 1);
  for (size_t i = 0; i < num; i++) MSC_TRY((in[2 + i] = n->in[2 + i]) || onnx_refuse(n, "lacks input %zu", 2 + i));
  int64_t runs;
  if (onnx_has(n, 1)) MSC_TRY(onnx_const_int(n, 1, &runs));
  in[1] = onnx_has(n, 1) ? n->in[1] : scalar(n, MSC_I1, 1);
  size_t rounds = 0;
  for (; (int64_t)rounds < most && truth_of(in[1]); rounds++) {
    if (truth_of(in[1]) < 0) return onnx_refuse(n, "how often it runs is not known when the model is read");
    if (rounds == MAX_ROUNDS) return onnx_refuse(n, "runs more than %d times", MAX_ROUNDS);
    in[0] = scalar(n, MSC_I64, (int64_t)rounds);
    out = msc_new_array(n->scratch, onnx_value *, body->num_out + 1);
    MSC_TRY(onnx_run_graph(n, body, num + 2, in, out));
    if (out[0]->kind == ONNX_IS_FAULTY) return onnx_refuse(n, "its condition cannot be read");
    for (size_t i = 0; i <= num; i++) in[1 + i] = out[i];
    for (size_t i = 0; i < scans; i++) {
      msc_grow(n->scratch, stacked[i], rounds);
      stacked[i][rounds] = out[1 + num + i];
    }
  }
  for (size_t i = 0; i < num && i < n->num_out; i++) onnx_set_value(n, i, in[2 + i]);
  for (size_t i = 0; i < scans; i++)
    if (onnx_wants(n, num + i)) MSC_TRY(set_stacked(n, num + i, rounds, stacked[i], 0, false));
  return true;
}

/* Builds entry `at` of dimension `axis` of v, without that dimension. */
static onnx_value *take_entry(onnx_node *n, onnx_value *v, int axis, int64_t at) {
  msc_value *x = onnx_value_of(n, v);
  return onnx_computed(n, onnx_drop_dim(n->b, part_of(n->b, x, axis, at, at + 1), axis));
}

/* Reads an attribute of at most `num` integers; those that it lacks are 0. */
static bool read_ints_or_zeros(onnx_node *n, const char *name, size_t num, int64_t *out) {
  int k = onnx_ints(n, name, out, (int)num);
  for (size_t i = k < 0 ? 0 : (size_t)k; i < num; i++) out[i] = 0;
  return k != -2;
}

bool onnx_build_scan(onnx_node *n) {
  const onnx_graph *body = graph_of(n, "body");
  int64_t scans = onnx_int(n, "num_scan_inputs", 0), rounds = -1;
  if (!body) return false;
  if (n->opset < 9) return onnx_refuse(n, "of opset 8 is not supported");
  if (scans < 1 || (size_t)scans > n->num_in || body->num_in != n->num_in)
    return onnx_refuse(n, "num_scan_inputs does not fit its inputs");
  size_t num = n->num_in - (size_t)scans, gives = body->num_out - num;
  if (body->num_out < num || n->num_out > body->num_out) return onnx_refuse(n, "its graph has too few outputs");
  int64_t *axes = msc_new_array(n->scratch, int64_t, 2 * n->num_in + 2 * body->num_out + 4),
          *back = axes + n->num_in + 1;
  int64_t *out_axes = back + n->num_in + 1, *out_back = out_axes + body->num_out + 1;
  MSC_TRY(read_ints_or_zeros(n, "scan_input_axes", (size_t)scans, axes) &&
          read_ints_or_zeros(n, "scan_input_directions", (size_t)scans, back) &&
          read_ints_or_zeros(n, "scan_output_axes", gives, out_axes) &&
          read_ints_or_zeros(n, "scan_output_directions", gives, out_back));
  onnx_value **in = msc_new_array(n->scratch, onnx_value *, n->num_in + 1), **out;
  onnx_value ***stacked = msc_new_array(n->scratch, onnx_value **, gives + 1);
  for (size_t i = 0; i < n->num_in; i++)
    if (!n->in[i]) return onnx_refuse(n, "lacks input %zu", i);
  for (size_t i = 0; i < num; i++) in[i] = n->in[i];
  for (size_t i = 0; i < (size_t)scans; i++) {
    const msc_type *t = onnx_type(n, num + i);
    int axis;
    if (!t || !onnx_axis(n, axes[i], t->rank, &axis)) return false;
    axes[i] = axis;
    if (rounds >= 0 && rounds != t->dim[axis]) return onnx_refuse(n, "its inputs are not equally long");
    rounds = t->dim[axis];
  }
  if (rounds > MAX_ROUNDS) return onnx_refuse(n, "runs more than %d times", MAX_ROUNDS);
  for (int64_t k = 0; k < rounds; k++) {
    for (size_t i = 0; i < (size_t)scans; i++)
      MSC_TRY((in[num + i] = take_entry(n, n->in[num + i], (int)axes[i], back[i] ? rounds - 1 - k : k)));
    out = msc_new_array(n->scratch, onnx_value *, body->num_out + 1);
    MSC_TRY(onnx_run_graph(n, body, n->num_in, in, out));
    for (size_t i = 0; i < num; i++) in[i] = out[i];
    for (size_t i = 0; i < gives; i++) {
      msc_grow(n->scratch, stacked[i], (size_t)k);
      stacked[i][k] = out[num + i];
    }
  }
  for (size_t i = 0; i < num && i < n->num_out; i++) onnx_set_value(n, i, in[i]);
  for (size_t i = 0; i < gives; i++)
    if (onnx_wants(n, num + i))
      MSC_TRY(set_stacked(n, num + i, (size_t)(rounds < 0 ? 0 : rounds), stacked[i], out_axes[i], out_back[i] != 0));
  return true;
}
