# SPDX-License-Identifier: Apache-2.0
"""A file that is appended to (O_APPEND): each line that was answered for is there once and whole, one of which nobody knows at most once, none comes before one
that had been answered for when it began, and whoever read meanwhile saw a beginning of it, with all that had been answered for.
"""
import hashlib


def line_of(program, number, size):
    """Of `size` bytes, which say whose it is."""
    head = f"{program} {number} ".encode()
    return head + b"." * (size - len(head) - 1) + b"\n"


def judge(appends, reads, content):
    """`content`: of the file at the end. None, or what cannot be."""
    expected = {line_of(call.program, *call.words): call for call in appends}
    placed, end_of = [], {}
    at = 0
    for line in content.splitlines(keepends=True):
        if line not in expected:
            return f"at byte {at} there is what nobody appended: {line[:60]!r} of {len(line)} bytes"
        if line in end_of:
            return f"a line is there twice, the second time at byte {at}:\n    {expected[line].text()}"
        at += len(line)
        end_of[line] = at
        placed.append(expected[line])
    for line, call in expected.items():
        if line not in end_of and call.is_answered and not call.is_unsure:
            return f"a line is lost:\n    {call.text()}"
    return judge_order(placed) or judge_reads(reads, content, {id(expected[line]): at for line, at in end_of.items()}, appends)


def judge_order(placed):
    latest = None
    for call in placed:
        if latest is not None and call.ended < latest.begun:
            return f"a line stands behind one that was begun after its end:\n    {call.text()}\n    {latest.text()}"
        if latest is None or call.begun > latest.begun:
            latest = call
    return None


def judge_reads(reads, content, ends, appends):
    known = sorted(((call.ended, ends[id(call)], call) for call in appends if call.is_answered and id(call) in ends), key=lambda one: one[0])
    begun = sorted(((call.begun, ends[id(call)], call) for call in appends if id(call) in ends), key=lambda one: one[1])
    for read in reads:
        size, digest = read.result
        if size > len(content) or hashlib.sha256(content[:size]).hexdigest() != digest:
            return f"a reader saw {size} bytes that are no beginning of what there is now:\n    {read.text()}"
        late = next((call for ended, end, call in known if ended < read.begun and end > size), None)
        if late is not None:
            return f"a reader saw {size} bytes, without what had been answered for:\n    {late.text()}\n    {read.text()}"
        early = next((call for start, end, call in begun if end <= size and start > read.ended), None)
        if early is not None:
            return f"a reader saw what was not begun:\n    {early.text()}\n    {read.text()}"
    return None
