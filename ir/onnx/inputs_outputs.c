/* inputs_outputs.c: the graph's initializers, inputs and outputs, and the user's sizes and values for them, in;
 * arguments and results of the function out. */
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/reader.h"

/* ---- inputs and weights ---- */

static bool read_initializer(onnx_reader *r, const onnx_initializer *init) {
  onnx_tensor t;
  const char *wrong = onnx_read_tensor(r->ctx, r->scratch, r->file, init->bytes, &t);
  onnx_value *v = onnx_value_new(r, wrong ? ONNX_IS_FAULTY : ONNX_IS_TENSOR);
  if (wrong) onnx_report(r, init->name, r->loc, "tensor '%s' %s", init->name, wrong);
  else {
    v->type = t.type, v->data = t.bytes ? t.data : "";
    if (msc_is_float(t.type->dtype) && t.type->rank) v->weight = init->name;
  }
  return onnx_define(r, init->name, v);
}

bool onnx_read_inits(onnx_reader *r, const onnx_graph *g) {
  if (g->num_sparse)
    return onnx_report(r, NULL, r->loc, "graph '%s' has sparse tensors, which msc does not read", g->name);
  for (size_t i = 0; i < g->num_inits; i++)
    if (!read_initializer(r, &g->init[i])) return false;
  return true;
}

/* The size given for this name; -1: there is none. */
static int64_t given_size(onnx_reader *r, const char *name) {
  for (size_t i = 0; i < r->file->num_dims; i++)
    if (!strcmp(r->file->dim[i].name, name)) return r->dim_used[i] = true, r->file->dim[i].size;
  return -1;
}

/* The next part of "past + 1": a name, or digits. */
static const char *next_part(onnx_reader *r, const char **text) {
  const char *from = *text + strspn(*text, " +");
  size_t n = strcspn(from, " +");
  *text = from + n;
  return msc_intern_n(r->ctx, from, n);
}

static bool is_number(const char *text) { return *text && strspn(text, "0123456789") == strlen(text); }

/* Returns the size of a dimension whose name is a sum, such as "past + 1"; -1: the name is no sum, or the size of a
 * part is not given. */
static int64_t sum_of_sizes(onnx_reader *r, const char *text) {
  int64_t sum = 0;
  if (!text || !strchr(text, '+')) return -1;
  for (const char *part; *(part = next_part(r, &text));) {
    int64_t size = is_number(part) ? strtoll(part, NULL, 10) : given_size(r, part);
    if (size < 0 || __builtin_add_overflow(sum, size, &sum)) return -1;
  }
  return sum > 0 ? sum : -1;
}

/* Returns the size that the user gave for dimension d of an input; -1 after a report. */
static int64_t open_size(onnx_reader *r, const onnx_value_info *in, int d) {
  const char *place = msc_arena_printf(r->scratch, "%s.%d", in->name, d);
  for (size_t i = 0; i < r->file->num_dims; i++) {
    const char *name = r->file->dim[i].name;
    if (strcmp(name, place) && (!in->dim[d].name || strcmp(name, in->dim[d].name))) continue;
    r->dim_used[i] = true;
    return r->file->dim[i].size;
  }
  int64_t sum = sum_of_sizes(r, in->dim[d].name);
  if (sum > 0) return sum;
  onnx_report(r, NULL, r->loc, "input '%s': dimension %d has no size; give one with --dim %s=...", in->name, d,
              in->dim[d].name ? in->dim[d].name : place);
  return -1;
}

/* The type of an input; NULL after a report. */
static const msc_type *input_type(onnx_reader *r, const onnx_value_info *in) {
  msc_dtype dtype;
  int64_t dim[MSC_MAX_RANK];
  bool ok = true;
  if (!in->is_tensor) return onnx_report(r, NULL, r->loc, "input '%s' is no tensor", in->name), NULL;
  if (!onnx_dtype(in->elem_type, &dtype))
    return onnx_report(r, NULL, r->loc, "input '%s' has elements of type %s, which msc does not have", in->name,
                       onnx_dtype_name(in->elem_type)),
           NULL;
  if (!in->has_shape) return onnx_report(r, NULL, r->loc, "input '%s' has no shape, not even a rank", in->name), NULL;
  if (in->is_too_deep)
    return onnx_report(r, NULL, r->loc, "input '%s' has more than %d dimensions", in->name, MSC_MAX_RANK), NULL;
  for (int d = 0; d < in->rank; d++) {
    dim[d] = in->dim[d].size >= 0 ? in->dim[d].size : open_size(r, in, d);
    ok &= dim[d] >= 0;
  }
  const msc_type *t = ok ? msc_type_of(r->ctx, dtype, in->rank, dim, NULL) : NULL;
  if (t && msc_type_bytes(t) < 0) return onnx_report(r, NULL, r->loc, "input '%s' is too large", in->name), NULL;
  return t;
}

