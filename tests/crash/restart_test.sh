#!/usr/bin/env bash
# brickd is killed and restarted under a live mount under load: operations wait and go on, none fails, nothing changes.
#   restart_test.sh tcp|rdma ROUNDS
. "$(dirname "$0")/../mount/lib.sh"
load=$BUILD/tests/sync_load
seed=${BRICKFS_SEED:-$RANDOM}
say "seed $seed"
RANDOM=$seed
start_brick "$1" 1G
mount_brickfs
mkdir "$WORK/logs" "$MNT/load"
"$load" run "$MNT/load" "$WORK/logs" $(($2 * 3)) "$seed" 2>"$WORK/load.log" &
pid=$!
BACKGROUND_PIDS+=("$pid")
for round in $(seq 1 "$2"); do
  sleep "1.$((RANDOM % 900 + 100))"
  kill_brickd KILL
  sleep "0.$((RANDOM % 800 + 100))"
  restart_brickd
done
wait "$pid" || die "an operation failed: $(cat "$WORK/load.log")"
"$load" verify "$MNT/load" "$WORK/logs" live || die "bytes are lost"
say "and after a remount"
unmount_brickfs
check_volume
mount_brickfs
"$load" verify "$MNT/load" "$WORK/logs" live || die "bytes are lost after a remount"
unmount_brickfs
