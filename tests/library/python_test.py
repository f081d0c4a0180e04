#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""import brickfs: files, registered memory, blocks. python_test.py BYTES: of the arrays that are saved and loaded."""

import errno
import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import brickfs
import numpy

ARRAY_BYTES = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 16 << 20


class Alarm(Exception):
    pass


def raise_at_alarm(test):
    def ring(*_):
        raise Alarm

    former = signal.signal(signal.SIGALRM, ring)
    test.addCleanup(signal.signal, signal.SIGALRM, former)


class Files(unittest.TestCase):
    def setUp(self):
        self.fs = brickfs.FileSystem("memory:256M")

    def tearDown(self):
        gc.collect()
        self.fs.close()

    def test_bytes_and_text(self):
        with self.fs.open("file", "wb") as file:
            file.write(b"some ")
            file.write(b"bytes\n")
        with self.fs.open("file", "at", encoding="utf-8") as file:
            file.write("and täxt\n")
        with self.fs.open("file", "rt", encoding="utf-8") as file:
            self.assertEqual(file.readlines(), ["some bytes\n", "and täxt\n"])
        with self.fs.open("file", "r+b") as file:
            file.seek(5)
            file.write(b"BYTES")
            file.seek(0)
            self.assertEqual(file.readline(), b"some BYTES\n")
        with self.fs.open("file", "rb", buffering=0) as file:
            self.assertEqual(len(file.read()), self.fs.stat("file").st_size)
            with self.assertRaises(OSError):
                file.write(b"x")

    def test_errors_are_those_of_os(self):
        with self.assertRaises(FileNotFoundError) as raised:
            self.fs.open("none/file")
        self.assertEqual(raised.exception.filename, "none/file")
        self.fs.mkdir("dir")
        with self.assertRaises(FileExistsError):
            self.fs.mkdir("dir")
        with self.assertRaises(IsADirectoryError):
            self.fs.open("dir", "wb")
        with self.assertRaises(ValueError):
            self.fs.open("dir", "rw")
        with self.assertRaisesRegex(OSError, "unknown option: nonsense"):
            brickfs.FileSystem("memory:64M", "nonsense")
        with self.fs.open("file", "wb", 0) as file:
            with self.assertRaises(OSError) as raised:
                self.fs.close()
            self.assertEqual(raised.exception.errno, errno.EBUSY)
            self.assertFalse(self.fs.closed)
        with self.assertRaises(ValueError):
            file.readinto_at(bytearray(1), 0)

    def test_names_and_attributes(self):
        self.fs.makedirs("a/b/c")
        self.fs.makedirs("a/b/c", exist_ok=True)
        with self.fs.open("a/b/file", "wb") as file:
            file.write(b"x" * 1000)
        self.fs.symlink("b/file", "a/link")
        self.fs.link("a/b/file", "a/second")
        self.assertEqual(self.fs.readlink("a/link"), "b/file")
        self.assertEqual(self.fs.stat("a/link").st_nlink, 2)
        self.assertNotEqual(self.fs.stat("a/link", follow_symlinks=False).st_ino, self.fs.stat("a/link").st_ino)
        self.assertEqual(sorted(self.fs.listdir("a")), ["b", "link", "second"])
        self.assertEqual(dict(self.fs.scan("a"))["second"].st_size, 1000)
        self.assertEqual([top for top, _, _ in self.fs.walk("/")], ["/", "/a", "/a/b", "/a/b/c"])
        self.fs.utime("a/second", (5_000_000_007, -3))
        status = self.fs.stat("a/b/file")
        self.assertEqual((status.st_atime_ns, status.st_mtime_ns), (5_000_000_007, -3))
        self.fs.chmod("a/second", 0o600)
        self.fs.chown("a/second", 7, -1)
        status = self.fs.stat("a/b/file")
        self.assertEqual((status.st_mode & 0o7777, status.st_uid, status.st_gid), (0o600, 7, os.getegid()))
        self.fs.setxattr("a/second", "user.key", b"value")
        self.assertEqual(self.fs.getxattr("a/b/file", "user.key"), b"value")
        self.assertEqual(self.fs.listxattr("a/b/file"), ["user.key"])
        self.fs.removexattr("a/b/file", "user.key")
        self.fs.rename("a/second", "a/third")
        self.fs.copy("a/third", "a/copy")
        self.assertEqual(self.fs.stat("a/copy").st_size, 1000)
        self.fs.link("a/copy", "a/hard")
        self.fs.symlink("copy", "a/soft")
        for to in ("a/copy", "a/hard", "a/soft"):
            with self.assertRaises(shutil.SameFileError):
                self.fs.copy("a/copy", to)
        with self.assertRaises(IsADirectoryError):
            self.fs.copy("a/b", "a/copy")
        self.assertEqual(self.fs.stat("a/copy").st_size, 1000)
        self.fs.unlink("a/hard")
        self.fs.unlink("a/soft")
        self.fs.truncate("a/copy", 5)
        self.fs.unlink("a/copy")
        self.fs.rmdir("a/b/c")
        self.assertFalse(self.fs.exists("a/copy"))
        odd = os.fsdecode(b"not \xff utf-8")
        with self.fs.open(odd, "wb"):
            pass
        self.assertIn(odd, self.fs.listdir())
        self.assertGreater(self.fs.statvfs().f_bavail, 0)

    def test_locks(self):
        with self.fs.open("file", "wb", 0) as one, self.fs.open("file", "r+b", 0) as other:
            one.lock(fcntl.F_WRLCK, 0, 10)
            with self.assertRaises(BlockingIOError):
                other.lock(fcntl.F_WRLCK, 5, 1, wait=False)
            one.lock(fcntl.F_UNLCK)
            other.lock(fcntl.F_WRLCK, 5, 1, wait=False)
            one.flock(fcntl.LOCK_EX)

    def test_signals_end_a_wait_for_a_lock(self):
        raise_at_alarm(self)
        with self.fs.open("file", "wb", 0) as one, self.fs.open("file", "r+b", 0) as other:
            one.lock(fcntl.F_WRLCK)
            one.flock(fcntl.LOCK_EX)
            for wait in (lambda: other.lock(fcntl.F_WRLCK)), (lambda: other.flock(fcntl.LOCK_EX)):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with self.assertRaises(Alarm):
                    wait()

    def test_a_patience_bounds_the_calls_of_a_thread(self):
        with self.fs.open("file", "wb", 0) as one, self.fs.open("file", "r+b", 0) as other:
            one.flock(fcntl.LOCK_EX)
            with brickfs.Patience(0.05), self.assertRaises(TimeoutError):
                other.flock(fcntl.LOCK_EX)
            patience = brickfs.Patience()
            timer = threading.Timer(0.1, patience.cancel)
            timer.start()
            with patience:
                with self.assertRaises(OSError) as raised:
                    other.flock(fcntl.LOCK_EX)
                self.assertEqual(raised.exception.errno, errno.ECANCELED)
            timer.join()
            one.flock(fcntl.LOCK_UN)
            other.flock(fcntl.LOCK_EX)

    def test_a_file_without_a_name_lives_through_its_call(self):
        with self.fs.open("file", "wb") as file:
            file.write(b"one\ntwo\n")
        self.assertEqual(self.fs.open("file").read(), b"one\ntwo\n")
        self.assertEqual(self.fs.open("file", "rb", 0).read(), b"one\ntwo\n")
        self.assertEqual(self.fs.open("file", "rt").read(), "one\ntwo\n")
        self.assertEqual(self.fs.open("file").readline(), b"one\n")
        self.assertEqual(list(self.fs.open("file")), [b"one\n", b"two\n"])
        self.assertEqual(self.fs.open("other", "wb").write(b"12345"), 5)
        gc.collect()
        self.assertEqual(self.fs.open("other").read(), b"12345")

    def test_wrong_arguments_say_so_in_a_line(self):
        memory = bytearray(1 << 24)
        volume = brickfs.Volume("memory:16M")
        with self.fs.open("file", "w+b", 0) as file, volume:
            wrong = [lambda: file.readinto_at(memory, "x"), lambda: file.write_at(memory, None), lambda: file.readinto_at(memory),
                     lambda: file.readinto_at(0, memory), lambda: volume.write(memory), lambda: volume.readinto(memory, 1.5),
                     lambda: self.fs.setxattr("file", None, memory), lambda: file.seek("x")]
            for call in wrong:
                with self.assertRaises(TypeError) as raised:
                    call()
                self.assertLess(len(str(raised.exception)), 300)
            for number in -1, 1 << 64:
                with self.assertRaises(OSError) as raised:
                    file.readinto_at(memory, number)
                self.assertEqual(raised.exception.errno, errno.EINVAL)
            self.assertEqual(volume.list(), [])

    def test_positions(self):
        with self.fs.open("file", "w+b", 0) as file:
            file.write(b"12345")
            self.assertEqual(file.seek(-2, os.SEEK_END), 3)
            self.assertEqual(file.read(), b"45")
            self.assertEqual(file.seek(-1, os.SEEK_CUR), 4)
            self.assertEqual(file.seek(100), 100)
            self.assertEqual(file.read(), b"")
            for offset, whence in (-1, 0), (-6, 2), (-101, 1), (1 << 63, 0):
                with self.assertRaises(OSError) as raised:
                    file.seek(offset, whence)
                self.assertEqual(raised.exception.errno, errno.EINVAL)
            self.assertEqual(file.tell(), 100)
            with self.assertRaises(ValueError):
                file.seek(0, 77)
            with self.assertRaises(OSError):
                file.seek(-1, os.SEEK_DATA)
            with self.assertRaises(OSError):
                file.truncate(-1)
        for call in file.tell, lambda: file.seek(0), lambda: file.seek(0, os.SEEK_CUR), file.read:
            with self.assertRaises(ValueError):
                call()

    def test_given_up(self):
        fs = brickfs.FileSystem("memory:64M")
        fs.abandon()
        with self.assertRaises(OSError) as raised:
            fs.stat("/")
        self.assertEqual(raised.exception.errno, errno.ECANCELED)
        try:
            fs.close()
        except OSError:
            pass
        self.assertTrue(fs.closed)

    def test_registered_memory_outlives_its_names(self):
        buffer = self.fs.buffer(8192)
        array = numpy.frombuffer(buffer, dtype=numpy.uint32)
        self.assertEqual(len(buffer), 8192)
        self.assertEqual(memoryview(buffer).nbytes, 8192)
        self.assertFalse(array.any())
        array[:] = numpy.arange(2048)
        del buffer
        gc.collect()
        with self.fs.open("array", "wb", 0) as file:
            self.assertEqual(file.write(array), 8192)
            self.assertEqual(file.write_at(array[10:20], 8192), 40)
        array[:] = 0
        with self.fs.open("array", "rb", 0) as file:
            self.assertEqual(file.readinto_at(memoryview(array)[100:], 400), 8192 - 400)
        self.assertTrue((array[100:] == numpy.arange(100, 2048)).all())
        with self.assertRaises(OSError):  # the array still has the buffer
            self.fs.close()

    def test_files_of_several_threads(self):
        def work(number):
            text = bytes([number]) * 100_000
            for i in range(20):
                with self.fs.open(f"f{number}.{i}", "wb") as file:
                    file.write(text)
                with self.fs.open(f"f{number}.{i}", "rb") as file:
                    results.append(file.read() == text)

        results = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [True] * 80)

    def test_what_nobody_closes_is_closed(self):
        source = os.environ.get("BRICKFS_TEST_SOURCE")
        if not source:
            self.skipTest("BRICKFS_TEST_SOURCE names no brick")
        fs = brickfs.FileSystem(source)
        file = fs.open("left", "wb", 0)
        file.write(b"text")
        del fs, file
        gc.collect()
        with brickfs.FileSystem(source, "wait=0") as fs, fs.open("left") as file:
            self.assertEqual(file.read(), b"text")


