#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A member that is cut off from its coordinator still has leases of it. The next coordinator begins at once, and its programs change a file: what
the member answers from memory must not be what was there before. As root, in network namespaces."""
import os
import pathlib
import sys
import tempfile
import threading
import time
import types

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "crash" / "kill"))
from machines_world import Machine, Machines
from world import PATIENCE, wait_for

BEFORE, AFTER = 1, 77  # bytes
LOOKS = 8  # seconds
RENEWED = 1.5  # seconds, in which a member renews its leases


def size_of(path):
    """None: the mount is lost, which is no answer."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def play(machines, end):
    """`end`: of the coordinator."""
    machines.mount_all()
    coordinator = machines.coordinator()
    member = machines.members()[0]
    os.truncate(coordinator.mount.point / "file", BEFORE)
    looked_at = member.mount.point / "file"
    until = time.monotonic() + RENEWED
    while time.monotonic() < until:
        assert size_of(looked_at) == BEFORE, "the member does not see the file"
        time.sleep(0.02)
    machines.network.cut(member.node, coordinator.node)
    machines.network.cut(coordinator.node, member.node)
    end(coordinator)
    over, answers = time.monotonic() + LOOKS, []

    def look():
        while time.monotonic() < over:
            began = time.monotonic()
            answers.append((began, size_of(looked_at)))
            time.sleep(0.01)
    looker = threading.Thread(target=look)
    looker.start()
    coordinator.begin_mount()
    wait_for(coordinator.serves, PATIENCE, "the next coordinator's mount")
    os.truncate(coordinator.mount.point / "file", AFTER)
    changed = time.monotonic()
    looker.join()
    machines.network.heal(member.node, coordinator.node)
    machines.network.heal(coordinator.node, member.node)
    old = [began - changed for began, size in answers if began > changed and size == BEFORE]
    if old:
        sys.exit(f"up to {max(old):.1f} s behind the change the member answers what was there before ({end.__name__})")
    member.lose()


def main():
    arguments = types.SimpleNamespace(build=os.environ["BRICKFS_BUILD"], size="256M", durable=True, copies=1, lose_all=False, machines=2, etcd=0, bricks=1,
                                      spares=0)
    with tempfile.TemporaryDirectory(prefix="brickfs-machines.") as work:
        machines = Machines(arguments, pathlib.Path(work))
        try:
            machines.start()
            machines.mount_all()
            (machines.machines[0].mount.point / "file").write_bytes(b"")
            for end in (Machine.kill, Machine.unmount):
                play(machines, end)
        finally:
            machines.leave()


if __name__ == "__main__":
    main()
