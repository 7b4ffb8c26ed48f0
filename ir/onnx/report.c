/* report.c: faults of a file in; messages at their nodes out.  Operators without a row are counted and reported
 * together, once. */
#include <stdlib.h>
#include <string.h>

#include "ir/onnx/reader.h"

const msc_loc *onnx_node_loc(onnx_reader *r, const onnx_node_proto *p) { return p->loc ? p->loc : r->loc; }

bool onnx_report(onnx_reader *r, const char *name, const msc_loc *loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  r->num_errors++;
  msc_verror(r->ctx, MSC_DIAG_ERROR, MSC_E_UNSUPPORTED, loc, name, fmt, ap);
  va_end(ap);
  return false;
}

const char *onnx_name_of(onnx_reader *r, const onnx_node_proto *p) {
  if (*p->name) return p->name;
  for (size_t i = 0; i < p->num_out; i++)
    if (*p->out[i]) return p->out[i];
  return msc_intern(r->ctx, p->op_type);
}

bool onnx_refuse(onnx_node *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = msc_arena_vprintf(n->scratch, fmt, ap);
  va_end(ap);
  return onnx_report(n->r, onnx_name_of(n->r, n->proto), onnx_node_loc(n->r, n->proto), "%s: %s", n->what, text);
}

void onnx_count_unknown(onnx_reader *r, const onnx_node_proto *p) {
  const char *type = p->op_type;
  if (*p->domain) type = msc_intern(r->ctx, msc_arena_printf(r->scratch, "%s::%s", p->domain, p->op_type));
  for (size_t i = 0; i < r->num_unknown; i++)
    if (r->unknown[i].type == type) return (void)r->unknown[i].count++;
  msc_grow(r->scratch, r->unknown, r->num_unknown);
  r->unknown[r->num_unknown++] = (struct unknown_op){type, onnx_name_of(r, p), 1};
}

static int compare_counts(const void *a, const void *b) {
  const struct unknown_op *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return strcmp(x->type, y->type);
}

void onnx_report_unknown(onnx_reader *r) {
  const char *text = "";
  if (!r->num_unknown) return;
  qsort(r->unknown, r->num_unknown, sizeof *r->unknown, compare_counts);
  for (size_t i = 0; i < r->num_unknown && i < 50; i++)
    text = msc_arena_printf(r->scratch, "%s%s%s (%u, first '%s')", text, i ? ", " : "", r->unknown[i].type,
                            r->unknown[i].count, r->unknown[i].first);
  if (r->num_unknown > 50) text = msc_arena_printf(r->scratch, "%s and %zu more", text, r->num_unknown - 50);
  r->num_errors++;
  msc_error(r->ctx, MSC_E_UNKNOWN_OP, r->loc, "ONNX operators that msc does not read: %s", text);
}
