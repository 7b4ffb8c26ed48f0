/* parse_attr.c: IR text to attribute values, types and locations. */
#include <stdlib.h>
#include <string.h>

#include "ir/text/text.h"

/* ---- types ---- */

static bool parse_dtype(msc_parser *p, msc_dtype *out_dtype) {
  for (int d = 0; d < MSC_NUM_DTYPES; d++)
    if (msc_take_word(p, msc_dtype_name((msc_dtype)d))) {
      *out_dtype = (msc_dtype)d;
      return true;
    }
  return msc_unexpected(p, "an element type such as f32");
}

/* Reports at a character inside what the lexer would take as one token. */
static bool bad_char(msc_parser *p, const char *at, const char *what) {
  msc_token t = {.kind = at < p->lex.end ? MSC_TOK_BAD : MSC_TOK_END, .line = p->lex.line, .at = at, .num = 1};
  t.col = (uint32_t)(at - p->lex.line_start) + 1;
  return msc_syntax(p, t, "expected %s, not %s", what, msc_token_text(p, t));
}

/* Reads `32x784x` by characters, since x784xf32 is one word for the lexer.  The token is the `<` before it. */
static bool parse_dims(msc_parser *p, int *out_rank, int64_t *dim) {
  const char *s = p->lex.p, *end = p->lex.end;
  for (*out_rank = 0; s < end && ((*s >= '0' && *s <= '9') || *s == '?'); s++) {
    if (*out_rank == MSC_MAX_RANK) return bad_char(p, s, "an element type: a tensor has at most 8 dimensions");
    int64_t n = 0;
    if (*s == '?') n = -1, s++;
    else
      for (const char *first = s; s < end && *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s - '0', &n))
          return bad_char(p, first, "a dimension that fits 63 bits");
    if (s == end || *s != 'x') return bad_char(p, s, "'x' after a dimension");
    dim[(*out_rank)++] = n;
  }
  p->lex.p = s;
  msc_advance(p);
  return true;
}

/* Reads `#name<"text">`; out_text is the token of the text. */
static bool parse_quoted(msc_parser *p, const char *name, msc_token *out_text) {
  if (p->tok.kind != MSC_TOK_HASH || p->tok.num != strlen(name) || memcmp(p->tok.at, name, p->tok.num) != 0)
    return msc_unexpected(p, name);
  msc_advance(p);
  MSC_TRY(msc_expect(p, '<', "'<'"));
  *out_text = p->tok;
  return msc_expect(p, MSC_TOK_STRING, "a string") && msc_expect(p, '>', "'>'");
}

/* Returns the layout of a text. The last few texts are kept with their layouts, because texts repeat, and so that a
 * faulty one is reported once. */
static const msc_layout *find_layout(msc_parser *p, msc_token t) {
  size_t hash = t.num;
  for (size_t i = 0; i < t.num; i++) hash = hash * 31 + (unsigned char)t.at[i];
  size_t slot = hash % (sizeof p->layouts / sizeof *p->layouts);
  if (p->layouts[slot].num != t.num || memcmp(p->layouts[slot].text, t.at, t.num) != 0) {
    p->layouts[slot].text = t.at, p->layouts[slot].num = t.num, p->layouts[slot].layout = NULL;
    const msc_layout *layout = NULL;
    if (msc_layout_parse(p->ctx, &p->module->mesh, msc_loc_at(p, t), msc_token_string(p, t), &layout))
      p->layouts[slot].layout = layout;
  }
  return p->layouts[slot].layout;
}

static bool parse_layout(msc_parser *p, int rank, const msc_layout **out_layout) {
  msc_token text;
  MSC_TRY(parse_quoted(p, "#msc.layout", &text));
  *out_layout = find_layout(p, text);
  MSC_TRY(*out_layout);
  if ((*out_layout)->rank == rank) return true;
  return msc_error(p->ctx, MSC_E_LAYOUT, msc_loc_at(p, text), "the layout is for %d dimensions, the tensor has %d",
                   (*out_layout)->rank, rank);
}

