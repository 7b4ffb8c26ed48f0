/* Programs of kernels that are wrong are refused with the reason; of those that the verifier lets through after one
 * random change, code is made that LLVM accepts, and that stays within its buffers where no place was changed. */
#include <llvm-c/Analysis.h>

#include "codegen/emit/emit.h"
#include "passes/7_lower/nest/program.h"
#include "tests/codegen/kernels.h"

/* ---- one fault each ---- */

static const char row[] =
  "nest row lanes 8 phases 3 keeps_row dims 1 scalars 1 {\n"
  "  axis items\n"
  "  axis reduced size d0 lane\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  %1 = load f32 b0[a0: d0, a1]\n"
  "  %2 = reduce f32 loose_max %1, phase 1\n"
  "  %3 = sub f32 %1 %2, phase 1\n"
  "  %4 = exp f32 %3, phase 1\n"
  "  %5 = reduce f32 sum %4, phase 2\n"
  "  %6 = div f32 %4 %5, phase 2\n"
  "  store f32 b1[a0: d0, a1] %6, phase 3\n"
  "}\n";

static const char tail[] =
  "nest row lanes 1 phases 1 dims 2 {\n"
  "  axis tail size d0\n"
  "  axis reduced size d1\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  %1 = load f32 b0[a0: d1, a1]\n"
  "  %2 = reduce f32 sum %1, phase 1\n"
  "  %3 = exp f32 %2, phase 1\n"
  "  %4 = reduce f32 sum %3, phase 1, level 1\n"
  "  store f32 b1[0] %4, phase 1, level 1\n"
  "}\n";

static const char gather[] =
  "nest map lanes 8 dims 2 {\n"
  "  axis items\n"
  "  axis items size d1 lane\n"
  "  buffer f32\n"
  "  buffer i32\n"
  "  buffer f32 out\n"
  "  buffer i32 out flag\n"
  "  %1 = load i32 b1[a0]\n"
  "  %2 = cast i64 %1\n"
  "  %3 = dim i64 d0\n"
  "  %4 = compare i1 below %2 %3\n"
  "  check i1 index %4\n"
  "  %6 = dim i64 d1\n"
  "  %7 = mul i64 %2 %6\n"
  "  %8 = load f32 b0[a1] %7 %4\n"
  "  store f32 b2[a0: d1, a1] %8\n"
  "}\n";

static const char scatter[] =
  "nest scatter lanes 8 phases 1 dims 3 {\n"
  "  axis items size d1 lane\n"
  "  axis reduced size d2\n"
  "  buffer i64\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  %1 = load i64 b0[a1]\n"
  "  %2 = dim i64 d0\n"
  "  %3 = compare i1 below %1 %2\n"
  "  %4 = load f32 b1[a0, a1: d1]\n"
  "  %5 = dim i64 d1\n"
  "  fill f32 b2[a0] %2 %5\n"
  "  scatter f32 in_order b2[a0] %1 %4 %3, phase 1\n"
  "}\n";

static const char square[] =
  "nest transpose lanes 8 dims 2 {\n"
  "  axis items size d0 across\n"
  "  axis items size d1 lane\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  %1 = load f32 b0[a0, a1: d0]\n"
  "  store f32 b1[a0: d1, a1] %1\n"
  "}\n";

static const char team[] =
  "nest row gpu lanes 4 phases 1 threads 128 team 32 per_block 4 narrow dims 1 {\n"
  "  axis items\n"
  "  axis reduced size d0 lane team\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  %1 = load f32 b0[a0: d0, a1]\n"
  "  %2 = reduce f32 sum %1, phase 1\n"
  "  store f32 b1[a0] %2, phase 1\n"
  "}\n";

