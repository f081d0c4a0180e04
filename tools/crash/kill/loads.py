# SPDX-License-Identifier: Apache-2.0
"""A load on a mount, and the verifier of what it left: shell commands, which are told where by their environment."""
import pathlib
import shutil
import subprocess
import sys

from world import Failure, PATIENCE, program

HERE = pathlib.Path(__file__).resolve().parent
LOADS = ("sync", "sqlite", "git", "fio", "records")
SECONDS = 600  # for which a load would run if it were let


def commands(load, build):
    """How a load is run and how verified."""
    if load == "sync":
        loader = program(build, "tests/sync_load")
        return (f"exec {loader} run $BRICKFS_DIR $BRICKFS_LOG $BRICKFS_SECONDS $BRICKFS_SEED",
                f"exec {loader} verify $BRICKFS_DIR $BRICKFS_LOG $BRICKFS_HOW")
    if load == "records":
        return (f"exec {HERE}/loads/records run $BRICKFS_DIR $BRICKFS_LOG $BRICKFS_SEED",
                f"exec {HERE}/loads/records verify $BRICKFS_DIR $BRICKFS_LOG $BRICKFS_HOW")
    return f"exec {HERE}/loads/{load} run", f"exec {HERE}/loads/{load} verify"


def must_be_there(loads, build):
    """The programs of the loads. Without: one line, and the end."""
    for load in loads:
        try:
            commands(load, build)
            if load in ("fio", "git") and shutil.which(load) is None:
                raise Failure(f"there is no {load} here")
        except Failure as failure:
            sys.exit(f"brickfs-crash: {failure}, which the load {load} needs: install it, or name other --loads")


class Load:
    """In a directory `name` of the mount, with a log of what was synced outside of it."""

    def __init__(self, world, name, how, seed):
        self.world = world
        self.name = name
        self.run_command, self.verify_command = how
        self.seed = seed
        self.log = world.work / "log" / name
        self.process = None

    def environment(self, mount, how):
        return {"BRICKFS_DIR": str(mount.point / self.name), "BRICKFS_LOG": str(self.log), "BRICKFS_SEED": str(self.seed),
                "BRICKFS_SECONDS": str(SECONDS), "BRICKFS_HOW": how}

    def start(self, mount):
        shutil.rmtree(self.log, ignore_errors=True)
        self.log.mkdir(parents=True)
        (mount.point / self.name).mkdir()
        self.process = self.world.start_load(self.run_command, self.environment(mount, "live"), self.name)

    def end(self):
        self.world.end_load(self.process)

    def must_run(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.name} ends by itself, exit {self.process.returncode}: {self.world.last_line(f'{self.name}.log')}")

    def verify(self, mount, how, when):
        command = ["timeout", str(2 * PATIENCE), "sh", "-c", self.verify_command]
        words = [subprocess.list2cmdline([word]) for word in command[:-1]] + ["'" + self.verify_command.replace("'", "'\\''") + "'"]
        verifier = self.world.start_load(" ".join(words), self.environment(mount, how), f"{self.name}-verify")
        if verifier.wait() != 0:
            raise Failure(f"what {self.name} synced is not there{when}: {self.world.last_line(f'{self.name}-verify.log')}")

    def remove(self, mount):
        shutil.rmtree(mount.point / self.name)


def all_answer(mount):
    """Nothing may hang."""
    done = subprocess.run(["timeout", str(PATIENCE), "sh", "-c", f"df {mount.point} && ls {mount.point} && sync -f {mount.point}"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"df, ls and sync end with {done.returncode}: {done.stderr.strip()[:200]}")
