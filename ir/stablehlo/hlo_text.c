/* hlo_text.c: StableHLO text in; its words, types, locations and attributes out (see hlo_text.h). */
#include "ir/stablehlo/hlo_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- places and faults ---- */

const msc_loc *hlo_here(hlo_text *r) {
  for (; r->line_at < r->p; r->line_at++)
    if (*r->line_at == '\n') r->line++;
  const char *begin = r->p;
  while (begin > r->text && begin[-1] != '\n') begin--;
  return msc_loc_of(r->ctx, &(msc_loc){.file = r->file, .line = r->line, .col = (uint32_t)(r->p - begin) + 1});
}

bool hlo_fault(hlo_text *r, const char *what) {
  size_t n = strcspn(r->p, " \t\r\n,()<>{}[]:=");
  if (n == 0 && r->p < r->end) n = 1;
  return n ? msc_error(r->ctx, MSC_E_SYNTAX, hlo_here(r), "%s, not '%.*s'", what, (int)(n < 40 ? n : 40), r->p)
           : msc_error(r->ctx, MSC_E_SYNTAX, hlo_here(r), "%s, not the end of the text", what);
}

/* ---- words ---- */

void hlo_skip_space(hlo_text *r) {
  for (;;) {
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p) r->p++;
    if (r->end - r->p < 2 || r->p[0] != '/' || r->p[1] != '/') return;
    while (r->p < r->end && *r->p != '\n') r->p++;
  }
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '$';
}

bool hlo_see(hlo_text *r, const char *what) {
  hlo_skip_space(r);
  size_t n = strlen(what);
  if ((size_t)(r->end - r->p) < n || memcmp(r->p, what, n) != 0) return false;
  return !is_word_char(what[n - 1]) || r->p + n == r->end || !is_word_char(r->p[n]);
}

bool hlo_take_if(hlo_text *r, const char *what) {
  if (!hlo_see(r, what)) return false;
  r->p += strlen(what);
  return true;
}

bool hlo_expect(hlo_text *r, const char *what) {
  char wanted[32];
  if (hlo_take_if(r, what)) return true;
  snprintf(wanted, sizeof wanted, "expected '%s'", what);
  return hlo_fault(r, wanted);
}

/* A word, with a sigil of % @ # ! in front if there is one; NULL, without a report: there is none. */
static const char *take_word(hlo_text *r) {
  hlo_skip_space(r);
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

const char *hlo_expect_word(hlo_text *r, const char *what) {
  const char *w = take_word(r);
  if (!w) hlo_fault(r, what);
  return w;
}

/* A text in quotes, with its escapes \" \\ \n and \HH resolved; NULL after a report. */
const char *hlo_take_text(hlo_text *r) {
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
  if (r->p >= r->end) return hlo_fault(r, "a text has no end"), NULL;
  r->p++;
  return msc_intern_n(r->ctx, to, (size_t)(at - to));
}

/* ---- types ---- */

/* StableHLO's ui8 is u8 here; other names are the same. */
static bool dtype_called(const char *name, size_t n, msc_dtype *out) {
  char own[8];
  bool is_unsigned = n > 2 && !memcmp(name, "ui", 2);
  if (n >= sizeof own) return false;
  snprintf(own, sizeof own, "%s%.*s", is_unsigned ? "u" : "", (int)(n - 2 * is_unsigned), name + 2 * is_unsigned);
  return msc_dtype_parse(own, out);
}

static const msc_type *take_tensor(hlo_text *r) {
  int64_t dim[MSC_MAX_RANK];
  int rank = 0;
  msc_dtype dtype;
  const char *from = r->p;
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
    char *end;
    long long size = strtoll(r->p, &end, 10);
    if (end >= r->end || *end != 'x') break;
    if (rank == MSC_MAX_RANK) return hlo_fault(r, "a tensor has more dimensions than msc has"), NULL;
    if (size < 1) return hlo_fault(r, "a tensor has at least one element"), NULL;
    dim[rank++] = size;
    r->p = end + 1;
  }
  if (r->p < r->end && *r->p == '?') return hlo_fault(r, "expected a size: dimensions must be known"), NULL;
  size_t n = 0;
  while (r->p + n < r->end && is_word_char(r->p[n])) n++;
  if (!dtype_called(r->p, n, &dtype)) return hlo_fault(r, "expected an element type that msc has"), NULL;
  r->p += n;
  if (!hlo_expect(r, ">")) return NULL;
  double elems = 1;
  for (int d = 0; d < rank; d++) elems *= (double)dim[d];
  if (elems > 1e15) return r->p = from, hlo_fault(r, "the tensor is too large"), NULL;
  return msc_type_of(r->ctx, dtype, rank, dim, NULL);
}

