/* choose.c: chooses the implementation of an op, and keeps the reasons why preferred ones declined. */
#include "passes/7_lower/choose.h"

#include "ir/conv.h"
#include "passes/7_lower/builtin.h"
#include "passes/7_lower/gpu/library.h"
#include "passes/config/config.h"

typedef struct {
  msc_arena *arena;
  const msc_choices *among;
} chooser;

typedef const char *decline_fn(const chooser *c, const msc_op *op);

static int64_t inner_size(const msc_op *op) {
  const msc_type *a = op->in[0].value->type;
  return a->dim[a->rank - 1 - msc_op_bool(op, "transpose_a")];
}

/* Declines tiles of generated code (codegen/emit/product.c).  They compute f16 and bf16 in f32: the result of
 * widen.c. */
static const char *decline_product(const chooser *c, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  if (msc_type_elems(t) == 0 || inner_size(op) == 0) return "nothing to multiply";
  if (!msc_is_float(t->dtype))
    return msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(t->dtype));
  return c->among->level >= 3 ? NULL : "it needs fused multiply-add";
}

/* Declines oneDNN on CPUs, except for f32.  Its products of bf16 give results of bf16, so a rank's part of a sum
 * would be rounded before it is added to the others'.  Generated tiles give f32 and add in an order of their own, so
 * sums are the same for any number of ranks; the CPU's instructions have a part in it, which may add bf16 in pairs. */
static const char *decline_library(const chooser *c, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  if (msc_type_elems(t) == 0 || inner_size(op) == 0) return "nothing to multiply";
  if (t->dtype == MSC_F32) return NULL;
  return msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(t->dtype));
}

/* Declines cuBLASLt, which has no products of integers. */
static const char *decline_cublas(const chooser *c, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  if (msc_type_elems(t) == 0 || inner_size(op) == 0) return "nothing to multiply";
  return msc_is_float(t->dtype)
             ? NULL
             : msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(t->dtype));
}

/* Declines products over unfolded windows.  The alternative, a direct loop nest, copies nothing, but keeps nothing in
 * registers either. */
static const char *decline_unfold(const chooser *c, const msc_op *op) {
  const msc_type *t = op->out[0].type;
  for (size_t i = 0; i < op->num_in; i++)
    if (msc_type_elems(op->in[i].value->type) == 0 || msc_type_elems(t) == 0) return "nothing to multiply";
  if (msc_op_int(op, "groups") > 1) return "products of single groups are small";
  msc_conv conv = msc_conv_of(op);
  if (msc_sees_whole_images(&conv) || msc_sees_single_elements(&conv)) return NULL; /* nothing is unfolded */
  return t->dtype == MSC_F32 || t->dtype == MSC_F64
             ? NULL
             : msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(t->dtype));
}

/* Why a convolution whose channels are not in groups cannot be computed by windows; NULL: it can. For the weights'
 * gradient vectors are filled with channels of x. */
static const char *decline_undivided_windows(const msc_op *op, const msc_windows *v) {
  enum { FEW = 16 };
  msc_conv conv = msc_conv_of(op);
  bool gradient = v->makes == MSC_WINDOWS_MAKE_WEIGHTS;
  if (msc_sees_whole_images(&conv)) return "images are rows of a product";
  if (gradient) return v->c < FEW ? "it has few channels" : NULL;
  if (v->makes == MSC_WINDOWS_MAKE_X)
    return msc_windows_lie_side_by_side(v) || msc_windows_are_tiles(v) ? NULL
                                                                       : "its images are large, or have few channels";
  return msc_windows_taps(v) == 1 && v->step[0] == 1 && v->step[1] == 1 && !v->padding[0] && !v->padding[1]
             ? "windows of one element are the images themselves"
             : NULL;
}

/* Declines convolutions whose windows the runtime brings together part by part (runtime/kernels/windows.c). */
static const char *decline_windows(const chooser *c, const msc_op *op) {
  enum { WIDTH = 32 };
  msc_windows v;
  const char *why = msc_op_int(op, "groups") > 1 ? NULL : decline_unfold(c, op);
  if (why) return why;
  if (op->out[0].type->dtype != MSC_F32) return "it has f32 only";
  if (c->among->level < 3) return "it needs fused multiply-add";
  if (!msc_windows_of_op(op, WIDTH, &v)) return "its sizes are out of range";
  if (v.groups == 1 && (why = decline_undivided_windows(op, &v))) return why;
  msc_windows_cut u = msc_windows_cut_of(&v);
  return msc_windows_bytes(&u) > MSC_WINDOWS_MAX_BYTES ? "a part of its images is too large" : NULL;
}

