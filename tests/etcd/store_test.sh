#!/usr/bin/env bash
# The map in a real etcd: compare-and-set; and a cluster of three, of which members go.
. "$(dirname "$0")/lib.sh"

say "compare-and-set"
start_etcd only
BRICKFS_ETCD=127.0.0.1:$ETCD_PORT timeout 60 "$BUILD/tests/etcd_tests" >"$WORK/etcd_tests.log" 2>&1 || { cat "$WORK/etcd_tests.log"; die "etcd_tests"; }
kill_etcd only

say "a cluster of three"
start_brick_of_set a
start_brick_of_set b
members=(x y z) cluster='' source=''
declare -A port peer
for name in "${members[@]}"; do
  port[$name]=$(free_port) peer[$name]=$(free_port)
  cluster+=",$name=http://127.0.0.1:${peer[$name]}"
  source+=",127.0.0.1:${port[$name]}"
done
source=etcd://${source#,}/default
for name in "${members[@]}"; do
  etcd --name "$name" --data-dir "$WORK/etcd-$name" --logger zap --log-level error --unsafe-no-fsync --initial-cluster "${cluster#,}" \
    --listen-client-urls "http://127.0.0.1:${port[$name]}" --advertise-client-urls "http://127.0.0.1:${port[$name]}" \
    --listen-peer-urls "http://127.0.0.1:${peer[$name]}" --initial-advertise-peer-urls "http://127.0.0.1:${peer[$name]}" \
    >>"$WORK/etcd-$name.log" 2>&1 &
  ETCD_PID[$name]=$!
  BACKGROUND_PIDS+=("$!")
done
made() { exits 0 set create "$source" --replicas 2 "$(brick a)" "$(brick b)"; }
within 30 "$BRICKCTL" set create "$source" --replicas 2 "$(brick a)" "$(brick b)" || die "no set: $("$BRICKCTL" set create "$source" --replicas 2 "$(brick a)" "$(brick b)" 2>&1)"
made
grep -q 'there already' "$WORK/out" || die "made twice: $(cat "$WORK/out")"

say "one stops, and is killed"
kill -STOP "${ETCD_PID[x]}"
elects() { "$BRICKCTL" set status "$source"; }  # it may have been the leader
within 20 elects || die "one of three is silent: $("$BRICKCTL" set status "$source" 2>&1)"
within_seconds 8 exits 0 set status "$source"
kill_etcd x
within_seconds 4 exits 0 set status "$source"

say "two are gone: nothing is known, and said within seconds"
kill_etcd y
within_seconds 10 refused 1 'etcd at 127.0.0.1:[0-9]+: cannot be reached.*; etcd at' set status "$source"

say "passed"
