#!/usr/bin/env python3
"""Every rule of the calls about names, modes, owners and times, on all kinds of files, as several users: the answers on a mounted
brickfs have to be those of another file system.   rules.py DIR REFERENCE [PART...]

Each part makes objects in an empty directory and says what calls answered, as lines; these are compared. As root.
"""
import ctypes
import errno
import itertools
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
KINDS = ["file", "directory", "full", "fifo", "socket", "char", "block", "link", "dangling", "loop"]
ROOT, OWNER, FRIEND, OTHER = "root", "owner", "friend", "other"
IDS = {ROOT: (0, 0, []), OWNER: (1000, 1000, [1000, 2000]), FRIEND: (1001, 1001, [1000]), OTHER: (1002, 1002, [])}
TICK = 0.009


def make(path, kind, mode=0o644, uid=0, gid=0):
    if kind == "file":
        with open(path, "w") as file:
            file.write("contents")
    elif kind in ("directory", "full"):
        os.mkdir(path)
        if kind == "full":
            open(f"{path}/entry", "w").close()
        mode |= (mode & 0o444) >> 2
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        here = os.open(".", os.O_RDONLY)
        os.chdir(os.path.dirname(path) or ".")
        server.bind(os.path.basename(path))
        server.close()
        os.fchdir(here)
        os.close(here)
    elif kind == "char":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    elif kind == "block":
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(240, 77))
    elif kind == "link":
        open(path + ".target", "w").close()
        os.symlink(os.path.basename(path) + ".target", path)
        os.chown(path + ".target", uid, gid)
        os.chmod(path + ".target", mode)
    elif kind == "dangling":
        os.symlink("nothing", path)
    elif kind == "loop":
        os.symlink(os.path.basename(path), path)
    os.chown(path, uid, gid, follow_symlinks=False)
    if kind not in ("link", "dangling", "loop"):
        os.chmod(path, mode)


def remove(path):
    for name in (path, path + ".target"):
        if os.path.islink(name) or os.path.exists(name):
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name)
            else:
                os.unlink(name)


def answer(call, *arguments, **options):
    """What a call says, in a word."""
    try:
        value = call(*arguments, **options)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except (ValueError, OverflowError) as error:
        return type(error).__name__
    return "ok" if value is None else f"ok {value}"


def raw(function, *arguments):
    ctypes.set_errno(0)
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")


def renameat2(one, other, flags):
    raw(libc.renameat2, AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), flags)


def open_close(path, flags, mode=0o644):
    os.close(os.open(path, flags | os.O_NONBLOCK, mode))


def as_user(user, action):
    """Runs action() -> text as somebody else, in a process of his own."""
    uid, gid, groups = IDS[user]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.umask(0o022)
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            text = action()
        except BaseException as error:  # also of a case that is wrong
            text = f"{type(error).__name__} {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while part := os.read(reader, 65536):
        text += part
    os.close(reader)
    os.waitpid(child, 0)
    return text.decode()


