/* parse_hlo.c: StableHLO text in; its functions and ops as the structs of hlo.h out, or the first fault at its
 * place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/stablehlo/hlo.h"
#include "ir/table.h"

typedef struct {
  const char *name;
  const char *at; /* behind "loc(" */
} named_loc;

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  const char *file, *text, *end, *p;
  const char *line_at; /* where `line` begins */
  uint32_t line;
  int depth;
  size_t num_ops;
  MSC_TABLE(named_loc) named; /* #loc3 = loc(...) */
  int loc_steps;              /* locations that the one at hand has led to */
} parser;

static bool parse_ops(parser *r, hlo_region *to, const char *until);

/* ---- places and faults ---- */

static const msc_loc *here(parser *r) {
  for (; r->line_at < r->p; r->line_at++)
    if (*r->line_at == '\n') r->line++;
  const char *begin = r->p;
  while (begin > r->text && begin[-1] != '\n') begin--;
  return msc_loc_of(r->ctx, &(msc_loc){.file = r->file, .line = r->line, .col = (uint32_t)(r->p - begin) + 1});
}

static bool fault(parser *r, const char *what) {
  size_t n = strcspn(r->p, " \t\r\n,()<>{}[]:=");
  if (n == 0 && r->p < r->end) n = 1;
  return n ? msc_error(r->ctx, MSC_E_SYNTAX, here(r), "%s, not '%.*s'", what, (int)(n < 40 ? n : 40), r->p)
           : msc_error(r->ctx, MSC_E_SYNTAX, here(r), "%s, not the end of the text", what);
}

/* ---- words ---- */

static void skip_space(parser *r) {
  for (;;) {
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p) r->p++;
    if (r->end - r->p < 2 || r->p[0] != '/' || r->p[1] != '/') return;
    while (r->p < r->end && *r->p != '\n') r->p++;
  }
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

static bool see(parser *r, const char *what) {
  skip_space(r);
  size_t n = strlen(what);
  if ((size_t)(r->end - r->p) < n || memcmp(r->p, what, n) != 0) return false;
  return !is_word_char(what[n - 1]) || r->p + n == r->end || !is_word_char(r->p[n]);
}

static bool take_if(parser *r, const char *what) {
  if (!see(r, what)) return false;
  r->p += strlen(what);
  return true;
}

static bool expect_text(parser *r, const char *what) {
  char wanted[32];
  if (take_if(r, what)) return true;
  snprintf(wanted, sizeof wanted, "expected '%s'", what);
  return fault(r, wanted);
}

/* A word, with a sigil of % @ # ! in front if there is one; NULL: there is none. */
static const char *take_word(parser *r) {
  skip_space(r);
  const char *from = r->p, *at = r->p;
  if (at < r->end && strchr("%@#!^", *at) && *at) at++;
  if (*from == '@' && at < r->end && *at == '"') {
    const char *close = memchr(at + 1, '"', (size_t)(r->end - at - 1));
    if (!close) return NULL;
    r->p = close + 1;
    return msc_intern(r->ctx, msc_arena_printf(r->arena, "@%.*s", (int)(close - at - 1), at + 1));
  }
  while (at < r->end && is_word_char(*at)) at++;
  if (*from == '%' && at + 1 < r->end && *at == '#' && at[1] >= '0' && at[1] <= '9') {
    at++;
    while (at < r->end && *at >= '0' && *at <= '9') at++;
  }
  if (at == from || (at == from + 1 && !is_word_char(*from))) return NULL;
  r->p = at;
  return msc_intern_n(r->ctx, from, (size_t)(at - from));
}

static const char *expect_word(parser *r, const char *what) {
  const char *w = take_word(r);
  if (!w) fault(r, what);
  return w;
}

