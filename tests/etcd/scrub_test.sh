#!/usr/bin/env bash
# Copies are compared: equal ones, one with another byte, one that lacks a block's bytes altogether; and when that is refused.
. "$(dirname "$0")/lib.sh"
for name in a b; do start_brick_of_set "$name"; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"

say "of nothing, of a volume that was never mounted"
refused 1 'etcd knows no set other' set scrub "etcd://127.0.0.1:$ETCD_PORT/other"
refused 1 'a replicated set is named by etcd://' set scrub "$(brick a)/default"
refused 2 'a size, as 100M' set scrub "$SOURCE" --rate much
exits 0 set scrub "$SOURCE"
grep -q 'all copies are equal, 0 blocks compared' "$WORK/out" || die "scrub: $(cat "$WORK/out")"

say "while it is mounted"
mount_brickfs
head -c 5M /dev/urandom >"$MNT/large"
printf 'here is a line that is to be found\n' >"$MNT/small"
refused 1 'held by .*; copies are compared while nobody writes to them' set scrub "$SOURCE"
unmount_brickfs
mount_brickfs ro
exits 0 set scrub "$SOURCE"
unmount_brickfs

say "equal copies"
exits 0 set scrub "$SOURCE" --json
fields_are_documented "set scrub" "$WORK/out"
json "$WORK/out" 'r["equal"] and r["blocks"] >= 4 and r["blocks_passed_over"] == r["differing"] == 0' || die "scrub --json: $(cat "$WORK/out")"
blocks=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["blocks"])' <"$WORK/out")
check_volume
began=$(now_ms)
exits 0 set scrub "$SOURCE" --rate "$((blocks * 2))M"
[ $(($(now_ms) - began)) -ge 900 ] || die "--rate is not kept: $(($(now_ms) - began)) ms"

say "one byte of one copy"
kill_brick_of_set b
python3 - "$WORK/b.store" <<'PYTHON'
import sys
with open(sys.argv[1], "r+b") as store:
    at = store.read().index(b"here is a line")
    store.seek(at)
    store.write(b"H")
PYTHON
start_brick_of_set b
exits 3 set scrub "$SOURCE"
grep -qE "^place 0: $(brick b)/default has 1 other bytes than $(brick a)/default in the block at 0x[0-9a-f]+, the first at 0x" "$WORK/out" &&
  grep -q 'copies differ' "$WORK/out" || die "scrub: $(cat "$WORK/out")"
exits 3 set scrub "$SOURCE" --json
json "$WORK/out" 'not r["equal"] and r["differing"] == 1 and r["differences"][0]["bytes"] == 1' || die "scrub --json: $(cat "$WORK/out")"
exits 4 check "$SOURCE"
grep -q '^damage: place 0: .* has 1 other bytes' "$WORK/out" || die "check: $(cat "$WORK/out")"

say "the copy is made anew, and after a crash of the client"
mount_brickfs
kill_brick_of_set b
rm "$WORK/b.store"
is_left_out() { timeout 20 "$BRICKCTL" set status "$SOURCE" >"$WORK/status" 2>&1; grep -q ': stale since' "$WORK/status"; }
is_well() { timeout 20 "$BRICKCTL" set status "$SOURCE"; }
within 30 is_left_out || die "b is not left out"
start_brick_of_set b
within 60 is_well || die "b is not in sync again"
echo more >>"$MNT/small"
pid=$(brickfs_pid)
kill -9 "$pid"
umount -i -l "$MNT"
within 30 "$BRICKCTL" set scrub "$SOURCE" || die "scrub after a crash: $("$BRICKCTL" set scrub "$SOURCE" 2>&1)"
exits 0 set scrub "$SOURCE" --json
json "$WORK/out" 'r["equal"] and r["blocks_passed_over"] > 0' || die "scrub after a crash: $(cat "$WORK/out")"
exits 0 check "$SOURCE"
mount_brickfs
unmount_brickfs
exits 0 set scrub "$SOURCE" --json
json "$WORK/out" 'r["equal"] and r["blocks_passed_over"] == 0' || die "scrub after another mount: $(cat "$WORK/out")"

say "a copy in sync that does not answer, beside one and beside two"
kill_brick_of_set b
exits 1 set scrub "$SOURCE"
grep -q "^$(brick b)/default is in sync, and cannot be had now: it was not compared$" "$WORK/out" &&
  grep -q '^1 place(s) with one copy to be read' "$WORK/out" || die "scrub of one copy: $(cat "$WORK/out")"
exits 0 check "$SOURCE"
grep -q "^note: $(brick b)/default is in sync, and cannot be had now" "$WORK/out" || die "check of one copy: $(cat "$WORK/out")"
for name in c d e; do start_brick_of_set "$name" --volume three; done
SOURCE=etcd://127.0.0.1:$ETCD_PORT/three
exits 0 set create "$SOURCE" --replicas 3 "$(brick c)" "$(brick d)" "$(brick e)"
mount_brickfs
unmount_brickfs
exits 0 set scrub "$SOURCE"
kill_brick_of_set d
exits 1 set scrub "$SOURCE" --json
json "$WORK/out" 'not r["equal"] and r["not_compared"] == ["'"$(brick d)"'/three"] and r["blocks"] > 0 and r["differing"] == r["places_with_one_copy"] == 0' || die "scrub of two of three: $(cat "$WORK/out")"
say "passed"
