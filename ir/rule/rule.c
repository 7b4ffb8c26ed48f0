/* rule.c: an op and its row's rule text in; the rule with the op's actual ranks, sizes and attributes out.
 *
 * The functions named in op.def (rule_...) replace the row's dimensions for ops whose attributes move them; roles and
 * linearity of the row then apply by letter name.  Dimensions of size 1 that broadcast have no letter. */
#include <assert.h>
#include <string.h>

#include "ir/hypers.h"
#include "ir/formula.h"
#include "ir/op_table.h"
#include "ir/rule/rule.h"

/* ---- letters and roles ---- */

int msc_find_letter(const msc_rule *rule, char name) {
  for (int i = 0; i < rule->num_letters; i++)
    if (rule->letter[i].name == name) return i;
  return -1;
}

void msc_rule_give(msc_rule *rule, size_t tensor, int dim, char name, int64_t size) {
  int i = msc_find_letter(rule, name);
  if (i < 0) {
    i = rule->num_letters++;
    rule->letter[i] = (msc_letter){.name = name, .role = MSC_PAR, .size = size};
  }
  msc_dim_letters *d = &rule->tensor[tensor].dim[dim];
  d->letter[d->num++] = (uint8_t)i;
}

void msc_rule_set_windows(msc_rule *rule, char name, int64_t over, int64_t stride) {
  int i = msc_find_letter(rule, name);
  if (i >= 0) rule->letter[i].over = over, rule->letter[i].stride = stride;
}

static void set_role(msc_rule *rule, char name, msc_letter_role role, msc_reduction reduction) {
  int i = msc_find_letter(rule, name);
  if (i < 0) return;
  rule->letter[i].role = (uint8_t)role;
  rule->letter[i].reduction = (uint8_t)reduction;
}

/* Letters A, B, C ... under dimensions [from, to) of a tensor. */
static void give_stars(const msc_op *op, msc_rule *rule, size_t tensor, int from, int to) {
  for (int d = from; d < to; d++)
    msc_rule_give(rule, tensor, d, msc_rule_star(d - from), msc_rule_tensor_type(op, tensor)->dim[d]);
}

/* ---- the rule text ---- */

/* The letters of one tensor in the row's text: "*mk" is {"*mk", 3}. */
typedef struct {
  const char *text;
  size_t num;
} pattern;

static size_t pattern_dims(pattern p) {
  size_t n = 0, depth = 0;
  for (size_t i = 0; i < p.num; i++) {
    if (p.text[i] == '(') depth++;
    if (p.text[i] == ')') depth--, n++;
    else if (!depth && p.text[i] != '*' && p.text[i] != '(') n++;
  }
  return n;
}

/* Gives a tensor the letters of its pattern.  `*` stands for the dimensions that the pattern does not name; they are
 * aligned from the right over all tensors, of which the longest `*` has num_stars. */
static void give_pattern(const msc_op *op, msc_rule *rule, size_t tensor, pattern p, int num_stars) {
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  int stars = t->rank - (int)pattern_dims(p), d = 0;
  for (size_t i = 0; i < p.num && d < t->rank; i++) {
    if (p.text[i] == '*') {
      for (int s = 0; s < stars; s++, d++)
        msc_rule_give(rule, tensor, d, msc_rule_star(num_stars - stars + s), t->dim[d]);
    } else {
      msc_rule_give(rule, tensor, d, p.text[i], t->dim[d]);
      d++;
    }
  }
}

/* Pattern i of a comma-separated list; the last one is that of all further tensors too. */
static pattern pattern_at(const char *text, size_t num, size_t i) {
  const char *end = text + num;
  for (;;) {
    const char *comma = memchr(text, ',', (size_t)(end - text));
    size_t n = (size_t)((comma ? comma : end) - text);
    if (i == 0 || !comma) return (pattern){text, n};
    text = comma + 1;
    i--;
  }
}

