"""Rules about inodes: set-id bits, what new ones inherit, ACLs, times and what stamps them."""
import ctypes
import itertools
import mmap
import os
import shutil
import stat
import struct
import time

from rule_calls import (
    AT_FDCWD, EXCHANGE, FRIEND, IDS, OTHER, OWNER, ROOT, TICK, answer, as_user, changed, libc, look, make, open_close,
    raw, remove, renameat2, stamps,
)


def set_id_bits():
    """chmod, chown, writing, truncating, allocating: who loses set-uid and set-gid bits of what."""
    def write(path, data=b"x"):
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def allocate(path):
        fd = os.open(path, os.O_WRONLY)
        try:
            os.posix_fallocate(fd, 0, 100)
        finally:
            os.close(fd)

    calls = {
        "chmod_same": lambda p: os.chmod(p, stat.S_IMODE(os.stat(p).st_mode)), "chmod_all": lambda p: os.chmod(p, 0o7777), "chown_self": lambda p: os.chown(p, 1000, 1000),
        "chgrp": lambda p: os.chown(p, -1, 2000), "chgrp_foreign": lambda p: os.chown(p, -1, 3000), "chown_foreign": lambda p: os.chown(p, 1001, -1), "write": write, "write_nothing": lambda p: write(p, b""),
        "truncate": lambda p: os.truncate(p, 0), "truncate_same": lambda p: os.truncate(p, 8), "open_truncate": lambda p: open_close(p, os.O_WRONLY | os.O_TRUNC), "allocate": allocate,
        "setxattr": lambda p: os.setxattr(p, "user.x", b"1"), "utime": os.utime, "link": lambda p: os.link(p, "new"), "rename": lambda p: os.rename(p, "new"),
    }
    for mode, group, kind, (name, call), user in itertools.product((0o6777, 0o2767, 0o4666, 0o2666, 0o1777), (1000, 2000, 3000), ("file", "directory"), calls.items(), IDS):
        make("x", kind, 0o644, 1000, group)
        os.setxattr("x", "user.a", b"1")
        os.chmod("x", mode)
        os.chmod(".", 0o777)
        text = as_user(user, lambda call=call: answer(call, "x"))
        yield f"{name} of {mode:o} {kind}, group {group}, by {user}: {text}; {look('x')} {look('new')}"
        remove("x")
        remove("new")


def file_capabilities():
    """What takes a file's capabilities away."""
    def on_file(call):
        fd = os.open("x", os.O_RDWR)
        try:
            return call(fd)
        finally:
            os.close(fd)

    calls = {
        "write": lambda fd: os.write(fd, b"y"), "write_nothing": lambda fd: os.write(fd, b""), "mmap_write": map_write, "mmap_write_and_fsync": lambda fd: (map_write(fd), os.fsync(fd)),
        "ftruncate": lambda fd: os.ftruncate(fd, 2), "allocate": lambda fd: os.posix_fallocate(fd, 0, 9000), "copy": lambda fd: os.copy_file_range(fd, fd, 4, 0, 100), "splice": splice_into,
        "chmod": lambda fd: os.fchmod(fd, 0o755), "chown": lambda fd: os.fchown(fd, 1000, -1), "utime": os.utime, "setxattr": lambda fd: os.setxattr(fd, "user.x", b"1"),
    }
    net_raw = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
    for (name, call), mode in itertools.product(calls.items(), (0o755, 0o6755)):
        make("x", "file", mode)
        os.setxattr("x", "security.capability", net_raw)
        os.chmod("x", mode)
        text = answer(lambda call=call: bool(on_file(call)))
        yield f"{name} of {mode:o}: {text}; {look('x')} {answer(lambda: os.getxattr('x', 'security.capability').hex())}"
        remove("x")


