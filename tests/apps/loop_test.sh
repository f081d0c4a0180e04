#!/usr/bin/env bash
# An ext4 image on brickfs behind a loop device, with and without direct I/O: contents, fsck, discards, and a crash of the client.
#   loop_test.sh [tcp|file]
. "$(dirname "$0")/lib.sh"
kind=${1:-file}
need e2fsprogs
INNER=$WORK/inner
LOOP=
mkdir "$INNER"
let_go() {
  if mountpoint -q "$INNER"; then umount "$INNER" 2>/dev/null || umount -l "$INNER"; fi
  if [ -n "$LOOP" ]; then losetup -d "$LOOP" 2>/dev/null || true; fi
  LOOP=
}
trap 'status=$?; set +e; let_go; (exit $status); clean_up' EXIT

attach() { LOOP=$(losetup --show -f --direct-io="$1" "$MNT/image"); }
used_kib() { stat -f -c '%b %f %S' "$MNT" | awk '{ print ($1 - $2) * $3 / 1024 }'; }
stored_kib() { du -k "$MNT/image" | cut -f1; }
fsck() { e2fsck -fn "$MNT/image" >"$WORK/fsck.log" 2>&1 || { cat "$WORK/fsck.log" >&2; die "$1: e2fsck finds something"; }; }

start_brick "$kind" 2G
mount_brickfs allow_other
sources=/usr/include
for direct in off on; do
  say "direct-io=$direct"
  truncate -s 600M "$MNT/image"
  mkfs.ext4 -q -F "$MNT/image"
  attach "$direct"
  [ "$direct" = off ] || [ "$(losetup -n -O DIO "$LOOP" | tr -d ' ')" = 1 ] || die "the loop device does not do direct I/O"
  mount "$LOOP" "$INNER"
  cp -a "$sources" "$INNER/copy"
  fio --name=inner --directory="$INNER" --size=48m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --fsync=200 \
    --verify=xxhash --verify_fatal=1 --do_verify=1 --output="$WORK/fio.log" || die "fio"
  umount "$INNER"
  fsck "direct-io=$direct"
  mount "$LOOP" "$INNER"
  [ "$(tree_checksum "$sources")" = "$(tree_checksum "$INNER/copy")" ] || die "the copy differs"
  before=$(stored_kib)
  rm -rf "$INNER/copy" "$INNER"/inner.*
  sync -f "$INNER"  # what is freed only in the running transaction is not discarded
  fstrim "$INNER" || die "fstrim"
  umount "$INNER"
  sync -f "$MNT"
  [ "$(stored_kib)" -lt $((before / 3)) ] || die "discarding frees nothing: $before KiB before, $(stored_kib) behind it"
  losetup -d "$LOOP"; LOOP=
  fsck "discarded, direct-io=$direct"
  rm "$MNT/image"
done

say "the client is killed under it: the journal of ext4 makes up for it"
truncate -s 600M "$MNT/image"
mkfs.ext4 -q -F "$MNT/image"
attach on
mount "$LOOP" "$INNER"
seq 1 20000 >"$INNER/synced"
sync "$INNER/synced"
(cp -a "$sources" "$INNER/copy"; sync -f "$INNER") 2>/dev/null &
writer=$!
sleep 1.5
kill_brickfs
wait "$writer" || true
let_go
detach_dead_mount
mount_brickfs allow_other
e2fsck -fp "$MNT/image" >"$WORK/fsck.log" 2>&1 || [ $? = 1 ] || { cat "$WORK/fsck.log" >&2; die "e2fsck cannot mend it by itself"; }
fsck "after the crash"
attach off
mount "$LOOP" "$INNER"
seq 1 20000 | cmp - "$INNER/synced" || die "what was synced is lost"
let_go
unmount_brickfs
check_volume