bool msc_parse_type(msc_parser *p, const msc_type **out_type) {
  int rank;
  int64_t dim[MSC_MAX_RANK];
  msc_dtype dtype = MSC_F32;
  const msc_layout *layout = NULL;
  msc_token start = p->tok;
  if (!msc_take_word(p, "tensor")) return msc_unexpected(p, "a tensor type");
  if (p->tok.kind != '<') return msc_unexpected(p, "'<'");
  MSC_TRY(parse_dims(p, &rank, dim) && parse_dtype(p, &dtype));
  if (msc_take(p, ',')) MSC_TRY(parse_layout(p, rank, &layout));
  MSC_TRY(msc_expect(p, '>', "'>'"));
  *out_type = msc_type_of(p->ctx, dtype, rank, dim, layout);
  bool known = true;
  for (int d = 0; d < rank; d++) known = known && dim[d] >= 0;
  return !known || msc_type_bytes(*out_type) >= 0 || msc_syntax(p, start, "a tensor of more than 2^63 bytes");
}

/* ---- dense constants ---- */

typedef struct {
  const msc_type *type;
  size_t element_bytes, num, room; /* room: bytes of `data` */
  unsigned char *data;
} elements;

static bool parse_element(msc_parser *p, elements *e) {
  msc_reserve(p->scratch, e->data, e->room, (e->num + 1) * e->element_bytes);
  MSC_TRY(p->tok.kind != MSC_TOK_BAD || msc_unexpected(p, "an element"));
  MSC_TRY(msc_read_element(p, p->tok, e->type->dtype, e->data + e->num * e->element_bytes));
  e->num++;
  msc_advance(p);
  return true;
}

/* Reads the elements from dimension d on; lists nest as deep as the tensor has dimensions, 8 at most. */
static bool parse_elements(msc_parser *p, elements *e, int d) {
  if (d == e->type->rank) return parse_element(p, e);
  MSC_TRY(msc_expect(p, '[', "'['"));
  for (int64_t i = 0; i < e->type->dim[d]; i++) {
    if (p->tok.kind == ']' || (i && p->tok.kind != ','))
      return msc_syntax(p, p->tok, "dimension %d has %" PRId64 " entries, not %" PRId64, d, e->type->dim[d], i);
    if (i) msc_advance(p);
    MSC_TRY(parse_elements(p, e, d + 1));
  }
  if (p->tok.kind == ',') return msc_syntax(p, p->tok, "dimension %d has only %" PRId64 " entries", d, e->type->dim[d]);
  return msc_expect(p, ']', "']'");
}

static bool parse_hex(msc_parser *p, elements *e) {
  msc_token t = p->tok;
  const char *s = msc_token_string(p, t);
  size_t num = strlen(s), bytes = num / 2 - 1, whole = (size_t)msc_type_bytes(e->type);
  if (e->type->dtype == MSC_I1) return msc_syntax(p, t, "elements of type i1 are written as true and false");
  if (s[0] != '0' || s[1] != 'x' || num % 2 != 0 || strspn(s + 2, "0123456789abcdefABCDEF") != num - 2)
    return msc_syntax(p, t, "expected pairs of hexadecimal digits after 0x");
  if (bytes != whole && bytes != e->element_bytes)
    return msc_syntax(p, t, "%zu bytes of elements where the type has %zu", bytes, whole);
  e->num = bytes / e->element_bytes;
  e->data = msc_arena_alloc(p->scratch, bytes);
  for (size_t i = 0; i < bytes; i++) {
    char pair[3] = {s[2 + 2 * i], s[3 + 2 * i], 0};
    e->data[i] = (unsigned char)strtoul(pair, NULL, 16);
  }
  msc_advance(p);
  return true;
}