/* Declines attention by cuDNN, which every GPU since sm_80 has. */
static const char *decline_attention(const chooser *c, const msc_op *op) {
  const msc_type *q = op->in[0].value->type, *v = op->in[2].value->type;
  if (!c->among->attention) return "library_attention is false";
  if (q->dtype != MSC_F16 && q->dtype != MSC_BF16)
    return msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(q->dtype));
  if (msc_type_elems(q) == 0 || msc_type_elems(v) == 0) return "nothing to multiply";
  return q->dim[3] % 8 || v->dim[3] % 8 || q->dim[3] > 128 || v->dim[3] > 128
             ? "elements of a head are not a multiple of 8 up to 128"
             : NULL;
}

/* Declines attention by blocks of scores that are never stored (runtime/kernels/attention.c). */
static const char *decline_blocks(const chooser *c, const msc_op *op) {
  enum { WIDTH = 32 };
  msc_attention a = msc_attention_of_op(op, WIDTH);
  if (!c->among->attention) return "library_attention is false";
  if (op->in[0].value->type->dtype != MSC_F32) return "it has f32 only";
  if (c->among->level < 3) return "it needs fused multiply-add";
  if (!msc_attention_fits(&a)) return "its sizes are out of range";
  msc_attention_cut u = msc_attention_cut_of(&a);
  return msc_attention_bytes(&u) > MSC_ATTENTION_MAX_BYTES / 2 ? "its gradient has too many rows" : NULL;
}

/* Declines convolutions by cuDNN, which knows one padding for both sides. */
static const char *decline_convolution(const chooser *c, const msc_op *op) {
  enum { MOST = 4096 }; /* check_graph.c */
  msc_conv v = msc_conv_of(op);
  msc_dtype dtype = op->out[0].type->dtype;
  if (!c->among->convolution) return "library_convolution is false";
  if (dtype != MSC_F32 && dtype != MSC_F16 && dtype != MSC_BF16)
    return msc_arena_printf(c->arena, "%s is not among its element types", msc_dtype_name(dtype));
  if (msc_type_elems(op->in[0].value->type) == 0 || msc_type_elems(op->in[1].value->type) == 0 ||
      msc_type_elems(op->out[0].type) == 0)
    return "nothing to multiply";
  for (int i = 0; i < 2; i++) {
    const msc_window *w = &v.dim[i];
    if (w->low != w->high) return "padding differs between the two sides";
    if (w->low < 0 || w->low > MOST || w->stride > MOST || w->dilation > MOST)
      return "padding, steps or dilation are out of its range";
    int64_t room = w->x + 2 * w->low - (w->kernel - 1) * w->dilation - 1;
    if (room < 0 || room / w->stride + 1 != w->y) return "windows do not reach the border";
  }
  return NULL;
}

static const struct {
  msc_op_kind op;
  unsigned targets;
  msc_choice by;
  decline_fn *decline;
} rows[] = {
#define KERNEL(op, target, by, decline) {OP_##op, MSC_ON_##target, MSC_BY_##by, decline},
#include "passes/7_lower/kernel.def"
#undef KERNEL
};

static const char *const names[] = {[MSC_BY_PRODUCT] = "generated tiles",
                                    [MSC_BY_LIBRARY] = "library",
                                    [MSC_BY_WINDOWS] = "generated tiles of windows",
                                    [MSC_BY_BLOCKS] = "generated tiles of blocks of scores",
                                    [MSC_BY_KERNEL] = "generated kernel",
                                    [MSC_BY_BUILTIN] = "kernel of the runtime",
                                    [MSC_BY_COLLECTIVE] = "collective",
                                    [MSC_BY_ALIAS] = "alias"};

msc_choices msc_choices_of(const msc_pass_ctx *pass, const msc_module *m) {
  return (msc_choices){.target = msc_target_of(m),
                       .level = pass->options->cpu_level ? pass->options->cpu_level : 3,
                       .attention = msc_config_bool(pass->config, MSC_KEY_library_attention),
                       .convolution = msc_config_bool(pass->config, MSC_KEY_library_convolution)};
}

bool msc_has_kernel(const msc_target *target, msc_op_kind op, msc_choice by) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].op == op && rows[i].by == by && rows[i].targets & target->bit) return true;
  return false;
}

msc_chosen msc_choose(msc_arena *arena, const msc_op *op, const msc_choices *choices) {
  chooser c = {.arena = arena, .among = choices};
  msc_chosen chosen = {.by = msc_info(op)->flags & MSC_COLLECTIVE ? MSC_BY_COLLECTIVE
                             : msc_builtin_of(op, NULL)           ? MSC_BY_BUILTIN
                                                                  : MSC_BY_KERNEL,
                       .declined = ""};
  if (msc_runs_on_host(op) && chosen.by == MSC_BY_KERNEL) return chosen; /* it has no library, nor memory for tiles */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].op != op->kind || !(rows[i].targets & choices->target->bit)) continue;
    const char *why = rows[i].decline ? rows[i].decline(&c, op) : NULL;
    chosen.by = rows[i].by;
    if (!why) break;
    chosen.declined =
        msc_arena_printf(arena, "%s%s%s: %s", chosen.declined, *chosen.declined ? "; " : "", names[rows[i].by], why);
  }
  return chosen;
}
