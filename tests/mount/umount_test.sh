#!/usr/bin/env bash
# What umount does while the brick is well, dead or silent: it returns in time, the volume has been let go or it says what was not
# committed, and brickfs ends. With the umount helper where umount(8) finds it, in a mount namespace of its own.
. "$(dirname "$0")/umount_lib.sh"
start_brick tcp 512M

say "the brick is well: what umount returned for has been let go, after many names"
names=$(scaled 15000)
for round in 1 2 3; do
  mount_brickfs
  pid=$(brickfs_pid)
  python3 -c 'import os, sys
os.mkdir(sys.argv[1])
for i in range(int(sys.argv[2])): os.mknod(f"{sys.argv[1]}/{i}")' "$MNT/many$round" "$names"
  umount "$MNT"
  [ ! -d "/proc/$pid" ] || [ "$(state_of "$pid")" = Z ] || within 5 ended "$pid" || die "brickfs runs after umount"
  timeout 60 "$BRICKCTL" check "$SOURCE" >"$WORK/check.log" 2>&1 || die "check after umount (round $round): $(cat "$WORK/check.log")"
done

say "... also a brick in the client"
timeout 20 "$BRICKFS" "file:$WORK/embedded,64M" "$MNT"
echo kept >"$MNT/file"
umount "$MNT"
timeout 20 "$BRICKCTL" check "file:$WORK/embedded" >/dev/null || die "the store is in use after umount"

