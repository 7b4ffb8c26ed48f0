/* accuracy.c: what kernels for a GPU compute by its approximating instructions stays as near to the exact value as
 * codegen/emit/nvvm.c states, with each instruction off by as much as its documentation allows, up or down. */
#include <math.h>

#include "tests/codegen/kernels.h"
#include "tests/cuda/standin/standin.h"

enum { POINTS = 4096 };

typedef struct {
  const char *op, *shapes;
  double (*exact)(double a, double b);
  double most; /* units of the last place */
  float low, high; /* of what a comes from */
} function;

static double exp_of(double a, double b) { return (void)b, exp(a); }
static double sqrt_of(double a, double b) { return (void)b, sqrt(a); }
static double tanh_of(double a, double b) { return (void)b, tanh(a); }
static double quotient_of(double a, double b) { return a / b; }

static const function functions[] = {
    {"exp", "4096xf32", exp_of, 4.5, -87, 88},
    {"sqrt", "4096xf32", sqrt_of, 1.5, 0, 3e38F},
    {"tanh", "4096xf32", tanh_of, 3.5, -9, 9},
    {"div", "4096xf32 4096xf32", quotient_of, 3.2, -1e19F, 1e19F},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double units_off(float got, double exact) {
  int exponent;
  frexp(exact, &exponent);
  return fabs(got - exact) / ldexp(1, exponent - 24);
}

/* Numbers near `low`, near `high`, and of every size between. */
static float pick(kernel_run *k, const function *f) {
  double at = random_number(k), sign = random_number(k) < 0.5 && f->low < 0 ? -1 : 1;
  if (random_number(k) < 0.5) return (float)(f->low + at * ((double)f->high - f->low));
  return (float)(sign * ldexp(0.5 + at / 2, (int)(random_number(k) * 60) - 54 + ilogb(f->high) / 2));
}

static void check_function(kernel_run *k, const kernel_case *c, const function *f) {
  static _Alignas(16) float a[POINTS], b[POINTS], y[POINTS];
  bool two = c->call.launch[0].num_buffers == 3;
  void *buffers[] = {a, two ? b : y, y};
  double worst = 0;
  for (int i = 0; i < POINTS; i++) a[i] = pick(k, f), b[i] = pick(k, f);
  for (standin_error = -1; standin_error <= 1; standin_error++) {
    launch_on_gpu(k, &c->call.launch[0], buffers, c->call.launch[0].dims, EMULATOR_UP);
    for (int i = 0; i < POINTS; i++) {
      double exact = f->exact(a[i], b[i]), off = isnormal((float)exact) ? units_off(y[i], exact) : 0;
      worst = off > worst ? off : worst;
    }
  }
  standin_error = 0;
  if (worst > f->most) fail_msg("%s: off by %.2f units of the last place, %.2f are stated", f->op, worst, f->most);
}

static void test_error_is_as_stated(void **state) {
  (void)state;
  kernel_run *k = kernels_new(NULL);
  kernel_case *c[FUNCTIONS];
  for (size_t i = 0; i < FUNCTIONS; i++) c[i] = kernels_add_op(k, functions[i].op, functions[i].shapes, "", 1, 1, 2);
  kernels_finish(k);
  for (size_t i = 0; i < FUNCTIONS; i++) check_function(k, c[i], &functions[i]);
  kernels_free(k);
}

/* What IEEE 754 says of infinities, NaN and zeros, and quotients by numbers whose reciprocal is below the least one. */
static void test_special_numbers(void **state) {
  static _Alignas(16) float a[8] = {INFINITY, -INFINITY, NAN, 200, -200, 0, 3e38F, -3e38F}, y[8],
                            up[8] = {1, 0, NAN, 1, INFINITY, 3e38F, 3e38F, 6}, down[8] = {0, 0, 1, INFINITY, INFINITY,
                                                                                        3e38F, 1.5e38F, 2e38F};
  static const float exps[8] = {INFINITY, 0, NAN, INFINITY, 0, 1, INFINITY, 0}, quotients[8] = {INFINITY, NAN, NAN, 0,
                                                                                               NAN, 1, 2, 3e-38F};
  (void)state;
  kernel_run *k = kernels_new(NULL);
  const kernel_case *power = kernels_add_op(k, "exp", "8xf32", "", 1, 1, 2),
                    *quotient = kernels_add_op(k, "div", "8xf32 8xf32", "", 1, 1, 2);
  kernels_finish(k);
  launch_on_gpu(k, power->call.launch, (void *[]){a, y}, power->call.launch->dims, EMULATOR_UP);
  for (int i = 0; i < 8; i++) assert_true(y[i] == exps[i] || (isnan(y[i]) && isnan(exps[i])));
  launch_on_gpu(k, quotient->call.launch, (void *[]){up, down, y}, quotient->call.launch->dims, EMULATOR_UP);
  for (int i = 0; i < 8; i++)
    assert_true(fabsf(y[i] - quotients[i]) <= 1e-6F * fabsf(quotients[i]) || y[i] == quotients[i] ||
                (isnan(y[i]) && isnan(quotients[i])));
  kernels_free(k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_error_is_as_stated), cmocka_unit_test(test_special_numbers)};
  setenv("MSC_TEST_TARGET", "cuda", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
