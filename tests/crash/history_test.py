#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of `brickfs-crash cluster --machines`: histories written by hand, of which it has to accept those that can be, and to refuse the others."""
import hashlib
import itertools
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "crash" / "kill"))
from history import names, registers
from history.calls import NEVER, Call, End, read_calls
from history.judge import judge
from history.logs import line_of


def call(begun, ended, kind, *words, thing="size:s", result=None, error="", mount="m1.1", program="m1.1.0", so_far=None):
    return Call(mount, program, thing, kind, list(words), begun, NEVER if ended is None else ended, result, error, so_far)


def write(begun, ended, value, **more):
    return call(begun, ended, "set", value, **more)


def read(begun, ended, value, **more):
    return call(begun, ended, "get", result=value, **more)


def in_directory(begun, ended, kind, *words, **more):
    return call(begun, ended, kind, *words, thing="names:n", **more)


class Judged(unittest.TestCase):
    contents = {}
    ends = ()

    def found(self, *calls):
        return judge(list(calls), self.ends, self.contents)[0]

    def can_be(self, *calls):
        self.assertEqual(self.found(*calls), [])

    def cannot_be(self, words, *calls):
        found = self.found(*calls)
        self.assertTrue(found, "it is accepted")
        self.assertIn(words, found[0])


class Registers(Judged):
    def test_what_was_written_is_read(self):
        self.can_be(read(0, 1, 0), write(2, 3, 5), read(4, 5, 5), write(6, 7, 9), read(8, 9, 9))

    def test_a_write_under_way_is_read_or_not(self):
        self.can_be(write(0, 10, 5), read(1, 2, 0), read(3, 4, 5), read(5, 6, 5))

    def test_stale_read(self):
        self.cannot_be("there, before and behind", write(0, 1, 5), write(2, 3, 9), read(4, 5, 5))

    def test_initial_value_behind_a_write(self):
        self.cannot_be("there, before and behind", write(0, 1, 5), read(2, 3, 0))

    def test_new_then_old(self):
        self.cannot_be("there, before and behind", write(0, 1, 4), write(2, 20, 5), read(3, 4, 5), read(5, 6, 4))

    def test_read_before_it_was_written(self):
        self.cannot_be("before it was written", read(0, 1, 5), write(2, 3, 5))

    def test_value_of_nobody(self):
        self.cannot_be("nobody wrote 7", write(0, 1, 5), read(2, 3, 7))

    def test_two_readers_that_differ_about_the_order(self):
        self.cannot_be("there, before and behind", write(0, 20, 1), write(0, 20, 2), read(1, 2, 1), read(3, 4, 2), read(5, 6, 1))

    def test_a_write_that_nobody_knows_of_may_come_late_once(self):
        late = write(0, None, 5)
        self.can_be(late, write(1, 2, 9), read(3, 4, 9), read(5, 6, 5))
        self.can_be(late, write(1, 2, 9), read(3, 4, 9))
        self.cannot_be("neither of two", late, write(1, 2, 9), read(3, 4, 5), read(5, 6, 9), read(7, 8, 5))

    def test_the_end_that_a_late_answer_to_another_call_of_the_machine_tells(self):
        late, seek = read(2, 8, 5), call(6, 9, "seek", result=4)
        self.can_be(write(0, 1, 4), write(3, 5, 5), late, seek)
        self.cannot_be("there, before and behind", write(0, 1, 4), write(3, 5, 5), late, read(6, 9, 4))
        self.cannot_be("there, before and behind", write(0, 1, 4), write(3, 5, 5), read(2, 8, 5, mount="m2.1"), seek)
        self.cannot_be("neither of two", write(0, 1, 4), write(1, 1.5, 5), late, seek)

    def test_torn_block(self):
        data = [call(0, 1, "write", 0, 5, thing="data:d"), call(2, 3, "read", 0, 1, thing="data:d", result=["4096 bytes, of [5, 6]"])]
        self.cannot_be("no value", *data)

    def test_registers_of_one_file_are_apart(self):
        both = call(0, 1, "write", 0, 5, 6, thing="data:d")
        self.can_be(both, call(2, 3, "read", 0, 2, thing="data:d", result=[5, 6]))
        self.cannot_be("register 1", both, call(2, 3, "read", 0, 2, thing="data:d", result=[5, 0]))

    def test_as_a_search_for_an_order_says(self):
        """All small histories are too many; a thousand of them, at random, by another way."""
        verdicts = set()
        for seed in range(1000):
            random_ = random.Random(seed)
            calls = []
            for value in range(1, random_.randint(2, 4)):
                begun = random_.randint(0, 9)
                calls.append(write(begun, random_.choice([None, begun + random_.randint(1, 6)]), value))
            for _ in range(random_.randint(1, 4)):
                begun = random_.randint(0, 12)
                calls.append(read(begun + 0.5, begun + 0.5 + random_.randint(1, 4), random_.randint(0, 3)))
            expected = has_an_order(calls)
            verdicts.add(expected)
            self.assertEqual(not self.found(*calls), expected, f"seed {seed}: " + "\n".join(one.text() for one in calls))
        self.assertEqual(verdicts, {True, False})