/* Adds an argument for an input. Its first dimension is the batch if the file leaves it open. An input without
 * elements becomes a constant instead: nothing can be given for it. */
static onnx_value *add_input(onnx_reader *r, const onnx_value_info *in, const msc_type *type) {
  msc_func *f = r->func;
  if (!msc_type_elems(type)) {
    onnx_value *none = onnx_value_new(r, ONNX_IS_TENSOR);
    none->type = type, none->data = "";
    return none;
  }
  msc_value *arg = msc_add_arg(f->body, type, in->name);
  msc_arg_put(f, arg->index, msc_fact_msc_name(r->ctx, in->name));
  msc_arg_put(f, arg->index, msc_fact_msc_role(r->ctx, MSC_ROLE_DATA));
  if (!in->rank || in->dim[0].size >= 0) msc_arg_put(f, arg->index, msc_fact_msc_batch_dim(-1));
  onnx_value *v = onnx_value_new(r, ONNX_IS_TENSOR);
  v->type = type, v->value = arg, v->func = f, v->input = in->name;
  return v;
}

/* An input whose value is given: "1,2,3", row by row.  The one open dimension has as many as it takes. */
static onnx_value *fixed_input(onnx_reader *r, const onnx_value_info *in, const char *text) {
  msc_dtype dtype;
  int64_t dim[MSC_MAX_RANK], known = 1;
  int open = -1;
  if (!in->is_tensor || !onnx_dtype(in->elem_type, &dtype) || in->is_too_deep || !in->has_shape) return NULL;
  size_t num = *text != 0;
  for (const char *p = text; *p; p++) num += *p == ',';
  for (int d = 0; d < in->rank; d++) {
    dim[d] = in->dim[d].size;
    if (dim[d] >= 0 && !__builtin_mul_overflow(known, dim[d], &known)) continue;
    if (open >= 0) return NULL;
    open = d;
  }
  if (open >= 0) dim[open] = known ? (int64_t)num / known : 0;
  const msc_type *t = msc_type_of(r->ctx, dtype, in->rank, dim, NULL);
  if (msc_type_elems(t) != (int64_t)num) return NULL;
  msc_tensor data = msc_tensor_new(r->scratch, t);
  for (size_t i = 0; i < num; i++) {
    char *end;
    double v = strtod(text, &end);
    long long whole = strtoll(text, NULL, 10);
    if (end == text || (*end && *end != ',')) return NULL;
    if (dtype == MSC_I64) ((int64_t *)data.data)[i] = whole;
    else msc_tensor_set(&data, (int64_t)i, v);
    text = end + (*end == ',');
  }
  onnx_value *v = onnx_value_new(r, ONNX_IS_TENSOR);
  v->type = t, v->data = num ? data.data : "";
  return v;
}

static bool read_graph_input(onnx_reader *r, const onnx_value_info *in) {
  for (size_t i = 0; i < r->file->num_fixed; i++) {
    const msc_fixed_input *f = &r->file->fixed[i];
    if (strcmp(f->name, in->name)) continue;
    r->fixed_used[i] = true;
    onnx_value *v = fixed_input(r, in, f->text);
    if (v) return onnx_define(r, in->name, v);
    onnx_report(r, NULL, r->loc, "--fix %s=%s: these are not the elements of this input", f->name, f->text);
    return onnx_define(r, in->name, onnx_value_new(r, ONNX_IS_FAULTY));
  }
  const msc_type *t = input_type(r, in);
  return onnx_define(r, in->name, t ? add_input(r, in, t) : onnx_value_new(r, ONNX_IS_FAULTY));
}

bool onnx_read_inputs(onnx_reader *r) {
  const onnx_graph *g = r->model->graph;
  for (size_t i = 0; i < g->num_in; i++)
    if (!onnx_find_value(r->scope, g->in[i].name) && !read_graph_input(r, &g->in[i])) return false;
  for (size_t i = 0; i < r->file->num_dims; i++)
    if (!r->dim_used[i])
      onnx_report(r, NULL, r->loc, "--dim %s: the model has no open dimension of that name", r->file->dim[i].name);
  for (size_t i = 0; i < r->file->num_fixed; i++)
    if (!r->fixed_used[i])
      onnx_report(r, NULL, r->loc, "--fix %s: the model has no such input", r->file->fixed[i].name);
  return true;
}