/* A text in quotes, with its escapes \" \\ \n and \HH resolved; NULL after a report. */
static const char *take_text(parser *r) {
  char *to = msc_arena_alloc(r->arena, (size_t)(r->end - r->p) + 1), *at = to;
  for (r->p++; r->p < r->end && *r->p != '"'; r->p++) {
    if (*r->p != '\\') {
      *at++ = *r->p;
      continue;
    }
    char hex[3] = {r->p + 2 < r->end ? r->p[1] : 0, r->p + 2 < r->end ? r->p[2] : 0, 0}, *end;
    long byte = strtol(hex, &end, 16);
    if (end == hex + 2 && byte) *at++ = (char)byte, r->p += 2;
    else if (++r->p < r->end) *at++ = *r->p == 'n' ? '\n' : *r->p == 't' ? '\t' : *r->p;
  }
  if (r->p >= r->end) return fault(r, "a text has no end"), NULL;
  r->p++;
  return msc_intern_n(r->ctx, to, (size_t)(at - to));
}

/* ---- types ---- */

/* StableHLO's ui8 is u8 here; other names are the same. */
static bool dtype_of(const char *name, size_t n, msc_dtype *out) {
  char own[8];
  bool is_unsigned = n > 2 && !memcmp(name, "ui", 2);
  if (n >= sizeof own) return false;
  snprintf(own, sizeof own, "%s%.*s", is_unsigned ? "u" : "", (int)(n - 2 * is_unsigned), name + 2 * is_unsigned);
  return msc_dtype_parse(own, out);
}

static const msc_type *take_tensor(parser *r) {
  int64_t dim[MSC_MAX_RANK];
  int rank = 0;
  msc_dtype dtype;
  const char *from = r->p;
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
    char *end;
    long long size = strtoll(r->p, &end, 10);
    if (end >= r->end || *end != 'x') break;
    if (rank == MSC_MAX_RANK) return fault(r, "a tensor has more dimensions than msc has"), NULL;
    if (size < 1) return fault(r, "a tensor has at least one element"), NULL;
    dim[rank++] = size;
    r->p = end + 1;
  }
  if (r->p < r->end && *r->p == '?') return fault(r, "expected a size: dimensions must be known"), NULL;
  size_t n = 0;
  while (r->p + n < r->end && is_word_char(r->p[n])) n++;
  if (!dtype_of(r->p, n, &dtype)) return fault(r, "expected an element type that msc has"), NULL;
  r->p += n;
  if (!expect_text(r, ">")) return NULL;
  double elems = 1;
  for (int d = 0; d < rank; d++) elems *= (double)dim[d];
  if (elems > 1e15) return r->p = from, fault(r, "the tensor is too large"), NULL;
  return msc_type_of(r->ctx, dtype, rank, dim, NULL);
}

/* NULL after a report. */
static const msc_type *take_type(parser *r) {
  if (take_if(r, "tensor<")) return take_tensor(r);
  return fault(r, "expected a type: tensor<...>"), NULL;
}

/* ---- locations ---- */

static bool skip_loc(parser *r) {
  int depth = 1;
  while (r->p < r->end && depth) {
    if (*r->p == '"') {
      if (!take_text(r)) return false;
      continue;
    }
    depth += *r->p == '(' ? 1 : *r->p == ')' ? -1 : 0;
    r->p++;
  }
  return !depth || fault(r, "a location has no end");
}

/* What a location says, `at` being behind "loc(": its first "file":line:column, and the first text that is no file. */
static void read_loc(parser *r, const char *at, int depth, msc_loc *out, const char **out_said) {
  enum { MOST_STEPS = 256 };
  const char *own = r->p;
  if (++r->loc_steps > MOST_STEPS || depth > HLO_MAX_DEPTH) return;
  r->p = at;
  for (int open = 1; r->p < r->end && open > 0 && !out->line;) {
    skip_space(r);
    if (*r->p == '"') {
      const char *text = take_text(r);
      if (!text) break;
      if (take_if(r, ":")) {
        out->file = text, out->line = (uint32_t)strtoul(r->p, (char **)&r->p, 10);
        if (take_if(r, ":")) out->col = (uint32_t)strtoul(r->p, (char **)&r->p, 10);
      } else if (!*out_said) *out_said = text;
    } else if (*r->p == '#') {
      const char *name = take_word(r);
      const named_loc *named = name ? msc_table_find(&r->named, &name) : NULL;
      if (!name) r->p++;
      if (named) read_loc(r, named->at, depth + 1, out, out_said);
    } else {
      open += *r->p == '(' ? 1 : *r->p == ')' ? -1 : 0;
      r->p++;
    }
  }
  r->p = own;
}

