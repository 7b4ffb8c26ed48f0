#!/bin/sh
# libmsc.so: only the names of msc.h outside, found by its soname; a program that is linked with it compiles a model.
set -eu
build=$(cd "$(dirname "$MSC")" && pwd)
sources=$PWD
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
case $build in */asan | */tsan | */fuzz) echo "skipped: libraries with sanitizers are not for other programs"; exit 0 ;; esac

nm -D --defined-only "$build/libmsc.so" | awk '$3 != "" {print $3}' | sort >"$folder/shown"
sed -n 's/^MSC_API .*[ *]\(msc_[a-z_]*\)(.*/\1/p' ir/msc.h | sort >"$folder/public"
grep -q msc_compiler_compile "$folder/public"
diff "$folder/public" "$folder/shown"
readelf -d "$build/libmsc.so" | grep -q 'SONAME.*\[libmsc.so.0\]'
! readelf -d "$build/libmsc.so" | grep NEEDED | grep -i llvm

cat >"$folder/use.c" <<'END'
#include <stdio.h>
#include <string.h>
#include "ir/msc.h"
int main(void) {
  static const char model[] =
      "module { \"msc.func\"() ({ ^bb0(%w: tensor<4x4xf32>, %x: tensor<2x4xf32>): "
      "%0 = \"msc.matmul\"(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32> "
      "\"msc.return\"(%0) : (tensor<2x4xf32>) -> () }) {sym_name = \"forward\", results = [\"y\"], arg_attrs = "
      "[{msc.name = \"w\", msc.role = \"parameter\", msc.init = \"ones\"}, {msc.name = \"x\", msc.role = \"data\"}]} "
      ": () -> () }";
  const void *plan;
  size_t bytes;
  msc_compiler *c = msc_compiler_new(NULL);
  msc_report r = {.struct_size = sizeof r};
  if (!c || msc_compiler_report(c, &r)) return 2;
  if (!msc_compiler_compile(c, "model", model, strlen(model), &plan, &bytes)) {
    for (size_t i = 0; i < msc_compiler_num_messages(c); i++) puts(msc_compiler_message(c, i).text);
    return 1;
  }
  bool ok = msc_compiler_report(c, &r) && r.ranks == 1 && r.parameters == 64 && r.predicted_step_ns > 0;
  printf("%d %d %d\n", bytes > 100, ok, strcmp(msc_version(), MSC_VERSION) == 0);
  msc_compiler_free(c);
}
END
cc -std=gnu11 -I"$sources" "$folder/use.c" -L"$build" -lmsc -o "$folder/use"
[ "$(LD_LIBRARY_PATH=$build "$folder/use")" = "1 1 1" ]
