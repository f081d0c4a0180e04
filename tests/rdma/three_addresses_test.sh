#!/usr/bin/env bash
# A mount with three addresses of its brick uses all of them, the first and the last of one device. With the second dead from
# the beginning it uses the others.   three_addresses_test.sh
. "$(dirname "$0")/lib.sh"
need_guest
need_two_addresses
third=10.77.9.1
ip addr add "$third/24" dev net0
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[@]}" "$third")
uses() { grep "is reached through $1:" "$WORK/brickfs.log"; }

mount_brickfs
for address in "${ADDRESSES[1]}" "$third"; do within 60 uses "$address" || die "$address is not used"; done
noise 1 8M >"$WORK/blob"
dd if="$WORK/blob" of="$MNT/blob" bs=1M oflag=direct status=none
dd if="$MNT/blob" bs=1M iflag=direct status=none | cmp - "$WORK/blob"
unmount_brickfs

say "the second is dead"
: >"$WORK/brickfs.log"
set_link 1 down
mount_brickfs
within 60 uses "$third" || die "$third is not used"
cmp "$MNT/blob" "$WORK/blob"
set_link 1 up
within 60 uses "${ADDRESSES[1]}" || die "${ADDRESSES[1]} is up, and not used"
unmount_brickfs
check_volume
