/* cmd_export.c: weights of any kind that msc reads, and the ONNX file that the model came from, in; that file with
 * these weights out.  Nothing else in it changes: all other bytes are copied as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/onnx.h"
#include "runtime/data/archive.h"
#include "tools/convert/ckpt.h"

/* Fields of the messages ModelProto, GraphProto and TensorProto. */
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5 };
enum { DIMS = 1, DATA_TYPE = 2, FLOATS = 4, INTS, TEXTS, LONGS, NAME, RAW, DOUBLES, EXTERNAL = 13, LOCATION };
enum { MAX_BYTES = INT32_MAX }; /* of a message of protocol buffers */

typedef struct {
  cli *c;
  const char *path;
  mscrt_archive *weights;
  bool *used;       /* by tensor of the archive */
  bool is_external; /* a tensor that stays has its elements in another file */
} writing;

/* ---- protocol buffers, written ---- */

static void put_varint(FILE *to, uint64_t v) {
  for (; v > 127; v >>= 7) putc((int)(v & 127) | 128, to);
  putc((int)v, to);
}

static void put_field_bytes(FILE *to, uint32_t number, const void *data, size_t bytes) {
  put_varint(to, (uint64_t)number << 3 | PROTO_BYTES);
  put_varint(to, bytes);
  fwrite(data, 1, bytes, to);
}

static void copy_span(FILE *to, const uint8_t *from, const uint8_t *end) { fwrite(from, 1, (size_t)(end - from), to); }

/* ---- a tensor ---- */

typedef struct {
  const char *name;
  msc_dtype dtype;
  bool is_known, is_external;
  int rank;
  int64_t dim[MSC_MAX_RANK];
} tensor_head;

static bool read_tensor_head(writing *w, proto_bytes from, tensor_head *out) {
  proto_field f;
  bool ok = true;
  uint64_t v;
  *out = (tensor_head){.name = ""};
  while (proto_next(&from, &f, &ok)) {
    if (f.number == NAME && f.wire == PROTO_BYTES)
      out->name = msc_intern_n(w->c->ctx, (const char *)f.bytes.at, proto_size(f.bytes));
    if (f.number == DATA_TYPE) out->is_known = onnx_dtype((int)f.scalar, &out->dtype);
    if (f.number == LOCATION) out->is_external = f.scalar == 1;
    if (f.number != DIMS) continue;
    while (proto_number(&f, PROTO_VARINT, &v, &ok)) {
      if (out->rank == MSC_MAX_RANK) return false;
      out->dim[out->rank++] = (int64_t)v;
    }
  }
  return ok;
}

static bool is_element_field(uint32_t number) {
  return (number >= FLOATS && number <= LONGS && number != NAME) || number == RAW || number == DOUBLES ||
         number == EXTERNAL || number == LOCATION || number == DOUBLES + 1;
}

static int wrong_tensor(writing *w, const tensor_head *h, const char *why) {
  msc_error(w->c->ctx, MSC_E_TYPE, cli_loc(w->c, w->path), "tensor '%s' %s", h->name, why);
  return CLI_INPUT;
}

/* Writes a tensor of the file with the trained elements of t instead of its own. */
static int put_trained_tensor(writing *w, FILE *to, proto_bytes from, const tensor_head *h, const mscrt_stored *t) {
  msc_arena *arena = msc_arena_new(w->c->ctx);
  const msc_type *type = h->is_known ? msc_type_of(w->c->ctx, h->dtype, h->rank, h->dim, NULL) : NULL;
  if (!type || !t->known || strcmp(msc_dtype_name(h->dtype), mscrt_dtype_name(t->dtype)) || t->rank != h->rank ||
      memcmp(t->shape, h->dim, sizeof *h->dim * (size_t)h->rank)) {
    msc_arena_free(arena);
    return wrong_tensor(w, h, "is of another type or shape than the weights");
  }
  size_t bytes = (size_t)msc_type_bytes(type);
  void *data = msc_arena_alloc(arena, bytes + 1);
  mscrt_status *s = mscrt_archive_elements(w->weights, t, 0, mscrt_stored_elems(t), data);
  char *text = NULL;
  size_t size = 0;
  FILE *inner = s ? NULL : open_memstream(&text, &size);
  bool ok = inner != NULL;
  for (const uint8_t *at = from.at; ok; at = from.at) {
    proto_field f;
    if (!proto_next(&from, &f, &ok)) break;
    if (!is_element_field(f.number)) copy_span(inner, at, from.at);
  }
  if (inner) put_field_bytes(inner, RAW, data, bytes);
  if (inner && !fclose(inner)) put_field_bytes(to, GRAPH_INITIALIZER, text, size);
  free(text);
  msc_arena_free(arena);
  return status_report(w->c, NULL, "export", s);
}

/* ---- the graph and the model ---- */

static int put_initializer(writing *w, FILE *to, proto_bytes from, const uint8_t *at, const uint8_t *end) {
  tensor_head h;
  if (!read_tensor_head(w, from, &h)) return wrong_tensor(w, &h, "is damaged");
  const mscrt_stored *t = mscrt_archive_find(w->weights, h.name);
  if (t) {
    w->used[t - w->weights->tensor] = true;
    return put_trained_tensor(w, to, from, &h, t);
  }
  w->is_external = w->is_external || h.is_external;
  copy_span(to, at, end);
  return CLI_OK;
}

