#!/usr/bin/env bash
# The same random calls through libbrickfs and as system calls on another file system: the same answers, the same trees.
#   diff_test.sh CALLS SEED...
. "$(dirname "$0")/../posix/reference.sh"
calls=$1; shift
make_reference
for seed in "$@"; do
  mkdir "$REFERENCE/tree"
  say "seed $seed"
  timeout 300 "$BUILD/tests/library_diff" memory:512M "$REFERENCE/tree" "$seed" "$calls" || die "a difference, seed $seed"
  rm -rf "$REFERENCE/tree"
done
