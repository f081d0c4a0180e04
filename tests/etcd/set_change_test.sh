#!/usr/bin/env bash
# brickctl set replace, drain, add, remove and rebalance: with and without a mount, under load, and when brickctl is killed on the way.
. "$(dirname "$0")/lib.sh"
etcdctl() { command etcdctl --endpoints "127.0.0.1:$ETCD_PORT" "$@"; }

secret admin "the administrator's line"
secret clients "the clients' line"
start_etcd only
SET=etcd://127.0.0.1:$ETCD_PORT/home
BRICK_KIND[v]=volatile
for name in a b c d e; do start_brick_of_set "$name" --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"; done
start_brick_of_set v --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
KNOWN=(--secret-file "$WORK/clients")
ADMIN=("${KNOWN[@]}" --admin-secret-file "$WORK/admin")
SOURCE=$SET
mount_set() { mount_brickfs "secret=$WORK/clients"; }

copies_on() { "$BRICKCTL" set status "$SET" "${KNOWN[@]}" --json | python3 -c 'import json,sys; print(sum(x["brick"] == sys.argv[1] for p in json.load(sys.stdin)["places"] for x in p["replicas"]))' "$(brick "$1")"; }
is_well() { exits 0 set status "$SET" "${KNOWN[@]}"; ! grep -q leaving "$WORK/out" || die "$*: $(cat "$WORK/out")"; }
sums() { (cd "$MNT" && find . -type f | sort | xargs md5sum); }
data_is_right() { timeout 60 bash -c "cd '$MNT' && md5sum --quiet -c '$WORK/sums'" || die "$*: data is not as it was"; }

say "usage"
exits 0 set create "$SET" --replicas 2 "$(brick a)" "$(brick b)" "${ADMIN[@]}"
refused 2 'BRICK' set replace "$SET" "$(brick a)"
refused 1 'named twice' set replace "$SET" "$(brick a)" "$(brick a)" "${ADMIN[@]}"
refused 1 'has a copy of it already' set replace "$SET" "$(brick a)" "$(brick b)" "${ADMIN[@]}"
refused 1 'has no copy of this set' set replace "$SET" "$(brick c)" "$(brick d)" "${ADMIN[@]}"
refused 1 'volumes are missing' set replace "$SET" "$(brick a)" "$(brick c)" "${KNOWN[@]}"
refused 1 'is a durable brick, and .* a volatile one' set replace "$SET" "$(brick a)" "$(brick v)" "${ADMIN[@]}"
refused 1 'in the domain .* of another copy' set replace "$SET" "$(brick a)" "$(brick c)" --domain "$(brick b)" "${ADMIN[@]}"
refused 1 'no other brick of the set can have its copy' set drain "$SET" "$(brick a)" "${ADMIN[@]}"
refused 1 'set drain' set remove "$SET" "$(brick a)" "${ADMIN[@]}"
refused 2 'BRICK' set move "$SET" "$(brick a)"
refused 1 'is another brick of this set' set move "$SET" "$(brick a)" "$(brick b)" "${KNOWN[@]}"
other_name=tcp://127.1:${BRICK_PORT[a]} no_brick=tcp://127.0.0.1:$(free_port)
other="the set has no brick $other_name: it is $(brick a), by another name"
refused 1 "$other" set drain "$SET" "$other_name" "${ADMIN[@]}"
refused 1 "$other" set replace "$SET" "$other_name" "$(brick b)" "${ADMIN[@]}"
refused 1 "$other" set remove "$SET" "$other_name" "${KNOWN[@]}"
refused 1 "the set has no brick $no_brick, only .*$(brick a).*; whether it is one of them .* cannot be told: no brickd listens there" set drain "$SET" "$no_brick" "${ADMIN[@]}"
exits 0 set drain "$SET" "$(brick c)" "${ADMIN[@]}"
grep -q 'has no copy any more' "$WORK/out" || die "drain of a brick that answers, and is not of the set: $(cat "$WORK/out")"
is_well "after refusals"

