#!/usr/bin/env python3
"""A program of one machine of a shared volume, many beside each other, and who looks at what they were answered.

    shared_work.py work ROOT NAME STOP          until STOP is there: appends to a log that all have, files that are written, renamed and
                                                removed, overwrites, a lock that is never let go of, a file that was unlinked while it was
                                                open, a counter under a lock. Prints its rounds and its longest one, in seconds.
    shared_work.py check WORK NAME SECONDS MACHINE...  each machine has its mount at WORK/MACHINE and what its program printed in
                                                WORK/MACHINE.work: all is there, once, and no round took SECONDS. Prints rounds and longest one.
"""
import fcntl
import os
import sys
import time


def work(root, name, stop):
    machine = os.path.basename(root)
    own_name = f"{root}/{name}.{machine}"
    log = os.open(f"{root}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    counter = os.open(f"{root}/{name}.counter", os.O_RDWR | os.O_CREAT, 0o644)
    own = os.open(f"{own_name}.own", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.lockf(own, fcntl.LOCK_EX)
    unlinked = os.open(f"{own_name}.unlinked", os.O_RDWR | os.O_CREAT, 0o644)
    os.unlink(f"{own_name}.unlinked")
    longest, i = 0, 0
    while not os.path.exists(stop):
        began = time.monotonic()
        assert os.write(log, b"%-31s\n" % f"{name} {machine} {i}".encode()) == 32
        path = f"{own_name}.{i}"
        with open(path, "x") as f:
            f.write(str(i))
        os.rename(path, path + ".kept")
        if i % 3:
            os.unlink(path + ".kept")
        os.pwrite(own, b"%08d" % i, 0)
        os.pwrite(unlinked, b"%08d" % i, 8 * (i % 100))
        assert os.pread(unlinked, 8, 8 * (i % 100)) == b"%08d" % i
        assert os.pread(own, 8, 0) == b"%08d" % i
        longest = max(longest, time.monotonic() - began)
        fcntl.lockf(counter, fcntl.LOCK_EX)  # for how long is the others' matter, too
        os.pwrite(counter, b"%08d" % (int(os.pread(counter, 8, 0) or b"0") + 1), 0)
        fcntl.lockf(counter, fcntl.LOCK_UN)
        i += 1
    print(i, f"{longest:.2f}")


def check(where, name, most, *machines):
    root, longest, rounds = f"{where}/{machines[0]}", 0, 0
    with open(f"{root}/log") as f:
        lines = [line.split()[1:] for line in f if line.startswith(name + " ")]
    assert len(lines) == len(set(map(tuple, lines))), "a line is there twice"
    there = set(os.listdir(root))
    for machine in machines:
        with open(f"{where}/{machine}.work") as f:
            count, pause = f.read().split()
        count, longest = int(count), max(longest, float(pause))
        rounds += count
        assert [i for who, i in lines if who == machine] == [str(i) for i in range(count)], machine
        kept = {f"{name}.{machine}.{i}.kept" for i in range(0, count, 3)}
        found = {n for n in there if n.startswith(f"{name}.{machine}.") and not n.endswith(".own")}
        assert kept == found, (machine, sorted(kept ^ found)[:5])
        for i in range(0, count, 3):
            assert open(f"{root}/{name}.{machine}.{i}.kept").read() == str(i), i
        assert int(open(f"{root}/{name}.{machine}.own").read()) == count - 1, machine
    counted = int(open(f"{root}/{name}.counter").read())
    assert counted == rounds, (counted, rounds)
    print(f"{rounds} rounds, longest pause {longest:.2f} s")
    assert longest < float(most), longest


{"work": work, "check": check}[sys.argv[1]](*sys.argv[2:])
