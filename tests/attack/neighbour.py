#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""neighbour.py PORT VOLUME SECONDS: how long a client of another volume waits: for reads, writes and calls, and for a new session once a second.
Prints the median and the worst of the round trips, and the worst of the sessions, in ms."""
import statistics
import sys
import time

import brick_wire as wire

port, volume, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
session = wire.Session(port, volume, steal=True)
session.alloc(0, 1)
handle = session.map(0, 1)[0]
data = session.attach(wire.TRANSFERS)
calls = (
    lambda: wire.read(data, handle, 4096, 4096),
    lambda: wire.write(data, handle, 8192, bytes(4096)),
    lambda: session.call(wire.RENEW),
    lambda: session.call(wire.STAT),
)
trips, openings = [], []
end = time.monotonic() + seconds
next_opening = 0.0
while time.monotonic() < end:
    if time.monotonic() > next_opening:
        began = time.monotonic()
        wire.Session(port, volume, mode=wire.OBSERVE).close()
        openings.append(time.monotonic() - began)
        next_opening = time.monotonic() + 1
    for call in calls:
        began = time.monotonic()
        call()
        trips.append(time.monotonic() - began)
    time.sleep(0.005)
session.call(wire.FREE, wire.struct.pack("<QQ", 0, 1))
session.call(wire.CLOSE)
print(f"{statistics.median(trips) * 1e3:.2f} {max(trips) * 1e3:.1f} {max(openings) * 1e3:.1f}")
