#!/usr/bin/env bash
# brickctl handover by the machine that has mounted the volume first: under its live mount it becomes a member. Its programs keep their open files (also those without a name), locks, places in listings and inode numbers; what others write to files that it read by its kernel's pages they see; the pause is short.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
FILES=${1:-2000}
start_shared_brick 1G
chmod 755 "$WORK"
A=$WORK/a B=$WORK/b
name_of() { echo "$(hostname) (pid $(machine_pid "$1"))"; }
handover() { timeout 90 "$BRICKCTL" handover --secret-file "$SHARED_SECRET" "$SOURCE" "$@"; }

join_machine a
python3 - "$A" "$FILES" <<'P'
import os, sys
root, files = sys.argv[1], int(sys.argv[2])
for i in range(files):
    if i % 1000 == 0: os.mkdir(f"{root}/{i // 1000}")
    with open(f"{root}/{i // 1000}/{i}", "x"): pass
P
# Opened before there is any other machine, and read by pages.
cat >"$WORK/program.py" <<'P'
import ctypes, errno, fcntl, mmap, os, sys, threading, time
a, b, said = sys.argv[1:]
def told(word):
    while not os.path.exists(f"{said}.{word}"): time.sleep(0.01)
def say(word): open(f"{said}.{word}", "x").close()

