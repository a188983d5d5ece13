# SPDX-License-Identifier: Apache-2.0
"""Simulated devices for a fanout to very many: one process, 64 apps on each connection, each app an instance of its own.

    python console_crowd.py PORT PROJECT APP REGISTRATION_KEY COUNT

Registers COUNT instances and prints `registered COUNT`. Then acknowledges every message at once, and prints
`received COUNT` whenever each instance has got one message more. Standard input at its end ends the process. Rests on
martlet_frames, and so on the document of the protocol alone.
"""

import selectors
import socket
import struct
import sys

from martlet_frames import APPS_PER_CONNECTION_MAX, NOT_STORED, NUMBERS, VERSION, decode, encode

WELCOME, PING, ERROR, DELIVER, CHANNEL = (NUMBERS[name] for name in ("WELCOME", "PING", "ERROR", "DELIVER", "CHANNEL"))
# A burst of registrations is answered before the next connections come.
GREETING_MAX = 16
ACK_HEAD = struct.pack("<IB", 11, NUMBERS["ACK"])
CHANNEL_HEAD = struct.pack("<IB", 2, CHANNEL)


class Phone:
    """A connection with its apps."""

    def __init__(self, crowd, apps):
        self.crowd, self.apps, self.welcomed = crowd, apps, 0
        self.heard = self.told = 0
        self.unread, self.unsent = b"", bytearray()
        self.socket = socket.create_connection(("127.0.0.1", crowd.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unsent += encode("HELLO", version=VERSION, role=5)
        for channel in range(1, apps + 1):
            self.choose(channel)
            self.unsent += crowd.hello
        self.flush()

    def choose(self, channel):
        """Frames from now on are of this channel."""
        if channel != self.told:
            self.unsent += CHANNEL_HEAD + bytes([channel])
            self.told = channel

    def flush(self):
        if self.unsent:
            try:
                sent = self.socket.send(self.unsent)
                del self.unsent[:sent]
            except BlockingIOError:
                pass
        (self.crowd.waiting.add if self.unsent else self.crowd.waiting.discard)(self)

    def read(self):
        try:
            received = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        if not received:
            raise ConnectionError("the broker closed a connection")
        bytes_, at = self.unread + received, 0
        while len(bytes_) - at >= 5:
            length, kind = struct.unpack_from("<IB", bytes_, at)
            end = at + 4 + length
            if end > len(bytes_):
                break
            self.take(kind, bytes_, at, end)
            at = end
        self.unread = bytes_[at:]
        self.flush()

    def take(self, kind, bytes_, at, end):
        if kind == CHANNEL:
            self.heard = bytes_[at + 5]
        elif kind == DELIVER:
            stream, = struct.unpack_from("<Q", bytes_, at + 5)
            self.crowd.received += 1
            if stream < NOT_STORED:
                self.choose(self.heard)
                self.unsent += ACK_HEAD + struct.pack("<QH", stream, 0)
        elif kind == WELCOME:
            self.welcomed += 1
            # The connection itself is welcomed too.
            if self.heard:
                self.crowd.registered += 1
            if self.welcomed == self.apps + 1:
                self.crowd.greeting -= 1
        elif kind == PING:
            self.choose(0)
            self.unsent += encode("PONG", value=decode(bytes_[at:end])[1]["value"])
        elif kind == ERROR:
            raise ConnectionError(decode(bytes_[at:end])[1]["message"])


class Crowd:
    def __init__(self, port, project, app, key, count):
        self.port, self.count = port, count
        self.registered = self.received = self.greeting = 0
        # Phones with bytes that their sockets have not taken.
        self.waiting = set()
        self.hello = encode(
            "HELLO", version=VERSION, role=3, project_ID=project, app_name=app, platform=1,
            credential_kind=1, credential=key)

    def run(self):
        chooser, left, said, rounds = selectors.DefaultSelector(), self.count, False, 0
        chooser.register(sys.stdin, selectors.EVENT_READ)
        while True:
            while left > 0 and self.greeting < GREETING_MAX:
                apps = min(left, APPS_PER_CONNECTION_MAX)
                phone = Phone(self, apps)
                chooser.register(phone.socket, selectors.EVENT_READ, phone)
                left -= apps
                self.greeting += 1
            for event, _ in chooser.select(0.01 if self.waiting else 1):
                if event.data is None:
                    return
                event.data.read()
            for phone in list(self.waiting):
                phone.flush()
            if not said and self.registered == self.count:
                print(f"registered {self.count}", flush=True)
                said = True
            if self.received == self.count * (rounds + 1):
                rounds += 1
                print(f"received {self.count}", flush=True)


if __name__ == "__main__":
    Crowd(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])).run()
