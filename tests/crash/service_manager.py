#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What systemd does for a service with FileDescriptorStoreMax=1, as far as brickd needs it: keeps the descriptor that it is sent, and gives it
to each process that it starts. It starts another as soon as one has ended, until it is told to end itself.

    service_manager.py DIRECTORY COMMAND...     DIRECTORY/pid: of the process that runs
"""
import array
import os
import pathlib
import signal
import socket
import sys
import threading

FIRST = 3


class Manager:
    def __init__(self, directory, command):
        self.directory = directory
        self.command = command
        self.kept = {}  # name -> descriptor
        self.path = str(directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def listen(self):
        while True:
            message, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4))
            lines = dict(line.split("=", 1) for line in message.decode().splitlines())
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and lines.get("FDSTORE") == "1":
                    self.kept[lines["FDNAME"]] = array.array("i", data[:4])[0]

    def start(self):
        child = os.fork()
        if child != 0:
            return child
        environment = dict(os.environ, NOTIFY_SOCKET=self.path)
        if self.kept:
            sources = [os.dup(fd) for fd in self.kept.values()]
            for number, fd in enumerate(sources):
                os.dup2(fd, FIRST + number, inheritable=True)
            environment.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(sources)), LISTEN_FDNAMES=":".join(self.kept))
        os.execve(self.command[0], self.command, environment)

    def run(self):
        threading.Thread(target=self.listen, daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        while True:
            self.child = self.start()
            (self.directory / "pid").write_text(f"{self.child}\n")
            os.waitpid(self.child, 0)

    def end(self):
        os.kill(self.child, signal.SIGTERM)
        os.waitpid(self.child, 0)
        os._exit(0)


if __name__ == "__main__":
    Manager(pathlib.Path(sys.argv[1]), sys.argv[2:]).run()
