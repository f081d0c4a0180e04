#!/usr/bin/env bash
# A client that takes all it may have of a brick: the brick bounds it, others hardly notice, and it is gone as soon as it goes.
#   tenants_test.sh [maps|commits|connections|followers|stop...]
. "$(dirname "$0")/../mount/lib.sh"
export PYTHONDONTWRITEBYTECODE=1
HERE=$(dirname "$0")

BLOCKS=100  # of the volume
MEDIAN_MS=100 WORST_MS=2000 OPENING_MS=5000  # 20, 200 and 1000 on a quiet machine
start_brickd --memory 256M --file "$WORK/store" --size 512M --volume tenant --volume neighbour
resident_mb() { awk '/^RssAnon/ { print int($2 / 1024) }' "/proc/$BRICKD_PID/status"; }

# Median and worst round trip, worst opening of a session, with the tenant at it.
look_at_neighbour() {  # WHAT
  local median worst opening
  read -r median worst opening <<<"$(timeout 60 python3 "$HERE/neighbour.py" "$BRICKD_PORT" neighbour 8)"
  say "$1: a neighbour's round trip takes $median ms (median), $worst ms (worst), a new session $opening ms (worst); brickd has $(resident_mb) MB"
  awk "BEGIN { exit !($median <= $MEDIAN_MS && $worst <= $WORST_MS && $opening <= $OPENING_MS) }" || die "$1: a neighbour waits too long"
  [ "$(resident_mb)" -le 400 ] || die "$1: brickd has $(resident_mb) MB of memory"
}

start_tenant() {  # WHAT
  : >"$WORK/tenant.out"
  python3 "$HERE/tenant.py" "$BRICKD_PORT" tenant "$BLOCKS" "$1" >"$WORK/tenant.out" 2>"$WORK/tenant.log" &
  tenant=$!
  BACKGROUND_PIDS+=("$tenant")
  within 60 test -s "$WORK/tenant.out" || die "the tenant does not get to his bounds: $(tail -n 1 "$WORK/tenant.log")"
}

# A new session at once, and the end of all of the tenant's.
end_tenant() {
  kill -0 "$tenant" || die "the tenant has ended: $(tail -n 1 "$WORK/tenant.log")"
  kill -9 "$tenant"
  wait "$tenant" 2>/dev/null || true
  timeout 20 python3 - "$HERE" "$BRICKD_PORT" <<'P' || die "nobody gets in"
import sys, time
sys.path.insert(0, sys.argv[1])
import brick_wire as wire
began = time.monotonic()
wire.Session(int(sys.argv[2]), "neighbour").call(wire.CLOSE)
opened = time.monotonic() - began
while True:  # without cutting him off: his session is over
    try:
        wire.Session(int(sys.argv[2]), "tenant").call(wire.CLOSE)
        break
    except wire.Refused:
        time.sleep(0.02)
print(f"   a new session took {opened * 1e3:.0f} ms; his own was over after {(time.monotonic() - began) * 1e3:.0f} ms")
assert opened < 1, "a new session waits for the end of another"
assert time.monotonic() - began < 3, "a session outlives its client"
P
}

look_at_neighbour "nobody else"
[ $# -gt 0 ] || set -- maps commits connections followers stop
for what; do
  [ "$what" != stop ] || break
  start_tenant "$what"
  look_at_neighbour "$what"
  say "$(tail -n 1 "$WORK/tenant.out")"
  [ "$(wc -l <"$WORK/tenant.out")" -ge 2 ] || die "$what: there is no end to what one call may ask for"
  end_tenant
done

[ "${what:-}" = stop ] || exit 0
say "stopping in the middle of a commit"
start_tenant commits
sleep 1
began=$(now_ms)
kill "$BRICKD_PID"
is_over() { ! kill -0 "$BRICKD_PID" || grep -q '^State:.Z' "/proc/$BRICKD_PID/status"; }
within 5 is_over || die "brickd does not stop"
say "brickd ended after $(($(now_ms) - began)) ms"
BRICKD_PID=
kill -9 "$tenant" 2>/dev/null || true
say "ok"
