/* text.c: a kernel's program as text, and back to the same bytes.
 *
 *   nest row lanes 8 phases 3 dims 1 {
 *     axis items                                axes a0, a1 ... from the outermost; lane, across, chunk, clipped d2,
 *     axis reduced size d0 lane                 team: what else lies along it; `baked 16`: its size is in the code
 *     buffer f32                                buffers b0, b1 ...; out: written; flag: of errors
 *     buffer f32 out
 *     %1 = load f32 b0[a0: d0, a1]              the place: each axis and its step, where there is one; then the first
 *     %2 = reduce f32 loose_max %1, phase 1     element; d0 is dims[0]
 *     ...
 *     store f32 b1[a0: d0, a1] %6, phase 3      roots have numbers, too, but no names: nobody asks for their values
 *   }
 *
 * Operands that are missing before others are `none`.  What an instruction varies along follows from its place and its
 * operands. */
#include <stddef.h>
#include <string.h>

#include "ir/text/text.h"
#include "passes/7_lower/nest/nester.h"

static const char *const kinds[] = {"map", "row", "column", "transpose", "scatter"};
static const char *const groups[] = {"items", "reduced", "tail"};
static const char *const reductions[] = {
#define REDUCTION(NAME, word, between) #word,
#include "ir/verb.def"
    "loose_max"};
static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge", "below"};
static const char *const faults[] = {"none", "index", "division"};
static const char *const at_once[] = {"in_order", "at_once"};

_Static_assert(sizeof reductions / sizeof *reductions == NEST_LOOSE_MAX + 1, "loose_max follows the reductions");

/* Words of a kind of `imm`, or none. */
static int find_imm_words(msc_nest_imm imm, const char *const **out_words) {
  switch (imm) {
    case NEST_IMM_AT_ONCE: return *out_words = at_once, 2;
    case NEST_IMM_FAULT: return *out_words = faults, 3;
    case NEST_IMM_REDUCTION: return *out_words = reductions, NEST_LOOSE_MAX + 1;
    case NEST_IMM_PREDICATE: return *out_words = predicates, 7;
    default: return 0;
  }
}

