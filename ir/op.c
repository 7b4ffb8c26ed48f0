/* op.c: the text of op.def in; the op table, made once per context, out. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/op_table.h"
#include "ir/scalar.h"

_Static_assert(OP_COUNT <= 65535, "an op number fits the 16 bits of msc_op.kind");

typedef struct {
  const char *name, *operands, *results, *attrs;
  unsigned flags;
  msc_form form;
  msc_shape_fn *shape;
  const char *rule;
  msc_rule_fn *rule_fn;
  msc_grad_fn *grad;
  msc_eval_fn *eval;
  msc_cost_class cost;
  msc_expand_fn *expand;
  msc_op_facts facts;
} row;

/* Column .summed of scatter_add: all dimensions of operand 0, its indices. */
static unsigned sum_all(const msc_op *op) { return (1u << op->in[0].value->type->rank) - 1; }

static unsigned sum_all_but_last(const msc_op *op) { return (1u << (op->in[0].value->type->rank - 1)) - 1; }

static const row rows[OP_COUNT] = {
#define OP(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, ...) \
  {#name,   operands, results, attrs,           flags, MSC_FORM_##form, shape, rule,                 \
   rule_fn, grad,     eval,    MSC_COST_##cost, NULL,  {__VA_ARGS__}},
#define COMPOSITE(name, operands, results, attrs, flags, form, shape, rule, rule_fn, grad, eval, cost, expansion, ...) \
  {#name, operands, results, attrs, flags,           MSC_FORM_##form, shape,                                           \
   rule,  rule_fn,  grad,    eval,  MSC_COST_##cost, expansion,       {__VA_ARGS__}},
#include "ir/op.def"
#undef OP
};

const char *msc_kind_name(unsigned kind) { return kind < OP_COUNT ? rows[kind].name : "?"; }

bool msc_kind_parse(const char *name, msc_op_kind *out_kind) {
  for (int k = 0; k < OP_COUNT; k++)
    if (strcmp(rows[k].name, name) == 0) {
      *out_kind = (msc_op_kind)k;
      return true;
    }
  return false;
}

/* Next blank-separated word of *text, copied; NULL at the end. */
static char *next_word(msc_arena *a, const char **text) {
  const char *p = *text + strspn(*text, " ");
  size_t n = strcspn(p, " ");
  *text = p + n;
  return n ? msc_arena_printf(a, "%.*s", (int)n, p) : NULL;
}

static void parse_operand_names(msc_arena *a, msc_op_info *info, const char *text) {
  for (char *w; (w = next_word(a, &text));) {
    msc_operand_spec *s = &info->operand[info->num_operands++];
    s->tied = -1;
    size_t n = strcspn(w, "?*=");
    s->optional = w[n] == '?';
    s->variadic = w[n] == '*';
    if (w[n] == '=') s->tied = (int8_t)(w[n + 1] - '0');
    w[n] = 0;
    s->name = w;
    if (s->variadic) info->max_in = -1;
    else if (info->max_in >= 0) info->max_in++;
    info->min_in += !s->optional && !s->variadic;
  }
}

static void parse_results(msc_arena *a, msc_op_info *info, const char *text) {
  for (char *w; (w = next_word(a, &text));) {
    char *star = strchr(w, '*');
    if (!star) info->min_out++, info->max_out++;
    else info->max_out = -1, *star = 0;
    info->result[info->num_results++] = w;
  }
}

static void parse_kind(msc_attr_spec *s, const char *kind) {
  static const struct {
    const char *name;
    msc_attr_kind kind;
    bool list, nested;
    msc_attr_sense sense;
  } kinds[] = {{"int", MSC_ATTR_INT, 0, 0, 0},
               {"float", MSC_ATTR_FLOAT, 0, 0, 0},
               {"bool", MSC_ATTR_BOOL, 0, 0, 0},
               {"str", MSC_ATTR_STR, 0, 0, 0},
               {"ints", MSC_ATTR_INT, 1, 0, 0},
               {"floats", MSC_ATTR_FLOAT, 1, 0, 0},
               {"splits", MSC_ATTR_INT, 1, 1, 0},
               {"layouts", MSC_ATTR_LAYOUT, 1, 0, 0},
               {"digits", MSC_ATTR_DIGITS, 0, 0, 0},
               {"digit_lists", MSC_ATTR_DIGITS, 1, 0, 0},
               {"type", MSC_ATTR_TYPE, 0, 0, 0},
               {"dense", MSC_ATTR_DENSE, 0, 0, 0},
               {"dim", MSC_ATTR_INT, 0, 0, MSC_SENSE_DIM},
               {"dims", MSC_ATTR_INT, 1, 0, MSC_SENSE_DIM},
               {"perm", MSC_ATTR_INT, 1, 0, MSC_SENSE_PERM},
               {"each", MSC_ATTR_INT, 1, 0, MSC_SENSE_EACH},
               {"verb", MSC_ATTR_STR, 0, 0, MSC_SENSE_VERB},
               {"reduction", MSC_ATTR_STR, 0, 0, MSC_SENSE_REDUCTION},
               {"dtype", MSC_ATTR_STR, 0, 0, MSC_SENSE_DTYPE}};
  size_t i = 0;
  s->words = msc_word_set_called(kind);
  if (s->words != MSC_NUM_WORD_SETS) {
    s->kind = MSC_ATTR_STR, s->sense = MSC_SENSE_WORD;
    return;
  }
  while (i < sizeof kinds / sizeof *kinds && strcmp(kind, kinds[i].name)) i++;
  assert(i < sizeof kinds / sizeof *kinds);
  s->kind = kinds[i].kind, s->is_list = kinds[i].list, s->is_nested = kinds[i].nested, s->sense = kinds[i].sense;
}

/* Reads a row's attributes: "dim:int=0 stride:ints? shape:ints". */
static void parse_attrs(msc_arena *a, msc_op_info *info, const char *text) {
  for (char *w; (w = next_word(a, &text));) {
    assert(info->num_attrs < MSC_OP_ATTRS);
    msc_attr_spec *s = &info->attr[info->num_attrs++];
    char *kind = strchr(w, ':');
    *kind++ = 0;
    s->name = w;
    char *end = kind + strcspn(kind, "=?");
    if (*end) s->has_default = true, s->default_text = *end == '=' ? end + 1 : NULL;
    *end = 0;
    parse_kind(s, kind);
  }
}

const msc_op_info *msc_op_info_of(msc_context *ctx, msc_op_kind kind) {
  const msc_op_info **table = msc_context_op_table(ctx, OP_COUNT);
  if (!table[kind]) {
    msc_arena *a = msc_lasting_arena(ctx);
    msc_op_info *info = msc_new(a, msc_op_info);
    const row *r = &rows[kind];
    info->name = r->name, info->flags = r->flags, info->shape = r->shape, info->rule = r->rule;
    info->rule_fn = r->rule_fn, info->grad = r->grad, info->cost = r->cost, info->expand = r->expand;
    info->verb = msc_verb_parse(r->name);
    info->form = r->form, info->eval = r->eval, info->facts = r->facts;
    if (r->facts.formula) info->formula = msc_formula_read(a, r->facts.formula);
    parse_operand_names(a, info, r->operands);
    parse_results(a, info, r->results);
    parse_attrs(a, info, r->attrs);
    table[kind] = info;
  }
  return table[kind];
}

const msc_op_info *msc_info(const msc_op *op) { return msc_op_info_of(msc_op_ctx(op), (msc_op_kind)op->kind); }

bool msc_is_unused(const msc_op *op) {
  bool used = msc_info(op)->flags & MSC_TERMINATOR;
  for (size_t i = 0; i < op->num_out && !used; i++) used = msc_has_uses(&op->out[i]);
  return !used;
}

bool msc_is_message(const msc_op *op) { return rows[op->kind].flags & MSC_MESSAGE; }

bool msc_is_transfer(const msc_op *op) { return rows[op->kind].flags & MSC_TRANSFER; }

bool msc_takes_mean(const msc_op *op) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_attrs; i++)
    if (info->attr[i].sense == MSC_SENSE_WORD && info->attr[i].words == MSC_WORDS_loss_reduction)
      return msc_op_loss_reduction(op) == MSC_LOSS_MEAN;
  return info->facts.mean;
}

