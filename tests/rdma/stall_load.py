#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes and reads with O_DIRECT from several threads, and tells the longest that one call took.

    stall_load.py DIR STOP-FILE [THREADS]

Works until STOP-FILE exists, then prints "CALLS LONGEST-ms LONGEST-WRITE-ms LONGEST-READ-ms". Every read is compared with what
was written. Exit 1, and a line that says what, if a call fails or reads something else.
"""
import mmap
import os
import random
import sys
import threading
import time

RECORD = 65536
RECORDS = 32


def content(thread, record, version):
    return random.Random(f"{thread} {record} {version}").randbytes(512) * (RECORD // 512)


class Worker(threading.Thread):
    def __init__(self, directory, stop, number):
        super().__init__()
        self.path, self.stop, self.number = os.path.join(directory, f"load{number}"), stop, number
        self.calls, self.longest, self.failure = 0, {"write": 0, "read": 0}, None

    def timed(self, name, call, *arguments):
        began = time.monotonic()
        result = call(*arguments)
        self.longest[name] = max(self.longest[name], time.monotonic() - began)
        self.calls += 1
        return result

    def run(self):
        try:
            self.work()
        except Exception as error:  # reported by main
            self.failure = f"thread {self.number}: {error!r}"

    def work(self):
        buffer = mmap.mmap(-1, RECORD)  # O_DIRECT wants its memory aligned
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
        choice, versions = random.Random(self.number), {}
        while not os.path.exists(self.stop):
            record = choice.randrange(RECORDS)
            versions[record] = versions.get(record, 0) + 1
            buffer[:] = content(self.number, record, versions[record])
            assert self.timed("write", os.pwrite, fd, buffer, record * RECORD) == RECORD, "short write"
            self.compare(fd, buffer, choice.choice(list(versions)), versions)
        for record in versions:
            self.compare(fd, buffer, record, versions)
        os.fsync(fd)
        os.close(fd)

    def compare(self, fd, buffer, record, versions):
        assert self.timed("read", os.preadv, fd, [buffer], record * RECORD) == RECORD, "short read"
        assert buffer[:] == content(self.number, record, versions[record]), f"record {record} reads something else"


def main():
    directory, stop = sys.argv[1:3]
    workers = [Worker(directory, stop, number) for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for failure in filter(None, (worker.failure for worker in workers)):
        sys.exit(failure)
    longest = {name: int(1000 * max(worker.longest[name] for worker in workers)) for name in ("write", "read")}
    print(sum(worker.calls for worker in workers), max(longest.values()), longest["write"], longest["read"])


main()
