/* check_graph.c: the graphs of a plan, which are attention and convolutions, in; checked and unpacked graphs out. Sizes
 * that belong together are equal, so that only the addresses of a call remain to be checked. */
#include "runtime/plan/plan.h"

#define MAX_ELEMS ((uint64_t)1 << 43) /* most elements that an operand spans */
#define MAX_STEP 4096                 /* limit of steps, dilations and padding of a window */
#define MAX_ENGINE (64 << 20)         /* limit of the bytes of an engine */

/* By kind: a letter per dimension of each operand; equal letters are equal sizes; a capital letter may also be 1. */
static const struct {
  const char *operand[MSCRT_GRAPH_OPERANDS];
  uint8_t num, results;
} kinds[] = {
  [PLAN_GRAPH_KIND_ATTENTION] = {{"bhse", "bgte", "bgtf", "bhsf", "bhs1"}, 5, 2},
  [PLAN_GRAPH_KIND_ATTENTION_GRAD] = {{"bhse", "bgte", "bgtf", "bhsf", "bhs1", "bhsf", "bhse", "bgte", "bgtf"}, 9, 3},
  [PLAN_GRAPH_KIND_DROPPED_ATTENTION] = {{"bhse", "bgte", "bgtf", "bhst", "bhsf", "bhs1"}, 6, 2},
  [PLAN_GRAPH_KIND_DROPPED_ATTENTION_GRAD] = {{"bhse", "bgte", "bgtf", "bhsf", "bhs1", "bhsf", "bhst", "bhse", "bgte",
      "bgtf"}, 10, 3},
  [PLAN_GRAPH_KIND_MASKED_ATTENTION] = {{"bhse", "bgte", "bgtf", "BHST", "bhsf", "bhs1"}, 6, 2},
  [PLAN_GRAPH_KIND_MASKED_ATTENTION_GRAD] = {{"bhse", "bgte", "bgtf", "bhsf", "bhs1", "bhsf", "BHST", "bhse", "bgte",
      "bgtf"}, 10, 3},
  [PLAN_GRAPH_KIND_CONV] = {{"nchw", "oikl", "noyx"}, 3, 1},
  [PLAN_GRAPH_KIND_CONV_DATA] = {{"noyx", "oikl", "nchw"}, 3, 1},
  [PLAN_GRAPH_KIND_CONV_WEIGHT] = {{"nchw", "noyx", "oikl"}, 3, 1},
  [PLAN_GRAPH_KIND_BIASED_CONV] = {{"nchw", "oikl", "1o11", "noyx"}, 4, 1},
};

uint64_t mscrt_graph_span(const mscrt_graph_tensor *t) {
  uint64_t last = 0;
  for (int d = 0; d < 4; d++) last += (uint64_t)(t->dim[d] - 1) * (uint64_t)t->stride[d];
  return last + 1;
}

static mscrt_status *read_operand(plan_operand o, mscrt_graph_tensor *out) {
  uint64_t room = MAX_ELEMS, elems = 1;
  out->dtype = (mscrt_dtype)plan_operand_dtype(o);
  if (plan_operand_shape_num(o) != 4 || plan_operand_stride_num(o) != 4)
    return mscrt_bad_plan("it does not have four dimensions");
  for (uint32_t d = 0; d < 4; d++) {
    uint64_t size = plan_operand_shape(o, d), stride = plan_operand_stride(o, d), span;
    if (size < 1 || stride < 1 || __builtin_mul_overflow(size - 1, stride, &span) || span >= room)
      return mscrt_bad_plan("size %" PRIu64 " with stride %" PRIu64, size, stride);
    if (__builtin_mul_overflow(elems, size, &elems) || elems > MAX_ELEMS) return mscrt_bad_plan("it is too large");
    room -= span;
    out->dim[d] = (int64_t)size, out->stride[d] = (int64_t)stride;
  }
  return NULL;
}

static bool type_fits(const mscrt_graph *g, uint32_t i) {
  mscrt_dtype first = g->operand[0].dtype, t = g->operand[i].dtype;
  if (mscrt_is_attention(g) && kinds[g->kind].operand[i][3] == '1') return t == MSCRT_F32;
  return t == first && (t == MSCRT_F16 || t == MSCRT_BF16 || t == MSCRT_F32);
}

