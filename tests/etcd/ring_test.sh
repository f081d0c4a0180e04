#!/usr/bin/env bash
# A program that changes its ring's buffer while that is written: whatever the file has then, both copies have it.
. "$(dirname "$0")/lib.sh"
for name in a b; do start_brick_of_set "$name"; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"
mount_brickfs ring=on
dd if=/dev/zero of="$MNT/file" bs=1M count=16 status=none

say "writes of bytes that change meanwhile"
timeout 60 "$BUILD/tests/ring_load" scribble "$MNT/file" 3 || die "the program fails"
say "writes and reads of bytes that do not"
timeout 60 "$BUILD/tests/ring_load" work "$MNT/file" 0 2 || die "the program fails"
unmount_brickfs
exits 0 set scrub "$SOURCE"
grep -q 'all copies are equal' "$WORK/out" || die "scrub: $(cat "$WORK/out")"
say "done"
