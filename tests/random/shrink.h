/* shrink.h: makes a failing program smaller while it still fails in the same way, by removing settings, results,
 * hints, ops and arguments. */
#ifndef MSC_TESTS_RANDOM_SHRINK_H
#define MSC_TESTS_RANDOM_SHRINK_H

#include "tests/random/program.h"

typedef bool still_fails(void *user, const program *p);

/* One change of many; `at` counts down through the places where it can be made. */
typedef bool change_fn(msc_func *f, int at);

/* ---- what can be changed ---- */

static inline bool take_at(int *at) { return (*at)-- == 0; }

static inline bool drop_result(msc_func *f, int at) {
  msc_op *ret = f->body->last;
  msc_value *in[64];
  msc_attr_value name[64], tie[64];
  const msc_attr_value *names = msc_func_attr(f, "results"), *ties = msc_func_attr(f, "ties");
  size_t num = 0;
  if (at + 1 >= ret->num_in || ret->num_in > 64) return false;
  for (size_t i = 0; i < ret->num_in; i++) {
    if (i == (size_t)at + 1) continue;
    in[num] = ret->in[i].value, name[num] = names->list.v[i];
    tie[num] = ties ? ties->list.v[i] : msc_int(-1);
    num++;
  }
  msc_set_operands(ret, num, in);
  msc_func_set(f, "results", msc_list(f->module->ctx, num, name));
  if (ties) msc_func_set(f, "ties", msc_list(f->module->ctx, num, tie));
  return true;
}

/* The loss becomes the sum of this value's squares. */
static inline bool lose_value(msc_func *f, int at) {
  msc_op *ret = f->body->last;
  int64_t dims[MSC_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  msc_context *ctx = f->module->ctx;
  for (msc_op *op = f->body->first; op != ret; op = op->next) {
    const msc_type *t = op->out[0].type;
    if (!msc_is_float(t->dtype) || op->kind == OP_constant || !take_at(&at)) continue;
    msc_builder b = {.func = f, .block = f->body, .before = ret, .loc = op->loc, .name = "loss"};
    msc_value *v = msc_build(&b, OP_mul, 2, (msc_value *[]){&op->out[0], &op->out[0]});
    msc_attr of = msc_named(ctx, "dims", msc_ints(ctx, (size_t)t->rank, dims));
    msc_op *sum = t->rank ? msc_build_with(&b, OP_reduce_sum, 1, &v, 1, 1, &of) : v->def;
    msc_set_operand(ret, 0, &sum->out[0]);
    return true;
  }
  return false;
}

/* An op's result becomes one of its operands, of the same type, or an input of its own. */
static inline bool drop_op(msc_func *f, int at) {
  msc_context *ctx = f->module->ctx;
  for (msc_op *op = f->body->first; op && op->kind != OP_return; op = op->next) {
    for (size_t i = 0; i < op->num_in; i++) {
      if (op->in[i].value->type != op->out[0].type || !take_at(&at)) continue;
      msc_replace_uses(&op->out[0], op->in[i].value);
      return true;
    }
    if (op->kind == OP_constant || !op->num_in || !msc_is_float(op->out[0].type->dtype) || !take_at(&at)) continue;
    const char *name = msc_intern(ctx, msc_arena_printf(msc_context_arena(ctx), "of_%s", op->name ? op->name : "op"));
    const msc_type *t = op->out[0].type, *first = f->body->args[0]->type;
    msc_value *v = msc_add_arg(f->body, t, name);
    msc_arg_set(f, v->index, "msc.name", msc_str(ctx, name));
    msc_arg_set(f, v->index, "msc.role", msc_str(ctx, "data"));
    msc_arg_set(f, v->index, "msc.batch_dim", msc_int(t->rank && t->dim[0] == first->dim[0] ? 0 : -1));
    msc_replace_uses(&op->out[0], v);
    return true;
  }
  return false;
}

static inline bool is_of_row(const msc_op *op, const char *name) {
  const msc_op_info *info = msc_info(op);
  for (int i = 0; i < info->num_attrs; i++)
    if (!strcmp(info->attr[i].name, name)) return true;
  return false;
}

static inline bool drop_hint(msc_func *f, int at) {
  for (msc_op *op = f->body->first; op; op = op->next)
    for (size_t i = 0; i < op->num_attrs; i++) {
      if (is_of_row(op, op->attrs[i].name) || !take_at(&at)) continue;
      msc_op_unset(op, op->attrs[i].name);
      return true;
    }
  return false;
}

/* The plainest optimizer. */
static inline bool use_sgd(msc_func *f, int at) {
  msc_context *ctx = f->module->ctx;
  msc_attr *a = NULL;
  size_t n = 0;
  const msc_attr_value *now = msc_func_attr(f, "optimizer");
  if (at || !now) return false;
  msc_put_attr(ctx, &a, &n, "kind", msc_str(ctx, "sgd"));
  msc_put_attr(ctx, &a, &n, "lr", msc_float(1));
  msc_attr_value plain = {.kind = MSC_ATTR_DICT, .dict = {n, a}};
  if (msc_attr_equal(now, &plain)) return false;
  msc_func_set(f, "optimizer", plain);
  return true;
}

/* ---- what nobody reads any more ---- */

static inline void remove_argument(msc_func *f, size_t i) {
  const msc_attr_value *ties = msc_func_attr(f, "ties");
  for (size_t k = i; k + 1 < f->body->num_args; k++) {
    f->body->args[k] = f->body->args[k + 1], f->arg[k] = f->arg[k + 1];
    f->body->args[k]->index = (uint32_t)k;
  }
  f->body->num_args--;
  for (size_t k = 0; ties && k < ties->list.num; k++) {
    msc_attr_value *v = (msc_attr_value *)&ties->list.v[k];
    if (v->i > (int64_t)i) v->i--;
  }
}

static inline void remove_unused(msc_func *f) {
  const msc_attr_value *ties = msc_func_attr(f, "ties");
  msc_drop_unused(f);
  for (size_t i = f->body->num_args; i-- > 0;) {
    bool tied = false;
    for (size_t k = 0; ties && k < ties->list.num; k++) tied |= ties->list.v[k].i == (int64_t)i;
    if (!tied && !msc_has_uses(f->body->args[i])) remove_argument(f, i);
  }
}

/* ---- trying ---- */

/* The text of p after this change; NULL: there is no such place, or nothing comes of it.  out_more: there may
 * be another place. */
static inline const char *changed_text(msc_arena *keep, const program *p, change_fn *change, int at, bool *out_more) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_module *m = msc_parse(ctx, "random", p->text, strlen(p->text));
  msc_func *f = m ? msc_find_func(m, "forward") : NULL;
  const char *text = NULL;
  *out_more = f && change(f, at);
  if (*out_more) remove_unused(f);
  if (*out_more && f->body->num_args && msc_verify(m))
    text = msc_arena_printf(keep, "%s", msc_print_text(m, msc_context_arena(ctx), &(size_t){0}));
  msc_context_free(ctx);
  return text && strcmp(text, p->text) ? text : NULL;
}

