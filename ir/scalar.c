/* scalar.c: formulas of elements, from text to steps, and to ops. */
#include "ir/formula.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  int num_args;
} codes[SCALAR_COUNT] = {
#define SCALAR(name, operands) {#name, operands},
#include "ir/scalar.def"
#undef SCALAR
};

typedef struct {
  const char *at;
  msc_formula *f;
} reader;

static uint8_t add_step(reader *r, msc_scalar_code code, const uint8_t *arg, double number) {
  assert(r->f->num < MSC_FORMULA_STEPS);
  msc_scalar_step *s = &r->f->step[r->f->num];
  *s = (msc_scalar_step){.code = code, .num_args = codes[code].num_args, .number = number};
  if (s->num_args) memcpy(s->arg, arg, (size_t)s->num_args);
  return (uint8_t)(MSC_FORMULA_OPERANDS + r->f->num++);
}

static bool skip(reader *r, char c) {
  r->at += strspn(r->at, " ");
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static uint8_t read_sum(reader *r);

/* "exp(-a)", "max(a, b)" */
static uint8_t read_call(reader *r) {
  size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyz");
  uint8_t arg[3] = {0};
  int code = 0, num = 0;
  while (code < SCALAR_COUNT && (strlen(codes[code].name) != n || memcmp(codes[code].name, r->at, n))) code++;
  assert(code < SCALAR_COUNT);
  r->at += n;
  for (bool more = skip(r, '('); more && num < 3; more = skip(r, ',')) arg[num++] = read_sum(r);
  assert(num == codes[code].num_args);
  skip(r, ')');
  return add_step(r, (msc_scalar_code)code, arg, 0);
}

static uint8_t read_primary(reader *r) {
  r->at += strspn(r->at, " ");
  if (*r->at == '-' && !isdigit((unsigned char)r->at[1]))
    return r->at++, add_step(r, SCALAR_neg, (uint8_t[]){read_primary(r)}, 0);
  if (skip(r, '(')) {
    uint8_t inner = read_sum(r);
    return skip(r, ')'), inner;
  }
  if (isdigit((unsigned char)*r->at) || *r->at == '-') {
    char *end;
    double number = strtod(r->at, &end);
    r->at = end;
    return add_step(r, SCALAR_number, NULL, number);
  }
  if (*r->at >= 'a' && *r->at <= 'c' && !isalpha((unsigned char)r->at[1])) return (uint8_t)(*r->at++ - 'a');
  return read_call(r);
}

static uint8_t read_product(reader *r) {
  uint8_t x = read_primary(r);
  for (;;) {
    msc_scalar_code code = skip(r, '*') ? SCALAR_mul : skip(r, '/') ? SCALAR_div : SCALAR_number;
    if (code == SCALAR_number) return x;
    x = add_step(r, code, (uint8_t[]){x, read_primary(r)}, 0);
  }
}

static uint8_t read_sum(reader *r) {
  uint8_t x = read_product(r);
  for (;;) {
    msc_scalar_code code = skip(r, '+') ? SCALAR_add : skip(r, '-') ? SCALAR_sub : SCALAR_number;
    if (code == SCALAR_number) return x;
    x = add_step(r, code, (uint8_t[]){x, read_product(r)}, 0);
  }
}

const msc_formula *msc_formula_read(msc_arena *arena, const char *text) {
  msc_formula *first = NULL, **end = &first;
  for (reader r = {.at = text}; !first || skip(&r, ';'); end = (msc_formula **)(uintptr_t)&r.f->next) {
    *end = r.f = msc_new(arena, msc_formula);
    r.at += strspn(r.at, " ");
    size_t n = strspn(r.at, "abcdefghijklmnopqrstuvwxyz");
    if (r.at[n] == ':') r.f->choice = msc_arena_printf(arena, "%.*s", (int)n, r.at), r.at += n + 1;
    read_sum(&r);
  }
  return first;
}

msc_value *msc_build_formula(msc_builder *b, const char *text, msc_value *const operand[MSC_FORMULA_OPERANDS]) {
  msc_formula f = {0};
  msc_value *value[MSC_FORMULA_OPERANDS + MSC_FORMULA_STEPS];
  reader r = {.at = text, .f = &f};
  read_sum(&r);
  memcpy(value, operand, MSC_FORMULA_OPERANDS * sizeof *operand);
  for (int i = 0; i < f.num; i++) {
    const msc_scalar_step *s = &f.step[i];
    msc_value *in[3], **y = &value[MSC_FORMULA_OPERANDS + i];
    msc_op_kind kind = OP_COUNT;
    for (int j = 0; j < s->num_args; j++) in[j] = value[s->arg[j]];
    if (s->code == SCALAR_number) *y = operand[0] ? msc_build_scalar(b, operand[0]->type->dtype, s->number) : NULL;
    else if (s->code == SCALAR_less) *y = compare(b, "lt", in[0], in[1]);
    else *y = msc_kind_parse(codes[s->code].name, &kind) ? msc_build(b, kind, (size_t)s->num_args, in) : NULL;
    if (!*y) return NULL;
  }
  return value[MSC_FORMULA_OPERANDS + f.num - 1];
}

const msc_formula *msc_formula_of(const msc_op *op) {
  const msc_formula *f = msc_info(op)->formula;
  while (f && f->choice && strcmp(f->choice, msc_op_str(op, "form"))) f = f->next;
  return f;
}
