#!/usr/bin/env bash
# A brick with 256 MiB of memory and a 2 GiB store holds and serves a tree of 1.5 GiB.
. "$(dirname "$0")/lib.sh"
source_tree
start_brickd --memory 256M --file "$WORK/store" --size 2G
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
say "write"
copies=0
cp -a "$SOURCE_TREE" "$MNT/tree0"
expected=$(tree_checksum "$SOURCE_TREE")
openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c 1100M >"$MNT/big" || true
[ "$(du -sm "$MNT" | cut -f1)" -ge 1400 ] || die "only $(du -sm "$MNT" | cut -f1) MiB"
say "read everything, with cold caches"
sync
echo 3 >/proc/sys/vm/drop_caches
[ "$(tree_checksum "$MNT/tree0")" = "$expected" ] || die "the tree differs"
cmp "$MNT/big" <(openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c 1100M) || die "the big file differs"
resident=$("$BRICKCTL" status "$SOURCE" | awk '/resident/ { print }')
say "brick: ${resident:-no word of residency}"
rss_mib=$(($(awk '/^Rss:/ { print $2 }' "/proc/$BRICKD_PID/smaps_rollup") / 1024))
[ "$rss_mib" -le 400 ] || die "brickd takes $rss_mib MiB of memory"
unmount_brickfs
check_volume
say "the same from a restarted brick"
kill_brickd KILL
restart_brickd
mount_brickfs
[ "$(tree_checksum "$MNT/tree0")" = "$expected" ] || die "after a restart the tree differs"
unmount_brickfs