say "replaced under load on a mount"
mount_set
for i in 1 2 3 4 5 6; do head -c 1200000 /dev/urandom >"$MNT/file$i"; done
sums >"$WORK/sums"
(set +e; i=0; while [ ! -e "$WORK/enough" ]; do echo "line $i" >>"$MNT/log" && sync "$MNT/log" && echo $((++i)) >"$WORK/lines" || echo failed >"$WORK/load_failed"; dd if=/dev/zero of="$MNT/over" bs=64k count=8 conv=notrunc status=none; done) &
LOAD=$!
exits 0 set replace "$SET" "$(brick a)" "$(brick c)" "${ADMIN[@]}" --json
fields_are_documented "set replace" "$WORK/out"
json "$WORK/out" '(r["copies"], r["done"]) == (1, True)' || die "replace --json: $(cat "$WORK/out")"
is_well replace
[ "$(copies_on a) $(copies_on c)" = "0 1" ] || die "the copy has not moved"
exits 0 set replace "$SET" "$(brick a)" "$(brick c)" "${ADMIN[@]}"
kill_brick_of_set a
sleep 0.3
touch "$WORK/enough"; wait "$LOAD"
[ ! -e "$WORK/load_failed" ] || die "the load failed"
[ "$(wc -l <"$MNT/log")" = "$(cat "$WORK/lines")" ] || die "lines of the log are lost"
rm "$MNT/over"
sums >"$WORK/sums"
unmount_brickfs
start_brick_of_set a --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
kill_brick_of_set b
mount_set
data_is_right "from the new copy alone"
unmount_brickfs
start_brick_of_set b --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"

say "the address of a brick changes: with and without a mount, nothing is copied"
all_come_back() { timeout 60 "$BRICKCTL" set status "$SET" "${KNOWN[@]}" --wait >"$WORK/out" 2>"$WORK/err" || die "$*: $(cat "$WORK/out" "$WORK/err")"; }
mount_set
all_come_back "with all bricks there"
unmount_brickfs
other_port() {  # NAME: the same brick elsewhere
  kill_brick_of_set "$1"
  unset "BRICK_PORT[$1]"
  start_brick_of_set "$1" --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
}
former=$(brick c)
other_port c
refused 1 'it is another brick|has not this copy|has no volume' set move "$SET" "$former" "$(brick d)" "${KNOWN[@]}"
exits 0 set move "$SET" "$former" "$(brick c)" "${KNOWN[@]}"
grep -q "$former is at $(brick c) now" "$WORK/out" || die "move: $(cat "$WORK/out")"
exits 0 set move "$SET" "$former" "$(brick c)" "${KNOWN[@]}"
is_well "after a move without a mount"
mount_set
data_is_right "after a move"
former=$(brick c)
other_port c
echo more >>"$MNT/log"
sync "$MNT/log"
sums >"$WORK/sums"
exits 0 set move "$SET" "$former" "$(brick c)" "${KNOWN[@]}" --json
fields_are_documented "set move" "$WORK/out"
within 60 grep -q "is at $(brick c)/home now" "$WORK/brickfs.log" || die "the client does not look for it there: $(tail -n 3 "$WORK/brickfs.log")"
all_come_back "after a move on a mount"
data_is_right "after a move on a mount"

