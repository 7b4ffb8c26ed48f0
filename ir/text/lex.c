/* lex.c: the bytes of IR text in; tokens with their places out.  Also the parser's functions for single tokens. */
#include <string.h>

#include "ir/text/text.h"

/* Like the functions below, the same in every locale, which the C library's are not. */
static bool is_hex(char c) { return msc_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_word(char c) { return msc_is_letter(c) || msc_is_digit(c) || c == '$' || c == '.'; }
static bool is_suffix(char c) { return is_word(c) || c == '-'; } /* of %x, ^bb0, #1 */

msc_lexer msc_lexer_of(const char *text, size_t bytes) {
  return (msc_lexer){.p = text, .end = text + bytes, .line_start = text, .line = 1};
}

/* A golden case's input ends at the line `// EXPECT`. */
static bool at_expect(const msc_lexer *x) {
  static const char mark[] = "// EXPECT";
  size_t n = sizeof mark - 1;
  if (x->p != x->line_start || (size_t)(x->end - x->p) < n || memcmp(x->p, mark, n) != 0) return false;
  return x->p + n == x->end || x->p[n] == '\n' || x->p[n] == '\r';
}

static void skip_blank(msc_lexer *x) {
  while (x->p < x->end) {
    char c = *x->p;
    if (c == '\n') {
      x->line++;
      x->line_start = ++x->p;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      x->p++;
    } else if (c == '/' && x->end - x->p > 1 && x->p[1] == '/') {
      if (at_expect(x)) x->end = x->p;
      else
        while (x->p < x->end && *x->p != '\n') x->p++;
    } else {
      return;
    }
  }
}

static void skip_while(msc_lexer *x, bool (*is)(char)) {
  while (x->p < x->end && is(*x->p)) x->p++;
}

static char peek(const msc_lexer *x, ptrdiff_t n) { return x->end - x->p > n ? x->p[n] : '\0'; }

static int bad(msc_lexer *x, const char *why) {
  x->bad = why;
  return MSC_TOK_BAD;
}

static int lex_number(msc_lexer *x) {
  if (*x->p == '-') x->p++;
  if (*x->p == '0' && peek(x, 1) == 'x' && is_hex(peek(x, 2))) {
    x->p += 2;
    skip_while(x, is_hex);
    return MSC_TOK_INT;
  }
  skip_while(x, msc_is_digit);
  if (peek(x, 0) != '.') return MSC_TOK_INT;
  x->p++;
  skip_while(x, msc_is_digit);
  char e = peek(x, 0), sign = peek(x, 1);
  bool has_sign = sign == '+' || sign == '-';
  if ((e == 'e' || e == 'E') && msc_is_digit(peek(x, 1 + has_sign))) {
    x->p += 1 + has_sign;
    skip_while(x, msc_is_digit);
  }
  return MSC_TOK_FLOAT;
}

static const char *bad_escape(const msc_lexer *x) {
  char a = peek(x, 1), b = peek(x, 2);
  if (a == '0' && b == '0') return "a string cannot hold a NUL byte";
  bool known = a == '"' || a == '\\' || a == 'n' || a == 't' || (is_hex(a) && is_hex(b));
  return known ? NULL : "unknown escape: \\\\, \\\", \\n, \\t and two hexadecimal digits are known";
}

/* Reads a text in quotes.  After a bad character it goes on to the closing quote, so that the next token is the right
 * one. */
static int lex_string(msc_lexer *x) {
  for (x->p++; x->p < x->end && *x->p != '"' && *x->p != '\n'; x->p++) {
    const char *why = *x->p == '\0' ? "a string cannot hold a NUL byte" : *x->p == '\\' ? bad_escape(x) : NULL;
    if (why && !x->bad_at) x->bad = why, x->bad_at = x->p;
    if (*x->p == '\\' && (peek(x, 1) == '"' || peek(x, 1) == '\\')) x->p++;
  }
  if (peek(x, 0) != '"') return x->bad_at = NULL, bad(x, "the string is not closed on its line");
  x->p++;
  return x->bad_at ? MSC_TOK_BAD : MSC_TOK_STRING;
}

static int lex_sigil(msc_lexer *x, int kind, const char *why) {
  x->p++;
  const char *name = x->p;
  skip_while(x, is_suffix);
  return x->p > name ? kind : bad(x, why);
}

static int lex(msc_lexer *x) {
  char c = *x->p;
  if (msc_is_letter(c)) return skip_while(x, is_word), MSC_TOK_WORD;
  if (msc_is_digit(c) || (c == '-' && msc_is_digit(peek(x, 1)))) return lex_number(x);
  switch (c) {
    case '"': return lex_string(x);
    case '%': return lex_sigil(x, MSC_TOK_VALUE, "a value's name must follow %");
    case '^': return lex_sigil(x, MSC_TOK_BLOCK, "a block's name must follow ^");
    case '#': return lex_sigil(x, MSC_TOK_HASH, "a name must follow #");
    case '-':
      if (peek(x, 1) == '>') return x->p += 2, MSC_TOK_ARROW;
      break;
    case '(':
    case ')':
    case '[':
    case ']':
    case '{':
    case '}':
    case '<':
    case '>':
    case ',':
    case ':':
    case '=':
    case '?': return x->p++, c;
  }
  x->p++;
  return bad(x, "a character that has no meaning here");
}

static msc_token next_token(msc_lexer *x) {
  uint32_t line = x->line;
  bool at_start = x->p == x->line_start;
  skip_blank(x);
  msc_token t = {.kind = MSC_TOK_END, .line = x->line, .at = x->p, .first = at_start || x->line != line};
  x->bad_at = NULL;
  if (x->p < x->end) t.kind = lex(x);
  t.num = (size_t)(x->p - t.at);
  if (x->bad_at) t.at = x->bad_at, t.num = *t.at == '\\' ? 2 : 1;
  t.col = (uint32_t)(t.at - x->line_start) + 1;
  return t;
}

/* ---- the parser's view ---- */

void msc_advance(msc_parser *p) { p->tok = next_token(&p->lex); }

bool msc_take(msc_parser *p, int kind) {
  if (p->tok.kind != kind) return false;
  msc_advance(p);
  return true;
}

bool msc_is_word(const msc_parser *p, const char *word) {
  return p->tok.kind == MSC_TOK_WORD && p->tok.num == strlen(word) && memcmp(p->tok.at, word, p->tok.num) == 0;
}

bool msc_take_word(msc_parser *p, const char *word) {
  if (!msc_is_word(p, word)) return false;
  msc_advance(p);
  return true;
}

bool msc_expect(msc_parser *p, int kind, const char *what) { return msc_take(p, kind) || msc_unexpected(p, what); }

const msc_loc *msc_loc_at(const msc_parser *p, msc_token at) {
  return msc_loc_of(p->ctx, &(msc_loc){.file = p->file, .line = at.line, .col = at.col, .implied = true});
}

bool msc_syntax(msc_parser *p, msc_token at, const char *fmt, ...) {
  if (p->num_syntax_errors > MSC_MAX_SYNTAX_ERRORS) return false;
  if (p->num_syntax_errors++ == MSC_MAX_SYNTAX_ERRORS) { /* probably no IR text at all */
    p->lex.p = p->lex.end;
    return msc_error(p->ctx, MSC_E_SYNTAX, msc_loc_at(p, at), "more than %d syntax errors: reading stops here",
                     MSC_MAX_SYNTAX_ERRORS);
  }
  va_list ap;
  va_start(ap, fmt);
  msc_verror(p->ctx, MSC_DIAG_ERROR, MSC_E_SYNTAX, msc_loc_at(p, at), NULL, fmt, ap);
  va_end(ap);
  return false;
}

bool msc_unexpected(msc_parser *p, const char *what) {
  if (p->tok.kind == MSC_TOK_BAD) return msc_syntax(p, p->tok, "%s: %s", p->lex.bad, msc_token_text(p, p->tok));
  return msc_syntax(p, p->tok, "expected %s, not %s", what, msc_token_text(p, p->tok));
}

bool msc_nest(msc_parser *p) {
  if (p->depth >= MSC_MAX_NESTING) return msc_syntax(p, p->tok, "nested more than %d deep", MSC_MAX_NESTING);
  p->depth++;
  return true;
}

const char *msc_token_text(const msc_parser *p, msc_token t) {
  enum { SHOWN = 32 };
  if (t.kind == MSC_TOK_END) return "the end of the text";
  char out[4 * SHOWN + 1], *o = out;
  for (size_t i = 0; i < t.num && i < SHOWN; i++) {
    unsigned char c = (unsigned char)t.at[i];
    if (c >= ' ' && c < 0x7f) *o++ = (char)c;
    else o += snprintf(o, 4, "\\%02X", c);
  }
  *o = 0;
  return msc_arena_printf(p->scratch, "'%s%s'", out, t.num > SHOWN ? "..." : "");
}

static unsigned hex_value(char c) { return msc_is_digit(c) ? (unsigned)(c - '0') : ((unsigned)c & 31) + 9; }

const char *msc_token_string(const msc_parser *p, msc_token t) {
  const char *s = t.at + 1, *end = t.at + t.num - 1;
  if (!memchr(s, '\\', (size_t)(end - s))) return msc_intern_n(p->ctx, s, (size_t)(end - s));
  char *out = msc_arena_alloc(p->scratch, (size_t)(end - s)), *o = out;
  while (s < end) {
    if (*s != '\\') {
      *o++ = *s++;
    } else if (is_hex(s[1])) {
      *o++ = (char)(hex_value(s[1]) << 4 | hex_value(s[2]));
      s += 3;
    } else {
      *o++ = s[1] == 'n' ? '\n' : s[1] == 't' ? '\t' : s[1];
      s += 2;
    }
  }
  return msc_intern_n(p->ctx, out, (size_t)(o - out));
}
