#!/usr/bin/env bash
# A bit of a store's header or table is another: in one copy nothing is lost; in both a block, the mount is read-only, and check --repair and --repair-store cure it.
. "$(dirname "$0")/lib.sh"
start_brickd --memory 64M --file "$WORK/store" --size 256M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
mkdir "$MNT/keep"
for i in $(seq 1 20); do head -c $((i * 3000)) /dev/urandom >"$MNT/keep/$i"; done
sync
sleep 1  # the next blocks lie behind
head -c 20M /dev/urandom >"$WORK/large"
cp "$WORK/large" "$MNT/large"
sync
kept=$(tree_checksum "$MNT/keep")
large=$(md5sum <"$MNT/large")
unmount_brickfs
kill_brickd TERM

# damage WHAT [both]: a bit of the header (header), or of the entry of a block with data of `large` (entry), in the first copy, or in both.
damage() {
  python3 - "$WORK/store" "$WORK/large" "$@" <<'PYTHON'
import struct, sys
path, large, what, both = *sys.argv[1:4], len(sys.argv) > 4
data = open(large, "rb").read()[8 << 20:][:4096]
with open(path, "r+b", 0) as store:
    slots, slots_at = struct.unpack("<QQ", store.read(4096)[56:72])
    where = 57
    if what == "entry":
        slot = 0
        while store.seek(slots_at + (slot << 21)) and data not in store.read(2 << 20):
            slot += 1
        where = (260 << 10) + 32 * slot + 9
    for at in [where, slots_at // 2 + where][:2 if both else 1]:
        store.seek(at)
        byte = store.read(1)[0]
        store.seek(at)
        store.write(bytes([byte ^ 4]))
PYTHON
}
whole() {
  mount_brickfs
  ! grep -q 'read-only' <(tail -n 1 "$WORK/brickfs.log") || die "it is mounted read-only"
  [ "$(tree_checksum "$MNT/keep")" = "$kept" ] && [ "$(md5sum <"$MNT/large")" = "$large" ] || die "other files than were written"
  unmount_brickfs
  kill_brickd TERM
}

say "the header, in one copy"
damage header
restart_brickd
grep -q 'its header was damaged: mended' "$WORK/brickd.log" || die "the log has nothing of it"
whole
say "an entry, in one copy"
damage entry
restart_brickd
grep -q 'damaged in one of two copies: mended' "$WORK/brickd.log" || die "the log has nothing of it"
whole

say "an entry, in both"
damage entry both
restart_brickd
grep -q 'entry [0-9]* of its block table is damaged' "$WORK/brickd.log" || die "the log has nothing of it"
mount_brickfs
if touch "$MNT/new" 2>"$WORK/err"; then die "the volume lacks a block, and is written to"; fi
grep -q 'Read-only file system' "$WORK/err" || die "touch says: $(cat "$WORK/err")"
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "files without that block cannot be read"
unmount_brickfs
status=0; timeout 60 "$BRICKCTL" check "$SOURCE" --repair >"$WORK/check.log" 2>&1 || status=$?
[ "$status" = 1 ] && grep -q 'large' "$WORK/check.log" || die "check --repair: exit $status: $(cat "$WORK/check.log")"
mount_brickfs
echo new >"$MNT/new" && sync "$MNT/new" || die "a repaired volume is not written to"
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "the repair has changed other files"
unmount_brickfs
check_volume

say "and the room comes back"
room() { timeout 60 "$BRICKCTL" status "$SOURCE" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["brick_used_bytes"] >> 21)'; }
before=$(room)
kill_brickd TERM
start_brickd "${BRICKD_ARGS[@]}" --repair-store
grep -q 'its block is given up' "$WORK/brickd.log" || die "the log has nothing of --repair-store"
[ "$(room)" = $((before - 1)) ] || die "of $before blocks $(room) are in use"
check_volume
