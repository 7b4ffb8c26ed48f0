/* verify.c: a kernel's program in; its first fault as text, or NULL, out.
 *
 * What holds afterwards is what codegen/emit relies on: an operand is computed before its user in every loop in which
 * the user is, values have the types that their rows in code.def say, and numbers of axes, buffers, dims and scalars
 * are in range.  Places inside a buffer depend on sizes and data, and are not checked. */
#include <string.h>

#include "passes/7_lower/nest/nester.h"

typedef struct {
  const msc_program *p;
  const msc_program_head *h;
  msc_arena *arena;
  const char *fault;
} verifier;

static bool note_fault(verifier *v, const char *fmt, ...) MSC_PRINTF(2, 3);
static bool note_fault(verifier *v, const char *fmt, ...) {
  char text[200];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  v->fault = msc_arena_printf(v->arena, "%s", text);
  return false;
}

static bool note_instr_fault(verifier *v, int i, const char *what) {
  return note_fault(v, "instruction %d: %s", i, what);
}

static uint16_t bit(int axis) { return axis >= 0 ? (uint16_t)(1u << axis) : 0; }
static bool is_slot(const verifier *v, uint8_t slot) { return slot < v->h->num_dims + 2; }
static bool is_axis(const verifier *v, int axis) { return axis >= -1 && axis < v->h->num_axes; }
static bool is_power_of_two(unsigned n) { return n && !(n & (n - 1)); }
static int innermost(uint16_t axes) { return 31 - __builtin_clz(axes); }

/* ---- the head ---- */

static bool check_head_numbers(verifier *v) {
  const msc_program_head *h = v->h;
  if (h->kind > MSC_NEST_SCATTER) return note_fault(v, "kind %d", h->kind);
  if (h->num_axes > MSC_NEST_AXES || h->num_buffers > MSC_NEST_BUFFERS || h->num_dims > MSC_NEST_DIMS ||
      h->num_scalars > MSC_NEST_SCALARS || h->num_instrs < 1 || h->num_instrs > MSC_NEST_INSTRS)
    return note_fault(v, "%d axes, %d buffers, %d dims, %d scalars, %d instructions: one is more than there may be",
                      h->num_axes, h->num_buffers, h->num_dims, h->num_scalars, h->num_instrs);
  if (!is_axis(v, h->lane) || !is_axis(v, h->across) || !is_axis(v, h->chunk_axis) || !is_axis(v, h->clipped))
    return note_fault(v, "an axis that is not there");
  if (h->flag < -1 || h->flag >= h->num_buffers)
    return note_fault(v, "the flag is buffer %d of %d", h->flag, h->num_buffers);
  if (!is_slot(v, h->blocks) || !is_slot(v, h->tail_blocks) || !is_slot(v, h->chunk))
    return note_fault(v, "a dim that is not there");
  for (int b = 0; b < h->num_buffers; b++)
    if (h->buffer[b].dtype > MSC_NUM_DTYPES) return note_fault(v, "buffer %d: element type %d", b, h->buffer[b].dtype);
  if (h->flag >= 0 && (h->buffer[h->flag].dtype != MSC_I32 || !h->buffer[h->flag].is_out))
    return note_fault(v, "the flag is no i32 that is written");
  return true;
}

/* Must the program say the size of the axis? Not for the outermost item axis, which ends where the items end, unless
 * vectors lie along it. */
static bool must_have_size(const msc_program_head *h, int axis) {
  if (axis || !(h->items & 1) || h->strands) return true;
  return (axis == h->lane || axis == h->across) && (h->kind != MSC_NEST_MAP || h->num_axes > 1);
}

