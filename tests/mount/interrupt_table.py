#!/usr/bin/env python3
"""interrupt_table.py prepare DIR | table DIR | check DIR | under_way DIR BRICKD | crowd DIR | one_by_one DIR BRICKD | kills DIR SECONDS | writeback DIR BRICKD

What waits for a brick that is away is ended by a signal within a second: one process for each kind of operation and each of the signals,
all at a time, each on a file of its own. `table` is run while the brick is away; it leaves one reader that nobody signals, whose answer `check`,
run when the brick is back, waits for. `under_way`: many small requests at a time, as the brick is stopped. `crowd`, while the brick is away: requests
of one CPU, more than threads serve it, then some more, which are killed; then all are. `one_by_one`: of a few small requests under way as the brick is stopped
one is killed. `kills`, while the brick is well: loads are killed in a row. `writeback`: who waits for pages that a mapping made dirty is not ended by a signal;
nothing is lost. Signals: three whose default is to kill, and one that the process handles (then the call fails, EINTR). A timer's, as databases have them all the time, end nothing.
"""
import ctypes, mmap, os, signal, sys, threading, time

SIZE = 1 << 20
LIMIT_S = 1.0
SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "handled": signal.SIGINT}
OLD, NEW = b"o", b"n"


class Told(Exception):
    pass


def aligned(length, fill):
    memory = mmap.mmap(-1, length)
    memory.write(fill * length)
    return memory


def direct(path, flags):
    return os.open(path, flags | os.O_DIRECT)


def read_direct(path):
    os.preadv(direct(path, os.O_RDONLY), [aligned(4096, b"\0")], 8192)


def read_direct_large(path):
    os.preadv(direct(path, os.O_RDONLY), [aligned(SIZE, b"\0")], 0)


def read_buffered(path):
    os.pread(os.open(path, os.O_RDONLY), 4096, 16384)


def read_mapped(path):
    with mmap.mmap(os.open(path, os.O_RDONLY), SIZE, prot=mmap.PROT_READ) as memory:
        memory[200000]


def write_direct(path):
    os.pwritev(direct(path, os.O_RDWR), [aligned(4096, NEW)], 8192)


def write_direct_large(path):
    os.pwritev(direct(path, os.O_RDWR), [aligned(SIZE, NEW)], 0)


def write_buffered(path):
    os.pwrite(os.open(path, os.O_RDWR), NEW * 100, 5000)


def write_synchronous(path):
    os.pwrite(os.open(path, os.O_RDWR | os.O_SYNC), NEW * 4096, 4096)


def append(path):
    os.write(os.open(path, os.O_WRONLY | os.O_APPEND), NEW * 10000)


def append_direct(path):
    os.writev(direct(path, os.O_WRONLY | os.O_APPEND), [aligned(65536, NEW)])


def fsync(path):
    os.fsync(os.open(path, os.O_RDWR))


def fdatasync(path):
    os.fdatasync(os.open(path, os.O_RDWR))


def extend(path):
    os.truncate(path, 2 * SIZE)


def copy_range(path):
    os.copy_file_range(os.open(path, os.O_RDONLY), os.open(path + ".copy", os.O_WRONLY | os.O_CREAT), SIZE)


def create_until_told(path):
    while True:
        os.close(os.open(path + ".many", os.O_WRONLY | os.O_CREAT))
        os.unlink(path + ".many")


def write_behind_another(path):
    """Waits for the range that the process before it writes to."""
    write_direct_large(path.replace("write_behind_another", "write_direct_large"))


OPERATIONS = [read_direct, read_direct_large, read_buffered, read_mapped, write_direct, write_direct_large, write_buffered, write_synchronous,
              append, append_direct, fsync, fdatasync, extend, copy_range, create_until_told, write_behind_another]
HANDLED_BY_PAGE_FAULT = {"read_mapped"}  # a fault is not ended by a signal that is handled: on no file system


def path_of(directory, operation, name):
    return os.path.join(directory, f"{operation.__name__}.{name}")


