"""Files on a mount with the kernel's write-back cache: writeback.py PART DIRECTORY, or away DIRECTORY BRICKD SECONDS."""
import errno
import os
import random
import select
import signal
import struct
import sys
import time

MEGABYTE = bytes(1 << 20)
MANY = 4096  # more than the volume holds
CROWD = 40  # more than threads serve a mount, fewer than may wait at a time
SWITCH = "/sys/module/fuse/parameters/enable_uring"
OVER_IO_URING = os.environ.get("BRICKFS_IO_URING") == "on" or os.path.exists(SWITCH) and open(SWITCH).read().startswith("Y")
FEWEST = 1 if OVER_IO_URING else CROWD - 4  # who wait; the others are told EINVAL
AT_ONCE = {errno.EINVAL, 0}  # told to who does not wait; 0: the kernel has written his pages back before, as it may at any time


def code_of(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0


def opened(directory, name, flags=0):
    return os.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT | flags, 0o644)


def probe(directory):
    """Exit 0: what is written stays in the kernel's cache, so that no blocks are taken yet."""
    fd = opened(directory, "probe")
    os.write(fd, b"kept")
    blocks = os.fstat(fd).st_blocks
    os.unlink(os.path.join(directory, "probe"))
    sys.exit(0 if blocks == 0 else 1)


def seek(directory):
    """What has been written and not written back is data to whoever looks for data, as when a file is copied meanwhile."""
    fd = opened(directory, "seek")
    os.pwrite(fd, b"x" * 10000, 1 << 20)
    other = os.open(os.path.join(directory, "seek"), os.O_RDONLY)
    assert os.lseek(other, 0, os.SEEK_DATA) == 1 << 20
    assert os.lseek(other, 1 << 20, os.SEEK_HOLE) == (1 << 20) + 10000
    assert os.pread(other, 10000, 1 << 20) == b"x" * 10000


def seeker(directory, name, start, told):
    """A process that looks for data that it has just written, once `start` is readable, and tells the errno. SIGINT ends that alone: the end
    of a process waits for its pages, too."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGINT, lambda *_: None)
    at = random.randrange(1, 100) << 12
    fd = opened(directory, name, os.O_TRUNC)
    os.pwrite(fd, b"x" * 10000, at)
    os.read(start, 1)
    try:
        code = 0 if os.lseek(fd, 0, os.SEEK_DATA) == at else -1
    except OSError as error:
        code = error.errno
    os.write(told, struct.pack("ii", os.getpid(), code))
    os._exit(0)


class Seekers:
    """All have written."""

    def __init__(self, directory, count):
        start, self.begin = os.pipe()
        self.told, told = os.pipe()
        self.pids = [seeker(directory, f"seek{i}", start, told) for i in range(count)]
        time.sleep(0.5)

    def look(self):
        os.write(self.begin, bytes(len(self.pids)))

    def answers(self, count, seconds):
        """So many at most, by pid, that come within that time."""
        codes = {}
        until = time.monotonic() + seconds
        while len(codes) < count and select.select([self.told], [], [], max(0, until - time.monotonic()))[0]:
            pid, code = struct.unpack("ii", os.read(self.told, 8))
            codes[pid] = code
        return codes


def crowd(directory):
    """More look for data at a time than threads serve the mount, which have to write it back first."""
    seekers = Seekers(directory, CROWD)
    seekers.look()
    codes = seekers.answers(CROWD, 20)
    found = list(codes.values()).count(0)
    refused = list(codes.values()).count(errno.EINVAL)
    assert found >= (FEWEST if OVER_IO_URING else CROWD) and found + refused == CROWD, (len(codes), codes)


def away(directory, brickd, seconds):
    """Who looks for data while the brick is away waits for as long as it takes, or for a signal. Others are served."""
    seekers = Seekers(directory, CROWD)
    os.kill(int(brickd), signal.SIGSTOP)
    try:
        seekers.look()
        answered = seekers.answers(CROWD, 2)
        assert set(answered.values()) <= AT_ONCE, f"there are no pages at the brick: {answered}"
        waiting = [pid for pid in seekers.pids if pid not in answered]
        assert len(waiting) >= FEWEST, len(waiting)
        interrupted = waiting[:(len(waiting) + 1) // 2]
        for pid in interrupted:
            os.kill(pid, signal.SIGINT)
        codes = seekers.answers(len(interrupted), 3)
        assert codes == dict.fromkeys(interrupted, errno.EINTR), (len(codes), codes)
        began = time.monotonic()
        os.statvfs(directory)
        assert time.monotonic() - began < 1, "nobody serves the mount"
        codes = seekers.answers(1, float(seconds))
        assert not codes, f"it did not wait: {codes}"
    finally:
        os.kill(int(brickd), signal.SIGCONT)
    rest = len(waiting) - len(interrupted)
    codes = seekers.answers(rest, 30)
    assert list(codes.values()) == [0] * rest, (rest, codes)


def ended(directory, brickd, brickfs):
    """Who looks for data while brickfs is told to end is let go at once, and then goes on as where no holes are known."""
    seekers = Seekers(directory, CROWD)
    os.kill(int(brickd), signal.SIGSTOP)
    try:
        seekers.look()
        time.sleep(1)
        os.kill(int(brickfs), signal.SIGTERM)
        codes = seekers.answers(CROWD, 2)
        told = list(codes.values())
        assert len(told) == CROWD and told.count(errno.EINVAL) >= FEWEST and set(told) <= AT_ONCE, (len(codes), codes)
    finally:
        os.kill(int(brickd), signal.SIGCONT)


def soft(directory, brickd, seconds):
    """With `timeo` of so many seconds nobody waits for longer, however many others wait."""
    seekers = Seekers(directory, CROWD)
    os.kill(int(brickd), signal.SIGSTOP)
    try:
        seekers.look()
        codes = seekers.answers(CROWD, float(seconds) + 3)
        told = [code for code in codes.values() if code not in AT_ONCE]
        assert len(codes) == CROWD and len(told) >= FEWEST and set(told) == {errno.EIO}, (len(codes), codes)
    finally:
        os.kill(int(brickd), signal.SIGCONT)


def endless(directory):
    """Who writes on and on is told by write(2), by the next one, by fsync, by close."""
    fd = opened(directory, "fill")
    closed, synced = opened(directory, "f1"), opened(directory, "f2")  # a full volume has no new names
    written = 0
    while written < MANY and code_of(os.write, fd, MEGABYTE) == 0:
        written += 1
    assert written < MANY, "written without end"
    assert code_of(os.close, fd) in (0, errno.ENOSPC)
    os.write(closed, MEGABYTE)
    assert code_of(os.close, closed) == errno.ENOSPC
    os.write(synced, MEGABYTE)
    assert code_of(os.fsync, synced) == errno.ENOSPC
    assert code_of(os.write, synced, MEGABYTE) == errno.ENOSPC


def over(directory):
    """On a full volume what is there can be written over, and each file is as long as its writer thinks."""
    fd = opened(directory, "fill")
    size = os.fstat(fd).st_size
    for call in ((os.pwrite, fd, b"x", 0), (os.fsync, fd)):
        assert code_of(*call) in (0, errno.ENOSPC)  # what the last writer was told by close is told here, too
    for i in range(8):
        assert os.pwrite(fd, b"%08d" % i, i * 4096) == 8
    os.fsync(fd)
    assert os.fstat(fd).st_size == size
    print(size)


if __name__ == "__main__":
    {"probe": probe, "seek": seek, "crowd": crowd, "away": away, "ended": ended, "soft": soft, "endless": endless, "over": over}[sys.argv[1]](*sys.argv[2:])
