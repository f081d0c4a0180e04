#!/usr/bin/env bash
# kill -9 of the client in the middle of writes that the kernel sends in parts.
#   large_write_test.sh ROUNDS
. "$(dirname "$0")/../mount/lib.sh"
rounds=$1
load=$TESTS/crash/large_write_load.py
start_brick tcp 1G
for round in $(seq 1 "$rounds"); do
  mount_brickfs
  rm -f "$WORK/log"
  "$load" run "$MNT/file" "$WORK/log" 2>/dev/null &
  pid=$!
  BACKGROUND_PIDS+=("$pid")
  within 10 test -s "$MNT/file" || die "round $round: nothing is written"
  sleep "0.$((RANDOM % 90 + 10))"
  kill -9 "$(brickfs_pid)"
  wait "$pid" 2>/dev/null || true
  umount -l "$MNT" 2>/dev/null || true
  mount_brickfs
  "$load" verify "$MNT/file" "$WORK/log" || die "round $round"
  rm -f "$MNT/file"
  unmount_brickfs
  check_volume
done
say "$rounds rounds"
