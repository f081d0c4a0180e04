#!/usr/bin/env bash
# One volume on four machines, whose coordinator dies, ends, or stops: a member takes its place, programs see a pause and no error, nothing answered is lost, nothing is done twice.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
start_shared_brick 1G
chmod 755 "$WORK"
for machine in a b c d; do join_machine "$machine"; done
A=$WORK/a B=$WORK/b C=$WORK/c D=$WORK/d

# Programs on three members, until they are told to stop: appends, files that are written, renamed and removed, overwrites, a lock that is
# never let go of, a file that was unlinked while it was open. Each says what it was answered.
start_work() {  # NAME
  rm -f "$WORK/stop"
  WORKERS=()
  for machine in b c d; do
    timeout 120 python3 - "$WORK/$machine" "$WORK/stop" "$1" >"$WORK/$machine.work" 2>&1 <<'P' &
import fcntl, os, sys, time
root, stop, name = sys.argv[1:]
machine = os.path.basename(root)
log = os.open(root + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
own = os.open(f"{root}/{name}.{machine}.own", os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(own, fcntl.LOCK_EX)
unlinked = os.open(f"{root}/{name}.{machine}.unlinked", os.O_RDWR | os.O_CREAT, 0o644)
os.unlink(f"{root}/{name}.{machine}.unlinked")
longest, i = 0, 0
while not os.path.exists(stop):
    began = time.monotonic()
    assert os.write(log, b"%-31s\n" % f"{name} {machine} {i}".encode()) == 32
    path = f"{root}/{name}.{machine}.{i}"
    with open(path, "x") as f: f.write(str(i))
    os.rename(path, path + ".kept")
    if i % 3: os.unlink(path + ".kept")
    os.pwrite(own, b"%08d" % i, 0)
    os.pwrite(unlinked, b"%08d" % i, 8 * (i % 100))
    assert os.pread(unlinked, 8, 8 * (i % 100)) == b"%08d" % i
    assert os.pread(own, 8, 0) == b"%08d" % i
    longest = max(longest, time.monotonic() - began)
    i += 1
print(i, "%.2f" % longest)
P
    WORKERS+=("$!")
  done
}

# Ends the programs, and looks whether all that they were answered is there, once.
check_work() {  # NAME WHAT
  : >"$WORK/stop"
  for pid in "${WORKERS[@]}"; do wait "$pid" || die "$2: a program sees an error: $(tail -n 3 "$WORK"/?.work)"; done
  python3 - "$WORK" "$1" "$2" "${3:-b}" <<'P' || die "$2: what was answered is not there, or is there twice"
import os, sys
work, name, what, seen_by = sys.argv[1:]
root, longest = f"{work}/{seen_by}", 0
with open(root + "/log") as f: lines = [line for line in f.read().split("\n") if line.startswith(name + " ")]
assert len(lines) == len(set(lines)), "a line is there twice"
there = set(os.listdir(root))
for machine in "bcd":
    count, pause = open(f"{work}/{machine}.work").read().split()
    count, longest = int(count), max(longest, float(pause))
    assert [l.split()[2] for l in lines if l.split()[1] == machine] == [str(i) for i in range(count)], machine
    kept = {f"{name}.{machine}.{i}.kept" for i in range(0, count, 3)}
    found = {n for n in there if n.startswith(f"{name}.{machine}.") and not n.endswith(".own")}
    assert kept == found, (machine, sorted(kept ^ found)[:5])
    for i in range(0, count, 3):
        assert open(f"{root}/{name}.{machine}.{i}.kept").read() == str(i), i
    assert int(open(f"{root}/{name}.{machine}.own").read()) == count - 1
print(f"{what}: {len(lines)} rounds, longest pause {longest:.2f} s")
assert longest < 15, longest
P
}
# Each program has done some rounds more.
wait_for_rounds() {
  local before
  before=$(wc -l <"$B/log")
  within 30 sh -c "[ \$(timeout 20 wc -l <'$B/log') -ge $((before + 20)) ]" || die "nothing goes on: $(tail -n 3 "$WORK"/?.work "$WORK"/?.log)"
}
coordinates() { "$BRICKCTL" explain --json "$WORK/$1" 2>/dev/null | grep '"sharing": *"coordinator"' >/dev/null; }
# Of b, c and d.
coordinator() { for machine in b c d; do coordinates "$machine" && echo "$machine" && return; done; die "nobody coordinates"; }

say "the coordinator is killed"
start_work killed
within 30 test -s "$B/log" || die "nothing begins"
wait_for_rounds
kill -9 "$(machine_pid a)"
umount -l "$A"
wait_for_rounds
check_work killed "killed"
grep -h 'has taken its place' "$WORK"/[b-d].log >/dev/null || die "nobody says that it has taken the place"


say "a new coordinator that unmounts: who is left goes on"
taker=$(coordinator)
before=$(wc -l <"$B/log")
leave_machine "$taker"
for machine in b c d; do
  [ "$machine" = "$taker" ] && continue
  timeout 30 sh -c "echo ${machine} >>'$WORK/$machine/log'" || die "$machine does not go on"
done
for machine in b c d; do
  [ "$machine" = "$taker" ] || [ "$(timeout 20 wc -l <"$WORK/$machine/log")" = $((before + 2)) ] || die "$machine sees other lines"
done
join_machine "$taker"

say "a coordinator that is stopped for longer than its lease, and continued: another has its place, and it harms nothing"
stopped=$(coordinator)
for machine in b c d; do [ "$machine" = "$stopped" ] || other=$machine; done
pid=$(machine_pid "$stopped")
kill -STOP "$pid"
timeout 60 sh -c "echo through >'$WORK/$other/after'" || { kill -CONT "$pid"; die "nobody takes its place"; }
kill -CONT "$pid"
[ "$(timeout 20 cat "$WORK/$other/after")" = through ] || die "it is lost"
sleep 1
[ "$(timeout 20 cat "$WORK/$other/after")" = through ] || die "who was stopped changes it"
unmount_brickfs "$WORK/$stopped" 2>/dev/null || umount -l "$WORK/$stopped"
for machine in b c d; do [ "$machine" = "$stopped" ] || leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }

say "who has taken the place ends when it is told to, though the brick is gone"
join_machine b
join_machine c
kill -9 "$(machine_pid b)"
umount -l "$B"
timeout 60 sh -c "echo on >'$WORK/c/taken'" || die "nobody takes its place"
[ "$(coordinator)" = c ] || die "c has not taken it"
pid=$(machine_pid c)
kill_brickd
timeout 10 sh -c "echo lost >'$WORK/c/lost'" || true
kill -TERM "$pid"
within 60 test ! -d "/proc/$pid" || die "it goes on: $(tail -n 3 "$WORK/c.log")"
umount -l "$WORK/c" 2>/dev/null || true
