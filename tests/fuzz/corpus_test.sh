#!/usr/bin/env bash
# Each parser of foreign bytes with the inputs that are kept: seeds, and what once was a finding.
set -euo pipefail
fuzz=${BRICKFS_BUILD:?}/tests/brickfs-fuzz
corpus=$(dirname "$0")/corpus
for target in $("$fuzz" --list); do
  "$fuzz" "$target" "$corpus/$target" 2>/dev/null || { echo "FAILED: $target with the input that was named last"; exit 1; }
done
for directory in "$corpus"/*/; do  # none is of a target that is gone
  "$fuzz" --list | grep -qx "$(basename "$directory")" || { echo "FAILED: no target for $directory"; exit 1; }
done
