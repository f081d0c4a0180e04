#!/usr/bin/env bash
# Many small requests at a time, which travel together. brickd is killed and restarted under them: none fails, no byte is wrong. On a soft mount
# without a brick all fail in time, and what asks nothing of the brick is answered meanwhile (as long as there are fewer than threads).   deep_test.sh tcp|rdma
. "$(dirname "$0")/../mount/lib.sh"
start_brick "$1" 512M
mount_brickfs
deep() {  # FIO-ARGUMENTS...
  (cd "$WORK" && exec timeout 200 fio --name=deep --directory="$MNT" --size="$(scaled 32)m" --bs=4k --direct=1 --ioengine=libaio --iodepth=16 --numjobs=4 \
    --group_reporting --output-format=terse --output="$WORK/fio.log" "$@")
}
say "restarts"
deep --rw=write --bs=1m
deep --rw=randrw --rwmixread=30 --verify=xxhash --verify_fatal=1 --do_verify=1 --loops=8 &
pid=$!
BACKGROUND_PIDS+=("$pid")
for round in 1 2 3 4 5; do
  sleep "0.$((RANDOM % 600 + 300))"
  kill_brickd KILL
  sleep "0.$((RANDOM % 400 + 100))"
  restart_brickd
done
wait "$pid" || die "an operation failed, or bytes are wrong: $(tail -n 3 "$WORK/fio.log")"
say "the same bytes after a remount"
sum=$(cat "$MNT"/deep.* | sha256sum)
unmount_brickfs
check_volume
mount_brickfs soft,timeo=2
[ "$(cat "$MNT"/deep.* | sha256sum)" = "$sum" ] || die "bytes are lost after a remount"
say "soft, without a brick"
deep --numjobs=1 --iodepth=4 --rw=randrw --time_based --runtime=60 2>"$WORK/fio-error.log" &
pid=$!
BACKGROUND_PIDS+=("$pid")
sleep 1
kill_brickd KILL
began=$(now_ms)
timeout 5 ls -l "$MNT" >/dev/null && timeout 5 df "$MNT" >/dev/null || die "ls or df hangs"
if wait "$pid"; then die "nothing failed without a brick"; fi
took=$(($(now_ms) - began))
[ "$took" -le 12000 ] || die "the last request failed after $took ms"
timeout 30 umount "$MNT" || die "umount hangs"
within 30 bash -c "! pgrep -f '^$BRICKFS .*$MNT' >/dev/null" || die "brickfs stays after umount"
