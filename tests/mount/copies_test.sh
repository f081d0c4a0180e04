#!/usr/bin/env bash
# A volume of two copies on three bricks, with a real etcd: files are written and read while bricks are killed, stopped and started again, etcd is
# away, and the client is killed. Nothing is lost, all comes back in sync by itself, and then the copies are equal.
#   copies_test.sh volatile|durable [SECONDS]     with SECONDS: random trouble for so long, else a little of each
. "$(dirname "$0")/../etcd/lib.sh"
kind=$1 seconds=${2:-}
seed=${BRICKFS_SEED:-$RANDOM}
say "$kind bricks, seed $seed"
RANDOM=$seed
BRICK_SIZE=256M
LOAD=$TESTS/../tools/crash/kill/loads/records
LOAD_PID=
round=0
bricks=(a b c)

brick_again() { start_brick_of_set "$1" --volume default.2; }
for name in "${bricks[@]}"; do BRICK_KIND[$name]=$kind; brick_again "$name"; done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default

kill_client() {
  local pid; pid=$(brickfs_pid) || die "no brickfs serves $MNT"
  kill -9 "$pid"
  within 10 test ! -d "/proc/$pid" || die "a killed brickfs stays"
  umount -i -l "$MNT"
}
has_no_client() { ! brickfs_pid "$1"; }
start_load() {
  round=$((round + 1))
  mkdir "$WORK/load-$round"
  "$LOAD" run "$MNT/load-$round" "$WORK/load-$round" $((seed * 100 + round)) >"$WORK/load.out" 2>"$WORK/load.log" &
  LOAD_PID=$!
  BACKGROUND_PIDS+=("$LOAD_PID")
}
end_load() {  # ends by itself, having read everything once more
  kill "$LOAD_PID"
  within 120 test ! -d "/proc/$LOAD_PID" || die "the load does not end: operations hang"
  wait "$LOAD_PID" || die "the load (exit $?): $(cat "$WORK/load.log")"
  say "load: $(cat "$WORK/load.out")"
  rm -rf "$MNT/load-$round" "$WORK/load-$round"
}
load_crashed() {  # its client did, and there is a new one
  within 60 test ! -d "/proc/$LOAD_PID" || die "the load does not see that its client is dead"
  wait "$LOAD_PID" && die "the load ends well without its client" || [ $? = 3 ] || die "the load: $(cat "$WORK/load.log")"
}
verify_crashed() {
  timeout 60 "$LOAD" verify "$MNT/load-$round" "$WORK/load-$round" >"$WORK/verify.out" 2>"$WORK/verify.log" || die "lost: $(cat "$WORK/verify.log")"
  rm -rf "$MNT/load-$round" "$WORK/load-$round"
}
# How many calls are logged: it grows as long as operations get through.
progress() { cat "$WORK/load-$round"/w* 2>/dev/null | wc -l; }
grows() { [ "$(progress)" -gt "$1" ]; }
goes_on() { within "${1:-60}" grows "$(($(progress) + 20))" || die "nothing goes on: $2"; }

is_well() { timeout 20 "$BRICKCTL" set status "$SOURCE" >"$WORK/status" 2>&1; }
is_out() { local said=0; is_well || said=$?; [ "$said" != 0 ] && grep -qE "$(brick "$1")/.*: stale since" "$WORK/status"; }
await_out() { within 60 is_out "$1" || die "$1 is not left out: $(cat "$WORK/status")"; }
await_well() { within 120 is_well || die "it is not in sync again: $(cat "$WORK/status")"; }

exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)" "$(brick c)"
mount_brickfs
mkdir "$MNT/keep"
for i in $(seq 1 40); do head -c $((i * 3331)) /dev/urandom >"$MNT/keep/$i"; done
head -c 20M /dev/urandom >"$MNT/keep/large"
sync "$MNT/keep/large"
kept=$(tree_checksum "$MNT/keep")
kept_is_kept() { [ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "other files have changed: $1"; }

explains() {  # EXIT PATTERN MOUNTPOINT|SOURCE
  local status=0
  timeout 30 "$BRICKCTL" explain "$3" >"$WORK/explained" 2>&1 || status=$?
  [[ $status = $1 ]] && grep -E -- "$2" "$WORK/explained" >/dev/null
}
a_brick_is_killed() {  # NAME
  say "brick $1 is killed, and comes back"
  kill_brick_of_set "$1"
  await_out "$1"
  for subject in "$MNT" "$SOURCE"; do
    explains 3 "^warning: copies: $(brick "$1")/default.*: it is left out" "$subject" || die "explain $subject: $(cat "$WORK/explained")"
  done
  goes_on 60 "brick $1 is dead"
  brick_again "$1"
  await_well
  for subject in "$MNT" "$SOURCE"; do
    explains 0 '^nothing is wrong$' "$subject" || die "explain $subject: $(cat "$WORK/explained")"
  done
}
a_brick_stops() {  # NAME SECONDS
  say "brick $1 stops for $2 s"
  kill -STOP "${BRICK_PID[$1]}"
  sleep "$2"
  kill -CONT "${BRICK_PID[$1]}"
  goes_on 60 "brick $1 was stopped"
  await_well
}
etcd_is_killed() {
  say "etcd is killed, and nobody minds"
  kill_etcd only
  goes_on 60 "etcd is away"
  run_etcd only || die "etcd does not come back"
}
a_brick_dies_while_etcd_hangs() {  # NAME
  say "brick $1 dies while etcd is stopped"
  kill -STOP "${ETCD_PID[only]}"
  kill_brick_of_set "$1"
  sleep 7
  kill -CONT "${ETCD_PID[only]}"
  goes_on 60 "etcd goes on"
  await_out "$1"
  brick_again "$1"
  await_well
}
a_brick_dies_without_etcd() {  # NAME
  say "brick $1 dies while etcd is away: operations wait until it is back"
  local before
  kill_etcd only
  kill_brick_of_set "$1"
  sleep 2.5
  before=$(progress)
  sleep 1
  ! grows "$before" || die "operations end although brick $1 cannot have been left out"
  within 20 explains 4 "^broken: etcd: .*waits for etcd for [0-9]+ s, to leave $(brick "$1")/default.* out" "$MNT" || die "explain does not say that it waits for etcd: $(cat "$WORK/explained")"
  grep -q 'the disk under' "$WORK/explained" && die "explain blames a disk: $(cat "$WORK/explained")"
  getfattr --only-values -n brickfs.link "$MNT" 2>/dev/null | grep 'waits for etcd' >/dev/null || die "brickfs.link: $(getfattr --only-values -n brickfs.link "$MNT")"
  run_etcd only || die "etcd does not come back"
  goes_on 60 "etcd is back"
  await_out "$1"
  timeout 120 "$BRICKCTL" set status "$SOURCE" --wait >"$WORK/waited" 2>&1 &
  local waits=$!
  sleep 1
  kill_etcd only  # who waits for copies waits for etcd, too
  sleep 1
  brick_again "$1"
  run_etcd only || die "etcd does not come back"
  wait "$waits" || die "set status --wait ends (exit $?): $(cat "$WORK/waited")"
  await_well
}
a_brick_is_wiped() {  # NAME: a durable one
  say "brick $1 is killed, and comes back with an empty store"
  kill_brick_of_set "$1"
  rm "$WORK/$1.store"
  await_out "$1"
  brick_again "$1"
  await_well
}
another_takes_over() {
  say "another client takes the volume over"
  local pid; pid=$(brickfs_pid)
  mkdir -p "$WORK/other"
  as_another_host setsid "$BRICKFS" "$SOURCE" "$WORK/other" -f -o steal >>"$WORK/other.log" 2>&1 </dev/null &
  BACKGROUND_PIDS+=("$!")
  within 60 grep -q 'is mounted at' "$WORK/other.log" || die "it cannot be taken over: $(tail -n 1 "$WORK/other.log")"
  within 60 test ! -d "/proc/$LOAD_PID" || die "the load does not see that it has lost the volume"
  wait "$LOAD_PID" && die "the load ends well without its volume" || [ $? = 3 ] || die "the load: $(cat "$WORK/load.log")"
  kill "$(brickfs_pid "$WORK/other")"
  within 60 has_no_client "$WORK/other" || die "the other client does not end"
  rm "$WORK/other.log"
  umount -l "$MNT"
  within 60 test ! -d "/proc/$pid" || die "the former client does not end"
  mount_again
}
a_brick_flaps() {  # NAME
  say "brick $1 is killed, and again while it is brought up to date"
  for _ in 1 2 3; do
    kill_brick_of_set "$1"
    await_out "$1"
    brick_again "$1"
    sleep "0.$((RANDOM % 10))"
  done
  await_well
}
its_source_dies_meanwhile() {  # NAME OTHER: durable bricks
  say "brick $1 is killed; while it is brought up to date, brick $2"
  kill_brick_of_set "$1"
  await_out "$1"
  brick_again "$1"
  sleep "0.$((RANDOM % 10))"
  kill_brick_of_set "$2"
  sleep 2
  brick_again "$2"
  await_well
}
client_is_killed_meanwhile() {  # NAME
  say "brick $1 is killed; while it is brought up to date, the client"
  kill_brick_of_set "$1"
  await_out "$1"
  brick_again "$1"
  sleep "0.$((RANDOM % 10))"
  client_is_killed
}
all_are_killed() {  # durable bricks
  say "the client and all bricks are killed"
  local name
  kill_client
  for name in "${bricks[@]}"; do kill_brick_of_set "$name"; done
  load_crashed
  for name in "${bricks[@]}"; do brick_again "$name"; done
  mount_again
}
client_is_killed() {  # [NAME of a brick that dies with it]
  say "the client is killed${1:+, and with it brick $1}"
  kill_client
  [ -z "${1:-}" ] || kill_brick_of_set "$1"
  load_crashed
  mount_again "$@"
}
mount_again() {  # [NAME of a brick that is away]
  local began
  began=$(now_ms)
  mount_brickfs
  say "the mount took $(($(now_ms) - began)) ms"
  verify_crashed
  kept_is_kept "the client was killed"
  start_load
  [ -z "${1:-}" ] || brick_again "$1"
  await_well
}
under_load() {  # COMMAND...
  start_load
  goes_on 60 "all is well"
  "$@"
  goes_on 60 "all is well again"
  end_load
}

if [ -z "$seconds" ]; then
  under_load a_brick_is_killed a
  under_load a_brick_is_killed b
  under_load a_brick_stops c 3
  under_load etcd_is_killed
  under_load a_brick_dies_without_etcd b
  under_load client_is_killed
else
  end=$(($(now_ms) + seconds * 1000))
  while [ "$(now_ms)" -lt "$end" ]; do
    name=${bricks[RANDOM % 3]}
    other=${bricks[RANDOM % 3]}
    case $((RANDOM % 15)) in
      0 | 1) under_load a_brick_is_killed "$name" ;;
      2) under_load a_brick_stops "$name" $((1 + RANDOM % 12)) ;;
      3) under_load etcd_is_killed ;;
      4) under_load a_brick_dies_without_etcd "$name" ;;
      5) under_load client_is_killed ;;
      6) under_load client_is_killed "$name" ;;
      7 | 8) under_load a_brick_flaps "$name" ;;
      9) under_load client_is_killed_meanwhile "$name" ;;
      10) [ "$kind$name" = "durable$other" ] || [ "$kind" = volatile ] || under_load its_source_dies_meanwhile "$name" "$other" ;;
      11) under_load a_brick_dies_while_etcd_hangs "$name" ;;
      12) under_load another_takes_over ;;
      13) [ "$kind" = volatile ] || under_load a_brick_is_wiped "$name" ;;
      14) [ "$kind" = volatile ] || under_load all_are_killed ;;
    esac
  done
