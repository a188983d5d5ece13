# SPDX-License-Identifier: Apache-2.0
#
# What a machine bears: memory of idle connections for every server, 100,000 of them in one broker,
# and a restart, a backup and a restore with millions of registered instances. Rests on the load
# generator, bench-store, servers.py and backup.py.

import json
import os
import pathlib
import signal
import subprocess
import time

import backup
from guard_cells import APPS, SHARED_CONNECTIONS, shared_memory
from servers import (
    Floor, Martlet, MartletTLS, Mosquitto0, MosquittoTLS, Nats, Redis, RedisTLS, Unavailable)
from tools import (
    Folder, anonymous, generator, kernel_memory, lines, medians, table)

IDLE_KINDS = [Floor, Martlet, MartletTLS, Redis, RedisTLS, Nats, Mosquitto0, MosquittoTLS]
HANDSHAKE_KINDS = [MartletTLS, RedisTLS, MosquittoTLS]
IDLE_CONNECTIONS = 10_000
RETURNING = 10_000
HANDSHAKES = 3000


def run(binaries, quick, repeats, progress, report):
    memory(binaries, repeats, progress, report)
    handshakes(binaries, repeats, progress, report)
    rows, told = [], []
    many = [] if quick else [(Martlet, 6, 17_000, 8), (MartletTLS, 6, 17_000, 8)]
    for kind, processes, each, loops in [(Martlet, 1, 10_000, 1)] + many:
        idle(kind, binaries, processes, each, loops, progress, report, rows, told)
    report.section("Idle connections of Martlet", "\n".join([
        "| connections | loops | open descriptors | user-space memory, all / per connection | "
        "kernel slab memory, both ends, per connection |", "| ---: | ---: | ---: | ---: | ---: |",
        *rows, "", "One message to all of them, the generators on the same cores:", "", *told]))
    shared(binaries, progress, report)
    restart(binaries, 1_000_000 if quick else 10_000_000, progress, report)


# Memory of all servers.

def memory(binaries, repeats, progress, report):
    """Every server alike: started, then connected to by subscribers that it knows or that subscribe
    as they connect. Martlet's devices were registered in an earlier process, so that nothing of
    registering is counted."""
    runs, missing = {}, []
    for repeat in range(repeats):
        for number, kind in enumerate(IDLE_KINDS):
            progress(
                repeat * len(IDLE_KINDS) + number + 1, repeats * len(IDLE_KINDS),
                f"{kind.name}, {IDLE_CONNECTIONS:,} idle connections")
            try:
                figures = connected(kind, binaries)
            except (Unavailable, RuntimeError) as error:
                missing.append(f"- not measured: {kind.name}: {str(error).splitlines()[-1]}")
                continue
            report.figures("scale", "idle memory", kind.name, repeat, figures)
            runs.setdefault(kind.name, []).append(
                {"idleBytes": figures["idleBytes"],
                 "serverAnonymousBytes": figures["serverAnonymousBytes"]})
    found = {name: medians(figures) for name, figures in runs.items()}
    mine = found.get(Martlet.name)
    for name, figures in found.items():
        if mine and name == MartletTLS.name:
            report.at_most(
                "user-space memory of an idle TLS connection, bytes", figures["idleBytes"], 1024,
                "{:,.0f}", "")
        elif mine and name not in (Martlet.name, Floor.name):
            report.compare(
                "memory per idle connection, bytes", name, mine["idleBytes"],
                figures["idleBytes"], True)
    report.section(f"Memory per idle connection, {IDLE_CONNECTIONS:,} connections", "\n".join(
        table(["server", "bytes of user-space memory per connection", "of the whole process, MB"],
              [[name, f"{figures['idleBytes']:,.0f}",
                f"{figures['serverAnonymousBytes'] / 1e6:.1f}"]
               for name, figures in found.items()]) + [""] + missing))


def connected(kind, binaries):
    if not issubclass(kind, Martlet):
        with kind(binaries) as server:
            return generator(server, kind.protocol, IDLE_CONNECTIONS, "--idle")
    with Folder() as folder:
        devices = f"{folder}/devices"
        for option in ["--save", "--load"]:
            with kind(binaries, data=f"{folder}/data") as server:
                figures = generator(
                    server, kind.protocol, IDLE_CONNECTIONS, option, devices, "--idle")
    return figures


# TLS.