def cases(directory):
    for operation in OPERATIONS:
        for name in SIGNALS:
            if name != "handled" or operation.__name__ not in HANDLED_BY_PAGE_FAULT:
                yield operation, name, path_of(directory, operation, name)


def prepare(directory):
    paths = [path for _, _, path in cases(directory)] + [os.path.join(directory, "reader")]
    for path in paths:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(fd, OLD * (SIZE - 100))
        if not path.split("/")[-1].startswith("extend"):
            os.write(fd, OLD * 100)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def tell(*_):
    raise Told


def child(operation, name, path):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if name == "handled":
        signal.signal(SIGNALS[name], tell)
    code = 1
    try:
        operation(path)
        code = 0
    except Told:
        code = 42
    except InterruptedError:
        code = 43
    except OSError as error:
        print(f"{operation.__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(code)


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/wchan") as where:
            return f"state {stat.read().rsplit(')', 1)[1].split()[0]} in {where.read()}"
    except OSError:
        return "gone"


def ended(running, ends, seconds):
    """Until all have ended or the time is over; when and how each did."""
    began = time.monotonic()
    while running.keys() - ends.keys() and time.monotonic() - began < seconds:
        for pid in running.keys() - ends.keys():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ends[pid] = (time.monotonic() - began, os.waitstatus_to_exitcode(status))
        time.sleep(0.005)


def start_reader(directory):
    """Nobody tells it to end, but it is a program with a timer and without a loop around its calls (os.* would have one)."""
    if os.fork() == 0:
        os.setsid()
        libc = ctypes.CDLL(None, use_errno=True)

        def call(function, *arguments):
            if function(*arguments) < 0:
                raise OSError(ctypes.get_errno(), f"{function.__name__}: {os.strerror(ctypes.get_errno())}")

        signal.signal(signal.SIGALRM, lambda *_: None)
        with open(os.path.join(directory, "..", "reader.out"), "w") as out:
            try:
                fd = os.open(os.path.join(directory, "reader"), os.O_RDWR)
                signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
                call(libc.pread, fd, ctypes.create_string_buffer(4096), 4096, ctypes.c_int64(0))
                call(libc.pwrite, fd, OLD * 100, 100, ctypes.c_int64(5000))
                call(libc.fdatasync, fd)
                out.write("read")
            except OSError as error:
                out.write(f"failed: {error}")
        os._exit(0)


def table(directory):
    limit = LIMIT_S * float(os.environ.get("INTERRUPT_SLOWNESS", "1"))
    start_reader(directory)
    running = {}
    for operation, name, path in cases(directory):
        pid = os.fork()
        if pid == 0:
            child(operation, name, path)
        running[pid] = (operation.__name__, name)
    early = {}
    ended(running, early, float(os.environ.get("INTERRUPT_AFTER", "1.5")))
    wrong = [f"{running[pid][0]} does not wait (exit {code})" for pid, (_, code) in early.items()]
    waiting = {pid: case for pid, case in running.items() if pid not in early}
    for pid, (_, name) in waiting.items():
        os.kill(pid, SIGNALS[name])
    ends = {}
    ended(waiting, ends, limit)
    for pid, (operation, name) in waiting.items():
        expected = 42 if name == "handled" else -SIGNALS[name]
        if pid not in ends:
            wrong.append(f"{operation} x {name}: {state_of(pid)} after {limit} s")
        elif ends[pid][1] != expected:
            wrong.append(f"{operation} x {name}: exit {ends[pid][1]}, not {expected}")
    late = {}
    ended({pid: case for pid, case in waiting.items() if pid not in ends}, late, 20)
    for pid, (seconds, code) in late.items():
        wrong.append(f"  {' x '.join(waiting[pid])} ended after {limit + seconds:.1f} s, exit {code}")
    times = sorted(seconds for seconds, _ in ends.values())
    if times:
        print(f"   {len(times)} of {len(waiting)} ended, half in {times[len(times) // 2]:.2f} s, the last in {times[-1]:.2f} s")
    if os.path.exists(os.path.join(directory, "..", "reader.out")) and os.path.getsize(os.path.join(directory, "..", "reader.out")):
        wrong.append("the reader that nobody told to end has ended")
    if wrong:
        sys.exit("\n".join(wrong))


def check(directory):
    """What was synced is there; bytes that were being written over are old or new."""
    out = os.path.join(directory, "..", "reader.out")
    deadline = time.monotonic() + 30
    while os.path.getsize(out) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    with open(out) as said:
        if said.read() != "read":
            sys.exit("the reader that waited for the brick failed")
    os.unlink(out)
    for operation, _, path in cases(directory):
        with open(path, "rb") as file:
            content = file.read()
        name = operation.__name__
        allowed = OLD + (NEW if "write" in name or "append" in name else b"") + (b"\0" if name == "extend" else b"")
        size = SIZE - 100 if name == "extend" else SIZE
        if len(content) < size or content.strip(allowed):
            sys.exit(f"{path}: {len(content)} bytes, others than were written: {content.strip(allowed)[:20]!r}")
        if not set(content[:size]) <= set(OLD + (NEW if "write" in name else b"")):
            sys.exit(f"{path}: what was synced is not there")


def loop(path, counts, i):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fd = direct(path, os.O_RDWR)
    memory = aligned(4096, OLD)
    while True:
        os.preadv(fd, [memory], (i * 37 + counts[i]) % 200 * 4096)
        if i % 3 == 0:
            os.pwritev(fd, [memory], i * 4096)
        counts[i] = (counts[i] + 1) % 251


def under_way(directory, brickd):
    """Each on a file of its own: of several writers of one file, all but one wait for a lock of the kernel's, which no signal ends."""
    loops = 32
    files = [path for _, _, path in cases(directory)]
    counts = mmap.mmap(-1, loops)
    pids = []
    for i in range(loops):
        pid = os.fork()
        if pid == 0:
            loop(files[i], counts, i)
        pids.append(pid)
    time.sleep(1)
    os.kill(int(brickd), signal.SIGSTOP)
    time.sleep(1)
    names = ["INT", "TERM", "KILL"]
    told = {pid: names[i % 3] for i, pid in enumerate(pids) if i % 2 == 0}
    for pid, name in told.items():
        os.kill(pid, SIGNALS[name])
    ends = {}
    ended(told, ends, LIMIT_S * float(os.environ.get("INTERRUPT_SLOWNESS", "1")))
    wrong = [f"a small request x {name}: {state_of(pid)}" for pid, name in told.items() if pid not in ends]
    before = counts[:]
    os.kill(int(brickd), signal.SIGCONT)
    deadline = time.monotonic() + 20
    others = [i for i in range(loops) if i % 2 == 1]
    while [i for i in others if counts[i] == before[i]] and time.monotonic() < deadline:
        time.sleep(0.01)
    wrong += [f"process {i}, which nobody told to end, does not go on" for i in others if counts[i] == before[i]]
    for i in others:
        done, status = os.waitpid(pids[i], os.WNOHANG)
        if done:
            wrong.append(f"process {i}, which nobody told to end, ended with {status}")
        else:
            os.kill(pids[i], signal.SIGKILL)
    if ends:
        print(f"   {len(ends)} of {len(told)} ended, the last in {max(seconds for seconds, _ in ends.values()):.2f} s")
    if wrong:
        sys.exit("\n".join(wrong))


def started(cases):
    """One process for each (operation, path)."""
    running = {}
    for operation, path in cases:
        pid = os.fork()
        if pid == 0:
            child(operation, "KILL", path)
        running[pid] = operation.__name__
    return running


def all_killed(running, what):
    limit = LIMIT_S * float(os.environ.get("INTERRUPT_SLOWNESS", "1"))
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    ends = {}
    ended(running, ends, limit)
    wrong = [f"{what}: {running[pid]}: {state_of(pid)} after {limit} s" for pid in running if pid not in ends]
    wrong += [f"{what}: {running[pid]}: exit {code}" for pid, (_, code) in ends.items() if code != -signal.SIGKILL]
    print(f"   {what}: {len(ends)} of {len(running)} ended, the last in {max([seconds for seconds, _ in ends.values()], default=0):.2f} s")
    return wrong


def crowd(directory):
    """The kernel has a queue for each CPU over io_uring: all on one."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    files = [path for _, _, path in cases(directory)]
    first = started([(read_direct, path) for path in files[:30]])
    time.sleep(1.5)
    behind = started([(operation, path) for path in files[30:36] for operation in (read_direct, write_direct)])
    time.sleep(2)
    wrong = all_killed(behind, "behind 30 others")
    kinds = [read_direct, write_direct, fsync, fdatasync, copy_range, append_direct, read_direct_large]
    more = started([(kinds[i % len(kinds)], path) for i, path in enumerate(files)])
    time.sleep(1)
    wrong += all_killed(first | more, "all of a crowd")
    if wrong:
        sys.exit("\n".join(wrong))


def one_by_one(directory, brickd):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    files = [path for _, _, path in cases(directory)]
    counts = mmap.mmap(-1, 8)
    pids = []
    for i in range(8):
        pid = os.fork()
        if pid == 0:
            loop(files[i], counts, i)
        pids.append(pid)
    wrong = []
    for pid in pids[:4]:
        time.sleep(0.5)
        os.kill(int(brickd), signal.SIGSTOP)
        time.sleep(2)
        wrong += all_killed({pid: "loop"}, "one of those under way")
        os.kill(int(brickd), signal.SIGCONT)
        before = counts[:]
        deadline = time.monotonic() + 20
        while counts[7] == before[7] and time.monotonic() < deadline:
            time.sleep(0.01)
    for pid in pids[4:]:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if wrong:
        sys.exit("\n".join(wrong))


def syncing(path):
    fd = os.open(path, os.O_RDWR)
    while True:
        os.pwrite(fd, OLD * 100, 0)
        os.fsync(fd)


def kills(directory, seconds):
    """As a thread ends, brickfs looks at its signals."""
    files = [path for _, _, path in cases(directory)]
    until = time.monotonic() + float(seconds)
    killed = 0
    while time.monotonic() < until:
        pids = []
        for i in range(3):
            pid = os.fork()
            if pid == 0:
                for path in files[i * 16:i * 16 + 15]:
                    threading.Thread(target=syncing, args=(path,)).start()
                syncing(files[i * 16 + 15])
            pids.append(pid)
        for pid in pids:
            time.sleep(0.01 + killed % 7 / 500)
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
        killed += len(pids)
        os.stat(directory)
    print(f"   {killed} processes of 16 threads killed")


def dirty_and_sync(path, at):
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, SIZE) as memory:
        memory[at:at + 4096] = NEW * 4096
        os.kill(os.getpid(), signal.SIGSTOP)
        os.fsync(fd)


def writeback(directory, brickd):
    path = path_of(directory, write_buffered, "KILL")
    pids = []
    for at in (0, 65536):
        pid = os.fork()
        if pid == 0:
            dirty_and_sync(path, at)
            os._exit(0)
        os.waitpid(pid, os.WUNTRACED)
        pids.append(pid)
    os.kill(int(brickd), signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    os.kill(pids[0], signal.SIGKILL)
    ends = {}
    ended({pid: "fsync" for pid in pids}, ends, 1.5)
    print(f"   of a page that a mapping made dirty: {[state_of(pid) for pid in pids if pid not in ends]}")
    wrong = all_killed(started([(read_direct, path_of(directory, read_direct, "KILL"))]), "beside them")
    os.kill(int(brickd), signal.SIGCONT)
    ended({pid: "fsync" for pid in pids}, ends, 20)
    if [ends.get(pid, (0, "none"))[1] for pid in pids] != [-signal.SIGKILL, 0]:
        wrong.append(f"exits when the brick is back: {ends}")
    with open(path, "rb") as file:
        content = file.read()
    if content[:4096] != NEW * 4096 or content[65536:65536 + 4096] != NEW * 4096:
        wrong.append("what a mapping had written is lost")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    commands = {"prepare": prepare, "table": table, "check": check, "under_way": under_way, "crowd": crowd, "one_by_one": one_by_one, "kills": kills,
                "writeback": writeback}
    commands[sys.argv[1]](*sys.argv[2:])
