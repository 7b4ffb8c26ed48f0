/* product.c: compares matrix products of generated code, bit for bit, with a plain loop that adds in the order of
 * emit/product.c. */

#include <float.h>

#include "codegen/emit/emit.h"
#include "ir/interp/kernel.h"
#include "tests/codegen/kernels.h"

enum { FORMS = 32 };

typedef struct {
  int64_t m, n, k, blocks;
} sizes;

typedef struct {
  msc_dtype dtype;
  bool transpose_a, transpose_b, bias, relu;
} product_form;

/* What a and b of this type are summed and stored in. */
static msc_dtype sum_dtype(msc_dtype d) { return d == MSC_F64 ? d : MSC_F32; }

static double fma_of(msc_dtype d, double a, double b, double c) {
  return d != MSC_F64 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}
static double sum_of(msc_dtype d, double a, double b) { return d != MSC_F64 ? (double)((float)a + (float)b) : a + b; }

typedef struct {
  const product_form *form;
  const msc_product_kernels *kernels;
  sizes s;
  int traits;
  msc_tensor a, b, bias, c;
  double *rows, *columns; /* of a, and of b, of k elements each, while results are compared */
} product_case;

/* What c is stored in. */
static msc_dtype result_dtype(const product_case *p) {
  return p->traits & MSC_PRODUCT_ROUNDS ? p->form->dtype : sum_dtype(p->form->dtype);
}

/* Of an odd number of rows each has a bias of its own, which c holds before. */
static bool adds_to_result(const product_case *p) { return p->form->bias && p->s.m % 2; }

/* Terms k .. k + 1, the second first. */
static double add_pair(const product_case *p, const double *a, const double *b, double sum) {
  return fma_of(p->form->dtype, a[0], b[0], fma_of(p->form->dtype, a[1], b[1], sum));
}

/* A chunk of terms as AMX adds them. */
static double add_tile(const product_case *p, const double *a, const double *b, int64_t terms, double sum) {
  double part[2] = {0, 0};
  for (int i = 0; i < terms; i++) part[i % 2] = fma_of(p->form->dtype, a[i], b[i], part[i % 2]);
  return sum_of(p->form->dtype, sum, sum_of(p->form->dtype, part[0], part[1]));
}

/* True if AMX adds two blocks that are neighbours, which makes zero of a subnormal sum. */
static bool adds_blocks_by_tiles(const product_case *p) {
  return p->kernels->height == MSC_TILE_HEIGHT && p->form->dtype == MSC_BF16 &&
         msc_product_chunks(p->s.k / p->s.blocks) == 1;
}

/* One of three parts of x, which are numbers of bf16 whose sum x is. */
static double part_of(double x, int part) {
  for (int i = 0; i < part; i++) x -= part_of(x, 0);
  uint16_t nearest = 0;
  msc_store(MSC_BF16, &nearest, 0, (msc_scalar){.f = x});
  return msc_load(MSC_BF16, &nearest, 0).f;
}

/* A chunk of terms of f32: the six greatest products of their parts, the greatest last. */
static double add_parts(const product_case *p, const double *a, const double *b, int64_t terms, double sum) {
  static const int of_a[] = {2, 1, 1, 0, 0, 0}, of_b[] = {0, 0, 1, 1, 2, 0};
  for (int i = 0; i < 6; i++) {
    double x[32], y[32];
    for (int64_t l = 0; l < terms; l++) x[l] = part_of(a[l], of_a[i]), y[l] = part_of(b[l], of_b[i]);
    sum = add_tile(p, x, y, terms, sum);
  }
  return sum;
}

static int packing_of(const product_case *p) {
  return msc_product_packing(msc_dtype_bytes(p->form->dtype), p->kernels->pairs);
}

static double term_sum(const product_case *p, int64_t i, int64_t j, int64_t first, int64_t blocks) {
  const product_form *f = p->form;
  int64_t block = p->s.k / p->s.blocks;
  double sum = 0;
  if (blocks > 1) {
    sum = sum_of(f->dtype, term_sum(p, i, j, first, blocks / 2), term_sum(p, i, j, first + blocks / 2, blocks / 2));
    return blocks == 2 && adds_blocks_by_tiles(p) && fabs(sum) < FLT_MIN ? 0 : sum;
  }
  int64_t together = p->kernels->height == MSC_TILE_HEIGHT ? 2 * msc_product_chunk(block) : p->kernels->pairs ? 2 : 1;
  for (int64_t at = first * block; at < (first + 1) * block; at += together) {
    double a[32], b[32];
    for (int64_t l = 0; l < together; l++) {
      int64_t k = at + l;
      a[l] = b[l] = 0;
      if (k >= (first + 1) * block) continue;
      a[l] = p->rows[i * p->s.k + k], b[l] = p->columns[j * p->s.k + k];
    }
    sum = packing_of(p) == MSC_PACKED_PARTS       ? add_parts(p, a, b, together, sum)
          : p->kernels->height == MSC_TILE_HEIGHT ? add_tile(p, a, b, together, sum)
          : together == 2                         ? add_pair(p, a, b, sum)
                                                  : fma_of(f->dtype, a[0], b[0], sum);
  }
  return sum;
}

