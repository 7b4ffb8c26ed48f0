/* regions.c: compares regions of several ops as one kernel with the interpreter, and checks which regions are
 * refused, and why. */
#include "tests/codegen/kernels.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* "ARGS | OPS | RESULTS" -> a module: arguments "%a: tensor<3xf32>", ops one per line, results "%x : type". */
static const char *module_text(kernel_run *k, const char *args, const char *ops, const char *results,
                               const char *types) {
  return msc_arena_printf(msc_context_arena(k->ctx),
                          "\"builtin.module\"() ({\n  \"msc.func\"() ({\n  ^bb0(%s):\n%s\n    \"msc.return\"(%s) : "
                          "(%s) -> ()\n  }) {sym_name = \"f\"} : () -> ()\n}) : () -> ()\n",
                          args, ops, results, types);
}

typedef struct {
  const char *args, *ops, *results, *types;
  msc_nest_kind kind;
  double low, high;
} region_case;

#define BIN(op, y, a, b, ta, tb, ty) \
  "    %" #y " = \"msc." #op "\"(%" #a ", %" #b ") : (tensor<" #ta ">, tensor<" #tb ">) -> tensor<" #ty ">\n"
#define UN(op, y, a, ta, ty) "    %" #y " = \"msc." #op "\"(%" #a ") : (tensor<" #ta ">) -> tensor<" #ty ">\n"
#define UNA(op, y, a, attrs, ta, ty) \
  "    %" #y " = \"msc." #op "\"(%" #a ") {" attrs "} : (tensor<" #ta ">) -> tensor<" #ty ">\n"
#define CONST(y, v, ty) \
  "    %" #y " = \"msc.constant\"() {value = dense<" #v "> : tensor<" #ty ">} : () -> tensor<" #ty ">\n"

