#!/usr/bin/env python3
"""soft_mount.py PREFIX MOST_SECONDS: a soft mount whose brick is dead. A process that syncs a file, with a lock on it, and one that closes such a file, wait once;
one that is killed meanwhile, or while it ends, ends. Says how long each took.

MOST_SECONDS: what one wait may take, timeo= and some."""
import fcntl, os, signal, sys, time

KILL_AFTER_S = 0.5
KILLED_S = KILL_AFTER_S + 3  # with a look at who waits, and the slack of two busy cores


def opened(path):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    return fd


def process(name, work):
    """It works when it is told to: its pid, and what to write to."""
    go, told = os.pipe()
    ready, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        fd = opened(f"{prefix}.{name.replace(' ', '_')}")
        os.write(says, b".")
        os.read(go, 1)
        try:
            work(fd)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    os.close(go)
    assert os.read(ready, 1) == b"."
    return pid, told


def took(pid, most, what):
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() - begun > most + 60:
            break
        time.sleep(0.02)
    seconds = time.monotonic() - begun
    print(f"   {what}: {seconds:.1f} s")
    return [] if seconds <= most else [f"{what}: {seconds:.1f} s, and not {most:.1f} s"]


def sync(fd):
    os.write(fd, b"x" * 4096)
    os.fsync(fd)


def end(fd):
    pass


prefix, most = sys.argv[1], float(sys.argv[2])
prepared = {name: process(name, work) for name, work in {"sync": sync, "killed in sync": sync, "end": end, "killed at its end": end}.items()}
print("ready", flush=True)
sys.stdin.readline()
failed = []
begun = time.monotonic()
for pid, told in prepared.values():
    os.write(told, b".")
time.sleep(KILL_AFTER_S)
for name, (pid, told) in prepared.items():
    if name.startswith("killed"):
        os.kill(pid, signal.SIGKILL)
for name in ["killed in sync", "killed at its end", "end", "sync"]:
    failed += took(prepared[name][0], most if name == "sync" else KILLED_S, name)
sys.exit("\n".join(failed) or 0)
