/* math.c: checks the accuracy of generated functions against the C library in a wider type: the largest error in
 * units of the last place stays below what codegen/emit/math.c states, on a grid of all f32 bit patterns and on f64
 * numbers of every exponent. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "codegen/emit/emit.h"

enum { BLOCK = 4096, STEP = 3001 /* of the f32 bit patterns */, F64_POINTS = 150000 };

typedef void kernel_fn(void *const *buffers, int64_t begin, int64_t end, const int64_t *dims, const double *scalars);
typedef long double wide_fn(long double);
typedef double middle_fn(double);

typedef struct {
  msc_nest_code code;
  const char *name;
  middle_fn *middle; /* exact enough for f32 */
  wide_fn *wide;     /* for f64 */
  double most32, most64; /* units of the last place */
  double limit32, limit64; /* of |x| */
} function;

static const function functions[] = {
    {NEST_EXP, "exp", exp, expl, 1.1, 1.1, INFINITY, INFINITY},
    {NEST_LOG, "log", log, logl, 0.8, 0.8, INFINITY, INFINITY},
    {NEST_LOG2, "log2", log2, log2l, 1.6, 1.4, INFINITY, INFINITY},
    {NEST_LOG10, "log10", log10, log10l, 1.8, 1.6, INFINITY, INFINITY},
    {NEST_TANH, "tanh", tanh, tanhl, 2.4, 2.5, INFINITY, INFINITY},
    {NEST_ERF, "erf", erf, erfl, 1.6, 3.5, INFINITY, INFINITY},
    {NEST_SIN, "sin", sin, sinl, 1.6, 1.6, 1e5, 1e6},
    {NEST_COS, "cos", cos, cosl, 1.6, 1.6, 1e5, 1e6},
    {NEST_ATAN, "atan", atan, atanl, 1.8, 1.8, INFINITY, INFINITY},
    {NEST_SQRT, "sqrt", sqrt, sqrtl, 0.51, 0.51, INFINITY, INFINITY},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef struct {
  msc_context *ctx;
  msc_llvm llvm;
  char *memory;
  size_t bytes;
  size_t num;
  msc_symbol *symbol;
} module;

/* y[i] = f(x[i]), or f(x[i], z[i]). */
static void add_kernel(module *m, const char *name, msc_nest_code code, msc_dtype dtype, bool two) {
  msc_instr instr[6] = {{0}};
  int n = 1;
  for (int i = 0; i <= two; i++)
    instr[n++] =
        (msc_instr){.code = NEST_LOAD, .dtype = (uint8_t)dtype, .buffer = (uint8_t)i, .axes = 1, .at = {.coef = {1}}};
  instr[n] = (msc_instr){.code = (uint8_t)code, .dtype = (uint8_t)dtype, .arg = {1, two ? 2 : 0}, .axes = 1};
  instr[n + 1] = (msc_instr){.code = NEST_STORE,
                             .dtype = (uint8_t)dtype,
                             .buffer = (uint8_t)(1 + two),
                             .arg = {(uint16_t)n},
                             .axes = 1,
                             .at = {.coef = {1}}};
  msc_program p = {.instr = instr};
  p.head = (msc_program_head){.kind = MSC_NEST_MAP,
                              .num_axes = 1,
                              .num_buffers = (uint8_t)(2 + two),
                              .lane = 0,
                              .chunk_axis = -1,
                              .clipped = -1,
                              .across = -1,
                              .team_axis = -1,
                              .flag = -1,
                              .items = 1,
                              .num_instrs = (uint16_t)(n + 2)};
  p.head.lanes = (uint8_t)((size_t)m->llvm.width.summed / (size_t)msc_dtype_bytes(dtype));
  for (int i = 0; i < 2 + two; i++) p.head.buffer[i].dtype = (uint8_t)dtype;
  msc_emit_cpu(&m->llvm, &p, msc_llvm_kernel(&m->llvm, name));
}

static void open_module(module *m, const char *cpu) {
  m->ctx = msc_context_new(NULL, NULL);
  assert_true(msc_llvm_open(m->ctx, &(msc_code_target){.target = &msc_target_cpu, .cpu = cpu}, &m->llvm));
}

static void finish_module(module *m) {
  msc_machine_code code = {0};
  LLVMMemoryBufferRef object = msc_llvm_assemble(&m->llvm);
  assert_non_null(object);
  msc_object elf = {LLVMGetBufferStart(object), LLVMGetBufferSize(object)};
  assert_true(msc_object_link(m->ctx, msc_context_arena(m->ctx), 1, &elf, &code, &m->num, &m->symbol));
  LLVMDisposeMemoryBuffer(object);
  m->bytes = (code.num_bytes + 4095) / 4096 * 4096;
  m->memory = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(m->memory, code.bytes, code.num_bytes);
  assert_int_equal(mprotect(m->memory, (code.text_bytes + 4095) / 4096 * 4096, PROT_READ | PROT_EXEC), 0);
}

static void close_module(module *m) {
  munmap(m->memory, m->bytes);
  msc_llvm_close(&m->llvm);
  msc_context_free(m->ctx);
}

static kernel_fn *find(const module *m, const char *name) {
  kernel_fn *fn = NULL;
  for (size_t i = 0; i < m->num; i++) {
    void *at = m->memory + m->symbol[i].entry;
    if (!strcmp(m->symbol[i].name, name)) memcpy(&fn, &at, sizeof fn);
  }
  assert_non_null(fn);
  return fn;
}

/* Distance of `got` from `exact` in units of the last place of the f32 or f64 nearest to exact. */
static double distance(long double exact, double got, int digits, int least) {
  if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
  long double most = digits == 24 ? (long double)0x1.ffffffp127L : (long double)0x1.fffffffffffff8p1023L;
  if (isinf(got) || fabsl(exact) >= most)
    return isinf(got) && fabsl(exact) >= most && !signbit(exact) == !signbit(got) ? 0 : INFINITY;
  int exponent = exact == 0 ? least : ilogbl(exact);
  if (exponent < least) exponent = least;
  return (double)(fabsl((long double)got - exact) / ldexpl(1, exponent - digits + 1));
}

typedef struct {
  double worst, at;
} record;

static void note(record *r, double error, double at) {
  if (error > r->worst || r->worst != r->worst) r->worst = error, r->at = at;
}

static record measure_f32(const module *m, const function *f) {
  kernel_fn *kernel = find(m, msc_arena_printf(msc_context_arena(m->ctx), "%s_f32", f->name));
  static float x[BLOCK], y[BLOCK];
  record r = {0};
  uint64_t bits = 0;
  while (bits < UINT64_C(1) << 32) {
    int n = 0;
    for (; n < BLOCK && bits < UINT64_C(1) << 32; bits += STEP) {
      uint32_t word = (uint32_t)bits;
      memcpy(&x[n], &word, 4);
      if (!(fabsf(x[n]) > f->limit32)) n++;
    }
    kernel((void *[]){x, y}, 0, n, NULL, NULL);
    for (int i = 0; i < n; i++) note(&r, distance(f->middle(x[i]), y[i], 24, -126), x[i]);
  }
  return r;
}

static double random_f64(uint64_t *seed, double limit) {
  for (;;) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t word = *seed ^ *seed >> 29;
    double v;
    /* half of them near 1, where functions do something */
    if (word & 1) word = (word & ~(UINT64_C(0x7ff) << 52)) | (1023 - 20 + (word >> 1) % 30) << 52;
    memcpy(&v, &word, 8);
    if (!(fabs(v) > limit)) return v;
  }
}