static bool check_axes(verifier *v) {
  const msc_program_head *h = v->h;
  uint16_t all = (uint16_t)((1u << h->num_axes) - 1);
  if ((h->items | h->reduced | h->tail) != all || (h->items & h->reduced) || (h->items & h->tail) ||
      (h->reduced & h->tail))
    return note_fault(v, "each axis is an item axis, reduced or of the tail");
  for (int a = 0; a < h->num_axes; a++) {
    const msc_nest_extent *x = &h->axis[a];
    if (!is_slot(v, x->size) || x->baked_size < 0 || (x->size && x->baked_size))
      return note_fault(v, "axis %d: its size is no dim", a);
    if ((h->items & bit(a)) && must_have_size(h, a) && !x->size && !x->baked_size)
      return note_fault(v, "axis %d: it has no size", a);
  }
  if (h->tail && !h->reduced) return note_fault(v, "a tail, but nothing is reduced");
  if (h->tail && h->kind == MSC_NEST_SCATTER) return note_fault(v, "a tail around positions");
  if (h->blocks && !h->reduced) return note_fault(v, "blocks of sums, but nothing is reduced");
  if (h->tail_blocks && !h->tail) return note_fault(v, "blocks of the tail's sums, but there is no tail");
  if ((h->clipped < 0) != (h->chunk_axis < 0) || (h->clipped < 0 && h->chunk))
    return note_fault(v, "an axis is cut into parts and has none");
  if (h->clipped >= 0 && (!(h->reduced & bit(h->clipped)) || (h->reduced & bit(h->chunk_axis))))
    return note_fault(v, "parts of a reduced axis lie along another that is not reduced");
  return true;
}

/* Checks the head of a program against its kind: which kinds have reduced axes, phases, two axes of vectors, kept
 * rows. */
static bool check_kind(verifier *v) {
  const msc_program_head *h = v->h;
  bool sums = h->kind == MSC_NEST_ROW || h->kind == MSC_NEST_COLUMN;
  if (sums ? !h->reduced : h->kind != MSC_NEST_SCATTER && h->reduced)
    return note_fault(v, "kind %d with reduced axes %x", h->kind, h->reduced);
  if (!h->reduced && h->num_phases) return note_fault(v, "%d phases, but nothing is reduced", h->num_phases);
  if (h->kind == MSC_NEST_COLUMN && !(h->items & bit(h->lane))) return note_fault(v, "columns lie along an item axis");
  bool transposes = h->kind == MSC_NEST_TRANSPOSE;
  if (transposes ? h->lane < 0 || h->across < 0 || h->lane == h->across : h->across >= 0)
    return note_fault(v, "a transpose, and nothing else, lies along two axes");
  if (h->keeps_row && (h->kind != MSC_NEST_ROW || h->lane < 0 || h->reduced != bit(h->lane)))
    return note_fault(v, "a row is kept that is not along the lanes");
  return true;
}

static bool check_lanes(verifier *v) {
  enum { MOST_LANES = 16 };
  const msc_program_head *h = v->h;
  uint16_t lane = bit(h->lane);
  if (!is_power_of_two(h->lanes) || h->lanes > MOST_LANES) return note_fault(v, "%d lanes", h->lanes);
  if (h->lanes == 1) return h->kind != MSC_NEST_TRANSPOSE || h->is_gpu || note_fault(v, "a transpose without vectors");
  if (!lane || (h->tail & lane)) return note_fault(v, "vectors lie along an item axis or a reduced one");
  if (h->is_gpu && h->kind == MSC_NEST_TRANSPOSE) return note_fault(v, "a GPU transposes squares element by element");
  if ((h->reduced & lane) && (h->kind != MSC_NEST_ROW || h->lane != innermost(h->reduced)))
    return note_fault(v, "vectors do not lie along the innermost reduced axis");
  if ((h->items & lane) && h->kind == MSC_NEST_ROW) return note_fault(v, "vectors of rows lie along an item axis");
  if (h->kind == MSC_NEST_MAP && h->lane != h->num_axes - 1)
    return note_fault(v, "vectors do not lie along the last axis");
  return true;
}

/* Checks how the threads of a GPU share the items; a program for a CPU must not say anything about threads. */
static bool check_threads(verifier *v) {
  enum { WARP = 32, MOST_THREADS = 1024 };
  const msc_program_head *h = v->h;
  if (!h->is_gpu) {
    bool none = !h->threads && !h->team && h->team_axis < 0 && !h->per_block && !h->narrow;
    return none || note_fault(v, "a CPU has no teams of threads");
  }
  bool teams = h->kind == MSC_NEST_ROW || h->kind == MSC_NEST_COLUMN;
  unsigned items = teams || h->kind == MSC_NEST_TRANSPOSE ? h->per_block : h->threads * h->lanes;
  if (!h->threads || h->threads > MOST_THREADS) return note_fault(v, "%d threads", h->threads);
  if (h->kind == MSC_NEST_TRANSPOSE && (h->threads != MSC_SQUARE * MSC_SQUARE_ROWS || h->per_block != 1))
    return note_fault(v, "a square has %d threads", h->threads);
  if (!h->per_block || h->per_block != items) return note_fault(v, "%d items of %d threads", h->per_block, h->threads);
  if (!teams) return (h->team == 1 && h->team_axis < 0) || note_fault(v, "threads share an item that is not reduced");
  if (!is_power_of_two(h->team) || h->threads % h->team || !is_power_of_two(h->threads / h->team) || h->team_axis < 0 ||
      !is_axis(v, h->team_axis) || !(h->reduced & bit(h->team_axis)))
    return note_fault(v, "a team of %d of %d threads along axis %d", h->team, h->threads, h->team_axis);
  if (h->kind == MSC_NEST_COLUMN)
    return h->per_block == 1 || note_fault(v, "%d items of a block of columns", h->per_block);
  if (h->team < WARP || h->threads != h->team * h->per_block || (h->team > WARP && h->per_block > 1))
    return note_fault(v, "%d rows of %d threads in a block of %d", h->per_block, h->team, h->threads);
  return h->lanes == 1 || h->team_axis == h->lane || note_fault(v, "a team's vectors lie along another axis");
}

