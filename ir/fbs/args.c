/* args.c: inputs, parameters, constants, outputs and training of a model.fbs in; arguments, constant ops, the return op
 * and the function's attributes out. */
#include <stdlib.h>
#include <string.h>

#include "ir/fact.h"
#include "ir/fbs/fbs.h"
#include "ir/interp/interp.h"

/* ---- names ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Reports each name that occurs more than once, once. */
static bool check_distinct(fbs_reader *r, const char *what, const char **name, size_t num) {
  const char **sorted = msc_arena_copy(r->scratch, name, num * sizeof *name);
  bool ok = true;
  qsort(sorted, num, sizeof *sorted, by_text);
  for (size_t i = 1; i < num; i++)
    if (sorted[i] == sorted[i - 1] && (i == 1 || sorted[i - 2] != sorted[i]))
      ok = fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, ""}, "two %s are called '%s'", what, sorted[i]);
  return ok;
}

/* ---- arguments ---- */

static msc_value *add_arg(fbs_reader *r, fbs_place p, uint32_t number, const msc_type *type, const char *name,
                          msc_role role) {
  msc_value *v = msc_add_arg(r->func->body, type, name);
  fbs_define(r, p, number, v);
  msc_arg_put(r->func, v->index, msc_fact_msc_name(r->ctx, name));
  msc_arg_put(r->func, v->index, msc_fact_msc_role(r->ctx, role));
  return v;
}

/* Defines a value whose definition is faulty, and was reported: its uses are skipped without a further report. */
static void define_faulty(fbs_reader *r, uint32_t number) {
  if (number < r->num_values && !r->value[number]) r->value[number] = msc_new(r->scratch, msc_value);
}

static const msc_type *declared_type(fbs_reader *r, fbs_place p, uint32_t number) {
  if (number < r->num_values) return r->declared[number];
  fbs_error(r, MSC_E_SSA, p, "is value %u, but the file has %u values", number, r->num_values);
  return NULL;
}

static const char *read_input(fbs_reader *r, uint32_t i, model_input in) {
  fbs_place p = fbs_at_file(r, "input %u", i);
  const char *name = fbs_text(r, p, model_input_name(in), model_input_name_len(in));
  if (!name) return NULL;
  p.what = msc_arena_printf(r->scratch, "input %s", name);
  const msc_type *type = declared_type(r, p, model_input_value(in));
  int32_t batch = model_input_batch_dim(in);
  if (!*name) fbs_error(r, MSC_E_FORMAT, p, "has no name");
  if (model_input_role(in) > MODEL_ROLE_MASK)
    return fbs_error(r, MSC_E_FORMAT, p, "unknown role %u", model_input_role(in)), NULL;
  if (!type) return NULL;
  if (batch < -1 || (batch > 0 && batch >= type->rank))
    fbs_error(r, MSC_E_SHAPE, p, "batch_dim %d is not a dimension of %s", batch, fbs_type_text(r, type));
  type = fbs_input_type(r, in, p, type);
  msc_value *v = add_arg(r, p, model_input_value(in), type, name, (msc_role)model_input_role(in));
  if (batch && type && type->rank) msc_arg_put(r->func, v->index, msc_fact_msc_batch_dim(batch));
  return name;
}

/* ---- parameters ---- */

/* Returns the shortest text that reads back as v. */
static const char *number_text(fbs_reader *r, double v) {
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  return msc_arena_printf(r->scratch, "%s", text);
}

