#!/usr/bin/env bash
# The machine that has mounted a shared volume first is stopped for a minute, and continued: another has its place by then. It harms nothing, gives its programs neither a lock that another has nor what was there before, but ESTALE, says in one sentence what has happened, and can be unmounted and mounted again, as a member.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
SECONDS_STOPPED=${1:-60}
start_shared_brick 1G
chmod 755 "$WORK"
A=$WORK/a B=$WORK/b
join_machine a
join_machine b
echo before >"$A/file"
: >"$A/lock"

# Asks again and again, each call by itself, and tells what it was answered when.
cat >"$WORK/asks.py" <<'P'
import errno, fcntl, os, sys, time
root, what, said = sys.argv[1:]
lock = os.open(f"{root}/lock", os.O_RDWR)
def ask():
    if what == "locks":
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock, fcntl.LOCK_UN)
        return "locked"
    if what == "looks": return str(os.stat(f"{root}/file").st_size)
    if what == "reads":
        with open(f"{root}/file") as f: return f.read().strip()
    open(f"{root}/made.{time.time()}", "x").close()
    return "made"
with open(said, "w", buffering=1) as out:
    while True:
        try: answer = ask()
        except OSError as error: answer = errno.errorcode[error.errno]
        print(f"{time.time():.3f} {answer}", file=out)
        if answer == "ESTALE": break
        time.sleep(0.001)
P
ASKING=()
for what in locks looks reads makes; do
  timeout 200 python3 "$WORK/asks.py" "$A" "$what" "$WORK/$what.said" & ASKING+=("$!")
done
for what in locks looks reads makes; do within 20 test -s "$WORK/$what.said" || die "nobody $what"; done

say "stopped for $SECONDS_STOPPED s"
pid=$(machine_pid a)
kill -STOP "$pid"  # whatever fails until it goes on, clean_up ends it
stopped=$(date +%s.%N)
timeout 60 sh -c "echo 'what is there now' >'$B/file'" || die "nobody takes its place: $(tail -n 3 "$WORK/b.log")"
timeout 60 python3 - "$B" "$WORK/holds" <<'P' &
import fcntl, os, sys, time
lock = os.open(f"{sys.argv[1]}/lock", os.O_RDWR)
fcntl.lockf(lock, fcntl.LOCK_EX)
open(sys.argv[2], "x").close()
while not os.path.exists(sys.argv[2] + ".enough"): time.sleep(0.05)
P
HOLDER=$!
within 30 test -e "$WORK/holds" || die "the lock is not free"
ls "$B" >"$WORK/names.before"
sleep "$(python3 -c "import time; print(max(0, $stopped + $SECONDS_STOPPED - time.time()))")"

say "and continued"
continued=$(date +%s.%N)
kill -CONT "$pid"
for asking in "${ASKING[@]}"; do wait "$asking" || die "a program of its goes on: $(tail -n 2 "$WORK"/*.said)"; done
python3 - "$WORK" "$continued" <<'P' || die "its programs were told what is not so"
import sys
work, continued = sys.argv[1], float(sys.argv[2])
for what in ("locks", "looks", "reads", "makes"):
    lines = [line.split(maxsplit=1) for line in open(f"{work}/{what}.said")]
    late = [answer.strip() for when, answer in lines if float(when) >= continued]
    assert late == ["ESTALE"], (what, late[:5])
P
: >"$WORK/holds.enough"
wait "$HOLDER" || die "the lock's owner sees it"
[ "$(timeout 20 cat "$B/file")" = 'what is there now' ] || die "it changes the file"
ls "$B" | cmp -s - "$WORK/names.before" || die "it makes names: $(ls "$B" | diff - "$WORK/names.before")"
[ "$(grep -c "another client\|was lost\|is lost" "$WORK/a.log")" = 1 ] || die "not one line: $(tail -n 5 "$WORK/a.log")"
timeout 10 ls "$A" >"$WORK/ls.log" 2>&1 && die "it tells what was there"
grep -q "Stale file handle" "$WORK/ls.log" || die "no clear error: $(cat "$WORK/ls.log")"

say "unmounted, and mounted again"
leave_machine a || die "it cannot be unmounted: $(tail -n 3 "$WORK/a.log")"
join_machine a
"$BRICKCTL" explain --json "$A" | grep '"sharing": *"member"' >/dev/null || die "it is no member"
[ "$(timeout 20 cat "$A/file")" = 'what is there now' ] || die "it does not see the others"
leave_machine a
leave_machine b
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