def has_an_order(calls):
    """By trying all."""
    must = [one for one in calls if one.is_answered]
    may = [one for one in calls if not one.is_answered]
    for count in range(len(may) + 1):
        for some in itertools.combinations(may, count):
            if extends(must + list(some), 0):
                return True
    return False


def extends(left, value):
    if not left:
        return True
    first_end = min(one.ended for one in left)
    for one in left:
        if one.begun <= first_end and (one.kind == "set" or one.result == value):
            rest = [other for other in left if other is not one]
            if extends(rest, one.words[0] if one.kind == "set" else value):
                return True
    return False


class Names(Judged):
    def test_names_of_their_time(self):
        self.can_be(in_directory(0, 1, "stat", "a", error="ENOENT"), in_directory(2, 3, "create", "a", "f0600"),
                    in_directory(4, 5, "stat", "a", result=["f0600", 1]), in_directory(6, 7, "link", "a", "b"),
                    in_directory(8, 9, "stat", "b", result=["f0600", 2]), in_directory(10, 11, "unlink", "a"),
                    in_directory(12, 13, "list", "a", "b", "c", result=["b"]), in_directory(14, 15, "rename", "b", "c", ""),
                    in_directory(16, 17, "stat", "c", result=["f0600", 1]))

    def test_negative_name_that_is_kept_too_long(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "stat", "a", error="ENOENT"), in_directory(2, 3, "create", "a", "f0600"),
                       in_directory(4, 5, "stat", "a", error="ENOENT"))

    def test_name_that_is_gone(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "unlink", "a"),
                       in_directory(4, 5, "stat", "a", result=["f0600", 1]))

    def test_link_to_what_its_first_name_led_to(self):
        before = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "link", "a", "b"), in_directory(4, 5, "create", "c", "f0601")]
        gone = [in_directory(6.1, 7, "unlink", "c"), in_directory(8, 9, "unlink", "a")]
        self.can_be(*before, in_directory(6, 12, "link", "a", "c"), *gone, in_directory(13, 14, "stat", "c", result=["f0600", 2]))
        self.cannot_be("cannot have been answered", *before, in_directory(9.5, 12, "link", "a", "c"), *gone)

    def test_rename_of_what_another_one_renames(self):
        before = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "create", "b", "f0601")]
        other, after = in_directory(5, 6, "rename", "a", "b", ""), in_directory(9, 10, "list", "a", "b", result=["b"])
        for how in ("exchange", ""):
            self.can_be(*before, in_directory(4, 8, "rename", "a", "b", how), other, after, in_directory(11, 12, "stat", "b", result=["f0600", 1]))
        self.cannot_be("cannot have been answered", *before, other, in_directory(6.5, 8, "rename", "a", "b", "exchange"), after)
        self.cannot_be("cannot have been answered", *before, in_directory(4, 8, "rename", "a", "b", "noreplace"), other, after)

    def test_link_to_what_has_no_name(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "create", "c", "f0601"),
                       in_directory(4, 5, "unlink", "a"), in_directory(6, 7, "unlink", "c"), in_directory(5.1, 8, "link", "a", "c"))

    def test_link_count_that_is_old(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "link", "a", "b"),
                       in_directory(4, 5, "stat", "a", result=["f0600", 1]))

    def test_name_that_leads_to_the_former_file(self):
        calls = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "symlink", "b", "l7"), in_directory(4, 5, "rename", "b", "a", "")]
        self.can_be(*calls, in_directory(6, 7, "stat", "a", result=["l7", None]))
        self.cannot_be("cannot have been answered", *calls, in_directory(6, 7, "stat", "a", result=["f0600", 1]))

    def test_created_twice(self):
        self.cannot_be("cannot have been answered", in_directory(0, 9, "create", "a", "f0600"), in_directory(0, 9, "create", "a", "f0601"))

    def test_removed_twice(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "mkdir", "a", "d0600"), in_directory(2, 9, "rmdir", "a"), in_directory(2, 9, "rmdir", "a"))

    def test_listing_without_what_is_there(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "list", "a", "b", result=[]))

    def test_listing_beside_a_rename_may_show_both_names_or_none(self):
        for shown in ([], ["a"], ["b"], ["a", "b"]):
            self.can_be(in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 9, "rename", "a", "b", ""), in_directory(3, 8, "list", "a", "b", result=shown))

    def test_exchange(self):
        both = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "mkdir", "b", "d0700"), in_directory(4, 5, "rename", "a", "b", "exchange")]
        self.can_be(*both, in_directory(6, 7, "stat", "a", result=["d0700", 2]))
        self.cannot_be("cannot have been answered", *both, in_directory(6, 7, "stat", "a", result=["f0600", 1]))

    def test_rename_of_a_file_to_another_name_of_it(self):
        both = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "link", "a", "b"), in_directory(4, 5, "rename", "a", "b", "")]
        self.can_be(*both, in_directory(6, 7, "stat", "a", result=["f0600", 2]))
        self.cannot_be("cannot have been answered", *both, in_directory(6, 7, "stat", "a", error="ENOENT"))

    def test_orders_that_two_have_seen_otherwise(self):
        moves = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 20, "rename", "a", "b", ""), in_directory(3, 4, "stat", "a", error="ENOENT")]
        self.can_be(*moves, in_directory(5, 6, "stat", "b", result=["f0600", 1]))
        self.cannot_be("cannot have been answered", *moves, in_directory(5, 6, "stat", "a", result=["f0600", 1]))

    def test_a_removal_that_nobody_knows_of(self):
        calls = [in_directory(0, 1, "create", "a", "f0600"), in_directory(2, None, "unlink", "a")]
        self.can_be(*calls, in_directory(3, 4, "stat", "a", result=["f0600", 1]), in_directory(5, 6, "stat", "a", error="ENOENT"))
        self.cannot_be("cannot have been answered", *calls, in_directory(3, 4, "stat", "a", error="ENOENT"), in_directory(5, 6, "stat", "a", result=["f0600", 1]))

    def test_no_directory_answers_so(self):
        self.cannot_be("no directory answers so", in_directory(0, 1, "rename", "a", "b", "", error="EEXIST"))

    def test_too_many_ways_are_not_judged(self):
        calls = [in_directory(0, None, "create", f"n{number}", "f0600") for number in range(18)]
        calls.append(in_directory(1, 2, "stat", "other", result=["f0600", 1]))
        self.assertEqual(judge(calls, (), {}), ([], ["names:n"]))
        with self.assertRaises(names.TooMany):
            names.judge(calls)


