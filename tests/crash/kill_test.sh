#!/usr/bin/env bash
# kill -9 at random moments under load: the next mount comes up by itself and soon, and what was synced is there.
#   kill_test.sh tcp|rdma client|brick|both ROUNDS
#   kill_test.sh file both ROUNDS              (the brick lives in the client)
. "$(dirname "$0")/../mount/lib.sh"
kind=$1 victim=$2 rounds=$3
load=$BUILD/tests/sync_load
seed=${BRICKFS_SEED:-$RANDOM}
say "seed $seed"
RANDOM=$seed
start_brick "$kind" 1G
mount_brickfs
mkdir "$WORK/logs" "$MNT/load"
longest=0 longest_allowed=5000  # milliseconds
[ -z "$SMALL" ] || longest_allowed=30000

kill_client() {
  local pid; pid=$(brickfs_pid) || die "no brickfs serves $MNT"
  kill -9 "$pid"
  within 10 test ! -d "/proc/$pid" || die "a killed brickfs stays"
}
remount() {
  local began took
  umount -l "$MNT" 2>/dev/null || true
  began=$(now_ms)
  mount_brickfs
  took=$(($(now_ms) - began))
  [ "$took" -le "$longest" ] || longest=$took
  [ "$took" -lt "$longest_allowed" ] || die "round $round: the mount took $took ms"
}

for round in $(seq 1 "$rounds"); do
  rm -rf "$WORK/logs"/* "$MNT/load"/*
  "$load" run "$MNT/load" "$WORK/logs" 60 $((seed * 100 + round)) 2>"$WORK/load.log" &
  pid=$!
  BACKGROUND_PIDS+=("$pid")
  sleep "0.$((RANDOM % 900 + 100))"
  case $victim in
    client) kill_client ;;
    brick) kill_brickd KILL ;;
    both) kill_client; [ "$kind" = file ] || kill_brickd KILL ;;
  esac
  if [ "$victim" = brick ]; then
    restart_brickd
    sleep 0.3
    kill "$pid" && wait "$pid" 2>/dev/null || [ $? = 143 ] || die "round $round: an operation failed: $(cat "$WORK/load.log")"
    "$load" verify "$MNT/load" "$WORK/logs" live >"$WORK/verify.log" 2>&1 || { cat "$WORK/verify.log" >&2; die "round $round: bytes are lost under the live mount"; }
    unmount_brickfs
  else
    wait "$pid" 2>/dev/null || true
    [ "$victim" = client ] || [ "$kind" = file ] || restart_brickd
    remount
    "$load" verify "$MNT/load" "$WORK/logs" crash >"$WORK/verify.log" 2>&1 || { cat "$WORK/verify.log" >&2; die "round $round: synced bytes are lost"; }
    unmount_brickfs
  fi
  check_volume
  mount_brickfs
  "$load" verify "$MNT/load" "$WORK/logs" crash >"$WORK/verify.log" 2>&1 || { cat "$WORK/verify.log" >&2; die "round $round: synced bytes are lost by the second mount"; }
done
rm -rf "$MNT/load"
unmount_brickfs
check_volume
say "$rounds rounds, the longest mount took $longest ms"
