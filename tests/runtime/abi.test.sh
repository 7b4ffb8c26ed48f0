#!/bin/sh
# libmscrt.so: no compiler, Python or C++ inside, only mscrt_ names outside, small, found by what is linked with it; the public
# header in C11 and C++.
set -eu
lib=$(dirname "$MSC")/libmscrt.so
sources=$PWD
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

needed=$(readelf -d "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | libz.so.* | libxxhash.so.* | libpthread.so.* | libdl.so.* | ld-linux*) ;;
    libasan.so.* | libubsan.so.*) sanitized=1 ;;
    *) echo "libmscrt.so needs $name"; exit 1 ;;
  esac
done
others=$(nm -D --defined-only "$lib" | awk '{print $3}' | grep -v '^mscrt_' || true)
[ -z "${sanitized:-}" ] && [ -n "$others" ] && { echo "libmscrt.so shows other names: $others"; exit 1; }
roots=$(nm -D --undefined-only "$lib" | grep -E ' sqrtf?(@|$)' || true)
[ -z "${sanitized:-}" ] && [ -n "$roots" ] && { echo "libmscrt.so calls for roots one by one: its loops are slow"; exit 1; }
strip -o "$folder/lib.so" "$lib"
size=$(stat -c %s "$folder/lib.so")
echo "libmscrt.so: $size bytes stripped"
[ -n "${sanitized:-}" ] || [ "$size" -le 920000 ] || exit 1

# What is linked with it finds it by its soname.
echo '#include "runtime/mscrt.h"
int main(void) { return mscrt_status_code(0) != MSCRT_OK; }' >"$folder/linked.c"
if [ -z "${sanitized:-}" ]; then
  cc -I"$sources" "$folder/linked.c" -L"$(dirname "$lib")" -lmscrt -o "$folder/linked"
  LD_LIBRARY_PATH=$(dirname "$lib") "$folder/linked"
fi

# The example in the header's first comment, as it stands there.
{
  echo '#include <stdio.h>'
  echo '#include "runtime/mscrt.h"'
  sed -n '/^ \*   static mscrt_status \*train/,/^ \*   }$/s/^ \*   //p' runtime/mscrt.h
  echo 'int main(void) {'
  sed -n '/^ \*   mscrt_status \*s = train/,/^ \*   mscrt_status_free/s/^ \*   //p' runtime/mscrt.h
  echo 'return 0; }'
} >"$folder/example.c"
cc -std=c11 -pedantic -Wall -Wextra -Werror -Wno-missing-field-initializers -I"$sources" "$folder/example.c" -fsyntax-only
grep -q mscrt_save "$folder/example.c"
echo '#include "runtime/mscrt.h"' >"$folder/header.cc"
c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$sources" "$folder/header.cc" -fsyntax-only
# runtime/ stands alone.
! grep -rn --include='*.[ch]' '#include "' runtime | grep -v '"runtime/\|"ir/fbs/flatbuf.h"\|"ir/layout/box.h"\|"ir/abi/\|"ir/sanitized.h"\|"ir/verb.h"\|"plan_fbs.h"\|"willing.h"'
