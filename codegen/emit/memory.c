/* memory.c: loads, stores and index checks of a program, with conversions between elements as stored and as computed:
 * f16 and bf16 are computed in f32, i1 is a byte in memory.
 *
 * Lanes that are neighbours in memory are loaded and stored as vectors. Lanes that are apart, or under a guard that
 * differs by lane, are accessed one by one; a lane that must touch nothing gets the address of a spare place. */
#include "codegen/emit/build.h"

/* ---- conversions ---- */

LLVMTypeRef msc_emit_stored_type(const msc_emit *e, msc_dtype memory, int lanes) {
  LLVMTypeRef t;
  switch (memory) {
    case MSC_F16: case MSC_BF16: t = LLVMInt16TypeInContext(e->l->llvm); break;
    case MSC_I1: t = LLVMInt8TypeInContext(e->l->llvm); break;
    default: return msc_emit_type(e, memory, lanes);
  }
  return lanes > 1 ? LLVMVectorType(t, (unsigned)lanes) : t;
}

static LLVMValueRef shift_by(const msc_emit *e, LLVMValueRef v, int by) {
  return by > 0 ? LLVMBuildShl(e->b, v, msc_ir_int(v, by), "") : LLVMBuildLShr(e->b, v, msc_ir_int(v, -by), "");
}

static LLVMValueRef f16_to_f32(const msc_emit *e, LLVMValueRef h) {
  LLVMTypeRef i32 = msc_ir_int_type(e, h, 32), f32 = msc_ir_real_type(e, h, 32);
  LLVMValueRef w = LLVMBuildZExt(e->b, h, i32, ""), magnitude = LLVMBuildAnd(e->b, w, msc_ir_int(w, 0x7fff), "");
  LLVMValueRef sign = shift_by(e, LLVMBuildAnd(e->b, w, msc_ir_int(w, 0x8000), ""), 16);
  LLVMValueRef normal = LLVMBuildAdd(e->b, shift_by(e, magnitude, 13), msc_ir_int(w, 112 << 23), "");
  LLVMValueRef special = LLVMBuildICmp(e->b, LLVMIntSGE, magnitude, msc_ir_int(w, 0x7c00), ""),
               small = LLVMBuildICmp(e->b, LLVMIntSLT, magnitude, msc_ir_int(w, 0x400), "");
  normal = LLVMBuildSelect(e->b, special, LLVMBuildAdd(e->b, normal, msc_ir_int(w, 112 << 23), ""), normal, "");
  LLVMValueRef subnormal = LLVMBuildSIToFP(e->b, magnitude, f32, "");
  subnormal = LLVMBuildBitCast(e->b, LLVMBuildFMul(e->b, subnormal, msc_ir_real(subnormal, 0x1p-24), ""), i32, "");
  return LLVMBuildBitCast(e->b, LLVMBuildOr(e->b, LLVMBuildSelect(e->b, small, subnormal, normal, ""), sign, ""), f32,
                          "");
}

static LLVMValueRef f32_to_f16(const msc_emit *e, LLVMValueRef f) {
  LLVMTypeRef i32 = msc_ir_int_type(e, f, 32);
  LLVMValueRef w = LLVMBuildBitCast(e->b, f, i32, ""), a = LLVMBuildAnd(e->b, w, msc_ir_int(w, 0x7fffffff), "");
  LLVMValueRef sign = shift_by(e, LLVMBuildAnd(e->b, w, msc_ir_int(w, 0x80000000), ""), -16);
  /* rounds to nearest, ties to even: adds half of the last kept bit less one, plus that bit */
  LLVMValueRef odd = LLVMBuildAnd(e->b, shift_by(e, a, -13), msc_ir_int(w, 1), "");
  LLVMValueRef normal = LLVMBuildAdd(e->b, LLVMBuildSub(e->b, a, msc_ir_int(w, 112 << 23), ""),
                                     LLVMBuildAdd(e->b, odd, msc_ir_int(w, 0xfff), ""), "");
  normal = shift_by(e, normal, -13);
  /* below 2^-14: adding 1/2 leaves the value in units of 2^-24 in the last bits */
  LLVMValueRef half = msc_ir_real(f, 0.5),
               lifted = LLVMBuildFAdd(e->b, LLVMBuildBitCast(e->b, a, LLVMTypeOf(f), ""), half, "");
  LLVMValueRef subnormal = LLVMBuildSub(e->b, LLVMBuildBitCast(e->b, lifted, i32, ""), msc_ir_int(w, 0x3f000000), "");
  LLVMValueRef small = LLVMBuildICmp(e->b, LLVMIntSLT, a, msc_ir_int(w, 113 << 23), "");
  LLVMValueRef big = LLVMBuildICmp(e->b, LLVMIntSGE, a, msc_ir_int(w, 0x477ff000), ""),
               nan = LLVMBuildICmp(e->b, LLVMIntSGT, a, msc_ir_int(w, 0x7f800000), "");
  LLVMValueRef h = LLVMBuildSelect(e->b, small, subnormal, normal, "");
  h = LLVMBuildSelect(e->b, big, LLVMBuildSelect(e->b, nan, msc_ir_int(w, 0x7e00), msc_ir_int(w, 0x7c00), ""), h, "");
  return LLVMBuildTrunc(e->b, LLVMBuildOr(e->b, h, sign, ""), msc_ir_int_type(e, f, 16), "");
}

