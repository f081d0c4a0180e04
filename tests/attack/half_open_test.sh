#!/usr/bin/env bash
# 10,000 half-open connections, renewed as they are closed, cost a mount little, and do not keep it out when it comes back.
. "$(dirname "$0")/../mount/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
HERE=$(dirname "$0")

PEERS=10000 RATE=1000
start_brickd --memory 512M --file "$WORK/store" --size 512M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
measure() { timeout 60 python3 "$HERE/throughput.py" "$MNT/load" 3; }
median() { sort -n | sed -n '2p'; }  # of three
measure >/dev/null  # the file is there

start_peers() {
  : >"$WORK/half_open.out"
  python3 "$HERE/half_open.py" "$BRICKD_PORT" "$PEERS" "$RATE" >"$WORK/half_open.out" &
  attack=$!
  BACKGROUND_PIDS+=("$attack")
  within 60 test -s "$WORK/half_open.out" || die "the peers do not come"
}

say "throughput alone and among them, in turns"
start_peers
for _ in 1 2 3; do
  kill -CONT "$attack"; sleep 1; measure >>"$WORK/among"
  kill -STOP "$attack"; sleep 1; measure >>"$WORK/alone"
done
kill -CONT "$attack"
alone=$(median <"$WORK/alone") among=$(median <"$WORK/among")
say "MB/s: alone $alone ($(tr '\n' ' ' <"$WORK/alone")), among them $among ($(tr '\n' ' ' <"$WORK/among"))"
[ "$((among * 3))" -ge "$alone" ] || die "peers cost the mount most of its throughput"  # a fifth at most on a quiet machine

say "how many connections the brick has"
fds=$(ls "/proc/$BRICKD_PID/fd" | wc -l)
[ "$fds" -le 700 ] || die "brickd has $fds descriptors open"
threads=$(ls "/proc/$BRICKD_PID/task" | wc -l)
[ "$threads" -le 60 ] || die "brickd has $threads threads"

say "a cut: the brick is gone for a moment"
for _ in 1 2 3; do
  kill_brickd
  restart_brickd
  began=$(now_ms)
  timeout 45 sh -c "echo more >>'$MNT/file' && sync '$MNT/file'" || die "the mount does not come back"
  took=$(($(now_ms) - began))
  say "back after $took ms"
  [ "$took" -le 15000 ] || die "the mount was not back within 15 s"  # 3 s on a quiet machine
  sleep 1
done
kill -0 "$attack" || die "the peers have given up"
kill -9 "$attack"
unmount_brickfs
check_volume
say "ok"
