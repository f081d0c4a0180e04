#!/usr/bin/env bash
# Programs that were built with the library as it was go on working: abidiff finds no change to what it was then.
#   abi_test.sh           against fs/library/libbrickfs.abi
#   abi_test.sh --renew   after an addition: writes that file anew
set -euo pipefail
build=${BRICKFS_BUILD:?set BRICKFS_BUILD to the build directory}
root=$(cd "$(dirname "$0")/../.." && pwd)
known=$root/fs/library/libbrickfs.abi library=$build/fs/library/libbrickfs.so.0
command -v abidiff >/dev/null || { echo "left out: no abidiff (abigail-tools)"; exit 77; }
if [ "${1:-}" = --renew ]; then
  abidw --headers-dir "$root/fs/library" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs --out-file "$known" "$library"
  exit 0
fi
abidiff --headers-dir2 "$root/fs/library" --drop-private-types --no-show-locs "$known" "$library" ||
  { echo "FAILED: the above. An addition: tests/library/abi_test.sh --renew. Anything else: a new soname"; exit 1; }