static LLVMValueRef f32_to_bf16(const msc_emit *e, LLVMValueRef f) {
  LLVMValueRef w = LLVMBuildBitCast(e->b, f, msc_ir_int_type(e, f, 32), ""), top = shift_by(e, w, -16);
  LLVMValueRef odd = LLVMBuildAnd(e->b, top, msc_ir_int(w, 1), "");
  LLVMValueRef rounded =
      shift_by(e, LLVMBuildAdd(e->b, w, LLVMBuildAdd(e->b, odd, msc_ir_int(w, 0x7fff), ""), ""), -16);
  LLVMValueRef quiet = LLVMBuildOr(e->b, top, msc_ir_int(w, 0x40), ""),
               nan = LLVMBuildFCmp(e->b, LLVMRealUNO, f, f, "");
  return LLVMBuildTrunc(e->b, LLVMBuildSelect(e->b, nan, quiet, rounded, ""), msc_ir_int_type(e, f, 16), "");
}

LLVMValueRef msc_emit_widen(msc_emit *e, LLVMValueRef v, msc_dtype memory) {
  LLVMTypeRef half = LLVMHalfTypeInContext(e->l->llvm);
  if (memory == MSC_I1) return LLVMBuildICmp(e->b, LLVMIntNE, v, msc_ir_int(v, 0), "");
  if (memory == MSC_BF16)
    return LLVMBuildBitCast(e->b, shift_by(e, LLVMBuildZExt(e->b, v, msc_ir_int_type(e, v, 32), ""), 16),
                            msc_ir_real_type(e, v, 32), "");
  if (memory != MSC_F16) return v;
  if (!e->l->has_f16c) return f16_to_f32(e, v);
  if (msc_ir_is_vector(v)) half = LLVMVectorType(half, (unsigned)msc_ir_lanes(v));
  return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, v, half, ""), msc_ir_real_type(e, v, 32), "");
}

LLVMValueRef msc_emit_narrow(msc_emit *e, LLVMValueRef v, msc_dtype memory) {
  LLVMTypeRef half = LLVMHalfTypeInContext(e->l->llvm);
  if (memory == MSC_I1) return LLVMBuildZExt(e->b, v, msc_ir_int_type(e, v, 8), "");
  if (memory == MSC_BF16) return msc_ir_math(e, v) ? msc_ir_math(e, v)->to_bf16(e, v) : f32_to_bf16(e, v);
  if (memory != MSC_F16) return v;
  if (!e->l->has_f16c) return f32_to_f16(e, v);
  if (msc_ir_is_vector(v)) half = LLVMVectorType(half, (unsigned)msc_ir_lanes(v));
  return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, v, half, ""), msc_ir_int_type(e, v, 16), "");
}

/* ---- places ---- */

typedef struct {
  msc_dtype memory;
  int lanes, bytes;
  LLVMTypeRef element, vector;
  LLVMValueRef buffer, place; /* element number of the first lane */
  bool apart;                 /* the lanes are not neighbours in memory: */
  LLVMValueRef step, offset;  /* lane k is at place + k * step, plus lane k of offset unless NULL */
} access;

static LLVMValueRef value_of_slot(const msc_emit *e, uint8_t s) { return s < 2 ? msc_emit_int(e, s) : e->dim[s - 2]; }

