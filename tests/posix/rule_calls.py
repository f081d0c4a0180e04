"""What the rules are written with: making files of all kinds, calling as several users, and telling what came of it."""
import ctypes
import errno
import os
import shutil
import socket
import stat

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
