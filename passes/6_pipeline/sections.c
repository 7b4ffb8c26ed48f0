/* sections.c: which section a function is, and the section of a module that is wanted. */
#include <string.h>

#include "passes/6_pipeline/pipeline.h"

msc_section_kind msc_section_of(const msc_func *f) {
  msc_section_kind kind = msc_fact_read(f, section, MSC_NUM_SECTION_KINDS);
  return kind == MSC_SECTION_FB ? MSC_SECTION_F : kind;
}

msc_func *msc_find_section(const msc_module *m, msc_program_kind program, msc_section_kind kind, int64_t stage,
                           int64_t chunk) {
  for (msc_func *f = m->first; f; f = f->next) {
    const msc_attr_value *c = msc_func_attr(f, MSC_FACT(chunk));
    bool here = msc_fact_read(f, program, MSC_NUM_PROGRAM_KINDS) == program &&
                msc_func_attr(f, MSC_FACT(stage))->i == stage && (!c || c->i == chunk);
    if (here && msc_section_of(f) == kind) return f;
  }
  return NULL;
}
