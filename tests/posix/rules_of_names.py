"""Rules about names: calls on everything that can be there, permissions on the way, sticky directories, renames, long and odd paths."""
import itertools
import os
import shutil
import stat
import time

from rule_calls import (
    EXCHANGE, FRIEND, IDS, KINDS, NOREPLACE, OTHER, OWNER, ROOT, TICK, WHITEOUT, answer, as_user, changed, look, make,
    open_close, remove, renameat2, stamps,
)

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
