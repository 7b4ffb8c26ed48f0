/* math.c: exp, log, log2, log10, tanh, erf, pow, sin, cos and atan as straight-line IR on scalars or vectors of f32 or
 * f64, without calls. Coefficients are tools/minimax.py's.  Largest errors against the exact value, in units of the
 * last place, measured by tests/codegen/math.c over the whole range (with FMA; without it up to 1.5 more):
 *
 *          exp   log   log2  log10 tanh  erf   pow   sin, cos (f32: |x| < 1e5; f64: |x| < 1e6)   atan
 *   f32    1.1   0.8   1.6   1.8   2.4   1.6   0.6   1.6                                         1.8
 *   f64    1.1   0.8   1.4   1.6   2.5   3.5   8     1.6                                         1.8
 *
 * Infinities, NaN, zeros and subnormal numbers follow IEEE 754 and C's Annex F. */
#include "codegen/emit/build.h"

static const double exp_f32[] = {5.00000003e-1, 1.66665766e-1, 4.16663741e-2, 8.36323507e-3, 1.39412183e-3};
static const double exp_f64[] = {
    5.000000000000001e-1,  1.6666666666666675e-1, 4.1666666666623816e-2, 8.333333333322126e-3, 1.3888888917368819e-3,
    1.9841269886838665e-4, 2.4801521055556845e-5, 2.7557242057117816e-6, 2.762020255128818e-7, 2.5110155079157526e-8};
static const double log_f32[] = {3.33333313e-1,  -2.49999812e-1, 2.00006881e-1,  -1.6669151e-1, 1.42511557e-1,
                                 -1.23966997e-1, 1.16346612e-1,  -1.16599336e-1, 7.33253845e-2};
static const double log_f64[] = {6.6666666666666666e-1, 4.0000000000000899e-1, 2.8571428570790872e-1,
                                 2.2222222394483007e-1, 1.8181795354676336e-1, 1.5386254754876503e-1,
                                 1.3268380816089824e-1, 1.3090632000907951e-1};
static const double erf_f32[] = {0.12837917,    -3.76126271e-1, 1.12836002e-1, -2.68544447e-2,
                                 5.18953546e-3, -8.02084236e-4, 7.88912316e-5};
static const double erf_f64[] = {0.1283791670955126,     -3.7612638903183748e-1, 1.1283791670954884e-1,
                                 -2.686617064507787e-2,  5.2239776248283897e-3,  -8.548326981423647e-4,
                                 1.2055331132901249e-4,  -1.4925595771175465e-5, 1.6461008465981548e-6,
                                 -1.6350396137750286e-7, 1.4660328388975171e-8,  -1.1374955262337606e-9,
                                 5.9606857614188804e-11};
static const double erfc_f32[] = {-7.8068153,     -5.35268069,   -9.43892337e-1, -1.08542574e-2, 2.16709157e-3,
                                  -4.28181243e-4, 6.48052684e-5, -2.02667491e-5, 2.5526946e-7};
static const double erfc_f64[] = {
    -1.4112437402147226e+1, -7.2660995883712571,    -9.6675305485470342e-1, -5.2256586062440189e-3,
    8.7368723928883094e-4,  -1.4729559962994879e-4, 2.4391533322133361e-5,  -3.8856332897776622e-6,
    5.8243395141699948e-7,  -9.0328348515559216e-8, 7.3634399792258565e-10, -3.4670636777197151e-9,
    2.0853810898740643e-9,  2.9938280594358249e-9,  1.7351124062786894e-9,  6.2103787903082394e-10,
    1.3719847530595978e-10, 1.7940860817569913e-11, 1.0389487076546329e-12};
static const double sin_f32[] = {-1.66666647e-1, 8.33274667e-3, -1.95875055e-4};
static const double cos_f32[] = {4.16666647e-2, -1.38883013e-3, 2.45475361e-5};
static const double sin_f64[] = {-1.6666666666666665e-1, 8.3333333333309265e-3, -1.9841269836724877e-4,
                                 2.7557316084930361e-6,  -2.50511281499847e-8,  1.5917861853805865e-10};
static const double cos_f64[] = {4.1666666666666665e-2, -1.3888888888887383e-3, 2.4801587298744437e-5,
                                 -2.755731726062817e-7, 2.0876143942503466e-9,  -1.1382464188417552e-11};

