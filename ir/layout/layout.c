/* layout.c: text in; meshes and layouts in normal form out.  From these: text, sizes of parts, boxes, atoms. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

_Static_assert(sizeof(msc_layout) ==
                   3 + MSC_MAX_RANK + 1 + MSC_MAX_SUBAXES * sizeof(msc_subaxis) + 4 + MSC_MAX_RANK * sizeof(int64_t *),
               "layouts are interned as bytes: no padding");
_Static_assert(MSC_MAX_RANK == MSC_BOX_RANK && MSC_MAX_AXES == MSC_BOX_AXES && MSC_MAX_SUBAXES <= MSC_BOX_DIGITS,
               "every layout is one that box.h can read");

static int num_digits(const msc_layout *l) { return l->first[l->rank] + l->num_partial; }

msc_box_mesh msc_mesh_sizes(const msc_mesh *mesh) {
  msc_box_mesh m = {.num_axes = mesh->num_axes};
  for (int a = 0; a < mesh->num_axes; a++) m.size[a] = mesh->axis[a].size;
  return m;
}

msc_box_layout msc_layout_cuts(const msc_layout *l) {
  return (msc_box_layout){.rank = l->rank, .num = num_digits(l), .first = l->first, .digit = l->sub, .split = l->split};
}

/* ---- normal form ---- */

/* Appends a digit to the list that begins at `start`: not one of size 1; one that continues the last is merged with
 * it. */
static void append_digit(msc_layout *l, int start, int *num, msc_subaxis s) {
  if (s.size == 1) return;
  msc_subaxis *last = *num > start ? &l->sub[*num - 1] : NULL;
  if (last && last->axis == s.axis && last->pre * last->size == s.pre) last->size *= s.size;
  else l->sub[(*num)++] = s;
}

static int mesh_order(const void *a, const void *b) {
  const msc_subaxis *x = a, *y = b;
  if (x->axis != y->axis) return x->axis < y->axis ? -1 : 1;
  return (x->pre > y->pre) - (x->pre < y->pre);
}

const int64_t *msc_split_of(msc_context *ctx, size_t num, const int64_t *size) {
  msc_arena *scratch = msc_arena_new(ctx);
  int64_t *border = msc_new_array(scratch, int64_t, num + 1);
  for (size_t i = 0; i < num; i++) border[i + 1] = border[i] + size[i];
  const int64_t *kept = msc_intern_bytes(ctx, border, (num + 1) * sizeof *border);
  msc_arena_free(scratch);
  return kept;
}

/* Are the chosen parts of a dimension those that its digits make by themselves? */
static bool is_usual_split(const msc_layout *l, int dim) {
  /* A mesh of this dimension's digits only; neighbouring digits of one axis are one axis of it. */
  msc_box_mesh own = {0};
  msc_digit digit[MSC_MAX_SUBAXES];
  int64_t parts = msc_layout_parts(l, dim), n = l->split[dim][parts];
  uint8_t first[2] = {0, (uint8_t)(l->first[dim + 1] - l->first[dim])};
  for (int i = 0; i < first[1]; i++) {
    msc_subaxis s = l->sub[l->first[dim] + i];
    bool joins = i && l->sub[l->first[dim] + i - 1].axis == s.axis;
    if (!joins && own.num_axes == MSC_BOX_AXES) return false;
    int axis = joins ? own.num_axes - 1 : own.num_axes++;
    own.size[axis] = joins ? own.size[axis] * s.size : s.size;
    digit[i] = (msc_digit){(uint32_t)axis, joins ? digit[i - 1].pre * digit[i - 1].size : 1, s.size};
  }
  msc_box_layout usual = {.rank = 1, .num = first[1], .first = first, .digit = digit};
  for (int64_t i = 0; i < parts; i++) {
    msc_box b;
    msc_box_of(&own, &usual, &n, i, &b);
    if (b.begin[0] != l->split[dim][i] || b.begin[0] + b.size[0] != l->split[dim][i + 1]) return false;
  }
  return true;
}