/* ---- instructions ---- */

static bool is_type(char letter, msc_dtype d, msc_dtype own, msc_dtype first) {
  switch (letter) {
    case '=': return d == own;
    case 's': return d == first;
    case 'n': return d != MSC_I1;
    case 'f': return msc_is_float(d);
    case 'k': return !msc_is_float(d);
    case 'i':
    case 'o': return d == MSC_I64;
    case 'b':
    case 'g': return d == MSC_I1;
    case 'u': return d == MSC_U32;
    case 'w': return d == MSC_F32;
    default: return true;
  }
}

static bool check_operand_types(verifier *v, int i) {
  const msc_instr *in = &v->p->instr[i], *all = v->p->instr;
  const msc_nest_code_info *row = msc_nest_info_of(in);
  int k = 0;
  if (in->dtype >= MSC_NUM_DTYPES || in->dtype == MSC_F16 || in->dtype == MSC_BF16 ||
      !is_type(row->result[0], (msc_dtype)in->dtype, MSC_I1, MSC_I1))
    return note_instr_fault(v, i, "no such element type");
  for (const char *p = row->operands; *p; p++, k++) {
    bool may_be_missing = *p == '?';
    p += may_be_missing;
    if (!in->arg[k] && may_be_missing) continue;
    if (!in->arg[k] || in->arg[k] >= i) return note_instr_fault(v, i, "an operand that is not computed before");
    const msc_instr *x = &all[in->arg[k]];
    if (msc_nest_has(x, NEST_ROOT)) return note_instr_fault(v, i, "an operand without a value");
    if (!is_type(*p, (msc_dtype)x->dtype, (msc_dtype)in->dtype, (msc_dtype)all[in->arg[0]].dtype))
      return note_instr_fault(v, i, "an operand of another element type");
  }
  while (k < 3)
    if (in->arg[k++]) return note_instr_fault(v, i, "more operands than it has");
  return true;
}

static bool check_imm(verifier *v, int i) {
  const msc_instr *in = &v->p->instr[i];
  int first = 0, end = 1;
  switch (msc_nest_info_of(in)->imm) {
    case NEST_IMM_NONE: break;
    case NEST_IMM_AT_ONCE: end = 1 + (v->h->is_gpu && msc_dtype_bytes((msc_dtype)in->dtype) >= 4); break;
    case NEST_IMM_FAULT: first = MSC_FAULT_INDEX, end = MSC_FAULT_DIVISION + 1; break;
    case NEST_IMM_DIM: end = v->h->num_dims; break;
    case NEST_IMM_SCALAR: end = v->h->num_scalars; break;
    case NEST_IMM_REDUCTION: end = NEST_LOOSE_MAX + 1; break;
    case NEST_IMM_PREDICATE: end = NEST_BELOW + !msc_is_float((msc_dtype)v->p->instr[in->arg[0]].dtype); break;
    case NEST_IMM_HALF: first = MSC_F16, end = MSC_BF16 + 1; break;
  }
  if (in->imm < first || in->imm >= end) return note_fault(v, "instruction %d: there is no %d of it", i, in->imm);
  uint64_t bits;
  memcpy(&bits, &in->number, sizeof bits);
  return in->code == NEST_CONST || !bits || note_instr_fault(v, i, "a number that is no constant");
}

