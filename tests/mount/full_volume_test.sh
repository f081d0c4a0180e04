#!/usr/bin/env bash
# A full volume: write says ENOSPC, nothing is harmed, rm works, all space comes back, df is exact.
#   full_volume_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
size=256M
[ -z "$SMALL" ] || size=96M
start_brick "$1" "$size"
mount_brickfs
mkdir "$MNT/keep"
for i in $(seq 1 200); do head -c $((i * 331)) /dev/urandom >"$MNT/keep/$i"; done
unit=$(stat -f -c %S "$MNT")
head -c $((16 * unit)) /dev/zero >"$MNT/spare"
sync
sleep 1
kept=$(tree_checksum "$MNT/keep")
before=$(free_units)

say "fill with one file: df tells to the unit how much goes in"
if dd if=/dev/zero of="$MNT/fill" bs=1M status=none 2>"$WORK/dd.err"; then die "dd could write without end"; fi
grep -q 'No space left on device' "$WORK/dd.err" || die "dd says: $(cat "$WORK/dd.err")"
written=$(stat -c %s "$MNT/fill")
left=$(free_units)
[ $((written / unit + left)) -ge $((before - 64)) ] && [ "$left" -lt 256 ] ||
  die "of $before free units $((written / unit)) could be written, df still shows $left"
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "filling the volume changed other files"

say "everything still answers on a full volume"
rm "$MNT/spare"  # what the kernel writes back may have filled it to the last unit, and a new name wants one
before=$((before + 16))
if head -c 3000000 /dev/zero >>"$MNT/keep/more" 2>/dev/null; then die "a write into a full volume succeeds"; fi
rm -f "$MNT/keep/more"
mkdir "$MNT/keep/dir" && mv "$MNT/keep/1" "$MNT/keep/dir/1" && mv "$MNT/keep/dir/1" "$MNT/keep/1" && rmdir "$MNT/keep/dir" || die "mkdir, mv, rmdir"
cmp -n 1048576 "$MNT/fill" /dev/zero || die "the filling is not what was written"
if [ "$1" != memory ]; then
  say "a full volume mounts again"
  unmount_brickfs; check_volume; mount_brickfs
  [ "$(stat -c %s "$MNT/fill")" = "$written" ] || die "the filling has another size after a remount"
fi

say "rm gives it all back"
rm "$MNT/fill"
sync
within 10 free_units_are "$before" || die "df shows $(free_units) free units instead of $before"

say "fill with small files, from several processes"
mkdir "$MNT/small"
[ -z "$SMALL" ] || fallocate -l $(((before - 1500) * unit)) "$MNT/fill"  # few are enough
for worker in 1 2 3; do
  split -a 6 -b 6000 /dev/zero "$MNT/small/$worker-" 2>"$WORK/split-$worker" &
  workers="${workers:-} $!"
done
for worker in $workers; do wait "$worker" && die "files could be made without end"; done
grep -L 'No space left on device' "$WORK"/split-? | grep . && die "a process that made files said something else"
[ "$(tree_checksum "$MNT/keep")" != "" ] || die "keep cannot be read"
rm -rf "$MNT/small" "$MNT/fill" || die "rm on a full volume"
sync
within 20 free_units_are "$before" || die "after small files df shows $(free_units) free units instead of $before"
unmount_brickfs
[ "$1" = memory ] || check_volume
