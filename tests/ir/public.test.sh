#!/bin/sh
# ir/msc.h: the header in C11 and C++, and the example in its first comment.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
{
  echo '#include <stdio.h>'
  echo '#include "ir/msc.h"'
  echo 'bool execute(const void *plan, size_t bytes);'
  sed -n '/^ \*   static bool compile/,/^ \*   }$/s/^ \*   //p' ir/msc.h
  echo 'bool compile_it(const char *name, const void *model, size_t bytes) { return compile(name, model, bytes); }'
} >"$folder/example.c"
grep -q msc_compiler_free "$folder/example.c"
cc -std=c11 -pedantic -Wall -Wextra -Werror -I"$PWD" "$folder/example.c" -fsyntax-only
echo '#include "ir/msc.h"' >"$folder/header.cc"
c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$PWD" "$folder/header.cc" -fsyntax-only