static double expected(const product_case *p, int64_t i, int64_t j) {
  double y = term_sum(p, i, j, 0, p->s.blocks);
  if (p->form->bias) y = sum_of(p->form->dtype, y, msc_tensor_get(&p->bias, adds_to_result(p) ? i * p->s.n + j : j));
  y = p->form->relu && y < 0 ? 0 : y;
  if (!(p->traits & MSC_PRODUCT_ROUNDS)) return y;
  uint16_t rounded = 0;
  msc_store(p->form->dtype, &rounded, 0, (msc_scalar){.f = y});
  return msc_load(p->form->dtype, &rounded, 0).f;
}

static msc_tensor operand(kernel_run *k, msc_dtype d, int64_t elems, fenced *out_memory) {
  *out_memory = fenced_new((size_t)(elems * msc_dtype_bytes(d)));
  msc_tensor t = {.type = msc_type_of(k->ctx, d, 1, &elems, NULL), .data = out_memory->data};
  fill(k, &t, -1, 1);
  return t;
}

/* In tiles, as the runtime does: columns from panel boundaries on, rows anywhere. All columns of a b that few rows meet
 * in place are one tile. */
static void multiply(kernel_run *run, const product_case *p, const msc_product_kernels *kernels) {
  const product_form *f = p->form;
  const sizes *s = &p->s;
  int64_t units = msc_product_units(s->k, s->blocks, packing_of(p));
  bool filled = msc_product_is_filled(s->k, s->blocks, packing_of(p));
  int64_t operand_bytes = msc_dtype_bytes(f->dtype), bytes = msc_dtype_bytes(sum_dtype(f->dtype)),
          result_bytes = msc_dtype_bytes(result_dtype(p)), tile_m = 2 * kernels->height + 1;
  bool lies = !f->transpose_b && operand_bytes >= 4 && !kernels->pairs && s->n % kernels->width == 0 &&
              (s->m % 2 == 0 || s->m == 1);
  int64_t tile_n = lies && s->m <= MSC_PRODUCT_STREAM_ROWS ? s->n : 3 * kernels->width;
  int64_t most_n = s->n < tile_n ? s->n : tile_n, most_m = s->m < tile_m ? s->m : tile_m;
  fenced panels = fenced_new(
      (size_t)((filled ? msc_product_filled_panel_elems : msc_product_panel_elems)(most_n, units, kernels->width) *
               bytes));
  bool packed = msc_product_packs_rows(operand_bytes, f->transpose_a, packing_of(p), filled);
  fenced room = fenced_new(packed ? (size_t)(msc_product_room_elems(most_m, units) * bytes) : 0);
  kernel_fn *pack = (kernel_fn *)(void *)(run->memory + run->code.kernel[kernels->pack].entry),
            *go = (kernel_fn *)(void *)(run->memory + run->code.kernel[kernels->multiply].entry);
  for (int64_t j = 0; j < s->n; j += tile_n) {
    int64_t columns = s->n - j < tile_n ? s->n - j : tile_n;
    int64_t pack_dims[4] = {columns, s->k, f->transpose_b ? s->k : s->n, s->blocks};
    void *pack_buffers[2] = {(char *)p->b.data + j * operand_bytes * (f->transpose_b ? s->k : 1), panels.data};
    pack(pack_buffers, 0, (columns + kernels->width - 1) / kernels->width, pack_dims, NULL);
    int64_t dims[10] = {columns,
                        s->k,
                        f->transpose_a ? s->m : s->k,
                        s->n,
                        s->blocks,
                        f->transpose_a,
                        f->relu,
                        adds_to_result(p) ? s->n : 0,
                        lies ? s->n : 0,
                        p->traits};
    void *buffers[5] = {p->a.data, lies ? pack_buffers[0] : panels.data, (char *)p->c.data + j * result_bytes,
                        room.data, f->bias ? (char *)(adds_to_result(p) ? p->c.data : p->bias.data) + j * bytes : NULL};
    for (int64_t i = 0; i < s->m; i += tile_m) go(buffers, i, i + tile_m < s->m ? i + tile_m : s->m, dims, NULL);
  }
  fenced_free(&panels);
  fenced_free(&room);
}

