#!/usr/bin/env bash
# Whoever has the brick's port while brickd is down, and does not know its secret, ends no mount: it goes on when brickd is back.
. "$(dirname "$0")/../mount/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
HERE=$(dirname "$0")

ESTALE=116 EBUSY=16 ENOENT=2
head -c 32 /dev/urandom | base64 >"$WORK/secret"
chmod 600 "$WORK/secret"
start_brickd --memory 256M --file "$WORK/store" --size 256M --secret-file "$WORK/secret"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mkdir "$WORK/nowhere"
mount_brickfs "secret=$WORK/secret"
echo before >"$MNT/file"
sync "$MNT/file"

for attack in "$ESTALE answer" "$ESTALE welcome" "$EBUSY answer" "$ENOENT answer"; do
  say "an impostor refuses: $attack"
  kill_brickd
  : >"$WORK/impostor.out"
  # shellcheck disable=SC2086  # two words
  python3 "$HERE/impostor.py" "$BRICKD_PORT" $attack >"$WORK/impostor.out" &
  impostor=$!
  BACKGROUND_PIDS+=("$impostor")
  within 20 test -s "$WORK/impostor.out" || die "nobody came to the impostor"
  sleep 1  # and again
  status=0
  timeout 20 "$BRICKFS" "${SOURCE%/*}/other" "$WORK/nowhere" -o "secret=$WORK/secret" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" = 1 ] || die "a first mount at the impostor's ends with $status"
  [ "$(grep -vc ': info: ' "$WORK/err")" = 1 ] || die "a first mount at the impostor's does not say one line: $(cat "$WORK/err")"
  say "$(tail -n 1 "$WORK/err")"
  kill "$impostor"
  wait "$impostor" 2>/dev/null || true
  restart_brickd
  timeout 30 sh -c "echo after >>'$MNT/file' && sync '$MNT/file'" || die "the mount does not work any more"
done
[ "$(wc -l <"$MNT/file")" = 5 ] || die "writes are missing"
unmount_brickfs
check_volume() { timeout 300 "$BRICKCTL" check "$SOURCE" --secret-file "$WORK/secret" >"$WORK/check.log" 2>&1 || die "check: $(cat "$WORK/check.log")"; }
check_volume
say "ok"
