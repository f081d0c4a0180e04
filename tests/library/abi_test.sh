#!/usr/bin/env bash
# Programs that were built with the library as it was go on working: abidiff finds no change to what brickfs.h says, with all its types, to
# what it said then, and the library has just those symbols.
#   abi_test.sh           against fs/library/libbrickfs.abi
#   abi_test.sh --renew   after an addition: writes that file anew
set -euo pipefail
build=${BRICKFS_BUILD:?set BRICKFS_BUILD to the build directory}
root=$(cd "$(dirname "$0")/../.." && pwd)
known=$root/fs/library/libbrickfs.abi library=$build/fs/library/libbrickfs.so.0
command -v abidiff >/dev/null || { echo "left out: no abidiff (abigail-tools)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A library of the header alone: in C, so that nothing that the real one is made of is described, too.
/usr/bin/env python3 - "$root/fs/library/brickfs.h" >"$work/interface.c" <<'PYTHON'
import re
import sys

print('#include "brickfs.h"')
for declared in re.findall(r"^BRICKFS_API ([^;]+);", open(sys.argv[1]).read(), re.M):
    print(declared, "{ __builtin_trap(); }")
PYTHON
cc -g -shared -fPIC -w -I "$root/fs/library" -Wl,--version-script="$root/fs/library/brickfs.map" -Wl,-soname,libbrickfs.so.0 \
  -o "$work/libbrickfs.so.0" "$work/interface.c"
symbols() { nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort; }
diff <(symbols "$work/libbrickfs.so.0") <(symbols "$library") || { echo "FAILED: the library has not the symbols that brickfs.h declares"; exit 1; }

if [ "${1:-}" = --renew ]; then
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$known" "$work/libbrickfs.so.0"
  exit 0
fi
abidiff --no-show-locs --harmless "$known" "$work/libbrickfs.so.0" ||
  { echo "FAILED: the above. An addition: tests/library/abi_test.sh --renew. Anything else: a new soname"; exit 1; }
