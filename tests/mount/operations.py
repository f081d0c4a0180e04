#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operation of a regular file system, by its system call: operations.py DIR, an empty directory on the mount.

Prints the operations that answer wrongly; exit 1 if any does. Only as root.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import re
import socket
import stat
import struct
import sys
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
KERNEL_ASKS_FOR_BIRTH = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 6)  # FUSE_STATX
# Else all is data: with writeback, and before Linux 6.16 where the kernel may have pages.
TOLD_HOLES = os.environ.get("BRICKFS_WRITEBACK", "off") == "off" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 16)
AT_SYMLINK_FOLLOW = 0x400
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO_RANGE, FALLOC_COLLAPSE_RANGE = 1, 2, 16, 8


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def renameat2(old, new, flags):
    checked(libc.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags))


def fallocate(fd, mode, offset, length):
    checked(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def birth_time(path):
    """stx_btime in nanoseconds, from statx(2)."""
    out = ctypes.create_string_buffer(256)
    checked(libc.statx(AT_FDCWD, path.encode(), 0, 0xFFF, out))
    mask, = struct.unpack_from("I", out, 0)
    assert mask & 0x800, "statx tells no birth time"
    seconds, nanoseconds = struct.unpack_from("qI", out, 0x50)
    return seconds * 10**9 + nanoseconds


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def fails(code, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except OSError as error:
        assert error.errno == code, f"{errno.errorcode[error.errno]} instead of {errno.errorcode[code]}"
        return
    raise AssertionError(f"succeeds instead of {errno.errorcode[code]}")


def names():
    write_file("a", b"one")
    assert not os.path.exists("b")  # a name that is not there is remembered as such
    os.rename("a", "b")
    assert not os.path.exists("a") and read_file("b") == b"one"
    write_file("c", b"two")
    fails(errno.EEXIST, renameat2, "b", "c", RENAME_NOREPLACE)
    renameat2("b", "c", RENAME_EXCHANGE)
    assert read_file("b") == b"two" and read_file("c") == b"one"
    renameat2("b", "d", RENAME_NOREPLACE)
    fails(errno.EINVAL, renameat2, "d", "e", RENAME_WHITEOUT | RENAME_EXCHANGE)
    os.mkdir("dir")
    os.mkdir("dir/sub")
    fails(errno.ENOTEMPTY, os.rmdir, "dir")
    fails(errno.EINVAL, os.rename, "dir", "dir/sub/below")
    fails(errno.EISDIR, os.rename, "c", "dir")
    fails(errno.ENOTDIR, os.rename, "dir", "c")
    fails(errno.ENAMETOOLONG, write_file, "n" * 256, b"")
    write_file("n" * 255, b"longest")
    assert "n" * 255 in os.listdir(".")


def link_counts():
    os.mkdir("dir")
    assert os.stat("dir").st_nlink == 2
    os.mkdir("dir/sub")
    os.mkdir("other")
    assert os.stat("dir").st_nlink == 3
    os.rename("dir/sub", "other/sub")
    assert os.stat("dir").st_nlink == 2 and os.stat("other").st_nlink == 3
    os.rmdir("other/sub")
    assert os.stat("other").st_nlink == 2
    write_file("file", b"x")
    before = os.stat("file").st_ctime_ns
    time.sleep(0.02)
    os.link("file", "file2")
    assert os.stat("file").st_nlink == 2 and os.stat("file").st_ctime_ns > before
    os.unlink("file")
    assert os.stat("file2").st_nlink == 1
    write_file("over", b"y")
    os.link("over", "over2")
    os.rename("file2", "over")
    assert os.stat("over2").st_nlink == 1 and read_file("over") == b"x"
    fails(errno.EPERM, os.link, "dir", "dir2")


def symlinks_and_special_files():
    os.symlink("t" * 4095, "longest")
    assert os.readlink("longest") == "t" * 4095 and os.lstat("longest").st_size == 4095
    os.symlink("target", "link")
    write_file("target", b"there")
    assert read_file("link") == b"there"
    os.mkfifo("fifo", 0o640)
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert os.stat("null").st_rdev == os.makedev(1, 3)
    assert os.read(os.open("null", os.O_RDONLY), 1) == b""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert stat.S_ISSOCK(os.stat("socket").st_mode)


def unlinked_but_open():
    with open("file", "w+b") as file:
        file.write(b"still here")
        file.flush()
        os.unlink("file")
        assert os.fstat(file.fileno()).st_nlink == 0
        file.seek(0)
        assert file.read() == b"still here"


def temporary_files():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"nameless")
    assert os.fstat(fd).st_nlink == 0 and os.listdir(".") == []
    checked(libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"named", AT_SYMLINK_FOLLOW))
    assert os.fstat(fd).st_nlink == 1
    os.close(fd)
    assert read_file("named") == b"nameless"
    os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))


