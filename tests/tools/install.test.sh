#!/bin/sh
# tools/install: what is there; programs in C and C++ are built from an installed prefix alone, by pkg-config and by CMake; they
# compile a model and execute it.  The wheel runs without the tree.
set -eu
build=$(cd "$(dirname "$MSC")" && pwd)
case $build in */asan | */tsan | */fuzz)
  echo "skipped: libraries with sanitizers are not for other programs"
  exit 0 ;;
esac
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
DESTDIR=$folder/stage PREFIX=/opt/msc tools/install "$build" >/dev/null
PREFIX=$folder/opt tools/install "$build" >/dev/null
PREFIX=$folder/opt tools/install "$build" >/dev/null # again, over what is there
(cd "$folder/opt" && find . | sort) >"$folder/one"
(cd "$folder/stage/opt/msc" && find . | sort) >"$folder/two"
diff "$folder/one" "$folder/two"
grep -q '^prefix=/opt/msc$' "$folder/stage/opt/msc/lib/pkgconfig/msc.pc"
[ "$("$folder/opt/bin/msc" --version)" = "$("$MSC" --version)" ]
! PREFIX=here tools/install "$build" 2>/dev/null

# A page for every command that the first page names, and for no other; bash completes from the installed file.
pages=$folder/opt/share/man/man1
sed -n 's/^\.BR msc\\-\([a-z0-9]*\) (1)$/msc-\1.1/p' "$pages/msc.1" | sort >"$folder/named"
(cd "$pages" && ls msc-*.1) | sort | diff "$folder/named" -
for page in "$pages"/*.1; do
  grep -q '^\.SH SYNOPSIS' "$page"
done
if command -v bash >/dev/null; then
  said=$(bash -c '. "$1"; COMP_WORDS=(msc simul) COMP_CWORD=1 COMP_LINE="msc simul" COMP_POINT=9; _msc; echo "${COMPREPLY[@]}"' \
    bash "$folder/opt/share/bash-completion/completions/msc" 2>/dev/null)
  [ "$said" = simulate ] || { echo "bash completes 'simul' to '$said'"; exit 1; }
fi
grep -q '^complete -c msc .* -a simulate ' "$folder/opt/share/fish/vendor_completions.d/msc.fish"

# The headers' first examples: a model compiled and executed in one process.
cat >"$folder/use.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <msc.h>
#include <mscrt.h>
static const char model[] =
    "module { \"msc.func\"() ({ ^bb0(%w: tensor<2x2xf32>, %x: tensor<2x2xf32>): "
    "%0 = \"msc.matmul\"(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> "
    "\"msc.return\"(%0) : (tensor<2x2xf32>) -> () }) {sym_name = \"forward\", results = [\"y\"], arg_attrs = "
    "[{msc.name = \"w\", msc.role = \"parameter\", msc.init = \"ones\"}, {msc.name = \"x\", msc.role = \"data\"}]} "
    ": () -> () }";
static mscrt_status *execute(const void *bytes, size_t num, float y[4]) {
  static const float x[4] = {1, 2, 3, 4};
  mscrt_plan *plan = NULL;
  mscrt_context *ctx = NULL;
  mscrt_plan_options trust = {sizeof trust, true};
  mscrt_status *s = mscrt_plan_open(bytes, num, &trust, &plan);
  if (!s) s = mscrt_open(plan, NULL, &ctx);
  if (!s) s = mscrt_set_input(ctx, "x", x, sizeof x);
  if (!s) s = mscrt_run(ctx, "forward", 1, NULL);
  if (!s) s = mscrt_read(ctx, "y", y, 4 * sizeof *y);
  mscrt_close(ctx);
  mscrt_plan_close(plan);
  return s;
}
int main(void) {
  const void *plan;
  size_t bytes;
  float y[4];
  msc_compiler *c = msc_compiler_new(NULL);
  if (!c || !msc_compiler_compile(c, "model", model, strlen(model), &plan, &bytes)) return 1;
  mscrt_status *s = execute(plan, bytes, y);
  if (s) puts(mscrt_status_text(s));
  printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
  msc_compiler_free(c);
  return s != NULL;
}
END
cp "$folder/use.c" "$folder/use.cc"
cd "$folder"
runs() { [ "$(LD_LIBRARY_PATH=$folder/opt/lib "$1")" = "3 3 7 7" ]; }
if command -v pkg-config >/dev/null; then
  flags=$(PKG_CONFIG_PATH=$folder/opt/lib/pkgconfig pkg-config --cflags --libs msc mscrt)
  cc -std=c11 -pedantic -Wall -Werror use.c $flags -o use_c
  c++ -std=c++11 -pedantic -Wall -Werror use.cc $flags -o use_cc
  runs ./use_c && runs ./use_cc
else
  echo "skipped: pkg-config is not installed"
fi
if command -v cmake >/dev/null; then
  cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(use C CXX)
find_package(msc 0.1 REQUIRED)
add_executable(by_cmake use.c)
target_link_libraries(by_cmake msc::msc msc::mscrt)
add_executable(by_cmake_cc use.cc)
target_link_libraries(by_cmake_cc msc::msc msc::mscrt)
END
  cmake -S . -B made -DCMAKE_PREFIX_PATH="$folder/opt" >log 2>&1 || { cat log; exit 1; }
  cmake --build made >>log 2>&1 || { cat log; exit 1; }
  made/by_cmake >/dev/null && runs made/by_cmake && runs made/by_cmake_cc
else
  echo "skipped: cmake is not installed"
fi

# Collectives of a program's own, as in the header's example, between the processes of msc launch.
if command -v pkg-config >/dev/null; then
  {
    printf '#include <mscrt.h>\n#include <stdio.h>\nint main(void) {\n'
    sed -n '/^ \*   mscrt_team \*all/,/^ \*   mscrt_end(all)/s/^ \*   //p' opt/include/mscrt.h |
      sed 's/^mscrt_end(pair)/printf("%g of %d\\n", (double)sum, mscrt_group_size(pair));&/'
    printf 'return s != NULL; }\n'
  } >team.c
  cc -std=c11 -pedantic -Wall -Werror team.c $(PKG_CONFIG_PATH=$folder/opt/lib/pkgconfig pkg-config --cflags --libs mscrt) -o team
  said=$(LD_LIBRARY_PATH=$folder/opt/lib opt/bin/msc launch -n 4 -- ./team | sort | tr '\n' ' ')
  [ "$said" = "[0] 1 of 2 [1] 1 of 2 [2] 5 of 2 [3] 5 of 2 " ] || { echo "team: $said"; exit 1; }
fi

# The wheel, unpacked elsewhere; nothing of the tree is on the path.
cd - >/dev/null
wheel=$(tools/install --wheel "$folder/wheels" "$build")
python3 -m zipfile -e "$wheel" "$folder/site"
chmod +x "$folder/site/msc/lib/msc"
cd "$folder"
PYTHONPATH=$folder/site python3 - <<'END'
import msc, os
assert os.path.dirname(msc.__file__).endswith("site/msc"), msc.__file__
g = msc.Graph("net")
x, y = g.input("x", "f32", [4, 3]), g.input("y", "i32", [4], role="label")
logits = g.dense(x, 2, name="d")
g.output("logits", logits)
g.loss(g.softmax_cross_entropy(logits, y))
g.optimizer("sgd", lr=0.5)
plan = msc.compile(g)
assert "d" in plan.explain()
with plan.run() as job:
    losses = [job.step(x=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], y=[0, 1, 1, 0]) for _ in range(20)]
assert losses[-1] < losses[0] / 1.5, losses
from importlib.metadata import entry_points
for group in ("console_scripts", "torch_dynamo_backends"):
    assert "msc" in entry_points(group=group).names, group
END
[ "$(PYTHONPATH=$folder/site python3 -m msc --version)" = "$("$build/msc" --version)" ]
