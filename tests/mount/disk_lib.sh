# Sourced by the tests whose brick has its store on a disk of its own, which can stop answering (fsfreeze -f "$DISK"; FROZEN=1): an ext4 of 400 MiB
# at DISK. At the end it answers again, and goes behind the brick and the mount.
DISK=$WORK/disk
FROZEN=
end_disk() {
  local status=$?
  set +e
  [ -z "$FROZEN" ] || fsfreeze -u "$DISK"
  [ -z "$BRICKD_PID" ] || kill -CONT "$BRICKD_PID"
  umount -i -l "$MNT" 2>/dev/null
  [ -z "$BRICKD_PID" ] || kill_brickd
  ! mountpoint -q "$DISK" || within 10 umount "$DISK" || umount -l "$DISK"
  (exit "$status")
  clean_up
}
trap end_disk EXIT
mkdir "$DISK"
truncate -s 400M "$WORK/disk.image"
mkfs.ext4 -q -m 0 "$WORK/disk.image"
mount -o loop "$WORK/disk.image" "$DISK"
