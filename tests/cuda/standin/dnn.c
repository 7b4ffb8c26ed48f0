/* dnn.c: the stand-in's cuDNN: descriptors, which take only the attributes of their kind, of the right type and number,
 * and are then final; and engines, of which the first ones must not or cannot be used:
 *   0  wants more workspace than any GPU has      1  takes narrower operands than it is given
 *   2  transforms f32, which loses bits           3  multiplies f32 in fewer bits
 *   4  is right, and only offered as a fallback
 * MSC_STANDIN_ENGINES=N: only the first N are there. */
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin/dnn.h"

struct cudnnContext { cu_stream stream; };

#define SCRATCH 256 /* bytes of workspace that an engine uses */

API size_t cudnnGetVersion(void) { return (size_t)standin_number("MSC_STANDIN_CUDNN", 91900); }
API size_t cudnnGetCudartVersion(void) { return 13000; }
API const char *cudnnGetErrorString(dnn_result r) {
  return r == MSCRT_CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_OTHER";
}

API unsigned cudnnCreate(dnn_handle *out) {
  standin_forbid_in_capture(__func__);
  unsigned failed = standin_call(__func__);
  if (failed) return failed;
  *out = calloc(1, sizeof **out);
  standin_count("cuDNN handles", 1);
  return 0;
}

API unsigned cudnnDestroy(dnn_handle h) {
  free(h);
  standin_count("cuDNN handles", -1);
  return standin_call(__func__);
}

API unsigned cudnnSetStream(dnn_handle h, cu_stream s) {
  h->stream = s;
  return standin_call(__func__);
}

/* ---- attributes ---- */

typedef struct {
  unsigned object, name, type;
  int64_t least, most;         /* elements; least 0: it may be missing */
  unsigned linked;             /* of a descriptor: its kind */
} rule;

#define ANY_OPERATION 0xffff