static void give_text(const msc_op *op, msc_rule *rule, const char *text) {
  const char *arrow = strstr(text, "->");
  if (!arrow) return;
  pattern p[2] = {{text, (size_t)(arrow - text)}, {arrow + 2, strcspn(arrow + 2, " ;")}};
  int num_stars = 0;
  for (size_t i = 0; i < rule->num_tensors; i++) {
    bool out = i >= rule->num_in;
    pattern q = pattern_at(p[out].text, p[out].num, out ? i - rule->num_in : i);
    int stars = msc_rule_tensor_type(op, i)->rank - (int)pattern_dims(q);
    if (memchr(q.text, '*', q.num) && stars > num_stars) num_stars = stars;
  }
  for (size_t i = 0; i < rule->num_tensors; i++) {
    bool out = i >= rule->num_in;
    give_pattern(op, rule, i, pattern_at(p[out].text, p[out].num, out ? i - rule->num_in : i), num_stars);
  }
}

/* Gives a letter the role that a row names: expand, halo, rep, or a reduction. */
static void set_word_role(msc_rule *rule, char name, const char *text) {
  int i = msc_find_letter(rule, name);
  char word[16] = "";
  size_t num = strcspn(text, " ");
  if (i < 0) return;
  memcpy(word, text, num < sizeof word ? num : sizeof word - 1);
  msc_letter *l = &rule->letter[i];
  if (!strcmp(word, "expand")) {
    l->expands |= l->role != MSC_REP;
  } else if (!strcmp(word, "halo")) {
    l->halo = true;
  } else if (!strcmp(word, "rep")) {
    set_role(rule, name, MSC_REP, MSC_SUM);
  } else {
    msc_reduction reduction = msc_reduction_parse(word);
    assert(reduction < MSC_NUM_REDUCTIONS);
    set_role(rule, name, MSC_RED, reduction);
  }
}

/* Sets the roles that a row's text gives letters: " ; k:sum c:rep". */
static void set_roles(msc_rule *rule, const char *text) {
  for (const char *p = strchr(text, ':'); p; p = strchr(p + 1, ':')) set_word_role(rule, p[-1], p + 1);
}

/* Sets the operands in which the op is linear: " ; lin 0|1" in each alone, " ; lin 1+2" in both together. */
static void set_linear(msc_rule *rule, const char *text) {
  const char *p = strstr(text, "lin ");
  if (!p) return;
  rule->linear = true;
  for (p += 4; *p; p++) {
    if (*p == '+') rule->joint = true;
    if (*p >= '0' && *p <= '9') rule->linear_in |= 1u << (*p - '0');
  }
}

/* `num` tensors for a rule, without letters. */
static msc_tensor_letters *new_tensors(const msc_op *op, msc_arena *arena, size_t num) {
  msc_tensor_letters *tensor = msc_new_array(arena, msc_tensor_letters, num);
  size_t num_dims = 0;
  for (size_t i = 0; i < num; i++) num_dims += (size_t)msc_rule_tensor_type(op, i)->rank;
  msc_dim_letters *dim = msc_new_array(arena, msc_dim_letters, num_dims);
  for (size_t i = 0; i < num; dim += tensor[i++].rank)
    tensor[i] = (msc_tensor_letters){(uint8_t)msc_rule_tensor_type(op, i)->rank, dim};
  return tensor;
}

/* Drops partial sums from the rule of a gather or scatter of i1: i1 has no sum, so a table of truth values stays whole
 * along the rows that indices name. */
static void keep_truth_whole(const msc_op *op, msc_rule *rule) {
  if (!(msc_info(op)->flags & MSC_CHECKED) || op->out[0].type->dtype != MSC_I1) return;
  rule->linear = false, rule->linear_in = 0;
  for (int i = 0; i < rule->num_letters; i++)
    if (rule->letter[i].role == MSC_RED) rule->letter[i].role = MSC_REP;
}