def creation():
    """Owner, group and mode of what is made: umask, set-group-id directories, default ACLs."""
    def acl(*entries):
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, bits, who) for tag, bits, who in entries)

    nobody = 0xffffffff
    acls = {
        "none": None, "minimal": acl((1, 7, nobody), (4, 5, nobody), (0x20, 1, nobody)), "named": acl((1, 6, nobody), (2, 7, 1001), (4, 5, nobody), (8, 3, 2000), (0x10, 7, nobody), (0x20, 0, nobody)),
        "masked": acl((1, 7, nobody), (2, 7, 1001), (4, 7, nobody), (0x10, 2, nobody), (0x20, 7, nobody)),
    }
    makes = {
        "file": lambda: open_close("d/x", os.O_CREAT | os.O_WRONLY, 0o6777), "file_640": lambda: open_close("d/x", os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o640), "directory": lambda: os.mkdir("d/x", 0o7777), "fifo": lambda: os.mkfifo("d/x", 0o666),
        "regular": lambda: os.mknod("d/x", stat.S_IFREG | 0o2770), "symlink": lambda: os.symlink("target", "d/x"), "socket": lambda: make("d/x", "socket"),
    }
    for (what, rules), mode, umask, (name, call), user in itertools.product(acls.items(), (0o777, 0o2777, 0o7777), (0, 0o027, 0o777), makes.items(), (ROOT, OWNER, OTHER)):
        os.mkdir("d")
        os.chown("d", 0, 2000)
        os.chmod("d", mode)
        if rules is not None:
            os.setxattr("d", "system.posix_acl_default", rules)

        def attempt(call=call, umask=umask):
            os.umask(umask)
            return answer(call)

        text = as_user(user, attempt)
        found = {entry: os.getxattr("d/x", entry, follow_symlinks=False).hex() for entry in sorted(os.listxattr("d/x", follow_symlinks=False))} if os.path.lexists("d/x") else ""
        yield f"{name} by {user} with umask {umask:o} in {mode:o} with {what}: {text}; {look('d/x')} {found}"
        shutil.rmtree("d")


def acls_checked():
    """Permissions by access ACLs of many entries; chmod and the mask."""
    def acl(entries):
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)

    nobody = 0xffffffff
    for mask, named, group in itertools.product((7, 4, 0), (7, 5, 0), (7, 1)):
        make("x", "file", 0o640, 0, 0)
        entries = [(1, 6, nobody), (2, named, 1001)] + [(2, 6, 5000 + n) for n in range(200)] + [(4, 4, nobody), (8, group, 1002)] + [(8, 6, 5000 + n) for n in range(200)] + [(0x10, mask, nobody), (0x20, 0, nobody)]
        text = [answer(os.setxattr, "x", "system.posix_acl_access", acl(entries))]
        for user in (OWNER, FRIEND, OTHER):
            text.append(as_user(user, lambda: " ".join(answer(open_close, "x", flags) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)) + f" {os.access('x', os.X_OK)}"))
        os.chmod("x", 0o710)
        text.append(as_user(FRIEND, lambda: answer(open_close, "x", os.O_RDONLY)))
        text.append(answer(lambda: os.getxattr("x", "system.posix_acl_access").hex()[-80:]))
        yield f"mask {mask}, named {named}, group {group}: {text}; {look('x')}"
        remove("x")


def times():
    """utimensat by owners, writers and others; times far away; what stamps what."""
    omit, now = (1 << 30) - 2, (1 << 30) - 1

    class Spec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    def utimens(path, *values):
        raw(libc.utimensat, AT_FDCWD, os.fsencode(path), (Spec * 2)(Spec(*values[0]), Spec(*values[1])), 0)

    combinations = [((1, 2), (3, 4)), ((0, now), (0, now)), ((0, omit), (0, omit)), ((0, now), (0, omit)), ((0, omit), (0, now)), ((5, 6), (0, omit)), ((0, omit), (5, 6)), ((5, 6), (0, now)), ((5, 1000000000), (5, 6)), ((5, -1), (0, omit)), ((1, omit), (7, omit))]
    for values, (user, mode) in itertools.product(combinations, ((ROOT, 0o600), (OWNER, 0o400), (FRIEND, 0o660), (OTHER, 0o644), (OTHER, 0o666))):
        make("x", "file", mode, 1000, 1000)
        os.utime("x", (100, 200))
        time.sleep(TICK)
        before = os.stat("x").st_ctime_ns
        text = as_user(user, lambda: answer(utimens, "x", *values))
        found = os.stat("x")
        shown = [" now" if at > 10**18 else f" {at}" for at in (found.st_atime_ns, found.st_mtime_ns)]
        yield f"{values} on {mode:o} by {user}: {text}{shown[0]}{shown[1]} {'ctime' if found.st_ctime_ns != before else ''}"
        remove("x")
    make("x", "file")
    for seconds in (0, -1, -(2**31) + 1, 2**31 - 1, 2**31, 2**32, 2**32 + 5, 2**33 + 17, 9000000000):
        os.utime("x", ns=(seconds * 10**9 + 7, seconds * 10**9 + 999999999))
        found = os.stat("x")
        yield f"set to {seconds}: {found.st_atime_ns} {found.st_mtime_ns}"


