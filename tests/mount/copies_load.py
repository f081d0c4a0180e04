#!/usr/bin/env python3
"""Files whose every record says what it is, written, overwritten, read uncached and removed, while bricks come and go.

    copies_load.py run DIR LOGDIR SEED [WORKERS]   until SIGTERM; then everything is read once more. Prints the longest waits. Exit 3: an
                                                   operation failed; 4: something else was read than was written
    copies_load.py verify DIR LOGDIR               after a crash: what was synced is there, the rest is old or new

Each worker has a directory and a log of its own: a line before each call, and one behind it.
"""
import multiprocessing
import os
import random
import signal
import sys
import time

RECORD = 4096
LINE = 64


class Wrong(Exception):
    pass


def record(name, index, version):
    return (f"{name} record {index} version {version}".ljust(LINE - 1) + "\n").encode() * (RECORD // LINE)


def version_of(name, index, data):
    """None: it is no version of this record."""
    try:
        version = int(data[:LINE].decode().split()[-1])
    except (ValueError, IndexError, UnicodeDecodeError):
        return None
    return version if data == record(name, index, version) else None


class File:
    def __init__(self, records):
        self.records = records
        self.begun = [0] * records  # versions, 0: not written
        self.done = [0] * records
        self.synced = [0] * records
        self.removal = ""  # begun, done, synced


class Log:
    """What was done to the files of a worker, kept as lines."""

    def __init__(self, path, write):
        self.files = {}
        self.lines = open(path, "a" if write else "r", encoding="utf-8")  # pylint: disable=consider-using-with
        if not write:
            for line in self.lines:
                if line.endswith("\n"):
                    self.apply(line.split())

    def note(self, *words):
        words = [str(word) for word in words]
        self.lines.write(" ".join(words) + "\n")
        self.lines.flush()
        self.apply(words)

    def apply(self, words):
        what, name = words[:2]
        if what == "create":
            self.files[name] = File(int(words[2]))
            return
        file = self.files[name]
        if what in ("write", "wrote"):
            first, count, version = map(int, words[2:])
            versions = file.begun if what == "write" else file.done
            versions[first:first + count] = [version] * count
        elif what == "synced":
            file.synced = list(file.done)
        else:
            file.removal = what


class Worker:
    def __init__(self, directory, log, seed, stop):
        self.directory, self.log, self.random, self.stop = directory, log, random.Random(seed), stop
        self.next_name = 0
        self.version = 0
        self.waits = []
        self.operations = 0

    def timed(self, what, call):
        began = time.monotonic()
        result = call()
        self.operations += 1
        self.waits = sorted(self.waits + [(time.monotonic() - began, what)], reverse=True)[:3]
        return result

    def path(self, name):
        return os.path.join(self.directory, name)

    def names(self):
        return [name for name, file in self.log.files.items() if not file.removal]

    def write(self, name, first, count, flags):
        self.version += 1
        data = b"".join(record(name, index, self.version) for index in range(first, first + count))
        self.log.note("write", name, first, count, self.version)
        descriptor = self.timed("open", lambda: os.open(self.path(name), flags, 0o644))
        try:
            written = 0
            while written < len(data):  # the kernel's requests are smaller than a large write, and may fail in its middle
                written += self.timed("write", lambda: os.pwrite(descriptor, data[written:], first * RECORD + written))
            self.log.note("wrote", name, first, count, self.version)
            if self.random.random() < 0.3:
                self.timed("fsync", lambda: os.fsync(descriptor))
                self.log.note("synced", name)
        finally:
            self.timed("close", lambda: os.close(descriptor))

    def create(self):
        name = f"{os.path.basename(self.directory)}-{self.next_name}"
        self.next_name += 1
        count = self.random.choice([1, 3, 20, 100, 100, 1200])
        self.log.note("create", name, count)
        self.write(name, 0, count, os.O_CREAT | os.O_EXCL | os.O_WRONLY)

    def overwrite(self):
        name = self.random.choice(self.names())
        count = self.log.files[name].records
        first = self.random.randrange(count)
        self.write(name, first, min(count - first, self.random.choice([1, 5, 60])), os.O_WRONLY)

    def remove(self):
        name = self.random.choice(self.names())
        self.log.note("removing", name)
        self.timed("unlink", lambda: os.unlink(self.path(name)))
        self.log.note("removed", name)
        if self.random.random() < 0.2:
            descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
            self.timed("fsync", lambda: os.fsync(descriptor))
            os.close(descriptor)
            self.log.note("removal-synced", name)

    def read(self, name):
        descriptor = self.timed("open", lambda: os.open(self.path(name), os.O_RDONLY))
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            size = self.log.files[name].records * RECORD
            data, part = b"", True
            while part:  # as for writes
                part = self.timed("read", lambda: os.pread(descriptor, size + 1 - len(data), len(data)))
                data += part
        finally:
            os.close(descriptor)
        if len(data) != size:
            raise Wrong(f"{name}: {len(data)} bytes instead of {size}")
        for index, version in enumerate(self.log.files[name].done):
            there = data[index * RECORD:(index + 1) * RECORD]
            if there != record(name, index, version):
                raise Wrong(f"{name}, record {index}: version {version} was written, there is {version_of(name, index, there)}: {there[:LINE]}")

    def run(self):
        os.makedirs(self.directory)
        parent = os.getppid()
        while not self.stop.is_set() and os.getppid() == parent:
            names = len(self.names())
            choice = self.random.random()
            if names < 4 or (choice < 0.2 and names < 25):
                self.create()
            elif choice < 0.55:
                self.overwrite()
            elif choice < 0.65 or names > 20:
                self.remove()
            else:
                self.read(self.random.choice(self.names()))
            time.sleep(0.002)
        for name in self.names():
            self.read(name)


def work(directory, log, seed, stop, results):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker = Worker(directory, Log(log, True), seed, stop)
    status, said = 0, ""
    try:
        worker.run()
    except OSError as error:
        status, said = 3, f"an operation failed: {error}"
    except Wrong as error:
        status, said = 4, str(error)
    results.put((status, said, worker.operations, worker.waits))


def run(directory, logs, seed, workers):
    stop, results = multiprocessing.Event(), multiprocessing.Queue()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    processes = []
    for number in range(workers):
        name = f"w{number}"
        processes.append(multiprocessing.Process(target=work, args=(os.path.join(directory, name), os.path.join(logs, name), seed * 100 + number, stop, results)))
        processes[-1].start()
    worst, operations, waits = 0, 0, []
    for _ in processes:
        status, said, count, longest = results.get()
        if status:
            print(said, file=sys.stderr)
            stop.set()
        worst, operations, waits = max(worst, status), operations + count, waits + longest
    for process in processes:
        process.join()
    print(f"{operations} calls; the longest: " + ", ".join(f"{what} {seconds:.2f} s" for seconds, what in sorted(waits, reverse=True)[:4]))
    sys.exit(worst)


def verify_file(path, name, file):
    """Of what may be there after a crash."""
    try:
        with open(path, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            data = opened.read()
    except FileNotFoundError:
        if not file.removal and any(file.synced):
            raise Wrong(f"{name} was synced, and is not there") from None
        return
    if file.removal == "removal-synced":
        raise Wrong(f"{name} is there, and its removal was synced")
    if len(data) % RECORD or len(data) > file.records * RECORD:
        raise Wrong(f"{name}: {len(data)} bytes, of {file.records * RECORD}")
    for index in range(file.records):
        least, most = file.synced[index], file.begun[index]
        there = data[index * RECORD:(index + 1) * RECORD]
        version = version_of(name, index, there) if there else 0
        if version is None or not least <= version <= most:
            raise Wrong(f"{name}, record {index}: version {least} was synced and {most} begun, there is {version}: {there[:LINE]}")


def verify(directory, logs):
    files = 0
    for worker in sorted(os.listdir(logs)):
        for name, file in Log(os.path.join(logs, worker), False).files.items():
            verify_file(os.path.join(directory, worker, name), name, file)
            files += 1
    print(f"{files} files are as they may be")


def main():
    if len(sys.argv) in (5, 6) and sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) == 6 else 3)
    elif len(sys.argv) == 4 and sys.argv[1] == "verify":
        try:
            verify(*sys.argv[2:])
        except Wrong as error:
            sys.exit(f"copies_load: {error}")
    else:
        sys.exit(__doc__)


main()