static int report_damage(writing *w) {
  msc_error(w->c->ctx, MSC_E_FORMAT, cli_loc(w->c, w->path), "is no ONNX file, or it is damaged");
  return CLI_INPUT;
}

/* Copies a message of the ONNX file and changes what is trained: `number` is MODEL_GRAPH for the model, in which the
 * graph is changed, and GRAPH_INITIALIZER for the graph, in which tensors are replaced. */
static int put_message(writing *w, FILE *to, proto_bytes from, uint32_t number) {
  proto_field f;
  bool ok = true;
  int code = CLI_OK;
  for (const uint8_t *at = from.at; !code && proto_next(&from, &f, &ok); at = from.at) {
    if (f.number != number || f.wire != PROTO_BYTES) {
      copy_span(to, at, from.at);
    } else if (number == GRAPH_INITIALIZER) {
      code = put_initializer(w, to, f.bytes, at, from.at);
    } else {
      char *text = NULL;
      size_t size = 0;
      FILE *inner = open_memstream(&text, &size);
      code = inner ? put_message(w, inner, f.bytes, GRAPH_INITIALIZER) : CLI_ENVIRONMENT;
      if (inner && !fclose(inner) && !code) put_field_bytes(to, number, text, size);
      free(text);
    }
  }
  return code || ok ? code : report_damage(w);
}

/* True for a tensor of an optimizer's state, or one that msc made of constants. */
static bool is_of_msc(const writing *w, const mscrt_stored *t) {
  const char *name = t->name;
  size_t n = strlen(name);
  if (t->state || !strcmp(name, "constant") || !strncmp(name, "constant.", 9) || !strncmp(name, "msc.", 4)) return true;
  if (!strncmp(name, "optimizer.", 10)) return true;
  if (n < 3 || (strcmp(name + n - 2, ".m") && strcmp(name + n - 2, ".v"))) return false;
  const mscrt_stored *owner = mscrt_archive_find(w->weights, msc_intern_n(w->c->ctx, name, n - 2));
  return owner && w->used[owner - w->weights->tensor];
}

/* Checks that every trained tensor was found in the file. */
static int check_used(writing *w) {
  const char *list = "";
  int num = 0;
  for (uint32_t i = 0; i < w->weights->num; i++) {
    const mscrt_stored *t = &w->weights->tensor[i];
    if (w->used[i] || is_of_msc(w, t)) continue;
    if (num++ < 10)
      list = msc_arena_printf(msc_context_arena(w->c->ctx), "%s%s'%s'", list, num > 1 ? ", " : "", t->name);
  }
  if (!num) return CLI_OK;
  msc_error(w->c->ctx, MSC_E_TYPE, cli_loc(w->c, w->path), "has no tensor %s%s, which the weights have", list,
            num > 10 ? ", ..." : "");
  return CLI_INPUT;
}

/* Tensors that stay in files beside the model are found from its folder only. */
static int check_folder(writing *w, const char *to) {
  const char *a = strrchr(w->path, '/'), *b = strrchr(to, '/');
  size_t n = a ? (size_t)(a - w->path) : 0, m = b ? (size_t)(b - to) : 0;
  if (!w->is_external || (!a == !b && n == m && !strncmp(w->path, to, n))) return CLI_OK;
  msc_error(w->c->ctx, MSC_E_FORMAT, cli_loc(w->c, w->path),
            "has tensors in other files, which are found from its folder only: -o must be there, too");
  return CLI_INPUT;
}

static int write_model(writing *w, const cli_bytes *model, const char *to) {
  const uint8_t *at = (const uint8_t *)model->data;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  int code = out ? put_message(w, out, (proto_bytes){at, at + model->size}, MODEL_GRAPH) : CLI_ENVIRONMENT;
  if (out && fclose(out)) code = CLI_ENVIRONMENT;
  if (!code) code = check_used(w);
  if (!code) code = check_folder(w, to);
  if (!code && size > MAX_BYTES) {
    msc_error(w->c->ctx, MSC_E_FORMAT, cli_loc(w->c, w->path), "would have %zu bytes; an ONNX file has 2 GiB at most",
              size);
    code = CLI_INPUT;
  }
  if (!code) code = cli_write_file(w->c, to, text, size);
  free(text);
  return code;
}

static int run_export(cli *c) {
  const char *path = cli_text(c, "onnx"), *to = cli_text(c, "o");
  cli_bytes model;
  mscrt_archive weights;
  if (!path) return cli_usage(c, "needs --onnx MODEL.onnx, the file that the model came from");
  if (!to) return cli_usage(c, "needs -o OUT.onnx");
  if (!cli_read(c, path, &model)) return CLI_INPUT;
  cli_note_input(c, c->operands[0]);
  if (!cli_claim_output(c, to)) return CLI_INPUT;
  mscrt_status *s = mscrt_archive_open(c->operands[0], &weights);
  int code = status_report(c, NULL, "export", s);
  if (!code) {
    writing w = {c, path, &weights, msc_new_array(msc_context_arena(c->ctx), bool, weights.num + 1), false};
    code = write_model(&w, &model, to);
  }
  mscrt_archive_close(&weights);
  return code;
}

static const cli_option options[] = {
    {"onnx", CLI_TEXT, "MODEL.onnx", "the ONNX file that msc import read"},
    {"o", CLI_TEXT, "OUT.onnx", "the file to write: MODEL.onnx with these weights"},
    {0},
};
const cli_command cmd_export = {"WEIGHTS", 1, 1, options, run_export};
