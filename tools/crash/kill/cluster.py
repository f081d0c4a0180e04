# SPDX-License-Identifier: Apache-2.0
"""`brickfs-crash cluster`: real bricks, etcd and clients of a replicated set, in network namespaces of their own; faults at random instants
under load; and what must hold afterwards. docs/recovery.md, "Whole clusters"."""
import argparse
import collections
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import machines
from cluster_world import Cluster
from faults import FAULTS
from loads import LOADS, Load, all_answer, commands, must_be_there
from machine_faults import FAULTS as MACHINE_FAULTS
from members import has_etcd
from options import some_of
from world import PATIENCE, Failure, wait_for

SKIPPED = 77
OTHER_LOADS = [name for name in LOADS if name != "records"]
ASKED_SECONDS = {"kill-brick": 3, "wipe-brick": 3, "put-back-store": 3, "stop-brick": 4, "cut-brick": 4, "lose-large": 4}  # of the longest wait of an operation, where the machine has time
GOES_ON_WITHIN = 60


class Records:
    """The load that knows each 4 KiB, and how long its calls take."""

    def __init__(self, world, number):
        self.load = Load(world, "records", commands("records", world.build), number)
        self.calls = 0

    def progress(self):
        return sum(path.stat().st_size for path in self.load.log.glob("w*"))

    def must_go_on(self):
        before = self.progress()
        wait_for(lambda: self.progress() > before + 1000, GOES_ON_WITHIN, "any progress, with everything healed,")

    def end_well(self):
        """It reads everything once more."""
        os.kill(self.load.process.pid, signal.SIGTERM)
        try:
            status = self.load.process.wait(2 * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("records does not end: operations hang") from None
        said = (self.load.world.work / "records.log").read_text(errors="replace").strip()
        if status != 0:
            raise Failure(f"records ends with {status}: {said.splitlines()[:1]}")
        self.calls = int(said.split()[0])

    def longest_stall(self):
        """Seconds, and of which call."""
        stalls = self.load.log / "stalls"
        if not stalls.exists():
            return 0.0, "none"
        return max((float(end) - float(began), what) for began, end, what in (line.split() for line in stalls.read_text().splitlines()))


class Crowd:
    """How many threads want each processor of this machine, on the average while it is watched; at least 1: then none waits for another."""

    def __init__(self):
        self.over = threading.Event()
        self.seen = []
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while not self.over.wait(0.1):
            running = next(line for line in pathlib.Path("/proc/stat").read_text().splitlines() if line.startswith("procs_running"))
            self.seen.append(int(running.split()[1]))

    def end(self):
        self.over.set()
        self.thread.join()
        return max(1.0, sum(self.seen) / max(1, len(self.seen)) / os.cpu_count())


class Round:
    """Some faults under load, and what is found when all is healed."""

    def __init__(self, cluster, arguments, number):
        self.cluster = cluster
        self.random = random.Random(f"{arguments.seed}/{number}")
        self.number = number
        self.records = Records(cluster, number)
        self.loads = [self.records.load]
        other = self.random.choice(arguments.loads)
        if other != "records":
            self.loads.append(Load(cluster, other, commands(other, arguments.build), number))
        self.most = min(self.random.choice((1, 1, 2, 3, 4, 6)), arguments.most)
        self.faults = arguments.faults
        self.said = []  # faults that have happened
        self.names = []
        self.seconds = 0.0
        self.crowd = 1.0
        self.stall_limit = arguments.stall_limit

    def text(self):
        return f"{', '.join(self.said) or 'nothing'} under {' and '.join(load.name for load in self.loads)}"

    def say(self, words):
        self.said.append(words)
        print(f"  {time.monotonic() - self.began:5.1f} s  {words}", flush=True)

    def run(self):
        self.began = time.monotonic()
        self.cluster.calm()
        for load in self.loads:
            load.start(self.cluster.mount)
        crowd = Crowd()
        time.sleep(self.random.uniform(1, 2))
        try:
            self.play()
        finally:
            self.crowd = crowd.end()
        if self.cluster.client_died:
            self.recover()
        else:
            self.go_on()
        how = "crash" if self.cluster.client_died else "live"
        for load in self.loads:
            load.verify(self.cluster.mount, how, "")
        self.cluster.await_well()

    def play(self):
        """Faults begin one after the other, and end when their time has come."""
        under_way = []  # when it ends, its name, the rest of it
        for _ in range(self.most):
            self.end_due(under_way)
            self.begin_one(under_way)
            time.sleep(self.random.choice((0, self.random.uniform(0, 1), self.random.uniform(0, 4))))
        while under_way:
            self.end_due(under_way)
            time.sleep(0.02)

    def begin_one(self, under_way):
        for _ in range(20):
            weights = [FAULTS[name][2] for name in self.faults]
            name = self.random.choices(self.faults, weights)[0]
            act, longest, _ = FAULTS[name]
            fault = act(self.cluster, self.random)
            words = next(fault)
            if words is None:
                continue
            lasts = self.random.uniform(0.1, longest)
            self.names.append(name)
            self.say(f"{name} {words} for {lasts:.1f} s".replace("  ", " "))
            under_way.append((time.monotonic() + lasts, fault))
            return

    @staticmethod
    def end_due(under_way):
        for one in sorted(under_way, key=lambda one: one[0]):
            if one[0] <= time.monotonic():
                under_way.remove(one)
                next(one[1], None)

    def go_on(self):
        all_answer(self.cluster.mount)
        self.records.must_go_on()
        for load in self.loads:
            load.must_run()
        self.records.end_well()
        self.seconds = time.monotonic() - self.began
        self.must_not_stall()
        for load in self.loads[1:]:
            load.end()

    def must_not_stall(self):
        stall = self.stall()
        if stall is None or not self.stall_limit:
            return
        name, seconds, call = stall
        limit = ASKED_SECONDS[name] * self.crowd * self.stall_limit
        if seconds > limit:
            raise Failure(f"{name}: a call ({call}) waited {seconds:.1f} s, longer than {limit:.1f} s ({self.crowd:.1f} threads for each processor)")

    def recover(self):
        for load in self.loads:
            load.end()
        self.cluster.ensure_mounted()
        self.cluster.forget_ended()

    def stall(self):
        """The only fault, and for how long a call waited for it; None, if that says nothing."""
        if self.cluster.client_died or len(self.names) != 1 or self.names[0] not in ASKED_SECONDS:
            return None
        return self.names[0], *self.records.longest_stall()

    def clear(self):
        for load in self.loads:
            load.remove(self.cluster.mount)


class Kept:
    """Files that nobody writes any more: what a copy that comes back takes long to get."""

    def __init__(self, cluster, seed, megabytes):
        self.sums = {}
        bytes_of = random.Random(seed)
        (cluster.mount.point / "kept").mkdir()
        for number in range(24 + megabytes // 4):
            data = bytes_of.randbytes(number * 3331 if number < 24 else 4_000_000)
            self.sums[number] = hashlib.sha256(data).digest()
            with open(cluster.mount.point / "kept" / str(number), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())

    def verify(self, mount):
        for number, digest in self.sums.items():
            if hashlib.sha256((mount.point / "kept" / str(number)).read_bytes()).digest() != digest:
                raise Failure(f"kept/{number} has other bytes")


def read_beside(cluster, rounds, kept, random):
    """Two readers find all of it, also when a brick dies under them."""
    mounts = cluster.readers()
    victim = random.choice(cluster.bricks)
    if random.random() < 0.5 and cluster.may_lose(victim):
        victim.kill()
    for mount in mounts:
        kept.verify(mount)
        for one in rounds:
            one.records.load.verify(mount, "crash", " for a reader")
    for mount in mounts:
        mount.unmount()
    victim.start()
    cluster.forget_ended()


def audit(cluster, rounds, kept, random):
    """Nobody has the volume: its copies are equal, and what is on it is sound; readers, and then another mount, find what was synced."""
    cluster.mount.unmount()
    if not cluster.is_well():
        raise Failure(f"after the unmount the set is not well: {cluster.brickctl('set', 'status', cluster.source).stdout.splitlines()[-1:]}")
    cluster.compare()
    cluster.check()
    cluster.empty_spares()
    cluster.calm()
    if random.random() < 0.5:
        read_beside(cluster, rounds, kept, random)
    cluster.choose_mount(random)
    cluster.mount = cluster.new_mount()
    cluster.await_well()
    kept.verify(cluster.mount)
    for one in rounds:
        for load in one.loads:
            load.verify(cluster.mount, "crash", " after another mount")


class Summary:
    """A page of text."""

    def __init__(self):
        self.rounds = 0
        self.faults = collections.Counter()
        self.loads = collections.Counter()
        self.stalls = collections.defaultdict(list)
        self.crowds = []
        self.failures = []
        self.calls = 0
        self.seconds = 0.0
        self.began = time.monotonic()

    def note(self, one):
        self.faults.update(one.names)
        self.loads.update(load.name for load in one.loads)
        self.calls += one.records.calls
        self.seconds += one.seconds
        stall = one.stall()
        if stall:
            self.stalls[stall[0]].append(stall[1:])
            self.crowds.append(one.crowd)

    def text(self, arguments):
        lines = [f"# brickfs-crash cluster, seed {arguments.seed}", "", self.line(), "", "| fault | times | rounds with it alone | longest wait | asked |",
                 "|---|---|---|---|---|"]
        for name, count in sorted(self.faults.items()):
            stalls = self.stalls.get(name, [])
            longest = max(stalls, default=None)
            lines.append(f"| {name} | {count} | {len(stalls) or ''} | {f'{longest[0]:.1f} s ({longest[1]})' if longest else ''} | "
                         f"{f'{ASKED_SECONDS[name]} s' if name in ASKED_SECONDS else ''} |")
        if self.crowds:
            lines += ["", f"In rounds with one fault alone {min(self.crowds):.1f} to {max(self.crowds):.1f} threads wanted each processor."]
        lines += ["", "| load | rounds |", "|---|---|"] + [f"| {name} | {count} |" for name, count in sorted(self.loads.items())]
        for number, what, case in self.failures:
            lines += ["", f"Round {number} FAILED: {what}", f"  saved in {case}", f"  again: {again(arguments, number)}"]
        return "\n".join(lines) + "\n"

    def line(self):
        rate = f"{self.calls / self.seconds:.0f} calls per second of `records`, faults and all" if self.seconds else "no round without a crash of the client"
        return (f"{self.rounds} rounds in {(time.monotonic() - self.began) / 60:.1f} minutes, {sum(self.faults.values())} faults, "
                f"{len(self.failures)} failed; {rate}")


def again(arguments, number):
    words = ["brickfs-crash", "cluster", "--seed", arguments.seed, "--first", number, "--rounds", 1, "--bricks", arguments.bricks,
             "--copies", arguments.copies, "--etcd", arguments.etcd, "--durable" if arguments.durable else "--volatile",
             "--spares", arguments.spares, "--filled", arguments.filled, "--size", arguments.size, "--most", arguments.most,
             "--stall-limit", arguments.stall_limit]
    if len(arguments.faults) < len(FAULTS):
        words += ["--faults", ",".join(arguments.faults)]
    if len(arguments.loads) < len(LOADS):
        words += ["--loads", ",".join(arguments.loads)]
    return " ".join(map(str, words))


def play(arguments, summary, first):
    """Rounds on one cluster until one fails or all are done; the number of the next."""
    number = first
    with tempfile.TemporaryDirectory(prefix=f"brickfs-cluster.{os.getpid()}.") as work:
        cluster = Cluster(arguments, work)
        try:
            cluster.choose_mount(random.Random(f"{arguments.seed}/{first}/audit"))
            cluster.start()
            kept = Kept(cluster, arguments.seed, arguments.filled)
            unaudited = []
            while not is_done(arguments, summary, number) or unaudited:
                try:
                    if is_done(arguments, summary, number) or len(unaudited) == arguments.compare_every:
                        audit(cluster, unaudited, kept, random.Random(f"{arguments.seed}/{number}/audit"))
                        for one in unaudited:
                            one.clear()
                        unaudited = []
                        continue
                    turn = Round(cluster, arguments, number)
                    number += 1
                    print(f"round {turn.number}:", flush=True)
                    summary.rounds += 1
                    unaudited.append(turn)
                    turn.run()
                    summary.note(turn)
                except (Failure, OSError, subprocess.SubprocessError) as failure:
                    fail(arguments, summary, cluster, turn, failure)
                    break
        finally:
            cluster.leave()
    return number


def fail(arguments, summary, cluster, turn, failure):
    case = arguments.output / f"case-{arguments.seed}-{turn.number}"
    cluster.save(case)
    what = f"{turn.text()}: {failure}"
    (case / "case.txt").write_text(f"{what}\n{again(arguments, turn.number)}\n")
    summary.failures.append((turn.number, what, case))
    print(f"round {turn.number} FAILED: {failure}\n  logs are in {case}\n  again: {again(arguments, turn.number)}", flush=True)


def is_done(arguments, summary, number):
    if arguments.rounds and number >= arguments.first + arguments.rounds:
        return True
    return bool(arguments.seconds) and time.monotonic() - summary.began >= arguments.seconds


def faults_of(words):
    """Of a set, or of machines that share a volume."""
    return MACHINE_FAULTS if any(word.split("=")[0] == "--machines" for word in words) else FAULTS


def parse():
    faults = faults_of(sys.argv)
    parser = argparse.ArgumentParser(prog="brickfs-crash cluster", description="faults under load in a replicated set of real processes, each in a network "
                                     "of its own; exit 1 if anything is lost, 77 if there is no etcd")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides faults, loads and instants")
    parser.add_argument("--rounds", type=int, default=0, help="ends after so many")
    parser.add_argument("--seconds", type=float, default=0, help="ends after so long")
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--failures", type=int, default=3, help="ends after so many")
    parser.add_argument("--bricks", type=int, default=3, help="(3)")
    parser.add_argument("--spares", type=int, default=2, help="bricks that may replace one of them, or join them (2)")
    parser.add_argument("--copies", type=int, default=2, help="of each place (2)")
    parser.add_argument("--etcd", type=int, default=3, help="members (3)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--durable", action="store_true", help="bricks with a store")
    kind.add_argument("--volatile", dest="durable", action="store_false", help="bricks that are memory alone (as is, if not said)")
    parser.add_argument("--loads", type=some_of(LOADS), default=list(LOADS), help="records runs always, and beside it one of " + ",".join(LOADS))
    parser.add_argument("--machines", type=int, default=0, help="so many have the volume at a time (-o shared), and a history of their calls is judged; with the "
                        "faults, loads and options that there are then")
    parser.add_argument("--faults", type=some_of(faults), default=list(faults), help="some of " + ",".join(FAULTS) + "; with --machines some of " +
                        ",".join(MACHINE_FAULTS))
    parser.add_argument("--most", type=int, default=4, help="faults in a round at most, that may overlap (4)")
    parser.add_argument("--compare-every", type=int, default=1, help="unmounts, compares the copies, checks, and mounts after so many rounds (1)")
    parser.add_argument("--lose-all", action="store_true", help="also the last copy: then failures are expected")
    parser.add_argument("--stall-limit", type=float, default=1, metavar="FACTOR", help="a round with one fault fails if a call waits longer than is asked "
                        "for, times this, times the threads that want each processor; 0: it does not (1)")
    parser.add_argument("--size", default="512M", help="of each brick")
    parser.add_argument("--filled", type=int, default=48, help="megabytes of files that nobody writes (48)")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("brickfs-crash-cluster"), help="for the summary and the failed cases")
    arguments = parser.parse_args()
    if not 1 <= arguments.copies <= min(4, arguments.bricks):
        parser.error("--copies: from 1 to 4, and no more than bricks")
    if arguments.machines:
        arguments.spares = 0
        if arguments.bricks == 1:
            arguments.etcd = 0
    if not arguments.rounds and not arguments.seconds:
        arguments.rounds = 10
    return arguments


def main():
    arguments = parse()
    if arguments.etcd and not has_etcd():
        print("left out: there is no etcd here")
        return SKIPPED
    if not arguments.machines:
        must_be_there(arguments.loads, arguments.build)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(130))
    arguments.output.mkdir(parents=True, exist_ok=True)
    print(f"seed {arguments.seed}, {'durable' if arguments.durable else 'volatile'} bricks", flush=True)
    summary = machines.Summary() if arguments.machines else Summary()
    number = arguments.first
    try:
        while not is_done(arguments, summary, number) and len(summary.failures) < arguments.failures:
            number = machines.play(arguments, summary, number, is_done) if arguments.machines else play(arguments, summary, number)
    except Failure as failure:
        print(f"brickfs-crash: the cluster cannot be made: {failure}", file=sys.stderr)
        return 1
    finally:
        (arguments.output / "summary.md").write_text(summary.text(arguments))
    print(summary.text(arguments), end="")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