static inline int num_ops_of(const char *text) {
  int n = 0;
  while ((text = strstr(text, "\"msc."))) text++, n++;
  return n;
}

/* No change makes more ops: else losses of losses would follow each other for ever. */
static inline bool shrink_by(program *p, change_fn *change, still_fails *fails, void *user) {
  bool smaller = false, more = true;
  for (int at = 0; more;) {
    program less = *p;
    less.text = changed_text(p->arena, p, change, at, &more);
    bool taken = less.text &&
                 (num_ops_of(less.text) < num_ops_of(p->text) || change == drop_hint || change == use_sgd ||
                  change == drop_result) &&
                 fails(user, &less);
    if (taken) *p = less, smaller = true;
    at += !taken;
  }
  return smaller;
}

static inline bool shrink_settings(program *p, still_fails *fails, void *user) {
  bool smaller = false;
  for (int i = p->num_settings - 1; i >= 0; i--) {
    program less = *p;
    memmove(less.setting + i, less.setting + i + 1, sizeof *less.setting * (size_t)(p->num_settings - 1 - i));
    less.num_settings--;
    if (fails(user, &less)) *p = less, smaller = true;
  }
  for (int i = 0; i < 2; i++) {
    program less = *p;
    memset(&less.code[i], 0, sizeof less.code[i]);
    if ((p->code[i].cpu || p->code[i].vector_bytes) && fails(user, &less)) *p = less, smaller = true;
  }
  return smaller;
}

static inline void shrink(program *p, still_fails *fails, void *user) {
  bool smaller = true;
  while (smaller) {
    smaller = shrink_by(p, lose_value, fails, user);
    smaller |= shrink_by(p, drop_result, fails, user);
    smaller |= shrink_settings(p, fails, user);
    smaller |= shrink_by(p, use_sgd, fails, user);
    smaller |= shrink_by(p, drop_op, fails, user);
    smaller |= shrink_by(p, drop_hint, fails, user);
  }
}

#endif
