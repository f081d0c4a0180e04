#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The faults of the network that `brickfs-crash cluster` makes: what must be lost is, and nothing else. As root, with nft."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "crash" / "kill"))
from network import SMALL_BYTES, Network

SMALL, LARGE = SMALL_BYTES // 2, SMALL_BYTES + 200
RECEIVE = """
import socket, sys
end = socket.socket(type=socket.SOCK_DGRAM)
end.bind((sys.argv[1], 7777))
end.settimeout(1)
print("ready", flush=True)
try:
    print(len(end.recv(65536)))
except TimeoutError:
    print("nothing")
"""
SEND = "import socket, sys; socket.socket(type=socket.SOCK_DGRAM).sendto(bytes(int(sys.argv[2])), (sys.argv[1], 7777))"


def arrives(sender, receiver, size):
    """Whether a packet of so many bytes does."""
    words = [*receiver.prefix(), sys.executable, "-c", RECEIVE, receiver.address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        sender.run(sys.executable, "-c", SEND, receiver.address, str(size))
        return process.stdout.readline() == f"{size}\n"


def expect(client, brick, there, back):
    """Of (small, large) packets each way."""
    found = tuple(tuple(arrives(*ends, size) for size in (SMALL, LARGE)) for ends in ((client, brick), (brick, client)))
    if found != (there, back):
        sys.exit(f"(small, large) there and back: {found}, not {(there, back)}")


def main():
    network = Network()
    try:
        client, brick = network.add("client"), network.add("brick")
        all_of, small, none = (True, True), (True, False), (False, False)
        expect(client, brick, all_of, all_of)
        network.lose_large(client, brick)
        expect(client, brick, small, all_of)
        network.lose_large(brick, client)
        network.pass_large(client, brick)
        expect(client, brick, all_of, small)
        network.pass_large(brick, client)
        network.cut(client, brick)
        expect(client, brick, none, all_of)
        network.heal(client, brick)
        expect(client, brick, all_of, all_of)
    finally:
        network.close()


if __name__ == "__main__":
    main()
