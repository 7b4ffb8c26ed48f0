#!/usr/bin/env python3
"""minimax: the polynomial coefficients of codegen/emit/math.c and ir/expand/special.c, by Remez' exchange in 60 digits
(needs mpmath; not part of the build).

Prints C tables, lowest power first.  Each row of FITS: name, function of t, weight, degree, interval of t."""
import sys

import mpmath as mp

mp.mp.dps = 60


def remez(f, weight, degree, a, b):
    """Polynomial p minimising max |(p(t) - f(t)) * weight(t)| on [a, b]; coefficients and the error."""
    n = degree + 2
    nodes = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    nodes[0] += (b - a) * mp.mpf("1e-30")
    for _ in range(40):
        rows = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for i, t in enumerate(nodes):
            for k in range(degree + 1):
                rows[i, k] = t**k
            rows[i, n - 1] = (-1) ** i / weight(t)
            right[i] = f(t)
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[k] for k in range(degree + 1)]
        error = lambda t: (mp.polyval(coefficients[::-1], t) - f(t)) * weight(t)
        # extrema of the error between sign changes, found on a grid and refined
        grid = [a + (b - a) * (1 - mp.cos(mp.pi * i / (24 * n))) / 2 for i in range(24 * n + 1)]
        grid[0] = nodes[0]
        values = [error(t) for t in grid]
        peaks, start = [], 0
        for i in range(1, len(grid) + 1):
            if i == len(grid) or (values[i] > 0) != (values[start] > 0):
                best = max(range(start, i), key=lambda j: abs(values[j]))
                peaks.append(refine(error, grid, best))
                start = i
        if len(peaks) < n:
            break
        while len(peaks) > n:
            peaks.pop(0 if abs(error(peaks[0])) < abs(error(peaks[-1])) else -1)
        worst = [abs(error(t)) for t in peaks]
        nodes = peaks
        if max(worst) - min(worst) < max(worst) * mp.mpf("1e-6"):
            break
    return coefficients, max(abs(v) for v in values)


def refine(error, grid, best):
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(40):
        third = (high - low) / 3
        if abs(error(low + third)) < abs(error(high - third)):
            low += third
        else:
            high -= third
    return (low + high) / 2


def series(f, limit):
    """f(t), with its limit where t is too near 0 to divide."""
    return lambda t: limit if abs(t) < mp.mpf("1e-18") else f(t)


half_ln2 = mp.log(2) / 2 * mp.mpf("1.001")
expm1_rest = series(lambda r: (mp.expm1(r) - r) / r**2, mp.mpf("0.5"))
log_rest = series(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, mp.mpf(1) / 3)
atanh_rest = series(lambda u: (2 * mp.atanh(mp.sqrt(u)) / mp.sqrt(u) - 2) / u, mp.mpf(2) / 3)
erf_core = series(lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1, 2 / mp.sqrt(mp.pi) - 1)
sin_rest = series(lambda u: (mp.sin(mp.sqrt(u)) / mp.sqrt(u) - 1) / u, -mp.mpf(1) / 6)
cos_rest = series(lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2, mp.mpf(1) / 24)
atan_rest = series(lambda u: (mp.atan(mp.sqrt(u)) / mp.sqrt(u) - 1) / u, -mp.mpf(1) / 3)
eighth = (mp.tan(mp.pi / 8) * mp.mpf("1.001"))**2
one = lambda t: mp.mpf(1)
quarter_pi = mp.pi / 4 * mp.mpf("1.001")
s_most = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.001")



def on_half_line(t):
    """x from 0 to infinity for t from -1 to 1"""
    return 3 * (1 + t) / (1 - t)


