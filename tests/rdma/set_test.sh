#!/usr/bin/env bash
# Sets over RDMA: a volume striped over two bricks, and one with two copies, of which a brick is killed under load and comes back. Then how much
# longer a 4 KiB write to two copies takes than one to one brick: at most WRITE_RATIO times, where devices move the bytes and the machine is not
# emulated. Elsewhere processors move them twice, on one machine.
. "$(dirname "$0")/lib.sh"
. "$TESTS/etcd/lib.sh"
trap 'mend_links; clean_up' EXIT
WRITE_RATIO=1.6
LOAD=$TESTS/../tools/crash/kill/loads/records
BRICK_SIZE=256M
BRICK_LISTEN=$SCHEME://0.0.0.0
brick() { printf '%s://%s:%s\n' "$SCHEME" "${ADDRESSES[0]}" "${BRICK_PORT[$1]}"; }
for name in a b; do BRICK_KIND[$name]=volatile; start_brick_of_set "$name" --volume striped --volume one; done
start_etcd only

# The median of a write, in ns: write_ns DIR
write_ns() {
  fio --name=write --directory="$1" --size=4M --bs=4k --rw=randwrite --direct=1 --ioengine=psync --time_based --runtime=3 --output-format=json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["write"]["clat_ns"]["percentile"]["50.000000"])'
}
noise 1 6000000 >"$WORK/bytes"

say "striped"
SOURCE=$SCHEME://${ADDRESSES[0]}:${BRICK_PORT[a]}+${ADDRESSES[0]}:${BRICK_PORT[b]}/striped
mount_brickfs
cp "$WORK/bytes" "$MNT/bytes"
unmount_brickfs
mount_brickfs
cmp "$WORK/bytes" "$MNT/bytes" || die "the striped set has other bytes"
unmount_brickfs
check_volume

say "one brick"
SOURCE=$(brick a)/one
mount_brickfs
getfattr --only-values -n brickfs.link "$MNT" 2>/dev/null | grep "^$SCHEME" >/dev/null || die "the mount is not over $SCHEME"
one=$(write_ns "$MNT")
unmount_brickfs

say "two copies"
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
exits 0 set create "$SOURCE" --replicas 2 "$(brick a)" "$(brick b)"
mount_brickfs
two=$(write_ns "$MNT")
cp "$WORK/bytes" "$MNT/bytes"
sync "$MNT/bytes"
mkdir "$WORK/log" "$MNT/load"
"$LOAD" run "$MNT/load" "$WORK/log" 1 >"$WORK/load.out" 2>"$WORK/load.log" &
LOAD_PID=$!
BACKGROUND_PIDS+=("$LOAD_PID")
progress() { cat "$WORK/log"/w* 2>/dev/null | wc -l; }
grows() { [ "$(progress)" -gt "$1" ]; }
goes_on() { within 60 grows "$(($(progress) + 20))" || die "nothing goes on: $1"; }
is_well() { timeout 20 "$BRICKCTL" set status "$SOURCE" >"$WORK/status" 2>&1; }
is_out() { ! is_well && grep -q "stale since" "$WORK/status"; }
goes_on "before anything happens"
kill_brick_of_set b
within 60 is_out || die "the killed brick is not left out: $(cat "$WORK/status")"
goes_on "a brick was killed"
start_brick_of_set b
within 120 is_well || die "it is not in sync again: $(cat "$WORK/status")"
goes_on "the brick is back"
kill "$LOAD_PID"
wait "$LOAD_PID" || die "the load (exit $?): $(cat "$WORK/load.log")"
cmp "$WORK/bytes" "$MNT/bytes" || die "the copies have other bytes"
unmount_brickfs
exits 0 set scrub "$SOURCE"
exits 0 check "$SOURCE"

say "4 KiB written: $((one / 1000)) us to one brick, $((two / 1000)) us to two copies: $(awk -v a="$two" -v b="$one" 'BEGIN { printf "%.2f", a / b }') times"
[ -n "$SMALL" ] || [ "$SCHEME" != rdma ] || awk -v a="$two" -v b="$one" -v most="$WRITE_RATIO" 'BEGIN { exit a <= most * b ? 0 : 1 }' || die "more than $WRITE_RATIO times"
say "passed"