static bool is_element_token(int kind) {
  return kind == '[' || kind == ']' || kind == ',' || kind == MSC_TOK_INT || kind == MSC_TOK_FLOAT ||
         kind == MSC_TOK_WORD || kind == MSC_TOK_STRING;
}

/* Reads `dense<...> : type`: first the type behind the elements, then the elements. */
static bool parse_dense(msc_parser *p, msc_attr_value *out) {
  elements e = {0};
  msc_advance(p);
  MSC_TRY(msc_expect(p, '<', "'<'"));
  msc_token first = p->tok;
  msc_lexer after_first = p->lex;
  while (is_element_token(p->tok.kind)) msc_advance(p);
  MSC_TRY(msc_expect(p, '>', "'>'") && msc_expect(p, ':', "':' and the type of the elements"));
  msc_token type = p->tok;
  MSC_TRY(msc_parse_type(p, &e.type));
  if (msc_type_elems(e.type) < 0) return msc_syntax(p, type, "elements need a type of known size");
  msc_token next = p->tok;
  msc_lexer after = p->lex;
  p->tok = first, p->lex = after_first;
  e.element_bytes = (size_t)msc_dtype_bytes(e.type->dtype);
  bool empty = p->tok.kind == '>' && msc_type_elems(e.type) == 0;
  if (p->tok.kind == MSC_TOK_STRING) MSC_TRY(parse_hex(p, &e));
  else if (!empty) MSC_TRY(p->tok.kind == '[' ? parse_elements(p, &e, 0) : parse_element(p, &e));
  MSC_TRY(p->tok.kind == '>' || msc_unexpected(p, "'>'"));
  p->tok = next, p->lex = after;
  size_t bytes = e.num * e.element_bytes;
  *out = (msc_attr_value){.kind = MSC_ATTR_DENSE,
                          .dense = {e.type, msc_arena_copy(msc_context_arena(p->ctx), e.data, bytes), bytes}};
  return true;
}

/* ---- values ---- */

static bool parse_number(msc_parser *p, msc_attr_value *out) {
  msc_token t = p->tok;
  msc_dtype dtype = t.kind == MSC_TOK_FLOAT ? MSC_F64 : MSC_I64;
  msc_advance(p);
  if (msc_take(p, ':')) MSC_TRY(parse_dtype(p, &dtype));
  *out = (msc_attr_value){.kind = msc_is_float(dtype) ? MSC_ATTR_FLOAT : MSC_ATTR_INT, .dtype = dtype};
  if (msc_is_float(dtype)) return msc_read_float(p, t, dtype, &out->f);
  int64_t v;
  MSC_TRY(msc_read_int(p, t, dtype, &v));
  if (dtype == MSC_I1) *out = msc_bool(v != 0);
  else out->i = v;
  return true;
}

static bool parse_value(msc_parser *p, msc_attr_value *out);

static bool parse_list(msc_parser *p, msc_attr_value *out) {
  size_t base = p->values.num;
  MSC_TRY(msc_nest(p));
  msc_advance(p);
  if (!msc_take(p, ']')) {
    do {
      msc_attr_value v;
      MSC_TRY(parse_value(p, &v));
      MSC_PUSH(p, p->values, v, v);
    } while (msc_take(p, ','));
    MSC_TRY(msc_expect(p, ']', "',' or ']'"));
  }
  *out = msc_list(p->ctx, p->values.num - base, p->values.v + base);
  p->values.num = base;
  p->depth--;
  return true;
}

