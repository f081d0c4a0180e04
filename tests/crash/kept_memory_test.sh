#!/usr/bin/env bash
# A volatile brick whose memory outlives brickd is restarted, and killed, under fio with verification: no error, no byte lost, short pauses.
# Memory that does not fit is left alone, memory that does not prove itself is gone, and its mount says so.
#   kept_memory_test.sh SIZE RESTARTS [file|manager]
. "$(dirname "$0")/../mount/lib.sh"
SIZE=$1 RESTARTS=$2 KEPT_BY=${3:-file}
MEMORY=/dev/shm/${WORK##*/}
LONGEST=10000  # ms, on a busy machine; 2000 on a quiet one
MANAGER_PID=
end_with_memory() {
  local status=$?
  set +e
  rm -f "$MEMORY"
  [ -z "$MANAGER_PID" ] || kill "$MANAGER_PID" 2>/dev/null
  (exit "$status")
  clean_up
}
trap end_with_memory EXIT
seed=${BRICKFS_SEED:-$RANDOM}
say "seed $seed"
RANDOM=$seed

# Of all files that fio has, three quarters of the brick: what is lost is seen.
megabytes=$((${SIZE%M} * 3 / 4))
fio_pass() {  # NUMBER [FIO-ARGUMENT...]
  (cd "$WORK" && timeout 300 fio --name=kept --directory="$MNT" --rw=randwrite --bs=64k --size="${megabytes}m" --ioengine=libaio --iodepth=8 --direct=1 \
    --verify=xxhash --verify_fatal=1 --do_verify=1 --randseed="$1" --output-format=terse --output="$WORK/fio.log" "${@:2}")
}
load() {
  local pass=0
  while [ ! -e "$WORK/enough" ]; do
    pass=$((pass + 1))
    fio_pass "$pass" || { echo "pass $pass" >"$WORK/failed"; return; }
    echo "$pass" >"$WORK/passes"
  done
}
pauses() { sed -n 's/.*brick is back after \([0-9]*\) ms.*/\1/p' "$WORK/brickfs.log"; }
backs() { pauses | wc -l; }
is_back() { [ "$(backs)" -ge "$1" ]; }
# Of two starts of the manager's, the second one.
serves() { [ -s "$WORK/port" ] && [ -d "/proc/$(cat "$WORK/pid")" ]; }

restart_by() {  # SIGNAL
  local before began ended served
  before=$(backs)
  began=$(now_ms)
  if [ "$KEPT_BY" = manager ]; then
    rm -f "$WORK/port"
    kill "-$1" "$(cat "$WORK/pid")"
    within 60 serves || die "brickd does not come back: $(tail -n 1 "$WORK/brickd.log")"
  else
    kill_brickd "$1"
    ended=$(now_ms)
    restart_brickd
    served=$(now_ms)
    printf '%s: ended after %s ms, served %s ms later\n' "$1" $((ended - began)) $((served - ended)) >>"$WORK/times.log"
  fi
  within 60 is_back $((before + 1)) || die "the mount does not come back after $1: $(tail -n 2 "$WORK/brickfs.log")"
}

if [ "$KEPT_BY" = manager ]; then
  BRICKD_PORT=$((20000 + RANDOM % 10000))
  "$TESTS/crash/service_manager.py" "$WORK" "$BRICKD" --listen "tcp://127.0.0.1:$BRICKD_PORT" --port-file "$WORK/port" --foreground --memory "$SIZE" \
    --keep-memory systemd 2>>"$WORK/brickd.log" &
  MANAGER_PID=$!
  within 60 serves || die "brickd does not start: $(tail -n 1 "$WORK/brickd.log")"
else
  start_brickd --memory "$SIZE" --keep-memory "$MEMORY"
fi
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs
"$BRICKCTL" status "$SOURCE" >"$WORK/status.log"
grep 'medium: .*memory that outlives brickd' "$WORK/status.log" >/dev/null || die "status does not say that the memory outlives brickd"
grep 'durability: .*volatile' "$WORK/status.log" >/dev/null || die "it is said to be durable"

say "$RESTARTS restarts and $RESTARTS kills under load"
load & load_pid=$!
BACKGROUND_PIDS+=("$load_pid")
for signal in TERM KILL; do
  for round in $(seq 1 "$RESTARTS"); do
    sleep "$((RANDOM % 2)).$((RANDOM % 900 + 100))"
    [ ! -e "$WORK/failed" ] || die "fio fails, $(cat "$WORK/failed"), before $signal $round: $(tail -n 3 "$WORK/fio.log")"
    restart_by "$signal"
  done
done
touch "$WORK/enough"
wait "$load_pid"
[ ! -e "$WORK/failed" ] || die "fio fails, $(cat "$WORK/failed"): $(tail -n 3 "$WORK/fio.log")"
[ "$(grep -c 'ended in order; all that is said' "$WORK/brickd.log")" = "$RESTARTS" ] || die "not every stop was in order"
[ "$(grep -c 'ended without a word; all that is said' "$WORK/brickd.log")" = "$RESTARTS" ] || die "not every kill was told from a stop"
longest=$(pauses | sort -n | tail -n 1)
say "$(cat "$WORK/passes") passes of fio; longest pause $longest ms, of $(pauses | sort -n | tr '\n' ' ')"
[ "$longest" -lt "$LONGEST" ] || die "a pause of $longest ms"

say "nothing is lost, also for the next mount"
unmount_brickfs
check_volume
restart_pid=$( [ "$KEPT_BY" = manager ] && cat "$WORK/pid" || echo "$BRICKD_PID")
if [ "$KEPT_BY" = manager ]; then rm -f "$WORK/port"; kill -KILL "$restart_pid"; within 60 serves; else kill_brickd KILL; restart_brickd; fi
mount_brickfs
fio_pass "$(cat "$WORK/passes")" --verify_only || die "bytes are lost: $(tail -n 3 "$WORK/fio.log")"
check_again=$(tree_checksum "$MNT")

if [ "$KEPT_BY" = manager ]; then unmount_brickfs; exit 0; fi

say "a second brickd does not get it"
"$BRICKD" --listen tcp://127.0.0.1:0 --foreground --memory "$SIZE" --keep-memory "$MEMORY" 2>"$WORK/second.log" && die "two have the same memory"
grep 'in use by another process' "$WORK/second.log" >/dev/null || die "why is not said: $(cat "$WORK/second.log")"

say "a brickd of another format, or another size, touches nothing; the former one goes on with it"
byte() { printf "$1" | dd of="$MEMORY" bs=1 seek=8 conv=notrunc status=none; }  # of the version
refused() {
  if "$BRICKD" --listen "tcp://127.0.0.1:$BRICKD_PORT" --foreground --keep-memory "$MEMORY" "$@" 2>"$WORK/second.log"; then die "it serves"; fi
}
kill_brickd TERM
before=$(sha256sum <"$MEMORY")
refused --memory $((${SIZE%M} * 2))M
grep "holds .*, not the .* that were asked for" "$WORK/second.log" >/dev/null || die "why is not said: $(cat "$WORK/second.log")"
[ "$(sha256sum <"$MEMORY")" = "$before" ] || die "it was touched"
byte '\002'
changed=$(sha256sum <"$MEMORY")
refused --memory "$SIZE"
grep 'another brickd (format 2' "$WORK/second.log" >/dev/null || die "why is not said: $(cat "$WORK/second.log")"
[ "$(sha256sum <"$MEMORY")" = "$changed" ] || die "it was touched"
byte '\001'
count=$(backs)
restart_brickd
within 60 is_back $((count + 1)) || die "the mount does not come back"
[ "$(tree_checksum "$MNT")" = "$check_again" ] || die "bytes are lost"

say "memory that does not prove itself is gone, and the mount says so"
kill_brickd KILL
printf 'xxxxxxxx' | dd of="$MEMORY" bs=1 seek=532480 conv=notrunc status=none  # of the block table
restart_brickd
grep 'is given up: all that was in it is gone' "$WORK/brickd.log" >/dev/null || die "brickd does not say so"
within 20 grep 'its memory is gone' "$WORK/brickfs.log" || die "the mount does not say so: $(tail -n 2 "$WORK/brickfs.log")"
if timeout 20 dd if="$MNT/kept.0.0" of="$WORK/read" bs=64k iflag=direct status=none 2>"$WORK/err"; then die "what is gone can be read"; fi
grep -q 'Input/output error' "$WORK/err" || die "reading what is gone: $(cat "$WORK/err")"
timeout 20 umount "$MNT" || die "umount hangs"
within 20 sh -c "! grep -q ' $MNT fuse.brickfs ' /proc/self/mounts" || die "still mounted"
mount_brickfs
echo new >"$MNT/new"
unmount_brickfs