/* loc(...) behind an op or an argument, if there is one. */
static bool take_loc(parser *r, const msc_loc **out, const char **out_said) {
  msc_loc found = {0};
  const char *said = NULL;
  if (!take_if(r, "loc(")) return true;
  const char *at = r->p;
  r->loc_steps = 0;
  MSC_TRY(skip_loc(r));
  read_loc(r, at, 0, &found, &said);
  if (out && found.line) *out = msc_loc_of(r->ctx, &found);
  if (out_said) *out_said = said;
  return true;
}

/* Finds all #loc3 = loc(...), which stand in front of the module and behind it. */
static void note_named_locs(parser *r) {
  const char *own = r->p;
  for (const char *line = r->text; line && line < r->end;) {
    r->p = line;
    const char *name = *line == '#' ? take_word(r) : NULL;
    if (name && take_if(r, "=") && take_if(r, "loc(")) msc_table_at(&r->named, &name)->at = r->p;
    line = memchr(line, '\n', (size_t)(r->end - line));
    if (line) line++;
  }
  r->p = own;
}

/* ---- values of attributes ---- */

static bool take_value(parser *r, hlo_value *out);

/* Items until `close`, which is taken; 0:4:2 is a list of three. */
static bool take_items(parser *r, const char *close, hlo_value *list) {
  *list = (hlo_value){.kind = HLO_LIST, .name = list->name};
  while (!take_if(r, close)) {
    msc_grow(r->arena, list->item, list->num);
    hlo_value *item = &list->item[list->num];
    MSC_TRY(take_value(r, item));
    list->num++;
    if (see(r, ":")) {
      hlo_value range = {.kind = HLO_LIST};
      do {
        msc_grow(r->arena, range.item, range.num);
        if (range.num == 0) range.item[range.num++] = *item;
        else MSC_TRY(take_value(r, &range.item[range.num++]));
      } while (take_if(r, ":"));
      list->item[list->num - 1] = range;
    }
    if (!take_if(r, ",") && !see(r, close)) return fault(r, "expected ',' or the end of a list");
  }
  return true;
}

/* Members NAME = VALUE, or NAME alone, until `close`. */
static bool take_members(parser *r, const char *close, size_t *num, hlo_value **member) {
  while (!take_if(r, close)) {
    skip_space(r);
    const char *name = *r->p == '"' ? take_text(r) : expect_word(r, "expected the name of an attribute");
    MSC_TRY(name);
    msc_grow(r->arena, *member, *num);
    hlo_value *m = &(*member)[(*num)++];
    *m = (hlo_value){.kind = HLO_WORD, .name = name, .s = "true"};
    if (take_if(r, "=")) MSC_TRY(take_value(r, m));
    m->name = name;
    if (!take_if(r, ",") && !see(r, close)) return fault(r, "expected ',' or the end of attributes");
  }
  return true;
}

/* The number at p; also true, false, and bits of a float as 0x7FC00000. */
static bool take_number(parser *r, msc_dtype dtype, double *out) {
  char *end;
  skip_space(r);
  if (take_if(r, "true")) return *out = 1, true;
  if (take_if(r, "false")) return *out = 0, true;
  if (!strncmp(r->p, "0x", 2) && msc_is_float(dtype)) {
    uint64_t bits = strtoull(r->p, &end, 16);
    msc_tensor t = msc_tensor_new(r->arena, msc_type_of(r->ctx, dtype, 0, NULL, NULL));
    memcpy(t.data, &bits, (size_t)msc_dtype_bytes(dtype));
    *out = msc_tensor_get(&t, 0);
  } else *out = strtod(r->p, &end);
  if (end == r->p || end > r->end) return fault(r, "expected a number");
  r->p = end;
  return true;
}

