/* object.c: ELF relocatables of x86-64 kernels in; one blob out that runs wherever it is mapped: text, then read-only
 * data from the next page border on, so that the loader can make the first executable and the second not.
 * Only relocations relative to their own place are allowed: they are applied here and the loader has none to do. */
#include <elf.h>
#include <string.h>

#include "codegen/emit/emit.h"

enum { PAGE = 4096 };

typedef struct {
  msc_context *ctx;
  const uint8_t *elf;
  size_t bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *section;
  uint64_t *place; /* offset of each section in the blob, or NOWHERE */
  uint8_t *blob;
} linker;

static const uint64_t NOWHERE = UINT64_MAX;

static bool MSC_PRINTF(2, 3) report_broken_object(const linker *k, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  msc_verror(k->ctx, MSC_DIAG_ERROR, MSC_E_INTERNAL, NULL, NULL, fmt, ap);
  va_end(ap);
  return false;
}

static const void *section_content(const linker *k, const Elf64_Shdr *s) { return k->elf + s->sh_offset; }

/* Sets the places of the executed sections, or of the other loaded ones, from offset *size on, and advances *size
 * behind them. */
static void lay_out_sections(linker *k, bool executed, uint64_t *size) {
  for (int i = 0; i < k->head->e_shnum; i++) {
    const Elf64_Shdr *s = &k->section[i];
    if (!(s->sh_flags & SHF_ALLOC) || s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_EXECINSTR) == executed)
      continue;
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    *size = (*size + align - 1) / align * align;
    k->place[i] = *size;
    *size += s->sh_size;
  }
}

static bool check_sections(const linker *k) {
  for (int i = 0; i < k->head->e_shnum; i++) {
    const Elf64_Shdr *s = &k->section[i];
    if (s->sh_type != SHT_NOBITS && (s->sh_offset > k->bytes || s->sh_size > k->bytes - s->sh_offset))
      return report_broken_object(k, "object: section %d lies outside the file", i);
    if ((s->sh_flags & SHF_ALLOC) && (s->sh_flags & SHF_WRITE) && s->sh_size)
      return report_broken_object(k, "object: kernels must not have writable data");
  }
  return true;
}

static bool relocate(const linker *k, const Elf64_Shdr *table) {
  const Elf64_Rela *r = section_content(k, table);
  const Elf64_Sym *symbol = section_content(k, &k->section[table->sh_link]);
  const char *names = section_content(k, &k->section[k->section[table->sh_link].sh_link]);
  uint64_t base = k->place[table->sh_info];
  if (base == NOWHERE) return true; /* a relocation of debug or unwind data, which the blob lacks */
  for (size_t i = 0; i < table->sh_size / sizeof *r; i++) {
    const Elf64_Sym *s = &symbol[ELF64_R_SYM(r[i].r_info)];
    uint32_t type = ELF64_R_TYPE(r[i].r_info);
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= k->head->e_shnum || k->place[s->st_shndx] == NOWHERE)
      return report_broken_object(k, "object: kernels refer to \"%s\", which is not among them", names + s->st_name);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
      return report_broken_object(k, "object: relocation type %u needs a loader", type);
    uint64_t at = base + r[i].r_offset;
    int64_t value = (int64_t)(k->place[s->st_shndx] + s->st_value) + r[i].r_addend - (int64_t)at;
    int32_t word = (int32_t)value;
    if (word != value) return report_broken_object(k, "object: a relocation is out of range");
    memcpy(k->blob + at, &word, sizeof word);
  }
  return true;
}

static void read_symbols(const linker *k, const Elf64_Shdr *table, msc_symbol *symbol, size_t *num) {
  const Elf64_Sym *s = section_content(k, table);
  const char *names = section_content(k, &k->section[table->sh_link]);
  for (size_t i = 0; i < table->sh_size / sizeof *s; i++) {
    if (ELF64_ST_TYPE(s[i].st_info) != STT_FUNC || s[i].st_shndx == SHN_UNDEF) continue;
    symbol[(*num)++] = (msc_symbol){.name = msc_intern(k->ctx, names + s[i].st_name),
                                    .entry = k->place[s[i].st_shndx] + s[i].st_value,
                                    .bytes = s[i].st_size};
  }
}

static bool open_object(linker *k, msc_arena *arena) {
  if (k->bytes < sizeof *k->head || memcmp(k->head->e_ident, ELFMAG, SELFMAG) || k->head->e_machine != EM_X86_64)
    return report_broken_object(k, "object: not an x86-64 ELF file");
  k->section = (const void *)(k->elf + k->head->e_shoff);
  MSC_TRY(check_sections(k));
  k->place = msc_new_array(arena, uint64_t, k->head->e_shnum);
  for (int i = 0; i < k->head->e_shnum; i++) k->place[i] = NOWHERE;
  return true;
}

static size_t count_symbols(const linker *k) {
  size_t num = 0;
  for (int i = 0; i < k->head->e_shnum; i++)
    if (k->section[i].sh_type == SHT_SYMTAB) num += k->section[i].sh_size / sizeof(Elf64_Sym);
  return num;
}

static bool fill_blob(const linker *k, msc_symbol *symbol, size_t *num) {
  for (int i = 0; i < k->head->e_shnum; i++)
    if (k->place[i] != NOWHERE)
      memcpy(k->blob + k->place[i], section_content(k, &k->section[i]), k->section[i].sh_size);
  for (int i = 0; i < k->head->e_shnum; i++) {
    if (k->section[i].sh_type == SHT_RELA) MSC_TRY(relocate(k, &k->section[i]));
    if (k->section[i].sh_type == SHT_SYMTAB) read_symbols(k, &k->section[i], symbol, num);
  }
  return true;
}

bool msc_object_link(msc_context *ctx, msc_arena *arena, size_t num, const msc_object *object,
                     msc_machine_code *out_code, size_t *out_num, msc_symbol **out_symbol) {
  linker *k = msc_new_array(arena, linker, num);
  uint64_t size = 0;
  size_t symbols = 0;
  for (size_t i = 0; i < num; i++) {
    k[i] = (linker){.ctx = ctx, .elf = object[i].elf, .bytes = object[i].bytes, .head = object[i].elf};
    MSC_TRY(open_object(&k[i], arena));
    symbols += count_symbols(&k[i]);
    lay_out_sections(&k[i], true, &size);
  }
  out_code->text_bytes = size;
  size = (size + PAGE - 1) / PAGE * PAGE;
  for (size_t i = 0; i < num; i++) lay_out_sections(&k[i], false, &size);
  uint8_t *blob = msc_arena_alloc(arena, size);
  memset(blob, 0xCC, size); /* int3 between functions */
  *out_num = 0;
  *out_symbol = msc_new_array(arena, msc_symbol, symbols);
  for (size_t i = 0; i < num; i++) {
    k[i].blob = blob;
    MSC_TRY(fill_blob(&k[i], *out_symbol, out_num));
  }
  out_code->bytes = blob, out_code->num_bytes = size;
  return true;
}
