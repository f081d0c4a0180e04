#!/usr/bin/env bash
# A volatile brick that comes back has lost its data: the mount says so with errors and never shows zeros as data.
. "$(dirname "$0")/../mount/lib.sh"
start_brickd --memory 256M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
head -c 3000000 /dev/urandom >"$MNT/file"
cp "$MNT/file" "$WORK/copy"
kill_brickd KILL
restart_brickd
sleep 1
status=0
echo 3 >/proc/sys/vm/drop_caches
timeout 20 dd if="$MNT/file" of="$WORK/read" bs=64k iflag=direct status=none 2>"$WORK/err" || status=$?
[ "$status" = 1 ] && grep -q 'Input/output error' "$WORK/err" || die "reading lost data: exit $status: $(cat "$WORK/err")"
if timeout 20 sh -c "echo x >'$MNT/new' && sync '$MNT/new'" 2>/dev/null; then die "writing onto lost metadata succeeds"; fi
timeout 20 umount "$MNT" || die "umount hangs"
