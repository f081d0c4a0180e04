"""Files on a mount with the kernel's write-back cache: writeback.py PART DIRECTORY."""
import errno
import json
import os
import subprocess
import sys

MEGABYTE = bytes(1 << 20)
MANY = 4096  # more than the volume holds


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
    """What has been written and not written back is data to whoever looks for data, as when a file is copied meanwhile: all is."""
    fd = opened(directory, "seek")
    os.pwrite(fd, b"x" * 10000, 1 << 20)
    other = os.open(os.path.join(directory, "seek"), os.O_RDONLY)
    assert os.lseek(other, 0, os.SEEK_DATA) == 0
    assert os.lseek(other, 0, os.SEEK_HOLE) == (1 << 20) + 10000
    assert os.pread(other, 10000, 1 << 20) == b"x" * 10000


def near(directory, brickctl):
    """Near the end of a volume, who writes a little at a time is asked and held up no more than elsewhere, until the last of it."""
    def questions():
        stats = json.loads(subprocess.run([brickctl, "stats", directory, "--json"], check=True, capture_output=True).stdout)
        return sum(operation["count"] for operation in stats["operations"] if operation["name"] == "getattr")

    free = lambda: (lambda stat: stat.f_bavail * stat.f_frsize)(os.statvfs(directory))
    filling = opened(directory, "filling")
    while free() > 12 << 20:
        os.write(filling, MEGABYTE)
        os.fsync(filling)
    fd = opened(directory, "near")
    before = questions()
    for i in range(1024):
        os.write(fd, b"%04d" % i * 1024)
        if i == 0:
            os.fsync(fd)  # what is written back is what brings questions
    asked = questions() - before
    os.fsync(fd)
    assert free() > 4 << 20 and asked < 200, (free(), asked)
    with open(os.path.join(directory, "near"), "rb") as file:
        assert file.read() == b"".join(b"%04d" % i * 1024 for i in range(1024))
    for name in ("filling", "near"):
        os.unlink(os.path.join(directory, name))


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
    {"probe": probe, "seek": seek, "near": near, "endless": endless, "over": over}[sys.argv[1]](*sys.argv[2:])
