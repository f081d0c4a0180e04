# SPDX-License-Identifier: Apache-2.0
"""Real mounts and loads (Scene), and for `kill` a brick and the network to it. Whatever happens, leave() takes all of it away."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from proxy import Proxy

PATIENCE = 60  # seconds that a mount, an unmount or a verification may take


class Failure(Exception):
    """The product did what it must not."""


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what} takes more than {seconds} s")
        time.sleep(0.02)


def program(tree, place):
    """A program of the project: `place` in a build directory, or installed under a prefix."""
    name = pathlib.Path(place).name
    for path in (tree / place, tree / "bin" / name, tree / "libexec/brickfs" / name):
        if path.exists():
            return path
    raise Failure(f"there is no {name} in {tree}")


def mount_minor(point):
    """Of the FUSE connection behind a mount point, or None. Asks nobody who might hang."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4] == str(point):
            return fields[2].split(":")[1]
    return None


def abort_connection(minor):
    """What waits for a brickfs that is no more goes on."""
    connections = pathlib.Path("/sys/fs/fuse/connections")
    if not connections.is_dir():  # a container's /sys may lack it
        return
    if not any(connections.iterdir()):
        subprocess.run(["mount", "-t", "fusectl", "none", connections], stderr=subprocess.DEVNULL, check=False)
    with contextlib.suppress(OSError):
        (connections / minor / "abort").write_text("1")


def waits_in(pid):
    """Of each of its threads where it is in the kernel."""
    places = set()
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            places.add((thread / "wchan").read_text())
    return ", ".join(sorted(places))


class Mount:
    """A brickfs process in the foreground and its mount point."""

    def __init__(self, world, name, options=(), wait=True, log="brickfs.log"):
        self.point = world.work / name
        self.point.mkdir(exist_ok=True)
        command = [*world.prefix, program(world.build, "fs/brickfs"), world.source, self.point, "-f"]
        if options:
            command += ["-o", ",".join(options)]
        self.log = open(world.work / log, "ab")
        self.process = subprocess.Popen(command, stderr=self.log, stdin=subprocess.DEVNULL)
        self.minor = None  # of its connection, once that was seen
        world.mounts.append(self)
        world.mounted += 1

        def is_there():
            if self.process.poll() is not None:
                raise Failure(f"the mount fails: {world.last_line(log)}")
            return self.serves()
        if wait:
            wait_for(is_there, PATIENCE, "a mount")

    def serves(self):
        return self.process.poll() is None and mount_minor(self.point) is not None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """The mount point stays, and refuses all: what is under it must not be found by the workload."""
        self.minor = mount_minor(self.point) or self.minor
        self.process.kill()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise Failure(f"a brickfs that was killed does not end: it waits in {waits_in(self.process.pid)}") from None

    def detach(self):
        if mount_minor(self.point) is not None:
            done = subprocess.run(["umount", "-l", self.point], capture_output=True, text=True, check=False)
            if mount_minor(self.point) is not None:
                print(f"{self.point} stays mounted: {done.stderr.strip()}", file=sys.stderr)

    def unmount(self):
        def unmounts():  # busy as long as processes that were killed have not ended
            return subprocess.run(["timeout", str(PATIENCE), "umount", self.point], capture_output=True, check=False).returncode == 0
        wait_for(unmounts, PATIENCE, "umount")
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("brickfs does not end after umount") from None

    def destroy(self):
        minor = mount_minor(self.point)
        if self.process.poll() is None:
            self.process.kill()
        if minor is not None:
            abort_connection(minor)
            self.detach()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # so the connection is there, and the number not another's
            if minor is None and self.minor is not None:
                abort_connection(self.minor)
        self.log.close()


class Scene:
    """Mounts of `source`, and loads on them."""

    def __init__(self, build, work, source):
        self.build = pathlib.Path(build)
        self.work = pathlib.Path(work)
        self.source = source
        self.prefix = []  # of the command of a mount
        self.tool_prefix = []  # of other commands
        self.mounts = []
        self.mounted = 0  # so far
        self.loads = []

    def brickctl_command(self, *words):
        return [*self.tool_prefix, "timeout", "300", program(self.build, "tools/brickctl"), *words]

    def brickctl(self, *words):
        return subprocess.run(self.brickctl_command(*words), capture_output=True, text=True, check=False)

    def start_load(self, command, environment, name="load"):
        """A process group of its own, so that all of it can be ended. Its output is in NAME.log."""
        with open(self.work / f"{name}.log", "wb") as log:
            load = subprocess.Popen(command, shell=True, env={**os.environ, **environment}, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, start_new_session=True)
        self.loads.append(load)
        return load

    @staticmethod
    def end_load(load):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(load.pid, signal.SIGKILL)
        try:
            load.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("the workload hangs in the file system") from None

    def forget_ended(self):
        """Takes the mounts away whose process has ended."""
        serving = [mount for mount in self.mounts if mount.process.poll() is None]
        for mount in self.mounts:
            if mount not in serving and all(mount.point != other.point for other in serving):
                mount.destroy()
        self.mounts = serving

    def check(self):
        done = self.brickctl("check", self.source)
        (self.work / "check.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise Failure(f"brickctl check ends with {done.returncode}: {(done.stdout + done.stderr).strip().splitlines()[:1]}")

    def last_line(self, name):
        lines = (self.work / name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def leave(self):
        for load in self.loads:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(load.pid, signal.SIGKILL)
        for mount in self.mounts:
            mount.destroy()
        for load in self.loads:
            with contextlib.suppress(subprocess.TimeoutExpired):
                load.wait(10)


class World(Scene):
    """With a brick and a proxy to it."""

    def __init__(self, build, work, size):
        self.proxy = Proxy()
        super().__init__(build, work, f"tcp://127.0.0.1:{self.proxy.port}/default")
        self.size = size
        self.brickd = None
        self.port = 0

    def start_brick(self, memory):
        port_file = self.work / "port"
        port_file.unlink(missing_ok=True)
        with open(self.work / "brickd.log", "ab") as log:
            self.brickd = subprocess.Popen(
                [program(self.build, "server/brickd"), "--listen", f"tcp://127.0.0.1:{self.port}", "--port-file", port_file, "--foreground",
                 "--memory", memory, "--file", self.work / "store", "--size", self.size], stderr=log, stdin=subprocess.DEVNULL)
        wait_for(lambda: port_file.exists() and port_file.read_text().strip(), PATIENCE, "the start of brickd")
        self.port = self.proxy.target = int(port_file.read_text().split()[0])

    def kill_brick(self):
        self.brickd.kill()
        self.brickd.wait(30)

    def leave(self):
        super().leave()
        if self.brickd is not None and self.brickd.poll() is None:
            self.kill_brick()
        self.proxy.close()

    def save(self, into):
        """All that tells about a failure; the store with its holes."""
        into.mkdir(parents=True, exist_ok=True)
        for name in ("brickfs.log", "brickd.log", "load.log", "load-verify.log", "check.log"):
            if (self.work / name).exists():
                shutil.copy(self.work / name, into)
        shutil.copytree(self.work / "log", into / "log", dirs_exist_ok=True)
        subprocess.run(["cp", "--sparse=always", self.work / "store", into / "store"], check=False)
