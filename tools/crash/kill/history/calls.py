# SPDX-License-Identifier: Apache-2.0
"""Calls as the programs of machines noted them (loads/machine), and what the end of a machine's mount makes of them.

All times are of one clock (CLOCK_MONOTONIC of this host), taken before a call and behind it: what the call did, it did in between.

A *mount* is a machine's, from mounting to its end; the next one of the same machine is another. How it ends says what is known of its calls:

* It was unmounted, or is there still: each call that was answered has been done, once.
* It ended in another way (its process was killed, or it was expelled: ESTALE, or its machine lost the volume), and it was a member: the
  same. A member is answered when what the answer shows is on the bricks.
* It ended in another way, and was the coordinator then, or may have been: what its programs were told they lose with it, as on any machine that crashes. So a change
  of theirs that was not synced may have happened or not, and what they read may have been such a change. But until that end all of it holds, and
  what another machine has seen of it stays.

A call that was not answered, or with an error that is no answer (ESTALE, ENOTCONN, EINTR, ...), has happened, at any time since it
began, or has not. None has happened twice.
"""
import dataclasses
import json

NEVER = float("inf")


@dataclasses.dataclass
class Call:
    mount: str  # "MACHINE.NUMBER"
    program: str  # of that mount, or of another machine: makes one call at a time
    thing: str  # what it is about: a file, a directory of names, ...
    kind: str
    words: list
    begun: float
    ended: float = NEVER
    result: object = None  # of an answer; None: there was none
    error: str = ""  # an errno that is an answer
    so_far: object = None  # noted in its middle
    is_unsure: bool = False  # it has happened, or has not

    @property
    def is_answered(self):
        return self.ended < NEVER

    def text(self):
        said = self.error or self.result if self.is_answered else "not answered"
        until = f"{self.ended:.6f}" if self.is_answered else "..."
        return f"{self.mount} {self.program} [{self.begun:.6f} {until}] {self.kind} {self.thing} {' '.join(map(str, self.words))} -> {str(said)[:120]}"


@dataclasses.dataclass
class End:
    """Of a mount of the coordinator that was not unmounted: when its process was killed, or (`is_sudden` false) nobody knows when it lost the volume."""
    mount: str
    at: float
    is_sudden: bool


def read_calls(mount, program, lines):
    """Of one program: lines of JSON, of which the last one may be torn. ["b", number, time, kind, thing, words], then perhaps ["p", number, time, what
    is known so far], then ["e", number, time, result, error] or ["u", number, time, errno] if nobody knows."""
    calls = {}
    for line in lines:
        if not line.endswith("\n"):
            break
        what, number, at, *rest = json.loads(line)
        if what == "b":
            calls[number] = Call(mount, program, rest[1], rest[0], rest[2], at)
        elif what == "p":
            calls[number].so_far = rest[0]
        elif what == "e":
            calls[number].ended, calls[number].result, calls[number].error = at, rest[0], rest[1]
    return list(calls.values())


def until(calls, time):
    """As if it had been looked at then."""
    seen = []
    for call in calls:
        if call.begun >= time:
            continue
        seen.append(call if call.ended < time else dataclasses.replace(call, ended=NEVER, result=None, error=""))
    return seen


def after_crashes(calls, ends, observations):
    """What is known when coordinators have ended so. `observations`: kinds of calls that change nothing."""
    end_of = {end.mount: end for end in ends}
    syncs = {}
    for call in calls:
        if call.kind == "sync" and call.is_answered and not call.error:
            syncs.setdefault((call.mount, call.thing), []).append(call)
    kept = []
    for call in calls:
        if call.mount not in end_of or not call.is_answered:
            kept.append(call)
        elif call.kind in observations or call.error:
            continue
        elif any(sync.begun >= call.ended for sync in syncs.get((call.mount, call.thing), ())):
            kept.append(call)
        else:
            kept.append(dataclasses.replace(call, is_unsure=True))
    return kept