bool msc_rule_of(const msc_op *op, msc_arena *arena, msc_rule *out_rule) {
  const msc_op_info *info = msc_info(op);
  msc_rule *rule = out_rule;
  msc_letter letters[MSC_MAX_LETTERS];
  memset(rule, 0, sizeof *rule);
  rule->num_in = op->num_in;
  rule->num_tensors = (uint16_t)(op->num_in + op->num_out);
  rule->tensor = new_tensors(op, arena, rule->num_tensors);
  rule->letter = letters;
  set_linear(rule, info->rule);
  if (info->rule_fn) MSC_TRY(info->rule_fn(op, rule));
  else give_text(op, rule, info->rule);
  set_roles(rule, info->rule);
  keep_truth_whole(op, rule);
  rule->letter = msc_arena_copy(arena, letters, rule->num_letters * sizeof *letters);
  return true;
}

/* ---- functions of op.def ---- */

/* Each result dimension is a letter; an operand has it where its dimension is as large as the result's. */
bool rule_broadcast(const msc_op *op, msc_rule *rule) {
  const msc_type *y = op->out[0].type;
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    for (int d = 0; d < t->rank; d++) {
      int at = y->rank - t->rank + d;
      if (t->dim[d] == y->dim[at] && t->dim[d] != 1) msc_rule_give(rule, i, d, msc_rule_star(at), t->dim[d]);
    }
  }
  if (msc_op_attr(op, MSC_FACT(pinned))) rule->linear = false, rule->linear_in = 0; /* sums are finished here */
  return true;
}

/* Widening a float keeps sums; narrowing rounds each term. */
bool rule_cast(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type, *y = op->out[0].type;
  bool f64 = y->dtype == MSC_F64, f32 = y->dtype == MSC_F32;
  rule->linear = msc_is_float(x->dtype) && (f64 || (f32 && x->dtype != MSC_F64) || x->dtype == y->dtype);
  rule->linear_in = rule->linear;
  give_stars(op, rule, 0, 0, x->rank);
  give_stars(op, rule, 1, 0, x->rank);
  return true;
}

/* The leading letters of all tensors first, then m and k of a, k and n of b, in the order the transposes leave. */
bool rule_matmul(const msc_op *op, msc_rule *rule) {
  bool ta = msc_op_bool(op, "transpose_a"), tb = msc_op_bool(op, "transpose_b");
  int lead = op->out[0].type->rank - 2;
  const int64_t *y = op->out[0].type->dim;
  const char *const last[3] = {ta ? "km" : "mk", tb ? "nk" : "kn", "mn"};
  for (size_t i = 0; i < 3; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    int own = t->rank - 2;
    for (int d = 0; d < own; d++) {
      int at = lead - own + d;
      if (t->dim[d] == y[at] && t->dim[d] != 1) msc_rule_give(rule, i, d, msc_rule_star(at), t->dim[d]);
    }
  }
  for (size_t i = 0; i < 3; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    for (int d = 0; d < 2; d++) msc_rule_give(rule, i, t->rank - 2 + d, last[i][d], t->dim[t->rank - 2 + d]);
  }
  return true;
}

/* x [*,k], dy [*,n] -> [k,n], summed over *. */
bool rule_weight_grad(const msc_op *op, msc_rule *rule) {
  int lead = op->in[0].value->type->rank - 1;
  for (size_t i = 0; i < 2; i++) {
    give_stars(op, rule, i, 0, lead);
    msc_rule_give(rule, i, lead, "kn"[i], msc_rule_tensor_type(op, i) -> dim[lead]);
    msc_rule_give(rule, 2, (int)i, "kn"[i], msc_rule_tensor_type(op, i) -> dim[lead]);
  }
  for (int d = 0; d < lead; d++) set_role(rule, msc_rule_star(d), MSC_RED, MSC_SUM);
  return true;
}

bool rule_transpose(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type;
  int64_t perm[MSC_MAX_RANK];
  msc_op_ints(op, "perm", perm, MSC_MAX_RANK);
  give_stars(op, rule, 0, 0, x->rank);
  for (int d = 0; d < x->rank; d++) msc_rule_give(rule, 1, d, msc_rule_star((int)perm[d]), x->dim[perm[d]]);
  return true;
}

