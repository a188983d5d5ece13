# SPDX-License-Identifier: Apache-2.0
#
# Peers without a credential that come to do harm, in one process: new devices that register and leave, unfinished
# frames, connections that say nothing, and garbage; on the port of TLS handshakes that stop in the middle, garbage,
# and a second handshake behind the first. A bounded number is open at a time, so COUNT may be a million. They come
# from eight addresses of this machine. Prints what became of them, as JSON.
#
#     strangers.py PORT TLS-PORT PROJECT COUNT SECONDS WINDOW
#
# TLS-PORT 0: there is none, and all come to PORT. Those that come in the first WINDOW seconds are counted apart.

import asyncio
import json
import os
import random
import ssl
import struct
import sys
import time

OPEN_MAX = 2000
ADDRESSES = [f"127.0.200.{last}" for last in range(1, 9)]
# Seconds for which a connection that says nothing more is kept.
HELD_SECONDS = 3
WELCOME = 0x02
KINDS = (
    "registered", "unfinished", "stalled", "garbage", "registered", "stalledHandshakes",
    "garbageHandshakes", "renegotiated")
PLAIN_KINDS = KINDS[:4] * 2


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def hello(project):
    """HELLO of a new device."""
    body = b"MRTL" + bytes([1, 3]) + text(project) + text("com.example.stranger") + bytes([1])
    return struct.pack("<IB", len(body) + 1, 0x01) + body


class Strangers:
    def __init__(self, port, secure_port, project, seconds, window):
        self.port, self.secure_port, self.hello = port, secure_port, hello(project)
        self.kinds = KINDS if secure_port else PLAIN_KINDS
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.client_hello, _, _ = self.client()
        self.end, self.window_end = time.monotonic() + seconds, time.monotonic() + window
        self.random = random.Random(815)
        self.counts = {
            "registered": 0, "registrationsRefused": 0, "unfinished": 0, "unfinishedEnded": 0,
            "stalled": 0, "stalledEnded": 0, "garbage": 0, "stalledHandshakes": 0,
            "stalledHandshakesEnded": 0, "garbageHandshakes": 0, "renegotiated": 0, "renegotiatedEnded": 0,
            "notShaken": 0, "notConnected": 0, "came": 0, "cameInWindow": 0}

    def client(self):
        """The first flight of a TLS client, its input, and its object."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.context.wrap_bio(incoming, outgoing)
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        client.outgoing = outgoing
        return outgoing.read(), incoming, client

    async def renegotiate(self, reader, writer):
        """Ends a handshake, and begins another on the same connection."""
        flight, incoming, client = self.client()
        writer.write(flight)
        while True:
            data = await asyncio.wait_for(reader.read(65536), 20)
            if not data:
                self.counts["notShaken"] += 1
                return
            incoming.write(data)
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
        writer.write(client.outgoing.read() + self.client_hello)
        self.counts["renegotiated"] += 1
        try:
            # The tickets, and an alert. The time is long, because this process may wait for a core.
            while await asyncio.wait_for(reader.read(65536), 20):
                pass
            self.counts["renegotiatedEnded"] += 1
        except asyncio.TimeoutError:
            pass
        except OSError:
            self.counts["renegotiatedEnded"] += 1

    async def frame_type(self, reader):
        """Type of the next frame; 0 at the end."""
        try:
            head = await asyncio.wait_for(reader.readexactly(5), 20)
            return head[4]
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError):
            return 0

    async def held(self, reader):
        """Whether the broker ends the connection within the time."""
        try:
            await asyncio.wait_for(reader.read(1), HELD_SECONDS)
            return True
        except asyncio.TimeoutError:
            return False
        except OSError:
            return True

    async def one(self, number):
        self.counts["came"] += 1
        self.counts["cameInWindow"] += time.monotonic() <= self.window_end
        kind = self.kinds[number % 8]
        is_secure = kind in KINDS[5:]
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.secure_port if is_secure else self.port,
                local_addr=(ADDRESSES[number // 8 % 8], 0))
        except OSError:
            self.counts["notConnected"] += 1
            return
        try:
            if kind == "registered":
                writer.write(self.hello)
                is_in = await self.frame_type(reader) == WELCOME
                self.counts["registered" if is_in else "registrationsRefused"] += 1
            elif kind == "unfinished":
                writer.write(struct.pack("<I", 16_384) + bytes(12_000))
                self.counts[kind] += 1
                # Others count while this one waits.
                is_ended = await self.held(reader)
                self.counts["unfinishedEnded"] += is_ended
            elif kind in ("stalled", "stalledHandshakes"):
                if is_secure:
                    writer.write(self.client_hello[:100])
                self.counts[kind] += 1
                is_ended = await self.held(reader)
                self.counts[kind + "Ended"] += is_ended
            elif kind == "renegotiated":
                await self.renegotiate(reader, writer)
            else:
                writer.write(self.random.randbytes(200))
                self.counts[kind] += 1
                await self.frame_type(reader)
        except (OSError, asyncio.TimeoutError):
            self.counts["notShaken"] += kind == "renegotiated"
        finally:
            writer.close()

    async def run(self, count):
        began, numbers = time.monotonic(), iter(range(count))

        async def worker():
            for number in numbers:
                if time.monotonic() > self.end:
                    return
                await self.one(number)

        await asyncio.gather(*(worker() for _ in range(min(count, OPEN_MAX))))
        return dict(self.counts, seconds=time.monotonic() - began)


def main():
    port, secure_port, project, count, seconds, window = sys.argv[1:]
    # Real strangers use the cores of other machines. A process at nice 19 keeps a core for up to 36 ms, and the
    # scheduler then puts the broker's loops and the measuring process on the other core. A core that runs only
    # processes of SCHED_IDLE counts as free.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print(json.dumps(asyncio.run(
        Strangers(int(port), int(secure_port), project, float(seconds), float(window))
        .run(int(count)))))


if __name__ == "__main__":
    main()