static const double atan_f32[] = {-3.33333319e-1, 1.99995563e-1, -1.42643938e-1, 1.07476189e-1, -6.46269197e-2};
static const double atan_f64[] = {-3.3333333333333333e-1, 1.9999999999999992e-1,  -1.4285714285711605e-1,
                                  1.1111111110763659e-1,  -9.0909090674858814e-2, 7.6923067509263174e-2,
                                  -6.6666423159941569e-2, 5.8819291033450696e-2,  -5.2580748480653935e-2,
                                  4.7195844070662982e-2,  -4.1051161456787352e-2, 3.0649648910826493e-2,
                                  -1.3930662413516423e-2};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define POLY(e, t, name) \
  (is_f64(t) ? horner(e, t, name##_f64, COUNT(name##_f64)) : horner(e, t, name##_f32, COUNT(name##_f32)))

static bool is_f64(LLVMValueRef x) { return LLVMGetTypeKind(msc_ir_element(x)) == LLVMDoubleTypeKind; }
static int bits_of(LLVMValueRef x) { return is_f64(x) ? 64 : 32; }
static int fraction_bits(LLVMValueRef x) { return is_f64(x) ? 52 : 23; }
static int bias_of(LLVMValueRef x) { return is_f64(x) ? 1023 : 127; }

static LLVMValueRef fadd(msc_emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFAdd(e->b, a, b, ""); }
static LLVMValueRef fsub(msc_emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFSub(e->b, a, b, ""); }
static LLVMValueRef fmul(msc_emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFMul(e->b, a, b, ""); }
static LLVMValueRef fselect(msc_emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(e->b, c, a, b, "");
}
static LLVMValueRef is(msc_emit *e, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFCmp(e->b, p, a, b, "");
}

/* Emits a b + c, which is rounded once where the CPU has fused multiply-add. */
static LLVMValueRef fma_(msc_emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef t = LLVMTypeOf(a);
  LLVMValueRef arg[] = {a, b, c};
  return e->l->has_fma ? msc_ir_call(e, "llvm.fma", 1, &t, 3, arg) : fadd(e, fmul(e, a, b), c);
}

static LLVMValueRef horner(msc_emit *e, LLVMValueRef t, const double *c, int num) {
  LLVMValueRef p = msc_ir_real(t, c[num - 1]);
  for (int i = num - 2; i >= 0; i--) p = fma_(e, p, t, msc_ir_real(t, c[i]));
  return p;
}

static LLVMValueRef to_bits(msc_emit *e, LLVMValueRef x) {
  return LLVMBuildBitCast(e->b, x, msc_ir_int_type(e, x, bits_of(x)), "");
}

/* Limits x to [low, high]; NaN stays NaN. */
static LLVMValueRef clamp(msc_emit *e, LLVMValueRef x, double low, double high) {
  x = fselect(e, is(e, LLVMRealOGT, x, msc_ir_real(x, high)), msc_ir_real(x, high), x);
  return fselect(e, is(e, LLVMRealOLT, x, msc_ir_real(x, low)), msc_ir_real(x, low), x);
}

static LLVMValueRef with_sign_of(msc_emit *e, LLVMValueRef magnitude, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef arg[] = {magnitude, x};
  return msc_ir_call(e, "llvm.copysign", 1, &t, 2, arg);
}

/* ---- exp ---- */

/* Rounds a small x to the nearest integer: returned as a float, and in *out_int as an integer, read from the bits of x
 * + 1.5 2^52. */
static LLVMValueRef round_to_int(msc_emit *e, LLVMValueRef x, LLVMValueRef *out_int) {
  LLVMValueRef magic = msc_ir_real(x, is_f64(x) ? 0x1.8p52 : 0x1.8p23), t = fadd(e, x, magic);
  *out_int = LLVMBuildSub(e->b, to_bits(e, t), to_bits(e, magic), "");
  return fsub(e, t, magic);
}

/* Emits x 2^n for |n| up to twice the exponent's range: multiplies by two factors, so that results may be subnormal or
 * overflow. */
static LLVMValueRef scale(msc_emit *e, LLVMValueRef x, LLVMValueRef n) {
  LLVMValueRef half = LLVMBuildAShr(e->b, n, msc_ir_int(n, 1), ""), rest = LLVMBuildSub(e->b, n, half, "");
  LLVMValueRef shift = msc_ir_int(n, fraction_bits(x)), bias = msc_ir_int(n, bias_of(x));
  LLVMValueRef a = LLVMBuildShl(e->b, LLVMBuildAdd(e->b, half, bias, ""), shift, ""),
               b = LLVMBuildShl(e->b, LLVMBuildAdd(e->b, rest, bias, ""), shift, "");
  return fmul(e, fmul(e, x, LLVMBuildBitCast(e->b, a, LLVMTypeOf(x), "")),
              LLVMBuildBitCast(e->b, b, LLVMTypeOf(x), ""));
}

/* Writes x as n ln 2 + r and returns exp(r) - 1. `low`: a correction to be added to x, or NULL. */
static LLVMValueRef reduced_expm1(msc_emit *e, LLVMValueRef x, LLVMValueRef low, LLVMValueRef *out_n) {
  bool wide = is_f64(x);
  LLVMValueRef n = round_to_int(e, fmul(e, x, msc_ir_real(x, 1.4426950408889634074)), out_n);
  /* the first part of ln 2 has so few bits that its product with n is exact */
  LLVMValueRef r = fma_(e, n, msc_ir_real(x, wide ? -0x1.62e42feep-1 : -0x1.62e4p-1), x);
  r = fma_(e, n, msc_ir_real(x, wide ? -0x1.a39ef35793c76p-33 : -0x1.7f7d1cp-20), r);
  if (low) r = fadd(e, r, low);
  return fma_(e, fmul(e, r, r), POLY(e, r, exp), r);
}

/* Emits exp(x + low). Results below the normal range become zero without being computed: rounding them takes a CPU a
 * hundred times as long as the rest, and half of all scores of causal attention are so small. */
static LLVMValueRef exp_of_sum(msc_emit *e, LLVMValueRef x, LLVMValueRef low) {
  LLVMValueRef n, zero = msc_ir_real(x, 0), below = is(e, LLVMRealOLT, x, msc_ir_real(x, is_f64(x) ? -746 : -104));
  LLVMValueRef most = msc_ir_real(x, is_f64(x) ? 710 : 89);
  LLVMValueRef y = fselect(e, below, zero, fselect(e, is(e, LLVMRealOGT, x, most), most, x));
  LLVMValueRef p = reduced_expm1(e, y, low, &n);
  return fselect(e, below, zero, scale(e, fadd(e, p, msc_ir_real(x, 1)), n));
}

LLVMValueRef msc_math_exp(msc_emit *e, LLVMValueRef x) {
  const msc_llvm_math *own = msc_ir_math(e, x);
  return own ? own->exp(e, x) : exp_of_sum(e, x, NULL);
}

/* ---- tanh = t / (t + 2), t = exp(2|x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1) ---- */

LLVMValueRef msc_math_tanh(msc_emit *e, LLVMValueRef x) {
  LLVMValueRef n, a = clamp(e, msc_ir_unary(e, "llvm.fabs", x), 0, is_f64(x) ? 20 : 10), y = fadd(e, a, a);
  LLVMValueRef p = reduced_expm1(e, y, NULL, &n);
  LLVMValueRef power =
      LLVMBuildShl(e->b, LLVMBuildAdd(e->b, n, msc_ir_int(n, bias_of(x)), ""), msc_ir_int(n, fraction_bits(x)), "");
  power = LLVMBuildBitCast(e->b, power, LLVMTypeOf(x), "");
  LLVMValueRef t = fma_(e, power, p, fsub(e, power, msc_ir_real(x, 1)));
  return with_sign_of(e, msc_ir_divide(e, t, fadd(e, t, msc_ir_real(x, 2))), x);
}

/* ---- log ---- */

/* Writes positive finite x as 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); subnormal numbers are scaled first. */
static LLVMValueRef split_exponent(msc_emit *e, LLVMValueRef x, LLVMValueRef *out_n) {
  int fraction = fraction_bits(x);
  LLVMValueRef tiny = is(e, LLVMRealOLT, x, msc_ir_real(x, is_f64(x) ? 0x1p-1022 : 0x1p-126));
  LLVMValueRef lifted = fselect(e, tiny, fmul(e, x, msc_ir_real(x, is_f64(x) ? 0x1p52 : 0x1p23)), x),
               w = to_bits(e, lifted);
  LLVMValueRef root = to_bits(e, msc_ir_real(x, 0.70710678118654752440));
  LLVMValueRef n = LLVMBuildAShr(e->b, LLVMBuildSub(e->b, w, root, ""), msc_ir_int(w, fraction), "");
  LLVMValueRef m = LLVMBuildBitCast(e->b, LLVMBuildSub(e->b, w, LLVMBuildShl(e->b, n, msc_ir_int(w, fraction), ""), ""),
                                    LLVMTypeOf(x), "");
  n = LLVMBuildSub(e->b, n, LLVMBuildSelect(e->b, tiny, msc_ir_int(w, fraction), msc_ir_int(w, 0), ""), "");
  /* AVX2 cannot convert 64-bit integers to floats: n is added to the low bits of 1.5 2^52, then that is subtracted */
  LLVMValueRef magic = msc_ir_real(x, is_f64(x) ? 0x1.8p52 : 0x1.8p23);
  *out_n = fsub(e, LLVMBuildBitCast(e->b, LLVMBuildAdd(e->b, n, to_bits(e, magic), ""), LLVMTypeOf(x), ""), magic);
  return fsub(e, m, msc_ir_real(x, 1));
}

static LLVMValueRef log_special(msc_emit *e, LLVMValueRef x, LLVMValueRef y) {
  double infinity = __builtin_inf();
  y = fselect(e, is(e, LLVMRealOEQ, x, msc_ir_real(x, infinity)), x, y);
  y = fselect(e, is(e, LLVMRealOEQ, x, msc_ir_real(x, 0)), msc_ir_real(x, -infinity), y);
  return fselect(e, is(e, LLVMRealULT, x, msc_ir_real(x, 0)), msc_ir_real(x, __builtin_nan("")), y);
}

/* Emits log(1 + f) + low for sqrt(1/2) <= 1 + f < sqrt(2); `low`: a correction, or NULL. */
static LLVMValueRef log_near_one(msc_emit *e, LLVMValueRef f, LLVMValueRef low) {
  LLVMValueRef square = fmul(e, f, f), half_square = fmul(e, square, msc_ir_real(f, 0.5)), a, b;
  if (is_f64(f)) { /* s (f^2/2 + R), R = log(1 + f) / s - 2 */
    LLVMValueRef s = msc_ir_divide(e, f, fadd(e, f, msc_ir_real(f, 2))), u = fmul(e, s, s);
    a = s, b = fadd(e, half_square, fmul(e, u, POLY(e, u, log)));
  } else {
    a = fmul(e, square, f), b = POLY(e, f, log);
  }
  return fsub(e, f, fsub(e, half_square, low ? fma_(e, a, b, low) : fmul(e, a, b)));
}

LLVMValueRef msc_math_log(msc_emit *e, LLVMValueRef x) {
  bool wide = is_f64(x);
  LLVMValueRef n, f = split_exponent(e, x, &n);
  LLVMValueRef low = fmul(e, n, msc_ir_real(x, wide ? 0x1.a39ef35793c76p-33 : 0x1.7f7d1cp-20));
  LLVMValueRef y = fma_(e, n, msc_ir_real(x, wide ? 0x1.62e42feep-1 : 0x1.62e4p-1), log_near_one(e, f, low));
  return log_special(e, x, y);
}

/* Emits log2 x, which for a power of two is exactly its exponent. */
LLVMValueRef msc_math_log2(msc_emit *e, LLVMValueRef x) {
  LLVMValueRef n, f = split_exponent(e, x, &n);
  return log_special(e, x, fma_(e, log_near_one(e, f, NULL), msc_ir_real(x, 0x1.71547652b82fep+0), n));
}

LLVMValueRef msc_math_log10(msc_emit *e, LLVMValueRef x) {
  bool wide = is_f64(x);
  LLVMValueRef n, f = split_exponent(e, x, &n);
  /* log10 2 in two parts, of which n times the first is exact */
  LLVMValueRef low = fmul(e, n, msc_ir_real(x, wide ? 0x1.ef3fde623e256p-35 : 0x1.3509f8p-18));
  LLVMValueRef y = fma_(e, log_near_one(e, f, NULL), msc_ir_real(x, 0x1.bcb7b1526e50ep-2), low);
  return log_special(e, x, fma_(e, n, msc_ir_real(x, wide ? 0x1.34413509p-2 : 0x1.344p-2), y));
}

/* ---- erf ---- */

/* erf x = x + x P(x^2) for |x| < 1, and 1 - exp(P(|x| - middle)) beyond. */
LLVMValueRef msc_math_erf(msc_emit *e, LLVMValueRef x) {
  bool wide = is_f64(x);
  LLVMValueRef n, a = msc_ir_unary(e, "llvm.fabs", x), near = fma_(e, x, POLY(e, fmul(e, x, x), erf), x);
  LLVMValueRef t = fsub(e, clamp(e, a, 1, wide ? 6 : 4), msc_ir_real(x, wide ? 3.5 : 2.5)), y = POLY(e, t, erfc);
  LLVMValueRef p = reduced_expm1(e, y, NULL, &n),
               far = fsub(e, msc_ir_real(x, 1), scale(e, fadd(e, p, msc_ir_real(x, 1)), n));
  return fselect(e, is(e, LLVMRealOLT, a, msc_ir_real(x, 1)), near, with_sign_of(e, far, x));
}

/* ---- pow = exp(y log|x|) with log in two parts ---- */

typedef struct {
  LLVMValueRef high, low;
} pair;

static pair two_sum(msc_emit *e, LLVMValueRef a, LLVMValueRef b) { /* |a| >= |b| */
  LLVMValueRef s = fadd(e, a, b);
  return (pair){s, fsub(e, b, fsub(e, s, a))};
}

static pair two_product(msc_emit *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef p = fmul(e, a, b);
  if (e->l->has_fma) return (pair){p, fma_(e, a, b, LLVMBuildFNeg(e->b, p, ""))};
  LLVMValueRef big = msc_ir_real(a, 0x1.000002p27), ta = fmul(e, a, big), tb = fmul(e, b, big);
  LLVMValueRef ah = fsub(e, ta, fsub(e, ta, a)), bh = fsub(e, tb, fsub(e, tb, b)), al = fsub(e, a, ah),
               bl = fsub(e, b, bh);
  LLVMValueRef low = fadd(e, fsub(e, fmul(e, ah, bh), p), fadd(e, fmul(e, ah, bl), fmul(e, al, bh)));
  return (pair){p, fadd(e, low, fmul(e, al, bl))};
}

/* log x = n ln 2 + 2s + s^3 P(s^2), s = f / (2 + f), to about 2^-63 */
static pair log_pair(msc_emit *e, LLVMValueRef x) {
  LLVMValueRef n, f = split_exponent(e, x, &n), two = msc_ir_real(x, 2);
  pair d = two_sum(e, two, f);
  LLVMValueRef s = msc_ir_divide(e, f, d.high);
  pair back = two_product(e, s, d.high); /* s d = f - error */
  LLVMValueRef error = fsub(e, fsub(e, fsub(e, f, back.high), back.low), fmul(e, s, d.low));
  LLVMValueRef s_low = msc_ir_divide(e, error, d.high), u = fmul(e, s, s);
  pair square = two_product(e, s, s), cube = two_product(e, square.high, s);
  LLVMValueRef cube_low =
                   fadd(e, cube.low, fadd(e, fmul(e, square.low, s), fmul(e, msc_ir_real(x, 3), fmul(e, u, s_low)))),
               factor = POLY(e, u, log);
  pair rest = two_product(e, cube.high, factor);
  rest.low = fma_(e, cube_low, factor, rest.low);
  pair first = two_sum(e, fmul(e, n, msc_ir_real(x, 0x1.62e42feep-1)), fadd(e, s, s));
  /* n ln 2 is the larger term, or zero when n is 0, in which case the order of the sum does not matter */
  LLVMValueRef low =
      fadd(e, fadd(e, s_low, s_low), fadd(e, first.low, fma_(e, n, msc_ir_real(x, 0x1.a39ef35793c76p-33), rest.low)));
  pair second = two_sum(e, first.high, rest.high);
  return two_sum(e, second.high, fadd(e, second.low, low));
}

static LLVMValueRef pow_special(msc_emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef r) {
  LLVMValueRef zero = msc_ir_real(x, 0), one = msc_ir_real(x, 1), a = msc_ir_unary(e, "llvm.fabs", x),
               b = msc_ir_unary(e, "llvm.fabs", y);
  /* b is whole if adding and subtracting 2^52 does not change it, and odd if half of it is not whole */
  LLVMValueRef big = msc_ir_real(x, 0x1p52), huge = is(e, LLVMRealOGE, b, big), half = fmul(e, b, msc_ir_real(x, 0.5));
  LLVMValueRef whole = LLVMBuildOr(e->b, huge, is(e, LLVMRealOEQ, fsub(e, fadd(e, b, big), big), b), "");
  LLVMValueRef half_whole =
      LLVMBuildOr(e->b, is(e, LLVMRealOGE, half, big), is(e, LLVMRealOEQ, fsub(e, fadd(e, half, big), big), half), "");
  LLVMValueRef odd = LLVMBuildAnd(e->b, whole, LLVMBuildNot(e->b, half_whole, ""), "");
  LLVMValueRef negative = LLVMBuildICmp(e->b, LLVMIntSLT, to_bits(e, x), msc_ir_int(to_bits(e, x), 0), "");
  r = fselect(e, LLVMBuildAnd(e->b, odd, negative, ""), LLVMBuildFNeg(e->b, r, ""), r);
  LLVMValueRef bad = LLVMBuildAnd(e->b, is(e, LLVMRealOLT, x, zero), LLVMBuildNot(e->b, whole, ""), "");
  bad = LLVMBuildAnd(e->b, bad, is(e, LLVMRealOLT, a, msc_ir_real(x, __builtin_inf())), "");
  r = fselect(e, bad, msc_ir_real(x, __builtin_nan("")), r);
  LLVMValueRef unit =
      LLVMBuildAnd(e->b, is(e, LLVMRealOEQ, a, one), is(e, LLVMRealOEQ, b, msc_ir_real(x, __builtin_inf())), "");
  unit = LLVMBuildOr(e->b, LLVMBuildOr(e->b, unit, is(e, LLVMRealOEQ, x, one), ""), is(e, LLVMRealOEQ, y, zero), "");
  return fselect(e, unit, one, r);
}

static LLVMValueRef pow_f64(msc_emit *e, LLVMValueRef x, LLVMValueRef y) {
  double infinity = __builtin_inf();
  LLVMValueRef a = msc_ir_unary(e, "llvm.fabs", x), zero = msc_ir_real(x, 0);
  pair l = log_pair(e, a), p = two_product(e, l.high, y);
  LLVMValueRef low = fma_(e, l.low, y, p.low), high = p.high;
  /* far outside the range of exp, or at 0 and infinity, only the sign of the exponent counts */
  LLVMValueRef plain = fmul(e, log_special(e, a, l.high), y);
  LLVMValueRef edge =
      LLVMBuildNot(e->b, is(e, LLVMRealOLT, msc_ir_unary(e, "llvm.fabs", plain), msc_ir_real(x, 800)), "");
  edge = LLVMBuildOr(
      e->b, edge,
      LLVMBuildNot(e->b, is(e, LLVMRealOLT, msc_ir_unary(e, "llvm.fabs", low), msc_ir_real(x, infinity)), ""), "");
  LLVMValueRef r = exp_of_sum(e, fselect(e, edge, plain, high), fselect(e, edge, zero, low));
  return pow_special(e, x, y, r);
}

LLVMValueRef msc_math_pow(msc_emit *e, LLVMValueRef x, LLVMValueRef y) {
  LLVMTypeRef t = LLVMTypeOf(x), f64 = msc_ir_real_type(e, x, 64);
  if (is_f64(x)) return pow_f64(e, x, y);
  x = LLVMBuildFPExt(e->b, x, f64, ""), y = LLVMBuildFPExt(e->b, y, f64, "");
  LLVMValueRef a = msc_ir_unary(e, "llvm.fabs", x); /* f64 rounds far more finely than f32 */
  return LLVMBuildFPTrunc(e->b, pow_special(e, x, y, msc_math_exp(e, fmul(e, y, msc_math_log(e, a)))), t, "");
}

/* ---- sin, cos: x = n pi/2 + r ---- */

static LLVMValueRef quadrant(msc_emit *e, LLVMValueRef x, int quarters) {
  bool wide = is_f64(x);
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef q, wide_x = wide ? x : LLVMBuildFPExt(e->b, x, msc_ir_real_type(e, x, 64), "");
  LLVMValueRef n = round_to_int(e, fmul(e, wide_x, msc_ir_real(wide_x, 0.63661977236758134308)), &q);
  /* pi/2 in parts of 33 bits: products with n below 2^20 are exact */
  LLVMValueRef r = fma_(e, n, msc_ir_real(wide_x, -0x1.921fb544p+0), wide_x);
  r = fma_(e, n, msc_ir_real(wide_x, -0x1.0b4611a6p-34), r);
  r = fma_(e, n, msc_ir_real(wide_x, -0x1.3198a2e037073p-69), r);
  if (!wide) r = LLVMBuildFPTrunc(e->b, r, t, ""), q = LLVMBuildTrunc(e->b, q, msc_ir_int_type(e, x, 32), "");
  q = LLVMBuildAdd(e->b, q, msc_ir_int(q, quarters), "");
  LLVMValueRef u = fmul(e, r, r), sine = fma_(e, fmul(e, u, r), POLY(e, u, sin), r);
  LLVMValueRef cosine =
      fma_(e, fmul(e, u, u), POLY(e, u, cos), fsub(e, msc_ir_real(x, 1), fmul(e, u, msc_ir_real(x, 0.5))));
  LLVMValueRef zero = msc_ir_int(q, 0),
               use_cosine = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, q, msc_ir_int(q, 1), ""), zero, "");
  LLVMValueRef flip = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, q, msc_ir_int(q, 2), ""), zero, ""),
               v = fselect(e, use_cosine, cosine, sine);
  return fselect(e, flip, LLVMBuildFNeg(e->b, v, ""), v);
}