bool rule_reduce(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type;
  int64_t dims[MSC_MAX_RANK];
  int num = msc_op_ints(op, "dims", dims, MSC_MAX_RANK), at = 0;
  bool keep = msc_op_bool(op, "keep_dims");
  msc_reduction how = msc_info(op)->facts.reduction;
  unsigned gone = 0;
  for (int i = 0; i < num; i++) gone |= 1u << dims[i];
  give_stars(op, rule, 0, 0, x->rank);
  for (int d = 0; d < x->rank; d++) {
    if (gone >> d & 1) {
      set_role(rule, msc_rule_star(d), MSC_RED, how);
      at += keep;
    } else {
      msc_rule_give(rule, 1, at++, msc_rule_star(d), x->dim[d]);
    }
  }
  return true;
}

/* The letter of dimension `axis` is c. */
bool rule_axis(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type;
  int axis = axis_of(op, "axis", x->rank);
  for (size_t i = 0; i < 2; i++)
    for (int d = 0, s = 0; d < x->rank; d++) msc_rule_give(rule, i, d, d == axis ? 'c' : msc_rule_star(s++), x->dim[d]);
  return true;
}

/* One side of a reshape: the dimension that is being divided into letters, and the factor of it that has none yet. */
typedef struct {
  const msc_type *t;
  int dim;
  int64_t left;
} reshape_side;

static void skip_done(reshape_side *w) {
  while (w->left == 1 && w->dim < w->t->rank)
    if (++w->dim < w->t->rank) w->left = w->t->dim[w->dim];
}

static reshape_side side_of(const msc_type *t) {
  reshape_side w = {t, -1, 1};
  skip_done(&w);
  return w;
}

/* Gives each factor that has no letter yet one that may not be cut. */
static void give_whole(msc_rule *rule, size_t tensor, reshape_side *w, int *num) {
  while (w->dim < w->t->rank) {
    char name = msc_rule_star((*num)++);
    msc_rule_give(rule, tensor, w->dim, name, w->left);
    set_role(rule, name, MSC_REP, MSC_SUM);
    w->left = 1;
    skip_done(w);
  }
}

/* Gives each factor that both shapes have in common, beginning at their major ends, a letter of both: [4,6]->[24] is
 * a,b->(ab). Where the next two factors have no common divisor, as 3 and 4 in [12,8]->[16,6], the remaining dimensions
 * have no letters. */
bool rule_reshape(const msc_op *op, msc_rule *rule) {
  reshape_side x = side_of(op->in[0].value->type), y = side_of(op->out[0].type);
  int num = 0;
  if (msc_type_elems(x.t) == 0) return true;
  while (x.dim < x.t->rank && y.dim < y.t->rank) {
    int64_t common = msc_gcd(x.left, y.left);
    if (common == 1) break;
    char name = msc_rule_star(num++);
    msc_rule_give(rule, 0, x.dim, name, common);
    msc_rule_give(rule, 1, y.dim, name, common);
    x.left /= common, y.left /= common;
    skip_done(&x);
    skip_done(&y);
  }
  give_whole(rule, 0, &x, &num);
  give_whole(rule, 1, &y, &num);
  return true;
}

/* Gives the dimensions of a tensor the letters A, B ..; A is followed by k, of size `parts`, if that is not 0. */
static void give_stars_of_parts(const msc_op *op, msc_rule *rule, size_t tensor, int64_t parts) {
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  for (int d = 0; d < t->rank; d++) {
    bool has_parts = d == 0 && parts;
    msc_rule_give(rule, tensor, d, msc_rule_star(d), has_parts ? t->dim[d] / parts : t->dim[d]);
    if (has_parts) msc_rule_give(rule, tensor, d, 'k', parts);
  }
}

bool rule_accumulate(const msc_op *op, msc_rule *rule) {
  give_stars_of_parts(op, rule, 0, 0);
  give_stars_of_parts(op, rule, 1, msc_op_bool(op, "rows") ? msc_op_int(op, MSC_FACT(count)) : 0);
  return true;
}