static const char strands[] =
  "nest map gpu lanes 4 strands 2 threads 256 team 1 per_block 1024 narrow {\n"
  "  axis items baked 24 lane\n"
  "  buffer f32\n"
  "  buffer f32\n"
  "  buffer f32\n"
  "  buffer f32 out\n"
  "  buffer f32 out\n"
  "  %1 = load f32 b0[a0]\n"
  "  %2 = load f32 b2[0]\n"
  "  %3 = mul f32 %1 %2\n"
  "  store f32 b3[a0] %3\n"
  "  %5 = load f32 b1[a0]\n"
  "  %6 = mul f32 %5 %2\n"
  "  store f32 b4[a0] %6\n"
  "}\n";

/* In `text`, `now` instead of `was`: the fault, or NULL. */
static const struct {
  const char *text, *was, *now, *fault;
} cases[] = {
  {row, "row", "row", NULL},
  {tail, "row", "row", NULL},
  {gather, "map", "map", NULL},
  {scatter, "scatter", "scatter", NULL},
  {square, "transpose", "transpose", NULL},
  {team, "row", "row", NULL},
  {strands, "map", "map", NULL},
  {strands, "strands 2", "strands 3", "3 strands"},
  {strands, "mul f32 %5 %2", "mul f32 %5 %1", "2 strands"},
  {strands, "baked 24 lane", "lane", "axis 0: it has no size"},
  /* operands */
  {row, "sub f32 %1 %2", "sub f32 %1 %5", "instruction 3: an operand that is not computed before"},
  {row, "sub f32 %1 %2", "sub f32 %1 %3", "instruction 3: an operand that is not computed before"},
  {row, "sub f32 %1 %2", "sub f32 %1", "instruction 3: an operand that is not computed before"},
  {row, "exp f32 %3", "exp f32 %3 %3", "instruction 4: more operands than it has"},
  {gather, "mul i64 %2 %6", "mul i64 %2 %5", "instruction 7: an operand without a value"},
  {row, "div f32 %4 %5", "div f64 %4 %5", "instruction 6: an operand of another element type"},
  {gather, "[a1] %7 %4", "[a1] %7 %3", "instruction 8: an operand of another element type"},
  {gather, "[a1] %7 %4", "[a1] %4 %4", "instruction 8: an operand of another element type"},
  {gather, "check i1 index %4", "check i1 index %3", "instruction 5: an operand of another element type"},
  {gather, "compare i1 below %2", "compare i1 below %1", "instruction 4: an operand of another element type"},
  /* element types and what imm says */
  {gather, "dim i64 d0", "dim i32 d0", "instruction 3: no such element type"},
  {row, "%1 = load f32", "%1 = load f16", "instruction 1: no such element type"},
  {row, "exp f32", "rem f32", "instruction 4: no such element type"},
  {gather, "dim i64 d0", "dim i64 d2", "instruction 3: there is no 2 of it"},
  {gather, "dim i64 d0", "scalar f32 s0", "instruction 3: there is no 0 of it"},
  {row, "exp f32 %3", "compare i1 below %3 %3", "instruction 4: there is no 6 of it"},
  {row, "b1[a0: d0, a1]", "b1[a0]", "instruction 7: different values for one place"},
  {scatter, "b2[a0] %1", "b2[a0: d1] %1", "instruction 7: lanes that do not lie beside each other"},
  {gather, "check i1 index", "check i1 none", "instruction 5: there is no 0 of it"},
  {scatter, "in_order", "at_once", "instruction 7: there is no 1 of it"},
  /* buffers and places */
  {row, "load f32 b0", "load f32 b2", "instruction 1: a buffer that is not there"},
  {gather, "load i32 b1", "load i32 b3", "instruction 1: a buffer that is not there"},
  {gather, "load i32 b1", "load i32 b0", "instruction 1: a buffer of another element type"},
  {row, "store f32 b1", "store f32 b0", "instruction 7: a buffer that is only read"},
  {row, "load f32 b0[a0: d0, a1]", "load f32 b0[a0: d1, a1]", "instruction 1: its place has a dim that is not there"},
  {row, "load f32 b0[a0: d0, a1]", "load f32 b0[a0, a2]",
   "instruction 1: its place has an axis or a dim that is not there"},
  {gather, "out flag", "out", "instruction 5: there is no flag"},
  {gather, "i32 out flag", "i64 out flag", "the flag is no i32 that is written"},
  /* axes */
  {row, "axis items", "axis", "each axis is an item axis, reduced or of the tail"},
  {row, "axis items", "axis items tail", "each axis is an item axis, reduced or of the tail"},
  {gather, "axis items size d1 lane", "axis items lane", "axis 1: it has no size"},
  {row, "size d0", "size d1", "axis 1: its size is no dim"},
  {row, "axis items", "axis tail size d0", NULL},
  {row, "axis items", "axis items chunk", "an axis is cut into parts and has none"},
  {row, "phases 3", "phases 3 blocks d3", "a dim that is not there"},
  {row, "phases 3", "phases 3 tail_blocks d0", "blocks of the tail's sums, but there is no tail"},
  {gather, "map", "row", "kind 1 with reduced axes 0"},
  {row, "row", "map", "kind 0 with reduced axes 2"},
  /* reductions, phases, the tail */
  {row, "sum %4, phase 2", "sum %4, phase 1", "instruction 5: phase 1 of 3, where 2 is its"},
  {row, "%2, phase 1", "%2", "instruction 3: phase 0 of 3, where 1 is its"},
  {row, "phases 3", "phases 2", "instruction 7: phase 3 of 2, where 3 is its"},
  {row, "%3 = sub f32 %1 %2, phase 1\n  %4 = exp f32 %3, phase 1", "%3 = scalar f32 s0\n  %4 = exp f32 %3",
   "instruction 5: a reduction that does not belong to an item"},
  {row, "sum %4", "sum %2", NULL}, /* as often as the row has elements */
  {gather, "mul i64 %2 %6", "reduce i64 sum %2", "instruction 7: a reduction over no axes of its own"},
  {tail, "sum %3, phase 1, level 1", "sum %1, phase 1, level 1",
   "instruction 4: a reduction over no axes of its own"},
  {tail, "store f32 b1[0] %4, phase 1, level 1", "store f32 b1[0] %4, phase 1",
   "instruction 5: it is not on the side of the tail that its operands are on"},
  {tail, "b1[0] %4", "b1[a0] %4", "instruction 5: it varies inside the tail and is behind it"},
  {scatter, "scatter lanes", "column lanes", "instruction 6: rows that are not gone through in order"},
  /* vectors */
  {row, "lanes 8", "lanes 6", "6 lanes"},
  {row, "lanes 8", "lanes 0", "0 lanes"},
  {row, " lane\n", "\n", "a row is kept that is not along the lanes"},
  {gather, "axis items\n", "axis items lane\n", NULL}, /* the last one counts */
  {gather, "size d1 lane", "size d1", "vectors lie along an item axis or a reduced one"},
  {team, "axis items\n  axis reduced size d0 lane", "axis items size d0 lane\n  axis reduced size d0",
   "vectors of rows lie along an item axis"},
  {gather, "lanes 8", "lanes 16", NULL},
  {square, "lanes 8", "lanes 1", "a transpose without vectors"},
  {square, " across", "", "a transpose, and nothing else, lies along two axes"},
  {scatter, "load i64 b0[a1]", "load i64 b0[a0, a1]", "instruction 7: lanes that add to different rows"},
  {row, "lanes 8", "lanes 16", NULL},
  /* threads */
  {team, "team 32", "team 24", "a team of 24 of 128 threads along axis 1"},
  {team, " team\n", "\n", "a team of 32 of 128 threads along axis -1"},
  {team, "per_block 4", "per_block 2", "2 rows of 32 threads in a block of 128"},
  {team, "threads 128", "", "0 threads"},
  {team, " gpu", "", "a CPU has no teams of threads"},
  {team, "b0[a0: d0, a1]", "b0[a0, a1: d0]", "instruction 1: a GPU's vectors are whole"},
};

