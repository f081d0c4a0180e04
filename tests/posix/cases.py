#!/usr/bin/env python3
"""Single cases on a mounted brickfs that random calls do not reach.   cases.py DIR"""
import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.opendir.argtypes = [ctypes.c_char_p]
libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
NAME_AT = 19  # of struct dirent


def fails_with(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except OSError as error:
        assert error.errno == code, f"{errno.errorcode[error.errno]} instead of {errno.errorcode[code]}"
        return
    raise AssertionError(f"succeeds instead of {errno.errorcode[code]}")


def touch(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


class Stream:
    def __init__(self, path):
        self.stream = libc.opendir(path.encode())
        assert self.stream

    def next(self):
        entry = libc.readdir(self.stream)
        return ctypes.string_at(entry + NAME_AT).decode() if entry else None

    def tell(self):
        return libc.telldir(self.stream)

    def seek(self, offset):
        libc.seekdir(self.stream, offset)

    def close(self):
        libc.closedir(self.stream)


def stable_entries_are_listed_once(root):
    """Of a directory that changes while it is read: what stays is listed, once."""
    os.mkdir(f"{root}/d")
    for i in range(3000):
        touch(f"{root}/d/stays{i}")
    done = threading.Event()

    def churn():
        i = 0
        while not done.is_set():
            touch(f"{root}/d/comes{i % 200}")
            os.unlink(f"{root}/d/comes{i % 200}")
            i += 1

    churner = threading.Thread(target=churn)
    churner.start()
    try:
        for _ in range(5):
            names = [name for name in os.listdir(f"{root}/d") if name.startswith("stays")]
            assert len(names) == len(set(names)) == 3000, f"{len(names)} names, {len(set(names))} different"
    finally:
        done.set()
        churner.join()


def removing_while_reading_leaves_nothing_out(root):
    os.mkdir(f"{root}/d")
    for i in range(5000):
        touch(f"{root}/d/{i}")
    stream = Stream(f"{root}/d")
    seen = 0
    while (name := stream.next()) is not None:
        if name not in (".", ".."):
            os.unlink(f"{root}/d/{name}")
            seen += 1
    stream.close()
    assert seen == 5000 and os.listdir(f"{root}/d") == [], f"{seen} of 5000"


def a_listing_ends_though_names_keep_coming(root):
    """Renaming what is listed, or making a name for each, makes new ones; who reads again from the start finds them."""
    for plus in (False, True):
        os.mkdir(f"{root}/d{plus}")
        os.chdir(f"{root}/d{plus}")
        for i in range(2000):
            touch(str(i))
        stream = Stream(".")
        seen = []
        while (name := stream.next()) is not None and len(seen) < 20000:
            if name in (".", ".."):
                continue
            seen.append(name)
            if plus:  # has the kernel ask for attributes, too
                os.stat(name)
                touch(f"new-{len(seen)}")
            os.rename(name, "TMP")
            os.rename("TMP", name)
        assert len(seen) == len(set(seen)) == 2000, f"{len(seen)} names, {len(set(seen))} different"
        stream.seek(0)
        again = 0
        while stream.next() is not None:
            again += 1
        assert again == 2002 + (2000 if plus else 0), f"{again} names from the start"
        stream.close()
        os.chdir("/")


def reading_without_atime(root):
    """O_NOATIME: neither the file nor the directory is stamped."""
    os.mkdir(f"{root}/d")
    touch(f"{root}/d/name")
    with open(f"{root}/file", "wb") as file:
        file.write(bytes(100000))
    old = (1_000_000_000, 1_000_000_000)
    for path, read in ((f"{root}/file", lambda fd: os.pread(fd, 100000, 0)), (f"{root}/d", os.listdir)):
        for flags, stamped in ((os.O_NOATIME, False), (0, True)):
            if os.path.isdir(path):  # what the kernel has is not read from us
                touch(f"{path}/{flags}")
            os.utime(path, ns=(old[0], old[1]))
            fd = os.open(path, os.O_RDONLY | flags)
            if not os.path.isdir(path):
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            read(fd)
            os.close(fd)
            changed = os.stat(path).st_atime_ns != old[0]
            assert changed == stamped, f"{path}: read with {flags:#o}, atime {'changed' if changed else 'stays'}"


def places_in_a_directory_can_be_returned_to(root):
    os.mkdir(f"{root}/d")
    for i in range(2000):
        touch(f"{root}/d/{i}")
    stream = Stream(f"{root}/d")
    places = []
    while True:
        place = stream.tell()
        name = stream.next()
        if name is None:
            break
        places.append((place, name))
    assert len(places) == 2002
    for place, name in places[::37] + places[::-41]:
        stream.seek(place)
        assert stream.next() == name
    stream.close()


def many_entries(root):
    os.mkdir(f"{root}/d")
    for i in range(30000):
        os.symlink("x", f"{root}/d/{i}")
    assert len(os.listdir(f"{root}/d")) == 30000
    with os.scandir(f"{root}/d") as entries:
        assert all(entry.is_symlink() for entry in entries)


def running_program_is_busy(root):
    path = f"{root}/program"
    shutil.copy("/bin/sleep", path)
    with subprocess.Popen([path, "30"]) as process:
        fails_with(errno.ETXTBSY, os.open, path, os.O_WRONLY)
        fails_with(errno.ETXTBSY, os.truncate, path, 0)
        process.kill()
    with open(path, "ab"):
        fails_with(errno.ETXTBSY, subprocess.run, [path, "0"], check=True)


def collapse_and_insert_are_refused(root):
    path = f"{root}/file"
    with open(path, "wb") as file:
        file.write(b"x" * 16384)
    fd = os.open(path, os.O_RDWR)
    for mode in (0x08, 0x20):
        ctypes.set_errno(0)
        assert libc.fallocate(fd, mode, ctypes.c_long(4096), ctypes.c_long(4096)) == -1
        assert ctypes.get_errno() == errno.EOPNOTSUPP
    os.close(fd)
    assert os.path.getsize(path) == 16384


def big_offsets(root):
    path = f"{root}/file"
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    os.pwrite(fd, b"end", 2**62)
    assert os.fstat(fd).st_size == 2**62 + 3
    assert os.lseek(fd, 0, os.SEEK_DATA) == (2**62 if os.environ.get("BRICKFS_WRITEBACK", "off") == "off" else 0)
    assert os.pread(fd, 3, 2**62) == b"end"
    os.ftruncate(fd, 0)
    fails_with(errno.EINVAL, os.ftruncate, fd, -1)
    os.close(fd)


def open_file_outlives_its_name_and_its_directory(root):
    os.mkdir(f"{root}/d")
    fd = os.open(f"{root}/d/file", os.O_CREAT | os.O_RDWR, 0o600)
    directory = os.open(f"{root}/d", os.O_RDONLY)
    os.unlink(f"{root}/d/file")
    os.rmdir(f"{root}/d")
    os.write(fd, b"still here")
    assert os.pread(fd, 99, 0) == b"still here" and os.fstat(fd).st_nlink == 0
    fails_with(errno.ENOENT, os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=directory)
    os.close(fd)
    os.close(directory)


def main():
    for number, case in enumerate([stable_entries_are_listed_once, removing_while_reading_leaves_nothing_out, a_listing_ends_though_names_keep_coming,
                                   places_in_a_directory_can_be_returned_to, many_entries, reading_without_atime,
                                   running_program_is_busy, collapse_and_insert_are_refused, big_offsets, open_file_outlives_its_name_and_its_directory]):
        root = f"{sys.argv[1]}/case{number}"
        os.mkdir(root)
        print(f"   {case.__name__.replace('_', ' ')}", flush=True)
        case(root)
        shutil.rmtree(root)


main()
