# SPDX-License-Identifier: Apache-2.0
"""brickfs:// for fsspec: fsspec.open("brickfs://path/in/the/volume", source="tcp://host/volume", options="...").

Without `source` the environment's BRICKFS_SOURCE is the volume. It is held from the first use until close(), or the end of the process.
With auto_mkdir=True, as fsspec's local files have it, the directories of a file that is opened to write are made.
"""

import datetime
import os
import stat as _stat
import time
import uuid

from fsspec.spec import AbstractFileSystem

from . import BufferedFile, FileSystem, _flags


class SpecFile(BufferedFile):
    """An open file as fsspec knows them. What a transaction writes is in a file of another name until commit()."""

    def __init__(self, raw, fs, path, mode, block_size, autocommit):
        self.fs = fs
        self.path = path
        self.mode = mode
        self.autocommit = autocommit
        self.blocksize = block_size
        super().__init__(raw, block_size)

    @classmethod
    def open(cls, fs, path, mode, block_size, autocommit):
        autocommit = autocommit or "r" in mode  # as fsspec has it
        block_size = block_size if isinstance(block_size, int) and block_size > 1 else 1 << 18
        raw = fs.fs.open_flags(path, _flags(mode)) if autocommit else cls._open_apart(fs.fs, path, mode)
        return cls(raw, fs, path, mode, block_size, autocommit)

    @staticmethod
    def _open_apart(files, path, mode):
        if "x" in mode and files.exists(path):
            raise FileExistsError(path)
        parent, _, name = path.rpartition("/")
        written = f"{parent}/.{name[:80]}.{uuid.uuid4().hex}"
        if "a" in mode and files.exists(path):
            files.copy(path, written)
        return files.open_flags(written, _flags(mode))

    @property
    def size(self):
        if self.writable():
            self.flush()
        return self.raw.stat().st_size

    def info(self):
        return self.fs.info(self.name) | {"name": self.path}

    def commit(self):
        """What was written takes the name that was opened."""
        if not self.autocommit:
            self.close()
            self.fs.fs.rename(self.name, self.path)

    def discard(self):
        if not self.autocommit:
            self.close()
            self.fs.fs.unlink(self.name)


class BrickFileSystem(AbstractFileSystem):
    protocol = "brickfs"
    root_marker = "/"

    def __init__(self, source=None, options="", auto_mkdir=False, **kwargs):
        super().__init__(source=source, options=options, auto_mkdir=auto_mkdir, **kwargs)
        self.auto_mkdir = auto_mkdir
        source = source or os.environ.get("BRICKFS_SOURCE")
        if not source:
            raise ValueError("which volume? source=, or BRICKFS_SOURCE in the environment")
        self.fs = FileSystem(source, options)

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        path = path[len("brickfs://"):] if path.startswith("brickfs://") else path
        return "/" + path.strip("/")

    def close(self):
        self.clear_instance_cache()
        self.fs.close()

    @staticmethod
    def _info(path, status):
        kind = "directory" if _stat.S_ISDIR(status.st_mode) else "file" if _stat.S_ISREG(status.st_mode) else "other"
        return {"name": path, "size": status.st_size, "type": kind, "created": status.st_ctime, "mtime": status.st_mtime,
                "mode": status.st_mode, "uid": status.st_uid, "gid": status.st_gid, "ino": status.st_ino, "nlink": status.st_nlink}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return self._info(path, self.fs.stat(path))

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        status = self.fs.stat(path)
        if not _stat.S_ISDIR(status.st_mode):
            entries = [self._info(path, status)]
        else:
            entries = [self._info(path.rstrip("/") + "/" + name, each) for name, each in self.fs.scan(path)]
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        path = self._strip_protocol(path)
        self._prepare(path, mode)
        return SpecFile.open(self, path, mode, block_size, autocommit)

    def _prepare(self, path, mode):
        if self.auto_mkdir and "r" not in mode:
            self._make_parent(path)

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        self.fs.makedirs(path) if create_parents else self.fs.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        self.fs.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path):
        self.fs.rmdir(self._strip_protocol(path))

    def rm_file(self, path):
        """Of a directory, too: rm() asks for it so."""
        self.rmdir(path) if self.isdir(path) and not self.islink(path) else self.fs.unlink(self._strip_protocol(path))

    _rm = rm_file

    def islink(self, path):
        return _stat.S_ISLNK(self.fs.stat(self._strip_protocol(path), follow_symlinks=False).st_mode)

    def lexists(self, path, **kwargs):
        try:
            self.fs.stat(self._strip_protocol(path), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def mv(self, path1, path2, **kwargs):
        """A directory that is there, or a path with a slash behind it, gets it inside."""
        if not isinstance(path1, (str, os.PathLike)) or self.has_magic(os.fspath(path1)):
            return super().mv(path1, path2, **kwargs)
        inside = os.fspath(path2).endswith("/") or self.isdir(path2)
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if inside:
            self.fs.makedirs(path2, exist_ok=True)
            path2 = path2.rstrip("/") + "/" + path1.rsplit("/", 1)[1]
        elif self.exists(path1):
            self._make_parent(path2)
        self.fs.rename(path1, path2)

    @staticmethod
    def has_magic(path):
        return any(letter in path for letter in "*?[")

    def _make_parent(self, path):
        self.fs.makedirs(self._parent(path), exist_ok=True)

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            return self.fs.makedirs(path2, exist_ok=True)
        self._make_parent(path2)
        self.fs.copy(path1, path2)

    @staticmethod
    def _one_by_one(call, paths, others):
        """Of two lists, each to its own. None are expanded: fsspec may sort them then, and not the others."""
        if not isinstance(paths, (list, tuple)) or not isinstance(others, (list, tuple)):
            return False
        if len(paths) != len(others):
            raise ValueError(f"{len(paths)} paths, and {len(others)} to go to")
        for path, other in zip(paths, others):
            call(path, other)
        return True

    def copy(self, path1, path2, *arguments, **kwargs):
        if not self._one_by_one(self.cp_file, path1, path2):
            super().copy(path1, path2, *arguments, **kwargs)

    def get(self, rpath, lpath, *arguments, **kwargs):
        if not self._one_by_one(self.get_file, rpath, lpath):
            super().get(rpath, lpath, *arguments, **kwargs)

    def put(self, lpath, rpath, *arguments, **kwargs):
        if not self._one_by_one(self.put_file, lpath, rpath):
            super().put(lpath, rpath, *arguments, **kwargs)

    def get_file(self, rpath, lpath, *arguments, **kwargs):
        self.info(rpath)  # or what is not there would be an empty file
        if isinstance(lpath, (str, os.PathLike)):
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        super().get_file(rpath, lpath, *arguments, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        """Of a range as a slice's."""
        with self.open(path, "rb", **kwargs) as file:
            begin, stop, _ = slice(start, end).indices(file.size)
            file.seek(begin)
            return file.read(max(0, stop - begin))

    def touch(self, path, truncate=True, **kwargs):
        path = self._strip_protocol(path)
        mode = "wb" if truncate else "ab"
        self._prepare(path, mode)
        with self.fs.open(path, mode, 0):
            now = time.time_ns()
            self.fs.utime(path, (now, now))

    @staticmethod
    def _time(seconds):
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)

    def created(self, path):
        return self._time(self.info(path)["created"])

    def modified(self, path):
        return self._time(self.info(path)["mtime"])
