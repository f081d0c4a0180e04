#!/usr/bin/env bash
# A brick that was killed and comes back keeps the volume for the client that held it: nothing that lives loses what it wrote. Who is known to
# have ended, or has closed it, holds nobody up.
. "$(dirname "$0")/../mount/lib.sh"
command -v unshare >/dev/null || { say "no unshare"; exit 77; }
start_brickd --memory 64M --file "$WORK/store" --size 512M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
OTHER=$WORK/other
mkdir "$OTHER"

mount_other() { timeout 60 "$BRICKFS" "$SOURCE" "$OTHER" "$@" 2>"$WORK/other.log"; }
took() { echo $(($(now_ms) - $1)); }
restart() { kill_brickd KILL; restart_brickd; }

say "the holder, who does not come back at once, keeps what he has not synced; another waits, and is refused"
mount_brickfs
holder=$(brickfs_pid)
for i in $(seq 50); do head -c 100000 /dev/urandom >"$MNT/file$i"; done
before=$(tree_checksum "$MNT")
kill -STOP "$holder"
restart
( sleep 8; kill -CONT "$holder" ) &  # a refused check takes four seconds
BACKGROUND_PIDS+=("$!")
sleep 0.5
"$BRICKCTL" status "$SOURCE" | grep 'holder:.*kept for it for [0-9]* s more' || { kill -CONT "$holder"; die "status does not say for whom the volume is kept"; }
"$BRICKCTL" check "$SOURCE" >"$WORK/check.log" 2>&1 && { kill -CONT "$holder"; die "a check takes the volume from its holder"; }
grep -q 'kept for it' "$WORK/check.log" || { kill -CONT "$holder"; die "a refused check does not say why: $(cat "$WORK/check.log")"; }
if as_another_host timeout 60 "$BRICKFS" "$SOURCE" "$OTHER" 2>"$WORK/other.log"; then kill -CONT "$holder"; die "another mounts while the holder is on his way back"; fi
grep -q 'kept for it for [0-9]* s more.*waiting' "$WORK/other.log" || die "who waits does not say so: $(cat "$WORK/other.log")"
tail -n 1 "$WORK/other.log" | grep 'is held by' >/dev/null || die "who is refused does not say by whom: $(cat "$WORK/other.log")"
[ "$(tree_checksum "$MNT")" = "$before" ] || die "a mount that lives has lost what it wrote"
"$BRICKCTL" status "$SOURCE" | grep 'holder:' | grep -v 'kept' >/dev/null || die "status says that the volume is kept for one who is there"

say "steal need not wait"
kill -STOP "$holder"
restart
began=$(now_ms)
mount_other -o steal || { kill -CONT "$holder"; die "steal is refused: $(cat "$WORK/other.log")"; }
kill -CONT "$holder"
[ "$(took "$began")" -lt 5000 ] || die "steal waited: $(took "$began") ms"
umount -l "$MNT"
within 30 test ! -d "/proc/$holder" || die "who was cut off does not end"

say "after a clean unmount nothing is kept"
unmount_brickfs "$OTHER"
restart
began=$(now_ms)
mount_brickfs
[ "$(took "$began")" -lt 8000 ] || die "a mount after an unmount took $(took "$began") ms"

say "nor for a holder of this machine who was killed"
kill -9 "$(brickfs_pid)"
umount -l "$MNT"
restart
began=$(now_ms)
mount_brickfs
[ "$(took "$began")" -lt 3000 ] || die "a mount after both were killed took $(took "$began") ms"
unmount_brickfs

say "of a holder elsewhere it is not known: the mount waits as long as he has, and says so"
unshare --pid --fork --kill-child "$BRICKFS" "$SOURCE" "$MNT" -f 2>>"$WORK/brickfs.log" &
elsewhere=$!
BACKGROUND_PIDS+=("$elsewhere")
within 20 is_mounted || die "no mount in another pid namespace: $(tail -n 1 "$WORK/brickfs.log")"
echo kept >"$MNT/kept"
sync -d "$MNT/kept"
kill -9 "$elsewhere"
within 10 sh -c "! kill -0 $elsewhere" || die "who was killed stays"
umount -l "$MNT"
restart
began=$(now_ms)
mount_brickfs
[ "$(took "$began")" -gt 5000 ] || die "a volume that may have a holder elsewhere was given away after $(took "$began") ms"
grep -q 'kept for it for [0-9]* s more.*waiting' "$WORK/brickfs.log" || die "who waits does not say so"
[ "$(cat "$MNT/kept")" = kept ] || die "what was synced is lost"
unmount_brickfs
check_volume