say "a brick that is too small is refused; one that fills up later says so"
BRICK_SIZE=6M start_brick_of_set small --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
refused 1 "$(brick small).* is too small: it has room for" set replace "$SET" "$(brick c)" "$(brick small)" "${ADMIN[@]}"
is_well "after a replacement that was refused"
start_brick_of_set filled --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
kill -STOP "$(brickfs_pid)"
exits 0 set replace "$SET" "$(brick c)" "$(brick filled)" --no-wait "${ADMIN[@]}"
exits 0 alloc "$(brick filled)/default" 0 31 "${KNOWN[@]}"
kill -CONT "$(brickfs_pid)"
says_full() { timeout 20 "$BRICKCTL" set status "$SET" "${KNOWN[@]}" >"$WORK/status"; grep -q "$(brick filled)/home.*cannot be brought up to date: the brick is full" "$WORK/status"; }
within 30 says_full || die "why it does not come is not said: $(cat "$WORK/status")"
sleep 2
says_full || die "why it does not come is said once only: $(cat "$WORK/status")"
timeout 60 "$BRICKCTL" set replace "$SET" "$(brick c)" "$(brick filled)" "${ADMIN[@]}" >"$WORK/out" 2>"$WORK/err" &
waits=$!
BACKGROUND_PIDS+=("$waits")
within 20 grep -q "$(brick filled)/home cannot be brought up to date: the brick is full" "$WORK/err" || die "replace does not say what it waits for: $(cat "$WORK/err")"
exits 0 free "$(brick filled)/default" 0 31 "${KNOWN[@]}"
wait "$waits" || die "replace does not end when there is room: $(cat "$WORK/out" "$WORK/err")"
exits 0 set replace "$SET" "$(brick filled)" "$(brick c)" "${ADMIN[@]}"
data_is_right "after both"
unmount_brickfs
is_well "after all of that"

say "replaced on a set that is not mounted, and brickctl killed on the way"
for delay in 0.05 0.15 0.3 0.6; do
  timeout -s KILL "$delay" "$BRICKCTL" set replace "$SET" "$(brick c)" "$(brick d)" "${ADMIN[@]}" >/dev/null 2>&1 || true
done
exits 0 set replace "$SET" "$(brick c)" "$(brick d)" "${ADMIN[@]}"
is_well "replace without a mount"
[ "$(copies_on c) $(copies_on d) $(copies_on b)" = "0 1 1" ] || die "the copy has not moved"

say "a place more, and new data in it"
exits 0 set add "$SET" "$(brick e)" "${ADMIN[@]}"
grep -q 'it has 2 places now' "$WORK/out" || die "add: $(cat "$WORK/out")"
exits 0 set add "$SET" "$(brick e)" "${ADMIN[@]}"
grep -q 'are of it already' "$WORK/out" || die "add again: $(cat "$WORK/out")"
mount_set
data_is_right "after add"
for i in 11 12 13 14 15 16; do head -c 2200000 /dev/urandom >"$MNT/file$i"; done
sync "$MNT/file16"
sums >"$WORK/sums"
exits 0 set status "$SET" "${KNOWN[@]}"
grep -A1 'place 1' "$WORK/out" | grep -qE 'in sync; answers, ([0-9.]+ MiB|[1-9])' || die "nothing is in the new place: $(cat "$WORK/out")"

say "drained on the mount, and rebalanced"
exits 0 set add "$SET" "$(brick a)" "${ADMIN[@]}"
grep -q 'from the next mount on' "$WORK/out" || die "add on a mount: $(cat "$WORK/out")"

say "a place that waits for the next mount: its copies move at once, with the mount there and a brick dead"
at_once() { timeout 20 "$BRICKCTL" set "$1" "$SET" "${@:2}" "${ADMIN[@]}" --json >"$WORK/out" 2>&1 || die "set $*: $(cat "$WORK/out")"; }
waits() { exits 0 set status "$SET" "${KNOWN[@]}" --json; json "$WORK/out" 'r["verdict"] == "well" and [p["made"] for p in r["places"]] == [True, True, False] and r["notes"] == ["place 2: not in use yet: a place is made when the volume is mounted"] and all(x["state"] == "in sync" and not x["leaving"] for p in r["places"] for x in p["replicas"])' || die "$*: $(cat "$WORK/out")"; }
waits "after add"
exits 0 set status "$SET" "${KNOWN[@]}"
grep -q '^note: place 2: not in use yet' "$WORK/out" || die "status: $(cat "$WORK/out")"
at_once replace "$(brick a)" "$(brick c)"
json "$WORK/out" '(r["copies"], r["done"]) == (1, True)' || die "replace of what is not in use: $(cat "$WORK/out")"
[ "$(copies_on a) $(copies_on c)" = "0 1" ] || die "the copy has not moved"
waits "after replace"
at_once replace "$(brick a)" "$(brick c)"
for delay in 0.02 0.04 0.07 0.1; do
  timeout -s KILL "$delay" "$BRICKCTL" set replace "$SET" "$(brick c)" "$(brick a)" "${ADMIN[@]}" >/dev/null 2>&1 || true
  at_once replace "$(brick c)" "$(brick a)"
  [ "$(copies_on a) $(copies_on c)" = "1 0" ] || die "brickctl was killed after $delay s: the copy has not moved"
  at_once replace "$(brick a)" "$(brick c)"
