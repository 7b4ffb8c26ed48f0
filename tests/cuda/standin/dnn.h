/* dnn.h: what the two files of the stand-in's cuDNN share: descriptors with their attributes. */
#ifndef MSC_TESTS_STANDIN_DNN_H
#define MSC_TESTS_STANDIN_DNN_H

#include "runtime/cudnn_api.h"
#include "tests/cuda/standin/standin.h"

enum { DNN_TENSORS = 64, DNN_BYTES = 8 * DNN_TENSORS /* of an attribute */ };

typedef struct {
  unsigned name, type;
  int64_t num;
  unsigned char value[DNN_BYTES];
} dnn_attribute;

typedef struct {
  unsigned type;
  bool final;
  int num;
  dnn_attribute attribute[16];
} dnn_object;

/* Engines differ in what is wrong with them: see dnn.c. */
enum { ENGINE_LARGE, ENGINE_NARROW, ENGINE_TENSOR_CORE, ENGINE_FALLBACK, NUM_ENGINES };

/* NULL: it was not set. */
const void *dnn_get(const dnn_object *o, unsigned name, int64_t *out_num);
const dnn_object *dnn_linked(const dnn_object *o, unsigned name);
int64_t dnn_int(const dnn_object *o, unsigned name);
unsigned dnn_word(const dnn_object *o, unsigned name);

/* ---- dnn_run.c ---- */

/* Of an operation, before it is finalised. */
void dnn_check_operation(const dnn_object *op);
/* Issues the graph, with what the pack says; engine: who computes it. */
void dnn_issue(cu_stream s, const dnn_object *graph, const dnn_object *pack, int engine, size_t workspace_bytes);

#endif
