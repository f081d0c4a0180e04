# SPDX-License-Identifier: Apache-2.0
"""Files and blocks of a brickfs volume, without a mount.

    with brickfs.FileSystem("tcp://host/volume") as fs:
        with fs.open("data/array", "wb") as file:
            file.write(array)

What a path means, and which errors there are, is as in `os`; errors are OSError. docs/library.md tells which way is for whom.
"""

import errno
import io
import operator
import os
import shutil
import stat as _stat

from . import _brickfs
from ._brickfs import BLOCK_BYTES, Buffer, Notice, Volume

__all__ = ["BLOCK_BYTES", "Buffer", "BufferedFile", "File", "FileSystem", "Notice", "Patience", "Volume"]
__version__ = _brickfs.version()

_COPY_BYTES = 1 << 24


def _stat_result(numbers):
    return os.stat_result(numbers[:16], {"st_blksize": numbers[16], "st_blocks": numbers[17], "st_rdev": numbers[18]})


def _offset(number):
    """In a file."""
    number = operator.index(number)
    if not 0 <= number < 1 << 63:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return number


def _nofollow(follow_symlinks):
    return 0 if follow_symlinks else _brickfs.NOFOLLOW


def _flags(mode):
    """Of open(2), for a mode of open()."""
    kinds = [letter for letter in mode if letter in "rwxa"]
    if len(kinds) != 1 or set(mode) - set("rwxab+t"):
        raise ValueError(f"invalid mode: {mode!r}")
    access = os.O_RDWR if "+" in mode else os.O_RDONLY if kinds[0] == "r" else os.O_WRONLY
    return access | {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT | os.O_APPEND}[kinds[0]]


class File(io.RawIOBase):
    """An open file, without a buffer of its own: each call reads or writes the volume. Memory of a Buffer moves without a copy."""

    def __init__(self, handle, path, flags):
        self._handle = handle
        self._access = flags & os.O_ACCMODE
        self._appends = bool(flags & os.O_APPEND)
        self._position = 0
        self.name = path

    def readable(self):
        return self._access != os.O_WRONLY

    def writable(self):
        return self._access != os.O_RDONLY

    def seekable(self):
        return True

    def readinto(self, into):
        if not self.readable():
            raise io.UnsupportedOperation("not open for reading")
        count = self._handle.readinto_at(into, self._position)
        self._position += count
        return count

    def readall(self):
        """In one piece."""
        rest = bytearray(max(0, self._handle.stat()[6] - self._position))
        count = self.readinto(rest)
        return bytes(rest) if count == len(rest) else bytes(rest[:count])

    def write(self, data):
        if not self.writable():
            raise io.UnsupportedOperation("not open for writing")
        count = self._handle.write_at(data, self._position)
        self._position = self._handle.stat()[6] if self._appends else self._position + count
        return count

    def seek(self, offset, whence=os.SEEK_SET):
        offset = operator.index(offset)
        if whence in (os.SEEK_DATA, os.SEEK_HOLE):
            if offset < 0:
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            self._position = self._handle.seek_data_or_hole(offset, whence)
            return self._position
        if whence == os.SEEK_SET:
            start = 0
        elif whence == os.SEEK_CUR:
            start = self._position
        elif whence == os.SEEK_END:
            start = self._handle.stat()[6]
        else:
            raise ValueError(f"invalid whence: {whence!r}")
        self._check_open()
        self._position = _offset(start + offset)
        return self._position

    def tell(self):
        self._check_open()
        return self._position

    def truncate(self, size=None):
        size = self._position if size is None else _offset(size)
        self._handle.truncate(size)
        return size

    def _check_open(self):
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def readinto_at(self, into, offset):
        """As pread(2), into writable memory: how many bytes."""
        return self._handle.readinto_at(into, offset)

    def write_at(self, data, offset):
        """As pwrite(2)."""
        return self._handle.write_at(data, offset)

    def sync(self):
        """Everything done before is durable."""
        self._handle.fsync()

    def allocate(self, offset, length, mode=0):
        self._handle.allocate(mode, offset, length)

    def copy_to(self, other, length, offset=0, other_offset=0):
        """As copy_file_range(2): how many bytes."""
        return self._handle.copy_range(offset, other._handle, other_offset, length)

    def lock(self, kind, offset=0, length=0, wait=True):
        """A range: fcntl.F_RDLCK, F_WRLCK or F_UNLCK."""
        self._handle.lock(kind, offset, length, wait)

    def flock(self, operation):
        """The whole file: fcntl.LOCK_SH, LOCK_EX, LOCK_UN, LOCK_NB."""
        self._handle.flock(operation)

    def stat(self):
        return _stat_result(self._handle.stat())

    def close(self):
        """EBUSY: another thread is at it."""
        if self.closed:
            return
        try:
            self._handle.close()
        finally:
            if self._handle.closed:
                super().close()


