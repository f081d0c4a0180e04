#!/usr/bin/env bash
# Rings into a mount over RDMA: as if through the kernel; and the memory of a program that is killed while it writes does not stay registered.
#   ring_test.sh SECONDS
. "$(dirname "$0")/lib.sh"
seconds=$1
programs=$BUILD/tests
start_rdma_brick --memory 256M
SOURCE=$(source_of "${ADDRESSES[0]}")
chmod 755 "$WORK"  # for other users on their way to the mount
mount_brickfs ring=on

# What the kernel has registered for brickfs, of which there is one. (It tells the thread's number, and each ring has its own.)
regions() { rdma resource show mr | grep -c ' comm brickfs ' || true; }
regions_are() { [ "$(regions)" = "$1" ]; }
has_more_regions() { [ "$(regions)" -gt "$1" ]; }

say "as through the kernel"
mkdir -m 777 "$MNT/contract"
timeout $((seconds * 10 + 240)) "$programs/ring_contract" "$MNT/contract" "$seconds" off || die "not as through the kernel"

say "killed while they write"
dd if=/dev/zero of="$MNT/file" bs=1M count=16 oflag=direct status=none  # the kernel has no pages of it
"$programs/ring_load" work "$MNT/file" 0 0.5 || die "a program that writes through a ring"
sleep 1
before=$(regions)
[ "$before" -gt 0 ] || die "the kernel tells of no registered memory"
for round in 1 2 3 4 5; do
  victims=()
  for place in 1 2; do
    "$programs/ring_load" work "$MNT/file" "$place" 0 &
    victims+=($!)
  done
  BACKGROUND_PIDS+=("${victims[@]}")
  within 30 has_more_regions "$before" || die "round $round: a ring's buffer is not registered"
  sleep 0.$((RANDOM % 10))
  for victim in "${victims[@]}"; do [ "$(awk '/^wchar/ { print $2 }' "/proc/$victim/io")" -lt 65536 ] || die "round $round: the kernel writes"; done
  kill -9 "${victims[@]}"
  wait "${victims[@]}" 2>/dev/null || true
  within 30 regions_are "$before" || die "round $round: memory stays registered: $(regions) regions, before $before"
done
"$programs/ring_load" work "$MNT/file" 3 0.5 || die "a program after those that were killed"
unmount_brickfs
check_volume
say "done"