bool rule_put_rows(const msc_op *op, msc_rule *rule) {
  int64_t n = op->in[1].value->type->dim[0], parts = n ? op->in[0].value->type->dim[0] / n : 0;
  give_stars_of_parts(op, rule, 0, parts);
  give_stars_of_parts(op, rule, 1, 0);
  give_stars_of_parts(op, rule, 3, parts);
  return true;
}

/* Gives every dimension a letter of its own, except those in `whole`, which get none. */
static bool give_own_letters(const msc_op *op, msc_rule *rule, unsigned whole) {
  for (size_t i = 0; i < rule->num_tensors; i++)
    for (int d = 0; d < rule->tensor[i].rank; d++)
      if (!(whole >> d & 1)) msc_rule_give(rule, i, d, msc_rule_star(d), msc_rule_tensor_type(op, i)->dim[d]);
  return true;
}

bool rule_concat(const msc_op *op, msc_rule *rule) {
  rule->linear_in = op->num_in < 32 ? (1u << op->num_in) - 1 : ~0u;
  rule->linear = op->num_in <= 32;
  return give_own_letters(op, rule, 1u << msc_op_int(op, "dim"));
}

bool rule_split(const msc_op *op, msc_rule *rule) { return give_own_letters(op, rule, 1u << msc_op_int(op, "dim")); }

bool rule_slice(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type, *y = op->out[0].type;
  unsigned whole = 0;
  for (int d = 0; d < x->rank; d++) whole |= (unsigned)(x->dim[d] != y->dim[d]) << d;
  return give_own_letters(op, rule, whole);
}

/* pad passes partial sums only if it pads with zeros. */
bool rule_pad(const msc_op *op, msc_rule *rule) {
  rule->linear = msc_op_float(op, "value") == 0;
  rule->linear_in = rule->linear;
  return rule_slice(op, rule);
}

/* Gives the row dimension of an aligned table the parts that its `manual_split` names. */
static void split_rows(const msc_op *op, msc_dim_letters *dim) {
  int num = msc_op_ints(op, MSC_FACT(manual_split), NULL, 0);
  if (num < 2 || !msc_op_bool(op, MSC_FACT(aligned))) return;
  msc_arena *scratch = msc_arena_new(msc_op_ctx(op));
  int64_t *size = msc_new_array(scratch, int64_t, num);
  msc_op_ints(op, MSC_FACT(manual_split), size, num);
  dim->split = msc_split_of(msc_op_ctx(op), (size_t)num, size);
  dim->num_split = (uint32_t)num;
  msc_arena_free(scratch);
}

/* The letter of a table's rows.  Where table and indices are aligned, part i of the indices' columns names rows of part
 * i only: rows and columns are one letter, and nothing is summed. */
static char rows_letter(const msc_op *op, int num_index_dims) {
  return msc_op_bool(op, MSC_FACT(aligned)) && msc_op_attr(op, MSC_FACT(manual_split)) && num_index_dims > 0
             ? msc_rule_star(num_index_dims - 1)
             : 'v';
}

/* Gives a tensor the letters p, q ... before dimension `axis` and d, e ... behind it.  At the axis a table has the
 * letter `rows` (row_dims < 0); updates have there row_dims dimensions of the indices. */
static void give_table(const msc_op *op, msc_rule *rule, size_t tensor, int axis, int row_dims, char rows) {
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  for (int d = 0; d < axis; d++) msc_rule_give(rule, tensor, d, (char)('p' + d), t->dim[d]);
  if (row_dims < 0) msc_rule_give(rule, tensor, axis, rows, t->dim[axis]);
  if (row_dims < 0) split_rows(op, &rule->tensor[tensor].dim[axis]);
  int skip = row_dims < 0 ? 1 : row_dims;
  for (int d = 0; d < row_dims; d++) msc_rule_give(rule, tensor, axis + d, msc_rule_star(d), t->dim[axis + d]);
  for (int d = axis + skip; d < t->rank; d++) msc_rule_give(rule, tensor, d, (char)('d' + d - axis - skip), t->dim[d]);
}

