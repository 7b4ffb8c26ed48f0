/* model.h: modules as text and as files: model.fbs, ONNX. */
#ifndef MSC_IR_MODEL_H
#define MSC_IR_MODEL_H

#include "ir/ir.h"

/* ---- print.c, parse.c ---- */

typedef void msc_write_fn(void *user, const char *data, size_t bytes);
void msc_print_module(const msc_module *m, msc_write_fn *write, void *user);
char *msc_print_text(const msc_module *m, msc_arena *arena, size_t *out_bytes);
const char *msc_type_text(msc_arena *arena, const msc_mesh *mesh, const msc_type *t);
const char *msc_attr_text(msc_arena *arena, const msc_mesh *mesh, const msc_attr_value *v);
/* Parses IR text; `name` is the file name for locations. NULL after reporting every fault that it could find. */
msc_module *msc_parse(msc_context *ctx, const char *name, const char *text, size_t bytes);
/* Parses a part of a file that begins at the start of line `first_line`. */
msc_module *msc_parse_part(msc_context *ctx, const char *name, uint32_t first_line, const char *text, size_t bytes);

/* ---- read_fbs.c, write_fbs.c ---- */

/* A size for the open dimension `name` of the inputs: "batch", or "x.1" for dimension 1 of input x. */
typedef struct {
  const char *name;
  int64_t size; /* >= 1 */
} msc_dim_size;

/* Reads a model.fbs, verified in structure and meaning. The bytes must be in private memory and are not needed
 * afterwards. `name` is the file's, for messages. `mesh` is that of a model which names none; NULL: it has none then.
 * NULL after reporting every fault. */
msc_module *msc_read_fbs(msc_context *ctx, const char *name, const void *data, size_t bytes, size_t num_dims,
                         const msc_dim_size *dim, const msc_mesh *mesh);
/* Writes a module with the function "forward", as its user wrote it, as the bytes of a model.fbs, in `arena`. NULL
 * after reporting what cannot be said in a model.fbs. */
const void *msc_write_fbs(const msc_module *m, msc_arena *arena, size_t *out_bytes);

/* ---- models of any kind ---- */

/* The elements that a parameter of a foreign model begins with; they live as long as the context. */
typedef struct {
  const char *name;
  const msc_type *type;
  const void *data;
} msc_weight;

typedef struct {
  const char *file; /* the file that the parameters name; set by the caller, relative to the model */
  size_t num;
  msc_weight *item;
} msc_weights;

/* An input whose value is known when the model is read: its elements row by row, "1,2,3". */
typedef struct {
  const char *name, *text;
} msc_fixed_input;

/* A model.fbs, an ONNX file, or IR text, told apart by name and content; `dim` is for the first two only, the fields
 * behind it for ONNX. */
typedef struct {
  const char *name; /* name of the file, for messages */
  const void *data;
  size_t bytes, num_dims;
  const msc_dim_size *dim;
  const msc_mesh *mesh; /* of a model.fbs that names none; NULL: it has none then */
  size_t num_fixed;
  const msc_fixed_input *fixed;
  msc_weights *weights; /* receives the weights; NULL: a model that has some is refused */
  /* Reads bytes of a file beside the model or below its folder; returns NULL, or what is wrong. The function is NULL if
   * there are no such files. */
  const char *(*read_beside)(void *user, const char *path, uint64_t offset, uint64_t bytes, const void **out_data);
  void *user;
} msc_model_bytes;

/* ---- onnx/read_onnx.c ---- */

/* Reads an ONNX file, for inference. Floating-point initializers become parameters, the others constants; `dim` gives
 * the sizes that the file leaves open. NULL after reporting all that cannot be read. */
msc_module *msc_read_onnx(msc_context *ctx, const msc_model_bytes *model);
/* Reads the text of a module of StableHLO, as JAX prints it. */
msc_module *msc_read_stablehlo(msc_context *ctx, const char *name, const char *text, size_t bytes);

/* ---- read_model.c ---- */

/* Reads and verifies a model; the bytes are not needed afterwards.  NULL after reporting. */
msc_module *msc_read_model(msc_context *ctx, const msc_model_bytes *model);

#endif
