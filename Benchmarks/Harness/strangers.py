# SPDX-License-Identifier: Apache-2.0
#
# Peers without a credential that come to do harm, in one process: new devices that register and leave, unfinished
# frames, connections that say nothing, and garbage. A bounded number is open at a time, so COUNT may be a million.
# They come from eight addresses of this machine. Prints what became of them, as JSON.
#
#     strangers.py PORT PROJECT COUNT SECONDS

import asyncio
import json
import os
import random
import struct
import sys
import time

OPEN_MAX = 2000
ADDRESSES = [f"127.0.200.{last}" for last in range(1, 9)]
# Seconds for which a connection that says nothing more is kept.
HELD_SECONDS = 3
WELCOME = 0x02


def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def hello(project):
    """HELLO of a new device."""
    body = b"MRTL" + bytes([1, 3]) + text(project) + text("com.example.stranger") + bytes([1])
    return struct.pack("<IB", len(body) + 1, 0x01) + body


class Strangers:
    def __init__(self, port, project, seconds):
        self.port, self.hello = port, hello(project)
        self.end = time.monotonic() + seconds
        self.random = random.Random(815)
        self.counts = {
            "registered": 0, "registrationsRefused": 0, "unfinished": 0, "unfinishedEnded": 0,
            "stalled": 0, "stalledEnded": 0, "garbage": 0, "notConnected": 0}

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
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, local_addr=(ADDRESSES[number // 4 % 8], 0))
        except OSError:
            self.counts["notConnected"] += 1
            return
        try:
            kind = ("registered", "unfinished", "stalled", "garbage")[number % 4]
            if kind == "registered":
                writer.write(self.hello)
                is_in = await self.frame_type(reader) == WELCOME
                self.counts["registered" if is_in else "registrationsRefused"] += 1
            elif kind == "unfinished":
                writer.write(struct.pack("<I", 16_384) + bytes(12_000))
                self.counts[kind] += 1
                self.counts["unfinishedEnded"] += await self.held(reader)
            elif kind == "stalled":
                self.counts[kind] += 1
                self.counts["stalledEnded"] += await self.held(reader)
            else:
                writer.write(self.random.randbytes(200))
                self.counts[kind] += 1
                await self.frame_type(reader)
        except OSError:
            pass
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
    port, project, count, seconds = sys.argv[1:]
    os.nice(19)
    print(json.dumps(asyncio.run(
        Strangers(int(port), project, float(seconds)).run(int(count)))))


if __name__ == "__main__":
    main()