static record measure_f64(const module *m, const function *f) {
  kernel_fn *kernel = find(m, msc_arena_printf(msc_context_arena(m->ctx), "%s_f64", f->name));
  static double x[BLOCK], y[BLOCK];
  record r = {0};
  uint64_t seed = 7;
  for (int done = 0; done < F64_POINTS; done += BLOCK) {
    for (int i = 0; i < BLOCK; i++) x[i] = random_f64(&seed, f->limit64);
    kernel((void *[]){x, y}, 0, BLOCK, NULL, NULL);
    for (int i = 0; i < BLOCK; i++) note(&r, distance(f->wide(x[i]), y[i], 53, -1022), x[i]);
  }
  return r;
}

static void check_all(const char *cpu, double allowance) {
  module m;
  open_module(&m, cpu);
  for (size_t i = 0; i < COUNT(functions); i++) {
    add_kernel(&m, msc_arena_printf(msc_context_arena(m.ctx), "%s_f32", functions[i].name), functions[i].code, MSC_F32,
               false);
    add_kernel(&m, msc_arena_printf(msc_context_arena(m.ctx), "%s_f64", functions[i].name), functions[i].code, MSC_F64,
               false);
  }
  finish_module(&m);
  for (size_t i = 0; i < COUNT(functions); i++) {
    record a = measure_f32(&m, &functions[i]), b = measure_f64(&m, &functions[i]);
    print_message("%-5s f32 %.3f at %.9g  f64 %.3f at %.17g\n", functions[i].name, a.worst, a.at, b.worst, b.at);
    assert_true(a.worst <= functions[i].most32 + allowance);
    assert_true(b.worst <= functions[i].most64 + allowance);
  }
  close_module(&m);
}