/* table [p,v,d], indices [*] -> [p,*,d]: a rank with some of the rows has zeros for the others, hence v:sum. */
bool rule_gather(const msc_op *op, msc_rule *rule) {
  int axis = (int)msc_op_int(op, "axis"), num = msc_rule_tensor_type(op, 1)->rank;
  /* The indices' letters come first, because strategies and device matrices list them before the table's. */
  give_stars(op, rule, 1, 0, num);
  give_table(op, rule, 0, axis, -1, rows_letter(op, num));
  give_table(op, rule, 2, axis, num, 0);
  return true;
}

/* indices [*], updates [p,*,d] -> [p,v,d] */
bool rule_scatter_add(const msc_op *op, msc_rule *rule) {
  int axis = (int)msc_op_int(op, "axis"), num = msc_rule_tensor_type(op, 0)->rank;
  give_stars(op, rule, 0, 0, num);
  give_table(op, rule, 1, axis, num, 0);
  give_table(op, rule, 2, axis, -1, rows_letter(op, num));
  for (int d = 0; d < num; d++)
    if (rows_letter(op, num) != msc_rule_star(d)) set_role(rule, msc_rule_star(d), MSC_RED, MSC_SUM);
  return true;
}

/* The last letter of a tensor in the row's text is that of dimension `axis`. */
bool rule_along(const msc_op *op, msc_rule *rule) {
  const char *text = msc_info(op)->rule, *out = strstr(text, "->") + 2;
  int axis = axis_of(op, "axis", msc_rule_tensor_type(op, 0)->rank);
  for (size_t i = 0; i < rule->num_tensors; i++) {
    bool is_out = i >= rule->num_in;
    pattern p =
        is_out ? pattern_at(out, strcspn(out, " ;"), i - rule->num_in) : pattern_at(text, (size_t)(out - 2 - text), i);
    const msc_type *t = msc_rule_tensor_type(op, i);
    for (int d = 0, s = 0; d < t->rank; d++)
      msc_rule_give(rule, i, d, d == axis ? p.text[p.num - 1] : msc_rule_star(s++), t->dim[d]);
  }
  return true;
}

/* Gives an op along an axis its letters. The axis may be cut where the op is expanded into blocks (expand/scan.c);
 * without blocks it stays whole. */
bool rule_blocks(const msc_op *op, msc_rule *rule) {
  const msc_type *x = msc_rule_tensor_type(op, 0);
  int64_t n = x->dim[axis_of(op, "axis", x->rank)];
  rule_along(op, rule);
  if (x->rank == MSC_MAX_RANK || msc_num_blocks(op, n) == 1) set_role(rule, msc_info(op)->rule[1], MSC_REP, MSC_SUM);
  return true;
}

/* The letter of dimension `axis` is n; the result lacks that dimension or has it with size 1. */
bool rule_argmax(const msc_op *op, msc_rule *rule) {
  const msc_type *x = op->in[0].value->type;
  int axis = axis_of(op, "axis", x->rank);
  for (int d = 0, s = 0, at = 0; d < x->rank; d++) {
    char name = d == axis ? 'n' : msc_rule_star(s++);
    msc_rule_give(rule, 0, d, name, x->dim[d]);
    if (d != axis) msc_rule_give(rule, 1, at++, name, x->dim[d]);
    else at += msc_op_bool(op, "keep_dims");
  }
  return true;
}

/* Gives a tensor whose first `depth` dimensions indices name its letters: v, which may be cut as in gather, then p, q
 * ..., which stay whole; d, e ... for the others. */
static void give_named(const msc_op *op, msc_rule *rule, size_t tensor, int depth) {
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  for (int d = 0; d < t->rank; d++) {
    char name = (char)(d >= depth ? 'd' + d - depth : d ? 'p' + d - 1 : 'v');
    msc_rule_give(rule, tensor, d, name, t->dim[d]);
    if (d && d < depth) set_role(rule, name, MSC_REP, MSC_SUM);
  }
}

