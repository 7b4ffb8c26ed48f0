/* sections.c: names of sections, and finding a section in a module. */
#include <string.h>

#include "passes/6_pipeline/pipeline.h"

const char *const msc_section_names[MSC_NUM_SECTIONS] = {"F", "B", "W", "U", "P"};

msc_func *msc_find_section(const msc_module *m, msc_program_kind program, msc_section_kind kind, int64_t stage,
                           int64_t chunk) {
  for (msc_func *f = m->first; f; f = f->next) {
    const msc_attr_value *c = msc_func_attr(f, MSC_FACT(chunk));
    bool here = msc_fact_read(f, program, MSC_NUM_PROGRAM_KINDS) == program &&
                msc_func_attr(f, MSC_FACT(stage))->i == stage && (!c || c->i == chunk);
    if (here && msc_func_attr(f, MSC_FACT(section))->s[0] == msc_section_names[kind][0]) return f;
  }
  return NULL;
}