static bool parse_value(msc_parser *p, msc_attr_value *out) {
  msc_token t = p->tok;
  msc_attr_array dict;
  switch (t.kind) {
    case MSC_TOK_INT:
    case MSC_TOK_FLOAT: return parse_number(p, out);
    case MSC_TOK_STRING:
      *out = (msc_attr_value){.kind = MSC_ATTR_STR, .s = msc_token_string(p, t)};
      msc_advance(p);
      return true;
    case '[': return parse_list(p, out);
    case '{':
      MSC_TRY(msc_parse_dict(p, false, &dict));
      *out = (msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {dict.num, dict.attrs}};
      return true;
    case MSC_TOK_WORD:
      if (msc_is_word(p, "dense")) return parse_dense(p, out);
      if (msc_is_word(p, "tensor")) {
        *out = (msc_attr_value){.kind = MSC_ATTR_TYPE};
        return msc_parse_type(p, &out->type);
      }
      *out = msc_bool(msc_is_word(p, "true"));
      if (msc_take_word(p, "true") || msc_take_word(p, "false")) return true;
  }
  return msc_unexpected(p, "an attribute value");
}

/* ---- dictionaries ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const msc_entry *)a)->attr.name, ((const msc_entry *)b)->attr.name);
}

static bool is_later(msc_token a, msc_token b) { return a.line != b.line ? a.line > b.line : a.col > b.col; }

static bool parse_mesh(msc_parser *p) {
  msc_token text;
  MSC_TRY(parse_quoted(p, "#msc.mesh", &text));
  return msc_mesh_parse(p->ctx, msc_loc_at(p, text), msc_token_string(p, text), &p->module->mesh);
}

static bool parse_entry(msc_parser *p, bool module) {
  msc_token t = p->tok;
  if (t.kind != MSC_TOK_WORD && (t.kind != MSC_TOK_STRING || t.num == 2))
    return msc_unexpected(p, "an attribute's name");
  msc_entry e = {.at = t};
  e.attr.name = t.kind == MSC_TOK_WORD ? msc_intern_n(p->ctx, t.at, t.num) : msc_token_string(p, t);
  msc_advance(p);
  if (module && strcmp(e.attr.name, "msc.mesh") == 0) return msc_expect(p, '=', "'='") && parse_mesh(p);
  e.attr.value = msc_bool(true); /* a name alone is MLIR's unit attribute */
  if (p->tok.kind != ',' && p->tok.kind != '}') MSC_TRY(msc_expect(p, '=', "'='") && parse_value(p, &e.attr.value));
  MSC_PUSH(p, p->entries, e, e);
  return true;
}

bool msc_parse_dict(msc_parser *p, bool module, msc_attr_array *out_attrs) {
  size_t base = p->entries.num;
  MSC_TRY(msc_nest(p) && msc_expect(p, '{', "'{'"));
  if (!msc_take(p, '}')) {
    do MSC_TRY(parse_entry(p, module));
    while (msc_take(p, ','));
    MSC_TRY(msc_expect(p, '}', "',' or '}'"));
  }
  msc_entry *e = p->entries.e + base;
  size_t num = p->entries.num - base;
  if (num > 1) qsort(e, num, sizeof *e, by_name);
  msc_attr *attrs = msc_new_array(msc_context_arena(p->ctx), msc_attr, num);
  for (size_t i = 0; i < num; i++) {
    attrs[i] = e[i].attr;
    if (i && e[i].attr.name == e[i - 1].attr.name)
      return msc_syntax(p, is_later(e[i].at, e[i - 1].at) ? e[i].at : e[i - 1].at, "attribute %s is given twice",
                        e[i].attr.name);
  }
  *out_attrs = (msc_attr_array){attrs, num};
  p->entries.num = base;
  p->depth--;
  return true;
}

/* ---- locations ---- */

/* The text of a location: its names, the outermost first, and its place. */
typedef struct {
  const char *outer, *inner;
  msc_loc loc;
} loc_text;

static bool parse_place(msc_parser *p, loc_text *out);

/* Joins the names of a place to the path of scopes that a caller's location holds. */
static const char *join_texts(msc_parser *p, const char *a, const char *b) {
  if (!a || !b) return a ? a : b;
  return msc_intern(p->ctx, msc_arena_printf(p->scratch, "%s/%s", a, b));
}

