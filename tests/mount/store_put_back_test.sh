#!/usr/bin/env bash
# The store of a single brick is replaced by an older copy of itself: it is sound, so it mounts, and the mount says what it is.
. "$(dirname "$0")/lib.sh"
start_brick tcp 64M
says_older() { grep 'is older than when it was unmounted here' "$WORK/brickfs.log" >/dev/null; }

say "what is as it was left is not called older"
mount_brickfs
echo first >"$MNT/first"
unmount_brickfs
kill_brickd TERM
cp --sparse=always "$WORK/store" "$WORK/copy"
restart_brickd
mount_brickfs
echo second >"$MNT/second"
unmount_brickfs
mount_brickfs ro
unmount_brickfs
mount_brickfs
echo third >"$MNT/third"
sync "$MNT/third"
kill -9 "$(brickfs_pid)"
umount -l "$MNT"
mount_brickfs
[ "$(cat "$MNT/third")" = third ] || die "what was synced is lost"
unmount_brickfs
! says_older || die "a volume that nobody has touched is called older: $(tail -n 3 "$WORK/brickfs.log")"

put_back() { kill_brickd TERM; cp --sparse=always "$WORK/copy" "$WORK/store"; restart_brickd; }
for option in ro rw; do
  say "an older copy is put back, and mounted $option"
  put_back
  : >"$WORK/brickfs.log"
  mount_brickfs "$option"
  says_older || die "nothing says that the store was put back: $(cat "$WORK/brickfs.log")"
  [ "$(ls "$MNT")" = first ] || die "the copy has other files: $(ls "$MNT")"
  unmount_brickfs
done

say "from then on it is what was left last"
: >"$WORK/brickfs.log"
mount_brickfs
! says_older || die "it says so again and again"
unmount_brickfs

say "another volume is another one"
kill_brickd TERM
rm "$WORK/store"
restart_brickd
mount_brickfs
! says_older || die "a new volume is called older: $(tail -n 3 "$WORK/brickfs.log")"
unmount_brickfs
