#!/usr/bin/env bash
# The same random system calls on brickfs and on another file system: the same answers, the same trees.
#   diff_test.sh [SEED [SECONDS [PROCESSES]]]
. "$(dirname "$0")/reference.sh"
seed=${1:-1} seconds=${2:-40} processes=${3:-2}
make_reference
without=()
[ "$REFERENCE_TYPE" = ext4 ] || without=(--without zero_range,setxattr,lsetxattr,fsetxattr,listxattr,set_capability)
# With the kernel's write-back cache times and holes are the kernel's (docs/posix.md): these stamp in another way, and all is data.
[ "${BRICKFS_WRITEBACK:-off}" = off ] || without+=(--without set_acl,setxattr,lsetxattr,fsetxattr,truncate,seek_data)
start_brick memory 1G
mount_brickfs allow_other

run() { timeout $((seconds + 540)) "${BY_RING[@]}" "$BUILD/tests/posix_diff" "$MNT" "$REFERENCE" "${without[@]}" "$@" || die "a difference"; }
say "one process, the same calls every time"
run --seed "$seed" --calls 6000
say "$processes processes side by side"
run --seed $((seed + 1000)) --seconds "$seconds" --processes "$processes"
unmount_brickfs