def stamps_of_calls():
    """mtime and ctime of files, directories and links, call by call."""
    def with_file(flags, action):
        fd = os.open("d/x", flags)
        try:
            action(fd)
        finally:
            os.close(fd)

    calls = {
        "read": lambda: with_file(os.O_RDONLY, lambda fd: os.read(fd, 4)), "write": lambda: with_file(os.O_WRONLY, lambda fd: os.write(fd, b"x")), "write_nothing": lambda: with_file(os.O_WRONLY, lambda fd: os.write(fd, b"")),
        "append": lambda: with_file(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x")), "ftruncate_same": lambda: with_file(os.O_WRONLY, lambda fd: os.ftruncate(fd, 8)), "ftruncate": lambda: with_file(os.O_WRONLY, lambda fd: os.ftruncate(fd, 2)),
        "truncate_same": lambda: os.truncate("d/x", 8), "open_truncate": lambda: open_close("d/x", os.O_WRONLY | os.O_TRUNC), "open_create": lambda: open_close("d/x", os.O_WRONLY | os.O_CREAT),
        "allocate": lambda: with_file(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 9000)), "allocate_inside": lambda: with_file(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 4)), "chmod_same": lambda: os.chmod("d/x", 0o644), "chown_same": lambda: os.chown("d/x", 0, 0),
        "chown_nobody": lambda: os.chown("d/x", -1, -1), "link": lambda: os.link("d/x", "d/new"), "link_elsewhere": lambda: os.link("d/x", "new"), "unlink_other_link": lambda: os.unlink("d/second"), "rename": lambda: os.rename("d/x", "d/new"), "rename_same": lambda: os.rename("d/x", "d/x"),
        "rename_onto_link": lambda: os.rename("d/x", "d/second"), "rename_elsewhere": lambda: os.rename("d/x", "new"), "rename_over": lambda: os.rename("d/other", "d/x"), "exchange": lambda: renameat2("d/x", "e", EXCHANGE), "setxattr": lambda: os.setxattr("d/x", "user.a", b"1"),
        "removexattr": lambda: os.removexattr("d/x", "user.b"), "mkdir": lambda: os.mkdir("d/new"), "rmdir": lambda: os.rmdir("d/empty"), "symlink": lambda: os.symlink("t", "d/new"), "mkfifo": lambda: os.mkfifo("d/new"),
        "failed_mkdir": lambda: os.mkdir("d/x"), "failed_rmdir": lambda: os.rmdir("d"), "rename_directory": lambda: os.rename("d/empty", "e/new"), "list": lambda: len(os.listdir("d")), "copy": lambda: with_file(os.O_RDWR, lambda fd: os.copy_file_range(fd, fd, 4, 0, 100)),
        "mmap_write": lambda: with_file(os.O_RDWR, map_write), "setxattr_same": lambda: os.setxattr("d/x", "user.b", b"1"), "acl_same_mode": lambda: set_acl("d/x", 6, 4, 4), "acl_other_mode": lambda: set_acl("d/x", 6, 6, 4),
        "acl_same": lambda: set_acl("d/list", 6, 4, 4, 7), "acl_other": lambda: set_acl("d/list", 6, 4, 4, 5), "acl_gone": lambda: set_acl("d/list", 6, 4, 4), "default_acl_same": lambda: set_acl("d", 7, 5, 5, name="system.posix_acl_default"), "fsync": lambda: with_file(os.O_RDWR, os.fsync), "splice": lambda: with_file(os.O_WRONLY, splice_into),
    }
    for name, call in calls.items():
        os.mkdir("d")
        os.mkdir("d/empty")
        os.mkdir("e")
        make("d/x", "file")
        make("d/other", "file")
        os.link("d/x", "d/second")
        os.setxattr("d/x", "user.b", b"1")
        make("d/list", "file")
        set_acl("d/list", 6, 4, 4, 7)
        set_acl("d", 7, 5, 5, name="system.posix_acl_default")
        time.sleep(TICK)
        watched = ("d/x", "d/list", "d/second", "d/other", "d/empty", "d", "e", ".")
        before = stamps(*watched)
        text = answer(call)
        yield f"{name}: {text}{changed(before, stamps(*watched))}"
        for entry in os.listdir("."):
            remove(entry)


def set_acl(path, owner, group, others, named=None, name="system.posix_acl_access"):
    entries = [(1, owner, 0xffffffff), (4, group, 0xffffffff), (0x20, others, 0xffffffff)]
    if named is not None:
        entries[1:1] = [(2, named, 1001)]
        entries[3:3] = [(0x10, 7, 0xffffffff)]
    os.setxattr(path, name, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))


def map_write(fd):
    with mmap.mmap(fd, 8) as memory:
        memory[0] = 65
        memory.flush()


def splice_into(fd):
    reader, writer = os.pipe()
    os.write(writer, b"through a pipe")
    os.splice(reader, fd, 14)
    os.close(reader)
    os.close(writer)
