#!/usr/bin/env bash
# A volume that cannot be had yet: bg and retry=, as with NFS.
. "$(dirname "$0")/lib.sh"
ended() { [ ! -d "/proc/$1" ]; }
not_mounted() { ! is_mounted "$@"; }
# A port on which nobody listens: brickd's, after it has ended.
start_brickd --memory 128M --file "$WORK/store" --size 128M --volume other
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
echo kept >"$MNT/file"
unmount_brickfs
kill_brickd TERM

say "without them a mount fails at once"
began=$(now_ms)
if "$BRICKFS" "$SOURCE" "$MNT" 2>"$WORK/err"; then die "mounted from nowhere"; fi
[ $(($(now_ms) - began)) -lt 3000 ] || die "it takes $(($(now_ms) - began)) ms"

say "bg: returns at once, and mounts when the brick is there"
began=$(now_ms)
"$BRICKFS" "$SOURCE" "$MNT" -o bg 2>"$WORK/err" || die "bg fails: $(cat "$WORK/err")"
[ $(($(now_ms) - began)) -lt 3000 ] || die "bg takes $(($(now_ms) - began)) ms"
grep -q 'no brickd listens there.*; trying again in the background$' "$WORK/err" || die "bg says: $(cat "$WORK/err")"
sleep 2
is_mounted && die "mounted from nowhere"
restart_brickd
within 45 is_mounted || die "bg does not mount once the brick is there"
[ "$(cat "$MNT/file")" = kept ] || die "the file is not kept"
unmount_brickfs

say "... until something is mounted there"
kill_brickd TERM
"$BRICKFS" "$SOURCE" "$MNT" -o bg 2>"$WORK/err" || die "bg fails: $(cat "$WORK/err")"
waiting=$(brickfs_pid)
mount -t tmpfs other "$MNT"
touch "$MNT/busy"
within 45 ended "$waiting" || die "it goes on trying"
umount "$MNT"

say "... and not when trying again does not help"
restart_brickd
if "$BRICKFS" "${SOURCE%/*}/nosuch" "$MNT" -o bg 2>"$WORK/err"; then die "bg tries for a volume that does not exist"; fi
grep -q 'has no volume' "$WORK/err" || die "bg says: $(cat "$WORK/err")"

say "bg waits for a holder, retry=0 does not"
mkdir "$WORK/holder"
# Its mount is not seen here, as another host's.
unshare --mount --propagation private "$BRICKFS" "${SOURCE%/*}/other" "$WORK/holder" -f 2>>"$WORK/holder.log" &
holder=$!
BACKGROUND_PIDS+=("$holder")
within 10 grep -q 'is mounted at' "$WORK/holder.log" || die "not mounted"
if "$BRICKFS" "${SOURCE%/*}/other" "$MNT" -o bg,retry=0 2>"$WORK/err"; then die "retry=0 tries again"; fi
grep -q 'held by' "$WORK/err" || die "retry=0 says: $(cat "$WORK/err")"
"$BRICKFS" "${SOURCE%/*}/other" "$MNT" -o bg 2>"$WORK/err" || die "bg fails: $(cat "$WORK/err")"
grep -q 'held by.*; trying again in the background' "$WORK/err" || die "bg says: $(cat "$WORK/err")"
kill -TERM "$holder"
within 45 is_mounted || die "bg does not mount once the volume is free"
unmount_brickfs

say "retry= without bg: mount waits"
kill_brickd TERM
(sleep 2; exec "$BRICKD" --listen "tcp://127.0.0.1:$BRICKD_PORT" --foreground "${BRICKD_ARGS[@]}" 2>>"$WORK/brickd.log") &
BRICKD_PID=$!
timeout 75 "$BRICKFS" "$SOURCE" "$MNT" -o retry=1 2>"$WORK/err" || die "retry=1 fails: $(cat "$WORK/err")"
is_mounted || die "retry=1 returns 0, and nothing is mounted"
unmount_brickfs