fi

say "the volume is full: whose bricks are, is said"
if dd if=/dev/zero of="$MNT/fill" bs=1M status=none 2>"$WORK/dd.err"; then die "dd could write without end"; fi
grep -q 'No space left on device' "$WORK/dd.err" || die "dd says: $(cat "$WORK/dd.err")"
named=$(for name in "${bricks[@]}"; do brick "$name"; done | paste -s -d '|')
for subject in "$MNT" "$SOURCE"; do
  within 20 explains '[34]' "^warning: space: ($named)/.*: the .* (has no block left|has allocated all)" "$subject" || die "explain $subject: $(cat "$WORK/explained")"
done
rm "$MNT/fill"
kept_is_kept "at the end"
unmount_brickfs
is_well || die "not all is in sync after the unmount: $(cat "$WORK/status")"
check_volume
say "a brick dies while etcd is away: with nothing to commit, umount ends"
mount_brickfs
kept_is_kept "before that"
sync -f "$MNT"
kill_etcd only
kill_brick_of_set a
sleep 1
pid=$(brickfs_pid)
timeout 30 umount "$MNT" 2>"$WORK/err" || umount -l "$MNT"
within 30 test ! -d "/proc/$pid" || die "brickfs stays: $(cat "$WORK/err")"
run_etcd only || die "etcd does not come back"
brick_again a
mount_brickfs
await_well
unmount_brickfs

say "the copies are equal"
exits 0 set scrub "$SOURCE"
mount_brickfs
kept_is_kept "after all"
unmount_brickfs
say "passed"