LLVMValueRef msc_math_sin(msc_emit *e, LLVMValueRef x) { return quadrant(e, x, 0); }
LLVMValueRef msc_math_cos(msc_emit *e, LLVMValueRef x) { return quadrant(e, x, 1); }

/* ---- atan: x beyond tan(3 pi/8) is -1/x rotated by pi/2, and beyond tan(pi/8) (x - 1)/(x + 1) rotated by pi/4 ---- */

LLVMValueRef msc_math_atan(msc_emit *e, LLVMValueRef x) {
  bool wide = is_f64(x);
  LLVMValueRef a = msc_ir_unary(e, "llvm.fabs", x), one = msc_ir_real(x, 1), zero = msc_ir_real(x, 0);
  LLVMValueRef far = is(e, LLVMRealOGT, a, msc_ir_real(x, 2.41421356237309505)),
               middle = is(e, LLVMRealOGT, a, msc_ir_real(x, 0.41421356237309505));
  LLVMValueRef high = fselect(e, far, msc_ir_real(x, wide ? 0x1.921fb54442d18p+0 : 0x1.921fb6p+0),
                              fselect(e, middle, msc_ir_real(x, wide ? 0x1.921fb54442d18p-1 : 0x1.921fb6p-1), zero));
  LLVMValueRef low = fselect(e, far, msc_ir_real(x, wide ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25),
                             fselect(e, middle, msc_ir_real(x, wide ? 0x1.1a62633145c07p-55 : -0x1.777a5cp-26), zero));
  LLVMValueRef up = fselect(e, far, msc_ir_real(x, -1), fselect(e, middle, fsub(e, a, one), a));
  LLVMValueRef down = fselect(e, far, a, fselect(e, middle, fadd(e, a, one), one));
  LLVMValueRef t = msc_ir_divide(e, up, down), u = fmul(e, t, t);
  LLVMValueRef rest = fadd(e, fmul(e, fmul(e, u, t), POLY(e, u, atan)), low);
  return with_sign_of(e, fadd(e, high, fadd(e, t, rest)), x);
}
