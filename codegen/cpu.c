/* cpu.c: the name of a CPU in; its x86-64 level, and the features that code for it uses, out.
 * Code uses exactly the features of the level, so that a plan can say what it needs; the name itself only tunes. */
#include <string.h>

#include "codegen/emit/emit.h"

static const msc_cpu cpus[] = {
#define CPU(name, level, bf16, vectors) {name, level, MSC_BF16_BY_##bf16, vectors},
#include "codegen/cpu.def"
#undef CPU
};

size_t msc_cpu_count(void) { return sizeof cpus / sizeof *cpus; }
msc_cpu msc_cpu_row(size_t i) { return cpus[i]; }

/* Returns the features of a level, by LLVM's names, sorted; they include those of lower levels. */
const char *const *msc_cpu_features(int level, size_t *out_num) {
  static const char *const v2[] = {"popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  static const char *const v3[] = {"avx",   "avx2",   "bmi",  "bmi2",   "f16c",   "fma",  "lzcnt",
                                   "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  static const char *const v4[] = {"avx",      "avx2",   "avx512bw", "avx512cd", "avx512dq", "avx512f",
                                   "avx512vl", "bmi",    "bmi2",     "f16c",     "fma",      "lzcnt",
                                   "movbe",    "popcnt", "sse3",     "sse4.1",   "sse4.2",   "ssse3"};
  switch (level) {
    case 1: *out_num = 0; return v2;
    case 2: *out_num = sizeof v2 / sizeof *v2; return v2;
    case 3: *out_num = sizeof v3 / sizeof *v3; return v3;
    default: *out_num = sizeof v4 / sizeof *v4; return v4;
  }
}

const char *const *msc_cpu_bf16_features(msc_bf16_way way, size_t *out_num) {
  static const char *const tiles[] = {"amx-bf16", "amx-tile", "avx512bf16"};
  *out_num = way == MSC_BF16_BY_TILES ? 3 : way == MSC_BF16_BY_PAIRS;
  return way == MSC_BF16_BY_PAIRS ? &tiles[2] : tiles;
}

const char *msc_cpu_plain(int level) {
  static const char *const name[] = {"x86-64", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  return name[level];
}

/* ---- which CPU ---- */

static bool has_feature(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = strchr(list, '+'); at; at = strchr(at + 1, '+'))
    if (!strncmp(at + 1, name, n) && (at[n + 1] == ',' || !at[n + 1])) return true;
  return false;
}

static int level_of_host(void) {
  char *have = LLVMGetHostCPUFeatures();
  int level = 4;
  for (; level > 1; level--) {
    size_t num, i = 0;
    const char *const *want = msc_cpu_features(level, &num);
    while (i < num && has_feature(have, want[i])) i++;
    if (i == num) break;
  }
  LLVMDisposeMessage(have);
  return level;
}

static const msc_cpu *find_cpu(const char *name) {
  for (size_t i = 0; i < msc_cpu_count(); i++)
    if (!strcmp(cpus[i].name, name)) return &cpus[i];
  return NULL;
}

/* Returns how this machine multiplies bf16, by its features beyond the level. */
static msc_bf16_way bf16_of_host(int level) {
  char *have = LLVMGetHostCPUFeatures();
  msc_bf16_way way = MSC_BF16_BY_TERMS;
  for (msc_bf16_way more = MSC_BF16_BY_PAIRS; level == 4 && more <= MSC_BF16_BY_TILES; more++) {
    size_t num, i = 0;
    const char *const *want = msc_cpu_bf16_features(more, &num);
    while (i < num && has_feature(have, want[i])) i++;
    if (i == num) way = more;
  }
  LLVMDisposeMessage(have);
  return way;
}

/* Describes this machine by its features, not by its CPU's name: a virtual machine may hide some features of the
 * CPU, or its name. A CPU with AMX whose name has none is like the first one that had it. */
static msc_cpu host_cpu(void) {
  char *name = LLVMGetHostCPUName();
  msc_cpu cpu = {.level = level_of_host()};
  cpu.bf16 = bf16_of_host(cpu.level);
  const msc_cpu *row = find_cpu(name);
  if (cpu.bf16 == MSC_BF16_BY_TILES && (!row || row->bf16 != MSC_BF16_BY_TILES)) row = find_cpu("sapphirerapids");
  cpu.name = row ? row->name : msc_cpu_plain(cpu.level);
  cpu.vectors = row && cpu.level == row->level ? row->vectors : 0;
  LLVMDisposeMessage(name);
  return cpu;
}

int msc_cpu_level(const char *name) {
  if (!name || !strcmp(name, "native")) return level_of_host();
  const msc_cpu *row = find_cpu(name);
  return row ? row->level : 1;
}

bool msc_cpu_choose(msc_context *ctx, const char *name, msc_cpu *out_cpu) {
  const char *known[sizeof cpus / sizeof *cpus];
  if (!name || !strcmp(name, "native")) {
    *out_cpu = host_cpu();
    return true;
  }
  const msc_cpu *row = find_cpu(name);
  if (row) {
    *out_cpu = *row;
    return true;
  }
  for (size_t i = 0; i < msc_cpu_count(); i++) known[i] = cpus[i].name;
  const char *near = msc_nearest(name, known, msc_cpu_count());
  if (near) return msc_error(ctx, MSC_E_TARGET, NULL, "unknown CPU name \"%s\"; did you mean \"%s\"?", name, near);
  return msc_error(
      ctx, MSC_E_TARGET, NULL,
      "unknown CPU name \"%s\"; \"native\" is this machine, others are \"x86-64-v3\" or \"skylake-avx512\"", name);
}
