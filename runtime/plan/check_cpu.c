/* check_cpu.c: checks the CPU features that the code of a plan needs, by LLVM's names, against those that CPU and
 * operating system offer. */
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ir/sanitized.h"
#include "ir/abi/product.h"
#include "runtime/plan/plan.h"

typedef enum { EAX, EBX, ECX, EDX } reg;
typedef enum { ALWAYS, AVX_STATE, AVX512_STATE, AMX_STATE } state; /* registers that the operating system must save */

/* name, leaf, subleaf, register, bit, state */
static const struct {
  const char *name;
  uint32_t leaf, subleaf;
  uint8_t reg, bit, state;
} rows[] = {
  {"x87", 1, 0, EDX, 0, ALWAYS}, {"cx8", 1, 0, EDX, 8, ALWAYS}, {"cmov", 1, 0, EDX, 15, ALWAYS}, {"mmx", 1, 0, EDX, 23,
   ALWAYS},
  {"fxsr", 1, 0, EDX, 24, ALWAYS}, {"sse", 1, 0, EDX, 25, ALWAYS}, {"sse2", 1, 0, EDX, 26, ALWAYS},
  {"sse3", 1, 0, ECX, 0, ALWAYS}, {"pclmul", 1, 0, ECX, 1, ALWAYS}, {"ssse3", 1, 0, ECX, 9, ALWAYS}, {"fma", 1, 0, ECX,
   12, AVX_STATE},
  {"cx16", 1, 0, ECX, 13, ALWAYS}, {"sse4.1", 1, 0, ECX, 19, ALWAYS}, {"sse4.2", 1, 0, ECX, 20, ALWAYS}, {"crc32", 1, 0,
   ECX, 20, ALWAYS},
  {"movbe", 1, 0, ECX, 22, ALWAYS}, {"popcnt", 1, 0, ECX, 23, ALWAYS}, {"aes", 1, 0, ECX, 25, ALWAYS}, {"xsave", 1, 0,
   ECX, 27, ALWAYS},
  {"avx", 1, 0, ECX, 28, AVX_STATE}, {"f16c", 1, 0, ECX, 29, AVX_STATE}, {"rdrnd", 1, 0, ECX, 30, ALWAYS},
  {"fsgsbase", 7, 0, EBX, 0, ALWAYS}, {"bmi", 7, 0, EBX, 3, ALWAYS}, {"avx2", 7, 0, EBX, 5, AVX_STATE}, {"bmi2", 7, 0,
   EBX, 8, ALWAYS},
  {"invpcid", 7, 0, EBX, 10, ALWAYS}, {"rtm", 7, 0, EBX, 11, ALWAYS}, {"avx512f", 7, 0, EBX, 16, AVX512_STATE},
   {"avx512dq", 7, 0, EBX, 17, AVX512_STATE},
  {"rdseed", 7, 0, EBX, 18, ALWAYS}, {"adx", 7, 0, EBX, 19, ALWAYS}, {"avx512ifma", 7, 0, EBX, 21, AVX512_STATE},
   {"clflushopt", 7, 0, EBX, 23, ALWAYS},
  {"clwb", 7, 0, EBX, 24, ALWAYS}, {"avx512cd", 7, 0, EBX, 28, AVX512_STATE}, {"sha", 7, 0, EBX, 29, ALWAYS},
   {"avx512bw", 7, 0, EBX, 30, AVX512_STATE},
  {"avx512vl", 7, 0, EBX, 31, AVX512_STATE}, {"avx512vbmi", 7, 0, ECX, 1, AVX512_STATE}, {"pku", 7, 0, ECX, 4, ALWAYS},
   {"waitpkg", 7, 0, ECX, 5, ALWAYS},
  {"avx512vbmi2", 7, 0, ECX, 6, AVX512_STATE}, {"shstk", 7, 0, ECX, 7, ALWAYS}, {"gfni", 7, 0, ECX, 8, ALWAYS}, {"vaes",
   7, 0, ECX, 9, AVX_STATE},
  {"vpclmulqdq", 7, 0, ECX, 10, AVX_STATE}, {"avx512vnni", 7, 0, ECX, 11, AVX512_STATE}, {"avx512bitalg", 7, 0, ECX, 12,
   AVX512_STATE},
  {"avx512vpopcntdq", 7, 0, ECX, 14, AVX512_STATE}, {"rdpid", 7, 0, ECX, 22, ALWAYS}, {"cldemote", 7, 0, ECX, 25,
   ALWAYS}, {"movdiri", 7, 0, ECX, 27, ALWAYS},
  {"movdir64b", 7, 0, ECX, 28, ALWAYS}, {"enqcmd", 7, 0, ECX, 29, ALWAYS}, {"avx512vp2intersect", 7, 0, EDX, 8,
   AVX512_STATE}, {"serialize", 7, 0, EDX, 14, ALWAYS},
  {"tsxldtrk", 7, 0, EDX, 16, ALWAYS}, {"pconfig", 7, 0, EDX, 18, ALWAYS}, {"amx-bf16", 7, 0, EDX, 22, AMX_STATE},
   {"avx512fp16", 7, 0, EDX, 23, AVX512_STATE},
  {"amx-tile", 7, 0, EDX, 24, AMX_STATE}, {"amx-int8", 7, 0, EDX, 25, AMX_STATE}, {"avxvnni", 7, 1, EAX, 4, AVX_STATE},
   {"avx512bf16", 7, 1, EAX, 5, AVX512_STATE},
  {"amx-fp16", 7, 1, EAX, 21, AMX_STATE}, {"avxifma", 7, 1, EAX, 23, AVX_STATE}, {"avxvnniint8", 7, 1, EDX, 4,
   AVX_STATE}, {"avxneconvert", 7, 1, EDX, 5, AVX_STATE},
  {"avxvnniint16", 7, 1, EDX, 10, AVX_STATE}, {"prefetchi", 7, 1, EDX, 14, ALWAYS}, {"xsaveopt", 13, 1, EAX, 0, ALWAYS},
   {"xsavec", 13, 1, EAX, 1, ALWAYS},
  {"xsaves", 13, 1, EAX, 3, ALWAYS}, {"ptwrite", 20, 0, EBX, 4, ALWAYS}, {"64bit", 0x80000001, 0, EDX, 29, ALWAYS},
   {"sahf", 0x80000001, 0, ECX, 0, ALWAYS},
  {"lzcnt", 0x80000001, 0, ECX, 5, ALWAYS}, {"sse4a", 0x80000001, 0, ECX, 6, ALWAYS}, {"prfchw", 0x80000001, 0, ECX, 8,
   ALWAYS}, {"xop", 0x80000001, 0, ECX, 11, AVX_STATE},
  {"fma4", 0x80000001, 0, ECX, 16, AVX_STATE}, {"tbm", 0x80000001, 0, ECX, 21, ALWAYS}, {"mwaitx", 0x80000001, 0, ECX,
   29, ALWAYS},
  {"clzero", 0x80000008, 0, EBX, 0, ALWAYS}, {"rdpru", 0x80000008, 0, EBX, 4, ALWAYS}, {"wbnoinvd", 0x80000008, 0, EBX,
   9, ALWAYS},
};

