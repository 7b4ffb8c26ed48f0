/* pickle.h: Python's pickles as data. Nothing is ever called: an object is the name of its class or function, what that
 * would get, and its state; names of modules that tensors do not need are refused. */
#ifndef MSCRT_PICKLE_H
#define MSCRT_PICKLE_H

#include "runtime/data/data.h"

typedef enum {
  MSCRT_PY_NONE,
  MSCRT_PY_BOOL,
  MSCRT_PY_INT,
  MSCRT_PY_FLOAT,
  MSCRT_PY_TEXT,
  MSCRT_PY_TUPLE,
  MSCRT_PY_LIST,
  MSCRT_PY_DICT,
  MSCRT_PY_GLOBAL,
  MSCRT_PY_OBJECT,
  MSCRT_PY_PERSISTENT
} mscrt_py_kind;

typedef struct mscrt_py mscrt_py;

struct mscrt_py {
  mscrt_py_kind kind;
  int64_t number;   /* BOOL, INT */
  const char *text; /* TEXT; GLOBAL: "torch.float32" */
  /* TUPLE, LIST: items; DICT: keys and values in turns; OBJECT: keys and values that were set as in a dict */
  uint32_t num, room;
  mscrt_py **item;
  mscrt_py *of, *args, *state; /* OBJECT: its GLOBAL, its TUPLE, and its state or NULL; PERSISTENT: args alone */
};

typedef struct {
  mscrt_py *root;
  void *memory; /* owned: all nodes */
} mscrt_pickle;

/* Reads a pickle of protocols 2 to 5; b is named in messages. A value may be shared and even contain itself. */
mscrt_status *mscrt_pickle_parse(const mscrt_blob *b, const uint8_t *data, size_t bytes, mscrt_pickle *out_pickle);
void mscrt_pickle_free(mscrt_pickle *p);
/* The value of a text key of a DICT, of what was put into an OBJECT, or of its state; NULL: there is none. */
const mscrt_py *mscrt_py_get(const mscrt_py *v, const char *key);
/* True for an object of this class, or made by this function. */
bool mscrt_py_is(const mscrt_py *v, const char *of);
/* A tuple or list of whole numbers from 0 on, or a torch.Size of one. */
bool mscrt_py_sizes(const mscrt_py *v, int *out_num, int64_t out[MSCRT_MAX_RANK]);

#endif