def attributes():
    write_file("file", b"x")
    os.utime("file", ns=(123456789, 1700000000123456789))
    found = os.stat("file")
    assert found.st_atime_ns == 123456789 and found.st_mtime_ns == 1700000000123456789
    os.utime("file", ns=(-5, -1500000001))
    assert os.stat("file").st_mtime_ns == -1500000001
    born = birth_time("file") if KERNEL_ASKS_FOR_BIRTH else None
    assert born is None or abs(born - time.time_ns()) < 60 * 10**9
    os.chmod("file", 0o4711)
    assert born is None or birth_time("file") == born
    assert stat.S_IMODE(os.stat("file").st_mode) == 0o4711
    os.chown("file", 1000, 1000)
    found = os.stat("file")
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1000, 1000, 0o711)
    old = os.umask(0o027)
    os.mkdir("dir", 0o777)
    os.umask(old)
    assert stat.S_IMODE(os.stat("dir").st_mode) == 0o750
    os.chown("dir", 0, 1000)
    os.chmod("dir", 0o2775)
    os.mkdir("dir/sub")
    write_file("dir/file", b"")
    assert os.stat("dir/sub").st_gid == 1000 and os.stat("dir/sub").st_mode & stat.S_ISGID
    assert os.stat("dir/file").st_gid == 1000


def times_follow_changes():
    write_file("file", b"x")
    first = os.stat("file")
    time.sleep(0.02)
    with open("file", "ab") as file:
        file.write(b"y")
        file.flush()
        second = os.stat("file")
    assert second.st_mtime_ns > first.st_mtime_ns and second.st_size == 2
    directory = os.stat(".").st_mtime_ns
    time.sleep(0.02)
    os.unlink("file")
    assert os.stat(".").st_mtime_ns > directory
    directory = os.stat(".").st_mtime_ns
    time.sleep(0.02)
    write_file("file", b"")
    assert os.stat(".").st_mtime_ns > directory


