# SPDX-License-Identifier: Apache-2.0
"""`brickfs-crash kill`: real processes under load, incidents at random instants, and what must hold afterwards.
docs/recovery.md, "Whole processes"."""
import argparse
import collections
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from incidents import INCIDENTS
from loads import LOADS, Load, all_answer, commands, must_be_there
from options import some_of
from world import Failure, Mount, World


class Round:
    """One incident under one load, and what is found afterwards."""

    def __init__(self, world, arguments, number):
        self.world = world
        self.number = number
        self.random = random.Random(f"{arguments.seed}/{number}")
        self.load = "given" if arguments.workload else self.random.choice(arguments.loads)
        self.incident = self.random.choice(arguments.incidents)
        how = (arguments.workload, arguments.verify) if arguments.workload else commands(self.load, arguments.build)
        self.work = Load(world, "load", how, number)
        self.mount_ms = 0

    def run(self, mount):
        """The mount to go on with."""
        self.work.start(mount)
        time.sleep(self.random.uniform(0.2, 1.5))
        act, may_fail = INCIDENTS[self.incident]
        mount, how = act(self.world, mount, self.random)
        if how == "live":
            self.goes_on(mount, may_fail)
        self.work.end()
        self.world.forget_ended()
        self.work.verify(mount, how, "")
        began = time.monotonic()
        mount.unmount()
        self.world.check()
        mount = Mount(self.world, mount.point.name)
        self.mount_ms = int((time.monotonic() - began) * 1000)
        self.work.verify(mount, "crash", " after another mount")
        self.work.remove(mount)
        return mount

    def goes_on(self, mount, may_fail):
        """Nothing may hang behind an incident, and no operation of a hard mount may fail."""
        all_answer(mount)
        time.sleep(self.random.uniform(0, 0.3))
        if not may_fail:
            self.work.must_run()


class Summary:
    """A page of text."""

    def __init__(self):
        self.rounds = collections.Counter()
        self.loads = collections.Counter()
        self.failures = []
        self.longest_ms = 0
        self.began = time.monotonic()

    def text(self, arguments):
        minutes = (time.monotonic() - self.began) / 60
        lines = [f"# brickfs-crash kill, seed {arguments.seed}", "", f"{sum(self.rounds.values())} rounds in {minutes:.1f} minutes, "
                 f"{len(self.failures)} failed. The longest unmount, check and mount took {self.longest_ms} ms.", "", "| incident | rounds |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.rounds.items())]
        lines += ["", "| load | rounds |", "|---|---|"] + [f"| {name} | {count} |" for name, count in sorted(self.loads.items())]
        for number, what, case in self.failures:
            lines += ["", f"Round {number} FAILED: {what}", f"  saved in {case}", f"  again: {again(arguments, number)}"]
        return "\n".join(lines) + "\n"


def again(arguments, number):
    words = ["brickfs-crash", "kill", "--seed", arguments.seed, "--first", number, "--rounds", 1, "--loads", ",".join(arguments.loads),
             "--incidents", ",".join(arguments.incidents)]
    if arguments.workload:
        words += ["--workload", f"'{arguments.workload}'", "--verify", f"'{arguments.verify}'"]
    return " ".join(map(str, words))


def parse():
    parser = argparse.ArgumentParser(prog="brickfs-crash kill", description="incidents under load on real mounts; exit 1 if anything is lost",
                                     epilog="A workload finds BRICKFS_DIR (where to work), BRICKFS_LOG (where to note what was synced), BRICKFS_SEED and "
                                     "BRICKFS_SECONDS; --verify also BRICKFS_HOW (crash: what was synced must be there; live: all must), exit 0 if it is.")
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides incidents, loads and instants")
    parser.add_argument("--rounds", type=int, default=0, help="ends after so many")
    parser.add_argument("--minutes", type=float, default=0, help="ends after so long")
    parser.add_argument("--first", type=int, default=1, help="number of the first round")
    parser.add_argument("--failures", type=int, default=5, help="ends after so many")
    parser.add_argument("--loads", type=some_of(LOADS), default=list(LOADS), help="some of " + ",".join(LOADS))
    parser.add_argument("--incidents", type=some_of(INCIDENTS), default=list(INCIDENTS), help="some of " + ",".join(INCIDENTS))
    parser.add_argument("--workload", help="a shell command in the place of the loads")
    parser.add_argument("--verify", help="a shell command that verifies what it left")
    parser.add_argument("--size", default="1G", help="of the volume")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("brickfs-crash-kill"), help="for the summary and the failed cases")
    arguments = parser.parse_args()
    if bool(arguments.workload) != bool(arguments.verify):
        parser.error("--workload and --verify go together")
    if not arguments.rounds and not arguments.minutes:
        arguments.rounds = 20
    return arguments


def play(arguments, summary, first):
    """Rounds until one fails or all are done; the number of the next."""
    with tempfile.TemporaryDirectory(prefix="brickfs-crash.") as work:
        world = World(arguments.build, work, arguments.size)
        number = first
        try:
            world.start_brick("1G")
            mount = Mount(world, "mnt")
            while not is_done(arguments, summary, number):
                turn = Round(world, arguments, number)
                number += 1
                summary.rounds[turn.incident] += 1
                summary.loads[turn.load] += 1
                try:
                    mount = turn.run(mount)
                except (Failure, OSError, subprocess.SubprocessError) as failure:
                    case = arguments.output / f"case-{arguments.seed}-{turn.number}"
                    world.save(case)
                    what = f"{turn.incident} under {turn.load}: {failure}"
                    (case / "case.txt").write_text(f"{what}\n{again(arguments, turn.number)}\n")
                    summary.failures.append((turn.number, what, case))
                    print(f"round {turn.number} FAILED: {what}", flush=True)
                    break
                summary.longest_ms = max(summary.longest_ms, turn.mount_ms)
                print(f"round {turn.number}: {turn.incident} under {turn.load}", flush=True)
        finally:
            world.leave()
        return number


def is_done(arguments, summary, number):
    if arguments.rounds and number >= arguments.first + arguments.rounds:
        return True
    return bool(arguments.minutes) and time.monotonic() - summary.began >= arguments.minutes * 60


def main():
    arguments = parse()
    if not arguments.workload:
        must_be_there(arguments.loads, arguments.build)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    arguments.output.mkdir(parents=True, exist_ok=True)
    summary = Summary()
    number = arguments.first
    try:
        while not is_done(arguments, summary, number) and len(summary.failures) < arguments.failures:
            number = play(arguments, summary, number)
    finally:
        (arguments.output / "summary.md").write_text(summary.text(arguments))
    print(f"{sum(summary.rounds.values())} rounds, {len(summary.failures)} failed; {arguments.output / 'summary.md'}")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
