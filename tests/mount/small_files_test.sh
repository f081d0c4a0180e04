#!/usr/bin/env bash
# 100,000 files of 100 bytes use less than 600 MiB of a brick.   small_files_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 1G
mount_brickfs
free_before=$(free_units)
seq -w 1 100000 | awk '{ printf "%-99s\n", $1 }' >"$WORK/list"
mkdir "$MNT/files"
(cd "$MNT/files" && split -a 6 -d -l 1 "$WORK/list" f)
[ "$(find "$MNT/files" -type f -size 100c | wc -l)" = 100000 ] || die "not all files are there"
cat "$MNT"/files/f* 2>/dev/null | cmp - "$WORK/list" || (cd "$MNT/files" && find . -type f | sort | xargs cat | cmp - "$WORK/list") || die "contents differ"
used_mib=$(((free_before - $(free_units)) * 4096 / 1048576))
say "df: $used_mib MiB"
[ "$used_mib" -lt 600 ] || die "they use $used_mib MiB"
if [ "$1" = tcp ]; then
  used_mib=$(($(blocks) * 2))
  say "brick: $used_mib MiB"
  [ "$used_mib" -lt 600 ] || die "they use $used_mib MiB of the brick"
fi
unmount_brickfs
if [ "$1" != memory ]; then
  check_volume
  [ $(($(blocks) * 2)) -lt 600 ] || die "they use $(($(blocks) * 2)) MiB of the brick after unmount"
fi