static void test_functions(void **state) {
  (void)state;
  check_all(NULL, 0);
}

/* Without FMA, as on older machines. */
static void test_functions_without_fma(void **state) {
  (void)state;
  check_all("x86-64", 1.5);
}

/* floor and ceil of them are used as sizes and levels. */
static void test_logarithms_of_powers_are_whole(void **state) {
  static const char *const cpus[] = {NULL, "x86-64"};
  static float xf[BLOCK], yf[BLOCK];
  static double x[BLOCK], y[BLOCK];
  (void)state;
  for (size_t c = 0; c < COUNT(cpus); c++) {
    module m;
    open_module(&m, cpus[c]);
    add_kernel(&m, "log2_f32", NEST_LOG2, MSC_F32, false);
    add_kernel(&m, "log2_f64", NEST_LOG2, MSC_F64, false);
    add_kernel(&m, "log10_f32", NEST_LOG10, MSC_F32, false);
    add_kernel(&m, "log10_f64", NEST_LOG10, MSC_F64, false);
    finish_module(&m);
    int n = 0, least = -149;
    for (int i = least; i <= 127; i++, n++) xf[n] = ldexpf(1, i), x[n] = ldexp(1, 8 * i);
    find(&m, "log2_f32")((void *[]){xf, yf}, 0, n, NULL, NULL);
    find(&m, "log2_f64")((void *[]){x, y}, 0, n, NULL, NULL);
    for (int i = 0; i < n; i++) {
      assert_true(yf[i] == (float)(least + i));
      if (x[i] > 0 && !isinf(x[i])) assert_true(y[i] == 8 * (least + i));
    }
    for (n = 0; n <= 22; n++) x[n] = pow(10, n), xf[n] = (float)x[n]; /* f32 has 10^10 exactly, f64 10^22 */
    find(&m, "log10_f32")((void *[]){xf, yf}, 0, n, NULL, NULL);
    find(&m, "log10_f64")((void *[]){x, y}, 0, n, NULL, NULL);
    for (int i = 0; i < n; i++) {
      if (i <= 10) assert_true(yf[i] == (float)i);
      assert_true(y[i] == i);
    }
    close_module(&m);
  }
}

static void test_pow(void **state) {
  static const double special[] = {0,
                                   -0.0,
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   0.5,
                                   -0.5,
                                   3,
                                   -3,
                                   1.5,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   1e-300,
                                   1e300,
                                   -1e300,
                                   1e-310,
                                   4503599627370497.0,
                                   -9007199254740993.0};
  static double x[BLOCK], y[BLOCK], z[BLOCK];
  static float xf[BLOCK], yf[BLOCK], zf[BLOCK];
  module m;
  uint64_t seed = 3;
  record worst64 = {0}, worst32 = {0};
  (void)state;
  open_module(&m, NULL);
  add_kernel(&m, "pow_f32", NEST_POW, MSC_F32, true);
  add_kernel(&m, "pow_f64", NEST_POW, MSC_F64, true);
  finish_module(&m);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < BLOCK; i++) {
      x[i] = random_f64(&seed, INFINITY), y[i] = random_f64(&seed, INFINITY);
      if (round == 0)
        x[i] = special[(size_t)i % COUNT(special)], y[i] = special[(size_t)i / COUNT(special) % COUNT(special)];
      else if (round % 2) x[i] = fabs(x[i]), y[i] = fmod(y[i], 700) / log(x[i] == 1 ? 2 : x[i]);
      xf[i] = (float)x[i], yf[i] = (float)y[i];
    }
    find(&m, "pow_f64")((void *[]){x, y, z}, 0, BLOCK, NULL, NULL);
    find(&m, "pow_f32")((void *[]){xf, yf, zf}, 0, BLOCK, NULL, NULL);
    for (int i = 0; i < BLOCK; i++) {
      double e64 = distance(powl(x[i], y[i]), z[i], 53, -1022), e32 = distance(powl(xf[i], yf[i]), zf[i], 24, -126);
      if (e64 > 8) fail_msg("pow(%.17g, %.17g) = %.17g, error %g", x[i], y[i], z[i], e64);
      if (e32 > 0.6) fail_msg("pow(%.9g, %.9g) = %.9g in f32, error %g", xf[i], yf[i], zf[i], e32);
      note(&worst64, e64, x[i]), note(&worst32, e32, xf[i]);
    }
  }
  print_message("pow   f32 %.3f  f64 %.3f\n", worst32.worst, worst64.worst);
  close_module(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_functions_without_fma),
                                     cmocka_unit_test(test_logarithms_of_powers_are_whole),
                                     cmocka_unit_test(test_pow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
