#!/usr/bin/env bash
# brickctl handover: the machines of a shared volume coordinate it in turn, while programs on three of them go on: no error, nothing lost, nothing done twice, short pauses. Also with one side killed in the middle, and what is refused.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
. "$TESTS/mount/json_lib.sh"
HANDOVERS=${1:-10}
start_shared_brick 1G
chmod 755 "$WORK"
MACHINES="b c d"
B=$WORK/b
handover() { timeout 90 "$BRICKCTL" handover --secret-file "$SHARED_SECRET" "$SOURCE" "$@"; }
refused() {  # WHAT ARGUMENT...
  local said
  said=$(handover "${@:2}" 2>&1) && die "handed over: $said"
  [[ $said == *"$1"* ]] && [ "$(wc -l <<<"$said")" = 1 ] || die "not in one line '$1': $said"
}
name_of() { echo "$(hostname) (pid $(machine_pid "$1"))"; }

start_none() {
  setsid "$BRICKFS" "$SOURCE" none -f -o "shared,secret=$SHARED_SECRET" </dev/null >>"$WORK/none.log" 2>&1 &
  NONE=$!
  disown
  within 30 grep -q "is shared" "$WORK/none.log" || die "nobody coordinates: $(cat "$WORK/none.log")"
}

say "refusals: one line each"
refused "nobody has the volume"
join_machine x
join_machine y
refused "umount it there"
leave_machine y
leave_machine x
start_none
refused "no other member"
join_machine r ro
refused "read-only"
refused "nowhere is no member" nowhere
leave_machine r

say "a coordinator without a mount hands over, and ends"
for machine in $MACHINES; do join_machine "$machine"; done
handover "$(name_of c)" || die "c does not take it: $(tail -n 2 "$WORK"/*.log)"
within 30 test ! -d "/proc/$NONE" || die "it does not end"
grep -q "umount\|error" "$WORK/none.log" && die "it complains: $(cat "$WORK/none.log")"

start_work() {
  rm -f "$WORK/stop"
  WORKERS=()
  for machine in $MACHINES; do
    timeout 300 python3 - "$WORK/$machine" "$WORK/stop" "$1" >"$WORK/$machine.work" 2>&1 <<'P' &
import fcntl, os, sys, time
root, stop, name = sys.argv[1:]
machine = os.path.basename(root)
log = os.open(root + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
counter = os.open(root + "/counter", os.O_RDWR | os.O_CREAT, 0o644)
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
    fcntl.lockf(counter, fcntl.LOCK_EX)
    os.pwrite(counter, b"%08d" % (int(os.pread(counter, 8, 0) or b"0") + 1), 0)
    fcntl.lockf(counter, fcntl.LOCK_UN)
    i += 1
print(i, "%.2f" % longest)
P
    WORKERS+=("$!")
  done
}
check_work() {  # NAME WHAT [MOST_SECONDS]
  : >"$WORK/stop"
  for pid in "${WORKERS[@]}"; do wait "$pid" || die "$2: a program sees an error: $(tail -n 3 "$WORK"/?.work)"; done
  python3 - "$WORK" "$1" "$2" "${3:-15}" <<'P' || die "$2: what was answered is not there, or is there twice"
import os, sys
work, name, what, most = sys.argv[1:]
root, longest, rounds = f"{work}/b", 0, 0
with open(root + "/log") as f: lines = [line for line in f.read().split("\n") if line.startswith(name + " ")]
assert len(lines) == len(set(lines)), "a line is there twice"
there = set(os.listdir(root))
for machine in "bcd":
    count, pause = open(f"{work}/{machine}.work").read().split()
    count, longest = int(count), max(longest, float(pause))
    rounds += count
    assert [l.split()[2] for l in lines if l.split()[1] == machine] == [str(i) for i in range(count)], machine
    kept = {f"{name}.{machine}.{i}.kept" for i in range(0, count, 3)}
    found = {n for n in there if n.startswith(f"{name}.{machine}.") and not n.endswith(".own")}
    assert kept == found, (machine, sorted(kept ^ found)[:5])
    for i in range(0, count, 3):
        assert open(f"{root}/{name}.{machine}.{i}.kept").read() == str(i), i
counted = int(open(root + "/counter").read())
os.unlink(root + "/counter")
assert counted == rounds, (counted, rounds)
print(f"{what}: {rounds} rounds, longest pause {longest:.2f} s")
assert longest < float(most), longest
P
}
wait_for_rounds() {
  local before
  before=$(wc -l <"$B/log")
  within 60 sh -c "[ \$(timeout 20 wc -l <'$B/log') -ge $((before + 20)) ]" || die "nothing goes on: $(tail -n 3 "$WORK"/?.work "$WORK"/?.log)"
}
# Also one of which explain says that it waits for a member.
coordinates() { { "$BRICKCTL" explain --json "$WORK/$1" 2>/dev/null || true; } | grep '"sharing": *"coordinator"' >/dev/null; }
coordinator() { for machine in $MACHINES; do coordinates "$machine" && echo "$machine" && return; done; die "nobody coordinates"; }

say "$HANDOVERS handovers, around"
refused "coordinates it" "$(name_of c)"
start_work turns
within 30 test -s "$B/log" || die "nothing begins"
turn=(d b c)
for ((i = 0; i < HANDOVERS; ++i)); do
  to=${turn[i % 3]}
  handover "$(name_of "$to")" --json >"$WORK/handover.log" 2>&1 || die "$to does not take it: $(cat "$WORK/handover.log"; tail -n 3 "$WORK"/?.log)"
  within 30 coordinates "$to" || die "$to does not say so"
  fields_are_documented handover "$WORK/handover.log" || die "handover --json"
  wait_for_rounds
done
check_work turns "$HANDOVERS handovers"
grep -h "has taken its place" "$WORK"/[b-d].log | grep -c "handed the volume over" >"$WORK/count"
[ "$(cat "$WORK/count")" -ge "$HANDOVERS" ] || die "only $(cat "$WORK/count") say that it was handed over to them"

say "one side is killed in the middle"
for when in 0.2 0.9 1.2 1.4; do
  for side in former next; do
    start_work "killed.$when.$side"
    wait_for_rounds
    former=$(coordinator)
    for next in $MACHINES; do [ "$next" = "$former" ] || break; done
    killed=$former
    [ "$side" = former ] || killed=$next
    # Its programs are not asked: they die with it.
    : >"$WORK/stop"; for pid in "${WORKERS[@]}"; do wait "$pid" || die "an error before anything: $(tail -n 3 "$WORK"/?.work)"; done
    (sleep "$when"; kill -9 "$(machine_pid "$killed")") &
    killer=$!
    handover "$(name_of "$next")" >"$WORK/handover.log" 2>&1 || true  # another has it, or has it still
    wait "$killer"
    for machine in $MACHINES; do
      [ "$machine" = "$killed" ] || timeout 60 sh -c "echo $machine >>'$WORK/$machine/after.$when.$side'" || die "$machine does not go on: $(tail -n 3 "$WORK"/?.log)"
    done
    umount -l "$WORK/$killed"
    join_machine "$killed"
    [ "$(timeout 20 wc -l <"$WORK/$killed/after.$when.$side")" = 2 ] || die "something is lost"
    echo "$side killed after $when s: $(tail -n 1 "$WORK/handover.log")"
  done
done

for machine in $MACHINES; do leave_machine "$machine"; done
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