def handshakes(binaries, repeats, progress, report):
    """What a connection with a handshake costs the server, accepting and closing included."""
    ways = [("full", []), ("resumed", ["--resume"])]
    rows, missing, done = [], [], 0
    for kind in HANDSHAKE_KINDS:
        for name, options in ways:
            runs = []
            for repeat in range(repeats):
                done += 1
                progress(
                    done, repeats * len(ways) * len(HANDSHAKE_KINDS),
                    f"{kind.name}, {HANDSHAKES:,} handshakes, {name}")
                try:
                    with kind(binaries) as server:
                        figures = generator(
                            server, kind.protocol, 1, "--handshakes", HANDSHAKES, *options)
                except (Unavailable, RuntimeError) as error:
                    missing.append(
                        f"- not measured: {kind.name}, {name}: {str(error).splitlines()[-1]}")
                    break
                report.figures("scale", f"handshakes, {name}", kind.name, repeat, figures)
                runs.append(figures)
            if not runs:
                continue
            found = medians(runs)
            rows.append([
                kind.name, name, f"{found['resumed'] / found['handshakes']:.0%}",
                f"{found['serverMicroseconds']:.0f}", f"{found['perSecondAndCore']:,.0f}"])
    report.section("TLS handshakes", "\n".join(table(
        ["server", "handshake", "resumed", "CPU µs of the server", "per second and core"], rows)
        + [""] + missing))


# Many connections, and one message to all.

def generators(server, folder, processes, each, option, progress):
    """Starts processes of the load generator that connect and stay."""
    started = []
    for number in range(processes):
        command = [
            server.binaries / "bench-load", "--protocol", "martlet", "--port", server.port,
            "--subscribers", each, "--first-source", 10 * number, option,
            f"{folder}/devices-{number}", *server.options(), "--idle"]
        process = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        started.append(process)
        progress(number + 1, processes, f"{each * (number + 1):,} connections, {option[2:]}")
        if not process.stdout.readline():
            raise RuntimeError("the connections did not open")
    return started


def end(started):
    """What each process was delivered."""
    found = []
    for process in started:
        process.stdin.close()
        found.append(json.loads(process.stdout.readline()))
        process.wait()
    return found


def idle(kind, binaries, processes, each, loops, progress, report, rows, messages):
    """Idle connections: reconnecting devices, so that nothing of registering is counted."""
    count = processes * each
    text = f"{count:,} over TLS" if kind is MartletTLS else f"{count:,}"
    with Folder() as folder:
        options = {"all_cores": True, "data": f"{folder}/data", "loops": loops}
        with kind(binaries, **options) as server:
            end(generators(server, folder, processes, each, "--save", progress))
        with kind(binaries, **options) as server:
            before, kernel = anonymous(server.process.pid), kernel_memory()
            started = generators(server, folder, processes, each, "--load", progress)
            time.sleep(1)
            after, kernel = anonymous(server.process.pid), kernel_memory() - kernel
            descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            sent = lines([
                f"{binaries}/bench-load", "--protocol", "martlet", "--port", server.port,
                "--subscribers", count, "--offline", 1, "--server", server.process.pid,
                *server.options()], core=None)[0]
            time.sleep(3)
            told = end(started)
    per_connection = (after - before) / count
    delivered = sum(one["delivered"] for one in told)
    if delivered != count:
        raise RuntimeError(f"{delivered} of {count} connections got the message")
    first = (min(one["firstDelivery"] for one in told) - sent["published"]) / 1e6
    last = (max(one["lastDelivery"] for one in told) - sent["published"]) / 1e6
    report.figures("scale", f"{count} idle", kind.name, 0, {
        "bytesPerConnection": per_connection, "descriptors": descriptors,
        "slabBytesPerConnection": kernel / count, "firstMilliseconds": first,
        "lastMilliseconds": last})
    report.at_most(
        f"user-space memory per idle connection, {text} connections", per_connection,
        1024 if kind is MartletTLS else 400, "{:.0f} B", "" if kind is MartletTLS else "idle")
    rows.append(
        f"| {text} | {loops} | {descriptors} | {after / 1e6:.1f} MB / {per_connection:.0f} B | "
        f"{kernel / count:,.0f} B |")
    messages.append(
        f"- {text}: first delivery after {first:.1f} ms, last after {last:.0f} ms")


# Several apps on each connection.