int64_t msc_terms_of_mean(const msc_op *op, const msc_type *x) {
  int64_t n = 1, dims[MSC_MAX_RANK];
  if (msc_form_of(op) != MSC_FORM_REDUCE) {
    for (int d = 0; d + 1 < x->rank; d++) n *= x->dim[d];
    return n;
  }
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK);
  for (int i = 0; i < num; i++) n *= x->dim[dims[i]];
  return n;
}

bool msc_is_cross_entropy(const msc_op *op) {
  return op->kind == OP_softmax_cross_entropy || op->kind == OP_softmax_cross_entropy_grad;
}

msc_form msc_form_of(const msc_op *op) { return rows[op->kind].form; }

unsigned msc_summed_dims(const msc_op *op) {
  const msc_op_facts *facts = &msc_info(op)->facts;
  int64_t dims[MSC_MAX_RANK];
  unsigned mask = 0;
  if (!op->num_in || facts->reduction != MSC_SUM) return 0;
  if (facts->summed) return facts->summed(op);
  switch (msc_form_of(op)) {
    case MSC_FORM_PRODUCT: return 1u << (op->in[0].value->type->rank - 1 - msc_op_bool(op, "transpose_a"));
    case MSC_FORM_LOSS: return sum_all_but_last(op);
    case MSC_FORM_REDUCE:
      for (int i = msc_op_ints(op, "dims", dims, MSC_MAX_RANK); i > 0; i--) mask |= 1u << dims[i - 1];
      return mask;
    default: return 0;
  }
}

