# SPDX-License-Identifier: Apache-2.0
"""A directory of a few names: whether its calls are linearizable. What a name leads to is known by what its maker chose for it, so that of a call
nobody heard of it is known, too: a symbolic link by its target, files and directories by their modes ("f0640").

G. Lowe: Testing for Linearizability, Concurrency and Computation 29 (2017): "just in time". All configurations are kept in which the directory may be:
what the names lead to, and which of the calls under way have happened. At the end of a call those stay in which it has, or can have.
Calls that change nothing are conditions, each of which must hold at some instant of the call: a lookup comes before what it is for, and a
listing is no single instant (POSIX). They are ticked off as soon as they hold, so that only changes at a time have several orders.
link(2) first finds what it is to give a name to, and then gives it: what its first name has led to since it began, if that has a name yet.
rename(2) looks up its names one after the other. If both led to one file, each at some instant of the call, it has nothing to do, as the kernel
sees it, and nothing is asked of anybody.
"""
ABSENT = ""
FOUND = "found"  # by a link(2) or rename(2) under way: (number, FOUND, name, identity)
MOST_CONFIGURATIONS = 20_000


class TooMany(Exception):
    """Configurations: it is not judged."""


def kind_of(identity):
    return identity[:1]


# --- what must hold at some instant for a call that changes nothing, or fails

def is_there(name):
    return lambda state: state.get(name, ABSENT) != ABSENT


def is_absent(name):
    return lambda state: state.get(name, ABSENT) == ABSENT


def is_directory(name, yes):
    return lambda state: state.get(name, ABSENT) != ABSENT and (kind_of(state[name]) == "d") == yes


def is_no_link(name):
    """No symbolic one: readlink(2) says EINVAL."""
    return lambda state: kind_of(state.get(name, ABSENT)) in ("f", "d")


def leads_to(name, identity):
    return lambda state: state.get(name, ABSENT) == identity


def has_links(identity, count):
    return lambda state: sum(one == identity for one in state.values()) == count


def conditions_of_failure(call):
    words, error = call.words, call.error
    name = words[0]
    if call.kind in ("create", "symlink", "mkdir"):
        return [is_there(name)] if error == "EEXIST" else None
    if call.kind == "stat":
        return {"ENOENT": [is_absent(name)], "EINVAL": [is_no_link(name)]}.get(error)
    if call.kind == "unlink":
        return {"ENOENT": [is_absent(name)], "EISDIR": [is_directory(name, True)]}.get(error)
    if call.kind == "rmdir":
        return {"ENOENT": [is_absent(name)], "ENOTDIR": [is_directory(name, False)]}.get(error)
    if call.kind == "link":
        return {"ENOENT": [is_absent(name)], "EEXIST": [is_there(words[1])], "EPERM": [is_directory(name, True)]}.get(error)
    if call.kind == "rename":
        other, how = words[1:3]
        absent = [is_absent(name)] if how != "exchange" else [lambda state: not (is_there(name)(state) and is_there(other)(state))]
        return {"ENOENT": absent, "EEXIST": [is_there(other)] if how == "noreplace" else None,
                "EISDIR": [is_directory(name, False), is_directory(other, True)], "ENOTDIR": [is_directory(name, True), is_directory(other, False)]}.get(error)
    return None


def conditions_of_attributes(name, identity, links):
    """`links`: None, if it was not asked for. The attributes may be those of a moment later than the name."""
    if identity == "l":
        return [lambda state: kind_of(state.get(name, ABSENT)) == "l"]
    return [leads_to(name, identity)] + ([has_links(identity, links)] if links is not None and kind_of(identity) == "f" else [])


def conditions(call):
    """Of a call that was answered and changed nothing. None: it cannot be answered so."""
    if call.error:
        return conditions_of_failure(call)
    if call.kind == "stat":
        return conditions_of_attributes(call.words[0], *call.result)
    if call.kind == "list":
        return [is_there(name) if name in call.result else is_absent(name) for name in call.words]
    return None


def changes(call):
    return call.kind in ("create", "symlink", "mkdir", "unlink", "rmdir", "rename", "link")


def change(call, state):
    """The state behind it, but for a link(2), if it is done there; None: it would fail."""
    name, new = call.words[0], dict(state)
    there = state.get(name, ABSENT)
    if call.kind in ("create", "symlink", "mkdir"):
        new[name] = call.words[1]
        return new if there == ABSENT else None
    if there == ABSENT:
        return None
    if call.kind in ("unlink", "rmdir"):
        del new[name]
        return new if (kind_of(there) == "d") == (call.kind == "rmdir") else None
    return rename(new, name, call.words[1], call.words[2])


