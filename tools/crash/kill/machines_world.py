# SPDX-License-Identifier: Apache-2.0
"""Machines that have one volume (`-o shared`): each a network namespace, a mount of its own, and programs that use it (loads/machine)."""
import os
import shutil
import signal
import subprocess
import time

from cluster_world import Cluster
from history.calls import End, read_calls
from loads import HERE
from members import BRICK_PORT
from world import PATIENCE, Failure, Mount, wait_for

COORDINATES, HANDED_OVER = b"is shared from here", b"the volume is let go of"  # it says in its log
LOST, WRONG = 7, 3  # ends of loads/machine
PROGRAMS = 2  # of a machine


class Machine:
    def __init__(self, world, node):
        self.world = world
        self.node = node
        self.name = node.name
        self.mounts = 0  # so far
        self.mount = None
        self.programs = None  # their process
        self.is_down = False  # it is to stay so
        self.is_stopped = False
        self.begun = 0.0  # when it began to mount

    @property
    def mount_name(self):
        return f"{self.name}.{self.mounts}"

    @property
    def log(self):
        return f"{self.mount_name}.log"

    def serves(self):
        return self.mount is not None and self.mount.serves()

    def coordinates(self):
        """Or may do so."""
        if self.mount is None:
            return False
        said = (self.world.work / self.log).read_bytes()
        return said.rfind(COORDINATES) > said.rfind(HANDED_OVER)

    # --- coming and going

    def begin_mount(self):
        self.mounts += 1
        self.begun = time.monotonic()
        self.world.prefix = self.node.prefix()
        options = ("shared",) + (("durable",) if self.world.durable else ())
        self.mount = Mount(self.world, self.mount_name, options, False, self.log)

    def begin_programs(self):
        world = self.world
        words = ["run", self.mount.point / world.directory, world.history, self.mount_name, world.seed, world.new_numbers(PROGRAMS), PROGRAMS]
        self.programs = world.start_load(f"exec {HERE}/loads/machine {' '.join(map(str, words))}", {}, f"{self.mount_name}.programs")

    def end_programs(self):
        """Each ends its last call. Whether none says that the mount is lost."""
        if self.programs is None:
            return True
        self.programs.send_signal(signal.SIGTERM)
        try:
            self.programs.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"the programs of {self.name} do not end: operations hang") from None
        return self.look_at_programs()

    def look_at_programs(self):
        """Of some that have ended."""
        status, self.programs = self.programs.returncode, None
        if status not in (0, LOST, -signal.SIGTERM):  # the last: they were told to end before they had begun
            raise Failure(f"on {self.name}: {self.world.last_line(f'{self.mount_name}.programs.log')}")
        return status == 0

    def look(self):
        """At everything, once."""
        words = ["look", self.mount.point / self.world.directory, self.world.history, self.mount_name, self.world.new_numbers(1)]
        self.programs = self.world.start_load(f"exec {HERE}/loads/machine {' '.join(map(str, words))}", {}, f"{self.mount_name}.programs")
        try:
            self.programs.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} cannot look at everything: operations hang") from None
        if not self.look_at_programs():
            raise Failure(f"{self.name} loses the volume in peace: {self.world.last_line(self.log)}")

    def leave(self):
        """In order."""
        if not self.end_programs():
            return self.lose()
        return self.unmount()

    def unmount(self):
        self.mount.unmount()
        self.forget()

    def kill(self):
        """All of it. What its programs were told they take along."""
        at = time.monotonic()
        self.mount.kill()
        self.end_at(at, True)

    def lose(self):
        """It has lost the volume; whatever was not synced is in doubt, if it was the coordinator."""
        self.end_at(time.monotonic(), False)

    def end_at(self, at, is_sudden):
        if self.coordinates():
            self.world.ends.append(End(self.mount_name, at, is_sudden))
        if self.programs is not None:
            self.world.end_load(self.programs)
            self.programs = None
        self.mount.destroy()
        self.forget()

    def forget(self):
        self.world.mounts.remove(self.mount)
        self.mount = None
        self.is_stopped = False

    def stop(self):
        """Programs and all."""
        if self.programs is not None:
            os.killpg(self.programs.pid, signal.SIGSTOP)
        self.mount.signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self):
        self.mount.signal(signal.SIGCONT)
        if self.programs is not None:
            os.killpg(self.programs.pid, signal.SIGCONT)
        self.is_stopped = False

    # --- what is done about it, again and again

    def tend(self):
        if self.is_down or self.is_stopped:
            return
        if self.mount is None:
            self.begin_mount()
        elif self.mount.process.poll() is not None:
            self.tend_ended()
        elif not self.serves():
            if time.monotonic() > self.begun + 2 * PATIENCE:
                raise Failure(f"{self.name} does not come to mount: {self.world.last_line(self.log)}")
        elif self.programs is None:
            self.begin_programs()
        elif self.programs.poll() is not None and not self.look_at_programs():
            self.world.must_be_lost(self)
            self.lose()

    def tend_ended(self):
        """Its brickfs has: it did not get the volume, or it says that it has lost it."""
        if self.programs is None:
            self.mount.destroy()
            self.forget()
            time.sleep(0.2)
            return
        if self.mount.process.returncode < 0:
            raise Failure(f"brickfs of {self.name} ends by signal {-self.mount.process.returncode}: {self.world.last_line(self.log)}")
        self.world.must_be_lost(self)
        self.lose()


