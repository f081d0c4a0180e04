#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""throughput.py FILE SECONDS: writes and reads 256 KiB in turns, past the page cache; prints how many MB/s."""
import mmap
import os
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
size, length = 32 << 20, 256 << 10
memory = mmap.mmap(-1, length)
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
done, end = 0, time.monotonic() + seconds
began = time.monotonic()
while time.monotonic() < end:
    offset = done % size
    os.pwritev(fd, [memory], offset)
    os.preadv(fd, [memory], offset)
    done += length
print(int(2 * done / (time.monotonic() - began) / 1e6))
