# SPDX-License-Identifier: Apache-2.0
"""What is measured: each is set up on this machine, used through a directory, and taken down again without a trace."""

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import time

import sources

SWITCH = "/sys/module/fuse/parameters/enable_uring"  # the kernel's, of FUSE over io_uring


class Missing(Exception):
    pass


@contextlib.contextmanager
def switch_kept():
    """Whatever is mounted meanwhile may turn it on."""
    before = None
    if os.path.exists(SWITCH):
        with open(SWITCH) as switch:
            before = switch.read()
    try:
        yield
    finally:
        if before is not None:
            with open(SWITCH, "w") as switch:
                switch.write(before)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Missing(" ".join([f"{os.path.basename(command[0])}:"] + (done.stderr or done.stdout).strip().splitlines()[-1:]))
    return done.stdout


def need(*programs):
    for program in programs:
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            raise Missing(f"{program} is not installed")


def until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Missing(f"{what} takes too long")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class System:
    """`work`: a directory that it makes and removes. `size`: room in MiB. `packages`: what it needs, of Debian's."""

    name = ""
    packages = ()

    def __init__(self, work, build, size):
        self.work, self.build, self.size = work, build, size
        self.mounts, self.processes = [], []
        self.path = None  # where it is used: what start() returned
        os.makedirs(work)

    def start(self):
        """Raises Missing with the reason why there can be none here. A system that has a directory returns it."""
        raise NotImplementedError

    def measure(self, row):
        """A number, or None where the row means nothing here."""
        return row.measure(self.path)

    def stop(self):
        for mount in reversed(self.mounts):
            if subprocess.run(["umount", mount], capture_output=True, timeout=60).returncode != 0:
                subprocess.run(["umount", "-l", mount], capture_output=True, timeout=60)
        for process in reversed(self.processes):  # a server after its clients
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.work, ignore_errors=True)

    def directory(self, name):
        path = os.path.join(self.work, name)
        os.makedirs(path, exist_ok=True)
        return path

    def tmpfs(self, name):
        path = self.directory(name)
        run("mount", "-t", "tmpfs", "-o", f"size={self.size}M", "tmpfs", path)
        self.mounts.append(path)
        return path

    def spawn(self, *command):
        with open(os.path.join(self.work, f"{os.path.basename(command[0])}{len(self.processes)}.log"), "w") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)

    def wait_mounted(self, path):
        until(lambda: os.path.ismount(path), self.name)
        self.mounts.append(path)
        return path


class Tmpfs(System):
    name = "tmpfs"

    def start(self):
        return self.tmpfs("mnt")


class Brickfs(System):
    """With a brick inside the client."""

    name = "brickfs memory:"
    io_uring = "off"
    writeback = "off"
    more = ()  # options

    def source(self):
        return f"memory:{self.size}M"

    def start(self):
        source, path = self.source(), self.directory("mnt")
        self.spawn(os.path.join(self.build, "fs/brickfs"), source, path, "-f", "-o",
                   ",".join([f"io_uring={self.io_uring}", f"writeback={self.writeback}", *self.more]))
        return self.wait_mounted(path)


class BrickfsRing(Brickfs):
    name = "brickfs memory:, io_uring"
    io_uring = "on"


def start_brickd(system, scheme, address):
    """Returns the URL of its default volume."""
    port_file = os.path.join(system.work, f"port{len(system.processes)}")
    system.spawn(os.path.join(system.build, "server/brickd"), "--listen", f"{scheme}://{address}:0", "--memory", f"{system.size}M",
                 "--port-file", port_file, "--foreground")
    until(lambda: os.path.exists(port_file) and os.path.getsize(port_file) > 0, "brickd")
    with open(port_file) as file:
        return f"{scheme}://{address}:{file.readline().strip()}/default"


class OverTcp:
    def source(self):
        return start_brickd(self, "tcp", "127.0.0.1")


class BrickfsTcp(OverTcp, Brickfs):
    name = "brickfs tcp"


class RawBrick(System):
    """A brick without a file system, measured by brickctl bench: what the transport gives."""

    def source(self):
        """The URL of a volume that nobody holds."""
        raise NotImplementedError

    def start(self):
        self.url = self.source()

    def measure(self, row):
        if row.raw is None:
            return None
        bench = os.path.join(self.build, "tools/brickctl")
        return row.raw.number(json.loads(run(bench, "bench", self.url, "--json", *row.raw.arguments()))["results"][0])


class RawBrickTcp(OverTcp, RawBrick):
    name = "raw brick, tcp"