/* Reads a type; NULL after a report. */
const msc_type *hlo_take_type(hlo_text *r) {
  if (hlo_take_if(r, "tensor<")) return take_tensor(r);
  return hlo_fault(r, "expected a type: tensor<...>"), NULL;
}

/* ---- locations ---- */

static bool skip_loc(hlo_text *r) {
  int depth = 1;
  while (r->p < r->end && depth) {
    if (*r->p == '"') {
      if (!hlo_take_text(r)) return false;
      continue;
    }
    depth += *r->p == '(' ? 1 : *r->p == ')' ? -1 : 0;
    r->p++;
  }
  return !depth || hlo_fault(r, "a location has no end");
}

/* Reads a location from `at`, which is behind "loc(": its first "file":line:column, and its first text that is no
 * file. */
static void read_loc(hlo_text *r, const char *at, int depth, msc_loc *out, const char **out_said) {
  enum { MOST_STEPS = 256 };
  const char *own = r->p;
  if (++r->loc_steps > MOST_STEPS || depth > HLO_MAX_DEPTH) return;
  r->p = at;
  for (int open = 1; r->p < r->end && open > 0 && !out->line;) {
    hlo_skip_space(r);
    if (*r->p == '"') {
      const char *text = hlo_take_text(r);
      if (!text) break;
      if (hlo_take_if(r, ":")) {
        out->file = text, out->line = (uint32_t)strtoul(r->p, (char **)&r->p, 10);
        if (hlo_take_if(r, ":")) out->col = (uint32_t)strtoul(r->p, (char **)&r->p, 10);
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
bool hlo_take_loc(hlo_text *r, const msc_loc **out, const char **out_said) {
  msc_loc found = {0};
  const char *said = NULL;
  if (!hlo_take_if(r, "loc(")) return true;
  const char *at = r->p;
  r->loc_steps = 0;
  MSC_TRY(skip_loc(r));
  read_loc(r, at, 0, &found, &said);
  if (out && found.line) *out = msc_loc_of(r->ctx, &found);
  if (out_said) *out_said = said;
  return true;
}

/* Finds all #loc3 = loc(...), which stand in front of the module and behind it. */
void hlo_note_locs(hlo_text *r) {
  const char *own = r->p;
  for (const char *line = r->text; line && line < r->end;) {
    r->p = line;
    const char *name = *line == '#' ? take_word(r) : NULL;
    if (name && hlo_take_if(r, "=") && hlo_take_if(r, "loc(")) msc_table_at(&r->named, &name)->at = r->p;
    line = memchr(line, '\n', (size_t)(r->end - line));
    if (line) line++;
  }
  r->p = own;
}

/* ---- values of attributes ---- */

/* Items until `close`, which is taken; 0:4:2 is a list of three. */
static bool take_items(hlo_text *r, const char *close, hlo_value *list) {
  *list = (hlo_value){.kind = HLO_LIST, .name = list->name};
  while (!hlo_take_if(r, close)) {
    msc_grow(r->arena, list->item, list->num);
    hlo_value *item = &list->item[list->num];
    MSC_TRY(hlo_take_value(r, item));
    list->num++;
    if (hlo_see(r, ":")) {
      hlo_value range = {.kind = HLO_LIST};
      do {
        msc_grow(r->arena, range.item, range.num);
        if (range.num == 0) range.item[range.num++] = *item;
        else MSC_TRY(hlo_take_value(r, &range.item[range.num++]));
      } while (hlo_take_if(r, ":"));
      list->item[list->num - 1] = range;
    }
    if (!hlo_take_if(r, ",") && !hlo_see(r, close)) return hlo_fault(r, "expected ',' or the end of a list");
  }
  return true;
}

/* Members NAME = VALUE, or NAME alone, until `close`. */
bool hlo_take_members(hlo_text *r, const char *close, size_t *num, hlo_value **member) {
  while (!hlo_take_if(r, close)) {
    hlo_skip_space(r);
    const char *name = *r->p == '"' ? hlo_take_text(r) : hlo_expect_word(r, "expected the name of an attribute");
    MSC_TRY(name);
    msc_grow(r->arena, *member, *num);
    hlo_value *m = &(*member)[(*num)++];
    *m = (hlo_value){.kind = HLO_WORD, .name = name, .s = "true"};
    if (hlo_take_if(r, "=")) MSC_TRY(hlo_take_value(r, m));
    m->name = name;
    if (!hlo_take_if(r, ",") && !hlo_see(r, close)) return hlo_fault(r, "expected ',' or the end of attributes");
  }
  return true;
}

/* The number at p; also true, false, and bits of a float as 0x7FC00000. */
static bool take_literal_number(hlo_text *r, msc_dtype dtype, double *out) {
  char *end;
  hlo_skip_space(r);
  if (hlo_take_if(r, "true")) return *out = 1, true;
  if (hlo_take_if(r, "false")) return *out = 0, true;
  if (!strncmp(r->p, "0x", 2) && msc_is_float(dtype)) {
    uint64_t bits = strtoull(r->p, &end, 16);
    msc_tensor t = msc_tensor_new(r->arena, msc_type_of(r->ctx, dtype, 0, NULL, NULL));
    memcpy(t.data, &bits, (size_t)msc_dtype_bytes(dtype));
    *out = msc_tensor_get(&t, 0);
  } else *out = strtod(r->p, &end);
  if (end == r->p || end > r->end) return hlo_fault(r, "expected a number");
  r->p = end;
  return true;
}

static bool fill_dense(hlo_text *r, msc_tensor *t, int64_t *at, int64_t num, int depth) {
  double v;
  if (depth > MSC_MAX_RANK + 1) return hlo_fault(r, "brackets are too deep");
  if (!hlo_take_if(r, "[")) {
    MSC_TRY(take_literal_number(r, t->type->dtype, &v));
    if (*at >= num) return hlo_fault(r, "there are more elements than the type has");
    msc_tensor_set(t, (*at)++, v);
    return true;
  }
  while (!hlo_take_if(r, "]")) {
    MSC_TRY(fill_dense(r, t, at, num, depth + 1));
    if (!hlo_take_if(r, ",") && !hlo_see(r, "]")) return hlo_fault(r, "expected ',' or ']'");
  }
  return true;
}

/* "0x0000803F..." : the bytes of the elements, or of the one that all are. */
static bool fill_from_hex(hlo_text *r, const char *hex, msc_tensor *t) {
  size_t bytes = (size_t)msc_type_bytes(t->type), one = (size_t)msc_dtype_bytes(t->type->dtype), n = strlen(hex);
  if (n < 2 || memcmp(hex, "0x", 2) || n % 2 || ((n - 2) / 2 != bytes && (n - 2) / 2 != one))
    return hlo_fault(r, "expected as many bytes as the type has");
  size_t given = (n - 2) / 2;
  for (size_t i = 0; i < bytes; i++) {
    char digits[3] = {hex[2 + 2 * (i % given)], hex[3 + 2 * (i % given)], 0}, *end;
    ((uint8_t *)t->data)[i] = (uint8_t)strtoul(digits, &end, 16);
    if (*end) return hlo_fault(r, "expected hexadecimal digits");
  }
  return true;
}

/* Reads dense<...> : type, whose type stands behind the elements. */
static bool take_dense(hlo_text *r, hlo_value *out) {
  const char *elements = r->p;
  int depth = 0;
  for (; r->p < r->end && (depth || *r->p != '>'); r->p++) {
    if (*r->p == '"') {
      MSC_TRY(hlo_take_text(r));
      r->p--;
    }
    depth += *r->p == '[' ? 1 : *r->p == ']' ? -1 : 0;
  }
  MSC_TRY(hlo_expect(r, ">") && hlo_expect(r, ":"));
  const msc_type *type = hlo_take_type(r);
  MSC_TRY(type);
  const char *behind = r->p;
  int64_t num = msc_type_elems(type), at = 0;
  msc_tensor t = msc_tensor_new(msc_context_arena(r->ctx), type);
  r->p = elements;
  hlo_skip_space(r);
  if (*r->p == '"') {
    const char *hex = hlo_take_text(r);
    MSC_TRY(hex && fill_from_hex(r, hex, &t));
  } else if (*r->p != '>') {
    MSC_TRY(fill_dense(r, &t, &at, num, 0));
    if (at != num && at != 1) return hlo_fault(r, "there are fewer elements than the type has");
    for (int64_t i = 1; at == 1 && i < num; i++) msc_tensor_set(&t, i, msc_tensor_get(&t, 0));
  }
  MSC_TRY(hlo_expect(r, ">"));
  r->p = behind;
  *out = (hlo_value){.kind = HLO_DENSE, .type = type, .data = t.data};
  return true;
}

static bool take_number_value(hlo_text *r, hlo_value *out) {
  char *end;
  *out = (hlo_value){.kind = HLO_INT, .i = strtoll(r->p, &end, 0)};
  if (end == r->p || end > r->end) return hlo_fault(r, "expected a value");
  if (*end == '.' || *end == 'e' || *end == 'E') *out = (hlo_value){.kind = HLO_FLOAT, .f = strtod(r->p, &end)};
  r->p = end;
  if (hlo_see(r, ": ") || hlo_see(r, ":")) { /* 1 : i64 */
    const char *own = r->p;
    r->p++;
    const char *type = take_word(r);
    if (!type || !strchr("iuf", *type)) r->p = own;
  }
  return true;
}

/* [1] x [0], [b, 0]x[0, o]->[b, 0]: a list of lists. */
static bool take_lists(hlo_text *r, hlo_value *out) {
  hlo_value all = {.kind = HLO_LIST}, one = {0};
  do {
    MSC_TRY(hlo_expect(r, "["));
    MSC_TRY(take_items(r, "]", &one));
    msc_grow(r->arena, all.item, all.num);
    all.item[all.num++] = one;
    hlo_skip_space(r);
    const char *own = r->p;
    if (r->p < r->end && *r->p == 'x') r->p++;
    else if (!hlo_take_if(r, "->")) break;
    hlo_skip_space(r);
    if (r->p >= r->end || *r->p != '[') {
      r->p = own;
      break;
    }
  } while (true);
  *out = all.num == 1 ? all.item[0] : all;
  return true;
}

/* Skips an attribute that no builder reads, such as #stablehlo<precision DEFAULT>, from behind its '<'. */
static bool skip_angles(hlo_text *r) {
  for (int depth = 1; r->p < r->end && depth; r->p++) depth += *r->p == '<' ? 1 : *r->p == '>' ? -1 : 0;
  return r->p < r->end || hlo_fault(r, "expected '>'");
}

static bool take_value_of_word(hlo_text *r, hlo_value *out) {
  const char *word = take_word(r);
  if (!word) return hlo_fault(r, "expected a value");
  *out = (hlo_value){.kind = HLO_WORD, .s = word};
  if (!strcmp(word, "dense") && hlo_take_if(r, "<")) return take_dense(r, out);
  if (!strcmp(word, "array") && hlo_take_if(r, "<")) { /* array<i64: 1, 2> */
    MSC_TRY(hlo_expect_word(r, "expected an element type"));
    hlo_take_if(r, ":");
    return take_items(r, ">", out);
  }
  if (word[0] == '#' && hlo_take_if(r, "<")) { /* #stablehlo.gather<...>; #stablehlo<precision DEFAULT> */
    const char *inner = r->p, *first = take_word(r);
    bool members = first && hlo_see(r, "=");
    r->p = inner;
    if (!members) return skip_angles(r);
    *out = (hlo_value){.kind = HLO_DICT};
    return hlo_take_members(r, ">", &out->num, &out->item);
  }
  return true;
}

bool hlo_take_value(hlo_text *r, hlo_value *out) {
  bool ok;
  hlo_skip_space(r);
  if (++r->depth > HLO_MAX_DEPTH) return hlo_fault(r, "values are too deep");
  char c = r->p < r->end ? *r->p : 0;
  if (c == '[') ok = take_lists(r, out);
  else if (c == '"') {
    *out = (hlo_value){.kind = HLO_TEXT, .s = hlo_take_text(r)};
    ok = out->s != NULL;
  } else if (c == '{') {
    r->p++;
    *out = (hlo_value){.kind = HLO_DICT};
    ok = hlo_take_members(r, "}", &out->num, &out->item);
  } else if (c == '-' || (c >= '0' && c <= '9')) ok = take_number_value(r, out);
  else ok = take_value_of_word(r, out);
  r->depth--;
  return ok;
}