static bool read_init(fbs_reader *r, fbs_place p, model_op o, size_t arg) {
  static const struct {
    const char *kind, *attr;
    double low;
  } inits[] = {{"zeros", NULL, 0},
               {"ones", NULL, 0},
               {"constant", "value", -1e300},
               {"normal", "std", 0},
               {"uniform", "bound", 0}};
  const char *kind = model_op_kind(o);
  for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
    if (strcmp(kind, inits[i].kind)) continue;
    msc_attr_value v;
    bool takes = inits[i].attr != NULL;
    model_attr a = model_op_attrs(o, 0);
    if (model_op_attrs_num(o) != takes || (takes && strcmp(model_attr_name(a), inits[i].attr)))
      return fbs_error(r, MSC_E_FORMAT, p, "init %s takes %s%s", kind, takes ? "just the attribute " : "no attributes",
                       takes ? inits[i].attr : "");
    if (!takes) return msc_arg_put(r->func, arg, msc_fact_msc_init(r->ctx, kind)), true;
    if (!fbs_read_attr(r, p, a, &v)) return false;
    double number = v.kind == MSC_ATTR_INT ? (double)v.i : v.f;
    if ((v.kind != MSC_ATTR_FLOAT && v.kind != MSC_ATTR_INT) || !(number >= inits[i].low && number <= 1e300))
      return fbs_error(r, MSC_E_FORMAT, p, "init %s: %s must be a finite number%s", kind, inits[i].attr,
                       inits[i].low < 0 ? "" : " of at least 0");
    msc_arg_put(r->func, arg,
                msc_fact_msc_init(r->ctx, msc_arena_printf(r->scratch, "%s:%s", kind, number_text(r, number))));
    return true;
  }
  return fbs_error(r, MSC_E_FORMAT, p, "unknown init %s; it is one of zeros, ones, constant, normal, uniform", kind);
}

/* Sets the fact msc.weights = {file, tensor[, bytes, xxh3]} of an argument. */
static bool read_weights(fbs_reader *r, fbs_place p, model_weights w, size_t arg) {
  uint32_t number = model_weights_file(w), num = model_model_weight_files_num(r->model);
  if (number >= num)
    return fbs_error(r, MSC_E_FORMAT, p, "its weights are in file %u, but the model lists %u", number, num);
  model_weight_file f = model_model_weight_files(r->model, number);
  const char *path = fbs_text(r, p, model_weight_file_path(f), model_weight_file_path_len(f));
  const char *tensor = fbs_text(r, p, model_weights_tensor(w), model_weights_tensor_len(w));
  if (!path || !tensor) return false;
  if (!msc_is_weight_path(path)) return true; /* reported once by check_weight_files */
  msc_attr *attrs = NULL;
  size_t num_attrs = 0;
  msc_put_attr(r->ctx, &attrs, &num_attrs, "file", msc_str(r->ctx, path));
  msc_put_attr(r->ctx, &attrs, &num_attrs, "tensor", msc_str(r->ctx, tensor));
  if (model_weight_file_bytes(f))
    msc_put_attr(r->ctx, &attrs, &num_attrs, "bytes", msc_int((int64_t)model_weight_file_bytes(f)));
  if (model_weight_file_xxh3(f))
    msc_put_attr(r->ctx, &attrs, &num_attrs, "xxh3", msc_int((int64_t)model_weight_file_xxh3(f)));
  msc_attr_value v = {.kind = MSC_ATTR_DICT, .dict = {num_attrs, attrs}};
  msc_arg_put(r->func, arg, msc_fact_msc_weights(v));
  return true;
}

static void check_weight_files(fbs_reader *r) {
  for (uint32_t i = 0; i < model_model_weight_files_num(r->model) && r->num_errors < FBS_MAX_ERRORS; i++) {
    model_weight_file f = model_model_weight_files(r->model, i);
    fbs_place p = fbs_at_file(r, "weight file %u", i);
    const char *path = fbs_text(r, p, model_weight_file_path(f), model_weight_file_path_len(f));
    if (path && !msc_is_weight_path(path))
      fbs_error(r, MSC_E_FORMAT, p, "path '%s' leaves the model's folder; it must be relative, without '..'", path);
  }
}

