#!/usr/bin/env bash
# Rings into a mount: as if through the kernel; programs that make no sense, are killed, or go on when the mount has ended.
#   ring_test.sh tcp|file|memory SECONDS
. "$(dirname "$0")/lib.sh"
kind=$1
seconds=$2
start_brick "$kind" 512M
chmod 755 "$WORK"  # for other users on their way to the mount
programs=$BUILD/tests
device_of() { awk -v dir="$1" '$5 == dir { print $3 }' /proc/self/mountinfo; }

# What the mount's process has: descriptors that are no files or sockets, shared memory, threads. The more is under way the more connections it
# has to the brick, each of which is a socket and a thread: so of those only the difference.
holdings() {
  local descriptors; descriptors=$(find "/proc/$1/fd" -mindepth 1 -printf '%l\n')
  printf '%s %s %s\n' "$(grep -c '^anon_inode' <<<"$descriptors")" "$(grep -c 'memfd:\(brickfs-ring\|nonsense\)' "/proc/$1/maps" || true)" \
    $(($(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l) - $(grep -c '^socket' <<<"$descriptors")))
}
holdings_are() { [ "$(holdings "$1")" = "$2" ]; }
# The program that ends with its ring: begin_program WHAT FILE [PROGRAM]; program_ended.
begin_program() {
  rm -f "$WORK/told"
  "$programs/${3:-ring_load}" "$1" "$2" >"$WORK/told" 2>"$WORK/ring_load.log" &
  PROGRAM=$!
  BACKGROUND_PIDS+=("$PROGRAM")
  within 10 grep -q begun "$WORK/told" || die "a program has no ring: $(cat "$WORK/ring_load.log")"
}
program_ended() {
  within 10 test ! -d "/proc/$PROGRAM" || die "$1: a program hangs"
  wait "$PROGRAM" || die "$1: a program says $(cat "$WORK/ring_load.log")"
  grep -q ended "$WORK/told" || die "$1: a program does not see the end"
}

say "no rings without ring=on"
mount_brickfs
touch "$MNT/file"
if "$programs/ring_load" work "$MNT/file" 0 1 2>"$WORK/err"; then die "a ring without ring=on"; fi
grep -q 'not supported' "$WORK/err" || die "without ring=on: $(cat "$WORK/err")"
unmount_brickfs
if setpriv --reuid 1234 --regid 1234 --clear-groups "$BRICKFS" memory:64M "$MNT" -f -o ring=on 2>"$WORK/err"; then die "a user's mount with rings"; fi
grep -q "only root's mounts have rings" "$WORK/err" || die "a user's mount: $(cat "$WORK/err")"

for writeback in off on; do
  say "writeback=$writeback: as through the kernel"
  mount_brickfs "ring=on,writeback=$writeback"
  mkdir -p -m 777 "$MNT/contract"
  timeout $((seconds * 10 + 60)) "$programs/ring_contract" "$MNT/contract" "$seconds" "$writeback" || die "not as through the kernel"
  rm -rf "$MNT/contract"
  unmount_brickfs
  [ "$kind" = memory ] || check_volume
done

mount_brickfs ring=on
pid=$(brickfs_pid)
dd if=/dev/zero of="$MNT/file" bs=1M count=16 status=none
say "nonsense"
"$programs/ring_load" work "$MNT/file" 0 0 2>"$WORK/worker.log" &
worker=$!
BACKGROUND_PIDS+=("$worker")
sleep 0.5
before=$(holdings "$pid")
timeout $((seconds * 10 + 60)) "$programs/ring_nonsense" "$MNT/file" "$(awk "BEGIN { print $seconds / 4 }")" || die "the mount takes nonsense"
within 10 holdings_are "$pid" "$before" || die "nonsense leaves something behind: $(holdings "$pid"), before $before"

say "100 programs killed"
for round in $(seq 1 25); do
  victims=()
  for place in 1 2 3 4; do
    "$programs/ring_load" work "$MNT/file" "$place" 0 &
    victims+=($!)
  done
  BACKGROUND_PIDS+=("${victims[@]}")
  sleep 0.0$((RANDOM % 10))
  kill -9 "${victims[@]}"
  wait "${victims[@]}" 2>/dev/null || true
done
within 10 holdings_are "$pid" "$before" || die "killed programs leave something behind: $(holdings "$pid"), before $before"
kill -0 "$worker" || die "another program was harmed: $(cat "$WORK/worker.log")"