static const region_case regions[] = {
    /* bias and relu */
    {"%x: tensor<9x40xf32>, %b: tensor<40xf32>",
     BIN(add, y, x, b, 9x40xf32, 40xf32, 9x40xf32) UN(relu, z, y, 9x40xf32, 9x40xf32), "%z", "tensor<9x40xf32>",
     MSC_NEST_MAP, -2, 2},
    /* both the sum and its relu leave */
    {"%x: tensor<9x5xf64>, %b: tensor<5xf64>",
     BIN(add, y, x, b, 9x5xf64, 5xf64, 9x5xf64) UN(relu, z, y, 9x5xf64, 9x5xf64), "%z, %y",
     "tensor<9x5xf64>, tensor<9x5xf64>", MSC_NEST_MAP, -2, 2},
    /* gradient behind a relu, and the bias gradient */
    {"%g: tensor<70x40xf32>, %y: tensor<70x40xf32>",
     CONST(o, 0.0, f32) "    %m = \"msc.compare\"(%y, %o) {predicate = \"gt\"} : (tensor<70x40xf32>, tensor<f32>) -> "
                        "tensor<70x40xi1>\n"
                        "    %d = \"msc.select\"(%m, %g, %o) : (tensor<70x40xi1>, tensor<70x40xf32>, tensor<f32>) -> "
                        "tensor<70x40xf32>\n" UNA(reduce_sum, s, d, "dims = [0]", 70x40xf32, 40xf32),
     "%d, %s", "tensor<70x40xf32>, tensor<40xf32>", MSC_NEST_COLUMN, -2, 2},
    /* layer norm with scale and shift */
    {"%x: tensor<7x100xf32>, %w: tensor<100xf32>, %b: tensor<100xf32>",
     UNA(reduce_mean, m, x, "dims = [1], keep_dims = true", 7x100xf32, 7x1xf32)
         BIN(sub, c, x, m, 7x100xf32, 7x1xf32, 7x100xf32) BIN(mul, q, c, c, 7x100xf32, 7x100xf32, 7x100xf32)
             UNA(reduce_mean, v, q, "dims = [1], keep_dims = true", 7x100xf32, 7x1xf32) CONST(e, 0.00001, f32)
                 BIN(add, ve, v, e, 7x1xf32, f32, 7x1xf32) UN(rsqrt, r, ve, 7x1xf32, 7x1xf32)
                     BIN(mul, n, c, r, 7x100xf32, 7x1xf32, 7x100xf32) BIN(mul, nw, n, w, 7x100xf32, 100xf32, 7x100xf32)
                         BIN(add, y, nw, b, 7x100xf32, 100xf32, 7x100xf32),
     "%y, %m, %r", "tensor<7x100xf32>, tensor<7x1xf32>, tensor<7x1xf32>", MSC_NEST_ROW, -2, 2},
    /* centred columns: the mean over rows is broadcast back over them */
    {"%x: tensor<33x20xf32>",
     UNA(reduce_mean, m, x, "dims = [0]", 33x20xf32, 20xf32) BIN(sub, y, x, m, 33x20xf32, 20xf32, 33x20xf32), "%y",
     "tensor<33x20xf32>", MSC_NEST_COLUMN, -2, 2},
    /* long columns: of a GPU each phase has launches of its own, and the second loads the sum that the first stored */
    {"%a: tensor<8192x24xf32>, %b: tensor<8192x24xf32>",
     BIN(add, g, a, b, 8192x24xf32, 8192x24xf32, 8192x24xf32) UNA(reduce_mean, m, g, "dims = [0]", 8192x24xf32, 24xf32)
         BIN(sub, y, g, m, 8192x24xf32, 24xf32, 8192x24xf32),
     "%y, %g", "tensor<8192x24xf32>, tensor<8192x24xf32>", MSC_NEST_COLUMN, -2, 2},
    /* of bf16, where the first result is rounded */
    {"%a: tensor<8192x24xbf16>, %b: tensor<8192x24xbf16>",
     BIN(add, g, a, b, 8192x24xbf16, 8192x24xbf16, 8192x24xbf16)
         UNA(cast, w, g, "dtype = \"f32\"", 8192x24xbf16, 8192x24xf32)
             UNA(reduce_mean, m, w, "dims = [0]", 8192x24xf32, 24xf32)
                 BIN(sub, y, w, m, 8192x24xf32, 24xf32, 8192x24xf32),
     "%y, %g", "tensor<8192x24xf32>, tensor<8192x24xbf16>", MSC_NEST_COLUMN, -2, 2},
    /* a loss and its gradient in one go */
    {"%a: tensor<12x10xf32>, %b: tensor<10xf32>, %l: tensor<12xi32>",
     BIN(add, x, a, b, 12x10xf32, 10xf32, 12x10xf32) CONST(one, 1.0, f32)
         BIN(softmax_cross_entropy, loss, x, l, 12x10xf32, 12xi32,
             f32) "    %g = \"msc.softmax_cross_entropy_grad\"(%x, %l, %one) : (tensor<12x10xf32>, tensor<12xi32>, "
                  "tensor<f32>) -> "
                  "tensor<12x10xf32>\n",
     "%loss, %g", "tensor<f32>, tensor<12x10xf32>", MSC_NEST_ROW, 0, 9},
    /* masked and scaled softmax */
    {"%x: tensor<2x3x50xf32>, %m: tensor<3x50xi1>",
     CONST(s, 0.125, f32) CONST(low, -1.0e9, f32) BIN(
         mul, y, x, s, 2x3x50xf32, f32,
         2x3x50xf32) "    %z = \"msc.select\"(%m, %y, %low) : (tensor<3x50xi1>, tensor<2x3x50xf32>, tensor<f32>) -> "
                     "tensor<2x3x50xf32>\n" UN(softmax, p, z, 2x3x50xf32, 2x3x50xf32),
     "%p", "tensor<2x3x50xf32>", MSC_NEST_ROW, -9, 9},
    /* two sums of one pass, and what follows from both */
    {"%x: tensor<5x300xf64>, %y: tensor<5x300xf64>",
     BIN(mul, p, x, y, 5x300xf64, 5x300xf64, 5x300xf64) UNA(reduce_sum, a, p, "dims = [1]", 5x300xf64, 5xf64)
         UNA(reduce_max, b, x, "dims = [1]", 5x300xf64, 5xf64) BIN(sub, d, a, b, 5xf64, 5xf64, 5xf64),
     "%d, %a", "tensor<5xf64>, tensor<5xf64>", MSC_NEST_ROW, -2, 2},
    /* a sum of sums */
    {"%x: tensor<5x30xf32>, %w: tensor<5xf32>",
     UN(exp, e, x, 5x30xf32, 5x30xf32) UNA(reduce_sum, a, e, "dims = [1]", 5x30xf32, 5xf32) UN(log, l, a, 5xf32, 5xf32)
         BIN(mul, lw, l, w, 5xf32, 5xf32, 5xf32) UNA(reduce_sum, s, lw, "dims = [0]", 5xf32, f32)
             UN(sqrt, r, s, f32, f32),
     "%r, %l", "tensor<f32>, tensor<5xf32>", MSC_NEST_ROW, 0, 2},
    /* moved operands */
    {"%x: tensor<6x9xf32>, %y: tensor<9x6xf32>",
     UN(exp, e, x, 6x9xf32, 6x9xf32) UNA(transpose, t, e, "perm = [1, 0]", 6x9xf32, 9x6xf32)
         BIN(add, z, t, y, 9x6xf32, 9x6xf32, 9x6xf32),
     "%z", "tensor<9x6xf32>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<21x37xf32>, %y: tensor<37x21xf32>, %b: tensor<21xf32>",
     UN(exp, e, x, 21x37xf32, 21x37xf32) UNA(transpose, t, e, "perm = [1, 0]", 21x37xf32, 37x21xf32)
         BIN(add, u, t, y, 37x21xf32, 37x21xf32, 37x21xf32) BIN(mul, z, u, b, 37x21xf32, 21xf32, 37x21xf32),
     "%z, %u", "tensor<37x21xf32>, tensor<37x21xf32>", MSC_NEST_TRANSPOSE, -2, 2},
    {"%x: tensor<6x6xf32>",
     UN(exp, e, x, 6x6xf32, 6x6xf32) UNA(transpose, t, e, "perm = [1, 0]", 6x6xf32, 6x6xf32)
         BIN(add, z, t, e, 6x6xf32, 6x6xf32, 6x6xf32),
     "%z", "tensor<6x6xf32>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<5x20xf32>",
     UN(exp, e, x, 5x20xf32, 5x20xf32) UNA(slice, a, e, "start = [1, 3], limit = [4, 20]", 5x20xf32, 3x17xf32)
         UNA(slice, b, e, "start = [0, 0], limit = [5, 17], stride = [2, 1]", 5x20xf32, 3x17xf32)
             BIN(sub, z, a, b, 3x17xf32, 3x17xf32, 3x17xf32),
     "%z", "tensor<3x17xf32>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<5x20xbf16>, %y: tensor<5x3xbf16>",
     UN(neg, e, x, 5x20xbf16,
        5x20xbf16) "    %c = \"msc.concat\"(%e, %y) {dim = 1 : i64} : (tensor<5x20xbf16>, tensor<5x3xbf16>) -> "
                   "tensor<5x23xbf16>\n" UN(abs, z, c, 5x23xbf16, 5x23xbf16),
     "%z, %c", "tensor<5x23xbf16>, tensor<5x23xbf16>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<5x20xf32>, %y: tensor<3x20xf32>",
     UN(exp, e, x, 5x20xf32, 5x20xf32) "    %c = \"msc.concat\"(%e, %y) {dim = 0 : i64} : (tensor<5x20xf32>, "
                                       "tensor<3x20xf32>) -> tensor<8x20xf32>\n" UNA(reduce_sum, s, c, "dims = [1]",
                                                                                     8x20xf32, 8xf32),
     "%s", "tensor<8xf32>", MSC_NEST_ROW, -2, 2},
    /* parts of a split, each with a use of its own */
    {"%x: tensor<4x12xf32>",
     UN(exp, e, x, 4x12xf32,
        4x12xf32) "    %s:2 = \"msc.split\"(%e) {dim = 1 : i64, sizes = [6, 6]} : "
                  "(tensor<4x12xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>)\n"
                  "    %z = \"msc.mul\"(%s#0, %s#1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>\n",
     "%z", "tensor<4x6xf32>", MSC_NEST_MAP, -2, 2},
    /* softmax read twice, by log and by mul; their product is summed along the row */
    {"%x: tensor<8x8xf32>",
     UN(softmax, p, x, 8x8xf32, 8x8xf32) UN(log, l, p, 8x8xf32, 8x8xf32) BIN(mul, e, p, l, 8x8xf32, 8x8xf32, 8x8xf32)
         UNA(reduce_sum, s, e, "dims = [1]", 8x8xf32, 8xf32),
     "%s, %p", "tensor<8xf32>, tensor<8x8xf32>", MSC_NEST_ROW, -2, 2},
    {"%x: tensor<4x6xf32>",
     UN(exp, e, x, 4x6xf32, 4x6xf32) UNA(pad, p, e, "low = [1, 2], high = [0, 1]", 4x6xf32, 5x9xf32)
         UN(neg, z, p, 5x9xf32, 5x9xf32),
     "%z", "tensor<5x9xf32>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<6x8xf32>, %y: tensor<2x3x8xf32>",
     UN(exp, e, x, 6x8xf32, 6x8xf32) UNA(reshape, r, e, "shape = [2, 3, 8]", 6x8xf32, 2x3x8xf32)
         BIN(add, z, r, y, 2x3x8xf32, 2x3x8xf32, 2x3x8xf32),
     "%z", "tensor<2x3x8xf32>", MSC_NEST_MAP, -2, 2},
    {"%x: tensor<30x8xf32>, %i: tensor<12xi32>",
     UN(exp, e, x, 30x8xf32, 30x8xf32) BIN(gather, g, e, i, 30x8xf32, 12xi32, 12x8xf32)
         UN(neg, z, g, 12x8xf32, 12x8xf32),
     "%z", "tensor<12x8xf32>", MSC_NEST_MAP, 0, 3},
    /* gather, scaled, normed: embedding and its norm */
    {"%x: tensor<30x48xf32>, %i: tensor<12xi64>",
     BIN(gather, g, x, i, 30x48xf32, 12xi64, 12x48xf32) BIN(mul, q, g, g, 12x48xf32, 12x48xf32, 12x48xf32)
         UNA(reduce_sum, s, q, "dims = [1]", 12x48xf32, 12xf32),
     "%s, %g", "tensor<12xf32>, tensor<12x48xf32>", MSC_NEST_ROW, 0, 3},
    {"%i: tensor<20xi32>, %g: tensor<20x48xf32>",
     CONST(c, 0.5, f32) BIN(
         mul, h, g, c, 20x48xf32, f32,
         20x48xf32) "    %z = \"msc.scatter_add\"(%i, %h) {rows = 9 : i64} : (tensor<20xi32>, tensor<20x48xf32>) -> "
                    "tensor<9x48xf32>\n",
     "%z", "tensor<9x48xf32>", MSC_NEST_SCATTER, 0, 9},
    /* along the lanes all that is loaded is the same */
    {"%x: tensor<1x1x1xf32>",
     UNA(pad, p, x, "low = [1, 1, 2], high = [2, 0, 0]", 1x1x1xf32, 4x2x3xf32)
         UNA(reduce_sum, s, p, "dims = [0, 2], keep_dims = true", 4x2x3xf32, 1x2x1xf32),
     "%s", "tensor<1x2x1xf32>", MSC_NEST_ROW, -2, 2},
    /* the sum of a row is wanted in a part of it: it is of the whole row all the same */
    {"%x: tensor<5x20xf32>",
     BIN(mul, q, x, x, 5x20xf32, 5x20xf32, 5x20xf32)
         UNA(reduce_sum, s, x, "dims = [1], keep_dims = true", 5x20xf32, 5x1xf32)
             UNA(pad, p, s, "low = [0, 3], high = [0, 16]", 5x1xf32, 5x20xf32)
                 BIN(add, z, q, p, 5x20xf32, 5x20xf32, 5x20xf32),
     "%z", "tensor<5x20xf32>", MSC_NEST_ROW, -2, 2},
    /* the two halves of x - max(x) are swapped and multiplied by the unswapped row */
    {"%x: tensor<5x20xf32>",
     UNA(reduce_max, m, x, "dims = [1], keep_dims = true", 5x20xf32, 5x1xf32)
         BIN(sub, y, x, m, 5x20xf32, 5x1xf32, 5x20xf32)
             UNA(slice, a, y, "start = [0, 0], limit = [5, 10]", 5x20xf32, 5x10xf32)
                 UNA(slice, b, y, "start = [0, 10], limit = [5, 20]", 5x20xf32,
                     5x10xf32) "    %r = \"msc.concat\"(%b, %a) {dim = 1 : i64} : (tensor<5x10xf32>, tensor<5x10xf32>) "
                               "-> tensor<5x20xf32>\n" BIN(mul, z, y, r, 5x20xf32, 5x20xf32, 5x20xf32),
     "%z", "tensor<5x20xf32>", MSC_NEST_ROW, -2, 2},
    {"%x: tensor<5x20xf32>",
     UN(softmax, y, x, 5x20xf32, 5x20xf32) UNA(slice, a, y, "start = [0, 0], limit = [5, 3]", 5x20xf32, 5x3xf32)
         UNA(slice, b, y, "start = [0, 3], limit = [5, 20]", 5x20xf32,
             5x17xf32) "    %r = \"msc.concat\"(%b, %a) {dim = 1 : i64} : (tensor<5x17xf32>, tensor<5x3xf32>) -> "
                       "tensor<5x20xf32>\n" BIN(sub, z, y, r, 5x20xf32, 5x20xf32, 5x20xf32),
     "%z", "tensor<5x20xf32>", MSC_NEST_ROW, -2, 2},
    /* losses of rows in a part of a larger tensor */
    {"%x: tensor<9x20xf32>, %p: tensor<9x20xf32>, %y: tensor<9x20xf32>",
     "    %l = \"msc.softmax_cross_entropy\"(%x, %p) {reduction = \"none\"} : "
     "(tensor<9x20xf32>, tensor<9x20xf32>) -> tensor<9xf32>\n" UNA(reshape, c, l, "shape = [9, 1]", 9xf32, 9x1xf32) UNA(
         pad, q, c, "low = [0, 7], high = [0, 12]", 9x1xf32, 9x20xf32) BIN(add, z, q, y, 9x20xf32, 9x20xf32, 9x20xf32),
     "%z", "tensor<9x20xf32>", MSC_NEST_COLUMN, -2, 2},
    /* an update of a gradient that is made here */
    {"%w: tensor<37xf32>, %m: tensor<37xf32>, %g: tensor<37xf32>",
     CONST(c, 0.25, f32) BIN(
         mul, h, g, c, 37xf32, f32,
         37xf32) "    %u:2 = \"msc.momentum\"(%w, %m, %h) {lr = 0.1 : f32, momentum = 0.9 : f32} : (tensor<37xf32>, "
                 "tensor<37xf32>, tensor<37xf32>) -> (tensor<37xf32>, tensor<37xf32>)\n",
     "%u#0, %u#1", "tensor<37xf32>, tensor<37xf32>", MSC_NEST_MAP, -2, 2},
    /* updates side by side, of gradients that are rows of one */
    {"%v: tensor<36xf32>, %w: tensor<36xf32>, %m: tensor<36xf32>, %n: tensor<36xf32>, %g: tensor<72xf32>",
     UNA(slice, a, g, "start = [0], limit = [36]", 72xf32,
         36xf32) "    %t:2 = \"msc.momentum\"(%v, %m, %a) {lr = 0.1 : f32, momentum = 0.9 : f32} : (tensor<36xf32>, "
                 "tensor<36xf32>, tensor<36xf32>) -> (tensor<36xf32>, tensor<36xf32>)\n" UNA(
                     slice, b, g, "start = [36], limit = [72]", 72xf32,
                     36xf32) "    %u:2 = \"msc.momentum\"(%w, %n, %b) {lr = 0.1 : f32, momentum = 0.9 : f32} : "
                             "(tensor<36xf32>, "
                             "tensor<36xf32>, tensor<36xf32>) -> (tensor<36xf32>, tensor<36xf32>)\n",
     "%t#0, %t#1, %u#0, %u#1", "tensor<36xf32>, tensor<36xf32>, tensor<36xf32>, tensor<36xf32>", MSC_NEST_MAP, -2, 2},
    /* biases side by side, and their sums again: what several of them need is where an element lies */
    {"%a: tensor<16xf32>, %b: tensor<8xf32>, %c: tensor<16xf32>, %d: tensor<8xf32>, %s: tensor<f32>",
     BIN(mul, e, a, s, 16xf32, f32, 16xf32) "    %y = \"msc.concat\"(%e, %b) {dim = 0 : i64} : (tensor<16xf32>, "
                                            "tensor<8xf32>) -> tensor<24xf32>\n" BIN(
                                                mul, f, c, s, 16xf32, f32,
                                                16xf32) "    %z = \"msc.concat\"(%f, %d) {dim = 0 : i64} : "
                                                        "(tensor<16xf32>, tensor<8xf32>) -> tensor<24xf32>\n",
     "%z, %y", "tensor<24xf32>, tensor<24xf32>", MSC_NEST_MAP, -2, 2},
    /* the second result lies on the first operand, and the other way round */
    {"%x: tensor<1100xf32>, %y: tensor<1100xf32>", UN(exp, a, x, 1100xf32, 1100xf32) UN(exp, b, y, 1100xf32, 1100xf32),
     "%b, %a", "tensor<1100xf32>, tensor<1100xf32>", MSC_NEST_MAP, -2, 2},
    /* a step along the moments, as long as their norm says: two passes over what is overwritten */
    {"%w: tensor<9x5xf32>, %m: tensor<9x5xf32>, %v: tensor<9x5xf32>, %g: tensor<9x5xf32>, %t: tensor<f32>",
     "    %u:3 = \"msc.lamb_moments\"(%w, %m, %v, %g, %t) : (tensor<9x5xf32>, tensor<9x5xf32>, tensor<9x5xf32>, "
     "tensor<9x5xf32>, tensor<f32>) -> (tensor<9x5xf32>, tensor<9x5xf32>, tensor<9x5xf32>)\n" BIN(
         mul, q, u#0, u#0, 9x5xf32, 9x5xf32, 9x5xf32) UNA(reduce_sum, s, q, "dims = [0, 1]", 9x5xf32, f32)
         UN(sqrt, n, s, f32, f32) "    %y = \"msc.lamb_apply\"(%w, %u#0, %n) {lr = 0.1 : f32} : (tensor<9x5xf32>, "
                                  "tensor<9x5xf32>, tensor<f32>) -> "
                                  "tensor<9x5xf32>\n",
     "%y, %u#1, %u#2", "tensor<9x5xf32>, tensor<9x5xf32>, tensor<9x5xf32>", MSC_NEST_ROW, 0.5, 2},
    /* an argument leaves as it came */
    {"%x: tensor<9xf32>", UN(exp, e, x, 9xf32, 9xf32), "%e, %x", "tensor<9xf32>, tensor<9xf32>", MSC_NEST_MAP, -2, 2},
    /* the gradient of a norm over many rows, with a parameter that it reads and replaces: on a GPU in phases */
    {"%x: tensor<3001x40xf32>, %d: tensor<3001x40xf32>, %w: tensor<40xf32>",
     UNA(reduce_mean, m, x, "dims = [0]", 3001x40xf32, 40xf32) BIN(sub, c, x, m, 3001x40xf32, 40xf32, 3001x40xf32)
         BIN(mul, q, c, c, 3001x40xf32, 3001x40xf32, 3001x40xf32) UNA(reduce_mean, v, q, "dims = [0]", 3001x40xf32,
         40xf32) UN(rsqrt, r, v, 40xf32, 40xf32) BIN(mul, z, c, r, 3001x40xf32, 40xf32, 3001x40xf32)
             BIN(mul, p, d, z, 3001x40xf32, 3001x40xf32, 3001x40xf32) UNA(reduce_mean, g, p, "dims = [0]", 3001x40xf32,
             40xf32) BIN(mul, zg, z, g, 3001x40xf32, 40xf32, 3001x40xf32) BIN(sub, e, d, zg, 3001x40xf32, 3001x40xf32,
             3001x40xf32) BIN(mul, y, e, w, 3001x40xf32, 40xf32, 3001x40xf32)
                 "    %u = \"msc.sgd\"(%w, %g) {lr = 0.1 : f32} : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>\n",
     "%y, %m, %u", "tensor<3001x40xf32>, tensor<40xf32>, tensor<40xf32>", MSC_NEST_COLUMN, -2, 2},
    /* a product with its bias, by itself: the library has no f64 */
    {"%x: tensor<9x5xf64>, %w: tensor<5x40xf64>, %b: tensor<40xf64>",
     BIN(matmul, p, x, w, 9x5xf64, 5x40xf64, 9x40xf64) BIN(add, y, p, b, 9x40xf64, 40xf64, 9x40xf64)
         UN(relu, z, y, 9x40xf64, 9x40xf64),
     "%z", "tensor<9x40xf64>", MSC_NEST_COLUMN, -2, 2},
    /* the square of a matrix: its columns run along what is summed up */
    {"%x: tensor<9x9xf64>",
     BIN(matmul, p, x, x, 9x9xf64, 9x9xf64, 9x9xf64) BIN(add, y, p, x, 9x9xf64, 9x9xf64, 9x9xf64), "%y",
     "tensor<9x9xf64>", MSC_NEST_COLUMN, -2, 2},
    {"%x: tensor<40x40xi32>", BIN(matmul, y, x, x, 40x40xi32, 40x40xi32, 40x40xi32), "%y", "tensor<40x40xi32>",
     MSC_NEST_COLUMN, -3, 3},
    {"%x: tensor<3x7x7xi64>", BIN(batch_matmul, y, x, x, 3x7x7xi64, 3x7x7xi64, 3x7x7xi64), "%y", "tensor<3x7x7xi64>",
     MSC_NEST_COLUMN, -3, 3},
    /* a part of the product's columns beside an operand of the product */
    {"%a: tensor<4x6xf64>, %b: tensor<6x7xf64>",
     BIN(matmul, p, a, b, 4x6xf64, 6x7xf64, 4x7xf64)
         UNA(slice, s, p, "start = [0, 1], limit = [4, 7]", 4x7xf64, 4x6xf64)
             BIN(add, z, s, a, 4x6xf64, 4x6xf64, 4x6xf64),
     "%z", "tensor<4x6xf64>", MSC_NEST_COLUMN, -2, 2},
};

static void test_regions(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT(regions); i++) {
    const region_case *r = &regions[i];
    kernel_case *c = kernels_add_text(k, module_text(k, r->args, r->ops, r->results, r->types), r->low, r->high);
    c->reordered = true;
    msc_nest_info info;
    const char *why;
    msc_nester *n = msc_nester_new(k->ctx, msc_context_arena(k->ctx), &msc_target_cpu);
    assert_true(msc_nest_fits(n, 1, &c->op, &info, &why));
    if (info.kind != r->kind) fail_msg("%s: kind %d, not %d", c->what, info.kind, r->kind);
  }
  kernels_finish(k);
  kernels_check(k);
  kernels_free(k);
}

