/* flatbuf_oracle.cc: mutated buffers through our verifier and Google's.  What ours accepts, Google's must accept, and
 * all of it can be walked; FLATBUF_MUTATIONS sets how many (100,000). */
#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "flatbuffers/flatbuffers.h"
#include "model_generated.h"
#include "plan_generated.h"

#define _Static_assert static_assert
extern "C" {
#include "ir/fbs/flatbuf_build.h"

#include "model_fbs.h"
#include "plan_fbs.h"
}

namespace {

using bytes = std::vector<uint8_t>;
constexpr uint32_t MAX_TABLES = 100000;

struct format {
  const char *name;
  const flatbuf_schema *schema;
  bool (*google)(flatbuffers::Verifier &);
  std::vector<bytes> seeds;
};

bool google_model(flatbuffers::Verifier &v) { return msc::model::VerifyModelBuffer(v); }
bool google_plan(flatbuffers::Verifier &v) { return msc::plan::VerifyPlanBuffer(v); }

bytes build_plan() {
  flatbuf_builder *b = flatbuf_builder_new(nullptr, nullptr);
  const uint8_t code[] = {0xc3, 0x90, 0x90};
  const int64_t dims[] = {1, 2, 3};
  const double scalars[] = {0.5};
  const uint64_t shape[] = {32, 784};
  const plan_sub_axis sub[] = {{0, 1, 2}, {0, 2, 4}};
  const uint8_t first[] = {0, 1, 2};
  const char *features[] = {"avx2", "fma"};
  plan_ref ref;
  memset(&ref, 0, sizeof ref);
  ref.offset = 64;
  plan_plan_begin(b);
  plan_plan_put_version(b, 1);
  plan_plan_put_code(b, sizeof code, code);
  plan_plan_put_features(b, 2, features);
  plan_plan_begin_mesh(b);
  plan_axis_begin(b), plan_axis_put_name(b, "d"), plan_axis_put_size(b, 8), flatbuf_end(b);
  flatbuf_end(b);
  plan_plan_begin_layouts(b);
  plan_layout_begin(b), plan_layout_put_first(b, 3, first), plan_layout_put_sub(b, 2, sub), flatbuf_end(b);
  flatbuf_end(b);
  plan_plan_begin_sections(b);
  plan_section_begin(b);
  plan_section_put_name(b, "train");
  plan_section_begin_calls(b);
  for (int i = 0; i < 3; i++) {
    plan_call_begin(b);
    plan_call_put_name(b, "dense1");
    plan_call_put_buffers(b, 1, &ref);
    plan_call_put_dims(b, 3, dims);
    plan_call_put_scalars(b, 1, scalars);
    plan_call_begin_epilogue(b), plan_call_put_index(b, 7), flatbuf_end(b);
    plan_call_begin_starts(b);
    plan_start_begin(b), plan_start_put_shape(b, 2, shape), flatbuf_end(b);
    flatbuf_end(b);
    flatbuf_end(b);
  }
  flatbuf_end(b), flatbuf_end(b), flatbuf_end(b), flatbuf_end(b);
  size_t size;
  const uint8_t *data = static_cast<const uint8_t *>(flatbuf_finish(b, &size));
  if (!data) {
    fprintf(stderr, "builder: %s\n", flatbuf_builder_fault(b));
    exit(1);
  }
  bytes result(data, data + size);
  flatbuf_builder_free(b);
  return result;
}

void read_seeds(const char *folder, std::vector<bytes> *out_seeds) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  std::vector<std::string> names;
  while (dirent *e = readdir(dir))
    if (e->d_name[0] != '.') names.push_back(std::string(folder) + "/" + e->d_name);
  closedir(dir);
  std::sort(names.begin(), names.end());
  for (const std::string &name : names) {
    std::ifstream file(name, std::ios::binary);
    out_seeds->emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
}

/* Touches every byte that accessors could reach, as the schema says. */
void walk(const flatbuf_schema *s, unsigned number, const uint8_t *table, uint64_t *sum) {
  const flatbuf_table &t = s->table[number];
  for (unsigned id = 0; id < t.num_fields; id++) {
    const flatbuf_field &f = t.field[id];
    const uint8_t *p = flatbuf_inline(table, id);
    if (!p || f.kind == FLATBUF_NONE) continue;
    if (f.kind == FLATBUF_SCALAR || f.kind == FLATBUF_STRUCT || f.kind == FLATBUF_UNION_TYPE) {
      for (unsigned i = 0; i < f.bytes; i++) *sum += p[i];
      continue;
    }
    const uint8_t *to = flatbuf_follow(table, id);
    uint32_t num = f.kind == FLATBUF_TABLE || f.kind == FLATBUF_UNION ? 0 : flatbuf_length(to);
    if (f.kind == FLATBUF_TABLE) walk(s, f.target, to, sum);
    if (f.kind == FLATBUF_UNION) walk(s, s->unions[f.target].member[*flatbuf_inline(table, id - 1)], to, sum);
    if (f.kind == FLATBUF_STRING) *sum += strlen(reinterpret_cast<const char *>(to) + 4) <= num;
    for (uint64_t i = 0; (f.kind == FLATBUF_SCALARS || f.kind == FLATBUF_STRUCTS) && i < uint64_t(num) * f.bytes; i++)
      *sum += to[4 + i];
    for (uint32_t i = 0; f.kind == FLATBUF_STRINGS && i < num; i++)
      *sum += strlen(reinterpret_cast<const char *>(flatbuf_element(to, i)) + 4);
    for (uint32_t i = 0; f.kind == FLATBUF_TABLES && i < num; i++) walk(s, f.target, flatbuf_element(to, i), sum);
  }
}

void mutate(bytes *b, std::mt19937 *random) {
  static const uint32_t values[] = {0,          1,          2,          3,          4,         6,      8,
                                    12,         16,         0xff,       0x7fff,     0x8000,    0xffff, 0x7ffffffc,
                                    0x7fffffff, 0x80000000, 0x80000004, 0xfffffffc, 0xffffffff};
  auto below = [&](size_t n) { return size_t((*random)() % n); };
  for (size_t k = 1 + below(4); k-- && b->size() > 16;) {
    size_t at = below(b->size() - 4), word = at & ~size_t(3);
    uint32_t v = values[below(sizeof values / sizeof *values)], old;
    uint8_t *p = b->data();
    memcpy(&old, p + word, 4);
    switch (below(8)) {
      case 0: p[at] ^= uint8_t(1u << below(8)); break;
      case 1: p[at] = uint8_t((*random)()); break;
      case 2: memcpy(p + word, &v, 4); break;
      case 3: memcpy(p + (at & ~size_t(1)), &v, 2); break;
      case 4: v = old + uint32_t(below(33)) - 16, memcpy(p + word, &v, 4); break;
      case 5: memcpy(p + word, p + (below(b->size() - 4) & ~size_t(3)), 4); break;
      case 6: b->resize(b->size() - below(8)); break;
      default: v = uint32_t(below(b->size())) & ~3u, memcpy(p + word, &v, 4); break;
    }
  }
}

struct counts {
  long both = 0, neither = 0, google_only = 0;
};

/* The buffer in an allocation of its exact size, so that a sanitizer sees a read beyond it. */
bool compare(const format &f, const bytes &b, counts *c) {
  void *memory = nullptr;
  if (posix_memalign(&memory, FLATBUF_ALIGN, b.size())) return false;
  uint8_t *exact = static_cast<uint8_t *>(memory);
  memcpy(exact, b.data(), b.size());
  flatbuf_fault fault;
  bool ours = flatbuf_verify(f.schema, exact, b.size(), MAX_TABLES, &fault);
  flatbuffers::Verifier verifier(exact, b.size(), FLATBUF_MAX_DEPTH, MAX_TABLES);
  bool google = f.google(verifier);
  uint64_t sum = 0;
  if (ours) walk(f.schema, f.schema->root, flatbuf_root(exact), &sum);
  free(exact);
  (ours && google ? c->both : google ? c->google_only : c->neither)++;
  return google || !ours;
}

bool run(const format &f, long mutations) {
  std::mt19937 random(12345);
  counts c;
  flatbuf_fault fault;
  for (const bytes &seed : f.seeds) {
    if (flatbuf_verify(f.schema, seed.data(), seed.size(), MAX_TABLES, &fault) && compare(f, seed, &c)) continue;
    fprintf(stderr, "%s: a seed is rejected: %s\n", f.name, fault.what ? fault.what : "by Google's verifier");
    return false;
  }
  for (long i = 0; i < mutations; i++) {
    bytes b = f.seeds[random() % f.seeds.size()];
    mutate(&b, &random);
    if (compare(f, b, &c)) continue;
    std::ofstream("oracle-disagrees.bin", std::ios::binary)
        .write(reinterpret_cast<const char *>(b.data()), long(b.size()));
    fprintf(stderr, "%s: mutation %ld is accepted here and rejected by Google's verifier; see oracle-disagrees.bin\n",
            f.name, i);
    return false;
  }
  printf("%s: accepted by both %ld, by Google's alone %ld, by neither %ld\n", f.name, c.both, c.google_only, c.neither);
  return c.both > mutations / 20 && c.neither > mutations / 20; /* otherwise it tests nothing */
}

} // namespace

int main() {
  const char *text = getenv("FLATBUF_MUTATIONS");
  long mutations = text ? atol(text) : 100000;
  format model = {"model", &model_schema, google_model, {}}, plan = {"plan", &plan_schema, google_plan, {build_plan()}};
  read_seeds("tests/fuzz/corpus/model", &model.seeds);
  std::vector<bytes> good;
  flatbuf_fault fault;
  for (bytes &seed : model.seeds) /* the corpus also holds damaged files */
    if (flatbuf_verify(&model_schema, seed.data(), seed.size(), MAX_TABLES, &fault)) good.push_back(seed);
  model.seeds = good;
  if (model.seeds.empty()) {
    fprintf(stderr, "no seeds in tests/fuzz/corpus/model\n");
    return 1;
  }
  return run(model, mutations / 2) && run(plan, mutations / 2) ? 0 : 1;
}