class BufferedFile(io.BufferedIOBase):
    """A File with a buffer, as io.BufferedReader and the like, of which it is not one: some take those for files of the kernel."""

    def __init__(self, raw, size):
        kind = io.BufferedReader if not raw.writable() else io.BufferedRandom if raw.readable() else io.BufferedWriter
        self._buffer = kind(raw, size)

    # Methods, not those of the buffer: what is being called keeps this alive, and with it the buffer open.
    def read(self, size=-1):
        return self._buffer.read(size)

    def read1(self, size=-1):
        return self._buffer.read1(size)

    def readinto(self, into):
        return self._buffer.readinto(into)

    def readinto1(self, into):
        return self._buffer.readinto1(into)

    def readline(self, size=-1):
        return self._buffer.readline(size)

    def peek(self, size=0):
        return self._buffer.peek(size)

    def write(self, data):
        return self._buffer.write(data)

    def seek(self, offset, whence=os.SEEK_SET):
        return self._buffer.seek(offset, whence)

    def tell(self):
        return self._buffer.tell()

    def truncate(self, size=None):
        return self._buffer.truncate(size)

    def detach(self):
        raise io.UnsupportedOperation("the buffer stays")

    @property
    def raw(self):
        return self._buffer.raw

    @property
    def name(self):
        return self._buffer.raw.name

    def readable(self):
        return self._buffer.readable()

    def writable(self):
        return self._buffer.writable()

    def seekable(self):
        return True

    def sync(self):
        """Everything written is durable."""
        self.flush()
        self.raw.sync()

    def flush(self):
        if not self._buffer.closed:
            self._buffer.flush()

    @property
    def closed(self):
        return self._buffer.closed

    def close(self):
        self._buffer.close()


class Patience:
    """How long calls on files, of the thread that enters it, wait in all: TimeoutError after `seconds`; OSError (ECANCELED) soon after cancel().

        with brickfs.Patience(5):
            fs.sync()
    """

    def __init__(self, seconds=None):
        self._milliseconds = -1 if seconds is None else max(0, int(seconds * 1000))
        self._patience = _brickfs.Patience()

    def __enter__(self):
        self._patience.begin(self._milliseconds)
        return self

    def __exit__(self, *_):
        self._patience.end()

    def cancel(self):
        """From any thread. Holds until the end of the `with`, also if that has not begun yet."""
        self._patience.cancel()