class Logs(Judged):
    first = call(0, 1, "append", 1, 40, thing="log:l", program="one")
    second = call(2, 3, "append", 1, 50, thing="log:l", program="two")
    unknown = call(0, None, "append", 2, 60, thing="log:l", program="two")
    lines = {40: line_of("one", 1, 40), 50: line_of("two", 1, 50), 60: line_of("two", 2, 60)}

    def of(self, *sizes):
        content = b"".join(self.lines[size] for size in sizes)
        self.contents = {"log:l": content}
        return content

    def look(self, begun, ended, content):
        return call(begun, ended, "look", thing="log:l", result=[len(content), hashlib.sha256(content).hexdigest()])

    def test_all_lines_in_order(self):
        content = self.of(40, 50)
        self.can_be(self.first, self.second, self.look(1.5, 1.8, content[:40]), self.look(4, 5, content))
        self.of(60, 40, 50)
        self.can_be(self.first, self.second, self.unknown)

    def test_lost(self):
        self.of(40)
        self.cannot_be("lost", self.first, self.second)

    def test_twice(self):
        self.of(40, 60, 60, 50)
        self.cannot_be("twice", self.first, self.second, self.unknown)

    def test_order(self):
        self.of(50, 40)
        self.cannot_be("behind one that was begun after", self.first, self.second)

    def test_torn(self):
        self.contents = {"log:l": self.lines[40][:20] + self.lines[50] + self.lines[40][20:]}
        self.cannot_be("nobody appended", self.first, self.second)

    def test_old_size(self):
        content = self.of(40, 50)
        self.cannot_be("without what had been answered", self.first, self.second, self.look(4, 5, content[:40]))

    def test_zeros_where_a_line_is_to_come(self):
        self.of(40, 50)
        self.cannot_be("no beginning", self.first, self.second, self.look(2.5, 2.8, self.lines[40] + bytes(50)))

    def test_what_was_not_begun(self):
        content = self.of(40, 50)
        self.cannot_be("was not begun", self.first, self.second, self.look(0.5, 1.2, content))


