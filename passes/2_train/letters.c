/* letters.c: an op and the ops that compute its gradient in; for each letter of theirs, the forward op's letter out.
 *
 * The forward op's rule gives letters to the dimensions of its operands and results, and so to their gradients, which
 * have the same shapes.  A letter of a gradient op is the forward letter of a dimension that it stands for.  Two walks,
 * forward from the known tensors and backward from the operands' gradients, settle what lies between.  Worked example,
 * y = matmul(a, b), letters mk,kn->mn: db = matmul(a, dy, transpose_a) has own letters km,kn->mn with k: a's m, m: a's
 * k, n: dy's n.  So its letters are "kmn": cutting the forward op along m leaves db partial, without a
 * word about matmul. */
#include <string.h>

#include "passes/2_train/train.h"

enum { UNKNOWN = 0xff };

/* Forward letters that a value's dimensions may stand for.  A value used twice by the forward op has several. */
typedef struct {
  msc_tensor_letters *letters;
  int32_t next; /* of the same value; -1: none */
  bool told;    /* by a gradient op, so it may be told more */
} candidate;

struct msc_letter_map {
  msc_context *ctx;
  msc_arena *arena, *scratch; /* scratch: emptied now and then */
  uint32_t stamp;             /* of the current forward op */
  uint32_t num_values, room;  /* of the arrays by value id */
  uint32_t *stamps;
  int32_t *first;             /* candidate; valid when the stamp is the current one */
  size_t num_candidates, candidate_room;
  candidate *candidates;
  msc_rule forward;
};

