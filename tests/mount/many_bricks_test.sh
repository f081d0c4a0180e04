#!/usr/bin/env bash
# Ten volumes of two copies, each over all of many bricks, and ten clients that work on them at once while a brick is killed and comes back.
#   many_bricks_test.sh BRICKS
. "$(dirname "$0")/../etcd/lib.sh"
count=$1
volumes=10
BRICK_SIZE=512M
bricks=() names=() of_each=()
for i in $(seq 1 "$volumes"); do
  names+=("v$i")
  of_each+=(--volume "v$i" --volume "v$i.2")
done
start_etcd only
for i in $(seq 1 "$count"); do
  BRICK_KIND[b$i]=volatile
  start_brick_of_set "b$i" "${of_each[@]}"
  bricks+=("$(brick "b$i")")
done
source_of() { printf 'etcd://127.0.0.1:%s/%s\n' "$ETCD_PORT" "$1"; }

say "sets of $count bricks are made, and mounted"
for name in "${names[@]}"; do exits 0 set create "$(source_of "$name")" --replicas 2 "${bricks[@]}"; done
began=$(now_ms)
for name in "${names[@]}"; do
  mkdir "$WORK/$name"
  SOURCE=$(source_of "$name") MNT=$WORK/$name mount_brickfs
done
id=$(etcdctl --endpoints "http://127.0.0.1:$ETCD_PORT" get --print-value-only /brickfs/names/v1)
size=$(etcdctl --endpoints "http://127.0.0.1:$ETCD_PORT" get --print-value-only "/brickfs/$id/map" | wc -c)
say "$volumes mounts took $(($(now_ms) - began)) ms; the map of one has $size bytes"

# Whole blocks, so that all bricks have some; then small ones.
work() {  # NAME ROUND
  local dir=$WORK/$1/round$2 file
  mkdir "$dir"
  for file in $(seq 1 "$((count / 4))"); do head -c 2M /dev/urandom >"$dir/$file"; done
  for file in $(seq 1 50); do printf '%s\n' "$1 $2 $file" >"$dir/small$file"; done
  sync -f "$dir"
  (cd "$dir" && sha256sum ./*) >"$WORK/sums.$1.$2"
}
works() {  # ROUND
  local name pids=() pid
  for name in "${names[@]}"; do work "$name" "$1" & pids+=("$!"); BACKGROUND_PIDS+=("$!"); done
  for pid in "${pids[@]}"; do wait "$pid" || die "a client fails"; done
}
is_whole() { (cd "$WORK/$1/round$2" && sha256sum --quiet -c "$WORK/sums.$1.$2") >"$WORK/sums.log" 2>&1 || die "$1, round $2: $(head -n 3 "$WORK/sums.log")"; }
is_well() { timeout 60 "$BRICKCTL" set status "$(source_of "$1")" >"$WORK/status" 2>&1; }

say "all clients write"
works 1
say "a brick is killed, and comes back with nothing"
kill_brick_of_set b1
works 2
start_brick_of_set b1 "${of_each[@]}"
for name in "${names[@]}"; do within 180 is_well "$name" || die "$name is not in sync: $(cat "$WORK/status")"; done

say "another goes, and everything is read"
kill_brick_of_set b2
for name in "${names[@]}"; do
  echo 3 >/proc/sys/vm/drop_caches
  for round in 1 2; do is_whole "$name" "$round"; done
done
start_brick_of_set b2 "${of_each[@]}"
for name in "${names[@]}"; do within 180 is_well "$name" || die "$name is not in sync: $(cat "$WORK/status")"; done
for name in "${names[@]}"; do timeout 60 umount "$WORK/$name" || die "umount of $name"; done
