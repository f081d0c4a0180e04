#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks of programs in a directory: fcntl's of ranges (POSIX and open file description ones) and flock's, among processes and open files.

  locks.py DIR [CASE...]        everything; or these cases. The same holds on tmpfs."""

import contextlib
import errno
import fcntl
import os
import pathlib
import signal
import struct
import sys
import time

OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
FLOCK = "hhqqi4x"  # struct flock of 64 bits: type, whence, start, length, pid
PATIENCE = 20
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def lock(file, command, kind, start=0, length=0):
    """As fcntl(2): what the kernel answers."""
    return struct.unpack(FLOCK, fcntl.fcntl(file, command, struct.pack(FLOCK, kind, os.SEEK_SET, start, length, 0)))


def refused(function, *args):
    """The errno, or 0."""
    try:
        function(*args)
    except OSError as error:
        return error.errno
    return 0


def expect(what, found, wanted):
    assert found == wanted, f"{what}: {found!r}, not {wanted!r}"


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR | os.O_CREAT):
    file = os.open(path, flags, 0o644)
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            os.close(file)


class Process:
    """Runs a function, which is given `tell`; what that tells is received here. Killed if it has not ended."""

    def __init__(self, function, *args):
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self.reader)
                function(lambda word: os.write(writer, f"{word}\n".encode()), *args)
                status = 0
            except BaseException as error:  # noqa: BLE001
                os.write(2, f"process: {error!r}\n".encode())
            finally:
                os._exit(status)
        os.close(writer)
        os.set_blocking(self.reader, False)
        self.ended = None

    def hears(self, patience=PATIENCE):
        """The next word; None: there was none in time, or no more will come."""
        word = b""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            try:
                part = os.read(self.reader, 1)
            except BlockingIOError:
                time.sleep(0.002)
                continue
            if part in (b"", b"\n"):
                return word.decode() or None
            word += part
        return None

    def kill(self, number=signal.SIGKILL):
        if self.ended is None:
            os.kill(self.pid, number)

    def end(self, patience=PATIENCE):
        until = time.monotonic() + patience
        while self.ended is None and time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended = status
            else:
                time.sleep(0.002)
        assert self.ended is not None, "a process does not end"
        return self.ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.end()
        os.close(self.reader)


def holds(tell, path, command, kind, start, length):
    """A process that takes a lock, says so and keeps it."""
    with opened(path) as file:
        lock(file, command, kind, start, length)
        tell("has it")
        time.sleep(3600)


def in_another(function, *args):
    """What the function returns in another process, as text."""
    with Process(lambda tell: tell(function(*args))) as process:
        return process.hears()


def try_lock(path, command, kind, start=0, length=0):
    with opened(path) as file:
        return refused(lock, file, command, kind, start, length)


@case
def ranges(path):
    with opened(path) as file:
        lock(file, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 100)
        lock(file, fcntl.F_SETLK, fcntl.F_UNLCK, 40, 20)
        lock(file, fcntl.F_SETLK, fcntl.F_RDLCK, 80, 120)
        for start, kind, wanted in ((0, fcntl.F_RDLCK, errno.EAGAIN), (39, fcntl.F_WRLCK, errno.EAGAIN), (40, fcntl.F_WRLCK, 0), (59, fcntl.F_WRLCK, 0),
                                    (60, fcntl.F_RDLCK, errno.EAGAIN), (80, fcntl.F_RDLCK, 0), (199, fcntl.F_WRLCK, errno.EAGAIN), (200, fcntl.F_WRLCK, 0)):
            expect(f"a lock of byte {start}", in_another(try_lock, path, fcntl.F_SETLK, kind, start, 1), str(wanted))

        def asks():
            with opened(path) as other:
                return lock(other, fcntl.F_GETLK, fcntl.F_WRLCK, 50, 0)

        expect("who has it", in_another(asks), str((fcntl.F_WRLCK, 0, 60, 20, os.getpid())))
        lock(file, fcntl.F_SETLK, fcntl.F_UNLCK)
        expect("who has it", in_another(asks), str((fcntl.F_UNLCK, 0, 50, 0, 0)))


@case
def closing_any_descriptor(path):
    with opened(path) as file:
        lock(file, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 10)
        with opened(path):
            expect("held", in_another(try_lock, path, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1), str(errno.EAGAIN))
        expect("after another descriptor of the file was closed", in_another(try_lock, path, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1), "0")


@case
def open_file_descriptions(path):
    with opened(path) as one, opened(path) as two:
        lock(one, OFD_SETLK, fcntl.F_WRLCK, 0, 10)
        expect("the same process by another open file", refused(lock, two, OFD_SETLK, fcntl.F_RDLCK, 5, 1), errno.EAGAIN)
        expect("against a POSIX lock", refused(lock, two, fcntl.F_SETLK, fcntl.F_RDLCK, 5, 1), errno.EAGAIN)
        expect("who has it", lock(two, OFD_GETLK, fcntl.F_RDLCK, 5, 1)[:4], (fcntl.F_WRLCK, 0, 0, 10))
        with opened(path):
            pass
        expect("after another was closed", refused(lock, two, OFD_SETLK, fcntl.F_RDLCK, 5, 1), errno.EAGAIN)
        twin = os.dup(one)
        os.close(one)
        expect("while it is open still", refused(lock, two, OFD_SETLK, fcntl.F_RDLCK, 5, 1), errno.EAGAIN)
        os.close(twin)
        expect("after its last close", refused(lock, two, OFD_SETLK, fcntl.F_RDLCK, 5, 1), 0)


@case
def whole_files(path):
    with opened(path) as one, opened(path) as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        expect("exclusive", refused(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB), errno.EAGAIN)
        expect("a range, beside it", in_another(try_lock, path, fcntl.F_SETLK, fcntl.F_WRLCK), "0")
        fcntl.flock(one, fcntl.LOCK_SH)
        expect("shared", refused(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB), 0)
        expect("two readers", refused(fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN)
        fcntl.flock(two, fcntl.LOCK_UN)
        fcntl.flock(one, fcntl.LOCK_EX)
        twin = os.dup(one)
        os.close(one)
        expect("while it is open still", refused(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB), errno.EAGAIN)
        fcntl.flock(twin, fcntl.LOCK_UN)
        expect("unlocked by a duplicate", refused(fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB), 0)
        os.close(twin)


@case
def who_closed_has_let_go(path):
    """A close that has returned, or a process that has ended, has no locks."""

    def takes(_):
        fcntl.flock(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)

    with opened(path):
        pass
    for i in range(100):
        with opened(path) as file:
            expect(f"flock, the {i}th time", refused(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB), 0)
        with opened(path) as file:
            expect(f"an open file's, the {i}th time", refused(lock, file, OFD_SETLK, fcntl.F_WRLCK), 0)
        if i % 5 == 0:
            with Process(takes) as process:
                expect("a process that takes what the last one had", process.end(), 0)


@case
def waiting(path):
    for take, let_go in ((lambda file: lock(file, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 10), lambda file: lock(file, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 10)),
                         (lambda file: lock(file, OFD_SETLKW, fcntl.F_WRLCK, 0, 10), lambda file: lock(file, OFD_SETLK, fcntl.F_UNLCK, 0, 10)),
                         (lambda file: fcntl.flock(file, fcntl.LOCK_EX), lambda file: fcntl.flock(file, fcntl.LOCK_UN))):

        def waits(tell, take=take):
            with opened(path) as file:
                tell("asks")
                take(file)
                tell("has it")

        with opened(path) as file:
            take(file)
            with Process(waits) as process:
                expect("a process", process.hears(), "asks")
                expect("while another has it", process.hears(0.1), None)
                let_go(file)
                expect("when that is over", process.hears(), "has it")


@case
def deadlock(path):
    def second(tell):
        with opened(path) as file:
            lock(file, fcntl.F_SETLK, fcntl.F_WRLCK, 1, 1)
            tell("has the second")
            lock(file, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 1)
            tell("has both")

    with opened(path) as file:
        lock(file, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1)
        with Process(second) as process:
            expect("the other", process.hears(), "has the second")
            expect("while this has the first", process.hears(0.1), None)
            expect("waiting for one who waits", refused(lock, file, fcntl.F_SETLKW, fcntl.F_WRLCK, 1, 1), errno.EDEADLK)
            lock(file, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 1)
            expect("the other", process.hears(), "has both")


@case
def interrupted(path):
    def waits(tell, take):
        def alarm(*_):
            raise InterruptedError

        signal.signal(signal.SIGALRM, alarm)
        with opened(path) as file:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                take(file)
                tell("has it")
            except InterruptedError:
                tell("interrupted")

    with opened(path) as file:
        lock(file, fcntl.F_SETLK, fcntl.F_WRLCK)
        fcntl.flock(file, fcntl.LOCK_EX)
        for take in (lambda file: lock(file, fcntl.F_SETLKW, fcntl.F_RDLCK), lambda file: fcntl.flock(file, fcntl.LOCK_SH)):
            with Process(waits, take) as process:
                expect("by an alarm", process.hears(), "interrupted")
                expect("its end", process.end(), 0)
        with Process(lambda tell: (tell("asks"), holds(tell, path, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 0))) as process:
            expect("a process", process.hears(), "asks")
            expect("while another has it", process.hears(0.1), None)
            process.kill()
            expect("killed while it waits", process.end(5), signal.SIGKILL)
        lock(file, fcntl.F_SETLK, fcntl.F_UNLCK)
        expect("nobody has it", in_another(try_lock, path, fcntl.F_SETLK, fcntl.F_WRLCK), "0")


@case
def killed_holder(path):
    def waits(tell):
        with opened(path) as file:
            tell("asks")
            lock(file, fcntl.F_SETLKW, fcntl.F_WRLCK)
            fcntl.flock(file, fcntl.LOCK_EX)
            tell("has it")

    def has_both(tell):
        with opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            holds(tell, path, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 0)

    with Process(has_both) as holder:
        expect("the holder", holder.hears(), "has it")
        with Process(waits) as waiter:
            expect("another", waiter.hears(), "asks")
            expect("while the first has it", waiter.hears(0.1), None)
            holder.kill()
            expect("when that was killed", waiter.hears(), "has it")


@case
def many_waiters(path, processes=200):
    """So many wait for one lock, and nothing else has to wait for that; each gets it once."""

    def counts(tell):
        with opened(path) as file:
            lock(file, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 1)
            number = int(os.pread(file, 20, 100) or b"0")
            os.pwrite(file, str(number + 1).encode(), 100)
            lock(file, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 1)
            tell("has had it")

    with contextlib.ExitStack() as stack, opened(path) as file:
        os.ftruncate(file, 0)
        lock(file, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1)
        waiters = [stack.enter_context(Process(counts)) for _ in range(processes)]
        time.sleep(0.5)
        begun = time.monotonic()
        for i in range(20):
            other = path.with_name(f"{path.name}.{i}")
            other.write_bytes(bytes(10_000))
            expect("a file beside", other.read_bytes(), bytes(10_000))
            other.unlink()
        assert time.monotonic() - begun < PATIENCE, "others wait, too"
        lock(file, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 1)
        for waiter in waiters:
            expect("one of many", waiter.hears(60), "has had it")
        expect("the count", os.pread(file, 20, 100), str(processes).encode())


@case
def appended(path, processes=4, lines=200):
    """Lines that several processes append are all there, whole, each writer's in order."""

    def appends(_, name):
        with opened(path, os.O_WRONLY | os.O_APPEND) as file:
            for i in range(lines):
                os.write(file, f"{name} {i}\n".encode())

    path.write_bytes(b"")
    with contextlib.ExitStack() as stack:
        for process in [stack.enter_context(Process(appends, name)) for name in range(processes)]:
            expect("a writer's end", process.end(60), 0)
    found = [line.split() for line in path.read_text().splitlines()]
    for name in range(processes):
        expect(f"the lines of {name}", [int(i) for who, i in found if who == str(name)], list(range(lines)))


def main():
    directory = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        print(f"   {name}", flush=True)
        path = directory / f"locked.{name}"
        CASES[name](path)
        path.unlink()


if __name__ == "__main__":
    main()
