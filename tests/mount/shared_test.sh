#!/usr/bin/env bash
# One volume on three machines: what one does the others see at once, with everyday tools; locks; what an end of each of them does to the others.
. "$(dirname "$0")/lib.sh"
. "$TESTS/mount/shared_lib.sh"
start_shared_brick 1G
chmod 755 "$WORK"
for machine in a b c; do join_machine "$machine"; done
A=$WORK/a B=$WORK/b C=$WORK/c
grep 'is shared from here' "$WORK/a.log" >/dev/null || die "the first does not coordinate"
grep 'a member of it' "$WORK/c.log" >/dev/null || die "the third is no member"

"$BRICKCTL" explain --json "$A" | python3 -c 'import json, sys; s = json.load(sys.stdin)["state"]; assert s["sharing"] == "coordinator" and s["member_count"] == 2, s' || die "the coordinator does not tell its members"
"$BRICKCTL" explain "$A" | grep 'coordinates 2 member' >/dev/null || die "$("$BRICKCTL" explain "$A")"
"$BRICKCTL" explain "$B" | grep 'member of 127.0.0.1' >/dev/null || die "$("$BRICKCTL" explain "$B")"

if command -v getfattr >/dev/null; then
  [[ "$(getfattr --only-values -n brickfs.link "$B" 2>/dev/null)" == "member of 127.0.0.1"* ]] || die "brickfs.link of a member: $(getfattr -n brickfs.link "$B" 2>&1)"
fi

say "names, attributes and bytes"
for from in $A $B $C; do
  for to in $A $B $C; do
    echo "of $from" >"$from/file"
    [ "$(cat "$to/file")" = "of $from" ] || die "$to does not see what $from wrote"
    mv "$from/file" "$from/moved"
    [ ! -e "$to/file" ] && [ -e "$to/moved" ] || die "$to does not see what $from renamed"
    chmod 600 "$from/moved"
    [ "$(stat -c %a "$to/moved")" = 600 ] || die "$to does not see a mode"
    truncate -s 3 "$from/moved"
    [ "$(cat "$to/moved")" = "of " ] || die "$to does not see a truncation of $from"
    rm "$from/moved"
    [ -z "$(ls "$to")" ] || die "$to sees what $from has removed: $(ls "$to")"
    mkdir -p "$from/d/e"
    [ -d "$to/d/e" ] || die "$to does not see a directory"
    rm -r "$to/d"
    [ ! -e "$from/d" ] || die "$from keeps a directory that $to removed"
  done
done

say "a tree that one writes and the others read, and change"
tree=/usr/include/linux/netfilter
cp -a "$tree" "$B/tree"
[ "$(tree_checksum "$C/tree")" = "$(tree_checksum "$tree")" ] || die "another tree is read"
[ "$(tree_checksum "$A/tree")" = "$(tree_checksum "$tree")" ] || die "another tree is read by who coordinates"
dd if=/dev/urandom of="$A/big" bs=1M count=20 status=none
cmp "$A/big" "$C/big" || die "other bytes"
dd if=/dev/urandom of="$C/big" bs=64k count=40 seek=3 conv=notrunc status=none
cmp "$A/big" "$C/big" || die "who coordinates has old pages"
cmp "$B/big" "$C/big" || die "other bytes at another member"
rm -r "$A/tree" "$C/big"

say "members read from the bricks: the coordinator has no calls of it"
calls_of_members() { "$BRICKCTL" explain --json "$A" | python3 -c 'import json, sys; print(sum(m["calls"] for m in json.load(sys.stdin)["state"]["members"]))'; }
dd if=/dev/urandom of="$A/big" bs=1M count=16 conv=notrunc status=none
calls_for_reading() { local before; before=$(calls_of_members); dd if="$C/big" of=/dev/null bs=4k status=none; echo $(($(calls_of_members) - before)); }
reads_past_the_coordinator() { [ "$(calls_for_reading)" -lt 1000 ]; }
within 20 reads_past_the_coordinator || die "4,096 reads are $(calls_for_reading) calls"
cmp "$A/big" "$C/big" || die "other bytes from the bricks"
python3 - "$A/big" "$C/big" <<'P' || die "a member reads what was there before"
import os, random, sys
a, c = (os.open(path, os.O_RDWR) for path in sys.argv[1:])
for i in range(200):
    at, some = random.randrange(4096) * 4096, os.urandom(4096)
    os.pread(c, 4096, at)
    os.pwrite(a if i % 2 else c, some, at)
    assert os.pread(c, 4096, at) == some, i
