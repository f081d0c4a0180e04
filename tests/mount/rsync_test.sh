#!/usr/bin/env bash
# rsync -aHAX of a large tree with links, ACLs and attributes: the second run moves nothing.   rsync_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
source_tree
start_brick "$1" 2G
mount_brickfs

# The extra corner holds what a plain tree lacks.
extra=$WORK/extra
mkdir -p "$extra/dir"
echo one >"$extra/a"; ln "$extra/a" "$extra/dir/hard"; ln -s ../a "$extra/dir/soft"; ln -s /nowhere "$extra/dangling"
mkfifo "$extra/fifo"; truncate -s "$(scaled 3072)M" "$extra/sparse"; echo end >>"$extra/sparse"
chmod 4751 "$extra/a"; chown 1234:4321 "$extra/dir"; touch -d '1999-12-31 23:59:59.123456789 UTC' "$extra/a"
setfattr -n user.colour -v blue "$extra/a" 2>/dev/null || say "this host's scratch has no user attributes"
setfacl -m u:1234:rwx,d:g:4321:r-x "$extra/dir" 2>/dev/null || say "this host's scratch has no ACLs"

for run in first second; do
  for from in "$SOURCE_TREE" "$extra"; do
    rsync -aHAXS --stats --itemize-changes "$from/" "$MNT/${from##*/}/" >"$WORK/rsync-$run-${from##*/}.txt"
  done
done
for from in "$SOURCE_TREE" "$extra"; do
  list=$WORK/rsync-second-${from##*/}.txt
  grep -q '^Number of regular files transferred: 0$' "$list" || die "the second rsync moves files"
  ! grep -qE '^[<>ch.*][fdLDS]' "$list" || die "the second rsync changes something: $(grep -E '^[<>ch.*][fdLDS]' "$list" | head -n 3)"
done
[ "$(stat -c %h "$MNT/extra/a")" = 2 ] || die "the hard link is gone"
[ "$(du -k "$MNT/extra/sparse" | cut -f1)" -le 8 ] || die "the sparse file is not sparse"
if [ "$1" != memory ]; then
  unmount_brickfs
  check_volume
  mount_brickfs
  for from in "$SOURCE_TREE" "$extra"; do
    [ -z "$(rsync -aHAX --itemize-changes "$from/" "$MNT/${from##*/}/")" ] || die "after a remount rsync sees changes"
  done
fi
unmount_brickfs
