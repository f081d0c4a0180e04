#!/usr/bin/env bash
# A sparse file that is stored to through a live mapping, and who looks for its data meanwhile: backups, and others while the brick is away.
. "$(dirname "$0")/lib.sh"
start_brick tcp 1G
run() { timeout 120 python3 "$TESTS/mount/mapped_holes.py" "$1" "$MNT" "${@:2}" || die "$1"; }

say "write-through: a backup has all that was stored, and holes are holes"
mount_brickfs
run holes
run copies
say "... and with a brick that is away nobody waits"
run away "$BRICKD_PID"
rm "$MNT"/seek*
say "... nor for the end of brickfs"
pid=$(brickfs_pid "$MNT")
run ended "$BRICKD_PID" "$pid"
within 30 test ! -d "/proc/$pid" || die "brickfs does not end"

if [ -z "${BRICKFS_WRITEBACK:-}${BRICKFS_SHARED:-}" ]; then  # it is off on a shared volume
  say "the kernel's write-back cache: a backup has all that was stored"
  BRICKFS_WRITEBACK=auto mount_brickfs
  run copies
  BRICKFS_WRITEBACK=auto run holes
  unmount_brickfs
fi
check_volume
