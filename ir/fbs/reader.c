/* reader.c: functions for all readers of parts of a model.fbs: reports of faults at places, texts, values by number. */
#include <string.h>

#include "ir/fbs/fbs.h"

/* ---- reporting ---- */

static bool report(msc_context *ctx, msc_code code, const msc_loc *loc, const char *name, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  msc_verror(ctx, MSC_DIAG_ERROR, code, loc, name, fmt, ap);
  va_end(ap);
  return false;
}

bool fbs_error(fbs_reader *r, msc_code code, fbs_place p, const char *fmt, ...) {
  va_list ap;
  r->num_errors++;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(r->scratch, fmt, ap);
  va_end(ap);
  return report(r->ctx, code, p.loc ? p.loc : r->file, p.name, "%s%s%s", p.what, *p.what ? ": " : "", text);
}

fbs_place fbs_at_file(fbs_reader *r, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fbs_place p = {r->file, NULL, msc_arena_vprintf(r->scratch, fmt, ap)};
  va_end(ap);
  return p;
}

const char *fbs_text(fbs_reader *r, fbs_place p, const char *text, uint32_t bytes) {
  if (text && memchr(text, 0, bytes)) fbs_error(r, MSC_E_FORMAT, p, "a text has a zero byte inside");
  else if (text) return msc_intern_n(r->ctx, text, bytes);
  return NULL;
}

/* ---- values ---- */

bool fbs_define(fbs_reader *r, fbs_place p, uint32_t number, msc_value *v) {
  if (number >= r->num_values)
    return fbs_error(r, MSC_E_SSA, p, "defines value %u, but the file has %u values", number, r->num_values);
  if (r->value[number]) return fbs_error(r, MSC_E_SSA, p, "defines value %u a second time", number);
  r->value[number] = v;
  return true;
}

msc_value *fbs_value(fbs_reader *r, fbs_place p, uint32_t number, const char *use) {
  if (number >= r->num_values)
    fbs_error(r, MSC_E_SSA, p, "%sis value %u, but the file has %u values", use, number, r->num_values);
  else if (!r->value[number])
    fbs_error(r, MSC_E_SSA, p, "%sis value %u, which is not defined before this use", use, number);
  else return r->value[number];
  return NULL;
}
