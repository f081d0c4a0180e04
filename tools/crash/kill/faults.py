# SPDX-License-Identifier: Apache-2.0
"""What can happen to a cluster under load. A fault is a generator: what it does until its `yield` begins it, what follows heals it. It
yields a few words about itself, or None if it would do what must not be done now; then nothing has happened.
"""
import signal

from world import Failure

# --- bricks


def lose(cluster, random):
    brick = random.choice(cluster.bricks)
    if not cluster.may_lose(brick):
        return None
    cluster.lost.add(brick)
    return brick


def disturb(cluster, brick):
    cluster.disturbed.add(brick)
    return brick


def kill_brick(cluster, random):
    brick = random.choice(cluster.bricks) if cluster.durable else lose(cluster, random)
    if brick is None or not brick.is_running():
        yield None
        return
    disturb(cluster, brick).kill()
    yield brick.name
    brick.start()


def flap_brick(cluster, random):
    """Again while it is brought up to date."""
    brick = random.choice(cluster.bricks) if cluster.durable else lose(cluster, random)
    if brick is None or not brick.is_running():
        yield None
        return
    disturb(cluster, brick)
    for _ in range(3):
        brick.kill()
        cluster.pause(random.uniform(0, 2.5))
        brick.start()
        cluster.pause(random.uniform(0, 1.5))
    brick.kill()
    yield brick.name
    brick.start()


def wipe_brick(cluster, random):
    brick = lose(cluster, random)
    if brick is None or not brick.is_running():
        yield None
        return
    disturb(cluster, brick).wipe()
    yield brick.name
    brick.start()


def put_back_store(cluster, random):
    """An older copy of a brick's store, of a moment ago or of any time since it was made; the brick ended in order, or was killed."""
    brick = lose(cluster, random) if cluster.durable else None
    if brick is None or not brick.is_running() or brick.is_stopped:
        yield None
        return
    disturb(cluster, brick)
    age = "a moment ago"
    if brick.older.exists() and random.random() < 0.5:
        age = "long ago"
    else:
        brick.keep_store()
        cluster.pause(random.uniform(0.2, 3))
    end = random.choice((brick.end, brick.kill))
    end()
    brick.put_back()
    yield f"{brick.name} of {age}"
    brick.start()


def stop_brick(cluster, random):
    brick = random.choice(cluster.bricks)
    if not brick.is_running():
        yield None
        return
    disturb(cluster, brick).stop()
    yield brick.name
    if brick.is_running():
        brick.resume()


def kill_all(cluster, random):
    """The client and all bricks, one after the other and in any order."""
    if not cluster.durable:
        yield None
        return
    victims = [cluster.kill_client] + [disturb(cluster, brick).kill for brick in cluster.bricks if brick.is_running()]
    random.shuffle(victims)
    for kill in victims:
        kill()
    yield "all"
    for brick in cluster.bricks:
        if not brick.is_running():
            brick.start()
    cluster.remount()


# --- the network


def ways_between(ones, others, random):
    """Between each of `ones` and each of `others`: senders with their receivers, and which ways in words."""
    ways = random.choice(("both ways", "there", "back"))
    pairs = []
    for one in ones:
        for other in others:
            pairs += [(one, other)] if ways != "back" else []
            pairs += [(other, one)] if ways != "there" else []
    return pairs, ways


def cut(cluster, ones, others, random):
    """What is to be healed, and which ways in words."""
    cuts, ways = ways_between(ones, others, random)
    for sender, receiver in cuts:
        cluster.network.cut(sender, receiver)
    return cuts, ways


def heal(cluster, cuts):
    for sender, receiver in cuts:
        cluster.network.heal(sender, receiver)


def cut_brick(cluster, random):
    brick = disturb(cluster, random.choice(cluster.bricks))
    cuts, ways = cut(cluster, [cluster.clients[0]], [brick.node], random)
    yield f"{brick.name} {ways}"
    heal(cluster, cuts)