/* "loose_max" of "LOOSE_MAX" */
static const char *lower(const char *name, char out[16]) {
  int i = 0;
  for (; name[i]; i++) out[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
  out[i] = 0;
  return out;
}

static uint16_t varies_along(const msc_program_head *h, const msc_instr *all, const msc_instr *in) {
  uint16_t axes = 0;
  for (int a = 0; a < MSC_NEST_AXES; a++) axes |= (uint16_t)((in->at.coef[a] != 0) << a);
  for (int k = 0; k < 3; k++) axes |= all[in->arg[k]].axes;
  return in->code == NEST_REDUCE ? axes & (uint16_t) ~(in->level ? h->tail : h->reduced) : axes;
}

/* ---- printing ---- */

static void append_words(msc_text *t, const char *fmt, ...) MSC_PRINTF(2, 3);
static void append_words(msc_text *t, const char *fmt, ...) {
  char text[100];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  msc_text_write(t, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static void put_word(msc_text *t, const char *const *words, int num, int i) {
  if (i >= 0 && i < num) append_words(t, "%s", words[i]);
  else append_words(t, "%d", i);
}

static void write_slot(msc_text *t, uint8_t slot) {
  append_words(t, slot < 2 ? "%d" : "d%d", slot < 2 ? slot : slot - 2);
}

static void write_dtype(msc_text *t, uint8_t d) {
  append_words(t, "%s", d < MSC_NUM_DTYPES ? msc_dtype_name((msc_dtype)d) : "scratch");
}

/* ---- the head: facts of all of the program ---- */

typedef enum { BYTE, WORD, FLAG, SLOT } fact_kind;

/* Numbers of a program by name; those that are 0 are not written. */
static const struct {
  const char *word;
  fact_kind kind;
  size_t at;   /* in msc_program_head */
  int64_t most;
} facts[] = {
  {"gpu", FLAG, offsetof(msc_program_head, is_gpu), 1},
  {"lanes", BYTE, offsetof(msc_program_head, lanes), UINT8_MAX},
  {"phases", BYTE, offsetof(msc_program_head, num_phases), UINT8_MAX},
  {"keeps_row", FLAG, offsetof(msc_program_head, keeps_row), 1},
  {"strands", BYTE, offsetof(msc_program_head, strands), UINT8_MAX},
  {"blocks", SLOT, offsetof(msc_program_head, blocks), 0},
  {"tail_blocks", SLOT, offsetof(msc_program_head, tail_blocks), 0},
  {"threads", WORD, offsetof(msc_program_head, threads), UINT16_MAX},
  {"team", WORD, offsetof(msc_program_head, team), UINT16_MAX},
  {"per_block", WORD, offsetof(msc_program_head, per_block), UINT16_MAX},
  {"narrow", FLAG, offsetof(msc_program_head, narrow), 1},
  {"dims", BYTE, offsetof(msc_program_head, num_dims), MSC_NEST_DIMS},
  {"scalars", BYTE, offsetof(msc_program_head, num_scalars), MSC_NEST_SCALARS},
};
enum { NUM_FACTS = sizeof facts / sizeof *facts };

static void put_head(msc_text *t, const msc_program_head *h) {
  append_words(t, "nest ");
  put_word(t, kinds, 5, h->kind);
  for (int i = 0; i < NUM_FACTS; i++) {
    const uint8_t *byte = (const uint8_t *)h + facts[i].at;
    uint16_t word = *byte;
    if (facts[i].kind == WORD) memcpy(&word, byte, sizeof word);
    if (!word) continue;
    append_words(t, " %s", facts[i].word);
    if (facts[i].kind == SLOT) append_words(t, " "), write_slot(t, *byte);
    else if (facts[i].kind != FLAG) append_words(t, " %d", word);
  }
  append_words(t, " {\n");
}

static void put_axis(msc_text *t, const msc_program_head *h, int a) {
  const uint16_t mask[] = {h->items, h->reduced, h->tail};
  append_words(t, "  axis");
  for (int g = 0; g < 3; g++)
    if (mask[g] >> a & 1) append_words(t, " %s", groups[g]);
  if (h->axis[a].baked_size) append_words(t, " baked %" PRId64, h->axis[a].baked_size);
  if (h->axis[a].size) append_words(t, " size "), write_slot(t, h->axis[a].size);
  if (a == h->lane) append_words(t, " lane");
  if (a == h->across) append_words(t, " across");
  if (a == h->chunk_axis) append_words(t, " chunk");
  if (a == h->clipped) append_words(t, " clipped "), write_slot(t, h->chunk);
  if (a == h->team_axis) append_words(t, " team");
  append_words(t, "\n");
}

static void write_slots(msc_text *t, const msc_slots *at) {
  const char *between = "[";
  for (int a = 0; a < MSC_NEST_AXES; a++) {
    if (!at->coef[a]) continue;
    append_words(t, "%sa%d", between, a);
    if (at->coef[a] > 1) append_words(t, ": "), write_slot(t, at->coef[a]);
    between = ", ";
  }
  if (at->c0 || *between == '[') append_words(t, "%s", between), write_slot(t, at->c0);
  append_words(t, "]");
}

static void put_imm(msc_text *t, const msc_instr *in, msc_nest_imm imm) {
  const char *const *words;
  int num = find_imm_words(imm, &words);
  char number[MSC_NUMBER_TEXT];
  if (num) append_words(t, " "), put_word(t, words, num, in->imm);
  else if (imm == NEST_IMM_DIM) append_words(t, " d%d", in->imm);
  else if (imm == NEST_IMM_SCALAR) append_words(t, " s%d", in->imm);
  else if (imm == NEST_IMM_HALF) append_words(t, " "), write_dtype(t, (uint8_t)in->imm);
  if (in->code != NEST_CONST) return;
  msc_float_text(MSC_F64, in->number, number);
  append_words(t, " %s", number);
}

static void put_instr(msc_text *t, const msc_program *p, int i) {
  const msc_instr *in = &p->instr[i];
  char name[16];
  if (in->code >= NEST_CODE_COUNT) {
    append_words(t, "  // %%%d is instruction %d\n", i, in->code);
    return;
  }
  append_words(t, "  ");
  if (!msc_nest_has(in, NEST_ROOT)) append_words(t, "%%%d = ", i);
  append_words(t, "%s ", lower(msc_nest_info_of(in)->name, name));
  write_dtype(t, in->dtype);
  put_imm(t, in, msc_nest_info_of(in)->imm);
  if (msc_nest_has(in, NEST_PLACE)) append_words(t, " ");
  if (msc_nest_has(in, NEST_MEMORY)) append_words(t, "b%d", in->buffer);
  if (msc_nest_has(in, NEST_PLACE)) write_slots(t, &in->at);
  for (int k = 0, num = in->arg[2] ? 3 : in->arg[1] ? 2 : in->arg[0] != 0; k < num; k++) {
    if (in->arg[k]) append_words(t, " %%%d", in->arg[k]);
    else append_words(t, " none");
  }
  if (in->phase) append_words(t, ", phase %d", in->phase);
  if (in->level) append_words(t, ", level %d", in->level);
  append_words(t, "\n");
}

const char *msc_nest_text(const msc_program *p, msc_arena *arena) {
  msc_text t = {.arena = arena};
  const msc_program_head *h = &p->head;
  put_head(&t, h);
  for (int a = 0; a < h->num_axes && a < MSC_NEST_AXES; a++) put_axis(&t, h, a);
  for (int b = 0; b < h->num_buffers && b < MSC_NEST_BUFFERS; b++) {
    append_words(&t, "  buffer ");
    write_dtype(&t, h->buffer[b].dtype);
    append_words(&t, "%s%s\n", h->buffer[b].is_out ? " out" : "", b == h->flag ? " flag" : "");
  }
  for (int i = 1; i < h->num_instrs; i++) put_instr(&t, p, i);
  append_words(&t, "}\n");
  return t.text;
}

/* ---- parsing ---- */

/* A small number; `most` is the largest. */
static bool parse_number_up_to(msc_parser *p, int64_t most, int64_t *out) {
  msc_token at = p->tok;
  MSC_TRY(msc_read_int(p, at, MSC_I64, out));
  if (*out < 0 || *out > most) return msc_syntax(p, at, "%s is not from 0 to %" PRId64, msc_token_text(p, at), most);
  msc_advance(p);
  return true;
}

/* `prefix` and a number: d12. */
static bool is_numbered(const msc_token *t, char prefix, int64_t most, int64_t *out) {
  if (t->num < 2 || t->num > 5 || *t->at != prefix) return false;
  *out = 0;
  for (size_t i = 1; i < t->num; i++) {
    if (t->at[i] < '0' || t->at[i] > '9') return false;
    *out = *out * 10 + (t->at[i] - '0');
  }
  return *out <= most;
}

static bool parse_numbered(msc_parser *p, char prefix, int64_t most, const char *what, int64_t *out) {
  if (!is_numbered(&p->tok, prefix, most, out)) return msc_unexpected(p, what);
  msc_advance(p);
  return true;
}

static bool parse_slot(msc_parser *p, uint8_t *out) {
  int64_t n;
  bool number = p->tok.kind == MSC_TOK_INT;
  MSC_TRY(number ? parse_number_up_to(p, 1, &n) : parse_numbered(p, 'd', MSC_NEST_DIMS - 1, "0, 1 or a dim", &n));
  *out = (uint8_t)(number ? n : n + 2);
  return true;
}

/* Takes a word and returns its number in the list; -1: it is none of these words. */
static int take_word_of(msc_parser *p, const char *const *words, int num) {
  int i = 0;
  while (i < num && !msc_take_word(p, words[i])) i++;
  return i < num ? i : -1;
}

static bool parse_stored_dtype(msc_parser *p, uint8_t *out) {
  *out = MSC_NUM_DTYPES;
  if (msc_take_word(p, "scratch")) return true;
  for (int d = 0; d < MSC_NUM_DTYPES; d++)
    if (msc_take_word(p, msc_dtype_name((msc_dtype)d))) return *out = (uint8_t)d, true;
  return msc_unexpected(p, "an element type");
}

static bool parse_head(msc_parser *p, msc_program_head *h) {
  int64_t n;
  *h = (msc_program_head){.lane = -1, .across = -1, .chunk_axis = -1, .clipped = -1, .flag = -1, .team_axis = -1,
                          .num_instrs = 1};
  if (!msc_take_word(p, "nest")) return msc_unexpected(p, "nest");
  int kind = take_word_of(p, kinds, 5);
  if (kind < 0) return msc_unexpected(p, "a kind of walk");
  h->kind = (uint8_t)kind;
  while (!msc_take(p, '{')) {
    int i = 0;
    while (i < NUM_FACTS && !msc_take_word(p, facts[i].word)) i++;
    if (i == NUM_FACTS) return msc_unexpected(p, "a fact of the program, or {");
    uint8_t *byte = (uint8_t *)h + facts[i].at;
    n = 1;
    if (facts[i].kind == SLOT) MSC_TRY(parse_slot(p, byte));
    else if (facts[i].kind != FLAG) MSC_TRY(parse_number_up_to(p, facts[i].most, &n));
    uint16_t word = (uint16_t)n;
    if (facts[i].kind == WORD) memcpy(byte, &word, sizeof word);
    else if (facts[i].kind != SLOT) *byte = (uint8_t)n;
  }
  return true;
}

static bool parse_axis(msc_parser *p, msc_program_head *h) {
  uint16_t *const mask[] = {&h->items, &h->reduced, &h->tail};
  int a = h->num_axes++;
  if (a == MSC_NEST_AXES) return msc_syntax(p, p->tok, "more than %d axes", MSC_NEST_AXES);
  while (!p->tok.first) {
    int group = take_word_of(p, groups, 3);
    if (group >= 0) *mask[group] |= (uint16_t)(1u << a);
    else if (msc_take_word(p, "baked")) MSC_TRY(parse_number_up_to(p, INT64_MAX, &h->axis[a].baked_size));
    else if (msc_take_word(p, "size")) MSC_TRY(parse_slot(p, &h->axis[a].size));
    else if (msc_take_word(p, "lane")) h->lane = (int8_t)a;
    else if (msc_take_word(p, "across")) h->across = (int8_t)a;
    else if (msc_take_word(p, "chunk")) h->chunk_axis = (int8_t)a;
    else if (msc_take_word(p, "clipped")) { MSC_TRY(parse_slot(p, &h->chunk)); h->clipped = (int8_t)a; }
    else if (msc_take_word(p, "team")) h->team_axis = (int8_t)a;
    else return msc_unexpected(p, "a fact of the axis");
  }
  return true;
}

static bool parse_buffer(msc_parser *p, msc_program_head *h) {
  int b = h->num_buffers++;
  if (b == MSC_NEST_BUFFERS) return msc_syntax(p, p->tok, "more than %d buffers", MSC_NEST_BUFFERS);
  MSC_TRY(parse_stored_dtype(p, &h->buffer[b].dtype));
  h->buffer[b].is_out = msc_take_word(p, "out");
  if (msc_take_word(p, "flag")) h->flag = (int8_t)b;
  return true;
}

static bool parse_slots(msc_parser *p, msc_slots *at) {
  int64_t a;
  MSC_TRY(msc_expect(p, '[', "a place"));
  do {
    if (!is_numbered(&p->tok, 'a', MSC_NEST_AXES - 1, &a)) {
      MSC_TRY(parse_slot(p, &at->c0));
      continue;
    }
    msc_advance(p);
    at->coef[a] = 1;
    if (msc_take(p, ':')) MSC_TRY(parse_slot(p, &at->coef[a]));
  } while (msc_take(p, ','));
  return msc_expect(p, ']', "]");
}

static bool parse_imm(msc_parser *p, msc_instr *in) {
  msc_nest_imm imm = msc_nest_info_of(in)->imm;
  const char *const *words;
  int num = find_imm_words(imm, &words), word;
  int64_t n = 0;
  uint8_t dtype = 0;
  if (imm == NEST_IMM_DIM) MSC_TRY(parse_numbered(p, 'd', MSC_NEST_DIMS - 1, "a dim", &n));
  if (imm == NEST_IMM_SCALAR) MSC_TRY(parse_numbered(p, 's', MSC_NEST_SCALARS - 1, "a scalar", &n));
  if (imm == NEST_IMM_HALF) {
    MSC_TRY(parse_stored_dtype(p, &dtype));
    n = dtype;
  }
  if (num) {
    if ((word = take_word_of(p, words, num)) < 0) return msc_unexpected(p, words[0]);
    n = word;
  }
  in->imm = (int8_t)n;
  if (in->code != NEST_CONST) return true;
  MSC_TRY(msc_read_float(p, p->tok, MSC_F64, &in->number));
  msc_advance(p);
  return true;
}

static bool parse_args(msc_parser *p, msc_instr *in) {
  int64_t n;
  for (int k = 0; !p->tok.first && p->tok.kind != ','; k++) {
    if (k == 3) return msc_syntax(p, p->tok, "more than 3 operands");
    if (msc_take_word(p, "none")) continue;
    MSC_TRY(parse_numbered(p, '%', MSC_NEST_INSTRS - 1, "an operand", &n));
    in->arg[k] = (uint16_t)n;
  }
  return true;
}

static bool parse_instr(msc_parser *p, msc_program *out) {
  msc_program_head *h = &out->head;
  msc_token start = p->tok;
  char name[16];
  int64_t n;
  if (h->num_instrs == MSC_NEST_INSTRS)
    return msc_syntax(p, start, "more than %d instructions", MSC_NEST_INSTRS - 1);
  msc_instr *in = &out->instr[h->num_instrs];
  if (p->tok.kind == MSC_TOK_VALUE) {
    MSC_TRY(parse_numbered(p, '%', MSC_NEST_INSTRS - 1, "a value", &n));
    if (n != h->num_instrs) return msc_syntax(p, start, "this is instruction %d", h->num_instrs);
    MSC_TRY(msc_expect(p, '=', "="));
  }
  while (in->code < NEST_CODE_COUNT && !msc_take_word(p, lower(msc_nest_codes[in->code].name, name))) in->code++;
  if (in->code == NEST_CODE_COUNT) return in->code = 0, msc_unexpected(p, "an instruction");
  MSC_TRY(parse_stored_dtype(p, &in->dtype) && parse_imm(p, in));
  if (msc_nest_has(in, NEST_MEMORY)) {
    MSC_TRY(parse_numbered(p, 'b', MSC_NEST_BUFFERS - 1, "a buffer", &n));
    in->buffer = (uint8_t)n;
  }
  if (msc_nest_has(in, NEST_PLACE)) MSC_TRY(parse_slots(p, &in->at));
  MSC_TRY(parse_args(p, in));
  while (msc_take(p, ',')) {
    bool phase = msc_take_word(p, "phase");
    if (!phase && !msc_take_word(p, "level")) return msc_unexpected(p, "phase or level");
    MSC_TRY(parse_number_up_to(p, UINT8_MAX, &n));
    *(phase ? &in->phase : &in->level) = (uint8_t)n;
  }
  in->axes = varies_along(h, out->instr, in);
  h->num_instrs++;
  return true;
}

static bool parse_program(msc_parser *p, msc_program *out) {
  MSC_TRY(parse_head(p, &out->head));
  while (!msc_take(p, '}')) {
    if (p->tok.kind != MSC_TOK_END && !p->tok.first) return msc_unexpected(p, "a new line");
    if (out->head.num_instrs > 1 && msc_is_word(p, "axis")) return msc_unexpected(p, "an instruction");
    if (msc_take_word(p, "axis")) MSC_TRY(parse_axis(p, &out->head));
    else if (msc_take_word(p, "buffer")) MSC_TRY(parse_buffer(p, &out->head));
    else MSC_TRY(parse_instr(p, out));
  }
  return p->tok.kind == MSC_TOK_END || msc_unexpected(p, "the end of the program");
}

bool msc_nest_parse(msc_context *ctx, const char *file, const char *text, size_t bytes, msc_arena *arena,
                    msc_program *out_program) {
  msc_parser p = {.ctx = ctx, .scratch = msc_arena_new(ctx), .file = file, .lex = msc_lexer_of(text, bytes)};
  out_program->instr = msc_new_array(arena, msc_instr, MSC_NEST_INSTRS);
  msc_advance(&p);
  bool ok = parse_program(&p, out_program);
  msc_arena_free(p.scratch);
  return ok;
}
