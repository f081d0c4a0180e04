"""Holes of files that are stored to through a live mapping: mapped_holes.py DIRECTORY copies | holes | away DIRECTORY BRICKD | ended DIRECTORY BRICKD BRICKFS."""
import errno
import mmap
import os
import re
import select
import signal
import subprocess
import sys
import time

SIZE = 16 << 20
PAGE = 4096
# Else all is data: with writeback, and before Linux 6.16 where the kernel may have pages.
TOLD_HOLES = os.environ.get("BRICKFS_WRITEBACK", "off") == "off" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 16)
CROWD = 40  # more than threads serve a mount


def mapped(path, size=SIZE):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(fd, size)
    mapping = mmap.mmap(fd, size)
    os.close(fd)  # the mapping alone keeps it open
    return mapping


def store(mapping, places):
    for at in places:
        mapping[at:at + 8] = b"%08d" % (at % 10**8)


def copies(directory):
    """A backup by another process has what was stored, before anybody has synced it."""
    for name, places in {"few": [5 << 20, 12 << 20], "ends": [0, SIZE - 8], "many": range(0, SIZE, 1 << 17), "all": range(0, SIZE, PAGE)}.items():
        path = os.path.join(directory, name)
        for program in (["cp", "--sparse=auto", path, path + ".copy"], ["sh", "-c", f"tar -C {directory} -cSf - {name} | tar -xOf - >{path}.copy"], ["cp", "--sparse=always", path, path + ".copy"]):
            mapping = mapped(path)
            store(mapping, places)
            subprocess.run(program, check=True)
            with open(path + ".copy", "rb") as copy:
                assert copy.read() == mapping[:], (name, program)
            store(mapping, [places[0] + 16])  # still live
            mapping.close()
            os.unlink(path + ".copy")
        os.unlink(path)


def data_map(path):
    """[begin, end) of all data of the file, as another process is told."""
    fd = os.open(path, os.O_RDONLY)
    try:
        found, at = [], 0
        while True:
            begin = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, begin, os.SEEK_HOLE)
            found.append((begin, at))
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return found
    finally:
        os.close(fd)


def holes(directory):
    """What nobody stored to is a hole still, also where it has been read, or is mapped and open for writing."""
    path = os.path.join(directory, "holes")
    mapping = mapped(path)
    assert mapping[:].count(0) == SIZE  # all pages are in the kernel's cache
    found = data_map(path)
    assert found == ([] if TOLD_HOLES else [(0, SIZE)]), found
    places = [5 << 20, 12 << 20, SIZE - PAGE]
    store(mapping, places)
    found = data_map(path)
    if TOLD_HOLES:
        assert all(any(begin <= at < end for begin, end in found) for at in places), found
        assert sum(end - begin for begin, end in found) < SIZE // 4, found
    mapping.close()
    os.unlink(path)


def seeker(path, at, start, told):
    pid = os.fork()
    if pid:
        return pid
    mapping = mapped(path)
    store(mapping, [at])
    other = os.open(path, os.O_RDONLY)
    os.read(start, 1)
    os.write(told, b"+" if os.lseek(other, 0, os.SEEK_DATA) <= at and os.lseek(other, at, os.SEEK_HOLE) > at else b"-")
    signal.pause()


def seekers(directory, during):
    """Many look for data that a brick that is away has not got: all are told at once that it is data."""
    (start, begin), (told, tell) = os.pipe(), os.pipe()
    pids = [seeker(os.path.join(directory, f"seek{i}"), (i + 1) * PAGE, start, tell) for i in range(CROWD)]
    time.sleep(0.5)
    try:
        during(lambda: os.write(begin, bytes(CROWD)))
        answers, until = b"", time.monotonic() + 10
        while len(answers) < CROWD and select.select([told], [], [], max(0, until - time.monotonic()))[0]:
            answers += os.read(told, CROWD)
        assert answers == b"+" * CROWD, answers
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


def away(directory, brickd):
    def during(look):
        os.kill(int(brickd), signal.SIGSTOP)
        look()
    try:
        seekers(directory, during)
        began = time.monotonic()
        os.statvfs(directory)
        took = time.monotonic() - began
        assert took < 10, f"nobody serves the mount: {took:.1f} s"
    finally:
        os.kill(int(brickd), signal.SIGCONT)


def ended(directory, brickd, brickfs):
    """Also while brickfs is told to end."""
    def during(look):
        os.kill(int(brickd), signal.SIGSTOP)
        look()
        os.kill(int(brickfs), signal.SIGTERM)
    try:
        seekers(directory, during)
    finally:
        os.kill(int(brickd), signal.SIGCONT)


if __name__ == "__main__":
    {"copies": copies, "holes": holes, "away": away, "ended": ended}[sys.argv[1]](*sys.argv[2:])
