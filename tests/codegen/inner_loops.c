/* inner_loops.c: the machine code of the kernels of products: loops that multiply, and have no loop within, store
 * nothing but sums that the loop reads, and read nothing from the stack: no sum is spilled. Where 16 registers hold the
 * sums, loops over packed terms have few instructions beside them. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include "codegen/emit/emit.h"
#include "ir/sanitized.h"

enum { MOST = 30000 };

typedef struct {
  uint64_t at;
  char text[96];
} instruction;

typedef struct {
  size_t num;
  instruction all[MOST];
} listing;

static const Elf64_Shdr *find_code(const msc_object *o) {
  const Elf64_Ehdr *e = o->elf;
  const Elf64_Shdr *s = (const void *)((const char *)o->elf + e->e_shoff), *best = NULL;
  for (int i = 0; i < e->e_shnum; i++)
    if (s[i].sh_flags & SHF_EXECINSTR && (!best || s[i].sh_size > best->sh_size)) best = &s[i];
  return best;
}

static void disassemble(const msc_object *o, listing *out) {
  LLVMDisasmContextRef d = LLVMCreateDisasmCPU("x86_64-unknown-linux-gnu", "sapphirerapids", NULL, 0, NULL, NULL);
  const Elf64_Shdr *code = find_code(o);
  assert_non_null(d);
  assert_non_null(code);
  uint8_t *bytes = (uint8_t *)(uintptr_t)o->elf + code->sh_offset;
  out->num = 0;
  for (uint64_t at = 0; at < code->sh_size;) {
    instruction *i = &out->all[out->num++];
    i->at = at;
    size_t n = LLVMDisasmInstruction(d, bytes + at, code->sh_size - at, at, i->text, sizeof i->text);
    assert_true(n > 0 && out->num < MOST);
    at += n;
  }
  LLVMDisasmDispose(d);
}

/* The instruction that a jump backward goes to; `from` itself: it is none. */
static size_t loop_start(const listing *l, size_t from) {
  const char *jump = strchr(l->all[from].text, 'j'), *by = jump ? strpbrk(jump, "-0123456789") : NULL;
  if (!jump || jump != l->all[from].text + 1 || !by || *by != '-') return from;
  uint64_t to = l->all[from + 1].at + (uint64_t)strtoll(by, NULL, 0);
  for (size_t i = from; i-- > 0;)
    if (l->all[i].at == to) return i;
  return from;
}

static bool multiplies(const char *text) {
  return strstr(text, "vfmadd") || strstr(text, "vdpbf16ps") || strstr(text, "tdpbf16ps");
}

/* "vmovups %zmm3, 64(%rdi)" */
static bool stores(const char *text) { return strstr(text, "mov") && text[strlen(text) - 1] == ')'; }

/* True if an instruction of the loop reads the memory where this one stores: a sum that lies in memory. */
static bool is_read(const listing *l, size_t begin, size_t end, size_t store) {
  const char *place = strstr(l->all[store].text, ", ");
  if (!place) return false;
  for (size_t i = begin; i < end; i++)
    if (!stores(l->all[i].text) && strstr(l->all[i].text, place + 2)) return true;
  return false;
}

typedef struct {
  size_t loops, dense; /* loops that multiply; those of four terms of 12 sums whose other instructions are fewer */
} counts;

static counts check_loops(const listing *l, const char *name) {
  enum { ALL_SUMS = 48 };
  counts num = {0};
  size_t inner = 0; /* where the last loop within begins */
  for (size_t end = 0; end + 1 < l->num; end++) {
    size_t begin = loop_start(l, end), terms = 0;
    if (begin == end) continue;
    bool innermost = begin >= inner;
    inner = end;
    for (size_t i = begin; innermost && i < end; i++) terms += multiplies(l->all[i].text);
    if (!innermost || !terms) continue;
    num.loops++, num.dense += terms == ALL_SUMS && end + 1 - begin < 2 * terms;
    for (size_t i = begin; i < end; i++)
      if ((stores(l->all[i].text) && !is_read(l, begin, end, i)) || strstr(l->all[i].text, "(%rsp") ||
          strstr(l->all[i].text, "(%rbp"))
        fail_msg("%s: %s in a loop of %zu products", name, l->all[i].text, terms);
  }
  return num;
}

static void test_nothing_is_spilled(void **state) {
  if (MSC_SANITIZED) { /* its loops call what watches them */
    print_message("skipped: kernels of a build with sanitizers have other loops\n");
    skip();
  }
  static const struct {
    const char *name;
    int level;
    msc_product_part part;
    msc_dtype dtype;
  } kernels[] = {{"f32, AVX2", 3, MSC_MULTIPLY, MSC_F32},      {"f32, AVX-512", 4, MSC_MULTIPLY, MSC_F32},
                 {"f64, AVX2", 3, MSC_MULTIPLY, MSC_F64},      {"f64, AVX-512", 4, MSC_MULTIPLY, MSC_F64},
                 {"bf16, AVX-512", 4, MSC_MULTIPLY, MSC_BF16}, {"pairs", 4, MSC_MULTIPLY_PAIRS, MSC_BF16},
                 {"tiles", 4, MSC_MULTIPLY_TILES, MSC_BF16}};
  static listing l;
  (void)state;
  LLVMInitializeX86TargetInfo(), LLVMInitializeX86TargetMC(), LLVMInitializeX86Disassembler();
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    msc_object o = msc_product_object(kernels[i].level, kernels[i].part, kernels[i].dtype);
    disassemble(&o, &l);
    counts num = check_loops(&l, kernels[i].name);
    assert_in_range(num.loops, kernels[i].part == MSC_MULTIPLY_TILES ? 1 : 8, 256);
    if (kernels[i].level == 3) assert_in_range(num.dense, 2, 2); /* rows of a in panels, and as they are */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_spilled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