done
waits "after brickctl was killed on the way"
kill_brick_of_set c
at_once replace "$(brick c)" "$(brick a)" --no-wait
json "$WORK/out" '(r["copies"], r["done"]) == (1, True)' || die "replace of a dead brick: $(cat "$WORK/out")"
[ "$(copies_on a) $(copies_on c)" = "1 0" ] || die "the copy of a dead brick has not moved"
waits "after a dead brick is replaced"
data_is_right "of the mount meanwhile"

say "a copy that is not in sync, beside those that are wanted"
start_brick_of_set c --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin"
kill -STOP "$(brickfs_pid "$MNT")"
exits 0 set replace "$SET" "$(brick b)" "$(brick c)" "${ADMIN[@]}" --no-wait
exits 0 set status "$SET" "${KNOWN[@]}"
grep -q '^note: place 0: 2 copies are in sync, as many as are wanted, and 1 not yet$' "$WORK/out" || die "status: $(cat "$WORK/out")"
! grep -q '^all copies are in sync' "$WORK/out" || die "status says that all are in sync: $(cat "$WORK/out")"
kill -CONT "$(brickfs_pid "$MNT")"
exits 0 set replace "$SET" "$(brick b)" "$(brick c)" "${ADMIN[@]}"
exits 0 set replace "$SET" "$(brick c)" "$(brick b)" "${ADMIN[@]}"
is_well "there and back"
unmount_brickfs
mount_set
exits 0 set drain "$SET" "$(brick b)" "${ADMIN[@]}"
is_well drain
[ "$(copies_on b)" = 0 ] || die "drain leaves copies"
exits 0 set remove "$SET" "$(brick b)" "${KNOWN[@]}"
grep -q 'it has no copy' "$WORK/out" || die "remove: $(cat "$WORK/out")"
kill_brick_of_set b
data_is_right "after drain"
unmount_brickfs
exits 0 set rebalance "$SET" "${ADMIN[@]}"
[ "$(($(copies_on a) + $(copies_on d) + $(copies_on e)))" = 6 ] || die "copies are lost"
[ "$(copies_on a) $(copies_on d) $(copies_on e)" = "2 2 2" ] || die "not even: $(copies_on a) $(copies_on d) $(copies_on e)"
mount_set
data_is_right "after rebalance"
unmount_brickfs
is_well "at the end"

say "of a set whose client was killed, and all copies wiped"
lost=(f g)
for name in "${lost[@]}" h; do start_brick_of_set "$name" --volume gone; done
SOURCE=etcd://127.0.0.1:$ETCD_PORT/gone
exits 0 set create "$SOURCE" --replicas 2 "$(brick f)" "$(brick g)"
mount_brickfs
kill -9 "$(brickfs_pid)"
umount -i -l "$MNT"
for name in "${lost[@]}"; do
  kill_brick_of_set "$name"
  rm "$WORK/$name.store"
  start_brick_of_set "$name" --volume gone
done
exits 4 set status "$SOURCE"
grep -q 'answers, and has lost everything: its volume is empty' "$WORK/out" || die "status of what is lost: $(cat "$WORK/out")"
exits 1 set replace "$SOURCE" "$(brick f)" "$(brick h)"
tail -n 1 "$WORK/err" | grep -q 'all copies of place 0 are lost' || die "replace of what is lost: $(cat "$WORK/err")"

say "passed"