/* Lines of k elements each of an operand: rows of a, or columns of b. `across`: they lie across the operand's own. */
static double *lines_of(const msc_tensor *t, int64_t num, int64_t k, bool across) {
  double *line = calloc((size_t)(num * k) + 1, sizeof *line);
  for (int64_t i = 0; i < num; i++)
    for (int64_t l = 0; l < k; l++) line[i * k + l] = msc_tensor_get(t, across ? l * num + i : i * k + l);
  return line;
}

static void compare(const product_case *given) {
  product_case with_lines = *given, *p = &with_lines;
  const product_form *f = p->form;
  const sizes *s = &p->s;
  p->rows = lines_of(&p->a, s->m, s->k, f->transpose_a), p->columns = lines_of(&p->b, s->n, s->k, !f->transpose_b);
  for (int64_t i = 0; i < s->m; i++)
    for (int64_t j = 0; j < s->n; j++) {
      double want = expected(p, i, j), got = msc_tensor_get(&p->c, i * s->n + j);
      if (memcmp(&want, &got, sizeof got) && !(want == 0 && got == 0))
        fail_msg("%s %d%d%d%d %dx%dx%d in %d blocks, traits %d: element %d,%d is %.9g, expected %.9g",
                 msc_dtype_name(f->dtype), f->transpose_a, f->transpose_b, f->bias, f->relu, (int)s->m, (int)s->n,
                 (int)s->k, (int)s->blocks, p->traits, (int)i, (int)j, got, want);
    }
  free(p->rows), free(p->columns);
}

static void check_size(kernel_run *run, const product_form *f, const msc_product_kernels *kernels, sizes s,
                       int traits) {
  fenced memory[4];
  product_case p = {.form = f,
                    .kernels = kernels,
                    .s = s,
                    .traits = traits,
                    .a = operand(run, f->dtype, s.m * s.k, &memory[0]),
                    .b = operand(run, f->dtype, s.k * s.n, &memory[1])};
  p.bias = operand(run, sum_dtype(f->dtype), adds_to_result(&p) ? s.m * s.n : s.n, &memory[2]),
  p.c = operand(run, result_dtype(&p), s.m * s.n, &memory[3]);
  if (adds_to_result(&p)) memcpy(p.c.data, p.bias.data, (size_t)(s.m * s.n * msc_dtype_bytes(sum_dtype(f->dtype))));
  multiply(run, &p, kernels);
  compare(&p);
  for (int i = 0; i < 4; i++) fenced_free(&memory[i]);
}

static const sizes chosen[] = {
    {1, 1, 1, 1},      {1, 1, 0, 1},       {6, 16, 8, 8},    {7, 17, 16, 4},    {32, 10, 64, 8},  {5, 16, 0, 1},
    {13, 97, 32, 8},   {31, 64, 98, 2},    {70, 33, 64, 64}, {12, 32, 128, 32}, {9, 50, 40, 8},   {37, 40, 1024, 32},
    {21, 33, 576, 16}, {35, 65, 140, 2},   {19, 32, 132, 4}, {1400, 24, 12, 4}, {1, 5, 32, 1},    {33, 70, 96, 1},
    {65, 64, 256, 8},  {48, 31, 1024, 16}, {32, 64, 192, 2}, {12, 96, 64, 8},   {48, 32, 60, 4},  {34, 33, 512, 4},
    {33, 34, 592, 8},  {20, 40, 384, 8},   {18, 35, 36, 1},  {37, 66, 1000, 8}, {33, 40, 555, 1}, {40, 33, 700, 4},
    {5, 70, 1376, 8},  {64, 65, 40, 8},    {9, 33, 24, 8},   {19, 70, 16, 8},   {38, 33, 8, 8},   {400, 96, 16, 8},
    {25, 40, 64, 16},  {26, 37, 96, 16},   {22, 34, 48, 8},  {29, 48, 192, 32},
    {2, 2112, 36, 4},  {1, 1088, 68, 4},   {2, 128, 22, 2},  {1, 64, 24, 8}};

enum { RANDOM = 6, SIZES = sizeof chosen / sizeof *chosen + RANDOM };

