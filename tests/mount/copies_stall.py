#!/usr/bin/env python3
"""Writes 4 KiB again and again, to each of some files, and says for how long a write took at most.

usage: copies_stall.py SECONDS FILE...
prints the longest write of all, in seconds. Exit 1: a write failed.
"""
import os
import random
import sys
import threading
import time


def write(path, until, longest, at):
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    block = os.urandom(4096)
    while time.monotonic() < until:
        began = time.monotonic()
        os.pwrite(fd, block, random.randrange(1024) * 4096)
        longest[at] = max(longest[at], time.monotonic() - began)
        time.sleep(0.005)
    os.close(fd)


def main():
    until = time.monotonic() + float(sys.argv[1])
    paths = sys.argv[2:]
    longest = [0.0] * len(paths)
    failed = []

    def run(at):
        try:
            write(paths[at], until, longest, at)
        except OSError as error:
            failed.append(f"{paths[at]}: {error}")

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{max(longest):.1f}")
    print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
