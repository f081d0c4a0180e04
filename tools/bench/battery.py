# SPDX-License-Identifier: Apache-2.0
"""How it is measured: each row is one number that a directory gives. What it makes below that directory, a later run replaces.

A row about one kind of transfer also says how `brickctl bench` measures it on a brick without a file system (Raw).
"""

import contextlib
import json
import os
import shutil
import subprocess
import time

import sources

FIO_MIB = 128
MANY = 100_000  # names
FEW = 1000  # files
SECONDS = 2  # of each run of fio and of brickctl bench; whoever takes rows() may set it


class Raw:
    """arguments() of brickctl bench, and number(result) of what it says; the same by fio's engine for libbrickfs (by_engine)."""

    def __init__(self, number, direction, size, depth=1, threads=1):
        self.number = number
        self.direction, self.size, self.depth, self.threads = direction, size, depth, threads

    def arguments(self):
        return ["--direction", self.direction, "--size", self.size, "--depth", str(self.depth), "--threads", str(self.threads),
                "--seconds", str(SECONDS)]

    def by_engine(self, engine, source, way):
        """At random places of blocks or files, as the rows of fio on a mount."""
        job = run_fio([f"--ioengine=external:{engine}", f"--source={source}", f"--way={way}"], f"rand{self.direction}", self.size, self.depth,
                      self.threads)
        return self.number({"bytes_per_second": job["bw_bytes"], "transfers_per_second": job["iops"],
                            "latency_us": {"p50": job["clat_ns"]["percentile"]["50.000000"] / 1e3}})


class Row:
    """`more`: more is better. measure(directory) returns the number. `raw`: a Raw, or None where files are needed. `inodes`: it needs so many."""

    def __init__(self, name, unit, more, measure, raw=None, inodes=0):
        self.name, self.unit, self.more, self.measure, self.raw, self.inodes = name, unit, more, measure, raw, inodes


def fio(directory, rw, block, depth=1, jobs=1, direct=True, fsync=0, once=False):
    return run_fio([f"--ioengine={'psync' if depth == 1 else 'libaio'}", f"--directory={directory}", f"--direct={int(direct)}", f"--fsync={fsync}",
                    "--invalidate=1"], rw, block, depth, jobs, once)