/* Reads the attributes of a parameter, besides its initial value. */
static void read_marks(fbs_reader *r, fbs_place p, model_parameter t, msc_value *v) {
  msc_func *f = r->func;
  size_t arg = v->index;
  if (!model_parameter_trainable(t)) msc_arg_put(f, arg, msc_fact_msc_trainable(false));
  if (model_parameter_layerwise_parallel(t)) msc_arg_put(f, arg, msc_fact_msc_layerwise_parallel(msc_bool(true)));
  if (!model_parameter_parallel_optimizer(t)) msc_arg_put(f, arg, msc_fact_msc_parallel_optimizer(msc_bool(false)));
  int32_t fusion = model_parameter_comm_fusion(t);
  if (fusion < -1) fbs_error(r, MSC_E_FORMAT, p, "comm_fusion is %d; it is at least 0", fusion);
  else if (fusion >= 0) msc_arg_put(f, arg, msc_fact_msc_comm_fusion(fusion));
  const char *layout = fbs_text(r, p, model_parameter_layout(t), model_parameter_layout_len(t));
  const msc_layout *parsed = NULL;
  if (layout && r->module->mesh.num_axes && !msc_layout_parse(r->ctx, &r->module->mesh, p.loc, layout, &parsed))
    r->num_errors++;
  if (parsed && parsed->rank != v->type->rank)
    fbs_error(r, MSC_E_LAYOUT, p, "its layout has %d dimensions, its rank is %d", parsed->rank, v->type->rank);
  if (layout) msc_arg_set(f, arg, MSC_FACT(msc_layout), parsed ? msc_layout_attr(parsed) : msc_str(r->ctx, layout));
  if (model_parameter_parameter_server(t)) msc_arg_put(f, arg, msc_fact_msc_parameter_server(true));
  if (model_parameter_cache_rows(t) < 0)
    fbs_error(r, MSC_E_FORMAT, p, "cache_rows is %" PRId64 "; it is at least 0", model_parameter_cache_rows(t));
  else if (model_parameter_cache_rows(t)) msc_arg_put(f, arg, msc_fact_msc_cache_rows(model_parameter_cache_rows(t)));
}

static const char *read_parameter(fbs_reader *r, uint32_t i, model_parameter t) {
  fbs_place p = fbs_at_file(r, "parameter %u", i);
  const char *name = fbs_text(r, p, model_parameter_name(t), model_parameter_name_len(t));
  if (!name) return NULL;
  p.what = msc_arena_printf(r->scratch, "parameter %s", name);
  p.loc = fbs_loc_of(r, model_parameter_loc(t), p.what);
  fbs_block_of(r, model_parameter_block(t), p);
  const msc_type *type = declared_type(r, p, model_parameter_value(t));
  if (!*name) fbs_error(r, MSC_E_FORMAT, p, "has no name");
  for (int d = 0; type && d < type->rank; d++)
    if (type->dim[d] < 1) {
      fbs_error(r, MSC_E_SHAPE, p, "dimension %d has size %" PRId64 "; sizes of parameters are fixed and at least 1", d,
                type->dim[d]);
      type = NULL;
    }
  if (!type) return NULL;
  msc_value *v = add_arg(r, p, model_parameter_value(t), type, name, MSC_ROLE_PARAMETER);
  if (!has_model_parameter_init(t) && !has_model_parameter_weights(t))
    fbs_error(r, MSC_E_FORMAT, p, "has neither weights nor init");
  if (has_model_parameter_init(t)) read_init(r, p, model_parameter_init(t), v->index);
  if (has_model_parameter_weights(t)) read_weights(r, p, model_parameter_weights(t), v->index);
  read_marks(r, p, t, v);
  return name;
}

/* Checks that the body's own list of arguments, if there is one, is the same. */
static void check_body_args(fbs_reader *r) {
  model_graph body = model_model_body(r->model);
  uint32_t inputs = model_model_inputs_num(r->model), num = inputs + model_model_parameters_num(r->model);
  bool same = model_graph_args_num(body) == num;
  for (uint32_t i = 0; same && i < num; i++) {
    uint32_t number = i < inputs ? model_input_value(model_model_inputs(r->model, i))
                                 : model_parameter_value(model_model_parameters(r->model, i - inputs));
    same = model_graph_args(body, i) == number;
  }
  if (has_model_graph_args(body) && !same)
    fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, "body"},
              "its arguments are not the inputs followed by the parameters");
}

bool fbs_read_args(fbs_reader *r) {
  uint32_t inputs = model_model_inputs_num(r->model), parameters = model_model_parameters_num(r->model);
  const char **name = msc_new_array(r->scratch, const char *, (size_t)inputs + parameters + 1);
  size_t num = 0;
  for (uint32_t i = 0; i < inputs && r->num_errors < FBS_MAX_ERRORS; i++)
    if ((name[num] = read_input(r, i, model_model_inputs(r->model, i)))) num++;
    else define_faulty(r, model_input_value(model_model_inputs(r->model, i)));
  check_weight_files(r);
  for (uint32_t i = 0; i < parameters && r->num_errors < FBS_MAX_ERRORS; i++)
    if ((name[num] = read_parameter(r, i, model_model_parameters(r->model, i)))) num++;
    else define_faulty(r, model_parameter_value(model_model_parameters(r->model, i)));
  check_distinct(r, "inputs or parameters", name, num);
  check_body_args(r);
  return true;
}