os.ftruncate(a, 5000)
assert len(os.pread(c, 1 << 20, 0)) == 5000
P

say "sendfile by a file that was just opened"
python3 - "$A/big" "$C/big" <<'P' || die "sendfile tells what was there before the file was opened"
import os, sys
a, c = os.open(sys.argv[1], os.O_RDWR), sys.argv[2]
def sent(fd, at):
    ours, theirs = os.pipe()
    got = os.read(ours, 4096) if os.sendfile(theirs, fd, at, 4096) else b""
    os.close(ours), os.close(theirs)
    return got
for i in range(100):
    some, size = os.urandom(4096), os.fstat(a).st_size // 4096 * 4096
    os.pwrite(a, some, 0), os.pwrite(a, some, size)
    fd = os.open(c, os.O_RDONLY)
    assert sent(fd, 0) == some and sent(fd, size) == some, i
    os.close(fd)
P

say "the end of a file that another one makes longer all the time"
for way in "$A $C" "$C $A"; do
  python3 - $way <<'P' || die "a file ends before what was said to be its end ($way)"
import multiprocessing, os, sys
here, there = (f"{root}/grows" for root in sys.argv[1:])
open(here, "w").close()
said = multiprocessing.Value("q", 0, lock=False)
def grow():
    file, size = os.open(there, os.O_RDWR), 0
    while True:
        size += 100
        os.pwrite(file, b"x" * 100, size - 100)
        said.value = size
grower = multiprocessing.Process(target=grow, daemon=True)
grower.start()
file, ends = os.open(here, os.O_RDONLY), 0
while ends < 20000:
    known, ends = said.value, ends + 1
    assert (end := os.lseek(file, 0, os.SEEK_END)) >= known, (end, known)
    assert known == 0 or os.pread(file, 200, known - 100)[:100] == b"x" * 100, known
grower.terminate()
grower.join()
P
done
rm "$A/grows"

say "a member that was stopped tells nothing old when it goes on"
python3 - "$A/big" "$C/big" "$(machine_pid c)" <<'P' || die "a member that was stopped tells what was there before"
import os, signal, sys, threading, time
a, c, pid = os.open(sys.argv[1], os.O_RDWR), os.open(sys.argv[2], os.O_RDONLY), int(sys.argv[3])
for i in range(2):
    old, new = os.urandom(4096), os.urandom(4096)
    os.pwrite(a, old, 0)
    for _ in range(100):  # until it is read from memory
        assert os.pread(c, 4096, 0) == old
        time.sleep(0.01)
    os.kill(pid, signal.SIGSTOP)
    try:
        os.pwrite(a, new, 0)
        got = []
        reader = threading.Thread(target=lambda: got.append(os.pread(c, 4096, 0)))
        reader.start()
        reader.join(0.5)
        assert not got, "who is stopped answers"
    finally:
        os.kill(pid, signal.SIGCONT)
    reader.join(60)
    assert got == [new], i
P

say "members write to the bricks, each what the others see"
direct_bytes() { "$BRICKCTL" explain --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"]["direct_write_bytes"])'; }
write_large() { dd if=/dev/urandom of="$1/big" bs=1M count=16 conv=notrunc status=none; }
writes_past_the_coordinator() { write_large "$1" && [ "$(direct_bytes "$1")" -gt $((8 << 20)) ]; }
for machine in $B $C; do within 20 writes_past_the_coordinator "$machine" || die "$(direct_bytes "$machine") bytes of $machine went to the brick"; done
cmp "$A/big" "$C/big" || die "other bytes than a member wrote to the brick"
cmp "$B/big" "$C/big" || die "a member has other bytes than another wrote to the brick"
for i in $(seq 3); do
  write_large "$B"
  sum=$(sha256sum <"$B/big")
  kill_brickd
  restart_brickd
  [ "$(timeout 60 sha256sum <"$A/big")" = "$sum" ] || die "round $i: a brick that died lacks what a member wrote to it"
done

say "a large write of another than root takes set-id bits and capabilities away, and limits hold"
python3 - "$B" "$C" "$BRICKCTL" <<'P' || die "a write to the brick is not as any other"
import errno, json, mmap, os, resource, signal, struct, subprocess, sys, time
b, c, brickctl = sys.argv[1:]
path, seen, MIB = b + "/privileged", c + "/privileged", 1 << 20
capability = struct.pack("<IIIII", 0x02000001, 1 << 12, 0, 0, 0)
bytes_of_pages = mmap.mmap(-1, MIB)  # what is not, the kernel cuts within pages
def direct_bytes():
    said = subprocess.run([brickctl, "explain", "--json", b], stdout=subprocess.PIPE, check=False)  # 4: the brick has just been away
    return json.loads(said.stdout)["state"]["direct_write_bytes"]
def as_nobody(work):
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534), os.setuid(65534)
            work(os.open(path, os.O_WRONLY))
            os._exit(0)
        except BaseException as error: print(repr(error), file=sys.stderr)
        finally: os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
