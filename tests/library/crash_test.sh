#!/usr/bin/env bash
# A user of libbrickfs is killed at random moments: the next one opens the volume at once, and what was synced is there.
#   crash_test.sh tcp|rdma|file ROUNDS
. "$(dirname "$0")/../mount/lib.sh"
kind=$1 rounds=$2
load=$BUILD/tests/library_crash_load
RANDOM=${BRICKFS_SEED:-$$}
start_brick "$kind" 1G
for round in $(seq 1 "$rounds"); do
  "$load" run "$SOURCE" >"$WORK/synced" 2>"$WORK/load.log" &
  pid=$!
  BACKGROUND_PIDS+=("$pid")
  within 20 test -s "$WORK/synced" || die "round $round: nothing is synced"
  sleep "0.$((RANDOM % 900 + 100))"
  kill -9 "$pid"
  wait "$pid" 2>/dev/null || true
  [ ! -s "$WORK/load.log" ] || die "round $round: an error, or something was printed"
  last=$(grep -c . "$WORK/synced")
  began=$(now_ms)
  timeout 60 "$load" verify "$SOURCE" "$last" 2>"$WORK/verify.log" || die "round $round: $(cat "$WORK/verify.log")"
  say "round $round: $last synced, verified in $(($(now_ms) - began)) ms"
done
"$BRICKCTL" check "$SOURCE" >"$WORK/check.log" 2>&1 || die "brickctl check finds damage"
say "mounted, it is the same file system"
mount_brickfs
printf 'by a mount\n' >"$MNT/file1"
unmount_brickfs
"$load" verify "$SOURCE" 1 2>"$WORK/verify.log" && die "a changed file passes for synced"
grep -q 'file1 is not as it was synced' "$WORK/verify.log" || die "$(cat "$WORK/verify.log")"