void msc_layout_normalize(const msc_layout *raw, msc_layout *out_layout) {
  msc_layout l;
  memset(&l, 0, sizeof l);
  l.rank = raw->rank;
  int num = 0;
  for (int d = 0; d < raw->rank; d++) {
    l.first[d] = (uint8_t)num;
    for (int i = raw->first[d]; i < raw->first[d + 1]; i++) append_digit(&l, l.first[d], &num, raw->sub[i]);
  }
  l.first[l.rank] = (uint8_t)num;
  for (int d = 0; d < raw->rank; d++) {
    l.split[d] = l.first[d + 1] > l.first[d] ? raw->split[d] : NULL;
    if (l.split[d] && is_usual_split(&l, d)) l.split[d] = NULL;
  }
  msc_subaxis partial[MSC_MAX_SUBAXES];
  memcpy(partial, raw->sub + raw->first[raw->rank], raw->num_partial * sizeof *partial);
  qsort(partial, raw->num_partial, sizeof *partial, mesh_order);
  for (int i = 0; i < raw->num_partial; i++) append_digit(&l, l.first[l.rank], &num, partial[i]);
  l.num_partial = (uint8_t)(num - l.first[l.rank]);
  l.reduction = l.num_partial ? raw->reduction : MSC_SUM;
  *out_layout = l;
}

const msc_layout *msc_layout_of(msc_context *ctx, const msc_mesh *mesh, const msc_layout *raw) {
  (void)mesh;
  msc_layout l;
  msc_layout_normalize(raw, &l);
  return msc_intern_bytes(ctx, &l, sizeof l);
}

const msc_layout *msc_layout_of_dim(msc_context *ctx, const msc_mesh *mesh, const msc_layout *l, int dim) {
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = 1;
  raw.first[1] = (uint8_t)(l->first[dim + 1] - l->first[dim]);
  memcpy(raw.sub, l->sub + l->first[dim], raw.first[1] * sizeof *raw.sub);
  raw.split[0] = l->split[dim];
  return msc_layout_of(ctx, mesh, &raw);
}

const msc_layout *msc_mesh_digits(msc_context *ctx, const msc_mesh *mesh) {
  msc_layout raw;
  memset(&raw, 0, sizeof raw);
  raw.rank = 1;
  raw.first[1] = (uint8_t)mesh->num_axes;
  for (int a = 0; a < mesh->num_axes; a++) raw.sub[a] = (msc_subaxis){(uint32_t)a, 1, (uint32_t)mesh->axis[a].size};
  return msc_layout_of(ctx, mesh, &raw);
}

/* ---- writing ---- */

/* Text that is written twice: first with p NULL, which only counts its n characters, then into p. */
typedef struct {
  char *p;
  size_t n;
} writer;

static void write_text(writer *w, const char *text) {
  size_t n = strlen(text);
  if (w->p) memcpy(w->p + w->n, text, n);
  w->n += n;
}

static void put_int(writer *w, int64_t v) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, v);
  write_text(w, digits);
}

static void put_axes(writer *w, const msc_mesh *mesh, int num, const msc_subaxis *s) {
  write_text(w, "{");
  for (int i = 0; i < num; i++) {
    const msc_axis *a = &mesh->axis[s[i].axis];
    write_text(w, i ? "," : "");
    write_text(w, a->name);
    if (s[i].size == a->size) continue;
    write_text(w, ":(");
    put_int(w, s[i].pre);
    write_text(w, ")");
    put_int(w, s[i].size);
  }
  write_text(w, "}");
}

static void put_split(writer *w, const int64_t *split, int64_t parts) {
  for (int64_t i = 0; i < parts; i++) {
    write_text(w, i ? "," : "/(");
    put_int(w, split[i + 1] - split[i]);
  }
  write_text(w, ")");
}

