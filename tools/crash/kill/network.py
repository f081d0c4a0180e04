# SPDX-License-Identifier: Apache-2.0
"""Network namespaces at one bridge, which has a namespace of its own. Nothing of it is in the host's: each namespace is held by a process
that dies with us, and goes with it.

A cut is a wrong link-layer address for one neighbour, in the sender's namespace: what is sent to it leaves and reaches nobody. So it is
silent and one way, holds for connections that are there, and needs no packet filter. What lets small packets pass, and no large ones, is
one (nft), in the receiver's namespace.
"""
import contextlib
import os
import subprocess
import time

from world import Failure

# Of this process: a source that another one mounts would be that mount once more.
SUBNET = f"10.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}"
NOBODY = "02:00:00:00:de:ad"
SMALL_BYTES = 1000  # the largest packet that a path with a black hole lets pass: handshakes and calls are smaller, data is larger


class Namespace:
    """Held by a process."""

    def __init__(self):
        self._holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.path = f"/proc/{self._holder.pid}/ns/net"
        end = time.monotonic() + 10
        while self._is_ours():
            if self._holder.poll() is not None or time.monotonic() > end:
                raise Failure("no network namespace can be made here: root is needed")
            time.sleep(0.01)
        self.pid = str(self._holder.pid)
        self.run("ip", "link", "set", "lo", "up")

    def _is_ours(self):
        try:
            return os.readlink(self.path) == os.readlink("/proc/self/ns/net")
        except OSError:
            return True

    def prefix(self):
        """Of a command that is to run here, and to end with us."""
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self.path}", "--"]

    def run(self, *words):
        done = subprocess.run([*self.prefix(), *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: {done.stderr.strip()}")

    def close(self):
        self._holder.kill()
        self._holder.wait()


class Node(Namespace):
    """With an address at the bridge."""

    def __init__(self, name, number, switch):
        super().__init__()
        self.name = name
        self.address = f"{SUBNET}.{number}"
        port = f"port{number}"
        switch.run("ip", "link", "add", "eth0", "netns", self.pid, "type", "veth", "peer", "name", port, "netns", switch.pid)
        switch.run("ip", "link", "set", port, "master", "bridge", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")


class Network:
    def __init__(self):
        self._switch = Namespace()
        self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
        self._switch.run("ip", "link", "set", "bridge", "up")
        self._nodes = []
        self._cuts = set()

    def add(self, name):
        self._nodes.append(Node(name, len(self._nodes) + 1, self._switch))
        return self._nodes[-1]

    def cut(self, sender, receiver):
        """Nothing that is sent arrives any more."""
        sender.run("ip", "neigh", "replace", receiver.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        self._cuts.add((sender, receiver))

    def heal(self, sender, receiver):
        if (sender, receiver) in self._cuts:
            self._cuts.remove((sender, receiver))
            with contextlib.suppress(Failure):  # the kernel may have no such neighbour any more
                sender.run("ip", "neigh", "del", receiver.address, "dev", "eth0")

    @staticmethod
    def lose_large(sender, receiver):
        """As behind a router that neither forwards what is too large for its next link nor says so."""
        table = f"large_from_{sender.name}"
        receiver.run("nft", f"table ip {table} {{ chain input {{ type filter hook input priority 0; "
                            f"ip saddr {sender.address} meta length > {SMALL_BYTES} drop; }}; }};")

    @staticmethod
    def pass_large(sender, receiver):
        receiver.run("nft", "delete", "table", "ip", f"large_from_{sender.name}")

    def close(self):
        for node in self._nodes:
            node.close()
        self._switch.close()
