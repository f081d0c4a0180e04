#!/usr/bin/env bash
# Single cases that random calls do not reach: directories that change while they are read, running programs, options that change
# times, remounting read-only, mounts by users.
. "$(dirname "$0")/../mount/lib.sh"
chmod 755 "$WORK"
start_brick file 512M
mount_brickfs allow_other

say "cases"
python3 "$TESTS/posix/cases.py" "$MNT" || die "a case"

say "remounted read-only, and back"
echo kept >"$MNT/file"
"$BRICKFS" "$SOURCE" "$MNT" -o "remount,allow_other,ro"
if echo more >>"$MNT/file" 2>/dev/null || mkdir "$MNT/new" 2>/dev/null || touch "$MNT/file" 2>/dev/null; then die "written to while read-only"; fi
atime_of() { stat --cached=never -c %X "$1"; }  # of a read-only mount the kernel does not ask again by itself
"$BRICKFS" "$SOURCE" "$MNT" -o "remount,allow_other,rw"
mkdir "$MNT/read"
head -c 1M /dev/zero >"$MNT/unread"
for what in read unread; do touch -a -d '2001-01-01' "$MNT/$what"; done
"$BRICKFS" "$SOURCE" "$MNT" -o "remount,allow_other,ro"
before=$(atime_of "$MNT/read") before_file=$(atime_of "$MNT/unread")
ls "$MNT/read" >/dev/null
dd if="$MNT/unread" of=/dev/null bs=1M iflag=direct status=none
[ "$(atime_of "$MNT/read")" = "$before" ] || die "reading a directory changes its atime while read-only"
[ "$(atime_of "$MNT/unread")" = "$before_file" ] || die "reading a file changes its atime while read-only"
[ "$(cat "$MNT/file")" = kept ] || die "cannot be read while read-only"
"$BRICKFS" "$SOURCE" "$MNT" -o "remount,allow_other,rw"
echo more >>"$MNT/file" || die "cannot be written to after remount,rw"
"$BRICKFS" "$SOURCE" "$MNT" -o "remount,allow_other,ro"
unmount_brickfs
mount_brickfs allow_other
[ "$(wc -l <"$MNT/file")" = 2 ] || die "a line is lost"

say "a file system of root's has set-uid programs and devices"
cp "$(command -v id)" "$MNT/id"
chown 65534:65534 "$MNT/id" && chmod 4755 "$MNT/id"
[ "$("$MNT/id" -u)" = 65534 ] || die "a set-uid program runs as $("$MNT/id" -u)"
mknod "$MNT/null" c 1 3
echo x >"$MNT/null" && [ -c "$MNT/null" ] || die "a device does not work"
unmount_brickfs

atime() { stat -c %X "$MNT/dir"; }
say "relatime and noatime, by a directory (whose reading the kernel does not keep to itself)"
for options in relatime noatime; do
  mount_brickfs "$options"
  mkdir -p "$MNT/dir"
  touch -a -d '2001-01-01' "$MNT/dir"
  before=$(atime)
  ls "$MNT/dir" >/dev/null
  after=$(atime)
  case $options in
    relatime) [ "$after" != "$before" ] || die "reading a directory leaves its atime" ;;
    noatime) [ "$after" = "$before" ] || die "noatime: reading a directory changes its atime" ;;
  esac
  unmount_brickfs
done

say "a mount by a user: nobody else gets in, not even root; nothing gains privileges"
if ! command -v setpriv >/dev/null || ! command -v fusermount3 >/dev/null; then say "(left out: no setpriv or fusermount3)"; exit 0; fi
[ -u "$(command -v fusermount3)" ] || { say "(left out: fusermount3 is not set-uid)"; exit 0; }
user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
HOME_DIR=$WORK/user
mkdir -m 755 "$HOME_DIR" && chown 65534:65534 "$HOME_DIR" "$MNT"
install -m 755 "$BRICKFS" "$HOME_DIR/brickfs"  # the build may be in a home that is closed to others
BRICKFS=$HOME_DIR/brickfs
user test -r /dev/fuse -a -w /dev/fuse || { say "(left out: /dev/fuse is closed to users)"; exit 0; }
user timeout 60 "$BRICKFS" "file:$HOME_DIR/store,128M" "$MNT" 2>>"$WORK/user.log" || die "a user cannot mount: $(tail -n 1 "$WORK/user.log")"
grep " $MNT fuse.brickfs " /proc/self/mounts | grep 'nosuid,nodev' >/dev/null || die "a user's mount has set-uid programs or devices"
user sh -c "echo mine >$MNT/file; mkdir $MNT/dir; chmod 4755 $MNT/file" || die "the user cannot write to his own mount"
if ls "$MNT" >/dev/null 2>&1; then die "root gets into a user's mount"; fi
if grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then :; else
  user timeout 60 "$BRICKFS" "memory:64M" "$HOME_DIR" -o allow_other 2>"$WORK/err" && die "allow_other without user_allow_other"
  [ "$(wc -l <"$WORK/err")" -ge 1 ] || die "a refused mount says nothing"
fi
pid=$(brickfs_pid)
unmount_as_user "$MNT" user || die "the user cannot unmount"
within 20 test ! -d "/proc/$pid" || die "brickfs does not end"
