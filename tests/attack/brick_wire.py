# SPDX-License-Identifier: Apache-2.0
"""A client of docs/protocol.md over TCP that does what it is told, also what no client should. One thread at a time for each connection."""
import hashlib
import hmac
import os
import socket
import struct

MAGIC, VERSION = 0x4B435242, 3
OPEN, ATTACH, ALLOC, FREE, MAP, UNMAP, LIST, COMMIT, STAT, RENEW, CLOSE = range(1, 12)
EXCLUSIVE, READ_ONLY, OBSERVE, FOLLOW = 1, 2, 3, 4
READ, READ_WRITE = 1, 3
TRANSFERS, CALLS = 1, 2
BLOCK = 2 << 20
READ_TRANSFER, WRITE_TRANSFER = 0x44414552, 0x54495257


class Refused(Exception):
    def __init__(self, status):
        super().__init__(os.strerror(status))
        self.status = status


def receive(connection, length):
    pieces = []
    while length > 0:
        piece = connection.recv(min(length, 1 << 20))
        if not piece:
            raise ConnectionError("the brick closed the connection")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def hello(nonce):
    return struct.pack("<IHHQ", MAGIC, VERSION, 0, 0) + nonce


def prove(secret, purpose, nonces, message):
    return hmac.new(secret, purpose + b"\0" + nonces + message, hashlib.sha256).digest()


class Connection:
    """Greeted, and nothing more."""

    def __init__(self, port, secret=b"", host="127.0.0.1", source=None, timeout=60):
        self.socket = socket.create_connection((host, port), timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.secret = secret
        self.last_id = int.from_bytes(os.urandom(4), "little") << 16  # the ids of a session's calls are unique
        nonce = os.urandom(32)
        self.socket.sendall(hello(nonce))
        welcome = receive(self.socket, 48)
        if struct.unpack_from("<H", welcome, 6)[0] != 0:
            raise Refused(struct.unpack_from("<H", welcome, 6)[0])
        self.nonces = nonce + welcome[16:] + struct.pack("<Q", 0) + welcome[8:16]  # and what both know

    def send(self, kind, body=b""):
        self.last_id += 1
        self.socket.sendall(struct.pack("<IHHQ", len(body), kind, 0, self.last_id) + body)

    def answer(self):
        length, _, status, _ = struct.unpack("<IHHQ", receive(self.socket, 16))
        body = receive(self.socket, length)
        if status != 0:
            raise Refused(status)
        return body

    def call(self, kind, body=b""):
        self.send(kind, body)
        return self.answer()

    def proved(self, kind, purpose, body):
        return self.call(kind, body + prove(self.secret, purpose, self.nonces, body))

    def close(self):
        self.socket.close()


class Session(Connection):
    def __init__(self, port, volume="default", secret=b"", mode=EXCLUSIVE, steal=False, **how):
        super().__init__(port, secret, **how)
        self.port = port
        self.client = int.from_bytes(os.urandom(8), "little") or 1
        body = struct.pack("<QQQII64s128s", self.client, 0, 0, mode, int(steal), volume.encode(), b"an attack")
        opened = self.proved(OPEN, b"brickfs open", body)
        self.token = opened[48:64]

    def attach(self, role):
        connection = Connection(self.port, self.secret)
        connection.proved(ATTACH, b"brickfs attach", self.token + struct.pack("<II", role, 0))
        return connection

    def alloc(self, first, count):
        self.call(ALLOC, struct.pack("<QQ", first * BLOCK, count))

    def map(self, first, count, access=READ_WRITE):
        """(address, key) for the handle of each run."""
        answer = self.call(MAP, struct.pack("<QQII", first * BLOCK, count, access, 0))
        return [struct.unpack_from("<QI", answer, at + 16) for at in range(0, len(answer), 32)]


def commit_body(ranges):
    """(address, length, after the previous ones)"""
    return b"".join(struct.pack("<QQII", address, length, int(after), 0) for address, length, after in ranges)


def read(connection, handle, offset, length):
    address, key = handle
    connection.last_id += 1
    connection.socket.sendall(struct.pack("<IIQQII", READ_TRANSFER, key, address + offset, connection.last_id, length, 0))
    status, got, _ = struct.unpack("<IIQ", receive(connection.socket, 16))
    if status != 0:
        raise Refused(status)
    return receive(connection.socket, got)


def write(connection, handle, offset, payload):
    address, key = handle
    connection.last_id += 1
    header = struct.pack("<IIQQII", WRITE_TRANSFER, key, address + offset, connection.last_id, len(payload), 0)
    connection.socket.sendall(header + payload)
    status, _, _ = struct.unpack("<IIQ", receive(connection.socket, 16))
    if status != 0:
        raise Refused(status)
