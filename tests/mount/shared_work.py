#!/usr/bin/env python3
"""A program of one machine of a shared volume, many beside each other, and who looks at what they were answered.

    shared_work.py work ROOT NAME STOP          until STOP is there: appends to a log that all have, files that are written, renamed and
                                                removed, overwrites, a lock that is never let go of, a file that was unlinked while it was
                                                open, a counter under a lock. Prints its rounds and its longest one, in seconds.
    shared_work.py library SOURCE OPTIONS MACHINE NAME STOP  the same by libbrickfs
    shared_work.py check WORK NAME SECONDS MACHINE...  each machine has its mount at WORK/MACHINE and what its program printed in
                                                WORK/MACHINE.work: all is there, once, and no round took SECONDS. Prints rounds and longest one.
"""
import fcntl
import os
import sys
import time


class Mount:
    """What a program does with the volume: by the mount of its machine."""

    def __init__(self, root):
        self.machine = os.path.basename(root)
        self._root = root

    def open(self, name, flags):
        return os.open(f"{self._root}/{name}", flags, 0o644)

    def rename(self, name, new):
        os.rename(f"{self._root}/{name}", f"{self._root}/{new}")

    def unlink(self, name):
        os.unlink(f"{self._root}/{name}")

    append, pread, pwrite, close = map(staticmethod, (os.write, os.pread, os.pwrite, os.close))

    @staticmethod
    def lock(fd, kind):
        fcntl.lockf(fd, {fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_UNLCK: fcntl.LOCK_UN}[kind])


class Library:
    """The same by libbrickfs: the process is a machine of its own."""

    def __init__(self, source, options, machine):
        import brickfs
        self.machine = machine
        self._fs = brickfs.FileSystem(source, options)
        self.rename, self.unlink = self._fs.rename, self._fs.unlink

    def open(self, name, flags):
        return self._fs.open_flags(name, flags, 0o644)

    @staticmethod
    def append(file, data):
        return file.write_at(data, 0)

    @staticmethod
    def pread(file, length, offset):
        into = bytearray(length)
        return bytes(into[:file.readinto_at(into, offset)])

    @staticmethod
    def pwrite(file, data, offset):
        return file.write_at(data, offset)

    @staticmethod
    def close(file):
        file.close()

    @staticmethod
    def lock(file, kind):
        file.lock(kind)


def work(files, name, stop):
    own_name = f"{name}.{files.machine}"
    log = files.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    counter = files.open(f"{name}.counter", os.O_RDWR | os.O_CREAT)
    own = files.open(f"{own_name}.own", os.O_RDWR | os.O_CREAT)
    files.lock(own, fcntl.F_WRLCK)
    unlinked = files.open(f"{own_name}.unlinked", os.O_RDWR | os.O_CREAT)
    files.unlink(f"{own_name}.unlinked")
    longest, i = 0, 0
    while not os.path.exists(stop):
        began = time.monotonic()
        assert files.append(log, b"%-31s\n" % f"{name} {files.machine} {i}".encode()) == 32
        path = f"{own_name}.{i}"
        made = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        files.pwrite(made, str(i).encode(), 0)
        files.close(made)
        files.rename(path, path + ".kept")
        if i % 3:
            files.unlink(path + ".kept")
        files.pwrite(own, b"%08d" % i, 0)
        files.pwrite(unlinked, b"%08d" % i, 8 * (i % 100))
        assert files.pread(unlinked, 8, 8 * (i % 100)) == b"%08d" % i
        assert files.pread(own, 8, 0) == b"%08d" % i
        longest = max(longest, time.monotonic() - began)
        files.lock(counter, fcntl.F_WRLCK)  # for how long is the others' matter, too
        files.pwrite(counter, b"%08d" % (int(files.pread(counter, 8, 0) or b"0") + 1), 0)
        files.lock(counter, fcntl.F_UNLCK)
        i += 1
    print(i, f"{longest:.2f}", flush=True)


def work_by_mount(root, name, stop):
    work(Mount(root), name, stop)


def work_by_library(source, options, machine, name, stop):
    work(Library(source, options, machine), name, stop)


def check(where, name, most, *machines):
    root, longest, rounds = f"{where}/{machines[0]}", 0, 0
    with open(f"{root}/log") as f:
        lines = [line.split()[1:] for line in f if line.startswith(name + " ")]
    assert len(lines) == len(set(map(tuple, lines))), "a line is there twice"
    there = set(os.listdir(root))
    for machine in machines:
        with open(f"{where}/{machine}.work") as f:
            count, pause = f.read().split()
        count, longest = int(count), max(longest, float(pause))
        rounds += count
        assert [i for who, i in lines if who == machine] == [str(i) for i in range(count)], machine
        kept = {f"{name}.{machine}.{i}.kept" for i in range(0, count, 3)}
        found = {n for n in there if n.startswith(f"{name}.{machine}.") and not n.endswith(".own")}
        assert kept == found, (machine, sorted(kept ^ found)[:5])
        for i in range(0, count, 3):
            assert open(f"{root}/{name}.{machine}.{i}.kept").read() == str(i), i
        assert int(open(f"{root}/{name}.{machine}.own").read()) == count - 1, machine
    counted = int(open(f"{root}/{name}.counter").read())
    assert counted == rounds, (counted, rounds)
    print(f"{rounds} rounds, longest pause {longest:.2f} s")
    assert longest < float(most), longest


{"work": work_by_mount, "library": work_by_library, "check": check}[sys.argv[1]](*sys.argv[2:])