def as_user(uid, call):
    """In a child with another user's rights; its failure is ours."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            call()
            os._exit(0)
        except BaseException:  # whatever it is, the parent tells
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "in the other user's process"


def set_uid_is_cleared():
    # The caller must get at the mount: only with allow_other.
    write_file("program", b"#!/bin/sh\n")
    fd = os.open("program", os.O_RDWR)
    os.fchmod(fd, 0o6777)
    as_user(1234, lambda: os.write(fd, b"#"))
    assert stat.S_IMODE(os.stat("program").st_mode) == 0o777, oct(os.stat("program").st_mode)
    os.fchmod(fd, 0o6777)
    os.write(fd, b"#")
    assert stat.S_IMODE(os.stat("program").st_mode) == 0o6777
    as_user(1234, lambda: os.ftruncate(fd, 3))
    assert stat.S_IMODE(os.stat("program").st_mode) == 0o777
    os.close(fd)


def xattrs():
    write_file("file", b"")
    os.setxattr("file", "user.small", b"1")
    os.setxattr("file", "user.large", b"v" * 60000)
    os.setxattr("file", "trusted.t", b"")
    assert sorted(os.listxattr("file")) == ["trusted.t", "user.large", "user.small"]
    assert os.getxattr("file", "user.large") == b"v" * 60000 and os.getxattr("file", "trusted.t") == b""
    fails(errno.EEXIST, os.setxattr, "file", "user.small", b"2", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, "file", "user.none", b"2", os.XATTR_REPLACE)
    os.removexattr("file", "user.small")
    fails(errno.ENODATA, os.getxattr, "file", "user.small")


def data():
    blob = os.urandom(3 * 1024 * 1024 + 123)
    write_file("file", blob)
    assert read_file("file") == blob
    fd = os.open("file", os.O_RDWR)
    os.pwrite(fd, b"MIDDLE", 1_000_003)
    os.ftruncate(fd, 2_000_000)
    os.ftruncate(fd, 2_500_000)
    blob = blob[:1_000_003] + b"MIDDLE" + blob[1_000_009:2_000_000] + bytes(500_000)
    assert os.pread(fd, 3_000_000, 0) == blob
    os.close(fd)
    with open("file", "wb") as file:
        assert os.fstat(file.fileno()).st_size == 0
    for _ in range(3):
        fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(fd, b"line\n")
        os.close(fd)
    assert read_file("log") == b"line\n" * 3
    fd = os.open("sync", os.O_WRONLY | os.O_SYNC | os.O_CREAT, 0o644)
    os.write(fd, b"s" * 10000)
    os.fdatasync(fd)
    os.close(fd)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def direct_data():
    buffer = mmap.mmap(-1, 4 * 1024 * 1024)  # aligned
    buffer.write(os.urandom(len(buffer)))
    fd = os.open("file", os.O_RDWR | os.O_DIRECT | os.O_CREAT, 0o644)
    assert os.write(fd, buffer) == len(buffer)
    assert os.pwrite(fd, memoryview(buffer)[:4096], 8192) == 4096
    back = mmap.mmap(-1, len(buffer))
    assert os.preadv(fd, [back], 0) == len(buffer)
    os.close(fd)
    expected = buffer[:8192] + buffer[:4096] + buffer[12288:]
    assert back[:] == expected and read_file("file") == expected


def mapped_data():
    write_file("file", bytes(100_000))
    with open("file", "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as shared:
            shared[50_000:50_004] = b"mmap"
            assert os.pread(file.fileno(), 4, 50_000) == b"mmap"
            shared.flush()
            os.pwrite(file.fileno(), b"write", 10)
            assert shared[10:15] == b"write"
            shared[99_999:] = b"!"
    assert read_file("file")[50_000:50_004] == b"mmap" and read_file("file")[-1:] == b"!"


def sparse_files():
    fd = os.open("sparse", os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, b"data", 1 << 40)
    assert os.fstat(fd).st_size == (1 << 40) + 4 and os.fstat(fd).st_blocks * 512 <= 64 * 1024
    if TOLD_HOLES:
        assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 40 and os.lseek(fd, 0, os.SEEK_HOLE) == 0
    assert os.lseek(fd, 1 << 40, os.SEEK_HOLE) == (1 << 40) + 4
    fails(errno.ENXIO, os.lseek, fd, (1 << 40) + 4, os.SEEK_DATA)
    assert os.pread(fd, 8, (1 << 40) - 4) == bytes(4) + b"data"
    os.ftruncate(fd, (1 << 63) - 1)
    assert os.fstat(fd).st_size == (1 << 63) - 1
    assert os.pread(fd, 4, (1 << 63) - 5) == bytes(4)
    os.close(fd)


def fallocated_ranges():
    fd = os.open("file", os.O_RDWR | os.O_CREAT, 0o644)
    fallocate(fd, 0, 0, 100_000)
    assert os.fstat(fd).st_size == 100_000 and os.fstat(fd).st_blocks * 512 >= 100_000
    assert os.pread(fd, 200_000, 0) == bytes(100_000)
    fallocate(fd, FALLOC_KEEP_SIZE, 0, 1 << 20)
    assert os.fstat(fd).st_size == 100_000
    os.pwrite(fd, b"x" * 100_000, 0)
    fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 5000, 20_000)
    expected = b"x" * 5000 + bytes(20_000) + b"x" * 75_000
    assert os.pread(fd, 100_000, 0) == expected and os.lseek(fd, 8192, os.SEEK_DATA) >= (24_576 if TOLD_HOLES else 8192)
    fallocate(fd, FALLOC_ZERO_RANGE, 50_000, 10_000)
    assert os.pread(fd, 10_002, 49_999) == b"x" + bytes(10_000) + b"x"
    fails(errno.EOPNOTSUPP, fallocate, fd, FALLOC_COLLAPSE_RANGE, 0, 4096)
    os.close(fd)


def copied_ranges():
    blob = os.urandom(5_000_000)
    write_file("from", blob)
    source, target = os.open("from", os.O_RDONLY), os.open("to", os.O_WRONLY | os.O_CREAT, 0o644)
    done = 0
    while done < len(blob) - 77:
        done += os.copy_file_range(source, target, len(blob), done + 77, done)
    os.close(source)
    os.close(target)
    assert read_file("to") == blob[77:]


def locks():
    first, second = os.open("lock", os.O_RDWR | os.O_CREAT), os.open("lock", os.O_RDWR)
    fcntl.flock(first, fcntl.LOCK_EX)
    fails(errno.EAGAIN, fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(first, fcntl.LOCK_UN)
    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fcntl.lockf(first, fcntl.LOCK_EX, 10, 0)
    child = os.fork()
    if child == 0:
        try:
            fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "a byte range can be locked twice"
    os.close(first)
    os.close(second)


def directories():
    os.mkdir("many")
    wanted = {f"entry-{i:05}" for i in range(3000)}
    for name in wanted:
        os.mknod("many/" + name)
    assert set(os.listdir("many")) == wanted
    assert {entry.name for entry in os.scandir("many") if entry.is_file(follow_symlinks=False)} == wanted
    seen = set()
    with os.scandir("many") as entries:  # removed while they are read: each is seen once, none is left
        for entry in entries:
            assert entry.name not in seen
            seen.add(entry.name)
            os.unlink(entry.path)
    assert seen == wanted and os.listdir("many") == []
    os.rmdir("many")
    assert os.listdir(".") == []


def space():
    """A member tells a little later of what it has open no more: what was removed before comes free meanwhile."""
    for number in range(5):
        before = os.statvfs(".")
        assert before.f_frsize == 4096 and before.f_namemax == 255 and before.f_files > 0
        write_file(f"file{number}", os.urandom(8 << 20))
        os.sync()
        used = before.f_bfree - os.statvfs(".").f_bfree
        if 2048 <= used <= 2560:
            return
        time.sleep(1)
    raise AssertionError(f"8 MiB take {used} units")


def odd_requests():
    write_file("file", b"")
    fails(errno.ENOTTY, fcntl.ioctl, os.open("file", os.O_RDONLY), 0x80086601, b"\0" * 8)
    fails(errno.ENOTDIR, os.open, "file/below", os.O_RDONLY)
    fails(errno.ENOENT, os.unlink, "none")
    fails(errno.ENOTDIR, os.rmdir, "file")


def main():
    os.chdir(sys.argv[1])
    wrong = 0
    for check in (names, link_counts, symlinks_and_special_files, unlinked_but_open, temporary_files, attributes,
                  times_follow_changes, set_uid_is_cleared, xattrs, data, direct_data, mapped_data, sparse_files,
                  fallocated_ranges, copied_ranges, locks, directories, space, odd_requests):
        os.mkdir(check.__name__)
        os.chdir(check.__name__)
        try:
            check()
        except Exception:  # go on: tell all that is wrong
            wrong += 1
            print(f"{check.__name__}:", file=sys.stderr)
            traceback.print_exc()
        os.chdir(sys.argv[1])
    sys.exit(1 if wrong else 0)


main()