static bool fill_dense(parser *r, msc_tensor *t, int64_t *at, int64_t num, int depth) {
  double v;
  if (depth > MSC_MAX_RANK + 1) return fault(r, "brackets are too deep");
  if (!take_if(r, "[")) {
    MSC_TRY(take_number(r, t->type->dtype, &v));
    if (*at >= num) return fault(r, "there are more elements than the type has");
    msc_tensor_set(t, (*at)++, v);
    return true;
  }
  while (!take_if(r, "]")) {
    MSC_TRY(fill_dense(r, t, at, num, depth + 1));
    if (!take_if(r, ",") && !see(r, "]")) return fault(r, "expected ',' or ']'");
  }
  return true;
}

/* "0x0000803F..." : the bytes of the elements, or of the one that all are. */
static bool fill_from_hex(parser *r, const char *hex, msc_tensor *t) {
  size_t bytes = (size_t)msc_type_bytes(t->type), one = (size_t)msc_dtype_bytes(t->type->dtype), n = strlen(hex);
  if (n < 2 || memcmp(hex, "0x", 2) || n % 2 || ((n - 2) / 2 != bytes && (n - 2) / 2 != one))
    return fault(r, "expected as many bytes as the type has");
  size_t given = (n - 2) / 2;
  for (size_t i = 0; i < bytes; i++) {
    char digits[3] = {hex[2 + 2 * (i % given)], hex[3 + 2 * (i % given)], 0}, *end;
    ((uint8_t *)t->data)[i] = (uint8_t)strtoul(digits, &end, 16);
    if (*end) return fault(r, "expected hexadecimal digits");
  }
  return true;
}

/* dense<...> : type; the type stands behind the elements. */
static bool take_dense(parser *r, hlo_value *out) {
  const char *elements = r->p;
  int depth = 0;
  for (; r->p < r->end && (depth || *r->p != '>'); r->p++) {
    if (*r->p == '"') {
      MSC_TRY(take_text(r));
      r->p--;
    }
    depth += *r->p == '[' ? 1 : *r->p == ']' ? -1 : 0;
  }
  MSC_TRY(expect_text(r, ">") && expect_text(r, ":"));
  const msc_type *type = take_type(r);
  MSC_TRY(type);
  const char *behind = r->p;
  int64_t num = msc_type_elems(type), at = 0;
  msc_tensor t = msc_tensor_new(msc_context_arena(r->ctx), type);
  r->p = elements;
  skip_space(r);
  if (*r->p == '"') {
    const char *hex = take_text(r);
    MSC_TRY(hex && fill_from_hex(r, hex, &t));
  } else if (*r->p != '>') {
    MSC_TRY(fill_dense(r, &t, &at, num, 0));
    if (at != num && at != 1) return fault(r, "there are fewer elements than the type has");
    for (int64_t i = 1; at == 1 && i < num; i++) msc_tensor_set(&t, i, msc_tensor_get(&t, 0));
  }
  MSC_TRY(expect_text(r, ">"));
  r->p = behind;
  *out = (hlo_value){.kind = HLO_DENSE, .type = type, .data = t.data};
  return true;
}

static bool take_number_value(parser *r, hlo_value *out) {
  char *end;
  *out = (hlo_value){.kind = HLO_INT, .i = strtoll(r->p, &end, 0)};
  if (end == r->p || end > r->end) return fault(r, "expected a value");
  if (*end == '.' || *end == 'e' || *end == 'E') *out = (hlo_value){.kind = HLO_FLOAT, .f = strtod(r->p, &end)};
  r->p = end;
  if (see(r, ": ") || see(r, ":")) { /* 1 : i64 */
    const char *own = r->p;
    r->p++;
    const char *type = take_word(r);
    if (!type || !strchr("iuf", *type)) r->p = own;
  }
  return true;
}

