/* objective.c: a model of inference, and the options --loss and --optimizer, in; the model with a loss, labels for it
 * and an optimizer out. */
#include <stdlib.h>
#include <string.h>

#include "ir/formula.h"
#include "passes/2_train/train.h"
#include "tools/convert/objective.h"

enum { MAX_WORDS = 16 };

/* "kind:what,name=value,name=value" */
typedef struct {
  const char *kind, *what; /* what: "" if the text behind the colon begins with name=value */
  size_t num;
  const char *name[MAX_WORDS], *value[MAX_WORDS];
} spec;

static bool read_spec(cli *c, const char *text, spec *out) {
  msc_arena *arena = msc_context_arena(c->ctx);
  size_t n = strcspn(text, ":");
  *out = (spec){.kind = msc_intern_n(c->ctx, text, n), .what = ""};
  for (const char *p = text + n + (text[n] != 0); *p;) {
    size_t length = strcspn(p, ",");
    const char *word = msc_intern_n(c->ctx, p, length), *equals = strchr(word, '=');
    if (equals && out->num == MAX_WORDS) return false;
    if (equals) {
      out->name[out->num] = msc_intern_n(c->ctx, word, (size_t)(equals - word));
      out->value[out->num++] = msc_arena_printf(arena, "%s", equals + 1);
    } else if (p == text + n + 1) {
      out->what = word;
    } else {
      return false;
    }
    p += length + (p[length] == ',');
  }
  return *out->kind != 0;
}

/* A word as an attribute: true, false, a whole number unless all numbers are floats, a float, or text. */
static msc_attr_value attr_of_word(cli *c, const char *text, bool only_floats) {
  char *end;
  if (!strcmp(text, "true") || !strcmp(text, "false")) return msc_bool(*text == 't');
  long long whole = strtoll(text, &end, 10);
  if (*text && !*end && !only_floats) return msc_int(whole);
  double v = strtod(text, &end);
  return *text && !*end ? msc_float(v) : msc_str(c->ctx, msc_intern(c->ctx, text));
}

static msc_attr *attrs_of(cli *c, const spec *s, bool only_floats, size_t *out_num) {
  msc_attr *attrs = NULL;
  *out_num = 0;
  for (size_t i = 0; i < s->num; i++)
    msc_put_attr(c->ctx, &attrs, out_num, s->name[i], attr_of_word(c, s->value[i], only_floats));
  return attrs;
}

/* ---- the loss ---- */

static bool find_loss(cli *c, const spec *s, msc_op_kind *out_kind) {
  const char *names[OP_COUNT], *list = "";
  size_t num = 0;
  for (unsigned k = 0; k < OP_COUNT; k++) {
    const msc_op_info *info = msc_op_info_of(c->ctx, (msc_op_kind)k);
    if (info->form == MSC_FORM_LOSS) names[num++] = msc_kind_name(k);
  }
  for (size_t i = 0; i < num; i++) {
    list = msc_arena_printf(msc_context_arena(c->ctx), "%s%s%s", list, i ? ", " : "", names[i]);
    if (!strcmp(names[i], s->kind)) return msc_kind_parse(names[i], out_kind);
  }
  const char *near = msc_nearest(s->kind, names, num);
  if (near) cli_usage(c, "--loss: there is no loss '%s'; did you mean '%s'?", s->kind, near);
  else cli_usage(c, "--loss: there is no loss '%s'; there are %s", s->kind, list);
  return false;
}

/* The result called `name`; NULL after a report. */
static msc_value *find_result(cli *c, msc_func *f, const char *name) {
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  const char *list = "", *words[64];
  size_t num = names ? names->list.num : 0;
  for (size_t i = 0; i < num; i++) {
    if (!strcmp(names->list.v[i].s, name)) return f->body->last->in[i].value;
    if (i < 64) words[i] = names->list.v[i].s;
    list = msc_arena_printf(msc_context_arena(c->ctx), "%s%s%s", list, i ? ", " : "", names->list.v[i].s);
  }
  const char *near = msc_nearest(name, words, num < 64 ? num : 64);
  if (near) cli_usage(c, "--loss: the model has no output '%s'; did you mean '%s'?", name, near);
  else cli_usage(c, "--loss: the model has no output '%s'; it has %s", name, list);
  return NULL;
}

/* Labels for predictions: class numbers, without the dimension of classes, for a loss whose row says that its labels
 * are; else values of the same type. Samples lie along their first dimension if those of an input do. */
