#!/usr/bin/env bash
# One volume that programs have by libbrickfs, by a mount, and by rings of a mount (brickfs-run), whose coordinator is killed: a member takes its place; all go on, nothing answered is lost, nothing is done twice.
. "$(dirname "$0")/../mount/lib.sh"
. "$TESTS/mount/shared_lib.sh"
. "$TESTS/library/python_lib.sh"
start_shared_brick 1G
chmod 755 "$WORK"

start_program() {  # MACHINE NAME: by libbrickfs
  timeout 200 "$python" "$TESTS/mount/shared_work.py" library "$SOURCE" "shared,secret=$SHARED_SECRET" "$1" "$2" "$WORK/stop" >"$WORK/$1.work" 2>"$WORK/$1.log" &
  PROGRAMS+=("$!")
}
has_begun() { grep "$1 $2 " "$WORK/b/log" >/dev/null 2>&1; }
end_programs() {  # WHAT
  local pid
  : >"$WORK/stop"
  for pid in "${PROGRAMS[@]}"; do wait "$pid" || die "$1: a program sees an error: $(tail -n 3 "$WORK"/*.work "$WORK"/*.log)"; done
}

say "the coordinator is killed: programs of the library and with rings go on"
join_machine a
join_machine b ring=on
PROGRAMS=()
BRICKFS_RUN_STATS=1 timeout 200 "$BUILD/fs/run/brickfs-run" "$python" "$TESTS/mount/shared_work.py" work "$WORK/b" killed "$WORK/stop" >"$WORK/b.work" 2>"$WORK/b.run" &
PROGRAMS+=("$!")
for machine in library other; do start_program "$machine" killed; done
for machine in b library other; do within 60 has_begun killed "$machine" || die "$machine does not begin: $(tail -n 3 "$WORK"/*.work "$WORK"/*.log "$WORK/b.run")"; done
MACHINES=b
kill -9 "$(machine_pid a)"
umount -l "$WORK/a"
wait_for_rounds
for machine in b library other; do
  before=$(grep -c "killed $machine " "$WORK/b/log")
  goes_on() { [ "$(grep -c "killed $machine " "$WORK/b/log")" -gt "$before" ]; }
  within 60 goes_on || die "$machine does not go on: $(tail -n 3 "$WORK"/*.work "$WORK"/*.log)"
done
end_programs "killed"
"$TESTS/mount/shared_work.py" check "$WORK" killed 20 b library other || die "what was answered is not there, or is there twice"
grep 'by a ring: .*[1-9].*; by the kernel' "$WORK/b.run" >/dev/null || die "nothing goes by a ring: $(cat "$WORK/b.run")"
leave_machine b
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