static uint16_t place_axes(const msc_slots *at) {
  uint16_t axes = 0;
  for (int a = 0; a < MSC_NEST_AXES; a++)
    if (at->coef[a]) axes |= bit(a);
  return axes;
}

static bool check_place(verifier *v, int i) {
  const msc_program_head *h = v->h;
  const msc_instr *in = &v->p->instr[i];
  uint16_t axes = place_axes(&in->at);
  if (!msc_nest_has(in, NEST_PLACE)) {
    if (in->at.c0 || axes) return note_instr_fault(v, i, "a place");
  } else if (!is_slot(v, in->at.c0) || (h->num_axes < 16 && axes >> h->num_axes)) {
    return note_instr_fault(v, i, "its place has an axis or a dim that is not there");
  }
  for (int a = 0; a < h->num_axes; a++)
    if (!is_slot(v, in->at.coef[a])) return note_instr_fault(v, i, "its place has a dim that is not there");
  if (!msc_nest_has(in, NEST_MEMORY)) return !in->buffer || note_instr_fault(v, i, "a buffer");
  if (in->buffer >= h->num_buffers || in->buffer == h->flag)
    return note_instr_fault(v, i, "a buffer that is not there");
  uint8_t stored = h->buffer[in->buffer].dtype;
  if (stored != MSC_NUM_DTYPES && msc_compute_dtype((msc_dtype)stored) != (msc_dtype)in->dtype)
    return note_instr_fault(v, i, "a buffer of another element type");
  if (!msc_nest_writes(in)) return true;
  if (in->code == NEST_STORE && (v->p->instr[in->arg[0]].axes & (uint16_t)~axes))
    return note_instr_fault(v, i, "different values for one place");
  return h->buffer[in->buffer].is_out || note_instr_fault(v, i, "a buffer that is only read");
}

/* The axes it varies along are those of its place and its operands, less those over which it is reduced. */
static bool check_varying(verifier *v, int i) {
  const msc_program_head *h = v->h;
  const msc_instr *in = &v->p->instr[i];
  uint16_t axes = place_axes(&in->at), over = in->level ? h->tail : h->reduced;
  for (int k = 0; k < 3; k++) axes |= v->p->instr[in->arg[k]].axes;
  if (in->code == NEST_REDUCE) {
    if (!over || (in->level && (axes & h->reduced)))
      return note_instr_fault(v, i, "a reduction over no axes of its own");
    if ((axes & (uint16_t)~over) != (in->level ? h->items : h->items | h->tail))
      return note_instr_fault(v, i, "a reduction that does not belong to an item");
    axes &= (uint16_t)~over;
  }
  if (in->axes != axes) return note_fault(v, "instruction %d: it varies along %x, not %x", i, axes, in->axes);
  if (in->level && (axes & (h->tail | h->reduced)))
    return note_instr_fault(v, i, "it varies inside the tail and is behind it");
  return true;
}

/* Checks the phase of an instruction. Phases are loops that run one after the other, so an instruction belongs behind
 * the reductions that it reads. */
static bool check_phase(verifier *v, int i) {
  const msc_program_head *h = v->h;
  const msc_instr *in = &v->p->instr[i];
  uint8_t phase = 0, level = 0;
  for (int k = 0; k < 3; k++) {
    const msc_instr *x = &v->p->instr[in->arg[k]];
    if (!in->arg[k]) continue;
    if (x->phase > phase) phase = x->phase;
    if (x->level > level) level = x->level;
  }
  bool reduce = in->code == NEST_REDUCE;
  if (in->level > 1 || (reduce ? level > 0 : in->level != level))
    return note_instr_fault(v, i, "it is not on the side of the tail that its operands are on");
  bool inside = reduce ? !in->level : msc_nest_has(in, NEST_ROOT) && (in->axes & h->reduced);
  phase = (uint8_t)(phase + inside);
  bool later = in->code == NEST_STORE && inside && in->phase > phase; /* it may lie on what other phases load */
  if (in->phase > h->num_phases || (in->phase != phase && !later))
    return note_fault(v, "instruction %d: phase %d of %d, where %d is its", i, in->phase, h->num_phases, phase);
  return true;
}

