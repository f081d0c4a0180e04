# SPDX-License-Identifier: Apache-2.0
"""Bricks and members of etcd: a process each, in a network namespace of its own, that is killed, stopped and started again."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

from world import PATIENCE, program, wait_for

BRICK_PORT = 20470
ETCD_PORT = 2379
ETCD_PEER_PORT = 2380


class Member:
    def __init__(self, world, node):
        self.world = world
        self.node = node
        self.name = node.name
        self.process = None
        self.is_stopped = False

    def launch(self, *words):
        with open(self.world.work / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen([*self.node.prefix(), *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.is_stopped = False

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait(30)
        self.is_stopped = False

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def leave(self):
        if self.is_running():
            self.kill()


class Brick(Member):
    """`volumes`: that it has from the beginning, also when it was wiped."""

    def __init__(self, world, node, durable, volumes):
        super().__init__(world, node)
        self.durable = durable
        self.volumes = volumes
        self.url = f"tcp://{node.address}:{BRICK_PORT}"
        self.store = world.work / f"{self.name}.store"
        self.older = world.work / f"{self.name}.older"  # a copy of it, once there is one

    def start(self):
        """Unless another fault has done so."""
        if self.is_running():
            return
        port_file = self.world.work / f"{self.name}.port"
        port_file.unlink(missing_ok=True)
        words = [program(self.world.build, "server/brickd"), "--listen", self.url, "--port-file", port_file, "--foreground", "--memory", self.world.size]
        if self.durable:
            words += ["--file", self.store, "--size", self.world.size]
        for volume in self.volumes:
            words += ["--volume", volume]
        self.launch(*words)
        wait_for(lambda: port_file.exists() and port_file.read_text().strip(), PATIENCE, f"the start of brick {self.name}")

    def wipe(self):
        self.kill()
        self.store.unlink(missing_ok=True)

    def end(self):
        """In order: the store is one that was closed."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def keep_store(self):
        """What a kill would leave now, for put_back()."""
        self.stop()
        subprocess.run(["cp", "--sparse=always", self.store, self.older], check=True)
        self.resume()

    def put_back(self):
        """The store is as it was kept. Of a brick that does not run."""
        subprocess.run(["cp", "--sparse=always", self.older, self.store], check=True)


class Etcd(Member):
    def start(self, names):
        """`names`: all members, by their addresses. What it has stored it goes on with."""
        client, peer = (f"http://{self.node.address}:{port}" for port in (ETCD_PORT, ETCD_PEER_PORT))
        self.launch("etcd", "--name", self.name, "--data-dir", self.world.work / f"{self.name}.data", "--logger", "zap", "--log-level", "error",
                    "--unsafe-no-fsync", "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                    "--initial-advertise-peer-urls", peer, "--initial-cluster", ",".join(f"{name}=http://{address}:{ETCD_PEER_PORT}"
                                                                                         for address, name in names.items()))

    @property
    def endpoint(self):
        return f"{self.node.address}:{ETCD_PORT}"


def etcd_leader(members, watcher):
    """The member that says so of itself, or None. `watcher`: the node to ask from."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        done = subprocess.run([*watcher.prefix(), "timeout", "5", "etcdctl", "--endpoints", ",".join(one.endpoint for one in members if one.is_running()),
                               "--command-timeout", "2s", "endpoint", "status", "--write-out", "json"],
                              env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, check=False)
        for answer in json.loads(done.stdout):
            if answer["Status"]["leader"] == answer["Status"]["header"]["member_id"]:
                return next(one for one in members if answer["Endpoint"] == one.endpoint)
    return None


def has_etcd():
    return shutil.which("etcd") and shutil.which("etcdctl")