static LLVMValueRef lane_numbers(const msc_emit *e, int lanes) {
  LLVMValueRef k[64];
  for (int i = 0; i < lanes; i++) k[i] = msc_emit_int(e, i);
  return LLVMConstVector(k, (unsigned)lanes);
}

/* Emits the sum of the terms of an address. Outer axes come first, so that terms which do not change in the inner loops
 * can be computed outside of them. */
static LLVMValueRef emit_affine(msc_emit *e, const msc_slots *at) {
  LLVMValueRef sum = at->c0 ? value_of_slot(e, at->c0) : NULL;
  for (int i = 0; i < e->p->head.num_axes; i++) {
    if (!at->coef[i]) continue;
    LLVMValueRef term =
        at->coef[i] == 1 ? e->axis[i] : LLVMBuildMul(e->b, e->axis[i], value_of_slot(e, at->coef[i]), "");
    sum = sum ? LLVMBuildAdd(e->b, sum, term, "") : term;
  }
  return sum ? sum : msc_emit_int(e, 0);
}

/* The address of instruction i's access. Constants are added last, so that neighbouring vectors share the sum
 * before. */
/* The element number of the first lane. */
static LLVMValueRef emit_place(msc_emit *e, int i) {
  const msc_slots *at = &e->p->instr[i].at;
  LLVMValueRef sum = emit_affine(e, at);
  if (!e->lane_offset || !at->coef[e->p->head.lane]) return sum;
  LLVMValueRef offset =
      LLVMBuildMul(e->b, msc_emit_int(e, e->lane_offset), value_of_slot(e, at->coef[e->p->head.lane]), "");
  return LLVMBuildAdd(e->b, sum, offset, "");
}

static LLVMValueRef lane_places(msc_emit *e, const msc_instr *in, LLVMValueRef first, int lanes) {
  LLVMValueRef all = msc_emit_splat(e, first, lanes),
               step = msc_emit_splat(e, value_of_slot(e, in->at.coef[e->p->head.lane]), lanes);
  return LLVMBuildAdd(e->b, all, LLVMBuildMul(e->b, lane_numbers(e, lanes), step, ""), "");
}

LLVMValueRef msc_emit_index(msc_emit *e, int i) {
  LLVMValueRef first = emit_place(e, i);
  return msc_emit_varies(e, i) ? lane_places(e, &e->p->instr[i], first, e->p->head.lanes) : first;
}

static access access_of(msc_emit *e, int i, uint16_t offset) {
  const msc_instr *in = &e->p->instr[i];
  uint8_t stored = e->p->head.buffer[in->buffer].dtype;
  access a = {.memory = (msc_dtype)(stored == MSC_NUM_DTYPES ? in->dtype : stored),
              .lanes = msc_emit_varies(e, i) ? e->p->head.lanes : 1};
  a.bytes = (int)msc_dtype_bytes(a.memory);
  a.element = msc_emit_stored_type(e, a.memory, 1), a.vector = msc_emit_stored_type(e, a.memory, a.lanes);
  a.buffer = e->buffer[in->buffer];
  a.place = emit_place(e, i);
  bool offset_varies = offset && msc_emit_varies(e, offset);
  a.apart = a.lanes > 1 && (offset_varies || in->at.coef[e->p->head.lane] != 1);
  a.step = a.apart ? value_of_slot(e, in->at.coef[e->p->head.lane]) : msc_emit_int(e, 1);
  if (offset_varies && a.lanes > 1) a.offset = msc_emit_get(e, offset, true);
  else if (offset) a.place = LLVMBuildAdd(e->b, a.place, msc_emit_get(e, offset, false), "");
  return a;
}

static LLVMValueRef place_of_lane(msc_emit *e, const access *a, int k) {
  LLVMValueRef place =
      k ? LLVMBuildAdd(e->b, a->place, LLVMBuildMul(e->b, a->step, msc_emit_int(e, k), ""), "") : a->place;
  return a->offset ? LLVMBuildAdd(e->b, place, LLVMBuildExtractElement(e->b, a->offset, msc_emit_int(e, k), ""), "")
                   : place;
}

static LLVMValueRef pointer_to(msc_emit *e, const access *a, LLVMValueRef place) {
  return LLVMBuildInBoundsGEP2(e->b, a->element, a->buffer, &place, 1, "");
}

static unsigned alignment(const msc_emit *e, const access *a) {
  int bytes = a->bytes * (e->l->target->aligns_vectors ? a->lanes : 1);
  return (unsigned)(bytes < 16 ? bytes : 16);
}