static const rule rules[] = {
#define R(object, name, type, least, most, linked) {MSCRT_CUDNN_BACKEND_##object##_DESCRIPTOR, \
  MSCRT_CUDNN_ATTR_##name, MSCRT_CUDNN_TYPE_##type, least, most, linked},
#define LINK(object, name, least, kind) R(object, name, BACKEND_DESCRIPTOR, least, 1, \
  MSCRT_CUDNN_BACKEND_##kind##_DESCRIPTOR)
  R(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1, 0)
  R(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1, 0)
  R(TENSOR, TENSOR_DIMENSIONS, INT64, 4, 4, 0)
  R(TENSOR, TENSOR_STRIDES, INT64, 4, 4, 0)
  R(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1, 0)
  R(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 0, 1, 0)
  R(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 0, 1, 0)
  R(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1, 0)
  R(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1, 0)
  R(POINTWISE, POINTWISE_AXIS, INT64, 0, 1, 0)
  LINK(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, 1, POINTWISE)
  LINK(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, 1, TENSOR)
  LINK(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, 0, TENSOR)
  LINK(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, 0, TENSOR)
  LINK(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, 1, TENSOR)
  R(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1, 0)
  LINK(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, 1, TENSOR)
  LINK(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, 1, TENSOR)
  LINK(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, 1, TENSOR)
  LINK(OPERATION_MATMUL, OPERATION_MATMUL_DESC, 1, MATMUL)
  R(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1, 0)
  R(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1, 0)
  LINK(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, 1, TENSOR)
  LINK(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, 1, TENSOR)
  LINK(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, 1, REDUCTION)
  LINK(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, 1, TENSOR)
  LINK(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, 1, TENSOR)
  R(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1, 0)
  R(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1, 0)
  R(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1, 0)
  R(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, 2, 0)
  R(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, 2, 0)
  R(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, 2, 0)
  R(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, 2, 0)
#define CONVOLUTION(object, of, x, w, y)                                   \
  LINK(object, OPERATION_CONVOLUTION_##of##_##x, 1, TENSOR)                \
  LINK(object, OPERATION_CONVOLUTION_##of##_##w, 1, TENSOR)                \
  LINK(object, OPERATION_CONVOLUTION_##of##_##y, 1, TENSOR)                \
  LINK(object, OPERATION_CONVOLUTION_##of##_CONV_DESC, 1, CONVOLUTION)     \
  R(object, OPERATION_CONVOLUTION_##of##_ALPHA, FLOAT, 1, 1, 0)            \
  R(object, OPERATION_CONVOLUTION_##of##_BETA, FLOAT, 1, 1, 0)
  CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, FORWARD, X, W, Y)
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DX, W, DY)
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, X, DW, DY)
  R(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, 64, ANY_OPERATION)
  R(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 0, 1, 0)
  LINK(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, 1, OPERATIONGRAPH)
  R(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1, 0)
  LINK(ENGINEHEUR, ENGINEHEUR_DEVICEPROP, 0, DEVICEPROP)
  R(DEVICEPROP, DEVICEPROP_JSON_REPRESENTATION, CHAR, 1, INT32_MAX, 0)
  LINK(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, 0, ENGINECFG)
  LINK(EXECUTION_PLAN, EXECUTION_PLAN_DEVICEPROP, 0, DEVICEPROP)
  R(EXECUTION_PLAN, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, INT32_MAX, 0)
  R(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 0, 1, 0)
  R(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, DNN_TENSORS, 0)
  R(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, DNN_TENSORS, 0)
  R(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1, 0)
};

size_t dnn_bytes_of(unsigned type) {
  switch (type) {
    case MSCRT_CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case MSCRT_CUDNN_TYPE_INT64:
    case MSCRT_CUDNN_TYPE_HANDLE:
    case MSCRT_CUDNN_TYPE_VOID_PTR:
    case MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case MSCRT_CUDNN_TYPE_CHAR: return 1;
    default: return 4;
  }
}

static bool is_operation(unsigned type) {
  return (type >= MSCRT_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
          type <= MSCRT_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) ||
         type == MSCRT_CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
         type == MSCRT_CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
         type == MSCRT_CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

const void *dnn_get(const dnn_object *o, unsigned name, int64_t *out_num) {
  for (int i = 0; i < o->num; i++) {
    if (o->attribute[i].name != name) continue;
    if (out_num) *out_num = o->attribute[i].num;
    return o->attribute[i].value;
  }
  return NULL;
}

const dnn_object *dnn_linked(const dnn_object *o, unsigned name) {
  dnn_object *to = NULL;
  const void *v = dnn_get(o, name, NULL);
  if (v) memcpy(&to, v, sizeof(void *));
  return to;
}

int64_t dnn_int(const dnn_object *o, unsigned name) {
  int64_t n = 0;
  const void *v = dnn_get(o, name, NULL);
  if (v) memcpy(&n, v, sizeof n);
  return n;
}

unsigned dnn_word(const dnn_object *o, unsigned name) {
  unsigned n = 0;
  const void *v = dnn_get(o, name, NULL);
  if (v) memcpy(&n, v, sizeof n);
  return n;
}

void dnn_put(dnn_object *o, unsigned name, unsigned type, int64_t num, const void *elements) {
  dnn_attribute *a = &o->attribute[o->num++];
  a->name = name, a->type = type, a->num = num;
  if (type == MSCRT_CUDNN_TYPE_CHAR) o->text = strndup(elements, (size_t)num);
  else memcpy(a->value, elements, (size_t)num * dnn_bytes_of(type));
}

/* ---- descriptors ---- */

API unsigned cudnnBackendCreateDescriptor(unsigned type, dnn_descriptor *out) {
  unsigned failed = standin_call_ahead(__func__);
  if (failed) return failed;
  dnn_object *o = calloc(1, sizeof *o);
  o->type = type;
  *out = o;
  standin_count("cuDNN descriptors", 1);
  return 0;
}

API unsigned cudnnBackendDestroyDescriptor(dnn_descriptor d) {
  dnn_object *o = d;
  for (int i = 0; i < o->num_own; i++) free(o->own[i]);
  free(o->own);
  free(o->text);
  free(o);
  standin_count("cuDNN descriptors", -1);
  return standin_call_ahead(__func__);
}

static const rule *rule_of(const dnn_object *o, unsigned name) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].object == o->type && rules[i].name == name) return &rules[i];
  standin_broken("attribute %u of a descriptor of kind %u", name, o->type);
}

static void check_linked(const rule *r, int64_t num, const void *elements) {
  for (int64_t i = 0; i < num; i++) {
    const dnn_object *to = ((dnn_object *const *)elements)[i];
    if (!to || !to->final) standin_broken("attribute %u is linked to a descriptor that is not final", r->name);
    if (r->linked == ANY_OPERATION ? !is_operation(to->type) : to->type != r->linked)
      standin_broken("attribute %u is linked to a descriptor of kind %u", r->name, to->type);
  }
}

API unsigned cudnnBackendSetAttribute(dnn_descriptor d, unsigned name, unsigned type, int64_t num,
                                      const void *elements) {
  dnn_object *o = d;
  const rule *r = rule_of(o, name);
  if (o->final) standin_broken("attribute %u of a final descriptor", name);
  if (type != r->type || num < 1 || num < r->least || num > r->most)
    standin_broken("attribute %u: %ld elements of type %u", name, (long)num, type);
  if (dnn_get(o, name, NULL)) standin_broken("attribute %u is set twice", name);
  if (type == MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR) check_linked(r, num, elements);
  dnn_put(o, name, type, num, elements);
  return standin_call_ahead(__func__);
}

/* What the library remembers of an engine and its configuration. */
enum { NUMBER = 1 << 30, OF_GRAPH };

static int engine_of(const dnn_object *o) { return (int)dnn_int(o, NUMBER); }

/* The library fills descriptors that its caller made. */
static void fill(dnn_object *o, unsigned type, int64_t engine, const dnn_object *graph) {
  if (o->type != type || o->final) standin_broken("an engine or its configuration is put elsewhere");
  o->num = 2, o->final = true;
  o->attribute[0] = (dnn_attribute){.name = NUMBER, .num = 1};
  o->attribute[1] = (dnn_attribute){.name = OF_GRAPH, .num = 1};
  memcpy(o->attribute[0].value, &engine, sizeof engine);
  memcpy(o->attribute[1].value, &graph, sizeof graph);
}

/* From a text: the engine's configuration and the graph are made again. */
static unsigned restore(dnn_object *plan) {
  int64_t engine;
  dnn_object *graph = dnn_read(plan->text, cudnnGetVersion(), &engine, &plan->own, &plan->num_own),
             *config = graph ? calloc(1, sizeof *config) : NULL;
  if (!graph) return MSCRT_CUDNN_STATUS_NOT_SUPPORTED;
  config->type = MSCRT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
  fill(config, config->type, engine, graph);
  plan->own = realloc(plan->own, sizeof *plan->own * (size_t)(plan->num_own + 1));
  plan->own[plan->num_own++] = config;
  dnn_put(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
  standin_log("an engine is restored");
  return 0;
}

static unsigned finish_plan(dnn_object *plan) {
  bool has_config = dnn_get(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, NULL),
       has_handle = dnn_get(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, NULL);
  standin_forbid_in_capture("a plan of cuDNN is made");
  if (has_config == (plan->text != NULL)) standin_broken("a plan needs an engine's configuration, or a text");
  if (has_handle == (dnn_get(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, NULL) != NULL))
    standin_broken("a plan is for a handle, or for a GPU that is described");
  return has_config ? 0 : restore(plan);
}

API unsigned cudnnBackendFinalize(dnn_descriptor d) {
  dnn_object *o = d;
  unsigned failed = standin_call_ahead(__func__);
  if (failed) return failed;
  if (o->final) standin_broken("a descriptor of kind %u is finalised twice", o->type);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].object == o->type && rules[i].least && !dnn_get(o, rules[i].name, NULL))
      standin_broken("a descriptor of kind %u lacks attribute %u", o->type, rules[i].name);
  if (is_operation(o->type)) dnn_check_operation(o);
  o->final = true;
  return o->type == MSCRT_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? finish_plan(o) : 0;
}

