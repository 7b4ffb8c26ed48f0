/* order.c: checks the order of pass.def and the direction of includes between folders. */
#include "passes/7_lower/target.h"
#include "passes/pass.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void stages_never_go_back(void **state) {
  (void)state;
  for (size_t i = 1; i < msc_num_rows(); i++)
    assert_true(strcmp(msc_row(i - 1)->stage, msc_row(i)->stage) <= 0);
}

static void names_are_unique(void **state) {
  (void)state;
  for (size_t i = 0; i < msc_num_rows(); i++)
    for (size_t k = 0; k < i; k++) assert_string_not_equal(msc_row(i)->name, msc_row(k)->name);
}

/* A pass lives in its stage's folder in a file of its own name; one for GPUs alone in the folder gpu there. */
static void files_follow_the_table(void **state) {
  (void)state;
  for (size_t i = 0; i < msc_num_rows(); i++) {
    const msc_pass_info *row = msc_row(i);
    char path[256];
    if (!row->run) continue;
    snprintf(path, sizeof path, "passes/%s/%s%s.c", row->stage, row->targets == MSC_ON_CUDA ? "gpu/" : "", row->name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is missing", path);
    fclose(f);
  }
}

/* Which folders a file of a folder may include from; the first row that fits counts. */
static const struct { const char *folder, *allowed; } directions[] = {
  {"ir/abi", " "},
  {"ir", " ir "},
  {"passes", " ir passes "},
  {"codegen", " ir passes codegen "},
  {"tools", " ir passes codegen runtime tools "},
  {"runtime", " runtime "},
};

/* The dependency-free files that both libraries compile in. */
static bool is_shared(const char *path) {
  static const char *const shared[] = {"ir/fbs/flatbuf.h", "ir/layout/box.h", "ir/sanitized.h", "ir/verb.h"};
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
    if (!strcmp(path, shared[i])) return true;
  return !strncmp(path, "ir/abi/", 7);
}

static void check_include(const char *file, const char *line, const char *allowed, int *out_bad) {
  char path[256], folder[64];
  if (sscanf(line, " # include \"%255[^\"]\"", path) != 1 || !strchr(path, '/') || is_shared(path)) return;
  snprintf(folder, sizeof folder, " %.*s ", (int)strcspn(path, "/"), path);
  if (strstr(allowed, folder)) return;
  print_error("%s includes %s\n", file, path);
  ++*out_bad;
}

static bool has_own_row(const char *folder) {
  for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
    if (!strcmp(directions[i].folder, folder)) return true;
  return false;
}

static void check_folder(const char *folder, const char *allowed, int *out_bad) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    size_t n = strlen(path);
    if (e->d_name[0] == '.') continue;
    if (e->d_type == DT_DIR && !has_own_row(path)) check_folder(path, allowed, out_bad);
    if (n < 2 || (strcmp(path + n - 2, ".c") && strcmp(path + n - 2, ".h"))) continue;
    FILE *f = fopen(path, "r");
    char line[1024];
    while (f && fgets(line, sizeof line, f)) check_include(path, line, allowed, out_bad);
    if (f) fclose(f);
  }
  closedir(dir);
}

static void includes_follow_the_road(void **state) {
  (void)state;
  int bad = 0;
  for (size_t i = 0; i < sizeof directions / sizeof *directions; i++)
    check_folder(directions[i].folder, directions[i].allowed, &bad);
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(stages_never_go_back),
    cmocka_unit_test(names_are_unique),
    cmocka_unit_test(files_follow_the_table),
    cmocka_unit_test(includes_follow_the_road),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