say "the brick stands still for a while: umount tells how far it is"
mount_logged
dd if=/dev/zero of="$MNT/much" bs=1M count=40 status=none
kill -STOP "$BRICKD_PID"
(sleep 5; kill -CONT "$BRICKD_PID") & BACKGROUND_PIDS+=("$!")
timed_umount "$MNT"
[ "$CODE" = 0 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
says '^[0-9]+ of [0-9]+ (MiB|operations) committed$'
[ -z "$(uniq -d "$WORK/said")" ] || die "umount repeats itself: $(cat "$WORK/said")"
within 10 ended "$PID" || die "brickfs outlives its umount"

say "another namespace has a copy of the mount: umount says so, brickfs goes on until that is gone"
mount_logged
unshare --mount --propagation private sleep 100 &
copy=$!
BACKGROUND_PIDS+=("$copy")
namespace_of() { readlink "/proc/$1/ns/mnt"; }
within 5 eval '[ "$(namespace_of "$copy")" != "$(namespace_of self)" ]' || die "no other namespace"
sleep 0.2
timed_umount "$MNT"
[ "$CODE" = 32 ] && [ "$TOOK_MS" -lt 6000 ] || die "umount: exit $CODE after $TOOK_MS ms: $(cat "$WORK/said")"
says 'mounted elsewhere'
ended "$PID" && die "brickfs has left a mount alone"
kill "$copy"
within 10 ended "$PID" || die "brickfs outlives the copy of its mount"

say "busy: as ever"
mount_logged
exec 5>"$MNT/open"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount of a busy mount: exit $CODE"
says busy
exec 5>&-
is_mounted || die "the busy mount is gone"

say "the brick dies, everything is committed: umount succeeds, and brickfs ends"
dd if=/dev/zero of="$MNT/synced" bs=64K count=1 conv=fsync status=none
kill_brickd
timed_umount "$MNT"
[ "$CODE" = 0 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
says_nothing
within 3 ended "$PID" || die "brickfs outlives its umount with nothing to commit"

say "the brick dies, something is not committed: umount says what, brickfs lingers, and says what was lost"
restart_brickd
mount_logged linger=12
touch "$MNT/settled"
sync "$MNT/settled"
kill_brickd
touch "$MNT/lost1" "$MNT/lost2"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount: exit $CODE though something is lost"
says 'not committed yet: [0-9]+ operation.*brick unreachable.*goes on trying for 12 s'
is_mounted && die "still mounted"
within 25 ended "$PID" || die "brickfs outlives its umount for longer than linger"
log_says 'not committed, and lost.*[0-9]+ operation'

say "... but is there if the brick comes back meanwhile"
restart_brickd
mount_logged linger=60
kill_brickd
touch "$MNT/late"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount: exit $CODE"
restart_brickd
within 20 ended "$PID" || die "brickfs does not end when the brick is back: $(cat "$WORK/mount.log")"
check_volume
mount_logged linger=2
[ -e "$MNT/late" ] || die "what was done is lost"

say "the brick is silent, programs wait in the kernel: umount -f succeeds the first time"
kill -STOP "$BRICKD_PID"
waiting=()
for i in $(seq 1 20); do  # more than there are threads that serve
  dd if=/dev/zero of="$MNT/direct$i" bs=4K count=1 oflag=direct status=none 2>/dev/null &
  waiting+=($!)
done
sync "$MNT/late" 2>/dev/null &
waiting+=($!)
sleep 0.5
timed_umount "$MNT"
[ "$CODE" = 32 ] && [ "$TOOK_MS" -lt 5000 ] || die "umount while programs wait: exit $CODE after $TOOK_MS ms"
says busy
timed_umount -f "$MNT"
[ "$CODE" = 0 ] || die "umount -f: exit $CODE: $(cat "$WORK/said")"
is_mounted && die "still mounted after umount -f"
for waits in "${waiting[@]}"; do wait "$waits" || true; done
within 40 ended "$PID" || die "brickfs outlives umount -f"
kill -CONT "$BRICKD_PID"

say "the brick is silent: umount"
mount_logged linger=2
kill -STOP "$BRICKD_PID"
touch "$MNT/silent"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount: exit $CODE though something is not committed"
says 'not committed'
within 40 ended "$PID" || die "brickfs outlives its umount"
kill -CONT "$BRICKD_PID"

say "the brick dies, and a program's mapping cannot be written back: busy for umount, gone with umount -l, and it ends with brickfs"
mount_logged linger=3
python3 - "$MNT/mapped" "$WORK/dirty" <<'P' &
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, bytes(1 << 16))
os.fsync(fd)
m = mmap.mmap(fd, 1 << 16)
bytes(m)  # in memory
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[2] + ".go"): time.sleep(0.05)
for i in range(0, 1 << 16, 4096): m[i] = 1
os._exit(0)
P
dirtier=$!
within 10 test -e "$WORK/dirty" || die "no file is mapped"
kill_brickd
touch "$WORK/dirty.go"
within 10 waits_in_kernel "$dirtier" || die "it does not wait"
timed_umount "$MNT"
[ "$CODE" = 32 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
says busy
timed_umount -l "$MNT"
[ "$CODE" = 0 ] || die "umount -l: exit $CODE: $(cat "$WORK/said")"
within 20 ended "$PID" || die "brickfs outlives an umount -l that the brick does not let end"
wait "$dirtier" || true

say "umount(2) alone: brickfs ends after its linger"
restart_brickd
mount_logged linger=3
kill_brickd
touch "$MNT/alone"
timeout 10 umount -i "$MNT" || die "umount -i: exit $?"
within 15 ended "$PID" || die "brickfs outlives umount(2)"

say "as at a shutdown, with a dead brick: umount, then SIGTERM"
restart_brickd
mount_logged
kill_brickd
touch "$MNT/shutdown"
timed_umount "$MNT"
[ "$CODE" = 32 ] && [ -d "/proc/$PID" ] || die "umount: exit $CODE: $(cat "$WORK/said")"
kill -TERM "$PID"
within 5 ended "$PID" || die "brickfs outlives a SIGTERM after umount"
log_says 'not committed, and lost.*[0-9]+ operation'

say "umount -l with a dead brick"
restart_brickd
mount_logged linger=2
exec 5<"$MNT/late"
kill_brickd
touch "$MNT/lazy"
timed_umount -l "$MNT"
[ "$CODE" = 0 ] || die "umount -l: exit $CODE: $(cat "$WORK/said")"
exec 5<&-
within 20 ended "$PID" || die "brickfs outlives umount -l"

for signal in TERM INT; do
  say "SIG$signal with a dead brick and a program that waits"
  restart_brickd
  mount_logged
  kill_brickd
  touch "$MNT/signalled"
  dd if=/dev/zero of="$MNT/direct" bs=4K count=1 oflag=direct status=none 2>/dev/null &
  waiting=$!
  sleep 0.2
  kill "-$signal" "$PID"
  within 15 ended "$PID" || die "SIG$signal does not end brickfs"
  is_mounted && die "SIG$signal leaves the mount"
  wait "$waiting" 2>/dev/null || true
  log_says 'not committed, and lost.*[0-9]+ operation'
done

say "taken over by another: nothing to wait for, nothing to complain of but that"
restart_brickd
mount_logged
touch "$MNT/before"
mkdir "$WORK/other"
timeout 20 "$BRICKFS" "$SOURCE" "$WORK/other" -o steal
touch "$MNT/after" 2>/dev/null || true
within 20 grep -q 'taken over' "$WORK/mount.log" || die "the first mount does not notice: $(cat "$WORK/mount.log")"
timed_umount "$MNT"
[ "$CODE" = 0 ] || die "umount: exit $CODE: $(cat "$WORK/said")"
[ "$TOOK_MS" -lt 5000 ] || die "umount of a volume that was taken over takes $TOOK_MS ms"
says 'taken over'
grep -q 'not committed' "$WORK/said" && die "umount complains: $(cat "$WORK/said")"
timeout 20 umount "$WORK/other"
check_volume