static msc_value *add_labels(cli *c, msc_func *f, msc_op_kind kind, msc_value *prediction) {
  const msc_type *t = prediction->type;
  bool numbers = kind == OP_softmax_cross_entropy || kind == OP_nll_loss, batch = false;
  if (numbers && t->rank) t = msc_type_of(c->ctx, MSC_I64, t->rank - 1, t->dim, NULL);
  for (size_t i = 0; i < f->body->num_args; i++) {
    const msc_attr_value *dim = msc_arg_attr(f, i, MSC_FACT(msc_batch_dim));
    batch = batch || (msc_arg_role(f, i) == MSC_ROLE_DATA && (!dim || dim->i == 0));
  }
  const char *name = msc_free_arg_name(f, msc_context_arena(c->ctx), "y");
  msc_value *arg = msc_add_arg(f->body, t, name);
  msc_arg_put(f, arg->index, msc_fact_msc_name(c->ctx, msc_intern(c->ctx, name)));
  msc_arg_put(f, arg->index, msc_fact_msc_role(c->ctx, MSC_ROLE_LABEL));
  if (!batch || !t->rank) msc_arg_put(f, arg->index, msc_fact_msc_batch_dim(-1));
  return arg;
}

/* Makes the loss the last result. */
static void add_loss_result(cli *c, msc_func *f, msc_value *loss) {
  msc_op *end = f->body->last;
  const msc_attr_value *names = msc_func_attr(f, MSC_FACT(results));
  size_t num = end->num_in;
  msc_value **in = msc_new_array(msc_context_arena(c->ctx), msc_value *, num + 1);
  msc_attr_value *name = msc_new_array(msc_context_arena(c->ctx), msc_attr_value, num + 1);
  const char *own = "loss";
  for (size_t i = 0; i < num; i++) {
    in[i] = end->in[i].value, name[i] = names->list.v[i];
    if (!strcmp(name[i].s, own)) own = "training_loss";
  }
  in[num] = loss, name[num] = msc_str(c->ctx, msc_intern(c->ctx, own));
  msc_set_operands(end, num + 1, in);
  msc_func_put(f, msc_fact_results(c->ctx, num + 1, name));
  msc_func_put(f, msc_fact_loss((int64_t)num));
}

static bool add_loss(cli *c, msc_func *f, const char *text, int *out_code) {
  spec s;
  msc_op_kind kind;
  *out_code = CLI_USAGE;
  if (!read_spec(c, text, &s) || !*s.what)
    return cli_usage(c, "--loss %s: it is KIND:OUTPUT[,NAME=VALUE...], as softmax_cross_entropy:logits", text), false;
  if (msc_func_attr(f, MSC_FACT(loss))) return cli_usage(c, "--loss: the model has a loss already"), false;
  if (!find_loss(c, &s, &kind)) return false;
  msc_value *prediction = find_result(c, f, s.what);
  if (!prediction) return false;
  *out_code = CLI_INPUT;
  msc_value *labels = add_labels(c, f, kind, prediction);
  size_t num;
  const msc_attr *attrs = attrs_of(c, &s, false, &num);
  msc_op *end = f->body->last;
  msc_builder b = {.func = f, .block = f->body, .before = end, .loc = f->loc};
  msc_value *loss = with_attrs(&b, kind, 2, (msc_value *[]){prediction, labels}, num, attrs);
  if (loss && loss->type->rank) return *out_code = cli_usage(c, "--loss %s: a loss is one number", text), false;
  if (loss) add_loss_result(c, f, loss);
  return loss != NULL;
}

/* ---- the optimizer ---- */

static bool add_optimizer(cli *c, msc_func *f, const char *text, int *out_code) {
  spec s;
  *out_code = CLI_USAGE;
  if (!read_spec(c, text, &s) || *s.what)
    return cli_usage(c, "--optimizer %s: it is KIND:NAME=VALUE,..., as adamw:lr=0.001,weight_decay=0.01", text), false;
  *out_code = CLI_INPUT;
  size_t num;
  msc_attr *attrs = attrs_of(c, &s, true, &num);
  msc_put_attr(c->ctx, &attrs, &num, "kind", msc_str(c->ctx, s.kind));
  msc_func_put(f, msc_fact_optimizer((msc_attr_value){.kind = MSC_ATTR_DICT, .dict = {num, attrs}}));
  msc_optimizer_groups groups;
  return msc_read_optimizer(f, msc_context_arena(c->ctx), &groups);
}

bool cli_add_objective(cli *c, msc_module *m, int *out_code) {
  const char *loss = cli_text(c, "loss"), *optimizer = cli_text(c, "optimizer");
  msc_func *f = msc_program_func(m, MSC_PROGRAM_FORWARD);
  *out_code = CLI_USAGE;
  if (optimizer && !loss && !(f && msc_func_attr(f, MSC_FACT(loss))))
    return cli_usage(c, "--optimizer needs a loss to make smaller: --loss KIND:OUTPUT"), false;
  if ((loss || optimizer) && !f) return cli_usage(c, "the model has no function \"forward\""), false;
  if (loss && !add_loss(c, f, loss, out_code)) return false;
  return !optimizer || add_optimizer(c, f, optimizer, out_code);
}
