#!/usr/bin/env python3
"""A file that grows by O_DIRECT writes of 1 MiB, each of which the kernel sends in parts (docs/decisions, 41).

  large_write_load.py run FILE LOG      until it is stopped, or fails; LOG gets a byte for each write that an fsync has covered
  large_write_load.py verify FILE LOG   what was synced is there; of the rest only the last write may be there in part
"""
import mmap
import os
import sys

WRITE = 1 << 20
UNIT = 4096
MOST = 250


def pattern(number):
    return bytes([number + 1])


def run(path, log_path):
    log = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_DIRECT)
    buffer = mmap.mmap(-1, WRITE)
    for number in range(MOST):
        buffer[:] = pattern(number) * WRITE
        if os.pwrite(file, buffer, number * WRITE) != WRITE:
            sys.exit("a short write")
        if number % 8 == 7:
            os.fsync(file)
            os.write(log, bytes(8))


def verify(path, log_path):
    synced = os.path.getsize(log_path)
    size = os.path.getsize(path) if os.path.exists(path) else 0
    if size < synced * WRITE:
        sys.exit(f"{synced} writes were synced, the file has {size} bytes")
    last = (size - 1) // WRITE
    with open(path, "rb") if size else open(os.devnull, "rb") as file:
        for number in range(last + 1):
            data = file.read(WRITE)
            whole = data == pattern(number) * WRITE
            if whole or (number == last and number >= synced and {data[i:i + UNIT] for i in range(0, len(data), UNIT)} <= {
                    pattern(number) * UNIT, bytes(UNIT)}):
                continue
            sys.exit(f"write {number} of {last + 1} ({synced} synced) is not what was written")


{"run": run, "verify": verify}[sys.argv[1]](*sys.argv[2:])
