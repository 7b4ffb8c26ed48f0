/* gradient_letters.c: finds, for each letter of the ops that compute a gradient, the letter of the forward op that it
 * stands for.
 *
 * The rule of the forward op gives letters to the dimensions of its operands and results, and so to their gradients,
 * which have the same shapes. A letter of a gradient op is the forward letter of a dimension that it stands for. Two
 * walks, forward from the known tensors and backward from the gradients of the operands, find the letters of the
 * tensors in between. Worked example, y = matmul(a, b), letters mk,kn->mn: db = matmul(a, dy, transpose_a) has own
 * letters km,kn->mn with k: a's m, m: a's k, n: dy's n. So its letters are "kmn": cutting the forward op along m leaves
 * db partial, without a rule for matmul here. */
#include <string.h>

#include "ir/table.h"
#include "passes/2_train/train.h"

enum { UNKNOWN = 0xff };

/* Forward letters that the dimensions of a value may stand for. A value that the forward op uses twice has several. */
typedef struct {
  msc_tensor_letters *letters;
  int32_t next; /* of the same value; -1: none */
  bool told;    /* found from a gradient op, so more letters may be added */
} candidate;

struct msc_letter_map {
  msc_context *ctx;
  msc_arena *arena, *scratch; /* scratch: freed when it becomes large */
  uint32_t stamp;             /* number of the current forward op */
  uint32_t num_values, room;  /* sizes of the arrays by value id */
  uint32_t *stamps;
  int32_t *first;             /* first candidate; valid if the stamp is the current one */
  size_t num_candidates, candidate_room;
  candidate *candidates;
  msc_rule forward;
};

typedef struct {
  msc_op *op;
  msc_rule rule;
  uint8_t to[MSC_MAX_LETTERS]; /* own letter -> forward letter */
  uint32_t used;               /* mask of the forward letters in `to` */
} mapped_op;

msc_letter_map *msc_letter_map_new(msc_context *ctx, msc_arena *arena) {
  msc_letter_map *map = msc_new(arena, msc_letter_map);
  map->ctx = ctx;
  map->arena = arena;
  return map;
}

void msc_letter_map_free(msc_letter_map *map) {
  if (map->scratch) msc_arena_free(map->scratch);
  map->scratch = NULL;
}

/* ---- candidates ---- */

static void reserve_value(msc_letter_map *map, uint32_t id) {
  uint32_t room = map->room; /* of both */
  msc_reserve(map->arena, map->stamps, room, id + 1);
  msc_reserve(map->arena, map->first, map->room, id + 1);
}

static int32_t first_candidate(msc_letter_map *map, const msc_value *v) {
  return v->id < map->room && map->stamps[v->id] == map->stamp ? map->first[v->id] : -1;
}

static void add_candidate(msc_letter_map *map, const msc_value *v, msc_tensor_letters *letters, bool told) {
  msc_reserve(map->arena, map->candidates, map->candidate_room, map->num_candidates + 1);
  reserve_value(map, v->id);
  int32_t next = first_candidate(map, v);
  map->stamps[v->id] = map->stamp;
  map->first[v->id] = (int32_t)map->num_candidates;
  map->candidates[map->num_candidates++] = (candidate){letters, next, told};
}

/* ---- one tensor against one candidate ---- */

/* True if the dimension has one element: rules give such dimensions a letter or none. */
static bool has_one_element(const msc_rule *rule, const msc_dim_letters *dim) {
  for (int i = 0; i < dim->num; i++)
    if (dim->letter[i] == UNKNOWN || rule->letter[dim->letter[i]].size != 1) return false;
  return true;
}

/* Maps the own letters of one dimension to those of the candidate, one by one. False: impossible. */
static bool match_dim(const msc_letter_map *map, mapped_op *m, const msc_dim_letters *own,
                      const msc_dim_letters *theirs) {
  if (own->num != theirs->num) return has_one_element(&m->rule, own) && has_one_element(&map->forward, theirs);
  for (int i = 0; i < own->num; i++) {
    uint8_t mine = own->letter[i], other = theirs->letter[i];
    if (other == UNKNOWN || m->to[mine] == other) continue;
    bool free = m->to[mine] == UNKNOWN && !(m->used >> other & 1);
    if (!free || m->rule.letter[mine].size != map->forward.letter[other].size) return false;
    m->to[mine] = other;
    m->used |= 1u << other;
  }
  return true;
}

/* Maps the letters of all dimensions that fit; true if all did. */
static bool match_tensor(const msc_letter_map *map, mapped_op *m, const msc_tensor_letters *own,
                         const msc_tensor_letters *theirs) {
  bool all = own->rank == theirs->rank;
  for (int d = 0; d < own->rank && own->rank == theirs->rank; d++) {
    mapped_op before = *m;
    if (match_dim(map, m, &own->dim[d], &theirs->dim[d])) continue;
    *m = before;
    all = false;
  }
  return all;
}

static void match_value(msc_letter_map *map, mapped_op *m, const msc_value *v, size_t tensor, bool ambiguous) {
  int32_t c = first_candidate(map, v);
  if (c < 0 || (map->candidates[c].next >= 0) != ambiguous) return;
  for (; c >= 0; c = map->candidates[c].next) {
    mapped_op before = *m;
    if (match_tensor(map, m, &m->rule.tensor[tensor], map->candidates[c].letters) || !ambiguous) return;
    *m = before;
  }
}

/* ---- one op ---- */

static const msc_value *tensor_of_mapped(const mapped_op *m, size_t i) {
  return i < m->op->num_in ? m->op->in[i].value : &m->op->out[i - m->op->num_in];
}

