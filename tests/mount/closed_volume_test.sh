#!/usr/bin/env bash
# A volume that is closed, killed, or on a brick that has restarted, mounts, writes and removes however full another volume has made the brick meanwhile.
. "$(dirname "$0")/lib.sh"
BRICK_ARGS=(--memory 128M --file "$WORK/store" --size 128M --volume mine --volume other)
start_brickd "${BRICK_ARGS[@]}"
BRICK=tcp://127.0.0.1:$BRICKD_PORT
FILL=$WORK/other
mkdir "$FILL"

use() { SOURCE=$BRICK/$1 MNT=$2; }
# The other volume takes all that the brick gives, also what others give back meanwhile, and is closed again.
fill() {
  use other "$FILL"
  mount_brickfs
  cat /dev/zero >>"$FILL/fill" 2>/dev/null && die "a brick without end"
  for worker in 1 2; do head -c 100M /dev/zero >"$FILL/more-$worker" 2>/dev/null || true; done
  sync "$FILL/fill" || true
}
close_other() { unmount_brickfs "$FILL"; }
mount_mine() { use mine "$WORK/mnt"; mount_brickfs; }

say "a volume with files, closed"
mount_mine
for i in $(seq 1 30); do head -c $((i * 7000)) /dev/urandom >"$MNT/file-$i"; done
kept=$(md5sum <"$MNT/file-30")
unmount_brickfs
check_volume
fill

# works WHAT: it mounts, shows what it has, writes, and removes.
works() {
  say "on a full brick: $1"
  mount_mine
  [ "$(md5sum <"$MNT/file-30")" = "$kept" ] || die "another file than was written"
  echo new >"$MNT/new" && sync "$MNT/new" || die "no small file can be written"
  rm "$MNT/new" "$(ls -d "$MNT"/file-? "$MNT"/file-1? | head -n 1)" || die "rm on a full brick"
  sync
}
works "closed in order"
unmount_brickfs
works "and again"
say "the client is killed"
pid=$(brickfs_pid) && kill -9 "$pid"
umount -l "$MNT"
works "after kill -9"
unmount_brickfs
close_other
say "the brick is stopped, and starts again"
kill_brickd TERM
start_brickd "${BRICK_ARGS[@]}"
fill
works "after a restart of the brick"
pid=$(brickfs_pid) && kill -9 "$pid"
umount -l "$MNT"
use other "$FILL"
pid=$(brickfs_pid) && kill -9 "$pid"
umount -l "$FILL"
say "the brick is killed"
kill_brickd
start_brickd "${BRICK_ARGS[@]}"
fill
works "after a crash of both clients and of the brick"
rm -f "$MNT"/file-? "$MNT"/file-1? "$MNT"/file-2? || die "rm on a full brick"
unmount_brickfs
check_volume
close_other
use other "$FILL"
check_volume
