# Sourced by the tests that compare with another file system: ext4 on a loop device, or tmpfs, which does less, where there is none.
# After make_reference: REFERENCE is mounted, REFERENCE_TYPE is ext4 or tmpfs. Unmounted at the end.
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
REFERENCE=$WORK/reference
mkdir "$REFERENCE"
unmount_reference() { if mountpoint -q "$REFERENCE"; then umount "$REFERENCE" || umount -l "$REFERENCE"; fi; }
trap 'status=$?; set +e; unmount_reference; (exit $status); clean_up' EXIT

make_reference() {
  truncate -s 2G "$WORK/ext4.img"
  if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q -b 4096 -F "$WORK/ext4.img" && mount -o loop "$WORK/ext4.img" "$REFERENCE" 2>"$WORK/loop.log"; then
    REFERENCE_TYPE=ext4
    local device; device=$(findmnt -n -o SOURCE "$REFERENCE")
    # Or ext4 writes zeros where a small part of a preallocated range is written, and calls them data.
    echo 0 >"/sys/fs/ext4/${device#/dev/}/extent_max_zeroout_kb"
  else
    REFERENCE_TYPE=tmpfs
    mount -t tmpfs none "$REFERENCE"
  fi
  say "reference: $REFERENCE_TYPE"
}