def lose_large(cluster, random):
    """Packets with data, between the client and one brick: handshakes and calls pass."""
    brick = random.choice(cluster.bricks)
    if brick in cluster.narrowed:
        yield None
        return
    cluster.narrowed.add(disturb(cluster, brick))
    pairs, ways = ways_between([cluster.clients[0]], [brick.node], random)
    for sender, receiver in pairs:
        cluster.network.lose_large(sender, receiver)
    yield f"{brick.name} {ways}"
    for sender, receiver in pairs:
        cluster.network.pass_large(sender, receiver)
    cluster.narrowed.remove(brick)


def cut_etcd(cluster, random):
    members = random.choice([cluster.etcds, [random.choice(cluster.etcds)]])
    cuts, ways = cut(cluster, [cluster.clients[0]], [one.node for one in members], random)
    yield f"{','.join(one.name for one in members)} {ways}"
    heal(cluster, cuts)


def cut_client(cluster, random):
    """From everything."""
    cluster.disturbed |= set(cluster.bricks)
    cuts, ways = cut(cluster, [cluster.clients[0]], [one.node for one in cluster.bricks + cluster.etcds], random)
    yield ways
    heal(cluster, cuts)


def cut_leader(cluster, random):
    """From the other members of etcd: another one is elected, and the former does not know."""
    leader = cluster.leader() if len(cluster.etcds) > 1 else None
    if leader is None:
        yield None
        return
    cuts, ways = cut(cluster, [leader.node], [one.node for one in cluster.etcds if one is not leader], random)
    yield f"{leader.name} {ways}"
    heal(cluster, cuts)


# --- etcd


def kill_etcds(cluster, members):
    members = [one for one in members if one is not None and one.is_running()]
    for one in members:
        one.kill()
    yield ",".join(one.name for one in members) or None
    for one in members:
        if not one.is_running():
            cluster.start_etcd(one)


def kill_leader(cluster, _):
    return kill_etcds(cluster, [cluster.leader()])


def kill_etcd(cluster, _):
    return kill_etcds(cluster, cluster.etcds)


def stop_leader(cluster, _):
    leader = cluster.leader()
    if leader is None:
        yield None
        return
    leader.stop()
    yield leader.name
    if leader.is_running():
        leader.resume()


def replace_brick(cluster, random):
    """By one that is empty, whatever else happens to either. It goes on behind the healing."""
    spares = cluster.spares() if cluster.mount.serves() else None
    if not spares:
        yield None
        return
    old = random.choice([one for one in cluster.bricks if one not in spares])
    new = random.choice(spares)
    yield f"{old.name} by {new.name}" if cluster.change("replace", old, new) else None


def drain_brick(cluster, random):
    """The other bricks of the set get what it has."""
    spares = cluster.spares() if cluster.mount.serves() else None
    used = [one for one in cluster.bricks if spares is not None and one not in spares]
    if len(used) <= cluster.copies:
        yield None
        return
    brick = random.choice(used)
    yield brick.name if cluster.change("drain", brick) else None


def add_brick(cluster, random):
    """A place more, from the next mount on. One spare brick is left, for others to be replaced by."""
    spares = cluster.spares() if cluster.mount.serves() else None
    if not spares or len(spares) < 2:
        yield None
        return
    brick = random.choice(spares)
    yield brick.name if cluster.change("add", brick) else None


def rebalance(cluster, _):
    yield "" if cluster.mount.serves() and cluster.change("rebalance") else None


# --- clients


def kill_client(cluster, _):
    """It may be one that recovers from a crash."""
    if cluster.mount.process.poll() is not None:
        yield None
        return
    cluster.kill_client()
    yield ""
    cluster.remount()


