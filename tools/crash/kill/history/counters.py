# SPDX-License-Identifier: Apache-2.0
"""A number in a file, which programs read and write one higher under a lock. The result of a call: [the number read, when the lock was had, when
it was given up]. So each number was read by one call that wrote, or by several of which all but one are not known to have written; in the
order of time; and no two of the locks were had at a time.
"""


def judge(calls, final):
    """`final`: the number that is there at the end. None, or what cannot be."""
    done = sorted((call for call in calls if call.is_answered and not call.is_unsure), key=lambda call: call.result[0])
    unknown = [call for call in calls if not call.is_answered or call.is_unsure]
    for one, other in zip(done, done[1:]):
        if one.result[0] == other.result[0]:
            return f"two read the same number and wrote one higher:\n    {one.text()}\n    {other.text()}"
        if other.ended < one.begun:
            return f"a number grew before:\n    {one.text()}\n    {other.text()}"
    return judge_locks(done) or judge_gaps({call.result[0] for call in done}, unknown, done, final)


def judge_locks(done):
    by_time = sorted(done, key=lambda call: call.result[1])
    for one, other in zip(by_time, by_time[1:]):
        if other.result[1] < one.result[2]:
            return f"two had the lock at a time:\n    {one.text()}\n    {other.text()}"
    return None


def judge_gaps(numbers, unknown, done, final):
    """Who was not heard of wrote what lies between."""
    if done and final < done[-1].result[0] + 1:
        return f"at the end there is {final}, behind\n    {done[-1].text()}"
    read = {call.result[0] if call.is_answered else call.so_far for call in unknown}
    anyone = sum(1 for call in unknown if not call.is_answered and call.so_far is None)
    gaps = [number for number in range(final) if number not in numbers and number not in read]
    if len(gaps) > anyone:
        return f"nobody read {gaps[0]} and wrote {gaps[0] + 1}; at the end there is {final}"
    return None