def linked(state, identity, name):
    """The state behind a link(2) that has found `identity`; None: it would fail."""
    if state.get(name, ABSENT) != ABSENT or identity not in state.values() or kind_of(identity) == "d":
        return None
    return {**state, name: identity}


def rename(new, name, other, how):
    there, at_other = new[name], new.get(other, ABSENT)
    if how == "exchange":
        new[name], new[other] = at_other, there
        return new if at_other != ABSENT else None
    if at_other != ABSENT and (how == "noreplace" or (kind_of(there) == "d") != (kind_of(at_other) == "d")):
        return None
    if there == at_other and name != other:  # two names of one file: both stay
        return new
    del new[name]
    new[other] = there
    return new


def looked_up(call):
    """Names, before it is done."""
    return {"link": call.words[:1], "rename": call.words[:2]}.get(call.kind, [])


def is_found(key, number):
    return isinstance(key, tuple) and key[:2] == (number, FOUND)


def found_at(name, number, done):
    return {key[3] for key in done if is_found(key, number) and key[2] == name}


class Directory:
    def __init__(self, state):
        self.configurations = {(frozenset(state.items()), frozenset())}
        self.pending = {}  # changes under way, by number: perhaps for ever
        self.watched = {}  # conditions that have not ended, by (number, which)

    def tick(self, state, done):
        """With the conditions that hold in that state, and what calls of link(2) can find there."""
        names = dict(state)
        found = {(number, FOUND, name, names[name]) for number, call in self.pending.items() for name in looked_up(call) if name in names}
        return done | found | {key for key, holds in self.watched.items() if key not in done and holds(names)}

    def outcomes(self, number, state, done):
        """The states that a call under way can lead to from there."""
        call, names = self.pending[number], dict(state)
        if call.kind == "link":
            after = [linked(names, identity, call.words[1]) for identity in found_at(call.words[0], number, done)]
        else:
            after = [change(call, names)]
            if call.kind == "rename" and call.words[2] != "noreplace" and set.intersection(*(found_at(name, number, done) for name in call.words[:2])):
                after.append(names)
        return [frozenset(one.items()) for one in after if one is not None]

    def begin(self, number, call):
        if changes(call) and not (call.is_answered and call.error):
            self.pending[number] = call
            if looked_up(call):
                self.configurations = {(state, self.tick(state, done)) for state, done in self.configurations}
        elif call.is_answered:
            for which, holds in enumerate(conditions(call) or []):
                self.watched[(number, which)] = holds
            self.configurations = {(state, self.tick(state, done)) for state, done in self.configurations}

    def end(self, number, keys):
        """Those configurations stay, or come to be, in which all of `keys` have happened."""
        found, seen, open_ones = set(), set(self.configurations), list(self.configurations)
        while open_ones:
            state, done = open_ones.pop()
            if keys <= done:
                found.add((state, frozenset(key for key in done - keys if not is_found(key, number))))
                continue
            for other in self.pending.keys() - done:
                for after in self.outcomes(other, state, done):
                    new = (after, self.tick(after, done | {other}))
                    if new not in seen:
                        seen.add(new)
                        open_ones.append(new)
            if len(seen) > MOST_CONFIGURATIONS:
                raise TooMany
        self.configurations = found
        self.pending.pop(number, None)
        for key in keys:
            self.watched.pop(key, None)


def judge(calls, state=()):
    """Of one directory. None, or what cannot be. `state`: what the names lead to before the first call."""
    directory = Directory(dict(state))
    events = sorted([(call.begun, 0, number) for number, call in enumerate(calls)] +
                    [(call.ended, 1, number) for number, call in enumerate(calls) if call.is_answered and not call.is_unsure])
    for _, is_end, number in events:
        call = calls[number]
        if not is_end:
            directory.begin(number, call)
            continue
        is_change = changes(call) and not call.error
        if not is_change and conditions(call) is None:
            return f"no directory answers so:\n    {call.text()}"
        keys = frozenset([number]) if is_change else frozenset(key for key in directory.watched if key[0] == number)
        before = directory.configurations
        directory.end(number, keys)
        if not directory.configurations:
            return explain(call, before, calls)
    return None


def explain(call, before, calls):
    states = sorted({", ".join(f"{name}={what}" for name, what in sorted(state)) or "nothing" for state, _ in before})
    around = [one for one in calls if one is not call and one.begun < call.ended and one.ended > call.begun - 0.05]
    around = sorted(around, key=lambda one: one.begun)[-14:]
    return (f"it cannot have been answered so:\n    {call.text()}\n  there was one of: {'; '.join(states[:6])}\n  beside or before it:" +
            "".join(f"\n    {one.text()}" for one in around))
