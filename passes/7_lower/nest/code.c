/* code.c: the rows of code.def in; what is true of each instruction of a kernel's program out. */
#include "passes/7_lower/nest/program.h"

const msc_nest_code_info msc_nest_codes[NEST_CODE_COUNT] = {
#define PLACE NEST_PLACE
#define MEMORY NEST_MEMORY
#define ROOT NEST_ROOT
#define ADDRESS NEST_ADDRESS
#define CODE(name, operands, result, imm, facts, flops, size) \
  {#name, operands, result, NEST_IMM_##imm, facts, flops, size},
#include "passes/7_lower/nest/code.def"
#undef CODE
#undef PLACE
#undef MEMORY
#undef ROOT
#undef ADDRESS
};