class Arrays(unittest.TestCase):
    def test_saved_and_loaded(self):
        source = os.environ.get("BRICKFS_TEST_SOURCE") or f"memory:{ARRAY_BYTES * 2 + (256 << 20)}"
        with brickfs.FileSystem(source) as fs:
            memory = fs.buffer(ARRAY_BYTES)
            array = numpy.frombuffer(memory, dtype=numpy.uint64)
            array[:] = numpy.arange(len(array), dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
            with fs.open("array", "wb", buffering=0) as file:
                self.assertEqual(file.write(array), ARRAY_BYTES)
                file.sync()
            with fs.open("plain.npy", "wb") as file:
                numpy.save(file, array[: 1 << 17])
            array[:] = 0
            with fs.open("array", "rb", buffering=0) as file:
                self.assertEqual(file.readinto(array), ARRAY_BYTES)
            expected = numpy.arange(1 << 20, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
            for start in range(0, len(array), 1 << 20):  # by parts: there may be little memory
                part = array[start : start + (1 << 20)]
                base = numpy.uint64(start) * numpy.uint64(0x9E3779B97F4A7C15)
                self.assertTrue((part == expected[: len(part)] + base).all())
            with fs.open("plain.npy", "rb") as file:
                self.assertTrue((numpy.load(file) == array[: 1 << 17]).all())
            del array, memory, part
            gc.collect()


class Blocks(unittest.TestCase):
    def test_blocks(self):
        with brickfs.Volume("memory:16M") as volume:
            volume.alloc(0, 2)
            self.assertEqual(volume.list(), [(0, 2)])
            volume.map(0, 2)
            volume.write(b"some bytes", brickfs.BLOCK_BYTES - 4)
            into = bytearray(10)
            self.assertEqual(volume.readinto(into, brickfs.BLOCK_BYTES - 4), 10)
            self.assertEqual(into, b"some bytes")
            volume.commit([(0, 2 * brickfs.BLOCK_BYTES)])
            with self.assertRaises(OSError):
                volume.readinto(into, 5 * brickfs.BLOCK_BYTES)
            with self.assertRaises(BufferError):
                volume.readinto(b"not to be written", 0)
            volume.unmap(0, 2)
            volume.free(0, 2)

    def test_notifications(self):
        with brickfs.Volume("memory:16M") as volume:
            first, second = brickfs.Notice(1), brickfs.Notice(2)
            self.assertEqual(volume.wait([first, second], timeout=0.3), [])
            timer = threading.Timer(0.3, volume.notify, (2, 20))
            timer.start()
            self.assertEqual(volume.wait([first, second]), [second])
            timer.join()  # its call keeps the volume from being closed
            self.assertEqual((second.tag, second.value, second.news, second.count), (2, 20, 1, 1))
            for value in 21, 22:
                volume.notify(2, value)
            volume.notify(1)
            self.assertEqual(volume.wait([first, second], 5), [first, second])
            self.assertEqual((second.value, second.news, first.news), (22, 2, 1))
            self.assertEqual(volume.wait([first, second], 0), [])
            with self.assertRaises(OSError):
                volume.wait([], 0)


# What is of the parent, and children that let go of it in each way. SOURCE WHAT
FORKS = """
import gc, os, sys, time
import brickfs

source, what = sys.argv[1:]

def ends_well(child):
    for _ in range(500):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended == child:
            return status == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False

class Fs:
    def __init__(self):
        self.all = [brickfs.FileSystem(source)]
    def work(self):
        with self.all[0].open("forks", "wb", 0) as file:
            file.write(b"text")
            file.sync()
    def call(self):
        self.all[0].stat("/")

class File(Fs):
    def __init__(self):
        super().__init__()
        self.all.append(self.all[0].open("forks", "wb", 0))
    def work(self):
        self.all[1].write(b"text")
        self.all[1].sync()
    def call(self):
        self.all[1].stat()

class Buffer(File):
    def __init__(self):
        super().__init__()
        self.all.append(self.all[0].buffer(4096))
    def work(self):
        self.all[1].write(self.all[2])
        self.all[1].sync()

class Volume:
    at = 0
    def __init__(self):
        self.all = [brickfs.Volume(source)]
        self.all[0].alloc(self.at)
        self.all[0].map(self.at)
    def work(self):
        self.all[0].write(b"text", self.at)
        self.all[0].commit([(self.at, brickfs.BLOCK_BYTES)])
    def call(self):
        self.all[0].list()

owner = globals()[what]()
for way in "del", "close", "exit", "call":
    child = os.fork()
    if child == 0:
        if way == "del":
            del owner
            gc.collect()
        elif way == "close":
            for one in reversed(owner.all):
                getattr(one, "close", lambda: None)()
        elif way == "call":
            try:
                owner.call()
                sys.exit("a child uses its parent's")
            except OSError:
                pass
        sys.exit(0)
    if not ends_well(child):
        sys.exit(f"a child hangs or fails: {way}")
    owner.work()
if what == "Volume":
    owner.all[0].free(owner.at)
while owner.all:
    closing = owner.all.pop()
    if not isinstance(closing, brickfs.Buffer):
        closing.close()
    del closing
    gc.collect()
"""


class Forks(unittest.TestCase):
    def test_a_child_leaves_alone_what_is_its_parents(self):
        source = os.environ.get("BRICKFS_TEST_SOURCE") or "memory:128M"
        for what in "Fs", "File", "Buffer", "Volume":
            with self.subTest(what):
                at = source.replace("/default", "/blocks") if what == "Volume" else source  # blocks of a volume without files
                done = subprocess.run([sys.executable, "-c", FORKS, at, what], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_pool_forgets_its_parents_file_systems(self):
        program = """
import multiprocessing, sys
import fsspec

def work(_):
    try:
        fsspec.filesystem("brickfs", source="nonsense:")
    except OSError:
        return True

fsspec.filesystem("brickfs", source=sys.argv[1]).pipe("/pool", b"1")
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(work, range(4)).get(10) == [True] * 4
fs = fsspec.filesystem("brickfs", source=sys.argv[1])
fs.pipe("/pool", b"2")
fs.fs.sync()
fs.close()
"""
        source = os.environ.get("BRICKFS_TEST_SOURCE") or "memory:128M"
        done = subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Closing(unittest.TestCase):
    def test_beside_calls(self):
        def work(call, *arguments):
            try:
                while not stopping.is_set():
                    call(*arguments)
            except ValueError:  # closed
                ended.append(True)

        def close(one):
            refused = 0
            for _ in range(20_000):
                try:
                    one.close()
                    return refused
                except OSError as error:
                    self.assertEqual(error.errno, errno.EBUSY)
                    self.assertFalse(one.closed)
                    refused += 1
            stopping.set()
            for thread in threads:
                thread.join()
            one.close()
            return refused

        refused = 0
        for _ in range(10):
            fs = brickfs.FileSystem("memory:128M")
            file = fs.open("file", "w+b", 0)
            file.write(bytes(1 << 20))
            for one, call, arguments in (file, file.readinto_at, (bytearray(1 << 20), 0)), (fs, fs.stat, ("/",)):
                stopping, ended = threading.Event(), []
                threads = [threading.Thread(target=work, args=(call, *arguments)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                refused += close(one)
                for thread in threads:
                    thread.join()
                self.assertTrue(stopping.is_set() or len(ended) == 4)
                self.assertTrue(one.closed)
        self.assertGreater(refused, 0)


class Away(unittest.TestCase):
    """Its brick is killed: BRICKFS_TEST_BRICK_PID."""

    def test_signals_end_waits_for_a_brick(self):
        if "BRICKFS_TEST_BRICK_PID" not in os.environ:
            self.skipTest("BRICKFS_TEST_BRICK_PID names no brick")

        raise_at_alarm(self)
        fs = brickfs.FileSystem(os.environ["BRICKFS_TEST_SOURCE"], "linger=1")
        forgotten = brickfs.FileSystem(os.environ["BRICKFS_TEST_OTHER_SOURCE"], "linger=1")
        with fs.open("file", "w+b", 0) as file:
            file.write(bytes(1 << 20))
            fs.sync()
            os.kill(int(os.environ["BRICKFS_TEST_BRICK_PID"]), signal.SIGKILL)
            fs.mkdir("lost")
            forgotten.mkdir("lost")
            for wait in fs.sync, file.sync, lambda: file.readinto_at(bytearray(4096), 500_000), lambda: file.write_at(b"x", 600_000):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with self.assertRaises(Alarm):
                    wait()
            with brickfs.Patience(0.2), self.assertRaises(TimeoutError):
                fs.sync()
        # Closed as nobody has it any more: other threads go on.
        ended, ticks = threading.Event(), []

        def tick():
            while not ended.wait(0.01):
                ticks.append(time.monotonic())

        ticker = threading.Thread(target=tick)
        ticker.start()
        began = time.monotonic()
        del forgotten
        gc.collect()
        took = time.monotonic() - began
        ended.set()
        ticker.join()
        self.assertGreater(took, 0.9)
        self.assertGreater(len(ticks), 5, f"in {took} s")
        with self.assertRaises(OSError) as raised:
            fs.close()
        self.assertEqual(raised.exception.errno, errno.ETIMEDOUT)


if __name__ == "__main__":
    unittest.main()