/* [1] x [0], [b, 0]x[0, o]->[b, 0]: a list of lists. */
static bool take_lists(parser *r, hlo_value *out) {
  hlo_value all = {.kind = HLO_LIST}, one = {0};
  do {
    MSC_TRY(expect_text(r, "["));
    MSC_TRY(take_items(r, "]", &one));
    msc_grow(r->arena, all.item, all.num);
    all.item[all.num++] = one;
    skip_space(r);
    const char *own = r->p;
    if (r->p < r->end && *r->p == 'x') r->p++;
    else if (!take_if(r, "->")) break;
    skip_space(r);
    if (r->p >= r->end || *r->p != '[') {
      r->p = own;
      break;
    }
  } while (true);
  *out = all.num == 1 ? all.item[0] : all;
  return true;
}

/* Skips what no builder asks for, as #stablehlo<precision DEFAULT>, behind its '<'. */
static bool skip_angles(parser *r) {
  for (int depth = 1; r->p < r->end && depth; r->p++) depth += *r->p == '<' ? 1 : *r->p == '>' ? -1 : 0;
  return r->p < r->end || fault(r, "expected '>'");
}

static bool take_value_of_word(parser *r, hlo_value *out) {
  const char *word = take_word(r);
  if (!word) return fault(r, "expected a value");
  *out = (hlo_value){.kind = HLO_WORD, .s = word};
  if (!strcmp(word, "dense") && take_if(r, "<")) return take_dense(r, out);
  if (!strcmp(word, "array") && take_if(r, "<")) { /* array<i64: 1, 2> */
    MSC_TRY(expect_word(r, "expected an element type"));
    take_if(r, ":");
    return take_items(r, ">", out);
  }
  if (word[0] == '#' && take_if(r, "<")) { /* #stablehlo.gather<...>; #stablehlo<precision DEFAULT> */
    const char *inner = r->p, *first = take_word(r);
    bool members = first && see(r, "=");
    r->p = inner;
    if (!members) return skip_angles(r);
    *out = (hlo_value){.kind = HLO_DICT};
    return take_members(r, ">", &out->num, &out->item);
  }
  return true;
}

static bool take_value(parser *r, hlo_value *out) {
  bool ok;
  skip_space(r);
  if (++r->depth > HLO_MAX_DEPTH) return fault(r, "values are too deep");
  char c = r->p < r->end ? *r->p : 0;
  if (c == '[') ok = take_lists(r, out);
  else if (c == '"') {
    *out = (hlo_value){.kind = HLO_TEXT, .s = take_text(r)};
    ok = out->s != NULL;
  } else if (c == '{') {
    r->p++;
    *out = (hlo_value){.kind = HLO_DICT};
    ok = take_members(r, "}", &out->num, &out->item);
  } else if (c == '-' || (c >= '0' && c <= '9')) ok = take_number_value(r, out);
  else ok = take_value_of_word(r, out);
  r->depth--;
  return ok;
}

/* ---- ops ---- */

static void add_word(parser *r, hlo_op *op, const char *word) {
  msc_grow(r->arena, op->word, op->num_words);
  op->word[op->num_words++] = word;
}

static bool take_operand(parser *r, hlo_op *op) {
  const char *name = expect_word(r, "expected a value");
  MSC_TRY(name);
  msc_grow(r->arena, op->in, op->num_in);
  op->in[op->num_in++] = name;
  return true;
}

/* A word that stands alone, or NAME = VALUE. */
static bool take_named(parser *r, hlo_op *op) {
  const char *word = expect_word(r, "expected an operand, an attribute or ':'");
  MSC_TRY(word);
  if (!take_if(r, "=")) return add_word(r, op, word), true;
  msc_grow(r->arena, op->attr, op->num_attrs);
  hlo_value *v = &op->attr[op->num_attrs++];
  MSC_TRY(take_value(r, v));
  v->name = word;
  return true;
}