typedef struct {
  msc_op *op;
  msc_rule rule;
  uint8_t to[MSC_MAX_LETTERS]; /* own letter -> forward letter */
  uint32_t used;               /* mask of forward letters */
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

static void *grown(msc_arena *arena, const void *array, size_t num, size_t room, size_t bytes) {
  void *p = msc_arena_alloc(arena, room * bytes);
  if (num) memcpy(p, array, num * bytes);
  return p;
}

/* ---- candidates ---- */

static void reserve(msc_letter_map *map, uint32_t id) {
  if (id < map->room) return;
  uint32_t room = map->room ? map->room : 64;
  while (room <= id) room *= 2;
  map->stamps = grown(map->arena, map->stamps, map->room, room, sizeof *map->stamps);
  map->first = grown(map->arena, map->first, map->room, room, sizeof *map->first);
  map->room = room;
}

static int32_t first_candidate(msc_letter_map *map, const msc_value *v) {
  return v->id < map->room && map->stamps[v->id] == map->stamp ? map->first[v->id] : -1;
}

static void add_candidate(msc_letter_map *map, const msc_value *v, msc_tensor_letters *letters, bool told) {
  if (map->num_candidates == map->candidate_room) {
    size_t room = map->candidate_room ? 2 * map->candidate_room : 64;
    map->candidates = grown(map->arena, map->candidates, map->num_candidates, room, sizeof *map->candidates);
    map->candidate_room = room;
  }
  reserve(map, v->id);
  int32_t next = first_candidate(map, v);
  map->stamps[v->id] = map->stamp;
  map->first[v->id] = (int32_t)map->num_candidates;
  map->candidates[map->num_candidates++] = (candidate){letters, next, told};
}

/* ---- one tensor against one candidate ---- */

/* Own letters of one dimension stand for the candidate's, one by one.  false: they cannot. */
static bool match_dim(const msc_letter_map *map, mapped_op *m, const msc_dim_letters *own,
                      const msc_dim_letters *theirs) {
  if (own->num != theirs->num) return false;
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

/* All dimensions that fit are taken; true: all did. */
static bool match(const msc_letter_map *map, mapped_op *m, const msc_tensor_letters *own,
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
    if (match(map, m, &m->rule.tensor[tensor], map->candidates[c].letters) || !ambiguous) return;
    *m = before;
  }
}

/* ---- one op ---- */

static const msc_value *tensor_of(const mapped_op *m, size_t i) {
  return i < m->op->num_in ? m->op->in[i].value : &m->op->out[i - m->op->num_in];
}

static msc_tensor_letters *copy_letters(msc_arena *arena, const msc_tensor_letters *of) {
  msc_tensor_letters *copy = msc_arena_copy(arena, of, sizeof *of);
  copy->dim = msc_arena_copy(arena, of->dim, of->rank * sizeof *of->dim);
  return copy;
}

/* What the op knows of its tensor is told to the others through the tensor's candidate. */
static void tell(msc_letter_map *map, const mapped_op *m, size_t tensor) {
  const msc_tensor_letters *own = &m->rule.tensor[tensor];
  int32_t c = first_candidate(map, tensor_of(m, tensor));
  if (c >= 0 && !map->candidates[c].told) return;
  msc_tensor_letters *told = c >= 0 ? map->candidates[c].letters : copy_letters(map->scratch, own);
  for (int d = 0; d < own->rank; d++)
    for (int i = 0; i < own->dim[d].num && own->dim[d].num == told->dim[d].num; i++) {
      uint8_t letter = m->to[own->dim[d].letter[i]];
      if (c < 0 || letter != UNKNOWN) told->dim[d].letter[i] = letter;
    }
  if (c < 0) add_candidate(map, tensor_of(m, tensor), told, true);
}

static bool is_complete(const mapped_op *m) {
  for (int i = 0; i < m->rule.num_letters; i++)
    if (m->to[i] == UNKNOWN) return false;
  return true;
}

static void settle(msc_letter_map *map, mapped_op *m) {
  for (int ambiguous = 0; ambiguous < 2; ambiguous++)
    for (size_t i = 0; i < m->rule.num_tensors && !is_complete(m); i++)
      match_value(map, m, tensor_of(m, i), i, ambiguous != 0);
  for (size_t i = 0; i < m->rule.num_tensors; i++) tell(map, m, i);
}

static void write_letters(msc_letter_map *map, const mapped_op *m) {
  char text[MSC_MAX_LETTERS + 1] = {0};
  for (int i = 0; i < m->rule.num_letters; i++)
    text[i] = m->to[i] == UNKNOWN ? '.' : map->forward.letter[m->to[i]].name;
  m->op->letters = msc_intern(map->ctx, text);
}

/* ---- the gradient of one op ---- */

static bool begin(msc_letter_map *map, const msc_op *forward, msc_value *const *dresult, msc_value *const *doperand) {
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

/* A sum of gradients of a value that another op made has that op's letters. */
static bool map_sum(msc_letter_map *map, msc_op *sum) {
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
  MSC_TRY(begin(map, forward, dresult, doperand));
  size_t num = 1;
  for (msc_op *op = first; op != last; op = op->next) num++;
  mapped_op *ops = msc_new_array(map->scratch, mapped_op, num);
  size_t num_all = num;
  num = 0;
  for (size_t k = 0; k < num_all; k++, first = first->next) {
    if (first->forward && first->forward != forward) {
      MSC_TRY(map_sum(map, first));
      continue;
    }
    size_t i = num++;
    ops[i].op = first;
    memset(ops[i].to, UNKNOWN, sizeof ops[i].to);
    MSC_TRY(msc_rule_of(first, map->scratch, &ops[i].rule));
    /* has the forward op's */
    for (int l = 0; first->kind == OP_vjp && l < ops[i].rule.num_letters; l++) ops[i].to[l] = (uint8_t)l;
    settle(map, &ops[i]);
  }
  for (size_t i = num; i-- > 0;) settle(map, &ops[i]);
  for (size_t i = 0; i < num; i++) {
    settle(map, &ops[i]);
    write_letters(map, &ops[i]);
    if (!ops[i].op->num_in) ops[i].op->forward = NULL, ops[i].op->letters = NULL; /* a constant has no part in it */
  }
  return true;
}
