# SPDX-License-Identifier: Apache-2.0
"""A client of HTTP/2 that does what no library does.

    http2_peer.py PORT CERTIFICATE SCENARIO [JSON]

runs one of the functions below and prints what it returns as one line of JSON."""

import json
import socket
import ssl
import struct
import sys
import time

HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, DATA = 1, 3, 4, 6, 7, 8, 0
END_STREAM, END_HEADERS = 1, 4
# Fields of the static table (RFC 7541, appendix A).
STATUSES = {0x88: "200", 0x8c: "400", 0x8d: "404"}


def connect(port, certificate):
    context = ssl.create_default_context(cafile=certificate)
    context.set_alpn_protocols(["h2"])
    connection = context.wrap_socket(
        socket.create_connection(("localhost", port), timeout=30), server_hostname="localhost")
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
    return connection


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def varint(number):
    """The rest of a number that fills its prefix (RFC 7541, 5.1)."""
    rest = b""
    while number >= 128:
        rest += bytes([number % 128 + 128])
        number //= 128
    return rest + bytes([number])


def fields(pairs):
    """Literal fields that are not indexed, without Huffman codes (RFC 7541, 6.2.2)."""
    block = b""
    for name, value in pairs:
        for text in (name, value):
            if text is name:
                block += b"\x00"
            count = len(text)
            block += bytes([count]) if count < 127 else bytes([127, count - 127])
            block += text.encode()
    return block


def post(stream, path, key, body):
    block = fields([
        (":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "localhost"),
        ("authorization", "Bearer " + key), ("content-length", str(len(body)))])
    return (frame(HEADERS, END_HEADERS, stream, block)
            + frame(DATA, END_STREAM, stream, body.encode()))


def has_ended(connection):
    """Whether the server has closed its side: TLS tells before the socket does."""
    connection.settimeout(0)
    try:
        while connection.recv(65536):
            pass
        return True
    except ssl.SSLWantReadError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(30)


def frames(connection):
    """The kind, flags, stream and payload of each frame that comes, until the connection ends."""
    arrived = b""
    while True:
        while len(arrived) < 9 or len(arrived) < 9 + int.from_bytes(arrived[:3], "big"):
            try:
                piece = connection.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                return
            arrived += piece
        length = int.from_bytes(arrived[:3], "big")
        yield arrived[3], arrived[4], int.from_bytes(arrived[5:9], "big"), arrived[9:9 + length]
        arrived = arrived[9 + length:]


def answers(connection, streams):
    """The bodies of the answers on these streams."""
    bodies, ended = {stream: b"" for stream in streams}, set()
    for kind, flags, stream, payload in frames(connection):
        if stream in bodies and kind == DATA:
            bodies[stream] += payload
        if stream in bodies and kind in (DATA, HEADERS) and flags & END_STREAM:
            ended.add(stream)
        if ended == set(streams):
            return [json.loads(bodies[stream])["name"] for stream in streams]
    raise SystemExit("the connection ended")


def settle(connection):
    """The codes of the streams reset until the server answers a PING."""
    connection.sendall(frame(PING, 0, 0, b"settle!!"))
    codes = {}
    for kind, flags, stream, payload in frames(connection):
        if kind == RST_STREAM:
            codes[stream] = int.from_bytes(payload, "big")
        if kind == PING and flags & 1:
            return codes
    raise SystemExit("the connection ended")


# Scenarios


def flood(port, certificate, count):
    """How many WINDOW_UPDATE frames the server takes, and whether it ends the connection."""
    connection = connect(port, certificate)
    for number in range(count):
        try:
            connection.sendall(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))
        except OSError:
            return {"ended": True, "sent": number}
        if number % 50 == 49 and has_ended(connection):
            return {"ended": True, "sent": number}
    return {"ended": False, "sent": count}


def half(port, certificate, count):
    """How many milliseconds a client waits whose address has begun many handshakes and goes on with none."""
    context = ssl.create_default_context(cafile=certificate)
    begun = []
    for _ in range(count):
        out = ssl.MemoryBIO()
        try:
            context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
        except ssl.SSLWantReadError:
            begun.append(socket.create_connection(("localhost", port), timeout=30))
            begun[-1].sendall(out.read())
    began = time.monotonic()
    connect(port, certificate)
    return int((time.monotonic() - began) * 1000)