say "more rings than there may be"
descriptors() { find "/proc/$pid/fd" -mindepth 1 | wc -l; }
has_descriptors_at_most() { [ "$(descriptors)" -le "$1" ]; }
few=$(($(descriptors) + 16))  # rings aside
mkfifo "$WORK/line"
(ulimit -n 4096; exec "$programs/ring_load" crowd "$MNT/file") <"$WORK/line" >"$WORK/told" 2>"$WORK/ring_load.log" &
PROGRAM=$!
BACKGROUND_PIDS+=("$PROGRAM")
exec 7>"$WORK/line"
within 60 grep -q . "$WORK/told" || die "who comes too late waits: $(cat "$WORK/ring_load.log")"
[ "$(cat "$WORK/told")" = 511 ] || die "a program beside the worker has $(cat "$WORK/told") rings"
timeout 20 "$BRICKCTL" explain "$MNT" >"$WORK/explained" || die "explain: $(cat "$WORK/explained")"
grep ", 512 ring(s) of programs" "$WORK/explained" >/dev/null && grep "programs have all 512 rings" "$WORK/explained" >/dev/null || die "explain: $(cat "$WORK/explained")"
echo >&7
exec 7>&-
wait "$PROGRAM" || die "a program with many rings: $(cat "$WORK/ring_load.log")"

say "no descriptor for one more"
within 20 has_descriptors_at_most "$few" || die "rings leave $(descriptors) descriptors behind, where there were $few at most"
limit=$(prlimit --pid "$pid" --nofile --output=SOFT --noheadings)
prlimit --pid "$pid" --nofile=$(($(descriptors) + 4)):
rm "$WORK/told"
"$programs/ring_load" crowd "$MNT/file" </dev/null >"$WORK/told" 2>"$WORK/ring_load.log" &
PROGRAM=$!
BACKGROUND_PIDS+=("$PROGRAM")
within 60 test ! -d "/proc/$PROGRAM" || die "who comes when there are no descriptors waits: $(cat "$WORK/ring_load.log")"
wait "$PROGRAM" || die "a program when there are no descriptors: $(cat "$WORK/ring_load.log")"
[ "$(cat "$WORK/told")" -lt 100 ] || die "$(cat "$WORK/told") rings without descriptors"
prlimit --pid "$pid" --nofile="$limit:"
rm "$WORK/line"
within 20 holdings_are "$pid" "$before" || die "many rings leave something behind: $(holdings "$pid"), before $before"
kill -0 "$worker" || die "another program was harmed: $(cat "$WORK/worker.log")"
kill "$worker"; wait "$worker" 2>/dev/null || true

if [ "$kind" = tcp ]; then
  say "a brick that is away"
  for place in 1 2; do  # each its file: fsync(2) of one waits for that of another as long as that takes
    dd if=/dev/zero of="$MNT/file$place" bs=1M count=1 status=none
    "$programs/ring_load" work "$MNT/file$place" "$place" 0 2>"$WORK/worker.log" &
    BACKGROUND_PIDS+=($!)
    [ "$place" = 2 ] || victim=$!
  done
  worker=$!
  sleep 0.3
  kill_brickd
  sleep 0.3
  kill -9 "$victim"
  within 5 test ! -d "/proc/$victim/fd" || die "a program that waits for the brick cannot be killed: $(state_and_places "$victim")"
  restart_brickd
  sleep 1
  kill -0 "$worker" || die "a brick that was away harms a program: $(cat "$WORK/worker.log")"
  kill "$worker"; wait "$worker" "$victim" 2>/dev/null || true
fi

say "a mount that becomes read-only"
mkfifo "$WORK/line"
"$programs/ring_load" write "$MNT/file" <"$WORK/line" >"$WORK/told" 2>"$WORK/ring_load.log" &
PROGRAM=$!
BACKGROUND_PIDS+=("$PROGRAM")
exec 7>"$WORK/line"
within 10 grep -q begun "$WORK/told" || die "a program has no ring: $(cat "$WORK/ring_load.log")"
mount -i -o remount,ro "$MNT"
sleep 0.3
echo >&7
exec 7>&-
wait "$PROGRAM" || die "a file of a read-only mount is written: $(cat "$WORK/ring_load.log")"
mount -i -o remount,rw "$MNT"

say "umount"
begin_program hold "$MNT/file"
device=$(device_of "$MNT")
[ -S "/run/brickfs-rings/$device" ] || die "there is no socket for rings"
unmount_brickfs
program_ended umount
grep -q " $device / " /proc/self/mountinfo || [ ! -e "/run/brickfs-rings/$device" ] || die "a socket stays"  # else it is another's by now