class FileSystem:
    """A volume's files. `source` and `options` as of brickfs_fs_open() (brickfs.h): "ro", "secret=/path", ..."""

    def __init__(self, source, options=""):
        self.source = source
        self._fs = _brickfs.open_fs(source, options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Everything durable, and the volume free for others. Open files and buffers of it come first (EBUSY)."""
        self._fs.close()

    def abandon(self):
        """From any thread: the file system is given up, as if the process were killed. What waits for its brick ends with an error."""
        self._fs.abandon()

    @property
    def closed(self):
        return self._fs.closed

    @property
    def read_only(self):
        return self._fs.read_only

    def sync(self):
        self._fs.sync()

    def statvfs(self):
        return os.statvfs_result(self._fs.statvfs())

    def buffer(self, length):
        """Registered memory: memoryview(buffer), numpy.frombuffer(buffer, dtype). It lives as long as anything that uses it."""
        return self._fs.buffer(length)

    def open(self, path, mode="rb", buffering=-1, encoding=None, errors=None, newline=None, permissions=0o666):
        """As open(). With buffering=0 a File; else a buffered one, of text if `mode` says so."""
        path = os.fsdecode(path)
        text = "b" not in mode
        if text and buffering == 0:
            raise ValueError("can't have unbuffered text I/O")
        raw = self.open_flags(path, _flags(mode), permissions)
        if buffering == 0:
            return raw
        file = BufferedFile(raw, buffering if buffering > 1 else 1 << 18)
        return io.TextIOWrapper(file, encoding, errors, newline, line_buffering=buffering == 1) if text else file

    def open_flags(self, path, flags, permissions=0o666):
        """As os.open(): a File."""
        path = os.fsdecode(path)
        file = File(self._fs.open(os.fsencode(path), flags, permissions), path, flags)
        if flags & os.O_APPEND:
            file.seek(0, os.SEEK_END)
        return file

    def stat(self, path, follow_symlinks=True):
        return _stat_result(self._fs.stat(os.fsencode(path), _nofollow(follow_symlinks)))

    def exists(self, path):
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path="/"):
        return [entry[0] for entry in self._fs.list(os.fsencode(path), False)]

    def scan(self, path="/"):
        """(name, os.stat_result) of each entry, links not followed."""
        return [(entry[0], _stat_result(entry[3])) for entry in self._fs.list(os.fsencode(path), True)]

    def walk(self, top="/"):
        """As os.walk(), from the top."""
        entries = self.scan(top)
        directories = [name for name, status in entries if _stat.S_ISDIR(status.st_mode)]
        files = [name for name, status in entries if not _stat.S_ISDIR(status.st_mode)]
        yield top, directories, files
        for name in directories:
            yield from self.walk(top.rstrip("/") + "/" + name)

    def mkdir(self, path, mode=0o777):
        self._fs.mkdir(os.fsencode(path), mode)

    def makedirs(self, path, mode=0o777, exist_ok=False):
        parent = os.path.dirname(path.rstrip("/"))
        if parent not in ("", "/") and not self.exists(parent):
            self.makedirs(parent, mode, True)
        try:
            self.mkdir(path, mode)
        except FileExistsError:
            if not exist_ok or not _stat.S_ISDIR(self.stat(path).st_mode):
                raise

    def rmdir(self, path):
        self._fs.rmdir(os.fsencode(path))

    def unlink(self, path):
        self._fs.unlink(os.fsencode(path))

    def rename(self, path, to, flags=0):
        self._fs.rename(os.fsencode(path), os.fsencode(to), flags)

    def link(self, path, new_path):
        self._fs.link(os.fsencode(path), os.fsencode(new_path))

    def symlink(self, target, path):
        self._fs.symlink(os.fsencode(target), os.fsencode(path))

    def readlink(self, path):
        return self._fs.readlink(os.fsencode(path))

    def truncate(self, path, size):
        self._fs.truncate(os.fsencode(path), size)

    def chmod(self, path, mode):
        self._fs.chmod(os.fsencode(path), mode)

    def chown(self, path, uid, gid, follow_symlinks=True):
        self._fs.chown(os.fsencode(path), uid & 0xFFFFFFFF, gid & 0xFFFFFFFF, _nofollow(follow_symlinks))

    def utime(self, path, ns, follow_symlinks=True):
        self._fs.utime(os.fsencode(path), ns[0], ns[1], _nofollow(follow_symlinks))

    def setxattr(self, path, name, value, flags=0, follow_symlinks=True):
        self._fs.setxattr(os.fsencode(path), os.fsencode(name), value, flags | _nofollow(follow_symlinks))

    def getxattr(self, path, name, follow_symlinks=True):
        return self._fs.getxattr(os.fsencode(path), os.fsencode(name), _nofollow(follow_symlinks))

    def listxattr(self, path, follow_symlinks=True):
        return [os.fsdecode(name) for name in self._fs.listxattr(os.fsencode(path), _nofollow(follow_symlinks)).split(b"\0") if name]

    def removexattr(self, path, name, follow_symlinks=True):
        self._fs.removexattr(os.fsencode(path), os.fsencode(name), _nofollow(follow_symlinks))

    def copy(self, path, to):
        """A file's bytes, which do not leave the file system. shutil.SameFileError: both are one file."""
        status = self.stat(path)
        if _stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
        if self.exists(to) and self.stat(to).st_ino == status.st_ino:
            raise shutil.SameFileError(f"{os.fsdecode(path)!r} and {os.fsdecode(to)!r} are the same file")
        with self.open(path, "rb", 0) as source, self.open(to, "wb", 0) as target:
            done = 0
            while count := source.copy_to(target, _COPY_BYTES, done, done):
                done += count
