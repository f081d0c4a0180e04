#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run by brickfs-run, which says how many rings were asked for.
    brickfs_run_rings.py alternate CALLS FILE...  one thread reads now this file, now that
    brickfs_run_rings.py threads COUNT CALLS FILE  so many threads at a time, each so many reads"""
import mmap
import os
import sys
import threading


def read(files, calls):
    memory = mmap.mmap(-1, 4096)
    for i in range(calls):
        if os.preadv(files[i % len(files)], [memory], i % 16 * 4096) != 4096:
            os._exit(1)


def open_direct(path):
    return os.open(path, os.O_RDONLY | os.O_DIRECT)


if sys.argv[1] == "alternate":
    read([open_direct(path) for path in sys.argv[3:]], int(sys.argv[2]))
else:
    count, calls = int(sys.argv[2]), int(sys.argv[3])
    file = open_direct(sys.argv[4])
    together = threading.Barrier(count)

    def work():
        read([file], calls // 2)
        together.wait()  # nobody has given his ring back
        read([file], calls // 2)
        together.wait()

    workers = [threading.Thread(target=work) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