/* ---- engines ---- */

static unsigned give_engines(const dnn_object *heuristics, int64_t room, int64_t *out_num, dnn_object *const *config) {
  bool fallback = dnn_word(heuristics, MSCRT_CUDNN_ATTR_ENGINEHEUR_MODE) == MSCRT_CUDNN_HEUR_MODE_FALLBACK;
  int engines = (int)standin_number("MSC_STANDIN_ENGINES", NUM_ENGINES);
  *out_num = 0;
  standin_log("engines are offered");
  for (int i = fallback ? ENGINE_FALLBACK : 0;
       i < (fallback ? NUM_ENGINES : ENGINE_FALLBACK) && i < engines && *out_num < room; i++)
    fill(config[(*out_num)++], MSCRT_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, i,
         dnn_linked(heuristics, MSCRT_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  return 0;
}

static unsigned give_text(const dnn_object *plan, int64_t room, int64_t *out_num, char *out) {
  const dnn_object *config = dnn_linked(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  char *text = dnn_write(dnn_linked(config, OF_GRAPH), engine_of(config), cudnnGetVersion());
  *out_num = (int64_t)strlen(text);
  if (room >= *out_num) memcpy(out, text, (size_t)*out_num);
  free(text);
  return 0;
}

static unsigned give_notes(const dnn_object *engine, int64_t *out_num, unsigned *note) {
  int number = engine_of(engine);
  *out_num = number == ENGINE_NARROW || number == ENGINE_WINOGRAD || number == ENGINE_TENSOR_CORE;
  if (*out_num)
    note[0] = number == ENGINE_NARROW     ? MSCRT_CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
              : number == ENGINE_WINOGRAD ? MSCRT_CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4
                                          : MSCRT_CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  return 0;
}

static int64_t workspace_of(const dnn_object *plan) {
  return engine_of(dnn_linked(plan, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) == ENGINE_LARGE ? INT64_C(1) << 40
                                                                                                    : SCRATCH;
}

API unsigned cudnnBackendGetAttribute(dnn_descriptor d, unsigned name, unsigned type, int64_t room, int64_t *out_num,
                                      void *out) {
  const dnn_object *o = d;
  unsigned failed = standin_call_ahead(__func__);
  if (failed) return failed;
  if (!o->final) standin_broken("attribute %u is asked of a descriptor that is not final", name);
  switch (name) {
    case MSCRT_CUDNN_ATTR_ENGINEHEUR_RESULTS:
      if (type != MSCRT_CUDNN_TYPE_BACKEND_DESCRIPTOR) standin_broken("engines of type %u", type);
      return give_engines(o, room, out_num, out);
    case MSCRT_CUDNN_ATTR_ENGINECFG_ENGINE:
      return fill(*(dnn_object **)out, MSCRT_CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine_of(o), NULL), *out_num = 1, 0;
    case MSCRT_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: return give_notes(o, out_num, out);
    case MSCRT_CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: return give_text(o, room, out_num, out);
    case MSCRT_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: return *(int64_t *)out = workspace_of(o), *out_num = 1, 0;
    default: standin_broken("attribute %u is asked", name);
  }
}

API unsigned cudnnBackendExecute(dnn_handle h, dnn_descriptor plan, dnn_descriptor pack) {
  unsigned failed = standin_call(__func__);
  const dnn_object *p = plan, *config = dnn_linked(p, MSCRT_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                   *graph = dnn_linked(config, OF_GRAPH);
  if (failed) return failed;
  if (!p->final || !((const dnn_object *)pack)->final) standin_broken("a plan or its operands are not final");
  dnn_issue(h->stream, graph, pack, engine_of(config), (size_t)workspace_of(p));
  return 0;
}
