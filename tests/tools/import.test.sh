#!/bin/sh
# import.test.sh: IR text -> model.fbs -> IR text is the identity, and importing twice gives the same bytes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for text in tests/tools/import/*.txt; do
  cp "$text" "$dir/a.mlir"
  "$MSC" import "$dir/a.mlir" -o "$dir/a.fbs"
  "$MSC" dump "$dir/a.fbs" -o "$dir/b.mlir"
  diff -u "$text" "$dir/b.mlir"
  "$MSC" import "$dir/b.mlir" -o "$dir/b.fbs"
  cmp "$dir/a.fbs" "$dir/b.fbs"
done
