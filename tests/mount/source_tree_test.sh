#!/usr/bin/env bash
# A source tree of some 27,000 files lives on brickfs: unpacked, compared, measured, packed again, removed without a trace.
#   source_tree_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
kind=$1
source_tree
tarball=$(source_tarball)

start_brick "$kind" 2G
mount_brickfs
sync
units_before=$(free_units)
[ -z "$BRICKD_PID" ] || { sleep 2; blocks_before=$(blocks); }

say "untar"
mkdir "$MNT/tree"
tar -xf "$tarball" -C "$MNT/tree" --strip-components=1
files=$(find "$MNT/tree" -type f | wc -l)
[ "$files" -ge "$SOURCE_TREE_LEAST" ] || die "only $files files"
[ "$files" = "$(find "$SOURCE_TREE" -type f | wc -l)" ] || die "find sees another number of files"

say "compare $files files"
diff -r --no-dereference "$SOURCE_TREE" "$MNT/tree" || die "diff -r sees a difference"
apparent=$(cd "$MNT/tree" && find . -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
expected=$(cd "$SOURCE_TREE" && find . -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
[ "$apparent" = "$expected" ] || die "sizes add up to $apparent instead of $expected"
used_kib=$(du -sk "$MNT/tree" | cut -f1)
[ "$used_kib" -ge $((apparent / 1024)) ] && [ "$used_kib" -le $((apparent / 1024 + files * 4 + 8192)) ] || die "du says $used_kib KiB for $apparent bytes"

say "tar again"
[ "$(tree_checksum "$MNT/tree")" = "$(tree_checksum "$SOURCE_TREE")" ] || die "the tree packs to another checksum"

say "the same after a remount"
if [ "$kind" != memory ]; then
  unmount_brickfs
  check_volume
  mount_brickfs
  [ "$(tree_checksum "$MNT/tree")" = "$(tree_checksum "$SOURCE_TREE")" ] || die "after a remount the tree packs to another checksum"
fi

say "remove"
rm -rf "$MNT/tree"
sync
within 10 free_units_are "$units_before" || die "df shows $(free_units) free units instead of $units_before"
if [ -n "$BRICKD_PID" ]; then
  within 10 blocks_are "$blocks_before" || die "the brick has $(blocks) blocks instead of $blocks_before"
fi
unmount_brickfs
[ "$kind" = memory ] || check_volume
