#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_etcd.py PORT heads|line|interim|extension|drops|nested|flat: who has etcd's address, and answers with something that has no end, or that
takes much memory. Writes a dot for each who comes."""
import contextlib
import socket
import sys
import threading
import time

PIECE = 65536
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def whole(body):
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


BEGIN = b'{"header":{"revision":"5"},"x":'
ANSWERS = {  # once, then again and again, so many seconds apart
    "heads": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * (PIECE // 6), 0),
    "line": (b"HTTP/1.1 200 OK\r\nX: ", b"y" * PIECE, 0),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * (PIECE // 25), 0),
    "extension": (CHUNKED + b"1;", b"x" * PIECE, 0),
    "drops": (b"HTTP/1.1 200 OK\r\nX: ", b"y", 0.5),
    "nested": (whole(BEGIN + b"[" * 1_500_000 + b"]" * 1_500_000 + b"}"), b"", 60),
    "flat": (whole(BEGIN + b"[" + b"[]," * 1_000_000 + b"1]}"), b"", 60),
}
port, what = int(sys.argv[1]), sys.argv[2]
begin, again, pause = ANSWERS[what]


def answer(connection):
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        connection.sendall(begin)
        while True:
            time.sleep(pause)
            connection.sendall(again or b" ")


listening = socket.create_server(("127.0.0.1", port))
while True:
    peer, _ = listening.accept()
    print(".", end="", flush=True)
    threading.Thread(target=answer, args=(peer,), daemon=True).start()
