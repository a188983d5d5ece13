# SPDX-License-Identifier: Apache-2.0
"""The way of a node to a server, which a test can interrupt: a forwarder of TCP connections. While the way is held, nothing
goes through and nothing is lost, as in a network that drops packets. A broken way ends all connections."""

import socket
import threading


class Way:
    """Forwards connections to a port of this machine."""

    def __init__(self, port):
        self.target = port
        self.is_open, self.is_over = threading.Event(), False
        self.is_open.set()
        self.lock, self.sockets = threading.Lock(), set()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.connect, args=(near,), daemon=True).start()

    def connect(self, near):
        self.is_open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            far.settimeout(None)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.sockets |= {near, far}
        threading.Thread(target=self.pump, args=(near, far), daemon=True).start()
        threading.Thread(target=self.pump, args=(far, near), daemon=True).start()

    def pump(self, source, sink):
        try:
            while True:
                piece = source.recv(65536)
                self.is_open.wait()
                if not piece:
                    break
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            self.sockets -= {source, sink}

    def hold(self):
        self.is_open.clear()

    def resume(self):
        self.is_open.set()

    def reset(self):
        """Ends all connections; new ones are served."""
        with self.lock:
            sockets = list(self.sockets)
        for end in sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.listening.close()
        self.resume()
        self.reset()