static msc_tensor_letters *copy_letters(msc_arena *arena, const msc_tensor_letters *of) {
  msc_tensor_letters *copy = msc_arena_copy(arena, of, sizeof *of);
  copy->dim = msc_arena_copy(arena, of->dim, of->rank * sizeof *of->dim);
  return copy;
}

/* Adds what the op knows about a tensor to the candidate of the tensor, for other ops. */
static void update_candidate(msc_letter_map *map, const mapped_op *m, size_t tensor) {
  const msc_tensor_letters *own = &m->rule.tensor[tensor];
  int32_t c = first_candidate(map, tensor_of_mapped(m, tensor));
  if (c >= 0 && !map->candidates[c].told) return;
  msc_tensor_letters *told = c >= 0 ? map->candidates[c].letters : copy_letters(map->scratch, own);
  for (int d = 0; d < own->rank; d++)
    for (int i = 0; i < own->dim[d].num && own->dim[d].num == told->dim[d].num; i++) {
      uint8_t letter = m->to[own->dim[d].letter[i]];
      if (c < 0 || letter != UNKNOWN) told->dim[d].letter[i] = letter;
    }
  if (c < 0) add_candidate(map, tensor_of_mapped(m, tensor), told, true);
}

static bool is_fully_mapped(const mapped_op *m) {
  for (int i = 0; i < m->rule.num_letters; i++)
    if (m->to[i] == UNKNOWN) return false;
  return true;
}

static void map_own_letters(msc_letter_map *map, mapped_op *m) {
  for (int ambiguous = 0; ambiguous < 2; ambiguous++)
    for (size_t i = 0; i < m->rule.num_tensors && !is_fully_mapped(m); i++)
      match_value(map, m, tensor_of_mapped(m, i), i, ambiguous != 0);
  for (size_t i = 0; i < m->rule.num_tensors; i++) update_candidate(map, m, i);
}

static void write_letters(msc_letter_map *map, const mapped_op *m) {
  char text[MSC_MAX_LETTERS + 1] = {0};
  for (int i = 0; i < m->rule.num_letters; i++)
    text[i] = m->to[i] == UNKNOWN ? '.' : map->forward.letter[m->to[i]].name;
  m->op->letters = msc_intern(map->ctx, text);
}

/* ---- the gradient of one op ---- */

static bool start_mapping(msc_letter_map *map, const msc_op *forward, msc_value *const *dresult,
                          msc_value *const *doperand) {
  if (map->scratch && msc_arena_bytes(map->scratch) > 1 << 20) msc_letter_map_free(map);
  if (!map->scratch) map->scratch = msc_arena_new(map->ctx);
  map->stamp++;
  map->num_candidates = 0;
  MSC_TRY(msc_rule_of(forward, map->scratch, &map->forward));
  for (size_t i = 0; i < forward->num_in; i++) {
    add_candidate(map, forward->in[i].value, &map->forward.tensor[i], false);
    if (doperand[i] && doperand[i] != forward->in[i].value)
      add_candidate(map, doperand[i], &map->forward.tensor[i], false);
  }
  for (size_t i = 0; i < forward->num_out; i++) {
    add_candidate(map, &forward->out[i], &map->forward.tensor[forward->num_in + i], false);
    if (dresult[i]) add_candidate(map, dresult[i], &map->forward.tensor[forward->num_in + i], false);
  }
  return true;
}

/* Gives a sum of gradients the letters of the op that made the value. */
static bool map_letters_of_sum(msc_letter_map *map, msc_op *sum) {
  msc_rule own, made;
  char text[MSC_MAX_LETTERS + 1] = {0};
  const msc_op *by = sum->forward;
  size_t out = 0;
  MSC_TRY(msc_rule_of(sum, map->scratch, &own) && msc_rule_of(by, map->scratch, &made));
  while (out + 1 < by->num_out && memcmp(by->out[out].type->dim, sum->out[0].type->dim, sizeof by->out[out].type->dim))
    out++;
  memset(text, '.', own.num_letters);
  for (int d = 0; d < own.tensor[0].rank; d++) {
    const msc_dim_letters *mine = &own.tensor[own.num_in].dim[d], *theirs = &made.tensor[made.num_in + out].dim[d];
    if (mine->num == 1 && theirs->num == 1) text[mine->letter[0]] = made.letter[theirs->letter[0]].name;
  }
  sum->letters = msc_intern(map->ctx, text);
  return true;
}

bool msc_map_letters(msc_letter_map *map, const msc_op *forward, msc_op *first, msc_op *last, msc_value *const *dresult,
                     msc_value *const *doperand) {
  MSC_TRY(start_mapping(map, forward, dresult, doperand));
  size_t num = 1;
  for (msc_op *op = first; op != last; op = op->next) num++;
  mapped_op *ops = msc_new_array(map->scratch, mapped_op, num);
  size_t num_all = num;
  num = 0;
  for (size_t k = 0; k < num_all; k++, first = first->next) {
    if (first->forward && first->forward != forward) {
      MSC_TRY(map_letters_of_sum(map, first));
      continue;
    }
    size_t i = num++;
    ops[i].op = first;
    memset(ops[i].to, UNKNOWN, sizeof ops[i].to);
    MSC_TRY(msc_rule_of(first, map->scratch, &ops[i].rule));
    /* a vjp has the letters of its forward op */
    for (int l = 0; first->kind == OP_vjp && l < ops[i].rule.num_letters; l++) ops[i].to[l] = (uint8_t)l;
    map_own_letters(map, &ops[i]);
  }
  for (size_t i = num; i-- > 0;) map_own_letters(map, &ops[i]);
  for (size_t i = 0; i < num; i++) {
    map_own_letters(map, &ops[i]);
    write_letters(map, &ops[i]);
    /* a constant belongs to no forward op */
    if (!ops[i].op->num_in) ops[i].op->forward = NULL, ops[i].op->letters = NULL;
  }
  return true;
}