/* ---- sizes that the file leaves open ---- */

static bool is_size_name(const char *name) {
  for (const char *p = name; *p; p++)
    if (!msc_is_letter(*p) && (p == name || (!msc_is_digit(*p) && *p != '.'))) return false;
  return *name != 0;
}

static void add_name(onnx_reader *r, const char *name, const char ***list, size_t *num) {
  bool known = is_number(name) || given_size(r, name) >= 0 || !is_size_name(name);
  for (size_t i = 0; i < *num; i++) known |= (*list)[i] == name;
  if (known) return;
  msc_grow(msc_context_arena(r->ctx), *list, *num);
  (*list)[(*num)++] = name;
}

/* Has the input a value, by an initializer in the file or by the user, so that it is no argument? */
static bool is_given(const onnx_reader *r, const onnx_value_info *in) {
  for (size_t i = 0; i < r->model->graph->num_inits; i++)
    if (r->model->graph->init[i].name == in->name) return true;
  for (size_t i = 0; i < r->file->num_fixed; i++)
    if (!strcmp(r->file->fixed[i].name, in->name)) return true;
  return false;
}

size_t onnx_list_open_sizes(onnx_reader *r, const char *const **out_name) {
  const char **list = NULL;
  size_t num = 0;
  for (size_t i = 0; i < r->model->graph->num_in; i++) {
    const onnx_value_info *in = &r->model->graph->in[i];
    if (is_given(r, in) || in->is_too_deep) continue;
    for (int d = 0; d < in->rank; d++) {
      const char *name = in->dim[d].name, *text = name;
      const char *place = msc_intern(r->ctx, msc_arena_printf(r->scratch, "%s.%d", in->name, d));
      if (in->dim[d].size >= 0 || given_size(r, place) >= 0) continue;
      if (name && strchr(name, '+'))
        for (const char *part; *(part = next_part(r, &text));) add_name(r, part, &list, &num);
      else add_name(r, name && is_size_name(name) ? msc_intern(r->ctx, name) : place, &list, &num);
    }
  }
  *out_name = list;
  return num;
}

/* ---- outputs ---- */

static const char *text_of_type(onnx_reader *r, const msc_type *t) { return msc_type_text(r->scratch, NULL, t); }

/* Compares the type of an output with the one in the file, and reports a difference. */
static void check_output(onnx_reader *r, const onnx_value_info *o, const msc_type *t) {
  msc_dtype dtype;
  bool same = !o->is_tensor || !o->elem_type || (onnx_dtype(o->elem_type, &dtype) && dtype == t->dtype);
  if (o->is_tensor && o->has_shape && !o->is_too_deep) same &= o->rank == t->rank;
  for (int d = 0; same && o->has_shape && d < o->rank; d++) same = o->dim[d].size < 0 || o->dim[d].size == t->dim[d];
  if (!same)
    onnx_report(r, NULL, r->loc, "output '%s' is %s, which is not what the file says it is", o->name,
                text_of_type(r, t));
}

bool onnx_read_outputs(onnx_reader *r) {
  const onnx_graph *g = r->model->graph;
  msc_value **in = msc_new_array(r->scratch, msc_value *, g->num_out + 1);
  msc_attr_value *names = msc_new_array(r->scratch, msc_attr_value, g->num_out + 1);
  if (!g->num_out) return onnx_report(r, NULL, r->loc, "the graph has no outputs");
  for (size_t i = 0; i < g->num_out; i++) {
    onnx_value *v = onnx_find_value(r->scope, g->out[i].name);
    names[i] = msc_str(r->ctx, g->out[i].name);
    for (size_t k = 0; k < i; k++)
      if (g->out[k].name == g->out[i].name) onnx_report(r, NULL, r->loc, "two outputs are called '%s'", g->out[i].name);
    if (!v) onnx_report(r, NULL, r->loc, "output '%s' is not computed", g->out[i].name);
    if (!v || v->kind == ONNX_IS_FAULTY) continue;
    if (v->kind != ONNX_IS_TENSOR) onnx_report(r, NULL, r->loc, "output '%s' is no tensor", g->out[i].name);
    else if (v->data && !msc_type_elems(v->type))
      onnx_report(r, NULL, r->loc, "output '%s' has no elements", g->out[i].name);
    else if ((in[i] = onnx_take(r, v))) check_output(r, &g->out[i], v->type);
  }
  if (r->num_errors) return false;
  msc_append(r->func->body, msc_op_new(r->func, OP_return, g->num_out, in, 0, r->loc));
  msc_func_put(r->func, msc_fact_results(r->ctx, g->num_out, names));
  return true;
}
