#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lockout.py PORT silent|guesses|mixed PER_SECOND ADDRESSES: comes from so many addresses of this host (1: the one that clients come from, too), so
often a second, without the secret, and waits for nothing. The silent say Hello, and no more; a guess is an OPEN with a wrong proof. Writes a line
once a second: how often it has come."""
import contextlib
import os
import selectors
import socket
import struct
import sys
import time

from brick_wire import OBSERVE, OPEN, hello, prove

port, what, per_second, addresses = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
OPEN_BODY = struct.pack("<QQQII64s128s", 1, 0, 0, OBSERVE, 0, b"default", b"a guess")
HELD = 1000  # at once; the brick has closed most of them
selector = selectors.DefaultSelector()
held = []
came = 0


def come(guesses):
    global came
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no TIME_WAIT: ports are to be had again
    if addresses > 1:
        peer.bind((f"127.1.{came % addresses // 250}.{1 + came % addresses % 250}", 0))
    peer.connect(("127.0.0.1", port))
    peer.setblocking(False)
    nonce = os.urandom(32)
    peer.send(hello(nonce))
    came += 1
    held.append(peer)
    if guesses:
        selector.register(peer, selectors.EVENT_READ, nonce)
    if len(held) > HELD:
        oldest = held.pop(0)
        with contextlib.suppress(KeyError):
            selector.unregister(oldest)
        oldest.close()


def guess(peer, nonce):
    selector.unregister(peer)
    welcome = peer.recv(48)
    if len(welcome) < 48:
        return
    nonces = nonce + welcome[16:] + struct.pack("<Q", 0) + welcome[8:16]
    body = OPEN_BODY + prove(b"a guess", b"brickfs open", nonces, OPEN_BODY)
    peer.send(struct.pack("<IHHQ", len(body), OPEN, 0, 1) + body)


began = told = time.monotonic()
while True:
    now = time.monotonic()
    while came < (now - began) * per_second:
        with contextlib.suppress(OSError):
            come(what == "guesses" or (what == "mixed" and came % 20 == 0))
    for key, _ in selector.select(0.002):
        with contextlib.suppress(OSError):
            guess(key.fileobj, key.data)
    if now - told >= 1:
        told = now
        print(came, flush=True)
