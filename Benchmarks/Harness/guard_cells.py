# SPDX-License-Identifier: Apache-2.0
#
# What a broker is compared with an older one in: groups of cells, each measured with a broker on an
# empty folder. A group has a function that takes a way to start the broker and returns the figures
# of its cells. All figures go by the same few names, whatever the cell: see FIGURES. Rests on
# servers.py and the load generator.

import os
import subprocess
import sys

from tools import Folder, generator, measurements

# name: (what a report calls it, whether less is better, what is added to both before they are compared)
FIGURES = {
    "cpu": ("CPU", True, 0),
    "rate": ("rate", False, 0),
    "p50": ("p50", True, 0),
    "p99": ("p99", True, 0),
    "p999": ("p99.9", True, 0),
    # A second's worth of counts may be written with many messages: less than this is as good as 0.
    "written": ("written", True, 200),
    "memory": ("memory", True, 0),
}

WINDOWS = "1,16,256"
FANOUT_SECONDS, LATENCY_SECONDS = 0.4, 2.5
RETURNING, CONNECTIONS = 10_000, 10_000
# A loop has sessions for as many apps as it has descriptors for connections.
SHARED_CONNECTIONS = 2000
APPS = [1, 4, 8]
# The rates leave a core of this machine mostly idle, so that no queue stands by itself.
RATES = {1: 2000, 100: 400, 1000: 50}
BESIDE_DEVICES, BESIDE_RATE = 10_000, 500
PROTOCOLS = {"TTL 0": "martlet", "stored": "martlet-durable"}


class Group:
    """Cells that are measured together. `judged`: the figures that decide; the others are shown."""

    def __init__(self, name, measure, judged, rounds=None):
        self.name, self.measure, self.judged, self.rounds = name, measure, judged, rounds


def delivered(line):
    """The figures of a run with deliveries."""
    return {
        "cpu": line["serverNanoseconds"], "rate": line["deliveriesPerSecond"],
        "p50": line["median"], "p99": line["p99"], "p999": line["p999"],
        "written": line["bytesEach"]}


def accepted(line):
    """The figures of messages to devices that are away."""
    return {
        "cpu": line["serverMicroseconds"] * 1e3, "rate": line["messagesPerSecond"],
        "p50": line["acceptedMilliseconds"] * 1e3, "p99": line["acceptedP99Milliseconds"] * 1e3,
        "written": line["bytesWritten"] / line["offline"]}


def fanout(kind, subscribers, *options, name="fanout"):
    def measure(start):
        with start() as server:
            found = measurements(
                server, PROTOCOLS[kind], subscribers, "--outstanding", WINDOWS, "--seconds",
                FANOUT_SECONDS, "--warmup", FANOUT_SECONDS / 4, *options)
        return {
            f"{name}, {kind}, N={subscribers} W={line['outstanding']}": delivered(line)
            for line in found}
    return Group(f"{name}, {kind}, N={subscribers}", measure, {"cpu", "rate"})


def latency(kind, subscribers):
    """At a fixed rate; a message counts from when it was due."""
    rate = RATES[subscribers]

    def measure(start):
        with start() as server:
            line = generator(
                server, PROTOCOLS[kind], subscribers, "--rate", rate, "--seconds",
                LATENCY_SECONDS, "--warmup", LATENCY_SECONDS / 5)
        return {f"latency, {kind}, N={subscribers} {rate:,}/s": delivered(line)}
    return Group(f"latency, {kind}, N={subscribers}", measure, {"p50", "p99"})


def away(start, protocol, subscribers, wanted):
    """Messages to devices that are away. {W: figures}; `wanted` has (protocol, W, messages)."""
    with Folder() as folder, start() as server:
        devices = f"{folder}/devices"
        generator(server, protocol, subscribers, "--save", devices, "--idle")
        return {
            (each, window): accepted(generator(
                server, each, subscribers, "--load", devices, "--offline", count,
                "--outstanding", window))
            for each, window, count in wanted}


def acceptance():
    def measure(start):
        found = away(start, "martlet", 1, [
            (protocol, window, count) for protocol in ["martlet-token", "martlet"]
            for window, count in [(1, 2000), (64, 60_000)]])
        targets = {"martlet": "a topic", "martlet-token": "a token"}
        return {
            f"accepted, TTL 0, to {targets[protocol]} W={window}": figures
            for (protocol, window), figures in found.items()}
    return Group("accepted, TTL 0", measure, {"cpu", "rate", "written"})