class Counters(Judged):
    @staticmethod
    def one(begun, ended, number, **more):
        return call(begun, ended, "increment", thing="counter:c", result=None if ended is None else [number, begun + 0.1, (ended or 0) - 0.1],
                    so_far=number, **more)

    def test_one_by_one(self):
        self.contents = {"counter:c": 3}
        self.can_be(self.one(0, 1, 0), self.one(2, 3, 1), self.one(4, 5, 2))

    def test_lost_update(self):
        self.contents = {"counter:c": 2}
        self.cannot_be("same number", self.one(0, 1, 0), self.one(2, 3, 1), self.one(4, 5, 1))

    def test_two_with_the_lock(self):
        self.contents = {"counter:c": 2}
        self.cannot_be("the lock", self.one(0, 3, 0), self.one(2, 5, 1))

    def test_last_one_is_lost(self):
        self.contents = {"counter:c": 1}
        self.cannot_be("at the end there is 1", self.one(0, 1, 0), self.one(2, 3, 1))

    def test_who_was_not_heard_of_wrote_or_not(self):
        self.contents = {"counter:c": 3}
        self.can_be(self.one(0, 1, 0), self.one(2, None, 1), self.one(4, 5, 2))
        self.contents = {"counter:c": 2}
        self.can_be(self.one(0, 1, 0), self.one(2, None, 1), self.one(4, 5, 1))

    def test_number_of_nobody(self):
        self.contents = {"counter:c": 3}
        self.cannot_be("nobody read 1", self.one(0, 1, 0), self.one(4, 5, 2))


class Crashes(Judged):
    """Of the coordinator, mount m1.1."""
    ends = (End("m1.1", 5, True),)

    def test_what_it_had_not_synced_may_be_lost(self):
        self.can_be(write(0, 1, 5), read(2, 3, 5), read(6, 7, 0, mount="m2.1"))

    def test_what_it_had_synced_is_not(self):
        self.cannot_be("there, before and behind", write(0, 1, 5), call(2, 3, "sync"), read(6, 7, 0, mount="m2.1"))

    def test_what_others_have_seen_is_not(self):
        self.cannot_be("neither of two", write(0, 1, 5), read(2, 3, 5, mount="m2.1"), read(6, 7, 0, mount="m2.1"), read(8, 9, 5, mount="m2.1"))

    def test_what_others_had_written_is_not(self):
        self.cannot_be("there, before and behind", write(0, 1, 5, mount="m2.1"), read(6, 7, 0, mount="m2.2"))

    def test_until_then_all_of_it_holds(self):
        self.cannot_be("until the coordinator m1.1 died", write(0, 1, 5), read(2, 3, 0, mount="m2.1"), read(6, 7, 0, mount="m2.1"))

    def test_names_may_be_lost(self):
        self.can_be(in_directory(0, 1, "create", "a", "f0600"), in_directory(2, 3, "stat", "a", result=["f0600", 1]),
                    in_directory(6, 7, "stat", "a", error="ENOENT", mount="m2.1"), in_directory(8, 9, "create", "a", "f0601", mount="m2.1"))

    def test_names_come_once(self):
        self.cannot_be("cannot have been answered", in_directory(0, 1, "create", "a", "f0600"), in_directory(6, 7, "stat", "a", error="ENOENT", mount="m2.1"),
                       in_directory(8, 9, "create", "a", "f0601", mount="m2.1"), in_directory(10, 11, "stat", "a", result=["f0600", 1], mount="m2.1"))


class Notes(unittest.TestCase):
    def test_torn_notes_and_calls_without_an_answer(self):
        lines = ['["b", 1, 1.5, "set", "size:s", [7]]\n', '["e", 1, 2.5, null, ""]\n', '["b", 2, 3.5, "set", "size:s", [8]]\n', '["u", 2, 4.5, "ESTALE"]\n',
                 '["b", 3, 5.5, "increment", "counter:c", []]\n', '["p", 3, 6.5, 4]\n', '["b", 4, 7']
        first, second, third = read_calls("m1.1", "m1.1.0", lines)
        self.assertEqual((first.begun, first.ended, second.ended, third.so_far), (1.5, 2.5, NEVER, 4))

    def test_a_register_that_nobody_wrote(self):
        self.assertIsNone(registers.judge([], []))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