/* A region in braces: blocks' arguments, then ops. */
static bool take_region(parser *r, hlo_op *op) {
  msc_grow(r->arena, op->region, op->num_regions);
  hlo_region *to = &op->region[op->num_regions++];
  *to = (hlo_region){0};
  MSC_TRY(expect_text(r, "{"));
  skip_space(r);
  if (r->p < r->end && *r->p == '^') {
    MSC_TRY(expect_word(r, "expected a block") && expect_text(r, "("));
    while (!take_if(r, ")")) {
      const char *name = expect_word(r, "expected an argument");
      MSC_TRY(name && expect_text(r, ":") && take_type(r) && take_loc(r, NULL, NULL));
      msc_grow(r->arena, to->arg, to->num_args);
      to->arg[to->num_args++] = name;
      if (!take_if(r, ",") && !see(r, ")")) return fault(r, "expected ',' or ')'");
    }
    MSC_TRY(expect_text(r, ":"));
  }
  return parse_ops(r, to, "}");
}

/* What stands between an op's name and its types, in any order. */
static bool take_parts(parser *r, hlo_op *op) {
  while (!see(r, ":")) {
    skip_space(r);
    if (r->p >= r->end) return fault(r, "expected ':'");
    if (take_if(r, ",") || take_if(r, ")") || take_if(r, "init:")) continue;
    if (*r->p == '%') MSC_TRY(take_operand(r, op));
    else if (take_if(r, "<{")) {
      MSC_TRY(take_members(r, "}", &op->num_attrs, &op->attr) && expect_text(r, ">"));
    } else if (take_if(r, "({")) {
      r->p--;
      do MSC_TRY(take_region(r, op));
      while (take_if(r, ","));
      MSC_TRY(expect_text(r, ")"));
    } else if (take_if(r, "(")) continue;
    else if (take_if(r, "{")) MSC_TRY(take_members(r, "}", &op->num_attrs, &op->attr));
    else if (*r->p == '[') {
      msc_grow(r->arena, op->list, op->num_lists);
      MSC_TRY(take_value(r, &op->list[op->num_lists]));
      op->num_lists++;
    } else if (*r->p == '}' || *r->p == '"') return fault(r, "expected ':' and the op's type");
    else MSC_TRY(take_named(r, op));
  }
  return true;
}

static bool take_types(parser *r, size_t *num, const msc_type ***type) {
  bool many = take_if(r, "(");
  if (many && take_if(r, ")")) return true;
  do {
    const msc_type *t = take_type(r);
    MSC_TRY(t);
    msc_grow(r->arena, *type, *num);
    (*type)[(*num)++] = t;
  } while (take_if(r, ","));
  return !many || expect_text(r, ")");
}

/* (in, in) -> out, or the type that all have; of select the last of its types. */
static bool take_signature(parser *r, hlo_op *op) {
  size_t num = 0;
  const msc_type **type = NULL;
  MSC_TRY(expect_text(r, ":"));
  if (see(r, "()")) take_if(r, "()"); /* no operands */
  else MSC_TRY(take_types(r, &num, &type));
  op->num_types = num;
  if (take_if(r, "->")) return take_types(r, &op->num_out, &op->out_type);
  if (!num) return true;
  op->out_type = msc_new_array(r->arena, const msc_type *, 1);
  op->out_type[0] = type[num - 1], op->num_out = 1;
  return true;
}

/* reducer(%a: type, %b: type) (%c: type, %d: type) { ops } behind a reduction's types. */
static bool take_reducer(parser *r, hlo_op *op) {
  msc_grow(r->arena, op->region, op->num_regions);
  hlo_region *to = &op->region[op->num_regions++];
  *to = (hlo_region){0};
  while (take_if(r, "(")) {
    while (!take_if(r, ")")) {
      const char *name = expect_word(r, "expected an argument");
      MSC_TRY(name && expect_text(r, ":") && take_type(r) && take_loc(r, NULL, NULL));
      msc_grow(r->arena, to->arg, to->num_args);
      to->arg[to->num_args++] = name;
      take_if(r, ",");
    }
  }
  return expect_text(r, "{") && parse_ops(r, to, "}");
}