static LLVMValueRef emit_read(msc_emit *e, const access *a, LLVMTypeRef type, LLVMValueRef p) {
  LLVMValueRef v = LLVMBuildLoad2(e->b, type, p, "");
  LLVMSetAlignment(v, alignment(e, a));
  return v;
}

static void emit_write(msc_emit *e, const access *a, LLVMValueRef v, LLVMValueRef p) {
  LLVMSetAlignment(LLVMBuildStore(e->b, v, p), alignment(e, a));
}

/* Loads a vector under a guard. Where the guard is false the result is zero: the load reads the spare place, which
 * holds zeros, or, on a target without one, the buffer's first element, whose value is replaced. */
static LLVMValueRef read_guarded(msc_emit *e, const access *a, LLVMValueRef guard) {
  LLVMValueRef p = pointer_to(e, a, a->place);
  if (!guard) return emit_read(e, a, a->vector, p);
  bool spare = e->l->target->has_spare;
  LLVMValueRef v = emit_read(e, a, a->vector, LLVMBuildSelect(e->b, guard, p, spare ? e->spare : a->buffer, ""));
  return spare ? v : LLVMBuildSelect(e->b, guard, v, LLVMConstNull(a->vector), "");
}

/* Returns the mask of the lanes that exist and pass the guard; NULL: all lanes. A guard that is equal in all lanes is
 * applied to the address instead. */
static LLVMValueRef mask_of_guard(msc_emit *e, uint16_t guard) {
  if (!guard || !msc_emit_varies(e, guard)) return e->mask;
  LLVMValueRef ok = msc_emit_get(e, guard, true);
  return e->mask ? LLVMBuildAnd(e->b, ok, e->mask, "") : ok;
}

static bool can_mask(const msc_emit *e, const access *a) { return e->l->has_masks || a->bytes >= 4; }

static LLVMValueRef read_masked(msc_emit *e, const access *a, LLVMValueRef p, LLVMValueRef mask) {
  LLVMTypeRef types[] = {a->vector, LLVMPointerTypeInContext(e->l->llvm, 0)};
  LLVMValueRef arg[] = {p, LLVMConstInt(LLVMInt32TypeInContext(e->l->llvm), (unsigned)a->bytes, false), mask,
                        LLVMConstNull(a->vector)};
  return msc_ir_call(e, "llvm.masked.load", 2, types, 4, arg);
}

static void write_masked(msc_emit *e, const access *a, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask) {
  LLVMTypeRef types[] = {a->vector, LLVMPointerTypeInContext(e->l->llvm, 0)};
  LLVMValueRef arg[] = {v, p, LLVMConstInt(LLVMInt32TypeInContext(e->l->llvm), (unsigned)a->bytes, false), mask};
  msc_ir_call(e, "llvm.masked.store", 2, types, 4, arg);
}

/* Loads lane by lane; masked lanes read the spare place. */
static LLVMValueRef read_lanes(msc_emit *e, const access *a, LLVMValueRef mask, LLVMValueRef guard) {
  LLVMValueRef v = LLVMGetPoison(a->vector);
  for (int k = 0; k < a->lanes; k++) {
    LLVMValueRef lane = msc_emit_int(e, k), p = pointer_to(e, a, place_of_lane(e, a, k));
    if (mask) p = LLVMBuildSelect(e->b, LLVMBuildExtractElement(e->b, mask, lane, ""), p, e->spare, "");
    if (guard) p = LLVMBuildSelect(e->b, guard, p, e->spare, "");
    v = LLVMBuildInsertElement(e->b, v, emit_read(e, a, a->element, p), lane, "");
  }
  return v;
}

/* Loads one element into all lanes, if the mask has any. */
static LLVMValueRef read_element(msc_emit *e, const access *a, LLVMValueRef mask, LLVMValueRef guard) {
  LLVMTypeRef type = LLVMTypeOf(mask);
  LLVMValueRef any = msc_ir_call(e, "llvm.vector.reduce.or", 1, &type, 1, &mask);
  if (guard) any = LLVMBuildAnd(e->b, any, guard, "");
  LLVMValueRef p = LLVMBuildSelect(e->b, any, pointer_to(e, a, a->place), e->spare, "");
  LLVMValueRef all = msc_emit_splat(e, emit_read(e, a, a->element, p), a->lanes);
  return LLVMBuildSelect(e->b, mask, all, LLVMConstNull(a->vector), "");
}

