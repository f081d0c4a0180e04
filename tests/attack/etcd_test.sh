#!/usr/bin/env bash
# Whoever has etcd's address and never ends an answer hangs nobody, and takes no memory to speak of: brickctl, a mount that begins, one that is
# there and has to leave out a copy, and a brick that shows its sets. SIGTERM ends each of them.
. "$(dirname "$0")/../etcd/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
HERE=$(dirname "$0")

MOST_MB=100      # beside what they have anyway
END_SECONDS=25   # after SIGTERM
BRICK_SIZE=128M
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/home
resident_mb() { awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$1/status"; }
is_over() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }

start_brick_of_set a --volume home --http 127.0.0.1:0 --etcd "127.0.0.1:$ETCD_PORT"
PAGE=http://127.0.0.1:$(tail -n 1 "$WORK/a.port")/status.json
for name in b c; do start_brick_of_set $name --volume home; done
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"
mount_brickfs
echo before >"$MNT/file"
sync "$MNT/file"
look() { timeout 10 python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=9).read()' "$PAGE"; }
look
mount_pid=$(brickfs_pid "$MNT")
brick_mb=$(resident_mb "${BRICK_PID[a]}") mount_mb=$(resident_mb "$mount_pid")
kill_etcd only

for what in heads line interim extension drops nested flat; do
  say "etcd answers with $what"
  : >"$WORK/hostile.out"
  python3 "$HERE/hostile_etcd.py" "$ETCD_PORT" $what >"$WORK/hostile.out" 2>"$WORK/hostile.log" &
  hostile=$!
  BACKGROUND_PIDS+=("$hostile")
  within 20 python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$ETCD_PORT" || die "$(cat "$WORK/hostile.log")"

  began=$(now_ms)
  status=0
  timeout -s KILL 60 python3 - "$BRICKCTL" set status "$SOURCE" >"$WORK/ctl" <<'P' || status=$?
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, ended.stderr.decode().strip().replace("\n", " "))
sys.exit(ended.returncode)
P
  [ "$status" = 1 ] || die "brickctl set status ends with $status: $(cat "$WORK/ctl")"
  [ "$(now_ms)" -le $((began + 15000)) ] || die "brickctl took $(($(now_ms) - began)) ms"
  read -r mb line <"$WORK/ctl"
  say "brickctl: $mb MB, $(($(now_ms) - began)) ms: $line"
  [ "$mb" -le "$MOST_MB" ] || die "brickctl takes $mb MB"

  mkdir -p "$WORK/other"
  "$BRICKFS" "${SOURCE%/*}/other" "$WORK/other" -f 2>"$WORK/other.log" </dev/null &
  other=$!
  BACKGROUND_PIDS+=("$other")
  look || die "the brick's page is not answered"
  sleep 2
  kill -TERM "$other" 2>/dev/null || true
  within "$END_SECONDS" is_over "$other" || die "a mount that begins does not end at SIGTERM"
  kill -9 "$hostile"
  wait "$hostile" 2>/dev/null || true
done

say "a copy is lost, and etcd does not take it"
python3 "$HERE/hostile_etcd.py" "$ETCD_PORT" heads >"$WORK/hostile.out" 2>"$WORK/hostile.log" &
hostile=$!
BACKGROUND_PIDS+=("$hostile")
kill_brick_of_set b
timeout 60 sh -c "echo after >>'$MNT/file'" &
within 20 test -s "$WORK/hostile.out" || die "etcd is not asked"
sleep 10
look || die "the brick's page is not answered"
for who in "brickd $brick_mb ${BRICK_PID[a]}" "brickfs $mount_mb $mount_pid"; do
  read -r name before pid <<<"$who"
  say "$name: $(resident_mb "$pid") MB, $before MB before"
  [ "$(resident_mb "$pid")" -le $((before + MOST_MB)) ] || die "$name takes $(resident_mb "$pid") MB"
done
began=$(now_ms)
kill -TERM "$mount_pid"
within "$END_SECONDS" is_over "$mount_pid" || die "the mount does not end at SIGTERM"
say "the mount ended after $(($(now_ms) - began)) ms"
began=$(now_ms)
kill -TERM "${BRICK_PID[a]}"
within "$END_SECONDS" is_over "${BRICK_PID[a]}" || die "brickd does not end at SIGTERM"
say "brickd ended after $(($(now_ms) - began)) ms"
say "ok"
