#!/usr/bin/env bash
# The command line of brickfs, mount(8) and fstab, and how a mount ends.
. "$(dirname "$0")/lib.sh"
start_brick file 256M
ended() { [ ! -d "/proc/$1" ]; }
not_mounted() { ! is_mounted "$@"; }

say "usage"
"$BRICKFS" --help | grep 'SOURCE' >/dev/null || die "--help says nothing"
"$BRICKFS" --version | grep '^brickfs [0-9]' >/dev/null || die "--version says nothing"
usage() {
  local status=0
  "$BRICKFS" "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
  [ "$status" = 2 ] && [ "$(wc -l <"$WORK/err")" = 1 ] || die "brickfs $*: exit $status: $(cat "$WORK/err")"
}
usage
usage "$SOURCE"
usage "$SOURCE" "$MNT" more
for option in timeo=soon timeo=0 linger=0 linger=long writeback=maybe io_uring=maybe ring=auto log=loud secret= readonly; do usage "$SOURCE" "$MNT" -o "$option"; done
if [ ! -e /sys/module/fuse/parameters/enable_uring ]; then
  if "$BRICKFS" "$SOURCE" "$MNT" -o io_uring=on 2>"$WORK/err"; then die "io_uring=on is accepted"; fi
  grep -q 'io_uring=on: .*has no io_uring' "$WORK/err" || die "io_uring=on: $(cat "$WORK/err")"
fi

if [ -w "${ring_switch:=/sys/module/fuse/parameters/enable_uring}" ] && [ "$(cat "$ring_switch")" = N ]; then
  say "io_uring=on leaves the host's switch as it was, also beside another such mount"
  mkdir "$WORK/second"
  "$BRICKFS" memory:64M "$WORK/second" -f -o io_uring=on 2>"$WORK/second.log" &
  BACKGROUND_PIDS+=($!)
  "$BRICKFS" "$SOURCE" "$MNT" -f -o io_uring=on 2>"$WORK/first.log" &
  BACKGROUND_PIDS+=($!)
  for mounted in first second; do within 20 grep -q 'is mounted at' "$WORK/$mounted.log" || die "not mounted: $(cat "$WORK/$mounted.log")"; done
  [ "$(cat "$ring_switch")" = N ] || die "io_uring=on leaves the switch on"
  for dir in "$MNT" "$WORK/second"; do
    dd if=/dev/urandom of="$dir/ring" bs=64K count=20 oflag=direct status=none
    cat "$dir/ring" | cmp - "$dir/ring" || die "not what was written"
    umount "$dir"
  done
  for mounted in first second; do
    grep -q 'requests come over io_uring' "$WORK/$mounted.log" || die "io_uring=on is not used: $(cat "$WORK/$mounted.log")"
    grep -q 'switched on for this mount, and off again' "$WORK/$mounted.log" || die "it does not say so: $(cat "$WORK/$mounted.log")"
    grep -q 'refuses' "$WORK/$mounted.log" && die "$(cat "$WORK/$mounted.log")"
  done
  within 20 not_mounted || die "still mounted"
fi

say "read-only"
mount_brickfs defaults,noauto,nofail,_netdev,x-systemd.automount,noatime,nodiratime,noexec,hard,io_uring=auto
grep " $MNT fuse.brickfs " /proc/self/mounts | grep 'nodev' >/dev/null && die "a mount by root has no devices"
grep " $MNT fuse.brickfs " /proc/self/mounts | grep 'noexec' >/dev/null || die "noexec is not passed on"
echo kept >"$MNT/file"
unmount_brickfs
mount_brickfs ro,nodev,nosuid
[ "$(cat "$MNT/file")" = kept ] || die "the file is not kept"
if touch "$MNT/new" 2>"$WORK/err"; then die "a read-only mount can be written"; fi
grep -q 'Read-only' "$WORK/err" || die "a read-only mount says: $(cat "$WORK/err")"
unmount_brickfs

say "memory: a bound, and what happens when there is none left"
mount_brickfs max_metadata=1M
python3 - "$MNT" <<'PYTHON' || die "max_metadata=1M"
import errno, os, sys
made = 0
try:
    while made < 50000:
        os.mknod(f"{sys.argv[1]}/file{made}")
        made += 1
except OSError as error:
    assert error.errno == errno.ENOSPC, error
assert 1000 < made < 50000, made
assert os.statvfs(sys.argv[1]).f_ffree == 0, os.statvfs(sys.argv[1])
for i in range(100, 600):
    os.unlink(f"{sys.argv[1]}/file{i}")
