#!/usr/bin/env bash
# Each parser of foreign bytes by libFuzzer, so many seconds, one beside the other on each processor. A finding is left in build/fuzz/findings; it belongs in
# tests/fuzz/corpus when it is mended.
#   fuzz_test.sh BRICKFS_FUZZ SECONDS [TARGET...]
set -euo pipefail
fuzz=$1 seconds=$2; shift 2
corpus=$(cd "$(dirname "$0")" && pwd)/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
findings=$(dirname "$(dirname "$fuzz")")/findings
mkdir -p "$findings"
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <("$fuzz" --list)

fuzz_one() {
  local target=$1 status=0
  mkdir -p "$work/$target"
  "$fuzz" "$target" "$work/$target" "$corpus/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -artifact_prefix="$findings/$target-" \
    -print_final_stats=1 -close_fd_mask=1 >"$work/$target.log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$work/$target.log" | tail -1)
  echo "$target: ${runs:-?} inputs, ${edges:-?} edges"
  [ "$status" = 0 ] || { tail -n 40 "$work/$target.log"; echo "FAILED: $target"; return 1; }
}
export -f fuzz_one; export fuzz seconds corpus work findings
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
