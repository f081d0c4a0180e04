#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is on the way between a mount and a brick.

tls_wire.py capture FILE            all that passes on this network's loopback, into FILE, until it is killed
tls_wire.py relay PORT PORT_FILE ALTER   carries connections to 127.0.0.1:PORT; told a number in the file ALTER, it changes one byte of so many of
                                    the pieces that pass, either way, and takes the file away
"""
import os
import random
import socket
import sys
import threading
import time


def capture(path):
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE: none is lost
    wire.bind(("lo", 0))
    with open(path, "ab", buffering=1 << 20) as out:
        print("listens", flush=True)
        while True:
            packet, address = wire.recvfrom(1 << 17)
            if address[2] != socket.PACKET_OUTGOING:  # each passes twice
                out.write(packet)
            out.flush()


class Relay:
    def __init__(self, port, alter):
        self.port, self.alter, self.lock, self.left = port, alter, threading.Lock(), 0

    def change(self, piece):
        with self.lock:
            if os.path.exists(self.alter):
                with open(self.alter, encoding="ascii") as told:
                    self.left += int(told.read())
                os.remove(self.alter)
            if self.left == 0 or len(piece) < 2000 or random.random() < 0.5:
                return piece
            self.left -= 1
        changed = bytearray(piece)
        changed[random.randrange(len(piece))] ^= 1 << random.randrange(8)
        print("altered", flush=True)
        return bytes(changed)

    def carry(self, source, to):
        try:
            while piece := source.recv(1 << 16):
                to.sendall(self.change(piece))
        except OSError:
            pass
        for end in (source, to):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def run(self, port_file):
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        with open(port_file + ".new", "w", encoding="ascii") as out:
            print(listening.getsockname()[1], file=out)
        os.rename(port_file + ".new", port_file)
        while True:
            client, _ = listening.accept()
            try:
                brick = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                client.close()
                time.sleep(0.05)
                continue
            for pair in ((client, brick), (brick, client)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1] == "capture":
        capture(sys.argv[2])
    else:
        Relay(int(sys.argv[2]), sys.argv[4]).run(sys.argv[3])
