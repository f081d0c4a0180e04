#!/usr/bin/env bash
# A mount with two addresses of its brick loses one link under load and gets it back, then the other: no operation fails, the
# stall is short, what was written is there, the log tells of each loss and return, and nothing piles up, memory neither. Then a
# link goes again while it is taken back, and both go within a moment.   two_addresses_test.sh [ROUNDS]
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stall.sh"
need_guest
need_two_addresses
rounds=${1:-1}
# Milliseconds that a call may take longer than when all is well. What is promised is 2,000; an emulated machine that has to
# share its host's processors stands still for seconds.
allowed=$((SMALL ? 10000 : 2000))
# So that memory that is freed is seen to be: in one arena, and each connection's buffers in pages of their own.
export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[@]}")
LOG=$WORK/brickfs.log
"$BRICKFS" "$SOURCE" "$MNT" -f 2>"$LOG" &
mount_pid=$!
BACKGROUND_PIDS+=("$mount_pid")
within 60 is_mounted || die "it is not mounted: $(tail -n 1 "$LOG")"

told() { grep -c "$1" "$LOG" || true; }
rises() { [ "$(told "$1")" -gt "$2" ]; }
within 60 rises 'is reached through' 0 || die "the second address is not used"
start_load
within 60 load_runs || die "no load"
sleep 5
stop_load
usual=$LONGEST
say "undisturbed: $CALLS calls, the longest took $usual ms"
count() { find "/proc/$1/$2" -mindepth 1 -maxdepth 1 | wc -l; }
held() { echo "$(count "$mount_pid" fd) $(count "$BRICKD_PID" fd) $(count "$BRICKD_PID" task)"; }
read -r descriptors brickd_descriptors threads <<<"$(held)"
holds_no_more() {
  local now
  read -ra now <<<"$(held)"
  # From the first loss on brickd has a thread that takes connections down.
  [ "${now[0]}" -le "$descriptors" ] && [ "${now[1]}" -le "$brickd_descriptors" ] && [ "${now[2]}" -le $((threads + 1)) ]
}

for ((round = 1; round <= rounds; round++)); do
  for down in 1 0; do
    lost=$(told 'is lost') back=$(told 'is reached through')
    start_load
    within 60 load_runs || die "no load"
    set_link "$down" down
    sleep 4
    set_link "$down" up
    within 60 rises 'is lost' "$lost" || die "net$down was down, and nobody has noticed"
    within 60 rises 'is reached through' "$back" || die "net$down is up again, but not used"
    stop_load
    say "net$down down and up: $CALLS calls, the longest took $LONGEST ms"
    [ "$LONGEST" -lt $((usual + allowed)) ] || die "net$down down: a call took $LONGEST ms"
  done
done
within 60 holds_no_more ||
  die "descriptors, those of brickd, and its threads were $descriptors $brickd_descriptors $threads, and are now $(held)"

say "net1 comes and goes"
anonymous() { awk '/^RssAnon/ { print $2 }' "/proc/$1/status"; }
bounce() {  # TIMES: each time something is under way there
  local time lost back
  for ((time = 0; time < $1; time++)); do
    lost=$(told 'is lost') back=$(told 'is reached through')
    dd if="$WORK/blob" of="$MNT/blob" bs=1M conv=notrunc oflag=direct status=none
    set_link 1 down
    dd if="$MNT/blob" of="$WORK/got" bs=1M iflag=direct status=none
    cmp "$WORK/got" "$WORK/blob"
    within 60 rises 'is lost' "$lost" || die "net1 was down, and nobody has noticed"
    set_link 1 up
    within 60 rises 'is reached through' "$back" || die "net1 is up again, but not used"
  done
}
noise 1 8M >"$WORK/blob"
bounce 4
before=($(anonymous "$mount_pid") $(anonymous "$BRICKD_PID"))
bounce 16
after=($(anonymous "$mount_pid") $(anonymous "$BRICKD_PID"))
say "memory was ${before[*]} KiB, of the mount and of brickd, and is after 16 times ${after[*]} KiB"
# The queues of a device's queue pairs alone take 40 KiB.
for side in 0 1; do [ "${after[side]}" -le $((before[side] + 16 * 20)) ] || die "something is left each time"; done

pairs() { rdma resource show | awk '/ rxe1:/ { for (i = 1; i < NF; i++) if ($i == "qp") print $(i + 1) }'; }
more_pairs() { [ "$(pairs)" -ge "$1" ]; }
uses_net1() { grep -E 'is lost|is reached through' "$LOG" | tail -n 1 | grep 'is reached through' >/dev/null; }
say "net1 goes again while its queue pairs are made"
for pair in 1 3; do
  within 60 uses_net1 || die "net1 is up, and not used"
  lost=$(told 'is lost') back=$(told 'is reached through')
  set_link 1 down
  within 60 rises 'is lost' "$lost" || die "net1 was down, and nobody has noticed"
  sleep 1
  made=$(($(pairs) + 4 + 2 * pair))  # two ends each, after two connections for calls
  set_link 1 up
  within 30 more_pairs "$made" || say "how queue pair $pair was made was not seen"
  set_link 1 down
  sleep 1
  set_link 1 up
  within 60 rises 'is reached through' "$back" || die "net1 went down while queue pair $pair was made, and is not used since"
done

say "net1 goes, and net0 while the brick is being told of that"
for ((round = 0; round < 3; round++)); do
  back=$(told 'is reached through')
  start_load
  within 60 load_runs || die "no load"
  printf 'link set net1 down\nlink set net0 down\n' | ip -batch -
  sleep 1
  set_link 0 up
  set_link 1 up
  within 60 rises 'is reached through' "$back" || die "both links are up again, but not used"
  stop_load
done
unmount_brickfs
check_volume
