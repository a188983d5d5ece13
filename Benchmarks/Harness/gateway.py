# SPDX-License-Identifier: Apache-2.0
#
# What HTTP costs: messages:send to tokens and to a topic with 1, 16 and 64 connections that last, and
# the same sends to the same gateway over Martlet's own protocol. Rests on gateway_load.py.

from gateway_load import DEVICES, PAYLOAD, Gateway
from servers import Unavailable
from tools import medians, table

TITLE = "Sends over HTTP"
OUTSTANDING = [1, 16, 64]
# wrk counts in whole seconds. What it sends is the measure of what the binary protocol is then given: half
# as many take less than half the time.
HTTP_SECONDS, HTTP_SECONDS_QUICK = 2, 1
BINARY_SENDS_MIN = 50
CELLS = [(target, outstanding) for target in ("token", "topic") for outstanding in OUTSTANDING]
NAMES = {"token": "a token", "topic": f"a topic of {DEVICES}"}


def run(binaries, quick, repeats, progress, report):
    runs, total, done, checked = {}, repeats * len(CELLS), 0, 0
    try:
        for repeat in range(repeats):
            with Gateway(binaries) as gateway:
                # What a process does once, and the allocator's first pages, are not a request's.
                gateway.measure(gateway.http, "token", 16, 1)
                for target, outstanding in CELLS:
                    done += 1
                    progress(done, total, f"sends to {NAMES[target]}, {outstanding} at once")
                    for key, figures in both(gateway, target, outstanding, quick).items():
                        report.figures(
                            "gateway", f"{target}, {outstanding}", key[0], repeat, figures)
                        runs.setdefault(key, []).append(figures)
                checked += gateway.check()
    except Unavailable as error:
        report.section(TITLE, f"- not measured: {error}")
        return
    report.section(TITLE, "\n".join(
        markdown({key: medians(found) for key, found in runs.items()}, checked)))


def both(gateway, target, outstanding, quick):
    """One after the other, so that a disturbance of the machine falls on both."""
    seconds = HTTP_SECONDS_QUICK if quick else HTTP_SECONDS
    http = gateway.measure(gateway.http, target, outstanding, seconds)
    count = max(http["accepted"] // 2, BINARY_SENDS_MIN)
    binary = gateway.measure(gateway.binary, target, outstanding, count)
    return {("HTTP", target, outstanding): http, ("binary", target, outstanding): binary}


def markdown(found, checked):
    rows = []
    for target, outstanding in CELLS:
        http, binary = (found[name, target, outstanding] for name in ("HTTP", "binary"))
        for name, figures in [("HTTP", http), ("binary protocol", binary)]:
            rows.append([
                f"to {NAMES[target]}, {outstanding} at once, {name}",
                f"{figures['sendsPerSecond']:,.0f}", f"{figures['acceptedMilliseconds']:.2f}",
                f"{figures['acceptedP99Milliseconds']:.2f}", f"{figures['serverMicroseconds']:.0f}",
                f"{figures['serverLoad']:.0%}", f"{figures['generatorLoad']:.0%}"])
    return [
        f"`martlet gateway` on one core; wrk, and {DEVICES} connected devices that read and "
        f"acknowledge, on the other. {PAYLOAD} bytes of data, default time to live: answered means "
        "on disk (fsync). HTTP: so many connections that last, a server key, no two bodies alike. "
        "The binary protocol: so many sends outstanding on one connection. CPU is the gateway's for a "
        "send with its deliveries.", "",
        *table(["sends", "per second", "median, ms", "p99, ms", "CPU µs each", "the gateway's core",
                "the generators' core"], rows), "",
        f"No send failed; the devices got {checked:,} messages, which is what was accepted, in order "
        "and once."]
