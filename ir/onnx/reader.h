/* reader.h: the state of reading an ONNX file, its names and their values, which the files of this folder share. */
#ifndef MSC_IR_ONNX_READER_H
#define MSC_IR_ONNX_READER_H

#include "ir/onnx/onnx.h"
#include "ir/table.h"

typedef struct {
  const char *name;
  onnx_value *value;
} named_value;

/* The names that nodes see: their own graph's, then those of the graphs around it; in a function only its own. */
typedef struct onnx_scope {
  MSC_TABLE(named_value) names;
  const struct onnx_scope *outer;
  size_t num_opsets;
  const onnx_opset *opset;
  const onnx_node *caller; /* inside a function the node that calls it, else NULL */
  const onnx_function *function;
} onnx_scope;

struct onnx_reader {
  msc_context *ctx;
  msc_arena *scratch;
  const msc_model_bytes *file;
  const msc_loc *loc;
  onnx_model *model;
  msc_module *module;
  msc_func *func;
  msc_builder b;
  onnx_scope *scope;
  int depth, num_errors;
  size_t num_nodes;
  int64_t fold_work; /* spent so far on folding constants */
  bool sizes_vary; /* the file is also read for other sizes */
  bool *dim_used, *fixed_used;
  struct unknown_op {
    const char *type, *first;
    uint32_t count;
  } * unknown;
  size_t num_unknown;
};

/* ---- read_onnx.c: messages ---- */

/* Reports an error at the place in the file; `name` of the op, or NULL. Returns false. */
bool onnx_report(onnx_reader *r, const char *name, const msc_loc *loc, const char *fmt, ...) MSC_PRINTF(4, 5);
const msc_loc *onnx_node_loc(onnx_reader *r, const onnx_node_proto *p);
/* Returns the node's name, or else that of its first result. */
const char *onnx_name_of(onnx_reader *r, const onnx_node_proto *p);
/* Counts an op that msc does not read; one message at the end reports all of them. */
void onnx_count_unknown(onnx_reader *r, const onnx_node_proto *p);
void onnx_report_unknown(onnx_reader *r);

/* ---- operands.c ---- */

onnx_value *onnx_value_new(onnx_reader *r, onnx_value_kind kind);
/* Returns the value of a name; NULL: the name is not defined yet. */
onnx_value *onnx_find_value(const onnx_scope *s, const char *name);
/* Defines a name in the innermost scope; false after a report: the name is defined already. */
bool onnx_define(onnx_reader *r, const char *name, onnx_value *v);
/* Makes v available as a value of the function that is being built: in the model's function weights become parameters,
 * in one that folds constants everything becomes a constant. */
msc_value *onnx_take(onnx_reader *r, onnx_value *v);

/* ---- run_nodes.c ---- */

/* Returns the version of a domain's operators that the file uses; 0: the file names none. */
int onnx_opset_of(const onnx_reader *r, const char *domain);
onnx_scope *onnx_enter(onnx_reader *r, const onnx_scope *outer);
bool onnx_run_nodes(onnx_reader *r, size_t num, const onnx_node_proto *node);

/* ---- inputs_outputs.c ---- */

bool onnx_read_inits(onnx_reader *r, const onnx_graph *g);
/* Reads the graph's inputs. One that also has an initializer is skipped: the initializer is its default value, which
 * is used. */
bool onnx_read_inputs(onnx_reader *r);
bool onnx_read_outputs(onnx_reader *r);
/* Lists the names of the sizes that inputs leave open and the user did not give; returns how many. */
size_t onnx_list_open_sizes(onnx_reader *r, const char *const **out_name);

#endif