LLVMValueRef msc_emit_load(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  access a = access_of(e, i, in->arg[0]);
  LLVMValueRef guard = in->arg[1] && !msc_emit_varies(e, in->arg[1]) ? msc_emit_get(e, in->arg[1], false) : NULL;
  if (a.lanes == 1 || (!a.apart && !mask_of_guard(e, in->arg[1])))
    return msc_emit_widen(e, read_guarded(e, &a, guard), a.memory);
  LLVMValueRef mask = mask_of_guard(e, in->arg[1]);
  if (mask && !a.offset && !in->at.coef[e->p->head.lane])
    return msc_emit_widen(e, read_element(e, &a, mask, guard), a.memory);
  if (a.apart || !can_mask(e, &a)) return msc_emit_widen(e, read_lanes(e, &a, mask, guard), a.memory);
  LLVMValueRef p = pointer_to(e, &a, a.place);
  if (guard) p = LLVMBuildSelect(e->b, guard, p, e->spare, "");
  return msc_emit_widen(e, read_masked(e, &a, p, mask), a.memory);
}

LLVMValueRef msc_emit_load_run(msc_emit *e, int i) {
  access a = access_of(e, i, 0);
  return msc_emit_widen(e, emit_read(e, &a, a.vector, pointer_to(e, &a, a.place)), a.memory);
}

void msc_emit_prefetch(msc_emit *e, int i, int axis, int64_t ahead, int lanes) {
  enum { LINE = 64, ALL_LEVELS = 3 };
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm), pointer = LLVMPointerTypeInContext(e->l->llvm, 0);
  LLVMValueRef here = e->axis[axis];
  e->axis[axis] = LLVMBuildAdd(e->b, here, msc_emit_int(e, ahead), "");
  access a = access_of(e, i, 0);
  e->axis[axis] = here;
  for (int at = 0; at < lanes && !a.apart; at += LINE / a.bytes) {
    LLVMValueRef place = LLVMBuildAdd(e->b, a.place, msc_emit_int(e, at), "");
    LLVMValueRef arg[] = {LLVMBuildGEP2(e->b, a.element, a.buffer, &place, 1, ""),
                          LLVMConstInt(i32, e->p->instr[i].code == NEST_STORE, false),
                          LLVMConstInt(i32, ALL_LEVELS, false), LLVMConstInt(i32, 1, false)};
    msc_ir_call(e, "llvm.prefetch", 1, &pointer, 4, arg);
  }
}

static void write_lanes(msc_emit *e, const access *a, LLVMValueRef v) {
  for (int k = 0; k < a->lanes; k++) {
    LLVMValueRef lane = msc_emit_int(e, k), p = pointer_to(e, a, place_of_lane(e, a, k));
    if (e->mask) p = LLVMBuildSelect(e->b, LLVMBuildExtractElement(e->b, e->mask, lane, ""), p, e->sink, "");
    emit_write(e, a, LLVMBuildExtractElement(e->b, v, lane, ""), p);
  }
}

void msc_emit_store(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  access a = access_of(e, i, 0);
  LLVMValueRef v = msc_emit_narrow(e, msc_emit_get(e, in->arg[0], a.lanes > 1), a.memory);
  if (a.apart) write_lanes(e, &a, v);
  else if (a.lanes == 1 || !e->mask) emit_write(e, &a, v, pointer_to(e, &a, a.place));
  else if (can_mask(e, &a)) write_masked(e, &a, v, pointer_to(e, &a, a.place), e->mask);
  else write_lanes(e, &a, v);
}

static LLVMValueRef emit_sum(msc_emit *e, const access *a, msc_dtype d, LLVMValueRef old, LLVMValueRef x) {
  return msc_emit_narrow(e, msc_emit_combine(e, MSC_SUM, d, msc_emit_widen(e, old, a->memory), x), a->memory);
}

/* Adds each lane's element atomically, because other threads may add to it. */
static void add_at_once(msc_emit *e, const access *a, msc_dtype d, LLVMValueRef x) {
  for (int k = 0; k < a->lanes; k++) {
    LLVMValueRef own = a->lanes > 1 ? LLVMBuildExtractElement(e->b, x, msc_emit_int(e, k), "") : x;
    LLVMBuildAtomicRMW(e->b, msc_is_float(d) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd,
                       pointer_to(e, a, place_of_lane(e, a, k)), own, LLVMAtomicOrderingMonotonic, false);
  }
}