/* ---- refused ---- */

static const struct {
  const char *args, *ops, *results, *types, *why;
} refused[] = {
    {"%x: tensor<5x6xf32>", UNA(reduce_sum, a, x, "dims = [0]", 5x6xf32, 6xf32) UNA(reduce_sum, b, x, "dims = [1]",
     5x6xf32, 5xf32), "%a, %b", "tensor<6xf32>, tensor<5xf32>", "it reduces over different dimensions"},
    {"%x: tensor<5x6xf32>, %y: tensor<5xf32>", UN(exp, a, x, 5x6xf32, 5x6xf32) UN(exp, b, y, 5xf32, 5xf32), "%a, %b",
     "tensor<5x6xf32>, tensor<5xf32>", "its results have different shapes"},
    {"%x: tensor<5x6xf32>, %y: tensor<5x7xf32>", UNA(reduce_sum, a, x, "dims = [1], keep_dims = true", 5x6xf32,
     5x1xf32) BIN(add, b, a, y, 5x1xf32, 5x7xf32, 5x7xf32), "%b", "tensor<5x7xf32>",
     "a reduction would be repeated along another loop"},
    {"%x: tensor<5x6xf32>", UNA(reduce_sum, a, x, "dims = [1]", 5x6xf32, 5xf32) UNA(reduce_sum, s, a, "dims = [0]",
     5xf32, f32) BIN(div, b, x, s, 5x6xf32, f32, 5x6xf32), "%b", "tensor<5x6xf32>",
     "a value depends on a reduction of all rows and varies again"},
    {"%x: tensor<6x8xf32>, %y: tensor<48xf32>", UN(exp, e, x, 6x8xf32, 6x8xf32) UNA(reshape, r, e, "shape = [48]",
     6x8xf32, 48xf32) BIN(add, z, r, y, 48xf32, 48xf32, 48xf32), "%z", "tensor<48xf32>",
     "a reshape joins dimensions that are computed apart; between kernels it is free"},
    {"%x: tensor<6x6xf32>", UNA(reduce_sum, s, x, "dims = [1]", 6x6xf32, 6xf32) BIN(add, z, x, s, 6x6xf32, 6xf32,
     6x6xf32), "%z", "tensor<6x6xf32>", "a reduced dimension is also one of the result's"},
    {"%x: tensor<1x1x5x5xf32>, %w: tensor<1x1x3x3xf32>",
     BIN(conv2d, y, x, w, 1x1x5x5xf32, 1x1x3x3xf32, 1x1x3x3xf32) BIN(add, z, y, w, 1x1x3x3xf32, 1x1x3x3xf32,
         1x1x3x3xf32),
     "%z", "tensor<1x1x3x3xf32>", "a reduced dimension is also one of the result's"},
    {"%x: tensor<1x1x5x5xf32>, %d: tensor<1x1x3x3xf32>",
     "    %y = \"msc.conv2d_weight_grad\"(%x, %d) {kernel = [3, 3]} : (tensor<1x1x5x5xf32>, tensor<1x1x3x3xf32>) -> "
         "tensor<1x1x3x3xf32>\n"
     BIN(add, z, y, d, 1x1x3x3xf32, 1x1x3x3xf32, 1x1x3x3xf32),
     "%z", "tensor<1x1x3x3xf32>", "a reduced dimension is also one of the result's"},
    {"%i: tensor<2x5xi32>, %g: tensor<2x5x8xf32>, %h: tensor<9x8xf32>",
     "    %s = \"msc.scatter_add\"(%i, %g) {rows = 9 : i64} : (tensor<2x5xi32>, tensor<2x5x8xf32>) -> "
     "tensor<9x8xf32>\n" BIN(add, y, s, h, 9x8xf32, 9x8xf32, 9x8xf32), "%y", "tensor<9x8xf32>",
     "scatter_add is the end of a kernel"},
    {"%w: tensor<6x6xf32>", UNA(transpose, g, w, "perm = [1, 0]", 6x6xf32,
     6x6xf32) "    %u = \"msc.sgd\"(%w, %g) {lr = 0.1 : f32} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>\n",
     "%u", "tensor<6x6xf32>", "it reads other elements of what it overwrites"},
    {"%x: tensor<6x5xf64>, %w: tensor<5x7xf64>", UN(exp, e, x, 6x5xf64, 6x5xf64) BIN(matmul, z, e, w, 6x5xf64, 5x7xf64,
     6x7xf64), "%z", "tensor<6x7xf64>", "operands of a product would be computed again for every row or column"},
};

