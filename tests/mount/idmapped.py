"""An id-mapped mount of a directory on the mount: idmapped.py DIRECTORY. As root; exit 77 where the kernel has none for FUSE."""
import ctypes
import errno
import os
import signal
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, AT_EMPTY_PATH, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH = 1, 0x1000, 0x8000, 4
MOUNT_ATTR_IDMAP = 0x00100000
HOST = 100_000  # what is N on the volume is HOST + N through the mapped mount
MANY = 65_536


class MountAttr(ctypes.Structure):
    _fields_ = [("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64), ("userns", ctypes.c_uint64)]


def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def user_namespace():
    """One in which N is HOST + N, by a process that waits in it."""
    pipe = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.unshare(0x10000000)
        os.write(pipe[1], b"x")
        signal.pause()
    os.read(pipe[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{name}", "w") as ids:
            ids.write(f"0 {HOST} {MANY}")
    fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    return pid, fd


def map_ids(source, target):
    tree = call(SYS_OPEN_TREE, -100, source.encode(), OPEN_TREE_CLONE | os.O_CLOEXEC)
    pid, namespace = user_namespace()
    try:
        attributes = MountAttr(set=MOUNT_ATTR_IDMAP, userns=namespace)
        call(SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH | AT_RECURSIVE, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)))
        call(SYS_MOVE_MOUNT, tree, b"", -100, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def as_user(uid, gid, groups, action):
    """Runs it as another; the errno of what it raises, or 0."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def owner(path):
    found = os.lstat(path)
    return found.st_uid, found.st_gid


def make_all(directory):
    os.close(os.open(f"{directory}/file", os.O_CREAT | os.O_WRONLY, 0o644))
    os.mkdir(f"{directory}/dir")
    os.mkfifo(f"{directory}/fifo")
    os.symlink("x", f"{directory}/link")
    os.link(f"{directory}/file", f"{directory}/hard")
    fd = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"x")
    if libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, f"{directory}/temporary".encode(), 0x400) != 0:  # AT_SYMLINK_FOLLOW
        raise OSError(ctypes.get_errno(), "linkat")


def main(directory):
    plain, mapped = f"{directory}/plain", f"{directory}/mapped"
    os.mkdir(plain)
    os.mkdir(mapped)
    os.chown(plain, 1000, 1000)
    try:
        map_ids(plain, mapped)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS) and tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12):
            sys.exit(77)
        raise
    try:
        check(plain, mapped)
    finally:
        libc.umount2(mapped.encode(), 2)


def check(plain, mapped):
    user = HOST + 1000
    assert owner(mapped) == (user, user) and owner(plain) == (1000, 1000)
    assert (code := as_user(user, user, [], lambda: make_all(mapped))) == 0, os.strerror(code)
    for name in ("file", "dir", "fifo", "link", "hard", "temporary"):
        assert owner(f"{plain}/{name}") == (1000, 1000), (name, owner(f"{plain}/{name}"))
        assert owner(f"{mapped}/{name}") == (user, user), name
    assert as_user(1000, 1000, [], lambda: make_all(mapped)) == errno.EACCES, "he is nobody there"
    assert as_user(user, user, [], lambda: os.mkdir(f"{plain}/x")) == errno.EACCES
    assert as_user(0, 0, [], lambda: os.mkdir(f"{mapped}/of_root")) == errno.EOVERFLOW, "root is not in the map"

    # Owners and modes are changed in the terms of the mount.
    os.chown(f"{mapped}/file", HOST + 7, HOST + 8)
    assert owner(f"{plain}/file") == (7, 8)
    os.chown(f"{mapped}/file", user, user)
    assert as_user(user, user, [], lambda: os.chmod(f"{mapped}/file", 0o600)) == 0
    assert as_user(HOST + 1, HOST + 1, [], lambda: os.chmod(f"{mapped}/file", 0o666)) == errno.EPERM
    assert as_user(HOST + 1, HOST + 1, [], lambda: os.open(f"{mapped}/file", os.O_RDONLY)) == errno.EACCES

    # Whoever changes the bytes of a set-uid program takes its bits away, but for root; also by what names no user.
    path = f"{mapped}/file"
    def fallocated():
        fd = os.open(path, os.O_RDWR)
        if libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(8192)) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")
    def written():
        os.write(os.open(path, os.O_WRONLY), b"x")
    def copied():
        assert os.copy_file_range(os.open(f"{mapped}/temporary", os.O_RDONLY), os.open(path, os.O_WRONLY), 1) == 1
    def truncated():
        os.truncate(path, 100)
    for action in (fallocated, written, copied, truncated):
        for who, kept in ((user, False), (0, True)):
            os.chmod(path, 0o6777)
            assert as_user(who, who, [], action) == 0, (action.__name__, who)
            assert (os.stat(path).st_mode & 0o6000 == 0o6000) == kept, (action.__name__, who, oct(os.stat(path).st_mode))

    # A set-group-id directory, by members of its group and by others.
    shared = f"{mapped}/dir"
    os.chown(shared, user, HOST + 500)
    os.chmod(shared, 0o2777)
    for uid, groups in ((user, [HOST + 500]), (HOST + 2, [])):
        name = f"{shared}/{uid}"
        assert as_user(uid, uid, groups, lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o2775))) == 0
        assert owner(f"{plain}/dir/{uid}") == (uid - HOST, 500)
        assert as_user(uid, uid, groups, lambda: os.chmod(name, 0o2755)) == 0
        assert bool(os.stat(name).st_mode & stat.S_ISGID) == (HOST + 500 in groups), name
        assert as_user(uid, uid, groups, lambda: os.mkdir(f"{name}.dir")) == 0
        assert os.stat(f"{name}.dir").st_mode & stat.S_ISGID, "a directory has it from its parent"

    # ACLs name users of the mount.
    subprocess.run(["setfacl", "-m", f"u:{HOST + 3}:rw", path], check=True)
    shown = subprocess.run(["getfacl", "-n", "--absolute-names", f"{plain}/file"], check=True, capture_output=True, text=True).stdout
    assert "user:3:rw-" in shown, shown
    assert as_user(HOST + 3, HOST + 3, [], lambda: os.close(os.open(path, os.O_RDWR))) == 0
    # Renames leave owners, a whiteout has the caller's.
    assert as_user(user, user, [], lambda: os.rename(f"{mapped}/fifo", f"{mapped}/pipe")) == 0
    assert owner(f"{plain}/pipe") == (1000, 1000)


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1])
