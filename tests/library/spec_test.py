#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A volume as one of fsspec's file systems. spec_test.py [CASE...]"""

import itertools
import os
import tempfile
import unittest

import fsspec
from fsspec.implementations.local import LocalFileSystem


class Spec(unittest.TestCase):
    def test_fsspec(self):
        options = {"source": "memory:128M"}
        fs = fsspec.filesystem("brickfs", **options)
        fs.mkdir("/dir")
        with fsspec.open("brickfs://dir/file.txt", "wt", **options) as file:
            file.write("text\n")
        self.assertEqual(fs.cat("brickfs://dir/file.txt"), b"text\n")
        with fsspec.open("brickfs://dir/file.txt", "rt", **options) as file:
            self.assertEqual(file.read(), "text\n")
        fs.pipe("/dir/other", b"12345")
        self.assertEqual(sorted(fs.ls("dir", detail=False)), ["/dir/file.txt", "/dir/other"])
        self.assertEqual(fs.info("dir/other")["size"], 5)
        self.assertEqual(fs.find("/"), ["/dir/file.txt", "/dir/other"])
        self.assertEqual(fs.glob("/dir/*.txt"), ["/dir/file.txt"])
        self.assertTrue(fs.isdir("dir"))
        fs.cp("/dir/other", "/copy")
        fs.mv("/copy", "/moved")
        self.assertEqual(fs.cat_file("/moved", 1, 3), b"23")
        with fs.open("/moved", "ab") as file:
            file.write(b"6")
        self.assertEqual(fs.cat("/moved"), b"123456")
        self.assertIsNotNone(fs.modified("/moved"))
        fs.rm("/dir", recursive=True)
        self.assertFalse(fs.exists("/dir"))
        with self.assertRaises(FileNotFoundError):
            fs.cat("/dir/file.txt")
        fs.close()


