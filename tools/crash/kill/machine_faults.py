# SPDX-License-Identifier: Apache-2.0
"""What can happen to machines that have one volume. Generators, as those in faults.py.

Nobody promises more than the last commit to who loses the coordinator *and* the bytes of a brick that it had not committed: in a round either machines die,
or bricks do.
"""
import subprocess
import time

from faults import cut, disturb, heal, stop_brick, kill_brick as kill_a_brick
from world import Failure

COMES_WITHIN = 3  # seconds: a member that can, to the next coordinator, which waits for 5 s


def machine_of(cluster, random, coordinates):
    """That one, or any other one; None: there is none now."""
    if coordinates:
        return cluster.coordinator()
    members = [machine for machine in cluster.members() if not machine.is_stopped]
    return random.choice(members) if members and cluster.coordinator() is not None else None


def kill(cluster, machines):
    for machine in machines:
        cluster.trouble(machine)
    for machine in machines:
        machine.is_down = True
        machine.kill()
    cluster.machines_died = True


def kill_machines(cluster, machines):
    if any(machine is None or machine.is_stopped for machine in machines) or cluster.bricks_died:
        yield None
        return
    kill(cluster, machines)
    yield ", ".join(machine.name for machine in machines)
    for machine in machines:
        machine.is_down = False


def kill_coordinator(cluster, _):
    return kill_machines(cluster, [cluster.coordinator()])


def kill_member(cluster, random):
    return kill_machines(cluster, [machine_of(cluster, random, False)])


def kill_two(cluster, random):
    """The coordinator and a member, and one of them is there again at once."""
    return kill_machines(cluster, [cluster.coordinator(), machine_of(cluster, random, False)])


def stop(cluster, machine):
    if machine is None or machine.is_stopped:
        yield None
        return
    cluster.trouble(machine)
    mount = machine.mount
    machine.stop()
    yield machine.name
    if machine.mount is mount and machine.is_stopped:
        machine.resume()


def stop_coordinator(cluster, _):
    return stop(cluster, cluster.coordinator())


def stop_member(cluster, random):
    return stop(cluster, machine_of(cluster, random, False))


def cut_machine(cluster, machine, others, random):
    if machine is None:
        yield None
        return
    cluster.trouble(machine)
    cuts, ways = cut(cluster, [machine.node], others, random)
    yield f"{machine.name} {ways}"
    heal(cluster, cuts)


def servers(cluster):
    return [one.node for one in cluster.bricks + cluster.etcds]


def cut_member(cluster, random):
    """From the coordinator."""
    coordinator = cluster.coordinator()
    return cut_machine(cluster, machine_of(cluster, random, False), [coordinator.node] if coordinator else [], random)


def cut_member_off_bricks(cluster, random):
    return cut_machine(cluster, machine_of(cluster, random, False), [one.node for one in cluster.bricks], random)


def cut_coordinator(cluster, random):
    """From bricks and etcd, and not from members."""
    return cut_machine(cluster, cluster.coordinator(), servers(cluster), random)


def cut_all(cluster, random):
    """One machine from everything."""
    machine = random.choice([one for one in cluster.machines if one.serves()] or [None])
    return cut_machine(cluster, machine, servers(cluster) + [one.node for one in cluster.machines if one is not machine], random)


def leave(cluster, machine):
    if machine is None or cluster.under_way:
        yield None
        return
    machine.leave()
    machine.is_down = True
    yield machine.name
    machine.is_down = False


def leave_coordinator(cluster, _):
    return leave(cluster, cluster.coordinator())


def leave_member(cluster, random):
    return leave(cluster, machine_of(cluster, random, False))


def hand_over(cluster, _):
    """By whoever coordinates, to any other: no trouble for anybody. Others may be in between."""
    coordinator = cluster.coordinator()
    if coordinator is None or not cluster.members():
        yield None
        return
    asked = subprocess.Popen(cluster.brickctl_command("handover", cluster.source), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    yield coordinator.name
    try:
        said = asked.communicate(timeout=5)[1]
    except subprocess.TimeoutExpired:  # it waits for a taker, which something else prevents
        asked.kill()
        asked.communicate()
        return
    if asked.returncode not in (0, 1, 3) or (asked.returncode != 0 and not said):
        raise Failure(f"brickctl handover ends with {asked.returncode}: {said.strip()}")


def kill_brick(cluster, random):
    if cluster.machines_died:
        yield None
        return
    fault = kill_a_brick(cluster, random)
    words = next(fault)
    cluster.bricks_died = cluster.bricks_died or words is not None
    yield words
    next(fault, None)


def cut_brick(cluster, random):
    """From one machine."""
    machine = random.choice([one for one in cluster.machines if one.serves()] or [None])
    return cut_machine(cluster, machine, [disturb(cluster, random.choice(cluster.bricks)).node], random)


def cut_and_kill(cluster, random):
    """A member does not hear that its coordinator has died, and still has leases of it, when the next one begins."""
    coordinator, member = cluster.coordinator(), machine_of(cluster, random, False)
    if member is None or coordinator is None or coordinator.is_stopped or cluster.bricks_died:
        yield None
        return
    others = [one.node for one in cluster.machines if one is not member]
    cuts, ways = cut(cluster, [member.node], others, random)
    begun = time.monotonic()
    cluster.pause(random.uniform(0, 0.5))
    kill(cluster, [coordinator])
    coordinator.is_down = False
    yield f"{member.name} {ways}, {coordinator.name}"
    if time.monotonic() - begun > COMES_WITHIN:
        cluster.trouble(member)
    heal(cluster, cuts)


def peace(_, __):
    """For what is wrong without any fault."""
    yield "for all"


# Name: what happens, for how long at most, and how often beside others.
FAULTS = {
    "peace": (peace, 6, 2),
    "kill-coordinator": (kill_coordinator, 4, 3),
    "kill-member": (kill_member, 4, 3),
    "cut-and-kill": (cut_and_kill, 6, 1),
    "kill-two": (kill_two, 4, 1),
    "stop-coordinator": (stop_coordinator, 14, 2),
    "stop-member": (stop_member, 14, 3),
    "cut-member": (cut_member, 12, 3),
    "cut-member-off-bricks": (cut_member_off_bricks, 12, 2),
    "cut-coordinator": (cut_coordinator, 12, 2),
    "cut-all": (cut_all, 12, 2),
    "hand-over": (hand_over, 3, 3),
    "leave-coordinator": (leave_coordinator, 2, 1),
    "leave-member": (leave_member, 2, 2),
    "kill-brick": (kill_brick, 5, 2),
    "stop-brick": (stop_brick, 8, 2),
    "cut-brick": (cut_brick, 10, 2),
}
