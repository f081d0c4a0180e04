#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""half_open.py PORT COUNT PER_SECOND: keeps so many half-open connections, from many addresses of this host and from that of the mount: as
soon as the brick closes some, others come, as many a second as given. Every other one says Hello. Writes a line when all have come once."""
import contextlib
import os
import resource
import select
import socket
import sys
import time

from brick_wire import hello

port, count, per_second = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
poll = select.epoll()
peers = {}
made = 0


def come():
    global made
    made += 1
    peer = socket.socket()
    peer.setblocking(False)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no TIME_WAIT: ports are to be had again
    if made % 3 != 0:
        peer.bind((f"127.0.{made % 50}.{2 + made % 7}", 0))
    peer.connect_ex(("127.0.0.1", port))
    peers[peer.fileno()] = peer
    poll.register(peer, select.EPOLLOUT | select.EPOLLRDHUP)


def look(seconds):
    for fd, events in poll.poll(seconds):
        peer = peers[fd]
        if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            poll.unregister(peer)
            peers.pop(fd).close()
        elif events & select.EPOLLOUT:
            poll.modify(peer, select.EPOLLRDHUP)
            with contextlib.suppress(OSError):  # it may be gone again
                if fd % 2 == 0:
                    peer.send(hello(os.urandom(32)))


told = False
began = time.monotonic()
while True:
    allowed = int((time.monotonic() - began) * per_second)
    while made < allowed and len(peers) < count:
        come()
    look(0.02)
    if not told and made >= count:
        told = True
        print("all there", flush=True)
    if len(peers) >= count:  # what was not used is not saved up
        began = time.monotonic() - made / per_second