static char *replaced(msc_arena *arena, const char *text, const char *was, const char *now) {
  const char *at = strstr(text, was);
  assert_non_null(at);
  return msc_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, now, at + strlen(was));
}

static void test_faults(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    msc_context *ctx = msc_context_new(NULL, NULL);
    msc_arena *arena = msc_context_arena(ctx);
    const char *text = replaced(arena, cases[i].text, cases[i].was, cases[i].now);
    msc_program p;
    bool parsed = msc_nest_parse(ctx, "test", text, strlen(text), arena, &p);
    print_diags(ctx);
    assert_true(parsed);
    const char *fault = msc_nest_find_fault(&p, arena);
    if (!fault != !cases[i].fault || (fault && strcmp(fault, cases[i].fault) != 0))
      fail_msg("%s: %s, not %s", text, fault ? fault : "nothing", cases[i].fault ? cases[i].fault : "nothing");
    if (!cases[i].fault && strcmp(cases[i].was, cases[i].now) == 0)
      assert_string_equal(msc_nest_text(&p, arena), text);
    msc_context_free(ctx);
  }
}

/* ---- any change ---- */

static const struct {
  const char *op, *in, *attrs;
} makers[] = {
  {"add", "6x20xf32 20xf32", ""},          {"gelu", "40xf16", "form=tanh"},
  {"softmax", "6x40xf32", ""},             {"reduce_sum", "50x24xf32", "dims=0"},
  {"reduce_max", "5x7x9xf64", "dims=0,2"}, {"reduce_sum", "6x64xf32", "dims=1"},
  {"softmax_cross_entropy", "6x30xf32 6xi32", ""}, {"gather", "10x12xf32 7xi32", "axis=0"},
  {"scatter_add", "7xi32 7x12xf32", "axis=0 rows=10"}, {"transpose", "40x24xf32", "perm=1,0"},
  {"max_pool", "2x3x8x8xf32", "kernel=3,3 stride=2,2 padding=1,1,1,1"},
  {"conv2d", "1x3x6x6xf32 4x3x3x3xf32", "stride=1,1 padding=1,1,1,1"},
  {"pad", "5x7xf32", "low=1,0 high=0,2"},  {"reduce_sum", "100000xf32", "dims=0"},
  {"div", "33xi32 33xi32", ""},            {"adam", "9xf32 9xf32 9xf32 9xf32 f32", "lr=0.1"},
};

