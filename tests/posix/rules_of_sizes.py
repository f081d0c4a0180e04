"""Rules about sizes and ranges: RLIMIT_FSIZE, fallocate, SEEK_DATA and SEEK_HOLE."""
import ctypes
import itertools
import mmap
import os
import resource
import signal

from rule_calls import ROOT, answer, as_user, libc, look, make, raw, remove


def size_limits():
    """RLIMIT_FSIZE, by every way a file gets longer, and its signal."""
    def with_limit(action, limit=10240):
        def attempt():
            signals = []
            signal.signal(signal.SIGXFSZ, lambda number, frame: signals.append(number))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            text = answer(action)
            return f"{text}, {len(signals)} signals, {os.stat('x').st_size}"
        return as_user(ROOT, attempt)

    def file(flags, action):
        fd = os.open("x", flags | os.O_CREAT, 0o644)
        try:
            return action(fd)
        finally:
            os.close(fd)

    aligned = mmap.mmap(-1, 16384)
    actions = {
        "write_over": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x" * 5000, 8000)), "write_at": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x", 10000)), "write_up_to": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x" * 2000, 8000)),
        "write_behind": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x", 20000)), "write_nothing": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"", 20000)), "append": lambda: file(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x" * 5000)),
        "truncate": lambda: os.truncate("x", 10001), "truncate_up_to": lambda: os.truncate("x", 10000), "ftruncate": lambda: file(os.O_WRONLY, lambda fd: os.ftruncate(fd, 50000)), "shorten": lambda: os.truncate("long", 15000),
        "allocate_up_to": lambda: file(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 10000)), "direct": lambda: file(os.O_WRONLY | os.O_DIRECT, lambda fd: os.pwrite(fd, memoryview(aligned)[:8192], 4096)),
        "sendfile": lambda: file(os.O_WRONLY, lambda fd: os.sendfile(fd, os.open("long", os.O_RDONLY), 0, 20000)), "copy": lambda: file(os.O_WRONLY, lambda fd: os.copy_file_range(os.open("long", os.O_RDONLY), fd, 20000)),
    }
    for name, action in actions.items():
        make("x", "file")
        with open("long", "wb") as long:
            long.write(b"y" * 20000)
        yield f"{name}: {with_limit(action)} {look('long')}"
        remove("x")
        remove("long")


def layouts():
    """fallocate in all its modes, on files, pipes and directories, opened in all ways; SEEK_DATA and SEEK_HOLE at the edges."""
    modes = {"plain": 0, "keep": 1, "punch": 3, "punch_alone": 2, "collapse": 8, "zero": 16, "zero_keep": 17, "insert": 32, "unshare": 64, "unknown": 128, "collapse_keep": 9, "punch_zero": 19}
    for (name, mode), (start, length), flags in itertools.product(modes.items(), ((0, 4096), (0, 0), (-1, 10), (4096, -5), (100, 50), (2**62, 2**62), (8192, 4096), (0, 100000)), (os.O_RDWR, os.O_WRONLY, os.O_RDONLY, os.O_RDWR | os.O_APPEND)):
        if name in ("collapse", "insert") and flags != os.O_RDONLY and start >= 0 and length > 0:
            continue  # docs/posix.md
        if start == 2**62:
            continue
        with open("x", "wb") as file:
            file.write(b"x" * 9000)
        fd = os.open("x", flags)
        text = answer(raw, libc.fallocate, fd, mode, ctypes.c_long(start), ctypes.c_long(length))
        os.close(fd)
        with open("x", "rb") as file:
            contents = file.read()
        yield f"{name} {start} {length} {flags:o}: {text}; {len(contents)} {contents.count(b'x')} {os.stat('x').st_blocks if length < 9999 and name in ('punch', 'plain') else ''}"
    for kind in ("directory", "fifo"):
        make("y", kind)
        fd = os.open("y", os.O_RDONLY if kind == "directory" else os.O_RDWR | os.O_NONBLOCK)
        for name, mode in modes.items():
            yield f"{name} of {kind}: {answer(raw, libc.fallocate, fd, mode, ctypes.c_long(0), ctypes.c_long(4096))}"
        yield f"ftruncate of {kind}: {answer(os.ftruncate, fd, 0)} {answer(os.fsync, fd)} {answer(os.fdatasync, fd)} {answer(os.read, fd, 1)} {answer(os.pread, fd, 1, 0)} {answer(os.posix_fadvise, fd, 0, 0, 0)}"
        os.close(fd)
        remove("y")
    fd = os.open("x", os.O_RDWR | os.O_TRUNC)
    os.pwrite(fd, b"a" * 4096, 8192)
    os.pwrite(fd, b"b", 40000)
    for whence, offset in itertools.product((os.SEEK_DATA, os.SEEK_HOLE), (0, 1, 8191, 8192, 8193, 12287, 12288, 36863, 36864, 40000, 40001, 50000, -1, 2**63 - 1)):
        yield f"seek {whence} {offset}: {answer(os.lseek, fd, offset, whence)}"
    os.close(fd)
