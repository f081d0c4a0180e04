"""On a mount with soft,dirsync: unsynced_names.py prepare|change|check DIRECTORY. `change` is run while the brick is away: each fails, and is made."""
import errno
import os
import sys


def prepare():
    for name in ("old", "folder"):
        os.mkdir(name)
    for name in ("file", "gone", "replaced", "open"):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    for name, second in (("file", "second"), ("replaced", "kept")):
        os.link(name, second)
    know()


def know():
    """The kernel has all names that are to be changed, and those that there are not yet."""
    for name in ("new", "moved", "third", "made"):
        assert not os.path.lexists(name), name
    for name in ("old", "folder", "file", "second", "gone", "replaced", "kept", "open", "."):
        os.stat(name)


def change():
    calls = ((os.mkdir, "new"), (os.unlink, "gone"), (os.rename, "old", "moved"), (os.unlink, "second"), (os.link, "kept", "third"),
             (os.rename, "open", "replaced"), (os.rmdir, "folder"), (os.open, "made", os.O_CREAT | os.O_WRONLY))
    for call, *arguments in calls:
        try:
            call(*arguments)
        except OSError as error:
            assert error.errno == errno.EIO, (call, arguments, error)
        else:
            sys.exit(f"{call} {arguments} succeeds")


def check():
    there = {name: os.stat(name) for name in ("new", "moved", "file", "kept", "third", "replaced", "made")}
    for name in ("old", "gone", "second", "open", "folder"):
        assert not os.path.lexists(name), name
    assert sorted(there) == sorted(os.listdir(".")), os.listdir(".")
    links = {name: found.st_nlink for name, found in there.items()}
    assert links == {"new": 2, "moved": 2, "file": 1, "kept": 2, "third": 2, "replaced": 1, "made": 1}, links
    assert os.stat(".").st_nlink == 4, os.stat(".").st_nlink


if __name__ == "__main__":
    directory = os.path.join(sys.argv[2], "unsynced")
    if sys.argv[1] == "prepare":
        os.mkdir(directory)
    os.chdir(directory)
    {"prepare": prepare, "change": change, "check": check}[sys.argv[1]]()