static void put_layout(writer *w, const msc_mesh *mesh, const msc_layout *l) {
  write_text(w, "[");
  for (int d = 0; d < l->rank; d++) {
    write_text(w, d ? "," : "");
    put_axes(w, mesh, l->first[d + 1] - l->first[d], l->sub + l->first[d]);
    if (l->split[d]) put_split(w, l->split[d], msc_layout_parts(l, d));
  }
  write_text(w, "]");
  if (!l->num_partial) return;
  write_text(w, " partial");
  if (l->reduction != MSC_SUM) {
    write_text(w, "_");
    write_text(w, msc_reduction_name(l->reduction));
  }
  write_text(w, "=");
  put_axes(w, mesh, l->num_partial, l->sub + l->first[l->rank]);
}

const char *msc_layout_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *l) {
  writer w = {0};
  put_layout(&w, mesh, l);
  w = (writer){.p = msc_arena_alloc(arena, w.n + 1)};
  put_layout(&w, mesh, l);
  return w.p;
}

const char *msc_subaxis_print(msc_arena *arena, const msc_mesh *mesh, int num, const msc_subaxis *s) {
  writer w = {0};
  put_axes(&w, mesh, num, s);
  w = (writer){.p = msc_arena_alloc(arena, w.n + 1)};
  put_axes(&w, mesh, num, s);
  return w.p;
}

const char *msc_digits_print(msc_arena *arena, const msc_mesh *mesh, const msc_layout *digits) {
  char *text = (char *)(uintptr_t)msc_layout_print(arena, mesh, digits); /* "[{x,y}]" */
  text[strlen(text) - 1] = 0;
  return text + 1;
}

const char *msc_mesh_print(msc_arena *arena, const msc_mesh *mesh) {
  const char *text = "";
  for (int a = 0; a < mesh->num_axes; a++)
    text = msc_arena_printf(arena, "%s%s%s=%" PRId64, text, a ? "," : "", mesh->axis[a].name, mesh->axis[a].size);
  return text;
}

/* ---- reading ---- */

typedef struct {
  msc_context *ctx;
  const msc_mesh *mesh;
  const msc_loc *loc;
  const char *what, *text, *at; /* "layout"; the whole text; the next character */
  msc_code code;
} scanner;

