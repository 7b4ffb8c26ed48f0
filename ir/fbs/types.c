/* types.c: types, locations and blocks of a model.fbs in; IR types, locations and inherited hints out. */
#include <string.h>

#include "ir/fbs/fbs.h"

enum { MAX_CALLERS = 64 };

/* ---- types ---- */

static const msc_type *read_type(fbs_reader *r, uint32_t i, model_type t) {
  uint32_t rank = model_type_dims_num(t);
  fbs_place p = fbs_at_file(r, "type %u", i);
  int64_t dim[MSC_MAX_RANK] = {0};
  if (model_type_dtype(t) >= MSC_NUM_DTYPES)
    return fbs_error(r, MSC_E_FORMAT, p, "unknown element type %u", model_type_dtype(t)), NULL;
  if (rank > MSC_MAX_RANK)
    return fbs_error(r, MSC_E_FORMAT, p, "has rank %u, at most %d is possible", rank, MSC_MAX_RANK), NULL;
  int64_t elems = 1;
  for (uint32_t d = 0; d < rank; d++) {
    dim[d] = model_type_dims(t, d);
    if (d < model_type_sizes_num(t) &&
        !fbs_apply_size(r, p, model_type_sizes(t, d), model_type_sizes_len(t, d), &dim[d]))
      return NULL;
    if (dim[d] < -1) return fbs_error(r, MSC_E_FORMAT, p, "dimension %u is %" PRId64, d, dim[d]), NULL;
    if (dim[d] > 0 && __builtin_mul_overflow(elems, dim[d], &elems)) elems = INT64_MAX;
  }
  if (elems > INT64_MAX / 8) return fbs_error(r, MSC_E_FORMAT, p, "has 2^63 bytes or more"), NULL;
  return msc_type_of(r->ctx, (msc_dtype)model_type_dtype(t), (int)rank, dim, NULL);
}

bool fbs_read_types(fbs_reader *r) {
  uint32_t num = model_model_types_num(r->model);
  r->type = msc_new_array(r->scratch, const msc_type *, num + 1);
  for (uint32_t i = 0; i < num && r->num_errors < FBS_MAX_ERRORS; i++)
    r->type[i] = read_type(r, i, model_model_types(r->model, i));
  return true;
}

const char *fbs_type_text(fbs_reader *r, const msc_type *t) {
  const char *text = "[";
  for (int d = 0; d < t->rank; d++) {
    if (t->dim[d] < 0) text = msc_arena_printf(r->scratch, "%s%s?", text, d ? "," : "");
    else text = msc_arena_printf(r->scratch, "%s%s%" PRId64, text, d ? "," : "", t->dim[d]);
  }
  return msc_arena_printf(r->scratch, "%s]%s", text, msc_dtype_name(t->dtype));
}

/* ---- sizes given by the user ---- */

/* Returns the size given for dimension d of an input, 0: none. "batch" is every input's batch dimension, "x.1" one
 * dimension. */
static int64_t dim_size(fbs_reader *r, const char *input, int d, bool is_batch) {
  const char *own = msc_arena_printf(r->scratch, "%s.%d", input, d);
  int64_t size = 0;
  for (size_t i = 0; i < r->num_dims; i++) {
    bool is_own = !strcmp(r->dim[i].name, own);
    if (!is_own && !(is_batch && !strcmp(r->dim[i].name, "batch"))) continue;
    r->dim_used[i] = true;
    if (is_own || !size) size = r->dim[i].size;
  }
  return size;
}

const msc_type *fbs_input_type(fbs_reader *r, model_input in, fbs_place p, const msc_type *declared) {
  int64_t dim[MSC_MAX_RANK] = {0};
  bool ok = true;
  for (int d = 0; d < declared->rank; d++) {
    bool is_batch = model_input_batch_dim(in) == d;
    int64_t size = dim_size(r, model_input_name(in), d, is_batch);
    dim[d] = size ? size : declared->dim[d];
    if (size && declared->dim[d] >= 0 && size != declared->dim[d]) r->resized = true;
    if (is_batch && dim[d] == -1)
      ok = fbs_error(r, MSC_E_SHAPE, p, "dimension %d, the batch, has no size; give it with --dim batch=SIZE", d);
    else if (dim[d] == -1)
      ok = fbs_error(r, MSC_E_SHAPE, p, "dimension %d has no size; give it with --dim %s.%d=SIZE", d,
                     model_input_name(in), d);
    else if (dim[d] < 1)
      ok = fbs_error(r, MSC_E_SHAPE, p, "dimension %d has size %" PRId64 "; sizes are at least 1", d, dim[d]);
  }
  const msc_type *t = msc_type_of(r->ctx, declared->dtype, declared->rank, dim, NULL);
  if (ok && msc_type_bytes(t) < 0) ok = fbs_error(r, MSC_E_SHAPE, p, "has 2^63 bytes or more");
  return ok ? t : NULL;
}

/* Lists the names that --dim could have been given: "batch, x.1". */
static const char *dim_names(fbs_reader *r) {
  const char *text = "batch";
  for (size_t i = 0; i < r->num_sizes; i++)
    if (strcmp(r->size[i].name, "batch")) text = msc_arena_printf(r->scratch, "%s, %s", text, r->size[i].name);
  for (uint32_t i = 0; i < model_model_inputs_num(r->model); i++) {
    model_input in = model_model_inputs(r->model, i);
    const msc_type *t = model_input_value(in) < r->num_values ? r->declared[model_input_value(in)] : NULL;
    for (int d = 0; t && d < t->rank; d++)
      if (d != model_input_batch_dim(in))
        text = msc_arena_printf(r->scratch, "%s, %s.%d", text, model_input_name(in), d);
    if (strlen(text) > 200) return msc_arena_printf(r->scratch, "%s, ...", text);
  }
  return text;
}

