# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy between a mount and its brick: the network that can be cut or stalled."""
import socket
import threading


class Proxy:
    """Connections to `port` go on to the brick's port. Threads: any."""

    def __init__(self):
        self.target = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._lock = threading.Lock()
        self._open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self):
        """Nothing arrives any more, in either direction; nobody is told."""
        self._flowing.clear()

    def cut(self):
        """All connections break, and new ones are refused."""
        self._refusing = True
        with self._lock:
            for connection in self._open:
                self._shut(connection)
        self._flowing.set()

    def heal(self):
        self._refusing = False
        self._flowing.set()

    def close(self):
        self._shut(self._listener)
        self._listener.close()
        self.cut()

    @staticmethod
    def _shut(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        try:
            if self._refusing:
                raise OSError("refused")
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()
            return
        for connection in (near, far):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {near, far}
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    def _pump(self, source, sink):
        try:
            while data := source.recv(1 << 18):
                self._flowing.wait()
                sink.sendall(data)
        except OSError:
            pass
        self._shut(source)
        self._shut(sink)
