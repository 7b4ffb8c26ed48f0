/* special.c: expansions of the special functions: erfc and its inverse, the logarithm of gamma and its derivatives,
 * Bessel functions, sums of exponentials.  Coefficients are those of tools/minimax.py.
 *
 * Each function is computed on ranges by different formulas, and selected: what is not selected may be anything. */
#include <math.h>

#include "ir/formula.h"
#include "ir/op_table.h"

/* c[0] + c[1] x + c[2] x^2 .. */
static msc_value *polynomial(msc_builder *b, msc_value *x, int num, const double *c) {
  msc_value *y = number(b, x, c[num - 1]);
  for (int i = num - 2; i >= 0; i--) y = msc_compute(b, "a * b + c", y, x, number(b, x, c[i]));
  return y;
}

static bool is_double(const msc_value *x) { return x->type->dtype == MSC_F64; }

/* A polynomial whose coefficients NAME_f32 and NAME_f64 are for these element types. */
#define POLYNOMIAL(b, x, NAME)                                                                \
  (is_double(x) ? polynomial(b, x, (int)(sizeof NAME##_f64 / sizeof *NAME##_f64), NAME##_f64) \
                : polynomial(b, x, (int)(sizeof NAME##_f32 / sizeof *NAME##_f32), NAME##_f32))

/* Operand i in an element type that is at least as wide as f32. */
static msc_value *widen_operand(msc_builder *b, msc_value *const *in, int i) {
  return cast(b, in[i], widen_dtype(in[i]->type->dtype));
}

static bool give_cast(msc_builder *b, const msc_op *op, msc_value *y, msc_value **out_result) {
  return give_result(cast(b, y, op->out[0].type->dtype), out_result);
}

/* ---- the error function ---- */

/* exp(x^2) erfc(x) = P(t) / (1 + 2x), t = (x - 3) / (x + 3) */
static const double erfcx_f32[] = {1.25300806,     -1.35621068e-1, -4.75622938e-2, 1.29644091e-1, -1.19273678e-1,
                                   6.83166973e-2,  -2.37703887e-2, 2.49882261e-3,  1.8882157e-3,  -7.26160801e-4,
                                   -1.04221177e-4, 7.72041394e-5,  3.89175156e-6};
static const double erfcx_f64[] = {
    1.2530080582697296,     -1.3562110612458119e-1, -4.7562294353449125e-2, 1.2964515870276316e-1,
    -1.1927366341538979e-1, 6.8308027343893128e-2,  -2.3770514917107987e-2, 2.5293918173706495e-3,
    1.8886903443894543e-3,  -7.798322831260387e-4,  -1.0515971612176149e-4, 1.2509940933306623e-4,
    4.9491841822760664e-6,  -2.010075903780886e-5,  -7.307985940695724e-7,  3.4728430145951555e-6,
    3.5571413343395912e-7,  -6.1729716397093391e-7, -1.4042772727671948e-7, 1.0252159854733824e-7,
    4.1031674722876436e-8,  -1.3744637271614611e-8, -8.2052872175488625e-9, 1.1435382719942425e-9,
    8.373239801913565e-10,  -2.5208846559132344e-11};

/* exp(x^2) erfc(x) for x >= 0 */
static msc_value *scaled_tail(msc_builder *b, msc_value *x) {
  msc_value *t = msc_compute(b, "1 - 6 / (a + 3)", x);
  return t ? msc_compute(b, "b / (1 + 2 * a)", x, POLYNOMIAL(b, t, erfcx)) : NULL;
}

/* Builds exp(-x^2) for x >= 0. x is split in two parts, of which the first has so few digits that its square is
 * exact. */
static msc_value *bell(msc_builder *b, msc_value *x) {
  msc_value *near = msc_compute(b, "min(a, 30)", x), *high = msc_compute(b, "floor(a * 16) * 0.0625", near);
  return msc_compute(b, "exp(-(b * b)) * exp(-((a - b) * (a + b)))", near, high);
}

static msc_value *complement(msc_builder *b, msc_value *x) {
  msc_value *size = msc_compute(b, "abs(a)", x), *scaled = scaled_tail(b, size);
  msc_value *tail = msc_compute(b, "a * b", bell(b, size), scaled);
  msc_value *far = msc_compute(b, "select(less(a, 0), 2 - b, b)", x, tail);
  return msc_compute(b, "select(less(abs(a), 0.5), 1 - erf(a), b)", x, far);
}

bool expand_erfc(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return give_cast(b, op, complement(b, widen_operand(b, in, 0)), out_result);
}

/* Builds exp(x^2) erfc(x); for negative x it is 2 exp(x^2) minus the value at -x. */
bool expand_erfcx(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = widen_operand(b, in, 0), *scaled = scaled_tail(b, msc_compute(b, "abs(a)", x));
  msc_value *left = msc_compute(b, "2 * exp(a * a) - b", x, scaled);
  return give_cast(b, op, msc_compute(b, "select(less(a, 0), b, c)", x, left, scaled), out_result);
}

/* Winitzki's approximation, good to three digits, and two steps of Halley's method, each of which triples them.  Near 1
 * it solves erfc(y) = 1 - x, which is exact there. */
bool expand_erfinv(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = widen_operand(b, in, 0), *size = msc_compute(b, "abs(a)", x);
  msc_value *l = msc_compute(b, "select(less(a, 0.5), log1p(-(a * a)), log((1 - a) * (1 + a)))", size);
  msc_value *half = msc_compute(b, "4.3307467508 + a * 0.5", l);
  msc_value *root = msc_compute(b, "sqrt(b * b - a * 6.8027210884)", l, half);
  msc_value *y = msc_compute(b, "sqrt(select(less(0, b), a * -6.8027210884 / (c + b), c - b))", l, half, root);
  for (int step = 0; step < 2; step++) {
    msc_value *right = msc_compute(b, "(1 - a) - b", size, complement(b, y));
    msc_value *off = msc_compute(b, "select(less(a, 0.5), erf(b) - a, c)", size, y, right);
    msc_value *newton = msc_compute(b, "a * exp(b * b) * 0.88622692545275801365", off, y);
    y = msc_compute(b, "a - b / (1 + a * b)", y, newton);
  }
  y = msc_compute(b, "sign(a) * select(less(b, 1), c, -log(1 - b))", x, size, y); /* infinity at 1, NaN beyond */
  return give_cast(b, op, y, out_result);
}

/* ---- gamma ---- */

/* lgamma(x) = (x - 1) (x - 2) P(t), x = 1.4 + 0.8 t */
static const double lgamma_f32[] = {4.98387142e-1,  -1.27642968e-1, 4.69855681e-2,  -2.00139315e-2, 9.19689261e-3,
                                    -4.42951248e-3, 2.19300277e-3,  -1.06733485e-3, 5.46154521e-4,  -3.82313052e-4,
                                    2.01879866e-4,  2.30452433e-5,  -1.35379907e-5, -7.90393604e-5, 4.27305269e-5};
static const double lgamma_f64[] = {
    4.9838714238488043e-1, -1.276429463061998e-1,  4.6985556524341647e-2,  -2.0014717227123539e-2,
    9.1973198030384245e-3, -4.4211918998264445e-3, 2.1884792061755789e-3,  -1.105600089014241e-3,
    5.669546562971523e-4,  -2.9408364121563505e-4, 1.5393114670761607e-4,  -8.1171408294494444e-5,
    4.3086383113389014e-5, -2.2981559172946023e-5, 1.2238870387545696e-5,  -6.5820534053791348e-6,
    3.7709973733710528e-6, -2.0447974547117706e-6, 6.5125233888544007e-7,  -3.495685867946267e-7,
    8.8619968742521656e-7, -4.9014036225033362e-7, -4.8405097956527353e-7, 2.7011965559367051e-7,
    4.1851975597997609e-7, -2.3271213788810542e-7, -1.5429523643166927e-7, 8.5878821366612408e-8,
    3.6253956654502594e-8, -2.0153192719155948e-8};

enum { STIRLING = 8 };
/* B(2k) / (2k (2k - 1)), k = 1, 2 .. */
static const double stirling[STIRLING] = {1. / 12,   -1. / 360,      1. / 1260, -1. / 1680,
                                          1. / 1188, -691. / 360360, 1. / 156,  -3617. / 122400};

/* B(2k), k = 1, 2 .. */
enum { BERNOULLI = 10 };
static const double bernoulli[BERNOULLI] = {1. / 6,       -1. / 30, 1. / 42,      -1. / 30,     5. / 66,
                                            -691. / 2730, 7. / 6,   -3617. / 510, 43867. / 798, -174611. / 330};

/* The logarithm of gamma of x > 0: up to 2.2 by the polynomial, to the left of it through gamma(x + 1); up to 8 through
 * gamma(x) = (x - 1) gamma(x - 1); beyond by Stirling's series. */
static msc_value *log_gamma(msc_builder *b, msc_value *x) {
  msc_value *product = number(b, x, 1), *y = x;
  for (int i = 0; i < 6; i++) {
    msc_value *above = compare(b, MSC_GT, y, number(b, x, 2.2)), *less = msc_compute(b, "a - 1", y);
    product = choose(b, above, msc_compute(b, "a * b", product, less), product);
    y = choose(b, above, less, y);
  }
  msc_value *left = compare(b, MSC_LT, x, number(b, x, 0.6)), *right = msc_compute(b, "a + 1", y);
  y = choose(b, left, right, y);
  msc_value *t = msc_compute(b, "(a - 1.4) * 1.25", y);
  if (!t) return NULL;
  msc_value *core = msc_compute(b, "(a - 1) * (a - 2) * b", y, POLYNOMIAL(b, t, lgamma));
  msc_value *rest = msc_compute(b, "log(a)", choose(b, left, x, product));
  msc_value *down = msc_compute(b, "a - b", core, rest), *up = msc_compute(b, "a + b", core, rest);
  msc_value *near = choose(b, left, down, up), *inverse = msc_compute(b, "1 / a", x);
  msc_value *series = polynomial(b, msc_compute(b, "a * a", inverse), STIRLING, stirling);
  msc_value *far = msc_compute(b, "(a - 0.5) * (log(a) - 1) + 0.41893853320467274178 + b * c", x, series, inverse);
  return choose(b, compare(b, MSC_LT, x, number(b, x, 8)), near, far);
}

/* Builds the distance of x from the nearest whole number, times pi. */
static msc_value *angle_from_whole(msc_builder *b, msc_value *x) {
  return msc_compute(b, "(a - round(a)) * 3.14159265358979323846", x);
}

/* Left of zero by log |gamma(x)| = log(pi / |x sin(pi x)|) - lgamma(-x). */
bool expand_lgamma(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = widen_operand(b, in, 0), *size = msc_compute(b, "abs(a)", x), *right = log_gamma(b, size);
  msc_value *sine = msc_compute(b, "abs(sin(a))", angle_from_whole(b, x));
  msc_value *left = msc_compute(b, "1.14472988584940017414 - log(a * b) - c", size, sine, right);
  msc_value *y = msc_compute(b, "select(less(a, 0), b, c)", x, left, right);
  return give_cast(b, op, choose(b, compare(b, MSC_EQ, size, number(b, x, INFINITY)), size, y), out_result);
}

/* log x - 1/2x - sum of B(2k) / (2k x^2k) from 8 on; to the left of it digamma(x) = digamma(x + 1) - 1/x. */
static msc_value *digamma_right(msc_builder *b, msc_value *x) {
  msc_value *y = x, *total = number(b, x, 0);
  for (int i = 0; i < 8; i++) {
    msc_value *below = compare(b, MSC_LT, y, number(b, x, 8)), *with = msc_compute(b, "a - 1 / b", total, y);
    total = choose(b, below, with, total);
    y = choose(b, below, msc_compute(b, "a + 1", y), y);
  }
  double c[8];
  for (int k = 0; k < 8; k++) c[k] = bernoulli[k] / (2 * k + 2);
  msc_value *inverse = msc_compute(b, "1 / a", y), *square = msc_compute(b, "a * a", inverse);
  msc_value *series = msc_compute(b, "0.5 * a + b * c", inverse, square, polynomial(b, square, 8, c));
  return msc_compute(b, "a + (log(b) - c)", total, y, series);
}

/* Left of zero by digamma(x) = digamma(-x) - 1/x - pi / tan(pi x), no number at whole numbers. */
bool expand_digamma(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = widen_operand(b, in, 0), *negative = compare(b, MSC_LT, x, number(b, x, 0));
  msc_value *right = digamma_right(b, choose(b, negative, msc_compute(b, "-a", x), x)), *part = angle_from_whole(b, x);
  msc_value *cotangent = msc_compute(b, "cos(a) / sin(a)", part);
  msc_value *left = msc_compute(b, "a - 1 / b - 3.14159265358979323846 * c", right, x, cotangent);
  left = choose(b, compare(b, MSC_EQ, part, number(b, x, 0)), number(b, x, NAN), left);
  return give_cast(b, op, choose(b, negative, left, right), out_result);
}

/* a^n, n >= 1 */
static msc_value *whole_power(msc_builder *b, msc_value *x, int n) {
  msc_value *y = x;
  for (int i = 1; i < n; i++) y = msc_compute(b, "a * b", y, x);
  return y;
}

/* The sum of (x + k)^-s over k = 0, 1 .., s >= 2: ten terms, and Euler's and Maclaurin's formula for the others. */
static msc_value *hurwitz_zeta(msc_builder *b, msc_value *x, int s) {
  msc_value *total = number(b, x, 0);
  for (int k = 0; k < 10; k++) {
    msc_value *term = whole_power(b, msc_compute(b, "1 / (a + b)", x, number(b, x, k)), s);
    total = msc_compute(b, "a + b", total, term);
  }
  msc_value *y = msc_compute(b, "a + 10", x), *inverse = msc_compute(b, "1 / a", y);
  double c[BERNOULLI], factor = s / 2.; /* s (s + 1) .. (s + 2k - 2) / (2k)! */
  for (int k = 1; k <= BERNOULLI; k++) {
    c[k - 1] = bernoulli[k - 1] * factor;
    factor *= (s + 2. * k - 1) * (s + 2. * k) / ((2. * k + 1) * (2. * k + 2));
  }
  msc_value *power = whole_power(b, inverse, s), *square = msc_compute(b, "a * a", inverse);
  msc_value *series = msc_compute(b, "a * b + 0.5", inverse, polynomial(b, square, BERNOULLI, c));
  msc_value *whole = msc_compute(b, "a * b + c", y, number(b, x, 1. / (s - 1)), series);
  return msc_compute(b, "a + b * c", total, power, whole);
}

/* The n-th derivative of pi / tan(pi x), of c = 1 / tan(pi x): pi^(n + 1) times the polynomial that c' = -(1 + c^2)
 * makes of c. */
static msc_value *cotangent_derivative(msc_builder *b, msc_value *c, int n) {
  double p[MSC_POLYGAMMA_MOST + 2] = {0, 1}, scale = M_PI;
  for (int i = 0; i < n; i++) {
    double next[MSC_POLYGAMMA_MOST + 2] = {0};
    for (int k = 1; k <= i + 1; k++) next[k - 1] -= k * p[k], next[k + 1] -= k * p[k];
    for (int k = 0; k <= i + 2; k++) p[k] = next[k];
    scale *= M_PI;
  }
  for (int k = 0; k <= n + 1; k++) p[k] *= scale;
  return polynomial(b, c, n + 2, p);
}

/* (-1)^(n + 1) n! zeta(n + 1, x); left of zero by (-1)^n polygamma(n, 1 - x) less the derivative of pi / tan(pi x). */
bool expand_polygamma(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int n = (int)msc_op_int(op, "n");
  msc_value *x = widen_operand(b, in, 0), *negative = compare(b, MSC_LT, x, number(b, x, 0)),
            *part = angle_from_whole(b, x);
  msc_value *zeta = hurwitz_zeta(b, choose(b, negative, msc_compute(b, "1 - a", x), x), n + 1);
  double factorial = tgamma(n + 1.), sign = n % 2 ? 1 : -1;
  msc_value *right = scale_by(b, zeta, sign * factorial), *reflected = scale_by(b, zeta, -factorial);
  msc_value *cotangent = msc_compute(b, "cos(a) / sin(a)", part);
  msc_value *left = msc_compute(b, "a - b", reflected, cotangent_derivative(b, cotangent, n));
  return give_cast(b, op, choose(b, negative, left, right), out_result);
}

/* ---- modified Bessel functions ---- */

/* sqrt(x) exp(-x) I(x) = P(t), t = 16 / x - 1, beyond 8 */
static const double i0_far_f32[] = {4.02176509e-1, 3.36055585e-3, 1.36216843e-4, 1.11115255e-5,
                                    1.47679211e-6, 3.63171031e-7, 1.08298983e-7};
static const double i0_far_f64[] = {
    4.0217650944500814e-1,   3.3605519836678762e-3, 1.3621607437737267e-4,  1.1143033791893045e-5,
    1.4838481508617709e-6,   2.9735978852902737e-7, 8.8712931936046769e-8,  3.9327123085832936e-8,
    2.1624460343124581e-8,   7.5437752382507338e-9, -7.1167444997579877e-9, -1.335632771743214e-8,
    -4.2706497213638249e-9,  7.396966587219158e-9,  5.1432089858622843e-9,  -3.2125129510357302e-9,
    -2.8927333669603945e-9,  1.1661396927314526e-9, 9.5445985964082174e-10, -3.0719032844097364e-10,
    -1.4445666241808039e-10, 4.135870336904037e-11};
static const double i1_far_f32[] = {3.89398459e-1, -9.74958153e-3, -2.19236669e-4, -1.50033231e-5,
                                    -1.8267145e-6, -4.21555437e-7, -1.22124985e-7};
static const double i1_far_f64[] = {
    3.8939845902587227e-1,  -9.7495771932357504e-3, -2.1923576381873668e-4, -1.5038547201402335e-5,
    -1.8349107416211804e-6, -3.4838551252734808e-7, -1.0000323944983053e-7, -4.3130341641824356e-8,
    -2.3453111618217135e-8, -8.4178108815568918e-9, 7.118573210000024e-9,   1.3986230294575344e-8,
    4.7942444927275886e-9,  -7.5002588247852322e-9, -5.5084094089580882e-9, 3.158127700170617e-9,
    3.0582654028044288e-9,  -1.1153074851895528e-9, -1.0032283190965857e-9, 2.8795297002473245e-10,
    1.5138585494356061e-10, -3.8283098239014645e-11};

enum { BESSEL_TERMS = 26 };

/* I0(x) or I1(x), times exp(-|x|) if it is scaled: up to 8 by the series in (x/2)^2, whose terms all are positive. */
static bool bessel(msc_builder *b, const msc_op *op, int order, bool scaled, msc_value *const *in, msc_value **out) {
  msc_value *x = widen_operand(b, in, 0), *size = msc_compute(b, "abs(a)", x),
            *near_size = msc_compute(b, "min(a, 8)", size);
  double c[BESSEL_TERMS] = {order ? 0.5 : 1};
  for (int k = 1; k < BESSEL_TERMS; k++) c[k] = c[k - 1] / (k * (double)(k + order));
  if (!x) return false;
  msc_value *series = polynomial(b, msc_compute(b, "a * a * 0.25", near_size), is_double(x) ? BESSEL_TERMS : 18, c);
  msc_value *near = order ? msc_compute(b, "a * b", near_size, series) : series;
  if (scaled) near = msc_compute(b, "a * exp(-b)", near, near_size);
  msc_value *t = msc_compute(b, "16 / a - 1", size);
  if (!t) return false;
  msc_value *far = msc_compute(b, "a / sqrt(b)", order ? POLYNOMIAL(b, t, i1_far) : POLYNOMIAL(b, t, i0_far), size);
  /* half of exp(x) twice: their product may be in range where exp(x) is not */
  if (!scaled) far = msc_compute(b, "a * exp(b * 0.5) * exp(b * 0.5)", far, size);
  msc_value *y = msc_compute(b, "select(less(8, a), b, c)", size, far, near);
  return give_cast(b, op, order ? msc_compute(b, "sign(a) * b", x, y) : y, out);
}

bool expand_i0(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return bessel(b, op, 0, false, in, out_result);
}
bool expand_i0e(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return bessel(b, op, 0, true, in, out_result);
}
bool expand_i1(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return bessel(b, op, 1, false, in, out_result);
}
bool expand_i1e(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  return bessel(b, op, 1, true, in, out_result);
}

/* ---- two operands ---- */

/* The result is the larger magnitude times sqrt(1 + (smaller / larger)^2), which does not overflow; it is infinite if
 * an operand is. */
bool expand_hypot(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *u = msc_compute(b, "abs(a)", widen_operand(b, in, 0)),
            *v = msc_compute(b, "abs(a)", widen_operand(b, in, 1));
  msc_value *most = msc_compute(b, "max(a, b)", u, v), *least = msc_compute(b, "min(a, b)", u, v);
  msc_value *ratio = msc_compute(b, "select(less(0, a), b / a, 0)", most, least);
  msc_value *y = msc_compute(b, "a * sqrt(1 + b * b)", most, ratio);
  return give_cast(b, op, choose(b, compare(b, MSC_EQ, most, number(b, most, INFINITY)), most, y), out_result);
}

/* log(exp(a) + exp(b)) */
static msc_value *log_sum(msc_builder *b, msc_value *x, msc_value *y) {
  msc_value *most = msc_compute(b, "max(a, b)", x, y), *off = msc_compute(b, "abs(a - b)", x, y);
  off = choose(b, compare(b, MSC_EQ, x, y), number(b, most, 0), off); /* also for equal infinities */
  return msc_compute(b, "a + log1p(exp(-b))", most, off);
}

bool expand_logaddexp(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  msc_value *x = widen_operand(b, in, 0), *y = widen_operand(b, in, 1);
  return give_cast(b, op, log_sum(b, x, y), out_result);
}

/* Shifts x along the axis by `by` elements, forwards or in reverse; -inf fills the elements that become free. */
static msc_value *shift(msc_builder *b, msc_value *x, int axis, int64_t by, bool reverse) {
  int64_t low[MSC_MAX_RANK] = {0}, high[MSC_MAX_RANK] = {0};
  if (!x) return NULL;
  int64_t n = x->type->dim[axis];
  *(reverse ? &high[axis] : &low[axis]) = by;
  return pad_with(b, part_of(b, x, axis, reverse ? by : 0, reverse ? n : n - by), low, high, NULL, -INFINITY);
}

/* Each step joins, for every element, the span that ends there with the span before it: spans double their length. */
bool expand_logcumsumexp(msc_builder *b, const msc_op *op, msc_value *const *in, msc_value **out_result) {
  int axis = axis_of(op, "axis", in[0]->type->rank);
  bool reverse = msc_op_bool(op, "reverse");
  msc_value *y = widen_operand(b, in, 0);
  for (int64_t by = 1; by < in[0]->type->dim[axis]; by *= 2) y = log_sum(b, y, shift(b, y, axis, by, reverse));
  return give_cast(b, op, y, out_result);
}
