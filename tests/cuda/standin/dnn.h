/* dnn.h: what the three files of the stand-in's cuDNN share: descriptors with their attributes. */
#ifndef MSC_TESTS_STANDIN_DNN_H
#define MSC_TESTS_STANDIN_DNN_H

#include "runtime/cuda/cudnn_api.h"
#include "tests/cuda/standin/standin.h"

enum { DNN_TENSORS = 64, DNN_BYTES = 8 * DNN_TENSORS /* of an attribute */ };

typedef struct {
  unsigned name, type;
  int64_t num;
  unsigned char value[DNN_BYTES];
} dnn_attribute;

typedef struct dnn_object {
  unsigned type;
  bool final;
  int num;
  dnn_attribute attribute[16];
  char *text;                    /* JSON */
  struct dnn_object **own;       /* a plan's that came as text: what it is made of */
  int num_own;
} dnn_object;

/* Engines differ in what is wrong with them: see dnn.c. */
enum { ENGINE_LARGE, ENGINE_NARROW, ENGINE_WINOGRAD, ENGINE_TENSOR_CORE, ENGINE_FALLBACK, NUM_ENGINES };

/* NULL: it was not set. */
const void *dnn_get(const dnn_object *o, unsigned name, int64_t *out_num);
const dnn_object *dnn_linked(const dnn_object *o, unsigned name);
int64_t dnn_int(const dnn_object *o, unsigned name);
unsigned dnn_word(const dnn_object *o, unsigned name);
void dnn_put(dnn_object *o, unsigned name, unsigned type, int64_t num, const void *elements);
size_t dnn_bytes_of(unsigned type); /* of an element of an attribute */

/* ---- dnn_text.c ---- */

/* What a graph is computed by, as a text, which the caller frees; and from it.  The objects are the caller's too. */
char *dnn_write(const dnn_object *graph, int64_t engine, size_t version);
/* NULL: it is no such text, or another version's. */
dnn_object *dnn_read(const char *text, size_t version, int64_t *out_engine, dnn_object ***out_own, int *out_num);

/* ---- dnn_run.c ---- */

/* Of an operation, before it is finalised. */
void dnn_check_operation(const dnn_object *op);
/* Issues the graph, with what the pack says; engine: who computes it. */
void dnn_issue(cu_stream s, const dnn_object *graph, const dnn_object *pack, int engine, size_t workspace_bytes);

#endif