typedef struct {
  msc_program p;
  const msc_nest_launch *launch;
  const char *name;
  const msc_op *op;
  bool runs;
} mutant;

enum { MOST_MUTANTS = 1500 };

static uint64_t draw(uint64_t *seed, uint64_t below) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (*seed >> 33) % below;
}

/* Instructions that some place or guard is made of. */
static void mark_addresses(const msc_program *p, bool *marked) {
  memset(marked, 0, MSC_NEST_INSTRS * sizeof *marked);
  for (int i = p->head.num_instrs - 1; i > 0; i--) {
    const msc_instr *in = &p->instr[i];
    const char *letter = msc_nest_info_of(in)->operands;
    for (int k = 0; k < 3 && *letter; k++, letter++) {
      letter += *letter == '?';
      if (marked[i] || (msc_nest_has(in, NEST_MEMORY) && *letter != '=')) marked[in->arg[k]] = true;
    }
  }
}

/* One field of one instruction, or of the head, gets another value, or two instructions change places.  Returns the
 * instruction, or 0. */
static int mutate(msc_program *p, uint64_t *seed) {
  int num = p->head.num_instrs, i = 1 + (int)draw(seed, (uint64_t)num - 1);
  msc_instr *in = &p->instr[i];
  uint8_t *head = (uint8_t *)&p->head;
  switch (draw(seed, 12)) {
    case 0: in->code = (uint8_t)draw(seed, NEST_CODE_COUNT); break;
    case 1: in->dtype = (uint8_t)draw(seed, MSC_NUM_DTYPES); break;
    case 2: in->buffer = (uint8_t)draw(seed, p->head.num_buffers + 1u); break;
    case 3: in->phase = (uint8_t)draw(seed, p->head.num_phases + 2u); break;
    case 4: in->level = (uint8_t)draw(seed, 3); break;
    case 5: in->imm = (int8_t)(draw(seed, 10) - 1); break;
    case 6: case 7: in->arg[draw(seed, 3)] = (uint16_t)draw(seed, (uint64_t)num + 1); break;
    case 8: in->axes ^= (uint16_t)(1u << draw(seed, MSC_NEST_AXES)); break;
    case 9: in->at.coef[draw(seed, p->head.num_axes + 1u)] = (uint8_t)draw(seed, p->head.num_dims + 3u); break;
    case 10: {
      msc_instr other = p->instr[1 + draw(seed, (uint64_t)num - 1)];
      int k = 1 + (int)draw(seed, (uint64_t)num - 1);
      p->instr[k] = *in, *in = other;
      return 0;
    }
    default: {
      size_t at = draw(seed, offsetof(msc_program_head, axis));
      uint8_t bit = (uint8_t)(1u << draw(seed, 8)); /* a truth value is 0 or 1, whoever wrote it */
      bool truth = at == offsetof(msc_program_head, keeps_row) || at == offsetof(msc_program_head, is_gpu) ||
                   at == offsetof(msc_program_head, narrow);
      head[at] ^= truth ? 1 : bit;
      return 0;
    }
  }
  return i;
}