fresh() { mount_brickfs ring=on; dd if=/dev/zero of="$MNT/file" bs=1M count=1 status=none; }
say "umount: a program that talks without end"
fresh
pid=$(brickfs_pid)
renice -n 10 -g "$pid" >/dev/null  # who listens runs less often than who talks, also on few processors
begin_program flood "$MNT/file" ring_hostile
timeout 20 umount "$MNT" || die "a program that talks without end keeps the mount"
program_ended "a program that talks without end"
within 8 test ! -d "/proc/$pid" || die "a program that talks without end keeps brickfs: $(state_and_places "$pid")"
say "umount: descriptors that nobody can close"
fresh
pid=$(brickfs_pid)
mkdir "$WORK/deaf"
mkfifo "$WORK/deaf_line"
"$programs/ring_hostile" deaf "$MNT/file" "$WORK/deaf" <"$WORK/deaf_line" >"$WORK/told" 2>"$WORK/ring_load.log" &
PROGRAM=$!
BACKGROUND_PIDS+=("$PROGRAM")
exec 7>"$WORK/deaf_line"
within 30 grep -q begun "$WORK/told" || die "descriptors that nobody can close: $(cat "$WORK/ring_load.log")"
threads=$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)
[ "$threads" -lt 250 ] && [ "$(descriptors)" -lt 400 ] || die "descriptors that nobody can close: $threads threads, $(descriptors) descriptors"
timeout 20 umount "$MNT" || die "descriptors that nobody can close keep the mount"
fresh  # the volume is free
unmount_brickfs
exec 7>&-
wait "$PROGRAM" || die "descriptors that nobody can close: $(cat "$WORK/ring_load.log")"
within 20 test ! -d "/proc/$pid" || die "brickfs stays when its descriptors can be closed: $(state_and_places "$pid")"
say "umount -l: as long as the file is open"
fresh
pid=$(brickfs_pid)
begin_program read "$MNT/file"
umount -l "$MNT"
sleep 0.5
kill -0 "$PROGRAM" || die "umount -l ends a program that has a file open"
kill "$PROGRAM"; wait "$PROGRAM" 2>/dev/null || true
within 30 test ! -d "/proc/$pid" || die "brickfs stays after umount -l"

for end in "umount -f" "kill -9" "kill"; do for load in read spin; do
  say "$end: $load"
  fresh
  pid=$(brickfs_pid)
  begin_program "$load" "$MNT/file"
  case $end in
    "umount -f") umount -f "$MNT" 2>/dev/null || true; umount -l "$MNT" 2>/dev/null || true ;;
    *) ${end} "$pid" ;;
  esac
  program_ended "$end"
  within 60 test ! -d "/proc/$pid" || die "$end: brickfs stays"
  umount -l "$MNT" 2>/dev/null || true
done; done

say "the next mount takes away what a killed one has left, and nothing else"
fresh
dead=$(device_of "$MNT")
kill -9 "$(brickfs_pid)"
mkdir "$WORK/live"
timeout 60 "$BRICKFS" memory:64M "$WORK/live" -o ring=on >"$WORK/live.log" 2>&1 || die "a second mount: $(cat "$WORK/live.log")"
for directory in /run/brickfs-rings /run/brickfs; do [ ! -e "$directory/$dead" ] || die "$directory/$dead stays"; done
umount -l "$MNT"
fresh
[ -S "/run/brickfs-rings/$(device_of "$WORK/live")" ] || die "the socket of a mount that lives is gone"
dd if=/dev/zero of="$WORK/live/file" bs=64k count=1 status=none
"$programs/ring_load" work "$WORK/live/file" 0 0.2 || die "no ring of a mount that lives"
unmount_brickfs "$WORK/live"

say "a mount that ends late leaves alone what the next one has"
pid=$(brickfs_pid)
device=$(device_of "$MNT")
kill -STOP "$pid"
timeout 20 umount -i -l "$MNT" || die "umount -l waits for a brickfs that is stopped"
timeout 60 "$BRICKFS" memory:64M "$WORK/live" -o ring=on >"$WORK/live.log" 2>&1 || die "the next mount: $(cat "$WORK/live.log")"
kill -CONT "$pid"
within 30 test ! -d "/proc/$pid" || die "brickfs stays when it goes on after umount -l"
if [ "$(device_of "$WORK/live")" = "$device" ]; then
  for directory in /run/brickfs-rings /run/brickfs; do [ -S "$directory/$device" ] || die "$directory/$device is gone with the mount before"; done
else
  say "left out: another mount has the device number"
fi
unmount_brickfs "$WORK/live"

say "no file in the whole system for one more"
timeout 60 "$TESTS/mount/without_accept" "$BRICKFS" memory:64M "$WORK/live" -o ring=on >"$WORK/live.log" 2>&1 || die "a mount that lets nobody in: $(cat "$WORK/live.log")"
touch "$WORK/live/file"
"$programs/ring_load" hold "$WORK/live/file" >"$WORK/told" 2>"$WORK/ring_load.log" &
BACKGROUND_PIDS+=($!)
timeout 20 "$BRICKCTL" explain "$WORK/live" >/dev/null 2>&1 &  # which asks the mount, too
BACKGROUND_PIDS+=($!)
processor_time() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }  # 1/100 s
pid=$(brickfs_pid "$WORK/live")
sleep 0.5
from=$(processor_time "$pid")
sleep 1
spent=$(($(processor_time "$pid") - from))
[ ! -s "$WORK/told" ] || die "a ring where accept4 fails"
[ "$spent" -lt 10 ] || die "a mount that can let nobody in works for ${spent}0 ms of a second"
kill "${BACKGROUND_PIDS[@]: -2}"; wait "${BACKGROUND_PIDS[@]: -2}" 2>/dev/null || true
umount -i "$WORK/live"  # nobody is let in to ask how far its end has come
within 20 test ! -d "/proc/$pid" || die "brickfs stays where accept4 fails"
say "done"
