#!/usr/bin/env bash
# A brick that is away: soft mounts fail in time; hard ones wait, and still unmount when told to; all answer what they know.
. "$(dirname "$0")/../mount/lib.sh"
start_brick tcp 256M
say "soft"
mount_brickfs soft,timeo=2
head -c 1000000 /dev/urandom >"$MNT/file"
sync "$MNT/file"
kill_brickd KILL
echo 3 >/proc/sys/vm/drop_caches
began=$(now_ms)
if timeout 20 dd if="$MNT/file" of=/dev/null bs=64k iflag=direct status=none 2>"$WORK/err"; then die "a read without a brick succeeds"; fi
took=$(($(now_ms) - began))
grep -q 'Input/output error' "$WORK/err" && [ "$took" -ge 1000 ] && [ "$took" -le 6000 ] || die "after $took ms: $(cat "$WORK/err")"
timeout 5 ls -l "$MNT" >/dev/null && timeout 5 df "$MNT" >/dev/null || die "ls or df hangs"
timeout 30 umount "$MNT" || die "umount hangs"
within 30 bash -c "! pgrep -f '^$BRICKFS .*$MNT' >/dev/null" || die "brickfs stays after umount"
say "hard: waits, goes on"
restart_brickd
mount_brickfs
[ "$(stat -c %s "$MNT/file")" = 1000000 ] || die "the file is gone"
kill_brickd KILL
dd if="$MNT/file" of="$WORK/read" bs=64k iflag=direct status=none &
reader=$!
BACKGROUND_PIDS+=("$reader")
sleep 3
kill -0 "$reader" || die "a hard mount gave up"
restart_brickd
wait "$reader" || die "the reader failed"
cmp "$WORK/read" "$MNT/file"
say "hard: SIGTERM ends it although the brick is away"
kill_brickd KILL
dd if="$MNT/file" of=/dev/null bs=64k iflag=direct status=none 2>/dev/null &
BACKGROUND_PIDS+=($!)
sleep 0.5
pid=$(brickfs_pid)
kill -TERM "$pid"
within 30 test ! -d "/proc/$pid" || die "SIGTERM does not end brickfs"
within 5 bash -c "! grep -q ' $MNT fuse' /proc/self/mounts" || die "the mount stays after SIGTERM"