static mutant copy_of(msc_arena *arena, const msc_op *op, const msc_nest_launch *l) {
  mutant m = {.p = l->program, .launch = l, .op = op};
  m.p.instr = msc_new_array(arena, msc_instr, MSC_NEST_INSTRS);
  memcpy(m.p.instr, l->program.instr, sizeof *m.p.instr * l->program.head.num_instrs);
  return m;
}

/* True when the verifier lets it through. */
static bool mutated(msc_arena *arena, uint64_t *seed, const msc_op *op, const msc_nest_launch *l, mutant *out) {
  bool before[MSC_NEST_INSTRS], after[MSC_NEST_INSTRS];
  *out = copy_of(arena, op, l);
  int i = mutate(&out->p, seed);
  if (msc_nest_find_fault(&out->p, arena)) return false;
  mark_addresses(&l->program, before);
  mark_addresses(&out->p, after);
  out->runs = i && !before[i] && !after[i] && !msc_nest_has(&l->program.instr[i], NEST_MEMORY) &&
              !msc_nest_has(&out->p.instr[i], NEST_MEMORY);
  return true;
}

/* Buffers of the call: operands, results, scratch, flag. */
static void run_mutant(const mutant *m, const msc_nest_info *info, kernel_fn *fn, uint64_t *seed) {
  fenced list[16];
  void *buffers[16];
  size_t num = 0;
  for (size_t i = 0; i < m->op->num_in; i++) list[num++] = fenced_new((size_t)msc_type_bytes(m->op->in[i].value->type));
  for (size_t i = 0; i < m->op->num_out; i++) list[num++] = fenced_new((size_t)msc_type_bytes(m->op->out[i].type));
  if (info->scratch_bytes) list[num++] = fenced_new(info->scratch_bytes);
  list[num++] = fenced_new(4);
  for (size_t i = 0; i < m->op->num_in; i++)
    for (size_t k = 0; k < list[i].bytes; k++) ((uint8_t *)list[i].data)[k] = k % 4 ? 0 : (uint8_t)draw(seed, 5);
  for (int i = 0; i < m->p.head.num_buffers; i++) buffers[i] = list[m->launch->buffer[i]].data;
  fn(buffers, 0, (int64_t)m->launch->extent, m->launch->dims, m->launch->scalars);
  for (size_t i = 0; i < num; i++) fenced_free(&list[i]);
}

typedef struct {
  msc_context *ctx;
  msc_llvm llvm;
  size_t num, refused;
  mutant mutant[MOST_MUTANTS];
  msc_nest_info info[MOST_MUTANTS];
} farm;

