# SPDX-License-Identifier: Apache-2.0
"""`brickfs-crash cluster --machines N`: one volume on several machines, faults under load from all of them, and whether what their programs were told can be.
docs/recovery.md, "Shared volumes"."""
import collections
import random
import subprocess
import tempfile
import time

from history.judge import judge
from loads import all_answer
from machine_faults import FAULTS
from machines_world import Machines
from world import PATIENCE, Failure

GOES_ON_WITHIN = 60
MORE = 1000  # bytes of notes that say that a machine goes on


class Round:
    def __init__(self, cluster, arguments, number):
        self.cluster = cluster
        self.arguments = arguments
        self.number = number
        self.random = random.Random(f"{arguments.seed}/{number}")
        self.names = []
        self.said = []
        self.not_judged = []
        self.calls = 0
        self.began = time.monotonic()

    def text(self):
        return ", ".join(self.said) or "nothing"

    def say(self, words):
        self.said.append(words)
        print(f"  {time.monotonic() - self.began:5.1f} s  {words}", flush=True)

    def run(self):
        self.cluster.begin_round(self.number, f"{self.arguments.seed}/{self.number}")
        self.tend_for(self.random.uniform(1, 2))
        self.wait_for(self.cluster.serve_all, "mounting on all machines")
        try:
            self.play()
        finally:
            self.cluster.under_way = []
        self.go_on()
        self.end_in_peace()
        self.judge()

    # --- faults

    def tend_for(self, seconds):
        end = time.monotonic() + seconds
        while True:
            self.cluster.tend()
            if time.monotonic() >= end:
                return
            time.sleep(0.02)

    def wait_for(self, condition, what):
        end = time.monotonic() + GOES_ON_WITHIN
        while not condition():
            if time.monotonic() > end:
                raise Failure(f"{what} takes more than {GOES_ON_WITHIN} s, with everything healed")
            self.tend_for(0.05)

    def play(self):
        """Faults begin one after the other, and end when their time has come."""
        under_way = self.cluster.under_way = []
        for _ in range(min(self.random.choice((1, 1, 2, 3, 4)), self.arguments.most)):
            self.end_due(under_way)
            self.begin_one(under_way)
            self.tend_for(self.random.choice((0, self.random.uniform(0, 1), self.random.uniform(0, 4))))
        while under_way:
            self.end_due(under_way)
            self.tend_for(0.02)

    def begin_one(self, under_way):
        for _ in range(20):
            name = self.random.choices(self.arguments.faults, [FAULTS[name][2] for name in self.arguments.faults])[0]
            act, longest, _ = FAULTS[name]
            fault = act(self.cluster, self.random)
            words = next(fault)
            if words is None:
                continue
            lasts = self.random.uniform(0.1, longest)
            self.names.append(name)
            self.say(f"{name} {words} for {lasts:.1f} s")
            under_way.append((time.monotonic() + lasts, fault))
            return

    @staticmethod
    def end_due(under_way):
        for one in sorted(under_way, key=lambda one: one[0]):
            if one[0] <= time.monotonic():
                under_way.remove(one)
                next(one[1], None)

    # --- what must hold

    def go_on(self):
        cluster = self.cluster
        self.wait_for(cluster.serve_all, "mounting on all machines")
        for machine in cluster.machines:
            before = cluster.progress(machine)
            self.wait_for(lambda here=machine, there=before: here.serves() and cluster.progress(here) > there + MORE, f"any progress on {machine.name}")

    def end_in_peace(self):
        """Every machine looks at everything; also when all have come again."""
        cluster = self.cluster
        for machine in cluster.machines:
            if not machine.end_programs():
                cluster.must_be_lost(machine)
                machine.lose()
        self.look_everywhere()
        if self.random.random() < 0.5:
            cluster.unmount_all(self.random)
            if cluster.etcds:
                cluster.compare()
            cluster.check()
            self.say("unmounted everywhere, checked, and mounted again")
            self.look_everywhere()

    def look_everywhere(self):
        self.cluster.mount_all()
        for machine in self.random.sample(self.cluster.machines, len(self.cluster.machines)):
            all_answer(machine.mount)
            machine.look()

    def contents(self):
        """Of what only its end makes sense of."""
        place = self.cluster.machines[0].mount.point / self.cluster.directory
        contents = {f"log:{name}": (place / name).read_bytes() for name in ("l0", "l1")}
        return contents | {f"counter:{name}": int((place / name).read_bytes()) for name in ("c0", "c1", "c2")}

    def judge(self):
        calls = self.cluster.read_history()
        self.calls = sum(call.is_answered for call in calls)
        found, self.not_judged = judge(calls, self.cluster.ends, self.contents())
        if found:
            (self.cluster.work / "verdict.log").write_text("\n\n".join(found) + "\n")
            raise Failure(f"what the machines were told cannot be: {found[0]}" + (f"\n  and {len(found) - 1} more" if found[1:] else ""))
        print(f"  {time.monotonic() - self.began:5.1f} s  {self.calls} calls can be" +
              (f"; not judged: {', '.join(self.not_judged)}" if self.not_judged else ""), flush=True)

    def clear(self):
        done = subprocess.run(["timeout", str(PATIENCE), "rm", "-r", self.cluster.machines[-1].mount.point / self.cluster.directory], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"what the programs used cannot be removed: {done.stderr.strip().splitlines()[:1]}")