static void test_refused(void **state) {
  kernel_run *k = kernels_new(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT(refused); i++) {
    const char *text = module_text(k, refused[i].args, refused[i].ops, refused[i].results, refused[i].types), *why = "";
    msc_module *m = msc_parse(k->ctx, "test", text, strlen(text));
    if (!m) print_message("%s", text), print_diags(k->ctx);
    assert_non_null(m);
    const msc_op *ops[64];
    size_t num = 0;
    for (msc_op *op = m->first->body->first; op->kind != OP_return; op = op->next) ops[num++] = op;
    msc_nest_info info;
    msc_nester *n = msc_nester_new(k->ctx, msc_context_arena(k->ctx), &msc_target_cpu);
    bool fits = msc_nest_fits(n, num, ops, &info, &why);
    if (fits || strcmp(why, refused[i].why)) fail_msg("%s: %s, not: %s", text, fits ? "fits" : why, refused[i].why);
  }
  msc_codegen_abandon(k->cg);
  kernels_free(k);
}

/* ---- results on operands ---- */

static const struct {
  const char *op, *in, *attrs;
  int in_place; /* operand that result 0 may lie on, -1: none */
} overwrites[] = {
    {"relu", "7x9xf32", "", 0},
    {"add", "7x9xf32 9xf32", "", 0},
    {"add", "9xf32 7x9xf32", "", 1},
    {"cast", "9xf32", "dtype=i32", 0},
    {"cast", "9xf32", "dtype=f16", -1},
    {"softmax", "7x90xf32", "", 0},
    {"softmax", "7x90xf32", "axis=0", 0},
    {"transpose", "7x9xf32", "perm=1,0", -1},
    {"slice", "9xf32", "start=1 limit=9", -1},
    {"concat", "7x9xf32 7x9xf32", "dim=0", -1},
    {"reduce_sum", "7x9xf32", "dims=1", -1},
    {"matmul", "9x9xf64 9x9xf64", "", -1},
    {"gather", "9xf32 9xi32", "", 1},
    {"gather", "9xf32 9xi64", "", -1},
};

