#!/usr/bin/env bash
# Id-mapped mounts, as container engines make them of a directory of ours.
. "$(dirname "$0")/lib.sh"
start_brick memory 256M
chmod 755 "$WORK"  # other users come by there

say "an id-mapped mount of a directory"
mount_brickfs
status=0
timeout 60 python3 "$TESTS/mount/idmapped.py" "$MNT" || status=$?
[ "$status" != 77 ] || exit 77
[ "$status" = 0 ] || die "id-mapped"
unmount_brickfs

say "the kernel names nobody any more: allow_root goes by who asks"
mount_brickfs allow_root
mkdir "$MNT/a"
[ "$(ls "$MNT")" = a ] || die "root does not get in"
if setpriv --reuid 1234 --clear-groups ls "$MNT" >"$WORK/out" 2>&1; then die "another user gets in"; fi
unmount_brickfs