/* ---- constants ---- */

/* Returns the elements of a constant, one of which may be a formula of the model's sizes; NULL after a report. */
static const void *constant_data(fbs_reader *r, fbs_place p, model_constant c, msc_dtype dtype) {
  uint32_t bytes = model_constant_data_num(c);
  void *data = msc_arena_copy(msc_context_arena(r->ctx), model_constant_data_data(c), bytes);
  int64_t number = 0;
  if (!model_constant_size_len(c)) return data;
  if (bytes != msc_dtype_bytes(dtype)) return fbs_error(r, MSC_E_FORMAT, p, "has a size and several elements"), NULL;
  if (!fbs_apply_size(r, p, model_constant_size(c), model_constant_size_len(c), &number)) return NULL;
  msc_tensor one = {msc_type_of(r->ctx, dtype, 0, NULL, NULL), data};
  msc_tensor_set(&one, 0, (double)number);
  if (!msc_is_float(dtype) && msc_tensor_get(&one, 0) != (double)number)
    return fbs_error(r, MSC_E_SHAPE, p, "is %" PRId64 ", which %s cannot hold", number, msc_dtype_name(dtype)), NULL;
  return data;
}

static void read_constant(fbs_reader *r, uint32_t i, model_constant c) {
  fbs_place p = fbs_at_file(r, "constant %u", i);
  uint32_t bytes = model_constant_data_num(c);
  const msc_type *t = declared_type(r, p, model_constant_value(c));
  const uint8_t *data = model_constant_data_data(c);
  if (!t) return;
  int64_t element = msc_dtype_bytes(t->dtype), whole = msc_type_bytes(t);
  for (int d = 0; d < t->rank; d++)
    if (t->dim[d] < 0) return (void)fbs_error(r, MSC_E_SHAPE, p, "dimension %d has no size", d);
  if (bytes > FBS_MAX_CONSTANT)
    return (void)fbs_error(r, MSC_E_FORMAT, p, "has %u bytes; more than %d belong into a weight file, as a parameter",
                           bytes, FBS_MAX_CONSTANT);
  if (!bytes || (bytes != whole && bytes != element))
    return (void)fbs_error(r, MSC_E_FORMAT, p,
                           "has %u bytes; %s needs %" PRId64 ", or %" PRId64 " to repeat one element", bytes,
                           fbs_type_text(r, t), whole, element);
  for (uint32_t k = 0; t->dtype == MSC_I1 && k < bytes; k++)
    if (data[k] > 1) return (void)fbs_error(r, MSC_E_FORMAT, p, "byte %u is %u; an i1 is 0 or 1", k, data[k]);
  const void *own = constant_data(r, p, c, t->dtype);
  if (!own) return;
  msc_attr_value v = {.kind = MSC_ATTR_DENSE, .dense = {t, own, bytes}};
  msc_op *op = msc_op_new(r->func, OP_constant, 0, NULL, 1, r->file);
  msc_append(r->func->body, op);
  msc_op_set(op, "value", v);
  if (!msc_infer(op)) r->num_errors++;
  fbs_define(r, p, model_constant_value(c), &op->out[0]);
}

bool fbs_read_constants(fbs_reader *r) {
  for (uint32_t i = 0; i < model_model_constants_num(r->model) && r->num_errors < FBS_MAX_ERRORS; i++) {
    read_constant(r, i, model_model_constants(r->model, i));
    if (r->num_errors) define_faulty(r, model_constant_value(model_model_constants(r->model, i)));
  }
  return true;
}

/* ---- outputs ---- */

static void check_body_results(fbs_reader *r) {
  model_graph body = model_model_body(r->model);
  uint32_t num = model_model_outputs_num(r->model);
  bool same = model_graph_results_num(body) == num;
  for (uint32_t i = 0; same && i < num; i++)
    same = model_graph_results(body, i) == model_output_value(model_model_outputs(r->model, i));
  if (has_model_graph_results(body) && !same)
    fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, "body"}, "its results are not the outputs");
}