bool msc_keeps_elements(const msc_op *op) {
  return msc_form_of(op) == MSC_FORM_RESHAPE || op->kind == OP_cast || op->kind == OP_transpose;
}

msc_value *msc_named_value(const msc_op *op, const char *name) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_operands && i < op->num_in; i++)
    if (!strcmp(info->operand[i].name, name)) return op->in[i].value;
  for (int i = 0; i < info->num_results && i < op->num_out; i++)
    if (!strcmp(info->result[i], name)) return (msc_value *)(uintptr_t)&op->out[i];
  return NULL;
}

bool msc_indexed_of(const msc_op *op, msc_indexed *out) {
  const char *text = msc_info(op)->facts.indexed, *dim = text ? strchr(text, ' ') + 1 : NULL;
  char tensor[16];
  if (!text) return false;
  snprintf(tensor, sizeof tensor, "%.*s", (int)(dim - 1 - text), text);
  *out = (msc_indexed){.of = msc_named_value(op, tensor), .by = msc_named_value(op, "indices"), .num = 1};
  if (!out->by) out->by = msc_named_value(op, "labels");
  int rank = out->of->type->rank;
  if (!strcmp(dim, "first")) {
    out->num = (int)out->by->type->dim[out->by->type->rank - 1];
  } else if (!strcmp(dim, "last")) {
    out->dim = rank - 1;
  } else if (!strcmp(dim, "0")) {
    out->dim = 0;
  } else {
    int64_t axis = msc_op_int(op, dim);
    out->dim = (int)(axis < 0 ? axis + rank : axis);
  }
  return true;
}

static bool row_declares(const msc_op_info *info, const char *attr) {
  for (int i = 0; i < info->num_attrs; i++)
    if (strcmp(info->attr[i].name, attr) == 0) return true;
  return false;
}

bool msc_declares(const msc_op *op, const char *attr) {
  msc_op_kind of;
  if (row_declares(msc_info(op), attr)) return true;
  return op->kind == OP_vjp && msc_kind_parse(msc_op_str(op, "op"), &of) &&
         row_declares(msc_op_info_of(msc_op_ctx(op), of), attr);
}
