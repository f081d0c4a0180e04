# SPDX-License-Identifier: Apache-2.0
"""Systems over RDMA, where there is a device: brickfs, and what the kernel has. As tests/rdma/with_device starts it,
BRICKFS_RDMA_ADDRESS says where the device is; the kernel's servers are set up in the test guest only, which is thrown away.
"""

import glob
import os
import subprocess

import systems
from systems import Missing, need, run


def device_address():
    address = os.environ.get("BRICKFS_RDMA_ADDRESS")
    if not address:
        raise Missing("no RDMA device: run this by tests/rdma/with_device")
    return address


def need_guest():
    if os.environ.get("BRICKFS_RDMA_GUEST") != "1":
        raise Missing("it changes the kernel's settings: run this by tests/rdma/guest")


def set_kernel(path, value):
    with open(path, "w") as file:
        file.write(value)


class OverRdma:
    def source(self):
        return systems.start_brickd(self, "rdma", device_address())


class BrickfsRdma(OverRdma, systems.Brickfs):
    name = "brickfs rdma"


class BrickfsRdmaWriteback(BrickfsRdma):
    name = "brickfs rdma, writeback=on"
    writeback = "on"


class RawBrickRdma(OverRdma, systems.RawBrick):
    name = "raw brick, rdma"


class LibraryBlocksRdma(OverRdma, systems.Library):
    name = "library blocks, rdma"
    way = "blocks"


class LibraryFilesRdma(OverRdma, systems.Library):
    name = "library files, rdma"
    way = "files"


class Nfs(systems.System):
    """A tmpfs, exported `sync`."""

    name = "NFS 4.2, rdma"
    packages = ("nfs-kernel-server", "nfs-common", "rpcbind")
    state = "/var/lib/nfs"

    def start(self):
        address = device_address()
        need_guest()
        need("rpc.nfsd", "rpc.mountd", "exportfs", "rpcbind", "mount.nfs")
        for module in ("nfsd", "nfs", "rpcrdma"):
            run("modprobe", module)
        below, path = self.tmpfs("below"), self.directory("mnt")
        run("mount", "-t", "tmpfs", "nfsstate", self.state)
        self.mounts.append(self.state)
        for name in ("v4recovery", "rpc_pipefs", "sm", "sm.bak"):
            os.makedirs(f"{self.state}/{name}")
        for name in ("etab", "rmtab", "state"):
            set_kernel(f"{self.state}/{name}", "")
        if not os.path.ismount("/proc/fs/nfsd"):
            run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        os.makedirs("/run/rpcbind", exist_ok=True)
        run("rpcbind")
        for name in ("nfsv4leasetime", "nfsv4gracetime"):
            set_kernel(f"/proc/fs/nfsd/{name}", "10")
        run("exportfs", "-o", "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0", f"*:{below}")
        run("rpc.mountd")
        run("rpc.nfsd", "-V", "4.2", "8")
        set_kernel("/proc/fs/nfsd/portlist", "rdma 20049")
        run("mount", "-t", "nfs", "-o", "rdma,port=20049,vers=4.2", f"{address}:/", path)
        self.mounts.append(path)
        return path


class NvmeExt4(systems.System):
    """A RAM disk as an NVMe-oF namespace, with ext4: a file system of one host."""

    name = "ext4 on NVMe-oF, rdma"
    packages = ("nvme-cli", "e2fsprogs")
    subsystem = "brickfs-bench"
    target = "/sys/kernel/config/nvmet"
    host = "11111111-2222-4333-8444-555555555555"
    connected = False

    def start(self):
        address = device_address()
        need_guest()
        need("nvme", "mkfs.ext4")
        run("modprobe", "brd", "rd_nr=1", f"rd_size={self.size * 1024}")
        for module in ("nvmet-rdma", "nvme-rdma", "ext4"):
            run("modprobe", module)
        if not os.path.isdir(self.target):
            run("mount", "-t", "configfs", "configfs", "/sys/kernel/config")
        namespace, port = f"{self.target}/subsystems/{self.subsystem}/namespaces/1", f"{self.target}/ports/1"
        os.makedirs(namespace)
        os.makedirs(port)
        set_kernel(f"{self.target}/subsystems/{self.subsystem}/attr_allow_any_host", "1")
        set_kernel(f"{namespace}/device_path", "/dev/ram0")
        set_kernel(f"{namespace}/enable", "1")
        for name, value in (("trtype", "rdma"), ("adrfam", "ipv4"), ("traddr", address), ("trsvcid", "4420")):
            set_kernel(f"{port}/addr_{name}", value)
        os.symlink(f"{self.target}/subsystems/{self.subsystem}", f"{port}/subsystems/{self.subsystem}")
        os.makedirs("/run/nvme", exist_ok=True)
        run("nvme", "connect", "-t", "rdma", "-n", self.subsystem, "-a", address, "-s", "4420",
            f"--hostnqn=nqn.2014-08.org.nvmexpress:uuid:{self.host}", f"--hostid={self.host}")
        self.connected = True
        systems.until(lambda: glob.glob("/dev/nvme*n1"), self.name)
        device, path = glob.glob("/dev/nvme*n1")[0], self.directory("mnt")
        run("mkfs.ext4", "-q", "-F", device)
        run("mount", device, path)
        self.mounts.append(path)
        return path

    def stop(self):
        super().stop()
        if self.connected:
            subprocess.run(["nvme", "disconnect", "-n", self.subsystem], capture_output=True, timeout=60)


OVER_RDMA = (BrickfsRdma, BrickfsRdmaWriteback, Nfs, NvmeExt4, LibraryFilesRdma, LibraryBlocksRdma, RawBrickRdma)
