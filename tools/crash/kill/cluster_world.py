# SPDX-License-Identifier: Apache-2.0
"""A replicated set: bricks, etcd and two clients, each in a network namespace of its own; what is disturbed of it, and what must not be lost."""
import json
import os
import shutil
import signal
import subprocess
import time

from members import ETCD_PORT, Brick, Etcd, etcd_leader
from network import Network
from world import PATIENCE, Failure, Mount, Scene, wait_for

WITNESS_BYTES = 4096
VOLUMES = 8  # of each brick, one for each copy that may come to it
IN_SYNC_WITHIN = 180  # seconds, once everything is healed


class Cluster(Scene):
    def __init__(self, arguments, work, clients=("client", "other")):
        super().__init__(arguments.build, work, "")
        self.size = arguments.size
        self.durable = arguments.durable
        self.copies = arguments.copies
        self.loses_all = arguments.lose_all
        self.network = Network()
        self.watcher = self.network.add("watcher")
        self.clients = [self.network.add(name) for name in clients]  # the first one mounts
        self.etcds = [Etcd(self, self.network.add(f"etcd{i + 1}")) for i in range(arguments.etcd)]
        volumes = ["default"] + [f"default.{i}" for i in range(2, VOLUMES + 1)]
        self.first_bricks = arguments.bricks  # that the set is made of; the others are empty, until they replace one
        self.bricks = [Brick(self, self.network.add(f"brick{i + 1}"), arguments.durable, volumes) for i in range(arguments.bricks + arguments.spares)]
        self.source = self.source_by(self.etcds)
        self.tool_prefix = self.watcher.prefix()
        self.mount = None
        self.soft = False
        self.calm()

    # --- from the beginning to the end

    def start(self):
        self.start_servers()
        self.mount = self.new_mount()

    def start_servers(self):
        for brick in self.bricks:
            brick.start()
        for one in self.etcds:
            self.start_etcd(one)
        wait_for(lambda: self.leader() is not None, PATIENCE, "the election of etcd's leader")
        made = self.brickctl("set", "create", self.source, "--replicas", str(self.copies), *(brick.url for brick in self.bricks[:self.first_bricks]))
        if made.returncode != 0:
            raise Failure(f"brickctl set create: {made.stderr.strip()}")

    def start_etcd(self, one):
        one.start({other.node.address: other.name for other in self.etcds})

    def leader(self):
        return etcd_leader(self.etcds, self.watcher)

    def leave(self):
        super().leave()
        for member in self.bricks + self.etcds:
            member.leave()
        self.network.close()

    def save(self, into):
        """All that tells about a failure; stores with their holes."""
        into.mkdir(parents=True, exist_ok=True)
        (into / "status.txt").write_text(self.brickctl("set", "status", self.source).stdout)
        for log in self.work.glob("*.log"):
            shutil.copy(log, into)
        shutil.copytree(self.work / "log", into / "log", dirs_exist_ok=True)
        for store in self.work.glob("*.store"):
            subprocess.run(["cp", "--sparse=always", store, into], check=False)
        with open(into / "map.txt", "wb") as file:
            subprocess.run([*self.watcher.prefix(), "timeout", "5", "etcdctl", "--endpoints", self.etcds[0].endpoint, "get", "--prefix", "/brickfs/"],
                           env={**os.environ, "ETCDCTL_API": "3"}, stdout=file, stderr=file, check=False)

    # --- the mount

    def new_mount(self, *options, wait=True):
        self.prefix = self.clients[0].prefix()
        own = (("durable",) if self.durable else ()) + (("soft", f"timeo={PATIENCE}") if self.soft else ())
        return Mount(self, f"mnt{self.mounted}", own + options, wait)

    def choose_mount(self, random):
        """One mount of four is soft: nothing that is healed in time may fail there, either."""
        self.soft = random.random() < 0.25

    def readers(self):
        """Of a set that nobody has: clients that read it side by side. Of one that names the same endpoint a second one would be the mount once more."""
        mounts = []
        for turn, node in enumerate(self.clients[:len(self.etcds)]):
            self.prefix = node.prefix()
            self.source = self.source_by([self.etcds[turn]])
            mounts.append(Mount(self, f"mnt{self.mounted}", ("ro",)))
        self.source = self.source_by(self.etcds)
        return mounts

    @staticmethod
    def source_by(etcds):
        return "etcd://" + ",".join(f"{one.node.address}:{ETCD_PORT}" for one in etcds) + "/default"

    def kill_client(self):
        self.client_died = True
        self.mount.kill()

    def remount(self):
        """Of a client that has died; what cannot be mounted now is tried again when all is healed."""
        if self.mount.process.poll() is not None:
            self.mount = self.new_mount(*(("steal",) if self.former_lives else ()), wait=False)

    def take_over(self):
        """By the other client. The former mount."""
        former = self.mount
        self.client_died = self.former_lives = True
        self.clients.reverse()
        self.mount = self.new_mount("steal", wait=False)
        return former

    def ensure_mounted(self):
        end = time.monotonic() + 2 * PATIENCE
        while not self.mount.serves():
            if time.monotonic() > end:
                raise Failure(f"it cannot be mounted again: {self.last_line('brickfs.log')}")
            self.remount()
            time.sleep(0.1)

    # --- what is known of the copies

    def status(self):
        """None: it cannot be told."""
        done = self.brickctl("set", "status", self.source, "--json")
        return json.loads(done.stdout) if done.stdout else None

    def is_well(self):
        status = self.status()
        return status is not None and status["verdict"] == "well" and not any(copy["leaving"] for place in status["places"] for copy in place["replicas"])

    def spares(self):
        """Bricks that have no copy; None, if that cannot be told."""
        status = self.status()
        if status is None:
            return None
        used = {copy["brick"] for place in status["places"] for copy in place["replicas"]}
        return [brick for brick in self.bricks if brick.url not in used]

    def empty_spares(self):
        """One that was dead when it was replaced has its blocks still."""
        for brick in self.spares() or []:
            brick.wipe()
            brick.start()

    def change(self, what, *bricks):
        """Whether it is in the map now: the client does it."""
        waits = () if what == "add" else ("--no-wait",)  # which copies nothing
        return self.brickctl("set", what, self.source, *(brick.url for brick in bricks), *waits).returncode == 0

    def await_well(self):
        wait_for(self.is_well, IN_SYNC_WITHIN, "the return of all copies")

    def calm(self):
        """Everything is healed and in sync."""
        self.disturbed = set()  # bricks that somebody may not see
        self.lost = set()  # bricks that had nothing any more
        self.narrowed = set()  # bricks from or to which large packets are lost
        self.client_died = False
        self.former_lives = False

    def may_lose(self, brick):
        """Whether each place has another copy then, which is in sync and was left in peace."""
        if self.loses_all:
            return True
        lost = self.lost | {brick}
        if len(lost) >= self.copies or self.disturbed - lost:
            return False
        urls = {one.url for one in lost}
        status = self.status()
        return status is not None and all(
            any(copy["state"] == "in sync" and copy["answers"] and not copy["lost"] and copy["brick"] not in urls for copy in place["replicas"])
            for place in status["places"])

    def compare(self):
        """The copies of a set that nobody has, byte for byte."""
        done = self.brickctl("set", "scrub", self.source)
        (self.work / "scrub.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise Failure(f"brickctl set scrub ends with {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[:1]}")

    # --- what faults need

    @staticmethod
    def pause(seconds):
        time.sleep(seconds)

    def stop_client(self):
        self.disturbed |= set(self.bricks)
        self.mount.signal(signal.SIGSTOP)

    @staticmethod
    def resume_client(mount):
        if mount.process.poll() is None:
            mount.signal(signal.SIGCONT)

    def kill_former(self, mount):
        self.former_lives = False
        mount.kill()

    def write_witness(self, text):
        with open(self.mount.point / "witness", "wb") as file:
            file.write(text.encode().ljust(WITNESS_BYTES))
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def read_witness(mount):
        """By whoever may be a client no more: empty, if it does not say."""
        done = subprocess.run(["timeout", "-s", "KILL", "5", "dd", f"if={mount.point}/witness", "iflag=direct", f"bs={WITNESS_BYTES}", "status=none"],
                              capture_output=True, check=False)
        return done.stdout.decode().strip()
