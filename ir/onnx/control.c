/* control.c: constants, and nodes with graphs of their own. */
#include <string.h>

#include "ir/onnx/onnx.h"

bool onnx_build_constant(onnx_node *n) {
  static const struct {
    const char *name;
    msc_dtype dtype;
    bool is_list;
  } kinds[] = {{"value_float", MSC_F32, false},
               {"value_floats", MSC_F32, true},
               {"value_int", MSC_I64, false},
               {"value_ints", MSC_I64, true}};
  const onnx_attr *a = onnx_attr_of(n, "value");
  if (a) {
    onnx_tensor t;
    const char *wrong = onnx_read_tensor(n->ctx, n->scratch, onnx_file(n), a->tensor, &t);
    return wrong ? onnx_refuse(n, "its value %s", wrong) : onnx_set_constant(n, 0, t.type, t.data);
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!(a = onnx_attr_of(n, kinds[i].name))) continue;
    int64_t num = (int64_t)a->num;
    bool is_float = kinds[i].dtype == MSC_F32;
    const void *data =
        kinds[i].is_list ? (is_float ? (const void *)a->floats : a->ints) : (is_float ? (const void *)&a->f : &a->i);
    return onnx_set_constant(n, 0, msc_type_of(n->ctx, kinds[i].dtype, kinds[i].is_list, &num, NULL), data);
  }
  return onnx_refuse(n, "has no value that msc reads: texts and sparse tensors are not supported");
}