bool fbs_check_dims_used(fbs_reader *r) {
  for (size_t i = 0; i < r->num_dims; i++)
    if (!r->dim_used[i])
      fbs_error(r, MSC_E_SHAPE, (fbs_place){r->file, NULL, ""},
                "--dim %s: no input has a dimension of this name; they are %s", r->dim[i].name, dim_names(r));
  return true;
}

/* ---- locations ---- */

bool fbs_read_locs(fbs_reader *r) {
  uint32_t num = model_model_locs_num(r->model);
  r->loc = msc_new_array(r->scratch, const msc_loc *, num + 1);
  r->node = msc_new_array(r->scratch, const char *, num + 1);
  uint8_t *depth = msc_new_array(r->scratch, uint8_t, num + 1);
  for (uint32_t i = 0; i < num && r->num_errors < FBS_MAX_ERRORS; i++) {
    model_loc l = model_model_locs(r->model, i);
    fbs_place p = fbs_at_file(r, "location %u", i);
    uint32_t caller = model_loc_caller(l);
    r->loc[i] = r->file;
    if (caller > i)
      fbs_error(r, MSC_E_FORMAT, p, "its caller is location %u, which does not stand before it", caller - 1);
    else if (caller && depth[caller - 1] >= MAX_CALLERS)
      fbs_error(r, MSC_E_FORMAT, p, "has more than %d callers", MAX_CALLERS);
    if (caller > i || (caller && depth[caller - 1] >= MAX_CALLERS)) continue;
    depth[i] = caller ? (uint8_t)(depth[caller - 1] + 1) : 0;
    msc_loc loc = {.line = model_loc_line(l), .col = model_loc_col(l)};
    loc.file = fbs_text(r, p, model_loc_file(l), model_loc_file_len(l));
    loc.scope = fbs_text(r, p, model_loc_scope(l), model_loc_scope_len(l));
    if (loc.file) loc.caller = caller ? r->loc[caller - 1] : NULL;
    else loc.file = r->file->file, loc.line = loc.col = 0, loc.implied = true;
    r->node[i] = fbs_text(r, p, model_loc_node(l), model_loc_node_len(l));
    r->loc[i] = msc_loc_of(r->ctx, &loc);
  }
  return true;
}

const msc_loc *fbs_loc_of(fbs_reader *r, uint32_t number, const char *what) {
  uint32_t num = model_model_locs_num(r->model);
  if (number == 0) return r->file;
  if (number <= num) return r->loc[number - 1];
  fbs_error(r, MSC_E_FORMAT, (fbs_place){r->file, NULL, what}, "has location %u, but the file has %u", number - 1, num);
  return r->file;
}

/* ---- blocks ---- */

static bool read_block(fbs_reader *r, uint32_t i, model_block b) {
  fbs_place p = fbs_at_file(r, "block %u", i);
  uint32_t parent = model_block_parent(b);
  fbs_block *own = &r->block[i];
  const char *name = fbs_text(r, p, model_block_name(b), model_block_name_len(b));
  if (!name) return false;
  if (i && parent >= i)
    return fbs_error(r, MSC_E_FORMAT, p, "its parent is block %u, which does not stand before it", parent);
  if (i) *own = r->block[parent];
  if (i && ++own->depth > FBS_MAX_BLOCK_DEPTH)
    return fbs_error(r, MSC_E_FORMAT, p, "blocks are nested deeper than %d", FBS_MAX_BLOCK_DEPTH);
  if (i && *name) {
    size_t bytes = (own->path ? strlen(own->path) : 0) + strlen(name);
    if (bytes > FBS_MAX_BLOCK_PATH)
      return fbs_error(r, MSC_E_FORMAT, p, "its path is longer than %d bytes", FBS_MAX_BLOCK_PATH);
    own->path = own->path ? msc_arena_printf(r->scratch, "%s.%s", own->path, name) : name;
  }
  model_hints h = model_block_hints(b);
  if (!h.at) return true;
  /* a copy, so that the parent's attributes do not change */
  own->attrs = msc_arena_copy(r->scratch, own->attrs, own->num_attrs * sizeof *own->attrs);
  p.what = msc_arena_printf(r->scratch, "block %s", own->path ? own->path : "0");
  return fbs_read_block_hints(r, p, h, own->path, &own->attrs, &own->num_attrs);
}

/* Reads the blocks.  There is always a root, even if the file has no blocks. */
bool fbs_read_blocks(fbs_reader *r) {
  uint32_t num = model_model_blocks_num(r->model);
  r->block = msc_new_array(r->scratch, fbs_block, num + 1);
  for (uint32_t i = 0; i < num && r->num_errors < FBS_MAX_ERRORS; i++)
    read_block(r, i, model_model_blocks(r->model, i));
  return true;
}

const fbs_block *fbs_block_of(fbs_reader *r, uint32_t number, fbs_place p) {
  uint32_t num = model_model_blocks_num(r->model);
  if (number < num || number == 0) return &r->block[number];
  fbs_error(r, MSC_E_FORMAT, p, "is in block %u, but the file has %u", number, num);
  return NULL;
}