/* On a GPU, where a thread has one lane: adds the element if the condition holds. */
static void scatter_if(msc_emit *e, const access *a, const msc_instr *in, LLVMValueRef ok, LLVMValueRef x) {
  msc_dtype d = (msc_dtype)in->dtype;
  LLVMBasicBlockRef then = msc_ir_block(e), after = msc_ir_block(e);
  LLVMBuildCondBr(e->b, ok, then, after);
  LLVMPositionBuilderAtEnd(e->b, then);
  LLVMValueRef p = pointer_to(e, a, a->place);
  if (in->imm) add_at_once(e, a, d, x);
  else emit_write(e, a, emit_sum(e, a, d, emit_read(e, a, a->vector, p), x), p);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}

/* Adds to elements by index. On a CPU no other lane or thread adds to the same element: lanes lie across the columns of
 * a row. */
void msc_emit_scatter(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  access a = access_of(e, i, in->arg[0]);
  msc_dtype d = (msc_dtype)in->dtype;
  if (!e->l->target->has_spare) {
    scatter_if(e, &a, in, msc_emit_get(e, in->arg[2], false), msc_emit_get(e, in->arg[1], a.lanes > 1));
    return;
  }
  LLVMValueRef ok = msc_emit_get(e, in->arg[2], false), x = msc_emit_get(e, in->arg[1], a.lanes > 1);
  LLVMValueRef p = LLVMBuildSelect(e->b, ok, pointer_to(e, &a, a.place), e->sink, ""), old;
  bool mask = a.lanes > 1 && e->mask;
  if (mask && !can_mask(e, &a)) {
    LLVMValueRef all = LLVMBuildAnd(e->b, e->mask, msc_emit_splat(e, ok, a.lanes), ""), saved = e->mask;
    old = read_lanes(e, &a, all, NULL);
    e->mask = all;
    write_lanes(e, &a, emit_sum(e, &a, d, old, x));
    e->mask = saved;
    return;
  }
  old = mask ? read_masked(e, &a, p, e->mask) : emit_read(e, &a, a.vector, p);
  LLVMValueRef sum = emit_sum(e, &a, d, old, x);
  if (mask) write_masked(e, &a, sum, p, e->mask);
  else emit_write(e, &a, sum, p);
}

void msc_emit_fill(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  access a = access_of(e, i, 0);
  LLVMValueRef zero = LLVMConstNull(a.vector), first = a.place, step = msc_emit_get(e, in->arg[1], false);
  msc_ir_loop loop;
  msc_ir_loop_open(e, &loop, msc_emit_int(e, 0), msc_emit_get(e, in->arg[0], false), 1, 0, NULL);
  a.place = LLVMBuildAdd(e->b, first, LLVMBuildMul(e->b, loop.index, step, ""), "");
  if (a.lanes == 1 || !e->mask) emit_write(e, &a, zero, pointer_to(e, &a, a.place));
  else if (can_mask(e, &a)) write_masked(e, &a, zero, pointer_to(e, &a, a.place), e->mask);
  else write_lanes(e, &a, zero);
  msc_ir_loop_close(e, &loop, NULL);
}

void msc_emit_check(msc_emit *e, int i) {
  const msc_instr *in = &e->p->instr[i];
  bool vector = msc_emit_varies(e, i);
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->l->llvm);
  LLVMValueRef bad = LLVMBuildNot(e->b, msc_emit_get(e, in->arg[0], vector), "");
  if (in->arg[1]) bad = LLVMBuildAnd(e->b, bad, msc_emit_get(e, in->arg[1], vector), "");
  if (vector && e->mask) bad = LLVMBuildAnd(e->b, bad, e->mask, "");
  if (vector) bad = msc_ir_unary(e, "llvm.vector.reduce.or", bad);
  LLVMBasicBlockRef report = msc_ir_block(e), after = msc_ir_block(e);
  LLVMBuildCondBr(e->b, bad, report, after);
  LLVMPositionBuilderAtEnd(e->b, report);
  LLVMBuildStore(e->b, LLVMConstInt(i32, (unsigned)in->imm, false), e->buffer[(int)e->p->head.flag]);
  LLVMBuildBr(e->b, after);
  LLVMPositionBuilderAtEnd(e->b, after);
}
