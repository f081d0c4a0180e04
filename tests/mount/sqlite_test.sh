#!/usr/bin/env bash
# sqlite in rollback and in WAL mode, with several writers and integrity checks.   sqlite_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
start_brick "$1" 1G
mount_brickfs
rounds=$(scaled 40)

run_mode() {  # JOURNAL-MODE
  local db=$MNT/$1.db worker
  say "journal_mode=$1"
  sqlite3 "$db" "PRAGMA journal_mode=$1; CREATE TABLE t(id INTEGER PRIMARY KEY, worker INT, n INT, body BLOB); CREATE INDEX byworker ON t(worker, n);" >/dev/null
  local pids=()
  for worker in 1 2 3; do
    (
      for n in $(seq 1 "$rounds"); do
        sqlite3 -cmd '.timeout 600000' "$db" "BEGIN IMMEDIATE; INSERT INTO t(worker, n, body) SELECT $worker, $n * 10 + value, randomblob(2000) FROM (WITH RECURSIVE c(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM c WHERE value < 9) SELECT value FROM c); UPDATE t SET body = randomblob(500) WHERE worker = $worker AND n % 7 = 0; DELETE FROM t WHERE worker = $worker AND n = $n * 10 + 3; COMMIT;"
      done
    ) &
    pids+=($!)
  done
  for worker in "${pids[@]}"; do wait "$worker" || die "a writer fails"; done
  check_db "$1"
}
check_db() {
  [ "$(sqlite3 "$MNT/$1.db" 'PRAGMA integrity_check')" = ok ] || die "integrity_check of $1 fails"
  [ "$(sqlite3 "$MNT/$1.db" 'SELECT count(*) FROM t')" = $((27 * rounds)) ] || die "$1 has $(sqlite3 "$MNT/$1.db" 'SELECT count(*) FROM t') rows"
}

run_mode delete
run_mode truncate
run_mode wal
unmount_brickfs
if [ "$1" != memory ]; then
  check_volume
  mount_brickfs
  for mode in delete truncate wal; do check_db $mode; done
  unmount_brickfs
fi