def erfcx_scaled(t):
    """(1 + 2x) exp(x^2) erfc(x); its limit at infinity is 2 / sqrt(pi)"""
    if 1 - t < mp.mpf("1e-3"):
        return (1 + 2 * (x := on_half_line(t))) * erfcx_far(x) if t != 1 else 2 / mp.sqrt(mp.pi)
    x = on_half_line(t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def erfcx_far(x):
    terms = [(-1) ** n * mp.fac2(2 * n - 1) / (2 * x * x) ** n for n in range(20)]
    return mp.fsum(terms) / (x * mp.sqrt(mp.pi))


def lgamma_core(t):
    """lgamma(x) / ((x - 1) (x - 2)), x = 1.4 + 0.8 t"""
    x = mp.mpf("1.4") + mp.mpf("0.8") * t
    for zero, slope in ((1, mp.euler), (2, 1 - mp.euler)):
        if abs(x - zero) < mp.mpf("1e-25"):
            return slope
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def bessel_far(order):
    """sqrt(x) exp(-x) I(x) for x = 16 / (t + 1)"""

    def f(t):
        if t + 1 < mp.mpf("1e-4"):  # by the asymptotic series
            u, term, total = (t + 1) / 16, mp.mpf(1), mp.mpf(1)
            for n in range(1, 16):
                term *= -(4 * order**2 - (2 * n - 1) ** 2) * u / (8 * n)
                total += term
            return total / mp.sqrt(2 * mp.pi)
        x = 16 / (t + 1)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return f


FITS = [
    # exp(r) = 1 + r + r^2 P(r)
    ("exp_f32", expm1_rest, one, 4, -half_ln2, half_ln2),
    ("exp_f64", expm1_rest, one, 9, -half_ln2, half_ln2),
    # log(1 + f) = f - f^2/2 + f^3 P(f)
    ("log_f32", log_rest, one, 8, mp.sqrt(mp.mpf("0.5")) - 1, mp.sqrt(2) - 1),
    # log(1 + f) = 2s + s^3 P(s^2), s = f / (2 + f)
    ("log_f64", atanh_rest, one, 7, mp.mpf(0), s_most**2),
    # erf(x) = x + x P(x^2) for |x| < 1
    ("erf_f32", erf_core, one, 6, mp.mpf(0), mp.mpf(1)),
    ("erf_f64", erf_core, one, 12, mp.mpf(0), mp.mpf(1)),
    # erfc(x) = exp(P(t)), x = middle + t, to the right of 1; the error counts as erfc does
    ("erfc_f32", lambda t: mp.log(mp.erfc(t + mp.mpf("2.5"))), lambda t: mp.erfc(t + mp.mpf("2.5")), 8,
     mp.mpf("-1.5"), mp.mpf("1.5")),
    ("erfc_f64", lambda t: mp.log(mp.erfc(t + mp.mpf("3.5"))), lambda t: mp.erfc(t + mp.mpf("3.5")), 18,
     mp.mpf("-2.5"), mp.mpf("2.5")),
    # sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2/2 + r^4 P(r^2)
    ("sin_f32", sin_rest, one, 2, mp.mpf(0), quarter_pi**2),
    ("cos_f32", cos_rest, one, 2, mp.mpf(0), quarter_pi**2),
    ("sin_f64", sin_rest, one, 5, mp.mpf(0), quarter_pi**2),
    ("cos_f64", cos_rest, one, 5, mp.mpf(0), quarter_pi**2),
    # atan(x) = x + x^3 P(x^2) for |x| < tan(pi/8)
    ("atan_f32", atan_rest, one, 4, mp.mpf(0), eighth),
    ("atan_f64", atan_rest, one, 12, mp.mpf(0), eighth),
]

# On t from -1 to 1, through Chebyshev's points: name, function, degree.  The largest error is at most a few times that
# of the best polynomial, and is found in a moment.
INTERPOLATED = [
    # exp(x^2) erfc(x) = P(t) / (1 + 2x), t = (x - 3) / (x + 3)
    ("erfcx_f32", erfcx_scaled, 12),
    ("erfcx_f64", erfcx_scaled, 25),
    # lgamma(x) = (x - 1) (x - 2) P(t), x = 1.4 + 0.8 t
    ("lgamma_f32", lgamma_core, 14),
    ("lgamma_f64", lgamma_core, 29),
    # exp(-x) I(x) = P(t) / sqrt(x), t = 16 / x - 1, beyond 8
    ("i0_far_f32", bessel_far(0), 6),
    ("i0_far_f64", bessel_far(0), 21),
    ("i1_far_f32", bessel_far(1), 6),
    ("i1_far_f64", bessel_far(1), 21),
]


def interpolate(f, degree):
    """The polynomial through Chebyshev's points; coefficients and the largest error on a grid."""
    nodes = [mp.cos(mp.pi * (i + mp.mpf("0.5")) / (degree + 1)) for i in range(degree + 1)]
    rows = mp.matrix([[t**k for k in range(degree + 1)] for t in nodes])
    coefficients = list(mp.lu_solve(rows, mp.matrix([f(t) for t in nodes])))
    grid = [mp.cos(mp.pi * (i + mp.mpf("0.37")) / 200) for i in range(200)]
    return coefficients, max(abs(mp.polyval(coefficients[::-1], t) - f(t)) for t in grid)


def show(name, coefficients, error):
    digits = 9 if name.endswith("f32") else 17
    text = ", ".join(mp.nstr(c, digits, min_fixed=0, max_fixed=0) for c in coefficients)
    print(f"static const double {name}[] = {{{text}}}; /* {mp.nstr(error, 2)} */", flush=True)


wanted = sys.argv[1:]
for name, f, weight, degree, a, b in FITS:
    if not wanted or name in wanted:
        show(name, *remez(f, weight, degree, a, b))
for name, f, degree in INTERPOLATED:
    if not wanted or name in wanted:
        show(name, *interpolate(f, degree))