/* Gives a tensor the letters A, B ... for its first `lead` dimensions and d, e ... for the others. */
static void give_blocks(const msc_op *op, msc_rule *rule, size_t tensor, int lead) {
  const msc_type *t = msc_rule_tensor_type(op, tensor);
  give_stars(op, rule, tensor, 0, lead);
  for (int d = lead; d < t->rank; d++) msc_rule_give(rule, tensor, d, (char)('d' + d - lead), t->dim[d]);
}

/* Gives the letters of gather_nd; the last dimension of indices has none. */
bool rule_gather_nd(const msc_op *op, msc_rule *rule) {
  const msc_type *indices = msc_rule_tensor_type(op, 1);
  int lead = indices->rank - 1;
  give_named(op, rule, 0, (int)indices->dim[lead]);
  give_stars(op, rule, 1, 0, lead);
  give_blocks(op, rule, 2, lead);
  return true;
}

bool rule_scatter_nd_add(const msc_op *op, msc_rule *rule) {
  const msc_type *indices = msc_rule_tensor_type(op, 0);
  int lead = indices->rank - 1;
  give_stars(op, rule, 0, 0, lead);
  give_blocks(op, rule, 1, lead);
  give_named(op, rule, 2, (int)indices->dim[lead]);
  for (int d = 0; d < lead; d++) set_role(rule, msc_rule_star(d), MSC_RED, MSC_SUM);
  return true;
}

/* The last of several updates of a row wins.  A rank with a part of them cannot tell which is last, so updates stay
 * whole. */
bool rule_scatter_update(const msc_op *op, msc_rule *rule) {
  int axis = (int)msc_op_int(op, "axis"), num = msc_rule_tensor_type(op, 1)->rank;
  give_table(op, rule, 0, axis, -1, 'v');
  give_stars(op, rule, 1, 0, num);
  give_table(op, rule, 2, axis, num, 0);
  give_table(op, rule, 3, axis, -1, 'v');
  for (int d = 0; d < num; d++) set_role(rule, msc_rule_star(d), MSC_REP, MSC_SUM);
  return true;
}

/* Each rank compares with the classes of its own part. */
bool rule_one_hot(const msc_op *op, msc_rule *rule) {
  int rank = msc_rule_tensor_type(op, 0)->rank;
  give_stars(op, rule, 0, 0, rank);
  give_stars(op, rule, 1, 0, rank);
  msc_rule_give(rule, 1, rank, 'c', op->out[0].type->dim[rank]);
  return true;
}

/* Gives every tensor the letters of the logits' rows, and c last if it has the logits' rank. */
static bool give_rows(const msc_op *op, msc_rule *rule) {
  int rank = msc_rule_tensor_type(op, 0)->rank;
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    give_stars(op, rule, i, 0, t->rank < rank ? t->rank : rank - 1);
    if (t->rank == rank) msc_rule_give(rule, i, rank - 1, 'c', t->dim[rank - 1]);
  }
  return true;
}

bool msc_counts_kept_rows(const msc_op *op) {
  return msc_op_attr(op, "ignore_index") && msc_op_loss_reduction(op) == MSC_LOSS_MEAN;
}

/* A mean over kept rows is a quotient of two sums, not a sum. */
bool rule_cross_entropy(const msc_op *op, msc_rule *rule) {
  give_rows(op, rule);
  if (msc_counts_kept_rows(op)) {
    for (int d = 0; d < msc_rule_tensor_type(op, 0)->rank - 1; d++) set_word_role(rule, msc_rule_star(d), "expand");
    return true;
  }
  for (int d = 0; op->out[0].type->rank == 0 && d < msc_rule_tensor_type(op, 0)->rank - 1; d++)
    set_role(rule, msc_rule_star(d), MSC_RED, MSC_SUM);
  return true;
}

bool rule_cross_entropy_grad(const msc_op *op, msc_rule *rule) { return give_rows(op, rule); }

