# SPDX-License-Identifier: Apache-2.0
#
# Web Push user agents of the benchmarks: they register a channel each or come back with the former one, read
# notifications and acknowledge each. The standard library alone. The first 16 bytes of a body are the instant of its
# sending, from the system's monotonic clock in hexadecimal digits.
#
#     webpush_agents.py HOST PORT PATH COUNT STATE
#
# makes STATE, a file with a line for each user agent (ID, channel, endpoint), or reads it where it is. One line of JSON
# says that all stand; a second one, once standard input is at its end, what they got.

import base64
import json
import os
import resource
import selectors
import socket
import sys
import uuid

HELLO = b'{"messageType":"hello","use_webpush":true,"broadcasts":{},"uaid":"%s"}'
DATA, VERSION, CHANNEL = b'"data":"', b'"version":"', b'"channelID":"'


def frame(payload):
    """A text with a mask of zeros, which changes nothing."""
    if len(payload) < 126:
        return bytes([0x81, 0x80 | len(payload)]) + b"\0\0\0\0" + payload
    return bytes([0x81, 0xFE]) + len(payload).to_bytes(2, "big") + b"\0\0\0\0" + payload


class Agent:
    def __init__(self, number, host, port, path):
        self.socket = socket.socket()
        # Ports of one address are too few for many.
        self.socket.bind((f"127.0.{1 + number // 2000}.1", 0))
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        assert b" 101 " in head, head

    def texts(self):
        """The whole messages that have come."""
        buffer, start, found = self.buffer, 0, []
        while len(buffer) - start >= 2:
            length, begin = buffer[start + 1], start + 2
            if length == 126:
                if len(buffer) - start < 4:
                    break
                length, begin = int.from_bytes(buffer[start + 2:start + 4], "big"), start + 4
            if len(buffer) - begin < length:
                break
            if buffer[start] & 0x0F == 1:
                found.append(buffer[begin:begin + length])
            start = begin + length
        self.buffer = buffer[start:]
        return found

    def say(self, text):
        self.socket.sendall(frame(text))

    def answer(self):
        while True:
            for text in self.texts():
                return json.loads(text)
            self.buffer += self.socket.recv(65536)


def stand(number, host, port, path, known):
    agent = Agent(number, host, port, path)
    agent.say(HELLO % known[0].encode() if known else HELLO.replace(b',"uaid":"%s"', b""))
    identity = agent.answer()["uaid"]
    if known:
        assert identity == known[0], "the user agent is not known any more"
        return agent, known
    channel = str(uuid.uuid4())
    agent.say(json.dumps({"messageType": "register", "channelID": channel}).encode())
    answer = agent.answer()
    assert answer["status"] == 200, answer
    return agent, [identity, channel, answer["pushEndpoint"]]


def value(text, name):
    start = text.index(name) + len(name)
    return text[start:text.index(b'"', start)]


def now():
    import time
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def main():
    host, port, path, count, state = sys.argv[1:]
    port, count = int(port), int(count)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    known = [line.split() for line in open(state)] if os.path.exists(state) else [None] * count
    agents, lines = [], []
    selector = selectors.DefaultSelector()
    for number in range(count):
        agent, line = stand(number, host, port, path, known[number])
        agents.append(agent)
        lines.append(" ".join(line) + "\n")
        selector.register(agent.socket, selectors.EVENT_READ, agent)
    with open(state, "w") as file:
        file.writelines(lines)
    print(json.dumps({"agents": count}), flush=True)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    delivered, times, isOpen = 0, [], True
    while isOpen:
        for key, _ in selector.select():
            agent = key.data
            if agent is None:
                isOpen = bool(os.read(0, 4096))
                continue
            received = agent.socket.recv(262_144)
            if not received:
                raise SystemExit("the broker closed a connection")
            agent.buffer += received
            said = []
            for text in agent.texts():
                if DATA not in text:
                    continue
                delivered += 1
                times.append(now() - int(base64.urlsafe_b64decode(value(text, DATA)[:24])[:16], 16))
                said.append(frame(
                    b'{"messageType":"ack","updates":[{"channelID":"' + value(text, CHANNEL)
                    + b'","version":"' + value(text, VERSION) + b'"}]}'))
            if said:
                agent.socket.sendall(b"".join(said))
    times.sort()
    print(json.dumps({
        "delivered": delivered,
        "deliveredMilliseconds": times[len(times) // 2] / 1e6 if times else 0,
        "deliveredP99Milliseconds": times[len(times) * 99 // 100] / 1e6 if times else 0}))


if __name__ == "__main__":
    main()