class SpecCases(unittest.TestCase):
    """What fsspec expects of every file system: cases of its own suite, which fsspec_test.sh runs whole."""

    def setUp(self):
        self.fs = fsspec.filesystem("brickfs", source="memory:64M", skip_instance_cache=True)
        self.fs.pipe("/ten", b"0123456789")
        self.local = tempfile.TemporaryDirectory()
        self.addCleanup(self.local.cleanup)

    def tearDown(self):
        self.fs.close()

    def make_source(self, fs=None, root=""):
        fs = fs or self.fs
        fs.makedirs(f"{root}/source/sub")
        fs.pipe({f"{root}/source/file1": b"1", f"{root}/source/file2": b"2", f"{root}/source/sub/subfile": b"3"})

    def test_ranges(self):
        for start in None, 0, 3, -4, -20, 10, 20:
            for end in None, 0, 5, -2, -20, 10, 20:
                with self.subTest((start, end)):
                    self.assertEqual(self.fs.cat_file("/ten", start, end), b"0123456789"[start:end])
        self.assertEqual(self.fs.cat_ranges(["/ten", "/ten"], [1, -3], [3, None]), [b"12", b"789"])
        self.assertEqual([self.fs.tail("/ten", size) for size in (3, 100, 0)], [b"789", b"0123456789", b""])
        self.assertEqual(self.fs.head("/ten", 3), b"012")

    def test_blocks(self):
        self.fs.pipe("/lines", b"one\ntwo\nthree\n")
        self.assertEqual(self.fs.read_block("/lines", 1, 3), b"ne\n")
        self.assertEqual(self.fs.read_block("/lines", 1, 4, b"\n"), b"two\n")
        self.assertEqual(self.fs.read_block("/lines", 5, 100, b"\n"), b"three\n")
        self.assertEqual(self.fs.read_block("/lines", 0, None, b"\n"), b"one\ntwo\nthree\n")
        with self.fs.open("/lines", block_size=4) as file:
            self.assertEqual((file.size, file.blocksize, file.readlines()), (14, 4, [b"one\n", b"two\n", b"three\n"]))

    def test_directories_are_made_for_who_asks_for_it(self):
        with self.assertRaises(FileNotFoundError):
            self.fs.touch("/new/place/file")
        fs = fsspec.filesystem("brickfs", source="memory:64M", auto_mkdir=True, skip_instance_cache=True)
        fs.touch("/new/place/file")
        fs.pipe("/other/place/file", b"text")
        self.assertEqual(fs.find("/"), ["/new/place/file", "/other/place/file"])
        fs.close()

    def test_transactions(self):
        with self.fs.transaction:
            with self.fs.open("/new", "wb") as file:
                file.write(b"text")
            with self.fs.open("/ten", "ab") as file:
                file.write(b"x")
            self.assertFalse(self.fs.exists("/new"))
            self.assertEqual(self.fs.cat("/ten"), b"0123456789")
        self.assertEqual(self.fs.cat("/new"), b"text")
        self.assertEqual(self.fs.cat("/ten"), b"0123456789x")
        with self.assertRaises(KeyError), self.fs.transaction:
            self.fs.pipe("/other", b"x")
            with self.fs.open("/new", "wb") as file:
                file.write(b"other")
            raise KeyError
        self.assertEqual(self.fs.cat("/new"), b"text")
        self.assertEqual(self.fs.find("/"), ["/new", "/ten"])
        file = self.fs.open("/late", "wb", autocommit=False)
        file.write(b"late")
        self.assertFalse(self.fs.exists("/late"))
        file.commit()
        self.assertEqual(self.fs.cat("/late"), b"late")

    def test_copies(self):
        self.make_source()
        self.fs.cp("/source/file1", "/new/place/file")
        self.assertEqual(self.fs.cat("/new/place/file"), b"1")
        self.fs.mkdir("/target")
        self.fs.cp("/source/file1", "/target/")
        self.fs.cp(["/source/file1", "/source/file2"], "/target/")
        self.fs.cp("/source/sub", "/whole", recursive=True)
        self.assertEqual(self.fs.find("/target"), ["/target/file1", "/target/file2"])
        self.assertEqual(self.fs.find("/whole"), ["/whole/subfile"])
        with self.assertRaises(FileNotFoundError):
            self.fs.cp("/none", "/target")

    def test_each_of_a_list_goes_to_one_of_another(self):
        self.make_source()
        names, others = ["sub/subfile", "file1"], ["one", "new/two"]
        here = lambda names, place: [f"{self.local.name}/{place}/{name}" for name in names]
        there = lambda names, place: [f"/{place}/{name}" for name in names]
        self.fs.cp(there(names, "source"), there(others, "copied"))
        self.fs.get(there(names, "source"), here(others, "got"))
        self.fs.put(here(others, "got"), there(others, "put"))
        for place in "copied", "put":
            self.assertEqual(self.fs.cat(self.fs.find(f"/{place}")), {f"/{place}/one": b"3", f"/{place}/new/two": b"1"})
        with self.assertRaises(ValueError):
            self.fs.cp(there(names, "source"), there(others[:1], "copied"))

    def test_moves(self):
        self.make_source()
        self.fs.mkdir("/target")
        self.fs.mv("/source/file1", "/target")
        self.fs.mv("/source/file2", "/renamed")
        self.fs.mv("/source/sub", "/target/", recursive=True)
        self.assertEqual(self.fs.find("/"), ["/renamed", "/target/file1", "/target/sub/subfile", "/ten"])
        self.assertEqual(self.fs.find("/source"), [])
        self.fs.mv("/renamed", "/new/place/file")
        self.assertEqual(self.fs.cat("/new/place/file"), b"2")
        with self.assertRaises(FileNotFoundError):
            self.fs.mv("/none", "/other/place/file")
        self.assertFalse(self.fs.exists("/other"))
        with self.assertRaises(FileNotFoundError):
            self.fs.get("/none", self.local.name + "/none")
        self.assertFalse(os.path.exists(self.local.name + "/none"))

    @staticmethod
    def transfer(fs, call, names, into, place, target, options):
        """What it raises, or what there is then."""
        try:
            getattr(fs, call)(names, f"{place}/{target}", **options)
        except Exception as raised:
            return type(raised)
        found = into.find(place, withdirs=True, detail=True)
        return {path[len(place) :]: entry["type"] == "file" and into.cat_file(path) for path, entry in found.items()}

    def test_transfers_end_as_those_of_fsspecs_local_files(self):
        local = LocalFileSystem(auto_mkdir=True)
        sources = "file1", "sub", "sub/", "sub/*", "sub/**", "sub/s*", "*/deep", ["file1", "file2", "sub/subfile"], "none"
        sources += "su?", "[!s]*", "*/*", "**/*file", "sub*"
        targets = "target", "target/", "target/new", "target/new/", "target/new/deep/file"
        options = {}, {"recursive": True}, {"recursive": True, "maxdepth": 1}
        for number, (name, target, option, call) in enumerate(itertools.product(sources, targets, options, ("cp", "get", "put"))):
            here, there = f"{self.local.name}/{number}", f"/{number}"
            for fs, root in (local, here), (self.fs, there):
                self.make_source(fs, root)
                fs.makedirs(f"{root}/source/sub/deep")
                fs.pipe_file(f"{root}/source/sub/deep/file", b"4")
                fs.pipe_file(f"{root}/source/sub.txt", b"of that name, and no part of it")
                fs.makedirs(f"{root}/source/sub2")
                fs.pipe_file(f"{root}/source/sub2/file", b"nor this")
                fs.makedirs(f"{root}/to/target")
            local.makedirs(f"{here}/got/target")
            names = lambda root: [f"{root}/source/{one}" for one in name] if isinstance(name, list) else f"{root}/source/{name}"
            expected = self.transfer(local, call, names(here), local, f"{here}/to", target, option)
            if call == "get":
                done = self.transfer(self.fs, call, names(there), local, f"{here}/got", target, option)
            else:
                done = self.transfer(self.fs, call, names(here if call == "put" else there), self.fs, f"{there}/to", target, option)
            with self.subTest((call, name, target, option)):
                self.assertEqual(done, expected)

    def test_to_and_from_local_files(self):
        self.make_source()
        there = os.path.join(self.local.name, "a", "b")
        self.fs.get("/source", there, recursive=True)
        with open(os.path.join(there, "sub", "subfile"), "rb") as file:
            self.assertEqual(file.read(), b"3")
        self.fs.put(there, "/back", recursive=True)
        self.assertEqual([self.fs.cat(path) for path in self.fs.find("/back")], [b"1", b"2", b"3"])
        self.fs.put_file(os.path.join(there, "file1"), "/deep/er/file")
        self.fs.get_file("/deep/er/file", os.path.join(self.local.name, "x", "y"))

    def test_names_and_times(self):
        self.make_source()
        self.assertEqual(sorted(self.fs.glob("/source/*")), ["/source/file1", "/source/file2", "/source/sub"])
        self.assertEqual(self.fs.glob("/source/**/subfile"), ["/source/sub/subfile"])
        self.assertEqual(self.fs.du("/source"), 3)
        self.assertEqual([root for root, _, _ in self.fs.walk("/source")], ["/source", "/source/sub"])
        before = self.fs.modified("/ten")
        self.assertIsNotNone(before.tzinfo)
        self.fs.touch("/ten", truncate=False)
        self.assertGreaterEqual(self.fs.modified("/ten"), before)
        self.assertEqual(self.fs.size("/ten"), 10)
        self.fs.touch("/ten")
        self.assertEqual(self.fs.size("/ten"), 0)
        self.fs.fs.symlink("nowhere", "/dangling")
        self.assertTrue(self.fs.lexists("/dangling"))
        self.assertFalse(self.fs.exists("/dangling"))
        with self.assertRaises(FileNotFoundError):
            self.fs.ls("/none")
        with self.assertRaises(FileExistsError):
            self.fs.makedirs("/source", exist_ok=False)
        mapper = self.fs.get_mapper("/map")
        mapper["a/b"] = b"value"
        self.assertEqual((list(mapper), mapper["a/b"]), (["a/b"], b"value"))
        self.fs.rm("/source", recursive=True)
        self.assertFalse(self.fs.exists("/source"))


if __name__ == "__main__":
    unittest.main()