static void test_overwrites(void **state) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_nester *n = msc_nester_new(ctx, msc_context_arena(ctx), &msc_target_cpu);
  (void)state;
  for (size_t i = 0; i < COUNT(overwrites); i++) {
    msc_op *op = one_op(msc_module_new(ctx), overwrites[i].op, overwrites[i].in, overwrites[i].attrs, 1);
    for (int k = 0; k < op->num_in; k++)
      if (msc_may_overwrite(n, op, (size_t)k, 0) != (k == overwrites[i].in_place))
        fail_msg("%s %s: operand %d", overwrites[i].op, overwrites[i].in, k);
  }
  msc_context_free(ctx);
}

/* On a GPU other threads read the operands of another strand. */
static void test_strands_apart(void **state) {
  const msc_target *const targets[] = {&msc_target_cpu, &msc_target_cuda};
  (void)state;
  for (int t = 0; t < 2; t++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    kernel_run k = {.ctx = ctx};
    const char *text = module_text(&k, "%x: tensor<24xf32>, %y: tensor<24xf32>",
                                   UN(exp, a, x, 24xf32, 24xf32) UN(exp, b, y, 24xf32, 24xf32), "%b, %a",
                                   "tensor<24xf32>, tensor<24xf32>");
    msc_module *m = msc_parse(ctx, "test", text, strlen(text));
    assert_non_null(m);
    msc_op *op = fuse_all(m->first);
    msc_nester *n = msc_nester_new(ctx, msc_context_arena(ctx), targets[t]);
    assert_true(msc_may_overwrite(n, op, 0, 1));
    assert_true(msc_may_overwrite(n, op, 1, 0));
    assert_int_equal(msc_may_overwrite(n, op, 0, 0), t == 0);
    assert_int_equal(msc_may_overwrite(n, op, 1, 1), t == 0);
    msc_context_free(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_regions), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_overwrites), cmocka_unit_test(test_strands_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