static mscrt_status *check_sizes(const mscrt_graph *g, int64_t size[128]) {
  size['1'] = 1;
  for (uint32_t i = 0; i < g->num_operands; i++)
    for (int d = 0; d < 4; d++) {
      char letter = kinds[g->kind].operand[i][d];
      int64_t *known = &size[letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter];
      if (letter < 'a' && g->operand[i].dim[d] == 1) continue;
      if (*known && *known != g->operand[i].dim[d])
        return mscrt_bad_plan("operand %u: dimension %d is %" PRId64 ", not %" PRId64, i, d, g->operand[i].dim[d],
                              *known);
      *known = g->operand[i].dim[d];
    }
  return NULL;
}

/* Checks the windows of a convolution. A GPU's library pads both sides alike, which determines the number of windows;
 * on a CPU there may be any number, as everything beside the image is 0. */
static mscrt_status *check_conv_windows(plan_graph t, mscrt_graph *g, const int64_t size[128], bool on_gpu) {
  const int64_t x[2] = {size['h'], size['w']}, kernel[2] = {size['k'], size['l']}, y[2] = {size['y'], size['x']};
  if (plan_graph_step_num(t) != 2 || plan_graph_dilation_num(t) != 2 || plan_graph_padding_num(t) != 2)
    return mscrt_bad_plan("windows of two dimensions have two steps, dilations and paddings");
  for (uint32_t d = 0; d < 2; d++) {
    uint64_t step = plan_graph_step(t, d), dilation = plan_graph_dilation(t, d), padding = plan_graph_padding(t, d);
    if (step < 1 || step > MAX_STEP || dilation < 1 || dilation > MAX_STEP || padding > MAX_STEP)
      return mscrt_bad_plan("windows with step %" PRIu64 ", dilation %" PRIu64 ", padding %" PRIu64, step, dilation,
                            padding);
    g->step[d] = (int64_t)step, g->dilation[d] = (int64_t)dilation, g->padding[d] = (int64_t)padding;
    int64_t room = x[d] + 2 * g->padding[d] - (kernel[d] - 1) * g->dilation[d] - 1;
    if (on_gpu && (room < 0 || room / g->step[d] + 1 != y[d]))
      return mscrt_bad_plan("%" PRId64 " windows of %" PRId64 " on %" PRId64, y[d], kernel[d], x[d]);
  }
  return size['c'] % size['i'] || size['o'] % (size['c'] / size['i'])
             ? mscrt_bad_plan("%" PRId64 " channels do not divide into groups", size['c'])
             : NULL;
}

/* Reads the engine of a graph. Its content is for the library, as the code in a cubin is for the driver. */
static mscrt_status *read_engine(const mscrt_plan *p, plan_graph t, mscrt_graph *g) {
  g->engine = plan_graph_engine(t);
  if (!g->engine) return NULL;
  size_t bytes = strlen(g->engine);
  if (!plan_plan_engines_version(p->root) || !plan_plan_engines_arch(p->root))
    return mscrt_bad_plan("an engine of no version of the library, or for no GPU");
  if (bytes < 2 || bytes > MAX_ENGINE || g->engine[0] != '{')
    return mscrt_bad_plan("%zu bytes that are no engine", bytes);
  g->engine_bytes = (uint32_t)bytes;
  return NULL;
}

/* ---- on a CPU ---- */

msc_windows mscrt_windows_of(const mscrt_graph *g) {
  bool data = g->kind == PLAN_GRAPH_KIND_CONV_DATA, weights = g->kind == PLAN_GRAPH_KIND_CONV_WEIGHT;
  const int64_t *x = g->operand[data ? 2 : 0].dim, *w = g->operand[weights ? 2 : 1].dim,
                *y = g->operand[data      ? 0
                                : weights ? 1
                                          : 2]
                         .dim;
  msc_windows v = {.makes = data      ? MSC_WINDOWS_MAKE_X
                            : weights ? MSC_WINDOWS_MAKE_WEIGHTS
                                      : MSC_WINDOWS_MAKE_Y,
                   .n = x[0],
                   .c = x[1],
                   .o = y[1],
                   .groups = x[1] / w[1],
                   .width = g->width,
                   .narrow = g->pairs};
  for (int d = 0; d < 2; d++)
    v.x[d] = x[2 + d], v.y[d] = y[2 + d], v.kernel[d] = w[2 + d], v.step[d] = g->step[d],
    v.dilation[d] = g->dilation[d], v.padding[d] = g->padding[d];
  return v;
}