def goes_to_the_brick(work):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with open(path, "wb") as file: file.write(bytes(2 * MIB))
        os.chown(path, 65534, 65534), os.chmod(path, 0o6755), os.setxattr(path, "security.capability", capability)
        assert os.stat(seen).st_mode & 0o6000 == 0o6000 and "security.capability" in os.listxattr(seen)
        before = direct_bytes()
        as_nobody(work)
        if direct_bytes() > before: return
        time.sleep(0.1)
    raise AssertionError("nothing goes to the brick")
def overwrite(fd): assert os.pwrite(fd, bytes_of_pages, MIB) == MIB
def beyond_the_limit(fd):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB + 65536,) * 2)
    assert os.pwrite(fd, bytes_of_pages, 2 * MIB) == 65536
    try: os.pwrite(fd, bytes_of_pages, 2 * MIB + 65536)
    except OSError as error: assert error.errno == errno.EFBIG, error
    else: raise AssertionError("beyond the limit of a process")
for work, size in (overwrite, 2 * MIB), (beyond_the_limit, 2 * MIB + 65536):
    goes_to_the_brick(work)
    now = os.stat(seen)
    assert now.st_mode & 0o7777 == 0o755 and now.st_size == size, (oct(now.st_mode), now.st_size)
    assert "security.capability" not in os.listxattr(seen), "a capability stays"
P
rm "$B/privileged"

say "a brick that dies with what is not committed: a member reads nothing older from it"
for i in $(seq 3); do
  dd if=/dev/urandom of="$A/big" bs=1M count=8 status=none
  cat "$C/big" >/dev/null
  kill_brickd
  restart_brickd
  timeout 60 cmp "$A/big" "$C/big" || die "round $i: older bytes"
done

say "open(O_CREAT) by all at once: each has the file, whoever makes it"
python3 - "$A" "$B" "$C" <<'P' || die "a file that another has just made"
import os, sys, threading
machines, failed = sys.argv[1:], []
for i in range(150):
    start = threading.Barrier(len(machines))
    def make(machine):
        start.wait()
        try: os.close(os.open(f"{machine}/made.{i}", os.O_RDWR | os.O_CREAT))
        except OSError as error: failed.append((machine, i, error))
    running = [threading.Thread(target=make, args=(m,)) for m in machines]
    for one in running: one.start()
    for one in running: one.join()
assert not failed, failed
P
rm "$B"/made.*

say "appended by all at once: no line is lost or torn"
pids=()
for machine in $A $B $C; do
  for i in $(seq 200); do echo "$machine $i" >>"$machine/log"; done &
  pids+=("$!")
done
wait "${pids[@]}"
[ "$(wc -l <"$B/log")" = 600 ] || die "$(wc -l <"$B/log") lines of 600"
[ "$(sort -u "$A/log" | wc -l)" = 600 ] || die "lines are torn"
rm "$A/log"

say "appended by files that stay open, also by several threads at once"
python3 - "$A" "$B" "$C" <<'P' || die "appends are lost"
import fcntl, os, sys, threading
machines, threads, lines = sys.argv[1:], 3, 60
def append(machine, number):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if number else 0)
    fd = os.open(machine + "/open_log", flags)
    if not number: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)  # set later: the kernel does not tell the open of it
    for i in range(lines): os.write(fd, b"%-39s\n" % f"{machine[-1]} {number} {i}".encode())
    os.close(fd)
running = [threading.Thread(target=append, args=(m, n)) for m in machines for n in range(threads)]
for one in running: one.start()
for one in running: one.join()
for machine in machines:
    with open(machine + "/open_log", "rb") as f: got = f.read().split(b"\n")[:-1]
    assert len(got) == len(set(got)) == len(machines) * threads * lines, (machine, len(got), len(set(got)))
P
rm "$B/open_log"

say "listings"
python3 - "$A" "$C" <<'P' || die "an old listing"
import os, sys
a, c = sys.argv[1:]
for here, there in ((a, c), (c, a)):
    os.mkdir(here + "/listed")
    for i in range(50):
        os.listdir(there + "/listed")
        open(f"{here}/listed/{i}", "w").close()
        assert len(os.listdir(there + "/listed")) == i + 1, (here, i)
    for i in range(50): os.unlink(f"{there}/listed/{i}")
    os.rmdir(here + "/listed")
