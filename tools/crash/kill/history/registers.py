# SPDX-License-Identifier: Apache-2.0
"""Registers: each is written values that nobody writes twice, and read. Linearizable or not, exactly, in O(n log n).

P. B. Gibbons, E. Korach: Testing Shared Memories, SIAM J. Comput. 26 (1997), section 4. A value with its write and its reads has a zone: from the first end among
these calls to the last beginning. If the former comes first the value was there all that time (a forward zone), otherwise at some instant of the
zone (a backward one). The calls are linearizable if and only if no read ends before its write begins, no two forward zones overlap, and no backward zone lies in a
forward one. A write of which nobody knows has no end; if nobody has read it, it need not have happened.
"""
import bisect

INITIAL = 0


class Value:
    def __init__(self, value, write):
        self.value = value
        self.write = write
        self.calls = [write] if write else []

    def zone(self):
        first_end = min(-1.0 if call is None else call.ended for call in self.calls)
        last_begin = max(-1.0 if call is None else call.begun for call in self.calls)
        return first_end, last_begin

    def text(self):
        shown = sorted((call for call in self.calls if call is not None), key=lambda call: call.begun)
        few = shown if len(shown) <= 6 else shown[:3] + shown[-3:]
        return f"value {self.value}:" + "".join(f"\n    {call.text()}" for call in few)


def judge(writes, reads, initial=INITIAL):
    """`writes`: (value, call), `reads`: (value, call) of one register. None, or what cannot be."""
    values = {initial: Value(initial, None)}
    values[initial].calls = [None]  # written before all others
    for value, call in writes:
        values[value] = Value(value, call)
    for value, call in reads:
        if value not in values:
            return f"nobody wrote {value}:\n    {call.text()}"
        one = values[value]
        if one.write is not None and call.ended < one.write.begun:
            return f"read before it was written: {one.text()}"
        one.calls.append(call)
    seen = [one for one in values.values() if len(one.calls) > 1 or one.write is None or (one.write.is_answered and not one.write.is_unsure)]
    return judge_zones(seen)


def judge_zones(values):
    forward, backward = [], []
    for one in values:
        first_end, last_begin = one.zone()
        (forward if first_end < last_begin else backward).append((min(first_end, last_begin), max(first_end, last_begin), one))
    forward.sort(key=lambda zone: zone[:2])
    for (_, end, one), (begin, _, other) in zip(forward, forward[1:]):
        if begin < end:
            return f"neither of two values can have come first.\n  {one.text()}\n  {other.text()}"
    begins = [zone[0] for zone in forward]
    for begin, end, one in backward:
        at = bisect.bisect_right(begins, begin) - 1
        if at >= 0 and forward[at][0] < begin and end < forward[at][1]:
            return f"one value is there, before and behind another one that was written in between.\n  {forward[at][2].text()}\n  {one.text()}"
    return None