msc_windows_cut mscrt_windows_cut(const mscrt_graph *g) {
  msc_windows v = mscrt_windows_of(g);
  return msc_windows_cut_of(&v);
}

static bool is_dense_tensor(const mscrt_graph_tensor *t) {
  int64_t step = 1;
  for (int d = 3; d >= 0; step *= t->dim[d--])
    if (t->stride[d] != step) return false;
  return true;
}

/* True if elements of the last dimension lie side by side. */
static bool has_whole_rows(const mscrt_graph_tensor *t) { return t->dim[3] == 1 || t->stride[3] == 1; }

bool mscrt_kernel_takes(const mscrt_plan *p, uint32_t kernel, uint32_t buffers, uint32_t dims) {
  if (kernel >= plan_plan_kernels_num(p->root)) return false;
  plan_kernel k = plan_plan_kernels(p->root, kernel);
  return plan_kernel_num_buffers(k) == buffers && plan_kernel_num_dims(k) == dims && plan_kernel_num_scalars(k) == 0;
}

msc_attention mscrt_attention_of(const mscrt_graph *g) {
  const mscrt_graph_tensor *q = &g->operand[0], *k = &g->operand[1], *v = &g->operand[2];
  return msc_attention_of_dims(g->num_results == 3, q->dim, k->dim, v->dim[3], g->width);
}

static mscrt_status *check_attention_kernels(const mscrt_graph *g) {
  msc_attention a = mscrt_attention_of(g);
  if (!msc_attention_fits(&a)) return mscrt_bad_plan("its sizes are out of range");
  msc_attention_cut u = msc_attention_cut_of(&a);
  int64_t bytes = msc_attention_bytes(&u);
  if (u.units >= UINT32_MAX || g->bytes > MSC_ATTENTION_MAX_BYTES || bytes > (int64_t)g->bytes)
    return mscrt_bad_plan("%" PRId64 " units that need %" PRId64 " bytes, not %" PRIu64, u.units, bytes, g->bytes);
  return NULL;
}

static mscrt_status *check_convolution_kernels(const mscrt_graph *g) {
  msc_windows v = mscrt_windows_of(g);
  if (!msc_windows_fit(&v)) return mscrt_bad_plan("its sizes are out of range");
  if (v.makes == MSC_WINDOWS_MAKE_X && v.groups == 1 && !msc_windows_lie_side_by_side(&v) && !msc_windows_are_tiles(&v))
    return mscrt_bad_plan("the gradient of images that do not lie side by side and are no tiles");
  if (v.narrow && !msc_windows_take_pairs(&v)) return mscrt_bad_plan("pairs of terms where there are none");
  if (msc_windows_are_tiles(&v) && v.width % MSC_WINOGRAD_LANES)
    return mscrt_bad_plan("panels of %" PRId64 " columns for tiles", v.width);
  msc_windows_cut u = mscrt_windows_cut(g);
  int64_t bytes = msc_windows_bytes(&u);
  if (u.units >= UINT32_MAX || g->bytes > MSC_WINDOWS_MAX_BYTES || bytes > (int64_t)g->bytes)
    return mscrt_bad_plan("%" PRId64 " units that need %" PRId64 " bytes, not %" PRIu64, u.units, bytes, g->bytes);
  return NULL;
}