class Library(RawBrick):
    """The same transfers by libbrickfs, with fio's engine for it."""

    packages = ("fio", "gcc", "make", "dpkg-dev")

    def start(self):
        need("fio", "cc", "make")
        self.engine = run(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fio_engine"), self.build).strip()
        super().start()

    def measure(self, row):
        return None if row.raw is None else row.raw.by_engine(self.engine, self.url, self.way)


class LibraryBlocksTcp(OverTcp, Library):
    name = "library blocks, tcp"
    way = "blocks"


class LibraryFilesTcp(OverTcp, Library):
    name = "library files, tcp"
    way = "files"


class RingTcp(BrickfsTcp):
    """Open files of a mount past the kernel."""

    name = "brickfs tcp, ring into a mount"
    more = ("ring=on",)
    packages = Library.packages

    def start(self):
        need("fio", "cc", "make")
        self.engine = run(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fio_engine"), self.build).strip()
        self.mounted = super().start()

    def measure(self, row):
        return None if row.raw is None else row.raw.by_engine(self.engine, self.mounted, "ring")


class BrickfsTcpRing(BrickfsTcp):
    name = "brickfs tcp, io_uring"
    io_uring = "on"


class BrickfsTcpWriteback(BrickfsTcpRing):
    """Pages that were written stay in the kernel for a while, as with most of its peers: no write() says ENOSPC then."""

    name = "brickfs tcp, io_uring, writeback=on"
    writeback = "on"


class BrickfsShared(BrickfsTcp):
    """`shared`, and nobody else has mounted it: what that alone costs."""

    name = "brickfs tcp, shared"
    more = ("shared",)


class BrickfsTwoMachines(BrickfsShared):
    """Two mounts of one volume; the first coordinates. The other one is there, and does nothing."""

    def start(self):
        source = self.source()
        for name in ("first", "second"):
            self.spawn(os.path.join(self.build, "fs/brickfs"), source, self.directory(name), "-f", "-o", ",".join(self.more))
            self.wait_mounted(self.directory(name))
        return self.directory(self.used)


class BrickfsCoordinator(BrickfsTwoMachines):
    name = "brickfs tcp, shared, coordinator"
    used = "first"


class BrickfsMember(BrickfsTwoMachines):
    name = "brickfs tcp, shared, member"
    used = "second"


class BrickfsStriped(BrickfsTcpRing):
    name = "brickfs tcp, io_uring, 2 bricks striped"

    def source(self):
        first, second = (start_brickd(self, "tcp", "127.0.0.1").removeprefix("tcp://").removesuffix("/default") for _ in range(2))
        return f"tcp://{first}+{second}/default"


class BrickfsCopies(BrickfsTcpRing):
    """On two bricks, each of which has everything."""

    name = "brickfs tcp, io_uring, 2 copies"
    packages = ("etcd-server", "etcd-client")

    def source(self):
        need("etcd", "etcdctl")
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.spawn("etcd", "--name", "bench", "--data-dir", os.path.join(self.work, "etcd"), "--logger", "zap", "--log-level", "error",
                   "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer, "--initial-cluster", f"bench={peer}")
        healthy = ["etcdctl", "--endpoints", client, "endpoint", "health"]
        until(lambda: subprocess.run(healthy, capture_output=True, timeout=60, env={**os.environ, "ETCDCTL_API": "3"}).returncode == 0, "etcd")
        source = f"etcd://{client.removeprefix('http://')}/default"
        bricks = [start_brickd(self, "tcp", "127.0.0.1") for _ in range(2)]
        run(os.path.join(self.build, "tools/brickctl"), "set", "create", source, "--replicas", "2", *bricks)
        return source


class PassThrough(System):
    """libfuse's own example on tmpfs: what any FUSE file system pays over /dev/fuse."""

    name = "pass-through FUSE"
    packages = ("gcc", "g++", "meson", "ninja-build", "pkg-config", "libnuma-dev", "liburing-dev")
    more = ()  # options

    def program(self):
        """libfuse 3.18 is the first that knows io_uring: built once, from the source package of Debian's newest suite."""
        cache = os.path.join(os.path.abspath(self.build), "cache")
        tree = os.path.join(cache, "libfuse")
        program = os.path.join(tree, "build", "example", "passthrough_ll")
        if not os.path.exists(program):
            need("gcc", "g++", "meson", "ninja", "pkg-config")
            tarball = sources.tarball(self.build, "fuse3", "sid")
            shutil.rmtree(tree, ignore_errors=True)
            os.makedirs(tree)
            run("tar", "-xf", tarball, "-C", tree, "--strip-components=1")
            run("meson", "setup", "--buildtype=release", "-Ddefault_library=static", "-Dutils=false", "-Dtests=false", os.path.join(tree, "build"), tree)
            run("ninja", "-C", os.path.join(tree, "build"), "example/passthrough_ll")
        return program

    def start(self):
        program = self.program()
        below, path = self.tmpfs("below"), self.directory("mnt")
        self.spawn(program, "-f", "-o", ",".join([f"source={below},cache=always", *self.more]), path)
        return self.wait_mounted(path)

    def measure(self, row):
        """It keeps a descriptor for each inode that the kernel knows."""
        return None if row.inodes > resource.getrlimit(resource.RLIMIT_NOFILE)[0] else super().measure(row)


class PassThroughRing(PassThrough):
    name = "pass-through FUSE, io_uring"
    more = ("io_uring",)

    def start(self):
        with open(SWITCH, "w") as switch:
            switch.write("Y")
        return super().start()


class Gluster(System):
    """Each brick on a tmpfs."""

    name = "GlusterFS"
    packages = ("glusterfs-server",)
    bricks, layout = 1, ()
    daemon_of = None  # the one that started glusterd, for all: it is stopped last
    volume = None

    def start(self):
        need("glusterd", "gluster", "glusterfs")
        if Gluster.daemon_of is None:
            if subprocess.run(["pidof", "glusterd"], capture_output=True).returncode == 0:
                raise Missing("a glusterd runs here already")
            self.spawn("glusterd", "-N")
            Gluster.daemon_of = self
        until(lambda: subprocess.run(["gluster", "volume", "list"], capture_output=True).returncode == 0, "glusterd")
        host = socket.gethostname()
        bricks = [f"{host}:{os.path.join(self.tmpfs(f'below{number}'), 'brick')}" for number in range(self.bricks)]
        volume = f"bench{os.getpid()}x{self.bricks}"  # one glusterd has them all
        run("gluster", "--mode=script", "volume", "create", volume, *self.layout, *bricks, "force")
        self.volume = volume
        run("gluster", "--mode=script", "volume", "start", volume)
        path = self.directory("mnt")
        run("mount", "-t", "glusterfs", f"{host}:/{volume}", path)
        self.mounts.append(path)
        return path

    def stop(self):
        if self.volume:
            path = os.path.join(self.work, "mnt")
            if path in self.mounts:
                subprocess.run(["umount", "-l", path], capture_output=True, timeout=60)
                self.mounts.remove(path)
            for verb, *more in (("stop", "force"), ("delete",)):
                subprocess.run(["gluster", "--mode=script", "volume", verb, self.volume, *more], capture_output=True, timeout=60)
        super().stop()


class GlusterReplicated(Gluster):
    name = "GlusterFS replica 2"
    bricks, layout = 2, ("replica", "2")


class NbdExt4(System):
    name = "ext4 on nbdfuse"
    packages = ("nbdkit", "nbdfuse", "e2fsprogs")

    def start(self):
        need("nbdkit", "nbdfuse", "mkfs.ext4")
        device, path = self.directory("nbd"), self.directory("mnt")
        self.spawn("nbdfuse", device, "--command", "nbdkit", "-s", "memory", f"{self.size}M")
        image = os.path.join(self.wait_mounted(device), "nbd")
        run("mkfs.ext4", "-q", "-F", "-N", "250000", image)  # as many as the battery makes
        run("mount", "-o", "loop", image, path)
        self.mounts.append(path)
        return path


class Sshfs(System):
    """On tmpfs."""

    name = "sshfs"
    packages = ("sshfs", "openssh-server")

    def start(self):
        need("sshfs", "ssh-keygen", "sshd")
        os.makedirs("/run/sshd", exist_ok=True)
        host, user = os.path.join(self.work, "host"), os.path.join(self.work, "user")
        for key in (host, user):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        port = free_port()
        self.spawn("/usr/sbin/sshd", "-D", "-f", "/dev/null", "-p", port, "-h", host, "-o", "ListenAddress=127.0.0.1",
                   "-o", f"AuthorizedKeysFile={user}.pub", "-o", "StrictModes=no", "-o", "Subsystem=sftp internal-sftp",
                   "-o", "PidFile=none", "-o", "PermitRootLogin=prohibit-password")
        time.sleep(0.5)
        path = self.directory("mnt")
        run("sshfs", "-p", port, "-o", f"IdentityFile={user},StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null",
            f"root@127.0.0.1:{self.tmpfs('below')}", path)
        return self.wait_mounted(path)


HERE = (BrickfsRing, Brickfs, BrickfsTcpRing, BrickfsTcpWriteback, BrickfsTcp, BrickfsShared, BrickfsCoordinator, BrickfsMember, BrickfsStriped,
        BrickfsCopies, Gluster, GlusterReplicated, NbdExt4, Sshfs, PassThroughRing, PassThrough, RingTcp, LibraryFilesTcp, LibraryBlocksTcp, RawBrickTcp,
        Tmpfs)
