# shellcheck shell=bash
# Sourced: a load on MNT whose longest call is told.   start_load; load_runs; ...; stop_load: LONGEST, in milliseconds, and CALLS
start_load() {
  rm -f "$WORK/stop" "$MNT"/load*
  python3 "$TESTS/rdma/stall_load.py" "$MNT" "$WORK/stop" >"$WORK/stall.out" 2>"$WORK/stall.log" &
  LOAD=$!
  BACKGROUND_PIDS+=("$LOAD")
}
load_runs() { [ -e "$MNT/load0" ] && [ -e "$MNT/load1" ] && [ -e "$MNT/load2" ]; }
stop_load() {
  touch "$WORK/stop"
  within 120 test ! -d "/proc/$LOAD" || die "the load hangs"
  wait "$LOAD" || die "an operation failed: $(cat "$WORK/stall.log")"
  read -r CALLS LONGEST _ <"$WORK/stall.out"
}
