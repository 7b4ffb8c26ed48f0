/* changes.c: calls that updated a server's values in; what has changed since a version out (see changes.h).
 *
 * Each value has the version of the last call that wrote all of it. A table of which calls update some rows has a
 * version for each block of rows, too; they take a thirty-second of its bytes at most, and so do spans. */
#include <stdlib.h>
#include <string.h>

#include "runtime/kernels/builtin.h"
#include "runtime/memory/memory.h"
#include "runtime/server/changes.h"

enum { LEAST_BLOCK = 256 /* bytes, or a row if that is longer */ };

typedef struct {
  const mscrt_served_value *of;
  uint64_t whole;                    /* the version of the last call that wrote all of it */
  uint64_t block_bytes, num, *block; /* by block: its version; NULL: every call writes all */
} value_versions;

struct mscrt_changes {
  uint32_t num;
  value_versions *value;
  mscrt_value_span *span; /* found last; there is room for as many as there can be */
  int64_t num_spans;
};

static bool writes(const mscrt_record *r, const value_versions *v) {
  for (uint32_t i = 0; i < r->num_buffers; i++)
    if (r->ref[i].written && mscrt_refs_overlap(r->ref[i], v->of->v->ref)) return true;
  return false;
}

/* True for a call that updates some rows of the value; *out_rows: which. */
static bool updates_rows(const mscrt_record *r, const value_versions *v, mscrt_lazy_rows *out_rows) {
  if (r->kernel != mscrt_run_lazy) return false;
  mscrt_find_lazy_rows(r->buffers, r->dims, out_rows);
  return mscrt_refs_overlap(r->ref[out_rows->table], v->of->v->ref);
}

/* ---- opening ---- */

static mscrt_status *divide_into_blocks(value_versions *v, const mscrt_record *r) {
  mscrt_lazy_rows rows;
  if (v->block || !updates_rows(r, v, &rows) || !rows.row_bytes) return NULL;
  v->block_bytes = rows.row_bytes < LEAST_BLOCK ? LEAST_BLOCK / rows.row_bytes * rows.row_bytes : rows.row_bytes;
  v->num = (v->of->bytes + v->block_bytes - 1) / v->block_bytes;
  return mscrt_new_array(&v->block, v->num);
}

static mscrt_status *find_tables(mscrt_changes *c, const mscrt_shares *shares) {
  for (uint32_t k = 0; k < c->num; k++)
    for (uint32_t i = 0; i < shares->num_sections; i++)
      for (uint32_t n = 0; n < shares->section[i]->num_calls; n++)
        MSCRT_CHECK(divide_into_blocks(&c->value[k], &shares->section[i]->call[n]));
  return NULL;
}

mscrt_status *mscrt_changes_new(const mscrt_shares *shares, const mscrt_share *share, mscrt_changes **out_changes) {
  mscrt_changes *c = NULL;
  mscrt_status *s = NULL;
  uint64_t spans = 0;
  MSCRT_CHECK(mscrt_new_array(&c, 1));
  MSCRT_GOTO(mscrt_new_array(&c->value, share->num_values));
  for (; c->num < share->num_values; c->num++) c->value[c->num].of = &share->value[c->num];
  MSCRT_GOTO(find_tables(c, shares));
  for (uint32_t k = 0; k < c->num; k++) spans += 1 + c->value[k].num / 2;
  MSCRT_GOTO(mscrt_new_array(&c->span, spans));
  *out_changes = c;
  return NULL;
fail:
  mscrt_changes_free(c);
  return s;
}

void mscrt_changes_free(mscrt_changes *c) {
  if (!c) return;
  for (uint32_t k = 0; k < c->num; k++) free(c->value[k].block);
  free(c->value), free(c->span), free(c);
}

/* ---- versions ---- */

static void note_rows(value_versions *v, const mscrt_record *r, const mscrt_lazy_rows *rows, uint64_t version) {
  int64_t first = (int64_t)r->ref[rows->table].offset - (int64_t)v->of->v->ref.offset;
  for (int64_t i = 0; i < rows->num; i++) {
    int64_t row = mscrt_lazy_row(rows, i), at = first + row * (int64_t)rows->row_bytes;
    if (row < 0 || at < 0 || (uint64_t)at >= v->of->bytes) continue;
    uint64_t last = ((uint64_t)at + rows->row_bytes - 1) / v->block_bytes;
    for (uint64_t b = (uint64_t)at / v->block_bytes; b <= last && b < v->num; b++) v->block[b] = version;
  }
}

void mscrt_note_changes(mscrt_changes *c, const mscrt_record *r, uint64_t version) {
  for (uint32_t k = 0; k < c->num; k++) {
    value_versions *v = &c->value[k];
    mscrt_lazy_rows rows;
    if (v->block && updates_rows(r, v, &rows)) note_rows(v, r, &rows, version);
    else if (writes(r, v)) v->whole = version;
  }
}

void mscrt_forget_changes(mscrt_changes *c) {
  for (uint32_t k = 0; k < c->num; k++) {
    c->value[k].whole = 0;
    for (uint64_t b = 0; b < c->value[k].num; b++) c->value[k].block[b] = 0;
  }
}

/* ---- changes ---- */

/* Adds a span, as a part of the last one if it begins where that ends within the same value. */
static void add_span(mscrt_changes *c, const mscrt_served_value *v, uint64_t at, uint64_t bytes) {
  if (!bytes) return;
  mscrt_value_span *last = c->num_spans ? &c->span[c->num_spans - 1] : NULL;
  if (last && at > v->at && last->at + last->bytes == at) last->bytes += bytes;
  else c->span[c->num_spans++] = (mscrt_value_span){at, bytes};
}

static void add_changed_blocks(mscrt_changes *c, const value_versions *v, uint64_t since) {
  for (uint64_t b = 0; b < v->num; b++) {
    uint64_t begin = b * v->block_bytes, left = v->of->bytes - begin;
    if (v->block[b] > since) add_span(c, v->of, v->of->at + begin, left < v->block_bytes ? left : v->block_bytes);
  }
}

void mscrt_find_changes(mscrt_changes *c, uint64_t since, int64_t *out_num, const mscrt_value_span **out_span) {
  c->num_spans = 0;
  for (uint32_t k = 0; k < c->num; k++) {
    const value_versions *v = &c->value[k];
    if (since == MSCRT_NO_VERSION || v->whole > since) add_span(c, v->of, v->of->at, v->of->bytes);
    else add_changed_blocks(c, v, since);
  }
  *out_num = c->num_spans, *out_span = c->span;
}