static void check_products(int vector_bytes) {
  static const msc_dtype dtypes[] = {MSC_F32, MSC_F64, MSC_F16, MSC_BF16};
  kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu, .vector_bytes = vector_bytes});
  product_form form[FORMS];
  sizes s[FORMS][SIZES];
  msc_product_kernels kernels[FORMS][SIZES];
  for (int i = 0; i < FORMS; i++) {
    form[i] = (product_form){
        .dtype = dtypes[i / 8], .transpose_a = i & 1, .transpose_b = i & 2, .bias = i & 4, .relu = i % 3 == 0};
    for (int c = 0; c < SIZES; c++) {
      s[i][c] = (sizes){1 + (int64_t)(70 * random_number(run)), 1 + (int64_t)(70 * random_number(run)), 0,
                        (int64_t)1 << (int)(4 * random_number(run))};
      s[i][c].k = s[i][c].blocks * (9 + (int64_t)(20 * random_number(run)));
      if (c >= RANDOM) s[i][c] = chosen[c - RANDOM];
      /* no fused multiply-add here */
      if (!msc_codegen_product(run->cg, form[i].dtype, form[i].transpose_b, s[i][c].k / s[i][c].blocks, &kernels[i][c]))
        skip();
    }
  }
  kernels_finish(run);
  for (int i = 0; i < FORMS; i++)
    for (int c = 0; c < 2 * SIZES; c++) {
      check_size(run, &form[i], &kernels[i][c / 2], s[i][c / 2],
                 c % 2   ? MSC_PRODUCT_STORES_WHOLE
                 : c % 4 ? MSC_PRODUCT_FETCHES_ROWS
                         : 0);
      if (c % 2 && !form[i].bias && msc_dtype_bytes(form[i].dtype) < 4)
        check_size(run, &form[i], &kernels[i][c / 2], s[i][c / 2], MSC_PRODUCT_ROUNDS);
    }
  kernels_free(run);
}

/* Sums of blocks whose difference is subnormal in some columns, and in no others. */
static void check_subnormal_sums(int vector_bytes, int64_t block) {
  static const product_form form = {.dtype = MSC_BF16};
  const sizes s = {13, 97, 2 * block, 2};
  kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu, .vector_bytes = vector_bytes});
  msc_product_kernels kernels;
  fenced memory[3];
  if (!msc_codegen_product(run->cg, form.dtype, false, s.k / s.blocks, &kernels)) skip();
  kernels_finish(run);
  product_case p = {.form = &form,
                    .kernels = &kernels,
                    .s = s,
                    .traits = MSC_PRODUCT_ROUNDS,
                    .a = operand(run, form.dtype, s.m * s.k, &memory[0]),
                    .b = operand(run, form.dtype, s.k * s.n, &memory[1]),
                    .c = operand(run, form.dtype, s.m * s.n, &memory[2])};
  for (int64_t i = 0; i < s.m; i++)
    for (int64_t k = 0; k < s.k; k++) msc_tensor_set(&p.a, i * s.k + k, k % block ? 0 : 0x1p-63);
  for (int64_t j = 0; j < s.n; j++) {
    double apart = j % 40 == 7 ? 1.25 : -1.25;
    for (int64_t k = 0; k < s.k; k++)
      msc_tensor_set(&p.b, k * s.n + j, k % block ? 0 : k ? -0x1p-63 * apart : 0x1.8p-63);
  }
  multiply(run, &p, &kernels);
  compare(&p);
  assert_true(msc_tensor_get(&p.c, 7) == (adds_blocks_by_tiles(&p) ? 0 : 0x1p-128));
  for (int i = 0; i < 3; i++) fenced_free(&memory[i]);
  kernels_free(run);
}

static void test_subnormal_sums(void **state) {
  (void)state;
  for (int64_t block = 2; block <= 64; block *= 8)
    for (int bytes = 8; bytes <= 64; bytes *= 2) check_subnormal_sums(bytes < 16 ? 0 : bytes, block);
}

/* Products of f32 by tiles of bf16. */
static void test_parts(void **state) {
  (void)state;
  enum { PART_FORMS = 8 };
  kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu});
  msc_product_kernels kernels[2];
  for (int i = 0; i < 2; i++)
    if (!msc_codegen_product_of_parts(run->cg, i, &kernels[i])) {
      print_message("no AMX here: products in parts are not tested\n");
      skip();
    }
  kernels_finish(run);
  for (int i = 0; i < PART_FORMS; i++) {
    product_form form = {
        .dtype = MSC_F32, .transpose_a = i & 1, .transpose_b = i & 2, .bias = i & 4, .relu = i % 3 == 0};
    for (int c = 0; c < SIZES - RANDOM; c++) check_size(run, &form, &kernels[form.transpose_b], chosen[c], 0);
  }
  kernels_free(run);
}

