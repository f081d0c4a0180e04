#!/usr/bin/env bash
# The source files that a write of 4 KiB goes through, from the kernel's request to its answer: on one durable brick, over bytes that are there and behind
# the end of the file; then on two copies. As root, with BRICKFS_BUILD=build/test.
. "$(dirname "$0")/../etcd/lib.sh"

files_of_writes() {
  dd if=/dev/zero of="$MNT/file" bs=1M count=1 conv=fsync status=none
  local offset
  for offset in 65536 1048576; do
    say "$1, a write at $offset of 1048576 bytes"
    timeout 120 "$TESTS/cost/files_crossed" "$(brickfs_pid)" "$MNT/file" "$offset" || die "nothing was counted"
  done
  unmount_brickfs
}

for name in a b c; do start_brick_of_set "$name"; done
SOURCE=$(brick c)/default
mount_brickfs io_uring=off,writeback=off
files_of_writes "one brick"

start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"
mount_brickfs io_uring=off,writeback=off
files_of_writes "two copies"