os.mknod(f"{sys.argv[1]}/again")
PYTHON
[ "$(grep -c 'as much as max_metadata= allows' "$WORK/brickfs.log")" = 1 ] || die "the log does not say once why"
if (echo -500 >/proc/self/oom_score_adj) 2>/dev/null; then
  [ "$(cat "/proc/$(brickfs_pid)/oom_score_adj")" = -500 ] || die "oom_score_adj is $(cat "/proc/$(brickfs_pid)/oom_score_adj")"
fi
unmount_brickfs
usage "$SOURCE" "$MNT" -o max_metadata=little

say "remount, and the options that every file system takes"
mount_brickfs nosymfollow,lazytime,silent,mand,nomand,iversion,context=system_u:object_r:tmp_t:s0,comment=x,uhelper=fuse.brickfs
mount_options() { awk -v at="$MNT" '$2 == at { print $4 }' /proc/self/mounts | tail -n 1; }
has_option() { mount_options | tr , '\n' | grep -xF "$1" >/dev/null; }
ln -s file "$MNT/symlink"
if cat "$MNT/symlink" 2>/dev/null; then die "nosymfollow is not passed on"; fi
"$BRICKFS" "$SOURCE" "$MNT" -o remount,ro,noexec,uhelper=fuse.brickfs,helper=fuse || die "remount fails"
has_option ro && has_option noexec || die "remount does nothing: $(mount_options)"
"$BRICKFS" "$SOURCE" "$MNT" -o remount,rw,user_id=0,group_id=0,allow_other || die "remount fails"
has_option rw && ! has_option noexec || die "remount does nothing: $(mount_options)"
[ "$(cat "$MNT/symlink")" = kept ] || die "remount did not take nosymfollow away"
for option in soft timeo=7 writeback=on; do
  if "$BRICKFS" "$SOURCE" "$MNT" -o "remount,$option" 2>"$WORK/out"; then die "remount,$option is taken, and nothing is done"; fi
  grep "goes by other options than $option" "$WORK/out" >/dev/null || die "remount,$option: $(cat "$WORK/out")"
done
"$BRICKFS" "$SOURCE" "$MNT" -o remount,hard,rw || die "remount with an option that it goes by"
rm "$MNT/symlink"
unmount_brickfs

say "sync and dirsync: what has returned is durable"
start_brickd --memory 128M --file "$WORK/synced" --size 128M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
commits() { "$BRICKCTL" status "$SOURCE" | awk '/^commits:/ { print $2 }'; }
for option in sync dirsync async; do
  mount_brickfs "$option"
  before=$(commits)
  python3 - "$MNT/$option" <<'P'
import os, sys
os.mkdir(sys.argv[1])
for i in range(30):
    os.mkdir(f"{sys.argv[1]}/{i}"); os.rename(f"{sys.argv[1]}/{i}", f"{sys.argv[1]}/n{i}"); os.rmdir(f"{sys.argv[1]}/n{i}")
P
  names=$(($(commits) - before))
  before=$(commits)
  python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for i in range(30): os.write(fd, b"x" * 100)' "$MNT/$option/file"
  writes=$(($(commits) - before))
  case $option in
    sync) [ "$names" -ge 90 ] && [ "$writes" -ge 30 ] ;;
    dirsync) [ "$names" -ge 90 ] && [ "$writes" -lt 25 ] ;;
    async) [ "$names" -lt 60 ] && [ "$writes" -lt 25 ] ;;
  esac || die "$option: $names commits for 90 changes of names, $writes for 30 writes"
  unmount_brickfs
done

say "dirsync: a change that is made although it fails is seen when the brick is back"
mount_brickfs soft,timeo=1,dirsync
python3 "$TESTS/mount/unsynced_names.py" prepare "$MNT"
kill -STOP "$BRICKD_PID"
status=0
timeout 60 python3 "$TESTS/mount/unsynced_names.py" change "$MNT" || status=$?
kill -CONT "$BRICKD_PID"
[ "$status" = 0 ] || die "changes without a brick"
within 20 python3 "$TESTS/mount/unsynced_names.py" check "$MNT" || python3 "$TESTS/mount/unsynced_names.py" check "$MNT" || die "not what is there"
unmount_brickfs
kill_brickd
start_brick file 256M

say "root's mounts are for everybody, within modes and owners"
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$WORK"
mount_brickfs
install -d -m 700 -o 65534 -g 65534 "$MNT/home"
install -d -m 700 "$MNT/private"
as_nobody sh -c "echo mine >'$MNT/home/file'" || die "a user cannot write into a directory of his own"
[ "$(as_nobody cat "$MNT/home/file")" = mine ] || die "a user cannot read his own file"
if as_nobody ls "$MNT/private" 2>"$WORK/err"; then die "a user reads a directory of root's"; fi
grep -q 'Permission denied' "$WORK/err" || die "another's directory says: $(cat "$WORK/err")"
unmount_brickfs
mount_brickfs noallow_other
if as_nobody ls "$MNT" 2>"$WORK/err"; then die "noallow_other lets others in"; fi
unmount_brickfs