/* Adds results behind the outputs: the new values of parameters that forward itself computes, such as running
 * statistics. `ties` ties them to the parameters. */
static size_t read_state(fbs_reader *r, msc_value **in, const char **name, size_t num) {
  uint32_t num_state = model_model_state_num(r->model);
  size_t first = num;
  int64_t *tie = msc_new_array(r->scratch, int64_t, num + num_state + 1);
  for (size_t i = 0; i < num; i++) tie[i] = -1;
  for (uint32_t i = 0; i < num_state && r->num_errors < FBS_MAX_ERRORS; i++) {
    model_output o = model_model_state(r->model, i);
    fbs_place p = fbs_at_file(r, "state %u", i);
    const char *of = fbs_text(r, p, model_output_name(o), model_output_name_len(o));
    msc_value *v = fbs_value(r, p, model_output_value(o), "");
    const msc_block *b = r->func->body;
    size_t arg = 0;
    if (!of || !v) continue;
    while (arg < b->num_args &&
           (!b->args[arg]->name || strcmp(b->args[arg]->name, of) || msc_arg_role(r->func, arg) != MSC_ROLE_PARAMETER))
      arg++;
    const msc_attr_value *trainable = arg < b->num_args ? msc_arg_attr(r->func, arg, MSC_FACT(msc_trainable)) : NULL;
    if (arg == b->num_args) fbs_error(r, MSC_E_FORMAT, p, "'%s' is no parameter", of);
    else if (!trainable || trainable->b)
      fbs_error(r, MSC_E_FORMAT, p,
                "parameter '%s' is trained; only a parameter with trainable = false has a value from forward", of);
    else if (v->type && v->type != b->args[arg]->type)
      fbs_error(r, MSC_E_TYPE, p, "the new value of '%s' is %s, the parameter %s", of, fbs_type_text(r, v->type),
                fbs_type_text(r, b->args[arg]->type));
    tie[num] = (int64_t)arg, in[num] = v, name[num++] = of;
  }
  if (num > first && !r->num_errors) msc_func_put(r->func, msc_fact_ties(r->ctx, num, tie));
  return num;
}

/* Makes the loss, if there is one, a result: the output that is the same value, else a first result called "loss". */
static size_t place_loss(fbs_reader *r, msc_value **in, const char **name, size_t num) {
  model_train train = model_model_train(r->model);
  fbs_place p = {r->file, NULL, "train"};
  msc_value *loss = train.at ? fbs_value(r, p, model_train_loss(train), "the loss ") : NULL;
  size_t at = 0;
  if (!loss) return num;
  while (at < num && in[at] != loss) at++;
  if (at == num) {
    memmove(in + 1, in, num * sizeof *in);
    memmove(name + 1, name, num * sizeof *name);
    in[0] = loss;
    name[0] = msc_intern(r->ctx, "loss");
    at = 0, num++;
  }
  msc_func_put(r->func, msc_fact_loss((int64_t)at));
  if (loss->type && (loss->type->rank || !msc_is_float(loss->type->dtype)))
    fbs_error(r, MSC_E_TYPE, p, "the loss is %s; it must be one floating-point number", fbs_type_text(r, loss->type));
  uint32_t micro = model_train_micro_size(train);
  if (!micro) fbs_error(r, MSC_E_FORMAT, p, "micro_size is 0; it is at least 1");
  if (micro > 1) msc_func_put(r->func, msc_fact_micro_size(micro));
  return num;
}

