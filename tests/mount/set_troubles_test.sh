#!/usr/bin/env bash
# Troubles of a mount of two copies, each made for real, as in troubles_test.sh: explain of the mount and of the set name the cause and the cure, `set status`,
# log and metrics say the same, and what goes on is not called broken.
#   set_troubles_test.sh
. "$(dirname "$0")/../etcd/lib.sh"
. "$TESTS/mount/disk_lib.sh"
. "$TESTS/mount/trouble_lib.sh"

BRICK_SIZE=128M
touch "$DISK/b.store"
ln -s "$DISK/b.store" "$WORK/b.store"
secret clients "the line of all"
secret mine "the line of all"
secret b "another line"
MOUNT_OPTIONS=secret=$WORK/mine
WITH=(--secret-file "$WORK/mine")
start() { start_brick_of_set "$1" --secret-file "${2:-$WORK/clients}"; }
for name in a b; do start "$name"; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)" "${WITH[@]}"
end_bricks() {  # which have a store on the disk
  local status=$? name
  set +e
  umount -i -l "$MNT" 2>/dev/null
  for name in a b; do kill -9 "${BRICK_PID[$name]}" 2>/dev/null; done
  (exit "$status")
  end_disk
}
trap end_bricks EXIT
set_status() { local status=0; timeout 30 "$BRICKCTL" set status "$SOURCE" "${WITH[@]}" >"$WORK/status" 2>&1 || status=$?; [ "$status" = "$1" ] && grep -E -- "$2" "$WORK/status" >/dev/null; }
set_must_say() { within 30 set_status "$@" || die "set status says: $(cat "$WORK/status")"; }
goes_on() { timeout 20 sh -c 'echo "$2" >"$1/goes-on" && sync "$1/goes-on"' sh "$MNT" "$1" || die "the volume does not go on"; }
are_in_sync() { soon_metric_is 'brickfs_copies_in_sync{place="0"}' "$1"; }

mount_with
echo kept >"$MNT/kept"

say "-- nothing"
must_be_well
set_must_say 0 '^all copies are in sync'
are_in_sync 2

say "-- a copy is missing: its brick is dead"
kill_brick_of_set b
goes_on dead
must_explain 30 3 "^warning: copies: $(brick b)/default.*: it is left out.* \\(1 of 2 copies of place 0 can be read\\)" 'brought up to date by itself.*brickctl set replace SOURCE OLD NEW' "$MNT"
explains 3 "^warning: link: asked now: $(brick b)/default.*: no brickd listens there" 'start brickd there' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_explain 10 3 "^warning: copies: $(brick b)/default.*: it is left out" 'brickctl set replace' "$SOURCE" "${WITH[@]}"
must_have_logged "$(brick b).* is left out until it is back: the volume goes on without that copy"
set_must_say 3 "$(brick b)/default.*: stale since"
are_in_sync 1
link_is connected
start b
must_be_well 60
set_must_say 0 '^all copies are in sync'
are_in_sync 2

say "-- a copy is missing: the secret of its brick is another"
kill_brick_of_set b
start b "$WORK/b"
goes_on refused
must_explain 30 3 "^warning: copies: $(brick b)/default.*: it is left out" 'brought up to date by itself' "$MNT"
explains 3 "^warning: link: asked now: $(brick b)/default.*: the secret is wrong or missing" 'give the line that brickd has' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_have_logged "$(brick b).*: the brick refuses this client: the secret differs"
set_must_say 3 'the secret is wrong or missing'
are_in_sync 1
printf 'the line of all\n' >>"$WORK/b"
kill -HUP "${BRICK_PID[b]}"
must_be_well 60

say "-- all copies are away"
kill_brick_of_set b
goes_on one
must_explain 30 3 '^warning: copies: .*it is left out' 'brought up to date by itself' "$MNT"
kill_brick_of_set a
must_explain 30 4 '^broken: link: .*brick unreachable: .*operations wait' 'does the brick.s host run, and brickd on it' "$MNT"
explains 4 "^broken: link: asked now: $(brick a)/default.*: no brickd listens there" 'start brickd there' "$MNT" || die "explain: $(cat "$WORK/explained")"
must_explain 10 4 '^broken: copies: ' 'wait until such a brick is back' "$SOURCE" "${WITH[@]}"
set_must_say 4 'no brickd listens there'
link_is waiting
for name in a b; do start "$name"; done
must_be_well 90
goes_on again

say "-- the disk under one of two copies is full"
dd if=/dev/zero of="$DISK/of_others" bs=1M status=none 2>/dev/null || dd if=/dev/zero of="$DISK/of_others2" bs=4k status=none 2>/dev/null || true
soon_metric_is brickfs_store_healthy 0
goes_on full
must_explain 20 3 "^warning: store: $(brick b)/default.*: the brick's store: its disk is full" 'make room on the disk' "$MNT"
must_explain 20 3 "^warning: store: $(brick b)/default.*: the brick's store: its disk is full" 'make room on the disk' "$SOURCE" "${WITH[@]}"
! grep -E '^broken' "$WORK/explained" || die "what goes on is called broken"
rm "$DISK"/of_others*
must_be_well 60

say "-- etcd is away"
kill_etcd only
goes_on without
must_explain 20 4 '^broken: etcd: .*cannot be reached' 'does it run' "$SOURCE" "${WITH[@]}"
set_must_say 1 'cannot be reached'
link_is connected
run_etcd only || die "etcd does not come back"
must_be_well 60
set_must_say 0 '^all copies are in sync'
[ "$(cat "$MNT/kept")" = kept ] || die "a file changed"
unmount_brickfs
