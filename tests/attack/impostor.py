#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""impostor.py PORT STATUS welcome|answer: takes the brick's port and refuses whoever comes, with that errno. Writes a dot for each."""
import os
import socket
import struct
import sys

from brick_wire import MAGIC, VERSION, prove, receive

port, status, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
listening = socket.create_server(("127.0.0.1", port))
while True:
    connection, _ = listening.accept()
    connection.settimeout(2)
    try:
        hello = receive(connection, 48)
        own = os.urandom(32)
        connection.sendall(struct.pack("<IHHQ", MAGIC, VERSION, status if where == "welcome" else 0, 0) + own)
        print(".", end="", flush=True)
        length, kind, _, call = struct.unpack("<IHHQ", receive(connection, 16))
        receive(connection, length)
        body = prove(b"a guess", b"brickfs refused", hello[16:] + own + hello[8:16] + bytes(8), struct.pack("<HH", kind, status))
        connection.sendall(struct.pack("<IHHQ", len(body), kind | 0x8000, status, call) + body)
    except (OSError, ConnectionError):
        pass
    connection.close()