/* Checks a graph that the kernels of products compute. */
static mscrt_status *check_graph_kernels(const mscrt_plan *p, plan_graph t, mscrt_graph *g) {
  if (g->kind == PLAN_GRAPH_KIND_BIASED_CONV) return mscrt_bad_plan("kind %d is not computed on a CPU", g->kind);
  g->pack = plan_graph_pack(t), g->multiply = plan_graph_multiply(t), g->width = plan_graph_width(t);
  g->pairs = plan_graph_pairs(t);
  if (!mscrt_kernel_takes(p, g->pack, 2, 3) || !mscrt_kernel_takes(p, g->multiply, 5, 10))
    return mscrt_bad_plan("its kernels do not take what a product gives");
  if (g->width < MSC_PRODUCT_VECTORS || g->width > MSC_WINDOWS_MAX_WIDTH || g->width % MSC_PRODUCT_VECTORS)
    return mscrt_bad_plan("panels of %" PRId64 " columns", g->width);
  for (uint32_t i = 0; i < g->num_operands; i++)
    if (g->operand[i].dtype != MSCRT_F32 ||
        !(mscrt_is_attention(g) ? has_whole_rows : is_dense_tensor)(&g->operand[i]))
      return mscrt_bad_plan("operand %u is not an array of f32", i);
  if (g->engine) return mscrt_bad_plan("an engine of a GPU's library");
  if (g->pairs && mscrt_is_attention(g)) return mscrt_bad_plan("pairs of terms in attention");
  return mscrt_is_attention(g) ? check_attention_kernels(g) : check_convolution_kernels(g);
}

static mscrt_status *check_graph(const mscrt_plan *p, plan_graph t, mscrt_graph *g) {
  int64_t size[128] = {0};
  if (plan_graph_kind(t) > PLAN_GRAPH_KIND_BIASED_CONV) return mscrt_bad_plan("kind %d", plan_graph_kind(t));
  *g = (mscrt_graph){.kind = plan_graph_kind(t),
                     .num_operands = kinds[plan_graph_kind(t)].num,
                     .num_results = kinds[plan_graph_kind(t)].results,
                     .deterministic = plan_graph_deterministic(t),
                     .causal = plan_graph_causal(t),
                     .relu = plan_graph_relu(t),
                     .scale = (float)plan_graph_scale(t),
                     .bytes = plan_graph_bytes(t)};
  if (plan_graph_operands_num(t) != g->num_operands)
    return mscrt_bad_plan("%u operands, not %u", plan_graph_operands_num(t), g->num_operands);
  for (uint32_t i = 0; i < g->num_operands; i++) {
    MSCRT_CHECK(mscrt_add_prefix(read_operand(plan_graph_operands(t, i), &g->operand[i]), "operand %u", i));
    if (!type_fits(g, i)) return mscrt_bad_plan("operand %u is of type %d", i, g->operand[i].dtype);
  }
  MSCRT_CHECK(check_sizes(g, size));
  MSCRT_CHECK(read_engine(p, t, g));
  if (p->target->calls_whole && g->bytes > plan_plan_workspace_bytes(p->root))
    return mscrt_bad_plan("%" PRIu64 " bytes of a workspace of %" PRIu64, g->bytes, plan_plan_workspace_bytes(p->root));
  if (!mscrt_is_attention(g)) MSCRT_CHECK(check_conv_windows(t, g, size, p->target->calls_whole));
  if (mscrt_is_attention(g) && size['h'] % size['g'])
    return mscrt_bad_plan("%" PRId64 " heads share %" PRId64, size['h'], size['g']);
  if (mscrt_is_attention(g) && p->target->calls_whole && g->operand[0].dtype == MSCRT_F32)
    return mscrt_bad_plan("no library computes attention of f32");
  return p->target->calls_whole ? NULL : check_graph_kernels(p, t, g);
}

mscrt_status *mscrt_check_graphs(mscrt_plan *p) {
  p->num_graphs = plan_plan_graphs_num(p->root);
  MSCRT_CHECK(mscrt_new_array(&p->graph, p->num_graphs));
  for (uint32_t i = 0; i < p->num_graphs; i++) {
    mscrt_status *s = check_graph(p, plan_plan_graphs(p->root, i), &p->graph[i]);
    if (s) return mscrt_add_prefix(s, "graph %u", i);
  }
  return NULL;
}
