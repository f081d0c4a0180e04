#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tenant.py PORT VOLUME BLOCKS maps|commits|connections|followers: takes all that one client may have, again and again. Writes a line, with how much that
was, each time it has come to an end."""
import errno
import resource
import struct
import sys
import threading
import time

import brick_wire as wire

port, volume, blocks, what = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]


def keep_alive(session):
    """The session's first connection, when it has nothing else to do."""
    while True:
        session.call(wire.RENEW)
        time.sleep(1)


def tell(text):
    print(text, flush=True)


def begin():
    session = wire.Session(port, volume, steal=True)
    try:
        session.alloc(0, blocks)
    except wire.Refused as refused:
        if refused.status != errno.EEXIST:
            raise
    return session


def maps():
    session = begin()
    while True:
        calls = 0
        try:
            while calls < 40_000:
                session.map(0, blocks, wire.READ)
                calls += 1
        except wire.Refused as refused:
            if refused.status != errno.ENOMEM:
                raise
        tell(f"{calls} maps of {blocks} blocks")
        time.sleep(0.5)
        session.call(wire.UNMAP, struct.pack("<QQ", 0, blocks))


def commits():
    """On the session's first connection: nobody looks at that meanwhile, but who serves the call."""
    session = begin()
    data = session.attach(wire.TRANSFERS)
    for number, handle in enumerate(session.map(0, blocks)):
        wire.write(data, handle, 0, bytes([number % 251]) * 4096)
    everything = [(0, blocks * wire.BLOCK, at % 2 == 1) for at in range(8192)]
    tell("the first commit begins")
    while True:
        began = time.monotonic()
        session.call(wire.COMMIT, wire.commit_body(everything))
        tell(f"a commit of 8192 times {blocks} blocks took {time.monotonic() - began:.2f} s")


def connections():
    session = begin()
    threading.Thread(target=keep_alive, args=(session,), daemon=True).start()
    while True:
        attached = []
        try:
            while len(attached) < 5_000:
                attached.append(session.attach(wire.TRANSFERS))
        except wire.Refused as refused:
            if refused.status != errno.ENOBUFS:
                raise
        tell(f"{len(attached)} connections")
        time.sleep(0.5)
        for connection in attached:
            connection.close()


def followers():
    """All that a volume may have, each with all the connections that a session may have."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
    threading.Thread(target=keep_alive, args=(begin(),), daemon=True).start()
    while True:
        sessions, attached = [], []
        for _ in range(256):
            try:
                sessions.append(wire.Session(port, volume, mode=wire.FOLLOW))
            except wire.Refused as refused:
                if refused.status != errno.EUSERS:
                    raise
        for session in sessions:
            try:
                while True:
                    attached.append(session.attach(wire.CALLS))
            except wire.Refused as refused:
                if refused.status not in (errno.ENOBUFS, errno.EUSERS):
                    raise
        tell(f"{len(sessions)} followers with {len(sessions) + len(attached)} connections")
        time.sleep(2.5)
        for connection in attached + sessions:
            connection.close()


{"maps": maps, "commits": commits, "connections": connections, "followers": followers}[what]()