class Machines(Cluster):
    def __init__(self, arguments, work):
        self.machines = []  # calm() looks at them
        super().__init__(arguments, work, [f"m{number + 1}" for number in range(arguments.machines)])
        if not self.etcds:
            self.source = f"tcp://{self.bricks[0].node.address}:{BRICK_PORT}/default"
        self.machines = [Machine(self, node) for node in self.clients]
        self.numbers = 0  # of programs in this round
        self.ends = []
        self.directory = self.history = self.seed = None

    def start(self):
        if self.etcds:
            self.start_servers()
        else:
            self.bricks[0].start()

    def new_numbers(self, count):
        self.numbers += count
        return self.numbers - count

    def calm(self):
        super().calm()
        self.troubled = set()  # machines that may lose the volume
        self.machines_died = self.bricks_died = False
        self.under_way = []  # faults

    def coordinator(self):
        return next((machine for machine in self.machines if machine.serves() and machine.coordinates()), None)

    def members(self):
        return [machine for machine in self.machines if machine.serves() and not machine.coordinates()]

    def trouble(self, *machines):
        self.troubled |= set(machines)

    def must_be_lost(self, machine):
        if machine not in self.troubled:
            raise Failure(f"{machine.name} loses the volume, and nothing has happened to it: {self.last_line(machine.log)}")

    # --- a round

    def begin_round(self, number, seed):
        self.calm()
        self.seed, self.numbers, self.ends = seed, 0, []
        self.history = self.work / "log" / "history"
        shutil.rmtree(self.history, ignore_errors=True)
        self.history.mkdir(parents=True)
        self.mount_all()
        self.directory = f"round{number}"
        made = subprocess.run(["timeout", str(PATIENCE), HERE / "loads/machine", "make", self.machines[0].mount.point / self.directory], capture_output=True,
                              text=True, check=False)
        if made.returncode != 0:
            raise Failure(f"what the programs use cannot be made: {made.stderr.strip().splitlines()[-1:]}")

    def tend(self):
        for machine in self.machines:
            machine.tend()

    def serve_all(self):
        return all(machine.serves() for machine in self.machines)

    def mount_all(self):
        """Without programs."""
        def come():
            for machine in self.machines:
                if machine.mount is None or machine.mount.process.poll() is not None:
                    if machine.mount is not None:
                        machine.mount.destroy()
                        machine.forget()
                    machine.begin_mount()
                    time.sleep(0.2)
            return self.serve_all()
        wait_for(come, 2 * PATIENCE, "mounting on all machines")

    def unmount_all(self, random):
        for machine in random.sample(self.machines, len(self.machines)):
            machine.unmount()

    def read_history(self):
        calls = []
        for log in sorted(self.history.iterdir()):
            mount, _ = log.name.rsplit(".", 1)
            with open(log, encoding="utf-8") as lines:
                calls += read_calls(mount, log.name, lines)
        return calls

    def progress(self, machine):
        """Bytes of notes of its present mount."""
        return sum(log.stat().st_size for log in self.history.glob(f"{machine.mount_name}.*"))

    def leave(self):
        for machine in self.machines:
            if machine.is_stopped and machine.mount is not None:
                machine.resume()
        super().leave()

    def may_lose(self, brick):
        return bool(self.etcds) and super().may_lose(brick)

    def is_well(self):
        return not self.etcds or super().is_well()

    def save(self, into):
        if self.etcds:
            super().save(into)
            return
        into.mkdir(parents=True, exist_ok=True)
        for log in self.work.glob("*.log"):
            shutil.copy(log, into)
        shutil.copytree(self.work / "log", into / "log", dirs_exist_ok=True)
