#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run by brickfs-run: what a program does with a file on a mount with rings, and the same with one of another file system. Both have the same
bytes, positions and answers, whoever else has part in a descriptor.
    brickfs_run.py DIRECTORY OTHER_DIRECTORY SECONDS [SEED]"""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SIZE = 4 << 20
directory, other_directory, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 32)
print("seed", seed, flush=True)
rng = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)


def check(condition, *what):
    if not condition:
        print("not so:", *what, file=sys.stderr)
        os._exit(1)


def answer(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return -error.errno


class Pair:
    """The same file here and there."""

    def __init__(self, name, flags=0, size=SIZE):
        content = rng.randbytes(size)
        self.paths = [os.path.join(place, name) for place in (directory, other_directory)]
        self.files = []
        for path in self.paths:
            with open(path, "wb") as file:
                file.write(content)
            self.files.append(os.open(path, os.O_RDWR | (flags if path.startswith(directory) else flags & ~os.O_DIRECT)))
        if not flags & os.O_DIRECT:
            os.fsync(self.files[0])
            os.posix_fadvise(self.files[0], 0, 0, os.POSIX_FADV_DONTNEED)

    def both(self, call, *arguments):
        here, there = (answer(call, file, *arguments) for file in self.files)
        check(here == there, call.__name__, *(result if isinstance(result, int) else len(result or b"") for result in (here, there)))
        return here

    def vectors(self, call, lengths, *arguments):
        results = []
        for file in self.files:
            parts = [bytearray(length) for length in lengths]
            results.append((answer(call, file, parts, *arguments), b"".join(parts)))
        check(results[0] == results[1], call.__name__)

    def step(self):
        offset = rng.randrange(SIZE + 5000)
        length = rng.choice([1, 100, 4096, 8192, 40_000, 200_000])
        kind = rng.randrange(13)
        if kind <= 2:
            self.both(os.pread, length, offset)
        elif kind <= 4:
            self.both(os.pwrite, rng.randbytes(length), min(offset, SIZE - length))
        elif kind == 5:
            self.both(os.pwrite, rng.randbytes(length), offset)
        elif kind == 6:
            self.both(os.lseek, offset, os.SEEK_SET)
            self.both(os.read, length)
        elif kind == 7:
            self.both(os.lseek, offset, os.SEEK_SET)
            self.both(os.write, rng.randbytes(length))
        elif kind == 8:
            self.vectors(os.readv, [length // 3, 0, length // 2])
            self.vectors(os.preadv, [length // 3, 7, length // 2], offset)
        elif kind == 9:
            self.both(os.writev, [rng.randbytes(length // 2), b"", rng.randbytes(5)])
            self.both(os.pwritev, [rng.randbytes(length // 2), rng.randbytes(9)], offset)
        elif kind == 10:
            self.both(os.fsync if rng.random() < 0.5 else os.fdatasync)
        elif kind == 11:
            self.both(os.ftruncate, SIZE)
        else:
            self.both(os.lseek, -rng.randrange(5000), os.SEEK_END)
        self.both(os.lseek, 0, os.SEEK_CUR)

    def same(self):
        size = os.stat(self.paths[1]).st_size
        check(os.stat(self.paths[0]).st_size == size, "size")
        for path in self.paths:
            with open(path, "rb") as file:
                content = file.read()
            check(path == self.paths[0] or content == first, "content of", path)
            first = content

    def close(self):
        self.same()
        for file, path in zip(self.files, self.paths):
            os.close(file)
            os.unlink(path)


def steps(flags):
    pair = Pair("steps", flags)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pair.step()
    pair.close()


def in_child(what):
    child = os.fork()
    if child == 0:
        try:
            what()
        except BaseException as error:
            print("in a child:", repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    check(os.waitpid(child, 0)[1] == 0, "a child")


def processes():
    """Positions that several processes share, and rings that a child has not."""
    pair = Pair("processes", os.O_DIRECT)

    def some():
        for _ in range(60):
            pair.step()

    some()
    for _ in range(5):
        in_child(some)
        rng.seed(rng.randrange(1 << 30))
        some()
    for file in pair.files:
        os.lseek(file, 1000, os.SEEK_SET)
        subprocess.run(["head", "-c", "500"], stdin=file, stdout=subprocess.DEVNULL, check=True)
    pair.both(os.lseek, 0, os.SEEK_CUR)
    for file in pair.files:
        os.lseek(file, 2000, os.SEEK_SET)
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "printf 0123456789; printf abc >&0"], os.environ,
                             file_actions=[(os.POSIX_SPAWN_DUP2, file, 0), (os.POSIX_SPAWN_DUP2, file, 1)])
        check(os.waitpid(pid, 0)[1] == 0, "posix_spawn")
    pair.both(os.lseek, 0, os.SEEK_CUR)
    some()
    for fork in (os.fork, lambda: os.forkpty()[0], libc._Fork):
        share(fork)
    pair.close()


def share(fork):
    """A child and its parent read one file to its end, at one position."""
    path = os.path.join(directory, "share")
    with open(path, "wb") as file:
        file.write(bytes(SIZE // 4))
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for _ in range(40):
        os.read(file, 1)
    os.lseek(file, 0, os.SEEK_SET)
    answers, answers_of_child = os.pipe()
    child = fork()
    taken = 0
    while chunk := os.read(file, 500):
        taken += len(chunk)
    if child == 0:
        os.write(answers_of_child, struct.pack("Q", taken))
        os._exit(0)
    taken += struct.unpack("Q", os.read(answers, 8))[0]
    check(os.waitpid(child, 0)[1] == 0 and taken == SIZE // 4, "parent and child together read", taken, "of", SIZE // 4)
    for descriptor in (file, answers, answers_of_child):
        os.close(descriptor)
    os.unlink(path)


def descriptors():
    """Numbers that come to be other files."""
    pair = Pair("descriptors", os.O_DIRECT)
    for _ in range(60):
        pair.step()
    copies = [os.dup(file) for file in pair.files]
    for file in pair.files:
        os.lseek(file, 77, os.SEEK_SET)
    for copy, file in zip(copies, pair.files):
        check(os.read(copy, 10) == os.pread(file, 10, 77), "dup")
    pair.both(os.lseek, 0, os.SEEK_CUR)
    appends = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 50) for file in pair.files]
    for file in appends:
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    pair.both(os.write, b"at the end")
    pair.both(os.pwrite, b"there, too", 5)
    for file in appends:
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) & ~os.O_APPEND)
    small = Pair("small", 0, 3000)
    for i in range(2):
        os.dup2(small.files[i], pair.files[i])  # the small one by the numbers of the large one
    pair.both(os.pread, 5000, 0)
    pair.both(os.pwrite, b"x" * 10, 100)
    small.same()
    reads = [os.open(path, os.O_RDONLY) for path in pair.paths]
    for i in range(2):
        os.dup2(reads[i], pair.files[i])
    check(pair.both(os.pwrite, b"x", 0) == -errno.EBADF, "a descriptor for reading")
    for i in range(20):  # closed and opened behind the library's back
        for j in range(2):
            libc.syscall(3, pair.files[j])
            check(libc.syscall(257, -100, (small if i % 2 else pair).paths[j].encode(), os.O_RDWR | os.O_CLOEXEC, 0) >= 0, "openat")
        for _ in range(12):
            pair.both(os.pread, 4000, rng.randrange(5000))
            pair.both(os.pwrite, b"yy", rng.randrange(2000))
    for file in copies + appends + reads:
        os.close(file)
    small.close()
    pair.close()


def edges(pair):
    """Memory that ends, or may only be read, in the middle of what is asked for: the bytes before that are moved, or none."""
    libc.mmap.restype = ctypes.c_void_p
    page = 4096
    base = libc.mmap(None, ctypes.c_size_t(5 * page), 3, 0x22, -1, ctypes.c_long(0))  # readable, writable, readable, nothing, readable and writable
    check(libc.mprotect(ctypes.c_void_p(base + 2 * page), ctypes.c_size_t(page), 1) == 0 and libc.mprotect(ctypes.c_void_p(base + 3 * page), ctypes.c_size_t(page), 0) == 0, "mprotect")
    for _ in range(300):
        start = base + rng.randrange(5 * page - 1) if rng.random() < 0.5 else base + rng.randrange(1, 5) * page - rng.randrange(12)
        length = rng.choice([1, 7, 8, 9, 100, page, 3 * page])
        offset = rng.randrange(SIZE - 3 * page)
        call = rng.choice([libc.pread, libc.pwrite])
        results = []
        for file in pair.files:
            for writable in (base, base + page, base + 4 * page):
                ctypes.memset(writable, 7, page)
            moved = call(file, ctypes.c_void_p(start), ctypes.c_size_t(min(length, base + 5 * page - start)), ctypes.c_long(offset))
            whole = start + length <= base + (3 if call == libc.pwrite else 2) * page or start >= base + 4 * page
            results.append(moved if moved < 0 or whole else -1)
            if moved >= 0 and whole and call == libc.pread:
                results.append(ctypes.string_at(base, 3 * page) + ctypes.string_at(base + 4 * page, page))
            if not whole:  # what is moved all the same is not compared
                os.pwrite(file, b"e" * 3 * page, offset)
        half = len(results) // 2
        check(results[:half] == results[half:], "memory that ends", call.__name__, start - base, length, [r for r in results if isinstance(r, int)])
    check(libc.munmap(ctypes.c_void_p(base), ctypes.c_size_t(5 * page)) == 0, "munmap")


def arrays(pair):
    """Arrays of vectors that are not there, or not whole."""
    page = 4096
    base = libc.mmap(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, ctypes.c_long(0))
    check(libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0) == 0, "mprotect")
    bytes_there = ctypes.create_string_buffer(200)
    vector = struct.pack("PN", ctypes.addressof(bytes_there), 100)
    ctypes.memmove(base + page - len(vector), vector, len(vector))
    for call in (libc.readv, libc.writev, libc.preadv, libc.pwritev):
        for at, count in ((8, 1), (base + page, 1), (base + page - 16, 2), (base + page - 8, 1)) * 10:
            ctypes.set_errno(0)
            check(call(pair.files[0], ctypes.c_void_p(at), ctypes.c_int(count), ctypes.c_long(5)) == -1 and ctypes.get_errno() == errno.EFAULT, "EFAULT", call.__name__, at - base, count)
        for file in pair.files:
            check(call(file, ctypes.c_void_p(base + page - 16), ctypes.c_int(1), ctypes.c_long(5)) == 100, "the last of a page", call.__name__)
    check(libc.munmap(ctypes.c_void_p(base), ctypes.c_size_t(2 * page)) == 0, "munmap")


def memory():
    """Mapped memory, and memory that is not there."""
    pair = Pair("memory", os.O_DIRECT)
    maps = [mmap.mmap(file, SIZE) for file in pair.files]
    for _ in range(200):
        offset = rng.randrange(SIZE - 100)
        if rng.random() < 0.5:
            content = rng.randbytes(100)
            for mapped in maps:
                mapped[offset:offset + 100] = content
            pair.both(os.pread, 300, max(offset - 100, 0))
        else:
            pair.both(os.pwrite, rng.randbytes(50), offset)
            check(maps[0][offset:offset + 100] == maps[1][offset:offset + 100], "mapped memory")
    for mapped in maps:
        mapped.close()
    for call in (libc.pread, libc.pwrite):
        for _ in range(30):
            check(call(pair.files[0], ctypes.c_void_p(16), ctypes.c_size_t(100), ctypes.c_long(5)) == -1 and ctypes.get_errno() == errno.EFAULT, "EFAULT")
    edges(pair)
    arrays(pair)
    ctypes.set_errno(77)
    buffer = ctypes.create_string_buffer(100)
    check(libc.pread(pair.files[0], buffer, ctypes.c_size_t(100), ctypes.c_long(5)) == 100 and ctypes.get_errno() == 77, "errno stays")
    pair.close()


def limits():
    pair = Pair("limits", os.O_DIRECT)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE // 2, resource.RLIM_INFINITY))
    for _ in range(40):
        pair.both(os.pwrite, b"z" * 100, SIZE // 2 - 100)
        check(pair.both(os.pwrite, b"z" * 100, SIZE // 2) == -errno.EFBIG, "RLIMIT_FSIZE")
        check(pair.both(os.pwrite, b"z" * 100, SIZE // 2 - 50) == 50, "RLIMIT_FSIZE")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    pair.close()


def signals():
    """A handler that reads while the program reads."""
    pair = Pair("signals", os.O_DIRECT)
    inside = Pair("inside", os.O_DIRECT)
    count = 0

    def handle(*_):
        nonlocal count
        count += 1
        inside.both(os.pread, 1000, (count * 37) % SIZE)
        os.lseek(inside.files[0], 5, os.SEEK_SET)

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pair.step()
    signal.setitimer(signal.ITIMER_REAL, 0)
    check(count > 10, "signals", count)
    inside.close()
    pair.close()


def threads():
    """Each at its part, and all at one position."""
    pair = Pair("threads", os.O_DIRECT)
    here = pair.files[0]

    def part(number):
        own = random.Random(number)
        base = number * (SIZE // 8)
        expected = bytearray(os.pread(here, SIZE // 8, base))
        for _ in range(300):
            at, length = own.randrange(SIZE // 8 - 5000), own.randrange(1, 5000)
            if own.random() < 0.5:
                content = own.randbytes(length)
                os.pwrite(here, content, base + at)
                expected[at:at + length] = content
            check(os.pread(here, length, base + at) == expected[at:at + length], "a thread's part")

    workers = [threading.Thread(target=part, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    os.lseek(here, 0, os.SEEK_SET)
    counts = []

    def take():
        taken = 0
        while chunk := os.read(here, 1000):
            taken += len(chunk)
        counts.append(taken)

    workers = [threading.Thread(target=take) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check(sum(counts) == SIZE, "all threads together read", sum(counts))
    os.pwrite(pair.files[1], os.pread(here, SIZE, 0), 0)
    pair.close()


def confined():
    """A process that may do nothing but what its system calls need."""
    pair = Pair("confined", os.O_DIRECT)
    for _ in range(80):
        pair.step()
    allowed = [0, 1, 60, 231, 17]  # read, write, exit, exit_group, pread64
    program = b"".join([struct.pack("HBBI", 0x20, 0, 0, 0)] + [struct.pack("HBBI", 0x15, len(allowed) - i, 0, number) for i, number in enumerate(allowed)] +
                       [struct.pack("HBBI", 0x06, 0, 0, 0x80000000), struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)])
    code = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    buffer = ctypes.create_string_buffer(1000)
    pread, file = libc.pread, pair.files[0]
    check(libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.create_string_buffer(header), 0, 0) == 0, "seccomp")
    for _ in range(50):
        if pread(file, buffer, ctypes.c_size_t(1000), ctypes.c_long(77)) != 1000:
            libc._exit(1)
    libc._exit(0)


def closed_from():
    """All descriptors that the program does not know are closed, and their numbers taken by others."""
    pair = Pair("closed_from", os.O_DIRECT)
    for _ in range(80):
        pair.step()
    for file in pair.files:
        os.set_inheritable(file, True)
    known = set(pair.files)
    for number in os.listdir("/proc/self/fd"):
        if int(number) > 2 and int(number) not in known:
            libc.syscall(3, int(number))
    others = [os.open(path, os.O_RDWR) for path in pair.paths for _ in range(600)]
    ours, theirs = socket.socketpair()
    for _ in range(200):
        pair.step()
    theirs.setblocking(False)
    check(answer(theirs.recv, 10) == -errno.EAGAIN, "nothing is written where it does not belong")
    for file in others:
        os.close(file)
    ours.close()
    theirs.close()
    pair.close()


resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for flags in (os.O_DIRECT, 0):
    steps(flags)
in_child(closed_from)
in_child(confined)
for part in (processes, descriptors, memory, limits, signals, threads):
    part()
