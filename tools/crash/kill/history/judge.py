# SPDX-License-Identifier: Apache-2.0
"""Judges a whole history: thing by thing, which is sound and complete, as linearizability is local (M. Herlihy, J. Wing, 1990, Theorem 1)."""
import collections
import dataclasses

from history import calls as of_calls
from history import counters, logs, names, registers

OBSERVATIONS = ("read", "get", "seek", "stat", "list", "sync", "look")


class NotJudged(Exception):
    """There are too many ways in which it may have been."""


def judge_data(things):
    writes, reads = collections.defaultdict(list), collections.defaultdict(list)
    for call in things:
        first = call.words[0]
        if call.kind == "write":
            for at, value in enumerate(call.words[1:]):
                writes[first + at].append((value, call))
        elif call.kind == "read" and call.is_answered and not call.error:
            for at, value in enumerate(call.result):
                if not isinstance(value, int):
                    return f"register {first + at} is no value that was ever written ({value}):\n    {call.text()}"
                reads[first + at].append((value, call))
    for register in sorted(writes.keys() | reads.keys()):
        wrong = registers.judge(writes[register], reads[register])
        if wrong:
            return f"register {register}: {wrong}"
    return None


def with_late_answers(seek, things):
    """lseek(2) to the end asks, and goes by what the kernel has taken for the size last: the answer to a call of the same machine's, which was under way
    when this began, may be that (docs/shared.md)."""
    beside = [call.begun for call in things if call.mount == seek.mount and call.begun < seek.ended and call.ended > seek.begun]
    return dataclasses.replace(seek, begun=min(beside))


def judge_attribute(things):
    seen = [call for call in things if call.kind in ("get", "seek") and call.is_answered and not call.error]
    return registers.judge([(call.words[0], call) for call in things if call.kind == "set"],
                           [(call.result, with_late_answers(call, things) if call.kind == "seek" else call) for call in seen])


def judge_names(things):
    try:
        return names.judge(things)
    except names.TooMany:
        raise NotJudged(things[0].thing) from None


def judge_log(things, contents):
    if things[0].thing not in contents:
        return None
    return logs.judge([call for call in things if call.kind == "append"],
                      [call for call in things if call.kind == "look" and call.is_answered and not call.error], contents[things[0].thing])


def judge_counter(things, contents):
    increments = [call for call in things if call.kind == "increment"]
    if things[0].thing not in contents:
        return counters.judge_locks([call for call in increments if call.is_answered and not call.is_unsure])
    return counters.judge(increments, contents[things[0].thing])


def judge_thing(things, contents):
    things = sorted((call for call in things if call.kind != "sync"), key=lambda call: call.begun)
    if not things:
        return None
    sort = things[0].thing.split(":")[0]
    if sort == "data":
        return judge_data(things)
    if sort == "names":
        return judge_names(things)
    if sort == "log":
        return judge_log(things, contents)
    if sort == "counter":
        return judge_counter(things, contents)
    return judge_attribute(things)


def judge_once(calls, contents, when=""):
    by_thing = collections.defaultdict(list)
    for call in calls:
        by_thing[call.thing].append(call)
    found, not_judged = [], []
    for thing, things in sorted(by_thing.items()):
        try:
            wrong = judge_thing(things, contents)
        except NotJudged:
            not_judged.append(thing)
            continue
        if wrong:
            found.append(f"{thing}{when}: {wrong}")
    return found, not_judged


def judge(calls, ends, contents):
    """`ends`: of coordinators' mounts (calls.End). `contents`: of logs and counters at the end. What cannot be, and what was not judged, as two lists."""
    found, not_judged = judge_once(of_calls.after_crashes(calls, ends, OBSERVATIONS), contents)
    ends = sorted(ends, key=lambda end: end.at)
    for number, end in enumerate(ends):
        if not end.is_sudden:
            continue
        before = of_calls.until(of_calls.after_crashes(calls, ends[:number], OBSERVATIONS), end.at)
        more, others = judge_once(before, {}, f" (until the coordinator {end.mount} died)")
        found, not_judged = found + more, not_judged + others
    return found, not_judged
