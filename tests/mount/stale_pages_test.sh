#!/usr/bin/env bash
# Asynchronous O_DIRECT writes beside readers through the page cache: these find what was written.
#   stale_pages_test.sh tcp|file|memory [SECONDS]
. "$(dirname "$0")/lib.sh"
seconds=${2:-4}
start_brick "$1" 512M
for options in "" writeback=on; do
  [ "$options" != writeback=on ] || [ -z "${BRICKFS_SHARED:-}" ] || continue  # it is refused there
  mount_brickfs "$options"
  for depth in 8 100; do  # 100: more than the kernel has under way at once
    say "${options:-write-through}, $depth writes at a time"
    timeout $((seconds * 5 + 30)) "$BUILD/tests/stale_pages" "$MNT/file" "$seconds" "$depth" || die "a reader finds what was there before"
  done
  unmount_brickfs
  [ "$1" != memory ] && check_volume
done
say "done"
