#!/usr/bin/env bash
# How long a write takes while bricks go away: of three copies one is killed, one is stopped, and both at once; then one brick of sixteen places
# of two copies is stopped, with work on all of them. It prints what it sees, and fails where places or bricks wait for each other.
. "$(dirname "$0")/../etcd/lib.sh"
LONGEST=6
BRICK_SIZE=128M
start_etcd only
source_of() { printf 'etcd://127.0.0.1:%s/%s\n' "$ETCD_PORT" "$1"; }
brick_again() { BRICK_KIND[$1]=volatile; start_brick_of_set "$1" --volume three --volume many --volume many.2; }
for name in a b c; do brick_again "$name"; done
exits 0 set create "$(source_of three)" --replicas 3 "$(brick a)" "$(brick b)" "$(brick c)"

is_well() { timeout 20 "$BRICKCTL" set status "$SOURCE" >"$WORK/status" 2>&1; }
# longest WHAT FILES COMMAND...: of the writes of 12 s to so many files, with the command behind the first two.
longest() {
  local what=$1 files=$2 paths=() i pid; shift 2
  for i in $(seq 1 "$files"); do paths+=("$MNT/file$i"); done
  timeout 60 "$TESTS/mount/copies_stall.py" 12 "${paths[@]}" >"$WORK/longest" 2>"$WORK/longest.err" & pid=$!
  BACKGROUND_PIDS+=("$pid")
  sleep 2
  "$@"
  wait "$pid" || die "$what: $(cat "$WORK/longest.err")"
  say "$what: the longest write took $(cat "$WORK/longest") s"
  awk -v longest="$(cat "$WORK/longest")" -v most="$LONGEST" 'BEGIN { exit !(longest < most) }' || die "$what: a write took $(cat "$WORK/longest") s"
}
stop() { kill -STOP "${BRICK_PID[$1]}"; }
go_on() { kill -CONT "${BRICK_PID[$1]}"; }
kill_and_stop() { kill_brick_of_set "$1"; stop "$2"; }
stop_both() { stop "$1"; stop "$2"; }

SOURCE=$(source_of three)
mount_brickfs
longest "of three copies one is killed" 1 kill_brick_of_set a
brick_again a
within 60 is_well || die "it is not in sync again: $(cat "$WORK/status")"
longest "of three copies one is stopped" 1 stop b
go_on b
within 60 is_well || die "it is not in sync again: $(cat "$WORK/status")"
longest "of three copies one is killed, one is stopped" 1 kill_and_stop b c
go_on c
brick_again b
within 60 is_well || die "it is not in sync again: $(cat "$WORK/status")"
longest "of three copies two are stopped" 1 stop_both a c
go_on a
go_on c
within 60 is_well || die "it is not in sync again: $(cat "$WORK/status")"
unmount_brickfs

bricks=() names=(a b c)
for i in $(seq 4 16); do names+=("b$i"); brick_again "b$i"; done
for name in "${names[@]}"; do bricks+=("$(brick "$name")"); done
SOURCE=$(source_of many)
exits 0 set create "$SOURCE" --replicas 2 "${bricks[@]}"
mount_brickfs
longest "of sixteen places of two copies one brick is stopped" 16 stop a
go_on a
within 120 is_well || die "it is not in sync again: $(cat "$WORK/status")"
unmount_brickfs
say "passed"
