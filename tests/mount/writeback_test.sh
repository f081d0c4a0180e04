#!/usr/bin/env bash
# writeback=auto: where it writes back, and what becomes of a full volume then.
#   writeback_test.sh tcp|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 128M
run() { timeout 120 python3 "$TESTS/mount/writeback.py" "$1" "$MNT" "${@:2}" || die "$1"; }

writes_back() { python3 "$TESTS/mount/writeback.py" probe "$MNT"; }

say "auto writes back, but not where operations fail while the brick is away"
mount_brickfs writeback=off
if writes_back; then die "writeback=off writes back"; fi
unmount_brickfs
if [ "$1" != memory ]; then
  mount_brickfs writeback=auto,soft
  if writes_back; then die "a soft mount writes back"; fi
  unmount_brickfs
fi
mount_brickfs writeback=auto
writes_back || die "writeback=auto does not write back"

say "data that has not been written back is data"
run seek
rm "$MNT"/seek

say "near the end of a volume writes go on at their speed"
run near "$BRICKCTL"

if [ "$1" != memory ]; then
  say "what is on its way when brickfs is told to end gets there"
  head -c 64000000 /dev/urandom >"$WORK/blob"
  exec 9>"$MNT/blob"
  cat "$WORK/blob" >&9
  pid=$(brickfs_pid "$MNT")
  [ "$1" = file ] || kill -STOP "$BRICKD_PID"
  kill "$pid"
  sleep 1
  [ "$1" = file ] || kill -CONT "$BRICKD_PID"
  within 30 test ! -d "/proc/$pid" || die "brickfs does not end"
  exec 9>&-
  mount_brickfs writeback=auto
  cmp "$WORK/blob" "$MNT/blob" || die "what was written is not there"
  rm "$MNT/blob"
fi

say "a full volume"
run endless
size=$(run over)
if [ "$1" != memory ]; then
  unmount_brickfs
  check_volume
  mount_brickfs writeback=auto
  [ "$(stat -c %s "$MNT/fill")" = "$size" ] || die "a file has another length than its writer thought"
fi
rm "$MNT"/f*
sync
head -c 30000000 /dev/urandom >"$WORK/blob"
cp "$WORK/blob" "$MNT/blob" || die "no room after all was removed"
cmp "$WORK/blob" "$MNT/blob" || die "not what was written"
unmount_brickfs
