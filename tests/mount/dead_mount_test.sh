#!/usr/bin/env bash
# A mount of which the kernel ended the connection stays where it is, dead: no program finds the directory below. And what
# fs.fuse.max_request_timeout would end does not get that far.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
. "$(dirname "$0")/lib.sh"
mountpoint -q /sys/fs/fuse/connections || mount -t fusectl connections /sys/fs/fuse/connections
SYSCTL=/proc/sys/fs/fuse/max_request_timeout
DEFAULT=/proc/sys/fs/fuse/default_request_timeout
ended() { [ ! -d "/proc/$1" ]; }
touch "$MNT/below"
is_dead() {
  is_mounted || die "$1: the mount is gone, the directory below is open"
  [ ! -e "$MNT/below" ] || die "$1: the directory below is open"
  local says; says=$(LC_ALL=C ls "$MNT" 2>&1 || true)
  case $says in *'endpoint is not connected'* | *'caused connection abort'*) ;; *) die "$1: ls says: $says" ;; esac
}
start_brickd --memory 256M --file "$WORK/store" --size 256M --volume patient
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default

say "aborted"
mount_brickfs
pid=$(brickfs_pid)
minor=$(mountpoint -d "$MNT" | cut -d: -f2)
echo kept >"$MNT/file"
exec 5<"$MNT/file"
echo 1 >"/sys/fs/fuse/connections/$minor/abort"
exec 5<&-
within 20 ended "$pid" || die "brickfs does not end"
is_dead "aborted"

say "a mount that fails leaves it"
if timeout 60 "$BRICKFS" tcp://127.0.0.1:1/default "$MNT" 2>"$WORK/err"; then die "mounted from nowhere"; fi
is_dead "after a mount that failed"

say "a mount that succeeds takes its place"
mount_brickfs
[ "$(cat "$MNT/file")" = kept ] || die "not what was written before"

say "killed"
pid=$(brickfs_pid)
kill -9 "$pid"
within 20 ended "$pid" || die "it cannot be killed"
is_dead "killed"
umount "$MNT" || die "umount of a dead mount fails"
[ -e "$MNT/below" ] || die "umount leaves something"

[ -w "$SYSCTL" ] || { say "this kernel has no limit on requests"; exit 0; }

say "a limit on requests is noticed, and kept"
before=$(cat "$SYSCTL")
usual=$(cat "$DEFAULT")
trap 'echo "$before" >"$SYSCTL"; echo "$usual" >"$DEFAULT"; exit 143' TERM INT
mkdir "$WORK/patient"
echo 15 >"$DEFAULT"  # of which we ask to be excused
timeout 60 "$BRICKFS" "${SOURCE%/*}/patient" "$WORK/patient" -o "io_uring=${BRICKFS_IO_URING:-auto}" 2>>"$WORK/brickfs.log" || true
within 5 stat -f "$WORK/patient" || true
echo "$usual" >"$DEFAULT"
is_mounted "$WORK/patient" || die "not mounted under a default limit"
echo 15 >"$SYSCTL"
status=0
timeout 60 "$BRICKFS" "$SOURCE" "$MNT" -o "io_uring=${BRICKFS_IO_URING:-auto}" 2>"$WORK/err" || status=$?
within 5 stat -f "$MNT" || status=1  # FUSE_INIT has been answered
echo "$before" >"$SYSCTL"
[ "$status" = 0 ] || die "mount fails: $(cat "$WORK/err")"
grep -q 'max_request_timeout' "$WORK/err" || die "no warning: $(cat "$WORK/err")"
pid=$(brickfs_pid)
dd if=/dev/zero of="$MNT/there" bs=1M count=1 conv=fsync status=none
kill -STOP "$BRICKD_PID"
dd if=/dev/zero of="$WORK/patient/direct" bs=4K count=1 oflag=direct status=none &
patient=$!
begin=$(now_ms)
answers=$WORK/answers
mkdir "$answers"
waiting=()
for i in $(seq 1 20); do  # more than there are threads that serve
  { dd if=/dev/zero of="$MNT/new$i" bs=4K count=1 oflag=direct status=none 2>"$answers/write$i" || echo $(($(now_ms) - begin)) >"$answers/write$i.ms"; } &
  waiting+=($!)
  { dd if="$MNT/there" of=/dev/null bs=4K skip="$i" count=1 iflag=direct status=none 2>"$answers/read$i" || echo $(($(now_ms) - begin)) >"$answers/read$i.ms"; } &
  waiting+=($!)
done
{ sync "$MNT/there" 2>"$answers/sync" || echo $(($(now_ms) - begin)) >"$answers/sync.ms"; } &
waiting+=($!)
within 25 wait "${waiting[@]}" || true
wait "${waiting[@]}" || true
grep -L 'Input/output error' "$answers"/write? "$answers"/read? | sed 's/^/not EIO: /' >&2
[ "$(cat "$answers"/*.ms | sort -n | tail -n 1)" -lt 15000 ] || die "answered after $(cat "$answers"/*.ms | sort -n | tail -n 1) ms"
[ "$(ls "$answers"/read*.ms | wc -l)" = 20 ] || die "reads from a brick that is silent succeed"
while [ $(($(now_ms) - begin)) -lt 34000 ]; do  # the kernel looks every 15 s
  timeout 14 cat "$MNT/there" >/dev/null 2>&1 || true
  sleep 0.5
done
is_mounted && [ ! -e "$MNT/below" ] && stat -f "$MNT" >/dev/null || die "the kernel has ended the mount"

kill -0 "$patient" 2>/dev/null && stat -f "$WORK/patient" >/dev/null || die "a default limit ends a hard mount"

say "the brick is back: everything works"
kill -CONT "$BRICKD_PID"
wait "$patient" || die "what waited under a default limit fails: exit $?"
unmount_brickfs "$WORK/patient"
within 20 dd if=/dev/zero of="$MNT/after" bs=4K count=1 conv=fsync status=none || die "nothing works when the brick is back"
[ "$(brickfs_pid)" = "$pid" ] || die "another brickfs"
unmount_brickfs
check_volume
