#!/usr/bin/env bash
# The disk under a brick's store gets full: writes say ENOSPC, what is there can be synced, rm works and gives the room back, and
# everybody can see it. Then others fill the disk, and make room again. Needs no new mount, ever.
#   full_disk_test.sh
. "$(dirname "$0")/lib.sh"
DISK=$WORK/disk
mkdir "$DISK"
truncate -s 192M "$WORK/disk.image"
mkfs.ext4 -q -m 0 "$WORK/disk.image"
mount -o loop "$WORK/disk.image" "$DISK"
finish() {
  local status=$?
  set +e
  umount -l "$MNT" 2>/dev/null
  [ -z "$BRICKD_PID" ] || kill_brickd
  within 10 umount "$DISK" || umount -l "$DISK"
  (exit "$status")
  clean_up
}
trap finish EXIT

link() { getfattr --only-values --absolute-names -n brickfs.link "$MNT"; }
link_says_full() { link | grep 'disk is full' >/dev/null; }
link_says_well() { ! link_says_full; }
status_says_full() { "$BRICKCTL" status "$SOURCE" | grep 'medium:.*disk is full' >/dev/null; }
can_sync() { python3 -c 'import os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.write(f, os.urandom(9000)); os.fsync(f)' "$1"; }
write_until_full() { dd if=/dev/urandom of="$1" bs=256k status=none 2>"$WORK/dd.err"; }
df_shows_at_least() { [ "$(free_units)" -ge "$1" ]; }
fill_disk() { dd if=/dev/zero of="$DISK/of_others" bs=256k status=none 2>/dev/null || dd if=/dev/zero of="$DISK/of_others2" bs=4k status=none 2>/dev/null || true; }

start_brickd --memory 64M --file "$DISK/store" --size 2G
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
mkdir "$MNT/keep"
for i in $(seq 1 50); do head -c $((i * 3331)) /dev/urandom >"$MNT/keep/$i"; done
sync -f "$MNT"
kept=$(tree_checksum "$MNT/keep")

say "df tells what the disk can take, not what the store might"
unit=$(stat -f -c %S "$MNT")
before=$(free_units)
[ $((before * unit)) -lt $((192 << 20)) ] || die "df shows $((before * unit)) bytes on a disk of 192M"

say "a write says that the disk is full; what could be written can be synced"
if write_until_full "$MNT/fill"; then die "writes without end"; fi
grep -q 'No space left on device' "$WORK/dd.err" || die "dd says: $(cat "$WORK/dd.err")"
sync "$MNT/fill" || die "what was written cannot be synced"
can_sync "$MNT/keep/1" || die "fsync of a small file fails on a full disk"
kept=$(tree_checksum "$MNT/keep")
within 5 link_says_full || die "brickfs.link says: $(link)"
status_says_full || die "brickctl status does not say it"
for named in "$MNT" "$SOURCE"; do
  said=0; "$BRICKCTL" explain "$named" >"$WORK/explained" || said=$?
  [ "$said" = 4 ] && grep -q "^broken: store: the brick's store: its disk is full" "$WORK/explained" || die "explain $named: exit $said: $(cat "$WORK/explained")"
done
[ $(($(free_units) * unit)) -lt $((4 << 20)) ] || die "df still shows $(free_units) units"

say "rm gives the room back, without a new mount"
rm "$MNT/fill"
sync -f "$MNT" || die "a sync after rm fails"
within 10 df_shows_at_least $((before - 64)) || die "df shows $(free_units) units of $before"
within 10 link_says_well || die "brickfs.link says: $(link)"
dd if=/dev/urandom of="$MNT/again" bs=1M count=$((before * unit / 2 >> 20)) conv=fsync status=none || die "half of it cannot be written again"
rm "$MNT/again"
sync -f "$MNT"

say "others fill the disk: what is allocated can be written and synced, nothing more"
within 10 df_shows_at_least $((before - 64)) || die "df shows $(free_units) units of $before"
fill_disk
for i in $(seq 1 20); do can_sync "$MNT/keep/$i" || die "fsync $i fails on a disk that others filled"; done
if write_until_full "$MNT/fill"; then die "writes without end"; fi
sync "$MNT/fill" || die "what was written cannot be synced"
within 5 link_says_full || die "brickfs.link says: $(link)"
rm "$MNT/fill" "$DISK"/of_others*
within 10 can_sync "$MNT/keep/21" || die "fsync fails after there is room again"
within 10 df_shows_at_least $((before - 64)) || die "df shows $(free_units) units of $before"
kept=$(tree_checksum "$MNT/keep")

say "a store of which the disk has not all: commits wait for room, and then go on"
kill_brickd TERM
fallocate --dig-holes "$DISK/store"  # as an older brick made it
fill_disk
restart_brickd
grep -q 'its disk has no room for all of it' "$WORK/brickd.log" || die "the brick does not say that room is missing"
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "files changed"
if dd if=/dev/urandom of="$MNT/keep/late" bs=64k count=64 conv=fsync status=none 2>"$WORK/late.err"; then die "there was room"; fi
grep -q 'No space left on device' "$WORK/late.err" || die "dd says: $(cat "$WORK/late.err")"
rm "$DISK"/of_others*
within 15 can_sync "$MNT/keep/late" || die "fsync still fails after there is room: $(link)"
within 10 df_shows_at_least $((before / 2)) || die "df shows $(free_units) units of $before"
dd if=/dev/urandom of="$MNT/keep/later" bs=1M count=8 conv=fsync status=none || die "writes still fail"
kept=$(tree_checksum "$MNT/keep")

say "all of it is there after the brick was killed"
kill_brickd KILL
restart_brickd
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "files changed"
unmount_brickfs
check_volume