def drip(port, certificate, seconds):
    """How long the server waits for a frame that does not end."""
    connection = connect(port, certificate)
    began = time.monotonic()
    piece = frame(HEADERS, 0, 1, b"\x00" * 1000)
    for number in range(int(seconds * 10)):
        try:
            connection.sendall(piece[number:number + 1])
        except OSError:
            return {"ended": True, "seconds": time.monotonic() - began}
        time.sleep(0.1)
    return {"ended": False, "seconds": time.monotonic() - began}


def deaf(port, certificate, seconds):
    """Whether the server ends a connection that answers no PING, after GOAWAY."""
    connection = connect(port, certificate)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if has_ended(connection):
            return {"ended": True, "seconds": time.monotonic() - began}
        time.sleep(0.1)
    return {"ended": False, "seconds": time.monotonic() - began}


def strangers(port, certificate, count):
    """How many streams without a credential are refused, each with a head of 15 kB out of few bytes, and what the
    server then does with many more."""
    connection = connect(port, certificate)
    # An entry of the dynamic table (RFC 7541, 6.2.1), and references to the newest entry.
    entry = b"\x40\x01a" + bytes([127]) + varint(3900 - 127) + b"x" * 3900
    begin = fields([
        (":method", "POST"), (":scheme", "https"), (":path", "/token"), (":authority", "l")])
    for number in range(count):
        block = begin + (entry if number == 0 else b"\xbe") + b"\xbe" * 3
        connection.sendall(frame(HEADERS, END_HEADERS, 2 * number + 1, block))
    codes = settle(connection)
    ended = False
    try:
        for number in range(count, 10 * count):
            block = begin + b"\xbe" * 4
            connection.sendall(frame(HEADERS, END_HEADERS, 2 * number + 1, block))
        began = time.monotonic()
        while not ended and time.monotonic() - began < 30:
            ended = has_ended(connection)
    except OSError:
        ended = True
    return {"refused": sum(code == 7 for code in codes.values()), "ended": ended}


def heads(port, certificate, requests):
    """What becomes of each of these heads, one after the other on one connection, and at last of a request that was begun
    before them: a status, "reset CODE", or "lost"."""
    connection = connect(port, certificate)
    arriving = frames(connection)

    def outcome(own, bytes):
        try:
            connection.sendall(bytes)
        except OSError:
            return "lost"
        for kind, _, stream, payload in arriving:
            if stream == own and kind == HEADERS:
                return STATUSES.get(payload[0], "another status")
            if stream == own and kind == RST_STREAM:
                return f"reset {int.from_bytes(payload, 'big')}"
        return "lost"

    head = [(":method", "GET"), (":scheme", "https"), (":path", "/healthz"), (":authority", "l")]
    connection.sendall(frame(HEADERS, END_HEADERS, 1, fields(head)))
    outcomes = [
        outcome(stream, frame(HEADERS, END_HEADERS | END_STREAM, stream, fields(pairs)))
        for stream, pairs in zip(range(3, 1000, 2), requests)]
    return outcomes + [outcome(1, frame(DATA, END_STREAM, 1, b""))]


def goaway(port, certificate):
    """The code of GOAWAY after a frame that no connection may have: DATA outside a stream."""
    connection = connect(port, certificate)
    connection.sendall(frame(DATA, 0, 0, b"x"))
    return [int.from_bytes(payload[4:8], "big")
            for kind, _, _, payload in frames(connection) if kind == GOAWAY]


def burst(port, certificate, key, path, body, count):
    """How many requests with a right credential are answered, all begun at once on a new connection."""
    connection = connect(port, certificate)
    streams = range(1, 2 * count, 2)
    connection.sendall(b"".join(post(stream, path, key, body) for stream in streams))
    return len(answers(connection, streams))


def reset(port, certificate, key, path, body):
    """Gives a stream up at once and repeats the request, then means two more."""
    connection = connect(port, certificate)
    connection.sendall(
        post(1, path, key, body) + frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
    connection.sendall(post(3, path, key, body))
    first = answers(connection, [3])
    connection.sendall(post(5, path, key, body) + post(7, path, key, body))
    return first + answers(connection, [5, 7])


def main():
    port, certificate, scenario = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    print(json.dumps(globals()[scenario](port, certificate, **json.loads(sys.argv[4]))))


if __name__ == "__main__":
    main()
