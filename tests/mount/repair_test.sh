#!/usr/bin/env bash
# A chunk of the checkpoint is damaged on the store: the mount is read-only and says so, check finds it, check --repair mends it,
# and what had its place elsewhere is all there.
. "$(dirname "$0")/lib.sh"

start_brick file 256M
mount_brickfs
for directory in $(seq 20); do
  mkdir "$MNT/$directory"
  (cd "$MNT/$directory" && seq 400 | xargs touch)
done
echo kept >"$MNT/kept"
cp -r "$TESTS/mount" "$MNT/scripts"
unmount_brickfs

say "one chunk is overwritten"
python3 - "$WORK/store" <<'END'
import mmap, struct, sys
with open(sys.argv[1], "r+b") as store, mmap.mmap(store.fileno(), 0) as bytes:
    at, damaged = bytes.find(b"BRCKCHK1"), 0
    while at >= 0:
        (sequence,) = struct.unpack_from("<Q", bytes, at + 16)
        if sequence == 2:  # not the first, which has the root directory
            bytes[at + 4096 : at + 8192] = bytearray(4096)
            damaged += 1
        at = bytes.find(b"BRCKCHK1", at + 1)
    assert damaged > 0
END

say "mounted read-only, with the reason"
mount_brickfs
! touch "$MNT/new" 2>"$WORK/out" || die "a damaged file system is written to"
grep -q 'Read-only' "$WORK/out" || die "says: $(cat "$WORK/out")"
[ "$(cat "$MNT/kept")" = kept ] || die "what is whole cannot be read"
unmount_brickfs

say "found, mended, clean"
check() { local status=0; timeout 120 "$BRICKCTL" check "$SOURCE" "$@" >"$WORK/out" 2>"$WORK/err" || status=$?; echo "$status"; }
[ "$(check)" = 4 ] || die "check: $(cat "$WORK/out" "$WORK/err")"
grep -q '^damage: checkpoint chunk' "$WORK/out" || die "check does not name the chunk: $(cat "$WORK/out")"
[ "$(check --repair)" = 1 ] || die "repair: $(cat "$WORK/out" "$WORK/err")"
grep -q '^repair: ' "$WORK/out" || die "repair does not say what it does: $(cat "$WORK/out")"
[ "$(check)" = 0 ] || die "check after the repair: $(cat "$WORK/out" "$WORK/err")"
[ "$(check --repair)" = 0 ] || die "repair of a sound volume: $(cat "$WORK/out" "$WORK/err")"

say "writable, with what there was"
mount_brickfs
[ "$(cat "$MNT/kept")" = kept ] || die "a file is lost"
entries=$(find "$MNT" | wc -l)
[ "$entries" -gt 4000 ] || die "only $entries names are left of 8,000"
touch "$MNT/new"
rm -rf "$MNT"/[0-9]*
unmount_brickfs
check_volume
