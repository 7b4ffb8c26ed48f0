/* fbs.h: the reader's state and functions that the files between model.fbs and IR share.  Public entries are in
 * model.h. */
#ifndef MSC_IR_FBS_H
#define MSC_IR_FBS_H

#include "ir/fbs/flatbuf_build.h"
#include "ir/ir.h"
#include "model_fbs.h"

enum {
  FBS_VERSION = 1,
  FBS_MAX_TABLES = 16 << 20,  /* 10^6 ops with a few attributes each */
  FBS_MAX_CONSTANT = 1 << 20, /* larger ones belong into a weight file */
  FBS_MAX_BLOCK_DEPTH = 64,
  FBS_MAX_BLOCK_PATH = 1024,
  FBS_MAX_SIZES = 64,
  FBS_MAX_SIZE_TEXT = 1024,
  FBS_MAX_ERRORS = 1000, /* after so many the reader stops */
};

/* A place in the file, for messages: a location, the name of the op or parameter, and words such as "op 3
 * (matmul)". */
typedef struct {
  const msc_loc *loc;
  const char *name;
  const char *what;
} fbs_place;

/* ---- read_fbs.c ---- */

typedef struct {
  const char *path; /* "blocks.3.attn"; NULL: the root */
  int depth;
  msc_attr *attrs; /* hints that ops inside inherit, sorted */
  size_t num_attrs;
} fbs_block;

typedef struct {
  msc_context *ctx;
  msc_arena *scratch;
  const msc_loc *file; /* the file as a whole */
  model_model model;
  msc_module *module;
  msc_func *func;
  int num_errors;
  size_t num_dims;
  const msc_dim_size *dim;
  bool *dim_used;
  size_t num_sizes;
  msc_dim_size *size;    /* those that the model names, with --dim's values */
  bool is_size_missing;  /* one has no value, neither by the model nor by --dim */
  bool resized;          /* a size the file states was changed by the user: declared types no longer bind */
  const msc_type **type; /* by type number; NULL: bad and reported */
  const msc_loc **loc;   /* by location number */
  const char **node;     /* likewise: the exporter's name for it */
  fbs_block *block;
  const char *named; /* the last block to which fbs_read_block_hints gave a name */
  int num_named;     /* the number of such blocks so far */
  uint32_t num_values;
  const msc_type **declared; /* by value number; NULL: bad and reported */
  msc_value **value;         /* once defined */
} fbs_reader;

/* Reports at p; false.  Counts towards FBS_MAX_ERRORS. */
bool fbs_error(fbs_reader *r, msc_code code, fbs_place p, const char *fmt, ...) MSC_PRINTF(4, 5);
/* A place without a location of its own, which messages call `fmt`. */
fbs_place fbs_at_file(fbs_reader *r, const char *fmt, ...) MSC_PRINTF(2, 3);
/* An interned copy; reports and NULL for text with a NUL inside. */
const char *fbs_text(fbs_reader *r, fbs_place p, const char *text, uint32_t bytes);

/* ---- fbs/types.c: types, locations, blocks ---- */

bool fbs_read_types(fbs_reader *r);
bool fbs_read_locs(fbs_reader *r);
bool fbs_read_blocks(fbs_reader *r);
/* Location of a field `loc`; reports when it is out of range. */
const msc_loc *fbs_loc_of(fbs_reader *r, uint32_t number, const char *what);
const fbs_block *fbs_block_of(fbs_reader *r, uint32_t number, fbs_place p);
/* The type of input `in` with sizes from --dim in place of -1. */
const msc_type *fbs_input_type(fbs_reader *r, model_input in, fbs_place p, const msc_type *declared);
bool fbs_check_dims_used(fbs_reader *r);
const char *fbs_type_text(fbs_reader *r, const msc_type *t); /* "[2,?]f32" */

/* ---- fbs/sizes.c: sizes that the model leaves to its user ---- */

bool fbs_read_sizes(fbs_reader *r); /* false: a size has no value */
/* Computes a text such as "2*batch+1"; reports at p if the result is no whole number. */
bool fbs_evaluate_size(fbs_reader *r, fbs_place p, const char *text, int64_t *out);
/* Replaces a number by the value of the text in the field `sizes` or `size` beside it, unless that is empty. */
bool fbs_apply_size(fbs_reader *r, fbs_place p, const char *text, uint32_t bytes, int64_t *number);

/* ---- fbs/attrs.c: attributes and hints, both ways ---- */

bool fbs_read_attr(fbs_reader *r, fbs_place p, model_attr a, msc_attr_value *out_value);
/* Reads hints into attributes, over those already in the array. Whether strategies fit is known once there is a mesh:
 * pass strategies checks that. */
bool fbs_read_hints(fbs_reader *r, fbs_place p, model_hints h, msc_attr **attrs, size_t *num_attrs);
/* Reads the hints of a block; `path` is its name. */
bool fbs_read_block_hints(fbs_reader *r, fbs_place p, model_hints h, const char *path, msc_attr **attrs,
                          size_t *num_attrs);
bool fbs_is_hint(const char *name);
bool fbs_is_in_row(const msc_op_info *info, const char *name); /* the op's row has such an attribute */
/* Writes an attribute. Returns false when a model.fbs cannot hold v; the builder may not be used afterwards.
 * `type_number`: the number of v's type, if v is a type; `text`: formulas of v's numbers, or NULL. */
bool fbs_put_attr(flatbuf_builder *b, msc_arena *a, const char *name, const msc_attr_value *v, uint32_t type_number,
                  const char *const *text);
bool fbs_put_hint(flatbuf_builder *b, msc_arena *a, const char *name, const msc_attr_value *v);

/* ---- fbs/args.c: inputs, parameters, constants, outputs, training ---- */

bool fbs_read_args(fbs_reader *r);
bool fbs_read_constants(fbs_reader *r);
bool fbs_read_outputs(fbs_reader *r);
bool fbs_read_optimizers(fbs_reader *r);
/* Makes `v` the definition of value `number`; reports a second one. */
bool fbs_define(fbs_reader *r, fbs_place p, uint32_t number, msc_value *v);
/* A defined value, or NULL after a report: "USEis value 7, ..."; `use` ends with a blank or is empty. */
msc_value *fbs_value(fbs_reader *r, fbs_place p, uint32_t number, const char *use);

#endif
