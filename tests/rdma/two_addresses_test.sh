#!/usr/bin/env bash
# A mount with two addresses of its brick loses one link, gets it back, loses the other: no operation fails, none takes more than
# 2 s longer than the longest when all was well, and what was written is there.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/stall.sh"
need_guest
need_two_addresses
allowed=2000  # milliseconds
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[@]}")
mount_brickfs
start_load
sleep 5
stop_load
usual=$LONGEST
say "undisturbed: $CALLS calls, the longest took $usual ms"

for down in 1 0; do
  start_load
  sleep 2
  set_link "$down" down
  sleep 4
  set_link "$down" up
  sleep 6  # long enough for the lost link to be taken into service again
  stop_load
  say "net$down down and up: $CALLS calls, the longest took $LONGEST ms"
  [ "$LONGEST" -lt $((usual + allowed)) ] || die "net$down down: a call took $LONGEST ms"
done
unmount_brickfs
check_volume