class Summary:
    """A page of text."""

    def __init__(self):
        self.rounds = self.calls = self.not_judged = 0
        self.faults = collections.Counter()
        self.failures = []
        self.began = time.monotonic()

    def note(self, one):
        self.calls += one.calls
        self.faults.update(one.names)
        self.not_judged += len(one.not_judged)

    def line(self):
        return (f"{self.rounds} rounds in {(time.monotonic() - self.began) / 60:.1f} minutes, {sum(self.faults.values())} faults, {len(self.failures)} failed; "
                f"{self.calls} calls judged" + (f", {self.not_judged} directories or so not" if self.not_judged else ""))

    def text(self, arguments):
        lines = [f"# brickfs-crash cluster --machines {arguments.machines}, seed {arguments.seed}", "", self.line(), "", "| fault | times |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.faults.items())]
        for number, what, case in self.failures:
            lines += ["", f"Round {number} FAILED: {what}", f"  saved in {case}", f"  again: {again(arguments, number)}"]
        return "\n".join(lines) + "\n"


def again(arguments, number):
    words = ["brickfs-crash", "cluster", "--machines", arguments.machines, "--seed", arguments.seed, "--first", number, "--rounds", 1,
             "--bricks", arguments.bricks, "--copies", arguments.copies, "--etcd", arguments.etcd, "--durable" if arguments.durable else "--volatile",
             "--size", arguments.size, "--most", arguments.most]
    if len(arguments.faults) < len(FAULTS):
        words += ["--faults", ",".join(arguments.faults)]
    return " ".join(map(str, words))


def play(arguments, summary, first, is_done):
    """Rounds on the same machines until one fails or all are done; the number of the next."""
    number = first
    with tempfile.TemporaryDirectory(prefix="brickfs-machines.") as work:
        cluster = Machines(arguments, work)
        try:
            cluster.start()
            while not is_done(arguments, summary, number):
                turn = Round(cluster, arguments, number)
                number += 1
                print(f"round {turn.number}:", flush=True)
                summary.rounds += 1
                try:
                    turn.run()
                    turn.clear()
                    summary.note(turn)
                except (Failure, OSError, subprocess.SubprocessError) as failure:
                    note_failure(arguments, summary, turn, failure)
                    break
        finally:
            cluster.leave()
    return number


def note_failure(arguments, summary, turn, failure):
    case = arguments.output / f"case-{arguments.seed}-{turn.number}"
    turn.cluster.save(case)
    what = f"{turn.text()}: {failure}"
    (case / "case.txt").write_text(f"{what}\n{again(arguments, turn.number)}\n")
    summary.failures.append((turn.number, what, case))
    print(f"round {turn.number} FAILED: {failure}\n  logs are in {case}\n  again: {again(arguments, turn.number)}", flush=True)