/* A number of f32 times one: the same, but for digits below 2^-126, and no infinity. */
static void test_all_digits(void **state) {
  (void)state;
  static const product_form form = {.dtype = MSC_F32};
  static const float number[] = {FLT_MAX,
                                 -FLT_MAX,
                                 0x1.fffffep-90f,
                                 0x1.555556p0f,
                                 -0x1.aaaaaap33f,
                                 0x1.000002p0f,
                                 0x1.00fffep7f,
                                 0x1.017ffep7f,
                                 0,
                                 INFINITY,
                                 NAN};
  enum { NUM = sizeof number / sizeof *number };
  const sizes s = {NUM, 32, 32, 1};
  kernel_run *run = kernels_new_for(&(msc_code_target){.target = &msc_target_cpu});
  msc_product_kernels kernels;
  fenced memory[3];
  if (!msc_codegen_product_of_parts(run->cg, false, &kernels)) skip();
  kernels_finish(run);
  product_case p = {.form = &form,
                    .kernels = &kernels,
                    .s = s,
                    .a = operand(run, MSC_F32, s.m * s.k, &memory[0]),
                    .b = operand(run, MSC_F32, s.k * s.n, &memory[1]),
                    .c = operand(run, MSC_F32, s.m * s.n, &memory[2])};
  for (int64_t i = 0; i < s.m * s.k; i++) msc_tensor_set(&p.a, i, i % s.k == i / s.k ? number[i / s.k] : 0);
  for (int64_t i = 0; i < s.k * s.n; i++) msc_tensor_set(&p.b, i, i % s.n == i / s.n);
  multiply(run, &p, &kernels);
  for (int64_t i = 0; i < NUM; i++) {
    double got = msc_tensor_get(&p.c, i * s.n + i);
    if (isfinite(number[i])) assert_true(got == number[i]);
    else assert_true(isnan(got));
  }
  for (int i = 0; i < 3; i++) fenced_free(&memory[i]);
  kernels_free(run);
}

static void test_products(void **state) {
  (void)state;
  for (int bytes = 16; bytes <= 64; bytes *= 2) check_products(bytes);
}

/* As made when msc was built. */
static void test_products_of_this_machine(void **state) {
  (void)state;
  check_products(0);
}

/* Code for a CPU that this machine need not be. */
static void test_wide(void **state) {
  (void)state;
  kernel_run *run = kernels_new("x86-64-v4");
  msc_product_kernels kernels;
  assert_true(msc_codegen_product(run->cg, MSC_F32, false, 1, &kernels));
  assert_true(msc_codegen_product(run->cg, MSC_F64, true, 1, &kernels));
  assert_int_equal(kernels.width, 16);
  assert_int_equal(kernels.height, 12);
  msc_machine_code code;
  assert_true(msc_codegen_finish(run->cg, &code));
  assert_int_equal(code.num_kernels, 4);
  msc_context_free(run->ctx);
}

/* What msc carries along is what it would make now. */
static void test_made_before(void **state) {
  (void)state;
  static const msc_dtype dtypes[] = {MSC_F32, MSC_F64, MSC_F16, MSC_BF16};
  msc_context *ctx = msc_context_new(NULL, NULL);
  for (int level = 3; level <= 4; level++)
    for (int part = 0; part < MSC_NUM_PRODUCT_PARTS; part++)
      for (int d = 0; d < 4; d++) {
        if (!msc_product_has(level, (msc_product_part)part, dtypes[d])) continue;
        msc_object before = msc_product_object(level, (msc_product_part)part, dtypes[d]);
        LLVMMemoryBufferRef now = msc_product_assemble(ctx, level, (msc_product_part)part, dtypes[d]);
        assert_int_equal(before.bytes, LLVMGetBufferSize(now));
        assert_memory_equal(before.elf, LLVMGetBufferStart(now), before.bytes);
        LLVMDisposeMemoryBuffer(now);
      }
  assert_null(msc_product_object(2, MSC_PACK, MSC_F32).elf);
  msc_context_free(ctx);
}

static void test_old(void **state) {
  (void)state;
  kernel_run *run = kernels_new("x86-64-v2");
  msc_product_kernels kernels;
  assert_false(msc_codegen_product(run->cg, MSC_F32, false, 1, &kernels));
  msc_codegen_abandon(run->cg);
  msc_context_free(run->ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products),       cmocka_unit_test(test_products_of_this_machine),
      cmocka_unit_test(test_subnormal_sums), cmocka_unit_test(test_wide),
      cmocka_unit_test(test_parts),          cmocka_unit_test(test_all_digits),
      cmocka_unit_test(test_made_before),    cmocka_unit_test(test_old)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