bool fbs_read_outputs(fbs_reader *r) {
  uint32_t num_outputs = model_model_outputs_num(r->model), num_state = model_model_state_num(r->model);
  if (num_state > UINT16_MAX)
    return fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, "state"}, "%u entries; at most %d are possible",
                     num_state, UINT16_MAX);
  msc_value **in = msc_new_array(r->scratch, msc_value *, (size_t)num_outputs + num_state + 1);
  const char **name = msc_new_array(r->scratch, const char *, (size_t)num_outputs + num_state + 1);
  size_t num = 0;
  if (num_outputs >= UINT16_MAX)
    return fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, ""}, "%u outputs; at most %d are possible",
                     num_outputs, UINT16_MAX - 1);
  for (uint32_t i = 0; i < num_outputs && r->num_errors < FBS_MAX_ERRORS; i++) {
    model_output o = model_model_outputs(r->model, i);
    fbs_place p = fbs_at_file(r, "output %u", i);
    name[num] = fbs_text(r, p, model_output_name(o), model_output_name_len(o));
    if (name[num] && !*name[num]) fbs_error(r, MSC_E_FORMAT, p, "has no name");
    in[num] = fbs_value(r, p, model_output_value(o), "");
    if (name[num] && in[num]) num++;
  }
  check_body_results(r);
  num = place_loss(r, in, name, num);
  if (!num && !r->num_errors)
    fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, ""}, "the model has neither outputs nor a loss");
  num = read_state(r, in, name, num);
  if (!check_distinct(r, "outputs", name, num) || r->num_errors) return false;
  msc_append_return(r->func, num, in, r->file);
  msc_attr_value *item = msc_new_array(r->scratch, msc_attr_value, num);
  for (size_t i = 0; i < num; i++) item[i] = msc_str(r->ctx, name[i]);
  msc_func_put(r->func, msc_fact_results(r->ctx, num, item));
  return true;
}

/* ---- optimizers ---- */

static bool put_parameters(fbs_reader *r, fbs_place p, model_optimizer o, msc_attr **attrs, size_t *num_attrs) {
  uint32_t num = model_optimizer_parameters_num(o), all = model_model_parameters_num(r->model);
  msc_attr_value *item = msc_new_array(r->scratch, msc_attr_value, num + 1);
  for (uint32_t i = 0; i < num; i++) {
    uint32_t number = model_optimizer_parameters(o, i);
    if (number >= all) return fbs_error(r, MSC_E_OPTIMIZER, p, "names parameter %u, but the model has %u", number, all);
    item[i] = msc_str(r->ctx, model_parameter_name(model_model_parameters(r->model, number)));
  }
  msc_put_attr(r->ctx, attrs, num_attrs, "parameters", msc_list(r->ctx, num, item));
  return true;
}

/* Reads an optimizer as {kind = "momentum", lr = ..., parameters = ["w"]}; passes/2_train checks its members. */
static bool read_optimizer(fbs_reader *r, uint32_t i, model_optimizer o, msc_attr_value *out_value) {
  fbs_place p = fbs_at_file(r, "optimizer %u", i);
  msc_attr *attrs = NULL;
  size_t num_attrs = 0;
  const char *kind = fbs_text(r, p, model_optimizer_kind(o), model_optimizer_kind_len(o));
  if (!kind) return false;
  msc_put_attr(r->ctx, &attrs, &num_attrs, "kind", msc_str(r->ctx, kind));
  for (uint32_t k = 0; k < model_optimizer_attrs_num(o); k++) {
    model_attr a = model_optimizer_attrs(o, k);
    const char *name = fbs_text(r, p, model_attr_name(a), model_attr_name_len(a));
    msc_attr_value v;
    if (!name || !fbs_read_attr(r, p, a, &v)) return false;
    if (!strcmp(name, "parameters") || msc_find_attr(attrs, num_attrs, name))
      return fbs_error(r, MSC_E_OPTIMIZER, p, "attribute %s is given twice", name);
    msc_put_attr(r->ctx, &attrs, &num_attrs, name, v);
  }
  if (has_model_optimizer_parameters(o) && !put_parameters(r, p, o, &attrs, &num_attrs)) return false;
  *out_value = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num_attrs, attrs}};
  return true;
}

bool fbs_read_optimizers(fbs_reader *r) {
  model_train train = model_model_train(r->model);
  uint32_t num = model_train_optimizers_num(train);
  msc_attr_value *item = msc_new_array(r->scratch, msc_attr_value, num + 1);
  for (uint32_t i = 0; i < num && r->num_errors < FBS_MAX_ERRORS; i++)
    read_optimizer(r, i, model_train_optimizers(train, i), &item[i]);
  if (num && !r->num_errors)
    msc_func_put(r->func, msc_fact_optimizer(num == 1 ? item[0] : msc_list(r->ctx, num, item)));
  return true;
}