say "a user's mount is his alone, and fusermount3's reasons are repeated"
install -d -o 65534 -g 65534 "$WORK/user" "$WORK/user/mnt"
cp "$BRICKFS" "$WORK/brickfs"  # where everybody finds it
as_nobody "$WORK/brickfs" memory:64M "$WORK/user/mnt"
if ls "$WORK/user/mnt" 2>/dev/null; then die "root sees a user's mount"; fi
unmount_as_user "$WORK/user/mnt" as_nobody
mkdir "$WORK/others"
if as_nobody "$WORK/brickfs" memory:64M "$WORK/others" 2>"$WORK/err"; then die "a user mounts on root's directory"; fi
grep -qx "brickfs: cannot mount at $WORK/others: user has no write access to mountpoint.*" "$WORK/err" || die "not the reason: $(cat "$WORK/err")"
[ "$(wc -l <"$WORK/err")" = 1 ] || die "not one line: $(cat "$WORK/err")"
if ! grep -qx user_allow_other /etc/fuse.conf 2>/dev/null; then
  if as_nobody "$WORK/brickfs" memory:64M "$WORK/user/mnt" -o allow_other 2>"$WORK/err"; then die "a user's mount is for everybody"; fi
  grep -q 'user_allow_other' "$WORK/err" || die "not the reason: $(cat "$WORK/err")"
fi

say "writeback=on"
mount_brickfs writeback=on
head -c 3000000 /dev/urandom >"$WORK/blob"
cp "$WORK/blob" "$MNT/blob"
unmount_brickfs
mount_brickfs
cmp "$WORK/blob" "$MNT/blob"
[ "$(stat -c %s "$MNT/blob")" = 3000000 ] || die "the size is lost"
unmount_brickfs

say "in the foreground, until SIGINT, with a file open"
"$BRICKFS" "$SOURCE" "$MNT" -f -o "io_uring=${BRICKFS_IO_URING:-auto}" 2>"$WORK/foreground.log" &
pid=$!
BACKGROUND_PIDS+=("$pid")
within 10 is_mounted || die "not mounted: $(cat "$WORK/foreground.log")"
exec 5>"$MNT/open"
echo written >&5
[ "${BRICKFS_IO_URING:-auto}" != on ] || grep -q 'requests come over io_uring' "$WORK/foreground.log" || die "io_uring=on is not used"
kill -INT "$pid"
within 20 ended "$pid" || die "SIGINT does not end it"
exec 5>&- || true
wait "$pid" || die "SIGINT ends it with exit $?: $(cat "$WORK/foreground.log")"
is_mounted && die "the mount stays after SIGINT"
mount_brickfs
[ "$(cat "$MNT/open")" = written ] || die "what was written before SIGINT is lost"

say "SIGHUP is harmless, SIGTERM ends it cleanly"
pid=$(brickfs_pid)
kill -HUP "$pid"
echo after >"$MNT/hup"
kill -TERM "$pid"
within 20 ended "$pid" || die "SIGTERM does not end it"
is_mounted && die "the mount stays after SIGTERM"
check_volume

say "unmounted and mounted again at once, ten times"
for round in $(seq 1 10); do
  mount_brickfs
  echo "$round" >"$MNT/round"
  umount "$MNT"
done
mount_brickfs
[ "$(cat "$MNT/round")" = 10 ] || die "the last write is lost"

say "umount -f and umount -l while it is in use"
exec 5<"$MNT/round"
pid=$(brickfs_pid)
umount -f "$MNT" 2>/dev/null || true  # busy where the umount helper is not installed
within 20 ended "$pid" || die "umount -f does not end it"
exec 5<&-
is_mounted && { umount "$MNT" || die "the dead mount that umount -f left cannot be unmounted"; }
not_mounted || die "the mountpoint stays dead after umount -f"
mount_brickfs
exec 5<"$MNT/round"
pid=$(brickfs_pid)
umount -l "$MNT"
[ "$(cat <&5)" = 10 ] || die "an open file is cut off by umount -l"
exec 5<&-
within 20 ended "$pid" || die "brickfs does not end with the last user after umount -l"

say "a mountpoint whose server was killed is cleared away"
mount_brickfs
kill -9 "$(brickfs_pid)"
mount_brickfs
[ "$(cat "$MNT/round")" = 10 ] || die "not mounted again"
unmount_brickfs
