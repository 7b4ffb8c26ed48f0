/* model.c: the bytes of an ONNX file in; its graph, nodes, attributes and functions as structs out.  Fields that msc
 * does not use are skipped.  Repeated fields are counted before they are read, so that memory is bounded by the size of
 * the file. */
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/model.h"

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  bool ok;
  int depth;
} decoder;

/* The number of fields `number`; broken bytes are reported later, when the fields are read. */
static size_t count(proto_bytes b, uint32_t number) {
  proto_field f;
  bool ok = true;
  size_t n = 0;
  while (proto_next(&b, &f, &ok)) n += f.number == number;
  return n;
}

static const char *text_of_field(decoder *d, const proto_field *f) {
  size_t n = proto_size(f->bytes);
  if (f->wire != PROTO_BYTES || memchr(f->bytes.at ? (const void *)f->bytes.at : "", 0, n)) {
    d->ok = false;
    return "";
  }
  return msc_intern_n(d->ctx, n ? (const char *)f->bytes.at : "", n);
}

static proto_bytes message_of(decoder *d, const proto_field *f) {
  if (f->wire == PROTO_BYTES) return f->bytes;
  d->ok = false;
  return (proto_bytes){NULL, NULL};
}

static void add_text(decoder *d, const proto_field *f, const char **list, size_t *num) {
  list[(*num)++] = text_of_field(d, f);
}

#define EACH_FIELD(d, b, f)        for (proto_field f; proto_next(&(b), &f, &(d)->ok);)
#define ARRAY(d, T, bytes, number) msc_new_array((d)->arena, T, count(bytes, number) + 1)

/* ---- types ---- */

static onnx_dim decode_dim(decoder *d, proto_bytes b) {
  onnx_dim dim = {-1, NULL};
  EACH_FIELD(d, b, f) {
    if (f.number == 1 && f.wire == PROTO_VARINT) dim = (onnx_dim){(int64_t)f.scalar, NULL};
    else if (f.number == 2) dim = (onnx_dim){-1, text_of_field(d, &f)};
  }
  if (dim.name && !*dim.name) dim.name = NULL;
  return dim;
}

static void decode_shape(decoder *d, proto_bytes b, onnx_value_info *v) {
  v->has_shape = true;
  EACH_FIELD(d, b, f) {
    if (f.number != 1) continue;
    if (v->rank == MSC_MAX_RANK) v->is_too_deep = true;
    else v->dim[v->rank++] = decode_dim(d, message_of(d, &f));
  }
}

static void decode_tensor_type(decoder *d, proto_bytes b, onnx_value_info *v) {
  v->is_tensor = true;
  EACH_FIELD(d, b, f) {
    if (f.number == 1) v->elem_type = f.scalar > 1000 ? 0 : (int)f.scalar;
    else if (f.number == 2) decode_shape(d, message_of(d, &f), v);
  }
}

static onnx_value_info decode_value_info(decoder *d, proto_bytes b) {
  onnx_value_info v = {.name = ""};
  EACH_FIELD(d, b, f) {
    if (f.number == 1) v.name = text_of_field(d, &f);
    if (f.number != 2) continue;
    proto_bytes type = message_of(d, &f);
    EACH_FIELD(d, type, t) if (t.number == 1) decode_tensor_type(d, message_of(d, &t), &v);
  }
  return v;
}

static onnx_opset decode_opset(decoder *d, proto_bytes b) {
  onnx_opset o = {"", 0};
  EACH_FIELD(d, b, f) {
    if (f.number == 1) o.domain = text_of_field(d, &f);
    else if (f.number == 2) o.version = (int64_t)f.scalar;
  }
  if (!strcmp(o.domain, "ai.onnx")) o.domain = msc_intern(d->ctx, "");
  return o;
}

/* ---- attributes ---- */

static float float_of(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float v;
  memcpy(&v, &low, sizeof v);
  return v;
}

/* Numbers in field `number` of b, packed or not. */
static size_t count_numbers(proto_bytes b, uint32_t number, proto_wire wire) {
  proto_field f;
  bool ok = true;
  size_t n = 0;
  uint64_t v;
  while (proto_next(&b, &f, &ok))
    if (f.number == number)
      while (proto_number(&f, wire, &v, &ok)) n++;
  return n;
}

static onnx_graph *decode_graph(decoder *d, proto_bytes b);