/* Parses a place: `"file":1:2`, `"name"` or `"name"(place)`. */
static bool parse_named(msc_parser *p, loc_text *out) {
  const char *text = msc_token_string(p, p->tok);
  int64_t line, col;
  msc_advance(p);
  if (msc_take(p, ':')) {
    msc_token l = p->tok;
    MSC_TRY(msc_expect(p, MSC_TOK_INT, "a line number") && msc_expect(p, ':', "':'"));
    msc_token c = p->tok;
    MSC_TRY(msc_expect(p, MSC_TOK_INT, "a column number"));
    MSC_TRY(msc_read_int(p, l, MSC_U32, &line) && msc_read_int(p, c, MSC_U32, &col));
    out->loc.file = text, out->loc.line = (uint32_t)line, out->loc.col = (uint32_t)col;
    return true;
  }
  if (!msc_take(p, '(')) return out->inner = text, true;
  MSC_TRY(parse_place(p, out) && msc_expect(p, ')', "')'"));
  if (!out->inner) out->inner = text;
  else out->outer = join_texts(p, *text ? text : NULL, out->outer);
  return true;
}

/* `(callee at caller)`; calls may nest on either side. */
static bool parse_call(msc_parser *p, loc_text *out) {
  loc_text caller = {0};
  MSC_TRY(msc_expect(p, '(', "'('") && parse_place(p, out));
  if (!msc_take_word(p, "at")) return msc_unexpected(p, "'at'");
  MSC_TRY(parse_place(p, &caller) && msc_expect(p, ')', "')'"));
  const char *scope = join_texts(p, caller.outer, caller.inner);
  caller.loc.scope = scope && *scope ? scope : NULL;
  const msc_loc *chain[MSC_MAX_NESTING], *l = msc_loc_of(p->ctx, &caller.loc);
  int n = 0;
  for (const msc_loc *c = out->loc.caller; c && n < MSC_MAX_NESTING; c = c->caller) chain[n++] = c;
  while (n > 0) {
    msc_loc link = *chain[--n];
    link.caller = l;
    l = msc_loc_of(p->ctx, &link);
  }
  out->loc.caller = l;
  return true;
}

/* Reads `<metadata>[a, b]`; the location is a. */
static bool parse_fused(msc_parser *p, loc_text *out) {
  msc_attr_value metadata;
  if (msc_take(p, '<')) MSC_TRY(parse_value(p, &metadata) && msc_expect(p, '>', "'>'"));
  MSC_TRY(msc_expect(p, '[', "'['") && parse_place(p, out));
  while (msc_take(p, ',')) {
    loc_text rest = {0};
    MSC_TRY(parse_place(p, &rest));
  }
  return msc_expect(p, ']', "',' or ']'");
}

static bool parse_place(msc_parser *p, loc_text *out) {
  MSC_TRY(msc_nest(p));
  bool ok = p->tok.kind == MSC_TOK_STRING  ? parse_named(p, out)
            : msc_take_word(p, "callsite") ? parse_call(p, out)
            : msc_take_word(p, "fused")    ? parse_fused(p, out)
            : msc_take_word(p, "unknown")  ? true
                                           : msc_unexpected(p, "a location");
  p->depth--;
  return ok;
}

bool msc_parse_loc(msc_parser *p, msc_token at, const msc_loc **out_loc, const char **out_name) {
  loc_text at_op = {0};
  if (msc_take_word(p, "loc"))
    MSC_TRY(msc_expect(p, '(', "'('") && parse_place(p, &at_op) && msc_expect(p, ')', "')'"));
  *out_name = at_op.inner && *at_op.inner ? at_op.inner : NULL;
  at_op.loc.scope = at_op.outer && *at_op.outer ? at_op.outer : NULL;
  if (!at_op.loc.file)
    at_op.loc.file = p->file, at_op.loc.line = at.line, at_op.loc.col = at.col, at_op.loc.implied = true;
  *out_loc = msc_loc_of(p->ctx, &at_op.loc);
  return true;
}
