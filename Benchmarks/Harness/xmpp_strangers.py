# SPDX-License-Identifier: Apache-2.0
#
# Peers of the XMPP port that come to do harm, in one process, and one app server that signs in beside them. The peers
# stall in the handshake, in the head of the stream or in the sign-in, send entities that multiply, attributes without
# end, or a sign-in without end. They come from eight addresses of this machine, and a bounded number is open at a
# time. Prints what became of all, as JSON.
#
#     xmpp_strangers.py PORT SENDER-ID SERVER-KEY COUNT SECONDS

import asyncio
import base64
import json
import os
import ssl
import sys
import time

OPEN_MAX = 500
ADDRESSES = [f"127.0.201.{last}" for last in range(1, 9)]
# Seconds for which a connection that says nothing more is kept.
HELD_SECONDS = 3
# Seconds in which the broker must have read and refused.
REFUSED_SECONDS = 30
HEAD = (
    b"<stream:stream to='fcm.googleapis.com' version='1.0' xmlns='jabber:client' "
    b"xmlns:stream='http://etherx.jabber.org/streams'>")
LAUGHS = b"<!DOCTYPE lolz [<!ENTITY a 'lol'>" + b"".join(
    b"<!ENTITY %c '%s'>" % (98 + depth, b"&%c;" % (97 + depth) * 10) for depth in range(9)) + b"]>"
AUTH = b"<auth mechanism='PLAIN' xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
KINDS = {
    "stalledHandshakes": None,
    "silentStreams": b"",
    "halfHeads": HEAD[:60],
    "halfSignIns": HEAD + AUTH + b"AGZvbw",
    "laughs": LAUGHS + HEAD,
    "attributes": b"<stream:stream " + b" ".join(b"a%d='%s'" % (number, b"x" * 90) for number in range(400)),
    "endlessSignIns": HEAD + AUTH + b"A" * 70_000,
    "wrongKeys": HEAD + AUTH + base64.b64encode(b"\0" + b"1@fcm.googleapis.com\0" + b"no key") + b"</auth>",
}
# The broker refuses these as soon as it has read them: by the end of the stream, or by a failure of the sign-in.
REFUSALS = (b"</stream:stream>", b"</failure>")
ENDED = ("laughs", "attributes", "endlessSignIns", "wrongKeys")


def context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


class Strangers:
    def __init__(self, port, seconds):
        self.port, self.context = port, context()
        self.end = time.monotonic() + seconds
        self.counts = {"came": 0, "notConnected": 0}
        for kind in KINDS:
            self.counts[kind] = self.counts[kind + "Ended"] = 0

    async def ends(self, reader, seconds):
        """Whether the broker refuses the bytes, or ends the connection, within the time."""
        received = b""
        try:
            async with asyncio.timeout(seconds):
                while more := await reader.read(65536):
                    received += more
                    if any(word in received for word in REFUSALS):
                        return True
            return True
        except TimeoutError:
            return False
        except (OSError, ssl.SSLError):
            return True

    async def one(self, number):
        self.counts["came"] += 1
        kind = list(KINDS)[number % len(KINDS)]
        is_secure = KINDS[kind] is not None
        try:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self.port, local_addr=(ADDRESSES[number // len(KINDS) % 8], 0),
                    ssl=self.context if is_secure else None)
        except (OSError, ssl.SSLError, TimeoutError):
            self.counts["notConnected"] += 1
            return
        try:
            # The first bytes of a TLS client's flight.
            writer.write(KINDS[kind] if is_secure else b"\x16\x03\x01\x02\x00\x01")
            self.counts[kind] += 1
            # Others count while this one waits.
            is_ended = await self.ends(
                reader, REFUSED_SECONDS if kind in ENDED else HELD_SECONDS)
            self.counts[kind + "Ended"] += is_ended
        finally:
            writer.transport.abort()

    async def run(self, count):
        numbers = iter(range(count))

        async def worker():
            for number in numbers:
                if time.monotonic() > self.end:
                    return
                await self.one(number)

        await asyncio.gather(*(worker() for _ in range(min(count, OPEN_MAX))))
        return self.counts


class AppServer:
    """Signs in once in half a second, from an address of its own."""

    def __init__(self, port, sender, key):
        self.port, self.context = port, context()
        self.words = base64.b64encode(f"\0{sender}@fcm.googleapis.com\0{key}".encode())
        self.counts = {"signedIn": 0, "notSignedIn": 0, "slowestSignIn": 0.0}

    async def sign_in(self):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=("127.0.202.1", 0), ssl=self.context)
        try:
            writer.write(HEAD)
            await reader.readuntil(b"</stream:features>")
            writer.write(AUTH + self.words + b"</auth>")
            return b"<success" in await reader.readuntil(b">")
        finally:
            writer.transport.abort()

    async def run(self):
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(20):
                    is_in = await self.sign_in()
            except (OSError, ssl.SSLError, TimeoutError, asyncio.IncompleteReadError):
                is_in = False
            self.counts["signedIn" if is_in else "notSignedIn"] += 1
            if is_in:
                self.counts["slowestSignIn"] = max(
                    self.counts["slowestSignIn"], time.monotonic() - began)
            await asyncio.sleep(0.5)


async def both(port, sender, key, count, seconds):
    honest, strangers = AppServer(port, sender, key), Strangers(port, seconds)
    running = asyncio.create_task(honest.run())
    await strangers.run(count)
    running.cancel()
    return strangers.counts | honest.counts


def main():
    port, sender, key, count, seconds = sys.argv[1:]
    # Not SCHED_IDLE, because the app server whose sign-in is timed is in this process.
    os.nice(19)
    print(json.dumps(asyncio.run(both(int(port), sender, key, int(count), float(seconds)))))


if __name__ == "__main__":
    main()
