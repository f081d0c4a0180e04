#!/usr/bin/env bash
# PostgreSQL under load while the client, the brick or both are killed: every committed transaction is there afterwards, once; accounts
# and history agree; checksums and indexes are in order.   postgresql_test.sh [tcp] [SECONDS-OF-LOAD]
. "$(dirname "$0")/lib.sh"
kind=${1:-tcp} seconds=${2:-8}
[ "$kind" = tcp ] || die "a brick that can be killed on its own: tcp"
need postgresql
PROGRAMS=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
SOCKETS=$WORK/sockets
POSTMASTER=
mkdir "$SOCKETS"
chown postgres "$SOCKETS"
end_postmaster() {
  [ -n "$POSTMASTER" ] || return 0
  kill -QUIT "$POSTMASTER" 2>/dev/null || true  # as in a crash: no checkpoint
  within 30 test ! -d "/proc/$POSTMASTER" || kill -9 -- "-$POSTMASTER" 2>/dev/null || true
  POSTMASTER=
}
trap 'status=$?; set +e; end_postmaster; (exit $status); clean_up' EXIT

sql() { as postgres "$PROGRAMS/psql" -h "$SOCKETS" -qAt "$@" bench; }
is_serving() { as postgres "$PROGRAMS/pg_isready" -q -h "$SOCKETS"; }
start_postgres() {
  BRICKFS_RUN_STATS=1 as postgres setsid "$PROGRAMS/postgres" -D "$MNT/data" -k "$SOCKETS" -c listen_addresses= -c shared_buffers=48MB -c checkpoint_timeout=30s \
    -c max_wal_size=64MB -c max_connections=20 2>>"$WORK/postgres.log" &
  within 10 grep -q . "$MNT/data/postmaster.pid" || die "PostgreSQL does not start"
  within 90 is_serving || die "PostgreSQL does not serve"
  POSTMASTER=$(head -n 1 "$MNT/data/postmaster.pid")
}
stop_postgres() {
  as postgres "$PROGRAMS/pg_ctl" -D "$MNT/data" -s -m fast stop || die "PostgreSQL does not stop"
  POSTMASTER=
}
# Lines that pgbench logged: a transaction each, committed.
committed() { cat "$WORK"/bench-"$1"/tx.* 2>/dev/null | wc -l; }
history() { sql -c 'SELECT count(*) FROM pgbench_history'; }

# What is read comes from the brick, not from the kernel.
drop_pages() { find "$MNT/data/base" -type f -exec dd if={} iflag=nocache count=0 status=none \;; }
start_load() {  # NAME SECONDS
  drop_pages
  mkdir "$WORK/bench-$1"
  chown postgres "$WORK/bench-$1"
  as postgres "$PROGRAMS/pgbench" -h "$SOCKETS" -n -c 4 -j 1 -T "$2" -l --log-prefix="$WORK/bench-$1/tx" bench >"$WORK/bench-$1.log" 2>&1 &
  LOAD=$!
}
verify() {  # NAME HISTORY-BEFORE
  local now acknowledged sums
  now=$(history) acknowledged=$(committed "$1")
  say "   $acknowledged transactions acknowledged, $((now - $2)) in the history"
  [ "$acknowledged" -gt 0 ] || die "$1: pgbench did nothing: $(tail -n 1 "$WORK/bench-$1.log")"
  [ $((now - $2)) -ge "$acknowledged" ] && [ $((now - $2)) -le $((acknowledged + 4)) ] || die "$1: committed transactions are lost or doubled"
  sums=$(sql -c 'SELECT count(DISTINCT s) FROM (SELECT sum(abalance) s FROM pgbench_accounts UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
    UNION ALL SELECT sum(bbalance) FROM pgbench_branches UNION ALL SELECT sum(delta) FROM pgbench_history) sums')
  [ "$sums" = 1 ] || die "$1: the balances do not agree"
  as postgres "$PROGRAMS/pg_amcheck" -h "$SOCKETS" --install-missing --heapallindexed --parent-check -d bench || die "$1: pg_amcheck"
}

start_brick "$kind" 4G
mount_brickfs allow_other
mkdir "$MNT/data"
chown postgres "$MNT/data"
say "initdb and pgbench -i"
as postgres "$PROGRAMS/initdb" -D "$MNT/data" -A trust -k --no-instructions >"$WORK/initdb.log" 2>&1 || die "initdb"
start_postgres
as postgres "$PROGRAMS/createdb" -h "$SOCKETS" bench
as postgres "$PROGRAMS/pgbench" -h "$SOCKETS" -i -q -s 5 bench >"$WORK/pgbench-i.log" 2>&1 || die "pgbench -i"

say "the brick is killed and comes back: nobody notices"
before=$(history)
start_load brick "$seconds"
sleep $((seconds / 2))
kill_brickd
sleep 1
restart_brickd
wait "$LOAD" || die "a transaction failed: $(tail -n 1 "$WORK/bench-brick.log")"
verify brick "$before"

crash() {  # NAME: client or both
  local before; before=$(history)
  start_load "$1" $((seconds * 10))  # it ends with the crash
  sleep $((seconds / 2))
  kill_brickfs
  [ "$1" = client ] || kill_brickd
  wait "$LOAD" && die "$1: pgbench does not see the crash"
  end_postmaster
  detach_dead_mount
  [ "$1" = client ] || restart_brickd
  mount_brickfs allow_other
  start_postgres
  verify "$1" "$before"
}
say "the client is killed, mounted again; PostgreSQL recovers"
crash client
say "client and brick are killed"
crash both

say "checksums of all pages"
drop_pages
stop_postgres
as postgres "$PROGRAMS/pg_checksums" --check -D "$MNT/data" >"$WORK/checksums.log" || die "a page is damaged"
if [ "${#BY_RING[@]}" -gt 0 ]; then
  grep '^brickfs-run: postgres (' "$WORK/postgres.log" >/dev/null || die "brickfs-run does not know whom it runs"
  for what in reads writes; do
    calls=$(calls_by_ring "$WORK/postgres.log" "$what")
    say "   $calls $what by rings"
    [ "$calls" -gt 100 ] || die "no $what by rings"
  done
fi
unmount_brickfs
check_volume