static MSC_PRINTF(3, 4) bool fail(scanner *s, msc_code code, const char *fmt, ...) {
  char why[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  return msc_error(s->ctx, code, s->loc, "%s \"%.200s\": %s", s->what, s->text, why);
}

static char peek_char(scanner *s) {
  s->at += strspn(s->at, " \t\r\n");
  return *s->at;
}

static bool accept(scanner *s, char c) {
  if (peek_char(s) != c) return false;
  s->at++;
  return true;
}

static bool unexpected(scanner *s, const char *wanted) {
  if (!peek_char(s)) return fail(s, s->code, "ends where %s is expected", wanted);
  return fail(s, s->code, "expected %s at character %zu, not '%.12s'", wanted, (size_t)(s->at - s->text) + 1, s->at);
}

static bool is_name(char c) { return msc_is_letter(c) || msc_is_digit(c) || c == '-' || c == '.'; }

static bool scan_name(scanner *s, const char **out_name, size_t *out_len) {
  char c = peek_char(s);
  size_t n = 0;
  if (is_name(c) && !msc_is_digit(c))
    while (is_name(s->at[n])) n++;
  if (!n) return unexpected(s, "an axis name");
  *out_name = s->at;
  *out_len = n;
  s->at += n;
  return true;
}

static bool scan_count(scanner *s, int64_t max, int64_t *out_v) {
  int64_t v = 0;
  const char *start = (peek_char(s), s->at);
  if (!msc_is_digit(*start)) return unexpected(s, "a number");
  for (; msc_is_digit(*s->at); s->at++)
    if (v <= max) v = v * 10 + (*s->at - '0');
  if (v < 1 || v > max)
    return fail(s, s->code, "%.*s is not between 1 and %" PRId64, (int)(s->at - start < 30 ? s->at - start : 30), start,
                max);
  *out_v = v;
  return true;
}

static int find_axis(const msc_mesh *mesh, const char *name, size_t n) {
  for (int a = 0; a < mesh->num_axes; a++)
    if (strlen(mesh->axis[a].name) == n && memcmp(mesh->axis[a].name, name, n) == 0) return a;
  return -1;
}

static bool unknown_axis(scanner *s, const char *name, size_t n) {
  const char *known[MSC_MAX_AXES];
  for (int a = 0; a < s->mesh->num_axes; a++) known[a] = s->mesh->axis[a].name;
  if (!s->mesh->num_axes) return fail(s, s->code, "axis '%.*s' is used, but there is no mesh", (int)n, name);
  const char *near = msc_nearest(msc_intern_n(s->ctx, name, n), known, (size_t)s->mesh->num_axes);
  return fail(s, s->code, "the mesh has no axis '%.*s'%s%s%s", (int)(n < 60 ? n : 60), name,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Reads axis or axis:(pre)size. */
static bool scan_digit(scanner *s, msc_subaxis *out) {
  const char *name;
  size_t n;
  MSC_TRY(scan_name(s, &name, &n));
  int axis = find_axis(s->mesh, name, n);
  if (axis < 0) return unknown_axis(s, name, n);
  int64_t whole = s->mesh->axis[axis].size, pre = 1, size = whole;
  if (accept(s, ':')) {
    if (!accept(s, '(')) return unexpected(s, "'('");
    MSC_TRY(scan_count(s, MSC_MAX_DEVICES, &pre));
    if (!accept(s, ')')) return unexpected(s, "')'");
    MSC_TRY(scan_count(s, MSC_MAX_DEVICES, &size));
    if (whole % (pre * size))
      return fail(s, s->code,
                  "%.*s:(%" PRId64 ")%" PRId64 " does not exist: %" PRId64 " times %" PRId64
                  " does not divide the axis, which has %" PRId64 " parts",
                  (int)n, name, pre, size, pre, size, whole);
  }
  *out = (msc_subaxis){(uint32_t)axis, (uint32_t)pre, (uint32_t)size};
  return true;
}

/* Reads {axis,...} and appends its digits to the num that sub has. */
static bool scan_axes(scanner *s, msc_subaxis *sub, int *num) {
  if (!accept(s, '{')) return unexpected(s, "'{'");
  if (accept(s, '}')) return true;
  do {
    msc_subaxis d;
    MSC_TRY(scan_digit(s, &d));
    for (int i = 0; i < *num; i++)
      if (msc_digits_overlap(sub[i], d)) return fail(s, s->code, "axis '%s' is used twice", s->mesh->axis[d.axis].name);
    if (d.size == 1) continue;
    if (*num == MSC_MAX_SUBAXES) return fail(s, s->code, "more than %d axes", MSC_MAX_SUBAXES);
    sub[(*num)++] = d;
  } while (accept(s, ','));
  return accept(s, '}') || unexpected(s, "',' or '}'");
}

/* Reads the size of a part, which is empty if it is 0. */
static bool scan_size(scanner *s, int64_t *out_size) {
  if (peek_char(s) == '0' && !msc_is_digit(s->at[1])) {
    s->at++;
    *out_size = 0;
    return true;
  }
  return scan_count(s, INT64_MAX / 10 - 1, out_size);
}

/* Reads (n,...) behind the axes of dimension `dim`: the sizes of its parts. */
static bool scan_split(scanner *s, msc_layout *l, int dim) {
  int64_t parts = msc_layout_parts(l, dim), num = 0, total = 0;
  if (parts < 2) return fail(s, s->code, "dimension %d is not cut and can have no sizes of parts", dim);
  if (!accept(s, '(')) return unexpected(s, "'('");
  msc_arena *scratch = msc_arena_new(s->ctx);
  int64_t *size = msc_new_array(scratch, int64_t, parts);
  bool ok = true;
  do {
    int64_t n = 0;
    ok = scan_size(s, &n);
    if (ok && num < parts) size[num] = n;
    if (ok && __builtin_add_overflow(total, n, &total))
      ok = fail(s, s->code, "the parts of dimension %d have 2^63 elements or more", dim);
    num++;
  } while (ok && accept(s, ','));
  if (ok) ok = accept(s, ')') || unexpected(s, "',' or ')'");
  if (ok && num != parts)
    ok = fail(s, s->code, "dimension %d has %" PRId64 " parts, but %" PRId64 " sizes are given", dim, parts, num);
  if (ok) l->split[dim] = msc_split_of(s->ctx, (size_t)parts, size);
  msc_arena_free(scratch);
  return ok;
}

static bool scan_dims(scanner *s, msc_layout *l, int *num) {
  if (!accept(s, '[')) return unexpected(s, "'['");
  if (accept(s, ']')) return true;
  do {
    if (l->rank == MSC_MAX_RANK) return fail(s, s->code, "more than %d dimensions", MSC_MAX_RANK);
    if (peek_char(s) == '(')
      return fail(s, MSC_E_UNSUPPORTED, "a dimension that is a product, ({x}2,{y}3), is not supported yet");
    MSC_TRY(scan_axes(s, l->sub, num));
    l->rank++;
    l->first[l->rank] = (uint8_t)*num;
    if (accept(s, '/')) MSC_TRY(scan_split(s, l, l->rank - 1));
  } while (accept(s, ','));
  return accept(s, ']') || unexpected(s, "',' or ']'");
}

static bool scan_reduction(scanner *s, uint8_t *out) {
  static const char *const later[] = {"lse", "argmax", "topk"};
  size_t n = 0;
  while (is_name(s->at[n])) n++;
  for (int r = 0; r < MSC_NUM_REDUCTIONS; r++)
    if (strlen(msc_reduction_name(r)) == n && memcmp(s->at, msc_reduction_name(r), n) == 0) {
      *out = (uint8_t)r;
      s->at += n;
      return true;
    }
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (strlen(later[i]) == n && memcmp(s->at, later[i], n) == 0)
      return fail(s, MSC_E_UNSUPPORTED, "partial_%s is not supported yet", later[i]);
  return fail(s, s->code, "no reduction '%.*s'; there are sum, max, min and prod", (int)(n < 30 ? n : 30), s->at);
}

/* Reads partial={x} or partial_max={x}, or nothing at the end of the text. */
static bool scan_partial(scanner *s, msc_layout *l, int *num) {
  static const char word[] = "partial";
  if (!peek_char(s)) return true;
  if (strncmp(s->at, word, sizeof word - 1)) return unexpected(s, "'partial' or the end");
  s->at += sizeof word - 1;
  if (*s->at == '_') {
    s->at++;
    MSC_TRY(scan_reduction(s, &l->reduction));
  }
  if (!accept(s, '=')) return unexpected(s, "'='");
  int before = *num;
  MSC_TRY(scan_axes(s, l->sub, num));
  l->num_partial = (uint8_t)(*num - before);
  return !peek_char(s) || unexpected(s, "the end");
}

bool msc_layout_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_layout) {
  scanner s = {ctx, mesh, loc, "layout", text, text, MSC_E_LAYOUT};
  msc_layout l;
  const void **known = msc_memo_of(ctx, msc_intern_bytes(ctx, mesh, sizeof *mesh), msc_intern(ctx, text));
  int num = 0;
  memset(&l, 0, sizeof l);
  if (!*known) {
    MSC_TRY(scan_dims(&s, &l, &num));
    MSC_TRY(scan_partial(&s, &l, &num));
    *known = msc_layout_of(ctx, mesh, &l);
  }
  *out_layout = *known;
  return true;
}

bool msc_digits_parse(msc_context *ctx, const msc_mesh *mesh, const msc_loc *loc, const char *text,
                      const msc_layout **out_digits) {
  scanner s = {ctx, mesh, loc, "axes", text, text, MSC_E_LAYOUT};
  msc_layout l;
  int num = 0;
  memset(&l, 0, sizeof l);
  l.rank = 1;
  MSC_TRY(scan_axes(&s, l.sub, &num));
  l.first[1] = (uint8_t)num;
  if (accept(&s, '/')) MSC_TRY(scan_split(&s, &l, 0));
  *out_digits = msc_layout_of(ctx, mesh, &l);
  return !peek_char(&s) || unexpected(&s, "the end");
}

bool msc_mesh_parse(msc_context *ctx, const msc_loc *loc, const char *text, msc_mesh *out_mesh) {
  msc_mesh mesh;
  memset(&mesh, 0, sizeof mesh);
  scanner s = {ctx, &mesh, loc, "mesh", text, text, MSC_E_CONFIG};
  int64_t devices = 1;
  do {
    const char *name;
    size_t n;
    int64_t size;
    MSC_TRY(scan_name(&s, &name, &n));
    if (find_axis(&mesh, name, n) >= 0)
      return fail(&s, s.code, "two axes are called '%.*s'", (int)(n < 60 ? n : 60), name);
    if (!accept(&s, '=')) return unexpected(&s, "'='");
    MSC_TRY(scan_count(&s, MSC_MAX_DEVICES, &size));
    if (mesh.num_axes == MSC_MAX_AXES) return fail(&s, s.code, "more than %d axes", MSC_MAX_AXES);
    devices *= size;
    if (devices > MSC_MAX_DEVICES) return fail(&s, s.code, "more than %d devices", MSC_MAX_DEVICES);
    mesh.axis[mesh.num_axes++] = (msc_axis){msc_intern_n(ctx, name, n), size};
  } while (accept(&s, ','));
  if (peek_char(&s)) return unexpected(&s, "',' or the end");
  *out_mesh = mesh;
  return true;
}

/* ---- sizes ---- */

bool msc_mesh_equal(const msc_mesh *a, const msc_mesh *b) {
  bool equal = a->num_axes == b->num_axes;
  for (int i = 0; i < a->num_axes && equal; i++)
    equal = a->axis[i].name == b->axis[i].name && a->axis[i].size == b->axis[i].size;
  return equal;
}

int64_t msc_mesh_size(const msc_mesh *mesh) {
  int64_t n = 1;
  for (int a = 0; a < mesh->num_axes; a++) n *= mesh->axis[a].size;
  return n;
}

int64_t msc_layout_parts(const msc_layout *l, int dim) {
  return msc_group_size(l->first[dim + 1] - l->first[dim], l->sub + l->first[dim]);
}

int64_t msc_sum_blocks(int64_t n, int64_t least, int64_t many) {
  enum { FEW = 8 };
  int64_t blocks = 1;
  while (blocks < MSC_MAX_SUM_BLOCKS && n > 0 && n % (2 * blocks) == 0 && n / (2 * blocks) >= least &&
         (blocks < FEW || n / (2 * blocks) >= many))
    blocks *= 2;
  return blocks;
}

int64_t msc_sum_blocks_of_part(int64_t n, int64_t parts, int64_t least, int64_t many) {
  int64_t blocks = msc_sum_blocks(n, least, many), part = (n + parts - 1) / parts;
  return n % parts == 0 && blocks % parts == 0 ? blocks / parts : msc_sum_blocks(part, least, many);
}

bool msc_layout_is_replicated(const msc_layout *l) { return num_digits(l) == 0; }

bool msc_dim_is_even(const msc_layout *l, const msc_type *t, int dim) {
  return !l->split[dim] && t->dim[dim] % msc_layout_parts(l, dim) == 0;
}

bool msc_layout_has_split(const msc_layout *l) {
  for (int d = 0; d < l->rank; d++)
    if (l->split[d]) return true;
  return false;
}

bool msc_layout_fits(const msc_layout *l, const msc_type *t) {
  if (l->rank != t->rank) return false;
  for (int d = 0; d < t->rank; d++)
    if (!msc_dim_is_even(l, t, d)) return false;
  return true;
}

void msc_local_dims(const msc_type *t, const msc_layout *l, int64_t *out_dim) {
  msc_box_layout cuts = msc_layout_cuts(l);
  msc_box_largest(&cuts, t->dim, out_dim);
}

int64_t msc_local_bytes(const msc_type *t) {
  if (!t->layout) return msc_type_bytes(t);
  int64_t dim[MSC_MAX_RANK], bytes = msc_dtype_bytes(t->dtype);
  msc_local_dims(t, t->layout, dim);
  for (int d = 0; d < t->rank; d++) bytes *= dim[d];
  return bytes;
}

int64_t msc_subaxis_digit(const msc_mesh *mesh, msc_subaxis s, int64_t rank) {
  msc_box_mesh m = msc_mesh_sizes(mesh);
  return msc_digit_of(&m, s, rank);
}

void msc_layout_box(const msc_mesh *mesh, const msc_type *t, const msc_layout *l, int64_t rank, int64_t *out_begin,
                    int64_t *out_size) {
  msc_box_mesh m = msc_mesh_sizes(mesh);
  msc_box_layout cuts = msc_layout_cuts(l);
  msc_box box;
  msc_box_of(&m, &cuts, t->dim, rank, &box);
  memcpy(out_begin, box.begin, (size_t)t->rank * sizeof *out_begin);
  memcpy(out_size, box.size, (size_t)t->rank * sizeof *out_size);
}

/* ---- atoms ---- */

typedef struct {
  int num;
  uint32_t at[2 * MSC_MAX_SUBAXES + 2]; /* ascending products of parts, from 1 to the axis's size */
} borders;

/* Adds a border; false when there is no room: 65,536 has 16 prime factors, so of more borders than fit two do not
 * divide each other. */
static bool add_border(borders *b, uint32_t at) {
  int i = 0;
  while (i < b->num && b->at[i] < at) i++;
  if (i < b->num && b->at[i] == at) return true;
  if (b->num == (int)(sizeof b->at / sizeof *b->at)) return false;
  memmove(b->at + i + 1, b->at + i, sizeof *b->at * (size_t)(b->num - i));
  b->at[i] = at;
  b->num++;
  return true;
}

static bool add_cuts(borders *b, const msc_layout *l, int axis) {
  for (int i = 0; i < num_digits(l); i++)
    if ((int)l->sub[i].axis == axis)
      if (!add_border(b, l->sub[i].pre) || !add_border(b, l->sub[i].pre * l->sub[i].size)) return false;
  return true;
}

static bool add_primes(msc_atoms *out, int axis, uint32_t pre, uint32_t parts) {
  for (uint32_t p = 2; parts > 1; p++)
    for (; parts % p == 0; parts /= p, pre *= p) {
      if (out->num == MSC_MAX_SUBAXES) return false;
      out->atom[out->num++] = (msc_subaxis){(uint32_t)axis, pre, p};
    }
  return true;
}

bool msc_atoms_of(const msc_mesh *mesh, size_t num_layouts, const msc_layout *const *layouts, msc_atoms *out_atoms) {
  memset(out_atoms, 0, sizeof *out_atoms);
  for (int a = 0; a < mesh->num_axes; a++) {
    borders b = {1, {1}};
    MSC_TRY(add_border(&b, (uint32_t)mesh->axis[a].size));
    for (size_t i = 0; i < num_layouts; i++) MSC_TRY(add_cuts(&b, layouts[i], a));
    for (int i = 1; i < b.num; i++) {
      if (b.at[i] % b.at[i - 1]) return false;
      MSC_TRY(add_primes(out_atoms, a, b.at[i - 1], b.at[i] / b.at[i - 1]));
    }
  }
  return true;
}

int msc_atoms_in(const msc_atoms *atoms, int num, const msc_subaxis *s, uint8_t *out_atom) {
  int n = 0;
  for (int i = 0; i < num; i++)
    for (int a = 0; a < atoms->num; a++) {
      msc_subaxis x = atoms->atom[a];
      if (x.axis == s[i].axis && x.pre >= s[i].pre && x.pre * x.size <= s[i].pre * s[i].size)
        out_atom[n++] = (uint8_t)a;
    }
  return n;
}