static void decode_attr_value(decoder *d, proto_field *f, onnx_attr *a) {
  uint64_t v;
  switch (f->number) {
    case 2: a->f = float_of(f->scalar); break;
    case 3: a->i = (int64_t)f->scalar; break;
    case 4:
      a->s = memchr(f->bytes.at ? (const void *)f->bytes.at : "", 0, proto_size(f->bytes)) ? NULL : text_of_field(d, f);
      break;
    case 5: a->tensor = message_of(d, f); break;
    case 6: a->graph = decode_graph(d, message_of(d, f)); break;
    case 7:
      while (proto_number(f, PROTO_FIXED32, &v, &d->ok)) a->floats[a->num++] = float_of(v);
      break;
    case 8:
      while (proto_number(f, PROTO_VARINT, &v, &d->ok)) a->ints[a->num++] = (int64_t)v;
      break;
    case 9:
      a->strings[a->num++] =
          memchr(f->bytes.at ? (const void *)f->bytes.at : "", 0, proto_size(f->bytes)) ? "" : text_of_field(d, f);
      break;
    default: break;
  }
}

/* The type of an attribute by its fields, for files of ONNX's first version, which have no type. */
static onnx_attr_type guess_type(proto_bytes b) {
  static const struct {
    uint32_t number;
    onnx_attr_type type;
  } kinds[] = {{2, ONNX_FLOAT}, {3, ONNX_INT},    {4, ONNX_STRING}, {5, ONNX_TENSOR},
               {6, ONNX_GRAPH}, {7, ONNX_FLOATS}, {8, ONNX_INTS},   {9, ONNX_STRINGS}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (count(b, kinds[i].number)) return kinds[i].type;
  return ONNX_NO_TYPE;
}

static onnx_attr decode_attr(decoder *d, proto_bytes b) {
  onnx_attr a = {.name = ""};
  proto_bytes whole = b;
  a.ints = msc_new_array(d->arena, int64_t, count_numbers(b, 8, PROTO_VARINT) + 1);
  a.floats = msc_new_array(d->arena, float, count_numbers(b, 7, PROTO_FIXED32) + 1);
  a.strings = ARRAY(d, const char *, b, 9);
  uint32_t list = 0;
  EACH_FIELD(d, b, f) {
    if (f.number >= 7 && f.number <= 9) {
      if (list && list != f.number) d->ok = false; /* an attribute may have one kind of list only */
      list = f.number;
    }
    if (!d->ok) break;
    if (f.number == 1) a.name = text_of_field(d, &f);
    else if (f.number == 20) a.type = f.scalar > 100 ? ONNX_NO_TYPE : (onnx_attr_type)f.scalar;
    else if (f.number == 21) a.ref = text_of_field(d, &f);
    else decode_attr_value(d, &f, &a);
  }
  if (a.ref && !*a.ref) a.ref = NULL;
  if (a.type == ONNX_NO_TYPE) a.type = guess_type(whole);
  /* `num` is the length of the list that the file has, so the type must name that list */
  if (list && a.type >= ONNX_FLOATS && a.type <= ONNX_STRINGS && (uint32_t)a.type + 1 != list) d->ok = false;
  return a;
}

/* ---- nodes, graphs, functions ---- */

/* Finds the last place, `  File "a.py", line 3, in f`, in a trace by PyTorch's exporter: it is in the user's own
 * code. */
static const msc_loc *place_in_trace(decoder *d, const char *trace) {
  static const char head[] = "File \"", middle[] = "\", line ";
  const msc_loc *found = NULL;
  for (const char *p = trace; (p = strstr(p, head));) {
    p += sizeof head - 1;
    const char *end = strstr(p, middle);
    if (!end || memchr(p, '\n', (size_t)(end - p))) continue;
    unsigned long line = strtoul(end + sizeof middle - 1, NULL, 10);
    if (line && line < UINT32_MAX)
      found =
          msc_loc_of(d->ctx, &(msc_loc){.file = msc_intern_n(d->ctx, p, (size_t)(end - p)), .line = (uint32_t)line});
  }
  return found;
}

static void decode_metadata(decoder *d, proto_bytes b, onnx_node_proto *n) {
  const char *key = "", *value = "";
  EACH_FIELD(d, b, f) {
    if (f.number == 1) key = text_of_field(d, &f);
    else if (f.number == 2) value = text_of_field(d, &f);
  }
  if (!strcmp(key, "pkg.torch.onnx.stack_trace")) n->loc = place_in_trace(d, value);
}

static onnx_node_proto decode_node(decoder *d, proto_bytes b) {
  onnx_node_proto n = {.op_type = "", .domain = "", .overload = "", .name = ""};
  n.in = ARRAY(d, const char *, b, 1);
  n.out = ARRAY(d, const char *, b, 2);
  n.attr = ARRAY(d, onnx_attr, b, 5);
  EACH_FIELD(d, b, f) {
    switch (f.number) {
      case 1: add_text(d, &f, n.in, &n.num_in); break;
      case 2: add_text(d, &f, n.out, &n.num_out); break;
      case 3: n.name = text_of_field(d, &f); break;
      case 4: n.op_type = text_of_field(d, &f); break;
      case 5: n.attr[n.num_attrs++] = decode_attr(d, message_of(d, &f)); break;
      case 7: n.domain = text_of_field(d, &f); break;
      case 8: n.overload = text_of_field(d, &f); break;
      case 9: decode_metadata(d, message_of(d, &f), &n); break;
      default: break;
    }
  }
  if (!strcmp(n.domain, "ai.onnx")) n.domain = msc_intern(d->ctx, "");
  return n;
}

static onnx_initializer decode_initializer(decoder *d, proto_bytes b) {
  onnx_initializer t = {"", b};
  EACH_FIELD(d, b, f) if (f.number == 8) t.name = text_of_field(d, &f);
  return t;
}

static onnx_graph *decode_graph(decoder *d, proto_bytes b) {
  onnx_graph *g = msc_new(d->arena, onnx_graph);
  g->name = "";
  if (++d->depth > ONNX_MAX_DEPTH) d->ok = false;
  g->node = ARRAY(d, onnx_node_proto, b, 1);
  g->init = ARRAY(d, onnx_initializer, b, 5);
  g->in = ARRAY(d, onnx_value_info, b, 11);
  g->out = ARRAY(d, onnx_value_info, b, 12);
  EACH_FIELD(d, b, f) {
    switch (f.number) {
      case 1: g->node[g->num_nodes++] = decode_node(d, message_of(d, &f)); break;
      case 2: g->name = text_of_field(d, &f); break;
      case 5: g->init[g->num_inits++] = decode_initializer(d, message_of(d, &f)); break;
      case 11: g->in[g->num_in++] = decode_value_info(d, message_of(d, &f)); break;
      case 12: g->out[g->num_out++] = decode_value_info(d, message_of(d, &f)); break;
      case 15: g->num_sparse++; break;
      default: break;
    }
  }
  d->depth--;
  return g;
}

static onnx_function decode_function(decoder *d, proto_bytes b) {
  onnx_function n = {.name = "", .domain = "", .overload = ""};
  n.in = ARRAY(d, const char *, b, 4);
  n.out = ARRAY(d, const char *, b, 5);
  n.attr = ARRAY(d, const char *, b, 6);
  n.node = ARRAY(d, onnx_node_proto, b, 7);
  n.opset = ARRAY(d, onnx_opset, b, 9);
  n.def = ARRAY(d, onnx_attr, b, 11);
  EACH_FIELD(d, b, f) {
    switch (f.number) {
      case 1: n.name = text_of_field(d, &f); break;
      case 4: add_text(d, &f, n.in, &n.num_in); break;
      case 5: add_text(d, &f, n.out, &n.num_out); break;
      case 6: add_text(d, &f, n.attr, &n.num_attrs); break;
      case 7: n.node[n.num_nodes++] = decode_node(d, message_of(d, &f)); break;
      case 9: n.opset[n.num_opsets++] = decode_opset(d, message_of(d, &f)); break;
      case 10: n.domain = text_of_field(d, &f); break;
      case 11: n.def[n.num_defaults++] = decode_attr(d, message_of(d, &f)); break;
      case 13: n.overload = text_of_field(d, &f); break;
      default: break;
    }
  }
  if (!strcmp(n.domain, "ai.onnx")) n.domain = msc_intern(d->ctx, "");
  return n;
}

onnx_model *onnx_decode(msc_context *ctx, msc_arena *arena, const msc_loc *file, proto_bytes b) {
  decoder d = {.ctx = ctx, .arena = arena, .ok = true};
  onnx_model *m = msc_new(arena, onnx_model);
  m->opset = ARRAY(&d, onnx_opset, b, 8);
  m->function = ARRAY(&d, onnx_function, b, 25);
  EACH_FIELD(&d, b, f) {
    if (f.number == 7 && m->graph) d.ok = false;
    else if (f.number == 7) m->graph = decode_graph(&d, message_of(&d, &f));
    else if (f.number == 8) m->opset[m->num_opsets++] = decode_opset(&d, message_of(&d, &f));
    else if (f.number == 25) m->function[m->num_functions++] = decode_function(&d, message_of(&d, &f));
  }
  if (d.ok && m->graph) return m;
  msc_error(ctx, MSC_E_FORMAT, file,
            d.ok ? "not an ONNX file: it has no graph" : "damaged: not an ONNX file, or cut off");
  return NULL;
}