def direct():
    def measure(start):
        found = away(start, "martlet-durable", 1000, [
            ("martlet-direct", 1, 800), ("martlet-direct", 16, 8000),
            ("martlet-direct", 64, 20_000), ("martlet-direct", 256, 40_000),
            ("martlet-durable", 64, 15_000)])
        names = {
            "martlet-direct": "direct, stored", "martlet-durable": "topic of 1,000 away, stored"}
        return {
            f"{names[protocol]}, W={window}": figures
            for (protocol, window), figures in found.items()}
    return Group("direct, stored", measure, {"cpu", "rate", "written"})


def beside_busy_cores():
    """Lone messages while every core is busy with processes that give way: a backup, a compiler."""
    def measure(start):
        burners = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda: os.nice(19))
            for _ in range(os.cpu_count())]
        try:
            found = away(start, "martlet-durable", 1000, [("martlet-direct", 1, 300)])
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
        return {"direct, stored, W=1, busy cores": figures for figures in found.values()}
    return Group("direct, stored, busy cores", measure, {"rate", "p50"})


def drain():
    def measure(start):
        cells = {}
        with Folder() as folder, start() as server:
            devices = f"{folder}/devices"
            generator(server, "martlet-durable", RETURNING, "--save", devices, "--idle")
            for messages in [10, 100]:
                generator(
                    server, "martlet-durable", RETURNING, "--load", devices, "--offline", messages,
                    "--outstanding", 16)
                line = generator(
                    server, "martlet-durable", RETURNING, "--load", devices, "--drain", messages)
                cells[f"drain, {RETURNING:,} come back for {messages}"] = {
                    "cpu": line["serverNanoseconds"], "rate": line["deliveriesPerSecond"]}
        return cells
    return Group("drain", measure, {"cpu", "rate"})


def memory():
    def measure(start):
        return {
            f"memory, {CONNECTIONS:,} connections": idle(start, "martlet", CONNECTIONS)[0]}
    return Group("memory", measure, {"memory"}, rounds=2)


def shared_memory():
    """An older broker may not know such connections."""
    def measure(start):
        found = idle(start, "martlet-shared", SHARED_CONNECTIONS, *APPS)
        return {
            f"memory, {SHARED_CONNECTIONS:,} shared connections, apps={apps}": figures
            for apps, figures in zip(APPS, found)}
    return Group("memory, shared", measure, {"memory"}, rounds=1)


def idle(start, protocol, connections, *apps):
    """Devices that were registered in an earlier process connect: nothing of registering is counted."""
    with Folder() as folder:
        def held(*options):
            with start(data=f"{folder}/data") as server:
                return generator(
                    server, protocol, connections, *options, f"{folder}/devices", "--idle")

        counts = [["--apps", count] for count in apps] or [[]]
        held(*counts[-1], "--save")
        return [{"memory": held(*count, "--load")["idleBytes"]} for count in counts]


def beside(kind):
    """While another project changes topics, 16 requests of a thousand tokens outstanding."""
    def measure(start):
        with Folder() as folder, start() as server:
            others = f"{folder}/others"
            generator(
                server, "martlet", BESIDE_DEVICES, "--project", "beside", "--save", others, "--idle")
            quiet, loud = measurements(
                server, PROTOCOLS[kind], 1, "--rate", BESIDE_RATE, "--seconds", 1.5, "--warmup", 0.3,
                "--beside", others)
        name = f"beside topic changes, {kind}, N=1 {BESIDE_RATE}/s"
        return {f"{name}, quiet": delivered(quiet), name: delivered(loud)}
    return Group(f"beside, {kind}", measure, {"p50", "p99"})


GROUPS = [
    *(fanout(kind, n) for kind in PROTOCOLS for n in [100, 1000, 10_000]),
    fanout("stored", 1000, "--acknowledge", 1, name="acknowledged one by one"),
    *(latency(kind, n) for kind in PROTOCOLS for n in RATES),
    acceptance(), direct(), beside_busy_cores(), drain(), *(beside(kind) for kind in PROTOCOLS), memory(),
    shared_memory()]