/* True if the operating system saves these registers: bits of XCR0. */
static bool is_state_saved(state s) {
  static const uint32_t needed[] = {0, 0x6, 0xe6, 0x60000};
  uint32_t a, b, c, d, low, high;
  if (s == ALWAYS) return true;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  (void)high;
  return (low & needed[s]) == needed[s];
}

/* Linux saves the registers of AMX for processes that have asked for it, and only then may these use them.  Asking
 * twice does nothing.  Returns 0, or why Linux refuses: ENOSPC if a thread has a signal stack that is too small. */
static int ask_for_tiles(void) {
  enum { ASK_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) ? errno : 0;
}

static bool has_feature_row(size_t row) {
  uint32_t r[4];
  if (!__get_cpuid_count(rows[row].leaf, rows[row].subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  return (r[rows[row].reg] >> rows[row].bit & 1) && is_state_saved((state)rows[row].state) &&
         (rows[row].state != AMX_STATE || !ask_for_tiles());
}

static bool is_feature_offered(const char *name) {
  if (!strcmp(name, "address-sanitizer")) return MSC_SANITIZED; /* code that uses shadow memory */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) return has_feature_row(i);
  return false;
}

int64_t mscrt_traits_of_cpu(bool tells_widths, uint32_t widths, uint32_t signature) {
  enum { HAS_512_BITS = 1 << 3, ZEN_5 = 0x1a, FIRST_CLIENT = 0x20 };
  uint32_t family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff),
           model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
  bool is_zen_5 = tells_widths && family == ZEN_5;
  bool whole = !tells_widths || widths & HAS_512_BITS || (is_zen_5 && model < FIRST_CLIENT);
  return (whole ? MSC_PRODUCT_STORES_WHOLE : 0) | (is_zen_5 ? MSC_PRODUCT_FETCHES_ROWS : 0);
}

int64_t mscrt_product_traits(void) {
  enum { WIDTHS = 0x8000001a, SIGNATURE = 1 };
  uint32_t widths = 0, signature = 0, b, c, d;
  bool tells = __get_cpuid(WIDTHS, &widths, &b, &c, &d);
  (void)!__get_cpuid(SIGNATURE, &signature, &b, &c, &d);
  return mscrt_traits_of_cpu(tells, widths, signature);
}

mscrt_status *mscrt_check_cpu(const mscrt_plan *p) {
  char missing[256] = "", clean[40];
  size_t n = 0;
  for (uint32_t i = 0; i < plan_plan_features_num(p->root); i++) {
    const char *name = plan_plan_features(p->root, i);
    if (name[0] == '+') name++;
    if (is_feature_offered(name) || n + 48 > sizeof missing) continue;
    n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%s", n ? ", " : "",
                          mscrt_clean_text(name, SIZE_MAX, clean, sizeof clean));
  }
  if (!n) return NULL;
  const char *cpu = plan_plan_cpu(p->root);
  bool is_stack_small = strstr(missing, "amx-tile") && ask_for_tiles() == ENOSPC;
  return mscrt_fail(MSCRT_ENVIRONMENT, "the plan was made for CPU %s; this one lacks: %s.  %s",
                    cpu ? mscrt_clean_text(cpu, SIZE_MAX, clean, sizeof clean) : "(unnamed)", missing,
                    is_stack_small ? "A signal stack (sigaltstack) of this process is too small for the registers: "
                                     "enlarge it, or compile with --mcpu cooperlake"
                                   : "Compile on this machine, or with --mcpu");
}