/* Of each op's programs, changed `changes` times each. */
static farm *farm_of(const msc_target *target, int changes, uint64_t *seed) {
  msc_context *ctx = msc_context_new(NULL, NULL);
  msc_arena *arena = msc_context_arena(ctx);
  farm *f = msc_new(arena, farm);
  f->ctx = ctx;
  assert_true(msc_llvm_open(ctx, &(msc_code_target){.target = target}, &f->llvm));
  msc_nester *nester = msc_nester_new(ctx, msc_context_arena(ctx), target);
  for (size_t o = 0; o < sizeof makers / sizeof *makers; o++) {
    msc_nest_info info;
    msc_nest_launch *launch;
    const msc_op *op = one_op(msc_module_new(ctx), makers[o].op, makers[o].in, makers[o].attrs, 1);
    print_diags(ctx);
    assert_non_null(op);
    assert_true(msc_nest_launches(nester, arena, op, &info, &launch));
    for (int i = 0; i < info.num_launches; i++)
      for (int k = 0; k < changes; k++) {
        mutant *m = &f->mutant[f->num];
        f->info[f->num] = info;
        if (f->num == MOST_MUTANTS) fail_msg("more than %d are let through", MOST_MUTANTS);
        if (mutated(arena, seed, op, &launch[i], m)) m->name = msc_arena_printf(arena, "m%zu", f->num++);
        else f->refused++;
      }
  }
  return f;
}

static void verify_code(const farm *f) {
  char *why = NULL;
  if (LLVMVerifyModule(f->llvm.module, LLVMReturnStatusAction, &why)) fail_msg("%s", why);
  LLVMDisposeMessage(why);
}

static void test_changes(void **state) {
  uint64_t seed = 1;
  farm *f = farm_of(&msc_target_cpu, 120, &seed);
  (void)state;
  for (size_t i = 0; i < f->num; i++)
    msc_emit_cpu(&f->llvm, &f->mutant[i].p, msc_llvm_kernel(&f->llvm, f->mutant[i].name));
  verify_code(f);
  msc_machine_code code = {0};
  size_t num = 0, run = 0;
  msc_symbol *symbol;
  LLVMMemoryBufferRef object = msc_llvm_assemble(&f->llvm);
  assert_non_null(object);
  msc_object elf = {LLVMGetBufferStart(object), LLVMGetBufferSize(object)};
  assert_true(msc_object_link(f->ctx, msc_context_arena(f->ctx), 1, &elf, &code, &num, &symbol));
  size_t bytes = (code.num_bytes + 4095) / 4096 * 4096;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(memory, code.bytes, code.num_bytes);
  assert_int_equal(mprotect(memory, (code.text_bytes + 4095) / 4096 * 4096, PROT_READ | PROT_EXEC), 0);
  for (size_t i = 0; i < num; i++) {
    size_t k = (size_t)atoi(symbol[i].name + 1);
    kernel_fn *fn;
    void *entry = memory + symbol[i].entry;
    memcpy(&fn, &entry, sizeof fn);
    if (f->mutant[k].runs) run_mutant(&f->mutant[k], &f->info[k], fn, &seed), run++;
  }
  print_message("%zu refused, %zu let through, %zu of them run\n", f->refused, f->num, run);
  assert_true(run > 50 && f->refused > 5 * run);
  munmap(memory, bytes);
  LLVMDisposeMemoryBuffer(object);
  msc_llvm_close(&f->llvm);
  msc_context_free(f->ctx);
}

static void test_changes_on_a_gpu(void **state) {
  uint64_t seed = 2;
  farm *f = farm_of(&msc_target_cuda, 120, &seed);
  (void)state;
  for (size_t i = 0; i < f->num; i++)
    msc_emit_cuda(&f->llvm, &f->mutant[i].p, msc_nvptx_kernel(&f->llvm, f->mutant[i].name, &f->mutant[i].p));
  verify_code(f);
  print_message("%zu refused, %zu let through\n", f->refused, f->num);
  msc_llvm_close(&f->llvm);
  msc_context_free(f->ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_faults),
    cmocka_unit_test(test_changes),
    cmocka_unit_test(test_changes_on_a_gpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