P

say "O_EXCL: one of all"
for i in $(seq 20); do
  won=0 pids=()
  for machine in a b c; do
    (set -o noclobber; { : >"$WORK/$machine/once"; } 2>/dev/null && : >"$WORK/won.$machine") &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || true; done
  for machine in a b c; do [ ! -e "$WORK/won.$machine" ] || won=$((won + 1)); rm -f "$WORK/won.$machine"; done
  [ "$won" = 1 ] || die "$won made the same file"
  rm "$B/once"
done

say "locks"
: >"$A/lock"
pids=()
for machine in $A $B $C; do
  for i in $(seq 15); do
    flock "$machine/lock" sh -c "n=\$(cat '$machine/counter' 2>/dev/null || echo 0); echo \$((n + 1)) >'$machine/counter'" || exit 1
  done &
  pids+=("$!")
done
for pid in "${pids[@]}"; do wait "$pid" || die "a lock fails"; done
[ "$(cat "$B/counter")" = 45 ] || die "the counter says $(cat "$B/counter")"
flock --no-fork "$C/lock" sleep 1000 &
holder=$!; BACKGROUND_PIDS+=("$holder")
within 10 sh -c "! flock -n '$A/lock' true" || die "a member's lock does not hold"
kill "$holder"
flock -w 10 "$A/lock" true || die "a lock stays"

say "programs"
if command -v git >/dev/null; then
  git -C "$B" init -q repo
  cp -r /usr/include/linux/usb "$B/repo/usb"
  git -C "$B/repo" -c user.name=t -c user.email=t@t add -A
  git -C "$C/repo" -c safe.directory='*' -c user.name=t -c user.email=t@t commit -qm one
  git -C "$A/repo" -c safe.directory='*' status --short | grep . && die "git sees changes"
  git -C "$A/repo" -c safe.directory='*' fsck --no-progress || die "git fsck"
fi
python3 - "$A" "$B" <<'P'
import mmap, os, sys
a, b = sys.argv[1:]
with open(a + "/mapped", "wb") as f: f.write(b"." * 8192)
with open(b + "/mapped", "r+b") as f:
    m = mmap.mmap(f.fileno(), 8192)
    m[4096:4101] = b"hello"
    m.flush()
with open(a + "/mapped", "rb") as f:
    assert f.read()[4096:4101] == b"hello", "what was msync'ed is not seen"
P

say "a member that leaves, and one that is killed"
exec 9>"$C/open"; rm "$C/open"; exec 9>&-
leave_machine c
flock --no-fork "$B/lock" sleep 1000 &
holder=$!; BACKGROUND_PIDS+=("$holder")
within 10 sh -c "! flock -n '$A/lock' true" || die "no lock"
kill -9 "$(machine_pid b)"
flock -w 30 "$A/lock" true || die "the lock of a member that died stays"
kill "$holder" 2>/dev/null || true
umount -l "$B"

say "a coordinator that is stopped: who waits can be interrupted, and goes on"
join_machine b
echo before >"$B/stopped"
kill -STOP "$(machine_pid a)"
timeout 1 cat "$B/stopped" >/dev/null && die "somebody answers"
(sleep 0.5; kill -CONT "$(machine_pid a)") &
[ "$(timeout 30 cat "$B/stopped")" = before ] || die "it does not go on"

say "a coordinator that ends: a member takes its place"
leave_machine a
[ "$(timeout 30 cat "$B/stopped")" = before ] || die "it does not go on, or something is lost"
grep 'has taken its place' "$WORK/b.log" >/dev/null || die "its log does not say it"

say "a coordinator that is killed, with its only mount: what it answered for is there, when the next one has taken the volume"
join_machine c "ro"
for i in $(seq 50); do echo "$i" >"$B/answered.$i"; done
kill -9 "$(machine_pid b)"
umount -l "$B"
join_machine b
for i in $(seq 50); do [ "$(cat "$B/answered.$i")" = "$i" ] || die "answer $i is lost"; done
for i in 1 50; do [ "$(timeout 30 cat "$C/answered.$i")" = "$i" ] || die "a read-only member does not come to the next coordinator"; done
leave_machine c
leave_machine b
"$BRICKCTL" check --secret-file "$SHARED_SECRET" "$SOURCE" >"$WORK/check.log" 2>&1 || { cat "$WORK/check.log"; die "damage"; }
