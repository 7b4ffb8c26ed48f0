/* model.h: the structs of a decoded ONNX file (see model.c).  Texts are interned. */
#ifndef MSC_IR_ONNX_MODEL_H
#define MSC_IR_ONNX_MODEL_H

#include "ir/ir.h"
#include "ir/onnx/proto.h"

enum {
  ONNX_MAX_DEPTH = 32,      /* of graphs in attributes of nodes, and of functions that call functions */
  ONNX_MAX_NODES = 1 << 20, /* with all calls of functions and rounds of loops */
  ONNX_LAST_OPSET = 26,
};

/* AttributeProto.AttributeType */
typedef enum {
  ONNX_NO_TYPE,
  ONNX_FLOAT,
  ONNX_INT,
  ONNX_STRING,
  ONNX_TENSOR,
  ONNX_GRAPH,
  ONNX_FLOATS,
  ONNX_INTS,
  ONNX_STRINGS,
  ONNX_TENSORS,
  ONNX_GRAPHS,
} onnx_attr_type;

typedef struct onnx_graph onnx_graph;

typedef struct {
  const char *name;
  const char *ref; /* in a function: the attribute of its caller that this one is; NULL: a value */
  onnx_attr_type type;
  int64_t i;
  float f;
  const char *s; /* NULL: absent, or bytes that are no text */
  proto_bytes tensor;
  onnx_graph *graph;
  size_t num; /* of ints, floats or strings */
  int64_t *ints;
  float *floats;
  const char **strings;
} onnx_attr;

typedef struct {
  const char *op_type, *domain, *overload, *name;
  size_t num_in, num_out, num_attrs;
  const char **in, **out; /* "": absent */
  onnx_attr *attr;
  const msc_loc *loc; /* of what its metadata says about the user's source; NULL: nothing */
} onnx_node_proto;

/* A size is a number, a name, or (-1, NULL) unknown. */
typedef struct {
  int64_t size;
  const char *name;
} onnx_dim;

typedef struct {
  const char *name;
  bool is_tensor, has_shape;
  int elem_type;
  int rank;
  onnx_dim dim[MSC_MAX_RANK];
  bool is_too_deep; /* more dimensions than MSC_MAX_RANK */
} onnx_value_info;

typedef struct {
  const char *name;
  proto_bytes bytes; /* of the TensorProto */
} onnx_initializer;

struct onnx_graph {
  const char *name;
  size_t num_nodes, num_inits, num_in, num_out, num_sparse;
  onnx_node_proto *node;
  onnx_initializer *init;
  onnx_value_info *in, *out;
};

typedef struct {
  const char *domain;
  int64_t version;
} onnx_opset;

typedef struct {
  const char *name, *domain, *overload;
  size_t num_in, num_out, num_attrs, num_defaults, num_nodes, num_opsets;
  const char **in, **out, **attr;
  onnx_attr *def; /* attributes with a default */
  onnx_node_proto *node;
  onnx_opset *opset;
} onnx_function;

typedef struct {
  onnx_graph *graph;
  size_t num_opsets, num_functions;
  onnx_opset *opset;
  onnx_function *function;
} onnx_model;

/* Decodes everything except the elements of tensors.  NULL after a report at `file`. */
onnx_model *onnx_decode(msc_context *ctx, msc_arena *arena, const msc_loc *file, proto_bytes bytes);

/* ---- tensor.c ---- */

/* A tensor's elements, in `arena` or in the file's bytes. */
typedef struct {
  const char *name;
  const msc_type *type;
  const void *data;
  size_t bytes;
} onnx_tensor;

/* Reads a tensor; external data are read beside `file`.  NULL, or the reason why it cannot be read, for a message. */
const char *onnx_read_tensor(msc_context *ctx, msc_arena *arena, const msc_model_bytes *file, proto_bytes bytes,
                             onnx_tensor *out_tensor);
/* TensorProto.DataType as an element type; false: msc has none for it. */
bool onnx_dtype(int data_type, msc_dtype *out_dtype);
const char *onnx_dtype_name(int data_type);

#endif