bool rule_elements_loss(const msc_op *op, msc_rule *rule) {
  int rank = msc_rule_tensor_type(op, 0)->rank;
  for (size_t i = 0; i < rule->num_tensors; i++) give_stars(op, rule, i, 0, msc_rule_tensor_type(op, i)->rank);
  for (int d = 0; op->out[0].type->rank == 0 && d < rank; d++) set_role(rule, msc_rule_star(d), MSC_RED, MSC_SUM);
  return true;
}

/* Every tensor is shaped like the parameter, or is a scalar, or the list of hyper-parameters [h], which stays whole. */
bool rule_update(const msc_op *op, msc_rule *rule) {
  size_t rate = msc_reads_hypers(op) ? (size_t)msc_operand_called(op, "rate") : rule->num_tensors;
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    if (i == rate) msc_rule_give(rule, i, 0, 'h', t->dim[0]);
    else give_stars(op, rule, i, 0, t->rank);
  }
  if (rate < rule->num_tensors) set_role(rule, 'h', MSC_REP, MSC_SUM);
  return true;
}

/* w and its state [v,*], indices and order [n], rows g [g,*]: a rank updates those of its rows that indices name. The
 * list of hyper-parameters [h] stays whole. */
bool rule_lazy_update(const msc_op *op, msc_rule *rule) {
  bool has_list = msc_reads_hypers(op);
  for (size_t i = 0; i < rule->num_tensors; i++) {
    const msc_type *t = msc_rule_tensor_type(op, i);
    const char *name = i < op->num_in ? msc_info(op)->operand[i].name : "w";
    char first = !strcmp(name, "indices") || !strcmp(name, "order") ? 'n' : !strcmp(name, "g") ? 'g' : 'v';
    if (has_list && !strcmp(name, "rate")) first = 'h';
    for (int d = 0; d < t->rank; d++) msc_rule_give(rule, i, d, d ? (char)('A' + d - 1) : first, t->dim[d]);
  }
  if (has_list) set_role(rule, 'h', MSC_REP, MSC_SUM);
  return true;
}

/* ---- text of a rule ---- */

static const char *append(msc_arena *arena, const char *text, const char *more) {
  return msc_arena_printf(arena, "%s%s", text, more);
}

static const char *print_tensor(msc_arena *arena, const msc_rule *rule, const char *text, size_t tensor) {
  for (int d = 0; d < rule->tensor[tensor].rank; d++) {
    const msc_dim_letters *l = &rule->tensor[tensor].dim[d];
    if (l->num == 0) text = append(arena, text, ".");
    if (l->num > 1) text = append(arena, text, "(");
    for (int i = 0; i < l->num; i++) text = msc_arena_printf(arena, "%s%c", text, rule->letter[l->letter[i]].name);
    if (l->num > 1) text = append(arena, text, ")");
  }
  return text;
}

const char *msc_rule_print(msc_arena *arena, const msc_rule *rule) {
  const char *text = "", *before = " ; ";
  for (size_t i = 0; i < rule->num_tensors || i <= rule->num_in; i++) {
    if (i == rule->num_in) text = append(arena, text, "->");
    else if (i) text = append(arena, text, ",");
    if (i < rule->num_tensors) text = print_tensor(arena, rule, text, i);
  }
  for (int i = 0; i < rule->num_letters; i++) {
    const msc_letter *l = &rule->letter[i];
    if (l->expands) text = msc_arena_printf(arena, "%s%s%c:expand", text, before, l->name), before = " ";
    if (l->role != MSC_PAR)
      text = msc_arena_printf(arena, "%s%s%c:%s", text, before, l->name,
                              l->role == MSC_REP ? "rep" : msc_reduction_name(l->reduction)),
      before = " ";
    if (l->halo) text = msc_arena_printf(arena, "%s%s%c:halo", text, before, l->name), before = " ";
  }
  if (!rule->linear) return text;
  before = " ; lin ";
  for (int i = 0; i < 32; i++)
    if (rule->linear_in >> i & 1) {
      text = msc_arena_printf(arena, "%s%s%d", text, before, i);
      before = rule->joint ? "+" : "|";
    }
  return text;
}