def shared(binaries, progress, report):
    """What each further app costs on a connection that several share."""
    def start(**options):
        return Martlet(binaries, **options)

    progress(1, 1, f"{SHARED_CONNECTIONS:,} shared connections, {APPS[-1]} apps on each")
    cells = shared_memory().measure(start)
    held = [figures["memory"] for figures in cells.values()]
    for name, figures in cells.items():
        report.figures("scale", name, "Martlet", 0, figures)
    report.at_most(
        "user-space memory of each further app on a shared connection",
        (held[-1] - held[0]) / (APPS[-1] - APPS[0]), 200, "{:.0f} B", "idle")
    report.section(f"{SHARED_CONNECTIONS:,} shared connections", "\n".join(table(
        ["apps on each connection", "bytes of user-space memory per connection", "per app"],
        [[apps, f"{value:,.0f}", f"{value / apps:,.0f}"] for apps, value in zip(APPS, held)])))


# Restart.

def restart(binaries, instances, progress, report):
    """From the start of the process to the first delivery: a registered device that connects again and
    takes a message stored before. Warm with the store in the page cache, cold without any of it."""
    with Folder() as folder:
        data = pathlib.Path(folder) / "data"
        progress(1, 3, f"{instances:,} instances are built")
        built = lines([f"{binaries}/bench-store", "instances", data, instances])[0]
        progress(2, 3, f"restarts with {instances:,} instances")
        with Martlet(binaries, data=data) as server:
            store_message(server, data)
        times = {"warm": [], "cold": []}
        for _ in range(3):
            for state in times:
                times[state].append(restarted(binaries, data, state == "cold"))
        backup.run(binaries, data, instances, progress, report)
        progress(3, 3, f"{RETURNING:,} of {instances:,} come back")
        returned = returning(binaries, data, built["subscribers"])
    warm, cold = (sorted(times[state])[1] for state in ["warm", "cold"])
    report.figures(
        "scale", "restart", "Martlet", 0, {"warmSeconds": warm, "coldSeconds": cold, **built})
    report.figures("scale", "coming back", "Martlet", 0, returned)
    report.verdict(
        f"restart with {instances // 1_000_000} M registered instances, to the first delivery",
        "< 1 s", f"{warm:.3f} s", warm < 1)
    report.section(f"Restart with {instances:,} registered instances", "\n".join(table(
        ["store", "on disk", "start to first delivery, ms"],
        [[f"{built['bytesPerInstance']:.0f} bytes an instance; in the page cache",
          f"{built['bytesOnDisk'] / 1e9:.2f} GB", f"{warm * 1e3:.1f}"],
         ["the same, nothing of it in the page cache", "", f"{cold * 1e3:.1f}"]]) + [
        "", "Each instance has its token, record, topics, mailbox row, time seen and places in four "
        "sets, written in the order of the tokens. Before each start the broker was killed with one message stored "
        "for the device that comes back. Medians of 3.", "",
        f"All of them and {RETURNING:,} devices more are subscribed to one topic, all offline. A "
        f"message to it is accepted after {returned['acceptedMilliseconds']:.2f} ms with "
        f"{returned['bytesWritten'] / returned['offline']:,.0f} bytes written "
        f"({returned['offline']} messages). The {RETURNING:,} then come back at once and have "
        f"{returned['offline']} messages each after {returned['seconds']:.2f} s: "
        f"{returned['deliveriesPerSecond']:,.0f} deliveries/s, "
        f"{returned['serverNanoseconds']:,.0f} ns of server CPU each."]))


def returning(binaries, data, subscribers):
    """A topic's message to everybody, then some of them come back."""
    with Martlet(binaries, data=data) as server:
        found = generator(server, "martlet-durable", subscribers, "--offline", 10)
        found |= generator(
            server, "martlet-durable", RETURNING, "--load", data / "devices", "--drain", 10)
    return found


def store_message(server, data):
    """One message for the one device whose key is known."""
    generator(server, "martlet-direct", 1, "--load", data / "device", "--offline", 1)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()


def restarted(binaries, data, is_cold):
    if is_cold:
        forget(data / "data.mdb")
    began = time.monotonic_ns()
    with Martlet(binaries, data=data) as server:
        found = generator(server, "martlet-direct", 1, "--load", data / "device", "--drain", 1)
        store_message(server, data)
    return (found["firstDelivery"] - began) / 1e9


def forget(path):
    """Drops the file's pages from the page cache; this needs no rights, and no other file suffers."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
