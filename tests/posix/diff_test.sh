#!/usr/bin/env bash
# The same random system calls on brickfs and on another file system: the same answers, the same trees.
#   diff_test.sh [SEED [SECONDS [PROCESSES]]]
# The reference is ext4 on a loop device; tmpfs, which does less, where there is none.
. "$(dirname "$0")/../mount/lib.sh"
seed=${1:-1} seconds=${2:-40} processes=${3:-2}
REFERENCE=$WORK/reference
mkdir "$REFERENCE"
unmount_reference() { if mountpoint -q "$REFERENCE"; then umount "$REFERENCE" || umount -l "$REFERENCE"; fi; }
trap 'status=$?; set +e; unmount_reference; (exit $status); clean_up' EXIT

without=()
truncate -s 2G "$WORK/ext4.img"
if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q -b 4096 -F "$WORK/ext4.img" && mount -o loop "$WORK/ext4.img" "$REFERENCE" 2>"$WORK/loop.log"; then
  say "reference: ext4"
  device=$(findmnt -n -o SOURCE "$REFERENCE")
  # Or ext4 writes zeros where a small part of a preallocated range is written, and calls them data.
  echo 0 >"/sys/fs/ext4/${device#/dev/}/extent_max_zeroout_kb"
else
  say "reference: tmpfs, as there is no loop device"
  mount -t tmpfs none "$REFERENCE"
  without=(--without zero_range,setxattr,lsetxattr,fsetxattr,listxattr,set_capability)
fi
start_brick memory 1G
mount_brickfs allow_other

run() { timeout 580 "$BUILD/tests/posix_diff" "$MNT" "$REFERENCE" "${without[@]}" "$@" || die "a difference"; }
say "one process, the same calls every time"
run --seed "$seed" --calls 6000
say "$processes processes side by side"
run --seed $((seed + 1000)) --seconds "$seconds" --processes "$processes"
unmount_brickfs
