#!/bin/sh
# mlir_opt: every golden file, input and expected output, and the text with everything in it, are accepted by MLIR itself;
# but for those with expected errors, and those that print the programs of kernels, which are no MLIR.
set -eu
opt=$(command -v mlir-opt-19) || { echo "skipped: mlir-opt-19 is not installed (package mlir-19-tools)"; exit 0; }
all=$(mktemp)
trap 'rm -f "$all"' EXIT
cases="tests/ir/parse/whole.txt $(grep -rL --include='*.mlir' -e '--verify-diagnostics' -e '--emit-nest' tests --exclude-dir=fuzz | sort)"
cat $cases >"$all"
"$opt" --allow-unregistered-dialect "$all" -o /dev/null && exit 0
for case in $cases; do
  "$opt" --allow-unregistered-dialect "$case" -o /dev/null || echo "refused: $case"
done
exit 1