def look(path):
    """What is at a path, but not when it was made."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return errno.errorcode[error.errno]
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return f"{found.st_mode:o} {found.st_nlink} {found.st_uid}:{found.st_gid} {size} {found.st_rdev}"


def stamps(*paths):
    out = []
    for path in paths:
        try:
            found = os.lstat(path)
            out.append((found.st_ino, found.st_mtime_ns, found.st_ctime_ns))
        except OSError:
            out.append(None)
    return out


def changed(before, after):
    text = ""
    for one, other in zip(before, after):
        if one is None or other is None or one[0] != other[0]:
            text += " -"
        else:
            text += " " + ("m" if one[1] != other[1] else ".") + ("c" if one[2] != other[2] else ".")
    return text


# --- calls that take one path, on everything there is

ONE_PATH = {
    "chmod": lambda p: os.chmod(p, 0o640),
    "chmod_suid": lambda p: os.chmod(p, 0o6755),
    "chmod_sticky": lambda p: os.chmod(p, 0o1755),
    "chown_uid": lambda p: os.chown(p, 1001, -1),
    "chown_group": lambda p: os.chown(p, -1, 2000),
    "chown_same": lambda p: os.chown(p, 1000, 1000),
    "lchown": lambda p: os.lchown(p, -1, 1000),
    "link": lambda p: os.link(p, "new", follow_symlinks=False),
    "link_following": lambda p: os.link(p, "new", follow_symlinks=True),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir": lambda p: os.mkdir(p, 0o755),
    "mkfifo": lambda p: os.mkfifo(p, 0o644),
    "mknod": lambda p: os.mknod(p, stat.S_IFREG | 0o600),
    "mknod_char": lambda p: os.mknod(p, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "symlink": lambda p: os.symlink("target", p),
    "readlink": os.readlink,
    "open": lambda p: open_close(p, os.O_RDONLY),
    "open_write": lambda p: open_close(p, os.O_WRONLY),
    "open_create": lambda p: open_close(p, os.O_RDWR | os.O_CREAT),
    "open_exclusive": lambda p: open_close(p, os.O_RDWR | os.O_CREAT | os.O_EXCL),
    "open_truncate": lambda p: open_close(p, os.O_WRONLY | os.O_TRUNC),
    "open_truncate_only_reading": lambda p: open_close(p, os.O_RDONLY | os.O_TRUNC),
    "open_append": lambda p: open_close(p, os.O_WRONLY | os.O_APPEND),
    "open_nofollow": lambda p: open_close(p, os.O_RDONLY | os.O_NOFOLLOW),
    "open_directory": lambda p: open_close(p, os.O_RDONLY | os.O_DIRECTORY),
    "open_create_directory": lambda p: open_close(p, os.O_RDONLY | os.O_DIRECTORY | os.O_CREAT),
    "open_path": lambda p: open_close(p, os.O_PATH),
    "open_noatime": lambda p: open_close(p, os.O_RDONLY | os.O_NOATIME),
    "open_direct": lambda p: open_close(p, os.O_RDONLY | os.O_DIRECT),
    "open_temporary": lambda p: open_close(p, os.O_TMPFILE | os.O_RDWR),
    "truncate": lambda p: os.truncate(p, 3),
    "truncate_same": lambda p: os.truncate(p, 8),
    "truncate_longer": lambda p: os.truncate(p, 5000),
    "truncate_negative": lambda p: os.truncate(p, -1),
    "utime_now": lambda p: os.utime(p),
    "utime_set": lambda p: os.utime(p, (1, 2)),
    "utime_link": lambda p: os.utime(p, (1, 2), follow_symlinks=False),
    "setxattr": lambda p: os.setxattr(p, "user.a", b"1"),
    "lsetxattr": lambda p: os.setxattr(p, "user.a", b"1", follow_symlinks=False),
    "setxattr_trusted": lambda p: os.setxattr(p, "trusted.a", b"1", follow_symlinks=False),
    "setxattr_security": lambda p: os.setxattr(p, "security.a", b"1", follow_symlinks=False),
    "getxattr": lambda p: os.getxattr(p, "user.b"),
    "lgetxattr": lambda p: os.getxattr(p, "user.b", follow_symlinks=False),
    "getxattr_trusted": lambda p: os.getxattr(p, "trusted.b", follow_symlinks=False),
    "removexattr": lambda p: os.removexattr(p, "user.b"),
    "listxattr": lambda p: sorted(os.listxattr(p)),
    "list": lambda p: sorted(os.listdir(p)),
    "access_rwx": lambda p: os.access(p, os.R_OK | os.W_OK | os.X_OK),
    "access_w": lambda p: os.access(p, os.W_OK),
    "chdir": lambda p: os.chdir(p),
    "statvfs": lambda p: os.statvfs(p).f_namemax,
    "rename_from": lambda p: os.rename(p, "new"),
    "rename_whiteout": lambda p: renameat2(p, "new", WHITEOUT),
    "rename_below": lambda p: os.rename(p, p + "/below"),
}


def one_path():
    """Each call on each kind of file as each user, and what it stamps."""
    for kind, (name, call), user in itertools.product(KINDS + ["nothing"], ONE_PATH.items(), IDS):
        if kind != "nothing":
            make("x", kind, 0o664 if user == FRIEND else 0o644, 1000, 1000)
            if kind in ("file", "directory"):
                os.setxattr("x", "user.b", b"value")
                os.setxattr("x", "trusted.b", b"value")
        timed = user in (ROOT, OWNER) and kind in ("file", "directory", "fifo", "link")
        os.chmod(".", 0o777)
        if timed:
            time.sleep(TICK)
        before = stamps("x", ".") if timed else []

        text = as_user(user, lambda call=call: answer(call, "x"))
        seen = changed(before, stamps("x", ".")) if timed else ""
        yield f"{name} of {kind} by {user}: {text}; {look('x')}, {look('x.target')}, {look('new')}{seen}"
        remove("x")
        remove("new")


def sticky():
    """Who may remove and rename what in directories with and without the sticky bit."""
    for mode, directory_owner, owner, user, kind in itertools.product((0o1777, 0o777, 0o1755), (0, 1000), (1000, 1001), (OWNER, FRIEND, OTHER), ("file", "directory", "full")):
        if mode != 0o1777 and kind == "full":
            continue
        os.mkdir("d")
        os.mkdir("free")
        os.chmod("free", 0o777)
        os.chmod("d", mode)
        for n in "abc":
            make(f"d/{n}", kind, 0o666, owner, owner)
        make("free/over", "directory" if kind == "full" else kind, 0o666, {OWNER: 1000, FRIEND: 1001, OTHER: 1002}[user])
        os.chown("d", directory_owner, 0)

        def attempt():
            return " ".join([answer(os.rmdir if kind != "file" else os.unlink, "d/a"), answer(os.rename, "d/b", "free/b"), answer(os.rename, "free/over", "d/c"),
                             answer(renameat2, "d/c", "free/over", EXCHANGE), answer(os.rename, "d/c", "d/e"), answer(os.mkdir, "d/new")])

        yield f"{mode:o} of {directory_owner}, {kind} of {owner}, by {user}: {as_user(user, attempt)}"
        shutil.rmtree("d")
        shutil.rmtree("free")


def search_permission():
    """Paths through directories that may not be searched, read or written."""
    for mode, user in itertools.product(range(8), (OWNER, FRIEND, OTHER)):
        shift = {OWNER: 6, FRIEND: 3, OTHER: 0}[user]
        os.mkdir("d")
        for name, kind in (("file", "file"), ("sub", "full"), ("link", "dangling")):
            make(f"d/{name}", kind, 0o666, 1000, 1000)
        os.chown("d", 1000, 1000)
        os.chmod("d", mode << shift)

        def attempt():
            calls = [(os.stat, "d"), (os.stat, "d/file"), (os.stat, "d/nothing"), (os.listdir, "d"), (os.readlink, "d/link"), (os.mkdir, "d/new"), (os.mkdir, "d/file"), (os.unlink, "d/nothing"),
                     (os.unlink, "d/file"), (os.rmdir, "d/sub"), (os.rename, "d/link", "d/other"), (os.stat, "d/sub/entry"), (os.chdir, "d"), (open_close, "d/made", os.O_CREAT | os.O_WRONLY)]
            return " ".join(answer(*call).split()[0] for call in calls)

        yield f"{mode << shift:04o} by {user}: {as_user(user, attempt)}"
        os.chmod("d", 0o700)
        shutil.rmtree("d")


def renames():
    """Every kind over every kind, with every flag, in one directory and between two."""
    for one, other, flags, there in itertools.product(KINDS, KINDS + ["nothing", "same"], (0, NOREPLACE, EXCHANGE, WHITEOUT, NOREPLACE | WHITEOUT, EXCHANGE | WHITEOUT, NOREPLACE | EXCHANGE), (".", "d")):
        os.mkdir("d")
        make("x", one)
        target = f"{there}/y"
        if other == "same":
            if one in ("directory", "full"):
                os.rmdir("d")
                remove("x")
                continue
            os.link("x", target, follow_symlinks=False)
        elif other != "nothing":
            make(target, other)
        inode = os.lstat("x").st_ino
        text = answer(renameat2, "x", target, flags)
        moved = os.path.lexists(target) and os.lstat(target).st_ino == inode
        yield f"{one} over {other} in {there} with {flags}: {text} {'moved' if moved else 'not moved'}; {look('x')}, {look(target)}; d {look('d')}"
        remove("x")
        shutil.rmtree("d")
        remove("y")


def long_and_odd_paths():
    """Limits of names and paths, loops, slashes, dots."""
    os.mkdir("d")
    make("file", "file")
    make("loop", "loop")
    os.symlink("d", "to_d")
    os.symlink("file", "to_file")
    os.symlink("nowhere/", "to_nowhere")
    for n in range(45):
        os.symlink("d" if n == 0 else f"chain{n - 1}", f"chain{n}")
    deep = "/".join(["d"] + ["."] * 2045)
    paths = ["n" * 255, "n" * 256, "d/" + "n" * 256, "n" * 256 + "/x", deep[:4090] + "/xyzv", deep[:4090] + "/xyzvw", "x" * 5000, "", ".", "..", "/", "//", "d/", "d//", "d/.", "d/..", "file/", "file/.", "file/..", "file/x", "loop", "loop/", "loop/x",
             "to_d", "to_d/", "to_d/.", "to_file/", "to_nowhere", "to_nowhere/x", "new/", "new/.", "new/x", "nothing/new", "chain38", "chain39", "chain40", "chain44/x", "\udcff\udcfe", "new\n", " ", "d/ü"]
    calls = dict(ONE_PATH)
    calls["rename_to_file"] = lambda p: os.rename("file", p)
    calls["rename_to_directory"] = lambda p: os.rename("d2", p)
    calls["link_to"] = lambda p: os.link("file", p)
    calls["symlink_from"] = lambda p: os.symlink(p, "new")
    calls["stat"] = lambda p: os.stat(p).st_mode
    calls["lstat"] = lambda p: os.lstat(p).st_mode
    for path, (name, call) in itertools.product(paths, calls.items()):
        if path in ("/", "//", "..") and name not in ("stat", "lstat", "open", "unlink", "rmdir", "rename_to_file", "mkdir", "open_create"):
            continue
        kept = {entry: os.lstat(entry).st_ino for entry in os.listdir(".")}
        os.mkdir("d2")
        here = os.open(".", os.O_RDONLY)
        text = answer(call, path)
        os.fchdir(here)
        os.close(here)
        entries = sorted(os.listdir("."))
        yield f"{name} of {path[:20]!a} ({len(path)}): {text[:60]}; {[entry[:10] for entry in entries if entry not in kept and entry != 'd2']} {[entry for entry in kept if entry not in entries]} {look('d')} {look('file')}"
        for entry in entries:
            if entry not in kept:
                remove(entry)
        for entry in ("d", "file"):
            remove(entry)
        os.mkdir("d")
        make("file", "file")
        for entry in ("loop", "to_d", "to_file", "to_nowhere"):
            if not os.path.islink(entry):
                remove(entry)
                os.symlink({"loop": "loop", "to_d": "d", "to_file": "file", "to_nowhere": "nowhere/"}[entry], entry)
        for n in (38, 39, 40, 44):
            if not os.path.islink(f"chain{n}"):
                remove(f"chain{n}")
                os.symlink(f"chain{n - 1}", f"chain{n}")


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
        "mmap_write": lambda: with_file(os.O_RDWR, map_write), "fsync": lambda: with_file(os.O_RDWR, os.fsync), "splice": lambda: with_file(os.O_WRONLY, splice_into),
    }
    for name, call in calls.items():
        os.mkdir("d")
        os.mkdir("d/empty")
        os.mkdir("e")
        make("d/x", "file")
        make("d/other", "file")
        os.link("d/x", "d/second")
        os.setxattr("d/x", "user.b", b"1")
        time.sleep(TICK)
        watched = ("d/x", "d/second", "d/other", "d/empty", "d", "e", ".")
        before = stamps(*watched)
        text = answer(call)
        yield f"{name}: {text}{changed(before, stamps(*watched))}"
        for entry in os.listdir("."):
            remove(entry)


def map_write(fd):
    import mmap
    with mmap.mmap(fd, 8) as memory:
        memory[0] = 65
        memory.flush()


def splice_into(fd):
    reader, writer = os.pipe()
    os.write(writer, b"through a pipe")
    os.splice(reader, fd, 14)
    os.close(reader)
    os.close(writer)


def size_limits():
    """RLIMIT_FSIZE, by every way a file gets longer, and its signal."""
    def with_limit(action, limit=10240):
        def attempt():
            signals = []
            signal.signal(signal.SIGXFSZ, lambda number, frame: signals.append(number))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            text = answer(action)
            return f"{text}, {len(signals)} signals, {os.stat('x').st_size}"
        return as_user(ROOT, attempt)

    def file(flags, action):
        fd = os.open("x", flags | os.O_CREAT, 0o644)
        try:
            return action(fd)
        finally:
            os.close(fd)

    import mmap
    aligned = mmap.mmap(-1, 16384)
    actions = {
        "write_over": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x" * 5000, 8000)), "write_at": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x", 10000)), "write_up_to": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x" * 2000, 8000)),
        "write_behind": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"x", 20000)), "write_nothing": lambda: file(os.O_WRONLY, lambda fd: os.pwrite(fd, b"", 20000)), "append": lambda: file(os.O_WRONLY | os.O_APPEND, lambda fd: os.write(fd, b"x" * 5000)),
        "truncate": lambda: os.truncate("x", 10001), "truncate_up_to": lambda: os.truncate("x", 10000), "ftruncate": lambda: file(os.O_WRONLY, lambda fd: os.ftruncate(fd, 50000)), "shorten": lambda: os.truncate("long", 15000),
        "allocate_up_to": lambda: file(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 10000)), "direct": lambda: file(os.O_WRONLY | os.O_DIRECT, lambda fd: os.pwrite(fd, memoryview(aligned)[:8192], 4096)),
        "sendfile": lambda: file(os.O_WRONLY, lambda fd: os.sendfile(fd, os.open("long", os.O_RDONLY), 0, 20000)), "copy": lambda: file(os.O_WRONLY, lambda fd: os.copy_file_range(os.open("long", os.O_RDONLY), fd, 20000)),
    }
    for name, action in actions.items():
        make("x", "file")
        with open("long", "wb") as long:
            long.write(b"y" * 20000)
        yield f"{name}: {with_limit(action)} {look('long')}"
        remove("x")
        remove("long")


def layouts():
    """fallocate in all its modes, on files, pipes and directories, opened in all ways; SEEK_DATA and SEEK_HOLE at the edges."""
    modes = {"plain": 0, "keep": 1, "punch": 3, "punch_alone": 2, "collapse": 8, "zero": 16, "zero_keep": 17, "insert": 32, "unshare": 64, "unknown": 128, "collapse_keep": 9, "punch_zero": 19}
    for (name, mode), (start, length), flags in itertools.product(modes.items(), ((0, 4096), (0, 0), (-1, 10), (4096, -5), (100, 50), (2**62, 2**62), (8192, 4096), (0, 100000)), (os.O_RDWR, os.O_WRONLY, os.O_RDONLY, os.O_RDWR | os.O_APPEND)):
        if name in ("collapse", "insert") and flags != os.O_RDONLY and start >= 0 and length > 0:
            continue  # docs/posix.md
        if start == 2**62:
            continue
        with open("x", "wb") as file:
            file.write(b"x" * 9000)
        fd = os.open("x", flags)
        text = answer(raw, libc.fallocate, fd, mode, ctypes.c_long(start), ctypes.c_long(length))
        os.close(fd)
        with open("x", "rb") as file:
            contents = file.read()
        yield f"{name} {start} {length} {flags:o}: {text}; {len(contents)} {contents.count(b'x')} {os.stat('x').st_blocks if length < 9999 and name in ('punch', 'plain') else ''}"
    for kind in ("directory", "fifo"):
        make("y", kind)
        fd = os.open("y", os.O_RDONLY if kind == "directory" else os.O_RDWR | os.O_NONBLOCK)
        for name, mode in modes.items():
            yield f"{name} of {kind}: {answer(raw, libc.fallocate, fd, mode, ctypes.c_long(0), ctypes.c_long(4096))}"
        yield f"ftruncate of {kind}: {answer(os.ftruncate, fd, 0)} {answer(os.fsync, fd)} {answer(os.fdatasync, fd)} {answer(os.read, fd, 1)} {answer(os.pread, fd, 1, 0)} {answer(os.posix_fadvise, fd, 0, 0, 0)}"
        os.close(fd)
        remove("y")
    fd = os.open("x", os.O_RDWR | os.O_TRUNC)
    os.pwrite(fd, b"a" * 4096, 8192)
    os.pwrite(fd, b"b", 40000)
    for whence, offset in itertools.product((os.SEEK_DATA, os.SEEK_HOLE), (0, 1, 8191, 8192, 8193, 12287, 12288, 36863, 36864, 40000, 40001, 50000, -1, 2**63 - 1)):
        yield f"seek {whence} {offset}: {answer(os.lseek, fd, offset, whence)}"
    os.close(fd)


PARTS = [one_path, sticky, search_permission, renames, long_and_odd_paths, set_id_bits, creation, acls_checked, times, stamps_of_calls, size_limits, layouts]


def lines_of(part, root):
    os.mkdir(f"{root}/rules")
    os.chdir(f"{root}/rules")
    lines = list(part())
    os.chdir("/")
    shutil.rmtree(f"{root}/rules")
    return lines


def main():
    os.umask(0o022)
    wrong = 0
    for part in PARTS:
        if len(sys.argv) > 3 and part.__name__ not in sys.argv[3:]:
            continue
        started = time.monotonic()
        tested, reference = (lines_of(part, root) for root in sys.argv[1:3])
        differences = [(one, other) for one, other in zip(tested, reference) if one != other]
        for one, other in differences[:40]:
            print(f"   tested    {one}\n   reference {other}")
        print(f"   {part.__name__.replace('_', ' ')}: {len(tested)} answers, {len(differences)} differ, {time.monotonic() - started:.0f} s", flush=True)
        wrong += len(differences) + abs(len(tested) - len(reference))
    sys.exit(1 if wrong else 0)


main()