kept = os.open(f"{a}/kept", os.O_RDWR | os.O_CREAT, 0o644)
os.write(kept, b"first" * 2000)
assert os.pread(kept, 5, 0) == b"first"
unlinked = os.open(f"{a}/unlinked", os.O_RDWR | os.O_CREAT, 0o644)
os.write(unlinked, b"no name")
os.unlink(f"{a}/unlinked")
temporary = os.open(a, os.O_RDWR | os.O_TMPFILE, 0o644)
os.write(temporary, b"never a name")
log = os.open(f"{a}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
locked = os.open(f"{a}/locked", os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(locked, fcntl.LOCK_EX, 10, 0)
whole = os.open(f"{a}/whole", os.O_RDWR | os.O_CREAT, 0o644)
fcntl.flock(whole, fcntl.LOCK_EX)
os.mkdir(f"{a}/listed")
for i in range(3000): open(f"{a}/listed/{i:05}", "x").close()
listing = os.scandir(f"{a}/listed")
seen = [next(listing).name for _ in range(100)]
inode = os.stat(f"{a}/kept").st_ino
memory = mmap.mmap(kept, 4096)
assert memory[:5] == b"first"
say("ready")

# Another machine is there: it waits for one lock, and has another that is waited for here.
told("joined")
other_kept = os.open(f"{b}/kept", os.O_RDWR)
theirs = os.open(f"{b}/theirs", os.O_RDWR | os.O_CREAT, 0o644)
fcntl.flock(theirs, fcntl.LOCK_EX)
ours = os.open(f"{a}/theirs", os.O_RDWR)
got = []
def wait_for(fd, name):
    fcntl.flock(fd, fcntl.LOCK_EX)
    got.append(name)
other_whole = os.open(f"{b}/whole", os.O_RDWR)
waiting = [threading.Thread(target=wait_for, args=args) for args in ((ours, "theirs"), (other_whole, "whole"))]
for each in waiting: each.start()

longest, rounds, stop = 0, 0, False
def work():
    global longest, rounds
    while not stop:
        began = time.monotonic()
        os.write(log, b"%07d\n" % rounds)
        os.pwrite(unlinked, b"%07d" % rounds, 0)
        assert os.pread(unlinked, 7, 0) == b"%07d" % rounds
        with open(f"{a}/work.{rounds % 10}", "w") as f: f.write(str(rounds))
        assert os.stat(f"{a}/work.{rounds % 10}").st_size == len(str(rounds))
        longest = max(longest, time.monotonic() - began)
        rounds += 1
worker = threading.Thread(target=work)
worker.start()
# What has returned there is seen here, by pages, at each moment.
compared, late = 0, []
def compare():
    global compared
    while not stop:
        text = b"%08d" % compared
        for offset in (0, 4096, 9000):
            os.pwrite(other_kept, text, offset)
            got = os.pread(kept, 8, offset)
            if got != text: late.append((compared, offset, got))
        compared += 1
comparer = threading.Thread(target=compare)
comparer.start()
time.sleep(0.5)
say("working")
told("handed")
before = compared, rounds
time.sleep(2)
stop = True
worker.join(); comparer.join()
assert not late, late[:3]
assert compared > before[0] and rounds > before[1], (compared, rounds, before)
with open(f"{b}/log") as f: assert [int(line) for line in f] == list(range(rounds))

assert os.fstat(kept).st_ino == os.stat(f"{a}/kept").st_ino == inode == os.stat(f"{b}/kept").st_ino
assert os.pread(temporary, 100, 0) == b"never a name"
# Longer, and shorter, by another.
os.pwrite(other_kept, b"end", 20000)
assert os.fstat(kept).st_size == 20003 and os.pread(kept, 100, 20000) == b"end"
os.ftruncate(other_kept, 3)
assert os.fstat(kept).st_size == 3 and len(os.pread(kept, 100, 0)) == 3 and os.pread(kept, 100, 9000) == b""
os.pwrite(kept, b"ours", 0)
assert os.pread(other_kept, 100, 0) == b"ours"
seen += [entry.name for entry in listing]
assert sorted(seen) == [f"{i:05}" for i in range(3000)], len(seen)
# Locks are had still, and waited for still; also by who waited when the volume changed hands.
assert not got, got
for fd, lock in ((os.open(f"{b}/locked", os.O_RDWR), lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)),):
    try: lock(fd); raise SystemExit("a lock is lost")
    except OSError as error: assert error.errno in (errno.EAGAIN, errno.EACCES), error
fcntl.flock(theirs, fcntl.LOCK_UN)
waiting[0].join(20)
assert got == ["theirs"], got
fcntl.flock(whole, fcntl.LOCK_UN)
waiting[1].join(20)
assert got == ["theirs", "whole"], got
fcntl.lockf(locked, fcntl.LOCK_UN)
for fd in (kept, unlinked, temporary, log, locked, whole): os.close(fd)
print(f"{rounds} rounds, {compared} comparisons, longest pause {longest:.2f} s")
P
timeout 240 python3 "$WORK/program.py" "$A" "$B" "$WORK/said" >"$WORK/program.log" 2>&1 &
PROGRAM=$!
await() { within 60 sh -c "test -e '$WORK/said.$1' || ! kill -0 $PROGRAM" && [ -e "$WORK/said.$1" ] || die "not $1: $(tail -n 5 "$WORK/program.log" "$WORK"/?.log)"; }
await ready
join_machine b
: >"$WORK/said.joined"
await working

say "the first coordinator hands over"
handover "$(name_of b)" >"$WORK/handover.log" 2>&1 || die "$(cat "$WORK/handover.log"; tail -n 5 "$WORK"/?.log)"
within 30 coordinates b || die "b does not coordinate"
: >"$WORK/said.handed"
wait "$PROGRAM" || die "a program sees it: $(tail -n 5 "$WORK/program.log" "$WORK"/?.log)"
cat "$WORK/program.log"

say "it is a member now, takes the place again, and ends like any other"
"$BRICKCTL" explain --json "$A" | grep '"sharing": *"member"' >/dev/null || die "a does not say that it is a member"
handover "$(name_of a)" >"$WORK/handover.log" 2>&1 || die "$(cat "$WORK/handover.log"; tail -n 5 "$WORK"/?.log)"
within 30 coordinates a || die "a does not coordinate"
echo back >"$A/back"
[ "$(timeout 20 cat "$B/back")" = back ] || die "b does not see it"
kill -9 "$(machine_pid a)"
umount -l "$A"
timeout 60 sh -c "echo on >'$B/on'" || die "b does not go on: $(tail -n 3 "$WORK/b.log")"
[ "$(find "$B" -name '[0-9]*' -type f ! -path '*/listed/*' | wc -l)" = "$FILES" ] || die "files are lost"
leave_machine b
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