def kill_recovering(cluster, random):
    """Also those that come after it, while they recover; of durable bricks one may restart meanwhile."""
    if cluster.mount.process.poll() is not None:
        yield None
        return
    for _ in range(3):
        cluster.kill_client()
        brick = random.choice(cluster.bricks)
        if cluster.durable and brick.is_running() and random.random() < 0.5:
            disturb(cluster, brick).kill()
            brick.start()
        cluster.remount()
        cluster.pause(random.choice((random.uniform(0, 0.3), random.uniform(0, 3))))
    cluster.kill_client()
    yield ""
    cluster.remount()


def stop_client(cluster, _):
    mount = cluster.mount
    if mount.process.poll() is not None:
        yield None
        return
    cluster.stop_client()
    yield ""
    cluster.resume_client(mount)


def take_over(cluster, random):
    """By another client, from one that is stopped, or reaches nobody, or is well. It must do no harm when it wakes up."""
    if not cluster.mount.serves():
        yield None
        return
    how = random.choice(("stopped", "cut off", "well"))
    cuts = []
    former = cluster.mount
    if how == "stopped":
        former.signal(signal.SIGSTOP)
    if how == "cut off":
        cuts, _ = cut(cluster, [cluster.clients[0]], [one.node for one in cluster.bricks + cluster.etcds], random)
    cluster.take_over()
    yield f"the former {how}"
    heal(cluster, cuts)
    cluster.resume_client(former)
    cluster.pause(random.uniform(0, 1))
    cluster.kill_former(former)


def split(cluster, random):
    """One client reaches a single brick, and another one takes over by all the others. From then on the former must not read what it could
    have read before.
    """
    if cluster.copies < 2 or cluster.disturbed or not cluster.mount.serves() or not cluster.is_well():
        yield None
        return
    cluster.write_witness("before")
    apart = disturb(cluster, random.choice(cluster.bricks))
    others = [one.node for one in cluster.bricks + cluster.etcds if one is not apart]
    is_stopped = random.random() < 0.5
    if is_stopped:  # it does not notice in time that it hears from nobody else
        cluster.mount.signal(signal.SIGSTOP)
    here, _ = cut(cluster, [cluster.clients[0]], others, random)
    there, _ = cut(cluster, [cluster.clients[1]], [apart.node], random)
    former = cluster.take_over()
    cluster.ensure_mounted()
    cluster.write_witness("after")
    cluster.resume_client(former)
    if cluster.read_witness(former) == "before":
        raise Failure("a client that has lost the volume reads what another one has changed")
    yield f"{apart.name} with the former client{', stopped' if is_stopped else ''}"
    heal(cluster, here + there)
    cluster.pause(random.uniform(0, 1))
    cluster.kill_former(former)


# Name: what happens, for how long at most, and how often beside others.
FAULTS = {
    "kill-brick": (kill_brick, 6, 4),
    "flap-brick": (flap_brick, 2, 2),
    "wipe-brick": (wipe_brick, 4, 2),
    "put-back-store": (put_back_store, 4, 2),
    "stop-brick": (stop_brick, 15, 4),
    "replace-brick": (replace_brick, 1, 2),
    "drain-brick": (drain_brick, 1, 1),
    "add-brick": (add_brick, 1, 1),
    "rebalance": (rebalance, 1, 1),
    "kill-all": (kill_all, 2, 1),
    "cut-brick": (cut_brick, 12, 4),
    "lose-large": (lose_large, 12, 3),
    "cut-etcd": (cut_etcd, 10, 2),
    "cut-client": (cut_client, 12, 2),
    "cut-leader": (cut_leader, 10, 1),
    "kill-leader": (kill_leader, 8, 2),
    "kill-etcd": (kill_etcd, 8, 1),
    "stop-leader": (stop_leader, 10, 2),
    "kill-client": (kill_client, 4, 4),
    "kill-recovering": (kill_recovering, 4, 2),
    "stop-client": (stop_client, 14, 2),
    "take-over": (take_over, 4, 2),
    "split": (split, 4, 1),
}
