#!/usr/bin/env bash
# Whoever is at a client's address, and does not know the secret, locks nobody out: not by guesses, nor by silent connections, nor from hundreds
# of addresses. Who knows it gets in, and a mount that was cut off is back.
. "$(dirname "$0")/../mount/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
HERE=$(dirname "$0")

head -c 32 /dev/urandom | base64 >"$WORK/secret"
chmod 600 "$WORK/secret"
start_brickd --memory 256M --file "$WORK/store" --size 256M --secret-file "$WORK/secret"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs "secret=$WORK/secret"
echo before >"$MNT/file"
sync "$MNT/file"

open_twenty() {  # the longest, in ms
  timeout 120 python3 - "$HERE" "$BRICKD_PORT" "$WORK/secret" <<'P'
import sys, time
sys.path.insert(0, sys.argv[1])
import brick_wire as wire
secret = open(sys.argv[3], "rb").read().strip()
took = []
for _ in range(20):
    began = time.monotonic()
    wire.Session(int(sys.argv[2]), secret=secret, mode=wire.OBSERVE, timeout=5).close()
    took.append(time.monotonic() - began)
print(int(max(took) * 1e3))
P
}

for attack in "mixed 150 1" "silent 300 1" "guesses 300 1" "silent 300 300" "guesses 300 300" "mixed 1000 1000"; do
  say "who does not know the secret comes: $attack"
  : >"$WORK/lockout.out"
  # shellcheck disable=SC2086  # three words
  python3 "$HERE/lockout.py" "$BRICKD_PORT" $attack >"$WORK/lockout.out" 2>"$WORK/lockout.log" &
  peer=$!
  BACKGROUND_PIDS+=("$peer")
  many_came() { [ "$(wc -l <"$WORK/lockout.out")" -ge 3 ]; }
  within 30 many_came || die "nobody comes: $(tail -n 1 "$WORK/lockout.log")"
  longest=$(open_twenty) || die "who knows the secret does not get in"
  timeout 10 "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/secret" >/dev/null || die "brickctl does not get in"
  kill_brickd
  restart_brickd
  began=$(now_ms)
  timeout 25 sh -c "echo after >>'$MNT/file' && sync '$MNT/file'" || die "the mount does not come back"
  say "20 of 20 got in, the slowest after $longest ms; the mount was back after $(($(now_ms) - began)) ms; $(tail -n 1 "$WORK/lockout.out") came without it"
  kill -0 "$peer" || die "the peers have given up: $(tail -n 1 "$WORK/lockout.log")"
  kill -9 "$peer"
  wait "$peer" 2>/dev/null || true
done
[ "$(wc -l <"$MNT/file")" = 7 ] || die "writes are missing"
[ "$(grep -c 'secret is wrong' "$WORK/brickd.log")" -le 60 ] || die "each guess logs a line"
unmount_brickfs
timeout 300 "$BRICKCTL" check "$SOURCE" --secret-file "$WORK/secret" >"$WORK/check.log" 2>&1 || die "check: $(cat "$WORK/check.log")"
say "ok"
