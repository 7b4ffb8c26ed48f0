/* scalar.c: the text of a formula in; its steps (rows of op.def), or the ops that compute it, out.  A wrong formula
 * is a bug and asserts. */
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
  /* kind[i] is the op of step i where its code is SCALAR_COUNT; NULL while a row's formula is read, which may not name
   * ops */
  msc_op_kind *kind;
} reader;

static uint8_t put_step(reader *r, msc_scalar_step step, const uint8_t *arg) {
  assert(r->f->num < MSC_FORMULA_STEPS);
  if (step.num_args) memcpy(step.arg, arg, (size_t)step.num_args);
  r->f->step[r->f->num] = step;
  return (uint8_t)(MSC_FORMULA_OPERANDS + r->f->num++);
}

static uint8_t add_scalar_step(reader *r, msc_scalar_code code, const uint8_t *arg, double number) {
  return put_step(r, (msc_scalar_step){.code = code, .num_args = codes[code].num_args, .number = number}, arg);
}

static bool skip_char(reader *r, char c) {
  r->at += strspn(r->at, " ");
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static uint8_t read_sum(reader *r);

/* Reads "exp(-a)" or "max(a, b)"; when ops are built also "log1p(a)", the name of an op. */
static uint8_t read_formula_call(reader *r) {
  char name[32] = "";
  size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
  uint8_t arg[3] = {0};
  int code = 0, num = 0;
  msc_op_kind kind = OP_COUNT;
  assert(n < sizeof name);
  memcpy(name, r->at, n), r->at += n;
  while (code < SCALAR_COUNT && strcmp(codes[code].name, name)) code++;
  bool known = code < SCALAR_COUNT || (r->kind && msc_kind_parse(name, &kind));
  assert(known), (void)known;
  for (bool more = skip_char(r, '('); more && num < 3; more = skip_char(r, ',')) arg[num++] = read_sum(r);
  assert(code == SCALAR_COUNT || num == codes[code].num_args);
  skip_char(r, ')');
  if (code == SCALAR_COUNT) r->kind[r->f->num] = kind;
  return put_step(r, (msc_scalar_step){.code = (msc_scalar_code)code, .num_args = num}, arg);
}

static uint8_t read_primary(reader *r) {
  r->at += strspn(r->at, " ");
  if (*r->at == '-' && !isdigit((unsigned char)r->at[1]))
    return r->at++, add_scalar_step(r, SCALAR_neg, (uint8_t[]){read_primary(r)}, 0);
  if (skip_char(r, '(')) {
    uint8_t inner = read_sum(r);
    return skip_char(r, ')'), inner;
  }
  if (isdigit((unsigned char)*r->at) || *r->at == '-') {
    char *end;
    double number = strtod(r->at, &end);
    r->at = end;
    return add_scalar_step(r, SCALAR_number, NULL, number);
  }
  if (*r->at >= 'a' && *r->at <= 'c' && !isalpha((unsigned char)r->at[1])) return (uint8_t)(*r->at++ - 'a');
  return read_formula_call(r);
}

static uint8_t read_product(reader *r) {
  uint8_t x = read_primary(r);
  for (;;) {
    msc_scalar_code code = skip_char(r, '*') ? SCALAR_mul : skip_char(r, '/') ? SCALAR_div : SCALAR_number;
    if (code == SCALAR_number) return x;
    x = add_scalar_step(r, code, (uint8_t[]){x, read_primary(r)}, 0);
  }
}

static uint8_t read_sum(reader *r) {
  uint8_t x = read_product(r);
  for (;;) {
    msc_scalar_code code = skip_char(r, '+') ? SCALAR_add : skip_char(r, '-') ? SCALAR_sub : SCALAR_number;
    if (code == SCALAR_number) return x;
    x = add_scalar_step(r, code, (uint8_t[]){x, read_product(r)}, 0);
  }
}

const msc_formula *msc_formula_read(msc_arena *arena, const char *text) {
  msc_formula *first = NULL, **end = &first;
  for (reader r = {.at = text}; !first || skip_char(&r, ';'); end = (msc_formula **)(uintptr_t)&r.f->next) {
    *end = r.f = msc_new(arena, msc_formula);
    r.at += strspn(r.at, " ");
    size_t n = strspn(r.at, "abcdefghijklmnopqrstuvwxyz");
    if (r.at[n] == ':') {
      r.f->is_choice = msc_gelu_form_parse(msc_arena_printf(arena, "%.*s", (int)n, r.at), &r.f->form);
      assert(r.f->is_choice);
      r.at += n + 1;
    }
    read_sum(&r);
  }
  return first;
}

msc_value *msc_build_formula(msc_builder *b, const char *text, msc_value *const operand[MSC_FORMULA_OPERANDS]) {
  msc_formula f = {0};
  msc_value *value[MSC_FORMULA_OPERANDS + MSC_FORMULA_STEPS];
  msc_op_kind kinds[MSC_FORMULA_STEPS] = {0};
  reader r = {.at = text, .f = &f, .kind = kinds};
  read_sum(&r);
  memcpy(value, operand, MSC_FORMULA_OPERANDS * sizeof *operand);
  for (int i = 0; i < f.num; i++) {
    const msc_scalar_step *s = &f.step[i];
    msc_value *in[3], **y = &value[MSC_FORMULA_OPERANDS + i];
    msc_op_kind kind = kinds[i];
    for (int j = 0; j < s->num_args; j++) in[j] = value[s->arg[j]];
    if (s->code == SCALAR_number) *y = operand[0] ? msc_build_scalar(b, operand[0]->type->dtype, s->number) : NULL;
    else if (s->code == SCALAR_less) *y = compare(b, MSC_LT, in[0], in[1]);
    else if (s->code == SCALAR_COUNT || msc_kind_parse(codes[s->code].name, &kind))
      *y = msc_build(b, kind, (size_t)s->num_args, in);
    else *y = NULL;
    if (!*y) return NULL;
  }
  return value[MSC_FORMULA_OPERANDS + f.num - 1];
}

const msc_formula *msc_formula_of(const msc_op *op) {
  const msc_formula *f = msc_info(op)->formula;
  while (f && f->is_choice && f->form != msc_op_gelu_form(op)) f = f->next;
  return f;
}