/* stablehlo.constant dense<...> : type */
static bool take_constant(parser *r, hlo_op *op) {
  if (take_if(r, "{")) MSC_TRY(take_members(r, "}", &op->num_attrs, &op->attr));
  msc_grow(r->arena, op->attr, op->num_attrs);
  hlo_value *v = &op->attr[op->num_attrs++];
  MSC_TRY(take_value(r, v));
  if (v->kind != HLO_DENSE) return fault(r, "expected dense<...>");
  v->name = "value";
  op->out_type = msc_new_array(r->arena, const msc_type *, 1);
  op->out_type[0] = v->type, op->num_out = 1;
  return true;
}

/* return %1, %2 : types */
static bool take_return(parser *r, hlo_op *op) {
  size_t num = 0;
  const msc_type **type = NULL;
  skip_space(r);
  while (r->p < r->end && *r->p == '%') {
    MSC_TRY(take_operand(r, op));
    take_if(r, ",");
    skip_space(r);
  }
  return !op->num_in || (expect_text(r, ":") && take_types(r, &num, &type));
}

static bool take_results(parser *r, hlo_op *op) {
  skip_space(r);
  if (r->p >= r->end || *r->p != '%') return true;
  do {
    const char *name = expect_word(r, "expected a result");
    MSC_TRY(name);
    msc_grow(r->arena, op->result, op->num_names);
    op->result[op->num_names++] = name;
    if (take_if(r, ":")) (void)strtoul(r->p, (char **)&r->p, 10); /* %1:2; the types say it again */
  } while (take_if(r, ","));
  return expect_text(r, "=");
}

static bool take_op(parser *r, hlo_op *op) {
  *op = (hlo_op){0};
  if (++r->num_ops > HLO_MAX_OPS) return fault(r, "there are too many ops");
  if (++r->depth > HLO_MAX_DEPTH) return fault(r, "regions are too deep");
  MSC_TRY(take_results(r, op));
  skip_space(r);
  op->loc = here(r);
  op->name = *r->p == '"' ? take_text(r) : expect_word(r, "expected an op");
  MSC_TRY(op->name);
  if (!strcmp(op->name, "stablehlo.while"))
    return msc_error(r->ctx, MSC_E_UNSUPPORTED, op->loc,
                     "stablehlo.while: loops are not read; JAX writes those of a "
                     "fixed length out with unroll=True");
  bool ends = !strcmp(op->name, "return") || !strcmp(op->name, "func.return") || !strcmp(op->name, "stablehlo.return");
  if (ends && !see(r, "(")) MSC_TRY(take_return(r, op));
  else if (!strcmp(op->name, "stablehlo.constant") && !see(r, "(")) MSC_TRY(take_constant(r, op));
  else {
    MSC_TRY(take_parts(r, op) && take_signature(r, op));
    if (take_if(r, "reducer")) MSC_TRY(take_reducer(r, op));
  }
  r->depth--;
  return take_loc(r, &op->loc, NULL);
}

static bool parse_ops(parser *r, hlo_region *to, const char *until) {
  while (!take_if(r, until)) {
    hlo_op op;
    MSC_TRY(take_op(r, &op));
    msc_grow(r->arena, to->op, to->num_ops);
    to->op[to->num_ops++] = op;
  }
  return true;
}

/* ---- functions ---- */

