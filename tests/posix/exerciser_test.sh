#!/usr/bin/env bash
# One file in every way there is, against its image in memory; with remounts in between, and with the kernel's write-back cache.
#   exerciser_test.sh [SEED [OPERATIONS [tcp|file|memory]]]
. "$(dirname "$0")/../mount/lib.sh"
seed=${1:-1} operations=${2:-10000} kind=${3:-file}
start_brick "$kind" 512M

# Others may look at the mount for a moment (what watches all mounts, say), and umount returns before the volume is free.
cat >"$WORK/remount" <<END
#!/bin/sh
for try in \$(seq 1 50); do
  timeout 60 umount "$MNT" 2>"$WORK/remount.log" && break
  sleep 0.1
done
for try in \$(seq 1 100); do
  timeout 60 "$BRICKFS" "$SOURCE" "$MNT" -o "\$1" 2>"$WORK/remount.log" && exit 0
  sleep 0.1
done
cat "$WORK/remount.log" >&2
exit 1
END
chmod +x "$WORK/remount"
every=$((operations > 250000 ? 50000 : operations / 5))
for options in writeback=off writeback=on; do
  [ "$options" != writeback=on ] || [ -z "${BRICKFS_SHARED:-}" ] || continue  # it is refused there
  say "$options"
  mount_brickfs "$options"
  remounts=(--remount "$WORK/remount $options${BRICKFS_RINGS:+,ring=on}${BRICKFS_SHARED:+,shared}" --remount-every "$every")
  [ "$kind" != memory ] || remounts=()
  [ "${BRICKFS_SHARED:-}" != coordinator ] || remounts=()  # one that ends may get the next mount as a member, and takes it along
  timeout $((540 + operations / 50)) "${BY_RING[@]}" "$BUILD/tests/posix_exerciser" "$MNT/file" --seed "$seed" --operations "$operations" "${remounts[@]}" ||
    die "not as in the image"
  unmount_brickfs
  [ "$kind" = memory ] || check_volume
done
