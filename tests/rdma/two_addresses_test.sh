#!/usr/bin/env bash
# A mount with two addresses of its brick loses one link under load and gets it back, then the other: no operation fails, the
# stall is short, what was written is there, and the log tells of each loss and return.   two_addresses_test.sh [ROUNDS]
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stall.sh"
need_guest
need_two_addresses
rounds=${1:-1}
# Milliseconds that a call may take longer than when all is well. What is promised is 2,000; an emulated machine that has to
# share its host's processors stands still for seconds.
allowed=$((SMALL ? 10000 : 2000))
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[@]}")
LOG=$WORK/brickfs.log
"$BRICKFS" "$SOURCE" "$MNT" -f 2>"$LOG" &
BACKGROUND_PIDS+=("$!")
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
unmount_brickfs
check_volume