def run_fio(way, rw, block, depth, jobs, once=False):
    """fio's results for the direction of `rw`: for SECONDS, or once over the file. `way`: options that say by which way to what."""
    command = ["fio", "--name=bench", *way, f"--rw={rw}", f"--bs={block}", f"--size={FIO_MIB // jobs}M", f"--iodepth={depth}",
               f"--numjobs={jobs}", "--group_reporting", "--output-format=json"]
    if not once:
        command += ["--time_based", f"--runtime={SECONDS}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode != 0:
        raise RuntimeError(f"fio {rw}: {done.stderr.strip()}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return job["read" if "read" in rw else "write"]


def bandwidth(rw, **how):
    return lambda directory: fio(directory, rw, **{"block": "1M", **how})["bw_bytes"] / 1e6


def latency(rw, block="4k"):
    return lambda directory: fio(directory, rw, block)["clat_ns"]["percentile"]["50.000000"] / 1e3


def rate(rw, **how):
    return lambda directory: fio(directory, rw, "4k", **how)["iops"]


def raw_bandwidth(direction, depth=1):
    return Raw(lambda result: result["bytes_per_second"] / 1e6, direction, "1M", depth)


def raw_latency(direction, size="4K"):
    return Raw(lambda result: result["latency_us"]["p50"], direction, size)


def raw_rate(direction):
    return Raw(lambda result: result["transfers_per_second"], direction, "4K", depth=16, threads=4)


def write_and_fsync(directory):
    return 1e6 / fio(directory, "randwrite", "4k", direct=False, fsync=1)["iops"]


class Files:
    """Files of 1 KB in one directory; each step is a row, in the order of the methods."""

    def __init__(self, count):
        self.count = count

    def each(self, directory, work, times=1):
        """Per second, of work(path) with each of them."""
        began = time.perf_counter()
        for _ in range(times):
            for number in range(self.count):
                work(f"{directory}/files/{number}")
        return times * self.count / (time.perf_counter() - began)

    def each_again(self, directory, work):
        """The same, of what has been done with each of them before; the kernel may answer it, in little time, so it is done more than once."""
        self.each(directory, work)
        return self.each(directory, work, times=4)

    def create(self, directory):
        shutil.rmtree(f"{directory}/files", ignore_errors=True)
        os.mkdir(f"{directory}/files")
        body = b"x" * 1000

        def one(path):
            file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
            os.write(file, body)
            os.close(file)

        return self.each(directory, one)

    def stat(self, directory):
        return self.each(directory, os.stat)

    def stat_again(self, directory):
        return self.each_again(directory, os.stat)

    def open_again(self, directory):
        def one(path):
            os.close(os.open(path, os.O_RDONLY))

        return self.each_again(directory, one)

    def read(self, directory):
        def one(path):
            file = os.open(path, os.O_RDONLY)
            os.read(file, 4096)
            os.close(file)

        return self.each(directory, one)

    def list(self, directory):
        began = time.perf_counter()
        with os.scandir(f"{directory}/files") as entries:
            found = sum(1 for _ in entries)
        return found / (time.perf_counter() - began)

    def list_many(self, directory):
        """MANY names; they are made when they are listed first."""
        many = f"{directory}/many"
        if not os.path.exists(many):
            os.mkdir(many)
            for number in range(MANY):
                os.close(os.open(f"{many}/{number}", os.O_CREAT | os.O_WRONLY, 0o644))
        began = time.perf_counter()
        if len(os.listdir(many)) != MANY:
            raise RuntimeError("names are missing")
        return time.perf_counter() - began

    def rename(self, directory):
        return self.each(directory, lambda path: os.rename(path, path + "r"))

    def unlink(self, directory):
        return self.each(directory, lambda path: os.unlink(path + "r"))


def seconds_of(*command, cwd):
    began = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return time.perf_counter() - began


class Tree:
    """A tree of C headers, from an archive that it makes on the host; each step is a row, in the order of the methods."""

    SOURCES = 10

    def __init__(self, archive):
        self.archive = archive

    def untar(self, directory):
        if not os.path.exists(self.archive):
            subprocess.run(["tar", "cf", self.archive, "-C", "/usr", "include"], check=True)
        shutil.rmtree(f"{directory}/tree", ignore_errors=True)
        os.mkdir(f"{directory}/tree")
        return seconds_of("tar", "xf", self.archive, cwd=f"{directory}/tree")

    def git_status(self, directory):
        tree = f"{directory}/tree"
        seconds_of("git", "init", "-q", cwd=tree)
        seconds_of("git", "add", "-A", cwd=tree)
        return seconds_of("git", "status", "--porcelain", cwd=tree)

    def compile(self, directory):
        tree = f"{directory}/tree"
        for number in range(self.SOURCES):
            with open(f"{tree}/unit{number}.c", "w") as file:
                file.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n"
                           f"int work{number}(int n) {{ return printf(\"%d\", n); }}\n")
        return seconds_of("sh", "-c", "for unit in unit*.c; do gcc -O1 -c $unit || exit 1; done", cwd=tree)


class Project:
    """A program in C, as whoever wants to have it makes it of its source archive, which lies on the host."""

    def __init__(self, build):
        self.build = build

    def unpack_and_make(self, directory):
        archive = sources.tarball(self.build, "zlib")
        shutil.rmtree(f"{directory}/project", ignore_errors=True)
        os.mkdir(f"{directory}/project")
        return seconds_of("sh", "-c", 'tar -xf "$1" --strip-components=1 && ./configure --static && make -j"$(nproc)"', "sh", archive,
                          cwd=f"{directory}/project")


@contextlib.contextmanager
def busy_processors():
    """As many programs compute as there are processors."""
    programs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def read_while_busy(directory):
    """Mean, for what is waited for is what happens now and then."""
    with busy_processors():
        return fio(directory, "randread", "4k")["clat_ns"]["mean"] / 1e3


def create_while_busy(directory):
    busy = f"{directory}/busy"
    os.makedirs(busy, exist_ok=True)
    with busy_processors():
        return Files(FEW).create(busy)


def rows(archive, files, build):
    files, tree, project = Files(files), Tree(archive), Project(build)
    return [
        Row("1 MiB write, O_DIRECT", "MB/s", True, bandwidth("write"), raw_bandwidth("write")),
        Row("1 MiB read, O_DIRECT", "MB/s", True, bandwidth("read"), raw_bandwidth("read")),
        Row("1 MiB write, O_DIRECT, 16 deep", "MB/s", True, bandwidth("write", depth=16), raw_bandwidth("write", 16)),
        Row("1 MiB read, O_DIRECT, 16 deep", "MB/s", True, bandwidth("read", depth=16), raw_bandwidth("read", 16)),
        Row("4 MiB write, O_DIRECT", "MB/s", True, bandwidth("write", block="4M")),
        Row("4 MiB read, O_DIRECT", "MB/s", True, bandwidth("read", block="4M")),
        Row("1 MiB write, buffered, 4 jobs", "MB/s", True, bandwidth("write", jobs=4, direct=False)),
        Row("1 MiB read, buffered, 4 jobs", "MB/s", True, bandwidth("read", jobs=4, direct=False, once=True)),
        Row("4 KiB write, buffered", "MB/s", True, bandwidth("write", block="4k", direct=False)),
        Row("4 KiB read, buffered", "MB/s", True, bandwidth("read", block="4k", direct=False, once=True)),
        Row("64 KiB random read, O_DIRECT", "us", False, latency("randread", "64k"), raw_latency("read", "64K")),
        Row("64 KiB random write, O_DIRECT", "us", False, latency("randwrite", "64k"), raw_latency("write", "64K")),
        Row("4 KiB random read, O_DIRECT", "us", False, latency("randread"), raw_latency("read")),
        Row("4 KiB random write, O_DIRECT", "us", False, latency("randwrite"), raw_latency("write")),
        Row("4 KiB random read, 16 deep, 4 jobs", "1/s", True, rate("randread", depth=16, jobs=4), raw_rate("read")),
        Row("4 KiB random write, 16 deep, 4 jobs", "1/s", True, rate("randwrite", depth=16, jobs=4), raw_rate("write")),
        Row("4 KiB write and fsync", "us", False, write_and_fsync),
        Row("create files of 1 KB", "1/s", True, files.create),
        Row("stat", "1/s", True, files.stat),
        Row("stat again", "1/s", True, files.stat_again),
        Row("open and close again", "1/s", True, files.open_again),
        Row("open, read, close", "1/s", True, files.read),
        Row("list a directory", "1/s", True, files.list),
        Row("list 100,000 names", "s", False, files.list_many, inodes=MANY),
        Row("rename", "1/s", True, files.rename),
        Row("unlink", "1/s", True, files.unlink),
        Row("untar", "s", False, tree.untar),
        Row("git status", "s", False, tree.git_status),
        Row("compile", "s", False, tree.compile),
        Row("untar and make a project", "s", False, project.unpack_and_make),
        Row("busy: 4 KiB random read, O_DIRECT, mean", "us", False, read_while_busy),
        Row("busy: create files of 1 KB", "1/s", True, create_while_busy),
    ]