/* Checks that an instruction which varies along the lanes can be computed in a vector. */
static bool check_in_vectors(verifier *v, int i) {
  enum { VECTOR_BYTES = 64 };
  const msc_program_head *h = v->h;
  const msc_instr *in = &v->p->instr[i];
  uint16_t lane = h->lanes > 1 ? bit(h->lane) : 0;
  bool memory = msc_nest_has(in, NEST_MEMORY), varies = in->axes & lane;
  if (h->kind == MSC_NEST_TRANSPOSE && in->code == NEST_LOAD && in->at.coef[h->across] == 1 &&
      in->at.coef[h->lane] > 1 && (in->arg[0] || in->arg[1]))
    return note_instr_fault(v, i, "a square's elements are found by an index");
  if (!varies) return true;
  if (!msc_nest_has(in, NEST_ADDRESS) && in->dtype != MSC_I1 &&
      h->lanes * msc_dtype_bytes((msc_dtype)in->dtype) > VECTOR_BYTES)
    return note_fault(v, "instruction %d: a vector of %d %s", i, h->lanes, msc_dtype_name((msc_dtype)in->dtype));
  int offset = -1, guard = -1, k = 0; /* numbers of operands */
  for (const char *p = msc_nest_info_of(in)->operands; *p; p++) {
    if (*p == 'o') offset = k;
    if (*p == 'g') guard = k;
    k += *p != '?';
  }
  bool beside = in->code == NEST_SCATTER || in->code == NEST_FILL;
  if (beside && in->at.coef[h->lane] != 1) return note_instr_fault(v, i, "lanes that do not lie beside each other");
  bool lanes_differ = in->code != NEST_LOAD && ((offset >= 0 && (v->p->instr[in->arg[offset]].axes & lane)) ||
                                                (guard >= 0 && (v->p->instr[in->arg[guard]].axes & lane)));
  if (lanes_differ) return note_instr_fault(v, i, "lanes that add to different rows");
  for (k = 0; in->code == NEST_FILL && k < 3; k++)
    if (v->p->instr[in->arg[k]].axes & lane) return note_instr_fault(v, i, "an operand that differs from lane to lane");
  if (!h->is_gpu || !memory) return true;
  if (in->at.coef[h->lane] != 1 || (offset >= 0 && (v->p->instr[in->arg[offset]].axes & lane)) ||
      (guard >= 0 && (v->p->instr[in->arg[guard]].axes & lane)))
    return note_instr_fault(v, i, "a GPU's vectors are whole");
  return true;
}

static bool check_instr(verifier *v, int i) {
  const msc_instr *in = &v->p->instr[i];
  if (in->code == NEST_NONE || in->code >= NEST_CODE_COUNT)
    return note_instr_fault(v, i, "there is no such instruction");
  MSC_TRY(check_operand_types(v, i) && check_imm(v, i) && check_place(v, i) && check_varying(v, i) &&
          check_phase(v, i) && check_in_vectors(v, i));
  if (in->code == NEST_CHECK && v->h->flag < 0) return note_instr_fault(v, i, "there is no flag");
  bool sums = v->h->kind == MSC_NEST_ROW || v->h->kind == MSC_NEST_COLUMN;
  if (in->code == NEST_REDUCE && !sums) return note_instr_fault(v, i, "a reduction in a kernel without");
  bool adds = in->code == NEST_SCATTER && !in->imm;
  if ((in->code == NEST_FILL || adds) && v->h->kind != MSC_NEST_SCATTER)
    return note_instr_fault(v, i, "rows that are not gone through in order");
  return true;
}

/* Strands are what the instructions say; operands were checked before. */
static bool check_strands(verifier *v) {
  uint8_t strand[MSC_NEST_INSTRS];
  const msc_program_head *h = v->h;
  if (!h->strands) return true;
  if (!h->is_gpu || h->kind != MSC_NEST_MAP || h->strands < 2 ||
      h->strands != msc_nest_find_strands(v->p->instr, h->num_instrs, NULL, strand))
    return note_fault(v, "%d strands", h->strands);
  return true;
}

const char *msc_nest_find_fault(const msc_program *p, msc_arena *arena) {
  verifier v = {.p = p, .h = &p->head, .arena = arena};
  int reductions = 0;
  if (!check_head_numbers(&v) || !check_axes(&v) || !check_kind(&v) || !check_lanes(&v) || !check_threads(&v))
    return v.fault;
  for (int i = 1; i < p->head.num_instrs; i++) {
    if (!check_instr(&v, i)) return v.fault;
    reductions += p->instr[i].code == NEST_REDUCE;
  }
  if (reductions > MSC_NEST_REDUCTIONS) note_fault(&v, "%d reductions", reductions);
  else check_strands(&v);
  return v.fault;
}
