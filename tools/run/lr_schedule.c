/* lr_schedule.c: the text of --lr-schedule and a step in; the factor of the learning rate out. */
#include "tools/run/lr_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 0x1p53

static bool wrong_schedule(cli *c, const char *text, const char *why) {
  return msc_error(c->ctx, MSC_E_DATA, NULL,
                   "--lr-schedule: '%s': %s; write it as constant, cosine:warmup=100,min=0.1, linear or "
                   "step:every=1000,factor=0.5",
                   text, why);
}

bool lr_schedule_read(cli *c, const char *text, lr_schedule *out) {
  static const char *const kinds[] = {"", "constant", "cosine", "linear", "step"};
  *out = (lr_schedule){.factor = 0.1};
  struct {
    const char *name;
    double *value;
    bool used, counts;
  } of[] = {{"warmup", &out->warmup, true, true},
            {"steps", &out->steps, true, true},
            {"min", &out->min, false, false},
            {"every", &out->every, false, true},
            {"factor", &out->factor, false, false}};
  size_t n = strcspn(text, ":");
  for (int k = LR_CONSTANT; k <= LR_STEP; k++)
    if (strlen(kinds[k]) == n && !strncmp(kinds[k], text, n)) out->kind = k;
  if (out->kind == LR_AS_COMPILED) return wrong_schedule(c, text, "there is no such schedule");
  of[2].used = out->kind == LR_COSINE || out->kind == LR_LINEAR;
  of[3].used = of[4].used = out->kind == LR_STEP;
  for (const char *p = text + n; *p; ) {
    const char *name = p + 1, *equals = strchr(name, '=');
    char *end = NULL;
    double *value = NULL;
    for (int i = 0; i < 5 && equals; i++)
      if (of[i].used && strlen(of[i].name) == (size_t)(equals - name) && !strncmp(of[i].name, name, strlen(of[i].name)))
        value = of[i].value;
    if (!value) return wrong_schedule(c, text, "a part of it is no NAME=NUMBER of this schedule");
    *value = strtod(equals + 1, &end);
    if (end == equals + 1 || (*end && *end != ',') || !(*value >= 0) || !isfinite(*value))
      return wrong_schedule(c, text, "a value is no number from 0 on");
    p = end;
  }
  for (int i = 0; i < 5; i++)
    if (of[i].counts && (*of[i].value != floor(*of[i].value) || *of[i].value > MAX_STEPS))
      return wrong_schedule(c, text, "a number of steps is no whole number");
  if (out->kind == LR_STEP && !(out->every >= 1)) return wrong_schedule(c, text, "every=N is wanted, at least 1");
  return true;
}

double lr_factor(const lr_schedule *s, int64_t step, int64_t steps) {
  double all = s->steps > 0 ? s->steps : (double)steps, since = (double)step - s->warmup;
  if (since < 0) return ((double)step + 1) / s->warmup;
  double left = all - s->warmup, p = left > 0 && since < left ? since / left : 1;
  switch (s->kind) {
    case LR_COSINE: return s->min + (1 - s->min) * (1 + cos(M_PI * p)) / 2;
    case LR_LINEAR: return s->min + (1 - s->min) * (1 - p);
    case LR_STEP: return pow(s->factor, floor(since / s->every));
    default: return 1;
  }
}

bool lr_is_learning_rate(const char *name) {
  static const char prefix[] = "optimizer.lr";
  size_t n = sizeof prefix - 1;
  return !strncmp(name, prefix, n) && (!name[n] || name[n] == '.');
}
