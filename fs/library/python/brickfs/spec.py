# SPDX-License-Identifier: Apache-2.0
"""brickfs:// for fsspec: fsspec.open("brickfs://path/in/the/volume", source="tcp://host/volume", options="...").

Without `source` the environment's BRICKFS_SOURCE is the volume. It is held from the first use until close(), or the end of the process.
"""

import os
import stat as _stat

from fsspec.spec import AbstractFileSystem

from . import FileSystem


class BrickFileSystem(AbstractFileSystem):
    protocol = "brickfs"
    root_marker = "/"

    def __init__(self, source=None, options="", **kwargs):
        super().__init__(source=source, options=options, **kwargs)
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
        return self.fs.open(self._strip_protocol(path), mode)

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

    def mv(self, path1, path2, **kwargs):
        self.fs.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        self.fs.makedirs(path2, exist_ok=True) if self.isdir(path1) else self.fs.copy(path1, path2)

    def touch(self, path, truncate=True, **kwargs):
        with self.fs.open(self._strip_protocol(path), "wb" if truncate else "ab", 0):
            pass

    def created(self, path):
        return self.info(path)["created"]

    def modified(self, path):
        return self.info(path)["mtime"]
