#!/usr/bin/env bash
# fio with verification: random and sequential; buffered, O_DIRECT and mmap.   fio_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 2G
mount_brickfs

verify() {  # NAME FIO-ARGUMENTS...
  local name=$1; shift
  say "$name"
  (cd "$WORK" && timeout 300 fio --name="$name" --directory="$MNT" --verify=xxhash --verify_fatal=1 --do_verify=1 --randrepeat=1 \
    --group_reporting --output-format=terse --output="$WORK/fio-$name.log" "$@") || die "fio $name"
  rm -f "$MNT/$name".*
}
verify seq-buffered --rw=write --bs=256k --size="$(scaled 128)m" --ioengine=psync --fsync_on_close=1
verify rand-buffered --rw=randwrite --bs=4k --size="$(scaled 48)m" --ioengine=psync --numjobs=2
verify seq-direct --rw=write --bs=1m --size="$(scaled 256)m" --ioengine=libaio --iodepth=8 --direct=1
verify rand-direct --rw=randwrite --bs=4k --size="$(scaled 48)m" --ioengine=libaio --iodepth=16 --direct=1
verify mixed-sizes --rw=randrw --bsrange=512-128k --size="$(scaled 64)m" --ioengine=psync --numjobs=2
verify rand-mmap --rw=randwrite --bs=4k --size="$(scaled 48)m" --ioengine=mmap
verify seq-mmap --rw=write --bs=64k --size="$(scaled 64)m" --ioengine=mmap
unmount_brickfs
[ "$1" = memory ] || check_volume
