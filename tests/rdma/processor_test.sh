#!/usr/bin/env bash
# What a brick and a mount cost: next to nothing when idle, and the brick's processor takes no part in moving data.
. "$(dirname "$0")/lib.sh"
start_rdma_brick --memory 256M  # volatile: a commit copies nothing
SOURCE=$(source_of "${ADDRESSES[0]}")
mount_brickfs
client=$(brickfs_pid)
megabytes=$(scaled 1024)

spent() { echo $(($(cpu_ms "$1") - $2)); }
say "idle"
sleep 4
client_before=$(cpu_ms "$client") brick_before=$(cpu_ms "$BRICKD_PID")
sleep 20
client_spent=$(spent "$client" "$client_before") brick_spent=$(spent "$BRICKD_PID" "$brick_before")
say "in 20 s the mount spent $client_spent ms, the brick $brick_spent ms"
[ "$client_spent" -lt 200 ] && [ "$brick_spent" -lt 200 ] || die "an idle process takes more than 1 % of a processor"

say "moving"
dd if=/dev/zero of="$MNT/file" bs=1M count=64 oflag=direct status=none  # its blocks are allocated and mapped
move() {  # MEGABYTES: half written, half read
  local i
  for ((i = 0; i < $1 / 128; i++)); do
    dd if=/dev/zero of="$MNT/file" bs=1M count=64 oflag=direct conv=notrunc status=none
    dd if="$MNT/file" of=/dev/null bs=1M iflag=direct status=none
  done
}
move 128
client_before=$(cpu_ms "$client") brick_before=$(cpu_ms "$BRICKD_PID") began=$(now_ms)
move "$megabytes"
took=$(($(now_ms) - began)) client_spent=$(spent "$client" "$client_before") brick_spent=$(spent "$BRICKD_PID" "$brick_before")
say "$megabytes MiB in $took ms: the mount spent $client_spent ms, the brick $brick_spent ms"
# The keep-alive goes on, so the bound is that of an idle brick; and a busy guest books some of the device's work on whoever it interrupts.
if [ "$SCHEME" = rdma ]; then [ "$brick_spent" -le $((took / 100 + client_spent / 20 + 30)) ] || die "the brick's processor moves data"; fi
unmount_brickfs
