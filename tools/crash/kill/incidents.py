# SPDX-License-Identifier: Apache-2.0
"""What can happen to a mount under load. An incident returns the mount to go on with, and how what is there is to be verified:

crash  the client is gone, and with it what was not synced
live   the client lives: everything that was written is there
"""
import resource
import signal
import subprocess
import time

from world import Mount

MEMORY = ("32M", "128M", "1G")  # of the brick; its store is larger


def remount(world, options=()):
    return Mount(world, f"mnt{world.mounted}", options), "crash"


def kill_client(world, mount, _):
    mount.kill()
    return remount(world)


def kill_brick(world, mount, random):
    world.kill_brick()
    time.sleep(random.uniform(0, 1.5))
    world.start_brick(random.choice(MEMORY))
    return mount, "live"


def kill_both(world, mount, random):
    first = random.random() < 0.5
    if first:
        mount.kill()
    world.kill_brick()
    if not first:
        mount.kill()
    world.start_brick(random.choice(MEMORY))
    return remount(world)


def kill_remounting(world, mount, random):
    """The client dies, and so do those that come after it, while they recover."""
    mount.kill()
    for _ in range(3):
        again = Mount(world, "recovering", wait=False)  # elsewhere: the workload must not find it
        time.sleep(random.uniform(0.005, 0.1))
        again.kill()
        again.detach()
    return remount(world)


def stop_client(_, mount, random):
    mount.signal(signal.SIGSTOP)
    time.sleep(random.uniform(0.1, 3))
    mount.signal(signal.SIGCONT)
    return mount, "live"


def stop_brick(world, mount, random):
    world.brickd.send_signal(signal.SIGSTOP)
    time.sleep(random.uniform(0.1, 3))
    world.brickd.send_signal(signal.SIGCONT)
    return mount, "live"


def cut_network(world, mount, random):
    world.proxy.cut()
    time.sleep(random.uniform(0.05, 3))
    world.proxy.heal()
    return mount, "live"


def stall_network(world, mount, random):
    world.proxy.stall()
    time.sleep(random.uniform(0.05, 3))
    if random.random() < 0.5:
        world.proxy.cut()
    world.proxy.heal()
    return mount, "live"


def cut_and_kill_brick(world, mount, random):
    """What was on its way is lost, and what the brick had not committed."""
    world.proxy.stall()
    time.sleep(random.uniform(0, 0.3))
    world.proxy.cut()
    world.kill_brick()
    world.start_brick(random.choice(MEMORY))
    world.proxy.heal()
    return mount, "live"


def take_over(world, mount, random):
    """A client that was stopped wakes up when another has its volume: it must do no harm."""
    mount.signal(signal.SIGSTOP)
    new, how = remount(world, ("steal",))
    time.sleep(random.uniform(0, 0.3))
    mount.signal(signal.SIGCONT)
    time.sleep(0.3)
    mount.kill()
    return new, how


def fill_up(world, mount, random):
    """The volume is full; then, perhaps, the client dies."""
    filler = mount.point / "filler"
    subprocess.run(["timeout", "60", "dd", "if=/dev/zero", f"of={filler}", "bs=1M", "status=none"], stderr=subprocess.DEVNULL, check=False)
    how = "live"
    if random.random() < 0.5:
        mount.kill()
        mount, how = remount(world)
    (mount.point / "filler").unlink(missing_ok=True)
    return mount, how


def starve_client(world, mount, _):
    """No more memory: it may fail operations, or end; nothing that was synced is lost."""
    used = next(int(line.split()[1]) * 1024 for line in open(f"/proc/{mount.process.pid}/status") if line.startswith("VmData"))
    resource.prlimit(mount.process.pid, resource.RLIMIT_DATA, (used + (1 << 20), used + (1 << 20)))
    time.sleep(0.5)
    mount.kill()
    return remount(world)


# Name: what happens, and whether the workload may be told of errors.
INCIDENTS = {
    "kill-client": (kill_client, True),
    "kill-brick": (kill_brick, False),
    "kill-both": (kill_both, True),
    "kill-remounting": (kill_remounting, True),
    "stop-client": (stop_client, False),
    "stop-brick": (stop_brick, False),
    "cut-network": (cut_network, False),
    "stall-network": (stall_network, False),
    "cut-and-kill-brick": (cut_and_kill_brick, False),
    "take-over": (take_over, True),
    "fill-up": (fill_up, True),
    "starve-client": (starve_client, True),
}
