#!/usr/bin/env bash
# LMDB (also written through its mapping), LevelDB and RocksDB under load, with the client killed in the middle; all that was durable is
# there, whole.   key_value_test.sh [tcp|file]
. "$(dirname "$0")/lib.sh"
kind=${1:-tcp}
need python3-lmdb python3-plyvel rocksdb-tools
key_value() { timeout 300 "${BY_RING[@]}" /usr/bin/python3 "$TESTS/apps/key_value.py" "$@"; }

start_brick "$kind" 3G
mount_brickfs
for engine in lmdb lmdb-map leveldb; do
  say "$engine"
  log=$WORK/$engine.notes
  key_value load "$engine" "$MNT/$engine" "$log" 60 || die "$engine: load"
  key_value check "$engine" "$MNT/$engine" "$log" || die "$engine: after loading"
  unmount_brickfs
  mount_brickfs
  key_value check "$engine" "$MNT/$engine" "$log" || die "$engine: after a remount"
  for round in 1 2 3; do
    key_value load "$engine" "$MNT/$engine" "$log" 2>/dev/null &
    writer=$!
    sleep "1.$((RANDOM % 10))"
    kill_brickfs
    wait "$writer" || true
    detach_dead_mount
    mount_brickfs
    key_value check "$engine" "$MNT/$engine" "$log" || die "$engine: after crash $round"
  done
  rm -r "${MNT:?}/$engine"
done

say "rocksdb: db_bench"
bench() {  # BENCHMARKS OPTIONS...
  local benchmarks=$1; shift
  BRICKFS_RUN_STATS=1 timeout 300 "${BY_RING[@]}" db_bench --benchmarks="$benchmarks" --db="$MNT/rocksdb" --num=40000 --value_size=400 --threads=2 --write_buffer_size=4194304 \
    --target_file_size_base=4194304 --verify_checksum=true --compression_type=none "$@" >"$WORK/db_bench.log" 2>&1 || die "db_bench $benchmarks"
  grep -E '^[a-z]+ +:' "$WORK/db_bench.log" | sed 's/^/   /'
}
bench fillrandom,overwrite,readrandom,verifychecksum
bench overwrite,verifychecksum --use_existing_db=1 --num=1500 --sync=1
bench readwhilewriting,seekrandom,verifychecksum --use_existing_db=1 --num=5000
bench compact,verifychecksum,readseq,readrandom --use_existing_db=1 --reads=10000 --use_direct_reads=true --use_direct_io_for_flush_and_compaction=true
[ "${#BY_RING[@]}" = 0 ] || [ "$(calls_by_ring "$WORK/db_bench.log" reads)" -gt 100 ] || die "nothing is read by rings: $(grep brickfs-run: "$WORK/db_bench.log")"
bench readrandom,verifychecksum --use_existing_db=1 --mmap_read=true
timeout 60 ldb --db="$MNT/rocksdb" checkconsistency >"$WORK/ldb.log" 2>&1 || die "rocksdb is not consistent"

say "rocksdb: the client is killed during synchronous writes"
# It gives up when its files are gone.
timeout 300 "${BY_RING[@]}" db_bench --benchmarks=overwrite --sync=1 --use_existing_db=1 --db="$MNT/rocksdb" --num=400000 >/dev/null 2>&1 &
writer=$!
sleep 2
kill_brickfs
kill -9 "$writer" 2>/dev/null || true
wait "$writer" || true
detach_dead_mount
mount_brickfs
bench verifychecksum,readseq --use_existing_db=1
timeout 60 ldb --db="$MNT/rocksdb" checkconsistency >"$WORK/ldb.log" 2>&1 || die "rocksdb is not consistent after the crash"
unmount_brickfs
check_volume
