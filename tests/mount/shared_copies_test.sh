#!/usr/bin/env bash
# A volume of two copies on three durable bricks, with a real etcd, on two machines: a member writes to both copies itself, while a brick dies and comes
# back, and when the member is killed. The other machine sees what was written, and the copies are equal.
. "$(dirname "$0")/../etcd/lib.sh"
. "$TESTS/mount/shared_lib.sh"
BRICK_SIZE=512M
(umask 077; printf 'known to all machines of the test\n' >"$SHARED_SECRET")
start_one() { start_brick_of_set "$1" --volume default.2 --secret-file "$SHARED_SECRET"; }
for name in a b c; do start_one "$name"; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 --secret-file "$SHARED_SECRET" "$(brick a)" "$(brick b)" "$(brick c)"
for machine in first member; do join_machine "$machine"; done
A=$WORK/first B=$WORK/member
grep 'a member of it' "$WORK/member.log" >/dev/null || die "the second is no member"

direct_bytes() { "$BRICKCTL" explain --json "$B" 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"]["direct_write_bytes"])'; }
write_large() { dd if=/dev/urandom of="$B/big" bs=1M count=16 conv=notrunc status=none; }
written_directly() { local before; before=$(direct_bytes); write_large; [ "$(direct_bytes)" -gt $((before + (8 << 20))) ]; }
seen() { timeout 120 cmp "$A/big" "$B/big" || die "the other machine sees other bytes: $1"; }
is_well() { timeout 20 "$BRICKCTL" set status "$SOURCE" --secret-file "$SHARED_SECRET" >"$WORK/status" 2>&1; }

within 60 written_directly || die "$(direct_bytes) bytes went to the bricks"
seen "all bricks are well"
for name in a b; do
  say "brick $name dies under writes, and comes back"
  kill_brick_of_set "$name"
  for _ in 1 2 3; do timeout 120 dd if=/dev/urandom of="$B/big" bs=1M count=16 conv=notrunc status=none; done
  seen "brick $name is dead"
  start_one "$name"
  within 120 is_well || die "it is not in sync again: $(cat "$WORK/status")"
  within 60 written_directly || die "nothing goes to the bricks any more: $(direct_bytes)"
  seen "brick $name is back"
done

say "the member is killed while it writes"
dd if=/dev/urandom of="$B/other" bs=1M count=200 status=none 2>/dev/null &
writer=$!; BACKGROUND_PIDS+=("$writer")
sleep 0.5
sum=$(sha256sum <"$A/big")
kill -9 "$(machine_pid member)"
wait "$writer" 2>/dev/null || true
umount -l "$B" 2>/dev/null || true
[ "$(timeout 120 sha256sum <"$A/big")" = "$sum" ] || die "what was there has changed"
has_one_member() { "$BRICKCTL" explain --json "$A" 2>/dev/null | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["state"]["member_count"] != 0)'; }
within 60 has_one_member || die "a killed member stays"
sleep 2  # what it was lent comes back, with zeros
leave_machine first
exits 0 check "$SOURCE" --secret-file "$SHARED_SECRET"
exits 0 set scrub "$SOURCE" --secret-file "$SHARED_SECRET"
