/* print_attr.c: attribute values and types in; their IR text out. */
#include <string.h>

#include "ir/table.h"
#include "ir/text/text.h"

/* ---- bytes ---- */

void msc_text_write(void *user, const char *data, size_t bytes) {
  msc_text *t = user;
  msc_reserve(t->arena, t->text, t->room, t->num + bytes + 1);
  if (bytes) memcpy(t->text + t->num, data, bytes);
  t->num += bytes;
}

void msc_flush(msc_printer *w) {
  w->write(w->user, w->buffer, w->num);
  w->num = 0;
}

void msc_put(msc_printer *w, const char *text, size_t num) {
  if (num > sizeof w->buffer - w->num) msc_flush(w);
  if (num > sizeof w->buffer) {
    w->write(w->user, text, num);
  } else {
    memcpy(w->buffer + w->num, text, num);
    w->num += num;
  }
}

void msc_puts(msc_printer *w, const char *text) { msc_put(w, text, strlen(text)); }

/* Writes formatted text of at most 100 characters. */
MSC_PRINTF(2, 3) static void putf(msc_printer *w, const char *fmt, ...) {
  char text[101];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  msc_put(w, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void msc_put_number(msc_printer *w, int64_t v) {
  char text[MSC_NUMBER_TEXT];
  msc_int_text(MSC_I64, v, text);
  msc_puts(w, text);
}

/* Bytes of the UTF-8 character at s, 0 when it is none: names stay readable in every script. */
static size_t utf8_bytes(const unsigned char *s) {
  size_t n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if (s[i] < 0x80 || s[i] > 0xbf) return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
      (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return n;
}

static bool is_plain(unsigned char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; }

void msc_put_string(msc_printer *w, const char *text) {
  msc_put(w, "\"", 1);
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    size_t n = 0;
    while (is_plain(s[n])) n++;
    if (!n) n = utf8_bytes(s);
    if (n) msc_put(w, (const char *)s, n);
    else if (*s == '"' || *s == '\\') putf(w, "\\%c", *s);
    else if (*s == '\n' || *s == '\t') msc_puts(w, *s == '\n' ? "\\n" : "\\t");
    else putf(w, "\\%02X", *s);
    s += n ? n : 1;
  }
  msc_put(w, "\"", 1);
}

/* ---- types ---- */

const char *msc_type_text(msc_arena *arena, const msc_mesh *mesh, const msc_type *t) {
  char dims[MSC_MAX_RANK * 24], *d = dims;
  for (int i = 0; i < t->rank; i++) d += t->dim[i] < 0 ? sprintf(d, "?x") : sprintf(d, "%" PRId64 "x", t->dim[i]);
  *d = 0;
  if (!t->layout) return msc_arena_printf(arena, "tensor<%s%s>", dims, msc_dtype_name(t->dtype));
  return msc_arena_printf(arena, "tensor<%s%s, #msc.layout<\"%s\">>", dims, msc_dtype_name(t->dtype),
                          msc_layout_print(arena, mesh, t->layout));
}

void msc_put_type(msc_printer *w, const msc_type *t) {
  msc_type_spelling *s = t ? msc_table_at(&w->types, &t) : NULL;
  if (s && !s->text) s->text = msc_type_text(w->scratch, w->mesh, t);
  msc_puts(w, s ? s->text : "?"); /* of IR that is not finished */
}

/* ---- dense constants ---- */

static void put_element(msc_printer *w, msc_dtype dtype, const unsigned char *element) {
  char text[MSC_NUMBER_TEXT];
  msc_element_text(dtype, element, text);
  msc_puts(w, text);
}

/* Nested lists, row major: a bracket opens or closes where an index of that dimension begins or ends. */
static void put_elements(msc_printer *w, const msc_type *t, const unsigned char *data, int64_t num) {
  int64_t bytes = msc_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < num; i++) {
    int64_t block = num;
    if (i) msc_puts(w, ", ");
    for (int d = 0; d < t->rank; block /= t->dim[d++])
      if (i % block == 0) msc_puts(w, "[");
    put_element(w, t->dtype, data + i * bytes);
    block = num;
    for (int d = 0; d < t->rank; block /= t->dim[d++])
      if ((i + 1) % block == 0) msc_puts(w, "]");
  }
}

static void put_dense(msc_printer *w, const msc_attr_value *v) {
  const msc_type *t = v->dense.type;
  int64_t num = msc_type_elems(t), bytes = msc_dtype_bytes(t->dtype);
  bool whole = num >= 0 && v->dense.bytes == (size_t)(num * bytes);
  msc_puts(w, "dense<");
  if (v->dense.bytes == (size_t)bytes) {
    put_element(w, t->dtype, v->dense.data);
  } else if (whole &&
             (num <= MSC_MAX_LISTED || t->dtype == MSC_I1)) { /* MLIR packs the bits of i1 in its hexadecimal form */
    put_elements(w, t, v->dense.data, num);
  } else {
    msc_puts(w, "\"0x");
    for (size_t i = 0; i < v->dense.bytes; i++) putf(w, "%02X", ((const unsigned char *)v->dense.data)[i]);
    msc_puts(w, "\"");
  }
  msc_puts(w, "> : ");
  msc_put_type(w, t);
}

/* ---- values ---- */

static void put_value(msc_printer *w, const msc_attr_value *v, bool in_list);

/* Prints a number; in a list the default types i64 and f64 are left out. */
static void put_number(msc_printer *w, const msc_attr_value *v, bool in_list) {
  char text[MSC_NUMBER_TEXT];
  if (v->kind == MSC_ATTR_INT) msc_int_text(v->dtype, v->i, text);
  else msc_float_text(v->dtype, v->f, text);
  msc_puts(w, text);
  bool hex = v->kind == MSC_ATTR_FLOAT && text[0] == '0' && text[1] == 'x';
  if (!in_list || hex || v->dtype != (v->kind == MSC_ATTR_INT ? MSC_I64 : MSC_F64))
    msc_puts(w, " : "), msc_puts(w, msc_dtype_name(v->dtype));
}

static void print_list(msc_printer *w, const msc_attr_value *v) {
  msc_puts(w, "[");
  for (size_t i = 0; i < v->list.num; i++) {
    if (i) msc_puts(w, ", ");
    put_value(w, &v->list.v[i], true);
  }
  msc_puts(w, "]");
}

static void put_value(msc_printer *w, const msc_attr_value *v, bool in_list) {
  switch (v->kind) {
    case MSC_ATTR_INT:
    case MSC_ATTR_FLOAT: put_number(w, v, in_list); break;
    case MSC_ATTR_BOOL: msc_puts(w, v->b ? "true" : "false"); break;
    case MSC_ATTR_STR: msc_put_string(w, v->s ? v->s : ""); break;
    case MSC_ATTR_LIST: print_list(w, v); break;
    case MSC_ATTR_DICT: msc_put_attrs(w, v->dict.a, v->dict.num); break;
    case MSC_ATTR_TYPE: msc_put_type(w, v->type); break;
    case MSC_ATTR_LAYOUT: msc_put_string(w, msc_layout_print(w->scratch, w->mesh, v->layout)); break;
    case MSC_ATTR_DIGITS: msc_put_string(w, msc_digits_print(w->scratch, w->mesh, v->layout)); break;
    case MSC_ATTR_DENSE: put_dense(w, v); break;
  }
}

static bool is_bare(const char *name) {
  if (!msc_is_letter(*name)) return false;
  while (msc_is_letter(*name) || msc_is_digit(*name) || *name == '$' || *name == '.') name++;
  return !*name;
}

void msc_put_named(msc_printer *w, const msc_attr *attr) {
  if (is_bare(attr->name)) msc_puts(w, attr->name);
  else msc_put_string(w, attr->name);
  msc_puts(w, " = ");
  put_value(w, &attr->value, false);
}

void msc_put_attrs(msc_printer *w, const msc_attr *attrs, size_t num) {
  msc_puts(w, "{");
  for (size_t i = 0; i < num; i++) {
    if (i) msc_puts(w, ", ");
    msc_put_named(w, &attrs[i]);
  }
  msc_puts(w, "}");
}

const char *msc_attr_text(msc_arena *arena, const msc_mesh *mesh, const msc_attr_value *v) {
  msc_text text = {.arena = arena};
  msc_printer w = {.scratch = arena, .mesh = mesh, .types.index.arena = arena, .write = msc_text_write, .user = &text};
  put_value(&w, v, false);
  msc_flush(&w);
  text.text[text.num] = 0;
  return text.text;
}
