#!/usr/bin/env bash
# Programs that change their memory while it is written, by the library, a ring, O_DIRECT and a mapping, onto two copies whose bricks are killed at
# random: whatever the files have then, both copies have it. While all is well neither copy is read for that.
#   changing_buffers_test.sh [--seconds SECONDS]
. "$(dirname "$0")/lib.sh"
[ "${1:-}" != --seconds ] || shift
seconds=${1:-60}
seed=${BRICKFS_SEED:-$RANDOM}
say "$seconds s, seed $seed"
RANDOM=$seed
BRICK_SIZE=256M

declare -A METRICS
brick_again() { start_brick_of_set "$@" --volume default --volume library; }
for name in a b; do
  METRICS[$name]=http://127.0.0.1:$(free_port)/metrics
  address=${METRICS[$name]#http://}
  brick_again "$name" --metrics "${address%/metrics}"
done
start_etcd only
SOURCE=etcd://127.0.0.1:$ETCD_PORT/default
LIBRARY=etcd://127.0.0.1:$ETCD_PORT/library
for source in "$SOURCE" "$LIBRARY"; do exits 0 set create "$source" --replicas 2 "$(brick a)" "$(brick b)"; done
mount_brickfs ring=on,durable
head -c 16M /dev/zero >"$MNT/ring"

say "pure writes: neither copy is read"
"$BUILD/tests/changing_buffers" direct "$MNT/direct" 1 >"$WORK/direct.out"
scrape() { python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "$1"; }
reads() { for name in a b; do scrape "${METRICS[$name]}" | grep '^brickd_transfers_total{.*direction="read"}' || die "no metrics of $name"; done; }
reads >"$WORK/reads"
"$BUILD/tests/changing_buffers" direct "$MNT/direct" 4 >"$WORK/direct.out"
reads | cmp -s "$WORK/reads" - || die "reads under pure writes: $(cat "$WORK/reads"), then $(reads)"

say "with kills"
declare -A WRITER
write() {  # NAME PROGRAM ARGUMENT...
  local name=$1; shift
  "$@" >"$WORK/$name.out" 2>"$WORK/$name.log" &
  WRITER[$name]=$!
  BACKGROUND_PIDS+=("$!")
}
write direct "$BUILD/tests/changing_buffers" direct "$MNT/direct" "$seconds"
write mapped "$BUILD/tests/changing_buffers" mapped "$MNT/mapped" "$seconds"
write library "$BUILD/tests/changing_buffers" library "$LIBRARY" "$seconds"
write ring "$BUILD/tests/ring_load" scribble "$MNT/ring" "$seconds"

are_well() { timeout 20 "$BRICKCTL" set status "$SOURCE" && timeout 20 "$BRICKCTL" set status "$LIBRARY"; }
well_again() { within 240 are_well || die "not in sync again: $("$BRICKCTL" set status "$SOURCE"; "$BRICKCTL" set status "$LIBRARY")"; }
kills=0 end=$(($(now_ms) + seconds * 1000))
is_over() { [ "$(now_ms)" -ge "$end" ]; }
well_or_over() { is_over || are_well; }
until is_over; do
  victim=a
  [ $((RANDOM % 2)) = 0 ] || victim=b
  sleep "$((RANDOM % 4)).$((RANDOM % 10))"
  kill_brick_of_set "$victim"
  kills=$((kills + 1))
  sleep "$((RANDOM % 4)).$((RANDOM % 10))"
  brick_again "$victim"
  # Now and then the next one comes while a copy is brought up to date.
  [ $((RANDOM % 4)) = 0 ] || within 240 well_or_over || well_again
done
for name in "${!WRITER[@]}"; do
  within 240 test ! -d "/proc/${WRITER[$name]}" || die "the writer $name does not end"
  wait "${WRITER[$name]}" || die "the writer $name: $(cat "$WORK/$name.log")"
done
say "$kills kills; $(head -n 1 "$WORK/direct.out") MiB direct, $(head -n 1 "$WORK/mapped.out") MiB mapped, $(head -n 1 "$WORK/library.out") MiB by the library"
# Where the library ended while a copy was away, that comes back under another client.
mkdir "$WORK/library"
SOURCE=$LIBRARY MNT=$WORK/library mount_brickfs durable
well_again
unmount_brickfs "$WORK/library"
unmount_brickfs
for source in "$SOURCE" "$LIBRARY"; do
  exits 0 set scrub "$source"
  grep -q 'all copies are equal' "$WORK/out" || die "scrub: $(cat "$WORK/out")"
  say "$(tail -n 1 "$WORK/out")"
done