static bool take_args(parser *r, hlo_func *f) {
  MSC_TRY(expect_text(r, "("));
  while (!take_if(r, ")")) {
    hlo_arg a = {0};
    a.name = expect_word(r, "expected an argument");
    MSC_TRY(a.name && expect_text(r, ":") && (a.type = take_type(r)));
    if (take_if(r, "{")) MSC_TRY(take_members(r, "}", &a.num_attrs, &a.attr));
    MSC_TRY(take_loc(r, NULL, &a.said));
    msc_grow(r->arena, f->arg, f->num_args);
    f->arg[f->num_args++] = a;
    if (!take_if(r, ",") && !see(r, ")")) return fault(r, "expected ',' or ')'");
  }
  return true;
}

static const char *text_member(size_t num, const hlo_value *member, const char *name) {
  for (size_t i = 0; i < num; i++)
    if (!strcmp(member[i].name, name) && member[i].kind == HLO_TEXT) return member[i].s;
  return NULL;
}

static bool take_func_results(parser *r, hlo_func *f) {
  if (!take_if(r, "->")) return true;
  bool many = take_if(r, "(");
  if (many && take_if(r, ")")) return true;
  do {
    size_t num = 0;
    hlo_value *member = NULL;
    MSC_TRY(take_type(r));
    if (many && take_if(r, "{")) MSC_TRY(take_members(r, "}", &num, &member));
    msc_grow(r->arena, f->result, f->num_results);
    f->result[f->num_results++] = text_member(num, member, "jax.result_info");
  } while (take_if(r, ","));
  return !many || expect_text(r, ")");
}

static bool take_func(parser *r, hlo_func *f) {
  f->loc = here(r);
  if (!take_if(r, "public")) take_if(r, "private");
  const char *name = expect_word(r, "expected the name of a function");
  MSC_TRY(name);
  f->name = name[0] == '@' ? msc_intern(r->ctx, name + 1) : name;
  MSC_TRY(take_args(r, f) && take_func_results(r, f));
  if (take_if(r, "attributes")) MSC_TRY(expect_text(r, "{") && take_members(r, "}", &f->num_attrs, &f->attr));
  MSC_TRY(expect_text(r, "{") && parse_ops(r, &f->body, "}"));
  return take_loc(r, NULL, NULL);
}

/* Skips #loc = ..., sdy.mesh @mesh = <...> and the like, to the end of their line. */
static void skip_line(parser *r) {
  while (r->p < r->end && *r->p != '\n') r->p++;
}

static bool parse_module(parser *r, hlo_module *m) {
  size_t num = 0;
  hlo_value *attr = NULL;
  while (see(r, "#") || (r->p < r->end && *r->p == '#')) skip_line(r);
  MSC_TRY(expect_text(r, "module"));
  skip_space(r);
  if (*r->p == '@') MSC_TRY(expect_word(r, "expected a name"));
  if (take_if(r, "attributes")) MSC_TRY(expect_text(r, "{") && take_members(r, "}", &num, &attr));
  MSC_TRY(expect_text(r, "{"));
  while (!take_if(r, "}")) {
    hlo_func f = {0};
    if (!take_if(r, "func.func")) {
      if (!see(r, "sdy.mesh")) return fault(r, "expected func.func");
      skip_line(r);
      continue;
    }
    MSC_TRY(take_func(r, &f));
    msc_grow(r->arena, m->func, m->num_funcs);
    m->func[m->num_funcs++] = f;
  }
  MSC_TRY(take_loc(r, NULL, NULL));
  for (skip_space(r); r->p < r->end && *r->p == '#'; skip_space(r)) skip_line(r);
  return r->p >= r->end || fault(r, "expected the end of the text");
}

hlo_module *hlo_parse(msc_context *ctx, msc_arena *arena, const char *file, const char *text, size_t bytes) {
  parser r = {.ctx = ctx,
              .arena = arena,
              .file = msc_intern(ctx, file),
              .text = text,
              .end = text + bytes,
              .p = text,
              .line_at = text,
              .line = 1};
  r.named.index.arena = arena;
  hlo_module *m = msc_new(arena, hlo_module);
  note_named_locs(&r);
  return parse_module(&r, m) ? m : NULL;
}
