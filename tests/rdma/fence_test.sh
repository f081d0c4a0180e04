#!/usr/bin/env bash
# Client A stands still in the midst of writing, B takes the volume over and writes; A wakes up. Nothing of A works any more, and
# not a byte of B's has changed: an RDMA write that A had under way can land only until its queue pairs are destroyed.
#   fence_test.sh ROUNDS
. "$(dirname "$0")/lib.sh"
rounds=$1
seed=${BRICKFS_SEED:-$RANDOM}
say "seed $seed"
RANDOM=$seed
start_rdma_brick --memory 256M --file "$WORK/store" --size 256M
SOURCE=$(source_of "${ADDRESSES[0]}")
MNT_B=$WORK/mnt-b
mkdir "$MNT_B"
fails() { ! timeout 60 "$@" >/dev/null 2>&1 || die "round $round: a client without its lease succeeds: $*"; }

write_on() {  # as A: the same blocks, over and over, past the kernel's cache
  while dd if="$WORK/of-a" of="$MNT/file$1" bs=256k oflag=direct conv=notrunc status=none 2>/dev/null; do :; done
}

for round in $(seq 1 "$rounds"); do
  say "round $round"
  mount_brickfs
  noise "$((seed + round))" 4M >"$WORK/of-a"
  noise "$((seed + round + 100))" 4M >"$WORK/of-b"
  for i in 1 2 3; do cp "$WORK/of-a" "$MNT/file$i"; done
  sync "$MNT"/file*
  writers=()
  for i in 1 2 3; do write_on "$i" & writers+=($!); done
  BACKGROUND_PIDS+=("${writers[@]}")
  sleep "0.$((RANDOM % 900 + 100))"
  victim=$(brickfs_pid)
  kill -STOP "$victim"

  timeout 60 "$BRICKFS" "$SOURCE" "$MNT_B" -o steal 2>>"$WORK/brickfs-b.log" || die "round $round: B cannot take over: $(tail -n 1 "$WORK/brickfs-b.log")"
  for i in 1 2 3; do dd if="$WORK/of-b" of="$MNT_B/file$i" bs=256k oflag=direct conv=notrunc status=none; done
  sync "$MNT_B"/file*
  kill -CONT "$victim"
  for i in 1 2 3; do dd if="$WORK/of-b" of="$MNT_B/again$i" bs=256k oflag=direct status=none; done

  for writer in "${writers[@]}"; do within 60 test ! -d "/proc/$writer" || die "round $round: a writer of A is not told"; done
  fails dd if=/dev/zero of="$MNT/file1" bs=4k count=1 oflag=direct conv=notrunc
  fails dd if="$MNT/file2" of=/dev/null bs=4k count=1 iflag=direct
  fails touch "$MNT/new"
  fails mkdir "$MNT/dir"
  fails rm "$MNT/file3"
  fails sync "$MNT/file3"
  umount -l "$MNT"
  within 60 test ! -d "/proc/$victim" || { kill -9 "$victim"; die "round $round: A does not end after umount"; }

  compare_all() { for i in 1 2 3; do for name in file again; do cmp "$WORK/of-b" "$MNT_B/$name$i" || die "round $round: $name$i of B has changed"; done; done; }
  compare_all
  unmount_brickfs "$MNT_B"
  check_volume
  timeout 60 "$BRICKFS" "$SOURCE" "$MNT_B" 2>>"$WORK/brickfs-b.log"
  compare_all
  rm "$MNT_B"/*
  unmount_brickfs "$MNT_B"
done
